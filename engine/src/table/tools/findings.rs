//! What a check or a scrub says of the files that are damaged, and of those that a newer release wrote.

use super::check::{Finding, Report, User};
use crate::error::{Error, Kind};

impl Finding {
    pub(super) fn new(file: &str, error: &Error, user: &User) -> Finding {
        let User { snapshots, live_tables } = user.clone();
        let (file, detail) = (file.to_owned(), error.detail().to_owned());
        Finding { file, detail, snapshots, live_tables }
    }

    /// The same with `advice` in place of what the error advises, if it does.
    pub(super) fn advising(file: &str, error: &Error, user: &User, advice: &str) -> Finding {
        let detail = format!("{}; {advice}", error.what());
        Finding { detail, ..Finding::new(file, error, user) }
    }
}

impl Report {
    /// One of which every finding gives `advice`.
    pub(super) fn advising(advice: &'static str) -> Report {
        Report { advice: Some(advice), ..Report::default() }
    }

    pub(super) fn add(&mut self, file: &str, error: &Error, user: &User) {
        if error.kind() == Kind::Version {
            self.newer.get_or_insert_with(|| error.detail().to_owned());
            // It is no damage.
            return;
        }
        self.findings.push(match self.advice {
            Some(advice) => Finding::advising(file, error, user, advice),
            None => Finding::new(file, error, user),
        });
    }
}

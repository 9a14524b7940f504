//! How the program ends: 0 yes or sound, 1 no, 2 could not run, 3 damaged. The same in every command.

use std::io::ErrorKind::BrokenPipe;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::error::{ContextKind, ErrorKind};
use varvite::{Error, Kind};

use crate::print::{self, records};
use crate::progress;
use crate::system::volume;
use crate::words;

/// The exit code when something is damaged.
const DAMAGED: u8 = 3;
/// The exit code when the arguments are wrong.
const USAGE: u8 = 2;

/// What is known already, whoever listens.
static KNOWN: AtomicU8 = AtomicU8::new(0);

/// So much is known already: who has read enough of the output is told at least this.
pub fn note(verdict: Verdict) {
    KNOWN.fetch_max(verdict as u8, Ordering::Relaxed);
}

/// Something damaged was seen.
pub fn note_damage() {
    note(Verdict::Damaged);
}

/// The exit code when nobody reads the output any more.
fn unheard() -> u8 {
    KNOWN.load(Ordering::Relaxed)
}

/// What a command found when it could run; its number is the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, or everything is sound.
    Yes = 0,
    /// No: what was asked for is not there, or what was to hold does not.
    No = 1,
    /// Something could not be done, such as a line of a shell, and has said why.
    Failed = 2,
    /// Something is damaged.
    Damaged = DAMAGED as isize,
}

impl Verdict {
    /// Yes when `it` is there, or holds. A no is [noted](note): make it before it is printed.
    pub fn found(it: bool) -> Verdict {
        if it {
            return Verdict::Yes;
        }
        note(Verdict::No);
        Verdict::No
    }

    /// That of an exit code.
    pub fn of(code: u8) -> Verdict {
        match code {
            0 => Verdict::Yes,
            1 => Verdict::No,
            DAMAGED => Verdict::Damaged,
            _ => Verdict::Failed,
        }
    }

    /// Yes when nothing is damaged. Damage is [noted](note): make it before it is printed.
    pub fn sound(it: bool) -> Verdict {
        if it {
            return Verdict::Yes;
        }
        note_damage();
        Verdict::Damaged
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// An error with its sentence.
    Engine(Error),
    /// The output cannot be written: where it goes, its owner knows.
    Output(std::io::Error),
    /// Whoever read our output has seen enough.
    OutputClosed,
}

impl Failure {
    /// Its sentence.
    fn error(self) -> Error {
        match self {
            Failure::Engine(error) => volume::named(error),
            Failure::Output(error) => Error::io("write", "the output", error),
            Failure::OutputClosed => Error::io("write", "the output", BrokenPipe.into()),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

/// Only output goes through `io::Error`: whatever reads or writes files says which file it was.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == BrokenPipe {
            return Failure::OutputClosed;
        }
        Failure::Output(error)
    }
}

/// `verdict` with what kept the recording of the load from being whole, which does not take its result away: it is said, and
/// the exit code is 2 where there is nothing else to say. An answer that was wrong is more than a recording.
pub fn recorded(outcome: Result<(), Error>, verdict: Verdict) -> Verdict {
    beside(outcome.err().into_iter().collect(), verdict)
}

/// The same of errors that leave a result, the first of which says most. Damage is an answer too.
pub fn beside(errors: Vec<Error>, verdict: Verdict) -> Verdict {
    let errors: Vec<_> = errors.into_iter().map(|error| Failure::from(error).error()).collect();
    let Some(first) = errors.first() else { return verdict };
    for error in &errors {
        complain!("error: {}", print::without_control(&error.to_string()));
    }
    let all: Vec<_> = errors.iter().map(Error::to_string).collect();
    records::beside(&records::kind(first.kind()), &all.join("; "));
    match Verdict::of(code(first.kind())) {
        Verdict::Damaged => Verdict::sound(false),
        _ if verdict == Verdict::Yes => Verdict::Failed,
        _ => verdict,
    }
}

/// The result of a command.
pub type Outcome = Result<Verdict, Failure>;

/// The exit code for an error of `kind`: damage and what is proven to be hidden are answers, everything
/// else kept us from one.
pub fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Corrupt => DAMAGED,
        Kind::Hidden => 1,
        _ => 2,
    }
}

/// Says what went wrong on standard error, in one sentence, and gives the exit code; in JSON too where the
/// result would be.
pub fn report(outcome: Outcome) -> ExitCode {
    ExitCode::from(ended(outcome))
}

/// The same where the program goes on, to a command of which nothing is known yet.
pub fn ended(outcome: Outcome) -> u8 {
    let code = told(outcome);
    KNOWN.store(0, Ordering::Relaxed);
    code
}

fn told(outcome: Outcome) -> u8 {
    progress::tell();
    if let Ok(verdict) = outcome {
        note(verdict);
    }
    let ended = match outcome {
        Ok(verdict) => records::finish(verdict as u8, None).map(|()| verdict as u8),
        Err(Failure::OutputClosed) => return unheard(),
        Err(failure) => {
            let error = failure.error();
            // One line, whatever names are in it.
            complain!("error: {}", print::without_control(&error.to_string()));
            let code = code(error.kind());
            let told = (&*records::kind(error.kind()), &*error.to_string());
            // Whoever does not read the output has the sentence.
            let _ = records::finish(code, Some(told));
            return code;
        }
    };
    match ended.map_err(Failure::from) {
        Ok(code) => code,
        Err(Failure::OutputClosed) => unheard(),
        Err(failure) => {
            let error = failure.error();
            complain!("error: {error}");
            code(error.kind())
        }
    }
}

/// Says that the arguments are wrong, and what may be meant, in JSON too; in the shell of a face as a line is typed there.
pub fn refused(mut error: clap::Error, tip: Option<&str>, shell: Option<&str>) -> u8 {
    if tip.is_some() || words::is_far(&error) {
        // Words that look alike are less than what is known to be meant, or than nothing.
        for kind in [
            ContextKind::SuggestedSubcommand,
            ContextKind::SuggestedArg,
            ContextKind::SuggestedValue,
        ] {
            error.remove(kind);
        }
        error.remove(ContextKind::Suggested);
        if error.kind() == ErrorKind::UnknownArgument {
            error.remove(ContextKind::Usage); // it shows the flag that looks alike
        }
    }
    match shell {
        // There is nobody to be told that standard error is closed.
        None => drop(error.print()),
        Some(face) => {
            complain!("{}", words::as_in_shell(&error.render().to_string(), face).trim_end());
        }
    }
    if let Some(tip) = tip {
        complain!("\n  tip: {tip}");
    }
    let text = error.render().to_string();
    // What is missing stands in lines of its own.
    let message: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let message = message.join(" ");
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let message = tip.map_or_else(|| message.to_owned(), |tip| format!("{message}; {tip}"));
    let _ = records::finish(USAGE, Some(("usage", &*message)));
    USAGE
}

/// Says that a line of a shell is in another language than its own, and what is meant.
pub fn not_spoken(what: &str, tip: &str) -> u8 {
    complain!("error: {what}\n\n  tip: {tip}");
    let _ = records::finish(USAGE, Some(("usage", &*format!("{what}; {tip}"))));
    USAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_code_and_few_are_answers() {
        for kind in Kind::ALL {
            let expected = match kind {
                Kind::Corrupt => 3,
                Kind::Hidden => 1,
                _ => 2,
            };
            assert_eq!(code(kind), expected, "{kind}");
        }
    }

    #[test]
    fn a_recording_that_failed_hides_no_answer() {
        let failed = || Err(Error::invalid("the disk is full"));
        assert_eq!(recorded(failed(), Verdict::Yes), Verdict::Failed);
        for verdict in [Verdict::No, Verdict::Damaged] {
            assert_eq!(recorded(failed(), verdict), verdict);
        }
        assert_eq!(recorded(Ok(()), Verdict::No), Verdict::No);
    }

    #[test]
    fn what_ended_a_load_hides_no_answer_and_damage_is_one() {
        let errors = |first: Error| vec![first, Error::invalid("the disk is full")];
        let invalid = || errors(Error::invalid("too much is held"));
        assert_eq!(beside(invalid(), Verdict::Yes), Verdict::Failed);
        assert_eq!(beside(invalid(), Verdict::No), Verdict::No);
        assert_eq!(beside(Vec::new(), Verdict::Yes), Verdict::Yes);
        let damaged = || errors(Error::corrupt("pack", 0, "a record", "none"));
        assert_eq!(beside(damaged(), Verdict::No), Verdict::Damaged);
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let closed = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(matches!(Failure::from(closed), Failure::OutputClosed));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(matches!(Failure::from(full), Failure::Output(_)));
    }
}

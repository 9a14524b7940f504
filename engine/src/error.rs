//! One error type for the whole engine, sorted by what the caller does next.
//!
//! `Error` is one pointer wide. Its `Display` is a sentence that a user can act on: it names the
//! file, the place in it, what was expected, what was found, and the next step.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Range;

/// The result of every fallible call of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// What the caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The disk refused or failed: free space, fix permissions or the device, then try again.
    Io,
    /// Bytes on disk are not what was written: restore from a snapshot or another copy.
    Corrupt,
    /// The file was written by a newer release: use that release.
    Version,
    /// Another process has the store open for writing: close it first.
    Locked,
    /// What was named does not exist.
    Missing,
    /// What was to be created exists already.
    Exists,
    /// The call itself is wrong: fix its arguments.
    Invalid,
    /// The handle was closed: open it again.
    Closed,
    /// A sync or a rollback failed earlier, so writing has stopped: reopen the store.
    Poisoned,
    /// A proof does not show what was looked at: ask for one that does.
    Hidden,
    /// A collection took it, as it was told to: ask a store that keeps older commits.
    Collected,
}

impl Kind {
    /// Every kind, in the order of their codes.
    pub const ALL: [Kind; 11] = [
        Kind::Io,
        Kind::Corrupt,
        Kind::Version,
        Kind::Locked,
        Kind::Missing,
        Kind::Exists,
        Kind::Invalid,
        Kind::Closed,
        Kind::Poisoned,
        Kind::Hidden,
        Kind::Collected,
    ];

    /// Whether an error of it may come from the bytes of a file: damaged, of a newer release, or no file of ours.
    pub(crate) fn is_of_bytes(self) -> bool {
        [Kind::Corrupt, Kind::Version, Kind::Invalid].contains(&self)
    }

    /// A number that no release changes: 1 to 11 in the order of [`Kind::ALL`].
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8 + 1
    }

    /// The name in lower case, as bindings and JSON show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Io => "io",
            Kind::Corrupt => "corrupt",
            Kind::Version => "version",
            Kind::Locked => "locked",
            Kind::Missing => "missing",
            Kind::Exists => "exists",
            Kind::Invalid => "invalid",
            Kind::Closed => "closed",
            Kind::Poisoned => "poisoned",
            Kind::Hidden => "hidden",
            Kind::Collected => "collected",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An error with its kind, a sentence, and the error below it if there is one. Of many the sentence's parts are known:
/// the file that it is of, and what it advises in the end.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    detail: String,
    /// Where in the sentence the name of the file is.
    file: Option<Range<usize>>,
    /// Where in the sentence the advice begins, which goes to its end.
    advice: Option<usize>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// What is advised where a file of a store is damaged.
    pub const CHECK_ADVICE: &'static str =
        "run `varvite check` and restore it from a snapshot or another copy";

    /// The same of a context, where a damage costs the commits that have what it hit, and no others.
    pub const REPAIR_ADVICE: &'static str = "`varvite repair` makes a new store of what is whole, if you cannot \
        restore it from a snapshot or another copy";

    /// The same error of a context's own files, whose advice is [`Error::REPAIR_ADVICE`].
    pub(crate) fn of_context(self) -> Self {
        // In a browser there is nothing that repairs.
        if !cfg!(varvite_js) && self.advice() == Some(Error::CHECK_ADVICE) {
            self.advised(Error::REPAIR_ADVICE)
        } else {
            self
        }
    }

    /// An error of `kind` that says `detail`.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Error(Box::new(Inner { kind, detail, file: None, advice: None, source: None }))
    }

    /// An error that says the same, without its source.
    pub(crate) fn again(&self) -> Self {
        let Inner { kind, ref detail, ref file, advice, .. } = *self.0;
        let (detail, file) = (detail.clone(), file.clone());
        Error(Box::new(Inner { kind, detail, file, advice, source: None }))
    }

    /// An error of `kind` that says of `file` what stands behind its name.
    pub(crate) fn of_file(kind: Kind, file: &str, what: impl fmt::Display) -> Self {
        let mut error = Error::new(kind, format!("{file} {what}"));
        error.0.file = Some(0..file.len());
        error
    }

    /// The same error, whose sentence ends with `advice`, and two characters before it.
    #[must_use]
    pub(crate) fn advising(mut self, advice: &str) -> Self {
        debug_assert!(self.0.detail.ends_with(advice), "{}", self.0.detail);
        self.0.advice = Some(self.0.detail.len() - advice.len());
        self
    }

    /// The same error with the one that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Box::new(source));
        self
    }

    /// The same error with `context` in front of its sentence, as "context: sentence".
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        let before = self.0.detail.len();
        self.0.detail = format!("{context}: {}", self.0.detail);
        let added = self.0.detail.len() - before;
        self.0.file = self.0.file.map(|it| it.start + added..it.end + added);
        self.0.advice = self.0.advice.map(|it| it + added);
        self
    }

    /// The same error with `advice` in place of its own, or behind its sentence where it has none.
    #[must_use]
    pub(crate) fn advised(mut self, advice: &str) -> Self {
        let end = self.what().len();
        self.0.detail.truncate(end);
        self.0.detail.push_str("; ");
        self.0.advice = Some(self.0.detail.len());
        self.0.detail.push_str(advice);
        self
    }

    /// The file that the error is of, as its sentence names it, where that is known: what a disk calls it, or a host.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.0.file.clone().map(|it| &self.0.detail[it])
    }

    /// The same error with `name` for its [`Error::file`]; as it is where that is not known.
    #[must_use]
    pub fn with_file(mut self, name: &str) -> Self {
        if let Some(place) = self.0.file.clone() {
            self.0.detail.replace_range(place.clone(), name);
            self.0.advice = self.0.advice.map(|it| it - place.len() + name.len());
            self.0.file = Some(place.start..place.start + name.len());
        }
        self
    }

    /// What the sentence advises in its end, where that is known.
    #[must_use]
    pub fn advice(&self) -> Option<&str> {
        self.0.advice.map(|it| &self.0.detail[it..])
    }

    /// The same error with `advice` in place of its [`Error::advice`]; as it is where that is not known.
    #[must_use]
    pub fn with_advice(self, advice: &str) -> Self {
        if self.0.advice.is_some() { self.advised(advice) } else { self }
    }

    /// The sentence without its [`Error::advice`].
    #[must_use]
    pub fn what(&self) -> &str {
        let end = self.0.advice.map_or(self.0.detail.len(), |advice| advice - "; ".len());
        &self.0.detail[..end]
    }

    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The sentence, without the source.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// `Corrupt`: `file` at byte `offset` held `found` where `expected` should be.
    pub fn corrupt(
        file: &str,
        offset: u64,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        let what = format!("is damaged at byte {offset}: expected {expected}, found {found}; ");
        let mut error = Error::of_file(Kind::Corrupt, file, what);
        error.0.advice = Some(error.0.detail.len());
        error.0.detail.push_str(Error::CHECK_ADVICE);
        error
    }

    /// `Io` from the operating system, with what was being done to which file.
    pub fn io(action: &str, file: &str, source: std::io::Error) -> Self {
        let advice = match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Some("free some space and try again")
            }
            std::io::ErrorKind::PermissionDenied => Some("check the permissions of the folder"),
            _ => None,
        };
        let start = "could not ".len() + action.len() + " ".len();
        let mut error = Error::new(Kind::Io, format!("could not {action} {file}: {source}"));
        error.0.file = Some(start..start + file.len());
        match advice {
            Some(advice) => error.advised(advice).with_source(source),
            None => error.with_source(source),
        }
    }

    /// Whether the disk is full.
    pub(crate) fn is_no_space(&self) -> bool {
        let source = StdError::source(self).and_then(|it| it.downcast_ref::<std::io::Error>());
        source.is_some_and(|source| {
            let kind = source.kind();
            matches!(kind, std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
        })
    }

    /// `Invalid`: the caller's argument is wrong.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Error::new(Kind::Invalid, detail)
    }

    /// `Missing`: what was named does not exist.
    pub fn missing(detail: impl Into<String>) -> Self {
        Error::new(Kind::Missing, detail)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({}: {})", self.0.kind, self.0.detail)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn parts_of_a_sentence_are_known_wherever_they_are() {
        let error =
            Error::corrupt("a.pack", 7, "one; or two", "three").context("the lower folder x");
        assert_eq!((error.file(), error.advice()), (Some("a.pack"), Some(Error::CHECK_ADVICE)));
        let what = "is damaged at byte 7: expected one; or two, found three";
        assert_eq!(error.what(), format!("the lower folder x: a.pack {what}"));
        let error = error.with_file("folder/a.pack").with_advice("take another");
        assert_eq!((error.file(), error.advice()), (Some("folder/a.pack"), Some("take another")));
        let sentence = format!("the lower folder x: folder/a.pack {what}; take another");
        assert_eq!(error.detail(), sentence);
        assert_eq!(error.with_file("b").with_advice("").file(), Some("b"));
        let failed = Error::io("read", "a.pack", std::io::ErrorKind::PermissionDenied.into());
        let advice = "check the permissions of the folder";
        assert_eq!((failed.file(), failed.advice()), (Some("a.pack"), Some(advice)));
        assert!(failed.detail().ends_with(&format!("; {advice}")), "{failed}");
        assert!(!failed.what().contains(';'), "{failed}");
        let full = Error::io("write", "a", std::io::ErrorKind::StorageFull.into());
        assert_eq!(full.with_advice("wait").advice(), Some("wait"));
        let other = Error::io("read", "a.pack", std::io::ErrorKind::TimedOut.into());
        assert_eq!(other.advice(), None);
        assert!(failed.with_file("b").detail().starts_with("could not read b: "));
        let plain = Error::invalid("a; b").with_file("x").with_advice("y");
        assert_eq!((plain.detail(), plain.file(), plain.what()), ("a; b", None, "a; b"));
        let advised = plain.advised("c; d").context("e");
        assert_eq!((advised.detail(), advised.advice()), ("e: a; b; c; d", Some("c; d")));
        assert_eq!(advised.advised("f").detail(), "e: a; b; f");
    }

    #[test]
    fn codes_and_names_are_distinct_and_in_order() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(usize::from(kind.code()), index + 1);
            assert!(Kind::ALL[..index].iter().all(|other| other.name() != kind.name()));
        }
    }
}

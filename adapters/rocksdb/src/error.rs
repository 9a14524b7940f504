//! Errors in the peer's shape: a text whose beginning tells the kind.

use std::error::Error as StdError;
use std::fmt;

use varvite::Kind;

/// What kind of error it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// What was named does not exist.
    NotFound,
    /// Bytes on disk are not what was written.
    Corruption,
    /// This cannot be done here.
    NotSupported,
    /// The call is wrong.
    InvalidArgument,
    /// The operating system refused or failed, or somebody else has the database open.
    IOError,
    /// Not given here: nothing is merged by operators.
    MergeInProgress,
    /// Not given here: no read stops half-way.
    Incomplete,
    /// The database was closed.
    ShutdownInProgress,
    /// Not given here: nothing waits for a time.
    TimedOut,
    /// Not given here: nothing is cut off.
    Aborted,
    /// Somebody else wrote what a transaction wrote or read for update.
    Busy,
    /// Not given here: transactions do not grow old.
    Expired,
    /// Too much was written to know whether a transaction has conflicts.
    TryAgain,
    /// Not given here: there are no compactions.
    CompactionTooLarge,
    /// Not given here, and rarely by the peer: a write to a dropped column family is `InvalidArgument`.
    ColumnFamilyDropped,
    /// Something else.
    Unknown,
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    message: String,
}

/// The beginnings of messages and what they tell.
const BEGINNINGS: [(&str, ErrorKind); 15] = [
    ("NotFound", ErrorKind::NotFound),
    ("Corruption", ErrorKind::Corruption),
    ("Not implemented", ErrorKind::NotSupported),
    ("Invalid argument", ErrorKind::InvalidArgument),
    ("IO error", ErrorKind::IOError),
    ("Shutdown in progress", ErrorKind::ShutdownInProgress),
    ("Resource busy", ErrorKind::Busy),
    ("Merge in progress", ErrorKind::MergeInProgress),
    ("Result incomplete", ErrorKind::Incomplete),
    ("Operation timed out", ErrorKind::TimedOut),
    ("Operation aborted", ErrorKind::Aborted),
    ("Operation expired", ErrorKind::Expired),
    ("Operation failed. Try again.", ErrorKind::TryAgain),
    ("Compaction too large", ErrorKind::CompactionTooLarge),
    ("Column family dropped", ErrorKind::ColumnFamilyDropped),
];

impl Error {
    /// An error of `kind` that says `text`.
    pub(crate) fn new(kind: ErrorKind, text: impl fmt::Display) -> Error {
        let beginning = BEGINNINGS.iter().find(|(_, it)| *it == kind);
        let beginning = beginning.map_or("Unknown", |(beginning, _)| beginning);
        Error { message: format!("{beginning}: {text}") }
    }

    pub(crate) fn invalid(text: impl fmt::Display) -> Error {
        Error::new(ErrorKind::InvalidArgument, text)
    }

    /// The message.
    #[must_use]
    pub fn into_string(self) -> String {
        self.message
    }

    /// What its beginning tells.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        let beginning = self.message.split(':').next().unwrap_or_default();
        let found = BEGINNINGS.iter().find(|(it, _)| *it == beginning);
        found.map_or(ErrorKind::Unknown, |(_, kind)| *kind)
    }
}

impl From<varvite::Error> for Error {
    /// Keeps the text, and that of what caused it.
    fn from(error: varvite::Error) -> Error {
        let kind = match error.kind() {
            Kind::Io | Kind::Locked | Kind::Poisoned => ErrorKind::IOError,
            Kind::Corrupt => ErrorKind::Corruption,
            Kind::Version => ErrorKind::NotSupported,
            Kind::Missing => ErrorKind::NotFound,
            Kind::Closed => ErrorKind::ShutdownInProgress,
            _ => ErrorKind::InvalidArgument,
        };
        Error::new(kind, error)
    }
}

impl AsRef<str> for Error {
    fn as_ref(&self) -> &str {
        &self.message
    }
}

impl From<Error> for String {
    fn from(error: Error) -> String {
        error.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {}

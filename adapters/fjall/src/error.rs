//! Errors in the peer's shape, with varvite's sentences.

use std::fmt;
use std::io;

use varvite::Kind;

/// What every call gives.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of varvite that has no place of its own here: damage, a version, a call that cannot be.
pub struct LsmError(varvite::Error);

impl LsmError {
    /// What the caller can do about it.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind()
    }
}

impl fmt::Debug for LsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for LsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for LsmError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0)
    }
}

/// Why a call failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Everything that is not below: its text names the file, the place and the next step.
    Storage(LsmError),
    /// The operating system refused or failed; varvite's error is inside.
    Io(io::Error),
    /// A write or sync failed before, so nothing more is written: open the database again.
    Poisoned,
    /// The keyspace was deleted.
    KeyspaceDeleted,
    /// Somebody else has the database open.
    Locked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FjallError: ")?;
        match self {
            Error::Storage(error) => error.fmt(f),
            Error::Io(error) => error.fmt(f),
            Error::Poisoned => f.write_str(
                "a write or sync failed earlier, so nothing more is written; open the database again",
            ),
            Error::KeyspaceDeleted => {
                f.write_str("the keyspace was deleted; make it again with Database::keyspace")
            }
            Error::Locked => f.write_str(
                "the database is open elsewhere, in this process or another; close it there first",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Storage(error) => Some(error),
            Error::Io(error) => Some(error),
            Error::Poisoned | Error::KeyspaceDeleted | Error::Locked => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

impl From<varvite::Error> for Error {
    fn from(error: varvite::Error) -> Error {
        match error.kind() {
            Kind::Io => Error::Io(io::Error::new(varvite_adapters::io_kind(&error), error)),
            Kind::Locked => Error::Locked,
            Kind::Poisoned => Error::Poisoned,
            _ => Error::Storage(LsmError(error)),
        }
    }
}

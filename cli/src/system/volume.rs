//! Which volume is full, and which limit a file has come to: what the operating system's errors leave out.

#[cfg(unix)]
mod unix;

use std::error::Error as _;
use std::io;
#[cfg(unix)]
use std::sync::Mutex;

use varvite::Error;

/// What of the operating system's error stands behind `error`.
fn kind(error: &Error) -> Option<io::ErrorKind> {
    let mut source = error.source();
    while let Some(below) = source {
        if let Some(found) = below.downcast_ref::<io::Error>() {
            return Some(found.kind());
        }
        source = below.source();
    }
    None
}

/// Whether there was no room.
pub fn is_full(error: &Error) -> bool {
    matches!(kind(error), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// Which volume was full when it was last looked for.
#[cfg(unix)]
static SEEN: Mutex<Option<String>> = Mutex::new(None);

/// Looks which volume is full, for whoever removes what may have filled it before the error is told.
pub fn look() {
    #[cfg(unix)]
    if let (Ok(mut seen), Some(full)) = (SEEN.lock(), unix::full()) {
        *seen = Some(full);
    }
}

/// The volume that is full, or was when something was removed from it.
#[cfg(unix)]
fn full() -> Option<String> {
    SEEN.lock().ok().and_then(|mut seen| seen.take()).or_else(unix::full)
}

/// `error` with the volume that is full, or the limit of files that it ran into.
pub fn named(error: Error) -> Error {
    let named: Option<String> = match kind(&error) {
        #[cfg(unix)]
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => full(),
        #[cfg(unix)]
        Some(io::ErrorKind::FileTooLarge) => unix::limit(),
        _ => None,
    };
    match named {
        Some(named) => Error::new(error.kind(), format!("{}; {named}", error.detail())),
        None => error,
    }
}

/// Has a write beyond the limit of a file's size fail, as any other write does: without this it is the end of
/// the process.
pub fn survive_limits() {
    #[cfg(unix)]
    unix::survive_limits();
}

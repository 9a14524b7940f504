//! What is done when the process has no descriptor left.

#[cfg(unix)]
use crate::disk::open_files::let_go;

/// Does `open` once more with half of the files closed that may be, when it finds that the process, or the
/// system, has no descriptor left.
#[cfg(unix)]
pub(super) fn with_descriptor<T>(
    mut open: impl FnMut() -> std::io::Result<T>,
) -> std::io::Result<T> {
    use rustix::io::Errno;
    match open() {
        Err(error)
            if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE))
                && let_go() =>
        {
            open()
        }
        opened => opened,
    }
}

/// Elsewhere nobody counts what a process has open.
#[cfg(not(unix))]
pub(super) fn with_descriptor<T>(
    mut open: impl FnMut() -> std::io::Result<T>,
) -> std::io::Result<T> {
    open()
}

//! Paths are relative, `/` between components, and never leave the root.

use crate::error::{Error, Kind, Result};

/// `Invalid` unless `path` names something below the root.
pub(super) fn check(path: &str) -> Result<()> {
    let sound = path
        .split('/')
        .all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'));
    if sound {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{path:?} is not a path within a disk: use names separated by single slashes, \
         relative to the disk's root, without . and .."
    )))
}

/// As [`check`], but the empty path is the root.
pub(super) fn check_directory(path: &str) -> Result<()> {
    if path.is_empty() { Ok(()) } else { check(path) }
}

/// The folder that holds `path` (`""` for the root) and the name in it.
pub(crate) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// `Missing`: `path` is not there.
pub(super) fn missing(path: &str) -> Error {
    Error::of_file(Kind::Missing, path, "does not exist: check the name and the disk's root")
}

/// `Exists`: `path` is there.
pub(super) fn exists(path: &str) -> Error {
    Error::new(Kind::Exists, format!("{path} exists already: remove it or use another name"))
}

/// `Invalid`: `path` is a folder where a file is needed.
pub(super) fn is_folder(path: &str) -> Error {
    Error::invalid(format!("{path} is a folder, where a file is needed"))
}

/// `Invalid`: `path` is a file where a folder is needed.
pub(super) fn is_file(path: &str) -> Error {
    Error::invalid(format!("{path} is a file, not a folder"))
}

/// `Io`: `path` is open, and the file system keeps names of open files.
pub(super) fn is_open(path: &str) -> Error {
    let detail = format!(
        "could not replace or remove {path}, perhaps because it is open: try again, check the permissions, or put \
         the store on a file system that lets open files go, as NTFS does since Windows 10"
    );
    Error::new(Kind::Io, detail)
}

/// `Io`: the folder `path` has something in it.
pub(super) fn is_not_empty(path: &str) -> Error {
    Error::io("remove the folder", path, std::io::ErrorKind::DirectoryNotEmpty.into())
}

/// `Locked`: `holder` has the lock.
pub(super) fn locked(path: &str, holder: &str) -> Error {
    let holder = match holder.trim() {
        "" => "another process",
        holder => holder,
    };
    Error::new(Kind::Locked, format!("{path} is locked by {holder}: close it there first"))
}

/// `Invalid` unless direct access to `length` bytes at `offset` is aligned.
pub(super) fn check_aligned(path: &str, offset: u64, length: usize, start: usize) -> Result<()> {
    let unit = super::ALIGNMENT;
    if offset.is_multiple_of(unit as u64)
        && length.is_multiple_of(unit)
        && start.is_multiple_of(unit)
    {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "direct access to {path} needs offset, length and memory in multiples of {unit} bytes, \
         not offset {offset}, length {length}, memory at {start:#x}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_root() {
        for path in ["a", "a/b", "a/b/c.x", "...", "a b"] {
            check(path).unwrap();
        }
        for path in ["", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0"] {
            assert_eq!(check(path).unwrap_err().kind(), Kind::Invalid, "{path}");
        }
        assert_eq!(split("a/b/c"), ("a/b", "c"));
        assert_eq!(split("c"), ("", "c"));
    }
}

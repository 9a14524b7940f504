//! Ownership a file is that has the name of a chunk: the store's own, or one that somebody has put there.
//!
//! Chunks are named by epoch, number and generation, so those of two stores, or of two copies of one, have the same names.
//! What a store removes or writes over by its name is looked at first: by its header, which says store and identity. One
//! whose header is not written yet, or lost to a power cut, is nobody's, and one of which a bit is damaged the store's own.

use super::{chunk_identity, parse_chunk, sparse_identity};
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::replace;
use crate::format::header::{self, Header};

/// What the name of a file of a copy of the store ends with, once its own name is of no use to it.
const ASIDE: &str = ".other";

/// Ownership a file is, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ownership {
    /// The store's, or nobody's yet; or there is none.
    Own,
    OfAnotherStore,
    /// Another chunk of the store, or what a newer release wrote.
    OfAnotherName,
    /// It has no header.
    Unknown,
}

fn whose(disk: &dyn Disk, store: u64, path: &str) -> Result<Ownership> {
    // In a browser nobody gets at the files of a store.
    if cfg!(varvite_js) {
        return Ok(Ownership::Own);
    }
    let name = replace::unfinished(path).unwrap_or(path);
    let Some((epoch, number, generation)) = parse_chunk(name) else { return Ok(Ownership::Own) };
    let identity = match generation {
        Some(generation) => sparse_identity(store, epoch, number, generation),
        None => chunk_identity(store, epoch, number),
    };
    let file = match disk.open(path, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(Ownership::Own),
        file => file?,
    };
    let mut bytes = [0; header::LENGTH];
    if file.read_at(0, &mut bytes)? < bytes.len() || bytes == [0; header::LENGTH] {
        return Ok(Ownership::Own);
    }
    Ok(match Header::decode(path, &bytes) {
        Ok(header) if (header.store, header.identity) == (store, identity) => Ownership::Own,
        Ok(header) if header.store != store => Ownership::OfAnotherStore,
        Ok(_) => Ownership::OfAnotherName,
        Err(error) if error.kind() == Kind::Version => Ownership::OfAnotherName,
        Err(_) if Header::resembles(&bytes, identity, store) => Ownership::Own,
        Err(_) => Ownership::Unknown,
    })
}

/// Whether the file at `path`, the name of a chunk, is not that of `store`, or not this chunk: it stays. Reads its header.
pub(crate) fn is_others(disk: &dyn Disk, store: u64, path: &str) -> Result<bool> {
    Ok(whose(disk, store, path)? != Ownership::Own)
}

/// The same of a file with the name of the next chunk, in which no batch is whole: what a power cut left of that may be
/// stale bytes.
pub(crate) fn says_it_is_others(disk: &dyn Disk, store: u64, path: &str) -> Result<bool> {
    Ok(!matches!(whose(disk, store, path)?, Ownership::Own | Ownership::Unknown))
}

/// Whether it says that it is of another store, so that it tells nothing of this one.
pub(crate) fn is_of_another_store(disk: &dyn Disk, store: u64, path: &str) -> bool {
    matches!(whose(disk, store, path), Ok(Ownership::OfAnotherStore))
}

/// Gives the file at `path`, which is of a copy of the store, another name, which it returns; it is not durable yet. By its
/// header it is the store's own, and the next opening would take it for what a crash has left.
pub(crate) fn set_aside(disk: &dyn Disk, path: &str) -> Result<String> {
    let mut aside = format!("{path}{ASIDE}");
    while disk.exists(&aside)? {
        aside.push_str(ASIDE);
    }
    disk.rename(path, &aside)?;
    Ok(aside)
}

/// What is told of it.
pub(crate) fn told_aside(path: &str, aside: &str) -> String {
    format!(
        "{path} was of another copy of the store, which went on by itself: it is {aside} now, and perhaps the only one that \
         the copy has"
    )
}

/// What is told of a file that nothing needs, and that is there still, as `error` says.
pub(crate) fn told_left(path: &str, error: &Error) -> String {
    format!("{path}, which nothing needs, stays until it can be removed: {error}")
}

/// What is told of a file that stays.
pub(crate) fn told(disk: &dyn Disk, path: &str) -> String {
    let root = disk.root();
    format!(
        "{path} in {root} has the name of a file of this store and is another's, so it is left alone: move it to where it \
         belongs"
    )
}

/// `Invalid` when a file at `path` is another's, or has more than the `begun` bytes that an attempt of the store itself may have
/// left, so that none is made there.
pub(crate) fn expect_free(disk: &dyn Disk, store: u64, path: &str, begun: u64) -> Result<()> {
    if cfg!(varvite_js) {
        return Ok(());
    }
    let length = match disk.open(path, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(()),
        file => file?.len()?,
    };
    let whose = match is_others(disk, store, path)? {
        true => "another's",
        false if length > begun => "of a copy of the store, which went on by itself",
        false => return Ok(()),
    };
    Err(Error::invalid(format!(
        "{path}, which the store would make, is there and is {whose}: move it to where it belongs"
    )))
}

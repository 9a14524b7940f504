//! Whose a file is that has the name of a chunk: the store's own, or one that somebody has put there.
//!
//! Chunks are named by epoch, number and generation, so those of two stores, or of two copies of one, have the same names.
//! What a store removes or writes over by its name is looked at first: by its header, which says store and identity. One
//! whose header is not written yet, or lost to a power cut, is nobody's, and one of which a bit is damaged the store's own.

use super::{chunk_identity, parse_chunk, sparse_identity};
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::format::header::{self, Header};

/// Whether the file at `path`, the name of a chunk, is not that of `store`, or not this chunk: it stays. Reads its header.
pub(crate) fn is_others(disk: &dyn Disk, store: u64, path: &str) -> Result<bool> {
    // In a browser nobody gets at the files of a store.
    if cfg!(varvite_js) {
        return Ok(false);
    }
    let Some((epoch, number, generation)) = parse_chunk(path) else { return Ok(false) };
    let identity = match generation {
        Some(generation) => sparse_identity(store, epoch, number, generation),
        None => chunk_identity(store, epoch, number),
    };
    let file = match disk.open(path, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => return Ok(false),
        file => file?,
    };
    let mut bytes = [0; header::LENGTH];
    if file.read_at(0, &mut bytes)? < bytes.len() || bytes == [0; header::LENGTH] {
        return Ok(false);
    }
    Ok(match Header::decode(path, &bytes) {
        Ok(header) => (header.store, header.identity) != (store, identity),
        Err(error) if error.kind() == Kind::Version => true,
        Err(_) => !Header::resembles(&bytes, identity, store),
    })
}

/// What is told of a file that stays.
pub(crate) fn told(disk: &dyn Disk, path: &str) -> String {
    let root = disk.root();
    format!(
        "{path} in {root} has the name of a file of this store and is another's, so it is left alone: move it to where it \
         belongs"
    )
}

/// `Invalid` when a file at `path` is another's, so that none is made there.
pub(crate) fn expect_free(disk: &dyn Disk, store: u64, path: &str) -> Result<()> {
    if is_others(disk, store, path)? {
        return Err(Error::invalid(format!(
            "{path}, which the store would make, is there and is another's: move it to where it belongs"
        )));
    }
    Ok(())
}

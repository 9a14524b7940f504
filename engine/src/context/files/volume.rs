//! Chunks in the lower folder, on a disk of its own: whole, byte for byte as they were.
//!
//! A chunk says of itself which store, number and history it is of, and the control file has the checksum of
//! its last batch. A file has its name only once it is whole and synced, so what is found under such a name and
//! is another chunk is somebody's: it is never written over. Format document: `docs/format/pack.md`.

use std::sync::Arc;

use super::chunk_files::{Chunk, Files};
use crate::disk::{Access, Disk};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, Position};
use crate::file::replace::Replacement;

/// Bytes that are copied at a time.
const WINDOW: u64 = 256 << 10;

/// Copies `from` to the folder of `disk`, where it will be `to`, and reads the copy to its end before it has a
/// name: durable when this returns. A file that is there must be the same chunk. `Corrupt` when a byte of it is
/// not as it was written.
pub(crate) fn copy(
    files: &Files,
    from: &Arc<Chunk>,
    to: &Chunk,
    disk: &Arc<dyn Disk>,
) -> Result<()> {
    // Where it is there, its name may not be durable after a sync that failed: it is written anew.
    if let Err(error) = to.open(&**disk, files.store())
        && error.kind() != Kind::Missing
    {
        return Err(error.context("another file has the name of the chunk that is to be moved"));
    }
    let source = files.get(from)?;
    let (end, chain) = (from.end(), from.sealed());
    let replacement = Replacement::begin(disk, &to.path, Access::Buffered)?;
    let file = replacement.file();
    let mut bytes = vec![0; WINDOW.min(end) as usize];
    let mut place = 0;
    while place < end {
        let count = WINDOW.min(end - place);
        let bytes = &mut bytes[..count as usize];
        source.read_exact_at(place, bytes)?;
        file.write_at(place, bytes)?;
        place += count;
    }
    let each = |_: Position, _: &[u8]| Ok(());
    let found = append::scan(&**file, from.identity, Position::start(), each)?.end;
    if found.offset != end || Some(found.chain) != chain {
        let expected = format!("batches up to byte {end}");
        return Err(Error::corrupt(&from.path, found.offset, expected, "another end"));
    }
    replacement.finish()
}

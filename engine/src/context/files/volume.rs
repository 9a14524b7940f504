//! Chunks in the lower folder, on a disk of its own: whole, byte for byte as they were.
//!
//! A chunk says of itself which store, number and history it is of, and the control file has the checksum of
//! its last batch. A file has its name only once it is whole and synced, so what is found under such a name and
//! is another chunk is somebody's: it is never written over. Format document: `docs/format/pack.md`.

use std::sync::Arc;

use super::chunk::{Opening, Seal, chunk_end};
use super::chunk_files::{self, Chunk, Files};
use super::control::{Row, State};
use super::paths;
use crate::cache::Cache;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, Position};
use crate::file::replace::Replacement;
use crate::format::header::{self, FileKind, Header};

/// Bytes that are copied at a time.
const WINDOW: u64 = 256 << 10;

/// `Invalid` when the folder of `disk` is that of a store, whose chunks are its own: the same store under another path
/// too.
pub(crate) fn expect_no_store(disk: &dyn Disk) -> Result<()> {
    if disk.exists(paths::CONTROL)? || disk.exists(paths::LOCK)? {
        return Err(Error::invalid(format!(
            "{} is the folder of a store, which no lower layer may be in: give a folder of its own",
            disk.root()
        )));
    }
    Ok(())
}

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
    let end = from.end();
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
    scan(&**file, from, |_, _| Ok(()))?;
    replacement.finish()
}

/// A chunk that was found in a lower folder, whole at both of its ends.
pub(crate) struct FoundChunk {
    pub(crate) opening: Opening,
    pub(crate) seal: Seal,
    /// What a control file says of it.
    pub(crate) row: Row,
    pub(crate) chunk: Arc<Chunk>,
}

impl FoundChunk {
    /// Whether the chunk that begins so comes after it.
    pub(crate) fn is_before(&self, next: &Opening) -> bool {
        (next.number, next.base) == (self.row.number + 1, self.row.base + self.row.length)
            && next.chain == self.row.chain
    }
}

/// Looks for chunk `number` in the lower folder of `files`. `Invalid` when what is there is another store's, `Corrupt`
/// when it is not whole.
pub(crate) fn find(
    files: &Files,
    cache: &Cache,
    epoch: u64,
    number: u64,
) -> Result<Option<FoundChunk>> {
    let store = files.store();
    let Some(lower) = files.lower() else { return Ok(None) };
    let path = paths::chunk(epoch, number);
    let opening = match chunk_files::look_for(&**lower, store, epoch, number)? {
        chunk_files::Found::Nothing => return Ok(None),
        chunk_files::Found::Chunk(opening)
            if (opening.epoch, opening.number) == (epoch, number) =>
        {
            opening
        }
        _ => {
            let place = Position::start().offset;
            return Err(Error::corrupt(&path, place, "the opening of the chunk", "another batch"));
        }
    };
    let file = lower.open(&path, Mode::Read, Access::Buffered)?;
    let length = file.len()?;
    let last = length.saturating_sub(Seal::BATCH);
    let whole = || Error::corrupt(&path, last, "the end of the chunk", "other bytes");
    let identity = paths::chunk_identity(store, epoch, number);
    let end = append::position_after(&*file, identity, last)?;
    let end = end.filter(|end| end.offset == length).ok_or_else(whole)?;
    chunk_end(opening.base, length).ok_or_else(whole)?;
    let row = Row {
        number,
        count: 1,
        base: opening.base,
        length,
        chain: end.chain,
        state: State::Lower(None),
    };
    let chunk = Arc::new(Chunk::collected(cache, store, epoch, &row));
    let seal = files.read_end(&chunk)?.ok_or_else(whole)?;
    Ok(Some(FoundChunk { opening, seal, row, chunk }))
}

/// The chunks that the folder of `disk` has: store and epoch of the newest, and their numbers in order. None where
/// there is none, or where the folder is that of a store.
pub(crate) fn list(disk: &dyn Disk) -> Result<Option<(u64, u64, Vec<u64>)>> {
    let names = disk.list("")?;
    if names.iter().any(|name| [paths::CONTROL, paths::LOCK].contains(&&**name)) {
        return Ok(None);
    }
    let chunks = names.iter().filter_map(|name| paths::parse_chunk(name));
    let mut chunks: Vec<(u64, u64)> = chunks
        .filter_map(|(epoch, number, generation)| generation.is_none().then_some((epoch, number)))
        .collect();
    chunks.sort_unstable();
    let Some(&(epoch, _)) = chunks.last() else { return Ok(None) };
    chunks.retain(|chunk| chunk.0 == epoch);
    let path = paths::chunk(epoch, chunks[0].1);
    let file = disk.open(&path, Mode::Read, Access::Buffered)?;
    let mut bytes = [0; header::LENGTH];
    let found = file.read_at(0, &mut bytes)?;
    let header = Header::expect(&path, &bytes[..found], FileKind::Pack)?;
    Ok(Some((header.store, epoch, chunks.into_iter().map(|chunk| chunk.1).collect())))
}

/// Makes a chunk durable that lies in the folder of `disk`, perhaps since a copy that nobody has synced.
pub(crate) fn sync(disk: &dyn Disk, chunk: &Chunk) -> Result<()> {
    disk.open(&chunk.path, Mode::Write, Access::Buffered)?.sync()
}

/// Reads `file`, which should be all of `chunk`, a whole one that has ended. `Corrupt` when a byte of it is not as it
/// was written.
pub(crate) fn scan(
    file: &dyn File,
    chunk: &Chunk,
    each: impl FnMut(Position, &[u8]) -> Result<()>,
) -> Result<()> {
    let found = append::scan(file, chunk.identity, Position::start(), each)?.end;
    if found.offset != chunk.end() || Some(found.chain) != chunk.sealed() {
        let expected = format!("batches up to byte {}", chunk.end());
        return Err(Error::corrupt(&chunk.path, found.offset, expected, "another end"));
    }
    Ok(())
}

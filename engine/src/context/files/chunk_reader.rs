//! One chunk's file, read in large pieces.

use std::sync::Arc;

use super::chunk_files::Chunk;
use super::pack::{Pack, collected};
use super::record::{self, Tag};
use super::sparse::{KeptRecord, State};
use crate::context::hash::Hash;
use crate::disk::File;
use crate::error::{Error, Result};

/// Bytes of a chunk that are read at once.
const WINDOW: u64 = 256 << 10;

/// Bytes after a record that are read with it, when what comes next lies before it.
const BEHIND: u64 = 2 << 10;

/// A chunk's file, read in large pieces that are in no cache.
#[derive(Debug)]
pub(crate) struct ChunkReader {
    pub(crate) chunk: Arc<Chunk>,
    file: Arc<dyn File>,
    start: u64,
    bytes: Vec<u8>,
    /// Entries of the page of the mapping that was read last.
    entries: Vec<KeptRecord>,
    /// The one of them that was asked for last: those beside it are next.
    last: usize,
    /// How many bytes were read.
    pub(crate) read: u64,
}

impl ChunkReader {
    pub(crate) fn open(pack: &Pack, chunk: Arc<Chunk>) -> Result<ChunkReader> {
        let file = pack.files.get(&chunk)?;
        Ok(ChunkReader {
            chunk,
            file,
            start: 0,
            bytes: Vec::new(),
            entries: Vec::new(),
            last: 0,
            read: 0,
        })
    }

    /// What it takes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<KeptRecord>()
    }

    /// The place of the record at logical `offset`: as [`Pack::place_in`] says, at less cost when those beside it
    /// are asked for one after the other.
    pub(crate) fn place(&mut self, pack: &Pack, offset: u64) -> Result<u64> {
        let State::Sparse(_) = self.chunk.state else { return pack.place_in(&self.chunk, offset) };
        let distance = offset - self.chunk.base;
        let is_here = |entries: &[KeptRecord]| match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => (first.distance..=last.distance).contains(&distance),
            _ => false,
        };
        if !is_here(&self.entries) {
            pack.mapping_entries(&self.chunk, distance, &mut self.entries)?;
            self.last = 0;
        }
        let is_it = |index: &usize| {
            self.entries.get(*index).is_some_and(|entry| entry.distance == distance)
        };
        let beside = [self.last.wrapping_sub(1), self.last + 1].into_iter().find(is_it);
        let search = || self.entries.binary_search_by_key(&distance, |entry| entry.distance).ok();
        self.last = beside.or_else(search).ok_or_else(|| collected(offset))?;
        Ok(self.entries[self.last].place)
    }

    /// Reads each record that `chunk`, which is sparse, has; returns their offsets. `Corrupt` unless all are as they were
    /// written.
    pub(crate) fn expect_all(pack: &Pack, chunk: &Arc<Chunk>) -> Result<Vec<(u64, bool)>> {
        let mut reader = ChunkReader::open(pack, Arc::clone(chunk))?;
        let records = pack.kept_records(chunk)?;
        for (offset, _) in &records {
            reader.named(pack, *offset)?;
        }
        Ok(records)
    }

    /// The bytes from `place` on, all of the record that begins there among them. `up` when those after it
    /// will be wanted, otherwise those before it.
    pub(crate) fn record(&mut self, place: u64, up: bool) -> Result<&[u8]> {
        if !self.holds(place) {
            let start = if up { place } else { (place + BEHIND).saturating_sub(WINDOW).min(place) };
            self.fill(start, WINDOW)?;
            if let Some(length) = self.length(place).filter(|_| !self.holds(place)) {
                // With what is wanted next, on the side where that is.
                let end = place.saturating_add(length);
                let start = if up { place } else { end.saturating_sub(WINDOW).min(place) };
                self.fill(start, length.max(end - start))?;
            }
        }
        let from = place.checked_sub(self.start).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| self.bytes.get(from..)).ok_or_else(|| {
            Error::corrupt(&self.chunk.path, place, "a record", "the end of the chunk")
        })
    }

    /// Kind and hash of the record at logical `offset`, which those after it will be asked for next. Verified.
    pub(crate) fn named(&mut self, pack: &Pack, offset: u64) -> Result<(Tag, Hash)> {
        let (chunk, place) = (Arc::clone(&self.chunk), self.place(pack, offset)?);
        let bytes = self.record(place, true)?;
        let record = record::take(&chunk.path, place, pack.store, offset, bytes)?;
        Ok((record.tag, record.hash))
    }

    /// The `length` bytes from `place` on, and more behind them.
    pub(crate) fn bytes(&mut self, place: u64, length: usize) -> Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if place < self.start || place + length as u64 > end {
            self.fill(place, WINDOW.max(length as u64))?;
        }
        let from = (place - self.start) as usize;
        self.bytes.get(from..from + length).ok_or_else(|| {
            Error::corrupt(&self.chunk.path, place, "a batch", "the end of the chunk")
        })
    }

    fn length(&self, place: u64) -> Option<u64> {
        let from = usize::try_from(place.checked_sub(self.start)?).ok()?;
        record::length(self.bytes.get(from..)?)
    }

    fn holds(&self, place: u64) -> bool {
        let end = self.start + self.bytes.len() as u64;
        self.length(place).is_some_and(|length| length <= end.saturating_sub(place))
    }

    fn fill(&mut self, start: u64, length: u64) -> Result<()> {
        // Never more than the chunk has, whatever a damaged length says.
        let length = length.min(self.chunk.end().saturating_sub(start));
        self.bytes.clear();
        self.bytes.resize(length as usize, 0);
        self.start = start;
        // What could not be read is not there when the next step looks again.
        self.file.read_exact_at(start, &mut self.bytes).inspect_err(|_| self.bytes.clear())?;
        self.read += length;
        Ok(())
    }
}

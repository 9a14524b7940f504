//! One chunk's file, read in large pieces.

use std::sync::Arc;

use super::chunk_files::{Chunk, Files};
use super::pack::{Pack, collected, is_made_up_for};
use super::record::{self, Record, Tag};
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
    files: Arc<Files>,
    /// Opened when something in it is wanted: of a chunk below perhaps nothing is.
    file: Option<Arc<dyn File>>,
    /// What is above of a chunk below, which is read first.
    part: Option<Box<ChunkReader>>,
    /// One that was found damaged: what is below counts, once that is seen.
    spoiled: Option<Arc<Chunk>>,
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
        let part = chunk.part().map(|part| ChunkReader::open(pack, Arc::clone(part)));
        let part = match part.transpose() {
            Err(error) if is_made_up_for(&error) => None,
            part => part?,
        };
        // A sparse one is searched by its mapping, which is known once it was opened.
        let file = if chunk.is_whole() { None } else { Some(pack.files.get(&chunk)?) };
        Ok(ChunkReader {
            chunk,
            files: Arc::clone(&pack.files),
            file,
            part: part.map(Box::new),
            spoiled: None,
            start: 0,
            bytes: Vec::new(),
            entries: Vec::new(),
            last: 0,
            read: 0,
        })
    }

    /// The record at logical `offset`, verified, with the file that it is in and its place there. `up` when those after
    /// it will be wanted, otherwise those before it.
    pub(crate) fn taken(
        &mut self,
        pack: &Pack,
        offset: u64,
        up: bool,
    ) -> Result<(Arc<Chunk>, u64, Record<'_>)> {
        if let Some(place) = self.place_above(pack, offset, up)? {
            let part = self.part.as_mut().expect("it is there");
            let chunk = Arc::clone(&part.chunk);
            let record = record::split("", place, part.record(place, up)?)?;
            return Ok((chunk, place, record));
        }
        let place = self.place(pack, offset)?.ok_or_else(|| collected(offset))?;
        let chunk = Arc::clone(&self.chunk);
        record::take(&chunk.path, place, pack.store, offset, self.record(place, up)?)?;
        if let Some(spoiled) = self.spoiled.take() {
            spoiled.spoil();
        }
        let record = record::split("", place, self.record(place, up)?)?;
        Ok((chunk, place, record))
    }

    /// Where the part above has the record at logical `offset`, verified, if it has. One that is damaged is asked no
    /// more.
    fn place_above(&mut self, pack: &Pack, offset: u64, up: bool) -> Result<Option<u64>> {
        let Some(part) = &mut self.part else { return Ok(None) };
        let before = part.read;
        let mut look = || {
            let Some(place) = part.place(pack, offset)? else { return Ok(None) };
            let bytes = part.record(place, up)?;
            record::take("", place, pack.store, offset, bytes)?;
            Ok(Some(place))
        };
        let found = look();
        self.read += part.read - before;
        match found {
            Err(error) if is_made_up_for(&error) => {
                self.spoiled = self.part.take().map(|part| part.chunk);
                Ok(None)
            }
            found => found,
        }
    }

    /// The place of the record at logical `offset`: as [`Pack::place_in`] says, at less cost when those beside it
    /// are asked for one after the other; none where a sparse chunk does not have it.
    fn place(&mut self, pack: &Pack, offset: u64) -> Result<Option<u64>> {
        let State::Sparse(_) = self.chunk.state else {
            return pack.place_in(&self.chunk, offset).map(Some);
        };
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
        let Some(found) = beside.or_else(search) else { return Ok(None) };
        self.last = found;
        Ok(Some(self.entries[found].place))
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
        let (_, _, record) = self.taken(pack, offset, true)?;
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
        let file = match &self.file {
            Some(file) => Ok(Arc::clone(file)),
            None => self.files.get(&self.chunk),
        };
        let read = file.and_then(|file| {
            self.file = Some(Arc::clone(&file));
            file.read_exact_at(start, &mut self.bytes)
        });
        // What could not be read is not there when the next step looks again.
        read.inspect_err(|_| self.bytes.clear())?;
        self.read += length;
        Ok(())
    }
}

//! What a cursor merges: places in buffers and runs, and the keys that they come to next.
//!
//! A source that is not placed yet *waits*: all that is known is a word that its next key does not come before.
//! Among equal words it is first, so it is placed before another source's key is taken that its own might
//! precede, and not at all when the cursor never comes so far.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use crate::disk::{Buffer, Read, read_batch};
use crate::error::Result;
use crate::order;
use crate::table::buffer::BufferStream;
use crate::table::bytes::{EntryRef, PAGE_BYTES, common_prefix, prefix};
use crate::table::runs::{NearestKey, PlaceMemory, RunPlace, Seek, page_offset};
use crate::table::shared::SegmentStore;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

pub enum CursorSource {
    Buffer(BufferStream),
    Run(RunPlace),
}

impl CursorSource {
    #[inline]
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        match self {
            CursorSource::Buffer(stream) => stream.peek(),
            CursorSource::Run(place) => place.peek(),
        }
    }

    #[inline]
    pub fn step(&mut self, direction: Direction, memory: &mut PlaceMemory) -> Result<()> {
        match (self, direction) {
            (CursorSource::Buffer(stream), Direction::Forward) => stream.next(),
            (CursorSource::Buffer(stream), Direction::Backward) => stream.previous(),
            (CursorSource::Run(place), Direction::Forward) => place.next(memory)?,
            (CursorSource::Run(place), Direction::Backward) => place.previous(memory)?,
        }
        Ok(())
    }
}

/// Moves a place in a buffer to an entry behind or before a gap.
pub fn place_in_buffer(stream: &mut BufferStream, seek: Seek<'_>) {
    match seek {
        Seek::First => stream.seek_first(),
        Seek::Last => stream.seek_last(),
        Seek::AtOrAfter(key) => stream.seek(key),
        Seek::After(key) => {
            stream.seek(key);
            if stream.peek().is_some_and(|entry| entry.key == key) {
                stream.next();
            }
        }
        Seek::AtOrBefore(key) | Seek::Before(key) => {
            stream.seek(key);
            match stream.peek().map(|entry| entry.key == key) {
                None => stream.seek_last(),
                Some(true) if matches!(seek, Seek::AtOrBefore(_)) => {}
                Some(_) => stream.previous(),
            }
        }
    }
}

/// Eight bytes of each source's key, so that few comparisons look at the sources.
#[derive(Default)]
pub struct NextKeys {
    /// Less is nearer; the greatest number where there is no key, or one that is beyond the bounds. Of a source
    /// that waits, no greater than its next key's will be.
    pub words: Vec<u64>,
    /// The bytes that all keys within the bounds begin with, which words leave out.
    shared: Vec<u8>,
    /// Which sources wait, and how many.
    waits: Vec<bool>,
    waiting: usize,
    /// Those of them that are to be placed now.
    due: Vec<(u64, usize)>,
    /// All ones when the cursor moves backward, else zeros.
    flip: u64,
    /// Keys with a lesser word are within the bounds.
    pub limit: u64,
    /// No other source than the first has a lesser word; 0 where that is not known.
    pub rival: u64,
    /// How often two sources were compared.
    #[cfg(test)]
    pub compared: std::cell::Cell<u64>,
}

/// What all keys between the bounds begin with.
pub fn shared_prefix(lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> Vec<u8> {
    let (Bound::Included(lower) | Bound::Excluded(lower)) = lower else { return Vec::new() };
    let (Bound::Included(upper) | Bound::Excluded(upper)) = upper else { return Vec::new() };
    lower[..common_prefix(lower, upper)].to_vec()
}

impl NextKeys {
    pub fn new(sources: usize, shared: Vec<u8>) -> NextKeys {
        let (words, waits) = (vec![0; sources], vec![false; sources]);
        NextKeys { words, shared, waits, ..NextKeys::default() }
    }

    /// No source waits, and those within `limit` will have words up to its own.
    pub fn begin(&mut self, direction: Direction, limit: &Bound<Vec<u8>>) {
        self.waits.fill(false);
        self.waiting = 0;
        self.flip = if direction == Direction::Backward { u64::MAX } else { 0 };
        self.rival = 0;
        self.limit = match limit {
            // The greatest number is a key's too.
            Bound::Unbounded => u64::MAX,
            Bound::Included(key) | Bound::Excluded(key) => self.word(key),
        };
    }

    #[inline]
    fn word(&self, key: &[u8]) -> u64 {
        if self.shared.is_empty() {
            return prefix(key) ^ self.flip;
        }
        key.strip_prefix(&self.shared[..]).map_or(u64::MAX, |rest| prefix(rest) ^ self.flip)
    }

    /// Whether any source waits.
    #[inline]
    pub fn any_waits(&self) -> bool {
        self.waiting > 0
    }

    /// Whether this one does.
    #[inline]
    pub fn waits(&self, source: usize) -> bool {
        self.waits[source]
    }

    /// Lets a source wait whose key is not nearer than this one, unless that is beyond `limit`.
    pub fn wait(&mut self, source: usize, nearest: NearestKey<'_>, limit: &Bound<Vec<u8>>) {
        let word = match nearest {
            NearestKey::None | NearestKey::Here | NearestKey::Unread(_) => None,
            NearestKey::Key(key) => {
                let is_within = self.is_within(key, limit) && key.starts_with(&self.shared);
                is_within.then(|| self.word(key))
            }
            NearestKey::Head(start, head) => self.word_of_head(start, head),
        };
        let Some(word) = word.filter(|word| *word <= self.limit) else { return };
        self.words[source] = word;
        self.waits[source] = true;
        self.waiting += 1;
    }

    fn is_within(&self, key: &[u8], limit: &Bound<Vec<u8>>) -> bool {
        let (order, may_equal) = match limit {
            Bound::Unbounded => return true,
            Bound::Included(limit) => (key.cmp(limit), true),
            Bound::Excluded(limit) => (key.cmp(limit), false),
        };
        let order = if self.flip == 0 { order } else { order.reverse() };
        order == Ordering::Less || may_equal && order == Ordering::Equal
    }

    /// The word of the nearest key with this beginning and the eight bytes behind it: nothing or the greatest
    /// bytes follow. `None` where such keys do not begin as all within the bounds do: all of these are nearer
    /// then, since the cursor stands at such a key, or farther away.
    fn word_of_head(&self, start: &[u8], head: u64) -> Option<u64> {
        if start.is_empty() && self.shared.is_empty() {
            return Some(head ^ self.flip);
        }
        let mut key = [start, &head.to_be_bytes()].concat();
        if self.flip != 0 {
            key.extend_from_slice(&[0xff; 8]);
        }
        key.strip_prefix(&self.shared[..]).map(|rest| prefix(rest) ^ self.flip)
    }

    /// Of the sources that wait, takes the nearest ones, at most `count`; they wait no longer. The first of all
    /// is to be one that waits. Where `one_is_enough`, only those that may come before every key that is known.
    pub fn take_due(&mut self, count: usize, one_is_enough: bool) -> Vec<(u64, usize)> {
        let mut due = std::mem::take(&mut self.due);
        let all = || self.words.iter().copied().zip(self.waits.iter().copied());
        let known = all().filter(|(_, waits)| one_is_enough && !waits).map(|(word, _)| word).min();
        let known = known.unwrap_or(u64::MAX);
        let waiting = all().enumerate().filter(|(_, (word, waits))| *waits && *word <= known);
        due.clear();
        due.extend(waiting.map(|(source, (word, _))| (word, source)));
        order::keep_least(&mut due, count);
        for &(_, source) in &due {
            self.waits[source] = false;
        }
        self.waiting -= due.len();
        due
    }

    /// Gives back the memory of [`NextKeys::take_due`].
    pub fn put_due(&mut self, due: Vec<(u64, usize)>) {
        self.due = due;
    }

    #[inline]
    pub fn read(&mut self, sources: &[CursorSource], source: usize) {
        self.words[source] = sources[source].peek().map_or(u64::MAX, |entry| self.word(entry.key));
    }

    /// Whether the cursor comes to the key of `one` before that of `other`; of equal keys the newest one's
    /// comes first, and before all of these a source that waits.
    #[inline]
    pub fn is_before(&self, sources: &[CursorSource], one: usize, other: usize) -> bool {
        #[cfg(test)]
        self.compared.set(self.compared.get() + 1);
        let (a, b) = (self.words[one], self.words[other]);
        if a != b {
            return a < b;
        }
        if self.waiting > 0 && (self.waits[one] || self.waits[other]) {
            return (!self.waits[one], one) < (!self.waits[other], other);
        }
        match (sources[one].peek(), sources[other].peek()) {
            (Some(a), Some(b)) => {
                let order = a.key.cmp(b.key);
                let order = if self.flip == 0 { order } else { order.reverse() };
                order.then(one.cmp(&other)).is_lt()
            }
            (a, b) => (a.is_none(), one) < (b.is_none(), other),
        }
    }
}

/// Loads the range filters that the places of these `sources` miss for the seek, all of them together.
pub fn load_range_filters(
    store: &SegmentStore,
    sources: &[CursorSource],
    asking: &[usize],
    seek: Seek<'_>,
) -> Result<()> {
    let missing: Vec<_> = asking
        .iter()
        .filter_map(|&source| match &sources[source] {
            CursorSource::Run(place) => match place.nearest(seek) {
                NearestKey::Unread(segment) => Some(segment),
                _ => None,
            },
            CursorSource::Buffer(_) => None,
        })
        .collect();
    let mut scratch = store.take_scratch()?;
    let mut failed = None;
    // Opened as its turn comes, so that no more are open than reads are under way.
    let reads = missing.iter().enumerate().map_while(|(tag, segment)| {
        let file = segment.file().map_err(|error| failed = Some(error)).ok()?;
        let (page, bytes) = segment.meta().footer.range_filter()?;
        let length = (bytes as usize).next_multiple_of(PAGE_BYTES);
        let (offset, buffer) = (page_offset(page), Buffer::new(length));
        Some(Read { file, offset, length, buffer, tag: tag as u64 })
    });
    read_batch(&mut *scratch.queue, reads, |read| {
        missing[read.tag as usize].keep_range_filter(read.buffer.as_slice());
        Ok(())
    })?;
    store.put_scratch(scratch);
    failed.map_or(Ok(()), Err)
}

/// The places in runs among the sources.
fn places(sources: &mut [CursorSource]) -> impl Iterator<Item = &mut RunPlace> {
    sources.iter_mut().filter_map(|source| match source {
        CursorSource::Run(place) => Some(place),
        CursorSource::Buffer(_) => None,
    })
}

/// Ends the seek of all places that aim at a page: reads those that are in no cache, all of them together, and
/// looks in them. A second round is for places whose entry is in the next page.
pub fn settle(
    store: &SegmentStore,
    sources: &mut [CursorSource],
    seek: Seek<'_>,
    memory: &mut PlaceMemory,
) -> Result<()> {
    let mut settled = false;
    while !settled {
        read_missing(store, sources, memory)?;
        places(sources).for_each(|place| place.prefetch());
        settled = true;
        for place in places(sources) {
            settled &= place.settle(seek, memory)?;
        }
    }
    Ok(())
}

/// Reads the pages that places miss, as many at a time as the queue takes.
fn read_missing(
    store: &SegmentStore,
    sources: &mut [CursorSource],
    memory: &mut PlaceMemory,
) -> Result<()> {
    places(sources).for_each(|place| place.prefetch_place());
    let mut missing = Vec::new();
    let mut scratch = None;
    for (number, place) in places(sources).enumerate() {
        let Some((segment, page)) = place.missing()? else { continue };
        let segment = Arc::clone(segment);
        let is_cached = segment.cached().is_some();
        if scratch.is_none() {
            scratch = Some(store.take_scratch()?);
        }
        let own = if is_cached { None } else { place.take_buffer() };
        let buffer = match (own, &mut scratch) {
            (Some(buffer), _) => buffer,
            (None, Some(scratch)) if is_cached => scratch.buffer(),
            _ => Buffer::new(PAGE_BYTES),
        };
        missing.push((number as u64, segment, page, buffer));
    }
    let Some(mut scratch) = scratch else { return Ok(()) };
    let mut waiting: Vec<_> = places(sources).collect();
    let (mut spare, mut failed) = (Vec::new(), None);
    // Opened as its turn comes, so that no more are open than reads are under way.
    let reads = missing.into_iter().map_while(|(tag, segment, page, buffer)| {
        let opened = segment.page_file().map_err(|error| failed = Some(error)).ok();
        opened.map(|file| Read { file, offset: page_offset(page), length: PAGE_BYTES, buffer, tag })
    });
    read_batch(&mut *scratch.queue, reads, |read| {
        spare.extend(waiting[read.tag as usize].take_page(read.buffer, memory)?);
        Ok(())
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    for buffer in spare {
        scratch.give_back(buffer);
    }
    store.put_scratch(scratch);
    Ok(())
}

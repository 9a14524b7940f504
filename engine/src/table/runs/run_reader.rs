//! Reads a run forward for merges: large sequential reads, every page checked, no allocation an entry.
//!
//! The current entry lies in the read buffer, and its key's first eight bytes behind a given prefix
//! are at hand as a number, because a merge compares that before it looks at keys.

use std::sync::Arc;

use super::run::Run;
use super::segment::Segment;
use super::segment_meta::page_offset;
use crate::disk::{Access, Buffer};
use crate::error::Result;
use crate::table::bytes::{EntryKind, EntryRef, FIRST_PAGE, PAGE_BYTES, Page, prefix};

/// Bytes of one read, unless asked otherwise.
const CHUNK_BYTES: usize = 128 << 10;

/// Pages that are copied from the cache at once: few, so that they stay in the nearest one.
const CACHED_PAGES: u32 = 4;

/// How a run is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Bytes of one read, rounded up to whole pages.
    pub chunk_bytes: usize,
    /// How many bytes every key of the merge shares: [`RunReader::prefix`] is of those behind them.
    pub skip: usize,
    /// Entries from this key on are not read.
    pub upper: Option<Vec<u8>>,
    /// Tell the disk that what was read will not be read again.
    pub forget: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { chunk_bytes: CHUNK_BYTES, skip: 0, upper: None, forget: false }
    }
}

/// Bytes that each of so many readers of a merge reads at once: a quarter as many from the system's page cache, which
/// reads ahead itself.
pub fn chunk_bytes(readers: usize, access: Access) -> usize {
    /// What all of them buffer together, unless that leaves each too little.
    const READ_BYTES: usize = 8 << 20;
    let share = (READ_BYTES / readers.max(1)).next_multiple_of(PAGE_BYTES);
    let most = match access {
        Access::Buffered => CHUNK_BYTES / 4,
        Access::Direct => CHUNK_BYTES,
    };
    most.min(share.max(4 * PAGE_BYTES))
}

/// A forward stream of a run's entries.
#[derive(Debug)]
pub struct RunReader {
    /// The segment in work; none at the end. What was read is let go, so that its file can go.
    segment: Option<Arc<Segment>>,
    /// The segments after it.
    rest: std::vec::IntoIter<Arc<Segment>>,
    options: ReadOptions,
    buffer: Buffer,
    /// Number of the page at the buffer's start, and how many pages it holds.
    buffer_page: u32,
    buffer_pages: u32,
    /// How many of these, from the start, are from the cache, where only checked pages are.
    checked_pages: u32,
    /// Number of the page in work.
    page: u32,
    /// Where in the buffer the page in work begins.
    base: usize,
    /// Entry in work and how many the page gives; equal at the end only.
    entry: usize,
    entries: usize,
    /// The value of the entry in work when it has overflow pages.
    large: Option<Vec<u8>>,
    /// The key of the entry in work when the page has it in pieces; else empty.
    joined: Vec<u8>,
    /// Overflow pages behind the page in work.
    overflow: u32,
    kind: EntryKind,
    /// Where in the buffer key and value of the entry in work lie.
    place: (usize, usize, usize),
    prefix: u64,
    bytes_read: u64,
}

impl RunReader {
    /// Reads `run` from its first key not below `lower`, or from the start. `Corrupt`, `Io`.
    pub fn new(run: &Run, lower: Option<&[u8]>, options: ReadOptions) -> Result<Self> {
        let first = lower.map_or(0, |key| run.seek(key));
        let mut rest = Vec::from(&run.segments()[first..]).into_iter();
        let mut reader = RunReader {
            buffer: Buffer::new(options.chunk_bytes),
            segment: rest.next(),
            rest,
            options,
            buffer_page: 0,
            buffer_pages: 0,
            checked_pages: 0,
            page: FIRST_PAGE,
            base: 0,
            entry: 0,
            entries: 0,
            large: None,
            joined: Vec::new(),
            overflow: 0,
            kind: EntryKind::Insert,
            place: (0, 0, 0),
            prefix: 0,
            bytes_read: 0,
        };
        if let (Some(key), Some(segment)) = (lower, &reader.segment) {
            let index = segment.index()?;
            reader.page = index.span(index.seek(key)).page;
        }
        reader.load(lower)?;
        Ok(reader)
    }

    /// The current entry; `None` at the end.
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        if self.entry == self.entries {
            return None;
        }
        let bytes = self.buffer.as_slice();
        let (from, middle, to) = self.place;
        let value = match &self.large {
            None => &bytes[middle..to],
            Some(value) => value,
        };
        let key = if self.joined.is_empty() { &bytes[from..middle] } else { &self.joined };
        Some(EntryRef { kind: self.kind, key, value })
    }

    /// The current key's bytes from [`ReadOptions::skip`] on as a number: see [`prefix`].
    /// `u64::MAX` at the end.
    #[inline]
    #[must_use]
    pub fn prefix(&self) -> u64 {
        self.prefix
    }

    /// Bytes of pages read so far, without large values.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Goes on to the next entry; does nothing at the end. After an error the reader is at its end.
    /// Amortised one page read for the entries of a page. `Corrupt`, `Io`.
    #[inline]
    pub fn advance(&mut self) -> Result<()> {
        if self.entry + 1 < self.entries {
            self.entry += 1;
            self.decode();
            return Ok(());
        }
        self.next_page()
    }

    #[inline]
    fn decode(&mut self) {
        let bytes = &self.buffer.as_slice()[self.base..self.base + PAGE_BYTES];
        let page = Page::view(bytes);
        let (from, middle, to) = page.place(self.entry);
        self.kind = page.kind(self.entry);
        self.place = (self.base + from, self.base + middle, self.base + to);
        let mut key = &bytes[from..middle];
        if page.shares() {
            self.joined.clear();
            let start = page.start_of(self.entry);
            if !start.is_empty() {
                self.joined.extend_from_slice(start);
                self.joined.extend_from_slice(key);
                key = &self.joined;
            }
        }
        self.prefix = prefix(key.get(self.options.skip..).unwrap_or_default());
    }

    fn next_page(&mut self) -> Result<()> {
        if self.entry == self.entries {
            return Ok(());
        }
        self.page += 1 + self.overflow;
        self.load(None)
    }

    /// Makes `self.page` the page in work, or the next segment's first one, and stands on its first
    /// entry, or on the first not below `lower`.
    fn load(&mut self, mut lower: Option<&[u8]>) -> Result<()> {
        self.entry = 0;
        self.entries = 0;
        self.large = None;
        self.joined.clear();
        self.prefix = u64::MAX;
        loop {
            let Some(segment) = self.segment.clone() else { return Ok(()) };
            if self.page >= FIRST_PAGE + segment.meta().footer.pages {
                self.forget_buffer(&segment);
                self.segment = self.rest.next();
                self.page = FIRST_PAGE;
                self.buffer_pages = 0;
                continue;
            }
            self.fill(&segment)?;
            let bytes = &self.buffer.as_slice()[self.base..self.base + PAGE_BYTES];
            let page = if self.page - self.buffer_page < self.checked_pages {
                Page::view(bytes)
            } else {
                segment.check_page(self.page, bytes)?
            };
            let first = lower.take().map_or(0, |key| page.seek(key));
            let count = self.count_below_upper(&page);
            if count < page.count() && first >= count {
                self.segment = None;
                return Ok(());
            }
            self.overflow = page.overflow() as u32;
            if first == count {
                self.page += 1 + self.overflow;
                continue;
            }
            if self.overflow > 0 {
                self.large = Some(segment.read_large(self.page, &page)?);
            }
            self.entry = first;
            self.entries = count;
            self.decode();
            return Ok(());
        }
    }

    /// How many entries of the page are below the upper bound.
    fn count_below_upper(&self, page: &Page<'_>) -> usize {
        match &self.options.upper {
            Some(upper) if *page.key(page.count() - 1) >= **upper => page.seek(upper),
            _ => page.count(),
        }
    }

    /// Has the page in work in the buffer, reading the next chunk when it is not.
    fn fill(&mut self, segment: &Arc<Segment>) -> Result<()> {
        if self.page < self.buffer_page || self.page >= self.buffer_page + self.buffer_pages {
            self.forget_buffer(segment);
            self.buffer_pages = 0;
            let left = FIRST_PAGE + segment.meta().footer.pages - self.page;
            let most = left.min((self.buffer.capacity() / PAGE_BYTES) as u32);
            self.checked_pages = self.fill_from_cache(segment, most.min(CACHED_PAGES));
            let pages = if self.checked_pages > 0 { self.checked_pages } else { most };
            if self.checked_pages == 0 {
                let bytes = &mut self.buffer.as_mut_slice()[..pages as usize * PAGE_BYTES];
                segment.page_file()?.read_exact_at(page_offset(self.page), bytes)?;
                self.bytes_read += u64::from(pages) * PAGE_BYTES as u64;
            }
            self.buffer_page = self.page;
            self.buffer_pages = pages;
        }
        self.base = (self.page - self.buffer_page) as usize * PAGE_BYTES;
        Ok(())
    }

    /// Copies pages from the page in work on that are in the session's cache, up to the first that is
    /// not; returns how many. It neither counts as use nor changes what stays in the cache.
    fn fill_from_cache(&mut self, segment: &Arc<Segment>, most: u32) -> u32 {
        let Some(cached) = segment.cached() else { return 0 };
        let buffer = self.buffer.as_mut_slice().chunks_exact_mut(PAGE_BYTES);
        for (number, to) in (0..most).zip(buffer) {
            let Some(page) = cached.peek(self.page + number) else { return number };
            cached.prefetch_place(self.page + number + 1);
            to.copy_from_slice(&page[..]);
        }
        most
    }

    fn forget_buffer(&self, segment: &Arc<Segment>) {
        if self.options.forget && self.buffer_pages > 0 {
            segment.forget(self.buffer_page, self.buffer_pages);
        }
    }
}

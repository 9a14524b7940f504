//! Writes a segment file: entries in key order go in, pages stream out in large aligned writes.
//!
//! Pages are built in the buffer that is written, so an entry is copied once. Invariant: the buffer
//! holds whole pages and the one in work; what was written is never written again.
//!
//! Format document: `docs/format/segment.md`.

use std::sync::Arc;

use super::blob::{BlobUse, encode_uses};
use super::segment::Segment;
use super::segment_meta::{Counts, Footer, PACKED_VERSION, SegmentMeta, page_offset};
use crate::cache::CachedFile;
use crate::disk::{Access, Buffer, Disk, File, Mode};
use crate::error::{Error, Result};
use crate::file::shared::SharedFile;
use crate::format::checksum::crc;
use crate::format::hash::Salt;
use crate::format::header::{self, FileKind, Header};
use crate::table::bytes::{
    EntryKind, EntryRef, FIRST_PAGE, Filter, FilterBuilder, Index, IndexBuilder, KEY_BYTES_MAX,
    PAGE_BYTES, PageBuilder, PagePacker, RangeFilterBuilder, VALUE_BYTES_MAX, fill_overflow,
    overflow_pages, seal,
};

/// Bytes of one write.
const CHUNK_BYTES: usize = 256 << 10;

/// Every so many bytes the disk is told to start writing.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// What makes a segment file the one it is.
#[derive(Clone, Copy, Debug)]
pub struct SegmentOptions {
    /// The segment's number in its session.
    pub id: u64,
    /// The file's identity, different for every file.
    pub identity: u64,
    /// The store it belongs to.
    pub store: u64,
    /// The salt of the filter's hashes.
    pub salt: u64,
    /// Bits per entry of the filter; 0 for no filter.
    pub bits_per_entry: u32,
    /// Whether a segment with a filter has a range filter too.
    pub range_filter: bool,
    /// How the file is written, and read later.
    pub access: Access,
}

/// A segment file in the making.
#[derive(Debug)]
pub struct SegmentBuilder {
    options: SegmentOptions,
    salt: Salt,
    file: Arc<dyn File>,
    /// Whether the file has bytes of an older one, perhaps more than it will have.
    is_over: bool,
    buffer: Buffer,
    /// Bytes of the buffer in front of the page in work.
    filled: usize,
    /// Number of the page at the buffer's start.
    buffer_page: u32,
    written_back: u64,
    /// Where pages of entries go instead of the file, if they are packed.
    packing: Option<Packing>,
    page: PageBuilder,
    /// Where the last key lies in the page in work; empty when the page, or that key, is, and when the
    /// page has only a part of it.
    last: std::ops::Range<usize>,
    /// The last key where it lies in no page: that of the page before, or one that the page in work has
    /// only a part of.
    last_apart: Vec<u8>,
    index: IndexBuilder,
    filter: FilterBuilder,
    range_filter: RangeFilterBuilder,
    counts: Counts,
    /// Where finished pages go as well, if they are to be found there.
    cached: Option<CachedFile>,
    /// The blob files that entries refer to, in the order of their numbers.
    blobs: Vec<BlobUse>,
    /// Removes the file when the builder is dropped unfinished.
    counted: Option<Arc<SharedFile>>,
}

/// A finished segment file with what is in memory already. Not synced yet.
#[derive(Debug)]
pub struct Finished {
    /// What the segment is.
    pub meta: SegmentMeta,
    /// Its index.
    pub index: Index,
    /// Its filter, if it has one.
    pub filter: Option<Filter>,
    /// Its file.
    pub file: Arc<dyn File>,
    /// Its pages in a cache, if it was filled.
    pub cached: Option<CachedFile>,
    /// Its file among those that the session counts, if it is one of them.
    pub counted: Option<Arc<SharedFile>>,
}

impl Finished {
    /// Makes the file durable; its name needs a sync of the folder too.
    pub fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    /// The segment, ready for reading.
    #[must_use]
    pub fn into_segment(self) -> Segment {
        Segment::with_parts(self.meta, self.file, self.index, self.filter)
    }
}

/// Packed pages on their way to the file.
#[derive(Debug)]
struct Packing {
    packer: PagePacker,
    /// What was not written yet, of which the first chunk goes when it is full.
    buffer: Buffer,
    filled: usize,
    /// Bytes of the file in front of the buffer.
    written: u64,
    /// Whether the first chunk was taken, so that what is behind it belongs to its start.
    taken: bool,
}

impl Packing {
    fn new() -> Self {
        let buffer = Buffer::new(CHUNK_BYTES + PAGE_BYTES);
        Packing { packer: PagePacker::default(), buffer, filled: 0, written: 0, taken: false }
    }

    fn memory_bytes(&self) -> usize {
        self.buffer.capacity() + self.packer.memory_bytes()
    }

    /// Moves what is behind a chunk that was taken to the start.
    fn settle(&mut self) {
        if std::mem::take(&mut self.taken) {
            self.buffer.as_mut_slice().copy_within(CHUNK_BYTES..self.filled, 0);
            self.filled -= CHUNK_BYTES;
        }
    }

    /// Takes a page; the header's is stored as it is.
    fn push(&mut self, number: u32, page: &[u8]) {
        self.settle();
        let stored = if number < FIRST_PAGE { page } else { self.packer.pack(page) };
        let end = self.filled + stored.len();
        self.buffer.as_mut_slice()[self.filled..end].copy_from_slice(stored);
        self.filled = end;
    }

    fn is_full(&self) -> bool {
        !self.taken && self.filled >= CHUNK_BYTES
    }

    /// The first chunk, to be written.
    fn take_chunk(&mut self) -> &[u8] {
        self.taken = true;
        self.written += CHUNK_BYTES as u64;
        &self.buffer.as_slice()[..CHUNK_BYTES]
    }

    /// All that is left, with zeros to the end of its last page.
    fn take_rest(&mut self) -> &[u8] {
        self.settle();
        let end = self.filled.next_multiple_of(PAGE_BYTES);
        self.buffer.as_mut_slice()[self.filled..end].fill(0);
        &self.buffer.as_slice()[..end]
    }
}

impl SegmentBuilder {
    /// Creates the file at `path`. `Exists`, `Io`.
    pub fn new(disk: &dyn Disk, path: &str, options: SegmentOptions) -> Result<Self> {
        let file = disk.open(path, Mode::Create, options.access)?;
        Ok(Self::start(file, options, false))
    }

    /// Writes over all that `file` holds. Nothing is written before the first chunk is full.
    pub fn over(file: Arc<dyn File>, options: SegmentOptions) -> Self {
        Self::start(file, options, true)
    }

    fn start(file: Arc<dyn File>, options: SegmentOptions, is_over: bool) -> Self {
        // The system's page cache gathers what is written; past it, a larger write costs the disk less.
        let mut buffer = Buffer::new(match options.access {
            Access::Buffered => CHUNK_BYTES / 2,
            Access::Direct => CHUNK_BYTES,
        });
        let head = &mut buffer.as_mut_slice()[..PAGE_BYTES];
        fill_header(head, &options, PACKED_VERSION - 1);
        SegmentBuilder {
            salt: Salt::new(options.salt),
            options,
            file,
            is_over,
            buffer,
            filled: PAGE_BYTES,
            buffer_page: 0,
            written_back: 0,
            packing: None,
            page: PageBuilder::new(),
            last: 0..0,
            last_apart: Vec::new(),
            index: IndexBuilder::new(),
            filter: FilterBuilder::new(options.bits_per_entry),
            range_filter: RangeFilterBuilder::default(),
            counts: Counts::default(),
            cached: None,
            blobs: Vec::new(),
            counted: None,
        }
    }

    /// Stores pages compressed where that pays. Before the first entry.
    pub fn pack(&mut self) {
        assert!(self.filled == PAGE_BYTES && self.page_number() == FIRST_PAGE, "nothing was added");
        fill_header(&mut self.buffer.as_mut_slice()[..PAGE_BYTES], &self.options, PACKED_VERSION);
        self.packing = Some(Packing::new());
    }

    /// Makes the file one that goes with its last holder, of which the builder is the first.
    pub fn count_file(&mut self, share: impl FnOnce(Arc<dyn File>) -> Arc<SharedFile>) {
        self.counted = Some(share(Arc::clone(&self.file)));
    }

    /// Puts pages into a cache as they are finished, because they will be looked up there.
    pub fn fill_cache(&mut self, cached: CachedFile) {
        self.cached = Some(cached);
    }

    /// Says which blob files the entries refer to, in the order of their numbers.
    pub fn refer_to(&mut self, blobs: Vec<BlobUse>) {
        self.counts.blobs = blobs.iter().map(|it| it.entries).sum();
        self.counts.blob_bytes = blobs.iter().map(|it| it.bytes).sum();
        self.blobs = blobs;
    }

    fn page_number(&self) -> u32 {
        self.buffer_page + (self.filled / PAGE_BYTES) as u32
    }

    /// Bytes of header and pages so far, with the page in work.
    #[must_use]
    pub fn bytes_so_far(&self) -> u64 {
        page_offset(self.page_number()) + if self.page.count() > 0 { PAGE_BYTES as u64 } else { 0 }
    }

    /// Bytes of memory that it holds, for what it writes next and for the filters; the index takes a
    /// thousandth of what was written.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let packing = self.packing.as_ref().map_or(0, Packing::memory_bytes);
        let filters = self.filter.memory_bytes() + self.range_filter.memory_bytes();
        self.buffer.capacity() + packing + filters
    }

    /// What was added so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The key added last; empty before the first.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        if self.last.is_empty() {
            &self.last_apart
        } else {
            &self.buffer.as_slice()[self.filled..][self.last.clone()]
        }
    }

    /// Appends an entry, whose key must be above the last one. Amortised 1/42 page write for entries
    /// of 94 bytes. `Io`; `Corrupt` for a key that is not above the last one.
    #[inline]
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        // What is not above nothing is the empty key, which comes first.
        if self.last_key() >= entry.key && self.counts.entries() > 0 {
            return Err(self.disorder());
        }
        if self.page.count() > 0 {
            let page = &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES];
            if self.page.add(page, entry) {
                self.note(entry);
                return Ok(());
            }
        }
        self.add_to_next(entry)
    }

    /// Sorted inputs give sorted keys, so an input is not what its manifest says.
    #[cold]
    fn disorder(&self) -> Error {
        let offset = self.bytes_so_far();
        Error::corrupt(self.file.path(), offset, "inputs in the order of their keys", "others")
    }

    #[inline]
    fn note(&mut self, entry: EntryRef<'_>) {
        // The entry's bytes end where the page's data end, so its key is found from there.
        let end = self.page.end();
        let value = end - entry.value.len();
        self.last = value - entry.key.len()..value;
        if self.page.last_shares() {
            self.last = 0..0;
            self.last_apart.clear();
            self.last_apart.extend_from_slice(entry.key);
        }
        self.count(entry);
    }

    #[inline]
    fn count(&mut self, entry: EntryRef<'_>) {
        match entry.kind {
            EntryKind::Insert | EntryKind::Blob => self.counts.inserts += 1,
            EntryKind::Delete => self.counts.deletes += 1,
            EntryKind::Upsert => self.counts.upserts += 1,
        }
        self.counts.key_bytes += entry.key.len() as u64;
        self.counts.value_bytes += entry.value.len() as u64;
        if self.options.bits_per_entry > 0 {
            self.filter.add(self.salt.hash(entry.key));
            if self.options.range_filter {
                self.range_filter.add(entry.key);
            }
        }
    }

    /// The first entry of a page, or one with pages of its own.
    fn add_to_next(&mut self, entry: EntryRef<'_>) -> Result<()> {
        assert!(entry.key.len() <= KEY_BYTES_MAX, "a key of {} bytes", entry.key.len());
        if entry.value.len() > VALUE_BYTES_MAX {
            return Err(too_long(entry));
        }
        self.finish_page()?;
        let overflow = overflow_pages(entry.key.len(), entry.value.len());
        self.index.add(entry.key, &self.last_apart, overflow as u32);
        if overflow > 0 {
            return self.add_large(entry);
        }
        let page = &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES];
        assert!(self.page.add(page, entry), "an entry without overflow fits an empty page");
        self.note(entry);
        Ok(())
    }

    fn add_large(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let (identity, number) = (self.options.identity, self.page_number());
        let page = &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES];
        let mut rest = self.page.finish_large(page, entry, identity, number);
        self.next_page()?;
        while !rest.is_empty() {
            let number = self.page_number();
            let page = &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES];
            rest = fill_overflow(page, rest, identity, number);
            self.next_page()?;
        }
        self.last_apart.clear();
        self.last_apart.extend_from_slice(entry.key);
        self.count(entry);
        Ok(())
    }

    fn finish_page(&mut self) -> Result<()> {
        if self.page.count() == 0 {
            return Ok(());
        }
        let bytes = self.buffer.as_mut_slice();
        let page = &mut bytes[self.filled..self.filled + PAGE_BYTES];
        if !self.page.last_shares() {
            self.last_apart.clear();
            self.last_apart.extend_from_slice(&page[self.last.clone()]);
        }
        self.last = 0..0;
        let number = self.buffer_page + (self.filled / PAGE_BYTES) as u32;
        self.page.finish(page, self.options.identity, number);
        if let Some(cached) = &mut self.cached {
            cached.insert(number, (&*page).try_into().expect("a page has its size"));
        }
        self.next_page()
    }

    fn next_page(&mut self) -> Result<()> {
        self.filled += PAGE_BYTES;
        if self.filled == self.buffer.capacity() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let mut end = page_offset(self.buffer_page) + self.filled as u64;
        if let Some(mut packing) = self.packing.take() {
            let pages = self.buffer.as_slice()[..self.filled].chunks_exact(PAGE_BYTES);
            for (number, page) in (self.buffer_page..).zip(pages) {
                packing.push(number, page);
                if packing.is_full() {
                    let start = packing.written;
                    self.write(start, packing.take_chunk())?;
                }
            }
            end = packing.written;
            self.packing = Some(packing);
        } else {
            self.write(page_offset(self.buffer_page), &self.buffer.as_slice()[..self.filled])?;
        }
        self.buffer_page += (self.filled / PAGE_BYTES) as u32;
        self.filled = 0;
        if end - self.written_back >= WRITEBACK_BYTES {
            self.file.start_writeback(self.written_back, end - self.written_back);
            self.written_back = end;
        }
        Ok(())
    }

    fn write(&self, start: u64, bytes: &[u8]) -> Result<()> {
        match &self.counted {
            Some(counted) => counted.write_at(start, bytes),
            None => self.file.write_at(start, bytes),
        }
    }

    /// Writes the rest of packed pages and their list, behind which all goes on in whole pages; returns how
    /// many bytes the pages took.
    fn end_packing(&mut self) -> Result<u64> {
        if self.packing.is_none() {
            return Ok(0);
        }
        self.flush()?;
        let Some(mut packing) = self.packing.take() else { return Ok(0) };
        let start = packing.written;
        let rest = packing.take_rest();
        self.write(start, rest)?;
        self.buffer_page = ((start + rest.len() as u64) / PAGE_BYTES as u64) as u32;
        let list = packing.packer.encode(self.options.identity, self.buffer_page);
        self.append(&list)?;
        Ok(packing.packer.stored_bytes())
    }

    /// Appends bytes, padded to whole pages; returns the number of the first page.
    fn append(&mut self, mut bytes: &[u8]) -> Result<u32> {
        let first = self.page_number();
        while !bytes.is_empty() {
            let room = self.buffer.capacity() - self.filled;
            let (now, later) = bytes.split_at(bytes.len().min(room));
            let padded = now.len().next_multiple_of(PAGE_BYTES);
            let to = &mut self.buffer.as_mut_slice()[self.filled..self.filled + padded];
            to[..now.len()].copy_from_slice(now);
            to[now.len()..].fill(0);
            self.filled += padded;
            if self.filled == self.buffer.capacity() {
                self.flush()?;
            }
            bytes = later;
        }
        Ok(first)
    }

    /// Writes what there is of pages, and needs no memory for writing until it finishes. After the last entry.
    pub fn end_entries(&mut self) -> Result<()> {
        self.finish_page()?;
        self.flush()?;
        self.buffer.release();
        Ok(())
    }

    /// Puts up to `most` entries into the filter, after the last was added; how many there were.
    pub fn build_filter(&mut self, most: usize) -> usize {
        self.filter.build_part(self.options.salt, most)
    }

    /// Writes filters, index, list of blob files and footer. Does not sync: see [`Finished::sync`].
    /// There must be an entry.
    pub fn finish(mut self) -> Result<Finished> {
        self.finish_page()?;
        assert!(self.counts.entries() > 0, "a segment has at least one entry");
        let identity = self.options.identity;
        let pages = self.page_number() - FIRST_PAGE;
        let packed_bytes = self.end_packing()?;
        let filter =
            std::mem::replace(&mut self.filter, FilterBuilder::new(0)).finish(self.options.salt);
        let filter_page = self.page_number();
        let mut filter_bytes = 0;
        if let Some(filter) = &filter {
            let bytes = filter.encode(identity, filter_page);
            filter_bytes = bytes.len() as u32;
            self.append(&bytes)?;
        }
        if let Some(filter) = std::mem::take(&mut self.range_filter).finish() {
            let page = self.page_number();
            let bytes = filter.encode(identity, page);
            filter_bytes = (page - filter_page) * PAGE_BYTES as u32 + bytes.len() as u32;
            self.append(&bytes)?;
        }
        let last_key = std::mem::take(&mut self.last_apart);
        let index = std::mem::take(&mut self.index).finish(&last_key);
        let bytes = index.encode(identity, self.page_number());
        let index_page = self.append(&bytes)?;
        let list = encode_uses(&self.blobs);
        if !list.is_empty() {
            self.append(&list)?;
        }
        let footer = Footer {
            pages,
            filter_page,
            filter_bytes,
            index_page,
            index_bytes: bytes.len() as u32,
            blob_files: self.blobs.len() as u32,
            blob_crc: crc(&list),
            bits_per_entry: self.options.bits_per_entry,
            salt: self.options.salt,
            packed_bytes,
            counts: self.counts,
        };
        footer.encode(
            identity,
            &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES],
        );
        self.filled += PAGE_BYTES;
        self.flush()?;
        if self.is_over {
            self.file.set_len(page_offset(self.buffer_page))?;
        }
        let first_key = index.first_key().to_vec();
        let blobs = std::mem::take(&mut self.blobs);
        let id = self.options.id;
        let meta = SegmentMeta { id, identity, footer, first_key, last_key, blobs };
        let SegmentBuilder { file, cached, counted, .. } = self;
        Ok(Finished { meta, index, filter, file, cached, counted })
    }
}

fn fill_header(page: &mut [u8], options: &SegmentOptions, version: u16) {
    let header = Header::new(FileKind::Segment, options.identity, options.store);
    page.fill(0);
    page[..header::LENGTH].copy_from_slice(&Header { version, ..header }.encode());
    seal(page, options.identity, 0);
}

/// Values are bounded at the door; only a merge operator makes longer ones.
#[cold]
fn too_long(entry: EntryRef<'_>) -> Error {
    Error::invalid(format!(
        "the merge operator joined a value of {} bytes for a key of {}, but values have at most \
         {VALUE_BYTES_MAX}: open the table with an operator of that name that keeps them shorter",
        entry.value.len(),
        entry.key.len()
    ))
}

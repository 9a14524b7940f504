//! A segment: an immutable file with a key range of a run: pages of entries, filter, index, footer.
//!
//! Everything begins at a multiple of 4,096 bytes, so that direct reads work, and everything read is
//! checked then. Opening reads the footer only; index and filters load at their first use.
//!
//! Format document: `docs/format/segment.md`.

use std::sync::{Arc, OnceLock};

use super::blob::{self, BlobFile, BlobUse};
use super::packed_file::PackedFile;
use super::segment_meta::{Footer, PACKED_VERSION, SegmentMeta, page_offset};
use crate::cache::CachedFile;
use crate::disk::{Access, Buffer, Disk, File, Mode, Queue, Read, read_batch};
use crate::error::{Error, Kind, Result};
use crate::file::shared::SharedFile;
use crate::file::sync_once::SyncOnce;
use crate::format::codec::Decoder;
use crate::format::hash::Salt;
use crate::format::header::{self, FileKind, Header};
use crate::table::bytes::{
    BODY_BYTES, FIRST_PAGE, Filter, Index, PAGE_BYTES, Page, PageList, RangeFilter, check_seal,
    page_list_bytes,
};

/// An open segment.
#[derive(Debug)]
pub struct Segment {
    meta: SegmentMeta,
    /// Of the filter, ready to hash with: not the session's where the segment was imported.
    salt: Salt,
    file: SegmentFile,
    index: OnceLock<Index>,
    /// The inner `None` is a segment without a filter.
    filter: OnceLock<Option<Filter>>,
    /// Where its pages are, if they are packed.
    packed: OnceLock<Arc<PageList>>,
    /// The same of the range filter, which cursors alone ask for.
    range_filter: OnceLock<Option<RangeFilter>>,
    synced: SyncOnce,
    /// The blob files that it refers to, held as long as it is.
    blobs: Vec<Arc<BlobFile>>,
    /// Its pages in the session's cache.
    cached: Option<CachedFile>,
}

/// Where its bytes are.
#[derive(Debug)]
enum SegmentFile {
    /// Opened by path, and open as long as the segment.
    Own(Arc<dyn File>),
    /// Counted among its other owners, and closed when others are used.
    Shared(Arc<SharedFile>),
}

/// The number of whole pages of a file; `Corrupt` when it is too short or not whole.
fn whole_pages(file: &dyn File) -> Result<u32> {
    let length = file.len()?;
    let pages = length / PAGE_BYTES as u64;
    if !length.is_multiple_of(PAGE_BYTES as u64) || pages < 4 || pages > u64::from(u32::MAX) {
        return Err(Error::corrupt(
            file.path(),
            length,
            "a whole number of pages, at least 4",
            format_args!("{length} bytes"),
        ));
    }
    Ok(pages as u32)
}

/// Checks the header page and gives the header.
fn decode_header(path: &str, page: &[u8]) -> Result<Header> {
    let header = Header::expect(path, &page[..header::LENGTH], FileKind::Segment)?;
    check_seal(path, 0, header.identity, page)?;
    Ok(header)
}

/// Whether a file may be the one of `meta`: it has no other identity, as far as can be known. Where the first page is
/// damaged the last one says so, too: what was named is never written over.
fn may_be(meta: &SegmentMeta, file: &dyn File) -> bool {
    match Segment::read_header(file) {
        Ok(header) => header.identity == meta.identity,
        Err(error) if error.kind() == Kind::Io => true,
        Err(_) => blob::has_page(file, meta.identity, meta.footer.page()),
    }
}

/// `Corrupt` for a file that is not the one that a manifest lists.
fn another(path: &str) -> Error {
    Error::corrupt(path, 0, "the segment that the manifest lists", "another")
}

impl Segment {
    /// A segment whose meta data come from a manifest. Reads nothing.
    #[must_use]
    pub fn new(meta: SegmentMeta, file: Arc<dyn File>) -> Self {
        Self::with_file(meta, SegmentFile::Own(file))
    }

    fn with_file(meta: SegmentMeta, file: SegmentFile) -> Self {
        Segment {
            salt: Salt::new(meta.footer.salt),
            meta,
            file,
            index: OnceLock::new(),
            filter: OnceLock::new(),
            packed: OnceLock::new(),
            range_filter: OnceLock::new(),
            synced: SyncOnce::new(true),
            blobs: Vec::new(),
            cached: None,
        }
    }

    /// A segment just written, with what is in memory already.
    #[must_use]
    pub fn with_parts(
        meta: SegmentMeta,
        file: Arc<dyn File>,
        index: Index,
        filter: Option<Filter>,
    ) -> Self {
        Self::new(meta, file).with_loaded(index, filter)
    }

    fn with_loaded(self, index: Index, filter: Option<Filter>) -> Self {
        let is_new = self.index.set(index).is_ok() & self.filter.set(filter).is_ok();
        assert!(is_new, "nobody else has the segment");
        self
    }

    /// Opens the file at `path` for the meta data of a manifest and checks that the footer agrees.
    /// Reads two pages. `Missing`, `Corrupt`, `Version`, `Io`.
    pub fn open(disk: &dyn Disk, path: &str, meta: SegmentMeta, access: Access) -> Result<Self> {
        let file = disk.open(path, Mode::Read, access)?;
        Self::check_is(&meta, &*file)?;
        Ok(Self::new(meta, file))
    }

    /// Whether `file` is the one that `meta` describes. Reads two pages.
    fn is_it(meta: &SegmentMeta, file: &dyn File) -> Result<bool> {
        let (header, footer) = Self::read_footer(file)?;
        Ok((header.identity, footer) == (meta.identity, meta.footer))
    }

    /// `Corrupt` unless it is.
    fn check_is(meta: &SegmentMeta, file: &dyn File) -> Result<()> {
        if Self::is_it(meta, file)? { Ok(()) } else { Err(another(file.path())) }
    }

    /// A segment just finished, in its counted file. Not synced.
    #[must_use]
    pub fn adopt(
        meta: SegmentMeta,
        index: Index,
        filter: Option<Filter>,
        shared: Arc<SharedFile>,
    ) -> Self {
        Self::with_file(meta, SegmentFile::Shared(shared)).with_loaded(index, filter).unsynced()
    }

    /// A segment that a manifest names, in its counted file; checks that header and footer agree
    /// with the manifest. Reads two pages. `Missing`, `Corrupt`, `Version`, `Io`.
    pub fn open_shared(meta: SegmentMeta, shared: Arc<SharedFile>) -> Result<Self> {
        let file = shared.unchecked()?;
        Self::check_is(&meta, &*file).inspect_err(|_| shared.reject())?;
        shared.note_checked(&file);
        Ok(Self::with_file(meta, SegmentFile::Shared(shared)))
    }

    /// The same for many, in their order, with all reads in flight together.
    pub fn open_all(
        listed: Vec<(&SegmentMeta, Arc<SharedFile>)>,
        queue: &mut dyn Queue,
    ) -> Result<Vec<Segment>> {
        let mut failed = None;
        let mut places = listed.iter().enumerate().flat_map(|(number, (_, shared))| {
            // Opened as its turn comes, so that no more are open than reads are under way.
            let opened = shared.unchecked().and_then(|file| Ok((whole_pages(&*file)?, file)));
            let found = opened.map_err(|error| failed = Some(error)).ok();
            let pages =
                found.map(|(pages, file)| [0, pages - 1].map(|page| (Arc::clone(&file), page)));
            pages.into_iter().flatten().map(move |(file, page)| (number, file, page))
        });
        let reads = std::iter::from_fn(|| places.next()).map(|(number, file, page)| Read {
            file,
            offset: page_offset(page),
            length: PAGE_BYTES,
            buffer: Buffer::new(PAGE_BYTES),
            tag: number as u64,
        });
        let mut half_seen = vec![false; listed.len()];
        read_batch(queue, reads, |read| {
            let number = read.tag as usize;
            let (meta, shared) = &listed[number];
            let (path, page) = (read.file.path(), &read.buffer.as_slice()[..PAGE_BYTES]);
            let is_listed = if read.offset == 0 {
                decode_header(path, page)?.identity == meta.identity
            } else {
                let pages = (read.offset / PAGE_BYTES as u64) as u32 + 1;
                Footer::decode(path, meta.identity, pages, page)? == meta.footer
            };
            if !is_listed {
                shared.reject();
                return Err(another(path));
            }
            if std::mem::replace(&mut half_seen[number], true) {
                shared.note_checked(&read.file);
            }
            Ok(())
        })?;
        drop(places);
        if let Some(error) = failed {
            return Err(error);
        }
        let segment = |(meta, shared): (&SegmentMeta, Arc<SharedFile>)| {
            Self::with_file(meta.clone(), SegmentFile::Shared(shared))
        };
        Ok(listed.into_iter().map(segment).collect())
    }

    /// The segment in a file that is not known to be durable.
    #[must_use]
    pub fn unsynced(mut self) -> Self {
        self.synced = SyncOnce::new(false);
        self
    }

    /// The segment with its pages in a cache.
    #[must_use]
    pub fn with_cache(mut self, cached: Option<CachedFile>) -> Self {
        self.cached = cached;
        self.charge(self.index_memory_bytes() + self.filter_memory_bytes());
        self
    }

    /// Counts memory in the budget of the cache, if there is one.
    fn charge(&self, bytes: usize) {
        if let Some(cached) = &self.cached
            && bytes > 0
        {
            cached.charge(bytes as u64);
        }
    }

    /// Reads the list of blob files; `Corrupt` unless it is the one that the footer speaks of.
    pub fn read_blob_list(&self) -> Result<Vec<BlobUse>> {
        let footer = &self.meta.footer;
        if footer.blob_files == 0 {
            return Ok(Vec::new());
        }
        let bytes = footer.blob_files * blob::USE_BYTES as u32;
        let buffer = self.read_region(footer.blob_page(), bytes)?;
        let at = page_offset(footer.blob_page());
        footer.take_blobs(&mut Decoder::new(self.path(), at, buffer.as_slice()))
    }

    /// The segment with the blob files of its meta data.
    #[must_use]
    pub fn with_blobs(mut self, blobs: Vec<Arc<BlobFile>>) -> Self {
        self.blobs = blobs;
        self
    }

    /// The blob files that it refers to.
    #[must_use]
    pub fn blobs(&self) -> &[Arc<BlobFile>] {
        &self.blobs
    }

    /// Its pages in the cache, if there is one.
    #[inline]
    #[must_use]
    pub fn cached(&self) -> Option<&CachedFile> {
        self.cached.as_ref()
    }

    /// The counted file of a segment of a session.
    #[must_use]
    pub fn shared(&self) -> &Arc<SharedFile> {
        match &self.file {
            SegmentFile::Shared(shared) => shared,
            SegmentFile::Own(_) => panic!("the segments of a session are counted"),
        }
    }

    /// Whether the file is durable, perhaps without its name.
    pub fn is_synced(&self) -> bool {
        self.synced.is_done()
    }

    /// Makes the file durable unless it is. Its name needs a sync of the folder too.
    pub fn sync(&self) -> Result<()> {
        self.synced.sync(self.path(), || self.file()?.sync())?;
        self.note_synced();
        Ok(())
    }

    /// It may be closed when others are read.
    fn note_synced(&self) {
        if let SegmentFile::Shared(shared) = &self.file {
            shared.note_synced();
        }
    }

    /// The same unless somebody is at it; whether it had to be done, and was.
    pub fn sync_if_free(&self) -> Result<bool> {
        let was_free = self.synced.sync_if_free(self.path(), || self.file()?.sync())?;
        if was_free {
            self.note_synced();
        }
        Ok(was_free)
    }

    /// Opens a file that no manifest describes: reads header, footer and index.
    pub fn recover(disk: &dyn Disk, path: &str, id: u64, access: Access) -> Result<Self> {
        let file = disk.open(path, Mode::Read, access)?;
        let (header, footer) = Self::read_footer(&*file)?;
        let meta = SegmentMeta {
            id,
            identity: header.identity,
            footer,
            first_key: Vec::new(),
            last_key: Vec::new(),
            blobs: Vec::new(),
        };
        let mut segment = Self::new(meta, file);
        segment.meta.blobs = segment.read_blob_list()?;
        let index = segment.read_index()?;
        segment.meta.first_key = index.first_key().to_vec();
        segment.meta.last_key = index.last_key().to_vec();
        let _ = segment.index.set(index);
        Ok(segment)
    }

    /// Reads and checks the header page alone, which is there before any other.
    fn read_header(file: &dyn File) -> Result<Header> {
        let mut page = Buffer::new(PAGE_BYTES);
        file.read_exact_at(0, &mut page.as_mut_slice()[..PAGE_BYTES])?;
        decode_header(file.path(), &page.as_slice()[..PAGE_BYTES])
    }

    /// Reads and checks the header page and the footer of a segment file.
    pub fn read_footer(file: &dyn File) -> Result<(Header, Footer)> {
        let pages = whole_pages(file)?;
        let header = Self::read_header(file)?;
        let mut page = Buffer::new(PAGE_BYTES);
        file.read_exact_at(page_offset(pages - 1), &mut page.as_mut_slice()[..PAGE_BYTES])?;
        let bytes = &page.as_slice()[..PAGE_BYTES];
        let footer = Footer::decode(file.path(), header.identity, pages, bytes)?;
        if footer.is_packed() != (header.version == PACKED_VERSION) {
            let (expected, found) = ("a version that fits the footer", header.version);
            return Err(Error::corrupt(file.path(), 8, expected, found));
        }
        Ok((header, footer))
    }

    /// What the segment is.
    #[inline]
    #[must_use]
    pub fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// The file, opened if it was closed; then its header and footer are compared with the meta data.
    #[inline]
    pub fn file(&self) -> Result<Arc<dyn File>> {
        match &self.file {
            SegmentFile::Own(file) => Ok(Arc::clone(file)),
            SegmentFile::Shared(shared) => shared
                .file(|file| Self::is_it(&self.meta, &**file), |file| may_be(&self.meta, &**file)),
        }
    }

    /// The pages of entries as a file in which page `n` is at byte `4096 n`: the file itself unless they
    /// are packed.
    #[inline]
    pub fn page_file(&self) -> Result<Arc<dyn File>> {
        if self.meta.footer.is_packed() { self.packed_file() } else { self.file() }
    }

    #[cold]
    fn packed_file(&self) -> Result<Arc<dyn File>> {
        let pages = if let Some(pages) = self.packed.get() {
            Arc::clone(pages)
        } else {
            let loaded = Arc::new(self.read_page_list()?);
            let bytes = loaded.memory_bytes();
            if self.packed.set(Arc::clone(&loaded)).is_ok() {
                self.charge(bytes);
            }
            loaded
        };
        Ok(Arc::new(PackedFile::new(self.file()?, pages, self.meta.identity)))
    }

    /// Reads the list of packed pages.
    fn read_page_list(&self) -> Result<PageList> {
        let footer = &self.meta.footer;
        let (page, bytes) = (footer.list_page(), page_list_bytes(footer.pages) as u32);
        let buffer = self.read_region(page, bytes)?;
        let bytes = &buffer.as_slice()[..bytes as usize];
        PageList::decode(self.path(), page, self.meta.identity, footer.packed_bytes, bytes)
    }

    /// Says that these pages will not be read again soon, if the file is open.
    pub fn forget(&self, page: u32, count: u32) {
        let Some(file) = self.open_file() else { return };
        let bytes = page_offset(count);
        if !self.meta.footer.is_packed() {
            file.forget(page_offset(page), bytes);
        } else if let Some(pages) = self.packed.get() {
            let file = PackedFile::new(file, Arc::clone(pages), self.meta.identity);
            file.forget(page_offset(page), bytes);
        }
    }

    /// The file, if it is open.
    #[must_use]
    pub fn open_file(&self) -> Option<Arc<dyn File>> {
        match &self.file {
            SegmentFile::Own(file) => Some(Arc::clone(file)),
            SegmentFile::Shared(shared) => shared.open_file(),
        }
    }

    /// Where the file is, for messages.
    #[inline]
    #[must_use]
    pub fn path(&self) -> &str {
        match &self.file {
            SegmentFile::Own(file) => file.path(),
            SegmentFile::Shared(shared) => shared.path(),
        }
    }

    fn read_region(&self, page: u32, bytes: u32) -> Result<Buffer> {
        // Compared with the file before the memory is taken: a damaged length asks for nothing.
        let end = page_offset(page) + u64::from(bytes);
        let file = self.file()?;
        let length = file.len()?;
        if end > length {
            return Err(Error::corrupt(
                file.path(),
                length,
                format_args!("{end} bytes or more"),
                "the end of the file",
            ));
        }
        let mut buffer = Buffer::new(bytes as usize);
        file.read_exact_at(page_offset(page), buffer.as_mut_slice())?;
        Ok(buffer)
    }

    /// The index, read from disk at the first call.
    #[inline]
    pub fn index(&self) -> Result<&Index> {
        match self.index.get() {
            Some(index) => Ok(index),
            None => self.load_index(),
        }
    }

    /// The index, if it was loaded.
    #[inline]
    #[must_use]
    pub fn loaded_index(&self) -> Option<&Index> {
        self.index.get()
    }

    /// Reads the index and compares it with the footer.
    fn read_index(&self) -> Result<Index> {
        let footer = &self.meta.footer;
        let buffer = self.read_region(footer.index_page, footer.index_bytes)?;
        let bytes = &buffer.as_slice()[..footer.index_bytes as usize];
        let path = self.path();
        let index = Index::decode(path, footer.index_page, self.meta.identity, bytes)?;
        if index.pages() != footer.pages {
            let offset = page_offset(footer.index_page);
            return Err(Error::corrupt(path, offset, footer.pages, index.pages()));
        }
        Ok(index)
    }

    #[cold]
    fn load_index(&self) -> Result<&Index> {
        let index = self.read_index()?;
        // The manifest's keys choose the segment before anything of it is read.
        if (index.first_key(), index.last_key()) != (self.first_key(), self.last_key()) {
            let (path, offset) = (self.path(), page_offset(self.meta.footer.index_page));
            return Err(Error::corrupt(path, offset, "the keys that the manifest has", "others"));
        }
        Ok(self.index.get_or_init(|| {
            self.charge(index.memory_bytes());
            index
        }))
    }

    /// The filter, read from disk at the first call; `None` when the segment has none.
    #[inline]
    pub fn filter(&self) -> Result<Option<&Filter>> {
        match self.filter.get() {
            Some(filter) => Ok(filter.as_ref()),
            None => self.load_filter(),
        }
    }

    #[cold]
    fn load_filter(&self) -> Result<Option<&Filter>> {
        let footer = &self.meta.footer;
        if footer.filter_bytes == 0 {
            return Ok(self.filter.get_or_init(|| None).as_ref());
        }
        let length = footer.bloom_bytes();
        let buffer = self.read_region(footer.filter_page, length)?;
        let bytes = &buffer.as_slice()[..length as usize];
        let path = self.path();
        let filter = Filter::decode(path, footer.filter_page, self.meta.identity, bytes)?;
        if filter.salt() != footer.salt {
            let offset = page_offset(footer.filter_page);
            return Err(Error::corrupt(path, offset, "the salt of the footer", "another"));
        }
        let kept = self.filter.get_or_init(|| {
            self.charge(filter.memory_bytes());
            Some(filter)
        });
        Ok(kept.as_ref())
    }

    /// The range filter, if it is in memory or there is none, which the inner `None` says; the outer one says
    /// that it is to be [read](Segment::keep_range_filter) first.
    #[inline]
    #[must_use]
    pub fn range_filter(&self) -> Option<Option<&RangeFilter>> {
        match self.range_filter.get() {
            Some(filter) => Some(filter.as_ref()),
            None if self.meta.footer.range_filter().is_some() => None,
            None => Some(self.range_filter.get_or_init(|| None).as_ref()),
        }
    }

    /// Keeps the range filter in `bytes`, which were read from where the footer says. It is loaded at its first
    /// use, so that it takes memory only where ranges are read. Damage makes ranges slower, as if there were no
    /// filter; whoever looks for damage reads it himself.
    pub fn keep_range_filter(&self, bytes: &[u8]) {
        let filter = self.decode_range_filter(bytes).unwrap_or_default();
        self.range_filter.get_or_init(|| {
            self.charge(filter.as_ref().map_or(0, RangeFilter::memory_bytes));
            filter
        });
    }

    /// Reads the range filter and keeps nothing; `None` when the segment has none. `Io`, `Corrupt`.
    pub fn read_range_filter(&self) -> Result<Option<RangeFilter>> {
        let Some((page, bytes)) = self.meta.footer.range_filter() else { return Ok(None) };
        self.decode_range_filter(self.read_region(page, bytes)?.as_slice())
    }

    /// The range filter in bytes that begin with it.
    fn decode_range_filter(&self, bytes: &[u8]) -> Result<Option<RangeFilter>> {
        let Some((page, length)) = self.meta.footer.range_filter() else { return Ok(None) };
        let bytes = &bytes[..length as usize];
        let filter = RangeFilter::decode(self.path(), page, self.meta.identity, bytes)?;
        if !filter.is_between(self.first_key(), self.last_key()) {
            let (path, offset) = (self.path(), page_offset(page));
            return Err(Error::corrupt(path, offset, "the keys that the segment has", "others"));
        }
        Ok(Some(filter))
    }

    /// Memory of the filter and of the range filter, as far as they are loaded, in bytes.
    #[must_use]
    pub fn filter_memory_bytes(&self) -> usize {
        let range = self.range_filter.get().and_then(Option::as_ref);
        self.filter.get().and_then(Option::as_ref).map_or(0, Filter::memory_bytes)
            + range.map_or(0, RangeFilter::memory_bytes)
    }

    /// Memory of the index, if it is loaded, in bytes.
    #[must_use]
    pub fn index_memory_bytes(&self) -> usize {
        let packed = self.packed.get().map_or(0, |pages| pages.memory_bytes());
        self.index.get().map_or(0, Index::memory_bytes) + packed
    }

    /// The smallest key.
    #[inline]
    #[must_use]
    pub fn first_key(&self) -> &[u8] {
        &self.meta.first_key
    }

    /// The largest key.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.meta.last_key
    }

    /// The salt of the filter's hashes.
    #[inline]
    #[must_use]
    pub fn salt(&self) -> u64 {
        self.salt.number()
    }

    /// Hash of `key` for the filter.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.salt.hash(key)
    }

    /// The identity mixed into its checksums.
    #[inline]
    #[must_use]
    pub fn identity(&self) -> u64 {
        self.meta.identity
    }

    /// Checks a page of entries that was read from this segment.
    #[inline]
    pub fn check_page<'a>(&self, page: u32, bytes: &'a [u8]) -> Result<Page<'a>> {
        Page::check(self.path(), page, self.meta.identity, bytes)
    }

    /// Reads page `page` into `buffer` and checks it. One page read. `Corrupt`, `Io`.
    pub fn read_page<'a>(&self, page: u32, buffer: &'a mut Buffer) -> Result<Page<'a>> {
        let bytes = &mut buffer.as_mut_slice()[..PAGE_BYTES];
        self.page_file()?.read_exact_at(page_offset(page), bytes)?;
        self.check_page(page, &buffer.as_slice()[..PAGE_BYTES])
    }

    fn read_pages(&self, page: u32, count: u32) -> Result<Buffer> {
        if !self.meta.footer.is_packed() {
            return self.read_region(page, count * PAGE_BYTES as u32);
        }
        let length = count as usize * PAGE_BYTES;
        let mut buffer = Buffer::new(length);
        let bytes = &mut buffer.as_mut_slice()[..length];
        self.page_file()?.read_exact_at(page_offset(page), bytes)?;
        Ok(buffer)
    }

    /// Assembles the value of the large entry whose checked head page is `head`, number `page`, from
    /// the overflow pages, read in one piece. `Corrupt`, `Io`.
    pub fn read_large(&self, page: u32, head: &Page<'_>) -> Result<Vec<u8>> {
        let count = head.overflow() as u32;
        let last = FIRST_PAGE + self.meta.footer.pages;
        if u64::from(page) + u64::from(count) >= u64::from(last) {
            return Err(Error::corrupt(
                self.path(),
                page_offset(page),
                format_args!("overflow pages before page {last}"),
                format_args!("{count} of them"),
            ));
        }
        let buffer = self.read_pages(page + 1, count)?;
        let mut value = Vec::with_capacity(head.large_value_bytes());
        value.extend_from_slice(head.value(0));
        for (number, bytes) in (page + 1..).zip(buffer.as_slice().chunks_exact(PAGE_BYTES)) {
            self.append_overflow(number, bytes, head.large_value_bytes(), &mut value)?;
        }
        Ok(value)
    }

    /// Checks an overflow page and appends what it holds of a value of `total` bytes.
    pub fn append_overflow(
        &self,
        page: u32,
        bytes: &[u8],
        total: usize,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        check_seal(self.path(), page, self.meta.identity, bytes)?;
        let length = (total - value.len()).min(BODY_BYTES);
        value.extend_from_slice(&bytes[..length]);
        Ok(())
    }
}

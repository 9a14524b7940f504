//! Blob files: large values, stored once beside the runs, that entries refer to.
//!
//! A blob file is written once, front to back: a header page, pages filled with values one behind
//! the other without gaps, and a footer page. Every page has its checksum in its last four bytes,
//! as all pages have, so that any piece of a value is read and verified without the rest of it.
//! An entry in a segment holds a [`BlobSpan`], which names the file by its identity, so that it means
//! the same in every session that the segment travels to; merges copy it and nothing else. The file
//! is counted by the segments that refer to it and by whoever holds a reference.
//!
//! Format document: `docs/format/blob.md`.

use std::cell::Cell;
use std::sync::Arc;

use crate::disk::{Buffer, File, Queue, Read, read_batch};
use crate::error::{Error, Kind, Result};
use crate::file::shared::SharedFile;
use crate::file::spare::SpareFiles;
use crate::file::sync_once::SyncOnce;
use crate::format::checksum::crc_append;
use crate::format::codec::{Decoder, Encoder};
use crate::format::header::{self, FileKind, Header};
use crate::sync::{AtomicBool, Ordering};
use crate::table::bytes::{BODY_BYTES, PAGE_BYTES, check_seal, seal};

/// A blob file takes no further value once it holds this many bytes.
pub const BLOB_FILE_BYTES: u64 = 16 << 20;
/// The longest value in bytes that a blob file holds.
pub const BLOB_BYTES_MAX: u64 = 1 << 40;
/// Length of an encoded [`BlobSpan`].
pub const SPAN_BYTES: usize = 24;

/// Bytes of one write.
const WRITE_BYTES: usize = 256 << 10;
/// Pages of one read of a long value.
const READ_PAGES: u64 = 16;
const FOOTER_MAGIC: u32 = u32::from_le_bytes(*b"blob");
const BODY: u64 = BODY_BYTES as u64;
const PAGE: u64 = PAGE_BYTES as u64;

/// Where a value lies: what an entry holds in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobSpan {
    /// The blob file's identity.
    pub file: u64,
    /// Where the value begins, in bytes of values of the file.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl BlobSpan {
    /// The bytes that an entry holds.
    #[must_use]
    pub fn encode(&self) -> [u8; SPAN_BYTES] {
        let mut bytes = [0; SPAN_BYTES];
        bytes[..8].copy_from_slice(&self.file.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// The span in an entry; `None` for bytes that are none.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SPAN_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("a number has eight bytes");
            u64::from_le_bytes(bytes)
        };
        let span = BlobSpan { file: number(0), offset: number(8), length: number(16) };
        (span.length <= BLOB_BYTES_MAX && span.offset <= BLOB_BYTES_MAX * 2).then_some(span)
    }

    /// Where it ends, in bytes of values of the file.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// The first page and how many.
    fn pages(&self) -> (u64, u64) {
        let first = self.offset / BODY;
        (1 + first, self.end().div_ceil(BODY).saturating_sub(first))
    }
}

/// What a blob file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobMeta {
    /// The file's number in its session, which names it.
    pub id: u64,
    /// The file's identity, mixed into its checksums.
    pub identity: u64,
    /// How many values it holds.
    pub values: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// CRC-32C of these.
    pub checksum: u32,
}

impl BlobMeta {
    /// Whether `other`, perhaps under another number, has the same content.
    #[must_use]
    pub fn is_copy_of(&self, other: &BlobMeta) -> bool {
        BlobMeta { id: other.id, ..*self } == *other
    }

    fn footer_page(&self) -> u64 {
        1 + self.bytes.div_ceil(BODY)
    }

    /// The length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        (self.footer_page() + 1) * PAGE
    }

    pub(in crate::table) fn encode(&self, to: &mut Encoder) {
        to.u64(self.identity);
        to.u64(self.values);
        to.u64(self.bytes);
        to.u32(self.checksum);
    }

    /// All but the number, which the name of the file says.
    pub(in crate::table) fn decode(from: &mut Decoder<'_>) -> Result<Self> {
        let meta = BlobMeta {
            id: 0,
            identity: from.u64()?,
            values: from.u64()?,
            bytes: from.u64()?,
            checksum: from.u32()?,
        };
        // A page's number has 32 bits, and sums of sizes must not overflow.
        if meta.bytes >= 1 << 42 || meta.values >= 1 << 42 {
            return Err(from.corrupt("a blob file of less than 2^42 bytes", meta.bytes));
        }
        Ok(meta)
    }
}

/// What a segment refers to in one blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobUse {
    /// The file.
    pub file: BlobMeta,
    /// Entries of the segment that refer to it.
    pub entries: u64,
    /// Bytes of the values that they refer to.
    pub bytes: u64,
}

/// Bytes of an encoded [`BlobUse`].
pub const USE_BYTES: usize = 44;

/// The bytes of a segment's list of blob files; their numbers are not in it.
#[must_use]
pub fn encode_uses(uses: &[BlobUse]) -> Vec<u8> {
    let mut to = Encoder::new();
    for it in uses {
        it.file.encode(&mut to);
        to.u64(it.entries);
        to.u64(it.bytes);
    }
    to.finish()
}

/// Decodes a list of `count` blob files, in the order of their identities; `Corrupt` when it is none.
pub fn decode_uses(from: &mut Decoder<'_>, count: usize) -> Result<Vec<BlobUse>> {
    if from.remaining() / USE_BYTES < count {
        return Err(from.corrupt(format_args!("{count} blob files"), "fewer bytes"));
    }
    let mut uses: Vec<BlobUse> = Vec::with_capacity(count);
    for _ in 0..count {
        let file = BlobMeta::decode(from)?;
        let (entries, bytes) = (from.u64()?, from.u64()?);
        if uses.last().is_some_and(|last| last.file.identity >= file.identity) {
            return Err(from.corrupt("blob files in the order of their identities", file.identity));
        }
        if entries == 0 || entries.max(bytes) >= 1 << 48 {
            return Err(from.corrupt("1 to 2^48 references to a blob file", entries));
        }
        uses.push(BlobUse { file, entries, bytes });
    }
    Ok(uses)
}

/// A finished blob file, opened at its first use.
#[derive(Debug)]
pub struct BlobFile {
    meta: BlobMeta,
    shared: Arc<SharedFile>,
    synced: SyncOnce,
    /// Its name was made durable as well.
    named: AtomicBool,
    /// The session was closed.
    closed: Arc<AtomicBool>,
}

impl BlobFile {
    /// A file that a manifest describes. Reads nothing.
    #[must_use]
    pub fn new(meta: BlobMeta, shared: Arc<SharedFile>, closed: &Arc<AtomicBool>) -> Self {
        let (synced, named) = (SyncOnce::new(true), AtomicBool::new(true));
        BlobFile { meta, shared, synced, named, closed: Arc::clone(closed) }
    }

    /// The same, which was not made durable here.
    #[must_use]
    pub fn unsynced(self) -> Self {
        let (synced, named) = (SyncOnce::new(false), AtomicBool::new(false));
        BlobFile { synced, named, ..self }
    }

    /// What it is.
    #[must_use]
    pub fn meta(&self) -> &BlobMeta {
        &self.meta
    }

    /// Its counted file.
    #[must_use]
    pub fn shared(&self) -> &Arc<SharedFile> {
        &self.shared
    }

    /// Whether it belongs to the session that has this mark of being closed.
    #[must_use]
    pub fn is_of(&self, closed: &Arc<AtomicBool>) -> bool {
        Arc::ptr_eq(&self.closed, closed)
    }

    /// Whether the file is durable, perhaps without its name.
    pub fn is_synced(&self) -> bool {
        self.synced.is_done()
    }

    /// Makes the file durable unless it is. Its name needs a sync of the folder too.
    pub fn sync(&self) -> Result<()> {
        self.synced.sync(self.shared.path(), || self.shared.unchecked()?.sync())?;
        self.shared.note_synced();
        Ok(())
    }

    /// The same unless somebody is at it; whether it had to be done, and was.
    pub fn sync_if_free(&self) -> Result<bool> {
        let sync = || self.shared.unchecked()?.sync();
        let was_free = self.synced.sync_if_free(self.shared.path(), sync)?;
        if was_free {
            self.shared.note_synced();
        }
        Ok(was_free)
    }

    /// Whether the file is durable with its name.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.named.load(Ordering::Acquire)
    }

    /// The folder was synced after [`BlobFile::sync`].
    pub fn note_durable(&self) {
        self.named.store(true, Ordering::Release);
    }

    /// The file, opened if it was closed; then its header, footer and length are compared with the meta
    /// data.
    pub fn file(&self) -> Result<Arc<dyn File>> {
        if self.closed.load(Ordering::Acquire) {
            let path = self.shared.path();
            return Err(Error::new(
                Kind::Closed,
                format!("the session of {path} was closed: open it again"),
            ));
        }
        self.shared.file(
            |file| Ok(read_meta(&**file, self.meta.id)? == self.meta),
            |file| match read_identity(&**file) {
                Ok(identity) => identity == self.meta.identity,
                Err(error) if error.kind() == Kind::Io => true,
                Err(_) => has_page(&**file, self.meta.identity, self.meta.footer_page() as u32),
            },
        )
    }

    /// `Corrupt` unless `span` lies inside the file.
    pub fn check_span(&self, span: &BlobSpan) -> Result<()> {
        if span.end() <= self.meta.bytes {
            return Ok(());
        }
        Err(Error::corrupt(
            self.shared.path(),
            span.offset,
            format_args!("a reference to at most {} bytes", self.meta.bytes),
            format_args!("one up to {}", span.end()),
        ))
    }

    /// Gives the bytes of `span` from `from` on, at most `length` of them, piece by piece in order
    /// to `each`. Reads the pages that hold them, 16 at a time.
    pub fn read(
        &self,
        span: &BlobSpan,
        from: u64,
        length: u64,
        mut each: impl FnMut(&[u8]),
    ) -> Result<()> {
        self.check_span(span)?;
        let from = from.min(span.length);
        let length = length.min(span.length - from);
        let part = BlobSpan { offset: span.offset + from, length, ..*span };
        let (first, count) = part.pages();
        let file = self.file()?;
        let mut buffer = Buffer::new((count.min(READ_PAGES) * PAGE) as usize);
        let mut page = first;
        while page < first + count {
            let now = (first + count - page).min(READ_PAGES);
            let bytes = &mut buffer.as_mut_slice()[..(now * PAGE) as usize];
            file.read_exact_at(page * PAGE, bytes)?;
            self.pieces(&part, page, bytes, |_, piece| each(piece))?;
            page += now;
        }
        Ok(())
    }

    /// The value at `span`, whole.
    pub fn read_whole(&self, span: &BlobSpan) -> Result<Vec<u8>> {
        // The span is compared with the file before the memory is taken.
        self.check_span(span)?;
        self.file()?;
        let mut value = Vec::new();
        make_room(&mut value, span.length)?;
        self.read(span, 0, span.length, |piece| value.extend_from_slice(piece))?;
        Ok(value)
    }

    /// Checks pages read from `page` on and gives what they hold of `span` with its place in it.
    fn pieces(
        &self,
        span: &BlobSpan,
        page: u64,
        bytes: &[u8],
        mut each: impl FnMut(u64, &[u8]),
    ) -> Result<()> {
        for (number, bytes) in (page..).zip(bytes.chunks_exact(PAGE_BYTES)) {
            check_seal(self.shared.path(), number as u32, self.meta.identity, bytes)?;
            let start = (number - 1) * BODY;
            let from = span.offset.max(start);
            let to = span.end().min(start + BODY);
            each(from - span.offset, &bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(())
    }

    /// Reads and checks every page.
    pub fn verify(&self) -> Result<()> {
        self.shared.doubt();
        let whole = BlobSpan { file: self.meta.identity, offset: 0, length: self.meta.bytes };
        let mut checksum = 0;
        self.read(&whole, 0, whole.length, |piece| checksum = crc_append(checksum, piece))?;
        if checksum == self.meta.checksum {
            return Ok(());
        }
        Err(Error::corrupt(
            self.shared.path(),
            0,
            format_args!("values with checksum {:08x}", self.meta.checksum),
            format_args!("{checksum:08x}"),
        ))
    }
}

/// Takes memory for `length` bytes more in `bytes`, and gives how many these are. `Invalid` where there is none: a
/// value may be longer than memory, or than what an address tells.
pub fn make_room(bytes: &mut Vec<u8>, length: u64) -> Result<usize> {
    let room = usize::try_from(length).ok().filter(|&length| {
        if bytes.is_empty() {
            bytes.try_reserve_exact(length).is_ok()
        } else {
            bytes.try_reserve(length).is_ok()
        }
    });
    room.ok_or_else(|| {
        Error::invalid(format!(
            "memory has no room for a value of {length} bytes: find it with View::find and read it in pieces \
             with Value::read_at, or pass it over with keys alone"
        ))
    })
}

/// A value in a blob file that is held.
#[derive(Clone, Debug)]
pub struct HeldBlob {
    /// Where in it.
    pub span: BlobSpan,
    /// The file.
    pub file: Arc<BlobFile>,
}

/// Reads all of `blobs`, with as many reads in flight as the queue allows, and gives `each` the
/// number of a blob, a place in it and the bytes there, in any order.
pub fn fetch(
    queue: &mut dyn Queue,
    blobs: &[HeldBlob],
    mut each: impl FnMut(usize, u64, &[u8]),
) -> Result<()> {
    blobs.iter().try_for_each(|HeldBlob { span, file }| file.check_span(span))?;
    let failed = Cell::new(None);
    let failed = &failed;
    let reads = blobs.iter().enumerate().flat_map(|(number, HeldBlob { span, file })| {
        let (first, count) = span.pages();
        let chunks = (0..count).step_by(READ_PAGES as usize);
        chunks.map(move |chunk| {
            let length = ((count - chunk).min(READ_PAGES) * PAGE) as usize;
            // Opened as its turn comes, so that no more are open than reads are under way.
            let opened = file.file().map_err(|error| failed.set(Some(error)));
            Some(Read {
                file: opened.ok()?,
                offset: (first + chunk) * PAGE,
                length,
                buffer: Buffer::new(length),
                tag: number as u64,
            })
        })
    });
    let reads = reads.map_while(std::convert::identity);
    read_batch(queue, reads, |read| {
        let number = read.tag as usize;
        let HeldBlob { span, file } = &blobs[number];
        let bytes = &read.buffer.as_slice()[..read.length];
        file.pieces(span, read.offset / PAGE, bytes, |at, piece| each(number, at, piece))
    })?;
    // Some reads did not begin, perhaps since somebody closed the session meanwhile.
    failed.take().map_or(Ok(()), Err)
}

/// Reads header, footer and length of the blob file `id`; `Corrupt` when they do not agree.
pub fn read_meta(file: &dyn File, id: u64) -> Result<BlobMeta> {
    let length = file.len()?;
    let pages = length / PAGE;
    if !length.is_multiple_of(PAGE) || pages < 2 || pages > u64::from(u32::MAX) {
        let found = format_args!("{length} bytes");
        return Err(Error::corrupt(file.path(), length, "whole pages, at least 2", found));
    }
    let identity = read_identity(file)?;
    let mut page = Buffer::new(PAGE_BYTES);
    file.read_exact_at((pages - 1) * PAGE, &mut page.as_mut_slice()[..PAGE_BYTES])?;
    decode_footer(file.path(), id, identity, pages as u32, &page.as_slice()[..PAGE_BYTES])
}

/// Reads and checks the first page of a blob file alone, which is there before any other; gives its identity.
fn read_identity(file: &dyn File) -> Result<u64> {
    let mut page = Buffer::new(PAGE_BYTES);
    file.read_exact_at(0, &mut page.as_mut_slice()[..PAGE_BYTES])?;
    decode_header(file.path(), &page.as_slice()[..PAGE_BYTES])
}

/// Whether a page of a file is whole and of the file of this identity, unless the disk does not answer.
pub fn has_page(file: &dyn File, identity: u64, number: u32) -> bool {
    let mut page = Buffer::new(PAGE_BYTES);
    let bytes = &mut page.as_mut_slice()[..PAGE_BYTES];
    let read = file.read_exact_at(u64::from(number) * PAGE, bytes);
    match read.and_then(|()| check_seal(file.path(), number, identity, bytes)) {
        Ok(()) => true,
        Err(error) => error.kind() == Kind::Io,
    }
}

/// Checks the first page of a blob file; gives the file's identity.
pub fn decode_header(file: &str, page: &[u8]) -> Result<u64> {
    let header = Header::expect(file, page, FileKind::Blob)?;
    check_seal(file, 0, header.identity, page)?;
    Ok(header.identity)
}

/// Decodes the last page of a blob file of `pages` pages; `Corrupt` when it is none.
pub fn decode_footer(
    file: &str,
    id: u64,
    identity: u64,
    pages: u32,
    page: &[u8],
) -> Result<BlobMeta> {
    check_seal(file, pages - 1, identity, page)?;
    let mut from = Decoder::new(file, u64::from(pages - 1) * PAGE, &page[..BODY_BYTES]);
    let start = from.clone();
    if (from.u32()?, from.u32()?) != (FOOTER_MAGIC, 0) {
        return Err(start.corrupt("the footer of a blob file", "another page"));
    }
    let meta = BlobMeta::decode(&mut from)?;
    if meta.identity != identity || meta.file_bytes() != u64::from(pages) * PAGE {
        return Err(start.corrupt("the footer of this file", "that of another"));
    }
    Ok(BlobMeta { id, ..meta })
}

/// A blob file in the making. What was written goes with it when it is dropped.
#[derive(Debug)]
pub struct BlobBuilder {
    meta: BlobMeta,
    file: Arc<dyn File>,
    shared: Arc<SharedFile>,
    closed: Arc<AtomicBool>,
    /// What gives way where the disk is full.
    room: Arc<SpareFiles>,
    buffer: Buffer,
    /// Number of the page at the buffer's start.
    buffer_page: u64,
    /// Where in the buffer the page in work begins, and how many bytes it holds.
    filled: usize,
    in_page: usize,
}

impl BlobBuilder {
    /// Begins the file `file`, which is new and counted by `shared`.
    pub fn new(
        (id, identity, store): (u64, u64, u64),
        file: Arc<dyn File>,
        shared: Arc<SharedFile>,
        closed: &Arc<AtomicBool>,
        room: &Arc<SpareFiles>,
    ) -> Self {
        let mut buffer = Buffer::new(WRITE_BYTES);
        let head = &mut buffer.as_mut_slice()[..PAGE_BYTES];
        let header = Header::new(FileKind::Blob, identity, store);
        head[..header::LENGTH].copy_from_slice(&header.encode());
        seal(head, identity, 0);
        BlobBuilder {
            meta: BlobMeta { id, identity, values: 0, bytes: 0, checksum: 0 },
            file,
            shared,
            closed: Arc::clone(closed),
            room: Arc::clone(room),
            buffer,
            buffer_page: 0,
            filled: PAGE_BYTES,
            in_page: 0,
        }
    }

    /// Bytes of values so far.
    #[must_use]
    pub fn bytes_so_far(&self) -> u64 {
        self.meta.bytes
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Appends a whole value. Amortised one page write for 4,092 bytes.
    pub fn add(&mut self, value: &[u8]) -> Result<BlobSpan> {
        let offset = self.meta.bytes;
        self.append(value)?;
        Ok(self.end_value(offset))
    }

    /// Ends the value that began at `offset`.
    pub fn end_value(&mut self, offset: u64) -> BlobSpan {
        self.meta.values += 1;
        BlobSpan { file: self.meta.identity, offset, length: self.meta.bytes - offset }
    }

    /// Appends a piece of a value.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.in_page == BODY_BYTES {
                self.end_page()?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BODY_BYTES - self.in_page));
            self.meta.checksum = crc_append(self.meta.checksum, now);
            let at = self.filled + self.in_page;
            self.buffer.as_mut_slice()[at..at + now.len()].copy_from_slice(now);
            self.in_page += now.len();
            self.meta.bytes += now.len() as u64;
            bytes = later;
        }
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        let number = self.buffer_page + (self.filled / PAGE_BYTES) as u64;
        let page = &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES];
        page[self.in_page..BODY_BYTES].fill(0);
        seal(page, self.meta.identity, number as u32);
        self.in_page = 0;
        self.filled += PAGE_BYTES;
        if self.filled == self.buffer.capacity() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let offset = self.buffer_page * PAGE;
        let bytes = &self.buffer.as_slice()[..self.filled];
        self.room.make_room(|| self.file.write_at(offset, bytes))?;
        self.file.start_writeback(offset, self.filled as u64);
        self.buffer_page += (self.filled / PAGE_BYTES) as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes the footer. Does not sync: see [`BlobFile::sync`].
    pub fn finish(mut self) -> Result<Arc<BlobFile>> {
        if self.in_page > 0 {
            self.end_page()?;
        }
        let mut encoder = Encoder::new();
        encoder.u32(FOOTER_MAGIC);
        encoder.u32(0);
        self.meta.encode(&mut encoder);
        let page = &mut self.buffer.as_mut_slice()[self.filled..self.filled + PAGE_BYTES];
        page.fill(0);
        page[..encoder.bytes().len()].copy_from_slice(encoder.bytes());
        seal(page, self.meta.identity, self.meta.footer_page() as u32);
        self.filled += PAGE_BYTES;
        self.flush()?;
        Ok(Arc::new(BlobFile {
            meta: self.meta,
            shared: self.shared,
            synced: SyncOnce::new(false),
            named: AtomicBool::new(false),
            closed: self.closed,
        }))
    }
}

//! A chunk that a collection rewrote: the records that were kept, and where each of them is.
//!
//! The records are byte for byte what they were, in the order of their logical offsets, so hashes,
//! references and checksums stay right. Behind them, pages of a mapping lead from logical offsets to
//! places in the file, and a table says where each page begins, and its checksum; a lookup reads one page.
//! Format document: `docs/format/sparse.md`.

use std::sync::Arc;

use crate::cache::PAGE;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::format::checksum::{crc, crc_append, masked, page_crc};
use crate::format::codec::{Decoder, Encoder};
use crate::format::header::{self, FileKind, Header};

/// Entries of a page of the mapping, and bytes before them.
const ENTRIES: usize = 509;
const PAGE_HEAD: usize = 24;

/// The highest distance of an entry from the first of its page: a bit beside it says what it is.
const DISTANCE_MAX: u64 = (1 << 31) - 1;

/// No record of a pack lies as far.
const OFFSETS_END: u64 = 1 << 61;

/// Bytes of a page in the table: the distance that it begins with, and its checksum.
const ROW: usize = 12;

/// Bytes at the end of the file.
const FOOTER: usize = 28;

/// Bytes at the end of a file that are read together when it is opened: the last page of the mapping, the table of most files
/// and the footer are in them.
const TAIL: u64 = 16 << 10;

/// Bytes that are written together.
const WRITE_BYTES: usize = 256 << 10;

/// Which file it is, as the control file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SparseFile {
    /// How often the chunk was rewritten.
    pub(crate) generation: u64,
    /// Its length.
    pub(crate) bytes: u64,
    /// The checksum at its end.
    pub(crate) sum: u32,
}

/// Where a chunk is, and what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Whole,
    /// A collection has rewritten it.
    Sparse(SparseFile),
    /// It was moved to the lower folder, whole.
    Lower,
    /// The same, and what recent commits need of it is in this file above.
    Both(SparseFile),
    /// Nothing in it was kept.
    Gone,
}

impl State {
    /// Whether it is whole in the lower folder.
    pub(crate) fn is_lower(self) -> bool {
        matches!(self, State::Lower | State::Both(_))
    }

    /// The file that has some of its records.
    pub(crate) fn sparse(self) -> Option<SparseFile> {
        match self {
            State::Sparse(sparse) | State::Both(sparse) => Some(sparse),
            _ => None,
        }
    }
}

/// Where a record is, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptRecord {
    /// Distance of its logical offset from that of the chunk.
    pub(crate) distance: u64,
    /// The byte of the file.
    pub(crate) place: u64,
    /// Something reaches it; else it is only the base of patches, and what it refers to may be gone.
    pub(crate) is_object: bool,
}

/// The last bytes of a file.
#[derive(Debug)]
pub(crate) struct Footer {
    /// How many records there are.
    pub(crate) records: u64,
    first_page: u32,
    /// Where the table begins and ends, which says where the pages of the mapping begin.
    pub(crate) table: std::ops::Range<u64>,
    sum: u32,
    bytes: [u8; FOOTER - 4],
}

impl Footer {
    /// Bytes that it takes at the end of the file.
    pub(crate) const BYTES: usize = FOOTER;

    /// Of the last bytes of a file of `length`.
    pub(crate) fn decode(path: &str, length: u64, footer: &[u8; FOOTER]) -> Result<Footer> {
        let place = length.saturating_sub(FOOTER as u64);
        let mut from = Decoder::new(path, place, footer);
        let start = from.clone();
        let (records, mapping, pages) = (from.u64()?, from.u64()?, from.u64()?);
        let sum = from.u32()?;
        let fits = mapping >= header::LENGTH as u64
            && mapping.is_multiple_of(PAGE as u64)
            && pages <= length / PAGE as u64
            && mapping.checked_add(pages * (PAGE + ROW) as u64) == Some(place);
        let first_page = u32::try_from(mapping / PAGE as u64).ok().filter(|_| fits);
        let Some(first_page) = first_page else {
            return Err(start.corrupt("a mapping that ends here", "another"));
        };
        let bytes = *footer.first_chunk().expect("it is shorter");
        Ok(Footer { records, first_page, table: place - ROW as u64 * pages..place, sum, bytes })
    }

    /// The mapping of the file with `identity`, whose table is `table`.
    pub(crate) fn mapping(&self, path: &str, identity: u64, table: &[u8]) -> Result<Mapping> {
        let corrupt = |expected: String, found: String| {
            Err(Error::corrupt(path, self.table.start, expected, found))
        };
        let found = footer_sum(identity, table, &self.bytes);
        if found != self.sum {
            let expected = format!("a mapping with checksum {:08x}", self.sum);
            return corrupt(expected, format!("{found:08x}"));
        }
        let mut rows = Decoder::new(path, self.table.start, table);
        let (mut firsts, mut sums) = (Vec::new(), Vec::new());
        for _ in 0..table.len() / ROW {
            firsts.push(rows.u64()?);
            sums.push(rows.u32()?);
        }
        if !firsts.is_sorted_by(|a, b| a < b) {
            return corrupt("pages in order".to_owned(), "others".to_owned());
        }
        let (firsts, sums) = (firsts.into(), sums.into());
        Ok(Mapping { first_page: self.first_page, firsts, sums, records: self.records })
    }
}

/// Where the pages of the mapping are, and what each begins with.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The number of its first page in the file.
    first_page: u32,
    /// Distance of the first entry of each page.
    firsts: Box<[u64]>,
    /// The checksum of each page: what the control file knows of the file covers all of them.
    sums: Box<[u32]>,
    /// How many records there are.
    pub(crate) records: u64,
}

impl Mapping {
    /// Reads the end of `file`, which has `identity` and should be what the control file says.
    pub(crate) fn read(file: &dyn File, identity: u64, expected: SparseFile) -> Result<Mapping> {
        Self::read_with_last(file, identity, expected).map(|(mapping, _)| mapping)
    }

    /// The same, and the last record, where its chunk ends: none where its page cannot be read.
    pub(crate) fn read_with_last(
        file: &dyn File,
        identity: u64,
        expected: SparseFile,
    ) -> Result<(Mapping, Option<KeptRecord>)> {
        let (path, length) = (file.path(), file.len()?);
        let place = length.checked_sub(FOOTER as u64).filter(|_| length == expected.bytes);
        let Some(place) = place else {
            return Err(Error::corrupt(
                path,
                length,
                format_args!("{} bytes", expected.bytes),
                length,
            ));
        };
        let mut tail = vec![0; if cfg!(varvite_js) { 0 } else { TAIL.min(length) as usize }];
        let tail_at = length - tail.len() as u64;
        // Part of it may be unreadable, and needed by nobody.
        let is_read = !cfg!(varvite_js) && file.read_exact_at(tail_at, &mut tail).is_ok();
        let read = |at: u64, out: &mut [u8]| match at.checked_sub(tail_at).filter(|_| is_read) {
            Some(from) => {
                out.copy_from_slice(&tail[from as usize..from as usize + out.len()]);
                Ok(())
            }
            None => file.read_exact_at(at, out),
        };
        let mut footer = [0; FOOTER];
        read(place, &mut footer)?;
        let footer = Footer::decode(path, length, &footer)?;
        if footer.sum != expected.sum {
            return Err(Error::corrupt(
                path,
                length - 4,
                format_args!("the checksum {:08x} that the control file says", expected.sum),
                format_args!("{:08x}", footer.sum),
            ));
        }
        let mut table = vec![0; (footer.table.end - footer.table.start) as usize];
        read(footer.table.start, &mut table)?;
        let mapping = footer.mapping(path, identity, &table)?;
        // In a browser nobody asks for it.
        let last = if cfg!(varvite_js) { None } else { mapping.last(path, identity, &read) };
        Ok((mapping, last))
    }

    /// The mapping of `file`, which has `identity`, with the last record, and whether it is the one that the control file says;
    /// none where it is not whole.
    pub(crate) fn of_any(
        file: &dyn File,
        identity: u64,
        expected: SparseFile,
    ) -> Result<Option<(Mapping, Option<KeptRecord>, bool)>> {
        let bytes = file.len()?;
        let Some(place) = bytes.checked_sub(FOOTER as u64) else { return Ok(None) };
        let mut sum = [0; 4];
        file.read_exact_at(place + FOOTER as u64 - 4, &mut sum)?;
        let found = SparseFile { bytes, sum: u32::from_le_bytes(sum), ..expected };
        match Mapping::read_with_last(file, identity, found) {
            Err(error) if error.kind() == Kind::Corrupt => Ok(None),
            read => read.map(|(mapping, last)| Some((mapping, last, found == expected))),
        }
    }

    /// The last record of the file of `identity` at `path`, which has this mapping, if its page, which `read` reads, is whole.
    fn last(
        &self,
        path: &str,
        identity: u64,
        read: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Option<KeptRecord> {
        let number = self.pages().last()?;
        let mut page = [0; PAGE];
        read(u64::from(number) * PAGE as u64, &mut page).ok()?;
        self.check_page(path, identity, number, &page).ok()?;
        entries(&page).last()
    }

    /// The page of the file that has the entry of `distance`, if any has.
    pub(crate) fn page_of(&self, distance: u64) -> Option<u32> {
        let index = self.firsts.partition_point(|first| *first <= distance).checked_sub(1)?;
        Some(self.first_page + index as u32)
    }

    /// All pages of the mapping.
    pub(crate) fn pages(&self) -> std::ops::Range<u32> {
        self.first_page..self.first_page + self.firsts.len() as u32
    }

    /// `Corrupt` unless `page` is page `number` of the mapping, in the file at `path` with `identity`.
    pub(crate) fn check_page(
        &self,
        path: &str,
        identity: u64,
        number: u32,
        page: &[u8; PAGE],
    ) -> Result<()> {
        let mut from = Decoder::new(path, u64::from(number) * PAGE as u64, page);
        let start = from.clone();
        let (found, right) = (from.u32()?, page_crc(identity, number, &page[4..]));
        let expected = number.checked_sub(self.first_page);
        let expected = expected.and_then(|index| self.sums.get(index as usize).copied());
        if found != right || expected != Some(found) {
            let expected = expected.unwrap_or(right);
            // That of its bytes, unless that number itself is damaged.
            let found = if right == expected { found } else { right };
            return Err(start.corrupt(
                format_args!("a page of the mapping with checksum {expected:08x}"),
                format_args!("{found:08x}"),
            ));
        }
        let count = from.u32()?;
        if !(1..=ENTRIES as u32).contains(&count) {
            return Err(start.corrupt(format_args!("1 to {ENTRIES} entries"), count));
        }
        let end = self.records_end();
        let is_within = |entry: KeptRecord| entry.distance < OFFSETS_END && entry.place < end;
        match entries(page).find(|entry| !is_within(*entry)) {
            None => Ok(()),
            Some(entry) => {
                let KeptRecord { distance, place, .. } = entry;
                let found =
                    format_args!("one at byte {place}, {distance} behind the chunk's begin");
                Err(start.corrupt(format_args!("records before byte {end}"), found))
            }
        }
    }

    /// Where the records end.
    pub(crate) fn records_end(&self) -> u64 {
        u64::from(self.first_page) * PAGE as u64
    }
}

fn footer_sum(identity: u64, table: &[u8], footer: &[u8]) -> u32 {
    masked(crc_append(crc_append(crc(&identity.to_le_bytes()), table), footer))
}

fn word(page: &[u8; PAGE], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

fn long(page: &[u8; PAGE], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

fn count(page: &[u8; PAGE]) -> usize {
    (word(page, 4) as usize).min(ENTRIES)
}

fn entry(page: &[u8; PAGE], index: usize) -> KeptRecord {
    let at = PAGE_HEAD + 8 * index;
    let head = word(page, at);
    KeptRecord {
        distance: long(page, 8).saturating_add(u64::from(head >> 1)),
        place: long(page, 16).saturating_add(u64::from(word(page, at + 4))),
        is_object: head & 1 == 1,
    }
}

/// The entry of `distance` in a page that was checked.
pub(crate) fn find(page: &[u8; PAGE], distance: u64) -> Option<KeptRecord> {
    let (mut low, mut high) = (0, count(page));
    while low < high {
        let middle = usize::midpoint(low, high);
        let found = entry(page, middle);
        match found.distance.cmp(&distance) {
            std::cmp::Ordering::Equal => return Some(found),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    None
}

/// All entries of a page that was checked, in order.
pub(crate) fn entries(page: &[u8; PAGE]) -> impl Iterator<Item = KeptRecord> + '_ {
    (0..count(page)).map(|index| entry(page, index))
}

/// What the file of `identity` says of itself, once its mapping was read to the end. `Corrupt` when it is not as it was
/// written.
pub(crate) fn verify(file: &dyn File, identity: u64, generation: u64) -> Result<SparseFile> {
    let (path, bytes) = (file.path(), file.len()?);
    let Some(place) = bytes.checked_sub(FOOTER as u64) else {
        return Err(Error::corrupt(path, bytes, "the end of a mapping", "the end of the file"));
    };
    let mut footer = [0; FOOTER];
    file.read_exact_at(place, &mut footer)?;
    let sum = Footer::decode(path, bytes, &footer)?.sum;
    let found = SparseFile { generation, bytes, sum };
    let mapping = Mapping::read(file, identity, found)?;
    let mut page = [0; PAGE];
    for number in mapping.pages() {
        file.read_exact_at(u64::from(number) * PAGE as u64, &mut page)?;
        mapping.check_page(path, identity, number, &page)?;
    }
    Ok(found)
}

/// The entries of a page of a mapping of which nothing else is known; none when it is no such page.
pub(crate) fn lone_entries(
    identity: u64,
    number: u32,
    page: &[u8; PAGE],
) -> Option<impl Iterator<Item = KeptRecord> + '_> {
    let is_one = word(page, 0) == page_crc(identity, number, &page[4..])
        && (1..=ENTRIES as u32).contains(&word(page, 4));
    is_one.then(|| entries(page))
}

/// A file in work. What it holds counts for nothing before [`SparseWriter::finish`].
#[derive(Debug)]
pub(crate) struct SparseWriter {
    file: Arc<dyn File>,
    identity: u64,
    /// Bytes that are not written yet, and where they begin.
    buffer: Vec<u8>,
    written: u64,
    mapping: Vec<[u8; PAGE]>,
    /// Where it begins, once all records are there, and how many of its pages were put.
    pages: Option<(u64, usize)>,
    records: u64,
}

impl SparseWriter {
    /// Makes the file at `path`, over what an attempt has left.
    pub(crate) fn create(
        disk: &dyn Disk,
        path: &str,
        identity: u64,
        store: u64,
    ) -> Result<SparseWriter> {
        if disk.exists(path)? {
            disk.remove(path)?;
        }
        let file = disk.open(path, Mode::Create, Access::Buffered)?;
        let buffer = Header::new(FileKind::Sparse, identity, store).encode().to_vec();
        let (mapping, pages) = (Vec::new(), None);
        Ok(SparseWriter { file, identity, buffer, written: 0, mapping, pages, records: 0 })
    }

    /// What it takes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.buffer.capacity() + self.mapping.capacity() * PAGE
    }

    /// Adds the record at `distance`, which is beyond that of the one before.
    pub(crate) fn push(&mut self, distance: u64, is_object: bool, record: &[u8]) -> Result<()> {
        let place = self.written + self.buffer.len() as u64;
        let fits = |page: &[u8; PAGE]| {
            count(page) < ENTRIES
                && distance - long(page, 8) <= DISTANCE_MAX
                && u32::try_from(place - long(page, 16)).is_ok()
        };
        if !self.mapping.last().is_some_and(fits) {
            let mut page = [0; PAGE];
            page[8..16].copy_from_slice(&distance.to_le_bytes());
            page[16..24].copy_from_slice(&place.to_le_bytes());
            self.mapping.push(page);
        }
        let page = self.mapping.last_mut().expect("it was just added");
        let (at, next) = (PAGE_HEAD + 8 * count(page), count(page) as u32 + 1);
        let head = ((distance - long(page, 8)) as u32) << 1 | u32::from(is_object);
        let far = (place - long(page, 16)) as u32;
        page[at..at + 4].copy_from_slice(&head.to_le_bytes());
        page[at + 4..at + 8].copy_from_slice(&far.to_le_bytes());
        page[4..8].copy_from_slice(&next.to_le_bytes());
        self.records += 1;
        self.buffer.extend_from_slice(record);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_at(self.written, &self.buffer)?;
        self.file.start_writeback(self.written, self.buffer.len() as u64);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Puts the next pages of the mapping behind the records; returns how many bytes they have, 0 after the
    /// last.
    pub(crate) fn put_pages(&mut self) -> Result<u64> {
        let end = self.written + self.buffer.len() as u64;
        let (start, put) = self.pages.unwrap_or((end.next_multiple_of(PAGE as u64), 0));
        if put == 0 {
            self.buffer.resize((start - self.written) as usize, 0);
        }
        let first = u32::try_from(start / PAGE as u64 + put as u64).map_err(|_| too_long())?;
        let pages = self.mapping[put..].iter_mut().take(WRITE_BYTES / PAGE);
        let count = pages.len();
        for (number, page) in (first..).zip(pages) {
            let sum = page_crc(self.identity, number, &page[4..]);
            page[..4].copy_from_slice(&sum.to_le_bytes());
            self.buffer.extend_from_slice(page);
        }
        self.flush()?;
        self.pages = Some((start, put + count));
        Ok((count * PAGE) as u64)
    }

    /// Ends the file and syncs it. Its name is the caller's to make durable.
    pub(crate) fn finish(&mut self, generation: u64) -> Result<SparseFile> {
        while self.put_pages()? > 0 {}
        let mut table = Encoder::new();
        for page in &self.mapping {
            table.raw(&page[8..16]);
            table.raw(&page[..4]);
        }
        let table = table.finish();
        let mut footer = Encoder::new();
        footer.u64(self.records);
        footer.u64(self.pages.map_or(0, |(start, _)| start));
        footer.u64(self.mapping.len() as u64);
        let sum = footer_sum(self.identity, &table, footer.bytes());
        footer.u32(sum);
        self.buffer.extend_from_slice(&table);
        self.buffer.extend_from_slice(footer.bytes());
        self.flush()?;
        self.file.sync()?;
        Ok(SparseFile { generation, bytes: self.written, sum })
    }
}

fn too_long() -> Error {
    Error::invalid("what is kept of one chunk takes more than 2^44 bytes: use smaller chunks")
}

//! What each fuzz target does with its bytes. Shared by path with `fuzz/`, so that an ordinary test
//! run exercises the same bodies on mutations of good bytes.
//!
//! A body may find errors but must not panic, hang, or take memory out of proportion. Checksums are
//! repaired first where they would stop every mutation at the door.

use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, Mode};
use varvite::raw::format::checksum::page_crc;
use varvite::raw::format::codec::Decoder;
use varvite::raw::format::header::{self, FileKind, Header};
use varvite::raw::{
    BlobSpan, Filter, Footer, Index, Nearest, PAGE_BYTES, Page, PageList, RangeFilter, ReadOptions,
    Run, RunReader, Segment, SegmentMeta, read_blob_meta, seal,
};
use varvite::table::inspect;

/// The identity that the repaired bytes are checked with.
pub const IDENTITY: u64 = 0x1dea;

/// What a fuzz target does with its bytes.
pub type Body = fn(&[u8]);

/// Every decoder's name and body.
pub const BODIES: [(&str, Body); 10] = [
    ("header", header),
    ("page", page),
    ("filter", filter),
    ("range_filter", range_filter),
    ("index", index),
    ("footer", footer),
    ("packed_pages", packed_pages),
    ("segment_meta", segment_meta),
    ("segment", segment),
    ("blob", blob),
];

pub fn header(bytes: &[u8]) {
    let _ = Header::decode("f", bytes);
}

/// A page with its checksum repaired.
pub fn page(bytes: &[u8]) {
    let mut whole = [0; PAGE_BYTES];
    let length = bytes.len().min(PAGE_BYTES);
    whole[..length].copy_from_slice(&bytes[..length]);
    seal(&mut whole, IDENTITY, 1);
    let Ok(page) = Page::check("f", 1, IDENTITY, &whole) else { return };
    for i in 0..page.count() {
        let key = page.key(i);
        let _ = (page.search(&key), page.find_near(&key, 1 << 15), page.kind(i), page.value(i));
    }
    if page.overflow() > 0 {
        assert!(page.large_value_bytes() <= page.overflow() * PAGE_BYTES + PAGE_BYTES);
    }
    let _ = page.seek(b"key");
}

/// Bytes whose first four are made the checksum of the rest at page 1.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some((crc, rest)) = bytes.split_first_chunk_mut::<4>() {
        *crc = page_crc(IDENTITY, 1, rest).to_le_bytes();
    }
    bytes
}

pub fn filter(bytes: &[u8]) {
    let bytes = repaired(bytes);
    let Ok(filter) = Filter::decode("f", 1, IDENTITY, &bytes) else { return };
    assert_eq!(filter.encode(IDENTITY, 1).len(), bytes.len());
    for hash in [0, 1 << 31, u64::MAX] {
        filter.prefetch(hash);
        let _ = filter.probe(hash);
    }
}

pub fn range_filter(bytes: &[u8]) {
    let bytes = repaired(bytes);
    let Ok(filter) = RangeFilter::decode("f", 1, IDENTITY, &bytes) else { return };
    assert_eq!(filter.encode(IDENTITY, 1), bytes);
    assert!((1..=filter.bucket_count()).contains(&filter.set_count()));
    for key in [&b""[..], &bytes[4..], &bytes[8..16], &bytes[16..24], &[0xff; 30]] {
        filter.prefetch(key);
        let holds = filter.may_hold(key);
        for nearest in [filter.at_or_after(key), filter.at_or_before(key)] {
            assert_eq!(nearest == Nearest::Here, holds);
        }
    }
}

pub fn index(bytes: &[u8]) {
    let bytes = repaired(bytes);
    let Ok(index) = Index::decode("f", 1, IDENTITY, &bytes) else { return };
    assert_eq!(index.encode(IDENTITY, 1), bytes, "one form for each index");
    for key in [b"".as_slice(), &[0; 9], index.first_key(), index.last_key(), &[255; 50]] {
        assert!(index.seek(key) < index.heads());
        if let Some(span) = index.find(key) {
            assert!(span.count > 0);
        }
    }
}

pub fn footer(bytes: &[u8]) {
    let mut page = [0; PAGE_BYTES];
    let length = bytes.len().min(PAGE_BYTES);
    page[..length].copy_from_slice(&bytes[..length]);
    // The number of the footer's page follows from its own fields, as far as they make sense.
    let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"));
    let number = word(28).saturating_add(word(32).div_ceil(PAGE_BYTES as u32));
    let blobs = if word(36) >> 31 == 1 { word(88).saturating_mul(44) } else { 0 };
    let number = number.saturating_add(blobs.div_ceil(PAGE_BYTES as u32));
    let number = number.clamp(3, u32::MAX - 1);
    seal(&mut page, IDENTITY, number);
    if let Ok(footer) = Footer::decode("f", IDENTITY, number + 1, &page) {
        assert_eq!(footer.page(), number);
        let filters = footer.filter_page..footer.index_page;
        assert!(footer.range_filter().is_none_or(|(page, _)| filters.contains(&page)));
        assert!(footer.bloom_bytes() <= footer.filter_bytes);
        let mut again = [0; PAGE_BYTES];
        footer.encode(IDENTITY, &mut again);
        assert!(Footer::decode("f", IDENTITY, number + 1, &again).is_ok_and(|it| it == footer));
    }
}

/// How many pages there are, their stored lengths, made a list with a right checksum, and their bytes.
pub fn packed_pages(bytes: &[u8]) {
    let Some((&count, bytes)) = bytes.split_first() else { return };
    let (lengths, stored) = bytes.split_at(bytes.len().min(2 * usize::from(count)));
    let length = |it: &[u8]| u64::from(u16::from_le_bytes([it[0], it[1]]));
    let sum = lengths.chunks_exact(2).map(length).sum();
    let list = [lengths, &page_crc(IDENTITY, 9, lengths).to_le_bytes()].concat();
    let Ok(list) = PageList::decode("f", 9, IDENTITY, sum, &list) else { return };
    let mut page = [0; PAGE_BYTES];
    for number in 1..=list.pages() {
        let place = |page| list.offset(page) as usize - PAGE_BYTES;
        let Some(stored) = stored.get(place(number)..place(number + 1)) else { return };
        let restored = list.unpack(("f", IDENTITY), number, stored, &mut page).is_ok();
        if restored && stored.len() < PAGE_BYTES {
            let sealed = page;
            seal(&mut page, IDENTITY, number);
            assert!(page == sealed, "a page with a wrong checksum passed");
        }
    }
}

pub fn segment_meta(bytes: &[u8]) {
    let _ = SegmentMeta::decode(&mut Decoder::new("f", 0, bytes));
}

/// A whole file: described, opened, streamed and searched.
pub fn segment(bytes: &[u8]) {
    let outline = inspect::segment("s", bytes);
    assert!(!outline.to_string().is_empty());
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", bytes).expect("a memory disk takes any bytes");
    let Ok(segment) = Segment::recover(&*disk, "s", 1, Access::Buffered) else { return };
    let _ = (segment.filter(), segment.read_range_filter());
    assert!(segment.meta().first_key <= segment.meta().last_key);
    let run = Run::new(vec![Arc::new(segment)]);
    let Ok(mut reader) = RunReader::new(&run, None, ReadOptions::default()) else { return };
    while reader.peek().is_some() && reader.advance().is_ok() {}
}

/// A whole blob file, with its header mended and the checksum of its footer repaired.
pub fn blob(bytes: &[u8]) {
    if let Some(span) = bytes.first_chunk::<24>().and_then(|it| BlobSpan::decode(it)) {
        assert_eq!(span.encode()[..], bytes[..24]);
    }
    let mut bytes = bytes.to_vec();
    let pages = bytes.len() / PAGE_BYTES;
    if pages >= 2 {
        let header = Header::new(FileKind::Blob, IDENTITY, 42);
        bytes[..header::LENGTH].copy_from_slice(&header.encode());
        seal(&mut bytes[..PAGE_BYTES], IDENTITY, 0);
        let footer = (pages - 1) * PAGE_BYTES;
        bytes[footer + 8..footer + 16].copy_from_slice(&IDENTITY.to_le_bytes());
        seal(&mut bytes[footer..footer + PAGE_BYTES], IDENTITY, pages as u32 - 1);
    }
    let outline = inspect::blob("b", &bytes);
    assert!(!outline.to_string().is_empty());
    let disk = MemoryDisk::seeded(1);
    disk.replace("b", bytes.clone()).expect("a memory disk takes any bytes");
    let file = disk.open("b", Mode::Read, Access::Buffered).expect("it is there");
    if let Ok(meta) = read_blob_meta(&*file, 7) {
        assert_eq!((meta.file_bytes(), meta.id), (bytes.len() as u64, 7));
    }
}

//! Segments of packed pages that claim far more than they have: refused, or told, in little memory.

use varvite::disk::Access;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::format::checksum::page_crc;
use varvite::raw::{
    EntryKind, EntryRef, Footer, PAGE_BYTES, Segment, SegmentBuilder, SegmentOptions, page_offset,
    seal,
};
use varvite::table::inspect;

use crate::allocations;

const IDENTITY: u64 = 0x0dd_ba11;
/// Pages of a gigabyte.
const GIGABYTE: u32 = 1 << 18;

/// A sound segment of packed pages, and its footer.
fn segment() -> (Vec<u8>, Footer) {
    let disk = MemoryDisk::seeded(1);
    let options = SegmentOptions {
        id: 1,
        identity: IDENTITY,
        store: 1,
        salt: 1,
        bits_per_entry: 0,
        range_filter: false,
        access: Access::Buffered,
    };
    let mut builder = SegmentBuilder::new(&*disk, "s", options).unwrap();
    builder.pack();
    for key in 0..500_u32 {
        let key = key.to_be_bytes();
        builder.add(EntryRef { key: &key, kind: EntryKind::Insert, value: &[7; 60] }).unwrap();
    }
    builder.finish().unwrap();
    let footer = Segment::recover(&*disk, "s", 1, Access::Buffered).unwrap().meta().footer;
    (disk.bytes("s").unwrap(), footer)
}

/// The segment with so many pages of `length` stored bytes each, all checksums but those of the pages right.
fn claiming(pages: u32, length: u16) -> Vec<u8> {
    let (sound, old) = segment();
    let mut file = sound[..PAGE_BYTES].to_vec();
    let packed = u64::from(length) * u64::from(pages);
    file.resize(PAGE_BYTES + packed as usize, 0x11);
    file.resize(file.len().next_multiple_of(PAGE_BYTES), 0);
    let mut list = length.to_le_bytes().repeat(pages as usize);
    let crc = page_crc(IDENTITY, (file.len() / PAGE_BYTES) as u32, &list);
    list.extend(crc.to_le_bytes());
    file.extend(list);
    file.resize(file.len().next_multiple_of(PAGE_BYTES), 0);
    let index_page = (file.len() / PAGE_BYTES) as u32;
    let index = page_offset(old.index_page) as usize..sound.len() - PAGE_BYTES;
    file.extend(&sound[index]);
    let footer = Footer { pages, packed_bytes: packed, filter_page: index_page, index_page, ..old };
    let mut page = [0; PAGE_BYTES];
    footer.encode(IDENTITY, &mut page);
    seal(&mut page, IDENTITY, (file.len() / PAGE_BYTES) as u32);
    file.extend(page);
    file
}

/// What opening says of the file.
fn opened(file: &[u8]) -> Result<Segment, varvite::Error> {
    let disk = MemoryDisk::seeded(1);
    disk.replace("s", file.to_vec()).unwrap();
    Segment::recover(&*disk, "s", 1, Access::Buffered)
}

#[test]
fn a_gigabyte_of_pages_that_take_too_few_bytes_is_refused_at_the_footer() {
    let file = claiming(GIGABYTE, 16);
    let (outcome, most) = allocations::most(|| opened(&file).map(drop));
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("bytes of packed pages"), "{error}");
    // The copy that the disk has, which may have grown twice.
    assert!(most < 3 * file.len(), "{most} bytes for {}", file.len());
}

#[test]
fn many_pages_of_few_bytes_are_told_in_the_memory_of_its_outline() {
    let file = claiming(GIGABYTE / 4, 17);
    assert!(file.len() < 2 << 20, "{}", file.len());
    let (outline, most) = allocations::most(|| inspect::segment("s", &file));
    assert!(outline.damage_count() >= GIGABYTE as usize / 4);
    // No more for a page than its outline, which tells what is wrong with it.
    assert!(most < GIGABYTE as usize / 4 * 1024, "{most} bytes for {}", file.len());
}

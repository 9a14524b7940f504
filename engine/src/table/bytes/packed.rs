//! Pages stored behind each other, compressed where that pays, and the list that says where each lies.
//!
//! Format document: `docs/format/segment.md`.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use super::index::FIRST_PAGE;
use super::page::{PAGE_BYTES, check_seal};
use crate::error::{Error, Result};
use crate::format::checksum::page_crc;

/// A page that takes more than this compressed is stored as it is: it would save too little.
const PACKED_BYTES_MAX: usize = PAGE_BYTES / 8 * 7;

/// No page takes less: a byte of an LZ4 block stands for 255 at most. So the bytes of a file bound how many
/// pages it has, and nothing that a footer claims asks for more memory than in proportion to them.
pub const PACKED_BYTES_MIN: usize = PAGE_BYTES.div_ceil(255);

/// So many pages share one offset in memory; the lengths of those in front of a page lead to it.
const GROUP: usize = 32;

/// Bytes that the list of `pages` pages takes in a file.
#[must_use]
pub fn page_list_bytes(pages: u32) -> u64 {
    2 * u64::from(pages) + 4
}

/// Stores pages one behind the other and remembers how long each became.
#[derive(Debug)]
pub struct PagePacker {
    lengths: Vec<u16>,
    bytes: u64,
    room: Vec<u8>,
}

impl Default for PagePacker {
    fn default() -> Self {
        let room = vec![0; get_maximum_output_size(PAGE_BYTES)];
        PagePacker { lengths: Vec::new(), bytes: 0, room }
    }
}

impl PagePacker {
    /// The bytes to store for the next page.
    pub fn pack<'a>(&'a mut self, page: &'a [u8]) -> &'a [u8] {
        let stored = match compress_into(page, &mut self.room) {
            Ok(length) if length <= PACKED_BYTES_MAX => &self.room[..length],
            _ => page,
        };
        self.lengths.push(stored.len() as u16);
        self.bytes += stored.len() as u64;
        stored
    }

    /// Bytes of all pages so far, as they are stored.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.room.capacity() + 2 * self.lengths.capacity()
    }

    /// The list of the pages, to be stored from page `at` of the file on.
    #[must_use]
    pub fn encode(&self, identity: u64, at: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.lengths.iter().flat_map(|it| it.to_le_bytes()).collect();
        let crc = page_crc(identity, at, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// Where the stored pages of a file are.
#[derive(Debug)]
pub struct PageList {
    /// Byte offset in the file of every [`GROUP`]th page.
    groups: Vec<u64>,
    lengths: Vec<u16>,
    end: u64,
}

impl PageList {
    /// Decodes the list of pages that take `stored_bytes` bytes, which is at page `at` of the file;
    /// `Corrupt` when it is not that.
    pub fn decode(
        file: &str,
        at: u32,
        identity: u64,
        stored_bytes: u64,
        bytes: &[u8],
    ) -> Result<Self> {
        let offset = u64::from(at) * PAGE_BYTES as u64;
        let corrupt = |expected, found: String| Err(Error::corrupt(file, offset, expected, found));
        let Some((lengths, crc)) = bytes.split_last_chunk() else {
            return corrupt("a list of pages", format!("{} bytes", bytes.len()));
        };
        let (expected, found) = (page_crc(identity, at, lengths), u32::from_le_bytes(*crc));
        if expected != found {
            return corrupt("the checksum of the list of pages", format!("{found:08x}"));
        }
        let lengths: Vec<u16> =
            lengths.chunks_exact(2).map(|it| u16::from_le_bytes([it[0], it[1]])).collect();
        let mut list = PageList {
            groups: Vec::with_capacity(lengths.len().div_ceil(GROUP)),
            lengths,
            end: PAGE_BYTES as u64,
        };
        for (number, &length) in list.lengths.iter().enumerate() {
            if !matches!(usize::from(length), PACKED_BYTES_MIN..=PACKED_BYTES_MAX | PAGE_BYTES) {
                return corrupt(
                    "a page of 17 to 3584 bytes, or of 4096",
                    format!("one of {length}"),
                );
            }
            if number % GROUP == 0 {
                list.groups.push(list.end);
            }
            list.end += u64::from(length);
        }
        let found = list.end - PAGE_BYTES as u64;
        if found != stored_bytes {
            return corrupt("pages that take what the footer says", format!("{found} bytes"));
        }
        Ok(list)
    }

    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        8 * self.groups.capacity() + 2 * self.lengths.capacity()
    }

    /// How many pages there are.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.lengths.len() as u32
    }

    /// Where in the file `page` begins; of the one behind the last, where that ends.
    #[must_use]
    pub fn offset(&self, page: u32) -> u64 {
        let number = (page - FIRST_PAGE) as usize;
        if number == self.lengths.len() {
            return self.end;
        }
        let before = &self.lengths[number / GROUP * GROUP..number];
        self.groups[number / GROUP] + before.iter().map(|&it| u64::from(it)).sum::<u64>()
    }

    /// Restores pages from `first` on from their stored bytes, which begin at the start of `stored`, until
    /// `pages` is full; `Corrupt` when they are no pages of this file.
    pub fn unpack(
        &self,
        (file, identity): (&str, u64),
        first: u32,
        mut stored: &[u8],
        pages: &mut [u8],
    ) -> Result<()> {
        for (number, page) in (first..).zip(pages.chunks_exact_mut(PAGE_BYTES)) {
            let length = usize::from(self.lengths[(number - FIRST_PAGE) as usize]);
            let (bytes, rest) = stored.split_at(length);
            stored = rest;
            if length == PAGE_BYTES {
                page.copy_from_slice(bytes);
                continue;
            }
            let sound = matches!(decompress_into(bytes, page), Ok(PAGE_BYTES))
                && check_seal(file, number, identity, page).is_ok();
            if !sound {
                return Err(Error::corrupt(
                    file,
                    self.offset(number),
                    format_args!("page {number}, compressed to {length} bytes"),
                    "bytes that do not restore it",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::bytes::seal;

    const IDENTITY: u64 = 0x1dea;

    /// Pages that compress well, a little, and not at all.
    fn pages() -> Vec<Vec<u8>> {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (FIRST_PAGE..=70)
            .map(|number| {
                let mut page = vec![0; PAGE_BYTES];
                let noise = number as usize % 5 * 1023;
                page[..noise].iter_mut().for_each(|byte| *byte = random());
                seal(&mut page, IDENTITY, number);
                page
            })
            .collect()
    }

    /// The stored pages behind a header page, and their list.
    fn packed(pages: &[Vec<u8>]) -> (Vec<u8>, PageList) {
        let mut packer = PagePacker::default();
        let mut file = vec![0; PAGE_BYTES];
        for page in pages {
            file.extend_from_slice(packer.pack(page));
        }
        assert_eq!(packer.stored_bytes() as usize, file.len() - PAGE_BYTES);
        let bytes = packer.encode(IDENTITY, 9);
        assert_eq!(bytes.len() as u64, page_list_bytes(pages.len() as u32));
        let list = PageList::decode("f", 9, IDENTITY, packer.stored_bytes(), &bytes).unwrap();
        (file, list)
    }

    #[test]
    fn every_page_comes_back_from_its_own_bytes() {
        let pages = pages();
        let (file, list) = packed(&pages);
        assert!(file.len() < pages.len() * PAGE_BYTES * 2 / 3, "{}", file.len());
        assert_eq!(list.pages() as usize, pages.len());
        assert_eq!(list.offset(FIRST_PAGE + list.pages()), file.len() as u64);
        for (number, page) in (FIRST_PAGE..).zip(&pages) {
            let stored = &file[list.offset(number) as usize..list.offset(number + 1) as usize];
            let mut found = vec![1; PAGE_BYTES];
            list.unpack(("f", IDENTITY), number, stored, &mut found).unwrap();
            assert_eq!(&found, page);
        }
        let mut all = vec![1; pages.len() * PAGE_BYTES];
        list.unpack(("f", IDENTITY), FIRST_PAGE, &file[PAGE_BYTES..], &mut all).unwrap();
        assert_eq!(all, pages.concat());
    }

    #[test]
    fn what_saves_less_than_an_eighth_is_stored_as_it_is() {
        let (_, list) = packed(&pages());
        let lengths: Vec<_> = list.lengths.iter().map(|&it| usize::from(it)).collect();
        assert!(lengths.contains(&PAGE_BYTES));
        assert!(lengths.iter().all(|&it| it == PAGE_BYTES || it <= PACKED_BYTES_MAX));
    }

    /// A block that would give more than a page is refused when the page is full.
    #[test]
    fn a_block_of_more_than_a_page_is_refused() {
        let mut block = vec![0x1f, 0, 1, 0]; // a zero, then itself again, so many times as follow
        block.resize(3000, 255);
        block.extend([0, 0x50, 1, 2, 3, 4, 5]);
        let length = block.len() as u16;
        let packer = PagePacker { lengths: vec![length], bytes: length.into(), room: Vec::new() };
        let bytes = packer.encode(IDENTITY, 9);
        let list = PageList::decode("f", 9, IDENTITY, length.into(), &bytes).unwrap();
        let mut page = vec![0; PAGE_BYTES];
        let error = list.unpack(("f", IDENTITY), FIRST_PAGE, &block, &mut page).unwrap_err();
        assert!(error.to_string().contains("page 1, compressed to 3007 bytes"), "{error}");
        let mut whole = vec![0; 1 << 20];
        assert!(decompress_into(&block, &mut whole).unwrap() > 700_000, "the block is one");
    }

    /// Damage restores the page all the same, or is found here or by the page's checksum.
    #[test]
    fn no_flipped_bit_gives_another_page() {
        let pages = pages();
        let (file, list) = packed(&pages);
        let mut refused = 0;
        for at in (PAGE_BYTES..file.len()).step_by(7) {
            let mut damaged = file.clone();
            damaged[at] ^= 1 << (at % 8);
            let number =
                (FIRST_PAGE..=list.pages()).find(|&it| list.offset(it + 1) > at as u64).unwrap();
            let stored = &damaged[list.offset(number) as usize..list.offset(number + 1) as usize];
            let mut found = vec![0; PAGE_BYTES];
            let outcome = list
                .unpack(("f", IDENTITY), number, stored, &mut found)
                .and_then(|()| check_seal("f", number, IDENTITY, &found));
            match outcome {
                Ok(()) => assert_eq!(found, pages[(number - FIRST_PAGE) as usize]),
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 1000, "{refused}");
    }

    #[test]
    fn a_damaged_list_is_refused() {
        let mut packer = PagePacker::default();
        for page in pages() {
            packer.pack(&page);
        }
        let (bytes, stored) = (packer.encode(IDENTITY, 9), packer.stored_bytes());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(PageList::decode("f", 9, IDENTITY, stored, &damaged).is_err(), "{at}");
        }
        assert!(PageList::decode("f", 8, IDENTITY, stored, &bytes).is_err(), "another place");
        assert!(PageList::decode("f", 9, IDENTITY, stored + 1, &bytes).is_err());
        assert!(PageList::decode("f", 9, IDENTITY, 0, &[]).is_err());
        // With a right checksum: one length that no builder stores, and the bounds themselves.
        for (length, is_sound) in [
            (0, false),
            (16, false),
            (17, true),
            (3584, true),
            (3585, false),
            (4096, true),
            (4097, false),
        ] {
            let packer =
                PagePacker { lengths: vec![length], bytes: length.into(), room: Vec::new() };
            let list =
                PageList::decode("f", 9, IDENTITY, length.into(), &packer.encode(IDENTITY, 9));
            assert_eq!(list.is_ok(), is_sound, "{length}");
        }
    }
}

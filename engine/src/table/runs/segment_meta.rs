//! What is known of a segment without its pages: its footer, and what a manifest says of it.
//!
//! Format documents: `docs/format/segment.md`, and `docs/format/snapshot.md` for the manifest's part.

use super::blob::{self, BlobUse};
use crate::error::Result;
use crate::format::checksum::crc;
use crate::format::codec::{Decoder, Encoder};
use crate::table::bytes::{
    BODY_BYTES, ENTRY_OVERHEAD, FIRST_PAGE, PACKED_BYTES_MIN, PAGE_BYTES, check_seal, filter_bytes,
    page_list_bytes, seal,
};

/// Blob files that one segment may refer to: it ends before it needs one more.
pub const BLOB_FILES_MAX: u32 = 1024;

/// In the field of the filter's bits: the segment refers to blob files.
const HAS_BLOBS: u32 = 1 << 31;

/// In the same field: the pages of entries are stored packed.
const IS_PACKED: u32 = 1 << 30;

/// The version of the file whose pages are packed; of others it is the one before.
pub const PACKED_VERSION: u16 = 4;

/// Pages of a file as bytes.
#[must_use]
pub fn page_offset(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

/// How many entries a segment holds, and how many bytes they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries that insert, blobs included.
    pub inserts: u64,
    /// Entries that delete.
    pub deletes: u64,
    /// Entries that upsert.
    pub upserts: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values in the pages; of a blob, those of the reference.
    pub value_bytes: u64,
    /// Of the inserts, those whose value is in a blob file.
    pub blobs: u64,
    /// Bytes of these values.
    pub blob_bytes: u64,
}

impl Counts {
    /// All entries.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.inserts + self.deletes + self.upserts
    }

    /// What the entries cost in merge work: key + value + 16 each.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.key_bytes + self.value_bytes + self.entries() * ENTRY_OVERHEAD
    }

    /// Adds what another segment holds.
    pub fn add(&mut self, other: &Counts) {
        self.inserts += other.inserts;
        self.deletes += other.deletes;
        self.upserts += other.upserts;
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        self.blobs += other.blobs;
        self.blob_bytes += other.blob_bytes;
    }

    /// Takes away what one of the segments that were added holds.
    pub fn take(&mut self, other: &Counts) {
        self.inserts -= other.inserts;
        self.deletes -= other.deletes;
        self.upserts -= other.upserts;
        self.key_bytes -= other.key_bytes;
        self.value_bytes -= other.value_bytes;
        self.blobs -= other.blobs;
        self.blob_bytes -= other.blob_bytes;
    }

    fn encode(&self, encoder: &mut Encoder) {
        for number in [self.inserts, self.deletes, self.upserts, self.key_bytes, self.value_bytes] {
            encoder.u64(number);
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self> {
        let start = decoder.clone();
        let counts = Counts {
            inserts: decoder.u64()?,
            deletes: decoder.u64()?,
            upserts: decoder.u64()?,
            key_bytes: decoder.u64()?,
            value_bytes: decoder.u64()?,
            blobs: 0,
            blob_bytes: 0,
        };
        // Every entry has a key byte and no file has 2^48 bytes, so sums of counts cannot overflow.
        let entries = [counts.inserts, counts.deletes, counts.upserts];
        let bytes = [counts.key_bytes, counts.value_bytes];
        if entries.iter().chain(&bytes).any(|&number| number >= 1 << 48) {
            return Err(start.corrupt("counts below 2^48", "larger ones"));
        }
        Ok(counts)
    }
}

/// The footer: the last page of a segment file, which says where everything else is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Pages of entries, overflow pages included; they begin at page 1.
    pub pages: u32,
    /// First page of the filter.
    pub filter_page: u32,
    /// Bytes of the filter and of the range filter behind it; 0 without them.
    pub filter_bytes: u32,
    /// First page of the index.
    pub index_page: u32,
    /// Bytes of the index.
    pub index_bytes: u32,
    /// Blob files in the list, which follows the index.
    pub blob_files: u32,
    /// CRC-32C of the list.
    pub blob_crc: u32,
    /// Bits per entry that the filter was made with.
    pub bits_per_entry: u32,
    /// The salt of the filter's hashes.
    pub salt: u64,
    /// Bytes of the stored pages where they are packed; 0 where they are not.
    pub packed_bytes: u64,
    /// What the entries are.
    pub counts: Counts,
}

const FOOTER_MAGIC: u32 = u32::from_le_bytes(*b"foot");

impl Footer {
    /// The number of the footer's own page: the last of the file.
    #[must_use]
    pub fn page(&self) -> u32 {
        self.blob_page() + (self.blob_files * blob::USE_BYTES as u32).div_ceil(PAGE_BYTES as u32)
    }

    /// First page of the list of blob files.
    pub(super) fn blob_page(&self) -> u32 {
        self.index_page + self.index_bytes.div_ceil(PAGE_BYTES as u32)
    }

    /// Whether the pages of entries are packed.
    #[inline]
    #[must_use]
    pub fn is_packed(&self) -> bool {
        self.packed_bytes > 0
    }

    /// First page of the list of packed pages.
    #[must_use]
    pub fn list_page(&self) -> u32 {
        FIRST_PAGE + self.packed_bytes.div_ceil(PAGE_BYTES as u64) as u32
    }

    /// Pages of the file in front of the filter.
    fn pages_end(&self) -> u64 {
        if !self.is_packed() {
            return u64::from(FIRST_PAGE) + u64::from(self.pages);
        }
        let list = page_list_bytes(self.pages).div_ceil(PAGE_BYTES as u64);
        u64::from(FIRST_PAGE) + self.packed_bytes.div_ceil(PAGE_BYTES as u64) + list
    }

    /// The length that the file would have if its pages were stored as they are.
    #[must_use]
    pub fn unpacked_bytes(&self) -> u64 {
        let pages = u64::from(FIRST_PAGE) + u64::from(self.pages);
        self.file_bytes() + PAGE_BYTES as u64 * pages - PAGE_BYTES as u64 * self.pages_end()
    }

    /// The length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        page_offset(self.page()) + PAGE_BYTES as u64
    }

    /// Where the range filter is: its first page and its bytes. Behind the filter, which tells its own length,
    /// from the next page on.
    #[must_use]
    pub fn range_filter(&self) -> Option<(u32, u32)> {
        let pages = filter_bytes(self.bits_per_entry, self.counts.entries())
            .div_ceil(PAGE_BYTES as u64)
            .try_into()
            .unwrap_or(u32::MAX);
        let bytes = u64::from(self.filter_bytes).checked_sub(page_offset(pages))?;
        (bytes > 0).then(|| (self.filter_page + pages, bytes as u32))
    }

    /// Bytes of the filter alone.
    #[must_use]
    pub fn bloom_bytes(&self) -> u32 {
        match self.range_filter() {
            // It fits the pages in front of that.
            Some(_) => filter_bytes(self.bits_per_entry, self.counts.entries()) as u32,
            None => self.filter_bytes,
        }
    }

    fn put(&self, encoder: &mut Encoder) {
        for number in [
            self.pages,
            self.filter_page,
            self.filter_bytes,
            self.index_page,
            self.index_bytes,
            self.bits_per_entry
                | if self.blob_files > 0 { HAS_BLOBS } else { 0 }
                | if self.is_packed() { IS_PACKED } else { 0 },
        ] {
            encoder.u32(number);
        }
        encoder.u64(self.salt);
        self.counts.encode(encoder);
        if self.blob_files > 0 {
            encoder.u32(self.blob_files);
            encoder.u32(self.blob_crc);
            encoder.u64(self.counts.blobs);
            encoder.u64(self.counts.blob_bytes);
        }
        if self.is_packed() {
            encoder.u64(self.packed_bytes);
        }
    }

    fn take(decoder: &mut Decoder<'_>) -> Result<Self> {
        let start = decoder.clone();
        let mut footer = Footer {
            pages: decoder.u32()?,
            filter_page: decoder.u32()?,
            filter_bytes: decoder.u32()?,
            index_page: decoder.u32()?,
            index_bytes: decoder.u32()?,
            blob_files: 0,
            blob_crc: 0,
            bits_per_entry: decoder.u32()?,
            salt: decoder.u64()?,
            packed_bytes: 0,
            counts: Counts::decode(decoder)?,
        };
        let is_packed = footer.bits_per_entry & IS_PACKED != 0;
        footer.bits_per_entry &= !IS_PACKED;
        if footer.bits_per_entry & HAS_BLOBS != 0 {
            footer.bits_per_entry &= !HAS_BLOBS;
            footer.take_blob_counts(decoder)?;
        }
        if is_packed {
            footer.packed_bytes = decoder.u64()?;
            let least = u64::from(footer.pages) * PACKED_BYTES_MIN as u64;
            if !(least.max(1)..=page_offset(footer.pages)).contains(&footer.packed_bytes) {
                return Err(start.corrupt("bytes of packed pages", footer.packed_bytes));
            }
        }
        let filter_end =
            u64::from(footer.filter_page) + u64::from(footer.filter_bytes).div_ceil(4096);
        let index_end = u64::from(footer.index_page) + u64::from(footer.index_bytes).div_ceil(4096);
        let in_order = footer.pages > 0
            && u64::from(footer.filter_page) == footer.pages_end()
            && u64::from(footer.index_page) == filter_end
            && footer.index_bytes > 0
            && index_end < u64::from(u32::MAX - BLOB_FILES_MAX);
        if !in_order {
            return Err(start.corrupt("pages, filter and index one behind the other", "others"));
        }
        Ok(footer)
    }

    /// What is said of blob files, if there are any.
    fn take_blob_counts(&mut self, decoder: &mut Decoder<'_>) -> Result<()> {
        let start = decoder.clone();
        (self.blob_files, self.blob_crc) = (decoder.u32()?, decoder.u32()?);
        let counts = &mut self.counts;
        (counts.blobs, counts.blob_bytes) = (decoder.u64()?, decoder.u64()?);
        let is_sound = (1..=BLOB_FILES_MAX).contains(&self.blob_files)
            && counts.blobs <= counts.inserts
            && counts.blob_bytes < 1 << 48;
        if is_sound { Ok(()) } else { Err(start.corrupt("counts of blob files", "others")) }
    }

    /// Decodes the list of blob files, in the file or behind the footer in a manifest; `Corrupt` when
    /// it is not the one that the footer speaks of.
    pub(super) fn take_blobs(&self, decoder: &mut Decoder<'_>) -> Result<Vec<BlobUse>> {
        let start = decoder.clone();
        let blobs = blob::decode_uses(decoder, self.blob_files as usize)?;
        let entries: u64 = blobs.iter().map(|it| it.entries).sum();
        let bytes: u64 = blobs.iter().map(|it| it.bytes).sum();
        let counted = (self.counts.blobs, self.counts.blob_bytes);
        if crc(&blob::encode_uses(&blobs)) != self.blob_crc || (entries, bytes) != counted {
            return Err(start.corrupt("the blob files that the footer counts", "others"));
        }
        Ok(blobs)
    }

    /// Fills the footer's page.
    pub fn encode(&self, identity: u64, page: &mut [u8]) {
        let mut encoder = Encoder::new();
        encoder.u32(FOOTER_MAGIC);
        encoder.u32(0);
        encoder.u64(identity);
        self.put(&mut encoder);
        page.fill(0);
        page[..encoder.bytes().len()].copy_from_slice(encoder.bytes());
        seal(page, identity, self.page());
    }

    /// Decodes the last page of a segment file of `pages` pages; `Corrupt` when it is none.
    pub fn decode(file: &str, identity: u64, pages: u32, page: &[u8]) -> Result<Self> {
        let number = pages - 1;
        check_seal(file, number, identity, page)?;
        let mut decoder = Decoder::new(file, page_offset(number), &page[..BODY_BYTES]);
        let start = decoder.clone();
        let (magic, reserved) = (decoder.u32()?, decoder.u32()?);
        if magic != FOOTER_MAGIC || reserved != 0 || decoder.u64()? != identity {
            return Err(start.corrupt("the footer of this segment", "another page"));
        }
        let footer = Self::take(&mut decoder)?;
        if footer.page() != number {
            return Err(start.corrupt(
                format_args!("a footer of {pages} pages"),
                format_args!("one of {}", footer.page() + 1),
            ));
        }
        Ok(footer)
    }
}

/// What a manifest knows of a segment, enough to use it without reading the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentMeta {
    /// The segment's number in its session, which names its file.
    pub id: u64,
    /// The file's identity, mixed into its checksums.
    pub identity: u64,
    /// The footer.
    pub footer: Footer,
    /// The smallest key.
    pub first_key: Vec<u8>,
    /// The largest key.
    pub last_key: Vec<u8>,
    /// The blob files that it refers to, in the order of their identities.
    pub blobs: Vec<BlobUse>,
}

impl SegmentMeta {
    /// Appends the meta data to a manifest.
    pub fn encode(&self, encoder: &mut Encoder) {
        encoder.u64(self.id);
        encoder.u64(self.identity);
        self.footer.put(encoder);
        encoder.bytes_with_length(&self.first_key);
        encoder.bytes_with_length(&self.last_key);
        encoder.raw(&blob::encode_uses(&self.blobs));
        for it in &self.blobs {
            encoder.u64(it.file.id);
        }
    }

    /// Decodes what [`SegmentMeta::encode`] wrote; `Corrupt` when it is not that.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Self> {
        let (id, identity) = (decoder.u64()?, decoder.u64()?);
        let footer = Footer::take(decoder)?;
        let start = decoder.clone();
        let first_key = decoder.bytes_with_length()?.to_vec();
        let last_key = decoder.bytes_with_length()?.to_vec();
        if first_key > last_key {
            return Err(start.corrupt("a first key not above the last", "one above it"));
        }
        let mut blobs = footer.take_blobs(decoder)?;
        for it in &mut blobs {
            it.file.id = decoder.u64()?;
        }
        Ok(SegmentMeta { id, identity, footer, first_key, last_key, blobs })
    }

    /// The length of the file in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.footer.file_bytes()
    }

    /// How many entries it holds.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.footer.counts.entries()
    }
}

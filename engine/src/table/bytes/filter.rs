//! A blocked Bloom filter: all bits of a key lie in one 64-byte block, so a probe costs one cache line.
//!
//! The upper half of a key's hash chooses the block, the lower half the bits in it. A key that was
//! added is always found; the share of other keys that are found too depends on the bits per entry.
//!
//! Format document: `docs/format/filter.md`. Source: Putze, Sanders, Singler, "Cache-, hash- and
//! space-efficient Bloom filters", 2007.

use std::collections::VecDeque;

use crate::error::Result;
use crate::format::checksum::page_crc;
use crate::format::codec::{Decoder, Encoder};
use crate::prefetch;

/// Bits of a block: one cache line.
const BLOCK_BITS: usize = 512;
const BLOCK_BYTES: usize = BLOCK_BITS / 8;

/// Bytes before the blocks; a whole block, so that blocks are aligned in the file too.
const HEADER_BYTES: usize = 64;

/// More probes than this cost time and gain nothing in blocks of this size.
const PROBES_MAX: u32 = 14;

/// How many bit positions of nine bits one 64-bit number gives.
const POSITIONS: u32 = 7;

/// With fewer bits than this per entry there is none.
const BITS_PER_ENTRY_MIN: u8 = 4;

/// The most bits per entry that a filter takes.
pub const BITS_PER_ENTRY_MAX: u32 = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
struct Block([u64; BLOCK_BYTES / 8]);

/// The block of a hash, of `count` blocks: its upper half scaled down.
#[inline]
fn block_of(hash: u64, count: usize) -> usize {
    (((hash >> 32) * count as u64) >> 32) as usize
}

/// Two numbers whose 9-bit groups are a hash's bit positions. Multiplication by an odd constant
/// carries entropy upwards only, so the groups are taken from the top, and the second number mixes
/// the first one's top into its bottom.
#[inline]
fn positions(hash: u64) -> [u64; 2] {
    let first = u64::from(hash as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = first ^ (first >> 32);
    let first = first.wrapping_mul(0xd6e8_feb8_6659_fd93);
    let second = (first ^ (first >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    [first, second]
}

/// How many bits of a block each key sets: what is best for so many bits per entry.
fn probes_for(bits_per_entry: u32) -> u32 {
    let best = f64::from(bits_per_entry) * std::f64::consts::LN_2;
    (best.round() as u32).clamp(1, PROBES_MAX)
}

/// Bytes on disk of a filter of so many bits an entry for so many entries.
#[must_use]
pub fn filter_bytes(bits_per_entry: u32, entries: u64) -> u64 {
    let bits = u128::from(bits_per_entry) * u128::from(entries);
    let bytes = HEADER_BYTES as u128 + bits.div_ceil(BLOCK_BITS as u128) * BLOCK_BYTES as u128;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Bits an entry of a filter that fits `room` bytes, at most `wanted`; 0 when there is no room for one that
/// is of use.
#[must_use]
pub fn bits_within(wanted: u8, room: u64, entries: u64) -> u8 {
    let fits = room.saturating_mul(8) / entries.max(1);
    let bits = fits.min(wanted.into()) as u8;
    if bits < BITS_PER_ENTRY_MIN { 0 } else { bits }
}

/// Hashes of a piece of them: what is full is never copied, and goes when the filter has it.
const PIECE_HASHES: usize = 4096;

/// Collects the hashes of a segment's keys, so that the filter can be sized by their exact count.
#[derive(Clone, Debug)]
pub struct FilterBuilder {
    bits_per_entry: u32,
    /// The hashes that the filter does not have, but for the last ones.
    pieces: VecDeque<Vec<u64>>,
    last: Vec<u64>,
    /// How many were added.
    count: usize,
    /// What is built of it, once all hashes are there.
    begun: Option<Filter>,
}

impl FilterBuilder {
    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let hashes = self.pieces.len() * PIECE_HASHES + self.last.capacity();
        hashes * size_of::<u64>() + self.begun.as_ref().map_or(0, Filter::memory_bytes)
    }

    /// For a filter of 1 to [`BITS_PER_ENTRY_MAX`] bits per entry; 0 collects nothing.
    #[must_use]
    pub fn new(bits_per_entry: u32) -> Self {
        assert!(bits_per_entry <= BITS_PER_ENTRY_MAX, "{bits_per_entry} bits per entry");
        let (pieces, last) = (VecDeque::new(), Vec::new());
        FilterBuilder { bits_per_entry, pieces, last, count: 0, begun: None }
    }

    /// Adds the key with this hash, from `format::hash::hash(salt, key)`.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.bits_per_entry > 0 {
            if self.last.len() == PIECE_HASHES {
                let next = Vec::with_capacity(PIECE_HASHES);
                self.pieces.push_back(std::mem::replace(&mut self.last, next));
            }
            self.last.push(hash);
            self.count += 1;
        }
    }

    /// Puts up to `most` hashes more into the filter, after the last was added; how many there were. A filter of
    /// a whole segment takes milliseconds, which no update has at once.
    pub fn build_part(&mut self, salt: u64, most: usize) -> usize {
        if self.count == 0 {
            return 0;
        }
        let (bits_per_entry, count) = (self.bits_per_entry, self.count);
        let filter = self.begun.get_or_insert_with(|| {
            let bits = count * bits_per_entry as usize;
            let blocks = vec![Block([0; 8]); bits.div_ceil(BLOCK_BITS)];
            Filter { salt, probes: probes_for(bits_per_entry), blocks }
        });
        let mut left = most;
        while left > 0 {
            let piece = match self.pieces.front_mut() {
                Some(piece) => piece,
                None => &mut self.last,
            };
            let from = piece.len().saturating_sub(left);
            if from == piece.len() {
                break;
            }
            left -= piece.len() - from;
            piece.drain(from..).for_each(|hash| filter.insert(hash));
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
        most - left
    }

    /// Builds the filter, or what is left of it; `None` when there is nothing to filter or no bit to do it with.
    #[must_use]
    pub fn finish(mut self, salt: u64) -> Option<Filter> {
        self.build_part(salt, usize::MAX);
        self.begun
    }
}

/// A filter in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    salt: u64,
    probes: u32,
    blocks: Vec<Block>,
}

impl Filter {
    #[inline]
    fn insert(&mut self, hash: u64) {
        let count = self.blocks.len();
        let block = &mut self.blocks[block_of(hash, count)].0;
        let mut left = self.probes;
        for mut bits in positions(hash) {
            for _ in 0..left.min(POSITIONS) {
                block[(bits >> 61) as usize] |= 1 << ((bits >> 55) & 63);
                bits <<= 9;
            }
            left = left.saturating_sub(POSITIONS);
        }
    }

    /// Whether the key with this hash may have been added; never false for one that was.
    #[inline]
    #[must_use]
    pub fn probe(&self, hash: u64) -> bool {
        let block = &self.blocks[block_of(hash, self.blocks.len())].0;
        let mut left = self.probes;
        for mut bits in positions(hash) {
            for _ in 0..left.min(POSITIONS) {
                if block[(bits >> 61) as usize] >> ((bits >> 55) & 63) & 1 == 0 {
                    return false;
                }
                bits <<= 9;
            }
            left = left.saturating_sub(POSITIONS);
        }
        true
    }

    /// Brings the block of this hash closer; call it for a batch of hashes before probing them.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::line(&self.blocks[block_of(hash, self.blocks.len())]);
    }

    /// The salt that keys are hashed with.
    #[must_use]
    pub fn salt(&self) -> u64 {
        self.salt
    }

    /// How many bits each key sets.
    #[must_use]
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// The memory of the filter in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// The bytes on disk at page `page_number` of the file with this identity.
    #[must_use]
    pub fn encode(&self, identity: u64, page_number: u32) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.u32(0);
        encoder.u32(self.probes);
        encoder.u64(self.blocks.len() as u64);
        encoder.u64(self.salt);
        encoder.raw(&[0; HEADER_BYTES - 24]);
        let mut bytes = encoder.finish();
        bytes.reserve_exact(self.memory_bytes());
        for block in &self.blocks {
            for word in block.0 {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        let crc = page_crc(identity, page_number, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes what [`Filter::encode`] wrote at that page of `file`; `Corrupt` when it is not that.
    pub fn decode(file: &str, page_number: u32, identity: u64, bytes: &[u8]) -> Result<Self> {
        let base = u64::from(page_number) * super::page::PAGE_BYTES as u64;
        let mut decoder = Decoder::new(file, base, bytes);
        let start = decoder.clone();
        let found = decoder.u32()?;
        let expected = page_crc(identity, page_number, &bytes[4..]);
        if found != expected {
            return Err(start.corrupt(
                format_args!("filter checksum {expected:08x}"),
                format_args!("{found:08x}"),
            ));
        }
        let probes = decoder.u32()?;
        let count = decoder.u64()?;
        let salt = decoder.u64()?;
        decoder.raw(HEADER_BYTES - 24)?;
        let room = decoder.remaining() / BLOCK_BYTES;
        let whole = decoder.remaining().is_multiple_of(BLOCK_BYTES);
        if !(1..=PROBES_MAX).contains(&probes) || count == 0 || count != room as u64 || !whole {
            return Err(start.corrupt(
                format_args!("1 to {PROBES_MAX} probes and {room} whole blocks"),
                format_args!("{probes} probes and {count} blocks"),
            ));
        }
        let blocks = decoder
            .raw(room * BLOCK_BYTES)?
            .chunks_exact(BLOCK_BYTES)
            .map(|block| {
                let mut words = [0; BLOCK_BYTES / 8];
                for (word, bytes) in words.iter_mut().zip(block.chunks_exact(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                }
                Block(words)
            })
            .collect();
        Ok(Filter { salt, probes, blocks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hash::hash;

    fn filter(bits: u32, count: u64) -> Filter {
        let mut builder = FilterBuilder::new(bits);
        (0..count).for_each(|number| builder.add(hash(7, &number.to_le_bytes())));
        builder.finish(7).unwrap()
    }

    /// The false positive rate that theory gives: a block holds a Poisson number of keys, each of
    /// which sets `k` of its bits.
    fn theory(bits: u32) -> f64 {
        let (load, k) = (BLOCK_BITS as f64 / f64::from(bits), f64::from(probes_for(bits)));
        let mut chance = (-load).exp();
        let mut rate = 0.0;
        for keys in 1..1000 {
            chance *= load / f64::from(keys);
            let set = 1.0 - (1.0 - 1.0 / BLOCK_BITS as f64).powf(k * f64::from(keys));
            rate += chance * set.powf(k);
        }
        rate
    }

    #[test]
    fn a_filter_built_in_parts_is_the_one_built_at_once() {
        let hashes: Vec<_> = (0..1_000).map(|number| hash(7, &u64::to_le_bytes(number))).collect();
        let builder = || {
            let mut builder = FilterBuilder::new(10);
            for hash in &hashes {
                builder.add(*hash);
            }
            builder
        };
        let whole = builder().finish(7).unwrap();
        let mut parts = builder();
        assert_eq!(parts.build_part(7, 300), 300);
        assert_ne!(parts.begun.as_ref(), Some(&whole));
        assert_eq!(parts.build_part(7, 300), 300);
        let mut to_the_end = parts.clone();
        assert_eq!(to_the_end.build_part(7, 500), 400);
        assert_eq!(to_the_end.build_part(7, 500), 0);
        assert_eq!(parts.finish(7).as_ref(), Some(&whole));
        assert_eq!(to_the_end.finish(7), Some(whole));
        assert_eq!(FilterBuilder::new(10).build_part(7, 1), 0);
    }

    #[test]
    fn what_was_added_is_found_and_the_rest_rarely() {
        for bits in [6, 10, 14, 16] {
            let filter = filter(bits, 100_000);
            let found = |number: &u64| filter.probe(hash(7, &number.to_le_bytes()));
            assert!((0..100_000).all(|number| found(&number)));
            let others = 4_000_000;
            let rate = (1 << 40..(1 << 40) + others).filter(found).count() as f64 / others as f64;
            let ratio = rate / theory(bits);
            assert!((0.85..1.15).contains(&ratio), "{bits} bits: {rate} is {ratio} of theory");
        }
    }

    #[test]
    fn a_filter_comes_back_from_its_bytes() {
        let filter = filter(10, if cfg!(miri) { 50 } else { 1_000 });
        let bytes = filter.encode(3, 9);
        assert_eq!(Filter::decode("f", 9, 3, &bytes).unwrap(), filter);
        assert!(Filter::decode("f", 8, 3, &bytes).is_err(), "another place");
        for cut in 0..bytes.len() {
            assert!(Filter::decode("f", 9, 3, &bytes[..cut]).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn nothing_to_filter_makes_no_filter() {
        assert!(FilterBuilder::new(10).finish(0).is_none());
        let mut builder = FilterBuilder::new(0);
        builder.add(1);
        assert!(builder.finish(0).is_none());
    }
}

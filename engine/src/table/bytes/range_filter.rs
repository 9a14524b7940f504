//! A range filter: a bitmap over the keys of a segment that keeps their order, so that it tells, without
//! reading a page, how far away the next key is at least.
//!
//! A key's *head* is its eight bytes behind what all keys of the segment begin with. The span from the first
//! head to the last is cut into equal buckets, with a bit for each that has a key. Invariant: the buckets of
//! the first and the last key are set, so every search ends.
//!
//! Format document: `docs/format/filter.md`. Source of the idea: Costa, Ferragina, Vinciguerra, "Grafite:
//! Taming Adversarial Queries with Optimal Range Filters", 2023 (there called bucketing).

use super::entry::{common_prefix, prefix};
use super::heads::HeadList;
use crate::error::Result;
use crate::format::checksum::page_crc;
use crate::format::codec::{Decoder, Encoder};
use crate::prefetch;

/// Buckets for each head.
const BUCKETS_PER_HEAD: u32 = 6;

/// How the span of a segment's keys is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buckets {
    /// Bytes that all keys begin with.
    shared: u32,
    /// The heads of the first key and of the last.
    first: u64,
    last: u64,
    /// Buckets for a step from one head to the next, in 2^-64.
    rate: u64,
}

impl Buckets {
    /// The bucket of a head between the first and the last. It never falls as heads rise.
    #[inline]
    fn of(&self, head: u64) -> u64 {
        ((u128::from(head - self.first) * u128::from(self.rate)) >> 64) as u64
    }

    fn count(&self) -> u64 {
        self.of(self.last) + 1
    }

    /// The head of a key between the first and the last.
    #[inline]
    fn head(&self, key: &[u8]) -> u64 {
        let rest = key.get(self.shared as usize..).unwrap_or_default();
        prefix(rest).clamp(self.first, self.last)
    }

    /// How far behind the first head the bucket begins.
    #[inline]
    fn start(&self, bucket: u64) -> u128 {
        (u128::from(bucket) << 64).div_ceil(u128::from(self.rate))
    }
}

/// Where the nearest key of a segment can be, on one side of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearest {
    /// Anywhere from there on.
    Here,
    /// It has this head or one that is farther away.
    Head(u64),
}

/// Collects the heads of a segment's keys.
#[derive(Debug, Default)]
pub struct RangeFilterBuilder {
    /// The first key.
    first: Vec<u8>,
    /// How many of its bytes all keys so far begin with.
    shared: usize,
    /// Their heads.
    heads: HeadList,
    is_begun: bool,
}

impl RangeFilterBuilder {
    /// Bytes of memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.heads.memory_bytes()
    }

    /// Adds a key that is above the last one.
    #[inline]
    pub fn add(&mut self, key: &[u8]) {
        if self.shared > 0 || !self.is_begun {
            self.share(key);
        }
        self.heads.add(prefix(key.get(self.shared..).unwrap_or_default()));
    }

    /// Takes all heads from further in front when the key shares fewer bytes with those before, which have the first
    /// key's bytes there.
    fn share(&mut self, key: &[u8]) {
        if !self.is_begun {
            self.is_begun = true;
            self.first = key.to_vec();
            self.shared = key.len();
        } else if !key.starts_with(&self.first[..self.shared]) {
            let shared = common_prefix(&self.first, key);
            let between = &self.first[shared..self.shared];
            self.heads.put_in_front(prefix(between), 8 * between.len().min(8) as u32);
            self.shared = shared;
        }
    }

    /// Builds the filter; `None` for a single head, where it could tell nothing.
    #[must_use]
    pub fn finish(self) -> Option<RangeFilter> {
        let (first, last) = self.heads.ends().filter(|(first, last)| first < last)?;
        let wanted = self.heads.count() as u128 * u128::from(BUCKETS_PER_HEAD);
        let span = u128::from(last - first) + 1;
        let rate = u64::try_from((wanted << 64) / span).unwrap_or(u64::MAX);
        let buckets = Buckets { shared: self.shared as u32, first, last, rate };
        let mut filter =
            RangeFilter { buckets, words: vec![0; buckets.count().div_ceil(64) as usize] };
        self.heads.each(|low, high| {
            for bucket in buckets.of(low)..=buckets.of(high) {
                filter.words[(bucket / 64) as usize] |= 1 << (bucket % 64);
            }
        });
        Some(filter)
    }
}

/// How many words without a key a question looks at. Keys that lie in heaps leave thousands between them, and where those
/// end is a bound as good as any.
const WORDS_LOOKED_AT: usize = 16;

/// A range filter in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeFilter {
    buckets: Buckets,
    words: Vec<u64>,
}

impl RangeFilter {
    /// Where the first key at or above `key` can be, which is between the segment's first and last.
    #[inline]
    #[must_use]
    pub fn at_or_after(&self, key: &[u8]) -> Nearest {
        let bucket = self.buckets.of(self.buckets.head(key));
        let mut word = (bucket / 64) as usize;
        let mut bits = self.words[word] & (u64::MAX << (bucket % 64));
        let end = word + WORDS_LOOKED_AT;
        while bits == 0 {
            word += 1;
            if word == end && word < self.words.len() {
                let start = self.buckets.start(word as u64 * 64) as u64;
                return Nearest::Head(self.buckets.first.saturating_add(start));
            }
            // The last bit is set, and it is not before this key's.
            let Some(&next) = self.words.get(word) else { return Nearest::Here };
            bits = next;
        }
        let found = word as u64 * 64 + u64::from(bits.trailing_zeros());
        if found == bucket {
            return Nearest::Here;
        }
        Nearest::Head(self.buckets.first.saturating_add(self.buckets.start(found) as u64))
    }

    /// The same of the last key at or below `key`.
    #[inline]
    #[must_use]
    pub fn at_or_before(&self, key: &[u8]) -> Nearest {
        let bucket = self.buckets.of(self.buckets.head(key));
        let mut word = (bucket / 64) as usize;
        let mut bits = self.words[word] & (u64::MAX >> (63 - bucket % 64));
        let end = word.checked_sub(WORDS_LOOKED_AT);
        while bits == 0 {
            if Some(word) == end {
                let above = self.buckets.start((word as u64 + 1) * 64) as u64;
                return Nearest::Head(self.buckets.first.saturating_add(above - 1));
            }
            // The first bit is set.
            let Some(previous) = word.checked_sub(1) else { return Nearest::Here };
            word = previous;
            bits = self.words[word];
        }
        let found = word as u64 * 64 + u64::from(bits.ilog2());
        if found == bucket {
            return Nearest::Here;
        }
        Nearest::Head(self.buckets.first.saturating_add((self.buckets.start(found + 1) - 1) as u64))
    }

    /// Whether a key may be there that is between the segment's first and last; never false for one that is.
    #[must_use]
    pub fn may_hold(&self, key: &[u8]) -> bool {
        self.at_or_after(key) == Nearest::Here
    }

    /// Brings closer what tells of keys near `key`.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        let bucket = self.buckets.of(self.buckets.head(key));
        prefetch::line(&self.words[(bucket / 64) as usize]);
    }

    /// Whether it is of a segment with these keys as its first and its last.
    #[must_use]
    pub fn is_between(&self, first_key: &[u8], last_key: &[u8]) -> bool {
        let shared = common_prefix(first_key, last_key);
        let heads = (prefix(&first_key[shared..]), prefix(&last_key[shared..]));
        shared == self.buckets.shared as usize && heads == (self.buckets.first, self.buckets.last)
    }

    /// How many bytes heads are behind, which all keys begin with.
    #[inline]
    #[must_use]
    pub fn shared(&self) -> usize {
        self.buckets.shared as usize
    }

    /// How many buckets the span of the keys has.
    #[must_use]
    pub fn bucket_count(&self) -> u64 {
        self.buckets.count()
    }

    /// How many of them have a key.
    #[must_use]
    pub fn set_count(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The memory of the filter in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    /// The bytes on disk at page `page_number` of the file with this identity.
    #[must_use]
    pub fn encode(&self, identity: u64, page_number: u32) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.u32(0);
        encoder.u32(self.buckets.shared);
        encoder.u64(self.buckets.first);
        encoder.u64(self.buckets.last);
        encoder.u64(self.buckets.rate);
        let mut bytes = encoder.finish();
        bytes.reserve_exact(self.memory_bytes());
        for word in &self.words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let crc = page_crc(identity, page_number, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes what [`RangeFilter::encode`] wrote at that page of `file`; `Corrupt` when it is not that.
    pub fn decode(file: &str, page_number: u32, identity: u64, bytes: &[u8]) -> Result<Self> {
        let base = u64::from(page_number) * super::page::PAGE_BYTES as u64;
        let mut decoder = Decoder::new(file, base, bytes);
        let start = decoder.clone();
        let found = decoder.u32()?;
        let expected = page_crc(identity, page_number, &bytes[4..]);
        if found != expected {
            return Err(start.corrupt(
                format_args!("range filter checksum {expected:08x}"),
                format_args!("{found:08x}"),
            ));
        }
        let shared = decoder.u32()?;
        let (first, last, rate) = (decoder.u64()?, decoder.u64()?, decoder.u64()?);
        if first >= last || rate == 0 {
            return Err(start.corrupt("buckets between two heads", "none"));
        }
        let buckets = Buckets { shared, first, last, rate };
        let (words, room) = (buckets.count().div_ceil(64), decoder.remaining());
        if words.checked_mul(8) != Some(room as u64) {
            return Err(start.corrupt(
                format_args!("a bit for each of {} buckets", buckets.count()),
                format_args!("{room} bytes"),
            ));
        }
        let words = decoder.raw(room)?.chunks_exact(8);
        let words: Vec<_> =
            words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect();
        let last = buckets.count() - 1;
        if words[0] & 1 == 0 || words[(last / 64) as usize] >> (last % 64) != 1 {
            return Err(start.corrupt("the bits of the first and of the last key", "others"));
        }
        Ok(RangeFilter { buckets, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::hash::{Salt, hash};

    fn filter<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Option<RangeFilter> {
        let mut builder = RangeFilterBuilder::default();
        keys.into_iter().for_each(|key| builder.add(key.as_ref()));
        builder.finish()
    }

    /// Sets of keys of one kind each, in order.
    fn sets() -> Vec<(&'static str, Vec<Vec<u8>>)> {
        let salt = Salt::new(5);
        let draw = |number: u64| salt.hash(&number.to_le_bytes());
        let count = if cfg!(miri) { 40 } else { 700 };
        let numbers = || 0..count;
        let mut sets: Vec<(_, Vec<Vec<u8>>)> = vec![
            ("random", numbers().map(|it| draw(it).to_be_bytes().to_vec()).collect()),
            ("dense", numbers().map(|it| it.to_be_bytes().to_vec()).collect()),
            ("every other", numbers().map(|it| (it * 2).to_be_bytes().to_vec()).collect()),
            (
                "three to a head",
                numbers()
                    .flat_map(|it| (0..3_u8).map(move |output| (it, output)))
                    .map(|(it, output)| [&draw(it).to_be_bytes()[..], b"tail", &[output]].concat())
                    .collect(),
            ),
            (
                "behind a long prefix",
                numbers().map(|it| [&[7; 30][..], &draw(it).to_be_bytes()].concat()).collect(),
            ),
            (
                "powers",
                (0..64)
                    .map(|it| (1_u64 << it).to_be_bytes().to_vec())
                    .chain([vec![0; 8]])
                    .collect(),
            ),
            (
                "of any length, few bytes",
                numbers()
                    .map(|it| {
                        let length = draw(it) % 20;
                        let byte = |at| [0, 0, 1, 0xff][(draw(it * 32 + at) % 4) as usize];
                        (0..length).map(byte).collect()
                    })
                    .collect(),
            ),
            // Each shares fewer bytes with the first than the one before.
            ("narrowing", (0..40).map(|it| [&vec![b'a'; 40 - it][..], b"b"].concat()).collect()),
            ("in a heap and one apart", {
                let heap = numbers().map(|it| [&[0; 12][..], &draw(it).to_be_bytes()].concat());
                heap.chain([vec![0xff; 20]]).collect()
            }),
            ("zeros and a one", (0..50).map(|it| [&vec![0; it][..], &[1]].concat()).collect()),
        ];
        for (_, keys) in &mut sets {
            keys.sort();
            keys.dedup();
        }
        sets
    }

    /// Keys of the set, near them, and between the ends.
    fn questions(keys: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut asked = keys.to_vec();
        for (place, key) in keys.iter().enumerate() {
            asked.push([&key[..], b"\0"].concat());
            asked.push([&key[..], b"\xff"].concat());
            asked.push(key[..key.len() * 2 / 3].to_vec());
            let mut near = key.clone();
            if let Some(byte) = near.get_mut(place % key.len().max(1)) {
                *byte = byte.wrapping_add((place % 5) as u8);
            }
            asked.push(near);
        }
        let (first, last) = (&keys[0], &keys[keys.len() - 1]);
        asked.retain(|key| first <= key && key <= last);
        asked
    }

    #[test]
    fn the_nearest_key_is_never_nearer_than_it_says() {
        for (name, keys) in sets() {
            let Some(filter) = filter(&keys) else { panic!("{name}") };
            let (first, last) = (&keys[0], &keys[keys.len() - 1]);
            assert!(filter.is_between(first, last), "{name}");
            assert!(keys.iter().all(|key| filter.may_hold(key)), "{name}");
            let head = |key: &[u8]| prefix(&key[filter.shared()..]);
            for asked in questions(&keys) {
                let place = keys.partition_point(|key| *key < asked);
                match filter.at_or_after(&asked) {
                    Nearest::Here => {}
                    Nearest::Head(found) => {
                        assert!(head(&asked) < found, "{name}: {asked:02x?}");
                        assert!(found <= head(&keys[place]), "{name}: {asked:02x?}");
                    }
                }
                let place = keys.partition_point(|key| *key <= asked) - 1;
                match filter.at_or_before(&asked) {
                    Nearest::Here => {}
                    Nearest::Head(found) => {
                        assert!(head(&keys[place]) <= found, "{name}: {asked:02x?}");
                        assert!(found < head(&asked), "{name}: {asked:02x?}");
                    }
                }
            }
        }
    }

    /// Of heads that are spread evenly, a key that is not there is told apart as often as buckets are empty;
    /// and where it is, what is said of the nearest one is near.
    #[test]
    fn most_keys_that_are_not_there_are_seen_not_to_be() {
        let count = if cfg!(miri) { 60 } else { 20_000 };
        let mut heads: Vec<u64> = (0..count).map(|it: u64| hash(3, &it.to_le_bytes())).collect();
        heads.sort_unstable();
        let filter = filter(heads.iter().map(|head| head.to_be_bytes())).unwrap();
        let bits = f64::from(BUCKETS_PER_HEAD);
        let buckets = count as f64 * bits;
        assert!((filter.bucket_count() as f64 - buckets).abs() <= 2.0, "{filter:?}");
        let expected = 1.0 - (-1.0 / bits).exp();
        assert!((filter.set_count() as f64 / buckets - expected).abs() < 0.05);
        let width = (u64::MAX as f64 / buckets) as u64 * 2;
        for asked in (0..count).map(|it: u64| hash(4, &it.to_le_bytes())) {
            let place = heads.partition_point(|head| *head < asked);
            if let (Nearest::Head(found), Some(next)) =
                (filter.at_or_after(&asked.to_be_bytes()), heads.get(place))
            {
                assert!(next - found < width);
            }
        }
    }

    /// As many bits for three keys with a head as for one.
    #[test]
    fn bits_are_for_heads() {
        let of = |name| sets().into_iter().find(|set| set.0 == name).and_then(|it| filter(it.1));
        let (one, three) = (of("random").unwrap(), of("three to a head").unwrap());
        assert_eq!(one.bucket_count(), three.bucket_count());
    }

    #[test]
    fn nothing_is_made_of_a_single_head() {
        assert!(filter([b""; 0]).is_none());
        assert!(filter([b""]).is_none());
        assert!(filter([b"key"]).is_none());
        // Of zeros behind the end of the first key.
        assert!(filter([&b"key"[..], b"key\0", b"key\0\0"]).is_none());
        assert!(filter((0..50).map(|length| vec![0; length])).is_none());
        assert!(filter([&b"key"[..], b"key\x01"]).is_some());
        assert!(filter([&b""[..], b"\0\0\0\0\0\0\0\0\x01"]).is_none());
    }

    #[test]
    fn keys_beyond_both_ends_are_harmless() {
        let filter = filter([&b"key-1"[..], b"key-5", b"key-9"]).unwrap();
        for key in [&b""[..], b"a", b"k", b"key-", b"key-99", b"z", &[0xff; 20]] {
            let _ = (filter.at_or_after(key), filter.at_or_before(key), filter.may_hold(key));
            filter.prefetch(key);
        }
        assert!(filter.is_between(b"key-1", b"key-9"));
        for (first, last) in [(b"key-1", b"key-8"), (b"key-0", b"key-9"), (b"kex-1", b"key-9")] {
            assert!(!filter.is_between(first, last));
        }
    }

    #[test]
    fn a_filter_comes_back_from_its_bytes() {
        for (name, keys) in sets() {
            let filter = filter(&keys).unwrap();
            let bytes = filter.encode(3, 9);
            assert_eq!(RangeFilter::decode("f", 9, 3, &bytes).unwrap(), filter, "{name}");
            assert!(RangeFilter::decode("f", 8, 3, &bytes).is_err(), "another place");
            for cut in 0..bytes.len().min(60) {
                assert!(RangeFilter::decode("f", 9, 3, &bytes[..cut]).is_err(), "{cut} bytes");
                assert!(RangeFilter::decode("f", 9, 3, &bytes[..bytes.len() - 1 - cut]).is_err());
            }
        }
    }

    /// What no builder writes is refused, though its checksum is right.
    #[test]
    fn bytes_of_no_filter_are_refused() {
        let good = filter([&b"key-1"[..], b"key-5", b"key-9"]).unwrap().encode(3, 9);
        let with = |at: usize, change: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + change.len()].copy_from_slice(change);
            let crc = page_crc(3, 9, &bytes[4..]);
            bytes[..4].copy_from_slice(&crc.to_le_bytes());
            RangeFilter::decode("f", 9, 3, &bytes)
        };
        assert!(with(4, &good[4..8]).is_ok());
        assert!(with(8, &[0xff; 8]).is_err(), "the first head above the last");
        assert!(with(24, &[0; 8]).is_err(), "no rate");
        assert!(with(24, &[0xff; 8]).is_err(), "more buckets than bits");
        assert!(with(32, &[0]).is_err(), "the first bit");
        assert!(with(good.len() - 1, &[0xff]).is_err(), "bits behind the last");
        let zeros = [0; 8];
        assert!(with(good.len() - 8, &zeros).is_err(), "the last bit");
    }
}

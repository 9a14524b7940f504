//! The index of a segment: which page can hold a key, with one word of memory a page.
//!
//! For each head page it keeps the eight bytes of its first key behind the prefix that all keys of
//! the segment share. Where that word does not separate a page from the one before, the full first
//! key is kept as well. Invariant: words ascend, and a page without a kept key has a word above that
//! of every key before the page, so the word alone decides.
//!
//! Format document: `docs/format/index.md`.

use super::entry::{common_prefix, prefix};
use super::page::PAGE_BYTES;
use crate::error::Result;
use crate::format::checksum::page_crc;
use crate::format::codec::{Decoder, Encoder};
use crate::prefetch;

/// The first page of entries in a segment file; page 0 is its header.
pub const FIRST_PAGE: u32 = 1;

/// How many words on either side of a second estimate are searched first.
const NEAR: usize = 16;

/// Where an entry may be: a head page and the overflow pages behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSpan {
    /// Number of the head page, counted from the start of the file.
    pub page: u32,
    /// How many pages, at least 1.
    pub count: u32,
}

/// Collects the first keys of a segment's pages.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    /// First keys one behind the other; `heads` knows where each ends.
    keys: Vec<u8>,
    heads: Vec<Head>,
    pages: u32,
}

#[derive(Debug)]
struct Head {
    key_end: usize,
    page: u32,
    /// Bytes shared with the last key of the page before.
    shared: u32,
    /// Whether that key ends there, so that zero padding could hide the difference.
    shared_all: bool,
}

impl IndexBuilder {
    /// An empty builder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a head page with `overflow` pages behind it. `last_before` is the key before
    /// `first_key`, empty for the first page.
    pub fn add(&mut self, first_key: &[u8], last_before: &[u8], overflow: u32) {
        let shared = common_prefix(last_before, first_key);
        self.keys.extend_from_slice(first_key);
        self.heads.push(Head {
            key_end: self.keys.len(),
            page: FIRST_PAGE + self.pages,
            shared: shared as u32,
            shared_all: shared == last_before.len(),
        });
        self.pages += 1 + overflow;
    }

    fn key(&self, head: usize) -> &[u8] {
        let start = if head == 0 { 0 } else { self.heads[head - 1].key_end };
        &self.keys[start..self.heads[head].key_end]
    }

    /// Builds the index of a segment whose last key is `last_key`.
    #[must_use]
    pub fn finish(self, last_key: &[u8]) -> Index {
        assert!(!self.heads.is_empty(), "a segment has at least one page");
        let skip = common_prefix(self.key(0), last_key);
        let mut words = Vec::with_capacity(self.heads.len());
        let mut ties = Ties::default();
        for (number, head) in self.heads.iter().enumerate() {
            let key = self.key(number);
            words.push(prefix(&key[skip..]));
            let (shared, limit) = (head.shared as usize, key.len().min(skip + 8));
            let padded = head.shared_all && key[shared.min(limit)..limit].iter().all(|&b| b == 0);
            if number == 0 || shared >= skip + 8 || padded {
                ties.push(number as u32, key);
            }
        }
        let all_heads = self.pages as usize == self.heads.len();
        let numbers =
            if all_heads { Vec::new() } else { self.heads.iter().map(|head| head.page).collect() };
        Index::new(words, numbers, ties, skip, last_key.to_vec(), self.pages)
    }
}

/// Full first keys of some head pages, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Ties {
    heads: Vec<u32>,
    ends: Vec<u32>,
    keys: Vec<u8>,
}

impl Ties {
    fn push(&mut self, head: u32, key: &[u8]) {
        self.heads.push(head);
        self.keys.extend_from_slice(key);
        self.ends.push(self.keys.len() as u32);
    }

    fn key(&self, tie: usize) -> &[u8] {
        let start = if tie == 0 { 0 } else { self.ends[tie - 1] as usize };
        &self.keys[start..self.ends[tie] as usize]
    }
}

/// How far interpolation misses: head `i` is estimated within `i - under ..= i + over`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fit {
    /// The first word, here so that it is at hand.
    first: u64,
    scale: f64,
    under: usize,
    over: usize,
}

/// An index in memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    words: Vec<u64>,
    /// Page number of each head; empty when no page overflows.
    numbers: Vec<u32>,
    ties: Ties,
    skip: usize,
    last_key: Vec<u8>,
    pages: u32,
    /// Set when interpolation narrows the search enough to pay.
    fit: Option<Fit>,
}

impl Index {
    fn new(
        words: Vec<u64>,
        numbers: Vec<u32>,
        ties: Ties,
        skip: usize,
        last_key: Vec<u8>,
        pages: u32,
    ) -> Self {
        let fit = Self::measure(&words);
        Index { words, numbers, ties, skip, last_key, pages, fit }
    }

    #[inline]
    fn estimate(scale: f64, first: u64, word: u64) -> usize {
        (word.saturating_sub(first) as f64 * scale) as usize
    }

    /// Measures interpolation on every page. Estimates never fall as words rise, so what holds for
    /// first keys bounds the error for all keys between them.
    fn measure(words: &[u64]) -> Option<Fit> {
        let (first, last) = (words[0], words[words.len() - 1]);
        if words.len() < 16 || first == last {
            return None;
        }
        let scale = (words.len() - 1) as f64 / (last - first) as f64;
        let mut fit = Fit { first, scale, under: 0, over: 0 };
        for (i, &word) in words.iter().enumerate() {
            let guess = Self::estimate(scale, first, word);
            fit.under = fit.under.max(i.saturating_sub(guess));
            fit.over = fit.over.max(guess.saturating_sub(i));
        }
        (fit.under + fit.over < words.len() / 4).then_some(fit)
    }

    /// Asks for the word that a search for `key` looks at first, if it interpolates.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        if let Some(fit) = self.fit {
            let word = prefix(key.get(self.skip..).unwrap_or_default());
            let guess = Self::estimate(fit.scale, fit.first, word);
            prefetch::line(&self.words[guess.min(self.words.len() - 1)]);
        }
    }

    /// How many words are at most `word`.
    #[inline]
    fn at_most(&self, word: u64) -> usize {
        let Some(fit) = self.fit else { return self.at_most_between(0, self.words.len(), word) };
        // The answer `n` has `words[n - 1] <= word < words[n]`, and the estimate of `word` lies
        // between those of its neighbours.
        let count = self.words.len();
        let guess = Self::estimate(fit.scale, fit.first, word).min(count - 1);
        let low = guess.saturating_sub(fit.over);
        let high = guess.saturating_add(fit.under + 1).min(count);
        if high - low > 2 * NEAR {
            // From the word there a second estimate is so much better that a few lines of memory
            // are enough nearly always.
            let here = self.words[guess];
            let off = (word.abs_diff(here) as f64 * fit.scale) as usize;
            let guess = if word < here { guess.saturating_sub(off) } else { guess + off };
            let from = guess.saturating_sub(NEAR).clamp(low, high - 2 * NEAR);
            let to = from + 2 * NEAR;
            if self.words[from] <= word && word < self.words[to - 1] {
                return self.at_most_between(from, to, word);
            }
        }
        self.at_most_between(low, high, word)
    }

    /// The same when it is known to be between these.
    #[inline]
    fn at_most_between(&self, mut low: usize, high: usize, word: u64) -> usize {
        let mut size = high - low;
        while size > 0 {
            let half = size / 2;
            // Written so that the compiler chooses a conditional move: the branch is a coin toss.
            let below = self.words[low + half] <= word;
            low = if below { low + half + 1 } else { low };
            size = if below { size - half - 1 } else { half };
        }
        low
    }

    /// The head whose page is the only one that can hold `key`; `None` below the first key.
    #[inline]
    fn head(&self, key: &[u8]) -> Option<usize> {
        if self.skip > 0 {
            let shared = &self.ties.key(0)[..self.skip];
            if !key.starts_with(shared) {
                return if key < shared { None } else { Some(self.words.len() - 1) };
            }
        }
        let word = prefix(&key[self.skip..]);
        let head = self.at_most(word).checked_sub(1)?;
        if self.words[head] < word {
            return Some(head);
        }
        self.untie(head, word, key)
    }

    /// The last head up to `head`, whose word is `word`, that does not begin above `key`.
    #[cold]
    fn untie(&self, head: usize, word: u64, key: &[u8]) -> Option<usize> {
        let ties = self.ties.heads.partition_point(|&tied| tied as usize <= head);
        let group =
            self.ties.heads[..ties].partition_point(|&tied| self.words[tied as usize] < word);
        let (mut low, mut high) = (group, ties);
        while low < high {
            let middle = low.midpoint(high);
            if self.ties.key(middle) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // All heads of a group but the first are ties, so tie `low` begins above the key and the
        // head before it is the answer.
        if low == ties { Some(head) } else { (self.ties.heads[low] as usize).checked_sub(1) }
    }

    fn number(&self, head: usize) -> u32 {
        if self.numbers.is_empty() { FIRST_PAGE + head as u32 } else { self.numbers[head] }
    }

    /// The pages of the head page with this number in the order of keys.
    #[inline]
    #[must_use]
    pub fn span(&self, head: usize) -> PageSpan {
        let page = self.number(head);
        let end = if head + 1 < self.words.len() {
            self.number(head + 1)
        } else {
            FIRST_PAGE + self.pages
        };
        PageSpan { page, count: end - page }
    }

    /// The only pages that can hold `key`; `None` when it is below the first key.
    #[inline]
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<PageSpan> {
        self.head(key).map(|head| self.span(head))
    }

    /// Like [`Index::find`], with how far into the page the key lies if keys are spread evenly: from 0
    /// at its first key to 65,535 at the next page's.
    #[inline]
    #[must_use]
    pub fn find_near(&self, key: &[u8]) -> Option<(PageSpan, u16)> {
        let head = self.head(key)?;
        let (from, to) = (self.words[head], self.words.get(head + 1).copied().unwrap_or(u64::MAX));
        let word = prefix(key.get(self.skip..).unwrap_or_default());
        let passed = word.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
        // A cast from a float saturates, so keys out of order only make a worse guess.
        Some((self.span(head), (passed * 65_535.0) as u16))
    }

    /// The head where a search for the first entry not below `key` begins: the entry is in that
    /// page, or it is the first one of the next, or there is none.
    #[must_use]
    pub fn seek(&self, key: &[u8]) -> usize {
        self.head(key).unwrap_or(0)
    }

    /// How many head pages there are.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.words.len()
    }

    /// How many pages of entries there are, overflow pages included.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The segment's first key.
    #[must_use]
    pub fn first_key(&self) -> &[u8] {
        self.ties.key(0)
    }

    /// The segment's last key.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// How many head pages keep their full first key.
    #[must_use]
    pub fn ties(&self) -> usize {
        self.ties.heads.len()
    }

    /// Whether searches interpolate.
    #[must_use]
    pub fn interpolates(&self) -> bool {
        self.fit.is_some()
    }

    /// The memory of the index in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.words.len() * 8
            + (self.numbers.len() + 2 * self.ties.heads.len()) * 4
            + self.ties.keys.len()
            + self.last_key.len()
    }

    /// The bytes on disk at page `page_number` of the file with this identity.
    #[must_use]
    pub fn encode(&self, identity: u64, page_number: u32) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.u32(0);
        encoder.u32(self.pages);
        encoder.u32(self.words.len() as u32);
        encoder.u32(self.numbers.len() as u32);
        encoder.u32(self.ties.heads.len() as u32);
        encoder.u32(self.ties.keys.len() as u32);
        encoder.u32(self.skip as u32);
        encoder.u32(self.last_key.len() as u32);
        for &word in &self.words {
            encoder.u64(word);
        }
        for &number in self.numbers.iter().chain(&self.ties.heads).chain(&self.ties.ends) {
            encoder.u32(number);
        }
        encoder.raw(&self.ties.keys);
        encoder.raw(&self.last_key);
        let mut bytes = encoder.finish();
        let crc = page_crc(identity, page_number, &bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes what [`Index::encode`] wrote at that page of `file`; `Corrupt` when it is not that.
    pub fn decode(file: &str, page_number: u32, identity: u64, bytes: &[u8]) -> Result<Self> {
        let base = u64::from(page_number) * PAGE_BYTES as u64;
        let mut decoder = Decoder::new(file, base, bytes);
        let start = decoder.clone();
        let found = decoder.u32()?;
        let expected = page_crc(identity, page_number, &bytes[4..]);
        if found != expected {
            return Err(start.corrupt(
                format_args!("index checksum {expected:08x}"),
                format_args!("{found:08x}"),
            ));
        }
        let pages = decoder.u32()?;
        let heads = decoder.u32()? as usize;
        let numbers = decoder.u32()? as usize;
        let ties = decoder.u32()? as usize;
        let tie_bytes = decoder.u32()? as usize;
        let skip = decoder.u32()? as usize;
        let last_bytes = decoder.u32()? as usize;
        let words: Vec<u64> = decoder
            .raw(heads.saturating_mul(8))?
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let numbers = numbers_of(&mut decoder, numbers)?;
        let ties = Ties {
            heads: numbers_of(&mut decoder, ties)?,
            ends: numbers_of(&mut decoder, ties)?,
            keys: decoder.raw(tie_bytes)?.to_vec(),
        };
        let last_key = decoder.raw(last_bytes)?.to_vec();
        decoder.finish()?;
        let ordered = words.is_sorted() && ties.heads.is_sorted_by(|a, b| a < b);
        let numbered = if numbers.is_empty() {
            pages as usize == heads
        } else {
            numbers.len() == heads
                && numbers[0] == FIRST_PAGE
                && numbers.is_sorted_by(|a, b| a < b)
                && numbers[heads - 1] - FIRST_PAGE < pages
        };
        let tied = ties.heads.first() == Some(&0)
            && ties.heads.last().is_some_and(|&head| (head as usize) < heads)
            && ties.ends.is_sorted()
            && ties.ends.last() == Some(&(tie_bytes as u32))
            && skip <= ties.ends[0] as usize
            && ties.key(0) <= &last_key[..]
            && pages < u32::MAX;
        if !ordered || !numbered || !tied {
            return Err(start.corrupt("an index in key order", "one that is not"));
        }
        Ok(Index::new(words, numbers, ties, skip, last_key, pages))
    }
}

fn numbers_of(decoder: &mut Decoder<'_>, count: usize) -> Result<Vec<u32>> {
    let bytes = decoder.raw(count.saturating_mul(4))?;
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    Ok(bytes.chunks_exact(4).map(number).collect())
}

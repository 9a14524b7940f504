//! A run: key-ordered segments that do not overlap, read as one sorted sequence of entries.
//!
//! Invariant: each segment's last key is below the next one's first key.

use std::cmp::Ordering;
use std::sync::Arc;

use super::segment::{Counts, Segment};
use crate::table::bytes::{common_prefix, prefix};

/// An immutable sorted run.
#[derive(Debug, Default)]
pub struct Run {
    segments: Vec<Arc<Segment>>,
    /// Of each segment's first key, eight bytes behind the prefix that all keys share.
    words: Vec<u64>,
    /// The same of each segment's last key.
    ends: Vec<u64>,
    /// That prefix.
    shared: Vec<u8>,
    counts: Counts,
    file_bytes: u64,
}

impl Run {
    /// A run of these segments, which must be in the order of their keys.
    #[must_use]
    pub fn new(segments: Vec<Arc<Segment>>) -> Self {
        for pair in segments.windows(2) {
            assert!(pair[0].meta().last_key < pair[1].meta().first_key, "segments do not overlap");
        }
        let shared = match (segments.first(), segments.last()) {
            (Some(first), Some(last)) => {
                let first = &first.meta().first_key;
                first[..common_prefix(first, &last.meta().last_key)].to_vec()
            }
            _ => Vec::new(),
        };
        let skip = shared.len();
        let words = segments.iter().map(|s| prefix(&s.meta().first_key[skip..])).collect();
        let ends = segments.iter().map(|s| prefix(&s.meta().last_key[skip..])).collect();
        let mut counts = Counts::default();
        for segment in &segments {
            counts.add(&segment.meta().footer.counts);
        }
        let file_bytes = segments.iter().map(|segment| segment.meta().file_bytes()).sum();
        Run { segments, words, ends, shared, counts, file_bytes }
    }

    /// The segments, in the order of their keys.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> &[Arc<Segment>] {
        &self.segments
    }

    /// What all segments hold.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The length of all files in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// How many entries all segments hold.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.counts.entries()
    }

    /// Sum of what the entries cost in merge work.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.counts.cost()
    }

    /// Bytes of all filters on disk.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.segments.iter().map(|it| u64::from(it.meta().footer.filter_bytes)).sum()
    }

    /// Whether there is no segment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The smallest key.
    #[must_use]
    pub fn first_key(&self) -> Option<&[u8]> {
        self.segments.first().map(|segment| segment.meta().first_key.as_slice())
    }

    /// The largest key.
    #[must_use]
    pub fn last_key(&self) -> Option<&[u8]> {
        self.segments.last().map(|segment| segment.meta().last_key.as_slice())
    }

    /// The key's eight bytes behind the shared prefix; `None` when it does not begin with that.
    #[inline]
    fn word(&self, key: &[u8]) -> Option<u64> {
        // Comparing nothing is a call all the same, and a slow one where nothing is there to be read.
        if self.shared.is_empty() {
            return Some(prefix(key));
        }
        key.strip_prefix(&self.shared[..]).map(prefix)
    }

    /// How many segments begin at or below `key`, whose word is `word`.
    #[inline]
    fn begun(&self, word: Option<u64>, key: &[u8]) -> usize {
        let Some(word) = word else {
            return if key < &self.shared[..] { 0 } else { self.segments.len() };
        };
        let mut begun = self.words.partition_point(|&first| first <= word);
        // Only segments with the same word can begin above the key; there are seldom two.
        while begun > 0
            && self.words[begun - 1] == word
            && self.segments[begun - 1].meta().first_key.as_slice() > key
        {
            begun -= 1;
        }
        begun
    }

    /// The number of the only segment that can hold `key`, if one can. Reads nothing.
    #[inline]
    #[must_use]
    pub fn locate(&self, key: &[u8]) -> Option<usize> {
        let word = self.word(key);
        let number = self.begun(word, key).checked_sub(1)?;
        // The words decide nearly always, which saves a look at the segment.
        let reaches = match word?.cmp(&self.ends[number]) {
            Ordering::Less => true,
            Ordering::Equal => key <= self.segments[number].meta().last_key.as_slice(),
            Ordering::Greater => false,
        };
        reaches.then_some(number)
    }

    /// The number of the first segment with a key not below `key`; the number of segments when there
    /// is none. Reads nothing.
    #[must_use]
    pub fn seek(&self, key: &[u8]) -> usize {
        let begun = self.begun(self.word(key), key);
        match begun.checked_sub(1) {
            Some(number) if key <= self.segments[number].meta().last_key.as_slice() => number,
            _ => begun,
        }
    }
}

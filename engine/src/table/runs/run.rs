//! A run: key-ordered segments that do not overlap, read as one sorted sequence of entries.
//!
//! Invariant: each segment's last key is below the next one's first key.

use std::cmp::Ordering;
use std::sync::Arc;

use super::segment::Segment;
use super::segment_meta::Counts;
use crate::table::bytes::{common_prefix, prefix};

/// The words of a segment's first and last key behind `skip` bytes.
fn words(segment: &Segment, skip: usize) -> (u64, u64) {
    let meta = segment.meta();
    (prefix(&meta.first_key[skip..]), prefix(&meta.last_key[skip..]))
}

/// A sorted run; whoever shares it changes nothing of it.
#[derive(Debug, Default)]
pub struct Run {
    segments: Vec<Arc<Segment>>,
    /// Of each segment's first key, eight bytes behind the prefix that all keys share.
    words: Vec<u64>,
    /// The same of each segment's last key.
    ends: Vec<u64>,
    /// That prefix, or a beginning of it.
    shared: Vec<u8>,
    counts: Counts,
    file_bytes: u64,
    /// How many segments were added, taken, copied or looked at anew.
    #[cfg(test)]
    steps: usize,
}

impl Clone for Run {
    /// O(segments).
    fn clone(&self) -> Self {
        Run {
            segments: self.segments.clone(),
            words: self.words.clone(),
            ends: self.ends.clone(),
            shared: self.shared.clone(),
            counts: self.counts,
            file_bytes: self.file_bytes,
            #[cfg(test)]
            steps: self.steps + self.segments.len(),
        }
    }
}

impl Run {
    /// A run of these segments, which must be in the order of their keys. O(segments).
    #[must_use]
    pub fn new(segments: Vec<Arc<Segment>>) -> Self {
        let shared = match (segments.first(), segments.last()) {
            (Some(first), Some(last)) => {
                let first = &first.meta().first_key;
                first[..common_prefix(first, &last.meta().last_key)].to_vec()
            }
            _ => Vec::new(),
        };
        let mut run = Run { shared, ..Run::default() };
        for segment in segments {
            run.append(segment);
        }
        run
    }

    /// Adds a segment whose keys are above all others. O(1), and O(segments) at each time that fewer bytes
    /// than before are common to all keys.
    pub fn push(&mut self, segment: Arc<Segment>) {
        let meta = segment.meta();
        if self.is_empty() {
            self.shared.clone_from(&meta.first_key);
        }
        let common = common_prefix(&self.shared, &meta.last_key);
        if common < self.shared.len() {
            self.shared.truncate(common);
            for (number, before) in self.segments.iter().enumerate() {
                (self.words[number], self.ends[number]) = words(before, common);
            }
            #[cfg(test)]
            {
                self.steps += self.segments.len();
            }
        }
        self.append(segment);
    }

    /// Adds a segment that begins with the shared prefix.
    fn append(&mut self, segment: Arc<Segment>) {
        let meta = segment.meta();
        if let Some(last) = self.last_key() {
            assert!(last < &meta.first_key[..], "segments do not overlap");
        }
        let (word, end) = words(&segment, self.shared.len());
        self.words.push(word);
        self.ends.push(end);
        self.counts.add(&meta.footer.counts);
        self.file_bytes += meta.file_bytes();
        self.segments.push(segment);
        #[cfg(test)]
        {
            self.steps += 1;
        }
    }

    /// Takes the segments away that lie wholly at or below `boundary`. O(those), but for moving the numbers
    /// of the others together.
    pub fn split_to(&mut self, boundary: &[u8]) -> Vec<Arc<Segment>> {
        let count = self.segments.partition_point(|segment| segment.last_key() <= boundary);
        self.words.drain(..count);
        self.ends.drain(..count);
        let taken: Vec<_> = self.segments.drain(..count).collect();
        for segment in &taken {
            self.counts.take(&segment.meta().footer.counts);
            self.file_bytes -= segment.meta().file_bytes();
        }
        #[cfg(test)]
        {
            self.steps += count;
        }
        taken
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

    /// Bytes of all filters on disk, without range filters.
    #[must_use]
    pub fn filter_bytes(&self) -> u64 {
        self.segments.iter().map(|it| u64::from(it.meta().footer.bloom_bytes())).sum()
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

    /// How many segments begin at or below `key`. Reads nothing.
    #[must_use]
    pub fn begun_by(&self, key: &[u8]) -> usize {
        self.begun(self.word(key), key)
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

#[cfg(test)]
mod tests {
    use crate::disk::memory::MemoryDisk;
    use crate::{LoadOrder, Session, SessionOptions, TableOptions};

    /// Steps a segment, when tables of so many entries are merged into small segments, and how many there
    /// are.
    fn steps_a_segment(entries: u32) -> (usize, usize) {
        let options = SessionOptions { segment_bytes: 8 << 10, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let tables = ["a", "b", "c"].map(|name| {
            let order = LoadOrder::Sorted;
            let mut loader = session.load_table(name, TableOptions::default(), order).unwrap();
            for number in 0..entries {
                loader
                    .push(&(number * 3 + u32::from(name.as_bytes()[0])).to_be_bytes(), &[7; 100])
                    .unwrap();
            }
            loader.finish().unwrap()
        });
        let union = session.union("all", &[&tables[0], &tables[1], &tables[2]]).unwrap();
        let view = union.view();
        let last = view.shape.last.as_ref().unwrap();
        (last.steps / last.segments.len(), last.segments.len())
    }

    #[test]
    fn a_merge_takes_as_many_steps_a_segment_however_many_there_are() {
        let (few, count) = steps_a_segment(1_000);
        let (many, count_many) = steps_a_segment(10_000);
        assert!(count_many > 8 * count, "{count} {count_many}");
        assert!(many <= few + 1, "{many} steps a segment of {count_many}, {few} of {count}");
    }
}

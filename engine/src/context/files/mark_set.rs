//! The marks of one chunk, in order, in about two bytes each where they are close.

use std::collections::BTreeMap;

/// Bytes of the chunk whose marks are together: the distance of a mark from the first of them, and a bit,
/// fit a word, and a list holds less than a thousand of the shortest records.
const BLOCK: u64 = 1 << 15;

/// Which records of a chunk are marked, by their distance from its base, each as an object or as a base.
#[derive(Debug, Default)]
pub(crate) struct MarkSet {
    /// By number. In order, one word for each record: distance in the block × 2, + 1 for an object.
    blocks: BTreeMap<u64, Vec<u16>>,
}

fn split(distance: u64) -> (u64, u16) {
    (distance / BLOCK, ((distance % BLOCK) << 1) as u16)
}

fn join(block: u64, word: u16) -> (u64, bool) {
    (block * BLOCK + u64::from(word >> 1), word & 1 == 1)
}

impl MarkSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Marks the record at `distance`; returns whether that is news. An object stays one.
    pub(crate) fn insert(&mut self, distance: u64, is_object: bool) -> bool {
        let (block, word) = split(distance);
        let words = self.blocks.entry(block).or_default();
        let place = words.partition_point(|there| *there < word);
        match words.get_mut(place) {
            Some(there) if *there | 1 == word | 1 => {
                let is_news = is_object && *there & 1 == 0;
                *there |= u16::from(is_object);
                is_news
            }
            _ => {
                words.insert(place, word | u16::from(is_object));
                true
            }
        }
    }

    /// What the record at `distance` is marked as, if it is: whether as an object.
    pub(crate) fn get(&self, distance: u64) -> Option<bool> {
        let (block, word) = split(distance);
        let words = self.blocks.get(&block)?;
        let place = words.partition_point(|there| *there < word);
        let there = words.get(place).filter(|there| **there | 1 == word | 1)?;
        Some(there & 1 == 1)
    }

    /// The last mark before `distance`.
    pub(crate) fn before(&self, distance: u64) -> Option<(u64, bool)> {
        let (block, word) = split(distance);
        for (number, words) in self.blocks.range(..=block).rev() {
            let count = if *number == block {
                words.partition_point(|there| *there < word)
            } else {
                words.len()
            };
            if let Some(last) = words[..count].last() {
                return Some(join(*number, *last));
            }
        }
        None
    }

    /// The first mark that is not before `distance`.
    pub(crate) fn from(&self, distance: u64) -> Option<(u64, bool)> {
        let (block, word) = split(distance);
        for (number, words) in self.blocks.range(block..) {
            let first =
                if *number == block { words.partition_point(|there| *there < word) } else { 0 };
            if let Some(first) = words.get(first) {
                return Some(join(*number, *first));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_a_map_says() {
        let (mut set, mut map) = (MarkSet::default(), BTreeMap::new());
        let mut state = 1_u64;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        assert!(set.is_empty() && set.before(9).is_none() && set.from(0).is_none());
        for round in 0..20_000 {
            let far = if draw(2) == 0 { 3 * BLOCK } else { BLOCK << 30 };
            let (distance, is_object) = (draw(far), draw(2) == 0);
            let before = map.get(&distance).copied();
            let is_news = before.is_none_or(|was: bool| is_object && !was);
            assert_eq!(set.insert(distance, is_object), is_news, "{round}");
            map.insert(distance, is_object || before.unwrap_or(false));
            let asked = draw(far);
            assert_eq!(set.get(asked), map.get(&asked).copied(), "{round}");
            let both = |found: (&u64, &bool)| (*found.0, *found.1);
            assert_eq!(set.before(asked), map.range(..asked).next_back().map(both), "{round}");
            assert_eq!(set.from(asked), map.range(asked..).next().map(both), "{round}");
        }
        assert!(set.get(BLOCK << 40).is_none());
    }
}

//! The marks of one chunk, in order, in about two bytes each where they are close.

/// Bytes of the chunk whose marks are together: the distance of a mark from the first of them, and a bit,
/// fit a word, and a list holds less than a thousand of the shortest records.
const BLOCK: u64 = 1 << 15;

/// Blocks whose lists are together, so that a chunk of any length has few of them.
const GROUP: usize = 64;

type Lists = [Vec<u16>; GROUP];

/// Which records of a chunk are marked, by their distance from its base, each as an object or as a base.
#[derive(Debug, Default)]
pub(crate) struct MarkSet {
    /// Of each block, in order, one word for each record: distance in the block × 2, + 1 for an object.
    groups: Vec<Option<Box<Lists>>>,
}

/// The group of a distance, the list in it, and the word without the bit.
fn split(distance: u64) -> (usize, usize, u16) {
    let block = (distance / BLOCK) as usize;
    (block / GROUP, block % GROUP, ((distance % BLOCK) << 1) as u16)
}

fn join(group: usize, list: usize, word: u16) -> (u64, bool) {
    ((group * GROUP + list) as u64 * BLOCK + u64::from(word >> 1), word & 1 == 1)
}

impl MarkSet {
    pub(crate) fn is_empty(&self) -> bool {
        // A group is made for a mark, and none is taken back.
        self.groups.is_empty()
    }

    /// Marks the record at `distance`; returns whether that is news. An object stays one.
    pub(crate) fn insert(&mut self, distance: u64, is_object: bool) -> bool {
        let (group, list, word) = split(distance);
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        let lists =
            self.groups[group].get_or_insert_with(|| Box::new([const { Vec::new() }; GROUP]));
        let words = &mut lists[list];
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
        let (group, list, word) = split(distance);
        let words = &self.groups.get(group)?.as_ref()?[list];
        let place = words.partition_point(|there| *there < word);
        let there = words.get(place).filter(|there| **there | 1 == word | 1)?;
        Some(there & 1 == 1)
    }

    /// The last mark before `distance`.
    pub(crate) fn before(&self, distance: u64) -> Option<(u64, bool)> {
        let (group, list, word) = split(distance);
        if let Some(Some(lists)) = self.groups.get(group) {
            let words = &lists[list];
            let count = words.partition_point(|there| *there < word);
            if let Some(last) = words[..count].last() {
                return Some(join(group, list, *last));
            }
            if let Some(found) = last_of(group, &lists[..list]) {
                return Some(found);
            }
        }
        let below = &self.groups[..group.min(self.groups.len())];
        let mut below = below.iter().enumerate().rev();
        below.find_map(|(group, lists)| last_of(group, &lists.as_ref()?[..]))
    }

    /// The first mark that is not before `distance`.
    pub(crate) fn from(&self, distance: u64) -> Option<(u64, bool)> {
        let (group, list, word) = split(distance);
        let lists = self.groups.get(group)?;
        if let Some(lists) = lists {
            let words = &lists[list];
            let first = words.partition_point(|there| *there < word);
            if let Some(first) = words.get(first) {
                return Some(join(group, list, *first));
            }
            if let Some(found) = first_of(group, lists, list + 1) {
                return Some(found);
            }
        }
        let mut above = self.groups.iter().enumerate().skip(group + 1);
        above.find_map(|(group, lists)| first_of(group, lists.as_ref()?, 0))
    }
}

/// The last mark of the first lists of a group.
fn last_of(group: usize, lists: &[Vec<u16>]) -> Option<(u64, bool)> {
    let mut lists = lists.iter().enumerate().rev();
    lists.find_map(|(list, words)| Some(join(group, list, *words.last()?)))
}

/// The first mark of the lists of a group, from `list` on.
fn first_of(group: usize, lists: &Lists, list: usize) -> Option<(u64, bool)> {
    let mut lists = lists.iter().enumerate().skip(list);
    lists.find_map(|(list, words)| Some(join(group, list, *words.first()?)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
            let far = if draw(2) == 0 { 3 * BLOCK } else { BLOCK << 25 };
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

//! The marks of one chunk, in order, in about two bytes each where they are close.

use crate::prefetch;

/// Bytes of the chunk whose marks are together: the distance of a mark from the first of them, and a bit,
/// fit a word.
const BLOCK: u64 = 1 << 15;

/// Blocks that are together, so that a chunk of any length has few of them.
const GROUP: usize = 64;

/// A block with more marks has a byte for each cell of 32 bytes, in which no two records begin: one more costs the
/// same wherever it is. A longer list would take less room, but half of the time of a mark is then its growing.
const LISTED_MAX: usize = 64;
/// Room that a list begins with.
const LISTED: usize = 16;
const CELLS: usize = BLOCK as usize / 32;

/// Which records of a chunk are marked, by their distance from its base, each as an object or as a base.
#[derive(Debug, Default)]
pub(crate) struct MarkSet {
    groups: Vec<Option<Box<[Block; GROUP]>>>,
    /// What groups and blocks take.
    bytes: usize,
    /// How many marks there are.
    count: u64,
}

/// What a mark was before it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Was {
    Unmarked,
    Base,
    /// At least as much.
    Same,
}

/// The marks of one block: of each a word, the distance in the block × 2, + 1 for an object.
#[derive(Debug)]
enum Block {
    /// In order.
    List(Vec<u16>),
    /// Of each cell one more than the low six bits of the word, 0 for none.
    Cells(Box<[u8; CELLS]>),
}

/// The cell of a word, and what is in it.
fn cell_of(word: u16) -> (usize, u8) {
    (usize::from(word >> 6), (word & 63) as u8)
}

fn word_of(cell: usize, byte: u8) -> u16 {
    (cell as u16) << 6 | u16::from(byte - 1)
}

impl Block {
    /// What it takes beside its place in the group.
    fn bytes(&self) -> usize {
        match self {
            Block::List(words) => words.capacity() * size_of::<u16>(),
            Block::Cells(cells) => cells.len(),
        }
    }

    /// Marks what `word` says, without its bit.
    fn insert(&mut self, word: u16, is_object: bool) -> Was {
        let raised = |is_news| if is_news { Was::Base } else { Was::Same };
        match self {
            Block::List(words) => {
                let place = words.partition_point(|there| *there < word);
                if let Some(there) = words.get_mut(place).filter(|there| **there | 1 == word | 1) {
                    let is_news = is_object && *there & 1 == 0;
                    *there |= u16::from(is_object);
                    return raised(is_news);
                }
                if words.capacity() == 0 {
                    words.reserve_exact(LISTED);
                }
                words.insert(place, word | u16::from(is_object));
                // Never again when that did not go: then there are more.
                if words.len() == LISTED_MAX {
                    self.spread();
                }
                Was::Unmarked
            }
            Block::Cells(cells) => {
                let (cell, low) = cell_of(word);
                let there = &mut cells[cell];
                if *there == 0 {
                    *there = (low | u8::from(is_object)) + 1;
                    return Was::Unmarked;
                }
                if (*there - 1) | 1 == low | 1 {
                    let is_news = is_object && (*there - 1) & 1 == 0;
                    *there = ((*there - 1) | u8::from(is_object)) + 1;
                    return raised(is_news);
                }
                // Two in a cell: no whole store refers to both.
                let words = cells.iter().enumerate().filter(|(_, byte)| **byte != 0);
                *self = Block::List(words.map(|(cell, byte)| word_of(cell, *byte)).collect());
                self.insert(word, is_object)
            }
        }
    }

    /// Takes the mark of `word` back; returns whether there was one.
    fn remove(&mut self, word: u16) -> bool {
        match self {
            Block::List(words) => {
                let place = words.partition_point(|there| *there < word);
                let is_there = words.get(place).is_some_and(|there| *there | 1 == word | 1);
                if is_there {
                    words.remove(place);
                }
                is_there
            }
            Block::Cells(cells) => {
                let (cell, low) = cell_of(word);
                let is_there = cells[cell] != 0 && (cells[cell] - 1) | 1 == low | 1;
                if is_there {
                    cells[cell] = 0;
                }
                is_there
            }
        }
    }

    /// Makes cells of a list, unless two marks are in one.
    fn spread(&mut self) {
        let Block::List(words) = self else { return };
        let mut cells = Box::new([0; CELLS]);
        for word in &*words {
            let (cell, low) = cell_of(*word);
            if cells[cell] != 0 {
                return;
            }
            cells[cell] = low + 1;
        }
        *self = Block::Cells(cells);
    }

    fn get(&self, word: u16) -> Option<bool> {
        let there = match self {
            Block::List(words) => {
                let place = words.partition_point(|there| *there < word);
                *words.get(place)?
            }
            Block::Cells(cells) => {
                let (cell, _) = cell_of(word);
                Some(cells[cell]).filter(|byte| *byte != 0).map(|byte| word_of(cell, byte))?
            }
        };
        (there | 1 == word | 1).then_some(there & 1 == 1)
    }

    /// The last mark before `word`, which may be beyond all.
    fn before(&self, word: u32) -> Option<u16> {
        match self {
            Block::List(words) => {
                let count = words.partition_point(|there| u32::from(*there) < word);
                words[..count].last().copied()
            }
            Block::Cells(cells) => {
                let cell = (word >> 6) as usize;
                let here = cells.get(cell).filter(|byte| **byte != 0);
                let here = here.map(|byte| word_of(cell, *byte));
                here.filter(|there| u32::from(*there) < word).or_else(|| {
                    let below = &cells[..cell.min(CELLS)];
                    let cell = below.iter().rposition(|byte| *byte != 0)?;
                    Some(word_of(cell, cells[cell]))
                })
            }
        }
    }

    /// The first mark that is not before `word`.
    fn from(&self, word: u16) -> Option<u16> {
        match self {
            Block::List(words) => words.get(words.partition_point(|there| *there < word)).copied(),
            Block::Cells(cells) => {
                let (cell, _) = cell_of(word);
                let here = Some(cells[cell]).filter(|byte| *byte != 0);
                let here = here.map(|byte| word_of(cell, byte));
                here.filter(|there| *there >= word).or_else(|| {
                    let next = cells[cell + 1..].iter().position(|byte| *byte != 0)?;
                    Some(word_of(cell + 1 + next, cells[cell + 1 + next]))
                })
            }
        }
    }
}

/// The group of a distance, the block in it, and the word without the bit.
fn split(distance: u64) -> (usize, usize, u16) {
    let block = (distance / BLOCK) as usize;
    (block / GROUP, block % GROUP, ((distance % BLOCK) << 1) as u16)
}

fn join(group: usize, block: usize, word: u16) -> (u64, bool) {
    ((group * GROUP + block) as u64 * BLOCK + u64::from(word >> 1), word & 1 == 1)
}

impl MarkSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Marks the record at `distance`; returns whether that is news. An object stays one.
    pub(crate) fn insert(&mut self, distance: u64, is_object: bool) -> bool {
        let (group, block, word) = split(distance);
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        let empty = || Box::new([const { Block::List(Vec::new()) }; GROUP]);
        let blocks = self.groups[group].get_or_insert_with(|| {
            self.bytes += GROUP * size_of::<Block>();
            empty()
        });
        let block = &mut blocks[block];
        self.bytes -= block.bytes();
        let was = block.insert(word, is_object);
        self.bytes += block.bytes();
        self.count += u64::from(was == Was::Unmarked);
        was != Was::Same
    }

    /// Asks for the memory that the mark of the record at `distance` is in, or will be.
    pub(crate) fn prefetch(&self, distance: u64) {
        let (group, block, word) = split(distance);
        if let Some(Some(blocks)) = self.groups.get(group) {
            match &blocks[block] {
                Block::List(words) => words.first().into_iter().for_each(prefetch::line),
                Block::Cells(cells) => prefetch::line(&cells[cell_of(word).0]),
            }
        }
    }

    /// Takes the mark of the record at `distance` back.
    pub(crate) fn remove(&mut self, distance: u64) {
        let (group, block, word) = split(distance);
        if let Some(Some(blocks)) = self.groups.get_mut(group) {
            self.count -= u64::from(blocks[block].remove(word));
        }
    }

    /// What it takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Option<Box<[Block; GROUP]>>>()
    }

    /// What the record at `distance` is marked as, if it is: whether as an object.
    pub(crate) fn get(&self, distance: u64) -> Option<bool> {
        let (group, block, word) = split(distance);
        self.groups.get(group)?.as_ref()?[block].get(word)
    }

    /// The last mark before `distance`.
    pub(crate) fn before(&self, distance: u64) -> Option<(u64, bool)> {
        let (group, block, word) = split(distance);
        if let Some(Some(blocks)) = self.groups.get(group) {
            if let Some(last) = blocks[block].before(u32::from(word)) {
                return Some(join(group, block, last));
            }
            if let Some(found) = last_of(group, &blocks[..block]) {
                return Some(found);
            }
        }
        let below = &self.groups[..group.min(self.groups.len())];
        let mut below = below.iter().enumerate().rev();
        below.find_map(|(group, blocks)| last_of(group, &blocks.as_ref()?[..]))
    }

    /// The first mark that is not before `distance`.
    pub(crate) fn from(&self, distance: u64) -> Option<(u64, bool)> {
        let (group, block, word) = split(distance);
        if let Some(blocks) = self.groups.get(group)? {
            if let Some(first) = blocks[block].from(word) {
                return Some(join(group, block, first));
            }
            if let Some(found) = first_of(group, blocks, block + 1) {
                return Some(found);
            }
        }
        let mut above = self.groups.iter().enumerate().skip(group + 1);
        above.find_map(|(group, blocks)| first_of(group, blocks.as_ref()?, 0))
    }
}

/// The last mark of the first blocks of a group.
fn last_of(group: usize, blocks: &[Block]) -> Option<(u64, bool)> {
    let mut blocks = blocks.iter().enumerate().rev();
    blocks.find_map(|(block, marks)| Some(join(group, block, marks.before(u32::MAX)?)))
}

/// The first mark of the blocks of a group, from `block` on.
fn first_of(group: usize, blocks: &[Block; GROUP], block: usize) -> Option<(u64, bool)> {
    let mut blocks = blocks.iter().enumerate().skip(block);
    blocks.find_map(|(block, marks)| Some(join(group, block, marks.from(0)?)))
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
            if draw(4) == 0 {
                let gone = if draw(2) == 0 { distance } else { draw(far) };
                set.remove(gone);
                map.remove(&gone);
            }
            assert_eq!(set.is_empty(), map.is_empty(), "{round}");
            let asked = draw(far);
            assert_eq!(set.get(asked), map.get(&asked).copied(), "{round}");
            let both = |found: (&u64, &bool)| (*found.0, *found.1);
            assert_eq!(set.before(asked), map.range(..asked).next_back().map(both), "{round}");
            assert_eq!(set.from(asked), map.range(asked..).next().map(both), "{round}");
        }
        assert!(set.get(BLOCK << 40).is_none());
        expect_counted(&set);
    }

    /// What is counted as it grows is what is there.
    fn expect_counted(set: &MarkSet) {
        let groups = set.groups.iter().flatten();
        let of_group = |blocks: &[Block; GROUP]| {
            size_of_val(blocks) + blocks.iter().map(Block::bytes).sum::<usize>()
        };
        assert_eq!(set.bytes, groups.map(|blocks| of_group(blocks)).sum::<usize>());
        assert!(set.bytes() > set.bytes);
    }

    #[test]
    fn a_block_of_many_marks_says_what_a_map_says() {
        // Records as they lie in a pack, and places of which several share a cell.
        for step in [38, 61, 7] {
            let (mut set, mut map) = (MarkSet::default(), BTreeMap::new());
            let places = (2 * BLOCK).div_ceil(step);
            for turn in 0..2 * places {
                let distance = turn * 37 % places * step;
                let is_object = turn % 3 == 0;
                let before = map.get(&distance).copied();
                let is_news = before.is_none_or(|was: bool| is_object && !was);
                assert_eq!(set.insert(distance, is_object), is_news, "{step} {turn}");
                map.insert(distance, is_object || before.unwrap_or(false));
                if turn % 5 == 0 {
                    let gone = turn * 11 % places * step;
                    set.remove(gone);
                    map.remove(&gone);
                }
                for asked in [distance, distance.saturating_sub(turn % 70), distance + turn % 50] {
                    let both = |found: (&u64, &bool)| (*found.0, *found.1);
                    assert_eq!(set.get(asked), map.get(&asked).copied(), "{step} {turn}");
                    let before = map.range(..asked).next_back().map(both);
                    assert_eq!(set.before(asked), before, "{step} {turn}");
                    assert_eq!(
                        set.from(asked),
                        map.range(asked..).next().map(both),
                        "{step} {turn}"
                    );
                }
            }
            expect_counted(&set);
        }
    }
}

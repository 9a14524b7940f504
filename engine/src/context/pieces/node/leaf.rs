//! Leaves: names and what they lead to, side by side.

use super::Slot;
use super::hashes::Hashes;
use crate::context::pieces::changes::Changes;
use crate::error::Result;
use crate::prefetch;

#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where the name ends in the leaf's names; it begins where the one before ends.
    end: u32,
    pub(super) slot: Slot,
}

/// Entries in byte order of their names, which lie side by side in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaf {
    names: Vec<u8>,
    lengths: Lengths,
    pub(super) entries: Vec<Entry>,
    pub(super) hashes: Hashes,
    pub(super) changes: Changes,
}

/// How long the names are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lengths {
    /// There is none.
    #[default]
    None,
    /// All of them so long, so that a search touches no entry.
    All(u32),
    Various,
}

impl Lengths {
    /// With a name of `length` more.
    #[inline]
    fn with(self, length: usize) -> Lengths {
        match self {
            Lengths::None => Lengths::All(length as u32),
            Lengths::All(all) if all as usize == length => self,
            _ => Lengths::Various,
        }
    }
}

/// Room for `more` in a buffer that will be kept: to double it would waste a cache's memory.
fn make_room<T>(buffer: &mut Vec<T>, more: usize) {
    if buffer.capacity() - buffer.len() < more {
        buffer.reserve_exact(more.max(buffer.len() / 4));
    }
}

impl Leaf {
    pub(crate) fn with_capacity(entries: usize, names: usize) -> Leaf {
        Leaf {
            names: Vec::with_capacity(names),
            entries: Vec::with_capacity(entries),
            ..Leaf::default()
        }
    }

    /// Empties it but for the memory that it has.
    pub(super) fn empty(&mut self) {
        self.names.clear();
        self.entries.clear();
        (self.lengths, self.hashes) = (Lengths::None, Hashes::default());
        self.changes.empty();
    }

    /// The names of one that is empty, and where its changes go, with room for `names` bytes and `entries` entries, which
    /// [`Leaf::push_slot`] adds.
    pub(crate) fn begin(&mut self, names: usize, entries: usize) -> (&mut Vec<u8>, &mut Changes) {
        self.names.reserve_exact(names);
        self.entries.reserve_exact(entries);
        (&mut self.names, &mut self.changes)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All names, one after the other.
    pub(crate) fn names(&self) -> &[u8] {
        &self.names
    }

    /// Where name `index` ends among all.
    pub(crate) fn end(&self, index: usize) -> usize {
        self.entries[index].end as usize
    }

    #[inline]
    pub(crate) fn name(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.entries[index - 1].end as usize };
        &self.names[start..self.entries[index].end as usize]
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        &self.entries[index].slot
    }

    /// The slot, to change it: what was known of its hash is forgotten.
    pub(crate) fn slot_mut(&mut self, index: usize) -> &mut Slot {
        self.hashes.forget(index);
        self.changes.replace(index);
        &mut self.entries[index].slot
    }

    pub(crate) fn hashes(&self) -> &Hashes {
        &self.hashes
    }

    /// Where `name` is, or where it would be.
    #[inline]
    pub(crate) fn search(&self, name: &[u8]) -> std::result::Result<usize, usize> {
        let (mut low, mut high) = (0, self.entries.len());
        let length = match self.lengths {
            Lengths::All(length) => Some(length as usize),
            _ => None,
        };
        while low < high {
            let middle = low.midpoint(high);
            let found = match length {
                Some(length) => &self.names[middle * length..][..length],
                None => self.name(middle),
            };
            match found.cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Adds an entry behind all others; its name must be the greatest.
    pub(crate) fn push(&mut self, name: &[u8], slot: Slot) {
        debug_assert!(self.entries.is_empty() || self.name(self.len() - 1) < name);
        self.names.extend_from_slice(name);
        self.push_slot(self.names.len(), slot);
    }

    /// Adds an entry behind all others, whose name ends at `end` of the names that are there.
    pub(crate) fn push_slot(&mut self, end: usize, slot: Slot) {
        debug_assert!(end <= self.names.len());
        let start = self.entries.last().map_or(0, |last| last.end as usize);
        self.lengths = self.lengths.with(end - start);
        self.entries.push(Entry { end: end as u32, slot });
    }

    /// Adds an entry behind all others, of which `take` appends the name to the names; whether the name
    /// is the greatest, without which the leaf is good for nothing.
    pub(crate) fn push_with(
        &mut self,
        take: impl FnOnce(&mut Vec<u8>) -> Result<Slot>,
    ) -> Result<bool> {
        let slot = take(&mut self.names)?;
        self.push_slot(self.names.len(), slot);
        let last = self.len() - 1;
        Ok(last == 0 || self.name(last - 1) < self.name(last))
    }

    /// Asks for the memory where its buffers begin.
    pub(super) fn prefetch(&self) {
        self.names.first().into_iter().for_each(prefetch::line);
        self.entries.first().into_iter().for_each(prefetch::line);
        self.changes.prefetch();
    }

    /// Memory that it takes, without small directories.
    pub(super) fn bytes(&self) -> usize {
        self.names.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.hashes.bytes()
            + self.changes.bytes()
    }

    pub(crate) fn insert(&mut self, index: usize, name: &[u8], slot: Slot) {
        let start = if index == 0 { 0 } else { self.entries[index - 1].end as usize };
        self.lengths = self.lengths.with(name.len());
        make_room(&mut self.names, name.len());
        make_room(&mut self.entries, 1);
        let end = self.names.len();
        self.names.resize(end + name.len(), 0);
        self.names.copy_within(start..end, start + name.len());
        self.names[start..start + name.len()].copy_from_slice(name);
        for entry in &mut self.entries[index..] {
            entry.end += name.len() as u32;
        }
        self.entries.insert(index, Entry { end: (start + name.len()) as u32, slot });
        self.hashes.insert(index);
        self.changes.insert(index);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let length = self.name(index).len();
        let end = self.entries[index].end as usize;
        self.names.drain(end - length..end);
        self.entries.remove(index);
        for entry in &mut self.entries[index..] {
            entry.end -= length as u32;
        }
        if self.entries.is_empty() {
            self.lengths = Lengths::None;
        }
        self.hashes.remove(index);
        self.changes.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leaf_keeps_names_and_slots_together() {
        let mut leaf = Leaf::default();
        for name in [&b"bb"[..], b"a", b"cccc", b"", b"b"] {
            let at = leaf.search(name).unwrap_err();
            leaf.insert(at, name, Slot::value(name));
        }
        let names: Vec<_> = (0..leaf.len()).map(|index| leaf.name(index).to_vec()).collect();
        assert_eq!(names, [&b""[..], b"a", b"b", b"bb", b"cccc"]);
        leaf.remove(2);
        leaf.remove(0);
        assert_eq!(leaf.name(1), b"bb");
        assert!(leaf.slot(1).same(&Slot::value(b"bb")));
    }

    #[test]
    fn names_are_found_whether_or_not_all_are_as_long() {
        let mut leaf = Leaf::default();
        let expect = |leaf: &Leaf, names: &[&[u8]]| {
            for name in [&b""[..], b"a", b"aa", b"ab", b"b", b"bb", b"bbb", b"c", b"cc"] {
                assert_eq!(leaf.search(name), names.binary_search(&name), "{name:?} of {names:?}");
            }
        };
        for name in [&b"bb"[..], b"cc", b"aa"] {
            leaf.insert(leaf.search(name).unwrap_err(), name, Slot::value(b""));
        }
        assert_eq!(leaf.lengths, Lengths::All(2));
        expect(&leaf, &[b"aa", b"bb", b"cc"]);
        leaf.insert(1, b"b", Slot::value(b""));
        expect(&leaf, &[b"aa", b"b", b"bb", b"cc"]);
        (0..3).for_each(|_| leaf.remove(1));
        expect(&leaf, &[b"aa"]);
        leaf.remove(0);
        leaf.push(b"c", Slot::value(b""));
        assert_eq!(leaf.lengths, Lengths::All(1));
        expect(&leaf, &[b"c"]);
    }
}

//! What a record refers to, but for what later patches of it hide.
//!
//! A node that is kept as a patch has the children that its chain of records gives it. A collection goes
//! through records from the newest down, so it takes the changes first: each record hides children of its
//! base by their places, and hands on what is hidden. So a chain is never put together, and each of its
//! records is read once, where it lies.

use std::collections::{HashMap, HashSet};

use crate::context::files::commit::CommitBody;
use crate::context::files::number_hasher::BuildNumberHasher;
use crate::context::files::patch;
use crate::context::files::record::{Record, Tag};
use crate::context::pieces::entry::{take_reference, take_references};
use crate::error::Result;
use crate::format::codec::Decoder;

/// More children than a piece of a directory ever has: what damage says is not believed.
const PLACES_MAX: u64 = 1 << 20;

/// Places of children in a record that the patches above it replaced or removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// A bit for each of the first 64 places; most pieces have no more.
    first: u64,
    more: Vec<u64>,
}

impl Hidden {
    fn hide(&mut self, place: u64) {
        if place < 64 {
            self.first |= 1 << place;
            return;
        }
        let (word, bit) = ((place / 64 - 1) as usize, place % 64);
        if word >= self.more.len() {
            self.more.resize(word + 1, 0);
        }
        self.more[word] |= 1 << bit;
    }

    fn hides(&self, place: u64) -> bool {
        let word = match place / 64 {
            0 => Some(&self.first),
            word => self.more.get(word as usize - 1),
        };
        word.is_some_and(|word| word >> (place % 64) & 1 == 1)
    }

    /// The hidden places from `start` on.
    fn from(&self, start: u64) -> impl Iterator<Item = u64> + '_ {
        let words = std::iter::once(&self.first).chain(&self.more);
        let places = (0..).zip(words).flat_map(|(index, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = u64::from(left.trailing_zeros());
                left &= left.checked_sub(1)?;
                Some(index * 64 + bit)
            })
        });
        places.skip_while(move |place| *place < start)
    }
}

/// Parts of a map that grows as a collection goes on: a whole one takes 2 ms to grow at 115,000 entries, and 4 at twice
/// as many, of the 5 that a step may take.
const PARTS: usize = 128;

/// In the place of the one patch of a base where it has several, or one that stays as it is: no record is there.
const SHARED: u64 = 0;

/// By base.
type Few = HashMap<u64, (u64, u64), BuildNumberHasher>;

/// What is hidden of bases that were not reached yet, and the one patch that needs each. Of a base without an entry all is
/// hidden.
#[derive(Debug)]
pub(crate) struct HiddenOf {
    /// Where that is among the first 64 places alone: a word each, and the patch.
    few: Box<[Few; PARTS]>,
    more: HashMap<u64, (Hidden, u64), BuildNumberHasher>,
    /// Bases of which nothing is known but that they stay: of what was found late.
    shared: Box<[HashSet<u64, BuildNumberHasher>; PARTS]>,
}

impl Default for HiddenOf {
    fn default() -> HiddenOf {
        HiddenOf {
            few: Box::new(std::array::from_fn(|_| HashMap::default())),
            more: HashMap::default(),
            shared: Box::new(std::array::from_fn(|_| HashSet::default())),
        }
    }
}

/// The part of the map for an offset, by other bits than its hash.
fn part_of(offset: u64) -> usize {
    (offset.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - PARTS.ilog2())) as usize
}

impl HiddenOf {
    /// Hides no more of the base at `offset` than `hidden`, which a patch of it hides: that at `patch`, if it may be
    /// written otherwise.
    pub(crate) fn limit(&mut self, offset: u64, hidden: Hidden, patch: Option<u64>) {
        let patch = patch.unwrap_or(SHARED);
        let share = |one: &mut u64| {
            if *one != patch {
                *one = SHARED;
            }
        };
        let part = &mut self.few[part_of(offset)];
        if let Some((few, one)) = part.get_mut(&offset) {
            *few &= hidden.first;
            share(one);
        } else if let Some((more, one)) = self.more.get_mut(&offset) {
            share(one);
            more.first &= hidden.first;
            let rest = hidden.more.iter().chain(std::iter::repeat(&0));
            for (word, other) in more.more.iter_mut().zip(rest) {
                *word &= other;
            }
        } else if hidden.more.is_empty() {
            part.insert(offset, (hidden.first, patch));
        } else {
            self.more.insert(offset, (hidden, patch));
        }
    }

    /// The base at `offset` stays, whatever else needs it.
    pub(crate) fn share(&mut self, offset: u64) {
        self.shared[part_of(offset)].insert(offset);
    }

    /// The one patch that needs the base at `offset`, if that may be written otherwise.
    pub(crate) fn one_patch(&self, offset: u64) -> Option<u64> {
        let part = part_of(offset);
        if !self.shared[part].is_empty() && self.shared[part].contains(&offset) {
            return None;
        }
        let few = self.few[part].get(&offset).map(|(_, one)| *one);
        let one = few.or_else(|| self.more.get(&offset).map(|(_, one)| *one));
        one.filter(|one| *one != SHARED)
    }

    pub(crate) fn get(&self, offset: u64) -> Option<Hidden> {
        let few = self.few[part_of(offset)].get(&offset);
        let few = few.map(|(first, _)| Hidden { first: *first, more: Vec::new() });
        few.or_else(|| self.more.get(&offset).map(|(hidden, _)| hidden.clone()))
    }

    /// About what it takes of memory.
    pub(crate) fn bytes(&self) -> usize {
        // Of eight places in a map at most seven are taken, and each has a byte beside it.
        let map = |places: usize, entry: usize| places * 8 / 7 * (entry + 1);
        let few = self.few.iter().map(|part| map(part.capacity(), size_of::<(u64, (u64, u64))>()));
        let more = self.more.values().map(|(hidden, _)| hidden.more.capacity() * size_of::<u64>());
        let of_more = map(self.more.capacity(), size_of::<(u64, (Hidden, u64))>());
        let shared = self.shared.iter().map(|part| map(part.capacity(), size_of::<u64>()));
        let parts = size_of_val(&*self.few) + size_of_val(&*self.shared);
        let more = of_more + more.sum::<usize>();
        parts + few.sum::<usize>() + more + shared.sum::<usize>()
    }

    pub(crate) fn forget(&mut self, offset: u64) {
        let part = part_of(offset);
        if self.few[part].remove(&offset).is_none() && !self.more.is_empty() {
            self.more.remove(&offset);
        }
        if !self.shared[part].is_empty() {
            self.shared[part].remove(&offset);
        }
    }
}

/// Calls `each` with what the record at `at` refers to, but for children that `hidden` hides. Of a patch it
/// returns the base, and what is hidden of it.
pub(crate) fn each_reached(
    (file, place): (&str, u64),
    at: u64,
    record: &Record<'_>,
    hidden: &Hidden,
    each: &mut dyn FnMut(u64),
) -> Result<Option<(u64, Hidden)>> {
    let mut from = Decoder::new(file, place, record.body);
    let mut child = 0;
    match record.tag {
        Tag::Flat | Tag::Values => {
            while from.remaining() > 0 {
                let is_hidden = hidden.hides(child);
                take_references(&mut from, at, true, &mut |offset| {
                    if !is_hidden {
                        each(offset);
                    }
                })?;
                child += 1;
            }
        }
        Tag::Branch => {
            let is_dense = from.varint()? & 1 == 1;
            while from.remaining() > 0 {
                if !is_dense {
                    from.varint()?;
                }
                from.varint()?;
                let offset = take_reference(&mut from, at)?;
                if !hidden.hides(child) {
                    each(offset);
                }
                child += 1;
            }
        }
        Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch => {
            let base = take_reference(&mut from, at)?;
            return Ok(Some((base, of_patch(record.tag, at, from, hidden, each)?)));
        }
        Tag::Commit => each(CommitBody::decode(file, place, at, record.body)?.root),
        Tag::Value | Tag::Reference | Tag::Opening | Tag::Seal => {}
    }
    Ok(None)
}

/// The base of the record at `at`, if it is a patch.
pub(crate) fn base(
    (file, place): (&str, u64),
    at: u64,
    record: &Record<'_>,
) -> Result<Option<u64>> {
    match record.tag {
        Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch => {
            take_reference(&mut Decoder::new(file, place, record.body), at).map(Some)
        }
        _ => Ok(None),
    }
}

/// The same of the changes of a patch; returns what is hidden of its base.
fn of_patch(
    tag: Tag,
    at: u64,
    mut changes: Decoder<'_>,
    hidden: &Hidden,
    each: &mut dyn FnMut(u64),
) -> Result<Hidden> {
    let mut below = Hidden::default();
    // The next child of the node, and of its base.
    let (mut new, mut old) = (0, 0);
    while changes.remaining() > 0 {
        let start = changes.clone();
        let (kept, step) = patch::take_step(&mut changes)?;
        if kept.saturating_add(new.max(old)) >= PLACES_MAX {
            return Err(start.corrupt("children that a node can have", kept));
        }
        for place in hidden.from(new).take_while(|place| *place < new + kept) {
            below.hide(place - new + old);
        }
        (new, old) = (new + kept, old + kept);
        let is_hidden = hidden.hides(new);
        patch::take_put(tag, step, at, &mut changes, &mut |offset| {
            if !is_hidden {
                each(offset);
            }
        })?;
        if step.takes_old() {
            below.hide(old);
            old += 1;
        }
        new += u64::from(step.puts_new());
    }
    for place in hidden.from(new) {
        below.hide(place - new + old);
    }
    Ok(below)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::context::files::record;
    use crate::context::pieces::entry::Places;
    use crate::context::pieces::node::{Body, Branch, Embedded, Leaf, Node, Pointer, Slot, Target};
    use crate::format::codec::Encoder;

    /// Nothing is live.
    struct AllStored;

    impl Places for AllStored {
        fn node(&self, _: &Arc<Node>) -> u64 {
            unreachable!("all is stored")
        }

        fn embedded(&self, _: &Arc<Node>) -> Option<&Embedded> {
            None
        }

        fn value(&self, _: &Arc<[u8]>) -> u64 {
            unreachable!("all is stored")
        }
    }

    /// Names and what they lead to, as a leaf or as a branch.
    fn node(children: &[(u16, u64)], is_leaf: bool) -> Node {
        if is_leaf {
            let mut leaf = Leaf::with_capacity(children.len(), 8 * children.len());
            for (index, (name, offset)) in children.iter().enumerate() {
                leaf.insert(index, format!("n{name:05}").as_bytes(), Slot::StoredValue(*offset));
            }
            return Node::leaf(leaf, true);
        }
        let pointers = children.iter().map(|(bucket, offset)| Pointer {
            bucket: *bucket,
            count: 1,
            target: Target::Stored(*offset),
        });
        Node::new(Body::Branch(Branch::new(0, pointers.collect())))
    }

    /// A chain of records, each a patch of the one before, and the children of the last.
    fn chain(
        draw: &mut impl FnMut(u64) -> u64,
        is_leaf: bool,
    ) -> (Vec<(u64, Vec<u8>)>, BTreeSet<u64>) {
        let most = if draw(2) == 0 { 20 } else { 200 };
        let mut children: Vec<_> =
            (0..draw(most)).map(|name| (name as u16 * 3, name + 1)).collect();
        let (mut at, mut records) = (1000, Vec::new());
        let mut body = Encoder::new();
        let mut tag = record::put_full(&mut body, at, &node(&children, is_leaf), &AllStored);
        loop {
            let mut bytes = Encoder::new();
            record::put(&mut bytes, 7, at, tag, &[1; 32], &body.finish());
            records.push((at, bytes.finish()));
            if draw(5) == 0 {
                return (records, children.iter().map(|(_, offset)| *offset).collect());
            }
            let (old, under) = (node(&children, is_leaf), at);
            at += 1000;
            for change in 0..draw(6) {
                let (name, offset) = (draw(700) as u16, at - 500 + change);
                match children.binary_search_by_key(&name, |child| child.0) {
                    Ok(place) if draw(2) == 0 => drop(children.remove(place)),
                    Ok(place) => children[place].1 = offset,
                    Err(place) => children.insert(place, (name, offset)),
                }
            }
            let new = node(&children, is_leaf);
            body = Encoder::new();
            let put = patch::put_difference(&mut body, at, &new, &old, under, &AllStored);
            tag = put.expect("both are of one kind");
        }
    }

    #[test]
    fn a_chain_refers_to_what_the_node_has() {
        let mut state = 5_u64;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        for round in 0..2000 {
            let (records, children) = chain(&mut draw, round % 2 == 0);
            let (mut found, mut hidden) = (BTreeSet::new(), Hidden::default());
            for (index, (at, bytes)) in records.iter().enumerate().rev() {
                let record = record::take("chunk", 0, 7, *at, bytes).unwrap();
                let base = each_reached(("chunk", 0), *at, &record, &hidden, &mut |offset| {
                    assert!(found.insert(offset), "{offset} twice");
                });
                match base.unwrap() {
                    Some((base, below)) => {
                        assert_eq!(base, records[index - 1].0);
                        hidden = below;
                    }
                    None => assert_eq!(index, 0),
                }
            }
            assert_eq!(found, children, "round {round}");
        }
    }

    #[test]
    fn of_a_base_with_two_patches_both_hide_what_is_hidden() {
        let hiding = |places: &[u64]| {
            let mut hidden = Hidden::default();
            for place in places {
                hidden.hide(*place);
            }
            hidden
        };
        let mut of = HiddenOf::default();
        assert_eq!(of.get(5), None);
        for (offset, first, second) in [
            (5, &[1, 2, 63][..], &[2, 63, 64, 200][..]),
            (6, &[2, 64, 200], &[1, 2]),
            (7, &[2, 64, 200, 300], &[2, 200, 201]),
        ] {
            of.limit(offset, hiding(first), Some(70));
            of.limit(offset, hiding(first), Some(70));
            assert_eq!(of.one_patch(offset), Some(70));
            assert_eq!(of.get(offset), Some(hiding(first)));
            of.limit(offset, hiding(second), (offset == 5).then_some(80));
            assert_eq!(of.one_patch(offset), None);
            let both = of.get(offset).unwrap();
            for place in 0..400 {
                let expected = first.contains(&place) && second.contains(&place);
                assert_eq!(both.hides(place), expected, "{offset}: {place}");
            }
            of.forget(offset);
            assert_eq!(of.get(offset), None);
            of.share(offset);
            of.limit(offset, hiding(first), Some(90));
            assert_eq!(of.one_patch(offset), None);
            assert_eq!(of.get(offset), Some(hiding(first)));
            of.forget(offset);
            of.limit(offset, hiding(first), Some(90));
            assert_eq!(of.one_patch(offset), Some(90));
        }
    }

    #[test]
    fn places_that_no_node_has_are_damage() {
        let mut body = Encoder::new();
        body.varint(900);
        body.varint(PLACES_MAX << 2 | 1);
        let mut bytes = Encoder::new();
        record::put(&mut bytes, 7, 1000, Tag::FlatPatch, &[1; 32], &body.finish());
        let bytes = bytes.finish();
        let record = record::take("chunk", 0, 7, 1000, &bytes).unwrap();
        let found = each_reached(("chunk", 0), 1000, &record, &Hidden::default(), &mut |_| {});
        assert_eq!(found.unwrap_err().kind(), crate::Kind::Corrupt);
    }
}

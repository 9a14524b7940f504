//! What the cache of nodes keeps: most leaves and branches as bytes, which take half of what a node takes;
//! anything else as the node it is.
//!
//! A leaf in bytes is searched as it is, and becomes a node to be changed or walked: a copy of its names, and
//! of small directories not even that. The bytes never leave the process:
//!
//! ```text
//! how many entries; what flags say; patches and base of its record; its hash
//! for each entry: what it is (one byte), where its bytes and where its name end (two each)
//! the bytes of all entries: a short value, the offset of a record, or a small directory
//! all names, two digits a byte where all are of pairs of hex digits
//! its changes since its base
//! ```

mod branch;
mod nodes;

use std::ops::Range;
use std::sync::Arc;

use self::branch::KeptBranch;
pub(crate) use self::nodes::Nodes;
use super::directory;
use super::entry;
use super::node::{Base, Body, Embedded, Leaf, Node, Scan, Slot, Target};
use super::object_cache::{Held, ObjectCache};
use crate::context::configuration::Bucket;
use crate::context::hash::Hash;
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};

/// More entries are not made a node of each time that one of them is looked at, and bytes of so few have
/// ends that two bytes can say.
const WIDTH_MAX: usize = 64;

/// The most bytes of names.
const NAMES_MAX: usize = u16::MAX as usize;

/// What an entry is: the length of a short value, or
const STORED_VALUE: u8 = 16;
const STORED_NODE: u8 = 17;
const EMBEDDED: u8 = 18;

/// How many entries more a leaf that is to be changed has room for.
pub(crate) const ROOM: usize = 2;

/// Bytes that say what an entry is and where it ends.
const ENTRY: usize = 5;

/// A clean node.
#[derive(Clone)]
pub(crate) enum Kept {
    Node(Arc<Node>),
    Leaf(KeptLeaf),
    Branch(KeptBranch),
}

/// What something in bytes takes beside them: two counts and what the allocator adds.
const BESIDE: usize = 3 * size_of::<usize>();

/// Bytes that something in bytes takes.
fn bytes_of(bytes: &[u8]) -> usize {
    bytes.len() + BESIDE
}

/// What bytes of a length take in steps, of which a larger one is coarser, and the number of steps; none when
/// they are many.
fn steps_of(length: usize) -> Option<(usize, usize)> {
    let bytes = length + BESIDE;
    let (step, before, from) = match bytes {
        ..=1024 => (32, 0, 0),
        ..=2048 => (64, 32, 1024),
        ..=4096 => (128, 48, 2048),
        _ => return None,
    };
    let steps = (bytes - from).div_ceil(step);
    Some((from + steps * step, before + steps))
}

/// The bytes in `scratch` with memory of the cache's, if it has some that would do; a few zeros may follow them.
fn bytes_in(scratch: &mut Vec<u8>, cache: &ObjectCache<Kept>) -> Arc<[u8]> {
    let Some((bytes, class)) = steps_of(scratch.len()) else { return Arc::from(&scratch[..]) };
    scratch.resize(bytes - BESIDE, 0);
    // What a node still looks into is no memory for another.
    while let Some(spare) = cache.spare(class) {
        let (Kept::Leaf(KeptLeaf(mut bytes)) | Kept::Branch(KeptBranch(mut bytes))) = spare else {
            continue;
        };
        if let Some(room) = Arc::get_mut(&mut bytes) {
            room.copy_from_slice(scratch);
            return bytes;
        }
    }
    Arc::from(&scratch[..])
}

/// A leaf in bytes.
#[derive(Clone)]
pub(crate) struct KeptLeaf(Arc<[u8]>);

impl Held for Kept {
    const USUAL: u64 = 384;

    fn bytes(&self) -> usize {
        match self {
            Kept::Node(node) => Node::bytes(node),
            Kept::Leaf(leaf) => bytes_of(&leaf.0),
            Kept::Branch(branch) => bytes_of(&branch.0),
        }
    }

    fn class(&self) -> Option<usize> {
        let (Kept::Leaf(KeptLeaf(bytes)) | Kept::Branch(KeptBranch(bytes))) = self else {
            return None;
        };
        let (taken, class) = steps_of(bytes.len())?;
        (taken == bytes_of(bytes)).then_some(class)
    }
}

impl Kept {
    /// The clean node `node`, which was read from or written to where its base says. Uses the memory of
    /// `scratch`, and such as `cache` has to spare.
    pub(crate) fn new(
        node: &mut Arc<Node>,
        scratch: &mut Vec<u8>,
        cache: &ObjectCache<Kept>,
    ) -> Kept {
        if KeptLeaf::put(node, scratch).is_some() {
            return Kept::Leaf(KeptLeaf(bytes_in(scratch, cache)));
        }
        if KeptBranch::put(node, scratch).is_some() {
            return Kept::Branch(KeptBranch(bytes_in(scratch, cache)));
        }
        if let Some(own) = Arc::get_mut(node)
            && let Body::Leaf { leaf, .. } = &mut own.body
        {
            leaf.gather();
        }
        Kept::Node(Arc::clone(node))
    }

    /// The node at logical offset `offset`, which may be shared.
    pub(crate) fn node(&self, offset: u64) -> Arc<Node> {
        match self {
            Kept::Node(node) => Arc::clone(node),
            Kept::Leaf(leaf) => Arc::new(leaf.node(offset, 0)),
            Kept::Branch(branch) => Arc::new(branch.node(offset)),
        }
    }

    /// The same, not shared, with room for a few entries more: what is to be changed often grows.
    pub(crate) fn own(&self, offset: u64) -> Node {
        match self {
            Kept::Node(node) => Node::clone(node),
            Kept::Leaf(leaf) => leaf.node(offset, ROOM),
            Kept::Branch(branch) => branch.node(offset),
        }
    }

    /// The same, with the memory of one of `nodes` where that would do.
    pub(crate) fn own_of(&self, offset: u64, nodes: &Nodes) -> Arc<Node> {
        let mut node = match self {
            Kept::Node(node) if matches!(node.body, Body::Branch(_)) => nodes.branch(),
            Kept::Node(node) => nodes.leaf(node.width() + ROOM),
            Kept::Leaf(leaf) => nodes.leaf(leaf.count() + ROOM),
            Kept::Branch(_) => nodes.branch(),
        };
        let own = Arc::get_mut(&mut node).expect("nobody else has it");
        match self {
            Kept::Leaf(leaf) => leaf.fill(offset, ROOM, own),
            Kept::Branch(branch) => branch.fill(offset, own),
            Kept::Node(node) => own.copy_from(node),
        }
        node
    }

    /// See [`Load::scan`](super::node::Load::scan).
    #[inline]
    pub(crate) fn scan(&self, path: &[&[u8]], bucket: &mut Bucket<'_>) -> Result<Scan> {
        let next = match self {
            Kept::Leaf(leaf) => return leaf.find(path).map(Scan::Slot),
            Kept::Branch(branch) => branch.find(bucket),
            Kept::Node(node) => match &node.body {
                Body::Leaf { leaf, .. } => return directory::find_in(leaf, path).map(Scan::Slot),
                Body::Branch(branch) => {
                    let index = branch.search(bucket.at(branch.depth)).ok();
                    index.map(|index| match branch.pointers[index].target {
                        Target::Stored(offset) => offset,
                        Target::Live(_) => unreachable!("a clean node holds nothing live"),
                    })
                }
            },
        };
        Ok(next.map_or(Scan::Slot(None), Scan::Piece))
    }
}

/// Whether the leaf is flat, and whether its names are pairs of digits.
const FLAT: u8 = 1;
const DIGITS: u8 = 2;

/// Bytes before the entries.
const HEAD: usize = 2 + 1 + 1 + 8 + size_of::<Hash>();

impl KeptLeaf {
    /// Puts the bytes of a leaf that is better kept so into `scratch`; none of another node.
    fn put(node: &Node, scratch: &mut Vec<u8>) -> Option<()> {
        let Body::Leaf { leaf, flat } = &node.body else { return None };
        if leaf.len() > WIDTH_MAX || leaf.names().len() > NAMES_MAX {
            return None;
        }
        let (base, hash) = (node.base?, node.hash.get()?);
        let digits =
            entry::is_hex(leaf.names()) && (0..leaf.len()).all(|index| leaf.end(index) % 2 == 0);
        scratch.clear();
        scratch.extend_from_slice(&(leaf.len() as u16).to_le_bytes());
        scratch.extend([(u8::from(*flat) * FLAT) | (u8::from(digits) * DIGITS), base.patches]);
        scratch.extend_from_slice(&base.under.to_le_bytes());
        scratch.extend_from_slice(hash);
        let start = HEAD + leaf.len() * ENTRY;
        scratch.resize(start, 0);
        for index in 0..leaf.len() {
            let what = put_slot(leaf.slot(index), scratch);
            let (end, name) = (scratch.len() - start, leaf.end(index) >> u8::from(digits));
            let entry = &mut scratch[HEAD + index * ENTRY..][..ENTRY];
            entry[0] = what;
            entry[1..3].copy_from_slice(&(end as u16).to_le_bytes());
            entry[3..].copy_from_slice(&(name as u16).to_le_bytes());
        }
        debug_assert!(u16::try_from(scratch.len() - start).is_ok());
        if digits {
            let names = scratch.len();
            scratch.resize(names + leaf.names().len() / 2, 0);
            entry::pack_hex(leaf.names(), &mut scratch[names..]);
        } else {
            scratch.extend_from_slice(leaf.names());
        }
        let mut out = Encoder::after(std::mem::take(scratch));
        node.changes().put(&mut out);
        *scratch = out.finish();
        Some(())
    }

    fn count(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[0], self.0[1]]))
    }

    fn digits(&self) -> bool {
        self.0[2] & DIGITS != 0
    }

    /// What entry `index` is, and where its bytes and its name end among those of all.
    #[inline]
    fn entry(&self, index: usize) -> (u8, usize, usize) {
        let entry = &self.0[HEAD + index * ENTRY..][..ENTRY];
        let end = |at: usize| usize::from(u16::from_le_bytes([entry[at], entry[at + 1]]));
        (entry[0], end(1), end(3))
    }

    /// Where the bytes of entry `index` and its name are among those of all.
    #[inline]
    fn ranges(&self, index: usize) -> (u8, Range<usize>, Range<usize>) {
        let (_, start, name) = if index == 0 { (0, 0, 0) } else { self.entry(index - 1) };
        let (what, end, name_end) = self.entry(index);
        (what, start..end, name..name_end)
    }

    /// Where the bytes of all entries begin, all names, and the changes.
    fn starts(&self) -> (usize, usize, usize) {
        let count = self.count();
        let (_, end, name) = if count == 0 { (0, 0, 0) } else { self.entry(count - 1) };
        let start = HEAD + count * ENTRY;
        (start, start + end, start + end + name)
    }

    /// What [`entry::find`] says of it.
    pub(crate) fn find(&self, path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
        let Some((name, rest)) = path.split_first() else { return Ok(None) };
        let (mut few, mut many) = ([0; 64], Vec::new());
        let wanted = if !self.digits() {
            *name
        } else if entry::is_hex(name) {
            let length = name.len() / 2;
            let room = few.get_mut(..length).unwrap_or_else(|| {
                many.resize(length, 0);
                &mut many
            });
            entry::pack_hex(name, room);
            room
        } else {
            return Ok(None);
        };
        let (start, names, end) = self.starts();
        let names = &self.0[names..end];
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            let (what, bytes, name) = self.ranges(middle);
            match names[name].cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let bytes = &self.0[start + bytes.start..start + bytes.end];
                    if what == EMBEDDED
                        && let Some((taken, slot)) = entry::find_embedded(bytes, rest)?
                    {
                        return Ok(Some((1 + taken, slot)));
                    }
                    return Ok(Some((1, slot(what, bytes, || Embedded::new(bytes)))));
                }
            }
        }
        Ok(None)
    }

    /// The node, which was at logical offset `offset`, with room for `more` entries.
    fn node(&self, offset: u64, more: usize) -> Node {
        let mut node = Node::leaf(Leaf::default(), false);
        self.fill(offset, more, &mut node);
        node
    }

    /// Makes `node`, a leaf, that node. Its small directories stay where they are.
    fn fill(&self, offset: u64, more: usize, node: &mut Node) {
        let Body::Leaf { leaf, flat } = &mut node.body else {
            unreachable!("a leaf was asked for")
        };
        let (start, names, changes) = self.starts();
        let (digits, count) = (self.digits(), self.count());
        let length = (changes - names) << u8::from(digits);
        let all = leaf.renew(count + more, length + more * length.div_ceil(count.max(1)));
        if digits {
            entry::unpack_hex(&self.0[names..changes], all);
        } else {
            all.extend_from_slice(&self.0[names..changes]);
        }
        let mut shared = None;
        for index in 0..count {
            let (what, range, name) = self.ranges(index);
            let range = start + range.start..start + range.end;
            let slot = slot(what, &self.0[range.clone()], || {
                Embedded::within(shared.get_or_insert_with(|| Embedded::shared(&self.0)), range)
            });
            leaf.push_slot(name.end << u8::from(digits), slot);
        }
        *flat = self.0[2] & FLAT != 0;
        let (under, hash) = self.0[4..HEAD].split_at(8);
        let under = u64::from_le_bytes(under.try_into().expect("eight bytes"));
        node.base = Some(Base { offset, patches: self.0[3], under });
        node.hash = Hash::try_from(hash).expect("as long as a hash").into();
        let taken = node.changes_mut().take(&mut Decoder::new("", 0, &self.0[changes..]));
        taken.expect("they are as they were put there");
    }
}

/// Appends the bytes of an entry, and returns what it is.
fn put_slot(slot: &Slot, out: &mut Vec<u8>) -> u8 {
    match slot {
        Slot::Inline { length, bytes } => {
            out.extend_from_slice(&bytes[..usize::from(*length)]);
            *length
        }
        Slot::StoredValue(offset) => {
            out.extend_from_slice(&offset.to_le_bytes());
            STORED_VALUE
        }
        Slot::StoredNode(offset) => {
            out.extend_from_slice(&offset.to_le_bytes());
            STORED_NODE
        }
        Slot::Embedded(bytes) => {
            out.extend_from_slice(bytes);
            EMBEDDED
        }
        Slot::Value(_) | Slot::Node(_) => unreachable!("a clean node holds nothing live"),
    }
}

/// The entry that is `what` and has the bytes `bytes`.
fn slot(what: u8, bytes: &[u8], embedded: impl FnOnce() -> Embedded) -> Slot {
    let offset = || u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    match what {
        STORED_VALUE => Slot::StoredValue(offset()),
        STORED_NODE => Slot::StoredNode(offset()),
        EMBEDDED => Slot::Embedded(embedded()),
        _ => Slot::value(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::changes::{Changes, Form, Since};
    use crate::context::pieces::node::INLINE;

    struct Draw(u64);

    impl Draw {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (self.0 >> 33) as usize % bound
        }

        fn name(&mut self, digits: bool) -> Vec<u8> {
            let length = [0, 1, 2, 20, 44, 150][self.below(6)];
            let from: &[u8] = if digits { b"0123456789abcdef" } else { b"0123456789abcdefxyz" };
            (0..length).map(|_| from[self.below(from.len())]).collect()
        }

        fn slot(&mut self, flat: bool) -> Slot {
            let offset = self.below(1 << 30) as u64 + 1;
            match self.below(5) {
                0 => Slot::StoredValue(offset),
                1 if !flat => Slot::StoredNode(offset),
                2 => {
                    let name = self.name(true);
                    let inside = entry::single(&name[..name.len().min(20)], &Slot::value(b"1"));
                    Slot::Embedded(inside.expect("it is short"))
                }
                _ => Slot::value(&[7; INLINE][..self.below(INLINE + 1)]),
            }
        }

        /// A clean leaf with changes since its base.
        fn node(&mut self) -> Node {
            let (digits, flat) = (self.below(3) > 0, self.below(2) == 0);
            let mut names: Vec<_> = (0..self.below(40)).map(|_| self.name(digits)).collect();
            names.retain(|name| !digits || name.len() % 2 == 0);
            names.sort();
            names.dedup();
            let mut leaf = Leaf::default();
            for name in &names {
                leaf.push(name, self.slot(flat));
            }
            let mut node = Node::leaf(leaf, flat);
            *node.changes_mut() = Changes::none();
            let Body::Leaf { leaf, .. } = &mut node.body else { unreachable!() };
            for _ in 0..self.below(5) {
                let name = self.name(digits);
                match leaf.search(&name) {
                    Ok(index) if self.below(2) == 0 => leaf.remove(index),
                    Ok(index) => *leaf.slot_mut(index) = self.slot(flat),
                    Err(index) => leaf.insert(index, &name, self.slot(flat)),
                }
            }
            node.changes_mut().settle(Form::Patch(Since::Base));
            node.take_hashes();
            let base = Base { offset: 1 << 40, patches: self.below(9) as u8, under: self.0 >> 20 };
            node.base = Some(base);
            node.hash = [self.below(256) as u8; 32].into();
            node
        }
    }

    fn clean(leaf: Leaf, flat: bool) -> Node {
        let mut node = Node::leaf(leaf, flat);
        node.base = Some(Base { offset: 9, patches: 0, under: 0 });
        node.hash = [1; 32].into();
        *node.changes_mut() = Changes::none();
        node
    }

    fn kept_leaf(node: &Node) -> Option<KeptLeaf> {
        let mut bytes = Vec::new();
        KeptLeaf::put(node, &mut bytes)?;
        Some(KeptLeaf(bytes_in(&mut bytes, &ObjectCache::new(0))))
    }

    fn leaf_of(node: &Node) -> &Leaf {
        let Body::Leaf { leaf, .. } = &node.body else { panic!("it is a leaf") };
        leaf
    }

    fn changes(node: &Node) -> Option<Vec<(usize, bool)>> {
        node.changes().since(Since::Base).map(Iterator::collect)
    }

    #[test]
    fn a_leaf_in_bytes_is_the_leaf_it_was() {
        let (mut draw, mut digits) = (Draw(3), 0);
        let (mut scratch, cache) = (Vec::new(), ObjectCache::new(1 << 20));
        for round in 0..if cfg!(miri) { 20 } else { 3_000 } {
            let before = Arc::new(draw.node());
            let kept = Kept::new(&mut Arc::clone(&before), &mut scratch, &cache);
            let Kept::Leaf(bytes) = &kept else {
                panic!("round {round}: a piece is kept in bytes")
            };
            digits += usize::from(bytes.digits());
            assert!(Held::bytes(&kept) <= before.bytes(), "round {round}");
            let after = kept.own(1 << 40);
            let (a, b) = (leaf_of(&before), leaf_of(&after));
            assert_eq!((a.len(), a.names()), (b.len(), b.names()), "round {round}");
            for index in 0..a.len() {
                assert_eq!(a.name(index), b.name(index));
                assert!(a.slot(index).same(b.slot(index)), "round {round}, entry {index}");
            }
            assert_eq!((before.base, &before.hash), (after.base, &after.hash));
            assert_eq!(changes(&before), changes(&after), "round {round}");
            assert_eq!(before.changes().added(), after.changes().added());
            let absent: Vec<_> = (0..5).map(|_| draw.name(round % 2 == 0)).collect();
            let names = (0..a.len()).map(|index| a.name(index).to_vec()).chain(absent);
            for name in names {
                let found = bytes.find(&[&name]).unwrap();
                let expected = a.search(&name).ok().map(|index| a.slot(index));
                assert_eq!(found.is_some(), expected.is_some(), "{name:?}");
                assert!(
                    found.is_none_or(|(taken, slot)| taken == 1 && slot.same(expected.unwrap()))
                );
            }
        }
        assert!(digits > if cfg!(miri) { 3 } else { 1_000 }, "{digits}");
    }

    #[test]
    fn steps_of_bytes_are_as_long_as_they_say_and_in_order() {
        let mut before = (0, 0);
        for length in 1..5_000 {
            let Some((bytes, class)) = steps_of(length) else {
                assert!(length + BESIDE > 4096);
                continue;
            };
            let own = length + BESIDE;
            assert!(bytes >= own && bytes - own < 128 && (bytes - own) * 16 <= own.max(512));
            assert_eq!(steps_of(bytes - BESIDE), Some((bytes, class)));
            assert!(before == (bytes, class) || before.0 < bytes && before.1 < class);
            before = (bytes, class);
        }
        assert_eq!(before, (4096, 64));
    }

    #[test]
    fn bytes_take_the_memory_of_others_that_nobody_looks_into() {
        let mut draw = Draw(11);
        let (mut scratch, cache) = (Vec::new(), ObjectCache::new(1 << 22));
        let nodes = Nodes::new(1 << 16);
        let (mut reused, mut held) = (0, Vec::new());
        for round in 0..if cfg!(miri) { 20 } else { 3_000_u64 } {
            let before = Arc::new(draw.node());
            let spares = cache.bytes();
            let kept = Kept::new(&mut Arc::clone(&before), &mut scratch, &cache);
            reused += u64::from(cache.bytes() < spares);
            let after = kept.own_of(round + 1, &nodes);
            let (a, b) = (leaf_of(&before), leaf_of(&after));
            assert_eq!((a.len(), a.names()), (b.len(), b.names()), "round {round}");
            assert!((0..a.len()).all(|index| a.slot(index).same(b.slot(index))), "round {round}");
            assert_eq!((&before.hash, changes(&before)), (&after.hash, changes(&after)));
            // Some are looked into still when their bytes are given up.
            if round % 3 == 0 {
                held.push((before, after));
            } else {
                nodes.give(after);
            }
            cache.give(kept);
        }
        for (before, after) in held {
            let (a, b) = (leaf_of(&before), leaf_of(&after));
            assert!((0..a.len()).all(|index| a.slot(index).same(b.slot(index))));
        }
        assert!(reused > if cfg!(miri) { 0 } else { 500 }, "{reused}");
    }

    #[test]
    fn a_path_leads_through_small_directories_of_a_leaf_in_bytes() {
        let mut leaf = Leaf::default();
        leaf.push(b"0a", Slot::Embedded(entry::single(b"x", &Slot::value(b"1")).unwrap()));
        leaf.push(b"0b", Slot::value(b"2"));
        let kept = kept_leaf(&clean(leaf, false)).unwrap();
        let found = |path: &[&[u8]]| kept.find(path).unwrap();
        assert!(matches!(found(&[b"0a", b"x"]), Some((2, Slot::Inline { length: 1, .. }))));
        assert!(matches!(found(&[b"0a", b"y"]), Some((1, Slot::Embedded(_)))));
        assert!(matches!(found(&[b"0a"]), Some((1, Slot::Embedded(_)))));
        assert!(matches!(found(&[b"0b", b"x"]), Some((1, Slot::Inline { length: 1, .. }))));
        assert!(found(&[b"0A"]).is_none() && found(&[b"0"]).is_none() && found(&[b""]).is_none());
        assert!(found(&[&[b'0'; 300]]).is_none() && found(&[]).is_none());
    }

    #[test]
    fn what_is_too_large_stays_a_node() {
        let is_node = |leaf, flat| kept_leaf(&clean(leaf, flat)).is_none();
        let mut leads_on = Leaf::default();
        leads_on.push(b"a", Slot::StoredNode(3));
        assert!(!is_node(leads_on.clone(), true) && !is_node(leads_on, false));
        for (name, expected) in [(NAMES_MAX, false), (NAMES_MAX + 1, true)] {
            let mut leaf = Leaf::default();
            leaf.push(&vec![b'n'; name], Slot::value(b""));
            assert_eq!(is_node(leaf, true), expected);
        }
        // The largest directories that may be in place.
        let inside = Slot::Embedded(Embedded::new(&[EMBEDDED; 1 + 32 + 255]));
        let mut leaf = Leaf::default();
        for name in 0..WIDTH_MAX as u8 {
            leaf.push(&[name], inside.clone());
        }
        assert!(!is_node(leaf.clone(), true));
        leaf.push(b"x", inside);
        assert!(is_node(leaf, true));
    }

    #[test]
    fn what_is_copied_from_a_leaf_keeps_nothing_else_of_it() {
        let mut leaf = Leaf::default();
        leaf.push(b"a", Slot::Embedded(entry::single(b"x", &Slot::value(b"1")).unwrap()));
        leaf.push(&vec![b'n'; 60_000], Slot::value(b""));
        let node = clean(leaf, true);
        let kept = kept_leaf(&node).unwrap();
        let again = kept.node(9, 0);
        assert_eq!(Arc::strong_count(&kept.0), 2);
        assert!(again.bytes() > 2 * 60_000, "the bytes are counted as long as they are held");
        let copy = leaf_of(&again).slot(0).apart();
        drop(again);
        assert_eq!(Arc::strong_count(&kept.0), 1);
        assert!(copy.same(leaf_of(&node).slot(0)));
    }

    #[test]
    fn directories_of_a_node_that_stays_one_are_gathered() {
        let mut leaf = Leaf::default();
        for name in 0..WIDTH_MAX as u8 {
            leaf.push(&[name], Slot::Embedded(entry::single(b"x", &Slot::value(b"1")).unwrap()));
        }
        leaf.push(b"z", Slot::StoredNode(3));
        let mut node = Arc::new(clean(leaf, true));
        let before = node.bytes();
        let kept = Kept::new(&mut node, &mut Vec::new(), &ObjectCache::new(0));
        assert!(matches!(kept, Kept::Node(_)) && Held::bytes(&kept) < before);
    }
}

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
//! its changes since its base, and zeros up to a length that others have
//! ```

mod branch;

use std::ops::Range;
use std::sync::Arc;

use self::branch::KeptBranch;
use super::changes::Changes;
use super::directory;
use super::entry;
use super::node::{Base, Body, Embedded, Leaf, Node, Scan, Slot, Target};
use super::object_cache::Held;
use super::spare::{self, Spares};
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
const ROOM: usize = 2;

/// Bytes that say what an entry is and where it ends.
const ENTRY: usize = 5;

/// A clean node.
#[derive(Clone)]
pub(crate) enum Kept {
    Node(Arc<Node>),
    Leaf(KeptLeaf),
    Branch(KeptBranch),
}

/// Bytes that something in bytes takes: two counts and what the allocator adds come on top.
fn bytes_of(bytes: &[u8]) -> usize {
    bytes.len() + 3 * size_of::<usize>()
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
}

impl Kept {
    /// The clean node `node`, which was read from or written to where its base says. Uses the memory of
    /// `scratch`, and spare memory.
    pub(crate) fn new(node: &mut Arc<Node>, scratch: &mut Vec<u8>, spares: &Spares) -> Kept {
        if let Some(leaf) = KeptLeaf::new(node, scratch, spares) {
            return Kept::Leaf(leaf);
        }
        if let Some(branch) = KeptBranch::new(node, scratch, spares) {
            return Kept::Branch(branch);
        }
        if let Some(own) = Arc::get_mut(node)
            && let Body::Leaf { leaf, .. } = &mut own.body
        {
            leaf.gather();
        }
        Kept::Node(Arc::clone(node))
    }

    /// Leaves its memory to `spares`, if nobody else has it.
    pub(crate) fn give(self, spares: &Spares) {
        match self {
            Kept::Node(_) => {}
            Kept::Leaf(KeptLeaf(run)) | Kept::Branch(KeptBranch(run)) => spares.give_run(run),
        }
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

    /// The same in the memory of a spare node.
    pub(crate) fn own_in(&self, offset: u64, spares: &Spares) -> Arc<Node> {
        let mut node = match self {
            Kept::Node(node) => return Arc::new(Node::clone(node)),
            Kept::Leaf(_) => spares.leaf(),
            Kept::Branch(_) => spares.branch(),
        };
        let own = Arc::get_mut(&mut node).expect("a spare one is nobody's");
        match self {
            Kept::Node(_) => unreachable!("it was cloned"),
            Kept::Leaf(leaf) => leaf.put(own, offset, ROOM),
            Kept::Branch(branch) => branch.put(own, offset),
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
    /// A leaf that is better kept in bytes; none of another node.
    fn new(node: &Node, scratch: &mut Vec<u8>, spares: &Spares) -> Option<KeptLeaf> {
        let Body::Leaf { leaf, flat } = &node.body else { return None };
        // Paths lead through whole directories more often than they end in a piece of one.
        let is_large = leaf.len() > WIDTH_MAX || leaf.names().len() > NAMES_MAX;
        if is_large || *flat && node.leads_on() {
            return None;
        }
        let (base, hash) = (node.base?, node.hash.get()?);
        let digits =
            entry::is_hex(leaf.names()) && (0..leaf.len()).all(|index| leaf.end(index) % 2 == 0);
        Self::put_head(scratch, leaf.len(), *flat, digits, base, hash);
        let start = HEAD + leaf.len() * ENTRY;
        scratch.resize(start, 0);
        for index in 0..leaf.len() {
            let what = put_slot(leaf.slot(index), scratch);
            let (end, name) = (scratch.len() - start, leaf.end(index) >> u8::from(digits));
            Self::put_place(scratch, index, what, end as u16, name as u16);
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
        spare::pad(scratch);
        Some(KeptLeaf(spares.run(scratch)))
    }

    /// A leaf with the hash `hash` whose full record, at `at`, has the entries `entries`, without a node on the way; none
    /// where there are more of them than may be kept, or a flat one leads on. `Corrupt` as [`entry::take_leaf`].
    pub(crate) fn read(
        mut entries: Decoder<'_>,
        at: u64,
        flat: bool,
        hash: &Hash,
        scratch: &mut Vec<u8>,
    ) -> Result<Option<KeptLeaf>> {
        let (count, leads_on, digits) = entry::outline(entries.clone());
        if count > WIDTH_MAX || flat && leads_on {
            return Ok(None);
        }
        Self::put_head(
            scratch,
            count,
            flat,
            digits,
            Base { offset: at, patches: 0, under: 0 },
            hash,
        );
        let start = HEAD + count * ENTRY;
        scratch.resize(start, 0);
        let (mut names, mut before) = (Vec::with_capacity(entries.remaining()), 0..0);
        let mut index = 0;
        while entries.remaining() > 0 {
            let place = entries.clone();
            let (name, what) = entry::take_kept(&mut entries, at, scratch)?;
            let name_start = names.len();
            if digits {
                name.append_packed(&mut names);
            } else {
                name.append_to(&mut names);
            }
            if index > 0 && names[before.clone()] >= names[name_start..] {
                return Err(place.corrupt("names in order", "a name out of order"));
            }
            before = name_start..names.len();
            let (Ok(end), Ok(name_end)) =
                (u16::try_from(scratch.len() - start), u16::try_from(names.len()))
            else {
                return Ok(None);
            };
            Self::put_place(scratch, index, what, end, name_end);
            index += 1;
        }
        scratch.extend_from_slice(&names);
        let mut out = Encoder::after(std::mem::take(scratch));
        Changes::none().put(&mut out);
        *scratch = out.finish();
        spare::pad(scratch);
        Ok(Some(KeptLeaf(Arc::from(&scratch[..]))))
    }

    /// Begins it in `out` with all that is before the entries.
    fn put_head(
        out: &mut Vec<u8>,
        count: usize,
        flat: bool,
        digits: bool,
        base: Base,
        hash: &Hash,
    ) {
        out.clear();
        out.extend_from_slice(&(count as u16).to_le_bytes());
        out.extend([(u8::from(flat) * FLAT) | (u8::from(digits) * DIGITS), base.patches]);
        out.extend_from_slice(&base.under.to_le_bytes());
        out.extend_from_slice(hash);
    }

    /// Says of entry `index` what it is, and where its bytes and its name end.
    fn put_place(out: &mut [u8], index: usize, what: u8, end: u16, name_end: u16) {
        let entry = &mut out[HEAD + index * ENTRY..][..ENTRY];
        entry[0] = what;
        entry[1..3].copy_from_slice(&end.to_le_bytes());
        entry[3..].copy_from_slice(&name_end.to_le_bytes());
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
        self.put(&mut node, offset, more);
        node
    }

    /// Puts the node into `node`, a leaf of nothing. Its small directories stay where they are.
    fn put(&self, node: &mut Node, offset: u64, more: usize) {
        let Body::Leaf { leaf, flat } = &mut node.body else { unreachable!("a leaf is asked for") };
        let (start, names, changes) = self.starts();
        let (digits, count) = (self.digits(), self.count());
        let length = (changes - names) << u8::from(digits);
        let room = length + more * length.div_ceil(count.max(1));
        let (all, own) = leaf.begin(room, count + more);
        if digits {
            entry::unpack_hex(&self.0[names..changes], all);
        } else {
            all.extend_from_slice(&self.0[names..changes]);
        }
        let mut from = Decoder::new("", 0, &self.0[changes..]);
        own.take(&mut from).expect("they are as they were put there");
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
    use crate::context::pieces::changes::{Form, Since};
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
        let (mut scratch, spares) = (Vec::new(), Spares::new(10_000));
        for round in 0..if cfg!(miri) { 20 } else { 3_000 } {
            let before = Arc::new(draw.node());
            let kept = Kept::new(&mut Arc::clone(&before), &mut scratch, &spares);
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
            // The same in the memory of another, whatever that was.
            let again = kept.own_in(1 << 40, &spares);
            assert_eq!(format!("{again:?}"), format!("{after:?}"), "round {round}");
            spares.give(again);
            spares.give(Arc::new(draw.node()));
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

    struct Clean;

    impl entry::Places for Clean {
        fn node(&self, _: &Arc<Node>) -> u64 {
            unreachable!("it holds nothing live")
        }

        fn embedded(&self, _: &Arc<Node>) -> Option<&Embedded> {
            None
        }

        fn value(&self, _: &Arc<[u8]>) -> u64 {
            unreachable!("it holds nothing live")
        }
    }

    #[test]
    fn a_leaf_read_in_bytes_is_the_leaf_that_was_read() {
        const AT: u64 = 1 << 41;
        let (mut draw, mut scratch, mut damaged) = (Draw(5), Vec::new(), 0);
        let spares = Spares::new(0);
        for round in 0..if cfg!(miri) { 20 } else { 2_000 } {
            let node = draw.node();
            let Body::Leaf { leaf, flat } = &node.body else { unreachable!() };
            let mut out = Encoder::new();
            entry::put_leaf(&mut out, AT, leaf, &Clean);
            let mut body = out.finish();
            let read = |body: &[u8], flat| {
                entry::take_leaf(Decoder::new("f", 0, body), AT).map(|leaf| {
                    let mut node = clean(leaf, flat);
                    node.base = Some(Base { offset: AT, patches: 0, under: 0 });
                    node
                })
            };
            let by_node =
                KeptLeaf::new(&read(&body, *flat).unwrap(), &mut scratch, &spares).unwrap();
            let kept = |body: &[u8], flat, scratch: &mut Vec<u8>| {
                KeptLeaf::read(Decoder::new("f", 0, body), AT, flat, &[1; 32], scratch)
            };
            let at_once = kept(&body, *flat, &mut scratch).unwrap().unwrap();
            assert_eq!(at_once.0, by_node.0, "round {round}");
            if body.is_empty() {
                continue;
            }
            // What one refuses the other does, too.
            let place = draw.below(body.len());
            if round % 2 == 0 {
                body.truncate(place);
            } else {
                body[place] ^= 1 << draw.below(8);
            }
            let (by_node, at_once) = (read(&body, false), kept(&body, false, &mut scratch));
            // Of too many entries for it only the node says what is wrong.
            if matches!(at_once, Ok(None)) {
                continue;
            }
            assert_eq!(by_node.is_ok(), at_once.is_ok(), "round {round}: {by_node:?}");
            if let (Ok(node), Ok(Some(at_once))) = (&by_node, &at_once) {
                assert_eq!(KeptLeaf::new(node, &mut scratch, &spares).unwrap().0, at_once.0);
            }
            damaged += u32::from(by_node.is_err());
        }
        assert!(damaged > if cfg!(miri) { 2 } else { 500 }, "{damaged}");
    }

    #[test]
    fn a_path_leads_through_small_directories_of_a_leaf_in_bytes() {
        let mut leaf = Leaf::default();
        leaf.push(b"0a", Slot::Embedded(entry::single(b"x", &Slot::value(b"1")).unwrap()));
        leaf.push(b"0b", Slot::value(b"2"));
        let kept = KeptLeaf::new(&clean(leaf, false), &mut Vec::new(), &Spares::new(0)).unwrap();
        let found = |path: &[&[u8]]| kept.find(path).unwrap();
        assert!(matches!(found(&[b"0a", b"x"]), Some((2, Slot::Inline { length: 1, .. }))));
        assert!(matches!(found(&[b"0a", b"y"]), Some((1, Slot::Embedded(_)))));
        assert!(matches!(found(&[b"0a"]), Some((1, Slot::Embedded(_)))));
        assert!(matches!(found(&[b"0b", b"x"]), Some((1, Slot::Inline { length: 1, .. }))));
        assert!(found(&[b"0A"]).is_none() && found(&[b"0"]).is_none() && found(&[b""]).is_none());
        assert!(found(&[&[b'0'; 300]]).is_none() && found(&[]).is_none());
    }

    #[test]
    fn what_is_passed_often_or_is_too_large_stays_a_node() {
        let is_node = |leaf, flat| {
            KeptLeaf::new(&clean(leaf, flat), &mut Vec::new(), &Spares::new(0)).is_none()
        };
        let mut leads_on = Leaf::default();
        leads_on.push(b"a", Slot::StoredNode(3));
        assert!(is_node(leads_on.clone(), true) && !is_node(leads_on, false));
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
        let kept = KeptLeaf::new(&node, &mut Vec::new(), &Spares::new(0)).unwrap();
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
        for name in 0..10_u8 {
            leaf.push(&[name], Slot::Embedded(entry::single(b"x", &Slot::value(b"1")).unwrap()));
        }
        leaf.push(b"z", Slot::StoredNode(3));
        let mut node = Arc::new(clean(leaf, true));
        let before = node.bytes();
        let kept = Kept::new(&mut node, &mut Vec::new(), &Spares::new(0));
        assert!(matches!(kept, Kept::Node(_)) && Held::bytes(&kept) < before);
    }
}

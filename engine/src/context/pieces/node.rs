//! A node: one piece of a directory, in memory.
//!
//! A directory of few entries is one leaf; a larger one is a tree of branches with leaves below, cut
//! exactly as its hash is, so that a change copies and rewrites the pieces on its path and no others.
//! Children are either live (in memory, not stored as they are) or a logical offset in the pack.
//! Invariant: a live child is reachable only from live parents, so clean nodes hold no pointers and
//! a cache of them counts what they take.

mod embedded;
mod hashes;
mod leaf;

use std::sync::{Arc, OnceLock};

pub(crate) use embedded::Embedded;
pub(crate) use hashes::{HashVector, Hashes, Known};
pub(crate) use leaf::Leaf;

use super::changes::{Changes, Form};
use super::turnover::Turnover;
use crate::context::configuration::Bucket;
use crate::context::hash::Hash;
use crate::context::observer::{Meter, Tally};
use crate::error::{Error, Kind, Result};
use crate::prefetch;

/// Values up to this many bytes live in their parent.
pub(crate) const INLINE: usize = 15;

/// Not yet known: no pre-image is known that has this hash, and if one had, it would be recomputed.
pub(crate) const UNKNOWN: Hash = [0; 32];

/// Where stored nodes and values come from. What a tree needs of a pack, and nothing of a disk.
pub(crate) trait Load: Send + Sync {
    /// The node at a logical offset.
    fn node(&self, offset: u64) -> Result<Arc<Node>>;
    /// The node at a logical offset, for the caller to change. Whatever becomes of the caller's, the
    /// next to ask finds what this one found. `tally` is the caller's, if it has one.
    fn take(&self, offset: u64, _tally: Option<&Tally>) -> Result<Arc<Node>> {
        self.node(offset)
    }
    /// Where the first steps of `path` lead in the directory, or piece of one, at a logical offset, as far as
    /// that is found without a node of it; otherwise the node. `bucket` is of the first step, `tally` the caller's.
    fn scan(
        &self,
        offset: u64,
        _path: &[&[u8]],
        _bucket: &mut Bucket<'_>,
        _tally: Option<&Tally>,
    ) -> Result<Scan> {
        self.node(offset).map(Scan::Node)
    }
    /// The value at a logical offset.
    fn value(&self, offset: u64) -> Result<Arc<[u8]>>;
    /// The same for a caller that wants bytes of its own.
    fn value_bytes(&self, offset: u64) -> Result<Vec<u8>> {
        self.value(offset).map(|value| value.to_vec())
    }
    /// Calls `each` with the value at a logical offset, which may be longer than anybody should have twice, and with its
    /// hash if that is beside it.
    fn read_value(&self, offset: u64, each: &mut ReadValue<'_>) -> Result<()> {
        each(&self.value(offset)?, None)
    }
    /// Whether `value` is the value at a logical offset.
    fn equals(&self, offset: u64, value: &[u8]) -> Result<bool> {
        Ok(*self.value(offset)? == *value)
    }
    /// The hash of the node or value at a logical offset.
    fn hash(&self, offset: u64) -> Result<Hash>;
    /// Keeps the hashes of the children of the node at a logical offset, as far as they are known, for who asks for the
    /// node next: some of them were read one by one.
    fn keep_siblings(&self, _offset: u64, _hashes: Vec<Hash>, _is_spread: bool) {}
    /// Takes note that a change made so many bytes live.
    fn note(&self, _bytes: u64) {}
    /// Takes note that a change copied so many bytes that were live, or cut them otherwise.
    fn note_copied(&self, _bytes: u64) {}
    /// Distinguishes packs, because offsets mean nothing in another one.
    fn identity(&self) -> u64;
    /// What the handles of one store have in common; none where nothing else has the same offsets.
    fn origin(&self) -> Option<[u64; 2]> {
        None
    }
    /// Whether a value begins at a logical offset, rather than a node, and the hash of the two; none
    /// when neither does. Of any other than `wanted`, if that is given, little is read: then the offset need not
    /// be one of a record.
    fn look(&self, offset: u64, wanted: Option<&Hash>) -> Result<Option<(bool, Hash)>> {
        let _ = (offset, wanted);
        Ok(None)
    }
    /// Whether stored hashes are of the kind that changed nodes are given.
    fn hashes_alike(&self) -> bool {
        true
    }
    /// Whether a directory that shrinks stays cut into the pieces it has until its hash or its list is
    /// asked for, because loading pieces is dear.
    fn settles_late(&self) -> bool {
        false
    }
    /// Whether small directories are in place within their parents, as they are stored.
    fn embeds(&self) -> bool {
        false
    }
    /// What counts for an observer, if there is one.
    fn meter(&self) -> Option<&Arc<Meter>> {
        None
    }
    /// Bytes that a working tree may hold before it spills.
    fn budget(&self) -> u64 {
        u64::MAX
    }
    /// Writes a live directory to the pack and puts its place into `root`; does nothing where
    /// nobody writes. After an error nothing is changed.
    fn spill(&self, root: &mut Slot) -> Result<()> {
        let _ = root;
        Ok(())
    }
}

/// What [`Load::read_value`] calls.
pub(crate) type ReadValue<'a> = dyn FnMut(&[u8], Option<&Hash>) -> Result<()> + 'a;

/// What [`Load::scan`] found.
pub(crate) enum Scan {
    /// How many steps lead somewhere, and where to; none when the first does not.
    Slot(Option<(usize, Slot)>),
    /// The first step is in the piece at this logical offset, if it is anywhere.
    Piece(u64),
    /// Where to look for it.
    Node(Arc<Node>),
}

/// What a name leads to.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Inline {
        length: u8,
        bytes: [u8; INLINE],
    },
    StoredValue(u64),
    StoredNode(u64),
    Value(Arc<[u8]>),
    Node(Arc<Node>),
    /// A small directory that is in the record of its parent.
    Embedded(Embedded),
}

impl Slot {
    /// A slot for a value, inline when it is short.
    pub(crate) fn value(value: &[u8]) -> Slot {
        if value.len() > INLINE {
            return Slot::Value(value.into());
        }
        let mut bytes = [0; INLINE];
        bytes[..value.len()].copy_from_slice(value);
        Slot::Inline { length: value.len() as u8, bytes }
    }

    pub(crate) fn empty_directory() -> Slot {
        Slot::Node(Arc::new(Node::leaf(Leaf::default(), true)))
    }

    pub(crate) fn is_value(&self) -> bool {
        !matches!(self, Slot::StoredNode(_) | Slot::Node(_) | Slot::Embedded(_))
    }

    /// Whether both are the same without looking further; `false` decides nothing.
    pub(crate) fn same(&self, other: &Slot) -> bool {
        match (self, other) {
            (Slot::Inline { length: a, bytes: x }, Slot::Inline { length: b, bytes: y }) => {
                a == b && x == y
            }
            (Slot::StoredValue(a), Slot::StoredValue(b))
            | (Slot::StoredNode(a), Slot::StoredNode(b)) => a == b,
            (Slot::Value(a), Slot::Value(b)) => Arc::ptr_eq(a, b),
            (Slot::Node(a), Slot::Node(b)) => Arc::ptr_eq(a, b),
            (Slot::Embedded(a), Slot::Embedded(b)) => a == b,
            _ => false,
        }
    }
}

/// Where the piece of a branch is.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Stored(u64),
    Live(Arc<Node>),
}

/// One non-empty bucket of a branch.
#[derive(Clone, Debug)]
pub(crate) struct Pointer {
    pub(crate) bucket: u16,
    /// Entries below; 0 while they are not known, which they always are in a store.
    pub(crate) count: u32,
    pub(crate) target: Target,
}

impl Pointer {
    /// `Corrupt` when there are not as many entries below as it says.
    pub(crate) fn expect_count(&self, count: u64) -> Result<()> {
        let said = self.count;
        if said == 0 || u64::from(said) == count {
            return Ok(());
        }
        let detail = "the data are damaged or made up";
        Err(Error::new(
            Kind::Corrupt,
            format!("a bucket should have {said} entries and has {count}: {detail}"),
        ))
    }
}

/// An inode tree: the non-empty buckets in order.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) depth: u32,
    pub(crate) pointers: Vec<Pointer>,
    /// Entries below the pointers whose own count is not known.
    unknown: u64,
    turnover: Option<Box<Turnover>>,
    hashes: Hashes,
    changes: Changes,
}

impl Branch {
    pub(crate) fn new(depth: u32, pointers: Vec<Pointer>) -> Branch {
        Branch::partial(depth, pointers, 0)
    }

    /// A branch of which some pointers do not know their count, which together is `unknown`.
    pub(crate) fn partial(depth: u32, pointers: Vec<Pointer>, unknown: u64) -> Branch {
        debug_assert!(pointers.is_sorted_by(|a, b| a.bucket < b.bucket));
        let (hashes, changes) = (Hashes::default(), Changes::default());
        Branch { depth, pointers, unknown, turnover: None, hashes, changes }
    }

    /// Empties it but for the memory that it has.
    fn empty(&mut self) {
        self.pointers.clear();
        (self.turnover, self.hashes) = (None, Hashes::default());
        self.changes.empty();
    }

    /// The pointers of one that is empty, with room for `count`, and its changes.
    pub(crate) fn begin(
        &mut self,
        depth: u32,
        count: usize,
        unknown: u64,
    ) -> (&mut Vec<Pointer>, &mut Changes) {
        (self.depth, self.unknown) = (depth, unknown);
        self.pointers.reserve_exact(count);
        (&mut self.pointers, &mut self.changes)
    }

    pub(crate) fn hashes(&self) -> &Hashes {
        &self.hashes
    }

    /// Entries below pointers whose own count is not known.
    pub(crate) fn unknown(&self) -> u64 {
        self.unknown
    }

    pub(crate) fn count(&self) -> u64 {
        self.unknown + self.pointers.iter().map(|pointer| u64::from(pointer.count)).sum::<u64>()
    }

    /// Takes note that a name is about to come or go below, where directories are settled late.
    pub(crate) fn note(&mut self, name: &[u8], came: bool) {
        let start = self.count();
        self.turnover.get_or_insert_with(|| Box::new(Turnover::new(start))).note(name, came);
    }

    /// See [`Turnover::fewest`].
    pub(crate) fn fewest(&self) -> Option<u64> {
        self.turnover.as_ref()?.fewest()
    }

    pub(crate) fn settled(&mut self) {
        self.turnover = None;
    }

    /// `Corrupt` when `node`, which a pointer leads to, is not of the same directory, one deeper.
    pub(crate) fn expect_part(&self, node: &Node) -> Result<()> {
        let detail = match &node.body {
            Body::Leaf { flat: true, .. } => "is a directory of its own",
            Body::Branch(branch) if branch.depth != self.depth + 1 => "is of another depth",
            _ => return Ok(()),
        };
        Err(Error::new(
            Kind::Corrupt,
            format!("a bucket of a directory {detail}: the data are damaged or made up"),
        ))
    }

    /// Takes note that `count` entries are below a pointer. `Corrupt` when it says another number.
    pub(crate) fn learn(&mut self, index: usize, count: u64) -> Result<()> {
        if self.pointers[index].count != 0 {
            return self.pointers[index].expect_count(count);
        }
        let known = u32::try_from(count).ok().zip(self.unknown.checked_sub(count));
        let (count, unknown) = known.ok_or_else(|| {
            Error::new(
                Kind::Corrupt,
                "a bucket holds more entries than its directory: the data are damaged or made up",
            )
        })?;
        self.pointers[index].count = count;
        self.unknown = unknown;
        Ok(())
    }

    /// Where the bucket's pointer is, or where it would be.
    #[inline]
    pub(crate) fn search(&self, bucket: u16) -> std::result::Result<usize, usize> {
        // Most branches are full, and then the bucket is the place.
        if let Some(pointer) = self.pointers.get(usize::from(bucket))
            && pointer.bucket == bucket
        {
            return Ok(usize::from(bucket));
        }
        self.pointers.binary_search_by_key(&bucket, |pointer| pointer.bucket)
    }

    /// The pointer, to change what is below: what was known of its hash is forgotten.
    pub(crate) fn pointer_mut(&mut self, index: usize) -> &mut Pointer {
        self.hashes.forget(index);
        self.changes.replace(index);
        &mut self.pointers[index]
    }

    pub(crate) fn insert(&mut self, index: usize, pointer: Pointer) {
        self.pointers.insert(index, pointer);
        self.hashes.insert(index);
        self.changes.insert(index);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.pointers.remove(index);
        self.hashes.remove(index);
        self.changes.remove(index);
    }
}

/// What a node holds.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Leaf {
        leaf: Leaf,
        /// Hashed as a whole directory rather than as a piece of one.
        flat: bool,
    },
    Branch(Branch),
}

/// Where a node was read from, for a record of only what changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Base {
    pub(crate) offset: u64,
    /// How many records must be read for it, less one.
    pub(crate) patches: u8,
    /// Of what the record is a patch; 0 of a full one.
    pub(crate) under: u64,
}

/// One piece of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) body: Body,
    pub(crate) base: Option<Base>,
    /// The hash of what it was read as, once it has been changed.
    before: Hash,
    /// Set once all is known; cleared by every change.
    pub(crate) hash: OnceLock<Hash>,
}

impl Node {
    pub(crate) fn new(body: Body) -> Node {
        Node { body, base: None, before: UNKNOWN, hash: OnceLock::new() }
    }

    pub(crate) fn leaf(leaf: Leaf, flat: bool) -> Node {
        Node::new(Body::Leaf { leaf, flat })
    }

    /// Empties it but for the memory that it has.
    pub(crate) fn empty(&mut self) {
        match &mut self.body {
            Body::Leaf { leaf, .. } => leaf.empty(),
            Body::Branch(branch) => branch.empty(),
        }
        (self.base, self.before, self.hash) = (None, UNKNOWN, OnceLock::new());
    }

    /// Entries below.
    pub(crate) fn count(&self) -> u64 {
        match &self.body {
            Body::Leaf { leaf, .. } => leaf.len() as u64,
            Body::Branch(branch) => branch.count(),
        }
    }

    /// The node, to change it: it is copied if shared, and its hash is forgotten.
    pub(crate) fn edit(node: &mut Arc<Node>) -> &mut Node {
        let node = Arc::make_mut(node);
        if let Some(hash) = node.hash.take()
            && node.before == UNKNOWN
        {
            node.before = hash;
        }
        node
    }

    /// Whether it is what it was when it was read, with the hash `hash`.
    pub(crate) fn is_back(&self, hash: &Hash) -> bool {
        self.base.is_some() && self.before == *hash
    }

    /// What changed since it was read.
    pub(crate) fn changes(&self) -> &Changes {
        match &self.body {
            Body::Leaf { leaf, .. } => &leaf.changes,
            Body::Branch(branch) => &branch.changes,
        }
    }

    pub(crate) fn changes_mut(&mut self) -> &mut Changes {
        match &mut self.body {
            Body::Leaf { leaf, .. } => &mut leaf.changes,
            Body::Branch(branch) => &mut branch.changes,
        }
    }

    /// The hashes of its children.
    pub(crate) fn hashes(&self) -> &Hashes {
        match &self.body {
            Body::Leaf { leaf, .. } => &leaf.hashes,
            Body::Branch(branch) => &branch.hashes,
        }
    }

    /// Takes out what is known of the children's hashes.
    pub(crate) fn take_hashes(&mut self) -> Known {
        match &mut self.body {
            Body::Leaf { leaf, .. } => std::mem::take(leaf.hashes.known()),
            Body::Branch(branch) => std::mem::take(branch.hashes.known()),
        }
    }

    /// Whether it is the uppermost branch of a directory.
    pub(crate) fn is_top(&self) -> bool {
        matches!(&self.body, Body::Branch(branch) if branch.depth == 0)
    }

    /// About how many bytes its full record takes, hash apart.
    pub(crate) fn weight(&self) -> usize {
        match &self.body {
            // Half of a name, because most are hex digits; a byte and a reference beside it.
            Body::Leaf { leaf, .. } => {
                leaf.names().len() / 2 + 5 * leaf.len() + leaf.inside_bytes()
            }
            Body::Branch(branch) => 4 * branch.pointers.len(),
        }
    }

    /// Whether paths lead on through it to other records.
    pub(crate) fn leads_on(&self) -> bool {
        match &self.body {
            Body::Leaf { leaf, .. } => {
                leaf.entries.iter().any(|entry| matches!(entry.slot, Slot::StoredNode(_)))
            }
            Body::Branch(_) => true,
        }
    }

    /// Whether a good part of its children are in records of their own, so that each of their hashes that is
    /// not known takes a read.
    pub(crate) fn is_spread(&self) -> bool {
        match &self.body {
            Body::Leaf { leaf, .. } => {
                let is_apart =
                    |slot: &Slot| matches!(slot, Slot::StoredNode(_) | Slot::StoredValue(_));
                4 * leaf.entries.iter().filter(|entry| is_apart(&entry.slot)).count() >= leaf.len()
            }
            Body::Branch(_) => true,
        }
    }

    /// About how many bytes a changed child takes in a patch.
    pub(crate) fn change_weight(&self) -> usize {
        const REFERENCE: usize = 6;
        match &self.body {
            Body::Leaf { leaf, .. } => REFERENCE + leaf.inside_bytes() / leaf.len().max(1),
            Body::Branch(_) => REFERENCE,
        }
    }

    /// How many children it has itself.
    pub(crate) fn width(&self) -> usize {
        match &self.body {
            Body::Leaf { leaf, .. } => leaf.len(),
            Body::Branch(branch) => branch.pointers.len(),
        }
    }

    /// The same content, as if it had never been read or written.
    pub(crate) fn anew(&self) -> Node {
        let mut node = Node::new(self.body.clone());
        *node.changes_mut() = Changes::default();
        node
    }

    /// Child `index`.
    pub(crate) fn child(&self, index: usize) -> Slot {
        match &self.body {
            Body::Leaf { leaf, .. } => leaf.slot(index).clone(),
            Body::Branch(branch) => match &branch.pointers[index].target {
                Target::Live(node) => Slot::Node(Arc::clone(node)),
                Target::Stored(offset) => Slot::StoredNode(*offset),
            },
        }
    }

    /// Puts another slot of the same content in the place of child `index`.
    pub(crate) fn put_child(&mut self, index: usize, slot: Slot) {
        match (&mut self.body, slot) {
            (Body::Leaf { leaf, .. }, slot) => leaf.entries[index].slot = slot,
            (Body::Branch(branch), Slot::Node(node)) => {
                branch.pointers[index].target = Target::Live(node);
            }
            (Body::Branch(branch), Slot::StoredNode(offset)) => {
                branch.pointers[index].target = Target::Stored(offset);
            }
            (Body::Branch(_), _) => unreachable!("a pointer leads to a node"),
        }
    }

    /// The live node at child `index`, if it is one.
    pub(crate) fn live(&self, index: usize) -> Option<&Arc<Node>> {
        match &self.body {
            Body::Leaf { leaf, .. } => match leaf.slot(index) {
                Slot::Node(node) => Some(node),
                _ => None,
            },
            Body::Branch(branch) => match &branch.pointers[index].target {
                Target::Live(node) => Some(node),
                Target::Stored(_) => None,
            },
        }
    }

    /// The live child that a walk finds at step `from` or later, and the step after it. Only what
    /// changed is looked at.
    pub(crate) fn next_live(&self, from: usize) -> Option<(usize, &Arc<Node>)> {
        let changes = self.changes();
        (from..changes.steps(self.width())).find_map(|step| {
            let child = changes.at(step).and_then(|index| self.live(index))?;
            Some((step + 1, child))
        })
    }

    /// Asks for the memory of the live children, which a walk is about to visit.
    pub(crate) fn prefetch_live(&self) {
        let changes = self.changes();
        for index in (0..changes.steps(self.width())).filter_map(|step| changes.at(step)) {
            if let Some(child) = self.live(index) {
                prefetch::whole(&**child);
            }
        }
    }

    /// Asks for the buffers of the live child that a walk finds at step `from` or later: it visits another before.
    pub(crate) fn prefetch_next(&self, from: usize) {
        if let Some((_, child)) = self.next_live(from) {
            child.prefetch_buffers();
        }
    }

    /// Asks for the memory where its buffers begin; it itself should be at hand.
    pub(crate) fn prefetch_buffers(&self) {
        match &self.body {
            Body::Leaf { leaf, .. } => leaf.prefetch(),
            Body::Branch(branch) => {
                branch.pointers.first().into_iter().for_each(prefetch::line);
                branch.changes.prefetch();
            }
        }
    }

    /// The live children.
    pub(crate) fn live_mut(&mut self) -> impl Iterator<Item = &mut Arc<Node>> {
        let (entries, pointers) = match &mut self.body {
            Body::Leaf { leaf, .. } => (&mut leaf.entries[..], &mut [][..]),
            Body::Branch(branch) => (&mut [][..], &mut branch.pointers[..]),
        };
        let slots = entries.iter_mut().filter_map(|entry| match &mut entry.slot {
            Slot::Node(node) => Some(node),
            _ => None,
        });
        slots.chain(pointers.iter_mut().filter_map(|pointer| match &mut pointer.target {
            Target::Live(node) => Some(node),
            Target::Stored(_) => None,
        }))
    }

    /// Replaces live children by what `node` and `value` say: it was written as `form`.
    pub(crate) fn settle(
        &mut self,
        form: Form,
        mut node: impl FnMut(&Arc<Node>) -> Slot,
        mut value: impl FnMut(&Arc<[u8]>) -> u64,
    ) {
        self.before = UNKNOWN;
        match &mut self.body {
            Body::Leaf { leaf, .. } => {
                let Leaf { entries, changes, .. } = leaf;
                for index in (0..changes.steps(entries.len())).filter_map(|step| changes.at(step)) {
                    let slot = &mut entries[index].slot;
                    *slot = match slot {
                        Slot::Node(child) => node(child),
                        Slot::Value(child) => Slot::StoredValue(value(child)),
                        _ => continue,
                    };
                }
            }
            Body::Branch(branch) => {
                let Branch { pointers, changes, .. } = branch;
                for index in (0..changes.steps(pointers.len())).filter_map(|step| changes.at(step))
                {
                    let pointer = &mut pointers[index];
                    if let Target::Live(child) = &pointer.target
                        && let Slot::StoredNode(offset) = node(child)
                    {
                        pointer.target = Target::Stored(offset);
                    }
                }
            }
        }
        self.changes_mut().settle(form);
        debug_assert!((0..self.width()).all(|index| self.live(index).is_none()));
    }

    /// Memory that it takes, without live children.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Node>()
            + 2 * size_of::<usize>()
            + match &self.body {
                Body::Leaf { leaf, .. } => leaf.bytes() + leaf.buffers().1,
                Body::Branch(branch) => {
                    branch.pointers.capacity() * size_of::<Pointer>()
                        + branch.hashes.bytes()
                        + branch.changes.bytes()
                }
            }
    }

    /// The same once all of its children were hashed.
    pub(crate) fn bytes_hashed(&self) -> usize {
        let known = match &self.body {
            Body::Leaf { leaf, .. } => leaf.hashes().bytes(),
            Body::Branch(branch) => branch.hashes.bytes(),
        };
        self.bytes() + (size_of::<Hash>() * self.width()).saturating_sub(known)
    }

    /// What it may come to take by itself: the hashes of its children, and room for the first changes of them.
    pub(crate) fn bytes_to_come(&self) -> u64 {
        (256 + 2 * size_of::<Hash>() * self.width()) as u64
    }

    fn take_live(&mut self, out: &mut Vec<Arc<Node>>) {
        match &mut self.body {
            Body::Leaf { leaf, .. } => {
                let Leaf { entries, changes, .. } = leaf;
                for index in (0..changes.steps(entries.len())).filter_map(|step| changes.at(step)) {
                    let slot = &mut entries[index].slot;
                    if matches!(slot, Slot::Node(_))
                        && let Slot::Node(node) = std::mem::replace(slot, Slot::StoredNode(0))
                    {
                        out.push(node);
                    }
                }
            }
            Body::Branch(branch) => {
                let Branch { pointers, changes, .. } = branch;
                for index in (0..changes.steps(pointers.len())).filter_map(|step| changes.at(step))
                {
                    let target = &mut pointers[index].target;
                    if matches!(target, Target::Live(_))
                        && let Target::Live(node) = std::mem::replace(target, Target::Stored(0))
                    {
                        out.push(node);
                    }
                }
            }
        }
    }
}

impl Drop for Node {
    /// Without recursion: a tree may be as deep as its paths are long.
    fn drop(&mut self) {
        let mut rest = Vec::new();
        self.take_live(&mut rest);
        while let Some(node) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                node.take_live(&mut rest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::leaf::Entry;
    use super::*;

    #[test]
    fn slots_and_pointers_stay_small() {
        assert!(size_of::<Slot>() <= 24 && size_of::<Entry>() <= 32 && size_of::<Pointer>() <= 24);
    }
}

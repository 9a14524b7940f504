//! Running a function on a tree, and keeping what it looked at.

use std::cell::Cell;
use std::sync::Arc;

use super::pool::{Class, Content, Key, Pool, Shape};
use super::shape::{Element, Entries, Extender, Inode, Kinded, NESTING, Part, Piece, Proof, State};
use crate::context::Configuration;
use crate::context::hash::{self, Hash};
use crate::context::pieces::digest;
use crate::context::pieces::entry;
use crate::context::pieces::node::{Body, Load, Node, Slot, Target};
use crate::context::tree::{Kind, Tree};
use crate::error::{Error, Result};
use crate::sync::{Mutex, lock};

/// How many copies of what was looked at a tree proof shows at most.
const COPIES_MAX: usize = 1 << 16;

/// What a function looked at, and the tree before and after.
#[derive(Debug)]
pub struct Recording {
    configuration: Configuration,
    before: Kinded,
    after: Kinded,
    pool: Pool,
    /// The places in the order in which they were first looked at.
    order: Vec<u64>,
}

/// Runs `f` on a copy of `tree`, which is cheap, and keeps what it looks at.
///
/// What `f` does with trees that it holds on to after it returned is not in the record. Reads what `f`
/// reads, and the hashes of the siblings of that. `f` may look at anything of `tree`, and at nothing
/// else, for the proofs to be of use: who verifies has no more. `Invalid` for a tree with other hashes than
/// Tezos', and the errors of `f`.
pub fn record<R>(tree: &Tree, f: impl FnOnce(&mut Tree) -> Result<R>) -> Result<(Recording, R)> {
    if tree.load().is_some_and(|load| !load.hashes_alike()) {
        return Err(Error::invalid(
            "the store of this tree has other hashes than a proof: it can be read, but not proven",
        ));
    }
    let before = Kinded::of(tree)?;
    let configuration = tree.configuration();
    let root = Key { class: Class::of(before.kind), hash: before.hash.to_bytes() };
    let mut state = Seen::default();
    let number = state.place(root, tree.root().clone());
    let source = Arc::new(RecordedSource {
        configuration,
        load: tree.load().cloned(),
        seen: Mutex::new(state),
    });
    let slot = match before.kind {
        Kind::Value => Slot::StoredValue(number),
        Kind::Directory => Slot::StoredNode(number),
    };
    let load = Arc::clone(&source) as Arc<dyn Load>;
    let mut copy = Tree::stored(configuration, load, slot);
    let answer = f(&mut copy)?;
    let after = Kinded::of(&copy)?;
    let Seen { pool, order, .. } = std::mem::take(&mut *lock(&source.seen));
    Ok((Recording { configuration, before, after, pool, order }, answer))
}

#[derive(Debug, Default)]
struct Seen {
    pool: Pool,
    /// Where each place of the pool is in the tree that is recorded.
    slots: Vec<Slot>,
    order: Vec<u64>,
}

impl Seen {
    fn place(&mut self, key: Key, slot: Slot) -> u64 {
        let number = self.pool.intern(key);
        if number == self.slots.len() as u64 {
            self.slots.push(slot);
        }
        number
    }

    fn slot(&self, number: u64) -> Result<Slot> {
        self.slots.get(number as usize).cloned().ok_or_else(|| {
            Error::invalid("a tree is used after the function that was recorded returned: keep values, not trees")
        })
    }
}

/// A tree's own source, seen through a record.
struct RecordedSource {
    configuration: Configuration,
    load: Option<Arc<dyn Load>>,
    seen: Mutex<Seen>,
}

impl RecordedSource {
    fn stored(&self) -> &dyn Load {
        self.load.as_deref().expect("a stored child is only reached through its pack")
    }

    /// The hash of what is in `slot`.
    fn hash_in(&self, slot: &Slot) -> Result<Hash> {
        match slot {
            Slot::Inline { length, bytes } => Ok(hash::value(&bytes[..usize::from(*length)])),
            Slot::Value(value) => Ok(hash::value(value)),
            Slot::StoredValue(offset) | Slot::StoredNode(offset) => self.stored().hash(*offset),
            Slot::Node(node) => Ok(*node.hash.get().expect("the root was hashed")),
            Slot::Embedded(bytes) => digest::embedded(bytes),
        }
    }

    /// One piece of the tree, and where its children are.
    fn shape(&self, node: &Node) -> Result<(Shape, Vec<Slot>)> {
        let mut slots = Vec::with_capacity(node.width());
        let shape = match &node.body {
            Body::Leaf { leaf, .. } => {
                let mut entries = Vec::with_capacity(leaf.len());
                for index in 0..leaf.len() {
                    let slot = leaf.slot(index);
                    let kind = if slot.is_value() { Kind::Value } else { Kind::Directory };
                    let hash = match leaf.hashes().get(index) {
                        Some(hash) => hash,
                        None => self.hash_in(slot)?,
                    };
                    entries.push((leaf.name(index).to_vec(), kind, hash));
                    slots.push(slot.apart());
                }
                Shape::Leaf(entries)
            }
            Body::Branch(branch) => {
                let mut children = Vec::with_capacity(branch.pointers.len());
                for (index, pointer) in branch.pointers.iter().enumerate() {
                    let slot = match &pointer.target {
                        Target::Stored(offset) => Slot::StoredNode(*offset),
                        Target::Live(node) => Slot::Node(Arc::clone(node)),
                    };
                    let hash = match branch.hashes().get(index) {
                        Some(hash) => hash,
                        None => self.hash_in(&slot)?,
                    };
                    children.push((pointer.bucket, hash));
                    slots.push(slot);
                }
                Shape::Branch { length: branch.count(), children }
            }
        };
        Ok((shape, slots))
    }
}

impl Load for RecordedSource {
    fn node(&self, number: u64) -> Result<Arc<Node>> {
        let mut seen = lock(&self.seen);
        let slot = seen.slot(number)?;
        if let Some(Content::Node(node)) = seen.pool.content(number) {
            return Ok(Arc::clone(node));
        }
        let own = match slot {
            Slot::Node(node) => node,
            Slot::StoredNode(offset) => self.stored().node(offset)?,
            Slot::Embedded(bytes) => Arc::new(entry::embedded_node(&bytes)?),
            _ => unreachable!("directories are entered, values are not"),
        };
        let (shape, slots) = self.shape(&own)?;
        let key = seen.pool.key(number);
        for (child, slot) in shape.children(key.class).into_iter().zip(slots) {
            seen.place(child, slot);
        }
        let node = seen.pool.node(self.configuration, key.class, &shape, key.hash);
        seen.pool.show(number, Content::Node(Arc::clone(&node)));
        seen.order.push(number);
        Ok(node)
    }

    fn value(&self, number: u64) -> Result<Arc<[u8]>> {
        let mut seen = lock(&self.seen);
        let slot = seen.slot(number)?;
        if let Some(Content::Value(value)) = seen.pool.content(number) {
            return Ok(Arc::clone(value));
        }
        let value: Arc<[u8]> = match slot {
            Slot::Inline { length, bytes } => bytes[..usize::from(length)].into(),
            Slot::Value(value) => value,
            Slot::StoredValue(offset) => self.stored().value(offset)?,
            _ => unreachable!("values are read, directories are not"),
        };
        seen.pool.show(number, Content::Value(Arc::clone(&value)));
        seen.order.push(number);
        Ok(value)
    }

    /// By their hashes: the old value need not be shown for that.
    fn equals(&self, number: u64, value: &[u8]) -> Result<bool> {
        Ok(self.hash(number)? == hash::value(value))
    }

    fn hash(&self, number: u64) -> Result<Hash> {
        let seen = lock(&self.seen);
        seen.slot(number)?;
        Ok(seen.pool.key(number).hash)
    }

    fn identity(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// A proof need not show what nobody looks at in the end.
    fn settles_late(&self) -> bool {
        true
    }
}

impl Recording {
    /// The tree before.
    #[must_use]
    pub fn before(&self) -> Kinded {
        self.before
    }

    /// The tree after.
    #[must_use]
    pub fn after(&self) -> Kinded {
        self.after
    }

    fn proof(&self, state: State) -> Proof {
        let stream = matches!(state, State::Stream(_));
        let version = Proof::version_of(self.configuration, stream);
        Proof { version, before: self.before, after: self.after, state }
    }

    /// A tree proof. `Invalid` when what was looked at is nested deeper than [`NESTING`], or when copies
    /// of it are in more than 65,536 places, all of which a tree proof shows.
    pub fn tree_proof(&self) -> Result<Proof> {
        let root = Key { class: Class::of(self.before.kind), hash: self.before.hash.to_bytes() };
        let left = Cell::new(self.order.len() + COPIES_MAX);
        Ok(self.proof(State::Tree(Drawing { recording: self, left }.part(root, 0)?)))
    }

    fn content(&self, key: Key) -> Option<&Content> {
        self.pool.content(self.pool.number(key)?)
    }

    /// The bucket of a place whose node has one, and what it leads to.
    fn single(&self, key: Key) -> Option<(u16, Key)> {
        let Content::Node(node) = self.content(key)? else { return None };
        let Body::Branch(branch) = &node.body else { return None };
        let [pointer] = &branch.pointers[..] else { return None };
        let Target::Stored(number) = pointer.target else { return None };
        Some((pointer.bucket, self.pool.key(number)))
    }

    /// The buckets of two or more inodes of one bucket each that begin here, and what is below them.
    fn segment(&self, key: Key) -> Option<(Vec<u16>, Key)> {
        let mut segment = Vec::new();
        let mut child = key;
        while let Some((bucket, below)) = self.single(child) {
            segment.push(bucket);
            child = below;
        }
        (segment.len() > 1).then_some((segment, child))
    }

    /// A stream proof, of any depth: each piece once, in the order in which it was first looked at. Copies
    /// what was looked at.
    pub fn stream_proof(&self) -> Result<Proof> {
        let mut elements = Vec::with_capacity(self.order.len());
        let mut done = vec![false; self.pool.len()];
        for &number in &self.order {
            if std::mem::replace(&mut done[number as usize], true) {
                continue;
            }
            let key = self.pool.key(number);
            let Some(content) = self.pool.content(number) else { continue };
            elements.push(match content {
                Content::Value(value) => Element::Value(value.to_vec()),
                Content::Node(node) => match self.pool.shape(node) {
                    Shape::Leaf(entries) => Element::Node(
                        entries
                            .into_iter()
                            .map(|(name, kind, hash)| (name, Kinded { kind, hash: hash.into() }))
                            .collect(),
                    ),
                    Shape::Branch { length, children } => {
                        self.stream_inode(key, length as i64, children, &mut done)
                    }
                },
            });
        }
        Ok(self.proof(State::Stream(elements)))
    }

    /// An inode, or the chain that begins with it as far as it is not in the stream yet.
    fn stream_inode(
        &self,
        key: Key,
        length: i64,
        children: Vec<(u16, Hash)>,
        done: &mut [bool],
    ) -> Element {
        let mut segment = Vec::new();
        let mut child = key;
        while let Some((bucket, below)) = self.single(child) {
            if let Some(number) = self.pool.number(child) {
                if child != key && done[number as usize] {
                    break;
                }
                done[number as usize] = true;
            }
            segment.push(bucket);
            child = below;
        }
        if segment.len() < 2 {
            return Element::Inode(Inode { length, children });
        }
        Element::Extender(Extender { length, segment, child: Box::new(child.hash) })
    }
}

/// A tree proof on its way.
struct Drawing<'a> {
    recording: &'a Recording,
    /// How many places may still be shown.
    left: Cell<usize>,
}

impl Drawing<'_> {
    fn shown(&self, key: Key) -> Result<Option<&Content>> {
        let content = self.recording.content(key);
        if content.is_some() {
            let left = self.left.get().checked_sub(1).ok_or_else(|| {
                Error::invalid(
                    "copies of what was looked at are in too many places: make a stream proof",
                )
            })?;
            self.left.set(left);
        }
        Ok(content)
    }

    fn part(&self, key: Key, level: usize) -> Result<Part> {
        if level >= NESTING {
            return Err(Error::invalid(format!(
                "what was looked at is nested more than {NESTING} levels deep: make a stream proof"
            )));
        }
        Ok(match self.shown(key)? {
            None if key.class == Class::Value => Part::BlindedValue(key.hash.into()),
            None => Part::BlindedNode(key.hash.into()),
            Some(Content::Value(value)) => Part::Value(value.to_vec()),
            Some(Content::Node(node)) => match self.recording.pool.shape(node) {
                Shape::Leaf(entries) => Part::Node(self.entries(entries, level)?),
                Shape::Branch { length, children } => match self.recording.segment(key) {
                    Some((segment, child)) => {
                        Part::Extender(self.extender(length, segment, child, level)?)
                    }
                    None => Part::Inode(self.inode(key.class, length, children, level)?),
                },
            },
        })
    }

    fn piece(&self, key: Key, level: usize) -> Result<Piece> {
        let Some(Content::Node(node)) = self.shown(key)? else {
            return Ok(Piece::Blinded(key.hash));
        };
        Ok(match self.recording.pool.shape(node) {
            Shape::Leaf(entries) => Piece::Values(self.entries(entries, level)?),
            Shape::Branch { length, children } => match self.recording.segment(key) {
                Some((segment, child)) => {
                    Piece::Extender(self.extender(length, segment, child, level)?)
                }
                None => Piece::Inode(self.inode(key.class, length, children, level)?),
            },
        })
    }

    fn entries(&self, entries: Vec<(Vec<u8>, Kind, Hash)>, level: usize) -> Result<Entries> {
        let part = |(name, kind, hash)| {
            Ok((name, self.part(Key { class: Class::of(kind), hash }, level + 1)?))
        };
        entries.into_iter().map(part).collect()
    }

    fn inode(
        &self,
        class: Class,
        length: u64,
        children: Vec<(u16, Hash)>,
        level: usize,
    ) -> Result<Inode<Piece>> {
        let class = class.below();
        let piece = |(bucket, hash)| Ok((bucket, self.piece(Key { class, hash }, level + 1)?));
        let children = children.into_iter().map(piece).collect::<Result<_>>()?;
        Ok(Inode { length: length as i64, children })
    }

    fn extender(
        &self,
        length: u64,
        segment: Vec<u16>,
        child: Key,
        level: usize,
    ) -> Result<Extender<Piece>> {
        let child = Box::new(self.piece(child, level + 1)?);
        Ok(Extender { length: length as i64, segment, child })
    }
}

//! The records of one commit, in the order in which they are written: children before parents.
//!
//! Only what is live is written, each piece once however often the tree shares it. A piece that
//! equals the one it was made from is not written; one that differs little is written as a patch.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::hash::{self, Hash};
use super::node::{Base, Body, Node, Slot};
use super::pack::Pack;
use super::record::{self, PATCHES_MAX, Places, Tag};
use crate::error::Result;
use crate::format::codec::Encoder;

/// Nodes that take up to about this many bytes are not worth reading their base for.
const SMALL: usize = 48;

/// Objects by hash, for a store that keeps every object once.
pub(crate) type Objects = HashMap<Hash, u64>;

/// Records being gathered.
pub(crate) struct Batch<'a> {
    pack: &'a Pack,
    /// Logical offset of the first record.
    start: u64,
    out: Encoder,
    placed: Placed,
    /// Nodes written, in order, with their place and how many patches they are made of.
    order: Vec<(Arc<Node>, Base)>,
    /// Objects of the store, where each is kept once, and those that this batch adds.
    known: Option<&'a Objects>,
    fresh: Objects,
    body: Vec<u8>,
}

/// Where live children went. Keyed by address: the owners are kept until the batch is done.
#[derive(Default)]
struct Placed {
    nodes: HashMap<*const Node, u64, BuildHasherDefault<AddressHasher>>,
    values: HashMap<*const u8, u64, BuildHasherDefault<AddressHasher>>,
}

/// Addresses are nobody's choice, so one multiplication scatters them.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, value: usize) {
        self.0 = (self.0 ^ value as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

impl Places for Placed {
    fn node(&self, node: &Arc<Node>) -> u64 {
        self.nodes[&Arc::as_ptr(node)]
    }

    fn value(&self, value: &Arc<[u8]>) -> u64 {
        self.values[&value.as_ptr()]
    }
}

/// What a batch wrote.
pub(crate) struct Written {
    placed: Placed,
    order: Vec<(Arc<Node>, Base)>,
    pub(crate) bytes: Vec<u8>,
    /// The objects to be known from now on.
    pub(crate) fresh: Objects,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(pack: &'a Pack, start: u64, known: Option<&'a Objects>) -> Batch<'a> {
        Batch {
            pack,
            start,
            out: Encoder::new(),
            placed: Placed::default(),
            order: Vec::new(),
            known,
            fresh: Objects::new(),
            body: Vec::new(),
        }
    }

    fn next(&self) -> u64 {
        self.start + self.out.bytes().len() as u64
    }

    /// Bytes gathered so far.
    pub(crate) fn len(&self) -> u64 {
        self.out.bytes().len() as u64
    }

    /// Adds a record and returns its logical offset.
    pub(crate) fn put(&mut self, tag: Tag, hash: &Hash, body: &[u8]) -> u64 {
        let offset = self.next();
        record::put(&mut self.out, self.pack.store, offset, tag, hash, body);
        if self.known.is_some() && !matches!(tag, Tag::Commit | Tag::Reference) {
            self.fresh.insert(*hash, offset);
        }
        offset
    }

    /// Where an object with this hash is already, in a store that keeps each once.
    fn stored(&self, hash: &Hash) -> Option<u64> {
        self.known?.get(hash).or_else(|| self.fresh.get(hash)).copied()
    }

    /// Adds what is live of the directory `root`, whose hash is known; returns where it is.
    pub(crate) fn put_tree(&mut self, root: &Arc<Node>) -> Result<u64> {
        let mut stack: Vec<(Arc<Node>, usize)> = vec![(Arc::clone(root), 0)];
        while let Some((node, next)) = stack.last_mut() {
            if *next < node.width() {
                let child = node.live(*next).cloned();
                *next += 1;
                if let Some(child) = child
                    && !self.placed.nodes.contains_key(&Arc::as_ptr(&child))
                {
                    stack.push((child, 0));
                }
                continue;
            }
            let (node, _) = stack.pop().expect("the loop saw it");
            self.put_node(node)?;
        }
        Ok(self.placed.node(root))
    }

    fn put_node(&mut self, node: Arc<Node>) -> Result<()> {
        let key = Arc::as_ptr(&node);
        let hash = *node.hash.get().expect("a tree is hashed before it is written");
        if self.placed.nodes.contains_key(&key) {
            return Ok(());
        }
        if let Some(offset) = self.stored(&hash) {
            self.place(key, offset);
            // The owner must live as long as its address is a key.
            self.order.push((node, Base { offset: 0, patches: 0 }));
            return Ok(());
        }
        if let Body::Leaf { leaf, .. } = &node.body {
            for index in 0..leaf.len() {
                if let Slot::Value(value) = leaf.slot(index) {
                    let known = leaf.hashes().get(index);
                    self.put_value(value, &known.unwrap_or_else(|| hash::value(value)));
                }
            }
        }
        let at = self.next();
        let mut body = std::mem::take(&mut self.body);
        let mut patches = 0;
        let mut tag = None;
        if let Some(from) = node.base.filter(|_| node.is_back(&hash)) {
            self.body = body;
            self.place(key, from.offset);
            self.order.push((node, Base { offset: 0, patches: 0 }));
            return Ok(());
        }
        let base = node.base.filter(|from| node.weight() > SMALL && from.patches < PATCHES_MAX);
        if let Some(from) = base {
            let mut patch = Encoder::over(body);
            let made = if let Some(children) = node.changes().replaced() {
                let places = &self.placed;
                Some(record::put_replaced(&mut patch, at, &node, children, from, places))
            } else {
                let base = self.pack.read_node(from.offset, PATCHES_MAX)?;
                record::put_patch(&mut patch, at, &node, &base, from, &self.placed)
            };
            tag = made.filter(|_| patch.bytes().len() < node.weight() / 2);
            body = patch.finish();
            patches = from.patches + 1;
        }
        let tag = if let Some(tag) = tag {
            tag
        } else {
            patches = 0;
            let mut full = Encoder::over(body);
            let tag = record::put_full(&mut full, at, &node, &self.placed);
            body = full.finish();
            tag
        };
        let offset = self.put(tag, &hash, &body);
        self.body = body;
        self.place(key, offset);
        self.order.push((node, Base { offset, patches }));
        Ok(())
    }

    fn put_value(&mut self, value: &Arc<[u8]>, hash: &Hash) {
        if self.placed.values.contains_key(&value.as_ptr()) {
            return;
        }
        let offset = match self.stored(hash) {
            Some(offset) => offset,
            None => self.put(Tag::Value, hash, value),
        };
        self.placed.values.insert(value.as_ptr(), offset);
    }

    fn place(&mut self, key: *const Node, offset: u64) {
        self.placed.nodes.insert(key, offset);
    }

    /// Ends the batch.
    pub(crate) fn finish(self) -> Written {
        Written {
            placed: self.placed,
            order: self.order,
            bytes: self.out.finish(),
            fresh: self.fresh,
        }
    }
}

/// The hashes of the objects below `root` that are live, each once: what a batch may find stored.
pub(crate) fn live_objects(root: &Arc<Node>) -> Vec<Hash> {
    let mut seen: HashSet<*const Node, BuildHasherDefault<AddressHasher>> = HashSet::default();
    let mut hashes = Vec::new();
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        if Arc::strong_count(node) > 1 && !seen.insert(Arc::as_ptr(node)) {
            continue;
        }
        hashes.extend(node.hash.get().copied());
        for index in 0..node.width() {
            stack.extend(node.live(index));
            if let Body::Leaf { leaf, .. } = &node.body
                && let Slot::Value(value) = leaf.slot(index)
            {
                hashes.push(leaf.hashes().get(index).unwrap_or_else(|| hash::value(value)));
            }
        }
    }
    hashes
}

impl Written {
    /// Moves the nodes written into the cache of `pack`, as clean ones. The tree that owned them must
    /// have let go of them, or they are copied.
    pub(crate) fn settle(self, pack: &Pack) {
        let Written { placed, order, .. } = self;
        let mut owners = Vec::new();
        // Parents first: once a parent is clean it holds its children no more.
        for (mut node, base) in order.into_iter().rev() {
            if base.offset == 0 {
                owners.push(node);
                continue;
            }
            let own = Arc::make_mut(&mut node);
            own.settle(|child| placed.node(child), |value| placed.value(value));
            if let Some(old) = own.base.replace(base) {
                // A chain seldom looks back: the piece that this one replaces makes room at once.
                drop(pack.objects.take(old.offset));
            }
            // Small ones at the ends of paths are searched in their records.
            if node.weight() > SMALL || node.has_directories() {
                pack.objects.insert(base.offset, node);
            }
        }
    }
}

//! The memory of a working tree: how it is counted, spilled to the pack, and given back.

use std::collections::HashSet;
use std::sync::Arc;

use super::Tree;
use crate::context::configuration::Bucket;
use crate::context::hash::Hash;
use crate::context::observer::{Meter, Operation, Span, Tally, observing};
use crate::context::pieces::node::{Body, Load, Node, Scan, Slot};
use crate::error::Result;
use crate::sync::{AtomicU64, Ordering};

/// A pack that counts the bytes of the nodes taken from it: those that a change makes live. Beside them those that it copies.
pub(super) struct Counted<'a> {
    load: &'a dyn Load,
    bytes: AtomicU64,
    copied: AtomicU64,
}

impl<'a> Counted<'a> {
    pub(super) fn new(load: &'a dyn Load) -> Counted<'a> {
        Counted { load, bytes: AtomicU64::new(0), copied: AtomicU64::new(0) }
    }

    /// What was made live, and what was copied.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.bytes.load(Ordering::Relaxed), self.copied.load(Ordering::Relaxed))
    }

    fn count(&self, bytes: u64) {
        add(&self.bytes, bytes);
    }

    /// Counts a node that was taken. The package for JavaScript has nobody who asks for more than its bytes.
    fn take_note(&self, node: &Node) {
        self.count(node.bytes() as u64);
        if !cfg!(varvite_js) {
            add(&self.copied, node.bytes_to_come());
        }
    }
}

/// A count is one change's, so no other thread adds meanwhile, and nothing need be locked.
fn add(to: &AtomicU64, bytes: u64) {
    to.store(to.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

impl Load for Counted<'_> {
    fn node(&self, offset: u64) -> Result<Arc<Node>> {
        let node = self.load.node(offset)?;
        self.take_note(&node);
        Ok(node)
    }

    fn take(&self, offset: u64, tally: Option<&Tally>) -> Result<Arc<Node>> {
        let node = self.load.take(offset, tally)?;
        self.take_note(&node);
        Ok(node)
    }

    fn scan(
        &self,
        offset: u64,
        path: &[&[u8]],
        bucket: &mut Bucket<'_>,
        tally: Option<&Tally>,
    ) -> Result<Scan> {
        self.load.scan(offset, path, bucket, tally)
    }

    fn value(&self, offset: u64) -> Result<Arc<[u8]>> {
        self.load.value(offset)
    }

    fn hash(&self, offset: u64) -> Result<Hash> {
        self.load.hash(offset)
    }

    fn identity(&self) -> u64 {
        self.load.identity()
    }

    fn note(&self, bytes: u64) {
        self.count(bytes);
    }

    fn note_copied(&self, bytes: u64) {
        add(&self.copied, bytes);
    }

    fn settles_late(&self) -> bool {
        self.load.settles_late()
    }

    fn embeds(&self) -> bool {
        self.load.embeds()
    }
}

/// What trees hold, being added up.
#[derive(Default)]
struct HeldBytes<'a> {
    bytes: u64,
    /// Nodes and values that more than one handle has.
    shared: HashSet<*const u8>,
    rest: Vec<&'a Node>,
}

impl<'a> HeldBytes<'a> {
    /// Adds what hangs on `root`. Nothing here recurses over the depth of the tree.
    fn add(&mut self, root: &'a Slot) {
        self.add_slot(root);
        while let Some(node) = self.rest.pop() {
            self.bytes += node.bytes_hashed() as u64;
            let changes = node.changes();
            for index in (0..changes.steps(node.width())).filter_map(|step| changes.at(step)) {
                match &node.body {
                    Body::Leaf { leaf, .. } => self.add_slot(leaf.slot(index)),
                    Body::Branch(_) => node.live(index).into_iter().for_each(|it| self.visit(it)),
                }
            }
        }
    }

    fn add_slot(&mut self, slot: &'a Slot) {
        match slot {
            Slot::Node(node) => self.visit(node),
            Slot::Value(value) if self.is_new(value) => {
                self.bytes += (value.len() + 2 * size_of::<usize>()) as u64;
            }
            _ => {}
        }
    }

    fn visit(&mut self, node: &'a Arc<Node>) {
        if self.is_new(node) {
            self.rest.push(node);
        }
    }

    fn is_new<T: ?Sized>(&mut self, it: &Arc<T>) -> bool {
        Arc::strong_count(it) == 1 || self.shared.insert(Arc::as_ptr(it).cast())
    }
}

/// What a new entry or directory takes beside its name and value, about.
pub(super) const ENTRY_BYTES: u64 = 96;

/// What the directories on the way to a change note of it and keep for it, each, at most: lists grow to twice what is in them.
pub(super) const CHANGE_BYTES: u64 = 128;

impl Tree {
    fn meter(&self) -> Option<&Arc<Meter>> {
        observing(self.load.as_ref()?.meter())
    }

    /// Begins an operation of which the observer is told, if there is one.
    #[inline]
    pub(super) fn span<'a, S: AsRef<[u8]>>(
        &'a self,
        operation: Operation,
        path: &'a [S],
    ) -> Option<Span<'a, &'a Meter, S>> {
        Span::begin(self.meter().map(|meter| &**meter), operation, path)
    }

    /// The same of one that changes the tree.
    #[inline]
    pub(super) fn span_of_change<'a, S: AsRef<[u8]>>(
        &self,
        operation: Operation,
        path: &'a [S],
    ) -> Option<Span<'a, Arc<Meter>, S>> {
        Span::begin(self.meter().cloned(), operation, path)
    }

    /// Bytes of memory that `trees` hold by what was changed of them and not committed or spilled since: each directory and
    /// value once, however many of them share it, with the hashes that hashing adds. Looks at all of that, and reads nothing.
    ///
    /// ```
    /// use varvite::context::{Configuration, Tree};
    /// # fn main() -> varvite::Result<()> {
    /// let mut tree = Tree::empty(Configuration::TEZOS);
    /// tree.add(&["data"], &[7; 10_000])?;
    /// let held = Tree::held_bytes([&tree]);
    /// assert!((10_000..12_000).contains(&held));
    /// assert_eq!(Tree::held_bytes([&tree, &tree.clone()]), held);
    /// # Ok(())
    /// # }
    /// ```
    pub fn held_bytes<'a>(trees: impl IntoIterator<Item = &'a Tree>) -> u64 {
        let mut held = HeldBytes::default();
        for tree in trees {
            held.add(&tree.root);
        }
        held.bytes
    }

    /// About how many bytes the changes through this handle, and through those that it was cloned of, ever made live, added or
    /// copied: between two looks, what [`Tree::held_bytes`] says of all trees of a store together grows by no more than these
    /// do, but for an eighth by which lists grow ahead. What a tree shares with another counts with the handle that made it. Costs
    /// nothing.
    pub fn made_bytes(&self) -> u64 {
        self.made_bytes
    }

    /// The same tree, which never spills.
    pub(in crate::context) fn staying_live(self) -> Tree {
        Tree { stays_live: true, ..self }
    }

    /// Writes what is live to the pack when it is past the budget, before more is added.
    pub(super) fn spill_if_large(&mut self) -> Result<()> {
        let Some(load) = &self.load else { return Ok(()) };
        if self.live_bytes <= load.budget() || self.stays_live {
            return Ok(());
        }
        let load = Arc::clone(load);
        load.spill(&mut self.root)?;
        // Where nothing could be spilled, the next try is a budget later.
        self.live_bytes = 0;
        Ok(())
    }

    /// Gives back memory below `depth`: hashes of children that were kept to hash faster. The content
    /// stays, and so do other handles. 0 is the tree itself. Reads and writes nothing.
    ///
    /// Directories that were only read hold no memory of the tree: they are in the store's cache.
    pub fn clear(&mut self, depth: usize) {
        let Slot::Node(root) = &mut self.root else { return };
        let mut stack = vec![(root, 0)];
        while let Some((node, level)) = stack.pop() {
            // What another handle shares is not this one's to give back.
            let Some(node) = Arc::get_mut(node) else { continue };
            if level >= depth {
                drop(node.take_hashes());
            }
            let below = level + usize::from(matches!(node.body, Body::Leaf { .. }));
            stack.extend(node.live_mut().map(|child| (child, below)));
        }
    }
}

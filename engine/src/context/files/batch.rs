//! The records of one commit, in the order in which they are written: children before parents.
//!
//! Only what is live is written, each piece once however often the tree shares it. A piece that
//! equals the one it was made from is not written; one that differs little is written as a patch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::collecting::barrier::Barrier;
use super::number_hasher::BuildNumberHasher;
use super::pack::{MIDDLING_BODY, Pack, SMALL_BODY};
use super::patch::{self, PATCHES_MAX};
use super::record::{self, Tag};
use crate::context::hash::{self, Hash};
use crate::context::pieces::changes::{Form, Since};
use crate::context::pieces::digest;
use crate::context::pieces::entry::{self, Places};
use crate::context::pieces::kept::Kept;
use crate::context::pieces::node::{Base, Body, Embedded, Node, Slot};
use crate::error::Result;
use crate::format::codec::Encoder;
use crate::prefetch;

/// Nodes that take up to about this many bytes are not worth a patch.
const SMALL: usize = 48;

/// A node that is written again after so many bytes of the pack, or fewer, is looked at soon.
const HOT_BYTES: u64 = 2 << 20;

/// Objects by hash, for a store that keeps every object once.
pub(crate) type Objects = HashMap<Hash, u64>;

/// Bytes of records that are written together: those of a larger tree go to the pack in pieces, so that
/// a tree of any size can be committed and takes no more memory on the way.
const PIECE_BYTES: usize = 64 << 20;

/// A value of so many bytes goes to the pack from where it is, with what was gathered before it.
const LONG_VALUE: usize = 4 << 20;

/// Appends a batch of these bytes, one after the other, without a commit, and returns where the first record of the next
/// one will be.
pub(crate) type Sink<'a> = dyn FnMut(&[&[u8]]) -> Result<u64> + 'a;

/// Records being gathered.
pub(crate) struct Batch<'a> {
    pack: &'a Pack,
    sink: Option<&'a mut Sink<'a>>,
    /// What may be referred to, where not all may.
    barrier: Option<&'a Barrier<'a>>,
    /// Logical offset of the first record.
    start: u64,
    out: Encoder,
    placed: Placed,
    /// Nodes that were live, in order, and what they were written as, unless they were there already.
    order: Vec<(Arc<Node>, Option<Settled>)>,
    /// Objects of the store, where each is kept once, and those that this batch adds.
    known: Option<&'a Objects>,
    fresh: Objects,
    body: Vec<u8>,
}

/// Where a node was written, and as what.
#[derive(Clone, Copy)]
struct Settled {
    base: Base,
    form: Form,
}

/// Where live children went. Keyed by address: the owners are kept until the batch is done.
#[derive(Default)]
struct Placed {
    nodes: HashMap<*const Node, Went, BuildNumberHasher>,
    values: HashMap<*const u8, u64, BuildNumberHasher>,
}

/// Where a node went.
enum Went {
    /// The logical offset of its record.
    To(u64),
    /// It is within the record of its parent, as these bytes.
    Within(Embedded),
}

impl Placed {
    fn has(&self, node: *const Node) -> bool {
        self.nodes.contains_key(&node)
    }

    /// What a node was written as.
    fn slot(&self, node: &Arc<Node>) -> Slot {
        match &self.nodes[&Arc::as_ptr(node)] {
            Went::Within(bytes) => Slot::Embedded(bytes.clone()),
            Went::To(offset) => Slot::StoredNode(*offset),
        }
    }
}

impl Places for Placed {
    fn node(&self, node: &Arc<Node>) -> u64 {
        match self.nodes[&Arc::as_ptr(node)] {
            Went::To(offset) => offset,
            Went::Within(_) => unreachable!("a directory in place was asked for before"),
        }
    }

    fn embedded(&self, node: &Arc<Node>) -> Option<&Embedded> {
        match self.nodes.get(&Arc::as_ptr(node))? {
            Went::Within(bytes) => Some(bytes),
            Went::To(_) => None,
        }
    }

    fn value(&self, value: &Arc<[u8]>) -> u64 {
        self.values[&value.as_ptr()]
    }
}

/// What a batch wrote.
pub(crate) struct Written {
    placed: Placed,
    order: Vec<(Arc<Node>, Option<Settled>)>,
    pub(crate) bytes: Vec<u8>,
    /// The objects to be known from now on.
    pub(crate) fresh: Objects,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(pack: &'a Pack, start: u64, known: Option<&'a Objects>) -> Batch<'a> {
        Batch {
            pack,
            sink: None,
            barrier: None,
            start,
            out: Encoder::new(),
            placed: Placed::default(),
            order: Vec::new(),
            known,
            fresh: Objects::new(),
            body: Vec::new(),
        }
    }

    /// The same, with what is more than one batch should have going to `sink`.
    pub(crate) fn in_pieces(self, sink: &'a mut Sink<'a>) -> Batch<'a> {
        Batch { sink: Some(sink), ..self }
    }

    /// The same, which refers only to what `barrier` allows.
    pub(crate) fn behind(self, barrier: Option<&'a Barrier<'a>>) -> Batch<'a> {
        Batch { barrier, ..self }
    }

    /// `Collected` when the root of a commit may not be at `offset`.
    pub(crate) fn expect(&self, offset: u64) -> Result<()> {
        self.barrier.map_or(Ok(()), |barrier| barrier.expect(offset))
    }

    fn allows(&self, offset: u64) -> Result<bool> {
        self.barrier.map_or(Ok(true), |barrier| barrier.allows(offset))
    }

    /// Logical offset of the next record.
    pub(crate) fn next(&self) -> u64 {
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

    /// Writes out what is gathered when it is much.
    fn write_if_large(&mut self) -> Result<()> {
        if self.out.bytes().len() >= PIECE_BYTES
            && let Some(sink) = &mut self.sink
        {
            let bytes = std::mem::replace(&mut self.out, Encoder::new()).finish();
            self.start = sink(&[&bytes])?;
        }
        Ok(())
    }

    /// Adds the record of a value and returns its logical offset.
    fn put_value_record(&mut self, value: &[u8], hash: &Hash) -> Result<u64> {
        let offset = self.next();
        let Some(sink) = self.sink.as_mut().filter(|_| value.len() >= LONG_VALUE) else {
            return Ok(self.put(Tag::Value, hash, value));
        };
        let mut out = std::mem::replace(&mut self.out, Encoder::new());
        let sum = record::put_around(&mut out, self.pack.store, offset, Tag::Value, hash, value);
        self.start = sink(&[out.bytes(), value, &sum])?;
        if self.known.is_some() {
            self.fresh.insert(*hash, offset);
        }
        Ok(offset)
    }

    /// Where an object with this hash is already, in a store that keeps each once.
    fn stored(&self, hash: &Hash) -> Result<Option<u64>> {
        let Some(known) = self.known else { return Ok(None) };
        if let Some(offset) = self.fresh.get(hash) {
            return Ok(Some(*offset));
        }
        match known.get(hash) {
            Some(offset) if self.allows(*offset)? => Ok(Some(*offset)),
            _ => Ok(None),
        }
    }

    /// Adds what is live of the directory `root`, whose hash is known; returns where it is.
    pub(crate) fn put_tree(&mut self, root: &Arc<Node>) -> Result<u64> {
        let mut stack: Vec<(Arc<Node>, usize)> = vec![(Arc::clone(root), 0)];
        root.prefetch_live();
        while let Some((node, next)) = stack.last_mut() {
            if let Some((step, child)) = node.next_live(*next) {
                *next = step;
                if !self.placed.has(Arc::as_ptr(child)) {
                    node.prefetch_next(step);
                    let child = Arc::clone(child);
                    child.prefetch_live();
                    stack.push((child, 0));
                }
                continue;
            }
            let (node, _) = stack.pop().expect("the loop saw it");
            self.put_node(node, stack.last().map(|(parent, _)| &**parent))?;
        }
        Ok(self.placed.node(root))
    }

    /// Adds a node whose children were added. The root, which has no parent, has a record in any case.
    fn put_node(&mut self, node: Arc<Node>, parent: Option<&Node>) -> Result<()> {
        let key = Arc::as_ptr(&node);
        if self.placed.has(key) {
            return Ok(());
        }
        // The tree was hashed; but what was opened in place and not changed is below a hash that was known.
        let hash = digest::node(&node, Some(self.pack))?;
        let kind =
            parent.and_then(|parent| entry::embedded_kind(&node, parent.width(), &self.placed));
        if let Some(kind) = kind {
            if let Some(barrier) = self.barrier {
                barrier.expect_children(&node)?;
            }
            self.put_values(&node)?;
            let bytes = entry::embed(&node, &hash, kind, &self.placed, &mut self.body);
            self.placed.nodes.insert(key, Went::Within(bytes));
            self.order.push((node, None));
            return Ok(());
        }
        let back = node.base.filter(|_| node.is_back(&hash)).map(|base| base.offset);
        let back = match back {
            Some(offset) if self.allows(offset)? => Some(offset),
            _ => None,
        };
        if let Some(offset) = self.stored(&hash)?.or(back) {
            self.placed.nodes.insert(key, Went::To(offset));
            // The owner must live as long as its address is a key.
            self.order.push((node, None));
            return Ok(());
        }
        let may_patch = match self.barrier {
            Some(barrier) => barrier.expect_children(&node)?,
            None => true,
        };
        self.put_values(&node)?;
        let at = self.next();
        let mut out = Encoder::over(std::mem::take(&mut self.body));
        let patch = if may_patch { self.patch(&mut out, at, &node)? } else { None };
        let (tag, settled) = if let Some(patch) = patch {
            patch
        } else {
            out = Encoder::over(out.finish());
            let tag = record::put_full(&mut out, at, &node, &self.placed);
            (tag, Settled { base: Base { offset: at, patches: 0, under: 0 }, form: Form::Full })
        };
        let body = out.finish();
        self.put(tag, &hash, &body);
        self.body = body;
        self.placed.nodes.insert(key, Went::To(at));
        self.order.push((node, Some(settled)));
        self.write_if_large()
    }

    /// Adds the values that are live in a leaf.
    fn put_values(&mut self, node: &Node) -> Result<()> {
        let Body::Leaf { leaf, .. } = &node.body else { return Ok(()) };
        let changes = node.changes();
        for index in (0..changes.steps(leaf.len())).filter_map(|step| changes.at(step)) {
            if let Slot::Value(value) = leaf.slot(index) {
                let known = leaf.hashes().get(index);
                self.put_value(value, &known.unwrap_or_else(|| hash::value(value)))?;
                self.write_if_large()?;
            }
        }
        Ok(())
    }

    /// Of what the next patch of a node should be: of the base of its record, which says again what
    /// the record said, or of the record, which takes one more to read.
    fn since(node: &Node, from: Base, may_repeat: bool) -> Option<Since> {
        if may_repeat {
            // Repeating costs as much in all as half of the last repetition, once for each change. A
            // link of the chain is worth its share of the full record.
            let changes = node.changes();
            let count = changes.count(Since::Base);
            let entry = node.weight() / node.width().max(1);
            let repeated = count * (count * node.change_weight() + changes.added() * entry) / 2;
            if repeated < node.weight() / usize::from(PATCHES_MAX) {
                return Some(Since::Base);
            }
        }
        (from.patches < PATCHES_MAX).then_some(Since::Record)
    }

    /// Puts a patch of what the node was into `out`, if that is worth it.
    fn patch(&self, out: &mut Encoder, at: u64, node: &Node) -> Result<Option<(Tag, Settled)>> {
        let Some(from) = node.base.filter(|_| node.weight() > SMALL) else { return Ok(None) };
        let mut since = Self::since(node, from, from.under != 0);
        // What the record is a patch of may be no more, though the record is. Asked only where it is wanted: then it stays.
        // Where damage lets nobody know, the record is there still.
        if since == Some(Since::Base)
            && let Some(barrier) = self.barrier
            && !barrier.allows_base(from.under).unwrap_or(false)
        {
            since = Self::since(node, from, false);
        }
        let Some(since) = since else { return Ok(None) };
        let (under, patches) = match since {
            Since::Base => (from.under, from.patches),
            Since::Record => (from.offset, from.patches + 1),
        };
        let tag = if let Some(changed) = node.changes().since(since) {
            Some(patch::put_changes(out, at, node, changed, under, &self.placed))
        } else {
            let base = self.pack.read_node(under)?;
            patch::put_difference(out, at, node, &base, under, &self.placed)
        };
        let tag = tag.filter(|_| out.bytes().len() < node.weight() / 2);
        let base = Base { offset: at, patches, under };
        Ok(tag.map(|tag| (tag, Settled { base, form: Form::Patch(since) })))
    }

    /// Adds what is live of `slot`, unless its bytes will be within its parent, and returns what to put in
    /// its place.
    pub(crate) fn put_apart(&mut self, slot: &Slot) -> Result<Slot> {
        // It may be within another that was added before.
        if let Some(there) = self.placed(slot) {
            return Ok(there);
        }
        Ok(match slot {
            Slot::Node(node) if !entry::is_surely_embedded(node) => {
                Slot::StoredNode(self.put_tree(node)?)
            }
            Slot::Value(value) => {
                self.put_value(value, &hash::value(value))?;
                Slot::StoredValue(self.placed.value(value))
            }
            _ => slot.clone(),
        })
    }

    /// The same, which has a record of its own then, wherever its bytes may be besides.
    pub(crate) fn put_alone(&mut self, slot: &Slot) -> Result<Slot> {
        let node = match slot {
            Slot::Node(node) => {
                if matches!(self.placed(slot), Some(Slot::Embedded(_))) {
                    // What is below it was added with its parent.
                    self.placed.nodes.remove(&Arc::as_ptr(node));
                }
                Arc::clone(node)
            }
            Slot::Embedded(bytes) => Arc::new(entry::embedded_node(bytes)?),
            _ => return self.put_apart(slot),
        };
        Ok(Slot::StoredNode(self.put_tree(&node)?))
    }

    /// What to put in the place of `slot`, if it was added.
    pub(crate) fn placed(&self, slot: &Slot) -> Option<Slot> {
        match slot {
            Slot::Node(node) => self.placed.has(Arc::as_ptr(node)).then(|| self.placed.slot(node)),
            _ => None,
        }
    }

    fn put_value(&mut self, value: &Arc<[u8]>, hash: &Hash) -> Result<()> {
        if self.placed.values.contains_key(&value.as_ptr()) {
            return Ok(());
        }
        let offset = match self.stored(hash)? {
            Some(offset) => offset,
            None => self.put_value_record(value, hash)?,
        };
        self.placed.values.insert(value.as_ptr(), offset);
        Ok(())
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
    let mut live = LiveObjects::default();
    live.add(root);
    live.hashes
}

/// The same below several roots, which may have objects in common. The roots have to live as long as this.
#[derive(Default)]
pub(crate) struct LiveObjects {
    seen: HashSet<*const Node, BuildNumberHasher>,
    pub(crate) hashes: Vec<Hash>,
}

impl LiveObjects {
    /// Adds `root`, and of what is below it what was not seen.
    pub(crate) fn add(&mut self, root: &Arc<Node>) {
        let mut stack = vec![root];
        while let Some(node) = stack.pop() {
            let is_new = Arc::strong_count(node) == 1 || self.seen.insert(Arc::as_ptr(node));
            // Below another one a root may be within its record.
            let is_root = std::ptr::eq(node, root);
            if is_root || is_new && !entry::is_surely_embedded(node) {
                self.hashes.extend(node.hash.get().copied());
            }
            if is_new {
                self.add_children(node, &mut stack);
            }
        }
    }

    fn add_children<'a>(&mut self, node: &'a Arc<Node>, stack: &mut Vec<&'a Arc<Node>>) {
        let changes = node.changes();
        for index in (0..changes.steps(node.width())).filter_map(|step| changes.at(step)) {
            stack.extend(node.live(index));
            if let Body::Leaf { leaf, .. } = &node.body
                && let Slot::Value(value) = leaf.slot(index)
            {
                self.hashes.push(leaf.hashes().get(index).unwrap_or_else(|| hash::value(value)));
            }
        }
    }
}

impl Written {
    /// Moves the nodes written into the cache of `pack`, as clean ones. The tree that owned them must
    /// have let go of them, or they are copied.
    pub(crate) fn settle(self, pack: &Pack) {
        let Written { placed, mut order, .. } = self;
        let mut scratch = Vec::new();
        // Parents first: once a parent is clean, or gone, it holds its children no more. Who is asked for by
        // address is further on in the order, and so alive.
        while let Some((mut node, settled)) = order.pop() {
            prefetch_settled(&order, pack);
            let Some(Settled { base, form }) = settled else { continue };
            let own = Arc::make_mut(&mut node);
            own.settle(form, |child| placed.slot(child), |value| placed.value(value));
            let hashes = own.take_hashes();
            let (mut is_hot, mut replaced) = (false, None);
            if let Some(old) = own.base.replace(base) {
                // A chain seldom looks back: the piece that this one replaces makes room at once.
                replaced = pack.objects.take(old.offset);
                pack.hashes.take(old.offset);
                pack.evicted_hashes.forget(old.offset);
                // An offset that comes later is one of before a clearing.
                is_hot = base.offset.checked_sub(old.offset).is_some_and(|far| far < HOT_BYTES);
            }
            if hashes.len() > 1 {
                pack.keep_hashes(base.offset, hashes, own.is_spread());
            }
            // Small ones at the ends of paths are searched in their records.
            let small = if node.leads_on() { SMALL_BODY } else { MIDDLING_BODY };
            let is_kept = is_hot
                || matches!(node.body, Body::Branch(_))
                || node.weight() > small
                || pack.objects.has_room(base.offset);
            if is_kept {
                let kept = Kept::new(&mut node, &mut scratch, &pack.spares);
                pack.objects.insert(base.offset, kept);
            }
            pack.spares.give(node);
            // Small directories of the node were in it.
            if let Some(replaced) = replaced {
                replaced.give(&pack.spares);
            }
        }
    }
}

/// Asks for the memory of those that are settled next, the last ones of `order`.
fn prefetch_settled(order: &[(Arc<Node>, Option<Settled>)], pack: &Pack) {
    let from_end = |back: usize| order.len().checked_sub(back).map(|index| &order[index]);
    if let Some((node, Some(_))) = from_end(8) {
        prefetch::whole(&**node);
    }
    if let Some((node, Some(settled))) = from_end(4) {
        node.prefetch_buffers();
        for offset in
            [Some(settled.base.offset), node.base.map(|base| base.offset)].into_iter().flatten()
        {
            pack.objects.prefetch(offset);
            pack.hashes.prefetch(offset);
        }
    }
}

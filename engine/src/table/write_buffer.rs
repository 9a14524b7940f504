//! The newest entries of a table, sorted in memory: a persistent B+-tree.
//!
//! Nodes are counted and copied only while somebody else holds them, so a view or a duplicate is one
//! more count on the root, and a writer alone changes nodes in place. Keys are compared by their
//! first eight bytes as one number; the bytes decide only ties. A leaf keeps its entries' bytes in one
//! heap; values above [`LARGE_VALUE`] are shared allocations of their own, never copied.
//!
//! Source: Driscoll et al. 1989 (path copying); Graefe 2011 §3.2 (key prefixes in B-trees).

use std::sync::Arc;

use super::blob::BlobFile;
use super::buffer_filter::BufferFilter;
use super::entry::{EntryKind, EntryRef, cost, prefix as key_prefix};
use crate::cache::Charge;
use crate::prefetch;

/// Entries and children a node holds at most; half of it after a split.
const NODE_SLOTS: usize = 64;
/// Heap bytes at which a leaf splits, if it has more than one entry.
const LEAF_BYTES: usize = 6 << 10;
/// How many inserts [`WriteBuffer::prefetch`] helps at once.
pub const PREFETCHED: usize = 16;
/// Values longer than this are not copied with their leaf.
const LARGE_VALUE: usize = 1 << 10;

/// An entry of a leaf in sixteen bytes, so that copying a leaf is copying two pieces of memory.
#[derive(Clone, Copy)]
struct Slot {
    /// The first eight bytes of the key.
    prefix: u64,
    /// Start of the key in the heap; the value follows it unless it is large.
    offset: u16,
    /// Length of the value, or its place among the large values.
    value: u16,
    key_length: u16,
    kind: EntryKind,
    large: bool,
}

#[derive(Default)]
struct Leaf {
    slots: Vec<Slot>,
    heap: Vec<u8>,
    large: Vec<Arc<[u8]>>,
    /// Heap bytes and large values that no slot names any more.
    garbage: usize,
}

impl Clone for Leaf {
    /// A copy with room for the entry that it is made for; without garbage, if there is any.
    fn clone(&self) -> Self {
        if self.garbage > 0 || !self.large.is_empty() {
            return self.copy_range(0, self.slots.len());
        }
        let mut copy = Leaf {
            slots: Vec::with_capacity((self.slots.len() + 1).next_multiple_of(8)),
            heap: Vec::with_capacity((self.heap.len() + 128).next_multiple_of(256)),
            ..Leaf::default()
        };
        copy.slots.extend_from_slice(&self.slots);
        copy.heap.extend_from_slice(&self.heap);
        copy
    }
}

impl Leaf {
    fn key(&self, slot: Slot) -> &[u8] {
        &self.heap[slot.offset as usize..slot.offset as usize + usize::from(slot.key_length)]
    }

    fn value(&self, slot: Slot) -> &[u8] {
        if slot.large {
            return &self.large[usize::from(slot.value)];
        }
        let start = slot.offset as usize + usize::from(slot.key_length);
        &self.heap[start..start + usize::from(slot.value)]
    }

    fn entry(&self, index: usize) -> EntryRef<'_> {
        let slot = self.slots[index];
        EntryRef { kind: slot.kind, key: self.key(slot), value: self.value(slot) }
    }

    /// The place of `key`, or where it would be.
    fn search(&self, prefix: u64, key: &[u8]) -> Result<usize, usize> {
        let low = self.slots.partition_point(|slot| slot.prefix < prefix);
        if self.slots.get(low).is_none_or(|slot| slot.prefix != prefix) {
            return Err(low);
        }
        let high = low + self.slots[low..].partition_point(|slot| slot.prefix == prefix);
        let found = self.slots[low..high].binary_search_by(|&slot| self.key(slot).cmp(key));
        found.map(|place| low + place).map_err(|place| low + place)
    }

    fn copy_range(&self, from: usize, to: usize) -> Leaf {
        let mut copy = Leaf { slots: Vec::with_capacity(to - from + 8), ..Leaf::default() };
        let bytes = self.slots[from..to].iter().map(|slot| {
            usize::from(slot.key_length) + if slot.large { 0 } else { usize::from(slot.value) }
        });
        copy.heap.reserve_exact(bytes.sum::<usize>() + 512);
        for &slot in &self.slots[from..to] {
            let entry = EntryRef { kind: slot.kind, key: self.key(slot), value: self.value(slot) };
            let moved = copy.store(slot.prefix, entry, |leaf| {
                leaf.large.push(Arc::clone(&self.large[usize::from(slot.value)]));
            });
            copy.slots.push(moved);
        }
        copy
    }

    /// Puts bytes on the heap; `push_large` adds a large value to the list.
    fn store(
        &mut self,
        prefix: u64,
        EntryRef { kind, key, value }: EntryRef<'_>,
        push_large: impl FnOnce(&mut Leaf),
    ) -> Slot {
        let large = value.len() > LARGE_VALUE;
        let offset = u16::try_from(self.heap.len()).expect("a leaf splits long before 64 KiB");
        let length = key.len() + if large { 0 } else { value.len() };
        if self.heap.capacity() - self.heap.len() < length {
            // Small steps, because thousands of leaves share a memory budget.
            self.heap.reserve_exact(length.next_multiple_of(512));
        }
        self.heap.extend_from_slice(key);
        let value = if large {
            push_large(self);
            self.large.len() - 1
        } else {
            self.heap.extend_from_slice(value);
            value.len()
        };
        Slot { prefix, offset, value: value as u16, key_length: key.len() as u16, kind, large }
    }

    /// Asks for what an insert looks at and moves: all slots, and where the heap ends.
    #[inline]
    fn prefetch(&self) {
        prefetch::slice(&self.slots);
        if let Some(last) = self.heap.last() {
            prefetch::line(last);
        }
    }

    fn is_full(&self) -> bool {
        self.slots.len() > NODE_SLOTS
            || (self.heap.len() - self.garbage > LEAF_BYTES && self.slots.len() > 1)
    }

    fn insert_at(&mut self, place: usize, prefix: u64, entry: EntryRef<'_>) {
        let slot = self.store(prefix, entry, |leaf| leaf.large.push(Arc::from(entry.value)));
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(8);
        }
        self.slots.insert(place, slot);
    }

    fn replace_at(&mut self, place: usize, entry: EntryRef<'_>) {
        let old = self.slots[place];
        let fits = !old.large && usize::from(old.value) == entry.value.len();
        if fits && entry.value.len() <= LARGE_VALUE {
            let start = old.offset as usize + usize::from(old.key_length);
            self.heap[start..start + entry.value.len()].copy_from_slice(entry.value);
            self.slots[place].kind = entry.kind;
            return;
        }
        self.garbage +=
            usize::from(old.key_length) + if old.large { 0 } else { usize::from(old.value) };
        let slot = self.store(old.prefix, entry, |leaf| leaf.large.push(Arc::from(entry.value)));
        self.slots[place] = slot;
        if self.garbage > LEAF_BYTES / 2 || self.large.len() > 2 * self.slots.len() {
            *self = self.copy_range(0, self.slots.len());
        }
    }
}

#[derive(Clone)]
struct Inner {
    /// Prefix of the smallest key that may be in each child; the first is unused.
    prefixes: Vec<u64>,
    /// The bytes of that key, where the child before has a key with the same prefix. So a copy of the
    /// node hardly ever counts references to keys.
    keys: Vec<Option<Arc<[u8]>>>,
    children: Vec<Arc<Node>>,
}

impl Inner {
    /// The child that holds `key` if any does.
    fn child_of(&self, prefix: u64, key: &[u8]) -> usize {
        let low = self.prefixes[1..].partition_point(|&other| other < prefix);
        let mut child = low;
        while self.prefixes.get(child + 1) == Some(&prefix)
            && self.keys[child + 1].as_deref().is_none_or(|other| other <= key)
        {
            child += 1;
        }
        child
    }
}

#[derive(Clone)]
enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

/// A new right sibling and its smallest key. See [`Inner`].
struct Split {
    prefix: u64,
    key: Option<Arc<[u8]>>,
    node: Arc<Node>,
}

fn split_leaf(leaf: &mut Leaf) -> Split {
    let count = leaf.slots.len();
    let middle = count / 2;
    let right = leaf.copy_range(middle, count);
    *leaf = leaf.copy_range(0, middle);
    let is_tied = leaf.slots.last().is_some_and(|last| last.prefix == right.slots[0].prefix);
    let key = is_tied.then(|| Arc::from(right.entry(0).key));
    Split { prefix: right.slots[0].prefix, key, node: Arc::new(Node::Leaf(right)) }
}

fn split_inner(inner: &mut Inner) -> Split {
    let middle = inner.children.len() / 2;
    let right = Inner {
        prefixes: inner.prefixes.split_off(middle),
        keys: inner.keys.split_off(middle),
        children: inner.children.split_off(middle),
    };
    let (prefix, key) = (right.prefixes[0], right.keys[0].clone());
    Split { prefix, key, node: Arc::new(Node::Inner(right)) }
}

/// How a newer entry joins the older one of the same key: what to keep in its place.
pub type Combine<'a> = &'a dyn Fn(EntryRef<'_>, EntryRef<'_>) -> Option<(EntryKind, Vec<u8>)>;

struct Insertion<'a> {
    prefix: u64,
    entry: EntryRef<'a>,
    combine: Combine<'a>,
    /// Change of the buffer's cost and number of entries.
    added: u64,
    removed: u64,
    /// Kind of the entry that was there, and of the one that is.
    old_kind: Option<EntryKind>,
    new_kind: EntryKind,
}

fn insert(node: &mut Arc<Node>, insertion: &mut Insertion<'_>) -> Option<Split> {
    match Arc::make_mut(node) {
        Node::Leaf(leaf) => {
            insert_in_leaf(leaf, insertion);
            leaf.is_full().then(|| split_leaf(leaf))
        }
        Node::Inner(inner) => {
            let place = inner.child_of(insertion.prefix, insertion.entry.key);
            let split = insert(&mut inner.children[place], insertion)?;
            inner.prefixes.insert(place + 1, split.prefix);
            inner.keys.insert(place + 1, split.key);
            inner.children.insert(place + 1, split.node);
            (inner.children.len() > NODE_SLOTS).then(|| split_inner(inner))
        }
    }
}

fn insert_in_leaf(leaf: &mut Leaf, insertion: &mut Insertion<'_>) {
    let entry = insertion.entry;
    match leaf.search(insertion.prefix, entry.key) {
        Err(place) => {
            insertion.added = cost(entry.key, entry.value);
            leaf.insert_at(place, insertion.prefix, entry);
        }
        Ok(place) => {
            let older = leaf.entry(place);
            insertion.removed = cost(older.key, older.value);
            insertion.old_kind = Some(older.kind);
            match (insertion.combine)(older, entry) {
                None => {
                    insertion.added = cost(entry.key, entry.value);
                    leaf.replace_at(place, entry);
                }
                Some((kind, value)) => {
                    insertion.added = cost(entry.key, &value);
                    insertion.new_kind = kind;
                    leaf.replace_at(place, EntryRef { kind, key: entry.key, value: &value });
                }
            }
        }
    }
}

/// A sorted map from key to newest entry. Cloning is O(1); the clones are independent.
#[derive(Clone)]
pub struct WriteBuffer {
    root: Arc<Node>,
    filter: BufferFilter,
    entry_count: u64,
    cost_bytes: u64,
    /// By kind.
    counts: [u64; 4],
    /// What its clones together count in the budget, and how much of it is this one's.
    charge: Option<Arc<Charge>>,
    charged_bytes: u64,
    /// The blob files that entries refer to, if any do.
    blobs: Option<Arc<Vec<Arc<BlobFile>>>>,
}

impl WriteBuffer {
    /// An empty buffer for about `bytes` of entries.
    pub fn new(bytes: u64) -> Self {
        WriteBuffer {
            root: Arc::new(Node::Leaf(Leaf::default())),
            filter: BufferFilter::new(bytes),
            entry_count: 0,
            cost_bytes: 0,
            counts: [0; 4],
            charge: None,
            charged_bytes: 0,
            blobs: None,
        }
    }

    /// Holds the blob files that entries to come refer to.
    pub fn hold<'a>(&mut self, blobs: impl ExactSizeIterator<Item = &'a Arc<BlobFile>>) {
        if blobs.len() > 0 {
            Arc::make_mut(self.blobs.get_or_insert_default()).extend(blobs.cloned());
        }
    }

    /// The same, counted in a budget.
    pub fn charged(self, charge: Option<Charge>) -> Self {
        WriteBuffer { charge: charge.map(Arc::new), ..self }
    }

    /// Brings what it counts in the budget up to what it holds. What clones share counts once.
    pub fn count_in_budget(&mut self) {
        if let Some(charge) = &self.charge
            && self.cost_bytes > self.charged_bytes
        {
            // The tree around the entries takes about a quarter of them.
            let grown = self.cost_bytes - self.charged_bytes;
            charge.add(grown + grown / 4);
            self.charged_bytes = self.cost_bytes;
        }
    }
}

impl std::fmt::Debug for WriteBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WriteBuffer({} entries, {} bytes)", self.entry_count, self.cost_bytes)
    }
}

impl WriteBuffer {
    /// How many keys it holds.
    pub fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// Sum of its entries' [`cost`].
    pub fn cost_bytes(&self) -> u64 {
        self.cost_bytes
    }

    /// Inserts, deletes and upserts in it.
    pub fn counts(&self) -> [u64; 3] {
        let [inserts, deletes, upserts, blobs] = self.counts;
        [inserts + blobs, deletes, upserts]
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.entry_count == 0
    }

    /// Asks for the memory that inserts of these, each with the hash of its key, will look at.
    pub fn prefetch(&self, entries: &[(EntryRef<'_>, u64)]) {
        let mut leaves = [None; PREFETCHED];
        for ((entry, hash), place) in entries.iter().zip(&mut leaves) {
            self.filter.prefetch(*hash);
            let leaf = self.leaf(key_prefix(entry.key), entry.key);
            prefetch::whole(leaf);
            *place = Some(leaf);
        }
        for leaf in leaves.into_iter().flatten() {
            leaf.prefetch();
        }
    }

    /// Adds `entry`, whose key has the hash `hash`; where its key is there already,
    /// `combine(older, newer)` says what to keep, or `None` for the newer as it is.
    pub fn insert(&mut self, entry: EntryRef<'_>, hash: u64, combine: Combine<'_>) {
        self.filter.add(hash);
        let mut insertion = Insertion {
            prefix: key_prefix(entry.key),
            entry,
            combine,
            added: 0,
            removed: 0,
            old_kind: None,
            new_kind: entry.kind,
        };
        if let Some(split) = insert(&mut self.root, &mut insertion) {
            let left = std::mem::replace(&mut self.root, Arc::clone(&split.node));
            self.root = Arc::new(Node::Inner(Inner {
                prefixes: vec![0, split.prefix],
                keys: vec![None, split.key],
                children: vec![left, split.node],
            }));
        }
        self.counts[insertion.new_kind as usize] += 1;
        match insertion.old_kind {
            Some(kind) => self.counts[kind as usize] -= 1,
            None => self.entry_count += 1,
        }
        self.cost_bytes = self.cost_bytes + insertion.added - insertion.removed;
    }

    /// The newest entry of `key`, which has the hash `hash`.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64) -> Option<EntryRef<'_>> {
        if self.filter.may_hold(hash) { self.find(key) } else { None }
    }

    fn find(&self, key: &[u8]) -> Option<EntryRef<'_>> {
        let prefix = key_prefix(key);
        let leaf = self.leaf(prefix, key);
        leaf.search(prefix, key).ok().map(|place| leaf.entry(place))
    }

    /// The leaf that holds `key` if any does.
    #[inline]
    fn leaf(&self, prefix: u64, key: &[u8]) -> &Leaf {
        let mut node = &*self.root;
        loop {
            match node {
                Node::Inner(inner) => node = &inner.children[inner.child_of(prefix, key)],
                Node::Leaf(leaf) => return leaf,
            }
        }
    }

    /// A position before the first entry.
    pub fn stream(&self) -> BufferStream {
        let mut stream = BufferStream { path: Vec::new(), root: Arc::clone(&self.root) };
        stream.seek_first();
        stream
    }
}

/// A place in a write buffer's state of the moment when it was made; later inserts do not move it.
#[derive(Clone)]
pub struct BufferStream {
    root: Arc<Node>,
    /// From the root to a leaf, each with the place taken in it; empty past either end.
    path: Vec<(Arc<Node>, usize)>,
}

impl BufferStream {
    /// The entry here; `None` past either end.
    #[inline]
    pub fn peek(&self) -> Option<EntryRef<'_>> {
        let (node, place) = self.path.last()?;
        let Node::Leaf(leaf) = &**node else { unreachable!("a path ends in a leaf") };
        Some(leaf.entry(*place))
    }

    fn descend(&mut self, mut node: Arc<Node>, choose: impl Fn(&Node) -> usize) -> usize {
        loop {
            let place = choose(&node);
            let child = match &*node {
                Node::Leaf(leaf) => {
                    let count = leaf.slots.len();
                    self.path.push((node, place));
                    return count;
                }
                Node::Inner(inner) => Arc::clone(&inner.children[place]),
            };
            self.path.push((node, place));
            node = child;
        }
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) {
        self.path.clear();
        if self.descend(Arc::clone(&self.root), |_| 0) == 0 {
            self.path.clear();
        }
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) {
        self.path.clear();
        let last = |node: &Node| match node {
            Node::Leaf(leaf) => leaf.slots.len().saturating_sub(1),
            Node::Inner(inner) => inner.children.len() - 1,
        };
        if self.descend(Arc::clone(&self.root), last) == 0 {
            self.path.clear();
        }
    }

    /// Moves to the first entry whose key is `key` or greater.
    pub fn seek(&mut self, key: &[u8]) {
        self.path.clear();
        let prefix = key_prefix(key);
        let count = self.descend(Arc::clone(&self.root), |node| match node {
            Node::Leaf(leaf) => leaf.search(prefix, key).unwrap_or_else(|place| place),
            Node::Inner(inner) => inner.child_of(prefix, key),
        });
        if self.path.last().is_some_and(|(_, place)| *place >= count) {
            self.path.last_mut().expect("the path has a leaf").1 = count.wrapping_sub(1);
            if count == 0 {
                self.path.clear();
            } else {
                self.next();
            }
        }
    }

    /// Moves to the next entry.
    pub fn next(&mut self) {
        self.step(
            |node, place| match node {
                Node::Leaf(leaf) => (place + 1 < leaf.slots.len()).then_some(place + 1),
                Node::Inner(inner) => (place + 1 < inner.children.len()).then_some(place + 1),
            },
            |_| 0,
        );
    }

    /// Moves to the previous entry.
    pub fn previous(&mut self) {
        self.step(
            |_, place| place.checked_sub(1),
            |node| match node {
                Node::Leaf(leaf) => leaf.slots.len() - 1,
                Node::Inner(inner) => inner.children.len() - 1,
            },
        );
    }

    fn step(
        &mut self,
        sibling: impl Fn(&Node, usize) -> Option<usize>,
        edge: impl Fn(&Node) -> usize,
    ) {
        while let Some((node, place)) = self.path.last_mut() {
            let Some(next) = sibling(node, *place) else {
                self.path.pop();
                continue;
            };
            *place = next;
            if let Node::Inner(inner) = &**node {
                let child = Arc::clone(&inner.children[next]);
                self.descend(child, edge);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn replace(_: EntryRef<'_>, _: EntryRef<'_>) -> Option<(EntryKind, Vec<u8>)> {
        None
    }

    fn key(number: u64) -> Vec<u8> {
        let mixed = crate::format::hash::combine(number, 3);
        // Every third key shares a long prefix, so that ties are searched too.
        let mut key =
            if number.is_multiple_of(3) { b"the same long prefix".to_vec() } else { vec![] };
        key.extend_from_slice(&mixed.to_be_bytes()[..=((mixed % 8) as usize)]);
        key
    }

    #[test]
    fn agrees_with_a_map_and_old_clones_stay_as_they_were() {
        let mut buffer = WriteBuffer::new(1 << 20);
        let mut model = BTreeMap::new();
        let mut kept = Vec::new();
        for number in 0..30_000u64 {
            let length = if number % 500 == 0 { 5_000 } else { number % 70 };
            let (key, value) = (key(number % 9_000), vec![number as u8; length as usize]);
            let kind = if number % 5 == 0 { EntryKind::Delete } else { EntryKind::Insert };
            let hash = crate::format::hash::hash(0, &key);
            buffer.insert(EntryRef { kind, key: &key, value: &value }, hash, &replace);
            model.insert(key, (kind, value));
            if number % 6_000 == 7 {
                kept.push((buffer.clone(), model.clone()));
            }
        }
        kept.push((buffer, model));
        for (buffer, model) in kept {
            assert_eq!(buffer.entry_count(), model.len() as u64);
            let total: u64 = model.iter().map(|(key, (_, value))| cost(key, value)).sum();
            assert_eq!(buffer.cost_bytes(), total);
            let mut stream = buffer.stream();
            for (key, (kind, value)) in &model {
                let entry = stream.peek().expect("as many entries as the model");
                assert_eq!((entry.key, entry.kind, entry.value), (&key[..], *kind, &value[..]));
                let hash = crate::format::hash::hash(0, key);
                assert_eq!(buffer.get(key, hash).map(|entry| entry.value), Some(&value[..]));
                stream.next();
            }
            assert!(stream.peek().is_none());
            stream.seek_last();
            for key in model.keys().rev() {
                assert_eq!(stream.peek().expect("an entry").key, key);
                stream.previous();
            }
            assert!(stream.peek().is_none());
            for number in 0..2_000 {
                let wanted = key(number * 5 + 1);
                stream.seek(&wanted);
                let expected = model.range(wanted..).next().map(|(key, _)| &key[..]);
                assert_eq!(stream.peek().map(|entry| entry.key), expected);
            }
        }
    }

    #[test]
    fn an_empty_buffer_has_no_place() {
        let mut stream = WriteBuffer::new(0).stream();
        stream.seek(b"a");
        assert!(stream.peek().is_none());
        stream.seek_last();
        assert!(stream.peek().is_none());
    }
}

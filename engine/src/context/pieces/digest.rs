//! Hashing what is live and changed, bottom-up, many pre-images at once.
//!
//! Nodes are sorted into waves by their height above the lowest changed node; the hashes of one wave
//! are all that the next one lacks. What is known of the children of a node stays with the node, so
//! that a sibling's hash is read from the pack once, not once a block.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::changes::Since;
use super::entry::{self, Within};
use super::node::{Body, Known, Leaf, Load, Node, Slot, Target, UNKNOWN};
use crate::context::hash::{self, Hash};
use crate::context::preimage;
use crate::error::{Error, Result};
use crate::prefetch;

/// Nodes hashed together: enough for every SIMD lane, few enough that the pre-images stay in cache.
const BATCH: usize = 64;

/// The hash of `root`, computing those below that are missing. Reads the hashes of stored siblings
/// that are not known yet.
pub(crate) fn node(root: &Arc<Node>, load: Option<&dyn Load>) -> Result<Hash> {
    if let Some(hash) = root.hash.get() {
        return Ok(*hash);
    }
    if load.is_some_and(|load| !load.hashes_alike()) {
        return Err(Error::invalid(
            "the store of this tree has other hashes: it can be read, but not changed and hashed",
        ));
    }
    let mut digester = Digester::new(load);
    for wave in waves(root) {
        for batch in wave.chunks(BATCH) {
            // They lie anywhere, and hardly ever in the processor's cache.
            for node in batch {
                prefetch::whole(*node);
            }
            for node in batch {
                node.prefetch_buffers();
            }
            digester.batch(batch)?;
        }
    }
    Ok(*root.hash.get().expect("the root is in the last wave"))
}

/// The hash of a directory within the record of its parent, which reads nothing.
pub(crate) fn embedded(bytes: &[u8]) -> Result<Hash> {
    match entry::embedded_hash(bytes) {
        Some(hash) => Ok(hash),
        None => within(entry::entries(bytes)),
    }
}

/// The hash of the directory with the entries `entries`, which refer to nothing: others like it are within it
/// at most, so that recursion is bounded by bytes.
fn within(entries: &[u8]) -> Result<Hash> {
    let (mut digester, mut hash) = (Digester::new(None), UNKNOWN);
    digester.directories(&[entries], |_, digest| hash = digest)?;
    Ok(hash)
}

/// The live nodes without a hash, by height.
fn waves(root: &Arc<Node>) -> Vec<Vec<&Node>> {
    struct Frame<'n> {
        node: &'n Arc<Node>,
        next: usize,
        height: usize,
    }
    fn frame(node: &Arc<Node>) -> Frame<'_> {
        node.prefetch_live();
        Frame { node, next: 0, height: 0 }
    }
    // Only nodes with several owners can be met twice.
    let mut shared: HashMap<*const Node, usize> = HashMap::new();
    let mut waves: Vec<Vec<&Node>> = Vec::new();
    let mut stack = vec![frame(root)];
    while let Some(top) = stack.last_mut() {
        let node = top.node;
        if let Some((next, child)) = node.next_live(top.next) {
            top.next = next;
            if child.hash.get().is_some() {
                continue;
            }
            if let Some(height) = shared.get(&Arc::as_ptr(child)) {
                top.height = top.height.max(height + 1);
            } else {
                node.prefetch_next(next);
                stack.push(frame(child));
            }
            continue;
        }
        let Frame { node, height, .. } = stack.pop().expect("the loop saw a frame");
        if Arc::strong_count(node) > 1 {
            shared.insert(Arc::as_ptr(node), height);
        }
        if let Some(parent) = stack.last_mut() {
            parent.height = parent.height.max(height + 1);
        }
        if waves.len() <= height {
            waves.resize_with(height + 1, Vec::new);
        }
        waves[height].push(node);
    }
    waves
}

/// Buffers reused from batch to batch.
struct Digester<'a> {
    load: Option<&'a dyn Load>,
    bytes: Vec<u8>,
    spans: Vec<Range<usize>>,
    /// Which child of which node of the batch a span is the value of.
    places: Vec<(usize, usize)>,
    names: [Vec<u8>; 2],
    /// The hashes of what is in directories in place.
    inside: Vec<Hash>,
    /// How many hashes were read.
    reads: u64,
}

impl Digester<'_> {
    fn new(load: Option<&dyn Load>) -> Digester<'_> {
        let (bytes, spans, places) = (Vec::new(), Vec::new(), Vec::new());
        let names = [Vec::new(), Vec::new()];
        Digester { load, bytes, spans, places, names, inside: Vec::new(), reads: 0 }
    }

    fn batch(&mut self, nodes: &[&Node]) -> Result<()> {
        self.embedded(nodes)?;
        let mut children: Vec<Known> = Vec::with_capacity(nodes.len());
        let mut were_read = Vec::new();
        self.clear();
        for (position, node) in nodes.iter().enumerate() {
            let reads = self.reads;
            children.push(self.known(position, node)?);
            if self.reads > reads {
                were_read.push(position);
            }
        }
        let places = &self.places;
        hash::hash_spans(&self.bytes, &self.spans, |index, digest| {
            let (node, child) = places[index];
            children[node].put_at(child, digest);
        });
        self.clear();
        for (node, children) in nodes.iter().zip(&children) {
            let start = self.bytes.len();
            put_node(&mut self.bytes, node, children);
            self.spans.push(start..self.bytes.len());
        }
        hash::hash_spans(&self.bytes, &self.spans, |index, digest| {
            // Another thread that hashes the same node sets the same hash.
            let _ = nodes[index].hash.set(digest);
        });
        for position in were_read {
            self.keep_siblings(nodes[position], &children[position]);
        }
        for (node, children) in nodes.iter().zip(children) {
            keep(node, children);
        }
        Ok(())
    }

    /// Leaves the hashes of those children that `node` has still had when it was read with the store, for whoever changes it
    /// next: this tree may be dropped, as simulations are.
    fn keep_siblings(&self, node: &Node, children: &Known) {
        let (Some(load), Some(base)) = (self.load, node.base) else { return };
        let Some(changed) = node.changes().since(Since::Record) else { return };
        let children = children.to_vec();
        let (mut before, mut next) = (Vec::with_capacity(children.len()), 0);
        for (index, is_added) in changed {
            before.extend_from_slice(&children[next..index]);
            if !is_added {
                before.push(UNKNOWN);
            }
            next = index + 1;
        }
        before.extend_from_slice(&children[next..]);
        load.keep_siblings(base.offset, before, node.is_spread());
    }

    /// Hashes the directories within `nodes` of which no hash is known, many at once: of a leaf that is
    /// changed for the first time they are most of what there is to hash.
    fn embedded(&mut self, nodes: &[&Node]) -> Result<()> {
        let mut found: Vec<(&Leaf, usize, &[u8])> = Vec::new();
        for node in nodes {
            let Body::Leaf { leaf, .. } = &node.body else { continue };
            leaf.hashes().with(|known| {
                known.each_unknown(leaf.len(), |index| {
                    if let Slot::Embedded(bytes) = leaf.slot(index)
                        && entry::embedded_hash(bytes).is_none()
                    {
                        found.push((leaf, index, entry::entries(bytes)));
                    }
                });
            });
        }
        let mut digests = [UNKNOWN; BATCH];
        for batch in found.chunks(BATCH) {
            let entries: Vec<&[u8]> = batch.iter().map(|(_, _, entries)| *entries).collect();
            self.directories(&entries, |index, digest| digests[index] = digest)?;
            let mut digests = digests.iter();
            for same in batch.chunk_by(|a, b| std::ptr::eq(a.0, b.0)) {
                let leaf = same[0].0;
                let mut hashes = leaf.hashes().take(leaf.len());
                for ((_, index, _), digest) in same.iter().zip(&mut digests) {
                    hashes.set(*index, *digest);
                }
                leaf.hashes().put(hashes);
            }
        }
        Ok(())
    }

    /// Hashes directories that refer to nothing, each given as its entries: first what is in them, then
    /// themselves.
    fn directories(
        &mut self,
        directories: &[&[u8]],
        mut each: impl FnMut(usize, Hash),
    ) -> Result<()> {
        self.clear();
        let mut inside = std::mem::take(&mut self.inside);
        inside.clear();
        let mut names = std::mem::take(&mut self.names);
        for entries in directories {
            entry::each_within(entries, &mut names, |_, what| {
                let digest = match what {
                    Within::Value(value) => {
                        self.value(0, inside.len(), value);
                        UNKNOWN
                    }
                    Within::Directory(entries) => within(entries)?,
                };
                inside.push(digest);
                Ok(())
            })?;
        }
        let places = &self.places;
        hash::hash_spans(&self.bytes, &self.spans, |index, digest| {
            inside[places[index].1] = digest;
        });
        self.clear();
        let mut hashes = inside.iter();
        for entries in directories {
            let start = self.bytes.len();
            preimage::put_u64(&mut self.bytes, 0);
            let mut count = 0_u64;
            entry::each_within(entries, &mut names, |name, what| {
                let is_value = matches!(what, Within::Value(_));
                let hash = hashes.next().expect("as many as were hashed");
                preimage::put_flat_entry(&mut self.bytes, name, is_value, hash);
                count += 1;
                Ok(())
            })?;
            self.bytes[start..start + 8].copy_from_slice(&count.to_be_bytes());
            self.spans.push(start..self.bytes.len());
        }
        hash::hash_spans(&self.bytes, &self.spans, &mut each);
        (self.inside, self.names) = (inside, names);
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.places.clear();
    }

    /// The hashes of the children of `node`; those of values become pre-images of the batch.
    fn known(&mut self, position: usize, node: &Node) -> Result<Known> {
        match &node.body {
            Body::Leaf { leaf, .. } => {
                let mut known = leaf.hashes().take(leaf.len());
                known.fill(|index, hash, place| {
                    match leaf.slot(index) {
                        Slot::Node(child) => *hash = known_hash(child),
                        Slot::StoredNode(offset) | Slot::StoredValue(offset) => {
                            *hash = self.stored(*offset)?;
                        }
                        Slot::Inline { length, bytes } => {
                            self.value(position, place, &bytes[..usize::from(*length)]);
                        }
                        Slot::Value(bytes) => self.value(position, place, bytes),
                        Slot::Embedded(bytes) => *hash = embedded(bytes)?,
                    }
                    Ok(())
                })?;
                Ok(known)
            }
            Body::Branch(branch) => {
                let mut known = branch.hashes().take(branch.pointers.len());
                known.fill(|index, hash, _| {
                    *hash = match &branch.pointers[index].target {
                        Target::Live(child) => known_hash(child),
                        Target::Stored(offset) => self.stored(*offset)?,
                    };
                    Ok(())
                })?;
                Ok(known)
            }
        }
    }

    fn stored(&mut self, offset: u64) -> Result<Hash> {
        self.reads += 1;
        self.load.expect("a stored child is only reached through its pack").hash(offset)
    }

    fn value(&mut self, position: usize, child: usize, value: &[u8]) {
        let start = self.bytes.len();
        preimage::put_value(&mut self.bytes, value);
        self.spans.push(start..self.bytes.len());
        self.places.push((position, child));
    }
}

fn known_hash(child: &Arc<Node>) -> Hash {
    *child.hash.get().expect("children are in an earlier wave")
}

/// Leaves the hashes with the node. Those of a few inline values are cheaper to make than to keep.
fn keep(node: &Node, children: Known) {
    match &node.body {
        Body::Leaf { leaf, .. } => {
            let inline = |index| matches!(leaf.slot(index), Slot::Inline { .. });
            if leaf.len() > 4 || !(0..leaf.len()).all(inline) {
                leaf.hashes().put(children);
            }
        }
        Body::Branch(branch) => branch.hashes().put(children),
    }
}

/// The hash of `node`, if those of its children are `children`, one for each.
pub(crate) fn of_children(node: &Node, children: &Known) -> Hash {
    let mut bytes = Vec::new();
    put_node(&mut bytes, node, children);
    hash::hash(&bytes)
}

/// The pre-image of a node whose children have the hashes `children`.
fn put_node(out: &mut Vec<u8>, node: &Node, children: &Known) {
    match &node.body {
        Body::Leaf { leaf, flat: true } => {
            preimage::put_u64(out, leaf.len() as u64);
            children.each(|index, hash| {
                preimage::put_flat_entry(out, leaf.name(index), leaf.slot(index).is_value(), hash);
            });
        }
        Body::Leaf { leaf, flat: false } => {
            preimage::put_values_head(out, leaf.len() as u64);
            children.each(|index, hash| {
                preimage::put_values_entry(
                    out,
                    leaf.name(index),
                    leaf.slot(index).is_value(),
                    hash,
                );
            });
        }
        Body::Branch(branch) => {
            let pointers = &branch.pointers;
            preimage::put_branch_head(
                out,
                u64::from(branch.depth),
                branch.count(),
                pointers.len() as u64,
            );
            if pointers.last().is_some_and(|last| last.bucket < 0x80) {
                // Most of what is hashed, in pieces of a fixed length.
                let mut rooms =
                    preimage::branch_pointers(out, pointers.len()).iter_mut().zip(pointers);
                children.each(|_, hash| {
                    let (room, pointer) = rooms.next().expect("a hash for each pointer");
                    room[0] = pointer.bucket as u8;
                    room[1..].copy_from_slice(hash);
                });
                return;
            }
            children.each(|index, hash| {
                preimage::put_branch_pointer(out, u64::from(pointers[index].bucket), hash);
            });
        }
    }
}

//! Buffers of nodes that nobody needs any more, for the next copies of nodes.
//!
//! A commit replaces about as many nodes, and vectors of hashes, as the next tree copies out of the
//! caches. Freed all at once and taken one by one, they would cost the allocator more than the copies do.

use std::sync::{Arc, OnceLock};

use super::{Body, Node};
use crate::context::hash::Hash;
use crate::sync::{Mutex, lock};

/// The most bytes that buffers of one kind take.
const KEPT_BYTES: usize = 1 << 20;

/// How many are looked at for one that fits.
const LOOKS: usize = 4;

/// Buffers of one kind, the last to come first.
#[derive(Debug)]
struct Shelf<T> {
    held: Vec<T>,
    bytes: usize,
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf { held: Vec::new(), bytes: 0 }
    }
}

impl<T> Shelf<T> {
    /// Takes it in, or gives it back when there are enough.
    fn put(&mut self, one: T, bytes: usize) -> Option<T> {
        if self.bytes + bytes > KEPT_BYTES {
            return Some(one);
        }
        self.bytes += bytes;
        self.held.push(one);
        None
    }

    fn take(&mut self, bytes: impl Fn(&T) -> usize, fits: impl Fn(&T) -> bool) -> Option<T> {
        let last = self.held.len();
        let place = (last.saturating_sub(LOOKS)..last).rev().find(|at| fits(&self.held[*at]))?;
        let one = self.held.swap_remove(place);
        self.bytes -= bytes(&one);
        Some(one)
    }
}

/// Whether a buffer for `capacity` has room for `length`, and not much more: caches count capacities.
fn fits(capacity: usize, length: usize) -> bool {
    (length..=length + length / 2 + 2).contains(&capacity)
}

fn bytes_of(hashes: &Vec<Hash>) -> usize {
    hashes.capacity() * size_of::<Hash>()
}

/// The buffers of a pack.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    leaves: Mutex<Shelf<Arc<Node>>>,
    branches: Mutex<Shelf<Arc<Node>>>,
    hashes: Mutex<Shelf<Vec<Hash>>>,
}

impl Spare {
    fn shelf(&self, node: &Node) -> &Mutex<Shelf<Arc<Node>>> {
        match node.body {
            Body::Leaf { .. } => &self.leaves,
            Body::Branch(_) => &self.branches,
        }
    }

    /// Keeps the buffers of a node, unless somebody else holds it.
    pub(crate) fn put(&self, mut node: Arc<Node>) {
        let Some(own) = Arc::get_mut(&mut node) else { return };
        own.empty();
        let (shelf, bytes) = (self.shelf(&node), node.bytes());
        let refused = lock(shelf).put(Arc::clone(&node), bytes);
        drop((refused, node));
    }

    /// A copy of `node` without the hashes of its children.
    pub(crate) fn copy(&self, node: &Node) -> Arc<Node> {
        let found = lock(self.shelf(node)).take(|held| held.bytes(), |held| held.fits(node));
        if let Some(mut found) = found
            && let Some(own) = Arc::get_mut(&mut found)
        {
            own.copy(node);
            return found;
        }
        let mut copy = Node::clone(node);
        drop(copy.take_hashes());
        Arc::new(copy)
    }

    /// Keeps the buffer of a vector of hashes.
    pub(crate) fn put_hashes(&self, hashes: Vec<Hash>) {
        let bytes = bytes_of(&hashes);
        drop(lock(&self.hashes).put(hashes, bytes));
    }

    /// A copy of `hashes`.
    pub(crate) fn copy_hashes(&self, hashes: &[Hash]) -> Vec<Hash> {
        let found = lock(&self.hashes).take(bytes_of, |held| fits(held.capacity(), hashes.len()));
        let mut copy = found.unwrap_or_else(|| Vec::with_capacity(hashes.len()));
        copy.clear();
        copy.extend_from_slice(hashes);
        copy
    }
}

impl Node {
    /// Lets go of all that it holds, but for the memory of its buffers.
    fn empty(&mut self) {
        drop(self.take_hashes());
        self.changes_mut().forget();
        match &mut self.body {
            Body::Leaf { leaf, .. } => {
                leaf.names.clear();
                leaf.entries.clear();
            }
            Body::Branch(branch) => {
                branch.pointers.clear();
                branch.turnover = None;
            }
        }
    }

    /// Whether its buffers are right for a copy of `other`.
    fn fits(&self, other: &Node) -> bool {
        match (&self.body, &other.body) {
            (Body::Leaf { leaf, .. }, Body::Leaf { leaf: other, .. }) => {
                fits(leaf.names.capacity(), other.names.len())
                    && fits(leaf.entries.capacity(), other.entries.len())
            }
            (Body::Branch(branch), Body::Branch(other)) => {
                fits(branch.pointers.capacity(), other.pointers.len())
            }
            _ => false,
        }
    }

    /// Makes it, which is empty and of the same kind, a copy of `other` without the hashes of its children.
    fn copy(&mut self, other: &Node) {
        match (&mut self.body, &other.body) {
            (Body::Leaf { leaf, flat }, Body::Leaf { leaf: other, flat: other_flat }) => {
                leaf.names.extend_from_slice(&other.names);
                leaf.entries.extend_from_slice(&other.entries);
                leaf.changes.clone_from(&other.changes);
                *flat = *other_flat;
            }
            (Body::Branch(branch), Body::Branch(other)) => {
                branch.pointers.extend_from_slice(&other.pointers);
                branch.changes.clone_from(&other.changes);
                branch.turnover.clone_from(&other.turnover);
                (branch.depth, branch.unknown) = (other.depth, other.unknown);
            }
            _ => unreachable!("leaves and branches are kept apart"),
        }
        (self.base, self.before) = (other.base, other.before);
        self.hash = other.hash.get().map_or_else(OnceLock::new, |hash| OnceLock::from(*hash));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::node::{Branch, Embedded, Leaf, Pointer, Slot, Target};

    fn leaf(entries: u8) -> Arc<Node> {
        let mut leaf = Leaf::with_capacity(entries.into(), 2 * usize::from(entries));
        for name in 0..entries {
            leaf.push(&[b'n', name], Slot::Embedded(Embedded::new(&[18, 1 << 5, name])));
        }
        Arc::new(Node::leaf(leaf, entries.is_multiple_of(2)))
    }

    fn branch(pointers: u16) -> Arc<Node> {
        let target = |bucket| Target::Stored(u64::from(bucket) + 5);
        let pointer = |bucket| Pointer { bucket, count: 7, target: target(bucket) };
        let mut branch = Branch::new(3, (0..pointers).map(pointer).collect());
        branch.pointer_mut(0).count = 8;
        Arc::new(Node::new(Body::Branch(branch)))
    }

    #[test]
    fn a_copy_is_what_it_was_made_of_whatever_its_buffers_were() {
        let spare = Spare::default();
        let originals: Vec<_> = (1..40).map(leaf).chain((1..40).map(branch)).collect();
        for round in 0..30 {
            let mut copies = Vec::new();
            for (number, original) in originals.iter().enumerate() {
                original.hashes().put(vec![[1; 32]; original.width()]);
                let copy = spare.copy(original);
                assert_eq!(copy.width(), original.width(), "{round} {number}");
                assert!(copy.hashes().get(0).is_none());
                for index in 0..original.width() {
                    assert!(copy.child(index).same(&original.child(index)));
                }
                assert_eq!(copy.count(), original.count());
                assert_eq!(format!("{:?}", copy.changes()), format!("{:?}", original.changes()));
                match (&copy.body, &original.body) {
                    (Body::Leaf { leaf, flat }, Body::Leaf { leaf: old, flat: old_flat }) => {
                        assert_eq!((&leaf.names, flat), (&old.names, old_flat));
                    }
                    (Body::Branch(branch), Body::Branch(old)) => {
                        assert_eq!(branch.depth, old.depth);
                    }
                    _ => panic!("the copy is of another kind"),
                }
                copies.push(copy);
                let hashes = spare.copy_hashes(&vec![[number as u8; 32]; number]);
                assert_eq!(hashes, vec![[number as u8; 32]; number]);
                spare.put_hashes(hashes);
            }
            // Backwards and forwards, so that buffers meet nodes of other sizes.
            if round % 2 == 0 {
                copies.reverse();
            }
            for copy in copies {
                spare.put(copy);
            }
        }
        assert!(!lock(&spare.leaves).held.is_empty() && !lock(&spare.branches).held.is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded_and_holds_nothing() {
        let spare = Spare::default();
        let inside: Arc<[u8]> = Arc::from([0; 40]);
        for number in 0..20_000 {
            let mut leaf = Leaf::with_capacity(4, 40);
            leaf.push(b"name", Slot::Value(Arc::clone(&inside)));
            spare.put(Arc::new(Node::leaf(leaf, true)));
            spare.put_hashes(Vec::with_capacity(number % 300));
        }
        assert_eq!(Arc::strong_count(&inside), 1);
        for held in [lock(&spare.leaves).bytes, lock(&spare.hashes).bytes] {
            assert!((KEPT_BYTES / 2..=KEPT_BYTES).contains(&held), "{held}");
        }
        // What somebody else holds is left alone.
        let shared = leaf(3);
        spare.put(Arc::clone(&shared));
        assert_eq!(shared.width(), 3);
    }
}

//! Nodes that nobody needs any more, for the memory of their buffers.
//!
//! A commit gives up as many as the next one takes out of the cache, and each has four pieces of memory
//! that an allocator would free and give out again one by one.

use std::fmt;
use std::sync::Arc;

use crate::context::pieces::node::{Body, Branch, Leaf, Node};
use crate::sync::{Mutex, lock};

/// The most children of a small leaf, of a middling one or a branch, and of any.
const FEW: usize = 8;
const MANY: usize = 40;
const MOST: usize = 512;

/// How many wide leaves are looked at for one that is wide enough.
const LOOKS: usize = 8;

/// See the module.
pub(crate) struct Nodes {
    stacks: Mutex<Stacks>,
    most_bytes: u64,
}

#[derive(Default)]
struct Stacks {
    few: Vec<(Arc<Node>, u64)>,
    many: Vec<(Arc<Node>, u64)>,
    wide: Vec<(Arc<Node>, u64)>,
    branches: Vec<(Arc<Node>, u64)>,
    bytes: u64,
}

impl Stacks {
    fn pop(
        &mut self,
        from: impl FnOnce(&mut Stacks) -> &mut Vec<(Arc<Node>, u64)>,
    ) -> Option<Arc<Node>> {
        let (node, bytes) = from(self).pop()?;
        self.bytes -= bytes;
        Some(node)
    }

    /// A leaf with room for `count` entries and not for many more, if one of the last has that.
    fn pop_wide(&mut self, count: usize) -> Option<Arc<Node>> {
        let looks = self.wide.len().saturating_sub(LOOKS)..self.wide.len();
        let fits = |place: &usize| (count..2 * count).contains(&self.wide[*place].0.room());
        let place = looks.rev().find(fits)?;
        let (node, bytes) = self.wide.swap_remove(place);
        self.bytes -= bytes;
        Some(node)
    }
}

impl Nodes {
    /// Keeps nodes of that many bytes.
    pub(crate) fn new(most_bytes: u64) -> Nodes {
        Nodes { stacks: Mutex::new(Stacks::default()), most_bytes }
    }

    /// An empty leaf for about `count` entries.
    pub(super) fn leaf(&self, count: usize) -> Arc<Node> {
        let spare = match count {
            ..=FEW => lock(&self.stacks).pop(|stacks| &mut stacks.few),
            ..=MANY => lock(&self.stacks).pop(|stacks| &mut stacks.many),
            _ => lock(&self.stacks).pop_wide(count),
        };
        spare.unwrap_or_else(|| Arc::new(Node::leaf(Leaf::default(), false)))
    }

    /// An empty branch.
    pub(super) fn branch(&self) -> Arc<Node> {
        let spare = lock(&self.stacks).pop(|stacks| &mut stacks.branches);
        spare.unwrap_or_else(|| Arc::new(Node::new(Body::Branch(Branch::new(0, Vec::new())))))
    }

    /// Keeps the memory of a clean node, unless somebody else has it.
    pub(crate) fn give(&self, mut node: Arc<Node>) {
        let room = node.room();
        let Some(own) = Arc::get_mut(&mut node).filter(|_| room <= MOST) else { return };
        own.empty();
        let bytes = own.bytes() as u64;
        let mut stacks = lock(&self.stacks);
        if stacks.bytes + bytes > self.most_bytes {
            drop(stacks);
            return;
        }
        stacks.bytes += bytes;
        let stack = match &node.body {
            Body::Branch(_) => &mut stacks.branches,
            Body::Leaf { .. } if room <= FEW => &mut stacks.few,
            Body::Leaf { .. } if room <= MANY => &mut stacks.many,
            Body::Leaf { .. } => &mut stacks.wide,
        };
        stack.push((node, bytes));
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nodes(at most {} bytes)", self.most_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::node::Slot;

    fn leaf(count: usize) -> Arc<Node> {
        let mut leaf = Leaf::with_capacity(count, 3 * count);
        for number in 0..count {
            leaf.push(format!("{number:03}").as_bytes(), Slot::value(b"1"));
        }
        Arc::new(Node::leaf(leaf, true))
    }

    #[test]
    fn nodes_are_for_others_of_about_their_width_and_within_the_budget() {
        let nodes = Nodes::new(100_000);
        for count in [3, 30, 200] {
            let (own, room) = (leaf(count), leaf(count).room());
            let address = Arc::as_ptr(&own);
            nodes.give(own);
            let other = nodes.leaf(if count == 200 { 20 } else { 200 });
            assert!(other.room() == 0 && nodes.branch().room() == 0);
            let again = nodes.leaf(count);
            assert!(Arc::as_ptr(&again) == address && again.width() == 0 && again.room() == room);
        }
        // What somebody has is nobody else's.
        let held = leaf(3);
        nodes.give(Arc::clone(&held));
        assert!(nodes.leaf(3).room() == 0 && held.width() == 3);
        (0..1_000).for_each(|_| nodes.give(leaf(30)));
        let bytes = lock(&nodes.stacks).bytes;
        assert!((90_000..=100_000).contains(&bytes), "{bytes}");
        while nodes.leaf(30).room() > 0 {}
        assert_eq!(lock(&nodes.stacks).bytes, 0);
    }
}

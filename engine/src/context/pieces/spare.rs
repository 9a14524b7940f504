//! Nodes that were written and let go of, for the next ones that are taken to be changed.
//!
//! A commit takes some thousands of nodes and lets go of as many, each of four allocations of as many sizes, in memory that
//! has long left the processor's cache. What a spare one has room for needs no allocation, and is touched soon again.

use std::fmt;
use std::sync::Arc;

use super::node::{Body, Branch, Leaf, Node};
use crate::sync::{Mutex, lock};

/// A node of more bytes is a wide directory's: too much to keep for nothing.
const NODE_BYTES: usize = 4096;

/// Spare nodes, of at most so many bytes.
pub(crate) struct Spares {
    most_bytes: usize,
    kept: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    bytes: usize,
    leaves: Vec<Arc<Node>>,
    branches: Vec<Arc<Node>>,
}

impl Spares {
    pub(crate) fn new(most_bytes: u64) -> Spares {
        Spares { most_bytes: most_bytes.try_into().unwrap_or(usize::MAX), kept: Mutex::default() }
    }

    /// A leaf of nothing, nobody else's.
    pub(crate) fn leaf(&self) -> Arc<Node> {
        self.any(|kept| &mut kept.leaves)
            .unwrap_or_else(|| Arc::new(Node::leaf(Leaf::default(), false)))
    }

    /// A branch of nothing, nobody else's.
    pub(crate) fn branch(&self) -> Arc<Node> {
        self.any(|kept| &mut kept.branches)
            .unwrap_or_else(|| Arc::new(Node::new(Body::Branch(Branch::new(0, Vec::new())))))
    }

    fn any(&self, of: impl FnOnce(&mut Given) -> &mut Vec<Arc<Node>>) -> Option<Arc<Node>> {
        let mut kept = lock(&self.kept);
        let node = of(&mut kept).pop()?;
        kept.bytes -= node.bytes();
        Some(node)
    }

    /// Takes the memory of a node, if nobody else has it.
    pub(crate) fn give(&self, mut node: Arc<Node>) {
        let Some(own) = Arc::get_mut(&mut node) else { return };
        own.empty();
        let bytes = own.bytes();
        if bytes > NODE_BYTES {
            return;
        }
        let mut kept = lock(&self.kept);
        if kept.bytes + bytes > self.most_bytes {
            return;
        }
        kept.bytes += bytes;
        match node.body {
            Body::Leaf { .. } => kept.leaves.push(node),
            Body::Branch(_) => kept.branches.push(node),
        }
    }
}

impl fmt::Debug for Spares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spares({} of {} bytes)", lock(&self.kept).bytes, self.most_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::node::Slot;

    fn leaf(entries: usize) -> Arc<Node> {
        let mut leaf = Leaf::default();
        for index in 0..entries {
            leaf.push(&(index as u64).to_be_bytes(), Slot::value(b"value"));
        }
        Arc::new(Node::leaf(leaf, true))
    }

    #[test]
    fn spare_nodes_are_empty_nobodys_and_few() {
        let spares = Spares::new(10_000);
        let held = leaf(9);
        spares.give(Arc::clone(&held));
        assert_eq!((lock(&spares.kept).bytes, held.count()), (0, 9), "somebody has it");
        spares.give(leaf(1_000));
        assert_eq!(lock(&spares.kept).bytes, 0, "it is large");
        (0..100).for_each(|_| spares.give(leaf(9)));
        let (bytes, count) = {
            let kept = lock(&spares.kept);
            (kept.bytes, kept.leaves.len())
        };
        assert!((8_000..=10_000).contains(&bytes) && count > 5, "{bytes} bytes of {count}");
        for _ in 0..=count {
            let mut node = spares.leaf();
            assert_eq!(node.count(), 0);
            assert!(Arc::get_mut(&mut node).is_some());
        }
        assert_eq!(lock(&spares.kept).bytes, 0);
        assert!(matches!(spares.branch().body, Body::Branch(_)));
    }
}

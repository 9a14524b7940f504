//! Nodes that were written and let go of, for the next ones that are taken to be changed.
//!
//! A commit takes some thousands of nodes and lets go of as many, each of four allocations of as many sizes, in memory that
//! has long left the processor's cache. What a spare one has room for needs no allocation, and is touched soon again. The same
//! is so of the bytes that the cache of nodes keeps, of which a commit replaces as many: they are of few lengths, so that one
//! takes the place of another.

use std::fmt;
use std::sync::Arc;

use super::node::{Body, Branch, Leaf, Node};
use crate::sync::{Mutex, lock};

/// A node of more bytes is a wide directory's: too much to keep for nothing.
const NODE_BYTES: usize = 4096;

/// Bytes that are kept are so many, and a multiple of [`STEP`] more: with two counts and what the allocator adds all of
/// an allocation.
const FIRST: usize = 8;
const STEP: usize = 32;

/// Of how many steps bytes may be to be kept for others.
const STEPS: usize = 64;

/// Fills `bytes` up to a length that others have, too.
pub(crate) fn pad(bytes: &mut Vec<u8>) {
    let more = bytes.len().saturating_sub(FIRST).next_multiple_of(STEP);
    bytes.resize(FIRST + more, 0);
}

/// Spare nodes and bytes, of at most so many bytes each.
pub(crate) struct Spares {
    most_bytes: usize,
    kept: Mutex<Given>,
}

struct Given {
    bytes: usize,
    leaves: Vec<Arc<Node>>,
    branches: Vec<Arc<Node>>,
    /// What `runs` take.
    runs_bytes: usize,
    /// Runs of bytes by how many steps they are of.
    runs: [Vec<Arc<[u8]>>; STEPS],
}

impl Default for Given {
    fn default() -> Self {
        let (leaves, branches) = (Vec::new(), Vec::new());
        Given { bytes: 0, leaves, branches, runs_bytes: 0, runs: [const { Vec::new() }; STEPS] }
    }
}

/// Of how many steps a run of bytes of this length is, if it may be another's.
fn steps(length: usize) -> Option<usize> {
    let more = length.checked_sub(FIRST).filter(|more| more.is_multiple_of(STEP))?;
    Some(more / STEP).filter(|steps| *steps < STEPS)
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

    /// A run of the bytes `bytes`, which [`pad`] filled up.
    pub(crate) fn run(&self, bytes: &[u8]) -> Arc<[u8]> {
        let spare = steps(bytes.len()).and_then(|steps| {
            let mut kept = lock(&self.kept);
            let run = kept.runs[steps].pop()?;
            kept.runs_bytes -= run.len();
            Some(run)
        });
        let Some(mut run) = spare else { return bytes.into() };
        Arc::get_mut(&mut run).expect("a spare one is nobody's").copy_from_slice(bytes);
        run
    }

    /// Takes the memory of a run of bytes, if nobody else has it.
    pub(crate) fn give_run(&self, mut run: Arc<[u8]>) {
        let Some(steps) = steps(run.len()) else { return };
        if Arc::get_mut(&mut run).is_none() {
            return;
        }
        let mut kept = lock(&self.kept);
        if kept.runs_bytes + run.len() <= self.most_bytes {
            kept.runs_bytes += run.len();
            kept.runs[steps].push(run);
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

    #[test]
    fn a_spare_run_of_bytes_becomes_another_of_as_many() {
        let spares = Spares::new(1_000);
        let padded = |length: usize, byte: u8| {
            let mut bytes = vec![byte; length];
            pad(&mut bytes);
            assert!(
                bytes.len() - length < STEP + FIRST && bytes[length..].iter().all(|it| *it == 0)
            );
            bytes
        };
        let (first, other) = (padded(100, 1), padded(104, 2));
        assert_eq!((first.len(), other.len(), padded(0, 1).len()), (104, 104, FIRST));
        let run = spares.run(&first);
        spares.give_run(Arc::clone(&run));
        assert_eq!(lock(&spares.kept).runs_bytes, 0, "somebody has it");
        let address = run.as_ptr();
        spares.give_run(run);
        assert_eq!(lock(&spares.kept).runs_bytes, 104);
        assert_ne!(spares.run(&padded(200, 3)).as_ptr(), address);
        let run = spares.run(&other);
        assert_eq!((&run[..], run.as_ptr()), (&other[..], address));
        assert_eq!(lock(&spares.kept).runs_bytes, 0);
        // Of a length that none has, and more than are kept.
        spares.give_run(Arc::from(&[1; 100][..]));
        spares.give_run(Arc::from(&padded(1 << 20, 1)[..]));
        (0..20).for_each(|_| spares.give_run(Arc::from(&first[..])));
        assert_eq!(lock(&spares.kept).runs_bytes, 9 * 104);
    }
}

//! Materialised nodes by logical offset, bounded in bytes, kept across commits.
//!
//! Nodes in it are clean: they hold no live child, so what one takes is exact. Each shard evicts by
//! second chance: a node that was used since the hand last passed stays for another round.
//! Source: Corbató 1968 (CLOCK).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::node::Node;
use crate::format::hash::combine;
use crate::sync::{Mutex, lock};

const SHARDS: usize = 16;

/// What the map and the ring take for a node beside the node.
const OVERHEAD: usize = 64;

/// Offsets are no input of an attacker's choice beyond their order, so one multiplication does.
#[derive(Default)]
struct OffsetHasher(u64);

impl Hasher for OffsetHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = combine(self.0, u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

#[derive(Debug)]
struct Frame {
    offset: u64,
    node: Arc<Node>,
    bytes: usize,
    used: bool,
}

#[derive(Debug, Default)]
struct Shard {
    places: HashMap<u64, usize, BuildHasherDefault<OffsetHasher>>,
    ring: Vec<Frame>,
    hand: usize,
    bytes: usize,
}

/// A cache of nodes.
#[derive(Debug)]
pub(crate) struct ObjectCache {
    shards: [Mutex<Shard>; SHARDS],
    /// What one shard may take.
    budget_bytes: usize,
}

impl ObjectCache {
    pub(crate) fn new(budget_bytes: u64) -> ObjectCache {
        ObjectCache {
            shards: std::array::from_fn(|_| Mutex::new(Shard::default())),
            budget_bytes: budget_bytes as usize / SHARDS,
        }
    }

    fn shard(&self, offset: u64) -> &Mutex<Shard> {
        &self.shards[(offset.wrapping_mul(0xd1b5_4a32_d192_ed03) >> 60) as usize % SHARDS]
    }

    pub(crate) fn get(&self, offset: u64) -> Option<Arc<Node>> {
        let mut shard = lock(self.shard(offset));
        let place = *shard.places.get(&offset)?;
        let frame = &mut shard.ring[place];
        frame.used = true;
        Some(Arc::clone(&frame.node))
    }

    pub(crate) fn insert(&self, offset: u64, node: Arc<Node>) {
        let bytes = node.bytes() + OVERHEAD;
        if bytes > self.budget_bytes {
            return;
        }
        let mut shard = lock(self.shard(offset));
        if shard.places.contains_key(&offset) {
            return;
        }
        while shard.bytes + bytes > self.budget_bytes {
            shard.evict();
        }
        let place = shard.ring.len();
        shard.ring.push(Frame { offset, node, bytes, used: false });
        shard.places.insert(offset, place);
        shard.bytes += bytes;
    }

    /// Drops everything, as another generation begins.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *lock(shard) = Shard::default();
        }
    }

    /// Bytes taken now.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| lock(shard).bytes as u64).sum()
    }
}

impl Shard {
    fn evict(&mut self) {
        loop {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let frame = &mut self.ring[self.hand];
            if std::mem::take(&mut frame.used) {
                self.hand += 1;
                continue;
            }
            let frame = self.ring.swap_remove(self.hand);
            self.places.remove(&frame.offset);
            self.bytes -= frame.bytes;
            if let Some(moved) = self.ring.get(self.hand) {
                self.places.insert(moved.offset, self.hand);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::node::{Leaf, Slot};

    #[test]
    fn it_keeps_to_its_budget_and_keeps_what_is_used() {
        let node = || {
            let mut leaf = Leaf::default();
            leaf.push(b"name", Slot::value(b"value"));
            Arc::new(Node::leaf(leaf, true))
        };
        let one = (node().bytes() + OVERHEAD) as u64;
        let cache = ObjectCache::new(one * 160);
        cache.insert(7, node());
        for offset in 100..10_000 {
            assert!(cache.get(7).is_some(), "used between every two insertions");
            cache.insert(offset, node());
            assert!(cache.bytes() <= one * 160);
        }
        assert!(cache.get(100).is_none() && cache.get(9_999).is_some());
        cache.clear();
        assert!(cache.get(7).is_none() && cache.bytes() == 0);
    }
}

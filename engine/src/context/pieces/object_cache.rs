//! Nodes by logical offset, and the hashes of their children; bounded in bytes, kept across commits.
//!
//! Nodes in it are clean: they hold no live child, so what one takes is known. Their children's
//! hashes are kept apart, because they are wanted only when a node changes. Set-associative, as the page
//! cache is: a lookup looks at one set, each with its own lock. A set that is full, or the
//! whole when it is past its budget, evicts by second chance: what was used since the hand last
//! passed stays for another round. What is *dear*, because making it again takes many reads, goes only
//! when hardly anything else is left. Source: Corbató 1968 (CLOCK).

use std::fmt;
use std::sync::Arc;

use super::node::{HashVector, Node};
use crate::prefetch;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

const WAYS: usize = 8;

/// What is kept for an offset.
pub(crate) trait Held: Clone {
    /// What the smallest usual one takes; there is a place for each that the budget holds.
    const USUAL: u64;

    /// Memory that it takes.
    fn bytes(&self) -> usize;
}

impl Held for Arc<Node> {
    const USUAL: u64 = 448;

    fn bytes(&self) -> usize {
        Node::bytes(self)
    }
}

/// The hashes of a node's children.
impl Held for HashVector {
    const USUAL: u64 = 384;

    fn bytes(&self) -> usize {
        // Two counts, and what the allocator adds.
        size_of_val(self.hashes()) + 3 * size_of::<usize>()
    }
}

/// With its lock a line of the processor's cache, and the ways, of which a lookup touches one.
#[repr(C)]
struct Set<T> {
    /// One bit a way: used since the hand passed.
    used: u8,
    /// One bit a way: dear.
    dear: u8,
    hand: u8,
    /// Some bits of the hash of each offset, so that a lookup looks at no way but its own.
    tags: [u16; WAYS],
    /// What each takes, so that nobody need look at it again when it goes.
    bytes: [u32; WAYS],
    ways: [Way<T>; WAYS],
}

struct Way<T> {
    /// 0 for none.
    offset: u64,
    held: Option<T>,
}

#[repr(align(64))]
struct AlignedSet<T>(Mutex<Set<T>>);

impl<T> Default for Set<T> {
    fn default() -> Self {
        Set {
            used: 0,
            dear: 0,
            hand: 0,
            tags: [0; WAYS],
            bytes: [0; WAYS],
            ways: [const { Way { offset: 0, held: None } }; WAYS],
        }
    }
}

impl<T> Set<T> {
    #[inline]
    fn find(&self, tag: u16, offset: u64) -> Option<usize> {
        // Compared all at once: the compiler makes one vector comparison of it.
        let mut ways =
            (0..WAYS).fold(0_u32, |ways, way| ways | u32::from(self.tags[way] == tag) << way);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize;
            if self.ways[way].offset == offset {
                return Some(way);
            }
            ways &= ways - 1;
        }
        None
    }
}

/// A cache by logical offset.
pub(crate) struct ObjectCache<T> {
    sets: Box<[AlignedSet<T>]>,
    budget_bytes: u64,
    bytes: AtomicU64,
    /// Bytes of those that are dear.
    dear_bytes: AtomicU64,
    /// The set from which the next eviction for room starts.
    hand: AtomicU64,
}

impl<T: Held> ObjectCache<T> {
    /// A cache that takes at most `budget_bytes`, its own places included.
    pub(crate) fn new(budget_bytes: u64) -> ObjectCache<T> {
        let set_bytes = size_of::<AlignedSet<T>>() as u64;
        let count = budget_bytes / (set_bytes + WAYS as u64 * T::USUAL);
        let mut sets = prefetch::scattered(count as usize);
        sets.extend((0..count).map(|_| AlignedSet(Mutex::new(Set::default()))));
        ObjectCache {
            sets: sets.into_boxed_slice(),
            budget_bytes: budget_bytes - count * set_bytes,
            bytes: AtomicU64::new(0),
            dear_bytes: AtomicU64::new(0),
            hand: AtomicU64::new(0),
        }
    }

    #[inline]
    fn set(&self, offset: u64) -> Option<(&Mutex<Set<T>>, u16)> {
        // Offsets are no input of anybody's choice, so one multiplication scatters them.
        let hash = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (u128::from(hash) * self.sets.len() as u128) >> 64;
        // Bits that the choice of the set hardly uses.
        self.sets.get(index as usize).map(|set| (&set.0, (hash >> 16) as u16))
    }

    #[inline]
    pub(crate) fn get(&self, offset: u64) -> Option<T> {
        self.get_with(offset, T::clone)
    }

    /// What `each` makes of what is kept for an offset.
    #[inline]
    pub(crate) fn get_with<R>(&self, offset: u64, each: impl FnOnce(&T) -> R) -> Option<R> {
        let (set, tag) = self.set(offset)?;
        let mut set = lock(set);
        let way = set.find(tag, offset)?;
        set.used |= 1 << way;
        set.ways[way].held.as_ref().map(each)
    }

    /// Asks for the memory where a lookup of an offset begins.
    pub(crate) fn prefetch(&self, offset: u64) {
        if let Some((set, _)) = self.set(offset) {
            prefetch::line(set);
        }
    }

    /// Keeps what is for an offset, which is never 0.
    pub(crate) fn insert(&self, offset: u64, node: T) {
        self.insert_as(offset, node, false, &mut |_, _| {});
    }

    /// The same for what may be dear; `evicted` gets what is dear and goes.
    pub(crate) fn insert_as(
        &self,
        offset: u64,
        node: T,
        is_dear: bool,
        evicted: &mut dyn FnMut(u64, T),
    ) {
        let bytes = node.bytes() as u64;
        let most = (self.budget_bytes / 4).min(u32::MAX.into());
        let Some((set, tag)) = self.set(offset).filter(|_| bytes <= most) else { return };
        let (gone, before, mut total) = {
            let mut set = lock(set);
            if set.find(tag, offset).is_some() {
                return;
            }
            let free = set.ways.iter().position(|known| known.offset == 0);
            let way = free.unwrap_or_else(|| set.victim());
            let gone = set.is_dear(way).then_some(set.ways[way].offset);
            let freed = self.forget(&mut set, way);
            set.ways[way].offset = offset;
            set.tags[way] = tag;
            set.bytes[way] = bytes as u32;
            set.dear |= u8::from(is_dear) << way;
            if is_dear {
                self.dear_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            let before = set.ways[way].held.replace(node);
            // While the lock is held: who takes it out counts it as gone.
            let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes - freed;
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
            (gone, before, total)
        };
        // What goes is freed here, where no find waits for it.
        if let Some((offset, node)) = gone.zip(before) {
            evicted(offset, node);
        }
        while total > self.budget_bytes {
            total = self.make_room(evicted);
        }
    }

    /// Takes a node out, because another will take its place.
    pub(crate) fn take(&self, offset: u64) -> Option<T> {
        let (set, tag) = self.set(offset)?;
        let mut set = lock(set);
        let way = set.find(tag, offset)?;
        let bytes = self.forget(&mut set, way);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        set.ways[way].held.take()
    }

    /// Empties a way but for what it holds; returns what that takes.
    fn forget(&self, set: &mut Set<T>, way: usize) -> u64 {
        let bytes = u64::from(std::mem::take(&mut set.bytes[way]));
        if set.is_dear(way) {
            self.dear_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        set.ways[way].offset = 0;
        set.used &= !(1 << way);
        set.dear &= !(1 << way);
        bytes
    }

    /// Evicts what the set under the hand has that was not used, dear ones only when others take less than
    /// an eighth; returns what is taken afterwards.
    fn make_room(&self, evicted: &mut dyn FnMut(u64, T)) -> u64 {
        let dear_bytes = self.dear_bytes.load(Ordering::Relaxed);
        let spares_dear = dear_bytes < self.budget_bytes - self.budget_bytes / 8;
        let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.sets.len() as u64;
        let mut freed: [Option<(Option<u64>, T)>; WAYS] = [const { None }; WAYS];
        let total = {
            let mut bytes = 0;
            let mut set = lock(&self.sets[index as usize].0);
            let spared = if spares_dear { set.dear } else { 0 };
            for (way, freed) in freed.iter_mut().enumerate() {
                let offset = set.ways[way].offset;
                if (set.used | spared) & 1 << way == 0 && offset != 0 {
                    let dear = set.is_dear(way).then_some(offset);
                    bytes += self.forget(&mut set, way);
                    *freed = set.ways[way].held.take().map(|node| (dear, node));
                }
            }
            set.used &= spared;
            self.bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes
        };
        for (dear, node) in freed.into_iter().flatten() {
            if let Some(offset) = dear {
                evicted(offset, node);
            }
        }
        total
    }

    /// Bytes that nodes take now.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether what is kept for this offset takes nothing else's place, now or soon.
    pub(crate) fn has_room(&self, offset: u64) -> bool {
        self.bytes() < self.budget_bytes - self.budget_bytes / 8
            && self.set(offset).is_some_and(|(set, _)| {
                let set = lock(set);
                set.ways.iter().any(|way| way.offset == 0)
            })
    }
}

impl<T> Set<T> {
    fn is_dear(&self, way: usize) -> bool {
        self.dear & 1 << way != 0
    }

    /// The way that gives its place to another when all are taken.
    fn victim(&mut self) -> usize {
        let spared = if self.dear == u8::MAX { 0 } else { self.dear };
        loop {
            let way = usize::from(self.hand);
            self.hand = (self.hand + 1) % WAYS as u8;
            if (self.used | spared) & 1 << way == 0 {
                return way;
            }
            self.used &= !(1 << way) | spared;
        }
    }
}

impl<T: Held> fmt::Debug for ObjectCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectCache({} of {} bytes)", self.bytes(), self.budget_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::node::{Leaf, Slot};

    #[test]
    fn it_keeps_to_its_budget_and_keeps_what_is_used() {
        let node = || {
            let mut leaf = Leaf::default();
            leaf.push(b"name", Slot::value(b"value"));
            Arc::new(Node::leaf(leaf, true))
        };
        let cache = ObjectCache::new(100_000);
        cache.insert(7, node());
        for offset in 100..10_000 {
            assert!(cache.get(7).is_some(), "used between every two insertions");
            cache.insert(offset, node());
            assert!(cache.bytes() <= 100_000);
        }
        assert!(cache.get(100).is_none() && cache.get(9_999).is_some());
        let before = cache.bytes();
        assert!(cache.take(9_999).is_some() && cache.take(9_999).is_none());
        assert!(cache.get(9_999).is_none() && cache.bytes() < before);
        let none = ObjectCache::new(10);
        none.insert(7, node());
        assert!(none.get(7).is_none());
    }

    #[test]
    fn it_has_room_while_bytes_and_a_place_are_free() {
        // Large ones take the bytes long before the places, small ones the places.
        for (hashes, by_bytes) in [(32, true), (1, false)] {
            let cache: ObjectCache<HashVector> = ObjectCache::new(1 << 20);
            let mut offset = 0;
            while cache.has_room(offset + 1) {
                offset += 1;
                cache.insert(offset, HashVector::new(&vec![[7; 32]; hashes]));
            }
            let is_full = cache.bytes() >= cache.budget_bytes - cache.budget_bytes / 8;
            assert_eq!(is_full, by_bytes, "{} of {} bytes", cache.bytes(), cache.budget_bytes);
            let kept = (1..=offset).filter(|offset| cache.get(*offset).is_some()).count() as u64;
            assert_eq!(kept, offset, "nothing gave its place");
        }
        for budget in 0..4_000 {
            let cache: ObjectCache<HashVector> = ObjectCache::new(budget);
            assert_eq!(cache.has_room(7), !cache.sets.is_empty(), "{budget} bytes");
        }
    }

    #[test]
    fn what_is_dear_outlives_what_is_not_and_gives_way_to_its_like() {
        let hashes = || HashVector::new(&[[7; 32]; 32]);
        let cache: ObjectCache<HashVector> = ObjectCache::new(1 << 20);
        let gone = std::cell::RefCell::new(Vec::new());
        let mut evicted =
            |offset: u64, it: HashVector| gone.borrow_mut().push((offset, it.hashes().len()));
        for offset in 1..=300 {
            cache.insert_as(offset, hashes(), true, &mut evicted);
        }
        let mut found = 0;
        for offset in 1_000..20_000 {
            cache.insert(offset, hashes());
            found += usize::from(cache.get(offset).is_some());
            assert!(cache.bytes() <= 1 << 20);
        }
        assert!(found > 18_500, "what is new has a place, too, which {found} of 19000 found");
        let kept = (1..=300).filter(|offset| cache.get(*offset).is_some()).count();
        assert!(kept >= 290, "only a set that is full of them lets one go: {kept} of 300 stayed");
        for offset in 30_000..50_000 {
            cache.insert_as(offset, hashes(), true, &mut evicted);
            assert!(cache.bytes() <= 1 << 20);
        }
        assert!(cache.get(49_999).is_some());
        let known = |offset: u64| gone.borrow().contains(&(offset, 32));
        let is_there = |offset: u64| cache.get(offset).is_some() != known(offset);
        assert!((1..=300).all(is_there) && (30_000..50_000).step_by(97).all(is_there));
        assert!(gone.borrow().iter().all(|(offset, _)| !(1_000..20_000).contains(offset)));
        for offset in 30_000..50_000 {
            cache.take(offset);
        }
        (1..20_000).for_each(|offset| drop(cache.take(offset)));
        assert_eq!((cache.bytes(), cache.dear_bytes.load(Ordering::Relaxed)), (0, 0));
    }
}

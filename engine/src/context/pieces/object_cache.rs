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

use super::node::Node;
use crate::context::hash::Hash;
use crate::prefetch;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

const WAYS: usize = 8;

/// What is kept for an offset.
pub(crate) trait Held: Clone {
    /// What the smallest usual one takes; there is a place for each that the budget holds.
    const USUAL: u64;

    /// Memory that it takes.
    fn bytes(&self) -> usize;

    /// What it has in common with those that its memory would do for, a number below [`CLASSES`]; none when
    /// its memory is for no other.
    fn class(&self) -> Option<usize> {
        None
    }
}

/// How many classes there may be.
const CLASSES: usize = 320;

/// The part of the budget that memory without content may take.
const SPARE_PART: u64 = 32;

/// Memory of those that went, by class.
struct Spares<T> {
    classes: Vec<Vec<T>>,
    bytes: u64,
    /// The class that gives one up next, when there are enough.
    hand: usize,
}

impl Held for Arc<Node> {
    const USUAL: u64 = 448;

    fn bytes(&self) -> usize {
        Node::bytes(self)
    }
}

/// The hashes of a node's children.
impl Held for Vec<Hash> {
    const USUAL: u64 = 384;

    fn bytes(&self) -> usize {
        self.capacity() * size_of::<Hash>() + 2 * size_of::<usize>()
    }

    fn class(&self) -> Option<usize> {
        Some(self.capacity()).filter(|capacity| (1..CLASSES).contains(capacity))
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

/// The way that is taken first by what has this tag.
#[inline]
fn first_way(tag: u16) -> usize {
    usize::from(tag) % WAYS
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
    /// Of all that is kept, memory without content included.
    bytes: AtomicU64,
    spares: Mutex<Spares<T>>,
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
        ObjectCache {
            sets: (0..count).map(|_| AlignedSet(Mutex::new(Set::default()))).collect(),
            budget_bytes: budget_bytes - count * set_bytes,
            bytes: AtomicU64::new(0),
            spares: Mutex::new(Spares { classes: Vec::new(), bytes: 0, hand: 0 }),
            dear_bytes: AtomicU64::new(0),
            hand: AtomicU64::new(0),
        }
    }

    /// Memory of that class that nobody needs, with whatever is in it.
    pub(crate) fn spare(&self, class: usize) -> Option<T> {
        let mut spares = lock(&self.spares);
        let spare = spares.classes.get_mut(class)?.pop()?;
        let bytes = spare.bytes() as u64;
        spares.bytes -= bytes;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Some(spare)
    }

    /// Keeps the memory of what was taken out for [`ObjectCache::spare`], if some can be kept.
    pub(crate) fn give(&self, gone: T) {
        let (Some(class), bytes) = (gone.class(), gone.bytes() as u64) else { return };
        let most = self.budget_bytes / SPARE_PART;
        let mut surplus = None;
        let mut spares = lock(&self.spares);
        if spares.classes.is_empty() && most > 0 {
            spares.classes.resize_with(CLASSES, Vec::new);
        }
        if spares.bytes + bytes > most {
            // Whatever is seldom asked for makes room by and by.
            spares.hand = (spares.hand + 1) % CLASSES;
            let hand = spares.hand;
            surplus = spares.classes.get_mut(hand).and_then(Vec::pop);
            if let Some(surplus) = &surplus {
                let bytes = surplus.bytes() as u64;
                spares.bytes -= bytes;
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
        }
        if spares.bytes + bytes <= most {
            spares.bytes += bytes;
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            spares.classes[class].push(gone);
        }
        drop(spares);
        drop(surplus);
    }

    /// The set of an offset, and what it is told by there.
    #[inline]
    fn set(&self, offset: u64) -> Option<(&Mutex<Set<T>>, u16)> {
        // Offsets are no input of anybody's choice, so one multiplication scatters them.
        let hash = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let index = (u128::from(hash) * self.sets.len() as u128) >> 64;
        let set = self.sets.get(index as usize)?;
        // Bits that the choice of the set hardly uses.
        let tag = (hash >> 16) as u16;
        // It is most likely there, and then the two lines of memory that it takes come at once.
        prefetch::after(&set.0, Self::WAYS_AT + first_way(tag) * size_of::<Way<T>>());
        Some((&set.0, tag))
    }

    /// About where the ways of a set begin.
    const WAYS_AT: usize = size_of::<Mutex<()>>() + std::mem::offset_of!(Set<T>, ways);

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
        evicted: &mut dyn FnMut(u64, &T),
    ) {
        let bytes = node.bytes() as u64;
        let most = (self.budget_bytes / 4).min(u32::MAX.into());
        let Some((set, tag)) = self.set(offset).filter(|_| bytes <= most) else { return };
        let (gone, before) = {
            let mut set = lock(set);
            if set.find(tag, offset).is_some() {
                return;
            }
            let mut from_first = (0..WAYS).map(|step| (first_way(tag) + step) % WAYS);
            let free = from_first.find(|way| set.ways[*way].offset == 0);
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
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.bytes.fetch_sub(freed, Ordering::Relaxed);
            (gone, before)
        };
        // What goes is freed here, where no find waits for it.
        if let Some(before) = before {
            if let Some(offset) = gone {
                evicted(offset, &before);
            }
            self.give(before);
        }
        while self.bytes() > self.budget_bytes {
            self.make_room(evicted);
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
    /// an eighth.
    fn make_room(&self, evicted: &mut dyn FnMut(u64, &T)) {
        let dear_bytes = self.dear_bytes.load(Ordering::Relaxed);
        let spares_dear = dear_bytes < self.budget_bytes - self.budget_bytes / 8;
        let index = self.hand.fetch_add(1, Ordering::Relaxed) % self.sets.len() as u64;
        let mut freed: [Option<(Option<u64>, T)>; WAYS] = [const { None }; WAYS];
        {
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
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        for (dear, node) in freed.into_iter().flatten() {
            if let Some(offset) = dear {
                evicted(offset, &node);
            }
            self.give(node);
        }
    }

    /// Whether a good part of the budget is of no use yet.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes() < self.budget_bytes / 2
    }

    /// Bytes that nodes take now, and what is kept for others.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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
    fn what_is_dear_outlives_what_is_not_and_gives_way_to_its_like() {
        let hashes = || vec![[7; 32]; 32];
        let cache: ObjectCache<Vec<Hash>> = ObjectCache::new(1 << 20);
        let gone = std::cell::RefCell::new(Vec::new());
        let mut evicted =
            |offset: u64, hashes: &Vec<Hash>| gone.borrow_mut().push((offset, hashes.len()));
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
        let spares = lock(&cache.spares).bytes;
        assert_eq!((cache.bytes(), cache.dear_bytes.load(Ordering::Relaxed)), (spares, 0));
    }

    #[test]
    fn memory_of_what_goes_is_for_what_comes() {
        let hashes = |count: usize| vec![[7; 32]; count];
        let cache: ObjectCache<Vec<Hash>> = ObjectCache::new(1 << 20);
        assert!(cache.spare(32).is_none() && cache.spare(CLASSES).is_none());
        let (mut made, mut most) = (0, 0);
        for offset in 1..30_000 {
            let count = if offset % 10 == 0 { 200 } else { 32 };
            let spare = cache.spare(count);
            made += usize::from(spare.is_none());
            let mut room = spare.unwrap_or_else(|| hashes(count));
            assert_eq!(room.capacity(), count);
            room.fill([8; 32]);
            cache.insert(offset, room);
            most = most.max(lock(&cache.spares).bytes);
            assert!(cache.bytes() <= 1 << 20);
        }
        assert!(made < 6_000, "{made} of 30000 were new memory");
        assert!(0 < most && most <= (1 << 20) / SPARE_PART, "{most}");
        // What nobody asks for gives way to what is of use.
        (0..20 * CLASSES).for_each(|_| cache.give(hashes(100)));
        assert!((0..10).all(|_| cache.spare(100).is_some()));
        while cache.spare(32).or_else(|| cache.spare(100)).or_else(|| cache.spare(200)).is_some() {}
        assert_eq!(lock(&cache.spares).bytes, 0);
        (1..30_000).for_each(|offset| drop(cache.take(offset)));
        assert_eq!(cache.bytes(), 0);
    }
}

//! A cache of pages, bounded in bytes, that several stores share: the one number that bounds memory.
//!
//! What stores keep elsewhere (write buffers, filters, indexes, merges) is charged to it, and pages give way.
//!
//! Set-associative: a page's hash chooses one of many small sets, each with its own lock, so that
//! threads seldom meet, nothing is ever rehashed, and choosing a victim costs the same always. Within
//! a set the victim is the page predicted to be needed last (re-reference intervals of two bits): a
//! page enters as "probably not soon" and must be hit to stay, so a scan does not flush the cache.
//! Frames are made as the cache fills and reused from then on; those of forgotten pages wait for the
//! next page or charge. Invariant: sets, frames and charges together never take more than the budget,
//! unless the charges alone do. Source: Jaleel et al. 2010 (RRIP).

mod charge;
mod frame;
pub(crate) mod limit;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

pub(crate) use self::charge::{CachedFile, Charge};
use self::frame::{Frame, Frames};
use self::limit::MEMORY_MAX;
use crate::disk::Buffer;
use crate::format::hash::mixed;
use crate::prefetch;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Pages a set holds at most.
const WAYS: usize = 16;

/// Predictions of when a page is needed again.
const SOON: u8 = 0;
const NOT_SOON: u8 = 2;
const LAST: u8 = 3;

/// What a frame takes: its page, its name with counts and what the allocator adds, and its place
/// among the others.
const FRAME_BYTES: u64 =
    (PAGE + size_of::<Frame>() + 4 * size_of::<usize>() + size_of::<Buffer>()) as u64;

const SET_BYTES: u64 = size_of::<Slot>() as u64;

/// A page held in memory. Cheap to clone; the bytes stay as they are while it lives, whatever the
/// cache does.
#[derive(Clone)]
pub struct CachedPage(Arc<Frame>);

impl Deref for CachedPage {
    type Target = [u8; PAGE];

    #[inline]
    fn deref(&self) -> &[u8; PAGE] {
        self.0.bytes()
    }
}

impl fmt::Debug for CachedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({} of file {:x})", self.0.page, self.0.file)
    }
}

/// Up to [`WAYS`] pages. A tag is some bits of the page's hash, so that a lookup touches no frame but
/// its own; the whole name is compared in the frame.
struct Set {
    tags: [u8; WAYS],
    intervals: [u8; WAYS],
    hits: u64,
    frames: [Option<Arc<Frame>>; WAYS],
}

/// A set and its lock: the lock, the tags and the first frames share a cache line.
#[repr(align(64))]
struct Slot(Mutex<Set>);

impl Set {
    fn new() -> Self {
        Set { tags: [0; WAYS], intervals: [LAST; WAYS], hits: 0, frames: [const { None }; WAYS] }
    }

    /// The ways with this tag, as a mask.
    #[inline]
    fn tagged(&self, tag: u8) -> u32 {
        // Compared all at once: the compiler makes one vector comparison of it.
        (0..WAYS).fold(0, |ways, way| ways | u32::from(self.tags[way] == tag) << way)
    }

    #[inline]
    fn find(&self, tag: u8, file: u64, page: u32) -> Option<usize> {
        let mut matches = self.tagged(tag);
        while matches != 0 {
            let way = matches.trailing_zeros() as usize;
            let named = |frame: &Arc<Frame>| frame.file == file && frame.page == page;
            if self.frames[way].as_ref().is_some_and(named) {
                return Some(way);
            }
            matches &= matches - 1;
        }
        None
    }

    /// One of the first `ways` that is free.
    fn free(&self, ways: usize) -> Option<usize> {
        self.frames[..ways].iter().position(Option::is_none)
    }

    /// The filled one of the first `ways` that is needed last among those that nobody holds.
    fn victim(&mut self, ways: usize) -> Option<usize> {
        // Whether a frame is held is asked of the best candidate only: it costs a look at the frame.
        let filled = |way: &usize| self.frames[*way].is_some();
        let mut candidates = (0..ways).filter(filled).fold(0u32, |ways, way| ways | 1 << way);
        let way = loop {
            let left = (0..ways).filter(|way| candidates >> way & 1 == 1);
            let way = left.max_by_key(|way| (self.intervals[*way], std::cmp::Reverse(*way)))?;
            if self.frames[way].as_ref().is_some_and(|frame| Arc::strong_count(frame) == 1) {
                break way;
            }
            candidates &= !(1 << way);
        };
        // All others come as much nearer to the end as this one was from it.
        let distance = LAST - self.intervals[way];
        for interval in &mut self.intervals[..ways] {
            *interval = (*interval + distance).min(LAST);
        }
        Some(way)
    }
}

/// What a cache did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Lookups that found their page.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Pages that gave way to others.
    pub evictions: u64,
    /// Pages held now.
    pub pages: u64,
    /// Bytes taken now: sets, frames and their overhead, spare frames included.
    pub bytes: u64,
    /// Bytes that the stores charged for what they keep beside the pages. With `bytes` never above the
    /// budget, unless these alone are.
    pub charged_bytes: u64,
}

/// A shared cache of pages, named by file identity and page number.
///
/// A page that is found is returned as a counted handle, so that no lock is held while it is used.
///
/// ```
/// use std::sync::Arc;
/// use varvite::cache::Cache;
/// use varvite::context::Options;
///
/// // One budget for two stores.
/// let cache = Cache::new(64 << 20);
/// let store = || Options { cache: Some(Arc::clone(&cache)), ..Options::default() };
/// let (one, other) = (store(), store());
/// assert_eq!(cache.budget_bytes(), 64 << 20);
/// # drop((one, other));
/// ```
pub struct Cache {
    sets: Box<[Slot]>,
    /// Of each set, those that the budget allows: all but for the smallest caches.
    ways: usize,
    budget_bytes: u64,
    memory: Arc<Frames>,
    frames: AtomicU64,
    charged: AtomicU64,
    /// Where the next set is that gives pages up for a charge.
    hand: AtomicU64,
    /// Frames without a page.
    spares: Mutex<Vec<Arc<Frame>>>,
    pages: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    sharers: AtomicU64,
}

impl Cache {
    /// A cache that takes at most `budget_bytes`, its own overhead included. A budget too small for
    /// one page makes a cache that holds nothing and is as correct; one above 64 GiB (1 GiB with 32 bits) counts as that.
    ///
    /// The sets, about 5 % of a full cache, are taken at once; frames when they are needed.
    #[must_use]
    pub fn new(budget_bytes: u64) -> Arc<Cache> {
        let budget_bytes = budget_bytes.min(MEMORY_MAX);
        let room = budget_bytes.saturating_sub(size_of::<Cache>() as u64);
        let full_set = SET_BYTES + WAYS as u64 * FRAME_BYTES;
        let (count, ways) = if room >= full_set {
            (room / full_set, WAYS)
        } else {
            let ways = room.saturating_sub(SET_BYTES) / FRAME_BYTES;
            (u64::from(ways > 0), ways as usize)
        };
        Arc::new(Cache {
            sets: (0..count).map(|_| Slot(Mutex::new(Set::new()))).collect(),
            ways,
            budget_bytes,
            memory: Arc::default(),
            frames: AtomicU64::new(0),
            charged: AtomicU64::new(0),
            hand: AtomicU64::new(0),
            spares: Mutex::new(Vec::new()),
            pages: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            sharers: AtomicU64::new(0),
        })
    }

    /// A number for a store that is about to share the cache, for it to mix into the names of its
    /// files: a reopened store may give a file an identity that a removed one had.
    pub(crate) fn join(&self) -> u64 {
        self.sharers.fetch_add(1, Ordering::Relaxed)
    }

    /// What it may take.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes
    }

    /// The most pages that it can hold.
    pub fn capacity_pages(&self) -> u64 {
        (self.sets.len() * self.ways) as u64
    }

    #[inline]
    fn place(&self, file: u64, page: u32) -> Option<(&Mutex<Set>, u8)> {
        // Files have numbers without a pattern, so those of their pages differ in most bits.
        let hash = mixed(file.wrapping_add(u64::from(page)));
        let index = (u128::from(hash) * self.sets.len() as u128) >> 64;
        // The low bits, which the choice of the set hardly uses.
        self.sets.get(index as usize).map(|set| (&set.0, hash as u8))
    }

    /// The page, if it is here. Takes one uncontended lock for the time of a comparison.
    #[inline]
    pub(crate) fn get(&self, file: u64, page: u32) -> Option<CachedPage> {
        if let Some((set, tag)) = self.place(file, page) {
            let mut set = lock(set);
            if let Some(way) = set.find(tag, file, page) {
                set.hits += 1;
                set.intervals[way] = SOON;
                return set.frames[way].clone().map(CachedPage);
            }
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Asks for the memory where [`Cache::prefetch`] looks for the page.
    #[inline]
    pub(crate) fn prefetch_place(&self, file: u64, page: u32) {
        if let Some((set, _)) = self.place(file, page) {
            prefetch::whole(set);
        }
    }

    /// Asks for the memory where [`Cache::get`] sees that a page is the one looked for. Takes a lock.
    #[inline]
    pub(crate) fn prefetch(&self, file: u64, page: u32) {
        if let Some((set, tag)) = self.place(file, page) {
            let set = lock(set);
            let mut matches = set.tagged(tag);
            while matches != 0 {
                if let Some(frame) = &set.frames[matches.trailing_zeros() as usize] {
                    prefetch::line(&**frame);
                }
                matches &= matches - 1;
            }
        }
    }

    /// The page, if it is here. Neither counts nor makes it stay longer: for who reads a file from
    /// end to end.
    pub(crate) fn peek(&self, file: u64, page: u32) -> Option<CachedPage> {
        let (set, tag) = self.place(file, page)?;
        let set = lock(set);
        let way = set.find(tag, file, page)?;
        set.frames[way].clone().map(CachedPage)
    }

    /// Whether the page is here. Neither counts nor makes it stay longer.
    #[cfg(all(test, not(shuttle)))]
    fn contains(&self, file: u64, page: u32) -> bool {
        self.place(file, page).is_some_and(|(set, tag)| lock(set).find(tag, file, page).is_some())
    }

    /// Copies the page in, and returns it. If it is here already, the one here is returned: a page
    /// of a file never changes. When no room can be made, because the pages that could give way are
    /// held, the page is returned without being kept.
    pub(crate) fn insert(&self, file: u64, page: u32, bytes: &[u8; PAGE]) -> CachedPage {
        let Some((set, tag)) = self.place(file, page) else {
            return self.private(file, page, bytes);
        };
        let mut set = lock(set);
        if let Some(way) = set.find(tag, file, page) {
            return CachedPage(set.frames[way].clone().expect("the way found is filled"));
        }
        let free = set.free(self.ways).filter(|way| {
            set.frames[*way] = self.spare_frame();
            set.frames[*way].is_some() || self.take_frame()
        });
        let Some(way) = free.or_else(|| self.evict(&mut set)) else {
            return self.private(file, page, bytes);
        };
        set.tags[way] = tag;
        set.intervals[way] = NOT_SOON;
        let place = &mut set.frames[way];
        self.pages.fetch_add(1, Ordering::Relaxed);
        if let Some(frame) = place {
            // Handles are only cloned from one here, under the lock, or from another handle, of which
            // there is none.
            let frame = Arc::get_mut(frame).expect("nobody holds a victim or a spare frame");
            frame.fill(file, page, bytes);
        } else {
            *place = Some(self.private(file, page, bytes).0);
        }
        CachedPage(place.clone().expect("it was just filled"))
    }

    /// A page that the cache does not keep.
    fn private(&self, file: u64, page: u32, bytes: &[u8; PAGE]) -> CachedPage {
        CachedPage(Arc::new(self.memory.frame(file, page, bytes)))
    }

    /// A way whose page gives way.
    fn evict(&self, set: &mut Set) -> Option<usize> {
        let way = set.victim(self.ways)?;
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.pages.fetch_sub(1, Ordering::Relaxed);
        Some(way)
    }

    /// A frame of a forgotten page, which is counted already.
    fn spare_frame(&self) -> Option<Arc<Frame>> {
        lock(&self.spares).pop()
    }

    /// Keeps the frame of a forgotten page for the next page or charge, unless somebody holds it. An
    /// allocator would give the memory back to the system, which clears it each time; or keep it for
    /// the thread that it came from, and take new memory for another one, beyond the budget.
    fn spare(&self, frame: Arc<Frame>) {
        if Arc::strong_count(&frame) == 1 {
            lock(&self.spares).push(frame);
        } else {
            self.frames.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Counts one frame more, if the budget has room for it beside the charges.
    ///
    /// This counts and then looks at the charges, and [`Cache::take`] charges and then looks at the
    /// count: of two at once, one must see what the other did, on every processor.
    fn take_frame(&self) -> bool {
        if self.frames.fetch_add(1, Ordering::SeqCst) < self.frames_max() {
            return true;
        }
        self.frames.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Frames that the budget has room for beside the charges.
    #[inline]
    fn frames_max(&self) -> u64 {
        let fixed = size_of::<Cache>() as u64 + self.sets.len() as u64 * SET_BYTES;
        let taken = fixed + self.charged.load(Ordering::SeqCst);
        self.budget_bytes.saturating_sub(taken) / FRAME_BYTES
    }

    /// Counts `bytes` kept elsewhere in the budget, and drops pages until there is room for them.
    /// Pages that are held stay; they give way to the next page or charge.
    fn take(&self, bytes: u64) {
        let mut fits = self.count(bytes);
        // Where everything is held, nothing can give way.
        for _ in 0..2 * self.sets.len() * WAYS {
            if fits {
                return;
            }
            fits = self.give_way();
        }
    }

    /// Counts `bytes` kept elsewhere in the budget; whether there is room for them.
    fn count(&self, bytes: u64) -> bool {
        self.charged.fetch_add(bytes, Ordering::SeqCst);
        self.fits()
    }

    fn fits(&self) -> bool {
        self.frames.load(Ordering::SeqCst) <= self.frames_max()
    }

    /// Drops one frame, a spare one or that of a page, if there is one to be had; whether all is within
    /// the budget then.
    fn give_way(&self) -> bool {
        if self.spare_frame().is_some() {
            self.frames.fetch_sub(1, Ordering::Relaxed);
            return self.fits();
        }
        let hand = self.hand.fetch_add(1, Ordering::Relaxed) as usize % self.sets.len();
        let mut set = lock(&self.sets[hand].0);
        if let Some(way) = self.evict(&mut set) {
            set.frames[way] = None;
            set.intervals[way] = LAST;
            self.frames.fetch_sub(1, Ordering::Relaxed);
        }
        self.fits()
    }

    /// A charge of nothing yet: memory that is kept elsewhere but shares this budget.
    #[must_use]
    pub(crate) fn charge(self: &Arc<Self>) -> Charge {
        Charge::new(self)
    }

    /// Drops the first `page_count` pages of a file that goes away, so that they make room at once.
    /// Costs a lookup a page.
    pub(crate) fn forget(&self, file: u64, page_count: u32) {
        /// How many pages ahead memory is asked for.
        const AHEAD: u32 = 8;
        for page in 0..page_count {
            self.prefetch_place(file, page + AHEAD);
            let Some((set, tag)) = self.place(file, page) else { return };
            let mut set = lock(set);
            if let Some(way) = set.find(tag, file, page)
                && let Some(frame) = set.frames[way].take()
            {
                set.intervals[way] = LAST;
                drop(set);
                self.pages.fetch_sub(1, Ordering::Relaxed);
                self.spare(frame);
            }
        }
    }

    /// What it did and holds. Costs a look at every set.
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            hits: self.sets.iter().map(|set| lock(&set.0).hits).sum(),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            pages: self.pages.load(Ordering::Relaxed),
            bytes: self.bytes(),
            charged_bytes: self.charged.load(Ordering::Relaxed),
        }
    }

    /// Bytes taken now.
    pub fn bytes(&self) -> u64 {
        size_of::<Cache>() as u64
            + self.sets.len() as u64 * SET_BYTES
            + self.frames.load(Ordering::Relaxed) * FRAME_BYTES
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cache({} of {} bytes)", self.bytes(), self.budget_bytes)
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    /// A page whose bytes follow from its name.
    fn bytes(file: u64, page: u32) -> [u8; PAGE] {
        [(file as u8).wrapping_mul(31) ^ page as u8; PAGE]
    }

    fn insert(cache: &Cache, file: u64, page: u32) -> CachedPage {
        cache.insert(file, page, &bytes(file, page))
    }

    #[test]
    fn lookups_bring_the_right_page_or_none_within_any_budget() {
        // Miri takes a thousand times as long.
        let (rounds, names) = if cfg!(miri) { (300, 6) } else { (20_000, 300) };
        for budget in [0, 1000, 4500, 10_000, 65_000, 200_000, 1 << 22] {
            if cfg!(miri) && budget > 65_000 {
                continue;
            }
            let cache = Cache::new(budget);
            let mut state = budget + 1;
            for _ in 0..rounds {
                state = mixed(state.wrapping_add(1));
                let (file, page) = (state % 7, (state >> 32) as u32 % names);
                match cache.get(file, page) {
                    Some(found) => assert_eq!(*found, bytes(file, page)),
                    None => assert_eq!(*insert(&cache, file, page), bytes(file, page)),
                }
                if state >> 60 == 0 {
                    cache.forget(file, names);
                    assert!(!cache.contains(file, page));
                }
            }
            let stats = cache.stats();
            assert!(
                stats.pages <= cache.capacity_pages()
                    && stats.bytes <= budget.max(size_of::<Cache>() as u64)
            );
            assert_eq!(stats.hits + stats.misses, rounds);
            assert_eq!(stats.hits == 0, cache.capacity_pages() == 0, "budget {budget}: {stats:?}");
        }
    }

    #[test]
    fn the_budget_is_used() {
        let budget = 50_000_000;
        let cache = Cache::new(budget);
        for page in 0..40_000 {
            insert(&cache, 1, page);
        }
        let stats = cache.stats();
        assert!(stats.bytes <= budget && stats.bytes > budget * 98 / 100, "{stats:?}");
        assert_eq!(stats.pages + stats.evictions, 40_000);
        assert!(stats.pages * PAGE as u64 > budget * 90 / 100);
    }

    #[test]
    fn a_held_page_stays_as_it_is() {
        let cache = Cache::new(70_000);
        let ways = cache.capacity_pages() as u32;
        let held: Vec<CachedPage> = (0..ways).map(|page| insert(&cache, 1, page)).collect();
        // All are held, so nothing can give way, and the newcomer is not kept.
        assert_eq!(*insert(&cache, 2, 0), bytes(2, 0));
        assert!(cache.get(2, 0).is_none() && cache.stats().evictions == 0);
        let first = held[0].clone();
        drop(held);
        for page in 0..if cfg!(miri) { 50 } else { 1000 } {
            insert(&cache, 3, page);
        }
        assert_eq!(*first, bytes(1, 0));
        cache.forget(1, ways);
        assert_eq!(*first, bytes(1, 0));
        assert_eq!(cache.budget_bytes(), 70_000);
    }

    #[test]
    fn a_scan_leaves_the_pages_that_were_hit() {
        let cache = Cache::new(4 << 20);
        let hot = cache.capacity_pages() as u32 / 3;
        for round in 0..3 {
            for page in 0..hot {
                if round == 0 { drop(insert(&cache, 1, page)) } else { drop(cache.get(1, page)) }
            }
        }
        // As many pages as the cache holds: the least recently used would be the hot ones.
        for page in 0..cache.capacity_pages() as u32 {
            insert(&cache, 2, page);
        }
        let kept = (0..hot).filter(|page| cache.contains(1, *page)).count() as u32;
        assert!(kept > hot * 9 / 10, "{kept} of {hot}");
    }

    #[test]
    fn pages_give_way_to_charges_and_come_back_after_them() {
        let budget = 1 << 20;
        let cache = Cache::new(budget);
        let within = |cache: &Cache| {
            let stats = cache.stats();
            assert!(stats.bytes + stats.charged_bytes <= budget, "{stats:?}");
            stats.pages
        };
        let fill = || (0..1000).for_each(|page| drop(insert(&cache, 1, page)));
        fill();
        let full = within(&cache);
        let (first, second) = (cache.charge(), CachedFile::new(&cache, 9, 0));
        first.set(300_000);
        let fewer = within(&cache);
        assert!(fewer <= full - 50, "{fewer} of {full}");
        second.charge(200_000);
        second.charge(100_000);
        fill();
        let few = within(&cache);
        assert!(few <= fewer - 70 && few > 80, "{few} of {fewer}");
        first.set(10_000_000); // more than there is: no page is left, and the cache is as correct
        assert_eq!(cache.stats().pages, 0);
        assert_eq!(*insert(&cache, 1, 7), bytes(1, 7));
        assert!(cache.get(1, 7).is_none());
        drop((first, second));
        assert_eq!(cache.stats().charged_bytes, 0);
        fill();
        assert!(within(&cache) > full * 9 / 10);
    }

    /// One thread counts a frame, the other charges what leaves no room for it: one of them sees that.
    /// Miri lets each see the memory of before, as processors may.
    #[test]
    fn a_frame_and_a_charge_at_once_do_not_both_fit() {
        let (mut took, mut fitted) = (0, 0);
        for _ in 0..if cfg!(miri) { 200 } else { 2_000 } {
            let cache = Cache::new(size_of::<Cache>() as u64 + SET_BYTES + FRAME_BYTES);
            let start = std::sync::Barrier::new(2);
            let (takes, fits) = std::thread::scope(|scope| {
                let taking = scope.spawn(|| {
                    start.wait();
                    cache.take_frame()
                });
                start.wait();
                let fits = cache.count(FRAME_BYTES);
                (taking.join().unwrap(), fits)
            });
            assert!(!(takes && fits), "a frame and a charge in the room of one");
            (took, fitted) = (took + u32::from(takes), fitted + u32::from(fits));
        }
        assert!(took + fitted > 0);
    }

    #[test]
    fn the_frames_of_a_forgotten_file_are_for_the_next_pages_and_charges() {
        let cache = Cache::new(1 << 20);
        (0..50).for_each(|page| drop(insert(&cache, 1, page)));
        (0..50).for_each(|page| drop(insert(&cache, 2, page)));
        let before = cache.stats();
        cache.forget(1, 50);
        let after = cache.stats();
        assert_eq!((before.pages, after.pages), (100, 50));
        assert_eq!(before.bytes, after.bytes);
        assert!((0..50).all(|page| cache.contains(2, page) && !cache.contains(1, page)));
        // Spare frames are filled before new ones are made.
        (0..30).for_each(|page| drop(insert(&cache, 3, page)));
        assert_eq!(cache.stats().bytes, before.bytes);
        assert!((0..30).all(|page| *cache.peek(3, page).unwrap() == bytes(3, page)));
        // And they go before any page does.
        let room = cache.budget_bytes() - before.bytes;
        let charge = cache.charge();
        charge.set(room + 20 * FRAME_BYTES);
        let pages = cache.stats();
        assert_eq!((pages.pages, pages.bytes), (80, before.bytes - 20 * FRAME_BYTES));
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings {
    use super::*;

    /// Threads that look up, insert and forget pages of one set, while they hold some of them, see
    /// only the bytes that belong to the name, in every order of their steps.
    #[test]
    fn a_page_is_never_another() {
        crate::sync::check_schedules(
            || {
                let cache = Cache::new(2 * FRAME_BYTES + SET_BYTES + size_of::<Cache>() as u64);
                assert_eq!(cache.capacity_pages(), 2);
                let threads: Vec<_> = (0..3u8)
                    .map(|thread| {
                        let cache = Arc::clone(&cache);
                        shuttle::thread::spawn(move || {
                            for step in 0..3u8 {
                                let page = u32::from((thread + step) % 3);
                                let held = cache
                                    .get(1, page)
                                    .unwrap_or_else(|| cache.insert(1, page, &[page as u8; PAGE]));
                                shuttle::thread::yield_now();
                                if step == 1 {
                                    cache.forget(1, 2);
                                }
                                assert_eq!(*held, [page as u8; PAGE]);
                            }
                        })
                    })
                    .collect();
                for thread in threads {
                    thread.join().expect("its assertions hold");
                }
                let stats = cache.stats();
                assert!(stats.pages <= 2 && stats.bytes <= cache.budget_bytes());
            },
            2000,
        );
    }
}

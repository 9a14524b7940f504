//! Whether files may still be removed, an end to that which waits for removals under way, and the removals
//! that wait until somebody has time for them.
//!
//! Whoever no longer knows for sure what is durable, or gives the folder to somebody else, stops them
//! first: afterwards nothing goes any more, also by a thread that had asked before. A folder may also be taken
//! away, and another be put in its place with files of the same names: so whose it is is asked before each
//! batch of removals, and that ends them too.
//!
//! The last holder of a file may be a reader, who has no time to free it: it leaves the removal here, for
//! whoever writes next. What nobody does is done at the next opening.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::disk::quietly;
use crate::sync::{AtomicBool, Mutex, Ordering, RwLock, lock};

/// So many removals that wait are a crowd, of which more is done at a time.
const CROWD: usize = 16;

/// One that waits: does a piece of it, and says whether it is done.
type Removal = Box<dyn FnMut() -> bool + Send>;

/// Whether the folder is still that of whoever asks.
type IsOurs = Box<dyn Fn() -> bool + Send + Sync>;

/// The right to remove files, shared by all that may.
pub struct Removals {
    /// None where nobody can take the folder.
    is_ours: Option<IsOurs>,
    /// Held shared across each removal.
    allowed: RwLock<bool>,
    waiting: Waiting,
    /// Those that take long, each as long as many updates.
    long: Waiting,
}

/// Removals that wait.
struct Waiting {
    /// Oldest first; none once they are stopped.
    removals: Mutex<Option<VecDeque<Removal>>>,
    /// Whether there are any.
    has_some: AtomicBool,
}

impl Waiting {
    fn new(allowed: bool) -> Waiting {
        let removals = Mutex::new(allowed.then(VecDeque::new));
        Waiting { removals, has_some: AtomicBool::new(false) }
    }

    fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    fn leave(&self, removal: Removal) {
        if let Some(waiting) = &mut *lock(&self.removals) {
            waiting.push_back(removal);
            self.has_some.store(true, Ordering::Release);
        }
    }

    /// Puts back what is not done, to be gone on with first.
    fn put_back(&self, removal: Removal) {
        if let Some(waiting) = &mut *lock(&self.removals) {
            waiting.push_front(removal);
            self.has_some.store(true, Ordering::Release);
        }
    }

    fn count(&self) -> usize {
        if !self.has_some() {
            return 0;
        }
        lock(&self.removals).as_ref().map_or(0, VecDeque::len)
    }

    fn take(&self) -> Option<Removal> {
        if !self.has_some() {
            return None;
        }
        let mut waiting = lock(&self.removals);
        let next = waiting.as_mut().and_then(VecDeque::pop_front);
        let is_empty = waiting.as_ref().is_none_or(VecDeque::is_empty);
        self.has_some.store(!is_empty, Ordering::Release);
        next
    }

    fn stop(&self) -> Option<VecDeque<Removal>> {
        let waiting = lock(&self.removals).take();
        self.has_some.store(false, Ordering::Release);
        waiting
    }
}

impl fmt::Debug for Removals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Removals")
    }
}

impl Removals {
    /// Removals that are allowed until they are stopped, or never.
    pub fn new(allowed: bool) -> Arc<Removals> {
        Self::with(allowed, None)
    }

    /// The same in a folder that somebody may take away: then `is_ours` says no, and they are stopped.
    pub fn guarded(
        allowed: bool,
        is_ours: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Arc<Removals> {
        Self::with(allowed, Some(Box::new(is_ours)))
    }

    fn with(allowed: bool, is_ours: Option<IsOurs>) -> Arc<Removals> {
        let [waiting, long] = [(); 2].map(|()| Waiting::new(allowed));
        Arc::new(Removals { is_ours, allowed: RwLock::new(allowed), waiting, long })
    }

    /// Whether files may be removed or renamed now: once before each batch of them, since it costs a look at
    /// the disk. Not to be asked in a removal.
    pub fn may_begin(&self) -> bool {
        let is_allowed = *self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        if !is_allowed || self.is_ours.as_ref().is_none_or(|is_ours| is_ours()) {
            return is_allowed;
        }
        self.stop();
        false
    }

    /// Does `removal` unless they were stopped. It must not ask again: somebody may be waiting to
    /// stop them.
    pub fn unless_stopped<T>(&self, removal: impl FnOnce() -> T) -> Option<T> {
        let allowed = self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        allowed.then(removal)
    }

    /// Leaves `removal` to whoever collects next, who calls it until it says that it is done. Waits for no
    /// removal.
    pub fn leave(&self, removal: impl FnMut() -> bool + Send + 'static) {
        self.waiting.leave(Box::new(removal));
    }

    /// The same for one that takes long: whoever has to be quick does a piece of one of these at a time.
    pub fn leave_long(&self, removal: impl FnMut() -> bool + Send + 'static) {
        self.long.leave(Box::new(removal));
    }

    /// Whether removals that take long wait.
    pub fn has_long(&self) -> bool {
        self.long.has_some()
    }

    /// Does those that wait, at most `most` of them, unless they are stopped; how many there were.
    pub fn collect(&self, most: usize) -> usize {
        self.collect_from(&self.waiting, most, usize::MAX)
    }

    /// The same for those that take long.
    pub fn collect_long(&self, most: usize) -> usize {
        self.collect_from(&self.long, most, usize::MAX)
    }

    /// Does so many pieces of those that take long.
    pub fn collect_pieces_of_long(&self, pieces: usize) {
        self.collect_from(&self.long, pieces, pieces);
    }

    /// Does a part of those that wait, at least `least` unless one is done in pieces: the more wait, the
    /// more of them and of pieces, so that they stay few however fast they come.
    pub fn collect_some(&self, least: usize) {
        let count = self.waiting.count();
        let pieces = count.max(count * count / CROWD);
        self.collect_from(&self.waiting, least.max(count / 64), pieces);
    }

    /// Does a piece of those that wait, or two when many do: for whoever comes by often.
    pub fn collect_piece(&self) {
        let pieces = 1 + self.waiting.count() / CROWD;
        self.collect_from(&self.waiting, pieces, pieces);
    }

    /// Does at most `most` of them, and before that at most `pieces` of those that are not done at once.
    fn collect_from(&self, waiting: &Waiting, most: usize, mut pieces: usize) -> usize {
        if most == 0 || !waiting.has_some() || !self.may_begin() {
            return 0;
        }
        let mut count = 0;
        while count < most
            && pieces > 0
            && let Some(mut removal) = waiting.take()
        {
            // Whoever collects has other things to do, and what is left goes at the next opening.
            let mut is_done = true;
            self.unless_stopped(|| quietly(|| is_done = removal()));
            if is_done {
                count += 1;
            } else {
                pieces -= 1;
                waiting.put_back(removal);
            }
        }
        count
    }

    /// Stops them for good. Waits for those under way.
    pub fn stop(&self) {
        *self.allowed.write().unwrap_or_else(PoisonError::into_inner) = false;
        let waiting = [&self.waiting, &self.long].map(Waiting::stop);
        // Files may close, which is nothing to be locked for.
        drop(waiting);
    }
}

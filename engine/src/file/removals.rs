//! Whether files may still be removed, an end to that which waits for removals under way, and the removals
//! that wait until somebody has time for them.
//!
//! Whoever no longer knows for sure what is durable, or gives the folder to somebody else, stops them
//! first: afterwards nothing goes any more, also by a thread that had asked before.
//!
//! The last holder of a file may be a reader, who has no time to free it: it leaves the removal here, for
//! whoever writes next. What nobody does is done at the next opening.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::disk::quietly;
use crate::sync::{AtomicBool, Mutex, Ordering, RwLock, lock};

/// One that waits.
type Removal = Box<dyn FnOnce() + Send>;

/// The right to remove files, shared by all that may.
pub struct Removals {
    /// Held shared across each removal.
    allowed: RwLock<bool>,
    /// Those that wait, oldest first; none once they are stopped.
    waiting: Mutex<Option<VecDeque<Removal>>>,
    /// Whether there are any.
    has_waiting: AtomicBool,
}

impl fmt::Debug for Removals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Removals")
    }
}

impl Removals {
    /// Removals that are allowed until they are stopped, or never.
    pub fn new(allowed: bool) -> Arc<Removals> {
        Arc::new(Removals {
            allowed: RwLock::new(allowed),
            waiting: Mutex::new(allowed.then(VecDeque::new)),
            has_waiting: AtomicBool::new(false),
        })
    }

    /// Does `removal` unless they were stopped. It must not ask again: somebody may be waiting to
    /// stop them.
    pub fn unless_stopped<T>(&self, removal: impl FnOnce() -> T) -> Option<T> {
        let allowed = self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        allowed.then(removal)
    }

    /// Leaves `removal` to whoever collects next. Waits for no removal.
    pub fn leave(&self, removal: impl FnOnce() + Send + 'static) {
        if let Some(waiting) = &mut *lock(&self.waiting) {
            waiting.push_back(Box::new(removal));
            self.has_waiting.store(true, Ordering::Release);
        }
    }

    /// Does those that wait, at most `most` of them, unless they are stopped; how many there were.
    pub fn collect(&self, most: usize) -> usize {
        let mut count = 0;
        while count < most && self.has_waiting.load(Ordering::Acquire) {
            let next = {
                let mut waiting = lock(&self.waiting);
                let next = waiting.as_mut().and_then(VecDeque::pop_front);
                let is_empty = waiting.as_ref().is_none_or(VecDeque::is_empty);
                self.has_waiting.store(!is_empty, Ordering::Release);
                next
            };
            let Some(removal) = next else { break };
            // Whoever collects has other things to do, and what is left goes at the next opening.
            self.unless_stopped(|| quietly(removal));
            count += 1;
        }
        count
    }

    /// Does a part of those that wait, at least `least`: the more wait, the more, so that they stay few
    /// however fast they come.
    pub fn collect_some(&self, least: usize) {
        if self.has_waiting.load(Ordering::Acquire) {
            let count = lock(&self.waiting).as_ref().map_or(0, VecDeque::len);
            self.collect(least.max(count / 64));
        }
    }

    /// Stops them for good. Waits for those under way.
    pub fn stop(&self) {
        *self.allowed.write().unwrap_or_else(PoisonError::into_inner) = false;
        let waiting = lock(&self.waiting).take();
        self.has_waiting.store(false, Ordering::Release);
        // Files may close, which is nothing to be locked for.
        drop(waiting);
    }
}

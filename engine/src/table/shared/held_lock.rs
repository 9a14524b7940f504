//! The lock of a session's folder, and whether its holder may still write there.

use std::sync::Arc;

use crate::disk::Lock;
use crate::error::Result;
use crate::file::removals::Removals;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// See the module.
pub struct HeldLock {
    held: Arc<Mutex<Option<Box<dyn Lock>>>>,
    /// Shared with the removals, which may find that the folder was taken.
    poisoned: Arc<AtomicBool>,
}

impl HeldLock {
    /// None in a session that only reads.
    pub fn new(held: Option<Box<dyn Lock>>) -> HeldLock {
        let poisoned = Arc::new(AtomicBool::new(false));
        HeldLock { held: Arc::new(Mutex::new(held)), poisoned }
    }

    /// Whether its holder no longer writes, since a sync failed or the folder was taken.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// Ends its holder's writing; whether that had ended.
    pub fn poison(&self) -> bool {
        self.poisoned.swap(true, Ordering::AcqRel)
    }

    /// `Poisoned` when the lock was taken.
    pub fn check(&self) -> Result<()> {
        lock(&self.held).as_ref().map_or(Ok(()), |held| held.check())
    }

    /// Whether the folder is its holder's.
    pub fn is_ours(&self) -> bool {
        lock(&self.held).as_ref().is_some_and(|held| held.check().is_ok())
    }

    /// Lets the next session have the folder.
    pub fn release(&self) {
        *lock(&self.held) = None;
    }

    /// The right to remove files as long as the folder is its holder's; else its writing ends, too.
    pub fn removals(&self) -> Arc<Removals> {
        let is_held = lock(&self.held).is_some();
        // Those that hold files may outlive the session, which is not to hold its lock as long.
        let (held, poisoned) = (Arc::downgrade(&self.held), Arc::clone(&self.poisoned));
        Removals::guarded(is_held, move || {
            let Some(held) = held.upgrade() else { return false };
            let is_ours = lock(&held).as_ref().is_some_and(|held| held.check().is_ok());
            if !is_ours {
                poisoned.store(true, Ordering::Release);
            }
            is_ours
        })
    }
}

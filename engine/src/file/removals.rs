//! Whether files may still be removed, and an end to that which waits for removals under way.
//!
//! Whoever no longer knows for sure what is durable, or gives the folder to somebody else, stops them
//! first: afterwards nothing goes any more, also by a thread that had asked before.

use std::sync::{Arc, PoisonError};

use crate::sync::RwLock;

/// The right to remove files, shared by all that may.
#[derive(Debug)]
pub struct Removals {
    /// Held shared across each removal.
    allowed: RwLock<bool>,
}

impl Removals {
    /// Removals that are allowed until they are stopped, or never.
    pub fn new(allowed: bool) -> Arc<Removals> {
        Arc::new(Removals { allowed: RwLock::new(allowed) })
    }

    /// Does `removal` unless they were stopped. It must not ask again: somebody may be waiting to
    /// stop them.
    pub fn unless_stopped<T>(&self, removal: impl FnOnce() -> T) -> Option<T> {
        let allowed = self.allowed.read().unwrap_or_else(PoisonError::into_inner);
        allowed.then(removal)
    }

    /// Stops them for good. Waits for those under way.
    pub fn stop(&self) {
        *self.allowed.write().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

//! The locks and atomics of what threads share: the standard library's, or under `cfg(shuttle)` ones
//! whose every interleaving a test may choose.

#[cfg(not(shuttle))]
pub use std::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(shuttle)]
pub use shuttle::sync::{
    Mutex, MutexGuard, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Takes `mutex`. A thread that panicked while it held the lock left nothing half done in any use
/// within this crate, so its poison is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

//! The locks and atomics of what threads share: the standard library's, or under `cfg(shuttle)` ones
//! whose every interleaving a test may choose.

#[cfg(not(shuttle))]
pub use std::sync::{
    Condvar, Mutex, MutexGuard, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(shuttle)]
pub use shuttle::sync::{
    Condvar, Mutex, MutexGuard, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Takes `mutex`. A thread that panicked while it held the lock left nothing half done in any use
/// within this crate, so its poison is ignored.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Takes `mutex` if nobody has it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => None,
    }
}

/// Waits until `condition` is signalled; gives the lock back as [`lock`] does.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs `body` under `schedules` orders of its threads' steps: the same ones each time, others and more
/// where `VARVITE_SEED` and `VARVITE_EFFORT` say so.
#[cfg(shuttle)]
#[doc(hidden)]
pub fn check_schedules(body: impl Fn() + Send + Sync + 'static, schedules: usize) {
    let setting = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seed = setting("VARVITE_SEED").unwrap_or(1);
    let effort = setting("VARVITE_EFFORT").unwrap_or(1) as usize;
    shuttle::check_random_with_seed(body, seed, schedules * effort);
}

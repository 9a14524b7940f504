//! A file that is written once and then made durable once, whoever asks for it first.
//!
//! The system tells of lost writes once: after a sync that failed, another would say that all is well.
//! So syncs of one file take turns, and after one that failed, or whose disk panicked, there is none.

use crate::error::{Error, Kind, Result};
use crate::sync::{AtomicBool, Mutex, Ordering, lock, try_lock};

/// How far a file is on its way to being durable.
#[derive(Debug)]
pub struct SyncOnce {
    is_done: AtomicBool,
    /// Whether a sync was begun and did not succeed. Held while one is under way.
    has_failed: Mutex<bool>,
}

impl SyncOnce {
    /// Of a file that is durable already, or not.
    #[must_use]
    pub fn new(is_done: bool) -> Self {
        SyncOnce { is_done: AtomicBool::new(is_done), has_failed: Mutex::new(false) }
    }

    /// Whether the file is durable. Takes no lock.
    pub fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    /// Makes the file at `path` durable by `sync`, unless it is. Waits for whoever is at it. `Poisoned`
    /// when that failed before.
    pub fn sync(&self, path: &str, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        self.sync_in_turn(&mut lock(&self.has_failed), path, sync)
    }

    /// The same unless somebody is at it; whether it had to be done, and was.
    pub fn sync_if_free(&self, path: &str, sync: impl FnOnce() -> Result<()>) -> Result<bool> {
        let turn = if self.is_done() { None } else { try_lock(&self.has_failed) };
        let Some(mut has_failed) = turn.filter(|_| !self.is_done()) else { return Ok(false) };
        self.sync_in_turn(&mut has_failed, path, sync).map(|()| true)
    }

    fn sync_in_turn(
        &self,
        has_failed: &mut bool,
        path: &str,
        sync: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if self.is_done() {
            return Ok(());
        }
        if *has_failed {
            return Err(Error::new(
                Kind::Poisoned,
                format!(
                    "a sync of {path} failed, so what it has may be lost: open the store again"
                ),
            ));
        }
        // Until it has returned, in case that it does not.
        *has_failed = true;
        sync()?;
        *has_failed = false;
        self.is_done.store(true, Ordering::Release);
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;

    #[test]
    fn a_sync_that_failed_or_panicked_is_not_tried_again() {
        let io = || Err(Error::new(Kind::Io, "no"));
        let once = SyncOnce::new(false);
        assert_eq!(once.sync("a", io).unwrap_err().kind(), Kind::Io);
        assert_eq!(once.sync("a", || Ok(())).unwrap_err().kind(), Kind::Poisoned);
        assert_eq!(once.sync_if_free("a", || Ok(())).unwrap_err().kind(), Kind::Poisoned);
        let once = SyncOnce::new(false);
        let panicking = std::panic::AssertUnwindSafe(|| once.sync("a", || panic!("a disk")));
        assert!(std::panic::catch_unwind(panicking).is_err());
        assert_eq!(once.sync("a", || Ok(())).unwrap_err().kind(), Kind::Poisoned);
        let once = SyncOnce::new(false);
        assert!(once.sync_if_free("a", || Ok(())).unwrap());
        assert!(once.is_done() && !once.sync_if_free("a", io).unwrap());
        once.sync("a", io).unwrap();
    }

    #[test]
    fn who_would_have_to_wait_may_go_on() {
        let once = SyncOnce::new(false);
        once.sync("a", || {
            assert!(!once.sync_if_free("a", || panic!("two at a time"))?);
            Ok(())
        })
        .unwrap();
        assert!(once.is_done());
    }
}

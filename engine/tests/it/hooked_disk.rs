//! A disk that tells of calls before they are made, and knows whether its lock is held.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use varvite::Result;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Open,
    Remove,
}

type Hook = Box<dyn Fn(Call, &str) + Send + Sync>;

pub struct HookedDisk {
    inner: Arc<MemoryDisk>,
    before: Hook,
    pub locked: Arc<AtomicBool>,
}

impl HookedDisk {
    pub fn new(
        inner: Arc<MemoryDisk>,
        before: impl Fn(Call, &str) + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        Self::with_lock(inner, Arc::default(), before)
    }

    /// `locked` says whether the lock is held.
    pub fn with_lock(
        inner: Arc<MemoryDisk>,
        locked: Arc<AtomicBool>,
        before: impl Fn(Call, &str) + Send + Sync + 'static,
    ) -> Arc<HookedDisk> {
        Arc::new(HookedDisk { inner, before: Box::new(before), locked })
    }
}

impl fmt::Debug for HookedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedDisk")
    }
}

#[derive(Debug)]
struct HookedLock {
    _inner: Box<dyn Lock>,
    locked: Arc<AtomicBool>,
}

impl Lock for HookedLock {}

impl Drop for HookedLock {
    fn drop(&mut self) {
        self.locked.store(false, SeqCst);
    }
}

impl Disk for HookedDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        (self.before)(Call::Open, path);
        self.inner.open(path, mode, access)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        (self.before)(Call::Remove, path);
        self.inner.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.inner.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.inner.create_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.inner.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.inner.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        let inner = self.inner.lock(path, holder)?;
        self.locked.store(true, SeqCst);
        Ok(Box::new(HookedLock { _inner: inner, locked: Arc::clone(&self.locked) }))
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.inner.link_or_copy(from, to)
    }

    fn root(&self) -> &str {
        self.inner.root()
    }
}

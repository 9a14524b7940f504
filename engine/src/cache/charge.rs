//! What of a store counts in the budget of a cache: memory beside its pages, and the pages of a file.

use std::sync::Arc;

use super::{Cache, CachedPage, PAGE};
use crate::sync::{AtomicU64, Ordering};

/// Memory kept outside the cache that counts in its budget until the charge is dropped.
#[derive(Debug)]
pub struct Charge {
    cache: Arc<Cache>,
    bytes: AtomicU64,
}

impl Charge {
    /// One of nothing yet.
    pub(super) fn new(cache: &Arc<Cache>) -> Charge {
        Charge { cache: Arc::clone(cache), bytes: AtomicU64::new(0) }
    }

    /// It is `bytes` now. Drops pages where it grew and there is no room: a lock each.
    pub fn set(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes > before {
            self.cache.take(bytes - before);
        } else {
            self.cache.charged.fetch_sub(before - bytes, Ordering::Relaxed);
        }
    }

    /// It grew by `bytes`.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.cache.take(bytes);
    }

    /// Takes over what `other` counts in the same budget, which counts nothing then.
    pub fn absorb(&self, other: &Charge) {
        self.bytes.fetch_add(other.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// One file's pages in a cache; they are dropped with it.
#[derive(Debug)]
pub struct CachedFile {
    cache: Arc<Cache>,
    file: u64,
    page_count: u32,
    /// What is kept of the file beside its pages.
    charge: Charge,
}

impl CachedFile {
    /// The pages of the file that the cache is to know as `file`, `page_count` of them.
    #[must_use]
    pub fn new(cache: &Arc<Cache>, file: u64, page_count: u32) -> Self {
        CachedFile { cache: Arc::clone(cache), file, page_count, charge: cache.charge() }
    }

    /// Counts `bytes` more that are kept of the file beside its pages, until it is dropped.
    pub fn charge(&self, bytes: u64) {
        self.charge.add(bytes);
    }

    /// See [`Cache::get`].
    #[inline]
    #[must_use]
    pub fn get(&self, page: u32) -> Option<CachedPage> {
        self.cache.get(self.file, page)
    }

    /// See [`Cache::prefetch_place`].
    #[inline]
    pub fn prefetch_place(&self, page: u32) {
        self.cache.prefetch_place(self.file, page);
    }

    /// See [`Cache::prefetch`].
    #[inline]
    pub fn prefetch(&self, page: u32) {
        self.cache.prefetch(self.file, page);
    }

    /// See [`Cache::peek`].
    #[must_use]
    pub fn peek(&self, page: u32) -> Option<CachedPage> {
        self.cache.peek(self.file, page)
    }

    /// See [`Cache::insert`]; of the page before the one that comes next.
    pub fn insert(&mut self, page: u32, bytes: &[u8; PAGE]) {
        self.page_count = self.page_count.max(page + 1);
        self.cache.insert(self.file, page, bytes);
        self.cache.prefetch_place(self.file, page + 1);
    }

    /// See [`Cache::insert`]; of a page below the count. Also whether the cache keeps the page, which counts
    /// in its budget then.
    #[must_use]
    pub fn hold(&self, page: u32, bytes: &[u8; PAGE]) -> (CachedPage, bool) {
        let held = self.cache.insert(self.file, page, bytes);
        let is_kept = Arc::strong_count(&held.0) > 1;
        (held, is_kept)
    }

    /// See [`Cache::insert`]; of a page below the count.
    pub fn keep(&self, page: u32, bytes: &[u8; PAGE]) {
        self.cache.insert(self.file, page, bytes);
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        self.cache.forget(self.file, self.page_count);
    }
}

//! What every table, view and merge of a session shares: the disk, the segments, the readers.
//!
//! Segments are counted: a run or a snapshot's pin holds each, and the file goes when the last of
//! them does, unless the session was closed or poisoned meanwhile. Then it stays, and the next open
//! removes it after every manifest was read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::options::{Executor, Observer, Operation, SessionOptions};
use super::paths;
use super::run::Run;
use super::run_reader::RunReader;
use super::segment::{Segment, SegmentMeta};
use super::segment_builder::{Finished, SegmentBuilder};
use super::stats::Counters;
use crate::cache::Cache;
use crate::disk::{Buffer, Disk, Lock, Queue};
use crate::error::{Error, Kind, Result};
use crate::file::shared::SharedFile;
use crate::format::hash::combine;

/// See the module.
pub struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) options: SessionOptions,
    /// The store's identity, from which files derive theirs.
    pub(super) identity: u64,
    /// Of the filters of new segments.
    pub(super) salt: u64,
    pub(super) read_only: bool,
    pub(super) counters: Counters,
    /// Files are no longer removed: the session is closed or poisoned.
    keep_files: Arc<AtomicBool>,
    closed: AtomicBool,
    poisoned: AtomicBool,
    next_segment: AtomicU64,
    segments: Mutex<HashMap<u64, Weak<Segment>>>,
    scratches: Mutex<Vec<Scratch>>,
    lock: Mutex<Option<Box<dyn Lock>>>,
}

/// What a lookup needs and keeps for the next one.
pub struct Scratch {
    pub queue: Box<dyn Queue>,
    /// Reads under way: the key's index gives segment, first page and level.
    pub waiting: HashMap<usize, (Arc<Segment>, u32, usize)>,
    buffers: Vec<Buffer>,
}

impl Scratch {
    /// A buffer of at least `length` bytes.
    pub fn buffer(&mut self, length: usize) -> Buffer {
        match self.buffers.pop() {
            Some(buffer) if buffer.capacity() >= length => buffer,
            _ => Buffer::new(length),
        }
    }

    /// Keeps a buffer for the next read, unless it is large.
    pub fn give_back(&mut self, buffer: Buffer) {
        if buffer.capacity() <= 4 * super::page::PAGE_BYTES {
            self.buffers.push(buffer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each of these holds a collection that is whole between any two calls on it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    pub fn new(
        disk: Arc<dyn Disk>,
        options: SessionOptions,
        (identity, salt): (u64, u64),
        next_segment: u64,
        lock: Option<Box<dyn Lock>>,
    ) -> Arc<Self> {
        Arc::new(Store {
            disk,
            options,
            identity,
            salt,
            read_only: lock.is_none(),
            counters: Counters::default(),
            keep_files: Arc::new(AtomicBool::new(lock.is_none())),
            closed: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            next_segment: AtomicU64::new(next_segment),
            segments: Mutex::new(HashMap::new()),
            scratches: Mutex::new(Vec::new()),
            lock: Mutex::new(lock),
        })
    }

    pub fn executor(&self) -> Option<&Arc<dyn Executor>> {
        self.options.executor.as_ref()
    }

    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.options.cache.as_ref()
    }

    /// Runs `action` and tells the observer, if there is one, how long it took.
    pub fn observe<T>(
        &self,
        operation: Operation,
        count: u64,
        action: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(observer) = &self.options.observer else { return action() };
        let observer: &dyn Observer = &**observer;
        let start = observer.now_ns();
        let outcome = action();
        observer.record(operation, observer.now_ns().saturating_sub(start), count);
        outcome
    }

    /// `Closed` once the session is.
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::new(
                Kind::Closed,
                format!("the session at {} was closed: open it again", self.disk.root()),
            ));
        }
        Ok(())
    }

    /// `Closed`, `Poisoned`, or `Invalid` for a read-only session.
    pub fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(Error::invalid(format!(
                "the session at {} is open for reading only: open it for writing",
                self.disk.root()
            )));
        }
        if self.poisoned.load(Ordering::Acquire) {
            return Err(Error::new(
                Kind::Poisoned,
                format!(
                    "a sync failed earlier, so the session at {} takes no more writes: \
                     fix the disk, then open the session again",
                    self.disk.root()
                ),
            ));
        }
        Ok(())
    }

    /// Stops all writing: what was synced is what there is.
    pub fn poison(&self) {
        self.poisoned.store(true, Ordering::Release);
        self.keep_files.store(true, Ordering::Release);
    }

    /// Ends the session: later calls give `Closed`, files are no longer removed, the lock is free.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.keep_files.store(true, Ordering::Release);
        lock(&self.scratches).clear();
        *lock(&self.lock) = None;
    }

    /// A builder of a new segment.
    pub fn build_segment(&self, filter_bits: u8) -> Result<SegmentBuilder> {
        let id = self.next_segment.fetch_add(1, Ordering::Relaxed);
        SegmentBuilder::new(
            &*self.disk,
            &paths::segment(id),
            id,
            combine(self.identity, id),
            self.identity,
            self.salt,
            filter_bits,
            self.options.access,
        )
    }

    /// The segment that a builder finished.
    pub fn adopt(&self, finished: Finished) -> Arc<Segment> {
        self.counters.segment_written_bytes.fetch_add(finished.meta.file_bytes, Ordering::Relaxed);
        let id = finished.meta.id;
        let file = self.shared_file(id, Some(Arc::clone(&finished.file)));
        let segment = Arc::new(Segment::adopt(finished, file));
        lock(&self.segments).insert(id, Arc::downgrade(&segment));
        segment
    }

    fn shared_file(&self, id: u64, handle: Option<Arc<dyn crate::disk::File>>) -> Arc<SharedFile> {
        let path = paths::segment(id);
        let keep = Arc::clone(&self.keep_files);
        SharedFile::new(Arc::clone(&self.disk), path, self.options.access, handle, keep)
    }

    /// The segment that a manifest names, with its footer checked. Opened once however many runs
    /// share it.
    pub fn open_segment(&self, meta: &SegmentMeta) -> Result<Arc<Segment>> {
        let mut segments = lock(&self.segments);
        if let Some(segment) = segments.get(&meta.id).and_then(Weak::upgrade) {
            return Ok(segment);
        }
        segments.retain(|_, segment| segment.strong_count() > 0);
        let segment = Arc::new(Segment::open(meta.clone(), self.shared_file(meta.id, None))?);
        segments.insert(meta.id, Arc::downgrade(&segment));
        Ok(segment)
    }

    /// A reader of `run` from the first key after `after`.
    pub fn read_run(&self, run: &Arc<Run>, after: Option<&[u8]>) -> Result<RunReader> {
        RunReader::new(run, after)
    }

    /// A scratch that an earlier lookup left, or a new one.
    pub fn take_scratch(&self) -> Result<Scratch> {
        if let Some(scratch) = lock(&self.scratches).pop() {
            return Ok(scratch);
        }
        let queue = self.disk.queue(self.options.queue_depth.max(1))?;
        Ok(Scratch { queue, waiting: HashMap::new(), buffers: Vec::new() })
    }

    /// Keeps a scratch with nothing under way for the next lookup.
    pub fn put_scratch(&self, scratch: Scratch) {
        assert!(scratch.queue.pending() == 0, "a scratch is kept only when its reads are done");
        if !self.closed.load(Ordering::Acquire) {
            lock(&self.scratches).push(scratch);
        }
    }
}

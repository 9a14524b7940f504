//! What a host chooses: for a session, for a table, for opening a snapshot.

use std::fmt;
use std::sync::Arc;

use crate::cache::Cache;
use crate::disk::Access;
use crate::error::{Error, Result};
use crate::table::bytes::operator::MergeOperator;
use crate::trace::Recorder;

/// A segment ends before it grows beyond this many bytes of pages, unless one entry is larger.
pub const SEGMENT_BYTES: u64 = 16 << 20;

/// Runs work that the engine could also do itself, usually on another thread.
///
/// The engine starts no thread. With an executor, merges are helped along beside the writer; without
/// one the same operations and seed give the same bytes.
///
/// ```
/// use std::sync::{Arc, mpsc};
/// use varvite::{Executor, SessionOptions};
///
/// type Work = Box<dyn FnOnce() + Send>;
/// struct Worker(mpsc::Sender<Work>);
///
/// impl Executor for Worker {
///     fn execute(&self, work: Work) {
///         // Without a receiver the work is dropped, which is safe.
///         let _ = self.0.send(work);
///     }
/// }
///
/// let (sender, receiver) = mpsc::channel::<Work>();
/// std::thread::spawn(move || receiver.into_iter().for_each(|work| work()));
/// let executor: Arc<dyn Executor> = Arc::new(Worker(sender));
/// let options = SessionOptions { executor: Some(executor), ..SessionOptions::default() };
/// ```
pub trait Executor: Send + Sync {
    /// Runs `work` at some time, once. Dropping it instead is safe: the writer then does it.
    fn execute(&self, work: Box<dyn FnOnce() + Send>);
}

/// What an [`Observer`] is told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// A batch lookup; the count is its keys.
    Lookup,
    /// An update; the count is its operations.
    Update,
    /// Merge and write-out work; the count is its counted work in bytes.
    Merge,
    /// A snapshot saved; the count is its segments.
    SaveSnapshot,
    /// A snapshot opened; the count is its segments.
    OpenSnapshot,
    /// The wait for the log in an update; the count is the update's operations.
    Log,
    /// A checkpoint written; the count is its live tables.
    Checkpoint,
    /// The value of one key, by `get`; the count is 1.
    Get,
    /// Steps of a cursor, of a range or of a count in one direction, told when they end; the count is the keys that
    /// they gave. The time is that of the steps alone, for the later ones by those of them that are timed; what they read is
    /// not told.
    Range,
    /// A transaction from its begin to its end, whether it was committed or not, with what the host did meanwhile; the
    /// count is the operations that it wrote. Its reads and its commit are told by themselves as well.
    Transaction,
    /// A table made, or opened with its part of the log; the count is 1, and of `open_all` its tables.
    OpenTable,
    /// A table duplicated; the count is 1. Its name is that of the copy.
    Duplicate,
    /// A live table deleted; the count is 1. The drop of a handle is not told: what it sets free goes with a later write.
    DeleteTable,
}

/// Gets counts and timings by the host's own clock.
///
/// It is called on the thread that called the engine, so it should be quick.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Instant;
/// use varvite::{Batch, Observer, Operation, Session, SessionOptions, TableOptions};
/// use varvite::disk::memory::MemoryDisk;
///
/// struct Updates(Instant, AtomicU64);
///
/// impl Observer for Updates {
///     fn now_ns(&self) -> u64 {
///         self.0.elapsed().as_nanos() as u64
///     }
///     fn record(&self, operation: Operation, _duration_ns: u64, count: u64) {
///         if operation == Operation::Update {
///             self.1.fetch_add(count, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let updates = Arc::new(Updates(Instant::now(), AtomicU64::new(0)));
/// let options = SessionOptions { observer: Some(updates.clone()), ..SessionOptions::default() };
/// let session = Session::create(MemoryDisk::seeded(1), options)?;
/// let mut table = session.create_table("t", TableOptions::default())?;
/// table.update(Batch::new().insert(b"a", b"1").delete(b"b"))?;
/// assert_eq!(updates.1.load(Ordering::Relaxed), 2);
/// # Ok::<(), varvite::Error>(())
/// ```
pub trait Observer: Send + Sync {
    /// The host's clock, in nanoseconds from any fixed point.
    fn now_ns(&self) -> u64;

    /// `operation` on `count` things took `duration_ns`.
    fn record(&self, operation: Operation, duration_ns: u64, count: u64);

    /// The same with the table's name and what it cost, which is what the engine calls.
    fn observe(&self, observed: &Observed<'_>) {
        self.record(observed.operation, observed.duration_ns, observed.count);
    }
}

/// An operation as an [`Observer`] is told of it. When several threads use one session at once, each
/// operation is told what all of them cost meanwhile.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Observed<'a> {
    /// What it was.
    pub operation: Operation,
    /// The table; empty for what is done to several, or to the session.
    pub table: &'a str,
    /// By the host's clock.
    pub duration_ns: u64,
    /// Things that it was done to.
    pub count: u64,
    /// What it cost.
    pub cost: OperationCost,
}

/// What an operation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OperationCost {
    /// Pages that lookups read from the disk.
    pub pages_read: u64,
    /// Pages that lookups found in the cache.
    pub cache_hits: u64,
    /// Bytes that lookups and merges read: pages, large values, segments.
    pub bytes_read: u64,
    /// Bytes written: buffers, merges, snapshots, loads, the log.
    pub bytes_written: u64,
    /// Time in syncs of the log, of segments and of blob files, in nanoseconds.
    pub sync_ns: u64,
}

impl OperationCost {
    /// What was added since `before`.
    pub(in crate::table) fn since(&self, before: &OperationCost) -> OperationCost {
        OperationCost {
            pages_read: self.pages_read - before.pages_read,
            cache_hits: self.cache_hits - before.cache_hits,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_written: self.bytes_written - before.bytes_written,
            sync_ns: self.sync_ns - before.sync_ns,
        }
    }
}

/// What is promised of an update of a live table when it returns.
///
/// A table is live when it was made by [`crate::Session::create_table`] in a session with a log, or
/// by [`crate::Session::publish`]; [`crate::Session::open_table`] finds it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// Nothing: what was not saved in a snapshot is gone when the session ends. For chains that can
    /// be replayed. There are no live tables.
    #[default]
    None,
    /// It outlives the process, however that ends. A power cut may take the newest updates, never
    /// one without all later ones. One write an update.
    Written,
    /// It outlives a power cut. One write and one sync an update, shared by threads that update
    /// different tables at the same time.
    Synced,
}

/// How a session is opened.
#[derive(Clone)]
pub struct SessionOptions {
    /// From what identity and salt of a new session follow, and the identities of the blob files of
    /// each opening. `None` has the disk draw it ([`crate::disk::Disk::entropy`]); only tests give it.
    /// `Some(0)` is refused. No two stores may have the same, nor two openings of a store and its copy.
    pub seed: Option<u64>,
    /// Whether lookups and merges go past the operating system's page cache.
    pub access: Access,
    /// The memory of the session, in one number: write buffers, filters, indexes and merges are charged
    /// to the cache's budget, and pages have what is left. Several sessions may share one. Best with
    /// [`Access::Direct`]; without a cache the system's page cache holds pages, and the rest is bounded
    /// by the tables' options.
    pub cache: Option<Arc<Cache>>,
    /// How many page reads a lookup keeps in flight.
    pub queue_depth: usize,
    /// The most segment and blob files that are open, beside those that are being written and the log.
    /// `None`: all sessions and context stores of the process together have as many open as the system
    /// lets the process have, less 256, or less half where that is fewer; 512 on a disk that does not
    /// know. What was not used for longest is closed, and opened again at its next use, which checks that
    /// it is the same file.
    pub max_open_files: Option<usize>,
    /// Bytes of pages at which a segment file ends, at most 4 GiB. Smaller ones give space back sooner
    /// and lose less of a merge that is interrupted, and make more files.
    pub segment_bytes: u64,
    /// What is promised of updates.
    pub log: Log,
    /// Bytes of a log file at which the next one begins and a checkpoint is written. Reopening
    /// replays about this much, and the write buffers; the log takes up to about three times it.
    pub log_file_bytes: u64,
    /// Helps merges, if given.
    pub executor: Option<Arc<dyn Executor>>,
    /// Gets timings, if given.
    pub observer: Option<Arc<dyn Observer>>,
    /// Writes down every call, if given.
    pub recorder: Option<Arc<Recorder>>,
}

impl SessionOptions {
    /// The same within `bytes` of memory for everything: it reads past the system's page cache, through a cache
    /// of its own with that budget. [`TableOptions::within_memory`] with a quarter of it or less leaves most
    /// to pages.
    ///
    /// ```
    /// use varvite::{Log, SessionOptions, TableOptions};
    ///
    /// let session = SessionOptions { log: Log::Synced, ..SessionOptions::default() }.within_memory(256 << 20);
    /// let table = TableOptions::utxo().within_memory(64 << 20);
    /// assert_eq!(session.cache.map(|cache| cache.budget_bytes()), Some(256 << 20));
    /// assert_eq!(table.write_buffer_bytes, 8 << 20);
    /// ```
    #[must_use]
    pub fn within_memory(mut self, bytes: u64) -> Self {
        self.access = Access::Direct;
        self.cache = Some(Cache::new(bytes));
        self
    }
}

impl Default for SessionOptions {
    fn default() -> Self {
        SessionOptions {
            seed: None,
            access: Access::Buffered,
            cache: None,
            queue_depth: 64,
            max_open_files: None,
            segment_bytes: SEGMENT_BYTES,
            log: Log::None,
            log_file_bytes: 64 << 20,
            executor: None,
            observer: None,
            recorder: None,
        }
    }
}

impl fmt::Debug for SessionOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionOptions")
            .field("seed", &self.seed)
            .field("access", &self.access)
            .field("cache", &self.cache.is_some())
            .field("queue_depth", &self.queue_depth)
            .field("max_open_files", &self.max_open_files)
            .field("segment_bytes", &self.segment_bytes)
            .field("log", &self.log)
            .field("log_file_bytes", &self.log_file_bytes)
            .field("executor", &self.executor.is_some())
            .field("observer", &self.observer.is_some())
            .field("recorder", &self.recorder)
            .finish()
    }
}

/// What most lookups of a table will find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookups {
    /// Often nothing: every level has a filter.
    #[default]
    Mixed,
    /// Nearly always a value, as in a `UTxO` set: the last level has no filter, which saves most of
    /// the filter memory; a key that is not there costs one page read more.
    MostlyHit,
}

/// Whether pages of a table are compressed on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Pages are stored as they are.
    #[default]
    None,
    /// Each page is compressed by LZ4 where that saves an eighth of it or more: for values that are alike,
    /// at the price of one to two microseconds a page that is read from disk. Segments are written so
    /// from now on; older ones stay as they are until they are merged.
    Fast,
}

/// Longer values than this less one are never in runs.
pub const BLOB_MIN_BYTES_MAX: u32 = (64 << 10) + 1;

/// How a table is made. Recorded with its snapshots.
///
/// ```
/// use varvite::{MergeOperator, TableOptions};
///
/// let options = TableOptions::utxo().within_memory(64 << 20).with_operator(MergeOperator::add_u64());
/// assert_eq!(options.write_buffer_bytes, 8 << 20);
/// let odd = TableOptions { size_ratio: 8, filter_bits: 10, ..options };
/// # let session = varvite::Session::create(
/// #     varvite::disk::memory::MemoryDisk::seeded(1), varvite::SessionOptions::default())?;
/// session.create_table("t", odd)?;
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// Bytes of entries (key + value + 16 each) gathered in memory before a run is written. A table
    /// holds a quarter more, and more where one update fills several buffers or merges are paused.
    pub write_buffer_bytes: u64,
    /// Runs of a level that are merged into one of the next: 2 to 16.
    pub size_ratio: u32,
    /// What lookups find.
    pub lookups: Lookups,
    /// Filter bits an entry above the last level: 0 (none) or 4 to 24.
    pub filter_bits: u8,
    /// Most bytes of filters that all levels together may take; beyond it, deeper levels get leaner
    /// filters, down to none. Range filters, which segments with a filter have, come on top where ranges
    /// are read: at most three quarters of a byte an entry.
    pub filter_bytes_max: u64,
    /// Values of at least so many bytes (32 to 65,537) are stored once in blob files beside the runs,
    /// and merges copy references only; shorter ones lie in the runs. `None`: those above 64 KiB.
    pub blob_min_bytes: Option<u32>,
    /// Whether pages are compressed.
    pub compression: Compression,
    /// How upserts join older values; without one, upserts are refused.
    pub operator: Option<MergeOperator>,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            write_buffer_bytes: 8 << 20,
            size_ratio: 4,
            lookups: Lookups::Mixed,
            filter_bits: 14,
            filter_bytes_max: 256 << 20,
            blob_min_bytes: None,
            compression: Compression::None,
            operator: None,
        }
    }
}

impl TableOptions {
    /// The configuration for a `UTxO` set: outputs that are looked up are there.
    #[must_use]
    pub fn utxo() -> Self {
        TableOptions {
            lookups: Lookups::MostlyHit,
            write_buffer_bytes: 6 << 20,
            size_ratio: 8,
            filter_bits: 12,
            ..Self::default()
        }
    }

    /// The same within `bytes` of memory: an eighth for the active write buffer and up to as much again for sealed
    /// ones, a third for filters, a sixth for range filters where ranges are read; the rest is for indexes (one
    /// fifth of a byte an entry) and merges (about 2 MiB each). A cache is counted apart. A table so large that its
    /// filters get leaner for it has range filters of up to as much again as these.
    #[must_use]
    pub fn within_memory(mut self, bytes: u64) -> Self {
        self.write_buffer_bytes = (bytes / 8).max(64 << 10);
        self.filter_bytes_max = bytes / 3;
        self
    }

    /// The same with or without compression of pages.
    #[must_use]
    pub fn with_compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// The same with `operator` for upserts.
    #[must_use]
    pub fn with_operator(mut self, operator: MergeOperator) -> Self {
        self.operator = Some(operator);
        self
    }

    /// Values of at least so many bytes are stored in blob files.
    pub(in crate::table) fn blob_min(&self) -> u32 {
        self.blob_min_bytes.unwrap_or(BLOB_MIN_BYTES_MAX)
    }

    pub(in crate::table) fn check(&self) -> Result<()> {
        let bits = self.filter_bits;
        if !(32..=BLOB_MIN_BYTES_MAX).contains(&self.blob_min()) {
            return Err(Error::invalid(format!(
                "blob_min_bytes is {}; choose 32 to {BLOB_MIN_BYTES_MAX}, or none",
                self.blob_min()
            )));
        }
        if !(2..=16).contains(&self.size_ratio) {
            return Err(Error::invalid(format!(
                "size_ratio is {}; choose 2 to 16",
                self.size_ratio
            )));
        }
        if bits != 0 && !(4..=24).contains(&bits) {
            return Err(Error::invalid(format!("filter_bits is {bits}; choose 0 or 4 to 24")));
        }
        if !(64..=1 << 40).contains(&self.write_buffer_bytes) {
            return Err(Error::invalid(format!(
                "write_buffer_bytes is {}; choose 64 bytes to 1 TiB",
                self.write_buffer_bytes
            )));
        }
        Ok(())
    }
}

/// How much is checked when a snapshot is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// The manifest and every segment's footer; pages are checked when they are read.
    #[default]
    Quick,
    /// Every byte of every file.
    Full,
}

/// How a snapshot is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenSnapshot {
    /// How much is checked first.
    pub verify: Verify,
    /// The label that it must have, if given.
    pub label: Option<String>,
    /// Merge operators by name, beside the built-in ones.
    pub operators: Vec<MergeOperator>,
}

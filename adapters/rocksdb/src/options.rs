//! How databases are opened, read and written.
//!
//! What tunes the peer's own ways of compressing, flushing and compacting is taken and does nothing: each
//! such method says so in one word, "ignored". Most of them are in `tuning.rs`.

use std::sync::Arc;

use varvite::{Log, Lookups, SessionOptions, TableOptions};

use crate::error::Error;
use crate::prefixes::{IterateBounds, SliceTransform};
use crate::reads::DBAccess;
use crate::shared::Moment;
use crate::snapshot::SnapshotWithThreadMode;

/// How blocks are compressed: nothing is, under this adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // names of algorithms
pub enum DBCompressionType {
    None,
    Snappy,
    Zlib,
    Bz2,
    Lz4,
    Lz4hc,
    Zstd,
}

/// How runs are merged: varvite has one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // names of strategies
pub enum DBCompactionStyle {
    Level,
    Universal,
    Fifo,
}

/// The peer's environment of threads, of which varvite has none.
#[derive(Clone, Debug)]
pub struct Env(());

impl Env {
    /// The environment.
    pub fn new() -> Result<Env, Error> {
        Ok(Env(()))
    }
}

/// The memory of a database, by its budget. Databases that are opened with one share it.
#[derive(Clone)]
pub struct Cache(Arc<varvite::cache::Cache>);

impl Cache {
    /// At most `capacity` bytes: pages, filters, indexes and write buffers.
    #[must_use]
    pub fn new_lru_cache(capacity: usize) -> Cache {
        Cache(varvite::cache::Cache::new(capacity as u64))
    }

    /// The same; the second number is not needed here.
    #[must_use]
    pub fn new_hyper_clock_cache(capacity: usize, _entry_bytes: usize) -> Cache {
        Cache::new_lru_cache(capacity)
    }

    /// The same, of the capacity in `options`.
    #[must_use]
    pub fn new_lru_cache_opts(options: &LruCacheOptions) -> Cache {
        Cache::new_lru_cache(options.capacity)
    }

    /// Bytes that are taken now.
    #[must_use]
    pub fn get_usage(&self) -> usize {
        let stats = self.0.stats();
        (stats.bytes + stats.charged_bytes) as usize
    }
}

/// How large a cache is.
#[derive(Clone, Debug, Default)]
pub struct LruCacheOptions {
    capacity: usize,
}

impl LruCacheOptions {
    /// At most `capacity` bytes.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Ignored: varvite divides it.
    pub fn set_num_shard_bits(&mut self, _bits: i32) {}
}

/// How the runs are laid out.
#[derive(Clone, Default)]
pub struct BlockBasedOptions {
    cache: Option<Cache>,
}

impl BlockBasedOptions {
    /// Reads go past the system's page cache, through this one.
    pub fn set_block_cache(&mut self, cache: &Cache) {
        self.cache = Some(cache.clone());
    }

    /// Reads go through the system's page cache.
    pub fn disable_cache(&mut self) {
        self.cache = None;
    }

    /// Ignored: pages have 4 KiB.
    pub fn set_block_size(&mut self, _bytes: usize) {}

    /// Ignored: varvite has its own filters.
    pub fn set_bloom_filter(&mut self, _bits_per_key: f64, _block_based: bool) {}

    /// Ignored: filters and indexes are always charged to the cache.
    pub fn set_cache_index_and_filter_blocks(&mut self, _is_cached: bool) {}
}

/// How a database, or a column family, is opened or made.
#[derive(Clone, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a choice of its own
pub struct Options {
    pub(crate) creates: bool,
    pub(crate) creates_families: bool,
    pub(crate) must_be_new: bool,
    pub(crate) prefix: Option<SliceTransform>,
    write_buffer_bytes: Option<u64>,
    open_files_max: Option<usize>,
    log_bytes_max: Option<u64>,
    cache: Option<Cache>,
    history_bytes: Option<u64>,
    expects_hits: bool,
    blob_min_bytes: Option<u32>,
}

macro_rules! ignored {
    ($($(#[$note:meta])* $name:ident($($argument:ident: $kind:ty),*);)*) => {
        $($(#[$note])* pub fn $name(&mut self, $($argument: $kind),*) {})*
    };
}

impl Options {
    /// Makes the database where there is none.
    pub fn create_if_missing(&mut self, creates: bool) {
        self.creates = creates;
    }

    /// Makes the column families that are named and not there.
    pub fn create_missing_column_families(&mut self, creates: bool) {
        self.creates_families = creates;
    }

    /// Refuses to open a database that is there.
    pub fn set_error_if_exists(&mut self, is_error: bool) {
        self.must_be_new = is_error;
    }

    /// Which prefix a key has, for iterators that end with it.
    pub fn set_prefix_extractor(&mut self, prefix: SliceTransform) {
        self.prefix = Some(prefix);
    }

    /// Bytes of entries gathered in memory before they are written out; a column family has up to two such
    /// buffers. Varvite's own number is 8 MiB.
    pub fn set_write_buffer_size(&mut self, bytes: usize) {
        self.write_buffer_bytes = Some(bytes as u64);
    }

    /// How many files are open at once; below 0 as many as the process may.
    pub fn set_max_open_files(&mut self, files: i32) {
        self.open_files_max = usize::try_from(files).ok();
    }

    /// How much the log takes on disk.
    pub fn set_max_total_wal_size(&mut self, bytes: u64) {
        self.log_bytes_max = (bytes > 0).then_some(bytes);
    }

    /// Bytes of memory for what is written while optimistic transactions are open, by which their commits find
    /// conflicts; the oldest go first, and a transaction that needs them fails with `TryAgain`. Without it, or
    /// with 0 or less, two write buffers.
    pub fn set_max_write_buffer_size_to_maintain(&mut self, bytes: i64) {
        self.history_bytes = u64::try_from(bytes).ok().filter(|bytes| *bytes > 0);
    }

    /// Takes the cache from it.
    pub fn set_block_based_table_factory(&mut self, factory: &BlockBasedOptions) {
        self.cache.clone_from(&factory.cache);
    }

    /// Most reads find something: the last level has no filter.
    pub fn set_optimize_filters_for_hits(&mut self, expects_hits: bool) {
        self.expects_hits = expects_hits;
    }

    /// Values of at least so many bytes lie beside the runs: 32 to 65,537, and the nearest of these for others.
    pub fn set_min_blob_size(&mut self, bytes: u64) {
        self.blob_min_bytes = Some(bytes.clamp(32, 65_537) as u32);
    }

    ignored! {
        /// Ignored: varvite has no threads.
        set_env(_env: &Env);
        /// Ignored: varvite has no threads.
        increase_parallelism(_threads: i32);
        /// Ignored: varvite has no threads.
        set_max_background_jobs(_jobs: i32);
        /// Ignored: tables of this adapter are not compressed.
        set_compression_type(_kind: DBCompressionType);
        /// Ignored: tables of this adapter are not compressed.
        set_bottommost_compression_type(_kind: DBCompressionType);
        /// Ignored: varvite has one way of merging.
        set_compaction_style(_style: DBCompactionStyle);
        /// Ignored: varvite has one way of merging.
        optimize_level_style_compaction(_bytes: usize);
        /// Ignored: varvite has one way of merging.
        set_level_compaction_dynamic_level_bytes(_is_dynamic: bool);
        /// Ignored: varvite has one way of merging.
        set_level_zero_file_num_compaction_trigger(_files: i32);
        /// Ignored: updates merge what they owe, and never stop.
        set_level_zero_slowdown_writes_trigger(_files: i32);
        /// Ignored: updates merge what they owe, and never stop.
        set_level_zero_stop_writes_trigger(_files: i32);
        /// Ignored: there are two.
        set_max_write_buffer_number(_buffers: i32);
        /// Ignored: one is written out at a time.
        set_min_write_buffer_number_to_merge(_buffers: i32);
        /// Ignored: a segment has 16 MiB.
        set_target_file_size_base(_bytes: u64);
        /// Ignored: levels follow from their runs.
        set_max_bytes_for_level_base(_bytes: u64);
        /// Ignored: values beside the runs follow from their length alone.
        set_enable_blob_files(_is_enabled: bool);
        /// Ignored: varvite keeps no log of messages.
        set_keep_log_file_num(_files: usize);
        /// Ignored: syncs follow from the durability of the writes.
        set_bytes_per_sync(_bytes: u64);
        /// Ignored: syncs follow from the durability of the writes.
        set_wal_bytes_per_sync(_bytes: u64);
        /// Ignored: a sync is what the system needs.
        set_use_fsync(_is_used: bool);
        /// Ignored: checksums are always checked.
        set_paranoid_checks(_are_checked: bool);
        /// Ignored: the system chooses.
        set_advise_random_on_open(_is_random: bool);
    }

    pub(crate) fn session(&self) -> SessionOptions {
        let mut options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
        options.max_open_files = self.open_files_max;
        if let Some(bytes) = self.log_bytes_max {
            // The log takes up to about three of its files.
            options.log_file_bytes = (bytes / 3).max(1 << 20);
        }
        if let Some(Cache(cache)) = &self.cache {
            options.cache = Some(Arc::clone(cache));
            options.access = varvite::disk::Access::Direct;
        }
        options
    }

    pub(crate) fn history_bytes(&self) -> u64 {
        let buffer = || self.table().write_buffer_bytes;
        self.history_bytes.unwrap_or_else(|| buffer().saturating_mul(2))
    }

    pub(crate) fn table(&self) -> TableOptions {
        let mut options = TableOptions::default();
        if let Some(bytes) = self.write_buffer_bytes {
            options.write_buffer_bytes = bytes.clamp(64, 1 << 40);
        }
        if self.expects_hits {
            options.lookups = Lookups::MostlyHit;
        }
        options.blob_min_bytes = self.blob_min_bytes;
        options
    }
}

/// How something is written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    pub(crate) is_synced: bool,
}

impl WriteOptions {
    /// To the operating system: it outlives the process.
    #[must_use]
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// To the disk: it outlives a power cut.
    pub fn set_sync(&mut self, is_synced: bool) {
        self.is_synced = is_synced;
    }

    /// Ignored: every write goes to the log.
    pub fn disable_wal(&mut self, _is_disabled: bool) {}
}

/// How something is read.
#[derive(Clone, Default)]
pub struct ReadOptions {
    pub(crate) lower: Option<Vec<u8>>,
    pub(crate) upper: Option<Vec<u8>>,
    pub(crate) ends_with_prefix: bool,
    pub(crate) is_total: bool,
    pub(crate) moment: Option<Moment>,
}

impl ReadOptions {
    /// Iterators begin at this key or after it.
    pub fn set_iterate_lower_bound<K: Into<Vec<u8>>>(&mut self, key: K) {
        self.lower = Some(key.into());
    }

    /// Iterators end before this key.
    pub fn set_iterate_upper_bound<K: Into<Vec<u8>>>(&mut self, key: K) {
        self.upper = Some(key.into());
    }

    /// Both bounds; those that the range does not have are none.
    pub fn set_iterate_range(&mut self, range: impl IterateBounds) {
        (self.lower, self.upper) = range.into_bounds();
    }

    /// Iterators end with the prefix of the key that they sought, where the column family has prefixes.
    pub fn set_prefix_same_as_start(&mut self, ends: bool) {
        self.ends_with_prefix = ends;
    }

    /// Iterators go over all prefixes.
    pub fn set_total_order_seek(&mut self, is_total: bool) {
        self.is_total = is_total;
    }

    /// Reads are of the moment of `snapshot`.
    pub fn set_snapshot<D: DBAccess>(&mut self, snapshot: &SnapshotWithThreadMode<'_, D>) {
        self.moment = snapshot.moment().cloned();
    }

    ignored! {
        /// Ignored: what is read stays in the cache as long as there is room.
        fill_cache(_is_filled: bool);
        /// Ignored: checksums are always checked.
        set_verify_checksums(_are_verified: bool);
        /// Ignored: scans read ahead by themselves.
        set_readahead_size(_bytes: usize);
        /// Ignored: reads of a batch go out together.
        set_async_io(_is_async: bool);
        /// Ignored: an iterator holds the pages that it stands in.
        set_pin_data(_is_pinned: bool);
    }
}

/// How an optimistic transaction is begun.
#[derive(Clone, Debug, Default)]
pub struct OptimisticTransactionOptions {
    pub(crate) has_snapshot: bool,
}

impl OptimisticTransactionOptions {
    /// Without a snapshot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With a snapshot of the moment when it begins: what others write after that is in its way.
    pub fn set_snapshot(&mut self, has_snapshot: bool) {
        self.has_snapshot = has_snapshot;
    }
}

//! Options that tune the peer's own ways: they are taken and change nothing, so that a program that sets them compiles.
//!
//! Only what is harmless to leave out is here. What decides which data there is, such as a comparator or a compaction
//! filter, is not: without it a program would run and be wrong.

use std::path::Path;

use crate::options::{
    BlockBasedOptions, Cache, DBCompressionType, Env, Options, ReadOptions, WriteOptions,
};

/// Methods that take their arguments and do nothing, each group for a reason.
macro_rules! ignored {
    ($($reason:literal: $($name:ident($($kind:ty),*))*;)*) => {
        $($(
            #[doc = concat!("Ignored: ", $reason, ".")]
            #[allow(clippy::needless_pass_by_value)] // the peer's shape
            pub fn $name(&mut self, $(_: $kind),*) {}
        )*)*
    };
}

/// Enums of options that are ignored.
macro_rules! choices {
    ($($(#[$note:meta])* $name:ident { $($case:ident,)* })*) => {
        $(
            $(#[$note])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[allow(missing_docs)] // names of the peer's ways
            pub enum $name { $($case,)* }
        )*
    };
}

choices! {
    /// How the log is read after a crash: varvite has one way.
    DBRecoveryMode { TolerateCorruptedTailRecords, AbsoluteConsistency, PointInTime, SkipAnyCorruptedRecord, }
    /// Which files are merged first: varvite merges whole runs.
    CompactionPri { ByCompensatedSize, OldestLargestSeqFirst, OldestSmallestSeqFirst, MinOverlappingRatio, RoundRobin, }
    /// What a log of messages has: varvite keeps none.
    LogLevel { Debug, Info, Warn, Error, Fatal, Header, }
    /// How blocks are found in a run: varvite has one way.
    BlockBasedIndexType { BinarySearch, HashSearch, TwoLevelIndexSearch, }
    /// How entries are found in a block: varvite has one way.
    DataBlockIndexType { BinarySearch, BinaryAndHash, }
    /// What stays in memory: varvite's cache decides.
    BlockBasedTablePinningTier { Fallback, None, FlushAndSimilar, All, }
    /// How blocks are summed: varvite has CRC-32C.
    ChecksumType { NoChecksum, CRC32c, XXHash, XXHash64, XXH3, }
    /// When universal compaction stops: varvite has one way of merging.
    UniversalCompactionStopStyle { Similar, Total, }
    /// What a compaction does with the last level: varvite does what is owed.
    BottommostLevelCompaction { Skip, IfHaveCompactionFilter, Force, ForceOptimized, }
}

/// How keys lie in a plain table: varvite has one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // names of the peer's ways
pub enum KeyEncodingType {
    #[default]
    Plain,
    Prefix,
}

/// How entries in memory are kept: varvite has one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // names of the peer's ways
pub enum MemtableFactory {
    Vector,
    HashSkipList { bucket_count: usize, height: i32, branching_factor: i32 },
    HashLinkList { bucket_count: usize },
}

/// What plain tables are like: varvite has none.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // names of the peer's ways
pub struct PlainTableFactoryOptions {
    pub user_key_length: u32,
    pub bloom_bits_per_key: i32,
    pub hash_table_ratio: f64,
    pub index_sparseness: usize,
    pub huge_page_tlb_size: usize,
    pub encoding_type: KeyEncodingType,
    pub full_scan_mode: bool,
    pub store_index_in_file: bool,
}

/// What cuckoo tables are like: varvite has none.
#[derive(Clone, Debug, Default)]
pub struct CuckooTableOptions(());

impl CuckooTableOptions {
    ignored! {
        "varvite has no such tables":
        set_hash_ratio(f64)
        set_max_search_depth(u32)
        set_cuckoo_block_size(u32)
        set_identity_as_first_hash(bool)
        set_use_module_hash(bool);
    }
}

/// What universal compaction is like: varvite has one way of merging.
#[derive(Clone, Debug, Default)]
pub struct UniversalCompactOptions(());

impl UniversalCompactOptions {
    ignored! {
        "varvite has one way of merging":
        set_size_ratio(i32)
        set_min_merge_width(i32)
        set_max_merge_width(i32)
        set_max_size_amplification_percent(i32)
        set_compression_size_percent(i32)
        set_stop_style(UniversalCompactionStopStyle);
    }
}

/// How a compaction goes that is asked for.
#[derive(Clone, Debug, Default)]
pub struct CompactOptions(());

impl CompactOptions {
    ignored! {
        "it does the merging that is owed":
        set_exclusive_manual_compaction(bool)
        set_bottommost_level_compaction(BottommostLevelCompaction)
        set_change_level(bool)
        set_target_level(i32);
    }
}

/// How compactions are waited for.
#[derive(Clone, Debug, Default)]
pub struct WaitForCompactOptions(());

impl WaitForCompactOptions {
    ignored! {
        "nothing runs that could be waited for":
        set_abort_on_pause(bool)
        set_flush(bool)
        set_timeout(u64);
    }
}

/// How a flush goes.
#[derive(Clone, Debug, Default)]
pub struct FlushOptions(());

impl FlushOptions {
    /// Those of [`FlushOptions::default`].
    #[must_use]
    pub fn new() -> FlushOptions {
        FlushOptions::default()
    }

    ignored! {
        "a flush is done when its call returns":
        set_wait(bool);
    }
}

impl Env {
    ignored! {
        "varvite has no threads":
        set_background_threads(i32)
        set_high_priority_background_threads(i32)
        set_low_priority_background_threads(i32)
        set_bottom_priority_background_threads(i32)
        join_all_threads()
        lower_thread_pool_io_priority()
        lower_high_priority_thread_pool_io_priority()
        lower_thread_pool_cpu_priority()
        lower_high_priority_thread_pool_cpu_priority();
    }
}

impl BlockBasedOptions {
    ignored! {
        "varvite has its own filters":
        set_ribbon_filter(f64)
        set_hybrid_ribbon_filter(f64, i32)
        set_whole_key_filtering(bool)
        set_partition_filters(bool)
        set_optimize_filters_for_memory(bool);

        "varvite's cache decides what stays":
        set_pin_l0_filter_and_index_blocks_in_cache(bool)
        set_pin_top_level_index_and_filter(bool)
        set_top_level_index_pinning_tier(BlockBasedTablePinningTier)
        set_partition_pinning_tier(BlockBasedTablePinningTier)
        set_unpartitioned_pinning_tier(BlockBasedTablePinningTier);

        "varvite has its own format":
        set_format_version(i32)
        set_block_restart_interval(i32)
        set_index_block_restart_interval(i32)
        set_metadata_block_size(usize)
        set_index_type(BlockBasedIndexType)
        set_data_block_index_type(DataBlockIndexType)
        set_data_block_hash_ratio(f64)
        set_checksum_type(ChecksumType);
    }
}

impl Options {
    ignored! {
        "varvite has no threads":
        set_max_background_compactions(i32)
        set_max_background_flushes(i32)
        set_max_subcompactions(u32)
        set_max_file_opening_threads(i32);

        "lookups are what varvite's filters are for":
        optimize_for_point_lookup(u64);

        "varvite has one way of merging":
        optimize_universal_style_compaction(usize)
        set_universal_compaction_options(&UniversalCompactOptions)
        set_compaction_pri(CompactionPri)
        set_num_levels(i32)
        set_max_bytes_for_level_multiplier(f64)
        set_max_bytes_for_level_multiplier_additional(&[i32])
        set_target_file_size_multiplier(i32)
        set_max_compaction_bytes(u64)
        set_periodic_compaction_seconds(u64)
        add_compact_on_deletion_collector_factory(usize, usize, f64);

        "updates merge what they owe, a bounded amount each":
        set_disable_auto_compactions(bool)
        prepare_for_bulk_load()
        set_soft_pending_compaction_bytes_limit(usize)
        set_hard_pending_compaction_bytes_limit(usize)
        set_ratelimiter(i64, i64, i32)
        set_auto_tuned_ratelimiter(i64, i64, i32);

        "tables of this adapter are not compressed":
        set_compression_options(i32, i32, i32, i32)
        set_bottommost_compression_options(i32, i32, i32, i32, bool)
        set_compression_options_parallel_threads(i32)
        set_compression_per_level(&[DBCompressionType])
        set_zstd_max_train_bytes(i32)
        set_bottommost_zstd_max_train_bytes(i32, bool)
        set_min_level_to_compress(i32)
        set_wal_compression_type(DBCompressionType)
        set_blob_compression_type(DBCompressionType);

        "varvite has its own format":
        set_cuckoo_table_factory(&CuckooTableOptions)
        set_plain_table_factory(&PlainTableFactoryOptions);

        "varvite has one write buffer, and two while one is written out":
        set_memtable_factory(MemtableFactory)
        set_memtable_huge_page_size(usize)
        set_memtable_prefix_bloom_ratio(f64)
        set_memtable_whole_key_filtering(bool)
        set_min_write_buffer_number(i32)
        set_db_write_buffer_size(usize)
        set_arena_block_size(usize)
        set_bloom_locality(u32)
        set_inplace_update_support(bool)
        set_inplace_update_locks(usize)
        set_max_successive_merges(usize);

        "writers come one after the other":
        set_allow_concurrent_memtable_write(bool)
        set_enable_write_thread_adaptive_yield(bool)
        set_enable_pipelined_write(bool)
        set_unordered_write(bool)
        set_use_adaptive_mutex(bool);

        "column families have one log, and stand or fall together":
        set_atomic_flush(bool);

        "every write is handed to the system before its call returns":
        set_manual_wal_flush(bool);

        "all is in the folder of the database":
        set_wal_dir(impl AsRef<Path>)
        set_db_log_dir(impl AsRef<Path>);

        "varvite has its own log":
        set_wal_recovery_mode(DBRecoveryMode)
        set_wal_ttl_seconds(u64)
        set_wal_size_limit_mb(u64)
        set_recycle_log_file_num(usize)
        set_track_and_verify_wals_in_manifest(bool)
        set_manifest_preallocation_size(usize)
        set_max_manifest_file_size(usize)
        set_write_dbid_to_manifest(bool);

        "varvite keeps no log of messages":
        set_log_level(LogLevel)
        set_log_file_time_to_roll(usize)
        set_max_log_file_size(usize)
        set_stats_dump_period_sec(u32)
        set_stats_persist_period_sec(u32)
        set_dump_malloc_stats(bool);

        "varvite counts without being asked":
        enable_statistics()
        set_report_bg_io_stats(bool)
        set_skip_stats_update_on_db_open(bool);

        "a cache has reads go past the system's, and without one they go through it":
        set_use_direct_reads(bool)
        set_use_direct_io_for_flush_and_compaction(bool)
        set_allow_mmap_reads(bool)
        set_allow_mmap_writes(bool)
        set_allow_os_buffer(bool)
        set_compaction_readahead_size(usize)
        set_writable_file_max_buffer_size(u64);

        "there is one cache, that of the tables":
        set_row_cache(&Cache)
        set_blob_cache(&Cache)
        set_table_cache_num_shard_bits(i32);

        "varvite chooses":
        set_is_fd_close_on_exec(bool)
        set_delete_obsolete_files_period_micros(u64)
        set_avoid_unnecessary_blocking_io(bool)
        set_skip_checking_sst_file_sizes_on_db_open(bool)
        set_max_sequential_skip_in_iterations(u64);

        "varvite has its own rule for files with dead values":
        set_blob_file_size(u64)
        set_enable_blob_gc(bool)
        set_blob_gc_age_cutoff(f64)
        set_blob_gc_force_threshold(f64)
        set_blob_compaction_readahead_size(u64);
    }
}

impl WriteOptions {
    ignored! {
        "a write does its share of the merging and waits for no other":
        set_no_slowdown(bool)
        set_low_pri(bool);

        "varvite has its own write buffer":
        set_memtable_insert_hint_per_batch(bool);
    }
}

impl ReadOptions {
    ignored! {
        "scans read ahead by themselves":
        set_auto_readahead_size(bool);

        "varvite has no threads":
        set_background_purge_on_iterator_cleanup(bool);

        "an iterator goes on until it finds something":
        set_max_skippable_internal_keys(u64);

        "what was deleted is never shown":
        set_ignore_range_deletions(bool);
    }
}

//! `RocksDB`, as someone would tune it who knows that keys are uniform and lookups nearly always hit.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyRef, DB, DBCompressionType, DBRawIterator,
    DataBlockIndexType, Options, ReadOptions, SliceTransform, WaitForCompactOptions, WriteBatch,
    WriteOptions,
};

use crate::draw::{Key, VALUE};
use crate::engine::{Answer, Each, Engine, Result, Spec, Terms};
use crate::outputs::{PREFIX_BYTES, Prefix};

/// Version and where it comes from.
pub const VERSION: &str = "RocksDB 10.4.2 (crate rocksdb 0.24.0)";
/// Options that shape files.
pub const FILLED_BY: &[&str] =
    &["memtable_mib", "bloom_bits", "ribbon", "hash_index", "all_filters"];
/// Options that do not.
pub const RUN_BY: &[&str] = &["cache_mib", "direct", "mmap", "jobs", "memtable_bloom", "async"];

const MIB: usize = 1 << 20;
/// The only column family: batched lookups want one by name.
const COLUMN: &str = "default";

struct Store {
    db: DB,
    reading: ReadOptions,
    writing: WriteOptions,
    is_async: bool,
}

/// Opens or makes the database in `path`.
pub fn open(path: &Path, spec: &Spec, terms: &Terms) -> Result<Box<dyn Engine>> {
    let options = options(spec, terms);
    let db = DB::open_cf_with_opts(&options, path, [(COLUMN, options.clone())])?;
    let mut reading = ReadOptions::default();
    let is_async = spec.is_on("async", true);
    reading.set_async_io(is_async);
    let mut writing = WriteOptions::default();
    writing.disable_wal(!terms.synced);
    writing.set_sync(terms.synced);
    Ok(Box::new(Store { db, reading, writing, is_async }))
}

fn options(spec: &Spec, terms: &Terms) -> Options {
    let limited = terms.limit_bytes.is_some();
    // Twice the data at first, so that nothing is ever pushed out; in a limit, what is left beside
    // two memtables and what compactions use.
    let data_mib = terms.entries * 100 / MIB as u64 + 1;
    let cache_mib = spec.option("cache_mib", if limited { 300 } else { (data_mib * 2).max(64) });
    let memtable_mib = spec.option("memtable_mib", 64) as usize;
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(&Cache::new_hyper_clock_cache(cache_mib as usize * MIB, 0));
    let bits = spec.option("bloom_bits", 10) as f64;
    if spec.is_on("ribbon", false) {
        table.set_ribbon_filter(bits);
    } else {
        table.set_bloom_filter(bits, false);
    }
    table.set_format_version(6);
    if spec.is_on("hash_index", true) {
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
    }
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    if terms.ranges {
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(PREFIX_BYTES));
    }
    options.set_compression_type(DBCompressionType::None);
    options.set_optimize_filters_for_hits(!spec.is_on("all_filters", false));
    options.set_write_buffer_size(memtable_mib * MIB);
    options.set_max_write_buffer_number(if limited { 2 } else { 3 });
    options.set_memtable_whole_key_filtering(true);
    options.set_memtable_prefix_bloom_ratio(spec.option("memtable_bloom", 10) as f64 / 100.0);
    options.set_allow_concurrent_memtable_write(false);
    options.set_enable_pipelined_write(terms.synced);
    options.set_max_background_jobs(spec.option("jobs", 2) as i32);
    options.set_max_bytes_for_level_base(4 * memtable_mib as u64 * MIB as u64);
    options.set_bytes_per_sync(MIB as u64);
    options.set_max_open_files(-1);
    options.set_stats_dump_period_sec(0);
    options.set_use_direct_reads(spec.is_on("direct", limited));
    options.set_use_direct_io_for_flush_and_compaction(spec.is_on("direct", limited));
    options.set_allow_mmap_reads(spec.is_on("mmap", false));
    options
}

impl Store {
    /// How ranges over transactions are read: filters of prefixes are not asked.
    fn ranging(&self) -> ReadOptions {
        let mut reading = ReadOptions::default();
        reading.set_total_order_seek(true);
        reading.set_async_io(self.is_async);
        reading
    }

    fn column(&self) -> ColumnFamilyRef<'_> {
        self.db.cf_handle(COLUMN).expect("every database has this column family")
    }
}

/// What `entries` gives from where it stands; raw, since the other iterator copies keys and values.
fn give(entries: &mut DBRawIterator, length: usize, backward: bool, each: Each) -> Result<()> {
    for _ in 0..length {
        let Some((key, value)) = entries.item() else { break };
        each(key, value);
        if backward {
            entries.prev();
        } else {
            entries.next();
        }
    }
    Ok(entries.status()?)
}

impl Engine for Store {
    fn lookup(&mut self, keys: &[Key], answer: Answer) -> Result<()> {
        let found = self.db.batched_multi_get_cf_opt(&self.column(), keys, false, &self.reading);
        for value in found {
            answer(value?.as_deref());
        }
        Ok(())
    }

    fn batch(&mut self, spent: &[Key], fresh: &[Key], answer: Answer) -> Result<()> {
        self.lookup(spent, answer)?;
        let mut batch = WriteBatch::default();
        for key in spent {
            batch.delete(key);
        }
        for key in fresh {
            batch.put(key, VALUE);
        }
        self.db.write_opt(batch, &self.writing)?;
        Ok(())
    }

    fn range(&mut self, from: &Key, length: usize, each: Each) -> Result<()> {
        let mut entries = self.db.raw_iterator_opt(self.ranging());
        entries.seek(from);
        give(&mut entries, length, false, each)
    }

    fn prefix(&mut self, prefix: &Prefix, each: Each) -> Result<()> {
        let mut reading = ReadOptions::default();
        reading.set_prefix_same_as_start(true); // and filters are asked for the prefix
        let mut entries = self.db.raw_iterator_opt(reading);
        entries.seek(prefix);
        give(&mut entries, usize::MAX, false, each)
    }

    fn scan(&mut self, backward: bool, each: Each) -> Result<()> {
        let mut entries = self.db.raw_iterator_opt(self.ranging());
        if backward {
            entries.seek_to_last();
        } else {
            entries.seek_to_first();
        }
        give(&mut entries, usize::MAX, backward, each)
    }

    fn settle(self: Box<Self>) -> Result<()> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        self.db.wait_for_compact(&wait)?;
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}

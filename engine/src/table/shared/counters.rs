//! What a session counts: lookups, filters by level, and bytes by purpose.

use std::sync::atomic::{AtomicU64, Ordering};

use super::options::OperationCost;
use crate::table::bytes::PAGE_BYTES;
use crate::table::runs::blob::HeldBlob;

/// What a merge is for, in the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A sealed write buffer becomes a run.
    WriteOut,
    /// Runs become one.
    Merge,
    /// An active write buffer is kept in a snapshot.
    Snapshot,
    /// A sorted stream becomes a table.
    Load,
}

/// Levels counted one by one; deeper ones count with the last.
pub const LEVELS_COUNTED: usize = 16;

/// What one lookup counted at one level.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelLookupCounts {
    pub probes: u64,
    pub passes: u64,
    pub false_passes: u64,
}

/// What one lookup counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookupCounts {
    pub keys: u64,
    pub page_reads: u64,
    pub cache_hits: u64,
    pub levels: [LevelLookupCounts; LEVELS_COUNTED],
}

impl LookupCounts {
    #[inline]
    pub fn level(&mut self, level: usize) -> &mut LevelLookupCounts {
        &mut self.levels[level.min(LEVELS_COUNTED - 1)]
    }
}

#[derive(Debug, Default)]
struct LevelCounters {
    probes: AtomicU64,
    passes: AtomicU64,
    false_passes: AtomicU64,
}

/// Counters of a session, added to by every reader and merge.
#[derive(Debug, Default)]
pub struct Counters {
    keys: AtomicU64,
    blob_reads: AtomicU64,
    blob_read_bytes: AtomicU64,
    blob_written_bytes: AtomicU64,
    page_reads: AtomicU64,
    cache_hits: AtomicU64,
    levels: [LevelCounters; LEVELS_COUNTED],
    merge_read_bytes: AtomicU64,
    write_out_bytes: AtomicU64,
    merge_written_bytes: AtomicU64,
    snapshot_written_bytes: AtomicU64,
    load_written_bytes: AtomicU64,
    log_records: AtomicU64,
    log_written_bytes: AtomicU64,
    log_syncs: AtomicU64,
    checkpoints: AtomicU64,
    /// Only where there is an observer, whose clock it is by.
    sync_ns: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub fn add_lookup(&self, counts: &LookupCounts) {
        add(&self.keys, counts.keys);
        add(&self.page_reads, counts.page_reads);
        add(&self.cache_hits, counts.cache_hits);
        for (counter, count) in self.levels.iter().zip(&counts.levels) {
            add(&counter.probes, count.probes);
            add(&counter.passes, count.passes);
            add(&counter.false_passes, count.false_passes);
        }
    }

    pub fn add_blobs(&self, blobs: &[HeldBlob]) {
        add(&self.blob_reads, blobs.len() as u64);
        add(&self.blob_read_bytes, blobs.iter().map(|blob| blob.span.length).sum());
    }

    pub fn add_blob_written(&self, bytes: u64) {
        add(&self.blob_written_bytes, bytes);
    }

    pub fn add_merge_read(&self, bytes: u64) {
        add(&self.merge_read_bytes, bytes);
    }

    pub fn add_written(&self, purpose: Purpose, bytes: u64) {
        let counter = match purpose {
            Purpose::WriteOut => &self.write_out_bytes,
            Purpose::Merge => &self.merge_written_bytes,
            Purpose::Snapshot => &self.snapshot_written_bytes,
            Purpose::Load => &self.load_written_bytes,
        };
        add(counter, bytes);
    }

    pub fn add_log_record(&self) {
        add(&self.log_records, 1);
    }

    /// One write of the log, or one sync of it, or both.
    pub fn add_log_write(&self, bytes: u64, is_synced: bool) {
        add(&self.log_written_bytes, bytes);
        add(&self.log_syncs, is_synced.into());
    }

    /// A checkpoint of so many bytes.
    pub fn add_checkpoint(&self, bytes: u64) {
        add(&self.checkpoints, 1);
        add(&self.snapshot_written_bytes, bytes);
    }

    /// A sync that took `duration_ns`.
    pub fn add_sync(&self, duration_ns: u64) {
        add(&self.sync_ns, duration_ns);
    }

    /// What an observer is told the growth of.
    pub fn cost(&self) -> OperationCost {
        let pages_read = load(&self.page_reads);
        OperationCost {
            pages_read,
            cache_hits: load(&self.cache_hits),
            bytes_read: pages_read * PAGE_BYTES as u64
                + load(&self.blob_read_bytes)
                + load(&self.merge_read_bytes),
            bytes_written: load(&self.write_out_bytes)
                + load(&self.merge_written_bytes)
                + load(&self.snapshot_written_bytes)
                + load(&self.load_written_bytes)
                + load(&self.log_written_bytes),
            sync_ns: load(&self.sync_ns),
        }
    }

    pub fn read(&self) -> SessionStats {
        let filters = self.levels.iter().map(|level| FilterStats {
            probes: load(&level.probes),
            passes: load(&level.passes),
            false_passes: load(&level.false_passes),
        });
        SessionStats {
            keys_looked_up: load(&self.keys),
            blobs_read: load(&self.blob_reads),
            blob_read_bytes: load(&self.blob_read_bytes),
            blob_written_bytes: load(&self.blob_written_bytes),
            pages_read: load(&self.page_reads),
            cache_hits: load(&self.cache_hits),
            merge_read_bytes: load(&self.merge_read_bytes),
            write_out_bytes: load(&self.write_out_bytes),
            merge_written_bytes: load(&self.merge_written_bytes),
            snapshot_written_bytes: load(&self.snapshot_written_bytes),
            load_written_bytes: load(&self.load_written_bytes),
            log_records: load(&self.log_records),
            log_written_bytes: load(&self.log_written_bytes),
            log_syncs: load(&self.log_syncs),
            checkpoints: load(&self.checkpoints),
            spare_bytes: 0,
            filters: filters.collect(),
        }
    }
}

/// What a session counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStats {
    /// Keys looked up.
    pub keys_looked_up: u64,
    /// Values that were read from blob files, by lookups, cursors, references and merges.
    pub blobs_read: u64,
    /// Bytes of these values.
    pub blob_read_bytes: u64,
    /// Bytes written to blob files, which are counted by their purpose below, too.
    pub blob_written_bytes: u64,
    /// Pages of 4 KiB that lookups read from disk.
    pub pages_read: u64,
    /// Pages that lookups found in the cache instead.
    pub cache_hits: u64,
    /// Bytes that merges read.
    pub merge_read_bytes: u64,
    /// Bytes that write-outs of sealed buffers wrote.
    pub write_out_bytes: u64,
    /// Bytes that merges wrote.
    pub merge_written_bytes: u64,
    /// Bytes that snapshots and checkpoints wrote: manifests, and what active buffers held.
    pub snapshot_written_bytes: u64,
    /// Bytes that loading wrote, sorting included.
    pub load_written_bytes: u64,
    /// Updates that the log took.
    pub log_records: u64,
    /// Bytes that the log wrote.
    pub log_written_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Bytes of files that merges are done with and that are kept to be written over. They are on disk
    /// beside what tables and snapshots have.
    pub spare_bytes: u64,
    /// How the filters of each level did, youngest first.
    pub filters: Vec<FilterStats>,
}

impl SessionStats {
    /// All bytes written, the log apart.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.write_out_bytes
            + self.merge_written_bytes
            + self.snapshot_written_bytes
            + self.load_written_bytes
    }
}

/// How the filters of a level did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterStats {
    /// Keys asked for.
    pub probes: u64,
    /// Of these, those that it let pass.
    pub passes: u64,
    /// Pages of the level searched in vain, also where it has no filter.
    pub false_passes: u64,
}

impl FilterStats {
    /// The measured share of absent keys that passed; `None` before any was asked for.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        let absent = self.probes.checked_sub(self.passes)? + self.false_passes;
        (absent > 0).then(|| self.false_passes as f64 / absent as f64)
    }
}

//! What calls answer with beside bytes: numbers by name.

use pyo3::prelude::*;

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[pyclass(frozen, get_all, eq, module = "varvite")]
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        #[pymethods]
        impl $name {
            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let fields = [$(stringify!($field)),*];
                let mut told = Vec::new();
                for field in fields {
                    told.push(format!("{field}={}", slf.getattr(field)?.repr()?));
                }
                Ok(format!("{}({})", stringify!($name), told.join(", ")))
            }
        }
    )*};
}

answers! {
    /// What a cache did and holds.
    CacheStats {
        hits: u64, misses: u64, evictions: u64, pages: u64, bytes: u64, charged_bytes: u64,
    }
    /// How the filters of a level did.
    FilterStats { probes: u64, passes: u64, false_passes: u64, }
    /// What a session counted since it was opened.
    SessionStats {
        keys_looked_up: u64, pages_read: u64, cache_hits: u64, blobs_read: u64, blob_read_bytes: u64,
        blob_written_bytes: u64, merge_read_bytes: u64, written_bytes: u64, write_out_bytes: u64,
        merge_written_bytes: u64, snapshot_written_bytes: u64, load_written_bytes: u64, log_records: u64,
        log_written_bytes: u64, log_syncs: u64, checkpoints: u64, filters: Vec<FilterStats>,
    }
    /// One level of a table.
    LevelStats {
        runs: u64, segments: u64, entries: u64, disk_bytes: u64, filter_bytes: u64, is_last: bool,
    }
    /// A merge or a write-out under way.
    MergeStats { level: Option<u64>, is_union: bool, spent_bytes: u64, debt_bytes: u64, }
    /// What a table consists of at one moment.
    TableStats {
        name: String, levels: Vec<LevelStats>, merges: Vec<MergeStats>, debt_bytes: u64, union_debt_bytes: u64,
        physical_entries: u64, disk_bytes: u64, blob_files: u64, blob_disk_bytes: u64, blob_bytes: u64,
        logical_entries: u64, logical_entries_min: u64, logical_entries_max: u64, buffer_bytes: u64,
        filter_memory_bytes: u64, index_memory_bytes: u64,
    }
    /// What a listing says of a snapshot.
    SnapshotInfo {
        name: String, label: String, sequence: u64, payload_bytes: u64, disk_bytes: u64, tables: Vec<String>,
        damage: Option<String>,
    }
    /// What an export or an import moved.
    Transferred { segments: u64, bytes: u64, copied_bytes: u64, }
    /// What a backup has: what came, and what an earlier one had brought.
    BackedUp { tables: u64, moved: Transferred, kept: Transferred, log_records: u64, log_bytes: u64, }
    /// Something that a repair did not keep, or not all of: of a segment the keys between which entries are missing or
    /// older, both included.
    Loss {
        file: String, detail: String, snapshots: Vec<String>, live_tables: Vec<String>,
        keys: Option<(Vec<u8>, Vec<u8>)>, entries: u64,
    }
    /// A live table that a repair kept.
    RepairedTable { name: String, log_records: u64, left_out: u64, is_whole: bool, ends_within_update: bool, }
    /// What a repair kept and lost.
    Repaired {
        session_was_lost: bool, snapshots: Vec<String>, live_tables: Vec<RepairedTable>, losses: Vec<Loss>,
        moved: Transferred, log_records: u64, log_records_behind: u64,
    }
    /// Something that is wrong in a session's files.
    Finding { file: String, detail: String, snapshots: Vec<String>, live_tables: Vec<String>, }
    /// A commit that is in a store.
    Commit {
        hash: Vec<u8>, tree: Vec<u8>, parents: Vec<Vec<u8>>, date: i64, author: Vec<u8>, message: Vec<u8>,
        sequence: u64,
    }
    /// What was checked, and what is wrong with the index and with what is above of chunks in the lower folder.
    Checked {
        commits: u64, nodes: u64, values: u64, collected: u64, index_faults: Vec<String>, part_faults: Vec<String>,
        missing: Vec<String>,
    }
    /// What a store did and holds.
    StoreStats {
        commits: u64, objects: u64, pack_bytes: u64, index_bytes: u64, written_bytes: u64, syncs: u64,
        index_syncs: u64, objects_bytes: u64, chunks: u64, epoch: u64, generation: u64,
    }
    /// How far a collection is: `phase` is "none", "marking" or "cleaning".
    CollectStatus {
        phase: String, is_paused: bool, target: Option<Vec<u8>>, chunks_left: u64, left_bytes: u64,
        reclaimed_bytes: u64, collections: u64,
    }
    /// What a snapshot of commits holds.
    CommitFile {
        commit: Vec<u8>, commits: u64, values: u64, directories: u64, leaves: u64, branches: u64, repeats: u64,
        stream_bytes: u64, bytes: u64, hash: Vec<u8>,
    }
    /// How far the work on a file of commits is; `total` is not known while it is written.
    CommitFileProgress { bytes: u64, total: Option<u64>, }
    /// What an operation of a context cost.
    Cost {
        bytes_read: u64, bytes_written: u64, node_hits: u64, node_misses: u64, page_hits: u64, page_misses: u64,
        sync_ns: u64,
    }
    /// How far a migration is.
    Migrated {
        commits: u64, present: u64, collected: u64, unindexed: u64, changes: u64, branches: u64, offset: u64,
        end: u64,
    }
    /// What an export wrote.
    Exported { commits: u64, objects: u64, bytes: u64, branches: u64, }
    /// What a proof shows and hides.
    ProofSummary {
        values: u64, value_bytes: u64, hidden_values: u64, directories: u64, names: u64,
        hidden_directories: u64, hidden_pieces: u64,
    }
}

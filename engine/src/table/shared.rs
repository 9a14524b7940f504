//! What all tables, views and merges of one session share.
//!
//! The [`SegmentStore`] makes, opens, counts, syncs and removes segments and blob files; [`Pins`] know
//! which durable thing names which file; beside them the options, the counters and the names of files.
//! Relies on `runs` for what is in the files.

mod counters;
mod created;
mod held_lock;
mod observing;
mod options;
pub mod paths;
mod pins;
mod scratch;
mod segment_store;
mod unsynced;

pub use counters::{FilterStats, LookupCounts, Purpose, SessionStats};
pub use created::{CreatedName, CreatedNames};
pub use observing::{Named, Opening};
pub use options::{
    BLOB_MIN_BYTES_MAX, Compression, Executor, Log, Lookups, Observed, Observer, OpenSnapshot,
    Operation, OperationCost, SEGMENT_BYTES, SessionOptions, TableOptions, Verify,
};
pub use paths::tell_doubt;
pub use pins::{Files, PinnedFiles, Pins};
pub use scratch::Scratch;
pub use segment_store::SegmentStore;
pub use unsynced::Unsynced;

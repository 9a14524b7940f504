//! The table face: sorted maps from byte keys to byte values, on disk, at full speed.
//!
//! A [`Session`] is a folder; it holds any number of [`Table`]s. Updates gather in a write buffer,
//! are written out as runs and merged level by level, in steps that updates pay for. What is durable
//! is snapshots. Design: `docs/design/table.md`.

mod batch;
mod blob;
mod buffer_filter;
mod buffer_layer;
mod buffer_stream;
pub mod check;
mod checkpoint;
mod counters;
mod cursor;
mod entry;
mod filter;
mod folder;
mod handle;
mod index;
pub mod inspect;
#[cfg(all(test, shuttle))]
mod interleavings;
mod key_range;
mod levels;
mod live;
mod loader;
mod log;
mod log_files;
mod log_record;
mod lookup;
mod merge;
mod merge_job;
mod operator;
mod options;
mod output;
mod page;
mod paths;
mod pins;
mod range_delete;
pub mod raw;
mod run;
mod run_builder;
mod run_place;
mod run_reader;
mod segment;
mod segment_builder;
mod session;
mod snapshot;
mod sorter;
mod stats;
mod store;
mod transfer;
mod union;
mod union_merge;
mod value;
mod verify;
mod view;
mod write_buffer;

pub use batch::{Batch, Values};
pub use counters::{FilterStats, SessionStats};
pub use cursor::Cursor;
pub use entry::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use handle::Table;
pub use loader::{LoadOrder, Loader};
pub use operator::MergeOperator;
pub use options::{
    Executor, Log, Lookups, Observer, OpenSnapshot, Operation, SessionOptions, TableOptions, Verify,
};
pub use session::{OpenTable, Session, Snapshot, SnapshotContent};
pub use snapshot::{SnapshotInfo, SnapshotTable};
pub use stats::{LevelStats, MergeStats, TableStats};
pub use transfer::Transferred;
pub use value::{Value, ValueWriter};
pub use view::View;

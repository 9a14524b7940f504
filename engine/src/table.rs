//! The table face: sorted maps from byte keys to byte values, on disk, at full speed.
//!
//! A [`Session`] is a folder; it holds any number of [`Table`]s. Updates gather in a write buffer,
//! are written out as runs and merged level by level, in steps that updates pay for. What is durable
//! is snapshots. Design: `docs/design/table.md`.

mod buffer;
mod bytes;
mod durable;
#[cfg(all(test, shuttle))]
mod interleavings;
mod merge;
mod read;
mod runs;
mod session;
mod shared;
mod tools;
mod write;

pub use buffer::Batch;
pub use bytes::operator::{MergeOperator, UnknownOperator};
pub use bytes::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use durable::snapshot::{SnapshotInfo, SnapshotTable};
pub use read::stats::{LevelStats, MergeStats, TableStats};
pub use read::{Bytes, Cursor, KeyBounds, Keys, Range, Value, ValueWriter, Values, View};
pub use session::{
    BackedUp, Follower, LoadOrder, Loader, NotShared, OpenTable, Session, Snapshot,
    SnapshotContent, Tables, Transaction, Transferred, Views,
};
pub use shared::{
    Compression, Executor, FilterStats, Log, Lookups, Observed, Observer, OpenSnapshot, Operation,
    OperationCost, SessionOptions, SessionStats, TableOptions, Verify,
};
pub(crate) use tools::raw;
pub use tools::{check, inspect, repair, scrub};
pub use write::Table;

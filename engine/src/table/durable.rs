//! What survives a crash: snapshots, the log, and the checkpoint of the live tables.
//!
//! A snapshot is one manifest; opening turns its records back into the shape of a table. The log has
//! each update of a live table; the checkpoint says where each table begins in it, and
//! [`LiveTables`] keeps both in step with the tables. Every write and sync of these files:
//! `docs/design/durability.md`. Relies on `read` for the state that a checkpoint records.

mod checkpoint;
pub mod folder;
mod live_tables;
mod log;
mod log_copy;
pub mod log_files;
mod log_record;
mod opening;
pub mod snapshot;
pub mod verify;

pub use checkpoint::{
    Checkpoint, CheckpointTag, LiveRecord, Origin, ShapeCut, read_checkpoint, read_tag,
};
pub use live_tables::{Frozen, LiveTables, LiveWriter, Opened, Pace, TableState, no_live_table};
pub use log::{LogFile, LogPlace, LogWriter, scan};
pub use log_copy::LogCopy;
pub use log_record::{
    LogEnd, LogPoint, LogRecord, encode_begin, encode_delete_range, encode_update,
};
pub use opening::open_parts;

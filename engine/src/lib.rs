//! varvite: an embeddable storage engine for blockchain ledger state.

pub mod cache;
pub mod context;
pub mod disk;
pub mod error;
pub mod file;
pub mod format;
pub mod irmin_pack;
pub mod outline;
mod prefetch;
pub mod proof;
pub mod sync;
pub mod table;

pub use error::{Error, Kind, Result};
pub use table::raw;
pub use table::{
    BackedUp, Batch, Bytes, Cursor, Executor, Follower, KeyBounds, Keys, LoadOrder, Loader, Log,
    Lookups, MergeOperator, Observer, OpenSnapshot, OpenTable, Operation, Range, Session,
    SessionOptions, SessionStats, Snapshot, SnapshotContent, SnapshotInfo, Table, TableOptions,
    TableStats, Tables, Transaction, Transferred, Value, ValueWriter, Values, Verify, View, Views,
};

/// The examples of the README and of the guide compile and run with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/guide/table.md")]
    struct Guide;
    #[doc = include_str!("../../docs/guide/backup.md")]
    struct Backups;
    #[doc = include_str!("../../docs/guide/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../../docs/guide/coming-from-irmin.md")]
    struct ComingFromIrmin;
    #[doc = include_str!("../../docs/guide/proofs.md")]
    struct Proofs;
}

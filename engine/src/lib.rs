//! varvite: an embeddable storage engine for blockchain ledger state. One engine, two faces.
//!
//! **A table** maps keys to values, for a chain's outputs, stakes, indexes. A folder is a [`Session`] of tables; a
//! [`Batch`] is applied whole or not at all, and with a log it is there after a crash. Reads wait for nobody.
//!
//! ```
//! use varvite::{Batch, Log, Session, SessionOptions, TableOptions};
//!
//! # let temporary = tempfile::tempdir().expect("a folder for temporary files");
//! # let folder = temporary.path().join("ledger");
//! let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
//! let session = Session::open_or_create(folder, options)?;
//! let tables = session.open_or_create_tables([("utxo", TableOptions::utxo())])?; // `Clone + Send + Sync`
//!
//! let mut block = Batch::new();
//! block.insert(b"tx1#0", b"5 ada").insert(b"tx1#1", b"2 ada").delete(b"tx0#7");
//! tables.commit(&[("utxo", &block)])?;
//! assert_eq!(tables.get("utxo", b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
//! for entry in tables.prefix("utxo", b"tx1")? {
//!     let (key, value) = entry?;
//!     println!("{key:?}: {value:?}");
//! }
//! # Ok::<(), varvite::Error>(())
//! ```
//!
//! **A context** is a versioned Merkle tree with Tezos' hashes: paths to values, a commit a block, and
//! [proofs](proof) of what it holds for those who have no store. A folder is a [`context::Store`].
//!
//! ```
//! use varvite::context::{CommitInfo, Options, Store};
//!
//! # let temporary = tempfile::tempdir().expect("a folder for temporary files");
//! # let folder = temporary.path().join("context");
//! let mut store = Store::open_or_create(folder, Options::default())?;
//! let mut tree = store.empty_tree();
//! tree.add(&["contracts", "alice", "balance"], b"5")?;
//! let block = store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "genesis"))?; // one sync
//! store.set_branch(b"main", &block)?;
//!
//! let balance = store.checkout(&block)?.find(&["contracts", "alice", "balance"])?;
//! assert_eq!(balance.as_deref(), Some(&b"5"[..]));
//! # Ok::<(), varvite::Error>(())
//! ```
//!
//! | you want to | look at |
//! | --- | --- |
//! | read and write tables, in threads, in transactions | [`Tables`], [`Transaction`], [`Views`], [`Range`], [`Table`] |
//! | keep a state, back up, repair, follow another process | [`Session::save_snapshot`], [`Session::backup`], [`table::repair`], [`Session::follow`] |
//! | read and write a context | [`context::Store`], [`context::Tree`] |
//! | make and check proofs | [`proof`] |
//! | read or take over a store of Irmin | [`irmin_pack`] |
//! | bound memory and files | [`SessionOptions`], [`TableOptions`], [`context::Options`], [`cache`] |
//! | test against crashes and faults | [`disk::sim`], [`disk::memory`] |
//!
//! Every fallible call gives an [`Error`] with a [`Kind`], which says what to do next. The guides are in the folder `docs` of the
//! repository.

pub mod cache;
pub mod context;
pub mod disk;
pub mod error;
mod file;
mod format;
pub mod irmin_pack;
mod order;
pub mod outline;
mod prefetch;
pub mod proof;
pub mod raw;
mod sync;
pub mod table;
pub mod trace;

pub use error::{Error, Kind, Result};
pub use table::{
    BackedUp, Batch, Bytes, Compression, Cursor, Executor, Follower, KeyBounds, Keys, LoadOrder,
    Loader, Log, Lookups, MergeOperator, NotShared, Observed, Observer, OpenSnapshot, OpenTable,
    Operation, OperationCost, Range, Session, SessionOptions, SessionStats, Snapshot,
    SnapshotContent, SnapshotInfo, Table, TableOptions, TableStats, Tables, Transaction,
    Transferred, UnknownOperator, Value, ValueWriter, Values, Verify, View, Views,
};

/// The examples of the README and of the guide compile and run with the tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/guide/table.md")]
    struct Guide;
    #[doc = include_str!("../../docs/guide/context.md")]
    struct Context;
    #[doc = include_str!("../../docs/guide/rolling-nodes.md")]
    struct RollingNodes;
    #[doc = include_str!("../../docs/guide/archive-nodes.md")]
    struct ArchiveNodes;
    #[doc = include_str!("../../docs/guide/backup.md")]
    struct Backups;
    #[doc = include_str!("../../docs/guide/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../../docs/guide/coming-from-irmin.md")]
    struct ComingFromIrmin;
    #[doc = include_str!("../../docs/guide/proofs.md")]
    struct Proofs;
}

//! The interface of rust-rocksdb on varvite.
//!
//! A program that uses `RocksDB` tries varvite by one line in its `Cargo.toml`; the README has it, with what is
//! not there. A database is a varvite session with a log, a column family one of its live tables; the program
//! `varvite` works on the folder.
//!
//! ```
//! use rocksdb::{Direction, IteratorMode, OptimisticTransactionDB, Options};
//!
//! # let folder = tempfile::tempdir().expect("a folder");
//! let mut options = Options::default();
//! options.create_if_missing(true);
//! let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&options, folder.path().join("ledger"))?;
//! let block = db.transaction();
//! block.put(b"utxo/tx1#0", b"5 ada")?;
//! block.put(b"utxo/tx1#1", b"2 ada")?;
//! assert!(block.get(b"utxo/tx1#0")?.is_some()); // it reads what it wrote
//! block.delete(b"utxo/tx1#0")?;
//! assert!(db.get(b"utxo/tx1#1")?.is_none()); // nobody else does
//! block.commit()?;
//!
//! let from = IteratorMode::From(b"utxo/", Direction::Forward);
//! let outputs: Result<Vec<_>, _> = db.iterator(from).collect();
//! assert_eq!(outputs?, [(b"utxo/tx1#1"[..].into(), b"2 ada"[..].into())]);
//! # Ok::<(), rocksdb::Error>(())
//! ```

pub mod checkpoint;
mod column_family;
mod db;
mod error;
mod iterator;
mod open;
mod options;
mod prefixes;
mod reads;
mod shared;
mod snapshot;
mod transaction;
mod tuning;
mod write_batch;

pub use column_family::{
    AsColumnFamilyRef, BoundColumnFamily, ColumnFamily, ColumnFamilyDescriptor, ColumnFamilyRef,
    DEFAULT_COLUMN_FAMILY_NAME, MultiThreaded, SingleThreaded, ThreadMode,
};
pub use db::{
    DB, DBInner, DBWithThreadMode, DBWithThreadModeInner, Database as DBCommon,
    OptimisticTransactionDB, OptimisticTransactionDBInner,
};
pub use error::{Error, ErrorKind};
pub use iterator::{
    DBIterator, DBIteratorWithThreadMode, DBRawIterator, DBRawIteratorWithThreadMode, Direction,
    IteratorMode, KVBytes,
};
pub use options::{
    BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, Env, LruCacheOptions,
    OptimisticTransactionOptions, Options, ReadOptions, WriteOptions,
};
pub use prefixes::{IterateBounds, PrefixRange, SliceTransform};
pub use reads::{DBAccess, DBPinnableSlice};
pub use snapshot::{Snapshot, SnapshotWithThreadMode};
pub use transaction::Transaction;
pub use tuning::{
    BlockBasedIndexType, BlockBasedTablePinningTier, BottommostLevelCompaction, ChecksumType,
    CompactOptions, CompactionPri, CuckooTableOptions, DBRecoveryMode, DataBlockIndexType,
    FlushOptions, KeyEncodingType, LogLevel, MemtableFactory, PlainTableFactoryOptions,
    UniversalCompactOptions, UniversalCompactionStopStyle, WaitForCompactOptions,
};
pub use write_batch::{WriteBatch, WriteBatchIterator, WriteBatchWithTransaction};

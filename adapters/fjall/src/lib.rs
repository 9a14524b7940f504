//! The interface of fjall 3 on varvite.
//!
//! A program that uses fjall tries varvite by one line in its `Cargo.toml`; the README has it, with what is
//! not there. A database is a varvite session with a log, a keyspace one of its live tables; the program
//! `varvite` works on the folder.
//!
//! ```
//! use fjall::{Database, KeyspaceCreateOptions, PersistMode, Readable};
//!
//! # let folder = tempfile::tempdir()?;
//! let db = Database::builder(folder.path().join("ledger")).open()?;
//! let utxo = db.keyspace("utxo", KeyspaceCreateOptions::default)?;
//! let tags = db.keyspace("tags", KeyspaceCreateOptions::default)?;
//!
//! let mut block = db.batch();
//! block.insert(&utxo, "tx1#0", "5 ada");
//! block.insert(&tags, "alice/tx1#0", []);
//! block.commit()?; // both or neither
//! db.persist(PersistMode::SyncAll)?; // outlives a power cut from here on
//!
//! let before = db.snapshot();
//! utxo.remove("tx1#0")?;
//! for guard in before.prefix(&utxo, "tx1#") {
//!     let (key, value) = guard.into_inner()?;
//!     assert_eq!((&*key, &*value), (&b"tx1#0"[..], &b"5 ada"[..]));
//! }
//! assert!(utxo.get("tx1#0")?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod builder;
pub mod compaction;
pub mod config;
mod database;
mod error;
mod iter;
mod keyspace;
mod options;
mod readable;
mod slice;

pub use batch::OwnedWriteBatch;
pub use builder::DatabaseBuilder;
pub use config::CompressionType;
pub use database::{Database, PersistMode};
pub use error::{Error, LsmError, Result};
pub use iter::{Guard, Iter};
pub use keyspace::{Keyspace, KeyspaceName};
pub use options::{KeyspaceCreateOptions, KvSeparationOptions};
pub use readable::{Readable, Snapshot};
pub use slice::{KvPair, Slice, UserKey, UserValue};

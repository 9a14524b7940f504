//! One file an engine: how it is opened, what it is told, and its form of a batch.

pub mod fjall;
pub mod lmdb;
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod varvite;

//! A session: a folder of tables, and everything that is done with one as a whole.
//!
//! Opening and closing it; saving, opening and deleting snapshots; opening live tables, updating several at
//! once, sharing them between threads, and following those of another process; loading, uniting and moving tables between sessions. Relies on all rooms but `tools`.

mod backup;
mod discard;
mod follow;
mod intake;
mod lifecycle;
mod live;
mod loader;
mod new_store;
mod open_or_create;
mod snapshots;
mod tables;
mod transaction;
mod transfer;
mod union;
mod values;

pub use backup::BackedUp;
pub use follow::Follower;
pub use lifecycle::Session;
pub use live::OpenTable;
pub use loader::{LoadOrder, Loader};
pub use new_store::{Made, NewStore};
pub use snapshots::{Snapshot, SnapshotContent};
pub use tables::{NotShared, Tables, Views};
pub use transaction::Transaction;
pub use transfer::Transferred;

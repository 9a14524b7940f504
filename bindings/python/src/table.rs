//! The table: sessions, tables, what is read of them, snapshots.

pub mod batch;
pub mod cursor;
pub mod follower;
pub mod options;
pub mod repair;
pub mod scrub;
pub mod session;
pub mod shared;
pub mod snapshot;
pub mod stream;
#[expect(clippy::module_inception, reason = "the table of the room of tables")]
pub mod table;
pub mod view;

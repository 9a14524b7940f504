//! The table face: sessions, tables, views, cursors, snapshots, the log, large values.

pub mod copies;
pub mod cursor;
pub mod follow;
pub mod iterator;
pub mod live;
pub mod lookup;
pub mod observer;
pub mod operator;
pub mod options;
pub mod scrub;
pub mod session;
pub mod shared;
pub mod snapshot;
pub mod stream;
pub mod update;

//! The shapes a file may have: append-only with a durable end, replaced whole, counted, spare, held in reserve, synced once.

pub mod append;
pub mod exclusive;
pub mod inspect;
pub mod piecewise;
pub mod removals;
pub mod replace;
pub mod reserve;
pub mod shared;
pub mod spare;
pub mod stand_in;
pub mod sync_once;

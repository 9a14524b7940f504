//! The shapes a file may have: append-only with a durable end, replaced whole, counted, spare.

pub mod append;
pub mod inspect;
pub mod removals;
pub mod replace;
pub mod shared;
pub mod spare;

//! The crate from outside.

#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

mod bounds;
mod replay;
mod summary;
mod timings;
mod trace_bytes; // mutated traces; the body of a fuzz target

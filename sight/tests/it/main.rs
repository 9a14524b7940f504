//! The crate from outside.

#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

mod replay;
mod timings;

//! The crate from outside.

mod timings;

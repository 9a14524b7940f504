//! What a host sees of its stores: the time and cost of every action by prefix of its path, as an observer.
//!
//! The engine has neither a clock nor histograms: it tells an observer of each operation. This crate is such
//! an observer for both faces, so a host that wants percentiles depends on it and others do not. Traces, which
//! the engine writes and reads, are replayed, summed up, compared and shown here.

mod clock;
mod process;
pub mod text;
pub mod timings;
pub mod trace;

pub use clock::Clock;
pub use process::Process;
pub use timings::{Limits, Report, Timings};

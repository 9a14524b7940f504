//! varvite: an embeddable storage engine for blockchain ledger state.

pub mod cache;
pub mod disk;
pub mod error;
pub mod file;
pub mod format;
pub mod sync;

pub use error::{Error, Kind, Result};

//! varvite: an embeddable storage engine for blockchain ledger state.

pub mod cache;
pub mod disk;
pub mod error;
pub mod file;
pub mod format;
pub mod table;


pub use error::{Error, Kind, Result};
pub use table::{Batch, MergeOperator, Values};

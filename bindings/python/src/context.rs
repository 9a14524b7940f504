//! The context: trees, stores, merges, proofs, stores of Irmin.

pub mod irmin;
pub mod merge;
pub mod options;
pub mod proof;
pub mod reader;
pub mod snapshot;
pub mod store;
pub mod tree;
pub mod walk;

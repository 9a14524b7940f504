//! The context face: stores, trees, branches, merges, proofs, stores of Irmin.

pub mod branch;
pub mod collect;
pub mod file;
pub mod irmin;
pub mod merge;
pub mod options;
pub mod proof;
pub mod reader;
pub mod store;
pub mod tree;
pub mod walk;

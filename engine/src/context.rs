//! The context: a versioned Merkle tree whose hashes other nodes agree on.
//!
//! Paths of names lead to values; one commit a block. Hashes are those of Tezos' context, bit for
//! bit, so that every node that holds the same ledger computes the same commit hash.
//! Formats: `docs/format/pack.md`, `docs/format/control.md`. Design: `docs/design/context.md`.

pub mod configuration;
mod digest;
mod directory;
pub mod hash;
pub mod name_hash;
mod node;
pub mod tree;

pub use configuration::{ChildOrder, Configuration};
pub use hash::Hash;
pub use tree::{directory_hash, Change, Depth, Kind, Order, Tree};

//! The context: a versioned Merkle tree whose hashes other nodes agree on.
//!
//! Paths of names lead to values; one commit a block. Hashes are those of Tezos' context, bit for
//! bit, so that every node that holds the same ledger computes the same commit hash.
//! Formats: `docs/format/pack.md`, `docs/format/control.md`. Design: `docs/design/context.md`.

mod batch;
mod changes;
mod chunk;
mod commit;
pub mod configuration;
mod control;
pub(crate) mod digest;
pub(crate) mod directory;
pub(crate) mod entry;
mod files;
pub mod hash;
mod hash_index;
pub mod inspect;
pub mod name_hash;
pub(crate) mod node;
pub(crate) mod object_cache;
mod observer;
mod options;
pub(crate) mod pack;
mod patch;
mod paths;
mod recent;
mod record;
pub mod store;
pub mod tree;
mod turnover;

pub use commit::Commit;

pub use configuration::{ChildOrder, Configuration};
pub use hash::Hash;
pub use observer::{Cost, Observer, Operation, PREFIX_STEPS};
pub use options::{Durability, Index, Options};
pub use store::{Checked, CommitInfo, Limits, Merge, Stats, Store};
pub use tree::{
    Change, Conflict, Depth, Kind, Merged, NAME_MAX, Order, Resolution, Sides, Tree, VALUE_MAX,
    directory_hash,
};

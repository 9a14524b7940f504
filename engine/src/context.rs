//! The context: a versioned Merkle tree whose hashes other nodes agree on.
//!
//! Paths of names lead to values; one commit a block. Hashes are those of Tezos' context, bit for
//! bit, so that every node that holds the same ledger computes the same commit hash.
//! Formats: `docs/format/pack.md`, `docs/format/control.md`. Design: `docs/design/context.md`.

pub mod configuration;
pub mod context_snapshot;
pub(crate) mod files;
pub mod hash;
pub mod inspect;
pub(crate) mod name_hash;
pub(crate) mod observer;
mod options;
pub(crate) mod pieces;
pub(crate) mod preimage;
pub mod store;
pub mod tree;
pub(crate) mod warnings;

pub use files::commit::Commit;

pub use configuration::{ChildOrder, Configuration};
pub use context_snapshot::{
    CommitFile, CommitFileHead, CommitFileOptions, CommitFileProgress, inspect_commit,
    verify_commit, verify_commit_watched,
};
pub use hash::{CommitHash, Hash, TreeHash};
pub use observer::{Cost, Observer, Operation, PREFIX_STEPS};
pub use options::{Durability, Index, Options};
pub use store::{
    Checked, ChunkInfo, ChunkState, CollectPhase, CollectStatus, CommitInfo, Keep, Limits,
    LostCommit, Merge, Reader, RepairedContext, SHARED_COMMITS_MAX, SharedChunk, SharedPart,
    Sharing, Stats, Store,
};
pub use tree::{
    Change, Conflict, Depth, Kind, Merged, NAME_MAX, Order, Resolution, Sides, Tree, VALUE_MAX,
    directory_hash,
};

//! What the pack's bytes are spent on: chunk by chunk, and commit by commit.

mod chunks;
mod sharing;

pub use chunks::{ChunkInfo, ChunkState};
pub use sharing::{SHARED_COMMITS_MAX, SharedChunk, SharedPart, Sharing};

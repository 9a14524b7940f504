//! What the chunks of the pack hold, and what collections took of each.

use crate::context::files::chunk_files::Chunk;
use crate::context::files::sparse::State;
use crate::context::store::Store;

/// Where the records of a chunk are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkState {
    /// In the file that they were written to.
    Whole,
    /// In a file that a collection made of those that stay.
    Sparse,
    /// Nothing of it stays.
    Gone,
    /// In the lower folder.
    Lower,
}

/// A chunk, or several whose records are together in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChunkInfo {
    /// The number of the first of them.
    pub number: u64,
    /// How many they are.
    pub count: u64,
    /// Logical offset of the first byte.
    pub base: u64,
    /// Bytes that were written to them.
    pub written_bytes: u64,
    /// Bytes of the file that has what is left.
    pub disk_bytes: u64,
    /// Of chunks in the lower folder: bytes of the file in the store's own that has what recent commits need of them.
    pub above_bytes: u64,
    /// Where what is left is.
    pub state: ChunkState,
}

impl Store {
    /// The chunks of the pack in the order in which they were written; what collections took of one is what
    /// was written less what is on disk. None of a store of Irmin. Reads nothing.
    pub fn chunks(&self) -> Vec<ChunkInfo> {
        let info = |chunk: &Chunk| ChunkInfo {
            number: chunk.number,
            count: chunk.numbers,
            base: chunk.base,
            written_bytes: chunk.logical_end() - chunk.base,
            disk_bytes: chunk.end(),
            above_bytes: chunk.above.as_ref().map_or(0, |above| above.end()),
            state: match chunk.state {
                State::Sparse(_) => ChunkState::Sparse,
                State::Gone => ChunkState::Gone,
                _ if chunk.is_lower() => ChunkState::Lower,
                _ => ChunkState::Whole,
            },
        };
        if self.history.is_some() {
            Vec::new()
        } else {
            self.pack.chunks().iter().map(|chunk| info(chunk)).collect()
        }
    }
}

//! Which pieces of the pack commits share, and which are one's own.
//!
//! References only point back, so a walk that takes the newest piece first has met all that lead to a piece, and so all
//! commits that hold it, before it takes the piece itself. What it keeps is what waits: no set of what it has seen.

use std::collections::BinaryHeap;
use std::fmt;

use crate::context::files::collecting::{marks, reached};
use crate::context::files::record::Tag;
use crate::context::hash::CommitHash;
use crate::context::store::Store;
use crate::error::{Error, Kind, Result};
use crate::order::BTreeMap;

/// The most commits that are compared at once.
pub const SHARED_COMMITS_MAX: usize = 32;

/// What the same commits hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedPart {
    /// The commits that hold it, and no others of those that are compared: bit 0 for the first of them.
    pub commits: u32,
    /// Records of directories' pieces and values.
    pub pieces: u64,
    /// What these take in the pack.
    pub bytes: u64,
}

/// What the commits hold of one chunk, any of them: all of it once [`Sharing::next_offset`] is before it. The rest of
/// its file is of no use to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedChunk {
    /// Logical offset of its first byte: [`super::ChunkInfo::base`].
    pub base: u64,
    /// Records of directories' pieces and values.
    pub pieces: u64,
    /// What these take in the pack.
    pub bytes: u64,
}

/// A count of what commits share, from the newest piece to the oldest. See [`Store::sharing`].
pub struct Sharing {
    commits: Vec<CommitHash>,
    /// Offset of a piece, the commits that hold it, and those that only need its bytes, for a patch of it.
    waiting: BinaryHeap<(u64, u32, u32)>,
    parts: BTreeMap<u32, (u64, u64)>,
    /// Base, pieces and bytes of each chunk that has any, the newest first.
    chunks: Vec<(u64, u64, u64)>,
    counted: u64,
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sharing({} counted, {} waiting)", self.counted, self.waiting.len())
    }
}

impl Store {
    /// Begins to count which pieces `commits` share, all of them or some, and which one of them holds alone: pieces of
    /// directories and values as they are in the pack, with the bytes of a directory's older record where the newer
    /// one is a patch of it. Reads the records of the commits; all else is for [`Sharing::step`]. `Invalid` for more
    /// than [`SHARED_COMMITS_MAX`] commits and for a store of Irmin, `Missing` for an unknown commit.
    ///
    /// ```
    /// use varvite::context::{CommitInfo, Options, Store};
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let mut store = Store::create(MemoryDisk::seeded(1), Options::default())?;
    /// let mut tree = store.empty_tree();
    /// for account in 0..500 {
    ///     tree.add(&["accounts", &format!("{account}"), "balance"], &[7; 60])?;
    /// }
    /// let first = store.commit(&mut tree, &CommitInfo::default())?;
    /// tree.add(&["accounts", "3", "balance"], b"0")?;
    /// let second = store.commit(&mut tree, &CommitInfo::new(&[first], 1, "", ""))?;
    ///
    /// let mut sharing = store.sharing(&[first, second])?;
    /// while sharing.step(&store, 1_000)? {}
    /// let bytes = |commits| sharing.parts().iter().find(|it| it.commits == commits).map(|it| it.bytes);
    /// assert!(bytes(0b11) > bytes(0b10)); // most is shared, some is the second one's alone
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn sharing(&self, commits: &[CommitHash]) -> Result<Sharing> {
        if commits.len() > SHARED_COMMITS_MAX {
            let most = format!("compare at most {SHARED_COMMITS_MAX} commits at once");
            return Err(Error::invalid(most));
        }
        if self.history.is_some() {
            let why = "a store of Irmin does not say what its commits share: migrate it first";
            return Err(Error::invalid(why));
        }
        let mut waiting = BinaryHeap::new();
        for (place, commit) in commits.iter().enumerate() {
            let (_, body) = self.commit_at(self.commit_offset(commit)?)?;
            waiting.push((body.root, 1 << place, 0));
        }
        let (commits, parts, chunks) = (commits.to_vec(), BTreeMap::new(), Vec::new());
        Ok(Sharing { commits, waiting, parts, chunks, counted: 0 })
    }
}

impl Sharing {
    /// Counts up to `pieces` more. Each costs a read of its whole record, a value's as well; that of a directory's
    /// piece is read once more for its children, with the records that it is a patch of. Returns whether some are left.
    /// What a collection writes anew meanwhile counts as it was when it was met, so what such a record has taken over of
    /// others may be in no part. `store` is the one that began it; after an error, as when a collection has taken one of the
    /// commits, it is to be begun anew.
    pub fn step(&mut self, store: &Store, pieces: u64) -> Result<bool> {
        let mut found = Vec::new();
        for _ in 0..pieces {
            let Some((offset, mut holders, mut needed)) = self.waiting.pop() else { break };
            while let Some((_, more, bytes)) = self.waiting.peek().filter(|it| it.0 == offset) {
                (holders, needed) = (holders | more, needed | bytes);
                self.waiting.pop();
            }
            let counted = store.pack.record(offset, |file, place, record| {
                let base = reached::base((file, place), offset, record)?;
                Ok((record.length as u64, record.tag, base))
            });
            let (length, tag, base) = match counted {
                // What was a patch of it was written without it since it was met.
                Err(error)
                    if error.kind() == Kind::Collected
                        && holders == 0
                        && self.are_there(store, needed)? =>
                {
                    continue;
                }
                counted => counted?,
            };
            let part = self.parts.entry(holders | needed).or_default();
            *part = (part.0 + 1, part.1 + length);
            self.counted += 1;
            self.count_in_chunk(store, offset, length);
            if let Some(base) = base {
                self.waiting.push((base, 0, holders | needed));
            }
            if holders != 0 && tag != Tag::Value {
                found.clear();
                marks::children(&store.pack.read_node(offset)?, &mut found)?;
                self.waiting.extend(found.iter().map(|child| (*child, holders, 0)));
            }
        }
        Ok(!self.waiting.is_empty())
    }

    /// Whether all of these commits are there still.
    fn are_there(&self, store: &Store, commits: u32) -> Result<bool> {
        for (place, commit) in self.commits.iter().enumerate() {
            if commits >> place & 1 == 1 && !store.exists(commit)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts a piece that is older than all before it for its chunk.
    fn count_in_chunk(&mut self, store: &Store, offset: u64, length: u64) {
        if self.chunks.last().is_none_or(|chunk| offset < chunk.0) {
            // One whose number is forgotten has no record to be read.
            let base = store.pack.chunk(offset).map_or(0, |chunk| chunk.base);
            self.chunks.push((base, 0, 0));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            *chunk = (chunk.0, chunk.1 + 1, chunk.2 + length);
        }
    }

    /// How many pieces were counted.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// How many references to pieces wait to be followed: 16 bytes of memory each.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// What was counted so far, a part for each set of commits that holds something alone.
    pub fn parts(&self) -> Vec<SharedPart> {
        let part = |(&commits, &(pieces, bytes)): (&u32, &(u64, u64))| SharedPart {
            commits,
            pieces,
            bytes,
        };
        self.parts.iter().map(part).collect()
    }

    /// What the commits hold chunk by chunk, of those that have any of it and were come to, the newest first.
    pub fn chunks(&self) -> Vec<SharedChunk> {
        let part = |&(base, pieces, bytes): &(u64, u64, u64)| SharedChunk { base, pieces, bytes };
        self.chunks.iter().map(part).collect()
    }

    /// Logical offset of the newest piece that is not counted yet; none once all are.
    pub fn next_offset(&self) -> Option<u64> {
        self.waiting.peek().map(|waiting| waiting.0)
    }
}

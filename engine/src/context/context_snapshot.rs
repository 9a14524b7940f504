//! Commits of a context as one file: what somebody else imports, verifies and goes on from.
//!
//! A stream of records, children before parents, in frames. Its bytes follow from the commits and the hash
//! configuration alone, and whoever reads it computes each hash from what came before, up to that of the commit.
//! Format document: `docs/format/context-snapshot.md`.

mod commit_body;
mod compressed;
pub(crate) mod export;
pub(crate) mod frames;
pub(crate) mod import_state;
pub(crate) mod intake;
pub(crate) mod order;
mod path;
mod repeats;

use super::configuration::Configuration;
use super::hash::{CommitHash, Hash};
use super::pieces::node::Slot;
use crate::disk::Disk;
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};
use frames::{CommitFileOpening, FrameReader};
use import_state::ImportState;
use intake::{Intake, Unplaced};

/// What a record is; an entry's child is the value of a tag, or a directory.
const VALUE: u8 = 1;
const FLAT: u8 = 2;
const LEAF: u8 = 3;
const BRANCH: u8 = 4;
const REPEAT: u8 = 5;
const COMMIT: u8 = 6;
const END: u8 = 7;

/// What an entry leads to, when it is not a value of so many bytes in place.
const STACKED_VALUE: u8 = 16;
const STACKED_DIRECTORY: u8 = 17;

/// How many objects may wait for a parent.
const WAITING_MAX: usize = 1 << 16;

/// The most commits of a file: who reads it keeps what they say until all of it was verified.
pub(crate) const COMMITS_MAX: u32 = 1 << 16;

/// The most bytes of texts and parents that all commits of a file have together, for the same reason. One commit has at
/// most 4 MiB.
const SAID_MAX: usize = 16 << 20;

/// The most bytes of the bodies on one path down, each with [`LEVEL_BYTES`] more: whoever writes a file has all of them
/// in work at once. What comes by a repeat does not count, since it is not written again.
const PATH_MAX: usize = 64 << 20;

/// What a piece in work takes beside its body.
const LEVEL_BYTES: usize = 256;

/// What the records on a path take that goes on from others, which take `others`, with a body of `body` bytes.
fn path_bytes(body: usize, others: usize) -> usize {
    others.saturating_add(body).saturating_add(LEVEL_BYTES)
}

/// Slots of the table of repeats.
const SLOTS: usize = 1 << 18;

/// A value of so many bytes is worth a slot.
const VALUE_WORTH: usize = 32;

/// A directory or a piece of one is worth a slot above this weight.
const NODE_WORTH: u8 = 96;

/// The slot that a hash names.
fn slot_of(hash: &Hash) -> usize {
    (usize::from(hash[0]) << 10) | (usize::from(hash[1]) << 2) | usize::from(hash[2] >> 6)
}

/// How commits are written to a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitFileOptions {
    /// Compresses each frame by zstd at this level, 1 to 19. None writes the canonical form, whose bytes
    /// follow from the commits and the configuration alone; compressed, those of the content do.
    pub zstd_level: Option<i32>,
}

/// How far the work on a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitFileProgress {
    /// Bytes of the file that were read or written.
    pub bytes: u64,
    /// Bytes of the file; none while it is written.
    pub total: Option<u64>,
    /// Bytes of the file that an import took over which was cut off, and that are not read again: 0 for none.
    pub resumed: u64,
    /// About how much of the work is done, in millionths: of a file that is read by its bytes, of one that is
    /// written by where in the tree it is. It becomes less only where an import begins anew.
    pub share: u32,
}

/// Who is told of it with each frame, and whose error ends the work.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(&CommitFileProgress) -> Result<()>;

/// What a snapshot of a commit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitFile {
    /// The commit; of a range, the last one.
    pub commit: CommitHash,
    /// How many commits.
    pub commits: u64,
    /// How its directories are cut. No hash of the commit vouches for it.
    pub configuration: Configuration,
    /// Records of values.
    pub values: u64,
    /// Records of directories that are hashed flat.
    pub directories: u64,
    /// Records of leaves of larger directories.
    pub leaves: u64,
    /// Records of branches.
    pub branches: u64,
    /// References to what came before.
    pub repeats: u64,
    /// Bytes of all records.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The hash of header, opening and stream: the same for the same commits and configuration, whoever wrote the
    /// file, and however it is compressed.
    pub hash: Hash,
}

impl CommitFile {
    fn new(opening: &CommitFileOpening) -> CommitFile {
        CommitFile {
            commit: opening.commit,
            commits: u64::from(opening.commits),
            configuration: opening.configuration,
            values: 0,
            directories: 0,
            leaves: 0,
            branches: 0,
            repeats: 0,
            stream_bytes: 0,
            bytes: 0,
            hash: [0; 32],
        }
    }

    /// Records of objects.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.values + self.directories + self.leaves + self.branches
    }

    /// One more record with the tag `tag`.
    fn count(&mut self, tag: u8) {
        match tag {
            VALUE => self.values += 1,
            FLAT => self.directories += 1,
            LEAF => self.leaves += 1,
            BRANCH => self.branches += 1,
            _ => self.repeats += 1,
        }
    }

    /// The body of the record that ends the stream.
    fn encode(&self, out: &mut Encoder) {
        let Self { values, directories, leaves, branches, repeats, stream_bytes, .. } = self;
        for number in [values, directories, leaves, branches, repeats, stream_bytes] {
            out.varint(*number);
        }
    }

    /// `Corrupt` when the end says something else than what was read.
    fn expect(&self, decoder: &mut Decoder<'_>) -> Result<()> {
        let start = decoder.clone();
        let mut expected = Encoder::new();
        self.encode(&mut expected);
        for _ in 0..6 {
            decoder.varint()?;
        }
        let mut found = start.clone();
        if found.raw(start.remaining() - decoder.remaining())? != expected.bytes() {
            return Err(start.corrupt("the counts of what was read", "others"));
        }
        Ok(())
    }
}

/// What a snapshot of a commit says without being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitFileHead {
    /// The commit; of a range, the last one.
    pub commit: CommitHash,
    /// How many commits.
    pub commits: u64,
    /// How its directories are cut. No hash of the commit vouches for it.
    pub configuration: Configuration,
    /// Frames of the file.
    pub frames: u64,
    /// Bytes of all records.
    pub stream_bytes: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// What the last frame calls the hash of the stream.
    pub hash: Hash,
}

/// Verifies the snapshot of a commit at `path` of `disk`, without a store: every checksum and every hash.
/// Reads the file once. Memory is a small multiple of what the file expands to, and less than 120 MB and twice the largest value.
/// Nothing vouches for [`CommitFile::configuration`]: compare it with the chain's, as the hash of the commit.
pub fn verify_commit(disk: &dyn Disk, path: &str) -> Result<CommitFile> {
    verify_commit_watched(disk, path, &mut |_| Ok(()))
}

/// The same, and `watch` is told of each frame; its error ends the work.
pub fn verify_commit_watched(
    disk: &dyn Disk,
    path: &str,
    watch: &mut dyn FnMut(&CommitFileProgress) -> Result<()>,
) -> Result<CommitFile> {
    let mut reader = FrameReader::open(disk, path)?;
    let intake = Intake::new(&reader, u64::MAX);
    Ok(intake.read(&mut reader, &mut Unplaced, watch)?.1)
}

/// What the snapshot of a commit at `path` of `disk` says of itself. Reads the heads of the frames, and
/// verifies the beginning only.
pub fn inspect_commit(disk: &dyn Disk, path: &str) -> Result<CommitFileHead> {
    FrameReader::open(disk, path)?.heads()
}

/// Where an intake puts objects, so that they need no memory.
pub(crate) trait Destination {
    /// Puts what is live of `stack` and `table` somewhere, children before parents, and returns what to
    /// have in their place; what the table has is on the stack too, or below it. With `each` every one
    /// has a record of its own then.
    fn put(&mut self, stack: &[Slot], table: &[Slot], each: bool)
    -> Result<(Vec<Slot>, Vec<Slot>)>;

    /// Keeps `state`, durably with all that it refers to, so that a later import goes on from it.
    fn keep(&mut self, state: &ImportState) -> Result<()>;

    /// Whether states are of use here.
    fn keeps(&self) -> bool;
}

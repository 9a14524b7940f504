//! How a context store is made and used.

use std::fmt;
use std::sync::Arc;

use super::configuration::Configuration;
use super::observer::Observer;
use crate::cache::Cache;
use crate::cache::limit::check_memory;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use crate::trace::Recorder;

/// Which objects a store finds by their hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Index {
    /// Commits.
    #[default]
    Minimal,
    /// Commits and every object, each of which is then stored once.
    Always,
}

impl Index {
    /// The byte that stands for it in files.
    pub(crate) fn code(self) -> u8 {
        match self {
            Index::Minimal => 0,
            Index::Always => 1,
        }
    }

    /// Reads what [`Index::code`] says.
    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Index> {
        let start = from.clone();
        match from.u8()? {
            0 => Ok(Index::Minimal),
            1 => Ok(Index::Always),
            other => Err(start.corrupt("index strategy 0 or 1", other)),
        }
    }
}

/// When a commit is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the call returns: one sync a commit.
    #[default]
    Synced,
    /// When the system writes it out. A power cut may lose the newest commits; what is found again is
    /// an older commit, whole.
    Written,
}

/// How a store is made and used.
#[derive(Clone)]
pub struct Options {
    /// The hash configuration; only used when the store is created.
    pub configuration: Configuration,
    /// What the index knows; only used when the store is created.
    pub index: Index,
    /// When a commit is durable.
    pub durability: Durability,
    /// Memory for nodes, in bytes; as of the next ones, 64 GiB at most, 1 GiB with 32 bits. Up to a tenth of it, and of
    /// `hashes_bytes`, is for the places of what may come, and taken at once.
    pub objects_bytes: u64,
    /// Memory for hashes of the children of nodes, in bytes. What changes is hashed with those of all
    /// its siblings; each that is not in memory is a read.
    pub hashes_bytes: u64,
    /// The most bytes of a file, without a name, for hashes that `hashes_bytes` has no room for, where each would
    /// be a read: one read then gives those of a node's children together. It is made when it is first needed; 0
    /// turns it off. Each MiB of it that is used takes about 50 KiB of memory beside `hashes_bytes`, 13 MiB at the
    /// default, and for a moment more than twice as much when the table of them grows. It is given up when the
    /// disk is full. On a [`MemoryDisk`](crate::disk::memory::MemoryDisk) the file is memory too: give 0 there.
    pub hashes_file_bytes: u64,
    /// Memory for pages of the pack, in bytes, unless `cache` is given.
    pub pages_bytes: u64,
    /// Memory for the index, in bytes: write buffers, filters, merges, and the pages that these leave room for. An index
    /// of commits alone takes 4 MiB at most. Filters take up to half; beyond some tens of millions of objects
    /// what has to be in memory is more than the default.
    pub index_bytes: u64,
    /// A page cache that other stores share. The index is in it too then, beside the pages of the pack: a large one leaves
    /// fewer of them.
    pub cache: Option<Arc<Cache>>,
    /// Bytes of changed directories and values that a working tree of the store holds before it
    /// spills them to the pack, where they stay unacknowledged until it is committed.
    pub tree_bytes: u64,
    /// Is told of every operation, if given.
    pub observer: Option<Arc<dyn Observer>>,
    /// Writes down every call, if given.
    pub recorder: Option<Arc<Recorder>>,
    /// A chunk longer than this is followed by another; at most 2^40. Collection and archives take whole
    /// chunks.
    pub chunk_bytes: u64,
    /// A folder on another disk for old chunks, which [`Store::archive`](crate::context::Store::archive) moves there, and
    /// whose commits are read there. A store opens without it, and says at a commit that is there what is
    /// missing. No other store may have the same.
    pub lower: Option<Arc<dyn Disk>>,
    /// The most files of chunks that it has open, beside the one that is written, and of the index as many
    /// again. `None`: all stores and sessions of the process together have as many files open as the system
    /// lets the process have, less a reserve (see [`crate::SessionOptions::max_open_files`]).
    pub max_open_files: Option<usize>,
    /// Identity of a store that is created, which no other store may have. `None` has the disk draw it
    /// ([`crate::disk::Disk::entropy`]); only tests give it. `Some(0)` is refused.
    pub seed: Option<u64>,
}

/// The greatest [`Options::chunk_bytes`]: pages of a chunk have numbers of 32 bits, and the last commit
/// in it comes on top.
const CHUNK_BYTES_MAX: u64 = 1 << 40;

impl Options {
    /// The same with about `bytes` of memory for what the table of memory in `docs/guide/memory.md` has, and one tree, without the
    /// 4 MiB of the last batch and a `cache` that is given: three tenths
    /// for objects, an eighth for their hashes, a sixteenth each for pages and the index, an eighth for what a tree holds before
    /// it spills, which takes three times as much for that moment, and a file of hashes as long as this is, at most the
    /// default, which takes a twentieth or for a moment an eighth.
    ///
    /// ```
    /// use varvite::context::Options;
    ///
    /// let options = Options::default().within_memory(64 << 20);
    /// assert_eq!((options.hashes_bytes, options.tree_bytes), (8 << 20, 8 << 20));
    /// ```
    #[must_use]
    pub fn within_memory(mut self, bytes: u64) -> Self {
        self.objects_bytes = bytes / 10 * 3;
        self.hashes_bytes = bytes / 8;
        (self.pages_bytes, self.index_bytes) = (bytes / 16, bytes / 16);
        self.tree_bytes = bytes / 8;
        self.hashes_file_bytes = bytes.min(Options::default().hashes_file_bytes);
        self
    }

    /// `Invalid` when no store can be opened so.
    pub(crate) fn check(&self) -> Result<()> {
        check_memory(&[
            ("objects_bytes", self.objects_bytes),
            ("hashes_bytes", self.hashes_bytes),
            ("pages_bytes", self.pages_bytes),
            ("index_bytes", self.index_bytes),
        ])?;
        if self.chunk_bytes <= CHUNK_BYTES_MAX {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "chunk_bytes is {}, and at most {CHUNK_BYTES_MAX} are possible: choose shorter chunks",
            self.chunk_bytes
        )))
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            configuration: Configuration::TEZOS,
            index: Index::Minimal,
            durability: Durability::Synced,
            objects_bytes: 84 << 20,
            hashes_bytes: 36 << 20,
            hashes_file_bytes: 256 << 20,
            pages_bytes: 16 << 20,
            index_bytes: 16 << 20,
            cache: None,
            tree_bytes: 128 << 20,
            observer: None,
            recorder: None,
            chunk_bytes: 16 << 20,
            lower: None,
            max_open_files: None,
            seed: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("configuration", &self.configuration)
            .field("index", &self.index)
            .field("durability", &self.durability)
            .field("objects_bytes", &self.objects_bytes)
            .field("hashes_bytes", &self.hashes_bytes)
            .field("hashes_file_bytes", &self.hashes_file_bytes)
            .field("pages_bytes", &self.pages_bytes)
            .field("index_bytes", &self.index_bytes)
            .field("cache", &self.cache.is_some())
            .field("tree_bytes", &self.tree_bytes)
            .field("observer", &self.observer.is_some())
            .field("recorder", &self.recorder)
            .field("chunk_bytes", &self.chunk_bytes)
            .field("lower", &self.lower.as_ref().map(|disk| disk.root()))
            .field("max_open_files", &self.max_open_files)
            .field("seed", &self.seed)
            .finish()
    }
}

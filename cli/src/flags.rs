//! Flags that several commands share, and how they become the engine's options.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use varvite::cache::Cache;
use varvite::disk::Access;
use varvite::{Compression, Error, LoadOrder, Log, Result, SessionOptions};

use crate::system::measure::disk_bytes;
use crate::system::threads::Pool;

/// Where pages that were read stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CacheKind {
    /// In the operating system's page cache.
    #[default]
    Page,
    /// In a cache of the process; reads of the disk are direct.
    Own,
    /// Nowhere: every read goes to the disk.
    Direct,
}

/// How the pages of a new table are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CompressionKind {
    /// As they are.
    #[default]
    None,
    /// Compressed where that saves an eighth.
    Lz4,
}

impl From<CompressionKind> for Compression {
    fn from(kind: CompressionKind) -> Compression {
        match kind {
            CompressionKind::None => Compression::None,
            CompressionKind::Lz4 => Compression::Fast,
        }
    }
}

/// How a store is read and who helps it.
#[derive(Clone, Debug, Args)]
pub struct Tuning {
    /// Where pages that were read stay
    #[arg(long, value_enum, default_value_t)]
    pub cache: CacheKind,
    /// With --cache own: its size in MiB [default: twice the store, at least 64]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    pub cache_mib: Option<u64>,
    /// All memory of the session in MiB: write buffers, filters, indexes, and a cache that has the rest
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..1 << 20),
          conflicts_with_all = ["cache", "cache_mib"])]
    pub memory_mib: Option<u64>,
    /// Threads that help with merges
    #[arg(long, value_name = "THREADS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    pub helpers: u16,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning { cache: CacheKind::Page, cache_mib: None, memory_mib: None, helpers: 0 }
    }
}

impl Tuning {
    /// The engine's options for a store in `folder`.
    pub fn options(&self, folder: &Path) -> Result<SessionOptions> {
        let mut options = match self.memory_mib {
            Some(mebibytes) => SessionOptions::default().within_memory(mebibytes << 20),
            None => SessionOptions::default(),
        };
        if self.cache_mib.is_some() && self.cache != CacheKind::Own {
            return Err(Error::invalid(
                "--cache-mib is the size of the own cache: add --cache own",
            ));
        }
        if self.cache != CacheKind::Page {
            options.access = Access::Direct;
        }
        if self.cache == CacheKind::Own {
            let fitting = || (disk_bytes(folder) * 2).max(64 << 20);
            let budget = self.cache_mib.map_or_else(fitting, |mebibytes| mebibytes << 20);
            options.cache = Some(Cache::new(budget));
        }
        if self.helpers > 0 {
            options.executor =
                Some(Pool::new(usize::from(self.helpers))? as Arc<dyn varvite::Executor>);
        }
        Ok(options)
    }
}

/// Take commands line by line, with history and completion: what stands behind the store's name
///
/// As in `get colours apple`. `help` lists the commands, `exit` or Ctrl-D ends. What is piped into it is run
/// too; it ends with the greatest exit code then.
#[derive(Debug, Args)]
pub struct Shell {
    /// Folder of the store
    pub store: PathBuf,
}

/// In which order a table is loaded.
#[derive(Clone, Debug, Args)]
pub struct Sorting {
    /// Take keys in any order and sort them, on disk when they do not fit in memory
    #[arg(long)]
    pub sort: bool,
    /// Memory for sorting
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    pub memory_mib: u64,
}

impl Sorting {
    /// The engine's order.
    pub fn order(&self) -> LoadOrder {
        if self.sort {
            LoadOrder::Any { memory_bytes: self.memory_mib << 20 }
        } else {
            LoadOrder::Sorted
        }
    }
}

/// What is promised of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogKind {
    #[default]
    None,
    Written,
    Synced,
}

impl From<LogKind> for Log {
    fn from(kind: LogKind) -> Log {
        match kind {
            LogKind::None => Log::None,
            LogKind::Written => Log::Written,
            LogKind::Synced => Log::Synced,
        }
    }
}

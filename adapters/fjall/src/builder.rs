//! How a database is opened.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use varvite::{Log, SessionOptions};

use crate::config::CompressionType;
use crate::database::Database;
use crate::error::Result;

/// The smallest bound on the log that the peer takes.
const JOURNAL_BYTES_MIN: u64 = 64 << 20;

/// How a database is opened. See [`Database::builder`].
pub struct DatabaseBuilder<O = Database> {
    path: PathBuf,
    cache_bytes: Option<u64>,
    log_bytes_max: Option<u64>,
    open_files_max: Option<usize>,
    is_temporary: bool,
    opens: PhantomData<O>,
}

impl DatabaseBuilder<Database> {
    pub(crate) fn new(path: &Path) -> Self {
        DatabaseBuilder {
            path: path.to_owned(),
            cache_bytes: None,
            log_bytes_max: None,
            open_files_max: None,
            is_temporary: false,
            opens: PhantomData,
        }
    }

    /// Opens the database, or makes one in a folder that is empty or not there.
    pub fn open(self) -> Result<Database> {
        let mut options = self.cache_bytes.map_or_else(SessionOptions::default, |bytes| {
            SessionOptions::default().within_memory(bytes)
        });
        options.log = Log::Written;
        options.max_open_files = self.open_files_max;
        if let Some(bytes) = self.log_bytes_max {
            // The log takes up to about three of its files.
            options.log_file_bytes = bytes / 3;
        }
        Database::open_with(&self.path, options, self.is_temporary)
    }

    /// The memory of the whole database: pages, filters, indexes and write buffers. Reads then go past the
    /// system's page cache; without this they go through it.
    #[must_use]
    pub fn cache_size(mut self, bytes: u64) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// How much the log takes on disk.
    ///
    /// # Panics
    ///
    /// If that is less than 64 MiB.
    #[must_use]
    pub fn max_journaling_size(mut self, bytes: u64) -> Self {
        assert!(bytes >= JOURNAL_BYTES_MIN, "the log takes {JOURNAL_BYTES_MIN} bytes or more");
        self.log_bytes_max = Some(bytes);
        self
    }

    /// How many files are open at once.
    #[must_use]
    pub fn max_cached_files(mut self, files: Option<usize>) -> Self {
        self.open_files_max = files;
        self
    }

    /// Takes the number and does nothing: varvite starts no threads, and updates merge what they owe.
    ///
    /// # Panics
    ///
    /// If it is 0.
    #[must_use]
    pub fn worker_threads(self, threads: usize) -> Self {
        assert!(threads > 0, "there is at least one worker thread");
        self
    }

    /// The same, and does not look at it.
    #[must_use]
    pub fn worker_threads_unchecked(self, _threads: usize) -> Self {
        self
    }

    /// Takes the choice and does nothing: the log is not compressed.
    #[must_use]
    pub fn journal_compression(self, _kind: CompressionType) -> Self {
        self
    }

    /// Takes the number and does nothing: each keyspace has at most two write buffers, of
    /// [`crate::KeyspaceCreateOptions::max_memtable_size`].
    #[must_use]
    pub fn max_write_buffer_size(self, _bytes: Option<u64>) -> Self {
        self
    }

    /// Takes the choice and does nothing: every write is handed to the system before its call returns.
    #[must_use]
    pub fn manual_journal_persist(self, _is_manual: bool) -> Self {
        self
    }

    /// Whether the folder is removed when the last handle is dropped.
    #[must_use]
    pub fn temporary(mut self, is_temporary: bool) -> Self {
        self.is_temporary = is_temporary;
        self
    }
}

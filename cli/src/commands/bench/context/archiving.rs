//! Chunks that move to a lower folder beside the blocks of `varvite bench context`, and what that costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use varvite::context::{CommitHash, Store};
use varvite::disk::Disk;
use varvite::{Error, Result};

use super::Arguments;
use crate::print;
use crate::store::folder::{Target, apart, remove_moved};
use crate::system::measure::{BlockMs, Samples, thread_cpu_ns};

/// What moving chunks cost and gave.
#[derive(Debug, Serialize)]
pub(super) struct MovedChunks {
    archived_chunks: u64,
    archived_bytes: u64,
    archive_cpu_seconds: f64,
    /// By the clock, for each chunk.
    archive_ms: BlockMs,
}

/// Moves a chunk after each block, if one is old enough.
#[derive(Debug, Default)]
pub(super) struct Archiver {
    has_begun: bool,
    chunks: u64,
    cpu_ns: u64,
    took: Samples,
}

/// The lower folder. Where its store goes with the command, so do the chunks in it, which are nobody's then.
pub(super) struct Lower {
    pub disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Until it is known that the load has come to its end.
    made: Option<Target>,
    /// The folder of a store that goes with the command.
    going: Option<PathBuf>,
}

impl Lower {
    /// Makes it for a store in `folder`, or says why it cannot be one; none without `--lower`. Nothing else is made by then.
    pub(super) fn of(arguments: &Arguments, folder: Option<&Path>) -> Result<Option<Lower>> {
        let Some(lower) = &arguments.lower else { return Ok(None) };
        folder.map_or(Ok(()), |folder| apart(folder, lower))?;
        // Of a store whose folder is not there yet.
        let place = std::path::absolute(lower).unwrap_or_default();
        if folder.is_some_and(|it| std::path::absolute(it).is_ok_and(|it| place.starts_with(it))) {
            let detail =
                format!("{} is in the store itself: choose a place elsewhere", lower.display());
            return Err(Error::invalid(detail));
        }
        if fs::read_dir(lower).is_ok_and(|mut names| names.next().is_some()) {
            let detail =
                format!("{} is not empty: give another folder to --lower", lower.display());
            return Err(Error::invalid(detail));
        }
        let (target, disk) = Target::create(lower)?;
        let going = folder.filter(|_| arguments.dir.is_none()).map(Path::to_owned);
        Ok(Some(Lower { disk, folder: lower.clone(), made: Some(target), going }))
    }

    /// Keeps the folder, with what was moved there, where its store stays.
    pub(super) fn keep(&mut self) {
        self.made.take_if(|_| self.going.is_none());
    }
}

impl Drop for Lower {
    fn drop(&mut self) {
        if let Some(store) = &self.going {
            remove_moved(&self.folder, store);
        }
        // Of a load that failed, it goes if nothing was moved there.
        if let Some(made) = self.made.take() {
            made.give_up();
        }
    }
}

impl Archiver {
    /// Moves a chunk that ends before that of `last`; returns whether there was one.
    pub(super) fn step(&mut self, store: &mut Store, last: &CommitHash) -> Result<bool> {
        if !std::mem::replace(&mut self.has_begun, true) {
            // What was loaded goes first, however little that is: blocks work on an old state then.
            store.begin_chunk()?;
        }
        let (start, cpu) = (Instant::now(), thread_cpu_ns());
        if store.archive(last, 1)? == 0 {
            return Ok(false);
        }
        self.chunks += 1;
        self.cpu_ns += thread_cpu_ns() - cpu;
        self.took.push(start.elapsed().as_nanos() as u64);
        Ok(true)
    }

    /// Moves what the blocks have left.
    pub(super) fn end(&mut self, store: &mut Store, last: &CommitHash) -> Result<()> {
        while self.step(store, last)? {}
        Ok(())
    }

    pub(super) fn report(mut self, store: &Store) -> MovedChunks {
        MovedChunks {
            archived_chunks: self.chunks,
            archived_bytes: store.archived_bytes(),
            archive_cpu_seconds: self.cpu_ns as f64 / 1e9,
            archive_ms: BlockMs::of(&mut self.took),
        }
    }
}

impl MovedChunks {
    /// Prints it for a person.
    pub(super) fn show(&self) -> std::io::Result<()> {
        let took = &self.archive_ms;
        let table = print::record(&[
            ("chunks in the lower folder", self.archived_chunks.to_string()),
            ("bytes of them", print::bytes(self.archived_bytes)),
            ("CPU of moving them", format!("{:.2} s", self.archive_cpu_seconds)),
            (
                "a chunk p50 / p99 / max",
                format!("{:.1} / {:.1} / {:.1} ms", took.p50, took.p99, took.max),
            ),
        ]);
        print::line(&table.to_string())
    }
}

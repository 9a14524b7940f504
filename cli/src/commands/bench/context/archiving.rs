//! Chunks that move to a lower folder beside the blocks of `varvite bench context`, and what that costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use serde::Serialize;
use varvite::context::{CommitHash, Store};
use varvite::disk::Disk;
use varvite::{Error, Result};

use super::Arguments;
use super::counted::CountedDisk;
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
    /// Files above that have what recent commits need of the chunks.
    archived_above_bytes: u64,
    /// Reads of the lower folder by blocks, and by finds in the last commit once all has moved.
    lower_block_reads: u64,
    lower_find_reads: u64,
}

/// Moves a chunk after each block, if one is old enough.
#[derive(Debug, Default)]
pub(super) struct Archiver {
    has_begun: bool,
    chunks: u64,
    cpu_ns: u64,
    took: Samples,
    /// Reads of the lower folder, and those of them that moved chunks.
    reads: Arc<AtomicU64>,
    moving_reads: u64,
}

/// The lower folder. Where its store goes with the command, so do the chunks in it, which are nobody's then.
pub(super) struct Lower {
    pub disk: Arc<dyn Disk>,
    /// How often it was read.
    reads: Arc<AtomicU64>,
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
        let reads = Arc::default();
        let disk = CountedDisk::new(disk, &reads);
        Ok(Some(Lower { disk, reads, folder: lower.clone(), made: Some(target), going }))
    }

    /// What moves chunks there.
    pub(super) fn archiver(&self) -> Archiver {
        Archiver { reads: Arc::clone(&self.reads), ..Archiver::default() }
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
        let before = self.reads.load(Relaxed);
        let moved = store.archive(last, 1)?;
        self.moving_reads += self.reads.load(Relaxed) - before;
        if moved == 0 {
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
        let above = store.chunks().iter().map(|chunk| chunk.above_bytes).sum();
        MovedChunks {
            archived_chunks: self.chunks,
            archived_bytes: store.archived_bytes(),
            archive_cpu_seconds: self.cpu_ns as f64 / 1e9,
            archive_ms: BlockMs::of(&mut self.took),
            archived_above_bytes: above,
            lower_block_reads: self.reads.load(Relaxed) - self.moving_reads,
            lower_find_reads: 0,
        }
    }
}

impl MovedChunks {
    /// Does `finds`, and counts how often they read the lower folder.
    pub(super) fn count(
        &mut self,
        lower: &Lower,
        finds: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let before = lower.reads.load(Relaxed);
        finds()?;
        self.lower_find_reads = lower.reads.load(Relaxed) - before;
        Ok(())
    }

    /// Prints it for a person.
    pub(super) fn show(&self) -> std::io::Result<()> {
        let took = &self.archive_ms;
        let table = print::record(&[
            ("chunks in the lower folder", self.archived_chunks.to_string()),
            ("bytes of them", print::bytes(self.archived_bytes)),
            ("kept above of them", print::bytes(self.archived_above_bytes)),
            ("reads below by blocks", self.lower_block_reads.to_string()),
            ("reads below by finds in the last", self.lower_find_reads.to_string()),
            ("CPU of moving them", format!("{:.2} s", self.archive_cpu_seconds)),
            (
                "a chunk p50 / p99 / max",
                format!("{:.1} / {:.1} / {:.1} ms", took.p50, took.p99, took.max),
            ),
        ]);
        print::line(&table.to_string())
    }
}

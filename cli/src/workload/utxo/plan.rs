//! What a run is to do, and what it measures.

use std::path::Path;
use std::time::Instant;

use varvite::{Batch, Result, Session, SessionStats, Table};

use super::{Draw, Key, Numbers, VALUE, key};
use crate::system::measure::{Samples, cpu_ns, disk_bytes};

/// Which parts of a batch are done, and by how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Lookups, then deletes and inserts, on one thread.
    Serial,
    /// The lookups of a batch while the batch before is applied, on two threads.
    Pipelined,
    /// Lookups only.
    Lookup,
    /// Deletes and inserts only.
    Update,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Entries in the table before the run.
    pub entries: u64,
    /// Batches.
    pub batches: u64,
    /// Operations in a batch.
    pub batch_size: u64,
    /// Which parts.
    pub mode: Mode,
    /// Where the draw begins.
    pub seed: u64,
    /// Whether every batch is compared with the model.
    pub check: bool,
    /// Batches of lookups before the clock starts, to fill caches.
    pub warm_up: u64,
    /// Whole batches before the clock starts, of the same draw, so that the table is as one that was in use
    /// for long.
    pub settle: u64,
}

impl Plan {
    /// Operations of the whole run.
    pub fn operations(&self) -> u64 {
        self.batches * self.batch_size
    }

    /// The generator of this run's numbers.
    pub fn draw(&self) -> Draw {
        let grows = self.mode != Mode::Lookup;
        Draw::new(self.entries, self.settle + self.batches, self.batch_size, grows, self.seed)
    }
}

/// What a run measured. Time spent on comparing with the model is in it only when pipelined, where
/// the other thread goes on meanwhile.
#[derive(Debug, Default)]
pub struct Measured {
    /// Time per batch.
    pub batches: Samples,
    /// Seconds on the wall.
    pub seconds: f64,
    /// User and system time of the whole process, in nanoseconds.
    pub cpu_ns: u64,
    /// Counted work of all updates, and of the largest.
    pub work: u64,
    /// The largest counted work of one update.
    pub work_max: u64,
    /// Lookups made.
    pub lookups: u64,
    /// Answers that were wrong.
    pub wrong: u64,
    /// Lookups answered by the batch that was on its way (pipelined only).
    pub patched: u64,
    /// Answers compared with the model beside the loop's own.
    pub checked: u64,
    /// What the session had counted when the loop began.
    pub stats_before: SessionStats,
    /// What the session had counted when the loop ended.
    pub stats: SessionStats,
    /// What was on disk meanwhile.
    pub disk: DiskUse,
}

/// What files took, looked at between batches.
#[derive(Debug, Default)]
pub struct DiskUse {
    looks: u64,
    /// Sums over all looks: all files, those that the table consists of, and those kept to be written over.
    all: u64,
    table: u64,
    spare: u64,
    /// The most that all files took.
    pub most: u64,
}

impl DiskUse {
    /// How often a run looks.
    pub const LOOKS: u64 = 256;

    /// Looks at the store of `session`, in which `table` is.
    pub fn look(&mut self, session: &Session, table: &Table) -> Result<()> {
        let all = disk_bytes(Path::new(session.root()));
        self.looks += 1;
        self.all += all;
        self.table += table.stats()?.disk_bytes;
        self.spare += session.stats().spare_bytes;
        self.most = self.most.max(all);
        Ok(())
    }

    /// Averages: all files, the table's, and those kept to be written over. `None` when nobody looked.
    pub fn means(&self) -> Option<[u64; 3]> {
        (self.looks > 0).then(|| [self.all, self.table, self.spare].map(|sum| sum / self.looks))
    }
}

impl Measured {
    /// Counts the work of an update.
    pub fn count_work(&mut self, work: u64) {
        self.work += work;
        self.work_max = self.work_max.max(work);
    }
}

/// A clock for wall and processor that stops while the model is asked.
pub struct Stopwatch {
    wall: Instant,
    cpu: u64,
    seconds: f64,
    cpu_ns: u64,
}

impl Stopwatch {
    /// A running one.
    pub fn start() -> Stopwatch {
        Stopwatch { wall: Instant::now(), cpu: cpu_ns(), seconds: 0.0, cpu_ns: 0 }
    }

    /// Stops.
    pub fn pause(&mut self) {
        self.seconds += self.wall.elapsed().as_secs_f64();
        self.cpu_ns += cpu_ns() - self.cpu;
    }

    /// Goes on.
    pub fn resume(&mut self) {
        self.cpu = cpu_ns();
        self.wall = Instant::now();
    }

    /// Stops for good and writes both times down.
    pub fn stop(mut self, measured: &mut Measured) {
        self.pause();
        measured.seconds = self.seconds;
        measured.cpu_ns = self.cpu_ns;
    }
}

/// Fills `batch` with the changes of `numbers`, whose spent keys are `keys`.
pub fn fill(batch: &mut Batch, keys: &[Key], numbers: &Numbers) {
    batch.clear();
    for key in keys {
        batch.delete(key);
    }
    for number in numbers.fresh..numbers.fresh + keys.len() as u64 {
        batch.insert(&key(number), &VALUE);
    }
}

//! The timed loop: one thread, a batch after the other.

use std::time::Instant;

use varvite::{Batch, Result, Session, SessionStats, Table, Values};

use super::model::{Model, found};
use super::pipeline;
use super::{Draw, Key, Numbers, VALUE, key};
use crate::measure::{Samples, cpu_ns};
use crate::progress::Progress;

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
}

impl Plan {
    /// Operations of the whole run.
    pub fn operations(&self) -> u64 {
        self.batches * self.batch_size
    }

    /// The generator of this run's numbers.
    pub fn draw(&self) -> Draw {
        let grows = self.mode != Mode::Lookup;
        Draw::new(self.entries, self.batches, self.batch_size, grows, self.seed)
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

/// Runs `plan` on `table` of `session` and gives the table back in its last state.
pub fn run(
    session: &Session,
    table: Table,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<(Table, Measured)> {
    warm_up(&table, plan)?;
    let stats_before = session.stats();
    let run = if plan.mode == Mode::Pipelined { pipeline::run } else { serial };
    let (table, mut measured) = run(session, table, plan, progress)?;
    measured.stats_before = stats_before;
    Ok((table, measured))
}

fn warm_up(table: &Table, plan: &Plan) -> Result<()> {
    // Another beginning, so that the run's first lookups are not the warmest.
    let seed = plan.seed ^ plan.entries;
    let mut draw = Draw::new(plan.entries, plan.warm_up, plan.batch_size, false, seed);
    let (mut numbers, mut values) = (Numbers::default(), Values::default());
    for _ in 0..plan.warm_up {
        draw.next(&mut numbers);
        let keys: Vec<Key> = numbers.spent.iter().map(|number| key(*number)).collect();
        table.lookup_into(&keys, &mut values)?;
    }
    Ok(())
}

fn serial(
    session: &Session,
    table: Table,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<(Table, Measured)> {
    let mut table = table;
    let mut measured = Measured::default();
    let mut model = plan.check.then(|| Model::new(plan.entries));
    let mut draw = plan.draw();
    let mut numbers = Numbers::default();
    let mut keys: Vec<Key> = Vec::with_capacity(plan.batch_size as usize);
    let (mut values, mut batch) = (Values::default(), Batch::new());
    let mut stopwatch = Stopwatch::start();
    for done in 1..=plan.batches {
        let start = Instant::now();
        draw.next(&mut numbers);
        keys.clear();
        keys.extend(numbers.spent.iter().map(|number| key(*number)));
        if plan.mode != Mode::Update {
            table.lookup_into(&keys, &mut values)?;
            measured.lookups += keys.len() as u64;
            measured.wrong +=
                keys.len() as u64 - found(&values).filter(|found| *found).count() as u64;
        }
        if plan.mode != Mode::Lookup {
            fill(&mut batch, &keys, &numbers);
            table.update(&batch)?;
            measured.count_work(table.last_work());
        }
        measured.batches.push(start.elapsed().as_nanos() as u64);
        if let Some(model) = &mut model {
            stopwatch.pause();
            check(model, &table, plan.mode, &numbers, &values, &mut measured)?;
            stopwatch.resume();
        }
        progress.set(done);
    }
    stopwatch.stop(&mut measured);
    measured.stats = session.stats();
    if let Some(mut model) = model {
        measured.wrong += model.check_whole(&table)?;
        measured.checked += model.checks();
    }
    Ok((table, measured))
}

fn check(
    model: &mut Model,
    table: &Table,
    mode: Mode,
    numbers: &Numbers,
    values: &Values,
    measured: &mut Measured,
) -> Result<()> {
    if mode != Mode::Update {
        // The loop has counted these already; the model must agree that they were to be found.
        let expected = numbers.spent.iter().all(|number| model.holds(*number));
        assert!(expected, "the load looks up live numbers only");
        measured.checked += values.len() as u64;
    }
    if mode != Mode::Lookup {
        model.apply(numbers);
        measured.wrong += model.check_batch(table, numbers)?;
    }
    Ok(())
}

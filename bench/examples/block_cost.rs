//! What timings and a recording cost the block workload:
//! `cargo run --release -p varvite-bench --example block_cost -- FOLDER [--blocks 400] [--accounts 100000] [--system-clock 1]`.
//!
//! Every side has a store of its own in the one process, and all run the same blocks by turns, a block each, in an order
//! that changes: from process to process a block takes up to a tenth more or less, by where memory lies, which is more
//! than what is measured. Processor time of the thread. A side's figure is the mean of what its blocks took more than the
//! same blocks of the first, without the tenth of them at either end, with twice its standard error; the second is
//! another that has nothing, which tells what such a figure is worth. All end with the same commit.
//!
//! With `--only "a recorder"` that side runs alone, so that valgrind counts what its blocks take, which differs by about a hundredth from run to run:
//! `valgrind --tool=callgrind --toggle-collect='*counted_block*' …`.
#![allow(clippy::disallowed_methods)] // A benchmark has a clock.

#[path = "../../cli/src/workload/context_bench.rs"]
#[allow(dead_code)] // The program uses more of it.
mod context_bench;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use context_bench::{Mix, Workload};
use varvite::context::{CommitHash, CommitInfo, Cost, Observer, Operation, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::trace::Recorder;
use varvite::{Error, Result};
use varvite_sight::{Clock, Limits, Timings};

/// The blocks of `varvite bench context`.
const MIX: Mix = Mix { reads: 3000, updates: 800, inserts: 60, deletes: 20 };

const SIDES: [&str; 5] = ["nothing", "nothing again", "an idle observer", "timings", "a recorder"];

/// What only the engine's side of timings costs: it has no clock and forgets what it is told.
struct Idle;

impl Observer for Idle {
    fn now_ns(&self) -> u64 {
        0
    }

    fn record(&self, _: Operation, _: &[&[u8]], _: u64, _: &Cost) {}
}

/// Blocks that fill caches and are in no figure.
const WARM: u64 = 20;

/// A store, and where its blocks are.
struct Side {
    store: Store,
    recorder: Option<Arc<Recorder>>,
    workload: Workload,
    last: Option<CommitHash>,
    level: i64,
    /// Of each block, in nanoseconds.
    took: Vec<f64>,
}

impl Side {
    fn new(name: &str, folder: &Path, is_system: bool) -> Result<Side> {
        let folder = folder.join(name.replace(' ', "-"));
        let disk = OsDisk::create(folder.join("store"))?;
        let traces: Arc<dyn Disk> = OsDisk::new(&folder)?;
        let (start, clock) = (Instant::now(), Clock::new());
        let now_ns =
            move || if is_system { start.elapsed().as_nanos() as u64 } else { clock.now_ns() };
        let (mut observer, mut recorder) = (None::<Arc<dyn Observer>>, None);
        match name {
            "an idle observer" => observer = Some(Arc::new(Idle)),
            "timings" => observer = Some(Timings::new(now_ns, Limits::default())),
            "a recorder" => recorder = Some(Recorder::create(&traces, "blocks.trace", now_ns)?),
            _ => {}
        }
        let options = Options { observer, recorder: recorder.clone(), ..Options::default() };
        let store = Store::create(disk, options)?;
        let workload = Workload::new(42);
        Ok(Side { store, recorder, workload, last: None, level: 0, took: Vec::new() })
    }

    fn commit(&mut self, tree: &mut Tree) -> Result<()> {
        self.level += 1;
        let parents: Vec<CommitHash> = self.last.into_iter().collect();
        let info = CommitInfo::new(&parents, self.level, "Tezos", format!("lvl {}", self.level));
        self.last = Some(self.store.commit(tree, &info)?);
        Ok(())
    }

    fn load(&mut self, accounts: u64) -> Result<()> {
        let mut tree = self.store.empty_tree();
        while self.workload.accounts() < accounts {
            self.workload.load(&mut tree, accounts)?;
            self.commit(&mut tree)?;
        }
        Ok(())
    }

    /// A block that callgrind counts, which finds it by its name.
    #[inline(never)]
    fn counted_block(&mut self) -> Result<()> {
        self.block()
    }

    fn block(&mut self) -> Result<()> {
        let last = self.last.ok_or_else(|| Error::invalid("there is an account at least"))?;
        let start = processor();
        let mut tree = self.store.checkout(&last)?;
        self.workload.read(&tree, MIX)?;
        self.workload.write(&mut tree, MIX)?;
        self.commit(&mut tree)?;
        drop(tree);
        self.took.push(processor().saturating_sub(start).as_nanos() as f64);
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let (mut blocks, mut accounts, mut is_system) = (400, 100_000, false);
    let mut only = None;
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        if name == "--only" {
            only = Some(value);
            continue;
        }
        let number = value.parse().map_err(|_| Error::invalid(format!("{name} is a number")))?;
        match &*name {
            "--blocks" => blocks = number,
            "--accounts" => accounts = number,
            "--system-clock" => is_system = number != 0,
            _ => return Err(Error::invalid(format!("{name} is not known here"))),
        }
    }
    if let Some(name) = only {
        return alone(Side::new(&name, &folder, is_system)?, accounts, blocks);
    }
    let side = |name: &&str| Side::new(name, &folder, is_system);
    let mut sides = SIDES.iter().map(side).collect::<Result<Vec<_>>>()?;
    for side in &mut sides {
        side.load(accounts)?;
    }
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let mut random = 1_u64;
    for _ in 0..WARM + blocks {
        shuffle(&mut order, &mut random);
        for &at in &order {
            sides[at].block()?;
        }
    }
    let last = sides[0].last;
    for side in &mut sides {
        side.recorder.take().map_or(Ok(0), |recorder| recorder.finish())?;
        assert_eq!(side.last, last, "all run the same blocks");
        side.took.drain(..WARM as usize);
    }
    report(&sides);
    Ok(())
}

fn alone(mut side: Side, accounts: u64, blocks: u64) -> Result<()> {
    side.load(accounts)?;
    (0..WARM).try_for_each(|_| side.block())?;
    (0..blocks).try_for_each(|_| side.counted_block())?;
    side.recorder.take().map_or(Ok(0), |recorder| recorder.finish())?;
    let last = side.last.map(|hash| varvite::context::hash::to_text(&hash));
    println!("{}", last.unwrap_or_default());
    Ok(())
}

/// Another order (Fisher and Yates), so that none runs behind the same neighbour more often than any other does.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for end in (1..order.len()).rev() {
        *random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(end, ((*random >> 33) % (end as u64 + 1)) as usize);
    }
}

fn report(sides: &[Side]) {
    println!("{:<18}{:>12}{:>12}{:>12}", "", "ms a block", "more", "±");
    let first = &sides[0].took;
    for (side, name) in sides.iter().zip(SIDES) {
        let more = side.took.iter().zip(first).map(|(own, first)| (own / first - 1.0) * 100.0);
        let (mean, error) = trimmed(more);
        let (took, _) = trimmed(side.took.iter().map(|took| took / 1e6));
        println!("{name:<18}{took:>12.2}{mean:>10.2} %{:>10.2} %", 2.0 * error);
    }
}

/// The mean without the tenth at either end, and its standard error.
fn trimmed(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 10;
    let kept = &values[cut..values.len() - cut];
    let mean = kept.iter().sum::<f64>() / kept.len() as f64;
    // Those that were cut count as the last that were not, as is usual.
    let clamped = values.iter().map(|value| value.clamp(kept[0], kept[kept.len() - 1]));
    let clamped: Vec<f64> = clamped.collect();
    let middle = clamped.iter().sum::<f64>() / clamped.len() as f64;
    let spread = clamped.iter().map(|value| (value - middle).powi(2)).sum::<f64>();
    let deviation = (spread / (clamped.len() - 1).max(1) as f64).sqrt();
    (mean, deviation / (0.8 * (values.len() as f64).sqrt()))
}

fn processor() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

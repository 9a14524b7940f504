//! What timings and a recording cost the block workload:
//! `cargo run --release -p varvite-bench --example block_cost -- FOLDER [--rounds 11] [--blocks 250] [--accounts 100000]`.
//!
//! In each round every side runs the same blocks in a process of its own, since where memory lies makes more of a
//! difference than what is measured: twice nothing, whose difference is that; an observer that does nothing, timings by
//! prefix, a recorder to a file. Processor time of the thread, of the blocks alone; each figure is the median over rounds
//! of the share that a side took more than the first in the same round. All end with the same commit.
#![allow(clippy::disallowed_methods)] // A benchmark has a clock.

#[path = "../../cli/src/workload/context_bench.rs"]
#[allow(dead_code)] // The program uses more of it.
mod context_bench;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use context_bench::{Mix, Workload};
use varvite::context::{
    CommitHash, CommitInfo, Cost, Observer, Operation, Options, Store, Tree, hash,
};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::trace::Recorder;
use varvite::{Error, Result};
use varvite_sight::{Limits, Timings};

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
    workload: Workload,
    last: Option<CommitHash>,
    level: i64,
}

impl Side {
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

    fn blocks(&mut self, blocks: u64) -> Result<()> {
        for _ in 0..blocks {
            let last = self.last.ok_or_else(|| Error::invalid("there is an account at least"))?;
            let mut tree = self.store.checkout(&last)?;
            self.workload.read(&tree, MIX)?;
            self.workload.write(&mut tree, MIX)?;
            self.commit(&mut tree)?;
        }
        Ok(())
    }
}

/// Runs one side in a new folder; its processor time and its last commit.
fn run(name: &str, folder: &Path, size: Size) -> Result<(Duration, CommitHash)> {
    let disk = OsDisk::create(folder.join("store"))?;
    let traces: Arc<dyn Disk> = OsDisk::new(folder)?;
    let start = Instant::now();
    let clock = move || start.elapsed().as_nanos() as u64;
    let observer: Option<Arc<dyn Observer>> = match name {
        "an idle observer" => Some(Arc::new(Idle)),
        "timings" => Some(Timings::new(clock, Limits::default())),
        _ => None,
    };
    let is_recorded = name == "a recorder";
    let recorder =
        is_recorded.then(|| Recorder::create(&traces, "blocks.trace", clock)).transpose()?;
    let options = Options { observer, recorder: recorder.clone(), ..Options::default() };
    let store = Store::create(disk, options)?;
    let mut side = Side { store, workload: Workload::new(42), last: None, level: 0 };
    side.load(size.accounts)?;
    side.blocks(WARM)?;
    let start = processor();
    side.blocks(size.blocks)?;
    let took = processor().saturating_sub(start);
    recorder.map_or(Ok(0), |recorder| recorder.finish())?;
    let last = side.last.ok_or_else(|| Error::invalid("there is a commit"))?;
    Ok((took, last))
}

/// How much each side does.
#[derive(Clone, Copy)]
struct Size {
    rounds: u64,
    blocks: u64,
    accounts: u64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| ".".into()));
    let mut size = Size { rounds: 11, blocks: 250, accounts: 100_000 };
    let mut side = None;
    while let (Some(name), Some(value)) = (arguments.next(), arguments.next()) {
        let number = || value.parse().map_err(|_| Error::invalid(format!("{name} is a number")));
        match &*name {
            "--rounds" => size.rounds = number()?,
            "--blocks" => size.blocks = number()?,
            "--accounts" => size.accounts = number()?,
            "--side" => side = Some(value),
            _ => return Err(Error::invalid(format!("{name} is not known here"))),
        }
    }
    if let Some(name) = side {
        let (took, last) = run(&name, &folder, size)?;
        println!("{} {}", took.as_nanos(), hash::to_text(&last));
        return Ok(());
    }
    let mut rounds = vec![Vec::new(); SIDES.len()];
    let mut ends = BTreeSet::new();
    for round in 0..size.rounds as usize {
        // Each is first as often as any other.
        for turn in 0..SIDES.len() {
            let turn = (turn + round) % SIDES.len();
            let (took, last) =
                in_process(SIDES[turn], &folder.join(format!("{round}-{turn}")), size)?;
            rounds[turn].push(took);
            ends.insert(last);
        }
    }
    assert_eq!(ends.len(), 1, "all run the same blocks");
    report(&rounds, size.blocks);
    Ok(())
}

/// Runs one side in a process of its own; nanoseconds and the last commit. Its folder is removed.
fn in_process(name: &str, folder: &Path, size: Size) -> Result<(f64, String)> {
    let failed = |error| Error::io("run the blocks in", &folder.display().to_string(), error);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.arg(folder).args(["--side", name, "--blocks", &size.blocks.to_string()]);
    command.args(["--accounts", &size.accounts.to_string()]);
    let said = command.stderr(Stdio::inherit()).output().map_err(failed)?.stdout;
    std::fs::remove_dir_all(folder).map_err(failed)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let parsed = said.trim().split_once(' ');
    let parsed = parsed.and_then(|(took, last)| Some((took.parse().ok()?, last.to_owned())));
    parsed.ok_or_else(|| Error::invalid(format!("{name} said \"{said}\"")))
}

fn report(rounds: &[Vec<f64>], blocks: u64) {
    println!("{:<18}{:>12}{:>12}{:>24}", "", "ms a block", "more", "lower and upper quarter");
    for (own, name) in rounds.iter().zip(SIDES) {
        let more = own.iter().zip(&rounds[0]).map(|(own, first)| (own / first - 1.0) * 100.0);
        let [low, middle, high] = quarters(more);
        let [_, median, _] = quarters(own.iter().map(|took| took / 1e6 / blocks as f64));
        println!("{name:<18}{median:>12.2}{middle:>10.1} %{low:>14.1} % {high:>6.1} %");
    }
}

/// The lower quarter, the median and the upper quarter.
fn quarters(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|share| values[(values.len() - 1) * share / 4])
}

fn processor() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

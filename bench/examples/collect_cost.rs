//! What collections cost the block workload, beside a store that is never collected:
//! `cargo run --release -p varvite-bench --example collect_cost -- FOLDER [--accounts 100000] [--blocks 600] [--every 100] [--keep 100] [--updates 800] [--step-us 3500] [--share 10]`.
//!
//! Two stores in one process run the same blocks by turns, a block each, and change who is first, so that both have the
//! same neighbours and the same age. After its block the one that collects takes a step of at most `step-us`, and of at
//! most a part in `share` of its block, as `varvite bench context --collect-every` does. Processor time of the thread.
//! Both end with the same commit.
#![allow(clippy::disallowed_methods)] // A benchmark has a clock.

#[path = "../../cli/src/workload/context_bench.rs"]
#[allow(dead_code)] // The program uses more of it.
mod context_bench;

use std::path::{Path, PathBuf};
use std::time::Duration;

use context_bench::{Mix, Workload};
use varvite::context::{ChunkInfo, ChunkState, CommitHash, CommitInfo, Keep, Options, Store, Tree};
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

/// Of the parts of a chunk that a collection finds to stay, those above this much are counted by themselves: whether to
/// rewrite such a chunk is worth it is in question.
const NEARLY_ALL: f64 = 0.9;

struct Arguments {
    accounts: u64,
    blocks: u64,
    every: u64,
    keep: u64,
    step_ns: u64,
    share: u64,
    mix: Mix,
}

/// A store, and where its blocks are.
struct Side {
    store: Store,
    workload: Workload,
    last: Option<CommitHash>,
    level: i64,
}

impl Side {
    fn new(folder: &Path, arguments: &Arguments) -> Result<Side> {
        let store = Store::create(OsDisk::create(folder)?, Options::default())?;
        let mut side = Side { store, workload: Workload::new(42), last: None, level: 0 };
        let mut tree = side.store.empty_tree();
        while side.workload.accounts() < arguments.accounts {
            side.workload.load(&mut tree, arguments.accounts)?;
            side.commit(&mut tree)?;
        }
        Ok(side)
    }

    fn commit(&mut self, tree: &mut Tree) -> Result<()> {
        self.level += 1;
        let parents: Vec<CommitHash> = self.last.into_iter().collect();
        let info = CommitInfo::new(&parents, self.level, "Tezos", format!("lvl {}", self.level));
        self.last = Some(self.store.commit(tree, &info)?);
        Ok(())
    }

    /// Returns the nanoseconds that it took.
    fn block(&mut self, mix: Mix) -> Result<u64> {
        let last = self.last.ok_or_else(|| Error::invalid("there is an account at least"))?;
        let start = processor();
        let mut tree = self.store.checkout(&last)?;
        self.workload.read(&tree, mix)?;
        self.workload.write(&mut tree, mix)?;
        self.commit(&mut tree)?;
        drop(tree);
        Ok(processor() - start)
    }
}

/// Blocks of both, and the steps, in nanoseconds.
#[derive(Default)]
struct Sums {
    blocks: u64,
    plain: u64,
    collected: u64,
    steps: u64,
}

impl Sums {
    fn show(&self, name: &str) {
        let ms = |ns: u64| ns as f64 / 1e6 / self.blocks.max(1) as f64;
        let ratio = self.plain as f64 / (self.collected + self.steps).max(1) as f64;
        println!(
            "{name:<18}{:>8} blocks  {:>7.2} ms plain {:>7.2} ms beside {:>6.2} ms steps  throughput {ratio:.3}",
            self.blocks,
            ms(self.plain),
            ms(self.collected),
            ms(self.steps),
        );
    }
}

/// The collections of one store.
#[derive(Default)]
struct Collector {
    is_under_way: bool,
    credits: u64,
    due: u64,
    /// How long each step took, and the first of each collection.
    steps: Vec<u64>,
    begins: Vec<u64>,
    collections: u64,
    /// Bytes of rewritten chunks, and those of chunks of which nearly all stayed.
    rewritten: u64,
    nearly_all: u64,
    /// The most memory of one, in bytes.
    memory: u64,
}

impl Collector {
    fn step(
        &mut self,
        store: &mut Store,
        blocks: u64,
        block_ns: u64,
        arguments: &Arguments,
    ) -> Result<u64> {
        if !self.is_under_way && blocks < self.due {
            return Ok(0);
        }
        let before = store.chunks();
        let start = processor();
        if self.is_under_way {
            self.is_under_way = store.collect_step(self.credits)?;
            self.collections += u64::from(!self.is_under_way);
        } else {
            self.due = (blocks / arguments.every + 1) * arguments.every;
            self.is_under_way = store.collect_keeping(&Keep::Newest(arguments.keep))?;
            self.begins.push(processor() - start);
        }
        let step = processor() - start;
        let aim = (block_ns / arguments.share).min(arguments.step_ns);
        let fitting = self.credits.saturating_mul(aim) / step.max(1);
        self.credits =
            fitting.clamp(self.credits / 2, self.credits + self.credits / 8 + 8).clamp(16, 1 << 16);
        self.steps.push(step);
        self.memory = self.memory.max(store.collect_status()?.memory_bytes);
        self.look(&before, &store.chunks());
        Ok(step)
    }

    /// Sums what became of chunks in a step.
    fn look(&mut self, before: &[ChunkInfo], after: &[ChunkInfo]) {
        for chunk in after.iter().filter(|chunk| chunk.state == ChunkState::Sparse) {
            if before.contains(chunk) {
                continue;
            }
            let of = chunk.number..chunk.number + chunk.count;
            let old = before.iter().filter(|old| of.contains(&old.number));
            let old: u64 = old.map(|old| old.disk_bytes).sum();
            self.rewritten += chunk.disk_bytes;
            if chunk.disk_bytes as f64 > NEARLY_ALL * old as f64 {
                self.nearly_all += chunk.disk_bytes;
            }
        }
    }

    fn show(&mut self) {
        self.steps.sort_unstable();
        self.begins.sort_unstable();
        let at = |part: f64| self.steps.get((self.steps.len() as f64 * part) as usize);
        let ms = |ns: Option<&u64>| ns.map_or(0.0, |ns| *ns as f64 / 1e6);
        println!(
            "steps p50 / p99 / max {:.1} / {:.1} / {:.1} ms, beginnings up to {:.1} ms; {} collections of {:.3} s, {:.1} MB of memory; rewritten {:.1} MB, of chunks of which nine tenths stayed {:.1} MB",
            ms(at(0.5)),
            ms(at(0.99)),
            ms(self.steps.last()),
            ms(self.begins.last()),
            self.collections,
            self.steps.iter().sum::<u64>() as f64 / 1e9 / self.collections.max(1) as f64,
            self.memory as f64 / 1e6,
            self.rewritten as f64 / 1e6,
            self.nearly_all as f64 / 1e6,
        );
    }
}

fn take_arguments() -> Result<(PathBuf, Arguments)> {
    let mut given = std::env::args().skip(1);
    let folder = PathBuf::from(given.next().unwrap_or_else(|| ".".into()));
    let mut all = Arguments {
        accounts: 100_000,
        blocks: 600,
        every: 100,
        keep: 100,
        step_ns: 3_500_000,
        share: 10,
        mix: Mix { reads: 3000, updates: 800, inserts: 60, deletes: 20 },
    };
    while let (Some(name), Some(value)) = (given.next(), given.next()) {
        let number: u64 =
            value.parse().map_err(|_| Error::invalid(format!("{name} is a number")))?;
        match &*name {
            "--accounts" => all.accounts = number,
            "--blocks" => all.blocks = number,
            "--every" => all.every = number.max(1),
            "--keep" => all.keep = number,
            "--updates" => all.mix.updates = number,
            "--step-us" => all.step_ns = number * 1000,
            "--share" => all.share = number.max(1),
            _ => return Err(Error::invalid(format!("{name} is not known here"))),
        }
    }
    Ok((folder, all))
}

fn main() -> Result<()> {
    let (folder, arguments) = take_arguments()?;
    let mut plain = Side::new(&folder.join("plain"), &arguments)?;
    let mut collected = Side::new(&folder.join("collected"), &arguments)?;
    let mut collector = Collector { credits: 256, due: arguments.every, ..Collector::default() };
    let (mut quiet, mut busy) = (Sums::default(), Sums::default());
    for block in 1..=arguments.blocks {
        let (mut first, mut second) = (0, 0);
        if block % 2 == 0 {
            first = plain.block(arguments.mix)?;
        }
        second += collected.block(arguments.mix)?;
        let step = collector.step(&mut collected.store, block, second, &arguments)?;
        if block % 2 == 1 {
            first = plain.block(arguments.mix)?;
        }
        let sums = if step > 0 { &mut busy } else { &mut quiet };
        sums.blocks += 1;
        sums.plain += first;
        sums.collected += second;
        sums.steps += step;
        if block % arguments.every == 0 {
            std::mem::take(&mut busy).show(&format!("{block} collecting"));
            std::mem::take(&mut quiet).show(&format!("{block} not"));
        }
    }
    assert_eq!(plain.last, collected.last, "both run the same blocks");
    while collector.is_under_way {
        collector.step(&mut collected.store, arguments.blocks, u64::MAX, &arguments)?;
    }
    collector.show();
    let chunks = collected.store.chunks();
    let bytes = |state: ChunkState| {
        let of = chunks.iter().filter(|chunk| chunk.state == state);
        of.map(|chunk| chunk.disk_bytes).sum::<u64>() as f64 / 1e6
    };
    let (whole, sparse) = (bytes(ChunkState::Whole), bytes(ChunkState::Sparse));
    println!(
        "in the end {whole:.1} MB of whole chunks, {sparse:.1} MB of those that were rewritten"
    );
    Ok(())
}

/// Processor time of the thread, in nanoseconds.
fn processor() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let now = Duration::new(now.tv_sec as u64, now.tv_nsec as u32);
    now.as_nanos() as u64
}

//! What an observer of a context costs an operation, and that none costs nothing:
//! `cargo run --release -p varvite-bench --example observer_cost`. Processor time, the lower quartile of 41
//! rounds by turns.
//!
//! `mem` of the empty path does nothing but ask for an observer, so without one it bounds what the asking
//! costs every other operation.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use varvite::Result;
use varvite::context::{CommitInfo, Cost, Observer, Operation, Options, Store, Tree};
use varvite::disk::memory::MemoryDisk;

const ROUNDS: usize = 41;
const CALLS: u32 = 20_000;
const ACCOUNTS: u32 = 20_000;

/// The least that an observer does: reads a clock and adds up.
#[derive(Default)]
struct Sum(AtomicU64);

impl Observer for Sum {
    fn now_ns(&self) -> u64 {
        wall().as_nanos() as u64
    }

    fn record(&self, _: Operation, _: &[&[u8]], duration_ns: u64, _: &Cost) {
        self.0.fetch_add(duration_ns, Ordering::Relaxed);
    }
}

fn tree(observer: Option<Arc<dyn Observer>>) -> Result<Tree> {
    let options = Options { observer, ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options)?;
    let mut tree = store.empty_tree();
    for account in 0..ACCOUNTS {
        tree.add(&path(account), &account.to_be_bytes())?;
    }
    let hash = store.commit(&mut tree, &CommitInfo::default())?;
    store.checkout(&hash)
}

fn path(account: u32) -> [String; 4] {
    ["data".to_owned(), "contracts".to_owned(), format!("{account:08x}"), "balance".to_owned()]
}

fn main() -> Result<()> {
    let trees = [tree(None)?, tree(Some(Arc::new(Sum::default())))?];
    let paths: Vec<_> = (0..CALLS).map(|call| path(call.wrapping_mul(7_919) % ACCOUNTS)).collect();
    let empty: [&str; 0] = [];
    let find = |tree: &Tree| -> Result<()> {
        paths.iter().try_for_each(|path| black_box(tree.find(path)).map(drop))
    };
    let nothing = |tree: &Tree| -> Result<()> {
        (0..CALLS).try_for_each(|_| black_box(black_box(tree).mem(&empty)).map(drop))
    };
    let change = |tree: &Tree| -> Result<()> {
        let mut tree = tree.clone();
        paths.iter().try_for_each(|path| tree.add(path, b"another value"))
    };
    println!("operation        without an observer   with one that reads a clock and adds up");
    report("mem of nothing", &trees, nothing)?;
    report("find", &trees, find)?;
    report("add", &trees, change)
}

fn report(what: &str, trees: &[Tree; 2], run: impl Fn(&Tree) -> Result<()>) -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (tree, times) in trees.iter().zip(&mut times) {
            let start = processor();
            run(tree)?;
            let taken = processor().saturating_sub(start);
            times.push(taken.as_nanos() as f64 / f64::from(CALLS));
        }
    }
    let [without, with] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 4]
    });
    println!("{what:<15} {without:>16.1} ns {with:>22.1} ns");
    Ok(())
}

fn processor() -> Duration {
    clock(rustix::time::ClockId::ProcessCPUTime)
}

fn wall() -> Duration {
    clock(rustix::time::ClockId::Monotonic)
}

fn clock(id: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(id);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

//! `varvite bench context`: the synthetic block workload, with every hash as other engines have it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use varvite::context::hash::{self, Hash};
use varvite::context::{Change, CommitInfo, Keep, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::measure::{BlockMs, Samples, cpu_ns, disk_bytes, peak_rss_bytes};
use crate::print::{self, Format};
use crate::store::folder::temporary;
use crate::workload::context_bench::{Mix, Workload};

/// Replay generated blocks on a context store
#[derive(Debug, Args)]
pub struct Arguments {
    /// Accounts loaded first
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    accounts: u64,
    /// Blocks
    #[arg(long, default_value_t = 100)]
    blocks: u64,
    /// Finds in a block
    #[arg(long, default_value_t = 3000)]
    reads: u64,
    /// Values replaced in a block
    #[arg(long, default_value_t = 800)]
    updates: u64,
    /// Accounts and cells added in a block
    #[arg(long, default_value_t = 60)]
    inserts: u64,
    /// Accounts removed in a block
    #[arg(long, default_value_t = 20)]
    deletes: u64,
    /// Trees in a block that make its changes and are dropped, as simulations and prevalidation do
    #[arg(long, value_name = "TREES", default_value_t = 0)]
    simulate: u64,
    /// Seed of the workload
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Keep the store in memory
    #[arg(long)]
    memory: bool,
    /// Folder for the store, missing or empty [default: a temporary folder]
    #[arg(long, conflicts_with = "memory")]
    dir: Option<PathBuf>,
    /// Memory for nodes, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 84)]
    objects_mib: u64,
    /// Memory for hashes of the children of nodes, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 36)]
    hashes_mib: u64,
    /// Memory for pages, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16)]
    pages_mib: u64,
    /// Collect after so many blocks, again and again; a step after each block takes about a tenth of its time
    #[arg(long, value_name = "BLOCKS", requires = "keep", value_parser = clap::value_parser!(u64).range(1..))]
    collect_every: Option<u64>,
    /// Commits that collections keep
    #[arg(long, value_name = "COMMITS", requires = "collect_every", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
}

/// What came out.
#[derive(Debug, Serialize)]
pub struct Report {
    load_hash: String,
    /// Of the last commit.
    pub last_hash: String,
    load_cpu_seconds: f64,
    /// Processor time, without that of the simulated trees.
    pub cpu_ms_per_block: f64,
    /// Processor time of the simulated trees.
    simulated_cpu_ms_per_block: f64,
    /// By the clock.
    pub block_ms: BlockMs,
    commit_ms: f64,
    peak_rss_bytes: u64,
    written_bytes_per_write: f64,
    /// Opening the store and checking the last commit out.
    pub open_seconds: f64,
    list_page_ms: f64,
    /// Of the store.
    pub disk_bytes: u64,
    /// Of the blocks.
    pub syncs_per_commit: f64,
    /// Finds of any account by a reader that has just opened the store, its files in the page cache.
    pub reader_finds_per_second: f64,
    /// Finds that should have found something.
    pub missing: u64,
    /// Of collections, if there were any.
    #[serde(flatten)]
    collected: Option<Collected>,
}

/// Runs load and blocks and prints the figures.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let temporary = match (&arguments.dir, arguments.memory) {
        (None, false) => Some(temporary()?),
        _ => None,
    };
    let folder = arguments.dir.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let report = work(arguments, folder)?;
    show(&report, format)?;
    Ok(Verdict::found(report.missing == 0))
}

/// What the demo runs in `folder`, small enough to be over soon.
pub fn small(folder: &Path) -> Result<Report> {
    let arguments = Arguments {
        accounts: 20_000,
        blocks: 50,
        reads: 1000,
        updates: 300,
        inserts: 40,
        deletes: 10,
        simulate: 0,
        seed: 42,
        memory: false,
        dir: None,
        objects_mib: 64,
        hashes_mib: 56,
        pages_mib: 16,
        collect_every: None,
        keep: None,
    };
    work(&arguments, Some(folder))
}

/// The last hash of [`small`], as two other engines computed it.
pub const SMALL_HASH: &str = "CoWPBzVoMa5HQWfPShZ7J1P15MCtY2BxBF6tXnzD15BVDzyMRAw4";

/// Finds of the reader.
const READER_FINDS: u64 = 200_000;

/// Runs load and blocks on a store in `folder`, or in memory.
fn work(arguments: &Arguments, folder: Option<&Path>) -> Result<Report> {
    let disk: Arc<dyn Disk> = match folder {
        Some(folder) => OsDisk::create(folder)?,
        None => MemoryDisk::seeded(1),
    };
    let options = Options {
        objects_bytes: arguments.objects_mib << 20,
        hashes_bytes: arguments.hashes_mib << 20,
        pages_bytes: arguments.pages_mib << 20,
        ..Options::default()
    };
    let mut store = Store::create(Arc::clone(&disk), options.clone())?;
    let mut collector = Collector::of(arguments, folder);
    let (mut report, last, mut workload) = measure(arguments, &mut store, &mut collector)?;
    if let Some(collector) = &mut collector {
        collector.end(&mut store)?;
    }
    store.checkpoint()?;
    report.disk_bytes = folder.map_or(store.stats().pack_bytes, disk_bytes);
    if let Some(collector) = collector {
        report.collected = Some(collector.report(arguments, &store)?);
    }
    store.close()?;
    let start = Instant::now();
    let store = Store::open(Arc::clone(&disk), options.clone())?;
    let tree = store.checkout(&last)?;
    report.open_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let page = tree.list(&["data", "contracts", "index"], 0, 5)?;
    report.list_page_ms = start.elapsed().as_secs_f64() * 1e3;
    if page.len() as u64 != arguments.accounts.min(5) {
        return Err(Error::invalid("the page is shorter than it should be"));
    }
    let reader = Store::open_read_only(disk, options)?;
    let tree = reader.checkout(&last)?;
    let start = Instant::now();
    workload.find_any(&tree, READER_FINDS)?;
    report.reader_finds_per_second = READER_FINDS as f64 / start.elapsed().as_secs_f64();
    report.missing = workload.missing;
    Ok(report)
}

fn commit(store: &mut Store, tree: &mut Tree, level: u64, parent: Option<Hash>) -> Result<Hash> {
    let parents: Vec<Hash> = parent.into_iter().collect();
    store.commit(tree, &CommitInfo::new(&parents, level as i64, "Tezos", format!("lvl {level}")))
}

/// Makes `count` trees out of the last one with the changes that the next block will have, asks for
/// their hashes, and drops them.
fn simulate(count: u64, mix: Mix, next: &Workload, store: &Store, last: &Hash) -> Result<()> {
    for _ in 0..count {
        let (mut trial, mut tree) = (next.clone(), store.checkout(last)?);
        trial.read(&tree, mix)?;
        trial.write(&mut tree, mix)?;
        tree.hash()?;
    }
    Ok(())
}

fn measure(
    arguments: &Arguments,
    store: &mut Store,
    collector: &mut Option<Collector>,
) -> Result<(Report, Hash, Workload)> {
    let mix = Mix {
        reads: arguments.reads,
        updates: arguments.updates,
        inserts: arguments.inserts,
        deletes: arguments.deletes,
    };
    let mut workload = Workload::new(arguments.seed);
    let mut tree = Tree::empty(store.configuration());
    let (mut last, mut level) = (None, 0);
    let cpu = cpu_ns();
    while workload.accounts() < arguments.accounts {
        workload.load(&mut tree, arguments.accounts)?;
        level += 1;
        last = Some(commit(store, &mut tree, level, last)?);
    }
    let load_cpu_seconds = (cpu_ns() - cpu) as f64 / 1e9;
    let mut last = last.expect("there is an account to load at least");
    let load_hash = hash::to_text(&last);
    let (mut blocks, mut commits) = (Samples::default(), 0.0);
    let (before, writes) = (store.stats(), workload.writes);
    let (mut cpu, mut simulated_cpu) = (0, 0);
    for _ in 0..arguments.blocks {
        let begin = cpu_ns();
        simulate(arguments.simulate, mix, &workload, store, &last)?;
        let (start, simulated) = (Instant::now(), cpu_ns());
        simulated_cpu += simulated - begin;
        let mut tree = store.checkout(&last)?;
        workload.read(&tree, mix)?;
        workload.write(&mut tree, mix)?;
        let commit_start = Instant::now();
        level += 1;
        last = commit(store, &mut tree, level, Some(last))?;
        commits += commit_start.elapsed().as_secs_f64();
        blocks.push(start.elapsed().as_nanos() as u64);
        let own = cpu_ns() - simulated;
        cpu += own;
        if let Some(collector) = collector {
            collector.after_block(store, own)?;
        }
    }
    let after = store.stats();
    let count = arguments.blocks.max(1) as f64;
    let report = Report {
        load_hash,
        last_hash: hash::to_text(&last),
        load_cpu_seconds,
        cpu_ms_per_block: cpu as f64 / 1e6 / count,
        simulated_cpu_ms_per_block: simulated_cpu as f64 / 1e6 / count,
        block_ms: BlockMs::of(&mut blocks),
        commit_ms: commits * 1e3 / count,
        peak_rss_bytes: peak_rss_bytes(),
        written_bytes_per_write: (after.written_bytes - before.written_bytes) as f64
            / (workload.writes - writes).max(1) as f64,
        open_seconds: 0.0,
        list_page_ms: 0.0,
        disk_bytes: 0,
        syncs_per_commit: (after.syncs - before.syncs) as f64 / count,
        reader_finds_per_second: 0.0,
        missing: 0,
        collected: None,
    };
    Ok((report, last, workload))
}

/// What collections cost and gave.
#[derive(Debug, Serialize)]
struct Collected {
    collections: u64,
    collect_cpu_seconds: f64,
    /// Of the steps, one after each block: processor time of the thread.
    collect_pause_ms: BlockMs,
    collect_syncs: u64,
    /// Blocks for each second of processor time, steps included, while collecting over while not.
    throughput_while_collecting: f64,
    peak_disk_bytes: u64,
    /// The same commits in a new store.
    fresh_bytes: u64,
    blocks_while_collecting: u64,
}

/// What a step aims at, at most: half of what a pause may last.
const STEP_NS: u64 = 2_500_000;

/// Collects beside the blocks.
#[derive(Debug)]
struct Collector {
    every: u64,
    keep: u64,
    folder: Option<PathBuf>,
    blocks: u64,
    /// Processor time, of blocks alone while nothing is collected, of blocks and steps while something is.
    quiet: (u64, u64),
    busy: (u64, u64),
    pauses: Samples,
    pause_ns: u64,
    credits: u64,
    syncs: u64,
    peak_disk_bytes: u64,
    is_under_way: bool,
    collections: u64,
}

impl Collector {
    fn of(arguments: &Arguments, folder: Option<&Path>) -> Option<Collector> {
        let (every, keep) = (arguments.collect_every?, arguments.keep?);
        Some(Collector {
            every,
            keep,
            folder: folder.map(Path::to_owned),
            blocks: 0,
            quiet: (0, 0),
            busy: (0, 0),
            pauses: Samples::default(),
            pause_ns: 0,
            credits: 256,
            syncs: 0,
            peak_disk_bytes: 0,
            is_under_way: false,
            collections: 0,
        })
    }

    /// Takes a step, of a tenth of what the block has taken.
    fn after_block(&mut self, store: &mut Store, block_ns: u64) -> Result<()> {
        self.blocks += 1;
        let syncs = store.stats().syncs;
        let start = cpu_ns();
        if !self.is_under_way && self.blocks.is_multiple_of(self.every) {
            self.is_under_way = store.collect_keeping(&Keep::Newest(self.keep))?;
        } else if self.is_under_way {
            self.is_under_way = store.collect_step(self.credits)?;
            self.collections += u64::from(!self.is_under_way);
        } else {
            self.quiet = (self.quiet.0 + 1, self.quiet.1 + block_ns);
            return Ok(());
        }
        let step = cpu_ns() - start;
        // The next one takes about as long as it should.
        let aim = (block_ns / 10).min(STEP_NS);
        let fitting = self.credits.saturating_mul(aim) / step.max(1);
        self.credits = fitting.clamp(self.credits / 2, self.credits * 2).clamp(16, 1 << 16);
        self.pauses.push(step);
        self.pause_ns += step;
        self.busy = (self.busy.0 + 1, self.busy.1 + block_ns + step);
        self.syncs += store.stats().syncs - syncs;
        self.look();
        Ok(())
    }

    fn look(&mut self) {
        if let Some(folder) = &self.folder {
            self.peak_disk_bytes = self.peak_disk_bytes.max(disk_bytes(folder));
        }
    }

    /// Ends the collection that is under way when the blocks are over.
    fn end(&mut self, store: &mut Store) -> Result<()> {
        while self.is_under_way {
            let start = cpu_ns();
            self.is_under_way = store.collect_step(self.credits)?;
            self.collections += u64::from(!self.is_under_way);
            self.pause_ns += cpu_ns() - start;
            self.look();
        }
        Ok(())
    }

    fn report(mut self, arguments: &Arguments, store: &Store) -> Result<Collected> {
        let share = |(blocks, ns): (u64, u64)| ns as f64 / blocks.max(1) as f64;
        let fresh_bytes = fresh(arguments, store)?;
        Ok(Collected {
            collections: self.collections,
            collect_cpu_seconds: self.pause_ns as f64 / 1e9,
            collect_pause_ms: BlockMs::of(&mut self.pauses),
            collect_syncs: self.syncs,
            throughput_while_collecting: share(self.quiet) / share(self.busy).max(1.0),
            peak_disk_bytes: self.peak_disk_bytes,
            fresh_bytes,
            blocks_while_collecting: self.busy.0,
        })
    }
}

/// Bytes of a new store with the commits of `store`: the oldest copied, the others made from the one before.
fn fresh(arguments: &Arguments, store: &Store) -> Result<u64> {
    let folder = temporary()?;
    let options = Options { objects_bytes: arguments.objects_mib << 20, ..Options::default() };
    let mut copy = Store::create(OsDisk::create(folder.path())?, options)?;
    let mut log = store.log(usize::MAX)?;
    let Some(first) = log.pop() else { return Ok(0) };
    let again = |tree: &mut Tree, copy: &mut Store, commit: &Hash| {
        let info = store.commit_info(commit)?;
        let info = CommitInfo::new(&info.parents, info.date, info.author, info.message);
        let hash = copy.commit(tree, &info)?;
        if hash == *commit { Ok(()) } else { Err(Error::invalid("the copy has another hash")) }
    };
    let mut before = store.checkout(&first)?;
    let mut tree = before.clone();
    again(&mut tree, &mut copy, &first)?;
    while let Some(commit) = log.pop() {
        let next = store.checkout(&commit)?;
        before.diff(&next, |path, change| match change {
            Change::Added(value) | Change::Updated(_, value) => tree.add(path, &value),
            Change::Removed(_) => tree.remove(path),
        })?;
        again(&mut tree, &mut copy, &commit)?;
        before = next;
    }
    copy.close()?;
    Ok(disk_bytes(folder.path()))
}

fn show(report: &Report, format: Format) -> std::io::Result<()> {
    if format == Format::Json {
        return print::json(report);
    }
    let blocks = &report.block_ms;
    let table = print::record(&[
        ("hash after loading", report.load_hash.clone()),
        ("last hash", report.last_hash.clone()),
        ("loading", format!("{:.1} CPU-s", report.load_cpu_seconds)),
        ("CPU a block", format!("{:.1} ms", report.cpu_ms_per_block)),
        ("CPU of simulated trees", format!("{:.1} ms a block", report.simulated_cpu_ms_per_block)),
        (
            "block p50 / p99 / max",
            format!("{:.1} / {:.1} / {:.1} ms", blocks.p50, blocks.p99, blocks.max),
        ),
        ("commit", format!("{:.1} ms", report.commit_ms)),
        ("peak memory", print::bytes(report.peak_rss_bytes)),
        ("written a write", format!("{:.0} B", report.written_bytes_per_write)),
        ("opening", print::seconds(report.open_seconds)),
        ("a page of 5", format!("{:.3} ms", report.list_page_ms)),
        ("disk", print::bytes(report.disk_bytes)),
        ("syncs a commit", format!("{:.2}", report.syncs_per_commit)),
        ("finds a second of a reader", format!("{:.0}", report.reader_finds_per_second)),
        ("finds that found nothing", report.missing.to_string()),
    ]);
    print::line(&table.to_string())?;
    let Some(collected) = &report.collected else { return Ok(()) };
    let pause = &collected.collect_pause_ms;
    let table = print::record(&[
        ("collections", collected.collections.to_string()),
        ("CPU of them", format!("{:.2} s", collected.collect_cpu_seconds)),
        (
            "step p50 / p99 / max",
            format!("{:.1} / {:.1} / {:.1} ms of CPU", pause.p50, pause.p99, pause.max),
        ),
        ("syncs of them", collected.collect_syncs.to_string()),
        ("throughput meanwhile", format!("{:.2}", collected.throughput_while_collecting)),
        ("most on disk", print::bytes(collected.peak_disk_bytes)),
        ("the same in a new store", print::bytes(collected.fresh_bytes)),
    ]);
    print::line(&table.to_string())
}

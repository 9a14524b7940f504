//! `varvite bench context`: the synthetic block workload, with every hash as other engines have it.

mod archiving;
mod collecting;
mod counted;
mod reader;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use varvite::context::{CommitHash, hash};
use varvite::context::{CommitInfo, Observer, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{Error, Result};

use self::archiving::{Archiver, Lower, MovedChunks};
use self::collecting::{Collected, Collector};
use crate::commands::replay::blocks::IndexKind;
use crate::exit::{self, Outcome, Verdict};
use crate::print::{self, Format};
use crate::sight;
use crate::store::folder::{Target, temporary};
use crate::system::measure::{BlockMs, Samples, cpu_ns, disk_bytes, peak_rss_bytes, thread_cpu_ns};
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
    /// Keep an archive: after each block a chunk that is whole moves to this folder, missing or empty, on another disk. Without
    /// --dir they go with the store when it is over
    #[arg(long, value_name = "DIR", conflicts_with_all = ["memory", "collect_every"])]
    lower: Option<PathBuf>,
    /// Memory for all of the store, in MiB, instead of the three that follow
    #[arg(long, value_name = "MIB", conflicts_with_all = ["objects_mib", "hashes_mib", "pages_mib"], value_parser = clap::value_parser!(u64).range(8..1 << 16))]
    memory_mib: Option<u64>,
    /// Memory for nodes, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 84, value_parser = clap::value_parser!(u64).range(0..1 << 20))]
    objects_mib: u64,
    /// Memory for hashes of the children of nodes, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 36, value_parser = clap::value_parser!(u64).range(0..1 << 20))]
    hashes_mib: u64,
    /// Memory for pages, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..1 << 20))]
    pages_mib: u64,
    /// Collect after so many blocks, again and again; a step after each block takes about a tenth of its time
    #[arg(long, value_name = "BLOCKS", requires = "keep", value_parser = clap::value_parser!(u64).range(1..))]
    collect_every: Option<u64>,
    /// Commits that collections keep
    #[arg(long, value_name = "COMMITS", requires = "collect_every", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Let a reader look at the newest commit and at old ones meanwhile, twenty times a second
    #[arg(long, requires = "collect_every", conflicts_with = "memory")]
    reader: bool,
    /// Which objects the store finds by hash
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
    #[command(flatten)]
    sight: sight::Flags,
}

impl Arguments {
    /// Options of the index and of the memory that were asked for.
    fn budgets(&self) -> Options {
        let options = Options { index: self.index.into(), ..Options::default() };
        if let Some(mib) = self.memory_mib {
            return options.within_memory(mib << 20);
        }
        Options {
            objects_bytes: self.objects_mib << 20,
            hashes_bytes: self.hashes_mib << 20,
            pages_bytes: self.pages_mib << 20,
            ..options
        }
    }
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
    /// What kept the recording from being whole, which the blocks do not end for.
    #[serde(skip)]
    unrecorded: Option<Error>,
    /// Of every action of the blocks, with --timings.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<varvite_sight::Report>,
    /// Of collections, if there were any.
    #[serde(flatten)]
    collected: Option<Collected>,
    /// Of the chunks that moved, with --lower.
    #[serde(flatten)]
    archived: Option<MovedChunks>,
}

/// Runs load and blocks and prints the figures.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    check_deletes(arguments)?;
    let temporary = match (&arguments.dir, arguments.memory) {
        (None, false) => Some(temporary()?),
        _ => None,
    };
    let folder = arguments.dir.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let mut report = work(arguments, folder)?;
    let verdict = Verdict::found(report.missing == 0);
    show(&report, format)?;
    Ok(exit::recorded(report.unrecorded.take().map_or(Ok(()), Err), verdict))
}

/// What the demo runs in `folder`, or in memory, small enough to be over soon; every call is written down in `trace`, if
/// there is a name for it.
pub fn small(folder: Option<&Path>, trace: Option<PathBuf>) -> Result<Report> {
    let arguments = Arguments {
        accounts: 20_000,
        blocks: 50,
        reads: 1000,
        updates: 300,
        inserts: 40,
        deletes: 10,
        simulate: 0,
        seed: 42,
        memory: folder.is_none(),
        dir: None,
        lower: None,
        memory_mib: None,
        objects_mib: 64,
        hashes_mib: 56,
        pages_mib: 16,
        collect_every: None,
        keep: None,
        index: IndexKind::Minimal,
        reader: false,
        sight: sight::Flags { trace, ..sight::Flags::default() },
    };
    let mut report = work(&arguments, folder)?;
    report.unrecorded.take().map_or(Ok(report), Err)
}

/// The last hash of [`small`], as two other engines computed it.
pub const SMALL_HASH: &str = "CoWPBzVoMa5HQWfPShZ7J1P15MCtY2BxBF6tXnzD15BVDzyMRAw4";

/// Finds of the reader.
const READER_FINDS: u64 = 200_000;

/// `Invalid` when the blocks would remove accounts that are looked for behind them.
fn check_deletes(arguments: &Arguments) -> Result<()> {
    // Every fourth insert is a cell of a big map.
    let made = i128::from(arguments.inserts - arguments.inserts / 4);
    // Trees that are made besides have the changes of one block more.
    let blocks = i128::from(arguments.blocks) + i128::from(arguments.simulate > 0);
    let change = blocks.saturating_mul(made - i128::from(arguments.deletes));
    let left = i128::from(arguments.accounts).saturating_add(change);
    if left >= i128::from(arguments.accounts.min(5)) {
        return Ok(());
    }
    Err(Error::invalid(
        "the blocks would remove all accounts: give more --accounts, fewer --blocks, or fewer --deletes",
    ))
}

/// Runs load and blocks on a store in `folder`, or in memory.
fn work(arguments: &Arguments, folder: Option<&Path>) -> Result<Report> {
    let mut lower = Lower::of(arguments, folder)?;
    let (made, disk): (Option<Target>, Arc<dyn Disk>) = match folder {
        Some(folder) => {
            let (made, disk) = Target::create(folder)?;
            (Some(made), disk)
        }
        None => (None, MemoryDisk::seeded(1)),
    };
    let done = work_on(arguments, folder, &disk, lower.as_ref());
    match (&done, made) {
        (Ok(_), _) => lower.iter_mut().for_each(Lower::keep),
        (Err(error), Some(made)) => made.take_back(error),
        (Err(_), None) => {}
    }
    done
}

/// The same on its disk.
fn work_on(
    arguments: &Arguments,
    folder: Option<&Path>,
    disk: &Arc<dyn Disk>,
    lower: Option<&Lower>,
) -> Result<Report> {
    let timings = arguments.sight.timings();
    let mut tracing = sight::Tracing::to(arguments.sight.trace.as_deref(), folder)?;
    let budgets = arguments.budgets();
    let options = Options {
        recorder: tracing.recorder(),
        observer: timings.clone().map(|it| it as Arc<dyn Observer>),
        // In memory its file would be memory, too.
        hashes_file_bytes: folder.map_or(0, |_| budgets.hashes_file_bytes),
        lower: lower.map(|lower| Arc::clone(&lower.disk)),
        ..budgets
    };
    let mut store = Store::create(Arc::clone(disk), options.clone())?;
    let mut beside = Beside {
        collector: Collector::of(arguments, folder)?,
        archiver: lower.map(Lower::archiver),
    };
    let mut seen = Seen { timings: timings.as_deref(), tracing: &mut tracing };
    let (mut report, last, mut workload) = measure(arguments, &mut store, &mut beside, &mut seen)?;
    beside.end(&mut store, &last)?;
    store.checkpoint()?;
    report.disk_bytes = folder.map_or(store.stats().pack_bytes, disk_bytes);
    if let Some(collector) = beside.collector {
        report.collected = Some(collector.report(arguments, &store)?);
    }
    report.archived = beside.archiver.map(|archiver| archiver.report(&store));
    store.close()?;
    let start = Instant::now();
    // What is found from here on is no block's.
    let options = Options { recorder: None, ..options };
    let store = Store::open(Arc::clone(disk), options.clone())?;
    let tree = store.checkout(&last)?;
    report.open_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let page = tree.list(&["data", "contracts", "index"], 0, 5)?;
    report.list_page_ms = start.elapsed().as_secs_f64() * 1e3;
    if page.len() as u64 != arguments.accounts.min(5) {
        return Err(Error::invalid("the page is shorter than it should be"));
    }
    let reader = Store::open_read_only(Arc::clone(disk), options)?;
    let tree = reader.checkout(&last)?;
    let start = Instant::now();
    match (&mut report.archived, lower) {
        (Some(archived), Some(lower)) => {
            archived.count(lower, || workload.find_any(&tree, READER_FINDS))?;
        }
        _ => workload.find_any(&tree, READER_FINDS)?,
    }
    report.reader_finds_per_second = READER_FINDS as f64 / start.elapsed().as_secs_f64();
    report.missing = workload.missing;
    report.unrecorded = tracing.finish().err();
    Ok(report)
}

fn commit(
    store: &mut Store,
    tree: &mut Tree,
    level: u64,
    parent: Option<CommitHash>,
) -> Result<CommitHash> {
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    store.commit(tree, &CommitInfo::new(&parents, level as i64, "Tezos", format!("lvl {level}")))
}

/// Makes `count` trees out of the last one with the changes that the next block will have, asks for
/// their hashes, and drops them.
fn simulate(count: u64, mix: Mix, next: &Workload, store: &Store, last: &CommitHash) -> Result<()> {
    for _ in 0..count {
        let (mut trial, mut tree) = (next.clone(), store.checkout(last)?);
        trial.read(&tree, mix)?;
        trial.write(&mut tree, mix)?;
        tree.hash()?;
    }
    Ok(())
}

/// What is shown of the run.
struct Seen<'a> {
    timings: Option<&'a sight::Observed>,
    tracing: &'a mut sight::Tracing,
}

/// What is done after each block, which takes no time of it, and of whose syncs and bytes no block has any.
struct Beside {
    collector: Option<Collector>,
    archiver: Option<Archiver>,
}

impl Beside {
    fn after_block(
        &mut self,
        store: &mut Store,
        last: &CommitHash,
        block_ns: u64,
        took: Duration,
    ) -> Result<()> {
        if let Some(collector) = &mut self.collector {
            collector.after_block(store, block_ns, took)?;
        }
        self.archiver.as_mut().map_or(Ok(false), |archiver| archiver.step(store, last)).map(drop)
    }

    fn end(&mut self, store: &mut Store, last: &CommitHash) -> Result<()> {
        if let Some(collector) = &mut self.collector {
            collector.end(store)?;
        }
        self.archiver.as_mut().map_or(Ok(()), |archiver| archiver.end(store, last))
    }
}

fn measure(
    arguments: &Arguments,
    store: &mut Store,
    beside: &mut Beside,
    seen: &mut Seen<'_>,
) -> Result<(Report, CommitHash, Workload)> {
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
    // What is committed now is none of the blocks that a summary of the recording counts.
    seen.tracing.mark("load");
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
    seen.tracing.mark("blocks");
    let (mut cpu, mut simulated_cpu) = (0, 0);
    let (mut beside_syncs, mut beside_bytes) = (0, 0);
    if let Some(timings) = seen.timings {
        timings.reset();
    }
    for _ in 0..arguments.blocks {
        let begin = thread_cpu_ns();
        simulate(arguments.simulate, mix, &workload, store, &last)?;
        let (start, simulated) = (Instant::now(), thread_cpu_ns());
        simulated_cpu += simulated - begin;
        let mut tree = store.checkout(&last)?;
        workload.read(&tree, mix)?;
        workload.write(&mut tree, mix)?;
        let commit_start = Instant::now();
        level += 1;
        last = commit(store, &mut tree, level, Some(last))?;
        commits += commit_start.elapsed().as_secs_f64();
        let (took, own) = (start.elapsed(), thread_cpu_ns() - simulated);
        blocks.push(took.as_nanos() as u64);
        seen.tracing.tick();
        cpu += own;
        let ended = store.stats();
        beside.after_block(store, &last, own, took)?;
        let moved = store.stats();
        beside_syncs += moved.syncs.saturating_sub(ended.syncs);
        beside_bytes += moved.written_bytes.saturating_sub(ended.written_bytes);
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
        written_bytes_per_write: (after.written_bytes - before.written_bytes - beside_bytes) as f64
            / (workload.writes - writes).max(1) as f64,
        open_seconds: 0.0,
        list_page_ms: 0.0,
        disk_bytes: 0,
        syncs_per_commit: (after.syncs - before.syncs - beside_syncs) as f64 / count,
        reader_finds_per_second: 0.0,
        missing: 0,
        timings: seen.timings.map(sight::Observed::report),
        collected: None,
        archived: None,
        unrecorded: None,
    };
    Ok((report, last, workload))
}

/// Prints what came out.
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
    report.timings.as_ref().map_or(Ok(()), sight::show)?;
    report.collected.as_ref().map_or(Ok(()), Collected::show)?;
    report.archived.as_ref().map_or(Ok(()), MovedChunks::show)
}

//! `varvite replay blocks`: a block workload, every block compared with what the real Irmin made.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;
use varvite::context::{CommitHash, hash};
use varvite::context::{CommitInfo, Index, Observer, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

use crate::exit::{self, Outcome, Verdict};
use crate::input::read_text;
use crate::print::{self, Format};
use crate::sight;
use crate::system::measure::{BlockMs, Samples, cpu_ns, disk_bytes, peak_rss_bytes};
use crate::workload::blocks::{Block, Blocks, Checksum, Expected, Operation, expectations};

/// Which objects the store finds by hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum IndexKind {
    /// Commits.
    #[default]
    Minimal,
    /// Every object.
    Always,
}

impl From<IndexKind> for Index {
    fn from(kind: IndexKind) -> Index {
        match kind {
            IndexKind::Minimal => Index::Minimal,
            IndexKind::Always => Index::Always,
        }
    }
}

/// Replay a block workload on a context store
#[derive(Debug, Args)]
pub struct Arguments {
    /// The workload, gzipped or not
    file: PathBuf,
    /// What every block must give
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Folder for the store; an interrupted replay goes on there [default: in memory]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Which objects a new store finds by hash
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
    /// Close and reopen the store after every block
    #[arg(long)]
    cold: bool,
    #[command(flatten)]
    sight: sight::Flags,
}

#[derive(Debug, Serialize)]
struct Report {
    blocks: u64,
    resumed: u64,
    mismatches: u64,
    first_mismatch: Option<String>,
    operations: u64,
    cpu_ms_per_block: f64,
    cpu_us_per_operation: f64,
    block_ms: BlockMs,
    commit_ms: f64,
    peak_rss_bytes: u64,
    written_bytes: u64,
    disk_bytes: u64,
    /// Of every action, with --timings.
    #[serde(skip_serializing_if = "Option::is_none")]
    timings: Option<varvite_sight::Report>,
}

/// A replay on its way.
struct Replay {
    disk: Arc<dyn Disk>,
    options: Options,
    store: Option<Store>,
    expected: HashMap<u64, Expected>,
    last: Option<CommitHash>,
    mismatches: u64,
    first_mismatch: Option<String>,
    written_bytes: u64,
}

/// Replays the file and prints what came out.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let name = arguments.file.display().to_string();
    let text = read_text(&arguments.file)?;
    if text.trim().is_empty() {
        return Err(Error::invalid(format!("{name} is empty: give a file of blocks")).into());
    }
    let expected = match &arguments.expect {
        Some(path) => expectations(&path.display().to_string(), &read_text(path)?)?,
        None => Vec::new(),
    };
    let timings = arguments.sight.timings();
    let mut tracing =
        sight::Tracing::to(arguments.sight.trace.as_deref(), arguments.store.as_deref())?;
    let options = Options {
        recorder: tracing.recorder(),
        observer: timings.clone().map(|it| it as Arc<dyn Observer>),
        index: arguments.index.into(),
        ..Options::default()
    };
    let disk: Arc<dyn Disk> = match &arguments.store {
        Some(folder) => OsDisk::create(folder)?,
        None => MemoryDisk::seeded(1),
    };
    let store = if disk.exists("control")? {
        Store::open(Arc::clone(&disk), options.clone())?
    } else {
        Store::create(Arc::clone(&disk), options.clone())?
    };
    let mut replay = Replay {
        disk,
        options,
        last: None,
        store: Some(store),
        expected: expected.into_iter().collect(),
        mismatches: 0,
        first_mismatch: None,
        written_bytes: 0,
    };
    let (mut samples, mut commit_seconds) = (Samples::default(), 0.0);
    let (mut blocks, mut resumed, mut measured, mut operations, mut cpu) = (0, 0, 0u64, 0u64, 0);
    let done =
        if replay.expected.is_empty() { replay.done_before(&name, &text)? } else { Vec::new() };
    let mut source = Blocks::new(&name, &text);
    while let Some(block) = source.next_block()? {
        blocks += 1;
        if replay.is_done(&block, done.get(blocks as usize - 1))? {
            resumed += 1;
            continue;
        }
        let (start, cpu_start) = (Instant::now(), cpu_ns());
        let seconds = replay.block(&block)?;
        if block.measured {
            cpu += cpu_ns() - cpu_start;
            samples.push(start.elapsed().as_nanos() as u64);
            commit_seconds += seconds;
            measured += 1;
            operations += block.operations.len() as u64;
        }
        tracing.tick();
        // Between blocks nobody waits.
        replay.store().maintain()?;
        if arguments.cold {
            replay.reopen()?;
        }
    }
    let store = replay.store.take().expect("a replay has a store");
    let pack_bytes = store.stats().pack_bytes;
    replay.written_bytes += store.stats().written_bytes;
    store.close()?;
    let recorded = tracing.finish();
    let report = Report {
        blocks,
        resumed,
        mismatches: replay.mismatches,
        first_mismatch: replay.first_mismatch,
        operations,
        cpu_ms_per_block: cpu as f64 / 1e6 / measured.max(1) as f64,
        cpu_us_per_operation: cpu as f64 / 1e3 / operations.max(1) as f64,
        block_ms: BlockMs::of(&mut samples),
        commit_ms: commit_seconds * 1e3 / measured.max(1) as f64,
        peak_rss_bytes: peak_rss_bytes(),
        written_bytes: replay.written_bytes,
        disk_bytes: arguments.store.as_deref().map_or(pack_bytes, disk_bytes),
        timings: timings.map(|it| it.report()),
    };
    let verdict = Verdict::found(report.mismatches == 0);
    show(&report, format)?;
    Ok(exit::recorded(recorded, verdict))
}

impl Replay {
    fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("a replay has a store")
    }

    /// The commits of the blocks of this file that an earlier run committed, but the newest: that one
    /// is done again here, and unless it gives the same hash, the store is of another file.
    fn done_before(&mut self, name: &str, text: &str) -> Result<Vec<CommitHash>> {
        let mut commits = self.line()?;
        let mut source = Blocks::new(name, text);
        let mut matching = 0;
        let mut last = None;
        while matching < commits.len()
            && let Some(block) = source.next_block()?
        {
            let info = self.store().commit_info(&commits[matching])?;
            let same = info.date == block.date
                && info.author == block.author.as_bytes()
                && info.message == block.message.as_bytes();
            if !same {
                break;
            }
            matching += 1;
            last = Some(block);
        }
        commits.truncate(matching);
        let (Some(block), Some(newest)) = (last, commits.pop()) else { return Ok(Vec::new()) };
        let (tree, _) = self.apply(&block, commits.last())?;
        let made = self.store().hash(&tree, &commit_info(&block, commits.last()))?;
        Ok(if made == newest { commits } else { Vec::new() })
    }

    /// The commits that lead to the last one, each with one parent at most, the oldest first; none
    /// when a replay cannot have made them.
    fn line(&mut self) -> Result<Vec<CommitHash>> {
        let store = self.store();
        let mut line = Vec::new();
        let mut next = store.last_commit()?;
        while let Some(hash) = next {
            let parents = store.commit_info(&hash)?.parents;
            if parents.len() > 1
                || !parents.iter().all(|parent| store.exists(parent).unwrap_or(false))
            {
                return Ok(Vec::new());
            }
            line.push(hash);
            next = parents.first().copied();
        }
        line.reverse();
        Ok(line)
    }

    /// Whether an earlier run committed this block, as far as the expectations tell, or as `known`.
    fn is_done(&mut self, block: &Block<'_>, known: Option<&CommitHash>) -> Result<bool> {
        if let Some(commit) = known {
            self.last = Some(*commit);
            return Ok(true);
        }
        let Some(expected) = self.expected.get(&block.id).copied() else { return Ok(false) };
        let store = self.store();
        if !store.exists(&expected.commit)? {
            return Ok(false);
        }
        // Read, so that what is skipped is at least readable.
        let root = store.commit_info(&expected.commit)?.tree;
        self.last = Some(expected.commit);
        self.compare(block.id, "root", root == expected.root);
        Ok(true)
    }

    fn compare(&mut self, id: u64, what: &str, equal: bool) {
        if !equal {
            self.mismatches += 1;
            self.first_mismatch.get_or_insert_with(|| format!("block {id}: {what}"));
        }
    }

    /// What a block makes of the commit before it, and of what it reads there.
    fn apply(&mut self, block: &Block<'_>, last: Option<&CommitHash>) -> Result<(Tree, Checksum)> {
        let mut tree = match last {
            Some(last) => self.store().checkout(last)?,
            None => Tree::empty(self.options.configuration),
        };
        let mut checksum = Checksum::default();
        for operation in &block.operations {
            match operation {
                Operation::Find(path) => checksum.found(tree.find(path)?.as_deref()),
                Operation::List(path) => {
                    let page = tree.list(path, 0, u64::MAX)?;
                    let mut names: Vec<_> = page.into_iter().map(|(name, _)| name).collect();
                    names.sort_unstable();
                    checksum.listed(&names);
                }
                Operation::Add(path, value) => tree.add(path, value)?,
                Operation::Remove(path) => tree.remove(path)?,
            }
        }
        Ok((tree, checksum))
    }

    /// Runs one block on the commit before it; returns how long its commit took.
    fn block(&mut self, block: &Block<'_>) -> Result<f64> {
        let last = self.last;
        let (mut tree, checksum) = self.apply(block, last.as_ref())?;
        let info = commit_info(block, last.as_ref());
        let start = Instant::now();
        let commit = self.store().commit(&mut tree, &info)?;
        let seconds = start.elapsed().as_secs_f64();
        self.last = Some(commit);
        if let Some(expected) = self.expected.get(&block.id).copied() {
            self.compare(block.id, "read checksum", checksum.value() == expected.reads);
            self.compare(block.id, "root", tree.hash()? == expected.root);
            let text = format!("commit {}", hash::to_text(&commit));
            self.compare(block.id, &text, commit == expected.commit);
        }
        Ok(seconds)
    }

    fn reopen(&mut self) -> Result<()> {
        let store = self.store.take().expect("a replay has a store");
        self.written_bytes += store.stats().written_bytes;
        drop(store);
        self.store = Some(Store::open(Arc::clone(&self.disk), self.options.clone())?);
        Ok(())
    }
}

fn commit_info(block: &Block<'_>, parent: Option<&CommitHash>) -> CommitInfo {
    let parents: Vec<CommitHash> = parent.copied().into_iter().collect();
    CommitInfo::new(&parents, block.date, block.author, block.message)
}

fn show(report: &Report, format: Format) -> std::io::Result<()> {
    if format == Format::Json {
        return print::json(report);
    }
    let blocks = &report.block_ms;
    let table = print::record(&[
        ("blocks", print::count(report.blocks)),
        ("done by an earlier run", print::count(report.resumed)),
        ("mismatches", print::count(report.mismatches)),
        ("first mismatch", report.first_mismatch.clone().unwrap_or_else(|| "none".to_owned())),
        ("operations measured", print::count(report.operations)),
        ("CPU a block", format!("{:.2} ms", report.cpu_ms_per_block)),
        ("CPU an operation", format!("{:.2} µs", report.cpu_us_per_operation)),
        (
            "block p50 / p99 / max",
            format!("{:.1} / {:.1} / {:.1} ms", blocks.p50, blocks.p99, blocks.max),
        ),
        ("commit", format!("{:.2} ms", report.commit_ms)),
        ("peak memory", print::bytes(report.peak_rss_bytes)),
        ("written", print::bytes(report.written_bytes)),
        ("disk", print::bytes(report.disk_bytes)),
    ]);
    print::line(&table.to_string())?;
    report.timings.as_ref().map_or(Ok(()), sight::show)
}

//! Collections beside the blocks of `varvite bench context`, and what they cost.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use varvite::context::CommitHash;
use varvite::context::{Change, CommitInfo, Keep, Options, Store, Tree};
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

use super::Arguments;
use super::reader::Reader;
use crate::print;
use crate::store::folder::temporary;
use crate::system::measure::{BlockMs, Samples, disk_bytes, rss_bytes, thread_cpu_ns};

/// What collections cost and gave.
#[derive(Debug, Serialize)]
pub(super) struct Collected {
    collections: u64,
    collect_cpu_seconds: f64,
    /// Of the steps, one after each block: processor time of the thread.
    collect_pause_ms: BlockMs,
    collect_syncs: u64,
    /// Blocks for each second of processor time, steps included, while collecting over while not.
    throughput_while_collecting: f64,
    peak_disk_bytes: u64,
    /// What a collection took at most beside what was there when it began and what blocks have added since.
    extra_disk_bytes: u64,
    /// The same commits in a new store.
    fresh_bytes: u64,
    blocks_while_collecting: u64,
    /// The most memory that a collection took.
    collect_memory_bytes: u64,
    /// What a reader found meanwhile, if there was one.
    followed_finds: u64,
    /// The course of it, for so many blocks each as there are between two collections.
    windows: Vec<Window>,
}

/// Blocks between two collections.
#[derive(Debug, Serialize)]
struct Window {
    blocks: u64,
    /// Of a block with its step, by the processor and by the clock.
    cpu_ms: BlockMs,
    block_ms: BlockMs,
    /// At its end.
    disk_bytes: u64,
    rss_bytes: u64,
}

/// What a step aims at, at most: with room for what it cannot foresee below the 5 ms that a pause may last. More
/// while a collection is behind: it should be over before the next is due.
const STEP_NS: u64 = 3_500_000;
const LATE_STEP_NS: u64 = 4_200_000;
/// In so many small steps the time after a block is used: one in which a credit takes longer than it took before then makes
/// no long pause.
const STEPS: u64 = 8;

/// Collects beside the blocks.
#[derive(Debug)]
pub(super) struct Collector {
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
    /// What the steps of the collection under way have added to the disk, and the most of all.
    added_bytes: i64,
    extra_disk_bytes: i64,
    memory_bytes: u64,
    is_under_way: bool,
    /// When the collection that is under way began, in blocks, and what it had then to look at, in bytes.
    begun: (u64, u64),
    is_late: bool,
    /// The block after which the next one begins.
    due: u64,
    collections: u64,
    reader: Option<Reader>,
    /// Of the window that is under way: processor and wall time.
    of_window: (Samples, Samples),
    windows: Vec<Window>,
}

impl Collector {
    /// None without `--collect-every`.
    pub(super) fn of(arguments: &Arguments, folder: Option<&Path>) -> Result<Option<Collector>> {
        let (Some(every), Some(keep)) = (arguments.collect_every, arguments.keep) else {
            return Ok(None);
        };
        let followed = folder.filter(|_| arguments.reader);
        Ok(Some(Collector {
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
            added_bytes: 0,
            extra_disk_bytes: 0,
            memory_bytes: 0,
            is_under_way: false,
            begun: (0, 0),
            is_late: false,
            due: every,
            collections: 0,
            reader: followed.map(|folder| Reader::begin(folder, keep)).transpose()?,
            of_window: Default::default(),
            windows: Vec::new(),
        }))
    }

    /// Takes a step, of a tenth of what the block has taken.
    pub(super) fn after_block(
        &mut self,
        store: &mut Store,
        block_ns: u64,
        took: Duration,
    ) -> Result<()> {
        self.blocks += 1;
        let (step, took) = (self.step(store, block_ns)?, took.as_nanos() as u64);
        self.of_window.0.push(block_ns + step);
        self.of_window.1.push(took + step);
        if self.blocks.is_multiple_of(self.every) {
            let (mut cpu, mut wall) = std::mem::take(&mut self.of_window);
            self.windows.push(Window {
                blocks: self.blocks,
                cpu_ms: BlockMs::of(&mut cpu),
                block_ms: BlockMs::of(&mut wall),
                disk_bytes: self.folder.as_deref().map_or(store.stats().pack_bytes, disk_bytes),
                rss_bytes: rss_bytes(),
            });
        }
        Ok(())
    }

    /// Begins a collection when its time has come, or goes on with the one under way; returns the processor
    /// time of that.
    fn step(&mut self, store: &mut Store, block_ns: u64) -> Result<u64> {
        if !self.is_under_way && self.blocks < self.due {
            self.quiet = (self.quiet.0 + 1, self.quiet.1 + block_ns);
            return Ok(0);
        }
        let syncs = store.stats().syncs;
        let before = self.look();
        let aim = (block_ns / 10).min(if self.is_late { LATE_STEP_NS } else { STEP_NS });
        let start = thread_cpu_ns();
        // One that is due while another is under way begins when that is over.
        if self.is_under_way {
            self.go_on(store, start, aim)?;
            self.collections += u64::from(!self.is_under_way);
        } else {
            self.due = (self.blocks / self.every + 1) * self.every;
            self.is_under_way = store.collect_keeping(&Keep::Newest(self.keep))?;
            self.begun = (self.blocks, store.collect_status()?.left_bytes);
            self.added_bytes = 0;
        }
        let step = thread_cpu_ns() - start;
        self.note_added(before);
        let passed = self.blocks - self.begun.0;
        let status = store.collect_status()?;
        self.memory_bytes = self.memory_bytes.max(status.memory_bytes);
        if passed.is_multiple_of(8) {
            self.is_late = self.is_late(passed, status.left_bytes);
        }
        self.pauses.push(step);
        self.pause_ns += step;
        self.busy = (self.busy.0 + 1, self.busy.1 + block_ns + step);
        self.syncs += store.stats().syncs - syncs;
        Ok(step)
    }

    /// Goes on for `aim`, since `start`: in small steps, of which the last may end late.
    fn go_on(&mut self, store: &mut Store, start: u64, aim: u64) -> Result<()> {
        let mut last = start;
        while last - start < aim - aim / STEPS / 2 {
            self.is_under_way = store.collect_step(self.credits)?;
            if !self.is_under_way {
                return Ok(());
            }
            let now = thread_cpu_ns();
            // The next one takes about as long as it should: at once less, and a little more at a time, since one that
            // ended early says little of what credits cost.
            let fitting = self.credits.saturating_mul(aim / STEPS) / (now - last).max(1);
            let most = self.credits + self.credits / 8 + 8;
            self.credits = fitting.clamp(self.credits / 2, most).clamp(16, 1 << 16);
            last = now;
        }
        Ok(())
    }

    /// Whether less of the work is done, of which `left` bytes are left, than of the time until the next is due,
    /// in which there shall be a tenth to spare.
    fn is_late(&self, passed: u64, left: u64) -> bool {
        let all = self.begun.1.max(1) as f64;
        (all - left as f64) / all < passed as f64 / (self.every as f64 * 0.9)
    }

    /// How much is on disk.
    fn look(&mut self) -> u64 {
        let bytes = self.folder.as_deref().map_or(0, disk_bytes);
        self.peak_disk_bytes = self.peak_disk_bytes.max(bytes);
        bytes
    }

    /// A step was taken, before which so much was on disk.
    fn note_added(&mut self, before: u64) {
        self.added_bytes += self.look() as i64 - before as i64;
        self.extra_disk_bytes = self.extra_disk_bytes.max(self.added_bytes);
    }

    /// Ends the collection that is under way when the blocks are over, and the reader.
    pub(super) fn end(&mut self, store: &mut Store) -> Result<()> {
        while self.is_under_way {
            let (before, start) = (self.look(), thread_cpu_ns());
            self.is_under_way = store.collect_step(self.credits)?;
            self.collections += u64::from(!self.is_under_way);
            self.pause_ns += thread_cpu_ns() - start;
            self.memory_bytes = self.memory_bytes.max(store.collect_status()?.memory_bytes);
            self.note_added(before);
        }
        self.reader.as_mut().map_or(Ok(()), Reader::end)
    }

    /// Makes a new store with the same commits, to compare.
    pub(super) fn report(mut self, arguments: &Arguments, store: &Store) -> Result<Collected> {
        let share = |(blocks, ns): (u64, u64)| ns as f64 / blocks.max(1) as f64;
        let fresh_bytes = fresh(arguments, store)?;
        Ok(Collected {
            collections: self.collections,
            collect_cpu_seconds: self.pause_ns as f64 / 1e9,
            collect_pause_ms: BlockMs::of(&mut self.pauses),
            collect_syncs: self.syncs,
            throughput_while_collecting: share(self.quiet) / share(self.busy).max(1.0),
            peak_disk_bytes: self.peak_disk_bytes,
            extra_disk_bytes: self.extra_disk_bytes as u64,
            fresh_bytes,
            blocks_while_collecting: self.busy.0,
            collect_memory_bytes: self.memory_bytes,
            followed_finds: self.reader.map_or(0, |reader| reader.finds()),
            windows: self.windows,
        })
    }
}

/// Bytes of a new store with the commits of `store`: the oldest copied, the others made from the one before.
fn fresh(arguments: &Arguments, store: &Store) -> Result<u64> {
    let folder = temporary()?;
    let options = Options {
        index: arguments.index.into(),
        objects_bytes: arguments.objects_mib << 20,
        ..Options::default()
    };
    let mut copy = Store::create(OsDisk::create(folder.path())?, options)?;
    let mut log = store.log(usize::MAX)?;
    let Some(first) = log.pop() else { return Ok(0) };
    let again = |tree: &mut Tree, copy: &mut Store, commit: &CommitHash| {
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

impl Collected {
    /// Prints it for a person.
    pub(super) fn show(&self) -> std::io::Result<()> {
        let pause = &self.collect_pause_ms;
        let table = print::record(&[
            ("collections", self.collections.to_string()),
            ("CPU of them", format!("{:.2} s", self.collect_cpu_seconds)),
            (
                "step p50 / p99 / max",
                format!("{:.1} / {:.1} / {:.1} ms of CPU", pause.p50, pause.p99, pause.max),
            ),
            ("syncs of them", self.collect_syncs.to_string()),
            ("throughput meanwhile", format!("{:.2}", self.throughput_while_collecting)),
            ("most on disk", print::bytes(self.peak_disk_bytes)),
            ("most of a collection's own", print::bytes(self.extra_disk_bytes)),
            ("most of its memory", print::bytes(self.collect_memory_bytes)),
            ("the same in a new store", print::bytes(self.fresh_bytes)),
        ]);
        print::line(&table.to_string())
    }
}

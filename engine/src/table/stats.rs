//! What a table and a session say of themselves: shape, sizes, work, filters and memory.

use std::sync::atomic::{AtomicU64, Ordering};

use super::levels::Merging;
use super::merge_job::{Input, Purpose};
use super::run::Run;
use super::view::View;
use super::write_buffer::WriteBuffer;

/// Levels counted one by one; deeper ones count with the last.
pub const LEVELS_COUNTED: usize = 16;

/// What one lookup counted at one level.
#[derive(Clone, Copy, Debug, Default)]
pub struct LevelLookupCounts {
    pub probes: u64,
    pub passes: u64,
    pub false_passes: u64,
}

/// What one lookup counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct LookupCounts {
    pub keys: u64,
    pub page_reads: u64,
    pub cache_hits: u64,
    pub levels: [LevelLookupCounts; LEVELS_COUNTED],
}

impl LookupCounts {
    #[inline]
    pub fn level(&mut self, level: usize) -> &mut LevelLookupCounts {
        &mut self.levels[level.min(LEVELS_COUNTED - 1)]
    }
}

#[derive(Debug, Default)]
struct LevelCounters {
    probes: AtomicU64,
    passes: AtomicU64,
    false_passes: AtomicU64,
}

/// Counters of a session, added to by every reader and merge.
#[derive(Debug, Default)]
pub struct Counters {
    keys: AtomicU64,
    page_reads: AtomicU64,
    cache_hits: AtomicU64,
    levels: [LevelCounters; LEVELS_COUNTED],
    merge_read_bytes: AtomicU64,
    write_out_bytes: AtomicU64,
    merge_written_bytes: AtomicU64,
    snapshot_written_bytes: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    if count > 0 {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub fn add_lookup(&self, counts: &LookupCounts) {
        add(&self.keys, counts.keys);
        add(&self.page_reads, counts.page_reads);
        add(&self.cache_hits, counts.cache_hits);
        for (counter, count) in self.levels.iter().zip(&counts.levels) {
            add(&counter.probes, count.probes);
            add(&counter.passes, count.passes);
            add(&counter.false_passes, count.false_passes);
        }
    }

    pub fn add_merge_read(&self, bytes: u64) {
        add(&self.merge_read_bytes, bytes);
    }

    pub fn add_written(&self, purpose: Purpose, bytes: u64) {
        let counter = match purpose {
            Purpose::WriteOut => &self.write_out_bytes,
            Purpose::Merge => &self.merge_written_bytes,
            Purpose::Snapshot => &self.snapshot_written_bytes,
        };
        add(counter, bytes);
    }

    pub fn read(&self) -> SessionStats {
        let filters = self.levels.iter().map(|level| FilterStats {
            probes: load(&level.probes),
            passes: load(&level.passes),
            false_passes: load(&level.false_passes),
        });
        SessionStats {
            keys_looked_up: load(&self.keys),
            pages_read: load(&self.page_reads),
            cache_hits: load(&self.cache_hits),
            merge_read_bytes: load(&self.merge_read_bytes),
            write_out_bytes: load(&self.write_out_bytes),
            merge_written_bytes: load(&self.merge_written_bytes),
            snapshot_written_bytes: load(&self.snapshot_written_bytes),
            filters: filters.collect(),
        }
    }
}

/// What a session counted since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionStats {
    /// Keys looked up.
    pub keys_looked_up: u64,
    /// Pages of 4 KiB that lookups read from disk.
    pub pages_read: u64,
    /// Pages that lookups found in the cache instead.
    pub cache_hits: u64,
    /// Bytes that merges read.
    pub merge_read_bytes: u64,
    /// Bytes that write-outs of sealed buffers wrote.
    pub write_out_bytes: u64,
    /// Bytes that merges wrote.
    pub merge_written_bytes: u64,
    /// Bytes that snapshots wrote: manifests, and what active buffers held.
    pub snapshot_written_bytes: u64,
    /// How the filters of each level did, youngest first.
    pub filters: Vec<FilterStats>,
}

impl SessionStats {
    /// All bytes written.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.write_out_bytes + self.merge_written_bytes + self.snapshot_written_bytes
    }
}

/// How the filters of a level did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterStats {
    /// Keys asked for.
    pub probes: u64,
    /// Of these, those that it let pass.
    pub passes: u64,
    /// Pages of the level searched in vain, also where it has no filter.
    pub false_passes: u64,
}

impl FilterStats {
    /// The measured share of absent keys that passed; `None` before any was asked for.
    #[must_use]
    pub fn false_positive_rate(&self) -> Option<f64> {
        let absent = self.probes.checked_sub(self.passes)? + self.false_passes;
        (absent > 0).then(|| self.false_passes as f64 / absent as f64)
    }
}

/// What a table consists of at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// The table's name.
    pub name: String,
    /// From the youngest level to the last run.
    pub levels: Vec<LevelStats>,
    /// Merges and write-outs that are not finished.
    pub merges: Vec<MergeStats>,
    /// Bytes of entries that these have left to read.
    pub debt_bytes: u64,
    /// Entries of every kind in buffers and runs: exact.
    pub physical_entries: u64,
    /// Bytes of all segment files: exact.
    pub disk_bytes: u64,
    /// Bound keys: an estimate within `logical_entries_min..=logical_entries_max`.
    pub logical_entries: u64,
    /// Fewest keys that may be bound.
    pub logical_entries_min: u64,
    /// Most keys that may be bound.
    pub logical_entries_max: u64,
    /// Bytes of entries in the active and the sealed write buffers.
    pub buffer_bytes: u64,
    /// Memory of the filters that are loaded.
    pub filter_memory_bytes: u64,
    /// Memory of the indexes that are loaded.
    pub index_memory_bytes: u64,
}

/// One level of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Complete runs.
    pub runs: u64,
    /// Segments in them, and in the inputs and outputs of the level's merge.
    pub segments: u64,
    /// Entries in these.
    pub entries: u64,
    /// Bytes of their files.
    pub disk_bytes: u64,
    /// Bytes of their filters, on disk.
    pub filter_bytes: u64,
    /// Whether the level is the last run.
    pub is_last: bool,
}

/// A merge or a write-out under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MergeStats {
    /// The level whose runs it merges; `None` for the write-out of a sealed buffer.
    pub level: Option<u64>,
    /// Bytes of entries read so far.
    pub spent_bytes: u64,
    /// Bytes of entries to read in all.
    pub debt_bytes: u64,
}

/// The statistics of `view`, whose table is called `name`.
pub(super) fn table(view: &View, name: &str) -> TableStats {
    let mut stats = TableStats {
        name: name.to_owned(),
        buffer_bytes: view.active.cost_bytes(),
        ..TableStats::default()
    };
    let mut tally = Tally::default();
    tally.add_buffer(&view.active);
    let shape = &view.shape;
    let mut base = LevelStats::default();
    for run in view.base.iter().chain(shape.sealed.iter().filter_map(|it| it.base.as_ref())) {
        add_run(&mut base, run, &mut stats, &mut tally);
        base.runs += 1;
    }
    for sealed in &shape.sealed {
        stats.buffer_bytes += sealed.buffer.cost_bytes();
        tally.add_buffer(&sealed.buffer);
        if let Some(writing) = &sealed.writing {
            add_merge(&mut stats, None, writing);
        }
    }
    for (number, level) in shape.levels.iter().enumerate() {
        let mut row = LevelStats::default();
        for run in &level.runs {
            add_run(&mut row, run, &mut stats, &mut tally);
            row.runs += 1;
        }
        if let Some(merging) = &level.merging {
            let state = merging.job.state();
            add_run(&mut row, &state.outputs, &mut stats, &mut tally);
            for input in &state.inputs {
                if let Input::Run(run) = input {
                    add_run(&mut row, run, &mut stats, &mut tally);
                }
            }
            add_merge(&mut stats, Some(number as u64), merging);
        }
        stats.levels.push(row);
    }
    if let Some(first) = stats.levels.first_mut() {
        first.runs += base.runs;
        first.segments += base.segments;
        first.entries += base.entries;
        first.disk_bytes += base.disk_bytes;
        first.filter_bytes += base.filter_bytes;
    } else if base.runs > 0 {
        stats.levels.push(base);
    }
    if let Some(last) = &shape.last {
        let mut row = LevelStats { runs: 1, is_last: true, ..LevelStats::default() };
        add_run(&mut row, last, &mut stats, &mut tally);
        stats.levels.push(row);
    }
    tally.finish(&mut stats);
    stats
}

fn add_run(row: &mut LevelStats, run: &Run, stats: &mut TableStats, tally: &mut Tally) {
    for segment in run.segments() {
        let meta = segment.meta();
        row.segments += 1;
        row.entries += meta.entries();
        row.disk_bytes += meta.file_bytes();
        row.filter_bytes += u64::from(meta.footer.filter_bytes);
        stats.disk_bytes += meta.file_bytes();
        stats.filter_memory_bytes += segment.filter_memory_bytes() as u64;
        stats.index_memory_bytes += segment.index_memory_bytes() as u64;
        let counts = &meta.footer.counts;
        tally.inserts += counts.inserts;
        tally.deletes += counts.deletes;
        tally.upserts += counts.upserts;
        tally.largest_source = tally.largest_source.max(counts.inserts);
    }
}

fn add_merge(stats: &mut TableStats, level: Option<u64>, merging: &Merging) {
    let (spent_bytes, debt_bytes) = (merging.job.spent(), merging.job.plan().debt);
    if merging.job.is_done() {
        return;
    }
    stats.debt_bytes += debt_bytes.saturating_sub(spent_bytes);
    stats.merges.push(MergeStats { level, spent_bytes, debt_bytes });
}

/// Entries by kind over all sources, for the logical size.
#[derive(Default)]
struct Tally {
    inserts: u64,
    deletes: u64,
    upserts: u64,
    /// Inserts in the source with the most of them, a lower bound before deletes.
    largest_source: u64,
}

impl Tally {
    fn add_buffer(&mut self, buffer: &WriteBuffer) {
        let [inserts, deletes, upserts] = buffer.counts();
        self.inserts += inserts;
        self.deletes += deletes;
        self.upserts += upserts;
        self.largest_source = self.largest_source.max(inserts);
    }

    /// A key is bound by an insert or upsert; each delete unbinds one key at most, and in a ledger
    /// nearly always exactly one.
    fn finish(&self, stats: &mut TableStats) {
        stats.physical_entries = self.inserts + self.deletes + self.upserts;
        stats.logical_entries_max = self.inserts + self.upserts;
        stats.logical_entries_min = self.largest_source.saturating_sub(self.deletes);
        let estimate = stats.logical_entries_max.saturating_sub(self.deletes);
        stats.logical_entries = estimate.max(stats.logical_entries_min);
    }
}

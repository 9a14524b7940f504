//! What a table consists of at a moment: levels, merges, sizes and memory.

use super::view::View;
use crate::order::BTreeMap;
use crate::table::buffer::WriteBuffer;
use crate::table::merge::{Input, Merging};
use crate::table::runs::Run;

/// What a table consists of at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableStats {
    /// The table's name.
    pub name: String,
    /// From the youngest level to the last run.
    pub levels: Vec<LevelStats>,
    /// Merges and write-outs that are not finished, those that wait for others included.
    pub merges: Vec<MergeStats>,
    /// Bytes of entries that these have left to read.
    pub debt_bytes: u64,
    /// Of these, what is left of a pending union: see [`crate::Table::remaining_union_debt`].
    pub union_debt_bytes: u64,
    /// Entries of every kind in buffers and runs: exact.
    pub physical_entries: u64,
    /// Bytes of all finished segment files, those of write-outs and merges under way included: exact.
    /// Blob files come on top.
    pub disk_bytes: u64,
    /// What they would be without compression of pages.
    pub unpacked_disk_bytes: u64,
    /// Blob files that its segments refer to.
    pub blob_files: u64,
    /// Bytes of these files.
    pub blob_disk_bytes: u64,
    /// Bytes of the values in them that segments refer to, those that are hidden included.
    pub blob_bytes: u64,
    /// Bound keys: an estimate within `logical_entries_min..=logical_entries_max`.
    pub logical_entries: u64,
    /// Fewest keys that may be bound.
    pub logical_entries_min: u64,
    /// Most keys that may be bound.
    pub logical_entries_max: u64,
    /// Bytes of entries in the active and the sealed write buffers.
    pub buffer_bytes: u64,
    /// Memory of the filters that are loaded, range filters included.
    pub filter_memory_bytes: u64,
    /// Memory of the indexes that are loaded.
    pub index_memory_bytes: u64,
}

/// One level of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Complete runs.
    pub runs: u64,
    /// Segments in them, and in the inputs and outputs of the level's merge.
    pub segments: u64,
    /// Entries in these.
    pub entries: u64,
    /// Bytes of their files.
    pub disk_bytes: u64,
    /// Bytes of their filters, on disk, without range filters.
    pub filter_bytes: u64,
    /// Whether the level is the last run, or the pending union in its place.
    pub is_last: bool,
}

/// A merge or a write-out under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeStats {
    /// The level whose runs it merges; `None` for the write-out of a sealed buffer and for a union.
    pub level: Option<u64>,
    /// Whether it is the pending union.
    pub is_union: bool,
    /// Bytes of entries read so far.
    pub spent_bytes: u64,
    /// Of these, what a snapshot and the next opening have of it: up to the last segment that is finished. The rest
    /// is read again.
    pub kept_bytes: u64,
    /// Bytes of entries to read in all.
    pub debt_bytes: u64,
}

/// The statistics of `view`, whose table is called `name`.
pub fn table(view: &View, name: &str) -> TableStats {
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
            // Its entries are the buffer's and the base's, until it is a run.
            add_files(&writing.job.state().outputs, &mut stats, &mut tally);
            add_merge(&mut stats, None, writing);
        } else {
            let debt_bytes = sealed.buffer.cost_bytes();
            stats.debt_bytes += debt_bytes;
            stats.merges.push(MergeStats { debt_bytes, ..MergeStats::default() });
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
                    let in_part = state.boundary.is_some();
                    add_part(&mut row, run, in_part, &mut stats, &mut tally);
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
    if let Some(union) = &shape.union {
        let row = union_row(union, &mut stats, &mut tally);
        stats.levels.push(row);
        let before = stats.merges.len();
        add_merge(&mut stats, None, union);
        stats.merges[before..].iter_mut().for_each(|merge| merge.is_union = true);
        stats.union_debt_bytes = union.job.debt_left();
    }
    tally.finish(&mut stats);
    stats
}

/// What is left of the inputs of a union and what is finished of its result.
fn union_row(union: &Merging, stats: &mut TableStats, tally: &mut Tally) -> LevelStats {
    let mut row = LevelStats { is_last: true, ..LevelStats::default() };
    for part in union.job.parts() {
        row.runs += 1;
        add_part(&mut row, &part.run, part.after.is_some(), stats, tally);
    }
    row
}

/// As [`add_run`]; in part when the first keys of the run do not count any more, so that it may hold
/// fewer inserts than it says, and the deletes of these keys are gone.
fn add_part(
    row: &mut LevelStats,
    run: &Run,
    in_part: bool,
    stats: &mut TableStats,
    tally: &mut Tally,
) {
    let largest_source = tally.largest_source;
    add_run(row, run, stats, tally);
    if in_part {
        tally.largest_source = largest_source;
    }
}

fn add_run(row: &mut LevelStats, run: &Run, stats: &mut TableStats, tally: &mut Tally) {
    add_files(run, stats, tally);
    for segment in run.segments() {
        let meta = segment.meta();
        row.segments += 1;
        row.entries += meta.entries();
        row.disk_bytes += meta.file_bytes();
        row.filter_bytes += u64::from(meta.footer.bloom_bytes());
        let counts = &meta.footer.counts;
        tally.inserts += counts.inserts;
        tally.deletes += counts.deletes;
        tally.upserts += counts.upserts;
        tally.largest_source = tally.largest_source.max(counts.inserts);
    }
}

/// What the files of `run` take on disk and in memory.
fn add_files(run: &Run, stats: &mut TableStats, tally: &mut Tally) {
    for segment in run.segments() {
        let meta = segment.meta();
        stats.disk_bytes += meta.file_bytes();
        stats.unpacked_disk_bytes += meta.footer.unpacked_bytes();
        stats.filter_memory_bytes += segment.filter_memory_bytes() as u64;
        stats.index_memory_bytes += segment.index_memory_bytes() as u64;
        for it in &meta.blobs {
            tally.blobs.insert(it.file.id, it.file.file_bytes());
            stats.blob_bytes += it.bytes;
        }
    }
}

fn add_merge(stats: &mut TableStats, level: Option<u64>, merging: &Merging) {
    let (spent_bytes, debt_bytes) = (merging.job.spent(), merging.job.plan().debt);
    let kept_bytes = merging.job.state().spent;
    if merging.job.is_done() {
        return;
    }
    stats.debt_bytes += debt_bytes.saturating_sub(spent_bytes);
    let merge = MergeStats { level, is_union: false, spent_bytes, kept_bytes, debt_bytes };
    stats.merges.push(merge);
}

/// Entries by kind over all sources, for the logical size.
#[derive(Default)]
struct Tally {
    /// Bytes of each blob file.
    blobs: BTreeMap<u64, u64>,
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
        stats.blob_files = self.blobs.len() as u64;
        stats.blob_disk_bytes = self.blobs.values().sum();
        stats.physical_entries = self.inserts + self.deletes + self.upserts;
        stats.logical_entries_max = self.inserts + self.upserts;
        stats.logical_entries_min = self.largest_source.saturating_sub(self.deletes);
        let estimate = stats.logical_entries_max.saturating_sub(self.deletes);
        stats.logical_entries = estimate.max(stats.logical_entries_min);
    }
}

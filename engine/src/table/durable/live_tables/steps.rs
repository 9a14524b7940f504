//! The steps towards a checkpoint, a few an update, so that no update waits for all of it.
//!
//! In this order: the next log file begins; each table is written out that keeps more of the log than it should; each
//! segment and blob file is made durable that the checkpoint would name, and each that merges made meanwhile; the log
//! and the names; the checkpoint itself; and the log files go that it does not need. An update takes at least one step,
//! and as many more as its bytes are worth: a checkpoint is written before another log file is full.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{LiveTable, LiveTableMap, LiveTables, TableState, written_out};
use crate::error::{Kind, Result};
use crate::sync::{Ordering, try_lock};
use crate::table::durable::checkpoint::{LiveRecord, ShapeCut};
use crate::table::durable::log::LogWriter;
use crate::table::durable::log_record::LogPoint;
use crate::table::durable::snapshot::{NamedSegments, TableRecord};
use crate::table::merge::{Input, Shape};
use crate::table::runs::{Run, Segment};
use crate::table::shared::{Operation, Unsynced};

/// The parts of the way, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    WriteOut,
    /// Merges go on meanwhile, so there is a second round.
    FirstRound,
    SecondRound,
    /// The log and the names.
    Names,
    Checkpoint,
}

/// There are more rounds while one has more than so many files, up to so many.
const FILES_LEFT: u64 = 2;
const ROUNDS_MAX: u8 = 5;

/// Each part and each round is to be done when so large a part of a log file was logged: all of them within one.
const PARTS_OF_FILE: u64 = ROUNDS_MAX as u64 + 3;

/// How many bytes of log files go for each byte that is logged.
const REMOVED_PER_BYTE: u64 = 8;

/// A table that was written out for the next checkpoint: its record and the segments that it names.
type WrittenOut = (Arc<LiveRecord>, NamedSegments);

/// How far it is.
#[derive(Default)]
pub(super) struct Steps {
    /// How much was logged when it began.
    begun: u64,
    part: Part,
    /// How many steps the part had when it began.
    count: u64,
    /// The tables that are yet to be looked at, by name.
    tables: Vec<String>,
    /// Those that were written out, by id. Their later updates are in the log.
    written: BTreeMap<u64, WrittenOut>,
    /// What is yet to be made durable, the newest first.
    unsynced: Vec<Unsynced>,
    /// How many parts and rounds came before.
    passed: u8,
    /// How much was logged when a piece of a log file went last.
    removed: u64,
}

impl Steps {
    fn begin(begun: u64, tables: Vec<String>) -> Steps {
        Steps { begun, count: tables.len() as u64, tables, ..Steps::default() }
    }

    fn next(&mut self, part: Part, unsynced: Vec<Unsynced>) {
        (self.part, self.count, self.unsynced) = (part, unsynced.len() as u64, unsynced);
        self.passed += 1;
    }

    /// Whether another step is due when so much was logged, with log files of so many bytes.
    fn is_late(&self, logged: u64, file_bytes: u64) -> bool {
        let each = u128::from(file_bytes / PARTS_OF_FILE).max(1);
        let before = u128::from(self.passed) * each;
        let since = u128::from(logged.saturating_sub(self.begun)).saturating_sub(before);
        let (count, left) = match self.part {
            Part::Names | Part::Checkpoint => (1, 1),
            _ => (self.count, self.tables.len() + self.unsynced.len()),
        };
        let done = u128::from(count).saturating_sub(left as u128);
        done * each < u128::from(count) * since.min(each)
    }
}

impl LiveTables {
    /// Whether a log file is full; then the tables leave their states and call the next.
    pub fn is_checkpoint_due(&self) -> bool {
        let is_due = self.log.as_ref().is_some_and(LogWriter::is_due);
        is_due || self.is_owed.load(Ordering::Acquire) || self.store.has_long()
    }

    /// Takes the next steps towards a checkpoint, unless somebody is at it. Each update takes one, since each
    /// waits for the disk, and those of many bytes take more.
    pub fn write_checkpoint(&self) -> Result<()> {
        let Some(mut steps) = try_lock(&self.changing) else { return Ok(()) };
        let log = self.log_writer()?;
        let is_owed = self.is_owed.load(Ordering::Acquire);
        if log.is_due() {
            self.store.write(|| log.roll())?;
            if !is_owed {
                let names = self.entries().0.into_keys().rev().collect();
                *steps = Steps::begin(log.logged(), names);
                self.is_owed.store(true, Ordering::Release);
                return Ok(());
            }
        }
        let logged = log.logged();
        if !is_owed {
            let bytes = logged.saturating_sub(steps.removed).saturating_mul(REMOVED_PER_BYTE);
            self.store.remove_some_of_long(bytes);
            steps.removed = logged;
            return Ok(());
        }
        let file_bytes = self.store.options.log_file_bytes;
        while !self.step(log, &mut steps)? && steps.is_late(logged, file_bytes) {}
        Ok(())
    }

    /// Takes one step; whether that was the last one.
    fn step(&self, log: &LogWriter, steps: &mut Steps) -> Result<bool> {
        loop {
            let is_done = match steps.part {
                Part::WriteOut => self.write_one_out(log, steps)?,
                Part::FirstRound | Part::SecondRound => self.sync_one(steps)?,
                Part::Names => {
                    self.store.write(|| log.sync().and_then(|_| self.store.sync_names()))?;
                    steps.next(Part::Checkpoint, Vec::new());
                    return Ok(false);
                }
                Part::Checkpoint => {
                    self.finish(steps, log.logged())?;
                    return Ok(true);
                }
            };
            if is_done {
                return Ok(false);
            }
            let is_first = matches!(steps.part, Part::WriteOut | Part::FirstRound);
            if is_first || steps.count > FILES_LEFT && steps.passed < ROUNDS_MAX {
                let is_begun = steps.part != Part::WriteOut;
                let part = if is_begun { Part::SecondRound } else { Part::FirstRound };
                steps.next(part, self.not_synced(steps));
            } else {
                steps.next(Part::Names, Vec::new());
            }
        }
    }

    /// Writes one table out that keeps more of the log than it should; whether there was one.
    fn write_one_out(&self, log: &LogWriter, steps: &mut Steps) -> Result<bool> {
        while let Some(name) = steps.tables.pop() {
            let Some(entry) = self.entry(&name) else { continue };
            let found = entry.live.found();
            let behind = found.filter(|(state, from, ..)| {
                let reached = (*from).max(entry.record.from);
                self.is_behind(log, entry.record.id, reached, state.options.write_buffer_bytes)
            });
            let Some((table_state, _, applied, cut)) = behind else {
                entry.live.note(None);
                continue;
            };
            // One that cannot be, perhaps since one of its segments is damaged, keeps the record and the part of the
            // log that it has, and whoever updates another goes on.
            match written_out(&name, &table_state) {
                Err(error) if !matches!(error.kind(), Kind::Closed | Kind::Poisoned) => {
                    // A panic where something was to be made durable is not that table's alone.
                    self.store.check_writable()?;
                    entry.live.note(Some(&error));
                }
                written => {
                    let (shape, base) = written?;
                    let mut named = NamedSegments::new();
                    let of = (&table_state, applied, cut);
                    let record = record(&entry, of, &shape, base.as_deref(), &mut named);
                    steps.written.insert(entry.record.id, (record, named));
                    entry.live.note(None);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether a table that is durable up to `from` keeps more of the log than it should.
    fn is_behind(&self, log: &LogWriter, id: u64, from: LogPoint, buffer_bytes: u64) -> bool {
        let files = log.files();
        let (_, older) = files.split_last().expect("there is a current file");
        let oldest = older.iter().find(|file| file.is_needed(id, from));
        let most = self
            .store
            .options
            .log_file_bytes
            .saturating_mul(2)
            .saturating_add(buffer_bytes.saturating_mul(4));
        oldest.is_some_and(|file| log.bytes_since(file.number) > most)
    }

    /// Makes one segment or blob file of the live tables durable; whether there was one to do.
    fn sync_one(&self, steps: &mut Steps) -> Result<bool> {
        while let Some(next) = steps.unsynced.pop() {
            if self.store.write(|| self.store.sync_if_wanted(&next))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a checkpoint would name now and what is not durable. Asked twice a checkpoint only: at each update it
    /// would be work that grows with the tables.
    fn not_synced(&self, steps: &Steps) -> Vec<Unsynced> {
        let mut found = BTreeMap::new();
        let mut note = |segment: &Arc<Segment>| {
            let blobs = segment.blobs().iter().filter(|blob| !blob.is_synced());
            found.extend(blobs.map(|blob| (blob.meta().id, Unsynced::from(blob))));
            if !segment.is_synced() {
                found.insert(segment.meta().id, Unsynced::from(segment));
            }
        };
        for entry in self.entries().0.into_values() {
            let Some(TableState { view, .. }) = entry.live.table_state() else { continue };
            let (shape, base) = view.without_buffers();
            for merging in shape.merges() {
                let state = merging.job.state();
                let inputs = state.inputs.iter().flat_map(Input::segments);
                state.outputs.segments().iter().chain(inputs).for_each(&mut note);
            }
            shape.runs().chain(&base).flat_map(|run| run.segments()).for_each(&mut note);
        }
        steps.written.values().flat_map(|(_, named)| named.values()).for_each(&mut note);
        found.into_values().rev().collect()
    }

    /// Writes the checkpoint.
    fn finish(&self, steps: &mut Steps, logged: u64) -> Result<()> {
        // Those of the checkpoint before, where no update had time for them.
        self.store.remove_long();
        let (entries, next_id) = self.entries();
        let count = entries.len() as u64;
        self.store.observe((Operation::Checkpoint, ""), count, || {
            let mut named = NamedSegments::new();
            let renew = |(name, entry): (String, LiveTable)| {
                let written = steps.written.get(&entry.record.id);
                let record = renewed(&entry, written, &mut named);
                (name, LiveTable { record, ..entry })
            };
            let renewed: LiveTableMap = entries.into_iter().map(renew).collect();
            self.write(renewed, next_id, &named)
        })?;
        *steps = Steps { removed: logged, ..Steps::default() };
        self.is_owed.store(false, Ordering::Release);
        Ok(())
    }
}

/// The record of a table that is durable up to `from` by `shape` and `base`.
fn record(
    entry: &LiveTable,
    (table_state, from, cut): (&TableState, LogPoint, Option<ShapeCut>),
    shape: &Shape,
    base: Option<&Run>,
    named: &mut NamedSegments,
) -> Arc<LiveRecord> {
    let options = &table_state.options;
    let table = TableRecord::new(&entry.record.table.name, options, shape, base, named);
    let cut = cut.filter(|cut| cut.until > from);
    Arc::new(LiveRecord { id: entry.record.id, from, cut, table })
}

/// The record of a table as it stands now; that of when it was written out, or the one before, when it is being
/// updated, or when that is further on.
fn renewed(
    entry: &LiveTable,
    written: Option<&WrittenOut>,
    named: &mut NamedSegments,
) -> Arc<LiveRecord> {
    let before = written.map_or(&entry.record, |(record, _)| record);
    match entry.live.found() {
        Some((table_state, from, _, cut)) if from >= before.from => {
            let (shape, base) = table_state.view.without_buffers();
            record(entry, (&table_state, from, cut), &shape, base.as_deref(), named)
        }
        _ => {
            named.extend(written.into_iter().flat_map(|(_, segments)| segments.clone()));
            Arc::clone(before)
        }
    }
}

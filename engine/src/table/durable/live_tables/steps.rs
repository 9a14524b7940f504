//! The steps towards a checkpoint, a few an update, so that no update waits for all of it.
//!
//! In this order: the next log file begins; each table is written out that keeps more of the log than it should; each
//! segment and blob file is made durable that the checkpoint would name, and each that merges made meanwhile; the log
//! and the names; what tables need of many short log files, in one; the checkpoint itself; and the log files go that it
//! does not need. An update takes at least one step,
//! and as many more as its bytes are worth: a checkpoint is written before another log file is full.
//!
//! Until the last step nothing durable names what the others made. A crash leaves it to be removed.

use std::sync::Arc;

use super::{LiveTable, LiveTableMap, LiveTables, TableState, record_bytes, written_out};
use crate::cache::Charge;
use crate::error::{Kind, Result};
use crate::order::BTreeMap;
use crate::sync::{Ordering, lock, try_lock};
use crate::table::durable::checkpoint::{LiveRecord, ShapeCut};
use crate::table::durable::log::{LogFile, LogWriter, bytes_of, short_run};
use crate::table::durable::log_record::LogPoint;
use crate::table::durable::snapshot::{NamedSegments, TableRecord};
use crate::table::merge::{Input, Shape};
use crate::table::runs::{Run, Segment};
use crate::table::shared::{Operation, Unsynced};

/// How far whoever comes by goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// One step, or as many as the bytes are worth that were logged.
    ByBytes,
    /// To the end, as where there is no room and a part of the log would make some.
    AtOnce,
}

/// The parts of the way, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
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

/// Each phase and each round is to be done when so large a part of a log file was logged: all of them within one.
const PARTS_OF_FILE: u64 = ROUNDS_MAX as u64 + 3;

/// How many files of the log may be there that ended before they were half full, as those of sessions that log little, and
/// are to become one.
pub(super) const SHORT_FILES_MAX: usize = 8;

/// How many bytes of log files go for each byte that is logged.
const REMOVED_PER_BYTE: u64 = 8;

/// A table that was written out for the next checkpoint: its record and the segments that it names.
type WrittenOut = (Arc<LiveRecord>, NamedSegments);

/// How far a checkpoint is.
#[derive(Default)]
pub(super) struct CheckpointSteps {
    /// How much was logged when it began.
    begun: u64,
    phase: Phase,
    /// How many steps the phase had when it began.
    count: u64,
    /// How many phases and rounds came before.
    passed: u8,
    /// The tables that are yet to be written out, by name.
    behind: Vec<String>,
    /// Those that were, by id. Their later updates are in the log.
    written: BTreeMap<u64, WrittenOut>,
    /// For their records.
    charge: Option<Charge>,
    /// What is yet to be made durable, the newest first.
    unsynced: Vec<Unsynced>,
    /// How much was logged when log files were removed last.
    removed: u64,
    /// What the log that was found at the opening asks for.
    opening: Owed,
}

/// A session that ends before its first log file is full begins no checkpoint by that. So where those before it left
/// much, the next one begins with one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owed {
    /// Nothing, or it was done.
    #[default]
    Settled,
    /// A checkpoint that the first update begins, and the end of the session ends.
    Begins(Pace),
    /// It has begun.
    GoesOn(Pace),
}

impl Owed {
    /// What is due with so many `short` files that are to become one, and so many bytes of which tables may keep `kept_max`.
    fn of(short: usize, bytes: u64, kept_max: u64) -> Owed {
        let is_over = |times: u8| {
            bytes > kept_max.saturating_mul(times.into())
                || short > SHORT_FILES_MAX * usize::from(times)
        };
        match (is_over(1), is_over(2)) {
            (false, _) => Owed::Settled,
            (true, false) => Owed::Begins(Pace::ByBytes),
            // Sessions that are killed before they have made all steps come no further otherwise.
            (true, true) => Owed::Begins(Pace::AtOnce),
        }
    }
}

impl CheckpointSteps {
    /// The steps of a session that finds these files of a log, of which tables may keep so many bytes; and whether a
    /// checkpoint is owed from its beginning.
    pub(super) fn at_opening(
        older: &[LogFile],
        file_bytes: u64,
        kept_max: u64,
    ) -> (CheckpointSteps, bool) {
        let opening = Owed::of(short_run(older.iter(), file_bytes), bytes_of(older), kept_max);
        (CheckpointSteps { opening, ..CheckpointSteps::default() }, opening != Owed::Settled)
    }

    /// The table of this id was deleted: nobody needs what was written out of it.
    pub(super) fn let_go(&mut self, id: u64) {
        if self.written.remove(&id).is_some()
            && let Some(charge) = &self.charge
        {
            charge.set(self.written.values().map(|(record, _)| memory_of(record)).sum());
        }
    }

    /// Lets go of all that was written out.
    fn let_all_go(&mut self) {
        self.written.clear();
        self.charge = None;
    }

    fn next(&mut self, phase: Phase, unsynced: Vec<Unsynced>) {
        (self.phase, self.count, self.unsynced) = (phase, unsynced.len() as u64, unsynced);
        self.passed += 1;
    }

    /// Whether another step is due when so much was logged, with log files of so many bytes.
    fn is_late(&self, logged: u64, file_bytes: u64) -> bool {
        let each = u128::from(file_bytes / PARTS_OF_FILE).max(1);
        let before = u128::from(self.passed) * each;
        let since = u128::from(logged.saturating_sub(self.begun)).saturating_sub(before);
        let (count, left) = match self.phase {
            Phase::Names | Phase::Checkpoint => (1, 1),
            _ => (self.count.into(), (self.behind.len() + self.unsynced.len()) as u128),
        };
        if left == 0 {
            // The next one has begun.
            return since > each;
        }
        let done = u128::saturating_sub(count, left);
        done * each < count * since.min(each)
    }
}

impl LiveTables {
    /// Whether a log file is full; then the tables leave their states and call the next.
    pub fn is_checkpoint_due(&self) -> bool {
        let is_due = self.log.as_ref().is_some_and(LogWriter::is_due);
        let is_owed = [&self.is_owed, &self.makes_room, &self.is_unseen];
        let is_owed = is_owed.iter().any(|it| it.load(Ordering::Acquire));
        is_due || is_owed || self.store.has_long()
    }

    /// Takes the next steps towards a checkpoint, unless somebody is at it. Each update takes one, since each
    /// waits for the disk, and those of many bytes take more.
    pub fn write_checkpoint(&self, pace: Pace) -> Result<()> {
        let Some(mut steps) = try_lock(&self.changing) else { return Ok(()) };
        let log = self.log_writer()?;
        let pace = self.make_room_if_due(log, &mut steps)?.unwrap_or(pace);
        self.remove_some_of_log(&mut steps, log);
        let pace = self.pace_at_opening(log, &mut steps).unwrap_or(pace);
        let is_owed = self.is_owed.load(Ordering::Acquire);
        if log.is_due() {
            match self.store.write(|| log.roll()) {
                // What is owed lets a part of the log go, which may be the room that the next file needs.
                Err(error) if error.is_no_space() && is_owed && self.store.is_sound() => {
                    while !self.step(log, &mut steps)? {}
                    self.store.remove_long();
                    self.store.write(|| log.roll())?;
                    self.begin(log, &mut steps);
                    return Ok(());
                }
                rolled => rolled?,
            }
            if !is_owed {
                self.begin(log, &mut steps);
                if pace == Pace::ByBytes {
                    return Ok(());
                }
            }
        }
        if !self.is_owed.load(Ordering::Acquire) {
            return Ok(());
        }
        let (logged, file_bytes) = (log.logged(), self.store.options.log_file_bytes);
        while !self.step(log, &mut steps)?
            && (pace == Pace::AtOnce || steps.is_late(logged, file_bytes))
        {}
        Ok(())
    }

    /// Begins the checkpoint that is owed since the opening; gives its pace, if that is at once. One that would let nothing
    /// go waits: other tables may be opened until the end of the session.
    fn pace_at_opening(&self, log: &LogWriter, steps: &mut CheckpointSteps) -> Option<Pace> {
        if let Owed::Begins(pace) = steps.opening {
            if !self.lets_some_go(log) {
                self.is_owed.store(false, Ordering::Release);
                return None;
            }
            self.begin(log, steps);
            steps.opening = Owed::GoesOn(pace);
        }
        (steps.opening == Owed::GoesOn(Pace::AtOnce)).then_some(Pace::AtOnce)
    }

    /// After a delete that was logged in the reserve, in this session or one that was killed: a checkpoint without anything
    /// written out first, since ranges may have taken whole segments; and then one with, at once, since part of the log is
    /// then of what was deleted. Where the first finds no room either, it waits for the next update.
    fn make_room_if_due(
        &self,
        log: &LogWriter,
        steps: &mut CheckpointSteps,
    ) -> Result<Option<Pace>> {
        self.see_whether_room_is_to_be_made();
        // Another delete may have it again meanwhile.
        if !self.makes_room.swap(false, Ordering::AcqRel) {
            return Ok(None);
        }
        self.entries().0.values().for_each(|entry| entry.live.forget_that_it_was_full());
        if let Err(error) = self.write_with(&CheckpointSteps::default(), false) {
            self.makes_room.store(true, Ordering::Release);
            let may_wait = error.is_no_space() && self.store.is_sound();
            return if may_wait { Ok(None) } else { Err(error) };
        }
        self.store.remove_long();
        self.store.remove_all();
        self.keep_reserve_again();
        if !self.is_owed.load(Ordering::Acquire) {
            self.begin(log, steps);
        }
        Ok(Some(Pace::AtOnce))
    }

    /// A reserve that is short at an opening, where there is no room for it, was given away in a session that was killed.
    fn see_whether_room_is_to_be_made(&self) {
        if self.is_unseen.swap(false, Ordering::AcqRel)
            && self.store.write(|| self.reserve.beside(|| self.ensure_reserve())).is_err()
        {
            self.makes_room.store(true, Ordering::Release);
        }
    }

    /// When the session ends: brings the checkpoint to its end that its opening began, or was to begin.
    pub fn settle(&self) -> Result<()> {
        if self.is_copy.load(Ordering::Acquire)
            && self.log.as_ref().is_none_or(|log| !log.is_begun())
        {
            // A backup that nobody has updated is to stay one.
            return Ok(());
        }
        self.see_whether_room_is_to_be_made();
        let is_settled = try_lock(&self.changing).is_none_or(|it| it.opening == Owed::Settled);
        let is_owed = !is_settled || self.makes_room.load(Ordering::Acquire);
        if is_owed { self.write_checkpoint(Pace::AtOnce) } else { Ok(()) }
    }

    /// Removes log files that no checkpoint needs, in pieces: one, or as many as the bytes are worth that were logged
    /// since. So those that wait grow no more than the log.
    fn remove_some_of_log(&self, steps: &mut CheckpointSteps, log: &LogWriter) {
        let logged = log.logged();
        if !self.store.has_long() {
            return;
        }
        // What was logged before they came does not count: none may have waited then.
        let before = steps.removed.max(log.logged_when_left());
        let since = logged.saturating_sub(before);
        self.store.remove_some_of_long(since.saturating_mul(REMOVED_PER_BYTE));
        steps.removed = logged;
    }

    /// A log file began, so that a checkpoint is owed. Calls nothing of the disk.
    fn begin(&self, log: &LogWriter, steps: &mut CheckpointSteps) {
        let mut behind = Vec::new();
        for (name, entry) in self.entries().0 {
            let state = entry.live.found();
            if state.is_some_and(|(state, from, ..)| self.is_behind(log, &entry, &state, from)) {
                behind.push(name);
            } else {
                entry.live.note(None);
            }
        }
        behind.reverse();
        // What was found damaged stays so.
        lock(&self.not_joined).take_if(|(_, is_no_space)| *is_no_space);
        let (begun, count, removed) = (log.logged(), behind.len() as u64, steps.removed);
        *steps = CheckpointSteps { begun, count, behind, removed, ..CheckpointSteps::default() };
        self.is_owed.store(true, Ordering::Release);
    }

    /// Takes one step; whether that was the last one.
    fn step(&self, log: &LogWriter, steps: &mut CheckpointSteps) -> Result<bool> {
        loop {
            let is_done = match steps.phase {
                Phase::WriteOut => self.write_one_out(log, steps)?,
                Phase::FirstRound | Phase::SecondRound => self.sync_one(steps)?,
                Phase::Names => {
                    self.store.write(|| log.sync().and_then(|_| self.store.sync_names()))?;
                    steps.next(Phase::Checkpoint, Vec::new());
                    return Ok(false);
                }
                Phase::Checkpoint => {
                    self.finish(steps)?;
                    return Ok(true);
                }
            };
            if is_done {
                return Ok(false);
            }
            let is_first = matches!(steps.phase, Phase::WriteOut | Phase::FirstRound);
            if is_first || steps.count > FILES_LEFT && steps.passed < ROUNDS_MAX {
                let is_begun = steps.phase != Phase::WriteOut;
                let phase = if is_begun { Phase::SecondRound } else { Phase::FirstRound };
                steps.next(phase, self.not_synced(steps));
            } else {
                steps.next(Phase::Names, Vec::new());
            }
        }
    }

    /// Writes one table out that keeps more of the log than it should; whether there was one.
    fn write_one_out(&self, log: &LogWriter, steps: &mut CheckpointSteps) -> Result<bool> {
        while let Some(name) = steps.behind.pop() {
            // It may be gone by now, with another of its name, or have written itself out by its updates.
            let Some(entry) = self.entry(&name) else { continue };
            let found = entry.live.found();
            let behind =
                found.filter(|(state, from, ..)| self.is_behind(log, &entry, state, *from));
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
                    let charge = steps.charge.take().or_else(|| self.store.charge());
                    if let Some(charge) = &charge {
                        charge.add(memory_of(&record));
                    }
                    steps.charge = charge;
                    steps.written.insert(entry.record.id, (record, named));
                    entry.live.note(None);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether a table whose oldest buffer begins at `from` keeps more of the log than it should.
    pub(super) fn is_behind(
        &self,
        log: &LogWriter,
        entry: &LiveTable,
        state: &TableState,
        from: LogPoint,
    ) -> bool {
        let most = kept_max(self.store.options.log_file_bytes, state.options.write_buffer_bytes);
        log.kept(entry.record.id, from.max(entry.record.from)) > most
    }

    /// Makes one segment or blob file of the live tables durable; whether there was one to do.
    fn sync_one(&self, steps: &mut CheckpointSteps) -> Result<bool> {
        while let Some(next) = steps.unsynced.pop() {
            if self.store.write(|| self.store.sync_if_wanted(&next))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What a checkpoint would name now and what is not durable. Asked once a round only: at each update it
    /// would be work that grows with the tables.
    fn not_synced(&self, steps: &CheckpointSteps) -> Vec<Unsynced> {
        let mut found = BTreeMap::new();
        let mut note = |segment: &Arc<Segment>| {
            for blob in segment.blobs().iter().filter(|blob| !blob.is_synced()) {
                found.insert(blob.meta().id, Unsynced::from(blob));
            }
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

    /// Writes the checkpoint. Where there is no room for it, without what was written out for it: nothing durable
    /// names that, so it goes, and the tables keep their part of the log until the next one.
    fn finish(&self, steps: &mut CheckpointSteps) -> Result<()> {
        match self.write_with(steps, true) {
            // A sync that failed has ended the session's writing, and says why.
            Err(error)
                if error.is_no_space() && !steps.written.is_empty() && self.store.is_sound() =>
            {
                steps.let_all_go();
                self.store.spares.clear();
                self.write_with(steps, false)?;
            }
            written => written?,
        }
        *steps = CheckpointSteps { removed: steps.removed, ..CheckpointSteps::default() };
        self.is_owed.store(false, Ordering::Release);
        Ok(())
    }

    /// Writes the checkpoint of all tables as they stand now, and of those that were written out; where it `joins`, with
    /// what tables need of many files of the log in one.
    fn write_with(&self, steps: &CheckpointSteps, joins: bool) -> Result<()> {
        let (entries, next_id) = self.entries();
        let count = entries.len() as u64;
        self.store.observe((Operation::Checkpoint, ""), count, || {
            let mut named = NamedSegments::new();
            let mut renewed = LiveTableMap::new();
            for (name, entry) in entries {
                let written = steps.written.get(&entry.record.id);
                let record = renewed_record(&entry, written, &mut named);
                renewed.insert(name, LiveTable { record, ..entry });
            }
            if joins {
                self.write_joined(renewed, next_id, &named)
            } else {
                self.write(renewed, next_id, &named)
            }
        })
    }
}

/// How many bytes of log a table may keep that has a write buffer of so many bytes.
pub(super) fn kept_max(log_file_bytes: u64, write_buffer_bytes: u64) -> u64 {
    log_file_bytes.saturating_mul(2).saturating_add(write_buffer_bytes.saturating_mul(4))
}

/// The same for the table that may keep most.
pub(super) fn kept_max_of(entries: &LiveTableMap, log_file_bytes: u64) -> u64 {
    let buffers = entries.values().map(|entry| entry.record.table.write_buffer_bytes);
    kept_max(log_file_bytes, buffers.max().unwrap_or(0))
}

/// About what a record takes that waits for its checkpoint.
fn memory_of(record: &LiveRecord) -> u64 {
    record.table.segments().map(record_bytes).sum()
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
/// updated, or when that is further on. One that could not be written out keeps what it has.
fn renewed_record(
    entry: &LiveTable,
    written: Option<&WrittenOut>,
    named: &mut NamedSegments,
) -> Arc<LiveRecord> {
    // A checkpoint that made room meanwhile may have it further on.
    let written = written.filter(|(record, _)| record.from >= entry.record.from);
    let before = written.map_or(&entry.record, |(record, _)| record);
    let found = if entry.live.is_stuck() { None } else { entry.live.found() };
    match found {
        Some((table_state, from, _, cut)) if from >= before.from => {
            let (shape, base) = table_state.view.without_buffers();
            record(entry, (&table_state, from, cut), &shape, base.as_deref(), named)
        }
        _ => {
            if let Some((_, segments)) = written {
                named.extend(segments.iter().map(|(id, segment)| (*id, Arc::clone(segment))));
            }
            Arc::clone(before)
        }
    }
}

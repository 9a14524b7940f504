//! The live tables of a session: those that are found again as they were last updated.
//!
//! What is durable of one is its record in the checkpoint and its updates in the log since. Between
//! updates a table leaves a view of itself here, at the cost of a few counts, so that whoever writes
//! a checkpoint finds the state of every table without stopping any. A checkpoint is due when the
//! log begins a new file, and is made in `steps`.
//!
//! Every write and sync: `docs/design/durability.md`.

mod frozen;
mod join;
mod room;
mod steps;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

pub use frozen::Frozen;
use room::reserve_bytes;
pub use steps::Pace;
use steps::{CheckpointSteps, SHORT_FILES_MAX, kept_max_of};

use super::checkpoint::{Checkpoint, LiveRecord, Origin, ShapeCut};
use super::log::LogWriter;
use super::log_record::{LogEnd, LogPoint, encode_delete_range, encode_update};
use super::snapshot::{NamedSegments, TableRecord, files_of, named_files, segments_of};
use crate::cache::Charge;
use crate::disk::Access;
use crate::error::{Error, Kind, Result};
use crate::file::replace::Replacement;
use crate::file::reserve::Reserve;
use crate::order;
use crate::order::BTreeMap;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, RwLock, lock};
use crate::table::buffer::Batch;
use crate::table::merge::Shape;
use crate::table::read::View;
use crate::table::runs::blob::BlobUse;
use crate::table::runs::{Run, SegmentMeta};
use crate::table::shared::paths::{CHECKPOINT, RESERVE};
use crate::table::shared::{Files, Pins, SegmentStore, TableOptions};

/// What a table left when it was last updated.
#[derive(Clone)]
pub struct TableState {
    pub view: View,
    pub options: Arc<TableOptions>,
}

/// A live table, whether somebody has it open or not.
pub struct LiveShared {
    id: u64,
    is_open: AtomicBool,
    /// The last checkpoint could not write it out; see `LiveState::damage`.
    is_stuck: AtomicBool,
    state: Mutex<LiveState>,
}

#[derive(Default)]
struct LiveState {
    /// None before the first opening, and while an update changes the table.
    table_state: Option<TableState>,
    /// Where each buffer begins, oldest first, the active one last.
    points: VecDeque<LogPoint>,
    /// After the last record that the table has.
    applied: LogPoint,
    /// What ranges took out of its segments.
    cut: Option<ShapeCut>,
    /// Why it could not be written out when that was last tried, if it could not.
    damage: Option<Damage>,
}

/// Why a table could not be written out, and how many of its updates were refused since a checkpoint
/// tried.
struct Damage {
    kind: Kind,
    detail: String,
    /// The disk was full, and perhaps is not any more.
    is_no_space: bool,
    refused: u64,
}

impl Damage {
    fn new(error: &Error) -> Damage {
        let (kind, detail) = (error.kind(), error.detail().to_owned());
        Damage { kind, detail, is_no_space: error.is_no_space(), refused: 0 }
    }

    fn error(&self) -> Error {
        Error::new(self.kind, self.detail.clone())
    }

    /// Counts an update that is to be refused, unless it is one that tries again: the first, then ever
    /// fewer of them. Where the disk was full it is one in four, since whoever is told to free some space does.
    fn refuse(&mut self) -> Option<Error> {
        self.refused += 1;
        let is_turn = self.refused.is_power_of_two() || self.refused.is_multiple_of(TRIED_EVERY);
        let is_turn = is_turn || self.is_no_space && self.refused.is_multiple_of(TRIED_EVERY_FULL);
        (!is_turn).then(|| self.error())
    }
}

/// Of the updates of a table that cannot be written out, at least each so many tries again.
const TRIED_EVERY: u64 = 64;

/// The same where the disk was full.
const TRIED_EVERY_FULL: u64 = 4;

impl LiveShared {
    fn new(id: u64) -> Arc<LiveShared> {
        let [is_open, is_stuck] = [false; 2].map(AtomicBool::new);
        Arc::new(LiveShared { id, is_open, is_stuck, state: Mutex::default() })
    }

    /// Notes whether a checkpoint could write the table out.
    fn note(&self, damage: Option<&Error>) {
        lock(&self.state).damage = damage.map(Damage::new);
        self.is_stuck.store(damage.is_some(), Ordering::Release);
    }

    /// An update that tried as well could not.
    fn note_again(&self, error: &Error) {
        if let Some(damage) = &mut lock(&self.state).damage {
            *damage = Damage { refused: damage.refused, ..Damage::new(error) };
        }
    }

    /// The disk was full when it could not be written out, and may not be any more.
    fn forget_that_it_was_full(&self) {
        let was_full = lock(&self.state).damage.as_ref().is_some_and(|it| it.is_no_space);
        if was_full {
            self.note(None);
        }
    }

    /// Whether the last checkpoint could not write it out.
    fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire)
    }

    /// What the table left, if it was open before.
    fn table_state(&self) -> Option<TableState> {
        lock(&self.state).table_state.clone()
    }

    /// The state with its oldest buffer's beginning, the end of what it has, and what was cut.
    fn found(&self) -> Option<(TableState, LogPoint, LogPoint, Option<ShapeCut>)> {
        let state = lock(&self.state);
        let from = state.points.front().copied()?;
        Some((state.table_state.clone()?, from, state.applied, state.cut.clone()))
    }
}

/// A live table in the checkpoint.
#[derive(Clone)]
pub struct LiveTable {
    pub record: Arc<LiveRecord>,
    pub live: Arc<LiveShared>,
}

type LiveTableMap = BTreeMap<String, LiveTable>;

struct LiveList {
    entries: LiveTableMap,
    next_id: u64,
    /// Why the live tables cannot be used, if they cannot.
    damage: Option<(Kind, String)>,
}

/// See the module.
pub struct LiveTables {
    store: Arc<SegmentStore>,
    pins: Arc<Pins>,
    log: Option<LogWriter>,
    state: Mutex<LiveList>,
    /// Held by whoever writes a checkpoint or begins a log file.
    changing: Mutex<CheckpointSteps>,
    /// A log file was begun and its checkpoint failed.
    is_owed: AtomicBool,
    /// For what frees room on a full disk.
    reserve: Reserve,
    /// How many bytes it is to have; 0 before anybody asked.
    reserve_bytes: AtomicU64,
    /// A delete has had it, or it was found short: what may go is to make room as soon as can be.
    makes_room: AtomicBool,
    /// Nobody has looked yet whether the session before left it whole.
    is_unseen: AtomicBool,
    /// Why many files of the log did not become one, if they were to, and whether it was for want of room.
    not_joined: Mutex<Option<(Error, bool)>>,
    /// Held alone by whoever gives records of the log other places, and together by those who read them.
    places: RwLock<()>,
    /// The live tables are as another session copied them, until something is written.
    is_copy: AtomicBool,
    /// For the records in `state`.
    charge: Option<Charge>,
}

/// A live table as it was found when the right to update it was given.
pub struct Opened {
    pub name: String,
    pub writer: LiveWriter,
    pub record: Arc<LiveRecord>,
    /// What it left, if it was open before.
    pub table_state: Option<TableState>,
}

/// The right to update a live table; one at a time has it.
pub struct LiveWriter {
    tables: Arc<LiveTables>,
    live: Arc<LiveShared>,
}

impl Drop for LiveWriter {
    fn drop(&mut self) {
        self.live.is_open.store(false, Ordering::Release);
    }
}

impl LiveWriter {
    /// What records of the log call the table.
    pub fn id(&self) -> u64 {
        self.live.id
    }

    /// Where it is logged, and its checkpoints written.
    pub fn tables(&self) -> &LiveTables {
        &self.tables
    }

    /// Notes where the table's buffers begin, what it has of the log, and what was cut.
    pub fn reset(&self, points: Vec<LogPoint>, applied: LogPoint, cut: Option<ShapeCut>) {
        let mut state = lock(&self.live.state);
        (state.points, state.applied, state.cut) = (points.into(), applied, cut);
    }

    /// Notes what ranges of an update that is logged take out of the table's segments, before anybody sees it.
    pub fn note_cut(&self, cut: ShapeCut) {
        let mut state = lock(&self.live.state);
        let oldest = state.points.front().copied().unwrap_or_default();
        let before = state.cut.take().filter(|before| before.until > oldest);
        state.cut = Some(cut.and(before));
    }

    /// Before the table changes: lets its view go, so that nothing is copied.
    pub fn clear_state(&self) {
        let table_state = lock(&self.live.state).table_state.take();
        drop(table_state);
    }

    /// After the table changed: leaves its state, where new buffers began, and what it has now.
    pub fn publish(
        &self,
        table_state: TableState,
        begun: Vec<LogPoint>,
        applied: Option<LogPoint>,
    ) {
        let buffers = table_state.view.shape.sealed.len() + 1;
        let mut state = lock(&self.live.state);
        state.points.extend(begun);
        while state.points.len() > buffers {
            state.points.pop_front();
        }
        if let Some(applied) = applied {
            state.applied = applied;
        }
        let before = state.table_state.replace(table_state);
        drop(state);
        // It may hold the last counts of files, whose removal is work of the disk.
        drop(before);
    }

    /// Refuses an update of a table that the last checkpoint could not write out, unless it can be by
    /// now: it keeps its part of the log, which should not grow any further for it. Not every update
    /// tries, since that may cost a good part of a write buffer.
    pub fn check_written_out(
        &self,
        name: &str,
        table_state: impl FnOnce() -> TableState,
    ) -> Result<()> {
        if !self.live.is_stuck() {
            return Ok(());
        }
        let refused = lock(&self.live.state).damage.as_mut().and_then(Damage::refuse);
        if let Some(error) = refused {
            return Err(error);
        }
        self.tables.store.check_writable()?;
        written_out(name, &table_state()).inspect_err(|error| self.live.note_again(error))?;
        self.live.note(None);
        Ok(())
    }
}

impl LiveList {
    /// About what the records take.
    fn memory_bytes(&self) -> u64 {
        let segments = segments_of(self.entries.values().map(|entry| &entry.record.table));
        segments.map(record_bytes).sum()
    }

    /// The live table `name`, or all of them; `Missing` when there is none of that name.
    fn wanted(&self, name: Option<&str>) -> Result<Vec<(&String, &LiveTable)>> {
        let Some(name) = name else { return Ok(self.entries.iter().collect()) };
        let found = self.entries.get_key_value(name);
        let names = self.entries.keys().map(String::as_str);
        Ok(vec![found.ok_or_else(|| no_live_table(name, names))?])
    }
}

impl LiveTables {
    /// The live tables that `checkpoint` names; without a log they can only be listed.
    pub fn new(
        store: &Arc<SegmentStore>,
        pins: &Arc<Pins>,
        log: Option<LogWriter>,
        checkpoint: Option<Checkpoint>,
        damage: Option<&Error>,
    ) -> Arc<LiveTables> {
        let next_id = checkpoint.as_ref().map_or(1, |checkpoint| checkpoint.next_id);
        let copied = Checkpoint::header(store.identity, Origin::Copied).identity;
        let is_copy =
            checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.header.identity == copied);
        let records = checkpoint.into_iter().flat_map(|checkpoint| checkpoint.tables);
        let entries = records.map(|record| {
            let live = LiveShared::new(record.id);
            (record.table.name.clone(), LiveTable { record: Arc::new(record), live })
        });
        let damage = damage.map(|error| (error.kind(), error.detail().to_owned()));
        let state = LiveList { entries: order::map(entries), next_id, damage };
        let charge = store.charge();
        set(charge.as_ref(), state.memory_bytes());
        let older = log.as_ref().map(LogWriter::older).unwrap_or_default();
        let file_bytes = store.options.log_file_bytes;
        let kept_max = kept_max_of(&state.entries, file_bytes);
        let (steps, is_owed) = CheckpointSteps::at_opening(&older, file_bytes, kept_max);
        if let Some(log) = log.as_ref().filter(|_| is_owed) {
            log.set_aside();
        }
        let is_unseen = log.is_some() && !state.entries.is_empty();
        Arc::new(LiveTables {
            charge,
            store: Arc::clone(store),
            pins: Arc::clone(pins),
            log,
            state: Mutex::new(state),
            changing: Mutex::new(steps),
            is_owed: AtomicBool::new(is_owed),
            reserve: Reserve::new(&store.disk, RESERVE),
            reserve_bytes: AtomicU64::new(0),
            makes_room: AtomicBool::new(false),
            is_unseen: AtomicBool::new(is_unseen),
            not_joined: Mutex::new(None),
            places: RwLock::new(()),
            is_copy: AtomicBool::new(is_copy),
        })
    }

    /// The names of the live tables.
    pub fn names(&self) -> Result<Vec<String>> {
        self.check()?;
        Ok(lock(&self.state).entries.keys().cloned().collect())
    }

    /// Which tables the last checkpoint could not write out, and why; and that it could not make one file of many.
    pub fn warnings(&self) -> Vec<String> {
        let waits = self.warning_of_short_files();
        let state = lock(&self.state);
        let damage = |(name, entry): (&String, &LiveTable)| {
            let (error, is_no_space) = {
                let state = lock(&entry.live.state);
                let damage = state.damage.as_ref()?;
                (damage.error(), damage.is_no_space)
            };
            let besides = if is_no_space { ", or drop a table that is not needed" } else { "" };
            Some(format!(
                "table {name} could not be written out, so its part of the log stays, and it takes no \
                 updates until it can: {error}{besides}"
            ))
        };
        state.entries.iter().filter_map(damage).chain(waits).collect()
    }

    /// That there are many short log files, and no room to make one of them, or what else kept them from it.
    fn warning_of_short_files(&self) -> Option<String> {
        let not_joined = lock(&self.not_joined);
        let (error, is_no_space) = not_joined.as_ref()?;
        if !is_no_space {
            return Some(format!("files of the log did not become one: {error}"));
        }
        let short = self.log.as_ref()?.short_files();
        (short > SHORT_FILES_MAX).then(|| {
            format!(
                "the log has {short} files of sessions that ended soon, and there was no room to make one of them: free \
                 some space, or drop a table that is not needed"
            )
        })
    }

    fn check(&self) -> Result<()> {
        match &lock(&self.state).damage {
            Some((kind, detail)) => Err(Error::new(*kind, detail.clone())),
            None => Ok(()),
        }
    }

    /// The log. `Invalid` without one, `Corrupt` when the live tables are damaged.
    pub fn log_writer(&self) -> Result<&LogWriter> {
        self.check()?;
        self.log.as_ref().ok_or_else(|| {
            Error::invalid(format!(
                "the session at {} was opened without a log, so no table can be live: \
                 open it with Log::Written or Log::Synced",
                self.store.disk.root()
            ))
        })
    }

    /// Appends one record with all `parts`, in the order of their ids; see [`LogWriter::append`].
    ///
    /// Updates that bind something find the reserve whole, or fail for want of room. Those that only delete may have it
    /// then, where their record leaves the checkpoint its room.
    pub fn log<'a>(
        &self,
        parts: &(impl Iterator<Item = (u64, &'a Batch)> + Clone),
    ) -> Result<LogPoint> {
        self.store.write(|| {
            let (mut bytes, mut only_deletes) = (0_usize, true);
            for (_, batch) in parts.clone() {
                bytes = bytes.saturating_add(batch.record_bytes_max());
                only_deletes &= batch.only_deletes();
            }
            if !only_deletes {
                return self.reserve.beside(|| {
                    self.ensure_reserve()?;
                    self.log_as_it_is(parts.clone())
                });
            }
            let is_whole = self.reserve.beside(|| self.ensure_reserve()).is_ok();
            if !is_whole || bytes > GIVEN_RECORD_BYTES_MAX {
                // What there is of it is for dropping tables.
                return self.reserve.beside(|| self.log_as_it_is(parts.clone()));
            }
            // Of several at once the first has it: what is left is for the checkpoint.
            let is_whole = || self.reserve.is_whole();
            let (at, was_given) = self.give_if(is_whole, || self.log_as_it_is(parts.clone()))?;
            if was_given {
                self.makes_room.store(true, Ordering::Release);
                // Merges of the next update may come before the checkpoint.
                self.keep_reserve();
            }
            Ok(at)
        })
    }

    fn log_as_it_is<'a>(
        &self,
        parts: impl Iterator<Item = (u64, &'a Batch)> + Clone,
    ) -> Result<LogPoint> {
        let tables = parts.clone().map(|(id, _)| id);
        let mut only = parts.clone();
        if let (Some((id, batch)), None) = (only.next(), only.next())
            && let Some(range) = batch.only_range()
        {
            return self.log_writer()?.append(tables, &[], |to| encode_delete_range(to, id, range));
        }
        let mut blobs: Vec<_> =
            parts.clone().flat_map(|(_, batch)| batch.blobs().cloned()).collect();
        // Copies of one file have the same identity; any of them will do.
        order::sort_by(&mut blobs, |a, b| {
            let [a, b] = [a.meta(), b.meta()].map(|meta| (meta.identity, meta.id));
            a.cmp(&b)
        });
        blobs.dedup_by_key(|blob| blob.meta().identity);
        let metas: Vec<_> = blobs.iter().map(|blob| *blob.meta()).collect();
        self.log_writer()?.append(tables, &blobs, |to| encode_update(to, parts, &metas))
    }

    /// Gives the right to update the live table `name`, or all of them, in the order of their names.
    /// `Missing` when there is none of that name, `Locked` when somebody has it.
    ///
    /// In one step: between finding a table and taking it, it could be deleted, and another be made
    /// under its name, whose updates would go to the log as those of the first.
    pub fn open(self: &Arc<Self>, name: Option<&str>) -> Result<Vec<Opened>> {
        self.check()?;
        // Let go only after the lock, should one of them be taken.
        let mut opened = Vec::new();
        let state = lock(&self.state);
        for (name, entry) in state.wanted(name)? {
            let writer = self.writer(name, &entry.live)?;
            let (record, table_state) = (Arc::clone(&entry.record), entry.live.table_state());
            opened.push(Opened { name: name.clone(), writer, record, table_state });
        }
        drop(state);
        Ok(opened)
    }

    /// Until it is dropped, records of the log stay where the tables' records say.
    pub fn keep_places(&self) -> impl Sized + '_ {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to update the table `live`, which nobody can delete meanwhile; `Locked` when somebody
    /// has it.
    fn writer(self: &Arc<Self>, name: &str, live: &Arc<LiveShared>) -> Result<LiveWriter> {
        if live.is_open.swap(true, Ordering::AcqRel) {
            return Err(Error::new(
                Kind::Locked,
                format!("table {name} is open already: close that handle first"),
            ));
        }
        Ok(LiveWriter { tables: Arc::clone(self), live: Arc::clone(live) })
    }

    /// Makes a table live. `Exists` when its name is taken. Writes a checkpoint.
    pub fn add(
        self: &Arc<Self>,
        name: &str,
        record: impl FnOnce(&mut NamedSegments) -> Result<TableRecord>,
    ) -> Result<LiveWriter> {
        let log = self.log_writer()?;
        let _changing = lock(&self.changing);
        let (mut entries, id) = self.entries();
        if entries.contains_key(name) {
            return Err(Error::new(
                Kind::Exists,
                format!("there is a live table {name} already: open it, or choose another name"),
            ));
        }
        let mut named = NamedSegments::new();
        let table = record(&mut named)?;
        self.store.write(|| log.begin())?;
        let from = log.written_point();
        let live = LiveShared::new(id);
        {
            let mut state = lock(&live.state);
            state.points.push_back(from);
            state.applied = from;
        }
        let entry = LiveTable { record: Arc::new(LiveRecord { id, from, cut: None, table }), live };
        let writer = self.writer(name, &entry.live)?;
        entries.insert(name.to_owned(), entry);
        self.write(entries, id + 1, &named)?;
        self.store.remove_long();
        Ok(writer)
    }

    /// Ends a table's being live. `Locked` while somebody has it open. Writes a checkpoint.
    pub fn remove(self: &Arc<Self>, name: &str) -> Result<()> {
        self.log_writer()?;
        let mut steps = lock(&self.changing);
        // Nobody opens it meanwhile.
        let _opened = self.open(Some(name))?;
        let (mut entries, next_id) = self.entries();
        let removed = entries.remove(name);
        self.write(entries, next_id, &NamedSegments::new())?;
        if let Some(removed) = removed {
            steps.let_go(removed.record.id);
        }
        self.store.remove_long();
        Ok(())
    }

    fn entry(&self, name: &str) -> Option<LiveTable> {
        lock(&self.state).entries.get(name).cloned()
    }

    fn entries(&self) -> (LiveTableMap, u64) {
        let state = lock(&self.state);
        (state.entries.clone(), state.next_id)
    }

    /// Makes `entries` what is live: everything that they name durable, then the checkpoint.
    fn write(&self, entries: LiveTableMap, next_id: u64, named: &NamedSegments) -> Result<()> {
        let log = self.log_writer()?;
        self.store.write(|| {
            if !named.is_empty() {
                // The next session's files are numbered above this file, so none has a number that the checkpoint named.
                self.give_if(|| self.has_more_than_a_checkpoint(), || log.begin())?;
            } else if log.keeps_values() {
                // With a file after them those before may go, and their values. Where there is no room, they wait.
                let _ = self.give_if(|| self.has_more_than_a_checkpoint(), || log.begin());
            }
            let end = log.sync()?;
            let ends = needed(log, &entries, end);
            let numbers: Vec<_> = ends.iter().map(|end| end.file).collect();
            let records = entries.values().map(|entry| (*entry.record).clone()).collect();
            let header = Checkpoint::header(self.store.identity, Origin::Own);
            let checkpoint = Checkpoint { header, next_id, files: ends, tables: records };
            let bytes = checkpoint.segments().map(record_bytes).sum();
            let working = self.store.charge();
            set(working.as_ref(), bytes * COPIES);
            self.store.sync_segments(named.values())?;
            let before = self.pins.lock().live.clone();
            let new = files_of(named);
            let file = |(id, path): (u64, String)| {
                let known = new.get(&id).or_else(|| before.get(&id)).cloned();
                (id, known.unwrap_or_else(|| self.store.shared_file(id, path)))
            };
            let files: Files = order::map(named_files(checkpoint.segments()).map(file));
            self.pins.pin_live(&files);
            let encoded = checkpoint.encode();
            if let Err(error) = self.replace(&encoded) {
                self.pins.set_live(before);
                return Err(error);
            }
            self.pins.set_live(files);
            let mut state = lock(&self.state);
            let before = std::mem::replace(&mut state.entries, entries);
            state.next_id = next_id;
            drop(state);
            drop(before);
            set(self.charge.as_ref(), bytes);
            self.is_copy.store(false, Ordering::Release);
            log.retain(&numbers);
            log.show_that_tables_are_live();
            self.reserve_bytes.store(reserve_bytes(encoded.len() as u64), Ordering::Release);
            self.keep_reserve();
            Ok(())
        })
    }

    /// Replaces the checkpoint. Once the new one may be there, an error poisons the session.
    fn replace(&self, bytes: &[u8]) -> Result<()> {
        self.store.check_lock()?;
        // One that fails is removed, and so makes room for the next.
        let begin = || {
            let new = Replacement::begin(&self.store.disk, CHECKPOINT, Access::Buffered)?;
            self.store.spares.make_room(|| new.file().write_at(0, bytes))?;
            Ok(new)
        };
        let (mut replacement, _) = self.give(begin)?;
        self.store.counters.add_checkpoint(bytes.len() as u64);
        self.store.or_poison(|| replacement.sync())?;
        // Some file systems refuse it while somebody reads the old one, which stands then.
        self.store.unless_panicked(|| replacement.rename()).map_err(|refused| {
            if !refused.is_unchanged {
                self.store.poison();
            }
            refused.error
        })?;
        self.store.or_poison(|| self.store.disk.sync_directory(""))
    }

    /// Begins the log file of this session, if there is a log, before something names segments: those of the next session
    /// are numbered above it, so none has the number of one that was named.
    pub fn begin_log(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if log.is_begun() { Ok(()) } else { self.store.write(|| log.begin()) }
    }

    /// Makes all that was logged durable, when nothing more comes.
    pub fn end(&self) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync()?;
        log.cut_filling();
        Ok(())
    }
}

/// How often a checkpoint's records are there while it is written, beside those of the one before: as they
/// are kept, as they are to be encoded (twice), and as bytes.
const COPIES: u64 = 4;

/// Longest record of an update that may have the reserve: with its log file it takes a block or two, and leaves the
/// checkpoint its room.
const GIVEN_RECORD_BYTES_MAX: usize = 3 << 10;

/// About what the record of a segment takes, with its place in the lists of files.
fn record_bytes(segment: &SegmentMeta) -> u64 {
    let blobs = segment.blobs.len() * size_of::<BlobUse>();
    let keys = segment.first_key.len() + segment.last_key.len();
    (size_of::<SegmentMeta>() + keys + blobs + 64) as u64
}

fn set(charge: Option<&Charge>, bytes: u64) {
    if let Some(charge) = charge {
        charge.set(bytes);
    }
}

/// Writes a table out, see [`View::written_out`]. What the host brings may panic there, for a table that
/// somebody else updates: that is an error of this table alone.
fn written_out(name: &str, table_state: &TableState) -> Result<(Arc<Shape>, Option<Arc<Run>>)> {
    let TableState { view, options } = table_state;
    let written = catch_unwind(AssertUnwindSafe(|| view.written_out(options)));
    written.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let said = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Err(Error::new(
            Kind::Invalid,
            format!(
                "a merge operator, disk or executor of the host panicked while table {name} was \
                 written out ({}): mend it, then update the table again",
                said.unwrap_or("without a text")
            ),
        ))
    })
}

/// `Missing`: there are only these live tables.
pub fn no_live_table<'a>(name: &str, there: impl Iterator<Item = &'a str>) -> Error {
    let names: Vec<_> = there.collect();
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Error::missing(format!("there is no live table \"{name}\"; there are: {there}"))
}

/// The log files that the checkpoint of `entries` needs, the current one last.
fn needed(log: &LogWriter, entries: &LiveTableMap, end: LogEnd) -> Vec<LogEnd> {
    let older = log.files().into_iter().filter(|file| {
        let mut entries = entries.values();
        let is_needed = entries.any(|entry| file.is_needed(entry.record.id, entry.record.from));
        is_needed && file.number < end.file
    });
    older.map(|file| file.end()).chain(std::iter::once(end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    #[test]
    fn ever_fewer_updates_try_again_but_not_where_the_disk_was_full() {
        let tries = |kind: ErrorKind| {
            let mut damage = Damage::new(&Error::io("write to", "a segment", kind.into()));
            (0..200).filter(|_| damage.refuse().is_none()).count()
        };
        // The powers of two up to 128, and 192.
        assert_eq!(tries(ErrorKind::Other), 9);
        // The first two as well.
        assert_eq!(tries(ErrorKind::StorageFull), 52);
        assert_eq!(tries(ErrorKind::QuotaExceeded), 52);
    }
}

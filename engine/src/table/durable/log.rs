//! The log: every update of a live table as one record, written before the table changes.
//!
//! Threads that update different tables push their records into one buffer; the first of them
//! writes it for all who wait, and syncs if that was promised, while the next records gather. A
//! file that has grown enough is followed by the next; what is in it is durable before anything is
//! in the next, so what a power cut leaves of the log is always a beginning of it. What is put together of
//! older files (`joining`) has a number before the session's own and is written later, so it counts only
//! where a checkpoint names it.
//!
//! Format document: `docs/format/log.md`. Every write and sync: `docs/design/durability.md`.

mod joining;

use std::collections::VecDeque;
use std::sync::Arc;

pub use joining::short_run;

use super::log_record::{LogEnd, LogPoint, LogRecord, encode_begin};
use crate::cache::Charge;
use crate::disk::{Access, Disk, File};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, AppendFile, HEAD, Position};
use crate::file::replace::Replacement;
use crate::format::checksum::crc;
use crate::format::codec::{Decoder, Encoder};
use crate::format::hash::combine;
use crate::format::header::{FileKind, Header};
use crate::order::BTreeMap;
use crate::sync::{AtomicBool, Condvar, Mutex, MutexGuard, Ordering, lock, wait};
use crate::table::runs::blob::BlobFile;
use crate::table::shared::paths::{self, LOG};
use crate::table::shared::{Log, Pins, SegmentStore};

/// How far ahead of its end a file is filled with zeros, so that a sync finds blocks and length as
/// they were and has no more to write than the records.
const FILL_BYTES: u64 = 1 << 20;

/// The zeros are written in such pieces. The system may keep what one write brought as one piece of
/// its cache, and then writes all of that again whenever a sync finds a byte of it changed.
const ZEROS: &[u8] = &[0; 16 << 10];

/// A buffer of records that needed more memory than this is not kept for the next ones.
const KEPT_BYTES: usize = 1 << 20;

/// What was written is sent on its way to the disk in such pieces, where nobody syncs it at once.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// A log file that takes no more records.
#[derive(Clone, Debug)]
pub struct LogFile {
    pub number: u64,
    pub end: Position,
    /// The last record of each table that was written to it, and the bytes of its records, with the blob files that these
    /// list, where the file was found.
    pub tables: BTreeMap<u64, (u64, u64)>,
    /// Bytes of the blob files that its records name, which stay as long as it does.
    pub blob_bytes: u64,
}

impl LogFile {
    /// A file without a record.
    fn empty(number: u64) -> LogFile {
        LogFile { number, end: Position::start(), tables: BTreeMap::new(), blob_bytes: 0 }
    }

    /// A file that ends there.
    pub fn ended(end: LogEnd) -> LogFile {
        LogFile { end: end.position, ..LogFile::empty(end.file) }
    }

    pub fn end(&self) -> LogEnd {
        LogEnd { file: self.number, position: self.end }
    }

    /// `Corrupt` unless a read of it came to `end`, where it ended when it was read or written before: what is behind a bad
    /// record is not read, and this file is all that has it.
    pub fn expect_read(&self, end: Position) -> Result<()> {
        if end.offset >= self.end.offset {
            return Ok(());
        }
        let expected = format_args!("records up to byte {}", self.end.offset);
        Err(Error::corrupt(&paths::log_file(self.number), end.offset, expected, "less"))
    }

    /// With those in blob files.
    fn bytes(&self) -> u64 {
        self.end.offset.saturating_add(self.blob_bytes)
    }

    /// Whether it ended long before it was full, because its session did.
    fn is_short(&self, file_bytes: u64) -> bool {
        self.bytes() < file_bytes / 2
    }

    /// Whether table `id`, which is durable up to `from`, has more in this file.
    pub fn is_needed(&self, id: u64, from: LogPoint) -> bool {
        let last = self.tables.get(&id);
        last.is_some_and(|&(sequence, _)| (self.number, sequence) >= (from.file, from.sequence))
    }
}

/// How long they are together, with what is in blob files.
pub fn bytes_of<'f>(files: impl IntoIterator<Item = &'f LogFile>) -> u64 {
    files.into_iter().map(LogFile::bytes).fold(0, u64::saturating_add)
}

/// Records of one write that failed, until each of those who wait for them was told.
struct Failure {
    first: u64,
    last: u64,
    untold: u64,
    kind: Kind,
    detail: String,
    is_no_space: bool,
}

struct LogState {
    /// A stand-in until it is begun.
    file: AppendFile,
    is_begun: bool,
    /// See [`LogWriter::set_aside`].
    aside: Option<u64>,
    /// Those whose place the next checkpoint gives to another.
    joined: Vec<LogFile>,
    /// Its first record is to be written even if none comes: see [`LogWriter::show_that_tables_are_live`].
    shows: bool,
    current: LogFile,
    /// The end of the file before it.
    before: Option<LogEnd>,
    /// Older files that are still there, oldest first.
    older: Vec<LogFile>,
    /// By how many they are held, so that none of them goes, and those that nobody else needs.
    holds: u32,
    held: Vec<u64>,
    /// Somebody writes or syncs; others wait.
    leading: bool,
    /// Records pushed, and those of them that were written or given up, since the log was opened.
    pushed: u64,
    done: u64,
    /// The tables of records that were pushed and are not written yet, in the order of their places:
    /// a record that fails must not take the place of the last one that was written.
    unwritten: VecDeque<(u64, u64)>,
    failures: Vec<Failure>,
    /// Memory for the next records.
    spare: Vec<u8>,
    /// What the records take that are being written.
    in_flight: usize,
    /// The memory of all records that was charged last.
    charged: u64,
    /// Up to where the file was filled with zeros.
    filled: u64,
    sent: u64,
    /// Bytes of the files that ended since it was opened, with those in blob files.
    ended: u64,
    /// How much was logged when files were left to be removed last.
    left: u64,
}

/// The log of an open session.
pub struct LogWriter {
    store: Arc<SegmentStore>,
    pins: Arc<Pins>,
    state: Mutex<LogState>,
    changed: Condvar,
    is_due: AtomicBool,
    /// For the records that are not written yet.
    charge: Option<Charge>,
}

impl LogWriter {
    /// A log that goes on in a new file `number` after `older`. That is begun with the first update only: an opening takes
    /// no room, so that a full disk does not keep it from making room.
    pub fn start(
        store: &Arc<SegmentStore>,
        pins: &Arc<Pins>,
        number: u64,
        older: Vec<LogFile>,
    ) -> Result<LogWriter> {
        store.disk.create_directory(LOG)?;
        store.disk.sync_directory("")?;
        let state = LogState {
            file: AppendFile::standing_in(&paths::log_file(number)),
            is_begun: false,
            aside: None,
            joined: Vec::new(),
            shows: false,
            current: LogFile::empty(number),
            before: older.last().map(LogFile::end),
            older,
            holds: 0,
            held: Vec::new(),
            leading: false,
            pushed: 0,
            done: 0,
            unwritten: VecDeque::new(),
            failures: Vec::new(),
            spare: Vec::new(),
            in_flight: 0,
            charged: 0,
            filled: 0,
            sent: 0,
            ended: 0,
            left: 0,
        };
        Ok(LogWriter {
            store: Arc::clone(store),
            pins: Arc::clone(pins),
            state: Mutex::new(state),
            changed: Condvar::new(),
            is_due: AtomicBool::new(false),
            charge: store.charge(),
        })
    }

    /// Charges what the records take by now that are not written, and the memory for the next ones.
    fn count_in_budget(&self, state: &mut LogState) {
        let Some(charge) = &self.charge else { return };
        let bytes = state.file.memory_bytes() + state.spare.capacity() + state.in_flight;
        if bytes as u64 != state.charged {
            state.charged = bytes as u64;
            charge.set(state.charged);
        }
    }

    fn syncs(&self) -> bool {
        self.store.options.log == Log::Synced
    }

    /// Appends the record of `encode`, which changes `tables` and names `blobs`, as durable as was
    /// promised when this returns; gives its place. After an error none of it is there, or the session
    /// takes no more writes. The blob files, durable before, stay as long as the log file does. Only within
    /// [`SegmentStore::write`].
    pub fn append(
        &self,
        tables: impl Iterator<Item = u64>,
        blobs: &[Arc<BlobFile>],
        encode: impl FnOnce(&mut Encoder),
    ) -> Result<LogPoint> {
        let mut state = lock(&self.state);
        self.begin_in(&mut state)?;
        let at = state.file.push_with(encode)?;
        self.count_in_budget(&mut state);
        state.unwritten.extend(tables.map(|id| (at.sequence, id)));
        if !blobs.is_empty() {
            // Nobody writes the record before the lock is free. Should that fail, they stay too.
            let number = state.current.number;
            state.current.blob_bytes += self.pins.pin_logged(number, blobs);
        }
        let point = LogPoint { file: state.current.number, sequence: at.sequence, skip: 0 };
        state.pushed += 1;
        let ticket = state.pushed;
        self.store.counters.add_log_record();
        self.wait_for(state, ticket)?;
        Ok(point)
    }

    /// Makes the file that the next record goes to, durable with its name, unless that was done.
    pub fn begin(&self) -> Result<()> {
        self.begin_in(&mut lock(&self.state))
    }

    fn begin_in(&self, state: &mut LogState) -> Result<()> {
        if !state.is_begun {
            state.file = begun(&self.store, state.current.number, state.before)?;
            state.is_begun = true;
        }
        Ok(())
    }

    /// Whether files before this session's have values that nothing else may need.
    pub fn keeps_values(&self) -> bool {
        lock(&self.state).older.iter().any(|file| file.blob_bytes > 0)
    }

    /// Whether there is a file that the next record goes to.
    pub fn is_begun(&self) -> bool {
        lock(&self.state).is_begun
    }

    /// Waits until record `ticket` was written, by somebody else or here.
    fn wait_for<'a>(&'a self, mut state: MutexGuard<'a, LogState>, ticket: u64) -> Result<()> {
        loop {
            if state.done >= ticket {
                return state.told(ticket);
            }
            if state.leading {
                state = wait(&self.changed, state);
            } else {
                state = self.lead(state, self.syncs()).0;
            }
        }
    }

    /// Writes what was pushed, and syncs it if wanted, while others go on pushing.
    fn lead<'a>(
        &'a self,
        mut state: MutexGuard<'a, LogState>,
        sync: bool,
    ) -> (MutexGuard<'a, LogState>, Result<()>) {
        state.leading = true;
        let last = state.pushed;
        let spare = std::mem::take(&mut state.spare);
        let flight = state.file.take_off(spare);
        let bytes = flight.len() as u64;
        state.in_flight = flight.memory_bytes();
        let end = state.file.written().offset + bytes;
        let filled = state.filled;
        // Not for a session's first records, which are all that a short one has.
        let is_first = state.ended == 0 && state.file.written() == Position::start();
        let fills = sync && end > filled && !is_first;
        if fills {
            state.filled = end + FILL_BYTES.min(self.store.options.log_file_bytes);
        }
        let (file, fill_end) = (Arc::clone(state.file.file()), state.filled);
        let leader = Leader(self);
        drop(state);
        let written = self.store.spares.make_room(|| flight.write());
        // Only for speed, and so only after the records: where there is no room for it, it takes none.
        if fills && written.is_ok() && fill(&*file, filled.max(end), fill_end).is_err() {
            let _ = file.set_len(end);
        }
        let synced =
            if sync && written.is_ok() { self.store.time_sync(|| flight.sync()) } else { Ok(()) };
        let mut state = lock(&self.state);
        state.leading = false;
        let landed = state.file.land(flight, written, sync && synced.is_ok());
        state.in_flight = 0;
        let kept = landed.map(|spare| {
            state.spare = if spare.capacity() > KEPT_BYTES { Vec::new() } else { spare };
        });
        self.count_in_budget(&mut state);
        let outcome = synced.and(kept);
        self.store.counters.add_log_write(bytes, sync);
        match &outcome {
            Ok(()) => {
                state.shows = false;
                state.note_written(last);
                self.after_write(&mut state, sync);
            }
            Err(error) => {
                state.give_up(error);
                state.push_begin();
                if state.shows {
                    state.write_begin();
                }
                if state.file.is_poisoned() {
                    self.store.poison();
                }
            }
        }
        self.changed.notify_all();
        std::mem::forget(leader);
        (state, outcome)
    }

    fn after_write(&self, state: &mut LogState, is_synced: bool) {
        let end = state.file.written().offset;
        // What is in blob files counts as if the record had it, so that dead ones go as soon.
        if end.saturating_add(state.current.blob_bytes) >= self.store.options.log_file_bytes {
            self.is_due.store(true, Ordering::Release);
        }
        if is_synced {
            state.sent = end;
        } else if end >= state.sent + WRITEBACK_BYTES {
            state.file.file().start_writeback(state.sent, end - state.sent);
            state.sent = end;
        }
    }

    /// Whether the file has grown enough for the next one to begin.
    pub fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Acquire)
    }

    /// The end of all that was written, made durable. Others go on appending meanwhile.
    pub fn sync(&self) -> Result<LogEnd> {
        let (file, number, position) = {
            let state = lock(&self.state);
            if let (false, Some(end)) = (state.is_begun, state.before) {
                // What was found was made durable by the opening.
                return Ok(end);
            }
            let mut position = state.file.written();
            if position.sequence <= 1 && state.file.synced() < position.offset {
                // Nobody needs the record that begins the file, as long as nothing follows it.
                position = Position::start();
            }
            let end = LogEnd { file: state.current.number, position };
            if state.file.synced() >= position.offset {
                return Ok(end);
            }
            (Arc::clone(state.file.synced_file()), end.file, position)
        };
        let synced = self.store.time_sync(|| self.store.or_poison(|| file.sync()));
        self.store.counters.add_log_write(0, true);
        synced?;
        let mut state = lock(&self.state);
        if state.current.number == number {
            state.file.note_synced(position.offset);
        }
        Ok(LogEnd { file: number, position })
    }

    /// Writes the record that begins the file, if there is none yet, after a checkpoint that names live tables: a log
    /// with a record and no checkpoint has lost it, also before the first update. It is durable with what comes next;
    /// where there is no room for it, that brings it.
    pub fn show_that_tables_are_live(&self) {
        let mut state = lock(&self.state);
        if !state.is_begun {
            // Mostly one that is there has a record. If not, this one is to.
            let is_shown = state.older.iter().any(|file| file.end != Position::start());
            if is_shown || self.begin_in(&mut state).is_err() {
                return;
            }
        }
        let is_on_its_way = state.leading || state.pushed > state.done;
        if state.file.written() != Position::start() {
            return;
        }
        if is_on_its_way {
            // It goes with what is, or is written when that fails.
            state.shows = true;
            return;
        }
        state.write_begin();
        if state.file.is_poisoned() {
            self.store.poison();
        }
    }

    /// Begins the next file. The old one is durable then, and takes no more records.
    pub fn roll(&self) -> Result<()> {
        self.sync()?;
        let number = lock(&self.state).current.number + 1;
        let mut next = Some(create(&self.store, number, false)?);
        let mut state = lock(&self.state);
        loop {
            while state.leading {
                state = wait(&self.changed, state);
            }
            let is_whole = state.file.end() == state.file.written()
                && state.file.synced() >= state.file.written().offset;
            if is_whole && let Some(mut file) = next.take() {
                let end = state.file.written();
                let mut last = std::mem::replace(&mut state.current, LogFile::empty(number));
                last.end = end;
                state.ended = state.ended.saturating_add(last.bytes());
                state.before = Some(last.end());
                file.push_with(|to| encode_begin(to, Some(last.end())))?;
                state.older.push(last);
                state.file = file;
                (state.filled, state.sent) = (0, 0);
                self.count_in_budget(&mut state);
                self.is_due.store(false, Ordering::Release);
                return Ok(());
            }
            let (guard, outcome) = self.lead(state, true);
            state = guard;
            outcome?;
        }
    }

    /// The files that are there, the current one last, or the last one before where that is not begun yet.
    pub fn files(&self) -> Vec<LogFile> {
        let state = lock(&self.state);
        let mut files = state.older.clone();
        if state.is_begun {
            files.push(LogFile { end: state.file.written(), ..state.current.clone() });
        }
        files
    }

    /// How much was logged since it was opened, values in blob files too.
    pub fn logged(&self) -> u64 {
        lock(&self.state).logged()
    }

    /// The same when files were left to be removed last.
    pub fn logged_when_left(&self) -> u64 {
        lock(&self.state).left
    }

    /// How many bytes table `id`, which is durable up to `from`, keeps of the log from going: since the oldest file began
    /// that it needs beside the current one. Nothing if it needs no other.
    pub fn kept(&self, id: u64, from: LogPoint) -> u64 {
        let state = lock(&self.state);
        let Some(oldest) = state.older.iter().position(|file| file.is_needed(id, from)) else {
            return 0;
        };
        let current = state.file.written().offset.saturating_add(state.current.blob_bytes);
        bytes_of(&state.older[oldest..]).saturating_add(current)
    }

    /// Cuts off the zeros that the current file was filled with ahead of its end, when nothing more comes: what was
    /// written is durable, and there are as many bytes as were. Best effort.
    pub fn cut_filling(&self) {
        let state = lock(&self.state);
        let end = state.file.written().offset;
        if state.filled > end && state.file.synced() >= end && !state.file.is_poisoned() {
            let _ = state.file.file().set_len(end);
        }
    }

    /// A place before every record that is pushed from now on, and after all that were written. Not
    /// after those on their way: should they fail, the next record gets their place.
    pub fn written_point(&self) -> LogPoint {
        let state = lock(&self.state);
        // The first record begins the file, and is of no table.
        let sequence = state.file.written().sequence.max(1);
        LogPoint { file: state.current.number, sequence, skip: 0 }
    }

    /// Begins or ends a time in which no file goes that is needed now, since somebody copies them.
    pub fn hold(&self, begins: bool) {
        let mut state = lock(&self.state);
        state.holds = if begins { state.holds + 1 } else { state.holds - 1 };
        if state.holds == 0 {
            let held = std::mem::take(&mut state.held);
            self.leave(&mut state, held);
        }
    }

    /// Leaves the older files that are not in `needed` to [`SegmentStore::remove_long`], with the blob files that
    /// they alone need. What stays in spite of it goes when the session is opened again.
    pub fn retain(&self, needed: &[u64]) {
        let mut state = lock(&self.state);
        let older = std::mem::take(&mut state.older).into_iter();
        let (older, unneeded): (Vec<_>, Vec<_>) =
            older.partition(|file| needed.contains(&file.number));
        state.older = older;
        self.let_go(&mut state, &unneeded);
    }

    fn let_go(&self, state: &mut LogState, unneeded: &[LogFile]) {
        let unneeded: Vec<_> = unneeded.iter().map(|file| file.number).collect();
        if state.holds > 0 {
            state.held.extend(unneeded);
        } else {
            self.leave(state, unneeded);
        }
    }

    fn leave(&self, state: &mut LogState, numbers: Vec<u64>) {
        if !numbers.is_empty() {
            state.left = state.logged();
        }
        for number in numbers {
            let pins = Arc::clone(&self.pins);
            self.store.leave_long(paths::log_file(number), move || pins.unpin_logged(&[number]));
        }
    }
}

/// Whoever writes for all. Dropped only when a call of the host's disk panics: what that did is not
/// known, so there is no more writing, and those who wait are told.
struct Leader<'a>(&'a LogWriter);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        (state.leading, state.in_flight) = (false, 0);
        state.file.abandon();
        self.0.count_in_budget(&mut state);
        state.give_up(&Error::new(
            Kind::Poisoned,
            format!(
                "the disk of {} panicked while the log was written: open the session again",
                self.0.store.disk.root()
            ),
        ));
        self.0.store.poison();
        self.0.changed.notify_all();
    }
}

impl LogState {
    /// Has the record again that begins the file, after a write of it failed.
    fn push_begin(&mut self) {
        if self.file.end() == Position::start() {
            let before = self.before;
            // A short record, refused only by a poisoned file.
            let _ = self.file.push_with(|to| encode_begin(to, before));
        }
    }

    /// Writes the record that begins the file, and has it still where that fails.
    fn write_begin(&mut self) {
        if !self.file.is_poisoned() && self.file.write().is_err() {
            self.push_begin();
        }
    }

    fn logged(&self) -> u64 {
        let current = self.file.written().offset.saturating_add(self.current.blob_bytes);
        self.ended.saturating_add(current)
    }

    /// The records up to `ticket` are written.
    fn note_written(&mut self, ticket: u64) {
        self.done = ticket;
        let end = self.file.written().sequence;
        while let Some(&(sequence, id)) = self.unwritten.front()
            && sequence < end
        {
            self.current.tables.insert(id, (sequence, 0));
            self.unwritten.pop_front();
        }
    }

    /// Nothing that was pushed and is not done will be there; whoever waits for it is told `error`.
    fn give_up(&mut self, error: &Error) {
        // Later records name places after those that failed, so they go too.
        let (first, last) = (self.done + 1, self.pushed);
        if first <= last {
            let (kind, detail) = (error.kind(), error.detail().to_owned());
            let untold = last + 1 - first;
            let is_no_space = error.is_no_space();
            self.failures.push(Failure { first, last, untold, kind, detail, is_no_space });
        }
        self.done = last;
        self.unwritten.clear();
    }

    /// What became of record `ticket`, which is done.
    fn told(&mut self, ticket: u64) -> Result<()> {
        let of = |failure: &Failure| (failure.first..=failure.last).contains(&ticket);
        let Some(place) = self.failures.iter().position(of) else { return Ok(()) };
        let failure = &mut self.failures[place];
        let mut error = Error::new(failure.kind, failure.detail.clone());
        if failure.is_no_space {
            error = error.with_source(std::io::Error::from(std::io::ErrorKind::StorageFull));
        }
        failure.untold -= 1;
        if failure.untold == 0 {
            self.failures.swap_remove(place);
        }
        Err(error)
    }
}

/// Makes log file `number`, durable with its name, whose first record is to name the end of the one before.
fn begun(store: &Arc<SegmentStore>, number: u64, before: Option<LogEnd>) -> Result<AppendFile> {
    let mut file = create(store, number, false)?;
    file.push_with(|to| encode_begin(to, before))?;
    Ok(file)
}

/// Makes a log file, durable with its name: empty, or with a first record that says that it follows itself, without which
/// it is never there.
pub(super) fn create(store: &Arc<SegmentStore>, number: u64, is_alone: bool) -> Result<AppendFile> {
    let path = paths::log_file(number);
    paths::check_number(store.disk.root(), &path, number)?;
    let identity = combine(store.identity, crc(path.as_bytes()).into());
    let header = Header::new(FileKind::Log, identity, store.identity);
    let itself = LogEnd { file: number, position: Position::start() };
    let bytes = if is_alone {
        AppendFile::begun(header, |to| encode_begin(to, Some(itself)))?
    } else {
        header.encode().to_vec()
    };
    let replacement = Replacement::begin(&store.disk, &path, Access::Buffered)?;
    store.spares.make_room(|| replacement.file().write_at(0, &bytes))?;
    if let Err(error) = store.unless_panicked(|| replacement.finish()) {
        if store.disk.exists(&path).unwrap_or(true) {
            store.poison();
        }
        return Err(error);
    }
    AppendFile::open(&*store.disk, &path, FileKind::Log, Position::start(), |_, _| Ok(()))
}

/// What a scan found of a log file.
#[derive(Clone, Copy, Debug)]
pub struct Scanned {
    pub end: Position,
    /// Whether there is no record, as when a crash came before the first was durable.
    pub is_empty: bool,
    /// Where the file before it ended, as its first record says.
    pub before: Option<LogEnd>,
    /// Bytes after the end, which a crash left.
    pub tail_bytes: u64,
    /// Up to where it was durable, as its records say.
    pub synced: u64,
    /// Where its last record begins; 0 without one.
    pub last: u64,
}

/// Where somebody stopped reading a log file, to go on later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPlace {
    pub end: LogEnd,
    /// Where the last record begins that was read.
    pub last: u64,
    /// Up to where nothing was found behind the end.
    pub searched: u64,
}

impl LogPlace {
    /// Before the first record of file `number`.
    pub fn begin(number: u64) -> LogPlace {
        let end = LogEnd { file: number, position: Position::start() };
        LogPlace { end, last: 0, searched: 0 }
    }

    /// Where a scan of file `number` came to.
    pub fn after(number: u64, scanned: &Scanned) -> LogPlace {
        LogPlace {
            end: LogEnd { file: number, position: scanned.end },
            last: scanned.last,
            searched: scanned.end.offset + scanned.tail_bytes,
        }
    }
}

/// Reads log file `number` of the store `identity` and calls `each` with place and content of every
/// record but the first.
pub fn scan(
    disk: &dyn Disk,
    identity: u64,
    number: u64,
    each: impl FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<Scanned> {
    scan_file(disk, identity, number, None, each)
}

/// The same from `place` on. `Corrupt` when the record before it is not the one that was read there: its
/// write had failed, and its writer took it back.
pub fn scan_on(
    disk: &dyn Disk,
    identity: u64,
    place: LogPlace,
    each: impl FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<Scanned> {
    scan_file(disk, identity, place.end.file, Some(place), each)
}

fn scan_file(
    disk: &dyn Disk,
    identity: u64,
    number: u64,
    place: Option<LogPlace>,
    mut each: impl FnMut(LogPoint, &mut Decoder<'_>) -> Result<()>,
) -> Result<Scanned> {
    let path = paths::log_file(number);
    let (file, header) = append::open_reader(disk, &path, FileKind::Log)?;
    if header.store != identity {
        return Err(Error::corrupt(
            &path,
            0,
            "a log file of this session",
            "one of another session",
        ));
    }
    if header.identity != combine(identity, crc(path.as_bytes()).into()) {
        let found = "another log file of the session, copied or renamed";
        return Err(Error::corrupt(&path, 0, "the log file of this number", found));
    }
    let place = place.filter(|place| place.end.position != Position::start());
    let from = place.map_or(Position::start(), |place| place.end.position);
    if let Some(LogPlace { last, .. }) = place
        && append::position_after(&*file, header.identity, last)? != Some(from)
    {
        let expected = "the record that was read last";
        return Err(Error::corrupt(&path, last, expected, "another: it was taken back"));
    }
    let (mut before, mut last) = (None, place.map_or(0, |place| place.last));
    let searched = place.map_or(0, |place| place.searched);
    let scan = append::scan_on(&*file, header.identity, from, searched, |at, payload| {
        last = at.offset;
        let mut from = Decoder::new(&path, at.offset + HEAD as u64, payload);
        if at.sequence > 0 {
            return each(LogPoint { file: number, sequence: at.sequence, skip: 0 }, &mut from);
        }
        let LogRecord::Begin(named) = LogRecord::decode(&mut from, &|_| false)? else {
            return Err(from.corrupt("the record that begins a file", "an update"));
        };
        before = named;
        Ok(())
    })?;
    let is_empty = scan.end == Position::start();
    let append::Scan { end, tail_bytes, synced } = scan;
    Ok(Scanned { end, is_empty, before, tail_bytes, synced, last })
}

/// Fills `file` with zeros from `at` to `end`.
fn fill(file: &dyn File, mut at: u64, end: u64) -> Result<()> {
    let piece = ZEROS.len() as u64;
    while at < end {
        let next = end.min((at / piece + 1) * piece);
        file.write_at(at, &ZEROS[..(next - at) as usize])?;
        at = next;
    }
    Ok(())
}

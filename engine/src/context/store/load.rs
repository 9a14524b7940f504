//! From files to a store: the chunks, what the pack says after the checkpoint, and the index, which
//! is brought up to the end of the pack or, when it does not fit, made again.

mod damaged;
mod scan;

use std::sync::Arc;

use super::tip::{Start, Tip};
use super::{State, Store};
use crate::context::files::chunk::{Opening, Place};
use crate::context::files::chunk_files::{self, Chunk, Found};
use crate::context::files::chunk_reader::ChunkReader;
use crate::context::files::control::{Control, Horizon, Row, State as ChunkState};
use crate::context::files::hash_index::{Covered, HashIndex, is_damage};
use crate::context::files::paths::{self, whose};
use crate::context::files::sparse::SparseFile;
use crate::context::observer::Operation;
use crate::disk::{Disk, Lock, remove_quietly};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, Position};
use crate::file::replace;
use crate::format::header::FileKind;
use crate::order;
use crate::sync::{Mutex, MutexGuard, lock};

use scan::ScanTarget;
pub(super) use scan::{End, each_record, put};

/// Most entries in a reader's memory before it looks for a newer index, and what one takes, about.
const REOPEN_ENTRIES: u64 = 1 << 16;
const REOPEN_ENTRY_BYTES: u64 = 64;

/// How often a reader begins again because of what its writer did meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// Does `read` with the control file that `look` finds, both again while a writer beside them is what
/// makes one fail: it removes files that a newer control file does not name, and takes back a batch
/// whose write failed. What a writer does moves on, so an error that comes twice is true.
pub(super) fn beside_writer<T>(
    look: impl Fn() -> Result<Control>,
    mut read: impl FnMut(Control) -> Result<T>,
) -> Result<T> {
    let mut before: Option<(Option<Control>, String)> = None;
    for _ in 1..ATTEMPTS_MAX {
        let looked = look();
        let control = looked.as_ref().ok().cloned();
        match looked.and_then(&mut read) {
            Err(error) if is_damage(&error) => {
                let found = (control, error.to_string());
                if before.as_ref() == Some(&found) {
                    return Err(error);
                }
                before = Some(found);
            }
            outcome => return outcome,
        }
    }
    read(look()?)
}

/// The control file of a store, or of what was made of it since: the pack says so when the file is
/// older than the last clearing.
pub(super) fn read_control(disk: &dyn Disk) -> Result<Control> {
    let control = Control::read(disk)?;
    let names = disk.list("")?;
    let chunks = || names.iter().filter_map(|name| paths::parse_chunk(name));
    // When it has no file left, the clearing that removed them was durable, and nothing came since.
    let is_cleared = chunks().all(|(epoch, ..)| epoch != control.epoch);
    let mut epochs: Vec<u64> = chunks()
        .filter(|(epoch, number, _)| *epoch > control.epoch && *number == 0)
        .map(|(epoch, ..)| epoch)
        .collect();
    order::sort_by(&mut epochs, Ord::cmp);
    while let Some(epoch) = epochs.pop() {
        if let Found::Chunk(opening) = chunk_files::look_for(disk, control.store, epoch, 0)?
            && (is_cleared || chunk_files::is_begun(disk, control.store, epoch)?)
        {
            let Opening { configuration, index, .. } = opening;
            return Ok(Control::empty(control.store, configuration, index, epoch));
        }
    }
    // A later epoch that cannot be read from its beginning is no leftover of a clearing.
    let later = names.iter().filter_map(|name| Some((name, paths::parse_chunk(name)?)));
    let is_later = |(name, (epoch, number, _)): &(&String, (u64, u64, _))| {
        let is_others = || whose::is_of_another_store(disk, control.store, name);
        *epoch > control.epoch && *number > 0 && !is_others()
    };
    let mut later = later.filter(is_later);
    if let Some((name, (epoch, ..))) = later.next() {
        let lost = paths::chunk(epoch, 0);
        return Err(chunk_files::lost(
            &lost,
            format_args!("or was never finished, though {name} is"),
        ));
    }
    Ok(control)
}

impl Store {
    /// Reads what the control file and the pack say into an empty state.
    pub(super) fn load(&mut self, lock_held: Option<Box<dyn Lock>>) -> Result<()> {
        self.add_chunks()?;
        let (last_commit, sequence) = match self.control.last_commit {
            0 => (0, 0),
            last => self.newest_from(last)?,
        };
        let branches = order::map(self.control.branches.iter().cloned());
        *self.state() = State { branches, last_commit, sequence };
        self.end = End::of(&self.control);
        self.verify_place(self.end.place)?;
        // Now that the control file is known to be of this pack: an index that is not is made anew.
        lock(&self.index).open(self.end.place)?;
        self.scan()?;
        let gap = self.expect_no_gap();
        self.unless_past(gap)?;
        self.verify_horizon()?;
        match lock_held {
            Some(lock_held) => self.open_to_write(lock_held)?,
            None => self.expect_epoch()?,
        }
        self.complete_index()?;
        if self.tip.is_none() {
            return Ok(());
        }
        match self.resume_collection() {
            // Its next step says so too, and it can be cancelled; the store is there all the same.
            Err(error) if is_damage(&error) || error.kind() == Kind::Collected => {
                let warning = format!("the collection that is under way cannot go on: {error}");
                lock(&self.index).warn(warning);
                Ok(())
            }
            resumed => resumed,
        }
    }

    /// Adds the chunks that the control file names, and opens the newest.
    fn add_chunks(&mut self) -> Result<()> {
        let Control { store, epoch, .. } = self.control;
        let last = self.control.last().number;
        for row in &self.control.chunks {
            let Row { number, base, length, .. } = *row;
            let chunk = match row.state {
                ChunkState::Whole => {
                    let chunk = Chunk::new(self.pack.cache(), store, epoch, number, base, length);
                    if number != last {
                        chunk.seal(row.chain);
                    }
                    chunk
                }
                _ => Chunk::collected(self.pack.cache(), store, epoch, row),
            };
            self.pack.add_chunk(Arc::new(chunk));
        }
        let chunks = self.pack.chunks();
        let newest = chunks.iter().rev().take(self.pack.files.at_once());
        // The lower folder may be missing, or slow: it is for those who read what is there.
        for chunk in newest.filter(|chunk| chunk.has_file() && !chunk.is_lower()) {
            match self.pack.files.get(chunk) {
                // Who reads what is in it says so.
                Err(error) if self.needs_not(chunk, &error) => {}
                opened => drop(opened?),
            }
        }
        Ok(())
    }

    /// Whether an opening goes on where `error` is met in `chunk`: it needs nothing of what a collection left, and of an old
    /// one nothing that a disk could not read.
    fn needs_not(&self, chunk: &Chunk, error: &Error) -> bool {
        let is_unread = error.kind() == Kind::Io && chunk.number < self.control.checkpoint.chunk;
        is_unread || self.is_past(error) || self.pack.files.is_torn(chunk, error)
    }

    /// The newest commit, at `last` or before it, and the number of the one after it.
    fn newest_from(&self, last: u64) -> Result<(u64, u64)> {
        let Horizon { commit, sequence, .. } = self.control.horizon;
        match self.commit_at(last) {
            // How many there are from the horizon's on nobody can say, but two if it is another.
            Err(error)
                if error.kind() == Kind::Corrupt
                    && commit != 0
                    && last >= commit
                    && self.pack.is_torn(last) =>
            {
                Ok((last, sequence.saturating_add(1 + u64::from(last != commit))))
            }
            Err(error) if self.is_past(&error) => Ok(self.last_whole(last)),
            read => Ok((last, read?.1.sequence.saturating_add(1))),
        }
    }

    /// `Invalid` when the pack has no batch that ends at `place`, `Corrupt` when it is damaged there.
    fn verify_place(&self, place: Place) -> Result<()> {
        if place.position == Position::start() {
            return Ok(());
        }
        let chunk = self.pack.numbered(place.chunk);
        let chunk = chunk.ok_or_else(|| {
            Error::invalid("the pack has nothing where it ends, or that was collected since")
        })?;
        let file = self.pack.files.get(&chunk)?;
        match append::position_after(&*file, chunk.identity, place.before)? {
            Some(found) if found == place.position => Ok(()),
            Some(_) => Err(Error::invalid(format!(
                "{} does not belong to the other files of the store: one of them is of another store \
                 or of another copy; put the right file in its place",
                chunk.path
            ))),
            None => {
                let error =
                    Error::corrupt(&chunk.path, place.before, "a batch", "none that is valid");
                if self.is_past(&error) { Ok(()) } else { Err(error) }
            }
        }
    }

    /// `Corrupt` when no commit is where history is said to begin. One that is damaged, or that the disk does not read, is an
    /// old one: who reads it says so.
    fn verify_horizon(&self) -> Result<()> {
        let Horizon { commit, sequence, .. } = self.control.horizon;
        // One below is looked at when it is read: an opening needs nothing from there.
        if commit == 0 || self.pack.is_lower(commit) {
            return Ok(());
        }
        match self.commit_at(commit) {
            Ok((_, body)) if body.sequence == sequence => return Ok(()),
            Err(error) if error.kind() == Kind::Io => return Ok(()),
            Err(error) if !is_damage(&error) && error.kind() != Kind::Collected => {
                return Err(error);
            }
            Err(_) if self.pack.is_torn(commit) || self.is_damaged_record(commit) => return Ok(()),
            _ => {}
        }
        let expected = format!("a commit of sequence {sequence} at logical offset {commit}");
        Err(Error::corrupt(paths::CONTROL, Position::start().offset, expected, "none"))
    }

    /// Reads forward from the place reached so far, through as many chunks as there are.
    fn scan(&mut self) -> Result<()> {
        let scanned = self.scan_on();
        self.unless_past(scanned)
    }

    fn scan_on(&mut self) -> Result<()> {
        self.scan_chunk()?;
        while self.next_chunk()? {
            self.scan_chunk()?;
        }
        Ok(())
    }

    /// Reads the last chunk to its end.
    fn scan_chunk(&mut self) -> Result<()> {
        if self.end.sealed.is_some() {
            return Ok(());
        }
        let chunk = self.pack.last_chunk();
        let file = self.pack.files.get(&chunk)?;
        let index = Arc::clone(&self.index);
        let mut target = ScanTarget::new(&index, self.end, self.is_read());
        let mut reached = self.end.place.position;
        let scan = append::scan(&*file, chunk.identity, reached, |position, payload| {
            target.apply(&chunk, position, payload)?;
            reached = damaged::after(position, payload);
            Ok(())
        });
        let found = match scan {
            Ok(scan) => scan.end,
            Err(error) if self.is_past(&error) => reached,
            Err(error) => return Err(error),
        };
        let end = target.finish(&self.state, found);
        self.end = end;
        chunk.extend(found.offset);
        if self.end.sealed.is_some() {
            chunk.seal_verified(found.chain);
        }
        let row = self.control.chunks.last_mut().expect("a control file names a chunk");
        (row.length, row.chain) = (found.offset, found.chain);
        Ok(())
    }

    /// Goes on to the chunk after the last one, if there is one.
    fn next_chunk(&mut self) -> Result<bool> {
        let last = self.pack.last_chunk();
        let Control { store, epoch, .. } = self.control;
        let number = last.number + 1;
        let found = chunk_files::look_for(&*self.disk, store, epoch, number)?;
        if matches!(found, Found::Nothing) {
            return Ok(false);
        }
        // The last one was whole before this had a name, but perhaps not yet when it was read.
        self.scan_chunk()?;
        let end = self.end.place;
        let path = paths::chunk(epoch, number);
        if self.end.sealed.is_none() {
            let expected = format!("the end of the chunk, because {path} follows");
            return Err(Error::corrupt(&last.path, end.position.offset, expected, "none"));
        }
        let Found::Chunk(opening) = found else { return Ok(false) };
        let base = last.base + end.position.offset;
        let follows = opening.number == number
            && opening.epoch == epoch
            && (opening.base, opening.chain) == (base, end.position.chain);
        if !follows {
            return Err(Error::invalid(format!(
                "{path} does not continue {}: one of them is of another store or of another copy; put \
                 the right file in its place",
                last.path
            )));
        }
        let start = Place::start(number);
        let length = start.position.offset;
        let chunk = Chunk::new(self.pack.cache(), store, epoch, number, base, length);
        self.pack.add_chunk(Arc::new(chunk));
        let state = ChunkState::Whole;
        self.control.chunks.push(Row { number, count: 1, base, length, chain: 0, state });
        lock(&self.index).next_chunk(end, number);
        self.end = End { place: start, first_commit: 0, sealed: None };
        Ok(true)
    }

    /// `Corrupt` when there are chunks behind the last one that was found, be the next one lost, or there and not
    /// taken for a chunk.
    fn expect_no_gap(&mut self) -> Result<()> {
        let names = self.disk.list("")?;
        let beyond = self.end.place.chunk + 1;
        let is_ours = |name: &&String| match paths::parse_chunk(name) {
            Some((epoch, number, _)) if epoch == self.control.epoch => {
                number <= beyond || !self.is_anothers(name)
            }
            _ => false,
        };
        let ours = names.iter().filter(is_ours).filter_map(|name| paths::parse_chunk(name));
        let Some(highest) = ours.map(|(_, number, _)| number).max() else { return Ok(()) };
        // One that is not finished may be there, and what a writer made meanwhile.
        if highest > self.end.place.chunk + 1 {
            self.scan()?;
        }
        let next = self.end.place.chunk + 1;
        if highest <= next {
            return Ok(());
        }
        let epoch = self.control.epoch;
        let (lost, after) = (paths::chunk(epoch, next), paths::chunk(epoch, highest));
        // Asked of the same list, so that what a writer does meanwhile does not matter.
        if names.contains(&lost) {
            let expected = format!("a first batch, because {after} follows");
            return Err(Error::corrupt(&lost, Position::start().offset, expected, "none"));
        }
        Err(chunk_files::lost(&lost, format_args!("though {after} is")))
    }

    /// Whether the file `name` is of another store; then that is told.
    fn is_anothers(&self, name: &str) -> bool {
        let is_others = whose::is_of_another_store(&*self.disk, self.control.store, name);
        if is_others {
            self.warnings.add(whose::told(&*self.disk, name));
        }
        is_others
    }

    /// `Missing` when a writer has cleared the store meanwhile: the chunk that was not found behind the last
    /// one may be one that it removed.
    fn expect_epoch(&self) -> Result<()> {
        if Control::read_epoch(&*self.disk)? <= self.control.epoch {
            return Ok(());
        }
        let root = self.disk.root();
        Err(Error::missing(format!(
            "the store at {root} was cleared while it was read: read it again"
        )))
    }

    /// `Corrupt` unless all files are there that the control file names. An older control file put back names some
    /// that collections have removed: written again it would lose what says which files took their places.
    fn expect_files(&self) -> Result<()> {
        let names = order::set(self.disk.list("")?);
        let chunks = self.pack.chunks();
        let mut named = chunks.iter().filter(|chunk| chunk.has_file() && !chunk.is_lower());
        let Some(lost) = named.find(|chunk| !names.contains(&chunk.path)) else {
            return Ok(());
        };
        let why = "or control is older than the other files of the store";
        Err(chunk_files::lost(&lost.path, why))
    }

    fn open_to_write(&mut self, lock_held: Box<dyn Lock>) -> Result<()> {
        self.expect_files()?;
        self.make_names_durable()?;
        self.remove_leftovers()?;
        let chunk = self.pack.last_chunk();
        let End { place, first_commit, sealed } = self.end;
        // From where it is known to be durable: what is behind it is made so.
        let checkpoint = self.control.checkpoint;
        let is_in_it = checkpoint.chunk == chunk.number;
        let from = if is_in_it { checkpoint.position } else { Position::start() };
        let each = |_: Position, _: &[u8]| Ok(());
        let append =
            append::AppendFile::open(&*self.disk, &chunk.path, FileKind::Pack, from, each)?;
        if append.end() != place.position {
            return Err(Error::corrupt(&chunk.path, place.position.offset, "the end", "more"));
        }
        chunk.pin(Arc::clone(append.file()));
        let last_commit = self.state().last_commit;
        let last_commit = if last_commit < chunk.base { 0 } else { last_commit };
        let start = Start {
            append,
            lock: lock_held,
            chunk,
            before: place.before,
            first_commit,
            last_commit,
            sealed,
            control: self.control.clone(),
        };
        let (index, state) = (Arc::clone(&self.index), Arc::clone(&self.state));
        let tip = Tip::new(&self.disk, &self.options, start, index, state);
        self.tip = Some(tip);
        self.let_trees_spill();
        Ok(())
    }

    /// Makes durable what names show: a process that died, or whose sync of the folder failed, had perhaps not
    /// done it, and a sync need not save what one before it could not. What is built upon these names from now
    /// on must not be found under those before, whose chunks may be removed next. A control file says what
    /// chunks had names before it.
    fn make_names_durable(&self) -> Result<()> {
        replace::renew(&self.disk, paths::CONTROL)?;
        let checkpoint = self.control.checkpoint.chunk;
        for chunk in self.pack.chunks().iter().filter(|chunk| chunk.number > checkpoint) {
            replace::renew(&self.disk, &chunk.path)?;
        }
        self.disk.sync_directory("")
    }

    /// Removes files in work, chunks that were never finished, and those of before a clearing, as far as it can: nothing
    /// needs their room. All that has a batch was read.
    fn remove_leftovers(&self) -> Result<()> {
        let is_own = |name: &str| {
            let mut unfinished = replace::SUFFIXES.iter().map(|suffix| format!("{name}{suffix}"));
            paths::is_replaced(name) && !unfinished.any(|name| self.is_anothers(&name))
        };
        for name in replace::leftovers(&*self.disk, "", is_own)? {
            self.remove_left(&name);
        }
        let (first, last) = (self.control.chunks[0].number, self.end.place.chunk);
        let names = self.disk.list("")?;
        for name in &names {
            if name == paths::HALF_MADE {
                // Of a removal that was cut off before it began: the store is whole, and it would say that it is not
                // should `control` be lost.
                self.remove_left(name);
            }
            if paths::is_evicted_hashes(name) {
                // Of a process that died while it made the file. It means nothing to anybody.
                remove_quietly(&*self.disk, name);
            }
            let Some((epoch, number, generation)) = paths::parse_chunk(name) else { continue };
            let is_needed = epoch == self.control.epoch
                && (first..=last).contains(&number)
                && self.is_needed(&names, number, generation);
            if is_needed {
                continue;
            }
            let next = [(self.control.epoch, last + 1), (self.control.epoch + 1, 0)];
            let is_others = if generation.is_none() && next.contains(&(epoch, number)) {
                // Had it a whole batch it would not be left over.
                whose::says_it_is_others(&*self.disk, self.control.store, name)
            } else {
                whose::is_others(&*self.disk, self.control.store, name)
            };
            match is_others {
                Ok(false) => match self.is_of_copy((epoch, number, generation)) {
                    Ok(false) => self.remove_left(name),
                    Ok(true) => match whose::set_aside(&*self.disk, name) {
                        Ok(aside) => {
                            self.disk.sync_directory("")?;
                            self.warnings.add(whose::told_aside(name, &aside));
                        }
                        Err(error) => self.tell_left(name, &error),
                    },
                    Err(error) => self.tell_left(name, &error),
                },
                Ok(true) => lock(&self.index).warn(whose::told(&*self.disk, name)),
                // Nothing needs it: it waits until it can be seen whose it is.
                Err(error) => self.tell_left(name, &error),
            }
        }
        Ok(())
    }

    /// Removes what nothing needs, or tells why it stays: that is in nobody's way.
    fn remove_left(&self, name: &str) {
        match self.disk.remove(name) {
            Err(error) if error.kind() != Kind::Missing => self.tell_left(name, &error),
            _ => {}
        }
    }

    fn tell_left(&self, name: &str, error: &Error) {
        self.warnings.add(whose::told_left(name, error));
    }

    /// Whether the whole chunk that has this place, and is not needed, is another than the control file says that there was.
    fn is_of_copy(&self, (epoch, number, generation): (u64, u64, Option<u64>)) -> Result<bool> {
        if cfg!(varvite_js) || epoch != self.control.epoch || generation.is_some() {
            return Ok(false);
        }
        // Of several in one row it has the end of the last.
        let row = self.control.row(number).filter(|row| (row.number, row.count) == (number, 1));
        let Some(row) = row else { return Ok(false) };
        let row = Row { state: ChunkState::Whole, ..*row };
        let chunk = Chunk::collected(self.pack.cache(), self.control.store, epoch, &row);
        chunk.is_of_copy(&*self.disk, self.control.store)
    }

    /// Whether a file of chunk `number`, which is of this epoch, may be what is left of it. Where the file
    /// that the control file names is not among `names`, that is another copy: nothing goes.
    fn is_needed(&self, names: &[String], number: u64, generation: Option<u64>) -> bool {
        let Some(row) = self.control.row(number) else { return false };
        let epoch = self.control.epoch;
        let (right, named) = match row.state {
            ChunkState::Whole => (None, paths::chunk(epoch, number)),
            // It stays as long as that which was moved is not seen.
            ChunkState::Both(sparse) if generation == Some(sparse.generation) => return true,
            ChunkState::Lower | ChunkState::Both(_) => return !self.is_in_lower(number),
            ChunkState::Sparse(SparseFile { generation, .. }) => {
                (Some(generation), paths::sparse_chunk(epoch, row.number, generation))
            }
            ChunkState::Gone => return false,
        };
        row.number == number && generation == right || !names.contains(&named)
    }

    /// Whether chunk `number` is in the lower folder, and the right one.
    fn is_in_lower(&self, number: u64) -> bool {
        let chunk = self.pack.numbered(number).filter(|chunk| chunk.is_lower());
        chunk.is_some_and(|chunk| self.pack.files.get(&chunk).is_ok())
    }

    /// Brings the index up to the end of the pack.
    fn complete_index(&mut self) -> Result<()> {
        let index = Arc::clone(&self.index);
        let mut index = lock(&index);
        // The folder of a store with a checkpoint of commits has had one, durably.
        if !index.was_there && self.control.last_commit != 0 && self.tip.is_some() {
            index.warn("the index was missing, so it is made from the pack".to_owned());
        }
        self.complete(&mut index)
    }

    /// The same for any index: one that does not fit is made again.
    fn complete(&self, index: &mut HashIndex) -> Result<()> {
        match self.catch_up(index) {
            // Made again it would lack the same.
            Err(error) if is_damage(&error) && !self.is_below(&error) => {
                index.warn(format!("the index is made from the pack again: {error}"));
                index.start_again(self.nothing())?;
                self.catch_up(index)
            }
            outcome => outcome,
        }
    }

    /// An index of this store that covers nothing.
    pub(super) fn nothing(&self) -> Covered {
        Covered::nothing(self.control.store, self.control.epoch, self.control.index)
    }

    /// Puts into the index what the pack has after the place that the index has reached. Errors of
    /// damage say that the two do not fit, or that the pack is damaged.
    pub(super) fn catch_up(&self, index: &mut HashIndex) -> Result<()> {
        self.index_rest(index).map_err(|error| {
            if !self.is_below(&error) {
                return error;
            }
            error.context("the index has to be made, and what it lacks is in the lower folder")
        })
    }

    fn index_rest(&self, index: &mut HashIndex) -> Result<()> {
        if let Some(covered) = index.covered() {
            // What it does not know is only an answer when it covers what this pack has.
            self.verify_place(covered)?;
        }
        let chunks = self.pack.chunks();
        let first = chunks[0].number;
        let end = self.place();
        let mut from = index.reached;
        if from.chunk < first {
            from = Place::start(first);
        }
        if (from.chunk, from.position.offset) > (end.chunk, end.position.offset) {
            return Err(Error::invalid("it covers more than the pack has"));
        }
        if from == end {
            return index.reach_end(end);
        }
        let start = chunks.partition_point(|chunk| chunk.number + chunk.numbers <= from.chunk);
        if index.keeps_objects() {
            let mut from = from.position;
            for chunk in chunks[start..].iter().filter(|chunk| chunk.has_file()) {
                if !chunk.is_whole() {
                    self.catch_up_sparse(index, chunk)?;
                    from = Position::start();
                    continue;
                }
                let length =
                    if chunk.number == end.chunk { end.position.offset } else { chunk.end() };
                let file = self.pack.files.get(chunk)?;
                let scan = append::scan(&*file, chunk.identity, from, |position, payload| {
                    each_record(chunk, position, payload, |offset, tag, hash, _| {
                        put(index, tag, hash, offset);
                        Ok(())
                    })?;
                    index.settle_some()
                })?;
                if scan.end.offset < length {
                    return Err(Error::invalid("it does not continue with what the pack has"));
                }
                from = Position::start();
            }
        } else {
            // The commits themselves lead there, without a look at anything else.
            let covered = chunks[start].base + from.position.offset;
            let mut offset = self.newest_commit();
            while offset > covered {
                let (hash, body) = self.commit_at(offset)?;
                // Of one that is there twice the newer record, which was put already, counts.
                let there = index.commits(&hash).get(&hash);
                if !there.is_ok_and(|there| there.is_some_and(|there| there > offset)) {
                    index.put_commit(&hash, offset);
                    index.settle_some()?;
                }
                offset = self.commit_before(&body);
            }
        }
        index.reach_end(end)
    }

    /// Puts into the index what was kept of `chunk`. What is the base of patches alone is no object.
    fn catch_up_sparse(&self, index: &mut HashIndex, chunk: &Arc<Chunk>) -> Result<()> {
        let mut reader = ChunkReader::open(&self.pack, Arc::clone(chunk))?;
        for (offset, is_object) in self.pack.kept_records(chunk)? {
            if is_object {
                let (tag, hash) = reader.named(&self.pack, offset)?;
                put(index, tag, &hash, offset);
                index.settle_some()?;
            }
        }
        Ok(())
    }

    /// The index. One that an error kept from being made again to the end is made first.
    pub(super) fn index(&self) -> Result<MutexGuard<'_, HashIndex>> {
        let mut index = lock(&self.index);
        if index.is_behind() {
            self.expect_below(&index)?;
            index.start_again(self.nothing())?;
            self.catch_up(&mut index)?;
        }
        Ok(index)
    }

    /// The index, with all it has been given in its tables, so that memory does not fill with what an
    /// earlier commit could not give it. Tables whose damage an update meets, or of which a sync
    /// failed, are made again: what they derive from is whole.
    pub(super) fn settled_index(&self) -> Result<MutexGuard<'_, HashIndex>> {
        let mut index = self.index()?;
        if index.has_stopped() {
            self.remake(&mut index, "a sync of it failed")?;
        }
        match index.settle() {
            Err(error) if is_damage(&error) => {
                self.remake(&mut index, &error.to_string())?;
            }
            outcome => outcome?,
        }
        Ok(index)
    }

    /// Sees what was committed since the store was opened or last reloaded. Reads the control file and what is new. Does
    /// nothing for the handle that writes, which always sees its own commits. After an error the handle
    /// stands at a moment between; the next call goes on. A store that is read as it was before a damage is opened anew: whole
    /// where that is no longer in the way.
    pub fn reload(&mut self) -> Result<()> {
        if self.tip.is_some() {
            return Ok(());
        }
        let _span = self.span(Operation::Reload);
        if let Some(history) = &mut self.history {
            return history.reload();
        }
        if !cfg!(varvite_js) && self.damage.is_some() {
            self.read_afresh()?;
            self.publish();
            return Ok(());
        }
        let disk = Arc::clone(&self.disk);
        beside_writer(
            || Control::read(&*disk),
            |control| match self.follow(&control).and_then(|()| self.renew_index()) {
                // What was read before may be what the writer took back since.
                Err(error) if [Kind::Corrupt, Kind::Invalid].contains(&error.kind()) => {
                    self.read_afresh()
                }
                outcome => outcome,
            },
        )?;
        self.publish();
        Ok(())
    }

    /// Reads on up to what `control` and the pack say. What was read when it fails stays, and the next
    /// call goes on from there.
    fn follow(&mut self, control: &Control) -> Result<()> {
        // An older one may have been put back; the pack knows better.
        let is_other = control.store != self.control.store
            || control.epoch > self.control.epoch
            || (control.epoch == self.control.epoch && control.horizon != self.control.horizon)
            || self.has_moved_on(control);
        // Whoever opened the store to write since may have given the last chunk its name anew.
        self.pack.files.renew(&self.pack.last_chunk())?;
        // A batch whose write failed may have been read whole before the writer took it back.
        let is_still = match self.verify_place(self.end.place) {
            Err(error) if !is_damage(&error) => return Err(error),
            outcome => outcome.is_ok(),
        };
        if is_other || !is_still {
            return self.read_afresh();
        }
        self.scan()?;
        // What would follow may have moved since.
        if self.end.sealed.is_some() && self.has_moved_on(&Control::read(&*self.disk)?) {
            return self.read_afresh();
        }
        self.expect_epoch()?;
        self.control.checkpoint = control.checkpoint;
        self.control.cursor = control.cursor;
        self.control.collections = control.collections;
        self.control.is_paused = control.is_paused;
        self.control.pins.clone_from(&control.pins);
        Ok(())
    }

    /// Whether chunks are no longer where a scan from here on looks for them: they went to the lower folder, without which
    /// history is as it was.
    fn has_moved_on(&self, control: &Control) -> bool {
        let rows = control.rows(self.end.place.chunk..u64::MAX);
        control.epoch == self.control.epoch && rows.iter().any(|row| row.state != ChunkState::Whole)
    }

    /// Takes the newest index when memory holds much of what it may have by now.
    fn renew_index(&mut self) -> Result<()> {
        let held = Arc::clone(&self.index);
        {
            let index = lock(&held);
            let most = (self.options.index_bytes / REOPEN_ENTRY_BYTES).min(REOPEN_ENTRIES);
            if index.unsettled() as u64 <= most || index.opened_at == self.control.checkpoint {
                return Ok(());
            }
        }
        let (cache, nothing) = (self.pack.cache(), self.nothing());
        let mut index = HashIndex::closed(&self.disk, &self.options, cache, nothing, true);
        // What this handle was told stays told.
        index.warnings = Arc::clone(&self.warnings);
        index.open(self.control.checkpoint)?;
        // It may be of a checkpoint since the scan, and in a chunk that began since: what it covers is
        // in the pack by now.
        self.follow(&Control::read(&*self.disk)?)?;
        if Arc::ptr_eq(&held, &self.index) {
            self.complete(&mut index)?;
            self.index = Arc::new(Mutex::new(index));
        }
        Ok(())
    }

    /// Other files: they are read afresh, and only then the old ones are let go.
    fn read_afresh(&mut self) -> Result<()> {
        let (cache, disk) = (Arc::clone(self.pack.cache()), Arc::clone(&self.disk));
        let of = (cache, disk, self.options.clone());
        let mut fresh = if !cfg!(varvite_js) && self.damage.is_some() {
            Self::open_to_read(of)?
        } else {
            Self::open_through(of, read_control(&*self.disk)?, None, None)?
        };
        // What this handle was told stays told.
        fresh.warnings.all().into_iter().for_each(|warning| self.warnings.add(warning));
        lock(&fresh.index).warnings = Arc::clone(&self.warnings);
        fresh.warnings = Arc::clone(&self.warnings);
        let readers = std::mem::take(&mut self.readers);
        *self = fresh;
        self.readers = readers;
        Ok(())
    }
}

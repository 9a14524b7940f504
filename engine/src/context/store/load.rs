//! From files to a store: the chunks, what the pack says after the checkpoint, and the index, which
//! is brought up to the end of the pack or, when it does not fit, made again.

use std::sync::Arc;

use super::tip::Tip;
use super::{State, Store};
use crate::context::commit::CommitBody;
use crate::context::control::Control;
use crate::context::hash::Hash;
use crate::context::hash_index::{Covered, HashIndex, is_damage};
use crate::context::node::Load;
use crate::context::observer::Operation;
use crate::context::options::Options;
use crate::context::pack::Chunk;
use crate::context::paths;
use crate::context::record::{self, Tag};
use crate::disk::{Disk, Lock};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position};
use crate::format::header::FileKind;
use crate::sync::{Mutex, MutexGuard, lock};

/// Most entries in a reader's memory before it looks for a newer index, and what one takes, about.
const REOPEN_ENTRIES: u64 = 1 << 16;
const REOPEN_ENTRY_BYTES: u64 = 64;

/// How often a reader begins again because of what its writer did meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// Does `read` with the control file of the store on `disk`, again while a writer beside it is what
/// makes it fail: it removes files that a newer control file does not name, and takes back a batch
/// whose write failed. What a writer does moves on, so an error that comes twice is true.
pub(super) fn beside_writer<T>(
    disk: &dyn Disk,
    mut read: impl FnMut(Control) -> Result<T>,
) -> Result<T> {
    let mut before: Option<(Control, String)> = None;
    for _ in 1..ATTEMPTS_MAX {
        let control = Control::read(disk)?;
        match read(control.clone()) {
            Err(error) if [Kind::Missing, Kind::Corrupt].contains(&error.kind()) => {
                let found = (control, error.to_string());
                if before.as_ref() == Some(&found) {
                    return Err(error);
                }
                before = Some(found);
            }
            outcome => return outcome,
        }
    }
    read(Control::read(disk)?)
}

impl Store {
    /// Reads what the control file and the pack say into an empty state.
    pub(super) fn load(&mut self, lock_held: Option<Box<dyn Lock>>) -> Result<()> {
        for number in 0..self.control.bases.len() {
            let end = match self.control.bases.get(number + 1) {
                Some(next) => next - self.control.bases[number],
                None => self.control.position.offset,
            };
            self.add_chunk(number, self.control.bases[number], end)?;
        }
        self.state.branches = self.control.branches.iter().cloned().collect();
        self.state.last_commit = self.control.last_commit;
        if self.state.last_commit != 0 {
            let last = self.commit_at(self.state.last_commit)?.1.sequence;
            self.state.sequence = last.saturating_add(1);
        }
        self.position = self.control.position;
        match lock_held {
            Some(lock_held) => self.open_to_write(lock_held)?,
            None => self.scan()?,
        }
        self.complete_index()
    }

    /// Adds the file of chunk `number` to the pack, as long as it is known to be.
    fn add_chunk(&mut self, number: usize, base: u64, end: u64) -> Result<()> {
        let path = paths::chunk(self.control.generation, number as u64);
        let (file, header) = append::open_reader(&*self.disk, &path, FileKind::Pack)?;
        let identity =
            paths::chunk_identity(self.control.store, self.control.generation, number as u64);
        if header.store == self.control.store && header.identity != identity {
            return Err(Error::corrupt(
                &path,
                0,
                "the chunk of this number",
                "another chunk of the store: put the right file in its place",
            ));
        }
        if header.store != self.control.store {
            return Err(Error::invalid(format!(
                "{path} belongs to another store: put the right file in its place"
            )));
        }
        self.pack.add_chunk(Chunk::new(base, file, self.pack.cache(), header.identity, end));
        Ok(())
    }

    fn open_to_write(&mut self, lock_held: Box<dyn Lock>) -> Result<()> {
        let last = self.control.bases.len() - 1;
        let base = self.control.bases[last];
        let path = paths::chunk(self.control.generation, last as u64);
        let index = Arc::clone(&self.index);
        let mut index = lock(&index);
        let mut target = ScanTarget::new(&mut index, last, self.position);
        let append = append::AppendFile::open(
            &*self.disk,
            &path,
            FileKind::Pack,
            self.position,
            |position, payload| target.apply(&path, base, position, payload),
        )?;
        target.finish(&mut self.state, last, append.end());
        let follows = append.end() != self.position;
        self.position = append.end();
        let chunk = Arc::clone(&self.pack.chunks()[last]);
        chunk.extend(append.end().offset);
        let tip = Tip::new(append, lock_held, chunk, Arc::clone(&self.index));
        if follows {
            // A process that died may not have synced it, and a commit or a branch that is found there is
            // acknowledged without being written again.
            tip.writer()?.sync(self.pack.meter())?;
        }
        self.tip = Some(tip);
        self.let_trees_spill();
        Ok(())
    }

    /// Reads forward from the place reached so far.
    fn scan(&mut self) -> Result<()> {
        let chunks = self.pack.chunks();
        let last = chunks.len() - 1;
        let chunk = &chunks[last];
        let path = chunk.file.path().to_owned();
        let index = Arc::clone(&self.index);
        let mut index = lock(&index);
        let mut target = ScanTarget::new(&mut index, last, self.position);
        let mut batch = self.last;
        let scan =
            append::scan(&*chunk.file, chunk.identity, self.position, |position, payload| {
                batch = Some(position);
                target.apply(&path, chunk.base, position, payload)
            })?;
        target.finish(&mut self.state, last, scan.end);
        (self.position, self.last) = (scan.end, batch);
        chunk.extend(scan.end.offset);
        Ok(())
    }

    /// Brings the index up to the end of the pack.
    fn complete_index(&mut self) -> Result<()> {
        let index = Arc::clone(&self.index);
        let mut index = lock(&index);
        if !index.is_saved() && self.state.last_commit != 0 && self.tip.is_some() {
            let none = index.warnings().is_empty() && self.control.last_commit != 0;
            if none {
                index.warn("the index was missing, so it is made from the pack".to_owned());
            }
        }
        self.complete(&mut index)
    }

    /// The same for any index: one that does not fit is made again.
    fn complete(&self, index: &mut HashIndex) -> Result<()> {
        match self.catch_up(index) {
            Err(error) if is_damage(&error) => {
                index.warn(format!("the index is made from the pack again: {error}"));
                index.start_again(self.nothing())?;
                self.catch_up(index)
            }
            outcome => outcome,
        }
    }

    /// An index of this store that covers nothing.
    pub(super) fn nothing(&self) -> Covered {
        Covered::nothing(self.control.store, self.control.generation, self.control.index)
    }

    /// Puts into the index what the pack has after the place that the index has reached. Errors of
    /// damage say that the two do not fit, or that the pack is damaged.
    pub(super) fn catch_up(&self, index: &mut HashIndex) -> Result<()> {
        let chunks = self.pack.chunks();
        let (number, mut from) = index.reached;
        let last = chunks.len() - 1;
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let position = self.position();
        let end =
            |number: usize| if number == last { position.offset } else { chunks[number].end() };
        if number > last || from.offset > end(number) {
            return Err(Error::invalid("it covers more than the pack has"));
        }
        if (number, from) == (last, position) {
            return index.reach_end(last as u64, position);
        }
        if index.keeps_objects() {
            for (number, chunk) in chunks.iter().enumerate().skip(number) {
                let path = chunk.file.path().to_owned();
                let scan =
                    append::scan(&*chunk.file, chunk.identity, from, |position, payload| {
                        let start = chunk.base + position.offset + HEAD as u64;
                        each_record(&path, chunk.base, start, payload, |offset, tag, hash, _| {
                            put(index, tag, hash, offset);
                            Ok(())
                        })?;
                        index.settle_some()
                    })?;
                if scan.end.offset < end(number) {
                    return Err(Error::invalid("it does not continue with what the pack has"));
                }
                from = Position::start();
            }
        } else {
            // The commits themselves lead there, without a look at anything else.
            let covered = chunks[number].base + from.offset;
            let mut offset = self.state.last_commit;
            while offset > covered {
                let (hash, body) = self.commit_at(offset)?;
                index.put_commit(&hash, offset);
                index.settle_some()?;
                offset = body.previous;
            }
        }
        index.reach_end(last as u64, position)
    }

    /// The index. One that an error kept from being made again to the end is made first.
    pub(super) fn index(&self) -> Result<MutexGuard<'_, HashIndex>> {
        let mut index = lock(&self.index);
        if index.is_behind() {
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

    /// Sees what was committed since the store was opened or last reloaded. Costs what is new. Does
    /// nothing for the handle that writes, which always sees its own commits. After an error the handle
    /// stands at a moment between; the next call goes on.
    pub fn reload(&mut self) -> Result<()> {
        if self.tip.is_some() {
            return Ok(());
        }
        let _span = self.span(Operation::Reload);
        if let Some(history) = &mut self.history {
            return history.reload();
        }
        let disk = Arc::clone(&self.disk);
        beside_writer(&*disk, |control| {
            match self.follow(control.clone()).and_then(|()| self.renew_index()) {
                // What was read before may be what the writer took back since.
                Err(error) if error.kind() == Kind::Corrupt => self.read_afresh(control),
                outcome => outcome,
            }
        })
    }

    /// Reads on up to what `control` and the pack say. What was read when it fails stays, and the next
    /// call goes on from there.
    fn follow(&mut self, control: Control) -> Result<()> {
        let continues = control.generation == self.control.generation
            && control.store == self.control.store
            && control.bases.starts_with(&self.control.bases);
        if !continues || !self.is_still()? {
            return self.read_afresh(control);
        }
        self.scan()?;
        for number in self.control.bases.len()..control.bases.len() {
            // The chunk before was complete when this one began.
            let (chunks, base) = (self.pack.chunks(), control.bases[number]);
            let before = &chunks[number - 1];
            if before.base + before.end() != base {
                return self.read_afresh(control);
            }
            self.add_chunk(number, base, Position::start().offset)?;
            self.control.bases.push(base);
            (self.position, self.last) = (Position::start(), None);
            lock(&self.index).next_chunk(number as u64);
            self.scan()?;
        }
        self.control = control;
        Ok(())
    }

    /// Takes the newest index when memory holds much of what it may have by now.
    fn renew_index(&mut self) -> Result<()> {
        let held = Arc::clone(&self.index);
        {
            let index = lock(&held);
            let most = (self.options.index_bytes / REOPEN_ENTRY_BYTES).min(REOPEN_ENTRIES);
            if index.unsettled() as u64 <= most || index.opened_at == self.control.checkpoint() {
                return Ok(());
            }
        }
        let (cache, nothing) = (self.pack.cache(), self.nothing());
        let mut index = HashIndex::open(&self.disk, &self.options, cache, nothing, true)?;
        index.opened_at = self.control.checkpoint();
        // It may be of a checkpoint since the scan, and in a chunk that began since: what it covers is
        // in the pack by now.
        self.follow(Control::read(&*self.disk)?)?;
        if Arc::ptr_eq(&held, &self.index) {
            self.complete(&mut index)?;
            self.index = Arc::new(Mutex::new(index));
        }
        Ok(())
    }

    /// Whether the last batch that was read is still there. One whose write failed may have been read
    /// whole before the writer took it back.
    fn is_still(&self) -> Result<bool> {
        let Some(last) = self.last else { return Ok(true) };
        let chunks = self.pack.chunks();
        let chunk = chunks.last().expect("a store has a chunk");
        append::is_still(&*chunk.file, chunk.identity, last, self.position)
    }

    /// Other files: they are read afresh, and only then the old ones are let go.
    fn read_afresh(&mut self, control: Control) -> Result<()> {
        let cache = Some(Arc::clone(self.pack.cache()));
        let options = Options { cache, ..self.options.clone() };
        let fresh = Self::open_with(Arc::clone(&self.disk), options, control, None)?;
        *self = fresh;
        Ok(())
    }
}

/// Where the records of a scan go. The state changes at the end only, so that a scan that fails
/// halfway changed nothing.
struct ScanTarget<'a> {
    /// Place and sequence number of the last commit.
    last: Option<(u64, u64)>,
    /// Branches set, or removed by a hash of zeros.
    references: Vec<(Vec<u8>, Hash)>,
    index: &'a mut HashIndex,
    /// The index stands where the scan begins, so it takes the records as they come.
    together: bool,
}

impl<'a> ScanTarget<'a> {
    fn new(index: &'a mut HashIndex, chunk: usize, from: Position) -> ScanTarget<'a> {
        let together = index.reached == (chunk as u64, from);
        ScanTarget { last: None, references: Vec::new(), index, together }
    }

    /// Takes the records of one batch. Their bytes were verified with the batch.
    fn apply(&mut self, file: &str, base: u64, position: Position, payload: &[u8]) -> Result<()> {
        let start = base + position.offset + HEAD as u64;
        each_record(file, base, start, payload, |offset, tag, hash, body| {
            if self.together {
                put(self.index, tag, hash, offset);
            }
            match tag {
                Tag::Commit => {
                    let body = CommitBody::decode(file, offset - base, offset, body)?;
                    self.last = Some((offset, body.sequence));
                }
                Tag::Reference => self.references.push((body.to_vec(), *hash)),
                _ => {}
            }
            Ok(())
        })?;
        self.index.settle_some()
    }

    fn finish(self, state: &mut State, chunk: usize, end: Position) {
        if let Some((offset, sequence)) = self.last {
            state.last_commit = offset;
            state.sequence = sequence.saturating_add(1);
        }
        for (name, hash) in self.references {
            if hash == [0; 32] {
                state.branches.remove(&name);
            } else {
                state.branches.insert(name, hash);
            }
        }
        if self.together {
            self.index.reached = (chunk as u64, end);
        }
    }
}

fn put(index: &mut HashIndex, tag: Tag, hash: &[u8; 32], offset: u64) {
    match tag {
        Tag::Commit => index.put_commit(hash, offset),
        Tag::Reference => {}
        _ if index.keeps_objects() => index.put_object(hash, offset),
        _ => {}
    }
}

/// Calls `each` with logical offset, tag, hash and body of every record of a batch.
fn each_record(
    file: &str,
    base: u64,
    start: u64,
    payload: &[u8],
    mut each: impl FnMut(u64, Tag, &[u8; 32], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while at < payload.len() {
        let rest = &payload[at..];
        let offset = start + at as u64;
        let place = offset - base;
        let length = record::length(rest).filter(|length| *length <= rest.len() as u64);
        let length = length.ok_or_else(|| {
            Error::corrupt(file, place, "a record within its batch", "a longer one")
        })? as usize;
        let head = record::split(file, place, &rest[..length])?;
        each(offset, head.tag, &head.hash, head.body)?;
        at += length;
    }
    Ok(())
}

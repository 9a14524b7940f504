//! The files of a pack, opened when they are wanted, so many at a time.
//!
//! A chunk is verified when a handle first opens it: store and place by its header, content by the chain
//! that its last batch says. One that was let go is opened again at the next read, which takes no other
//! read. So a pack of any length takes a bounded number of descriptors.

use std::any::Any;
use std::sync::{Arc, OnceLock, Weak};

use super::chunk::{Opening, Seal};
use super::control::Row;
use super::paths::{self, whose};
use super::record::{self, Tag};
use super::sparse::{KeptRecord, Mapping, SparseFile, State};
use crate::cache::Cache;
use crate::context::warnings::Warnings;
use crate::disk::open_files::{OpenFiles, Slot};
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position};
use crate::format::checksum::{crc, crc_append};
use crate::format::hash::combine;
use crate::format::header::{self, FileKind, Header};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// How many files an opening opens, or a quarter of what may be open: so many cost little, and of an
/// epoch that another process clears meanwhile they stay readable.
pub(crate) const FILES_AT_ONCE: usize = 64;

/// One file of the pack.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    /// How many numbers from that on it stands for: a sparse one may have the records of several.
    pub(crate) numbers: u64,
    /// Logical offset of the file's first byte.
    pub(crate) base: u64,
    pub(crate) path: String,
    /// Of the file, part of the checksums of its batches.
    pub(crate) identity: u64,
    /// Its name in the page cache.
    pub(crate) key: u64,
    /// Bytes of the file that belong to the store.
    end: AtomicU64,
    /// Payload checksum of the last batch of a chunk that is whole.
    sealed: OnceLock<u32>,
    /// This handle has seen that the file is the one that it should be.
    verified: AtomicBool,
    pub(crate) state: State,
    /// Logical bytes of one that is not whole.
    length: u64,
    /// Where the records of a sparse one are.
    mapping: OnceLock<Mapping>,
    /// Of one in the lower folder: what recent commits need of it, in a file of the store's own folder.
    pub(crate) above: Option<Arc<Chunk>>,
    /// Its mapping could not be read, and no other file has taken its place: it is not asked for again.
    pub(crate) is_lost: AtomicBool,
    slot: Arc<Slot>,
}

impl Chunk {
    /// A chunk that is not open, of which `end` bytes belong to the store.
    pub(crate) fn new(
        cache: &Cache,
        store: u64,
        epoch: u64,
        number: u64,
        base: u64,
        end: u64,
    ) -> Chunk {
        Chunk {
            epoch,
            number,
            numbers: 1,
            base,
            path: paths::chunk(epoch, number),
            identity: paths::chunk_identity(store, epoch, number),
            key: combine(cache.join(), base),
            end: AtomicU64::new(end),
            sealed: OnceLock::new(),
            verified: AtomicBool::new(false),
            state: State::Whole,
            length: 0,
            mapping: OnceLock::new(),
            above: None,
            is_lost: AtomicBool::new(false),
            slot: Arc::default(),
        }
    }

    /// What a collection left of it, or where it was moved, as `row` says, which has the checksum of its last batch.
    pub(crate) fn collected(cache: &Cache, store: u64, epoch: u64, row: &Row) -> Chunk {
        let Row { number, count, base, length, chain, state } = *row;
        let mut chunk = Chunk::new(cache, store, epoch, number, base, length);
        if let State::Sparse(SparseFile { generation, bytes, .. }) = state {
            chunk.path = paths::sparse_chunk(epoch, number, generation);
            chunk.identity = paths::sparse_identity(store, epoch, number, generation);
            chunk.end = AtomicU64::new(bytes);
        } else if state == State::Gone {
            chunk.end = AtomicU64::new(0);
        } else if let State::Both(sparse) = state {
            let row = Row { state: State::Sparse(sparse), ..*row };
            chunk.above = Some(Arc::new(Chunk::collected(cache, store, epoch, &row)));
        }
        (chunk.state, chunk.length, chunk.numbers) = (state, length, count);
        chunk.seal(chain);
        chunk
    }

    /// The same chunk, for another pack over the same files, which verifies it again. Its pages are others.
    pub(crate) fn again(&self, cache: &Cache) -> Chunk {
        Chunk {
            epoch: self.epoch,
            number: self.number,
            numbers: self.numbers,
            base: self.base,
            path: self.path.clone(),
            identity: self.identity,
            key: combine(cache.join(), self.base),
            end: AtomicU64::new(self.end()),
            sealed: self.sealed.clone(),
            verified: AtomicBool::new(false),
            state: self.state,
            length: self.length,
            mapping: OnceLock::new(),
            above: self.above.as_ref().map(|above| Arc::new(above.again(cache))),
            is_lost: AtomicBool::new(false),
            slot: Arc::default(),
        }
    }

    /// Notes that no place of a record can be learned from its file, as `error` says.
    pub(crate) fn note_lost(&self, error: &Error) {
        if is_lost(error) && self.mapping().is_none() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it has all its records.
    pub(crate) fn is_whole(&self) -> bool {
        self.state == State::Whole || self.is_lower()
    }

    /// Whether its file is in the lower folder.
    pub(crate) fn is_lower(&self) -> bool {
        self.state.is_lower()
    }

    /// What of it is in the store's own folder.
    pub(crate) fn own(self: &Arc<Chunk>) -> Option<Arc<Chunk>> {
        match self.state {
            State::Gone => None,
            _ if self.is_lower() => self.above.clone(),
            _ => Some(Arc::clone(self)),
        }
    }

    /// Whether it has a file.
    pub(crate) fn has_file(&self) -> bool {
        self.state != State::Gone
    }

    /// Logical offset of the chunk after it, if it has ended.
    pub(crate) fn logical_end(&self) -> u64 {
        self.base + if self.is_whole() { self.end() } else { self.length }
    }

    /// Where the records of a sparse one are, once [`Files::get`] has opened it.
    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        self.mapping.get()
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Where records end, in a file that was opened: behind them a sparse one has its mapping.
    pub(crate) fn records_end(&self) -> u64 {
        self.mapping().map_or_else(|| self.end(), Mapping::records_end)
    }

    /// Lets readers see bytes up to `end`.
    pub(crate) fn extend(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }

    /// It is whole, and `chain` the checksum of its last batch, as the control file says.
    pub(crate) fn seal(&self, chain: u32) {
        let _ = self.sealed.set(chain);
    }

    /// The same, as this handle has read or written it to its end.
    pub(crate) fn seal_verified(&self, chain: u32) {
        self.seal(chain);
        self.verified.store(true, Ordering::Release);
    }

    /// The checksum of the last batch of a chunk that is whole.
    pub(crate) fn sealed(&self) -> Option<u32> {
        self.sealed.get().copied()
    }

    /// It is the one that is appended to: its file stays open until [`Files::count`].
    pub(crate) fn pin(&self, file: Arc<dyn File>) {
        self.slot.pin(file);
    }

    /// Whether the file in the folder of `disk` that has its name, and says that it is this chunk of `store`, is whole and
    /// another all the same: a copy of the store, which went on by itself, has made it.
    pub(crate) fn is_of_copy(&self, disk: &dyn Disk, store: u64) -> Result<bool> {
        if cfg!(varvite_js) || whose::is_others(disk, store, &self.path)? {
            return Ok(false);
        }
        let Some(file) = open_if_there(disk, &self.path)? else { return Ok(false) };
        if let State::Sparse(expected) = self.state {
            return match Mapping::of_any(&*file, self.identity, expected)? {
                Some((mapping, last, true)) => {
                    Ok(self.ends_otherwise(&*file, store, &mapping, last))
                }
                found => Ok(found.is_some()),
            };
        }
        let Some(chain) = self.sealed().filter(|chain| *chain != 0) else { return Ok(false) };
        match seal_of(&*file, &self.path, self.identity, file.len()?) {
            Err(error) if error.kind() == Kind::Corrupt => Ok(self.goes_on_in(&*file)),
            sealed => sealed.map(|(_, found)| found != chain),
        }
    }

    /// Whether `file`, which has the chunk's name, is whole, and one that has not ended. In the lower folder none is.
    fn goes_on_in(&self, file: &dyn File) -> bool {
        let scan = append::scan(file, self.identity, Position::start(), |_, _| Ok(()));
        let is_whole = |scan: append::Scan| {
            scan.end.sequence > 1 && file.len().is_ok_and(|length| length == scan.end.offset)
        };
        !self.is_lower() && scan.is_ok_and(is_whole)
    }

    /// Whether what the sparse `file` has of the chunk's end, its `last` record, is whole, and says of all that the chunk had
    /// something else than the control file. Where records are at the same places in two copies of a store, nothing else of their mappings differs.
    fn ends_otherwise(
        &self,
        file: &dyn File,
        store: u64,
        mapping: &Mapping,
        last: Option<KeptRecord>,
    ) -> bool {
        // A repair knows no checksum of what it has found, and in a browser nobody gets at the files.
        let Some(chain) = self.sealed().filter(|chain| !cfg!(varvite_js) && *chain != 0) else {
            return false;
        };
        // Nobody needs the end to read the others, so what cannot be read of it keeps nobody from opening the chunk.
        let Some(last) = last else { return false };
        let mut bytes = [0; Seal::RECORD as usize];
        let fits = last.place + Seal::RECORD <= mapping.records_end();
        let is_read = |read: usize| read == Seal::RECORD as usize;
        if !fits || !file.read_at(last.place, &mut bytes).is_ok_and(is_read) {
            return false;
        }
        let offset = self.base.saturating_add(last.distance);
        let seal = match record::take(&self.path, last.place, store, offset, &bytes) {
            Ok(record) if record.tag == Tag::Seal => {
                Seal::decode(&self.path, last.place, record.body)
            }
            // Nobody needs it to read the others.
            _ => return false,
        };
        seal.is_ok_and(|seal| crc_append(seal.chain, &bytes) != chain)
    }

    /// Opens its file in the folder of `disk`, and verifies it the first time.
    pub(super) fn open(&self, disk: &dyn Disk, store: u64) -> Result<Arc<dyn File>> {
        if self.verified.load(Ordering::Acquire) {
            return disk.open(&self.path, Mode::Read, Access::Buffered);
        }
        if let State::Sparse(expected) = self.state {
            let (file, header) = append::open_reader(disk, &self.path, FileKind::Sparse)?;
            expect_place(&self.path, &header, store, self.identity)?;
            let (mapping, last) = Mapping::read_with_last(&*file, self.identity, expected)?;
            if self.ends_otherwise(&*file, store, &mapping, last) {
                return Err(of_copy(&self.path));
            }
            let _ = self.mapping.set(mapping);
            self.verified.store(true, Ordering::Release);
            return Ok(file);
        }
        let (file, header) = append::open_reader(disk, &self.path, FileKind::Pack)?;
        expect_place(&self.path, &header, store, self.identity)?;
        if let Some(chain) = self.sealed() {
            let end = self.end();
            let last = end.saturating_sub(Seal::BATCH);
            let found = append::position_after(&*file, self.identity, last)?;
            let Some(found) = found.filter(|found| found.offset == end) else {
                return Err(Error::corrupt(
                    &self.path,
                    last,
                    "the end of the chunk",
                    "other bytes",
                ));
            };
            if found.chain != chain {
                return Err(of_copy(&self.path));
            }
            self.verified.store(true, Ordering::Release);
        }
        Ok(file)
    }
}

impl Chunk {
    /// The same of a whole one that has ended, with a look at its opening and its end: `Corrupt` where either is damaged.
    pub(super) fn open_at_ends(&self, disk: &dyn Disk, store: u64) -> Result<Arc<dyn File>> {
        let file = self.open(disk, store)?;
        if first_batch(&*file, self.identity)?.is_none() {
            let place = Position::start().offset;
            let expected = "the opening of the chunk";
            return Err(Error::corrupt(&self.path, place, expected, "other bytes"));
        }
        seal_of(&*file, &self.path, self.identity, self.end())?;
        Ok(file)
    }
}

/// Opens a chunk that is in the lower folder. `Missing` without the folder or the file.
pub(super) fn open_lower(
    lower: Option<&Arc<dyn Disk>>,
    chunk: &Chunk,
    store: u64,
) -> Result<Arc<dyn File>> {
    let Some(lower) = lower else {
        return Err(Error::missing(format!(
            "{} was moved to the lower folder of the store, which was not given: open the store with it, commands \
             with --lower",
            chunk.path
        )));
    };
    let opened = chunk.open(&**lower, store);
    opened.map_err(|error| match error.kind() {
        Kind::Missing => Error::missing(format!(
            "{} is not in the lower folder {}: give the folder that has it, or put it back from a copy",
            chunk.path,
            lower.root()
        )),
        _ => error.context(format_args!("the lower folder {}", lower.root())),
    })
}

/// `Invalid` when `header` is that of a file of another store, `Corrupt` when it is of another chunk.
fn expect_place(path: &str, header: &Header, store: u64, identity: u64) -> Result<()> {
    if header.store != store {
        return Err(foreign(path));
    }
    if header.identity != identity {
        return Err(Error::corrupt(
            path,
            0,
            "the chunk of this number",
            "another chunk of the store: put the right file in its place",
        ));
    }
    Ok(())
}

/// The chunk at `path` is lost, as `why` says.
pub(crate) fn lost(path: &str, why: impl std::fmt::Display) -> Error {
    Error::of_file(Kind::Corrupt, path, format_args!("is not there, {why}"))
        .advised("put it back from a copy, or see what `varvite repair` keeps")
}

/// The same for an error of a disk that has not the file of a chunk which the control file names; another as it is.
pub(crate) fn or_lost(error: Error) -> Error {
    let name = error.file().and_then(|file| file.rsplit(['/', '\\']).next());
    let is_chunk = name.is_some_and(|name| paths::parse_chunk(name).is_some());
    match error.file() {
        Some(file) if error.kind() == Kind::Missing && is_chunk => {
            lost(file, "though the store has it")
        }
        _ => error,
    }
}

/// Whether the error of a file above says that it is not there, damaged, or another store's: all of it is below as well.
pub(crate) fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), Kind::Missing | Kind::Corrupt | Kind::Invalid)
}

fn foreign(path: &str) -> Error {
    Error::invalid(format!(
        "{path} belongs to another store: move it out of this folder, and put the right file in its place if there is one"
    ))
}

fn of_copy(path: &str) -> Error {
    Error::invalid(format!(
        "{path} belongs to another store, or to a copy of this one that went on by itself: put the right file in its place, \
         and keep this one, which may be the only one that its owner has"
    ))
}

/// Who holds the lock of a store, and what is told of it.
type Keeper = (Weak<dyn Any + Send + Sync>, Arc<Warnings>);

/// The files of a pack that are open.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    /// The lower folder, if the host gave one.
    lower: Option<Arc<dyn Disk>>,
    store: u64,
    open: OpenFiles,
    /// Files to remove when nobody can read them any more.
    doomed: Mutex<Vec<String>>,
    /// Who holds the store's lock: without it the folder may be another's by then.
    keeper: Mutex<Option<Keeper>>,
}

impl Files {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        lower: Option<Arc<dyn Disk>>,
        store: u64,
        most: Option<usize>,
    ) -> Files {
        let (open, doomed) = (OpenFiles::new(&*disk, most), Mutex::new(Vec::new()));
        Files { disk, lower, store, open, doomed, keeper: Mutex::new(None) }
    }

    /// The lower folder, if the host gave one.
    pub(crate) fn lower(&self) -> Option<&Arc<dyn Disk>> {
        if cfg!(varvite_js) { None } else { self.lower.as_ref() }
    }

    /// The identity of the store.
    pub(super) fn store(&self) -> u64 {
        self.store
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The same, for another owner.
    pub(crate) fn shared_disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// How many files an opening opens at once.
    pub(crate) fn at_once(&self) -> usize {
        FILES_AT_ONCE.min(self.open.most().div_ceil(4))
    }

    /// The file of `chunk`, open.
    #[inline]
    pub(crate) fn get(&self, chunk: &Arc<Chunk>) -> Result<Arc<dyn File>> {
        let open = || {
            if chunk.is_lower() {
                return open_lower(self.lower(), chunk, self.store);
            }
            chunk.open(&*self.disk, self.store)
        };
        // Whoever opens it checks it.
        self.open.get(&chunk.slot, open, |_| Ok(()))
    }

    /// Whether `error`, of `chunk`, says that of a file that a collection has made header or mapping are damaged, or that the
    /// disk does not read them: who
    /// reads what is in it needs them, and an opening does not. One that is whole, and another than the control file says, is
    /// of another copy of the store: not of that.
    pub(crate) fn is_torn(&self, chunk: &Chunk, error: &Error) -> bool {
        let State::Sparse(expected) = chunk.state else { return false };
        if error.kind() == Kind::Io {
            return true;
        }
        // In a browser nobody gets at the files.
        if error.kind() != Kind::Corrupt || cfg!(varvite_js) {
            return error.kind() == Kind::Corrupt;
        }
        let Ok(Some(file)) = open_if_there(&*self.disk, &chunk.path) else { return false };
        let found = Mapping::of_any(&*file, chunk.identity, expected);
        found.is_ok_and(|found| found.is_none_or(|(.., is_expected)| is_expected))
    }

    /// Reads `chunk`, if its file is open, by the file that has its name now. Where that is none of this chunk,
    /// or there is none, the open one has all that there was.
    pub(crate) fn renew(&self, chunk: &Arc<Chunk>) -> Result<()> {
        if chunk.slot.open_file().is_none() {
            return Ok(());
        }
        match chunk.open(&*self.disk, self.store) {
            Ok(file) => chunk.slot.renew(file),
            Err(error) if matches!(error.kind(), Kind::Corrupt | Kind::Invalid | Kind::Missing) => {
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The open file of `chunk` counts, and others make room.
    pub(crate) fn count(&self, chunk: &Arc<Chunk>) {
        self.open.count(&chunk.slot);
    }

    /// The opening of `chunk`, which nothing but scans read. `Corrupt` when it is not what it was.
    pub(crate) fn read_opening(&self, chunk: &Arc<Chunk>) -> Result<Opening> {
        let place = Position::start().offset;
        let expected = "the opening of the chunk";
        let file = self.get(chunk)?;
        let Some(payload) = first_batch(&*file, chunk.identity)? else {
            return Err(Error::corrupt(&chunk.path, place, expected, "other bytes"));
        };
        let found = opening(&chunk.path, &payload)?;
        if (found.number, found.base) != (chunk.number, chunk.base) {
            return Err(Error::corrupt(&chunk.path, place, expected, "that of another"));
        }
        Ok(found)
    }

    /// The end of `chunk`, if it has ended. `Corrupt` when what it says of the file is not so.
    pub(crate) fn read_end(&self, chunk: &Arc<Chunk>) -> Result<Option<Seal>> {
        let Some(chain) = chunk.sealed() else { return Ok(None) };
        let (end, file) = (chunk.end(), self.get(chunk)?);
        let (seal, found) = seal_of(&*file, &chunk.path, chunk.identity, end)?;
        if found != chain {
            let place = end.saturating_sub(Seal::BATCH);
            return Err(Error::corrupt(&chunk.path, place, "the end of the chunk", "other bytes"));
        }
        Ok(Some(seal))
    }

    /// Of a file that an opening has removed, or another process, while a tree or a reader of before had it closed.
    pub(super) fn cleared(&self) -> Error {
        Error::missing(format!(
            "what is asked for went when the store at {} was cleared: check out a commit of what it holds now, in \
             a reader after `reload`",
            self.disk.root()
        ))
    }

    /// Removes the files at `paths` once the last tree that may read them is gone, if `keeper`, who holds
    /// the store's lock, is there still; else the next opening does. What stays is told to `warnings`.
    pub(crate) fn doom(
        &self,
        keeper: Weak<dyn Any + Send + Sync>,
        warnings: &Arc<Warnings>,
        paths: impl IntoIterator<Item = String>,
    ) {
        *lock(&self.keeper) = Some((keeper, Arc::clone(warnings)));
        lock(&self.doomed).extend(paths);
    }

    /// How many files are open, that which is appended to apart.
    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        self.open.open_count()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let Some((keeper, warnings)) = lock(&self.keeper).take() else { return };
        // Kept until all are removed.
        let Some(_keeper) = keeper.upgrade() else { return };
        for path in std::mem::take(&mut *lock(&self.doomed)) {
            // A file that stays is removed when the store is next opened, unless it is another's.
            if matches!(whose::is_others(&*self.disk, self.store, &path), Ok(false))
                && let Err(error) = self.disk.remove(&path)
            {
                warnings.add(whose::told_left(&path, &error));
            }
        }
    }
}

/// What is at the end of the chunk in `file`, which should be at byte `end`, and the checksum of that batch. `Corrupt` when
/// what it says of the file is not so.
pub(super) fn seal_of(file: &dyn File, path: &str, identity: u64, end: u64) -> Result<(Seal, u32)> {
    let place = end.saturating_sub(Seal::BATCH);
    let corrupt = || Error::corrupt(path, place, "the end of the chunk", "other bytes");
    let found = append::position_after(file, identity, place)?;
    let found = found.filter(|found| found.offset == end).ok_or_else(corrupt)?;
    let mut payload = vec![0; Seal::BATCH as usize - HEAD];
    file.read_exact_at(place + HEAD as u64, &mut payload)?;
    let record = record::split(path, place + HEAD as u64, &payload)?;
    if record.tag != Tag::Seal || record.length != payload.len() {
        return Err(corrupt());
    }
    let seal = Seal::decode(path, place, record.body)?;
    let is_right = seal.length == end
        && seal.sequence.wrapping_add(1) == found.sequence
        && crc_append(seal.chain, &payload) == found.chain;
    if is_right { Ok((seal, found.chain)) } else { Err(corrupt()) }
}

/// What is found where the next chunk would be.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    /// A file whose first batch is not whole: nothing in it was ever durable.
    Unfinished,
    Chunk(Opening),
}

/// Looks for chunk `number`. `Corrupt` when what is there was durable once, `Invalid` when it is of
/// another store.
pub(crate) fn look_for(disk: &dyn Disk, store: u64, epoch: u64, number: u64) -> Result<Found> {
    let path = paths::chunk(epoch, number);
    // Not asked for first: a writer that clears the store may remove it meanwhile.
    let Some(file) = open_if_there(disk, &path)? else { return Ok(Found::Nothing) };
    look_in(&*file, &path, store, paths::chunk_identity(store, epoch, number))
}

/// The same in `file`, which has the name of the chunk.
pub(super) fn look_in(file: &dyn File, path: &str, store: u64, identity: u64) -> Result<Found> {
    let mut bytes = [0; header::LENGTH];
    let found = file.read_at(0, &mut bytes)?;
    let header = Header::expect(path, &bytes[..found], FileKind::Pack);
    if header.as_ref().is_err_and(|error| error.kind() == Kind::Version) {
        // What another release wrote is not taken for what a crash left, whatever its first batch is.
        return Err(header.expect_err("as just seen"));
    }
    if let Ok(header) = &header {
        expect_place(path, header, store, identity)?;
    }
    match first_batch(file, identity)? {
        Some(payload) => {
            header?;
            opening(path, &payload).map(Found::Chunk)
        }
        None if found < bytes.len() => Ok(Found::Unfinished),
        None => {
            // `Corrupt` when a later batch says that this one had been synced.
            append::scan(file, identity, Position::start(), |_, _| Ok(()))?;
            Ok(Found::Unfinished)
        }
    }
}

pub(super) fn open_if_there(disk: &dyn Disk, path: &str) -> Result<Option<Arc<dyn File>>> {
    match disk.open(path, Mode::Read, Access::Buffered) {
        Err(error) if error.kind() == Kind::Missing => Ok(None),
        opened => opened.map(Some),
    }
}

/// Whether the first chunk of an epoch is there and has more than its first batch.
pub(crate) fn is_begun(disk: &dyn Disk, store: u64, epoch: u64) -> Result<bool> {
    let Some(file) = open_if_there(disk, &paths::chunk(epoch, 0))? else { return Ok(false) };
    let identity = paths::chunk_identity(store, epoch, 0);
    let first = append::position_after(&*file, identity, Position::start().offset)?;
    let Some(first) = first else { return Ok(false) };
    Ok(append::position_after(&*file, identity, first.offset)?.is_some())
}

/// The payload of the first batch of a file, if it is whole; it may be longer than an opening.
fn first_batch(file: &dyn File, identity: u64) -> Result<Option<Vec<u8>>> {
    let start = Position::start().offset;
    let Some(end) = append::position_after(file, identity, start)? else { return Ok(None) };
    if end.sequence != 1 {
        return Ok(None);
    }
    let mut payload = vec![0; (end.offset - start) as usize - HEAD];
    file.read_exact_at(start + HEAD as u64, &mut payload)?;
    Ok((crc(&payload) == end.chain).then_some(payload))
}

/// The opening in the payload of a first batch.
fn opening(path: &str, payload: &[u8]) -> Result<Opening> {
    let place = Position::start().offset + HEAD as u64;
    let record = record::split(path, place, payload)?;
    if record.tag != Tag::Opening || record.length != payload.len() {
        let found = format!("{:?}", record.tag);
        return Err(Error::corrupt(path, place, "the record that begins a chunk", found));
    }
    Opening::decode(path, place, record.body)
}

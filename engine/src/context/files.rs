//! The files of a pack, opened when they are wanted, so many at a time.
//!
//! A chunk is verified when a handle first opens it: store and place by its header, content by the chain
//! that its last batch says. One that was let go is opened again at the next read, which takes no other
//! read. So a pack of any length takes a bounded number of descriptors.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use super::chunk::{Opening, Seal};
use super::paths;
use super::record::{self, Tag};
use crate::cache::Cache;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::append::{self, HEAD, Position};
use crate::format::checksum::crc;
use crate::format::hash::combine;
use crate::format::header::{self, FileKind, Header};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// The most files of a pack that are open at a time, the one that is appended to apart: 8 GiB in chunks
/// of the usual length, and half of the 1,024 descriptors that most systems give a process. Reads that
/// are spread over more open a file each, which costs less than the read; longer chunks reach further.
pub(crate) const FILES_MAX: usize = 512;

/// How many of them an opening opens: so many cost little, and of an epoch that another process clears
/// meanwhile they stay readable.
pub(crate) const FILES_AT_ONCE: usize = 64;

/// One file of the pack.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) number: u64,
    /// Logical offset of the file's first byte.
    pub(crate) base: u64,
    pub(crate) path: String,
    /// Of the file, part of the checksums of its batches.
    pub(crate) identity: u64,
    /// Its name in the page cache.
    pub(crate) key: u64,
    /// Bytes of it that belong to the store.
    end: AtomicU64,
    /// Payload checksum of the last batch of a chunk that is whole.
    sealed: OnceLock<u32>,
    /// This handle has seen that the file is the one that it should be.
    verified: AtomicBool,
    /// Nothing in it was kept, so there is no file.
    pub(crate) is_gone: bool,
    file: Mutex<Option<Arc<dyn File>>>,
    /// It was read since the hand passed.
    used: AtomicBool,
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
            number,
            base,
            path: paths::chunk(epoch, number),
            identity: paths::chunk_identity(store, epoch, number),
            key: combine(cache.join(), base),
            end: AtomicU64::new(end),
            sealed: OnceLock::new(),
            verified: AtomicBool::new(false),
            is_gone: false,
            file: Mutex::new(None),
            used: AtomicBool::new(true),
        }
    }

    /// The same chunk, for another pack over the same files, which verifies it again. Its pages are others.
    pub(crate) fn again(&self, cache: &Cache) -> Chunk {
        Chunk {
            number: self.number,
            base: self.base,
            path: self.path.clone(),
            identity: self.identity,
            key: combine(cache.join(), self.base),
            end: AtomicU64::new(self.end()),
            sealed: self.sealed.clone(),
            verified: AtomicBool::new(false),
            is_gone: self.is_gone,
            file: Mutex::new(None),
            used: AtomicBool::new(false),
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
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
        *lock(&self.file) = Some(file);
    }

    fn open(&self, disk: &dyn Disk, store: u64) -> Result<Arc<dyn File>> {
        if self.verified.load(Ordering::Acquire) {
            return disk.open(&self.path, Mode::Read, Access::Buffered);
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
                return Err(foreign(&self.path));
            }
            self.verified.store(true, Ordering::Release);
        }
        Ok(file)
    }
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

fn foreign(path: &str) -> Error {
    Error::invalid(format!("{path} belongs to another store: put the right file in its place"))
}

/// The files of a pack that are open.
#[derive(Debug)]
pub(crate) struct Files {
    disk: Arc<dyn Disk>,
    store: u64,
    /// Those that may be closed, in the order of the hand.
    open: Mutex<VecDeque<Arc<Chunk>>>,
    /// Files to remove when nobody can read them any more.
    doomed: Mutex<Vec<String>>,
    /// Who holds the store's lock: without it the folder may be another's by then.
    keeper: Mutex<Option<Weak<dyn Any + Send + Sync>>>,
}

impl Files {
    pub(crate) fn new(disk: Arc<dyn Disk>, store: u64) -> Files {
        let (open, doomed) = (Mutex::new(VecDeque::new()), Mutex::new(Vec::new()));
        Files { disk, store, open, doomed, keeper: Mutex::new(None) }
    }

    /// The file of `chunk`, open.
    #[inline]
    pub(crate) fn get(&self, chunk: &Arc<Chunk>) -> Result<Arc<dyn File>> {
        if let Some(file) = &*lock(&chunk.file) {
            chunk.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(file));
        }
        let file = match chunk.open(&*self.disk, self.store) {
            // Perhaps the process has no descriptor left: what else it opens is not known here.
            Err(error) if error.kind() == Kind::Io && self.let_go() => {
                chunk.open(&*self.disk, self.store)?
            }
            opened => opened?,
        };
        if lock(&chunk.file).replace(Arc::clone(&file)).is_none() {
            self.count(chunk);
        }
        Ok(file)
    }

    /// Closes half of the files, if they are many.
    fn let_go(&self) -> bool {
        let mut open = lock(&self.open);
        if open.len() < FILES_AT_ONCE {
            return false;
        }
        let half = open.len() / 2;
        open.drain(..half).for_each(|chunk| *lock(&chunk.file) = None);
        true
    }

    /// The open file of `chunk` counts, and others make room.
    pub(crate) fn count(&self, chunk: &Arc<Chunk>) {
        let mut open = lock(&self.open);
        open.push_back(Arc::clone(chunk));
        while open.len() > FILES_MAX {
            let oldest = open.pop_front().expect("there are more than none");
            if oldest.used.swap(false, Ordering::Relaxed) {
                open.push_back(oldest);
            } else {
                *lock(&oldest.file) = None;
            }
        }
    }

    /// `Corrupt` unless the opening of `chunk`, which nothing but scans read, is what it was.
    pub(crate) fn check_opening(&self, chunk: &Arc<Chunk>) -> Result<()> {
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
        Ok(())
    }

    /// Removes the files at `paths` once the last tree that may read them is gone, if `keeper`, who holds
    /// the store's lock, is there still; else the next opening does.
    pub(crate) fn doom(
        &self,
        keeper: Weak<dyn Any + Send + Sync>,
        paths: impl IntoIterator<Item = String>,
    ) {
        *lock(&self.keeper) = Some(keeper);
        lock(&self.doomed).extend(paths);
    }

    /// How many files are open, that which is appended to apart.
    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        lock(&self.open).len()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let keeper = lock(&self.keeper).take();
        // Kept until all are removed.
        let Some(_keeper) = keeper.and_then(|keeper| keeper.upgrade()) else { return };
        for path in std::mem::take(&mut *lock(&self.doomed)) {
            // A file that stays is removed when the store is next opened.
            let _ = self.disk.remove(&path);
        }
    }
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
    let mut bytes = [0; header::LENGTH];
    let found = file.read_at(0, &mut bytes)?;
    let header = Header::expect(&path, &bytes[..found], FileKind::Pack);
    let identity = paths::chunk_identity(store, epoch, number);
    if let Ok(header) = &header {
        expect_place(&path, header, store, identity)?;
    }
    match first_batch(&*file, identity)? {
        Some(payload) => {
            header?;
            opening(&path, &payload).map(Found::Chunk)
        }
        None if found < bytes.len() => Ok(Found::Unfinished),
        None => {
            // `Corrupt` when a later batch says that this one had been synced.
            append::scan(&*file, identity, Position::start(), |_, _| Ok(()))?;
            Ok(Found::Unfinished)
        }
    }
}

fn open_if_there(disk: &dyn Disk, path: &str) -> Result<Option<Arc<dyn File>>> {
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

/// The payload of the first batch of a file, if it is whole.
fn first_batch(file: &dyn File, identity: u64) -> Result<Option<Vec<u8>>> {
    let start = Position::start().offset;
    let Some(end) = append::position_after(file, identity, start)? else { return Ok(None) };
    if end.sequence != 1 || end.offset != start + Opening::BATCH {
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

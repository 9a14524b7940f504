//! Files that are open to be read, so many at a time: those that were not used for longest are closed, and
//! opened again at their next use.
//!
//! A process may have a limited number of files open, and a store may have any number of them. So whoever
//! keeps files puts each into a [`Slot`], and all slots of a process that take its descriptors share one
//! list, unless a store is told to keep to a number of its own. Rules:
//! - what is not durable yet is **pinned**: it stays open until it is, since the system tells of lost writes
//!   only who has the file open. Pinned files count too, and whoever writes keeps them few;
//! - who is given a file holds it as long as he reads, also when it is closed here meanwhile;
//! - a file that was opened again may be another by then: its owner says what to check of it.

use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, OnceLock, Weak};

use super::{Disk, File};
use crate::error::{Kind, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};

/// How many files stay open on a disk that does not say how many may be.
pub(crate) const FILES_MAX: usize = 512;

/// So many descriptors of the process are for others, or half of them where there are few: files in the
/// making, locks, logs, reads of files that were closed meanwhile, and all that the host has.
const RESERVE: u64 = 256;

/// Fewer slots than this are not looked through for those that are gone, unless others have to make room.
const SHED_MIN: usize = 64;

/// A file that may be open.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    held: Mutex<Option<Held>>,
    /// It was used since the hand passed.
    used: AtomicBool,
    /// The pool has it. Changes under the pool's lock.
    is_listed: AtomicBool,
}

#[derive(Debug)]
struct Held {
    file: Arc<dyn File>,
    /// It was seen to be the one that it should be.
    is_checked: bool,
}

impl Slot {
    /// A slot with a file that is known, which stays open until it is counted.
    pub(crate) fn pinned(file: Arc<dyn File>) -> Slot {
        let held = Mutex::new(Some(Held { file, is_checked: true }));
        Slot { held, used: AtomicBool::new(true), is_listed: AtomicBool::new(false) }
    }

    /// Puts in a file that is known, which stays open until it is counted.
    pub(crate) fn pin(&self, file: Arc<dyn File>) {
        let before = lock(&self.held).replace(Held { file, is_checked: true });
        drop(before);
    }

    /// The file, if it is open.
    pub(crate) fn open_file(&self) -> Option<Arc<dyn File>> {
        lock(&self.held).as_ref().map(|held| Arc::clone(&held.file))
    }

    /// Looks at the file again before its next use.
    pub(crate) fn doubt(&self) {
        if let Some(held) = &mut *lock(&self.held) {
            held.is_checked = false;
        }
    }

    /// Notes that `file`, if it still is the one that is open, is the one that it should be.
    pub(crate) fn note_checked(&self, file: &Arc<dyn File>) {
        if let Some(held) = &mut *lock(&self.held)
            && Arc::ptr_eq(&held.file, file)
        {
            held.is_checked = true;
        }
    }

    /// The file, if it is open and known.
    #[inline]
    fn checked(&self) -> Option<Arc<dyn File>> {
        let file = match &*lock(&self.held) {
            Some(held) if held.is_checked => Arc::clone(&held.file),
            _ => return None,
        };
        self.note_used();
        Some(file)
    }

    fn note_used(&self) {
        // Looked at first: a store would take the line from whoever else reads the file.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Nobody needs the file any more: if it is open it is closed when its turn comes, and has no second one.
    pub(crate) fn note_unneeded(&self) {
        self.used.store(false, Ordering::Relaxed);
    }

    fn take(&self) -> Option<Held> {
        lock(&self.held).take()
    }

    /// Puts `file`, which is known, in the place of the open one, unless there is none or it is pinned.
    pub(crate) fn renew(&self, file: Arc<dyn File>) {
        let mut held = lock(&self.held);
        if held.is_some() && self.is_listed.load(Ordering::Relaxed) {
            let before = held.replace(Held { file, is_checked: true });
            drop(held);
            drop(before);
        }
    }

    /// Closes the file unless it is pinned: then it may have been written, and a sync of another descriptor
    /// would not be told of what was lost.
    pub(crate) fn reject(&self) {
        if self.is_listed.load(Ordering::Relaxed) {
            drop(self.take());
        }
    }
}

#[derive(Debug, Default)]
struct Listed {
    /// In the order of the hand.
    slots: VecDeque<Weak<Slot>>,
    /// How many were added since slots were looked through for those that are gone.
    added: usize,
}

impl Listed {
    /// Forgets the slots that are gone.
    fn shed(&mut self) {
        self.added = 0;
        self.slots.retain(|slot| slot.strong_count() > 0);
    }

    /// Notes that one more slot is in the list. What is gone is forgotten once that is as much as there was before, so
    /// that the list is as long as there are files, however many there were, and a file costs no look at all others.
    fn note_added(&mut self) {
        self.added += 1;
        if self.added > (self.slots.len() / 2).max(SHED_MIN) {
            self.shed();
        }
    }
}

/// Slots whose files are open and may be closed.
#[derive(Debug, Default)]
struct Pool {
    open: Mutex<Listed>,
    /// The most files that are open, queues of reads included.
    most: AtomicU64,
    /// Files that are open and may not be closed.
    pinned: AtomicU64,
    /// Queues of reads that there are, each of which may have a descriptor of its own.
    queues: AtomicU64,
}

/// A place among the queues of reads that have descriptors of their own, which it gives back when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace(Arc<Pool>);

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.0.queues.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pool {
    fn most(&self) -> usize {
        usize::try_from(self.most.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// The file in `slot` is open, and others make room.
    fn count(&self, slot: &Arc<Slot>) {
        let (mut closed, mut passed) = (Vec::new(), Vec::new());
        let mut open = lock(&self.open);
        if slot.is_listed.swap(true, Ordering::Relaxed) {
            return;
        }
        open.slots.push_back(Arc::downgrade(slot));
        open.note_added();
        let kept = self.pinned.load(Ordering::Relaxed) + self.queues.load(Ordering::Relaxed);
        let all = self.most();
        let most = all.saturating_sub(kept as usize).max(all / 4).max(1);
        // A part of them at a time, so that a file opened costs no look at all others.
        if open.slots.len() > most && open.added > most / 2 {
            open.shed();
        }
        while open.slots.len() > most {
            let oldest = open.slots.pop_front().expect("there are more than none");
            let Some(slot) = oldest.upgrade() else { continue };
            if slot.used.swap(false, Ordering::Relaxed) {
                open.slots.push_back(oldest);
                passed.push(slot);
            } else {
                slot.is_listed.store(false, Ordering::Relaxed);
                closed.push((slot.take(), slot));
            }
        }
        drop(open);
        // What a disk does to close a file is nothing to be locked for, and each may be the last to have it.
        drop((closed, passed));
    }

    /// Counts the open file in `slot`, which was pinned and which nobody needs any more: it is the first that gives way
    /// to others. Closes none itself, for whoever leaves it may be a reader.
    fn leave(&self, slot: &Arc<Slot>) {
        let mut open = lock(&self.open);
        if !slot.is_listed.swap(true, Ordering::Relaxed) {
            slot.used.store(false, Ordering::Relaxed);
            open.slots.push_front(Arc::downgrade(slot));
            open.note_added();
        }
    }

    /// Closes half of the files; returns whether there were any.
    fn let_go(&self) -> bool {
        let mut open = lock(&self.open);
        open.shed();
        let half = open.slots.len().div_ceil(2);
        let slots: Vec<_> = open.slots.drain(..half).filter_map(|slot| slot.upgrade()).collect();
        for slot in &slots {
            slot.is_listed.store(false, Ordering::Relaxed);
        }
        drop(open);
        for slot in &slots {
            drop(slot.take());
        }
        half > 0
    }
}

/// Of all stores that take descriptors of the process and keep to no number of their own.
fn process() -> &'static Arc<Pool> {
    static PROCESS: OnceLock<Arc<Pool>> = OnceLock::new();
    PROCESS.get_or_init(Arc::default)
}

/// All pools whose files take descriptors of the process.
fn pools() -> &'static Mutex<Vec<Weak<Pool>>> {
    static POOLS: OnceLock<Mutex<Vec<Weak<Pool>>>> = OnceLock::new();
    POOLS.get_or_init(Mutex::default)
}

/// Closes half of the files that may be, whichever store they are of; returns whether there were any.
#[cfg(unix)]
pub(super) fn let_go() -> bool {
    let pools: Vec<_> = lock(pools()).iter().filter_map(Weak::upgrade).collect();
    pools.iter().fold(false, |any, pool| pool.let_go() | any)
}

/// What a store may have open.
#[derive(Clone, Debug)]
pub(crate) struct OpenFiles {
    pool: Arc<Pool>,
    /// A disk that is not the system's may have no more open than it likes, and says so by `Io`.
    asks_twice: bool,
}

impl OpenFiles {
    /// Of a store on `disk`: `most` files of its own, or its part of what all stores of the process have
    /// open together.
    pub(crate) fn new(disk: &dyn Disk, most: Option<usize>) -> OpenFiles {
        let limit = disk.open_files_max();
        let limit = limit.map_or(FILES_MAX as u64, |limit| limit - RESERVE.min(limit / 2));
        let is_shared = most.is_none() && disk.folder().is_some();
        let pool = if is_shared { Arc::clone(process()) } else { Arc::default() };
        if disk.folder().is_some() {
            let mut pools = lock(pools());
            pools.retain(|other| {
                other.strong_count() > 0 && !ptr::eq(other.as_ptr(), Arc::as_ptr(&pool))
            });
            pools.push(Arc::downgrade(&pool));
        }
        let most = most.map_or(limit, |most| most as u64);
        // A host may have changed the limit since.
        pool.most.store(most.max(1), Ordering::Relaxed);
        OpenFiles { pool, asks_twice: disk.folder().is_none() }
    }

    /// The most files that are open.
    pub(crate) fn most(&self) -> usize {
        self.pool.most()
    }

    /// The file in `slot`, opened if it is not, and checked by `check` if it is not known.
    #[inline]
    pub(crate) fn get(
        &self,
        slot: &Arc<Slot>,
        open: impl Fn() -> Result<Arc<dyn File>>,
        check: impl FnOnce(&Arc<dyn File>) -> Result<()>,
    ) -> Result<Arc<dyn File>> {
        match slot.checked() {
            Some(file) => Ok(file),
            None => self.get_checked(slot, open, check),
        }
    }

    #[cold]
    fn get_checked(
        &self,
        slot: &Arc<Slot>,
        open: impl Fn() -> Result<Arc<dyn File>>,
        check: impl FnOnce(&Arc<dyn File>) -> Result<()>,
    ) -> Result<Arc<dyn File>> {
        let file = self.get_unchecked(slot, open)?;
        // One that is not what it should be does not stay: the right one may be put in its place.
        check(&file).inspect_err(|_| slot.reject())?;
        slot.note_checked(&file);
        Ok(file)
    }

    /// The file in `slot`, opened if it is not. Whoever asks checks it.
    pub(crate) fn get_unchecked(
        &self,
        slot: &Arc<Slot>,
        open: impl Fn() -> Result<Arc<dyn File>>,
    ) -> Result<Arc<dyn File>> {
        slot.note_used();
        if let Some(file) = slot.open_file() {
            return Ok(file);
        }
        let file = match open() {
            // Perhaps there is no descriptor left: who keeps the files knows, where it is not the system.
            Err(error) if self.asks_twice && error.kind() == Kind::Io && self.pool.let_go() => {
                open()?
            }
            opened => opened?,
        };
        let held = Held { file: Arc::clone(&file), is_checked: false };
        let before = lock(&slot.held).replace(held);
        if before.is_none() {
            self.count(slot);
        }
        Ok(file)
    }

    /// The open file in `slot` counts, and others make room.
    pub(crate) fn count(&self, slot: &Arc<Slot>) {
        self.pool.count(slot);
    }

    /// The open file in `slot` counts until it is closed, and is needed by nobody; no other is closed for it now.
    pub(crate) fn leave(&self, slot: &Arc<Slot>) {
        self.pool.leave(slot);
    }

    /// A place for a queue of reads, unless a quarter as many have one as files may be open: those who look something up
    /// may be any number of threads. It counts as a file, for which another one is closed when the next is opened.
    pub(crate) fn queue_place(&self) -> Option<QueuePlace> {
        let most = (self.pool.most() as u64 / 4).max(1);
        let more = |queues: u64| (queues < most).then_some(queues + 1);
        let taken = self.pool.queues.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| QueuePlace(Arc::clone(&self.pool)))
    }

    /// One file more is open that may not be closed, until it is unpinned.
    pub(crate) fn pin(&self) {
        self.pool.pinned.fetch_add(1, Ordering::Relaxed);
    }

    /// One file less.
    pub(crate) fn unpin(&self) {
        self.pool.pinned.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether half of the files that may be open may not be closed.
    pub(crate) fn are_many_pinned(&self) -> bool {
        self.pool.pinned.load(Ordering::Relaxed) > self.pool.most.load(Ordering::Relaxed) / 2
    }

    /// How many slots are remembered.
    #[cfg(test)]
    pub(crate) fn listed_count(&self) -> usize {
        lock(&self.pool.open).slots.len()
    }

    /// How many files are open that may be closed.
    #[cfg(test)]
    pub(crate) fn open_count(&self) -> usize {
        lock(&self.pool.open).slots.iter().filter(|slot| slot.strong_count() > 0).count()
    }
}

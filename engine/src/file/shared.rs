//! Files that several owners share and that go when the last owner does.
//!
//! Each `Arc<SharedFile>` is one count. A file is **kept** when something durable names it, and is
//! otherwise left to be [removed](super::removals) when the last count drops, on whatever thread. Rules:
//! - a removal is best effort and not synced: after a crash the file may be back, and the opening of
//!   the store, which rebuilds the counts from every manifest, removes it again;
//! - nothing is removed once [removals](super::removals) are stopped. The owner stops them when it no
//!   longer knows for sure what is durable (a sync failed), or gives up the folder: a file too many
//!   costs space, one too few costs the data;
//! - to remove a file that a manifest named, first make a manifest without it durable, then call
//!   [`SharedFile::release`];
//! - a file that was never kept may become a spare one, [to be written over](super::spare), or is cut off in pieces.
//!   So whoever gives a file another name, or tells another process of it, keeps it before.

use std::sync::{Arc, OnceLock};

use super::piecewise::PiecewiseRemoval;
use super::removals::Removals;
use super::spare::SpareFiles;
use crate::disk::open_files::{OpenFiles, QueuePlace, Slot};
use crate::disk::{Access, Disk, File, Mode};
use crate::error::{Error, Kind, Result};
use crate::sync::{AtomicBool, Ordering};

/// What the counted files of a store share.
#[derive(Clone, Debug)]
pub struct Counted {
    disk: Arc<dyn Disk>,
    removals: Arc<Removals>,
    files: OpenFiles,
    /// Another process may remove files.
    is_reader: bool,
}

impl Counted {
    /// Files on `disk`, of which at most `files_max` are open, or the store's part of what the process
    /// may open. No file goes once `removals` are stopped.
    pub fn new(disk: &Arc<dyn Disk>, removals: &Arc<Removals>, files_max: Option<usize>) -> Self {
        let files = OpenFiles::new(&**disk, files_max);
        let (disk, removals) = (Arc::clone(disk), Arc::clone(removals));
        Counted { disk, removals, files, is_reader: false }
    }

    /// The same beside another process, which may remove any of them.
    #[must_use]
    pub fn of_reader(self) -> Self {
        Counted { is_reader: true, ..self }
    }

    /// The most files that are open.
    pub fn files_max(&self) -> usize {
        self.files.most()
    }

    /// A place for a queue of reads, unless enough of them have one.
    pub(crate) fn queue_place(&self) -> Option<QueuePlace> {
        self.files.queue_place()
    }

    /// Whether half of the files that may be open are not durable yet, so that they cannot be closed.
    pub fn has_many_unsynced(&self) -> bool {
        self.files.are_many_pinned()
    }
}

/// A counted file, opened at its first use, and again at its next when it was closed for others.
#[derive(Debug)]
pub struct SharedFile {
    counted: Counted,
    /// Where it is on the disk.
    path: String,
    /// The same for messages, once it was open.
    shown: OnceLock<Box<str>>,
    access: Access,
    slot: Arc<Slot>,
    /// It stays open, since it is not durable.
    is_pinned: AtomicBool,
    /// It was seen to be the one that it should be.
    was_right: AtomicBool,
    kept: AtomicBool,
    /// Where the file goes instead of being removed, unless it was kept at any time.
    spares: OnceLock<Arc<SpareFiles>>,
    was_kept: AtomicBool,
}

impl SharedFile {
    /// A file that something durable names. It stays unless it is released. No disk access.
    pub fn kept(counted: &Counted, path: impl Into<String>, access: Access) -> Arc<SharedFile> {
        Self::with(counted, path.into(), access, Arc::default(), true)
    }

    /// A file just made, open as `handle`, that nothing durable names yet: it goes with its last
    /// count unless [`SharedFile::keep`] is called. It stays open until [`SharedFile::note_synced`].
    pub fn unkept(
        counted: &Counted,
        path: impl Into<String>,
        handle: Arc<dyn File>,
    ) -> Arc<SharedFile> {
        let access = handle.access();
        counted.files.pin();
        let file = Self::with(counted, path.into(), access, Arc::new(Slot::pinned(handle)), false);
        file.note_name();
        file
    }

    /// Remembers what an open file is called: a disk in a folder of another knows its own part of the name.
    fn note_name(&self) {
        if let Some(file) = self.slot.open_file() {
            let _ = self.shown.set(file.path().into());
        }
    }

    fn with(
        counted: &Counted,
        path: String,
        access: Access,
        slot: Arc<Slot>,
        kept: bool,
    ) -> Arc<SharedFile> {
        Arc::new(SharedFile {
            counted: counted.clone(),
            path,
            shown: OnceLock::new(),
            access,
            slot,
            is_pinned: AtomicBool::new(!kept),
            was_right: AtomicBool::new(false),
            kept: AtomicBool::new(kept),
            spares: OnceLock::new(),
            was_kept: AtomicBool::new(kept),
        })
    }

    /// Hands the file to `spares` instead of removing it, if nothing durable ever names it: what was
    /// named, another process may have open, and it must stay as it is for that one.
    pub fn spare_in(&self, spares: &Arc<SpareFiles>) {
        let _ = self.spares.set(Arc::clone(spares));
    }

    fn open(&self) -> Result<Arc<dyn File>> {
        let file = self.counted.disk.open(&self.path, Mode::Read, self.access)?;
        self.shown.get_or_init(|| file.path().into());
        Ok(file)
    }

    /// The file, opened to be read if it is not open; then, and where nobody did yet, `check` says
    /// whether it is the one that it should be. An error is not remembered: the next call tries again.
    ///
    /// Where that finds damage in what was right once, `is_alike` says whether it may be that file still, by what
    /// it says of itself first: another process may be writing another one under its name.
    #[inline]
    pub fn file(
        &self,
        check: impl FnOnce(&Arc<dyn File>) -> Result<bool>,
        is_alike: impl FnOnce(&Arc<dyn File>) -> bool,
    ) -> Result<Arc<dyn File>> {
        let check = |file: &Arc<dyn File>| {
            let checked = check(file);
            if matches!(checked, Ok(true)) {
                self.was_right.store(true, Ordering::Release);
                return Ok(());
            }
            let is_gone = self.counted.is_reader
                && self.was_right.load(Ordering::Acquire)
                && match &checked {
                    Err(error) => error.kind().is_of_bytes() && !is_alike(file),
                    Ok(_) => true,
                };
            if is_gone {
                // Its writer has given the name to another file meanwhile, or is about to.
                return Err(self.gone());
            }
            checked?;
            Err(Error::corrupt(file.path(), 0, "the file that is referred to", "another"))
        };
        self.counted.files.get(&self.slot, || self.open_again(), check)
    }

    /// What a reader is told whose file is not there any more.
    fn gone(&self) -> Error {
        Error::missing(format!(
            "{} is gone, since another process removed it after it was closed here: reload, or open \
             the snapshot or the table again; a greater max_open_files keeps more files open",
            self.path
        ))
    }

    /// Opens what was there before.
    fn open_again(&self) -> Result<Arc<dyn File>> {
        self.open().map_err(|error| match error.kind() {
            Kind::Missing if self.counted.is_reader => self.gone(),
            Kind::Missing => Error::missing(format!(
                "{} is not there, but what the session keeps is in it: put the file back, then try again",
                self.path
            )),
            _ => error,
        })
    }

    /// The same for who checks it, and then says so by [`SharedFile::note_checked`].
    pub fn unchecked(&self) -> Result<Arc<dyn File>> {
        self.counted.files.get_unchecked(&self.slot, || self.open())
    }

    /// Notes that `file` is the one that it should be.
    pub fn note_checked(&self, file: &Arc<dyn File>) {
        self.was_right.store(true, Ordering::Release);
        self.slot.note_checked(file);
    }

    /// Notes that the file is another one: the right one may be put in its place.
    pub fn reject(&self) {
        self.slot.reject();
    }

    /// Has the next use of the file check it.
    pub fn doubt(&self) {
        self.slot.doubt();
    }

    /// The file, if it is open.
    pub fn open_file(&self) -> Option<Arc<dyn File>> {
        self.slot.open_file()
    }

    /// The file is durable now, so that it may be closed while others are read.
    pub fn note_synced(&self) {
        if self.is_pinned.swap(false, Ordering::AcqRel) {
            self.counted.files.unpin();
            self.counted.files.count(&self.slot);
        }
    }

    /// Writes to the file just made, in the room of the spare files where there is no other.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.unchecked()?;
        match self.spares.get() {
            Some(spares) => spares.make_room(|| file.write_at(offset, bytes)),
            None => file.write_at(offset, bytes),
        }
    }

    /// Where it is, for messages.
    pub fn path(&self) -> &str {
        self.shown.get().map_or(&self.path, |shown| shown)
    }

    /// Something durable names the file now: it stays when the last count drops.
    pub fn keep(&self) {
        self.was_kept.store(true, Ordering::Release);
        self.kept.store(true, Ordering::Release);
    }

    /// Nothing durable names the file any more: it goes with its last count.
    pub fn release(&self) {
        self.kept.store(false, Ordering::Release);
    }

    /// Whether it stays when the last count drops.
    pub fn is_kept(&self) -> bool {
        self.kept.load(Ordering::Acquire)
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let was_pinned = self.is_pinned.load(Ordering::Acquire);
        if was_pinned {
            self.counted.files.unpin();
        }
        if self.is_kept() {
            return;
        }
        // It stays open until somebody removes it, or closes it for another. One that was never durable is the first to be
        // closed; any other keeps its place among the files that are open, without having been used lately.
        if was_pinned {
            self.counted.files.leave(&self.slot);
        } else {
            self.slot.note_unneeded();
        }
        let (disk, path) = (Arc::clone(&self.counted.disk), std::mem::take(&mut self.path));
        let was_kept = self.was_kept.load(Ordering::Acquire);
        let mut spares = self.spares.take().filter(|_| !was_kept);
        // It may stay open as long, since closing what has no name any more is what frees its blocks.
        let slot = Arc::clone(&self.slot);
        let mut removal = PiecewiseRemoval::new(&disk, path);
        if spares.is_some() {
            // What may be written over may be cut off, too.
            removal = removal.cutting();
        }
        self.counted.removals.leave(move || {
            if let Some(spares) = spares.take() {
                let open = || disk.open(removal.path(), Mode::Read, Access::Buffered);
                let length = slot.open_file().map_or_else(open, Ok).and_then(|file| file.len());
                if length.is_ok_and(|length| spares.offer(removal.path(), length)) {
                    return true;
                }
            }
            removal.go_on()
        });
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;

    fn disk() -> (Arc<MemoryDisk>, Counted, Arc<Removals>) {
        let memory = MemoryDisk::new();
        memory.replace("a", b"bytes").unwrap();
        let removals = Removals::new(true);
        let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
        (memory, Counted::new(&disk, &removals, Some(2)), removals)
    }

    #[test]
    fn a_file_goes_with_its_last_count_unless_it_is_kept() {
        let (memory, counted, removals) = disk();
        let first = SharedFile::kept(&counted, "a", Access::Buffered);
        first.release();
        let second = Arc::clone(&first);
        drop(first);
        assert!(memory.exists("a").unwrap());
        let handle = second.unchecked().unwrap();
        drop(second);
        assert!(memory.exists("a").unwrap(), "whoever drops it has no time to remove it");
        assert_eq!(removals.collect(1), 1);
        assert!(!memory.exists("a").unwrap());
        assert_eq!(handle.len().unwrap(), 5);

        let made = memory.open("b", Mode::Create, Access::Buffered).unwrap();
        drop(SharedFile::unkept(&counted, "b", Arc::clone(&made)));
        assert_eq!(removals.collect(usize::MAX), 1);
        assert!(!memory.exists("b").unwrap());
        let made = memory.open("b", Mode::Create, Access::Buffered).unwrap();
        let kept = SharedFile::unkept(&counted, made.path().to_owned(), made);
        kept.keep();
        drop(kept);
        assert_eq!(removals.collect(usize::MAX), 0);
        assert!(memory.exists("b").unwrap());
    }

    /// Another name of a file has the same bytes, as a handle has that stays open.
    #[test]
    fn only_what_was_made_here_and_never_kept_is_cut_off() {
        const LENGTH: u64 = 3 << 20;
        let (memory, counted, removals) = disk();
        let store: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
        let no_room = SpareFiles::new(&store, 1, &removals);
        let left_of = |path: &str, is_own: bool, was_kept: bool| {
            let made = memory.open(path, Mode::Create, Access::Buffered).unwrap();
            made.set_len(LENGTH).unwrap();
            let file = SharedFile::unkept(&counted, path, Arc::clone(&made));
            if is_own {
                file.spare_in(&no_room);
            }
            if was_kept {
                file.keep();
                file.release();
            }
            drop(file);
            assert_eq!(removals.collect(usize::MAX), 1);
            assert!(!memory.exists(path).unwrap());
            made.len().unwrap()
        };
        assert_eq!(left_of("own", true, false), 512 << 10, "a piece is left of it");
        assert_eq!(left_of("linked", true, true), LENGTH);
        assert_eq!(left_of("imported", false, false), LENGTH);
    }

    /// They stay open until somebody has time for them, and those that were never durable are the first that give way.
    #[test]
    fn files_that_wait_to_be_removed_count_as_open() {
        let (memory, counted, removals) = disk();
        let mut open = Vec::new();
        for number in 0..5 {
            let path = format!("made {number}");
            let made = memory.open(&path, Mode::Create, Access::Buffered).unwrap();
            open.push(Arc::downgrade(&made));
            drop(SharedFile::unkept(&counted, path, made));
        }
        let open_count = || open.iter().filter(|file| file.strong_count() > 0).count();
        assert_eq!((open_count(), counted.files.open_count()), (5, 5));
        let read = SharedFile::kept(&counted, "a", Access::Buffered);
        read.unchecked().unwrap();
        assert_eq!((open_count(), counted.files.open_count()), (1, 2));
        read.unchecked().unwrap();
        assert_eq!(removals.collect(usize::MAX), 5);
        assert_eq!((open_count(), counted.files.open_count()), (0, 1));
        assert_eq!(memory.list("").unwrap(), ["a"]);
    }

    /// Those that were durable have their place among the others, but no second turn there.
    #[test]
    fn a_durable_file_that_is_dropped_is_closed_in_its_turn() {
        let (memory, counted, _removals) = disk();
        let kept = |path: &str| {
            memory.replace(path, b"bytes").unwrap();
            SharedFile::kept(&counted, path, Access::Buffered)
        };
        let [first, dropped, read, next] = ["a", "b", "c", "d"].map(kept);
        // Two may be open: the hand passes all of them and closes the first.
        let open = Arc::downgrade(&[&first, &dropped, &read].map(|it| it.unchecked().unwrap())[1]);
        assert!(first.open_file().is_none());
        dropped.unchecked().unwrap(); // the one that was used last
        dropped.release();
        drop(dropped);
        assert!(open.strong_count() > 0, "nobody needs its room yet");
        next.unchecked().unwrap();
        assert_eq!(open.strong_count(), 0);
        assert!(read.open_file().is_some(), "what somebody may need stays");
    }

    /// Each may take a descriptor.
    #[test]
    fn queues_of_reads_count_as_open_files() {
        let memory = MemoryDisk::new();
        let removals = Removals::new(true);
        let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
        let counted = Counted::new(&disk, &removals, Some(8));
        let files: Vec<_> = (0..20)
            .map(|number| {
                let path = format!("{number}");
                memory.replace(&path, b"bytes").unwrap();
                SharedFile::kept(&counted, path, Access::Buffered)
            })
            .collect();
        let open_all = || {
            for file in &files {
                file.unchecked().unwrap();
            }
            counted.files.open_count()
        };
        assert_eq!(open_all(), 8);
        let places = [counted.queue_place(), counted.queue_place()];
        assert!(places.iter().all(Option::is_some) && counted.queue_place().is_none());
        assert_eq!(open_all(), 6);
        drop(places);
        assert_eq!(open_all(), 8);
    }

    #[test]
    fn files_that_were_are_not_remembered() {
        let memory = MemoryDisk::new();
        let removals = Removals::new(true);
        let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
        // As where a process may have very many open.
        let counted = Counted::new(&disk, &removals, Some(1 << 20));
        let live: Vec<_> = (0..100)
            .map(|number| {
                let path = format!("live {number}");
                memory.replace(&path, b"bytes").unwrap();
                let file = SharedFile::kept(&counted, path, Access::Buffered);
                file.unchecked().unwrap();
                file
            })
            .collect();
        for number in 0..5_000 {
            let made = memory.open("made", Mode::Create, Access::Buffered).unwrap();
            let file = SharedFile::unkept(&counted, "made", made);
            if number % 2 == 0 {
                file.note_synced();
            }
            drop(file);
            assert_eq!(removals.collect(usize::MAX), 1);
            let remembered = counted.files.listed_count();
            assert!(remembered <= 2 * live.len() + 130, "{remembered} files after {number}");
        }
        assert_eq!(counted.files.open_count(), live.len());
    }

    #[test]
    fn nothing_is_removed_once_removals_are_stopped() {
        let (memory, counted, removals) = disk();
        let file = SharedFile::kept(&counted, "a", Access::Buffered);
        file.release();
        removals.stop();
        drop(file);
        assert_eq!(removals.collect(1), 0);
        assert!(memory.exists("a").unwrap());
    }

    #[test]
    fn what_waits_stays_when_removals_are_stopped() {
        let (memory, counted, removals) = disk();
        let file = SharedFile::kept(&counted, "a", Access::Buffered);
        file.release();
        drop(file);
        removals.stop();
        assert_eq!(removals.collect(1), 0);
        assert!(memory.exists("a").unwrap());
    }

    #[test]
    fn a_file_is_opened_at_its_first_use_and_an_error_is_not_remembered() {
        let (memory, counted, _) = disk();
        let file = SharedFile::kept(&counted, "later", Access::Buffered);
        let sound = |_: &Arc<dyn File>| Ok(true);
        let alike = |_: &Arc<dyn File>| true;
        assert_eq!(file.file(sound, alike).unwrap_err().kind(), Kind::Missing);
        memory.replace("later", b"x").unwrap();
        assert_eq!(file.file(sound, alike).unwrap().len().unwrap(), 1);
        let unwanted = |_: &Arc<dyn File>| panic!("it was checked");
        let twice = [(); 2].map(|()| file.file(unwanted, alike).unwrap());
        assert!(Arc::ptr_eq(&twice[0], &twice[1]));
    }

    #[test]
    fn files_are_closed_for_others_and_checked_when_they_are_opened_again() {
        let (memory, counted, _) = disk();
        let files: Vec<_> = (0..4)
            .map(|number| {
                let path = format!("{number}");
                memory.replace(&path, path.as_bytes()).unwrap();
                SharedFile::kept(&counted, path, Access::Buffered)
            })
            .collect();
        let checks = std::cell::Cell::new(0);
        let read = |file: &Arc<SharedFile>| {
            let check = |handle: &Arc<dyn File>| {
                checks.set(checks.get() + 1);
                let mut found = [0; 1];
                handle.read_exact_at(0, &mut found)?;
                Ok(found == file.path().as_bytes())
            };
            file.file(check, |_| true)
        };
        let open = || files.iter().filter(|file| file.open_file().is_some()).count();
        let held = read(&files[0]).unwrap();
        for round in 1..=3 {
            for file in &files {
                read(file).unwrap();
                assert!(open() <= 2);
            }
            assert!(checks.get() <= 4 * round + 1);
        }
        assert_eq!(held.len().unwrap(), 1, "who has it may go on reading");
        // Another file under the name: told at each try, until the right one is back.
        let closed = files.iter().find(|file| file.open_file().is_none()).unwrap();
        memory.replace(closed.path(), b"other").unwrap();
        for _ in 0..2 {
            assert_eq!(read(closed).unwrap_err().kind(), Kind::Corrupt);
        }
        memory.replace(closed.path(), closed.path()).unwrap();
        read(closed).unwrap();
    }

    #[test]
    fn a_file_that_fails_its_check_closes_no_others_however_often_it_is_tried() {
        let (memory, counted, _removals) = disk();
        memory.replace("b", b"bytes").unwrap();
        let kept = |name| SharedFile::kept(&counted, name, Access::Buffered);
        let (good, bad) = (kept("a"), kept("b"));
        good.file(|_| Ok(true), |_| true).unwrap();
        for _ in 0..100 {
            bad.file(|_| Err(Error::invalid("another file")), |_| true).unwrap_err();
            assert!(bad.open_file().is_none(), "the right one may be put in its place");
        }
        assert!(good.open_file().is_some() && counted.files.open_count() <= 2);
        // What was written stays open: a sync of another descriptor would not tell what was lost.
        let made = memory.open("c", Mode::Create, Access::Buffered).unwrap();
        let written = SharedFile::unkept(&counted, made.path().to_owned(), made);
        written.doubt();
        written.file(|_| Err(Error::invalid("another file")), |_| true).unwrap_err();
        assert!(written.open_file().is_some());
    }

    #[test]
    fn what_is_not_durable_stays_open() {
        let (memory, counted, _) = disk();
        let made: Vec<_> = (0..5)
            .map(|number| {
                let path = format!("{number}");
                let handle = memory.open(&path, Mode::Create, Access::Buffered).unwrap();
                SharedFile::unkept(&counted, handle.path().to_owned(), handle)
            })
            .collect();
        assert!(made.iter().all(|file| file.open_file().is_some()) && counted.has_many_unsynced());
        for file in &made {
            file.note_synced();
        }
        made[0].note_synced();
        assert_eq!(made.iter().filter(|file| file.open_file().is_some()).count(), 2);
        assert!(!counted.has_many_unsynced());
        let handle = memory.open("more", Mode::Create, Access::Buffered).unwrap();
        let more = SharedFile::unkept(&counted, handle.path().to_owned(), handle);
        let another = memory.open("another", Mode::Create, Access::Buffered).unwrap();
        let another = SharedFile::unkept(&counted, another.path().to_owned(), another);
        assert!(counted.has_many_unsynced());
        drop((more, another));
        assert!(!counted.has_many_unsynced(), "what is given up does not count");
    }
}

#[cfg(test)]
#[cfg(shuttle)]
mod interleavings {
    use super::*;
    use crate::disk::memory::MemoryDisk;

    /// In every order of the threads' steps, the file is there while a count is held, and gone after
    /// the last one, unless removals were stopped before.
    #[test]
    fn a_released_file_goes_exactly_with_its_last_count() {
        for stopped in [false, true] {
            crate::sync::check_schedules(
                move || {
                    let memory = MemoryDisk::new();
                    memory.replace("a", b"bytes").expect("memory takes it");
                    let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(&memory);
                    let removals = Removals::new(true);
                    let counted = Counted::new(&disk, &removals, Some(1));
                    let file = SharedFile::kept(&counted, "a", Access::Buffered);
                    let threads: Vec<_> = (0..3)
                        .map(|number| {
                            let (file, removals) = (Arc::clone(&file), Arc::clone(&removals));
                            shuttle::thread::spawn(move || {
                                assert_eq!(
                                    file.unchecked().expect("it is there").len().expect("5"),
                                    5
                                );
                                shuttle::thread::yield_now();
                                if number == 0 && stopped {
                                    removals.stop();
                                }
                                file.release();
                                shuttle::thread::yield_now();
                                assert!(file.counted.disk.exists("a").expect("memory answers"));
                            })
                        })
                        .collect();
                    drop(file);
                    let collecting = {
                        let removals = Arc::clone(&removals);
                        shuttle::thread::spawn(move || removals.collect(1))
                    };
                    for thread in threads {
                        thread.join().expect("its assertions hold");
                    }
                    collecting.join().expect("it does not panic");
                    removals.collect(1);
                    assert_eq!(memory.exists("a").expect("memory answers"), stopped);
                },
                2000,
            );
        }
    }
}

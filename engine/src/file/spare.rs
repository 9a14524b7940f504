//! Files that nobody names any more, kept a while to be written over.
//!
//! Writing over a file needs no new blocks, no new pages in the operating system's cache and no
//! freeing of old ones, which together cost more than copying the bytes, and come in bursts. Only
//! files that nothing durable ever named get here, so no other process reads them. Their old bytes
//! are no danger: whoever writes one over also sets its length, and every page says whose it is.
//!
//! A crash leaves spare files under their old names; the opening of the store removes them.

use std::sync::Arc;

use super::removals::Removals;
use crate::disk::{Access, Disk, File, Mode, quietly, remove_quietly};
use crate::error::Result;
use crate::sync::{Mutex, lock};

/// Bytes that a call of [`SpareFiles::shed`] frees.
const SHED_BYTES: u64 = 1 << 20;

/// How many files that wait to be removed a call of [`SpareFiles::take`] looks at, at least, before it takes one.
const COLLECTED: usize = 4;

/// A bounded number of spare files in one folder.
#[derive(Debug)]
pub struct SpareFiles {
    disk: Arc<dyn Disk>,
    bytes_max: u64,
    files: Mutex<Vec<Spare>>,
    removals: Arc<Removals>,
}

/// Not open: the next file of the kind opens it, and what is shed may be opened for that.
#[derive(Debug)]
struct Spare {
    path: String,
    length: u64,
}

impl SpareFiles {
    /// Room for one file of about `length` bytes, and what stands behind those, and for
    /// as much again until it is shed. See [`SpareFiles::new`].
    pub fn for_files_of(
        disk: &Arc<dyn Disk>,
        length: u64,
        removals: &Arc<Removals>,
    ) -> Arc<SpareFiles> {
        SpareFiles::new(disk, length.clamp(1 << 20, 256 << 20) / 16 * 17, removals)
    }

    /// Room for files of `bytes_max` together, and for as much again until it is shed. Once `removals`
    /// are stopped, each stays where it is.
    pub fn new(disk: &Arc<dyn Disk>, bytes_max: u64, removals: &Arc<Removals>) -> Arc<SpareFiles> {
        Arc::new(SpareFiles {
            disk: Arc::clone(disk),
            bytes_max,
            files: Mutex::new(Vec::new()),
            removals: Arc::clone(removals),
        })
    }

    /// Bytes of the files that are held.
    pub fn bytes(&self) -> u64 {
        held(&lock(&self.files))
    }

    /// Takes the file of `length` bytes at `path` in, if there is room; otherwise it is the caller's as
    /// before, who has the right to remove it.
    pub fn offer(&self, path: &str, length: u64) -> bool {
        let mut files = lock(&self.files);
        let fits = held(&files) + length <= 2 * self.bytes_max;
        if fits {
            files.push(Spare { path: path.to_owned(), length });
        }
        fits
    }

    /// The spare file whose length is nearest to `about_bytes`, now at `path`, with old bytes in it;
    /// `None` when there is none to be had. One rename and one open, of which the second may fail.
    pub fn take(
        &self,
        path: &str,
        access: Access,
        about_bytes: u64,
    ) -> Result<Option<Arc<dyn File>>> {
        self.removals.collect_some(COLLECTED);
        if lock(&self.files).is_empty() || !self.removals.may_begin() {
            return Ok(None);
        }
        let taken = self.removals.unless_stopped(|| self.rename(path, access, about_bytes));
        taken.unwrap_or(Ok(None))
    }

    fn rename(
        &self,
        path: &str,
        access: Access,
        about_bytes: u64,
    ) -> Result<Option<Arc<dyn File>>> {
        let spare = {
            let mut files = lock(&self.files);
            let by_length = files.iter().enumerate();
            let nearest = by_length.min_by_key(|(_, spare)| spare.length.abs_diff(about_bytes));
            nearest.map(|(place, _)| place).map(|place| files.remove(place))
        };
        let Some(spare) = spare else { return Ok(None) };
        if self.disk.rename(&spare.path, path).is_err() {
            // A new file does as well, and says what is wrong with the disk if it does not.
            remove_quietly(&*self.disk, &spare.path);
            return Ok(None);
        }
        let opened = self.disk.open(path, Mode::Write, access);
        if opened.is_err() {
            remove_quietly(&*self.disk, path);
        }
        opened.map(Some)
    }

    /// Frees a piece of what is too much, and of files that wait to be removed: freeing a whole file at once
    /// takes milliseconds, for which an update would wait.
    pub fn shed(&self) {
        self.removals.collect_piece();
        if self.bytes() <= self.bytes_max || !self.removals.may_begin() {
            return;
        }
        self.removals.unless_stopped(|| quietly(|| self.shed_piece()));
    }

    fn shed_piece(&self) {
        // Out of the list meanwhile, so that nobody takes it and writes to what is cut.
        let mut oldest = {
            let mut files = lock(&self.files);
            if held(&files) <= self.bytes_max {
                return;
            }
            files.remove(0)
        };
        if oldest.length > SHED_BYTES {
            oldest.length -= SHED_BYTES;
            let file = self.disk.open(&oldest.path, Mode::Write, Access::Buffered);
            if file.and_then(|file| file.set_len(oldest.length)).is_ok() {
                lock(&self.files).insert(0, oldest);
                return;
            }
        }
        // Best effort, as all removals.
        remove_quietly(&*self.disk, &oldest.path);
    }

    /// Does `write`, and once more without the spare files, and those that wait to be removed, when there
    /// was no room for it: they take space that nobody needs.
    pub fn make_room<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        match write() {
            Err(error) if error.is_no_space() => {
                if self.clear() > 0 {
                    write()
                } else {
                    Err(error)
                }
            }
            outcome => outcome,
        }
    }

    /// Removes all of them, best effort, and those that wait to be removed; how many there were.
    pub fn clear(&self) -> usize {
        // Those that take long let go of others.
        let long = self.removals.collect_long(usize::MAX);
        let collected = long + self.removals.collect(usize::MAX);
        if lock(&self.files).is_empty() || !self.removals.may_begin() {
            return collected;
        }
        let cleared = self.removals.unless_stopped(|| {
            let files = std::mem::take(&mut *lock(&self.files));
            for spare in &files {
                remove_quietly(&*self.disk, &spare.path);
            }
            files.len()
        });
        collected + cleared.unwrap_or(0)
    }
}

fn held(files: &[Spare]) -> u64 {
    files.iter().map(|spare| spare.length).sum()
}

impl Drop for SpareFiles {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::super::shared::{Counted, SharedFile};
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::error::Error;
    use crate::sync::{AtomicBool, Ordering};

    fn made(disk: &Arc<dyn Disk>, path: &str, length: usize) -> Arc<dyn File> {
        let file = disk.open(path, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &vec![7; length]).unwrap();
        file
    }

    #[test]
    fn a_file_never_kept_is_written_over_and_a_kept_one_never() {
        let disk: Arc<dyn Disk> = MemoryDisk::new();
        let removals = Removals::new(true);
        let spares = SpareFiles::new(&disk, 1_000, &removals);
        for (path, keeps) in [("a", false), ("b", true)] {
            let shared = SharedFile::unkept(
                &Counted::new(&disk, &removals, None),
                path,
                made(&disk, path, 400),
            );
            shared.spare_in(&spares);
            if keeps {
                shared.keep();
                shared.release();
            }
            drop(shared);
            removals.collect(usize::MAX);
            assert_eq!(disk.exists(path).unwrap(), !keeps);
        }
        let file = spares.take("c", Access::Buffered, 0).unwrap().unwrap();
        assert_eq!((file.path(), file.len().unwrap()), ("c", 400));
        assert!(!disk.exists("a").unwrap());
        assert!(spares.take("d", Access::Buffered, 0).unwrap().is_none());
    }

    #[test]
    fn the_nearest_length_is_taken_and_what_is_too_much_goes_in_pieces() {
        let disk: Arc<dyn Disk> = MemoryDisk::new();
        let removals = Removals::new(true);
        let mebi = SHED_BYTES as usize;
        let spares = SpareFiles::new(&disk, 3 * SHED_BYTES, &removals);
        for (path, length) in [("a", 2 * mebi), ("b", mebi), ("c", 2 * mebi), ("d", 2 * mebi)] {
            let shared = SharedFile::unkept(
                &Counted::new(&disk, &removals, None),
                path,
                made(&disk, path, length),
            );
            shared.spare_in(&spares);
        }
        removals.collect(usize::MAX);
        let there = |path: &str| disk.exists(path).unwrap();
        assert_eq!([there("a"), there("b"), there("c"), there("d")], [true, true, true, false]);
        spares.shed(); // five are held, and three fit: a piece of the oldest goes
        let length = disk.open("a", Mode::Read, Access::Buffered).unwrap().len().unwrap();
        assert_eq!(length, SHED_BYTES);
        spares.shed();
        assert!(!there("a"));
        spares.shed();
        assert!(there("b") && there("c"));
        let file = spares.take("e", Access::Buffered, 3 * SHED_BYTES).unwrap().unwrap();
        assert_eq!(file.len().unwrap(), 2 * SHED_BYTES);
        drop(spares);
        assert_eq!([there("b"), there("c"), there("e")], [false, false, true]);
    }

    #[test]
    fn all_stay_once_removals_are_stopped() {
        let disk: Arc<dyn Disk> = MemoryDisk::new();
        let removals = Removals::new(true);
        let spares = SpareFiles::new(&disk, 1_000, &removals);
        for path in ["a", "b"] {
            if path == "b" {
                removals.stop();
            }
            let shared = SharedFile::unkept(
                &Counted::new(&disk, &removals, None),
                path,
                made(&disk, path, 400),
            );
            shared.spare_in(&spares);
        }
        assert!(spares.take("c", Access::Buffered, 0).unwrap().is_none());
        drop(spares);
        assert!(disk.exists("a").unwrap() && disk.exists("b").unwrap());
    }

    #[test]
    fn spare_files_give_way_to_a_write_that_finds_no_room() {
        let sim = crate::disk::sim::SimDisk::new(1);
        let disk: Arc<dyn Disk> = Arc::clone(&sim) as Arc<dyn Disk>;
        let spares = SpareFiles::new(&disk, 100_000, &Removals::new(true));
        made(&disk, "a", 60_000);
        assert!(spares.offer("a", 60_000));
        let file = made(&disk, "b", 10);
        sim.capacity(Some(sim.total_bytes() + 1_000));
        spares.make_room(|| file.write_at(0, &[1; 1_000])).unwrap();
        assert!(disk.exists("a").unwrap(), "there was room");
        spares.make_room(|| file.write_at(0, &vec![1; 50_000])).unwrap();
        assert!(!disk.exists("a").unwrap());
        let error = spares.make_room(|| file.write_at(0, &vec![1; 90_000])).unwrap_err();
        assert!(error.is_no_space(), "{error}");
    }

    #[test]
    fn all_stay_in_a_folder_that_was_taken() {
        let disk: Arc<dyn Disk> = MemoryDisk::new();
        let is_taken = Arc::new(AtomicBool::new(false));
        let taken = Arc::clone(&is_taken);
        let removals = Removals::guarded(true, move || !taken.load(Ordering::Acquire));
        let spares = SpareFiles::new(&disk, 1_000, &removals);
        let counted = Counted::new(&disk, &removals, None);
        for (path, is_spare) in [("a", true), ("b", true), ("c", false)] {
            let shared = SharedFile::unkept(&counted, path, made(&disk, path, 900));
            if is_spare {
                shared.spare_in(&spares);
            }
            drop(shared);
            if is_spare {
                removals.collect(usize::MAX);
            }
        }
        assert_eq!(spares.bytes(), 1_800);
        is_taken.store(true, Ordering::Release);
        let full = || Err::<(), _>(Error::io("write", "d", std::io::ErrorKind::StorageFull.into()));
        assert!(spares.make_room(full).unwrap_err().is_no_space());
        spares.shed();
        removals.collect_some(4);
        assert!(spares.take("d", Access::Buffered, 900).unwrap().is_none());
        // Not even when it comes back: who had it meanwhile is not known.
        is_taken.store(false, Ordering::Release);
        drop(spares);
        assert_eq!(removals.collect(usize::MAX), 0);
        for path in ["a", "b", "c"] {
            assert_eq!(disk.open(path, Mode::Read, Access::Buffered).unwrap().len().unwrap(), 900);
        }
    }
}

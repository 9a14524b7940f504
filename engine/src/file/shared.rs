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
//! - a file that was never kept may become a spare one, [to be written over](super::spare).

use std::sync::{Arc, OnceLock};

use super::removals::Removals;
use super::spare::SpareFiles;
use crate::disk::{Access, Disk, File, Mode};
use crate::error::Result;
use crate::sync::{AtomicBool, Ordering};

/// A counted file, opened at its first use.
#[derive(Debug)]
pub struct SharedFile {
    disk: Arc<dyn Disk>,
    path: String,
    access: Access,
    handle: OnceLock<Arc<dyn File>>,
    kept: AtomicBool,
    /// Where the file goes instead of being removed, unless it was kept at any time.
    spares: OnceLock<Arc<SpareFiles>>,
    was_kept: AtomicBool,
    removals: Arc<Removals>,
}

impl SharedFile {
    /// A file that something durable names. It stays unless it is released. No disk access.
    ///
    /// No file goes once `removals` are stopped.
    pub fn kept(
        disk: &Arc<dyn Disk>,
        path: impl Into<String>,
        access: Access,
        removals: &Arc<Removals>,
    ) -> Arc<SharedFile> {
        Self::with(disk, path.into(), access, OnceLock::new(), true, removals)
    }

    /// A file just made, open as `handle`, that nothing durable names yet: it goes with its last
    /// count unless [`SharedFile::keep`] is called.
    pub fn unkept(
        disk: &Arc<dyn Disk>,
        handle: Arc<dyn File>,
        removals: &Arc<Removals>,
    ) -> Arc<SharedFile> {
        let (path, access) = (handle.path().to_owned(), handle.access());
        Self::with(disk, path, access, OnceLock::from(handle), false, removals)
    }

    fn with(
        disk: &Arc<dyn Disk>,
        path: String,
        access: Access,
        handle: OnceLock<Arc<dyn File>>,
        kept: bool,
        removals: &Arc<Removals>,
    ) -> Arc<SharedFile> {
        Arc::new(SharedFile {
            disk: Arc::clone(disk),
            path,
            access,
            handle,
            kept: AtomicBool::new(kept),
            spares: OnceLock::new(),
            was_kept: AtomicBool::new(kept),
            removals: Arc::clone(removals),
        })
    }

    /// Hands the file to `spares` instead of removing it, if nothing durable ever names it: what was
    /// named, another process may have open, and it must stay as it is for that one.
    pub fn spare_in(&self, spares: &Arc<SpareFiles>) {
        let _ = self.spares.set(Arc::clone(spares));
    }

    /// The open file; opens it to read at the first call. An error is not remembered: the next call
    /// tries again.
    pub fn file(&self) -> Result<&Arc<dyn File>> {
        if let Some(handle) = self.handle.get() {
            return Ok(handle);
        }
        // Two threads may both open it; one handle wins and the other closes.
        let opened = self.disk.open(&self.path, Mode::Read, self.access)?;
        Ok(self.handle.get_or_init(|| opened))
    }

    /// Writes to the file just made, in the room of the spare files where there is no other.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.file()?;
        match self.spares.get() {
            Some(spares) => spares.make_room(|| file.write_at(offset, bytes)),
            None => file.write_at(offset, bytes),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &str {
        &self.path
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
        if self.is_kept() {
            return;
        }
        let (disk, path) = (Arc::clone(&self.disk), std::mem::take(&mut self.path));
        let was_kept = self.was_kept.load(Ordering::Acquire);
        let spares = self.spares.take().filter(|_| !was_kept);
        // It stays open as long, since closing what has no name any more is what frees its blocks.
        let handle = self.handle.take();
        self.removals.leave(move || {
            if let (Some(spares), Some(handle)) = (&spares, &handle)
                && spares.offer(&path, handle)
            {
                return;
            }
            // Best effort, as the header says: the next opening finds what stays.
            let _ = disk.remove(&path);
        });
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::error::Kind;

    fn disk() -> (Arc<MemoryDisk>, Arc<dyn Disk>, Arc<Removals>) {
        let memory = MemoryDisk::new();
        memory.replace("a", b"bytes").unwrap();
        (Arc::clone(&memory), memory, Removals::new(true))
    }

    #[test]
    fn a_file_goes_with_its_last_count_unless_it_is_kept() {
        let (memory, disk, removals) = disk();
        let first = SharedFile::kept(&disk, "a", Access::Buffered, &removals);
        first.release();
        let second = Arc::clone(&first);
        drop(first);
        assert!(memory.exists("a").unwrap());
        let handle = Arc::clone(second.file().unwrap());
        drop(second);
        assert!(memory.exists("a").unwrap(), "whoever drops it has no time to remove it");
        assert_eq!(removals.collect(1), 1);
        assert!(!memory.exists("a").unwrap());
        assert_eq!(handle.len().unwrap(), 5);

        let made = disk.open("b", Mode::Create, Access::Buffered).unwrap();
        drop(SharedFile::unkept(&disk, Arc::clone(&made), &removals));
        assert_eq!(removals.collect(usize::MAX), 1);
        assert!(!memory.exists("b").unwrap());
        let made = disk.open("b", Mode::Create, Access::Buffered).unwrap();
        let kept = SharedFile::unkept(&disk, made, &removals);
        kept.keep();
        drop(kept);
        assert_eq!(removals.collect(usize::MAX), 0);
        assert!(memory.exists("b").unwrap());
    }

    #[test]
    fn nothing_is_removed_once_removals_are_stopped() {
        let (memory, disk, removals) = disk();
        let file = SharedFile::kept(&disk, "a", Access::Buffered, &removals);
        file.release();
        removals.stop();
        drop(file);
        assert_eq!(removals.collect(1), 0);
        assert!(memory.exists("a").unwrap());
    }

    #[test]
    fn what_waits_stays_when_removals_are_stopped() {
        let (memory, disk, removals) = disk();
        let file = SharedFile::kept(&disk, "a", Access::Buffered, &removals);
        file.release();
        drop(file);
        removals.stop();
        assert_eq!(removals.collect(1), 0);
        assert!(memory.exists("a").unwrap());
    }

    #[test]
    fn a_file_is_opened_at_its_first_use_and_an_error_is_not_remembered() {
        let (memory, disk, removals) = disk();
        let file = SharedFile::kept(&disk, "later", Access::Buffered, &removals);
        assert_eq!(file.file().unwrap_err().kind(), Kind::Missing);
        memory.replace("later", b"x").unwrap();
        assert_eq!(file.file().unwrap().len().unwrap(), 1);
        assert!(Arc::ptr_eq(file.file().unwrap(), file.file().unwrap()));
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
                    let file = SharedFile::kept(&disk, "a", Access::Buffered, &removals);
                    let threads: Vec<_> = (0..3)
                        .map(|number| {
                            let (file, removals) = (Arc::clone(&file), Arc::clone(&removals));
                            shuttle::thread::spawn(move || {
                                assert_eq!(file.file().expect("it is there").len().expect("5"), 5);
                                shuttle::thread::yield_now();
                                if number == 0 && stopped {
                                    removals.stop();
                                }
                                file.release();
                                shuttle::thread::yield_now();
                                assert!(file.disk.exists("a").expect("memory answers"));
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

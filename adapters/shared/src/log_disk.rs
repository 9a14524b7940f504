//! A disk that can sync the log on demand.
//!
//! With [`varvite::Log::Written`] an update is in the log when its call returns, and a power cut may
//! take the newest ones. A file before the last is synced before the next one begins, and what a record refers
//! to is durable before the record is written. So a sync of the last log file makes every update so far
//! durable, and this disk knows that file: the session opens it here.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use varvite::Result;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode, Queue};

/// The folder of the log in a session.
const LOG: &str = "log/";

/// A disk that remembers which files of the log are open to be written.
#[derive(Debug)]
pub struct LogDisk {
    disk: Arc<dyn Disk>,
    open: Mutex<Vec<Weak<dyn File>>>,
}

impl LogDisk {
    /// The same as `disk`.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>) -> Arc<LogDisk> {
        Arc::new(LogDisk { disk, open: Mutex::default() })
    }

    /// Makes everything durable that was written to the log before the call. After an error nobody knows
    /// what is: write no more, and open the session again.
    pub fn sync_log(&self) -> Result<()> {
        let open: Vec<_> = {
            let files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            files.iter().filter_map(Weak::upgrade).collect()
        };
        open.iter().try_for_each(|file| file.sync())
    }
}

impl Disk for LogDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode, access)?;
        if mode != Mode::Read && path.starts_with(LOG) {
            let mut files = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            files.retain(|file| file.strong_count() > 0);
            files.push(Arc::downgrade(&file));
        }
        Ok(file)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.disk.create_directory(path)
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        self.disk.remove_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.disk.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.disk.lock(path, holder)
    }

    fn lock_directory(&self, path: &str) -> Result<Option<Box<dyn Lock>>> {
        self.disk.lock_directory(path)
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.disk.link_or_copy(from, to)
    }

    fn link_or_copy_to(&self, from: &str, target: &dyn Disk, to: &str) -> Result<Linked> {
        self.disk.link_or_copy_to(from, target, to)
    }

    fn folder(&self) -> Option<&Path> {
        self.disk.folder()
    }

    fn open_files_max(&self) -> Option<u64> {
        self.disk.open_files_max()
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        self.disk.queue(depth)
    }

    fn entropy(&self) -> Result<u64> {
        self.disk.entropy()
    }

    fn root(&self) -> &str {
        self.disk.root()
    }
}

#[cfg(test)]
mod tests {
    use varvite::disk::memory::MemoryDisk;
    use varvite::disk::sim::SimDisk;
    use varvite::{Batch, Log, OpenTable, Session, SessionOptions, TableOptions};

    use super::*;

    #[test]
    fn only_files_of_the_log_that_are_open_to_write_are_remembered() -> Result<()> {
        let disk = LogDisk::new(MemoryDisk::seeded(1));
        disk.create_directory("log")?;
        let open = || disk.open.lock().expect("no panic").len();
        let file = disk.open("log/1", Mode::Create, Access::Buffered)?;
        let _other = disk.open("session", Mode::Create, Access::Buffered)?;
        let _read = disk.open("log/1", Mode::Read, Access::Buffered)?;
        assert_eq!(open(), 1);
        disk.sync_log()?;
        drop(file);
        let _next = disk.open("log/2", Mode::Create, Access::Buffered)?;
        assert_eq!(open(), 1, "the first one is closed");
        Ok(())
    }

    /// In how many of the images that power cuts leave each of two keys is missing.
    fn losses(syncs: bool) -> Result<[usize; 2]> {
        let sim = SimDisk::new(1);
        let disk = LogDisk::new(Arc::<SimDisk>::clone(&sim));
        let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
        let shared = Arc::<LogDisk>::clone(&disk);
        let session = Session::create(shared, SessionOptions { log_file_bytes: 4096, ..options })?;
        let mut table = session.create_table("t", TableOptions::default())?;
        // The log comes to its second file, and further.
        for number in 0..100_u32 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 100]))?;
        }
        table.update(Batch::new().insert(b"before", b"1"))?;
        if syncs {
            disk.sync_log()?;
        }
        table.update(Batch::new().insert(b"after", b"1"))?;
        let mut losses = [0; 2];
        for (_, image) in sim.crash_images(8, 64) {
            let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
            let session = Session::open(image, options)?;
            let table = session.open_table("t", &OpenTable::default())?;
            for (number, key) in [&b"before"[..], b"after"].into_iter().enumerate() {
                losses[number] += usize::from(table.get(key)?.is_none());
            }
        }
        Ok(losses)
    }

    #[test]
    fn what_was_written_before_a_sync_outlives_a_power_cut() -> Result<()> {
        let [before, after] = losses(true)?;
        assert_eq!(before, 0);
        assert!(after > 0, "what came after it was never synced");
        assert!(losses(false)?[0] > 0, "without the sync it may be lost");
        Ok(())
    }
}

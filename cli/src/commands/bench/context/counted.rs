//! A disk that counts the reads of its files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varvite::Result;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode};

/// See the module.
#[derive(Debug)]
pub(super) struct CountedDisk {
    disk: Arc<dyn Disk>,
    reads: Arc<AtomicU64>,
}

impl CountedDisk {
    pub(super) fn new(disk: Arc<dyn Disk>, reads: &Arc<AtomicU64>) -> Arc<CountedDisk> {
        Arc::new(CountedDisk { disk, reads: Arc::clone(reads) })
    }
}

impl Disk for CountedDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let file = self.disk.open(path, mode, access)?;
        Ok(Arc::new(CountedFile { file, reads: Arc::clone(&self.reads) }))
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

    fn root(&self) -> &str {
        self.disk.root()
    }
}

#[derive(Debug)]
struct CountedFile {
    file: Arc<dyn File>,
    reads: Arc<AtomicU64>,
}

impl File for CountedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.file.set_len(length_bytes)
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.file.preallocate(length_bytes)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn path(&self) -> &str {
        self.file.path()
    }
}

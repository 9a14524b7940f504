//! A folder of a disk as a disk of its own, which counts what goes through it.
//!
//! With it one store can keep another in a folder of its own, and still say how much was written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, Disk, File, Linked, Lock, Mode, Queue};
use crate::error::Result;
use crate::sync::{AtomicU64, Ordering};

/// Bytes and syncs that went through a [`Subfolder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) written_bytes: u64,
    /// Of files and of folders.
    pub(crate) syncs: u64,
}

/// The folder `name` of `disk`.
pub(crate) struct Subfolder {
    disk: Arc<dyn Disk>,
    name: String,
    root: String,
    /// Where it is in the system's tree of folders.
    folder: Option<PathBuf>,
    traffic: Arc<FolderCounters>,
}

super::names_itself!(Subfolder);

#[derive(Default)]
struct FolderCounters {
    written_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl Subfolder {
    /// The folder `name`, which is made by [`Subfolder::make`] if it is not there.
    pub(crate) fn new(disk: Arc<dyn Disk>, name: &str) -> Arc<Subfolder> {
        let root = format!("{}/{name}", disk.root());
        let folder = disk.folder().map(|folder| folder.join(name));
        Arc::new(Subfolder { disk, name: name.to_owned(), root, folder, traffic: Arc::default() })
    }

    /// Makes the folder; does nothing when it is there.
    pub(crate) fn make(&self) -> Result<()> {
        self.disk.create_directory(&self.name)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            written_bytes: self.traffic.written_bytes.load(Ordering::Relaxed),
            syncs: self.traffic.syncs.load(Ordering::Relaxed),
        }
    }

    fn inner(&self, path: &str) -> String {
        if path.is_empty() { self.name.clone() } else { format!("{}/{path}", self.name) }
    }
}

impl Disk for Subfolder {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let file = self.disk.open(&self.inner(path), mode, access)?;
        if mode == Mode::Read {
            return Ok(file);
        }
        Ok(Arc::new(Counted { file, traffic: Arc::clone(&self.traffic) }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(&self.inner(from), &self.inner(to))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(&self.inner(path))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(&self.inner(directory))
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.disk.create_directory(&self.inner(path))
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        self.disk.remove_directory(&self.inner(path))
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(&self.inner(path))
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.traffic.syncs.fetch_add(1, Ordering::Relaxed);
        self.disk.sync_directory(&self.inner(path))
    }

    fn forgets_names(&self) -> bool {
        self.disk.forgets_names()
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.disk.lock(&self.inner(path), holder)
    }

    fn lock_directory(&self, path: &str) -> Result<Option<Box<dyn Lock>>> {
        self.disk.lock_directory(&self.inner(path))
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.disk.link_or_copy(&self.inner(from), &self.inner(to))
    }

    fn link_in(&self, from: &Path, to: &str) -> Result<Option<Linked>> {
        self.disk.link_in(from, &self.inner(to))
    }

    fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
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
        &self.root
    }
}

/// A file that is written to.
struct Counted {
    file: Arc<dyn File>,
    traffic: Arc<FolderCounters>,
}

super::names_itself!(Counted);

impl File for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.traffic.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.traffic.syncs.fetch_add(1, Ordering::Relaxed);
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

    fn access(&self) -> Access {
        self.file.access()
    }

    fn start_writeback(&self, offset: u64, length_bytes: u64) {
        self.file.start_writeback(offset, length_bytes);
    }

    fn forget(&self, offset: u64, length_bytes: u64) {
        self.file.forget(offset, length_bytes);
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.file.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;

    #[test]
    fn names_stay_inside_and_writes_are_counted() {
        let disk = MemoryDisk::new();
        let folder = Subfolder::new(Arc::clone(&disk) as Arc<dyn Disk>, "part");
        folder.make().unwrap();
        folder.create_directory("a").unwrap();
        let file = folder.open("a/b", Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, b"12345").unwrap();
        file.sync().unwrap();
        folder.sync_directory("").unwrap();
        folder.rename("a/b", "a/c").unwrap();
        assert_eq!(disk.bytes("part/a/c").unwrap(), b"12345");
        assert_eq!(folder.list("").unwrap(), ["a"]);
        assert_eq!(folder.traffic(), Traffic { written_bytes: 5, syncs: 2 });
        assert!(folder.open("../x", Mode::Create, Access::Buffered).is_err());
    }
}

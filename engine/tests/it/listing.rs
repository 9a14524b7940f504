//! A reader lists the snapshots while a writer replaces the one that is there by the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode};
use varvite::{Result, Session, SessionOptions, SnapshotContent};

/// The reader's disk: before it opens a manifest, the writer replaces its snapshot, `left` times.
#[derive(Debug)]
struct Replacing {
    inner: Arc<MemoryDisk>,
    writer: Session,
    left: AtomicU64,
}

fn save(writer: &Session, number: u64) {
    let content = SnapshotContent { label: "", payload: b"", tables: &[] };
    writer.save_snapshot(&format!("s-{number}"), content).unwrap();
}

impl Disk for Replacing {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let left = self.left.load(Relaxed);
        if path.starts_with("snapshots/") && left > 0 {
            self.left.store(left - 1, Relaxed);
            let old = self.writer.list_snapshots()?.pop().unwrap().name;
            save(&self.writer, left - 1);
            self.writer.delete_snapshot(&old)?;
        }
        self.inner.open(path, mode, access)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.inner.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.inner.create_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.inner.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.inner.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.inner.lock(path, holder)
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.inner.link_or_copy(from, to)
    }

    fn root(&self) -> &str {
        self.inner.root()
    }
}

#[test]
fn a_listing_shows_the_snapshot_that_replaced_the_listed_one() {
    let inner = MemoryDisk::new();
    let disk = Arc::clone(&inner);
    let writer = Session::create(disk, SessionOptions::default()).unwrap();
    save(&writer, 1_000);
    let disk = Arc::new(Replacing { inner, writer, left: AtomicU64::new(0) });
    let reader =
        Session::open_read_only(Arc::<Replacing>::clone(&disk), SessionOptions::default()).unwrap();
    for replaced in [0, 1, 2, 7] {
        disk.left.store(replaced, Relaxed);
        let names: Vec<_> =
            reader.list_snapshots().unwrap().into_iter().map(|info| info.name).collect();
        let newest = if replaced == 0 { "s-1000" } else { "s-0" };
        assert_eq!(names, [newest], "{replaced} times");
    }
}

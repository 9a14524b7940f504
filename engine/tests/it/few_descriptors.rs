//! Backups, refreshes, followers, scrubs, checks, repairs, exports and imports of stores of many more files than
//! all disks together may have open.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode, Queue, SerialQueue};
use varvite::table::check::check;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{
    Batch, Error, Kind, Log, OpenTable, Result, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};

use crate::listed::Listed;

/// Files that one session may keep open.
const KEPT: usize = 4;
/// Descriptors that an operation may take beside those that are taken when it begins: what a session on the other
/// side keeps open, its lock and its log, and the files that are copied.
const MORE: usize = KEPT + 6;

/// So many that nobody who goes by them keeps to few.
const MANY: u64 = 1_000;

/// What a process has: so many descriptors, whatever they are of.
#[derive(Debug, Default)]
struct Descriptors {
    open: AtomicUsize,
    limit: AtomicUsize,
    refused: AtomicUsize,
    /// How many the disks say that the process has. Where it is many, only what keeps to the session's own number
    /// does with few.
    said: AtomicU64,
}

impl Descriptors {
    /// Does `work` with [`MORE`] descriptors beside those that are taken.
    fn with_few<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> T {
        let before = self.open.load(SeqCst);
        self.limit.store(before + MORE, SeqCst);
        let done = work().unwrap_or_else(|error| panic!("{what}: {error}"));
        self.limit.store(usize::MAX, SeqCst);
        assert_eq!(self.refused.load(SeqCst), 0, "{what} asked for more than {MORE}");
        done
    }

    /// The same of what has no session whose number it could keep to: the disks say how few there are.
    fn with_few_said<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> T {
        self.said.store(2 * KEPT as u64, SeqCst);
        let done = self.with_few(what, work);
        self.said.store(MANY, SeqCst);
        done
    }
}

/// One of them.
#[derive(Debug)]
struct Descriptor(Arc<Descriptors>);

impl Descriptor {
    fn take(all: &Arc<Descriptors>) -> Result<Descriptor> {
        let now = all.open.fetch_add(1, SeqCst) + 1;
        let descriptor = Descriptor(Arc::clone(all));
        if now > all.limit.load(SeqCst) {
            all.refused.fetch_add(1, SeqCst);
            return Err(Error::new(Kind::Io, "too many open files"));
        }
        Ok(descriptor)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, SeqCst);
    }
}

/// A disk whose open files and locks take descriptors.
#[derive(Debug)]
struct CountedDisk {
    inner: Arc<MemoryDisk>,
    all: Arc<Descriptors>,
}

#[derive(Debug)]
struct CountedFile {
    inner: Arc<dyn File>,
    _descriptor: Descriptor,
}

#[derive(Debug)]
struct CountedLock {
    _inner: Box<dyn Lock>,
    _descriptor: Descriptor,
}

impl Lock for CountedLock {}

impl Disk for CountedDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        // The system looks for the file first, and for a descriptor after it.
        let descriptor = match mode {
            Mode::Create => Descriptor::take(&self.all)?,
            _ if self.inner.exists(path)? => Descriptor::take(&self.all)?,
            _ => return self.inner.open(path, mode, access),
        };
        let inner = self.inner.open(path, mode, access)?;
        Ok(Arc::new(CountedFile { inner, _descriptor: descriptor }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.inner.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let _while_it_is_read = Descriptor::take(&self.all)?;
        self.inner.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.inner.create_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.inner.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        let _while_it_is_synced = Descriptor::take(&self.all)?;
        self.inner.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        let descriptor = Descriptor::take(&self.all)?;
        let inner = self.inner.lock(path, holder)?;
        Ok(Box::new(CountedLock { _inner: inner, _descriptor: descriptor }))
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        let _while_it_is_copied = (Descriptor::take(&self.all)?, Descriptor::take(&self.all)?);
        self.inner.link_or_copy(from, to)
    }

    fn open_files_max(&self) -> Option<u64> {
        Some(self.all.said.load(SeqCst))
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        Ok(Box::new(SerialQueue::new(depth)))
    }

    fn entropy(&self) -> Result<u64> {
        self.inner.entropy()
    }

    fn root(&self) -> &str {
        self.inner.root()
    }
}

impl File for CountedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.inner.set_len(length_bytes)
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.inner.preallocate(length_bytes)
    }

    fn len(&self) -> Result<u64> {
        self.inner.len()
    }

    fn path(&self) -> &str {
        self.inner.path()
    }

    fn access(&self) -> Access {
        self.inner.access()
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> SessionOptions {
    SessionOptions {
        max_open_files: Some(KEPT),
        segment_bytes: 12 << 10,
        log: Log::Synced,
        log_file_bytes: 20_000,
        ..SessionOptions::default()
    }
}

fn table_options() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 10_000,
        size_ratio: 2,
        blob_min_bytes: Some(300),
        ..TableOptions::default()
    }
}

fn change(table: &mut Table, model: &mut Model, from: u64, to: u64) {
    for number in (from..to).step_by(20) {
        let mut batch = Batch::new();
        for number in number..number + 20 {
            let length = if number.is_multiple_of(9) { 400 } else { 60 };
            let (key, value) = (number * 919 % 8_000, number.to_be_bytes().repeat(length / 8));
            batch.insert(&key.to_be_bytes(), &value);
            model.insert(key.to_be_bytes().to_vec(), value);
        }
        table.update(&batch).unwrap();
    }
}

fn compare(table: &Table, model: &Model) -> Result<()> {
    let listed = table.listed(Unbounded, Unbounded)?;
    assert!(listed.iter().map(|(key, value)| (key, value)).eq(model));
    Ok(())
}

/// What is in a store that checks clean.
fn compare_store(disk: &Arc<dyn Disk>, model: &Model) -> Result<()> {
    let report = check(disk, |_| ControlFlow::Continue(()))?;
    assert_eq!(report.findings, Vec::new());
    let session = Session::open_read_only(Arc::clone(disk), options())?;
    compare(&session.open_table("t", &OpenTable::default())?, model)
}

#[test]
fn whole_stores_are_copied_followed_and_repaired_with_few_descriptors() {
    let all = Arc::new(Descriptors::default());
    all.limit.store(usize::MAX, SeqCst);
    all.said.store(MANY, SeqCst);
    let disk = |seed| -> Arc<dyn Disk> {
        Arc::new(CountedDisk { inner: MemoryDisk::seeded(seed), all: Arc::clone(&all) })
    };
    let (source, backup, other) = (disk(1), disk(2), disk(3));
    let session = Session::create(Arc::clone(&source), options()).unwrap();
    let mut table = session.create_table("t", table_options()).unwrap();
    let mut model = Model::new();
    change(&mut table, &mut model, 0, 9_000);
    let files = source.list("segments").unwrap().len();
    assert!(files > 4 * MORE, "{files} files");

    let reader = Session::open_read_only(Arc::clone(&source), options()).unwrap();
    let following = || reader.follow(&OpenTable::default());
    let mut follower = all.with_few("a follower", following);
    for round in 1..4 {
        let backed_up = all.with_few("a backup", || session.backup(&backup, Verify::Full));
        assert!(backed_up.moved.segments > MORE as u64, "{backed_up:?}");
        all.with_few_said("a look at it", || compare_store(&backup, &model));
        all.with_few("a reader's backup", || reader.backup(&other, Verify::Quick));
        all.with_few_said("a look at that", || compare_store(&other, &model));
        all.with_few("a reload", || follower.reload());
        all.with_few("a look at what is followed", || compare(follower.table("t")?, &model));
        change(&mut table, &mut model, round * 2_000 + 9_000, round * 2_000 + 11_000);
    }
    all.with_few("a scrub", || {
        let mut scrub = session.scrub(0)?;
        while scrub.work(1_000)? > 0 {}
        assert_eq!(scrub.findings(), &[]);
        Ok(())
    });
    drop((follower, reader));

    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    all.with_few("a snapshot", || session.save_snapshot("s", content));
    let parcel = disk(4);
    all.with_few("an export", || session.export_snapshot("s", &parcel, Verify::Full));
    all.with_few("an import", || session.import_snapshot(&parcel, "s", "again", Verify::Full));
    compare(&table, &model).unwrap();
    drop(table);
    session.close().unwrap();
    all.with_few_said("a look at the source", || compare_store(&source, &model));

    let repaired = disk(5);
    let options = RepairOptions::default();
    let report = all.with_few_said("a repair", || repair(&source, &repaired, &options));
    assert_eq!(report.losses, Vec::new());
    all.with_few_said("a look at what was repaired", || compare_store(&repaired, &model));
    assert_eq!(all.open.load(SeqCst), 0, "nobody has a file open any more");
}

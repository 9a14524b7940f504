//! Readers on several threads beside a writer, its merges and a host: nobody sees anything but the moment
//! that a view was taken, and nobody waits for the writer's disk.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use varvite::cache::Cache;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode};
use varvite::{Executor, Result, Session, SessionOptions, SnapshotContent, View};

use crate::model::table as model;
use crate::random::{Random, setting};
use crate::setup::{Help, Keys, Setup};
use crate::story::SETUP;

type Work = Box<dyn FnOnce() + Send>;

/// Hands work to threads of the test.
struct Threads(Mutex<Sender<Work>>);

impl Executor for Threads {
    fn execute(&self, work: Work) {
        // When the helpers are gone the work is dropped, and the writer does it.
        drop(self.0.lock().unwrap().send(work));
    }
}

fn help(work: &Mutex<Receiver<Work>>) {
    loop {
        let next = work.lock().unwrap().recv();
        let Ok(next) = next else { return };
        next();
    }
}

/// Reads `view` in all ways and compares.
fn read(view: &View, model: &model::Table, setup: &Setup, random: &mut Random) {
    let keys: Vec<_> = (0..20).map(|_| setup.any_key(random)).collect();
    let found = view.lookup(&keys).unwrap();
    for (key, found) in keys.iter().zip(found.iter()) {
        assert_eq!(found, model.get(key));
    }
    let mut cursor = view.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    let mut expected = model.cursor(Bound::Unbounded, Bound::Unbounded);
    cursor.seek(&keys[0]);
    expected.seek(&keys[0]);
    for _ in 0..30 {
        if random.one_in(4) {
            assert_eq!(cursor.previous().unwrap(), expected.previous());
        } else {
            assert_eq!(cursor.next().unwrap(), expected.next());
        }
    }
    if random.one_in(8) {
        let all = view.range(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert!(all == model.range(Bound::Unbounded, Bound::Unbounded));
    }
}

#[test]
fn readers_see_their_moment_while_a_writer_and_helpers_work() {
    let setup = Setup { key_count: 3_000, keys: Keys::Hashed, helper: Help::Later, ..SETUP };
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    let options = SessionOptions {
        executor: Some(Arc::new(Threads(Mutex::new(sender)))),
        cache: Some(Cache::new(100_000)),
        ..SessionOptions::default()
    };
    let session = Session::create(MemoryDisk::new(), options).unwrap();
    let table_options =
        varvite::TableOptions { write_buffer_bytes: 20_000, ..setup.table_options() };
    let mut table = session.create_table("t", table_options).unwrap();
    let mut model = model::Table::default();
    let latest = Mutex::new((table.view(), model.clone()));
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| help(&receiver));
        for reader in 0..3 {
            let (latest, done, reads, setup) = (&latest, &done, &reads, &setup);
            scope.spawn(move || {
                let mut random = Random::new(reader);
                while !done.load(Ordering::Acquire) {
                    let (view, model) = latest.lock().unwrap().clone();
                    for _ in 0..=random.below(6) {
                        read(&view, &model, setup, &mut random);
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for seed in 0..setting("VARVITE_STEPS", 1_500) {
            let changes = setup.changes(seed, 100);
            table.update(&model::batch(&changes)).unwrap();
            model.update(&changes, setup.join());
            *latest.lock().unwrap() = (table.view(), model.clone());
            if seed % 100 == 99 {
                let name = format!("s{}", seed / 100 % 3);
                drop(session.delete_snapshot(&name));
                let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
                session.save_snapshot(&name, content).unwrap();
            }
        }
        done.store(true, Ordering::Release);
        read(&table.view(), &model, &setup, &mut Random::new(1));
        // The helper ends when the last sender goes, and the session holds it.
        drop_all(session, table, &latest);
    });
    assert!(reads.load(Ordering::Relaxed) > 100, "the readers hardly read");
}

/// Drops every handle of the session, and with it the executor.
fn drop_all(session: Session, table: varvite::Table, latest: &Mutex<(View, model::Table)>) {
    let parking = Session::create(MemoryDisk::new(), SessionOptions::default()).unwrap();
    let other = parking.create_table("t", varvite::TableOptions::default()).unwrap();
    *latest.lock().unwrap() = (other.view(), model::Table::default());
    drop((session, table));
}

/// A gate before the writes and syncs of a disk.
#[derive(Debug, Default)]
struct Gate {
    /// Whether it is closed, and how many wait before it.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).unwrap();
        }
        state.1 -= 1;
    }

    fn set(&self, closed: bool) {
        self.state.lock().unwrap().0 = closed;
        self.changed.notify_all();
    }

    /// Whether somebody came to wait at the closed gate.
    fn holds_somebody(&self) -> bool {
        let state = self.state.lock().unwrap();
        let patience = Duration::from_mins(1);
        let waited = self.changed.wait_timeout_while(state, patience, |state| state.1 == 0);
        !waited.unwrap().1.timed_out()
    }
}

#[derive(Debug)]
struct GatedDisk(Arc<MemoryDisk>, Arc<Gate>);

#[derive(Debug)]
struct GatedFile(Arc<dyn File>, Arc<Gate>);

impl Disk for GatedDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let file = self.0.open(path, mode, access)?;
        Ok(Arc::new(GatedFile(file, Arc::clone(&self.1))))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.1.pass();
        self.0.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.0.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.0.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.0.create_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.0.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.1.pass();
        self.0.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.0.lock(path, holder)
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.0.link_or_copy(from, to)
    }

    fn root(&self) -> &str {
        self.0.root()
    }
}

impl File for GatedFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.1.pass();
        self.0.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.1.pass();
        self.0.sync()
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.0.set_len(length_bytes)
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.0.preallocate(length_bytes)
    }

    fn len(&self) -> Result<u64> {
        self.0.len()
    }

    fn path(&self) -> &str {
        self.0.path()
    }
}

/// Lets `write` run into the closed gate and reads meanwhile; whether the reader came through.
fn reads_while(
    gate: &Gate,
    view: &View,
    model: &model::Table,
    write: impl FnOnce() + Send,
) -> bool {
    gate.set(true);
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        scope.spawn(write);
        let held = gate.holds_somebody();
        scope.spawn(move || {
            let mut random = Random::new(3);
            (0..40).for_each(|_| read(view, model, &SETUP, &mut random));
            sender.send(()).unwrap_or_default();
        });
        let came = receiver.recv_timeout(Duration::from_mins(1)).is_ok();
        gate.set(false);
        held && came
    })
}

#[test]
fn a_reader_never_waits_for_a_writers_disk() {
    let gate = Arc::new(Gate::default());
    let disk = Arc::new(GatedDisk(MemoryDisk::new(), Arc::clone(&gate)));
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", SETUP.table_options()).unwrap();
    let mut model = model::Table::default();
    for seed in 0..12 {
        let changes = SETUP.changes(seed, 40);
        table.update(&model::batch(&changes)).unwrap();
        model.update(&changes, SETUP.join());
    }
    let view = table.view();
    let update = || {
        for seed in 20..30 {
            table.update(&model::batch(&SETUP.changes(seed, 40))).unwrap();
        }
    };
    assert!(reads_while(&gate, &view, &model, update), "a reader waited for an update");
    let save = || {
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("s", content).unwrap();
    };
    assert!(reads_while(&gate, &view, &model, save), "a reader waited for a snapshot");
}

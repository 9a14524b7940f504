//! Every operation of a session in every order of the threads' steps, while a call of the disk fails:
//! what was acknowledged is found again, by the next opening and after a power cut, and nothing is
//! half there; nor is it for a reader in another process.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use shuttle::thread;
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{
    Batch, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify, View,
};

use crate::hooked_disk::HookedDisk;

/// What a table is known to hold: its generation and rounds, which one more may have followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rounds {
    generation: u8,
    acknowledged: u8,
    /// An update failed after the last that was acknowledged.
    failed: bool,
}

/// What is known of a thing that is made and deleted.
#[derive(Debug)]
struct Known<T> {
    /// What it was when that was last acknowledged, if it was there.
    there: Option<T>,
    /// What it may be instead, since making or deleting it failed.
    or: Vec<Option<T>>,
}

/// What every thread was told.
#[derive(Debug)]
struct Told {
    both: Rounds,
    table: Known<Rounds>,
    published: Known<Rounds>,
    snapshots: [Known<()>; 2],
    refused: usize,
}

type Shared = Arc<Mutex<Told>>;

const SNAPSHOTS: [&str; 2] = ["s0", "s1"];

fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 500, ..SessionOptions::default() }
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 150, size_ratio: 2, ..TableOptions::default() }
}

fn yielding(sim: &Arc<SimDisk>) -> Arc<dyn Disk> {
    HookedDisk::new(Arc::clone(sim) as _, |call, _| {
        if call.changes() {
            thread::yield_now();
        }
    })
}

/// Round `number` of a generation.
fn batch(generation: u8, number: u8) -> Batch {
    let mut batch = Batch::new();
    batch.insert(&[number], &[generation; 30]).insert(b"last", &[number]);
    batch
}

/// The generation and the rounds of a table, which has all of each of them.
fn rounds(table: &Table) -> (Option<u8>, u8) {
    let all: Vec<(Vec<u8>, Vec<u8>)> =
        table.iter().map(Result::unwrap).map(|(key, value)| (key.into(), value.into())).collect();
    let count = (all.len() as u8).saturating_sub(1);
    let generation = all.first().map(|(_, value)| value[0]);
    let whole = (0..count).map(|number| (vec![number], vec![generation.unwrap(); 30]));
    let last = count.checked_sub(1).map(|last| (b"last".to_vec(), vec![last]));
    assert_eq!(all, whole.chain(last).collect::<Vec<_>>());
    (generation, count)
}

/// What became of a call; anything but a fault of the disk, or `also`, is none of its answers.
fn outcome<T>(result: varvite::Result<T>, told: &Shared, also: &[Kind]) -> Result<T, Kind> {
    result.map_err(|error| {
        let kind = error.kind();
        let is_fault = matches!(kind, Kind::Io | Kind::Poisoned);
        assert!(is_fault || also.contains(&kind), "{error}");
        told.lock().unwrap().refused += usize::from(is_fault);
        kind
    })
}

impl Rounds {
    fn new(generation: u8) -> Rounds {
        Rounds { generation, acknowledged: 0, failed: false }
    }

    fn note(&mut self, number: u8, is_done: bool) {
        if is_done {
            (self.acknowledged, self.failed) = (number + 1, false);
        } else {
            self.failed = true;
        }
    }

    /// Whether a table may hold what was found of it.
    fn fits(self, found: (Option<u8>, u8), log: Log, crash: Crash) -> bool {
        let most = self.acknowledged + u8::from(self.failed);
        let is_kept = log == Log::Synced || crash == Crash::Process;
        let least = if is_kept { self.acknowledged } else { 0 };
        let of = found.0.is_none_or(|generation| generation == self.generation);
        of && (least..=most).contains(&found.1)
    }
}

impl<T: Copy> Known<T> {
    const NOTHING: Self = Known { there: None, or: Vec::new() };

    /// A call that should make it `to` ended so.
    fn note(&mut self, to: Option<T>, outcome: Result<(), Kind>) {
        match outcome {
            Ok(()) => *self = Known { there: to, or: Vec::new() },
            Err(Kind::Io | Kind::Poisoned) => self.or.push(to),
            Err(_) => {}
        }
    }

    /// What it may be, if it is there or not; at least one thing.
    fn states(&self, is_there: bool) -> Vec<Option<T>> {
        let mut states = self.or.clone();
        states.push(self.there);
        states.retain(|state| state.is_some() == is_there);
        states
    }
}

/// Both tables, a few rounds more, each of which is one record for both.
fn update_both(session: &Session, mut tables: [Table; 2], told: &Shared) {
    for number in 2..7 {
        let batch = batch(1, number);
        let [one, two] = &mut tables;
        let done = outcome(session.update(&mut [(one, &batch), (two, &batch)]), told, &[]);
        told.lock().unwrap().both.note(number, done.is_ok());
        if done.is_err() {
            // The same again would be another round, should this one come back.
            return;
        }
    }
}

/// A round of the table `t`, which the caller has.
fn update_table(table: &mut Table, told: &Shared) {
    let (found, number) = rounds(table);
    let generation = {
        let told = told.lock().unwrap();
        told.table.there.expect("it was made").generation
    };
    assert!(found.is_none_or(|found| found == generation), "{found:?}, not {generation}");
    let done = outcome(table.update(&batch(generation, number)), told, &[]);
    let mut told = told.lock().unwrap();
    told.table.there.as_mut().unwrap().note(number, done.is_ok());
}

fn make_and_delete(session: &Session, told: &Shared) {
    for generation in 10..13 {
        let made = outcome(session.create_table("t", small()), told, &[Kind::Exists]);
        let kind = made.as_ref().map(|_| ()).map_err(|kind| *kind);
        told.lock().unwrap().table.note(Some(Rounds::new(generation)), kind);
        if let Ok(mut table) = made {
            update_table(&mut table, told);
            update_table(&mut table, told);
        }
        if generation < 12 {
            let kinds = [Kind::Locked, Kind::Missing];
            let deleted = outcome(session.delete_table("t"), told, &kinds);
            told.lock().unwrap().table.note(None, deleted);
        }
    }
}

fn open_and_update(session: &Session, told: &Shared) {
    for _ in 0..4 {
        let kinds = [Kind::Locked, Kind::Missing];
        if let Ok(mut table) = outcome(session.open_table("t", &OpenTable::default()), told, &kinds)
        {
            update_table(&mut table, told);
        }
        thread::yield_now();
    }
}

fn publish(session: &Session, mut copy: Table, told: &Shared) {
    let published = outcome(session.publish(&mut copy), told, &[]);
    let there = Rounds { generation: 1, acknowledged: 2, failed: false };
    told.lock().unwrap().published.note(Some(there), published);
    if published.is_ok() {
        let done = outcome(copy.update(&batch(1, 2)), told, &[]);
        told.lock().unwrap().published.there.as_mut().unwrap().note(2, done.is_ok());
    }
}

fn save_and_delete(session: &Session, copy: &Table, told: &Shared) {
    for number in [0, 1, 0] {
        let content = SnapshotContent { label: "", payload: b"", tables: &[copy] };
        let name = SNAPSHOTS[number];
        let saved = outcome(session.save_snapshot(name, content), told, &[Kind::Exists]);
        told.lock().unwrap().snapshots[number].note(Some(()), saved);
        if number == 0 {
            let deleted = outcome(session.delete_snapshot(name), told, &[Kind::Missing]);
            told.lock().unwrap().snapshots[number].note(None, deleted);
        }
    }
}

/// Readers of this process look at what others change and delete, and let go in the middle of it.
fn look(session: &Session, views: Vec<View>) {
    for view in views {
        let all = || view.iter().map(Result::unwrap).collect::<Vec<_>>();
        let before = all();
        for name in SNAPSHOTS {
            check_snapshot(session, name);
            thread::yield_now();
        }
        assert_eq!(all(), before);
    }
}

fn check_snapshot(session: &Session, name: &str) -> bool {
    let full = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
    match session.open_snapshot(name, &full) {
        Ok(found) => {
            assert_eq!(rounds(&found.tables[0]), (Some(1), 2));
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            false
        }
    }
}

/// Another process looks on: whole rounds, those of one record together.
fn read(disk: Arc<dyn Disk>, log: Log) {
    let session = Session::open_read_only(disk, options(log)).unwrap();
    for _ in 0..3 {
        let tables = session.open_all(&OpenTable::default()).unwrap();
        let found = |name| tables.iter().find(|table| table.name() == name).map(rounds);
        assert!(found("a") == found("b") && found("a").unwrap().1 >= 2);
        tables.iter().for_each(|table| assert!(rounds(table).1 < 10));
        for name in SNAPSHOTS {
            check_snapshot(&session, name);
        }
        thread::yield_now();
    }
}

fn check(disk: Arc<SimDisk>, log: Log, crash: Crash, told: &Told) {
    let session = Session::open(disk, options(log)).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    let tables = session.open_all(&OpenTable::default()).unwrap();
    let found = |name| tables.iter().find(|table| table.name() == name).map(rounds);
    assert_eq!(found("a"), found("b"));
    let both = found("a").expect("it was made before any fault");
    assert!(told.both.fits(both, log, crash), "{both:?} of {told:?}, {crash:?}");
    for (name, known) in [("t", &told.table), ("p", &told.published)] {
        let found = found(name);
        let states = known.states(found.is_some());
        let fits = |state: &Option<Rounds>| match (state, found) {
            // Publishing writes out what is there, however the log is synced.
            (Some(rounds), Some(found)) => {
                rounds.fits(found, log, crash) && (name == "t" || found.1 >= 2)
            }
            _ => true,
        };
        assert!(states.iter().any(fits), "{name}: {found:?} of {told:?}, {crash:?}");
    }
    for (name, known) in SNAPSHOTS.into_iter().zip(&told.snapshots) {
        let is_there = check_snapshot(&session, name);
        assert!(!known.states(is_there).is_empty(), "{name}: {is_there}, {told:?}, {crash:?}");
    }
    session.close().unwrap();
}

/// One run; how many calls a fault was told to.
fn run(number: u64) -> usize {
    let log = [Log::Written, Log::Synced][(number % 2) as usize];
    let sim = SimDisk::new(number);
    let session = Session::create(yielding(&sim), options(log)).unwrap();
    let mut both = ["a", "b"].map(|name| session.create_table(name, small()).unwrap());
    for number in 0..2 {
        let [one, two] = &mut both;
        session.update(&mut [(one, &batch(1, number)), (two, &batch(1, number))]).unwrap();
    }
    // Old enough to be on disk as well, whatever the log's kind.
    let copies = ["p", "copy"].map(|name| both[0].duplicate(name).unwrap());
    session.delete_table("none").unwrap_err();
    drop(session.create_table("none", small()).unwrap());
    session.delete_table("none").unwrap();
    let told: Shared = Arc::new(Mutex::new(Told {
        both: Rounds { generation: 1, acknowledged: 2, failed: false },
        table: Known::NOTHING,
        published: Known::NOTHING,
        snapshots: [Known::NOTHING, Known::NOTHING],
        refused: 0,
    }));
    let faults = [Fault::Write, Fault::Sync, Fault::Space, Fault::Rename];
    sim.fail_at(1 + number / 8 % 60, faults[(number / 2 % 4) as usize]);
    let spawn = |action: Box<dyn FnOnce(&Session, &Shared) + Send>| {
        let (session, told) = (session.clone(), Arc::clone(&told));
        thread::spawn(move || action(&session, &told))
    };
    let [copy, kept] = copies;
    let views = vec![both[0].view(), copy.view(), both[1].view()];
    let mut threads = vec![
        spawn(Box::new(move |session, told| update_both(session, both, told))),
        spawn(Box::new(make_and_delete)),
        spawn(Box::new(open_and_update)),
        spawn(Box::new(move |session, told| publish(session, copy, told))),
        spawn(Box::new(move |session, told| save_and_delete(session, &kept, told))),
        spawn(Box::new(move |session, _| look(session, views))),
    ];
    let disk = Arc::clone(&sim);
    threads.push(thread::spawn(move || read(yielding(&disk), log)));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    if number.is_multiple_of(3) {
        let _ = session.close();
    } else {
        drop(session);
    }
    let told = Arc::into_inner(told).unwrap().into_inner().unwrap();
    for crash in [Crash::Process, Crash::Subset(0), Crash::Seed(number)] {
        check(sim.crash(crash), log, crash, &told);
    }
    told.refused
}

#[test]
fn shuttle_every_operation_beside_every_other_on_a_failing_disk() {
    let (number, refused) = (AtomicU64::new(0), Arc::new(AtomicUsize::new(0)));
    let told = Arc::clone(&refused);
    let one = move || {
        told.fetch_add(run(number.fetch_add(1, Relaxed)), Relaxed);
    };
    varvite::raw::sync::check_schedules(one, 500);
    assert!(refused.load(Relaxed) > 200, "{refused:?}");
}

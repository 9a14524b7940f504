//! A checkpoint on its way, a step an update: what a crash at each call of the disk leaves, and what else is done to tables
//! that it writes out.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Disk, Mode};
use varvite::{Batch, Log, OpenTable, Result, Session, SessionOptions, Table, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;

/// How many entries each live table has.
type Counts = BTreeMap<&'static str, u64>;

/// What is acknowledged, and that with what is being done.
type Told = [Counts; 2];

const IDLE: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const BUSY: &str = "busy";
const UPDATES: u64 = 330;

fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 1_000, seed: Some(42), ..SessionOptions::default() }
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 500, size_ratio: 2, ..TableOptions::default() }
}

fn act<T>(
    told: &mut Told,
    change: impl FnOnce(&mut Counts),
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    change(&mut told[1]);
    let done = work()?;
    let now = told[1].clone();
    told[0] = now;
    Ok(done)
}

fn create(session: &Session, told: &mut Told, name: &'static str) -> Result<Table> {
    let change = |it: &mut Counts| {
        it.insert(name, 0);
    };
    act(told, change, || session.create_table(name, small()))
}

fn insert(table: &mut Table, told: &mut Told, name: &'static str) -> Result<()> {
    let number = told[0][name];
    let mut batch = Batch::new();
    batch.insert(&number.to_be_bytes(), &[number as u8; 40]);
    act(told, |it| *it.get_mut(name).unwrap() += 1, || table.update(&batch))
}

fn begin(sim: &Arc<SimDisk>, told: &mut Told) -> Session {
    let session = Session::create(Arc::clone(sim) as _, options(Log::Synced)).unwrap();
    for name in IDLE {
        let mut table = create(&session, told, name).unwrap();
        insert(&mut table, told, name).unwrap();
    }
    session
}

/// One table is busy. Of those that idle, and are written out again and again, one is deleted and made again, one is
/// updated, and in the middle the session is opened again.
fn go_on(sim: &Arc<SimDisk>, mut session: Session, told: &mut Told) -> Result<u64> {
    let mut busy = create(&session, told, BUSY)?;
    let mut checkpoints = 0;
    for number in 0..UPDATES {
        insert(&mut busy, told, BUSY)?;
        match number % 67 {
            20 => {
                let change = |it: &mut Counts| {
                    it.remove("b");
                };
                act(told, change, || session.delete_table("b"))?;
                insert(&mut create(&session, told, "b")?, told, "b")?;
            }
            41 => insert(&mut session.open_table("d", &OpenTable::default())?, told, "d")?,
            60 => {
                checkpoints += session.stats().checkpoints;
                drop(busy);
                session.close()?;
                session = Session::open(Arc::clone(sim) as _, options(Log::Synced))?;
                busy = session.open_table(BUSY, &OpenTable::default())?;
            }
            _ => {}
        }
    }
    Ok(checkpoints + session.stats().checkpoints)
}

/// What a session has, with every entry looked at.
fn found(sim: Arc<SimDisk>) -> BTreeMap<String, u64> {
    let session = Session::open(sim as _, options(Log::Synced)).unwrap();
    let mut counts = BTreeMap::new();
    for name in session.live_tables().unwrap() {
        let table = session.open_table(&name, &OpenTable::default()).unwrap();
        let entries = table.listed(Bound::Unbounded, Bound::Unbounded).unwrap();
        for (number, (key, value)) in entries.iter().enumerate() {
            let expected = (&(number as u64).to_be_bytes()[..], &[number as u8; 40][..]);
            assert_eq!((&key[..], &value[..]), expected, "{name}");
        }
        counts.insert(name, entries.len() as u64);
    }
    assert_eq!(session.warnings(), Vec::<String>::new());
    counts
}

fn owned(counts: &Counts) -> BTreeMap<String, u64> {
    counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
}

#[test]
fn a_crash_at_any_step_of_a_checkpoint_leaves_every_table_as_it_was_acknowledged() {
    let mut killed = 0;
    for n in (1..).step_by(5) {
        let (sim, mut told) = (SimDisk::new(n), Told::default());
        let session = begin(&sim, &mut told);
        sim.kill_at(n);
        let outcome = go_on(&sim, session, &mut told);
        if let Ok(checkpoints) = outcome {
            assert!(checkpoints > 20, "{checkpoints}");
            assert_eq!(found(sim.crash(Crash::Subset(0))), owned(&told[0]));
            break;
        }
        assert!(sim.is_dead(), "{n}: {outcome:?}");
        killed += 1;
        for crash in [Crash::Subset(0), Crash::Subset(u64::MAX), Crash::Seed(n)] {
            let found = found(sim.crash(crash));
            let is_right = told.iter().any(|counts| owned(counts) == found);
            assert!(is_right, "killed at {n}, {crash:?}: {found:?}, of {told:?}");
        }
    }
    assert!(killed > 150, "{killed}");
}

fn filled(number: u64, count: u64) -> Batch {
    let mut batch = Batch::new();
    for value in 0..count {
        batch.insert(&(number * count + value).to_be_bytes(), &[7; 40]);
    }
    batch
}

/// What a checkpoint has on its way, before it stands: a busy table, and idle ones that were written out.
fn on_its_way(disk: Arc<dyn Disk>, idle: usize) -> (Session, Table) {
    let options = SessionOptions { log_file_bytes: 60_000, ..options(Log::Written) };
    let session = Session::create(disk, options).unwrap();
    for number in 0..idle {
        let mut table = session.create_table(&format!("idle-{number:02}"), small()).unwrap();
        table.update(&filled(1, 1)).unwrap();
    }
    let large = TableOptions { write_buffer_bytes: 4 << 20, ..TableOptions::default() };
    let busy = session.create_table("busy", large).unwrap();
    (session, busy)
}

/// Every update has a table that cannot be written out: the checkpoint goes on without it all the same.
#[test]
fn a_checkpoint_goes_on_where_every_update_has_a_table_that_cannot_be_written_out() {
    let sim = SimDisk::new(1);
    let (faulty, is_full) = (Arc::clone(&sim), Arc::new(AtomicBool::new(false)));
    let full = Arc::clone(&is_full);
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if call == Call::Open(Mode::Create) && path.starts_with("segments/") && full.load(SeqCst) {
            faulty.fail_at(1, Fault::Open);
        }
    });
    let (session, mut busy) = on_its_way(disk, 0);
    let mut stuck = session.create_table("stuck", small()).unwrap();
    is_full.store(true, SeqCst);
    let mut refused = 0;
    let before = session.stats().checkpoints;
    for number in 0..2_000 {
        // So little that its write buffer is never full.
        let (little, much) = (filled(number % 5, 1), filled(number, 3));
        let updated = session.update(&mut [(&mut busy, &much), (&mut stuck, &little)]);
        refused += usize::from(updated.is_err());
        if refused == 0 {
            continue;
        }
        assert_eq!(session.warnings().len(), 1, "{:?}", session.warnings());
        if refused == 200 {
            break;
        }
    }
    assert_eq!(refused, 200);
    // One for each log file that was full, that without it among them. None of these goes, since it needs them.
    let written = session.stats().checkpoints - before;
    let files = sim.list("log").unwrap().len() as u64;
    assert!(files > 2 && written == files - 1, "{written} checkpoints, {files} log files");
    is_full.store(false, SeqCst);
    let taken = (0..64).take_while(|_| {
        session.update(&mut [(&mut busy, &filled(1, 1)), (&mut stuck, &filled(1, 1))]).is_err()
    });
    assert!(taken.count() < 64);
}

/// What was written out for a checkpoint takes the room that the checkpoint itself needs: it is given up.
#[test]
fn a_checkpoint_without_room_gives_up_what_was_written_out_for_it() {
    let sim = SimDisk::new(1);
    let (inner, is_armed) = (Arc::clone(&sim), Arc::new(AtomicBool::new(false)));
    let armed = Arc::clone(&is_armed);
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if call == Call::Open(Mode::Create) && path == "checkpoint.tmp" && armed.swap(false, SeqCst)
        {
            // The reserve would do.
            inner.remove("reserve").unwrap();
            inner.capacity(Some(inner.total_bytes()));
        }
    });
    let (session, mut busy) = on_its_way(disk, 20);
    let mut number = 0;
    let mut update = |session: &Session| {
        busy.update(&filled(number, 1)).unwrap_or_else(|error| panic!("update {number}: {error}"));
        number += 1;
        assert!(number < 20_000, "{:?}", session.stats());
    };
    while sim.list("segments").unwrap().is_empty() {
        update(&session);
    }
    let before = session.stats().checkpoints;
    is_armed.store(true, SeqCst);
    while is_armed.load(SeqCst) {
        update(&session);
    }
    assert_eq!(session.stats().checkpoints, before + 1);
    assert_eq!(session.warnings(), Vec::<String>::new());
    sim.capacity(None);
    drop((busy, session));
    let options = SessionOptions { log_file_bytes: 60_000, ..options(Log::Written) };
    let session = Session::open(sim as _, options).unwrap();
    for table in session.open_all(&OpenTable::default()).unwrap() {
        assert!(table.iter().count() >= 1, "{}", table.name());
    }
}

/// The next log file finds no room while a checkpoint is on its way, whose end would make some.
#[test]
fn a_log_file_without_room_waits_for_the_checkpoint_that_is_on_its_way() {
    // With room for so many log files, what an update makes among them: how many there were at most.
    let most_files = |room: usize| {
        let (sim, most) = (SimDisk::new(1), Arc::new(AtomicUsize::new(0)));
        let (inner, seen) = (Arc::clone(&sim), Arc::clone(&most));
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            let makes_log = path.starts_with("log/") && path.ends_with("log.tmp");
            if makes_log && call == Call::Write {
                // With the one that is made.
                let files = inner.list("log").unwrap().len();
                seen.fetch_max(files, SeqCst);
                inner.capacity((files > room).then(|| inner.total_bytes()));
            } else if call != Call::Sync {
                inner.capacity(None);
            }
        });
        let session = Session::create(disk, options(Log::Written)).unwrap();
        let small = TableOptions { write_buffer_bytes: 4_000, ..TableOptions::default() };
        let [mut busy, mut idle] =
            ["busy", "idle"].map(|name| session.create_table(name, small.clone()).unwrap());
        for number in 0..200_u64 {
            let mut batch = Batch::new();
            batch.insert(&number.to_be_bytes(), &[7; 1_200]);
            busy.update(&batch).unwrap_or_else(|error| panic!("{number} of {room}: {error}"));
            if number % 20 == 0 {
                idle.update(&filled(number, 1)).unwrap();
            }
        }
        most.load(SeqCst)
    };
    let most = most_files(usize::MAX);
    assert!(most_files(most - 1) < most + 1 && most > 3, "{most}");
}

/// A table that is deleted between two steps takes with it what was written out of it.
#[test]
fn what_was_written_out_goes_with_its_table() {
    let sim = SimDisk::new(1);
    let (session, mut busy) = on_its_way(Arc::clone(&sim) as _, 20);
    let segments = || sim.list("segments").unwrap();
    let mut number = 0;
    while segments().is_empty() {
        busy.update(&filled(number, 1)).unwrap();
        number += 1;
        assert!(number < 20_000);
    }
    session.delete_table("idle-00").unwrap();
    // What nothing names any more is a spare file.
    let paths = segments().into_iter().map(|name| format!("segments/{name}"));
    let bytes = paths.map(|path| sim.bytes(&path).unwrap().len());
    assert_eq!(bytes.sum::<usize>() as u64, session.stats().spare_bytes, "{:?}", segments());
    for _ in 0..200 {
        busy.update(&filled(number, 1)).unwrap();
        number += 1;
    }
    drop((busy, session));
    let options = SessionOptions { log_file_bytes: 60_000, ..options(Log::Written) };
    let session = Session::open(sim as _, options).unwrap();
    assert_eq!(session.open_all(&OpenTable::default()).unwrap().len(), 20);
}

/// Log files that were held become removable long after the last one went: they go one after the other all the same.
#[test]
fn files_that_were_held_go_in_pieces_however_much_was_logged_meanwhile() {
    const FILE_BYTES: u64 = 500_000;
    let (removals, disk) = (Arc::new(AtomicUsize::new(0)), MemoryDisk::seeded(1));
    let counted = Arc::clone(&removals);
    let source = HookedDisk::new(disk.clone() as _, move |call, path| {
        if call == Call::Remove && path.starts_with("log/") {
            counted.fetch_add(1, SeqCst);
        }
    });
    let options = SessionOptions { log_file_bytes: FILE_BYTES, ..options(Log::Written) };
    let session = Session::create(source, options).unwrap();
    let large = TableOptions { write_buffer_bytes: 8 << 20, ..TableOptions::default() };
    let medium = TableOptions { write_buffer_bytes: 64 << 10, ..TableOptions::default() };
    let mut idle = session.create_table("idle", large).unwrap();
    let mut busy = session.create_table("busy", medium).unwrap();
    let mut number = 0_u64;
    let mut update = move || {
        number += 1;
        busy.update(Batch::new().insert(&(number % 50).to_be_bytes(), &[7; 6_000])).unwrap();
    };
    let files = || disk.list("log").unwrap().len();
    // All of them are kept for one table.
    while files() < 14 {
        idle.update(&filled(1, 1)).unwrap();
        update();
    }
    drop(idle);
    // But for one, which goes.
    removals.store(0, SeqCst);
    let most = files() + 2;
    while removals.load(SeqCst) == 0 {
        update();
        assert!(files() <= most);
    }
    loop {
        let before = removals.load(SeqCst);
        update();
        if removals.load(SeqCst) == before {
            break;
        }
    }
    let kept = files();
    let (acts, more) = (session.clone(), Arc::new(Mutex::new(update)));
    let (within, is_held) = (Arc::clone(&more), AtomicBool::new(true));
    let target = HookedDisk::new(MemoryDisk::seeded(2), move |call, path| {
        if call == Call::Rename && path.starts_with("log/") && is_held.swap(false, SeqCst) {
            acts.delete_table("idle").unwrap();
            (0..65).for_each(|_| (within.lock().unwrap())());
        }
    });
    let target = target as Arc<dyn Disk>;
    session.backup(&target, varvite::Verify::Quick).unwrap();
    assert_eq!((files(), session.live_tables().unwrap().len()), (kept, 1), "no file went or began");
    assert!(kept > 10, "{kept}");
    removals.store(0, SeqCst);
    (more.lock().unwrap())();
    assert_eq!(removals.load(SeqCst), 1, "files that one update removed, each of a piece");
}

//! A checkpoint on its way, a step an update: what a crash at each call of the disk leaves, and what else is done to tables
//! that it writes out.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use varvite::disk::sim::{Crash, SimDisk};
use varvite::{Batch, Log, OpenTable, Result, Session, SessionOptions, Table, TableOptions};

use crate::listed::Listed;

/// How many entries each live table has.
type Counts = BTreeMap<&'static str, u64>;

/// What is acknowledged, and that with what is being done.
type Told = [Counts; 2];

const IDLE: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const BUSY: &str = "busy";
const UPDATES: u64 = 330;

fn options() -> SessionOptions {
    let log = Log::Synced;
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
    let session = Session::create(Arc::clone(sim) as _, options()).unwrap();
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
                session = Session::open(Arc::clone(sim) as _, options())?;
                busy = session.open_table(BUSY, &OpenTable::default())?;
            }
            _ => {}
        }
    }
    Ok(checkpoints + session.stats().checkpoints)
}

/// What a session has, with every entry looked at.
fn found(sim: Arc<SimDisk>) -> BTreeMap<String, u64> {
    let session = Session::open(sim as _, options()).unwrap();
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

//! A writer, readers and helpers in every order of steps that a seed finds (only under `cfg(shuttle)`).

use std::sync::Arc;

use super::{
    Batch, Executor, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};
use crate::disk::sim::{Crash, Fault, SimDisk};
use crate::disk::{Disk, memory::MemoryDisk};
use crate::error::Kind;

/// Runs work on a thread of the scheduler that shuttle controls.
struct Threads;

impl Executor for Threads {
    fn execute(&self, work: Box<dyn FnOnce() + Send>) {
        shuttle::thread::spawn(work);
    }
}

fn table(executor: Option<Arc<dyn Executor>>) -> Table {
    let options = SessionOptions { executor, ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).expect("memory does not fail");
    small_table(&session, "t")
}

fn small_table(session: &Session, name: &str) -> Table {
    let options =
        TableOptions { write_buffer_bytes: 200, size_ratio: 2, ..TableOptions::default() };
    session.create_table(name, options).expect("no fault is due yet")
}

/// Binds eight of sixteen keys to the round's number and unbinds another.
fn round(table: &mut Table, number: u8) {
    try_round(table, number).expect("memory does not fail");
}

fn try_round(table: &mut Table, number: u8) -> crate::Result<()> {
    let mut batch = Batch::new();
    for key in 0..8 {
        batch.insert(&[number.wrapping_mul(3).wrapping_add(key) % 16], &[number]);
    }
    batch.delete(&[number % 16]);
    table.update(&batch)
}

/// All bindings, the same by lookup and by range.
fn content(view: &super::View) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entry = |entry: crate::Result<(crate::Bytes, crate::Bytes)>| {
        let (key, value) = entry.expect("memory does not fail");
        (key.into(), value.into())
    };
    let all: Vec<(Vec<u8>, Vec<u8>)> = view.iter().map(entry).collect();
    let keys: Vec<_> = all.iter().map(|(key, _)| key).collect();
    let found = view.lookup(&keys).expect("memory does not fail");
    for ((_, value), found) in all.iter().zip(found.iter()) {
        assert_eq!(found, Some(&value[..]));
    }
    all
}

#[test]
fn a_view_stays_the_same_while_its_merges_go_on() {
    crate::sync::check_schedules(
        || {
            let mut table = table(Some(Arc::new(Threads)));
            let mut readers = Vec::new();
            for number in 0..6 {
                round(&mut table, number);
                let view = table.view();
                let expected = content(&view);
                readers.push(shuttle::thread::spawn(move || {
                    for _ in 0..2 {
                        assert_eq!(content(&view), expected);
                        shuttle::thread::yield_now();
                    }
                }));
            }
            for reader in readers {
                reader.join().expect("its assertions hold");
            }
        },
        1_000,
    );
}

#[test]
fn duplicates_on_two_threads_share_their_merges() {
    crate::sync::check_schedules(
        || {
            let mut table = table(Some(Arc::new(Threads)));
            (0..4).for_each(|number| round(&mut table, number));
            let mut copy = table.duplicate("copy").expect("the name is fine");
            let other = shuttle::thread::spawn(move || {
                (10..14).for_each(|number| round(&mut copy, number));
                content(&copy.view())
            });
            (4..8).for_each(|number| round(&mut table, number));
            let (found, others) =
                (content(&table.view()), other.join().expect("it does not panic"));
            // The same rounds, one after the other and without help, bind the same.
            let alone = |rounds: [u8; 8]| {
                let mut table = self::table(None);
                rounds.into_iter().for_each(|number| round(&mut table, number));
                content(&table.view())
            };
            assert_eq!(found, alone([0, 1, 2, 3, 4, 5, 6, 7]));
            assert_eq!(others, alone([0, 1, 2, 3, 10, 11, 12, 13]));
        },
        1_000,
    );
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Rounds of each thread.
const ROUNDS: u8 = 4;

fn logged() -> SessionOptions {
    SessionOptions { log: Log::Synced, log_file_bytes: 500, ..SessionOptions::default() }
}

/// Three threads update a live table each, until they are refused, from when `arm` was called. What
/// each had acknowledged.
fn update_all(session: &Session, arm: impl FnOnce()) -> Vec<u8> {
    let tables = NAMES.map(|name| small_table(session, name));
    arm();
    let threads = tables.map(|mut table| {
        shuttle::thread::spawn(move || {
            for number in 0..ROUNDS {
                let mut batch = Batch::new();
                batch.insert(&[number], &[number; 9]).insert(b"last", &[number]);
                if let Err(error) = table.update(&batch) {
                    assert!(matches!(error.kind(), Kind::Io | Kind::Poisoned), "{error}");
                    return number;
                }
            }
            ROUNDS
        })
    });
    threads.map(|thread| thread.join().expect("its assertions hold")).into()
}

/// How many rounds each table of `disk` has, all of them whole.
fn rounds_found(disk: Arc<dyn Disk>) -> Vec<u8> {
    let session = Session::open(disk, logged()).expect("what was synced opens");
    assert_eq!(session.warnings(), Vec::<String>::new());
    let tables = session.open_all(&OpenTable::default()).expect("the log is whole");
    let rounds = tables.iter().map(|table| {
        let all = content(&table.view());
        let rounds = (all.len() as u8).saturating_sub(1);
        let whole = (0..rounds).map(|number| (vec![number], vec![number; 9]));
        let last = rounds.checked_sub(1).map(|last| (b"last".to_vec(), vec![last]));
        assert_eq!(all, whole.chain(last).collect::<Vec<_>>());
        rounds
    });
    rounds.collect()
}

#[test]
fn threads_that_share_a_log_each_find_their_updates_again() {
    crate::sync::check_schedules(
        || {
            let disk = MemoryDisk::seeded(1);
            let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, logged());
            let session = session.expect("memory does not fail");
            assert_eq!(update_all(&session, || ()), [ROUNDS; 3]);
            let stats = session.stats();
            assert_eq!(stats.log_records, 3 * u64::from(ROUNDS));
            drop(session);
            assert_eq!(rounds_found(disk), [ROUNDS; 3]);
        },
        400,
    );
}

/// Runs `body` on one disk that is going to fail after the other, each with its number. It gives how
/// many calls were refused; without any the faults would have missed what they are for.
fn check_refusals(body: impl Fn(u64, &Arc<SimDisk>) -> usize + Send + Sync + 'static) {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    let (runs, refused) = (AtomicU64::new(0), Arc::new(AtomicUsize::new(0)));
    let told = Arc::clone(&refused);
    let one = move || {
        let run = runs.fetch_add(1, Ordering::Relaxed);
        told.fetch_add(body(run, &SimDisk::new(run)), Ordering::Relaxed);
    };
    crate::sync::check_schedules(one, 600);
    assert!(refused.load(Ordering::Relaxed) > 50, "{refused:?}");
}

/// One call fails, at any place: whoever waited for it is told, what was acknowledged outlives a power
/// cut, and of what was not there is all of an update or nothing.
#[test]
fn a_failed_write_of_the_log_is_told_to_all_who_waited_for_it() {
    check_refusals(|run, sim| {
        let session = Session::create(Arc::clone(sim) as Arc<dyn Disk>, logged());
        let session = session.expect("no fault is due yet");
        let fault = [Fault::Write, Fault::Sync, Fault::Space][(run % 3) as usize];
        let acknowledged = update_all(&session, || sim.fail_at(1 + run / 3 % 12, fault));
        drop(session);
        let found = rounds_found(sim.crash(Crash::Seed(run)));
        for (found, &least) in found.iter().zip(&acknowledged) {
            assert!((least..=(least + 1).min(ROUNDS)).contains(found), "{found} of {least}");
        }
        acknowledged.iter().filter(|rounds| **rounds < ROUNDS).count()
    });
}

/// One sync fails while a snapshot is saved of segments that a checkpoint syncs too: what was
/// acknowledged outlives a power cut.
#[test]
fn a_failed_sync_of_shared_segments_is_told_to_all_who_need_them() {
    check_refusals(|run, sim| {
        let options = SessionOptions { log: Log::Written, log_file_bytes: 100, ..logged() };
        let session = Session::create(Arc::clone(sim) as Arc<dyn Disk>, options.clone());
        let session = session.expect("no fault is due yet");
        let mut table = small_table(&session, "t");
        (0..3).for_each(|number| round(&mut table, number));
        let expected = content(&table.view());
        let copy = table.duplicate("copy").expect("the name is fine");
        sim.fail_at(1 + run % 24, Fault::Sync);
        let updating = shuttle::thread::spawn(move || {
            (3..9).all(|number| try_round(&mut table, number).is_ok())
        });
        (0..run % 40).for_each(|_| shuttle::thread::yield_now());
        let content_of = SnapshotContent { label: "", payload: b"", tables: &[&copy] };
        let saved = session.save_snapshot("s", content_of).map_err(|error| error.kind());
        let updated = updating.join().expect("it does not panic");
        drop((session, copy));
        let session = Session::open(sim.crash(Crash::Seed(run)), options);
        let session = session.expect("what was synced opens");
        let options = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
        match (saved, session.open_snapshot("s", &options)) {
            (_, Ok(found)) => assert_eq!(content(&found.tables[0].view()), expected),
            (Err(Kind::Io | Kind::Poisoned), Err(error)) => {
                assert_eq!(error.kind(), Kind::Missing);
            }
            (saved, found) => panic!("{saved:?}, then {found:?}"),
        }
        usize::from(saved.is_err()) + usize::from(!updated)
    });
}

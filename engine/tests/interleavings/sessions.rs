//! Sessions under shuttle, which tries many orders of the threads' steps from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use shuttle::thread;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Executor, Kind, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};

use crate::hooked_disk::{Call, HookedDisk};

/// A thread for each work.
struct Threads;

impl Executor for Threads {
    fn execute(&self, work: Box<dyn FnOnce() + Send>) {
        thread::spawn(work);
    }
}

fn session(disk: &Arc<MemoryDisk>) -> Session {
    session_on(Arc::<MemoryDisk>::clone(disk))
}

fn session_on(disk: Arc<dyn Disk>) -> Session {
    let options = SessionOptions { executor: Some(Arc::new(Threads)), ..Default::default() };
    Session::create(disk, options).unwrap()
}

fn table(session: &Session) -> Table {
    let options = TableOptions { write_buffer_bytes: 100, size_ratio: 2, ..Default::default() };
    session.create_table("t", options).unwrap()
}

fn insert(table: &mut Table, round: u8) -> varvite::Result<()> {
    let mut batch = Batch::new();
    batch.insert(&[round], &[round; 20]).insert(b"same", &[round; 20]);
    table.update(&batch)
}

fn check(table: &Table, rounds: u8) {
    for round in 0..rounds {
        assert_eq!(table.get(&[round]).unwrap(), Some(vec![round; 20]));
    }
    assert_eq!(table.get(b"same").unwrap(), rounds.checked_sub(1).map(|last| vec![last; 20]));
}

fn save(session: &Session, name: &str, table: &Table) -> varvite::Result<()> {
    session.save_snapshot(name, SnapshotContent { label: "", payload: b"", tables: &[table] })
}

fn open(session: &Session, name: &str) -> varvite::Result<Table> {
    let options = OpenSnapshot { verify: Verify::Full, ..Default::default() };
    Ok(session.open_snapshot(name, &options)?.tables.remove(0))
}

#[test]
fn shuttle_a_view_says_the_same_while_duplicates_update() {
    varvite::raw::sync::check_schedules(
        || {
            let session = session(&MemoryDisk::seeded(1));
            let mut table = table(&session);
            (0..4).for_each(|round| insert(&mut table, round).unwrap());
            let threads: Vec<_> = (0..2)
                .map(|number| {
                    let mut copy = table.duplicate(&format!("copy{number}")).unwrap();
                    thread::spawn(move || {
                        (4..7).for_each(|round| insert(&mut copy, round).unwrap());
                        check(&copy, 7);
                    })
                })
                .collect();
            (0..3).for_each(|_| check(&table, 4));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            check(&table, 4);
        },
        300,
    );
}

/// Two open it, one deletes it: each gets all of it or `Missing`, and what is saved again is whole.
#[test]
fn shuttle_a_snapshot_is_opened_while_it_is_deleted() {
    varvite::raw::sync::check_schedules(
        || {
            let session = session(&MemoryDisk::seeded(1));
            let mut table = table(&session);
            (0..3).for_each(|round| insert(&mut table, round).unwrap());
            save(&session, "s", &table).unwrap();
            drop(table);
            let threads: Vec<_> = ["x", "y"]
                .into_iter()
                .map(|again| {
                    let session = session.clone();
                    thread::spawn(move || match open(&session, "s") {
                        Ok(table) => {
                            check(&table, 3);
                            save(&session, again, &table).unwrap();
                        }
                        Err(error) => assert_eq!(error.kind(), Kind::Missing),
                    })
                })
                .collect();
            session.delete_snapshot("s").unwrap();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            for info in session.list_snapshots().unwrap() {
                check(&open(&session, &info.name).unwrap(), 3);
            }
        },
        800,
    );
}

/// A session closes while it is updated, helped and saved: `Closed`, and what was saved is whole.
#[test]
fn shuttle_a_session_closes_while_others_work() {
    varvite::raw::sync::check_schedules(
        || {
            let disk = MemoryDisk::seeded(1);
            let session = session(&disk);
            let mut table = table(&session);
            (0..3).for_each(|round| insert(&mut table, round).unwrap());
            let copy = table.duplicate("copy").unwrap();
            let updating = thread::spawn(move || {
                let error = (3..6).find_map(|round| insert(&mut table, round).err());
                assert!(error.is_none_or(|error| error.kind() == Kind::Closed));
            });
            let saver = session.clone();
            let saving = thread::spawn(move || match save(&saver, "s", &copy) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Closed);
                    false
                }
            });
            session.close().unwrap();
            let next = Session::open(disk, SessionOptions::default()).unwrap();
            updating.join().unwrap();
            assert!(next.warnings().is_empty());
            if saving.join().unwrap() {
                check(&open(&next, "s").unwrap(), 3);
            } else {
                assert_eq!(open(&next, "s").unwrap_err().kind(), Kind::Missing);
            }
        },
        800,
    );
}

/// Whoever drops the last count of files, updates or helps while another closes: all is done under the
/// folder's lock, or not at all.
#[test]
fn shuttle_nothing_changes_in_a_folder_that_was_given_up() {
    varvite::raw::sync::check_schedules(
        || {
            let locked = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&locked);
            let disk = HookedDisk::with_lock(MemoryDisk::seeded(1), locked, move |call, path| {
                thread::yield_now();
                let allowed = !call.changes() || call == Call::Lock || seen.load(SeqCst);
                assert!(allowed, "{call:?} {path} without the lock");
            });
            let session = session_on(disk);
            let mut table = table(&session);
            (0..3).for_each(|round| insert(&mut table, round).unwrap());
            let mut copy = table.duplicate("copy").unwrap();
            let view = table.view();
            let dropping = thread::spawn(move || drop((table, view)));
            let updating = thread::spawn(move || {
                let error = (3..6).find_map(|round| insert(&mut copy, round).err());
                assert!(error.is_none_or(|error| error.kind() == Kind::Closed));
            });
            session.close().unwrap();
            dropping.join().unwrap();
            updating.join().unwrap();
        },
        800,
    );
}

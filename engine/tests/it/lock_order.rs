//! The folder changes while its lock is held, whichever handle is the last to be dropped, and whoever
//! closes the session while others work.

use std::cell::Cell;
use std::ops::Bound::Unbounded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Kind, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table, TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;

#[test]
fn the_last_handle_removes_files_before_the_lock_goes() {
    for last in ["table", "view", "cursor", "session"] {
        let locked = Arc::new(AtomicBool::new(false));
        let (removed, unlocked) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let seen = (Arc::clone(&locked), Arc::clone(&removed), Arc::clone(&unlocked));
        let disk =
            HookedDisk::with_lock(MemoryDisk::seeded(1), Arc::clone(&locked), move |call, _| {
                if call == Call::Remove {
                    seen.1.fetch_add(1, SeqCst);
                    seen.2.fetch_add(u64::from(!seen.0.load(SeqCst)), SeqCst);
                }
            });
        let session = Session::create(disk, SessionOptions::default()).unwrap();
        let options = TableOptions { write_buffer_bytes: 5_000, ..TableOptions::default() };
        let mut table = session.create_table("t", options).unwrap();
        for number in 0..400_u32 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 80])).unwrap();
        }
        let view = table.view();
        let mut cursor = view.cursor(Unbounded, Unbounded).unwrap();
        assert!(cursor.next().unwrap().is_some());
        let mut handles: Vec<(&str, Box<dyn std::any::Any>)> = vec![
            ("table", Box::new(table)),
            ("view", Box::new(view)),
            ("cursor", Box::new(cursor)),
            ("session", Box::new(session)),
        ];
        handles.sort_by_key(|(name, _)| *name == last);
        for (_, handle) in handles {
            drop(handle);
        }
        assert!(!locked.load(SeqCst));
        assert!(removed.load(SeqCst) > 3, "{last}");
        assert_eq!(unlocked.load(SeqCst), 0, "removed without the lock, {last} last");
    }
}

thread_local! {
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
}

/// Where the worker's thread stands still, before one of its changes of the folder.
struct Stand {
    /// How many changes come before it, and whether it stands there, or stood.
    state: Mutex<(u64, bool)>,
    changed: Condvar,
    locked: Arc<AtomicBool>,
    /// The changes that were made without the lock.
    unlocked: Mutex<Vec<String>>,
}

impl Stand {
    /// How long a change stands still for a close that does not wait for it. A close that does wait
    /// waits as long, whatever that is.
    const PATIENCE: Duration = Duration::from_millis(10);

    fn call(&self, call: Call, path: &str) {
        if !IS_WORKER.get() || !call.changes() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        match state.0.checked_sub(1) {
            Some(left) => state.0 = left,
            None if !state.1 => {
                state.1 = true;
                self.changed.notify_all();
                let closes = |_: &mut (u64, bool)| self.locked.load(SeqCst);
                drop(self.changed.wait_timeout_while(state, Self::PATIENCE, closes).unwrap());
            }
            None => {}
        }
        if !self.locked.load(SeqCst) {
            self.unlocked.lock().unwrap().push(format!("{call:?} {path}"));
        }
    }

    /// Waits until the worker stands still or has ended; whether it stands.
    fn wait(&self, has_ended: &AtomicBool) -> bool {
        let state = self.state.lock().unwrap();
        let works = |state: &mut (u64, bool)| !state.1 && !has_ended.load(SeqCst);
        self.changed.wait_while(state, works).unwrap().1
    }
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 1_500, size_ratio: 2, ..TableOptions::default() }
}

fn insert(table: &mut Table, round: u64) -> varvite::Result<()> {
    let mut batch = Batch::new();
    for key in 0..6_u64 {
        batch.insert(&(round % 7 * 6 + key).to_be_bytes(), &[round as u8; 60]);
    }
    table.update(&batch)
}

/// What the table holds after so many rounds.
fn after(rounds: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let newest = |key: u64| (1..=rounds).rev().find(|round| round % 7 == key / 6);
    let held = (0..42_u64).filter_map(|key| Some((key, newest(key)?)));
    held.map(|(key, round)| (key.to_be_bytes().to_vec(), vec![round as u8; 60])).collect()
}

/// Everything that changes the folder: merges, removals, log files, checkpoints, snapshots, values.
/// Notes after which round the table was last updated.
fn work(session: &Session, table: &mut Table, rounds: &AtomicU64) -> varvite::Result<()> {
    for round in 1..=24 {
        insert(table, round)?;
        rounds.store(round, SeqCst);
        match round % 6 {
            1 => drop(table.duplicate("copy")?),
            2 => session.save_snapshot(
                "s",
                SnapshotContent { label: "", payload: b"", tables: &[&*table] },
            )?,
            3 => {
                let mut other = session.create_table("other", small())?;
                for round in 0..10 {
                    insert(&mut other, round)?;
                }
            }
            4 => session.delete_table("other")?,
            5 => session.delete_snapshot("s")?,
            _ => {
                let mut writer = session.write_value()?;
                writer.write(&[7; 5_000])?;
                let mut batch = Batch::new();
                table.update(batch.insert_value(b"value", &writer.finish()?).delete(b"value"))?;
            }
        }
    }
    Ok(())
}

/// Closes a session while its worker stands before change `n`; whether it came that far.
fn close_at(n: u64) -> bool {
    let locked = Arc::new(AtomicBool::new(false));
    let stand = Arc::new(Stand {
        state: Mutex::new((n, false)),
        changed: Condvar::new(),
        locked: Arc::clone(&locked),
        unlocked: Mutex::default(),
    });
    let inner = MemoryDisk::seeded(1);
    let told = Arc::clone(&stand);
    let disk: Arc<dyn Disk> =
        HookedDisk::with_lock(Arc::<MemoryDisk>::clone(&inner), locked, move |call, path| {
            told.call(call, path);
        });
    let options =
        SessionOptions { log: Log::Written, log_file_bytes: 2_000, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk), options.clone()).unwrap();
    let mut table = session.create_table("t", small()).unwrap();
    let (rounds, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let stood = thread::scope(|scope| {
        let worker = session.clone();
        scope.spawn(|| {
            IS_WORKER.set(true);
            let done = work(&worker, &mut table, &rounds);
            drop((table, worker));
            ended.store(true, SeqCst);
            // So that whoever looked before it was set waits by now.
            drop(stand.state.lock().unwrap());
            stand.changed.notify_all();
            if let Err(error) = done {
                assert_eq!(error.kind(), Kind::Closed, "{error:?}");
            }
        });
        let stood = stand.wait(&ended);
        session.close().unwrap();
        stand.changed.notify_all();
        stood
    });
    let unlocked = stand.unlocked.lock().unwrap();
    assert!(unlocked.is_empty(), "closed before change {n}; without the lock: {unlocked:?}");
    // What was acknowledged is there; the update that the close came between may be.
    let session = Session::open(inner, options).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    let found = table.listed(Unbounded, Unbounded).unwrap();
    let rounds = rounds.load(SeqCst);
    assert!([rounds, rounds + 1].iter().any(|rounds| found == after(*rounds)), "{rounds} rounds");
    stood
}

/// Each change that another thread makes is over before a close gives up the lock, or is not made.
#[test]
fn a_close_waits_for_every_change_that_is_under_way() {
    let count = (0..10_000).take_while(|n| close_at(*n)).count();
    println!("closed before each of {count} changes");
    assert!(count > 100, "the worker changed the folder {count} times");
}

//! Live tables where threads meet a disk that fails or panics: what was acknowledged is found again,
//! nobody waits for ever, and what is wrong with one table is not the others' concern.

use std::ops::Bound::Unbounded;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, OnceLock, mpsc};
use std::time::Duration;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{
    Batch, Kind, LoadOrder, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;
use crate::log::options;

type Content = Vec<(Vec<u8>, Vec<u8>)>;

fn content(table: &Table) -> Content {
    table.listed(Unbounded, Unbounded).unwrap()
}

fn insert(table: &mut Table, key: &[u8]) -> varvite::Result<()> {
    table.update(Batch::new().insert(key, b"value"))
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 700, ..TableOptions::default() }
}

fn open_live(disk: Arc<dyn Disk>, name: &str) -> Table {
    let session = Session::open(disk, options(Log::Written)).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    session.open_table(name, &OpenTable::default()).unwrap()
}

/// A table becomes live while the record of another is on its way to the disk, where it fails: the
/// place of that record in the log is then the first one of the new table.
#[test]
fn a_table_made_beside_a_failing_write_of_the_log_keeps_its_updates() {
    for (log, publishes) in
        [(Log::Written, false), (Log::Written, true), (Log::Synced, false), (Log::Synced, true)]
    {
        let sim = SimDisk::new(1);
        let (is_armed, meet) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let (armed, met, faulty) = (Arc::clone(&is_armed), Arc::clone(&meet), Arc::clone(&sim));
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            if call == Call::Write && path.starts_with("log/") && armed.swap(false, SeqCst) {
                met.wait(); // the record is counted, and not written
                met.wait(); // the other table is live
                faulty.fail_at(1, Fault::Write);
            }
        });
        let roomy = SessionOptions { log_file_bytes: 1 << 20, ..options(log) };
        let session = Session::create(disk, roomy).unwrap();
        let mut old = session.create_table("old", TableOptions::default()).unwrap();
        insert(&mut old, b"first").unwrap();
        let mut copy = old.duplicate("new").unwrap();
        is_armed.store(true, SeqCst);
        let mut new = std::thread::scope(|scope| {
            let failing = scope.spawn(|| insert(&mut old, b"lost").unwrap_err().kind());
            meet.wait();
            let new = if publishes {
                session.publish(&mut copy).map(|()| copy)
            } else {
                session.create_table("new", TableOptions::default())
            };
            meet.wait();
            assert_eq!(failing.join().unwrap(), Kind::Io);
            new.unwrap()
        });
        insert(&mut new, b"kept").unwrap();
        let expected = content(&new);
        drop((old, new, session));
        let found = content(&open_live(sim, "new"));
        assert_eq!(found, expected, "{log:?}, published: {publishes}");
    }
}

/// The file has no record yet, and nobody needs the one before: a lost checkpoint is known by that record alone.
#[test]
fn a_table_made_beside_a_failing_first_write_of_a_log_file_is_known_by_the_log() {
    for log in [Log::Written, Log::Synced] {
        let sim = SimDisk::new(1);
        let roomy = SessionOptions { log_file_bytes: 1 << 20, ..options(log) };
        let session = Session::create(Arc::clone(&sim) as _, roomy.clone()).unwrap();
        drop(session.create_table("old", TableOptions::default()).unwrap());
        session.close().unwrap();
        let (is_armed, meet) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
        let (armed, met, faulty) = (Arc::clone(&is_armed), Arc::clone(&meet), Arc::clone(&sim));
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            let is_log = path.starts_with("log/") && !path.contains(".tmp");
            if call == Call::Write && is_log && armed.swap(false, SeqCst) {
                met.wait(); // the records are counted, and not written
                met.wait(); // the other table is live
                faulty.fail_at(1, Fault::Write);
            }
        });
        let session = Session::open(disk, roomy.clone()).unwrap();
        let mut old = session.open_table("old", &OpenTable::default()).unwrap();
        is_armed.store(true, SeqCst);
        let new = std::thread::scope(|scope| {
            let failing = scope.spawn(|| insert(&mut old, b"lost").unwrap_err().kind());
            meet.wait();
            let new = session.create_table("new", TableOptions::default());
            meet.wait();
            assert_eq!(failing.join().unwrap(), Kind::Io);
            new.unwrap()
        });
        drop((old, new, session));
        sim.remove("checkpoint").unwrap();
        let session = Session::open(Arc::clone(&sim) as _, roomy).unwrap();
        let error = session.live_tables().unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{log:?}: {error}");
    }
}

fn log_bytes(sim: &SimDisk) -> usize {
    let names = sim.list("log").unwrap();
    names.iter().map(|name| sim.bytes(&format!("log/{name}")).unwrap().len()).sum()
}

/// A record that failed is no reason to keep the file that it would have been in.
#[test]
fn a_log_file_is_not_kept_for_a_record_that_failed() {
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Written)).unwrap();
    let mut idle = session.create_table("idle", TableOptions::default()).unwrap();
    let mut busy = session.create_table("busy", small()).unwrap();
    sim.fail_at(1, Fault::Write);
    assert_eq!(insert(&mut idle, b"lost").unwrap_err().kind(), Kind::Io);
    let (names, mut firsts) = (|| sim.list("log").unwrap(), Vec::new());
    firsts.extend(names());
    for number in 0_u64..100 {
        insert(&mut busy, &number.to_be_bytes()).unwrap();
    }
    assert!(session.stats().checkpoints > 2);
    assert!(!names().contains(&firsts[0]), "{:?}", names());
}

/// The same of a table that has an earlier record in the file, and others later ones: what it waits
/// for is its own record, which a checkpoint has.
#[test]
fn a_log_file_is_not_kept_for_a_record_that_failed_after_one_that_did_not() {
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Written)).unwrap();
    let mut idle = session.create_table("idle", small()).unwrap();
    // It keeps more than two files of the log, so that the other is told to keep less.
    let large = TableOptions { write_buffer_bytes: 1_400, ..TableOptions::default() };
    let mut busy = session.create_table("busy", large).unwrap();
    let first = sim.list("log").unwrap();
    insert(&mut idle, b"written").unwrap();
    (0_u64..3).for_each(|number| insert(&mut busy, &number.to_be_bytes()).unwrap());
    sim.fail_at(1, Fault::Write);
    assert_eq!(insert(&mut idle, b"lost").unwrap_err().kind(), Kind::Io);
    for number in 3_u64..1_000 {
        insert(&mut busy, &number.to_be_bytes()).unwrap();
    }
    let names = sim.list("log").unwrap();
    assert!(!names.contains(&first[0]), "{first:?} of {names:?}");
}

/// The base of a table is damaged and the table idles; checkpoints want to write it out.
#[test]
fn a_damaged_table_is_left_alone_by_the_updates_of_others() {
    let sim = SimDisk::new(1);
    let disk = || Arc::clone(&sim) as Arc<dyn Disk>;
    let session = Session::create(disk(), options(Log::Written)).unwrap();
    let mut first = session.create_table("first", small()).unwrap();
    (0_u64..60).for_each(|number| insert(&mut first, &number.to_be_bytes()).unwrap());
    let mut bad = first.duplicate("bad").unwrap();
    session.publish(&mut bad).unwrap();
    drop(first);
    session.delete_table("first").unwrap();
    insert(&mut bad, b"logged").unwrap();
    let expected = content(&bad);
    let paths = sim.list("segments").unwrap().into_iter().map(|name| format!("segments/{name}"));
    let segments: Vec<_> = paths.map(|path| (sim.bytes(&path).unwrap(), path)).collect();
    for (bytes, path) in &segments {
        let mut damaged = bytes.clone();
        damaged[4096 + 100] ^= 1;
        sim.damage(path, damaged).unwrap();
    }

    let larger = TableOptions { write_buffer_bytes: 4_000, ..TableOptions::default() };
    let mut good = session.create_table("good", larger).unwrap();
    let mut most = 0;
    for number in 0_u64..1_000 {
        insert(&mut good, &number.to_be_bytes()).unwrap();
        most = most.max(log_bytes(&sim));
    }
    // Its own part of the log stays, and nobody else's for it.
    assert!(most < 30_000, "{most}");
    let warnings = session.warnings();
    assert_eq!(warnings.len(), 1, "{most} bytes of log");
    let before = log_bytes(&sim);
    assert!(warnings[0].contains("bad") && warnings[0].contains("segments/"), "{warnings:?}");
    assert_eq!(insert(&mut bad, b"refused").unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(log_bytes(&sim), before);
    insert(&mut good, b"more").unwrap();

    for (bytes, path) in segments {
        sim.damage(&path, bytes).unwrap();
    }
    insert(&mut bad, b"again").unwrap();
    let again: Content = [&expected[..], &[(b"again".to_vec(), b"value".to_vec())]].concat();
    (1_000_u64..2_000).for_each(|number| insert(&mut good, &number.to_be_bytes()).unwrap());
    assert_eq!(session.warnings(), Vec::<String>::new());
    let mut expected = again;
    expected.sort();
    let all = content(&good);
    drop((bad, good, session));
    assert_eq!(content(&open_live(disk(), "bad")), expected);
    assert_eq!(content(&open_live(disk(), "good")), all);
}

/// The host's disk panics under the record that one thread writes for two: the other is told.
#[test]
#[allow(clippy::disallowed_methods)] // threads that the test may leave behind when it fails
fn nobody_waits_for_a_thread_whose_disk_panicked() {
    for (log, stands) in
        [(Log::Written, Call::Write), (Log::Synced, Call::Write), (Log::Synced, Call::Sync)]
    {
        let (sim, waiting) = (SimDisk::new(1), Arc::new(OnceLock::<Session>::new()));
        let (held, is_armed) = (Arc::clone(&waiting), Arc::new(AtomicBool::new(false)));
        let armed = Arc::clone(&is_armed);
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
            if call == stands && path.starts_with("log/") && armed.swap(false, SeqCst) {
                let session = held.get().expect("it is there before it is armed");
                while session.stats().log_records < 4 {
                    std::thread::yield_now();
                }
                panic!("the host's disk panics");
            }
        });
        let roomy = SessionOptions { log_file_bytes: 1 << 20, ..options(log) };
        let session = Session::create(disk, roomy).unwrap();
        let tables = ["a", "b"].map(|name| {
            let mut table = session.create_table(name, TableOptions::default()).unwrap();
            insert(&mut table, b"first").unwrap();
            table
        });
        assert!(waiting.set(session.clone()).is_ok());
        is_armed.store(true, SeqCst);
        let (tell, told) = mpsc::channel();
        let handles = tables.map(|mut table| {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let outcome = insert(&mut table, b"second").map_err(|error| error.kind());
                tell.send(outcome).unwrap();
            })
        });
        drop(tell);
        let outcome = told.recv_timeout(Duration::from_mins(1)).expect("it is told");
        assert_eq!(outcome, Err(Kind::Poisoned), "{log:?} {stands:?}");
        let panicked = handles.into_iter().filter_map(|handle| handle.join().err()).count();
        assert_eq!(panicked, 1);
        assert!(session.is_poisoned());
        for name in ["a", "b"] {
            assert!(content(&open_live(sim.crash(Crash::Process), name)).len() < 3);
        }
    }
}

/// A snapshot stands in the sync of a segment that no live table has: updates go on, also through
/// checkpoints, and with values that are made durable first.
#[test]
#[allow(clippy::disallowed_methods)] // threads that the test may leave behind when it fails
fn updates_do_not_wait_for_the_syncs_of_a_snapshot() {
    let is_armed = Arc::new(AtomicBool::new(false));
    let [entered, left] = [(); 2].map(|()| Arc::new(Barrier::new(2)));
    let (armed, enter, leave) = (is_armed.clone(), entered.clone(), left.clone());
    let disk = HookedDisk::new(SimDisk::new(1), move |call, path| {
        if call == Call::Sync && path.starts_with("segments/") && armed.swap(false, SeqCst) {
            enter.wait();
            leave.wait();
        }
    });
    let session = Session::create(disk, options(Log::Written)).unwrap();
    let mut table = session.create_table("live", small()).unwrap();
    let order = LoadOrder::Any { memory_bytes: 1 << 20 };
    let mut loader = session.load_table("loaded", TableOptions::default(), order).unwrap();
    loader.push(b"key", b"value").unwrap();
    let loaded = loader.finish().unwrap();
    is_armed.store(true, SeqCst);
    let saver = session.clone();
    let saving = std::thread::spawn(move || {
        let content = SnapshotContent { label: "", payload: b"", tables: &[&loaded] };
        saver.save_snapshot("s", content).unwrap();
    });
    entered.wait();
    let before = session.stats().checkpoints;
    let (tell, told) = mpsc::channel();
    let updating = session.clone();
    std::thread::spawn(move || {
        for number in 0_u64..200 {
            insert(&mut table, &number.to_be_bytes()).unwrap();
            let mut writer = updating.write_value().unwrap();
            writer.write(&[7; 1_000]).unwrap();
            table.update(Batch::new().insert_value(b"large", &writer.finish().unwrap())).unwrap();
        }
        tell.send(table).unwrap();
    });
    let table = told.recv_timeout(Duration::from_secs(100)).expect("updates go on");
    assert!(session.stats().checkpoints > before + 2);
    left.wait();
    saving.join().unwrap();
    assert_eq!(table.view().count().unwrap(), 201);
    assert_eq!(session.list_snapshots().unwrap().len(), 1);
}

/// In a folder that somebody else has by now, the log files are his.
#[test]
fn no_log_file_goes_from_a_folder_whose_lock_was_taken() {
    let mut waited = 0;
    for updates in 1..60_u64 {
        for closes in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let disk = OsDisk::new(folder.path()).unwrap();
            let options = SessionOptions { log_file_bytes: 600, ..options(Log::Written) };
            let session = Session::create(disk, options).unwrap();
            let mut table = session.create_table("t", small()).unwrap();
            for number in 0..updates {
                insert(&mut table, &number.to_be_bytes()).unwrap();
            }
            // As if a backup had been put in its place.
            let lock = folder.path().join("lock");
            std::fs::remove_file(&lock).unwrap();
            std::fs::write(&lock, "somebody else").unwrap();
            let logs = || {
                let entries = std::fs::read_dir(folder.path().join("log")).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name());
                names.collect::<std::collections::BTreeSet<_>>()
            };
            let before = logs();
            waited += u64::from(before.len() > 2);
            if closes {
                drop(table);
                assert_eq!(session.close().unwrap_err().kind(), Kind::Poisoned);
            } else {
                for number in updates..updates + 12 {
                    let _ = insert(&mut table, &number.to_be_bytes());
                }
            }
            assert!(logs().is_superset(&before), "{updates}, {closes}: {before:?} {:?}", logs());
        }
    }
    assert!(waited > 0, "no file ever waited to be removed");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The folder is replaced by a copy of it, in which another process goes on under the same numbers.
#[test]
fn no_segment_goes_from_a_folder_whose_lock_was_taken() {
    let mut shared = 0;
    for updates in (2..40_u64).step_by(3) {
        for closes in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (here, copy) = (folder.path().join("store"), folder.path().join("copy"));
            std::fs::create_dir(&here).unwrap();
            let options =
                SessionOptions { seed: None, log_file_bytes: 1 << 20, ..options(Log::Written) };
            let session = Session::create(OsDisk::new(&here).unwrap(), options.clone()).unwrap();
            let mut table = session.create_table("t", small()).unwrap();
            (0..200_u64).for_each(|number| insert(&mut table, &number.to_be_bytes()).unwrap());
            drop((table, session));
            copy_folder(&here, &copy);
            let open = || {
                let disk = OsDisk::new(&here).unwrap();
                let session = Session::open(disk, options.clone()).unwrap();
                let table = session.open_table("t", &OpenTable::default()).unwrap();
                (session, table)
            };
            let (first, mut table) = open();
            for number in 0..updates * 10 {
                insert(&mut table, &(number % 200).to_be_bytes()).unwrap();
            }
            std::fs::rename(&here, folder.path().join("gone")).unwrap();
            std::fs::rename(&copy, &here).unwrap();
            let (second, mut other) = open();
            for number in 0..updates * 10 + 50 {
                insert(&mut other, &(number % 200).to_be_bytes()).unwrap();
            }
            let content = SnapshotContent { label: "", payload: b"", tables: &[&other] };
            second.save_snapshot("s", content).unwrap();
            let segments = |at: &Path| {
                let entries = std::fs::read_dir(at.join("segments")).unwrap();
                let names = entries.map(|entry| entry.unwrap().file_name());
                names.collect::<std::collections::BTreeSet<_>>()
            };
            let before = segments(&here);
            let own = segments(&folder.path().join("gone"));
            shared += before.intersection(&own).count();
            if closes {
                drop((table, first));
            } else {
                for number in 0..300_u64 {
                    let _ = insert(&mut table, &number.to_be_bytes());
                }
                assert!(first.is_poisoned(), "{updates}");
            }
            assert!(segments(&here).is_superset(&before), "{updates}, {closes}");
        }
    }
    assert!(shared > 0, "no number was in both folders");
}

/// Log files that wait to be removed make room for whoever writes, merges too.
#[test]
fn a_full_disk_is_given_the_log_files_that_nobody_needs() {
    let sim = SimDisk::new(1);
    let options = SessionOptions { log_file_bytes: 5_000, ..options(Log::Written) };
    let session = Session::create(Arc::clone(&sim) as _, options).unwrap();
    let table = session.create_table("t", small()).unwrap();
    let writer = Arc::new(Mutex::new((table, 0_u64)));
    let update = |(table, number): &mut (Table, u64)| {
        *number += 1;
        table.update(Batch::new().insert(&number.to_be_bytes(), &[*number as u8; 1_000]))
    };
    // They are held while a backup reads them.
    let acts = Arc::clone(&writer);
    let target = HookedDisk::new(MemoryDisk::seeded(2), move |call, path| {
        if call == Call::Rename && path.starts_with("log/") {
            (0..200).for_each(|_| update(&mut acts.lock().unwrap()).unwrap());
        }
    });
    let target = target as Arc<dyn Disk>;
    session.backup(&target, varvite::Verify::Quick).unwrap();
    let held = log_bytes(&sim);
    assert!(held > 100_000, "{held}");
    sim.capacity(Some(sim.total_bytes()));
    let mut writer = writer.lock().unwrap();
    let error = (0..2_000).find_map(|_| update(&mut writer).err()).expect("the disk is full");
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert!(log_bytes(&sim) < 20_000, "{} bytes of log beside a full disk", log_bytes(&sim));
    sim.capacity(None);
    let key = writer.1.to_be_bytes();
    assert_eq!(writer.0.get(&key).unwrap(), None, "what was refused");
    update(&mut writer).unwrap();
    let expected = content(&writer.0);
    drop((writer, session, target));
    drop(sim);
    assert!(expected.len() > 200);
}

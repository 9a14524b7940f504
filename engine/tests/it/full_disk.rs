//! Disks that updates have filled: what still goes through there, and what that leaves for dropping a table.

use std::ops::Bound::Unbounded;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use varvite::disk::sim::SimDisk;
use varvite::disk::{Disk, Mode};
use varvite::{Batch, Kind, Log, OpenTable, Session, Table, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};
use crate::short_sessions::{counts, drop_table, filled_disk, options, put};

const RESERVE: &str = "reserve";

fn open(disk: &Arc<impl Disk + 'static>, name: &str) -> (Session, Table) {
    let session = Session::open(Arc::clone(disk) as _, options(Log::Synced)).unwrap();
    let table = session.open_table(name, &OpenTable::default()).unwrap();
    (session, table)
}

/// So many deletes of keys of 8 bytes.
fn deletes(count: u64) -> Batch {
    let mut batch = Batch::new();
    (0..count).for_each(|number| {
        batch.delete(&number.to_be_bytes());
    });
    batch
}

/// A disk without a free byte and table `a` with segments on it; and how many entries `b` has.
fn filled_beside_segments(seed: u64) -> (Arc<SimDisk>, u64) {
    let sim = SimDisk::new(seed);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
    let small = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
    let mut table = session.create_table("a", small).unwrap();
    drop(session.create_table("b", TableOptions::default()).unwrap());
    for number in 0..60_u64 {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 1_000])).unwrap();
    }
    while table.work(u64::MAX).unwrap() > 0 {}
    drop(table);
    session.close().unwrap();
    sim.capacity(Some(sim.total_bytes() + 10_000));
    let mut count = 0;
    while let Ok(()) = put(&sim, "b", count, 900) {
        count += 1;
    }
    sim.capacity(Some(sim.total_bytes()));
    (sim, count)
}

/// One that would take the room of the checkpoint which is to follow is refused.
#[test]
fn deletes_that_are_too_long_for_the_reserve_leave_it() {
    let (sim, [_, b]) = filled_disk(1);
    let reserve = sim.bytes(RESERVE).unwrap().len();
    for count in [reserve as u64 / 10 - 30, 400, 4_000] {
        let (session, mut table) = open(&sim, "a");
        let refused = table.update(&deletes(count)).map_err(|error| error.kind());
        assert_eq!(refused, Err(Kind::Io), "{count}");
        assert!(sim.bytes(RESERVE).unwrap().len() > 4_096, "{count}");
        drop(table);
        session.close().unwrap();
        // Others take what is free.
        sim.capacity(Some(sim.total_bytes()));
    }
    drop_table(&sim).unwrap();
    assert_eq!(counts(&sim), [None, Some(b)]);
}

/// What the deletes let go is there again with the end of the session, or of the next one where that was killed.
#[test]
fn a_short_delete_goes_through_on_a_full_disk_and_makes_room() {
    for is_range in [true, false] {
        for is_killed in [false, true] {
            let (sim, b) = filled_beside_segments(1);
            let before = sim.total_bytes();
            assert!(b > 3 && put(&sim, "b", 1_000, 900).is_err());
            let (session, mut table) = open(&sim, if is_range { "a" } else { "b" });
            if is_range {
                table.delete_range(Unbounded, Unbounded).unwrap();
            } else {
                table.update(&deletes(3)).unwrap();
            }
            drop(table);
            if is_killed {
                drop(session);
                assert!(sim.total_bytes() > before - 30_000);
                let (session, table) = open(&sim, "a");
                drop(table);
                session.close().unwrap();
            } else {
                session.close().unwrap();
            }
            let place = format!("range: {is_range}, killed: {is_killed}");
            if is_range {
                let freed = before.saturating_sub(sim.total_bytes());
                assert!(freed > 40_000, "{place}: {freed} of {before} bytes");
                put(&sim, "b", 1_000, 900).unwrap_or_else(|error| panic!("{place}: {error}"));
            }
            let left = if is_range { [Some(0), Some(b + 1)] } else { [Some(60), Some(b - 3)] };
            assert_eq!(counts(&sim), left, "{place}");
            drop_table(&sim).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }
}

/// The checkpoint behind a delete that had the reserve, cut short at each call of the disk.
#[test]
fn a_crash_while_a_delete_makes_room_loses_nothing() {
    let mut kills = 0;
    for at in 1.. {
        let (sim, b) = filled_beside_segments(at);
        let size = sim.total_bytes();
        sim.kill_at(at);
        let is_deleted = Session::open(Arc::clone(&sim) as _, options(Log::Synced))
            .and_then(|session| {
                let mut table = session.open_table("a", &OpenTable::default())?;
                table.delete_range(Unbounded, Unbounded)?;
                drop(table);
                Ok(session.close())
            })
            .is_ok();
        let has_ended = !sim.is_dead();
        for (crash, image) in sim.crash_images(4, 4) {
            image.capacity(Some(size));
            let place = format!("killed at {at}, {crash:?}");
            let found = counts(&image);
            let is_right = found[0] == Some(0) || found[0] == Some(60) && !is_deleted;
            assert!(is_right && found[1] == Some(b), "{place}: {found:?}");
            drop_table(&image).unwrap_or_else(|error| panic!("{place}: {error}"));
            assert_eq!(counts(&image), [None, Some(b)], "{place}");
        }
        if has_ended {
            break;
        }
        kills += 1;
    }
    assert!(kills > 20, "{kills}");
}

/// Merges of the next update may come before the checkpoint that the delete has owed.
#[test]
fn what_a_delete_leaves_of_the_reserve_is_kept_at_once() {
    let (sim, _) = filled_disk(1);
    let whole = sim.bytes(RESERVE).unwrap().len();
    let (session, mut table) = open(&sim, "a");
    table.update(&deletes(3)).unwrap();
    let left = sim.bytes(RESERVE).map_or(0, |bytes| bytes.len());
    assert!((4_096..whole).contains(&left), "{left} of {whole}");
    drop(table);
    session.close().unwrap();
}

/// Of two deletes at once that find no room one has it: two of them would leave none for the checkpoint.
#[test]
fn one_of_two_deletes_at_once_has_the_reserve() {
    let (sim, _) = filled_disk(1);
    let (begins, begun) = channel::<()>();
    let waits = Mutex::new(Some(begun));
    let is_first = AtomicBool::new(true);
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if call == Call::Open(Mode::Create) && path.starts_with("log/") {
            if let Some(begun) = waits.lock().unwrap().take() {
                // The other comes behind the lock of the log, and fails as well.
                begun.recv().unwrap();
            }
            if is_first.swap(false, SeqCst) {
                let (_sends, comes) = channel::<()>();
                let _ = comes.recv_timeout(Duration::from_millis(200));
            }
        }
    });
    let session = Session::open(disk as _, options(Log::Synced)).unwrap();
    let [mut a, mut b] =
        ["a", "b"].map(|name| session.open_table(name, &OpenTable::default()).unwrap());
    // As long as it may be.
    let mut long = Batch::new();
    (0..28_u8).for_each(|number| {
        long.delete(&[number; 100]);
    });
    let long = &long;
    let outcomes = std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            begins.send(()).unwrap();
            b.update(long).map_err(|error| error.kind())
        });
        let one = a.update(long).map_err(|error| error.kind());
        [one, other.join().unwrap()]
    });
    let refused = outcomes.iter().filter(|outcome| **outcome == Err(Kind::Io)).count();
    assert_eq!(refused, 1, "{outcomes:?}");
    drop(a);
    session.close().unwrap();
    drop_table(&sim).unwrap();
}

/// Also where it is the first that a session does.
#[test]
fn a_drop_that_finds_no_room_leaves_the_reserve() {
    let (sim, _) = filled_disk(1);
    let (of, tries) = (Arc::clone(&sim), AtomicU8::new(0));
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        let at = tries.load(SeqCst);
        if call == Call::Remove && path == RESERVE {
            // Another process has the room at once, until the second try has failed.
            let length = of.bytes(RESERVE).unwrap().len() as u64;
            of.capacity(Some(of.total_bytes() - length));
            tries.store(1, SeqCst);
        } else if (call, path, at) == (Call::Open(Mode::Create), "checkpoint.tmp", 1) {
            tries.store(2, SeqCst);
        } else if (call, path, at) == (Call::Remove, "checkpoint.tmp", 2) {
            of.capacity(None);
        }
    });
    let session = Session::open(disk as _, options(Log::Synced)).unwrap();
    assert_eq!(session.delete_table("a").unwrap_err().kind(), Kind::Io);
    assert!(sim.bytes(RESERVE).is_ok_and(|bytes| bytes.len() > 8_192));
    session.delete_table("a").unwrap();
    session.close().unwrap();
}

/// Who makes a session again in the folder would find it without one.
#[test]
fn no_reserve_is_made_beside_the_end_of_a_session() {
    let sim = SimDisk::new(1);
    let (begins, begun) = channel::<()>();
    let (ends, ended) = channel::<()>();
    let (of, waits) = (Arc::clone(&sim), Mutex::new(Some((begins, ended))));
    let has_room = AtomicBool::new(false);
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if call == Call::Remove && path == RESERVE {
            of.capacity(Some(of.total_bytes() - 5_000));
        } else if call == Call::Remove && path.starts_with("log/") {
            // What the drop has let go is the room for the reserve.
            of.capacity(None);
            has_room.store(true, SeqCst);
        } else if matches!(call, Call::Open(Mode::Write | Mode::Create))
            && path == RESERVE
            && has_room.load(SeqCst)
            && let Some((begins, ended)) = waits.lock().unwrap().take()
        {
            begins.send(()).unwrap();
            let _ = ended.recv_timeout(Duration::from_millis(300));
        }
    });
    let session = Session::create(disk as _, options(Log::Synced)).unwrap();
    let mut table = session.create_table("a", TableOptions::default()).unwrap();
    for number in 0..10 {
        table.update(Batch::new().insert(&[number], &[7; 1_000])).unwrap();
    }
    drop(table);
    sim.capacity(Some(sim.total_bytes()));
    let handle = session.clone();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = handle.delete_table("a");
        });
        begun.recv_timeout(Duration::from_secs(20)).unwrap();
        session.discard().unwrap();
        let _ = ends.send(());
    });
    assert_eq!(sim.list("").unwrap(), Vec::<String>::new());
}

/// An update of another thread waits while a delete has the reserve, and neither takes its room nor fills it.
#[test]
fn no_update_takes_the_room_that_a_delete_was_given() {
    let (sim, [_, b]) = filled_disk(1);
    let (begins, begun) = channel();
    let (ends, ended) = channel::<()>();
    let (is_gone, waits) = (AtomicBool::new(false), Mutex::new(Some((begins, ended))));
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if path == RESERVE && [Call::Remove, Call::Write].contains(&call) {
            is_gone.store(call == Call::Remove, SeqCst);
        } else if path.starts_with("log/")
            && is_gone.load(SeqCst)
            && let Some((begins, ended)) = waits.lock().unwrap().take()
        {
            // The second try, which has its room.
            begins.send(()).unwrap();
            let _ = ended.recv_timeout(Duration::from_millis(300));
        }
    });
    let session = Session::open(disk as _, options(Log::Synced)).unwrap();
    let tables = ["a", "b"].map(|name| session.open_table(name, &OpenTable::default()).unwrap());
    let [mut a, mut other] = tables;
    std::thread::scope(|scope| {
        let bound = scope.spawn(move || {
            begun.recv().unwrap();
            let bound = other.update(Batch::new().insert(&[9; 8], &[7; 2_000]));
            let _ = ends.send(());
            bound.map_err(|error| error.kind())
        });
        a.update(&deletes(3)).unwrap();
        assert_eq!(bound.join().unwrap(), Err(Kind::Io));
    });
    drop(a);
    session.close().unwrap();
    sim.capacity(Some(sim.total_bytes()));
    drop_table(&sim).unwrap();
    assert_eq!(counts(&sim), [None, Some(b)]);
}

/// Zeros ahead of the log's end are for speed: where they find no room, the record keeps its own and they take none.
#[test]
fn zeros_ahead_of_the_log_take_no_room_from_a_record() {
    let sim = SimDisk::new(1);
    let long = varvite::SessionOptions { log_file_bytes: 1 << 20, ..options(Log::Synced) };
    let lengths = Arc::new(Mutex::new(Vec::new()));
    let (seen, of) = (Arc::clone(&lengths), Arc::clone(&sim));
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if path.starts_with("log/") && call == Call::Write {
            seen.lock().unwrap().push(of.bytes(path).unwrap().len());
        }
    });
    let session = Session::create(disk as _, long).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut update = |number: u8| {
        table.update(Batch::new().insert(&[number], &[7; 10_000])).unwrap();
    };
    let before = sim.total_bytes();
    sim.capacity(Some(before + 30_000));
    lengths.lock().unwrap().clear();
    update(1);
    let lengths = lengths.lock().unwrap().clone();
    assert!(lengths.len() > 1, "{lengths:?}");
    // Before the first write, and before the second.
    let first = lengths[1] - lengths[0];
    assert!((10_000..10_200).contains(&first), "{lengths:?}");
    let taken = sim.total_bytes() - before;
    assert!((10_000..10_200).contains(&taken), "{taken} bytes");
    update(2);
    sim.capacity(None);
    update(3);
    drop(table);
    session.close().unwrap();
    assert_eq!(open(&sim, "t").1.iter().map(Result::unwrap).count(), 3);
}

/// A file of that name which the host has put there is not the session's.
#[test]
fn a_file_of_the_hosts_named_reserve_is_left_alone() {
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
    let write = |bytes: &[u8]| {
        let file = sim.open(RESERVE, Mode::Create, varvite::disk::Access::Buffered).unwrap();
        file.write_at(0, bytes).unwrap();
    };
    write(b"tables for friday");
    drop(session.create_table("a", TableOptions::default()).unwrap());
    session.close().unwrap();
    put(&sim, "a", 1, 10).unwrap();
    sim.capacity(Some(sim.total_bytes()));
    assert_eq!(drop_table(&sim).unwrap_err().kind(), Kind::Io);
    assert_eq!(sim.bytes(RESERVE).unwrap(), b"tables for friday");
    // What a power cut leaves of the session's own is made whole.
    sim.capacity(None);
    for left in [&[][..], &[0; 300][..], &[0; 20][..]] {
        sim.remove(RESERVE).unwrap();
        write(left);
        put(&sim, "a", 2, 10).unwrap();
        assert!(sim.bytes(RESERVE).unwrap().len() > 8_192);
    }
}

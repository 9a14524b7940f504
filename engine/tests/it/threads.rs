//! Several threads on one session: every answer is that of the reader's moment, nobody hangs, and a
//! reader never waits for a writer's disk.

pub mod executors;
mod moment;
mod stops;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use executors::{Manner, TestExecutor};
use moment::Model;
use stops::Stops;
use varvite::cache::Cache;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::{
    Kind, MergeOperator, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify, View,
};

use crate::random::Random;

fn small_table() -> TableOptions {
    TableOptions { write_buffer_bytes: 8 << 10, size_ratio: 3, ..TableOptions::default() }
        .with_operator(MergeOperator::max())
}

fn with_executor(executor: &Arc<TestExecutor>) -> SessionOptions {
    SessionOptions { executor: Some(Arc::clone(executor) as _), ..SessionOptions::default() }
}

fn save(session: &Session, name: &str, table: &Table) -> varvite::Result<()> {
    let tables = &[table];
    session.save_snapshot(name, SnapshotContent { label: "", payload: b"", tables })
}

/// Opens a snapshot of one table and checks every byte of it.
fn open(session: &Session, name: &str) -> varvite::Result<Table> {
    let options = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
    Ok(session.open_snapshot(name, &options)?.tables.remove(0))
}

/// `outcome` is fine or one of `kinds`; whether it is fine.
#[track_caller]
fn fine_or<T>(outcome: varvite::Result<T>, kinds: &[Kind]) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) if kinds.contains(&error.kind()) => false,
        Err(error) => panic!("{error:?}"),
    }
}

/// One writer updates, saves, deletes and duplicates; three readers check each moment that they take,
/// and the moments that they took long before. Their pages come from a cache that is too small for them.
fn read_during_updates(
    disk: &Arc<dyn Disk>,
    manner: Manner,
    table_options: TableOptions,
    value_bytes: usize,
    rounds: u64,
) {
    let executor = Arc::new(TestExecutor::new(manner));
    let options = SessionOptions { cache: Some(Cache::new(300_000)), ..with_executor(&executor) };
    let session = Session::create(Arc::clone(disk), options).unwrap();
    let mut table = session.create_table("t", table_options).unwrap();
    let mut model = Model::new(value_bytes);
    let newest: Mutex<(View, Model)> = Mutex::new((table.view(), model.clone()));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for reader in 0..3 {
            let (newest, ended) = (&newest, &ended);
            scope.spawn(move || {
                let mut random = Random::new(reader);
                let mut held = newest.lock().unwrap().clone();
                while !ended.load(Ordering::Acquire) {
                    let taken = newest.lock().unwrap().clone();
                    taken.1.check(&taken.0, &mut random).unwrap();
                    held.1.check(&held.0, &mut random).unwrap();
                    if random.one_in(10) {
                        held = taken;
                    }
                }
                held.1.check_all(&held.0).unwrap();
            });
        }
        let mut random = Random::new(9);
        for round in 0..rounds {
            model.update(&mut table, &mut random, 40).unwrap();
            *newest.lock().unwrap() = (table.view(), model.clone());
            if round % 10 == 0 {
                save(&session, &format!("s{round}"), &table).unwrap();
            }
            if round % 20 == 15 {
                session.delete_snapshot(&format!("s{}", round - 5)).unwrap();
                table = table.duplicate("t").unwrap();
            }
            if round % 50 == 49 {
                executor.finish();
            }
        }
        ended.store(true, Ordering::Release);
    });
    model.check_all(&table.view()).unwrap();
    save(&session, "end", &table).unwrap();
    executor.finish();
    drop((table, newest));
    session.close().unwrap();
    let session = Session::open(Arc::clone(disk), SessionOptions::default()).unwrap();
    model.check_all(&open(&session, "end").unwrap().view()).unwrap();
}

#[test]
fn readers_see_their_moment_whatever_the_executor_does() {
    for manner in [Manner::Threads, Manner::Dropped, Manner::Later, Manner::OddOrder] {
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        read_during_updates(&disk, manner, small_table(), 40, 150);
    }
}

#[test]
fn readers_see_their_moment_on_the_operating_systems_disk() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    read_during_updates(&disk, Manner::Threads, small_table(), 40, 60);
}

/// Merges of several segments publish states in between, with inputs that shrink.
#[test]
fn readers_see_their_moment_while_merges_publish_parts() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let options = TableOptions { write_buffer_bytes: 6 << 20, size_ratio: 2, ..small_table() };
    read_during_updates(&disk, Manner::Threads, options, 80 << 10, 60);
}

#[test]
fn duplicates_on_several_threads_share_merges_and_nothing_else() {
    for manner in [Manner::Threads, Manner::OddOrder] {
        let executor = Arc::new(TestExecutor::new(manner));
        let session = Session::create(MemoryDisk::seeded(1), with_executor(&executor)).unwrap();
        let mut table = session.create_table("t", small_table()).unwrap();
        let mut model = Model::new(60);
        let mut random = Random::new(1);
        for round in 0..40u64 {
            model.update(&mut table, &mut random, 30).unwrap();
            thread::scope(|scope| {
                for number in 0..3 {
                    // From the second on they find the buffer as full, and merges as far, as it is.
                    let mut copy = table.duplicate(&format!("copy{number}")).unwrap();
                    let mut model = model.clone();
                    scope.spawn(move || {
                        let mut random = Random::new(round * 3 + number);
                        for _ in 0..6 {
                            model.update(&mut copy, &mut random, 40).unwrap();
                            model.check(&copy.view(), &mut random).unwrap();
                        }
                        model.check_all(&copy.view()).unwrap();
                    });
                }
            });
            model.check(&table.view(), &mut random).unwrap();
        }
        model.check_all(&table.view()).unwrap();
        executor.finish();
    }
}

/// With the same seed, both sessions give their files the same identities. They take turns, so that they
/// have the same files at the same time.
#[test]
fn two_sessions_that_share_a_cache_see_their_own_pages() {
    // Room for pages beside what both charge for their buffers and merges, about 400 KiB.
    let budget = 1 << 20;
    let cache = Cache::new(budget);
    let mut both = [0, 1].map(|number| {
        let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let table = session.create_table("t", small_table()).unwrap();
        (table, Model::new(50), Random::new(number))
    });
    for _ in 0..200 {
        for (table, model, random) in &mut both {
            model.update(table, random, 40).unwrap();
        }
        for (table, model, random) in &mut both {
            model.check(&table.view(), random).unwrap();
        }
    }
    for (table, model, _) in &both {
        model.check_all(&table.view()).unwrap();
    }
    drop(both);
    assert!(cache.stats().hits > 0 && cache.bytes() <= budget);
}

/// Runs `write` and, at each of its calls of the disk, `read` on another thread: while the writer
/// stands there, the reader must come to its end. Returns how many calls there were.
fn read_at_every_stop(stops: &Stops, write: impl FnOnce() + Send, read: impl Fn() + Sync) -> usize {
    let mut count = 0;
    stops.begin();
    thread::scope(|scope| {
        let writer = scope.spawn(|| stops.as_writer(write));
        while stops.wait() {
            count += 1;
            let (done, is_done) = mpsc::channel();
            let read = &read;
            let reader = scope.spawn(move || {
                read();
                let _ = done.send(());
            });
            // A reader that waits does so for ever; the time is for a machine that is busy.
            let outcome = is_done.recv_timeout(Duration::from_mins(10));
            if outcome.is_err() {
                stops.open();
            }
            reader.join().expect("the reader's checks hold");
            assert!(outcome.is_ok(), "a reader waited for the writer's disk call {count}");
            stops.go_on();
        }
        writer.join().expect("the writer's calls succeed");
    });
    count
}

#[test]
fn a_reader_never_waits_for_a_writers_disk() {
    let stops = Arc::new(Stops::default());
    let disk = stops.disk(MemoryDisk::seeded(1));
    let writers = Arc::clone(&disk);
    let mut parts = None;
    let set_up = || {
        let session = Session::create(writers, SessionOptions::default()).unwrap();
        let mut table = session.create_table("t", small_table()).unwrap();
        let (mut model, mut random) = (Model::new(40), Random::new(4));
        for _ in 0..20 {
            model.update(&mut table, &mut random, 40).unwrap();
        }
        save(&session, "before", &table).unwrap();
        parts = Some((session, table, model, random));
    };
    read_at_every_stop(&stops, set_up, || {});
    let (session, mut table, mut model, mut random) = parts.expect("it was set up");

    let shared = table.duplicate("reader").unwrap();
    let before = model.clone();
    let read = || {
        let mut random = Random::new(5);
        before.check(&shared.view(), &mut random).unwrap();
        before.check(&shared.view().clone(), &mut random).unwrap();
        shared.stats().unwrap();
        let opened = session.open_snapshot("before", &OpenSnapshot::default()).unwrap();
        before.check(&opened.tables[0].view(), &mut random).unwrap();
        assert!(!session.list_snapshots().unwrap().is_empty());
    };
    let updates = || {
        for _ in 0..200 {
            model.update(&mut table, &mut random, 20).unwrap();
        }
        table.work(u64::MAX).unwrap();
        model.update(&mut table, &mut random, 20).unwrap();
    };
    let calls = read_at_every_stop(&stops, updates, read);
    assert!(calls > 50, "the updates called the disk {calls} times");

    // A table that is being saved is read itself, and its snapshot, once it is there.
    let read_only = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let times_seen = AtomicU64::new(0);
    let read_saved = || {
        read();
        model.check(&table.view(), &mut Random::new(6)).unwrap();
        for session in [&session, &read_only] {
            let listed = session.list_snapshots().unwrap();
            let is_listed = listed.iter().any(|info| info.name == "after");
            match open(session, "after") {
                Ok(opened) => {
                    assert!(is_listed);
                    model.check_all(&opened.view()).unwrap();
                    times_seen.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => assert!(error.kind() == Kind::Missing && !is_listed, "{error:?}"),
            }
        }
    };
    let calls = read_at_every_stop(&stops, || save(&session, "after", &table).unwrap(), read_saved);
    assert!(calls > 10, "saving called the disk {calls} times");
    let seen = times_seen.load(Ordering::Relaxed);
    assert!(seen > 0, "no stop was after the rename");
    let calls =
        read_at_every_stop(&stops, || session.delete_snapshot("after").unwrap(), read_saved);
    assert!(calls > 1, "deleting called the disk {calls} times");
    stops.open();
    model.check_all(&table.view()).unwrap();
}

/// A session is closed while its table is updated, read, saved and helped along; afterwards every
/// snapshot that was saved is whole, and the next session meets nothing of the last one.
#[test]
fn closing_while_others_work_gives_closed_and_keeps_snapshots_whole() {
    for case in 0..40u64 {
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let executor = Arc::new(TestExecutor::new(Manner::Threads));
        let session = Session::create(Arc::clone(&disk), with_executor(&executor)).unwrap();
        let mut table = session.create_table("t", small_table()).unwrap();
        let (mut model, mut random) = (Model::new(60), Random::new(case));
        for _ in 0..8 {
            model.update(&mut table, &mut random, 40).unwrap();
        }
        save(&session, "first", &table).unwrap();
        let copy = table.duplicate("copy").unwrap();
        let (saved, mut names) = (model.clone(), vec!["first".to_owned()]);
        let closed = &[Kind::Closed];
        let start = Barrier::new(5);
        thread::scope(|scope| {
            let (start, model, copy) = (&start, &model, &copy);
            scope.spawn(|| {
                let (mut model, mut random) = (model.clone(), Random::new(case));
                start.wait();
                while fine_or(model.update(&mut table, &mut random, 40), closed) {}
            });
            scope.spawn(move || {
                let view = copy.view();
                let mut random = Random::new(case);
                start.wait();
                while fine_or(model.check(&view, &mut random), closed) {}
            });
            let saver = session.clone();
            let saving = scope.spawn(move || {
                let mut names = Vec::new();
                start.wait();
                loop {
                    let name = format!("s{}", names.len());
                    if !fine_or(save(&saver, &name, copy), closed) {
                        return names;
                    }
                    names.push(name);
                }
            });
            // Whoever comes second finds it closed.
            let other = session.clone();
            let closing = scope.spawn(move || {
                start.wait();
                (0..case % 8 * 40).for_each(|_| thread::yield_now());
                fine_or(other.close(), closed)
            });
            start.wait();
            (0..case % 7 * 40).for_each(|_| thread::yield_now());
            let first = fine_or(session.close(), closed);
            assert!(first != closing.join().unwrap(), "one of two closes the session");
            names.extend(saving.join().unwrap());
        });

        // Helpers of the closed session may still be there.
        let session = Session::open(Arc::clone(&disk), SessionOptions::default()).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        let listed = session.list_snapshots().unwrap();
        assert_eq!(listed.len(), names.len());
        for name in &names {
            saved.check_all(&open(&session, name).unwrap().view()).unwrap();
        }
        let mut table = open(&session, "first").unwrap();
        let mut model = saved.clone();
        for _ in 0..8 {
            model.update(&mut table, &mut random, 40).unwrap();
        }
        executor.finish();
        model.check_all(&table.view()).unwrap();
        drop((table, copy));
        session.close().unwrap();
    }
}

/// Whoever opens a snapshot while it is deleted gets all of it or `Missing`; what it got can be saved
/// again.
#[test]
fn opening_a_snapshot_that_is_deleted_gives_all_or_nothing() {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", small_table()).unwrap();
    let (mut model, mut random) = (Model::new(60), Random::new(3));
    for _ in 0..12 {
        model.update(&mut table, &mut random, 40).unwrap();
    }
    save(&session, "kept", &table).unwrap();
    drop(table);
    let mut newest = "kept".to_owned();
    for round in 0..200 {
        let table = open(&session, &newest).unwrap();
        let name = format!("r{round}");
        save(&session, &name, &table).unwrap();
        session.delete_snapshot(&newest).unwrap();
        drop(table);
        let again = format!("again{round}");
        thread::scope(|scope| {
            let opening = scope.spawn(|| {
                let opened = open(&session, &name);
                if let Ok(table) = &opened {
                    model.check(&table.view(), &mut Random::new(round)).unwrap();
                    save(&session, &again, table).unwrap();
                }
                fine_or(opened, &[Kind::Missing])
            });
            (0..round % 9 * 30).for_each(|_| thread::yield_now());
            session.delete_snapshot(&name).unwrap();
            if opening.join().unwrap() {
                newest.clone_from(&again);
            }
        });
        if newest != again {
            // Nothing is left of it, so it is made anew.
            let mut table = session.create_table("t", small_table()).unwrap();
            (model, random) = (Model::new(60), Random::new(round));
            for _ in 0..12 {
                model.update(&mut table, &mut random, 40).unwrap();
            }
            newest = again;
            save(&session, &newest, &table).unwrap();
        }
    }
    model.check_all(&open(&session, &newest).unwrap().view()).unwrap();
}

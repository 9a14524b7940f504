//! Sessions that end long before a log file is full, one after another: as a program that makes one update, or a node
//! that is restarted again and again.

use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::SimDisk;
use varvite::disk::{Disk, Mode};
use varvite::{Batch, Kind, Log, OpenTable, Session, SessionOptions, Table, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};

/// So many files without a checkpoint, twice as many before one comes at once, those of the session itself, and those that
/// became one of several.
const FILES_MAX: usize = 2 * 8 + 5;

pub fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 4_000, seed: Some(3), ..SessionOptions::default() }
}

fn open(disk: &Arc<impl Disk + 'static>, log: Log) -> (Session, Table) {
    let session = Session::open(Arc::clone(disk) as Arc<dyn Disk>, options(log)).unwrap();
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    (session, table)
}

fn create(disk: &Arc<impl Disk + 'static>, log: Log) {
    let session = Session::create(Arc::clone(disk) as Arc<dyn Disk>, options(log)).unwrap();
    let small = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
    drop(session.create_table("t", small).unwrap());
    session.close().unwrap();
}

fn insert(table: &mut Table, number: u64, bytes: usize) {
    table.update(Batch::new().insert(&number.to_be_bytes(), &vec![7; bytes])).unwrap();
}

fn count(disk: &Arc<impl Disk + 'static>, log: Log) -> usize {
    open(disk, log).1.iter().map(Result::unwrap).count()
}

fn log_files(disk: &dyn Disk) -> usize {
    disk.list("log").unwrap().len()
}

#[test]
fn the_log_of_sessions_that_make_one_update_each_stays_small() {
    for log in [Log::Written, Log::Synced] {
        for closes in [true, false] {
            let disk = MemoryDisk::seeded(1);
            create(&disk, log);
            let mut most = 0;
            for number in 0..100 {
                let (session, mut table) = open(&disk, log);
                insert(&mut table, number, 50);
                drop(table);
                if closes {
                    session.close().unwrap();
                }
                most = most.max(log_files(&*disk));
            }
            assert!(most <= FILES_MAX, "{log:?}, closes: {closes}: {most} files");
            assert_eq!(count(&disk, log), 100);
        }
    }
}

/// Nobody who opens it updates anything.
#[test]
fn a_session_that_is_only_closed_brings_a_checkpoint_to_its_end() {
    let disk = MemoryDisk::seeded(1);
    create(&disk, Log::Synced);
    for number in 0..9 {
        let (_session, mut table) = open(&disk, Log::Synced);
        insert(&mut table, number, 50);
    }
    let files = log_files(&*disk);
    let (session, table) = open(&disk, Log::Synced);
    drop(table);
    session.close().unwrap();
    assert!(files >= 9 && log_files(&*disk) <= 2, "{files} and {}", log_files(&*disk));
    assert_eq!(count(&disk, Log::Synced), 9);
}

/// Each logs nearly a file, so that none is short and none is ever full.
#[test]
fn the_log_of_sessions_that_end_before_a_file_is_full_stays_small() {
    for closes in [true, false] {
        let disk = MemoryDisk::seeded(1);
        create(&disk, Log::Written);
        let (mut most, mut bytes) = (0, 0);
        for number in 0..40 {
            let (session, mut table) = open(&disk, Log::Written);
            for part in 0..3 {
                insert(&mut table, number * 3 + part, 1_000);
            }
            drop(table);
            if closes {
                session.close().unwrap();
            }
            let length = |name: String| disk.bytes(&format!("log/{name}")).unwrap().len();
            bytes = bytes.max(disk.list("log").unwrap().into_iter().map(length).sum());
            most = most.max(log_files(&*disk));
        }
        // Twice two files and four write buffers, and what a session logs.
        assert!(bytes <= 2 * (2 * 4_000 + 4 * 2_000) + 2 * 4_000, "{closes}: {bytes} bytes");
        assert!(most <= 14, "{closes}: {most} files");
        assert_eq!(count(&disk, Log::Written), 120);
    }
}

/// A closed session leaves no zeros that its log was filled with ahead of its end.
#[test]
fn a_closed_session_leaves_the_log_as_long_as_what_was_written() {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(
        disk.clone(),
        SessionOptions { log_file_bytes: 1 << 20, ..options(Log::Synced) },
    )
    .unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    insert(&mut table, 1, 50);
    let length = || {
        let files = disk.files();
        let logs = files.iter().filter(|path| path.starts_with("log/"));
        logs.map(|path| disk.bytes(path).unwrap().len()).sum::<usize>()
    };
    assert!(length() > 1 << 20, "{}", length());
    drop(table);
    session.close().unwrap();
    assert!(length() < 300, "{}", length());
    assert_eq!(count(&disk, Log::Synced), 1);
}

/// The checkpoint that an opening owes, cut short by a crash at each call of the disk: with so many files that it is
/// made in steps, and with as many as have it made at once.
#[test]
fn a_crash_on_the_way_to_a_checkpoint_that_was_owed_loses_nothing() {
    // And the file of the session that made it.
    for files in [9, 16] {
        let mut kills = 0;
        for at in 1.. {
            let sim = SimDisk::new(at);
            create(&sim, Log::Synced);
            for number in 0..files {
                let (_session, mut table) = open(&sim, Log::Synced);
                insert(&mut table, number, 50);
            }
            assert!(log_files(&*sim) as u64 > files, "{}", log_files(&*sim));
            let (session, mut table) = open(&sim, Log::Synced);
            sim.kill_at(at);
            let is_updated = table.update(Batch::new().insert(&files.to_be_bytes(), &[7; 50]));
            let is_updated = is_updated.is_ok();
            drop(table);
            let _ = session.close();
            let has_ended = !sim.is_dead();
            for (crash, image) in sim.crash_images(4, 4) {
                let found = count(&image, Log::Synced) as u64;
                let is_right = found == files + 1 || found == files && !is_updated;
                assert!(is_right, "{files} files, killed at {at}, {crash:?}: {found}");
            }
            if has_ended {
                assert!(log_files(&*sim) <= 2, "{files}: {}", log_files(&*sim));
                break;
            }
            kills += 1;
        }
        assert!(kills > 20, "{kills}");
    }
}

/// Sessions of as many tables leave a short file each, which is nothing that anybody has to mend.
#[test]
fn a_store_of_many_tables_that_are_updated_once_each_warns_of_nothing() {
    let sim = SimDisk::new(1);
    create(&sim, Log::Synced);
    for number in 0..25 {
        let session = Session::open(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
        drop(session.create_table(&format!("t{number}"), TableOptions::default()).unwrap());
        session.close().unwrap();
    }
    for number in 0..25 {
        let session = Session::open(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
        let mut table = session.open_table(&format!("t{number}"), &OpenTable::default()).unwrap();
        insert(&mut table, number, 50);
        assert_eq!(session.warnings(), Vec::<String>::new(), "{number}");
        drop(table);
        session.close().unwrap();
    }
    assert!(log_files(&*sim) <= FILES_MAX, "{}", log_files(&*sim));
}

/// Where there is no room to make one file of many, the session that tried says so.
#[test]
fn sessions_say_of_short_files_what_they_know() {
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
    drop(session.create_table("t", TableOptions::default()).unwrap());
    session.close().unwrap();
    let mut tried = 0;
    for number in 0..40 {
        // Room for the next file of the log, and for no other.
        sim.capacity(Some(sim.total_bytes() + 400));
        let (session, mut table) = open(&sim, Log::Synced);
        insert(&mut table, number, 20);
        for warning in session.warnings() {
            assert!(
                warning.starts_with("the log has ") && warning.contains("no room"),
                "{warning}"
            );
            assert!(warning.contains("free some space"), "{warning}");
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried}");
    sim.capacity(None);
    for number in 40..56 {
        let (session, mut table) = open(&sim, Log::Synced);
        insert(&mut table, number, 20);
        drop(table);
        session.close().unwrap();
    }
    let (session, table) = open(&sim, Log::Synced);
    assert_eq!(session.warnings(), Vec::<String>::new());
    assert!(log_files(&*sim) < 20, "{}", log_files(&*sim));
    drop((table, session));
    assert_eq!(count(&sim, Log::Synced), 56);
}

/// The checkpoint that a close brings to its end takes segments away: a follower that has them no longer open finds the
/// others once it has looked again.
#[test]
fn a_follower_whose_file_went_with_the_checkpoint_of_a_close_looks_once_more() {
    let disk = MemoryDisk::seeded(1);
    create(&disk, Log::Synced);
    let short = |log| SessionOptions { segment_bytes: 8_192, ..options(log) };
    let open = || {
        let session = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, short(Log::Synced));
        let session = session.unwrap();
        let table = session.open_table("t", &OpenTable::default()).unwrap();
        (session, table)
    };
    let cache = Some(varvite::cache::Cache::new(0));
    let few = SessionOptions { max_open_files: Some(2), cache, ..short(Log::None) };
    let reading = Session::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, few).unwrap();
    let mut follower = reading.follow(&OpenTable::default()).unwrap();
    let (mut number, mut gone) = (0, 0);
    for _ in 0..30 {
        for _ in 0..9 {
            let (_session, mut table) = open();
            insert(&mut table, number, 300);
            number += 1;
        }
        let (session, table) = open();
        follower.reload().unwrap();
        let look = |follower: &varvite::Follower| {
            follower.table("t")?.iter().collect::<varvite::Result<Vec<_>>>().map(|all| all.len())
        };
        assert_eq!(look(&follower).unwrap() as u64, number);
        drop(table);
        session.close().unwrap();
        match look(&follower) {
            Err(error) => {
                assert_eq!(error.kind(), varvite::Kind::Missing, "{error}");
                gone += 1;
                follower.reload().unwrap();
            }
            Ok(found) => assert_eq!(found as u64, number),
        }
        assert_eq!(look(&follower).unwrap() as u64, number);
    }
    assert!(gone > 3, "{gone}");
}

/// Two tables that one-update sessions have filled a disk with, to the last byte; and what they have.
pub fn filled_disk(seed: u64) -> (Arc<SimDisk>, [u64; 2]) {
    let sim = SimDisk::new(seed);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
    for name in ["a", "b"] {
        drop(session.create_table(name, TableOptions::default()).unwrap());
    }
    session.close().unwrap();
    sim.capacity(Some(sim.total_bytes() + 40_000));
    let mut counts = [0; 2];
    for number in 0.. {
        let which = usize::from(number % 2 == 0);
        match put(&sim, ["a", "b"][which], number, 900) {
            Ok(()) => counts[which] += 1,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Io, "{error}");
                break;
            }
        }
    }
    sim.capacity(Some(sim.total_bytes()));
    (sim, counts)
}

pub fn put(disk: &Arc<SimDisk>, name: &str, number: u64, bytes: usize) -> varvite::Result<()> {
    let session = Session::open(Arc::clone(disk) as _, options(Log::Synced))?;
    let mut table = session.open_table(name, &OpenTable::default())?;
    table.update(Batch::new().insert(&number.to_be_bytes(), &vec![7; bytes]))?;
    drop(table);
    session.close()
}

pub fn drop_table(disk: &Arc<SimDisk>) -> varvite::Result<()> {
    let session = Session::open(Arc::clone(disk) as _, options(Log::Synced))?;
    session.delete_table("a")?;
    session.close()
}

fn delete_all(disk: &Arc<SimDisk>) -> varvite::Result<()> {
    let session = Session::open(Arc::clone(disk) as _, options(Log::Synced))?;
    let mut table = session.open_table("a", &OpenTable::default())?;
    table.delete_range(Unbounded, Unbounded)?;
    drop(table);
    session.close()
}

/// How many entries each of the tables has; `None` where it is not there.
pub fn counts(disk: &Arc<SimDisk>) -> [Option<u64>; 2] {
    let session = Session::open(Arc::clone(disk) as _, options(Log::Synced)).unwrap();
    let is_of_log = |warning: &String| warning.starts_with("the log has ");
    assert!(session.warnings().iter().all(is_of_log), "{:?}", session.warnings());
    ["a", "b"].map(|name| match session.open_table(name, &OpenTable::default()) {
        Err(error) if error.kind() == Kind::Missing => None,
        table => Some(table.unwrap().iter().map(Result::unwrap).count() as u64),
    })
}

#[test]
fn a_disk_that_updates_have_filled_to_the_last_byte_is_freed_by_dropping_a_table() {
    for deletes in [false, true] {
        let (sim, [a, mut b]) = filled_disk(1);
        assert!(a > 3 && b > 3, "{a} {b}");
        // Smaller ones, however often it is tried, take no room that dropping needs; nor do deletes.
        let mut refused = 0;
        for number in 1_000..1_040 {
            match put(&sim, "b", number, 1) {
                Ok(()) => b += 1,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Io, "{error}");
                    refused += 1;
                }
            }
            // The first has the reserve, and what it lets go is for those that come.
            if deletes && let Err(error) = delete_all(&sim) {
                assert!(number > 1_000 && error.kind() == Kind::Io, "{number}: {error}");
            }
        }
        assert!(refused > 0);
        let before = sim.total_bytes();
        drop_table(&sim).unwrap_or_else(|error| panic!("drop: {error}"));
        let freed = before.saturating_sub(sim.total_bytes());
        assert!(deletes || freed > 5_000, "{freed} of {before} bytes");
        for number in 2_000..2_003 {
            put(&sim, "b", number, 900).unwrap_or_else(|error| panic!("{number}: {error}"));
        }
        assert_eq!(counts(&sim), [None, Some(b + 3)]);
    }
}

/// The same, cut short at each call of the disk. What the next session finds is as full, and is freed as well.
#[test]
fn a_crash_while_a_full_disk_is_freed_leaves_what_was_acknowledged() {
    let mut kills = 0;
    for at in 1.. {
        let (sim, [a, b]) = filled_disk(at);
        let size = sim.total_bytes();
        sim.kill_at(at);
        let is_done = drop_table(&sim).is_ok();
        let has_ended = !sim.is_dead();
        for (crash, image) in sim.crash_images(4, 4) {
            image.capacity(Some(size));
            let place = format!("killed at {at}, {crash:?}");
            let found = counts(&image);
            assert_eq!(found[1], Some(b), "{place}");
            let is_right = found[0].is_none() || found[0] == Some(a) && !is_done;
            assert!(is_right, "{place}: {found:?} of {a}");
            match drop_table(&image) {
                Err(error) if error.kind() == Kind::Missing => {}
                done => done.unwrap_or_else(|error| panic!("{place}, again: {error}")),
            }
            assert_eq!(counts(&image), [None, Some(b)], "{place}, again");
        }
        if has_ended {
            break;
        }
        kills += 1;
    }
    assert!(kills > 10, "{kills}");
}

/// An opening that changes nothing leaves nothing in the log.
#[test]
fn an_opening_begins_no_log_file() {
    let disk = MemoryDisk::seeded(1);
    create(&disk, Log::Synced);
    let (session, mut table) = open(&disk, Log::Synced);
    insert(&mut table, 1, 50);
    drop(table);
    session.close().unwrap();
    let before = disk.list("log").unwrap();
    let writes = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&writes);
    let hooked = HookedDisk::new(Arc::clone(&disk) as _, move |call, path| {
        let writes = [Call::Write, Call::SetLen, Call::Preallocate, Call::Rename].contains(&call);
        let makes = matches!(call, Call::Open(Mode::Create)) || call == Call::Link;
        // What was not synced of the log is written again, in its place.
        let is_again = call == Call::Write && path.starts_with("log/");
        if (writes || makes) && !is_again && path != "lock" {
            seen.fetch_add(1, SeqCst);
        }
    });
    for closes in [true, false] {
        let (session, table) = open(&hooked, Log::Synced);
        drop(table);
        if closes {
            session.close().unwrap();
        }
        assert_eq!(disk.list("log").unwrap(), before);
        assert_eq!(writes.load(SeqCst), 0);
    }
    let (session, mut table) = open(&hooked, Log::Synced);
    insert(&mut table, 1, 50);
    assert!(writes.load(SeqCst) > 0);
    drop(table);
    session.close().unwrap();
    // Backups, too, find the log as it is.
    let (session, table) = open(&disk, Log::Synced);
    drop(table);
    let target = MemoryDisk::seeded(2);
    session.backup(&(Arc::clone(&target) as Arc<dyn Disk>), varvite::Verify::Full).unwrap();
    assert_eq!(count(&target, Log::Synced), 1);
}

/// Where a table cannot be written out that only keeps too many short files, the log has room for a long session.
#[test]
fn a_long_session_goes_on_where_short_ones_left_more_than_there_is_room_to_write_out() {
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let long = vec![7; 3_000];
    (0..40).for_each(|number: u64| {
        table.update(Batch::new().insert(&number.to_be_bytes(), &long)).unwrap();
    });
    while table.work(u64::MAX).unwrap() > 0 {}
    drop(table);
    session.close().unwrap();
    for number in 0..9 {
        let (_session, mut table) = open(&sim, Log::Synced);
        insert(&mut table, 100 + number, 20);
    }
    let opened = SessionOptions { log_file_bytes: 1 << 20, ..options(Log::Written) };
    let session = Session::open(Arc::clone(&sim) as _, opened).unwrap();
    let mut table = session.open_table("t", &OpenTable::default()).unwrap();
    // Room for the log, its filling ahead and the checkpoint, and for no segment.
    let (full, is_full) = (Arc::clone(&sim), std::cell::Cell::new(false));
    for number in 0..50 {
        insert(&mut table, 200 + number, 20);
        if !is_full.replace(true) {
            full.capacity(Some(full.total_bytes() + 8_000));
        }
    }
    drop(table);
    let _ = session.close();
    sim.capacity(None);
    assert_eq!(count(&sim, Log::Synced), 40 + 9 + 50);
}

/// One that keeps more of a log than its opener's options allow is written to by updates only.
#[test]
fn a_backup_that_was_only_opened_and_closed_is_brought_up_to_date_still() {
    let disk = MemoryDisk::seeded(1);
    let large = SessionOptions { log_file_bytes: 60_000, ..options(Log::Synced) };
    let session = Session::create(Arc::clone(&disk) as _, large).unwrap();
    let small = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
    let mut table = session.create_table("t", small).unwrap();
    (0..40).for_each(|number| insert(&mut table, number, 1_000));
    let target = MemoryDisk::seeded(2);
    let shared = Arc::clone(&target) as Arc<dyn Disk>;
    session.backup(&shared, varvite::Verify::Full).unwrap();
    for _ in 0..2 {
        Session::open(Arc::clone(&shared), options(Log::Synced)).unwrap().close().unwrap();
        let (opened, table) = open(&target, Log::Synced);
        drop(table);
        opened.close().unwrap();
    }
    insert(&mut table, 40, 1_000);
    session.backup(&shared, varvite::Verify::Full).unwrap();
    // With the first update what is owed is done.
    let (opened, mut table) = open(&target, Log::Synced);
    insert(&mut table, 41, 50);
    drop(table);
    opened.close().unwrap();
    assert_eq!(count(&target, Log::Synced), 42);
    let refused = session.backup(&shared, varvite::Verify::Full).unwrap_err();
    assert_eq!(refused.kind(), Kind::Exists, "{refused}");
}

/// Once a table of it was dropped, it is no backup any more.
#[test]
fn a_backup_of_which_a_table_was_dropped_keeps_no_more_of_the_log_than_others() {
    let disk = MemoryDisk::seeded(1);
    let large = SessionOptions { log_file_bytes: 60_000, ..options(Log::Synced) };
    let session = Session::create(Arc::clone(&disk) as _, large).unwrap();
    let small = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
    let mut table = session.create_table("t", small.clone()).unwrap();
    drop(session.create_table("u", small).unwrap());
    (0..40).for_each(|number| insert(&mut table, number, 1_000));
    let target = MemoryDisk::seeded(2);
    session.backup(&(Arc::clone(&target) as Arc<dyn Disk>), varvite::Verify::Full).unwrap();
    let (opened, table) = open(&target, Log::Synced);
    opened.delete_table("u").unwrap();
    drop(table);
    opened.close().unwrap();
    let length = |name: String| target.bytes(&format!("log/{name}")).unwrap().len();
    let bytes: usize = target.list("log").unwrap().into_iter().map(length).sum();
    assert!(bytes < 2 * 4_000 + 4 * 2_000, "{bytes}");
    assert_eq!(count(&target, Log::Synced), 40);
}

/// Where nothing is live, an opening has nothing to write either.
#[test]
fn an_opening_of_a_session_of_snapshots_begins_no_log_file() {
    for made_with in [Log::None, Log::Synced] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let session = Session::create(shared, options(made_with)).unwrap();
        let content = varvite::SnapshotContent { label: "", payload: b"", tables: &[] };
        session.save_snapshot("s", content).unwrap();
        session.close().unwrap();
        let made = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&made);
        let hooked = HookedDisk::new(Arc::clone(&disk) as _, move |call, path| {
            let is_made = matches!(call, Call::Open(Mode::Create)) || call == Call::Remove;
            seen.fetch_add(u64::from(is_made && path.starts_with("log/")), SeqCst);
        });
        for _ in 0..3 {
            let shared = Arc::clone(&hooked) as Arc<dyn Disk>;
            Session::open(shared, options(Log::Synced)).unwrap().close().unwrap();
        }
        assert_eq!(made.load(SeqCst), 0, "{made_with:?}");
        // Numbers of log files are given once.
        let session = Session::open(Arc::clone(&disk) as _, options(Log::Synced)).unwrap();
        drop(session.create_table("t", TableOptions::default()).unwrap());
        session.close().unwrap();
        assert_eq!(count(&disk, Log::Synced), 0);
    }
}

/// The opening has read all of it. What is no longer there when a table is opened was acknowledged.
#[test]
fn a_table_is_not_opened_from_a_log_that_has_lost_updates_since_the_session_was() {
    let sim = SimDisk::new(1);
    create(&sim, Log::Synced);
    for number in 0..5 {
        let (session, mut table) = open(&sim, Log::Synced);
        insert(&mut table, number, 50);
        drop((table, session));
    }
    let session = Session::open(Arc::clone(&sim) as Arc<dyn Disk>, options(Log::Synced)).unwrap();
    let files = sim.list("log").unwrap();
    let path = format!("log/{}", files[files.len() / 2]);
    let whole = sim.bytes(&path).unwrap();
    let zeros = vec![0; whole.len() - 32];
    for lost in [[&whole[..32], &zeros].concat(), whole[..32].to_vec()] {
        sim.damage(&path, lost).unwrap();
        let error = session.open_table("t", &OpenTable::default()).unwrap_err();
        assert!(error.kind() == Kind::Corrupt && error.to_string().contains(&path), "{error}");
        assert_eq!(session.open_all(&OpenTable::default()).unwrap_err().kind(), Kind::Corrupt);
    }
    sim.damage(&path, whole).unwrap();
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    assert_eq!(table.iter().count(), 5);
}

/// A checkpoint does without the one file of many, which is the moment at which the loss is seen.
#[test]
fn a_file_that_has_lost_updates_when_it_is_joined_is_warned_of() {
    let sim = SimDisk::new(1);
    let session = Session::create(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
    for name in ["t", "u"] {
        drop(session.create_table(name, TableOptions::default()).unwrap());
    }
    session.close().unwrap();
    for _ in 0..12 {
        let session = Session::open(Arc::clone(&sim) as _, options(Log::Synced)).unwrap();
        insert(&mut session.open_table("u", &OpenTable::default()).unwrap(), 1, 50);
        session.sync_log().unwrap();
    }
    let (session, mut table) = open(&sim, Log::Synced);
    let files = sim.list("log").unwrap();
    let path = format!("log/{}", files[files.len() / 2]);
    let whole = sim.bytes(&path).unwrap();
    sim.damage(&path, whole[..32].to_vec()).unwrap();
    for number in 0..3 {
        insert(&mut table, number, 50);
    }
    drop(table);
    let handle = session.clone();
    session.close().unwrap();
    let warned = handle.warnings();
    assert!(warned.len() == 1 && warned[0].contains(&path), "{warned:?}");
    assert!(sim.exists(&path).unwrap());
}

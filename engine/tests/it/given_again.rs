//! Without a log the number of a file is given again once what had it was deleted. Whoever opens, exports, checks or
//! scrubs beside that meets another file, whole or half written, and is told of no damage.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::check::check;
use varvite::{
    Batch, Kind, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table, TableOptions,
    Verify,
};

use crate::hooked_disk::HookedDisk;
use crate::listed::Listed;
use crate::random::setting;

fn update(table: &mut Table, round: u8) {
    let mut batch = Batch::new();
    for number in 0..30_u8 {
        // One in four goes to a blob file.
        let length = if number % 4 == 0 { 90 } else { 30 };
        batch.insert(&[number.wrapping_mul(7), round], &vec![round; length]);
    }
    table.update(&batch).unwrap();
}

fn save(session: &Session, table: &Table, name: &str) {
    let content = SnapshotContent { label: "", payload: b"", tables: &[table] };
    session.save_snapshot(name, content).unwrap();
}

fn open(disk: &Arc<MemoryDisk>) -> Session {
    let options = SessionOptions { segment_bytes: 8_192, ..SessionOptions::default() };
    Session::open(Arc::clone(disk) as Arc<dyn Disk>, options).unwrap()
}

/// A store with the snapshots "kept" and "newest".
fn told() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { segment_bytes: 8_192, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let options = TableOptions {
        write_buffer_bytes: 1_000,
        blob_min_bytes: Some(64),
        ..TableOptions::default()
    };
    let mut table = session.create_table("t", options).unwrap();
    update(&mut table, 1);
    save(&session, &table, "kept");
    for round in 2..4 {
        update(&mut table, round);
    }
    save(&session, &table, "newest");
    drop(table);
    session.close().unwrap();
    disk
}

fn segments(disk: &MemoryDisk) -> BTreeSet<String> {
    disk.files().into_iter().filter(|path| path.starts_with("segments/")).collect()
}

/// What a writer does beside whoever reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The new files are there, in a snapshot of that name.
    Saves(&'static str),
    /// They are being written.
    Writes(u64),
}

/// The newest snapshot is deleted and its numbers are given again, all of them where `is_every`: then none of its files
/// is missing. How many files have one.
fn give_again(disk: &Arc<MemoryDisk>, then: Then, is_every: bool) -> usize {
    let before = segments(disk);
    let session = open(disk);
    session.delete_snapshot("newest").unwrap();
    session.close().unwrap();
    let left = segments(disk);
    let session = open(disk);
    let mut table =
        session.open_snapshot("kept", &OpenSnapshot::default()).unwrap().tables.remove(0);
    for round in 10..12 {
        update(&mut table, round);
    }
    // A file named in no snapshot goes with its last holder.
    save(&session, &table, if let Then::Saves(name) = then { name } else { "later" });
    drop((table, session));
    let (mut again, missing): (Vec<_>, Vec<_>) =
        before.difference(&left).cloned().partition(|it| disk.bytes(it).is_ok());
    if is_every {
        // As a writer leaves them that has made more, which nothing names yet.
        for path in missing {
            let other = again.iter().find(|it| it.rsplit('.').next() == path.rsplit('.').next());
            disk.replace(&path, disk.bytes(other.unwrap_or(&again[0])).unwrap()).unwrap();
            again.push(path);
        }
    }
    if let Then::Writes(length) = then {
        disk.remove("snapshots/later.snapshot").unwrap();
        for path in &again {
            // The room comes first, then a header, then pages; or all of it over another file.
            let mut bytes = if length > 100_000 { Vec::new() } else { disk.bytes(path).unwrap() };
            bytes.resize(length as usize, 0);
            disk.replace(path, bytes).unwrap();
        }
    }
    again.len()
}

const THENS: [Then; 6] = [
    Then::Saves("next"),
    Then::Saves("newest"),
    Then::Writes(0),
    Then::Writes(4_096),
    Then::Writes(65_536),
    Then::Writes(131_072),
];

/// Does `read` with one of those at each of its calls of the disk, and with all numbers given again or some: by turns, or
/// with both at each where more effort is asked for. Gives how often it came, and with how many files.
fn beside(read: impl Fn(&Arc<dyn Disk>, &dyn std::fmt::Debug)) -> (u64, usize) {
    let whole = told();
    let (mut met, mut files) = (0, 0);
    let is_both = setting("VARVITE_EFFORT", 1) > 1;
    for turn in 0.. {
        // Not always the same one for the same kind of call.
        let (n, is_every) = if is_both { (turn / 2, turn % 2 == 1) } else { (turn, turn % 2 == 1) };
        let then = THENS[(n as usize + n as usize / THENS.len()) % THENS.len()];
        let disk = whole.snapshot();
        let (at, is_met) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
        let (inner, again) = (Arc::clone(&disk), Arc::new(Mutex::new(0)));
        let (noted, count) = (Arc::clone(&is_met), Arc::clone(&again));
        let hooked = HookedDisk::new(disk as Arc<dyn Disk>, move |_, _| {
            if at.fetch_add(1, SeqCst) == n {
                *count.lock().unwrap() = give_again(&inner, then, is_every);
                noted.store(true, SeqCst);
            }
        });
        read(&(hooked as Arc<dyn Disk>), &(then, n, is_every));
        if !is_met.load(SeqCst) {
            break;
        }
        met += 1;
        files += *again.lock().unwrap();
    }
    (met, files)
}

fn reading(disk: &Arc<dyn Disk>) -> Session {
    Session::open_read_only(Arc::clone(disk), SessionOptions::default()).unwrap()
}

#[test]
fn who_opens_a_snapshot_is_told_that_it_was_deleted() {
    let gone = AtomicU64::new(0);
    let (met, files) = beside(|disk, what| {
        for verify in [Verify::Quick, Verify::Full] {
            let options = OpenSnapshot { verify, ..OpenSnapshot::default() };
            match reading(disk).open_snapshot("newest", &options) {
                Ok(snapshot) => {
                    let listed = snapshot.tables[0].listed(Bound::Unbounded, Bound::Unbounded);
                    let outcome = listed.map_err(|error| (error.kind(), error));
                    assert!(
                        matches!(outcome, Ok(_) | Err((Kind::Missing, _))),
                        "{what:?}: {outcome:?}"
                    );
                }
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "{what:?}: {error}");
                    gone.fetch_add(1, SeqCst);
                }
            }
        }
    });
    let gone = gone.into_inner();
    assert!(met > 30 && gone > 8 && files > 50, "{met} {gone} {files}");
}

#[test]
fn who_exports_a_snapshot_is_told_that_it_was_deleted() {
    let (gone, exported) = (AtomicU64::new(0), AtomicU64::new(0));
    let (met, files) = beside(|disk, what| {
        let target: Arc<dyn Disk> = MemoryDisk::seeded(3);
        match reading(disk).export_snapshot("newest", &target, Verify::Full) {
            Ok(_) => {
                let report = check(&target, |_| ControlFlow::Continue(())).unwrap();
                assert_eq!(report.findings, Vec::new(), "{what:?}");
                exported.fetch_add(1, SeqCst);
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::Missing, "{what:?}: {error}");
                gone.fetch_add(1, SeqCst);
            }
        }
    });
    let (gone, exported) = (gone.into_inner(), exported.into_inner());
    assert!(met > 30 && gone > 8 && exported > 0 && files > 50, "{met} {gone} {exported} {files}");
}

#[test]
fn a_check_finds_nothing_wrong_beside_that() {
    let (met, files) = beside(|disk, what| {
        let report = check(disk, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings, Vec::new(), "{what:?}");
    });
    assert!(met > 30 && files > 50, "{met} {files}");
}

#[test]
fn a_scrub_finds_nothing_wrong_beside_that() {
    let (met, files) = beside(|disk, what| {
        let mut scrub = reading(disk).scrub(0).unwrap();
        while scrub.work(8).unwrap() > 0 {}
        assert_eq!(scrub.findings(), &[], "{what:?}");
    });
    assert!(met > 30 && files > 50, "{met} {files}");
}

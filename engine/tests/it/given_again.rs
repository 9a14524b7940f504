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

fn update(table: &mut Table, round: u8) {
    for number in 0..60_u8 {
        let key = [number.wrapping_mul(7), round];
        // One in four goes to a blob file.
        let length = if number % 4 == 0 { 90 } else { 30 };
        table.update(Batch::new().insert(&key, &vec![round; length])).unwrap();
    }
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
    for round in 2..5 {
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

/// The newest snapshot is deleted and its numbers are given again; how many files have one.
fn give_again(disk: &Arc<MemoryDisk>, then: Then) -> usize {
    let before = segments(disk);
    let session = open(disk);
    session.delete_snapshot("newest").unwrap();
    session.close().unwrap();
    let left = segments(disk);
    let session = open(disk);
    let mut table =
        session.open_snapshot("kept", &OpenSnapshot::default()).unwrap().tables.remove(0);
    for round in 10..13 {
        update(&mut table, round);
    }
    // A file named in no snapshot goes with its last holder.
    save(&session, &table, if let Then::Saves(name) = then { name } else { "later" });
    drop((table, session));
    let again: Vec<_> =
        segments(disk).into_iter().filter(|it| before.contains(it) && !left.contains(it)).collect();
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

/// Does `read` with all of that at each of its calls of the disk. Gives how often it came, and with how many files.
fn beside(read: impl Fn(&Arc<dyn Disk>, &dyn std::fmt::Debug)) -> (u64, usize) {
    let whole = told();
    let (mut met, mut files) = (0, 0);
    for then in THENS {
        for n in 0.. {
            let disk = whole.snapshot();
            let (at, is_met) = (AtomicU64::new(0), Arc::new(AtomicBool::new(false)));
            let (inner, again) = (Arc::clone(&disk), Arc::new(Mutex::new(0)));
            let (noted, count) = (Arc::clone(&is_met), Arc::clone(&again));
            let hooked = HookedDisk::new(disk as Arc<dyn Disk>, move |_, _| {
                if at.fetch_add(1, SeqCst) == n {
                    *count.lock().unwrap() = give_again(&inner, then);
                    noted.store(true, SeqCst);
                }
            });
            read(&(hooked as Arc<dyn Disk>), &(then, n));
            if !is_met.load(SeqCst) {
                break;
            }
            met += 1;
            files += *again.lock().unwrap();
        }
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
    assert!(met > 50 && gone > 50 && files > 500, "{met} {gone} {files}");
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
    assert!(
        met > 50 && gone > 50 && exported > 2 && files > 500,
        "{met} {gone} {exported} {files}"
    );
}

#[test]
fn a_check_finds_nothing_wrong_beside_that() {
    let (met, files) = beside(|disk, what| {
        let report = check(disk, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings, Vec::new(), "{what:?}");
    });
    assert!(met > 50 && files > 500, "{met} {files}");
}

#[test]
fn a_scrub_finds_nothing_wrong_beside_that() {
    let (met, files) = beside(|disk, what| {
        let mut scrub = reading(disk).scrub(0).unwrap();
        while scrub.work(8).unwrap() > 0 {}
        assert_eq!(scrub.findings(), &[], "{what:?}");
    });
    assert!(met > 50 && files > 500, "{met} {files}");
}

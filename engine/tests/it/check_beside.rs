//! Checks beside a writer that replaces what is checked, and what is said of files that are lost.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Disk, Mode};
use varvite::raw::format::checksum::stored;
use varvite::table::check::{Report, Selection, check, check_selected};
use varvite::{
    Batch, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    TableOptions, Verify,
};

use crate::hooked_disk::{Call, HookedDisk};

/// A snapshot of one table with one key, all of it written anew.
fn save_full(writer: &Session, number: u64) {
    let mut table = writer.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"key", &number.to_le_bytes())).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    writer.save_snapshot(&format!("s-{number}"), content).unwrap();
}

fn checked(disk: &Arc<dyn Disk>) -> Report {
    check(disk, |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_check_takes_what_a_writer_replaces_for_no_damage() {
    for folder in ["snapshots/", "segments/"] {
        let inner = MemoryDisk::seeded(1);
        let writer =
            Session::create(Arc::clone(&inner) as Arc<dyn Disk>, SessionOptions::default())
                .unwrap();
        save_full(&writer, 1_000);
        let left = Arc::new(AtomicU64::new(0));
        let replacing = Arc::clone(&left);
        // Before the check opens a file there, the writer replaces the snapshot, `left` times.
        let disk = HookedDisk::new(inner, move |call, path| {
            let left = replacing.load(Relaxed);
            if call == Call::Open(Mode::Read) && path.starts_with(folder) && left > 0 {
                replacing.store(left - 1, Relaxed);
                let old = writer.list_snapshots().unwrap().pop().unwrap().name;
                save_full(&writer, left - 1);
                writer.delete_snapshot(&old).unwrap();
            }
        });
        for replaced in [0, 1, 2, 7] {
            left.store(replaced, Relaxed);
            let report = checked(&(Arc::clone(&disk) as Arc<dyn Disk>));
            assert!(report.findings.is_empty(), "{folder}, {replaced} times: {report:?}");
            let counts = (report.snapshots, report.segments, report.entries, report.unreferenced);
            assert_eq!(counts, (1, 1, 1, 0), "{folder}, {replaced} times");
            assert_eq!(left.load(Relaxed), 0);
        }
    }
}

#[test]
fn a_snapshot_and_a_live_table_that_lost_a_file_are_damaged() {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
    let mut live = session.create_table("live", TableOptions::default()).unwrap();
    live.update(Batch::new().insert(b"key", b"value")).unwrap();
    let mut copy = live.duplicate("copy").unwrap();
    session.publish(&mut copy).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&copy] };
    session.save_snapshot("saved", content).unwrap();
    drop((live, copy));
    session.close().unwrap();
    let lost = disk.files().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    disk.remove(&lost).unwrap();

    let writer = Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let reader =
        Session::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, SessionOptions::default());
    let folder: Arc<dyn Disk> = MemoryDisk::seeded(1);
    for session in [&writer, &reader.unwrap()] {
        for error in [
            session.open_snapshot("saved", &OpenSnapshot::default()).unwrap_err(),
            session.open_table("copy", &OpenTable::default()).unwrap_err(),
            session.export_snapshot("saved", &folder, Verify::Quick).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(error.detail().starts_with(&*lost), "{error}");
        }
    }
    let report = checked(&(disk as Arc<dyn Disk>));
    let finding = &report.findings[0];
    assert_eq!((finding.file.as_str(), report.findings.len()), (lost.as_str(), 1));
    assert!(finding.detail.starts_with(&*lost), "{finding:?}");
    assert_eq!(
        (&finding.snapshots[..], &finding.live_tables[..]),
        (&["saved".to_owned()][..], &["copy".to_owned()][..])
    );
}

#[test]
fn a_damaged_file_of_the_session_is_needed_by_everything_in_it() {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    save_full(&session, 1);
    session.close().unwrap();
    let mut bytes = disk.bytes("session").unwrap();
    bytes[40] ^= 1;
    disk.replace("session", bytes).unwrap();
    let report = checked(&(disk as Arc<dyn Disk>));
    let finding = &report.findings[0];
    assert_eq!((finding.file.as_str(), report.findings.len()), ("session", 1));
    assert_eq!(
        (&finding.snapshots[..], &finding.live_tables[..]),
        (&["s-1".to_owned()][..], &["t".to_owned()][..])
    );
}

/// What a check is told by its last look at a damaged `session` is what counts: that a newer release has written it by
/// then, or that the whole is gone.
#[test]
fn a_check_tells_what_its_second_look_is_told() {
    let mut told = 0;
    for (kind, looks) in [Kind::Version, Kind::Missing]
        .into_iter()
        .flat_map(|kind| (1..=4).map(move |looks| (kind, looks)))
    {
        let inner = MemoryDisk::seeded(1);
        let session =
            Session::create(Arc::clone(&inner) as Arc<dyn Disk>, SessionOptions::default())
                .unwrap();
        save_full(&session, 1);
        session.close().unwrap();
        let whole = inner.bytes("session").unwrap();
        let mut damaged = whole.clone();
        damaged[40] ^= 1;
        inner.replace("session", damaged).unwrap();
        let (changed, opened) = (Arc::clone(&inner), AtomicU64::new(0));
        let disk = HookedDisk::new(inner, move |call, path| {
            let is_look = call == Call::Open(Mode::Read) && path == "session";
            if !is_look || opened.fetch_add(1, Relaxed) + 1 != looks {
                return;
            }
            if kind == Kind::Missing {
                for path in changed.files() {
                    changed.remove(&path).unwrap();
                }
                return;
            }
            let mut newer = whole.clone();
            newer[8..10].copy_from_slice(&9_999_u16.to_le_bytes());
            let checksum = stored(&newer[..28]);
            newer[28..32].copy_from_slice(&checksum.to_le_bytes());
            changed.replace("session", newer).unwrap();
        });
        let error = check(&(disk as Arc<dyn Disk>), |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(error.kind(), kind, "{looks}: {error}");
        told += 1;
    }
    assert_eq!(told, 8);
}

/// The snapshot "s-1" with table "t", and once the check opens a file in `folder` "s-0" in its place.
fn replaced_at(folder: &'static str) -> Arc<dyn Disk> {
    let inner = MemoryDisk::seeded(1);
    let shared = Arc::clone(&inner) as Arc<dyn Disk>;
    let writer = Session::create(shared, SessionOptions::default()).unwrap();
    save_full(&writer, 1);
    let done = AtomicU64::new(0);
    HookedDisk::new(inner, move |call, path| {
        let is_it = call == Call::Open(Mode::Read) && path.starts_with(folder);
        if is_it && done.swap(1, Relaxed) == 0 {
            save_full(&writer, 0);
            writer.delete_snapshot("s-1").unwrap();
        }
    })
}

/// A table whose snapshot is deleted after the check found its name is looked for in what came in the place of that.
#[test]
fn a_table_that_is_replaced_is_found_by_a_second_look() {
    for folder in ["snapshots/", "segments/"] {
        let disk = replaced_at(folder);
        let selection = Selection { tables: vec!["t".to_owned()], ..Selection::default() };
        let report = check_selected(&disk, &selection, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((&report.findings[..], report.segments, report.entries), (&[][..], 1, 1));
        // The table that nobody has made is not there, however often that is looked at.
        let selection = Selection { tables: vec!["z".to_owned()], ..Selection::default() };
        let outcome =
            check_selected(&replaced_at(folder), &selection, |_| ControlFlow::Continue(()));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Missing, "{folder}");
    }
}

/// A part that is broken off where a file was replaced is not the last one: what came was not read.
#[test]
fn a_part_that_is_broken_off_beside_a_writer_begins_again() {
    let disk = replaced_at("segments/");
    let report = check_selected(&disk, &Selection::default(), |_| ControlFlow::Break(())).unwrap();
    assert_eq!((&report.findings[..], report.entries, report.next), (&[][..], 0, Some(0)));
    let report = check_selected(&disk, &Selection::default(), |_| ControlFlow::Break(())).unwrap();
    assert_eq!((&report.findings[..], report.entries, report.next), (&[][..], 1, None));
}

/// A live table with a key, and once somebody opens a file in `folder`, `then` with its session.
fn live_then(
    folder: &'static str,
    then: impl Fn(&MemoryDisk, &Session) + Send + Sync + 'static,
) -> Arc<dyn Disk> {
    let inner = MemoryDisk::seeded(1);
    let options = SessionOptions { log: Log::Written, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&inner) as Arc<dyn Disk>, options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"key", b"value")).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("saved", content).unwrap();
    drop(table);
    let (changed, done) = (Arc::clone(&inner), AtomicU64::new(0));
    HookedDisk::new(inner, move |call, path| {
        let is_it = call == Call::Open(Mode::Read) && path.starts_with(folder);
        if is_it && done.swap(1, Relaxed) == 0 {
            then(&changed, &session);
        }
    })
}

/// Removes a session as far as somebody may have come who removes it: its checkpoint is there.
fn remove_most(disk: &MemoryDisk) {
    for path in disk.files().into_iter().filter(|path| path != "checkpoint") {
        disk.remove(&path).unwrap();
    }
}

/// A session that is removed while it is checked has no damage: there is none.
#[test]
fn a_session_that_is_removed_beside_a_check_is_missing_and_not_damaged() {
    for folder in ["segments/", "log/"] {
        let disk = live_then(folder, |disk, _| remove_most(disk));
        let error = check(&disk, |_| ControlFlow::Continue(())).unwrap_err();
        assert_eq!(error.kind(), Kind::Missing, "{folder}: {error}");
    }
}

#[test]
fn a_session_that_is_removed_beside_a_reader_is_missing_and_not_damaged() {
    let disk = live_then("log/", |disk, _| remove_most(disk));
    let reader = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let error = reader.open_table("t", &OpenTable::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.to_string().contains("is not a varvite session"), "{error}");
}

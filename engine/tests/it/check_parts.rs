//! Checks of a part of a session, and in parts: together they find what one check of everything finds.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::check::{Report, Selection, check_selected};
use varvite::{Batch, Kind, Log, Session, SessionOptions, SnapshotContent, Table, TableOptions};

use crate::hooked_disk::HookedDisk;
use crate::random::Random;

fn options(log: Log) -> SessionOptions {
    SessionOptions {
        log,
        segment_bytes: 24_576,
        log_file_bytes: 4_000,
        ..SessionOptions::default()
    }
}

fn filled(session: &Session, name: &str) -> Table {
    let options = TableOptions {
        write_buffer_bytes: 4_000,
        blob_min_bytes: Some(300),
        ..TableOptions::default()
    };
    let mut table = session.create_table(name, options).unwrap();
    let mut random = Random::new(name.len() as u64);
    for _ in 0..20 {
        let mut batch = Batch::new();
        for _ in 0..10 {
            let length = random.choose(&[20, 20, 20, 400]);
            batch.insert(&random.bytes(8), &random.bytes(length));
        }
        table.update(&batch).unwrap();
    }
    table
}

fn save(session: &Session, name: &str, tables: &[&Table]) {
    let content = SnapshotContent { label: "", payload: b"", tables };
    session.save_snapshot(name, content).unwrap();
}

/// Snapshots "both" of tables a and bb, "one" of a, and the live table ccc, each with files of its own.
fn store() -> (Arc<MemoryDisk>, Session) {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(disk.clone(), options(Log::None)).unwrap();
    let (mut a, bb) = (filled(&session, "a"), filled(&session, "bb"));
    save(&session, "one", &[&a]);
    a.update(Batch::new().insert(b"more", &[1; 5_000])).unwrap();
    save(&session, "both", &[&a, &bb]);
    drop((a, bb));
    session.close().unwrap();
    let session = Session::open(disk.clone(), options(Log::Written)).unwrap();
    drop(filled(&session, "ccc"));
    (disk, session)
}

fn part(disk: &Arc<dyn Disk>, selection: &Selection) -> Report {
    check_selected(disk, selection, |_| ControlFlow::Continue(())).unwrap()
}

/// What parts of at most `most_bytes` find, one after the other, with how many there were.
fn in_parts(
    disk: &Arc<dyn Disk>,
    most_bytes: u64,
    mut between: impl FnMut(u64),
) -> (Vec<Report>, u64) {
    let mut selection = Selection { most_bytes: Some(most_bytes), ..Selection::default() };
    let mut reports = Vec::new();
    loop {
        let report = part(disk, &selection);
        let next = report.next;
        reports.push(report);
        let count = reports.len() as u64;
        between(count);
        let Some(next) = next else { return (reports, count) };
        assert!(next > selection.from, "it goes on");
        selection.from = next;
    }
}

fn files(reports: &[Report]) -> BTreeSet<&str> {
    reports.iter().flat_map(|it| &it.findings).map(|it| it.file.as_str()).collect()
}

/// Changes a byte of an entry or value in a file, and gives what it had.
fn damage(memory: &MemoryDisk, name: &str) -> Vec<u8> {
    let bytes = memory.bytes(name).unwrap();
    let mut damaged = bytes.clone();
    damaged[(bytes.len() / 2).min(5_000)] ^= 1;
    memory.replace(name, damaged).unwrap();
    bytes
}

#[test]
fn parts_find_together_what_a_whole_check_finds() {
    let (memory, session) = store();
    session.close().unwrap();
    let disk: Arc<dyn Disk> = memory.clone();
    let whole = part(&disk, &Selection::default());
    assert_eq!((whole.findings.len(), whole.next), (0, None));
    let names = memory.files().into_iter().filter(|name| name.starts_with("segments/"));
    let (needed, spare): (Vec<_>, Vec<_>) = names.partition(|name| {
        let bytes = damage(&memory, name);
        let is_found = !part(&disk, &Selection::default()).findings.is_empty();
        memory.replace(name, bytes).unwrap();
        is_found
    });
    assert_eq!(spare.len() as u64, whole.unreferenced, "{spare:?}");
    assert!(needed.len() > 10, "{needed:?}");
    for (index, name) in needed.iter().enumerate().step_by(needed.len() / 6) {
        let bytes = damage(&memory, name);
        let all = part(&disk, &Selection::default());
        assert_eq!(files(std::slice::from_ref(&all)), BTreeSet::from([&**name]));
        for most in [1, 20_000, u64::MAX] {
            let (reports, count) = in_parts(&disk, most, |_| {});
            assert_eq!(files(&reports), BTreeSet::from([&**name]), "{most}");
            assert_eq!(reports.iter().map(|it| it.bytes).sum::<u64>(), whole.bytes);
            assert_eq!(count, if most == 1 { needed.len() as u64 } else { count });
            assert_eq!(count == 1, most == u64::MAX);
        }
        // Whoever needs the file, and nobody else, is told of it.
        let (finding, mut told) = (&all.findings[0], 0);
        for snapshot in ["one", "both"] {
            let selection = Selection { snapshots: vec![snapshot.into()], ..Selection::default() };
            let found = part(&disk, &selection).findings;
            assert_eq!(found.len() == 1, finding.snapshots.iter().any(|it| it == snapshot));
            told += found.len();
        }
        let found = part(&disk, &Selection { live: true, ..Selection::default() }).findings;
        assert_eq!(found.len() == 1, finding.live_tables == ["ccc"], "{index}");
        told += found.len();
        assert!(told > 0);
        let of_tables = |tables: &[&str]| {
            let tables = tables.iter().map(|&it| it.to_owned()).collect();
            part(&disk, &Selection { tables, ..Selection::default() }).findings.len()
        };
        assert_eq!(of_tables(&["a"]) + of_tables(&["bb"]) + of_tables(&["ccc"]), 1);
        assert_eq!(of_tables(&["a", "bb", "ccc"]), 1);
        memory.replace(name, bytes).unwrap();
    }
}

#[test]
fn what_is_broken_off_goes_on() {
    let (memory, _session) = store();
    let disk: Arc<dyn Disk> = memory;
    let whole = part(&disk, &Selection::default());
    let (mut selection, mut bytes) = (Selection::default(), 0);
    loop {
        let mut left = 3;
        let report = check_selected(&disk, &selection, |_| {
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let report = report.unwrap();
        bytes += report.bytes;
        let Some(next) = report.next else { break };
        selection.from = next;
    }
    assert_eq!(bytes, whole.bytes);
}

#[test]
fn a_writer_between_the_parts_is_no_damage() {
    let (memory, session) = store();
    let disk: Arc<dyn Disk> = memory;
    let (reports, count) = in_parts(&disk, 1, |round| {
        if round <= 6 {
            let table = filled(&session, "dddd");
            let names = ["one", "new1", "new2", "new3", "new4", "new5", "new6"];
            session.delete_snapshot(names[round as usize - 1]).unwrap();
            save(&session, names[round as usize], &[&table]);
            drop(table);
            session.delete_table("dddd").unwrap();
        }
    });
    assert_eq!(files(&reports), BTreeSet::new());
    assert!(count > 10, "{count}");
}

#[test]
fn what_is_not_there_is_not_sound() {
    let (memory, _session) = store();
    let disk: Arc<dyn Disk> = memory;
    for selection in [
        Selection { snapshots: vec!["two".into()], ..Selection::default() },
        Selection { tables: vec!["a".into(), "z".into()], ..Selection::default() },
        Selection { tables: vec!["a".into()], live: true, ..Selection::default() },
    ] {
        let outcome = check_selected(&disk, &selection, |_| ControlFlow::Continue(()));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Missing, "{selection:?}");
    }
}

/// What names files is read again where something is wrong, but once, and not once for each file.
#[test]
fn many_damaged_files_do_not_have_the_log_read_as_often() {
    let read = |damaged: usize| {
        let (memory, session) = store();
        session.close().unwrap();
        let shared: Arc<dyn Disk> = memory.clone();
        let names = memory.files().into_iter().filter(|name| name.ends_with(".segment"));
        for name in names {
            let bytes = damage(&memory, &name);
            let found = part(&shared, &Selection::default()).findings.len();
            if found > damaged {
                memory.replace(&name, bytes).unwrap();
                break;
            }
        }
        let counts = Arc::new([(); 2].map(|()| AtomicU64::new(0)));
        let told = Arc::clone(&counts);
        let disk: Arc<dyn Disk> = HookedDisk::counting_reads(memory, move |path, bytes| {
            let place = usize::from(path.starts_with("snapshots/"));
            if path.starts_with("log/") || place == 1 {
                told[place].fetch_add(bytes as u64, SeqCst);
            }
        });
        let report = part(&disk, &Selection::default());
        assert!(report.findings.len() >= damaged, "{:?}", report.findings);
        [counts[0].load(SeqCst), counts[1].load(SeqCst)]
    };
    let ([log_of_none, manifests_of_none], [log, manifests]) = (read(0), read(5));
    assert!(log_of_none > 0 && manifests_of_none > 0);
    assert!(log <= 2 * log_of_none, "{log} bytes of the log, {log_of_none} in a sound store");
    assert!(manifests <= 2 * manifests_of_none, "{manifests} of {manifests_of_none}");
}

//! What a repair makes of a log of many files, with gaps, and of a disk that does not answer.

use std::collections::BTreeSet;
use std::ops::{Bound::Unbounded, ControlFlow};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::table::check::check;
use varvite::table::repair::{RepairOptions, Repaired, repair};
use varvite::{Batch, Kind, Log, OpenTable, Session, SessionOptions, TableOptions};

use crate::listed::Listed;
use crate::log_crash::{BLOB_ACTS, Tale, options};

/// Bytes before the first record of a log file, and of the head of each record.
const HEADER: usize = 32;
const HEAD: usize = 28;

fn log_file(number: u64) -> String {
    format!("log/{number:016x}.log")
}

/// The disk after so many processes, each of which made two updates and died: after the first one's log
/// file, which the checkpoint names, there is one of each.
fn lives(disk: &Arc<MemoryDisk>, numbers: std::ops::Range<u8>) {
    for life in numbers {
        let shared = Arc::clone(disk) as Arc<dyn Disk>;
        let (session, mut table) = if life == 0 {
            let session = Session::create(shared, options(Log::Synced)).unwrap();
            let table = session.create_table("t", TableOptions::default()).unwrap();
            (session, table)
        } else {
            let session = Session::open(shared, options(Log::Synced)).unwrap();
            let table = session.open_table("t", &OpenTable::default()).unwrap();
            (session, table)
        };
        for number in [life * 2, life * 2 + 1] {
            table.update(Batch::new().insert(&[number], &[number; 20])).unwrap();
        }
        drop((table, session));
    }
}

fn repaired(disk: &Arc<MemoryDisk>) -> (Vec<u8>, Repaired) {
    let (source, out): (Arc<dyn Disk>, Arc<dyn Disk>) =
        (Arc::clone(disk) as _, MemoryDisk::seeded(7));
    let report = repair(&source, &out, &RepairOptions::default()).unwrap();
    let session = Session::open(out, options(Log::Synced)).unwrap();
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    let found = table.listed(Unbounded, Unbounded).unwrap();
    (found.into_iter().map(|(key, _)| key[0]).collect(), report)
}

/// A power cut may leave of a file its first record alone, and the next process goes on after it.
#[test]
fn a_file_with_nothing_but_its_beginning_is_no_gap() {
    let disk = MemoryDisk::seeded(1);
    lives(&disk, 0..3);
    let name = log_file(3);
    let bytes = disk.bytes(&name).unwrap();
    let length = u32::from_le_bytes(bytes[HEADER + 8..HEADER + 12].try_into().unwrap()) as usize;
    disk.replace(&name, &bytes[..HEADER + HEAD + length]).unwrap();
    lives(&disk, 3..5);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    assert_eq!(check(&shared, |_| ControlFlow::Continue(())).unwrap().findings, Vec::new());
    let (found, report) = repaired(&disk);
    assert_eq!(report.losses, Vec::new());
    assert!(report.live_tables[0].is_whole, "{report:?}");
    assert_eq!(found, [0, 1, 2, 3, 6, 7, 8, 9]);
}

/// Without `checkpoint` such a file is all that tells of live tables: nothing is removed for it.
#[test]
fn a_store_without_checkpoint_whose_log_has_no_update_is_not_taken_for_an_empty_one() {
    let disk = MemoryDisk::seeded(1);
    lives(&disk, 0..2);
    disk.remove(&log_file(1)).unwrap();
    let name = log_file(2);
    let bytes = disk.bytes(&name).unwrap();
    let length = u32::from_le_bytes(bytes[HEADER + 8..HEADER + 12].try_into().unwrap()) as usize;
    disk.replace(&name, &bytes[..HEADER + HEAD + length]).unwrap();
    disk.remove("checkpoint").unwrap();
    disk.replace("segments/0000000000000001.segment", "of the table").unwrap();
    let before = disk.files();
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let session = Session::open(Arc::clone(&shared), options(Log::Synced)).unwrap();
    let warnings = session.warnings();
    assert!(warnings.iter().any(|said| said.contains("checkpoint")), "{warnings:?}");
    let error = session.open_all(&OpenTable::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    drop(session);
    assert_eq!(disk.files(), before);
    let report = repair(&shared, &(MemoryDisk::seeded(2) as _), &RepairOptions::default()).unwrap();
    assert!(report.losses.iter().any(|loss| loss.file == "checkpoint"), "{report:?}");
}

/// Whatever becomes of two files of the log: a table has a beginning of its updates.
#[test]
fn no_update_behind_a_gap_is_applied_whatever_is_damaged_besides() {
    let sound = MemoryDisk::seeded(1);
    lives(&sound, 0..5);
    let mut cut = BTreeSet::new();
    for gap in 1..=5 {
        for other in 1..=5 {
            let bytes = sound.bytes(&log_file(other)).unwrap();
            for at in (0..500.min(bytes.len())).step_by(9) {
                let disk = sound.snapshot();
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << (at % 8);
                disk.replace(&log_file(other), damaged).unwrap();
                disk.remove(&log_file(gap)).unwrap();
                let (found, report) = repaired(&disk);
                let expected: Vec<_> = (0..found.len() as u8).collect();
                assert_eq!(found, expected, "{gap} is gone, {other} damaged at {at}: {report:?}");
                // Nothing tells of the last file, or then of the last record of the one before it.
                let is_last = gap == 5 && found.len() >= if other == 4 { 7 } else { 8 };
                assert!(is_last || !report.losses.is_empty(), "{gap}, {other}, {at}");
                cut.insert(found.len());
            }
        }
    }
    assert!(cut.len() >= 5, "{cut:?}");
}

/// A table whose segments lack what a range deleted, by an update behind a damaged one, never was without that range:
/// it is left out, or its bounds are told.
#[test]
fn a_table_that_lacks_the_ranges_of_lost_updates_is_not_passed_off_as_one_that_was() {
    let key = |number: u32| format!("a{number:04}").into_bytes();
    for is_reopened in [false, true] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let options = varvite::SessionOptions {
            log_file_bytes: 3_000,
            segment_bytes: 8_192,
            ..options(Log::Written)
        };
        let mut session = Session::create(Arc::clone(&shared), options.clone()).unwrap();
        let small = TableOptions { write_buffer_bytes: 2_000, ..TableOptions::default() };
        let mut table = session.create_table("t", small.clone()).unwrap();
        let mut other = session.create_table("u", small).unwrap();
        for number in 0..400 {
            table.update(Batch::new().insert(&key(number), &[7; 60])).unwrap();
        }
        while table.work(u64::MAX).unwrap() > 0 {}
        let fill = |session: &Session, other: &mut varvite::Table| {
            let before = session.stats().checkpoints;
            for number in 0..40_u8 {
                if session.stats().checkpoints > before {
                    return;
                }
                other.update(Batch::new().insert(&[number], &[8; 900])).unwrap();
            }
            panic!("no checkpoint was written");
        };
        // From here on its buffer has nothing but these.
        let count = table.listed(Unbounded, Unbounded).unwrap().len();
        assert_eq!(count, 400);
        table.update(Batch::new().insert(&key(400), &[7; 1_500])).unwrap();
        for name in [b"z-first", b"z-secnd", b"z-third"] {
            table.update(Batch::new().insert(name, b"in the buffer")).unwrap();
        }
        table.delete_range(Unbounded, std::ops::Bound::Included(&key(399))).unwrap();
        assert_eq!(table.listed(Unbounded, Unbounded).unwrap().len(), 4);
        fill(&session, &mut other);
        if is_reopened {
            // What was cut is known through an opening and the checkpoint after it.
            drop((table, other, session));
            session = Session::open(Arc::clone(&shared), options.clone()).unwrap();
            table = session.open_table("t", &OpenTable::default()).unwrap();
            other = session.open_table("u", &OpenTable::default()).unwrap();
            assert_eq!(table.listed(Unbounded, Unbounded).unwrap().len(), 4);
            fill(&session, &mut other);
        }
        drop((table, other, session));
        let damaged: Vec<_> = disk
            .files()
            .into_iter()
            .filter(|name| name.starts_with("log/"))
            .filter_map(|name| {
                let mut bytes = disk.bytes(&name).unwrap();
                let at = bytes.windows(7).position(|it| it == b"z-secnd")?;
                bytes[at] ^= 1;
                Some((name, bytes))
            })
            .collect();
        assert_eq!(damaged.len(), 1, "the update is in the log");
        for (name, bytes) in damaged {
            disk.replace(&name, bytes).unwrap();
        }
        for skip_damaged in [false, true] {
            let out: Arc<dyn Disk> = MemoryDisk::seeded(7);
            let what = RepairOptions { skip_damaged, ..RepairOptions::default() };
            let report = repair(&shared, &out, &what).unwrap();
            let kept: Vec<_> = report.live_tables.iter().map(|it| it.name.as_str()).collect();
            let of_table = |it: &&varvite::table::repair::Loss| {
                it.live_tables.contains(&"t".to_owned()) && it.detail.contains("ranges")
            };
            let loss = report.losses.iter().find(of_table).expect("it is told");
            let there = Session::open(out, options.clone()).unwrap();
            if !skip_damaged {
                assert_eq!(kept, ["u"], "{is_reopened}: {report:?}");
                assert_eq!(loss.keys, None);
                continue;
            }
            assert_eq!(kept, ["t", "u"], "{is_reopened}: {report:?}");
            assert!(report.live_tables[0].lacks_keys && !report.live_tables[1].lacks_keys);
            let (first, last) = loss.keys.clone().expect("the bounds are told");
            let table = there.open_table("t", &OpenTable::default()).unwrap();
            let found = table.listed(Unbounded, Unbounded).unwrap();
            let found: BTreeSet<_> = found.into_iter().map(|(key, _)| key).collect();
            assert!(found.contains(&b"z-first"[..]) && !found.contains(&b"z-third"[..]));
            for number in 0..400 {
                let key = key(number);
                assert!(found.contains(&key) || (first <= key && key <= last), "{number}");
            }
        }
    }
}

/// The values of one table are no other table's concern.
#[test]
fn a_lost_value_ends_the_table_that_has_it_and_no_other() {
    for is_lost in [true, false] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let session = Session::create(Arc::clone(&shared), options(Log::Synced)).unwrap();
        let make = |name| session.create_table(name, TableOptions::default()).unwrap();
        let (mut plain, mut long) = (make("plain"), make("with-values"));
        let mut values = Vec::new();
        for number in 0..4_u8 {
            let mut value = session.write_value().unwrap();
            value.write(&[number; 300]).unwrap();
            let value = value.finish().unwrap();
            let (mut one, mut other) = (Batch::new(), Batch::new());
            one.insert(&[number], b"short");
            other.insert_value(&[number], &value);
            session.update(&mut [(&mut plain, &one), (&mut long, &other)]).unwrap();
            values.push(value);
        }
        drop((plain, long, session, values));
        let blobs = disk.files().into_iter().filter(|name| name.ends_with("blob"));
        let blobs: Vec<_> = blobs.collect();
        assert_eq!(blobs.len(), 4);
        if is_lost {
            disk.remove(&blobs[2]).unwrap();
        } else {
            let mut bytes = disk.bytes(&blobs[2]).unwrap();
            bytes[4_100] ^= 1;
            disk.replace(&blobs[2], bytes).unwrap();
        }
        let out = MemoryDisk::seeded(2);
        let target = Arc::clone(&out) as Arc<dyn Disk>;
        let report = repair(&shared, &target, &RepairOptions::default()).unwrap();
        let whole: Vec<_> = report.live_tables.iter().map(|it| (&*it.name, it.is_whole)).collect();
        assert_eq!(whole, [("plain", true), ("with-values", false)], "{report:?}");
        let session = Session::open(Arc::clone(&target), options(Log::Synced)).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        let count = |name| {
            let table = session.open_table(name, &OpenTable::default()).unwrap();
            table.listed(Unbounded, Unbounded).unwrap().len()
        };
        assert_eq!((count("plain"), count("with-values")), (4, 2));
        drop(session);
        assert_eq!(check(&target, |_| ControlFlow::Continue(())).unwrap().findings, Vec::new());
        // What no table needs any more does not come along.
        let kept = out.files().into_iter().filter(|name| name.ends_with("blob")).count();
        assert_eq!(kept, 2);
    }
}

/// A backup has no values of updates that its tables have in segments, or of tables that are gone.
#[test]
fn a_copied_log_lists_no_values_that_its_tables_do_not_need() {
    let session = Session::create(MemoryDisk::seeded(1), options(Log::Synced)).unwrap();
    let make = |name| session.create_table(name, TableOptions::default()).unwrap();
    let (mut plain, mut long) = (make("plain"), make("with-values"));
    let mut value = session.write_value().unwrap();
    value.write(&[7; 5_000]).unwrap();
    let value = value.finish().unwrap();
    let (mut one, mut other) = (Batch::new(), Batch::new());
    one.insert(b"k", b"short");
    other.insert_value(b"k", &value);
    session.update(&mut [(&mut plain, &one), (&mut long, &other)]).unwrap();
    drop((long, value));
    session.delete_table("with-values").unwrap();
    let out = MemoryDisk::seeded(2);
    let target = Arc::clone(&out) as Arc<dyn Disk>;
    session.backup(&target, varvite::Verify::Full).unwrap();
    assert!(!out.files().iter().any(|name| name.ends_with("blob")), "{:?}", out.files());
    let there = Session::open(target, options(Log::Synced)).unwrap();
    let table = there.open_table("plain", &OpenTable::default()).unwrap();
    assert_eq!(table.get(b"k").unwrap().as_deref(), Some(&b"short"[..]));
}

/// A disk that does not answer has damaged nothing: the repair ends and says so, and the next one keeps all.
#[test]
fn a_failing_read_is_no_damage() {
    let sim = SimDisk::new(1);
    let mut tale = Tale::new(&sim, Log::Synced);
    BLOB_ACTS[..BLOB_ACTS.len() - 1].iter().for_each(|act| tale.act(*act).unwrap());
    let live = tale.live.clone();
    drop(tale);
    let image = sim.crash(Crash::Process);
    // Without `session` its other files say whose they are; they are not to be misread either.
    let lost = sim.crash(Crash::Process);
    lost.remove("session").unwrap();
    // Nor where one file alone says it.
    let told_once = sim.crash(Crash::Process);
    told_once.remove("session").unwrap();
    for name in told_once.list("snapshots").unwrap() {
        told_once.remove(&format!("snapshots/{name}")).unwrap();
    }
    let mut failed = 0;
    for (source, was_lost) in [(image, false), (lost, true), (told_once, true)] {
        for fault in [Fault::Open, Fault::Read] {
            for n in 1.. {
                source.fail_at(n, fault);
                let before = source.calls().of(fault);
                let out: Arc<dyn Disk> = MemoryDisk::seeded(2);
                let shared = Arc::clone(&source) as Arc<dyn Disk>;
                let outcome = repair(&shared, &out, &RepairOptions::default());
                source.disarm();
                if source.calls().of(fault) < before + n {
                    let report = outcome.unwrap();
                    assert_eq!((report.losses, report.session_was_lost), (Vec::new(), was_lost));
                    break;
                }
                match outcome {
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Io, "{fault:?} {n}: {error}");
                        assert!(error.detail().contains("repair"), "{fault:?} {n}: {error}");
                        failed += 1;
                        let options = RepairOptions::default();
                        repair(&shared, &out, &options).unwrap();
                    }
                    Ok(report) => {
                        assert_eq!(report.losses, Vec::new(), "{fault:?} {n}");
                    }
                }
                crate::log_crash::assert_reopens(&out, Log::Synced, &[&live], &(fault, n));
            }
        }
    }
    assert!(failed > 60, "{failed}");
}

/// The end of the log: an update that a power cut took a part of before it was acknowledged, and one that was damaged
/// after, look alike. So neither is a finding or a loss, and where the whole updates end is told.
#[test]
fn an_update_that_is_not_whole_at_the_end_of_the_log_is_told() {
    let disk = MemoryDisk::seeded(1);
    lives(&disk, 0..3);
    let name = log_file(3);
    let sound = disk.bytes(&name).unwrap();
    let told = |bytes: &[u8]| {
        disk.replace(&name, bytes).unwrap();
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings, Vec::new());
        let (found, repaired) = repaired(&disk);
        assert!(repaired.losses.is_empty(), "{repaired:?}");
        assert_eq!(report.log_unfinished, repaired.log_unfinished);
        assert_eq!(report.log_unfinished, scrubbed(&disk));
        (found.len(), report.log_unfinished)
    };
    assert_eq!(told(&sound), (6, None), "zeros behind the end are none");
    let last = sound.iter().rposition(|byte| *byte != 0).unwrap();
    for damaged in [last, last - 19, last - 19 - HEAD] {
        let mut bytes = sound.clone();
        bytes[damaged] ^= 0x55;
        let (found, unfinished) = told(&bytes);
        let unfinished = unfinished.expect("there are bytes behind the end");
        assert_eq!((found, &unfinished.file), (5, &name));
        assert_eq!(unfinished.at + unfinished.bytes, last as u64 + 1);
        let said = unfinished.to_string();
        assert!(said.contains(&format!("{name} ends at byte {}", unfinished.at)), "{said}");
        assert!(said.contains("if it had been acknowledged, it is lost"), "{said}");
    }
    // Nor is the file empty, or to be removed, whose first record is the one that is not whole.
    let only = MemoryDisk::seeded(1);
    lives(&only, 0..2);
    let session = Session::open(only.clone(), options(Log::Synced)).unwrap();
    let mut table = session.open_table("t", &OpenTable::default()).unwrap();
    table.update(Batch::new().insert(b"last", b"acknowledged")).unwrap();
    drop(table);
    session.close().unwrap();
    let mut bytes = only.bytes(&log_file(3)).unwrap();
    bytes[HEADER + 8] ^= 0x55;
    only.replace(&log_file(3), bytes).unwrap();
    let shared = Arc::clone(&only) as Arc<dyn Disk>;
    for is_opened in [false, true] {
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        let unfinished = report
            .log_unfinished
            .clone()
            .unwrap_or_else(|| panic!("{report:?} {:?}", only.list("log")));
        assert_eq!((&unfinished.file, unfinished.at), (&log_file(3), HEADER as u64), "{is_opened}");
        assert_eq!(scrubbed(&only).as_ref(), Some(&unfinished));
        assert_eq!(repaired(&only).1.log_unfinished, Some(unfinished));
        let session = Session::open(only.clone(), options(Log::Synced)).unwrap();
        let mut table = session.open_table("t", &OpenTable::default()).unwrap();
        table.update(Batch::new().insert(b"later", b"goes on without it")).unwrap();
        drop((table, session));
        assert!(only.exists(&log_file(3)).unwrap(), "it may be all that is left of an update");
    }
    // A record behind it that knows that it was synced makes it damage.
    let first = HEADER + HEAD + sound[HEADER + HEAD..].iter().position(|it| *it == 4).unwrap();
    let mut bytes = sound.clone();
    bytes[first] ^= 0x55;
    disk.replace(&name, bytes).unwrap();
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.findings.len(), report.log_unfinished), (1, None));
    assert!(repaired(&disk).1.log_unfinished.is_none());
    assert!(scrubbed(&disk).is_none());
}

/// What a scrub says of the end of the log, read in parts.
fn scrubbed(disk: &Arc<MemoryDisk>) -> Option<varvite::table::check::UnfinishedUpdate> {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let session = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let mut scrub = session.scrub(0).unwrap();
    while scrub.work(1).unwrap() > 0 {}
    scrub.log_unfinished().cloned()
}

/// The checkpoint names the file that its session had begun, whether or not a record got into that.
#[test]
fn a_named_file_without_a_record_is_no_gap() {
    for is_damaged in [false, true] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let session = Session::create(Arc::clone(&shared), options(Log::Synced)).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        if is_damaged {
            table.update(Batch::new().insert(&[0], b"first")).unwrap();
        }
        drop((table, session));
        let mut bytes = disk.bytes(&log_file(1)).unwrap();
        if is_damaged {
            bytes[HEADER + 8] ^= 0x55;
        } else {
            // Killed behind the checkpoint, before the record that begins the file.
            bytes.truncate(HEADER);
        }
        disk.replace(&log_file(1), bytes).unwrap();
        for number in [1, 2] {
            let session = Session::open(Arc::clone(&shared), options(Log::Synced)).unwrap();
            let mut table = session.open_table("t", &OpenTable::default()).unwrap();
            table.update(Batch::new().insert(&[number], b"later")).unwrap();
        }
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings, Vec::new());
        let (found, repaired) = repaired(&disk);
        assert_eq!((found, &repaired.losses), (vec![1, 2], &Vec::new()), "{repaired:?}");
        let told = report.log_unfinished.clone().map(|it| (it.file, it.at));
        assert_eq!(told, is_damaged.then(|| (log_file(1), HEADER as u64)));
        assert_eq!(report.log_unfinished, repaired.log_unfinished);
        assert_eq!(report.log_unfinished, scrubbed(&disk));
    }
}

/// A file of which nothing can be read does not hide what the last one ends with.
#[test]
fn the_end_of_the_last_file_is_told_beside_one_that_cannot_be_read() {
    let disk = MemoryDisk::seeded(1);
    lives(&disk, 0..2);
    let session = Session::open(disk.clone(), options(Log::Synced)).unwrap();
    let mut table = session.open_table("t", &OpenTable::default()).unwrap();
    table.update(Batch::new().insert(&[9], b"torn by a power cut")).unwrap();
    drop((table, session));
    let mut bytes = disk.bytes(&log_file(3)).unwrap();
    bytes[HEADER + 8] ^= 0x55;
    disk.replace(&log_file(3), bytes).unwrap();
    lives(&disk, 2..3);
    let mut bytes = disk.bytes(&log_file(4)).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last] ^= 0x55;
    disk.replace(&log_file(4), bytes).unwrap();
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.log_unfinished.as_ref().map(|it| &it.file), Some(&log_file(4)));
    assert_eq!(report.log_unfinished, scrubbed(&disk));
    let (found, repaired) = repaired(&disk);
    assert_eq!((found, repaired.log_unfinished), (vec![0, 1, 2, 3, 4], report.log_unfinished));
}

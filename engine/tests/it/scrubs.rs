//! Scrubs: what a check finds they find, in bounded parts, beside a writer, and from where they were left.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Disk, Mode};
use varvite::table::check::{Finding, check};
use varvite::{Batch, Kind, Log, Session, SessionOptions, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};
use crate::log_crash::{ACTS, BLOB_ACTS, Tale, options};

/// A store with live tables, a snapshot and values in files, as after a kill.
fn told() -> Vec<Arc<MemoryDisk>> {
    let told = |acts: &[crate::log_crash::Act]| {
        let disk = MemoryDisk::seeded(1);
        let mut tale = Tale::on(Arc::clone(&disk) as Arc<dyn Disk>, Log::Synced);
        acts[..acts.len() - 1].iter().for_each(|act| tale.act(*act).unwrap());
        disk
    };
    vec![told(ACTS), told(BLOB_ACTS)]
}

fn reading(disk: &Arc<MemoryDisk>) -> Session {
    let shared = Arc::clone(disk) as Arc<dyn Disk>;
    Session::open_read_only(shared, SessionOptions::default()).unwrap()
}

fn scrubbed(session: &Session, pages: u64) -> Vec<Finding> {
    let mut scrub = session.scrub(0).unwrap();
    while scrub.work(pages).unwrap() > 0 {}
    assert_eq!(scrub.progress().done_bytes, scrub.progress().total_bytes);
    scrub.findings().to_vec()
}

#[test]
fn what_a_check_finds_in_any_file_a_scrub_finds() {
    let mut kinds = BTreeSet::new();
    for sound in told() {
        assert_eq!(scrubbed(&reading(&sound), 1), Vec::new());
        for name in sound.files() {
            let bytes = sound.bytes(&name).unwrap();
            let flips = (0..bytes.len()).step_by(bytes.len().div_ceil(25).max(1)).map(|at| {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << (at % 8);
                Some(flipped)
            });
            for damage in flips.chain([None, Some(bytes[..bytes.len() / 2].to_vec())]) {
                let disk = sound.snapshot();
                let session = reading(&disk);
                match damage {
                    Some(bytes) => disk.replace(&name, bytes).unwrap(),
                    None => disk.remove(&name).unwrap(),
                }
                let shared = Arc::clone(&disk) as Arc<dyn Disk>;
                let checked = check(&shared, |_| ControlFlow::Continue(())).unwrap().findings;
                let found = scrubbed(&session, 3);
                assert_eq!(checked.is_empty(), found.is_empty(), "{name}: {checked:?} {found:?}");
                for finding in &found {
                    assert!(finding.detail.contains("varvite repair"), "{finding:?}");
                    let is_named = finding.detail.contains(name.rsplit('/').next().unwrap());
                    let is_log = name.starts_with("log/");
                    assert!(is_named || is_log || finding.file == name, "{name}: {finding:?}");
                }
                if !found.is_empty() {
                    let kind = name.rsplit_once('.').map_or(&*name, |(_, kind)| kind);
                    kinds.insert(kind.to_owned());
                }
            }
        }
    }
    let expected = ["blob", "checkpoint", "log", "segment", "session", "snapshot"];
    assert_eq!(kinds, expected.map(str::to_owned).into());
}

#[test]
fn each_step_reads_as_much_as_it_was_given_and_the_next_goes_on() {
    let inner = told().remove(1);
    let reads = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reads);
    let disk = HookedDisk::new(Arc::clone(&inner) as Arc<dyn Disk>, move |call, _| {
        count.fetch_add(u64::from(call == Call::Read), SeqCst);
    });
    let session = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let mut scrub = session.scrub(0).unwrap();
    assert!(scrub.work(0).unwrap() > 0);
    let (mut steps, mut left) = (0, u64::MAX);
    while left > 0 {
        reads.store(0, SeqCst);
        left = scrub.work(1).unwrap();
        steps += 1;
        // Header, footer and a page, and at the end of a file filter, index and list; a log file is opened.
        assert!(reads.load(SeqCst) <= 8, "{} reads", reads.load(SeqCst));
    }
    assert!(steps > 20, "{steps}");
    assert_eq!(scrub.work(10).unwrap(), 0);
    // Every segment and blob file that is named was read, by this one or by those that go on from anywhere.
    for stops in [1, 5, 30] {
        let read = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = Arc::clone(&read);
        let disk = HookedDisk::new(Arc::clone(&inner) as Arc<dyn Disk>, move |call, path| {
            if call == Call::Read && path.starts_with("segments/") {
                seen.lock().unwrap().insert(path.to_owned());
            }
        });
        let (mut from, mut rounds) = (0, 0);
        loop {
            let session =
                Session::open_read_only(Arc::clone(&disk) as _, SessionOptions::default()).unwrap();
            let mut scrub = session.scrub(from).unwrap();
            let mut left = u64::MAX;
            // The log comes first, each time; then a part.
            while scrub.place() == from && left > 0 {
                left = scrub.work(stops).unwrap();
            }
            rounds += 1;
            if left == 0 {
                break;
            }
            assert!(scrub.place() > from, "{from}");
            from = scrub.place();
        }
        let report = check(&(Arc::clone(&inner) as _), |_| ControlFlow::Continue(())).unwrap();
        let read = read.lock().unwrap().len() as u64;
        assert_eq!(read, report.segments + report.blob_files, "{stops}");
        assert!(rounds > 2, "{rounds}");
    }
}

/// At every call of a scrub its session, or another one's, makes updates, merges and checkpoints.
#[test]
fn what_goes_beside_a_scrub_is_no_damage() {
    for is_own in [true, false] {
        let source = MemoryDisk::seeded(1);
        let writer: Arc<Mutex<Option<(varvite::Table, u64)>>> = Arc::default();
        let (acts, calls) = (Arc::clone(&writer), AtomicU64::new(0));
        let hooked = HookedDisk::new(Arc::clone(&source) as Arc<dyn Disk>, move |call, _| {
            let reads = matches!(call, Call::Open(Mode::Read) | Call::Read | Call::List);
            // A log that is replaced faster than it is read shows nobody anything.
            if reads
                && calls.fetch_add(1, SeqCst) % 8 == 0
                && let Ok(mut writer) = acts.try_lock()
                && let Some((table, number)) = &mut *writer
            {
                for _ in 0..7 {
                    *number += 1;
                    let key = (*number % 300).to_be_bytes();
                    table.update(Batch::new().insert(&key, &[7; 90])).unwrap();
                }
            }
        });
        let disk = if is_own { hooked.clone() as _ } else { Arc::clone(&source) as Arc<dyn Disk> };
        let options = SessionOptions { log_file_bytes: 3_000, ..options(Log::Written) };
        let session = Session::create(disk, options).unwrap();
        let small = TableOptions { write_buffer_bytes: 1_000, ..TableOptions::default() };
        let mut table = session.create_table("t", small).unwrap();
        for number in 0..400_u64 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[1; 90])).unwrap();
        }
        let reader = Session::open_read_only(hooked, SessionOptions::default()).unwrap();
        let scrubs = if is_own { &session } else { &reader };
        *writer.lock().unwrap() = Some((table, 0));
        for _ in 0..3 {
            assert_eq!(scrubbed(scrubs, 2), Vec::new(), "{is_own}");
        }
        let (_, number) = writer.lock().unwrap().take().unwrap();
        assert!(number > 100, "{number}");
        let closed = session.scrub(0).unwrap();
        session.clone().close().unwrap();
        let mut closed = closed;
        assert_eq!(closed.work(1).unwrap_err().kind(), Kind::Closed);
        assert_eq!(session.scrub(0).unwrap_err().kind(), Kind::Closed);
    }
}

/// A file that cannot be read is told like one that is damaged, and the others are read all the same.
#[test]
fn a_failing_read_is_told_and_ends_nothing() {
    let sim = SimDisk::new(1);
    let mut tale = Tale::new(&sim, Log::Synced);
    BLOB_ACTS[..BLOB_ACTS.len() - 1].iter().for_each(|act| tale.act(*act).unwrap());
    drop(tale);
    let image = sim.crash(Crash::Process);
    let shared = Arc::clone(&image) as Arc<dyn Disk>;
    let session = Session::open_read_only(shared, SessionOptions::default()).unwrap();
    let mut told = 0;
    for fault in [Fault::Open, Fault::Read] {
        for n in 1..60 {
            image.fail_at(n, fault);
            let outcome = session.scrub(0).map(|mut scrub| {
                while scrub.work(5)? > 0 {}
                Ok::<_, varvite::Error>(scrub.findings().to_vec())
            });
            image.disarm();
            match outcome {
                Ok(found) => told += found.unwrap().len(),
                Err(error) => assert_eq!(error.kind(), Kind::Io, "{error}"),
            }
            assert_eq!(scrubbed(&session, 50), Vec::new());
        }
    }
    assert!(told > 20, "{told}");
}

/// A store with a log of about `log_bytes`, whatever else it has.
fn with_log(disk: &Arc<MemoryDisk>, log_bytes: usize) -> Session {
    let options = SessionOptions { log_file_bytes: 64 << 20, ..options(Log::Written) };
    let session = Session::create(Arc::clone(disk) as Arc<dyn Disk>, options).unwrap();
    let small = TableOptions { write_buffer_bytes: 20_000, ..TableOptions::default() };
    let mut table = session.create_table("t", small).unwrap();
    for number in 0..log_bytes as u64 / 1_000 {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 950])).unwrap();
    }
    let content = varvite::SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    session
}

/// Log and files are each longer than what a run reads: still each run gets on.
#[test]
fn runs_that_go_on_from_where_one_ended_come_to_an_end() {
    let inner = MemoryDisk::seeded(1);
    drop(with_log(&inner, 300_000));
    let read = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = Arc::clone(&read);
    let disk = HookedDisk::new(Arc::clone(&inner) as Arc<dyn Disk>, move |call, path| {
        if call == Call::Read && path.starts_with("segments/") {
            seen.lock().unwrap().insert(path.to_owned());
        }
    });
    let report = check(&(Arc::clone(&inner) as _), |_| ControlFlow::Continue(())).unwrap();
    for most in [1, 20_000, 250_000] {
        read.lock().unwrap().clear();
        let (mut from, mut runs) = (0, 0);
        loop {
            let session =
                Session::open_read_only(Arc::clone(&disk) as _, SessionOptions::default()).unwrap();
            let mut scrub = session.scrub(from).unwrap();
            let is_done = loop {
                let is_done = scrub.work(4).unwrap() == 0;
                if is_done || scrub.may_end(most) {
                    break is_done;
                }
            };
            runs += 1;
            assert!(runs <= report.segments + 1, "{most}: {runs} runs");
            if is_done {
                break;
            }
            from = scrub.place();
        }
        assert_eq!(read.lock().unwrap().len() as u64, report.segments, "{most}");
        assert!(runs > 1 || most > 1, "{most}");
    }
}

/// Where what names files cannot be read for a moment, a file that is lost stays to be told.
#[test]
fn a_lost_file_is_told_whatever_fails_while_it_is_looked_for() {
    let sim = SimDisk::new(1);
    let mut tale = Tale::new(&sim, Log::Synced);
    BLOB_ACTS[..BLOB_ACTS.len() - 1].iter().for_each(|act| tale.act(*act).unwrap());
    drop(tale);
    let image = sim.crash(Crash::Process);
    let names = image.list("segments").unwrap();
    let mut failed = 0;
    for name in names.iter().map(|name| format!("segments/{name}")) {
        let copy = image.crash(Crash::Process);
        let session =
            Session::open_read_only(Arc::clone(&copy) as Arc<dyn Disk>, SessionOptions::default())
                .unwrap();
        let _ = copy.remove(&name);
        if scrubbed(&session, 7).is_empty() {
            // Nothing names it.
            continue;
        }
        for fault in [Fault::Open, Fault::Read] {
            for n in 1..40 {
                let mut scrub = session.scrub(0).unwrap();
                copy.fail_at(n, fault);
                loop {
                    match scrub.work(7) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(error) => {
                            assert_eq!(error.kind(), Kind::Io, "{error}");
                            failed += 1;
                        }
                    }
                }
                copy.disarm();
                let is_told = scrub.findings().iter().any(|it| it.file == name);
                assert!(is_told, "{name}: {fault:?} {n}: {:?}", scrub.findings());
            }
        }
    }
    assert!(failed > 0);
}

/// A step reads of the log what it was asked for, and little more.
#[test]
fn the_log_is_read_about_once_however_small_the_steps_are() {
    let inner = MemoryDisk::seeded(1);
    drop(with_log(&inner, 1 << 20));
    let bytes = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&bytes);
    let disk =
        HookedDisk::counting_reads(Arc::clone(&inner) as Arc<dyn Disk>, move |path, length| {
            if path.starts_with("log/") {
                count.fetch_add(length as u64, SeqCst);
            }
        });
    let logs = inner.files().into_iter().filter(|name| name.starts_with("log/"));
    let log: usize = logs.map(|name| inner.bytes(&name).unwrap().len()).sum();
    let session = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    for pages in [1, 16, 64] {
        let mut scrub = session.scrub(0).unwrap();
        bytes.store(0, SeqCst);
        while scrub.work(pages).unwrap() > 0 {}
        let read = bytes.load(SeqCst);
        assert!(read < 3 * log as u64, "{read} bytes of a log of {log} in steps of {pages} pages");
    }
}

/// However many files go that the log had named, it is read once more to know that.
#[test]
fn the_log_is_not_read_again_for_each_file_that_went() {
    let inner = MemoryDisk::seeded(1);
    let opened = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&opened);
    let disk = HookedDisk::new(Arc::clone(&inner) as Arc<dyn Disk>, move |call, path| {
        let is_log = call == Call::Open(Mode::Read) && path.starts_with("log/");
        count.fetch_add(u64::from(is_log), SeqCst);
    });
    let options = SessionOptions { log_file_bytes: 20_000, ..options(Log::Written) };
    let session = Session::create(Arc::clone(&inner) as Arc<dyn Disk>, options).unwrap();
    let small = TableOptions { write_buffer_bytes: 30_000, ..TableOptions::default() };
    let mut table = session.create_table("t", small).unwrap();
    for number in 0..60_u8 {
        let mut value = session.write_value().unwrap();
        value.write(&[number; 5_000]).unwrap();
        let value = value.finish().unwrap();
        table.update(Batch::new().insert_value(&[number], &value)).unwrap();
    }
    let blobs = || inner.files().iter().filter(|name| name.ends_with("blob")).count();
    let before = blobs();
    assert!(before >= 60, "{before}");
    let reader = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let mut scrub = reader.scrub(0).unwrap();
    while scrub.place() == 0 {
        scrub.work(1).unwrap();
    }
    table.delete_range(std::ops::Bound::Unbounded, std::ops::Bound::Unbounded).unwrap();
    for number in 0..400_u64 {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 900])).unwrap();
    }
    assert!(blobs() < 10, "{} of {before} blob files are left", blobs());
    opened.store(0, SeqCst);
    while scrub.work(1).unwrap() > 0 {}
    assert_eq!(scrub.findings(), []);
    let opened = opened.load(SeqCst);
    assert!(opened < 60, "log files were opened {opened} times");
}

/// The log is read in parts also behind a file that the checkpoint names and that follows nothing: those of a backup, and
/// one of which its session wrote no record.
#[test]
fn a_log_behind_a_named_file_that_tells_nothing_is_read_in_parts() {
    for is_backup in [true, false] {
        let disk = MemoryDisk::seeded(1);
        let options = || SessionOptions { log: Log::Synced, ..SessionOptions::default() };
        let session = Session::create(disk.clone(), options()).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        let disk = if is_backup {
            table.update(Batch::new().insert(&[0], &[7; 100])).unwrap();
            let target = MemoryDisk::seeded(2);
            session.backup(&(target.clone() as Arc<dyn Disk>), varvite::Verify::Full).unwrap();
            target
        } else {
            disk
        };
        drop((table, session));
        let (file, bytes) = ("log/0000000000000001.log", disk.files());
        if !is_backup {
            // Killed behind the checkpoint, before the record that begins the file.
            let header = disk.bytes(file).unwrap_or_else(|_| panic!("{bytes:?}"))[..32].to_vec();
            disk.replace(file, header).unwrap();
        }
        let session = Session::open(disk.clone(), options()).unwrap();
        let mut table = session.open_table("t", &varvite::OpenTable::default()).unwrap();
        for number in 1..60_u8 {
            table.update(Batch::new().insert(&[number], &[7; 4_000])).unwrap();
        }
        drop((table, session));
        let mut scrub = reading(&disk).scrub(0).unwrap();
        let (mut most, mut before, mut parts) = (0, 0, 0);
        while scrub.work(1).unwrap() > 0 {
            let done = scrub.progress().done_bytes;
            (most, before, parts) = (most.max(done - before), done, parts + 1);
        }
        assert_eq!(scrub.findings(), []);
        assert!(most < 20_000 && parts > 20, "backup: {is_backup}: {most} bytes, {parts} parts");
    }
}

//! Values in pieces, and long ones, in live tables: the log refers to their blob files, which are
//! durable before it does and stay as long as it needs them.

use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::table::VALUE_BYTES_MAX;
use varvite::table::check::{Report, check};
use varvite::{
    Batch, Kind, Log, MergeOperator, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Value,
};

use crate::listed::Listed;
use crate::random::Random;

fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 200_000, ..SessionOptions::default() }
}

fn table_options() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 20_000,
        size_ratio: 2,
        blob_min_bytes: Some(1_000),
        ..TableOptions::default()
    }
}

fn create(disk: &Arc<dyn Disk>, log: Log) -> (Session, Table) {
    let session = Session::create(Arc::clone(disk), options(log)).unwrap();
    let table = session.create_table("t", table_options()).unwrap();
    (session, table)
}

fn open(disk: &Arc<dyn Disk>, log: Log) -> (Session, Table) {
    let session = Session::open(Arc::clone(disk), options(log)).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    (session, table)
}

fn bytes(number: u64, length: usize) -> Vec<u8> {
    Random::new(number).bytes(length)
}

fn write(session: &Session, bytes: &[u8]) -> Value {
    let mut writer = session.write_value().unwrap();
    bytes.chunks(100_000).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

fn find(table: &Table, key: &[u8]) -> Value {
    table.view().find(&[key]).unwrap().remove(0).expect("it is bound")
}

fn blob_files(disk: &Arc<dyn Disk>) -> Vec<String> {
    let names = disk.list("segments").unwrap().into_iter();
    names.filter(|name| name.ends_with("blob")).map(|name| format!("segments/{name}")).collect()
}

fn checked(disk: &Arc<dyn Disk>) -> Report {
    check(disk, |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn a_value_longer_than_a_batch_takes_is_found_again_however_the_session_ended() {
    let long = bytes(1, VALUE_BYTES_MAX + 54_321);
    for log in [Log::Written, Log::Synced] {
        let memory = MemoryDisk::seeded(1);
        let disk = Arc::clone(&memory) as Arc<dyn Disk>;
        let (session, mut table) = create(&disk, log);
        let before = session.stats().log_written_bytes;
        table.update(Batch::new().insert_value(b"long", &write(&session, &long))).unwrap();
        let logged = session.stats().log_written_bytes - before;
        assert!(logged < 200, "{logged} bytes of log");
        // As the death of the process leaves it: the log alone names the file.
        let dead = memory.snapshot() as Arc<dyn Disk>;
        let report = checked(&dead);
        assert_eq!((report.findings.len(), report.blob_files, report.unreferenced), (0, 1, 0));
        // In order, and in order again without that the table was opened.
        table.update(Batch::new().insert(b"short", b"1")).unwrap();
        drop(table);
        session.close().unwrap();
        open(&disk, log).0.close().unwrap();
        // Without a log nothing is removed that a session with one needs.
        Session::open(Arc::clone(&disk), options(Log::None)).unwrap().close().unwrap();
        for (disk, count) in [(dead, 1), (disk, 2)] {
            let reader = Session::open_read_only(Arc::clone(&disk), options(log)).unwrap();
            let read = reader.open_table("t", &OpenTable::default()).unwrap();
            let (_session, table) = open(&disk, log);
            for table in [read, table] {
                assert_eq!(table.view().count().unwrap(), count);
                assert!(find(&table, b"long").read().unwrap() == long);
            }
            assert_eq!(blob_files(&disk).len(), 1);
        }
    }
}

/// Whether it was written in pieces or found in a file that no sync was asked for, a power cut after
/// the update takes nothing of a value, whatever it takes of a written log.
#[test]
fn a_file_is_durable_before_the_record_that_refers_to_it() {
    for log in [Log::Written, Log::Synced] {
        let sim = SimDisk::new(3);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let (session, mut table) = create(&disk, log);
        table.update(Batch::new().insert_value(b"one", &write(&session, &[1; 9_000]))).unwrap();
        for number in 0..40_u32 {
            let value = [number as u8; 1_500];
            table.update(Batch::new().insert(&number.to_be_bytes(), &value)).unwrap();
        }
        let found = find(&table, &3_u32.to_be_bytes());
        let syncs = sim.calls().of(Fault::Sync);
        table.update(Batch::new().insert_value(b"two", &found)).unwrap();
        // The file's and the folder's, and that of a synced log.
        let after = sim.calls().of(Fault::Sync) - syncs;
        assert_eq!(after, if log == Log::Synced { 3 } else { 2 });
        table.update(Batch::new().insert_value(b"three", &found)).unwrap();
        let again = sim.calls().of(Fault::Sync) - syncs - after;
        assert_eq!(again, u64::from(log == Log::Synced));
        for seed in 0..30 {
            let crash = if seed == 0 { Crash::Process } else { Crash::Seed(seed) };
            let image = sim.crash(crash) as Arc<dyn Disk>;
            let (_session, table) = open(&image, log);
            let three = table.get(b"three").unwrap();
            if log == Log::Synced || seed == 0 {
                assert_eq!(three.as_deref(), Some(&[3; 1_500][..]));
            }
            if three.is_some() {
                assert_eq!(table.get(b"two").unwrap(), three);
                assert_eq!(table.get(b"one").unwrap().as_deref(), Some(&[1; 9_000][..]));
            }
            assert_eq!(checked(&image).findings, []);
        }
    }
}

#[test]
fn what_was_replaced_goes_with_the_log_that_refers_to_it() {
    const LENGTH: usize = 50_000;
    let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
    let (session, mut table) = create(&disk, Log::Written);
    let mut most = 0;
    for number in 0..200 {
        let value = write(&session, &bytes(number, LENGTH));
        table.update(Batch::new().insert_value(b"key", &value)).unwrap();
        most = most.max(blob_files(&disk).len());
    }
    // Two files of log and four write buffers behind, the current one, and what a merge may hold.
    assert!((4..=18).contains(&most), "{most} files of {LENGTH} bytes");
    assert!(session.stats().checkpoints > 40, "{:?}", session.stats());
    // A value that is held stays, and can be bound again after its key, its table and the log went.
    let held = find(&table, b"key");
    drop(table);
    session.delete_table("t").unwrap();
    let mut other = session.create_table("other", table_options()).unwrap();
    for number in 0..8 {
        let value = write(&session, &bytes(number, LENGTH));
        other.update(Batch::new().insert_value(b"key", &value).delete(b"key")).unwrap();
    }
    other.update(Batch::new().insert_value(b"again", &held)).unwrap();
    drop((held, other));
    session.close().unwrap();
    let session = Session::open(Arc::clone(&disk), options(Log::Written)).unwrap();
    let mut other = session.open_table("other", &OpenTable::default()).unwrap();
    assert!(other.get(b"again").unwrap().unwrap() == bytes(199, LENGTH));
    // Deleted, and worked off until no file of the log needs it.
    other.update(Batch::new().delete(b"again")).unwrap();
    for number in 0..2_000_u32 {
        let key = (number % 500).to_be_bytes();
        other.update(Batch::new().insert(&key, &[7; 300])).unwrap();
    }
    while other.work(u64::MAX).unwrap() > 0 {}
    assert_eq!(blob_files(&disk), Vec::<String>::new());
}

#[test]
fn several_tables_share_a_value_in_one_update_or_none_of_them_has_it() {
    let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
    let (session, mut table) = create(&disk, Log::Synced);
    let mut other = session.create_table("u", table_options()).unwrap();
    let sums = table_options().with_operator(MergeOperator::append());
    let mut sums = session.create_table("sums", sums).unwrap();
    let value = write(&session, &[5; 3_000]);
    let (mut first, mut second) = (Batch::new(), Batch::new());
    first.insert_value(b"a", &value).insert_value(b"b", &value);
    second.insert(b"c", b"1").insert_value(b"d", &value);
    let refused = session.update(&mut [(&mut table, &first), (&mut sums, &second)]);
    assert_eq!(refused.unwrap_err().kind(), Kind::Invalid);
    let (_, foreign) = create(&(MemoryDisk::seeded(1) as _), Log::Written);
    drop(foreign);
    let elsewhere = create(&(MemoryDisk::seeded(1) as _), Log::Written).0;
    let foreign = write(&elsewhere, &[5; 3_000]);
    let refused = table.update(Batch::new().insert_value(b"x", &foreign));
    assert_eq!(refused.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(table.view().count().unwrap(), 0);
    session.update(&mut [(&mut table, &first), (&mut other, &second)]).unwrap();
    drop((table, other, sums, value, first, second, session));
    let session = Session::open(Arc::clone(&disk), options(Log::Synced)).unwrap();
    let tables = session.open_all(&OpenTable::default()).unwrap();
    let found: Vec<_> =
        tables.iter().map(|it| it.listed(Bound::Unbounded, Bound::Unbounded).unwrap()).collect();
    let bound = |key: &[u8]| (key.to_vec(), vec![5; 3_000]);
    let [sums, table, other] = &found[..] else { panic!("{found:?}") };
    assert!(sums.is_empty());
    assert_eq!(*table, [bound(b"a"), bound(b"b")]);
    assert_eq!(*other, [(b"c".to_vec(), b"1".to_vec()), bound(b"d")]);
    // Values of any length, also none, and a snapshot of them.
    let mut table = tables.into_iter().nth(1).unwrap();
    table.update(Batch::new().insert_value(b"empty", &write(&session, b""))).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop((table, session));
    let (_session, table) = open(&disk, Log::Synced);
    assert_eq!(table.get(b"empty").unwrap().as_deref(), Some(&b""[..]));
    assert_eq!(checked(&disk).findings, []);
}

#[test]
fn a_lost_or_damaged_file_that_the_log_refers_to_is_told_by_name() {
    let memory = MemoryDisk::seeded(1);
    let disk = Arc::clone(&memory) as Arc<dyn Disk>;
    let (session, mut table) = create(&disk, Log::Synced);
    for (key, number) in [(b"one", 1), (b"two", 2)] {
        let value = write(&session, &bytes(number, 9_000));
        table.update(Batch::new().insert_value(key, &value)).unwrap();
    }
    let image = memory.snapshot();
    drop((table, session));
    let names = blob_files(&disk);
    let whole = image.bytes(&names[0]).unwrap();
    let other = image.bytes(&names[1]).unwrap();
    let mut flipped = whole.clone();
    flipped[5_000] ^= 1;
    let cut = whole[..whole.len() - 4_096].to_vec();
    for damaged in [Some(flipped), Some(cut), Some(other), None] {
        let memory = image.snapshot();
        match &damaged {
            Some(bytes) => memory.replace(&names[0], bytes.clone()).unwrap(),
            None => memory.remove(&names[0]).unwrap(),
        }
        let disk = Arc::clone(&memory) as Arc<dyn Disk>;
        let report = checked(&disk);
        let finding = &report.findings[..];
        assert!(finding.len() == 1 && finding[0].file == names[0], "{report:?}");
        assert_eq!(finding[0].live_tables, ["t"]);
        let session = Session::open(Arc::clone(&disk), options(Log::Synced)).unwrap();
        let warnings = session.warnings();
        let is_told = warnings.iter().any(|warning| warning.contains(&names[0]));
        assert_eq!(is_told, damaged.is_none(), "{warnings:?}");
        let mut table = session.open_table("t", &OpenTable::default()).unwrap();
        let error = table.get(b"one").unwrap_err();
        let kind = if damaged.is_some() { Kind::Corrupt } else { Kind::Missing };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.detail().contains(&names[0]), "{error}");
        assert!(table.get(b"two").unwrap().unwrap() == bytes(2, 9_000));
        // The table goes on, and is whole once the key is bound anew.
        table.update(Batch::new().insert(b"one", b"1")).unwrap();
        assert_eq!(table.view().listed(Bound::Unbounded, Bound::Unbounded).unwrap().len(), 2);
        drop((table, session));
    }
}

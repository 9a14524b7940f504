//! Live tables: what the log promises, by example.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::{
    Batch, Kind, Log, MergeOperator, OpenSnapshot, OpenTable, Session, SessionOptions,
    SnapshotContent, Table, TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;

type Content = Vec<(Vec<u8>, Vec<u8>)>;

/// A log in small files, so that checkpoints are frequent.
pub fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 2_000, seed: Some(42), ..SessionOptions::default() }
}

fn table_options() -> TableOptions {
    TableOptions { write_buffer_bytes: 700, size_ratio: 2, ..TableOptions::default() }
        .with_operator(MergeOperator::add_u64())
}

fn content(table: &Table) -> Content {
    table.listed(Bound::Unbounded, Bound::Unbounded).unwrap()
}

fn create(disk: &Arc<MemoryDisk>, log: Log) -> Session {
    Session::create(Arc::clone(disk) as Arc<dyn Disk>, options(log)).unwrap()
}

fn open(disk: &Arc<MemoryDisk>, log: Log) -> Session {
    let session = Session::open(Arc::clone(disk) as Arc<dyn Disk>, options(log)).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    session
}

/// Some inserts, deletes and sums, different for each number.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    for key in 0..8 {
        let key = (number * 5 + key) % 40;
        batch.insert(format!("key {key}").as_bytes(), &number.to_le_bytes());
        batch.upsert(format!("sum {}", key % 7).as_bytes(), &1_u64.to_le_bytes());
    }
    batch.delete(format!("key {}", number % 40).as_bytes());
    batch
}

#[test]
fn a_live_table_is_found_again_as_it_was_last_updated() {
    for log in [Log::Written, Log::Synced] {
        let disk = MemoryDisk::seeded(1);
        let session = create(&disk, log);
        let mut utxo = session.create_table("utxo", table_options()).unwrap();
        let mut rare = session.create_table("rare", table_options()).unwrap();
        rare.update(&batch(1_000)).unwrap();
        for number in 0..300 {
            utxo.update(&batch(number)).unwrap();
            if number % 90 == 0 {
                rare.update(&batch(number)).unwrap();
            }
        }
        let expected = [content(&rare), content(&utxo)];
        let stats = session.stats();
        assert!(stats.checkpoints > 10 && stats.log_records == 305, "{stats:?}");
        drop((utxo, rare, session));

        let session = open(&disk, log);
        assert_eq!(session.live_tables().unwrap(), ["rare", "utxo"]);
        let tables = session.open_all(&OpenTable::default()).unwrap();
        assert_eq!(tables.iter().map(content).collect::<Vec<_>>(), expected);
        let again = session.open_table("utxo", &OpenTable::default());
        assert_eq!(again.unwrap_err().kind(), Kind::Locked);
        drop(tables);
        // Reopened in the same session, without the log being read.
        let mut utxo = session.open_table("utxo", &OpenTable::default()).unwrap();
        assert_eq!(content(&utxo), expected[1]);
        for number in 0..50 {
            utxo.update(&batch(number)).unwrap();
        }
        let expected = content(&utxo);
        drop(utxo);
        session.close().unwrap();
        // Another process may look meanwhile.
        let reader = Session::open_read_only(Arc::clone(&disk) as _, options(log)).unwrap();
        let mut read = reader.open_table("utxo", &OpenTable::default()).unwrap();
        assert_eq!(content(&read), expected);
        assert_eq!(read.update(&batch(1)).unwrap_err().kind(), Kind::Invalid);
        let session = open(&disk, log);
        assert_eq!(content(&session.open_table("utxo", &OpenTable::default()).unwrap()), expected);
    }
}

/// Bytes of the log.
fn log_bytes(disk: &MemoryDisk) -> usize {
    let files = disk.files().into_iter().filter(|name| name.starts_with("log/"));
    files.map(|name| disk.bytes(&name).unwrap().len()).sum()
}

#[test]
fn the_log_stays_small_though_a_table_idles_or_is_never_opened() {
    let disk = MemoryDisk::seeded(1);
    let session = create(&disk, Log::Written);
    let mut idle = session.create_table("idle", table_options()).unwrap();
    let mut busy = session.create_table("busy", table_options()).unwrap();
    idle.update(&batch(7)).unwrap();
    let expected = content(&idle);
    let mut most = 0;
    for number in 0..500 {
        busy.update(&batch(number)).unwrap();
        most = most.max(log_bytes(&disk));
    }
    assert!(most < 14_000, "{most} bytes of log");
    drop((idle, busy, session));
    let session = open(&disk, Log::Written);
    let mut busy = session.open_table("busy", &OpenTable::default()).unwrap();
    for number in 0..500 {
        busy.update(&batch(number)).unwrap();
        most = most.max(log_bytes(&disk));
    }
    assert!(most < 14_000, "{most} bytes of log");
    let mut idle = session.open_table("idle", &OpenTable::default()).unwrap();
    assert_eq!(content(&idle), expected);
    idle.update(&batch(8)).unwrap();
    let expected = content(&idle);
    drop((idle, busy, session));
    let session = open(&disk, Log::Written);
    let idle = session.open_table("idle", &OpenTable::default()).unwrap();
    assert_eq!(content(&idle), expected);
}

/// Each update makes segments, more than one is synced ahead of a checkpoint at a time.
#[test]
fn the_log_stays_small_though_every_update_fills_buffers() {
    let disk = MemoryDisk::seeded(1);
    let session = create(&disk, Log::Written);
    let options = TableOptions { write_buffer_bytes: 64, ..table_options() };
    let mut table = session.create_table("tiny", options).unwrap();
    let mut most = 0;
    for number in 0..200 {
        table.update(&batch(number)).unwrap();
        most = most.max(log_bytes(&disk));
    }
    assert!(most < 14_000, "{most} bytes of log");
    let expected = content(&table);
    drop((table, session));
    let session = open(&disk, Log::Written);
    assert_eq!(content(&session.open_table("tiny", &OpenTable::default()).unwrap()), expected);
}

#[test]
fn names_are_taken_given_back_and_published() {
    let disk = MemoryDisk::seeded(1);
    let session = create(&disk, Log::Synced);
    let mut first = session.create_table("first", table_options()).unwrap();
    (0..30).for_each(|number| first.update(&batch(number)).unwrap());
    let taken = session.create_table("first", table_options());
    assert_eq!(taken.unwrap_err().kind(), Kind::Exists);
    let mut copy = first.duplicate("copy").unwrap();
    assert!(first.is_live() && !copy.is_live());
    copy.update(&batch(77)).unwrap();
    session.publish(&mut copy).unwrap();
    assert_eq!(session.publish(&mut copy).unwrap_err().kind(), Kind::Invalid);
    (40..70).for_each(|number| copy.update(&batch(number)).unwrap());
    assert_eq!(session.delete_table("first").unwrap_err().kind(), Kind::Locked);
    let kept = content(&first);
    let content_of = SnapshotContent { label: "", payload: b"", tables: &[&first] };
    session.save_snapshot("one", content_of).unwrap();
    first.close().unwrap();
    session.delete_table("first").unwrap();
    assert_eq!(session.delete_table("first").unwrap_err().kind(), Kind::Missing);
    let expected = content(&copy);
    drop((copy, session));
    let session = open(&disk, Log::Synced);
    assert_eq!(session.live_tables().unwrap(), ["copy"]);
    let copy = session.open_table("copy", &OpenTable::default()).unwrap();
    assert_eq!(content(&copy), expected);
    let missing = session.open_table("first", &OpenTable::default());
    assert_eq!(missing.unwrap_err().kind(), Kind::Missing);
    let mut snapshot = session.open_snapshot("one", &OpenSnapshot::default()).unwrap();
    let mut first = snapshot.take("first").unwrap();
    assert!(!first.is_live());
    assert_eq!(content(&first), kept);
    session.publish(&mut first).unwrap();
    first.update(&batch(3)).unwrap();
    let expected = [expected, content(&first)];
    drop((copy, first, snapshot, session));
    let session = open(&disk, Log::None);
    assert_eq!(session.live_tables().unwrap(), ["copy", "first"]);
    let unlogged = session.open_table("copy", &OpenTable::default());
    assert_eq!(unlogged.unwrap_err().kind(), Kind::Invalid);
    session.close().unwrap();
    let session = open(&disk, Log::Written);
    let tables = session.open_all(&OpenTable::default()).unwrap();
    assert_eq!(tables.iter().map(content).collect::<Vec<_>>(), expected);
}

#[test]
fn updates_of_several_tables_are_one_record() {
    for log in [Log::None, Log::Synced] {
        let disk = MemoryDisk::seeded(1);
        let session = create(&disk, log);
        let mut one = session.create_table("one", table_options()).unwrap();
        let mut two = session.create_table("two", table_options()).unwrap();
        let mut apart = one.duplicate("apart").unwrap();
        let refused = Batch::new().insert(&[7; 4_001], b"a long key").clone();
        let outcome = session.update(&mut [(&mut one, &batch(1)), (&mut two, &refused)]);
        assert_eq!(outcome.unwrap_err().kind(), Kind::Invalid);
        assert!(content(&one).is_empty());
        for number in 0..40 {
            let (first, second) = (batch(number), batch(number + 1));
            let updates = &mut [(&mut two, &second), (&mut apart, &first), (&mut one, &first)];
            session.update(updates).unwrap();
        }
        assert_eq!(content(&one), content(&apart));
        let logged = if log == Log::None { 0 } else { 40 };
        assert_eq!(session.stats().log_records, logged);
        let expected = [content(&one), content(&two)];
        drop((one, two, apart, session));
        if log != Log::None {
            let session = open(&disk, log);
            let tables = session.open_all(&OpenTable::default()).unwrap();
            assert_eq!(tables.iter().map(content).collect::<Vec<_>>(), expected);
        }
    }
}

#[test]
fn threads_that_update_different_tables_share_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || varvite::disk::os::OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let options = SessionOptions { log_file_bytes: 100_000, ..options(Log::Synced) };
    let session = Session::create(disk(), options.clone()).unwrap();
    let names = ["a", "b", "c", "d"];
    let tables = names.map(|name| session.create_table(name, table_options()).unwrap());
    let updated = std::thread::scope(|scope| {
        let threads = tables.map(|mut table| {
            scope.spawn(move || {
                (0..150).for_each(|number| table.update(&batch(number)).unwrap());
                table
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(session.stats().log_records, 600);
    let expected = updated.each_ref().map(content);
    assert!(expected.iter().all(|content| *content == expected[0] && !content.is_empty()));
    drop((updated, session));
    let session = Session::open(disk(), options).unwrap();
    let tables = session.open_all(&OpenTable::default()).unwrap();
    assert_eq!(tables.iter().map(content).collect::<Vec<_>>(), expected);
}

/// Stands at each `call` of a log file until the four records of a test wait there.
fn stand_until_all_wait(records: &OnceLock<Session>, stands: Call, call: Call, path: &str) -> bool {
    let Some(session) = records.get().filter(|_| call == stands && path.starts_with("log/")) else {
        return false;
    };
    while session.stats().log_records < 4 {
        std::thread::yield_now();
    }
    true
}

fn four_tables(session: &Session) -> [Table; 4] {
    ["a", "b", "c", "d"].map(|name| session.create_table(name, table_options()).unwrap())
}

/// Whoever syncs first stands there until the records of the others wait: these share the next sync,
/// and nobody returns before one has ended.
#[test]
fn records_that_gather_during_a_sync_share_the_next_one() {
    let records: Arc<OnceLock<Session>> = Arc::default();
    let held = Arc::clone(&records);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        stand_until_all_wait(&held, Call::Sync, call, path);
    });
    let options = SessionOptions { log_file_bytes: 1 << 20, ..options(Log::Synced) };
    let session = Session::create(disk, options).unwrap();
    let mut tables = four_tables(&session);
    let before = session.stats().log_syncs;
    assert!(records.set(session.clone()).is_ok());
    std::thread::scope(|scope| {
        for table in &mut tables {
            scope.spawn(|| {
                table.update(&batch(1)).unwrap();
                assert!(session.stats().log_syncs > before, "told before anything was synced");
            });
        }
    });
    let syncs = session.stats().log_syncs - before;
    assert!((1..=2).contains(&syncs), "{syncs} syncs");
    assert!(tables.each_ref().map(content).iter().all(|found| *found == content(&tables[0])));
}

/// The call for which four threads wait fails, so who was told that all is well was told too early,
/// whatever the order of the threads.
#[test]
fn nobody_is_acknowledged_before_the_call_that_all_wait_for() {
    for (log, stands, fault) in
        [(Log::Written, Call::Write, Fault::Write), (Log::Synced, Call::Sync, Fault::Sync)]
    {
        let records: Arc<OnceLock<Session>> = Arc::default();
        let (held, sim) = (Arc::clone(&records), SimDisk::new(1));
        let (faulty, is_armed) = (Arc::clone(&sim), AtomicBool::new(false));
        let disk = HookedDisk::new(sim, move |call, path| {
            if stand_until_all_wait(&held, stands, call, path) && !is_armed.swap(true, SeqCst) {
                faulty.fail_at(1, fault);
            }
        });
        let options = SessionOptions { log_file_bytes: 1 << 20, ..options(log) };
        let session = Session::create(disk, options).unwrap();
        let mut tables = four_tables(&session);
        assert!(records.set(session.clone()).is_ok());
        std::thread::scope(|scope| {
            for table in &mut tables {
                scope.spawn(|| {
                    let kind = table.update(&batch(1)).unwrap_err().kind();
                    assert!([Kind::Io, Kind::Poisoned].contains(&kind), "{kind:?}");
                });
            }
        });
        for table in &mut tables {
            assert_eq!(content(table), []);
            // What failed to be written was taken back; a failed sync ends all writing.
            assert_eq!(table.update(&batch(2)).is_ok(), log == Log::Written);
        }
    }
}

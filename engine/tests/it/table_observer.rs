//! What an observer of a session is told: every operation, by table, with what it cost.

use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Log, Observed, Observer, OpenTable, Operation, OperationCost, Session, SessionOptions,
    Table, TableOptions,
};

/// A clock that counts its readings, and everything told.
#[derive(Default)]
struct Notes(AtomicU64, Mutex<Vec<(Operation, String, u64, OperationCost)>>);

impl Observer for Notes {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, operation: Operation, _: u64, _: u64) {
        panic!("{operation:?} is told with its table");
    }

    fn observe(&self, it: &Observed<'_>) {
        assert!(it.duration_ns > 0);
        self.1.lock().unwrap().push((it.operation, it.table.to_owned(), it.count, it.cost));
    }
}

impl Notes {
    fn take(&self) -> Vec<(Operation, String, u64, OperationCost)> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }
}

/// A session whose observer is `notes`, with the table `t` of the keys 0 to `keys`, of which nothing is told any more.
fn filled(notes: &Arc<Notes>, keys: u32) -> (Session, Table) {
    let options = SessionOptions { observer: Some(notes.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut batch = Batch::new();
    for key in 0..keys {
        batch.insert(&key.to_be_bytes(), b"value");
    }
    table.update(&batch).unwrap();
    notes.take();
    (session, table)
}

#[test]
fn tables_that_are_made_opened_copied_and_deleted_are_told() {
    let notes = Arc::new(Notes::default());
    let disk = MemoryDisk::seeded(1);
    let (log, observer) = (Log::Written, notes.clone());
    let options = SessionOptions { log, observer: Some(observer), ..SessionOptions::default() };
    let session = Session::create(disk, options).unwrap();
    let inner = [Operation::Checkpoint, Operation::Merge];
    let told = || -> Vec<_> {
        let told = notes.take().into_iter().filter(|it| !inner.contains(&it.0));
        told.map(|(operation, table, count, _)| (operation, table, count)).collect()
    };
    let one = |operation, table: &str| vec![(operation, table.to_owned(), 1)];
    let table = session.create_table("t", TableOptions::default()).unwrap();
    assert_eq!(told(), one(Operation::OpenTable, "t"));
    assert!(session.create_table("t", TableOptions::default()).is_err());
    assert_eq!(told(), one(Operation::OpenTable, "t"), "one that failed took time, too");
    let copy = table.duplicate("copy").unwrap();
    assert_eq!(told(), one(Operation::Duplicate, "copy"));
    drop((table, copy));
    assert!(told().is_empty());
    session.open_table("t", &OpenTable::default()).unwrap();
    assert_eq!(told(), one(Operation::OpenTable, "t"));
    session.open_or_create_table("u", TableOptions::default()).unwrap();
    assert_eq!(told(), one(Operation::OpenTable, "u"));
    assert_eq!(session.open_all(&OpenTable::default()).unwrap().len(), 2);
    assert_eq!(told(), [(Operation::OpenTable, String::new(), 2)]);
    session.delete_table("t").unwrap();
    assert_eq!(told(), one(Operation::DeleteTable, "t"));
}

#[test]
fn ranges_are_told_when_they_end_once_for_each_direction() {
    let notes = Arc::new(Notes::default());
    let (_session, table) = filled(&notes, 100);
    let told = || -> Vec<_> {
        notes
            .take()
            .into_iter()
            .map(|(operation, table, count, _)| (operation, table, count))
            .collect()
    };
    let of = |counts: &[u64]| -> Vec<_> {
        counts.iter().map(|count| (Operation::Range, "t".to_owned(), *count)).collect()
    };
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_eq!(told(), of(&[]), "nothing was asked yet");
    for _ in 0..7 {
        cursor.next().unwrap();
    }
    assert_eq!(told(), of(&[]), "more may follow");
    cursor.previous().unwrap();
    assert_eq!(told(), of(&[7]));
    cursor.seek(b"");
    assert_eq!(told(), of(&[1]));
    drop(cursor);
    assert_eq!(told(), of(&[]), "after a seek nothing was asked");
    assert_eq!(table.iter().count(), 100);
    assert_eq!(told(), of(&[100]));
    let mut range = table.range(..);
    assert!(range.next().is_some() && range.next_back().is_some() && range.next().is_some());
    drop(range);
    let mut both = told();
    both.sort_by_key(|it| it.2);
    assert_eq!(both, of(&[1, 2]));
    assert_eq!(table.view().count().unwrap(), 100);
    assert_eq!(told(), of(&[100]));
}

/// Each reading of the clock is a nanosecond, so a step that is timed takes one.
#[test]
fn a_range_has_the_time_of_all_its_steps() {
    struct Longest(AtomicU64, AtomicU64);
    impl Observer for Longest {
        fn now_ns(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn record(&self, operation: Operation, duration_ns: u64, _: u64) {
            if operation == Operation::Range {
                self.1.fetch_max(duration_ns, Ordering::Relaxed);
            }
        }
    }
    for keys in [1_u32, 8, 9, 1_000] {
        let longest = Arc::new(Longest(AtomicU64::new(0), AtomicU64::new(0)));
        let options =
            SessionOptions { observer: Some(longest.clone()), ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        let mut batch = Batch::new();
        for key in 0..keys {
            batch.insert(&key.to_be_bytes(), b"");
        }
        table.update(&batch).unwrap();
        assert_eq!(table.iter().keys().count(), keys as usize);
        // The last step finds the end.
        assert_eq!(longest.1.load(Ordering::Relaxed), u64::from(keys) + 1);
        let readings = longest.0.load(Ordering::Relaxed);
        assert!(readings < 2 * (20 + u64::from(keys) / 16), "{readings} readings");
    }
}

#[test]
fn a_transaction_is_told_from_its_begin_to_its_end() {
    let notes = Arc::new(Notes::default());
    let (session, table) = filled(&notes, 10);
    let tables = session.share(vec![table]).unwrap();
    let told = |of: Operation| -> Vec<_> {
        let told = notes.take().into_iter().filter(|it| it.0 == of);
        told.map(|(_, table, count, _)| (table, count)).collect()
    };
    let mut block = tables.begin();
    block.batch("t").unwrap().insert(b"a", b"1").insert(b"b", b"2");
    assert!(block.get("t", b"a").unwrap().is_some());
    block.batch("t").unwrap().delete(b"a");
    assert!(told(Operation::Transaction).is_empty(), "it goes on");
    block.commit().unwrap();
    assert_eq!(told(Operation::Transaction), [(String::new(), 3)]);
    let mut block = tables.begin();
    block.batch("t").unwrap().insert(b"c", b"3");
    block.commit().unwrap();
    let of_both = notes.take();
    let names: Vec<_> = of_both.iter().map(|it| (it.0, it.2)).collect();
    assert!(names.contains(&(Operation::Update, 1)), "{names:?}");
    assert_eq!(names.last(), Some(&(Operation::Transaction, 1)), "its commit is within");
    let mut block = tables.begin();
    block.batch("t").unwrap().insert(b"d", b"4").insert(b"e", b"5");
    assert!(block.get("t", b"d").unwrap().is_some());
    block.batch("t").unwrap().delete(b"d");
    block.rollback();
    assert_eq!(told(Operation::Transaction), [(String::new(), 3)]);
    drop(tables.begin());
    assert_eq!(told(Operation::Transaction), [(String::new(), 0)]);
}

#[test]
fn what_an_update_reads_for_itself_is_no_range() {
    let notes = Arc::new(Notes::default());
    let (_session, mut table) = filled(&notes, 100);
    table.update(Batch::new().delete_range(Bound::Unbounded, Bound::Unbounded)).unwrap();
    assert!(notes.take().iter().all(|it| it.0 != Operation::Range));
    assert_eq!(table.view().count().unwrap(), 0);
}

#[test]
fn every_operation_is_told_with_its_table_and_its_cost() {
    let notes = Arc::new(Notes::default());
    let options = SessionOptions {
        observer: Some(notes.clone()),
        log: Log::Synced,
        ..SessionOptions::default()
    };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let small = TableOptions { write_buffer_bytes: 4096, ..TableOptions::default() };
    let mut first = session.create_table("first", small.clone()).unwrap();
    let mut second = session.create_table("second", small).unwrap();
    notes.take();

    first.update(Batch::new().insert(b"key", &[7; 100])).unwrap();
    let told = notes.take();
    let (operation, table, count, cost) = &told[told.len() - 1];
    assert_eq!((*operation, table.as_str(), *count), (Operation::Update, "first", 1));
    assert!(cost.bytes_written > 100 && cost.sync_ns > 0, "{cost:?}");
    assert_eq!(told[told.len() - 2].0, Operation::Log);

    for number in 0..400_u32 {
        second.update(Batch::new().insert(&number.to_be_bytes(), &[1; 60])).unwrap();
    }
    let told = notes.take();
    assert!(told.iter().all(|it| it.1 == "second" || it.1.is_empty()), "{told:?}");
    let merges = told.iter().filter(|it| it.0 == Operation::Merge);
    assert!(merges.map(|it| it.3.bytes_written).sum::<u64>() > 60 * 300);

    assert!(second.get(&3_u32.to_be_bytes()).unwrap().is_some());
    assert!(second.view().lookup(&[4_u32.to_be_bytes()]).unwrap().get(0).is_some());
    assert_eq!(second.view().find(&[5_u32.to_be_bytes()]).unwrap().len(), 1);
    let told = notes.take();
    assert_eq!(told.len(), 3);
    let operations = [Operation::Get, Operation::Lookup, Operation::Lookup];
    for ((operation, table, count, cost), expected) in told.into_iter().zip(operations) {
        assert_eq!((operation, table.as_str(), count), (expected, "second", 1));
        assert_eq!((cost.pages_read, cost.bytes_read), (1, 4096), "of a run, without a cache");
    }
}

//! What an observer of a session is told: every operation, by table, with what it cost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Log, Observed, Observer, Operation, OperationCost, Session, SessionOptions, TableOptions,
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
    for (operation, table, count, cost) in told {
        assert_eq!((operation, table.as_str(), count), (Operation::Lookup, "second", 1));
        assert_eq!((cost.pages_read, cost.bytes_read), (1, 4096), "of a run, without a cache");
    }
}

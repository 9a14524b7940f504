//! Ranges that a batch deletes among its other operations, and batches that are joined.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{
    Batch, Kind, Log, MergeOperator, OpenTable, Session, SessionOptions, Table, TableOptions,
};

fn options() -> SessionOptions {
    let (log, segment_bytes) = (Log::Synced, 8_192);
    SessionOptions { seed: Some(1), log, segment_bytes, ..SessionOptions::default() }
}

fn table_options() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 600,
        size_ratio: 2,
        operator: Some(MergeOperator::append()),
        ..TableOptions::default()
    }
}

type Content = Vec<(Vec<u8>, Vec<u8>)>;

fn content(table: &Table) -> Content {
    table.listed(Unbounded, Unbounded).unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn filled(session: &Session, name: &str, count: u32) -> Table {
    let mut table = session.create_table(name, table_options()).unwrap();
    for number in 0..count {
        table.update(Batch::new().insert(&key(number), b"old value")).unwrap();
    }
    table
}

#[test]
fn what_comes_before_a_range_goes_and_what_comes_after_stays() {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(disk.clone(), options()).unwrap();
    let mut table = filled(&session, "t", 400);
    let (view, copy) = (table.view(), table.duplicate("copy").unwrap());
    let mut batch = Batch::new();
    batch.insert(&key(50), b"before").upsert(&key(60), b"before").insert(b"x", b"outside");
    batch.delete_range(Included(&key(10)), Excluded(&key(390)));
    batch.upsert(&key(60), b"after").insert(&key(70), b"after").delete(b"x");
    batch.delete_prefix(b"00000").insert(&key(5), b"after");
    assert_eq!(batch.len(), 9);
    table.update(&batch).unwrap();
    let mut expected = vec![(key(5), b"after".to_vec())];
    expected.push((key(60), b"after".to_vec()));
    expected.push((key(70), b"after".to_vec()));
    expected.extend((390..400).map(|number| (key(number), b"old value".to_vec())));
    assert_eq!(content(&table), expected);
    assert_eq!(view.count().unwrap(), 400);
    assert_eq!(content(&copy).len(), 400);
    drop((table, copy, view, session));
    let session = Session::open(disk, options()).unwrap();
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    assert_eq!(content(&table), expected);
}

#[test]
fn batches_that_are_joined_act_one_after_the_other() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let mut table = filled(&session, "t", 3);
    let (mut first, mut second) = (Batch::new(), Batch::new());
    first.insert(b"a", b"first").delete_range(Unbounded, Unbounded).insert(b"b", b"first");
    second.upsert(b"b", b"+second").delete_prefix(b"c").insert(b"a", b"second");
    first.insert(b"c", b"first");
    first.append(&second);
    assert_eq!((first.len(), second.len()), (7, 3));
    table.update(&first).unwrap();
    let expected = [(b"a".to_vec(), b"second".to_vec()), (b"b".to_vec(), b"first+second".to_vec())];
    assert_eq!(content(&table), expected);
    let refused = Batch::new().insert(&[0; 4_001], b"").clone();
    let error = table.update(Batch::new().insert(b"d", b"").append(&refused)).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert_eq!(content(&table), expected);
}

/// An empty range, or one in which nothing is bound, is nothing to log.
#[test]
fn a_range_without_a_key_costs_no_record() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let mut table = filled(&session, "t", 3);
    let records = session.stats().log_records;
    let mut crossing = Batch::new();
    crossing
        .delete_range(Included(b"b"), Excluded(b"b"))
        .delete_range(Excluded(b"z"), Included(b"a"));
    assert!(crossing.is_empty());
    table.update(&crossing).unwrap();
    table.update(Batch::new().delete_prefix(b"nothing")).unwrap();
    assert_eq!(session.stats().log_records, records);
    table.update(Batch::new().delete_prefix(b"00000")).unwrap();
    assert_eq!(session.stats().log_records, records + 1);
}

/// Segments in the range are not read, and one record of the log has the range, however long it is.
#[test]
fn a_long_range_costs_its_edges() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let mut table = filled(&session, "t", 6_000);
    while table.work(u64::MAX).unwrap() > 0 {}
    let (before, disk_before) = (session.stats(), table.stats().unwrap().disk_bytes);
    let mut batch = Batch::new();
    batch.insert(b"x", b"1").delete_range(Unbounded, Excluded(b"x")).insert(&key(7), b"new");
    table.update(&batch).unwrap();
    let after = session.stats();
    assert_eq!(content(&table), [(key(7), b"new".to_vec()), (b"x".to_vec(), b"1".to_vec())]);
    assert!(after.log_written_bytes - before.log_written_bytes < 200, "{before:?} {after:?}");
    let disk_after = table.stats().unwrap().disk_bytes;
    assert!(disk_after < disk_before / 3, "{disk_after} of {disk_before}");
}

/// Whichever call fails, both tables are as they were, and the same update works afterwards.
#[test]
fn an_update_that_fails_leaves_the_ranges_of_all_tables() {
    let mut failed = 0;
    for n in 1..60 {
        let sim = SimDisk::new(n);
        let session = Session::create(sim.clone(), options()).unwrap();
        let [mut one, mut two] = ["one", "two"].map(|name| filled(&session, name, 150));
        let before = [content(&one), content(&two)];
        let (mut first, mut second) = (Batch::new(), Batch::new());
        first.delete_range(Included(&key(3)), Unbounded).insert(b"x", b"1");
        second.insert(&key(4), b"gone").delete_prefix(b"0000").upsert(&key(5), b"1");
        sim.fail_at(n, Fault::Space);
        let outcome = session.update(&mut [(&mut one, &first), (&mut two, &second)]);
        sim.disarm();
        if outcome.is_err() {
            failed += 1;
            assert_eq!([content(&one), content(&two)], before, "call {n}");
            if session.is_poisoned() {
                continue;
            }
            session.update(&mut [(&mut one, &first), (&mut two, &second)]).unwrap();
        }
        assert_eq!((content(&one).len(), content(&two).len()), (4, 51), "call {n}");
        drop((one, two, session));
        let session = Session::open(sim.crash(Crash::Subset(n)), options()).unwrap();
        let tables = session.open_all(&OpenTable::default()).unwrap();
        assert_eq!((content(&tables[0]).len(), content(&tables[1]).len()), (4, 51), "call {n}");
    }
    assert!(failed > 0);
}

/// Batches of many operations and ranges fill several buffers, so that checkpoints stand inside of records,
/// also inside the deletes of a range.
#[test]
fn checkpoints_inside_a_record_with_ranges_replay_to_the_same() {
    for case in 0..12_u32 {
        let disk = MemoryDisk::seeded(u64::from(case));
        let options = SessionOptions { log_file_bytes: 2_000, ..options() };
        let mut session = Session::create(disk.clone(), options.clone()).unwrap();
        let mut table = filled(&session, "t", 300);
        for round in 0..12_u32 {
            let mut batch = Batch::new();
            for number in 0..120 {
                let number = (number * 7 + round * 31 + case * 13) % 400;
                match number % 11 {
                    0 => batch.delete_range(Included(&key(number)), Excluded(&key(number + 40))),
                    1 => batch.delete_prefix(&key(number)[..5]),
                    2 | 3 => batch.upsert(&key(number), b"+"),
                    _ => batch.insert(&key(number), &round.to_le_bytes()),
                };
            }
            table.update(&batch).unwrap();
            let expected = content(&table);
            if round % 3 == case % 3 {
                drop((table, session));
                session =
                    Session::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
                table = session.open_table("t", &OpenTable::default()).unwrap();
                assert_eq!(content(&table), expected, "case {case}, round {round}");
            }
        }
    }
}

/// A range that a batch has often is looked through once, and so is one that another has in it.
#[test]
fn ranges_that_overlap_cost_what_they_cover() {
    let costs = [1, 1_000].map(|times| {
        let reads = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&reads);
        let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, _| {
            count.fetch_add(u64::from([Call::Read, Call::Submit].contains(&call)), SeqCst);
        });
        let session = Session::create(disk, options()).unwrap();
        let mut table = filled(&session, "t", 200);
        let mut batch = Batch::new();
        batch.insert(&key(7), b"in it");
        for number in 0..times {
            batch.delete_range(Included(&key(number % 5)), Excluded(&key(150)));
        }
        batch.delete_range(Included(&key(150)), Included(&key(190)));
        batch.insert(&key(9), b"behind");
        batch.delete_range(Included(&key(195)), Unbounded);
        let before = reads.load(SeqCst);
        table.update(&batch).unwrap();
        let found = content(&table);
        assert_eq!(found.len(), 5, "{found:?}");
        assert_eq!(found[0], (key(9), b"behind".to_vec()));
        reads.load(SeqCst) - before
    });
    assert!(costs[1] < costs[0] + 20, "{costs:?}");
}

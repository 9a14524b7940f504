//! The empty key is a key like any other: the least of all.

use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::listed::Listed;
use crate::random::Random;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::check::check;
use varvite::{
    Batch, LoadOrder, Log, MergeOperator, OpenSnapshot, OpenTable, Session, SessionOptions,
    SnapshotContent, Table, TableOptions,
};

type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

fn options() -> SessionOptions {
    let (log, segment_bytes) = (Log::Synced, 8_192);
    SessionOptions { seed: Some(1), log, segment_bytes, ..SessionOptions::default() }
}

fn table_options() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 600,
        size_ratio: 2,
        blob_min_bytes: Some(2_000),
        operator: Some(MergeOperator::append()),
        ..TableOptions::default()
    }
}

/// That the table has the empty key with `value`, by every way to it, beside `others` keys.
#[track_caller]
fn has(table: &Table, value: Option<&[u8]>, others: usize) {
    assert_eq!(table.get(b"").unwrap().as_deref(), value);
    let found = table.lookup(&[&b"\0"[..], b"", b"nobody"]).unwrap();
    assert_eq!(found.iter().nth(1).unwrap(), value);
    let count = others + usize::from(value.is_some());
    let ranges: [(Range<'_>, usize); 6] = [
        ((Unbounded, Unbounded), count),
        ((Included(b""), Unbounded), count),
        ((Excluded(b""), Unbounded), others),
        ((Included(b""), Included(b"")), usize::from(value.is_some())),
        ((Unbounded, Included(b"")), usize::from(value.is_some())),
        ((Unbounded, Excluded(b"")), 0),
    ];
    for ((lower, upper), expected) in ranges {
        let found = table.listed(lower, upper).unwrap();
        assert_eq!(found.len(), expected, "{lower:?} {upper:?}");
        let mut cursor = table.cursor(lower, upper).unwrap();
        cursor.seek_last();
        let mut back = 0;
        let mut least = None;
        while let Some((key, _)) = cursor.previous().unwrap() {
            (back, least) = (back + 1, Some(key.to_vec()));
        }
        assert_eq!(back, expected, "{lower:?} {upper:?}, backwards");
        assert_eq!(least, found.first().map(|(key, _)| key.clone()));
        cursor.seek(b"");
        let first = cursor.next().unwrap().map(|(key, _)| key.to_vec());
        assert_eq!(first, found.first().map(|(key, _)| key.clone()));
    }
}

#[track_caller]
fn is_sound(disk: &Arc<MemoryDisk>) {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as _;
    let report = check(&disk, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.findings, Vec::new());
}

/// Alone in its table, before others, with values of every place: in a page, over pages, in a blob file.
#[test]
fn it_goes_through_buffers_runs_log_and_snapshots() {
    for (length, others) in [(0, 0), (3, 0), (1_900, 0), (5_000, 0), (3, 90), (5_000, 90)] {
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(disk.clone(), options()).unwrap();
        let mut table = session.create_table("t", table_options()).unwrap();
        let value = vec![7; length];
        table.update(Batch::new().insert(b"", &value)).unwrap();
        has(&table, Some(&value), 0);
        for number in 0..others {
            table.update(Batch::new().insert(format!("{number:04}").as_bytes(), &value)).unwrap();
        }
        has(&table, Some(&value), others);
        drop((table, session));
        let session = Session::open(disk.clone(), options()).unwrap();
        let mut table = session.open_table("t", &OpenTable::default()).unwrap();
        has(&table, Some(&value), others);
        while table.work(u64::MAX).unwrap() > 0 {}
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("s", content).unwrap();
        is_sound(&disk);
        let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
        let mut found = snapshot.take("t").unwrap();
        has(&found, Some(&value), others);
        found.update(Batch::new().upsert(b"", b"more")).unwrap();
        has(&found, Some(&[&value[..], b"more"].concat()), others);
        found.update(Batch::new().delete(b"")).unwrap();
        has(&found, None, others);
        found.update(Batch::new().insert(b"", b"again")).unwrap();
        let union = session.union("u", &[&found, &table]).unwrap();
        has(&union, Some(&[&value[..], b"again"].concat()), others);
        table.delete_range(Unbounded, Included(b"")).unwrap();
        has(&table, None, others);
        drop((found, union, table, snapshot));
        session.close().unwrap();
        let session = Session::open(disk.clone(), options()).unwrap();
        has(&session.open_table("t", &OpenTable::default()).unwrap(), None, others);
        is_sound(&disk);
    }
}

#[test]
fn it_is_loaded_first_and_once() {
    for order in [LoadOrder::Sorted, LoadOrder::Any { memory_bytes: 200 }] {
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(disk.clone(), options()).unwrap();
        let mut loader = session.load_table("t", table_options(), order).unwrap();
        loader.push(b"", b"first").unwrap();
        let again = loader.push(b"", b"second");
        let value = if order == LoadOrder::Sorted {
            assert!(again.unwrap_err().detail().contains("equal to"));
            b"first".as_slice()
        } else {
            again.unwrap();
            b"second"
        };
        for number in 0..400 {
            loader.push(format!("{number:04}").as_bytes(), b"v").unwrap();
        }
        let mut table = loader.finish().unwrap();
        has(&table, Some(value), 400);
        session.publish(&mut table).unwrap();
        is_sound(&disk);
    }
}

/// An empty key with an empty value takes no room where entries are sorted: the next begins at the same place.
#[test]
fn its_last_value_counts_among_many_that_are_sorted() {
    let mut random = Random::new(7);
    for round in 0..64_u32 {
        let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
        let order = LoadOrder::Any { memory_bytes: 1 << 20 };
        let mut loader = session.load_table("t", table_options(), order).unwrap();
        let at = random.below(300);
        for number in 0..300 {
            if number == at {
                loader.push(b"", b"").unwrap();
                loader.push(b"", &round.to_le_bytes()).unwrap();
            }
            loader.push(&random.bytes(9), b"v").unwrap();
        }
        let table = loader.finish().unwrap();
        assert_eq!(table.get(b"").unwrap().as_deref(), Some(&round.to_le_bytes()[..]), "{round}");
    }
}

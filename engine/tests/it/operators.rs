//! A merge operator of the host that fails or panics leaves everything as it was: table, log, other tables.

use std::cell::Cell;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, Cursor, Error, Kind, LoadOrder, Log, MergeOperator, OpenTable, Result, Session,
    SessionOptions, Table, TableOptions,
};

use crate::listed::Listed;
use crate::log::options;

thread_local! {
    /// Whether operators fail for what they do not bear, instead of panicking.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

fn both_ways(test: impl Fn()) {
    for fails in [false, true] {
        FAILS.set(fails);
        test();
    }
}

fn shout() -> Result<Vec<u8>> {
    if FAILS.get() { Err(Error::invalid("a shout")) } else { panic!("a shout") }
}

/// Appends, but to nothing a value with a `!`.
fn operator() -> MergeOperator {
    MergeOperator::fallible("append-calmly", |older, newer| {
        if newer.contains(&b'!') { shout() } else { Ok([older, newer].concat()) }
    })
}

fn table_options() -> TableOptions {
    TableOptions { write_buffer_bytes: 700, size_ratio: 2, ..TableOptions::default() }
        .with_operator(operator())
}

fn open_options() -> OpenTable {
    OpenTable { operators: vec![operator()], ..OpenTable::default() }
}

fn session(disk: &Arc<MemoryDisk>, log: Log) -> Session {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let is_new = !disk.exists("session").unwrap();
    let options = options(log);
    if is_new { Session::create(disk, options) } else { Session::open(disk, options) }.unwrap()
}

fn content(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.listed(Bound::Unbounded, Bound::Unbounded).unwrap()
}

/// Forty operations that join values and fill several buffers; `shout` is the place of the one that
/// the operator does not bear.
fn batch(number: u64, shout: Option<usize>) -> Batch {
    let mut batch = Batch::new();
    for place in 0..40 {
        let key = format!("key {}", (number as usize + place) % 13);
        let text = format!("{number}.{place} ").into_bytes();
        match place % 4 {
            0 => batch.insert(key.as_bytes(), &text.repeat(9)),
            3 => batch.delete(key.as_bytes()),
            _ => batch.upsert(key.as_bytes(), &text),
        };
        if shout == Some(place) {
            // Twice, since a buffer may end before either.
            batch.insert(b"calm", b"").upsert(b"calm", b"!").upsert(b"calm", b"!");
        }
    }
    batch
}

/// Whether `action` ends by the operator's panic, or gives its error.
fn stops<T>(action: impl FnOnce() -> Result<T>) -> bool {
    match catch_unwind(AssertUnwindSafe(action)) {
        Ok(Err(error)) => {
            assert!(FAILS.get() && error.detail().contains("a shout"), "{error}");
            true
        }
        Ok(Ok(_)) => false,
        Err(_) => {
            assert!(!FAILS.get(), "it panics");
            true
        }
    }
}

#[test]
fn an_operator_that_stops_leaves_the_table_and_its_log_as_they_were() {
    both_ways(|| {
        for log in [Log::None, Log::Written, Log::Synced] {
            let disk = MemoryDisk::seeded(1);
            let session = session(&disk, log);
            let mut table = session.create_table("t", table_options()).unwrap();
            let mut calm = Session::create(MemoryDisk::seeded(1), SessionOptions::default())
                .unwrap()
                .create_table("calm", table_options())
                .unwrap();
            for (number, shout) in (0..80).enumerate() {
                let (before, records) = (content(&table), session.stats().log_records);
                let shouting = batch(number as u64, Some(shout % 40));
                assert!(stops(|| table.update(&shouting)), "{shout}");
                assert!(content(&table) == before, "{log:?}: changed before operation {shout}");
                assert_eq!(session.stats().log_records, records);
                table.update(&batch(number as u64, None)).unwrap();
                calm.update(&batch(number as u64, None)).unwrap();
                assert!(content(&table) == content(&calm), "{log:?}: {shout}");
            }
            if log == Log::None {
                continue;
            }
            drop((table, session));
            let session = self::session(&disk, log);
            let table = session.open_table("t", &open_options()).unwrap();
            assert!(content(&table) == content(&calm), "{log:?}: reopened");
        }
    });
}

#[test]
fn a_stop_for_one_of_several_tables_leaves_all_as_they_were() {
    both_ways(|| {
        for log in [Log::None, Log::Written] {
            for place in 0..3 {
                let disk = MemoryDisk::seeded(1);
                let session = session(&disk, log);
                let mut tables: Vec<_> = ["a", "b", "c"]
                    .iter()
                    .map(|name| session.create_table(name, table_options()).unwrap())
                    .collect();
                for number in 0..20 {
                    let before: Vec<_> = tables.iter().map(content).collect();
                    let records = session.stats().log_records;
                    for shouts in [true, false] {
                        let batches: Vec<_> = (0..3)
                            .map(|it| batch(number + it, (shouts && it == place).then_some(20)))
                            .collect();
                        let mut updates: Vec<_> = tables.iter_mut().zip(&batches).collect();
                        assert_eq!(stops(|| session.update(&mut updates)), shouts);
                        if shouts {
                            assert!(tables.iter().map(content).eq(before.iter().cloned()));
                            assert_eq!(session.stats().log_records, records);
                        }
                    }
                }
                let expected: Vec<_> = tables.iter().map(content).collect();
                drop((tables, session));
                if log != Log::None {
                    let session = self::session(&disk, log);
                    let tables = session.open_all(&open_options()).unwrap();
                    assert!(tables.iter().map(content).eq(expected), "{log:?}");
                }
            }
        }
    });
}

/// A range is cut out of the runs before the operator is called.
#[test]
fn a_stop_while_a_range_is_deleted_leaves_the_table_as_it_was() {
    both_ways(|| {
        let session = session(&MemoryDisk::seeded(1), SessionOptions::default().log);
        let mut table = session.create_table("t", table_options()).unwrap();
        for number in 0..40_u32 {
            let key = number.to_be_bytes();
            table.update(Batch::new().insert(&key, &[7; 90])).unwrap();
        }
        // No buffer holds both, so nobody has joined them yet.
        table.update(Batch::new().upsert(&3_u32.to_be_bytes(), b"!")).unwrap();
        assert!(stops(|| table.get(&3_u32.to_be_bytes())));
        let after_two = Bound::Excluded(&2_u32.to_be_bytes()[..]);
        let mut shouting = Batch::new();
        shouting
            .delete_range(after_two, Bound::Unbounded)
            .insert(b"calm", b"")
            .upsert(b"calm", b"!");
        assert!(stops(|| table.update(&shouting)));
        for number in (0..40_u32).filter(|number| *number != 3) {
            assert_eq!(table.get(&number.to_be_bytes()).unwrap(), Some(vec![7; 90]));
        }
        table.update(Batch::new().delete(&3_u32.to_be_bytes())).unwrap();
        table.delete_range(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert_eq!(content(&table), []);
    });
}

/// Upserts above an older run, joined, outgrow what a segment takes: the update that would write them
/// says so, and nothing is lost or panics.
#[test]
fn a_joined_value_that_is_too_long_is_an_error() {
    let session = session(&MemoryDisk::seeded(1), Log::None);
    let options =
        TableOptions { write_buffer_bytes: 64 << 10, size_ratio: 8, ..TableOptions::default() };
    let options = options.with_operator(MergeOperator::append());
    let mut loader = session.load_table("t", options, LoadOrder::Sorted).unwrap();
    for number in 0_u64..60_000 {
        loader.push(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    let mut table = loader.finish().unwrap();
    let piece = vec![7; 3 << 20];
    let mut pieces = 0;
    let error = loop {
        match table.update(Batch::new().upsert(b"key", &piece)) {
            Ok(()) => pieces += 1,
            Err(error) => break error,
        }
        assert!(pieces < 40, "it is never written");
    };
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.detail().contains("16777216") && error.detail().contains("merge operator"));
    assert!(pieces > 5, "{pieces}");
    assert_eq!(table.get(b"key").unwrap().unwrap().len(), pieces * (3 << 20));
}

/// A value in a blob file is read and joined after the step to its key; any other is joined in the step.
#[test]
fn a_stop_while_a_cursor_joins_leaves_it_where_it_stood() {
    both_ways(|| {
        for blob_min_bytes in [None, Some(32)] {
            let is_calm = Arc::new(AtomicBool::new(false));
            let calm = Arc::clone(&is_calm);
            let operator = MergeOperator::fallible("append-when-calm", move |older, newer| {
                if calm.load(Ordering::Relaxed) { Ok([older, newer].concat()) } else { shout() }
            });
            let session = session(&MemoryDisk::seeded(1), Log::None);
            let options =
                TableOptions { blob_min_bytes, ..table_options() }.with_operator(operator);
            let mut table = session.create_table("t", options).unwrap();
            for number in 0..40_u32 {
                table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 90])).unwrap();
            }
            table.update(Batch::new().upsert(&20_u32.to_be_bytes(), b"!")).unwrap();
            let joined = [&[7; 90][..], b"!"].concat();
            for forward in [true, false] {
                is_calm.store(false, Ordering::Relaxed);
                let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
                let step = |cursor: &mut Cursor| {
                    let found = if forward { cursor.next() } else { cursor.previous() }?;
                    Ok(found.map(|(key, value)| (key.to_vec(), value.to_vec())))
                };
                let mut numbers: Vec<u32> = (0..40).collect();
                if !forward {
                    cursor.seek_last();
                    numbers.reverse();
                }
                for number in numbers {
                    if number == 20 {
                        for _ in 0..3 {
                            assert!(stops(|| step(&mut cursor)), "{blob_min_bytes:?}");
                        }
                        is_calm.store(true, Ordering::Relaxed);
                    }
                    let value = if number == 20 { joined.clone() } else { vec![7; 90] };
                    assert_eq!(
                        step(&mut cursor).unwrap(),
                        Some((number.to_be_bytes().to_vec(), value))
                    );
                }
                assert_eq!(step(&mut cursor).unwrap(), None);
            }
        }
    });
}

/// Keys are bound or not whatever their values come to.
#[test]
fn keys_alone_need_no_operator() {
    both_ways(|| {
        let session = session(&MemoryDisk::seeded(1), Log::None);
        for blob_min_bytes in [None, Some(32)] {
            let options = TableOptions { blob_min_bytes, ..table_options() };
            let mut table = session.create_table("t", options.clone()).unwrap();
            for number in 0..40_u32 {
                table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 90])).unwrap();
            }
            table.update(Batch::new().upsert(&20_u32.to_be_bytes(), b"!")).unwrap();
            let mut other = session.create_table("other", options).unwrap();
            other.update(Batch::new().upsert(&21_u32.to_be_bytes(), b"+")).unwrap();
            other.update(Batch::new().insert(&50_u32.to_be_bytes(), b"+")).unwrap();
            // In a union the tables' values are joined as well.
            let union = session.incremental_union("u", &[&other, &table]).unwrap();
            assert!(union.remaining_union_debt() > 0);
            for (table, keys) in [(&table, 40), (&union, 41)] {
                assert!(stops(|| table.get(&20_u32.to_be_bytes())));
                assert_eq!(table.view().count().unwrap(), keys);
                let listed = table.iter().keys().collect::<Result<Vec<_>>>().unwrap();
                assert_eq!(listed.len() as u64, keys);
                assert_eq!(table.iter().keys().rev().map(Result::unwrap).count() as u64, keys);
                assert_eq!(table.iter().nth(30).unwrap().unwrap().0, 30_u32.to_be_bytes());
                let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
                cursor.seek(&20_u32.to_be_bytes());
                assert_eq!(cursor.next_key().unwrap(), Some(&20_u32.to_be_bytes()[..]));
                // Asked for, it is joined, as often as that.
                for _ in 0..2 {
                    assert!(stops(|| cursor.value().map(<[u8]>::to_vec)));
                }
                assert_eq!(cursor.next_key().unwrap(), Some(&21_u32.to_be_bytes()[..]));
                let more = usize::from(keys == 41);
                assert_eq!(cursor.value().unwrap(), [&[7; 90][..], &b"+"[..more]].concat());
            }
            table.delete_range(Bound::Unbounded, Bound::Unbounded).unwrap();
            assert_eq!(table.view().count().unwrap(), 0);
        }
    });
}

//! Live tables open again though what merges meet fails, and operators that fail spoil no transaction.

use std::cell::Cell;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::SimDisk;
use varvite::{
    Batch, Error, Kind, Log, MergeOperator, OpenTable, Result, Session, SessionOptions,
    SnapshotContent, Table, TableOptions,
};

use crate::listed::Listed;
use crate::log::options;

thread_local! {
    /// Whether an operator fails for what it does not bear, instead of panicking.
    static FAILS: Cell<bool> = const { Cell::new(false) };
    /// Whether it bears everything.
    static IS_CALM: Cell<bool> = const { Cell::new(false) };
}

fn both_ways(test: impl Fn(bool)) {
    for fails in [false, true] {
        FAILS.set(fails);
        IS_CALM.set(false);
        test(fails);
    }
}

/// Appends, but no `!` to a `?`: so it is associative where it answers.
fn operator() -> MergeOperator {
    MergeOperator::fallible("append-calmly", |older, newer| {
        if IS_CALM.get() || !(older.ends_with(b"?") && newer.starts_with(b"!")) {
            return Ok([older, newer].concat());
        }
        assert!(FAILS.get(), "a shout");
        Err(Error::invalid("a shout"))
    })
}

fn open_options() -> OpenTable {
    OpenTable { operators: vec![operator()], ..OpenTable::default() }
}

fn table_options() -> TableOptions {
    TableOptions { write_buffer_bytes: 700, size_ratio: 2, ..TableOptions::default() }
        .with_operator(operator())
}

/// Checkpoints are rare, so that openings have much to apply.
fn long_log() -> SessionOptions {
    SessionOptions { log_file_bytes: 1 << 20, ..options(Log::Written) }
}

fn content(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.listed(Bound::Unbounded, Bound::Unbounded).unwrap()
}

/// What an action gives; `None` where the operator stops it.
fn unless_stopped<T>(action: impl FnOnce() -> Result<T>) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(action)) {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(error)) => {
            assert!(FAILS.get() && error.detail().contains("a shout"), "{error}");
            None
        }
        Err(_) => {
            assert!(!FAILS.get(), "it panics");
            None
        }
    }
}

/// What becomes of a key, here a value that takes a good part of a buffer, is added to in a later one.
fn fill(table: &mut Table, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let mut batch = Batch::new();
        batch.insert(&number.to_be_bytes(), &[b'?'; 90]);
        if let Some(before) = number.checked_sub(20) {
            batch.upsert(&before.to_be_bytes(), b"!");
        }
        table.update(&batch).unwrap();
    }
}

/// The operator's state of another day, say. Whoever opens the tables reads them and mends it.
#[test]
fn tables_open_with_an_operator_that_fails_for_what_merges_join() {
    both_ways(|_| {
        IS_CALM.set(true);
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(Arc::clone(&disk) as _, long_log()).unwrap();
        let mut other = session.create_table("other", TableOptions::default()).unwrap();
        other.update(Batch::new().insert(b"key", b"value")).unwrap();
        let mut table = session.create_table("t", table_options()).unwrap();
        fill(&mut table, 0..200);
        let expected = content(&table);
        drop((other, table, session));

        IS_CALM.set(false);
        let session = Session::open(disk as _, long_log()).unwrap();
        let opened = unless_stopped(|| session.open_all(&open_options()));
        let mut tables = opened.expect("opening asks for no merge");
        assert_eq!(content(&tables[0]), [(b"key".to_vec(), b"value".to_vec())]);
        let table = &mut tables[1];
        assert_eq!(table.get(&199_u32.to_be_bytes()).unwrap(), Some(vec![b'?'; 90]));
        assert!(unless_stopped(|| table.get(&20_u32.to_be_bytes())).is_none());
        assert!(unless_stopped(|| table.update(Batch::new().delete(b"key"))).is_none());

        // Whatever is owed is paid by then.
        IS_CALM.set(true);
        assert!(content(table) == expected);
        table.update(Batch::new().delete(b"key")).unwrap();
        assert!(table.stats().unwrap().buffer_bytes < 1_400, "older buffers are written out");
        assert!(content(table) == expected);
    });
}

/// Reading is what a full disk leaves, also to who opens it.
#[test]
fn tables_open_on_a_full_disk() {
    let disk = SimDisk::new(1);
    let session = Session::create(Arc::clone(&disk) as _, long_log()).unwrap();
    let options = TableOptions { operator: None, ..table_options() };
    let mut table = session.create_table("t", options).unwrap();
    for number in 0..200_u32 {
        table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 90])).unwrap();
    }
    let expected = content(&table);
    drop((table, session));
    let mut refused = 0;
    for room in [0, 200, 2_000, 20_000] {
        disk.capacity(Some(disk.total_bytes() + room));
        let session = match Session::open(Arc::clone(&disk) as _, long_log()) {
            Ok(session) => session,
            Err(error) => {
                // The log's next file takes some.
                assert_eq!(error.kind(), Kind::Io, "{error}");
                refused += 1;
                continue;
            }
        };
        let table = session.open_table("t", &OpenTable::default());
        assert!(content(&table.unwrap()) == expected, "{room} bytes free");
    }
    assert!(refused < 3, "{refused}");
    disk.capacity(None);
    let session = Session::open(disk as _, long_log()).unwrap();
    let mut table = session.open_table("t", &OpenTable::default()).unwrap();
    table.update(Batch::new().insert(b"more", b"")).unwrap();
    assert_eq!(table.view().count().unwrap(), 201);
}

/// A generator that is as good as need be.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A batch of what may fail to be joined, and of ranges, whose deletes are others where segments are others.
fn drawn(draw: &mut Draw) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..=draw.below(6) {
        let key = [b'a' + draw.below(24) as u8];
        let mut value = vec![b'.'; draw.below(60) as usize + 1];
        let end = value.len() - 1;
        match draw.below(4) {
            0 => value[0] = b'!',
            1 => value[end] = b'?',
            _ => {}
        }
        match draw.below(12) {
            0 => batch.delete(&key),
            1 => {
                let last = [key[0] + draw.below(9) as u8];
                batch.delete_range(Bound::Included(&key), Bound::Included(&last))
            }
            2..=4 => batch.insert(&key, &value),
            _ => batch.upsert(&key, &value),
        };
    }
    batch
}

/// What each key is bound to that the operator says, and that it is bound to nothing; none where it does not say.
fn bindings(table: &Table) -> Vec<Option<(bool, Vec<u8>)>> {
    let found = |key| unless_stopped(|| table.get(&[key]));
    let said = |value: Option<Vec<u8>>| (value.is_some(), value.unwrap_or_default());
    (b'a'..b'a' + 33).map(|key| found(key).map(said)).collect()
}

/// Buffers end elsewhere when the log is applied again: after checkpoints that wrote them out, and ranges. So
/// other pairs meet in one, which the operator need not bear.
#[test]
fn whatever_the_operator_fails_for_a_table_opens_as_it_was() {
    both_ways(|_| {
        let mut stuck = 0;
        for seed in 0..60 {
            let mut draw = Draw(seed);
            let disk = MemoryDisk::seeded(seed);
            let session_options =
                || SessionOptions { log_file_bytes: 900, ..options(Log::Written) };
            let mut session = Session::create(Arc::clone(&disk) as _, session_options()).unwrap();
            let mut table = session.create_table("t", table_options()).unwrap();
            for round in 0..60 {
                let mut taken = 0;
                for _ in 0..draw.below(12) {
                    taken +=
                        u64::from(unless_stopped(|| table.update(&drawn(&mut draw))).is_some());
                }
                if draw.below(3) == 0 {
                    let name = format!("s{round}");
                    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
                    unless_stopped(|| session.save_snapshot(&name, content));
                }
                let expected = bindings(&table);
                drop((table, session));
                session = Session::open(Arc::clone(&disk) as _, session_options()).unwrap();
                let opened = unless_stopped(|| session.open_table("t", &open_options()));
                table = opened
                    .unwrap_or_else(|| panic!("seed {seed}, round {round}: it does not open"));
                assert_eq!(bindings(&table), expected, "seed {seed}, round {round}");
                if taken == 0 && round > 0 {
                    // Merges have met a pair, so it takes no more.
                    stuck += 1;
                    IS_CALM.set(true);
                    table
                        .update(Batch::new().delete_range(Bound::Unbounded, Bound::Unbounded))
                        .unwrap();
                    IS_CALM.set(false);
                }
            }
        }
        assert!(stuck > 20, "{stuck}: merges meet too few of them");
    });
}

/// Whatever a transaction comes to, the tables are as they were, and the next one stands.
#[test]
fn an_operator_that_fails_in_a_transaction_leaves_the_tables_as_they_were() {
    both_ways(|fails| {
        for log in [Log::None, Log::Written] {
            let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
            let session = Session::create(Arc::clone(&disk), options(log)).unwrap();
            let made = ["a", "b"].map(|name| session.create_table(name, table_options()).unwrap());
            let tables = session.share(made.into()).unwrap();
            let listed = || {
                ["a", "b"].map(|name| {
                    let range = tables.view(name).unwrap().range(..);
                    range.collect::<Result<Vec<_>>>().unwrap()
                })
            };
            for number in 0..60_u32 {
                let (before, records) = (listed(), session.stats().log_records);
                let key = number.to_be_bytes();
                // In the first step or a later one, in the commit, among ranges, in either table.
                for how in 0..6 {
                    let mut change = tables.begin();
                    let name = if how % 2 == 0 { "a" } else { "b" };
                    change.batch("a").unwrap().insert(&key, &[b'?'; 70]);
                    if how < 4 {
                        change.batch("b").unwrap().insert(&key, b"?");
                        assert_eq!(change.get("a", &key).unwrap(), Some(vec![b'?'; 70]));
                    } else {
                        change.batch("b").unwrap().insert(&key, &[b'?'; 70]);
                    }
                    let batch = change.batch(name).unwrap();
                    if how == 3 {
                        batch.delete_range(Bound::Included(b"x"), Bound::Unbounded);
                    }
                    // Two of them at least are in one buffer.
                    batch.upsert(&key, b"!?").upsert(&key, b"!?").upsert(&key, b"!?");
                    if how < 2 {
                        assert!(unless_stopped(|| change.get(name, &key)).is_none());
                        // It may be told again, and its commit does not stand without it.
                        assert!(unless_stopped(|| change.get(name, &key)).is_none());
                    }
                    if how % 3 == 0 {
                        drop(change);
                    } else {
                        assert!(unless_stopped(|| change.commit()).is_none(), "{how}");
                    }
                    assert!(listed() == before, "{log:?}: {how}");
                    assert_eq!(session.stats().log_records, records);
                }
                let mut change = tables.begin();
                change.batch("a").unwrap().insert(&key, &[b'.'; 70]).upsert(&key, b"!");
                assert_eq!(change.get("a", &key).unwrap().unwrap().len(), 71);
                change.batch("b").unwrap().upsert(&key, b"!");
                change.commit().unwrap();
            }
            let expected = listed();
            assert_eq!(expected[0].len(), 60, "{fails}");
            drop((tables, session));
            if log != Log::None {
                let session = Session::open(disk, options(log)).unwrap();
                let opened = session.open_all(&open_options()).unwrap();
                for (table, expected) in opened.iter().zip(expected) {
                    let found = table.range(..).collect::<Result<Vec<_>>>().unwrap();
                    assert!(found == expected, "{log:?}: reopened");
                }
            }
        }
    });
}

/// The operator that a table was made with is asked for by name, and one of that name that always fails is no worse
/// than none: an error that says whose, not a session full of small buffers.
#[test]
fn an_operator_that_never_answers_is_named_when_the_table_opens() {
    both_ways(|fails| {
        IS_CALM.set(true);
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(Arc::clone(&disk) as _, long_log()).unwrap();
        let large = TableOptions { write_buffer_bytes: 1 << 20, ..table_options() };
        let mut table = session.create_table("t", large).unwrap();
        for number in 0..5_000_u32 {
            let text = number.to_be_bytes();
            table.update(Batch::new().upsert(b"key", &text)).unwrap();
        }
        drop((table, session));
        let session = Session::open(disk as _, long_log()).unwrap();
        let never = MergeOperator::fallible("append-calmly", move |_, _| {
            assert!(fails, "a shout");
            Err(Error::invalid("a shout"))
        });
        let options = OpenTable { operators: vec![never], ..OpenTable::default() };
        let refused = catch_unwind(AssertUnwindSafe(|| session.open_table("t", &options)));
        if fails {
            assert_eq!(refused.unwrap().unwrap_err().kind(), Kind::Invalid);
        } else {
            assert!(refused.is_err());
        }
        let table = session.open_table("t", &open_options()).unwrap();
        assert_eq!(table.get(b"key").unwrap().unwrap().len(), 20_000);
    });
}

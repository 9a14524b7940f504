//! Tables behind a shared handle, and transactions that read what they wrote.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::listed::Listed;
use crate::random::Random;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{
    Batch, Kind, Log, MergeOperator, OpenTable, Session, SessionOptions, TableOptions, Tables,
    Transaction, View,
};

const NAMES: [&str; 2] = ["one", "two"];

/// What a table holds, as a map.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> SessionOptions {
    let (log, segment_bytes, log_file_bytes) = (Log::Synced, 8_192, 2_000);
    SessionOptions {
        seed: Some(1),
        log,
        segment_bytes,
        log_file_bytes,
        ..SessionOptions::default()
    }
}

fn shared(session: &Session) -> Tables {
    let options = TableOptions {
        write_buffer_bytes: 600,
        size_ratio: 2,
        operator: Some(MergeOperator::append()),
        ..TableOptions::default()
    };
    let tables = NAMES.map(|name| session.create_table(name, options.clone()).unwrap());
    session.share(tables.into()).unwrap()
}

fn reopened(disk: &Arc<impl Disk + 'static>) -> Tables {
    let session = Session::open(Arc::clone(disk) as Arc<dyn Disk>, options()).unwrap();
    session.open_shared(&OpenTable::default()).unwrap()
}

fn content(view: &View) -> Content {
    view.listed(Unbounded, Unbounded).unwrap().into_iter().collect()
}

fn contents(tables: &Tables) -> [Content; 2] {
    let views = tables.views();
    NAMES.map(|name| content(views.get(name).unwrap()))
}

fn key(number: u64) -> Vec<u8> {
    format!("{number:03}").into_bytes()
}

/// One operation on a batch and on a map.
fn operate(random: &mut Random, batch: &mut Batch, map: &mut Content) {
    let (key, value) = (key(random.below(200)), random.bytes(8));
    match random.below(10) {
        0..5 => {
            batch.insert(&key, &value);
            map.insert(key, value);
        }
        5..7 => {
            batch.delete(&key);
            map.remove(&key);
        }
        7 | 8 => {
            batch.upsert(&key, &value);
            map.entry(key).or_default().extend_from_slice(&value);
        }
        _ => {
            let end = [&key[..], b"~"].concat();
            let prefix = &key[..2];
            if random.one_in(2) {
                batch.delete_range(Included(&key), Excluded(&end));
                map.retain(|it, _| *it < key || *it >= end);
            } else {
                batch.delete_prefix(prefix);
                map.retain(|it, _| !it.starts_with(prefix));
            }
        }
    }
}

/// Reads of every kind agree with the map.
fn compare(random: &mut Random, transaction: &mut Transaction, name: &str, map: &Content) {
    let key = key(random.below(200));
    match random.below(4) {
        0 => assert_eq!(transaction.get(name, &key).unwrap().as_ref(), map.get(&key)),
        1 => {
            let found = transaction.lookup(name, &[&key, &key]).unwrap();
            assert_eq!(found.get(1), map.get(&key).map(Vec::as_slice));
        }
        2 => {
            let found = transaction.prefix(name, &key[..2]).unwrap().map(|it| it.unwrap().0);
            let expected = map.keys().filter(|it| it.starts_with(&key[..2]));
            assert!(found.eq(expected.map(Vec::as_slice)));
        }
        _ => {
            let found = transaction.range(name, &key[..]..).unwrap().rev();
            let found =
                found.map(|it| it.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec()));
            let expected = map.range(key.clone()..).rev();
            assert!(found.eq(expected.map(|(key, value)| (key.clone(), value.clone()))));
        }
    }
}

/// What a random transaction makes of `before`.
fn fill(random: &mut Random, transaction: &mut Transaction, before: &[Content; 2]) -> [Content; 2] {
    let mut after = before.clone();
    let (steps, reads) = (1 + random.below(40), random.choose(&[1, 3, 1_000_000]));
    for _ in 0..steps {
        let number = random.index(2);
        let (name, map) = (NAMES[number], &mut after[number]);
        operate(random, transaction.batch(name).unwrap(), map);
        if random.one_in(reads) {
            compare(random, transaction, name, map);
        }
    }
    after
}

#[test]
fn transactions_read_what_they_wrote_and_stand_whole_or_not_at_all() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let disk = MemoryDisk::seeded(seed);
        let mut tables = shared(&Session::create(disk.clone(), options()).unwrap());
        let mut model: [Content; 2] = Default::default();
        for _ in 0..60 {
            let before = tables.views();
            let mut transaction = tables.begin();
            assert!(tables.try_begin().is_none());
            let after = fill(&mut random, &mut transaction, &model);
            assert_eq!(contents(&tables), model, "nobody sees it yet");
            match random.below(4) {
                0 => drop(transaction),
                1 => transaction.rollback(),
                _ => {
                    transaction.commit().unwrap();
                    let old = NAMES.map(|name| content(before.get(name).unwrap()));
                    assert_eq!(old, model, "a view stays as it was");
                    model = after;
                }
            }
            assert_eq!(contents(&tables), model, "seed {seed}");
            if random.one_in(5) {
                let mut batch = Batch::new();
                operate(&mut random, &mut batch, &mut model[1]);
                tables.commit(&[("two", &batch)]).unwrap();
            }
            if random.one_in(10) {
                tables.work(random.choose(&[100, u64::MAX])).unwrap();
            }
            if random.one_in(6) {
                drop((before, tables));
                tables = reopened(&disk);
                assert_eq!(contents(&tables), model, "seed {seed}, opened again");
            }
        }
    }
}

/// A transaction that reads is one record of the log and as many bytes on disk as a batch of the same operations.
#[test]
fn a_transaction_is_applied_once() {
    let written = |reads: bool| {
        let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
        let tables = shared(&session);
        for round in 0..40_u64 {
            let mut transaction = tables.begin();
            for number in 0..20 {
                let key = key(round * 7 % 50 + number);
                transaction.batch("one").unwrap().insert(&key, &round.to_le_bytes());
                assert!(!reads || transaction.get("one", &key).unwrap().is_some());
            }
            transaction.commit().unwrap();
        }
        let stats = session.stats();
        (stats.log_written_bytes, stats.log_syncs, contents(&tables), stats.written_bytes())
    };
    let (read, unread) = (written(true), written(false));
    assert_eq!((read.0, read.1, read.2), (unread.0, unread.1, unread.2));
    // Merges go in other steps.
    assert!(read.3.abs_diff(unread.3) < unread.3 / 20, "{} and {}", read.3, unread.3);
}

/// Whichever call fails, reads and the commit leave everything as it was.
#[test]
fn a_transaction_that_fails_changes_nothing() {
    let mut failed = 0;
    for n in 0..120 {
        let sim = SimDisk::new(n);
        let tables = shared(&Session::create(sim.clone(), options()).unwrap());
        let mut random = Random::new(n % 7);
        let mut model: [Content; 2] = Default::default();
        for _ in 0..6 {
            let mut transaction = tables.begin();
            model = fill(&mut random, &mut transaction, &model);
            transaction.commit().unwrap();
        }
        let faults = [Fault::Write, Fault::Sync, Fault::Open, Fault::Space];
        sim.fail_at(1 + n / 4, faults[n as usize % 4]);
        let mut transaction = tables.begin();
        let mut batch = Batch::new();
        let mut after = model.clone();
        let mut outcome = Ok(());
        for _ in 0..60 {
            batch.clear();
            operate(&mut random, &mut batch, &mut after[0]);
            transaction.batch("one").unwrap().append(&batch);
            outcome = outcome.and(transaction.get("one", b"").map(|_| ()));
        }
        let outcome = outcome.and_then(|()| transaction.commit());
        sim.disarm();
        if outcome.is_err() {
            failed += 1;
            assert_eq!(contents(&tables), model, "call {n}");
        } else {
            assert_eq!(contents(&tables), after, "call {n}");
        }
        let expected = contents(&tables);
        drop(tables);
        let crashed = sim.crash(Crash::Subset(n));
        let tables = reopened(&crashed);
        if contents(&tables) != expected {
            // What the log could not take back may stand.
            assert!(outcome.is_err() && contents(&tables) == after, "call {n}");
        }
    }
    assert!(failed > 5, "{failed} failed");
}

/// The power goes at every write and sync of a transaction over both tables.
#[test]
fn a_crash_leaves_all_of_a_transaction_or_nothing() {
    let (mut before_count, mut after_count) = (0, 0);
    for n in 1..120 {
        let sim = SimDisk::new(n);
        let tables = shared(&Session::create(sim.clone(), options()).unwrap());
        let mut random = Random::new(n / 30);
        let mut states: Vec<[Content; 2]> = vec![Default::default()];
        sim.kill_at(n);
        for _ in 0..12 {
            let mut transaction = tables.begin();
            let last = states.last().unwrap();
            let mut next = last.clone();
            let mut stands = true;
            for step in 0..30 {
                let name = NAMES[step % 2];
                operate(&mut random, transaction.batch(name).unwrap(), &mut next[step % 2]);
                if step % 5 == 0 && transaction.get(name, b"").is_err() {
                    stands = false;
                    break;
                }
            }
            if !stands || transaction.commit().is_err() {
                states.push(next);
                break;
            }
            states.push(next);
        }
        drop(tables);
        assert!(sim.is_dead(), "there were more calls");
        let [.., before, after] = &states[..] else { panic!("two states") };
        for crash in [Crash::Process, Crash::Subset(0), Crash::Subset(!0), Crash::Seed(n)] {
            let found = contents(&reopened(&sim.crash(crash)));
            assert!(found == *before || found == *after, "call {n}, {crash:?}");
            before_count += u64::from(found != *after);
            after_count += u64::from(found != *before);
        }
    }
    assert!(before_count > 0 && after_count > 0, "{before_count} {after_count}");
}

/// Threads move amounts between both tables; the sum in any moment's views is the same, and nobody is behind
/// what it wrote itself.
#[test]
fn views_of_a_moment_hold_together_among_threads() {
    const SUM: u64 = 1_000;
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let tables = shared(&session);
    let mut batch = Batch::new();
    batch.insert(b"account", &SUM.to_le_bytes());
    tables.commit(&[("one", &batch)]).unwrap();
    let amount = |view: &View| {
        let found = view.get(b"account").unwrap();
        found.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
    };
    let (is_over, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            let (tables, is_over, seen) = (tables.clone(), &is_over, &seen);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let views = tables.views();
                    let sum: u64 = views.iter().map(|(_, view)| amount(view)).sum();
                    assert_eq!(sum, SUM);
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let writers = (0..3_u64).map(|writer| {
            let tables = tables.clone();
            scope.spawn(move || {
                let mut random = Random::new(writer);
                for round in 0..150_u64 {
                    let mut transaction = tables.begin();
                    let amounts = NAMES.map(|name| amount(&transaction.view(name).unwrap()));
                    let from = random.index(2);
                    let moved = random.below(amounts[from] + 1);
                    for (number, name) in NAMES.iter().enumerate() {
                        let left = if number == from {
                            amounts[number] - moved
                        } else {
                            amounts[number] + moved
                        };
                        let batch = transaction.batch(name).unwrap();
                        batch.insert(b"account", &left.to_le_bytes());
                        batch.insert(&[b'w', writer as u8], &round.to_le_bytes());
                    }
                    if round % 7 == 3 {
                        continue;
                    }
                    transaction.commit().unwrap();
                    let own = tables.get("two", &[b'w', writer as u8]).unwrap();
                    assert_eq!(own.unwrap(), round.to_le_bytes());
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(seen.load(Ordering::Relaxed) > 0);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let tables = shared(&session);
    let error = tables.get("three", b"k").unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
    assert!(error.detail().contains("\"three\"; there are: one, two"), "{error}");
    let batch = Batch::new();
    let twice = tables.commit(&[("one", &batch), ("one", &batch)]).unwrap_err();
    assert_eq!(twice.kind(), Kind::Invalid);
    assert_eq!(tables.commit(&[("three", &batch)]).unwrap_err().kind(), Kind::Missing);

    // Too long: told by the read that meets it, and by the commit.
    let mut transaction = tables.begin();
    transaction.batch("one").unwrap().insert(b"a", b"1").insert(&[0; 4_001], b"");
    assert_eq!(transaction.get("one", b"a").unwrap_err().kind(), Kind::Invalid);
    assert_eq!(transaction.commit().unwrap_err().kind(), Kind::Invalid);
    assert_eq!(tables.get("one", b"a").unwrap(), None);

    let other = Session::create(MemoryDisk::seeded(2), options()).unwrap();
    let foreign = other.create_table("t", TableOptions::default()).unwrap();
    let refused = session.share(vec![foreign]).unwrap_err();
    assert_eq!((refused.error.kind(), refused.tables.len()), (Kind::Invalid, 1));
    let third = session.create_table("three", TableOptions::default()).unwrap();
    tables.add(third).unwrap();
    tables.commit(&[("three", Batch::new().insert(b"k", b"v"))]).unwrap();
    assert_eq!(tables.get("three", b"k").unwrap().unwrap(), b"v");
    let copy = tables.with(|tables| tables[0].duplicate("three").unwrap());
    assert_eq!(tables.add(copy).unwrap_err().error.kind(), Kind::Invalid);
    let foreign = other.create_table("four", TableOptions::default()).unwrap();
    assert_eq!(tables.add(foreign).unwrap_err().error.kind(), Kind::Invalid);
    // Whatever a closure exchanges, also one that panics.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        tables.with(|tables| {
            tables[1] = other.create_table("one", TableOptions::default()).unwrap();
            tables[2] = tables[0].duplicate("one").unwrap();
            panic!("of the host");
        })
    }));
    assert!(outcome.is_err());
    let found = tables.with(|tables| {
        tables.iter().map(|it| (it.name().to_owned(), it.is_live())).collect::<Vec<_>>()
    });
    assert_eq!(found, [("one".to_owned(), true)]);
    for name in ["two", "three"] {
        tables.add(session.open_table(name, &OpenTable::default()).unwrap()).unwrap();
    }
    drop(tables.remove("three").unwrap());
    assert_eq!(tables.get("three", b"k").unwrap_err().kind(), Kind::Missing);
    tables.add(session.open_table("three", &OpenTable::default()).unwrap()).unwrap();
    assert_eq!(tables.views().iter().len(), 3);
    session.close().unwrap();
    assert_eq!(tables.get("three", b"k").unwrap_err().kind(), Kind::Closed);
    assert_eq!(tables.begin().commit().map_err(|it| it.kind()), Ok(()));
}

/// What a batch refuses is told, also where it is all that the batch was asked for.
#[test]
fn nothing_that_is_refused_is_left_out_in_silence() {
    for reads in [false, true] {
        let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
        let tables = shared(&session);
        let mut transaction = tables.begin();
        transaction.batch("two").unwrap().insert(b"k", b"v");
        if reads {
            transaction.get("two", b"k").unwrap().unwrap();
        }
        transaction.batch("one").unwrap().insert(&[0; 4_001], b"");
        if reads {
            assert_eq!(transaction.get("one", b"k").unwrap_err().kind(), Kind::Invalid);
        }
        assert_eq!(transaction.commit().unwrap_err().kind(), Kind::Invalid);
        assert_eq!(contents(&tables), [Content::new(), Content::new()]);
    }
}

/// A panic in the middle of a range leaves nothing of it behind, though the host goes on and commits.
#[test]
fn a_panic_in_a_range_cuts_nothing() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let is_armed = Arc::new(AtomicBool::new(false));
    let panics = Arc::clone(&is_armed);
    let operator = MergeOperator::new("may panic", move |older, newer| {
        assert!(!panics.load(Ordering::Relaxed), "of the host");
        [older, newer].concat()
    });
    let options = TableOptions {
        write_buffer_bytes: 600,
        operator: Some(operator),
        ..TableOptions::default()
    };
    let tables = session.share(vec![session.create_table("t", options).unwrap()]).unwrap();
    for number in 0..600 {
        tables.commit(&[("t", Batch::new().insert(&key(number), &[1; 20]))]).unwrap();
    }
    tables.commit(&[("t", Batch::new().upsert(&key(7), b"+"))]).unwrap();
    let before = content(&tables.view("t").unwrap());
    let mut transaction = tables.begin();
    transaction.batch("t").unwrap().delete_range(Unbounded, Unbounded);
    // The second one meets the first.
    transaction.batch("t").unwrap().upsert(b"k", b"v").upsert(b"k", b"w");
    is_armed.store(true, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| transaction.get("t", b"k")));
    is_armed.store(false, Ordering::Relaxed);
    assert!(outcome.is_err(), "the operator was called");
    transaction.batch("t").unwrap().clear();
    transaction.commit().unwrap();
    assert!(content(&tables.view("t").unwrap()) == before);
}

/// A thread that writes without a pause keeps nobody else from writing.
#[test]
fn writers_take_turns() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let tables = shared(&session);
    let (is_over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                tables.commit(&[("one", Batch::new().insert(b"k", b"v"))]).unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
        while done.load(Ordering::Relaxed) == 0 {
            thread::yield_now();
        }
        for _ in 0..50 {
            tables.commit(&[("two", Batch::new().insert(b"k", b"v"))]).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// An operator of the host that panics in a read or a commit leaves the tables free and as they were.
#[test]
fn a_panic_frees_the_tables() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let operator = MergeOperator::new("panics", |_, _| panic!("of the host"));
    let options = TableOptions { operator: Some(operator), ..TableOptions::default() };
    let tables = session.share(vec![session.create_table("t", options).unwrap()]).unwrap();
    tables.commit(&[("t", Batch::new().insert(b"k", b"v"))]).unwrap();
    for reads in [false, true] {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut transaction = tables.begin();
            transaction.batch("t").unwrap().insert(b"other", b"v").upsert(b"k", b"+");
            if reads {
                transaction.get("t", b"k").unwrap();
            }
            transaction.commit().unwrap();
        }));
        assert!(outcome.is_err());
        assert_eq!(tables.view("t").unwrap().count().unwrap(), 1);
        assert!(tables.try_begin().is_some());
    }
    tables.commit(&[("t", Batch::new().delete(b"k"))]).unwrap();
    assert_eq!(tables.view("t").unwrap().count().unwrap(), 0);
}

#[test]
fn tables_that_are_refused_are_given_back() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let other = Session::create(MemoryDisk::seeded(2), options()).unwrap();
    let table = |session: &Session, name: &str| {
        let mut table = session.create_table(name, TableOptions::default()).unwrap();
        table.update(Batch::new().insert(b"k", name.as_bytes())).unwrap();
        table
    };
    let names = |tables: &[varvite::Table]| {
        tables.iter().map(|it| it.name().to_owned()).collect::<Vec<_>>()
    };
    let twin = table(&session, "b").duplicate("a").unwrap();
    let (a, foreign) = (table(&session, "a"), table(&other, "f"));
    for (given, text) in [
        (vec![foreign], "belongs to another session"),
        (vec![table(&session, "c"), a, twin], "two tables are called \"a\""),
    ] {
        let before = names(&given);
        let refused = session.share(given).unwrap_err();
        assert!(refused.to_string().contains(text), "{refused}");
        assert_eq!((refused.error.kind(), names(&refused.tables)), (Kind::Invalid, before));
        for mut table in refused.tables {
            table.update(Batch::new().insert(b"l", b"more")).unwrap();
            assert_eq!(table.view().count().unwrap(), 2);
        }
    }
    let tables = session.share(vec![table(&session, "d")]).unwrap();
    for refused in [table(&session, "e").duplicate("d").unwrap(), table(&other, "d")] {
        let mut refused = tables.add(refused).unwrap_err();
        assert_eq!(refused.error.kind(), Kind::Invalid);
        let mut table = refused.tables.pop().unwrap();
        assert_eq!((table.name(), refused.tables.len()), ("d", 0));
        table.update(Batch::new().insert(b"l", b"more")).unwrap();
        assert_eq!(table.view().count().unwrap(), 2);
    }
    // Whoever does not want them back has the error alone.
    let error: varvite::Error = tables.add(table(&other, "g")).unwrap_err().into();
    assert_eq!(error.kind(), Kind::Invalid);
    let last = table(&session, "h");
    session.clone().close().unwrap();
    let refused = session.share(vec![last]).unwrap_err();
    assert_eq!((refused.error.kind(), refused.tables.len()), (Kind::Closed, 1));
}

#[test]
fn handles_go_between_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Tables>();
    shared::<varvite::Views>();
    sent::<Transaction>();
}

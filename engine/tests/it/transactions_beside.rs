//! Transactions beside what else a session does: a budget of memory, values in blob files, helpers of the host, paused
//! merges, unions that are not merged yet.

use std::collections::BTreeMap;
use std::ops::Bound::Unbounded;
use std::sync::Arc;

use varvite::cache::Cache;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::{
    Batch, Log, MergeOperator, Session, SessionOptions, Table, TableOptions, Tables, Transaction,
};

use crate::listed::Listed;
use crate::random::Random;
use crate::threads::executors::{Manner, TestExecutor};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> SessionOptions {
    SessionOptions { seed: Some(1), log: Log::Synced, ..SessionOptions::default() }
}

fn small() -> TableOptions {
    TableOptions {
        write_buffer_bytes: 3_000,
        size_ratio: 2,
        blob_min_bytes: Some(200),
        ..TableOptions::default()
    }
}

fn content(tables: &Tables) -> Content {
    let views = tables.views();
    views.get("t").unwrap().listed(Unbounded, Unbounded).unwrap().into_iter().collect()
}

/// Inserts `count` keys from `first` on and reads one, so that they are applied to a copy.
fn insert(transaction: &mut Transaction, first: u64, count: u64) {
    let batch = transaction.batch("t").unwrap();
    for key in first..first + count {
        batch.insert(&key.to_be_bytes(), &[7; 100]);
    }
    assert!(transaction.get("t", &first.to_be_bytes()).unwrap().is_some());
}

#[test]
fn what_is_rolled_back_leaves_nothing_in_the_budget() {
    // The last of these is sealed within a transaction.
    for (name, write_buffer_bytes) in [("large", 8 << 20), ("small", 40_000)] {
        let cache = Cache::new(64 << 20);
        let sim = SimDisk::new(1);
        let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..options() };
        let session = Session::create(sim.clone(), options).unwrap();
        let options = TableOptions { write_buffer_bytes, ..TableOptions::default() };
        let table = session.create_table("t", options).unwrap();
        let tables = session.share(vec![table]).unwrap();
        let charged = || cache.stats().charged_bytes;
        let mut transaction = tables.begin();
        insert(&mut transaction, 0, 100);
        transaction.commit().unwrap();
        let before = charged();
        for round in 0..20 {
            let mut transaction = tables.begin();
            insert(&mut transaction, 1_000 * (round + 1), 300);
            assert!(charged() > before + 20_000, "{name}: {} of {before}", charged());
            let view = transaction.view("t").unwrap();
            let outcome = if round % 2 == 0 {
                transaction.rollback();
                Ok(())
            } else {
                sim.fail_at(1, Fault::Write);
                let outcome = transaction.commit();
                sim.disarm();
                outcome
            };
            assert_eq!(outcome.is_err(), round % 2 == 1);
            assert!(charged() > before, "{name}, round {round}: the view has it still");
            drop(view);
            // Less where the log took a checkpoint, which gives back what it had gathered.
            assert!(charged() <= before, "{name}, round {round}: {} of {before}", charged());
        }
        let mut transaction = tables.begin();
        insert(&mut transaction, 50_000, 300);
        transaction.commit().unwrap();
        assert_eq!(content(&tables).len(), 400);
    }
}

/// Without a log, whose records and checkpoints would count besides.
#[test]
fn what_stands_counts_once_in_the_budget() {
    for write_buffer_bytes in [8 << 20, 40_000] {
        let cache = Cache::new(64 << 20);
        let options =
            SessionOptions { cache: Some(Arc::clone(&cache)), log: Log::None, ..options() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let options = TableOptions { write_buffer_bytes, ..TableOptions::default() };
        let tables = session.share(vec![session.create_table("t", options).unwrap()]).unwrap();
        let charged = || cache.stats().charged_bytes;
        for round in 0..3 {
            let before = charged();
            let mut transaction = tables.begin();
            insert(&mut transaction, 1_000 * round, 100);
            let drafted = charged();
            assert!(drafted >= before + 100 * (8 + 100), "{drafted} of {before}");
            let view = transaction.view("t").unwrap();
            transaction.commit().unwrap();
            assert_eq!(charged(), drafted, "round {round}");
            drop(view);
            assert_eq!(charged(), drafted, "round {round}");
        }
    }
}

#[test]
fn joins_of_the_host_that_are_rolled_back_leave_nothing_in_the_budget() {
    let cache = Cache::new(64 << 20);
    let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..options() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let newest = MergeOperator::new("newest", |_, newer| newer.to_vec());
    let options = TableOptions { operator: Some(newest), ..TableOptions::default() };
    let tables = session.share(vec![session.create_table("t", options).unwrap()]).unwrap();
    let joined = |first: u64| {
        let mut transaction = tables.begin();
        for part in 0..3 {
            let batch = transaction.batch("t").unwrap();
            for key in 0..100 {
                batch.upsert(&(first + 100 * part + key).to_be_bytes(), &[7; 100]);
            }
            assert!(transaction.get("t", &first.to_be_bytes()).unwrap().is_some());
        }
        transaction
    };
    let charged = || cache.stats().charged_bytes;
    joined(0).commit().unwrap();
    let before = charged();
    for round in 1..10 {
        let transaction = joined(1_000 * round);
        assert!(charged() > before + 20_000, "{} of {before}", charged());
        transaction.rollback();
        assert!(charged() <= before, "round {round}: {} of {before}", charged());
    }
    joined(50_000).commit().unwrap();
    assert!(charged() > before + 300 * (8 + 100), "{} of {before}", charged());
}

#[test]
fn the_work_of_a_transaction_is_told() {
    let session = Session::create(MemoryDisk::seeded(1), options()).unwrap();
    let tables = session.share(vec![session.create_table("t", small()).unwrap()]).unwrap();
    let mut told = 0;
    for round in 0..40 {
        let mut transaction = tables.begin();
        insert(&mut transaction, round * 100, 20);
        insert(&mut transaction, round * 100 + 50, 20);
        transaction.commit().unwrap();
        told += tables.with(|tables| tables[0].last_work());
    }
    // Each entry is read by a write-out at least.
    let written_out = 35 * 40 * (8 + 100 + 16);
    assert!(told > written_out, "{told} of {written_out}");
}

/// What a session may have beside transactions.
#[derive(Clone, Copy, Debug)]
enum Beside {
    Nothing,
    Cache,
    Executor(Manner),
    Pauses,
    Union,
}

/// A union of three tables, of which nothing is merged yet, and what it holds.
fn union(session: &Session, model: &mut Content) -> Table {
    let part = |number: u8| {
        let mut table = session.create_table(&format!("part{number}"), small()).unwrap();
        let mut batch = Batch::new();
        for key in 0..120_u64 {
            batch.insert(&(key * u64::from(number)).to_be_bytes(), &[number; 40]);
        }
        table.update(&batch).unwrap();
        table
    };
    let parts = [3, 2, 1].map(part);
    for number in [1_u8, 2, 3] {
        model.extend(
            (0..120_u64)
                .map(|key| ((key * u64::from(number)).to_be_bytes().to_vec(), vec![number; 40])),
        );
    }
    session.incremental_union("t", &[&parts[0], &parts[1], &parts[2]]).unwrap()
}

/// A random transaction: values in the table, in blob files, and in pieces.
fn fill(random: &mut Random, session: &Session, transaction: &mut Transaction, map: &mut Content) {
    for _ in 0..=random.below(30) {
        let key = random.below(300).to_be_bytes();
        let length = random.choose(&[0, 30, 30, 30, 500, 3_000]);
        let value = random.bytes(length);
        let batch = transaction.batch("t").unwrap();
        match random.below(8) {
            0 => {
                batch.delete(&key);
                map.remove(&key[..]);
            }
            1 => {
                let mut writer = session.write_value().unwrap();
                value.chunks(700).for_each(|piece| writer.write(piece).unwrap());
                batch.insert_value(&key, &writer.finish().unwrap());
                map.insert(key.to_vec(), value);
            }
            _ => {
                batch.insert(&key, &value);
                map.insert(key.to_vec(), value);
            }
        }
        if random.one_in(3) {
            let key = random.below(300).to_be_bytes();
            assert_eq!(transaction.get("t", &key).unwrap().as_ref(), map.get(&key[..]));
        }
        if random.one_in(20) {
            let view = transaction.view("t").unwrap();
            let found: Content = view.listed(Unbounded, Unbounded).unwrap().into_iter().collect();
            assert_eq!(found, *map);
        }
    }
}

#[test]
fn transactions_hold_beside_all_else() {
    let kinds = [
        Beside::Nothing,
        Beside::Cache,
        Beside::Executor(Manner::Threads),
        Beside::Executor(Manner::Dropped),
        Beside::Executor(Manner::Later),
        Beside::Executor(Manner::OddOrder),
        Beside::Pauses,
        Beside::Union,
    ];
    for (beside, seed) in kinds.into_iter().flat_map(|kind| (0..4).map(move |seed| (kind, seed))) {
        let mut random = Random::new(seed);
        let mut options = SessionOptions { log_file_bytes: 20_000, ..options() };
        let mut executor = None;
        match beside {
            Beside::Cache => options.cache = Some(Cache::new(300_000)),
            Beside::Executor(manner) => {
                executor = Some(Arc::new(TestExecutor::new(manner)));
                options.executor = executor.clone().map(|it| it as _);
            }
            _ => {}
        }
        let session = Session::create(MemoryDisk::seeded(seed), options).unwrap();
        let mut model = Content::new();
        let table = match beside {
            Beside::Union => union(&session, &mut model),
            _ => session.create_table("t", small()).unwrap(),
        };
        let tables = session.share(vec![table]).unwrap();
        for round in 0..60 {
            if matches!(beside, Beside::Pauses) && random.one_in(4) {
                if session.merges_are_paused() {
                    session.resume_merges();
                } else {
                    session.pause_merges(1 << 20);
                }
            }
            let mut transaction = tables.begin();
            let mut after = model.clone();
            fill(&mut random, &session, &mut transaction, &mut after);
            if matches!(beside, Beside::Union) && random.one_in(3) {
                drop(transaction);
                tables.with(|tables| tables[0].supply_union_credits(2_000)).unwrap();
            } else if random.one_in(3) {
                drop(transaction);
            } else {
                transaction.commit().unwrap();
                model = after;
            }
            assert_eq!(content(&tables), model, "{beside:?}, seed {seed}, round {round}");
        }
        if let Some(executor) = executor {
            executor.finish();
        }
    }
}

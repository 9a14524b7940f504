//! Small sparse chunks that are neighbours become one file: a store that collects for years has few files.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

/// What is left of a chunk is small beside these.
fn options(index: Index) -> Options {
    Options { index, seed: Some(9), chunk_bytes: 256 << 10, ..Options::default() }
}

fn lasting(date: i64) -> Vec<u8> {
    date.to_le_bytes().repeat(12)
}

/// A commit with a value that stays and one that the next replaces.
fn commit(store: &mut Store, before: Option<&CommitHash>, date: i64) -> Result<CommitHash> {
    let mut tree = match before {
        Some(before) => store.checkout(before)?,
        None => store.empty_tree(),
    };
    tree.add(&["lasting", &format!("{date:04}")], &lasting(date))?;
    tree.add(&["passing"], &lasting(-date))?;
    store.commit(&mut tree, &CommitInfo::new(&[], date, "a", "b"))
}

pub fn expect(tree: &Tree, date: i64, what: &dyn std::fmt::Debug) {
    for date in 0..=date {
        let found = tree.find(&["lasting", &format!("{date:04}")]);
        let found = found.unwrap_or_else(|error| panic!("{what:?}: {date}: {error}"));
        assert_eq!(found, Some(lasting(date)), "{what:?}: {date}");
    }
    assert_eq!(tree.find(&["passing"]).unwrap(), Some(lasting(-date)), "{what:?}");
}

/// A store in which each of so many commits was collected up to when it was the newest.
fn aged(disk: Arc<dyn Disk>, index: Index, rounds: i64) -> (Store, Vec<CommitHash>) {
    let mut store = Store::create(disk, options(index)).unwrap();
    let mut commits = Vec::new();
    for date in 0..rounds {
        commits.push(commit(&mut store, commits.last(), date).unwrap());
        store.collect(&commits[date as usize]).unwrap();
        while store.collect_step(50).unwrap() {}
    }
    (store, commits)
}

fn packs(disk: &MemoryDisk) -> usize {
    disk.files().iter().filter(|name| name.contains(".pack")).count()
}

#[test]
fn a_store_that_collects_for_long_has_few_files() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
        let (store, commits) = aged(shared(), index, 2);
        store.close().unwrap();
        let mut store = Store::open(shared(), options(index)).unwrap();
        let mut reader = Store::open_read_only(shared(), options(index)).unwrap();
        let (mut last, mut most, mut old) = (commits[1], 0, None);
        for date in 2..150 {
            last = commit(&mut store, Some(&last), date).unwrap();
            store.collect(&last).unwrap();
            while store.collect_step(50).unwrap() {}
            most = most.max(packs(&disk));
            if date % 30 == 0 {
                reader.reload().unwrap();
                old = Some((date, reader.checkout(&last).unwrap()));
                store.checkpoint().unwrap();
            }
            if date % 30 == 20
                && let Some((date, tree)) = &old
            {
                // Its files are other ones by now; what is gone says so, and nothing is damaged.
                match tree.find(&["lasting", "0000"]) {
                    Ok(found) => assert_eq!(found, Some(lasting(0)), "{date}"),
                    Err(error) => assert_eq!(error.kind(), Kind::Collected, "{date}: {error}"),
                }
            }
        }
        assert!(most < 12, "{index:?}: {most} files");
        reader.reload().unwrap();
        for store in [&store, &reader] {
            expect(&store.checkout(&last).unwrap(), 149, &index);
            store.check().unwrap();
        }
        store.close().unwrap();
        let mut store = Store::open(shared(), options(index)).unwrap();
        expect(&store.checkout(&last).unwrap(), 149, &index);
        store.rebuild_index().unwrap();
        let checked = store.check().unwrap();
        assert!(checked.index_faults.is_empty(), "{checked:?}");
        last = commit(&mut store, Some(&last), 150).unwrap();
        expect(&store.checkout(&last).unwrap(), 150, &index);
    }
}

#[test]
fn a_file_that_stands_for_many_chunks_is_looked_at_once() {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    let mut tree = store.empty_tree();
    let mut steps = Vec::new();
    for date in 0..80_i64 {
        // So much stays that what was put together is no small file any more, and is not put together again.
        tree.add(&["lasting", &format!("{date:04}")], &date.to_le_bytes().repeat(512)).unwrap();
        let info = CommitInfo::new(&[], date, "a", "b");
        let commit = store.commit(&mut tree, &info).unwrap();
        store.collect(&commit).unwrap();
        let mut taken = 1;
        while store.collect_step(1).unwrap() {
            taken += 1;
        }
        steps.push(taken);
    }
    let chunks = store.chunks();
    assert!(chunks.iter().filter(|chunk| chunk.count > 10).count() > 3, "{chunks:?}");
    let (early, late) = (&steps[10..20], &steps[70..]);
    let most = |steps: &[u64]| *steps.iter().max().unwrap();
    // Each of the 60 that came between is marked, which is a step; looked at for each number, each would be two.
    assert!(most(late) < most(early) + 90, "{steps:?}");
}

/// A collection that joins what six others left, between two commits.
pub fn joins(store: &mut Store, commits: &mut Vec<CommitHash>) -> Result<()> {
    for date in 6..8 {
        commits.push(commit(store, commits.last(), date)?);
        if date == 6 {
            store.collect(&commits[6])?;
            while store.collect_step(4)? {}
        }
    }
    Ok(())
}

fn expect_reopened(disk: Arc<dyn Disk>, told: &[CommitHash], what: &dyn std::fmt::Debug) {
    let mut store = Store::open(disk, options(Index::Minimal))
        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
    for round in 0..2 {
        let tree = store.checkout(told.last().unwrap());
        let tree = tree.unwrap_or_else(|error| panic!("{what:?}, {round}: {error}"));
        expect(&tree, told.len() as i64 - 1, what);
        store.check().unwrap_or_else(|error| panic!("{what:?}, {round}: {error}"));
        while store.collect_step(50).unwrap() {}
    }
    let next = commit(&mut store, told.last(), told.len() as i64).unwrap();
    expect(&store.checkout(&next).unwrap(), told.len() as i64, what);
}

pub fn before(index: Index) -> (Arc<SimDisk>, Store, Vec<CommitHash>) {
    let sim = SimDisk::new(5);
    let (store, commits) = aged(Arc::clone(&sim) as Arc<dyn Disk>, index, 6);
    (sim, store, commits)
}

#[test]
fn each_call_that_fails_while_chunks_are_joined_loses_nothing() {
    for (index, fault, forgets) in [
        (Index::Minimal, Fault::Any, false),
        (Index::Minimal, Fault::Sync, false),
        (Index::Minimal, Fault::Sync, true),
        (Index::Always, Fault::Any, false),
        (Index::Always, Fault::Sync, true),
    ] {
        let (sim, mut store, mut commits) = before(index);
        let start = sim.calls().of(fault);
        let chunks = store.stats().chunks;
        joins(&mut store, &mut commits).unwrap();
        assert!(store.stats().chunks <= chunks, "they were not joined");
        let calls = sim.calls().of(fault) - start;
        assert!(calls > 8, "{calls}");
        let step = if fault == Fault::Any { 5 } else { 1 };
        for n in (1..=calls).step_by(step) {
            let what = (index, fault, forgets, n);
            let (sim, mut store, mut commits) = before(index);
            sim.forget_names_on_failed_sync(forgets);
            sim.fail_at(n, fault);
            let outcome = joins(&mut store, &mut commits);
            sim.disarm();
            if outcome.is_err() {
                while store.collect_step(50).is_ok_and(|left| left) {}
            }
            drop(store);
            expect_reopened(sim.crash(Crash::Seed(n)), &commits, &what);
        }
    }
}

#[test]
fn a_crash_at_each_write_and_sync_while_chunks_are_joined_loses_nothing() {
    for (index, step) in [(Index::Minimal, 1), (Index::Always, 3)] {
        let mut killed = 0;
        for n in (1..).step_by(step) {
            let (sim, mut store, mut commits) = before(index);
            sim.kill_at(n);
            if joins(&mut store, &mut commits).is_ok() {
                break;
            }
            killed += 1;
            drop(store);
            for crash in [Crash::Process, Crash::Subset(0), Crash::Seed(n)] {
                expect_reopened(sim.crash(crash), &commits, &(index, n, crash));
            }
        }
        assert!(killed > 12, "{index:?}: {killed}");
    }
}

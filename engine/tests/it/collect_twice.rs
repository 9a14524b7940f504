//! Collections of commits and objects that a store has twice, because they were written again beside a collection
//! that was cancelled, or that a writer left when it ended.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::{CollectPhase, CommitHash, Index, Keep, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::collect_oddities::{fill, finish, info, options, value, written_again};

/// A store with the commit of date 1 both before and behind those of dates 2 to 6, and those.
fn twice() -> (Store, CommitHash, Vec<CommitHash>) {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    fill(&mut store, 0);
    let twice = fill(&mut store, 1);
    let between: Vec<_> = (2..7).map(|date| fill(&mut store, date)).collect();
    store.collect(&between[4]).unwrap();
    assert_eq!(fill(&mut store, 1), twice);
    assert!(store.collect_cancel().unwrap());
    (store, twice, between)
}

#[test]
fn what_a_policy_keeps_stays_where_its_oldest_commit_is_there_twice() {
    for keep in [Keep::Newest(7), Keep::Since(1)] {
        let (mut store, twice, between) = twice();
        let first = store.log(usize::MAX).unwrap().pop().unwrap();
        assert!(store.collect_keeping(&keep).unwrap());
        finish(&mut store);
        for commit in between.iter().chain([&twice]) {
            assert!(store.exists(commit).unwrap(), "{keep:?}");
            assert!(value(&store.checkout(commit).unwrap(), "3").is_some(), "{keep:?}");
        }
        assert!(!store.exists(&first).unwrap(), "{keep:?}");
        assert!(store.check().unwrap().index_faults.is_empty(), "{keep:?}");
    }
}

#[test]
fn a_pinned_commit_that_is_written_again_stays_until_it_is_unpinned() {
    for opens in [false, true] {
        let disk = MemoryDisk::seeded(1);
        let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
        let mut store = Store::create(shared(), options(Index::Minimal)).unwrap();
        let pinned = fill(&mut store, 0);
        for date in 1..5 {
            fill(&mut store, date);
        }
        let target = fill(&mut store, 5);
        store.pin(&pinned).unwrap();
        store.collect(&target).unwrap();
        assert_eq!(fill(&mut store, 0), pinned);
        finish(&mut store);
        store.pin(&pinned).unwrap();
        assert_eq!(store.pins().unwrap(), [pinned]);
        let newer = fill(&mut store, 6);
        if opens {
            store.close().unwrap();
            store = Store::open(shared(), options(Index::Minimal)).unwrap();
        }
        store.collect(&newer).unwrap();
        finish(&mut store);
        assert!(value(&store.checkout(&pinned).unwrap(), "3").is_some(), "{opens}");
        assert!(store.check().unwrap().index_faults.is_empty(), "{opens}");
        assert!(store.unpin(&pinned).unwrap(), "{opens}");
        assert!(!store.unpin(&pinned).unwrap(), "{opens}");
        assert!(store.pins().unwrap().is_empty(), "{opens}");
        let last = fill(&mut store, 7);
        store.collect(&last).unwrap();
        finish(&mut store);
        let gone = store.checkout(&pinned).unwrap_err();
        assert_eq!(gone.kind(), Kind::Collected, "{opens}: {gone}");
        assert_eq!(store.check().unwrap().commits, 1, "{opens}");
    }
}

/// Both records of an object may stay for more than one collection; when the copy goes, the other is found.
#[test]
fn an_object_is_found_as_long_as_one_of_its_records_stays() {
    for drops in [false, true] {
        let disk = MemoryDisk::seeded(1);
        let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
        let mut store = Store::create(shared(), options(Index::Always)).unwrap();
        let (target, mut old) = written_again(&mut store);
        if drops {
            // The writer ends while it cleans; a tree of before lives on.
            drop(store);
            store = Store::open(shared(), options(Index::Always)).unwrap();
        } else {
            assert!(store.collect_cancel().unwrap());
        }
        let kept = store.commit(&mut old, &info(14)).unwrap();
        drop(old);
        finish(&mut store);
        if !drops {
            store.collect(&target).unwrap();
            finish(&mut store);
        }
        for date in 15..20 {
            fill(&mut store, date);
        }
        store.collect(&kept).unwrap();
        finish(&mut store);
        let found = store.checkout(&kept).unwrap();
        assert_eq!(value(&found, "x"), Some(vec![42; 100]));
        let checked = store.check().unwrap();
        assert!(checked.index_faults.is_empty(), "{drops}: {checked:?}");
        let there = found.find_tree(&["data", "x"]).unwrap().expect("it was committed");
        let object = store.find_object(&there.hash().unwrap()).unwrap();
        assert!(object.is_some_and(|object| object.equal(&there).unwrap()), "{drops}");
    }
}

#[test]
fn an_object_that_is_written_again_beside_a_collection_is_counted_once() {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Always)).unwrap();
    drop(written_again(&mut store));
    finish(&mut store);
    let counted = store.stats().objects;
    store.rebuild_index().unwrap();
    assert_eq!(store.stats().objects, counted, "by an index that is made of what is there");
}

/// Without a commit that is older than what is kept, too.
#[test]
fn what_a_cancel_a_pin_or_a_branch_has_left_behind_goes_with_the_next_collection() {
    for index in [Index::Minimal, Index::Always] {
        for left in ["cancel", "pin", "branch"] {
            for opens in [false, true] {
                let disk = MemoryDisk::seeded(1);
                let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
                let small = || Options { chunk_bytes: 9_000, ..options(index) };
                let mut store = Store::create(shared(), small()).unwrap();
                let commits: Vec<_> = (0..40).map(|date| fill(&mut store, date)).collect();
                match left {
                    "pin" => store.pin(&commits[3]).unwrap(),
                    "branch" => store.set_branch(b"old", &commits[3]).unwrap(),
                    _ => {}
                }
                assert!(store.collect_keeping(&Keep::Newest(2)).unwrap());
                if left == "cancel" {
                    while store.collect_status().unwrap().phase != CollectPhase::Cleaning {
                        assert!(store.collect_step(1).unwrap());
                    }
                    assert!(store.collect_cancel().unwrap());
                } else {
                    finish(&mut store);
                    assert!(!store.collect_keeping(&Keep::Newest(2)).unwrap());
                    if left == "pin" {
                        assert!(store.unpin(&commits[3]).unwrap());
                    } else {
                        store.remove_branch(b"old").unwrap();
                    }
                }
                if opens {
                    store.close().unwrap();
                    store = Store::open(shared(), small()).unwrap();
                }
                let before = store.stats().pack_bytes;
                assert!(store.collect_keeping(&Keep::Newest(2)).unwrap(), "{left} {opens}");
                finish(&mut store);
                let after = store.stats().pack_bytes;
                assert!(after < before, "{left} {opens}: {before} {after}");
                assert!(!store.collect_keeping(&Keep::Newest(2)).unwrap(), "{left} {opens}");
                assert!(!store.exists(&commits[3]).unwrap());
                assert!(!store.unpin(&commits[3]).unwrap(), "it is pinned no more");
                assert_eq!(store.check().unwrap().commits, 2);
            }
        }
    }
}

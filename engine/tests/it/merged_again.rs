//! Stores with merged patches go on: readers that follow with caches and without, collections of what was merged in part,
//! commits that take from old trees while bases go, snapshots.

use std::sync::Arc;

use varvite::context::{CollectPhase, CommitFileOptions, CommitHash, Index, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::collect_merged::{change, finish, options, put, store_on};
use crate::context_collect::{Content, content};
use crate::random::Random;

fn open(disk: &Arc<MemoryDisk>, options: &Options) -> Store {
    Store::open(Arc::clone(disk) as Arc<dyn Disk>, options.clone()).unwrap()
}

/// Readers that reload after each block, one that keeps all that it has read and one that keeps nothing, while the store
/// collects again and again and its writer is opened anew. What was a chain of patches when a reader read it is one record
/// of the writer's by then.
#[test]
fn readers_follow_with_caches_and_without_while_chains_become_records() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(90));
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let (mut store, mut commits) = store_on(shared, options(index), &mut random);
        let small = Options { objects_bytes: 0, pages_bytes: 0, hashes_bytes: 0, ..options(index) };
        let mut readers = [options(index), small].map(|options| {
            Store::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap()
        });
        let mut first = 0;
        let mut collections = 0;
        for date in 200..320 {
            if date % 20 == 0 {
                first = commits.len() - 30;
                store.collect(&commits[first]).unwrap();
                collections += 1;
            }
            if date % 20 == 10 {
                finish(&mut store).unwrap();
                store.close().unwrap();
                store = open(&disk, &options(index));
            }
            let parent = commits.last().copied();
            let mut tree = store.checkout(&parent.unwrap()).unwrap();
            change(&mut tree, &mut random, 1);
            let expected = content(&tree).unwrap();
            commits.push(put(&mut store, &mut tree, parent, date));
            store.collect_step(300).unwrap();
            for reader in &mut readers {
                reader.reload().unwrap();
                let newest = content(&reader.checkout(commits.last().unwrap()).unwrap()).unwrap();
                assert!(newest == expected, "{index:?} {date}");
                let kept = reader.checkout(&commits[first + 10]).unwrap();
                content(&kept).unwrap();
            }
        }
        assert_eq!(collections, 6);
        finish(&mut store).unwrap();
        for reader in &mut readers {
            reader.reload().unwrap();
            assert_eq!(reader.check().unwrap().commits as usize, commits.len() - first);
            for commit in &commits[first..] {
                let [found, expected] =
                    [&*reader, &store].map(|it| content(&it.checkout(commit).unwrap()).unwrap());
                assert!(found == expected, "{index:?}");
            }
        }
    }
}

/// A base that a kept commit before the target needs stays with its patches; the next collection does away with it.
#[test]
fn a_base_that_stays_is_merged_once_nothing_needs_it() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(91));
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let (mut store, commits) = store_on(shared, options(index), &mut random);
        let held = |store: &Store, commits: &[CommitHash]| -> Vec<Content> {
            commits.iter().map(|it| content(&store.checkout(it).unwrap()).unwrap()).collect()
        };
        let pinned = [commits[58], commits[61], commits[66]];
        for commit in &pinned {
            store.pin(commit).unwrap();
        }
        let (old, new) = (held(&store, &pinned), held(&store, &commits[70..]));
        let mut bytes = Vec::new();
        for (first, unpinned) in [(70, None), (80, Some(0)), (90, Some(1)), (91, Some(2))] {
            if let Some(unpinned) = unpinned {
                store.unpin(&pinned[unpinned]).unwrap();
            }
            store.collect(&commits[first]).unwrap();
            finish(&mut store).unwrap();
            bytes.push(store.stats().pack_bytes);
            let stay = unpinned.map_or(0, |unpinned| unpinned + 1);
            for round in 0..2 {
                assert!(held(&store, &pinned[stay..]) == old[stay..], "{index:?} {first} {round}");
                assert!(held(&store, &commits[first..]) == new[first - 70..], "{index:?} {first}");
                let expected = commits.len() - first + pinned.len() - stay;
                let checked = store.check().unwrap();
                assert_eq!(checked.commits as usize, expected, "{index:?} {first}");
                assert!(checked.index_faults.is_empty(), "{checked:?}");
                store.close().unwrap();
                store = open(&disk, &options(index));
            }
        }
        assert!(bytes[3] < bytes[0], "{index:?}: {bytes:?}");
    }
}

/// Parts of trees that go, taken into new commits while the collection marks, and while it cleans: of these some are refused,
/// and none is written that cannot be read.
#[test]
fn what_is_taken_from_old_trees_while_bases_go_is_readable_or_refused() {
    let mut refused = 0;
    for index in [Index::Minimal, Index::Always] {
        for seed in 0..3 {
            let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(92 + seed));
            let shared = Arc::clone(&disk) as Arc<dyn Disk>;
            let (mut store, mut commits) = store_on(shared, options(index), &mut random);
            let old: Vec<Tree> =
                commits[40..95].iter().map(|it| store.checkout(it).unwrap()).collect();
            let mut made: Vec<(CommitHash, Content)> = Vec::new();
            store.collect(&commits[95]).unwrap();
            let (mut steps, mut phases) = (0, [0, 0]);
            while store.collect_step(8).unwrap() {
                steps += 1;
                if steps % 5 != 0 {
                    continue;
                }
                let is_cleaning = store.collect_status().unwrap().phase == CollectPhase::Cleaning;
                let parent = commits.last().copied();
                let mut tree = store.checkout(&parent.unwrap()).unwrap();
                let directory = ["few", "many"][random.index(2)];
                let from = &old[random.index(old.len())];
                let outcome = from.find_tree(&[directory]).and_then(|part| {
                    let mut part = part.expect("each tree has both");
                    part.add(&[&format!("late-{steps}")], b"late")?;
                    tree.add_tree(&[directory], &part)?;
                    let expected = content(&tree)?;
                    let info =
                        varvite::context::CommitInfo::new(&[parent.unwrap()], 400, "me", "own");
                    Ok((store.commit(&mut tree, &info)?, expected))
                });
                match outcome {
                    Ok((commit, expected)) => {
                        phases[usize::from(is_cleaning)] += 1;
                        commits.push(commit);
                        made.push((commit, expected));
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), varvite::Kind::Collected, "{error}");
                        assert!(is_cleaning, "nothing goes while it marks: {error}");
                        refused += 1;
                    }
                }
            }
            assert!(phases[0] > 3, "{phases:?}");
            for round in 0..2 {
                for (commit, expected) in &made {
                    let found = content(&store.checkout(commit).unwrap()).unwrap();
                    assert!(found == *expected, "{index:?} {seed} {round}");
                }
                let checked = store.check().unwrap();
                assert_eq!(checked.commits as usize, commits.len() - 95, "{index:?} {seed}");
                assert!(checked.index_faults.is_empty(), "{checked:?}");
                store.close().unwrap();
                store = open(&disk, &options(index));
            }
            // What was late is old in the next collection.
            store.collect(commits.last().unwrap()).unwrap();
            finish(&mut store).unwrap();
            let (commit, expected) = made.last().unwrap();
            assert!(content(&store.checkout(commit).unwrap()).unwrap() == *expected);
            assert_eq!(store.check().unwrap().commits, 1);
        }
    }
    assert!(refused > 0);
}

/// A snapshot of commits is the same file whether their patches were merged or not.
#[test]
fn snapshots_of_merged_records_are_those_of_a_store_that_kept_all() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(93));
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let (mut store, commits) = store_on(shared, options(index), &mut random);
        let files = MemoryDisk::seeded(2) as Arc<dyn Disk>;
        let export = |store: &Store, name: &str| {
            let kept = &commits[100..];
            store.export_commits(kept, CommitFileOptions::default(), &files, name).unwrap().hash
        };
        let before = export(&store, "before");
        for first in [80, 100] {
            store.collect(&commits[first]).unwrap();
            finish(&mut store).unwrap();
        }
        assert_eq!(export(&store, "after"), before, "{index:?}");
        let to = MemoryDisk::seeded(3) as Arc<dyn Disk>;
        let mut copy = Store::create(to, options(index)).unwrap();
        copy.import_commit(&*files, "after").unwrap();
        for commit in &commits[100..] {
            let [found, expected] =
                [&copy, &store].map(|it| content(&it.checkout(commit).unwrap()).unwrap());
            assert!(found == expected, "{index:?}");
        }
    }
}

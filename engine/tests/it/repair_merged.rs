//! Repairs of what two folders have together, where a collection has written records otherwise than the chunks in the lower
//! folder have them: what either has whole is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use varvite::Result;
use varvite::context::{CommitHash, Index, RepairedContext, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};

use crate::collect_merged::{change, finish, options, put, store_on};
use crate::context_archive::packs;
use crate::context_repair::{flipped, repair, with};
use crate::hooked_disk::HookedDisk;
use crate::random::Random;

/// The first commit that stays.
const FIRST: usize = 100;

struct Both {
    upper: Arc<SimDisk>,
    lower: Arc<SimDisk>,
    commits: Vec<CommitHash>,
}

/// A store that has collected, and the lower folder of a copy that went there with all that was before.
fn both(index: Index, seed: u64, collections: &[usize]) -> Both {
    let (upper, mut random) = (SimDisk::new(1), Random::new(seed));
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let (mut store, mut commits) = store_on(disk, options(index), &mut random);
    store.begin_chunk().unwrap();
    store.close().unwrap();
    let (copy, lower) = (upper.crash(Crash::Process), SimDisk::new(2));
    let mut archive = options(index);
    archive.lower = Some(Arc::clone(&lower) as Arc<dyn Disk>);
    let mut twin = Store::open(copy as Arc<dyn Disk>, archive).unwrap();
    let mut tree = twin.checkout(&commits[119]).unwrap();
    tree.add(&["twin"], b"1").unwrap();
    let last = put(&mut twin, &mut tree, Some(commits[119]), 999);
    assert!(twin.archive(&last, u64::MAX).unwrap() > 0);
    twin.close().unwrap();
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let mut store = Store::open(disk, options(index)).unwrap();
    for to in collections {
        store.collect(&commits[*to]).unwrap();
        finish(&mut store).unwrap();
    }
    let parent = commits.last().copied();
    let mut tree = store.checkout(&parent.unwrap()).unwrap();
    change(&mut tree, &mut random, 2);
    commits.push(put(&mut store, &mut tree, parent, 500));
    store.close().unwrap();
    Both { upper, lower, commits }
}

fn sparse(disk: &SimDisk) -> Vec<String> {
    packs(disk).into_iter().filter(|name| name.matches('-').count() == 2).collect()
}

/// Which of `commits` a repair keeps.
fn kept(
    upper: &Arc<SimDisk>,
    lower: Option<&Arc<SimDisk>>,
    commits: &[CommitHash],
) -> (BTreeSet<CommitHash>, RepairedContext) {
    let (found, target) = repair(upper, lower).unwrap();
    let store = Store::open(target as Arc<dyn Disk>, options(Index::Minimal)).unwrap();
    assert_eq!(store.check().unwrap().commits, found.commits);
    let kept = commits.iter().filter(|commit| store.exists(commit).unwrap()).copied().collect();
    (kept, found)
}

/// Of a sparse file: without it, with a mapping or an end that is damaged, cut, and with damaged records.
fn damaged(disk: &Arc<SimDisk>, name: &str) -> Vec<Arc<SimDisk>> {
    let bytes = disk.bytes(name).unwrap();
    let start = bytes.len() - bytes.len() % 4096 - 4096;
    let mut images = vec![with(disk, name, None), with(disk, name, Some(bytes[..start].to_vec()))];
    let places = [start + 40, bytes.len() - 1, 100].into_iter();
    images.extend(places.map(|place| flipped(disk, name, place)));
    images.extend((140..start).step_by(1 + start / 7).map(|place| flipped(disk, name, place)));
    images
}

#[test]
fn what_is_damaged_of_a_collected_store_is_taken_from_whole_chunks_with_all_that_it_needs() {
    for index in [Index::Minimal, Index::Always] {
        for collections in [&[FIRST][..], &[60, 80, FIRST]] {
            let Both { upper, lower, commits } = both(index, 80, collections);
            assert!(kept(&upper, Some(&lower), &commits).1.is_whole());
            for name in sparse(&upper) {
                for (number, image) in damaged(&upper, &name).into_iter().enumerate() {
                    let (kept, found) = kept(&image, Some(&lower), &commits);
                    let is_kept = commits[FIRST..].iter().all(|commit| kept.contains(commit));
                    assert!(is_kept, "{index:?}, {collections:?}, {name}, {number}: {found:?}");
                }
            }
        }
    }
}

/// A chunk of before stayed above beside the file that took its place, and something else is damaged.
#[test]
fn a_chunk_that_stayed_beside_what_took_its_place_hides_nothing_of_that() {
    let Both { upper, lower, commits } = both(Index::Minimal, 80, &[FIRST]);
    for name in packs(&lower) {
        let beside = with(&upper, &name, Some(lower.bytes(&name).unwrap()));
        for image in [Arc::clone(&beside), with(&beside, "control", None)] {
            let (kept, found) = kept(&image, None, &commits);
            let is_kept = commits[FIRST..].iter().all(|commit| kept.contains(commit));
            assert!(is_kept, "{name}: {found:?}");
        }
    }
}

/// Each chunk of the lower folder in turn is damaged, or not there. What a collection wrote in full is not laid over what is
/// whole behind the patch that it stands for.
#[test]
fn what_is_damaged_below_costs_nothing_that_either_folder_has() {
    for seed in [80, 81] {
        let Both { upper, lower, commits } = both(Index::Minimal, seed, &[FIRST]);
        let blind = with(&upper, "control", None);
        let mut random = Random::new(9);
        for name in packs(&lower) {
            let bytes = lower.bytes(&name).unwrap();
            let mut images = vec![with(&lower, &name, None)];
            images.extend((0..8).map(|_| flipped(&lower, &name, random.index(bytes.len()))));
            for (number, image) in images.into_iter().enumerate() {
                let alone = kept(&image, None, &commits).0;
                for upper in [&upper, &blind] {
                    let is_blind = Arc::ptr_eq(upper, &blind);
                    let (kept, found) = kept(upper, Some(&image), &commits);
                    let what = format!("{seed}, {name}, {number}, {is_blind}: {found:?}");
                    assert!(commits[FIRST..].iter().all(|it| kept.contains(it)), "{what}");
                    if is_blind {
                        assert!(
                            alone.is_subset(&kept),
                            "{} of {}, {what}",
                            kept.len(),
                            alone.len()
                        );
                    }
                }
            }
        }
    }
}

/// The last record of a file may be longer than it was in the chunk, when the end behind it is damaged.
#[test]
fn a_damaged_end_of_a_sparse_chunk_hides_no_chunk_behind_it() {
    for seed in 80..86 {
        let Both { upper, commits, .. } = both(Index::Minimal, seed, &[FIRST]);
        let blind = with(&upper, "control", None);
        for name in sparse(&upper) {
            let bytes = upper.bytes(&name).unwrap();
            let start = bytes.len() - bytes.len() % 4096 - 4096;
            let end = bytes[..start].iter().rposition(|byte| *byte != 0).unwrap();
            let (kept, found) = kept(&flipped(&blind, &name, end - 20), None, &commits);
            let lost: Vec<_> =
                (FIRST..commits.len()).filter(|it| !kept.contains(&commits[*it])).collect();
            assert!(lost.is_empty(), "{seed}, {name}: {lost:?}, {found:?}");
        }
    }
}

/// A store and a copy of it that went on by itself within a chunk, whose part of that chunk a collection has left. Their chunks
/// of that number end at different places.
fn parted() -> (Arc<SimDisk>, Vec<CommitHash>, String, Vec<u8>) {
    let (first, mut random) = (SimDisk::new(1), Random::new(80));
    let disk = Arc::clone(&first) as Arc<dyn Disk>;
    let (mut store, mut commits) = store_on(disk, options(Index::Minimal), &mut random);
    store.begin_chunk().unwrap();
    let mut tree = store.checkout(&commits[119]).unwrap();
    change(&mut tree, &mut random, 2);
    commits.push(put(&mut store, &mut tree, Some(commits[119]), 200));
    store.close().unwrap();
    let last = packs(&first).pop().unwrap();
    let copy = first.crash(Crash::Process);
    let mut others = commits.clone();
    for (disk, commits, length) in [(&first, &mut commits, 9), (&copy, &mut others, 6)] {
        let disk = Arc::clone(disk) as Arc<dyn Disk>;
        let mut store = Store::open(disk, options(Index::Minimal)).unwrap();
        for date in 0..length + 3 {
            if date == length {
                store.begin_chunk().unwrap();
            }
            let parent = commits.last().copied();
            let mut tree = store.checkout(&parent.unwrap()).unwrap();
            change(&mut tree, &mut random, 3);
            commits.push(put(
                &mut store,
                &mut tree,
                parent,
                1000 * i64::from(length) + i64::from(date),
            ));
        }
        if length == 6 {
            store.collect(commits.last().unwrap()).unwrap();
            finish(&mut store).unwrap();
        }
        store.close().unwrap();
    }
    let name = last.replace(".pack", "-1.pack");
    let bytes = copy.bytes(&name).unwrap();
    (first, commits, name, bytes)
}

#[test]
fn what_a_copy_has_left_of_a_chunk_hides_nothing_of_the_own() {
    let (disk, commits, name, bytes) = parted();
    let beside = with(&disk, &name, Some(bytes));
    let mut images = damaged(&beside, &name);
    images.push(Arc::clone(&beside));
    for (number, image) in images.into_iter().enumerate() {
        for image in [with(&image, "control", None), image] {
            let (kept, found) = kept(&image, None, &commits);
            let what = format!("{number}: {found:?}");
            assert_eq!(
                (kept.len(), found.commits),
                (commits.len(), commits.len() as u64),
                "{what}"
            );
            assert!(found.lost.is_empty(), "{what}");
        }
    }
}

/// What only the store's own folder has is found in either case, where its mapping is damaged as well.
#[test]
fn a_lower_folder_costs_nothing_that_is_found_without_it() {
    for (seed, collections) in [(80, &[FIRST][..]), (81, &[60, 80, FIRST])] {
        let Both { upper, lower, commits } = both(Index::Minimal, seed, collections);
        let blind = with(&upper, "control", None);
        for name in sparse(&upper) {
            let bytes = upper.bytes(&name).unwrap();
            let start = bytes.len() - bytes.len() % 4096 - 4096;
            let image = flipped(&blind, &name, start + 40);
            let alone = kept(&image, None, &commits).0;
            for gone in packs(&lower) {
                let lower = with(&lower, &gone, None);
                let (kept, found) = kept(&image, Some(&lower), &commits);
                let lost = alone.difference(&kept).count();
                assert_eq!(lost, 0, "{seed}, {name}, {gone}: {found:?}");
            }
        }
    }
}

/// Whole chunks below of which the store's own folder has all that is needed.
#[test]
fn what_nobody_needs_of_a_chunk_below_ends_no_repair_and_is_no_damage() {
    let Both { upper, lower, .. } = both(Index::Minimal, 80, &[FIRST]);
    let told = |lower: Arc<dyn Disk>| -> Result<RepairedContext> {
        let source = Arc::clone(&upper) as Arc<dyn Disk>;
        let target = SimDisk::new(77) as Arc<dyn Disk>;
        Store::repair(&source, Some(&lower), &target, &mut |_, _| Ok(()))
    };
    for name in packs(&lower) {
        let length = lower.bytes(&name).unwrap().len();
        for part in 0..4 {
            // The beginning, the end, or what is between.
            let place = [0, 120, length / 2, length - 20][part];
            let (failing, inner) = (name.clone(), Arc::clone(&lower) as Arc<dyn Disk>);
            let disk = HookedDisk::failing_reads(inner, move |path, offset, bytes| {
                path == failing && (offset..offset + bytes as u64).contains(&(place as u64))
            });
            let found = told(disk);
            assert!(
                found.as_ref().is_ok_and(RepairedContext::is_whole),
                "{name}, {place}: {found:?}"
            );
            let found = told(flipped(&lower, &name, place)).unwrap();
            assert!(found.is_whole(), "{name}, {place}: {found:?}");
        }
    }
}

//! What the index "always" takes of the disk behind collections, beside one that was made anew.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::random::Random;

fn options(index_bytes: u64) -> Options {
    Options {
        index: Index::Always,
        index_bytes,
        seed: Some(4),
        chunk_bytes: 100_000,
        ..Options::default()
    }
}

fn index_bytes(disk: &MemoryDisk) -> u64 {
    let files = disk.files().into_iter().filter(|name| name.starts_with("index"));
    files.map(|name| disk.bytes(&name).unwrap().len() as u64).sum()
}

fn change(tree: &mut Tree, random: &mut Random, values: usize) {
    for _ in 0..values {
        let path =
            ["accounts", &format!("{:03}", random.index(40)), &format!("{:03}", random.index(40))];
        tree.add(&path, &random.bytes(40)).unwrap();
    }
}

fn commit(store: &mut Store, random: &mut Random, date: i64) -> CommitHash {
    let last = store.last_commit().unwrap();
    let mut tree = last.map_or_else(|| store.empty_tree(), |it| store.checkout(&it).unwrap());
    change(&mut tree, random, if date == 0 { 2_000 } else { 30 });
    let parents: Vec<CommitHash> = last.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, date, "me", "own")).unwrap()
}

/// The index as a store leaves it that is closed, and as it is when made again from the pack; and the store, open again. An
/// open one has spare files.
fn closed_and_anew(
    (disk, store): (&Arc<MemoryDisk>, Store),
    options: &Options,
) -> (u64, u64, Store) {
    assert!(store.check().unwrap().index_faults.is_empty());
    store.close().unwrap();
    let now = index_bytes(disk);
    let copy = disk.snapshot();
    let mut anew = Store::open(Arc::clone(&copy) as Arc<dyn Disk>, options.clone()).unwrap();
    anew.rebuild_index().unwrap();
    anew.close().unwrap();
    let store = Store::open(Arc::clone(disk) as Arc<dyn Disk>, options.clone()).unwrap();
    (now, index_bytes(&copy), store)
}

#[test]
fn an_index_of_all_objects_gives_its_room_back_with_the_collection() {
    for bytes in [16 << 20, 1 << 20, 1 << 14] {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(3));
        let options = options(bytes);
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        for round in 0..4 {
            let mut commits = Vec::new();
            for date in 0..80 {
                commits.push(commit(&mut store, &mut random, round * 80 + date));
            }
            store.collect(&commits[70]).unwrap();
            let mut steps = 0;
            while store.collect_step(200).unwrap() {
                steps += 1;
                if steps % 10 == 0 {
                    commit(&mut store, &mut random, round * 80 + 79);
                }
            }
            let (now, anew, again) = closed_and_anew((&disk, store), &options);
            store = again;
            // That of collected commits is in it, so that they are known as such.
            assert!(now * 10 <= anew * 12 + 200_000, "{bytes} {round}: {now}, anew {anew}");
        }
    }
}

/// Killed again and again while it collects, it has no more to give back than another.
#[test]
fn an_index_of_all_objects_gives_its_room_back_behind_crashes() {
    let (mut disk, mut random) = (MemoryDisk::seeded(1), Random::new(5));
    let options = options(1 << 20);
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
    for date in 0..400 {
        let made = commit(&mut store, &mut random, date);
        store.collect_step(30).unwrap();
        if date % 20 == 0 {
            let _ = store.collect(&made);
        }
        if date % 13 == 0 {
            drop(store);
            disk = disk.snapshot();
            store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        }
    }
    while store.collect_step(1_000).unwrap() {}
    let last = store.last_commit().unwrap().unwrap();
    store.collect(&last).unwrap();
    while store.collect_step(1_000).unwrap() {}
    let (now, anew, _) = closed_and_anew((&disk, store), &options);
    assert!(now * 10 <= anew * 12 + 100_000, "{now}, anew {anew}");
}

//! What only the inside of a store shows: descriptors, and stores that were collected, which no
//! release makes yet.

use std::sync::Arc;

use super::{CommitInfo, Limits, Store};
use crate::context::control::{Control, Horizon, State};
use crate::context::files::{FILES_AT_ONCE, FILES_MAX};
use crate::context::hash::Hash;
use crate::context::options::{Index, Options};
use crate::context::paths;
use crate::disk::Disk;
use crate::disk::memory::MemoryDisk;
use crate::disk::sim::{Fault, SimDisk};
use crate::error::Kind;

fn options(index: Index) -> Options {
    Options {
        index,
        seed: Some(5),
        chunk_bytes: 400,
        objects_bytes: 4_000,
        hashes_bytes: 2_000,
        pages_bytes: 0,
        index_bytes: 1,
        ..Options::default()
    }
}

fn value(number: u64, place: u64) -> Vec<u8> {
    (number * 4 + place).to_be_bytes().repeat(5)
}

/// A commit of values that no other commit has.
fn commit(store: &mut Store, number: u64) -> Hash {
    let parents: Vec<Hash> = store.last_commit().unwrap().into_iter().collect();
    let mut tree = store.empty_tree();
    for place in 0..4 {
        tree.add(&["data", &format!("{place}")], &value(number, place)).unwrap();
    }
    let info = CommitInfo::new(&parents, number as i64, "a", "b");
    store.commit(&mut tree, &info).unwrap()
}

#[test]
fn a_pack_of_many_chunks_keeps_few_files_open() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let count = 5 * FILES_MAX as u64 / 2;
    let hashes: Vec<Hash> = (0..count).map(|number| commit(&mut store, number)).collect();
    let bound = |store: &Store| assert!(store.pack.files.open_count() <= FILES_MAX);
    assert!(store.stats().chunks > 2 * FILES_MAX as u64, "{:?}", store.stats());
    bound(&store);
    store.checkpoint().unwrap();
    let reader = Store::open_read_only(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    assert!(reader.pack.files.open_count() <= FILES_AT_ONCE + 1);
    for store in [&store, &reader] {
        for hash in &hashes {
            assert!(store.checkout(hash).unwrap().find(&["data", "1"]).unwrap().is_some());
            bound(store);
        }
        assert_eq!(store.check().unwrap().commits, count);
        bound(store);
    }
    // Trees of before a clearing are read from files that stay as long as the trees do.
    let old = store.checkout(&hashes[0]).unwrap();
    store.clear().unwrap();
    assert!(disk.exists(&paths::chunk(0, 0)).unwrap());
    assert_eq!(old.find(&["data", "1"]).unwrap().unwrap(), value(0, 1));
    drop(old);
    assert!(!disk.exists(&paths::chunk(0, 0)).unwrap(), "and go with them");
    assert!(disk.exists(&paths::chunk(1, 0)).unwrap());
}

/// A store of ten commits whose first five were collected, but for those `kept`.
fn collected(index: Index, kept: &[usize]) -> (Arc<MemoryDisk>, Vec<Hash>) {
    let disk = MemoryDisk::seeded(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let options = Options { chunk_bytes: 1 << 20, ..options(index) };
    let mut store = Store::create(Arc::clone(&shared), options).unwrap();
    let mut hashes = Vec::new();
    for number in 0..10 {
        if number == 5 {
            store.begin_chunk().unwrap();
        }
        hashes.push(commit(&mut store, number));
    }
    let place = |hash: &Hash| store.find_commit(hash).unwrap().unwrap();
    let kept = kept.iter().map(|number| place(&hashes[*number])).collect();
    let commit = place(&hashes[5]);
    let horizon = Horizon { commit, offset: commit, sequence: 5, kept };
    store.close().unwrap();
    let mut control = Control::read(&*shared).unwrap();
    control.chunks[0].state = State::Gone;
    control.horizon = horizon;
    control.replace(&shared).unwrap();
    disk.remove(&paths::chunk(0, 0)).unwrap();
    (disk, hashes)
}

#[test]
fn what_was_collected_is_said_to_be_and_histories_end_there_in_peace() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, hashes) = collected(index, &[]);
        for with_index in [true, false] {
            let copy = disk.snapshot();
            for name in copy.files().iter().filter(|name| name.starts_with("index/")) {
                if !with_index {
                    copy.remove(name).unwrap();
                }
            }
            let mut store = Store::open(copy, options(index)).unwrap();
            assert!(store.log(99).unwrap().iter().eq(hashes[5..].iter().rev()));
            assert_eq!(store.history(&hashes[9..], 99).unwrap().len(), 5);
            let limits = Limits::default();
            let lowest = store.lowest_common_ancestors(&hashes[9], &hashes[7], limits).unwrap();
            assert_eq!(lowest, [hashes[7]]);
            let checked = store.check().unwrap();
            assert_eq!((checked.commits, checked.index_faults), (5, Vec::new()));
            for hash in &hashes[..5] {
                assert!(!store.exists(hash).unwrap());
                // An index that was made again never knew it.
                let kind = if with_index { Kind::Collected } else { Kind::Missing };
                assert_eq!(store.checkout(hash).unwrap_err().kind(), kind);
                assert_eq!(store.commit_info(hash).unwrap_err().kind(), kind);
                assert_eq!(store.set_branch(b"old", hash).unwrap_err().kind(), kind);
            }
            let hash = commit(&mut store, 10);
            store.close().unwrap();
            let store = Store::open(disk.snapshot(), options(index)).unwrap();
            assert!(store.warnings().is_empty(), "{:?}", store.warnings());
            assert!(!store.exists(&hash).unwrap() && store.exists(&hashes[9]).unwrap());
        }
    }
}

#[test]
fn a_kept_commit_of_which_something_is_not_there_is_corrupt() {
    let (disk, hashes) = collected(Index::Minimal, &[3]);
    let store = Store::open(disk, options(Index::Minimal)).unwrap();
    assert_eq!(store.checkout(&hashes[2]).unwrap_err().kind(), Kind::Collected);
    for error in [store.checkout(&hashes[3]).unwrap_err(), store.log(99).unwrap_err()] {
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

#[test]
fn the_table_of_chunks_adds_little_to_what_is_written() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let mut before = store.stats();
    // The longer the table is, the rarer it is written.
    for round in 1..5 {
        for number in 0..300 {
            commit(&mut store, round * 1_000 + number);
        }
        let after = store.stats();
        assert!(after.chunks > round * 250);
        let pack = after.pack_bytes - before.pack_bytes;
        let index = store.tip.as_ref().unwrap().traffic().0;
        let control = index - after.pack_bytes;
        assert!(pack > 100_000 && control < after.pack_bytes / 25, "{round}: {control} {pack}");
        before = after;
    }
}

#[test]
fn files_make_room_where_the_process_may_open_no_more() {
    let sim = SimDisk::new(1);
    let disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let hashes: Vec<Hash> = (0..100).map(|number| commit(&mut store, number)).collect();
    store.close().unwrap();
    let reader = Store::open_read_only(disk, options(Index::Minimal)).unwrap();
    assert!(reader.pack.files.open_count() >= FILES_AT_ONCE);
    sim.fail_at(1, Fault::Open);
    assert!(reader.checkout(&hashes[9]).is_ok(), "it is read once others are closed");
    assert!(reader.pack.files.open_count() <= FILES_AT_ONCE / 2 + 8);
}

//! Files of a context that nothing needs and that cannot be removed: they are told, and in nobody's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use varvite::context::{ChunkState, CommitHash, Index, Options, Store};
use varvite::disk::sim::SimDisk;
use varvite::disk::{Access, Disk, Mode};

use crate::archive_above::{blocks, next, read_all, sized};
use crate::context_archive::packs;
use crate::hooked_disk::HookedDisk;

/// The disk of a store of many commits, on which no file can be removed while that is so.
fn stuck() -> (Arc<SimDisk>, Arc<dyn Disk>, Arc<AtomicBool>, Vec<CommitHash>) {
    let (disk, commits) = blocks(Index::Minimal);
    let is_stuck = Arc::new(AtomicBool::new(true));
    let (asked, there) = (Arc::clone(&is_stuck), Arc::clone(&disk));
    let is_old = move |name: &str| {
        let is_ours = name.contains(".pack") || name == "half-made";
        is_ours && asked.load(SeqCst) && there.exists(name).unwrap()
    };
    let hooked = HookedDisk::failing_removals(Arc::clone(&disk) as Arc<dyn Disk>, is_old);
    (disk, hooked, is_stuck, commits)
}

fn options() -> Options {
    sized(Index::Minimal, None)
}

/// One of `told` names each of `names`, and why it stays.
fn expect_told(told: &[String], names: &[String]) {
    for name in names {
        let is_it = |it: &&String| it.contains(&**name) && it.contains("could not remove");
        assert!(told.iter().any(|it| is_it(&it)), "{name}: {told:?}");
    }
}

/// How many files the chunks of `store` are in.
fn files(store: &Store) -> usize {
    store.chunks().iter().filter(|chunk| chunk.state != ChunkState::Gone).count()
}

#[test]
fn what_a_collection_cannot_remove_is_told_and_keeps_no_store_from_opening() {
    let (disk, hooked, is_stuck, commits) = stuck();
    let before = packs(&disk);
    let mut store = Store::open(Arc::clone(&hooked), options()).unwrap();
    store.collect(&commits[100]).unwrap();
    while store.collect_step(100).unwrap() {}
    let chunks = store.chunks();
    let whole = chunks.iter().filter(|chunk| chunk.state == ChunkState::Whole);
    let whole: Vec<_> = whole.map(|chunk| format!("0000-{:06}.pack", chunk.number)).collect();
    let old: Vec<_> = before.into_iter().filter(|name| !whole.contains(name)).collect();
    assert!(old.len() > 10, "{old:?}");
    expect_told(&store.warnings(), &old);
    store.close().unwrap();
    for name in ["0000-000003.pack.tmp", "half-made"] {
        let file = disk.open(name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &[1; 40]).unwrap();
    }
    let mut store = Store::open(Arc::clone(&hooked), options()).unwrap();
    let all: Vec<_> =
        old.iter().cloned().chain(["0000-000003.pack.tmp".into(), "half-made".into()]).collect();
    expect_told(&store.warnings(), &all);
    let mut last = *commits.last().unwrap();
    for block in 200..230 {
        last = next(&mut store, Some(&last), block).unwrap();
    }
    store.collect(&last).unwrap();
    while store.collect_step(100).unwrap() {}
    store.check().unwrap();
    store.close().unwrap();
    is_stuck.store(false, SeqCst);
    let store = Store::open(hooked, options()).unwrap();
    assert_eq!(store.warnings(), Vec::<String>::new());
    assert_eq!(packs(&disk).len(), files(&store));
    assert!(!disk.exists("0000-000003.pack.tmp").unwrap() && !disk.exists("half-made").unwrap());
    read_all(&store, &commits[33], 33).unwrap();
}

/// What an attempt of before has left has the name that the next file would get.
#[test]
fn a_collection_goes_around_a_file_that_cannot_be_removed() {
    let (disk, hooked, _, commits) = stuck();
    let left = "0000-000000-1.pack";
    let file = disk.open(left, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, &[0; 100]).unwrap();
    let mut store = Store::open(hooked, options()).unwrap();
    expect_told(&store.warnings(), &[left.to_owned()]);
    store.collect(&commits[100]).unwrap();
    while store.collect_step(100).unwrap() {}
    assert_eq!(disk.bytes(left).unwrap(), [0; 100]);
    store.check().unwrap();
    read_all(&store, &commits[21], 21).unwrap();
}

#[test]
fn what_a_clearing_cannot_remove_is_told() {
    let (disk, hooked, is_stuck, commits) = stuck();
    let mut store = Store::open(Arc::clone(&hooked), options()).unwrap();
    let tree = store.checkout(commits.last().unwrap()).unwrap();
    let old = packs(&disk);
    store.clear().unwrap();
    assert_eq!(store.warnings(), Vec::<String>::new(), "a tree may still read them");
    drop(tree);
    expect_told(&store.warnings(), &old);
    store.close().unwrap();
    let mut store = Store::open(Arc::clone(&hooked), options()).unwrap();
    expect_told(&store.warnings(), &old);
    next(&mut store, None, 0).unwrap();
    store.close().unwrap();
    is_stuck.store(false, SeqCst);
    drop(Store::open(hooked, options()).unwrap());
    assert_eq!(packs(&disk), ["0001-000000.pack"]);
}

/// What a crash has left of a control file is in the way of the next one.
#[test]
fn a_control_file_in_work_that_cannot_be_removed_is_told_and_keeps_nobody_from_writing() {
    let (disk, commits) = blocks(Index::Minimal);
    let left = "control.tmp";
    let file = disk.open(left, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, &[1; 100]).unwrap();
    let there = Arc::clone(&disk);
    let is_left = move |name: &str| name == left && there.exists(name).unwrap();
    let hooked: Arc<dyn Disk> =
        HookedDisk::failing_removals(Arc::clone(&disk) as Arc<dyn Disk>, is_left);
    let mut last = *commits.last().unwrap();
    for round in 0..3 {
        let mut store = Store::open(Arc::clone(&hooked), options()).unwrap();
        expect_told(&store.warnings(), &[left.to_owned()]);
        for block in 0..10 {
            last = next(&mut store, Some(&last), 200 + round * 10 + block).unwrap();
        }
        store.set_branch(b"main", &last).unwrap();
        store.collect(&last).unwrap();
        while store.collect_step(100).unwrap() {}
        store.close().unwrap();
        assert_eq!(disk.bytes(left).unwrap(), [1; 100]);
    }
    let in_work = |name: &String| name.contains("control") && name != "control" && name != left;
    assert!(!disk.list("").unwrap().iter().any(in_work), "{:?}", disk.list(""));
    let store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap();
    assert_eq!(store.last_commit().unwrap(), Some(last));
    assert_eq!(store.warnings(), Vec::<String>::new());
    assert!(!disk.exists(left).unwrap());
}

/// What was written beside it, and left by a crash, goes like any other.
#[test]
fn the_second_file_in_work_is_removed_by_the_next_opening() {
    let (disk, _) = blocks(Index::Minimal);
    let left = "control.again.tmp";
    let file = disk.open(left, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, &[1; 100]).unwrap();
    drop(Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options()).unwrap());
    assert!(!disk.exists(left).unwrap());
}

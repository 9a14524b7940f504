//! Trees and stores of a context, by example.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Configuration, Index, Options, Order, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::SimDisk;
use varvite::error::Kind as ErrorKind;

#[test]
fn a_store_is_written_by_one_and_bad_calls_say_what_to_do() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let error = Store::open(Arc::clone(&disk), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    let mut store = Store::create(Arc::clone(&disk), Options::default()).unwrap();
    let error = Store::open(Arc::clone(&disk), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    let error = store.checkout(&[1; 32].into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert_eq!(store.set_branch(b"main", &[1; 32].into()).unwrap_err().kind(), ErrorKind::Missing);
    let mut reader = Store::open_read_only(Arc::clone(&disk), Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["a"], b"1").unwrap();
    let error = reader.commit(&mut tree, &CommitInfo::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let mut binary = Tree::empty(Configuration::TEZOS_BINARY);
    binary.add(&["a"], b"1").unwrap();
    let error = store.commit(&mut binary, &CommitInfo::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(tree.add_tree(&["b"], &binary).unwrap_err().kind(), ErrorKind::Invalid);
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    assert_eq!(store.commit(&mut tree, &CommitInfo::default()).unwrap(), hash);
    assert!(store.test_and_set_branch(b"b", None, Some(&hash)).unwrap());
    assert!(!store.test_and_set_branch(b"b", None, Some(&hash)).unwrap());
    assert!(store.test_and_set_branch(b"b", Some(&hash), None).unwrap());
    drop(store);
    let error = Store::create(disk, Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
}

#[test]
fn a_commit_of_any_size_spills_and_hashes_the_same() {
    let mut reference = Tree::empty(Configuration::TEZOS);
    for index in [Index::Minimal, Index::Always] {
        let sim = SimDisk::new(4);
        let options = Options { index, tree_bytes: 100_000, ..Options::default() };
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
        let mut tree = store.empty_tree();
        let before = (store.stats(), sim.calls());
        for number in 0..8000u32 {
            let path = [format!("{}", number % 70), format!("{number}")];
            tree.add(&path, &[number as u8; 60]).unwrap();
            if index == Index::Minimal {
                reference.add(&path, &[number as u8; 60]).unwrap();
            }
        }
        let after = (store.stats(), sim.calls());
        assert!(after.0.pack_bytes - before.0.pack_bytes > 500_000, "most of it is spilled");
        assert_eq!(after.0.syncs, before.0.syncs, "and not synced");
        assert_eq!(store.log(1).unwrap(), Vec::<CommitHash>::new());
        let save_point = tree.clone();
        tree.remove(&["7"]).unwrap();
        let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        assert!(store.stats().pack_bytes < 2_500_000, "what is spilled is not written again");
        assert!(save_point.mem_tree(&["7"]).unwrap());
        assert_eq!(save_point.hash().unwrap(), reference.hash().unwrap());
        assert_eq!(store.check().unwrap().commits, 1);
        // A tree that outlives its store is read on, and does not spill any more.
        store.close().unwrap();
        for number in 0..3000u32 {
            tree.add(&[format!("late {number}")], &[1; 60]).unwrap();
        }
        let store = Store::open(disk, options).unwrap();
        assert!(store.checkout(&hash).unwrap().mem(&["8", "8"]).unwrap());
        assert_eq!(store.stats().commits, 1);
    }
}

#[test]
fn a_tree_of_before_a_clearing_spills_nowhere() {
    let options = Options { tree_bytes: 1000, ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut old = store.empty_tree();
    old.add(&["a"], &[1; 40]).unwrap();
    store.clear().unwrap();
    let before = store.stats().pack_bytes;
    for number in 0..100 {
        old.add(&[format!("{number}")], &[1; 40]).unwrap();
    }
    assert_eq!(store.stats().pack_bytes, before);
    let hash = store.commit(&mut old, &CommitInfo::default()).unwrap();
    assert_eq!(store.checkout(&hash).unwrap().length::<&[u8]>(&[]).unwrap(), 101);
}

#[test]
fn one_commit_is_one_write_and_one_sync() {
    let sim = SimDisk::new(3);
    let mut store = Store::create(Arc::clone(&sim) as Arc<dyn Disk>, Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    for number in 0..50 {
        let name = format!("{number}");
        tree.add(&["data", &name, "value"], &[b'x'; 20]).unwrap();
        let before = sim.calls();
        store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
        let after = sim.calls();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    }
}

#[test]
fn a_path_of_a_hundred_thousand_steps_overflows_nothing() {
    let path = vec![b"s".to_vec(); 100_000];
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&path, b"deep").unwrap();
    let before = tree.clone();
    tree.add(&path, b"deeper").unwrap();
    assert_ne!(before.hash().unwrap(), tree.hash().unwrap());
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let mut again = store.checkout(&hash).unwrap();
    assert_eq!(again.find(&path).unwrap().as_deref(), Some(&b"deeper"[..]));
    let mut count = 0;
    again
        .fold::<&[u8]>(&[], None, Order::Sorted, |_, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(count, path.len() + 1);
    let mut changes = 0;
    before
        .diff(&again, |_, _| {
            changes += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(changes, 1);
    again.remove(&path).unwrap();
    assert!(again.is_empty().unwrap());
}

#[test]
fn a_subtree_shared_many_times_is_hashed_and_written_once() {
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["a", "value"], b"something of more than fifteen bytes").unwrap();
    for _ in 0..40 {
        let below = tree.clone();
        let mut above = Tree::empty(Configuration::TEZOS);
        above.add_tree(&["left"], &below).unwrap();
        above.add_tree(&["right"], &below).unwrap();
        tree = above;
    }
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    assert!(store.stats().pack_bytes < 20_000, "{:?}", store.stats());
}

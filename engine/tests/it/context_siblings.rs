//! What hashing a change reads of the siblings of what changed: each once, whatever becomes of the tree.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::sim::SimDisk;

use crate::random::Random;

fn name(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A directory of a thousand values that are records of their own, just opened.
fn opened() -> (Arc<SimDisk>, Store, CommitHash, Tree) {
    let disk = SimDisk::new(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let options = Options { seed: Some(9), ..Options::default() };
    let mut store = Store::create(Arc::clone(&shared), options.clone()).unwrap();
    let mut tree = Tree::empty(store.configuration());
    for number in 0..1_000 {
        tree.add(&["wide", &name(number)], &number.to_be_bytes().repeat(5)).unwrap();
    }
    let model = tree.clone();
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    store.close().unwrap();
    drop(tree);
    (disk, Store::open(shared, options).unwrap(), commit, model)
}

#[test]
fn siblings_that_a_dropped_tree_has_read_are_not_read_again() {
    let (disk, store, commit, _) = opened();
    let change = |number: u64| {
        let before = disk.calls().reads;
        let mut tree = store.checkout(&commit).unwrap();
        tree.add(&["wide", &name(number)], b"another value, which is long").unwrap();
        store.hash(&tree, &CommitInfo::default()).unwrap();
        disk.calls().reads - before
    };
    let first = change(500);
    assert!(first > 40, "of a leaf and of the branch above it: {first}");
    for _ in 0..3 {
        // The pieces on the way.
        let again = change(500);
        assert!(again <= 8, "{again} reads, {first} at first");
    }
    // Elsewhere the leaf is another, and the branch above it the same, but for the leaf that had changed.
    let beside = change(7);
    assert!(beside < 45, "{beside} reads, {first} at first");
    assert!(change(500).max(change(7)) <= 8);
}

/// Hashes are right whatever trees were hashed, dropped or committed before.
#[test]
fn what_dropped_trees_leave_is_right_for_any_other() {
    let (_, mut store, mut commit, mut model) = opened();
    let mut random = Random::new(5);
    for round in 0..60_u64 {
        let mut tree = store.checkout(&commit).unwrap();
        let mut trial = model.clone();
        for _ in 0..=random.below(4) {
            let path = ["wide".to_owned(), name(random.below(1_100))];
            if random.below(4) == 0 {
                tree.remove(&path).unwrap();
                trial.remove(&path).unwrap();
            } else {
                let length = random.index(60);
                let value = random.bytes(length);
                tree.add(&path, &value).unwrap();
                trial.add(&path, &value).unwrap();
            }
        }
        assert_eq!(tree.hash().unwrap(), trial.hash().unwrap(), "round {round}");
        if round % 5 == 4 {
            commit = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
            model = trial;
        }
    }
    store.check().unwrap();
}

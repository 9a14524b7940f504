//! Trees of one handle committed and grafted by another: what both have is referred to, and nothing that
//! only looks alike ever is.

use std::sync::{Arc, Mutex};

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store, Tree, TreeHash};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::hooked_disk::HookedDisk;
use crate::random::Random;

const ACCOUNTS: u64 = 3_000;

fn commit(store: &mut Store, tree: &mut Tree, parent: Option<CommitHash>) -> CommitHash {
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    store.commit(tree, &CommitInfo::new(&parents, 1, "a", "b")).unwrap()
}

/// A store with a large directory, values of every kind, and its commit.
fn store(disk: &Arc<MemoryDisk>, index: Index) -> (Store, CommitHash) {
    let options = Options { index, ..Options::default() };
    let mut store = Store::create(Arc::clone(disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = store.empty_tree();
    for account in 0..ACCOUNTS {
        let name = format!("{account:04}");
        tree.add(&["index", &name, "balance"], &account.to_le_bytes().repeat(5)).unwrap();
        tree.add(&["index", &name, "counter"], b"0").unwrap();
    }
    let hash = commit(&mut store, &mut tree, None);
    (store, hash)
}

fn open(disk: &Arc<MemoryDisk>) -> Store {
    Store::open(Arc::clone(disk) as Arc<dyn Disk>, Options::default()).unwrap()
}

fn reader(disk: &Arc<MemoryDisk>) -> Store {
    Store::open_read_only(Arc::clone(disk) as Arc<dyn Disk>, Options::default()).unwrap()
}

/// Some changes that follow from a number; values have the same lengths for each.
fn change(tree: &mut Tree, number: u64) {
    let mut random = Random::new(number);
    for _ in 0..20 {
        let name = format!("{:04}", random.below(ACCOUNTS));
        tree.add(&["index", &name, "balance"], &random.bytes(40)).unwrap();
    }
    tree.add(&["log", "last"], &random.bytes(30)).unwrap();
}

/// The same tree made without any store, by its values.
fn rebuilt(tree: &Tree) -> TreeHash {
    let mut copy = Tree::empty(tree.configuration());
    tree.fold::<&[u8]>(&[], None, varvite::context::Order::Undefined, |path, tree| {
        match tree.to_value()? {
            Some(value) => copy.add(path, &value),
            None => Ok(()),
        }
    })
    .unwrap();
    copy.hash().unwrap()
}

/// What the action appends.
fn written(store: &mut Store, action: impl FnOnce(&mut Store)) -> u64 {
    let before = store.stats().pack_bytes;
    action(store);
    store.stats().pack_bytes - before
}

#[test]
fn a_tree_of_another_handle_of_the_store_is_committed_by_what_changed() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let (mut store, first) = store(&disk, index);
        let own = {
            let mut tree = store.checkout(&first).unwrap();
            change(&mut tree, 1);
            written(&mut store, |store| {
                commit(store, &mut tree, Some(first));
            })
        };
        let other = reader(&disk);
        let mut same = other.checkout(&first).unwrap();
        let bytes = written(&mut store, |store| {
            commit(store, &mut same, None);
        });
        assert_eq!(bytes, 0, "it is that commit");
        let mut tree = other.checkout(&first).unwrap();
        change(&mut tree, 2);
        let expected = rebuilt(&tree);
        let mut last = first;
        let foreign = written(&mut store, |store| last = commit(store, &mut tree, Some(first)));
        assert!(foreign < 12 * own, "{foreign} bytes for what takes {own} of an own tree");
        let whole = store.stats().pack_bytes / 4;
        assert!(foreign < whole, "{foreign} of {whole}");
        assert_eq!(store.checkout(&last).unwrap().hash().unwrap(), expected);
        // A subtree goes where it is put by a reference alone.
        let mut tree = store.checkout(&last).unwrap();
        let part = other.checkout(&first).unwrap().find_tree(&["index"]).unwrap().unwrap();
        tree.add_tree(&["old"], &part).unwrap();
        let expected = rebuilt(&tree);
        let graft = written(&mut store, |store| last = commit(store, &mut tree, Some(last)));
        assert!(graft < 1_000, "{graft} bytes for a reference");
        assert_eq!(store.checkout(&last).unwrap().hash().unwrap(), expected);
        store.check().unwrap();
        // A handle that was closed is another one too.
        store.close().unwrap();
        let mut store = open(&disk);
        change(&mut tree, 3);
        let expected = rebuilt(&tree);
        let again = written(&mut store, |store| last = commit(store, &mut tree, Some(last)));
        assert!(again < 12 * own, "{again} bytes");
        assert_eq!(store.checkout(&last).unwrap().hash().unwrap(), expected);
        assert!(store.check().unwrap().index_faults.is_empty());
    }
}

#[test]
fn a_copy_that_went_another_way_is_never_referred_to_by_mistake() {
    let mut shorter = 0;
    for seed in 0..5 {
        let disk = MemoryDisk::seeded(1);
        let (mut left, first) = store(&disk, Index::Minimal);
        if seed % 2 == 0 {
            left.checkpoint().unwrap();
        }
        let copy = disk.snapshot();
        drop(left);
        let (mut left, mut right) = (open(&disk), open(&copy));
        let (mut ours, mut theirs) = (vec![first], vec![first]);
        // The same places with the same lengths: most offsets exist on both sides, with other content.
        for number in 0..4 {
            for (store, hashes, side) in [(&mut left, &mut ours, 0), (&mut right, &mut theirs, 1)] {
                let parent = *hashes.last().unwrap();
                let mut tree = store.checkout(&parent).unwrap();
                // Every third commit is the same on both sides.
                change(&mut tree, seed * 100 + number * 2 + if number == 2 { 0 } else { side });
                hashes.push(commit(store, &mut tree, Some(parent)));
            }
        }
        let whole = left.stats().pack_bytes;
        for hash in &theirs {
            let mut tree = right.checkout(hash).unwrap();
            if seed % 3 == 0 {
                change(&mut tree, seed + 7);
            }
            let expected = rebuilt(&tree);
            let mut last = first;
            let bytes = written(&mut left, |left| last = commit(left, &mut tree, Some(*hash)));
            shorter += u64::from(bytes < whole / 8);
            assert_eq!(left.checkout(&last).unwrap().hash().unwrap(), expected);
            assert_eq!(rebuilt(&left.checkout(&last).unwrap()), expected, "seed {seed}");
            // And below a directory of ours, beside what is ours.
            let part = right.checkout(hash).unwrap().find_tree(&["index"]).unwrap().unwrap();
            let mut mixed = left.checkout(ours.last().unwrap()).unwrap();
            mixed.add_tree(&["theirs"], &part).unwrap();
            let expected = rebuilt(&mixed);
            let last = commit(&mut left, &mut mixed, None);
            assert_eq!(rebuilt(&left.checkout(&last).unwrap()), expected, "seed {seed}");
        }
        left.check().unwrap();
    }
    assert!(shorter >= 12, "{shorter} commits referred to what both have");
}

/// A directory in place is known by its hash; what it refers to in the other store is not there with it.
#[test]
fn a_directory_in_place_of_a_copy_is_adopted_with_what_is_below() {
    let fill = |tree: &mut Tree, at: &[&str]| {
        for number in 0..3_u8 {
            let name = format!("{}{number}", "n".repeat(40));
            let path: Vec<&str> = at.iter().copied().chain([&*name]).collect();
            tree.add(&path, &[number; 10]).unwrap();
        }
    };
    let disk = MemoryDisk::seeded(1);
    let options = Options { index: Index::Always, ..Options::default() };
    let mut left = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = left.empty_tree();
    tree.add(&["k"], b"v").unwrap();
    let first = commit(&mut left, &mut tree, None);
    left.close().unwrap();
    let copy = disk.snapshot();
    let (mut left, mut right) = (open(&disk), open(&copy));
    let mut theirs = left.checkout(&first).unwrap();
    // "b" is in the record of "a", with its hash, and refers to "c".
    fill(&mut theirs, &["a", "b", "c"]);
    let theirs = commit(&mut left, &mut theirs, Some(first));
    let theirs = left.checkout(&theirs).unwrap().find_tree(&["a"]).unwrap().unwrap();
    // This store has what "c" has, at another offset.
    let mut tree = right.checkout(&first).unwrap();
    tree.add(&["pad"], &[9; 500]).unwrap();
    let base = commit(&mut right, &mut tree, Some(first));
    fill(&mut tree, &["other"]);
    let base = commit(&mut right, &mut tree, Some(base));
    let mut tree = right.checkout(&base).unwrap();
    tree.add_tree(&["z"], &theirs).unwrap();
    let expected = rebuilt(&tree);
    let name = format!("{}0", "n".repeat(40));
    let (_, found) =
        varvite::proof::record(&tree, |tree| tree.find(&["z", "b", "c", &name])).unwrap();
    assert_eq!(found, Some(vec![0; 10]));
    let before = right.stats().objects;
    let last = commit(&mut right, &mut tree, Some(base));
    assert_eq!(right.stats().objects, before + 1, "the root: what \"c\" has was there");
    assert_eq!(rebuilt(&right.checkout(&last).unwrap()), expected);
    assert!(right.check().unwrap().index_faults.is_empty());
}

#[test]
fn what_is_adopted_counts_towards_the_memory_of_the_tree() {
    let disk = MemoryDisk::seeded(1);
    let (left, first) = store(&disk, Index::Minimal);
    let copy = disk.snapshot();
    drop(left);
    let mut left = open(&disk);
    let options = Options { tree_bytes: 256 << 10, ..Options::default() };
    let mut right = Store::open(copy as Arc<dyn Disk>, options).unwrap();
    let mut tree = right.checkout(&first).unwrap();
    let spilled = written(&mut right, |_| {
        for number in 0..40 {
            let mut theirs = left.checkout(&first).unwrap();
            change(&mut theirs, number);
            let theirs = commit(&mut left, &mut theirs, Some(first));
            let part = left.checkout(&theirs).unwrap().find_tree(&["index"]).unwrap().unwrap();
            tree.add_tree(&[format!("{number}")], &part).unwrap();
        }
    });
    assert!(spilled > 0, "more than the tree may hold was added");
    let expected = rebuilt(&tree);
    let last = commit(&mut right, &mut tree, Some(first));
    assert_eq!(right.checkout(&last).unwrap().hash().unwrap(), expected);
}

#[test]
fn a_tree_from_before_the_store_was_cleared_is_copied() {
    let disk = MemoryDisk::seeded(1);
    let (mut store, first) = store(&disk, Index::Minimal);
    let old = store.checkout(&first).unwrap();
    store.clear().unwrap();
    let mut tree = store.empty_tree();
    change(&mut tree, 1);
    let last = commit(&mut store, &mut tree, None);
    let mut both = store.checkout(&last).unwrap();
    both.add_tree(&["old"], &old).unwrap();
    let expected = rebuilt(&both);
    let last = commit(&mut store, &mut both, None);
    assert_eq!(rebuilt(&store.checkout(&last).unwrap()), expected);
    drop(store);
    let store = open(&disk);
    assert_eq!(rebuilt(&store.checkout(&last).unwrap()), expected);
    store.check().unwrap();
}

/// Places of one copy are the midst of records of the other: what their bytes seem to say costs nothing.
#[test]
fn a_copy_whose_records_lie_elsewhere_is_adopted_at_the_cost_of_what_it_is() {
    let disk = MemoryDisk::seeded(1);
    let (left, first) = store(&disk, Index::Minimal);
    left.close().unwrap();
    let copy = disk.snapshot();
    let reads: Arc<Mutex<[u64; 3]>> = Arc::default();
    let counts = Arc::clone(&reads);
    let counted = HookedDisk::counting_reads(disk, move |path, bytes| {
        let mut counts = counts.lock().unwrap();
        counts[0] += bytes as u64;
        counts[1] += u64::from(path == "control");
        counts[2] = counts[2].max(bytes as u64);
    });
    let options = Options { pages_bytes: 0, ..Options::default() };
    let mut left = Store::open(counted, options).unwrap();
    let mut right = open(&copy);
    let mut random = Random::new(5);
    let mut tree = left.checkout(&first).unwrap();
    for number in 0..20_000 {
        tree.add(&["ours", &format!("{number:05}")], &random.bytes(90)).unwrap();
    }
    commit(&mut left, &mut tree, Some(first));
    let mut tree = right.checkout(&first).unwrap();
    for number in 0..1_000_u64 {
        let length = 33 + random.below(70) as usize;
        tree.add(&["theirs", &format!("{number:05}")], &random.bytes(length)).unwrap();
    }
    let theirs = commit(&mut right, &mut tree, Some(first));
    let mut tree = right.checkout(&theirs).unwrap();
    let expected = rebuilt(&tree);
    *reads.lock().unwrap() = [0; 3];
    let last = commit(&mut left, &mut tree, Some(theirs));
    let [bytes, control, longest] = *reads.lock().unwrap();
    assert_eq!(control, 0, "nothing is damaged or has moved");
    assert!(bytes < 400_000 && longest <= 64 << 10, "{bytes} bytes read, {longest} at once");
    assert_eq!(left.checkout(&last).unwrap().hash().unwrap(), expected);
}

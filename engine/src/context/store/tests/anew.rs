//! Bases that nothing but patches needs go, and what was a patch of them is written anew.

use super::{
    Arc, CommitHash, CommitInfo, Disk, Index, MemoryDisk, Options, State, Store, Tag, Tree,
};

fn options(index: Index) -> Options {
    Options { chunk_bytes: 1 << 20, objects_bytes: 1 << 20, ..super::options(index) }
}

/// Commits `tree` with one of its forty entries changed.
fn change(store: &mut Store, tree: &mut Tree, number: u64) -> CommitHash {
    tree.add(&["d", &format!("{:02}", number * 7 % 40)], &[number as u8; 8]).unwrap();
    store.commit(tree, &CommitInfo::new(&[], number as i64, "a", "b")).unwrap()
}

/// A store of commits 0 to 5, each but the first a patch, and the tree of the last.
fn patched(disk: &Arc<MemoryDisk>, index: Index) -> (Store, Vec<CommitHash>, Tree) {
    let shared = Arc::clone(disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared, options(index)).unwrap();
    let mut tree = store.empty_tree();
    for entry in 0..40 {
        tree.add(&["d", &format!("{entry:02}")], &[0; 8]).unwrap();
    }
    let commits = (0..6).map(|number| change(&mut store, &mut tree, number)).collect();
    (store, commits, tree)
}

fn collect(store: &mut Store, target: &CommitHash) {
    store.collect(target).unwrap();
    while store.collect_step(1).unwrap() {}
}

/// How many records of old chunks are only bases, and how many are patches.
fn kept(store: &Store) -> (usize, usize) {
    let (mut bases, mut patches) = (0, 0);
    for chunk in store.pack.chunks() {
        if !matches!(chunk.state, State::Sparse(_)) {
            continue;
        }
        for (offset, is_object) in store.pack.kept_records(&chunk).unwrap() {
            bases += usize::from(!is_object);
            let tag = store.pack.record(offset, |_, _, record| Ok(record.tag)).unwrap();
            let is_patch = matches!(tag, Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch);
            patches += usize::from(is_patch);
        }
    }
    (bases, patches)
}

/// Expects entry `number` of `commit` to be that of commit `of`.
fn expect(store: &Store, commit: &CommitHash, number: u64, of: u8) {
    let tree = store.checkout(commit).unwrap();
    let found = tree.find(&["d", &format!("{:02}", number * 7 % 40)]).unwrap();
    assert_eq!(found, Some(vec![of; 8]));
}

#[test]
fn a_chain_of_which_one_record_stays_becomes_that_record_in_full() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let (mut store, commits, mut tree) = patched(&disk, index);
        // In memory these know the base of their record.
        let mut held = store.checkout(&commits[5]).unwrap();
        held.add(&["d", "01"], b"held").unwrap();
        collect(&mut store, &commits[5]);
        assert_eq!(kept(&store), (0, 0));
        expect(&store, &commits[5], 3, 3);
        let next = change(&mut store, &mut tree, 6);
        let other = store.commit(&mut held, &CommitInfo::new(&[], 7, "a", "b")).unwrap();
        assert_eq!(store.check().unwrap().commits, 3);
        store.close().unwrap();
        let store = Store::open(disk, options(index)).unwrap();
        expect(&store, &next, 6, 6);
        expect(&store, &next, 5, 5);
        expect(&store, &other, 4, 4);
        assert_eq!(store.check().unwrap().commits, 3);
    }
}

#[test]
fn a_base_of_two_patches_stays_until_one_of_them_goes() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let (mut store, commits, mut tree) = patched(&disk, index);
        store.pin(&commits[2]).unwrap();
        collect(&mut store, &commits[5]);
        // The last was a patch of a patch: now both are patches of the first.
        assert_eq!(kept(&store), (1, 2));
        change(&mut store, &mut tree, 6);
        let newest = change(&mut store, &mut tree, 7);
        expect(&store, &newest, 5, 5);
        collect(&mut store, &newest);
        assert_eq!(kept(&store), (1, 2), "that between is not needed");
        for store in [&store, &Store::open_read_only(disk.snapshot(), options(index)).unwrap()] {
            expect(store, &commits[2], 2, 2);
            expect(store, &commits[2], 5, 0);
            expect(store, &newest, 5, 5);
            expect(store, &newest, 7, 7);
            assert_eq!(store.check().unwrap().commits, 2);
        }
        assert!(store.unpin(&commits[2]).unwrap());
        collect(&mut store, &newest);
        assert_eq!(kept(&store), (0, 0));
        expect(&store, &newest, 5, 5);
        assert_eq!(store.check().unwrap().commits, 1);
    }
}

/// What was a base that goes when marking had passed it stays when a commit refers to it after all.
#[test]
fn a_base_that_a_commit_refers_to_while_marking_stays() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let (mut store, commits, mut tree) = patched(&disk, index);
        let mut old = store.checkout(&commits[0]).unwrap();
        store.collect(&commits[5]).unwrap();
        let marks_all = |store: &Store| {
            let tip = store.tip().unwrap();
            let mut writer = tip.writer().unwrap();
            let collection = writer.collection.as_mut().unwrap();
            while !collection.marks.go_on(&store.pack, 1).unwrap().1 {}
        };
        marks_all(&store);
        old.add(&["other"], b"o").unwrap();
        let other = store.commit(&mut old, &CommitInfo::new(&[], 9, "a", "b")).unwrap();
        while store.collect_step(1).unwrap() {}
        let newest = change(&mut store, &mut tree, 6);
        for store in [&store, &Store::open_read_only(disk.snapshot(), options(index)).unwrap()] {
            expect(store, &other, 5, 0);
            expect(store, &commits[5], 5, 5);
            expect(store, &newest, 6, 6);
            assert_eq!(store.check().unwrap().commits, 3);
        }
    }
}

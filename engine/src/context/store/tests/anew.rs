//! Bases that nothing but patches needs go, and what was a patch of them is written anew.

use super::{
    Arc, CommitHash, CommitInfo, Disk, Encoder, Index, Kind, MemoryDisk, Options, PATCHES_MAX,
    State, Store, Tag, Tree,
};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::record::Record;

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

/// What is written on a record counts its patches on from those that the record stands for, since they may come back.
#[test]
fn a_record_anew_counts_as_many_patches_as_the_chain_whose_place_it_takes() {
    for index in [Index::Minimal, Index::Always] {
        // The same store, whose offsets are the same, but for the collection.
        let (plain, ..) = patched(&MemoryDisk::seeded(1), index);
        let (mut store, commits, mut tree) = patched(&MemoryDisk::seeded(1), index);
        store.pin(&commits[2]).unwrap();
        collect(&mut store, &commits[5]);
        let mut stand = Vec::new();
        for chunk in store.pack.chunks() {
            if !matches!(chunk.state, State::Sparse(_)) {
                continue;
            }
            for (offset, _) in store.pack.kept_records(&chunk).unwrap() {
                let what = |_: &str, _, record: &Record<'_>| Ok((record.tag, record.stands_for));
                let (tag, stands_for) = store.pack.record(offset, what).unwrap();
                if tag.is_object() && tag != Tag::Value {
                    let [before, after] = [&plain, &store].map(|store| {
                        let node = store.pack.uncached(&options(index)).read_node(offset).unwrap();
                        (node.base.unwrap().patches, node.hash.get().copied())
                    });
                    assert_eq!(before, after, "{tag:?}");
                    stand.extend((stands_for > 0).then_some(stands_for));
                    assert!(stands_for == 0 || stands_for == before.0, "{tag:?}");
                }
            }
        }
        assert!(!stand.is_empty());
        for number in 6..40 {
            change(&mut store, &mut tree, number);
        }
        store.check().unwrap();
    }
}

#[test]
fn a_record_that_stands_for_fewer_patches_than_it_is_read_from_is_damage() {
    let (store, ..) = patched(&MemoryDisk::seeded(1), Index::Minimal);
    let chunks = store.pack.chunks();
    let end = chunks[0].logical_end();
    // A patch that is there, as the base of others that change its first entry.
    let is_patch = |offset: &u64| store.pack.record(*offset, |_, _, record| Ok(record.tag)).ok();
    let base = (0..end).rev().find(|offset| is_patch(offset) == Some(Tag::FlatPatch)).unwrap();
    let patches = store.pack.read_node(base).unwrap().base.unwrap().patches;
    assert!(patches > 0);
    let mut body = Encoder::new();
    body.varint(end - base);
    body.varint(0);
    body.raw(&[8, 1, 2, 3, 4, 5, 6, 7, 8]);
    for stands_for in 0..16 {
        let record = Record {
            tag: Tag::FlatPatch,
            stands_for,
            hash: [1; 32],
            body: body.bytes(),
            length: 0,
        };
        let node = store.pack.node_of("f", 0, end, &record);
        if stands_for == 0 || (patches + 1..=PATCHES_MAX).contains(&stands_for) {
            let expected = if stands_for == 0 { patches + 1 } else { stands_for };
            assert_eq!(node.unwrap().base.unwrap().patches, expected);
        } else {
            assert_eq!(node.unwrap_err().kind(), Kind::Corrupt, "{stands_for}");
        }
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

#[test]
fn a_chunk_may_take_many_times_its_bytes_once_its_patches_are_written_anew() {
    let disk = MemoryDisk::seeded(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared, options(Index::Minimal)).unwrap();
    let mut tree = store.empty_tree();
    let path = |directory: u32, entry: u32| {
        [format!("{directory:04}"), format!("one of those with a long name {entry:020}")]
    };
    let all = (0..800).flat_map(|directory| (0..40).map(move |entry| (directory, entry)));
    all.for_each(|(directory, entry)| tree.add(&path(directory, entry), b"old").unwrap());
    store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap();
    store.begin_chunk().unwrap();
    (0..800).for_each(|directory| tree.add(&path(directory, 7), b"new").unwrap());
    let newest = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    store.collect(&newest).unwrap();
    while store.collect_step(1_000).unwrap() {}
    // Control files once had no room for more than twice the chunk and a mebibyte.
    let grown = |it: &Arc<Chunk>| it.end() > 2 * (it.logical_end() - it.base) + (1 << 20);
    assert!(store.pack.chunks().iter().any(grown));
    store.close().unwrap();
    let store = Store::open(disk, options(Index::Minimal)).unwrap();
    let tree = store.checkout(&newest).unwrap();
    assert_eq!(tree.find(&path(799, 7)).unwrap(), Some(b"new".to_vec()));
    assert_eq!(tree.find(&path(799, 8)).unwrap(), Some(b"old".to_vec()));
    assert_eq!(store.check().unwrap().commits, 1);
}

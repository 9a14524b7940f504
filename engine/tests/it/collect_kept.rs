//! What is kept of a collected store is used as that of any other: exported to Irmin, proven, cleared beside a reader.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Configuration, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack as irmin;
use varvite::proof::{Kinded, record};

use crate::context_collect::{Content, content};

fn options() -> Options {
    Options { seed: Some(9), chunk_bytes: 6_000, ..Options::default() }
}

/// Forty commits, each a few changes of a directory that is patched again and again.
fn store(disk: &Arc<MemoryDisk>) -> (Store, Vec<CommitHash>, Vec<Content>) {
    let shared = Arc::clone(disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared, options()).unwrap();
    let mut tree = store.empty_tree();
    let (mut commits, mut contents) = (Vec::new(), Vec::new());
    for date in 0..40_u8 {
        for change in 0..if date == 0 { 120 } else { 5 } {
            let name = format!("{:03}", (u32::from(date) * 29 + change * 13) % 120);
            tree.add(&["data", &name, "balance"], &[date; 9]).unwrap();
        }
        let parents: Vec<CommitHash> = commits.last().copied().into_iter().collect();
        let info = CommitInfo::new(&parents, date.into(), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
        contents.push(content(&tree).unwrap());
    }
    (store, commits, contents)
}

fn collect(store: &mut Store, target: &CommitHash) {
    store.collect(target).unwrap();
    while store.collect_step(50).unwrap() {}
}

#[test]
fn a_collected_store_is_exported_to_irmin_with_what_was_kept() {
    let disk = MemoryDisk::seeded(1);
    let (mut store, commits, contents) = store(&disk);
    store.pin(&commits[4]).unwrap();
    collect(&mut store, &commits[20]);
    collect(&mut store, &commits[30]);
    let target = MemoryDisk::seeded(1);
    let (out, scratch): (Arc<dyn Disk>, Arc<dyn Disk>) =
        (Arc::<MemoryDisk>::clone(&target), MemoryDisk::seeded(1));
    let exported = irmin::export(&store, &out, &scratch, &mut |_| Ok(())).unwrap();
    let kept: Vec<usize> = [4].into_iter().chain(30..40).collect();
    assert_eq!(exported.commits, kept.len() as u64);
    let verify = irmin::Options { verify: irmin::Verify::Hashes, ..Default::default() };
    let theirs = irmin::open(out, &verify).unwrap();
    assert_eq!(theirs.log(usize::MAX).unwrap().len(), kept.len());
    for number in kept {
        let tree = theirs.checkout(&commits[number]).unwrap();
        assert_eq!(content(&tree).unwrap(), contents[number], "commit {number}");
    }
}

#[test]
fn what_a_kept_commit_holds_is_proven_as_before() {
    let disk = MemoryDisk::seeded(1);
    let (mut store, commits, contents) = store(&disk);
    let look = |store: &Store| {
        let tree = store.checkout(&commits[35]).unwrap();
        let (recording, found) = record(&tree, |tree| {
            tree.add(&["data", "007", "balance"], b"new")?;
            tree.find(&["data", "055", "balance"])
        })
        .unwrap();
        (recording.tree_proof().unwrap(), recording.stream_proof().unwrap(), found)
    };
    let before = look(&store);
    collect(&mut store, &commits[33]);
    let after = look(&store);
    assert_eq!(before, after);
    let path = [&b"data"[..], b"055", b"balance"].map(<[u8]>::to_vec);
    assert_eq!(after.2.as_ref(), contents[35].get(&path[..]));
    let root = Kinded::of(&store.checkout(&commits[35]).unwrap()).unwrap();
    let found = after.0.verify(Configuration::TEZOS, root, |tree| {
        tree.add(&["data", "007", "balance"], b"new")?;
        tree.find(&["data", "055", "balance"])
    });
    assert_eq!(found.unwrap(), after.2);
}

/// A reader notices the new epoch when it reloads, wherever the collection was, and trees that it holds stay.
#[test]
fn a_clearing_beside_a_collection_is_noticed_by_readers() {
    for steps in [0, 1, 3, 10, 30, 100, 1_000] {
        let disk = MemoryDisk::seeded(1);
        let (mut store, commits, contents) = store(&disk);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let mut reader = Store::open_read_only(shared, options()).unwrap();
        let held = reader.checkout(&commits[39]).unwrap();
        store.collect(&commits[30]).unwrap();
        for _ in 0..steps {
            store.collect_step(10).unwrap();
        }
        store.clear().unwrap();
        let mut tree = store.empty_tree();
        tree.add(&["fresh"], b"epoch").unwrap();
        let fresh = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
        assert!(reader.exists(&commits[39]).unwrap(), "until it reloads");
        assert_eq!(content(&held).unwrap(), contents[39], "{steps} steps");
        reader.reload().unwrap();
        assert_eq!(reader.log(9).unwrap(), [fresh]);
        assert!(!reader.exists(&commits[39]).unwrap());
        assert_eq!(reader.stats().generation, 0, "nothing was collected in this epoch");
        collect(&mut store, &fresh);
        reader.reload().unwrap();
        assert_eq!(reader.check().unwrap().commits, 1);
    }
}

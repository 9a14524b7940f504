//! What a collection writes anew is believed from then on, so it is what was there.

use std::sync::Arc;

use crate::context::files::collecting::marks::{Marks, Merging};
use crate::context::files::collecting::rewrite::merged;
use crate::context::files::control::{Control, Horizon};
use crate::context::files::hash_index::SweepStage;
use crate::context::files::record::{Record, Tag};
use crate::context::hash::{self, CommitHash};
use crate::context::options::{Index, Options};
use crate::context::pieces::kept::Kept;
use crate::context::pieces::node::Known;
use crate::context::store::collection::Sifting;
use crate::context::store::{CommitInfo, Store};
use crate::context::tree::Tree;
use crate::disk::Disk;
use crate::disk::memory::MemoryDisk;
use crate::disk::sim::{Fault, SimDisk};
use crate::error::Kind;
use crate::sync::lock;

fn root(store: &Store, commit: &CommitHash) -> u64 {
    store.commit_at(store.commit_offset(commit).unwrap()).unwrap().1.root
}

#[test]
fn a_node_that_is_wrong_in_memory_or_has_another_hash_is_not_written_anew() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    for name in 0..20_u8 {
        tree.add(&[format!("n{name:02}")], &[name; 60]).unwrap();
    }
    let mut change = |tree: &mut Tree, value: u8| {
        tree.add(&["n03"], &[value; 60]).unwrap();
        let info = CommitInfo::new(&[], i64::from(value), "a", "b");
        let commit = store.commit(tree, &info).unwrap();
        root(&store, &commit)
    };
    let first = change(&mut tree, 50);
    let (second, third) = (change(&mut tree, 51), change(&mut tree, 52));
    let pack = &store.pack;
    // Nothing stays, so that all bases go.
    let marks = Marks::begin(pack, third + 1, &[], None, Merging::Ahead).unwrap();
    let written = |hash| {
        pack.record(second, |file, place, record| {
            assert_eq!(record.tag, Tag::FlatPatch);
            let record = Record { hash, ..*record };
            merged(pack, &marks, (file, place), second, &record)
        })
    };
    let hash = pack.record(second, |_, _, record| Ok(record.hash)).unwrap();
    let right = written(hash).unwrap().0;
    assert!(right.is_some());
    let mut other = Arc::new(pack.read_node(third).unwrap());
    let wrong = Kept::new(&mut other, &mut Vec::new(), &pack.spares);
    pack.objects.insert(first, wrong);
    assert_eq!(written(hash).unwrap().0, right);
    let value = |name| [if name == 3 { 51 } else { name }; 60];
    let hashes = (0..20).map(|name| hash::value(&value(name))).collect();
    pack.keep_hashes(second, Known::Own(hashes), false);
    assert_eq!(written(hash).unwrap().0, right);
    assert_eq!(written([7; 32]).unwrap_err().kind(), Kind::Corrupt);
    // What memory has of the children is wrong: it is forgotten, and the disk tells.
    drop(pack.hashes.take(second));
    pack.keep_hashes(second, Known::Own(vec![[9; 32]; 20]), false);
    assert_eq!(written(hash).unwrap().0, right);
    assert!(pack.hashes.get(second).is_none(), "what is wrong is used no more");
    pack.keep_hashes(second, Known::Own(vec![[9; 32]; 20]), false);
    assert_eq!(written([7; 32]).unwrap_err().kind(), Kind::Corrupt);
}

/// A store that is read past damage is read so for that alone: a control file that says a place without a commit is wrong.
#[test]
fn a_horizon_where_no_commit_is_opens_to_nobody() {
    let disk = SimDisk::new(3);
    let place = Arc::clone(&disk) as Arc<dyn Disk>;
    let mut store = Store::create(Arc::clone(&place), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    let mut commits = Vec::new();
    for number in 0..5_u8 {
        tree.add(&["a"], &[number; 60]).unwrap();
        let info = CommitInfo::new(&[], i64::from(number), "a", "b");
        let commit = store.commit(&mut tree, &info).unwrap();
        commits.push((store.commit_offset(&commit).unwrap(), root(&store, &commit)));
    }
    store.close().unwrap();
    let control = Control::read(&*place).unwrap();
    let opened = |commit: u64, sequence: u64| {
        let horizon = Horizon { commit, offset: commit, sequence, kept: Vec::new() };
        Control { horizon, ..control.clone() }.replace(&place).unwrap();
        [
            Store::open_read_only(Arc::clone(&place), Options::default()),
            Store::open(Arc::clone(&place), Options::default()),
        ]
    };
    assert!(opened(commits[2].0, 2).iter().all(Result::is_ok));
    for (commit, sequence) in [(commits[2].0, 3), (commits[2].1, 2), (commits[2].0 + 1, 2)] {
        for outcome in opened(commit, sequence) {
            assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt, "{commit}, {sequence}");
        }
    }
}

#[test]
fn on_a_full_disk_the_file_of_hashes_makes_room_for_a_collection() {
    let disk = SimDisk::new(3);
    let options = Options {
        hashes_bytes: 40_000,
        hashes_file_bytes: 1 << 20,
        objects_bytes: 1 << 20,
        chunk_bytes: 100_000,
        ..Options::default()
    };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = store.empty_tree();
    let name = |number: u64| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..3_000 {
        tree.add(&["index", &name(number)], &[number as u8; 50]).unwrap();
    }
    let mut commit = store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap();
    for number in 1..60_u64 {
        let mut tree = store.checkout(&commit).unwrap();
        tree.add(&["index", &name(number * 977 % 3_000)], &[7; 50]).unwrap();
        let info = CommitInfo::new(&[commit], number as i64, "a", "b");
        commit = store.commit(&mut tree, &info).unwrap();
    }
    let has_file = |store: &Store| store.pack.evicted_hashes.file().is_some();
    assert!(has_file(&store));
    store.collect(&commit).unwrap();
    let writes = |store: &Store| {
        let tip = store.tip.as_ref().unwrap();
        let writer = lock(&tip.writer);
        let collection = writer.collection.as_ref().unwrap();
        matches!(collection.sifting, Some(Sifting::Rewriting(_)))
    };
    while !writes(&store) {
        assert!(store.collect_step(1).unwrap());
    }
    assert!(has_file(&store));
    disk.fail_at(1, Fault::Space);
    while store.collect_step(50).unwrap() {}
    assert!(!has_file(&store), "it takes no space any more");
    assert_eq!(store.warnings(), Vec::<String>::new(), "the collection goes on as it was");
    assert_eq!(store.check().unwrap().commits, 1);
}

/// A merge of the index of all objects begins, and is saved, in steps of their own.
#[test]
fn what_is_done_whole_with_the_index_has_a_step_of_its_own() {
    let options = Options { index: Index::Always, chunk_bytes: 100_000, ..Options::default() };
    let disk = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let (mut tree, mut commits) = (store.empty_tree(), Vec::new());
    for date in 0..60_u8 {
        for name in 0..60_u8 {
            let value = [[date; 20], [name; 20]].concat();
            tree.add(&["a".to_owned(), name.to_string()], &value).unwrap();
        }
        let info = CommitInfo::new(&[], i64::from(date), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    store.collect(&commits[58]).unwrap();
    let stage = |store: &Store| {
        let tip = store.tip().unwrap();
        let writer = tip.writer().unwrap();
        let sweep = writer.collection.as_ref().and_then(|it| it.sweep.as_ref());
        sweep.map(|sweep| sweep.stage)
    };
    let saved = || {
        let is_snapshot = |name: &String| name.starts_with("index") && name.ends_with(".snapshot");
        disk.files().into_iter().filter(is_snapshot).collect::<Vec<_>>()
    };
    assert_eq!(saved().len(), 1);
    let mut steps = Vec::new();
    loop {
        let (before, place) = (stage(&store), saved());
        let goes_on = store.collect_step(64).unwrap();
        let is_saved = place != saved();
        if before.is_some() {
            assert_eq!(is_saved, before == Some(SweepStage::Saving));
        }
        steps.push((before, stage(&store)));
        if !goes_on {
            break;
        }
    }
    let count = |stage| steps.iter().filter(|(before, _)| *before == Some(stage)).count();
    assert!(count(SweepStage::Walking) > 10 && count(SweepStage::Merging) > 10, "{steps:?}");
    assert_eq!((count(SweepStage::Beginning), count(SweepStage::Saving)), (1, 1), "{steps:?}");
    let ended = steps.iter().find(|(before, after)| before.is_some() && after.is_none());
    assert_eq!(ended, Some(&(Some(SweepStage::Saving), None)));
}

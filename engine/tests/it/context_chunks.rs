//! Chunks say of themselves who they are: a control file that is older than the pack, or of a store
//! with the same identity, never costs a commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use varvite::context::{CommitInfo, Durability, Hash, Index, Options, Store, Tree, inspect};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::error::Kind;

use crate::context_story::{ACTS, Tale, Told, go_on, holds, options};
use crate::random::Random;

/// The story on a disk, with every control file that there was since the store was there.
fn told(index: Index, mut each: impl FnMut(&Arc<MemoryDisk>, &[Vec<u8>], &Told)) {
    let disk = MemoryDisk::seeded(1);
    let options = options(index, Durability::Synced);
    let mut tale = Tale::new(Arc::clone(&disk) as Arc<dyn Disk>, &options);
    let mut controls: Vec<Vec<u8>> = Vec::new();
    for act in ACTS {
        tale.act(*act).unwrap();
        let control = disk.bytes("control").unwrap();
        if !controls.contains(&control) {
            controls.push(control);
        }
        each(&disk, &controls, &tale.told);
    }
}

#[test]
fn every_older_control_file_put_back_leaves_every_commit_there() {
    for index in [Index::Minimal, Index::Always] {
        let mut opened = 0;
        told(index, |disk, controls, told| {
            for (number, control) in controls.iter().enumerate() {
                let copy = disk.snapshot();
                copy.replace("control", control.clone()).unwrap();
                let shared = Arc::clone(&copy) as Arc<dyn Disk>;
                let options = options(index, Durability::Synced);
                let mut reader = Store::open_read_only(Arc::clone(&shared), options.clone())
                    .unwrap_or_else(|error| panic!("control {number}: {error}"));
                holds(&reader, told).unwrap();
                let mut store = Store::open(Arc::clone(&shared), options.clone()).unwrap();
                holds(&store, told).unwrap();
                let checked = store.check().unwrap();
                assert_eq!(checked.commits, told.commits.len() as u64, "control {number}");
                assert_eq!(checked.index_faults, Vec::<String>::new());
                let after = go_on(&mut store, told, 500).unwrap();
                reader.reload().unwrap();
                holds(&reader, &after).unwrap();
                drop(store);
                let store = Store::open(shared, options).unwrap();
                holds(&store, &after).unwrap();
                opened += 1;
            }
        });
        assert!(opened > 100, "{opened}");
    }
}

/// A store of some chunks and its answers: equal seeds give equal layouts of other content.
fn one_of_a_seed(index: Index, content: u64) -> (Arc<MemoryDisk>, Vec<(Hash, Vec<u8>)>) {
    let disk = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 1_500, ..options(index, Durability::Synced) };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let (mut random, mut known) = (Random::new(content), Vec::new());
    for number in 0..40 {
        let mut tree = match known.last() {
            Some((last, _)) => store.checkout(last).unwrap(),
            None => store.empty_tree(),
        };
        let value = random.bytes(30);
        tree.add(&["data", &format!("{}", number % 9)], &value).unwrap();
        tree.add(&["last"], &value).unwrap();
        let hash = store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
        known.push((hash, value));
    }
    store.close().unwrap();
    (disk, known)
}

fn finds(store: &Store, known: &[(Hash, Vec<u8>)]) -> varvite::Result<()> {
    assert_eq!(store.log(99)?.len(), known.len());
    for (hash, value) in known {
        assert!(store.exists(hash)?, "a commit is there and is said not to be");
        assert_eq!(store.checkout(hash)?.find(&["last"])?.as_ref(), Some(value));
    }
    Ok(())
}

#[test]
fn files_of_two_stores_of_one_seed_are_told_apart() {
    for index in [Index::Minimal, Index::Always] {
        let ((ours, known), (theirs, _)) = (one_of_a_seed(index, 1), one_of_a_seed(index, 2));
        let names = ours.files();
        assert!(names.iter().filter(|name| name.ends_with(".pack")).count() > 3);
        let options = options(index, Durability::Synced);
        for name in names.iter().filter(|name| !name.starts_with("index/") && *name != "lock") {
            let copy = ours.snapshot();
            copy.replace(name, theirs.bytes(name).unwrap()).unwrap();
            let opened = Store::open_read_only(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
            let error = opened.and_then(|store| finds(&store, &known)).unwrap_err();
            assert!([Kind::Invalid, Kind::Corrupt].contains(&error.kind()), "{name}: {error}");
            let before = copy.files();
            let opened = Store::open(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
            let error = opened.map(drop).unwrap_err();
            assert!(error.detail().contains(".pack"), "{name}: {error}");
            let packs = |names: Vec<String>| names.into_iter().filter(|one| one.ends_with(".pack"));
            assert!(packs(before).eq(packs(copy.files())), "nothing is removed");
        }
        // The whole index of the other: what it does not know is no answer.
        let copy = ours.snapshot();
        for name in names.iter().filter(|name| name.starts_with("index/")) {
            copy.remove(name).unwrap();
        }
        for name in theirs.files().iter().filter(|name| name.starts_with("index/")) {
            copy.replace(name, theirs.bytes(name).unwrap()).unwrap();
        }
        let store = Store::open_read_only(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
        finds(&store.unwrap(), &known).unwrap();
        let store = Store::open(copy, options.clone()).unwrap();
        finds(&store, &known).unwrap();
        assert_eq!(store.warnings().len(), 1, "{:?}", store.warnings());
        assert!(store.check().unwrap().index_faults.is_empty());
    }
}

/// What the control file says, by name.
fn fields(disk: &MemoryDisk) -> BTreeMap<String, String> {
    let outline = inspect::control("control", &disk.bytes("control").unwrap());
    let store = outline.children.into_iter().find(|child| child.label == "store").unwrap();
    store.fields.into_iter().collect()
}

fn chunks(disk: &MemoryDisk) -> u64 {
    disk.files().iter().filter(|name| name.ends_with(".pack")).count() as u64
}

#[test]
fn a_tree_that_only_spills_begins_chunks_and_what_is_scanned_stays_bounded() {
    let disk = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 2_000, ..options(Index::Minimal, Durability::Synced) };
    drop(Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap());
    let mut random = Random::new(3);
    for round in 0..30_u64 {
        // Each time the process dies before it commits or closes.
        let store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..if round == 0 { 600 } else { 60_u64 } {
            tree.add(&["data", &format!("{}", random.below(300))], &number.to_le_bytes().repeat(4))
                .unwrap();
        }
        drop((tree, store));
        let from: u64 = fields(&disk)["scan from chunk"].parse().unwrap();
        assert!(chunks(&disk) <= from + 8, "{} chunks, a scan from {from}", chunks(&disk));
    }
    assert!(chunks(&disk) > 50);
    let mut store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
    assert!(store.log(9).unwrap().is_empty());
    let mut tree = Tree::empty(options.configuration);
    tree.add(&["a"], b"b").unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(store);
    let store = Store::open(disk, options).unwrap();
    assert_eq!((store.log(9).unwrap(), store.check().unwrap().commits), (vec![hash], 1));
}

#[test]
fn a_lost_chunk_is_missed_and_nothing_behind_it_removed() {
    let (disk, _) = one_of_a_seed(Index::Minimal, 1);
    let options = options(Index::Minimal, Durability::Synced);
    let first = {
        // A control file of the beginning, so that the chunks must say themselves what is there.
        let empty = MemoryDisk::seeded(1);
        drop(Store::create(Arc::clone(&empty) as Arc<dyn Disk>, options.clone()).unwrap());
        empty.bytes("control").unwrap()
    };
    for control in [first, disk.bytes("control").unwrap()] {
        for number in 0..chunks(&disk) - 1 {
            let copy = disk.snapshot();
            copy.replace("control", control.clone()).unwrap();
            let lost = format!("0000-{number:06}.pack");
            copy.remove(&lost).unwrap();
            let before = copy.files();
            let error = Store::open(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
            let error = error.map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            assert!(error.detail().contains(&lost), "{lost}: {error}");
            let packs = |names: Vec<String>| names.into_iter().filter(|one| one.ends_with(".pack"));
            assert!(packs(before).eq(packs(copy.files())), "nothing is removed");
        }
    }
}

#[test]
fn a_chunk_costs_two_syncs_and_a_checkpoint_one_more() {
    let disk = MemoryDisk::seeded(1);
    let chunk_bytes = 20_000;
    let options = Options { chunk_bytes, ..options(Index::Minimal, Durability::Synced) };
    let mut store = Store::create(disk, options).unwrap();
    let before = store.stats();
    let (mut random, mut tree) = (Random::new(1), store.empty_tree());
    for number in 0..400 {
        tree.add(&["data", &format!("{}", random.below(100))], &random.bytes(900)).unwrap();
        store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
    }
    let after = store.stats();
    let chunks = after.chunks - before.chunks;
    assert!(chunks > 10, "{chunks}");
    assert_eq!(after.index_syncs, before.index_syncs);
    let more = after.syncs - before.syncs - 400;
    assert!(more <= 2 * chunks + chunks / 3, "{more} syncs for {chunks} chunks");
}

#[test]
fn what_is_more_than_the_format_holds_is_refused_with_a_sentence() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"b").unwrap();
    let parents = vec![[1; 32]; 65_537];
    let long = vec![b'x'; (1 << 20) + 1];
    for info in [
        CommitInfo::new(&parents, 0, "a", "b"),
        CommitInfo::new(&[], 0, &long, "b"),
        CommitInfo::new(&[], 0, "a", &long),
    ] {
        let error = store.commit(&mut tree, &info).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.detail().contains("at most"), "{error}");
    }
    let most = CommitInfo::new(&parents[1..], 0, &long[1..], &long[1..]);
    let hash = store.commit(&mut tree, &most).unwrap();
    assert_eq!(store.commit_info(&hash).unwrap().message.len(), 1 << 20);
    for number in 0..5_000_u32 {
        let mut name = vec![b'n'; 4_092];
        name.extend(number.to_be_bytes());
        if let Err(error) = store.set_branch(&name, &hash) {
            assert!(number > 4_000 && error.kind() == Kind::Invalid, "{number}: {error}");
            store
                .set_branch(&[b'n'; 4_092].iter().copied().chain([0; 4]).collect::<Vec<_>>(), &hash)
                .unwrap();
            return;
        }
    }
    panic!("branches without end");
}

//! Collections where something odd came before: a lock that was taken, one cancelled in the middle, commits
//! that are there twice, dates that go back, readers that are behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use varvite::Kind;
use varvite::context::{
    CollectPhase, CommitHash, CommitInfo, Index, Keep, Limits, Merge, Options, Reader, Resolution,
    Sides, Store, Tree,
};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::disk::{Access, Disk, Mode};

use crate::hooked_disk::{Call, HookedDisk};

pub(crate) fn options(index: Index) -> Options {
    Options { index, seed: Some(9), chunk_bytes: 600, ..Options::default() }
}

pub(crate) fn info(date: i64) -> CommitInfo {
    CommitInfo::new(&[], date, "a", "b")
}

/// A commit of values that no other commit has.
pub(crate) fn fill(store: &mut Store, date: i64) -> CommitHash {
    let mut tree = store.empty_tree();
    for place in 0..4_i64 {
        let value = (date * 4 + place).to_le_bytes().repeat(12);
        tree.add(&["data", &format!("{place}")], &value).unwrap();
    }
    store.commit(&mut tree, &info(date)).unwrap()
}

fn clean(store: &mut Store) {
    while store.collect_status().unwrap().phase == CollectPhase::Marking {
        assert!(store.collect_step(1).unwrap());
    }
}

pub(crate) fn finish(store: &mut Store) {
    while store.collect_step(50).unwrap() {}
}

/// Writes an object that goes once more, beside a collection that cleans; returns what that keeps all from, and a tree
/// of before.
pub(crate) fn written_again(store: &mut Store) -> (CommitHash, Tree) {
    let mut tree = store.empty_tree();
    tree.add(&["data", "x"], &[42; 100]).unwrap();
    let first = store.commit(&mut tree, &info(0)).unwrap();
    for date in 1..8 {
        fill(store, date);
    }
    let target = fill(store, 8);
    let old = store.checkout(&first).unwrap();
    store.collect(&target).unwrap();
    clean(store);
    let mut tree = store.checkout(&target).unwrap();
    tree.add(&["data", "x"], &[42; 100]).unwrap();
    store.commit(&mut tree, &info(9)).unwrap();
    (target, old)
}

pub(crate) fn value(tree: &Tree, name: &str) -> Option<Vec<u8>> {
    tree.find(&["data", name]).unwrap()
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn pack_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.contains(".pack") {
            found.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// A folder is replaced by a copy, in which another writer goes on with the same collection.
#[test]
fn a_writer_whose_lock_was_taken_leaves_the_files_of_the_other_alone() {
    let of_two = Options { chunk_bytes: 1_200, ..options(Index::Minimal) };
    for steps in 0..40 {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("store");
        std::fs::create_dir(&folder).unwrap();
        let mut own = Store::create(OsDisk::new(&folder).unwrap(), of_two.clone()).unwrap();
        let commits: Vec<_> = (0..12).map(|date| fill(&mut own, date)).collect();
        commits[..7].iter().for_each(|commit| own.pin(commit).unwrap());
        own.collect(&commits[7]).unwrap();
        finish(&mut own);
        // Of some chunks that are sparse already one of two commits goes.
        for number in [1, 3, 4] {
            assert!(own.unpin(&commits[number]).unwrap());
        }
        own.collect(&commits[9]).unwrap();
        clean(&mut own);
        if (0..steps).any(|_| !own.collect_step(1).unwrap()) {
            break;
        }
        std::fs::rename(&folder, parent.path().join("old")).unwrap();
        copy_folder(&parent.path().join("old"), &folder);
        let mut other = Store::open(OsDisk::new(&folder).unwrap(), of_two.clone()).unwrap();
        finish(&mut other);
        let before = pack_files(&folder);
        let error = loop {
            match own.collect_step(1) {
                Ok(left) => assert!(left, "{steps}: it went on to the end"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), Kind::Poisoned, "{steps}: {error}");
        let after = pack_files(&folder);
        assert!(before.keys().eq(after.keys()), "{steps}: {:?} {:?}", before.keys(), after.keys());
        assert!(before == after, "{steps}: a file has changed");
        other.check().unwrap();
        assert!(other.exists(&commits[0]).unwrap());
    }
}

/// What the index leads to after a collection was cancelled that took away: to a copy, which goes first. A store
/// that is opened again meanwhile, after a crash too, knows that.
#[test]
fn an_object_written_again_beside_a_cancelled_collection_is_no_damage() {
    for opens in [false, true] {
        let options = options(Index::Always);
        let mut sim = SimDisk::new(3);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let mut store = Store::create(disk, options.clone()).unwrap();
        let (_, mut old) = written_again(&mut store);
        assert!(store.collect_cancel().unwrap());
        for date in 10..14 {
            fill(&mut store, date);
        }
        let kept = store.commit(&mut old, &info(14)).unwrap();
        for date in 15..20 {
            fill(&mut store, date);
        }
        if opens {
            drop((store, old));
            sim = sim.crash(Crash::Seed(1));
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            store = Store::open(disk, options.clone()).unwrap();
        }
        store.collect(&kept).unwrap();
        if opens {
            clean(&mut store);
            store.collect_step(1).unwrap();
            drop(store);
            store = Store::open(sim.crash(Crash::Process), options).unwrap();
        }
        finish(&mut store);
        let found = store.checkout(&kept).unwrap();
        assert_eq!(value(&found, "x"), Some(vec![42; 100]));
        // The index led to the later copy, which went.
        let checked = store.check().unwrap();
        assert!(checked.index_faults.is_empty(), "{opens}: {checked:?}");
        let there = found.find_tree(&["data", "x"]).unwrap().expect("it was committed");
        let object = store.find_object(&there.hash().unwrap()).unwrap();
        assert!(object.is_some_and(|object| object.equal(&there).unwrap()), "{opens}");
    }
}

/// Irmin lost a tree that several commits share with one of them (#2106).
#[test]
fn commits_that_share_a_tree_go_each_by_itself() {
    for index in [Index::Minimal, Index::Always] {
        let mut store = Store::create(MemoryDisk::seeded(1), options(index)).unwrap();
        let mut shared = store.empty_tree();
        shared.add(&["data", "x"], &[7; 300]).unwrap();
        let first = store.commit(&mut shared, &info(0)).unwrap();
        fill(&mut store, 1);
        let second = store.commit(&mut shared, &info(2)).unwrap();
        let between = fill(&mut store, 3);
        let third = store.commit(&mut shared, &info(4)).unwrap();
        fill(&mut store, 5);
        store.pin(&second).unwrap();
        for target in [between, third] {
            store.collect(&target).unwrap();
            finish(&mut store);
            let error = store.checkout(&first).unwrap_err();
            assert_eq!(error.kind(), Kind::Collected, "{error}");
            for kept in [second, third] {
                let tree = store.checkout(&kept).unwrap();
                assert_eq!(value(&tree, "x"), Some(vec![7; 300]), "{index:?}");
            }
            assert!(store.check().unwrap().index_faults.is_empty(), "{index:?}");
        }
        assert!(store.unpin(&second).unwrap());
        let last = fill(&mut store, 6);
        store.collect(&last).unwrap();
        finish(&mut store);
        for gone in [second, third] {
            assert_eq!(store.checkout(&gone).unwrap_err().kind(), Kind::Collected);
        }
        let again = store.commit(&mut shared.clone(), &info(7));
        let refused = again.unwrap_err();
        assert_eq!(refused.kind(), Kind::Collected, "{refused}");
        assert_eq!(store.check().unwrap().commits, 1);
    }
}

/// A tree of another handle has what this one is about to take away: it is copied.
#[test]
fn a_tree_of_another_handle_is_committed_while_chunks_are_cleaned() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let mut store = Store::create(Arc::<MemoryDisk>::clone(&disk), options(index)).unwrap();
        let mut tree = store.empty_tree();
        tree.add(&["data", "x"], &[42; 100]).unwrap();
        tree.add(&["data", "y"], &[43; 100]).unwrap();
        let first = store.commit(&mut tree, &info(0)).unwrap();
        for date in 1..9 {
            fill(&mut store, date);
        }
        let reader =
            Store::open_read_only(Arc::<MemoryDisk>::clone(&disk), options(index)).unwrap();
        let target = fill(&mut store, 9);
        store.collect(&target).unwrap();
        clean(&mut store);
        let mut of_reader = reader.checkout(&first).unwrap();
        of_reader.add(&["data", "z"], b"1").unwrap();
        let kept = store.commit(&mut of_reader, &info(10)).unwrap();
        finish(&mut store);
        let found = store.checkout(&kept).unwrap();
        assert_eq!(value(&found, "x"), Some(vec![42; 100]), "{index:?}");
        assert_eq!(value(&found, "y"), Some(vec![43; 100]), "{index:?}");
        assert!(store.check().unwrap().index_faults.is_empty(), "{index:?}");
    }
}

#[test]
fn what_was_given_back_is_what_the_files_had_more() {
    let disk = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 16_000, ..options(Index::Minimal) };
    let mut store = Store::create(Arc::<MemoryDisk>::clone(&disk), options).unwrap();
    let bytes = || {
        let files = disk.files().into_iter().filter(|name| name.contains(".pack"));
        files.map(|name| disk.bytes(&name).unwrap().len() as u64).sum::<u64>()
    };
    let mut freed = 0;
    for round in 0..3 {
        for date in 0..60 {
            fill(&mut store, 100 * round + date);
        }
        let target = store.last_commit().unwrap().unwrap();
        store.collect(&target).unwrap();
        let before = bytes();
        finish(&mut store);
        freed += before - bytes();
        assert_eq!(store.collect_status().unwrap().reclaimed_bytes, freed, "{round}");
    }
    assert!(freed > 60_000, "{freed}");
}

/// Pins are in the control file, which is all that a pin writes.
#[test]
fn a_pin_takes_few_syncs() {
    for index in [Index::Minimal, Index::Always] {
        let mut store = Store::create(MemoryDisk::seeded(1), options(index)).unwrap();
        let commits: Vec<CommitHash> = (0..20).map(|date| fill(&mut store, date)).collect();
        for commit in &commits {
            let before = store.stats().syncs;
            store.pin(commit).unwrap();
            let syncs = store.stats().syncs - before;
            assert!(syncs <= 3, "{index:?}: {syncs}");
        }
        assert_eq!(store.pins().unwrap(), commits);
    }
}

/// An index of all objects that is made again reads a collected chunk in large pieces, as a whole one.
#[test]
fn the_index_of_a_collected_store_is_made_again_with_few_reads() {
    let inner = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 1 << 20, pages_bytes: 0, ..options(Index::Always) };
    let reads = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&reads);
    let disk: Arc<dyn Disk> = HookedDisk::new(inner, move |call, path| {
        if call == Call::Read && path.contains(".pack") {
            counter.fetch_add(1, Relaxed);
        }
    });
    let mut store = Store::create(disk, options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..2000_u64 {
        tree.add(&["data", &format!("{number}"), "x"], &number.to_le_bytes().repeat(9)).unwrap();
    }
    store.commit(&mut tree, &info(0)).unwrap();
    tree.add(&["data", "7", "x"], b"other").unwrap();
    let target = store.commit(&mut tree, &info(1)).unwrap();
    fill(&mut store, 2);
    store.collect(&target).unwrap();
    finish(&mut store);
    let objects = store.stats().objects;
    assert!(objects > 2000, "{objects}");
    reads.store(0, Relaxed);
    store.rebuild_index().unwrap();
    // A page of the mapping for 509 records and a window for 256 KiB, and what an opening reads.
    let reads = reads.load(Relaxed);
    assert!(reads < 60, "{reads} reads for {objects} objects");
    assert_eq!(store.stats().objects, objects);
    assert!(store.check().unwrap().index_faults.is_empty());
}

#[test]
fn of_a_commit_that_is_there_twice_the_newer_record_counts() {
    for loses in [true, false] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let mut store = Store::create(shared, options(Index::Minimal)).unwrap();
        let twice = fill(&mut store, 0);
        for date in 1..5 {
            fill(&mut store, date);
        }
        let target = fill(&mut store, 5);
        store.collect(&target).unwrap();
        assert_eq!(fill(&mut store, 0), twice);
        store.collect_cancel().unwrap();
        store.pin(&twice).unwrap();
        fill(&mut store, 6);
        if loses {
            store.rebuild_index().unwrap();
        } else {
            store.close().unwrap();
            for name in disk.files().iter().filter(|name| name.starts_with("index/")) {
                let file = disk.open(name, Mode::Write, Access::Buffered).unwrap();
                file.set_len(0).unwrap();
            }
            store = Store::open(disk, options(Index::Minimal)).unwrap();
        }
        assert!(store.unpin(&twice).unwrap(), "it is found where it was pinned");
        store.collect(&target).unwrap();
        finish(&mut store);
        assert!(store.exists(&twice).unwrap());
        assert!(value(&store.checkout(&twice).unwrap(), "3").is_some());
        let checked = store.check().unwrap();
        assert!(checked.index_faults.is_empty(), "{checked:?}");
    }
}

#[test]
fn a_date_keeps_all_from_the_oldest_commit_that_is_not_older() {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    let older = fill(&mut store, 10);
    let commits: Vec<_> = [100, 50, 101].iter().map(|date| fill(&mut store, *date)).collect();
    assert!(!store.collect_keeping(&Keep::Since(1)).unwrap());
    assert!(store.collect_keeping(&Keep::Since(80)).unwrap());
    finish(&mut store);
    assert!(commits.iter().all(|commit| store.exists(commit).unwrap()));
    assert!(!store.exists(&older).unwrap());
    assert!(!store.collect_keeping(&Keep::Since(80)).unwrap(), "nothing would go");
}

#[test]
fn a_reader_that_is_behind_does_not_doubt_its_index() {
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared(), options(Index::Minimal)).unwrap();
    let commits: Vec<_> = (0..20).map(|date| fill(&mut store, date)).collect();
    let reader = Options { max_open_files: Some(2), pages_bytes: 0, ..options(Index::Minimal) };
    let reader = Store::open_read_only(shared(), reader).unwrap();
    store.collect(&commits[18]).unwrap();
    finish(&mut store);
    let mut collected = 0;
    for commit in &commits[..18] {
        // What it has open it still reads.
        if let Err(error) = reader.exists(commit) {
            assert_eq!(error.kind(), Kind::Collected, "{error}");
            collected += 1;
        }
    }
    assert!(collected > 9, "{collected}");
    assert!(reader.warnings().is_empty(), "{:?}", reader.warnings());
}

#[test]
fn histories_that_join_before_what_is_kept_are_not_merged_with_nothing() {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    let commit = |store: &mut Store, parents: &[CommitHash], names: &[&str]| {
        let mut tree = store.empty_tree();
        for name in names {
            tree.add(&["data", name], &[7; 40]).unwrap();
        }
        store.commit(&mut tree, &CommitInfo::new(parents, 1, "a", "b")).unwrap()
    };
    let parent = commit(&mut store, &[], &["x", "z"]);
    let ours = commit(&mut store, &[parent], &["z"]);
    let theirs = commit(&mut store, &[parent], &["x", "y", "z"]);
    let later = commit(&mut store, &[theirs], &["y", "z"]);
    let merge = |store: &Store, ours: &CommitHash, theirs: &CommitHash| {
        let resolve = |_: &[Vec<u8>], _: Sides<'_>| Ok(Resolution::Conflict);
        store.merge_commits(ours, theirs, Limits::default(), resolve)
    };
    let Merge::Merged(tree) = merge(&store, &ours, &theirs).unwrap() else { panic!("they merge") };
    assert_eq!((value(&tree, "x"), value(&tree, "y")), (None, Some(vec![7; 40])));
    store.collect(&ours).unwrap();
    finish(&mut store);
    for rebuilt in [false, true] {
        if rebuilt {
            store.rebuild_index().unwrap();
        }
        let error = merge(&store, &ours, &theirs).expect_err("the base is not known");
        assert_eq!(error.kind(), Kind::Collected, "{error}");
        assert!(matches!(merge(&store, &theirs, &later).unwrap(), Merge::FastForward));
    }
    let side = commit(&mut store, &[theirs], &["x", "y", "z", "w"]);
    assert!(matches!(merge(&store, &side, &later).unwrap(), Merge::Merged(_)));
}

#[test]
fn a_commit_that_was_said_to_be_there_stays_after_an_opening() {
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared(), options(Index::Minimal)).unwrap();
    let kept = fill(&mut store, 0);
    for date in 1..5 {
        fill(&mut store, date);
    }
    let target = fill(&mut store, 5);
    store.set_branch(b"b", &kept).unwrap();
    store.collect(&target).unwrap();
    store.remove_branch(b"b").unwrap();
    assert_eq!(fill(&mut store, 0), kept);
    store.close().unwrap();
    let mut store = Store::open(shared(), options(Index::Minimal)).unwrap();
    store.set_branch(b"b", &kept).unwrap();
    finish(&mut store);
    assert!(value(&store.checkout(&kept).unwrap(), "3").is_some());
    store.check().unwrap();
}

#[test]
fn a_pause_holds_until_it_is_lifted() {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    let commits: Vec<_> = (0..6).map(|date| fill(&mut store, date)).collect();
    store.collect_pause().unwrap();
    assert!(!store.collect_keeping(&Keep::Newest(2)).unwrap());
    assert!(store.exists(&commits[0]).unwrap());
    store.collect_resume().unwrap();
    assert!(store.collect_keeping(&Keep::Newest(2)).unwrap());
    finish(&mut store);
    assert!(!store.exists(&commits[0]).unwrap());
}

#[test]
fn what_is_cancelled_leaves_no_file_behind() {
    for clears in [false, true] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let large = Options { chunk_bytes: 200_000, ..options(Index::Minimal) };
        let mut store = Store::create(shared, large).unwrap();
        let commits: Vec<_> = (0..300).map(|date| fill(&mut store, date)).collect();
        store.collect(&commits[150]).unwrap();
        clean(&mut store);
        let in_work = || disk.files().iter().any(|name| name.ends_with("-1.pack"));
        while !in_work() {
            assert!(store.collect_step(1).unwrap());
        }
        if clears {
            store.clear().unwrap();
        } else {
            assert!(store.collect_cancel().unwrap());
        }
        assert!(!in_work(), "{clears}: {:?}", disk.files());
    }
}

/// A collection that meets damage is told of by its steps, and can be cancelled; the store opens.
#[test]
fn damage_that_a_collection_would_meet_keeps_nobody_out() {
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared(), options(Index::Minimal)).unwrap();
    let kept = fill(&mut store, 0);
    let commits: Vec<_> = (1..9).map(|date| fill(&mut store, date)).collect();
    store.set_branch(b"b", &kept).unwrap();
    store.collect(&commits[5]).unwrap();
    store.close().unwrap();
    let path = disk.files().into_iter().find(|name| name.ends_with("000000.pack")).unwrap();
    let mut bytes = disk.bytes(&path).unwrap();
    let place = bytes.windows(32).position(|bytes| bytes == kept.as_bytes()).unwrap();
    bytes[place + 40] ^= 1;
    let file = disk.open(&path, Mode::Write, Access::Buffered).unwrap();
    file.write_at(0, &bytes).unwrap();
    let mut store = Store::open(shared(), options(Index::Minimal)).unwrap();
    let error = loop {
        match store.collect_step(9) {
            Ok(left) => assert!(left, "it ended"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(store.collect_cancel().unwrap());
    assert_eq!(store.collect_status().unwrap().phase, CollectPhase::None);
    fill(&mut store, 20);
    store.close().unwrap();
    let store = Store::open(shared(), options(Index::Minimal)).unwrap();
    assert!(store.exists(&commits[7]).unwrap());
}

/// A rolling node whose first block is pinned: what goes behind it leaves nothing.
#[test]
fn chunks_that_are_gone_behind_one_that_stays_take_no_room() {
    let disk = MemoryDisk::seeded(1);
    let options = options(Index::Minimal);
    let mut store = Store::create(Arc::<MemoryDisk>::clone(&disk), options.clone()).unwrap();
    let first = fill(&mut store, 0);
    store.pin(&first).unwrap();
    let mut reader =
        Store::open_read_only(Arc::<MemoryDisk>::clone(&disk) as Arc<dyn Disk>, options.clone())
            .unwrap();
    let kept = reader.checkout(&first).unwrap();
    let mut sizes = Vec::new();
    for date in 1..300 {
        let commit = fill(&mut store, date);
        store.collect(&commit).unwrap();
        finish(&mut store);
        if date % 50 == 0 {
            assert_eq!(value(&reader.checkout(&first).unwrap(), "0"), value(&kept, "0"));
            reader.reload().unwrap();
        }
        store.checkpoint().unwrap();
        let control = disk.open("control", Mode::Read, Access::Buffered).unwrap();
        sizes.push((control.len().unwrap(), store.stats().chunks));
    }
    let most = sizes[20..40].iter().fold((0, 0), |most, size| most.max(*size));
    assert!(
        sizes[298].0 <= most.0 + 8 && sizes[298].1 <= most.1,
        "{:?} after {most:?}",
        sizes[298]
    );
    assert!(reader.stats().chunks < 20, "{}", reader.stats().chunks);
    store.check().unwrap();
    store.close().unwrap();
    let store = Store::open(disk, options).unwrap();
    assert_eq!(store.stats().chunks, sizes[298].1);
    assert_eq!(value(&store.checkout(&first).unwrap(), "0"), value(&kept, "0"));
    store.check().unwrap();
}

/// Each swap writes the whole control file.
#[test]
fn chunks_of_which_nothing_stays_go_together() {
    let written = |commits: i64| {
        let writes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&writes);
        let disk: Arc<dyn Disk> = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
            if call == Call::Rename && path.contains("control") {
                counter.fetch_add(1, Relaxed);
            }
        });
        let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
        let all: Vec<_> = (0..commits).map(|date| fill(&mut store, date)).collect();
        let kept = all[all.len() / 2];
        store.pin(&kept).unwrap();
        let last = *all.last().expect("there are some");
        store.collect(&last).unwrap();
        writes.store(0, Relaxed);
        finish(&mut store);
        assert!(value(&store.checkout(&kept).unwrap(), "3").is_some());
        store.check().unwrap();
        assert!(store.stats().chunks < 8, "{}", store.stats().chunks);
        store.close().unwrap();
        let store = Store::open(disk, options(Index::Minimal)).unwrap();
        assert!(value(&store.checkout(&kept).unwrap(), "3").is_some());
        store.check().unwrap();
        writes.load(Relaxed)
    };
    let (few, many) = (written(20), written(200));
    assert!(few > 2 && many <= few + 2, "{few}, {many}");
}

/// A host calls it after each block: what fails must leave nothing behind each time.
#[test]
fn a_collection_begins_without_an_index_that_can_be_saved() {
    let fails = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&fails);
    let disk = HookedDisk::failing_writes(MemoryDisk::seeded(1), move |path| {
        asked.load(Relaxed) && path.starts_with("index/")
    });
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    fails.store(true, Relaxed);
    let mut commits: Vec<_> = (0..8).map(|date| fill(&mut store, date)).collect();
    assert!(store.checkpoint().is_err(), "the index cannot be saved");
    let chunks = store.stats().chunks;
    for round in 0..20 {
        commits.push(fill(&mut store, 8 + round));
        store.collect_keeping(&Keep::Newest(4)).unwrap();
        finish(&mut store);
    }
    assert!(store.stats().chunks <= chunks + 4, "{}", store.stats().chunks);
    assert!(!store.exists(&commits[0]).unwrap());
    assert!(value(&store.checkout(&commits[27]).unwrap(), "3").is_some());
}

/// A reader, once there is one, and the commits that it finds.
type ReaderOf = Arc<Mutex<Option<(Reader, Vec<CommitHash>)>>>;

/// Between the rename of a swap's control file and the moment at which the writer tells its threads of the new file, one
/// that misses the old file reads the new control file, and knows of the new chunk before the writer does.
#[test]
fn a_thread_that_misses_a_file_between_a_swap_and_its_publication_harms_nothing() {
    let inner = MemoryDisk::seeded(1);
    let reader: ReaderOf = Arc::default();
    let (renamed, missed) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
    let (of_hook, counted, files) = (Arc::clone(&reader), Arc::clone(&missed), Arc::clone(&inner));
    let disk: Arc<dyn Disk> =
        HookedDisk::new(Arc::<MemoryDisk>::clone(&inner), move |call, path| {
            if call == Call::Rename && path.contains("control") {
                renamed.store(true, Relaxed);
            }
            if call != Call::SyncDirectory || !renamed.swap(false, Relaxed) {
                return;
            }
            let Some((reader, kept)) = &*of_hook.lock().unwrap() else { return };
            let names = files.files();
            // Of the chunk that is being swapped both files are there.
            let is_old = |name: &&String| {
                let stem = name.strip_suffix(".pack");
                stem.is_some_and(|stem| names.contains(&format!("{stem}-1.pack")))
            };
            for old in names.iter().filter(is_old) {
                files.remove(old).unwrap();
                counted.fetch_add(1, Relaxed);
                for commit in kept {
                    assert!(value(&reader.checkout(commit).unwrap(), "3").is_some());
                }
            }
        });
    let few = Options {
        max_open_files: Some(1),
        objects_bytes: 0,
        pages_bytes: 0,
        ..options(Index::Minimal)
    };
    let mut store = Store::create(Arc::clone(&disk), few.clone()).unwrap();
    let commits: Vec<_> = (0..30).map(|date| fill(&mut store, date)).collect();
    let kept = vec![commits[3], commits[9], commits[15], commits[29]];
    for commit in &kept {
        store.pin(commit).unwrap();
    }
    store.collect(&commits[29]).unwrap();
    *reader.lock().unwrap() = Some((store.reader().unwrap(), kept.clone()));
    finish(&mut store);
    *reader.lock().unwrap() = None;
    assert!(missed.load(Relaxed) > 1, "{missed:?}");
    let sound = |store: &Store| {
        for commit in &kept {
            assert!(value(&store.checkout(commit).unwrap(), "3").is_some());
        }
        assert_eq!(store.check().unwrap().commits, kept.len() as u64);
    };
    sound(&store);
    // What was taken out of use is removed, and nothing else.
    while store.collect_step(50).unwrap() {}
    store.close().unwrap();
    sound(&Store::open(disk, few).unwrap());
}

/// A control file of before a collection does not know which files took the places of old ones.
#[test]
fn an_older_control_file_put_back_on_a_collected_store_is_refused() {
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let few = Options { max_open_files: Some(8), ..options(Index::Minimal) };
    let mut store = Store::create(shared(), few.clone()).unwrap();
    let mut commits: Vec<_> = (0..6).map(|date| fill(&mut store, date)).collect();
    store.pin(&commits[1]).unwrap();
    commits.extend((6..60).map(|date| fill(&mut store, date)));
    store.collect(&commits[5]).unwrap();
    let before = disk.bytes("control").unwrap();
    finish(&mut store);
    store.close().unwrap();
    let put = |bytes: &[u8]| {
        let file = disk.open("control", Mode::Write, Access::Buffered).unwrap();
        file.set_len(0).unwrap();
        file.write_at(0, bytes).unwrap();
    };
    let after = disk.bytes("control").unwrap();
    put(&before);
    let files = disk.files();
    let error = Store::open(shared(), few.clone()).expect_err("files that it names are gone");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains("older than the other files"), "{error}");
    assert_eq!(disk.files(), files);
    put(&after);
    let store = Store::open(shared(), few).unwrap();
    assert!(value(&store.checkout(&commits[1]).unwrap(), "3").is_some());
    store.check().unwrap();
}

//! Collections where something odd came before: a lock that was taken, one cancelled in the middle, commits
//! that are there twice, dates that go back, readers that are behind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use varvite::Kind;
use varvite::context::{CollectPhase, CommitInfo, Hash, Index, Keep, Options, Store, Tree};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::{Disk, Mode};

fn options(index: Index) -> Options {
    Options { index, seed: Some(9), chunk_bytes: 600, ..Options::default() }
}

fn info(date: i64) -> CommitInfo {
    CommitInfo::new(&[], date, "a", "b")
}

/// A commit of values that no other commit has.
fn fill(store: &mut Store, date: i64) -> Hash {
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

fn finish(store: &mut Store) {
    while store.collect_step(50).unwrap() {}
}

fn value(tree: &Tree, name: &str) -> Option<Vec<u8>> {
    tree.find(&["data", name]).unwrap().map(|value| value.to_vec())
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
        if name.ends_with(".pack") {
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
        let mut own =
            Store::create(OsDisk::new(&folder).unwrap(), of_two.clone()).unwrap();
        let commits: Vec<_> = (0..12).map(|date| fill(&mut own, date)).collect();
        commits[..7].iter().for_each(|commit| own.pin(commit).unwrap());
        own.collect(&commits[7]).unwrap();
        finish(&mut own);
        // Of some chunks that are sparse already one of two commits goes.
        [1, 3, 4].iter().for_each(|number| drop(own.unpin(&commits[*number]).unwrap()));
        own.collect(&commits[9]).unwrap();
        clean(&mut own);
        if (0..steps).any(|_| !own.collect_step(1).unwrap()) {
            break;
        }
        std::fs::rename(&folder, parent.path().join("old")).unwrap();
        copy_folder(&parent.path().join("old"), &folder);
        let mut other =
            Store::open(OsDisk::new(&folder).unwrap(), of_two.clone()).unwrap();
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

#[test]
fn an_object_written_again_beside_a_cancelled_collection_is_no_damage() {
    let options = options(Index::Always);
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["data", "x"], &[42; 100]).unwrap();
    let first = store.commit(&mut tree, &info(0)).unwrap();
    for date in 1..8 {
        fill(&mut store, date);
    }
    let target = fill(&mut store, 8);
    let mut old = store.checkout(&first).unwrap();
    store.collect(&target).unwrap();
    clean(&mut store);
    let mut tree = store.checkout(&target).unwrap();
    tree.add(&["data", "x"], &[42; 100]).unwrap();
    store.commit(&mut tree, &info(9)).unwrap();
    assert!(store.collect_cancel().unwrap());
    for date in 10..14 {
        fill(&mut store, date);
    }
    let kept = store.commit(&mut old, &info(14)).unwrap();
    for date in 15..20 {
        fill(&mut store, date);
    }
    store.collect(&kept).unwrap();
    finish(&mut store);
    let found = store.checkout(&kept).unwrap();
    assert_eq!(value(&found, "x"), Some(vec![42; 100]));
    let checked = store.check().unwrap();
    assert!(checked.index_faults.iter().all(|fault| fault.contains("collected")), "{checked:?}");
    store.rebuild_index().unwrap();
    let checked = store.check().unwrap();
    assert!(checked.index_faults.is_empty(), "{checked:?}");
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
                let file = disk.open(name, Mode::Write, varvite::disk::Access::Buffered).unwrap();
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

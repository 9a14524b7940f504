//! The context's index: derived from the pack, never in the way of a commit, never believed in doubt.

use std::sync::Arc;

use varvite::Result;
use varvite::context::{CommitHash, CommitInfo, Configuration, Index, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::error::Kind;
use varvite::raw::format::header::Header;
use varvite::raw::{Footer, PAGE_BYTES};

fn options(index: Index) -> Options {
    // So small that its buffers are written out and merged all the time.
    Options { index, index_bytes: 1, chunk_bytes: 30_000, ..Options::default() }
}

fn commit(store: &mut Store, number: u64) -> Result<CommitHash> {
    let last = store.last_commit()?;
    let mut tree = match last {
        Some(last) => store.checkout(&last)?,
        None => Tree::empty(Configuration::TEZOS),
    };
    for place in 0..20 {
        let name = format!("{}", number * 7 + place);
        tree.add(&["data", &name], &[number as u8; 20])?;
    }
    let parents: Vec<CommitHash> = last.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, number as i64, "a", "b"))
}

/// A store of `count` commits on a fresh disk, closed or dropped.
fn store_of(index: Index, count: u64, close: bool) -> (Arc<MemoryDisk>, Vec<CommitHash>) {
    let disk = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options(index)).unwrap();
    let hashes = (0..count).map(|number| commit(&mut store, number).unwrap()).collect();
    if close {
        store.close().unwrap();
    }
    (disk, hashes)
}

fn finds_all(store: &Store, hashes: &[CommitHash]) {
    for hash in hashes {
        assert!(store.exists(hash).unwrap());
        assert!(store.checkout(hash).unwrap().mem_tree(&["data"]).unwrap());
    }
    assert!(!store.exists(&[7; 32].into()).unwrap());
    assert_eq!(store.stats().commits, hashes.len() as u64);
}

/// Nothing asks the index for ranges, so its segments have filters for keys alone, before and after a reopening.
#[test]
fn the_index_has_no_range_filters() {
    let (disk, _) = store_of(Index::Always, 60, true);
    let mut filters = 0;
    for reopened in [false, true] {
        if reopened {
            let mut store =
                Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options(Index::Always)).unwrap();
            for number in 60..120 {
                commit(&mut store, number).unwrap();
            }
            store.close().unwrap();
        }
        for name in disk.files().into_iter().filter(|name| name.ends_with(".segment")) {
            let bytes = disk.bytes(&name).unwrap();
            let (header, pages) =
                (Header::decode(&name, &bytes).unwrap(), bytes.len() / PAGE_BYTES);
            let last = &bytes[bytes.len() - PAGE_BYTES..];
            let footer = Footer::decode(&name, header.identity, pages as u32, last).unwrap();
            assert!(footer.range_filter().is_none(), "{name}: {footer:?}");
            filters += u32::from(footer.bits_per_entry > 0 && footer.counts.entries() > 1);
        }
    }
    assert!(filters > 2, "{filters}");
}

#[test]
fn no_sync_and_no_pause_is_the_index_s_at_a_commit() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let options = Options { chunk_bytes: 1 << 30, ..options(index) };
        let mut store = Store::create(disk, options).unwrap();
        let before = store.stats();
        for number in 0..400 {
            commit(&mut store, number).unwrap();
        }
        let after = store.stats();
        assert_eq!(after.index_syncs, before.index_syncs);
        assert_eq!(after.syncs - before.syncs, 400);
        assert!(after.index_bytes > 0, "its buffers were written out meanwhile");
    }
}

#[test]
fn an_object_is_kept_once_for_good() {
    let (disk, _) = store_of(Index::Always, 30, true);
    let mut store = Store::open(disk, options(Index::Always)).unwrap();
    let before = store.stats();
    // The very first content under another name, after everything left memory.
    let mut tree = Tree::empty(Configuration::TEZOS);
    for place in 0..20 {
        tree.add(&["data", &format!("{place}")], &[0; 20]).unwrap();
    }
    let subtree = tree.find_tree(&["data"]).unwrap().unwrap();
    let known = subtree.hash().unwrap();
    assert!(store.find_object(&known).unwrap().unwrap().equal(&subtree).unwrap());
    tree.add_tree(&["copy"], &subtree).unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let after = store.stats();
    assert_eq!(after.objects, before.objects + 1, "the new root alone");
    let minimal = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    assert_eq!(minimal.find_object(&known).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_lost_old_or_foreign_index_is_made_again() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, hashes) = store_of(index, 60, true);
        let foreign = MemoryDisk::seeded(1);
        let other = Options { seed: Some(5), ..options(index) };
        let mut store = Store::create(Arc::clone(&foreign) as Arc<dyn Disk>, other).unwrap();
        for number in 0..90 {
            commit(&mut store, number).unwrap();
        }
        store.close().unwrap();
        let (dropped, _) = store_of(index, 20, true);
        let of_index = |disk: &MemoryDisk| -> Vec<String> {
            disk.files().into_iter().filter(|name| name.starts_with("index/")).collect()
        };
        for source in [None, Some(&foreign), Some(&dropped)] {
            let copy = disk.snapshot();
            for name in of_index(&copy) {
                copy.remove(&name).unwrap();
            }
            for name in source.into_iter().flat_map(|source| of_index(source)) {
                copy.replace(&name, source.unwrap().bytes(&name).unwrap()).unwrap();
            }
            let reader =
                Store::open_read_only(Arc::clone(&copy) as Arc<dyn Disk>, options(index)).unwrap();
            finds_all(&reader, &hashes);
            let mut store =
                Store::open(Arc::clone(&copy) as Arc<dyn Disk>, options(index)).unwrap();
            finds_all(&store, &hashes);
            let is_old = source.is_some_and(|source| Arc::ptr_eq(source, &dropped));
            assert_eq!(store.warnings().is_empty(), is_old, "{:?}", store.warnings());
            let objects =
                Store::open_read_only(disk.snapshot(), options(index)).unwrap().stats().objects;
            assert_eq!(store.stats().objects, objects);
            commit(&mut store, 60).unwrap();
            store.close().unwrap();
            let again = Store::open(copy, options(index)).unwrap();
            assert_eq!(again.warnings(), Vec::<String>::new());
            assert!(again.check().unwrap().index_faults.is_empty());
        }
    }
}

#[test]
fn damage_of_the_index_is_never_an_answer_and_never_in_the_way() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, hashes) = store_of(index, 25, true);
        let files = disk.files().into_iter();
        let is_read = |name: &String| !name.ends_with("lock") && !name.contains(".saved");
        for name in files.filter(|name| name.starts_with("index/") && is_read(name)) {
            let bytes = disk.bytes(&name).unwrap();
            let mut places: Vec<usize> = (0..bytes.len()).step_by(bytes.len() / 40 + 1).collect();
            places.extend([0, 9, bytes.len() - 1]);
            for byte in places {
                let copy = disk.snapshot();
                let mut damaged = bytes.clone();
                damaged[byte] ^= 4;
                copy.replace(&name, damaged).unwrap();
                let reader = Store::open_read_only(copy.snapshot(), options(index)).unwrap();
                finds_all(&reader, &hashes);
                let spilling = Options { tree_bytes: 300, ..options(index) };
                let mut store = Store::open(copy, spilling).unwrap();
                finds_all(&store, &hashes);
                let mut tree = store.checkout(&hashes[0]).unwrap();
                for number in 0..8_u8 {
                    tree.add(&[[number]], &[number; 50]).unwrap();
                }
                let hash = commit(&mut store, 25).unwrap();
                assert!(store.exists(&hash).unwrap());
                store.rebuild_index().unwrap();
                assert!(store.check().unwrap().index_faults.is_empty());
            }
        }
    }
}

#[test]
fn a_reader_takes_what_is_newer_from_the_pack() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options(index)).unwrap();
        let mut reader =
            Store::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, options(index)).unwrap();
        let mut hashes = Vec::new();
        for number in 0..120 {
            hashes.push(commit(&mut store, number).unwrap());
            if number % 9 == 0 {
                store.checkpoint().unwrap();
            }
            if number % 4 == 0 {
                reader.reload().unwrap();
                finds_all(&reader, &hashes);
                assert_eq!(reader.stats().objects, store.stats().objects);
            }
            if number % 31 == 0 {
                let disk = Arc::clone(&disk) as Arc<dyn Disk>;
                let late = Store::open_read_only(disk, options(index)).unwrap();
                finds_all(&late, &hashes);
                assert!(late.warnings().is_empty());
            }
        }
        assert!(store.stats().chunks > 2);
    }
}

/// The index keeps to the store's number of open files.
#[cfg(target_os = "linux")]
#[test]
fn the_index_has_no_more_files_open_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let disk = varvite::disk::os::OsDisk::create(folder.path()).unwrap();
    let options = Options { max_open_files: Some(4), ..options(Index::Always) };
    let mut store = Store::create(disk.clone(), options.clone()).unwrap();
    let hashes: Vec<_> = (0..150).map(|number| commit(&mut store, number).unwrap()).collect();
    store.close().unwrap();
    let segments = disk.list("index/segments").unwrap().len();
    assert!(segments > 8, "{segments}");
    for reads_only in [false, true] {
        let open = if reads_only { Store::open_read_only } else { Store::open };
        let store = open(disk.clone(), options.clone()).unwrap();
        finds_all(&store, &hashes);
        let index = folder.path().canonicalize().unwrap().join("index/segments");
        let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        let in_index = |to: std::path::PathBuf| to.starts_with(&index);
        let open = all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(in_index)).count();
        assert!((1..=4).contains(&open), "{open} of {segments} files");
    }
}

//! A store that was only just made is taken back, with nothing that is somebody else's.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::{CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};

use crate::context_snapshots::{FILE, export, exported};

fn options(index: Index) -> Options {
    Options { index, seed: Some(9), chunk_bytes: 2_000, tree_bytes: 1_000, ..Options::default() }
}

fn commit(store: &mut Store, block: u8) -> CommitHash {
    let mut tree = store.empty_tree();
    for number in 0..30 {
        tree.add(&["data", &number.to_string()], &[block + number; 100]).unwrap();
    }
    store.commit(&mut tree, &CommitInfo::new(&[], i64::from(block), "a", "b")).unwrap()
}

/// A new store with commits in several chunks, an index that was saved, and what a clearing has left.
fn made(disk: &Arc<dyn Disk>, index: Index) -> Store {
    let mut store = Store::create(Arc::clone(disk), options(index)).unwrap();
    commit(&mut store, 0);
    store.clear().unwrap();
    commit(&mut store, 1);
    store.checkpoint().unwrap();
    commit(&mut store, 2);
    store
}

#[test]
fn a_store_that_was_just_made_goes_with_all_of_it_and_with_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let of_system: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let simulated: Arc<dyn Disk> = SimDisk::new(1);
    for disk in [of_system, simulated] {
        for index in [Index::Minimal, Index::Always] {
            let store = made(&disk, index);
            for name in ["notes", "0001-000001.pack.txt"] {
                disk.open(name, Mode::Create, Access::Buffered).unwrap();
            }
            let reader = Store::open_read_only(Arc::clone(&disk), options(index)).unwrap();
            assert_eq!(reader.discard().unwrap_err().kind(), Kind::Invalid);
            store.discard().unwrap();
            assert_eq!(disk.list("").unwrap(), ["0001-000001.pack.txt", "notes"]);
            let error = Store::open(Arc::clone(&disk), options(index)).unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            for name in disk.list("").unwrap() {
                disk.remove(&name).unwrap();
            }
            made(&disk, index).discard().unwrap();
        }
    }
}

/// What somebody has put among the files of the index is his, in folders that only a session has too.
#[test]
fn files_below_the_index_that_are_none_of_a_session_stay() {
    let temporary = tempfile::tempdir().unwrap();
    let of_system: Arc<dyn Disk> = OsDisk::new(temporary.path()).unwrap();
    let simulated: Arc<dyn Disk> = SimDisk::new(1);
    for disk in [of_system, simulated] {
        let store = made(&disk, Index::Always);
        disk.create_directory("index/own").unwrap();
        let own = ["index/notes.txt", "index/own/kept.segment", "index/segments/notes"];
        for path in own {
            disk.open(path, Mode::Create, Access::Buffered).unwrap().write_at(0, b"mine").unwrap();
        }
        store.discard().unwrap();
        assert_eq!(disk.list("").unwrap(), ["index"]);
        for (folder, names) in [
            ("index", &["notes.txt", "own", "segments"][..]),
            ("index/own", &["kept.segment"]),
            ("index/segments", &["notes"]),
        ] {
            assert_eq!(disk.list(folder).unwrap(), names, "{folder}");
        }
    }
}

#[test]
fn a_creation_that_fails_leaves_no_store() {
    for (fault, forgets) in [(Fault::Any, false), (Fault::Sync, false), (Fault::Sync, true)] {
        let mut failed = 0;
        for n in 1.. {
            let sim = SimDisk::new(n);
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            sim.forget_names_on_failed_sync(forgets);
            sim.fail_at(n, fault);
            let made = Store::create(Arc::clone(&disk), options(Index::Minimal));
            sim.disarm();
            if let Err(error) = made {
                assert_eq!(error.kind(), Kind::Io, "{fault:?} {n}: {error}");
                assert!(!disk.exists("control").unwrap(), "{fault:?} {n}");
                let error = Store::open(Arc::clone(&disk), options(Index::Minimal)).unwrap_err();
                assert_eq!(error.kind(), Kind::Missing, "{fault:?} {n}: {error}");
                for (crash, image) in sim.crash_images(4, 5) {
                    let image: Arc<dyn Disk> = image;
                    let made = Store::open_or_create_on(image, options(Index::Minimal));
                    made.unwrap_or_else(|error| panic!("{fault:?} {n}, {crash:?}: {error}"));
                }
                drop(Store::create(disk, options(Index::Minimal)).unwrap());
                failed += 1;
            } else if failed > 0 && n > 60 {
                break;
            }
        }
        assert!(failed > 2, "{fault:?} {failed}");
    }
}

#[test]
fn a_store_that_was_there_before_stays() {
    let disk: Arc<dyn Disk> = SimDisk::new(1);
    let mut store = made(&disk, Index::Minimal);
    let last = commit(&mut store, 3);
    store.close().unwrap();
    let store = Store::open(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    assert_eq!(store.discard().unwrap_err().kind(), Kind::Invalid);
    let store = Store::open(disk, options(Index::Minimal)).unwrap();
    assert_eq!(store.last_commit().unwrap(), Some(last));
    store.check().unwrap();
}

/// Wherever it ends, what is left is the store, or says that it is a part of one, or nothing.
#[test]
fn a_crash_at_any_call_leaves_no_store_that_looks_damaged() {
    let (mut whole, mut parts, mut nothing) = (0, 0, 0);
    for n in 1.. {
        let sim = SimDisk::new(n);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let store = made(&disk, Index::Always);
        sim.kill_at(n);
        let outcome = store.discard();
        let is_over = !sim.is_dead();
        for (crash, image) in sim.crash_images(4, 4) {
            match Store::open(Arc::clone(&image) as Arc<dyn Disk>, options(Index::Always)) {
                Ok(store) => {
                    assert!(!is_over, "call {n}, {crash:?}");
                    store.check().unwrap();
                    // What is left of the attempt would make a part of a store of it, should `control` be lost.
                    assert!(!image.exists("half-made").unwrap(), "call {n}, {crash:?}");
                    whole += 1;
                }
                Err(error) if error.kind() == Kind::Missing => {
                    Store::create(image, options(Index::Always)).unwrap();
                    nothing += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Invalid, "call {n}, {crash:?}: {error}");
                    assert!(error.to_string().contains("part of a store"), "{error}");
                    parts += 1;
                }
            }
        }
        if is_over {
            outcome.unwrap();
            break;
        }
    }
    assert!(whole > 3 && parts > 20 && nothing > 0, "{whole}, {parts}, {nothing}");
}

#[test]
fn a_file_that_is_refused_leaves_no_store() {
    let disk: Arc<dyn Disk> = SimDisk::new(1);
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let last = commit(&mut store, 0);
    let mut bytes = export(&store, &last).0;
    *bytes.last_mut().unwrap() ^= 1;
    let target: Arc<dyn Disk> = SimDisk::new(2);
    let source = exported(&bytes);
    let made =
        Store::create_from_commit(Arc::clone(&target), options(Index::Always), &*source, FILE);
    assert_eq!(made.map(|(_, file)| file).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(target.list("").unwrap(), Vec::<String>::new());
    *bytes.last_mut().unwrap() ^= 1;
    let source = exported(&bytes);
    Store::create_from_commit(target, options(Index::Always), &*source, FILE).unwrap();
}

#[cfg(unix)]
#[test]
fn a_store_that_takes_the_place_at_any_call_stays() {
    for index in [Index::Minimal, Index::Always] {
        crate::table_discard::the_folder_of_another_stays(|disk| {
            let store = made(&disk, index);
            || store.discard()
        });
    }
}

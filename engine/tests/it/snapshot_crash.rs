//! Exports while the disk of their file dies or fails: no file of that name or the whole one, and what is told of it is so.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::{CommitHash, CommitInfo, Durability, Index, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};

use crate::context_snapshots::{FILE, chain, export, exported, memory, options};
use crate::hooked_disk::{Call, HookedDisk};

fn store() -> (Store, CommitHash, Vec<u8>) {
    let (store, commit) = chain(memory().1, options(Index::Minimal)).unwrap();
    let (bytes, _) = export(&store, &commit);
    (store, commit, bytes)
}

const CUTS: [Crash; 5] =
    [Crash::Subset(0), Crash::Subset(u64::MAX), Crash::Seed(1), Crash::Seed(2), Crash::Seed(3)];

#[test]
fn an_export_that_dies_at_any_call_leaves_no_file_or_the_whole_one_which_is_told_when_it_stays() {
    let (store, commit, bytes) = store();
    let calls = {
        let sim = SimDisk::new(1);
        let target = Arc::clone(&sim) as Arc<dyn Disk>;
        store.export_commit(&commit, &target, FILE).unwrap();
        let calls = sim.calls();
        [Fault::Write, Fault::Sync, Fault::Rename, Fault::Open].map(|it| calls.of(it)).iter().sum()
    };
    let (mut none, mut whole, mut there, mut acknowledged) = (0, 0, 0, 0);
    for n in 1..=calls {
        let n: u64 = n;
        let sim = SimDisk::new(n);
        let target = Arc::clone(&sim) as Arc<dyn Disk>;
        sim.kill_at(n);
        let outcome = store.export_commit(&commit, &target, FILE);
        acknowledged += u64::from(outcome.is_ok());
        for cut in CUTS {
            if let Ok(found) = sim.crash(cut).bytes(FILE) {
                assert!(found == bytes, "call {n}, {cut:?}");
                whole += 1;
            } else {
                assert!(outcome.is_err(), "call {n}, {cut:?}: it was acknowledged");
                none += 1;
            }
        }
        // The process alone died. Whoever does the same again is told that it is done, or that it was.
        let left = sim.crash(Crash::Process);
        let target = Arc::clone(&left) as Arc<dyn Disk>;
        match store.export_commit(&commit, &target, FILE) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), Kind::Exists, "call {n}: {error}");
                there += 1;
            }
        }
        for cut in CUTS {
            let found = left.crash(cut).bytes(FILE);
            let found = found.unwrap_or_else(|error| panic!("call {n}, {cut:?}: {error}"));
            assert!(found == bytes, "call {n}, {cut:?}");
        }
    }
    assert!(none > 20 && whole > 0 && there > 0 && acknowledged > 0);
}

/// Whose rename is done, and said to have failed, as over a network.
#[test]
fn an_export_whose_renaming_fails_once_it_is_done_leaves_no_file() {
    let (store, commit, bytes) = store();
    let disk = MemoryDisk::seeded(1);
    let inner = Arc::clone(&disk);
    let target: Arc<dyn Disk> = HookedDisk::new(Arc::clone(&disk) as _, move |call, _| {
        if call == Call::Rename {
            let _ = inner.rename(&format!("{FILE}.export.tmp"), FILE);
        }
    });
    let error = store.export_commit(&commit, &target, FILE).unwrap_err();
    assert!(!disk.exists(FILE).unwrap(), "{error}");
    let target: Arc<dyn Disk> = Arc::clone(&disk) as _;
    store.export_commit(&commit, &target, FILE).unwrap();
    assert!(disk.bytes(FILE).unwrap() == bytes);
}

/// What another handle has written and not synced is present, and stays, once an import has said so.
#[test]
fn an_import_of_what_is_there_makes_it_durable_as_any_commit() {
    for (durability, stays) in [(Durability::Synced, true), (Durability::Written, false)] {
        let sim = SimDisk::new(3);
        let written = varvite::context::Options {
            durability: Durability::Written,
            ..options(Index::Minimal)
        };
        let mut store = Store::create(Arc::clone(&sim) as _, written).unwrap();
        let mut tree = store.empty_tree();
        tree.add(&["a"], b"b").unwrap();
        let commit = store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "b")).unwrap();
        let (bytes, file) = export(&store, &commit);
        let left = sim.crash(Crash::Process);
        assert!(left.unsynced_count() > 0);
        let with = varvite::context::Options { durability, ..options(Index::Minimal) };
        let mut store = Store::open(Arc::clone(&left) as _, with).unwrap();
        assert_eq!(store.import_commit(&*exported(&bytes), FILE).unwrap(), file);
        let cut = left.crash(Crash::Subset(0));
        let found = Store::open(cut, options(Index::Minimal));
        let is_there = found.is_ok_and(|store| store.checkout(&commit).is_ok());
        assert!(is_there || !stays, "{durability:?}");
    }
}

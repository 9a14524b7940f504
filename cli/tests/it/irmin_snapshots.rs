//! Snapshots straight from stores of Irmin, collected ones too: the same bytes as from ours.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::{
    CommitFileOptions, CommitHash, Limits, Options as StoreOptions, Store, verify_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack::{self as irmin, Choice};

use crate::binary::{text, varvite};
use crate::irmin::{STORES, compare, copy, copy_store, data, expectations, open};

const FILE: &str = "commits.snapshot";

fn bytes(disk: &MemoryDisk) -> Vec<u8> {
    disk.bytes(FILE).unwrap()
}

fn export(store: &Store, commits: &[CommitHash]) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let target = Arc::clone(&disk) as Arc<dyn Disk>;
    store.export_commits(commits, CommitFileOptions::default(), &target, FILE).unwrap();
    disk
}

#[test]
fn every_store_of_irmin_exports_what_a_migrated_one_does() {
    let Some(stores) = data("irmin-stores") else { return };
    let mut commits_seen = 0;
    for name in STORES {
        let folder = stores.join(name);
        let (disk, expected) = (copy_store(&folder), expectations(&folder));
        let from = open(&disk, &irmin::Options::default()).unwrap();
        let mut ours = Store::create(MemoryDisk::seeded(1), StoreOptions::default()).unwrap();
        let source = Arc::clone(&disk) as Arc<dyn Disk>;
        let options = irmin::Options::default();
        irmin::migrate(source, &options, &mut ours, &Choice::default(), &mut |_| Ok(())).unwrap();
        let readable: Vec<_> =
            expected.commits.iter().filter(|commit| commit.listing.is_some()).collect();
        let gone = expected.commits.iter().find(|commit| commit.listing.is_none());
        if let Some(gone) = gone {
            let target: Arc<dyn Disk> = MemoryDisk::seeded(1);
            let error = from.export_commit(&gone.hash, &target, FILE).unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{name}: {error}");
        }
        for commit in readable.iter().rev().take(5) {
            let exported = export(&from, &[commit.hash]);
            let again = export(&ours, &[commit.hash]);
            assert!(bytes(&exported) == bytes(&again), "{name}");
            let target = MemoryDisk::seeded(2);
            let (store, file) =
                Store::create_from_commit(target, StoreOptions::default(), &*exported, FILE)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(verify_commit(&*exported, FILE).unwrap(), file);
            compare(&store, commit).unwrap_or_else(|error| panic!("{name}: {error}"));
            commits_seen += 1;
        }
        // All that the store still has of the past of its newest commit.
        let Some(last) = from.last_commit().unwrap() else { continue };
        let history = from.history(&[last], usize::MAX).unwrap();
        let first = history.last().unwrap().hash;
        let range = from.commits_between(&first, &last, Limits::default()).unwrap();
        let (theirs, ours) = (export(&from, &range), export(&ours, &range));
        assert!(bytes(&theirs) == bytes(&ours), "{name}");
    }
    assert!(commits_seen > 20, "{commits_seen}");
}

#[test]
fn samples_of_every_version_export_or_say_why_not() {
    let Some(samples) = data("irmin-pack-samples") else { return };
    let mut exported = 0;
    for folder in std::fs::read_dir(samples).unwrap() {
        let folder = folder.unwrap().path();
        if text(&folder).contains("corrupted") {
            continue;
        }
        let options = irmin::Options::default();
        let Ok(store) = open(&copy(&folder), &options) else { continue };
        let Some(last) = store.last_commit().unwrap() else { continue };
        let target: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let error = store.export_commit(&last, &target, FILE).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{}: {error}", folder.display());
        assert!(error.to_string().contains("other hashes"), "{error}");
        assert!(!target.exists(FILE).unwrap());
        exported += 1;
    }
    assert!(exported > 3, "{exported} samples");
}

#[test]
fn a_collected_store_of_irmin_moves_by_one_file() {
    let Some(stores) = data("irmin-stores") else { return };
    let folder = tempfile::TempDir::new().unwrap();
    let [file, ours] = ["file", "ours"].map(|name| text(&folder.path().join(name)).to_owned());
    let theirs = text(&stores.join("gc-once/store")).to_owned();
    let json = |arguments: &[&str]| varvite(&[arguments, &["--format", "json"]].concat()).json();
    let exported = json(&["context", "snapshot", "export", &theirs, "last", &file]);
    let imported = json(&["context", "snapshot", "import", &file, &ours]);
    assert_eq!(exported["hash"], imported["hash"]);
    let hash = exported["commit"].as_str().unwrap();
    varvite(&["context", "check", &ours]).yes();
    let listing = |store: &str| varvite(&["context", "dump", store, hash]).yes();
    assert_eq!(listing(&theirs), listing(&ours));
}

//! Two writers of one folder: the second is refused although the lock file was removed, and the first
//! stops before it replaces what the other may have written.
#![cfg(unix)]

use std::path::Path;
use std::sync::Arc;

use varvite::context::{CommitInfo, Configuration, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{Batch, Kind, Log, Session, SessionOptions, SnapshotContent, TableOptions};

fn disk(folder: &Path) -> Arc<dyn Disk> {
    OsDisk::create(folder).unwrap()
}

fn logged() -> SessionOptions {
    SessionOptions { log: Log::Written, log_file_bytes: 2_000, ..SessionOptions::default() }
}

#[test]
fn a_removed_lock_file_lets_no_second_session_in() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::create(disk(folder.path()), logged()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    std::fs::remove_file(folder.path().join("lock")).unwrap();
    let error = Session::open(disk(folder.path()), logged()).unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    // The first one notices too, when it next replaces something.
    table.update(Batch::new().insert(b"key", b"value")).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    assert_eq!(session.save_snapshot("s", content).unwrap_err().kind(), Kind::Poisoned);
    assert!(session.is_poisoned());
    drop((table, session));
    let session = Session::open(disk(folder.path()), logged()).unwrap();
    assert!(session.list_snapshots().unwrap().is_empty());
    let table = session.open_table("t", &varvite::OpenTable::default()).unwrap();
    assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_session_writes_no_checkpoint_into_a_folder_that_took_its_place() {
    let parent = tempfile::tempdir().unwrap();
    let [root, moved] = ["store", "moved"].map(|name| parent.path().join(name));
    let session = Session::create(disk(&root), logged()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    std::fs::rename(&root, &moved).unwrap();
    let restored = Session::create(disk(&root), logged()).unwrap();
    let mut number = 0_u64;
    let error = loop {
        number += 1;
        match table.update(Batch::new().insert(&number.to_le_bytes(), &[7; 100])) {
            Err(error) => break error,
            Ok(()) => assert!(number < 1_000, "a checkpoint was written to the other folder"),
        }
    };
    assert_eq!(error.kind(), Kind::Poisoned, "{error}");
    assert!(restored.live_tables().unwrap().is_empty());
    assert!(!root.join("in-doubt.tmp").exists(), "it wrote into a folder that is another's");
}

#[test]
fn a_removed_lock_file_lets_no_second_context_in() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(disk(folder.path()), Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["data", "a"], b"1").unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[], 1, "Tezos", "lvl 1")).unwrap();
    for name in ["lock", "index/lock"] {
        std::fs::remove_file(folder.path().join(name)).unwrap();
    }
    let error = Store::open(disk(folder.path()), Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    assert_eq!(store.checkpoint().unwrap_err().kind(), Kind::Poisoned);
    drop(store);
    Store::open(disk(folder.path()), Options::default()).unwrap();
}

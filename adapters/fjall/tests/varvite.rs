//! What the adapter promises beyond the peer: varvite's errors, limits and files.

use std::path::Path;

use fjall::{Database, Error, KeyspaceCreateOptions, PersistMode, Readable};
use varvite::disk::os::OsDisk;
use varvite::{Kind, OpenTable, Session, SessionOptions};

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn kind(error: &Error) -> Option<Kind> {
    match error {
        Error::Storage(error) => Some(error.kind()),
        _ => None,
    }
}

#[test]
fn what_is_too_long_is_refused_by_its_length() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = Database::builder(&folder).open()?;
    let tree = db.keyspace("t", KeyspaceCreateOptions::default)?;
    let error = tree.insert(vec![0; 4_001], "value").expect_err("the key is too long");
    assert_eq!(kind(&error), Some(Kind::Invalid));
    assert!(error.to_string().contains("4001"), "{error}");
    let mut batch = db.batch();
    batch.insert(&tree, "a", "1");
    batch.insert(&tree, "b", vec![0; (16 << 20) + 1]);
    assert_eq!(kind(&batch.commit().expect_err("a value is too long")), Some(Kind::Invalid));
    assert!(tree.is_empty()?, "all of a batch or nothing");
    tree.insert("b", vec![1; 16 << 20])?;
    assert_eq!(tree.size_of("b")?, Some(16 << 20));
    let long = db.keyspace(&"LONG".repeat(10), KeyspaceCreateOptions::default);
    let error = long.err().expect("the name is too long");
    assert!(kind(&error) == Some(Kind::Invalid) && error.to_string().contains("120"), "{error}");
    Ok(())
}

#[test]
fn damage_is_told_with_its_place() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = Database::builder(&folder).open()?;
    db.keyspace("t", KeyspaceCreateOptions::default)?.insert("a", "1")?;
    drop(db);
    let checkpoint = folder.path().join("checkpoint");
    let mut bytes = std::fs::read(&checkpoint)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&checkpoint, bytes)?;
    let error = Database::builder(&folder).open().err().expect("it is damaged");
    assert_eq!(kind(&error), Some(Kind::Corrupt), "{error}");
    assert!(error.to_string().contains("checkpoint"), "{error}");
    Ok(())
}

#[test]
fn a_failing_disk_is_an_io_error_with_the_text() -> Outcome {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder")?;
    let error = Database::builder(file.join("db")).open().err().expect("below a file is nothing");
    let Error::Io(inner) = &error else { return Err(error.into()) };
    assert_eq!(inner.kind(), std::io::ErrorKind::NotADirectory);
    assert!(error.to_string().contains("file/db"), "{error}");
    Ok(())
}

#[test]
fn a_batch_for_another_database_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let open = |name: &str| Database::builder(folder.path().join(name)).open();
    let (one, two) = (open("one")?, open("two")?);
    let tree = two.keyspace("t", KeyspaceCreateOptions::default)?;
    let mut batch = one.batch();
    batch.insert(&tree, "a", "1");
    let error = batch.commit().expect_err("it belongs to the other one");
    assert!(error.to_string().contains("another database"), "{error}");
    assert!(tree.is_empty()?);
    Ok(())
}

#[test]
fn a_snapshot_knows_a_keyspace_from_another_of_its_name() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = Database::builder(&folder).open()?;
    let old = db.keyspace("t", KeyspaceCreateOptions::default)?;
    old.insert("a", "1")?;
    let before = db.snapshot();
    db.delete_keyspace(old.clone())?;
    let new = db.keyspace("t", KeyspaceCreateOptions::default)?;
    assert_eq!(before.get(&old, "a")?.as_deref(), Some(&b"1"[..]));
    assert!(before.get(&new, "a")?.is_none() && before.is_empty(&new)?);
    assert!(matches!(db.delete_keyspace(old), Err(Error::KeyspaceDeleted)));
    Ok(())
}

/// Copies the files of a store as the death of its process leaves them.
fn copy_of(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_of(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[test]
fn every_write_outlives_the_process_without_a_persist() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (path, after) = (folder.path().join("db"), folder.path().join("after"));
    let db = Database::builder(&path).open()?;
    let tree = db.keyspace("UTxO", KeyspaceCreateOptions::default)?;
    tree.insert("a", "1")?;
    tree.remove("a")?;
    tree.insert("b", "2")?;
    copy_of(&path, &after)?;
    // The program varvite finds it under a name of its own.
    let session = Session::open_read_only(OsDisk::new(&after)?, SessionOptions::default())?;
    let table = session.open_table("_55_54x_4f", &OpenTable::default())?;
    assert_eq!(table.get(b"b")?.as_deref(), Some(&b"2"[..]));
    drop((table, session));
    let db = Database::builder(&after).open()?;
    let tree = db.keyspace("UTxO", KeyspaceCreateOptions::default)?;
    assert!(tree.get("a")?.is_none() && tree.get("b")?.is_some());
    db.persist(PersistMode::SyncAll)?;
    Ok(())
}

/// What a batch and a handle have of a keyspace that was deleted is not for its namesake.
#[test]
fn a_namesake_of_a_deleted_keyspace_is_not_touched_by_old_handles() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = Database::builder(&folder).open()?;
    let other = db.keyspace("other", KeyspaceCreateOptions::default)?;
    let old = db.keyspace("t", KeyspaceCreateOptions::default)?;
    old.insert("a", "old")?;
    let mut batch = db.batch();
    batch.insert(&other, "k", "1");
    batch.insert(&old, "b", "old");
    db.delete_keyspace(old.clone())?;
    let new = db.keyspace("t", KeyspaceCreateOptions::default)?;
    for number in 0..100_u8 {
        new.insert([number], "new")?;
    }
    assert!(matches!(batch.commit(), Err(Error::KeyspaceDeleted)));
    assert!(matches!(old.clear(), Err(Error::KeyspaceDeleted)));
    assert!(matches!(db.delete_keyspace(old.clone()), Err(Error::KeyspaceDeleted)));
    assert!(other.is_empty()? && new.len()? == 100 && new.approximate_len() >= 100);
    assert!(old.len()? == 1 && old.approximate_len() == 1 && old.disk_space() == 0);
    Ok(())
}

/// An iterator, a snapshot and a keyspace hold the database: the folder is free when the last of them is dropped.
#[test]
fn an_iterator_keeps_the_folder_locked_until_it_is_dropped() -> Outcome {
    let folder = tempfile::tempdir()?;
    let open = || Database::builder(&folder).open();
    let db = open()?;
    let tree = db.keyspace("t", KeyspaceCreateOptions::default)?;
    tree.insert("a", "1")?;
    let mut iterator = tree.iter();
    drop((tree, db));
    assert!(matches!(open(), Err(Error::Locked)));
    assert!(iterator.next().is_some_and(|entry| entry.key().is_ok()), "it goes on");
    drop(iterator);
    let snapshot = open()?.snapshot();
    assert!(matches!(open(), Err(Error::Locked)));
    drop(snapshot);
    open()?;
    Ok(())
}

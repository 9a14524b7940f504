//! What fjall's documentation says of fjall, as far as the adapter has it.
//!
//! Nothing here names varvite: the same file runs on the real fjall, from `adapters/peers`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PinningPolicy, RestartIntervalPolicy,
};
use fjall::{
    CompressionType, Database, Error, Guard, Iter, Keyspace, KeyspaceCreateOptions,
    KvSeparationOptions, OwnedWriteBatch, PersistMode, Readable, Result, Slice, Snapshot,
};

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn open(folder: impl AsRef<Path>) -> Result<Database> {
    Database::builder(folder).open()
}

fn filled(db: &Database, name: &str, entries: &[(&str, &str)]) -> Result<Keyspace> {
    let keyspace = db.keyspace(name, KeyspaceCreateOptions::default)?;
    for (key, value) in entries {
        keyspace.insert(*key, *value)?;
    }
    Ok(keyspace)
}

fn texts(entries: impl Iterator<Item = Guard>) -> Result<Vec<String>> {
    let text = |bytes: &Slice| String::from_utf8_lossy(bytes).into_owned();
    let pairs = entries.map(Guard::into_inner);
    pairs.map(|pair| pair.map(|(key, value)| format!("{}={}", text(&key), text(&value)))).collect()
}

#[test]
fn a_key_has_the_value_that_was_last_inserted() -> Outcome {
    let folder = tempfile::tempdir()?;
    let tree = filled(&open(&folder)?, "t", &[("a", "1"), ("b", "22")])?;
    assert_eq!(tree.get("a")?, Some("1".into()));
    tree.insert("a", "333")?;
    assert_eq!(tree.get("a")?.as_deref(), Some(&b"333"[..]));
    assert_eq!(tree.size_of("a")?, Some(3));
    assert!(tree.contains_key(b"b")?);
    assert_eq!(tree.len()?, 2);
    assert!(!tree.is_empty()?);
    tree.remove("a")?;
    tree.remove("a")?; // not there any more, which is no error
    assert_eq!((tree.get("a")?, tree.size_of("a")?), (None, None));
    assert!(!tree.contains_key("a")?);
    assert_eq!(tree.len()?, 1);
    tree.insert("empty", [])?;
    assert_eq!(tree.get("empty")?.map(|value| value.len()), Some(0));
    Ok(())
}

#[test]
#[allow(clippy::needless_borrows_for_generic_args)] // borrowed ones are some of the types
fn keys_and_values_may_be_of_many_types() -> Outcome {
    let folder = tempfile::tempdir()?;
    let tree = filled(&open(&folder)?, "t", &[])?;
    tree.insert([1_u8, 2], vec![3_u8])?;
    tree.insert(&b"slice"[..], String::from("string"))?;
    tree.insert(&[7_u8; 3], Slice::new(b"slice"))?;
    tree.insert(&String::from("borrowed"), &vec![9_u8])?;
    assert_eq!(tree.get([1, 2])?.expect("inserted"), [3]);
    assert_eq!(tree.get(b"slice")?.expect("inserted"), b"string");
    assert_eq!(tree.get(vec![7; 3])?.expect("inserted"), "slice");
    assert_eq!(tree.get(String::from("borrowed"))?.expect("inserted").to_vec(), [9]);
    let mut sorted: Vec<Slice> = ["b", "a"].map(Slice::from).into();
    sorted.sort();
    assert_eq!(sorted, ["a", "b"]);
    Ok(())
}

#[test]
fn iterators_go_from_both_ends_and_meet() -> Outcome {
    let folder = tempfile::tempdir()?;
    let tree = filled(&open(&folder)?, "t", &[("c", "3"), ("a", "1"), ("d", "4"), ("b", "2")])?;
    assert_eq!(texts(tree.iter())?, ["a=1", "b=2", "c=3", "d=4"]);
    assert_eq!(texts(tree.iter().rev())?, ["d=4", "c=3", "b=2", "a=1"]);
    let mut both = tree.iter();
    let ends = [both.next(), both.next_back(), both.next(), both.next_back()];
    let keys: Result<Vec<_>> = ends.into_iter().flatten().map(Guard::key).collect();
    assert_eq!(keys?, ["a", "d", "b", "c"]);
    assert!(both.next().is_none() && both.next_back().is_none());
    let first = tree.first_key_value().expect("there are some").into_inner()?;
    assert_eq!(first, ("a".into(), "1".into()));
    assert_eq!(tree.last_key_value().expect("there are some").value()?, "4");
    Ok(())
}

#[test]
fn ranges_and_prefixes_take_what_they_say() -> Outcome {
    let folder = tempfile::tempdir()?;
    let entries = [("a", "1"), ("ab", "2"), ("abc", "3"), ("b", "4"), ("f", "5")];
    let tree = filled(&open(&folder)?, "t", &entries)?;
    tree.insert([0xff_u8, 0xff], "6")?;
    tree.insert([0xff_u8, 0xff, 0], "7")?;
    assert_eq!(texts(tree.range("a"..="f"))?.len(), 5);
    assert_eq!(texts(tree.range("ab".."b"))?, ["ab=2", "abc=3"]);
    assert_eq!(texts(tree.range(..="ab"))?, ["a=1", "ab=2"]);
    assert_eq!(tree.range::<&str, _>(..).count(), 7);
    assert_eq!(texts(tree.range("b"..).rev())?.len(), 4);
    assert_eq!(texts(tree.prefix("ab"))?, ["ab=2", "abc=3"]);
    assert_eq!(texts(tree.prefix("ab").rev())?, ["abc=3", "ab=2"]);
    assert_eq!(tree.prefix("abcd").count(), 0);
    assert_eq!(tree.prefix([0xff, 0xff]).count(), 2);
    Ok(())
}

#[test]
fn an_item_gives_its_key_its_value_or_its_length() -> Outcome {
    let folder = tempfile::tempdir()?;
    let tree = filled(&open(&folder)?, "t", &[("a", "my_value"), ("b", "other")])?;
    let item = || tree.prefix("a").next().expect("there is one");
    assert_eq!(item().key()?, "a");
    assert_eq!(item().value()?, "my_value");
    assert_eq!(item().size()?, 8);
    let (key, value) = item().into_inner_if(|key| key.starts_with(b"a"))?;
    assert_eq!((key, value.as_deref()), ("a".into(), Some(&b"my_value"[..])));
    let (key, value) = item().into_inner_if(|_| false)?;
    assert_eq!((key, value), ("a".into(), None));
    Ok(())
}

#[test]
fn an_iterator_is_owned_and_sees_the_moment_when_it_was_made() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let tree = filled(&db, "t", &[("a", "1"), ("b", "2")])?;
    let snapshot = db.snapshot();
    let iter: Iter = snapshot.prefix(&tree, "");
    tree.insert("c", "3")?;
    tree.remove("a")?;
    drop(snapshot);
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(move || texts(iter).map_err(|error| error.to_string()));
        reader.join().expect("it does not panic")
    });
    assert_eq!(read?, ["a=1", "b=2"]);
    assert_eq!(texts(tree.iter())?, ["b=2", "c=3"]);
    Ok(())
}

fn everything(readable: &impl Readable, keyspace: &Keyspace) -> Result<Vec<String>> {
    texts(readable.iter(keyspace))
}

#[test]
fn a_snapshot_is_one_moment_of_all_keyspaces() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let one = filled(&db, "one", &[("a", "1"), ("b", "2")])?;
    let two = filled(&db, "two", &[])?;
    let before: Snapshot = db.snapshot();
    let mut batch = db.batch();
    batch.insert(&one, "a", "new");
    batch.remove(&one, "b");
    batch.insert(&two, "x", "y");
    batch.commit()?;
    let after = db.snapshot().clone();
    assert_eq!(everything(&before, &one)?, ["a=1", "b=2"]);
    assert_eq!(everything(&before, &two)?.len(), 0);
    assert_eq!(everything(&after, &one)?, ["a=new"]);
    assert_eq!(before.get(&one, "b")?.expect("it was there"), "2");
    assert!(before.is_empty(&two)? && !after.is_empty(&two)?);
    assert_eq!((before.len(&one)?, after.len(&one)?), (2, 1));
    assert!(before.contains_key(&one, "b")? && !after.contains_key(&one, "b")?);
    assert_eq!(after.size_of(&one, "a")?, Some(3));
    assert_eq!(texts(before.range(&one, "b"..))?, ["b=2"]);
    let last = before.last_key_value(&one).expect("it had some").key()?;
    let first = before.first_key_value(&one).expect("it had some").key()?;
    assert_eq!((first, last), ("a".into(), "b".into()));
    Ok(())
}

#[test]
fn a_batch_stands_when_it_is_committed_and_not_before() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let (one, two) = (filled(&db, "one", &[("gone", "1")])?, filled(&db, "two", &[])?);
    let mut batch: OwnedWriteBatch = db.batch();
    assert!(batch.is_empty());
    batch.insert(&one, "a", "1");
    batch.insert(&two, "b", vec![0_u8; 100]);
    batch.remove(&one, "gone");
    assert_eq!(batch.len(), 3);
    assert!(one.get("a")?.is_none() && two.is_empty()?);
    batch.durability(Some(PersistMode::SyncAll)).commit()?;
    assert_eq!(texts(one.iter())?, ["a=1"]);
    assert_eq!(two.size_of("b")?, Some(100));

    let mut dropped = OwnedWriteBatch::with_capacity(db.clone(), 8);
    dropped.insert(&one, "never", "1");
    drop(dropped);
    assert!(one.get("never")?.is_none());
    db.batch().commit()?; // an empty one does nothing
    Ok(())
}

#[test]
fn what_was_written_is_there_after_reopening() -> Outcome {
    let folder = tempfile::tempdir()?;
    {
        let db = open(&folder)?;
        let tree = filled(&db, "state-utxos", &[("a", "1"), ("b", "2")])?;
        tree.remove("a")?;
        filled(&db, "Other_Name#1", &[("x", "y")])?;
        db.persist(PersistMode::Buffer)?;
        db.persist(PersistMode::SyncData)?;
        db.persist(PersistMode::SyncAll)?;
    }
    let db = open(&folder)?;
    assert_eq!(db.keyspace_count(), 2);
    let mut names: Vec<_> = db.list_keyspace_names().iter().map(ToString::to_string).collect();
    names.sort();
    assert_eq!(names, ["Other_Name#1", "state-utxos"]);
    assert!(db.keyspace_exists("state-utxos") && !db.keyspace_exists("state"));
    let tree = db.keyspace("state-utxos", || panic!("it is there already"))?;
    assert_eq!(texts(tree.iter())?, ["b=2"]);
    assert_eq!(&**tree.name(), "state-utxos");
    Ok(())
}

#[test]
fn handles_to_one_keyspace_are_one_keyspace() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let one = filled(&db, "t", &[])?;
    let two = db.keyspace("t", KeyspaceCreateOptions::default)?;
    one.insert("a", "1")?;
    assert_eq!(two.get("a")?.expect("the same keyspace"), "1");
    assert!(one == two && one != filled(&db, "u", &[])?);
    drop(db);
    one.insert("b", "2")?; // a handle keeps its database open
    assert_eq!(two.len()?, 2);
    Ok(())
}

#[test]
fn a_deleted_keyspace_takes_no_writes_and_its_name_is_free() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let old = filled(&db, "t", &[("a", "1")])?;
    db.delete_keyspace(old.clone())?;
    assert!(!db.keyspace_exists("t"));
    assert!(matches!(old.insert("b", "2"), Err(Error::KeyspaceDeleted)));
    assert!(matches!(old.remove("a"), Err(Error::KeyspaceDeleted)));
    assert_eq!(texts(old.iter())?, ["a=1"]); // as long as somebody holds it
    let new = filled(&db, "t", &[])?;
    assert!(new.is_empty()?);
    new.insert("c", "3")?;
    assert_eq!(texts(old.iter())?, ["a=1"]);
    drop((old, new, db));
    let db = open(&folder)?;
    assert_eq!(texts(filled(&db, "t", &[])?.iter())?, ["c=3"]);
    Ok(())
}

#[test]
fn clear_takes_everything_but_what_a_snapshot_has() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let tree = filled(&db, "t", &[("a", "1"), ("b", "2")])?;
    tree.clear()?;
    assert!(tree.is_empty()? && !tree.contains_key("a")?);
    tree.insert("c", "3")?;
    let before = db.snapshot();
    assert_eq!(everything(&before, &tree)?, ["c=3"]);
    drop((tree, before, db));
    assert_eq!(texts(filled(&open(&folder)?, "t", &[])?.iter())?, ["c=3"]);
    Ok(())
}

#[test]
fn a_database_is_open_once() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    assert!(matches!(open(&folder), Err(Error::Locked)));
    drop(db);
    open(&folder)?;
    Ok(())
}

#[test]
fn a_temporary_database_takes_its_folder_along() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path: PathBuf = folder.path().join("temporary");
    let db = Database::builder(&path).temporary(true).open()?;
    filled(&db, "t", &[("a", "1")])?;
    assert!(path.try_exists()?);
    drop(db);
    assert!(!path.try_exists()?);
    Ok(())
}

#[test]
fn options_change_no_answers() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = Database::builder(&folder)
        .cache_size(64 << 20)
        .max_journaling_size(64 << 20)
        .worker_threads(2)
        .max_cached_files(Some(100))
        .manual_journal_persist(false)
        .open()?;
    let options = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(1 << 20)
            .expect_point_read_hits(true)
            .manual_journal_persist(false)
            .with_kv_separation(Some(KvSeparationOptions::default().separation_threshold(200)))
            .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(3)))
    };
    let tree = db.keyspace("t", options)?;
    let mut expected = BTreeMap::new();
    for number in 0..6_000_u32 {
        let key = (number.wrapping_mul(0x9e37_79b9) >> 20).to_be_bytes();
        let value = vec![number as u8; (number % 500) as usize];
        if number % 7 == 0 {
            tree.remove(key)?;
            expected.remove(&key[..]);
        } else {
            tree.insert(key, &value)?;
            expected.insert(key.to_vec(), value);
        }
    }
    let found: Result<Vec<_>> = tree.iter().map(Guard::into_inner).collect();
    let found = found?.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
    assert!(found.eq(expected.clone()), "every key with its last value, in order");
    assert_eq!(tree.len()?, expected.len());
    assert!(tree.approximate_len() >= expected.len());
    Ok(())
}

/// So the peer's documentation has it: it is an assertion there, not an error.
#[test]
#[should_panic(expected = "")]
fn an_empty_name_panics() {
    let folder = tempfile::tempdir().expect("a folder");
    let db = open(&folder).expect("it opens");
    let _ = db.keyspace("", KeyspaceCreateOptions::default);
}

#[test]
fn writers_on_many_threads_lose_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = open(&folder)?;
    let tree = filled(&db, "t", &[])?;
    let sums = filled(&db, "sums", &[])?;
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (db, tree, sums) = (db.clone(), tree.clone(), sums.clone());
            scope.spawn(move || {
                for number in 0..50_u8 {
                    let mut batch = db.batch();
                    batch.insert(&tree, [thread, number], [number]);
                    batch.insert(&sums, [thread], [number]);
                    batch.commit().expect("it commits");
                    // Both keyspaces are always of one moment.
                    let now = db.snapshot();
                    let last = now.prefix(&tree, [thread]).next_back().expect("there is one");
                    let sum = now.get(&sums, [thread]).expect("it reads").expect("there is one");
                    assert_eq!(last.value().expect("it reads"), sum);
                }
            });
        }
    });
    assert_eq!(tree.len()?, 200);
    Ok(())
}

#[test]
fn policies_and_sizes_change_no_answer() -> Outcome {
    let folder = tempfile::tempdir()?;
    let builder = Database::builder(&folder).cache_size(16 << 20);
    let builder = builder.journal_compression(CompressionType::None);
    let db = builder.max_write_buffer_size(Some(64 << 20)).open()?;
    let policies = || {
        let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(12.0));
        let separation = KvSeparationOptions::default().compression(CompressionType::None);
        KeyspaceCreateOptions::default()
            .data_block_size_policy(BlockSizePolicy::all(8 << 10))
            .data_block_compression_policy(CompressionPolicy::disabled())
            .data_block_restart_interval_policy(RestartIntervalPolicy::all(16))
            .filter_policy(FilterPolicy::new([bloom, FilterPolicyEntry::None]))
            .filter_block_pinning_policy(PinningPolicy::new([true, false]))
            .index_block_partitioning_policy(PinningPolicy::all(false))
            .with_kv_separation(Some(separation.age_cutoff(0.3)))
    };
    let keyspace = db.keyspace("k", policies)?;
    keyspace.insert("a", [1; 2_000])?;
    assert_eq!(keyspace.get("a")?.map(|value| value.len()), Some(2_000));
    assert!(db.write_buffer_size() > 0 && db.journal_count() >= 1);
    assert!(db.journal_disk_space()? >= 2_000);
    assert_eq!((db.cache_capacity(), keyspace.table_count()), (16 << 20, 0));
    assert!(keyspace.is_kv_separated() && Slice::empty().is_empty());
    assert!(keyspace.blob_file_count() <= 1 && keyspace.fragmented_blob_bytes() == 0);
    Ok(())
}

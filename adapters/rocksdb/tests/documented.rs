//! What the documentation of `RocksDB` and rust-rocksdb says of them, as far as the adapter has it.
//!
//! Nothing here names varvite: the same file runs on the real `RocksDB`, from `adapters/peers`.

use std::collections::BTreeMap;
use std::path::Path;

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ChecksumType, ColumnFamilyDescriptor,
    CompactOptions, CompactionPri, DB, DBAccess, DBIteratorWithThreadMode,
    DBRawIteratorWithThreadMode, DBRecoveryMode, DBWithThreadMode, Direction, Error, ErrorKind,
    FlushOptions, IteratorMode, LogLevel, MultiThreaded, OptimisticTransactionDB,
    OptimisticTransactionOptions, Options, PrefixRange, ReadOptions, SliceTransform,
    UniversalCompactOptions, WaitForCompactOptions, WriteBatch, WriteBatchWithTransaction,
    WriteOptions,
};

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn creating() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options
}

fn filled(path: impl AsRef<Path>, keys: &[&str]) -> Result<DB, Error> {
    let db = DB::open(&creating(), path)?;
    for (number, key) in keys.iter().enumerate() {
        db.put(key, number.to_string())?;
    }
    Ok(db)
}

fn keys<D: DBAccess>(iterator: DBIteratorWithThreadMode<'_, D>) -> Result<Vec<String>, Error> {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    iterator.map(|entry| entry.map(|(key, _)| text(&key))).collect()
}

#[test]
fn a_key_has_the_value_that_was_last_put() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "b"])?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"0"[..]));
    db.put(b"a", vec![1, 2])?;
    assert_eq!(db.get_pinned(b"a")?.as_deref(), Some(&[1, 2][..]));
    assert_eq!(db.get_pinned("a")?.map(|value| value.as_ref().len()), Some(2));
    db.delete("a")?;
    db.delete("a")?; // not there any more, which is no error
    assert!(db.get("a")?.is_none() && db.get_pinned("a")?.is_none());
    db.put("empty", "")?;
    assert_eq!(db.get("empty")?, Some(Vec::new()));
    assert!(db.key_may_exist("b"));
    let long = vec![0; 5_000];
    assert!(db.get(&long)?.is_none() && db.multi_get([&long])[0] == Ok(None));
    db.delete(&long[..4_000])?;
    Ok(())
}

#[test]
fn many_keys_are_answered_in_their_order() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "b", "c"])?;
    let found: Result<Vec<_>, _> = db.multi_get(["c", "none", "a", "c"]).into_iter().collect();
    let value = |text: &str| Some(text.as_bytes().to_vec());
    assert_eq!(found?, [value("2"), None, value("0"), value("2")]);
    assert!(db.multi_get(Vec::<&[u8]>::new()).is_empty());
    Ok(())
}

#[test]
fn iterators_go_both_ways_from_where_their_mode_says() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["b", "d", "f"])?;
    let from = |key: &'static str, direction| IteratorMode::From(key.as_bytes(), direction);
    assert_eq!(keys(db.iterator(IteratorMode::Start))?, ["b", "d", "f"]);
    assert_eq!(keys(db.iterator(IteratorMode::End))?, ["f", "d", "b"]);
    assert_eq!(keys(db.iterator(from("d", Direction::Forward)))?, ["d", "f"]);
    assert_eq!(keys(db.iterator(from("c", Direction::Forward)))?, ["d", "f"]);
    assert_eq!(keys(db.iterator(from("d", Direction::Reverse)))?, ["d", "b"]);
    assert_eq!(keys(db.iterator(from("e", Direction::Reverse)))?, ["d", "b"]);
    assert_eq!(keys(db.iterator(from("g", Direction::Reverse)))?, ["f", "d", "b"]);
    assert_eq!(keys(db.iterator(from("g", Direction::Forward)))?.len(), 0);
    assert_eq!(keys(db.iterator(from("a", Direction::Reverse)))?.len(), 0);
    let mut again = db.iterator(IteratorMode::Start);
    assert_eq!(again.by_ref().count(), 3);
    assert!(again.next().is_none());
    again.set_mode(from("f", Direction::Reverse));
    assert_eq!(keys(again)?, ["f", "d", "b"]);
    Ok(())
}

#[test]
fn bounds_hold_in_both_directions() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "b", "c", "d", "e"])?;
    let bounded = || {
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound("b");
        options.set_iterate_upper_bound("d");
        options
    };
    assert_eq!(keys(db.iterator_opt(IteratorMode::Start, bounded()))?, ["b", "c"]);
    assert_eq!(keys(db.iterator_opt(IteratorMode::End, bounded()))?, ["c", "b"]);
    let low = IteratorMode::From(b"a", Direction::Forward);
    assert_eq!(keys(db.iterator_opt(low, bounded()))?, ["b", "c"]);
    let high = IteratorMode::From(b"e", Direction::Reverse);
    assert_eq!(keys(db.iterator_opt(high, bounded()))?, ["c", "b"]);
    let mut options = ReadOptions::default();
    options.set_iterate_range("c".as_bytes()..);
    assert_eq!(keys(db.iterator_opt(IteratorMode::Start, options))?, ["c", "d", "e"]);
    Ok(())
}

#[test]
fn a_range_of_a_prefix_has_the_keys_that_begin_with_it() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "ab", "abc", "ac", "b"])?;
    db.put([0xff, 0xff], "6")?;
    db.put([0xff, 0xff, 0], "7")?;
    let among = |prefix: &[u8], mode| {
        let mut options = ReadOptions::default();
        options.set_iterate_range(PrefixRange(prefix));
        keys(db.iterator_opt(mode, options))
    };
    assert_eq!(among(b"ab", IteratorMode::Start)?, ["ab", "abc"]);
    assert_eq!(among(b"ab", IteratorMode::End)?, ["abc", "ab"]);
    assert_eq!(among(b"ab", IteratorMode::From(b"abb", Direction::Reverse))?, ["ab"]);
    assert_eq!(among(&[0xff, 0xff], IteratorMode::Start)?.len(), 2);
    assert_eq!(among(b"", IteratorMode::Start)?.len(), 7);
    Ok(())
}

#[test]
fn a_prefix_iterator_ends_with_the_prefix_that_the_extractor_finds() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(2));
    let db = DB::open(&options, &folder)?;
    for key in ["aa1", "aa2", "aa3", "ab1", "b"] {
        db.put(key, key)?;
    }
    assert_eq!(keys(db.prefix_iterator("aa"))?, ["aa1", "aa2", "aa3"]);
    assert_eq!(keys(db.prefix_iterator("aa2"))?, ["aa2", "aa3"]);
    assert_eq!(keys(db.prefix_iterator("ac"))?.len(), 0);
    assert_eq!(keys(db.full_iterator(IteratorMode::Start))?.len(), 5);
    let mut same = ReadOptions::default();
    same.set_prefix_same_as_start(true);
    let from = IteratorMode::From(b"ab", Direction::Forward);
    let mut raw: DBRawIteratorWithThreadMode<'_, DB> = db.iterator_opt(from, same).into();
    assert_eq!(raw.item(), Some((&b"ab1"[..], &b"ab1"[..])));
    raw.next();
    assert!(!raw.valid() && raw.item().is_none());
    raw.status()?;
    Ok(())
}

#[test]
fn a_raw_iterator_turns_round_where_it_stands() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "c", "e"])?;
    let mut raw = db.raw_iterator();
    assert!(!raw.valid() && raw.key().is_none());
    raw.seek("b");
    assert_eq!((raw.key(), raw.value()), (Some(&b"c"[..]), Some(&b"1"[..])));
    raw.next();
    assert_eq!(raw.key(), Some(&b"e"[..]));
    raw.prev();
    assert_eq!(raw.key(), Some(&b"c"[..]));
    raw.prev();
    assert_eq!(raw.key(), Some(&b"a"[..]));
    raw.next();
    assert_eq!(raw.key(), Some(&b"c"[..]));
    raw.seek_for_prev("d");
    assert_eq!(raw.key(), Some(&b"c"[..]));
    raw.seek_to_last();
    assert_eq!(raw.key(), Some(&b"e"[..]));
    raw.next();
    assert!(!raw.valid());
    raw.status()?;
    raw.seek_to_first();
    assert_eq!(raw.key(), Some(&b"a"[..]));
    raw.prev();
    assert!(!raw.valid());
    Ok(())
}

#[test]
fn a_batch_stands_whole_and_in_its_order() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "b", "c", "d"])?;
    let mut batch = WriteBatch::default();
    batch.put("x", "1");
    batch.put("x", "2");
    batch.delete("a");
    batch.put("b1", "gone");
    batch.delete_range("b", "d");
    batch.put("c", "again");
    assert_eq!((batch.len(), batch.is_empty()), (6, false));
    db.write(batch)?;
    assert_eq!(keys(db.iterator(IteratorMode::Start))?, ["c", "d", "x"]);
    assert_eq!(db.get("x")?.as_deref(), Some(&b"2"[..]));
    assert_eq!(db.get("c")?.as_deref(), Some(&b"again"[..]));
    let mut cleared = WriteBatch::default();
    cleared.put("never", "1");
    cleared.clear();
    let mut synced = WriteOptions::default();
    synced.set_sync(true);
    db.write_opt(cleared, &synced)?;
    assert!(db.get("never")?.is_none());
    Ok(())
}

#[test]
fn a_snapshot_and_an_iterator_see_the_moment_when_they_were_made() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "b"])?;
    let snapshot = db.snapshot();
    let iterator = db.iterator(IteratorMode::Start);
    db.put("a", "new")?;
    db.delete("b")?;
    db.put("c", "new")?;
    assert_eq!(keys(iterator)?, ["a", "b"]);
    assert_eq!(snapshot.get("a")?.as_deref(), Some(&b"0"[..]));
    assert_eq!(snapshot.get_pinned("b")?.as_deref(), Some(&b"1"[..]));
    assert_eq!(keys(snapshot.iterator(IteratorMode::End))?, ["b", "a"]);
    let found: Result<Vec<_>, _> = snapshot.multi_get(["c", "b"]).into_iter().collect();
    assert_eq!(found?, [None, Some(b"1".to_vec())]);
    let mut options = ReadOptions::default();
    options.set_snapshot(&snapshot);
    assert_eq!(db.get_opt("a", &options)?.as_deref(), Some(&b"0"[..]));
    assert_eq!(db.get("a")?.as_deref(), Some(&b"new"[..]));
    Ok(())
}

#[test]
fn column_families_are_apart_and_written_together() -> Outcome {
    let folder = tempfile::tempdir()?;
    {
        let mut db = DB::open_cf(&creating(), &folder, ["one"])?;
        db.create_cf("Two_2", &Options::default())?;
        let (one, two) = (db.cf_handle("one").unwrap(), db.cf_handle("Two_2").unwrap());
        let mut batch = WriteBatch::default();
        batch.put_cf(one, "k", "one");
        batch.put_cf(two, "k", "two");
        batch.put("k", "default");
        db.write(batch)?;
        db.put_cf(one, "l", "more")?;
        let found: Result<Vec<_>, _> =
            db.multi_get_cf([(&two, "k"), (&one, "k")]).into_iter().collect();
        assert_eq!(found?, [Some(b"two".to_vec()), Some(b"one".to_vec())]);
        assert_eq!(keys(db.iterator_cf(one, IteratorMode::End))?, ["l", "k"]);
        db.delete_range_cf(one, "l", "m")?;
        assert_eq!(keys(db.iterator_cf(one, IteratorMode::Start))?, ["k"]);
        assert_eq!(db.snapshot().get_cf(two, "k")?.as_deref(), Some(&b"two"[..]));
        assert!(db.cf_handle("three").is_none());
        assert!(db.create_cf("one", &Options::default()).is_err());
    }
    let mut names = DB::list_cf(&Options::default(), &folder)?;
    names.sort();
    assert_eq!(names, ["Two_2", "default", "one"]);
    let few = DB::open(&Options::default(), &folder).err().expect("all are to be named");
    assert_eq!(few.kind(), ErrorKind::InvalidArgument);
    let other = DB::open_cf(&Options::default(), &folder, ["one", "Two_2", "three"]);
    assert_eq!(other.err().expect("it is not there").kind(), ErrorKind::InvalidArgument);
    let descriptors =
        ["one", "Two_2"].map(|it| ColumnFamilyDescriptor::new(it, Options::default()));
    let mut db = DB::open_cf_descriptors(&Options::default(), &folder, descriptors)?;
    assert_eq!(db.get("k")?.as_deref(), Some(&b"default"[..]));
    assert_eq!(db.get_cf(db.cf_handle("one").unwrap(), "k")?.as_deref(), Some(&b"one"[..]));
    db.drop_cf("one")?;
    assert!(db.cf_handle("one").is_none() && db.drop_cf("one").is_err());
    drop(db);
    assert_eq!(DB::list_cf(&Options::default(), &folder)?.len(), 2);
    Ok(())
}

#[test]
fn in_a_multi_threaded_database_families_come_and_go_beside_others() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = DBWithThreadMode::<MultiThreaded>::open(&creating(), &folder)?;
    std::thread::scope(|scope| {
        for name in ["one", "two", "three"] {
            let db = &db;
            scope.spawn(move || {
                db.create_cf(name, &Options::default()).expect("it is new");
                let family = db.cf_handle(name).expect("it was made");
                db.put_cf(&family, "k", name).expect("it writes");
            });
        }
    });
    for name in ["one", "two", "three"] {
        let family = db.cf_handle(name).expect("it was made");
        assert_eq!(db.get_cf(&family, "k")?.as_deref(), Some(name.as_bytes()));
    }
    db.drop_cf("two")?;
    assert!(db.cf_handle("two").is_none());
    Ok(())
}

#[test]
fn a_database_is_made_only_where_that_is_asked_for() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("db");
    let missing = DB::open(&Options::default(), &path).err().expect("there is none");
    assert_eq!(missing.kind(), ErrorKind::InvalidArgument);
    assert!(DB::open_for_read_only(&Options::default(), &path, false).is_err());
    drop(filled(&path, &["a"])?);
    let mut new = creating();
    new.set_error_if_exists(true);
    let exists = DB::open(&new, &path).err().expect("there is one");
    assert_eq!(exists.kind(), ErrorKind::InvalidArgument);
    let db = DB::open_default(&path)?;
    assert_eq!(db.path(), path);
    assert_eq!(db.get("a")?.as_deref(), Some(&b"0"[..]));
    Ok(())
}

#[test]
fn a_second_writer_is_told_of_the_lock() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a"])?;
    let error = DB::open(&creating(), &folder).err().expect("it is locked");
    assert_eq!(error.kind(), ErrorKind::IOError);
    // What programs look for in the text.
    let text = error.to_string();
    assert!(text.to_lowercase().contains("lock") && text.contains("/LOCK"), "{text}");
    drop(db);
    filled(&folder, &["b"])?;
    Ok(())
}

#[test]
fn a_reader_beside_the_writer_sees_what_was_there_and_writes_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = filled(&folder, &["a", "b"])?;
    db.flush()?;
    let reader = DB::open_for_read_only(&Options::default(), &folder, false)?;
    db.put("c", "new")?;
    assert_eq!(keys(reader.iterator(IteratorMode::Start))?, ["a", "b"]);
    let error = reader.put("d", "new").expect_err("it only reads");
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    drop(reader);
    let reader = DB::open_for_read_only(&Options::default(), &folder, false)?;
    assert_eq!(keys(reader.iterator(IteratorMode::Start))?, ["a", "b", "c"]);
    Ok(())
}

/// Only one that names column families: the other call takes no notice of the wish.
#[test]
fn a_reader_of_families_may_ask_for_there_being_no_log() -> Outcome {
    let folder = tempfile::tempdir()?;
    drop(filled(&folder, &["a"])?);
    let options = Options::default();
    for has_wish in [false, true] {
        let db = DB::open_for_read_only(&options, &folder, has_wish)?;
        assert_eq!(keys(db.iterator(IteratorMode::Start))?, ["a"]);
        DB::open_cf_for_read_only(&options, &folder, None::<&str>, has_wish)?;
    }
    assert!(DB::open_cf_for_read_only(&options, &folder, ["default"], false).is_ok());
    let error = DB::open_cf_for_read_only(&options, &folder, ["default"], true).err();
    assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::Corruption));
    Ok(())
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("checkpoint");
    let db: OptimisticTransactionDB =
        OptimisticTransactionDB::open(&creating(), folder.path().join("db"))?;
    db.put("a", "1")?;
    Checkpoint::new(&db)?.create_checkpoint(&path)?;
    db.put("a", "2")?;
    assert!(Checkpoint::new(&db)?.create_checkpoint(&path).is_err(), "it is there already");
    let copy: OptimisticTransactionDB = OptimisticTransactionDB::open(&Options::default(), &path)?;
    assert_eq!(copy.get("a")?.as_deref(), Some(&b"1"[..]));
    copy.put("a", "3")?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"2"[..]));
    Ok(())
}

fn transactional(path: &Path) -> Result<OptimisticTransactionDB, Error> {
    let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&creating(), path)?;
    for key in ["a", "b", "c"] {
        db.put(key, key)?;
    }
    Ok(db)
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_else_does() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let tx = db.transaction();
    tx.put("b", "new")?;
    tx.put("bb", "new")?;
    tx.delete("c")?;
    tx.put("d", "gone")?;
    tx.delete("d")?;
    assert_eq!(tx.get("b")?.as_deref(), Some(&b"new"[..]));
    assert_eq!(tx.get_pinned("a")?.as_deref(), Some(&b"a"[..]));
    assert!(tx.get("c")?.is_none() && tx.get("d")?.is_none());
    let found: Result<Vec<_>, _> = tx.multi_get(["c", "b", "a"]).into_iter().collect();
    assert_eq!(found?, [None, Some(b"new".to_vec()), Some(b"a".to_vec())]);
    assert_eq!(keys(tx.iterator(IteratorMode::Start))?, ["a", "b", "bb"]);
    assert_eq!(keys(tx.iterator(IteratorMode::End))?, ["bb", "b", "a"]);
    let from = IteratorMode::From(b"c", Direction::Reverse);
    assert_eq!(keys(tx.iterator(from))?, ["bb", "b", "a"]);
    let mut options = ReadOptions::default();
    options.set_iterate_range("b".as_bytes().."bb".as_bytes());
    assert_eq!(keys(tx.iterator_opt(IteratorMode::Start, options))?, ["b"]);
    assert_eq!(keys(db.iterator(IteratorMode::Start))?, ["a", "b", "c"]);
    tx.commit()?;
    assert_eq!(keys(db.iterator(IteratorMode::Start))?, ["a", "b", "bb"]);
    Ok(())
}

#[test]
fn what_is_rolled_back_or_dropped_never_was() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let tx = db.transaction();
    tx.put("a", "never")?;
    tx.rollback()?;
    assert_eq!(tx.get("a")?.as_deref(), Some(&b"a"[..]));
    tx.put("x", "kept")?;
    tx.set_savepoint();
    tx.put("x", "never")?;
    tx.delete("b")?;
    tx.rollback_to_savepoint()?;
    assert_eq!(tx.rollback_to_savepoint().err().map(|it| it.kind()), Some(ErrorKind::NotFound));
    assert_eq!(tx.get("x")?.as_deref(), Some(&b"kept"[..]));
    let dropped = db.transaction();
    dropped.put("y", "never")?;
    drop(dropped);
    tx.commit()?;
    assert_eq!(keys(db.iterator(IteratorMode::Start))?, ["a", "b", "c", "x"]);
    Ok(())
}

/// Keys that were written or read for update only after a savepoint are not minded any more.
#[test]
fn what_is_rolled_back_to_a_savepoint_conflicts_with_nobody() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let tx = db.transaction();
    tx.put("a", "1")?;
    tx.set_savepoint();
    tx.put("b", "1")?;
    tx.set_savepoint();
    tx.put("d", "1")?;
    tx.get_for_update("c", true)?;
    tx.rollback_to_savepoint()?;
    db.put("c", "2")?;
    db.put("d", "2")?;
    assert_eq!(tx.get("d")?.as_deref(), Some(&b"2"[..]));
    tx.rollback_to_savepoint()?;
    db.put("b", "2")?;
    tx.commit()?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"1"[..]));
    assert_eq!(db.get("b")?.as_deref(), Some(&b"2"[..]));

    let tx = db.transaction();
    tx.put("a", "3")?;
    tx.set_savepoint();
    tx.put("a", "4")?;
    tx.rollback_to_savepoint()?;
    db.put("a", "5")?;
    assert!(is_busy(tx.commit()), "it was written before the savepoint too");
    Ok(())
}

fn is_busy(outcome: Result<(), Error>) -> bool {
    outcome.is_err_and(|error| error.kind() == ErrorKind::Busy)
}

#[test]
fn of_two_transactions_on_one_key_the_second_to_commit_is_busy() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let (one, two) = (db.transaction(), db.transaction());
    one.put("a", "1")?;
    two.put("a", "2")?;
    two.put("z", "2")?;
    one.commit()?;
    assert!(is_busy(two.commit()));
    assert_eq!(db.get("a")?.as_deref(), Some(&b"1"[..]));
    assert!(db.get("z")?.is_none());

    // Different keys, and reads without "for update", are in nobody's way.
    let (one, two) = (db.transaction(), db.transaction());
    one.put("a", "3")?;
    assert_eq!(two.get("a")?.as_deref(), Some(&b"1"[..]));
    two.put("b", "3")?;
    one.commit()?;
    two.commit()?;

    let (reader, writer) = (db.transaction(), db.transaction());
    assert!(reader.get_for_update("c", true)?.is_some());
    reader.put("d", "4")?;
    writer.put("c", "4")?;
    writer.commit()?;
    assert!(is_busy(reader.commit()));

    // A write without a transaction counts too.
    let tx = db.transaction();
    tx.delete("a")?;
    db.put("a", "5")?;
    assert!(is_busy(tx.commit()));
    assert_eq!(db.get("a")?.as_deref(), Some(&b"5"[..]));
    Ok(())
}

#[test]
fn a_transaction_with_a_snapshot_minds_what_came_after_it() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let mut with_snapshot = OptimisticTransactionOptions::default();
    with_snapshot.set_snapshot(true);
    let tx = db.transaction_opt(&WriteOptions::default(), &with_snapshot);
    let without = db.transaction();
    db.put("a", "later")?;
    assert_eq!(tx.snapshot().get("a")?.as_deref(), Some(&b"a"[..]));
    assert_eq!(tx.get("a")?.as_deref(), Some(&b"later"[..]));
    tx.put("a", "mine")?;
    assert_eq!(tx.snapshot().get("a")?.as_deref(), Some(&b"mine"[..]));
    tx.rollback()?; // the snapshot stays
    assert_eq!(tx.snapshot().get("a")?.as_deref(), Some(&b"a"[..]));
    tx.put("a", "mine")?;
    assert!(is_busy(tx.commit()));
    without.put("a", "mine")?; // written after the other one
    without.commit()?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"mine"[..]));
    Ok(())
}

#[test]
fn a_thread_may_have_several_transactions() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let mut open = db.transaction();
    open.put("a", "1")?;
    // As a store does that keeps one transaction open and puts the next in its place.
    let first = std::mem::replace(&mut open, db.transaction());
    first.commit()?;
    open.put("a", "2")?;
    let mut batch = WriteBatchWithTransaction::<true>::default();
    batch.put("b", "2");
    db.write(batch)?;
    open.commit()?;
    assert_eq!(db.get("a")?.as_deref(), Some(&b"2"[..]));
    Ok(())
}

#[test]
fn what_a_loop_over_a_transaction_writes_does_not_disturb_it() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = transactional(folder.path())?;
    let tx = db.transaction();
    for (key, _) in db.iterator(IteratorMode::Start).flatten() {
        tx.delete(key)?;
    }
    tx.commit()?;
    assert_eq!(db.iterator(IteratorMode::Start).count(), 0);
    Ok(())
}

/// Numbers that look like chance.
fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    })
}

#[test]
fn a_transaction_and_a_map_give_the_same_answers() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.set_write_buffer_size(64 << 10);
    let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&options, folder.path())?;
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut numbers = numbers(7);
    let mut number = |below: u64| numbers.next().unwrap_or(0) % below;
    for round in 0..30_u64 {
        let tx = db.transaction();
        let mut draft = model.clone();
        for _ in 0..number(80) {
            let key = (number(300) as u16).to_be_bytes().to_vec();
            if number(3) == 0 {
                tx.delete(&key)?;
                draft.remove(&key);
            } else {
                let value = vec![round as u8; number(400) as usize];
                tx.put(&key, &value)?;
                draft.insert(key, value);
            }
        }
        for _ in 0..10 {
            let key = (number(300) as u16).to_be_bytes();
            let (low, high) =
                ((number(300) as u16).to_be_bytes(), (number(300) as u16).to_be_bytes());
            let range = || draft.iter().filter(|(key, _)| key[..] >= low[..] && key[..] < high[..]);
            let mut bounds = ReadOptions::default();
            bounds.set_iterate_range(low.to_vec()..high.to_vec());
            let found: Vec<_> = tx.iterator_opt(IteratorMode::Start, bounds).flatten().collect();
            assert!(
                found
                    .iter()
                    .map(|(key, value)| (&**key, &**value))
                    .eq(range().map(|(key, value)| (&key[..], &value[..])))
            );
            let mut bounds = ReadOptions::default();
            bounds.set_iterate_range(low.to_vec()..high.to_vec());
            let from = IteratorMode::From(&key, Direction::Reverse);
            let found: Vec<_> =
                tx.iterator_opt(from, bounds).flatten().map(|(key, _)| key.to_vec()).collect();
            assert!(
                found.iter().eq(range().rev().map(|(key, _)| key).filter(|it| it[..] <= key[..]))
            );
            // Back and forth from a place.
            let mut raw = tx.raw_iterator();
            raw.seek(key);
            let at = draft.range(key.to_vec()..).next().map(|(key, _)| &key[..]);
            assert_eq!(raw.key(), at);
            if let Some(at) = at {
                raw.prev();
                assert_eq!(
                    raw.key(),
                    draft.range(..at.to_vec()).next_back().map(|(key, _)| &key[..])
                );
                if raw.valid() {
                    raw.next();
                    assert_eq!(raw.key(), Some(at));
                }
            }
        }
        if number(4) == 0 {
            tx.rollback()?;
        } else {
            tx.commit()?;
            model = draft;
        }
    }
    let found = db.iterator(IteratorMode::Start).flatten();
    assert!(found.map(|(key, value)| (key.to_vec(), value.to_vec())).eq(model));
    Ok(())
}

#[test]
fn options_that_tune_change_no_answer() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut tables = BlockBasedOptions::default();
    tables.set_format_version(5);
    tables.set_ribbon_filter(10.0);
    tables.set_whole_key_filtering(true);
    tables.set_pin_l0_filter_and_index_blocks_in_cache(true);
    tables.set_index_type(BlockBasedIndexType::BinarySearch);
    tables.set_checksum_type(ChecksumType::XXH3);
    tables.set_block_cache(&Cache::new_hyper_clock_cache(8 << 20, 0));
    let mut options = creating();
    options.set_block_based_table_factory(&tables);
    options.set_log_level(LogLevel::Warn);
    options.set_db_log_dir(folder.path().join("messages"));
    options.set_recycle_log_file_num(2);
    options.set_wal_recovery_mode(DBRecoveryMode::PointInTime);
    options.set_max_subcompactions(2);
    options.set_max_bytes_for_level_multiplier(8.0);
    options.set_compaction_pri(CompactionPri::MinOverlappingRatio);
    options.set_universal_compaction_options(&UniversalCompactOptions::default());
    options.set_disable_auto_compactions(true);
    options.set_ratelimiter(64 << 20, 100_000, 10);
    options.set_compression_options(4, 5, 6, 7);
    options.set_manual_wal_flush(false);
    options.enable_statistics();
    let db = DB::open(&options, folder.path().join("db"))?;
    let mut writes = WriteOptions::new();
    writes.set_low_pri(true);
    db.put_opt("a", "1", &writes)?;
    let mut reads = ReadOptions::default();
    reads.set_auto_readahead_size(true);
    reads.set_max_skippable_internal_keys(0);
    assert_eq!(db.get_opt("a", &reads)?.as_deref(), Some(&b"1"[..]));
    assert!(db.key_may_exist_opt("a", &reads));
    Ok(())
}

#[test]
fn upkeep_of_a_column_family_changes_no_answer() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = DBWithThreadMode::<MultiThreaded>::open_cf(&creating(), &folder, ["cf"])?;
    let cf = db.cf_handle("cf").ok_or("it was named")?;
    for number in 0..100_u8 {
        db.put_cf(&cf, [number], [number; 100])?;
    }
    db.delete_cf(&cf, [7_u8])?;
    assert!(db.latest_sequence_number() > 100);
    let mut flush = FlushOptions::default();
    flush.set_wait(true);
    db.flush_opt(&flush)?;
    db.flush_cf_opt(&cf, &flush)?;
    db.flush_cfs_opt(&[&cf], &flush)?;
    db.compact_range_cf(&cf, None::<&[u8]>, None::<&[u8]>);
    db.compact_range_cf_opt(&cf, Some("a"), None::<&[u8]>, &CompactOptions::default());
    db.wait_for_compact(&WaitForCompactOptions::default())?;
    let count = db.property_value_cf(&cf, "rocksdb.estimate-num-keys")?;
    let count: u64 = count.ok_or("it is known")?.parse()?;
    assert!((98..=100).contains(&count), "an estimate of 99: {count}");
    assert!(db.property_value("rocksdb.no-such-property")?.is_none());

    let found = db.batched_multi_get_cf(&cf, &[[6_u8], [7], [8]], true);
    let lengths: Result<Vec<_>, _> =
        found.into_iter().map(|it| it.map(|it| it.map(|it| it.len()))).collect();
    assert_eq!(lengths?, [Some(100), None, Some(100)]);
    let snapshot = db.snapshot();
    db.delete_cf(&cf, [8_u8])?;
    assert!(snapshot.get_pinned_cf_opt(&cf, [8_u8], ReadOptions::default())?.is_some());
    let both = snapshot.multi_get_cf_opt([(&cf, [7_u8]), (&cf, [8])], ReadOptions::default());
    let both: Result<Vec<_>, _> = both.into_iter().collect();
    assert_eq!(both?, [None, Some(vec![8; 100])]);
    Ok(())
}

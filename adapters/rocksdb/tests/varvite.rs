//! What the adapter promises beyond the peer: varvite's errors, limits and files.

use rocksdb::{
    DB, DBIterator, ErrorKind, IteratorMode, MultiThreaded, OptimisticTransactionDB, Options,
    ReadOptions, SliceTransform, WriteBatch, WriteBatchIterator,
};

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

fn creating() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options
}

#[test]
fn what_is_too_long_is_refused_by_its_length() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = DB::open(&creating(), &folder)?;
    let error = db.put(vec![0; 4_001], "value").expect_err("the key is too long");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("4001"), "{error}");
    let mut batch = WriteBatch::default();
    batch.put("a", "1");
    batch.put("b", vec![0; (16 << 20) + 1]);
    assert!(db.write(batch).is_err());
    assert!(db.get("a")?.is_none(), "all of a batch or nothing");
    Ok(())
}

#[test]
fn an_iterator_tells_of_damage_once() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.set_write_buffer_size(64 << 10);
    let db = DB::open(&options, &folder)?;
    for number in 0..10_000_u32 {
        db.put(number.to_be_bytes(), [7; 300])?;
    }
    let mut damaged = 0;
    for entry in std::fs::read_dir(folder.path().join("segments"))? {
        let path = entry?.path();
        let mut bytes = std::fs::read(&path)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes)?;
        damaged += 1;
    }
    assert!(damaged > 0, "the keys fill write buffers");
    let mut iterator: DBIterator<'_> = db.iterator(IteratorMode::Start);
    let error = iterator.by_ref().find_map(Result::err).expect("a page is damaged");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("segments/"), "{error}");
    assert!(iterator.next().is_none(), "after the error there is nothing");
    Ok(())
}

#[test]
fn a_range_that_is_deleted_is_in_a_transactions_way() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&creating(), folder.path())?;
    for key in ["a", "b", "c"] {
        db.put(key, key)?;
    }
    let (inside, outside) = (db.transaction(), db.transaction());
    inside.put("b", "new")?;
    outside.put("c", "new")?;
    let default = rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
    let family = db.cf_handle(default).expect("it is always there");
    db.delete_range_cf(&family, "a", "c")?;
    assert_eq!(inside.commit().expect_err("it was deleted").kind(), ErrorKind::Busy);
    outside.commit()?;
    let keys: Vec<_> = db.iterator(IteratorMode::Start).flatten().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"c"[..].into()]);
    Ok(())
}

#[test]
fn a_transaction_goes_on_beside_an_iterator_of_it() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&creating(), folder.path())?;
    let tx = db.transaction();
    tx.put("a", "1")?;
    tx.put("c", "1")?;
    let mut iterator = tx.iterator(IteratorMode::Start);
    assert!(iterator.next().is_some());
    tx.put("b", "1")?;
    tx.delete("c")?;
    assert_eq!(iterator.next().transpose()?.map(|(key, _)| key), Some(b"c"[..].into()));
    assert!(iterator.next().is_none());
    assert_eq!(tx.iterator(IteratorMode::End).count(), 2);
    Ok(())
}

#[test]
fn crossed_bounds_leave_nothing() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&creating(), folder.path())?;
    db.put("b", "1")?;
    let tx = db.transaction();
    tx.put("c", "1")?;
    for (lower, upper) in [("d", "a"), ("b", "b"), ("c", "c")] {
        let options = || {
            let mut options = ReadOptions::default();
            options.set_iterate_lower_bound(lower);
            options.set_iterate_upper_bound(upper);
            options
        };
        assert_eq!(tx.iterator_opt(IteratorMode::Start, options()).count(), 0);
        assert_eq!(tx.iterator_opt(IteratorMode::End, options()).count(), 0);
    }
    Ok(())
}

#[test]
fn prefixes_may_come_from_a_function() -> Outcome {
    fn until_slash(key: &[u8]) -> &[u8] {
        let end = key.iter().position(|byte| *byte == b'/').unwrap_or(key.len());
        &key[..end]
    }
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.set_prefix_extractor(SliceTransform::create("until slash", until_slash, None));
    let db = DB::open(&options, &folder)?;
    for key in ["a/1", "a/2", "ab/1", "b"] {
        db.put(key, "")?;
    }
    assert_eq!(db.prefix_iterator("a/").count(), 2);
    assert_eq!(db.prefix_iterator("ab").count(), 1);
    Ok(())
}

#[test]
fn a_batch_shows_what_goes_to_the_default_family() {
    #[derive(Default)]
    struct Seen(Vec<(Vec<u8>, Option<Vec<u8>>)>);
    impl WriteBatchIterator for Seen {
        fn put(&mut self, key: &[u8], value: &[u8]) {
            self.0.push((key.to_vec(), Some(value.to_vec())));
        }
        fn delete(&mut self, key: &[u8]) {
            self.0.push((key.to_vec(), None));
        }
    }
    let mut batch = WriteBatch::default();
    batch.put("a", "1");
    batch.delete("b");
    let mut seen = Seen::default();
    batch.iterate(&mut seen);
    assert_eq!(seen.0, [(b"a".to_vec(), Some(b"1".to_vec())), (b"b".to_vec(), None)]);
    assert_eq!(batch.size_in_bytes(), 3);
}

#[test]
fn error_if_exists_is_told_without_create_if_missing_too() -> Outcome {
    let folder = tempfile::tempdir()?;
    drop(DB::open(&creating(), &folder)?);
    let mut options = Options::default();
    options.set_error_if_exists(true);
    let error = DB::open(&options, &folder).err().expect("it is there");
    assert!(error.to_string().contains("error_if_exists"), "{error}");
    Ok(())
}

/// Two families are written together; what is read of both is of one moment.
#[test]
fn many_keys_of_several_families_are_of_one_moment() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.create_missing_column_families(true);
    let db = DB::open_cf(&options, &folder, ["one", "two"])?;
    let handle = |name: &str| db.cf_handle(name).ok_or("it was opened");
    let (one, two) = (handle("one")?, handle("two")?);
    let write = |number: u32| {
        let mut batch = WriteBatch::default();
        batch.put_cf(&one, "k", number.to_be_bytes());
        batch.put_cf(&two, "k", number.to_be_bytes());
        db.write(batch)
    };
    write(0)?;
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..3_000 {
                write(number).expect("the disk has room");
            }
            is_done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !is_done.load(std::sync::atomic::Ordering::Acquire) {
            let found = db.multi_get_cf([(&one, "k"), (&two, "k")]);
            let [Ok(first), Ok(second)] = &found[..] else { panic!("{found:?}") };
            assert_eq!(first, second);
        }
    });
    Ok(())
}

#[test]
fn an_opening_that_is_refused_makes_no_family() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.create_missing_column_families(true);
    drop(DB::open_cf(&options, &folder, ["one"])?);
    assert!(DB::open_cf(&options, &folder, ["two"]).is_err(), "one is there and not named");
    assert_eq!(DB::list_cf(&options, &folder)?, ["default", "one"]);
    Ok(())
}

#[test]
fn keys_that_can_be_read_are_given_beside_damaged_ones() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.set_write_buffer_size(64 << 10);
    let db = DB::open(&options, &folder)?;
    let keys: Vec<_> = (0..3_000_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        db.put(key, [7; 300])?;
    }
    for entry in std::fs::read_dir(folder.path().join("segments"))? {
        let path = entry?.path();
        let mut bytes = std::fs::read(&path)?;
        bytes[4096 * 2 + 100] ^= 1;
        std::fs::write(&path, bytes)?;
    }
    let found = db.multi_get(&keys);
    let read = found.iter().filter(|value| matches!(value, Ok(Some(_)))).count();
    assert!(read > 0 && read < keys.len(), "{read}");
    for (key, value) in keys.iter().zip(found) {
        assert_eq!(db.get(key).is_ok(), value.is_ok());
    }
    Ok(())
}

#[test]
fn a_range_that_ends_before_it_begins_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = DB::open(&creating(), &folder)?;
    db.put("b", "1")?;
    let mut batch = WriteBatch::default();
    batch.delete("b");
    batch.delete_range("c", "a");
    assert_eq!(db.write(batch).expect_err("it goes backwards").kind(), ErrorKind::InvalidArgument);
    assert!(db.get("b")?.is_some(), "all of a batch or nothing");
    Ok(())
}

/// What a handle, a batch and a transaction have of a family that was dropped is not for its namesake.
#[test]
fn a_namesake_of_a_dropped_family_is_not_written_by_old_handles() -> Outcome {
    let folder = tempfile::tempdir()?;
    let db = OptimisticTransactionDB::<MultiThreaded>::open(&creating(), &folder)?;
    db.create_cf("t", &Options::default())?;
    let old = db.cf_handle("t").ok_or("it was made")?;
    db.put_cf(&old, "a", "old")?;
    let tx = db.transaction();
    tx.put_cf(&old, "b", "old")?;
    let mut batch = rocksdb::WriteBatchWithTransaction::<true>::default();
    batch.put("elsewhere", "1");
    batch.put_cf(&old, "c", "old");
    let before = db.snapshot();
    db.drop_cf("t")?;
    db.create_cf("t", &Options::default())?;
    let new = db.cf_handle("t").ok_or("it was made")?;
    db.put_cf(&new, "n", "new")?;

    for refused in [db.put_cf(&old, "d", "old"), tx.commit(), db.write(batch)] {
        let error = refused.expect_err("its family is gone");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("\"t\""), "{error}");
    }
    assert!(db.get("elsewhere")?.is_none(), "all of a batch or nothing");
    assert_eq!(db.iterator_cf(&new, IteratorMode::Start).count(), 1);
    // Old handles go on reading what there was, and each snapshot has the family of its time.
    assert_eq!(db.get_cf(&old, "a")?.as_deref(), Some(&b"old"[..]));
    assert!(db.get_cf(&old, "n")?.is_none() && before.get_cf(&old, "a")?.is_some());
    assert!(before.get_cf(&new, "a")?.is_none() && before.get_cf(&new, "n")?.is_none());
    assert!(db.snapshot().get_cf(&old, "n")?.is_none());
    assert_eq!(db.snapshot().get_cf(&new, "n")?.as_deref(), Some(&b"new"[..]));
    Ok(())
}

#[test]
fn a_handle_of_another_database_is_refused() -> Outcome {
    let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut options = creating();
    options.create_missing_column_families(true);
    let (one, two) = (DB::open_cf(&options, &one, ["t"])?, DB::open_cf(&options, &two, ["t"])?);
    let foreign = one.cf_handle("t").ok_or("it was opened")?;
    assert_eq!(
        two.put_cf(&foreign, "k", "1").expect_err("not its own").kind(),
        ErrorKind::InvalidArgument
    );
    Ok(())
}

/// Others write more than is kept: a transaction that relies on what came before is told to try again.
#[test]
fn an_idle_transaction_is_told_to_try_again_when_its_history_is_gone() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = creating();
    options.set_max_write_buffer_size_to_maintain(64 << 10);
    let db: OptimisticTransactionDB = OptimisticTransactionDB::open(&options, folder.path())?;
    let (idle, empty) = (db.transaction(), db.transaction());
    idle.put("mine", "1")?;
    for number in 0..2_000_u32 {
        db.put(number.to_be_bytes(), "x")?;
    }
    let young = db.transaction();
    young.put("another", "1")?;
    db.put("last", "x")?;
    let error = idle.commit().expect_err("nobody knows any more");
    assert_eq!(error.kind(), ErrorKind::TryAgain, "{error}");
    assert!(error.to_string().starts_with("Operation failed. Try again.: "), "{error}");
    assert!(db.get("mine")?.is_none());
    young.commit()?;
    empty.put("mine", "2")?; // what it relies on is young, not it
    empty.commit()?;
    assert_eq!(db.get("mine")?.as_deref(), Some(&b"2"[..]));
    Ok(())
}

//! Readers of a context's handle that writes: in threads while it commits and collects, and at every call of
//! its disk.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use varvite::context::{CommitHash, CommitInfo, Durability, Index, Keep, Options, Reader, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{Kind, Result};

use crate::context_story::options;
use crate::hooked_disk::HookedDisk;

/// Commits `number` in several places, and has the branch name the commit.
fn commit(store: &mut Store, number: u64) -> Result<CommitHash> {
    let last = store.last_commit()?;
    let mut tree = match &last {
        Some(last) => store.checkout(last)?,
        None => store.empty_tree(),
    };
    let value = number.to_be_bytes().repeat(6);
    for place in 0..30 {
        tree.add(&["data", &format!("{:02}", (place + number) % 40)], &value)?;
    }
    tree.add(&["a"], &value)?;
    tree.add(&["z"], &value)?;
    let parents: Vec<CommitHash> = last.into_iter().collect();
    let hash = store.commit(&mut tree, &CommitInfo::new(&parents, number as i64, "a", "b"))?;
    store.set_branch(b"main", &hash)?;
    Ok(hash)
}

/// The number of the newest commit, which all that is seen agrees on.
fn see(reader: &Reader) -> Result<Option<u64>> {
    let log = reader.log(5)?;
    let Some(newest) = log.first() else { return Ok(None) };
    let info = reader.commit_info(newest)?;
    let tree = reader.checkout(newest)?;
    let value = (info.date as u64).to_be_bytes().repeat(6);
    for path in [&["a"][..], &["z"], &["data", &format!("{:02}", info.date % 40)]] {
        assert_eq!(tree.find(path)?.as_deref(), Some(&*value));
    }
    for (place, older) in log.iter().enumerate() {
        let is_there = reader.exists(older)?;
        // *Collected*, if it went meanwhile.
        let date = reader.commit_info(older)?.date;
        assert_eq!((is_there, date), (true, info.date - place as i64));
    }
    assert!(!reader.exists(&[7; 32].into())?);
    Ok(Some(info.date as u64))
}

fn small(index: Index, durability: Durability) -> Options {
    Options { chunk_bytes: 8_000, ..options(index, durability) }
}

#[test]
fn threads_read_beside_a_writer_that_commits_and_collects() {
    const COMMITS: u64 = 150;
    for index in [Index::Minimal, Index::Always] {
        let options = small(index, Durability::Synced);
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
        let reader = store.reader().unwrap();
        assert_eq!((see(&reader).unwrap(), reader.branches().unwrap()), (None, Vec::new()));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                let (reader, done) = (reader.clone(), &done);
                scope.spawn(move || {
                    let (mut last, mut answers) = (None, 0_u64);
                    loop {
                        let is_over = done.load(SeqCst);
                        match see(&reader) {
                            Ok(seen) => {
                                assert!(seen >= last, "{seen:?} after {last:?}");
                                (last, answers) = (seen, answers + 1);
                            }
                            // One of the five newest may go while it is looked at.
                            Err(error) => assert_eq!(error.kind(), Kind::Collected, "{error}"),
                        }
                        if is_over {
                            break;
                        }
                    }
                    assert!(
                        answers > 1 && last == Some(COMMITS - 1),
                        "{answers} answers, {last:?}"
                    );
                });
            }
            for number in 0..COMMITS {
                commit(&mut store, number).unwrap();
                if number % 30 == 29 {
                    store.collect_keeping(&Keep::Newest(8)).unwrap();
                }
                store.collect_step(4).unwrap();
            }
            while store.collect_step(64).unwrap() {}
            done.store(true, SeqCst);
        });
        let oldest = store.log(usize::MAX).unwrap().pop().unwrap();
        assert!(store.log(usize::MAX).unwrap().len() < COMMITS as usize, "it collected");
        assert_eq!(reader.log(usize::MAX).unwrap().last(), Some(&oldest));
        assert_eq!(reader.branch(b"main").unwrap(), store.last_commit().unwrap());
        let tree = reader.checkout(&oldest).unwrap();
        store.close().unwrap();
        assert_eq!(see(&reader).unwrap_err().kind(), Kind::Closed);
        assert!(tree.find(&["a"]).unwrap().is_some(), "trees stay");
        commit(&mut Store::open(disk, options).unwrap(), COMMITS).unwrap();
    }
}

/// A reader that looks at each call of the disk, the last commit that was acknowledged, and how often it looked.
#[derive(Default)]
struct Watch {
    reader: Option<Reader>,
    last: Option<u64>,
    looks: u64,
}

#[test]
fn a_reader_waits_for_no_call_of_the_writers_disk_and_sees_what_was_acknowledged() {
    for index in [Index::Minimal, Index::Always] {
        let shared: Arc<Mutex<Watch>> = Arc::default();
        let seen = Arc::clone(&shared);
        // In the writer's own thread: to wait for a lock that it holds would be for ever.
        let hooked = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
            let Ok(mut watch) = seen.try_lock() else { return };
            let (Some(reader), true) = (watch.reader.clone(), call.changes()) else { return };
            let found = see(&reader).unwrap_or_else(|error| panic!("{call:?} of {path}: {error}"));
            let last = watch.last;
            let is_next = found == Some(last.map_or(0, |last| last + 1));
            assert!(found == last || is_next, "{call:?} of {path}: {found:?} after {last:?}");
            watch.looks += 1;
        });
        let mut store = Store::create(hooked, small(index, Durability::Synced)).unwrap();
        shared.lock().unwrap().reader = Some(store.reader().unwrap());
        for number in 0..40 {
            commit(&mut store, number).unwrap();
            shared.lock().unwrap().last = Some(number);
            if number % 8 == 5 {
                store.checkpoint().unwrap();
            }
        }
        let looks = shared.lock().unwrap().looks;
        assert!(looks > 150, "{looks} looks");
    }
}

#[test]
fn readers_of_a_store_that_is_open_to_read_follow_its_reload_and_outlive_a_clearing() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let options = small(Index::Minimal, Durability::Synced);
    let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
    commit(&mut store, 0).unwrap();
    let mut other = Store::open_read_only(disk, options).unwrap();
    let (own, reader) = (store.reader().unwrap(), other.reader().unwrap());
    commit(&mut store, 1).unwrap();
    assert_eq!((see(&own).unwrap(), see(&reader).unwrap()), (Some(1), Some(0)));
    other.reload().unwrap();
    assert_eq!(see(&reader).unwrap(), Some(1));
    store.rebuild_index().unwrap();
    assert_eq!(see(&own).unwrap(), Some(1));
    store.clear().unwrap();
    assert_eq!((see(&own).unwrap(), see(&reader).unwrap()), (None, Some(1)));
    other.reload().unwrap();
    assert_eq!(see(&reader).unwrap(), None);
    commit(&mut store, 0).unwrap();
    other.reload().unwrap();
    assert_eq!((see(&own).unwrap(), see(&reader).unwrap()), (Some(0), Some(0)));
}

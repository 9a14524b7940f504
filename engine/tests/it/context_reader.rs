//! Readers of a context's handle that writes: in threads while it commits and collects, and at every call of
//! its disk.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use varvite::context::{
    CommitHash, CommitInfo, Durability, Index, Keep, Options, Reader, Store, Tree, TreeHash,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::{Error, Kind, Result};

use crate::context_story::options;
use crate::hooked_disk::{Call, HookedDisk};

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

/// The directory with this hash, if the store finds objects; those that a collection takes are *collected*.
fn find(reader: &Reader, hash: &TreeHash) -> Result<Option<Tree>> {
    match reader.find_object(hash) {
        Err(error) if error.kind() == Kind::Invalid => Ok(None),
        Ok(None) => Err(Error::new(Kind::Collected, "an object that the commit has")),
        found => found,
    }
}

/// The number of the newest commit, which all that is seen agrees on. Everything is asked.
fn see(reader: &Reader) -> Result<Option<u64>> {
    assert_eq!(reader.configuration()?, options(Index::Minimal, Durability::Synced).configuration);
    let log = reader.log(5)?;
    assert!(!reader.exists(&[7; 32].into())?);
    assert!(find(reader, &TreeHash::new([7; 32])).map_or(true, |found| found.is_none()));
    let Some(newest) = log.first() else { return Ok(None) };
    let info = reader.commit_info(newest)?;
    let tree = reader.checkout(newest)?;
    let value = (info.date as u64).to_be_bytes().repeat(6);
    for path in [&["a"][..], &["z"], &["data", &format!("{:02}", info.date % 40)]] {
        assert_eq!(tree.find(path)?.as_deref(), Some(&*value));
    }
    if let Some(found) = find(reader, &info.tree)? {
        assert_eq!(found.find(&["a"])?.as_deref(), Some(&*value));
    }
    assert!(log[1..].starts_with(&reader.log_before(newest, 4)?));
    // These may be newer by now, and the branch is set behind the commit.
    let last = reader.last_commit()?.expect("there is one");
    assert!(reader.commit_info(&last)?.date >= info.date);
    if let Some(branch) = reader.branch(b"main")? {
        assert!(reader.commit_info(&branch)?.date + 1 >= info.date);
        assert_eq!(reader.branches()?.len(), 1);
    }
    for (place, older) in log.iter().enumerate() {
        let is_there = reader.exists(older)?;
        // *Collected*, if it went meanwhile.
        let date = reader.commit_info(older)?.date;
        assert_eq!((is_there, date), (true, info.date - place as i64));
    }
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
        let mut store = Store::open(disk, options).unwrap();
        assert_eq!(see(&store.reader().unwrap()).unwrap(), Some(COMMITS - 1));
        commit(&mut store, COMMITS).unwrap();
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
            if number % 16 == 9 {
                store.collect_keeping(&Keep::Newest(8)).unwrap();
            }
            store.collect_step(16).unwrap();
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

#[test]
fn a_reader_waits_while_the_index_is_made_again() {
    for index in [Index::Minimal, Index::Always] {
        let (ask, asked) = mpsc::channel::<Reader>();
        let (answer, answers) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || asked.iter().for_each(|one| answer.send(see(&one)).unwrap()));
            let reader: Arc<Mutex<Option<Reader>>> = Arc::default();
            let answers = Arc::new(Mutex::new(answers));
            let early: Arc<Mutex<Option<Result<Option<u64>>>>> = Arc::default();
            let (taken, given, first) =
                (Arc::clone(&reader), Arc::clone(&answers), Arc::clone(&early));
            let hooked = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
                // The session of the index was closed, and another takes its place.
                if call != Call::Write || !path.starts_with("index/") {
                    return;
                }
                let Some(reader) = taken.lock().unwrap().take() else { return };
                ask.send(reader).unwrap();
                let short = Duration::from_millis(50);
                *first.lock().unwrap() = given.lock().unwrap().recv_timeout(short).ok();
            });
            let mut store = Store::create(hooked, small(index, Durability::Synced)).unwrap();
            for number in 0..9 {
                commit(&mut store, number).unwrap();
            }
            *reader.lock().unwrap() = Some(store.reader().unwrap());
            store.rebuild_index().unwrap();
            assert!(reader.lock().unwrap().is_none(), "it was asked");
            let early = early.lock().unwrap().take();
            let found = early.unwrap_or_else(|| answers.lock().unwrap().recv().unwrap());
            assert_eq!(found.unwrap(), Some(8));
            assert!(store.warnings().is_empty(), "{:?}", store.warnings());
        });
    }
}

#[test]
fn readers_of_commits_go_on_when_the_index_cannot_be_made_again() {
    for index in [Index::Minimal, Index::Always] {
        let options = Options { pages_bytes: 0, ..small(index, Durability::Synced) };
        let mut failed = 0;
        for n in 1..200 {
            let disk = SimDisk::new(1);
            let made = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone());
            let mut store = made.unwrap();
            for number in 0..9 {
                commit(&mut store, number).unwrap();
            }
            let reader = store.reader().unwrap();
            disk.fail_at(n, Fault::Read);
            let rebuilt = store.rebuild_index();
            disk.disarm();
            assert_eq!(see(&reader).unwrap(), Some(8), "after read {n} failed");
            if rebuilt.is_ok() {
                break;
            }
            failed += 1;
            commit(&mut store, 9).unwrap();
            assert_eq!(see(&reader).unwrap(), Some(9), "after read {n} failed");
        }
        assert!(failed > 0);
    }
}

/// A store that finds objects, with a commit, and the hash of a directory that a tree of it has spilled since.
fn spilled(disk: Arc<dyn Disk>) -> (Store, Tree, TreeHash) {
    // In one chunk: the end of one is synced.
    let options = options(Index::Always, Durability::Synced);
    let options = Options { tree_bytes: 300, chunk_bytes: 1 << 20, ..options };
    let mut store = Store::create(disk, options).unwrap();
    commit(&mut store, 0).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..40_u64 {
        tree.add(&["work", &format!("{number:02}")], &number.to_be_bytes().repeat(6)).unwrap();
    }
    let hash = tree.find_tree(&["work"]).unwrap().unwrap().hash().unwrap();
    tree.add(&["more"], &[1; 400]).unwrap();
    (store, tree, hash)
}

#[test]
fn a_reader_finds_nothing_that_a_tree_has_spilled_and_no_sync_has_covered() {
    let (mut store, mut tree, hash) = spilled(MemoryDisk::seeded(1));
    assert!(store.find_object(&hash).unwrap().is_some(), "it was spilled");
    let reader = store.reader().unwrap();
    assert!(reader.find_object(&hash).unwrap().is_none(), "a power cut may take it");
    assert_eq!(see(&reader).unwrap(), Some(0));
    store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    assert!(reader.find_object(&hash).unwrap().is_some(), "a commit has it");
    // Though the index is made again, and with the sync of that failing.
    let mut failed = 0;
    for n in 1..30 {
        let disk = SimDisk::new(1);
        let (mut store, _tree, hash) = spilled(Arc::clone(&disk) as Arc<dyn Disk>);
        let reader = store.reader().unwrap();
        disk.fail_at(n, Fault::Sync);
        let is_rebuilt = store.rebuild_index().is_ok();
        disk.disarm();
        if is_rebuilt {
            break;
        }
        failed += 1;
        assert!(reader.find_object(&hash).map_or(true, |found| found.is_none()), "sync {n}");
        assert_eq!(see(&reader).unwrap(), Some(0), "sync {n}");
    }
    assert!(failed > 0);
}

#[test]
fn what_was_cleared_is_not_there_and_nothing_is_called_damaged() {
    for index in [Index::Minimal, Index::Always] {
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let mut store = Store::create(disk, small(index, Durability::Synced)).unwrap();
        let reader = store.reader().unwrap();
        let old = commit(&mut store, 0).unwrap();
        let tree = reader.commit_info(&old).unwrap().tree;
        store.clear().unwrap();
        assert_eq!(see(&reader).unwrap(), None);
        assert!(!reader.exists(&old).unwrap() && !store.exists(&old).unwrap());
        if index == Index::Always {
            assert!(reader.find_object(&tree).unwrap().is_none());
        }
        assert!(store.warnings().is_empty(), "{:?}", store.warnings());
        commit(&mut store, 1).unwrap();
        assert_eq!(see(&reader).unwrap(), Some(1));
        assert!(!reader.exists(&old).unwrap());
    }
}

#[test]
fn a_reader_of_a_store_that_is_open_to_read_waits_for_no_call_of_its_reload() {
    for index in [Index::Minimal, Index::Always] {
        let shared: Arc<Mutex<Watch>> = Arc::default();
        let seen = Arc::clone(&shared);
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let options = small(index, Durability::Synced);
        let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
        commit(&mut store, 0).unwrap();
        // Its own reads call it too, and are not looked at.
        let hooked = HookedDisk::new(disk, move |call, path| {
            let Ok(mut watch) = seen.try_lock() else { return };
            let Some(reader) = watch.reader.clone() else { return };
            let found = see(&reader).unwrap_or_else(|error| panic!("{call:?} of {path}: {error}"));
            assert!(found >= watch.last, "{call:?} of {path}: {found:?}");
            (watch.last, watch.looks) = (found, watch.looks + 1);
        });
        let mut other = Store::open_read_only(hooked, options).unwrap();
        shared.lock().unwrap().reader = Some(other.reader().unwrap());
        for number in 1..30 {
            commit(&mut store, number).unwrap();
            other.reload().unwrap();
            assert_eq!(shared.lock().unwrap().last, Some(number - 1), "before it returned");
        }
        let looks = shared.lock().unwrap().looks;
        assert!(looks > 100, "{looks} looks");
        // It holds the disk, whose hook holds it.
        shared.lock().unwrap().reader = None;
    }
}

//! A context store in doubt: files of another store or of a newer release, ends of chunks that were
//! taken back or say what is not so, disks that panic, processes that may open few files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use varvite::Result;
use varvite::context::{CommitHash, CommitInfo, Durability, Index, Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Disk, Mode};
use varvite::error::Kind;
use varvite::raw::file::append::{AppendFile, Position};
use varvite::raw::format::hash::combine;
use varvite::raw::format::header::{self, FileKind, Header};

use crate::context_archive;
use crate::context_story::options;
use crate::hooked_disk::{Call, HookedDisk};

/// Small chunks, so that a few commits make several.
fn small() -> Options {
    Options { chunk_bytes: 1_500, ..options(Index::Minimal, Durability::Synced) }
}

fn commit(store: &mut Store, number: u64) -> Result<CommitHash> {
    let parents: Vec<CommitHash> = store.last_commit()?.into_iter().collect();
    let mut tree = match parents.first() {
        Some(last) => store.checkout(last)?,
        None => store.empty_tree(),
    };
    tree.add(&["data", &format!("{}", number % 7)], &number.to_le_bytes().repeat(9))?;
    store.commit(&mut tree, &CommitInfo::new(&parents, number as i64, "a", "b"))
}

fn store_of(disk: &Arc<MemoryDisk>, options: &Options, count: u64) -> (Store, Vec<CommitHash>) {
    let shared = Arc::clone(disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared, options.clone()).unwrap();
    let hashes = (0..count).map(|number| commit(&mut store, number).unwrap()).collect();
    (store, hashes)
}

/// The log of a store, oldest first.
fn oldest_first(store: &Store) -> Vec<CommitHash> {
    let mut log = store.log(usize::MAX).unwrap();
    log.reverse();
    log
}

fn index_of(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.files().into_iter();
    let names = names.filter(|name| name.starts_with("index/") && !name.ends_with("lock"));
    names.map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

#[test]
fn an_opening_with_the_control_file_of_another_store_leaves_all_as_it_is() {
    for index in [Index::Minimal, Index::Always] {
        let (ours, theirs) = (MemoryDisk::seeded(1), MemoryDisk::seeded(2));
        let options = Options { index, seed: None, ..small() };
        let (store, hashes) = store_of(&ours, &options, 20);
        store.close().unwrap();
        store_of(&theirs, &options, 20).0.close().unwrap();
        let fresh = MemoryDisk::seeded(3);
        drop(store_of(&fresh, &options, 0));
        let own = ours.bytes("control").unwrap();
        let before = index_of(&ours);
        assert!(before.len() > 3);
        for other in [theirs, fresh] {
            ours.replace("control", other.bytes("control").unwrap()).unwrap();
            let shared = Arc::clone(&ours) as Arc<dyn Disk>;
            let error = Store::open(Arc::clone(&shared), options.clone()).map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            ours.replace("control", own.clone()).unwrap();
            assert_eq!(index_of(&ours), before, "{index:?}: the index is what it was");
        }
        let store = Store::open(ours, options).unwrap();
        assert_eq!((oldest_first(&store), store.warnings()), (hashes, Vec::new()));
    }
}

/// A file in the place of a chunk: header of `version`, then a batch of `first`, cut by `cut` bytes.
fn chunk_file(disk: &MemoryDisk, number: u64, version: u16, first: &[u8], cut: usize) -> String {
    let name = format!("0000-{number:06}.pack");
    let ours = disk.bytes("0000-000000.pack").unwrap();
    let store = Header::expect("", &ours[..header::LENGTH], FileKind::Pack).unwrap().store;
    let identity = combine(combine(store, 0), number);
    let header = Header { version, ..Header::new(FileKind::Pack, identity, store) };
    let made = AppendFile::create_over(disk, &name, header, |out| out.raw(first)).unwrap();
    assert!(made.end().offset > Position::start().offset);
    let mut bytes = disk.bytes(&name).unwrap();
    bytes.truncate(bytes.len() - cut);
    disk.replace(&name, bytes).unwrap();
    name
}

#[test]
fn a_chunk_of_a_newer_release_is_refused_by_name_and_stays() {
    let disk = MemoryDisk::seeded(1);
    let (store, hashes) = store_of(&disk, &small(), 20);
    store.close().unwrap();
    let chunks = disk.files().iter().filter(|name| name.contains(".pack")).count() as u64;
    // As it will be made, with a longer opening; cut short by a crash; of the same version, but longer.
    for (version, length, cut) in
        [(3, 84, 0), (3, 100, 0), (3, 100, 60), (3, 5_000, 1), (2, 100, 0)]
    {
        for epoch in [0, 1] {
            let copy = disk.snapshot();
            let name = chunk_file(&copy, chunks, version, &vec![7; length], cut);
            let name = if epoch == 0 {
                name
            } else {
                let first = "0001-000000.pack";
                let identity = |epoch, number| {
                    let ours = disk.bytes("0000-000000.pack").unwrap();
                    let header = Header::expect("", &ours[..32], FileKind::Pack).unwrap();
                    (combine(combine(header.store, epoch), number), header.store)
                };
                copy.remove(&name).unwrap();
                let (identity, store) = identity(1, 0);
                let header = Header { version, ..Header::new(FileKind::Pack, identity, store) };
                let rest = vec![7; length];
                AppendFile::create_over(&*copy, first, header, |out| out.raw(&rest)).unwrap();
                first.to_owned()
            };
            let before = copy.bytes(&name).unwrap();
            let what = format!("version {version}, {length} bytes less {cut}, epoch {epoch}");
            let shared = Arc::clone(&copy) as Arc<dyn Disk>;
            let writer = Store::open(Arc::clone(&shared), small()).map(drop);
            let reader = Store::open_read_only(shared, small());
            let reader = match reader {
                // What is before it is read, and it is told.
                Ok(store) if version == 2 && epoch == 0 => {
                    assert_eq!(oldest_first(&store), hashes);
                    assert!(store.warnings().iter().any(|it| it.contains(&name)), "{what}");
                    None
                }
                reader => Some(reader.map(drop).unwrap_err()),
            };
            for error in [Some(writer.unwrap_err()), reader].into_iter().flatten() {
                let kind = if version == 3 { Kind::Version } else { Kind::Corrupt };
                assert_eq!(error.kind(), kind, "{what}: {error}");
                assert!(error.detail().contains(&name), "{what}: {error}");
            }
            assert_eq!(copy.bytes(&name).unwrap(), before, "{what}: it stays");
            copy.remove(&name).unwrap();
            let store = Store::open(copy, small()).unwrap();
            assert_eq!(oldest_first(&store), hashes);
        }
    }
}

#[test]
fn chunks_of_a_later_epoch_whose_first_is_lost_are_missed_and_stay() {
    let disk = MemoryDisk::seeded(1);
    let (mut store, _) = store_of(&disk, &small(), 10);
    let tree = store.checkout(&store.last_commit().unwrap().unwrap()).unwrap();
    store.checkpoint().unwrap();
    let control = disk.bytes("control").unwrap();
    store.clear().unwrap();
    let hashes: Vec<CommitHash> =
        (0..20).map(|number| commit(&mut store, number).unwrap()).collect();
    // It dies here: the tree kept the chunks of before the clearing.
    let image = disk.snapshot();
    drop((store, tree));
    let first = image.bytes("0001-000000.pack").unwrap();
    image.replace("control", control).unwrap();
    image.remove("0001-000000.pack").unwrap();
    let before = image.files();
    let shared = Arc::clone(&image) as Arc<dyn Disk>;
    let error = Store::open(Arc::clone(&shared), small()).map(drop).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.detail().contains("0001-000000.pack"), "{error}");
    assert_eq!(image.files(), before, "nothing is removed");
    image.replace("0001-000000.pack", first).unwrap();
    let store = Store::open(shared, small()).unwrap();
    assert_eq!(oldest_first(&store), hashes);
}

#[test]
#[allow(clippy::disallowed_methods)] // a thread that the test may leave behind when it fails
fn a_reader_that_saw_the_end_of_a_chunk_taken_back_goes_on() {
    for reloads in [false, true] {
        let memory = MemoryDisk::seeded(1);
        let options = Options { chunk_bytes: 1 << 20, ..small() };
        drop(store_of(&memory, &options, 3));
        // The reader stops where it looks for the second chunk, until it is told to go on.
        let (stopped, has_stopped) = channel();
        let (go_on, may_go_on) = channel::<()>();
        let (armed, stops) = (Arc::new(AtomicBool::new(false)), Mutex::new(may_go_on));
        let is_armed = Arc::clone(&armed);
        let read = HookedDisk::new(Arc::clone(&memory) as Arc<dyn Disk>, move |call, path| {
            let looks = call == Call::Open(Mode::Read) && path == "0000-000001.pack";
            if looks && is_armed.swap(false, SeqCst) {
                stopped.send(()).unwrap();
                stops.lock().unwrap().recv().unwrap();
            }
        });
        let reader = Store::open_read_only(Arc::clone(&read) as _, options.clone()).unwrap();
        let reader = Arc::new(Mutex::new(Some(reader)));
        armed.store(true, SeqCst);
        // The writer's end of the chunk is written whole and said to have failed.
        let fails = Arc::new(AtomicBool::new(false));
        let (failing, thread) = (Arc::clone(&fails), Arc::new(Mutex::new(None)));
        let (at_write, shared, own) = (Arc::clone(&thread), Arc::clone(&reader), options.clone());
        let has_stopped = Mutex::new(has_stopped);
        let read = Mutex::new(read);
        let inner = Arc::clone(&memory) as Arc<dyn Disk>;
        let written = HookedDisk::failing_writes(inner, move |_| {
            if !failing.swap(false, SeqCst) {
                return false;
            }
            let (shared, own) = (Arc::clone(&shared), own.clone());
            let disk: Arc<dyn Disk> = Arc::clone(&*read.lock().unwrap()) as _;
            let reading = thread::spawn(move || {
                let mut slot = shared.lock().unwrap();
                if reloads {
                    return slot.as_mut().unwrap().reload();
                }
                *slot = Some(Store::open_read_only(disk, own)?);
                Ok(())
            });
            *at_write.lock().unwrap() = Some(reading);
            has_stopped.lock().unwrap().recv().unwrap();
            true
        });
        let mut store = Store::open(written, options.clone()).unwrap();
        fails.store(true, SeqCst);
        assert_eq!(store.begin_chunk().unwrap_err().kind(), Kind::Io);
        // The same chunk goes on, and another one follows it.
        commit(&mut store, 3).unwrap();
        store.begin_chunk().unwrap();
        commit(&mut store, 4).unwrap();
        go_on.send(()).unwrap();
        let reading = thread.lock().unwrap().take().unwrap();
        reading.join().unwrap().unwrap();
        let reader = reader.lock().unwrap().take().unwrap();
        assert_eq!(oldest_first(&reader), oldest_first(&store));
    }
}

#[test]
fn a_disk_that_panics_where_it_makes_things_durable_ends_all_writing() {
    let kinds = [Call::Sync, Call::SyncDirectory, Call::Rename];
    let mut poisoned = 0;
    for n in 0.. {
        let memory = MemoryDisk::seeded(1);
        let (count, fired) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::new(AtomicBool::new(false)));
        let (counting, firing) = (Arc::clone(&count), Arc::clone(&fired));
        let disk = HookedDisk::new(Arc::clone(&memory) as Arc<dyn Disk>, move |call, path| {
            // Nor is it asked to clean up: a second panic while unwinding would end the process.
            let cleans_up = call == Call::Remove && path == "control.tmp";
            assert!(!(cleans_up && firing.load(SeqCst)), "as ordered: {path:?} after a panic");
            if !kinds.contains(&call) || path.starts_with("index") {
                return;
            }
            if counting.fetch_sub(1, SeqCst) == 0 {
                firing.store(true, SeqCst);
                panic!("as ordered: {call:?} {path:?}");
            }
        });
        let mut store = Store::create(disk, small()).unwrap();
        let mut known = vec![commit(&mut store, 0).unwrap()];
        count.store(n, SeqCst);
        let mut number = 1;
        let mut maybe_cleared = false;
        while number < 30 && !fired.load(SeqCst) {
            let outcome = catch_unwind(AssertUnwindSafe(|| match number % 9 {
                3 => store.begin_chunk(),
                5 => store.checkpoint(),
                8 if number == 17 => {
                    maybe_cleared = true;
                    store.clear()
                }
                _ => commit(&mut store, number).map(|hash| known.push(hash)),
            }));
            if outcome.is_ok() && maybe_cleared && number == 17 {
                known.clear();
                maybe_cleared = false;
            }
            outcome.map_or(Ok(()), |outcome| outcome).unwrap();
            number += 1;
        }
        if !fired.load(SeqCst) {
            break;
        }
        let error = commit(&mut store, 99).unwrap_err();
        assert_eq!(error.kind(), Kind::Poisoned, "call {n}: {error}");
        assert_eq!(store.begin_chunk().unwrap_err().kind(), Kind::Poisoned, "call {n}");
        poisoned += 1;
        drop(store);
        let store = Store::open(memory, small()).unwrap();
        let found = oldest_first(&store);
        let is_cleared = maybe_cleared && found.is_empty();
        assert!(is_cleared || found.starts_with(&known), "call {n}");
        assert!(is_cleared || found.len() <= known.len() + 1, "call {n}");
        assert!(store.check().unwrap().index_faults.is_empty());
    }
    assert!(poisoned > 30, "{poisoned}");
}

#[test]
fn a_clearing_whose_folder_was_not_synced_is_never_built_upon() {
    for n in 1.. {
        let sim = SimDisk::new(n);
        sim.forget_names_on_failed_sync(true);
        let shared = Arc::clone(&sim) as Arc<dyn Disk>;
        let mut store = Store::create(Arc::clone(&shared), small()).unwrap();
        let before = commit(&mut store, 1).unwrap();
        sim.fail_at(n, Fault::Sync);
        let cleared = store.clear().is_ok();
        sim.disarm();
        if cleared {
            assert!(n > 1);
            return;
        }
        // The host tries again. What it is told then has to hold.
        let after = match store.clear() {
            Ok(()) => Some(commit(&mut store, 2).unwrap()),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Poisoned, "{error}");
                None
            }
        };
        drop((store, shared));
        let image = sim.crash(Crash::Subset(0));
        let opened = Store::open(image, small());
        let found = oldest_first(&opened.unwrap());
        if let Some(after) = after {
            assert_eq!(found, [after], "call {n}");
        } else {
            assert!(found.is_empty() || found == [before], "call {n}");
        }
    }
}

/// Descriptors of this process on files below `folder`.
#[cfg(target_os = "linux")]
fn descriptors(folder: &std::path::Path) -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter(|entry| std::fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(folder)))
        .count()
}

#[cfg(target_os = "linux")]
#[test]
fn all_stores_of_a_process_together_keep_a_bounded_number_of_files_open() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    use varvite::disk::os::OsDisk;
    let folder = tempfile::tempdir().unwrap();
    // What most systems give; 256 of them are for others.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(1_024), ..limit }).unwrap();
    let options = Options { chunk_bytes: 1, durability: Durability::Written, ..small() };
    let mut stores = Vec::new();
    for number in 0..3 {
        let disk = OsDisk::create(folder.path().join(format!("{number}"))).unwrap();
        let mut store = Store::create(disk, options.clone()).unwrap();
        let hashes: Vec<CommitHash> =
            (0..400).map(|number| commit(&mut store, number).unwrap()).collect();
        stores.push((store, hashes));
    }
    for _ in 0..2 {
        for (store, hashes) in &stores {
            for hash in hashes {
                assert!(store.checkout(hash).unwrap().find(&["data", "0"]).unwrap().is_some());
            }
            // 768 chunks, and of each store its last chunk, locks, and the files of its index.
            assert!(descriptors(folder.path()) <= 768 + 3 * 20, "{}", descriptors(folder.path()));
        }
    }
    assert_eq!(stores[0].0.check().unwrap().commits, 400);
    assert!(descriptors(folder.path()) <= 768 + 3 * 20);
    stores.truncate(1);
    assert!(stores[0].0.checkout(&stores[0].1[0]).is_ok());
    drop(stores);
    assert_eq!(descriptors(folder.path()), 0);
}

#[test]
fn chunks_longer_than_the_format_reads_are_refused_with_a_sentence() {
    for chunk_bytes in [(1 << 40) + 1, u64::MAX] {
        let options = Options { chunk_bytes, ..small() };
        let disk = MemoryDisk::seeded(1);
        let error = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone())
            .map(drop)
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.detail().contains("chunk_bytes"), "{error}");
        assert!(disk.files().is_empty());
        drop(Store::create(Arc::clone(&disk) as Arc<dyn Disk>, small()).unwrap());
        assert_eq!(Store::open(disk, options).map(drop).unwrap_err().kind(), Kind::Invalid);
    }
    let most = Options { chunk_bytes: 1 << 40, ..small() };
    assert!(Store::create(MemoryDisk::seeded(1), most).is_ok());
}

/// A chunk that was whole again is rewritten from its first generation on: a file of the same name, with other records.
#[test]
fn a_reader_finds_a_chunk_that_another_of_its_name_has_replaced() {
    let few = |lower: Option<&Arc<SimDisk>>| Options {
        max_open_files: Some(1),
        pages_bytes: 1 << 14,
        objects_bytes: 0,
        hashes_bytes: 0,
        ..context_archive::options(Index::Minimal, lower)
    };
    let collect = |store: &mut Store, target: &CommitHash| {
        store.collect(target).unwrap();
        while store.collect_step(100).unwrap() {}
    };
    let (first, mut commits) = context_archive::made(Index::Minimal, 9);
    let (disk, lower) = (first.crash(Crash::Process), SimDisk::new(2));
    let mut store = context_archive::open(&first, few(Some(&lower))).unwrap();
    context_archive::commit(&mut store, commits.last(), 77).unwrap();
    store.archive(commits.last().unwrap(), u64::MAX).unwrap();
    store.close().unwrap();
    let mut store = context_archive::open(&disk, few(None)).unwrap();
    store.pin(&commits[0]).unwrap();
    collect(&mut store, &commits[4]);
    commits.push(context_archive::commit(&mut store, commits.last(), 6).unwrap());
    store.close().unwrap();
    let read = |store: &Store| {
        for (number, commit) in commits.iter().enumerate().skip(4) {
            let tree = store.checkout(commit).unwrap();
            for block in 0..=number as u8 {
                let found = tree.find(&["lasting", &block.to_string()]);
                let found = found.unwrap_or_else(|error| panic!("{number}, {block}: {error}"));
                assert_eq!(found, Some(context_archive::value(block)));
            }
        }
    };
    let reader = || Store::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, few(None)).unwrap();
    // One has verified the file that it reads again later, the other has not.
    let readers = [reader(), reader()];
    read(&readers[0]);
    let named = |name: &String| (name.clone(), disk.bytes(name).unwrap());
    let before: Vec<_> = context_archive::packs(&disk).iter().map(named).collect();
    let mut store = context_archive::open(&disk, few(Some(&lower))).unwrap();
    assert!(store.attach().unwrap() > 0);
    store.unarchive(u64::MAX).unwrap();
    store.unpin(&commits[0]).unwrap();
    store.pin(&commits[1]).unwrap();
    collect(&mut store, &commits[4]);
    store.close().unwrap();
    let is_other = |(name, bytes): &(String, Vec<u8>)| {
        name.matches('-').count() == 2 && disk.bytes(name).is_ok_and(|now| now != *bytes)
    };
    assert!(before.iter().any(is_other), "a file has the name of another");
    readers.iter().for_each(read);
}

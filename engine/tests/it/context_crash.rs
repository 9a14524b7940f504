//! The context's store through crashes, failed calls and damaged bytes.

use std::sync::Arc;

use varvite::context::{CommitInfo, Configuration, Hash, Index, Options, Order, Store, Tree};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::error::Kind;
use varvite::{Error, Result};

use crate::random::{Random, setting};

/// Unsynced changes up to which every subset is tried.
const EXHAUSTIVE: usize = 6;

fn options(index: Index) -> Options {
    // Small chunks, so that the story has several.
    let small =
        Options { chunk_bytes: 700, objects_bytes: 4000, pages_bytes: 0, ..Options::default() };
    // And trees that spill in the middle of a block.
    Options { index, tree_bytes: 500, ..small }
}

/// What a store acknowledged.
#[derive(Clone, Default)]
struct Story {
    commits: Vec<Hash>,
    branch: Option<Hash>,
}

/// The tree of commit `number`, which follows from the number alone.
fn change(tree: &mut Tree, number: u64) -> Result<()> {
    let mut random = Random::new(number);
    for _ in 0..4 {
        let name = format!("{}", random.below(40));
        tree.add(&["data", &name, "value"], &random.bytes(1 + number as usize % 30))?;
    }
    tree.remove(&["data", &format!("{}", random.below(40))])
}

fn info(number: u64, parent: Option<Hash>) -> CommitInfo {
    let parents: Vec<Hash> = parent.into_iter().collect();
    CommitInfo::new(&parents, number as i64, "Tezos", format!("lvl {number}"))
}

/// The hashes that the commits must have, and the trees in full.
fn expected(count: u64) -> Vec<Hash> {
    let mut store = Store::create(MemoryDisk::new(), Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut hashes: Vec<Hash> = Vec::new();
    for number in 0..count {
        change(&mut tree, number).unwrap();
        hashes.push(store.commit(&mut tree, &info(number, hashes.last().copied())).unwrap());
    }
    hashes
}

/// Creates or opens the store and goes on with the story up to `count` commits.
fn tell(disk: &Arc<dyn Disk>, index: Index, count: u64, story: &mut Story) -> Result<()> {
    let mut store = if disk.exists("control")? {
        Store::open(Arc::clone(disk), options(index))?
    } else {
        Store::create(Arc::clone(disk), options(index))?
    };
    let last = store.last_commit()?;
    let mut number = match last {
        Some(last) => store.commit_info(&last)?.sequence + 1,
        None => 0,
    };
    story.commits = store.log(usize::MAX)?;
    story.commits.reverse();
    while number < count {
        let parent = story.commits.last().copied();
        let mut tree = match parent {
            Some(parent) => store.checkout(&parent)?,
            None => store.empty_tree(),
        };
        change(&mut tree, number)?;
        let hash = store.commit(&mut tree, &info(number, parent))?;
        story.commits.push(hash);
        if number % 3 == 2 {
            store.set_branch(b"main", &hash)?;
            story.branch = Some(hash);
        }
        if number % 5 == 4 {
            store.checkpoint()?;
        }
        number += 1;
    }
    store.close()
}

/// Every commit of the store is one that was expected, in order, and is whole.
fn read_all(store: &Store, expected: &[Hash]) -> Result<usize> {
    let mut log = store.log(usize::MAX)?;
    log.reverse();
    assert_eq!(log, expected[..log.len()], "commits are those that were made, in order");
    for hash in &log {
        let tree = store.checkout(hash)?;
        let stored = store.commit_info(hash)?;
        let rebuilt = rebuild(&tree)?;
        assert_eq!(rebuilt.hash()?, stored.tree, "the content hashes to what the commit says");
    }
    Ok(log.len())
}

fn rebuild(tree: &Tree) -> Result<Tree> {
    let mut copy = Tree::empty(tree.configuration());
    tree.fold::<&[u8]>(&[], None, Order::Undefined, |path, tree| match tree.to_value()? {
        Some(value) => copy.add(path, &value),
        None => Ok(()),
    })?;
    Ok(copy)
}

#[test]
fn a_crash_at_every_call_leaves_what_was_acknowledged() {
    const COUNT: u64 = 12;
    let expected = expected(COUNT);
    let seeded = setting("VARVITE_CONTEXT_CRASH_IMAGES", 6);
    for index in [Index::Minimal, Index::Always] {
        let (mut died, mut images, mut chunks) = (0, 0, 0);
        loop {
            let sim = SimDisk::new(9);
            sim.kill_at(died + 1);
            let mut story = Story::default();
            let outcome = tell(&(Arc::clone(&sim) as Arc<dyn Disk>), index, COUNT, &mut story);
            if !sim.is_dead() {
                outcome.unwrap();
                break;
            }
            died += 1;
            for (crash, image) in sim.crash_images(EXHAUSTIVE, seeded) {
                images += 1;
                let disk = image as Arc<dyn Disk>;
                let what = format!("{index:?}, call {died}, {crash:?}");
                let store = match Store::open(Arc::clone(&disk), options(index)) {
                    Ok(store) => store,
                    // Before the control file is durable there is no store yet.
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Missing, "{what}: {error}");
                        assert!(story.commits.is_empty(), "{what}: {error}");
                        continue;
                    }
                };
                let found = read_all(&store, &expected).unwrap_or_else(|it| panic!("{what}: {it}"));
                assert!(found >= story.commits.len(), "{what}: an acknowledged commit is gone");
                assert!(found <= story.commits.len() + 1, "{what}");
                let branch = store.branch(b"main");
                assert!(story.branch.is_none() || branch.is_some(), "{what}: the branch is gone");
                chunks = chunks.max(store.stats().chunks);
                drop(store);
                // The replay goes on to the same hashes.
                let mut again = Story::default();
                tell(&disk, index, COUNT, &mut again).unwrap_or_else(|it| panic!("{what}: {it}"));
                assert_eq!(again.commits, expected, "{what}");
            }
        }
        assert!(died > 30 && images > died && chunks > 2, "{died} {images} {chunks}");
    }
}

#[test]
fn every_failed_call_gives_an_error_and_reopening_is_sound() {
    const COUNT: u64 = 9;
    let expected = expected(COUNT);
    for fault in Fault::ALL {
        for n in 1.. {
            let sim = SimDisk::new(n);
            sim.fail_at(n, fault);
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let mut story = Story::default();
            let outcome = tell(&disk, Index::Minimal, COUNT, &mut story);
            let what = format!("{fault:?} {n}");
            if let Err(error) = &outcome {
                let kinds = [Kind::Io, Kind::Poisoned];
                assert!(kinds.contains(&error.kind()), "{what}: {error}");
            }
            sim.disarm();
            let mut again = Story::default();
            tell(&disk, Index::Minimal, COUNT, &mut again)
                .unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(again.commits, expected, "{what}");
            assert!(story.commits.iter().all(|hash| expected.contains(hash)), "{what}");
            if outcome.is_ok() && n > 200 {
                break;
            }
        }
    }
}

#[test]
fn a_failed_commit_changes_nothing_and_can_be_repeated() {
    let sim = SimDisk::new(5);
    let disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let mut store = Store::create(disk, Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    change(&mut tree, 1).unwrap();
    sim.fail_at(1, Fault::Write);
    assert_eq!(store.commit(&mut tree, &info(1, None)).unwrap_err().kind(), Kind::Io);
    assert!(store.log(9).unwrap().is_empty());
    let hash = store.commit(&mut tree, &info(1, None)).unwrap();
    change(&mut tree, 2).unwrap();
    sim.fail_at(1, Fault::Sync);
    assert_eq!(store.commit(&mut tree, &info(2, Some(hash))).unwrap_err().kind(), Kind::Io);
    let error = store.commit(&mut tree, &info(2, Some(hash))).unwrap_err();
    assert_eq!(error.kind(), Kind::Poisoned);
    assert!(store.checkout(&hash).unwrap().mem_tree(&["data"]).unwrap(), "reading goes on");
    assert_eq!(store.log(9).unwrap(), [hash]);
}

/// A small store as files.
fn small_store(index: Index) -> (Arc<MemoryDisk>, Vec<Hash>) {
    let disk = MemoryDisk::new();
    let mut story = Story::default();
    tell(&(Arc::clone(&disk) as Arc<dyn Disk>), index, 6, &mut story).unwrap();
    (disk, story.commits)
}

/// Reads everything of a damaged store: right answers, or an error of a right kind.
fn survives(disk: Arc<dyn Disk>, index: Index, hashes: &[Hash], what: &str) {
    let outcome = Store::open(disk, options(index)).and_then(|store| {
        // A cut at the end may look as a crash does, so later commits may be missing, never wrong.
        read_all(&store, hashes).map(drop)
    });
    if let Err(error) = outcome {
        let kinds = [Kind::Corrupt, Kind::Version, Kind::Invalid, Kind::Missing];
        assert!(kinds.contains(&error.kind()), "{what}: {error:?}");
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed_or_harmless() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, hashes) = small_store(index);
        for name in disk.files().into_iter().filter(|name| name != "lock") {
            let bytes = disk.bytes(&name).unwrap();
            // Damage of the index is `context_index.rs`'s; a few places show that it ends here too.
            let step = if name.starts_with("index/") { bytes.len() / 30 + 1 } else { 1 };
            for byte in (0..bytes.len()).step_by(step) {
                let mut damaged = bytes.clone();
                damaged[byte] ^= 1 << (byte % 8);
                let copy = disk.snapshot();
                copy.replace(&name, damaged).unwrap();
                survives(copy, index, &hashes, &format!("{name} byte {byte}"));
            }
            for length in (0..bytes.len()).step_by(7 * step) {
                let copy = disk.snapshot();
                copy.replace(&name, &bytes[..length]).unwrap();
                survives(copy, index, &hashes, &format!("{name} cut to {length}"));
            }
        }
    }
}

#[test]
fn files_of_another_store_are_refused() {
    let (disk, _) = small_store(Index::Minimal);
    let other = MemoryDisk::new();
    let mut story = Story::default();
    let other_disk = Arc::clone(&other) as Arc<dyn Disk>;
    drop(Store::create(Arc::clone(&other_disk), Options { seed: 77, ..options(Index::Minimal) }));
    tell(&other_disk, Index::Minimal, 6, &mut story).unwrap();
    for name in disk.files().into_iter().filter(|name| name.contains(".pack")) {
        let Ok(bytes) = other.bytes(&name) else { continue };
        let copy = disk.snapshot();
        copy.replace(&name, bytes).unwrap();
        let error = Store::open(copy, options(Index::Minimal)).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
}

#[test]
fn a_reader_follows_through_chunks_while_another_handle_writes() {
    let disk: Arc<dyn Disk> = MemoryDisk::new();
    let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let mut reader = Store::open_read_only(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut last = None;
    for number in 0..40 {
        change(&mut tree, number).unwrap();
        let hash = store.commit(&mut tree, &info(number, last)).unwrap();
        assert!(!reader.exists(&hash).unwrap(), "not before the reload");
        reader.reload().unwrap();
        let read = reader.checkout(&hash).unwrap();
        assert_eq!(rebuild(&read).unwrap().hash().unwrap(), tree.hash().unwrap());
        last = Some(hash);
    }
    assert!(store.stats().chunks > 3);
}

#[test]
fn a_lock_file_left_by_a_dead_process_stops_nobody() -> std::result::Result<(), Error> {
    let (disk, hashes) = small_store(Index::Minimal);
    if !disk.exists("lock")? {
        disk.open("lock", Mode::Create, Access::Buffered)?;
    }
    let store = Store::open(disk, options(Index::Minimal))?;
    assert!(store.exists(&hashes[0])?);
    Ok(())
}

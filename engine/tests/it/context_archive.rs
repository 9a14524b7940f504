//! The lower layer of a context: chunks that move to a folder on another disk and back, through crashes and
//! failures of either disk, and what a store says whose lower folder is missing, damaged or another's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varvite::context::{CommitHash, CommitInfo, Index, Keep, Options, Store};
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{Error, Kind, Result};

use crate::context_repair::{flipped, with};
use crate::hooked_disk::{Call, HookedDisk};

const COMMITS: u8 = 6;

pub fn options(index: Index, lower: Option<&Arc<SimDisk>>) -> Options {
    let lower = lower.map(|disk| Arc::clone(disk) as Arc<dyn Disk>);
    Options { index, lower, seed: Some(9), chunk_bytes: 200, ..Options::default() }
}

/// What a commit has: a value of its own, and one that the next replaces.
pub fn value(block: u8) -> Vec<u8> {
    vec![block; 100]
}

pub fn commit(store: &mut Store, before: Option<&CommitHash>, block: u8) -> Result<CommitHash> {
    let mut tree = match before {
        Some(before) => store.checkout(before)?,
        None => store.empty_tree(),
    };
    tree.add(&["passing"], &value(block))?;
    tree.add(&["lasting", &block.to_string()], &value(block))?;
    let parents: Vec<_> = before.into_iter().copied().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, i64::from(block), "a", "b"))
}

/// A closed store of some commits, each in a chunk of its own.
pub fn made(index: Index, seed: u64) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let upper = SimDisk::new(seed);
    let made = Options { seed: Some(seed), ..options(index, None) };
    let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, made).unwrap();
    let mut commits = Vec::new();
    for block in 0..COMMITS {
        commits.push(commit(&mut store, commits.last(), block).unwrap());
    }
    store.close().unwrap();
    (upper, commits)
}

/// The same with all chunks before that of commit `moved` in a lower folder.
pub fn archived(
    index: Index,
    seed: u64,
    moved: usize,
) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>) {
    let ((upper, commits), lower) = (made(index, seed), SimDisk::new(2));
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[moved], u64::MAX).unwrap(), moved as u64);
    store.close().unwrap();
    (upper, lower, commits)
}

pub fn open(upper: &Arc<SimDisk>, options: Options) -> Result<Store> {
    Store::open(Arc::clone(upper) as Arc<dyn Disk>, options)
}

/// Every commit is there, whole.
pub fn holds(store: &Store, commits: &[CommitHash], what: &dyn std::fmt::Debug) {
    for (block, hash) in (0..).zip(commits) {
        let tree = store.checkout(hash).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let found = tree.find(&["passing"]).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        assert_eq!(found, Some(value(block)), "{what:?}");
        for before in 0..=block {
            let found = tree.find(&["lasting", &before.to_string()]).unwrap();
            assert_eq!(found, Some(value(before)), "{what:?}");
        }
    }
    let checked = store.check().unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert_eq!(checked.index_faults, Vec::<String>::new(), "{what:?}");
    assert_eq!(checked.commits, commits.len() as u64, "{what:?}");
    assert_eq!(store.log(usize::MAX).unwrap().len(), commits.len(), "{what:?}");
}

pub fn packs(disk: &SimDisk) -> Vec<String> {
    disk.list("").unwrap().into_iter().filter(|name| name.contains(".pack")).collect()
}

/// The first error of reading a commit's own value.
fn fault(store: &Store, commit: &CommitHash) -> Error {
    store.checkout(commit).and_then(|tree| tree.find(&["passing"])).unwrap_err()
}

#[test]
fn old_chunks_move_whole_are_read_below_and_come_back() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, mut commits) = made(index, 9);
        let before: Vec<_> = packs(&upper);
        let bytes: Vec<_> = before.iter().map(|name| upper.bytes(name).unwrap()).collect();
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        let mut reader = {
            let disk = Arc::clone(&upper) as Arc<dyn Disk>;
            Store::open_read_only(disk, options(index, Some(&lower))).unwrap()
        };
        assert_eq!(store.archive(&commits[4], 2).unwrap(), 2);
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 2);
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 0);
        let below = packs(&lower);
        assert_eq!(below, before[..4], "the oldest four");
        for name in &below {
            let place = before.iter().position(|there| there == name).unwrap();
            assert_eq!(lower.bytes(name).unwrap(), bytes[place], "{name}: byte for byte");
            assert!(!packs(&upper).contains(name), "{name} is above still");
        }
        let total: u64 = bytes[..4].iter().map(|bytes| bytes.len() as u64).sum();
        assert_eq!(store.archived_bytes(), total);
        // A handle that was opened before finds what moved, with and without a reload.
        holds(&reader, &commits, &"a reader beside it");
        reader.reload().unwrap();
        holds(&reader, &commits, &"after a reload");
        holds(&store, &commits, &"the writer");
        assert_eq!(store.collect(&commits[4]).unwrap_err().kind(), Kind::Invalid);
        commits.push(commit(&mut store, commits.last(), COMMITS).unwrap());
        drop(store);

        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &"opened again");
        assert_eq!(store.unarchive(1).unwrap(), 1);
        assert_eq!(store.unarchive(u64::MAX).unwrap(), 3);
        assert_eq!((packs(&lower).len(), store.archived_bytes()), (0, 0));
        for (name, bytes) in before[..4].iter().zip(&bytes) {
            assert_eq!(upper.bytes(name).unwrap(), *bytes, "{name}: byte for byte");
        }
        holds(&store, &commits, &"brought back");
        store.collect(&commits[4]).unwrap();
        while store.collect_step(100).unwrap() {}
        store.checkpoint().unwrap();
        drop(store);
        // Its lower folder is none of a store any more.
        let store = open(&upper, options(index, None)).unwrap();
        assert_eq!(fault(&store, &commits[0]).kind(), Kind::Collected);
    }
}

#[test]
fn neither_an_opening_nor_what_is_above_touches_the_lower_disk() {
    let (upper, lower, mut commits) = archived(Index::Minimal, 9, 4);
    let calls = lower.calls();
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    for (block, commit) in commits.iter().enumerate().take(6).skip(4) {
        let tree = store.checkout(commit).unwrap();
        assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(block as u8)));
    }
    let mut tree = store.checkout(&commits[5]).unwrap();
    tree.add(&["passing"], b"new").unwrap();
    let info = CommitInfo::new(&[commits[5]], 9, "a", "b");
    commits.push(store.commit(&mut tree, &info).unwrap());
    store.close().unwrap();
    assert_eq!(lower.calls(), calls);

    let store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.checkout(&commits[0]).unwrap().find(&["passing"]).unwrap();
    assert!(lower.calls().reads > calls.reads);
}

/// What is to stay above is found without what is below: whoever archives each day reads what came since.
#[test]
fn what_stays_above_is_found_without_the_lower_disk() {
    let (upper, mut commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let with = Options { pages_bytes: 0, ..options(Index::Minimal, Some(&lower)) };
    let mut store = open(&upper, with.clone()).unwrap();
    assert_eq!(store.archive_target(&Keep::Since(2)).unwrap(), Some(commits[2]));
    store.archive(&commits[3], u64::MAX).unwrap();
    // One that is older than those before it, as an import brings.
    let mut tree = store.checkout(&commits[5]).unwrap();
    tree.add(&["old"], b"1").unwrap();
    let info = CommitInfo::new(&[commits[5]], 1, "a", "b");
    commits.push(store.commit(&mut tree, &info).unwrap());
    store.close().unwrap();
    let store = open(&upper, with).unwrap();
    let (above, below) = (upper.calls().reads, lower.calls());
    for (keep, expected) in [
        (Keep::Newest(0), 6),
        (Keep::Newest(1), 6),
        (Keep::Newest(3), 4),
        (Keep::Newest(u64::MAX), 3),
        (Keep::Since(i64::MIN), 3),
        (Keep::Since(3), 3),
        (Keep::Since(4), 4),
        (Keep::Since(5), 5),
        // None is so young: the newest stays.
        (Keep::Since(6), 6),
    ] {
        assert_eq!(store.archive_target(&keep).unwrap(), Some(commits[expected]), "{keep:?}");
    }
    assert_eq!(lower.calls(), below);
    // Of nine questions, four commits each, with head and body.
    let reads = upper.calls().reads - above;
    assert!(reads <= 9 * 4 * 2, "{reads}");

    let empty = Store::create(SimDisk::new(3), options(Index::Minimal, None)).unwrap();
    assert_eq!(empty.archive_target(&Keep::Since(0)).unwrap(), None);
}

/// A chunk that somebody read while it was moved is there under its name still, where open files keep theirs. What is refused
/// then is refused until that one is done, and the store goes on.
#[test]
fn chunks_come_back_where_open_files_keep_their_names() {
    let (upper, mut commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    upper.keep_open_names(true);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let held: Vec<_> = packs(&upper)[..4]
        .iter()
        .map(|name| upper.open(name, Mode::Read, Access::Buffered).unwrap())
        .collect();
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
    let error = store.unarchive(1).unwrap_err();
    assert_eq!(error.kind(), Kind::Io, "{error}");
    assert!(!error.to_string().contains("another file"), "{error}");
    commits.push(commit(&mut store, commits.last(), COMMITS).unwrap());
    drop(held);
    assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
    holds(&store, &commits, &"brought back");
}

/// Between blocks chunks go one by one, for as long as there are any: what is below is looked through once, and then only
/// the last of it, which says whose it is.
#[test]
fn the_lower_folder_is_not_listed_for_each_chunk_that_goes_there() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let lists = Arc::new(AtomicU64::new(0));
    let counted = {
        let lists = Arc::clone(&lists);
        HookedDisk::new(Arc::clone(&lower) as Arc<dyn Disk>, move |call, _| {
            lists.fetch_add(u64::from(call == Call::List), Relaxed);
        })
    };
    let with = Options { lower: Some(counted), ..options(Index::Minimal, None) };
    let mut store = open(&upper, with).unwrap();
    assert_eq!(store.archive(&commits[4], 1).unwrap(), 1);
    let once = lists.load(Relaxed);
    for _ in 1..3 {
        assert_eq!(store.archive(&commits[4], 1).unwrap(), 1);
    }
    assert_eq!(lists.load(Relaxed), once);
    holds(&store, &commits, &"archived");
    // Another disk is mounted there, with chunks of the same names.
    let (_, other, _) = archived(Index::Minimal, 10, 4);
    let own: Vec<_> = packs(&lower).iter().map(|name| lower.bytes(name).unwrap()).collect();
    for name in packs(&lower) {
        lower.damage(&name, other.bytes(&name).unwrap()).unwrap();
    }
    let error = store.archive(&commits[4], 1).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("another store"), "{error}");
    for (name, bytes) in packs(&lower).iter().zip(own) {
        lower.damage(name, bytes).unwrap();
    }
    // All comes back, so that another store may have the folder meanwhile.
    let before = lists.load(Relaxed);
    while store.unarchive(1).unwrap() > 0 {}
    assert!(
        lists.load(Relaxed) - before <= 4,
        "for leftovers, and in each call for chunks of a copy"
    );
    for name in packs(&other) {
        let _ = lower.remove(&name);
        let file = lower.open(&name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &other.bytes(&name).unwrap()).unwrap();
    }
    let error = store.archive(&commits[4], 1).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

#[test]
fn a_store_without_its_lower_folder_says_what_is_missing_and_goes_on() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = archived(index, 9, 3);
        let empty = SimDisk::new(3);
        for lost in [None, Some(&empty)] {
            let mut store = open(&upper, options(index, lost)).unwrap();
            let error = fault(&store, &commits[0]);
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            assert!(error.to_string().contains("0000-000000.pack"), "{error}");
            assert!(error.to_string().contains("lower folder"), "{error}");
            let tree = store.checkout(commits.last().unwrap()).unwrap();
            let block = COMMITS - 1;
            assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(block)));
            assert_eq!(
                store.unarchive(1).unwrap_err().kind(),
                match lost {
                    None => Kind::Invalid,
                    Some(_) => Kind::Missing,
                }
            );
            let mut tree = tree;
            tree.add(&["passing"], b"new").unwrap();
            let info = CommitInfo::new(&[commits[5]], 9, "a", "b");
            // It needs nothing from below.
            store.hash(&tree, &info).unwrap();
        }
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &"given back");
    }
}

#[test]
fn files_of_others_and_damaged_ones_are_refused_by_name() {
    let (upper, lower, commits) = archived(Index::Minimal, 9, 4);
    let (other_upper, other, other_commits) = archived(Index::Minimal, 10, 2);
    let mut store = open(&other_upper, options(Index::Minimal, Some(&other))).unwrap();
    // The folders of two stores, swapped.
    assert_eq!(store.archive(&other_commits[4], u64::MAX).unwrap(), 2);
    store.close().unwrap();
    let mut store = open(&upper, options(Index::Minimal, Some(&other))).unwrap();
    let error = fault(&store, &commits[0]);
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("another store"), "{error}");
    assert_eq!(store.unarchive(u64::MAX).unwrap_err().kind(), Kind::Invalid);
    drop(store);
    // A store does not move its chunks over those of another.
    let (third, third_commits) = made(Index::Minimal, 11);
    let mut store = open(&third, options(Index::Minimal, Some(&lower))).unwrap();
    let error = store.archive(&third_commits[4], u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    holds(&store, &third_commits, &"nothing was moved");
    drop(store);

    let name = "0000-000001.pack";
    let whole = lower.bytes(name).unwrap();
    let next = lower.bytes("0000-000002.pack").unwrap();
    lower.damage("0000-000002.pack", whole.clone()).unwrap();
    let store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(fault(&store, &commits[2]).kind(), Kind::Corrupt, "another chunk of the store");
    drop(store);
    lower.damage("0000-000002.pack", next).unwrap();
    let effort = whole.len().div_ceil(150);
    for place in (0..whole.len()).step_by(effort) {
        let mut flipped = whole.clone();
        flipped[place] ^= 0x10;
        for damaged in [flipped, whole[..place].to_vec()] {
            lower.damage(name, damaged.clone()).unwrap();
            let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
            match store.checkout(&commits[1]).and_then(|tree| tree.find(&["passing"])) {
                Ok(found) => assert_eq!(found, Some(value(1)), "{place}"),
                Err(error) => assert!(error.to_string().contains(name), "{place}: {error}"),
            }
            // A check reads records, not the heads of batches, which nobody needs in a chunk that is ended.
            if store.check().is_ok() {
                assert_eq!(damaged.len(), whole.len(), "{place}");
                holds(&store, &commits, &place);
            }
            // What is damaged is not brought back over anything.
            assert!(store.unarchive(u64::MAX).is_err(), "{place}");
            assert!(!packs(&upper).contains(&name.to_owned()), "{place}");
            drop(store);
            let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
            if let Err(error) = store.archive(&commits[4], u64::MAX) {
                // Its end says whether the folder is the right one.
                assert_eq!(error.kind(), Kind::Corrupt, "{place}: {error}");
                assert!(error.to_string().contains(name), "{place}: {error}");
                assert!(error.advice().unwrap().contains("varvite repair"), "{place}: {error}");
                lower.damage(name, whole.clone()).unwrap();
                store.archive(&commits[4], u64::MAX).unwrap();
            }
        }
        lower.damage(name, whole.clone()).unwrap();
    }
}

/// The newest commits are whole without the lower folder, also after a crash at any moment.
fn recent(upper: &Arc<SimDisk>, index: Index, commits: &[CommitHash], what: &dyn std::fmt::Debug) {
    let disk = Arc::clone(upper) as Arc<dyn Disk>;
    let store = Store::open_read_only(disk, options(index, None)).unwrap();
    for block in 4..COMMITS {
        let tree = store.checkout(&commits[usize::from(block)]).unwrap();
        for before in 0..=block {
            let found = tree.find(&["lasting", &before.to_string()]);
            let found = found.unwrap_or_else(|error| panic!("{what:?}, {before}: {error}"));
            assert_eq!(found, Some(value(before)), "{what:?}");
        }
    }
}

/// Moves chunks down and back with the n-th change of one disk as its last; what a crash leaves on both opens
/// with every commit.
fn dies(index: Index, n: u64, kills_lower: bool, images: &mut u64) -> bool {
    let (upper, commits) = made(index, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    let killed = if kills_lower { &lower } else { &upper };
    killed.kill_at(n);
    let outcome = store
        .archive(&commits[3], u64::MAX)
        .and_then(|_| store.unarchive(2))
        .and_then(|_| store.archive(&commits[4], 2));
    if !killed.is_dead() {
        outcome.unwrap();
        return false;
    }
    drop(store);
    for (crash, above) in upper.crash_images(6, 6) {
        for below in [Crash::Process, Crash::Subset(0), Crash::Seed(n)] {
            *images += 1;
            let what = (index, n, kills_lower, crash, below);
            let (above, below) = (above.crash(Crash::Process), lower.crash(below));
            let store = open(&above, options(index, Some(&below)))
                .unwrap_or_else(|error| panic!("{what:?}: {error}"));
            holds(&store, &commits, &what);
            drop(store);
            recent(&above, index, &commits, &what);
            let mut store = open(&above, options(index, Some(&below))).unwrap();
            store
                .archive(&commits[4], u64::MAX)
                .unwrap_or_else(|error| panic!("{what:?}: {error}"));
            holds(&store, &commits, &what);
            drop(store);
            recent(&above, index, &commits, &what);
            let mut store = open(&above, options(index, Some(&below))).unwrap();
            store.unarchive(u64::MAX).unwrap_or_else(|error| panic!("{what:?}: {error}"));
            store.close().unwrap();
            let store = open(&above, options(index, None)).unwrap();
            holds(&store, &commits, &what);
        }
    }
    true
}

#[test]
fn a_crash_at_any_write_or_sync_of_either_disk_leaves_every_commit() {
    let mut images = 0;
    for (index, kills_lower) in
        [(Index::Minimal, true), (Index::Minimal, false), (Index::Always, false)]
    {
        let places = (1..10_000).take_while(|n| dies(index, *n, kills_lower, &mut images)).count();
        assert!(places > 15, "{places}");
    }
    assert!(images > 500, "{images}");
}

#[test]
fn after_any_failed_call_of_either_disk_every_commit_is_there() {
    for fails_lower in [true, false] {
        for kind in [Fault::Any, Fault::Write, Fault::Sync, Fault::Rename, Fault::Remove] {
            for n in 1.. {
                let (upper, mut commits) = made(Index::Minimal, 9);
                let lower = SimDisk::new(2);
                let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
                let failing = if fails_lower { &lower } else { &upper };
                let calls = failing.calls().of(kind);
                failing.fail_at(n, kind);
                let outcome = store.archive(&commits[3], u64::MAX).and_then(|_| store.unarchive(2));
                let what = (fails_lower, kind, n);
                if failing.calls().of(kind) < calls + n {
                    outcome.unwrap();
                    break;
                }
                failing.disarm();
                if fails_lower {
                    if let Err(error) = &outcome {
                        assert!(!error.to_string().is_empty(), "{what:?}");
                    }
                    holds(&store, &commits, &what);
                    let next = commit(&mut store, commits.last(), COMMITS);
                    commits.push(next.unwrap_or_else(|error| panic!("{what:?}: {error}")));
                    store
                        .archive(&commits[3], u64::MAX)
                        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
                }
                drop(store);
                let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
                holds(&store, &commits, &what);
                store.archive(&commits[4], u64::MAX).unwrap();
                holds(&store, &commits, &what);
            }
        }
    }
}

#[test]
fn a_lower_disk_that_is_full_stops_the_moving_alone() {
    let (upper, mut commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let first = upper.bytes(&packs(&upper)[0]).unwrap().len() as u64;
    lower.capacity(Some(first + 100));
    let error = store.archive(&commits[4], u64::MAX).unwrap_err();
    assert!(error.to_string().contains("was not moved to"), "{error}");
    assert_eq!(packs(&lower).len(), 1, "the first is there, and nothing of the second");
    commits.push(commit(&mut store, commits.last(), COMMITS).unwrap());
    lower.capacity(None);
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 3);
    holds(&store, &commits, &"after it had room");
}

#[test]
fn trees_and_a_clearing_beside_it_keep_what_they_read() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let tree = store.checkout(&commits[0]).unwrap();
    store.archive(&commits[4], u64::MAX).unwrap();
    assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(0)));
    let below = packs(&lower);
    store.clear().unwrap();
    assert_eq!(packs(&lower), below, "a clearing removes nothing from the lower folder");
    assert_eq!(store.archived_bytes(), 0);
    let first = commit(&mut store, None, 0).unwrap();
    drop(store);
    let store = open(&upper, options(Index::Minimal, None)).unwrap();
    holds(&store, &[first], &"cleared");
}

#[test]
fn a_reader_finds_the_commits_after_what_moved_meanwhile() {
    for index in [Index::Minimal, Index::Always] {
        for (more, most) in [(1, 9), (3, 9), (3, 1), (6, 4)] {
            let (upper, mut commits) = made(index, 9);
            let lower = SimDisk::new(2);
            let disk = Arc::clone(&upper) as Arc<dyn Disk>;
            let options = Options { max_open_files: Some(1), ..options(index, Some(&lower)) };
            let mut reader = Store::open_read_only(disk, options.clone()).unwrap();
            let mut store = open(&upper, options).unwrap();
            for block in 0..more {
                commits.push(commit(&mut store, commits.last(), COMMITS + block).unwrap());
            }
            store.archive(commits.last().unwrap(), most).unwrap();
            holds(&reader, &commits[..usize::from(COMMITS)], &"before its reload");
            reader.reload().unwrap();
            holds(&reader, &commits, &(more, most));
        }
    }
}

#[test]
fn a_tree_reads_what_came_back_after_another_handle_has_cleared_the_store() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let tree = store.checkout(&commits[0]).unwrap();
    store.archive(&commits[4], u64::MAX).unwrap();
    store.unarchive(u64::MAX).unwrap();
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.clear().unwrap();
    assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(0)));
}

#[test]
fn the_folder_of_a_store_is_no_lower_folder() {
    let (upper, commits) = made(Index::Minimal, 9);
    let copy = upper.crash(Crash::Process);
    for lower in [&upper, &copy] {
        let before = packs(lower);
        let mut store = open(&upper, options(Index::Minimal, Some(lower))).unwrap();
        for error in [
            store.archive(&commits[4], u64::MAX).unwrap_err(),
            store.unarchive(u64::MAX).unwrap_err(),
            store.attach().unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.to_string().contains("is the folder of a store"), "{error}");
        }
        holds(&store, &commits, &"refused");
        assert_eq!(packs(lower), before);
    }
}

#[test]
fn an_archive_is_not_split_over_two_folders() {
    let (upper, commits) = made(Index::Minimal, 9);
    let (lower, other) = (SimDisk::new(2), SimDisk::new(3));
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[4], 2).unwrap(), 2);
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&other))).unwrap();
    let error = store.archive(&commits[4], 2).unwrap_err();
    assert!(error.to_string().contains("was moved to another folder"), "{error}");
    assert_eq!((error.kind(), packs(&other).len()), (Kind::Invalid, 0));
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[4], 9).unwrap(), 2);
    holds(&store, &commits, &"whole");
}

#[test]
fn two_copies_do_not_archive_into_one_folder_at_once() {
    let (upper, commits) = made(Index::Minimal, 7);
    let folder = tempfile::tempdir().unwrap();
    let lower: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let with_lower = Options { lower: Some(Arc::clone(&lower)), ..options(Index::Minimal, None) };
    let mut store = open(&upper, with_lower).unwrap();
    let other = OsDisk::new(folder.path()).unwrap();
    let held = other.lock_directory("").unwrap().expect("folders can be locked here");
    let error = store.archive(&commits[4], u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    assert!(lower.list("").unwrap().is_empty());
    drop(held);
    assert!(store.archive(&commits[4], u64::MAX).unwrap() > 1);
    holds(&store, &commits, &"archived");
    let held = other.lock_directory("").unwrap().expect("folders can be locked here");
    let below = lower.list("").unwrap();
    assert_eq!(store.unarchive(1).unwrap_err().kind(), Kind::Locked);
    assert_eq!(lower.list("").unwrap(), below);
    drop(held);
    // What a move left that was killed goes with the next, and nothing of a user.
    for left in ["0000-000009.pack.tmp", "notes.tmp"] {
        lower.open(left, Mode::Create, Access::Buffered).unwrap();
    }
    assert!(store.unarchive(1).unwrap() == 1);
    assert!(!lower.exists("0000-000009.pack.tmp").unwrap() && lower.exists("notes.tmp").unwrap());
    holds(&store, &commits, &"back");
}

/// Their numbers need not meet: what is moved there would be a part of the other's history.
#[test]
fn chunks_do_not_go_to_the_folder_of_another_store() {
    let (first, first_commits) = made(Index::Minimal, 10);
    let lower = SimDisk::new(2);
    let mut store = open(&first, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(store.archive(&first_commits[2], u64::MAX).unwrap(), 2);
    drop(store);
    let (upper, commits) = made(Index::Minimal, 9);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.collect(&commits[3]).unwrap();
    while store.collect_step(100).unwrap() {}
    let before = lower.list("").unwrap();
    for damaged in [false, true] {
        if damaged {
            // It does not say any more whose it is; the next one does.
            let mut bytes = lower.bytes(&before[0]).unwrap();
            bytes[20] ^= 1;
            lower.damage(&before[0], bytes).unwrap();
        }
        let error = store.archive(&commits[5], u64::MAX).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.to_string().contains("belong to another store"), "{error}");
        assert_eq!(lower.list("").unwrap(), before, "nothing was written");
    }
    assert_eq!(store.archived_bytes(), 0);
    let own = SimDisk::new(3);
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&own))).unwrap();
    assert!(store.archive(&commits[5], u64::MAX).unwrap() > 0);
}

/// The index is saved before what it would be completed from moves.
#[test]
fn a_store_that_was_not_closed_opens_without_its_lower_folder() {
    for index in [Index::Minimal, Index::Always] {
        let upper = SimDisk::new(9);
        let lower = SimDisk::new(2);
        let with_lower = options(index, Some(&lower));
        let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, with_lower).unwrap();
        let mut commits = Vec::new();
        for block in 0..COMMITS {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            if block % 2 == 1 {
                store.archive(commits.last().unwrap(), 1).unwrap();
            }
        }
        assert!(store.archived_bytes() > 0);
        drop(store);
        let upper = upper.crash(Crash::Subset(0));
        let reader =
            Store::open_read_only(Arc::clone(&upper) as Arc<dyn Disk>, options(index, None));
        assert_eq!(reader.unwrap().last_commit().unwrap(), commits.last().copied());
        let store = open(&upper, options(index, None)).unwrap();
        assert_eq!(store.warnings(), Vec::<String>::new());
        let tree = store.checkout(commits.last().unwrap()).unwrap();
        assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(COMMITS - 1)));
        assert_eq!(fault(&store, &commits[0]).kind(), Kind::Missing);
        drop(store);
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &"given back");
    }
}

#[test]
fn an_index_that_is_made_anew_says_that_it_needs_the_lower_folder() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert_eq!(store.archive(&commits[3], u64::MAX).unwrap(), 3);
        drop(store);
        upper.remove("index/session").unwrap();
        let empty = SimDisk::new(3);
        for lost in [None, Some(&empty)] {
            let disk = || Arc::clone(&upper) as Arc<dyn Disk>;
            let with = || options(index, lost);
            for outcome in [Store::open(disk(), with()), Store::open_read_only(disk(), with())] {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), Kind::Missing, "{error}");
                for says in ["the index has to be made", "0000-00000", "lower folder"] {
                    assert!(error.to_string().contains(says), "{error}");
                }
                let next =
                    if lost.is_some() { "give the folder" } else { "open the store with it" };
                assert!(error.to_string().contains(next), "{error}");
            }
        }
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &"given back");
    }
}

#[test]
fn a_whole_index_is_not_thrown_away_where_the_lower_folder_is_not() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, mut commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert_eq!(store.archive(&commits[3], u64::MAX).unwrap(), 3);
        store.close().unwrap();
        let mut store = open(&upper, options(index, None)).unwrap();
        let error = store.rebuild_index().unwrap_err();
        assert_eq!(error.kind(), Kind::Missing, "{error}");
        assert!(error.to_string().contains("lower folder"), "{error}");
        // It goes on, with what needs nothing from below, and so does whoever opens it next.
        commits.push(commit(&mut store, None, COMMITS).unwrap());
        drop(store);
        let store = open(&upper, options(index, None)).unwrap();
        assert!(commits[3..].iter().all(|commit| store.exists(commit).unwrap()));
        drop(store);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        store.rebuild_index().unwrap();
        let checked = store.check().unwrap();
        assert_eq!((checked.commits, checked.index_faults), (7, Vec::<String>::new()));
    }
}

/// The folder of another store, one that lacks a chunk further down, and one in which a chunk is damaged.
#[test]
fn a_whole_index_is_not_thrown_away_where_the_lower_folder_is_another() {
    let (other, others) = made(Index::Minimal, 10);
    let foreign = SimDisk::new(3);
    let mut store = open(&other, options(Index::Minimal, Some(&foreign))).unwrap();
    assert_eq!(store.archive(&others[3], u64::MAX).unwrap(), 3);
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert_eq!(store.archive(&commits[3], u64::MAX).unwrap(), 3);
        store.close().unwrap();
        let [first, second, last] = &packs(&lower)[..] else { panic!("three") };
        let end = lower.bytes(second).unwrap().len() - 5;
        // Where its opening or its end is damaged the commits are whole, and an index may have those alone.
        let of_end = (index == Index::Always).then_some(Kind::Corrupt);
        let folders = [
            (Arc::clone(&foreign), Some(Kind::Invalid)),
            (with(&lower, first, None), Some(Kind::Missing)),
            (flipped(&lower, last, 20), Some(Kind::Corrupt)),
            (flipped(&lower, second, 80), of_end),
            (flipped(&lower, second, end), of_end),
        ];
        for (folder, kind) in folders {
            let mut store = open(&upper, options(index, Some(&folder))).unwrap();
            let refused = store.rebuild_index().err();
            assert_eq!(refused.as_ref().map(Error::kind), kind, "{refused:?}");
            assert!(refused.is_none_or(|it| it.to_string().contains("stays as it is")), "{kind:?}");
            drop(store);
            let store = open(&upper, options(index, None)).unwrap();
            assert_eq!(store.warnings(), Vec::<String>::new(), "{kind:?}");
            assert!(commits[3..].iter().all(|it| store.exists(it).unwrap()), "{kind:?}");
            store.close().unwrap();
        }
    }
}

//! A lower folder by itself, and at another copy of the same store, which has collected: what is found there, what
//! is refused, through crashes and failures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use varvite::context::{CollectPhase, CommitHash, CommitInfo, Index, Options, Reader, Store};
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{Error, Kind, Result};

use crate::context_archive::{commit, holds, made, open, options, packs};
use crate::hooked_disk::{Call, HookedDisk};

/// A lower folder with all that a store had before its last commit, and a copy of the store that has collected to its
/// fourth. Both have gone on with a commit more.
pub fn copies(index: Index) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>) {
    let (first, mut commits) = made(index, 9);
    let copy = first.crash(Crash::Process);
    let lower = SimDisk::new(2);
    let mut store = open(&first, options(index, Some(&lower))).unwrap();
    commit(&mut store, commits.last(), 77).unwrap();
    store.archive(commits.last().unwrap(), u64::MAX).unwrap();
    store.close().unwrap();
    let mut store = open(&copy, options(index, None)).unwrap();
    collect(&mut store, &commits[3]);
    commits.push(commit(&mut store, commits.last(), 6).unwrap());
    store.close().unwrap();
    (copy, lower, commits)
}

fn collect(store: &mut Store, to: &CommitHash) {
    store.collect(to).unwrap();
    while store.collect_step(100).unwrap() {}
}

fn has_collected(store: &Store, commits: &[CommitHash]) {
    for commit in &commits[..3] {
        let kind = store.checkout(commit).unwrap_err().kind();
        // Missing where the index was made again.
        assert!(matches!(kind, Kind::Collected | Kind::Missing), "{kind:?}");
    }
    for commit in &commits[3..] {
        store.checkout(commit).unwrap().find(&["passing"]).unwrap();
    }
}

#[test]
fn a_store_that_has_collected_is_an_archive_again_with_the_folder_of_a_copy() {
    for (index, is_index_lost) in [
        (Index::Minimal, false),
        (Index::Minimal, true),
        (Index::Always, false),
        (Index::Always, true),
    ] {
        let (upper, lower, mut commits) = copies(index);
        let what = (index, is_index_lost);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        if is_index_lost {
            // It knows no commit that is no more.
            store.rebuild_index().unwrap();
        }
        let disk = Arc::clone(&upper) as Arc<dyn Disk>;
        let mut reader = Store::open_read_only(disk, options(index, Some(&lower))).unwrap();
        let tree = store.checkout(&commits[4]).unwrap();
        let count = store.attach().unwrap();
        assert!(count >= 4, "{what:?}: {count}");
        assert!(store.archived_bytes() > 0);
        holds(&store, &commits, &what);
        tree.find(&["lasting", "0"]).unwrap().expect("it was there before");
        assert_eq!(store.attach().unwrap(), 0, "{what:?}: nothing is missing");
        assert_eq!(store.collect(&commits[5]).unwrap_err().kind(), Kind::Invalid);
        // Its places are others now, of one file several.
        has_collected(&reader, &commits);
        reader.reload().unwrap();
        holds(&reader, &commits, &what);
        assert!(packs(&upper).iter().all(|name| name.matches('-').count() == 1), "{what:?}");
        commits.push(commit(&mut store, commits.last(), 7).unwrap());
        drop(store);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert_eq!(store.warnings(), Vec::<String>::new());
        holds(&store, &commits, &what);
        store.unarchive(u64::MAX).unwrap();
        collect(&mut store, &commits[4]);
        assert!(store.check().unwrap().index_faults.is_empty());
        assert_eq!(store.log(99).unwrap().len(), commits.len() - 4);
    }
}

/// The handle knew what was needed above, of other chunks.
#[test]
fn the_first_move_after_chunks_were_attached_brings_up_what_recent_commits_need() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, mut commits) = copies(index);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert!(store.archive(&commits[5], u64::MAX).unwrap() > 0);
        assert!(store.attach().unwrap() > 0);
        commits.push(commit(&mut store, commits.last(), 7).unwrap());
        assert!(store.archive(&commits[6], u64::MAX).unwrap() > 0);
        drop(store);
        let store = open(&upper, options(index, None)).unwrap();
        for (block, commit) in commits.iter().enumerate().skip(6) {
            let tree = store.checkout(commit).unwrap();
            for before in 0..=block {
                let found = tree.find(&["lasting", &before.to_string()]);
                found.unwrap_or_else(|error| panic!("{index:?}, {block}: {error}")).unwrap();
            }
        }
    }
}

#[test]
fn what_is_no_history_of_the_store_is_refused_and_changes_nothing() {
    let (upper, lower, commits) = copies(Index::Minimal);
    let before = packs(&upper);
    let refused = |lower: Option<&Arc<SimDisk>>, kind: Kind, says: &str| {
        let mut store = open(&upper, options(Index::Minimal, lower)).unwrap();
        let error = store.attach().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        has_collected(&store, &commits);
        drop(store);
        assert_eq!(packs(&upper), before);
    };
    refused(None, Kind::Invalid, "without a lower folder");
    refused(Some(&SimDisk::new(5)), Kind::Missing, "context snapshot import");
    // Of another store.
    let (other, other_commits) = made(Index::Minimal, 10);
    let foreign = SimDisk::new(6);
    let mut store = open(&other, options(Index::Minimal, Some(&foreign))).unwrap();
    store.archive(other_commits.last().unwrap(), u64::MAX).unwrap();
    refused(Some(&foreign), Kind::Invalid, "another store");
    // Of a copy that went another way where this has collected.
    let apart = SimDisk::new(7);
    let mut store = Store::create(SimDisk::new(9), options(Index::Minimal, Some(&apart))).unwrap();
    let mut last = None;
    for block in [0, 1, 3, 4, 5, 8, 9] {
        last = Some(commit(&mut store, last.as_ref(), block).unwrap());
    }
    store.archive(&last.unwrap(), u64::MAX).unwrap();
    drop(store);
    refused(Some(&apart), Kind::Invalid, "another history");
    // A chunk that is not there, or is damaged anywhere.
    for name in &packs(&lower)[..4] {
        let damaged = lower.crash(Crash::Process);
        damaged.remove(name).unwrap();
        refused(Some(&damaged), Kind::Missing, name);
        let bytes = lower.bytes(name).unwrap();
        for place in (0..bytes.len()).step_by(bytes.len().div_ceil(60)) {
            let mut flipped = bytes.clone();
            flipped[place] ^= 4;
            for bytes in [flipped, bytes[..place].to_vec(), [&bytes[..], b"more"].concat()] {
                let damaged = lower.crash(Crash::Process);
                damaged.damage(name, bytes).unwrap();
                let mut store = open(&upper, options(Index::Minimal, Some(&damaged))).unwrap();
                let error = store.attach().unwrap_err();
                assert!(error.to_string().contains(&**name), "{name}, {place}: {error}");
                has_collected(&store, &commits);
            }
        }
    }
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.collect(&commits[4]).unwrap();
    assert_eq!(store.attach().unwrap_err().kind(), Kind::Invalid);
    store.collect_cancel().unwrap();
    store.attach().unwrap();
    holds(&store, &commits, &"attached");
}

/// No other lower folder helps where this store's own chunk is damaged, so nothing says so.
#[test]
fn damage_above_is_not_blamed_on_the_lower_folder() {
    let (upper, lower, _) = copies(Index::Minimal);
    let name = packs(&upper).into_iter().find(|name| name.matches('-').count() == 1).unwrap();
    let mut bytes = upper.bytes(&name).unwrap();
    // In the opening, behind the header and the head of the batch.
    bytes[90] ^= 4;
    upper.damage(&name, bytes).unwrap();
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let error = store.attach().unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains(&name), "{error}");
    assert!(!error.to_string().contains("does not continue"), "{error}");
}

/// Some file systems, as of removable disks, give nobody the name of a file that is open.
#[test]
fn chunks_are_attached_where_open_files_keep_their_names() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = copies(index);
        upper.keep_open_names(true);
        lower.keep_open_names(true);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert!(store.attach().unwrap() >= 4, "{index:?}");
        holds(&store, &commits, &index);
    }
}

#[test]
fn commits_that_a_cancelled_collection_took_are_there_again_where_their_chunks_are_whole() {
    for (index, is_index_lost) in
        [(Index::Minimal, false), (Index::Minimal, true), (Index::Always, true)]
    {
        let what = (index, is_index_lost);
        let (upper, commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        store.collect(&commits[3]).unwrap();
        while store.collect_status().unwrap().phase != CollectPhase::Cleaning {
            assert!(store.collect_step(1).unwrap(), "{what:?}");
        }
        assert!(store.collect_cancel().unwrap());
        assert!(packs(&upper).iter().all(|name| name.matches('-').count() == 1), "{what:?}");
        if is_index_lost {
            store.rebuild_index().unwrap();
        }
        has_collected(&store, &commits);
        assert_eq!(store.attach().unwrap(), 0, "{what:?}: no chunk is missing");
        holds(&store, &commits, &what);
        drop(store);
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &what);
    }
}

#[test]
fn a_store_whose_oldest_commit_is_below_opens_without_the_folder() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.collect(&commits[3]).unwrap();
    while store.collect_status().unwrap().phase != CollectPhase::Cleaning {
        assert!(store.collect_step(1).unwrap());
    }
    store.collect_cancel().unwrap();
    assert!(store.archive(commits.last().unwrap(), u64::MAX).unwrap() > 3);
    store.close().unwrap();
    let reads = lower.calls();
    let store = open(&upper, options(Index::Minimal, None)).unwrap();
    store.checkout(commits.last().unwrap()).unwrap().find(&["passing"]).unwrap();
    drop(store);
    drop(open(&upper, options(Index::Minimal, Some(&lower))).unwrap());
    assert_eq!(
        lower.calls().of(Fault::Any),
        reads.of(Fault::Any),
        "an opening needs nothing below"
    );
}

/// As a copy of the folder by hand leaves it, of which nothing is durable yet.
fn by_hand(lower: &Arc<SimDisk>) -> Arc<SimDisk> {
    let copy = SimDisk::new(8);
    for name in packs(lower) {
        let file = copy.open(&name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &lower.bytes(&name).unwrap()).unwrap();
    }
    copy
}

/// After a failed sync of a file or of its name no later one makes either durable.
#[test]
fn what_was_attached_after_a_failed_sync_outlives_a_power_cut() {
    for index in [Index::Minimal, Index::Always] {
        let mut failed = 0;
        for n in 1.. {
            let (upper, lower, commits) = copies(index);
            let copy = by_hand(&lower);
            copy.forget_names_on_failed_sync(true);
            let mut store = open(&upper, options(index, Some(&copy))).unwrap();
            let syncs = copy.calls().of(Fault::Sync);
            copy.fail_at(n, Fault::Sync);
            let outcome = store.attach();
            if copy.calls().of(Fault::Sync) < syncs + n {
                outcome.unwrap();
                break;
            }
            outcome.unwrap_err();
            copy.disarm();
            if n % 2 == 0 {
                drop(store);
                store = open(&upper, options(index, Some(&copy))).unwrap();
            }
            assert!(store.attach().unwrap() >= 4);
            drop(store);
            let [upper, copy] = [upper, copy].map(|disk| disk.crash(Crash::Subset(0)));
            let store = open(&upper, options(index, Some(&copy))).unwrap();
            holds(&store, &commits, &(index, n));
            failed += 1;
        }
        assert!(failed >= 4, "{failed}");
    }
}

#[test]
fn chunks_whose_sync_failed_when_they_were_copied_are_written_anew() {
    let (upper, lower, commits) = copies(Index::Minimal);
    let copy = by_hand(&lower);
    copy.forget_names_on_failed_sync(true);
    for name in packs(&copy) {
        let file = copy.open(&name, Mode::Write, Access::Buffered).unwrap();
        copy.fail_at(1, Fault::Sync);
        file.sync().unwrap_err();
    }
    copy.fail_at(1, Fault::Sync);
    copy.sync_directory("").unwrap_err();
    copy.disarm();
    let mut store = open(&upper, options(Index::Minimal, Some(&copy))).unwrap();
    assert!(store.attach().unwrap() >= 4);
    drop(store);
    let [upper, copy] = [upper, copy].map(|disk| disk.crash(Crash::Subset(0)));
    let store = open(&upper, options(Index::Minimal, Some(&copy))).unwrap();
    holds(&store, &commits, &"after a power cut");
}

/// The chunks go to a folder of the system, which can be locked itself.
#[test]
fn a_folder_to_which_another_store_moves_chunks_is_not_attached() {
    let (upper, lower, commits) = copies(Index::Minimal);
    let folder = tempfile::tempdir().unwrap();
    for name in packs(&lower) {
        std::fs::write(folder.path().join(&name), lower.bytes(&name).unwrap()).unwrap();
    }
    let below: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let with_lower = Options { lower: Some(below), ..options(Index::Minimal, None) };
    let mut store = open(&upper, with_lower).unwrap();
    let other = OsDisk::new(folder.path()).unwrap();
    let held = other.lock_directory("").unwrap().expect("folders can be locked here");
    let error = store.attach().unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    has_collected(&store, &commits);
    drop(held);
    // Another disk is mounted there before the store counts on what was written to the first.
    let (root, away) = (folder.path().to_owned(), folder.path().with_extension("away"));
    let mut steps = Vec::new();
    let changed = store.attach_watched(&mut |done, all| {
        steps.push(done);
        if done == all {
            std::fs::rename(&root, &away).unwrap();
            std::fs::create_dir(&root).unwrap();
        }
        Ok(())
    });
    let error = changed.unwrap_err();
    assert_eq!(error.kind(), Kind::Locked, "{error}");
    assert!(steps.len() >= 4 && steps.is_sorted(), "{steps:?}");
    has_collected(&store, &commits);
    std::fs::remove_dir(&root).unwrap();
    std::fs::rename(&away, &root).unwrap();
    let stopped = store.attach_watched(&mut |_, _| Err(Error::invalid("that is enough")));
    assert!(stopped.unwrap_err().to_string().contains("that is enough"));
    has_collected(&store, &commits);
    store.attach().unwrap();
    holds(&store, &commits, &"attached");
    drop(store);
    // Where a folder cannot be locked, a file in it is.
    let (upper, lower, commits) = copies(Index::Minimal);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let held = lower.lock("chunks.tmp.lock", "a store that moves chunks").unwrap();
    assert_eq!(store.attach().unwrap_err().kind(), Kind::Locked);
    drop(held);
    store.attach().unwrap();
    holds(&store, &commits, &"attached");
    assert!(!lower.exists("chunks.tmp.lock").unwrap());
}

#[test]
fn what_was_attached_outlives_a_power_cut() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = copies(index);
        let copy = by_hand(&lower);
        let mut store = open(&upper, options(index, Some(&copy))).unwrap();
        assert!(store.attach().unwrap() >= 4);
        drop(store);
        let [upper, copy] = [upper, copy].map(|disk| disk.crash(Crash::Subset(0)));
        let store = open(&upper, options(index, Some(&copy))).unwrap();
        holds(&store, &commits, &index);
    }
}

/// Attaches with the n-th change of the store's disk as its last; whatever a crash leaves opens, as before or as an
/// archive, and attaches then.
fn dies(index: Index, n: u64, images: &mut [u64; 2]) -> bool {
    let (upper, lower, commits) = copies(index);
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    upper.kill_at(n);
    let outcome = store.attach();
    if !upper.is_dead() {
        outcome.unwrap();
        return false;
    }
    drop(store);
    for (crash, image) in upper.crash_images(6, 6) {
        let (image, lower) = (image.crash(Crash::Process), lower.crash(Crash::Process));
        attaches(index, (&image, &lower, &commits), images, &(index, n, crash));
    }
    true
}

/// What a crash has left opens, as before or as an archive, and attaches. Returns whether it was one.
fn attaches(
    index: Index,
    (upper, lower, commits): (&Arc<SimDisk>, &Arc<SimDisk>, &[CommitHash]),
    images: &mut [u64; 2],
    what: &dyn std::fmt::Debug,
) -> bool {
    let mut store = open(upper, options(index, Some(lower)))
        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
    let is_attached = store.archived_bytes() > 0;
    images[usize::from(is_attached)] += 1;
    if is_attached {
        holds(&store, commits, what);
    } else {
        has_collected(&store, commits);
        assert!(store.check().unwrap().index_faults.is_empty(), "{what:?}");
    }
    store.attach().unwrap_or_else(|error| panic!("{what:?}: {error}"));
    holds(&store, commits, what);
    store.unarchive(u64::MAX).unwrap();
    collect(&mut store, &commits[4]);
    assert!(store.check().unwrap().index_faults.is_empty(), "{what:?}");
    is_attached
}

/// The same with the n-th change of the lower disk as its last, as in the middle of a chunk that is written anew: the power of
/// that disk goes, or that of both.
fn dies_below(index: Index, n: u64, images: &mut [u64; 2]) -> bool {
    let (upper, lower, commits) = copies(index);
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    lower.kill_at(n);
    let outcome = store.attach();
    if !lower.is_dead() {
        outcome.unwrap();
        return false;
    }
    drop(store);
    for (crash, below) in lower.crash_images(6, 6) {
        for above in [Crash::Process, crash] {
            let (image, below) = (upper.crash(above), below.crash(Crash::Process));
            let what = (index, n, crash, above);
            let is_attached = attaches(index, (&image, &below, &commits), images, &what);
            assert!(is_attached || outcome.is_err(), "{what:?}: it was acknowledged");
        }
    }
    true
}

#[test]
fn a_crash_of_the_lower_disk_at_any_write_or_sync_of_an_attachment_loses_no_chunk() {
    for index in [Index::Minimal, Index::Always] {
        let mut images = [0; 2];
        let places = (1..10_000).take_while(|n| dies_below(index, *n, &mut images)).count();
        assert!(places > 15 && images[0] > 50, "{places}, {images:?}");
    }
}

#[test]
fn a_crash_at_any_write_or_sync_leaves_the_store_as_it_was_or_an_archive() {
    for index in [Index::Minimal, Index::Always] {
        let mut images = [0; 2];
        let places = (1..10_000).take_while(|n| dies(index, *n, &mut images)).count();
        assert!(places > 6 && images[0] > 10 && images[1] > 10, "{places}, {images:?}");
    }
}

#[test]
fn after_any_failed_call_of_either_disk_it_can_be_attached() {
    for fails_lower in [true, false] {
        for kind in
            [Fault::Any, Fault::Read, Fault::Write, Fault::Sync, Fault::Rename, Fault::Remove]
        {
            for n in 1.. {
                let (upper, lower, commits) = copies(Index::Always);
                let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
                let failing = if fails_lower { &lower } else { &upper };
                let calls = failing.calls().of(kind);
                failing.fail_at(n, kind);
                let outcome = store.attach();
                let what = (fails_lower, kind, n);
                if failing.calls().of(kind) < calls + n {
                    outcome.unwrap();
                    break;
                }
                failing.disarm();
                if outcome.is_err() && fails_lower {
                    has_collected(&store, &commits);
                    store.attach().unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    holds(&store, &commits, &what);
                }
                drop(store);
                let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
                store.attach().unwrap_or_else(|error| panic!("{what:?}: {error}"));
                holds(&store, &commits, &what);
            }
        }
    }
}

fn alone(lower: &Arc<SimDisk>) -> Result<Store> {
    Store::open_lower_folder(Arc::clone(lower) as Arc<dyn Disk>, options(Index::Minimal, None))
}

#[test]
fn a_lower_folder_alone_is_a_history_to_read() {
    for index in [Index::Minimal, Index::Always] {
        let (_, lower, commits) = copies(index);
        let writes = lower.calls();
        let mut store = alone(&lower).unwrap();
        // Up to what was the last but one when its store moved it.
        holds(&store, &commits[..5], &index);
        assert_eq!(store.branches(), []);
        assert_eq!(store.last_commit().unwrap(), Some(commits[4]));
        assert_eq!(store.checkout(&commits[5]).unwrap_err().kind(), Kind::Missing);
        store.reload().unwrap();
        holds(&store, &commits[..5], &"after a reload");
        let mut tree = store.checkout(&commits[0]).unwrap();
        assert!(store.commit(&mut tree, &CommitInfo::default()).is_err());
        assert_eq!(lower.calls().of(Fault::Write), writes.of(Fault::Write));
        assert!(Store::is_lower_folder(&*lower).unwrap());
    }
}

/// A folder of an archive has many chunks, on a slow disk.
#[test]
fn a_lower_folder_alone_opens_each_chunk_once_to_look_at_it() {
    let (_, lower, _) = copies(Index::Minimal);
    let opened: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let counted = {
        let opened = Arc::clone(&opened);
        HookedDisk::new(Arc::clone(&lower) as Arc<dyn Disk>, move |call, path| {
            if matches!(call, Call::Open(_)) {
                *opened.lock().unwrap().entry(path.to_owned()).or_default() += 1;
            }
        })
    };
    drop(Store::open_lower_folder(counted, options(Index::Minimal, None)).unwrap());
    let opened = opened.lock().unwrap();
    let mut names = packs(&lower);
    assert_eq!(opened.len(), names.len(), "{opened:?}");
    // The first and the last say besides whose the folder is; the index is made of the commits in each.
    names.pop();
    for name in names.iter().skip(1) {
        assert_eq!(opened[name], 2, "{name}");
    }
}

#[test]
fn a_lower_folder_that_is_no_whole_history_is_refused() {
    let (upper, lower, commits) = copies(Index::Minimal);
    assert!(!Store::is_lower_folder(&*upper).unwrap());
    assert_eq!(alone(&upper).unwrap_err().kind(), Kind::Missing);
    assert_eq!(alone(&SimDisk::new(3)).unwrap_err().kind(), Kind::Missing);
    for name in &packs(&lower)[..4] {
        let less = lower.crash(Crash::Process);
        less.remove(name).unwrap();
        let error = alone(&less).unwrap_err();
        assert_eq!(error.kind(), Kind::Missing, "{error}");
        assert!(error.to_string().contains(&**name), "{error}");
    }
    // Two halves of histories that parted.
    let other = SimDisk::new(7);
    let mut store = Store::create(SimDisk::new(9), options(Index::Minimal, Some(&other))).unwrap();
    let mut last = None;
    for block in [9, 8, 7, 6, 5, 4, 3] {
        last = Some(commit(&mut store, last.as_ref(), block).unwrap());
    }
    store.archive(&last.unwrap(), u64::MAX).unwrap();
    let name = &packs(&lower)[2];
    let mixed = lower.crash(Crash::Process);
    mixed.damage(name, other.bytes(name).unwrap()).unwrap();
    assert_eq!(alone(&mixed).unwrap_err().kind(), Kind::Invalid);
    // A damage is found where it opens, reads or checks.
    let bytes = lower.bytes(name).unwrap();
    for place in (0..bytes.len()).step_by(bytes.len().div_ceil(60)) {
        let mut flipped = bytes.clone();
        flipped[place] ^= 4;
        for damaged in [flipped, bytes[..place].to_vec()] {
            let image = lower.crash(Crash::Process);
            image.damage(name, damaged.clone()).unwrap();
            match alone(&image).and_then(|store| store.check().map(|_| store)) {
                // Heads of batches are read by scans alone.
                Ok(store) => {
                    assert_eq!(damaged.len(), bytes.len());
                    holds(&store, &commits[..5], &place);
                }
                Err(error) => assert!(error.to_string().contains(&**name), "{place}: {error}"),
            }
        }
    }
}

/// Numbers of chunks begin again with each epoch.
#[test]
fn chunks_of_before_and_after_a_clearing_are_no_history_together() {
    let (upper, commits) = made(Index::Minimal, 9);
    let (lower, other) = (SimDisk::new(2), SimDisk::new(3));
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert!(store.archive(commits.last().unwrap(), u64::MAX).unwrap() > 3);
    let before = packs(&lower);
    store.clear().unwrap();
    let mut fresh: Vec<CommitHash> = Vec::new();
    for block in 0..4 {
        fresh.push(commit(&mut store, fresh.last(), block).unwrap());
    }
    let error = store.archive(&fresh[3], u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("cleared"), "{error}");
    assert_eq!(lower.list("").unwrap(), before, "nothing was written");
    holds(&store, &fresh, &"refused");
    // The older history is there, whole, as long as nothing hides it.
    holds(&alone(&lower).unwrap(), &commits[..5], &"of before");
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&other))).unwrap();
    assert!(store.archive(&fresh[3], u64::MAX).unwrap() > 1);
    holds(&store, &fresh, &"in a folder of its own");
    drop(store);
    // Put together by hand.
    for name in packs(&other) {
        let file = lower.open(&name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &other.bytes(&name).unwrap()).unwrap();
    }
    for error in [alone(&lower).unwrap_err(), Store::is_lower_folder(&*lower).unwrap_err()] {
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.to_string().contains("two histories"), "{error}");
    }
    let store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    holds(&store, &fresh, &"of each chunk the store knows the epoch");
}

/// A store opens without its lower folder, whatever is there.
/// Between the rename of the control file and the moment at which the writer tells its threads of the chunks below, one that
/// misses an old file reads the control file, and finds them before the writer does.
#[test]
fn a_thread_that_misses_a_file_while_chunks_are_attached_harms_nothing() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = copies(index);
        let reader: Arc<Mutex<Option<Reader>>> = Arc::default();
        let (renamed, missed) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
        let (of_hook, counted, files) =
            (Arc::clone(&reader), Arc::clone(&missed), Arc::clone(&upper));
        let last = commits[6];
        let disk: Arc<dyn Disk> =
            HookedDisk::new(Arc::<SimDisk>::clone(&upper), move |call, path| {
                if call == Call::Rename && path.contains("control") {
                    renamed.store(true, Relaxed);
                }
                if call != Call::SyncDirectory || !renamed.swap(false, Relaxed) {
                    return;
                }
                let Some(reader) = &*of_hook.lock().unwrap() else { return };
                for old in packs(&files).iter().filter(|name| name.matches('-').count() == 2) {
                    files.remove(old).unwrap();
                    counted.fetch_add(1, Relaxed);
                }
                let tree = reader.checkout(&last).unwrap();
                for block in 0..6_u8 {
                    assert!(tree.find(&["lasting", &block.to_string()]).unwrap().is_some());
                }
            });
        let few = Options {
            max_open_files: Some(1),
            objects_bytes: 0,
            pages_bytes: 0,
            ..options(index, Some(&lower))
        };
        let mut store = Store::open(disk, few).unwrap();
        *reader.lock().unwrap() = Some(store.reader().unwrap());
        assert!(store.attach().unwrap() >= 4);
        *reader.lock().unwrap() = None;
        assert!(missed.load(Relaxed) > 0, "{missed:?}");
        let numbers: Vec<u64> = store.chunks().iter().map(|chunk| chunk.number).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "each chunk once: {numbers:?}");
        holds(&store, &commits, &index);
        store.close().unwrap();
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &index);
        assert!(store.unarchive(u64::MAX).unwrap() >= 4);
        holds(&store, &commits, &index);
    }
}

#[test]
fn the_last_commit_stays_above() {
    let (disk, mut commits) = made(Index::Minimal, 9);
    let mut store = open(&disk, options(Index::Minimal, None)).unwrap();
    store.begin_chunk().unwrap();
    store.close().unwrap();
    let (copy, lower) = (disk.crash(Crash::Process), SimDisk::new(2));
    let mut store = open(&copy, options(Index::Minimal, Some(&lower))).unwrap();
    let newer = commit(&mut store, commits.last(), 77).unwrap();
    store.archive(&newer, u64::MAX).unwrap();
    store.close().unwrap();
    let mut store = open(&disk, options(Index::Minimal, Some(&lower))).unwrap();
    collect(&mut store, commits.last().unwrap());
    let error = store.attach().unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("commit once more"), "{error}");
    commits.push(commit(&mut store, commits.last(), 6).unwrap());
    assert!(store.attach().unwrap() > 1);
    holds(&store, &commits, &"attached");
    store.close().unwrap();
    let store = open(&disk, options(Index::Minimal, None)).unwrap();
    assert_eq!(store.last_commit().unwrap().as_ref(), commits.last());
}

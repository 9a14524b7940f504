//! What recent commits have of chunks in the lower folder: it is above too, so that they never ask the other disk.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

use crate::context_archive::{commit, holds, holds_alone, made, open, options, packs, value};

const INDEXES: [Index; 2] = [Index::Minimal, Index::Always];

/// An archive that was opened again since its chunks went below.
fn archived(index: Index, to: usize) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>, Store) {
    let (upper, commits) = made(index, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[to], u64::MAX).unwrap(), to as u64);
    store.close().unwrap();
    let store = open(&upper, options(index, Some(&lower))).unwrap();
    (upper, lower, commits, store)
}

fn bytes(disk: &SimDisk) -> u64 {
    packs(disk).iter().map(|name| disk.bytes(name).unwrap().len() as u64).sum()
}

fn collect(store: &mut Store, to: &CommitHash) {
    store.collect_archived(to).unwrap();
    while store.collect_step(100).unwrap() {}
}

#[test]
fn recent_commits_never_touch_the_lower_disk() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 4);
        let calls = lower.calls();
        holds_alone(&store, &commits, 4);
        for block in 6..12 {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
        }
        // With every object known by its hash an old value would be found below.
        let mut tree = store.checkout(&commits[11]).unwrap();
        tree.add(&["again"], &value(77)).unwrap();
        tree.remove(&["lasting", "0"]).unwrap();
        tree.add(&["lasting", "0"], &value(0)).unwrap();
        store.commit(&mut tree, &CommitInfo::new(&[commits[11]], 12, "a", "b")).unwrap();
        store.close().unwrap();
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds_alone(&store, &commits, 4);
        assert_eq!(lower.calls(), calls, "{index:?}");
        // Older ones do.
        holds_alone(&store, &commits, 0);
        assert!(lower.calls().reads > calls.reads);
    }
}

#[test]
fn an_old_value_that_is_written_anew_is_read_above() {
    let (upper, mut commits) = made(Index::Always, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    store.archive(&commits[5], u64::MAX).unwrap();
    // Only the commit whose value it was has it, and that is below.
    let mut tree = store.checkout(&commits[5]).unwrap();
    tree.add(&["found", "again"], &value(2)).unwrap();
    tree.remove(&["lasting", "2"]).unwrap();
    let info = CommitInfo::new(&[commits[5]], 7, "a", "b");
    store.archive(&commits[5], u64::MAX).unwrap();
    commits.push(store.commit(&mut tree, &info).unwrap());
    store.close().unwrap();
    let calls = lower.calls();
    let store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    let found = store.checkout(&commits[6]).unwrap().find(&["found", "again"]).unwrap();
    assert_eq!((found, lower.calls()), (Some(value(2)), calls));
    drop(store);
    let store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    assert_eq!(store.check().unwrap().index_faults, Vec::<String>::new());
}

#[test]
fn a_lost_folder_leaves_recent_commits_whole_and_its_return_brings_back_the_others() {
    for index in INDEXES {
        let (upper, lower, commits, store) = archived(index, 4);
        drop(store);
        let empty = SimDisk::new(3);
        for lost in [None, Some(&empty)] {
            let store = open(&upper, options(index, lost)).unwrap();
            holds_alone(&store, &commits, 4);
            let error = store.checkout(&commits[1]).and_then(|tree| tree.find(&["passing"]));
            let error = error.unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            assert!(error.to_string().contains("0000-000001.pack"), "{error}");
        }
        // One volume alone is lost.
        let less = lower.crash(Crash::Process);
        less.remove("0000-000002.pack").unwrap();
        let store = open(&upper, options(index, Some(&less))).unwrap();
        holds_alone(&store, &commits, 4);
        store.checkout(&commits[1]).unwrap().find(&["passing"]).unwrap();
        let error = store.checkout(&commits[2]).and_then(|tree| tree.find(&["passing"]));
        assert!(error.unwrap_err().to_string().contains("0000-000002.pack"));
        drop(store);
        holds(&open(&upper, options(index, Some(&lower))).unwrap(), &commits, &"restored");
    }
}

#[test]
fn what_is_above_follows_the_commits_that_are_recent() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 4);
        let mut most = 0;
        for block in 6..40 {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            let line = commits[commits.len() - 3];
            while store.archive(&line, 1).unwrap() > 0 {}
            store.archive(&line, u64::MAX).unwrap();
            most = most.max(packs(&upper).len());
        }
        store.close().unwrap();
        let calls = lower.calls();
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds_alone(&store, &commits, commits.len() as u8 - 3);
        assert_eq!(lower.calls(), calls);
        drop(store);
        // What a store has that collects the same.
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &index);
        let archive = bytes(&upper);
        collect(&mut store, &commits[commits.len() - 3]);
        store.close().unwrap();
        drop(open(&upper, options(index, None)).unwrap());
        let rolling = bytes(&upper);
        assert!(archive < rolling * 2 + 4096, "{archive} beside {rolling}");
        assert!(most < 80, "{most} files above");
    }
}

#[test]
fn an_archive_rolls_by_one_command_and_is_an_archive_again_by_another() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 4);
        assert_eq!(store.collect(&commits[4]).unwrap_err().kind(), Kind::Invalid);
        let below = packs(&lower);
        collect(&mut store, &commits[4]);
        assert_eq!(store.archived_bytes(), 0);
        commits.push(commit(&mut store, commits.last(), 6).unwrap());
        store.close().unwrap();
        assert_eq!(packs(&lower), below, "nothing below went");
        let store = open(&upper, options(index, None)).unwrap();
        holds_alone(&store, &commits, 4);
        assert_eq!(store.check().unwrap().commits, 3);
        let kind = store.checkout(&commits[0]).unwrap_err().kind();
        assert_eq!(kind, Kind::Collected);
        drop(store);
        // The chunk of the horizon was above: it went below in another copy.
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        match store.attach() {
            Ok(count) => {
                assert!(count > 0);
                holds(&store, &commits, &index);
            }
            Err(error) => assert_eq!(error.kind(), Kind::Missing, "{error}"),
        }
    }
}

/// Archives, commits, archives again and rolls, with the n-th change of the store's disk as its last.
fn dies(index: Index, n: u64, images: &mut u64) -> Result<bool> {
    let (upper, lower, mut commits, mut store) = archived(index, 2);
    upper.kill_at(n);
    let outcome = (|| {
        commits.push(commit(&mut store, commits.last(), 6)?);
        store.archive(&commits[5], 3)?;
        store.archive(&commits[5], u64::MAX)?;
        store.collect_archived(&commits[5])?;
        while store.collect_step(100)? {}
        Ok(())
    })();
    if !upper.is_dead() {
        outcome?;
        return Ok(false);
    }
    drop(store);
    for (crash, image) in upper.crash_images(5, 5) {
        *images += 1;
        let what = (index, n, crash);
        let (image, lower) = (image.crash(Crash::Process), lower.crash(Crash::Process));
        let mut store = open(&image, options(index, Some(&lower)))
            .unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let there = store.log(usize::MAX)?.len();
        let mut commits = commits.clone();
        if there > commits.len() {
            // The commit that was dying is there all the same.
            commits.extend(store.last_commit()?);
        }
        if there >= 6 {
            holds(&store, &commits[..there], &what);
        }
        holds_alone(&store, &commits[..6], 5);
        while store.collect_step(1 << 20)? {}
        let last = store.last_commit()?.expect("there are some");
        collect(&mut store, &last);
        assert_eq!(store.check()?.index_faults, Vec::<String>::new(), "{what:?}");
        store.close()?;
        let store = open(&image, options(index, None))?;
        store.checkout(&last)?.find(&["lasting", "0"])?.expect("it stays");
    }
    Ok(true)
}

#[test]
fn a_crash_at_any_change_leaves_what_it_was_or_what_it_was_to_be() {
    for index in INDEXES {
        let mut images = 0;
        let places =
            (1..10_000).step_by(2).take_while(|n| dies(index, *n, &mut images).unwrap()).count();
        assert!(places > 20 && images > 60, "{places}, {images}");
    }
}

#[test]
fn after_any_failed_call_every_commit_is_there() {
    for fails_lower in [true, false] {
        for kind in [Fault::Read, Fault::Write, Fault::Sync, Fault::Rename, Fault::Remove] {
            for n in 1.. {
                let (upper, lower, mut commits, mut store) = archived(Index::Always, 2);
                commits.push(commit(&mut store, commits.last(), 6).unwrap());
                let failing = if fails_lower { &lower } else { &upper };
                let calls = failing.calls().of(kind);
                failing.fail_at(n, kind);
                let outcome = store.archive(&commits[5], u64::MAX);
                let what = (fails_lower, kind, n);
                if failing.calls().of(kind) < calls + n {
                    outcome.unwrap();
                    break;
                }
                failing.disarm();
                drop(store);
                let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
                holds(&store, &commits, &what);
                store.archive(&commits[5], u64::MAX).unwrap();
                holds(&store, &commits, &what);
                store.close().unwrap();
                let store = open(&upper, options(Index::Always, None)).unwrap();
                holds_alone(&store, &commits, 5);
            }
        }
    }
}

#[test]
fn a_store_that_is_full_keeps_its_chunks_above() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let all: u64 = upper
        .list("")
        .unwrap()
        .iter()
        .filter_map(|name| upper.bytes(name).ok())
        .map(|bytes| bytes.len() as u64)
        .sum();
    upper.capacity(Some(all + 64));
    store.archive(&commits[4], u64::MAX).unwrap_err();
    upper.capacity(None);
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    holds(&store, &commits, &"full");
    assert!(store.archive(&commits[4], u64::MAX).unwrap() > 0);
    holds(&store, &commits, &"with room");
}

#[test]
fn readers_beside_it_find_every_commit() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 2);
        let disk = Arc::clone(&upper) as Arc<dyn Disk>;
        let few = Options { max_open_files: Some(1), ..options(index, Some(&lower)) };
        let mut reader = Store::open_read_only(disk, few).unwrap();
        for block in 6..14 {
            let known = commits.len();
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            store.archive(&commits[known - 1], u64::MAX).unwrap();
            holds(&reader, &commits[..known], &"before its reload");
            reader.reload().unwrap();
            holds(&reader, &commits, &"after it");
        }
    }
}

#[test]
fn a_reader_follows_a_part_above_that_has_the_name_of_the_one_before() {
    for index in INDEXES {
        let (upper, lower, commits, mut store) = archived(index, 4);
        let name = "0000-000001-1.pack";
        let before = upper.bytes(name).unwrap();
        let reader = || {
            let disk = Arc::clone(&upper) as Arc<dyn Disk>;
            let few = Options { max_open_files: Some(1), ..options(index, Some(&lower)) };
            Store::open_read_only(disk, few).unwrap()
        };
        let (fresh, used) = (reader(), reader());
        holds(&used, &commits, &index);
        assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
        store.pin(&commits[1]).unwrap();
        store.archive(&commits[4], u64::MAX).unwrap();
        assert_ne!(upper.bytes(name).unwrap(), before, "another file of the same name");
        for reader in [&fresh, &used] {
            holds(reader, &commits, &index);
        }
    }
}

//! What a move to the lower folder reads before the first chunk goes, in steps between which others commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::context::{ChunkState, CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{Kind, Result};

use crate::archive_above::{next, read_all, recent_needs_nothing, sized, value};
use crate::context_archive::{open, packs};
use crate::hooked_disk::HookedDisk;

const BLOCKS: u16 = 400;

/// A store of many commits, on a disk that counts the bytes that are read.
fn made(
    index: Index,
) -> (Arc<SimDisk>, Arc<dyn Disk>, Arc<AtomicU64>, Vec<varvite::context::CommitHash>) {
    let upper = SimDisk::new(9);
    let read = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&read);
    let disk: Arc<dyn Disk> =
        HookedDisk::counting_reads(Arc::clone(&upper) as Arc<dyn Disk>, move |path, bytes| {
            if path.contains(".pack") {
                counted.fetch_add(bytes as u64, SeqCst);
            }
        });
    let mut store = Store::create(Arc::clone(&disk), sized(index, None)).unwrap();
    let mut commits = Vec::new();
    for block in 0..BLOCKS {
        let last = commits.last().copied();
        commits.push(next(&mut store, last.as_ref(), block).unwrap());
    }
    store.set_branch(b"old", &commits[21]).unwrap();
    store.pin(&commits[33]).unwrap();
    store.close().unwrap();
    (upper, disk, read, commits)
}

fn with_lower(index: Index, lower: &Arc<SimDisk>) -> Options {
    // So that what is read is seen.
    Options { pages_bytes: 0, objects_bytes: 0, ..sized(index, Some(lower)) }
}

#[test]
fn a_step_reads_about_what_it_is_given_and_the_move_finds_it_done() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, disk, read, mut commits) = made(index);
        let target = commits[200];
        // What one call reads.
        let image = upper.crash(varvite::disk::sim::Crash::Process);
        let counted = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&counted);
        let hooked: Arc<dyn Disk> = HookedDisk::counting_reads(image, move |path, bytes| {
            if path.contains(".pack") {
                count.fetch_add(bytes as u64, SeqCst);
            }
        });
        let lower = SimDisk::new(2);
        let mut store = Store::open(hooked, with_lower(index, &lower)).unwrap();
        counted.store(0, SeqCst);
        assert_eq!(store.archive(&target, 1).unwrap(), 1);
        let at_once = counted.load(SeqCst);
        drop(store);

        let lower = SimDisk::new(2);
        let mut store = Store::open(Arc::clone(&disk), with_lower(index, &lower)).unwrap();
        let (mut steps, mut most, mut block) = (0, 0, BLOCKS);
        loop {
            read.store(0, SeqCst);
            let more = store.archive_step(&target, 8).unwrap();
            (steps, most) = (steps + 1, most.max(read.load(SeqCst)));
            if !more {
                break;
            }
            let last = *commits.last().unwrap();
            commits.push(next(&mut store, Some(&last), block).unwrap());
            block += 1;
        }
        assert!(steps > 5, "{index:?}: {steps} steps");
        // A chunk's window is read at once, and the commits are looked at that others keep.
        assert!(most <= 40_000 && most < at_once / 4, "{index:?}: {most} of {at_once}");
        read.store(0, SeqCst);
        assert!(!store.archive_step(&target, 8).unwrap());
        assert_eq!(store.archive(&target, 1).unwrap(), 1);
        let rest = read.load(SeqCst);
        assert!(rest < at_once * 3 / 4, "{index:?}: {rest} of {at_once}");
        store.archive(&target, u64::MAX).unwrap();
        store.check().unwrap();
        for (block, commit) in (0..).zip(&commits).step_by(13) {
            read_all(&store, commit, block).unwrap();
        }
        store.close().unwrap();
        recent_needs_nothing(&upper, index, None, (200, &commits)).unwrap();
        println!(
            "{index:?}: {steps} steps of at most {most} bytes, {at_once} at once, {rest} after them"
        );
    }
}

/// A disk that fails again and again costs no more than what it did not read.
#[test]
fn steps_go_on_after_an_error_of_the_disk() {
    let index = Index::Minimal;
    let (upper, _, _, commits) = made(index);
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let fails = move |path: &str, _: u64, _: usize| {
        path.contains(".pack") && counted.fetch_add(1, SeqCst) % 40 == 39
    };
    let disk: Arc<dyn Disk> = HookedDisk::failing_reads(Arc::clone(&upper) as Arc<dyn Disk>, fails);
    let lower = SimDisk::new(2);
    let mut store = Store::open(disk, with_lower(index, &lower)).unwrap();
    let (mut steps, mut failed) = (0, 0);
    loop {
        match store.archive_step(&commits[200], 8) {
            Ok(true) => steps += 1,
            Ok(false) => break,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Io, "{error}");
                failed += 1;
            }
        }
        assert!(steps + failed < 500, "{steps} steps, {failed} failed: it does not come to an end");
    }
    assert!(failed > 2, "{steps} steps, {failed} failed");
    drop(store);
    let mut store = open(&upper, with_lower(index, &lower)).unwrap();
    store.archive(&commits[200], u64::MAX).unwrap();
    store.check().unwrap();
}

#[test]
fn a_step_is_refused_where_a_move_is_and_does_something_in_any_case() {
    let (upper, _, _, commits) = made(Index::Minimal);
    let mut store = open(&upper, sized(Index::Minimal, None)).unwrap();
    let refused = |outcome: Result<bool>| assert_eq!(outcome.unwrap_err().kind(), Kind::Invalid);
    refused(store.archive_step(&commits[200], 8));
    store.close().unwrap();
    let lower = SimDisk::new(2);
    let mut store = open(&upper, with_lower(Index::Minimal, &lower)).unwrap();
    store.collect(&commits[20]).unwrap();
    refused(store.archive_step(&commits[200], 8));
    store.collect_cancel().unwrap();
    let mut steps = 0;
    while store.archive_step(&commits[200], 0).unwrap() {
        steps += 1;
        assert!(steps < 10_000);
    }
    assert!(steps > 10, "{steps}");
}

/// Nobody tells marks what commits refer to while a collection is under way, and they keep files open that are to go.
#[test]
fn a_collection_forgets_what_steps_have_marked() {
    for index in [Index::Minimal, Index::Always] {
        let lower = SimDisk::new(2);
        let upper = SimDisk::new(9);
        let mut store =
            Store::create(Arc::clone(&upper) as Arc<dyn Disk>, with_lower(index, &lower)).unwrap();
        let mut commits: Vec<CommitHash> = Vec::new();
        for block in 0..100_u16 {
            commits.push(next(&mut store, commits.last(), block).unwrap());
            if let Some(is_there) = [(30, true), (40, false)].iter().find(|it| it.0 == block) {
                let last = commits.pop().unwrap();
                let mut tree = store.checkout(&last).unwrap();
                if is_there.1 {
                    tree.add(&["once"], &value(999)).unwrap();
                } else {
                    tree.remove(&["once"]).unwrap();
                }
                let info = CommitInfo::new(&[last], i64::from(block), "a", "c");
                commits.push(store.commit(&mut tree, &info).unwrap());
            }
        }
        while store.archive_step(&commits[80], 1000).unwrap() {}
        store.collect(&commits[20]).unwrap();
        while store.collect_step(100).unwrap() {}
        let chunks = store.chunks();
        let files = chunks.iter().filter(|chunk| chunk.state != ChunkState::Gone).count();
        assert_eq!(packs(&upper).len(), files, "{index:?}");
        let mut tree = store.checkout(commits.last().unwrap()).unwrap();
        tree.add(&["again"], &value(999)).unwrap();
        let info = CommitInfo::new(&[*commits.last().unwrap()], 500, "a", "c");
        let again = store.commit(&mut tree, &info).unwrap();
        while store.archive_step(&commits[80], 1000).unwrap() {}
        assert!(store.archive(&commits[80], u64::MAX).unwrap() > 2);
        store.check().unwrap();
        store.close().unwrap();
        let store = open(&upper.crash(Crash::Process), sized(index, None)).unwrap();
        let tree = store.checkout(&again).unwrap();
        assert_eq!(tree.find(&["again"]).unwrap(), Some(value(999)), "{index:?}");
        drop(store);
        // Nor do files stay that are to go.
        let mut store = open(&upper, with_lower(index, &lower)).unwrap();
        store.unarchive(u64::MAX).unwrap();
        while store.archive_step(&commits[80], 1000).unwrap() {}
        store.collect(&commits[95]).unwrap();
        while store.collect_step(100).unwrap() {}
        let chunks = store.chunks();
        let files = chunks.iter().filter(|chunk| chunk.state != ChunkState::Gone).count();
        assert_eq!(packs(&upper).len(), files, "{index:?}");
    }
}

//! What a move to the lower folder reads before the first chunk goes, in steps between which others commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::context::{Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::SimDisk;

use crate::archive_above::{next, read_all, recent_needs_nothing, sized};
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

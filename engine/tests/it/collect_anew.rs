//! Records that a collection writes anew, since the bases that they were patches of go: what a reader beside it finds
//! and what a crash leaves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::context::{CommitHash, CommitInfo, Index, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

use crate::context_collect::content;
use crate::hooked_disk::{Call, HookedDisk};

fn options(index: Index) -> Options {
    Options {
        index,
        seed: Some(9),
        chunk_bytes: 500,
        objects_bytes: 0,
        pages_bytes: 0,
        hashes_bytes: 0,
        max_open_files: Some(2),
        ..Options::default()
    }
}

/// Commits that each change one of forty entries: patches, in chunks of their own.
fn story(disk: Arc<dyn Disk>, index: Index) -> Result<(Store, Vec<CommitHash>)> {
    let mut store = Store::create(disk, options(index))?;
    let mut tree = store.empty_tree();
    for entry in 0..40 {
        tree.add(&["d", &format!("{entry:02}")], &[0; 8])?;
    }
    let mut commits = Vec::new();
    for number in 0..9_u8 {
        tree.add(&["d", &format!("{:02}", number * 7 % 40)], &[number; 8])?;
        commits.push(store.commit(&mut tree, &CommitInfo::new(&[], number.into(), "a", "b"))?);
        store.begin_chunk()?;
    }
    Ok((store, commits))
}

#[test]
fn a_chain_that_is_read_while_its_records_are_written_anew_is_read_again() {
    let (mut interrupted, mut number) = (0, 0);
    loop {
        number += 1;
        let disk = MemoryDisk::seeded(1);
        let (mut store, commits) = story(Arc::<MemoryDisk>::clone(&disk), Index::Minimal).unwrap();
        let (newest, target) = (commits[8], commits[7]);
        let expected = content(&store.checkout(&newest).unwrap()).unwrap();
        store.collect(&target).unwrap();
        let (store, reads) = (Arc::new(Mutex::new(store)), Arc::new(AtomicU64::new(0)));
        let (writer, counted) = (Arc::clone(&store), Arc::clone(&reads));
        let hooked = HookedDisk::new(disk, move |call, _| {
            if call == Call::Read && counted.fetch_add(1, Ordering::SeqCst) + 1 == number {
                while writer.lock().unwrap().collect_step(1_000).unwrap() {}
            }
        });
        let reader = Store::open_read_only(hooked, options(Index::Minimal)).unwrap();
        let opened = reads.load(Ordering::SeqCst);
        let tree = reader.checkout(&newest).unwrap();
        assert_eq!(content(&tree).unwrap(), expected, "read {number}");
        interrupted += u64::from((opened + 1..=reads.load(Ordering::SeqCst)).contains(&number));
        if reads.load(Ordering::SeqCst) < number {
            break;
        }
    }
    assert!(interrupted > 5, "{interrupted}");
}

/// Expects the commits from `first` on to be what they were.
fn expect(store: &Store, commits: &[CommitHash], first: usize) {
    for (number, commit) in commits.iter().enumerate().skip(first) {
        let tree = store.checkout(commit).unwrap();
        for entry in 0..=number as u8 {
            let found = tree.find(&["d", &format!("{:02}", entry * 7 % 40)]).unwrap();
            assert_eq!(found, Some(vec![entry; 8]), "commit {number}");
        }
    }
    store.check().unwrap();
}

#[test]
fn a_crash_or_a_failing_call_while_records_are_written_anew_loses_nothing() {
    for index in [Index::Minimal, Index::Always] {
        let (mut failed, mut images) = (0, 0);
        let step = if index == Index::Minimal { 1 } else { 3 };
        for n in (1..).step_by(step) {
            let disk = SimDisk::new(7);
            let (mut store, commits) = story(Arc::clone(&disk) as Arc<dyn Disk>, index).unwrap();
            let before = disk.calls().of(Fault::Any);
            disk.fail_at(n, Fault::Any);
            let outcome = store.collect(&commits[6]).and_then(|()| {
                while store.collect_step(1)? {}
                Ok(())
            });
            let is_over = disk.calls().of(Fault::Any) < before + n;
            if let Err(error) = outcome {
                let told = matches!(error.kind(), Kind::Io | Kind::Poisoned);
                assert!(told, "call {n}: {error}");
                failed += 1;
            }
            // In the middle of it the power goes, or the process.
            for crash in [Crash::Process, Crash::Seed(n), Crash::Subset(0)] {
                images += 1;
                let image = disk.crash(crash);
                let mut store = Store::open(image, options(index)).unwrap();
                expect(&store, &commits, 6);
                if !store.collect_step(1_000).unwrap() {
                    store.collect(&commits[6]).unwrap();
                }
                while store.collect_step(1_000).unwrap() {}
                expect(&store, &commits, 6);
            }
            if is_over {
                break;
            }
        }
        assert!(failed > 10 && images > 30, "{index:?}: {failed} failed, {images} images");
    }
}

/// Changes seven of the forty entries and commits, in a chunk of its own.
fn go_on(store: &mut Store, tree: &mut Tree, number: u8) -> Result<CommitHash> {
    for entry in 0..7 {
        let entry = (usize::from(number) * 11 + entry * 5) % 40;
        tree.add(&["d", &format!("{entry:02}")], &[number; 8])?;
    }
    let commit = store.commit(tree, &CommitInfo::new(&[], number.into(), "a", "b"))?;
    store.begin_chunk()?;
    Ok(commit)
}

/// With what copies have moved into a lower folder, records are there again as they were, patches with all their bases,
/// and what was written since are patches of them.
#[test]
fn what_was_written_on_records_anew_is_read_when_the_old_ones_are_attached() {
    // So often eight commits are made, and so often of these they are copied and then collected.
    for (rounds, collected) in [(1, 1), (3, 1), (3, 3)] {
        let (disk, lower) = (SimDisk::new(7), SimDisk::new(8));
        let with_lower = || Options {
            lower: Some(Arc::clone(&lower) as Arc<dyn Disk>),
            ..options(Index::Minimal)
        };
        let mut store =
            Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options(Index::Minimal)).unwrap();
        let mut tree = store.empty_tree();
        for entry in 0..40 {
            tree.add(&["d", &format!("{entry:02}")], &[0; 8]).unwrap();
        }
        let mut commits = Vec::new();
        for round in 0..rounds {
            for number in 0..8 {
                let commit = go_on(&mut store, &mut tree, round * 8 + number).unwrap();
                commits.push((commit, content(&tree).unwrap()));
            }
            if round < collected {
                let last = commits.last().unwrap().0;
                let mut copy = Store::open(disk.crash(Crash::Process), with_lower()).unwrap();
                let mut other = copy.checkout(&last).unwrap();
                let newest = go_on(&mut copy, &mut other, 100).unwrap();
                assert_eq!(copy.archive(&newest, 8).unwrap(), 8);
                store.collect(&last).unwrap();
                while store.collect_step(1_000).unwrap() {}
            }
        }
        let commit = go_on(&mut store, &mut tree, 99).unwrap();
        commits.push((commit, content(&tree).unwrap()));
        store.check().unwrap();
        store.close().unwrap();
        let mut store = Store::open(disk, with_lower()).unwrap();
        assert_eq!(store.attach().unwrap(), 8 * u64::from(collected));
        for (commit, expected) in &commits {
            let tree = store.checkout(commit).unwrap();
            assert_eq!(&content(&tree).unwrap(), expected, "{rounds} rounds");
        }
        store.check().unwrap();
    }
}

//! Lower folders of copies of a store that went on by themselves: equally far, and as sure of being the right one.

use std::sync::Arc;

use varvite::context::{CommitHash, Index, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{Error, Kind};

use crate::context_archive::{archived, commit, made, open, options, packs};

/// A copy that went on with commits of the blocks from `block` on, and has moved all but the last two chunks to a folder.
fn went_on(
    copy: &Arc<SimDisk>,
    seed: u64,
    index: Index,
    before: &[CommitHash],
    block: u8,
) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let lower = SimDisk::new(seed);
    let (mut store, commits) = goes_on(copy, &lower, index, before, block);
    let moved = store.archive(&commits[7], u64::MAX).unwrap();
    assert_eq!(moved, 7, "up to the first that the other copy has otherwise");
    store.close().unwrap();
    (lower, commits)
}

/// The same, with the store open, before anything is moved.
fn goes_on(
    copy: &Arc<SimDisk>,
    lower: &Arc<SimDisk>,
    index: Index,
    before: &[CommitHash],
    block: u8,
) -> (Store, Vec<CommitHash>) {
    let mut store = open(copy, options(index, Some(lower))).unwrap();
    let mut commits = before.to_vec();
    for block in block..block + 4 {
        commits.push(commit(&mut store, commits.last(), block).unwrap());
    }
    (store, commits)
}

/// A store that was copied when it had moved `moved` chunks to a folder: both, the folder, and its commits.
fn twins(index: Index, moved: usize) -> ([Arc<SimDisk>; 2], Arc<SimDisk>, Vec<CommitHash>) {
    let (first, lower, commits) = archived(index, 9, moved);
    let second = first.crash(Crash::Process);
    ([first, second], lower, commits)
}

fn files_of(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    packs(disk).into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

fn holds_files(disk: &SimDisk, files: &[(String, Vec<u8>)]) {
    let names: Vec<_> = files.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(packs(disk), names);
    for (name, bytes) in files {
        assert!(disk.bytes(name).unwrap() == *bytes, "{name}");
    }
}

#[test]
fn the_folder_of_a_copy_that_went_on_by_itself_is_not_taken_for_the_stores_own() {
    for index in [Index::Minimal, Index::Always] {
        // Of the same length, and of another.
        for other in [30, 107] {
            let (first, commits) = made(index, 9);
            let second = first.crash(Crash::Process);
            let (own, first_commits) = went_on(&first, 2, index, &commits, 20);
            let (others, second_commits) = went_on(&second, 3, index, &commits, other);
            let files = files_of(&others);
            let refused = |error: Error| {
                assert_eq!(error.kind(), Kind::Invalid, "{other}: {error}");
                assert!(error.to_string().contains("0000-000006.pack"), "{other}: {error}");
                assert!(error.to_string().contains("another copy"), "{other}: {error}");
                holds_files(&others, &files);
            };
            let mut store = open(&first, options(index, Some(&others))).unwrap();
            // What would go to it, and where all is there already.
            refused(store.archive(&first_commits[9], u64::MAX).unwrap_err());
            refused(store.archive(&first_commits[7], u64::MAX).unwrap_err());
            drop(store);
            let mut store = open(&first, options(index, Some(&own))).unwrap();
            assert_eq!(store.archive(&first_commits[7], u64::MAX).unwrap(), 0);
            assert_eq!(store.archive(&first_commits[9], u64::MAX).unwrap(), 2);
            assert_eq!(store.log(99).unwrap().len(), first_commits.len());
            assert_eq!(store.check().unwrap().commits, first_commits.len() as u64);
            drop(store);
            let mut store = open(&second, options(index, Some(&others))).unwrap();
            assert_eq!(store.archive(&second_commits[9], u64::MAX).unwrap(), 2);
            assert_eq!(store.check().unwrap().commits, second_commits.len() as u64);
        }
    }
}

/// A folder that another disk was mounted over in the middle of a move of one chunk after the other.
#[test]
fn a_handle_that_goes_on_moving_sees_that_the_folder_is_a_copys() {
    let index = Index::Minimal;
    let (first, commits) = made(index, 9);
    let second = first.crash(Crash::Process);
    let (own, mut first_commits) = went_on(&first, 2, index, &commits, 20);
    let (others, _) = went_on(&second, 3, index, &commits, 30);
    let mut store = open(&first, options(index, Some(&own))).unwrap();
    first_commits.push(commit(&mut store, first_commits.last(), 40).unwrap());
    assert_eq!(store.archive(&first_commits[8], 1).unwrap(), 1);
    let (name, right) = ("0000-000007.pack", own.bytes("0000-000007.pack").unwrap());
    let sixth = others.bytes("0000-000006.pack").unwrap();
    for wrong in [sixth, right[..right.len() - 1].to_vec(), vec![0; right.len()]] {
        own.damage(name, wrong).unwrap();
        let error = store.archive(&first_commits[9], 1).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(matches!(error.kind(), Kind::Invalid | Kind::Corrupt), "{error}");
    }
    own.damage(name, right).unwrap();
    assert_eq!(store.archive(&first_commits[9], 1).unwrap(), 1);
    assert_eq!(store.check().unwrap().commits, first_commits.len() as u64);
}

/// Two copies of a store that count on one folder: whichever brings chunks back, or moves more, the other has all of its own.
#[test]
fn what_two_copies_have_in_one_folder_stays_for_both() {
    for index in [Index::Minimal, Index::Always] {
        // Both go on, with what the store that was copied says of the folder.
        let ([first, second], lower, commits) = twins(index, 4);
        let goes_on = |upper: &Arc<SimDisk>, block| goes_on(upper, &lower, index, &commits, block);
        let (mut store, first_commits) = goes_on(&first, 20);
        assert_eq!(store.archive(&first_commits[8], u64::MAX).unwrap(), 4);
        store.close().unwrap();
        let files = files_of(&lower);
        // What it has otherwise does not go over the chunk of the first, which is told to nobody as one to remove.
        let (mut store, second_commits) = goes_on(&second, 30);
        let error = store.archive(&second_commits[8], u64::MAX).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        for advice in ["remove", "put the right file"] {
            assert!(!error.to_string().contains(advice), "{error}");
        }
        holds_files(&lower, &files);
        // Its own come back, and stay for the first, whether one call takes them or several.
        assert_eq!(store.unarchive(1).unwrap(), 1);
        assert_eq!(store.unarchive(u64::MAX).unwrap(), 3);
        holds_files(&lower, &files);
        let warnings = store.warnings();
        assert!(warnings.iter().any(|it| it.contains("another copy")), "{warnings:?}");
        assert_eq!(store.check().unwrap().commits, second_commits.len() as u64);
        store.close().unwrap();
        let mut store = open(&first, options(index, Some(&lower))).unwrap();
        assert_eq!(store.check().unwrap().commits, first_commits.len() as u64);
        // No copy of it is seen any more, so what comes back goes.
        assert!(store.unarchive(u64::MAX).unwrap() > 0);
        assert_eq!(packs(&lower), Vec::<String>::new());
        assert_eq!(store.check().unwrap().commits, first_commits.len() as u64);
    }
}

/// Between two calls that bring chunks back another copy may have moved more: all that it counts on stays.
#[test]
fn a_copy_that_moves_chunks_between_two_calls_loses_none() {
    for index in [Index::Minimal, Index::Always] {
        let ([first, second], lower, commits) = twins(index, 4);
        let (mut coming_back, second_commits) = goes_on(&second, &lower, index, &commits, 30);
        assert_eq!(coming_back.archive(&second_commits[7], u64::MAX).unwrap(), 3);
        assert_eq!(coming_back.unarchive(1).unwrap(), 1);
        let (mut store, first_commits) = goes_on(&first, &lower, index, &commits, 20);
        assert_eq!(store.archive(&first_commits[8], u64::MAX).unwrap(), 4);
        store.close().unwrap();
        let files = files_of(&lower);
        assert_eq!(files.len(), 8);
        while coming_back.unarchive(1).unwrap() > 0 {}
        holds_files(&lower, &files);
        assert_eq!(coming_back.check().unwrap().commits, second_commits.len() as u64);
        let told = coming_back.warnings();
        assert_eq!(told.iter().filter(|it| it.contains("comes back stays")).count(), 1, "{told:?}");
        let store = open(&first, options(index, Some(&lower))).unwrap();
        assert_eq!(store.check().unwrap().commits, first_commits.len() as u64);
    }
}

/// One that is further on has chunks there that the other has not begun yet.
#[test]
fn chunks_of_a_copy_that_is_further_on_are_seen() {
    let index = Index::Minimal;
    let ([first, second], lower, commits) = twins(index, 3);
    let mut store = open(&first, options(index, Some(&lower))).unwrap();
    let mut further = commits.clone();
    for block in 20..28 {
        further.push(commit(&mut store, further.last(), block).unwrap());
    }
    assert!(store.archive(&further[12], u64::MAX).unwrap() > 6);
    // Of what both have only that which is the same.
    let mut names = packs(&lower);
    for name in names.drain(3..8) {
        lower.remove(&name).unwrap();
    }
    let names = packs(&lower);
    let mut store = open(&second, options(index, Some(&lower))).unwrap();
    assert_eq!(store.unarchive(u64::MAX).unwrap(), 3);
    assert_eq!(packs(&lower), names);
}

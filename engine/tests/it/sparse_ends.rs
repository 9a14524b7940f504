//! A chunk that a collection rewrote, with a bit wrong where an opening reads it: the header, the table, the footer. The store
//! opens all the same, reads the others and writes; who reads what is in the chunk is told which file is damaged.

use std::sync::Arc;

use varvite::context::{CommitHash, CommitInfo, Index, Keep, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::SimDisk;
use varvite::{Error, Kind, Result};

use crate::archive_above::{blocks, next, read_all, sized, value};
use crate::context_archive::{open, packs};
use crate::context_repair::{flipped, with};

const INDEXES: [Index; 2] = [Index::Minimal, Index::Always];

fn reader(disk: &Arc<SimDisk>, index: Index) -> Result<Store> {
    Store::open_read_only(Arc::clone(disk) as Arc<dyn Disk>, sized(index, None))
}

fn finish(store: &mut Store) -> Result<()> {
    while store.collect_step(100)? {}
    Ok(())
}

fn sparse(disk: &SimDisk) -> Vec<String> {
    packs(disk).into_iter().filter(|name| name.matches('-').count() == 2).collect()
}

/// Bytes of a sparse file that an opening reads: the header, and from the table on all.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let word = |at: usize| {
        let at = bytes.len() - 28 + at;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    };
    let table = word(8) + word(16) * 4096;
    (0..32).step_by(9).chain((table..bytes.len()).step_by(3)).collect()
}

/// `error` says that this file is damaged.
fn expect_damage(error: &Error, part: &str, what: &dyn std::fmt::Debug) {
    assert_eq!(error.kind(), Kind::Corrupt, "{what:?}: {error}");
    assert!(error.file().is_some_and(|it| it.ends_with(part)), "{what:?}: {error}");
}

/// What `outcome` has, if it is not that this file is damaged.
fn unless_damaged<T>(outcome: Result<T>, part: &str, what: &dyn std::fmt::Debug) -> Option<T> {
    outcome.inspect_err(|error| expect_damage(error, part, what)).ok()
}

/// A store that has collected up to commit 100, closed.
fn collected(index: Index) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let (disk, commits) = blocks(index);
    let mut store = open(&disk, sized(index, None)).unwrap();
    store.collect(&commits[100]).unwrap();
    finish(&mut store).unwrap();
    store.close().unwrap();
    (disk, commits)
}

/// The commits that are kept, with their blocks.
fn kept(commits: &[CommitHash]) -> Vec<(u16, CommitHash)> {
    let blocks = [21, 33].into_iter().chain(100..120);
    blocks.map(|block| (block, commits[usize::from(block)])).collect()
}

/// A commit of values that old commits have, in a tree of its own.
fn alone(store: &mut Store) -> Result<CommitHash> {
    let mut tree = store.empty_tree();
    for block in 0..40 {
        tree.add(&["state", "0", &format!("{block:03}")], &value(block))?;
    }
    store.commit(&mut tree, &CommitInfo::new(&[], 700, "a", "b"))
}

/// All commits of `image` are whole, once this file is as it was.
fn expect_whole_with(image: &Arc<SimDisk>, sound: &SimDisk, part: &str, index: Index) -> Store {
    let image = with(image, part, Some(sound.bytes(part).unwrap()));
    let store = open(&image, sized(index, None)).unwrap();
    assert_eq!(store.check().unwrap().index_faults, Vec::<String>::new(), "{index:?}, {part}");
    store
}

/// A writer goes on in `image`, where `part` is damaged; whether it could collect.
fn goes_on(
    image: &Arc<SimDisk>,
    index: Index,
    last: &CommitHash,
    part: &str,
    what: &dyn std::fmt::Debug,
) -> bool {
    let mut store = open(image, sized(index, None)).unwrap_or_else(|it| panic!("{what:?}: {it}"));
    let fresh = alone(&mut store).unwrap_or_else(|it| panic!("{what:?}: {it}"));
    unless_damaged(next(&mut store, Some(last), 200), part, what);
    let outcome = store.collect(&fresh).and_then(|()| finish(&mut store));
    let listed = store.checkout(&fresh).unwrap().list(&["state", "0"], 0, 99).unwrap();
    assert_eq!(listed.len(), 40, "{what:?}");
    unless_damaged(outcome, part, what).is_some()
}

#[test]
fn a_bit_that_is_wrong_at_an_end_keeps_nobody_from_reading_the_others_and_from_writing() {
    for index in INDEXES {
        let (disk, commits) = collected(index);
        let parts = sparse(&disk);
        assert!(parts.len() > 3, "{parts:?}");
        let (mut told, mut read, mut collections) = (0, 0, 0);
        for part in &parts {
            for (count, place) in ends(&disk.bytes(part).unwrap()).into_iter().enumerate() {
                let what = (index, part, place);
                let image = flipped(&disk, part, place);
                let store = reader(&image, index).unwrap_or_else(|it| panic!("{what:?}: {it}"));
                for (block, commit) in kept(&commits) {
                    match unless_damaged(read_all(&store, &commit, block), part, &what) {
                        Some(_) => read += 1,
                        None => told += 1,
                    }
                }
                expect_damage(&store.check().unwrap_err(), part, &what);
                let mut found = Vec::new();
                let mut each = |error| {
                    found.push(error);
                    Ok(())
                };
                store.check_chunks(&mut each).unwrap();
                assert!(!found.is_empty(), "{what:?}");
                for error in &found {
                    expect_damage(error, part, &what);
                }
                assert_eq!(store.warnings(), Vec::<String>::new(), "{what:?}");
                drop(store);
                if count % 3 != 0 {
                    continue;
                }
                let has_collected = goes_on(&image, index, commits.last().unwrap(), part, &what);
                collections += u32::from(has_collected);
                // What it cannot read, and has to keep, it neither drops nor writes anew.
                assert_eq!(image.exists(part).unwrap(), !has_collected, "{what:?}");
                if has_collected {
                    open(&image, sized(index, None)).unwrap().check().unwrap();
                    continue;
                }
                let store = expect_whole_with(&image, &disk, part, index);
                for (block, commit) in kept(&commits) {
                    read_all(&store, &commit, block).unwrap();
                }
            }
        }
        assert!(told > 0 && read > 0, "{index:?}: {told} told, {read} read");
        println!("{index:?}: {told} told, {read} read, {collections} collected");
    }
}

/// A commit of one value, which the next replaces.
fn passing(store: &mut Store, on: Option<&CommitHash>, block: u16) -> Result<CommitHash> {
    let mut tree = on.map_or_else(|| Ok(store.empty_tree()), |on| store.checkout(on))?;
    tree.add(&["block"], &value(block))?;
    let parents: Vec<_> = on.into_iter().copied().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, i64::from(block), "a", "b"))
}

/// A branch of old commits, and one whose newest alone are kept: the chunk of the first is damaged.
#[test]
fn a_damaged_chunk_of_one_branch_is_in_the_way_of_no_other() {
    for index in INDEXES {
        let disk = SimDisk::new(9);
        let large = Options { chunk_bytes: 1 << 20, ..sized(index, None) };
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let mut store = Store::create(shared, large.clone()).unwrap();
        let (mut side, mut main) = (None, None);
        for block in 0..30 {
            side = Some(next(&mut store, side.as_ref(), block).unwrap());
        }
        store.set_branch(b"side", &side.unwrap()).unwrap();
        for blocks in [50..52, 52..55] {
            for block in blocks {
                main = Some(passing(&mut store, main.as_ref(), block).unwrap());
            }
            assert!(store.collect_keeping(&Keep::Newest(1)).unwrap());
            finish(&mut store).unwrap();
        }
        store.set_branch(b"main", &main.unwrap()).unwrap();
        main = Some(passing(&mut store, main.as_ref(), 55).unwrap());
        store.set_branch(b"main", &main.unwrap()).unwrap();
        store.close().unwrap();
        let part = sparse(&disk).remove(0);
        let image = flipped(&disk, &part, disk.bytes(&part).unwrap().len() - 10);
        let mut store = open(&image, large.clone()).unwrap();
        let damage = store.checkout(&side.unwrap()).and_then(|tree| tree.find(&["block"]));
        expect_damage(&damage.unwrap_err(), &part, &index);
        assert_eq!(store.warnings(), Vec::<String>::new(), "the index leads to where it was");
        let tree = store.checkout(&main.unwrap()).unwrap();
        assert_eq!(tree.find(&["block"]).unwrap(), Some(value(55)));
        let top = passing(&mut store, main.as_ref(), 56).unwrap();
        store.set_branch(b"main", &top).unwrap();
        let outcome = store.collect(&top).and_then(|()| finish(&mut store));
        expect_damage(&outcome.unwrap_err(), &part, &index);
        store.collect_cancel().unwrap();
        store.close().unwrap();
        expect_whole_with(&image, &disk, &part, index);
        // Once nothing needs it, it goes.
        let mut store = open(&image, large).unwrap();
        store.remove_branch(b"side").unwrap();
        store.collect(&top).unwrap();
        finish(&mut store).unwrap();
        assert!(!image.exists(&part).unwrap());
        store.check().unwrap();
    }
}

/// Where history begins, or even ends, is in the chunk that is damaged.
#[test]
fn a_store_whose_newest_commits_are_in_the_damaged_chunk_opens_and_takes_others() {
    for (index, keep) in INDEXES.into_iter().flat_map(|index| [(index, 1), (index, 3)]) {
        let disk = SimDisk::new(9);
        let large = Options { chunk_bytes: 1 << 20, ..sized(index, None) };
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let mut store = Store::create(shared, large.clone()).unwrap();
        let mut last = None;
        for block in 0..30 {
            last = Some(next(&mut store, last.as_ref(), block).unwrap());
        }
        store.set_branch(b"main", &last.unwrap()).unwrap();
        assert!(store.collect_keeping(&Keep::Newest(keep)).unwrap());
        finish(&mut store).unwrap();
        let listed = store.log(99).unwrap();
        assert_eq!(listed.len() as u64, keep);
        store.close().unwrap();
        let [part] = &sparse(&disk)[..] else { panic!("{:?}", packs(&disk)) };
        for before in [1, 10, 28, 30] {
            let image = flipped(&disk, part, disk.bytes(part).unwrap().len() - before);
            let what = (index, keep, before);
            let reader = Store::open_read_only(Arc::clone(&image) as Arc<dyn Disk>, large.clone());
            expect_damage(&reader.unwrap().last_commit().unwrap_err(), part, &what);
            let mut store =
                open(&image, large.clone()).unwrap_or_else(|it| panic!("{what:?}: {it}"));
            let fresh = alone(&mut store).unwrap();
            let more = next(&mut store, Some(&fresh), 60).unwrap();
            store.close().unwrap();
            let store = open(&image, large.clone()).unwrap();
            assert_eq!(store.log(2).unwrap(), [more, fresh], "{what:?}");
            drop(store);
            let store = expect_whole_with(&image, &disk, part, index);
            let all: Vec<_> = [more, fresh].into_iter().chain(listed.clone()).collect();
            assert_eq!(store.log(99).unwrap(), all, "{what:?}");
            let sequences: Vec<_> =
                all.iter().map(|it| store.commit_info(it).unwrap().sequence).collect();
            assert!(sequences[0] > sequences[1], "{what:?}: {sequences:?}");
            assert!(keep > 1 || sequences[1] == sequences[2] + 1, "{what:?}: {sequences:?}");
        }
    }
}

/// One that is whole is another copy's, which the control file tells.
#[test]
fn a_whole_file_that_is_another_than_the_control_file_says_keeps_a_store_from_opening() {
    let (disk, commits) = collected(Index::Minimal);
    let (other, others_commits) = blocks(Index::Minimal);
    assert_eq!(commits, others_commits);
    let mut store = open(&other, sized(Index::Minimal, None)).unwrap();
    assert!(store.unpin(&commits[33]).unwrap());
    store.collect(&commits[100]).unwrap();
    finish(&mut store).unwrap();
    store.close().unwrap();
    let differs = |part: &&String| {
        let theirs = other.bytes(part);
        theirs.is_ok_and(|theirs| theirs != disk.bytes(part).unwrap())
    };
    let parts = sparse(&disk);
    let part = parts.iter().find(differs).expect("what was pinned is in one of them");
    let image = with(&disk, part, Some(other.bytes(part).unwrap()));
    let error = open(&image, sized(Index::Minimal, None)).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.to_string().contains(&**part), "{error}");
}

/// The two numbers of what is told of a damage.
fn numbers(error: &Error) -> Option<(String, String)> {
    let what = error.what();
    let (before, found) = what.split_once(", found ")?;
    let (_, expected) = before.split_once("checksum ")?;
    Some((expected.split(' ').next()?.to_owned(), found.to_owned()))
}

#[test]
fn the_checksum_that_is_told_as_found_is_another_than_the_expected_one() {
    let (disk, commits) = collected(Index::Minimal);
    let part = &sparse(&disk)[0];
    let bytes = disk.bytes(part).unwrap();
    let start = u64::from_le_bytes(bytes[bytes.len() - 20..bytes.len() - 12].try_into().unwrap());
    let mut told = 0;
    for place in (start as usize..bytes.len()).filter(|it| bytes[*it] != 0 || it % 97 == 0) {
        let image = flipped(&disk, part, place);
        let store = reader(&image, Index::Minimal).unwrap();
        let error = store.check().unwrap_err();
        expect_damage(&error, part, &place);
        if let Some((expected, found)) = numbers(&error) {
            assert_ne!(expected, found, "{place}: {error}");
            told += 1;
        }
        assert!(store.exists(&commits[110]).is_ok());
    }
    assert!(told > 60, "{told}");
}

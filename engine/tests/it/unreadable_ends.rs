//! What a disk does not read any more, and nobody needs: the end of a chunk that a collection rewrote, or that is above of one
//! below, and the header of a file that is left over.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use varvite::Result;
use varvite::context::{CommitHash, Index, Options, Store};
use varvite::disk::sim::{Crash, SimDisk};
use varvite::disk::{Access, Disk, Mode};

use crate::archive_above::{blocks, parts_above, read_all, sized};
use crate::context_archive::{made, options, packs};
use crate::hooked_disk::HookedDisk;

const PAGE: u64 = 4096;

/// A disk that cannot read these bytes of a file.
fn unreadable(disk: &Arc<SimDisk>, name: &str, bytes: Range<u64>) -> Arc<dyn Disk> {
    let name = name.to_owned();
    HookedDisk::failing_reads(Arc::clone(disk) as Arc<dyn Disk>, move |path, offset, count| {
        path == name && offset < bytes.end && offset + count as u64 > bytes.start
    })
}

/// Where the mapping of a sparse file begins and ends.
fn mapping(bytes: &[u8]) -> Range<u64> {
    let word = |at: usize| {
        let at = bytes.len() - 28 + at;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    word(8)..word(8) + word(16) * PAGE
}

/// A store, with its commits and the files that have a part of a chunk.
type WithParts = (Arc<SimDisk>, Options, Vec<CommitHash>, Vec<String>);

/// A store that has collected, and one with chunks below: each with the files that have a part of a chunk.
fn with_parts(index: Index) -> Vec<WithParts> {
    let (collected, commits) = blocks(index);
    let mut store =
        Store::open(Arc::clone(&collected) as Arc<dyn Disk>, sized(index, None)).unwrap();
    store.collect(&commits[100]).unwrap();
    while store.collect_step(100).unwrap() {}
    store.close().unwrap();
    let sparse = packs(&collected).into_iter().filter(|name| name.matches('-').count() == 2);
    let sparse: Vec<_> = sparse.collect();
    let (archived, archived_commits) = blocks(index);
    let lower = SimDisk::new(2);
    let with_lower = sized(index, Some(&lower));
    let disk = Arc::clone(&archived) as Arc<dyn Disk>;
    let mut store = Store::open(disk, with_lower.clone()).unwrap();
    store.archive(&archived_commits[100], u64::MAX).unwrap();
    store.close().unwrap();
    let above = parts_above(&archived).into_iter().map(|(name, _)| name).collect();
    vec![
        (collected, sized(index, None), commits, sparse),
        (archived, with_lower, archived_commits, above),
    ]
}

#[test]
fn an_end_that_cannot_be_read_keeps_nobody_from_reading_the_others() {
    for index in [Index::Minimal, Index::Always] {
        for (disk, options, commits, parts) in with_parts(index) {
            assert!(parts.len() > 3, "{parts:?}");
            // In the last one is the commit where history begins, which an opening reads.
            for part in &parts[..parts.len() - 1] {
                let bytes = disk.bytes(part).unwrap();
                let mapping = mapping(&bytes);
                let begins = mapping.start.saturating_sub(PAGE + 82).max(32);
                // The last page of the mapping, and the end of the chunk, the last record.
                for bad in [mapping.end - PAGE..mapping.end - PAGE + 512, begins..mapping.start] {
                    let what = (index, part, &bad);
                    let image = disk.crash(Crash::Process);
                    let image = unreadable(&image, part, bad.clone());
                    let open = || Store::open(Arc::clone(&image), options.clone());
                    let store = open().unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    assert_eq!(store.last_commit().unwrap(), commits.last().copied(), "{what:?}");
                    drop(store);
                    let shared = Arc::clone(&image);
                    let reader = Store::open_read_only(shared, options.clone());
                    let mut reader = reader.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    reader.reload().unwrap_or_else(|error| panic!("{what:?}: {error}"));
                }
            }
        }
    }
}

/// Where the table of a sparse file begins, behind its mapping.
fn table(bytes: &[u8]) -> u64 {
    mapping(bytes).end
}

#[test]
fn a_header_or_table_that_cannot_be_read_keeps_nobody_from_reading_the_others_and_from_writing() {
    for index in [Index::Minimal, Index::Always] {
        for (disk, options, commits, parts) in with_parts(index) {
            let (mut told, mut read) = (0, 0);
            for part in &parts {
                let bytes = disk.bytes(part).unwrap();
                let length = bytes.len() as u64;
                for bad in [0..32, table(&bytes)..length - 28, length - 28..length] {
                    let what = (index, part, &bad);
                    let image = unreadable(&disk.crash(Crash::Process), part, bad.clone());
                    let shared = Arc::clone(&image);
                    let reader = Store::open_read_only(shared, options.clone());
                    let reader = reader.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    assert_eq!(reader.last_commit().unwrap(), commits.last().copied(), "{what:?}");
                    for (block, commit) in (100..).zip(&commits[100..]) {
                        match crate::archive_above::read_all(&reader, commit, block) {
                            Ok(_) => read += 1,
                            Err(error) => {
                                assert_eq!(error.kind(), varvite::Kind::Io, "{what:?}: {error}");
                                told += 1;
                            }
                        }
                    }
                    drop(reader);
                    let store = Store::open(Arc::clone(&image), options.clone());
                    let mut store = store.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    let mut tree = store.empty_tree();
                    tree.add(&["alone"], b"a value that no other commit has").unwrap();
                    let info = varvite::context::CommitInfo::new(&[], 700, "a", "b");
                    store.commit(&mut tree, &info).unwrap();
                    store.close().unwrap();
                }
            }
            assert!(read > 0 && (told > 0 || options.lower.is_some()), "{told} told, {read} read");
        }
    }
}

/// What is asked of a copy's end costs an opening no read: with the footer and the table it is read at once.
#[test]
fn a_chunk_of_which_a_part_is_left_is_opened_with_three_reads() {
    for (disk, options, commits, parts) in with_parts(Index::Minimal) {
        let reads = Arc::new(Mutex::new(BTreeMap::<String, u64>::new()));
        let seen = Arc::clone(&reads);
        let disk = HookedDisk::counting_reads(disk, move |path, _| {
            *seen.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        });
        let store = Store::open(disk, options).unwrap();
        let opened = reads.lock().unwrap().clone();
        let is_collected = store.archived_bytes() == 0;
        // In the last one is the commit where history begins, which an opening reads.
        for part in &parts[..parts.len() - 1] {
            let count = opened.get(part).copied().unwrap_or(0);
            assert_eq!(count, if is_collected { 3 } else { 0 }, "{part}: {opened:?}");
        }
        read_all(&store, commits.last().unwrap(), 119).unwrap();
    }
}

#[test]
fn what_is_left_over_and_cannot_be_read_keeps_no_store_from_opening() {
    let (disk, commits) = made(Index::Minimal, 9);
    let left = "0000-000000-4.pack";
    let file =
        disk.open(left, varvite::disk::Mode::Create, varvite::disk::Access::Buffered).unwrap();
    file.write_at(0, &[1; 100]).unwrap();
    let hooked = unreadable(&disk, left, 0..32);
    let store = Store::open(hooked, options(Index::Minimal, None)).unwrap();
    let told = store.warnings();
    assert!(told.iter().any(|it| it.contains(left)), "{told:?}");
    assert_eq!(store.last_commit().unwrap(), commits.last().copied());
    assert!(disk.exists(left).unwrap());
}

/// A whole chunk beside what a collection left of it, as one that was killed leaves it: nothing but its end says whose it is.
#[test]
fn a_chunk_that_nobody_needs_and_whose_end_cannot_be_read_keeps_no_store_from_opening() {
    let (disk, commits) = blocks(Index::Minimal);
    let before: Vec<_> =
        packs(&disk).into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect();
    let mut store =
        Store::open(Arc::clone(&disk) as Arc<dyn Disk>, sized(Index::Minimal, None)).unwrap();
    store.collect(&commits[100]).unwrap();
    while store.collect_step(100).unwrap() {}
    store.close().unwrap();
    let mut stayed = 0;
    for (name, bytes) in before {
        if disk.exists(&name).unwrap() {
            continue;
        }
        let image = disk.crash(Crash::Process);
        let file = image.open(&name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &bytes).unwrap();
        let length = bytes.len() as u64;
        let hooked = unreadable(&image, &name, length - 128..length);
        let store = Store::open(hooked, sized(Index::Minimal, None)).unwrap();
        assert_eq!(store.last_commit().unwrap(), commits.last().copied(), "{name}");
        if image.exists(&name).unwrap() {
            stayed += 1;
            let told = store.warnings();
            assert!(told.iter().any(|it| it.contains(&*name)), "{name}: {told:?}");
        }
        drop(store);
        // Once it can be read it goes.
        drop(
            Store::open(Arc::clone(&image) as Arc<dyn Disk>, sized(Index::Minimal, None)).unwrap(),
        );
        assert!(!image.exists(&name).unwrap(), "{name}");
    }
    assert!(stayed > 0);
}

#[test]
fn what_cannot_be_read_stays_where_a_store_is_taken_back() {
    let disk = SimDisk::new(9);
    let left = "0000-000007.pack";
    let hooked = unreadable(&disk, left, 0..32);
    let store = Store::create(hooked, options(Index::Minimal, None)).unwrap();
    let file =
        disk.open(left, varvite::disk::Mode::Create, varvite::disk::Access::Buffered).unwrap();
    file.write_at(0, &[1; 100]).unwrap();
    let outcome: Result<()> = store.discard();
    outcome.unwrap();
    assert_eq!(disk.list("").unwrap(), [left]);
}

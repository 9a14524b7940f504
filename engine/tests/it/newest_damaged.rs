//! The newest commit of a store is damaged: it opens to read, as it was before that, and to write not before it was repaired.

use std::sync::Arc;

use varvite::context::{CommitHash, Index, Options, Store};
use varvite::disk::sim::SimDisk;
use varvite::disk::{Access, Disk, Mode};
use varvite::{Kind, Result};

use crate::archive_above::{next, read_all, sized};
use crate::context_archive::{open, options, packs};
use crate::context_attach::copies;
use crate::context_repair::{flipped, repair};
use crate::hooked_disk::{Call, HookedDisk};

const INDEXES: [Index; 2] = [Index::Minimal, Index::Always];
const BLOCKS: u16 = 40;

fn reader(disk: &Arc<SimDisk>, options: &Options) -> Result<Store> {
    Store::open_read_only(Arc::clone(disk) as Arc<dyn Disk>, options.clone())
}

/// A store of some commits; whether it was closed, and whether a branch was set behind the last commit.
fn made(options: &Options, is_closed: bool, is_named: bool) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let disk = SimDisk::new(9);
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
    let mut commits: Vec<CommitHash> = Vec::new();
    for block in 0..BLOCKS {
        commits.push(next(&mut store, commits.last(), block).unwrap());
    }
    if is_named {
        store.set_branch(b"main", commits.last().unwrap()).unwrap();
    }
    if is_closed {
        store.close().unwrap();
    } else {
        std::mem::forget(store);
    }
    (disk.crash(varvite::disk::sim::Crash::Process), commits)
}

/// The file with the record of `commit`, and where its hash is in it: what names it is behind it.
fn place_of(disk: &SimDisk, commit: &CommitHash) -> (String, usize) {
    let found = packs(disk).into_iter().find_map(|name| {
        let bytes = disk.bytes(&name).unwrap();
        let place = bytes.windows(32).position(|window| window == &commit[..])?;
        Some((name, place))
    });
    found.expect("it is in one of them")
}

/// Where the batch begins that ends with the record at `place`: heads say how long theirs is.
fn batch_before(bytes: &[u8], place: usize) -> usize {
    let length =
        |at: usize| u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    let (mut at, mut before) = (32, 32);
    while at < place {
        before = at;
        at += 28 + length(at);
    }
    before
}

/// What a store does not know that is read as it was before a damage may be behind that: nobody says that it is not there.
fn expect_unknown(store: &Store, commit: &CommitHash) {
    let errors = [
        store.exists(commit).unwrap_err(),
        store.checkout(commit).unwrap_err(),
        store.commit_info(commit).unwrap_err(),
        store.log_before(commit, 9).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("at byte"), "{error}");
        assert!(error.to_string().contains("varvite repair"), "{error}");
    }
}

/// Changes a bit of the file that is there.
fn flip(disk: &SimDisk, name: &str, place: usize) {
    let file = disk.open(name, Mode::Write, Access::Buffered).unwrap();
    file.write_at(place as u64, &[disk.bytes(name).unwrap()[place] ^ 1]).unwrap();
}

#[test]
fn a_store_whose_newest_commit_is_damaged_opens_to_read_as_it_was_before() {
    let mut opened = 0;
    for (index, large) in INDEXES.into_iter().flat_map(|index| [(index, false), (index, true)]) {
        let chunk_bytes = if large { 1 << 20 } else { 4_000 };
        let options = Options { chunk_bytes, ..sized(index, None) };
        for (is_closed, is_named) in [(true, true), (true, false), (false, true)] {
            let (disk, commits) = made(&options, is_closed, is_named);
            let newest = commits.last().unwrap();
            let (name, place) = place_of(&disk, newest);
            let bytes = disk.bytes(&name).unwrap();
            let head = batch_before(&bytes, place);
            let record = place - 2..place + 60;
            for at in (head..head + 28).step_by(5).chain(record.step_by(7)) {
                let what = (index, large, is_closed, is_named, at - head);
                let image = flipped(&disk, &name, at);
                let before = image.list("").unwrap();
                let store = reader(&image, &options).unwrap_or_else(|it| panic!("{what:?}: {it}"));
                // The head of its batch is no part of a commit that a checkpoint has passed.
                let last = if is_closed && at < head + 28 { 39 } else { 38 };
                assert_eq!(store.last_commit().unwrap(), Some(commits[last]), "{what:?}");
                let mut all: Vec<_> = store.log(99).unwrap();
                all.reverse();
                assert_eq!(all, commits[..=last], "{what:?}");
                for (block, commit) in (0..).zip(&commits[..=last]).step_by(6) {
                    read_all(&store, commit, block).unwrap();
                }
                if is_closed && is_named && last == 39 {
                    // Where the branch was set the store has ended.
                    open(&image, options.clone()).unwrap();
                    continue;
                }
                let told = store.warnings();
                let is_it = |it: &String| it.contains(&*name) && it.contains("varvite repair");
                assert!(told.iter().any(is_it), "{what:?}: {told:?}");
                if last == 38 {
                    expect_unknown(&store, newest);
                }
                expect_unknown(&store, &CommitHash::new([7; 32]));
                for part in [1, 20, 99] {
                    let error = store.check_part(None, part).unwrap_err();
                    assert_eq!(error.kind(), Kind::Corrupt, "{what:?}: {error}");
                }
                assert_eq!(store.check().unwrap_err().kind(), Kind::Corrupt, "{what:?}");
                let mut store = store;
                store.reload().unwrap_or_else(|it| panic!("{what:?}: {it}"));
                assert_eq!(store.last_commit().unwrap(), Some(commits[last]), "{what:?}");
                drop(store);
                let error = open(&image, options.clone()).unwrap_err();
                assert_eq!(error.kind(), Kind::Corrupt, "{what:?}: {error}");
                assert!(error.file().is_some_and(|it| it.ends_with(&*name)), "{what:?}: {error}");
                assert!(error.to_string().contains("varvite repair"), "{what:?}: {error}");
                assert!(error.to_string().contains("at byte"), "{what:?}: {error}");
                assert_eq!(image.list("").unwrap(), before, "{what:?}");
                opened += 1;
            }
            let image = flipped(&disk, &name, place + 40);
            let (found, _) = repair(&image, None).unwrap();
            assert_eq!((found.commits, found.last_commit), (39, Some(commits[38])));
        }
    }
    assert!(opened > 100, "{opened}");
}

/// A collection left nothing but that commit, or a few.
#[test]
fn the_newest_commit_of_what_a_collection_left_may_be_damaged() {
    for index in INDEXES {
        let options = Options { chunk_bytes: 1 << 20, ..sized(index, None) };
        for keep in [1, 3] {
            let (disk, commits) = made(&options, true, true);
            let mut store = open(&disk, options.clone()).unwrap();
            store.collect(&commits[BLOCKS as usize - keep]).unwrap();
            while store.collect_step(100).unwrap() {}
            store.close().unwrap();
            let (name, place) = place_of(&disk, commits.last().unwrap());
            let image = flipped(&disk, &name, place + 40);
            match reader(&image, &options) {
                Ok(store) => {
                    assert_eq!(store.last_commit().unwrap(), Some(commits[38]), "{index:?}");
                    assert_eq!(store.log(99).unwrap().len(), keep - 1);
                    assert!(store.warnings().iter().any(|it| it.contains("varvite repair")));
                }
                // Nothing is left to read.
                Err(error) => assert_eq!((keep, error.kind()), (1, Kind::Corrupt), "{error}"),
            }
            let error = open(&image, options.clone()).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            assert!(error.to_string().contains("varvite repair"), "{error}");
        }
    }
}

/// Where history begins is an old commit, which an opening does not need.
#[test]
fn a_damaged_commit_where_history_begins_keeps_no_store_from_opening() {
    for index in INDEXES {
        let options = sized(index, None);
        let (disk, commits) = made(&options, true, true);
        let mut store = open(&disk, options.clone()).unwrap();
        store.collect(&commits[20]).unwrap();
        while store.collect_step(100).unwrap() {}
        store.close().unwrap();
        let (name, place) = place_of(&disk, &commits[20]);
        let image = flipped(&disk, &name, place + 40);
        let store = reader(&image, &options).unwrap();
        assert_eq!(store.last_commit().unwrap(), commits.last().copied());
        assert_eq!(store.checkout(&commits[20]).unwrap_err().kind(), Kind::Corrupt);
        drop(store);
        let mut store = open(&image, options).unwrap();
        read_all(&store, &commits[39], 39).unwrap();
        next(&mut store, Some(&commits[39]), 40).unwrap();
    }
}

/// The file is put back from a copy.
#[test]
fn a_reader_is_whole_once_the_damage_is_gone() {
    for (index, is_closed) in INDEXES.into_iter().flat_map(|index| [(index, true), (index, false)])
    {
        let options = sized(index, None);
        let (disk, commits) = made(&options, is_closed, true);
        let newest = commits.last().unwrap();
        let (name, place) = place_of(&disk, newest);
        flip(&disk, &name, place + 40);
        let mut store = reader(&disk, &options).unwrap();
        let shown = store.reader().unwrap();
        for _ in 0..3 {
            assert_eq!(store.last_commit().unwrap(), Some(commits[38]), "{index:?}");
            assert_eq!(store.warnings().len(), 1, "{index:?}: {:?}", store.warnings());
            expect_unknown(&store, newest);
            store.reload().unwrap();
        }
        flip(&disk, &name, place + 40);
        store.reload().unwrap();
        assert_eq!(store.last_commit().unwrap(), Some(*newest), "{index:?}");
        assert_eq!(shown.last_commit().unwrap(), Some(*newest), "{index:?}");
        assert_eq!(store.check().unwrap().commits, 40);
        assert!(!store.exists(&CommitHash::new([7; 32])).unwrap());
        assert!(store.exists(newest).unwrap());
        // From here on it is a reader as any other.
        flip(&disk, &name, place + 40);
        assert_eq!(store.check().unwrap_err().kind(), Kind::Corrupt);
    }
}

/// The writer has what is damaged in memory, and takes a checkpoint behind it.
#[test]
fn a_reader_before_a_damage_follows_a_writer_that_goes_on_behind_it() {
    for (index, chunk_bytes) in
        INDEXES.into_iter().flat_map(|index| [(index, 4_000), (index, 1 << 20)])
    {
        let options = Options { chunk_bytes, ..sized(index, None) };
        let disk = SimDisk::new(9);
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        let mut commits: Vec<CommitHash> = Vec::new();
        let mut go_on = |store: &mut Store, count: u16| {
            for _ in 0..count {
                let block = commits.len() as u16;
                commits.push(next(store, commits.last(), block).unwrap());
            }
            commits.clone()
        };
        go_on(&mut store, 5);
        store.checkpoint().unwrap();
        let commits = go_on(&mut store, 4);
        let (name, place) = place_of(&disk, &commits[6]);
        flip(&disk, &name, place + 40);
        let mut seen = reader(&disk, &options).unwrap();
        assert_eq!(seen.last_commit().unwrap(), Some(commits[5]), "{index:?}, {chunk_bytes}");
        // They are there, and acknowledged.
        commits[6..].iter().for_each(|commit| expect_unknown(&seen, commit));
        let commits = go_on(&mut store, 3);
        seen.reload().unwrap();
        assert_eq!(seen.last_commit().unwrap(), Some(commits[5]), "{index:?}, {chunk_bytes}");
        store.checkpoint().unwrap();
        seen.reload().unwrap();
        assert_eq!(
            seen.last_commit().unwrap(),
            commits.last().copied(),
            "{index:?}, {chunk_bytes}"
        );
        assert!(!seen.exists(&CommitHash::new([7; 32])).unwrap());
        let commits = go_on(&mut store, 3);
        seen.reload().unwrap();
        assert_eq!(
            seen.last_commit().unwrap(),
            commits.last().copied(),
            "{index:?}, {chunk_bytes}"
        );
    }
}

/// A writer, or a copy that is put back, takes the damage away while somebody opens the store.
#[test]
fn a_damage_that_is_gone_when_a_store_is_opened_is_none() {
    let options = sized(Index::Minimal, None);
    let (disk, commits) = made(&options, true, true);
    let (name, place) = place_of(&disk, commits.last().unwrap());
    let (mut whole, mut before) = (0, 0);
    for turn in 1..40_usize {
        let image = flipped(&disk, &name, place + 40);
        let (there, path) = (Arc::clone(&image), name.clone());
        let opened = std::sync::atomic::AtomicUsize::new(0);
        let hooked = HookedDisk::new(Arc::clone(&image) as Arc<dyn Disk>, move |call, file| {
            let is_it = call == Call::Open(Mode::Read) && file == "control";
            if is_it && opened.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1 == turn {
                flip(&there, &path, place + 40);
            }
        });
        let store = Store::open_read_only(hooked, options.clone()).unwrap();
        if store.last_commit().unwrap() == commits.last().copied() {
            assert_eq!(store.check().unwrap().commits, 40, "{turn}");
            assert!(!store.exists(&CommitHash::new([7; 32])).unwrap(), "{turn}");
            whole += 1;
        } else {
            assert_eq!(store.last_commit().unwrap(), Some(commits[38]), "{turn}");
            assert_eq!(store.check().unwrap_err().kind(), Kind::Corrupt, "{turn}");
            before += 1;
        }
    }
    assert!(whole > 4 && before > 4, "{whole} whole, {before} as before");
}

/// A lower folder by itself is read so as well, and no store takes its history from there.
#[test]
fn a_lower_folder_whose_newest_commit_is_damaged_says_so_and_is_attached_to_nothing() {
    let (upper, lower, commits) = copies(Index::Minimal);
    let (name, place) = place_of(&lower, &commits[2]);
    let damaged = flipped(&lower, &name, place + 40);
    let mut store = open(&upper, options(Index::Minimal, Some(&damaged))).unwrap();
    assert_eq!(store.attach().unwrap_err().kind(), Kind::Corrupt);
    drop(store);
    let (name, place) = place_of(&lower, &commits[4]);
    let damaged = flipped(&lower, &name, place + 40);
    let below = Arc::clone(&damaged) as Arc<dyn Disk>;
    let mut alone = Store::open_lower_folder(below, options(Index::Minimal, None)).unwrap();
    assert_eq!(alone.last_commit().unwrap(), Some(commits[3]));
    let is_it = |it: &String| it.contains(&*name) && it.contains("varvite repair");
    assert!(alone.warnings().iter().any(is_it), "{:?}", alone.warnings());
    expect_unknown(&alone, &commits[4]);
    flip(&damaged, &name, place + 40);
    alone.reload().unwrap();
    assert_eq!(alone.last_commit().unwrap(), Some(commits[4]));
    assert_eq!(alone.check().unwrap().commits, 5);
}

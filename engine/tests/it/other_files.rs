//! Files of another store, or of another copy of it, under the names of a store's own: none is removed or written over, wherever
//! the store removes or makes a file by its name.

use std::sync::Arc;

use varvite::context::{CommitHash, Index, Options, Store};
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{Kind, Result};

use crate::archive_above::{BLOCKS, blocks_of, next, parts_above, read_all, sized};
use crate::context_archive::{commit, holds, made, open, options, packs};

/// Puts a file there in the place of what has the name: the bytes of an open one stay.
fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    if disk.exists(name).unwrap() {
        disk.remove(name).unwrap();
    }
    let file = disk.open(name, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
}

/// Every one of these files is there as it was, under its name.
fn has_all(disk: &SimDisk, files: &[(String, Vec<u8>)], what: &dyn std::fmt::Debug) {
    for (name, bytes) in files {
        assert!(disk.exists(name).unwrap(), "{what:?}: {name} is gone: {:?}", packs(disk));
        assert!(disk.bytes(name).unwrap() == *bytes, "{what:?}: {name} was written over");
        assert!(!disk.exists(&aside(name)).unwrap(), "{what:?}: {name} is there twice");
    }
}

fn aside(name: &str) -> String {
    format!("{name}.other")
}

/// Each is there as it was, under the name that one of a copy gets, after a power cut too.
fn has_aside(disk: &SimDisk, files: &[(String, Vec<u8>)], what: &dyn std::fmt::Debug) {
    for disk in [disk, &*disk.crash(Crash::Subset(0))] {
        for (name, bytes) in files {
            let aside = aside(name);
            assert!(disk.exists(&aside).unwrap(), "{what:?}: {name} is gone: {:?}", packs(disk));
            assert!(disk.bytes(&aside).unwrap() == *bytes, "{what:?}: {name} was written over");
            assert!(
                !disk.bytes(name).is_ok_and(|it| it == *bytes),
                "{what:?}: {name} has its name still"
            );
        }
    }
}

/// Puts these files there, durably.
fn put_all(disk: &SimDisk, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        put(disk, name, bytes);
    }
    disk.sync_directory("").unwrap();
}

/// Names and bytes.
type Files = Vec<(String, Vec<u8>)>;

/// A store and another one, or with the seed 9 a copy of it that went on by itself: each has four commits of its own, and a
/// chunk 6, of which, where it `is_sparse`, a collection has left a part.
fn parted(index: Index, seed: u64, is_sparse: bool) -> ([Arc<SimDisk>; 2], Vec<CommitHash>, Files) {
    let (upper, mut commits) = made(index, 9);
    let (others, mut others_commits) = made(index, seed);
    for (disk, commits, block) in [(&upper, &mut commits, 20), (&others, &mut others_commits, 30)] {
        let mut store = open(disk, options(index, None)).unwrap();
        for block in block..block + 4 {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
        }
        if is_sparse {
            store.set_branch(b"kept", &commits[6]).unwrap();
            collect(&mut store, &commits[8]).unwrap();
            store.remove_branch(b"kept").unwrap();
        }
        store.close().unwrap();
    }
    let mut names = packs(&upper);
    names.retain(|name| name.contains("-000006") && others.exists(name).unwrap());
    assert_eq!(names.len(), 1, "{index:?}, {seed}, {is_sparse}: {names:?}");
    let theirs = files(&others, names);
    assert!(upper.bytes(&theirs[0].0).unwrap() != theirs[0].1, "they are one");
    ([upper, others], commits, theirs)
}

fn files(disk: &SimDisk, names: impl IntoIterator<Item = String>) -> Vec<(String, Vec<u8>)> {
    names.into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

fn collect(store: &mut Store, to: &CommitHash) -> Result<()> {
    store.collect(to)?;
    while store.collect_step(100)? {}
    Ok(())
}

/// A store of `seed` with chunks below, and parts of them above.
fn archived(seed: u64, to: usize) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>) {
    let (upper, commits) = blocks_of(Index::Minimal, seed);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(Index::Minimal, Some(&lower))).unwrap();
    store.archive(&commits[to], u64::MAX).unwrap();
    store.close().unwrap();
    (upper, lower, commits)
}

/// Goes on with forty blocks, and moves more.
fn tends(
    upper: &Arc<SimDisk>,
    lower: &Arc<SimDisk>,
    commits: &[CommitHash],
    what: &dyn std::fmt::Debug,
) -> Vec<String> {
    let mut store = open(upper, sized(Index::Minimal, Some(lower))).unwrap();
    let mut more = commits.to_vec();
    for block in BLOCKS..BLOCKS + 40 {
        more.push(next(&mut store, more.last(), block).unwrap());
    }
    assert!(store.archive(&commits[110], u64::MAX).unwrap() > 0, "{what:?}");
    assert_eq!(store.check().unwrap().commits, more.len() as u64, "{what:?}");
    for block in [0, 21, 33, 100, 119, 159] {
        read_all(&store, &more[block], block as u16).unwrap();
    }
    let warnings = store.warnings();
    store.close().unwrap();
    warnings
}

/// The files above of two stores, swapped: each writes its own anew, and has the other's still.
#[test]
fn what_is_above_of_another_store_stays_when_the_own_is_written_anew() {
    let (upper, lower, commits) = archived(9, 100);
    let (others, others_lower, others_commits) = archived(8, 100);
    let names = || parts_above(&upper).into_iter().map(|(name, _)| name);
    assert!(names().count() > 3);
    let (own, theirs) = (files(&upper, names()), files(&others, names()));
    for ((name, own), (_, theirs)) in own.iter().zip(&theirs) {
        put(&upper, name, theirs);
        put(&others, name, own);
    }
    let warnings = tends(&upper, &lower, &commits, &"first");
    has_all(&upper, &theirs, &"those of the other");
    assert!(warnings.iter().any(|warning| warning.contains(&theirs[0].0)), "{warnings:?}");
    tends(&others, &others_lower, &others_commits, &"second");
    has_all(&others, &own, &"those of the first");
    // Nor does an opening remove them.
    for (disk, lower, there) in [(&upper, &lower, &theirs), (&others, &others_lower, &own)] {
        let store = open(disk, sized(Index::Minimal, Some(lower))).unwrap();
        let told = store.warnings().into_iter().any(|warning| warning.contains(&there[0].0));
        assert!(told, "{:?}", store.warnings());
        store.close().unwrap();
        has_all(disk, there, &"after an opening");
    }
}

/// One of another store under each name that a file above is to get: it gets another.
#[test]
fn a_file_above_is_not_made_over_that_of_another_store() {
    let (upper, commits) = blocks_of(Index::Minimal, 9);
    let (others, ..) = archived(8, 100);
    let theirs = files(&others, parts_above(&others).into_iter().map(|(name, _)| name));
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(Index::Minimal, Some(&lower))).unwrap();
    for (name, bytes) in &theirs {
        put(&upper, name, bytes);
    }
    assert!(store.archive(&commits[100], u64::MAX).unwrap() > 3);
    store.close().unwrap();
    has_all(&upper, &theirs, &"moved");
    let store = open(&upper, sized(Index::Minimal, None)).unwrap();
    for block in [21, 33, 100, 119] {
        read_all(&store, &commits[block], block as u16).unwrap();
    }
    drop(store);
    has_all(&upper, &theirs, &"opened");
}

/// What a collection takes away unread may be another's by now: a whole chunk, or what an earlier one left of it.
#[test]
fn a_collection_removes_no_file_of_another_store_or_copy() {
    for index in [Index::Minimal, Index::Always] {
        for (is_sparse, seed) in [(false, 8), (false, 9), (true, 8), (true, 9)] {
            let what = (index, is_sparse, seed);
            let ([upper, _], mut commits, theirs) = parted(index, seed, is_sparse);
            let stays = |what: &dyn std::fmt::Debug| match seed {
                9 => has_aside(&upper, &theirs, what),
                _ => has_all(&upper, &theirs, what),
            };
            let mut store = open(&upper, options(index, None)).unwrap();
            for block in 40..44 {
                commits.push(commit(&mut store, commits.last(), block).unwrap());
            }
            // Nothing of the chunk stays.
            for _ in 0..2 {
                let mut tree = store.empty_tree();
                tree.add(&["alone"], b"1").unwrap();
                let info = varvite::context::CommitInfo::new(&[], 99, "a", "b");
                commits.push(store.commit(&mut tree, &info).unwrap());
            }
            // Its own is open.
            store.check().unwrap();
            put_all(&upper, &theirs);
            collect(&mut store, commits.last().unwrap()).unwrap();
            stays(&(what, "collected"));
            let told = store.warnings();
            assert!(told.iter().any(|it| it.contains(&*theirs[0].0)), "{what:?}: {told:?}");
            drop(store);
            drop(open(&upper, options(index, None)).unwrap());
            stays(&(what, "opened again"));
        }
    }
}

/// The same where the store was closed meanwhile, and the opening finds it in the place of what is not needed any more.
#[test]
fn an_opening_sets_aside_what_a_copy_has_in_the_place_of_an_old_chunk() {
    for index in [Index::Minimal, Index::Always] {
        let (_, _, theirs) = parted(index, 9, false);
        // A collection has left a part of the chunk, and what the copy has of it is whole.
        let ([upper, _], commits, _) = parted(index, 9, true);
        put_all(&upper, &theirs);
        drop(open(&upper, options(index, None)).unwrap());
        has_aside(&upper, &theirs, &(index, "collected"));
        let store = open(&upper, options(index, None)).unwrap();
        assert!(store.exists(commits.last().unwrap()).unwrap());
        drop(store);
        // The chunk is below.
        let ([upper, _], commits, _) = parted(index, 9, false);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert_eq!(store.archive(&commits[8], u64::MAX).unwrap(), 8);
        store.close().unwrap();
        put_all(&upper, &theirs);
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        has_aside(&upper, &theirs, &(index, "archived"));
        let told = store.warnings();
        assert!(told.iter().any(|it| it.contains(&aside(&theirs[0].0))), "{told:?}");
        assert_eq!(store.check().unwrap().commits, commits.len() as u64);
    }
}

/// What cannot be renamed keeps its name, and the store opens all the same.
#[test]
fn a_chunk_of_a_copy_that_cannot_be_set_aside_keeps_no_store_from_opening() {
    let index = Index::Minimal;
    let (_, _, theirs) = parted(index, 9, false);
    let ([upper, _], commits, _) = parted(index, 9, true);
    put_all(&upper, &theirs);
    let mut refused = 0;
    for n in 1..6 {
        let image = upper.crash(Crash::Process);
        image.fail_at(n, Fault::Rename);
        let opened = open(&image, options(index, None));
        image.disarm();
        if image.exists(&aside(&theirs[0].0)).unwrap() {
            continue;
        }
        // Another name was refused before.
        let Ok(store) = opened else { continue };
        refused += 1;
        assert!(store.exists(commits.last().unwrap()).unwrap());
        assert!(store.warnings().concat().contains(&theirs[0].0), "{:?}", store.warnings());
        drop(store);
        has_all(&image, &theirs, &n);
        drop(open(&image, options(index, None)).unwrap());
        has_aside(&image, &theirs, &n);
    }
    assert!(refused > 0);
}

/// A chunk of a copy in the place of the next one: what an attempt of the store itself left has no commit.
#[test]
fn no_chunk_is_begun_over_that_of_a_copy() {
    let ([upper, others], mut commits, _) = parted(Index::Minimal, 9, false);
    let mut store = open(&others, options(Index::Minimal, None)).unwrap();
    for block in 50..54 {
        commits.push(commit(&mut store, None, block).unwrap());
    }
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, None)).unwrap();
    let last = packs(&upper).pop().unwrap();
    let number: u64 = last[5..11].parse().unwrap();
    let theirs = files(&others, [format!("0000-{:06}.pack", number + 1)]);
    put_all(&upper, &theirs);
    let refused = (60..63).find_map(|block| commit(&mut store, None, block).err());
    let error = refused.expect("one of them begins a chunk");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains(&theirs[0].0), "{error}");
    has_all(&upper, &theirs, &"begun");
    upper.remove(&theirs[0].0).unwrap();
    commit(&mut store, None, 70).unwrap();
    store.check().unwrap();
}

/// Unfinished files of another store, as a move of its chunks leaves them that was cut off, in the wrong folder.
#[test]
fn no_unfinished_file_of_another_store_is_removed_or_written_over() {
    let (upper, commits) = made(Index::Minimal, 9);
    let (others, _) = made(Index::Minimal, 8);
    let (lower, bytes) = (SimDisk::new(2), others.bytes("0000-000001.pack").unwrap());
    let theirs = ["0000-000000.pack.tmp", "0000-000009.pack.tmp"];
    let theirs = theirs.map(|name| (name.to_owned(), bytes.clone()));
    let own = upper.bytes("0000-000002.pack").unwrap();
    for disk in [&upper, &lower] {
        put_all(disk, &theirs);
        put(disk, "0000-000002.pack.tmp", &own);
    }
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let told = store.warnings();
    for (name, _) in &theirs {
        assert!(told.iter().any(|it| it.contains(&**name)), "{name}: {told:?}");
    }
    let error = store.archive(&commits[4], u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains(&theirs[0].0), "{error}");
    for disk in [&upper, &lower] {
        has_all(disk, &theirs, &"refused");
        assert!(!disk.exists("0000-000002.pack.tmp").unwrap());
    }
    lower.remove(&theirs[0].0).unwrap();
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
    has_all(&lower, &theirs[1..], &"moved");
    upper.remove(&theirs[0].0).unwrap();
    assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
    holds(&store, &commits, &"came back");
}

/// A chunk of a copy that the copy still writes to has no end by which it would be another.
#[test]
fn a_chunk_that_a_copy_has_not_ended_is_set_aside() {
    let ([upper, _], mut commits, _) = parted(Index::Minimal, 9, false);
    let (others, others_commits) = made(Index::Minimal, 9);
    let mut store = open(&others, options(Index::Minimal, None)).unwrap();
    commit(&mut store, others_commits.last(), 30).unwrap();
    drop(store);
    let theirs = files(&others, ["0000-000006.pack".to_owned()]);
    let mut store = open(&upper, options(Index::Minimal, None)).unwrap();
    commits.push(commit(&mut store, commits.last(), 40).unwrap());
    store.check().unwrap();
    put_all(&upper, &theirs);
    collect(&mut store, commits.last().unwrap()).unwrap();
    has_aside(&upper, &theirs, &"collected");
}

/// What a power cut left of a chunk that was only begun, where the file system shows what was in the blocks before.
#[test]
fn a_begun_chunk_of_stale_bytes_is_what_a_crash_left() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = made(index, 9);
        let mut store = open(&upper, options(index, None)).unwrap();
        let control = upper.bytes("control").unwrap();
        commit(&mut store, commits.last(), 6).unwrap();
        drop(store);
        let name = packs(&upper).pop().unwrap();
        let stale = crate::random::Random::new(5).bytes(6_000);
        for length in [10, 32, 100, 512, 6_000] {
            for name in [name.clone(), "0001-000000.pack".to_owned()] {
                let upper = upper.crash(Crash::Process);
                put(&upper, &name, &stale[..length]);
                if name.starts_with("0000") {
                    put(&upper, "control", &control);
                }
                let what = (index, length, &name);
                let mut store = open(&upper, options(index, None)).unwrap();
                assert_eq!(store.warnings(), Vec::<String>::new(), "{what:?}");
                let mut all = store.log(99).unwrap();
                all.reverse();
                assert_eq!(all[..6], commits, "{what:?}");
                holds(&store, &all, &what);
                for block in all.len() as u8..9 {
                    all.push(commit(&mut store, all.last(), block).unwrap());
                }
                holds(&store, &all, &what);
                store.clear().unwrap();
                store.close().unwrap();
            }
        }
    }
}

/// Files of another store under names that this one has not given yet: it goes on without them where it does not need the
/// name, and what it says can be done.
#[test]
fn a_file_of_another_store_under_a_later_name_is_no_damage() {
    let (upper, commits) = made(Index::Minimal, 9);
    let (others, _) = made(Index::Minimal, 8);
    let bytes = others.bytes("0000-000001.pack").unwrap();
    for name in ["0000-000009.pack", "0000-000006.pack", "0001-000000.pack", "0001-000002.pack"] {
        let upper = upper.crash(Crash::Process);
        let theirs = [(name.to_owned(), bytes.clone())];
        put_all(&upper, &theirs);
        let advises = |text: &str| {
            assert!(text.contains(name), "{name}: {text}");
            assert!(text.contains("move it"), "{name}: {text}");
            for wrong in ["is not there", "varvite repair", "put the right file in its place:"] {
                assert!(!text.contains(wrong), "{name}: {text}");
            }
        };
        let disk = Arc::clone(&upper) as Arc<dyn Disk>;
        match Store::open_read_only(disk, options(Index::Minimal, None)) {
            Ok(store) => {
                holds(&store, &commits, &name);
                // Of one of a later epoch who only reads says nothing.
                let told = store.warnings().concat();
                assert_eq!(told.is_empty(), name.starts_with("0001"), "{name}: {told}");
                if !told.is_empty() {
                    advises(&told);
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::Invalid, "{name}: {error}");
                advises(&error.to_string());
            }
        }
        let outcome = open(&upper, options(Index::Minimal, None)).and_then(|mut store| {
            advises(&store.warnings().concat());
            commit(&mut store, commits.last(), 6)
        });
        if let Err(error) = &outcome {
            assert_eq!(error.kind(), Kind::Invalid, "{name}: {error}");
            advises(&error.to_string());
        }
        // Only the next number and the next epoch are needed.
        assert!(outcome.is_ok() || !name.ends_with("9.pack"), "{name}: {outcome:?}");
        has_all(&upper, &theirs, &name);
    }
}

/// Files of another store that nothing of this one names, as where somebody has copied them to the wrong folder.
#[test]
fn an_opening_removes_no_file_of_another_store() {
    let (upper, lower, commits) = archived(9, 100);
    let (others, ..) = archived(8, 100);
    let (part, whole) = parts_above(&others).pop().unwrap();
    let last = packs(&others).pop().unwrap();
    let (part, last) = (others.bytes(&part).unwrap(), others.bytes(&last).unwrap());
    let first = whole.split_once('-').unwrap().0.to_owned();
    let theirs: Vec<_> = [
        ("0000-000001-7.pack".to_owned(), part.clone()),
        (format!("{first}-000002.pack"), last.clone()),
        ("0000-000000-3.pack".to_owned(), last),
    ]
    .into();
    for (name, bytes) in &theirs {
        put(&upper, name, bytes);
    }
    let store = open(&upper, sized(Index::Minimal, Some(&lower))).unwrap();
    let warnings = store.warnings();
    for (name, _) in &theirs {
        assert!(warnings.iter().any(|it| it.contains(&**name)), "{name}: {warnings:?}");
    }
    read_all(&store, &commits[119], 119).unwrap();
    store.close().unwrap();
    has_all(&upper, &theirs, &"opened");
}

/// One bit of its header is not enough to make a file that of another, and a file of zeros is nobody's.
#[test]
fn what_is_the_stores_own_and_damaged_goes_when_it_was_written_anew() {
    let (upper, lower, commits) = archived(9, 100);
    let (name, _) = parts_above(&upper).swap_remove(1);
    let bytes = upper.bytes(&name).unwrap();
    for bit in 0..=8 * 32 {
        if bit % 5 != 0 && bit < 8 * 32 {
            continue;
        }
        let mut damaged = bytes.clone();
        match damaged.get_mut(bit / 8).filter(|_| bit < 8 * 32) {
            Some(byte) => *byte ^= 1 << (bit % 8),
            None => damaged.fill(0),
        }
        let upper = upper.crash(Crash::Process);
        let lower = lower.crash(Crash::Process);
        put(&upper, &name, &damaged);
        tends(&upper, &lower, &commits, &bit);
        assert!(!upper.exists(&name).unwrap(), "{bit}: {name} stays");
    }
}

/// They go once the last tree is gone that may read them, when a copy's may have their names.
#[test]
fn a_clearing_sets_aside_the_files_of_a_copy() {
    for index in [Index::Minimal, Index::Always] {
        for (is_sparse, is_read) in [(false, false), (true, false), (false, true)] {
            let ([upper, _], commits, theirs) = parted(index, 9, is_sparse);
            let mut store = open(&upper, options(index, None)).unwrap();
            store.log(99).unwrap();
            let tree = is_read.then(|| store.checkout(commits.last().unwrap()).unwrap());
            put_all(&upper, &theirs);
            store.clear().unwrap();
            drop(tree);
            let what = (index, is_sparse, is_read);
            has_aside(&upper, &theirs, &what);
            store.close().unwrap();
            drop(open(&upper, options(index, None)).unwrap());
            has_aside(&upper, &theirs, &what);
        }
    }
}

#[test]
fn a_clearing_removes_no_file_of_another_store_and_makes_none_over_it() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = made(index, 9);
        let (others, _) = made(index, 8);
        let names = ["0000-000001.pack", "0000-000003.pack"].map(str::to_owned);
        let theirs = files(&others, names);
        let mut store = open(&upper, options(index, None)).unwrap();
        holds(&store, &commits, &"before");
        for (name, bytes) in &theirs {
            put(&upper, name, bytes);
        }
        let first = [("0001-000000.pack".to_owned(), others.bytes("0000-000000.pack").unwrap())];
        put(&upper, &first[0].0, &first[0].1);
        let error = store.clear().unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.to_string().contains(&first[0].0), "{error}");
        has_all(&upper, &first, &"refused");
        upper.remove(&first[0].0).unwrap();
        store.clear().unwrap();
        store.close().unwrap();
        has_all(&upper, &theirs, &"cleared");
        let store = open(&upper, options(index, None)).unwrap();
        assert!(store.warnings().iter().any(|it| it.contains(&theirs[0].0)));
        drop(store);
        has_all(&upper, &theirs, &"opened");
    }
}

/// One that was put there while the store was open.
#[test]
fn no_chunk_is_begun_over_that_of_another_store() {
    let (upper, mut commits) = made(Index::Minimal, 9);
    let (others, _) = made(Index::Minimal, 8);
    let mut store = open(&upper, options(Index::Minimal, None)).unwrap();
    commits.push(commit(&mut store, commits.last(), 6).unwrap());
    let last = packs(&upper).pop().unwrap();
    let number: u64 = last[5..11].parse().unwrap();
    let next = format!("0000-{:06}.pack", number + 1);
    let theirs = [(next, others.bytes("0000-000002.pack").unwrap())];
    put(&upper, &theirs[0].0, &theirs[0].1);
    let mut refused = None;
    for block in 7..9 {
        match commit(&mut store, commits.last(), block) {
            Ok(commit) => commits.push(commit),
            Err(error) => refused = Some(error),
        }
    }
    let error = refused.expect("one of them begins a chunk");
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains(&theirs[0].0), "{error}");
    has_all(&upper, &theirs, &"begun");
    upper.remove(&theirs[0].0).unwrap();
    let kept = commits.len() as u64;
    commits.push(commit(&mut store, commits.last(), 9).unwrap());
    assert_eq!(store.check().unwrap().commits, kept + 1);
}

#[test]
fn what_comes_back_takes_no_file_of_another_store_away() {
    let (upper, commits) = made(Index::Minimal, 9);
    let (others, _) = made(Index::Minimal, 8);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
    // Its files below are open, so it goes on with these.
    holds(&store, &commits, &"moved");
    let theirs = files(&others, ["0000-000002.pack".to_owned()]);
    put(&lower, &theirs[0].0, &theirs[0].1);
    assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
    has_all(&lower, &theirs, &"came back");
    holds(&store, &commits, &"came back");
    drop(store);
    has_all(&lower, &theirs, &"closed");
    // Above, too, none is in the way of what comes back.
    lower.remove(&theirs[0].0).unwrap();
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
    store.close().unwrap();
    let theirs = files(&others, ["0000-000001.pack".to_owned()]);
    put(&upper, &theirs[0].0, &theirs[0].1);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let error = store.unarchive(u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains(&theirs[0].0), "{error}");
    has_all(&upper, &theirs, &error);
    holds(&store, &commits, &"refused");
}

#[test]
fn an_attachment_removes_no_file_of_another_store() {
    let (upper, lower, commits) = crate::context_attach::copies(Index::Minimal);
    let mut sparse = packs(&upper);
    sparse.retain(|name| name.matches('-').count() == 2);
    let (others, ..) = archived(8, 100);
    let (part, _) = parts_above(&others).swap_remove(1);
    let mut theirs = files(&others, [part]);
    theirs[0].0.clone_from(&sparse[0]);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    put(&upper, &theirs[0].0, &theirs[0].1);
    assert!(store.attach().unwrap() > 0);
    holds(&store, &commits, &"attached");
    store.close().unwrap();
    has_all(&upper, &theirs, &"attached");
    drop(open(&upper, options(Index::Minimal, Some(&lower))).unwrap());
    has_all(&upper, &theirs, &"opened");
}

/// What is attached is written anew, under a name that a move of another store's chunks has used.
#[test]
fn an_attachment_takes_no_unfinished_file_of_another_store_away() {
    let (upper, lower, commits) = crate::context_attach::copies(Index::Minimal);
    let (others, _) = made(Index::Minimal, 8);
    let bytes = others.bytes("0000-000001.pack").unwrap();
    let theirs = [("0000-000001.pack.tmp".to_owned(), bytes)];
    put_all(&lower, &theirs);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let error = store.attach().unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains(&theirs[0].0), "{error}");
    has_all(&lower, &theirs, &"refused");
    lower.remove(&theirs[0].0).unwrap();
    assert!(store.attach().unwrap() > 0);
    holds(&store, &commits, &"attached");
}

/// A damaged file in the way of a chunk that moves: which folder it is in, and what else has the chunk, is said.
#[test]
fn what_is_damaged_and_in_the_way_is_told_with_its_folder() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let name = "0000-000001.pack";
    let mut damaged = upper.bytes(name).unwrap();
    // In the head of the last batch.
    let place = damaged.len() - 76;
    damaged[place] ^= 1;
    put(&lower, name, &damaged);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let error = store.archive(&commits[4], u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let text = error.to_string();
    // A copy's whose end is damaged cannot be told from the store's own.
    assert!(text.contains("set it aside, or remove it where no copy"), "{text}");
    lower.remove(name).unwrap();
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
    put(&upper, name, &damaged);
    let error = store.unarchive(u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    let text = error.to_string();
    assert!(text.contains("all of that chunk is in the lower folder"), "{text}");
    assert!(!text.contains("set it aside, or remove it where"), "{text}");
    // Where that is damaged as well the file in the way may be all that is left of some records.
    let below = lower.bytes(name).unwrap();
    // In place: the store has it open.
    let file = lower.open(name, Mode::Write, Access::Buffered).unwrap();
    file.write_at(150, &[below[150] ^ 1]).unwrap();
    let text = store.unarchive(u64::MAX).unwrap_err().to_string();
    assert!(text.contains("keep it: that chunk is not whole in the lower folder"), "{text}");
    assert!(!text.contains("remove it"), "{text}");
    file.write_at(150, &below[150..151]).unwrap();
    upper.remove(name).unwrap();
    // Those behind it have come back before.
    assert_eq!(store.unarchive(u64::MAX).unwrap(), 2);
    holds(&store, &commits, &"came back");
}

/// A chunk of another store below, of a number that this one has not reached, is no sign of a copy.
#[test]
fn what_is_further_on_and_another_stores_is_no_copys() {
    let (upper, commits) = made(Index::Minimal, 9);
    let (others, _) = made(Index::Minimal, 8);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
    let bytes = others.bytes("0000-000001.pack").unwrap();
    let theirs = [("0000-000099.pack".to_owned(), bytes)];
    put_all(&lower, &theirs);
    assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
    assert_eq!(packs(&lower), ["0000-000099.pack"]);
    has_all(&lower, &theirs, &"came back");
    assert_eq!(store.warnings(), Vec::<String>::new());
    holds(&store, &commits, &"came back");
}

#[test]
fn a_reader_keeps_what_it_was_told_when_it_takes_a_newer_index() {
    let small = Options { index_bytes: 1, ..options(Index::Minimal, None) };
    let (upper, mut commits) = made(Index::Minimal, 9);
    let (others, _) = made(Index::Minimal, 8);
    let name = "0000-000099.pack";
    put(&upper, name, &others.bytes("0000-000001.pack").unwrap());
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let mut reader = Store::open_read_only(disk, small.clone()).unwrap();
    assert!(reader.warnings().concat().contains(name), "{:?}", reader.warnings());
    let mut store = open(&upper, small.clone()).unwrap();
    for block in 6..12 {
        commits.push(commit(&mut store, commits.last(), block).unwrap());
    }
    store.close().unwrap();
    for _ in 0..2 {
        reader.reload().unwrap();
        assert!(reader.exists(commits.last().unwrap()).unwrap());
        assert!(reader.warnings().concat().contains(name), "{:?}", reader.warnings());
    }
    // Nor does it forget where all files are others.
    upper.remove(name).unwrap();
    let mut store = open(&upper, small.clone()).unwrap();
    collect(&mut store, commits.last().unwrap()).unwrap();
    store.close().unwrap();
    reader.reload().unwrap();
    assert!(!reader.exists(&commits[0]).unwrap());
    assert!(reader.warnings().concat().contains(name), "{:?}", reader.warnings());
}

/// A store that was made for what came to nothing is taken back without what somebody else has put beside it.
#[test]
fn what_is_taken_back_takes_no_file_of_another_store_along() {
    let (others, _) = made(Index::Minimal, 8);
    let disk = SimDisk::new(9);
    let store =
        Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options(Index::Minimal, None)).unwrap();
    let theirs = files(&others, ["0000-000002.pack".to_owned()]);
    put(&disk, &theirs[0].0, &theirs[0].1);
    store.discard().unwrap();
    has_all(&disk, &theirs, &"taken back");
    assert_eq!(packs(&disk), [theirs[0].0.clone()]);
}

/// Nor what a copy of it has, which was made meanwhile.
#[test]
fn what_is_taken_back_takes_no_chunk_of_a_copy_along() {
    let (others, _) = made(Index::Minimal, 9);
    let disk = SimDisk::new(9);
    let mut store =
        Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options(Index::Minimal, None)).unwrap();
    let mut commits = Vec::new();
    for block in 50..54 {
        commits.push(commit(&mut store, commits.last(), block).unwrap());
    }
    let theirs = files(&others, ["0000-000001.pack".to_owned()]);
    put(&disk, &theirs[0].0, &theirs[0].1);
    store.discard().unwrap();
    has_all(&disk, &theirs, &"taken back");
    assert_eq!(disk.list("").unwrap(), [theirs[0].0.clone()]);
}

/// Two copies of a store whose chunks have records of the same lengths at the same places: what is above of one is not read
/// for what is above of the other.
#[test]
fn what_a_copy_has_at_the_same_places_is_not_taken_for_the_own() {
    for index in [Index::Minimal, Index::Always] {
        let (first, mut commits) = crate::archive_above::blocks(index);
        let second = first.crash(Crash::Process);
        let mut others_commits = commits.clone();
        let lowers = [SimDisk::new(2), SimDisk::new(3)];
        for ((disk, lower), (commits, ahead)) in [&first, &second]
            .into_iter()
            .zip(&lowers)
            .zip([(&mut commits, 0), (&mut others_commits, 150)])
        {
            let mut store = open(disk, sized(index, Some(lower))).unwrap();
            for block in BLOCKS..BLOCKS + 60 {
                commits.push(next(&mut store, commits.last(), block + ahead).unwrap());
            }
            assert!(store.archive(&commits[170], u64::MAX).unwrap() > 3);
            store.close().unwrap();
        }
        let theirs = files(&second, parts_above(&second).into_iter().map(|(name, _)| name));
        let same: Vec<_> = theirs
            .iter()
            .filter(|(name, bytes)| {
                first.bytes(name).is_ok_and(|own| own.len() == bytes.len() && own != *bytes)
            })
            .collect();
        assert!(same.len() > 1, "{index:?}: {}", same.len());
        for (name, bytes) in same {
            let image = first.crash(Crash::Process);
            put(&image, name, bytes);
            let store = open(&image, sized(index, Some(&lowers[0]))).unwrap();
            let tree = store.checkout(commits.last().unwrap()).unwrap();
            for block in 120..180_u16 {
                let newest = (block..180).rev().find(|it| it % 15 == block % 15).unwrap();
                let path = crate::archive_above::path(block);
                let found = tree.find(&path).unwrap();
                assert_eq!(found, Some(crate::archive_above::value(newest)), "{name}: {path:?}");
            }
            let error = store.check().unwrap_err();
            assert!(error.to_string().contains(&**name), "{error}");
        }
    }
}

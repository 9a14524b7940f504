//! What stays above of chunks in the lower folder: commits from the one on that stays above, branches and pins need nothing
//! from below, and nothing depends on it: damaged, lost or never made, all is read below.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::context::{CommitHash, CommitInfo, Index, Keep, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

use crate::context_archive::{self, holds, made, open, options, packs};
use crate::context_attach::copies;
use crate::context_repair::{flipped, repair, with};
use crate::hooked_disk::{Call, HookedDisk};

pub const BLOCKS: u16 = 120;

pub fn sized(index: Index, lower: Option<&Arc<SimDisk>>) -> Options {
    Options { chunk_bytes: 4_000, ..options(index, lower) }
}

pub fn path(block: u16) -> [String; 3] {
    // The first forty are set once, others again and again, in a wide directory and in small ones.
    let name = if block < 40 { block } else { 40 + block % 15 };
    ["state".to_owned(), format!("{}", name % 2), format!("{name:03}")]
}

pub fn value(block: u16) -> Vec<u8> {
    format!("{block:050}").into_bytes()
}

pub fn next(store: &mut Store, on: Option<&CommitHash>, block: u16) -> Result<CommitHash> {
    let mut tree = match on {
        Some(on) => store.checkout(on)?,
        None => store.empty_tree(),
    };
    tree.add(&path(block), &value(block))?;
    tree.add(&["block"], &value(block))?;
    let parents: Vec<_> = on.into_iter().copied().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, i64::from(block), "a", "b"))
}

/// A store of many blocks, and another branch from an early one on.
pub fn blocks(index: Index) -> (Arc<SimDisk>, Vec<CommitHash>) {
    blocks_of(index, 9)
}

/// The same of another store, where `seed` is another.
pub fn blocks_of(index: Index, seed: u64) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let upper = SimDisk::new(seed);
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let made = Options { seed: Some(seed), ..sized(index, None) };
    let mut store = Store::create(disk, made).unwrap();
    let mut commits: Vec<CommitHash> = Vec::new();
    for block in 0..BLOCKS {
        commits.push(next(&mut store, commits.last(), block).unwrap());
    }
    store.set_branch(b"main", commits.last().unwrap()).unwrap();
    store.set_branch(b"old", &commits[21]).unwrap();
    store.pin(&commits[33]).unwrap();
    store.close().unwrap();
    (upper, commits)
}

/// Reads all that a commit has; returns how many values.
pub fn read_all(store: &Store, commit: &CommitHash, block: u16) -> Result<usize> {
    let tree = store.checkout(commit)?;
    let mut last = std::collections::BTreeMap::new();
    for block in 0..=block {
        last.insert(path(block), block);
    }
    for (path, block) in &last {
        assert_eq!(tree.find(path)?, Some(value(*block)), "{path:?}");
    }
    assert_eq!(tree.find(&["block"])?, Some(value(block)));
    for side in ["0", "1"] {
        let listed = tree.list(&["state", side], 0, u64::MAX)?;
        assert_eq!(listed.len(), last.keys().filter(|path| path[1] == side).count());
    }
    Ok(last.len())
}

/// All that must be there without the lower folder is, and a commit on top too.
pub fn recent_needs_nothing(
    upper: &Arc<SimDisk>,
    index: Index,
    lower: Option<&Arc<SimDisk>>,
    (first, commits): (usize, &[CommitHash]),
) -> Result<()> {
    // Nothing of this is for others.
    let upper = upper.crash(Crash::Process);
    let mut store = open(&upper, sized(index, lower))?;
    for (block, commit) in commits.iter().enumerate() {
        if block >= first || [21, 33].contains(&block) {
            read_all(&store, commit, block as u16)?;
        }
    }
    if lower.is_none() {
        let (checked, _) = store.check_part(None, (commits.len() - first) as u64)?;
        assert_eq!(checked.index_faults, Vec::<String>::new());
    }
    assert_eq!(store.archive_target(&Keep::Newest(1))?, commits.last().copied());
    let mut last = *commits.last().unwrap();
    let mut tree = store.checkout(&last)?;
    // One value that only old commits had, and what takes part of a directory away.
    tree.add(&["again"], &value(45))?;
    tree.remove(&path(3))?;
    tree.remove(&path(44))?;
    last = store.commit(&mut tree, &CommitInfo::new(&[last], 500, "a", "b"))?;
    for block in 500..520 {
        last = next(&mut store, Some(&last), block)?;
    }
    store.maintain()?;
    let tree = store.checkout(&last)?;
    assert_eq!(tree.find(&["again"])?, Some(value(45)));
    assert_eq!(tree.find(&["block"])?, Some(value(519)));
    store.close()
}

/// A patch is read with what it changes, and a changed directory is hashed with what its other children hash to.
/// Both may be old, and stay above.
#[test]
fn what_recent_commits_changed_in_a_larger_directory_is_above_with_all_that_it_needs() {
    let upper = SimDisk::new(9);
    let lower = SimDisk::new(2);
    let small = |lower| Options { chunk_bytes: 4_000, ..options(Index::Minimal, lower) };
    let mut store =
        Store::create(Arc::clone(&upper) as Arc<dyn Disk>, small(Some(&lower))).unwrap();
    let (mut last, mut commits) = (None, Vec::new());
    for block in 0..80_u8 {
        let mut tree = last
            .as_ref()
            .map_or_else(|| Ok(store.empty_tree()), |last| store.checkout(last))
            .unwrap();
        tree.add(&["wide", &format!("{:02}", block % 60)], &context_archive::value(block)).unwrap();
        let parents: Vec<CommitHash> = last.into_iter().collect();
        let info = CommitInfo::new(&parents, i64::from(block), "a", "b");
        last = Some(store.commit(&mut tree, &info).unwrap());
        commits.extend(last);
    }
    let last = last.unwrap();
    assert!(store.archive(&last, u64::MAX).unwrap() > 2);
    store.close().unwrap();
    let reads = || lower.calls().reads;
    let before = reads();
    let store = open(&upper, small(Some(&lower))).unwrap();
    assert_eq!(reads(), before, "an opening reads nothing there");
    let name = format!("{:02}", 79 % 60);
    let mut tree = store.checkout(&last).unwrap();
    assert_eq!(tree.find(&["wide", &name]).unwrap(), Some(context_archive::value(79)));
    tree.add(&["wide", &name], b"new").unwrap();
    store.hash(&tree, &CommitInfo::new(&[last], 9, "a", "b")).unwrap();
    assert_eq!(reads(), before);
    drop(store);
    let mut store = open(&upper, small(None)).unwrap();
    let mut tree = store.checkout(&last).unwrap();
    tree.add(&["wide", &name], b"new").unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[last], 9, "a", "b")).unwrap();
    // Without the folder the store says so where it needs it.
    let error = store.checkout(&commits[30]).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.to_string().contains("lower folder"), "{error}");
}

#[test]
fn what_stays_above_and_commits_upon_it_touch_nothing_below() {
    for index in [Index::Minimal, Index::Always] {
        for first in [60, 118] {
            let (upper, commits) = blocks(index);
            let lower = SimDisk::new(2);
            let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
            assert!(store.archive(&commits[first], u64::MAX).unwrap() > 3);
            store.close().unwrap();
            let calls = lower.calls();
            recent_needs_nothing(&upper, index, Some(&lower), (first, &commits)).unwrap();
            assert_eq!(lower.calls(), calls, "{index:?}, {first}");
            recent_needs_nothing(&upper, index, None, (first, &commits)).unwrap();
            // Others are below, and there alone.
            let store = open(&upper, sized(index, None)).unwrap();
            let error = read_all(&store, &commits[40], 40).unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            drop(store);
            let store = open(&upper, sized(index, Some(&lower))).unwrap();
            for (block, commit) in commits.iter().enumerate() {
                read_all(&store, commit, block as u16).unwrap();
            }
            let checked = store.check().unwrap();
            assert_eq!((checked.commits, checked.index_faults), (120, Vec::new()));
        }
    }
}

/// As a node does: now and then what became old goes, in parts too. What is above does not grow with history.
#[test]
fn what_is_above_follows_the_line_and_does_not_grow_with_history() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, mut commits) = blocks(index);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
        let mut most = 0;
        for block in BLOCKS..BLOCKS + 400 {
            commits.push(next(&mut store, commits.last(), block).unwrap());
            if block % 20 == 19 {
                let line = commits.len() - 10;
                while store.archive(&commits[line], 2).unwrap() > 0 {}
                let calls = lower.calls();
                recent_needs_nothing(&upper, index, Some(&lower), (line, &commits)).unwrap();
                assert_eq!(lower.calls(), calls, "{index:?}, {block}");
                let above = packs(&upper);
                let above = above.iter().filter(|name| name.matches('-').count() == 2);
                let files = above.map(|name| upper.bytes(name).unwrap().len());
                most = most.max(files.sum::<usize>());
            }
        }
        let below: usize = packs(&lower).iter().map(|name| lower.bytes(name).unwrap().len()).sum();
        // A file has a page for its mapping and another for what comes before it.
        assert!(most < 40 * 9_000 && packs(&lower).len() > 40, "{most} above, {below} below");
        let store = open(&upper.crash(Crash::Process), sized(index, Some(&lower))).unwrap();
        assert_eq!(store.check().unwrap().commits, commits.len() as u64);
    }
}

#[test]
fn what_is_damaged_or_lost_above_is_read_below_and_made_again() {
    let (upper, commits) = blocks(Index::Minimal);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(Index::Minimal, Some(&lower))).unwrap();
    store.archive(&commits[100], u64::MAX).unwrap();
    store.close().unwrap();
    let above: Vec<_> =
        packs(&upper).into_iter().filter(|name| name.matches('-').count() == 2).collect();
    assert!(above.len() > 3, "{above:?}");
    let name = &above[1];
    let length = upper.bytes(name).unwrap().len();
    let mut images: Vec<_> =
        (0..length).step_by(101).map(|place| flipped(&upper, name, place)).collect();
    let bytes = upper.bytes(name).unwrap();
    images.extend(
        [40, length / 2, length - 1].map(|cut| with(&upper, name, Some(bytes[..cut].to_vec()))),
    );
    images.push(with(&upper, name, None));
    // The file of the same name of another store.
    let (others, others_commits) = blocks_of(Index::Minimal, 8);
    let others_lower = SimDisk::new(2);
    let mut store = open(&others, sized(Index::Minimal, Some(&others_lower))).unwrap();
    store.archive(&others_commits[100], u64::MAX).unwrap();
    drop(store);
    images.push(with(&upper, name, Some(others.bytes(name).unwrap())));
    let mut refused = 0;
    for (number, image) in images.iter().enumerate() {
        let store = open(image, sized(Index::Minimal, Some(&lower))).unwrap();
        for block in [100, 119] {
            read_all(&store, &commits[block], block as u16).unwrap();
        }
        let check = store.check();
        drop(store);
        match check {
            // Zeros before the mapping are not looked at.
            Ok(checked) => assert_eq!(checked.commits, 120, "{number}"),
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains(&**name), "{number}: {error}");
                let mut told = 0;
                let store = open(image, sized(Index::Minimal, Some(&lower))).unwrap();
                let each = &mut |error: varvite::Error| {
                    told += 1;
                    assert!(error.to_string().contains(&**name), "{number}: {error}");
                    Ok(())
                };
                store.check_chunks(each).unwrap();
                assert_eq!(told, 1, "{number}");
            }
        }
        if number % 7 != 0 && number + 4 < images.len() {
            continue;
        }
        let mut store = open(image, sized(Index::Minimal, Some(&lower))).unwrap();
        let mut more = commits.clone();
        for block in BLOCKS..BLOCKS + 40 {
            more.push(next(&mut store, more.last(), block).unwrap());
        }
        assert!(store.archive(&commits[110], u64::MAX).unwrap() > 0, "{number}");
        assert_eq!(store.check().unwrap().commits, 160, "{number}");
        store.close().unwrap();
        recent_needs_nothing(image, Index::Minimal, None, (110, &more)).unwrap();
    }
    assert!(refused > images.len() / 3, "{refused} of {}", images.len());
}

/// A tree of an old commit is committed on top: what it has is below alone, until chunks move again.
#[test]
fn what_a_commit_takes_over_from_an_old_one_comes_up_with_the_next_move() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, mut commits) = blocks(index);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
        store.archive(&commits[100], u64::MAX).unwrap();
        let mut tree = store.checkout(&commits[50]).unwrap();
        tree.add(&["block"], &value(120)).unwrap();
        let info = CommitInfo::new(&[commits[119]], 120, "a", "b");
        let taken = store.commit(&mut tree, &info).unwrap();
        store.close().unwrap();
        let mut store = open(&upper, sized(index, None)).unwrap();
        let found = store.checkout(&taken).unwrap().find(&path(46));
        assert_eq!(found.unwrap_err().kind(), Kind::Missing);
        for block in BLOCKS..BLOCKS + 30 {
            commits.push(next(&mut store, commits.last(), block).unwrap());
        }
        drop(store);
        let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
        assert!(store.archive(&commits[115], u64::MAX).unwrap() > 0);
        drop(store);
        let store = open(&upper, sized(index, None)).unwrap();
        assert_eq!(store.checkout(&taken).unwrap().find(&path(46)).unwrap(), Some(value(46)));
    }
}

/// Chunks of which nothing is above: of an archive that was attached, or of before.
#[test]
fn what_an_older_archive_lacks_above_comes_up_with_the_next_move() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, mut commits) = copies(index);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert!(store.attach().unwrap() > 0);
        for block in 7..9 {
            let next = context_archive::commit(&mut store, commits.last(), block).unwrap();
            commits.push(next);
        }
        drop(store);
        let recent = |upper: &Arc<SimDisk>| {
            let store = open(upper, options(index, None)).unwrap();
            let tree = store.checkout(&commits[8]).unwrap();
            tree.find(&["lasting", "0"]).map(|found| found.is_some())
        };
        assert_eq!(recent(&upper).unwrap_err().kind(), Kind::Missing);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert!(store.archive(&commits[8], u64::MAX).unwrap() > 0);
        holds(&store, &commits, &"moved");
        drop(store);
        assert!(recent(&upper).unwrap());
    }
}

#[test]
fn what_came_back_has_nothing_beside_it_and_a_clearing_leaves_nothing_above() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = made(index, 9);
        let before = packs(&upper);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        store.archive(&commits[4], u64::MAX).unwrap();
        assert!(packs(&upper).iter().any(|name| name.matches('-').count() == 2));
        store.unarchive(u64::MAX).unwrap();
        assert_eq!(packs(&upper), before);
        store.collect(&commits[4]).unwrap();
        while store.collect_step(1 << 20).unwrap() {}
        assert_eq!(store.check().unwrap().commits, 2);
        drop(store);

        let (upper, commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        store.archive(&commits[4], u64::MAX).unwrap();
        store.clear().unwrap();
        drop(store);
        let store = open(&upper, options(index, None)).unwrap();
        assert_eq!(packs(&upper).len(), 1, "{:?}", packs(&upper));
        drop(store);
    }
}

/// What a call has found of an older commit does not stand for a newer one, behind chunks of which nothing was marked.
#[test]
fn a_call_for_a_newer_commit_keeps_what_that_needs() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = blocks(index);
        let lower = SimDisk::new(5);
        let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
        assert_eq!(store.archive(&commits[60], 1).unwrap(), 1);
        assert!(store.archive(&commits[115], u64::MAX).unwrap() > 3);
        store.close().unwrap();
        let store = open(&upper, sized(index, None)).unwrap();
        for block in 115..BLOCKS {
            read_all(&store, &commits[usize::from(block)], block).unwrap();
        }
    }
}

/// The files of what stays above, with the chunk below of each.
pub fn parts_above(upper: &SimDisk) -> Vec<(String, String)> {
    let names = packs(upper).into_iter().filter(|name| name.matches('-').count() == 2);
    names.map(|name| (name.clone(), format!("{}.pack", name.rsplit_once('-').unwrap().0))).collect()
}

/// What is damaged below, or lost, and is above as well, costs a repair nothing: the store reads it above, and so does it.
/// A store with chunks below, of one of which the file `part` above has records, and folders in which that is damaged in many
/// ways, at each `step`-th byte too.
struct HalfBelow {
    upper: Arc<SimDisk>,
    /// The control file of before the chunks moved.
    before: Vec<u8>,
    commits: Vec<CommitHash>,
    part: String,
    name: String,
    images: Vec<Arc<SimDisk>>,
}

fn half_below(index: Index, step: usize) -> HalfBelow {
    let (upper, commits) = blocks(index);
    let before = upper.bytes("control").unwrap();
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
    store.archive(&commits[100], u64::MAX).unwrap();
    store.close().unwrap();
    let mut parts = parts_above(&upper);
    let (part, name) = parts.swap_remove(parts.len() / 2);
    let bytes = lower.bytes(&name).unwrap();
    let length = bytes.len();
    let mut images: Vec<_> =
        (0..length).step_by(step).map(|place| flipped(&lower, &name, place)).collect();
    let cut = [33, length / 2, length - 1];
    images.extend(cut.map(|cut| with(&lower, &name, Some(bytes[..cut].to_vec()))));
    images.push(with(&lower, &name, Some(vec![0; length])));
    images.push(with(&lower, &name, None));
    HalfBelow { upper, before, commits, part, name, images }
}

#[test]
fn a_repair_takes_what_is_damaged_below_from_above() {
    for index in [Index::Minimal, Index::Always] {
        let HalfBelow { upper, commits, part, name, images, .. } = half_below(index, 149);
        let count = images.len();
        for (number, image) in images.into_iter().enumerate() {
            let what = format!("{index:?}, {name}, {number} of {count}");
            let (found, target) = repair(&upper, Some(&image)).unwrap();
            assert!(!found.is_whole(), "{what}: {found:?}");
            let told = [found.damage, found.missing].concat();
            assert!(told.iter().any(|it| it.contains(&*name)), "{what}: {told:?}");
            let needed = |commit: &CommitHash| {
                commits[100..].contains(commit) || [commits[21], commits[33]].contains(commit)
            };
            let lost: Vec<_> = found.lost.iter().filter_map(|lost| lost.commit).collect();
            assert!(!lost.iter().any(needed), "{what}: {told:?}, {lost:?}");
            assert_eq!(found.last_commit, commits.last().copied(), "{what}");
            assert_eq!((found.branches, found.branches_may_be_older), (2, false), "{what}: {part}");
            let store = open(&target, Options::default()).unwrap();
            for (block, commit) in commits.iter().enumerate() {
                if needed(commit) {
                    read_all(&store, commit, block as u16).unwrap();
                }
            }
        }
    }
}

/// The same where the control file is lost, or one of before the chunks moved: the files above say themselves what they have.
/// That of a later generation, which was only begun, or is a copy's, hides nothing of those before it.
#[test]
fn a_repair_takes_from_above_what_is_damaged_below_without_a_control_file() {
    let mut taken = 0;
    for index in [Index::Minimal, Index::Always] {
        let HalfBelow { upper, before, commits, part, name, images } = half_below(index, 397);
        let later = part.replace("-1.pack", "-2.pack");
        assert_ne!(later, part);
        let begun = upper.bytes(&part).unwrap()[..32].to_vec();
        for (control, begun) in [(None, None), (Some(before), None), (None, Some(begun))] {
            let upper = with(&upper, "control", control.clone());
            let upper = with(&upper, &later, begun.clone());
            for (number, image) in images.iter().enumerate() {
                let which = (control.is_some(), begun.is_some());
                let what = format!("{index:?}, {name}, {number}, {which:?}");
                let (found, target) = repair(&upper, Some(image)).unwrap();
                let told = [&found.damage[..], &found.missing].concat();
                taken += told.iter().filter(|it| it.contains("are taken from")).count();
                assert_eq!(found.last_commit, commits.last().copied(), "{what}: {told:?}");
                let store = open(&target, Options::default()).unwrap();
                for block in (100..commits.len()).chain([21, 33]) {
                    let is_there = store.exists(&commits[block]).unwrap();
                    assert!(is_there, "{what}: {block}, {told:?}");
                    read_all(&store, &commits[block], block as u16).unwrap();
                }
            }
        }
    }
    assert!(taken > 20, "{taken}");
}

/// A file above whose pages were read before it was damaged: a commit that takes over what another handle has finds it below.
#[test]
fn a_commit_of_another_handles_tree_finds_below_what_is_damaged_above() {
    let large = |lower| Options { chunk_bytes: 30_000, ..sized(Index::Minimal, lower) };
    let upper = SimDisk::new(9);
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let mut store = Store::create(disk, large(None)).unwrap();
    let mut commits: Vec<CommitHash> = Vec::new();
    for block in 0..BLOCKS {
        commits.push(next(&mut store, commits.last(), block).unwrap());
    }
    store.close().unwrap();
    let lower = SimDisk::new(2);
    let mut store = open(&upper, large(Some(&lower))).unwrap();
    assert!(store.archive(&commits[110], u64::MAX).unwrap() > 0);
    store.close().unwrap();
    let mut looks = 0;
    for (name, _) in parts_above(&upper) {
        let bytes = upper.bytes(&name).unwrap();
        for cut in (40..bytes.len()).step_by(1_000) {
            let image = upper.crash(Crash::Process);
            let mut store = open(&image, large(Some(&lower))).unwrap();
            // The mapping of the file, and a page of it.
            store.checkout(&commits[111]).unwrap().find(&path(41)).unwrap();
            store.checkout(&commits[111]).unwrap().find(&path(5)).unwrap();
            image.damage(&name, &bytes[..cut]).unwrap();
            let disk = Arc::clone(&image) as Arc<dyn Disk>;
            let reader = Store::open_read_only(disk, large(Some(&lower))).unwrap();
            let mut tree = reader.checkout(&commits[112]).unwrap();
            tree.add(&["block"], b"other").unwrap();
            tree.remove(&path(3)).unwrap();
            let info = CommitInfo::new(&[commits[119]], 120, "a", "b");
            let taken = store.commit(&mut tree, &info);
            let taken = taken.unwrap_or_else(|error| panic!("{name}, {cut}: {error}"));
            let found = store.checkout(&taken).unwrap().find(&path(5)).unwrap();
            assert_eq!(found, Some(value(5)), "{name}, {cut}");
            looks += 1;
        }
    }
    assert!(looks > 5, "{looks}");
}

/// A read of the lower disk that fails once puts off by one call what recent commits need above.
#[test]
fn what_a_failed_read_kept_below_comes_up_with_the_move_after_it() {
    // With the other index what is taken over is written again.
    let index = Index::Minimal;
    let (upper, mut commits) = blocks(index);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
    store.archive(&commits[100], u64::MAX).unwrap();
    let mut tree = store.checkout(&commits[50]).unwrap();
    tree.add(&["block"], &value(120)).unwrap();
    let info = CommitInfo::new(&[commits[119]], 120, "a", "b");
    let taken = store.commit(&mut tree, &info).unwrap();
    store.close().unwrap();
    for block in BLOCKS..BLOCKS + 30 {
        let mut store = open(&upper, sized(index, None)).unwrap();
        commits.push(next(&mut store, commits.last(), block).unwrap());
        store.close().unwrap();
    }
    let mut failed = 0;
    for n in 1.. {
        let (upper, lower) = (upper.crash(Crash::Process), lower.crash(Crash::Process));
        // Without a cache what is read to mark is read again where that goes down to the bottom.
        let with = Options { pages_bytes: 0, objects_bytes: 0, ..sized(index, Some(&lower)) };
        let mut store = open(&upper, with).unwrap();
        let calls = lower.calls().of(Fault::Read);
        lower.fail_at(n, Fault::Read);
        let moved = store.archive(&commits[110], u64::MAX);
        let warnings = store.warnings();
        lower.disarm();
        if lower.calls().of(Fault::Read) < calls + n {
            moved.unwrap();
            break;
        }
        failed += u64::from(moved.is_ok() && !warnings.is_empty());
        assert!(store.archive(&commits[119], u64::MAX).unwrap() > 0);
        store.close().unwrap();
        let store = open(&upper, sized(index, None)).unwrap();
        let found = store.checkout(&taken).unwrap().find(&path(46));
        found.unwrap_or_else(|error| panic!("{index:?}, {n}: {error}, {warnings:?}"));
    }
    assert!(failed > 3, "{index:?}: {failed}");
}

/// Its file is asked for once, and not at each read, with the control file each time.
#[test]
fn a_file_above_that_is_lost_or_another_stores_is_asked_for_once() {
    let archived = |seed| {
        let (upper, commits) = blocks_of(Index::Minimal, seed);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, sized(Index::Minimal, Some(&lower))).unwrap();
        store.archive(&commits[100], u64::MAX).unwrap();
        store.close().unwrap();
        (upper, lower, commits)
    };
    let (upper, lower, commits) = archived(9);
    let (others, ..) = archived(8);
    let parts = parts_above(&upper);
    assert_eq!(parts, parts_above(&others));
    for (name, _) in &parts {
        upper.damage(name, others.bytes(name).unwrap()).unwrap();
    }
    is_asked_for_once(&upper, &lower, &commits, parts.len());
    for (name, _) in &parts {
        upper.remove(name).unwrap();
    }
    is_asked_for_once(&upper, &lower, &commits, parts.len());
}

fn is_asked_for_once(
    upper: &Arc<SimDisk>,
    lower: &Arc<SimDisk>,
    commits: &[CommitHash],
    count: usize,
) {
    let opens = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&opens);
    let counted = HookedDisk::new(Arc::clone(upper) as _, move |call, path| {
        let is_asked = path == "control" || path.matches('-').count() == 2;
        seen.fetch_add(u64::from(matches!(call, Call::Open(_)) && is_asked), SeqCst);
    });
    let with = Options { pages_bytes: 0, objects_bytes: 0, ..sized(Index::Minimal, Some(lower)) };
    let store = Store::open(counted, with).unwrap();
    opens.store(0, SeqCst);
    for block in 100..BLOCKS {
        read_all(&store, &commits[usize::from(block)], block).unwrap();
    }
    let opens = opens.load(SeqCst) as usize;
    assert!(opens <= 2 * count, "{opens} of {count} files");
}

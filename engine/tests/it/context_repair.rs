//! New stores of what is whole in damaged ones: damage at random places, lost files and volumes, crashes.

use std::sync::Arc;

use varvite::context::{CommitHash, Index, Options, RepairedContext, Store};
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::raw::format::checksum::stored;
use varvite::{Kind, Result};

use crate::context_archive::{commit, made, open, options, packs, value};
use crate::random::Random;

fn dynamic(disk: &Arc<SimDisk>) -> Arc<dyn Disk> {
    Arc::clone(disk) as Arc<dyn Disk>
}

fn repair_to(
    source: &Arc<SimDisk>,
    lower: Option<&Arc<SimDisk>>,
    target: &Arc<SimDisk>,
) -> Result<RepairedContext> {
    let lower = lower.map(dynamic);
    Store::repair(&dynamic(source), lower.as_ref(), &dynamic(target), &mut |_, _| Ok(()))
}

pub fn repair(
    source: &Arc<SimDisk>,
    lower: Option<&Arc<SimDisk>>,
) -> Result<(RepairedContext, Arc<SimDisk>)> {
    let target = SimDisk::new(77);
    let found = repair_to(source, lower, &target)?;
    Ok((found, target))
}

/// A copy of the files of `disk`, with `name` as it is in `bytes`, or without it.
pub fn with(disk: &Arc<SimDisk>, name: &str, bytes: Option<Vec<u8>>) -> Arc<SimDisk> {
    let copy = disk.crash(Crash::Process);
    if copy.exists(name).unwrap() {
        copy.remove(name).unwrap();
    }
    if let Some(bytes) = bytes {
        let file = copy.open(name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &bytes).unwrap();
    }
    copy
}

pub fn flipped(disk: &Arc<SimDisk>, name: &str, place: usize) -> Arc<SimDisk> {
    let mut bytes = disk.bytes(name).unwrap();
    bytes[place] ^= 1;
    with(disk, name, Some(bytes))
}

/// What the new store has is as it was; returns which commits those are.
fn kept(found: &RepairedContext, target: &Arc<SimDisk>, commits: &[CommitHash]) -> Vec<bool> {
    let store = open(target, Options::default()).unwrap();
    let checked = store.check().unwrap();
    assert_eq!((checked.commits, checked.index_faults), (found.commits, Vec::new()));
    let mut kept = Vec::new();
    for (block, commit) in (0..).zip(commits) {
        let is_there = store.exists(commit).unwrap();
        kept.push(is_there);
        let lost = found.lost.iter().find(|lost| lost.commit == Some(*commit));
        assert!(!(is_there && lost.is_some()), "{found:?}");
        if !is_there {
            continue;
        }
        let tree = store.checkout(commit).unwrap();
        assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(block)));
        for before in 0..=block {
            let found = tree.find(&["lasting", &before.to_string()]).unwrap();
            assert_eq!(found, Some(value(before)));
        }
        assert_eq!(tree.find(&["lasting", &(block + 1).to_string()]).unwrap(), None);
    }
    assert_eq!(kept.iter().filter(|is_there| **is_there).count() as u64, found.commits);
    kept
}

fn branched(index: Index) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let (disk, commits) = made(index, 9);
    let mut store = open(&disk, options(index, None)).unwrap();
    store.set_branch(b"old", &commits[1]).unwrap();
    store.set_branch(b"main", &commits[5]).unwrap();
    store.close().unwrap();
    (disk, commits)
}

/// Those that are not kept are told, each by its hash, or as one whose hash is not known.
fn told(found: &RepairedContext, kept: &[bool], commits: &[CommitHash]) {
    let lost = kept.iter().zip(commits).filter(|(kept, _)| !**kept);
    let named = |commit: &CommitHash| found.lost.iter().any(|lost| lost.commit == Some(*commit));
    let unnamed = found.lost.iter().filter(|lost| lost.commit.is_none()).count();
    let silent = lost.filter(|(_, commit)| !named(commit)).count();
    assert!(silent == 0 || unnamed > 0, "{silent} are lost in silence: {found:?}");
    assert_eq!(found.is_whole(), found.lost.is_empty() && found.is_whole(), "{found:?}");
    assert!(kept.iter().all(|kept| *kept) || !found.is_whole(), "{found:?}");
}

#[test]
fn a_sound_store_comes_whole_with_its_branches() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, commits) = branched(index);
        let before: Vec<_> = packs(&disk).iter().map(|name| disk.bytes(name).unwrap()).collect();
        let (found, target) = repair(&disk, None).unwrap();
        assert_eq!(kept(&found, &target, &commits), [true; 6]);
        assert_eq!((found.branches, found.last_commit), (2, Some(commits[5])));
        assert!(found.is_whole(), "{found:?}");
        let store = open(&target, Options::default()).unwrap();
        assert_eq!(store.branches(), open(&disk, options(index, None)).unwrap().branches());
        let after: Vec<_> = packs(&disk).iter().map(|name| disk.bytes(name).unwrap()).collect();
        assert!(before == after, "nothing is written to the old one");
        drop(store);
        assert_eq!(repair_to(&disk, None, &target).unwrap_err().kind(), Kind::Exists);
    }
    assert_eq!(repair(&SimDisk::new(4), None).unwrap_err().kind(), Kind::Missing);
}

/// Damages the file in one of several ways.
fn damage(disk: &Arc<SimDisk>, name: &str, random: &mut Random) {
    let mut bytes = disk.bytes(name).unwrap();
    let place = random.index(bytes.len());
    match random.index(4) {
        0 => bytes.truncate(place),
        1 => bytes[place..].fill(0),
        2 => bytes[place] ^= 1 << random.index(8),
        _ => return disk.remove(name).unwrap(),
    }
    disk.damage(name, bytes).unwrap();
}

#[test]
fn after_damage_at_random_places_what_is_kept_is_as_it_was() {
    let mut random = Random::new(15);
    let mut lost = 0;
    for round in 0..240 {
        let index = random.choose(&[Index::Minimal, Index::Always]);
        let (disk, commits) = branched(index);
        let names = disk.list("").unwrap();
        let names: Vec<_> =
            names.iter().filter(|name| disk.bytes(name).is_ok_and(|it| !it.is_empty())).collect();
        let name = names[random.index(names.len())].clone();
        damage(&disk, &name, &mut random);
        let (found, target) =
            repair(&disk, None).unwrap_or_else(|error| panic!("{round}, {name}: {error}"));
        let kept = kept(&found, &target, &commits);
        told(&found, &kept, &commits);
        let first = match name.split(['-', '.']).nth(1).and_then(|number| number.parse().ok()) {
            Some(number) if name.contains(".pack") => number,
            _ => commits.len(),
        };
        assert!(kept.iter().take(first).all(|kept| *kept), "{round}, {name}: {found:?}");
        if first == commits.len() {
            assert_eq!(found.branches, 2, "{round}, {name}: {found:?}");
        } else if kept.contains(&false) {
            assert!(!(found.damage.is_empty() && found.missing.is_empty()), "{round}, {name}");
            lost += 1;
        }
    }
    assert!(lost > 60, "{lost}");
}

#[test]
fn a_value_that_is_damaged_costs_the_commits_that_have_it_alone() {
    let (disk, commits) = branched(Index::Minimal);
    // The value of the third commit that the fourth replaces is as long as the one that stays.
    let name = &packs(&disk)[2];
    let bytes = disk.bytes(name).unwrap();
    let places: Vec<_> =
        (0..bytes.len() - 90).filter(|place| bytes[*place..place + 90] == value(2)[..90]).collect();
    let mut passing = 0;
    for place in places {
        let damaged = disk.crash(Crash::Process);
        let mut bytes = bytes.clone();
        bytes[place + 5] ^= 1;
        damaged.damage(name, bytes).unwrap();
        let (found, target) = repair(&damaged, None).unwrap();
        let kept = kept(&found, &target, &commits);
        assert!(!kept[2] && kept[0] && kept[1], "{found:?}");
        assert!(
            found
                .lost
                .iter()
                .any(|lost| lost.commit == Some(commits[2]) && lost.detail.contains(&**name))
        );
        passing += usize::from(kept[3] && kept[5]);
    }
    assert!(passing > 0, "what was replaced is no loss for those after");
}

/// A store that has collected to its third commit, and kept its first.
pub fn collected(index: Index) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let (upper, commits) = branched(index);
    let mut store = open(&upper, options(index, None)).unwrap();
    store.pin(&commits[0]).unwrap();
    store.remove_branch(b"old").unwrap();
    store.collect(&commits[2]).unwrap();
    while store.collect_step(100).unwrap() {}
    store.close().unwrap();
    (upper, commits)
}

const COLLECTED: [bool; 6] = [true, false, true, true, true, true];

#[test]
fn what_a_collection_left_is_kept_with_and_without_a_control_file() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, commits) = collected(index);
        let (found, target) = repair(&upper, None).unwrap();
        assert_eq!(kept(&found, &target, &commits), COLLECTED);
        assert!(found.is_whole(), "what was collected is no loss: {found:?}");
        let store = open(&target, Options::default()).unwrap();
        assert_eq!(store.pins().unwrap(), [commits[0]]);
        // Sparse chunks say themselves where they begin, and what is in them.
        let blind = with(&upper, "control", None);
        let (found, target) = repair(&blind, None).unwrap();
        assert_eq!(kept(&found, &target, &commits), COLLECTED, "{found:?}");
        assert!(found.damage.iter().any(|it| it.contains("control is not there")), "{found:?}");
        assert!(found.branches_may_be_older, "{found:?}");
    }
}

#[test]
fn a_mapping_that_is_damaged_anywhere_costs_nothing() {
    let (upper, commits) = collected(Index::Minimal);
    let sparse: Vec<_> =
        packs(&upper).into_iter().filter(|name| name.matches('-').count() == 2).collect();
    assert!(!sparse.is_empty());
    for name in &sparse {
        let bytes = upper.bytes(name).unwrap();
        // Behind the records: padding, a page, the table, the footer.
        let start = bytes.len() - bytes.len() % 4096 - 4096;
        let cut = [start, start + 2000, bytes.len() - 40, bytes.len() - 1];
        let places = (start..bytes.len()).step_by(97).chain([0, 9, 25]);
        let images = places.map(|place| flipped(&upper, name, place));
        let images = images.chain(cut.map(|cut| with(&upper, name, Some(bytes[..cut].to_vec()))));
        for (number, image) in images.enumerate() {
            for blind in [false, true] {
                let image = if blind { with(&image, "control", None) } else { Arc::clone(&image) };
                let (found, target) = repair(&image, None).unwrap();
                let kept = kept(&found, &target, &commits);
                assert_eq!(kept, COLLECTED, "{name}, {number}, {blind}: {found:?}");
            }
        }
    }
}

/// An archive to its fifth commit, and its control file of before.
fn archived(index: Index) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>, Vec<u8>) {
    let (upper, commits) = branched(index);
    let before = upper.bytes("control").unwrap();
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    assert!(store.archive(&commits[4], u64::MAX).unwrap() > 3);
    store.close().unwrap();
    (upper, lower, commits, before)
}

#[test]
fn volumes_are_read_whatever_the_control_file_says_of_them() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits, before) = archived(index);
        let (found, target) = repair(&upper, Some(&lower)).unwrap();
        assert_eq!(kept(&found, &target, &commits), [true; 6]);
        assert!(found.is_whole(), "{found:?}");
        // One of before the chunks moved was put back, or there is none.
        for control in [Some(before), None] {
            let image = with(&upper, "control", control);
            let (found, target) = repair(&image, Some(&lower)).unwrap();
            assert_eq!(kept(&found, &target, &commits), [true; 6], "{found:?}");
            assert!(found.lost.is_empty() && found.missing.is_empty(), "{found:?}");
            assert_eq!(found.branches, 2, "{found:?}");
        }
        let (found, target) = repair(&upper, None).unwrap();
        let without = kept(&found, &target, &commits);
        told(&found, &without, &commits);
        // What stays above, and a branch that is older.
        assert_eq!(without, [false, true, false, false, true, true], "{found:?}");
        assert!(found.missing.iter().any(|it| it.contains("--lower")), "{found:?}");
        assert_eq!(found.branches, 2, "{found:?}");
        for name in packs(&lower) {
            let (found, target) = repair(&upper, Some(&with(&lower, &name, None))).unwrap();
            let without = kept(&found, &target, &commits);
            told(&found, &without, &commits);
            // All of the second is needed by a branch.
            assert_eq!(without.contains(&false), !name.contains("-000001"), "{name}: {found:?}");
            assert!(found.missing.iter().any(|missing| missing.contains(&name)), "{found:?}");
        }
        // All that is left is the volumes, which know no branch of the store.
        let (found, target) = repair(&SimDisk::new(8), Some(&lower)).unwrap();
        assert_eq!(kept(&found, &target, &commits), [true, true, true, true, false, false]);
        assert_eq!(found.branches, 0, "{found:?}");
    }
}

/// Without a control file nothing but the chunks says which are of this history.
#[test]
fn chunks_and_branches_of_another_copy_are_not_taken() {
    let (upper, commits) = branched(Index::Minimal);
    let copy = upper.crash(Crash::Process);
    let lower = SimDisk::new(2);
    let mut store = open(&copy, options(Index::Minimal, Some(&lower))).unwrap();
    let mut others = Vec::new();
    for block in 50..54 {
        let before = others.last().or(commits.last()).copied();
        let next = commit(&mut store, before.as_ref(), block).unwrap();
        store.set_branch(b"main", &next).unwrap();
        others.push(next);
    }
    store.archive(others.last().unwrap(), u64::MAX).unwrap();
    store.close().unwrap();
    let mut store = open(&upper, options(Index::Minimal, None)).unwrap();
    let own = commit(&mut store, commits.last(), 6).unwrap();
    store.close().unwrap();
    let all = [&commits[..], &[own]].concat();
    for control in [true, false] {
        let mut image = upper.crash(Crash::Process);
        if !control {
            image = with(&image, "control", None);
        }
        // Its oldest chunks are in the other's folder alone.
        for name in &packs(&image)[..2] {
            image = with(&image, name, None);
        }
        let (found, target) = repair(&image, Some(&lower)).unwrap();
        assert_eq!(kept(&found, &target, &all), [true; 7], "{control}: {found:?}");
        let store = open(&target, Options::default()).unwrap();
        assert_eq!(store.branch(b"main"), Some(commits[5]), "{control}");
        assert!(others.iter().all(|other| !store.exists(other).unwrap()));
        // The chunk in which both parted is the last of this store.
        let last = packs(&image).pop().unwrap();
        let (found, target) = repair(&with(&image, &last, None), Some(&lower)).unwrap();
        let store = open(&target, Options::default()).unwrap();
        assert!(others.iter().all(|other| !store.exists(other).unwrap()), "{control}: {found:?}");
    }
}

#[test]
fn branches_are_said_to_be_older_where_they_may_be() {
    let (disk, commits) = branched(Index::Minimal);
    let mut store = open(&disk, options(Index::Minimal, None)).unwrap();
    let sixth = commit(&mut store, commits.last(), 6).unwrap();
    let before = disk.bytes("control").unwrap();
    store.set_branch(b"main", &sixth).unwrap();
    let bytes = packs(&disk).iter().map(|name| disk.bytes(name).unwrap()).collect::<Vec<_>>();
    store.close().unwrap();
    let known = disk.crash(Crash::Process);
    let disk = with(&disk, "control", Some(before));
    let last = packs(&disk).pop().unwrap();
    let name = packs(&disk)
        .into_iter()
        .zip(&bytes)
        .rfind(|(_, bytes)| bytes.windows(4).rev().any(|window| window == b"main"));
    let (name, bytes) = name.unwrap();
    let place = bytes.windows(4).rposition(|window| window == b"main").unwrap();
    let (found, target) = repair(&flipped(&disk, &name, place), None).unwrap();
    let store = open(&target, Options::default()).unwrap();
    assert_eq!(store.branch(b"main"), Some(commits[5]));
    assert!(store.exists(&sixth).unwrap());
    // Nothing says that it was ever durable, so a power cut may have left it so.
    assert!(!found.unfinished.is_empty() && found.is_whole(), "{found:?}");
    // Where the control file reaches so far it was, and is damage.
    let all = [&commits[..], &[sixth]].concat();
    for place in [place, place - 34 - 20] {
        let (found, target) = repair(&flipped(&known, &name, place), None).unwrap();
        assert_eq!(kept(&found, &target, &all), [true; 7], "{found:?}");
        assert!(found.unfinished.is_empty(), "{last}, {found:?}");
    }
}

#[test]
fn what_a_newer_release_has_written_is_no_damage() {
    let (sparse, _) = collected(Index::Minimal);
    let (upper, lower, ..) = archived(Index::Minimal);
    let newer = |disk: &Arc<SimDisk>, name: &str| {
        let mut bytes = disk.bytes(name).unwrap();
        bytes[8] = 9;
        let sum = stored(&bytes[..28]);
        bytes[28..32].copy_from_slice(&sum.to_le_bytes());
        with(disk, name, Some(bytes))
    };
    let refused = |source: &Arc<SimDisk>, lower: Option<&Arc<SimDisk>>| {
        let target = SimDisk::new(77);
        let error = repair_to(source, lower, &target).unwrap_err();
        assert_eq!(error.kind(), Kind::Version, "{error}");
        assert!(error.to_string().contains("newer release"), "{error}");
        assert_eq!(target.list("").unwrap(), Vec::<String>::new(), "nothing was made");
    };
    for name in packs(&sparse).into_iter().chain(["control".to_owned()]) {
        refused(&newer(&sparse, &name), None);
        if name != "control" {
            refused(&with(&newer(&sparse, &name), "control", None), None);
        }
    }
    for name in packs(&lower) {
        refused(&upper, Some(&newer(&lower, &name)));
    }
}

#[test]
fn the_right_epoch_is_found_without_a_control_file() {
    let (disk, commits) = branched(Index::Minimal);
    // A clearing that was cut off before it counted has begun a chunk.
    let begun = disk.crash(Crash::Process);
    let mut store = open(&begun, options(Index::Minimal, None)).unwrap();
    let first = packs(&begun)[0].clone();
    let bytes = begun.bytes(&first).unwrap();
    store.clear().unwrap();
    let fresh = begun.bytes("0001-000000.pack").unwrap();
    let last = commit(&mut store, None, 0).unwrap();
    store.close().unwrap();
    let image = with(&with(&disk, "control", None), "0001-000000.pack", Some(fresh));
    let (found, target) = repair(&image, None).unwrap();
    assert_eq!(kept(&found, &target, &commits), [true; 6], "{found:?}");
    // One that counts has left a file of before.
    let image = with(&with(&begun, "control", None), &first, Some(bytes));
    let (found, target) = repair(&image, None).unwrap();
    assert_eq!(kept(&found, &target, &[last]), [true], "{found:?}");
    assert!(found.damage.iter().any(|it| it.contains("epochs")), "{found:?}");
}

#[test]
fn a_control_file_of_another_store_is_not_believed() {
    let (disk, commits) = branched(Index::Minimal);
    let (other, _) = made(Index::Minimal, 11);
    let image = with(&disk, "control", Some(other.bytes("control").unwrap()));
    let (found, target) = repair(&image, None).unwrap();
    assert_eq!(kept(&found, &target, &commits), [true; 6], "{found:?}");
    assert!(found.damage.iter().any(|it| it.contains("another store")), "{found:?}");
}

/// A repair with the n-th change of the new store as its last.
fn dies(disk: &Arc<SimDisk>, commits: &[CommitHash], n: u64, whole: &mut u64) -> bool {
    let target = SimDisk::new(77);
    target.kill_at(n);
    let outcome = repair_to(disk, None, &target);
    if !target.is_dead() {
        outcome.unwrap();
        return false;
    }
    for (crash, image) in target.crash_images(6, 6) {
        let image = image.crash(Crash::Process);
        let is_half = image.exists("half-made").unwrap();
        match open(&image, Options::default()) {
            Ok(store) => {
                assert_eq!(store.log(99).unwrap().len(), commits.len(), "{n}, {crash:?}");
                assert!(store.check().unwrap().index_faults.is_empty(), "{n}, {crash:?}");
                *whole += 1;
            }
            Err(error) if is_half => {
                assert_eq!(error.kind(), Kind::Invalid, "{n}, {crash:?}: {error}");
                for said in [error, repair_to(disk, None, &image).unwrap_err()] {
                    assert!(said.to_string().contains("remove the folder"), "{said}");
                }
                let made = Store::open_or_create_on(dynamic(&image), Options::default());
                assert!(made.unwrap_err().to_string().contains("remove the folder"));
            }
            Err(error) => assert_eq!(error.kind(), Kind::Missing, "{n}, {crash:?}: {error}"),
        }
    }
    true
}

#[test]
fn a_repair_that_was_killed_leaves_no_store_that_looks_sound() {
    let (disk, commits) = branched(Index::Minimal);
    let mut whole = 0;
    let places = (1..10_000).take_while(|n| dies(&disk, &commits, *n, &mut whole)).count();
    assert!(places > 20 && whole > 0, "{places}, {whole}");
}

#[test]
fn a_disk_that_fails_ends_the_repair() {
    let (disk, commits) = branched(Index::Minimal);
    let mut failed = 0;
    for n in 1..400 {
        let image = disk.crash(Crash::Process);
        image.fail_at(n, Fault::Read);
        match repair(&image, None) {
            Ok((found, target)) => assert_eq!(kept(&found, &target, &commits), [true; 6]),
            Err(error) => {
                assert_eq!(error.kind(), Kind::Io, "{n}: {error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn where_a_repair_failed_another_one_succeeds_or_says_what_to_remove() {
    let (disk, commits) = branched(Index::Minimal);
    let (mut again, mut refused) = (0, 0);
    for n in 1..10_000 {
        let target = SimDisk::new(78);
        target.fail_at(n, Fault::Any);
        let outcome = repair_to(&disk, None, &target);
        if target.calls().of(Fault::Any) < n {
            break;
        }
        if outcome.is_ok() {
            continue;
        }
        match repair_to(&disk, None, &target) {
            Ok(found) => {
                assert_eq!(kept(&found, &target, &commits), [true; 6]);
                again += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("remove the folder"), "{n}: {error}");
                refused += 1;
            }
        }
    }
    assert!(again > 10 && refused > 10, "{again} succeeded, {refused} were refused");
}

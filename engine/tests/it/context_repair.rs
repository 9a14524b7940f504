//! New stores of what is whole in damaged ones: damage at random places, lost files and volumes, crashes.

use std::sync::Arc;

use varvite::context::{CommitHash, Index, Options, Repaired, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{Kind, Result};

use crate::context_archive::{commit, made, open, options, packs, value};
use crate::random::Random;

fn repair(source: &Arc<SimDisk>, lower: Option<&Arc<SimDisk>>) -> Result<(Repaired, Arc<SimDisk>)> {
    let target = SimDisk::new(77);
    let disk = |disk: &Arc<SimDisk>| Arc::clone(disk) as Arc<dyn Disk>;
    let lower = lower.map(disk);
    let found = Store::repair(&disk(source), lower.as_ref(), disk(&target), &mut |_, _| Ok(()))?;
    Ok((found, target))
}

/// What the new store has is as it was; returns which commits those are.
fn kept(found: &Repaired, target: &Arc<SimDisk>, commits: &[CommitHash]) -> Vec<bool> {
    let store = open(target, Options::default()).unwrap();
    let checked = store.check().unwrap();
    assert_eq!((checked.commits, checked.index_faults), (found.commits, Vec::new()));
    let mut kept = Vec::new();
    for (block, commit) in (0..).zip(commits) {
        let is_there = store.exists(commit).unwrap();
        kept.push(is_there);
        let lost = found.lost.iter().find(|lost| lost.commit == *commit);
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

#[test]
fn a_sound_store_comes_whole_with_its_branches() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, commits) = branched(index);
        let before: Vec<_> = packs(&disk).iter().map(|name| disk.bytes(name).unwrap()).collect();
        let (found, target) = repair(&disk, None).unwrap();
        assert_eq!(kept(&found, &target, &commits), [true; 6]);
        assert_eq!((found.branches, found.last_commit), (2, Some(commits[5])));
        assert!(found.lost.is_empty() && found.damage.is_empty() && found.missing.is_empty());
        let store = open(&target, Options::default()).unwrap();
        assert_eq!(store.branches(), open(&disk, options(index, None)).unwrap().branches());
        let after: Vec<_> = packs(&disk).iter().map(|name| disk.bytes(name).unwrap()).collect();
        assert!(before == after, "nothing is written to the old one");
        drop(store);
        let again = Store::repair(
            &(Arc::clone(&disk) as Arc<dyn Disk>),
            None,
            Arc::clone(&target) as Arc<dyn Disk>,
            &mut |_, _| Ok(()),
        );
        assert_eq!(again.unwrap_err().kind(), Kind::Exists);
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
        let first = match name.split(['-', '.']).nth(1).and_then(|number| number.parse().ok()) {
            Some(number) if name.ends_with(".pack") => number,
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
                .any(|lost| lost.commit == commits[2] && lost.detail.contains(&**name))
        );
        passing += usize::from(kept[3] && kept[5]);
    }
    assert!(passing > 0, "what was replaced is no loss for those after");
}

#[test]
fn what_a_collection_left_and_what_is_below_is_kept() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, mut commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, None)).unwrap();
        store.pin(&commits[0]).unwrap();
        store.collect(&commits[2]).unwrap();
        while store.collect_step(100).unwrap() {}
        store.close().unwrap();
        let (found, target) = repair(&upper, None).unwrap();
        assert_eq!(kept(&found, &target, &commits), [true, false, true, true, true, true]);
        assert!(found.lost.is_empty(), "what was collected is no loss: {found:?}");
        let blind = upper.crash(Crash::Process);
        blind.remove("control").unwrap();
        let (found, target) = repair(&blind, None).unwrap();
        kept(&found, &target, &commits);
        assert!(found.damage.iter().any(|it| it.contains("sparse files")), "{found:?}");
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        commits.push(commit(&mut store, commits.last(), 6).unwrap());
        assert!(store.archive(&commits[6], u64::MAX).unwrap() > 0);
        store.close().unwrap();
        let (found, target) = repair(&upper, Some(&lower)).unwrap();
        assert_eq!(kept(&found, &target, &commits), [true, false, true, true, true, true, true]);
        assert!(found.damage.is_empty() && found.missing.is_empty(), "{found:?}");
    }
}

#[test]
fn missing_and_damaged_volumes_are_named_and_what_is_above_of_them_is_kept() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.archive(&commits[4], u64::MAX).unwrap();
    store.close().unwrap();
    let (found, target) = repair(&upper, None).unwrap();
    let those = kept(&found, &target, &commits);
    assert!(those[4] && those[5] && !those[1], "{found:?}");
    assert!(found.missing.iter().any(|name| name.contains("0000-000001.pack")), "{found:?}");
    for name in packs(&lower) {
        let less = lower.crash(Crash::Process);
        less.remove(&name).unwrap();
        let (found, target) = repair(&upper, Some(&less)).unwrap();
        let those = kept(&found, &target, &commits);
        assert!(those[4] && those[5], "{found:?}");
        assert!(found.missing.iter().any(|missing| missing.contains(&name)), "{found:?}");
    }
    // A part above that is damaged is in the volume too, and the other way round.
    let hot = packs(&upper).into_iter().find(|name| name.matches('-').count() == 2).unwrap();
    let damaged = upper.crash(Crash::Process);
    let mut bytes = upper.bytes(&hot).unwrap();
    bytes[60] ^= 1;
    damaged.damage(&hot, bytes).unwrap();
    let (found, target) = repair(&damaged, Some(&lower)).unwrap();
    assert_eq!(kept(&found, &target, &commits), [true; 6], "{found:?}");
    // All that is left is the volumes.
    let lost = upper.crash(Crash::Process);
    for name in lost.list("").unwrap() {
        if lost.bytes(&name).is_ok() {
            lost.remove(&name).unwrap();
        }
    }
    let (found, target) = repair(&lost, Some(&lower)).unwrap();
    assert_eq!(kept(&found, &target, &commits), [true, true, true, true, false, false]);
}

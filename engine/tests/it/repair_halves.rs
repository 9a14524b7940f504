//! A repair where each of two places has a part: two damaged files of one chunk, and a lower folder that cannot be read everywhere.

use std::sync::Arc;

use varvite::context::{CommitHash, Index, Options, RepairedContext, Store};
use varvite::disk::sim::SimDisk;
use varvite::disk::{Access, Disk, Mode};

use crate::archive_above::{blocks, next, read_all, sized};
use crate::context_archive::{open, packs};
use crate::context_repair::{flipped, repair, with};
use crate::hooked_disk::HookedDisk;
use crate::random::Random;

/// A store with old chunks in a lower folder.
fn archived(index: Index) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>) {
    let (upper, commits) = blocks(index);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, sized(index, Some(&lower))).unwrap();
    store.archive(&commits[100], u64::MAX).unwrap();
    store.close().unwrap();
    (upper, lower, commits)
}

/// Which commits the new store has; all that they have is as it was.
fn kept(found: &RepairedContext, target: &Arc<SimDisk>, commits: &[CommitHash]) -> Vec<usize> {
    let store = open(target, sized(Index::Minimal, None)).unwrap();
    assert_eq!(store.check().unwrap().commits, found.commits);
    let mut kept = Vec::new();
    for (block, commit) in commits.iter().enumerate() {
        if store.exists(commit).unwrap() {
            read_all(&store, commit, block as u16).unwrap();
            kept.push(block);
        }
    }
    assert_eq!(kept.len() as u64, found.commits);
    kept
}

#[test]
fn two_damaged_files_of_one_chunk_are_read_as_one() {
    let mut random = Random::new(4);
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = archived(index);
        for name in packs(&lower) {
            let bytes = lower.bytes(&name).unwrap();
            let all: Vec<usize> = (0..commits.len()).collect();
            for round in 0..6 {
                // A move was cut off; each of both files has a bit that is wrong, far from that of the other.
                let first = random.index(bytes.len() / 3);
                let second = bytes.len() / 2 + random.index(bytes.len() / 3);
                let places = if round % 2 == 0 { [first, second] } else { [second, first] };
                let above = with(&upper, &name, Some(bytes.clone()));
                let above = flipped(&above, &name, places[0]);
                let below = flipped(&lower, &name, places[1]);
                // What recent commits need of it would mend some of it as well.
                let part =
                    packs(&above).into_iter().find(|it| it.starts_with(&name[..11]) && *it != name);
                let above = match part {
                    Some(part) => with(&above, &part, None),
                    None => above,
                };
                let (found, target) = repair(&above, Some(&below)).unwrap();
                let there = kept(&found, &target, &commits);
                assert_eq!(there, all, "{index:?}, {name}, {places:?}: {found:?}");
                assert!(!found.is_whole());
            }
        }
    }
}

/// The copy of a store that went on by itself has other records in the same places: nothing of it is the store's.
#[test]
fn nothing_is_taken_from_a_damaged_file_of_a_copy_that_parted() {
    let mut random = Random::new(5);
    let mut parted = 0;
    for index in [Index::Minimal, Index::Always] {
        let [(ours, commits), (theirs, _)] = [0, 300].map(|more| {
            let disk = SimDisk::new(9);
            let large = Options { chunk_bytes: 40_000, seed: Some(9), ..sized(index, None) };
            let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, large).unwrap();
            let mut commits = Vec::new();
            for block in 0..120 {
                let there = if block < 20 { block } else { block + more };
                commits.push(next(&mut store, commits.last(), there).unwrap());
            }
            store.close().unwrap();
            (disk, commits)
        });
        let name = packs(&ours).remove(0);
        let [own, others] = [&ours, &theirs].map(|disk| disk.bytes(&name).unwrap());
        let same = own.iter().zip(&others).take_while(|(own, other)| own == other).count();
        assert!(same > 500 && same < own.len() * 3 / 4, "{same} of {}", own.len());
        for round in 0..8 {
            // The end says nothing of it any more, nor is the chunk sound.
            let mut other = others.clone();
            let end = other.len();
            other[end - 10] ^= 1;
            let below = lower_of(&[&(name.clone(), other)]);
            // A stretch behind where they part, or in front of that too.
            let from = same - [0, 300][round % 2] + random.index((own.len() - same) / 2);
            let mut bytes = own.clone();
            let until = bytes.len().min(from + 200 + random.index(1_000));
            bytes[from..until].fill(0xdb);
            let above = with(&ours, &name, Some(bytes));
            let alone = repair(&above, None).unwrap().0;
            let (found, target) = repair(&above, Some(&below)).unwrap();
            let there = kept(&found, &target, &commits);
            assert_eq!(there.len() as u64, alone.commits, "{index:?}, {round}: {found:?}");
            let is_it = |it: &String| it.contains(&*name) && it.contains("another history");
            assert!(found.damage.iter().any(is_it), "{index:?}, {round}: {found:?}");
            parted += usize::from(alone.commits < 120);
        }
    }
    assert!(parted > 8, "{parted}");
}

/// A folder that cannot be listed, and a file that cannot be opened, are as good as none.
#[test]
fn what_cannot_be_opened_or_listed_below_ends_no_repair() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = archived(index);
        for name in [None, packs(&lower).first().cloned()] {
            let refused = name.clone().unwrap_or_default();
            let below: Arc<dyn Disk> =
                HookedDisk::refusing(Arc::clone(&lower) as Arc<dyn Disk>, move |it| it == refused);
            let above = Arc::clone(&upper) as Arc<dyn Disk>;
            let target = SimDisk::new(77);
            let into = Arc::clone(&target) as Arc<dyn Disk>;
            let found = Store::repair(&above, Some(&below), &into, &mut |_, _| Ok(())).unwrap();
            let there = kept(&found, &target, &commits);
            assert!((100..commits.len()).all(|it| there.contains(&it)), "{name:?}: {there:?}");
            assert_eq!(there.len() == commits.len(), found.lost.is_empty(), "{name:?}");
            let is_it = |it: &String| it.contains("cannot be") && it.contains("denied");
            assert!(found.damage.iter().any(is_it), "{name:?}: {found:?}");
        }
    }
}

/// What cannot be read is as good as damaged.
#[test]
fn what_cannot_be_read_of_the_lower_folder_costs_what_needs_it_alone() {
    for index in [Index::Minimal, Index::Always] {
        let (upper, lower, commits) = archived(index);
        for name in packs(&lower) {
            let length = lower.bytes(&name).unwrap().len() as u64;
            for bad in [0..512, length / 2..length / 2 + 512, length - 512..length, 0..length] {
                let what = (index, &name, &bad);
                let (path, range) = (name.clone(), bad.clone());
                let fails = move |file: &str, offset: u64, count: usize| {
                    file == path && offset < range.end && offset + count as u64 > range.start
                };
                let below: Arc<dyn Disk> =
                    HookedDisk::failing_reads(Arc::clone(&lower) as Arc<dyn Disk>, fails);
                let above = Arc::clone(&upper) as Arc<dyn Disk>;
                let target = SimDisk::new(77);
                let into = Arc::clone(&target) as Arc<dyn Disk>;
                let found = Store::repair(&above, Some(&below), &into, &mut |_, _| Ok(()));
                let found = found.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                let there = kept(&found, &target, &commits);
                // These need nothing from below.
                assert!((100..commits.len()).all(|it| there.contains(&it)), "{what:?}: {there:?}");
                assert!(found.damage.iter().any(|it| it.contains(&*name)), "{what:?}: {found:?}");
                assert_eq!(there.len() == commits.len(), found.lost.is_empty(), "{what:?}");
                // No more than where these bytes are others, with those that are read together with them.
                let mut bytes = lower.bytes(&name).unwrap();
                let end = bad.end.next_multiple_of(4096).min(length) as usize;
                bytes[(bad.start / 4096 * 4096) as usize..end].fill(0xdb);
                let damaged = with(&lower, &name, Some(bytes));
                let (as_damaged, target) = repair(&upper, Some(&damaged)).unwrap();
                assert_eq!(kept(&as_damaged, &target, &commits), there, "{what:?}");
            }
        }
    }
}

#[test]
fn a_chunk_that_nobody_needs_and_that_cannot_be_read_costs_nothing() {
    let (upper, commits) = blocks(Index::Minimal);
    let name = packs(&upper).remove(3);
    let lower = SimDisk::new(2);
    let file = lower.open(&name, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, &upper.bytes(&name).unwrap()).unwrap();
    let path = name.clone();
    let below: Arc<dyn Disk> =
        HookedDisk::failing_reads(Arc::clone(&lower) as Arc<dyn Disk>, move |file, offset, _| {
            file == path && offset >= 512
        });
    let target = SimDisk::new(77);
    let into = Arc::clone(&target) as Arc<dyn Disk>;
    let above = Arc::clone(&upper) as Arc<dyn Disk>;
    let found = Store::repair(&above, Some(&below), &into, &mut |_, _| Ok(())).unwrap();
    assert_eq!(kept(&found, &target, &commits).len(), commits.len());
}

/// Names of files, and what is in them.
type Files = Vec<(String, Vec<u8>)>;

/// A store that has collected, of whose old chunks one file has what is left, and the chunks as they were.
fn joined() -> (Arc<SimDisk>, String, Files, Vec<CommitHash>) {
    let (disk, commits) = blocks(Index::Minimal);
    let whole: Vec<_> =
        packs(&disk).into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect();
    let large = Options { chunk_bytes: 1 << 20, ..sized(Index::Minimal, None) };
    let mut store = open(&disk, large).unwrap();
    for target in [100, 110] {
        store.collect(&commits[target]).unwrap();
        while store.collect_step(100).unwrap() {}
    }
    store.close().unwrap();
    let sparse: Vec<_> =
        packs(&disk).into_iter().filter(|name| name.matches('-').count() == 2).collect();
    assert!(
        sparse[0].starts_with("0000-000000-") && sparse[1] >= "0000-000006".into(),
        "{sparse:?}"
    );
    let file = sparse[0].clone();
    (disk, file, whole, commits)
}

fn lower_of(chunks: &[&(String, Vec<u8>)]) -> Arc<SimDisk> {
    let lower = SimDisk::new(2);
    for (name, bytes) in chunks {
        let file = lower.open(name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, bytes).unwrap();
    }
    lower
}

/// Nothing but its records shows that one in the middle of those that a file stands for is of this history.
#[test]
fn what_is_damaged_of_joined_chunks_is_taken_from_each_that_is_below() {
    let (disk, file, whole, commits) = joined();
    let sound = repair(&disk, None).unwrap().0.commits;
    // The same chunks of a copy that went on otherwise, from the middle on.
    let other = {
        let disk = SimDisk::new(9);
        let made = Options { seed: Some(9), ..sized(Index::Minimal, None) };
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, made).unwrap();
        let mut last = None;
        for block in 0..120 {
            let there = if block < 10 { block } else { block + 300 };
            last = Some(crate::archive_above::next(&mut store, last.as_ref(), there).unwrap());
        }
        store.close().unwrap();
        let all = packs(&disk).into_iter();
        all.map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect::<Vec<_>>()
    };
    let length = disk.bytes(&file).unwrap().len();
    let (mut mended, mut alone) = (0, 0);
    for place in (200..length / 2).step_by(331) {
        let image = flipped(&disk, &file, place);
        let lost = sound - repair(&image, None).unwrap().0.commits;
        if lost == 0 {
            continue;
        }
        let all: Vec<_> = whole.iter().collect();
        let (found, target) = repair(&image, Some(&lower_of(&all))).unwrap();
        assert_eq!(kept(&found, &target, &commits).len() as u64, sound, "{place}");
        mended += 1;
        // The last of those that the file stands for is told by its end.
        let middle = whole.iter().take(6).skip(1);
        let keeps = |chunk: &&(String, Vec<u8>)| {
            let (found, target) = repair(&image, Some(&lower_of(&[*chunk]))).unwrap();
            kept(&found, &target, &commits).len() as u64 == sound
        };
        alone += usize::from(middle.into_iter().any(|chunk| keeps(&chunk)));
        for chunk in other.iter().skip(3).take(8) {
            let (found, target) = repair(&image, Some(&lower_of(&[chunk]))).unwrap();
            assert_eq!(sound - kept(&found, &target, &commits).len() as u64, lost, "{place}");
        }
    }
    assert!(mended > 2 && alone > 1, "{mended} with all, {alone} with one alone");
}

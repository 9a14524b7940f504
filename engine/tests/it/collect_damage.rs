//! A store that was collected, or is being collected, with a byte of a file wrong: what is kept is right, or damage
//! is told, and a collection that goes on takes nothing that is kept.

use std::sync::Arc;

use varvite::context::{CollectPhase, CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::{Kind, Result};

fn options(index: Index) -> Options {
    Options {
        index,
        seed: Some(9),
        chunk_bytes: 2_000,
        pages_bytes: 0,
        objects_bytes: 0,
        ..Options::default()
    }
}

/// The same with pages in memory: what was read from one file is never taken for what another says.
fn cached(index: Index) -> Options {
    Options { pages_bytes: 64 << 10, objects_bytes: 64 << 10, ..options(index) }
}

fn value(date: i64) -> Vec<u8> {
    date.to_le_bytes().repeat(8)
}

/// Each commit has one value of its own, which stays, and one that the next replaces.
fn commit(store: &mut Store, before: Option<&CommitHash>, date: i64) -> CommitHash {
    let mut tree = before.map_or_else(|| store.empty_tree(), |it| store.checkout(it).unwrap());
    tree.add(&["lasting", &format!("{date:04}")], &value(date)).unwrap();
    tree.add(&["passing"], &value(-date)).unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[], date, "a", "b")).unwrap()
}

/// The commits that are kept, with their dates.
type Kept = Vec<(i64, CommitHash)>;

const COMMITS: i64 = 14;

/// A store that collected twice, and a third time up to `phase`; a commit from before all is pinned.
fn collected(index: Index, phase: CollectPhase) -> (Arc<MemoryDisk>, Kept) {
    let disk = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::<MemoryDisk>::clone(&disk), options(index)).unwrap();
    let mut commits: Vec<CommitHash> = Vec::new();
    for date in 0..COMMITS {
        let hash = commit(&mut store, commits.last(), date);
        commits.push(hash);
        match date {
            2 => store.pin(&hash).unwrap(),
            5 | 9 => {
                store.collect(&commits[date as usize - 2]).unwrap();
                while store.collect_step(50).unwrap() {}
            }
            _ => {}
        }
    }
    let mut kept = vec![2, 7, 8, 9, 10, 11, 12, 13];
    if phase != CollectPhase::None {
        store.collect(&commits[11]).unwrap();
        store.collect_step(1).unwrap();
        if phase == CollectPhase::Cleaning {
            let mut chunks = u64::MAX;
            loop {
                let status = store.collect_status().unwrap();
                // In the middle: one chunk was taken away.
                if status.phase == CollectPhase::Cleaning {
                    if status.chunks_left < chunks && chunks != u64::MAX {
                        break;
                    }
                    chunks = status.chunks_left;
                }
                assert!(store.collect_step(1).unwrap(), "it is over");
            }
            kept.retain(|date| *date == 2 || *date >= 11);
        }
        assert_eq!(store.collect_status().unwrap().phase, phase);
    }
    let kept = kept.into_iter().map(|date| (date, commits[date as usize])).collect();
    (disk.snapshot(), kept)
}

/// Reads the commits in `kept`: each is right, or the first error is given. What `may_be_lost` is not asked for.
fn read(store: &Store, kept: &[(i64, CommitHash)], what: &dyn std::fmt::Debug) -> Result<()> {
    for (date, hash) in kept {
        let tree = store.checkout(hash)?;
        let from = if *date == 2 { 0 } else { *date - 3 };
        for date in from..=*date {
            let found = tree.find(&["lasting", &format!("{date:04}")])?;
            assert_eq!(found, Some(value(date)), "{what:?}");
        }
        assert_eq!(tree.find(&["passing"])?, Some(value(-*date)), "{what:?}");
    }
    Ok(())
}

/// `error` tells of damage: it never says that what is kept was collected.
fn expect_told(error: &varvite::Error, may_be_lost: bool, what: &dyn std::fmt::Debug) {
    let told = [Kind::Corrupt, Kind::Version, Kind::Invalid].contains(&error.kind());
    // The end of the last chunk may look as a crash leaves it.
    let lost = may_be_lost && error.kind() == Kind::Missing;
    assert!(told || lost, "{what:?}: {error:?}");
}

fn damage_everywhere(index: Index, phase: CollectPhase, options: fn(Index) -> Options) {
    let (sound, kept) = collected(index, phase);
    let files: Vec<String> = sound
        .files()
        .into_iter()
        .filter(|name| name == "control" || name.contains(".pack"))
        .collect();
    assert!(files.iter().any(|name| name.matches('-').count() > 1), "{files:?}: none is sparse");
    let newest = files.iter().filter(|name| name.contains(".pack")).max().unwrap();
    let (mut told, mut harmless) = (0, 0);
    for name in &files {
        let bytes = sound.bytes(name).unwrap();
        // All of what is replaced whole; of chunks what lies at a place or between.
        let step = if name == "control" { 1 } else { 7 };
        for at in (0..bytes.len()).step_by(step).filter(|at| bytes[*at] != 0 || at % 5 == 0) {
            let what = (index, phase, name, at);
            let may_be_lost = name == newest;
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let disk = sound.snapshot();
            disk.replace(name, damaged).unwrap();
            let reader = Store::open_read_only(disk.snapshot(), options(index));
            match reader.and_then(|store| read(&store, &kept, &what)) {
                Ok(()) => harmless += 1,
                Err(error) => {
                    expect_told(&error, may_be_lost, &what);
                    told += 1;
                }
            }
            // A writer goes on with the collection, or begins one.
            let outcome = Store::open(disk, options(index)).and_then(|mut store| {
                if phase == CollectPhase::None {
                    store.collect(&kept[kept.len() - 2].1)?;
                }
                while store.collect_step(50)? {}
                let from = store.log(1)?.len().min(1);
                assert_eq!(from, 1, "{what:?}");
                let stays = |date: i64| {
                    date == 2 || date >= if phase == CollectPhase::None { 12 } else { 11 }
                };
                let kept: Kept = kept.iter().copied().filter(|(date, _)| stays(*date)).collect();
                read(&store, &kept, &what)
            });
            if let Err(error) = outcome {
                expect_told(&error, may_be_lost, &what);
            }
        }
    }
    println!("{index:?}, {phase:?}: {told} told, {harmless} harmless");
    assert!(told > 300, "{told}");
}

#[test]
fn damage_of_a_collected_store_takes_nothing_that_is_kept() {
    damage_everywhere(Index::Minimal, CollectPhase::None, options);
    damage_everywhere(Index::Always, CollectPhase::None, options);
}

#[test]
fn damage_of_a_collected_store_whose_pages_are_in_memory_takes_nothing_that_is_kept() {
    damage_everywhere(Index::Minimal, CollectPhase::None, cached);
}

#[test]
fn damage_beside_a_collection_that_marks_takes_nothing_that_is_kept() {
    damage_everywhere(Index::Minimal, CollectPhase::Marking, options);
}

#[test]
fn damage_beside_a_collection_that_cleans_takes_nothing_that_is_kept() {
    damage_everywhere(Index::Minimal, CollectPhase::Cleaning, options);
    damage_everywhere(Index::Always, CollectPhase::Cleaning, options);
}

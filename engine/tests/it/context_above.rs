//! What recent commits have of chunks in the lower folder is above, too, so that they never ask the other disk.

use std::sync::Arc;

use varvite::context::{ChunkState, CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

use crate::context_archive::{commit, holds, made, open, options, packs, value};

pub const INDEXES: [Index; 2] = [Index::Minimal, Index::Always];

/// Every commit from `first` on is there, whole.
pub fn holds_from(store: &Store, commits: &[CommitHash], first: usize, what: &dyn std::fmt::Debug) {
    for (block, hash) in (0..).zip(commits).skip(first) {
        let tree = store.checkout(hash).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let found = tree.find(&["passing"]).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        assert_eq!(found, Some(value(block)), "{what:?}");
        for before in 0..=block {
            let found = tree.find(&["lasting", &before.to_string()]);
            let found =
                found.unwrap_or_else(|error| panic!("{what:?}: {block}, {before}: {error}"));
            assert_eq!(found, Some(value(before)), "{what:?}: {block}, {before}");
        }
    }
}

/// An archive that was opened again since its chunks went below: of six commits those from `to` on are recent.
pub fn archived(index: Index, to: usize) -> (Arc<SimDisk>, Arc<SimDisk>, Vec<CommitHash>, Store) {
    let (upper, commits) = made(index, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(index, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[to], u64::MAX).unwrap(), to as u64);
    store.close().unwrap();
    let store = open(&upper, options(index, Some(&lower))).unwrap();
    (upper, lower, commits, store)
}

/// The value of commit `block` that the next replaced cannot be read, and the error names the chunk.
pub fn lacks(store: &Store, commits: &[CommitHash], block: usize) {
    let error = store.checkout(&commits[block]).and_then(|tree| tree.find(&["passing"]));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.to_string().contains(&format!("0000-00000{block}.pack")), "{error}");
    assert!(error.to_string().contains("lower folder"), "{error}");
}

/// The parts above: of each its chunk, and whether it is there.
pub fn parts(store: &Store) -> Vec<(u64, bool)> {
    let chunks = store.chunks();
    let below = chunks.iter().filter(|chunk| chunk.state == ChunkState::Lower);
    below.map(|chunk| (chunk.number, chunk.above_bytes > 0)).collect()
}

#[test]
fn recent_commits_never_touch_the_lower_disk() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 4);
        let calls = lower.calls();
        holds_from(&store, &commits, 4, &index);
        for block in 6..12 {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
        }
        // With every object known by its hash an old value would be found below.
        let mut tree = store.checkout(&commits[11]).unwrap();
        tree.remove(&["lasting", "0"]).unwrap();
        tree.add(&["lasting", "0"], &value(0)).unwrap();
        tree.add(&["again"], &value(2)).unwrap();
        store.commit(&mut tree, &CommitInfo::new(&[commits[11]], 12, "a", "b")).unwrap();
        assert_eq!(store.log(8).unwrap().len(), 8);
        store.close().unwrap();
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds_from(&store, &commits, 4, &index);
        assert_eq!(lower.calls(), calls, "{index:?}");
        // Older ones do.
        holds_from(&store, &commits, 0, &index);
        assert!(lower.calls().reads > calls.reads);
        assert_eq!(parts(&store), [(0, true), (1, true), (2, true), (3, true)]);
    }
}

#[test]
fn without_the_folder_recent_commits_are_whole_and_its_return_brings_back_the_others() {
    for index in INDEXES {
        let (upper, lower, mut commits, store) = archived(index, 4);
        drop(store);
        let empty = SimDisk::new(3);
        for lost in [None, Some(&empty)] {
            let mut store = open(&upper, options(index, lost)).unwrap();
            assert_eq!(store.warnings(), Vec::<String>::new());
            holds_from(&store, &commits, 4, &index);
            let mut sharing = store.sharing(&commits[4..6]).unwrap();
            while sharing.step(&store, 3).unwrap() {}
            assert!(sharing.parts().iter().any(|part| part.commits == 0b11), "{sharing:?}");
            lacks(&store, &commits, 1);
            let block = commits.len() as u8;
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            holds_from(&store, &commits, 4, &index);
            store.close().unwrap();
        }
        // One chunk alone is lost.
        let less = lower.crash(Crash::Process);
        less.remove("0000-000002.pack").unwrap();
        let store = open(&upper, options(index, Some(&less))).unwrap();
        holds_from(&store, &commits, 4, &index);
        store.checkout(&commits[1]).unwrap().find(&["passing"]).unwrap();
        lacks(&store, &commits, 2);
        drop(store);
        holds(&open(&upper, options(index, Some(&lower))).unwrap(), &commits, &"put back");
    }
}

#[test]
fn what_is_below_alone_is_written_again_by_spills_and_imports_too() {
    let (upper, lower, commits, store) = archived(Index::Always, 5);
    drop(store);
    // A commit of another store that has a value of an old one.
    let file = SimDisk::new(7);
    let target = Arc::clone(&file) as Arc<dyn Disk>;
    let (other, _) = made(Index::Minimal, 10);
    let mut other = open(&other, options(Index::Minimal, None)).unwrap();
    let mut tree = other.empty_tree();
    tree.add(&["imported"], &value(3)).unwrap();
    let imported = other.commit(&mut tree, &CommitInfo::new(&[], 7, "a", "b")).unwrap();
    other.export_commit(&imported, &target, "one").unwrap();
    let small = Options { tree_bytes: 0, ..options(Index::Always, Some(&lower)) };
    let mut store = open(&upper, small).unwrap();
    let calls = lower.calls();
    let mut tree = store.checkout(&commits[5]).unwrap();
    for block in 0..5_u8 {
        // Values that only old commits have, as values of their own.
        tree.add(&["again", &block.to_string()], &value(block)).unwrap();
    }
    let mut other = store.empty_tree();
    other.add(&["passing"], &value(2)).unwrap();
    let first = store.commit(&mut tree, &CommitInfo::new(&[commits[5]], 7, "a", "b")).unwrap();
    let second = store.commit(&mut other, &CommitInfo::new(&[first], 8, "a", "b")).unwrap();
    store.import_commit(&*file, "one").unwrap();
    drop(store);
    let without = open(&upper, options(Index::Always, None)).unwrap();
    for block in 0..5_u8 {
        let found = without.checkout(&first).unwrap().find(&["again", &block.to_string()]);
        assert_eq!(found.unwrap(), Some(value(block)));
    }
    let found = without.checkout(&second).unwrap().find(&["passing"]).unwrap();
    assert_eq!((found, lower.calls()), (Some(value(2)), calls));
    let found = without.checkout(&imported).unwrap().find(&["imported"]).unwrap();
    assert_eq!(found, Some(value(3)));
    drop(without);
    let store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    let checked = store.check().unwrap();
    assert_eq!((checked.index_faults, checked.part_faults), (Vec::new(), Vec::new()));
}

#[test]
fn the_next_call_brings_above_what_became_recent_since() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 5);
        // After an opening it is found out once more what should be above.
        assert_eq!(store.archive(&commits[5], u64::MAX).unwrap(), 0);
        store.pin(&commits[1]).unwrap();
        // A commit of an old tree.
        let mut tree = store.checkout(&commits[2]).unwrap();
        tree.add(&["fork"], &value(77)).unwrap();
        let info = CommitInfo::new(&[commits[2]], 77, "a", "fork");
        let fork = store.commit(&mut tree, &info).unwrap();
        drop(store);
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 5, &index);
        lacks(&without, &commits, 1);
        drop(without);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert!(store.archive(&commits[5], u64::MAX).unwrap() > 0);
        assert_eq!(store.archive(&commits[5], u64::MAX).unwrap(), 0);
        store.set_branch(b"old", &commits[3]).unwrap();
        assert!(store.archive(&commits[5], 1).unwrap() > 0, "{index:?}: known in memory, too");
        while store.archive(&commits[5], 1).unwrap() > 0 {}
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits[..2], 1, &index);
        holds_from(&without, &commits[..4], 3, &index);
        holds_from(&without, &commits, 5, &index);
        let tree = without.checkout(&fork).unwrap();
        assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(2)));
        assert_eq!(tree.find(&["lasting", "0"]).unwrap(), Some(value(0)));
        lacks(&without, &commits, 4);
        drop(without);
        // What is recent no more goes below alone.
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        store.unpin(&commits[1]).unwrap();
        store.remove_branch(b"old").unwrap();
        commits.push(commit(&mut store, commits.last(), 6).unwrap());
        store.archive(&commits[6], u64::MAX).unwrap();
        holds_from(&store, &commits[..6], 0, &index);
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 6, &index);
        lacks(&without, &commits, 1);
        lacks(&without, &commits, 3);
    }
}

#[test]
fn a_target_that_is_older_than_what_is_below_comes_back() {
    for index in INDEXES {
        let (upper, lower, commits, mut store) = archived(index, 5);
        // Those of the second to the fifth commit, and the part of the first.
        assert!(store.archive(&commits[1], u64::MAX).unwrap() >= 4);
        assert_eq!(parts(&store).len(), 1);
        assert_eq!(packs(&lower), ["0000-000000.pack"]);
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 1, &index);
        lacks(&without, &commits, 0);
        drop(without);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        assert_eq!(store.unarchive(u64::MAX).unwrap(), 1);
        assert!(packs(&upper).iter().all(|name| name.matches('-').count() == 1), "no part stays");
        holds(&store, &commits, &index);
    }
}

#[test]
fn what_is_above_follows_the_commits_that_are_recent() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 4);
        for block in 6..40 {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            let line = commits[commits.len() - 3];
            while store.archive(&line, 1).unwrap() > 0 {
                // A commit between two chunks refers to what is above alone.
                if block % 7 == 0 {
                    let mut tree = store.checkout(commits.last().unwrap()).unwrap();
                    tree.add(&["passing"], &value(block)).unwrap();
                    tree.add(&["between"], &value(block / 2)).unwrap();
                    store.hash(&tree, &CommitInfo::default()).unwrap();
                }
            }
        }
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, commits.len() - 3, &index);
        drop(without);
        let store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &index);
        // A replaced value of each block is below alone.
        let all: u64 = store.chunks().iter().map(|chunk| chunk.written_bytes).sum();
        let files: u64 =
            packs(&upper).iter().map(|name| upper.bytes(name).unwrap().len() as u64).sum();
        assert!(files < 2 * all + 40 * 8200, "{files} of {all}");
    }
}

#[test]
fn a_commit_beside_a_round_refers_to_what_it_keeps_above() {
    for index in INDEXES {
        let (upper, commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        let old = store.checkout(&commits[1]).unwrap();
        assert_eq!(store.archive(&commits[5], 3).unwrap(), 3);
        // The round is under way: what an old tree has, and its value of then, the new commit has, too.
        let mut tree = old;
        tree.add(&["new"], &value(99)).unwrap();
        let fork = store.commit(&mut tree, &CommitInfo::new(&[commits[1]], 9, "a", "b")).unwrap();
        // And so has one that is pinned now.
        store.pin(&commits[2]).unwrap();
        while store.archive(&commits[5], 1).unwrap() > 0 {}
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        let tree = without.checkout(&fork).unwrap();
        assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(1)), "{index:?}");
        assert_eq!(tree.find(&["lasting", "0"]).unwrap(), Some(value(0)));
        holds_from(&without, &commits[..3], 2, &index);
        holds_from(&without, &commits, 5, &index);
    }
}

/// What a damaged or lost part costs: reads below, a finding of a check, and the next call makes it anew.
#[test]
fn damage_above_costs_reads_below_and_nothing_else() {
    for index in INDEXES {
        let (upper, lower, commits, store) = archived(index, 4);
        drop(store);
        let name = "0000-000001-1.pack";
        let whole = upper.bytes(name).unwrap();
        let effort = whole.len().div_ceil(120);
        let mut damages: Vec<Option<Vec<u8>>> = vec![None, Some(whole[..whole.len() / 2].to_vec())];
        damages.push(Some(upper.bytes("0000-000002-1.pack").unwrap()));
        for place in (0..whole.len()).step_by(effort) {
            let mut flipped = whole.clone();
            flipped[place] ^= 0x10;
            damages.push(Some(flipped));
        }
        let mut found = 0;
        for damage in damages {
            let (upper, lower) = (upper.crash(Crash::Process), lower.crash(Crash::Process));
            let what = (index, damage.as_ref().map(Vec::len));
            match damage {
                Some(damaged) => upper.damage(name, damaged).unwrap(),
                None => upper.remove(name).unwrap(),
            }
            let store = open(&upper, options(index, Some(&lower))).unwrap();
            let checked = store.check().unwrap();
            found += usize::from(!checked.part_faults.is_empty());
            holds_from(&store, &commits, 0, &what);
            drop(store);
            let without = open(&upper, options(index, None)).unwrap();
            let read = without.checkout(&commits[5]).and_then(|tree| tree.find(&["lasting", "1"]));
            match read {
                Ok(found) => assert_eq!(found, Some(value(1)), "{what:?}"),
                Err(error) => {
                    assert!(error.to_string().contains("0000-000001"), "{what:?}: {error}");
                    assert!(!checked.part_faults.is_empty(), "{what:?}: {error}");
                }
            }
            drop(without);
            let mut store = open(&upper, options(index, Some(&lower))).unwrap();
            store.archive(&commits[4], u64::MAX).unwrap();
            store.close().unwrap();
            let without = open(&upper, options(index, None)).unwrap();
            if checked.part_faults.is_empty() {
                continue;
            }
            holds_from(&without, &commits, 4, &what);
        }
        assert!(found > 60, "{found}");
    }
}

/// Archives, commits, archives again and back, with the n-th change of a disk as its last.
fn dies(index: Index, n: u64, kills_lower: bool, images: &mut u64) -> Result<bool> {
    let (upper, lower, mut commits, mut store) = archived(index, 2);
    let killed = if kills_lower { &lower } else { &upper };
    killed.kill_at(n);
    let outcome = (|| {
        commits.push(commit(&mut store, commits.last(), 6)?);
        store.pin(&commits[0])?;
        store.archive(&commits[5], 3)?;
        store.archive(&commits[5], u64::MAX)?;
        store.unarchive(2)?;
        store.archive(&commits[4], u64::MAX)
    })();
    if !killed.is_dead() {
        outcome?;
        return Ok(false);
    }
    drop(store);
    for (crash, image) in killed.crash_images(5, 5) {
        *images += 1;
        let what = (index, n, kills_lower, crash);
        let image = image.crash(Crash::Process);
        let other = if kills_lower { &upper } else { &lower };
        let other = other.crash(Crash::Process);
        let (upper, lower) = if kills_lower { (other, image) } else { (image, other) };
        let store = open(&upper, options(index, Some(&lower)))
            .unwrap_or_else(|error| panic!("{what:?}: {error}"));
        let there = store.log(usize::MAX)?.len();
        let mut commits = commits.clone();
        if there > commits.len() {
            // The commit that was dying is there all the same.
            commits.extend(store.last_commit()?);
        }
        assert!(there >= 6, "{what:?}");
        holds(&store, &commits[..there], &what);
        assert_eq!(store.check()?.part_faults, Vec::<String>::new(), "{what:?}");
        drop(store);
        let without =
            open(&upper, options(index, None)).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        holds_from(&without, &commits[..there], 5, &what);
        drop(without);
        let mut store = open(&upper, options(index, Some(&lower)))?;
        // What a dead writer left in work is in nobody's way.
        commits.push(commit(&mut store, commits.last(), there as u8)?);
        store.archive(&commits[5], u64::MAX)?;
        store.close()?;
        let without = open(&upper, options(index, None))?;
        holds_from(&without, &commits, 5, &what);
    }
    Ok(true)
}

#[test]
fn a_crash_at_any_change_leaves_every_commit_and_recent_ones_above() {
    for index in INDEXES {
        for kills_lower in [false, true] {
            let mut images = 0;
            let places = (1..10_000)
                .take_while(|n| dies(index, *n, kills_lower, &mut images).unwrap())
                .count();
            assert!(places > 20 && images > 60, "{places}, {images}");
        }
    }
}

#[test]
fn after_any_failed_call_every_commit_is_there() {
    for fails_lower in [true, false] {
        for kind in [Fault::Read, Fault::Write, Fault::Sync, Fault::Rename, Fault::Remove] {
            for n in 1.. {
                let (upper, lower, mut commits, mut store) = archived(Index::Always, 2);
                commits.push(commit(&mut store, commits.last(), 6).unwrap());
                let failing = if fails_lower { &lower } else { &upper };
                let calls = failing.calls().of(kind);
                failing.fail_at(n, kind);
                let outcome = store.archive(&commits[5], u64::MAX);
                let what = (fails_lower, kind, n);
                if failing.calls().of(kind) < calls + n {
                    outcome.unwrap();
                    break;
                }
                failing.disarm();
                if n % 2 == 0 {
                    // Unless it is poisoned, the same handle goes on.
                    match store.archive(&commits[5], u64::MAX) {
                        Ok(_) => holds(&store, &commits, &what),
                        Err(error) => assert_eq!(error.kind(), Kind::Poisoned, "{what:?}"),
                    }
                }
                drop(store);
                let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
                holds(&store, &commits, &what);
                store.archive(&commits[5], u64::MAX).unwrap();
                holds(&store, &commits, &what);
                store.close().unwrap();
                let store = open(&upper, options(Index::Always, None)).unwrap();
                holds_from(&store, &commits, 5, &what);
            }
        }
    }
}

#[test]
fn a_store_that_is_full_keeps_its_chunks_above() {
    let (upper, commits) = made(Index::Minimal, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    let names = upper.list("").unwrap();
    let bytes = names.iter().filter_map(|name| upper.bytes(name).ok());
    let all: u64 = bytes.map(|bytes| bytes.len() as u64).sum();
    upper.capacity(Some(all + 64));
    store.archive(&commits[4], u64::MAX).unwrap_err();
    upper.capacity(None);
    drop(store);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    holds(&store, &commits, &"full");
    assert!(store.archive(&commits[4], u64::MAX).unwrap() > 0);
    holds(&store, &commits, &"with room");
}

#[test]
fn readers_beside_it_find_every_commit() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 2);
        let reader = |lower: Option<&Arc<SimDisk>>| {
            let disk = Arc::clone(&upper) as Arc<dyn Disk>;
            let few = Options { max_open_files: Some(1), ..options(index, lower) };
            Store::open_read_only(disk, few).unwrap()
        };
        let (mut with, mut without) = (reader(Some(&lower)), reader(None));
        for block in 6..14 {
            let known = commits.len();
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            store.archive(&commits[known - 1], u64::MAX).unwrap();
            holds(&with, &commits[..known], &"before its reload");
            assert_eq!(with.check().unwrap().part_faults, Vec::<String>::new());
            holds_from(&without, &commits[..known], known - 1, &"before its reload, without");
            with.reload().unwrap();
            without.reload().unwrap();
            holds(&with, &commits, &"after it");
            holds_from(&without, &commits, known - 1, &"after it, without");
        }
    }
}

#[test]
fn a_reader_follows_a_part_that_has_the_name_of_the_one_before() {
    for index in INDEXES {
        let (upper, lower, commits, mut store) = archived(index, 4);
        let name = "0000-000001-1.pack";
        let before = upper.bytes(name).unwrap();
        let reader = || {
            let disk = Arc::clone(&upper) as Arc<dyn Disk>;
            let few = Options { max_open_files: Some(1), ..options(index, Some(&lower)) };
            Store::open_read_only(disk, few).unwrap()
        };
        let (fresh, used) = (reader(), reader());
        holds(&used, &commits, &index);
        assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
        store.pin(&commits[1]).unwrap();
        store.archive(&commits[4], u64::MAX).unwrap();
        assert_ne!(upper.bytes(name).unwrap(), before, "another file of the same name");
        for reader in [&fresh, &used] {
            holds(reader, &commits, &index);
        }
    }
}

#[test]
fn a_repair_takes_recent_commits_from_above_and_says_which_are_lost() {
    for index in INDEXES {
        let (upper, lower, commits, store) = archived(index, 4);
        drop(store);
        let repaired = |upper: &Arc<SimDisk>, lower: Option<&Arc<SimDisk>>| {
            let [source, below] =
                [Some(upper), lower].map(|disk| disk.map(|disk| Arc::clone(disk) as Arc<dyn Disk>));
            let target = SimDisk::new(8);
            let to = Arc::clone(&target) as Arc<dyn Disk>;
            let found =
                Store::repair(&source.unwrap(), below.as_ref(), &to, &mut |_, _| Ok(())).unwrap();
            (found, open(&target, Options::default()).unwrap())
        };
        let (found, store) = repaired(&upper, Some(&lower));
        assert!(found.is_whole() && found.commits == 6, "{found:?}");
        holds(&store, &commits, &index);
        let (found, store) = repaired(&upper, None);
        assert_eq!((found.commits, found.lost.len(), found.missing.len()), (2, 2, 4), "{found:?}");
        holds_from(&store, &commits, 4, &index);
        // A part with a bad mapping: its records are found without.
        let damaged = upper.crash(Crash::Process);
        let name = "0000-000001-1.pack";
        let mut bytes = damaged.bytes(name).unwrap();
        let last = bytes.len() - 40;
        bytes[last] ^= 1;
        damaged.damage(name, bytes).unwrap();
        let (found, store) = repaired(&damaged, None);
        assert_eq!((found.commits, found.lost.len()), (2, 2), "{found:?}");
        assert!(found.damage.iter().any(|damage| damage.contains(name)), "{found:?}");
        holds_from(&store, &commits, 4, &index);
        // Each mends the other.
        let less = lower.crash(Crash::Process);
        let name = "0000-000002.pack";
        let bytes = less.bytes(name).unwrap();
        less.damage(name, vec![0; bytes.len()]).unwrap();
        let (found, store) = repaired(&upper, Some(&less));
        assert_eq!((found.commits, found.lost.len()), (5, 1), "{found:?}");
        holds_from(&store, &commits, 3, &index);
        holds_from(&store, &commits[..2], 0, &index);
    }
}

#[test]
fn what_comes_back_by_an_attachment_is_above_after_the_next_call() {
    for index in INDEXES {
        let (upper, mut commits) = made(index, 9);
        let lower = SimDisk::new(2);
        for name in packs(&upper).iter().take(5) {
            let file =
                lower.open(name, varvite::disk::Mode::Create, varvite::disk::Access::Buffered);
            file.unwrap().write_at(0, &upper.bytes(name).unwrap()).unwrap();
        }
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        store.collect(&commits[4]).unwrap();
        while store.collect_step(100).unwrap() {}
        commits.push(commit(&mut store, commits.last(), 6).unwrap());
        assert!(store.attach().unwrap() > 0);
        holds(&store, &commits, &index);
        commits.push(commit(&mut store, commits.last(), 7).unwrap());
        assert!(store.archive(&commits[6], u64::MAX).unwrap() > 0);
        commits.push(commit(&mut store, commits.last(), 8).unwrap());
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 6, &index);
        drop(without);
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        holds(&store, &commits, &index);
        // And to a store that rolls.
        while store.unarchive(1).unwrap() > 0 {}
        store.collect(&commits[7]).unwrap();
        while store.collect_step(100).unwrap() {}
        store.close().unwrap();
        let store = open(&upper, options(index, None)).unwrap();
        holds_from(&store, &commits, 7, &index);
        assert_eq!(store.check().unwrap().index_faults, Vec::<String>::new());
    }
}

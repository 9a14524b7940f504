//! Patches whose base stays for nothing else are written without it: what that saves, and trees and readers that still know
//! of the base.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::Result;
use varvite::context::{
    ChunkInfo, ChunkState, CollectPhase, CommitHash, CommitInfo, Index, Options, Store, Tree,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, SimDisk};

use crate::context_collect::{Content, content};
use crate::hooked_disk::{Call, HookedDisk};
use crate::random::Random;

/// Names in a directory: some in one piece, some in an inode tree.
const NAMES: [usize; 2] = [40, 700];

pub fn options(index: Index) -> Options {
    Options { index, seed: Some(4), chunk_bytes: 60_000, ..Options::default() }
}

pub fn change(tree: &mut Tree, random: &mut Random, changes: usize) {
    for _ in 0..changes {
        for (directory, names) in ["few", "many"].into_iter().zip(NAMES) {
            let name = format!("name-{:04}", random.index(names));
            if random.index(8) == 0 {
                tree.remove(&[directory, &name]).unwrap();
            } else {
                let length = random.index(24);
                tree.add(&[directory, &name], &random.bytes(length)).unwrap();
            }
        }
    }
}

pub fn put(
    store: &mut Store,
    tree: &mut Tree,
    parent: Option<CommitHash>,
    date: i64,
) -> CommitHash {
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    store.commit(tree, &CommitInfo::new(&parents, date, "me", "own")).unwrap()
}

/// A store of many commits, each upon the one before.
fn store(disk: &Arc<MemoryDisk>, index: Index, random: &mut Random) -> (Store, Vec<CommitHash>) {
    store_on(Arc::clone(disk) as Arc<dyn Disk>, options(index), random)
}

pub fn store_on(
    disk: Arc<dyn Disk>,
    options: Options,
    random: &mut Random,
) -> (Store, Vec<CommitHash>) {
    let mut store = Store::create(disk, options).unwrap();
    let mut commits: Vec<CommitHash> = Vec::new();
    for date in 0..120 {
        let parent = commits.last().copied();
        let mut tree = parent.map_or_else(|| store.empty_tree(), |it| store.checkout(&it).unwrap());
        change(&mut tree, random, if date == 0 { 1000 } else { 4 });
        commits.push(put(&mut store, &mut tree, parent, date));
    }
    (store, commits)
}

pub fn finish(store: &mut Store) -> Result<()> {
    while store.collect_step(50)? {}
    Ok(())
}

/// What the commits take in a store that has nothing else: each but the first is made from the one before.
fn fresh_bytes(store: &Store, commits: &[CommitHash], index: Index) -> u64 {
    let disk = MemoryDisk::seeded(8) as Arc<dyn Disk>;
    let mut fresh = Store::create(disk, options(index)).unwrap();
    let (mut tree, mut held) = (fresh.empty_tree(), Content::new());
    for (date, commit) in commits.iter().enumerate() {
        let next = content(&store.checkout(commit).unwrap()).unwrap();
        for path in held.keys().filter(|path| !next.contains_key(*path)) {
            tree.remove(path).unwrap();
        }
        for (path, value) in next.iter().filter(|(path, value)| held.get(*path) != Some(value)) {
            tree.add(path, value).unwrap();
        }
        let made = put(&mut fresh, &mut tree, None, date as i64);
        (tree, held) = (fresh.checkout(&made).unwrap(), next);
    }
    fresh.stats().pack_bytes
}

#[test]
fn a_collected_store_takes_little_more_than_a_new_one() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(2));
        let (mut store, commits) = store(&disk, index, &mut random);
        let before: Vec<Content> = commits[60..]
            .iter()
            .map(|commit| content(&store.checkout(commit).unwrap()).unwrap())
            .collect();
        for first in [60, 90] {
            store.collect(&commits[first]).unwrap();
            finish(&mut store).unwrap();
            let (bytes, fresh) =
                (store.stats().pack_bytes, fresh_bytes(&store, &commits[first..], index));
            // Mappings take a page for each chunk, and chunks behind the target stay whole, with patches of bases before it.
            assert!(bytes < fresh * 5 / 4 + 8_000, "{index:?} from {first}: {bytes}, new {fresh}");
            for (commit, held) in commits[first..].iter().zip(&before[first - 60..]) {
                assert_eq!(content(&store.checkout(commit).unwrap()).unwrap(), *held);
            }
            let checked = store.check().unwrap();
            assert!(checked.index_faults.is_empty(), "{checked:?}");
        }
        store.close().unwrap();
        let store = Store::open(disk as Arc<dyn Disk>, options(index)).unwrap();
        assert_eq!(store.check().unwrap().commits, 30);
    }
}

/// Trees that were made before a collection know of bases that it does away with; one is changed and committed in each of
/// its states, and once more behind it.
#[test]
fn a_tree_of_before_is_committed_though_the_base_of_its_records_went() {
    for index in [Index::Minimal, Index::Always] {
        for seed in 0..3 {
            let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(20 + seed));
            let (mut store, mut commits) = store(&disk, index, &mut random);
            let mut held: Vec<(Tree, CommitHash)> = Vec::new();
            for commit in &commits[95..] {
                let mut tree = store.checkout(commit).unwrap();
                // So that its pieces are in memory, as they are now.
                change(&mut tree, &mut random, 30);
                held.push((tree, *commit));
            }
            let mut expected: Vec<Content> = Vec::new();
            let mut made: Vec<CommitHash> = Vec::new();
            let mut commit = |store: &mut Store, held: &mut Vec<(Tree, CommitHash)>| {
                let Some((mut tree, parent)) = held.pop() else { return };
                expected.push(content(&tree).unwrap());
                made.push(put(store, &mut tree, Some(parent), 500 + made.len() as i64));
                // Changed again, what was just written is its base.
                change(&mut tree, &mut random, 2);
                expected.push(content(&tree).unwrap());
                made.push(put(store, &mut tree, made.last().copied(), 500 + made.len() as i64));
            };
            store.collect(&commits[95]).unwrap();
            let mut phases = [0, 0];
            while store.collect_step(20).unwrap() {
                let is_cleaning = store.collect_status().unwrap().phase == CollectPhase::Cleaning;
                phases[usize::from(is_cleaning)] += 1;
                if phases[usize::from(is_cleaning)] % 4 == 1 && held.len() > 8 {
                    commit(&mut store, &mut held);
                }
            }
            assert!(phases.iter().all(|steps| *steps > 0), "{phases:?}");
            while !held.is_empty() {
                commit(&mut store, &mut held);
            }
            commits.drain(..95);
            commits.extend(&made);
            for round in 0..2 {
                for (commit, expected) in made.iter().zip(&expected) {
                    let found = content(&store.checkout(commit).unwrap()).unwrap();
                    assert!(found == *expected, "{index:?} {seed} {round}");
                }
                let checked = store.check().unwrap();
                assert_eq!(checked.commits as usize, commits.len(), "{index:?} {seed} {round}");
                store.close().unwrap();
                store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options(index)).unwrap();
            }
        }
    }
}

/// A tree of a handle to read, and one of the writer's, read a piece whose record was in parts while the parts go.
#[test]
fn readers_go_on_while_bases_go() {
    for seed in 0..2 {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(40 + seed));
        let (mut store, commits) = store(&disk, Index::Minimal, &mut random);
        let small = Options { objects_bytes: 0, pages_bytes: 0, ..options(Index::Minimal) };
        let reader = Store::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, small).unwrap();
        let kept = &commits[100..];
        let before: Vec<Content> =
            kept.iter().map(|commit| content(&reader.checkout(commit).unwrap()).unwrap()).collect();
        let trees: Vec<Tree> = kept.iter().map(|it| reader.checkout(it).unwrap()).collect();
        let own: Vec<Tree> = kept.iter().map(|it| store.checkout(it).unwrap()).collect();
        store.collect(&commits[100]).unwrap();
        let mut number = 0;
        while store.collect_step(200).unwrap() {
            let at = number % kept.len();
            assert_eq!(content(&trees[at]).unwrap(), before[at]);
            assert_eq!(content(&own[at]).unwrap(), before[at]);
            number += 1;
        }
        for (at, tree) in trees.iter().enumerate() {
            assert_eq!(content(tree).unwrap(), before[at]);
        }
    }
}

/// A piece is put together from several records; between any two reads of them the bases may go.
#[test]
fn a_piece_is_read_although_its_bases_go_between_two_reads() {
    let small = Options { objects_bytes: 0, pages_bytes: 0, ..options(Index::Minimal) };
    let mut met = 0;
    for read in (1..400).step_by(9) {
        let shared: Arc<Mutex<Option<Store>>> = Arc::default();
        let left = Arc::new(AtomicUsize::new(0));
        let (given, counted) = (Arc::clone(&shared), Arc::clone(&left));
        let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, _| {
            let is_it = call == Call::Read
                && counted.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) == Ok(1);
            let taken = if is_it { given.lock().unwrap().take() } else { None };
            if let Some(mut store) = taken {
                finish(&mut store).unwrap();
                *given.lock().unwrap() = Some(store);
            }
        });
        let mut random = Random::new(60);
        let (mut store, commits) = store_on(disk, small.clone(), &mut random);
        let expected = content(&store.checkout(&commits[110]).unwrap()).unwrap();
        let tree = store.checkout(&commits[110]).unwrap();
        store.collect(&commits[100]).unwrap();
        *shared.lock().unwrap() = Some(store);
        left.store(read, SeqCst);
        assert_eq!(content(&tree).unwrap(), expected, "read {read}");
        met += usize::from(left.load(SeqCst) == 0);
    }
    assert!(met > 10, "{met} collections between two reads");
}

/// A handle to read is stopped between two reads of a piece, and a whole collection ends meanwhile; then again.
#[test]
fn a_piece_is_read_although_two_collections_end_between_its_reads() {
    let (sim, mut random) = (SimDisk::new(3), Random::new(60));
    let small = Options { objects_bytes: 0, pages_bytes: 0, ..options(Index::Minimal) };
    let (store, commits) = store_on(Arc::clone(&sim) as Arc<dyn Disk>, small.clone(), &mut random);
    store.close().unwrap();
    let mut met = 0;
    for (first, gap) in (0..150).step_by(7).flat_map(|first| (1..5).map(move |gap| (first, gap))) {
        let image = sim.crash(Crash::Process);
        let writer = Store::open(Arc::clone(&image) as Arc<dyn Disk>, small.clone()).unwrap();
        let writer = Mutex::new(writer);
        let (read, counted) =
            (Arc::new(AtomicUsize::new(usize::MAX / 2)), Arc::new(AtomicUsize::new(0)));
        let (from, ended, targets) = (Arc::clone(&read), Arc::clone(&counted), commits.clone());
        let disk = HookedDisk::new(image, move |call, _| {
            let at = if call == Call::Read { from.fetch_add(1, SeqCst) } else { usize::MAX };
            let target = [first, first + gap].into_iter().position(|there| there == at);
            if let Some(number) = target {
                let mut writer = writer.lock().unwrap();
                writer.collect(&targets[100 + 8 * number]).unwrap();
                finish(&mut writer).unwrap();
                ended.fetch_add(1, SeqCst);
            }
        });
        let reader = Store::open_read_only(disk, small.clone()).unwrap();
        let tree = reader.checkout(&commits[110]).unwrap();
        let expected = content(&tree).unwrap();
        read.store(0, SeqCst);
        assert!(content(&tree).unwrap() == expected, "reads {first} and {gap} on");
        met += counted.load(SeqCst);
    }
    assert!(met > 100, "{met} collections between two reads");
}

#[test]
fn what_commits_share_is_counted_while_bases_go() {
    for pieces in (0..400).step_by(40) {
        let (disk, mut random) = (MemoryDisk::seeded(1), Random::new(70));
        let (mut store, commits) = store(&disk, Index::Minimal, &mut random);
        let mut sharing = store.sharing(&commits[100..120]).unwrap();
        assert!(sharing.step(&store, pieces).unwrap());
        store.collect(&commits[100]).unwrap();
        finish(&mut store).unwrap();
        while sharing.step(&store, 1).unwrap() {}
        let mut anew = store.sharing(&commits[100..120]).unwrap();
        while anew.step(&store, 100).unwrap() {}
        // Some bases are not what they were when what is a patch of them was counted.
        let (counted, anew) = (sharing.counted(), anew.counted());
        assert!(counted * 10 >= anew * 9, "{pieces}: {counted} and {anew}");
    }
}

/// What is written in full is on the disk before what it takes the place of goes: that is bounded, however much has changed.
#[test]
fn a_collection_of_much_that_has_changed_needs_little_of_the_disk() {
    for index in [Index::Minimal, Index::Always] {
        let sim = SimDisk::new(5);
        let (mut store, commits) = patched_store(&sim, index);
        let kept = &commits[commits.len() - 2..];
        let held = |store: &Store| -> Vec<Content> {
            kept.iter().map(|it| content(&store.checkout(it).unwrap()).unwrap()).collect()
        };
        let expected = held(&store);
        let before = store.stats().pack_bytes;
        store.collect(&kept[0]).unwrap();
        let beside = 2 * CHUNK + before / 25;
        assert!(most_beside(&mut store, &sim) <= beside, "{index:?}");
        assert!(store.stats().pack_bytes < before, "{before}");
        assert!(held(&store) == expected);
        assert!(store.check().unwrap().index_faults.is_empty());
        // The next ones do what there was no room for.
        for date in 0..8 {
            let mut tree = store.checkout(&kept[1]).unwrap();
            tree.add(&["more"], &[date; 10]).unwrap();
            put(&mut store, &mut tree, Some(kept[1]), i64::from(date));
            store.collect(&kept[0]).unwrap();
            finish(&mut store).unwrap();
        }
        let (bytes, fresh) = (store.stats().pack_bytes, fresh_bytes(&store, kept, index));
        assert!(bytes < fresh * 5 / 4 + 8_000, "{index:?}: {bytes}, new {fresh}");
        assert!(held(&store) == expected);
    }
}

/// Ends the collection by small steps; what it took of the disk in addition at most.
fn most_beside(store: &mut Store, sim: &SimDisk) -> u64 {
    let (before, mut most) = (sim.total_bytes(), 0);
    while store.collect_step(1).unwrap() {
        most = most.max(sim.total_bytes());
    }
    most.saturating_sub(before)
}

/// Patches whose base is in the same chunk make room for nothing, and stand before others that would need it.
#[test]
fn what_is_merged_within_a_chunk_makes_no_room() {
    let (sim, mut random) = (SimDisk::new(7), Random::new(91));
    let disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let (mut tree, mut last) = (store.empty_tree(), None);
    let mut fill = |tree: &mut Tree, directory: usize, names: usize| {
        for name in 0..names {
            let path = [format!("d{directory:04}"), format!("n{name:02}")];
            tree.add(&path, &random.bytes(60)).unwrap();
        }
    };
    let chunks = |store: &Store| store.chunks().len();
    // In full, then a patch of each in newer chunks, then chunks each with directories and patches of them.
    for directory in 0..200 {
        fill(&mut tree, directory, 30);
        if directory % 10 == 9 {
            last = Some(put(&mut store, &mut tree, last, 0));
        }
    }
    for directory in 0..200 {
        fill(&mut tree, directory, 1);
        if directory % 10 == 9 {
            last = Some(put(&mut store, &mut tree, last, 1));
        }
    }
    let patched = chunks(&store);
    for group in 0..30 {
        for names in [30, 1] {
            for directory in 0..10 {
                fill(&mut tree, 1_000 + group * 10 + directory, names);
            }
            last = Some(put(&mut store, &mut tree, last, 2));
        }
    }
    assert!(chunks(&store) > patched + 10, "{patched} of {}", chunks(&store));
    let before = store.stats().pack_bytes;
    let kept = put(&mut store, &mut tree, last, 3);
    store.collect(&kept).unwrap();
    let most = most_beside(&mut store, &sim);
    // All of it stays, and gets mappings: pages of 4 KiB, which are much in chunks as small.
    let mapped = store.stats().pack_bytes.saturating_sub(before);
    assert!(most - mapped <= 2 * CHUNK + before / 25, "{most} of {before}, {mapped} of mappings");
}

/// Where there is room for what stays of a chunk and for nothing more, a collection makes room all the same.
#[test]
fn a_collection_on_a_disk_that_is_nearly_full_makes_room() {
    for beside in [CHUNK + 12_000, 40_000, 30_000] {
        let sim = SimDisk::new(6);
        let (mut store, commits) = patched_store(&sim, Index::Minimal);
        let kept = commits[commits.len() - 2];
        let expected = content(&store.checkout(&kept).unwrap()).unwrap();
        let before = store.stats().pack_bytes;
        store.collect(&kept).unwrap();
        sim.capacity(Some(sim.total_bytes() + beside));
        finish(&mut store).unwrap();
        assert!(store.stats().pack_bytes < before, "{before}");
        assert!(content(&store.checkout(&kept).unwrap()).unwrap() == expected);
        assert_eq!(store.check().unwrap().commits, 2, "{beside}");
    }
}

/// The second try leaves records as they are, and says so. Where that finds no room either the next step goes on once there is
/// some.
#[test]
fn a_collection_without_room_for_what_it_merges_tells_that_it_merges_nothing() {
    for index in [Index::Minimal, Index::Always] {
        let mut told = 0;
        for beside in (6_000..30_000).step_by(1_500) {
            let sim = SimDisk::new(6);
            let (mut store, commits) = patched_store(&sim, index);
            let kept = commits[commits.len() - 2];
            let expected = content(&store.checkout(&kept).unwrap()).unwrap();
            store.collect(&kept).unwrap();
            sim.capacity(Some(sim.total_bytes() + beside));
            if let Err(error) = finish(&mut store) {
                assert_eq!(error.kind(), varvite::error::Kind::Io, "{error}");
            }
            let marks_again = |told: &String| told.contains("marks what is left once more");
            let tells = store.warnings().iter().filter(|it| marks_again(it)).count();
            told += tells;
            sim.capacity(None);
            finish(&mut store).unwrap();
            assert!(content(&store.checkout(&kept).unwrap()).unwrap() == expected);
            let checked = store.check().unwrap();
            assert_eq!((checked.commits, checked.index_faults.len()), (2, 0), "{index:?} {beside}");
        }
        assert!(told > 0, "{index:?}");
    }
}

const CHUNK: u64 = 60_000;

/// A store of many directories, each of which was changed once and a little, and of values that go.
fn patched_store(disk: &Arc<SimDisk>, index: Index) -> (Store, Vec<CommitHash>) {
    let mut random = Random::new(90);
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let mut store = Store::create(disk, options(index)).unwrap();
    let path = |directory: usize, name: usize| [format!("d{directory:03}"), format!("n{name:02}")];
    let (mut tree, mut commits) = (store.empty_tree(), Vec::new());
    for directory in 0..300 {
        for name in 0..30 {
            tree.add(&path(directory, name), &random.bytes(60)).unwrap();
        }
        // A commit is never in two chunks.
        if directory % 12 == 11 {
            commits.push(put(&mut store, &mut tree, commits.last().copied(), 0));
        }
    }
    for date in 1..101 {
        for turn in 0..3 {
            let directory = (date * 3 + turn) % 300;
            tree.add(&path(directory, random.index(30)), &random.bytes(60)).unwrap();
        }
        // In no commit that is kept.
        tree.add(&["goes"], &random.bytes(3_000)).unwrap();
        let parent = commits.last().copied();
        commits.push(put(&mut store, &mut tree, parent, date as i64));
    }
    (store, commits)
}

/// Whole chunks that come back have patches again where a collection wrote what they make, and more patches were made of that.
#[test]
fn chunks_that_are_attached_are_read_however_many_patches_that_makes() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, mut random) = (SimDisk::new(1), Random::new(80));
        let upper = Arc::clone(&disk) as Arc<dyn Disk>;
        let (mut store, mut commits) = store_on(upper, options(index), &mut random);
        store.begin_chunk().unwrap();
        store.close().unwrap();
        let (copy, lower) = (disk.crash(Crash::Process), SimDisk::new(2));
        let archive =
            Options { lower: Some(Arc::clone(&lower) as Arc<dyn Disk>), ..options(index) };
        let mut twin = Store::open(copy as Arc<dyn Disk>, archive.clone()).unwrap();
        let mut tree = twin.checkout(&commits[119]).unwrap();
        tree.add(&["twin"], b"1").unwrap();
        let last = put(&mut twin, &mut tree, Some(commits[119]), 999);
        assert!(twin.archive(&last, u64::MAX).unwrap() > 0);
        twin.close().unwrap();

        let open = |options: &Options| {
            Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap()
        };
        let mut store = open(&options(index));
        store.collect(&commits[110]).unwrap();
        finish(&mut store).unwrap();
        for date in 200..260 {
            // Opened anew, it knows of no record but by reading it.
            if date % 7 == 0 {
                store.close().unwrap();
                store = open(&options(index));
            }
            let parent = commits.last().copied();
            let mut tree = store.checkout(&parent.unwrap()).unwrap();
            change(&mut tree, &mut random, 1);
            commits.push(put(&mut store, &mut tree, parent, date));
        }
        let held = |store: &Store| -> Vec<Content> {
            let kept = commits[110..].iter();
            kept.map(|it| content(&store.checkout(it).unwrap()).unwrap()).collect()
        };
        let expected = held(&store);
        store.close().unwrap();
        let mut store = open(&archive);
        assert!(store.attach().unwrap() > 0);
        for round in 0..2 {
            assert!(held(&store) == expected, "{index:?} {round}");
            assert_eq!(store.check().unwrap().commits as usize, commits.len());
            store.close().unwrap();
            store = open(&archive);
        }
        let parent = commits.last().copied();
        let mut tree = store.checkout(&parent.unwrap()).unwrap();
        change(&mut tree, &mut random, 20);
        let after = content(&tree).unwrap();
        let made = put(&mut store, &mut tree, parent, 300);
        assert_eq!(content(&store.checkout(&made).unwrap()).unwrap(), after);
    }
}

/// What was found late, beside a commit, stays as it was. A collection that is begun anew behind a crash finds it at once, and
/// takes nothing that it has cleaned for other than it should be.
#[test]
fn behind_a_crash_no_chunk_is_cleaned_twice() {
    let mut cleaned = 0;
    for index in [Index::Minimal, Index::Always] {
        for seed in 0..4 {
            let (sim, mut random) = (SimDisk::new(seed), Random::new(100 + seed));
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let (mut store, mut commits) = store_on(disk, options(index), &mut random);
            let mut held: Vec<(Tree, CommitHash)> = Vec::new();
            for commit in &commits[60..95] {
                let mut tree = store.checkout(commit).unwrap();
                change(&mut tree, &mut random, 3);
                held.push((tree, *commit));
            }
            store.collect(&commits[95]).unwrap();
            commits.drain(..95);
            let mut steps = 0;
            while store.collect_status().unwrap().phase == CollectPhase::Marking {
                assert!(store.collect_step(20).unwrap());
                steps += 1;
                if let Some((mut tree, _)) = held.pop_if(|_| steps % 2 == 0) {
                    commits.push(put(&mut store, &mut tree, None, 500 + steps));
                }
            }
            let chunks = store.collect_status().unwrap().chunks_left;
            while store.collect_status().unwrap().chunks_left > chunks / 3 {
                assert!(store.collect_step(20).unwrap());
            }
            let expected: Vec<Content> =
                commits.iter().map(|it| content(&store.checkout(it).unwrap()).unwrap()).collect();
            // A crash while it marks again is one more.
            for round in 0..3 {
                let image = sim.crash(Crash::Process);
                let mut store =
                    Store::open(Arc::clone(&image) as Arc<dyn Disk>, options(index)).unwrap();
                let is_clean = |chunk: &ChunkInfo| chunk.state != ChunkState::Whole;
                let done: Vec<ChunkInfo> = store.chunks().into_iter().filter(is_clean).collect();
                let names = sparse_files(&image);
                assert!(done.len() as u64 >= chunks / 2, "{done:?}");
                (0..round * 5).for_each(|_| assert!(store.collect_step(20).unwrap()));
                let image = image.crash(Crash::Process);
                let mut store =
                    Store::open(Arc::clone(&image) as Arc<dyn Disk>, options(index)).unwrap();
                finish(&mut store).unwrap();
                let left = store.chunks();
                assert!(done.iter().all(|chunk| left.contains(chunk)), "{index:?} {seed} {round}");
                let after = sparse_files(&image);
                assert!(names.iter().all(|name| after.contains(name)), "{names:?}: {after:?}");
                cleaned += done.len();
                for (commit, expected) in commits.iter().zip(&expected) {
                    let found = content(&store.checkout(commit).unwrap()).unwrap();
                    assert!(found == *expected, "{index:?} {seed} {round}");
                }
                assert_eq!(store.check().unwrap().commits as usize, commits.len());
            }
        }
    }
    assert!(cleaned > 0);
}

/// The files that collections have made.
fn sparse_files(disk: &SimDisk) -> Vec<String> {
    let names = disk.list("").unwrap();
    names.into_iter().filter(|name| name.matches('-').count() == 2).collect()
}

/// A record is a patch of another that a collection kept for its bytes alone, and where that is the mapping is damaged by now:
/// the next patch is of the record.
#[test]
fn a_damaged_mapping_of_what_a_record_is_a_patch_of_fails_no_commit() {
    for index in [Index::Minimal, Index::Always] {
        let sim = SimDisk::new(3);
        let small = Options { objects_bytes: 0, pages_bytes: 0, ..options(index) };
        let mut store = Store::create(Arc::clone(&sim) as Arc<dyn Disk>, small.clone()).unwrap();
        let mut tree = store.empty_tree();
        for name in 0..60 {
            tree.add(&["wide", &format!("name-{name}")], b"1").unwrap();
        }
        let first = put(&mut store, &mut tree, None, 0);
        store.begin_chunk().unwrap();
        tree.add(&["wide", "name-7"], b"2").unwrap();
        let second = put(&mut store, &mut tree, Some(first), 1);
        store.collect(&second).unwrap();
        finish(&mut store).unwrap();
        store.close().unwrap();
        let mut store = Store::open(Arc::clone(&sim) as Arc<dyn Disk>, small).unwrap();
        let mut tree = store.checkout(&second).unwrap();
        tree.add(&["wide", "name-8"], b"3").unwrap();
        let name = "0000-000000-1.pack";
        let mut bytes = sim.bytes(name).unwrap();
        let page = bytes.len() - bytes.len() % 4096 - 4096;
        bytes[page + 40] ^= 1;
        sim.damage(name, bytes).unwrap();
        let third = store.commit(&mut tree, &CommitInfo::new(&[second], 2, "me", "own"));
        assert!(store.exists(&third.unwrap()).unwrap());
    }
}

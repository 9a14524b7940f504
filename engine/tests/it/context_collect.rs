//! Collection: what is kept reads as before, what is not says so, whatever happens on the way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use varvite::context::{
    ChildOrder, CollectPhase, CommitHash, CommitInfo, Configuration, Depth, Index, Keep, Limits,
    Merge, Options, Order, Resolution, Sides, Store, Tree,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

use crate::random::{Random, setting};

/// What a tree holds, by path.
pub type Content = BTreeMap<Vec<Vec<u8>>, Vec<u8>>;

pub fn content(tree: &Tree) -> Result<Content> {
    let mut found = Content::new();
    tree.fold::<&[u8]>(&[], None::<Depth>, Order::Undefined, |path, tree| {
        if let Some(value) = tree.to_value()? {
            found.insert(path.to_vec(), value);
        }
        Ok(())
    })?;
    Ok(found)
}

fn options(index: Index) -> Options {
    Options {
        configuration: Configuration::new(8, 16, ChildOrder::SeededHash).unwrap(),
        index,
        seed: Some(9),
        chunk_bytes: 6_000,
        objects_bytes: 20_000,
        hashes_bytes: 2_000,
        pages_bytes: 0,
        index_bytes: 1,
        ..Options::default()
    }
}

/// A store, and what each of its commits held.
struct Told {
    store: Store,
    random: Random,
    commits: Vec<CommitHash>,
    held: HashMap<CommitHash, Content>,
}

impl Told {
    fn new(disk: Arc<dyn Disk>, options: Options) -> Result<Told> {
        let store = Store::create(disk, options)?;
        Ok(Told { store, random: Random::new(3), commits: Vec::new(), held: HashMap::new() })
    }

    fn change(&mut self, tree: &mut Tree, changes: usize) -> Result<()> {
        for _ in 0..changes {
            let name = format!("{:03}", self.random.index(150));
            let deep = format!("{}", self.random.index(4));
            let path = ["data", if deep == "0" { "a" } else { "b" }, &name, &deep];
            if self.random.index(5) == 0 {
                tree.remove(&path)?;
            } else {
                let length = self.random.index(40);
                tree.add(&path, &self.random.bytes(length))?;
            }
        }
        tree.add(&["head"], &[u8::from(tree.mem(&["head"])?); 3])
    }

    /// A commit upon the last one.
    fn commit(&mut self) -> Result<CommitHash> {
        let mut tree = match self.commits.last() {
            Some(last) => self.store.checkout(last)?,
            None => self.store.empty_tree(),
        };
        let changes = if self.commits.is_empty() { 400 } else { 12 };
        self.change(&mut tree, changes)?;
        self.put(&mut tree)
    }

    fn put(&mut self, tree: &mut Tree) -> Result<CommitHash> {
        let info = CommitInfo::new(&[], self.commits.len() as i64, "a", "b");
        let hash = self.store.commit(tree, &info)?;
        self.held.insert(hash, content(tree)?);
        self.commits.push(hash);
        Ok(hash)
    }

    fn finish(&mut self, credits: u64) -> Result<()> {
        while self.store.collect_step(credits)? {}
        Ok(())
    }

    /// Expects the store to hold the commits from number `first` on, and those with the numbers `kept`.
    fn expect(&self, store: &Store, first: usize, kept: &[usize]) {
        for (number, hash) in self.commits.iter().enumerate() {
            if number >= first || kept.contains(&number) {
                let tree = store.checkout(hash).unwrap();
                assert_eq!(content(&tree).unwrap(), self.held[hash], "commit {number}");
            } else {
                let error = store.checkout(hash).unwrap_err();
                assert_eq!(error.kind(), Kind::Collected, "commit {number}: {error}");
            }
        }
        let checked = store.check().unwrap();
        assert_eq!(checked.commits as usize, self.commits.len() - first + kept.len());
        assert!(checked.index_faults.is_empty(), "{checked:?}");
    }
}

fn pack_files(disk: &MemoryDisk) -> Vec<String> {
    disk.files().into_iter().filter(|name| name.contains(".pack")).collect()
}

#[test]
fn what_is_kept_reads_as_before_and_what_is_not_says_so() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let large = Options { chunk_bytes: 30_000, ..options(index) };
        let mut told = Told::new(Arc::clone(&disk) as Arc<dyn Disk>, large).unwrap();
        for _ in 0..60 {
            told.commit().unwrap();
        }
        told.store.set_branch(b"old", &told.commits[7]).unwrap();
        told.store.pin(&told.commits[19]).unwrap();
        let bytes = told.store.stats().pack_bytes;
        told.store.collect(&told.commits[50]).unwrap();
        assert_eq!(told.store.collect_status().unwrap().phase, CollectPhase::Marking);
        told.expect(&told.store, 0, &[]);
        told.finish(3).unwrap();
        told.expect(&told.store, 50, &[7, 19]);
        let after = told.store.stats();
        assert!(after.pack_bytes < bytes * 9 / 10, "{bytes} {after:?}");
        assert_eq!(after.generation, 1);
        assert!(pack_files(&disk).iter().all(|name| disk.bytes(name).is_ok()));
        let reader = Store::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, options(index));
        told.expect(&reader.unwrap(), 50, &[7, 19]);
        for _ in 0..30 {
            told.commit().unwrap();
        }
        // The second takes what only the first kept.
        told.store.remove_branch(b"old").unwrap();
        assert!(told.store.unpin(&told.commits[19]).unwrap());
        told.store.collect(&told.commits[80]).unwrap();
        told.finish(1).unwrap();
        told.expect(&told.store, 80, &[]);
        let Told { store, .. } = told;
        store.close().unwrap();
        let files = pack_files(&disk).len();
        let store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options(index)).unwrap();
        assert!(store.warnings().is_empty(), "{:?}", store.warnings());
        assert_eq!(pack_files(&disk).len(), files, "nothing was left for an opening to remove");
        assert_eq!(store.check().unwrap().commits, 10);
    }
}

#[test]
fn commits_go_on_beside_a_collection_whatever_trees_they_come_from() {
    for index in [Index::Minimal, Index::Always] {
        for seed in 0..1 {
            let disk = MemoryDisk::seeded(1);
            let options = Options { tree_bytes: 3_000, ..options(index) };
            let mut told = Told::new(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
            told.random = Random::new(seed);
            for _ in 0..14 {
                told.commit().unwrap();
            }
            let mut first = 0;
            for round in 0..3 {
                let target = told.commits.len() - 1 - told.random.index(5);
                // Of before it: checked out, changed, spilled, grafted into newer ones.
                let old = first + told.random.index(target - first);
                let mut trees = Vec::new();
                for number in [old, target, told.commits.len() - 1] {
                    let mut tree = told.store.checkout(&told.commits[number]).unwrap();
                    told.change(&mut tree, 60).unwrap();
                    trees.push(tree);
                }
                told.store.collect(&told.commits[target]).unwrap();
                let mut left = true;
                let mut steps = 0;
                while left {
                    let status = told.store.collect_status().unwrap();
                    let choice = told.random.index(4);
                    if choice < 3 && steps % 5 == 0 {
                        let mut tree = trees[choice].clone();
                        told.change(&mut tree, 5).unwrap_or_default();
                        let grafted = trees[0].find_tree(&["data", "a"]);
                        if choice == 2
                            && let Ok(Some(grafted)) = grafted
                        {
                            tree.add_tree(&["grafted"], &grafted).unwrap_or_default();
                        }
                        match told.put(&mut tree) {
                            Ok(_) => {}
                            Err(error) => {
                                assert_eq!(error.kind(), Kind::Collected, "{error}");
                                assert_eq!(status.phase, CollectPhase::Cleaning);
                                assert!(choice != 1, "it is the target's");
                            }
                        }
                    } else {
                        told.commit().unwrap();
                    }
                    left = told.store.collect_step(10 + told.random.index(30) as u64).unwrap();
                    steps += 1;
                }
                first = target;
                told.expect(&told.store, first, &[]);
                // Trees of before the collection are taken or refused, and do no harm.
                for tree in &mut trees {
                    if let Err(error) = told.put(tree) {
                        assert_eq!(error.kind(), Kind::Collected, "{error}");
                    }
                }
                assert!(steps > 4, "round {round} took {steps} steps");
            }
            told.expect(&told.store, first, &[]);
        }
    }
}

#[test]
fn parts_of_a_tree_that_was_spilled_behind_the_target_stay() {
    let disk = MemoryDisk::seeded(1);
    let options = Options { tree_bytes: 2_000, chunk_bytes: 1 << 20, ..options(Index::Minimal) };
    let mut told = Told::new(disk, options).unwrap();
    for _ in 0..10 {
        told.commit().unwrap();
    }
    let tip = told.commits[9];
    let mut tree = told.store.checkout(&told.commits[2]).unwrap();
    let before = told.store.stats().pack_bytes;
    told.change(&mut tree, 300).unwrap();
    assert!(told.store.stats().pack_bytes > before + 2_000, "it spilled");
    assert_eq!(told.store.stats().chunks, 1);
    told.store.collect(&tip).unwrap();
    told.finish(1_000).unwrap();
    let mut newer = told.store.checkout(&tip).unwrap();
    told.change(&mut newer, 3).unwrap();
    // It began before the target, but what was spilled since stays, with all that it refers to.
    told.put(&mut tree).unwrap();
    told.put(&mut newer).unwrap();
    told.expect(&told.store, 9, &[]);
}

#[test]
fn a_tree_of_the_tip_that_spilled_is_committed_after_the_collection() {
    let disk = MemoryDisk::seeded(1);
    let options = Options { tree_bytes: 2_000, chunk_bytes: 1 << 20, ..options(Index::Minimal) };
    let mut told = Told::new(disk, options).unwrap();
    for _ in 0..10 {
        told.commit().unwrap();
    }
    let tip = told.commits[9];
    let mut tree = told.store.checkout(&tip).unwrap();
    let before = told.store.stats().pack_bytes;
    told.change(&mut tree, 300).unwrap();
    assert!(told.store.stats().pack_bytes > before + 2_000, "it spilled");
    told.store.collect(&tip).unwrap();
    told.finish(1_000).unwrap();
    told.put(&mut tree).unwrap();
    told.expect(&told.store, 9, &[]);
}

/// Irmin took such an object for one that is there (#2070).
#[test]
fn an_object_that_was_collected_is_written_again() {
    for index in [Index::Minimal, Index::Always] {
        let mut told = Told::new(MemoryDisk::seeded(1), options(index)).unwrap();
        let add = |told: &mut Told, value: &[u8]| {
            let mut tree = told.store.empty_tree();
            for number in 0..30 {
                tree.add(&["x", &format!("{number}")], value).unwrap();
            }
            told.put(&mut tree).unwrap()
        };
        let first = add(&mut told, &[1; 100]);
        let second = add(&mut told, &[2; 100]);
        // One tree in two commits.
        let again = add(&mut told, &[2; 100]);
        assert_ne!(second, again);
        told.store.collect(&again).unwrap();
        told.finish(5).unwrap();
        told.expect(&told.store, 2, &[]);
        add(&mut told, &[1; 100]);
        // The same commit as one that was collected.
        let mut tree = told.store.empty_tree();
        for number in 0..30 {
            tree.add(&["x", &format!("{number}")], &[1; 100]).unwrap();
        }
        let hash = told.store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap();
        assert_eq!(hash, first);
        assert_eq!(content(&told.store.checkout(&hash).unwrap()).unwrap(), told.held[&hash]);
        assert_eq!(told.store.check().unwrap().commits, 3);
    }
}

#[test]
fn the_index_of_all_objects_is_rid_of_those_that_went() {
    let disk = MemoryDisk::seeded(1);
    let mut told = Told::new(Arc::<MemoryDisk>::clone(&disk), options(Index::Always)).unwrap();
    for _ in 0..40 {
        told.commit().unwrap();
    }
    let before = told.store.stats().objects;
    told.store.collect(&told.commits[35].clone()).unwrap();
    told.finish(3).unwrap();
    let swept = told.store.stats().objects;
    assert!(swept < before / 2, "{swept} of {before}");
    told.store.close().unwrap();
    let mut store = Store::open(disk, options(Index::Always)).unwrap();
    assert_eq!(store.stats().objects, swept);
    assert!(store.check().unwrap().index_faults.is_empty());
    store.rebuild_index().unwrap();
    assert_eq!(store.stats().objects, swept, "an index that was made of what is there");
}

#[test]
fn every_so_many_th_commit_is_kept_behind_the_window() {
    let mut told = Told::new(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    for _ in 0..30 {
        told.commit().unwrap();
    }
    let number =
        |told: &Told, place: usize| told.store.commit_info(&told.commits[place]).unwrap().sequence;
    let of_ten: Vec<usize> = (0..30).filter(|place| number(&told, *place) % 10 == 0).collect();
    assert_eq!(of_ten.len(), 3);
    assert_eq!(told.store.pin_every(0).unwrap_err().kind(), Kind::Invalid);
    assert_eq!((told.store.pin_every(10).unwrap(), told.store.pin_every(10).unwrap()), (3, 0));
    assert!(told.store.collect_keeping(&Keep::Newest(5)).unwrap());
    // What goes with it is not pinned any more.
    assert_eq!(
        told.store.pin_every(1).unwrap(),
        5 - of_ten.iter().filter(|place| **place >= 25).count() as u64
    );
    let mut left = told.store.collect_status().unwrap().left_bytes;
    assert!(left > told.store.stats().pack_bytes, "each chunk is looked at twice: {left}");
    assert_eq!(told.store.collect_status().unwrap().left_credits, None, "nobody knows yet");
    let (mut steps, mut guesses) = (0, Vec::new());
    while told.store.collect_step(1).unwrap() {
        let status = told.store.collect_status().unwrap();
        assert!(status.left_bytes <= left, "{} after {left}", status.left_bytes);
        left = status.left_bytes;
        steps += 1;
        guesses.extend(status.left_credits.map(|guess| (steps, guess)));
    }
    assert_eq!(left, 0);
    // Steps of a credit do more than one pays for where a part is done whole: what is guessed is of those.
    let of_half = guesses.iter().find(|(at, _)| 2 * at >= steps).expect("it is guessed by then");
    let really = steps - of_half.0;
    assert!(of_half.1 > 0 && of_half.1 < 100 * really, "{of_half:?} of {really}");
    assert!(guesses.is_sorted_by_key(|(at, _)| *at));
    let kept: Vec<usize> = of_ten.into_iter().filter(|place| *place < 25).collect();
    told.expect(&told.store, 25, &kept);
}

#[test]
fn a_policy_chooses_and_a_second_call_waits() {
    let mut told = Told::new(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    for _ in 0..12 {
        told.commit().unwrap();
    }
    assert!(!told.store.collect_keeping(&Keep::Newest(12)).unwrap());
    assert!(told.store.collect_keeping(&Keep::Newest(5)).unwrap());
    assert!(!told.store.collect_keeping(&Keep::Newest(5)).unwrap(), "one is under way");
    assert_eq!(told.store.collect(&told.commits[9]).unwrap_err().kind(), Kind::Invalid);
    told.finish(1_000).unwrap();
    told.expect(&told.store, 7, &[]);
    assert!(told.store.collect_keeping(&Keep::Since(10)).unwrap());
    told.finish(1_000).unwrap();
    told.expect(&told.store, 10, &[]);
    assert_eq!(told.store.collect(&told.commits[3]).unwrap_err().kind(), Kind::Collected);
}

/// A store before a collection, on a disk that can fail.
fn before(index: Index) -> (Arc<SimDisk>, Told) {
    let sim = SimDisk::new(5);
    let mut told = Told::new(Arc::clone(&sim) as Arc<dyn Disk>, options(index)).unwrap();
    for _ in 0..12 {
        told.commit().unwrap();
    }
    told.store.set_branch(b"old", &told.commits[3]).unwrap();
    (sim, told)
}

const TARGET: usize = 9;

/// A collection with a commit after every few steps.
fn collected_beside(told: &mut Told) -> Result<()> {
    told.store.collect(&told.commits[TARGET])?;
    let mut left = true;
    let mut steps = 0;
    while left {
        left = told.store.collect_step(6)?;
        steps += 1;
        if steps % 9 == 0 {
            told.commit()?;
        }
    }
    Ok(())
}

/// Expects a store that is reopened to hold what `told` knows, but for what may have been collected.
fn expect_reopened(disk: Arc<dyn Disk>, told: &Knows, what: &dyn std::fmt::Debug) {
    let mut store = Store::open(disk, options(Index::Minimal))
        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
    for round in 0..2 {
        for (number, hash) in told.commits.iter().enumerate() {
            match store.checkout(hash) {
                Ok(tree) => assert_eq!(content(&tree).unwrap(), told.held[hash], "{what:?}"),
                Err(error) => {
                    let may_go = number < TARGET && number != 3;
                    let answer = [Kind::Collected, Kind::Missing].contains(&error.kind());
                    assert!(may_go && answer, "{what:?}: commit {number}, {round}: {error}");
                }
            }
        }
        let checked = store.check().unwrap_or_else(|error| panic!("{what:?}: {error}"));
        assert!(checked.index_faults.is_empty(), "{what:?}: {checked:?}");
        while store.collect_step(50).unwrap() {}
    }
}

/// What is known of a store that is closed.
struct Knows {
    commits: Vec<CommitHash>,
    held: HashMap<CommitHash, Content>,
}

impl Told {
    fn close(self) -> Knows {
        Knows { commits: self.commits, held: self.held }
    }
}

/// One of so many calls, or with more effort each.
fn every(count: usize) -> usize {
    if setting("VARVITE_EFFORT", 1) > 1 { 1 } else { count }
}

#[test]
fn each_call_that_fails_leaves_the_store_whole() {
    for (index, fault, forgets) in [
        (Index::Minimal, Fault::Any, false),
        (Index::Minimal, Fault::Sync, false),
        (Index::Minimal, Fault::Sync, true),
        (Index::Always, Fault::Any, false),
        (Index::Always, Fault::Sync, true),
    ] {
        let (sim, mut told) = before(index);
        let start = sim.calls().of(fault);
        collected_beside(&mut told).unwrap();
        let calls = sim.calls().of(fault) - start;
        assert!(calls > 20, "{calls}");
        let step = match (fault, index) {
            (Fault::Any, Index::Minimal) => 29,
            (Fault::Any, _) => 151,
            (_, Index::Minimal) => 2,
            _ => 7,
        };
        for n in (1..=calls).step_by(every(step)) {
            let what = (index, fault, forgets, n);
            let (sim, mut told) = before(index);
            sim.forget_names_on_failed_sync(forgets);
            sim.fail_at(n, fault);
            let outcome = collected_beside(&mut told);
            sim.disarm();
            if outcome.is_err() {
                // What can be gone on with is; else the next opening finds all.
                let mut tries = 0;
                loop {
                    match told.store.collect_step(50) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => {
                            tries += 1;
                            assert_eq!(error.kind(), Kind::Poisoned, "{what:?}: {error}");
                            if tries > 1 {
                                break;
                            }
                        }
                    }
                }
            }
            let told = told.close();
            expect_reopened(sim.crash(Crash::Seed(n)), &told, &what);
            if forgets {
                // An opening removes nothing that the control file needs that a power cut may bring back.
                let disk = Arc::clone(&sim) as Arc<dyn Disk>;
                drop(Store::open(disk, options(index)).unwrap());
                for seed in 0..6 {
                    expect_reopened(sim.crash(Crash::Seed(seed)), &told, &(&what, seed));
                }
            }
        }
    }
}

/// What an opening after a failed sync shows is seen, but perhaps not durable: it must not be built upon, and
/// what was there before must not go for it.
#[test]
fn what_is_told_after_a_failed_sync_and_an_opening_outlives_a_power_cut() {
    let mut failed = 0;
    for n in 1.. {
        let (sim, mut told) = before(Index::Minimal);
        sim.forget_names_on_failed_sync(true);
        let start = sim.calls().of(Fault::Sync);
        sim.fail_at(n, Fault::Sync);
        let outcome = collected_beside(&mut told);
        sim.disarm();
        if sim.calls().of(Fault::Sync) - start < n {
            break;
        }
        // A collection begins also where the index cannot be saved.
        failed += u64::from(outcome.is_err());
        let Told { store, random, mut commits, held } = told;
        drop(store);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let store = Store::open(disk, options(Index::Minimal)).unwrap();
        // The commit that met the fault may stand, too; it holds what nobody was told.
        commits.retain(|commit| held.contains_key(commit));
        let mut told = Told { store, random, commits, held };
        told.commit().unwrap();
        let Told { store, commits, held, .. } = told;
        drop(store);
        let told = Knows { commits, held };
        for crash in [Crash::Subset(0), Crash::Seed(n), Crash::Seed(n + 1), Crash::Seed(n + 2)] {
            expect_reopened(sim.crash(crash), &told, &(n, crash));
        }
    }
    assert!(failed > 20, "{failed}");
}

#[test]
fn a_crash_at_each_write_and_sync_leaves_what_is_kept() {
    for (index, step) in [(Index::Minimal, 5), (Index::Always, 10)] {
        let mut killed = 0;
        for n in (1..).step_by(every(step)) {
            let (sim, mut told) = before(index);
            sim.kill_at(n);
            if collected_beside(&mut told).is_ok() {
                break;
            }
            killed += 1;
            let told = told.close();
            for crash in [Crash::Process, Crash::Seed(n)] {
                expect_reopened(sim.crash(crash), &told, &(index, n, crash));
            }
        }
        assert!(killed > 12, "{index:?}: {killed}");
    }
}

#[test]
fn a_collection_is_cancelled_paused_and_gone_on_with_after_an_opening() {
    for steps in [0, 5, 40, 80, 120] {
        let disk = MemoryDisk::seeded(1);
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let mut told = Told::new(Arc::clone(&shared), options(Index::Always)).unwrap();
        for _ in 0..12 {
            told.commit().unwrap();
        }
        told.store.collect(&told.commits[TARGET]).unwrap();
        for _ in 0..steps {
            told.store.collect_step(2).unwrap();
        }
        told.store.collect_pause().unwrap();
        assert!(!told.store.collect_step(1_000).unwrap());
        told.commit().unwrap();
        let under_way = told.store.collect_status().unwrap().phase;
        let fresh = Store::create(MemoryDisk::seeded(1), options(Index::Always)).unwrap();
        std::mem::replace(&mut told.store, fresh).close().unwrap();
        told.store = Store::open(Arc::clone(&shared), options(Index::Always)).unwrap();
        let status = told.store.collect_status().unwrap();
        assert!(status.is_paused && status.phase == under_way, "{status:?}");
        told.commit().unwrap();
        told.store.collect_resume().unwrap();
        told.store.collect_step(20).unwrap();
        let is_cleaning = told.store.collect_status().unwrap().phase == CollectPhase::Cleaning;
        let is_done = told.store.collect_status().unwrap().phase == CollectPhase::None;
        assert_eq!(told.store.collect_cancel().unwrap(), !is_done);
        assert!(!told.store.collect_cancel().unwrap());
        told.commit().unwrap();
        let first = if is_cleaning || is_done { TARGET } else { 0 };
        told.expect(&told.store, first, &[]);
        // The next one takes what is left.
        told.store.collect(&told.commits[TARGET + 1]).unwrap();
        told.finish(100).unwrap();
        told.expect(&told.store, TARGET + 1, &[]);
    }
}

/// Irmin's readers lost chunks that its collection put others in the place of (#2100, #2200).
#[test]
fn readers_go_on_across_swaps() {
    let (sim, mut told) = before(Index::Minimal);
    let reader = Store::open_read_only(Arc::clone(&sim) as Arc<dyn Disk>, options(Index::Minimal));
    let mut reader = reader.unwrap();
    let trees: Vec<(usize, Tree)> = [1, TARGET, 11]
        .map(|number| (number, reader.checkout(&told.commits[number]).unwrap()))
        .into();
    let own = told.store.checkout(&told.commits[TARGET]).unwrap();
    let (own_content, expected) = (told.held[&told.commits[TARGET]].clone(), told.held.clone());
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let own = &own;
        let (own_content, is_done) = (&own_content, &is_done);
        for _ in 0..2 {
            scope.spawn(move || {
                while !is_done.load(std::sync::atomic::Ordering::Acquire) {
                    assert_eq!(content(own).unwrap(), *own_content);
                }
            });
        }
        let commits = told.commits.clone();
        told.store.collect(&commits[TARGET]).unwrap();
        while told.store.collect_step(4).unwrap() {
            for (number, tree) in &trees {
                match content(tree) {
                    Ok(found) => assert_eq!(found, expected[&commits[*number]]),
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Collected, "{error}");
                        assert!(*number < TARGET);
                    }
                }
            }
        }
        is_done.store(true, std::sync::atomic::Ordering::Release);
    });
    for number in [TARGET, 11, 3] {
        let tree = reader.checkout(&told.commits[number]).unwrap();
        assert_eq!(content(&tree).unwrap(), expected[&told.commits[number]]);
    }
    reader.reload().unwrap();
    told.expect(&reader, TARGET, &[3]);
    assert_eq!(reader.collect_status().unwrap().phase, CollectPhase::None);
}

#[test]
fn a_clearing_ends_a_collection() {
    let mut told = Told::new(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    for _ in 0..12 {
        told.commit().unwrap();
    }
    told.store.collect(&told.commits[TARGET]).unwrap();
    for _ in 0..60 {
        told.store.collect_step(3).unwrap();
    }
    told.store.clear().unwrap();
    assert_eq!(told.store.collect_status().unwrap().phase, CollectPhase::None);
    assert!(!told.store.collect_step(9).unwrap());
    (told.commits, told.held) = (Vec::new(), HashMap::new());
    for _ in 0..5 {
        told.commit().unwrap();
    }
    told.expect(&told.store, 0, &[]);
}

/// A merge without its base would bring back what one side removed.
#[test]
fn histories_that_joined_in_what_was_collected_are_not_merged_without_their_base() {
    for index_lost in [false, true] {
        let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
        let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
        let mut tree = store.empty_tree();
        let commit = |store: &mut Store, tree: &mut Tree, parents: &[CommitHash], date| {
            store.commit(tree, &CommitInfo::new(parents, date, "", "")).unwrap()
        };
        tree.add(&["x"], b"1").unwrap();
        tree.add(&["stays"], b"0").unwrap();
        let base = commit(&mut store, &mut tree, &[], 1);
        let mut ours = tree.clone();
        ours.remove(&["x"]).unwrap();
        let ours = commit(&mut store, &mut ours, &[base], 2);
        tree.add(&["y"], b"2").unwrap();
        let theirs = commit(&mut store, &mut tree, &[base], 3);
        tree.add(&["z"], b"3").unwrap();
        let later = commit(&mut store, &mut tree, &[theirs], 4);
        let merged = |store: &Store| {
            let ask = |_: &[Vec<u8>], _: Sides<'_>| Ok(Resolution::Conflict);
            store.merge_commits(&ours, &theirs, Limits::default(), ask)
        };
        let Merge::Merged(tree) = merged(&store).unwrap() else { panic!("both changed something") };
        assert!(!tree.mem(&["x"]).unwrap() && tree.mem(&["y"]).unwrap());
        store.collect(&ours).unwrap();
        while store.collect_step(50).unwrap() {}
        if index_lost {
            store.rebuild_index().unwrap();
        }
        assert_eq!(merged(&store).unwrap_err().kind(), Kind::Collected);
        let common = |ours, theirs| store.lowest_common_ancestors(ours, theirs, Limits::default());
        assert_eq!(common(&ours, &later).unwrap_err().kind(), Kind::Collected);
        assert_eq!(common(&theirs, &later).unwrap(), [theirs], "they join in what stands");
    }
}

#[test]
fn a_reader_told_of_what_was_collected_takes_no_index_for_damaged() {
    let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
    let few = Options { max_open_files: Some(2), ..options(Index::Minimal) };
    let mut told = Told::new(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    for _ in 0..12 {
        told.commit().unwrap();
    }
    let reader = Store::open_read_only(Arc::clone(&disk), few).unwrap();
    told.store.collect(&told.commits[TARGET]).unwrap();
    told.finish(100).unwrap();
    let mut collected = 0;
    for number in 0..TARGET {
        if let Err(error) = reader.checkout(&told.commits[number]).map(|_| ()) {
            assert_eq!(error.kind(), Kind::Collected, "{error}");
            collected += 1;
        }
    }
    assert!(collected > 0);
    assert_eq!(reader.warnings(), Vec::<String>::new());
}

/// An opening to write gives chunks that no control file names their names anew; whoever reads them goes on.
#[test]
fn a_reader_follows_a_writer_that_was_opened_anew() {
    let disk = MemoryDisk::seeded(1) as Arc<dyn Disk>;
    let mut told = Told::new(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    told.commit().unwrap();
    let mut reader = Store::open_read_only(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    for _ in 0..6 {
        told.commit().unwrap();
        reader.reload().unwrap();
        drop(told.store);
        told.store = Store::open(Arc::clone(&disk), options(Index::Minimal)).unwrap();
        let new = told.commit().unwrap();
        reader.reload().unwrap();
        assert!(reader.exists(&new).unwrap());
    }
}

/// Two copies of a store keep other commits, with as many records of the same lengths.
#[test]
fn a_sparse_chunk_of_a_copy_that_went_another_way_is_refused() {
    let disk = MemoryDisk::seeded(1);
    let mut store =
        Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options(Index::Minimal)).unwrap();
    let mut commits = Vec::new();
    for number in 0..4_u8 {
        let mut tree = store.empty_tree();
        tree.add(&["value"], &[number; 100]).unwrap();
        let info = CommitInfo::new(&[], i64::from(number), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    store.close().unwrap();
    let copies = [0, 1].map(|kept| {
        let copy = disk.snapshot();
        let shared = Arc::clone(&copy) as Arc<dyn Disk>;
        let mut store = Store::open(shared, options(Index::Minimal)).unwrap();
        store.pin(&commits[kept]).unwrap();
        store.collect(&commits[3]).unwrap();
        while store.collect_step(1_000).unwrap() {}
        store.close().unwrap();
        copy
    });
    let name = "0000-000000-1.pack";
    let [ours, theirs] = &copies;
    let [own, other] = [ours, theirs].map(|copy| copy.bytes(name).unwrap());
    assert!(own.len() == other.len() && own != other);
    ours.replace(name, other).unwrap();
    let opened = Store::open(Arc::clone(ours) as Arc<dyn Disk>, options(Index::Minimal));
    let outcome = opened.and_then(|store| store.checkout(&commits[0]).map(|_| ()));
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    assert!(error.to_string().contains(name), "{error}");
}

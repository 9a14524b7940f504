//! What an observer of a context is told: every operation, by path, with its cost.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::Kind;
use varvite::context::{
    CommitHash, CommitInfo, Cost, Depth, Keep, Limits, Observer, Operation, Options, Order,
    PREFIX_STEPS, Resolution, Sides, Store, Tree, TreeHash,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::random::Random;

type Event = (Operation, Vec<Vec<u8>>, u64, Cost);

/// A clock that counts its readings, and everything told.
#[derive(Default)]
struct Notes(AtomicU64, Mutex<Vec<Event>>);

impl Observer for Notes {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    fn record(&self, operation: Operation, prefix: &[&[u8]], duration_ns: u64, cost: &Cost) {
        let prefix = prefix.iter().map(|step| step.to_vec()).collect();
        self.1.lock().unwrap().push((operation, prefix, duration_ns, *cost));
    }
}

impl Notes {
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut *self.1.lock().unwrap())
    }

    /// The only operation told of since the last look.
    fn one(&self) -> Event {
        let mut events = self.take();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }
}

#[test]
fn every_operation_is_told_with_its_cost() {
    let notes = Arc::new(Notes::default());
    let options = Options { observer: Some(notes.clone()), ..Options::default() };
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
    let mut tree = store.empty_tree();
    let path = ["data", "contracts", "index", "long"];
    tree.add(&path, &[7; 100]).unwrap();
    let (operation, prefix, duration_ns, cost) = notes.one();
    assert_eq!((operation, prefix.len(), cost), (Operation::Add, 4, Cost::default()));
    assert_eq!(prefix[2], b"index");
    assert!(duration_ns > 0);
    assert!(!tree.mem(&["a"; PREFIX_STEPS + 3]).unwrap());
    assert_eq!(notes.one().1.len(), PREFIX_STEPS);
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let commit = notes.one();
    assert_eq!(commit.0, Operation::Commit, "its hash is within it");
    assert!(commit.3.bytes_written > 200 && commit.3.sync_ns > 0, "{commit:?}");
    store.set_branch(b"main", &hash).unwrap();
    assert_eq!(notes.take().pop().unwrap().1, [b"main".to_vec()]);
    store.close().unwrap();
    let store = Store::open(Arc::clone(&disk), options.clone()).unwrap();
    notes.take();
    let tree = store.checkout(&hash).unwrap();
    assert_eq!(notes.one().0, Operation::Checkout);
    assert!(tree.find(&path).unwrap().is_some());
    let cold = notes.one();
    assert!(cold.3.bytes_read > 0 && cold.3.node_misses == 2, "{cold:?}");
    assert!(tree.mem(&path).unwrap());
    // The cache has room for all that is looked at; the directories below `data` are in its record.
    let warm = notes.one();
    assert_eq!((warm.0, warm.3.node_hits, warm.3.node_misses), (Operation::Mem, 2, 0));
    assert_eq!(warm.3.bytes_read, 0);
    // Without any memory for nodes they are searched in their records each time.
    drop((store, tree));
    let store = Store::open(disk, Options { objects_bytes: 0, ..options }).unwrap();
    let tree = store.checkout(&hash).unwrap();
    for _ in 0..3 {
        notes.take();
        assert!(tree.mem(&path).unwrap());
        let bare = notes.one();
        assert_eq!((bare.3.node_hits, bare.3.node_misses), (0, 2));
    }
}

/// The operations that were told, without those inside of a collection, a pin or a commit.
fn told(notes: &Notes) -> Vec<Operation> {
    let inner = [Operation::Checkpoint, Operation::BeginChunk];
    let told = notes.take().into_iter().map(|event| event.0);
    told.filter(|it| !inner.contains(it)).collect()
}

#[test]
fn collections_pins_archives_and_snapshots_are_told() {
    let notes = Arc::new(Notes::default());
    let lower: Arc<dyn Disk> = MemoryDisk::seeded(2);
    let options = Options {
        observer: Some(notes.clone()),
        chunk_bytes: 1,
        lower: Some(lower),
        ..Options::default()
    };
    let mut store = Store::create(MemoryDisk::seeded(1), options.clone()).unwrap();
    let mut commits = Vec::new();
    for number in 0..4_u8 {
        let mut tree = store.empty_tree();
        tree.add(&["data"], &[number; 300]).unwrap();
        let info = CommitInfo::new(&[], i64::from(number), "me", "block");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    notes.take();
    store.commit_info(&commits[1]).unwrap();
    assert_eq!(told(&notes), [Operation::CommitInfo]);
    store.log(2).unwrap();
    assert_eq!(told(&notes), [Operation::Log]);
    assert!(store.archive(&commits[1], u64::MAX).unwrap() > 0);
    let moved = notes.take().pop().unwrap();
    assert_eq!(moved.0, Operation::Archive);
    assert!(moved.2 > 0);
    assert!(store.unarchive(u64::MAX).unwrap() > 0);
    assert_eq!(told(&notes), [Operation::Unarchive]);
    assert_eq!(store.attach().unwrap(), 0);
    assert_eq!(told(&notes), [Operation::Attach]);
    store.pin(&commits[0]).unwrap();
    assert_eq!(store.pin_every(1).unwrap(), 3);
    assert!(store.unpin(&commits[1]).unwrap());
    assert_eq!(told(&notes), [Operation::Pin; 3]);
    let files: Arc<dyn Disk> = MemoryDisk::seeded(3);
    store.export_commit(&commits[2], &files, "commit").unwrap();
    assert_eq!(told(&notes), [Operation::Export], "what it reads is within it");
    assert_eq!(store.history(&commits, 9).unwrap().len(), 4);
    assert_eq!(told(&notes), [Operation::History]);
    let limits = Limits::default();
    store.lowest_common_ancestors(&commits[0], &commits[1], limits).unwrap();
    assert_eq!(told(&notes), [Operation::CommitInfo, Operation::CommitInfo, Operation::History]);
    // A merge of commits is told of by its parts, each once; the hashes by which a merge of trees compares are within it.
    let open = |_: &[Vec<u8>], _: Sides<'_>| Ok(Resolution::Conflict);
    store.merge_commits(&commits[0], &commits[1], limits, open).unwrap();
    let parts = [Operation::Checkout, Operation::Checkout, Operation::History, Operation::Merge];
    assert_eq!(told(&notes), parts);
    let mut other = Store::create(MemoryDisk::seeded(4), options).unwrap();
    notes.take();
    other.import_commit(&*files, "commit").unwrap();
    let imported = told(&notes);
    assert!(imported.contains(&Operation::Commit), "{imported:?}");
    assert_eq!(imported.last(), Some(&Operation::Import));
    store.collect(&commits[3]).unwrap();
    assert_eq!(told(&notes), [Operation::Collect]);
    store.collect_pause().unwrap();
    store.collect_resume().unwrap();
    assert_eq!(told(&notes), [Operation::Collect; 2]);
    let mut steps = 1;
    while store.collect_step(1 << 20).unwrap() {
        steps += 1;
    }
    let events = notes.take();
    let told = events.iter().filter(|it| it.0 == Operation::CollectStep);
    assert_eq!(told.clone().count(), steps);
    assert!(told.map(|it| it.3.bytes_read + it.3.bytes_written).sum::<u64>() > 0, "{events:?}");
    assert!(!store.collect_keeping(&Keep::Newest(100)).unwrap());
    assert_eq!(notes.one().0, Operation::Collect);
}

#[test]
fn of_a_cold_record_that_is_long_only_its_bytes_are_read() {
    let notes = Arc::new(Notes::default());
    let options = Options { observer: Some(notes.clone()), ..Options::default() };
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
    let mut tree = store.empty_tree();
    let path = |number: usize| ["data".to_owned(), format!("number {number:02}")];
    for number in 0..40 {
        tree.add(&path(number), &[number as u8; 2_500]).unwrap();
    }
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    store.close().unwrap();
    let store = Store::open(disk, options).unwrap();
    let tree = store.checkout(&hash).unwrap();
    // Until the directory is a node in memory.
    (0..3).for_each(|_| assert!(tree.find(&path(0)).unwrap().is_some()));
    // So far from each other that no two have a page in common.
    for number in (4..40).step_by(4) {
        notes.take();
        assert_eq!(tree.find(&path(number)).unwrap(), Some(vec![number as u8; 2_500]));
        let cold = notes.one().3;
        assert!((2_500..2_600).contains(&cold.bytes_read), "{number}: {cold:?}");
    }
    // What is wanted again comes into memory, page by page.
    for _ in 0..3 {
        notes.take();
        tree.find(&path(4)).unwrap();
    }
    assert_eq!(notes.one().3.bytes_read, 0);
}

#[test]
fn spills_are_told_inside_of_what_they_hold_up() {
    let notes = Arc::new(Notes::default());
    let options = Options { observer: Some(notes.clone()), tree_bytes: 6000, ..Options::default() };
    let store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..100 {
        tree.add(&[format!("{number}")], &[1; 30]).unwrap();
    }
    let mut counts: BTreeMap<Operation, u64> = BTreeMap::new();
    let events = notes.take();
    let spilled = events.iter().position(|event| event.0 == Operation::Spill).unwrap();
    assert_eq!(events[spilled + 1].0, Operation::Add);
    assert!(events[spilled].3.bytes_written > 500);
    for event in &events {
        *counts.entry(event.0).or_default() += 1;
    }
    assert_eq!(counts[&Operation::Add], 100);
    assert!((1..60).contains(&counts[&Operation::Spill]), "{counts:?}");
}

/// Changes of a block that touches many directories, large and small; its hash.
fn block(store: &Store, parent: &CommitHash, number: u64) -> (Tree, TreeHash) {
    let mut tree = store.checkout(parent).unwrap();
    let mut random = Random::new(number);
    for _ in 0..200 {
        let account = format!("{:04}", random.below(3_000));
        assert!(tree.mem(&["index", &account, "balance"]).unwrap());
        tree.add(&["index", &account, "balance"], &random.bytes(20)).unwrap();
        tree.add(&["maps", &account[..2], &account[2..], "x"], &random.bytes(40)).unwrap();
    }
    let hash = tree.hash().unwrap();
    (tree, hash)
}

/// What the blocks cost in looks that no cache answered, and in bytes read, when before each one
/// `dropped` trees with the same changes are made and dropped.
fn cost_of_blocks(dropped: usize, objects_bytes: u64) -> (u64, u64, CommitHash) {
    let notes = Arc::new(Notes::default());
    let observer: Arc<dyn Observer> = notes.clone();
    let options = Options { observer: Some(observer), objects_bytes, ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    for account in 0..3_000 {
        tree.add(&["index", &format!("{account:04}"), "balance"], &[1; 20]).unwrap();
        tree.add(&["index", &format!("{account:04}"), "counter"], b"0").unwrap();
    }
    let mut last = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let (mut misses, mut bytes) = (0, 0);
    for number in 0..20 {
        for _ in 0..dropped {
            drop(block(&store, &last, number));
        }
        notes.take();
        let (mut tree, _) = block(&store, &last, number);
        last = store.commit(&mut tree, &CommitInfo::new(&[last], 1, "a", "b")).unwrap();
        for (_, _, _, cost) in notes.take() {
            misses += cost.node_misses;
            bytes += cost.bytes_read;
        }
    }
    (misses, bytes, last)
}

#[test]
fn trees_that_are_dropped_leave_the_next_block_nothing_to_read_again() {
    for objects_bytes in [64 << 20, 200_000] {
        let (misses, bytes, hash) = cost_of_blocks(0, objects_bytes);
        for dropped in [1, 5] {
            let with = cost_of_blocks(dropped, objects_bytes);
            println!("{objects_bytes}: {misses} misses, {bytes} bytes; after {dropped}: {with:?}");
            assert_eq!(with.2, hash);
            assert!(with.0 <= misses, "{} misses instead of {misses}", with.0);
            assert!(with.1 <= bytes, "{} bytes read instead of {bytes}", with.1);
        }
    }
}

/// How many pieces an operation looked at.
fn pieces(event: &Event) -> u64 {
    event.3.node_hits + event.3.node_misses
}

#[test]
fn pieces_that_an_operation_within_another_looks_at_are_told_of_both() {
    let notes = Arc::new(Notes::default());
    let options = Options { observer: Some(notes.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    let path = |number: u64| ["data".to_owned(), format!("{number:05}"), "x".to_owned()];
    for number in 0..3_000 {
        tree.add(&path(number), b"value").unwrap();
    }
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let tree = store.checkout(&hash).unwrap();
    // The directory is branches and leaves, each in memory by now or decoded.
    for number in [7, 7, 7] {
        notes.take();
        assert!(tree.find(&path(number)).unwrap().is_some());
    }
    let alone = notes.one();
    assert!(pieces(&alone) >= 3, "{alone:?}");
    let mut inner = 0;
    tree.fold(&["data"], Some(Depth::Eq(1)), Order::Sorted, |_, _| {
        inner += 1;
        tree.find(&path(7)).map(drop)
    })
    .unwrap();
    let mut events = notes.take();
    let fold = events.pop().unwrap();
    assert_eq!((fold.0, inner), (Operation::Fold, 3_000));
    assert_eq!(events.len(), 3_000, "it finds its own directory within it");
    assert!(events.iter().all(|event| event.0 == Operation::Find));
    assert!(events.iter().all(|find| pieces(find) == pieces(&alone)));
    assert!(pieces(&fold) > 3_000 * pieces(&alone), "{fold:?}");
    // A change looks first, and then takes what it changes.
    let mut changed = tree.clone();
    changed.add(&path(7), b"other").unwrap();
    assert!(pieces(&notes.one()) >= 2 * pieces(&alone) - 1);
    changed.remove(&path(8)).unwrap();
    assert!(pieces(&notes.one()) > 0);
}

#[test]
fn what_threads_look_at_is_told_once_or_more_and_never_less() {
    let notes = Arc::new(Notes::default());
    let options = Options { observer: Some(notes.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a", "b", "long"], &[1; 100]).unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let tree = store.checkout(&hash).unwrap();
    (0..3).for_each(|_| assert!(tree.mem(&["a", "b", "long"]).unwrap()));
    let alone = pieces(notes.take().last().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|_| assert!(tree.mem(&["a", "b", "long"]).unwrap())));
        }
    });
    let events = notes.take();
    assert_eq!(events.len(), 2_000);
    assert!(events.iter().all(|event| pieces(event) >= alone));
}

/// A clock that fails at one of its readings.
struct Failing(AtomicU64);

impl Observer for Failing {
    fn now_ns(&self) -> u64 {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.wrapping_sub(1), Ordering::Relaxed);
        assert!(left != 0, "as ordered");
        left
    }

    fn record(&self, _: Operation, _: &[&[u8]], _: u64, _: &Cost) {}
}

#[test]
fn a_clock_that_panics_at_any_reading_leaves_no_commit_that_the_store_does_not_know() {
    let (mut panics, mut stopped) = (0, 0);
    for n in 0.. {
        let clock = Arc::new(Failing(AtomicU64::new(u64::MAX)));
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let options = Options { observer: Some(clock.clone()), ..Options::default() };
        let mut store = Store::create(Arc::clone(&disk), options).unwrap();
        let mut tree = store.empty_tree();
        let info = |number: u64| CommitInfo::new(&[], number as i64, "a", "b");
        for number in 0..3_u64 {
            tree.add(&["a"], &number.to_be_bytes()).unwrap();
            store.commit(&mut tree, &info(number)).unwrap();
        }
        tree.add(&["a"], &[3; 90]).unwrap();
        let hash = store.hash(&tree, &info(3)).unwrap();
        clock.0.store(n, Ordering::Relaxed);
        let commit = AssertUnwindSafe(|| store.commit(&mut tree, &info(3)).unwrap());
        let outcome = catch_unwind(commit);
        clock.0.store(u64::MAX, Ordering::Relaxed);
        if outcome.is_ok() {
            break;
        }
        panics += 1;
        // A host that goes on all the same.
        let mut tree = store.empty_tree();
        tree.add(&["b"], &[4; 90]).unwrap();
        if let Err(error) = store.commit(&mut tree, &info(4)) {
            assert_eq!(error.kind(), Kind::Poisoned, "reading {n}: {error}");
            stopped += 1;
        }
        drop(store);
        let mut store = Store::open(disk, Options::default()).unwrap();
        let log = store.log(usize::MAX).unwrap();
        let is_there = store.exists(&hash).unwrap();
        assert_eq!(is_there, log.contains(&hash), "reading {n}: what is there is in the log");
        store.begin_chunk().unwrap();
        store.check().unwrap_or_else(|error| panic!("reading {n}: {error}"));
    }
    assert!(panics > 2 && stopped > 0, "{panics}, {stopped}");
}

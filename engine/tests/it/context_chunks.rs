//! Chunks say of themselves who they are: a control file that is older than the pack, or of a store
//! with the same identity, never costs a commit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::context::{
    CommitHash, CommitInfo, Cost, Durability, Index, Observer, Operation, Options, Store, Tree,
    inspect,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::error::Kind;

use crate::context_story::{ACTS, Act, Tale, Told, go_on, holds, options, which};
use crate::hooked_disk::{Call, HookedDisk};
use crate::random::Random;

/// The story on a disk, with every control file that there was since the store was there.
fn told(index: Index, mut each: impl FnMut(&Arc<MemoryDisk>, &[Vec<u8>], &Told)) {
    let disk = MemoryDisk::seeded(1);
    let options = options(index, Durability::Synced);
    let mut tale = Tale::new(Arc::clone(&disk) as Arc<dyn Disk>, &options);
    let mut controls: Vec<Vec<u8>> = Vec::new();
    for act in ACTS {
        tale.act(*act).unwrap();
        let control = disk.bytes("control").unwrap();
        if !controls.contains(&control) {
            controls.push(control);
        }
        each(&disk, &controls, &tale.told);
    }
}

#[test]
fn every_older_control_file_put_back_leaves_every_commit_there() {
    for index in [Index::Minimal, Index::Always] {
        let mut opened = 0;
        told(index, |disk, controls, told| {
            for (number, control) in controls.iter().enumerate() {
                let copy = disk.snapshot();
                copy.replace("control", control.clone()).unwrap();
                let shared = Arc::clone(&copy) as Arc<dyn Disk>;
                let options = options(index, Durability::Synced);
                let mut reader = Store::open_read_only(Arc::clone(&shared), options.clone())
                    .unwrap_or_else(|error| panic!("control {number}: {error}"));
                holds(&reader, told).unwrap();
                let mut store = Store::open(Arc::clone(&shared), options.clone()).unwrap();
                holds(&store, told).unwrap();
                let checked = store.check().unwrap();
                assert_eq!(checked.commits, told.commits.len() as u64, "control {number}");
                assert_eq!(checked.index_faults, Vec::<String>::new());
                let after = go_on(&mut store, told, 500).unwrap();
                reader.reload().unwrap();
                holds(&reader, &after).unwrap();
                drop(store);
                let store = Store::open(shared, options).unwrap();
                holds(&store, &after).unwrap();
                opened += 1;
            }
        });
        assert!(opened > 60, "{opened}");
    }
}

/// A store of some chunks and its answers: equal seeds give equal layouts of other content.
fn one_of_a_seed(index: Index, content: u64) -> (Arc<MemoryDisk>, Vec<(CommitHash, Vec<u8>)>) {
    let disk = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 1_500, ..options(index, Durability::Synced) };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let (mut random, mut known) = (Random::new(content), Vec::new());
    for number in 0..40 {
        let mut tree = match known.last() {
            Some((last, _)) => store.checkout(last).unwrap(),
            None => store.empty_tree(),
        };
        let value = random.bytes(30);
        tree.add(&["data", &format!("{}", number % 9)], &value).unwrap();
        tree.add(&["last"], &value).unwrap();
        let hash = store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
        known.push((hash, value));
    }
    store.close().unwrap();
    (disk, known)
}

fn finds(store: &Store, known: &[(CommitHash, Vec<u8>)]) -> varvite::Result<()> {
    assert_eq!(store.log(99)?.len(), known.len());
    for (hash, value) in known {
        assert!(store.exists(hash)?, "a commit is there and is said not to be");
        assert_eq!(store.checkout(hash)?.find(&["last"])?.as_ref(), Some(value));
    }
    Ok(())
}

#[test]
fn files_of_two_stores_of_one_seed_are_told_apart() {
    for index in [Index::Minimal, Index::Always] {
        let ((ours, known), (theirs, _)) = (one_of_a_seed(index, 1), one_of_a_seed(index, 2));
        let names = ours.files();
        assert!(names.iter().filter(|name| name.contains(".pack")).count() > 3);
        let options = options(index, Durability::Synced);
        for name in names.iter().filter(|name| !name.starts_with("index/") && *name != "lock") {
            let copy = ours.snapshot();
            copy.replace(name, theirs.bytes(name).unwrap()).unwrap();
            let opened = Store::open_read_only(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
            let error = opened.and_then(|store| finds(&store, &known)).unwrap_err();
            assert!([Kind::Invalid, Kind::Corrupt].contains(&error.kind()), "{name}: {error}");
            let before = copy.files();
            let opened = Store::open(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
            let error = opened.map(drop).unwrap_err();
            assert!(error.detail().contains(".pack"), "{name}: {error}");
            let packs = |names: Vec<String>| names.into_iter().filter(|one| one.contains(".pack"));
            assert!(packs(before).eq(packs(copy.files())), "nothing is removed");
        }
        // The whole index of the other: what it does not know is no answer.
        let copy = ours.snapshot();
        for name in names.iter().filter(|name| name.starts_with("index/")) {
            copy.remove(name).unwrap();
        }
        for name in theirs.files().iter().filter(|name| name.starts_with("index/")) {
            copy.replace(name, theirs.bytes(name).unwrap()).unwrap();
        }
        let store = Store::open_read_only(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
        finds(&store.unwrap(), &known).unwrap();
        let store = Store::open(copy, options.clone()).unwrap();
        finds(&store, &known).unwrap();
        assert_eq!(store.warnings().len(), 1, "{:?}", store.warnings());
        assert!(store.check().unwrap().index_faults.is_empty());
    }
}

/// What the control file says, by name.
fn fields(disk: &MemoryDisk) -> BTreeMap<String, String> {
    let outline = inspect::control("control", &disk.bytes("control").unwrap());
    let store = outline.children.into_iter().find(|child| child.label == "store").unwrap();
    store.fields.into_iter().collect()
}

fn chunks(disk: &MemoryDisk) -> u64 {
    disk.files().iter().filter(|name| name.contains(".pack")).count() as u64
}

/// From its checkpoint on the pack has no more than the documents say, in chunks of some `chunk_bytes`.
fn expect_short_scan(disk: &MemoryDisk, chunk_bytes: usize) {
    let from: u64 = fields(disk)["scan from chunk"].parse().unwrap();
    let scanned: usize = (from..chunks(disk))
        .map(|number| disk.bytes(&format!("0000-{number:06}.pack")).unwrap().len())
        .sum();
    let far = (4 * chunk_bytes).max(32 * disk.bytes("control").unwrap().len());
    // A chunk is longer than asked for by its last batch at most, and a checkpoint waits for its end.
    assert!(scanned <= far * 5 / 4 + 3 * chunk_bytes, "{scanned} bytes from chunk {from} on");
}

#[test]
fn a_tree_that_only_spills_begins_chunks_and_what_is_scanned_stays_bounded() {
    let disk = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 2_000, ..options(Index::Minimal, Durability::Synced) };
    drop(Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap());
    let mut random = Random::new(3);
    for round in 0..30_u64 {
        // Each time the process dies before it commits or closes.
        let store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..if round == 0 { 600 } else { 60_u64 } {
            tree.add(&["data", &format!("{}", random.below(300))], &number.to_le_bytes().repeat(4))
                .unwrap();
        }
        drop((tree, store));
        expect_short_scan(&disk, 2_000);
    }
    assert!(chunks(&disk) > 50);
    let mut store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
    assert!(store.log(9).unwrap().is_empty());
    let mut tree = Tree::empty(options.configuration);
    tree.add(&["a"], b"b").unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(store);
    let store = Store::open(disk, options).unwrap();
    assert_eq!((store.log(9).unwrap(), store.check().unwrap().commits), (vec![hash], 1));
}

#[test]
fn a_lost_chunk_is_missed_and_nothing_behind_it_removed() {
    let (disk, _) = one_of_a_seed(Index::Minimal, 1);
    let options = options(Index::Minimal, Durability::Synced);
    let first = {
        // A control file of the beginning, so that the chunks must say themselves what is there.
        let empty = MemoryDisk::seeded(1);
        drop(Store::create(Arc::clone(&empty) as Arc<dyn Disk>, options.clone()).unwrap());
        empty.bytes("control").unwrap()
    };
    for control in [first, disk.bytes("control").unwrap()] {
        for number in 0..chunks(&disk) - 1 {
            let copy = disk.snapshot();
            copy.replace("control", control.clone()).unwrap();
            let lost = format!("0000-{number:06}.pack");
            copy.remove(&lost).unwrap();
            let before = copy.files();
            let error = Store::open(Arc::clone(&copy) as Arc<dyn Disk>, options.clone());
            let error = error.map(drop).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{error}");
            let says = [&*lost, "is not there", "`varvite repair`"];
            assert!(says.iter().all(|it| error.detail().contains(it)), "{lost}: {error}");
            let packs = |names: Vec<String>| names.into_iter().filter(|one| one.contains(".pack"));
            assert!(packs(before).eq(packs(copy.files())), "nothing is removed");
        }
    }
}

/// A store of commits and the syncs that each of them took, in pairs: of all and of the index. The host
/// maintains it between them if `maintained`.
fn syncs(index: Index, maintained: bool, count: i64) -> (Store, Vec<(u64, u64)>) {
    let index_bytes = Options::default().index_bytes;
    let small = options(index, Durability::Synced);
    let options = Options { chunk_bytes: 20_000, index_bytes, ..small };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let (mut random, mut tree) = (Random::new(1), store.empty_tree());
    let mut syncs = Vec::new();
    for number in 0..count {
        if maintained {
            store.maintain().unwrap();
        }
        tree.add(&["data", &format!("{}", random.below(100))], &random.bytes(900)).unwrap();
        let before = store.stats();
        store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
        let after = store.stats();
        syncs.push((after.syncs - before.syncs, after.index_syncs - before.index_syncs));
    }
    (store, syncs)
}

#[test]
fn a_chunk_costs_two_syncs_and_a_checkpoint_one_more() {
    let (store, syncs) = syncs(Index::Minimal, false, 400);
    let chunks = store.stats().chunks;
    assert!(chunks > 10, "{chunks}");
    assert!(syncs.iter().all(|(_, of_the_index)| *of_the_index == 0));
    let more = syncs.iter().map(|(all, _)| all - 1).sum::<u64>();
    assert!(more <= 2 * chunks + chunks / 3, "{more} syncs for {chunks} chunks");
}

#[test]
fn between_calls_of_maintain_a_commit_takes_its_own_sync_alone() {
    for index in [Index::Minimal, Index::Always] {
        let (store, syncs) = syncs(index, true, 2_000);
        assert!(store.stats().chunks > 50, "{}", store.stats().chunks);
        assert!(syncs.iter().all(|of_one| *of_one == (1, 0)), "{syncs:?}");
    }
}

#[test]
fn no_commit_takes_more_syncs_than_documented() {
    for index in [Index::Minimal, Index::Always] {
        for maintained in [true, false] {
            let (store, syncs) = syncs(index, maintained, 5_000);
            let chunks = store.stats().chunks;
            assert!(chunks > 100, "{chunks}");
            let most = |own: bool| {
                let which = syncs.iter().filter(|(_, of_the_index)| (*of_the_index > 0) == own);
                which.map(|(all, _)| *all).max()
            };
            println!("{index:?}, maintained {maintained}: {:?} {:?}", most(false), most(true));
            // Itself, and where nobody maintains the end of a chunk with the name of the next and the control file.
            assert_eq!(most(false), Some(if maintained { 1 } else { 4 }));
            let own = syncs.iter().filter(|(_, of_the_index)| *of_the_index > 0).count() as u64;
            if maintained {
                assert_eq!(own, 0, "the index is nothing that a commit waits for");
            } else {
                assert!(most(true).unwrap() <= 8, "{:?}", most(true));
                let rare = if index == Index::Minimal { 5_000 / 4_096 } else { chunks / 12 };
                assert!((1..=rare).contains(&own), "{own} of 5,000");
            }
        }
    }
}

#[test]
fn processes_that_die_after_a_commit_each_leave_a_scan_that_stays_bounded() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let options = Options { chunk_bytes: 2_000, ..options(index, Durability::Synced) };
        let (mut random, mut known) = (Random::new(3), Vec::new());
        drop(Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap());
        for number in 0..150 {
            let shared = Arc::clone(&disk) as Arc<dyn Disk>;
            let mut store = Store::open(shared, options.clone()).unwrap();
            let mut tree = store.empty_tree();
            for name in 0..4 {
                tree.add(&["data", &format!("{name}")], &random.bytes(200)).unwrap();
            }
            known.push(store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap());
            drop(store);
            expect_short_scan(&disk, 2_000);
        }
        assert!(chunks(&disk) > 40, "{}", chunks(&disk));
        let store = Store::open(disk, options).unwrap();
        assert!(store.log(999).unwrap().iter().rev().eq(&known));
        assert!(store.check().unwrap().index_faults.is_empty());
    }
}

/// Calls of a disk that concern chunks: opens, and reads and lengths.
fn counted(disk: &Arc<MemoryDisk>) -> (Arc<dyn Disk>, Arc<[AtomicU64; 2]>) {
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    let of = Arc::clone(&counts);
    let hooked = HookedDisk::new(Arc::clone(disk) as Arc<dyn Disk>, move |call, path| {
        let which = match call {
            _ if !path.contains(".pack") => return,
            Call::Open(_) => 0,
            Call::Read | Call::Len => 1,
            _ => return,
        };
        of[which].fetch_add(1, SeqCst);
    });
    (hooked, counts)
}

#[test]
fn a_chunk_is_verified_once_a_handle_and_then_a_cold_read_is_one_read() {
    let disk = MemoryDisk::seeded(1);
    let options = Options {
        chunk_bytes: 300,
        objects_bytes: 0,
        hashes_bytes: 0,
        pages_bytes: 0,
        ..options(Index::Minimal, Durability::Written)
    };
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let mut store = Store::create(shared, options.clone()).unwrap();
    let mut known = Vec::new();
    for number in 0..1_100_u64 {
        let mut tree = store.empty_tree();
        tree.add(&["a"], &number.to_le_bytes().repeat(20)).unwrap();
        known
            .push(store.commit(&mut tree, &CommitInfo::new(&[], number as i64, "a", "b")).unwrap());
    }
    store.close().unwrap();
    let count = known.len() as u64;
    assert!(chunks(&disk) >= count);
    let (hooked, counts) = counted(&disk);
    let store = Store::open_read_only(hooked, options).unwrap();
    let mut rounds = Vec::new();
    for _ in 0..3 {
        counts.iter().for_each(|count| count.store(0, SeqCst));
        for hash in &known {
            assert_eq!(store.checkout(hash).unwrap().find(&["a"]).unwrap().unwrap().len(), 160);
        }
        rounds.push((counts[0].load(SeqCst), counts[1].load(SeqCst)));
    }
    let [(_, first), (opened, second), third] = rounds[..] else { panic!() };
    println!("{rounds:?}");
    assert_eq!((opened, second), third);
    assert!(opened > count / 2, "most files were let go in between: {opened}");
    // To find the commit, its record again, the root and the value.
    assert!(second <= 4 * count + 10, "{second} reads for {count} lookups");
    assert!(first > second + 2 * (count - 100), "{first}, and {second} when they are verified");
}

/// Tells the story with a reader beside, which reloads after each act; the `n`-th call of a kind fails, and the
/// act is done again where the store goes on. `false` when there are fewer calls.
fn with_a_reader(index: Index, n: u64, fault: Fault) -> bool {
    let sim = SimDisk::new(7);
    let options = options(index, Durability::Synced);
    let mut tale = Tale::new(Arc::clone(&sim) as Arc<dyn Disk>, &options);
    let mut reader: Option<Store> = None;
    sim.fail_at(n, fault);
    let mut failed = false;
    for act in READER_ACTS {
        let mut allowed = vec![tale.told.clone(), tale.after(*act)];
        let mut outcome = tale.act(*act);
        for _ in 0..2 {
            let Err(error) = &outcome else { break };
            failed = true;
            if !tale.has_begun() || error.kind() == Kind::Poisoned {
                return true;
            }
            let what = (index, n, fault, *act);
            see(&sim, &mut reader, &options, &allowed, &what);
            outcome = tale.repeat(*act);
        }
        if outcome.is_err() {
            return true;
        }
        allowed.remove(0);
        see(&sim, &mut reader, &options, &allowed, &(index, n, fault, *act));
    }
    failed
}

const READER_ACTS: &[Act] = &[
    Act::Begin,
    Act::Commit(1),
    Act::Commit(2),
    Act::Chunk,
    Act::Chunk,
    Act::Commit(3),
    Act::Commit(4),
    Act::Chunk,
    Act::Commit(5),
    Act::Checkpoint,
    Act::Chunk,
    Act::Commit(6),
    Act::Clear,
    Act::Commit(7),
    Act::Chunk,
    Act::Commit(8),
];

/// Reloads the reader, and opens another.
fn see(
    sim: &Arc<SimDisk>,
    reader: &mut Option<Store>,
    options: &Options,
    allowed: &[Told],
    what: &dyn std::fmt::Debug,
) {
    let allowed: Vec<&Told> = allowed.iter().collect();
    let shared = Arc::clone(sim) as Arc<dyn Disk>;
    let fresh = Store::open_read_only(shared, options.clone())
        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
    let reader = reader.get_or_insert(fresh);
    reader.reload().unwrap_or_else(|error| panic!("{what:?}: {error}"));
    let found = which(reader, &allowed).unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert!(found.is_some(), "{what:?}: neither what was nor what is");
}

#[test]
fn a_reader_beside_a_writer_whose_calls_fail_goes_on_with_it() {
    for index in [Index::Minimal, Index::Always] {
        for fault in [Fault::Write, Fault::Sync, Fault::Space, Fault::Rename] {
            let mut n = 1;
            while with_a_reader(index, n, fault) {
                n += 1;
            }
            assert!(n > 4, "{fault:?}: {n}");
        }
    }
}

#[test]
fn what_is_more_than_the_format_holds_is_refused_with_a_sentence() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"b").unwrap();
    let parents = vec![CommitHash::new([1; 32]); 65_537];
    let long = vec![b'x'; (1 << 20) + 1];
    for info in [
        CommitInfo::new(&parents, 0, "a", "b"),
        CommitInfo::new(&[], 0, &long, "b"),
        CommitInfo::new(&[], 0, "a", &long),
    ] {
        let error = store.commit(&mut tree, &info).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.detail().contains("at most"), "{error}");
    }
    let most = CommitInfo::new(&parents[1..], 0, &long[1..], &long[1..]);
    let hash = store.commit(&mut tree, &most).unwrap();
    assert_eq!(store.commit_info(&hash).unwrap().message.len(), 1 << 20);
    for number in 0..5_000_u32 {
        let mut name = vec![b'n'; 4_092];
        name.extend(number.to_be_bytes());
        if let Err(error) = store.set_branch(&name, &hash) {
            assert!(number > 4_000 && error.kind() == Kind::Invalid, "{number}: {error}");
            store
                .set_branch(&[b'n'; 4_092].iter().copied().chain([0; 4]).collect::<Vec<_>>(), &hash)
                .unwrap();
            return;
        }
    }
    panic!("branches without end");
}

/// Has a tree spill, through chunks and checkpoints, as soon as a branch was written.
#[derive(Default)]
struct Spills(Mutex<Option<Tree>>);

impl Observer for Spills {
    fn now_ns(&self) -> u64 {
        0
    }

    fn record(&self, operation: Operation, _: &[&[u8]], _: u64, _: &Cost) {
        let is_branch = operation == Operation::Branch;
        let Some(mut tree) = is_branch.then(|| self.0.lock().unwrap().take()).flatten() else {
            return;
        };
        for number in 0..600_u64 {
            tree.add(&["data", &format!("{number}")], &number.to_le_bytes().repeat(4)).unwrap();
        }
    }
}

#[test]
fn a_branch_is_in_every_checkpoint_that_comes_after_it() {
    let disk = MemoryDisk::seeded(1);
    let spills = Arc::new(Spills::default());
    let base = Options { chunk_bytes: 2_000, ..options(Index::Minimal, Durability::Synced) };
    let observed = Options { observer: Some(spills.clone()), ..base.clone() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, observed).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"b").unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    for set in [true, false] {
        let (before, control) = (chunks(&disk), disk.bytes("control").unwrap());
        *spills.0.lock().unwrap() = Some(store.empty_tree());
        if set {
            store.set_branch(b"main", &hash).unwrap();
        } else {
            store.remove_branch(b"main").unwrap();
        }
        assert!(chunks(&disk) > before + 5 && disk.bytes("control").unwrap() != control);
        // The process dies here.
        let found = Store::open(disk.snapshot(), base.clone()).unwrap();
        assert_eq!(found.branch(b"main"), set.then_some(hash));
    }
}

/// Who no longer holds the lock removes nothing: the folder may be another's by then.
#[test]
fn files_of_before_a_clearing_go_with_the_lock_held_only() {
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let options = options(Index::Minimal, Durability::Synced);
    let mut store = Store::create(shared(), options.clone()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], &[7; 40]).unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let old = store.checkout(&hash).unwrap();
    store.clear().unwrap();
    store.close().unwrap();
    drop(old);
    assert!(disk.exists("0000-000000.pack").unwrap());
    drop(Store::open(shared(), options).unwrap());
    assert!(!disk.exists("0000-000000.pack").unwrap(), "the next opening removes it");
}

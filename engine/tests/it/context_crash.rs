//! The context's store through crashes and failed calls.

use std::sync::Arc;

use varvite::Result;
use varvite::context::{
    CommitHash, CommitInfo, Configuration, Durability, Index, Options, Store, Tree,
};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::error::Kind;

use crate::context_story::{ACTS, Act, Tale, Told, go_on, holds, options, which};
use crate::model::context::Node;
use crate::random::{Random, setting};

/// Unsynced changes up to which every subset is tried.
const EXHAUSTIVE: usize = 8;

/// Opens what a crash or a failure left: it must hold one of `allowed`, whole, with an index that has
/// caught up, without being made anew unless that is `remade`, and go on. Returns which; none when there
/// is no store yet.
fn reopens(
    disk: &Arc<dyn Disk>,
    options: &Options,
    allowed: &[&Told],
    remade: bool,
    what: &dyn std::fmt::Debug,
) -> Option<usize> {
    let (store, found) = opens(disk, options, allowed, remade, what)?;
    goes_on(disk, options, store, allowed[found], what);
    Some(found)
}

/// The first half of [`reopens`].
fn opens(
    disk: &Arc<dyn Disk>,
    options: &Options,
    allowed: &[&Told],
    remade: bool,
    what: &dyn std::fmt::Debug,
) -> Option<(Store, usize)> {
    let store = match Store::open(Arc::clone(disk), options.clone()) {
        // Before the control file is durable there is no store.
        Err(error) if error.kind() == Kind::Missing && allowed.contains(&&Told::default()) => {
            Store::create(Arc::clone(disk), options.clone())
                .unwrap_or_else(|error| panic!("{what:?}: not created again: {error}"));
            return None;
        }
        opened => opened.unwrap_or_else(|error| panic!("{what:?}: it does not open: {error}")),
    };
    assert!(remade || store.warnings().is_empty(), "{what:?}: {:?}", store.warnings());
    let found = which(&store, allowed).unwrap_or_else(|error| panic!("{what:?}: {error}"));
    let found = found.unwrap_or_else(|| panic!("{what:?}: none of {} contents", allowed.len()));
    let commits = allowed[found].commits.len() as u64;
    let checked = store.check().unwrap_or_else(|error| panic!("{what:?}: {error}"));
    assert_eq!((checked.commits, checked.index_faults), (commits, Vec::new()), "{what:?}");
    assert_eq!(store.stats().commits, commits, "{what:?}");
    Some((store, found))
}

/// The other half: two commits more, with an opening between, are found by a reader.
fn goes_on(
    disk: &Arc<dyn Disk>,
    options: &Options,
    mut store: Store,
    told: &Told,
    what: &dyn std::fmt::Debug,
) {
    let mut told = told.clone();
    for number in 0..2 {
        told = go_on(&mut store, &told, 1_000 + number).unwrap();
        if number == 0 {
            drop(store);
            store = Store::open(Arc::clone(disk), options.clone()).unwrap();
        }
    }
    store.close().unwrap();
    let reader = Store::open_read_only(Arc::clone(disk), options.clone()).unwrap();
    holds(&reader, &told).unwrap_or_else(|error| panic!("{what:?}: {error}"));
}

/// What happened at the places where the process died.
#[derive(Debug, Default)]
struct Tally {
    places: u64,
    images: u64,
    none: u64,
    before: u64,
    after: u64,
    earlier: u64,
}

/// Tells the story until the process dies at the `n`-th change or sync; `false` when it came to its end.
fn die_at(n: u64, options: &Options, tally: &mut Tally) -> bool {
    let sim = SimDisk::new(9);
    sim.kill_at(n);
    let mut tale = Tale::new(Arc::clone(&sim) as Arc<dyn Disk>, options);
    let mut history = vec![Told::default()];
    for act in ACTS {
        let after = tale.after(*act);
        let outcome = tale.act(*act);
        if !sim.is_dead() {
            outcome.unwrap_or_else(|error| panic!("{act:?} failed without a reason: {error}"));
            history.push(after);
            continue;
        }
        // The newest first: what was acknowledged, what perhaps came after it, what was before.
        let mut allowed: Vec<Told> = history.into_iter().rev().collect();
        if outcome.is_err() {
            allowed.insert(1, after);
        } else {
            allowed.insert(0, after);
        }
        drop(tale);
        allowed.dedup();
        let seeded = setting("VARVITE_CONTEXT_CRASH_IMAGES", 32);
        for (crash, image) in sim.crash_images(EXHAUSTIVE, seeded) {
            // Unsynced commits may be lost with the power, but not with the process.
            let lossy = options.durability == Durability::Written && crash != Crash::Process;
            let most = if lossy { allowed.len() } else { 2 };
            let allowed: Vec<_> = allowed.iter().take(most).collect();
            let disk = image as Arc<dyn Disk>;
            let remade = matches!(act, Act::Rebuild | Act::Clear);
            let what = (n, act, crash);
            let opened = opens(&disk, options, &allowed, remade, &what);
            match opened {
                None => tally.none += 1,
                Some((_, 0)) => tally.before += 1,
                Some((_, 1)) => tally.after += 1,
                Some(_) => tally.earlier += 1,
            }
            // Going on costs as much again, so every fourth does.
            if let Some((store, found)) = opened
                && tally.images.is_multiple_of(4)
            {
                goes_on(&disk, options, store, allowed[found], &what);
            }
            tally.images += 1;
        }
        tally.places += 1;
        return true;
    }
    assert!(sim.calls().mutations < n, "the story ended before call {n}, yet nothing died");
    false
}

fn every_crash(index: Index, durability: Durability) -> Tally {
    let (options, mut tally) = (options(index, durability), Tally::default());
    while die_at(tally.places + 1, &options, &mut tally) {}
    println!("{index:?}, {durability:?}: {tally:?}");
    assert!(tally.places > 100 && tally.images > 32 * tally.places, "{tally:?}");
    assert!(tally.before > 1_000 && tally.after > 20, "{tally:?}");
    tally
}

#[test]
fn a_crash_at_every_call_leaves_what_was_acknowledged() {
    assert_eq!(every_crash(Index::Minimal, Durability::Synced).earlier, 0);
}

#[test]
fn a_crash_at_every_call_leaves_what_was_acknowledged_with_every_object_indexed() {
    assert_eq!(every_crash(Index::Always, Durability::Synced).earlier, 0);
}

#[test]
fn without_syncs_a_power_cut_leaves_an_older_whole_commit() {
    let tally = every_crash(Index::Minimal, Durability::Written);
    assert!(tally.earlier > 20, "{tally:?}");
}

/// What came of one failing call.
struct Failed {
    /// Acts that failed.
    acts: u64,
    of_index: bool,
    /// Writing stopped.
    poisoned: bool,
}

/// Tells the story while the `n`-th call of `fault` fails.
fn fail(fault: Fault, n: u64, options: &Options, lose: bool) -> Failed {
    let sim = SimDisk::new(7);
    sim.lose_cache_on_failed_sync(lose);
    sim.fail_at(n, fault);
    let mut tale = Tale::new(Arc::clone(&sim) as Arc<dyn Disk>, options);
    let (mut failures, mut poisoned) = (0, false);
    // An index is made again, whatever failed of it, so it never stops writing.
    let mut of_index = false;
    let mut perhaps = Vec::new();
    'acts: for act in ACTS {
        let what = (fault, n, lose, *act);
        let after = tale.after(*act);
        let mut retried = false;
        while let Err(error) = tale.act(*act) {
            if retried {
                // The first failure stopped all writing, or came after the store was there.
                let is_there = matches!(act, Act::Begin) && error.kind() == Kind::Exists;
                let is_gone = lose && error.kind() == Kind::Corrupt;
                let has_stopped = !of_index && error.kind() == Kind::Poisoned;
                let right = is_there || is_gone || has_stopped;
                assert!(right, "{what:?}: {error:?}");
                poisoned = true;
                break 'acts;
            }
            failures += 1;
            of_index |= error.detail().contains("index/");
            assert_eq!(error.kind(), Kind::Io, "{what:?}: {error:?}");
            assert!(error.detail().len() > 20, "{what:?}: {error}");
            if let Err(error) = tale.is_intact() {
                // A system that drops what it could not sync: the answer is gone, but not wrong.
                let dropped = lose && error.kind() == Kind::Corrupt;
                assert!(dropped, "{what:?}: not intact: {error:?}");
            }
            perhaps.push(after.clone());
            if matches!(act, Act::End) {
                break;
            }
            retried = true;
        }
    }
    let told = tale.told.clone();
    drop(tale);
    let mut allowed = vec![&told];
    if poisoned {
        allowed.extend(&perhaps);
    }
    // A failure in the middle of making the index again leaves that to the next opening.
    let remade = failures > 0;
    for crash in [Crash::Process, Crash::Seed(n)] {
        let disk = sim.crash(crash) as Arc<dyn Disk>;
        reopens(&disk, options, &allowed, remade, &(fault, n, lose, crash));
    }
    Failed { acts: failures, of_index, poisoned }
}

#[test]
fn every_failing_call_gives_an_error_and_loses_nothing() {
    let (mut runs, mut failed, mut stopped, mut index_syncs) = (0_u64, 0_u64, 0_u64, 0_u64);
    for index in [Index::Minimal, Index::Always] {
        let options = options(index, Durability::Synced);
        let sim = SimDisk::new(7);
        let mut tale = Tale::new(Arc::clone(&sim) as Arc<dyn Disk>, &options);
        for act in ACTS {
            tale.act(*act).unwrap();
        }
        drop(tale);
        let calls = sim.calls();
        let all: u64 = Fault::ALL.iter().map(|fault| calls.of(*fault)).sum();
        let most = setting("VARVITE_FAULTS", 3_600).div_ceil(4);
        let stride = all.div_ceil(most).max(1);
        for fault in Fault::ALL {
            for n in (1..=calls.of(fault)).step_by(stride as usize) {
                for lose in [false, true] {
                    let of_call = fail(fault, n, &options, lose);
                    runs += 1;
                    failed += u64::from(of_call.acts > 0);
                    stopped += u64::from(of_call.poisoned);
                    index_syncs += u64::from(of_call.of_index && fault == Fault::Sync);
                }
            }
        }
        println!("{index:?}: {all} calls by kind, one of {stride}");
    }
    println!(
        "{runs} runs, {failed} with a failure, {index_syncs} of a sync of the index, {stopped} \
         stopped writing"
    );
    assert!(failed > runs / 4 && stopped > 20, "{runs} {failed} {stopped}");
    // Only checkpoints that are asked for sync the index.
    assert!(index_syncs > 10, "{index_syncs}");
}

/// A store that has come to the end of the story, as files.
fn story_store(index: Index, seed: u64) -> (Arc<MemoryDisk>, Told) {
    let disk = MemoryDisk::seeded(1);
    let options = Options { seed: Some(seed), ..options(index, Durability::Synced) };
    let mut tale = Tale::new(disk.clone(), &options);
    for act in ACTS {
        tale.act(*act).unwrap();
    }
    (disk, tale.told)
}

/// The tree of commit `number`, which follows from the number alone.
fn change(tree: &mut Tree, number: u64) -> Result<()> {
    let mut random = Random::new(number);
    for _ in 0..4 {
        let name = format!("{}", random.below(40));
        tree.add(&["data", &name, "value"], &random.bytes(1 + number as usize % 30))?;
    }
    tree.remove(&["data", &format!("{}", random.below(40))])
}

fn info(number: u64, parent: Option<CommitHash>) -> CommitInfo {
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    CommitInfo::new(&parents, number as i64, "Tezos", format!("lvl {number}"))
}

fn small(index: Index) -> Options {
    Options {
        index,
        chunk_bytes: 700,
        objects_bytes: 4000,
        hashes_bytes: 2000,
        pages_bytes: 0,
        ..Options::default()
    }
}

#[test]
fn a_failed_commit_changes_nothing_and_can_be_repeated() {
    let sim = SimDisk::new(5);
    let disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let mut store = Store::create(disk, Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    change(&mut tree, 1).unwrap();
    sim.fail_at(1, Fault::Write);
    assert_eq!(store.commit(&mut tree, &info(1, None)).unwrap_err().kind(), Kind::Io);
    assert!(store.log(9).unwrap().is_empty());
    let hash = store.commit(&mut tree, &info(1, None)).unwrap();
    change(&mut tree, 2).unwrap();
    sim.fail_at(1, Fault::Sync);
    assert_eq!(store.commit(&mut tree, &info(2, Some(hash))).unwrap_err().kind(), Kind::Io);
    let error = store.commit(&mut tree, &info(2, Some(hash))).unwrap_err();
    assert_eq!(error.kind(), Kind::Poisoned);
    assert!(store.checkout(&hash).unwrap().mem_tree(&["data"]).unwrap(), "reading goes on");
    assert_eq!(store.log(9).unwrap(), [hash]);
}

/// Each way to write, on a disk whose `n`-th call of a kind fails before anything has another name: the
/// call is refused, and the same call again succeeds.
#[test]
fn what_fails_before_the_rename_is_refused_and_can_be_repeated() {
    type Write = fn(&mut Store, &Told) -> Result<()>;
    let writes: [(&str, Write); 5] = [
        ("checkpoint", |store, _| store.checkpoint()),
        ("chunk", |store, _| store.begin_chunk()),
        ("clear", |store, _| store.clear()),
        ("commit", |store, told| go_on(store, told, 50).map(drop)),
        ("branch", |store, told| store.set_branch(b"late", &told.commits[0].0)),
    ];
    let options = options(Index::Always, Durability::Synced);
    let mut refused = 0;
    for (name, write) in writes {
        for fault in [Fault::Space, Fault::Write, Fault::Rename, Fault::Open] {
            for n in 1.. {
                let sim = SimDisk::new(n);
                let disk = Arc::clone(&sim) as Arc<dyn Disk>;
                let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
                let mut told = Told::default();
                // So many that the next commit begins a chunk.
                while store.stats().pack_bytes <= options.chunk_bytes {
                    told = go_on(&mut store, &told, told.commits.len() as u64).unwrap();
                }
                let before = sim.calls().of(fault);
                sim.fail_at(n, fault);
                let outcome = write(&mut store, &told);
                if sim.calls().of(fault) - before < n {
                    break;
                }
                let what = (name, fault, n);
                if let Err(error) = outcome {
                    assert_eq!(error.kind(), Kind::Io, "{what:?}: {error}");
                    holds(&store, &told).unwrap();
                    write(&mut store, &told).unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    refused += 1;
                }
                let after = Told {
                    commits: {
                        let mut log = store.log(usize::MAX).unwrap();
                        log.reverse();
                        log.iter().map(|hash| (*hash, Node::empty())).collect()
                    },
                    branches: store.branches().into_iter().collect(),
                };
                drop(store);
                let cut = sim.crash(Crash::Subset(0)) as Arc<dyn Disk>;
                let store = Store::open(cut, options.clone()).unwrap();
                let mut log = store.log(usize::MAX).unwrap();
                log.reverse();
                assert!(log.iter().eq(after.commits.iter().map(|(hash, _)| hash)), "{what:?}");
                assert!(store.branches().into_iter().eq(after.branches), "{what:?}");
            }
        }
    }
    assert!(refused > 40, "{refused}");
}

#[test]
fn a_full_disk_refuses_until_there_is_room_again() {
    let sim = SimDisk::new(3);
    let options = options(Index::Minimal, Durability::Synced);
    let mut store = Store::create(Arc::clone(&sim) as Arc<dyn Disk>, options.clone()).unwrap();
    let mut told = go_on(&mut store, &Told::default(), 1).unwrap();
    for number in 2..40 {
        sim.capacity(Some(sim.total_bytes() + number % 3 * 40));
        for refused in [store.begin_chunk(), store.checkpoint()] {
            assert!(refused.is_err_and(|error| error.kind() == Kind::Io), "{number}");
        }
        let outcome = go_on(&mut store, &told, number);
        sim.capacity(None);
        told = match outcome {
            Ok(after) => after,
            Err(error) => {
                assert_eq!(error.kind(), Kind::Io, "{number}: {error}");
                go_on(&mut store, &told, number).unwrap()
            }
        };
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    let store = Store::open(sim.crash(Crash::Subset(0)), options).unwrap();
    holds(&store, &told).unwrap();
}

#[test]
fn files_of_another_store_are_refused() {
    let (disk, _) = story_store(Index::Minimal, 9);
    let (other, _) = story_store(Index::Minimal, 77);
    let packs: Vec<String> =
        disk.files().into_iter().filter(|name| name.contains(".pack")).collect();
    assert!(packs.len() > 1, "{packs:?}");
    for name in packs {
        let copy = disk.snapshot();
        copy.replace(&name, other.bytes(&name).unwrap()).unwrap();
        let options = options(Index::Minimal, Durability::Synced);
        let error = Store::open(copy, options).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.detail().contains(&name), "{error}");
    }
}

#[test]
fn a_reader_follows_through_chunks_while_another_handle_writes() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk), small(Index::Minimal)).unwrap();
    let mut reader = Store::open_read_only(Arc::clone(&disk), small(Index::Minimal)).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut last = None;
    for number in 0..40 {
        change(&mut tree, number).unwrap();
        let hash = store.commit(&mut tree, &info(number, last)).unwrap();
        assert!(!reader.exists(&hash).unwrap(), "not before the reload");
        reader.reload().unwrap();
        let read = reader.checkout(&hash).unwrap();
        assert!(read.equal(&tree).unwrap());
        last = Some(hash);
    }
    assert!(store.stats().chunks > 3);
}

#[test]
fn a_lock_file_left_by_a_dead_process_stops_nobody() {
    let (disk, told) = story_store(Index::Minimal, 9);
    if !disk.exists("lock").unwrap() {
        disk.open("lock", Mode::Create, Access::Buffered).unwrap();
    }
    let store = Store::open(disk, options(Index::Minimal, Durability::Synced)).unwrap();
    holds(&store, &told).unwrap();
}

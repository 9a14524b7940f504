//! A context's store whose process is killed, that is opened again and asked for the same again, before
//! the power goes: what the second process saw or was told must be there.
//!
//! What the first one wrote and did not sync is in the system's memory all the while.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use varvite::Kind;
use varvite::context::{CommitHash, CommitInfo, Durability, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, SimDisk};

use crate::context_story::{ACTS, Tale, Told, options, which};
use crate::hooked_disk::{Call, HookedDisk};
use crate::random::{Random, setting};

fn commit(
    store: &mut Store,
    number: u8,
    parent: Option<CommitHash>,
) -> varvite::Result<CommitHash> {
    let mut tree = store.empty_tree();
    tree.add(&["data"], &[number; 40])?;
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, number.into(), "a", "b"))
}

/// Lets the process die at the `n`-th change from now, in `action`, and gives the disk to the next one.
fn killed(sim: &Arc<SimDisk>, n: u64, action: impl FnOnce()) -> Arc<SimDisk> {
    sim.kill_at(n);
    action();
    assert!(sim.is_dead(), "it ended before its {n}-th change");
    sim.crash(Crash::Process)
}

fn open(sim: &Arc<SimDisk>) -> Store {
    Store::open(Arc::clone(sim) as Arc<dyn Disk>, Options::default()).unwrap()
}

#[test]
fn a_commit_that_the_killed_process_wrote_is_durable_before_it_is_acknowledged() {
    let sim = SimDisk::new(5);
    let mut store = Store::create(Arc::clone(&sim) as Arc<dyn Disk>, Options::default()).unwrap();
    let first = commit(&mut store, 1, None).unwrap();
    // The second change is the sync.
    let sim = killed(&sim, 2, || drop(commit(&mut store, 2, Some(first)).unwrap_err()));
    let mut store = open(&sim);
    let second = commit(&mut store, 2, Some(first)).unwrap();
    assert_eq!(store.log(9).unwrap(), [second, first]);
    let cut = open(&sim.crash(Crash::Subset(0)));
    assert_eq!(cut.log(9).unwrap(), [second, first], "it was acknowledged");
}

#[test]
fn a_chunk_whose_control_file_was_renamed_by_a_killed_process_keeps_its_commits() {
    let mut dead = 0;
    for n in 1..30 {
        let sim = SimDisk::new(5);
        let mut store =
            Store::create(Arc::clone(&sim) as Arc<dyn Disk>, Options::default()).unwrap();
        let first = commit(&mut store, 1, None).unwrap();
        sim.kill_at(n);
        if store.begin_chunk().and_then(|()| store.checkpoint()).is_ok() {
            break;
        }
        dead += 1;
        let sim = sim.crash(Crash::Process);
        let mut store = open(&sim);
        let second = commit(&mut store, 2, Some(first)).unwrap();
        let cut = open(&sim.crash(Crash::Subset(0)));
        assert_eq!(cut.log(9).unwrap(), [second, first], "killed at change {n}");
    }
    assert!(dead > 8, "{dead} places");
}

/// The power goes: in every image the store holds what `told` says.
fn is_durable(sim: &SimDisk, options: &Options, told: &Told, what: &dyn std::fmt::Debug) -> u64 {
    let seeded = setting("VARVITE_CONTEXT_RETRY_IMAGES", 6);
    let mut images = 0;
    for (crash, image) in sim.crash_images(3, seeded) {
        let store = Store::open(image as Arc<dyn Disk>, options.clone())
            .unwrap_or_else(|error| panic!("{what:?}, {crash:?}: it does not open: {error}"));
        let found = which(&store, &[told]).unwrap_or_else(|error| panic!("{what:?}: {error}"));
        assert!(found.is_some(), "{what:?}, {crash:?}: something else than was acknowledged");
        images += 1;
    }
    images
}

/// Tells the story until the process dies at the `n`-th change or sync; the next ones do the last act
/// again, each dying once more while `random` says so. `false` when the story came to its end.
fn die_and_repeat(n: u64, options: &Options, images: &mut u64) -> bool {
    let mut sim = SimDisk::new(n);
    let mut random = Random::new(n);
    sim.kill_at(n);
    let mut tale = Tale::new(Arc::clone(&sim) as Arc<dyn Disk>, options);
    let Some(act) = ACTS.iter().find(|act| {
        let outcome = tale.act(**act);
        assert!(sim.is_dead() || outcome.is_ok(), "{act:?}: {outcome:?}");
        sim.is_dead()
    }) else {
        return false;
    };
    let mut deaths = 1;
    // An act that ended although the process died in it was told all the same.
    let (before, after) = (tale.told.clone(), tale.after(*act));
    loop {
        sim = sim.crash(Crash::Process);
        let dies = deaths < 3 && random.one_in(2);
        if dies {
            sim.kill_at(1 + random.below(12));
        }
        let what = (n, *act, deaths);
        let resumed = tale.resume(Arc::clone(&sim) as Arc<dyn Disk>);
        if !sim.is_dead() {
            let mut next = resumed.unwrap_or_else(|error| panic!("{what:?}: {error}"));
            if next.has_begun() {
                let seen = which(next.store(), &[&before, &after]).unwrap();
                let seen = [&before, &after][seen.expect("what was or what was to be")];
                *images += is_durable(&sim, options, seen, &("seen", what));
            }
            let outcome = next.repeat(*act);
            if !sim.is_dead() {
                outcome.unwrap_or_else(|error| panic!("{what:?}: {error}"));
                *images += is_durable(&sim, options, &after, &("acknowledged", what));
                return true;
            }
        }
        deaths += 1;
    }
}

fn every_death(index: Index) {
    let (options, mut places, mut images) = (options(index, Durability::Synced), 0, 0);
    while die_and_repeat(places + 1, &options, &mut images) {
        places += 1;
    }
    println!("{index:?}: {places} places, {images} power cuts");
    assert!(places > 100 && images > 5 * places, "{places} {images}");
}

#[test]
fn what_is_done_again_after_a_kill_outlives_a_power_cut() {
    every_death(Index::Minimal);
}

#[test]
fn what_is_done_again_after_a_kill_outlives_a_power_cut_with_every_object_indexed() {
    every_death(Index::Always);
}

/// Nobody knows what a write did that panicked, so nothing is appended behind it.
#[test]
fn a_write_that_panics_ends_all_writing_and_costs_no_commit() {
    let disk = MemoryDisk::seeded(1);
    let panics = Arc::new(AtomicBool::new(false));
    let hook = Arc::clone(&panics);
    let hooked = HookedDisk::new(Arc::clone(&disk) as Arc<dyn Disk>, move |call, path| {
        let is_hit = call == Call::Write && path.ends_with("pack") && hook.swap(false, SeqCst);
        assert!(!is_hit, "the host's disk panics");
    });
    let mut store = Store::create(hooked, Options::default()).unwrap();
    let first = commit(&mut store, 1, None).unwrap();
    panics.store(true, SeqCst);
    catch_unwind(AssertUnwindSafe(|| drop(commit(&mut store, 2, Some(first))))).unwrap_err();
    let refused = commit(&mut store, 3, Some(first)).unwrap_err();
    assert_eq!(refused.kind(), Kind::Poisoned, "{refused}");
    drop(store);
    let mut store = Store::open(Arc::clone(&disk) as Arc<dyn Disk>, Options::default()).unwrap();
    let second = commit(&mut store, 2, Some(first)).unwrap();
    drop(store);
    let store = Store::open(disk, Options::default()).unwrap();
    assert_eq!(store.log(9).unwrap(), [second, first]);
}

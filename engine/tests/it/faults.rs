//! Every call of a workload fails once, in every way: an error of the right kind, nothing lost, nothing half
//! done; and the store goes on, or refuses to write until it is reopened.

use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Error, Kind};

use crate::model::table::Snapshots;
use crate::random::setting;
use crate::story::{ACTS, Act, Story, assert_reopens};

/// How a run with one fault went.
#[derive(Default, Debug)]
struct Tally {
    runs: u64,
    unnoticed: u64,
    failed: u64,
    poisoned: u64,
    /// What was answered before could not be read any more.
    lost: u64,
}

/// Whether it tells of a sync that failed.
pub fn is_failed_sync(error: &Error) -> bool {
    error.kind() == Kind::Io && error.detail().contains("could not sync")
}

/// Tells the story while the `n`-th call of `fault` fails.
fn run(fault: Fault, n: u64, lose: bool, tally: &mut Tally) {
    let sim = SimDisk::new(7);
    sim.lose_cache_on_failed_sync(lose);
    sim.fail_at(n, fault);
    let mut story = Story::new(Arc::clone(&sim) as Arc<dyn Disk>);
    // Snapshots that an act may have made or removed though it failed.
    let mut allowed: Vec<Snapshots> = Vec::new();
    let mut failures = 0;
    let mut poisoned = false;
    for act in ACTS {
        let what = (fault, n, *act);
        let mut retried = false;
        loop {
            let after = story.saved_after(*act);
            let Err(error) = story.act(*act) else { break };
            if poisoned || retried {
                // The first failure stopped all writing: this is the consequence.
                let kind = error.kind();
                let right = [Kind::Poisoned, Kind::Missing, Kind::Exists].contains(&kind);
                assert!(right && failures == 1, "{what:?}: {error:?}");
                poisoned = true;
                break;
            }
            failures += 1;
            assert_eq!(error.kind(), Kind::Io, "{what:?}: {error:?}");
            assert!(error.detail().len() > 20, "{what:?}: {error}");
            if let Err(lost) = story.is_intact() {
                // A system that drops what it could not sync: the answer is gone, but not wrong, and
                // nothing is built upon it.
                let dropped = lose && is_failed_sync(&error) && lost.kind() == Kind::Corrupt;
                assert!(
                    dropped && story.is_poisoned(),
                    "{what:?}: {error:?}; not intact: {lost:?}"
                );
                tally.lost += 1;
            }
            allowed.push(after);
            if matches!(act, Act::End) {
                break; // The session ended all the same; what it could not remove goes at the next opening.
            }
            retried = true;
        }
        if poisoned {
            break;
        }
    }
    tally.runs += 1;
    tally.poisoned += u64::from(poisoned);
    tally.failed += u64::from(failures > 0 && !poisoned);
    tally.unnoticed += u64::from(failures == 0);
    let what = (fault, n, poisoned);
    let saved = story.stop();
    let mut expected = vec![&saved];
    if poisoned {
        expected.extend(&allowed);
    }
    // The same when the process dies as when the power goes: a snapshot is durable, or not there.
    for crash in [Crash::Process, Crash::Seed(n)] {
        assert_reopens(&(sim.crash(crash) as Arc<dyn Disk>), &expected, &(what, crash));
    }
}

#[test]
fn every_failing_call_gives_an_error_and_loses_nothing() {
    let sim = SimDisk::new(7);
    let mut story = Story::new(Arc::clone(&sim) as Arc<dyn Disk>);
    for act in ACTS {
        story.act(*act).unwrap();
    }
    let calls = sim.calls();
    let all: u64 = Fault::ALL.iter().map(|fault| calls.of(*fault)).sum();
    let most = setting("VARVITE_FAULTS", 1_000).div_ceil(2);
    let stride = all.div_ceil(most).max(1);
    let mut tally = Tally::default();
    for fault in Fault::ALL {
        let last = calls.of(fault);
        assert!(last > 0, "the story makes no call that {fault:?} counts");
        for n in (1..=last).step_by(stride as usize) {
            run(fault, n, false, &mut tally);
            run(fault, n, true, &mut tally);
        }
    }
    println!("of {all} calls by kind: {tally:?}");
    assert!(tally.failed > tally.runs / 4, "{tally:?}");
    assert!(tally.poisoned > 0, "a failed sync must stop writing: {tally:?}");
    assert!(tally.lost > 0, "a system that drops pages is noticed: {tally:?}");
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_room_again() {
    let sim = SimDisk::new(7);
    let mut story = Story::new(Arc::clone(&sim) as Arc<dyn Disk>);
    story.act(Act::Begin).unwrap();
    story.act(Act::Create("a")).unwrap();
    story.act(Act::Update("a", 1, 40)).unwrap();
    story.act(Act::Save("one", &["a"])).unwrap();
    sim.capacity(Some(sim.total_bytes() + 3_000));
    let mut seed = 2;
    let error = loop {
        match story.act(Act::Update("a", seed, 40)) {
            Ok(()) => seed += 1,
            Err(error) => break error,
        }
        assert!(seed < 100, "a full disk is noticed");
    };
    assert_eq!(error.kind(), Kind::Io, "{error:?}");
    assert!(error.detail().contains("free some space"), "{error}");
    story.is_intact().unwrap();
    sim.capacity(None);
    story.act(Act::Update("a", seed, 40)).unwrap();
    story.act(Act::Save("two", &["a"])).unwrap();
    let saved = story.stop();
    assert_reopens(&(sim.crash(Crash::Seed(1)) as Arc<dyn Disk>), &[&saved], &"full");
}

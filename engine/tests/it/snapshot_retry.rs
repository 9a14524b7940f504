//! A session whose process is killed while it saves or deletes a snapshot, that is opened again before
//! the power goes: what the second process is shown must be there afterwards, whole.
//!
//! What the first one wrote and did not sync is in the system's memory all the while.

use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{Batch, Error, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions};

use crate::random::setting;

fn open(sim: &Arc<SimDisk>) -> Session {
    let options = SessionOptions { seed: Some(7), ..SessionOptions::default() };
    Session::open(Arc::clone(sim) as Arc<dyn Disk>, options).unwrap()
}

/// A session with the snapshots `one` and `two`, and what a table of it holds in a third moment.
fn session(sim: &Arc<SimDisk>) -> (Session, varvite::Table) {
    let options = SessionOptions { seed: Some(7), ..SessionOptions::default() };
    let session = Session::create(Arc::clone(sim) as Arc<dyn Disk>, options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    for name in ["one", "two", "three"] {
        table.update(Batch::new().insert(b"last", name.as_bytes())).unwrap();
        if name != "three" {
            let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
            session.save_snapshot(name, content).unwrap();
        }
    }
    (session, table)
}

/// The names of the snapshots, each of which opens and holds what it was saved with.
fn whole(session: &Session) -> Vec<String> {
    let listed = session.list_snapshots().unwrap();
    let names: Vec<String> = listed.into_iter().map(|info| info.name).collect();
    for name in &names {
        let mut snapshot = session.open_snapshot(name, &OpenSnapshot::default()).unwrap();
        let value = snapshot.take("t").unwrap().get(b"last").unwrap();
        assert_eq!(value.as_deref(), Some(name.as_bytes()));
    }
    names
}

/// Kills `act` at each of its changes, and then has the power go after the next process looked.
/// Returns at how many it died.
fn shown_is_durable(act: impl Fn(&Session, &varvite::Table) -> Result<(), Error>) -> u64 {
    for n in 1.. {
        let sim = SimDisk::new(n);
        let (first, table) = session(&sim);
        sim.kill_at(n);
        let outcome = act(&first, &table);
        if !sim.is_dead() {
            outcome.unwrap();
            return n - 1;
        }
        drop((first, table));
        let next = sim.crash(Crash::Process);
        let shown = whole(&open(&next));
        assert!(shown.contains(&"two".to_owned()), "{n}: {shown:?}");
        for (crash, image) in next.crash_images(6, setting("VARVITE_CRASH_IMAGES", 32)) {
            assert_eq!(whole(&open(&image)), shown, "killed at {n}, {crash:?}");
        }
    }
    unreachable!("every act ends")
}

#[test]
fn a_snapshot_that_a_killed_process_saved_is_durable_once_it_is_shown() {
    let deaths = shown_is_durable(|session, table| {
        session
            .save_snapshot("three", SnapshotContent { label: "", payload: b"", tables: &[table] })
    });
    assert!(deaths > 5, "{deaths}");
}

#[test]
fn a_snapshot_that_a_killed_process_deleted_is_gone_or_whole() {
    let deaths = shown_is_durable(|session, _| session.delete_snapshot("one"));
    assert!(deaths > 1, "{deaths}");
}

/// A deletion that a killed process did not end is ended by the next opening, also where the disk is full:
/// there it is the way to make room.
#[test]
fn a_deletion_that_was_cut_short_is_ended_on_a_full_disk() {
    let is_begun =
        |sim: &SimDisk| sim.list("snapshots").unwrap().iter().any(|name| name.ends_with("deleted"));
    let mut ended = 0;
    for n in 1.. {
        let sim = SimDisk::new(n);
        let (first, table) = session(&sim);
        sim.kill_at(n);
        let outcome = first.delete_snapshot("one");
        if !sim.is_dead() {
            outcome.unwrap();
            break;
        }
        drop((first, table));
        let next = sim.crash(Crash::Process);
        let begun = is_begun(&next);
        let there = next.list("snapshots").unwrap().contains(&"one.snapshot".to_owned());
        next.capacity(Some(next.total_bytes()));
        let session = open(&next);
        assert_eq!(session.warnings(), Vec::<String>::new(), "killed at {n}");
        assert_eq!(whole(&session).contains(&"one".to_owned()), there, "killed at {n}");
        assert!(!is_begun(&next), "killed at {n}");
        ended += u32::from(begun);
    }
    assert!(ended > 0);
}

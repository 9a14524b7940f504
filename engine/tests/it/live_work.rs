//! What an update of a live table does beside its own work: for checkpoints, for tables that are not
//! live, and for one that cannot be written out. None of it grows with the tables.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::sim::SimDisk;
use varvite::disk::{Disk, Mode};
use varvite::{Batch, Kind, LoadOrder, Log, Session, SessionOptions, Table, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};
use crate::log::options;

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 700, ..TableOptions::default() }
}

fn insert(table: &mut Table, number: u64) -> varvite::Result<()> {
    table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 40]))
}

fn loaded(session: &Session, options: TableOptions, entries: u64) -> Table {
    let order = LoadOrder::Any { memory_bytes: 1 << 20 };
    let mut loader = session.load_table("other", options, order).unwrap();
    (0..entries).for_each(|number| loader.push(&number.to_be_bytes(), &[7; 40]).unwrap());
    loader.finish().unwrap()
}

/// Files that were synced.
type Synced = Arc<Mutex<Vec<String>>>;

fn noting(sim: &Arc<SimDisk>) -> (Arc<dyn Disk>, Synced) {
    let synced = Synced::default();
    let noted = Arc::clone(&synced);
    let disk = HookedDisk::new(Arc::clone(sim) as _, move |call, path| {
        if call == Call::Sync && path.starts_with("segments/") {
            noted.lock().unwrap().push(path.to_owned());
        }
    });
    (disk, synced)
}

fn segments(sim: &SimDisk) -> BTreeSet<String> {
    let names = sim.list("segments").unwrap().into_iter();
    names.map(|name| format!("segments/{name}")).collect()
}

/// A table that is not live makes segments beside one that is: no checkpoint needs them.
#[test]
fn updates_of_live_tables_sync_nothing_of_those_that_are_not() {
    let sim = SimDisk::new(1);
    let (disk, synced) = noting(&sim);
    let session = Session::create(disk, options(Log::Written)).unwrap();
    let mut live = session.create_table("live", small()).unwrap();
    let mut other = loaded(&session, small(), 1);
    (0..100).for_each(|number| insert(&mut live, number).unwrap());
    let (before, checkpoints) = (segments(&sim), session.stats().checkpoints);
    (0..300).for_each(|number| insert(&mut other, number).unwrap());
    let made: BTreeSet<_> = segments(&sim).difference(&before).cloned().collect();
    assert!(made.len() > 5, "{made:?}");
    synced.lock().unwrap().clear();
    (100..400).for_each(|number| insert(&mut live, number).unwrap());
    assert!(session.stats().checkpoints > checkpoints + 5);
    let synced = synced.lock().unwrap().clone();
    assert!(synced.len() > 10 && !synced.iter().any(|path| made.contains(path)), "{synced:?}");
}

/// The most segments that one update synced, and how many were synced in all, when the live table has
/// `entries` entries; that does not count what a merge made in the very update.
fn syncs(entries: u64) -> (usize, usize) {
    let sim = SimDisk::new(1);
    let (disk, synced) = noting(&sim);
    let options =
        SessionOptions { log_file_bytes: 60_000, segment_bytes: 12 << 10, ..options(Log::Written) };
    let session = Session::create(disk, options).unwrap();
    let medium = TableOptions { write_buffer_bytes: 20_000, ..TableOptions::default() };
    let mut table = loaded(&session, medium, entries);
    session.publish(&mut table).unwrap();
    let (mut most, mut all) = (0, 0);
    for number in 0..8_000_u64 {
        synced.lock().unwrap().clear();
        insert(&mut table, number.wrapping_mul(0x9e37_79b9) % entries).unwrap();
        let count = synced.lock().unwrap().len();
        if table.last_work() == 0 {
            most = most.max(count);
        }
        all += count;
    }
    (most, all)
}

/// With the log on, no update syncs more for a larger table: checkpoints find the segments durable.
#[test]
fn an_update_syncs_no_more_for_a_larger_table() {
    let (small, small_all) = syncs(2_000);
    let (large, large_all) = syncs(20_000);
    assert!(small_all > 30 && large_all > 30, "{small_all} {large_all}");
    assert!(small <= 3 && large <= 3, "{small}, and {large} with the larger table");
}

/// A table cannot be written out, and its host goes on trying: it is told so, mostly without another
/// attempt, and soon after there is nothing wrong any more its update is taken.
#[test]
fn a_refused_update_does_not_write_out_again_and_again() {
    let sim = SimDisk::new(1);
    let (reads, counted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&reads);
    let disk = HookedDisk::new(Arc::clone(&sim) as _, move |call, path| {
        if call == Call::Read && path.starts_with("segments/") {
            count.fetch_add(1, SeqCst);
        }
    });
    let session = Session::create(disk, options(Log::Written)).unwrap();
    let mut first = session.create_table("first", small()).unwrap();
    (0..60).for_each(|number| insert(&mut first, number).unwrap());
    let mut bad = first.duplicate("bad").unwrap();
    session.publish(&mut bad).unwrap();
    drop(first);
    session.delete_table("first").unwrap();
    insert(&mut bad, 100).unwrap();
    let paths = segments(&sim).into_iter();
    let all = paths.map(|path| (sim.bytes(&path).unwrap(), path));
    let kept: Vec<_> = all.filter(|(bytes, _)| bytes.len() > 4096 + 100).collect();
    for (bytes, path) in &kept {
        let mut damaged = bytes.clone();
        damaged[4096 + 100] ^= 1;
        sim.damage(path, damaged).unwrap();
    }
    let large = TableOptions { write_buffer_bytes: 1 << 20, ..TableOptions::default() };
    let mut good = session.create_table("good", large).unwrap();
    let mut number = 0;
    let mut more = |count| {
        (number..number + count).for_each(|number| insert(&mut good, number).unwrap());
        number += count;
    };
    more(300);
    assert_eq!(session.warnings().len(), 1);
    let attempt = |bad: &mut Table| {
        let before = reads.load(SeqCst);
        let refused = insert(bad, 200).unwrap_err();
        assert_eq!(refused.kind(), Kind::Corrupt);
        counted.fetch_add(usize::from(reads.load(SeqCst) > before), SeqCst);
        refused.to_string()
    };
    let said: BTreeSet<_> = (0..1_000).map(|_| attempt(&mut bad)).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    let attempts = counted.swap(0, SeqCst);
    assert!((2..=1_000 / 64 + 8).contains(&attempts), "{attempts} attempts");
    // Something has changed when a checkpoint has tried.
    more(300);
    (0..2).for_each(|_| drop(attempt(&mut bad)));
    assert_eq!(counted.load(SeqCst), 2);
    (0..100).for_each(|_| drop(attempt(&mut bad)));
    for (bytes, path) in kept {
        sim.damage(&path, bytes).unwrap();
    }
    let refusals = (0..64).take_while(|_| insert(&mut bad, 200).is_err()).count();
    assert!(refusals < 64, "{refusals}");
    assert_eq!(session.warnings(), Vec::<String>::new());
}

/// What one update did: syncs of files and folders, files that it made, and those of them that are segments.
type Work = [usize; 3];

fn counting(sim: &Arc<SimDisk>) -> (Arc<dyn Disk>, Arc<[AtomicUsize; 3]>) {
    let work = Arc::<[AtomicUsize; 3]>::default();
    let counted = Arc::clone(&work);
    let disk = HookedDisk::new(Arc::clone(sim) as _, move |call, path| {
        let is_made = call == Call::Open(Mode::Create);
        let is_synced = [Call::Sync, Call::SyncDirectory].contains(&call);
        let did = [is_synced, is_made, is_made && path.starts_with("segments/")];
        for (place, did) in did.into_iter().enumerate() {
            counted[place].fetch_add(usize::from(did), SeqCst);
        }
    });
    (disk, work)
}

/// The most that one update did beside `idle` tables that keep log files and have to be written out, and what all did.
/// Each update has `values` values, and the log some twelve files.
fn beside_idle(idle: usize, values: u64) -> [Work; 2] {
    let sim = SimDisk::new(1);
    let (disk, work) = counting(&sim);
    let options = SessionOptions { log_file_bytes: 60_000, ..options(Log::Written) };
    let session = Session::create(disk, options).unwrap();
    for number in 0..idle {
        insert(&mut session.create_table(&format!("idle-{number}"), small()).unwrap(), 1).unwrap();
    }
    // No merges of its own, which sync nothing and make segments.
    let large = TableOptions { write_buffer_bytes: 4 << 20, ..TableOptions::default() };
    let mut busy = session.create_table("busy", large).unwrap();
    let created = session.stats().checkpoints;
    let [mut most, mut all] = [Work::default(); 2];
    for number in 0..600_000 / (60 * values) {
        work.iter().for_each(|count| count.store(0, SeqCst));
        let mut batch = Batch::new();
        for value in 0..values {
            batch.insert(&(number * values + value).to_be_bytes(), &[7; 40]);
        }
        busy.update(&batch).unwrap();
        for (place, count) in work.iter().enumerate() {
            let count = count.load(SeqCst);
            most[place] = most[place].max(count);
            all[place] += count;
        }
    }
    let checkpoints = session.stats().checkpoints - created;
    assert!((8..=16).contains(&checkpoints), "{checkpoints} checkpoints");
    assert!(all[2] >= idle, "{idle} tables, and {} segments", all[2]);
    [most, all]
}

/// Tables that are seldom updated are written out by the checkpoint that finds them behind, one an update, and made
/// durable one an update: no update waits for all of them.
#[test]
fn an_update_writes_out_and_syncs_no_more_beside_more_idle_tables() {
    for idle in [1, 40] {
        let [[synced, made, _], all] = beside_idle(idle, 1);
        assert!(synced <= 4 && made <= 1, "{idle}: {synced} syncs, {made} files in one of {all:?}");
    }
}

/// Where few updates fill a log file, each of them does its part: a checkpoint is written before the next file is full,
/// and no update does all that is left.
#[test]
fn an_update_of_many_bytes_takes_its_part_of_a_checkpoint_and_no_more() {
    // Some sixty of them fill a file, and an eighth of it is for the forty tables.
    let [[synced, made, _], all] = beside_idle(40, 16);
    assert!(synced <= 8 && made <= 8, "{synced} syncs, {made} files in one of {all:?}");
}

/// Where each fills a file, the next one does all that is left: the log does not grow while a checkpoint waits.
#[test]
fn a_checkpoint_keeps_up_with_updates_as_large_as_log_files() {
    let sim = SimDisk::new(1);
    let options = SessionOptions { log_file_bytes: 20_000, ..options(Log::Written) };
    let session = Session::create(Arc::clone(&sim) as _, options).unwrap();
    for number in 0..20 {
        insert(&mut session.create_table(&format!("idle-{number}"), small()).unwrap(), 1).unwrap();
    }
    let medium = TableOptions { write_buffer_bytes: 10_000, ..TableOptions::default() };
    let mut busy = session.create_table("busy", medium).unwrap();
    let log_files = || sim.list("log").unwrap().len();
    let mut most = 0;
    for number in 0..60_u64 {
        let mut batch = Batch::new();
        for value in 0..500 {
            batch.insert(&(number * 500 + value).to_be_bytes(), &[7; 40]);
        }
        busy.update(&batch).unwrap();
        most = most.max(log_files());
    }
    assert!(session.stats().checkpoints > 40, "{:?}", session.stats());
    assert!(most <= 10, "{most} log files");
}

//! Backups of live tables: one moment of all of them, whole or not at all, whatever fails or dies on either
//! side, and nothing copied twice.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::listed::Listed;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::table::check::check;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{
    Batch, Kind, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table, TableOptions,
    Verify,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::log_crash::{ACTS, Act, BLOB_ACTS, Live, Tale, assert_reopens, equal, opening, options};

/// A tale told to its last update, with the session open.
fn told(acts: &[Act]) -> (Arc<MemoryDisk>, Tale) {
    let disk = MemoryDisk::seeded(1);
    let mut tale = Tale::on(Arc::clone(&disk) as Arc<dyn Disk>, Log::Synced);
    for act in &acts[..acts.len() - 1] {
        tale.act(*act).unwrap();
    }
    (disk, tale)
}

/// Reads what a backup has, without changing it: it checks clean and is `live`.
fn is_backup(disk: &Arc<dyn Disk>, live: &Live, what: &dyn std::fmt::Debug) -> bool {
    let report = check(disk, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.findings, Vec::new(), "{what:?}");
    let session = Session::open_read_only(Arc::clone(disk), SessionOptions::default()).unwrap();
    let tables = session.open_all(&opening()).unwrap();
    tables.len() == live.len()
        && tables.iter().all(|table| equal(table, &live[table.name()]).unwrap())
}

fn memory(seed: u64) -> Arc<dyn Disk> {
    MemoryDisk::seeded(seed)
}

#[test]
fn a_backup_after_each_act_is_the_tables_of_that_moment() {
    for acts in [ACTS, BLOB_ACTS] {
        let disk = MemoryDisk::seeded(1);
        let mut tale = Tale::on(Arc::clone(&disk) as Arc<dyn Disk>, Log::Written);
        // One that is brought up to date each time, and one that is made by a reader beside the session.
        let (target, mut kept) = (memory(9), 0);
        for act in &acts[..acts.len() - 1] {
            tale.act(*act).unwrap();
            let before = disk.files();
            if matches!(act, Act::Begin) {
                let error = tale.session().backup(&target, Verify::Quick).unwrap_err();
                assert_eq!(error.kind(), Kind::Missing, "{error}");
                continue;
            }
            let backed_up = tale.session().backup(&target, Verify::Full).unwrap();
            kept += backed_up.kept.segments;
            assert_eq!(backed_up.tables, tale.live.len() as u64);
            assert!(is_backup(&target, &tale.live, act), "{act:?}");
            let report = check(&target, |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(report.unreferenced, 0, "{act:?}");
            let reader =
                Session::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, options(Log::None));
            let other = memory(10);
            let reader = reader.unwrap();
            reader.backup(&other, Verify::Full).unwrap();
            let is_old = |name: &String| before.contains(name);
            assert!(disk.files().iter().all(is_old), "{act:?}: something is left in the source");
            assert_reopens(&other, Log::Synced, &[&tale.live], act);
            // A backup of a backup, and the way back from it.
            let again = memory(11);
            let first = Session::open_read_only(Arc::clone(&target), options(Log::None)).unwrap();
            first.backup(&again, Verify::Quick).unwrap();
            assert_reopens(&again, Log::Written, &[&tale.live], act);
        }
        assert!(kept > 20, "{kept}");
    }
}

#[test]
fn a_crash_leaves_no_backup_or_the_one_before_or_the_new_one() {
    for acts in [ACTS, BLOB_ACTS] {
        let (_disk, mut tale) = told(acts);
        let (mut none, mut old, mut new) = (0, 0, 0);
        let before = tale.live.clone();
        for round in 0..2 {
            let mut n = 0;
            loop {
                n += 1;
                let sim = SimDisk::new(3);
                let target = Arc::clone(&sim) as Arc<dyn Disk>;
                if round == 1 {
                    earlier(acts, &target);
                }
                let source = tale.session();
                sim.kill_at(n);
                let outcome = source.backup(&target, Verify::Quick);
                if !sim.is_dead() {
                    outcome.unwrap();
                    break;
                }
                for (crash, image) in sim.crash_images(2, 2) {
                    let what = (round, n, crash);
                    let image = image as Arc<dyn Disk>;
                    match Session::open_read_only(Arc::clone(&image), options(Log::None)) {
                        Err(error) => {
                            assert_eq!(error.kind(), Kind::Missing, "{what:?}: {error}");
                            assert_eq!(round, 0, "{what:?}: the one before is gone");
                            none += 1;
                        }
                        Ok(_) if is_backup(&image, &before, &what) => new += 1,
                        Ok(_) => {
                            assert_eq!(round, 1, "{what:?}: half a backup");
                            assert!(is_backup(&image, &earlier_live(acts), &what), "{what:?}");
                            old += 1;
                        }
                    }
                    source.backup(&image, Verify::Full).unwrap_or_else(|e| panic!("{what:?}: {e}"));
                    assert_reopens(&image, Log::Synced, &[&before], &what);
                }
            }
            assert!(n > 20, "{n}");
        }
        assert!(none > 50 && old > 50 && new > 5, "{none} none, {old} old, {new} new");
        tale.act(Act::End).unwrap();
    }
}

/// The place in a tale at which an earlier backup is made.
const EARLIER: usize = 15;

fn earlier_tale(acts: &[Act]) -> Tale {
    let mut tale = Tale::on(memory(1), Log::Synced);
    acts[..EARLIER].iter().for_each(|act| tale.act(*act).unwrap());
    tale
}

/// Makes an earlier backup of the same session.
fn earlier(acts: &[Act], target: &Arc<dyn Disk>) {
    earlier_tale(acts).session().backup(target, Verify::Quick).unwrap();
}

fn earlier_live(acts: &[Act]) -> Live {
    earlier_tale(acts).live
}

#[test]
fn a_failing_call_leaves_no_backup_or_the_one_before() {
    let (mut failed, mut lost) = (0, 0);
    for (acts, has_earlier) in [(ACTS, false), (ACTS, true), (BLOB_ACTS, false), (BLOB_ACTS, true)]
    {
        let (_disk, tale) = told(acts);
        for (fault, forget) in Fault::ALL.into_iter().flat_map(|it| [(it, false), (it, true)]) {
            for n in 1..200 {
                let sim = SimDisk::new(3);
                let target = Arc::clone(&sim) as Arc<dyn Disk>;
                if has_earlier {
                    earlier(acts, &target);
                }
                sim.forget_names_on_failed_sync(forget);
                let calls = sim.calls().of(fault);
                sim.fail_at(calls + n, fault);
                let outcome = tale.session().backup(&target, Verify::Quick);
                sim.disarm();
                let what = (has_earlier, fault, forget, n);
                if sim.calls().of(fault) < calls + n {
                    outcome.unwrap();
                    break;
                }
                // What is promised is there after a power cut, too.
                for sim in [sim.crash(Crash::Subset(0)), sim] {
                    let image = Arc::clone(&sim) as Arc<dyn Disk>;
                    let opened = Session::open_read_only(Arc::clone(&image), options(Log::None));
                    if opened.is_err() {
                        assert!(outcome.is_err() && !has_earlier, "{what:?}");
                        lost += 1;
                    } else if !is_backup(&image, &tale.live, &what) {
                        assert!(outcome.is_err() && has_earlier, "{what:?}");
                        assert!(is_backup(&image, &earlier_live(acts), &what), "{what:?}");
                    }
                    tale.session()
                        .backup(&image, Verify::Quick)
                        .unwrap_or_else(|error| panic!("{what:?}: {error}"));
                    // The second try has not built on what the first one left in doubt.
                    for crash in [Crash::Subset(0), Crash::Seed(n)] {
                        let cut = sim.crash(crash) as Arc<dyn Disk>;
                        assert!(is_backup(&cut, &tale.live, &what), "{what:?}, {crash:?}");
                    }
                    assert_reopens(&image, Log::Synced, &[&tale.live], &what);
                }
                failed += u64::from(outcome.is_err());
            }
        }
    }
    assert!(failed > 300 && lost > 100, "{failed} {lost}");
}

/// Two tables that every update changes alike, in a session whose disk is `disk`.
fn twins(disk: Arc<dyn Disk>) -> (Session, Vec<Table>) {
    let options = SessionOptions {
        log_file_bytes: 3_000,
        seed: Some(5),
        ..crate::log_crash::options(Log::Synced)
    };
    let session = Session::create(disk, options).unwrap();
    let of = |name| {
        let options = TableOptions { write_buffer_bytes: 1_000, ..TableOptions::default() };
        session.create_table(name, options).unwrap()
    };
    let tables = vec![of("one"), of("two")];
    (session, tables)
}

fn update(session: &Session, tables: &mut [Table], round: u64) {
    let mut batch = Batch::new();
    for key in 0..8_u64 {
        batch.insert(&(round * 5 + key).to_be_bytes(), &round.to_be_bytes());
    }
    batch.insert(b"round", &round.to_be_bytes());
    let mut tables = tables.iter_mut();
    let (one, two) = (tables.next().unwrap(), tables.next().unwrap());
    session.update(&mut [(one, &batch), (two, &batch)]).unwrap();
}

/// Which update the backup has last; it has the same of both tables, and all before it.
fn last_round(disk: &Arc<dyn Disk>) -> u64 {
    let session = Session::open_read_only(Arc::clone(disk), SessionOptions::default()).unwrap();
    let tables = session.open_all(&OpenTable::default()).unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let ranges: Vec<_> = tables.iter().map(|table| table.listed(all.0, all.1).unwrap()).collect();
    assert!(ranges.len() == 2 && ranges[0] == ranges[1], "the two are not of one moment");
    let round = ranges[0].iter().find(|(key, _)| key == b"round").expect("it has been updated");
    let last = u64::from_be_bytes(round.1[..].try_into().unwrap());
    let mut expected = BTreeMap::new();
    for round in 1..=last {
        for key in 0..8 {
            expected.insert((round * 5 + key).to_be_bytes().to_vec(), round.to_be_bytes().to_vec());
        }
        expected.insert(b"round".to_vec(), round.to_be_bytes().to_vec());
    }
    assert_eq!(ranges[0], expected.into_iter().collect::<Vec<_>>());
    last
}

/// At every call of a backup its session updates both tables; the backup has what there was when it began,
/// or a later moment where it reads beside the session.
#[test]
fn a_backup_beside_updates_is_one_moment_of_all_tables() {
    for beside in [false, true] {
        let source = MemoryDisk::seeded(1);
        let (session, mut tables) = twins(Arc::clone(&source) as Arc<dyn Disk>);
        for round in 1..=60 {
            update(&session, &mut tables, round);
        }
        let rounds = Arc::new(AtomicU64::new(60));
        let writer = Arc::new(Mutex::new((session.clone(), tables)));
        let (mut counted, inner) = (0, memory(2));
        // An earlier one to go on from, too.
        for _ in 0..3 {
            let before = rounds.load(SeqCst);
            let (writes, count) = (Arc::clone(&writer), Arc::clone(&rounds));
            // A reader comes to an end where a checkpoint outlives what it has to copy.
            let (calls, every) = (AtomicU64::new(0), if beside { 12 } else { 1 });
            let hook = move |_: Call, _: &str| {
                if calls.fetch_add(1, SeqCst) % every == 0
                    && let Ok(mut writer) = writes.try_lock()
                {
                    let (session, tables) = &mut *writer;
                    update(session, tables, count.fetch_add(1, SeqCst) + 1);
                }
            };
            let target: Arc<dyn Disk> = HookedDisk::new(Arc::clone(&inner), hook);
            if beside {
                let disk = Arc::clone(&source) as Arc<dyn Disk>;
                let reader = Session::open_read_only(disk, options(Log::None)).unwrap();
                reader.backup(&target, Verify::Quick).unwrap();
            } else {
                session.backup(&target, Verify::Quick).unwrap();
            }
            let last = last_round(&inner);
            assert!((before..=rounds.load(SeqCst)).contains(&last), "{before} {last}");
            counted += rounds.load(SeqCst) - before;
        }
        assert!(counted > 10, "{counted} updates beside");
        let (session, mut tables) = Arc::into_inner(writer)
            .map_or_else(|| panic!("the hooks are gone"), |writer| writer.into_inner().unwrap());
        update(&session, &mut tables, rounds.load(SeqCst) + 1);
        drop(tables);
        session.close().unwrap();
        let source = source as Arc<dyn Disk>;
        let report = check(&source, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((report.findings, report.unreferenced), (Vec::new(), 0));
        // What was held while it was copied is gone with the next checkpoint and the opening.
        let reopened = Session::open(Arc::clone(&source), options(Log::Synced)).unwrap();
        assert!(source.list("log").unwrap().len() < 6, "{:?}", source.list("log"));
        drop(reopened);
    }
}

#[test]
fn what_an_earlier_backup_brought_is_not_copied_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| OsDisk::create(folder.path().join(name)).unwrap() as Arc<dyn Disk>;
    let (session, mut tables) = twins(at("source"));
    (1..400).for_each(|round| update(&session, &mut tables, round));
    let target = at("backup");
    let first = session.backup(&target, Verify::Full).unwrap();
    assert!(first.moved.segments > 4 && first.kept.segments == 0, "{first:?}");
    assert_eq!(first.moved.copied_bytes, 0, "one file system");
    let again = session.backup(&target, Verify::Full).unwrap();
    assert_eq!((again.moved.segments, again.kept), (0, first.moved), "{again:?}");
    update(&session, &mut tables, 400);
    let third = session.backup(&target, Verify::Quick).unwrap();
    assert!(third.kept.segments * 2 > first.moved.segments, "{third:?}");
    assert_eq!(last_round(&target), 400);
    // A file of it that is damaged or lost is copied anew.
    let name = target.list("segments").unwrap().remove(0);
    let path = folder.path().join("backup/segments").join(name);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![7; 8_192]).unwrap();
    let fourth = session.backup(&target, Verify::Quick).unwrap();
    assert_eq!(fourth.moved.segments, 1, "{fourth:?}");
    assert_eq!(last_round(&target), 400);
    let report = check(&target, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.findings, report.unreferenced), (Vec::new(), 0));
}

#[test]
fn a_folder_with_anything_else_is_refused_and_stays_as_it_is() {
    let (session, mut tables) = twins(memory(1));
    update(&session, &mut tables, 1);
    let refused = |target: &Arc<dyn Disk>, says: &str| {
        let error = session.backup(target, Verify::Quick).unwrap_err();
        assert_eq!(error.kind(), Kind::Exists, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    // A session of somebody else's, the source itself, and a backup of another one.
    let (other, mut others) = twins_seeded(memory(3), 6);
    update(&other, &mut others, 1);
    let of_other = memory(4);
    other.backup(&of_other, Verify::Quick).unwrap();
    drop((other, others));
    refused(&of_other, "no backup of this one");
    // A backup that went on by itself.
    for changes in 0..3 {
        let target = memory(5);
        session.backup(&target, Verify::Quick).unwrap();
        let there = Session::open(Arc::clone(&target), options(Log::Synced)).unwrap();
        let mut table = there.open_table("one", &OpenTable::default()).unwrap();
        match changes {
            0 => {}
            1 => table.update(Batch::new().insert(b"its own", b"")).unwrap(),
            _ => drop(there.create_table("third", TableOptions::default()).unwrap()),
        }
        drop(table);
        there.close().unwrap();
        if changes == 0 {
            session.backup(&target, Verify::Quick).unwrap();
        } else {
            refused(&target, "since");
            let there = Session::open(Arc::clone(&target), options(Log::Synced)).unwrap();
            assert_eq!(there.live_tables().unwrap().len(), 1 + changes.max(1));
        }
    }
    // Without a log there is nothing that goes on.
    let plain = Session::create(memory(7), SessionOptions::default()).unwrap();
    let error = plain.backup(&memory(8), Verify::Quick).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

fn twins_seeded(disk: Arc<dyn Disk>, seed: u64) -> (Session, Vec<Table>) {
    let options = SessionOptions { seed: Some(seed), ..options(Log::Synced) };
    let session = Session::create(disk, options).unwrap();
    let tables = ["one", "two"];
    let tables = tables.map(|name| session.create_table(name, TableOptions::default()).unwrap());
    (session, tables.into())
}

/// The files of a backup and of its source, swapped one by one, are told apart.
#[test]
fn no_file_of_a_backup_passes_for_one_of_its_source() {
    let source = MemoryDisk::seeded(1);
    let (session, mut tables) = twins(Arc::clone(&source) as Arc<dyn Disk>);
    (1..40).for_each(|round| update(&session, &mut tables, round));
    let content = SnapshotContent { label: "", payload: b"", tables: &[&tables[0]] };
    session.save_snapshot("s", content).unwrap();
    let target = MemoryDisk::seeded(2);
    session.backup(&(Arc::clone(&target) as Arc<dyn Disk>), Verify::Quick).unwrap();
    drop((session, tables));
    let mut swapped = 0;
    for (from, to) in [(&source, &target), (&target, &source)] {
        let is_log = |name: &&String| name.starts_with("log/");
        let own: Vec<_> = to.files().into_iter().filter(|name| is_log(&name)).collect();
        for name in from.files() {
            let bytes = from.bytes(&name).unwrap();
            let places = if name.starts_with("log/") { own.clone() } else { vec![name.clone()] };
            if !name.starts_with("log/") && name != "checkpoint" && name != "session" {
                continue;
            }
            for place in places {
                let disk = to.snapshot();
                disk.replace(&place, bytes.clone()).unwrap();
                let disk = disk as Arc<dyn Disk>;
                let found = check(&disk, |_| ControlFlow::Continue(())).unwrap();
                assert!(!found.findings.is_empty(), "{name} as {place}");
                swapped += 1;
            }
        }
    }
    assert!(swapped >= 6, "{swapped}");
}

/// Without its checkpoint nobody knows what a copied log is for: it may be all that is left of live tables.
#[test]
fn a_backup_that_lost_its_checkpoint_loses_no_file_to_whoever_opens_it() {
    let (_disk, tale) = told(BLOB_ACTS);
    // Its tables have segments, and nothing in the log.
    let (written_out, mut tables) = twins(memory(1));
    (1..40).for_each(|round| update(&written_out, &mut tables, round));
    let mut copy = tables[0].duplicate("copy").unwrap();
    written_out.publish(&mut copy).unwrap();
    drop((tables, copy));
    for name in ["one", "two"] {
        written_out.delete_table(name).unwrap();
    }
    for source in [tale.session(), &written_out] {
        for log in [Log::None, Log::Written, Log::Synced] {
            let target = MemoryDisk::seeded(2);
            let shared = Arc::clone(&target) as Arc<dyn Disk>;
            source.backup(&shared, Verify::Quick).unwrap();
            let checkpoint = target.bytes("checkpoint").unwrap();
            target.remove("checkpoint").unwrap();
            let before = target.files();
            assert!(before.iter().any(|name| name.starts_with("segments/")), "{before:?}");
            let says = |said: &str| said.contains("checkpoint") && said.contains("varvite repair");
            for is_closed in [false, true] {
                let session = Session::open(Arc::clone(&shared), options(log)).unwrap();
                let warnings = session.warnings();
                assert!(warnings.iter().any(|said| says(said)), "{warnings:?}");
                let error = session.open_all(&opening()).unwrap_err();
                assert!(error.kind() == Kind::Corrupt && says(error.detail()), "{error}");
                if is_closed {
                    session.close().unwrap();
                }
            }
            let error = source.backup(&shared, Verify::Quick).unwrap_err();
            assert!(error.kind() == Kind::Exists && says(error.detail()), "{error}");
            assert_eq!(target.files(), before);
            let repaired = repair(&shared, &memory(3), &RepairOptions::default()).unwrap();
            let is_told = repaired.losses.iter().any(|loss| loss.file == "checkpoint");
            assert!(is_told && repaired.live_tables.is_empty(), "{repaired:?}");
            // With the right one it is what it was.
            target.replace("checkpoint", checkpoint).unwrap();
            source.backup(&shared, Verify::Full).unwrap();
        }
    }
}

/// A copy of the store that took its place has other segments under the same numbers.
#[test]
fn a_backup_of_another_branch_of_the_store_keeps_nothing_of_the_first() {
    let options = |seed: u8| SessionOptions {
        seed: Some(seed.into()),
        log_file_bytes: 3_000,
        ..options(Log::Written)
    };
    let fill = |table: &mut Table, value: u8| {
        for number in 0..300_u64 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[value; 60])).unwrap();
        }
    };
    let assert_all = |table: &Table, value: u8| {
        for number in 0..300_u64 {
            let found = table.get(&number.to_be_bytes()).unwrap();
            assert_eq!(found.as_deref(), Some(&[value; 60][..]), "{number}");
        }
    };
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options(1)).unwrap();
    let small = TableOptions { write_buffer_bytes: 1_000, ..TableOptions::default() };
    let mut table = session.create_table("t", small).unwrap();
    fill(&mut table, 1);
    drop((table, session));
    let (copy, target) = (disk.snapshot(), memory(9));
    // Both in one store, by their exports.
    let both = Session::create(memory(8), options(8)).unwrap();
    for (branch, value) in [(disk, 2), (copy, 3)] {
        let session = Session::open(branch as Arc<dyn Disk>, options(value)).unwrap();
        let mut table = session.open_table("t", &OpenTable::default()).unwrap();
        fill(&mut table, value);
        session.backup(&target, Verify::Quick).unwrap();
        let there =
            Session::open_read_only(Arc::clone(&target), SessionOptions::default()).unwrap();
        assert_all(&there.open_table("t", &OpenTable::default()).unwrap(), value);
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("s", content).unwrap();
        let parcel = memory(7);
        session.export_snapshot("s", &parcel, Verify::Quick).unwrap();
        both.import_snapshot(&parcel, "s", &format!("s{value}"), Verify::Quick).unwrap();
    }
    drop(both);
}

/// Once the new backup stands, what fails in cleaning up is the next opening's to do.
#[test]
fn a_refresh_that_stands_is_told_as_one() {
    let (session, mut tables) = twins(memory(1));
    let earlier = SimDisk::new(4);
    session.backup(&(Arc::clone(&earlier) as Arc<dyn Disk>), Verify::Quick).unwrap();
    (1..40).for_each(|round| update(&session, &mut tables, round));
    let (mut refused, mut stands, mut in_doubt) = (0, 0, 0);
    for fault in Fault::ALL {
        for n in 1.. {
            let sim = earlier.crash(Crash::Process);
            let target = Arc::clone(&sim) as Arc<dyn Disk>;
            let bytes = || {
                let file = target.open("checkpoint", Mode::Read, Access::Buffered).unwrap();
                let mut bytes = vec![0; file.len().unwrap() as usize];
                file.read_exact_at(0, &mut bytes).unwrap();
                bytes
            };
            let (old, before) = (bytes(), sim.calls().of(fault));
            sim.fail_at(n, fault);
            let outcome = session.backup(&target, Verify::Quick);
            sim.disarm();
            let is_over = sim.calls().of(fault) < before + n;
            match outcome {
                Ok(_) => stands += 1,
                // Whether the name is durable is not known after a failed sync of the folder.
                Err(error) if error.kind() == Kind::Io && bytes() != old => {
                    let last = sim.calls().of(Fault::Sync);
                    assert!(
                        [Fault::Sync, Fault::Any].contains(&fault),
                        "{fault:?} {n} {last}: {error}"
                    );
                    assert!(
                        Session::open(sim.crash(Crash::Process) as _, options(Log::None)).is_ok()
                    );
                    in_doubt += 1;
                }
                Err(error) => {
                    assert!(bytes() == old, "{fault:?} {n}: {error}");
                    refused += 1;
                }
            }
            if is_over {
                break;
            }
        }
    }
    assert!(in_doubt <= 2, "{in_doubt}");
    assert!(refused > 10 && stands > 10, "{refused} {stands}");
}

/// What a folder's readers hold and what comes to it later never has the same number.
#[test]
fn a_follower_of_a_backup_goes_on_through_its_refreshes() {
    let (session, mut tables) = twins(memory(1));
    let target = memory(2);
    let insert = |table: &mut Table, from: u64| {
        for number in from..from + 60 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[1; 90])).unwrap();
        }
    };
    for table in &mut tables {
        insert(table, 0);
    }
    session.backup(&target, Verify::Quick).unwrap();
    let reader = Session::open_read_only(Arc::clone(&target), SessionOptions::default()).unwrap();
    let mut follower = reader.follow(&OpenTable::default()).unwrap();
    drop(tables.pop());
    session.delete_table("two").unwrap();
    session.backup(&target, Verify::Quick).unwrap();
    for round in 1..8 {
        insert(&mut tables[0], round * 30);
        session.backup(&target, Verify::Quick).unwrap();
        if round % 3 > 0 {
            continue;
        }
        assert!(follower.reload().unwrap());
        let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
        let found = follower.table("one").unwrap().listed(all.0, all.1).unwrap();
        assert_eq!(found, tables[0].listed(all.0, all.1).unwrap());
    }
}

/// Whoever closes the session ends the backup, and that is what it says.
#[test]
fn a_session_that_is_closed_beside_a_backup_is_no_damage() {
    let (mut closed, mut whole) = (0, 0);
    for n in (1..90).step_by(2) {
        let (session, mut tables) = twins(memory(1));
        (1..=60).for_each(|round| update(&session, &mut tables, round));
        let writer = Mutex::new(Some((session.clone(), tables)));
        let calls = AtomicU64::new(0);
        let inner = memory(2);
        let hook = move |_: Call, _: &str| {
            if calls.fetch_add(1, SeqCst) == n
                && let Some((session, mut tables)) = writer.lock().unwrap().take()
            {
                // Merges and checkpoints do without what is copied meanwhile.
                (61..=130).for_each(|round| update(&session, &mut tables, round));
                session.close().unwrap();
            }
        };
        let target: Arc<dyn Disk> = HookedDisk::new(Arc::clone(&inner), hook);
        match session.backup(&target, Verify::Quick) {
            Ok(_) => {
                assert!([60, 130].contains(&last_round(&inner)), "{n}");
                whole += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), Kind::Closed, "{n}: {error}");
                closed += 1;
            }
        }
    }
    assert!(closed > 5 && whole > 0, "{closed} closed, {whole} whole");
}

/// However often what is copied is overtaken, no more than one copy of the log is there at a time.
#[test]
fn a_backup_beside_a_busy_writer_leaves_no_copies_of_the_log() {
    let source = MemoryDisk::seeded(1);
    let (session, mut tables) = twins(Arc::clone(&source) as Arc<dyn Disk>);
    (1..=60).for_each(|round| update(&session, &mut tables, round));
    let writer = Mutex::new((session, tables, 60));
    let reading = HookedDisk::new(source, move |call, path| {
        if call == Call::Open(Mode::Read) && path.starts_with("segments/") {
            let (session, tables, round) = &mut *writer.lock().unwrap();
            for _ in 0..12 {
                *round += 1;
                update(session, tables, *round);
            }
        }
    });
    let (begun, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let inner = memory(2);
    let (counts, seen, there) = (Arc::clone(&begun), Arc::clone(&most), Arc::clone(&inner));
    let target: Arc<dyn Disk> = HookedDisk::new(inner, move |call, path| {
        counts.fetch_add(u64::from(call == Call::Rename && path.starts_with("log/")), SeqCst);
        let names = there.list("log").unwrap_or_default();
        let copies = names.iter().filter(|name| name.ends_with("log")).count();
        seen.fetch_max(copies as u64, SeqCst);
    });
    let reader = Session::open_read_only(reading, options(Log::None)).unwrap();
    let error = reader.backup(&target, Verify::Quick).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(error.detail().contains("faster than it could be copied"), "{error}");
    assert!(!error.detail().contains("  "), "{error}");
    let (begun, most) = (begun.load(SeqCst), most.load(SeqCst));
    assert!(begun > 10, "{begun} copies were begun");
    assert_eq!(most, 1, "at once");
}

/// Values may be long, so they are copied when the log was read: its files go, and the log does not grow.
#[test]
fn while_values_are_copied_the_log_goes_on() {
    let source = MemoryDisk::seeded(1);
    let writer: Arc<Mutex<Option<(Table, u64)>>> = Arc::default();
    let most = Arc::new(AtomicU64::new(0));
    let (acts, seen, files) = (Arc::clone(&writer), Arc::clone(&most), Arc::clone(&source));
    let disk = HookedDisk::new(Arc::clone(&source) as Arc<dyn Disk>, move |call, path| {
        if call == Call::Open(Mode::Read)
            && path.ends_with("blob")
            && let Ok(mut writer) = acts.try_lock()
            && let Some((table, number)) = &mut *writer
        {
            for _ in 0..60 {
                *number += 1;
                let value = vec![*number as u8; 90];
                table.update(Batch::new().insert(&number.to_be_bytes(), &value)).unwrap();
            }
            let names = files.files();
            let logs = names.iter().filter(|name| name.starts_with("log/")).count() as u64;
            seen.fetch_max(logs, SeqCst);
        }
    });
    let options = SessionOptions { log_file_bytes: 2_000, ..options(Log::Synced) };
    let session = Session::create(disk, options).unwrap();
    let small = TableOptions { write_buffer_bytes: 700, ..TableOptions::default() };
    let mut table = session.create_table("t", small).unwrap();
    let mut expected = BTreeMap::new();
    for number in 0..3_u64 {
        let mut value = session.write_value().unwrap();
        value.write(&[number as u8; 300]).unwrap();
        let value = value.finish().unwrap();
        let key = number.to_be_bytes();
        table.update(Batch::new().insert_value(&key, &value)).unwrap();
        expected.insert(key.to_vec(), vec![number as u8; 300]);
    }
    *writer.lock().unwrap() = Some((table, 1_000));
    let target = memory(2);
    let backed_up = session.backup(&target, Verify::Full).unwrap();
    drop(writer.lock().unwrap().take());
    assert!(backed_up.moved.segments >= 1, "{backed_up:?}");
    let most = most.load(SeqCst);
    assert!((1..=4).contains(&most), "{most} log files at once");
    let there = Session::open(target, crate::log_crash::options(Log::Synced)).unwrap();
    let table = there.open_table("t", &OpenTable::default()).unwrap();
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let found: BTreeMap<_, _> = table.listed(all.0, all.1).unwrap().into_iter().collect();
    assert_eq!(found, expected);
}

/// Tools that copy folders may leave out what is empty.
#[test]
fn a_copy_without_its_empty_folders_is_whole() {
    let (_, tale) = told(ACTS);
    let target = MemoryDisk::seeded(9);
    let shared = Arc::clone(&target) as Arc<dyn Disk>;
    tale.session().backup(&shared, Verify::Quick).unwrap();
    let empty = MemoryDisk::seeded(10);
    let logged = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    Session::create(Arc::clone(&empty) as _, logged.clone()).unwrap().close().unwrap();
    for (disk, left_out) in [(target, &["snapshots"][..]), (empty, &["snapshots", "segments"])] {
        let whole = disk.snapshot();
        left_out.iter().for_each(|folder| disk.remove_directory(folder).unwrap());
        let disk = disk as Arc<dyn Disk>;
        let report = check(&disk, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report, check(&(whole as _), |_| ControlFlow::Continue(())).unwrap());
        let reader = Session::open_read_only(Arc::clone(&disk), SessionOptions::default()).unwrap();
        let mut scrub = reader.scrub(0).unwrap();
        while scrub.work(256).unwrap() > 0 {}
        assert_eq!(scrub.findings(), &[]);
        assert_eq!(reader.list_snapshots().unwrap(), Vec::new());
        let live = reader.live_tables().unwrap();
        drop((scrub, reader));
        let opened = repair(&disk, &memory(12), &RepairOptions::default()).unwrap();
        assert_eq!(opened.losses.len(), 0);
        let session = Session::open(Arc::clone(&disk), logged.clone()).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        assert_eq!(session.live_tables().unwrap(), live);
        let options = TableOptions { write_buffer_bytes: 700, ..TableOptions::default() };
        let mut table = session.create_table("new", options).unwrap();
        for number in 0..100_u64 {
            table.update(Batch::new().insert(&number.to_be_bytes(), &[7; 40])).unwrap();
        }
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("saved", content).unwrap();
        drop(table);
        session.close().unwrap();
        let report = check(&disk, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((report.findings, report.snapshots), (Vec::new(), 1));
    }
}

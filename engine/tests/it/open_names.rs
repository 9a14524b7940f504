//! Both faces on a disk whose open files keep their names, as on some file systems of Windows.

use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::context::{CommitInfo, Durability, Index, Options, Store};
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::table::check::check;
use varvite::{Batch, Kind, Log, OpenTable, Result, Session, SessionOptions, TableOptions, Verify};

use crate::context_story::{self, Act as ContextAct, Tale};
use crate::disk_promises::{all, fails, file};
use crate::story::{self, Story};

fn disk() -> Arc<SimDisk> {
    let sim = SimDisk::new(3);
    sim.keep_open_names(true);
    sim
}

#[test]
fn names_of_open_files_are_not_given_away() {
    let sim = disk();
    let old = file(&*sim, "a", b"old");
    drop(file(&*sim, "b", b"new"));
    assert!(fails(Kind::Io, sim.rename("b", "a")).contains("a, perhaps because it is open"));
    assert_eq!((all(&*old), sim.bytes("b").unwrap()), (b"old".to_vec(), b"new".to_vec()));
    // One that is open may have another name.
    sim.rename("a", "c").unwrap();
    drop(old);
    sim.rename("b", "c").unwrap();
    assert_eq!((sim.list("").unwrap(), sim.bytes("c").unwrap()), (vec!["c".into()], b"new".into()));
}

#[test]
fn a_removed_name_is_of_no_use_until_its_file_is_closed() {
    let sim = disk();
    let (first, second) = (file(&*sim, "a", b"1"), sim.open("a", Mode::Read, Access::Buffered));
    drop(file(&*sim, "b", b"2"));
    sim.remove("a").unwrap();
    assert_eq!(sim.list("").unwrap(), ["a", "b"]);
    for mode in [Mode::Read, Mode::Write, Mode::Create] {
        fails(Kind::Io, sim.open("a", mode, Access::Buffered));
    }
    fails(Kind::Io, sim.rename("a", "c"));
    fails(Kind::Io, sim.rename("b", "a"));
    // The system closes what a process had open that died.
    assert_eq!(sim.crash(Crash::Process).list("").unwrap(), ["b"]);
    drop(first);
    assert_eq!(sim.list("").unwrap(), ["a", "b"]);
    drop(second);
    assert_eq!(sim.list("").unwrap(), ["b"]);
}

#[test]
fn the_story_of_tables_is_told() {
    let sim = disk();
    let mut story = Story::new(sim.clone());
    for act in story::ACTS {
        story.act(*act).unwrap_or_else(|error| panic!("{act:?}: {error}"));
        let image: Arc<dyn Disk> = sim.crash(Crash::Process);
        if sim.exists("session").unwrap() {
            let report = check(&image, |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(report.findings, Vec::new(), "{act:?}");
            Session::open(image, SessionOptions::default()).unwrap().close().unwrap();
        }
    }
}

/// Tells the story of a context as the guide says that it goes where open files keep their names: the index is not made
/// again while a reader has it open, and a reader of what was cleared is to be opened again. Gives how often that was.
fn tell_of_a_context(disk: &Arc<dyn Disk>, index: Index) -> u32 {
    let options = context_story::options(index, Durability::Synced);
    let mut tale = Tale::new(Arc::clone(disk), &options);
    let mut refusals = 0;
    for act in context_story::ACTS {
        let mut outcome = tale.act(*act);
        if let (Err(error), ContextAct::Rebuild | ContextAct::Reader) = (&outcome, act) {
            refusals += 1;
            let is_held =
                error.kind() == Kind::Io && error.to_string().contains("because it is open");
            // Wine says of the name of a removed file that is open that it is there.
            assert!(is_held || cfg!(windows) && error.kind() == Kind::Exists, "{error}");
            tale.act(ContextAct::CloseReader).unwrap();
            outcome = tale.act(*act);
        }
        outcome.unwrap_or_else(|error| panic!("{act:?}: {error}"));
        tale.is_intact().unwrap_or_else(|error| panic!("after {act:?}: {error}"));
    }
    let reader = Store::open_read_only(Arc::clone(disk), options).unwrap();
    context_story::holds(&reader, &tale.told).unwrap();
    refusals
}

#[test]
fn the_story_of_a_context_is_told() {
    for index in [Index::Minimal, Index::Always] {
        let sim = disk();
        let refusals = tell_of_a_context(&(sim.clone() as Arc<dyn Disk>), index);
        assert_eq!(refusals, 2, "{index:?}");
    }
}

/// Unix and NTFS give the names of open files away; other file systems of Windows need not.
#[test]
fn the_story_of_a_context_is_told_on_the_systems_disk() {
    for index in [Index::Minimal, Index::Always] {
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
        let refusals = tell_of_a_context(&disk, index);
        assert!(refusals == 0 || cfg!(windows), "{index:?}");
    }
}

/// Whoever looks at live tables reads the checkpoint in any moment: the writer's call is refused then, and may be
/// repeated.
#[test]
fn a_reader_of_the_checkpoint_poisons_no_writer() {
    let sim = disk();
    let options =
        SessionOptions { log: Log::Synced, log_file_bytes: 4096, ..SessionOptions::default() };
    let session = Session::create(sim.clone(), options.clone()).unwrap();
    let mut table = session.create_table("one", TableOptions::default()).unwrap();
    let held = || sim.open("checkpoint", Mode::Read, Access::Buffered).unwrap();
    let refused = |outcome: Result<()>| {
        let error = outcome.unwrap_err();
        assert!(error.kind() == Kind::Io && error.to_string().contains("try again"), "{error}");
        assert!(!session.is_poisoned());
    };

    let reader = held();
    refused(session.create_table("two", TableOptions::default()).map(drop));
    drop(reader);
    let mut two = session.create_table("two", TableOptions::default()).unwrap();
    two.update(Batch::new().insert(b"key", b"two")).unwrap();
    drop(two);

    let reader = held();
    refused(session.delete_table("two"));
    drop(reader);
    session.delete_table("two").unwrap();

    let reader = held();
    let mut copy = table.duplicate("copy").unwrap();
    refused(session.publish(&mut copy));
    drop(reader);
    session.publish(&mut copy).unwrap();

    // Updates that are due a checkpoint.
    let mut refusals = 0;
    for number in 0..200_u64 {
        let mut batch = Batch::new();
        batch.insert(&number.to_be_bytes(), &[7; 100]);
        let reader = (number % 3 == 0).then(held);
        let outcome = table.update(&batch);
        drop(reader);
        if outcome.is_err() {
            refusals += 1;
            refused(outcome);
            table.update(&batch).unwrap();
        }
    }
    assert!(refusals > 0);
    drop((table, copy));
    let reader = held();
    let closed = session.clone().close();
    drop(reader);
    if closed.is_err() {
        refused(closed);
        session.close().unwrap();
    } else {
        drop(session);
    }
    let image = sim.crash(Crash::Subset(0));
    let session = Session::open(image, options).unwrap();
    assert_eq!(session.live_tables().unwrap(), ["copy", "one"]);
    let table = session.open_table("one", &OpenTable::default()).unwrap();
    assert_eq!(table.range(..).count(), 200);
}

/// The same where it is a backup that somebody looks at.
#[test]
fn a_reader_of_a_backup_does_not_spoil_it() {
    let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    let session = Session::create(disk(), options.clone()).unwrap();
    let mut table = session.create_table("one", TableOptions::default()).unwrap();
    let sim = disk();
    let target: Arc<dyn Disk> = sim.clone();
    let mut refusals = 0;
    for number in 0..6_u64 {
        table.update(Batch::new().insert(&number.to_be_bytes(), b"value")).unwrap();
        let reader = sim.open("checkpoint", Mode::Read, Access::Buffered).ok();
        let outcome = session.backup(&target, Verify::Quick);
        drop(reader);
        if let Err(error) = outcome {
            refusals += 1;
            assert!(error.kind() == Kind::Io && error.to_string().contains("try again"), "{error}");
            // What was there stays as it was.
            let before = Session::open_read_only(target.clone(), options.clone()).unwrap();
            let before = before.open_table("one", &OpenTable::default()).unwrap();
            assert_eq!(before.range(..).count() as u64, number);
            drop(before);
            session.backup(&target, Verify::Quick).unwrap();
        }
        let backup = Session::open_read_only(target.clone(), options.clone()).unwrap();
        let backup = backup.open_table("one", &OpenTable::default()).unwrap();
        assert_eq!(backup.range(..).count() as u64, number + 1);
    }
    assert!(refusals > 0);
}

/// The same of a context's control file.
#[test]
fn a_reader_of_the_control_file_poisons_no_writer() {
    let sim = disk();
    let mut store = Store::create(sim.clone(), Options::default()).unwrap();
    let held = || sim.open("control", Mode::Read, Access::Buffered).unwrap();
    let refused = |outcome: Result<()>| {
        let error = outcome.unwrap_err();
        assert!(error.kind() == Kind::Io && error.to_string().contains("try again"), "{error}");
    };
    let mut parents = Vec::new();
    let mut refusals = 0;
    for number in 0..20_u64 {
        let mut tree = match parents.first() {
            Some(parent) => store.checkout(parent).unwrap(),
            None => store.empty_tree(),
        };
        tree.add(&["level"], &number.to_be_bytes()).unwrap();
        let info = CommitInfo::new(&parents, number as i64, "me", "");
        let reader = held();
        let outcome = store.commit(&mut tree, &info);
        drop(reader);
        let commit = outcome.unwrap_or_else(|error| {
            refusals += 1;
            refused(Err(error));
            store.commit(&mut tree, &info).unwrap()
        });
        parents = vec![commit];
        let reader = held();
        let outcome = store.set_branch(b"main", &commit);
        drop(reader);
        if outcome.is_err() {
            refusals += 1;
            refused(outcome);
            store.set_branch(b"main", &commit).unwrap();
        }
        let reader = held();
        let outcome = store.maintain();
        drop(reader);
        if let Err(error) = outcome {
            refusals += 1;
            refused(Err(error));
            store.maintain().unwrap();
        }
    }
    let reader = held();
    let closed = store.close();
    drop(reader);
    if closed.is_err() {
        refusals += 1;
        refused(closed);
    }
    assert!(refusals > 0);
    let store = Store::open(sim.crash(Crash::Subset(0)), Options::default()).unwrap();
    let found = store.checkout(&parents[0]).unwrap().find(&["level"]).unwrap();
    assert_eq!(found.as_deref(), Some(&19_u64.to_be_bytes()[..]));
}

/// To write, which gave the control file its name anew while it was open.
#[test]
fn a_context_is_opened_to_write_again() {
    let sim = disk();
    let mut parents = Vec::new();
    for number in 0..6_u64 {
        let mut store = if number == 0 {
            Store::create(sim.clone(), Options::default()).unwrap()
        } else {
            Store::open(sim.clone(), Options::default()).unwrap()
        };
        let mut tree = match parents.first() {
            Some(parent) => store.checkout(parent).unwrap(),
            None => store.empty_tree(),
        };
        tree.add(&["level"], &number.to_be_bytes()).unwrap();
        let info = CommitInfo::new(&parents, number as i64, "me", "");
        parents = vec![store.commit(&mut tree, &info).unwrap()];
        store.set_branch(b"main", &parents[0]).unwrap();
        store.close().unwrap();
        let reader = Store::open_read_only(sim.crash(Crash::Process), Options::default()).unwrap();
        let found = reader.checkout(&parents[0]).unwrap().find(&["level"]).unwrap();
        assert_eq!(found.as_deref(), Some(&number.to_be_bytes()[..]));
    }
}

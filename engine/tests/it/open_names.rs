//! Both faces on a disk whose open files keep their names, as on some file systems of Windows.

use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::sim::{Crash, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::table::check::check;
use varvite::{Kind, Session, SessionOptions};

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

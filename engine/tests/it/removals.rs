//! Files that nobody needs any more go when the session is used, in a few at a time, or with its last
//! handle; never on the thread of a reader that drops what it looked at.

use std::collections::BTreeSet;
use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{
    Batch, Cursor, Log, OpenSnapshot, Session, SessionOptions, Snapshot, SnapshotContent, Table,
    TableOptions, View,
};

use crate::hooked_disk::HookedDisk;

/// What readers hold of a state whose files everybody else has let go.
type Held = (Vec<View>, Cursor, Snapshot, Table);

struct Scene {
    sim: Arc<SimDisk>,
    calls: Arc<AtomicUsize>,
    session: Session,
    table: Table,
    next: u64,
    /// Files that only readers hold.
    old: BTreeSet<String>,
}

fn options(log: Log) -> SessionOptions {
    SessionOptions { log, log_file_bytes: 2_000, segment_bytes: 12 << 10, ..Default::default() }
}

fn names(sim: &SimDisk) -> BTreeSet<String> {
    sim.list("segments").unwrap().into_iter().collect()
}

impl Scene {
    fn update(&mut self) {
        let mut batch = Batch::new();
        (self.next..self.next + 10).for_each(|number| {
            batch.insert(&(number % 3_000).to_be_bytes(), &number.to_be_bytes().repeat(5));
        });
        self.table.update(&batch).unwrap();
        self.next += 10;
    }

    fn save(&self, name: &str) {
        let content = SnapshotContent { label: "", payload: b"", tables: &[&self.table] };
        self.session.save_snapshot(name, content).unwrap();
    }

    /// A session whose files were named once, so that none of them may be written over.
    fn new(log: Log) -> (Scene, Held) {
        let (sim, calls) = (SimDisk::new(1), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&calls);
        let disk = HookedDisk::new(Arc::clone(&sim) as _, move |_, _| {
            count.fetch_add(1, SeqCst);
        });
        let session = Session::create(disk, options(log)).unwrap();
        let small = TableOptions { write_buffer_bytes: 2_000, size_ratio: 2, ..Default::default() };
        let table = session.create_table("t", small).unwrap();
        let mut scene = Scene { sim, calls, session, table, next: 0, old: BTreeSet::new() };
        (0..300).for_each(|_| scene.update());
        scene.save("s");
        let snapshot = scene.session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
        let view = snapshot.tables[0].view();
        let mut cursor = view.cursor(Unbounded, Unbounded).unwrap();
        assert!(cursor.next().unwrap().is_some());
        let copy = snapshot.tables[0].duplicate("copy").unwrap();
        let held = (vec![view, scene.table.view()], cursor, snapshot, copy);
        let before = scene.named();
        scene.session.delete_snapshot("s").unwrap();
        (0..300).for_each(|_| scene.update());
        // What the table has by now, and what the log's checkpoint names.
        scene.save("now");
        let (there, named) = (names(&scene.sim), scene.named());
        let only_held = |name: &String| there.contains(name) && !named.contains(name);
        scene.old = before.into_iter().filter(only_held).collect();
        assert!(scene.old.len() > 10, "{:?}", scene.old);
        (scene, held)
    }

    /// The files that something durable names.
    fn named(&self) -> BTreeSet<String> {
        let image = self.sim.crash(Crash::Process);
        drop(Session::open(Arc::clone(&image) as _, options(Log::None)).unwrap());
        names(&image)
    }

    /// How many of the old files are there.
    fn left(&self) -> usize {
        names(&self.sim).intersection(&self.old).count()
    }

    /// Drops what readers hold, on a thread of their own: no call of the disk comes of it.
    fn let_go(&self, held: Held) {
        let before = self.calls.load(SeqCst);
        std::thread::scope(|scope| scope.spawn(move || drop(held)).join().unwrap());
        assert_eq!(self.calls.load(SeqCst), before);
        assert_eq!(self.left(), self.old.len());
    }
}

#[test]
fn a_reader_that_lets_go_calls_no_disk_and_updates_give_the_space_back() {
    for log in [Log::None, Log::Written] {
        let (mut scene, held) = Scene::new(log);
        scene.let_go(held);
        let mut updates = 0;
        while scene.left() > 0 {
            let before = scene.left();
            scene.update();
            updates += 1;
            assert!(scene.left() < before, "{log:?}: {before} files stay");
            // None of them waits for all the files of a reader.
            assert!(scene.left() + 24 >= before, "{log:?}: {} of {before}", scene.left());
        }
        assert!(updates > 1, "{log:?}");
    }
}

#[test]
fn calls_of_the_session_give_the_space_back() {
    type Call = fn(&mut Scene);
    let calls: [Call; 5] = [
        |scene| scene.save("another"),
        |scene| scene.session.delete_snapshot("now").unwrap(),
        |scene| scene.session.clone().close().unwrap(),
        |scene| scene.table.duplicate("copy").unwrap().close().unwrap(),
        |scene| assert_eq!(scene.table.work(u64::MAX).unwrap(), 0),
    ];
    for (number, call) in calls.into_iter().enumerate() {
        for log in [Log::None, Log::Written] {
            let (mut scene, held) = Scene::new(log);
            scene.let_go(held);
            call(&mut scene);
            assert_eq!(scene.left(), 0, "{number}, {log:?}");
        }
    }
}

/// Nobody uses the session any more: with its last handle the files go, whichever that is.
#[test]
fn the_last_handle_of_a_session_gives_the_space_back() {
    for last_is_view in [false, true] {
        let (scene, held) = Scene::new(Log::None);
        let Scene { sim, session, table, old, .. } = scene;
        let left = || names(&sim).intersection(&old).count();
        if last_is_view {
            drop((session, table));
            assert_eq!(left(), old.len());
            drop(held);
        } else {
            drop(held);
            assert_eq!(left(), old.len());
            drop((session, table));
        }
        assert_eq!(left(), 0);
        let session = Session::open(sim, options(Log::None)).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        session.open_snapshot("now", &OpenSnapshot::default()).unwrap();
    }
}

/// The process is killed before the session was used again: the next opening removes the files.
#[test]
fn what_a_kill_leaves_goes_at_the_next_opening() {
    for log in [Log::None, Log::Written] {
        let (scene, held) = Scene::new(log);
        scene.let_go(held);
        let image = scene.sim.crash(Crash::Process);
        assert_eq!(names(&image).intersection(&scene.old).count(), scene.old.len());
        let session = Session::open(Arc::clone(&image) as Arc<dyn Disk>, options(log)).unwrap();
        assert_eq!(names(&image).intersection(&scene.old).count(), 0, "{log:?}");
        session.open_snapshot("now", &OpenSnapshot::default()).unwrap();
    }
}

/// A poisoned or closed session removes nothing, whoever lets go of what.
#[test]
fn nothing_goes_once_the_session_may_not_remove() {
    let (scene, held) = Scene::new(Log::Written);
    scene.sim.fail_at(1, varvite::disk::sim::Fault::Sync);
    assert!(scene.session.create_table("new", TableOptions::default()).is_err());
    assert!(scene.session.is_poisoned());
    scene.let_go(held);
    let Scene { sim, session, table, old, .. } = scene;
    drop((session, table));
    assert_eq!(names(&sim).intersection(&old).count(), old.len());
}

//! Sessions, tables and stores that are opened or made: at the first run, at later ones, after a crash at any
//! call of the first, beside another process, and where something else is.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use varvite::context::{ChildOrder, CommitInfo, Configuration, Index, Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{
    Batch, Kind, Log, MergeOperator, OpenSnapshot, OpenTable, Result, Session, SessionOptions,
    SnapshotContent, TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};

fn logged() -> SessionOptions {
    SessionOptions { log: Log::Synced, seed: Some(3), ..SessionOptions::default() }
}

fn context() -> Options {
    Options { seed: Some(3), ..Options::default() }
}

fn session_on(disk: Arc<dyn Disk>) -> Result<Session> {
    Session::open_or_create_on(disk, logged())
}

fn store_on(disk: Arc<dyn Disk>) -> Result<Store> {
    Store::open_or_create_on(disk, context())
}

/// One table of one session, and whether it was there.
fn table_on(disk: Arc<dyn Disk>) -> Result<bool> {
    let session = session_on(disk)?;
    let mut table = session.open_or_create_table("utxo", TableOptions::default())?;
    let was_there = table.get(b"key")?.is_some();
    table.update(Batch::new().insert(b"key", b"value"))?;
    Ok(was_there)
}

fn refused<T: Debug>(kind: Kind, words: &str, outcome: Result<T>) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn a_process_that_dies_at_any_call_of_the_first_run_is_followed_by_one_that_works() {
    let whole = SimDisk::new(7);
    assert!(!table_on(Arc::clone(&whole) as _).unwrap());
    drop(store_on(SimDisk::new(7)).unwrap());
    let mutations = whole.calls().mutations;
    assert!(mutations > 10, "{mutations} calls make a session and a table");
    let mut found = [0_u32; 2];
    for n in 1..=mutations {
        let sim = SimDisk::new(7);
        sim.kill_at(n);
        drop(table_on(Arc::clone(&sim) as _));
        sim.disarm();
        let was_there = table_on(sim.crash(Crash::Process)).unwrap();
        found[usize::from(was_there)] += 1;
        for (crash, image) in sim.crash_images(2, 4) {
            table_on(image).unwrap_or_else(|error| panic!("call {n}, {crash:?}: {error}"));
        }

        let sim = SimDisk::new(7);
        sim.kill_at(n);
        drop(store_on(Arc::clone(&sim) as _));
        sim.disarm();
        for (crash, image) in sim.crash_images(2, 4) {
            store_on(image).unwrap_or_else(|error| panic!("call {n}, {crash:?}: {error}"));
        }
    }
    assert!(found[0] > 0 && found[1] > 0, "{found:?}");
}

#[test]
fn of_threads_that_begin_at_once_one_has_it_and_the_others_are_told() {
    type Make = fn(Arc<dyn Disk>) -> Result<Box<dyn Send>>;
    let kinds: [Make; 2] =
        [|disk| Ok(Box::new(session_on(disk)?)), |disk| Ok(Box::new(store_on(disk)?))];
    for make in kinds {
        for _ in 0..50 {
            let (disk, barrier) = (MemoryDisk::seeded(1), Barrier::new(3));
            let outcomes = std::thread::scope(|scope| {
                let begin = || {
                    barrier.wait();
                    let outcome = make(Arc::clone(&disk) as _);
                    barrier.wait();
                    outcome.map(drop).map_err(|error| error.kind())
                };
                let threads = [(); 3].map(|()| scope.spawn(begin));
                threads.map(|thread| thread.join().unwrap())
            });
            assert_eq!(
                outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
                1,
                "{outcomes:?}"
            );
            for outcome in outcomes {
                assert!(matches!(outcome, Ok(()) | Err(Kind::Locked)), "{outcome:?}");
            }
        }
    }
}

/// Whoever gives the wrong options finds the store as it was, also one that an opening would mend.
#[test]
fn a_store_that_was_made_otherwise_is_refused_before_anything_is_written() {
    let sim = SimDisk::new(7);
    let mut store = store_on(Arc::clone(&sim) as _).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"1").unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop((tree, store));
    let found = sim.crash(Crash::Process);
    let other = Configuration::new(16, 64, ChildOrder::HashBits).unwrap();
    for options in [
        Options { index: Index::Always, ..context() },
        Options { configuration: other, ..context() },
    ] {
        let outcome = Store::open_or_create_on(Arc::clone(&found) as _, options);
        refused(Kind::Invalid, "was made with", outcome);
    }
    assert_eq!(found.calls().mutations, 0);
    store_on(Arc::clone(&found) as _).unwrap();
    assert!(found.calls().mutations > 0, "an opening has something to write");
}

/// Another process makes the store at any call before this one has the lock: then it is that one.
#[test]
fn a_store_that_somebody_makes_meanwhile_is_opened() {
    let whole = MemoryDisk::seeded(1);
    drop(store_on(Arc::clone(&whole) as _).unwrap());
    let mut met = 0;
    for n in 0..12 {
        let disk = MemoryDisk::seeded(2);
        let (inner, from) = (Arc::clone(&disk), Arc::clone(&whole));
        let (calls, is_locked, is_made) =
            (AtomicU64::new(0), AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
        let made = Arc::clone(&is_made);
        let disk = HookedDisk::new(disk, move |call, _| {
            if call == Call::Lock {
                is_locked.store(true, SeqCst);
            }
            if calls.fetch_add(1, SeqCst) == n && !is_locked.load(SeqCst) {
                for folder in ["index", "index/segments", "index/snapshots"] {
                    let _ = inner.create_directory(folder);
                }
                for path in from.files().into_iter().filter(|path| !path.ends_with("lock")) {
                    inner.replace(&path, from.bytes(&path).unwrap()).unwrap();
                }
                made.store(true, SeqCst);
            }
        });
        let outcome = store_on(disk);
        assert!(outcome.is_ok(), "{n}: {outcome:?}");
        met += u64::from(is_made.load(SeqCst));
    }
    assert!(met > 2, "{met}");
}

/// The same where a creation that was cut short has left its first chunk, which is gone meanwhile, or gets the first
/// commit of the store that somebody else makes.
#[test]
fn a_first_chunk_that_changes_meanwhile_is_no_damage() {
    let whole = MemoryDisk::seeded(1);
    drop(store_on(Arc::clone(&whole) as _).unwrap());
    let is_chunk = |path: &String| Path::new(path).extension().is_some_and(|it| it == "pack");
    let chunk = whole.files().into_iter().find(is_chunk).unwrap();
    let begun = whole.bytes(&chunk).unwrap();
    let mut store = store_on(Arc::clone(&whole) as _).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], &[7; 500]).unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "first")).unwrap();
    drop(store);
    assert!(whole.bytes(&chunk).unwrap().len() > begun.len());
    let mut met = 0;
    for (makes, creates) in [(true, false), (true, true), (false, false), (false, true)] {
        for n in 0..12 {
            let disk = MemoryDisk::seeded(2);
            disk.replace(&chunk, begun.clone()).unwrap();
            let (inner, from, path) = (Arc::clone(&disk), Arc::clone(&whole), chunk.clone());
            let (calls, is_locked, has_come) =
                (AtomicU64::new(0), AtomicBool::new(false), Arc::new(AtomicBool::new(false)));
            let came = Arc::clone(&has_come);
            let disk = HookedDisk::new(disk, move |call, _| {
                if call == Call::Lock {
                    is_locked.store(true, SeqCst);
                }
                if calls.fetch_add(1, SeqCst) != n || is_locked.load(SeqCst) {
                    return;
                }
                came.store(true, SeqCst);
                if !makes {
                    return inner.remove(&path).unwrap();
                }
                for folder in ["index", "index/segments", "index/snapshots"] {
                    let _ = inner.create_directory(folder);
                }
                for path in from.files().into_iter().filter(|path| !path.ends_with("lock")) {
                    inner.replace(&path, from.bytes(&path).unwrap()).unwrap();
                }
            });
            let disk = disk as Arc<dyn Disk>;
            let outcome = if creates { Store::create(disk, context()) } else { store_on(disk) };
            let has_come = has_come.load(SeqCst);
            match outcome.map(drop) {
                Ok(()) => assert!(!(creates && makes && has_come), "{n}"),
                Err(error) => {
                    let is_so = creates && makes && error.kind() == Kind::Exists;
                    assert!(is_so, "{makes} {creates} {n}: {error}");
                }
            }
            met += u64::from(has_come);
        }
    }
    assert!(met > 8, "{met}");
}

#[test]
fn nothing_is_made_over_what_is_there() {
    // Something else.
    let disk = MemoryDisk::seeded(1);
    disk.open("notes.txt", Mode::Create, Access::Buffered).unwrap();
    refused(Kind::Invalid, "notes.txt", session_on(Arc::clone(&disk) as _));
    refused(Kind::Invalid, "notes.txt", store_on(Arc::clone(&disk) as _));
    assert_eq!(disk.list("").unwrap(), ["notes.txt"]);

    // What has lost the file that it is known by.
    let disk = MemoryDisk::seeded(1);
    table_on(Arc::clone(&disk) as _).unwrap();
    disk.remove("session").unwrap();
    let names = disk.list("").unwrap();
    refused(Kind::Corrupt, "session", session_on(Arc::clone(&disk) as _));
    assert_eq!(disk.list("").unwrap(), names);
    let disk = MemoryDisk::seeded(1);
    let mut store = store_on(Arc::clone(&disk) as _).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"value").unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "first")).unwrap();
    drop(store);
    disk.remove("control").unwrap();
    let names = disk.list("").unwrap();
    refused(Kind::Corrupt, "control", store_on(Arc::clone(&disk) as _));
    assert_eq!(disk.list("").unwrap(), names);
}

/// All files and folders below `folder`, with what is in them.
fn below(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_folder = path.is_dir();
        found.push((
            path.clone(),
            if is_folder { Vec::new() } else { std::fs::read(&path).unwrap() },
        ));
        if is_folder {
            found.extend(below(&path));
        }
    }
    found.sort();
    found
}

/// A store's own index is made after the file by which the store is known, so without that file it is somebody's.
#[test]
fn a_folder_index_that_is_somebodys_stays() {
    type Put = fn(&Path);
    let puts: [Put; 4] = [
        |index| {
            let options = SessionOptions { log: Log::None, ..logged() };
            let session = Session::open_or_create(index, options).unwrap();
            let mut table = session.create_table("t", TableOptions::default()).unwrap();
            for name in ["one", "two"] {
                table.update(Batch::new().insert(b"key", name.as_bytes())).unwrap();
                let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
                session.save_snapshot(name, content).unwrap();
            }
            drop(table);
            session.close().unwrap();
        },
        |index| assert!(!table_on(OsDisk::create(index).unwrap()).unwrap()),
        |index| {
            std::fs::create_dir_all(index.join("segments")).unwrap();
            std::fs::write(index.join("segments/notes.txt"), "mine").unwrap();
        },
        |index| std::fs::write(index, "mine").unwrap(),
    ];
    let source: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = store_on(Arc::clone(&source)).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"value").unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], 0, "me", "first")).unwrap();
    store.export_commit(&commit, &source, "file").unwrap();
    store.close().unwrap();
    for put in puts {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        put(&folder.join("index"));
        let before = below(folder);
        let disk = || OsDisk::new(folder).unwrap() as Arc<dyn Disk>;
        let repaired = Store::repair(&source, None, &disk(), &mut |_, _| Ok(())).map(drop);
        let outcomes = [
            Store::create(disk(), context()).map(drop),
            Store::open_or_create_on(disk(), context()).map(drop),
            Store::open_or_create(folder, context()).map(drop),
            Store::create_from_commit(disk(), context(), &*source, "file").map(drop),
            repaired,
        ];
        for outcome in outcomes {
            refused(Kind::Invalid, "it has index", outcome);
        }
        assert!(below(folder) == before, "{:?}", below(folder));
    }
    // One with nothing in it is nobody's.
    let temporary = tempfile::tempdir().unwrap();
    std::fs::create_dir(temporary.path().join("index")).unwrap();
    Store::open_or_create(temporary.path(), context()).unwrap().check().unwrap();
}

#[test]
fn what_is_there_keeps_what_it_was_made_with() {
    let disk = MemoryDisk::seeded(1);
    let counted = || TableOptions {
        filter_bits: 9,
        ..TableOptions::default().with_operator(MergeOperator::add_u64())
    };
    let session = session_on(Arc::clone(&disk) as _).unwrap();
    let table = session.open_or_create_table("counts", counted()).unwrap();
    drop(table);
    let again = TableOptions { filter_bits: 5, ..counted() };
    assert_eq!(
        session.open_or_create_table("counts", again.clone()).unwrap().options().filter_bits,
        9
    );
    refused(
        Kind::Invalid,
        "add-u64",
        session.open_or_create_table("counts", TableOptions::default()),
    );
    let wanted = || [("counts", again.clone()), ("more", TableOptions::default())];
    let tables = session.open_or_create_tables(wanted()).unwrap();
    refused(Kind::Locked, "counts", session.open_or_create_table("counts", again.clone()));
    drop((tables, session));
    let session = session_on(Arc::clone(&disk) as _).unwrap();
    let none = [("more", TableOptions::default()), ("counts", TableOptions::default())];
    refused(Kind::Invalid, "add-u64", session.open_or_create_tables(none));
    let names: Vec<_> = session
        .open_or_create_tables(wanted())
        .unwrap()
        .views()
        .iter()
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_eq!(names, ["counts", "more"]);
    drop(session);

    let without = SessionOptions { log: Log::None, ..logged() };
    let session = Session::open_or_create_on(MemoryDisk::seeded(1), without).unwrap();
    refused(
        Kind::Invalid,
        "without a log",
        session.open_or_create_table("t", TableOptions::default()),
    );
    refused(
        Kind::Invalid,
        "without a log",
        session.open_or_create_tables([("t", TableOptions::default())]),
    );

    let disk = MemoryDisk::seeded(1);
    drop(store_on(Arc::clone(&disk) as _).unwrap());
    let configuration = Configuration::new(16, 64, ChildOrder::HashBits).unwrap();
    for options in
        [Options { configuration, ..context() }, Options { index: Index::Always, ..context() }]
    {
        refused(
            Kind::Invalid,
            "give the options that it has",
            Store::open_or_create_on(Arc::clone(&disk) as _, options),
        );
    }
    drop(store_on(disk).unwrap());
}

#[test]
fn a_path_is_enough() {
    let temporary = tempfile::tempdir().unwrap();
    let (ledger, state) =
        (temporary.path().join("chain/ledger"), temporary.path().join("chain/state"));
    for _ in 0..2 {
        let session = Session::open_or_create(&ledger, logged()).unwrap();
        session.open_or_create_table("utxo", TableOptions::utxo()).unwrap();
        drop(session);
        Store::open_or_create(&state, context()).unwrap().close().unwrap();
    }
    refused(Kind::Exists, "session", Session::create(OsDisk::new(&ledger).unwrap(), logged()));
}

/// Two handles would have updates of their own, and at most one of them would be saved.
#[test]
fn a_table_is_created_once_with_every_kind_of_log() {
    for log in [Log::None, Log::Written, Log::Synced] {
        let options = SessionOptions { log, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let create = |session: &Session| session.create_table("utxo", TableOptions::default());
        let mut first = create(&session).unwrap();
        refused(Kind::Exists, "table utxo already", create(&session));
        refused(Kind::Exists, "table utxo already", create(&session.clone()));
        drop(session.create_table("stake", TableOptions::default()).unwrap());
        first.update(Batch::new().insert(b"key", b"value")).unwrap();
        let copy = first.duplicate("utxo").unwrap();
        let view = first.view();
        let tables = session.share(vec![first]).unwrap();
        refused(Kind::Exists, "table utxo already", create(&session));
        drop(tables);
        // A live table stays; of any other nothing is left but what was made of it.
        if log == Log::None {
            assert_eq!(create(&session).unwrap().get(b"key").unwrap(), None);
        } else {
            refused(Kind::Exists, "table utxo already", create(&session));
            session.delete_table("utxo").unwrap();
            assert_eq!(create(&session).unwrap().get(b"key").unwrap(), None);
        }
        for found in [copy.get(b"key"), view.get(b"key")] {
            assert_eq!(found.unwrap().as_deref(), Some(&b"value"[..]));
        }
        session.close().unwrap();
    }
}

/// A creation that failed takes no name, and a snapshot's tables take none in the session that opens it.
#[test]
fn a_name_is_free_where_no_table_was_made_of_it() {
    for log in [Log::None, Log::Written, Log::Synced] {
        let disk = MemoryDisk::seeded(1);
        let options = SessionOptions { log, ..SessionOptions::default() };
        let session = Session::create(disk.clone(), options.clone()).unwrap();
        let wrong = TableOptions { size_ratio: 0, ..TableOptions::default() };
        refused(Kind::Invalid, "ratio", session.create_table("utxo", wrong));
        let mut table = session.create_table("utxo", TableOptions::default()).unwrap();
        table.update(Batch::new().insert(b"key", b"value")).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("one", content).unwrap();
        drop(table);
        session.close().unwrap();

        let session = Session::open(disk, options).unwrap();
        let mut snapshot = session.open_snapshot("one", &OpenSnapshot::default()).unwrap();
        let saved = snapshot.take("utxo").unwrap();
        let made = session.create_table("utxo", TableOptions::default());
        if log == Log::None {
            assert_eq!(made.unwrap().get(b"key").unwrap(), None);
        } else {
            refused(Kind::Exists, "table utxo already", made);
        }
        assert_eq!(saved.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

/// The disk failed while a live table was made: it is not there, and can be made then.
#[test]
fn a_creation_that_failed_can_be_repeated() {
    let mut failed = 0;
    for call in 1.. {
        let disk = SimDisk::new(call);
        let session = Session::create(disk.clone(), logged()).unwrap();
        disk.fail_at(call, Fault::Any);
        let made = session.create_table("utxo", TableOptions::default());
        disk.disarm();
        if made.is_ok() {
            break;
        }
        failed += 1;
        // After a sync that failed the session is opened again.
        let session = if session.is_poisoned() {
            drop((made, session));
            session_on(disk as _).unwrap()
        } else {
            session
        };
        match session.create_table("utxo", TableOptions::default()) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), Kind::Exists, "{error}");
                let there = session.open_table("utxo", &OpenTable::default()).unwrap();
                assert_eq!(there.get(b"key").unwrap(), None);
            }
        }
    }
    assert!(failed > 3, "{failed} calls failed");
}

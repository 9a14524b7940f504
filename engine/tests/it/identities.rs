//! Whose a file is: identities are drawn or given, files of others are known, and nothing of anybody is
//! removed by a creation.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use varvite::context::{self, CommitHash, CommitInfo, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::error::Kind;
use varvite::{
    Batch, Log, OpenSnapshot, OpenTable, Result, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};

use varvite::table::check::check;
use varvite::table::inspect;

use crate::hooked_disk::{Call, HookedDisk};

fn logged() -> SessionOptions {
    SessionOptions { log: Log::Synced, log_file_bytes: 400, ..SessionOptions::default() }
}

fn small() -> TableOptions {
    TableOptions { write_buffer_bytes: 300, blob_min_bytes: Some(60), ..TableOptions::default() }
}

fn update(table: &mut Table, number: u8) {
    for step in 0..6 {
        let (key, value) = ([number, step], vec![number; 10 + 15 * usize::from(step)]);
        table.update(Batch::new().insert(&key, &value)).unwrap();
    }
}

/// A session with two snapshots and, with a log, a live table.
fn tell(disk: Arc<dyn Disk>, options: SessionOptions) -> Session {
    let session = Session::create(disk, options).unwrap();
    let mut table = session.create_table("utxo", small()).unwrap();
    for number in 1..3 {
        update(&mut table, number);
        let name = format!("slot-{number}");
        let content = SnapshotContent { label: "", payload: &[number], tables: &[&table] };
        session.save_snapshot(&name, content).unwrap();
    }
    update(&mut table, 3);
    drop(table);
    session
}

/// Everything that a session has, by name; an error for anything that is wrong.
pub fn contents(
    disk: &Arc<dyn Disk>,
    options: &SessionOptions,
) -> Result<BTreeMap<String, String>> {
    let session = Session::open(Arc::clone(disk), options.clone())?;
    let all = |table: &Table| -> Result<String> {
        let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded)?;
        let mut text = String::new();
        while let Some((key, value)) = cursor.next()? {
            writeln!(text, "{key:?} {value:?}").unwrap();
        }
        Ok(text)
    };
    let mut found = BTreeMap::new();
    for info in session.list_snapshots()? {
        let mut snapshot = session.open_snapshot(
            &info.name,
            &OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() },
        )?;
        found.insert(info.name, all(&snapshot.take("utxo")?)?);
    }
    if options.log != Log::None {
        for table in session.open_all(&OpenTable::default())? {
            found.insert(format!("live {}", table.name()), all(&table)?);
        }
    }
    if let Some(warning) = session.warnings().into_iter().next() {
        return Err(varvite::Error::new(Kind::Corrupt, warning));
    }
    Ok(found)
}

/// Every file of a folder but the lock, by its path below it.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    // The bytes of the first two mean nothing, the other has none.
    let means = |name: &String| !name.ends_with("lock") && !name.ends_with("reserve");
    found.retain(|name| means(name) && !name.contains(".saved"));
    found.sort();
    found
}

/// For each file that two folders both have: `body` sees the first one with the other's file.
fn with_each_swapped(ours: &Path, theirs: &Path, mut body: impl FnMut(&str, Arc<dyn Disk>)) {
    let names = files(ours);
    assert_eq!(names, files(theirs), "they are made by the same operations");
    for name in names {
        let (path, other) = (ours.join(&name), theirs.join(&name));
        let (kept, bytes) = (std::fs::read(&path).unwrap(), std::fs::read(other).unwrap());
        assert!(kept != bytes, "{name} is the same in both");
        // In a copy, since opening may change what is there.
        let copy = tempfile::tempdir().unwrap();
        for name in files(ours) {
            let to = copy.path().join(&name);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(ours.join(&name), to).unwrap();
        }
        for folder in ["segments", "snapshots", "index/segments", "index/snapshots"] {
            if ours.join(folder).is_dir() {
                std::fs::create_dir_all(copy.path().join(folder)).unwrap();
            }
        }
        std::fs::write(copy.path().join(&name), bytes).unwrap();
        body(&name, OsDisk::new(copy.path()).unwrap());
    }
}

#[test]
fn without_a_seed_and_without_entropy_nothing_is_made_or_opened() {
    let disk = MemoryDisk::new();
    let refused = |error: varvite::Error, words: &str| {
        assert_eq!(error.kind(), Kind::Invalid);
        assert!(error.detail().contains(words) && error.detail().contains("`seed`"), "{error}");
        assert_eq!(disk.files(), Vec::<String>::new());
    };
    for (seed, words) in [(None, "no entropy"), (Some(0), "0 is no seed")] {
        let options = SessionOptions { seed, ..SessionOptions::default() };
        refused(Session::create(disk.clone(), options).unwrap_err(), words);
        let options = context::Options { seed, ..context::Options::default() };
        refused(Store::create(disk.clone(), options).unwrap_err(), words);
    }
    let given = SessionOptions { seed: Some(3), ..SessionOptions::default() };
    Session::create(disk.clone(), given.clone()).unwrap().close().unwrap();
    let error = Session::open(disk.clone(), SessionOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    Session::open_read_only(disk.clone(), SessionOptions::default()).unwrap();
    Session::open(disk, given).unwrap();
}

#[test]
fn each_file_of_another_session_is_refused_by_name() {
    for options in [SessionOptions::default(), logged()] {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in &folders {
            let disk = OsDisk::new(folder.path()).unwrap();
            tell(disk, options.clone()).close().unwrap();
        }
        let [ours, theirs] = folders.each_ref().map(tempfile::TempDir::path);
        let mut count = 0;
        with_each_swapped(ours, theirs, |name, disk| {
            let report = check(&disk, |_| std::ops::ControlFlow::Continue(())).unwrap();
            assert!(!report.findings.is_empty(), "{name}: `check` finds nothing");
            let error = contents(&disk, &options).expect_err(name);
            // Of another `session` each of the other files is another's.
            let is_named = name == "session" || error.detail().contains(name);
            assert!(is_named, "{name}: {error}");
            count += 1;
        });
        assert!(count > 5, "{count}");
    }
}

fn commits(disk: Arc<dyn Disk>) -> Vec<CommitHash> {
    let options = context::Options { chunk_bytes: 2000, ..context::Options::default() };
    let mut store = Store::create(disk, options).unwrap();
    let mut tree = store.empty_tree();
    let mut hashes = Vec::new();
    for number in 0..20_u8 {
        tree.add(&["data", &number.to_string()], &[number; 200]).unwrap();
        hashes.push(store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap());
    }
    store.close().unwrap();
    hashes
}

#[test]
fn each_file_of_another_context_store_is_refused_or_made_again() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let hashes = folders.each_ref().map(|folder| commits(OsDisk::new(folder.path()).unwrap()));
    assert_eq!(hashes[0], hashes[1], "a hash says nothing of the store");
    let [ours, theirs] = folders.each_ref().map(tempfile::TempDir::path);
    let mut packs = 0;
    with_each_swapped(ours, theirs, |name, disk| {
        match Store::open(Arc::clone(&disk), context::Options::default()) {
            Err(error) => {
                assert!(!name.starts_with("index/"), "{name}: {error}");
                let is_named = name == "control" || error.detail().contains(name);
                assert!(is_named && error.detail().contains("another store"), "{name}: {error}");
                packs += u32::from(name.contains(".pack"));
            }
            Ok(store) => {
                assert!(name.starts_with("index/"), "{name} was taken for the store's own");
                // Unless nothing names it, and it went for that.
                let is_told = !store.warnings().is_empty();
                assert!(is_told || !disk.exists(name).unwrap(), "{name} is not told");
                for hash in &hashes[0] {
                    assert!(store.exists(hash).unwrap(), "{name}");
                }
                assert!(store.check().unwrap().index_faults.is_empty(), "{name}");
            }
        }
    });
    assert!(packs > 1, "{packs}");
}

#[test]
fn chunks_of_one_store_do_not_pass_for_each_other() {
    let disk = MemoryDisk::seeded(1);
    commits(disk.clone());
    let packs: Vec<_> = disk.files().into_iter().filter(|name| name.contains(".pack")).collect();
    for name in &packs[1..] {
        let copy = disk.snapshot();
        copy.replace(name, disk.bytes(&packs[0]).unwrap()).unwrap();
        let error = Store::open(copy, context::Options::default()).unwrap_err();
        assert!(error.detail().contains(name.as_str()), "{error}");
    }
}

/// Opens a session, or makes one where there is none: what hosts write.
fn open_or_create(disk: &Arc<MemoryDisk>, options: &SessionOptions) -> Result<Session> {
    match Session::open(disk.clone(), options.clone()) {
        Err(error) if error.kind() == Kind::Missing => {
            Session::create(disk.clone(), options.clone())
        }
        outcome => outcome,
    }
}

/// Every file but the lock, with its bytes.
pub fn all_files(disk: &MemoryDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.files().into_iter().filter(|name| !name.ends_with("lock"));
    names.map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

#[test]
fn a_lost_session_file_loses_nothing_else() {
    for options in [SessionOptions::default(), logged()] {
        let disk = MemoryDisk::seeded(1);
        tell(disk.clone(), options.clone()).close().unwrap();
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let (before, told) = (all_files(&disk), contents(&shared, &options).unwrap());
        let before = if options.log == Log::None { before } else { all_files(&disk) };
        disk.remove("session").unwrap();
        let error = open_or_create(&disk, &options).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.detail().contains("the file session"), "{error}");
        // Whichever of the files is left, alone or with all others.
        for name in before.keys().filter(|name| *name != "session") {
            let alone = MemoryDisk::seeded(2);
            for folder in ["segments", "snapshots", "log"] {
                alone.create_directory(folder).unwrap();
            }
            alone.replace(name, before[name].clone()).unwrap();
            let error = Session::create(alone.clone(), options.clone()).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{name}: {error}");
            assert_eq!(alone.bytes(name).unwrap(), before[name]);
        }
        // What the message advises.
        disk.replace("session", before["session"].clone()).unwrap();
        assert_eq!(all_files(&disk), before);
        assert_eq!(contents(&shared, &options).unwrap(), told);
    }
}

#[test]
fn a_log_with_records_is_kept_where_a_creation_was_cut_short() {
    let disk = MemoryDisk::seeded(1);
    tell(disk.clone(), logged()).close().unwrap();
    disk.rename("session", "session.tmp").unwrap();
    disk.remove("checkpoint").unwrap();
    let before = all_files(&disk);
    let error = Session::create(disk.clone(), logged()).unwrap_err();
    assert!(error.detail().contains("log/"), "{error}");
    assert_eq!(all_files(&disk), before);
    for name in before.keys().filter(|name| name.starts_with("log/")) {
        disk.remove(name).unwrap();
    }
    Session::create(disk.clone(), logged()).unwrap().close().unwrap();
    assert!(!disk.files().iter().any(|name| name.ends_with(".segment")), "{:?}", disk.files());
}

#[test]
fn a_lost_control_file_loses_nothing_else() {
    let disk = MemoryDisk::seeded(1);
    commits(disk.clone());
    let before = all_files(&disk);
    disk.remove("control").unwrap();
    let error = Store::create(disk.clone(), context::Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert!(error.detail().contains("\"control\""), "{error}");
    disk.replace("control", before["control"].clone()).unwrap();
    assert_eq!(all_files(&disk), before);
}

#[test]
fn a_session_made_by_another_process_meanwhile_stays() {
    let inner = MemoryDisk::seeded(1);
    let disk = HookedDisk::new(inner.clone(), {
        let inner = inner.clone();
        move |call, _| {
            if call == Call::Lock && !inner.exists("session").unwrap() {
                tell(inner.clone(), SessionOptions::default()).close().unwrap();
            }
        }
    });
    let error = Session::create(disk, SessionOptions::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Exists, "{error}");
    let shared = inner as Arc<dyn Disk>;
    assert_eq!(contents(&shared, &SessionOptions::default()).unwrap().len(), 2);
}

/// A creation whose last sync failed, taken for done: what is acknowledged later must not hang from a
/// name that only memory has.
#[test]
fn what_is_saved_after_a_failed_creation_outlives_a_power_cut() {
    let mut sessions = 0;
    for (n, forget, is_created) in
        (1..40).flat_map(|n| [0, 1, 2, 3].map(|way| (n, way % 2 == 1, way > 1)))
    {
        for options in [SessionOptions::default(), logged()] {
            let sim = SimDisk::new(n);
            sim.forget_names_on_failed_sync(forget);
            sim.fail_at(n, Fault::Sync);
            if Session::create(sim.clone(), options.clone()).is_ok() {
                continue;
            }
            let session = match Session::open(sim.clone(), options.clone()) {
                Err(error) if error.kind() == Kind::Missing && is_created => {
                    Session::create(sim.clone(), options.clone()).unwrap()
                }
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "{error}");
                    continue;
                }
                Ok(session) => session,
            };
            let mut table = session.create_table("t", TableOptions::default()).unwrap();
            table.update(Batch::new().insert(b"key", b"value")).unwrap();
            let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
            session.save_snapshot("saved", content).unwrap();
            let image = sim.crash(Crash::Subset(0));
            let session = Session::open(image, options.clone()).unwrap();
            assert_eq!(session.warnings(), Vec::<String>::new());
            let opened = session.open_snapshot("saved", &OpenSnapshot::default());
            let table = opened.unwrap().take("t").unwrap();
            assert_eq!(table.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
            sessions += 1;
        }
    }
    assert!(sessions > 6, "{sessions}");
}

/// The same for a context store, which relies on a file system that keeps changes of names for the next sync.
#[test]
fn what_is_committed_after_a_failed_creation_outlives_a_power_cut() {
    let mut stores = 0;
    for n in 1..40 {
        let sim = SimDisk::new(n);
        sim.fail_at(n, Fault::Sync);
        if Store::create(sim.clone(), context::Options::default()).is_ok() {
            continue;
        }
        let mut store = Store::create(sim.clone(), context::Options::default()).unwrap();
        let mut tree = store.empty_tree();
        tree.add(&["a"], b"1").unwrap();
        let hash = store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap();
        let image = sim.crash(Crash::Subset(0));
        let store = Store::open(image, context::Options::default());
        let store = store.unwrap_or_else(|error| panic!("{n}: {error}"));
        assert!(store.exists(&hash).unwrap(), "{n}");
        stores += 1;
    }
    assert!(stores > 0, "{stores}");
}

/// The same for an export, into a folder where one before it failed.
#[test]
fn an_export_after_one_that_failed_outlives_a_power_cut() {
    let source = tell(MemoryDisk::seeded(2), SessionOptions::default());
    let mut failed = 0;
    for (n, forget) in (1..40).flat_map(|n| [(n, false), (n, true)]) {
        let sim = SimDisk::new(n);
        sim.forget_names_on_failed_sync(forget);
        sim.fail_at(n, Fault::Sync);
        let target = Arc::clone(&sim) as Arc<dyn Disk>;
        failed += u32::from(source.export_snapshot("slot-1", &target, Verify::Quick).is_err());
        if let Err(error) = source.export_snapshot("slot-2", &target, Verify::Quick) {
            assert_eq!(error.kind(), Kind::Exists, "{error}");
            continue;
        }
        let image = sim.crash(Crash::Subset(0)) as Arc<dyn Disk>;
        let found = contents(&image, &SessionOptions::default()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["slot-2"], "{n}, {forget}");
    }
    assert!(failed > 10, "{failed}");
}

/// Names of a host's own that end as a replacement does.
const FOREIGN: [&str; 4] = ["x.tmp", "data.tmp", "session.tmp.tmp", "0000000000000001.tmp"];

#[test]
fn files_of_the_host_stay_whatever_a_session_does() {
    let disk = MemoryDisk::seeded(1);
    let session = tell(disk.clone(), logged());
    let mut theirs = Vec::new();
    for folder in ["", "segments/", "snapshots/", "log/"] {
        for name in FOREIGN {
            disk.replace(&format!("{folder}{name}"), "of the host").unwrap();
            theirs.push(format!("{folder}{name}"));
        }
    }
    // What a crash leaves of files of ours goes.
    let left = ["checkpoint.tmp", "snapshots/a.snapshot.tmp", "log/000000000000001f.log.tmp"];
    for name in left {
        disk.replace(name, "cut").unwrap();
    }
    let all_there = |disk: &MemoryDisk| {
        let files = disk.files();
        assert!(theirs.iter().all(|name| files.contains(name)), "{files:?}");
    };
    session.close().unwrap();
    all_there(&disk);
    let session = Session::open(disk.clone(), logged()).unwrap();
    all_there(&disk);
    assert!(!left.iter().any(|name| disk.exists(name).unwrap()), "{:?}", disk.files());
    session.delete_snapshot("slot-1").unwrap();
    session.close().unwrap();
    all_there(&disk);
    // A creation or an export refuses the folder and takes nothing.
    let source = tell(MemoryDisk::seeded(2), SessionOptions::default());
    for name in &theirs {
        let target = MemoryDisk::seeded(3);
        for folder in ["segments", "snapshots", "log"] {
            target.create_directory(folder).unwrap();
        }
        target.replace(name, "of the host").unwrap();
        let error = Session::create(target.clone(), logged()).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.detail().contains(name.as_str()), "{error}");
        let shared = Arc::clone(&target) as Arc<dyn Disk>;
        source.export_snapshot("slot-1", &shared, Verify::Quick).unwrap_err();
        assert_eq!(target.bytes(name).unwrap(), b"of the host");
    }
}

#[test]
fn files_of_the_host_stay_whatever_a_context_store_does() {
    let disk = MemoryDisk::seeded(1);
    commits(disk.clone());
    let mut theirs = Vec::new();
    for folder in ["", "index/", "index/segments/", "index/snapshots/"] {
        for name in FOREIGN {
            disk.replace(&format!("{folder}{name}"), "of the host").unwrap();
            theirs.push(format!("{folder}{name}"));
        }
    }
    disk.replace("control.tmp", "cut").unwrap();
    let mut store = Store::open(disk.clone(), context::Options::default()).unwrap();
    assert!(!disk.exists("control.tmp").unwrap());
    store.rebuild_index().unwrap();
    store.clear().unwrap();
    store.close().unwrap();
    let files = disk.files();
    assert!(theirs.iter().all(|name| files.contains(name)), "{files:?}");
    let target = MemoryDisk::seeded(2);
    target.replace("data.tmp", "of the host").unwrap();
    let error = Store::create(target.clone(), context::Options::default()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(target.files(), ["data.tmp"]);
}

#[test]
fn a_manifest_under_another_name_is_refused_everywhere() {
    let disk = MemoryDisk::seeded(1);
    tell(disk.clone(), SessionOptions::default()).close().unwrap();
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    for name in ["slot-2", "copy"] {
        let copy = disk.snapshot();
        let path = format!("snapshots/{name}.snapshot");
        copy.replace(&path, disk.bytes("snapshots/slot-1.snapshot").unwrap()).unwrap();
        let shared = Arc::clone(&copy) as Arc<dyn Disk>;
        let names_both = |text: &str| {
            assert!(text.contains(&format!("\"{name}\"")) && text.contains("\"slot-1\""), "{text}");
        };
        let before = copy.files();
        for session in [
            Session::open(copy.clone(), SessionOptions::default()).unwrap(),
            Session::open_read_only(copy.clone(), SessionOptions::default()).unwrap(),
        ] {
            let error = session.open_snapshot(name, &OpenSnapshot::default()).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt);
            names_both(error.detail());
            let listed = session.list_snapshots().unwrap();
            let damage = listed.iter().find(|info| info.name == name).unwrap().damage.clone();
            names_both(&damage.expect("it is listed as damaged"));
            let target = MemoryDisk::seeded(5) as Arc<dyn Disk>;
            names_both(session.export_snapshot(name, &target, Verify::Quick).unwrap_err().detail());
            session.open_snapshot("slot-1", &OpenSnapshot::default()).unwrap();
        }
        let session = Session::open(copy.clone(), SessionOptions::default()).unwrap();
        names_both(&session.warnings()[0]);
        session.close().unwrap();
        assert_eq!(copy.files(), before, "nothing is removed on doubt");
        let report = check(&shared, |_| std::ops::ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        names_both(&report.findings[0].detail);
        // What the message advises.
        let session = Session::open(copy.clone(), SessionOptions::default()).unwrap();
        session.delete_snapshot(name).unwrap();
        session.close().unwrap();
        assert!(!contents(&shared, &SessionOptions::default()).unwrap().contains_key(name));
        let report = check(&shared, |_| std::ops::ControlFlow::Continue(())).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
    let outline =
        inspect::snapshot("slot-1.snapshot", &disk.bytes("snapshots/slot-1.snapshot").unwrap());
    let text = outline.to_string();
    assert!(text.contains("name=slot-1") && text.contains("sequence=1"), "{text}");
    assert!(contents(&shared, &SessionOptions::default()).is_ok());
}

#[test]
fn saves_are_numbered_upwards_also_after_reopening() {
    let disk = MemoryDisk::seeded(1);
    let session = tell(disk.clone(), SessionOptions::default());
    session.close().unwrap();
    let session = Session::open(disk, SessionOptions::default()).unwrap();
    let table = session.create_table("new", TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("another", content).unwrap();
    let listed = session.list_snapshots().unwrap();
    let numbers: Vec<_> = listed.iter().map(|info| (info.name.as_str(), info.sequence)).collect();
    assert_eq!(numbers, [("another", 3), ("slot-1", 1), ("slot-2", 2)]);
}

/// Saves a snapshot of an empty table and gives its number.
fn save_numbered(session: &Session, name: &str) -> u64 {
    let table = session.create_table(&format!("of-{name}"), TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot(name, content).unwrap();
    let listed = session.list_snapshots().unwrap();
    listed.into_iter().find(|info| info.name == name).unwrap().sequence
}

#[test]
fn no_number_of_a_save_comes_again() {
    for options in [SessionOptions::default(), logged()] {
        let disk = MemoryDisk::seeded(1);
        tell(disk.clone(), options.clone()).close().unwrap();
        let mut given = vec![1, 2];
        let mut save = |disk: &Arc<MemoryDisk>, name: &str| {
            let session = Session::open(disk.clone(), options.clone()).unwrap();
            let number = save_numbered(&session, name);
            assert!(given.iter().all(|before| *before < number), "{name}: {number} of {given:?}");
            given.push(number);
            session
        };
        // The newest is damaged, or lost, or deleted, before the session is opened again.
        save(&disk, "a").close().unwrap();
        let whole = disk.bytes("snapshots/a.snapshot").unwrap();
        let mut bad = whole.clone();
        bad[40] ^= 1;
        disk.replace("snapshots/a.snapshot", bad).unwrap();
        drop(save(&disk, "b"));
        disk.replace("snapshots/a.snapshot", whole).unwrap();
        disk.remove("snapshots/b.snapshot").unwrap();
        let session = save(&disk, "c");
        session.delete_snapshot("c").unwrap();
        session.close().unwrap();
        drop(save(&disk, "d"));
        // All of them at once.
        let session = Session::open(disk.clone(), options.clone()).unwrap();
        for info in session.list_snapshots().unwrap() {
            session.delete_snapshot(&info.name).unwrap();
        }
        drop(session);
        drop(save(&disk, "e"));
    }
}

#[test]
fn no_number_of_a_save_comes_again_after_a_power_cut() {
    for n in 1..60 {
        for fault in [None, Some(Fault::Sync), Some(Fault::Rename), Some(Fault::Remove)] {
            let sim = SimDisk::new(n);
            sim.forget_names_on_failed_sync(true);
            let options = SessionOptions::default;
            let session = Session::create(sim.clone(), options()).unwrap();
            let before = save_numbered(&session, "a");
            match fault {
                Some(fault) => sim.fail_at(n, fault),
                None => sim.kill_at(n),
            }
            let content = SnapshotContent { label: "", payload: b"", tables: &[] };
            let _ = session.save_snapshot("b", content);
            let _ = session.delete_snapshot("a");
            let _ = session.save_snapshot("c", content);
            drop(session);
            sim.disarm();
            let sim = if fault.is_none() { sim.crash(Crash::Process) } else { sim };
            // What the next process is shown is a number that was given.
            let session = Session::open(sim.clone(), options()).unwrap();
            let listed = session.list_snapshots().unwrap();
            let shown = listed.iter().map(|info| info.sequence).max().unwrap_or(0).max(before);
            for info in listed {
                session.delete_snapshot(&info.name).unwrap();
            }
            drop(session);
            for crash in [Crash::Subset(0), Crash::Subset(u64::MAX), Crash::Seed(n)] {
                let session = Session::open(sim.crash(crash), options()).unwrap();
                let number = save_numbered(&session, "d");
                assert!(number > shown, "{n}, {fault:?}, {crash:?}: {number} after {shown}");
            }
        }
    }
}

/// Numbers in names of files go on from the greatest, as long as what is made from them can be read.
#[test]
fn a_file_of_a_number_that_no_session_gives_leads_to_nothing_unreadable() {
    let names =
        [("segments", "segment"), ("segments", "blob"), ("snapshots", "saved"), ("log", "log")];
    let numbers = [(1 << 61) - 1, 1 << 61, (1 << 62) - 1, 1 << 62, (1 << 62) + 1, u64::MAX];
    for (folder, suffix) in names {
        for number in numbers {
            let what = format!("{folder}/{number:016x}.{suffix}");
            let disk = MemoryDisk::seeded(1);
            tell(disk.clone(), logged()).close().unwrap();
            disk.open(&what, Mode::Create, Access::Buffered).unwrap();
            // The last number is followed by none.
            let is_last = number == numbers[0];
            let opened = Session::open(disk.clone(), logged());
            let session = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            if is_last && suffix == "log" {
                // Ours by its name, and damaged.
                assert_eq!(session.warnings().len(), 1, "{what}");
                continue;
            }
            for name in ["one", "two"] {
                let mut table = session.create_table(name, small()).unwrap();
                update(&mut table, 5);
                let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
                match session.save_snapshot(name, content) {
                    Err(error) if is_last && suffix == "saved" => {
                        assert_eq!(error.kind(), Kind::Invalid, "{what}: {error}");
                    }
                    saved => saved.unwrap_or_else(|error| panic!("{what}: {error}")),
                }
            }
            session.close().unwrap();
            let session = Session::open(disk.clone(), logged()).unwrap();
            assert_eq!(session.warnings(), Vec::<String>::new(), "{what}");
            let saved = session.list_snapshots().unwrap();
            assert_eq!(saved.len(), if is_last && suffix == "saved" { 2 } else { 4 }, "{what}");
            for info in saved {
                let opened = session.open_snapshot(&info.name, &OpenSnapshot::default());
                opened.unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            assert_eq!(session.open_all(&OpenTable::default()).unwrap().len(), 3, "{what}");
            let shared: Arc<dyn Disk> = disk;
            let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
            assert_eq!(report.findings, Vec::new(), "{what}");
        }
    }
}

/// Without the session's own file, what its other files say of it is believed where all say the same.
#[test]
fn files_that_contradict_each_other_about_a_lost_session_are_named() {
    for (options, seed) in [(SessionOptions::default(), 1), (logged(), 1), (logged(), 2)] {
        let disk = MemoryDisk::seeded(1);
        tell(disk.clone(), options.clone()).close().unwrap();
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let report = || check(&shared, |_| std::ops::ControlFlow::Continue(())).unwrap();
        let mut bad = disk.bytes("session").unwrap();
        bad[20] ^= 1;
        for is_lost in [false, true] {
            if is_lost {
                disk.remove("session").unwrap();
            } else {
                disk.replace("session", bad.clone()).unwrap();
            }
            let findings = report().findings;
            assert_eq!(findings.len(), 1, "{findings:?}");
            assert_eq!(findings[0].file, "session");
            assert_eq!(findings[0].snapshots, ["slot-1", "slot-2"]);
        }
        // A file of another session's, which comes first in the order of names.
        let other = MemoryDisk::seeded(8 + seed);
        tell(other.clone(), logged()).close().unwrap();
        let theirs = if seed == 1 { "snapshots/slot-1.snapshot" } else { "checkpoint" };
        disk.replace(theirs, other.bytes(theirs).unwrap()).unwrap();
        let findings = report().findings;
        let told = findings.iter().find(|finding| finding.file == "session").unwrap();
        for name in ["snapshots/slot-2.snapshot", theirs, "contradict"] {
            assert!(told.detail.contains(name), "{name}: {}", told.detail);
        }
        // The file that is alone with what it says is the one that does not belong here.
        assert!(findings.iter().any(|finding| finding.file == theirs), "{findings:?}");
        let sound = "snapshots/slot-2.snapshot";
        assert!(findings.iter().all(|finding| finding.file != sound), "{findings:?}");
    }
}

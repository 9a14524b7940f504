//! Live tables of which a file is gone: whoever reads has the newest state, or is told; never an older one.

use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::check::check;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{
    Batch, Error, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    Table, TableOptions, Verify,
};

fn options() -> SessionOptions {
    SessionOptions { log: Log::Synced, log_file_bytes: 4_000, ..SessionOptions::default() }
}

fn read_only(disk: &Arc<MemoryDisk>) -> Session {
    Session::open_read_only(disk.clone(), SessionOptions::default()).unwrap()
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

/// A store with live tables, a snapshot of an older state, several log files, segments and a blob file.
fn with_snapshot() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(5);
    let session = Session::create(disk.clone(), options()).unwrap();
    let small = TableOptions {
        write_buffer_bytes: 3_000,
        blob_min_bytes: Some(600),
        ..TableOptions::default()
    };
    let mut table = session.create_table("t", small).unwrap();
    for number in 0..200 {
        table.update(Batch::new().insert(&key(number), &[1; 50])).unwrap();
        if number == 100 {
            let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
            session.save_snapshot("s", content).unwrap();
        }
    }
    table.update(Batch::new().insert(b"long", &[7; 700])).unwrap();
    for number in 0..50 {
        table.update(Batch::new().insert(&key(number), &[2; 50])).unwrap();
    }
    drop(table);
    session.close().unwrap();
    disk
}

/// All that whoever reads can ask for: how many keys there are, or what was said.
fn answers(disk: &Arc<MemoryDisk>) -> Vec<(&'static str, Result<u64, Error>)> {
    let session = match Session::open_read_only(disk.clone(), SessionOptions::default()) {
        Ok(session) => session,
        Err(error) => return vec![("open_read_only", Err(error))],
    };
    let count = |table: &Table| -> Result<u64, Error> {
        let entries = table.iter().collect::<Result<Vec<_>, _>>()?;
        let news = entries.iter().filter(|(key, value)| key.len() == 8 && value[0] == 2).count();
        Ok((entries.len() + news) as u64)
    };
    let all = |tables: &[Table]| match tables {
        [table] => count(table),
        tables => panic!("{} tables", tables.len()),
    };
    let open = OpenTable::default();
    let follow = || {
        let follower = session.follow(&open)?;
        count(follower.table("t")?)
    };
    let listed = || match &session.live_tables()?[..] {
        [name] if name == "t" => session.open_table(name, &open).and_then(|table| count(&table)),
        names => panic!("{names:?}"),
    };
    let backup = || {
        let target = MemoryDisk::seeded(8);
        session.backup(&(target.clone() as Arc<dyn Disk>), Verify::Full)?;
        let session = Session::open_read_only(target, SessionOptions::default())?;
        session.open_table("t", &open).and_then(|table| count(&table))
    };
    vec![
        ("live_tables", listed()),
        ("open_table", session.open_table("t", &open).and_then(|table| count(&table))),
        ("open_all", session.open_all(&open).and_then(|tables| all(&tables))),
        ("follow", follow()),
        ("backup", backup()),
    ]
}

fn named_by_checkpoint(error: &Error) -> bool {
    let detail = error.detail();
    error.kind() == Kind::Corrupt
        && detail.contains("checkpoint of the session at")
        && detail.contains("is not there")
        && detail.contains("`varvite repair`")
}

#[test]
fn whoever_reads_has_the_newest_state_or_is_told_whatever_file_is_gone() {
    let sound = with_snapshot();
    let newest: Vec<_> = answers(&sound).into_iter().map(|(_, answer)| answer.unwrap()).collect();
    assert_eq!(newest, [251; 5]);
    let files = sound.files();
    let last_log = files.iter().rfind(|path| path.starts_with("log/")).unwrap();
    let logs = files.iter().filter(|path| path.starts_with("log/")).count();
    assert!(logs > 1, "{files:?}");
    let mut told = 0;
    for path in &files {
        let disk = with_snapshot();
        disk.remove(path).unwrap();
        for (what, answer) in answers(&disk) {
            match answer {
                Ok(count) => assert_eq!(count, 251, "{what} without {path}"),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Corrupt, "{what} without {path}: {error}");
                    if path == "checkpoint" {
                        assert!(named_by_checkpoint(&error), "{what}: {error}");
                    }
                    told += 1;
                }
            }
        }
        let shared: Arc<dyn Disk> = disk.clone();
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        let is_needed = !["lock", "reserve"].contains(&&**path)
            && !["saved", "snapshot"].contains(&path.rsplit('.').next().unwrap_or(path));
        assert_eq!(!report.findings.is_empty(), is_needed, "{path}: {:?}", report.findings);
    }
    assert!(told > 20, "{told} of {files:?}, {last_log}");
}

#[test]
fn a_log_file_of_another_session_is_damage_to_whoever_reads() {
    let disk = with_snapshot();
    let path = disk.files().into_iter().rfind(|path| path.starts_with("log/")).unwrap();
    let other = MemoryDisk::seeded(6);
    drop(
        Session::create(other.clone(), options())
            .unwrap()
            .create_table("t", TableOptions::default()),
    );
    let foreign = other.files().into_iter().find(|path| path.starts_with("log/")).unwrap();
    disk.replace(&path, other.bytes(&foreign).unwrap()).unwrap();
    for (what, answer) in answers(&disk) {
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
        assert!(error.detail().contains("another session"), "{what}: {error}");
    }
}

/// A table that became live with all that it has: no update of it is in the log.
#[test]
fn a_checkpoint_that_is_lost_is_missed_before_the_first_update_too() {
    for opened_again in 0..3 {
        let disk = MemoryDisk::seeded(5);
        let session = Session::create(disk.clone(), options()).unwrap();
        let order = varvite::LoadOrder::Any { memory_bytes: 1 << 20 };
        let mut loader = session.load_table("t", TableOptions::default(), order).unwrap();
        (0..500).for_each(|number| loader.push(&key(number), &[1; 50]).unwrap());
        let mut table = loader.finish().unwrap();
        session.publish(&mut table).unwrap();
        drop(table);
        session.close().unwrap();
        for number in 0..opened_again {
            let session = Session::open(disk.clone(), options()).unwrap();
            drop(
                session.create_table(&format!("empty-{number}"), TableOptions::default()).unwrap(),
            );
            session.close().unwrap();
        }
        let segments = disk.list("segments").unwrap();
        assert!(!segments.is_empty());
        disk.remove("checkpoint").unwrap();
        let shared: Arc<dyn Disk> = disk.clone();
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings.len(), 1, "{opened_again}: {:?}", report.findings);
        let mut scrub = read_only(&disk).scrub(0).unwrap();
        while scrub.work(8).unwrap() > 0 {}
        assert_eq!(scrub.findings().len(), 1, "{opened_again}: {:?}", scrub.findings());
        let target = MemoryDisk::seeded(9) as Arc<dyn Disk>;
        let repaired = repair(&shared, &target, &RepairOptions::default()).unwrap();
        assert_eq!(repaired.losses.len(), 1, "{repaired:?}");
        for (what, answer) in answers(&disk) {
            let error = answer.unwrap_err();
            assert!(named_by_checkpoint(&error), "{what}: {error}");
        }
        let session = Session::open(disk.clone(), options()).unwrap();
        assert!(named_by_checkpoint(&session.live_tables().unwrap_err()));
        assert!(session.create_table("t", TableOptions::default()).is_err());
        session.close().unwrap();
        assert_eq!(disk.list("segments").unwrap(), segments, "nothing was removed");
    }
}

/// What is left of the live tables is segments that nothing names, and the reserve.
#[test]
fn a_checkpoint_that_is_lost_with_all_of_the_log_is_missed() {
    for keeps_folder in [false, true] {
        let disk = with_snapshot();
        disk.remove("checkpoint").unwrap();
        for name in disk.list("log").unwrap() {
            disk.remove(&format!("log/{name}")).unwrap();
        }
        if !keeps_folder {
            disk.remove_directory("log").unwrap();
        }
        let segments = disk.list("segments").unwrap();
        let shared: Arc<dyn Disk> = disk.clone();
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        let mut scrub = read_only(&disk).scrub(0).unwrap();
        while scrub.work(8).unwrap() > 0 {}
        assert_eq!(scrub.findings().len(), 1, "{:?}", scrub.findings());
        let target = MemoryDisk::seeded(9) as Arc<dyn Disk>;
        let repaired = repair(&shared, &target, &RepairOptions::default()).unwrap();
        assert_eq!(repaired.losses.len(), 1, "{repaired:?}");
        for (what, answer) in answers(&disk) {
            let error = answer.unwrap_err();
            assert!(named_by_checkpoint(&error), "{what}: {error}");
        }
        let session = Session::open(disk.clone(), options()).unwrap();
        assert!(named_by_checkpoint(&session.live_tables().unwrap_err()));
        session.close().unwrap();
        assert_eq!(disk.list("segments").unwrap(), segments, "nothing was removed");
    }
}

/// A store with a log in which no table was live yet has no checkpoint, and nothing is wrong with it.
#[test]
fn where_no_table_was_live_nothing_is_missed() {
    let disk = MemoryDisk::seeded(5);
    Session::create(disk.clone(), options()).unwrap().close().unwrap();
    for _ in 0..3 {
        let session = read_only(&disk);
        assert_eq!(session.live_tables().unwrap(), Vec::<String>::new());
        let missing = session.open_table("t", &OpenTable::default()).unwrap_err();
        assert_eq!(missing.kind(), Kind::Missing, "{missing}");
        assert!(session.open_all(&OpenTable::default()).unwrap().is_empty());
        assert_eq!(session.follow(&OpenTable::default()).unwrap().tables().len(), 0);
        let session = Session::open(disk.clone(), options()).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        session.close().unwrap();
    }
    let session = Session::open(disk.clone(), options()).unwrap();
    drop(session.create_table("t", TableOptions::default()).unwrap());
    session.close().unwrap();
    assert_eq!(read_only(&disk).live_tables().unwrap(), ["t"]);
}

/// The session's own file is another kind of file, or none of ours: it is damage, like one that is not there.
#[test]
fn a_session_that_was_written_over_is_damaged_and_made_again() {
    let sound = with_snapshot();
    let file = |path: &str| sound.bytes(path).unwrap();
    let log = sound.list("log").unwrap().pop().unwrap();
    let (mut another, own) = (file(&format!("log/{log}")), file("session"));
    another.truncate(own.len());
    let kinds = [
        ("a log", file(&format!("log/{log}"))),
        ("the head of a log", another),
        ("the checkpoint", file("checkpoint")),
        ("a snapshot", file("snapshots/s.snapshot")),
        ("zeros", vec![0; own.len()]),
        ("text", vec![b'x'; 44]),
        ("nothing", Vec::new()),
        ("a part", own[..20].to_vec()),
        ("a head alone", own[..32].to_vec()),
        ("more", [&own[..], b"more"].concat()),
    ];
    for (what, bytes) in kinds {
        let disk = with_snapshot();
        disk.replace("session", bytes).unwrap();
        let shared: Arc<dyn Disk> = disk.clone();
        let report = check(&shared, |_| ControlFlow::Continue(()));
        let report = report.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(report.findings.len(), 1, "{what}: {:?}", report.findings);
        assert_eq!(report.findings[0].file, "session", "{what}");
        for error in [
            Session::open(disk.clone(), options()).unwrap_err(),
            Session::open_read_only(disk.clone(), options()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
            assert!(error.detail().contains("`varvite repair`"), "{what}: {error}");
        }
        let target = MemoryDisk::seeded(9);
        let repaired = repair(&shared, &(target.clone() as _), &RepairOptions::default());
        let repaired = repaired.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(repaired.session_was_lost && repaired.losses.is_empty(), "{what}: {repaired:?}");
        for (way, answer) in answers(&target) {
            assert_eq!(answer.unwrap(), 251, "{what}: {way}");
        }
        let snapshot = read_only(&target).open_snapshot("s", &OpenSnapshot::default()).unwrap();
        assert_eq!(snapshot.tables.len(), 1);
    }
    // In a folder of somebody else's it is a file of theirs.
    let disk = MemoryDisk::seeded(3);
    disk.replace("session", vec![b'x'; 44]).unwrap();
    let error = Session::open(disk, options()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
}

//! Sessions whose folder of snapshots is gone: what only its manifests name is never removed.

use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::check::check;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{
    Batch, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    TableOptions,
};

fn options(log: Log) -> SessionOptions {
    SessionOptions { log, ..SessionOptions::default() }
}

/// A copy that was cut off, or a folder that was moved away: what only its manifests name stays.
#[test]
fn a_copy_that_lost_its_snapshots_keeps_their_files() {
    for with_live in [false, true] {
        let disk = MemoryDisk::seeded(9);
        let session = Session::create(disk.clone(), options(Log::None)).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        table.update(Batch::new().insert(b"key", b"value")).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("s", content).unwrap();
        drop(table);
        session.close().unwrap();
        if with_live {
            let session = Session::open(disk.clone(), options(Log::Synced)).unwrap();
            let mut live = session.create_table("live", TableOptions::default()).unwrap();
            live.update(Batch::new().insert(b"key", b"value")).unwrap();
            drop(live);
            session.close().unwrap();
        }
        let manifest = disk.bytes("snapshots/s.snapshot").unwrap();
        let segments = disk.list("segments").unwrap();
        assert!(!segments.is_empty());
        for name in disk.list("snapshots").unwrap() {
            disk.remove(&format!("snapshots/{name}")).unwrap();
        }
        disk.remove_directory("snapshots").unwrap();
        let shared = disk.clone() as Arc<dyn Disk>;
        let told = |detail: &str| detail.contains("snapshots/ is not there");
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        assert!(report.findings.iter().any(|it| told(&it.detail)), "{:?}", report.findings);
        let reader = Session::open_read_only(disk.clone(), options(Log::None)).unwrap();
        let mut scrub = reader.scrub(0).unwrap();
        while scrub.work(256).unwrap() > 0 {}
        assert!(scrub.findings().iter().any(|it| told(&it.detail)), "{:?}", scrub.findings());
        drop((scrub, reader));
        let repaired =
            repair(&shared, &(MemoryDisk::seeded(12) as Arc<dyn Disk>), &RepairOptions::default())
                .unwrap();
        assert!(repaired.losses.iter().any(|it| told(&it.detail)), "{:?}", repaired.losses);
        // Opened again and again, and written to: nothing goes, and each time it is told.
        let log = if with_live { Log::Synced } else { Log::None };
        for _ in 0..2 {
            let session = Session::open(disk.clone(), options(log)).unwrap();
            assert!(session.warnings().iter().any(|it| told(it)), "{:?}", session.warnings());
            if with_live {
                let live = session.open_table("live", &OpenTable::default()).unwrap();
                assert_eq!(live.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
            }
            let mut table = session.create_table("t", TableOptions::default()).unwrap();
            table.update(Batch::new().insert(b"other", b"value")).unwrap();
            let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
            let error = session.save_snapshot("another", content).unwrap_err();
            assert!(error.kind() == Kind::Missing && told(error.detail()), "{error}");
            drop(table);
            if with_live {
                session.delete_table("t").unwrap();
            }
            session.close().unwrap();
            assert!(
                disk.list("snapshots").is_err(),
                "an empty folder would say that there were none"
            );
            let now = disk.list("segments").unwrap();
            assert!(segments.iter().all(|name| now.contains(name)), "{now:?}");
        }
        disk.create_directory("snapshots").unwrap();
        disk.replace("snapshots/s.snapshot", manifest).unwrap();
        let session = Session::open(disk.clone(), options(log)).unwrap();
        assert_eq!(session.warnings(), Vec::<String>::new());
        let opened = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
        assert_eq!(opened.tables[0].get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        drop(opened);
        session.close().unwrap();
        // Whoever does without them says so by an empty folder.
        disk.remove("snapshots/s.snapshot").unwrap();
        Session::open(disk.clone(), options(log)).unwrap().close().unwrap();
        let report = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((report.findings, report.unreferenced), (Vec::new(), 0));
    }
}

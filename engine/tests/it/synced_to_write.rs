//! Where only what was opened to write can be synced, as on NTFS: whatever is brought from elsewhere is.

use std::ops::Bound::Unbounded;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::repair::{RepairOptions, repair};
use varvite::{
    Batch, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};

use crate::hooked_disk::HookedDisk;
use crate::listed::Listed;

fn strict(seed: u64) -> Arc<dyn Disk> {
    HookedDisk::strict(MemoryDisk::seeded(seed))
}

fn options() -> SessionOptions {
    SessionOptions { log: Log::Synced, log_file_bytes: 2_000, ..SessionOptions::default() }
}

/// Segments and blob files, of which some are in the log only.
fn change(table: &mut Table, round: u64) {
    for number in 0..100_u64 {
        let length = if number.is_multiple_of(9) { 400 } else { 60 };
        let key = (number * 7 + round).to_be_bytes();
        table.update(Batch::new().insert(&key, &vec![round as u8; length])).unwrap();
    }
}

fn listed(table: &Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    table.listed(Unbounded, Unbounded).unwrap()
}

fn live(disk: &Arc<dyn Disk>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let session = Session::open(Arc::clone(disk), options()).unwrap();
    assert_eq!(session.warnings(), Vec::<String>::new());
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    let found = listed(&table);
    drop(table);
    session.close().unwrap();
    found
}

#[test]
fn backups_imports_and_repairs_sync_what_they_opened_to_write() {
    let source = strict(1);
    let session = Session::create(Arc::clone(&source), options()).unwrap();
    let small = TableOptions {
        write_buffer_bytes: 1_500,
        blob_min_bytes: Some(300),
        ..TableOptions::default()
    };
    let mut table = session.create_table("t", small).unwrap();
    let backup = strict(2);
    for round in 0..3 {
        change(&mut table, round);
        let moved = session.backup(&backup, Verify::Full).unwrap().moved;
        assert!(moved.segments > 0, "{moved:?}");
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    let expected = listed(&table);
    drop(table);
    let parcel = strict(3);
    session.export_snapshot("s", &parcel, Verify::Full).unwrap();
    let other = strict(4);
    let importer = Session::create(Arc::clone(&other), options()).unwrap();
    importer.import_snapshot(&parcel, "s", "come", Verify::Full).unwrap();
    let come = importer.open_snapshot("come", &OpenSnapshot::default()).unwrap();
    assert_eq!(listed(&come.tables[0]), expected);
    assert!(!importer.is_poisoned());
    drop(come);
    importer.close().unwrap();
    session.close().unwrap();
    assert_eq!(live(&backup), expected);
    let repaired = strict(5);
    let report = repair(&source, &repaired, &RepairOptions::default()).unwrap();
    assert_eq!(report.losses, Vec::new());
    assert_eq!(live(&repaired), expected);
}

//! What a reader of snapshots asks of the disk: a listing finds what replaced the listed one, and all
//! files of a snapshot are read together.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use varvite::disk::Mode;
use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, OpenSnapshot, Session, SessionOptions, SnapshotContent, TableOptions};

use crate::hooked_disk::{Call, HookedDisk};

fn save(writer: &Session, number: u64) {
    let content = SnapshotContent { label: "", payload: b"", tables: &[] };
    writer.save_snapshot(&format!("s-{number}"), content).unwrap();
}

#[test]
fn a_listing_shows_the_snapshot_that_replaced_the_listed_one() {
    let inner = MemoryDisk::seeded(1);
    let disk = Arc::clone(&inner);
    let writer = Session::create(disk, SessionOptions::default()).unwrap();
    save(&writer, 1_000);
    let left = Arc::new(AtomicU64::new(0));
    let replacing = Arc::clone(&left);
    // Before the reader opens a manifest, the writer replaces its snapshot, `left` times.
    let disk = HookedDisk::new(inner, move |call, path| {
        let left = replacing.load(Relaxed);
        if call == Call::Open(Mode::Read) && path.starts_with("snapshots/") && left > 0 {
            replacing.store(left - 1, Relaxed);
            let old = writer.list_snapshots().unwrap().pop().unwrap().name;
            save(&writer, left - 1);
            writer.delete_snapshot(&old).unwrap();
        }
    });
    let reader = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    for replaced in [0, 1, 2, 7] {
        left.store(replaced, Relaxed);
        let names: Vec<_> =
            reader.list_snapshots().unwrap().into_iter().map(|info| info.name).collect();
        let newest = if replaced == 0 { "s-1000" } else { "s-0" };
        assert_eq!(names, [newest], "{replaced} times");
    }
}

#[test]
fn the_segments_of_a_snapshot_are_opened_before_any_is_read() {
    let inner = MemoryDisk::seeded(1);
    let disk = Arc::clone(&inner);
    let options = SessionOptions { segment_bytes: 16 << 10, ..SessionOptions::default() };
    let writer = Session::create(disk, options).unwrap();
    let small = TableOptions { write_buffer_bytes: 8 << 10, ..TableOptions::default() };
    let mut table = writer.create_table("t", small).unwrap();
    let mut batch = Batch::new();
    for number in 0..2_000_u64 {
        batch.insert(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), &[7; 60]);
    }
    table.update(&batch).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    writer.save_snapshot("s", content).unwrap();

    let calls = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&calls);
    let disk = HookedDisk::new(inner, move |call, path| {
        if path.starts_with("segments/") && matches!(call, Call::Open(_) | Call::Read) {
            told.lock().unwrap().push(call);
        }
    });
    let reader = Session::open_read_only(disk, SessionOptions::default()).unwrap();
    let mut opened = reader.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    let opens = calls.iter().take_while(|call| **call != Call::Read).count();
    assert!(opens > 5, "{opens} segments");
    assert_eq!(calls.len(), 3 * opens, "a segment is opened once and two pages of it are read");
    assert!(calls[opens..].iter().all(|call| *call == Call::Read), "{calls:?}");
    let table = opened.take("t").unwrap();
    assert_eq!(table.get(&0_u64.to_be_bytes()).unwrap(), Some(vec![7; 60]));
}

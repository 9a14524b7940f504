//! A reader lists the snapshots while a writer replaces the one that is there by the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varvite::disk::Mode;
use varvite::disk::memory::MemoryDisk;
use varvite::{Session, SessionOptions, SnapshotContent};

use crate::hooked_disk::{Call, HookedDisk};

fn save(writer: &Session, number: u64) {
    let content = SnapshotContent { label: "", payload: b"", tables: &[] };
    writer.save_snapshot(&format!("s-{number}"), content).unwrap();
}

#[test]
fn a_listing_shows_the_snapshot_that_replaced_the_listed_one() {
    let inner = MemoryDisk::new();
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

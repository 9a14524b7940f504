//! Short files of the log that become one: when the new one is there, and what ranges took whose records it has.

use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::table::repair::{Loss, RepairOptions, repair};
use varvite::{Batch, Log, Session, SessionOptions, Table, TableOptions};

use crate::hooked_disk::HookedDisk;
use crate::log_joins::{add_one, assert_sound, create, names, next_log_file, table};
use crate::short_sessions::options;

const TABLES: usize = 4;

/// So many short files have the first update of the next session make one of them at once.
const FILES: usize = 17;

/// Sessions until there are as many; how many these were.
fn until_many(disk: &dyn Disk, session: impl Fn(u64)) -> u64 {
    let mut count = 0;
    while disk.list("log").unwrap().len() < FILES {
        session(count);
        count += 1;
        assert!(count < 60, "{:?}", disk.list("log").unwrap());
    }
    count
}

/// `joined` is there, before the file of the session itself; the others may be on their way out.
fn assert_joined(disk: &dyn Disk, joined: &str) {
    let files = disk.list("log").unwrap();
    let place = files.iter().position(|name| joined.ends_with(&**name));
    assert!(place.is_some_and(|place| place + 1 < files.len()), "{joined}, {files:?}");
}

fn name_of(number: u64) -> String {
    format!("t{}", number as usize % TABLES)
}

fn plain(write_buffer_bytes: u64) -> TableOptions {
    TableOptions { write_buffer_bytes, ..TableOptions::default() }
}

/// It has its name with its first record, which says that it counts only where a checkpoint names it.
#[test]
fn a_file_that_takes_the_place_of_others_is_never_there_without_its_first_record() {
    let disk = MemoryDisk::seeded(1);
    create(&disk, &names(TABLES), Log::Synced);
    until_many(&*disk, |number| {
        let session = Session::open(Arc::clone(&disk) as _, options(Log::Synced)).unwrap();
        add_one(&mut table(&session, &name_of(number)).unwrap()).unwrap();
    });
    let joined = next_log_file(&*disk);
    let looks = Arc::new(AtomicU64::new(0));
    let (inner, path, seen) = (Arc::clone(&disk), joined.clone(), Arc::clone(&looks));
    let hooked = HookedDisk::new(Arc::clone(&disk) as _, move |call, of| {
        if let Ok(bytes) = inner.bytes(&path) {
            assert!(bytes.len() > 32, "{call:?} of {of}");
            seen.fetch_add(1, SeqCst);
        }
    });
    let session = Session::open(hooked, options(Log::Synced)).unwrap();
    add_one(&mut table(&session, "t0").unwrap()).unwrap();
    session.close().unwrap();
    assert_joined(&*disk, &joined);
    assert!(looks.load(SeqCst) > 3, "{looks:?}");
}

/// The checkpoint says of a table that a range has taken segments whose update is in the log. Where that update gets another
/// place, it still says so: a repair that cannot read it tells that the segments lack keys.
#[test]
fn what_a_range_took_out_of_segments_is_known_where_its_update_gets_another_place() {
    for opens in [false, true] {
        let disk = MemoryDisk::seeded(1);
        create(&disk, &names(TABLES), Log::Synced);
        let short = SessionOptions { segment_bytes: 8_192, ..options(Log::Synced) };
        let open_short =
            || Session::open(Arc::clone(&disk) as Arc<dyn Disk>, short.clone()).unwrap();
        let session = open_short();
        let mut cut = session.create_table("cut", plain(2_000)).unwrap();
        let insert = |table: &mut Table, number: u64, bytes: usize| {
            table.update(Batch::new().insert(&number.to_be_bytes(), &vec![7; bytes])).unwrap();
        };
        (0..200).for_each(|number| insert(&mut cut, number, 1_000));
        while cut.work(u64::MAX).unwrap() > 0 {}
        drop(cut);
        session.close().unwrap();
        let short_one = |number: u64| {
            let session = open_short();
            add_one(&mut table(&session, &name_of(number)).unwrap()).unwrap();
        };
        (0..9).for_each(short_one);
        // It owes a checkpoint, which its close brings to its end: there the range has taken segments.
        let session = open_short();
        let mut cut = table(&session, "cut").unwrap();
        insert(&mut cut, 1_000, 10);
        let (from, to) = (20_u64.to_be_bytes(), 150_u64.to_be_bytes());
        cut.delete_range(Included(&from[..]), Excluded(&to[..])).unwrap();
        drop(cut);
        session.close().unwrap();
        until_many(&*disk, short_one);
        let joined = next_log_file(&*disk);
        let session = open_short();
        let held = opens.then(|| table(&session, "cut").unwrap());
        add_one(&mut table(&session, "t0").unwrap()).unwrap();
        if opens {
            // The next checkpoint has what the handle knows.
            let mut busy = table(&session, "t1").unwrap();
            (0..40).for_each(|number| insert(&mut busy, number, 400));
        }
        drop(held);
        session.close().unwrap();
        assert_joined(&*disk, &joined);
        assert_sound(&(Arc::clone(&disk) as Arc<dyn Disk>), "joined");
        let entries = table(&open_short(), "cut").unwrap().iter().map(Result::unwrap).count();
        assert_eq!(entries, 200 - 130 + 1, "opens: {opens}");
        let mut bytes = disk.bytes(&joined).unwrap();
        let end = bytes.len();
        bytes[100..end].fill(0xA5);
        disk.replace(&joined, bytes).unwrap();
        let target = MemoryDisk::seeded(2) as Arc<dyn Disk>;
        let source = Arc::clone(&disk) as Arc<dyn Disk>;
        let repaired = repair(&source, &target, &RepairOptions::default()).unwrap();
        let says = |loss: &&Loss| loss.detail.contains("had deleted ranges of keys");
        let loss = repaired.losses.iter().find(says);
        assert_eq!(loss.map(|loss| &loss.file), Some(&joined), "opens: {opens}");
    }
}

//! Live tables followed by another session than the one that updates them.

use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::hooked_disk::{Call, HookedDisk};
use crate::listed::Listed;
use varvite::cache::Cache;
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{
    Batch, Follower, Kind, Log, OpenTable, Session, SessionOptions, Table, TableOptions,
};

fn options(log_file_bytes: u64) -> SessionOptions {
    let (log, segment_bytes) = (Log::Synced, 8_192);
    SessionOptions {
        seed: Some(1),
        log,
        log_file_bytes,
        segment_bytes,
        ..SessionOptions::default()
    }
}

fn table_options() -> TableOptions {
    TableOptions { write_buffer_bytes: 1_000, size_ratio: 2, ..TableOptions::default() }
}

fn follow(disk: &Arc<dyn Disk>) -> Follower {
    let reading = SessionOptions { cache: Some(Cache::new(1 << 20)), ..SessionOptions::default() };
    let session = Session::open_read_only(Arc::clone(disk), reading).unwrap();
    session.follow(&OpenTable::default()).unwrap()
}

fn numbered(number: u64) -> Batch {
    let (mut batch, bytes) = (Batch::new(), number.to_be_bytes());
    batch
        .insert(b"a", &bytes)
        .insert(&[b'k', number as u8], &[number as u8; 30])
        .insert(b"z", &bytes);
    batch
}

/// The number of the last update, which is there whole.
fn number_in(table: &Table) -> u64 {
    let [first, last] = [b"a", b"z"].map(|key| table.get(key).unwrap());
    assert_eq!(first, last, "half an update");
    first.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()))
}

#[test]
fn tables_that_are_made_updated_and_deleted_are_followed() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let writer = Session::create(Arc::clone(&disk), options(64 << 20)).unwrap();
    let mut follower = follow(&disk);
    assert_eq!(follower.tables().len(), 0);
    assert!(!follower.reload().unwrap());
    let mut one = writer.create_table("one", table_options()).unwrap();
    assert!(follower.reload().unwrap());
    assert_eq!(number_in(follower.table("one").unwrap()), 0);
    one.update(&numbered(1)).unwrap();
    let mut two = writer.create_table("two", table_options()).unwrap();
    let batch = numbered(2);
    writer.update(&mut [(&mut one, &batch), (&mut two, &batch)]).unwrap();
    assert!(follower.reload().unwrap());
    assert!(!follower.reload().unwrap());
    let view = follower.table("one").unwrap().view();
    one.delete_range(Unbounded, Unbounded).unwrap();
    two.update(Batch::new().delete_prefix(b"k").insert(b"a", &[0; 8]).insert(b"z", &[0; 8]))
        .unwrap();
    assert!(follower.reload().unwrap());
    assert_eq!(follower.table("one").unwrap().view().count().unwrap(), 0);
    assert_eq!(follower.table("two").unwrap().view().count().unwrap(), 2);
    assert_eq!(view.count().unwrap(), 4, "a view stays as it was");
    drop(one);
    writer.delete_table("one").unwrap();
    assert!(follower.reload().unwrap());
    assert_eq!(follower.table("one").unwrap_err().kind(), Kind::Missing);
    let refused = follower.table("two").unwrap().duplicate("copy");
    assert_eq!(refused.unwrap_err().kind(), Kind::Invalid);
    assert_eq!(writer.follow(&OpenTable::default()).unwrap_err().kind(), Kind::Invalid);
}

/// Killed, closed, opened again, with names and numbers of files used again: pages of a follower's cache, and
/// segments that it has open, are never taken for others.
#[test]
fn a_follower_outlives_its_writers() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut writer = Session::create(Arc::clone(&disk), options(2_000)).unwrap();
    let mut follower = follow(&disk);
    let mut number = 0;
    for life in 0..30_u64 {
        let mut table = match writer.open_table("t", &OpenTable::default()) {
            Ok(table) => table,
            Err(_) => writer.create_table("t", table_options()).unwrap(),
        };
        for _ in 0..40 {
            number += 1;
            table.update(&numbered(number)).unwrap();
            if number % 7 == 0 {
                assert!(follower.reload().unwrap());
            }
            if number % 35 == 0 {
                let found = follower.table("t").unwrap().listed(Unbounded, Unbounded).unwrap();
                assert_eq!(found, table.listed(Unbounded, Unbounded).unwrap(), "{number}");
            }
        }
        drop(table);
        if life % 3 == 1 {
            writer.delete_table("t").unwrap();
        }
        if life % 2 == 0 {
            writer.close().unwrap();
        } else {
            drop(writer);
        }
        writer = Session::open(Arc::clone(&disk), options(2_000)).unwrap();
    }
}

/// An update that fails was never there, also for a follower that saw its record before it was taken back.
#[test]
fn what_a_writer_takes_back_is_gone_at_the_next_reload() {
    let mut seen = 0;
    for n in 1..12 {
        let sim = SimDisk::new(n);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let writer = Session::create(Arc::clone(&disk), options(64 << 20)).unwrap();
        let mut table = writer.create_table("t", table_options()).unwrap();
        table.update(&numbered(1)).unwrap();
        let mut follower = follow(&disk);
        sim.fail_at(n, Fault::Sync);
        let failed = (2..6).find(|number| table.update(&numbered(*number)).is_err());
        sim.disarm();
        let Some(failed) = failed else { continue };
        follower.reload().unwrap();
        let number = number_in(follower.table("t").unwrap());
        assert!([failed - 1, failed].contains(&number), "{number} {failed}");
        seen += u64::from(number == failed);
        drop((table, writer));
        // The power goes, and another update takes the place of that one.
        let image = sim.crash(Crash::Subset(n)) as Arc<dyn Disk>;
        let writer = Session::open(Arc::clone(&image), options(64 << 20)).unwrap();
        let mut table = writer.open_table("t", &OpenTable::default()).unwrap();
        let found = number_in(&table);
        assert!((1..=failed).contains(&found));
        let mut follower = follow(&image);
        table.update(&numbered(100)).unwrap();
        assert!(follower.reload().unwrap());
        assert_eq!(number_in(follower.table("t").unwrap()), 100);
    }
    assert!(seen > 0, "no failed update was ever seen");
}

#[test]
fn damage_is_told_and_the_tables_stay_as_they_were() {
    let disk = MemoryDisk::seeded(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let writer = Session::create(Arc::clone(&shared), options(64 << 20)).unwrap();
    let mut table = writer.create_table("t", table_options()).unwrap();
    table.update(&numbered(1)).unwrap();
    let mut follower = follow(&shared);
    table.update(&numbered(2)).unwrap();
    table.update(&numbered(3)).unwrap();
    table.update(&numbered(4)).unwrap();
    drop((table, writer));
    let name = format!("log/{:016x}.log", 1);
    let whole = disk.bytes(&name).unwrap();
    let mut damaged = whole.clone();
    let at = damaged.windows(8).position(|bytes| bytes == 2_u64.to_be_bytes()).unwrap();
    damaged[at] ^= 1;
    disk.replace(&name, damaged).unwrap();
    for _ in 0..2 {
        assert_eq!(follower.reload().unwrap_err().kind(), Kind::Corrupt);
        assert_eq!(number_in(follower.table("t").unwrap()), 1);
    }
    disk.replace(&name, whole).unwrap();
    assert!(follower.reload().unwrap());
    assert_eq!(number_in(follower.table("t").unwrap()), 4);
}

/// Every call of a reload fails once: the tables stay, and the next one goes on.
#[test]
fn a_call_that_fails_leaves_the_tables_as_they_were() {
    let mut failed = 0;
    for n in 1..80 {
        let sim = SimDisk::new(n);
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let writer = Session::create(Arc::clone(&disk), options(3_000)).unwrap();
        let mut table = writer.create_table("t", table_options()).unwrap();
        for number in 1..=20 {
            table.update(&numbered(number)).unwrap();
        }
        let mut follower = follow(&disk);
        let last = if n % 2 == 0 { 23 } else { 150 };
        for number in 21..=last {
            table.update(&numbered(number)).unwrap();
        }
        sim.fail_at(n.div_ceil(2), Fault::Any);
        let outcome = follower.reload();
        sim.disarm();
        if let Err(error) = outcome {
            failed += 1;
            assert_eq!(error.kind(), Kind::Io, "{error}");
            assert_eq!(number_in(follower.table("t").unwrap()), 20);
            assert!(follower.reload().unwrap());
        }
        assert_eq!(number_in(follower.table("t").unwrap()), last);
    }
    assert!(failed > 20, "{failed}");
}

/// What a follower holds in memory is what the log has since the checkpoint, however long it follows.
#[test]
fn its_memory_does_not_grow_with_what_it_followed() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let writer = Session::create(Arc::clone(&disk), options(20_000)).unwrap();
    let mut table = writer.create_table("t", table_options()).unwrap();
    let mut follower = follow(&disk);
    let mut most = 0;
    for number in 1..=6_000 {
        table.update(&numbered(number)).unwrap();
        if number % 10 == 0 {
            follower.reload().unwrap();
            most = most.max(follower.table("t").unwrap().stats().unwrap().buffer_bytes);
        }
    }
    // Each update is some 140 bytes of the log and as much of buffers, 840,000 in all.
    assert!((2_000..120_000).contains(&most), "{most}");
}

/// In threads on the operating system's disk: each moment is one that was acknowledged, and none goes back.
#[test]
fn threads_follow_a_writer_that_does_not_wait() {
    const LAST: u64 = 4_000;
    let folder = tempfile::tempdir().unwrap();
    let disk = || OsDisk::new(folder.path().to_str().unwrap()).unwrap() as Arc<dyn Disk>;
    let options = SessionOptions { log: Log::Written, ..options(30_000) };
    let writer = Session::create(disk(), options).unwrap();
    let mut table = writer.create_table("t", table_options()).unwrap();
    let acknowledged = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut follower = follow(&disk());
                let mut before = 0;
                while before < LAST {
                    let least = acknowledged.load(SeqCst);
                    follower.reload().unwrap();
                    let found = number_in(follower.table("t").unwrap());
                    assert!(found >= least.max(before), "{found} after {least}, {before}");
                    assert!(found <= acknowledged.load(SeqCst) + 1);
                    before = found;
                }
            });
        }
        for number in 1..=LAST {
            table.update(&numbered(number)).unwrap();
            acknowledged.store(number, SeqCst);
        }
    });
}

/// Where a log is filled with zeros ahead of its end, a reload does not read them again and again.
#[test]
fn a_reload_reads_what_came_and_not_what_may_come() {
    let inner = MemoryDisk::seeded(1);
    let writer = Session::create(Arc::clone(&inner) as Arc<dyn Disk>, options(64 << 20)).unwrap();
    let mut table = writer.create_table("t", table_options()).unwrap();
    table.update(&numbered(1)).unwrap();
    assert!(inner.bytes(&format!("log/{:016x}.log", 1)).unwrap().len() > 1 << 20);
    let reads = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&reads);
    let disk = HookedDisk::new(inner, move |call, path| {
        let is_log = call == Call::Read && path.starts_with("log/");
        count.fetch_add(u64::from(is_log), SeqCst);
    });
    let mut follower = follow(&(disk as Arc<dyn Disk>));
    for number in 2..22 {
        reads.store(0, SeqCst);
        assert!(!follower.reload().unwrap());
        assert!(reads.load(SeqCst) <= 4, "{} reads for nothing", reads.load(SeqCst));
        table.update(&numbered(number)).unwrap();
        reads.store(0, SeqCst);
        assert!(follower.reload().unwrap());
        assert!(reads.load(SeqCst) <= 4, "{} reads for an update", reads.load(SeqCst));
        assert_eq!(number_in(follower.table("t").unwrap()), number);
    }
}

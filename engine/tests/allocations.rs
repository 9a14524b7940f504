//! What updates allocate, and what a session takes of memory, as the allocator sees it. A binary of its
//! own, for its counting allocator.
#![allow(clippy::unwrap_used)] // a test may fail at any place, and says which

#[path = "allocations/counting.rs"]
mod counting;
#[path = "it/hooked_disk.rs"]
#[allow(dead_code)] // the other binary uses the rest
mod hooked_disk;

use std::ops::Bound::Unbounded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use varvite::cache::Cache;
use varvite::context::{self, CommitInfo, Durability, Store};
use varvite::disk::os::OsDisk;
use varvite::{
    Batch, LoadOrder, Log, OpenTable, Session, SessionOptions, SnapshotContent, Table, TableOptions,
};

use counting::{ALLOCATED, HELD, HELD_MOST};
use hooked_disk::{Call, HookedDisk};

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn batch(first: u64, count: u64) -> Batch {
    let mut batch = Batch::new();
    (first..first + count).for_each(|number| {
        batch.insert(&key(number), &[7; 100]);
    });
    batch
}

/// What one update allocated, on its thread.
fn update(table: &mut Table, batch: &Batch) -> u64 {
    ALLOCATED.set(0);
    table.update(batch).unwrap();
    ALLOCATED.get()
}

/// The most that an update allocated which synced a segment ahead of a checkpoint, and neither wrote
/// that nor merged; and how many there were. The table has `entries` entries in small segments.
fn most_ahead_of_a_checkpoint(entries: u64) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let has_synced = Arc::new(AtomicBool::new(false));
    let synced = Arc::clone(&has_synced);
    let disk = HookedDisk::new(disk, move |call, path| {
        if call == Call::Sync && path.starts_with("segments/") {
            synced.store(true, SeqCst);
        }
    });
    let options = SessionOptions {
        log: Log::Written,
        log_file_bytes: 100_000,
        segment_bytes: 8 << 10,
        ..SessionOptions::default()
    };
    let session = Session::create(disk, options).unwrap();
    let options = TableOptions { write_buffer_bytes: 60_000, ..TableOptions::default() };
    let order = LoadOrder::Any { memory_bytes: 1 << 24 };
    let mut loader = session.load_table("t", options, order).unwrap();
    (0..entries).for_each(|number| loader.push(&key(number), &[7; 100]).unwrap());
    let mut table = loader.finish().unwrap();
    session.publish(&mut table).unwrap();
    let (mut most, mut count) = (0, 0);
    for number in 0..3_000 {
        let before = session.stats().checkpoints;
        has_synced.store(false, SeqCst);
        let allocated = update(&mut table, &batch(number % entries, 1));
        let is_ahead = has_synced.load(SeqCst) && session.stats().checkpoints == before;
        if is_ahead && table.last_work() == 0 {
            (most, count) = (most.max(allocated), count + 1);
        }
    }
    (most, count)
}

/// The list of the segments of a table of ten times the size is ten times as long; no update but
/// the one that writes a checkpoint makes it.
#[test]
fn an_update_ahead_of_a_checkpoint_allocates_no_more_for_a_larger_table() {
    let (small, small_count) = most_ahead_of_a_checkpoint(1_000);
    let (large, large_count) = most_ahead_of_a_checkpoint(10_000);
    assert!(small_count > 10 && large_count > 10, "{small_count} {large_count}");
    assert!(large < 2 * small + 4_000, "{large} bytes, and {small} of the small table");
}

const BUDGET: u64 = 32 << 20;

/// What the thread held at most since this was last asked, and the pages of the cache, which have
/// memory of their own, beyond the budget.
struct Meter {
    start: i64,
    cache: Arc<Cache>,
    most: i64,
}

impl Meter {
    fn note(&mut self, what: &str) {
        let pages = self.cache.stats().pages as i64 * 4096;
        let over = HELD_MOST.replace(HELD.get()) - self.start + pages - BUDGET as i64;
        assert!(over < 0, "{over} bytes beyond the budget after {what}");
        self.most = self.most.max(over);
    }
}

/// A session within its one number, as the allocator sees it: updates, lookups, checkpoints, scans,
/// snapshots and loads.
#[test]
fn a_session_holds_no_more_memory_than_its_budget_says() {
    let folder = tempfile::tempdir().unwrap();
    let disk = || OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let start = HELD.get();
    let options = SessionOptions {
        log: Log::Written,
        log_file_bytes: 4 << 20,
        segment_bytes: 1 << 20,
        ..SessionOptions::default().within_memory(BUDGET)
    };
    let cache = Arc::clone(options.cache.as_ref().unwrap());
    let mut meter = Meter { start, cache, most: i64::MIN };
    let session = Session::create(disk(), options.clone()).unwrap();
    let small = TableOptions::default().within_memory(BUDGET / 4);
    let mut table = session.create_table("t", small.clone()).unwrap();
    HELD_MOST.set(HELD.get());
    for first in (0..400_000).step_by(200) {
        let batch = batch(first, 200);
        table.update(&batch).unwrap();
        if first % 2_000 == 0 {
            let keys: Vec<_> = (0..200).map(|number| key(first / 200 * number)).collect();
            table.lookup(&keys).unwrap();
        }
        if first % 50_000 == 0 {
            meter.note("updates");
        }
    }
    meter.note("updates");
    let mut cursor = table.cursor(Unbounded, Unbounded).unwrap();
    let mut count = 0;
    while cursor.next_key().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 400_000);
    meter.note("scan forward");
    drop(cursor);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    meter.note("snapshot");
    let order = LoadOrder::Any { memory_bytes: BUDGET / 8 };
    let mut loader = session.load_table("loaded", small, order).unwrap();
    for number in 0..200_000_u64 {
        loader.push(&key(number), &[7; 100]).unwrap();
    }
    drop(loader.finish().unwrap());
    meter.note("load");
    drop(table);
    session.close().unwrap();
    let session = Session::open(disk(), options).unwrap();
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    meter.note("replay");
    assert_eq!(table.view().count().unwrap(), 400_000);
    meter.note("count");
    // And it makes use of it.
    assert!(meter.most > -(BUDGET as i64) / 3, "{} bytes", meter.most);
}

/// A single lookup and a step of a range allocate what they give, and nothing where that is short.
#[test]
fn a_get_allocates_its_value_and_a_step_of_a_range_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let options = TableOptions { write_buffer_bytes: 60_000, ..TableOptions::default() };
    let mut table = session.create_table("t", options).unwrap();
    for first in (0..20_000).step_by(50) {
        let mut batch = Batch::new();
        (first..first + 50).for_each(|number| {
            batch.insert(&key(number), &[7; 60]);
        });
        table.update(&batch).unwrap();
    }
    // Filters and indexes are loaded by the first, and what reads go through is made.
    let gets = |table: &Table| (0..2_000).all(|it| table.get(&key(it * 10)).unwrap().is_some());
    assert!(gets(&table));
    ALLOCATED.set(0);
    assert!(gets(&table));
    assert_eq!(ALLOCATED.get(), 2_000 * 60, "a value of 60 bytes each");
    ALLOCATED.set(0);
    let view = table.view();
    assert!((0..2_000).all(|it| view.get(&key(it * 10)).unwrap().is_some()));
    assert_eq!(ALLOCATED.get(), 2_000 * 60);
    let scan = |reverse: bool| {
        ALLOCATED.set(0);
        let mut range = table.iter();
        let mut step = || if reverse { range.next_back() } else { range.next() };
        let mut count = 0;
        while step().transpose().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 20_000);
        ALLOCATED.get()
    };
    // Places, pages and what is read ahead of each run: bounded, however many entries there are.
    let sources = 24;
    for allocated in [scan(false), scan(true)] {
        assert!(allocated < sources * (128 << 10), "{allocated} bytes for 20,000 entries");
    }
}

/// Live tables of many small segments, whose records make a checkpoint large, while lookups fill the
/// cache: nothing of what a checkpoint needs comes on top of the budget.
#[test]
fn live_tables_and_their_checkpoints_stay_within_the_budget() {
    let folder = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let start = HELD.get();
    let options = SessionOptions {
        log: Log::Written,
        log_file_bytes: 1 << 20,
        segment_bytes: 16 << 10,
        ..SessionOptions::default().within_memory(BUDGET)
    };
    let cache = Arc::clone(options.cache.as_ref().unwrap());
    let mut meter = Meter { start, cache, most: i64::MIN };
    let session = Session::create(disk, options).unwrap();
    let small = TableOptions::default().within_memory(BUDGET / 8);
    let mut tables = ["a", "b"].map(|name| session.create_table(name, small.clone()).unwrap());
    HELD_MOST.set(HELD.get());
    for first in (0..200_000).step_by(200) {
        for table in &mut tables {
            table.update(&batch(first, 200)).unwrap();
            // After each: pages come back when what a checkpoint took is given back.
            meter.note("updates and checkpoints");
            if first % 1_000 == 0 {
                let keys: Vec<_> = (0..200).map(|number| key(first / 200 * number)).collect();
                table.lookup(&keys).unwrap();
                meter.note("lookups");
            }
        }
    }
    assert!(session.stats().checkpoints > 20, "{:?}", session.stats());
    // And the pages make use of what is left.
    assert!(meter.most > -(BUDGET as i64) / 3, "{} bytes", meter.most);
}

/// A record is in the log's memory until it is written. That is charged meanwhile, and a large one leaves
/// none of it behind.
#[test]
fn the_log_is_charged_for_a_large_record_and_keeps_none_of_its_memory() {
    let folder = tempfile::tempdir().unwrap();
    let disk = OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let options =
        SessionOptions { log: Log::Written, ..SessionOptions::default().within_memory(BUDGET) };
    let cache = Arc::clone(options.cache.as_ref().unwrap());
    let charged = Arc::new(AtomicU64::new(0));
    let (most, shared) = (Arc::clone(&charged), Arc::clone(&cache));
    let disk = HookedDisk::new(disk, move |call, path| {
        if call == Call::Write && path.starts_with("log/") {
            most.fetch_max(shared.stats().charged_bytes, SeqCst);
        }
    });
    let session = Session::create(disk, options).unwrap();
    session.create_table("first", TableOptions::default()).unwrap();
    session.delete_table("first").unwrap();
    let (before, charged_before) = (HELD.get(), cache.stats().charged_bytes);
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let record = 40_000 * 108;
    for number in 0..3 {
        let large = batch(number * 40_000, 40_000);
        if number == 0 {
            table.update(&large).unwrap();
            let most = charged.load(SeqCst) - charged_before;
            assert!(most >= record, "{most} charged while a record of {record} is written");
        } else {
            table.update(&large).unwrap();
        }
    }
    drop(table);
    session.delete_table("t").unwrap();
    let (kept, charged) = (HELD.get() - before, cache.stats().charged_bytes);
    assert!(kept < record as i64 / 4, "{kept} bytes are kept for records of {record}");
    assert!(charged < charged_before + record / 4, "{charged} charged, {charged_before} before");
}

/// A context within its one number, as the allocator sees it: a large tree that spills, blocks, reads and openings again. What
/// the last batch was written from comes on top, as the documents say.
#[test]
fn a_context_holds_what_its_number_says() {
    const LAST_BATCH: i64 = 4 << 20;
    let mut most = Vec::new();
    for number in [16_u64 << 20, 48 << 20] {
        let folder = tempfile::tempdir().unwrap();
        let disk = || OsDisk::new(folder.path().to_str().unwrap()).unwrap();
        let start = HELD.get();
        HELD_MOST.set(start);
        let options = || {
            let durability = Durability::Written;
            context::Options { durability, ..context::Options::default() }.within_memory(number)
        };
        // Pages have memory of their own.
        let held = || HELD_MOST.replace(HELD.get()) - start + (number / 16) as i64;
        let path = |account: u64| {
            let name = key(account);
            [name[..1].to_vec(), name[1..2].to_vec(), name.to_vec()]
        };
        let mut store = Store::create(disk(), options()).unwrap();
        let mut tree = store.empty_tree();
        for account in 0..250_000 {
            tree.add(&path(account), &[account as u8; 60]).unwrap();
        }
        let info = CommitInfo::default();
        let mut last = store.commit(&mut tree, &info).unwrap();
        most.push(("a large tree", number, held()));
        for block in 0..40_u64 {
            if block % 20 == 10 {
                drop(tree);
                store.close().unwrap();
                store = Store::open(disk(), options()).unwrap();
            }
            tree = store.checkout(&last).unwrap();
            for change in 0..2_000 {
                let account = (block * 7_919 + change * 127) % 250_000;
                let value = tree.find(&path(account)).unwrap().unwrap();
                tree.add(&path(account), &[value[0].wrapping_add(1); 60]).unwrap();
            }
            last = store.commit(&mut tree, &info).unwrap();
        }
        most.push(("blocks", number, held()));
        drop(tree);
        store.close().unwrap();
    }
    for (what, number, held) in &most {
        let bound = *number as i64 + LAST_BATCH;
        assert!(*held < bound, "{what}: {} beyond {number}: {most:?}", held - bound);
    }
}

//! A session keeps pages, write buffers, filters, indexes and merges within one number.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use varvite::cache::Cache;
use varvite::disk::memory::MemoryDisk;
use varvite::{
    Batch, LoadOrder, Log, MergeOperator, OpenSnapshot, Session, SessionOptions, SnapshotContent,
    TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::random::Random;

const BUDGET: u64 = 12 << 20;

/// What is charged now; never more than the budget together with the pages.
fn charged(cache: &Cache) -> u64 {
    let stats = cache.stats();
    assert!(stats.bytes + stats.charged_bytes <= BUDGET, "{stats:?}");
    stats.charged_bytes
}

fn batch(random: &mut Random) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..100 {
        let key = random.below(200_000).to_be_bytes();
        batch.insert(&key, &[7; 100]);
    }
    batch
}

/// Half of a write-out holds the hashes of its entries, eight bytes each, and the chunk in work.
#[test]
fn a_merge_under_way_is_charged_for_its_output() {
    let cache = Cache::new(64 << 20);
    let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let options = TableOptions { write_buffer_bytes: 4 << 20, ..TableOptions::default() };
    let mut table = session.create_table("t", options).unwrap();
    let mut number = 0_u64;
    while table.stats().unwrap().merges.is_empty() {
        let mut batch = Batch::new();
        for _ in 0..1_000 {
            number += 1;
            batch.insert(&number.to_be_bytes(), b"");
        }
        table.update(&batch).unwrap();
    }
    let before = cache.stats().charged_bytes;
    table.work(2 << 20).unwrap();
    let merge = table.stats().unwrap().merges[0];
    assert!((1 << 20..merge.debt_bytes).contains(&merge.spent_bytes), "{merge:?}");
    let hashes = 8 * merge.spent_bytes / 24; // an entry costs its key and 16
    let charged = cache.stats().charged_bytes - before;
    assert!(charged >= hashes + (256 << 10), "{charged} for {hashes} and the chunk");
    table.work(u64::MAX).unwrap();
    let after = cache.stats().charged_bytes;
    // What is left is the filter, of less than two bytes an entry, and the index.
    assert!(after < before + hashes, "{after} of {before}: what is done is charged");
}

#[test]
fn pages_give_way_to_everything_else_and_nothing_stays_charged() {
    let options = SessionOptions::default().within_memory(BUDGET);
    let cache = Arc::clone(options.cache.as_ref().unwrap());
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(Arc::<MemoryDisk>::clone(&disk), options.clone()).unwrap();
    let small = TableOptions { write_buffer_bytes: 256 << 10, ..TableOptions::default() };
    let mut table = session.create_table("t", small).unwrap();
    let mut random = Random::new(5);
    let (mut least, mut most, mut most_pages) = (u64::MAX, 0, 0);
    for step in 0..1500 {
        table.update(&batch(&mut random)).unwrap();
        let keys: Vec<_> = (0..50).map(|_| random.below(200_000).to_be_bytes()).collect();
        table.lookup(&keys).unwrap();
        let now = charged(&cache);
        if step > 100 {
            (least, most) = (least.min(now), most.max(now));
            most_pages = most_pages.max(cache.stats().pages);
        }
    }
    let stats = table.stats().unwrap();
    let parts = stats.buffer_bytes + stats.filter_memory_bytes + stats.index_memory_bytes;
    assert!(charged(&cache) >= parts, "{stats:?}");
    assert!(
        least > 256 << 10 && most < BUDGET / 2 && most_pages > 300,
        "{least} {most} {most_pages}"
    );

    // A duplicate shares what it has in common, and pays for what it adds.
    let before = charged(&cache);
    let mut copy = table.duplicate("copy").unwrap();
    assert_eq!(charged(&cache), before);
    copy.update(&batch(&mut random)).unwrap();
    assert!(charged(&cache) > before);
    drop(copy);

    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    session.close().unwrap();
    assert_eq!(charged(&cache), 0);

    let session = Session::open(disk, options).unwrap();
    let table = session.open_snapshot("s", &OpenSnapshot::default()).unwrap().take("t").unwrap();
    table.lookup(&(0..1000u64).map(u64::to_be_bytes).collect::<Vec<_>>()).unwrap();
    let stats = table.stats().unwrap();
    let parts = stats.filter_memory_bytes + stats.index_memory_bytes;
    assert!(parts > 0 && charged(&cache) >= parts, "{stats:?}");

    // The first range loads the range filters, which stay.
    let before = (charged(&cache), stats.filter_memory_bytes, parts);
    assert!(table.range(100_000_u64.to_be_bytes()..).next().transpose().unwrap().is_some());
    let stats = table.stats().unwrap();
    let parts = stats.filter_memory_bytes + stats.index_memory_bytes;
    assert!(stats.filter_memory_bytes > before.1, "{stats:?}");
    assert_eq!(charged(&cache) - before.0, parts - before.2);
}

#[test]
fn a_load_that_sorts_is_charged_and_lets_go() {
    const SORTED_IN: u64 = 2 << 20;
    let options = SessionOptions::default().within_memory(BUDGET);
    let cache = Arc::clone(options.cache.as_ref().unwrap());
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let order = LoadOrder::Any { memory_bytes: SORTED_IN };
    let mut loader = session.load_table("t", TableOptions::default(), order).unwrap();
    let before = charged(&cache);
    let (mut random, mut most) = (Random::new(5), 0);
    for _ in 0..100_000 {
        loader.push(&random.next().to_be_bytes(), &[7; 100]).unwrap();
        most = most.max(charged(&cache) - before);
    }
    // What it may hold, the last entry, and what spilling keeps of the runs.
    assert!((SORTED_IN * 3 / 4..SORTED_IN * 3 / 2).contains(&most), "{most}");
    let table = loader.finish().unwrap();
    assert_eq!(table.view().count().unwrap(), 100_000);
    drop(table);
    session.close().unwrap();
    assert_eq!(charged(&cache), 0);
}

#[test]
fn a_value_in_pieces_is_charged_while_it_is_written() {
    let options = SessionOptions::default().within_memory(BUDGET);
    let cache = Arc::clone(options.cache.as_ref().unwrap());
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let before = charged(&cache);
    let mut writers = [(); 3].map(|()| session.write_value().unwrap());
    assert!(charged(&cache) >= before + 3 * (256 << 10));
    writers[0].write(&vec![7; 1_000_000]).unwrap();
    let [first, second, third] = writers;
    drop((first.finish().unwrap(), second));
    assert!((256 << 10..512 << 10).contains(&(charged(&cache) - before)));
    drop(third);
    assert_eq!(charged(&cache), before);
}

/// A cursor that moves along reads ahead in every run, and is charged for it.
#[test]
fn what_a_cursor_reads_ahead_is_charged() {
    // Too small for the pages: most are read.
    let cache = Cache::new(2 << 20);
    let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let order = LoadOrder::Sorted;
    let mut loader = session.load_table("t", TableOptions::default(), order).unwrap();
    for number in 0_u64..40_000 {
        loader.push(&number.to_be_bytes(), &[7; 100]).unwrap();
    }
    let table = loader.finish().unwrap();
    table.get(&7_u64.to_be_bytes()).unwrap();
    let before = charged(&cache);
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert!(cursor.next().unwrap().is_some());
    let placed = charged(&cache);
    assert!(placed > before, "the places themselves");
    while cursor.next().unwrap().is_some() {}
    assert_eq!(charged(&cache) - placed, 64 << 10);
    drop(cursor);
    assert_eq!(charged(&cache), before);
    // The same of an iterator, of each end that is used, until it is over.
    let mut range = table.iter();
    assert_eq!(charged(&cache), before);
    range.next().unwrap().unwrap();
    range.next_back().unwrap().unwrap();
    assert_eq!(charged(&cache) - before, 2 * (placed - before));
    assert!(range.by_ref().skip(20_000).all(|entry| entry.is_ok()));
    assert!(range.next_back().is_none());
    assert_eq!(charged(&cache), before);
}

/// A stream in order is written as it comes: what is charged is its segment in work.
#[test]
fn a_sorted_load_is_charged_for_its_segment_in_work() {
    let cache = Cache::new(64 << 20);
    let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let options = TableOptions::default();
    let before = cache.stats().charged_bytes;
    let mut loader = session.load_table("t", options, LoadOrder::Sorted).unwrap();
    let count = 200_000_u64;
    for number in 0..count {
        loader.push(&number.to_be_bytes(), b"").unwrap();
    }
    let charged = cache.stats().charged_bytes - before;
    assert!(charged >= count * 8 * 9 / 10 + (256 << 10), "{charged}");
    let table = loader.finish().unwrap();
    let after = cache.stats().charged_bytes - before;
    assert!(after < charged / 2, "{after} of {charged}");
    drop(table);
}

/// Cursors over the hundreds of runs of a union.
#[test]
fn a_cursor_over_many_sources_is_charged_for_their_pages() {
    let cache = Cache::new(64 << 20);
    let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let tables: Vec<_> = (0..200_u32)
        .map(|number| {
            let order = LoadOrder::Sorted;
            let mut loader =
                session.load_table(&format!("t{number}"), TableOptions::default(), order).unwrap();
            loader.push(&number.to_be_bytes(), &[7; 100]).unwrap();
            loader.finish().unwrap()
        })
        .collect();
    let tables: Vec<_> = tables.iter().collect();
    let united = session.incremental_union("all", &tables).unwrap();
    // The pages are the cache's own; the places are charged.
    let taken = || cache.stats().charged_bytes + cache.stats().pages * 4096;
    let (before, taken_before) = (cache.stats().charged_bytes, taken());
    let mut cursor = united.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert!(cache.stats().charged_bytes - before >= 200 * 100);
    assert!(cursor.next().unwrap().is_some());
    cursor.seek_first();
    assert!(taken() - taken_before >= 200 * 100, "{}", taken());
    assert!(cache.stats().pages >= 200, "{:?}", cache.stats());
    let mut count = 0;
    while cursor.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 200);
    drop(cursor);
    let charged = cache.stats().charged_bytes - before;
    assert!(charged < 200 * 4096, "{charged}: indexes and filters are what stays");
}

/// Six bits an entry beside the filter's own.
#[test]
fn memory_for_a_table_has_room_for_its_range_filters() {
    let bytes = 64 << 20;
    let options = TableOptions::default().within_memory(bytes);
    let ranges = options.filter_bytes_max / u64::from(options.filter_bits) * 6;
    let buffers = 2 * options.write_buffer_bytes;
    assert!(options.filter_bytes_max + ranges + buffers <= bytes / 4 * 3, "{options:?}");
    assert!(options.filter_bytes_max > bytes / 4, "{options:?}");
}

/// A batch that deletes ranges holds a delete of each key that it found until it is applied.
#[test]
fn the_deletes_that_ranges_become_are_charged() {
    const KEYS: u64 = 20_000;
    let cache = Cache::new(64 << 20);
    let (at_log, looking) = (Arc::new(AtomicU64::new(0)), Arc::clone(&cache));
    let seen = Arc::clone(&at_log);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        if call == Call::Write && path.starts_with("log/") {
            seen.store(looking.stats().charged_bytes, SeqCst);
        }
    });
    let cached = Some(Arc::clone(&cache));
    let options = SessionOptions { cache: cached, log: Log::Written, ..SessionOptions::default() };
    let session = Session::create(disk, options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut inserts = Batch::new();
    let key = |number: u64| [number.to_be_bytes(); 4].concat();
    for number in 0..KEYS {
        inserts.insert(&key(number), b"");
    }
    table.update(&inserts).unwrap();
    let before = cache.stats().charged_bytes;
    let mut deletes = Batch::new();
    for first in (0..KEYS).step_by(100) {
        let (first, end) = (key(first), key(first + 100));
        deletes.delete_range(Bound::Included(&first), Bound::Excluded(&end));
    }
    table.update(&deletes).unwrap();
    let charged = at_log.load(SeqCst) - before;
    assert!(charged > KEYS * 32, "{charged} for {KEYS} deletes");
    assert_eq!(table.view().count().unwrap(), 0);
    drop((table, session));
    assert_eq!(cache.stats().charged_bytes, 0);
}

/// Long values are counted as long as a cursor stands at them, in pages and in blob files, and kept no longer.
#[test]
fn a_cursor_counts_the_long_value_at_hand_and_lets_it_go() {
    const LONG: usize = 4 << 20;
    for blob_min_bytes in [None, Some(300)] {
        let cache = Cache::new(64 << 20);
        let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let options = TableOptions { blob_min_bytes, ..TableOptions::default() };
        let mut table = session.create_table("t", options).unwrap();
        table.update(Batch::new().insert(b"a", &vec![1; LONG]).insert(b"b", b"short")).unwrap();
        table.work(u64::MAX).unwrap();
        let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
        session.save_snapshot("s", content).unwrap();
        drop(table);
        let snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
        let table = &snapshot.tables[0];
        // What is read for the first time and kept is counted then.
        assert_eq!(table.iter().count(), 2);
        let before = cache.stats().charged_bytes;
        let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().1.len(), LONG);
        let there = cache.stats().charged_bytes - before;
        assert!(there >= LONG as u64, "{there} bytes beside a value of {LONG}");
        assert_eq!(cursor.next().unwrap(), Some((&b"b"[..], &b"short"[..])));
        assert_eq!(cursor.value().unwrap(), b"short");
        let after = cache.stats().charged_bytes - before;
        assert!(after < 1 << 20, "{after} bytes when it is passed");
        drop(cursor);
        assert!(cache.stats().charged_bytes <= before);
    }
}

/// Keys alone may be asked for their values, so that what the sources say of them is held, and counts.
#[test]
fn a_cursor_over_keys_counts_what_may_be_joined_and_lets_it_go() {
    const LONG: usize = 4 << 20;
    let cache = Cache::new(256 << 20);
    let options = SessionOptions { cache: Some(Arc::clone(&cache)), ..Default::default() };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    session.pause_merges(u64::MAX);
    // Each update ends a buffer.
    let append = MergeOperator::new("append", |older, newer| [older, newer].concat());
    let options = TableOptions { write_buffer_bytes: 64, ..TableOptions::default() };
    let mut table = session.create_table("t", options.with_operator(append)).unwrap();
    let short = [7; 64];
    table.update(Batch::new().insert(b"a", &vec![1; LONG])).unwrap();
    for key in [b"b", b"d"] {
        table.update(Batch::new().insert(key, &short)).unwrap();
        table.update(Batch::new().upsert(key, &short)).unwrap();
    }
    for _ in 0..5 {
        table.update(Batch::new().upsert(b"c", &vec![2; LONG])).unwrap();
    }
    let before = cache.stats().charged_bytes;
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    let held = || cache.stats().charged_bytes - before;
    for is_forward in [true, false] {
        let mut step = || {
            let key = if is_forward { cursor.next_key() } else { cursor.previous_key() };
            key.unwrap().map(<[u8]>::to_vec)
        };
        let [first, last] = if is_forward { [b"b", b"d"] } else { [b"d", b"b"] };
        if is_forward {
            assert_eq!(step().as_deref(), Some(&b"a"[..]));
            assert!(held() >= LONG as u64, "{} bytes at a value of {LONG}", held());
        }
        assert_eq!(step().as_deref(), Some(&first[..]));
        assert!(held() < 1 << 20, "{} bytes behind it", held());
        assert_eq!(step().as_deref(), Some(&b"c"[..]));
        assert!(held() >= 5 * LONG as u64, "{} bytes at five of {LONG}", held());
        assert_eq!(step().as_deref(), Some(&last[..]));
        assert!(held() < 1 << 20, "{} bytes behind five", held());
        if is_forward {
            assert_eq!(step(), None);
        }
    }
}

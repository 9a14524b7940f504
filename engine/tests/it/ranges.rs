//! Iterators over ranges, and the value of one key: what the state machine does not show of them.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::{
    Batch, Bytes, Kind, MergeOperator, OpenSnapshot, Range, Result, Session, SessionOptions,
    SnapshotContent, Table, TableOptions,
};

use crate::hooked_disk::{Call, HookedDisk};

fn key(number: u32) -> [u8; 8] {
    let mut key = *b"key.0000";
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Small runs, so that a few thousand entries make many.
fn options() -> TableOptions {
    TableOptions { write_buffer_bytes: 4_000, blob_min_bytes: Some(500), ..TableOptions::default() }
}

/// Numbers from 0 on in an order of their own, of which every seventh is deleted again; long values lie in
/// blob files.
fn fill(table: &mut Table, count: u32) {
    for place in 0..count {
        let number = place * 769 % count;
        let length = if number.is_multiple_of(97) { 600 } else { number as usize % 70 };
        table.update(Batch::new().insert(&key(number), &vec![number as u8; length])).unwrap();
    }
    for number in (0..count).step_by(7) {
        table.update(Batch::new().delete(&key(number))).unwrap();
    }
}

fn filled(session: &Session, count: u32) -> Table {
    let mut table = session.create_table("t", options()).unwrap();
    fill(&mut table, count);
    table
}

fn in_memory(count: u32) -> (Session, Table) {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let table = filled(&session, count);
    (session, table)
}

fn keys(range: impl Iterator<Item = Result<(Bytes, Bytes)>>) -> Vec<Bytes> {
    range.map(|entry| entry.unwrap().0).collect()
}

#[test]
fn every_form_of_range_is_the_keys_between_its_bounds() {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut batch = Batch::new();
    for key in [&b"a"[..], b"ab", b"b", b"c", b"\xff", b"\xff\xff", b"\xff\xff\x01"] {
        batch.insert(key, key);
    }
    table.update(&batch).unwrap();
    let some = |expected: &[&[u8]], found: Vec<Bytes>| assert_eq!(found, expected);
    some(&[b"a", b"ab"], keys(table.range(b"a"..b"b")));
    some(&[b"a", b"ab", b"b"], keys(table.range(&b"a"[..]..=&b"b"[..])));
    some(&[b"ab", b"b"], keys(table.range((Excluded(b"a"), Included(b"b")))));
    some(&[b"a"], keys(table.range(..String::from("ab"))));
    some(&[b"a", b"ab"], keys(table.range(..=vec![b'a', b'b'])));
    some(&[b"\xff", b"\xff\xff", b"\xff\xff\x01"], keys(table.range(b"d"..)));
    some(&[b"c", b"b"], keys(table.range((Excluded("ab"), Excluded("d"))).rev()));
    some(&[], keys(table.range(b"c"..b"a")));
    some(&[], keys(table.range((Excluded(b"a"), Excluded(b"a"))).rev()));
    some(&[b"a", b"ab"], keys(table.prefix("a")));
    some(&[b"\xff\xff\x01", b"\xff\xff"], keys(table.prefix(b"\xff\xff").rev()));
    some(&[], keys(table.prefix(b"bb")));
    assert_eq!(table.range(..).count(), 7);
    assert_eq!(table.prefix(b"").count(), 7);
    assert_eq!(table.view().into_iter().count() + table.iter().keys().count(), 14);
}

/// The bounds of a cursor and of a range share what the keys between them begin with; keys beyond them,
/// which do not, must end it all the same, in each direction and from each place.
#[test]
fn keys_beyond_the_bounds_of_a_prefix_end_it() {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", options()).unwrap();
    let key = |table: u8, number: u8| [&[table; 12][..], &[number]].concat();
    for number in 0..=255 {
        for place in [0, 1, 2, 254, 255] {
            table.update(Batch::new().insert(&key(place, number), &[place; 30])).unwrap();
        }
    }
    for place in [0, 1, 2, 254, 255] {
        let mut range = table.prefix([place; 12]);
        let (mut front, mut back) = (0, 256);
        while front < back {
            assert_eq!(range.next().unwrap().unwrap().0, key(place, front as u8));
            front += 1;
            if front < back {
                back -= 1;
                assert_eq!(range.next_back().unwrap().unwrap().0, key(place, back as u8));
            }
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        let (lower, upper) = (key(place, 10), key(place, 20));
        let mut cursor = table.cursor(Included(&lower), Excluded(&upper)).unwrap();
        cursor.seek(&key(place, 15));
        assert_eq!(cursor.previous_key().unwrap(), Some(&key(place, 14)[..]));
        cursor.seek_last();
        assert_eq!(cursor.next_key().unwrap(), None);
        assert_eq!(cursor.previous_key().unwrap(), Some(&key(place, 19)[..]));
        cursor.seek_first();
        assert_eq!(cursor.previous_key().unwrap(), None);
        assert_eq!(cursor.next_key().unwrap(), Some(&lower[..]));
    }
}

/// A read that fails ends an iterator with its error; a cursor stands where it stood and goes on.
#[test]
fn a_failing_read_is_the_last_item_and_no_step_of_a_cursor() {
    let sim = SimDisk::new(7);
    let session = Session::create(Arc::clone(&sim) as Arc<_>, SessionOptions::default()).unwrap();
    let table = filled(&session, 1_500);
    let content: Vec<_> = table.iter().map(Result::unwrap).collect();
    assert!(content.len() > 1_200);
    for reverse in [false, true] {
        let all = || table.range(key(200)..key(1_200));
        // Indexes are loaded by now, and these load the filters that they ask.
        assert!(all().next().unwrap().is_ok() && all().next_back().unwrap().is_ok());
        let before = sim.calls().of(Fault::Read);
        let expected: Vec<_> = if reverse { all().rev().collect() } else { all().collect() };
        let expected: Vec<_> = expected.into_iter().map(Result::unwrap).collect();
        let reads = sim.calls().of(Fault::Read) - before;
        assert!(reads > 10, "{reads}");
        for n in 1..=reads {
            sim.fail_at(n, Fault::Read);
            let mut range = all();
            let mut step = || if reverse { range.next_back() } else { range.next() };
            let mut found = Vec::new();
            let error = loop {
                match step().expect("it does not end before the failing read") {
                    Ok(entry) => found.push(entry),
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), Kind::Io, "{error:?}");
            assert_eq!(found, expected[..found.len()], "{n}");
            assert!(step().is_none() && step().is_none());
            assert!(range.next().is_none() && range.next_back().is_none());

            sim.fail_at(n, Fault::Read);
            let (lower, upper) = (key(200), key(1_200));
            let mut cursor = table.cursor(Included(&lower), Excluded(&upper)).unwrap();
            if reverse {
                cursor.seek_last();
            }
            let (mut taken, mut failed) = (0, 0);
            while taken < expected.len() {
                match if reverse { cursor.previous() } else { cursor.next() } {
                    Ok(entry) => {
                        let (key, value) = entry.expect("there are more");
                        assert!(expected[taken].0 == key && expected[taken].1 == value, "{taken}");
                        taken += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Io);
                        failed += 1;
                    }
                }
            }
            assert_eq!(failed, 1, "{n}");
            sim.disarm();
        }
    }
}

#[test]
fn after_the_session_an_iterator_says_so_once() {
    let (session, table) = in_memory(300);
    let (mut begun, mut fresh) = (table.iter(), table.iter().keys());
    begun.next().unwrap().unwrap();
    session.close().unwrap();
    for error in [begun.next().unwrap().unwrap_err(), fresh.next_back().unwrap().unwrap_err()] {
        assert_eq!(error.kind(), Kind::Closed);
    }
    assert!(begun.next().is_none() && begun.next_back().is_none() && fresh.next().is_none());
}

#[test]
fn an_iterator_sees_the_moment_of_its_making_from_another_thread() {
    let (_session, mut table) = in_memory(500);
    let expected: Vec<_> = table.iter().map(Result::unwrap).collect();
    let range = table.iter();
    fill(&mut table, 200);
    table.update(Batch::new().delete(&key(499))).unwrap();
    #[allow(clippy::disallowed_methods)] // a host's thread
    let found = std::thread::spawn(|| range.collect::<Result<Vec<_>>>()).join().unwrap();
    assert_eq!(found.unwrap(), expected);
}

#[test]
fn keys_alone_read_no_blob_file() {
    let (session, table) = in_memory(1_000);
    let before = session.stats().blobs_read;
    let alone: Vec<_> = table.iter().keys().map(Result::unwrap).collect();
    assert_eq!(session.stats().blobs_read, before);
    let backward: Vec<_> = table.iter().keys().rev().map(Result::unwrap).collect();
    assert!(alone.iter().eq(backward.iter().rev()) && alone.len() > 800);
    let entries: Vec<_> = table.iter().map(Result::unwrap).collect();
    assert!(entries.iter().map(|(key, _)| key).eq(&alone));
    assert!(session.stats().blobs_read > before);
}

#[test]
fn values_passed_over_are_not_read() {
    let (session, table) = in_memory(1_000);
    let entries: Vec<_> = table.iter().map(Result::unwrap).collect();
    let before = session.stats().blobs_read;
    assert_eq!(table.iter().nth(700).unwrap().unwrap(), entries[700]);
    let last = entries.len() - 1;
    assert_eq!(table.iter().nth_back(700).unwrap().unwrap(), entries[last - 700]);
    assert!(session.stats().blobs_read <= before + 2);
    let mut range = table.iter();
    assert_eq!(range.nth(2).unwrap().unwrap(), entries[2]);
    assert_eq!(range.nth_back(2).unwrap().unwrap(), entries[last - 2]);
    assert_eq!(range.nth(last - 6).unwrap().unwrap(), entries[last - 3]);
    assert!(range.nth(1).is_none() && range.next_back().is_none());
    assert!(table.iter().nth(entries.len()).is_none());
}

#[test]
fn an_iterator_at_its_end_holds_no_file() {
    let left = |keep: fn(&mut Range)| {
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(Arc::clone(&disk) as _, SessionOptions::default()).unwrap();
        let table = filled(&session, 3_000);
        let mut range = table.iter();
        keep(&mut range);
        drop(table);
        // Files go a few at a time, with whatever the session does.
        let mut other = session.create_table("other", options()).unwrap();
        for _ in 0..50 {
            other.update(Batch::new().insert(b"key", b"value")).unwrap();
        }
        disk.list("segments").unwrap().len()
    };
    let gone = left(|range| assert!(range.all(|entry| entry.is_ok())));
    let held = left(|range| assert!(range.next().is_some()));
    assert!(gone < held, "{gone} of {held} files are left");
}

/// What a call of the disk was, as far as reading goes.
type Calls = Arc<Mutex<Vec<Call>>>;

#[test]
fn a_seek_gives_all_its_reads_to_the_queue_before_it_waits_for_one() {
    let calls = Calls::default();
    let noted = Arc::clone(&calls);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        if path.starts_with("segments/") && [Call::Read, Call::Submit].contains(&call) {
            noted.lock().unwrap().push(call);
        }
    });
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    // Without filters nothing is known of a run but its ends.
    let options = TableOptions { filter_bits: 0, ..options() };
    let mut table = session.create_table("t", options).unwrap();
    fill(&mut table, 3_000);
    assert!(table.iter().keys().all(|key| key.is_ok()));
    for number in [0, 1, 1_000, 2_995] {
        for backward in [false, true] {
            calls.lock().unwrap().clear();
            let from = key(number);
            let mut range = table.range((Included(from), Unbounded));
            if backward {
                range = table.range((Unbounded, Included(from)));
            }
            let found = if backward { range.next_back() } else { range.next() };
            let calls = calls.lock().unwrap().clone();
            let submitted = calls.iter().take_while(|call| **call == Call::Submit).count();
            let read = calls[submitted..].iter().take_while(|call| **call == Call::Read).count();
            assert_eq!(submitted, read, "{number}: {calls:?}");
            // What comes behind is for places whose entry is in the next page, or a deleted key.
            assert!(calls.len() <= 2 * submitted + 8, "{number}: {calls:?}");
            if number == 1_000 {
                assert!(found.is_some() && submitted >= 4, "{calls:?}");
            }
        }
    }
}

#[test]
fn pages_in_the_cache_are_not_read_by_seeks_and_short_ranges() {
    let calls = Calls::default();
    let noted = Arc::clone(&calls);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        if path.starts_with("segments/") && call == Call::Read {
            noted.lock().unwrap().push(call);
        }
    });
    let session = Session::create(disk.clone(), SessionOptions::default()).unwrap();
    let table = filled(&session, 3_000);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    session.close().unwrap();
    // A cache that begins empty.
    let session = Session::open(disk, SessionOptions::default().within_memory(64 << 20)).unwrap();
    let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let table = snapshot.take("t").unwrap();
    let short = || {
        calls.lock().unwrap().clear();
        assert_eq!(table.range(key(1_000)..).take(100).flatten().count(), 100);
        calls.lock().unwrap().len()
    };
    let first = short();
    assert!(first >= 4, "{first}");
    // Blob files have no pages in the cache.
    let again = short();
    assert!(again <= 3, "{again} reads after {first}");
}

#[test]
fn a_value_too_long_to_be_given_whole_is_refused_by_get_and_found_in_pieces() {
    const MOST: usize = varvite::table::VALUE_BYTES_MAX;
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    for (name, length) in [(&b"most"[..], MOST), (b"more", MOST + 1)] {
        let mut writer = session.write_value().unwrap();
        writer.write(&vec![7; length]).unwrap();
        table.update(Batch::new().insert_value(name, &writer.finish().unwrap())).unwrap();
    }
    assert_eq!(table.get(b"most").unwrap().unwrap().len(), MOST);
    for error in [table.get(b"more").unwrap_err(), table.view().get(b"more").unwrap_err()] {
        assert_eq!(error.kind(), Kind::Invalid);
        let detail = error.detail();
        assert!(detail.contains("View::find") && detail.contains("Value::read_at"), "{detail}");
    }
    let found = table.view().find(&[b"more"]).unwrap().remove(0).unwrap();
    let mut piece = [0; 2];
    assert_eq!((found.read_at(MOST as u64, &mut piece).unwrap(), piece), (1, [7, 0]));
}

/// The same answers as of a batch of one, upserts over several runs and unfinished unions included.
#[test]
fn a_single_get_says_what_a_lookup_says() {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let options = options().with_operator(MergeOperator::append());
    let mut tables = ["a", "b"].map(|name| session.create_table(name, options.clone()).unwrap());
    for (place, table) in tables.iter_mut().enumerate() {
        for round in 0..12_u32 {
            for number in 0..60 {
                let mut batch = Batch::new();
                match (number + round + place as u32) % 5 {
                    0 => batch.insert(&key(number), &[round as u8; 40]),
                    1 if number % 3 == 0 => batch.delete(&key(number)),
                    2 if number % 4 == 0 => batch.insert(&key(number), &[round as u8; 700]),
                    _ => batch.upsert(&key(number), &[round as u8; 9]),
                };
                table.update(&batch).unwrap();
            }
        }
    }
    let united = session.incremental_union("all", &[&tables[0], &tables[1]]).unwrap();
    for table in [&tables[0], &tables[1], &united] {
        for number in 0..70 {
            let found = table.lookup(&[key(number)]).unwrap();
            assert_eq!(table.get(&key(number)).unwrap().as_deref(), found.get(0), "{number}");
            assert_eq!(table.view().get(&key(number)).unwrap().as_deref(), found.get(0));
        }
    }
    assert!(session.stats().keys_looked_up >= 3 * 70 * 3);
}

/// A cursor stands where it stood after a step that failed, and its value is that of the key it gave there.
#[test]
fn a_failed_step_leaves_the_value_of_the_step_before() {
    let sim = SimDisk::new(7);
    let session = Session::create(Arc::clone(&sim) as Arc<_>, SessionOptions::default()).unwrap();
    let table = filled(&session, 1_500);
    let content: Vec<_> = table.iter().map(Result::unwrap).collect();
    let (mut failed, mut n) = ([0; 2], 0);
    for (place, reverse) in [false, true].into_iter().enumerate() {
        n = 0;
        loop {
            n += 1;
            let mut cursor = table.cursor(Unbounded, Unbounded).unwrap();
            if reverse {
                cursor.seek_last();
            }
            sim.fail_at(n, Fault::Read);
            let mut last = None;
            let (mut is_over, mut has_failed) = (false, false);
            while !is_over && !has_failed {
                match if reverse { cursor.previous_key() } else { cursor.next_key() } {
                    Ok(Some(key)) => last = Some(key.to_vec()),
                    Ok(None) => is_over = true,
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Io, "{error}");
                        has_failed = true;
                    }
                }
            }
            sim.disarm();
            if is_over {
                break;
            }
            let Some(last) = last else { continue };
            let expected = content.iter().find(|(key, _)| key[..] == last[..]).unwrap();
            assert!(cursor.value().unwrap() == &*expected.1, "{reverse}, read {n}");
            failed[place] += 1;
        }
    }
    assert!(failed.iter().all(|count| *count > 4) && n > 5, "{failed:?}");
}

/// The same where the host's operator fails for the next key, whose newest upsert was taken by then.
#[test]
fn an_operator_that_fails_leaves_the_value_of_the_step_before() {
    let fail = |_: &[u8], _: &[u8]| Err(varvite::Error::invalid("as ordered"));
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let options = TableOptions { write_buffer_bytes: 64, ..TableOptions::default() };
    let options = options.with_operator(MergeOperator::fallible("fails", fail));
    let mut table = session.create_table("t", options).unwrap();
    session.pause_merges(u64::MAX);
    // Two buffers, so that the two upserts of one key meet in the cursor only.
    table.update(Batch::new().insert(b"a", b"1").insert(b"c", &[3; 64])).unwrap();
    table.update(Batch::new().upsert(b"b", b"older").insert(b"d", &[4; 64])).unwrap();
    table.update(Batch::new().upsert(b"b", b"newer").insert(b"e", &[5; 64])).unwrap();
    let mut cursor = table.cursor(Unbounded, Unbounded).unwrap();
    assert_eq!(cursor.next_key().unwrap(), Some(&b"a"[..]));
    for _ in 0..2 {
        assert_eq!(cursor.next().unwrap_err().kind(), Kind::Invalid);
        assert_eq!(cursor.value().unwrap(), b"1");
    }
    // It stands before the key, which needs no operator by itself.
    assert_eq!(cursor.next_key().unwrap(), Some(&b"b"[..]));
    assert_eq!(cursor.value().unwrap_err().kind(), Kind::Invalid);
    cursor.seek(b"c");
    assert_eq!(cursor.next_key().unwrap(), Some(&b"c"[..]));
    assert_eq!(cursor.previous_key().unwrap(), Some(&b"c"[..]));
    assert_eq!(cursor.previous().unwrap_err().kind(), Kind::Invalid);
    assert_eq!(cursor.value().unwrap(), [3; 64]);
}

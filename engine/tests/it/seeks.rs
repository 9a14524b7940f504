//! Seeks over many runs: the same answers as of a map, and few pages read, since most runs are known to have
//! nothing near.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Fault, SimDisk};
use varvite::raw::format::checksum::page_crc;
use varvite::raw::format::header::Header;
use varvite::raw::{Footer, PAGE_BYTES};
use varvite::{
    Batch, Cursor, Kind, Lookups, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table,
    TableOptions, Verify,
};

use crate::hooked_disk::{Call, HookedDisk};
use crate::random::{Random, mix};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Forms of keys, of which a number is made one.
const FORMS: [fn(u64) -> Vec<u8>; 6] = [
    output,
    |number| (number % 3_000).to_be_bytes().to_vec(),
    |number| [&[b'k'; 19][..], &mix(number % 900).to_be_bytes()[..(number % 9) as usize]].concat(),
    // Short ones, of which some are the beginning of others, down to the empty one.
    |number| [0, 0, 1, 0xff].repeat(3)[..(mix(number) % 12) as usize].to_vec(),
    // All but a few in one heap.
    |number| match number % 50 {
        0 => mix(number).to_be_bytes().to_vec(),
        _ => [&[0x77; 11][..], &mix(number % 2_000).to_be_bytes()].concat(),
    },
    |number| vec![0xff; (number % 40) as usize],
];

/// An output of a transaction: three of each begin with the same 32 bytes.
fn output(number: u64) -> Vec<u8> {
    let mut key = transaction(number / 3);
    key.extend_from_slice(&((number % 3) as u16).to_be_bytes());
    key
}

fn transaction(number: u64) -> Vec<u8> {
    (0..4).flat_map(|word| mix(number * 4 + word).to_be_bytes()).collect()
}

/// Small runs, so that a few thousand entries make many.
fn options(lookups: Lookups) -> TableOptions {
    TableOptions { write_buffer_bytes: 6_000, lookups, ..TableOptions::default() }
}

fn fill(table: &mut Table, model: &mut Model, form: fn(u64) -> Vec<u8>, random: &mut Random) {
    for _ in 0..random.below(400) + 1_200 {
        let mut batch = Batch::new();
        for _ in 0..3 {
            let key = form(random.below(6_000));
            if random.one_in(4) {
                batch.delete(&key);
                model.remove(&key);
            } else {
                let length = random.index(40);
                let value = random.bytes(length);
                batch.insert(&key, &value);
                model.insert(key, value);
            }
        }
        table.update(&batch).unwrap();
    }
}

/// A walk of a cursor beside the same one through the map.
struct Walk<'a> {
    cursor: Cursor,
    bounds: (Bound<Vec<u8>>, Bound<Vec<u8>>),
    model: &'a Model,
    /// Keys are behind or before the gap by these bounds.
    before: Bound<Vec<u8>>,
    after: Bound<Vec<u8>>,
}

impl Walk<'_> {
    fn seek(&mut self, key: &[u8]) {
        self.cursor.seek(key);
        let (lower, upper) = self.bounds.clone();
        let is_after = match &lower {
            Unbounded => true,
            Included(lower) => key >= lower.as_slice(),
            Excluded(lower) => key > lower.as_slice(),
        };
        let is_before = match &upper {
            Unbounded => true,
            Included(upper) => key <= upper.as_slice(),
            Excluded(upper) => key < upper.as_slice(),
        };
        (self.before, self.after) = match (is_after, is_before) {
            (false, _) => (Excluded(Vec::new()), lower),
            (_, false) => (upper, Excluded(vec![0xff; 100])),
            _ => (Excluded(key.to_vec()), Included(key.to_vec())),
        };
    }

    fn is_within(&self, key: &[u8]) -> bool {
        let (lower, upper) = &self.bounds;
        let is_after = match lower {
            Unbounded => true,
            Included(lower) => key >= &lower[..],
            Excluded(lower) => key > &lower[..],
        };
        is_after
            && match upper {
                Unbounded => true,
                Included(upper) => key <= &upper[..],
                Excluded(upper) => key < &upper[..],
            }
    }

    fn step(&mut self, forward: bool) {
        // The gap is within the bounds.
        let expected = if forward {
            self.model.range::<Vec<u8>, _>((self.after.as_ref(), Unbounded)).next()
        } else {
            self.model.range::<Vec<u8>, _>((Unbounded, self.before.as_ref())).next_back()
        };
        let expected = expected.filter(|(key, _)| self.is_within(key));
        let expected = expected.map(|(key, value)| (key.clone(), value.clone()));
        let found = if forward { self.cursor.next() } else { self.cursor.previous() };
        let found = found.unwrap().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found, expected, "forward: {forward}");
        let Some((key, _)) = expected else { return };
        let (past, here) = (Excluded(key.clone()), Included(key));
        (self.before, self.after) = if forward { (here, past) } else { (past, here) };
    }
}

fn walk(table: &Table, model: &Model, form: fn(u64) -> Vec<u8>, random: &mut Random) {
    let bound = |random: &mut Random| match random.below(3) {
        0 => Unbounded,
        1 => Included(form(random.below(7_000))),
        _ => Excluded(form(random.below(7_000))),
    };
    let bounds = if random.one_in(3) {
        let prefix = transaction(random.below(2_500));
        (
            Included(prefix.clone()),
            Excluded([&prefix[..31], &[prefix[31].saturating_add(1)]].concat()),
        )
    } else {
        (bound(random), bound(random))
    };
    let as_bytes = |bound: &Bound<Vec<u8>>| bound.clone();
    let (lower, upper) = (as_bytes(&bounds.0), as_bytes(&bounds.1));
    let cursor =
        table.cursor(lower.as_ref().map(|key| &key[..]), upper.as_ref().map(|key| &key[..]));
    let mut walk = Walk {
        cursor: cursor.unwrap(),
        before: Excluded(Vec::new()),
        after: bounds.0.clone(),
        bounds,
        model,
    };
    for _ in 0..6 {
        if random.one_in(2) {
            let mut key = form(random.below(7_000));
            if random.one_in(3) {
                key.truncate(random.index(key.len() + 1));
            }
            walk.seek(&key);
        }
        let forward = random.one_in(2);
        for _ in 0..random.choose(&[1, 1, 2, 5, 30]) {
            // Now and then it turns.
            let turned = random.one_in(6);
            walk.step(forward != turned);
        }
    }
}

fn runs(table: &Table) -> u64 {
    table.stats().unwrap().levels.iter().map(|level| level.runs).sum()
}

/// In tables of many runs, in the middle of merges and of unions, and opened again.
#[test]
fn seeks_in_many_runs_answer_as_a_map_does() {
    for (place, form) in FORMS.into_iter().enumerate() {
        let mut random = Random::new(place as u64);
        let disk = MemoryDisk::seeded(1);
        let session = Session::create(
            disk,
            SessionOptions { segment_bytes: 16 << 10, ..SessionOptions::default() },
        )
        .unwrap();
        for (number, lookups) in [Lookups::Mixed, Lookups::MostlyHit].into_iter().enumerate() {
            let (mut models, mut tables) = (Vec::new(), Vec::new());
            for name in ["a", "b"] {
                let mut table =
                    session.create_table(&format!("{name}{number}"), options(lookups)).unwrap();
                let mut model = Model::new();
                fill(&mut table, &mut model, form, &mut random);
                for _ in 0..60 {
                    walk(&table, &model, form, &mut random);
                }
                models.push(model);
                tables.push(table);
            }
            // The leftmost table's values win.
            let (first, mut united) = (models.remove(0), models.remove(0));
            united.extend(first);
            let name = format!("both{number}");
            let mut union = session.incremental_union(&name, &[&tables[0], &tables[1]]).unwrap();
            while union.work(20_000).unwrap() > 0 {
                for _ in 0..4 {
                    walk(&union, &united, form, &mut random);
                }
            }
            walk(&union, &united, form, &mut random);
        }
    }
}

/// A disk that counts the reads of segments.
fn counting() -> (Arc<HookedDisk>, Arc<AtomicU64>) {
    let reads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&reads);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        if path.starts_with("segments/") && call == Call::Read {
            counted.fetch_add(1, SeqCst);
        }
    });
    (disk, reads)
}

/// A table of outputs of transactions with even numbers, in many runs, whose filters are in memory.
fn outputs(session: &Session, lookups: Lookups) -> Table {
    let options = TableOptions { size_ratio: 12, ..options(lookups) };
    let mut table = session.create_table("outputs", options).unwrap();
    let mut number = 0;
    while number < 15_000 || runs(&table) < 10 {
        let output = output(number / 3 * 6 + number % 3);
        table.update(Batch::new().insert(&output, &[7; 20])).unwrap();
        number += 1;
        if number >= 15_000 && number % 500 == 0 {
            // No run is in a merge then.
            table.work(u64::MAX).unwrap();
        }
    }
    table.work(u64::MAX).unwrap();
    for number in 0..3_000 {
        table.prefix(transaction(number)).next().transpose().unwrap();
    }
    table
}

/// Reads for each of so many questions.
fn reads_each(reads: &AtomicU64, count: u64, mut ask: impl FnMut(u64)) -> f64 {
    reads.store(0, SeqCst);
    (0..count).for_each(&mut ask);
    reads.load(SeqCst) as f64 / count as f64
}

#[test]
fn runs_with_nothing_near_are_not_read() {
    let (disk, reads) = counting();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let table = outputs(&session, Lookups::Mixed);
    let runs = runs(&table) as f64;
    let count = 1_000;
    // Each with its bound: of the runs that do not have the key, one in six or seven is read.
    let bound = |has: f64| has + 0.2 * runs;
    let absent = reads_each(&reads, count, |number| {
        assert_eq!(table.prefix(transaction(number * 2 + 1)).count(), 0);
    });
    assert!(absent < bound(0.0), "{absent} reads for an absent prefix, {runs} runs");
    let backward = reads_each(&reads, count, |number| {
        assert_eq!(table.prefix(transaction(number * 2 + 1)).rev().count(), 0);
    });
    assert!(backward < bound(0.0), "{backward} reads for an absent prefix, {runs} runs");
    let there = reads_each(&reads, count, |number| {
        assert_eq!(table.prefix(transaction(number * 2)).count(), 3);
    });
    assert!(there < bound(1.3), "{there} reads for the outputs of a transaction, {runs} runs");
    let seek = reads_each(&reads, count, |number| {
        table.range(transaction(number * 2 + 1)..).next().transpose().unwrap();
    });
    assert!(seek < bound(1.5), "{seek} reads for a seek, {runs} runs");
    let seek = reads_each(&reads, count, |number| {
        table.range(..transaction(number * 2 + 1)).next_back().transpose().unwrap();
    });
    assert!(seek < bound(1.5), "{seek} reads for a seek backward, {runs} runs");
}

/// What the disk was asked for, as far as reading segments goes.
fn noting() -> (Arc<HookedDisk>, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&calls);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        if path.starts_with("segments/") && [Call::Read, Call::Submit].contains(&call) {
            noted.lock().unwrap().push(call);
        }
    });
    (disk, calls)
}

/// How often reads were given to the queue and waited for.
fn rounds(calls: &[Call]) -> usize {
    let begins = |at: usize| at == 0 || calls[at - 1] != Call::Submit;
    (0..calls.len()).filter(|at| calls[*at] == Call::Submit && begins(*at)).count()
}

/// A range that comes to all runs takes them up in rounds of 1, 2, 4 and so on, not one by one.
#[test]
fn a_scan_waits_for_the_disk_a_few_times() {
    let (disk, calls) = noting();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let table = outputs(&session, Lookups::Mixed);
    let runs = runs(&table) as usize;
    let most = runs.ilog2() as usize + 3;
    assert!(most + 2 < runs, "{runs} runs");
    let (mut forward, mut backward) = (0, 0);
    for number in 0..20 {
        let place = transaction(number * 2 + 1);
        calls.lock().unwrap().clear();
        assert!(table.range(&place[..]..).take(4_000).flatten().count() > 0);
        forward += rounds(&calls.lock().unwrap());
        calls.lock().unwrap().clear();
        assert!(table.range(..&place[..]).rev().take(4_000).flatten().count() > 0);
        backward += rounds(&calls.lock().unwrap());
    }
    assert!(forward <= 20 * most, "{forward} rounds of 20 ranges, {runs} runs");
    assert!(backward <= 20 * most, "{backward} rounds of 20 ranges backward, {runs} runs");
}

/// Range filters that are not in memory are read together by the seek that asks for them first.
#[test]
fn a_first_seek_loads_all_range_filters_at_once() {
    let (disk, calls) = noting();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let table = outputs(&session, Lookups::Mixed);
    let runs = runs(&table) as usize;
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let table = snapshot.take("outputs").unwrap();
    // From end to end no range filter is asked, and all indexes are.
    assert!(table.iter().flatten().count() >= 15_000);
    calls.lock().unwrap().clear();
    assert_eq!(table.prefix(transaction(2)).flatten().count(), 3);
    let calls = calls.lock().unwrap();
    let together = calls.iter().take_while(|call| **call == Call::Submit).count();
    assert!(together >= runs && rounds(&calls) <= 4, "{runs} runs: {calls:?}");
    // What else is read alone is the next page of a run.
    let count = |call| calls.iter().filter(|it| **it == call).count();
    assert!(count(Call::Read) <= count(Call::Submit) + 2, "{calls:?}");
}

/// Where the last run has no filter, it is read, and of the others what is needed.
#[test]
fn a_last_run_without_a_filter_is_read_and_few_others() {
    let (disk, reads) = counting();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let table = outputs(&session, Lookups::MostlyHit);
    let runs = runs(&table) as f64;
    let seek = reads_each(&reads, 1_000, |number| {
        table.range(transaction(number)..).next().transpose().unwrap();
    });
    assert!(seek < 1.7 + 0.2 * runs, "{seek} reads for a seek, {runs} runs");
}

/// The ends of a table's segments are in memory: what is beyond them is not looked for.
#[test]
fn beyond_the_ends_of_all_runs_nothing_is_read() {
    let (disk, reads) = counting();
    let session = Session::create(disk, SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", options(Lookups::MostlyHit)).unwrap();
    for number in 0..8_000_u64 {
        let key = [&b"key-"[..], &mix(number).to_be_bytes()].concat();
        table.update(Batch::new().insert(&key, &[7; 20])).unwrap();
    }
    let none = reads_each(&reads, 1, |_| {
        assert_eq!(table.prefix("kex").count() + table.prefix("kez").rev().count(), 0);
        assert_eq!(table.range("kez"..).count() + table.range(..="key-").rev().count(), 0);
    });
    assert!(none < 0.5, "{none}");
    // The first and the last key: of other runs only those whose end may be nearer.
    let ends = reads_each(&reads, 1, |_| {
        let (first, last) = (table.iter().next(), table.iter().next_back());
        assert!(first.unwrap().unwrap().0 < last.unwrap().unwrap().0);
    });
    assert!(ends <= 4.0, "{ends}");
}

/// Numbers in a heap and one key far away, as of blocks and of a tip: where a heap ends is found by a look at a few
/// words, and the answers are right on all sides.
#[test]
fn keys_in_heaps_are_found_from_between_them() {
    let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    let mut keys = Vec::new();
    for heap in [0_u64, 1 << 40, 1 << 62, u64::MAX - 3_000] {
        for step in 0..3_000 {
            table.update(Batch::new().insert(&(heap + step).to_be_bytes(), b"value")).unwrap();
            keys.push(heap + step);
        }
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    let mut opened = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
    let table = opened.take("t").unwrap();
    for shift in 0..64 {
        for from in [1_u64 << shift, (1 << shift) + 2_999, (1 << shift) - 1, u64::MAX >> shift] {
            let place = keys.partition_point(|key| *key < from);
            let bytes = |place: usize| keys.get(place).map(|key| key.to_be_bytes().to_vec());
            let after = table.range(from.to_be_bytes()..).next().map(|it| it.unwrap().0.to_vec());
            assert_eq!(after, bytes(place), "{from}");
            let before = table.range(..from.to_be_bytes()).next_back();
            let before = before.map(|it| it.unwrap().0.to_vec());
            assert_eq!(before, place.checked_sub(1).and_then(bytes), "{from}");
        }
    }
}

/// A seek whose reads fail, those of range filters and indexes included, says so; the next one answers.
#[test]
fn a_first_seek_that_fails_can_be_made_again() {
    let sim = SimDisk::new(3);
    let session = Session::create(Arc::clone(&sim) as _, SessionOptions::default()).unwrap();
    let table = outputs(&session, Lookups::Mixed);
    let runs = runs(&table);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    let (mut n, mut failed) = (1, true);
    while failed {
        // Filters and indexes are not in memory.
        let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
        let table = snapshot.take("outputs").unwrap();
        let from = transaction(20);
        let mut cursor = table.cursor(Included(&from), Unbounded).unwrap();
        sim.fail_at(n, Fault::Read);
        let found = cursor.next_key().map(|key| key.map(<[u8]>::to_vec));
        sim.disarm();
        failed = found.is_err();
        if let Err(error) = &found {
            assert_eq!(error.kind(), Kind::Io, "{n}: {error}");
        }
        let found =
            if failed { cursor.next_key().unwrap().map(<[u8]>::to_vec) } else { found.unwrap() };
        assert_eq!(found, Some(output(60)), "{n}");
        n += 1;
    }
    assert!(n > runs + 2, "{n} reads, {runs} runs");
}

/// Where the range filter of a segment is in its bytes, and where its checksum's page is.
fn range_filter_of(bytes: &[u8]) -> (u32, std::ops::Range<usize>) {
    let header = Header::decode("f", bytes).unwrap();
    let pages = (bytes.len() / PAGE_BYTES) as u32;
    let last = &bytes[bytes.len() - PAGE_BYTES..];
    let footer = Footer::decode("f", header.identity, pages, last).unwrap();
    let (page, length) = footer.range_filter().unwrap();
    let start = page as usize * PAGE_BYTES;
    (page, start..start + length as usize)
}

/// A damaged range filter fails nothing, and checks and scrubs find it; one that lacks a key, though its checksum
/// is right, is found by checks.
#[test]
fn wrong_range_filters_are_found() {
    let disk = MemoryDisk::seeded(1);
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let session = Session::create(shared(), SessionOptions::default()).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    for number in 0..300_u64 {
        table.update(Batch::new().insert(&mix(number).to_be_bytes(), b"value")).unwrap();
    }
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    session.close().unwrap();
    let name = disk.files().into_iter().find(|name| name.ends_with(".segment")).unwrap();
    let good = disk.bytes(&name).unwrap();
    let (page, place) = range_filter_of(&good);
    let opened = |bytes: Vec<u8>, verify| {
        disk.replace(&name, bytes).unwrap();
        let session = Session::open_read_only(shared(), SessionOptions::default()).unwrap();
        let options = OpenSnapshot { verify, ..OpenSnapshot::default() };
        session.open_snapshot("s", &options).and_then(|mut it| it.take("t"))
    };
    assert!(opened(good.clone(), Verify::Full).is_ok());

    let mut flipped = good.clone();
    flipped[place.start + 40] ^= 4;
    assert_eq!(opened(flipped.clone(), Verify::Full).unwrap_err().kind(), Kind::Corrupt);
    let table = opened(flipped, Verify::Quick).unwrap();
    assert!(table.get(&mix(7).to_be_bytes()).unwrap().is_some());
    for key in [mix(7).to_be_bytes(), [0; 8], mix(9).to_be_bytes()] {
        let here = (0..300).map(|number| mix(number).to_be_bytes()).filter(|it| *it >= key).count();
        assert_eq!(table.range(key..).map(Result::unwrap).count(), here);
        assert_eq!(table.range(..key).rev().map(Result::unwrap).count(), 300 - here);
    }
    drop(table);
    let session = Session::open_read_only(shared(), SessionOptions::default()).unwrap();
    let mut scrub = session.scrub(0).unwrap();
    while scrub.work(5).unwrap() > 0 {}
    let [found] = scrub.findings() else { panic!("{:?}", scrub.findings()) };
    assert!(format!("{found:?}").contains("range filter checksum"), "{found:?}");

    // The filter of keys that are all greater by one, as of another segment.
    let identity = Header::decode("f", &good).unwrap().identity;
    let mut other = good.clone();
    for at in [place.start + 8, place.start + 16] {
        let head = u64::from_le_bytes(other[at..at + 8].try_into().unwrap()) + 1;
        other[at..at + 8].copy_from_slice(&head.to_le_bytes());
    }
    let crc = page_crc(identity, page, &other[place.start + 4..place.end]);
    other[place.start..place.start + 4].copy_from_slice(&crc.to_le_bytes());
    let error = opened(other, Verify::Full).unwrap_err();
    assert!(error.detail().contains("the keys that the segment has"), "{error}");

    // A word of the bitmap between the ends without any bit.
    let mut lacking = good;
    lacking[place.start + 64..place.start + 72].fill(0);
    let crc = page_crc(identity, page, &lacking[place.start + 4..place.end]);
    lacking[place.start..place.start + 4].copy_from_slice(&crc.to_le_bytes());
    let error = opened(lacking, Verify::Full).unwrap_err();
    assert!(error.to_string().contains("a range filter that passes entry"), "{error}");
}

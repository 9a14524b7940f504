//! Large values beside the runs: no merge copies them, they are fetched late and together, they stay
//! as long as they are held, their space comes back, and they go wherever their table goes.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, Mode};
use varvite::table::VALUE_BYTES_MAX;
use varvite::table::check::check;
use varvite::{
    Batch, Kind, LoadOrder, Log, MergeOperator, OpenSnapshot, OpenTable, Session, SessionOptions,
    SnapshotContent, Table, TableOptions, Value, Verify,
};

use crate::listed::Listed;
use crate::random::{Random, mix};

const VALUE: usize = 6_000;
const KEYS: u64 = 400;

fn session() -> (Arc<MemoryDisk>, Session) {
    let disk = MemoryDisk::seeded(1);
    let options = SessionOptions { segment_bytes: 64 << 10, ..SessionOptions::default() };
    let session = Session::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    (disk, session)
}

fn options(blob_min: u32) -> TableOptions {
    TableOptions {
        write_buffer_bytes: 100_000,
        size_ratio: 2,
        blob_min_bytes: Some(blob_min),
        ..TableOptions::default()
    }
}

fn key(number: u64) -> [u8; 8] {
    mix(number).to_be_bytes()
}

fn value(number: u64, length: usize) -> Vec<u8> {
    Random::new(number).bytes(length)
}

/// Binds the keys anew, `rounds` times.
fn fill(table: &mut Table, rounds: std::ops::Range<u64>) {
    for round in rounds {
        for number in 0..KEYS {
            let value = value(round * KEYS + number, VALUE);
            table.update(Batch::new().insert(&key(number), &value)).unwrap();
        }
    }
}

fn is_blob(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, kind)| kind == "blob")
}

/// Blob files on disk, and their bytes.
fn on_disk(disk: &MemoryDisk) -> (u64, u64) {
    let names = disk.files().into_iter().filter(|name| is_blob(name));
    names.fold((0, 0), |(count, bytes), name| {
        (count + 1, bytes + disk.bytes(&name).unwrap().len() as u64)
    })
}

#[test]
fn merges_copy_references_and_the_space_of_dead_values_comes_back() {
    let written = [65_537, 1_000].map(|blob_min| {
        let (disk, session) = session();
        let mut table = session.create_table("t", options(blob_min)).unwrap();
        fill(&mut table, 0..5);
        let stats = session.stats();
        let live = KEYS * VALUE as u64;
        let total = 5 * live;
        if blob_min == 1_000 {
            // Every value once, and what is moved out of sparse files: less than is dead in them.
            let most = total + total / 3;
            let written = stats.blob_written_bytes;
            assert!((total * 9 / 10..most + most / 8).contains(&written), "{written} of {total}");
            // A file is emptied at the latest when a quarter of it is alive.
            let (files, bytes) = on_disk(&disk);
            assert!(files > 0 && bytes < 4 * live + 12 * 100_000, "{bytes} for {live}");
            let union = session.union("all", &[&table]).unwrap();
            table.close().unwrap();
            let stats = union.stats().unwrap();
            assert_eq!((stats.blob_files, stats.blob_bytes), (on_disk(&disk).0, live));
            assert!(stats.blob_disk_bytes < 4 * live, "{} for {live}", stats.blob_disk_bytes);
            table = union;
        }
        for number in 0..KEYS {
            let expected = value(4 * KEYS + number, VALUE);
            assert!(table.get(&key(number)).unwrap().as_deref() == Some(&expected[..]));
            table.update(Batch::new().delete(&key(number))).unwrap();
        }
        let empty = session.union("empty", &[&table]).unwrap();
        table.close().unwrap();
        assert_eq!((empty.stats().unwrap().blob_bytes, on_disk(&disk)), (0, (0, 0)));
        stats.written_bytes()
    });
    let [inline, apart] = written;
    println!("{inline} bytes written with values in the runs, {apart} beside them");
    assert!(apart * 2 < inline, "{apart} {inline}");
}

#[test]
fn values_are_read_when_asked_for_and_not_before() {
    let (_disk, session) = session();
    let mut table = session.create_table("t", options(1_000)).unwrap();
    fill(&mut table, 0..1);
    let before = session.stats();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let found: Vec<Value> = table.view().find(&keys).unwrap().into_iter().flatten().collect();
    assert_eq!(found.len() as u64, KEYS);
    assert!(found.iter().all(|value| value.len() == VALUE as u64));
    assert_eq!(table.view().count().unwrap(), KEYS);
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded).unwrap();
    let mut count = 0;
    while cursor.next_key().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, session.stats().blobs_read), (KEYS, before.blobs_read));
    let read = session.read_values(&found).unwrap();
    for (number, read) in (0..KEYS).zip(read.iter()) {
        assert!(read == Some(&value(number, VALUE)[..]));
    }
    let apart = session.stats().blobs_read - before.blobs_read;
    // All but what the write buffers hold.
    assert!(apart > KEYS * 3 / 4, "{apart}");
    table.delete_range(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert_eq!(session.stats().blobs_read - before.blobs_read, apart, "deleting reads none");
}

#[test]
fn a_value_that_is_held_outlives_its_key_and_its_table() {
    let (disk, session) = session();
    let mut table = session.create_table("t", options(1_000)).unwrap();
    fill(&mut table, 0..1);
    let found = table.view().find(&[key(3)]).unwrap().remove(0).unwrap();
    for number in 0..KEYS {
        table.update(Batch::new().delete(&key(number))).unwrap();
    }
    drop(session.union("rest", &[&table]).unwrap());
    table.close().unwrap();
    assert_eq!(on_disk(&disk).0, 1, "only what is held");
    assert!(found.read().unwrap() == value(3, VALUE));
    // It can be bound again, without being written again.
    let mut other = session.create_table("other", options(1_000)).unwrap();
    let written = session.stats().blob_written_bytes;
    other
        .update(Batch::new().insert_value(b"again", &found).insert_value(b"twice", &found))
        .unwrap();
    drop(found);
    while other.work(u64::MAX).unwrap() > 0 {}
    let content = SnapshotContent { label: "", payload: b"", tables: &[&other] };
    session.save_snapshot("s", content).unwrap();
    assert_eq!(session.stats().blob_written_bytes, written);
    let found = other.view().find(&[b"twice"]).unwrap().remove(0).unwrap();
    session.close().unwrap();
    assert_eq!(found.read().unwrap_err().kind(), Kind::Closed);
    drop((found, other));
    let report = check(&(Arc::clone(&disk) as _), |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.findings.len(), report.blob_files, on_disk(&disk).0), (0, 1, 1));
}

#[test]
fn values_of_any_length_are_streamed_and_travel() {
    const LENGTH: usize = VALUE_BYTES_MAX + 12_345;
    let (disk, session) = session();
    let expected = value(9, LENGTH);
    let mut writer = session.write_value().unwrap();
    for piece in expected.chunks(100_000) {
        writer.write(piece).unwrap();
    }
    let written = writer.finish().unwrap();
    assert_eq!(written.len(), LENGTH as u64);
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert_value(b"long", &written).insert(b"short", b"1")).unwrap();
    drop(written);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    let parcel = MemoryDisk::seeded(1);
    session.export_snapshot("s", &(Arc::clone(&parcel) as _), Verify::Full).unwrap();
    drop((table, session));
    for disk in [disk, parcel] {
        let session = Session::open(disk as Arc<dyn Disk>, SessionOptions::default()).unwrap();
        let options = OpenSnapshot { verify: Verify::Full, ..OpenSnapshot::default() };
        let mut snapshot = session.open_snapshot("s", &options).unwrap();
        let table = snapshot.take("t").unwrap();
        let found = table.view().find(&[b"long"]).unwrap().remove(0).unwrap();
        let (mut at, mut piece) = (0, vec![0; 77_777]);
        loop {
            let read = found.read_at(at as u64, &mut piece).unwrap();
            assert!(piece[..read] == expected[at..at + read]);
            at += read;
            if read < piece.len() {
                break;
            }
        }
        assert_eq!(at, LENGTH);
    }
}

#[test]
fn what_cannot_hold_a_value_as_it_is_refuses_it() {
    let ((_, session), (_, other)) = (self::session(), self::session());
    let long = |session: &Session| {
        let mut writer = session.write_value().unwrap();
        writer.write(&[1; 100]).unwrap();
        writer.finish().unwrap()
    };
    let mut table = session.create_table("t", options(1_000)).unwrap();
    let with = TableOptions { operator: Some(MergeOperator::append()), ..options(1_000) };
    let mut joining = session.create_table("joining", with).unwrap();
    let (own, foreign) = (long(&session), long(&other));
    for (table, value) in [(&mut table, &foreign), (&mut joining, &own)] {
        let error = table.update(Batch::new().insert_value(b"key", value)).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert_eq!(table.get(b"key").unwrap(), None);
    }
    table.update(Batch::new().insert_value(b"key", &own)).unwrap();
    for blob_min_bytes in [Some(31), Some(65_538)] {
        let options = TableOptions { blob_min_bytes, ..TableOptions::default() };
        assert_eq!(session.create_table("x", options).unwrap_err().kind(), Kind::Invalid);
    }
}

#[test]
fn live_tables_find_their_large_values_again() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let options = || SessionOptions {
        log: Log::Written,
        segment_bytes: 64 << 10,
        ..SessionOptions::default()
    };
    let session = Session::create(Arc::clone(&disk), options()).unwrap();
    let table_options = TableOptions {
        blob_min_bytes: Some(1_000),
        write_buffer_bytes: 50_000,
        ..self::options(1_000)
    };
    let mut table = session.create_table("live", table_options).unwrap();
    let mut expected = BTreeMap::new();
    for number in 0..300 {
        let (key, value) = (key(number % 120), value(number, 500 + (number as usize * 37) % 3_000));
        table.update(Batch::new().insert(&key, &value)).unwrap();
        expected.insert(key.to_vec(), value);
    }
    let mut writer = session.write_value().unwrap();
    writer.write(&[1; 2_000]).unwrap();
    let own = writer.finish().unwrap();
    table.update(Batch::new().insert_value(b"own", &own)).unwrap();
    expected.insert(b"own".to_vec(), vec![1; 2_000]);
    drop((own, table, session));
    let session = Session::open(Arc::clone(&disk), options()).unwrap();
    let table = session.open_table("live", &OpenTable::default()).unwrap();
    let found = table.view().listed(Bound::Unbounded, Bound::Unbounded).unwrap();
    assert!(found.into_iter().eq(expected));
    assert!(table.stats().unwrap().blob_files > 0);
}

#[test]
fn a_load_stores_large_values_once() {
    let (disk, session) = session();
    for order in [LoadOrder::Sorted, LoadOrder::Any { memory_bytes: 100_000 }] {
        let before = session.stats().blob_written_bytes;
        let mut loader = session.load_table("t", options(1_000), order).unwrap();
        for number in 0..KEYS {
            let value = value(number, VALUE);
            loader.push(&number.to_be_bytes(), &value).unwrap();
        }
        let table = loader.finish().unwrap();
        let written = session.stats().blob_written_bytes - before;
        let all = KEYS * VALUE as u64;
        assert!((all..all + all / 8).contains(&written), "{written} of {all}");
        let found = table.listed(Bound::Unbounded, Bound::Unbounded).unwrap();
        assert!((0..KEYS).zip(found).all(|(number, (_, found))| found == value(number, VALUE)));
        table.close().unwrap();
    }
    assert_eq!(on_disk(&disk), (0, 0));
}

#[test]
fn a_lost_or_damaged_blob_file_is_told_by_name() {
    let (disk, session) = session();
    let mut table = session.create_table("t", options(1_000)).unwrap();
    fill(&mut table, 0..1);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    drop(table);
    session.close().unwrap();
    let names: Vec<_> = disk.files().into_iter().filter(|it| is_blob(it)).collect();
    let name = &names[0];
    let answers = |disk: Arc<MemoryDisk>| {
        let session = Session::open_read_only(disk, SessionOptions::default())?;
        let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default())?;
        let table = snapshot.take("t")?;
        let keys: Vec<_> = (0..KEYS).map(key).collect();
        table.lookup(&keys).map(|values| values.iter().flatten().count())
    };
    assert_eq!(answers(disk.snapshot()).unwrap(), KEYS as usize);
    let bytes = disk.bytes(name).unwrap();
    let other = disk.bytes(&names[1]).unwrap();
    let mut flipped = bytes.clone();
    flipped[5_000] ^= 4;
    for damaged in [flipped, bytes[..bytes.len() - 4_096].to_vec(), other] {
        let disk = disk.snapshot();
        disk.replace(name, damaged).unwrap();
        let error = answers(Arc::clone(&disk)).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.detail().contains(name), "{error}");
        let report = check(&(disk as Arc<dyn Disk>), |_| ControlFlow::Continue(())).unwrap();
        assert!(report.findings.iter().any(|finding| finding.file.contains(name)), "{report:?}");
    }
    let lost = disk.snapshot();
    lost.remove(name).unwrap();
    let error = answers(Arc::clone(&lost)).unwrap_err();
    assert!(error.detail().contains(name), "{error}");
    let report = check(&(lost as Arc<dyn Disk>), |_| ControlFlow::Continue(())).unwrap();
    assert!(report.findings.iter().any(|finding| finding.file.contains(name)), "{report:?}");
    assert!(disk.open(name, Mode::Read, Access::Buffered).is_ok());
}

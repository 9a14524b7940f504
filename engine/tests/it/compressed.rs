//! Tables with compressed pages: the same answers as without, fewer bytes, and damage found.

use std::ops::ControlFlow;
use std::sync::Arc;

use varvite::cache::Cache;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk};
use varvite::table::check::check;
use varvite::table::inspect;
use varvite::{
    Batch, Compression, OpenSnapshot, Session, SessionOptions, SnapshotContent, Table, TableOptions,
};

use crate::random::mix;

fn options(compression: Compression) -> TableOptions {
    TableOptions { write_buffer_bytes: 20_000, ..TableOptions::default() }
        .with_compression(compression)
}

fn key(number: u64) -> Vec<u8> {
    mix(number).to_be_bytes().to_vec()
}

/// Values that are alike, some that are not, and a few that need overflow pages of either sort.
fn value(number: u64) -> Vec<u8> {
    let noise = |length: u64| (0..length).flat_map(|it| mix(number ^ (it << 32)).to_le_bytes());
    match number % 100 {
        0 => noise(1_500).collect(),
        1 => b"the same words again and again. ".repeat(700),
        2..20 => noise(12).collect(),
        _ => [&b"address of somebody who has many outputs "[..], &number.to_le_bytes()].concat(),
    }
}

const COUNT: u64 = 6_000;

fn fill(session: &Session, name: &str, compression: Compression) -> Table {
    let mut table = session.create_table(name, options(compression)).unwrap();
    for first in (0..COUNT).step_by(50) {
        let mut batch = Batch::new();
        for number in first..first + 50 {
            batch.insert(&key(number), &value(number));
            if number % 3 == 2 {
                batch.delete(&key(number - 2));
            }
        }
        table.update(&batch).unwrap();
    }
    table
}

fn expected(number: u64) -> Option<Vec<u8>> {
    (!number.is_multiple_of(3)).then(|| value(number))
}

fn compare(table: &Table) {
    let keys: Vec<_> = (0..COUNT).map(key).collect();
    let found = table.lookup(&keys).unwrap();
    for (number, found) in (0..COUNT).zip(found.iter()) {
        assert_eq!(found.map(<[u8]>::to_vec), expected(number), "{number}");
    }
    for number in (0..COUNT).step_by(97) {
        assert_eq!(table.get(&key(number)).unwrap(), expected(number));
    }
    let mut all: Vec<_> =
        (0..COUNT).filter_map(|number| Some((key(number), expected(number)?))).collect();
    all.sort();
    let entry = |it: varvite::Result<(varvite::Bytes, varvite::Bytes)>| {
        let (key, value) = it.unwrap();
        (key.to_vec(), value.to_vec())
    };
    assert!(table.iter().map(entry).eq(all.iter().cloned()));
    assert!(table.iter().rev().map(entry).eq(all.iter().rev().cloned()));
}

fn session_options(access: Access, cache: Option<u64>) -> SessionOptions {
    SessionOptions {
        access,
        cache: cache.map(Cache::new),
        segment_bytes: 64 << 10,
        ..SessionOptions::default()
    }
}

fn segment_files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.files().into_iter().filter(|name| name.ends_with(".segment"));
    names.map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

/// A store of one saved table.
fn saved(compression: Compression) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let session = Session::create(shared, session_options(Access::Buffered, None)).unwrap();
    let table = fill(&session, "t", compression);
    let content = SnapshotContent { label: "", payload: b"", tables: &[&table] };
    session.save_snapshot("s", content).unwrap();
    compare(&table);
    drop(table);
    session.close().unwrap();
    disk
}

#[test]
fn a_compressed_table_answers_the_same_from_fewer_bytes() {
    let plain = saved(Compression::None);
    let disk = saved(Compression::Fast);
    let bytes = |disk| segment_files(disk).iter().map(|(_, it)| it.len()).sum::<usize>();
    assert!(bytes(&disk) * 3 < bytes(&plain) * 2, "{} {}", bytes(&disk), bytes(&plain));
    for (name, bytes) in segment_files(&disk) {
        assert_eq!(bytes[8], 4, "{name}");
        let outline = inspect::segment(&name, &bytes);
        assert_eq!(outline.damage_count(), 0, "{outline}");
        assert!(outline.to_string().contains("list of packed pages"));
    }
    assert!(segment_files(&plain).iter().all(|(_, bytes)| bytes[8] == 3));
    let shared = || Arc::clone(&disk) as Arc<dyn Disk>;
    let checked = check(&shared(), |_| ControlFlow::Continue(())).unwrap();
    assert!(checked.findings.is_empty(), "{:?}", checked.findings);
    for cache in [None, Some(300_000)] {
        for access in [Access::Buffered, Access::Direct] {
            let session = Session::open(shared(), session_options(access, cache)).unwrap();
            let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
            let table = snapshot.take("t").unwrap();
            assert_eq!(table.options().compression, Compression::Fast);
            compare(&table);
            let mut scrub = session.scrub(0).unwrap();
            while scrub.work(3).unwrap() > 0 {}
            assert!(scrub.findings().is_empty(), "{:?}", scrub.findings());
        }
    }
}

#[test]
fn a_union_of_both_sorts_reads_both() {
    let disk = MemoryDisk::seeded(1);
    let session = Session::create(disk, session_options(Access::Buffered, None)).unwrap();
    let plain = fill(&session, "plain", Compression::None);
    let packed = fill(&session, "packed", Compression::Fast);
    let mut union = session.incremental_union("both", &[&packed, &plain]).unwrap();
    compare(&union);
    union.supply_union_credits(u64::MAX).unwrap();
    compare(&union);
}

/// Whatever byte is damaged, a check says so, or the content is the same all the same.
#[test]
fn damage_is_found() {
    let sound = saved(Compression::Fast);
    let (name, bytes) =
        segment_files(&sound).into_iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let mut found = 0;
    for at in (0..bytes.len()).step_by(bytes.len() / 150) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        let disk = sound.snapshot();
        disk.replace(&name, damaged.clone()).unwrap();
        let shared = Arc::clone(&disk) as Arc<dyn Disk>;
        let checked = check(&shared, |_| ControlFlow::Continue(())).unwrap();
        let outline = inspect::segment(&name, &damaged);
        if checked.findings.is_empty() {
            let session = Session::open(shared, SessionOptions::default()).unwrap();
            let mut snapshot = session.open_snapshot("s", &OpenSnapshot::default()).unwrap();
            compare(&snapshot.take("t").unwrap());
        } else {
            found += 1;
            assert!(outline.damage_count() > 0, "byte {at}: {:?}", checked.findings);
        }
    }
    assert!(found > 100, "{found}");
}

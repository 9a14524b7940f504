//! Nanoseconds per entry of the table's immutable bytes: building, streaming, searching.
//!
//! Entries are those of a table of unspent outputs: 34-byte keys that look random, 60-byte values.
//! `cargo bench --bench segment` prints one line a figure, the best of several passes.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // A benchmark has a clock.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Buffer, Disk};
use varvite::raw::format::hash::{combine, hash};
use varvite::raw::{
    EntryKind, EntryRef, Page, ReadOptions, Run, RunReader, Segment, SegmentBuilder, SegmentOptions,
};

const ENTRIES: usize = 150_000;
const SALT: u64 = 7;

fn key(number: u64) -> [u8; 34] {
    let mut key = [0; 34];
    for (word, bytes) in key.chunks_mut(8).enumerate() {
        let value = combine(number, word as u64).to_be_bytes();
        bytes.copy_from_slice(&value[..bytes.len()]);
    }
    key
}

/// Prints the best of `passes` of `work`, which does `count` things.
fn measure(name: &str, count: usize, passes: usize, mut work: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..passes {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / count as f64);
    }
    println!("{name:<34} {best:>9.1} ns");
}

fn build(disk: &dyn Disk, keys: &[[u8; 34]], bits_per_entry: u32) -> Segment {
    let options = SegmentOptions {
        id: 1,
        identity: 1,
        store: 1,
        salt: SALT,
        bits_per_entry,
        range_filter: true,
        access: Access::Buffered,
    };
    if disk.exists("s").unwrap() {
        disk.remove("s").unwrap();
    }
    let mut builder = SegmentBuilder::new(disk, "s", options).unwrap();
    let value = [5; 60];
    for key in keys {
        let entry = EntryRef { kind: EntryKind::Insert, key, value: &value };
        builder.add(entry).unwrap();
    }
    builder.finish().unwrap().into_segment()
}

fn main() {
    let mut keys: Vec<[u8; 34]> = (0..ENTRIES as u64).map(key).collect();
    keys.sort_unstable();
    let disk = MemoryDisk::seeded(1);
    for bits in [0, 6, 10, 16] {
        measure(&format!("build, filter of {bits} bits"), ENTRIES, 10, || {
            black_box(build(&*disk, &keys, bits));
        });
    }
    let segment = Arc::new(build(&*disk, &keys, 10));
    let run = Arc::new(Run::new(vec![Arc::clone(&segment)]));
    measure("stream", ENTRIES, 20, || {
        let mut reader = RunReader::new(&run, None, ReadOptions::default()).unwrap();
        while let Some(entry) = reader.peek() {
            black_box((entry.key, reader.prefix()));
            reader.advance().unwrap();
        }
    });

    let wanted: Vec<[u8; 34]> =
        (0..ENTRIES as u64).map(|n| key(n * 7919 % ENTRIES as u64)).collect();
    let hashes: Vec<u64> = wanted.iter().map(|key| hash(SALT, key)).collect();
    let others: Vec<u64> = (0..ENTRIES as u64).map(|n| hash(SALT, &key(n + (1 << 40)))).collect();
    let filter = segment.filter().unwrap().unwrap();
    measure("hash", ENTRIES, 20, || {
        black_box(wanted.iter().fold(0, |sum, key| sum ^ hash(SALT, key)));
    });
    measure("filter probe, present", ENTRIES, 20, || {
        assert!(hashes.iter().all(|&hash| filter.probe(hash)));
    });
    measure("filter probe, absent", ENTRIES, 20, || {
        black_box(others.iter().filter(|&&hash| filter.probe(hash)).count());
    });
    let index = segment.index().unwrap();
    measure("index", ENTRIES, 20, || {
        black_box(wanted.iter().map(|key| index.find(key).unwrap().page).max());
    });
    let bytes = disk.bytes("s").unwrap();
    let page_of = |key: &[u8]| {
        let start = index.find(key).unwrap().page as usize * 4096;
        &bytes[start..start + 4096]
    };
    measure("index and page search", ENTRIES, 20, || {
        let found =
            wanted.iter().filter(|key| Page::view(page_of(&key[..])).find(&key[..]).is_some());
        assert_eq!(found.count(), ENTRIES);
    });
    let near: Vec<&[u8; 34]> =
        wanted.iter().filter(|key| index.find(&key[..]).unwrap().page < 5).collect();
    measure("page search, page in nearest cache", near.len() * 1_000, 5, || {
        for _ in 0..1_000 {
            let found =
                near.iter().filter(|key| Page::view(page_of(&key[..])).find(&key[..]).is_some());
            assert_eq!(found.count(), near.len());
        }
    });
    measure("page checksum, a page", 100_000, 5, || {
        for number in 0..100_000 {
            black_box(varvite::raw::format::checksum::page_crc(1, number, &bytes[4096..8188]));
        }
    });
    measure("page check, a page", 100_000, 5, || {
        for _ in 0..100_000 {
            black_box(segment.check_page(1, &bytes[4096..8192]).unwrap().count());
        }
    });
    let mut buffer = Buffer::new(4096);
    measure("page read and check, a page", 3_500, 20, || {
        for page in 1..=3_500 {
            black_box(segment.read_page(page, &mut buffer).unwrap().count());
        }
    });
}

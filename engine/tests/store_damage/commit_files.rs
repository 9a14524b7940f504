//! Hostile snapshots of commits: whatever they say, they cost a small multiple of their bytes.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::hash::hash;
use varvite::context::{Options, Store, verify_commit};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::format::checksum::{crc, crc_append, masked};
use varvite::format::codec::Encoder;

use crate::allocations::most;

const FILE: &str = "commit.snapshot";
const FULL: usize = 1 << 18;

/// A file of these records, whose frames are as they have to be, for Tezos' configuration.
fn file(records: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/context-snapshot/range.bin");
    let mut bytes = std::fs::read(golden).unwrap()[..81].to_vec();
    // The configuration: entries, flat limit, order of children.
    bytes[32..41].copy_from_slice(&[32, 0, 0, 0, 0, 1, 0, 0, 0]);
    let identity = bytes[12..20].to_vec();
    let sum = |bytes: &[u8]| masked(crc_append(crc(&identity), bytes)).to_le_bytes();
    let opening = sum(&bytes[32..77]);
    bytes[77..81].copy_from_slice(&opening);
    let (mut running, mut number, mut payload) = (hash(&bytes), 0_u64, Vec::new());
    let mut records = records.peekable();
    while let Some(record) = records.next() {
        payload.extend_from_slice(&record);
        if payload.len() < FULL && records.peek().is_some() {
            continue;
        }
        running = hash(&[&running[..], &payload].concat());
        let mut head = Encoder::new();
        head.u64(number);
        head.u32(payload.len() as u32);
        head.u32(payload.len() as u32);
        head.raw(&[0, 1]);
        head.raw(&running);
        let checksum = sum(&[head.bytes(), &payload].concat());
        bytes.extend_from_slice(head.bytes());
        bytes.extend_from_slice(&checksum);
        bytes.append(&mut payload);
        number += 1;
    }
    bytes
}

/// A value of 40 bytes.
fn value(number: u32) -> Vec<u8> {
    [&[1, 40][..], &[5; 36], &number.to_le_bytes()].concat()
}

/// A directory of a value in place and of one from the stack, so that it may be in place and has a hash.
fn directory(number: u32) -> Vec<u8> {
    [&[2, 2, 0x24, b'a'][..], &number.to_le_bytes(), &[0x30, b'b']].concat()
}

fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let many = 1_u32 << 19;
    // The slot of the value by its hash.
    let hashed = varvite::context::hash::value(&value(0)[2..]);
    let slot =
        (u32::from(hashed[0]) << 10) | (u32::from(hashed[1]) << 2) | u32::from(hashed[2] >> 6);
    let slot = slot.to_le_bytes();
    let repeat = vec![5, slot[0], slot[1], slot[2]];
    let small = (0..many).map(|_| vec![2, 1, 0x20, b'a']);
    let distinct =
        (0..many / 2).map(|number| [&[2, 1, 0x24, b'a'][..], &number.to_le_bytes()].concat());
    let repeats = std::iter::once(value(0)).chain((0..many).map(move |_| repeat.clone()));
    let values = (0..many).map(value);
    let with_hash = (0..many / 8).flat_map(|number| [value(number), directory(number)]);
    // Always one on the stack, and all of the table.
    let full_table = (0..many * 2).flat_map(|number| {
        let long = [&[1, 97][..], &[5; 93], &number.to_le_bytes()].concat();
        [long, directory(number)]
    });
    vec![
        ("small directories that wait", file(small)),
        ("distinct directories that wait", file(distinct)),
        ("repeats that wait", file(repeats)),
        ("values that wait", file(values)),
        ("directories with a hash that wait", file(with_hash)),
        ("a full table", file(full_table.take(900_000))),
    ]
}

#[test]
fn a_hostile_snapshot_costs_a_small_multiple_of_its_bytes() {
    for (what, bytes) in attacks() {
        let length = bytes.len();
        let disk = MemoryDisk::seeded(1);
        disk.replace(FILE, bytes).unwrap();
        let (outcome, verifying) = most(|| verify_commit(&*disk, FILE));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt, "{what}");
        let folder = tempfile::tempdir().unwrap();
        let target = varvite::disk::os::OsDisk::new(folder.path().to_str().unwrap()).unwrap();
        let share = 1 << 20;
        let options = Options {
            objects_bytes: share,
            hashes_bytes: share,
            pages_bytes: share,
            index_bytes: share,
            tree_bytes: 8 << 20,
            ..Options::default()
        };
        let mut store = Store::create(target as Arc<dyn Disk>, options).unwrap();
        let (outcome, importing) = most(|| store.import_commit(&*disk, FILE));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt, "{what}");
        println!("{what}: {length} bytes, {verifying} to verify, {importing} to import");
        let bound = (24_000_000 + 12 * length).min(100_000_000);
        assert!(verifying < bound, "{what}: {verifying} for {length} bytes");
        assert!(importing < bound, "{what}: {importing} for {length} bytes");
        assert_eq!(store.log(1).unwrap(), [] as [varvite::context::Hash; 0]);
    }
}

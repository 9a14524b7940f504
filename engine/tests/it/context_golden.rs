//! The context's golden files: read, written again byte for byte, described.

use std::sync::Arc;

use varvite::context::{CommitInfo, Configuration, Options, Store, Tree, inspect};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::Manifest;

use crate::golden::golden;

fn small_store() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let options = Options { seed: Some(42), ..Options::default() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["data", "a"], &[1]).unwrap();
    tree.add(&["data", "long"], &[b'x'; 16]).unwrap();
    let info = CommitInfo::new(&[], 7, "Tezos", "lvl 1");
    let hash = store.commit(&mut tree, &info).unwrap();
    store.set_branch(b"main", &hash).unwrap();
    store.begin_chunk().unwrap();
    store.close().unwrap();
    disk
}

#[test]
fn the_small_store_is_written_as_it_was_and_read() {
    let written = small_store();
    let disk = MemoryDisk::seeded(1);
    for (file, name) in [
        ("0000-000000.pack", "pack/small.bin"),
        ("0000-000001.pack", "pack/next.bin"),
        ("control", "control/small.bin"),
    ] {
        disk.replace(file, golden(name, &written.bytes(file).unwrap())).unwrap();
    }
    let manifest = written.bytes("index/snapshots/0000000000000000.snapshot").unwrap();
    let manifest = Manifest::decode("manifest", &manifest).unwrap();
    golden("hash-index/payload.bin", &manifest.payload);
    let store = Store::open_read_only(disk, Options::default()).unwrap();
    let hash = store.branch(b"main").unwrap();
    let tree = store.checkout(&hash).unwrap();
    assert_eq!(tree.find(&["data", "long"]).unwrap().unwrap(), [b'x'; 16]);
    assert_eq!(tree.find(&["data", "a"]).unwrap().unwrap(), [1]);
    let commit = store.commit_info(&hash).unwrap();
    assert_eq!((commit.date, &commit.message[..]), (7, &b"lvl 1"[..]));
}

/// A store of which the first of two commits was collected.
fn collected_store() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let options = Options { seed: Some(42), ..Options::default() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut hashes = Vec::new();
    for value in [b'x', b'y'] {
        let mut tree = Tree::empty(Configuration::TEZOS);
        tree.add(&["long"], &[value; 16]).unwrap();
        let info = CommitInfo::new(&[], 7, "Tezos", "lvl 1");
        hashes.push(store.commit(&mut tree, &info).unwrap());
    }
    store.pin(&hashes[1]).unwrap();
    store.collect(&hashes[1]).unwrap();
    while store.collect_step(100).unwrap() {}
    store.close().unwrap();
    disk
}

const SPARSE: &str = "0000-000000-1.pack";

#[test]
fn what_a_collection_kept_is_written_as_it_was_and_read() {
    let written = collected_store();
    let disk = written.snapshot();
    disk.replace(SPARSE, golden("sparse/small.bin", &written.bytes(SPARSE).unwrap())).unwrap();
    let control = golden("control/collected.bin", &written.bytes("control").unwrap());
    disk.replace("control", control).unwrap();
    let store = Store::open_read_only(disk, Options::default()).unwrap();
    let [hash] = store.log(9).unwrap()[..] else { panic!("one was kept") };
    assert_eq!(store.pins().unwrap(), [hash]);
    let tree = store.checkout(&hash).unwrap();
    assert_eq!(tree.find(&["long"]).unwrap().unwrap(), [b'y'; 16]);
    assert_eq!(store.check().unwrap().commits, 1);
}

/// A store of which the first of two commits is in the lower folder, with a value that the second has as well.
fn archived_store() -> (Arc<MemoryDisk>, Arc<MemoryDisk>) {
    let (disk, lower) = (MemoryDisk::seeded(1), MemoryDisk::seeded(2));
    let below = Some(Arc::clone(&lower) as Arc<dyn Disk>);
    let options = Options { seed: Some(42), chunk_bytes: 200, lower: below, ..Options::default() };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    let mut hashes = Vec::new();
    for value in [b'x', b'y'] {
        tree.add(&["first"], &[b'x'; 16]).unwrap();
        tree.add(&["last"], &[value; 17]).unwrap();
        let info = CommitInfo::new(&hashes, 7, "Tezos", "lvl 1");
        hashes = vec![store.commit(&mut tree, &info).unwrap()];
    }
    assert_eq!(store.archive(&hashes[0], 9).unwrap(), 1);
    store.close().unwrap();
    (disk, lower)
}

#[test]
fn what_stays_above_of_an_archive_is_written_as_it_was_and_read() {
    let (written, lower) = archived_store();
    let disk = written.snapshot();
    disk.replace(SPARSE, golden("sparse/above.bin", &written.bytes(SPARSE).unwrap())).unwrap();
    let control = golden("control/archived.bin", &written.bytes("control").unwrap());
    disk.replace("control", control).unwrap();
    let outline = inspect::file("control", &disk.bytes("control").unwrap()).unwrap().to_string();
    assert!(outline.contains("of them with a part above"), "{outline}");
    for lower in [None, Some(lower as Arc<dyn Disk>)] {
        let has_all = lower.is_some();
        let options = Options { lower, ..Options::default() };
        let store = Store::open_read_only(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
        let [new, old] = store
            .log(9)
            .map_or_else(|_| [store.last_commit().unwrap().unwrap(); 2], |all| [all[0], all[1]]);
        let tree = store.checkout(&new).unwrap();
        assert_eq!(tree.find(&["first"]).unwrap().unwrap(), [b'x'; 16]);
        assert_eq!(tree.find(&["last"]).unwrap().unwrap(), [b'y'; 17]);
        assert_eq!(has_all, old != new);
        if has_all {
            let tree = store.checkout(&old).unwrap();
            assert_eq!(tree.find(&["last"]).unwrap().unwrap(), [b'x'; 17]);
            assert_eq!(store.check().unwrap().commits, 2);
        }
    }
}

#[test]
fn a_control_file_of_the_version_before_is_read() {
    let disk = small_store();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/control/version-2.bin");
    disk.replace("control", std::fs::read(path).unwrap()).unwrap();
    let mut store = Store::open(disk, Options::default()).unwrap();
    let hash = store.branch(b"main").unwrap();
    assert!(store.checkout(&hash).unwrap().mem(&["data", "a"]).unwrap());
    assert!(store.pins().unwrap().is_empty() && store.checkpoint().is_ok());
}

#[test]
fn each_byte_of_a_sparse_chunk_counts() {
    let disk = collected_store();
    let bytes = disk.bytes(SPARSE).unwrap();
    let outline = inspect::file(SPARSE, &bytes).unwrap();
    assert_eq!(outline.damage_count(), 0, "{outline}");
    let reads = |bytes: Vec<u8>| {
        let disk = disk.snapshot();
        disk.replace(SPARSE, bytes).unwrap();
        let store = Store::open_read_only(disk, Options::default())?;
        let hash = store.log(9)?[0];
        let found = store.checkout(&hash)?.find(&["long"])?;
        assert_eq!(found.unwrap(), [b'y'; 16]);
        store.check().map(drop)
    };
    reads(bytes.clone()).unwrap();
    // Most are zeros that follow each other.
    for byte in (8..bytes.len()).filter(|byte| bytes[*byte] != 0 || byte % 97 == 0) {
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1;
        let outline = inspect::file(SPARSE, &damaged).unwrap();
        assert!(outline.damage_count() > 0, "byte {byte}: {outline}");
        // Nobody reads the zeros before the mapping.
        if let Ok(()) = reads(damaged) {
            let rest = bytes[byte..4096.max(byte)].iter();
            assert!(rest.clone().all(|byte| *byte == 0), "byte {byte} was not looked at");
        }
    }
    for length in (0..bytes.len()).step_by(97) {
        drop(inspect::file(SPARSE, &bytes[..length]));
        assert!(reads(bytes[..length].to_vec()).is_err(), "{length} bytes");
    }
}

#[test]
fn outlines_describe_sound_files_and_note_damage() {
    let disk = small_store();
    for file in ["0000-000000.pack", "0000-000001.pack", "control"] {
        let bytes = disk.bytes(file).unwrap();
        let outline = inspect::file(file, &bytes).unwrap();
        assert_eq!(outline.damage_count(), 0, "{outline}");
        for byte in 8..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[byte] ^= 1;
            let outline = inspect::file(file, &damaged).unwrap();
            assert!(outline.damage_count() > 0, "{file} byte {byte}: {outline}");
        }
        for length in 8..bytes.len() {
            drop(inspect::file(file, &bytes[..length]).unwrap().to_string());
        }
    }
}

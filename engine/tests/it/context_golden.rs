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

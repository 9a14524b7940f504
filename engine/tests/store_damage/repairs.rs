//! What a repair of an archive takes of memory where much of the lower folder is damaged.

use std::sync::Arc;

use varvite::context::{CommitInfo, Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::{Access, Disk, Mode};

use crate::allocations::most;

const CHUNK_BYTES: u64 = 600_000;
const BLOCKS: u64 = 200;

/// An archive of many chunks, each of which has values that the last commit has too.
fn archive() -> (Arc<dyn Disk>, Arc<MemoryDisk>) {
    let (upper, lower) = (MemoryDisk::seeded(1), MemoryDisk::seeded(2));
    let options = Options {
        lower: Some(Arc::clone(&lower) as Arc<dyn Disk>),
        chunk_bytes: CHUNK_BYTES,
        ..Options::default()
    };
    let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, options).unwrap();
    let mut tree = store.empty_tree();
    let mut last = None;
    for block in 0..BLOCKS {
        for value in 0..20_u64 {
            let bytes = [block.to_le_bytes(), value.to_le_bytes()].concat().repeat(200);
            tree.add(&[format!("{block:04}"), format!("{value}")], &bytes).unwrap();
        }
        let parents: Vec<_> = last.into_iter().collect();
        last = Some(store.commit(&mut tree, &CommitInfo::new(&parents, 0, "a", "b")).unwrap());
    }
    assert!(store.archive(&last.unwrap(), u64::MAX).unwrap() > 15);
    store.close().unwrap();
    (upper, lower)
}

/// The most that a repair takes where `count` of the chunks below are damaged.
fn repaired(count: usize) -> usize {
    let (upper, lower) = archive();
    for name in lower.files().iter().take(count) {
        let file = lower.open(name, Mode::Write, Access::Buffered).unwrap();
        let mut byte = [0];
        file.read_exact_at(CHUNK_BYTES / 2, &mut byte).unwrap();
        file.write_at(CHUNK_BYTES / 2, &[!byte[0]]).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let target: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let lower: Arc<dyn Disk> = lower;
    let repair = || Store::repair(&upper, Some(&lower), &target, &mut |_, _| Ok(()));
    let (found, bytes) = most(repair);
    let found = found.unwrap();
    assert_eq!(found.damage.len(), count, "{found:?}");
    assert_eq!(found.commits, BLOCKS, "{found:?}");
    bytes
}

#[test]
fn the_memory_of_a_repair_does_not_grow_with_the_chunks_that_are_damaged_below() {
    let (one, many) = (repaired(1), repaired(16));
    println!("{one} bytes with one chunk, {many} with sixteen");
    assert!(many < one + 2_000_000, "{one}, {many}");
}

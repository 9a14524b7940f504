//! Records that a collection writes anew, since the bases that they were patches of go: what a reader beside it finds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use varvite::Result;
use varvite::context::{CommitHash, CommitInfo, Index, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::context_collect::content;
use crate::hooked_disk::{Call, HookedDisk};

fn options(index: Index) -> Options {
    Options {
        index,
        seed: Some(9),
        chunk_bytes: 500,
        objects_bytes: 0,
        pages_bytes: 0,
        hashes_bytes: 0,
        max_open_files: Some(2),
        ..Options::default()
    }
}

/// Commits that each change one of forty entries: patches, in chunks of their own.
fn story(disk: Arc<dyn Disk>, index: Index) -> Result<(Store, Vec<CommitHash>)> {
    let mut store = Store::create(disk, options(index))?;
    let mut tree = store.empty_tree();
    for entry in 0..40 {
        tree.add(&["d", &format!("{entry:02}")], &[0; 8])?;
    }
    let mut commits = Vec::new();
    for number in 0..9_u8 {
        tree.add(&["d", &format!("{:02}", number * 7 % 40)], &[number; 8])?;
        commits.push(store.commit(&mut tree, &CommitInfo::new(&[], number.into(), "a", "b"))?);
        store.begin_chunk()?;
    }
    Ok((store, commits))
}

#[test]
fn a_chain_that_is_read_while_its_records_are_written_anew_is_read_again() {
    let (mut interrupted, mut number) = (0, 0);
    loop {
        number += 1;
        let disk = MemoryDisk::seeded(1);
        let (mut store, commits) = story(Arc::<MemoryDisk>::clone(&disk), Index::Minimal).unwrap();
        let (newest, target) = (commits[8], commits[7]);
        let expected = content(&store.checkout(&newest).unwrap()).unwrap();
        store.collect(&target).unwrap();
        let (store, reads) = (Arc::new(Mutex::new(store)), Arc::new(AtomicU64::new(0)));
        let (writer, counted) = (Arc::clone(&store), Arc::clone(&reads));
        let hooked = HookedDisk::new(disk, move |call, _| {
            if call == Call::Read && counted.fetch_add(1, Ordering::SeqCst) + 1 == number {
                while writer.lock().unwrap().collect_step(1_000).unwrap() {}
            }
        });
        let reader = Store::open_read_only(hooked, options(Index::Minimal)).unwrap();
        let opened = reads.load(Ordering::SeqCst);
        let tree = reader.checkout(&newest).unwrap();
        assert_eq!(content(&tree).unwrap(), expected, "read {number}");
        interrupted += u64::from((opened + 1..=reads.load(Ordering::SeqCst)).contains(&number));
        if reads.load(Ordering::SeqCst) < number {
            break;
        }
    }
    assert!(interrupted > 5, "{interrupted}");
}

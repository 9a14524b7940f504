//! What one step of a collection does at most, however long chunks are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varvite::context::{CollectPhase, CommitInfo, Options, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::hooked_disk::HookedDisk;

/// Two windows, of which the second is for a record that the first does not hold whole, and a little; less than a
/// mapping of [`RECORDS`].
const MOST: u64 = 540 << 10;

const RECORDS: u32 = 70_000;

fn written(disk: &MemoryDisk) -> u64 {
    let sparse = |name: &String| name.matches('-').count() == 2;
    let files = disk.files().into_iter().filter(sparse);
    files.map(|name| disk.bytes(&name).unwrap().len() as u64).sum()
}

#[test]
fn a_step_reads_and_writes_a_bounded_amount() {
    let memory = MemoryDisk::seeded(1);
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let disk = HookedDisk::counting_reads(Arc::clone(&memory) as Arc<dyn Disk>, move |_, bytes| {
        count.fetch_add(bytes as u64, Ordering::Relaxed);
    });
    let options = Options { seed: Some(9), pages_bytes: 0, ..Options::default() };
    let mut store = Store::create(disk as Arc<dyn Disk>, options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..RECORDS {
        let mut value = [7; 70];
        value[..4].copy_from_slice(&number.to_le_bytes());
        tree.add(&["data", &format!("{:03}", number / 100), &format!("{number}")], &value).unwrap();
    }
    let mut commits = Vec::new();
    for round in 0..4 {
        tree.add(&["round"], &[round; 100]).unwrap();
        let info = CommitInfo::new(&[], i64::from(round), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    // The first collection finds a whole chunk, the second a sparse one.
    store.pin(&commits[0]).unwrap();
    for target in [2, 3] {
        store.collect(&commits[target]).unwrap();
        let (mut steps, mut left) = (0, true);
        while left {
            let before = (read.load(Ordering::Relaxed), written(&memory));
            left = store.collect_step(16).unwrap();
            let (reads, writes) = (
                read.load(Ordering::Relaxed) - before.0,
                written(&memory).saturating_sub(before.1),
            );
            assert!(reads <= MOST, "step {steps} to {target} read {reads} bytes");
            assert!(writes <= MOST, "step {steps} to {target} wrote {writes} bytes");
            steps += 1;
        }
        assert!(steps > 50, "{steps}");
        tree = store.checkout(&commits[target]).unwrap();
        tree.add(&["more"], &[target as u8; 100]).unwrap();
        let info = CommitInfo::new(&[], 10 + target as i64, "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    assert!(store.checkout(&commits[0]).unwrap().mem(&["data", "000", "0"]).unwrap());
}

/// Values of more than a few KiB are read once, not each with a window of its own.
#[test]
fn marking_reads_large_records_once() {
    let memory = MemoryDisk::seeded(1);
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let disk = HookedDisk::counting_reads(memory as Arc<dyn Disk>, move |_, bytes| {
        count.fetch_add(bytes as u64, Ordering::Relaxed);
    });
    let options = Options { seed: Some(9), ..Options::default() };
    let mut store = Store::create(disk as Arc<dyn Disk>, options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..500_u32 {
        tree.add(&["data", &format!("{number}")], &number.to_le_bytes().repeat(1_000)).unwrap();
    }
    store.commit(&mut tree, &CommitInfo::new(&[], 0, "a", "b")).unwrap();
    store.begin_chunk().unwrap();
    tree.add(&["more"], &[1; 40]).unwrap();
    let target = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    let bytes = store.stats().pack_bytes;
    store.collect(&target).unwrap();
    let before = read.load(Ordering::Relaxed);
    while store.collect_status().unwrap().phase == CollectPhase::Marking {
        assert!(store.collect_step(64).unwrap());
    }
    let marking = read.load(Ordering::Relaxed) - before;
    assert!(marking > bytes / 2 && marking < 2 * bytes, "{marking} bytes were read of {bytes}");
}

/// The chunk of the target is read for what else stays, and its file goes as soon as another has taken its place, while
/// older ones are still to be cleaned.
#[test]
fn a_collection_lets_go_of_the_chunk_that_it_began_with() {
    let memory = MemoryDisk::seeded(1);
    let options = Options { seed: Some(9), chunk_bytes: 200, ..Options::default() };
    let mut store = Store::create(Arc::clone(&memory) as Arc<dyn Disk>, options).unwrap();
    let (mut tree, mut commits) = (store.empty_tree(), Vec::new());
    for block in 0..6_u8 {
        tree.add(&["passing"], &[block; 100]).unwrap();
        tree.add(&["lasting", &block.to_string()], &[block; 100]).unwrap();
        let info = CommitInfo::new(&[], i64::from(block), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    let whole = |number: u64| format!("0000-{number:06}.pack");
    let target = store.chunks()[4].number;
    assert!(memory.exists(&whole(target)).unwrap(), "{:?}", memory.files());
    store.collect(&commits[4]).unwrap();
    let mut seen = false;
    while store.collect_step(16).unwrap() {
        seen |= !memory.exists(&whole(target)).unwrap() && memory.exists(&whole(0)).unwrap();
    }
    assert!(seen, "{:?}", memory.files());
}

/// On a disk that nobody has read yet each read of a record by itself waits for it, so a step that writes nodes without their
/// bases is shorter by those that it reads.
#[test]
fn a_step_reads_few_records_by_themselves() {
    const CREDITS: u64 = 200;
    let memory = MemoryDisk::seeded(1);
    let read = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&read);
    let disk = HookedDisk::counting_reads(memory as Arc<dyn Disk>, move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let options = Options {
        seed: Some(9),
        chunk_bytes: 100_000,
        pages_bytes: 0,
        objects_bytes: 0,
        ..Options::default()
    };
    let mut store = Store::create(disk as Arc<dyn Disk>, options).unwrap();
    let (mut tree, mut target) = (store.empty_tree(), None);
    for block in 0..50_u8 {
        for directory in 0..80 {
            for name in 0..if block == 0 { 30 } else { 1 } {
                let name = format!("{}", name + block % 30);
                tree.add(&[&format!("{directory}"), &name], &[block; 40]).unwrap();
            }
        }
        // Goes, so that there is room for what is written in full.
        tree.add(&["passing"], &vec![block; 40_000]).unwrap();
        let info = CommitInfo::new(&[], i64::from(block), "a", "b");
        target = Some(store.commit(&mut tree, &info).unwrap());
        tree = store.checkout(&target.unwrap()).unwrap();
    }
    store.collect(&target.unwrap()).unwrap();
    let mut most = 0;
    loop {
        let before = read.load(Ordering::Relaxed);
        let left = store.collect_step(CREDITS).unwrap();
        most = most.max(read.load(Ordering::Relaxed) - before);
        if !left {
            break;
        }
    }
    assert!(most > 20, "{most}");
    assert!(most <= CREDITS * 2 / 3, "{most} reads in a step");
}

//! The largest that a context takes, and what it costs when something is damaged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use varvite::Kind;
use varvite::context::{
    ChildOrder, CommitHash, CommitInfo, Configuration, Keep, Options, Store, Tree, VALUE_MAX,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::file::append::{Position, open_reader, scan};
use varvite::raw::format::header::FileKind;

use crate::hooked_disk::{Call, HookedDisk};

#[test]
fn a_value_that_no_record_can_hold_is_refused_when_it_is_added() {
    let long = vec![0; VALUE_MAX + 1];
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["data", "a"], b"1").unwrap();
    let before = tree.hash().unwrap();
    let error = tree.add(&["data", "long"], &long).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid);
    assert!(error.detail().contains("data/long"), "{error}");
    let error = tree.add_tree(&["x"], &Tree::of_value(Configuration::TEZOS, &long)).unwrap_err();
    assert!(error.kind() == Kind::Invalid && error.detail().contains("\"x\""), "{error}");
    assert_eq!(tree.hash().unwrap(), before);
}

/// The places of a cache are taken when it is made.
#[test]
fn more_memory_than_a_machine_has_is_refused_by_name() {
    type Set = fn(&mut Options, u64);
    let set: [(&str, Set); 4] = [
        ("objects_bytes", |options, bytes| options.objects_bytes = bytes),
        ("hashes_bytes", |options, bytes| options.hashes_bytes = bytes),
        ("pages_bytes", |options, bytes| options.pages_bytes = bytes),
        ("index_bytes", |options, bytes| options.index_bytes = bytes),
    ];
    let there = MemoryDisk::seeded(1);
    drop(Store::create(Arc::clone(&there) as Arc<dyn Disk>, Options::default()).unwrap());
    for (name, set) in set {
        for bytes in [(1 << 36) + 1, u64::MAX] {
            let mut options = Options::default();
            set(&mut options, bytes);
            for opened in [
                Store::create(MemoryDisk::seeded(1), options.clone()),
                Store::open(Arc::clone(&there) as Arc<dyn Disk>, options.clone()),
                Store::open_read_only(Arc::clone(&there) as Arc<dyn Disk>, options.clone()),
            ] {
                let error = opened.map(drop).unwrap_err();
                assert_eq!(error.kind(), Kind::Invalid, "{error}");
                assert!(error.to_string().contains(name), "{error}");
            }
        }
    }
}

#[test]
fn the_names_of_any_flat_directory_fit_in_a_record() {
    let widest = Configuration::new(1024, 4096, ChildOrder::SeededHash).unwrap();
    assert!(widest.stable_hash() * varvite::context::NAME_MAX <= 1 << 28);
    assert!(Configuration::new(2, 65_536, ChildOrder::SeededHash).is_err());
}

/// A tree of no store whose records are more than one batch should have.
#[test]
fn a_tree_of_no_store_is_committed_in_pieces() {
    let disk = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    for number in 0..6_u8 {
        tree.add(&[&b"data"[..], &[number]], &vec![number; 25 << 20]).unwrap();
    }
    tree.add(&["data", "small"], b"1").unwrap();
    let expected = tree.hash().unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(store);
    let (file, header) = open_reader(&*disk, "0000-000000.pack", FileKind::Pack).unwrap();
    let mut lengths = Vec::new();
    scan(&*file, header.identity, Position::start(), |_, payload| {
        lengths.push(payload.len());
        Ok(())
    })
    .unwrap();
    // The opening of the chunk, and pieces of which each of these values ends one.
    assert!(lengths.len() == 8 && lengths.iter().all(|it| *it < 90 << 20), "{lengths:?}");
    let store = Store::open(disk, Options::default()).unwrap();
    let read = store.checkout(&hash).unwrap();
    assert_eq!(read.hash().unwrap(), expected);
    assert_eq!(read.find(&[&b"data"[..], &[5]]).unwrap(), Some(vec![5; 25 << 20]));
    assert_eq!(store.check().unwrap().commits, 1);
}

/// A store of many commits with a small pack.
fn many(disk: &Arc<dyn Disk>, count: u64) -> (Store, Vec<CommitHash>) {
    let mut store = Store::create(Arc::clone(disk), Options::default()).unwrap();
    let mut hashes: Vec<CommitHash> = Vec::new();
    let mut tree = store.empty_tree();
    for number in 0..count {
        tree.add(&["data"], &number.to_le_bytes().repeat(4)).unwrap();
        let parents: Vec<CommitHash> = hashes.last().copied().into_iter().collect();
        let info = CommitInfo::new(&parents, number as i64, "a", "b");
        hashes.push(store.commit(&mut tree, &info).unwrap());
    }
    (store, hashes)
}

#[test]
fn a_check_reads_the_disk_and_not_what_the_handle_remembers() {
    let disk = MemoryDisk::seeded(1);
    let (store, hashes) = many(&(Arc::clone(&disk) as Arc<dyn Disk>), 300);
    let name = "0000-000000.pack";
    let sound = disk.bytes(name).unwrap();
    store.check().unwrap();
    for hash in &hashes {
        store.checkout(hash).unwrap().find(&["data"]).unwrap();
    }
    let file =
        disk.open(name, varvite::disk::Mode::Write, varvite::disk::Access::Buffered).unwrap();
    let mut caught = 0;
    for place in (600..sound.len() - 4096).step_by(1009) {
        file.write_at(place as u64, &[!sound[place]]).unwrap();
        if let Err(error) = store.check() {
            assert_eq!(error.kind(), Kind::Corrupt, "{place}: {error}");
            caught += 1;
        }
        file.write_at(place as u64, &sound[place..=place]).unwrap();
    }
    // The rest is heads of batches, which only a scan looks at.
    assert!(caught * 3 > sound.len() / 1009 * 2, "{caught} of {} bytes", sound.len());
    store.check().unwrap();
}

/// One page of the index is damaged: all lookups of its commits together read the history about once.
#[test]
fn a_damaged_page_of_the_index_costs_one_reading_of_the_history() {
    const COMMITS: u64 = 600;
    let inner = MemoryDisk::seeded(1);
    let (store, hashes) = many(&(Arc::clone(&inner) as Arc<dyn Disk>), COMMITS);
    store.close().unwrap();
    let segment = inner.files().into_iter().find(|name| name.contains("segments/")).unwrap();
    let mut bytes = inner.bytes(&segment).unwrap();
    // Pages follow the header page; one in the middle.
    let at = (bytes.len() / 4096 / 2 * 4096 + 100).max(4196);
    bytes[at] ^= 1;
    inner.replace(&segment, bytes).unwrap();
    let reads = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&reads);
    let disk: Arc<dyn Disk> = HookedDisk::new(inner, move |call, path| {
        if call == Call::Read && path.contains(".pack") {
            counter.fetch_add(1, Relaxed);
        }
    });
    let options = Options { pages_bytes: 0, ..Options::default() };
    for open in [Store::open_read_only, Store::open] {
        let mut store = open(Arc::clone(&disk), options.clone()).unwrap();
        assert!(store.warnings().is_empty(), "{:?}", store.warnings());
        reads.store(0, Relaxed);
        for hash in hashes.iter().chain(&hashes) {
            assert!(store.exists(hash).unwrap());
        }
        let warnings = store.warnings();
        assert!(warnings.len() == 1 && warnings[0].contains("rebuilt"), "{warnings:?}");
        // One for each lookup, to see that the index is right, and the history.
        let reads = reads.load(Relaxed);
        assert!(reads < 4 * COMMITS, "{reads} reads for {} lookups", 2 * COMMITS);
        assert!(!store.exists(&[1; 32].into()).unwrap());
        if store.rebuild_index().is_ok() {
            assert!(hashes.iter().all(|hash| store.exists(hash).unwrap()));
            assert!(store.check().unwrap().index_faults.is_empty());
        }
    }
}

/// Trees of before a clearing have what they have open. Once another opening has removed the rest they say why
/// it is missing, in the same process and in a reader.
#[test]
fn a_tree_of_before_a_clearing_says_that_the_store_was_cleared() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let options = Options {
        chunk_bytes: 4000,
        max_open_files: Some(8),
        objects_bytes: 0,
        pages_bytes: 0,
        ..Options::default()
    };
    let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..40_u8 {
        tree.add(&[&[number][..], b"value"], &[number; 3000]).unwrap();
        store.commit(&mut tree, &CommitInfo::default()).unwrap();
    }
    assert!(store.stats().chunks > 20);
    store.close().unwrap();
    let mut store = Store::open(Arc::clone(&disk), options.clone()).unwrap();
    let tree = store.checkout(&store.last_commit().unwrap().unwrap()).unwrap();
    let reader = Store::open_read_only(Arc::clone(&disk), options.clone()).unwrap();
    let read = reader.checkout(&reader.last_commit().unwrap().unwrap()).unwrap();
    let find = |tree: &Tree, number: u8| tree.find(&[&[number][..], b"value"]);
    store.clear().unwrap();
    for number in 0..40 {
        assert_eq!(find(&tree, number).unwrap(), Some(vec![number; 3000]), "{number}");
    }
    drop(store);
    let store = Store::open(Arc::clone(&disk), options).unwrap();
    for tree in [&tree, &read] {
        let mut missing = 0;
        for number in 0..40 {
            match find(tree, number) {
                Ok(found) => assert_eq!(found, Some(vec![number; 3000]), "{number}"),
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Missing, "{error}");
                    assert!(error.detail().contains("cleared"), "{error}");
                    missing += 1;
                }
            }
        }
        assert!(missing > 10, "{missing} of 40 were missing");
    }
    store.close().unwrap();
}

/// Each of the small directories is written while the large ones above it are not held whole.
#[test]
fn an_export_reads_a_wide_directory_about_once() {
    let disk = MemoryDisk::seeded(1);
    let read = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&read);
    let counting = HookedDisk::counting_reads(disk, move |_, bytes| {
        counter.fetch_add(bytes as u64, Relaxed);
    });
    let options = Options { objects_bytes: 1 << 20, pages_bytes: 1 << 20, ..Options::default() };
    let mut store = Store::create(counting, options).unwrap();
    let mut wide = store.empty_tree();
    // Names of the longest.
    for number in 0..254 {
        let name = format!("{number:03}{}", "-".repeat((1 << 16) - 3));
        if number < 40 {
            // With what is in one of them the wide one is more than an export holds.
            for inner in 0..4 {
                let inner = format!("{inner}{}", "-".repeat((1 << 16) - 1));
                wide.add(&[&name, &inner], &[number; 1_000]).unwrap();
            }
        } else {
            wide.add(&[name], b"1").unwrap();
        }
    }
    let mut tree = store.empty_tree();
    for path in ["first", "second"] {
        let mut own = wide.clone();
        own.add(&["own"], path.as_bytes()).unwrap();
        own.add_tree(&["wide"], &wide).unwrap();
        tree.add_tree(&[path], &own).unwrap();
    }
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop((tree, wide));
    read.store(0, Relaxed);
    let to: Arc<dyn Disk> = MemoryDisk::seeded(2);
    let file = store.export_commit(&commit, &to, "file").unwrap();
    let read = read.load(Relaxed);
    assert!(read < 8 * file.bytes, "{read} bytes read for {}", file.bytes);
}

/// The most that a collection of `accounts` accounts, each an object by itself, held while it went on in steps of so many
/// credits, and how often one of them wrote to what it made of a chunk.
fn most_of_collecting(accounts: u64, chunk_bytes: u64, credits: u64) -> (u64, u64) {
    let name = |account: u64| format!("{:016x}", account.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let writes = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&writes);
    let disk = HookedDisk::new(MemoryDisk::seeded(1), move |call, path| {
        counter.fetch_add(u64::from(call == Call::Write && path.contains(".pack")), Relaxed);
    });
    let options = Options { chunk_bytes, ..Options::default() };
    let mut store = Store::create(disk, options).unwrap();
    let mut tree = store.empty_tree();
    let commit = |store: &mut Store, tree: &mut Tree, level: i64| {
        store.commit(tree, &CommitInfo::new(&[], level, "", "")).unwrap();
    };
    // Longer than what lies with the name.
    let value = |level: u64, account: u64| format!("{level:040} {account:040}");
    for account in 0..accounts {
        tree.add(&["a", &name(account)], value(0, account).as_bytes()).unwrap();
        if account % 5_000 == 4_999 {
            commit(&mut store, &mut tree, 0);
        }
    }
    for level in 1..=40 {
        for change in 0..100 {
            let account = (level * 7_919 + change * 104_729) % accounts;
            tree.add(&["a", &name(account)], value(level, account).as_bytes()).unwrap();
        }
        commit(&mut store, &mut tree, level as i64);
    }
    assert_eq!(store.collect_status().unwrap().memory_bytes, 0);
    assert!(store.collect_keeping(&Keep::Newest(10)).unwrap());
    let (mut most, mut most_writes, mut more) = (0, 0, true);
    while more {
        most = most.max(store.collect_status().unwrap().memory_bytes);
        writes.store(0, Relaxed);
        more = store.collect_step(credits).unwrap();
        most_writes = most_writes.max(writes.load(Relaxed));
    }
    assert_eq!(store.collect_status().unwrap().memory_bytes, 0, "it has ended");
    (most, most_writes)
}

#[test]
fn a_collection_takes_some_bytes_of_memory_for_an_object() {
    let [few, many] = [20_000, 60_000].map(|accounts| most_of_collecting(accounts, 1 << 20, 64).0);
    let each = (many - few) as f64 / 40_000.0;
    // A byte for each cell of 32 bytes where records that stay are close, words where they are not, and notes of patches.
    assert!((1.0..16.0).contains(&each), "{each} bytes for each account, {few} and {many} in all");
    // Whatever there is: what it reads and writes at once.
    assert!(few < 2 << 20, "{few} bytes of 20,000 accounts");
}

#[test]
fn a_step_makes_no_more_writes_for_the_mapping_of_a_chunk_than_for_its_records() {
    // All of the accounts are in one chunk. The mapping is more than a MiB, and of a MiB of records that are copied a step
    // pays for the half.
    let (_, writes) = most_of_collecting(140_000, 64 << 20, 1_000);
    assert!((1..=3).contains(&writes), "{writes} writes of 256 KiB in one step");
}

//! Hostile snapshots of commits: whatever they say, they cost a small multiple of their bytes.

use std::sync::Arc;

use varvite::Kind;
use varvite::context::hash::hash;
use varvite::context::{
    CommitFile, CommitHash, CommitInfo, Index, Options, Store, Tree, verify_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::raw::format::checksum::{crc, crc_append, masked};
use varvite::raw::format::codec::Encoder;

use crate::allocations::most;

const FILE: &str = "commit.snapshot";
const FULL: usize = 1 << 18;

/// A file of these records, whose frames are as they have to be, for Tezos' configuration: as they are, and
/// compressed as far as may be.
fn files(records: impl Iterator<Item = Vec<u8>> + Clone, commits: u32) -> [Vec<u8>; 2] {
    [file(records.clone(), commits, None), file(records, commits, Some(&[]))]
}

/// Compressed with these bytes behind each frame of zstd's, or plain.
fn file(records: impl Iterator<Item = Vec<u8>>, commits: u32, packed: Option<&[u8]>) -> Vec<u8> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/context-snapshot/range.bin");
    let mut bytes = std::fs::read(golden).unwrap()[..81].to_vec();
    // The configuration: entries, flat limit, order of children.
    bytes[32..41].copy_from_slice(&[32, 0, 0, 0, 0, 1, 0, 0, 0]);
    bytes[41..45].copy_from_slice(&commits.to_le_bytes());
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
        let padding = packed.unwrap_or_default();
        let packs = packed.is_some();
        let packed = [&zstd::bulk::compress(&payload, 3).unwrap()[..], padding].concat();
        let packs = packs && packed.len() < payload.len() && payload.len() <= 64 * packed.len();
        let stored = if packs { &packed } else { &payload };
        let mut head = Encoder::new();
        head.u64(number);
        head.u32(payload.len() as u32);
        head.u32(stored.len() as u32);
        head.raw(&[u8::from(packs), 1]);
        head.raw(&running);
        let checksum = sum(&[head.bytes(), stored].concat());
        bytes.extend_from_slice(head.bytes());
        bytes.extend_from_slice(&checksum);
        bytes.extend_from_slice(stored);
        payload.clear();
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

/// A directory of a directory, and so on.
fn chain(levels: usize) -> impl Iterator<Item = Vec<u8>> + Clone {
    let bottom = std::iter::once(vec![2, 1, 0x20, b'a']);
    bottom.chain(std::iter::repeat_n(vec![2, 1, 0x31, b'a'], levels))
}

fn attacks() -> Vec<(&'static str, [Vec<u8>; 2])> {
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
    // A root that is worth a slot, and commits of it without end.
    let long = vec![7; 100];
    let root = [&[2, 1, 0x30, b'a'][..]].concat();
    let first = [[&[1, 100][..], &long].concat(), root];
    let root_of = {
        let mut tree = varvite::context::Tree::empty(varvite::context::Configuration::TEZOS);
        tree.add(&["a"], &long).unwrap();
        tree.hash().unwrap()
    };
    let root_hash: &[u8; 32] = root_of.as_ref().try_into().unwrap();
    let slot = (u32::from(root_hash[0]) << 10)
        | (u32::from(root_hash[1]) << 2)
        | u32::from(root_hash[2] >> 6);
    let slot = slot.to_le_bytes();
    let again = vec![5, slot[0], slot[1], slot[2]];
    let commit = |number: u32| {
        let date = u64::from(number).to_le_bytes();
        [&[6][..], &date, &[0, 0, 0]].concat()
    };
    let commits = (0..many).flat_map(move |number| match number {
        0 => vec![first[0].clone(), first[1].clone(), commit(0)],
        _ => vec![again.clone(), commit(number)],
    });
    vec![
        ("small directories that wait", files(small, 1)),
        ("distinct directories that wait", files(distinct, 1)),
        ("repeats that wait", files(repeats, 1)),
        ("values that wait", files(values, 1)),
        ("directories with a hash that wait", files(with_hash, 1)),
        ("a deep chain", files(chain(many as usize), 1)),
        ("a full table", files(full_table.take(900_000), 1)),
        ("commits that lead nowhere", files(commits.clone(), 1 << 16)),
        ("more commits than there are", files(commits.take(9), 1 << 16)),
    ]
}

/// An empty store of little memory.
fn target(folder: &tempfile::TempDir, options: Options, tree_bytes: u64) -> Store {
    let target = varvite::disk::os::OsDisk::new(folder.path().to_str().unwrap()).unwrap();
    let share = 1 << 20;
    let options = Options {
        objects_bytes: share,
        hashes_bytes: share,
        pages_bytes: share,
        index_bytes: share,
        tree_bytes,
        ..options
    };
    Store::create(target as Arc<dyn Disk>, options).unwrap()
}

#[test]
fn a_hostile_snapshot_costs_a_small_multiple_of_its_bytes() {
    let forms = |(what, [plain, packed]): (&'static str, [Vec<u8>; 2])| {
        let expanded = plain.len();
        assert!(packed.len() <= expanded && expanded <= 64 * packed.len());
        [(what, plain, expanded), (what, packed, expanded)]
    };
    for (what, bytes, expanded) in attacks().into_iter().flat_map(forms) {
        let length = bytes.len();
        let disk = MemoryDisk::seeded(1);
        disk.replace(FILE, bytes).unwrap();
        let (outcome, verifying) = most(|| verify_commit(&*disk, FILE));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt, "{what}");
        let folder = tempfile::tempdir().unwrap();
        let mut store = target(&folder, Options::default(), 8 << 20);
        let (outcome, importing) = most(|| store.import_commit(&*disk, FILE));
        assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt, "{what}");
        println!("{what}: {length} bytes, {verifying} to verify, {importing} to import");
        let bound = (32_000_000 + 12 * expanded).min(100_000_000);
        assert!(verifying < bound, "{what}: {verifying} for {length} bytes");
        assert!(importing < bound, "{what}: {importing} for {length} bytes");
        assert_eq!(store.log(1).unwrap(), [] as [varvite::context::Hash; 0]);
    }
}

/// Commits whose texts or parents are longer than a store takes are refused by all who read the file, before
/// anything is added.
#[test]
fn a_commit_that_no_store_can_have_is_refused_at_once() {
    let after = |said: &[u8], length| {
        let mut record = Encoder::new();
        record.raw(said);
        record.varint(length);
        record.finish()
    };
    let long = after(&[6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], (1 << 20) + 1);
    let many = after(&[6, 0, 0, 0, 0, 0, 0, 0, 0], (1 << 16) + 1);
    for (what, last) in [("message", long), ("parents", many)] {
        let records = [value(0), vec![2, 1, 0x30, b'a'], last];
        let disk = MemoryDisk::seeded(1);
        disk.replace(FILE, file(records.into_iter(), 1, None)).unwrap();
        let error = verify_commit(&*disk, FILE).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
        assert!(error.to_string().contains("at most"), "{what}: {error}");
    }
}

/// A store that finds every object asks its index for what is live: each object once, however many of those that are asked
/// for it is below. Here some 6,000 are live when it first does, each below all of the next.
#[test]
fn a_deep_chain_costs_no_square_of_its_depth_where_every_object_is_found() {
    let disk = MemoryDisk::seeded(1);
    disk.replace(FILE, file(chain(20_000), 1, None)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = Options { index: Index::Always, ..Options::default() };
    let mut store = target(&folder, options, 2 << 20);
    let (outcome, importing) = most(|| store.import_commit(&*disk, FILE));
    assert_eq!(outcome.unwrap_err().kind(), Kind::Corrupt);
    println!("{importing} to import");
    assert!(importing < 60_000_000, "{importing}");
}

/// What commits say is kept until the last one is verified, so a file may not have any amount of it: here 100 MB, which
/// compress to almost nothing.
#[test]
fn what_commits_say_is_bounded_in_all() {
    let text = vec![b' '; 250_000];
    let root = [value(0), vec![2, 1, 0x30, b'a']];
    let said = |number: u32| {
        let mut record = Encoder::new();
        record.raw(&[6]);
        record.u64(u64::from(number));
        record.raw(&[0, 0]);
        record.bytes_with_length(&text);
        record.finish()
    };
    let records = (0..400_u32).flat_map(|number| [root[0].clone(), root[1].clone(), said(number)]);
    // The value is worth a slot, so it has to be another each time.
    let records = records.enumerate().map(|(index, record)| match index % 3 {
        0 => value(index as u32),
        _ => record,
    });
    let bytes = file(records, 400, Some(&[]));
    println!("{} bytes", bytes.len());
    let disk = MemoryDisk::seeded(1);
    disk.replace(FILE, bytes).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut store = target(&folder, Options::default(), 8 << 20);
    let (verified, verifying) = most(|| verify_commit(&*disk, FILE));
    let (imported, importing) = most(|| store.import_commit(&*disk, FILE));
    println!("{verifying} to verify, {importing} to import");
    for error in [verified.unwrap_err(), imported.unwrap_err()] {
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.to_string().contains("bytes of texts and parents"), "{error}");
    }
    assert!(verifying.max(importing) < 80_000_000, "{verifying} and {importing}");
}

/// A frame of zstd's that is to be skipped would be room for anything, and lets a file expand to more than 64 times
/// what it is worth.
#[test]
fn a_compressed_frame_has_nothing_beside_it() {
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 8, 0, 0, 0][..], &[0; 8]].concat();
    let empty = zstd::bulk::compress(&[], 3).unwrap();
    let records = || (0..200).map(|_| vec![2, 1, 0x20, b'a']);
    for (padding, says) in
        [(&[][..], "another frame"), (&skipped, "of the length"), (&empty, "of the length")]
    {
        let disk = MemoryDisk::seeded(1);
        disk.replace(FILE, file(records(), 1, Some(padding))).unwrap();
        let error = verify_commit(&*disk, FILE).unwrap_err();
        assert!(error.to_string().contains(says), "{} bytes: {error}", padding.len());
    }
}

/// What an export would have in work at once is refused by all who read it, so that what is taken over can be exported.
#[test]
fn a_path_that_no_export_can_write_is_refused() {
    for (levels, is_refused) in [(250_000, false), (270_000, true)] {
        let disk = MemoryDisk::seeded(1);
        disk.replace(FILE, file(chain(levels), 1, None)).unwrap();
        let error = verify_commit(&*disk, FILE).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert_eq!(error.to_string().contains("on one path"), is_refused, "{levels}: {error}");
    }
    // 66,000 bytes a level.
    let long = "x".repeat(65_532);
    let names: Vec<String> = (0..1_100).map(|level| format!("{long}{level:04}")).collect();
    for (levels, is_refused) in [(1_000, false), (1_030, true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = target(&folder, Options::default(), 8 << 20);
        let mut tree = store.empty_tree();
        tree.add(&names[..levels], b"1").unwrap();
        let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        drop(tree);
        let out = tempfile::tempdir().unwrap();
        let (to, outcome, exporting) = exported(&store, &commit, &out);
        println!("{levels} levels: {exporting} to export");
        assert!(exporting < 110_000_000, "{exporting}");
        if is_refused {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.to_string().contains("too deep"), "{error}");
            assert!(to.list("").unwrap().is_empty());
        } else {
            assert_eq!(verify_commit(&*to, FILE).unwrap().hash, outcome.unwrap().hash);
        }
    }
}

/// Exports to `folder`, so that the file takes no memory, and says how much the export took.
fn exported(
    store: &Store,
    commit: &CommitHash,
    folder: &tempfile::TempDir,
) -> (Arc<dyn Disk>, varvite::Result<CommitFile>, usize) {
    let disk: Arc<dyn Disk> = OsDisk::new(folder.path()).unwrap();
    let (outcome, bytes) = most(|| store.export_commit(commit, &disk, FILE));
    (disk, outcome, bytes)
}

/// Of a deep tree of wide directories the pieces further up are read again when an export comes back to them.
#[test]
fn an_export_holds_few_of_the_directories_on_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = target(&folder, Options::default(), 8 << 20);
    let mut wide = Tree::empty(store.configuration());
    for number in 0..60 {
        wide.add(&[format!("{number:01000}")], b"1").unwrap();
    }
    let mut tree = wide.clone();
    for _ in 0..800 {
        let mut above = wide.clone();
        // The first of its names, so that nothing of the others was written when the next is come to.
        above.add_tree(&["#"], &tree).unwrap();
        tree = above;
    }
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop((tree, wide));
    let out = tempfile::tempdir().unwrap();
    let (to, outcome, exporting) = exported(&store, &commit, &out);
    println!("{exporting} to export");
    let file = outcome.unwrap();
    assert!(exporting < 45_000_000, "{exporting}");
    let folder = tempfile::tempdir().unwrap();
    let mut again = target(&folder, Options::default(), 8 << 20);
    assert_eq!(again.import_commit(&*to, FILE).unwrap(), file);
    let out = tempfile::tempdir().unwrap();
    let (_, outcome, _) = exported(&again, &commit, &out);
    assert_eq!(outcome.unwrap().hash, file.hash);
}

/// A long value is in memory once while it is written, and twice while it is taken over, wherever in its frames it begins
/// and ends.
#[test]
fn a_long_value_is_not_copied_about() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = target(&folder, Options::default(), 8 << 20);
    let mut tree = store.empty_tree();
    let length = 32 << 20;
    tree.add(&["long"], &vec![7; length]).unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(tree);
    let out = tempfile::tempdir().unwrap();
    let (to, outcome, exporting) = exported(&store, &commit, &out);
    outcome.unwrap();
    println!("{exporting} to export");
    assert!(exporting < length + 20_000_000, "{exporting}");
    let (outcome, verifying) = most(|| verify_commit(&*to, FILE));
    outcome.unwrap();
    println!("{verifying} to verify");
    assert!(verifying < 2 * length + 8_000_000, "{verifying}");
    for index in [Index::Minimal, Index::Always] {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { index, ..Options::default() };
        let mut again = target(&folder, options, 8 << 20);
        let (outcome, importing) = most(|| again.import_commit(&*to, FILE));
        outcome.unwrap();
        println!("{importing} to import, {index:?}");
        assert!(importing < 2 * length + 8_000_000, "{importing}, {index:?}");
        let tree = again.checkout(&commit).unwrap();
        assert!(tree.find(&["long"]).unwrap().unwrap().iter().all(|byte| *byte == 7));
    }
}

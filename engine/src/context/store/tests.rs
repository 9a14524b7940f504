//! What only the inside of a store shows: descriptors, and stores that were collected, which no
//! release makes yet.

use std::collections::HashSet;
use std::sync::Arc;

use super::{CommitInfo, Limits, Store};
use crate::cache::Cache;
use crate::context::configuration::{ChildOrder, Configuration};
use crate::context::files::chunk::{Opening, Seal};
use crate::context::files::chunk_files::FILES_AT_ONCE;
use crate::context::files::commit::CommitBody;
use crate::context::files::control::{Control, Cursor, Horizon, KEPT_MAX, State};
use crate::context::files::patch::PATCHES_MAX;
use crate::context::files::paths;
use crate::context::files::record::{self, Tag};
use crate::context::hash::CommitHash;
use crate::context::options::{Index, Options};
use crate::context::pieces::entry;
use crate::context::pieces::node::{Body, Load, Node, Slot};
use crate::context::tree::{Depth, Order, Tree};
use crate::disk::memory::MemoryDisk;
use crate::disk::open_files::FILES_MAX;
use crate::disk::sim::{Crash, Fault, SimDisk};
use crate::disk::{Access, Disk, Mode};
use crate::error::{Kind, Result};
use crate::file::append::{self, AppendFile, HEAD, Position};
use crate::format::codec::Encoder;
use crate::format::header::{FileKind, Header};
use crate::sync::lock;

fn options(index: Index) -> Options {
    Options {
        index,
        seed: Some(5),
        chunk_bytes: 400,
        objects_bytes: 4_000,
        hashes_bytes: 2_000,
        pages_bytes: 0,
        index_bytes: 1,
        ..Options::default()
    }
}

fn value(number: u64, place: u64) -> Vec<u8> {
    (number * 4 + place).to_be_bytes().repeat(5)
}

/// A commit of values that no other commit has.
fn commit(store: &mut Store, number: u64) -> CommitHash {
    let parents: Vec<CommitHash> = store.last_commit().unwrap().into_iter().collect();
    let mut tree = store.empty_tree();
    for place in 0..4 {
        tree.add(&["data", &format!("{place}")], &value(number, place)).unwrap();
    }
    let info = CommitInfo::new(&parents, number as i64, "a", "b");
    store.commit(&mut tree, &info).unwrap()
}

#[test]
fn a_pack_of_many_chunks_keeps_few_files_open() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let count = 5 * FILES_MAX as u64 / 2;
    let hashes: Vec<CommitHash> = (0..count).map(|number| commit(&mut store, number)).collect();
    let bound = |store: &Store| assert!(store.pack.files.open_count() <= FILES_MAX);
    assert!(store.stats().chunks > 2 * FILES_MAX as u64, "{:?}", store.stats());
    bound(&store);
    store.checkpoint().unwrap();
    let reader = Store::open_read_only(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    assert!(reader.pack.files.open_count() <= FILES_AT_ONCE + 1);
    for store in [&store, &reader] {
        for hash in &hashes {
            assert!(store.checkout(hash).unwrap().find(&["data", "1"]).unwrap().is_some());
            bound(store);
        }
        assert_eq!(store.check().unwrap().commits, count);
        bound(store);
    }
    // Trees of before a clearing are read from files that stay as long as the trees do.
    let old = store.checkout(&hashes[0]).unwrap();
    store.clear().unwrap();
    assert!(disk.exists(&paths::chunk(0, 0)).unwrap());
    assert_eq!(old.find(&["data", "1"]).unwrap().unwrap(), value(0, 1));
    drop(old);
    assert!(!disk.exists(&paths::chunk(0, 0)).unwrap(), "and go with them");
    assert!(disk.exists(&paths::chunk(1, 0)).unwrap());
}

/// The addresses of the live branches below `root`.
fn live_branches(root: &Slot) -> HashSet<*const Node> {
    let Slot::Node(root) = root else { panic!("it was changed") };
    let (mut stack, mut found) = (vec![root], HashSet::new());
    while let Some(node) = stack.pop() {
        if matches!(node.body, Body::Branch(_)) {
            found.insert(Arc::as_ptr(node));
        }
        stack.extend((0..node.width()).filter_map(|index| node.live(index)));
    }
    found
}

/// What is cached of the branches below `root`.
fn cached_branches(store: &Store, root: &Slot) -> HashSet<*const Node> {
    let (mut stack, mut found) = (vec![root.clone()], HashSet::new());
    while let Some(slot) = stack.pop() {
        let node = match &slot {
            Slot::StoredNode(offset) => store.pack.node(*offset).unwrap(),
            Slot::Embedded(bytes) => Arc::new(entry::embedded_node(bytes).unwrap()),
            _ => continue,
        };
        if matches!(node.body, Body::Branch(_)) {
            found.insert(Arc::as_ptr(&node));
        }
        stack.extend((0..node.width()).map(|index| node.child(index)));
    }
    found
}

/// Directories in place are on the way to most of a tree, and once held it all until the last node was
/// written: each was copied, and the copy kept.
#[test]
fn what_a_commit_wrote_goes_into_the_cache_without_a_copy() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    // Branches so wide stay nodes in the cache, which can be told from copies.
    let configuration = Configuration::new(128, 256, ChildOrder::SeededHash).unwrap();
    let mut store = Store::create(disk, Options { configuration, ..Options::default() }).unwrap();
    let mut tree = store.empty_tree();
    for block in 0..3_u8 {
        for number in 0..1_200_usize {
            if block == 0 || number % 40 == 0 {
                let path = ["data", "contracts", "index", &format!("{number:040}"), "balance"];
                tree.add(&path, &[block; 4]).unwrap();
            }
        }
        tree.hash().unwrap();
        let live = live_branches(tree.root());
        assert!(!live.is_empty());
        let info = CommitInfo::new(&[], block.into(), "a", "b");
        let hash = store.commit(&mut tree, &info).unwrap();
        let cached = cached_branches(&store, tree.root());
        assert!(live.is_subset(&cached), "block {block}: {} of them", live.len());
        tree = store.checkout(&hash).unwrap();
    }
}

/// A store of ten commits whose first five were collected, but for those `kept`.
fn collected(index: Index, kept: &[usize]) -> (Arc<MemoryDisk>, Vec<CommitHash>) {
    let disk = MemoryDisk::seeded(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    let options = Options { chunk_bytes: 1 << 20, ..options(index) };
    let mut store = Store::create(Arc::clone(&shared), options).unwrap();
    let mut hashes = Vec::new();
    for number in 0..10 {
        if number == 5 {
            store.begin_chunk().unwrap();
        }
        hashes.push(commit(&mut store, number));
    }
    let place = |hash: &CommitHash| store.find_commit(hash).unwrap().unwrap();
    let kept = kept.iter().map(|number| place(&hashes[*number])).collect();
    let commit = place(&hashes[5]);
    let horizon = Horizon { commit, offset: commit, sequence: 5, kept };
    store.close().unwrap();
    let mut control = Control::read(&*shared).unwrap();
    control.chunks[0].state = State::Gone;
    control.horizon = horizon;
    control.replace(&shared).unwrap();
    disk.remove(&paths::chunk(0, 0)).unwrap();
    (disk, hashes)
}

#[test]
fn what_was_collected_is_said_to_be_and_histories_end_there_in_peace() {
    for index in [Index::Minimal, Index::Always] {
        let (disk, hashes) = collected(index, &[]);
        for with_index in [true, false] {
            let copy = disk.snapshot();
            for name in copy.files().iter().filter(|name| name.starts_with("index/")) {
                if !with_index {
                    copy.remove(name).unwrap();
                }
            }
            let mut store = Store::open(copy, options(index)).unwrap();
            assert!(store.log(99).unwrap().iter().eq(hashes[5..].iter().rev()));
            assert_eq!(store.history(&hashes[9..], 99).unwrap().len(), 5);
            let limits = Limits::default();
            let lowest = store.lowest_common_ancestors(&hashes[9], &hashes[7], limits).unwrap();
            assert_eq!(lowest, [hashes[7]]);
            let checked = store.check().unwrap();
            assert_eq!((checked.commits, checked.index_faults), (5, Vec::new()));
            for hash in &hashes[..5] {
                assert!(!store.exists(hash).unwrap());
                // An index that was made again never knew it.
                let kind = if with_index { Kind::Collected } else { Kind::Missing };
                assert_eq!(store.checkout(hash).unwrap_err().kind(), kind);
                assert_eq!(store.commit_info(hash).unwrap_err().kind(), kind);
                assert_eq!(store.set_branch(b"old", hash).unwrap_err().kind(), kind);
            }
            let hash = commit(&mut store, 10);
            store.close().unwrap();
            let store = Store::open(disk.snapshot(), options(index)).unwrap();
            assert!(store.warnings().is_empty(), "{:?}", store.warnings());
            assert!(!store.exists(&hash).unwrap() && store.exists(&hashes[9]).unwrap());
        }
    }
}

#[test]
fn a_kept_commit_of_which_something_is_not_there_is_corrupt() {
    let (disk, hashes) = collected(Index::Minimal, &[3]);
    let store = Store::open(disk, options(Index::Minimal)).unwrap();
    assert_eq!(store.checkout(&hashes[2]).unwrap_err().kind(), Kind::Collected);
    for error in [store.checkout(&hashes[3]).unwrap_err(), store.log(99).unwrap_err()] {
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
}

#[test]
fn the_table_of_chunks_adds_little_to_what_is_written() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(disk, options(Index::Minimal)).unwrap();
    let mut before = store.stats();
    // The longer the table is, the rarer it is written.
    for round in 1..5 {
        for number in 0..300 {
            commit(&mut store, round * 1_000 + number);
        }
        let after = store.stats();
        assert!(after.chunks > round * 250);
        let pack = after.pack_bytes - before.pack_bytes;
        let index = store.tip.as_ref().unwrap().traffic().0;
        let control = index - after.pack_bytes;
        assert!(pack > 100_000 && control < after.pack_bytes / 25, "{round}: {control} {pack}");
        before = after;
    }
}

#[test]
fn files_make_room_where_the_process_may_open_no_more() {
    let sim = SimDisk::new(1);
    let disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let mut store = Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap();
    let hashes: Vec<CommitHash> = (0..100).map(|number| commit(&mut store, number)).collect();
    store.close().unwrap();
    let reader = Store::open_read_only(disk, options(Index::Minimal)).unwrap();
    assert!(reader.pack.files.open_count() >= FILES_AT_ONCE);
    sim.fail_at(1, Fault::Open);
    assert!(reader.checkout(&hashes[9]).is_ok(), "it is read once others are closed");
    assert!(reader.pack.files.open_count() <= FILES_AT_ONCE / 2 + 8);
}

/// A closed store of six commits, the last in its second chunk.
fn of_two_chunks() -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let options = Options { chunk_bytes: 1 << 20, ..options(Index::Minimal) };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    for number in 0..5 {
        commit(&mut store, number);
    }
    store.begin_chunk().unwrap();
    commit(&mut store, 5);
    store.close().unwrap();
    disk
}

/// Writes the chunks of such a store again, with what `forge` makes of what they say of themselves, and all
/// that depends on it as if it were true.
fn forged(disk: &MemoryDisk, forge: impl Fn(&mut Seal, &mut Opening)) -> Arc<MemoryDisk> {
    let disk = disk.snapshot();
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    disk.files()
        .iter()
        .filter(|name| name.starts_with("index/") && !name.ends_with("lock"))
        .for_each(|name| disk.remove(name).unwrap());
    let mut control = Control::read(&*shared).unwrap();
    let [first, second] = [0, 1].map(|number| paths::chunk(0, number));
    let record_of = |path: &str, at: usize, length: u64| {
        let bytes = disk.bytes(path).unwrap();
        let payload = &bytes[at..at + length as usize - HEAD];
        record::split(path, at as u64, payload).unwrap().body.to_vec()
    };
    let end = disk.bytes(&first).unwrap().len() - Seal::BATCH as usize;
    let seal = record_of(&first, end + HEAD, Seal::BATCH);
    let mut seal = Seal::decode(&first, 0, &seal).unwrap();
    let start = Position::start().offset as usize;
    let opening = record_of(&second, start + HEAD, Opening::BATCH);
    let mut opening = Opening::decode(&second, 0, &opening).unwrap();
    forge(&mut seal, &mut opening);
    disk.replace(&first, &disk.bytes(&first).unwrap()[..end]).unwrap();
    let each = |_: Position, _: &[u8]| Ok(());
    let mut append =
        AppendFile::open(&*disk, &first, FileKind::Pack, Position::start(), each).unwrap();
    let offset = (end + HEAD) as u64;
    let put = |out: &mut Encoder| record::put(out, 5, offset, Tag::Seal, &[0; 32], &seal.encode());
    append.push_with(put).unwrap();
    append.write().unwrap();
    control.chunks[0].chain = append.end().chain;
    let mut batches = Vec::new();
    let file = disk.open(&second, Mode::Read, Access::Buffered).unwrap();
    let identity = paths::chunk_identity(5, 0, 1);
    append::scan(&*file, identity, Position::start(), |_, payload| {
        batches.push(payload.to_vec());
        Ok(())
    })
    .unwrap();
    disk.remove(&second).unwrap();
    if opening.chain == seal.chain {
        opening.chain ^= 1;
    } else {
        opening.chain = append.end().chain;
    }
    let header = Header::new(FileKind::Pack, identity, 5);
    let offset = control.chunks[1].base + Position::start().offset + HEAD as u64;
    let mut append = AppendFile::create_over(&*disk, &second, header, |out| {
        record::put(out, 5, offset, Tag::Opening, &[0; 32], &opening.encode());
    })
    .unwrap();
    for batch in &batches[1..] {
        append.push(batch).unwrap();
    }
    append.write().unwrap();
    control.chunks[1].chain = append.end().chain;
    control.checkpoint.position.chain = append.end().chain;
    control.replace(&shared).unwrap();
    disk
}

/// Changes what chunks say of themselves.
type Forge = fn(&mut Seal, &mut Opening);

#[test]
fn a_check_reads_what_each_chunk_says_of_itself() {
    let disk = of_two_chunks();
    let check = |disk: Arc<MemoryDisk>| {
        let store = Store::open_read_only(disk, options(Index::Minimal)).unwrap();
        assert_eq!(store.log(9).unwrap().len(), 6);
        store.check()
    };
    assert_eq!(check(forged(&disk, |_, _| {})).unwrap().commits, 6);
    let forgeries: [(&str, u64, Forge); 10] = [
        ("its length", 0, |end, _| end.length += 1),
        ("its batches", 0, |end, _| end.sequence += 1),
        ("the batch before", 0, |end, _| end.chain ^= 1),
        ("its first commit", 0, |end, _| end.first_commit += 1),
        ("no first commit", 0, |end, _| end.first_commit = 0),
        ("its last commit", 0, |end, _| end.last_commit = end.first_commit),
        ("the last commit", 1, |_, opening| opening.last_commit -= 1),
        ("no last commit", 1, |_, opening| opening.last_commit = 0),
        ("the epoch", 1, |_, opening| opening.epoch += 1),
        ("what is hashed", 1, |_, opening| opening.configuration = Configuration::TEZOS_BINARY),
    ];
    for (what, chunk, forge) in forgeries {
        let error = check(forged(&disk, forge)).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
        assert!(error.detail().contains(&paths::chunk(0, chunk)), "{what}: {error}");
    }
    // One that does not continue the chunk before.
    let error = check(forged(&disk, |end, opening| opening.chain = end.chain)).unwrap_err();
    assert!(error.detail().contains("continues the chunk before"), "{error}");
}

/// What is given out of a leaf that is cached as bytes is a copy: all of the leaf is uncounted there.
#[test]
fn a_directory_from_a_cached_leaf_keeps_nothing_else_of_it() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    let mut store = Store::create(disk, Options::default()).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..1_000 {
        tree.add(&["d", &format!("{number:040}"), "balance"], b"7").unwrap();
    }
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let tree = store.checkout(&hash).unwrap();
    let mut looked = 0;
    let mut look = |tree: &Tree| {
        let Slot::Embedded(bytes) = tree.root() else { panic!("it is small") };
        assert!(bytes.held() < 64, "{} bytes for {}", bytes.held(), bytes.len());
        looked += 1;
    };
    for (name, listed) in tree.list(&["d"], 0, 1_000).unwrap() {
        look(&listed);
        let name = String::from_utf8(name).unwrap();
        look(&tree.find_tree(&["d", &name]).unwrap().unwrap());
    }
    tree.fold::<&str>(&[], Some(Depth::Eq(2)), Order::Undefined, |_, tree| {
        look(tree);
        Ok(())
    })
    .unwrap();
    assert_eq!(looked, 3_000);
}

/// A store with the records that `records` appends to its pack, given where the first one will be, and a commit
/// of the root that it returns.
fn made_up(records: impl FnOnce(&mut Encoder, u64) -> u64) -> Store {
    let disk = MemoryDisk::seeded(1);
    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
    drop(Store::create(Arc::clone(&shared), options(Index::Minimal)).unwrap());
    let path = paths::chunk(0, 0);
    let each = |_: Position, _: &[u8]| Ok(());
    let mut append =
        AppendFile::open(&*disk, &path, FileKind::Pack, Position::start(), each).unwrap();
    let start = append.end().offset + HEAD as u64;
    append
        .push_with(|out| {
            let from = out.bytes().len();
            let root = records(out, start);
            let commit = start + (out.bytes().len() - from) as u64;
            let body = CommitBody {
                sequence: 0,
                previous: 0,
                root,
                extent: commit - start,
                parents: Vec::new(),
                date: 0,
                author: Vec::new(),
                message: Vec::new(),
            };
            record::put(out, 5, commit, Tag::Commit, &[3; 32], &body.encode(commit));
        })
        .unwrap();
    append.write().unwrap();
    Store::open(shared, options(Index::Minimal)).unwrap()
}

/// The body of a directory with one entry: a value of one byte, in place, with a name of one byte.
const ONE_ENTRY: [u8; 3] = [1 << 5 | 1, b'a', 7];

#[test]
fn a_long_chain_of_patches_is_read_and_an_endless_one_is_damage() {
    let mut places = Vec::new();
    let store = made_up(|out, start| {
        let from = out.bytes().len();
        record::put(out, 5, start, Tag::Flat, &[1; 32], &ONE_ENTRY);
        places.push(start);
        for round in 0..5_000_u64 {
            let at = start + (out.bytes().len() - from) as u64;
            let mut body = Encoder::new();
            body.varint(at - places[places.len() - 1]);
            // Its first entry is replaced.
            body.varint(0);
            body.raw(&[1, round as u8]);
            record::put(out, 5, at, Tag::FlatPatch, &[2; 32], body.bytes());
            places.push(at);
        }
        start
    });
    let error = store.pack.node(places[5_000]).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    // What is deeper than a writer goes is as deep to it; the first is read with nothing in the cache.
    for patches in [4_000, 9, 10, 11].into_iter().chain(0..300) {
        let node = store.pack.node(places[patches]).unwrap();
        assert_eq!(node.count(), 1);
        let deep = usize::from(node.base.unwrap().patches);
        assert_eq!(deep, patches.min(PATCHES_MAX.into()), "{patches} patches");
    }
}

/// The branch over one leaf of this kind, in which every bucket says that it has `count` entries.
fn branch_over(leaf: Tag, count: u32) -> Store {
    made_up(|out, start| {
        let from = out.bytes().len();
        record::put(out, 5, start, leaf, &[1; 32], &ONE_ENTRY);
        let branch = start + (out.bytes().len() - from) as u64;
        let mut body = Encoder::new();
        body.varint(1);
        (0..32).for_each(|_| {
            body.varint(count.into());
            body.varint(branch - start);
        });
        record::put(out, 5, branch, Tag::Branch, &[2; 32], body.bytes());
        branch
    })
}

#[test]
fn a_bucket_that_is_a_directory_of_its_own_is_damage_where_it_is_changed() {
    let store = branch_over(Tag::Flat, 1);
    let tree = store.checkout(&[3; 32].into()).unwrap();
    let acts: [fn(&mut Tree, &str) -> Result<()>; 3] = [
        |tree, name| tree.add(&[name], b"v"),
        |tree, name| tree.add(&[name, "below"], b"v"),
        |tree, _| tree.remove(&["a"]),
    ];
    for act in acts {
        for name in ["a", "b", "c", "data", "name of another bucket"] {
            let error = act(&mut tree.clone(), name).unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{name}: {error}");
        }
    }
    assert_eq!(store.check().unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn a_wrong_count_is_damage_where_it_is_changed() {
    for count in [2, 20, u32::MAX] {
        let tree = branch_over(Tag::Values, count).checkout(&[3; 32].into()).unwrap();
        for name in ["b", "c", "data", "name of another bucket"] {
            let error = tree.clone().add(&[name], b"v").unwrap_err();
            assert_eq!(error.kind(), Kind::Corrupt, "{count} {name}: {error}");
        }
        assert_eq!(tree.clone().remove(&["a"]).unwrap_err().kind(), Kind::Corrupt);
        let root: [&str; 0] = [];
        assert_eq!(tree.list(&root, 0, 99).unwrap_err().kind(), Kind::Corrupt);
    }
    let tree = branch_over(Tag::Values, 1).checkout(&[3; 32].into()).unwrap();
    tree.clone().add(&["b"], b"v").unwrap();
}

/// What recurses over branches would need as much stack as somebody made up.
#[test]
fn a_tower_of_branches_is_damage_and_no_end_of_the_stack() {
    const STOREYS: u64 = 60_000;
    let store = made_up(|out, start| {
        let from = out.bytes().len();
        record::put(out, 5, start, Tag::Values, &[1; 32], &ONE_ENTRY);
        let mut below = start;
        for storey in 0..STOREYS {
            let at = start + (out.bytes().len() - from) as u64;
            let mut body = Encoder::new();
            // All of one depth, and the one at the top that of a directory.
            let depth = u64::from(storey + 1 < STOREYS) * 60;
            body.varint(depth << 1 | 1);
            body.varint(1);
            body.varint(at - below);
            record::put(out, 5, at, Tag::Branch, &[4; 32], body.bytes());
            below = at;
        }
        below
    });
    let tree = store.checkout(&[3; 32].into()).unwrap();
    let root: [&str; 0] = [];
    let other = branch_over(Tag::Values, 1).checkout(&[3; 32].into()).unwrap();
    for error in [
        tree.list(&root, 0, 1).unwrap_err(),
        tree.fold(&root, None, Order::Sorted, |_, _| Ok(())).unwrap_err(),
        tree.diff(&other, |_, _| Ok(())).unwrap_err(),
        store.check().unwrap_err(),
    ] {
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    }
    // A name finds its way or none, at depths for which it has no bits either.
    let _ = tree.find(&["a"]);
}

#[test]
fn a_store_with_all_chunks_that_it_may_have_can_be_collected() {
    let mut store = Store::create(MemoryDisk::seeded(1), options(Index::Minimal)).unwrap();
    store.tip().unwrap().writer().unwrap().chunks_max = 90;
    let mut newest = commit(&mut store, 0);
    let refused = (1..400).find_map(|number| {
        let mut tree = store.empty_tree();
        tree.add(&["data", "0"], &value(number, 0)).unwrap();
        let info = CommitInfo::new(&[newest], number as i64, "a", "b");
        match store.commit(&mut tree, &info) {
            Ok(hash) => {
                newest = hash;
                None
            }
            Err(error) => Some(error),
        }
    });
    let refused = refused.expect("the chunks are used up");
    assert_eq!(refused.kind(), Kind::Invalid);
    assert!(refused.to_string().contains("collect what is old"), "{refused}");
    store.collect(&newest).unwrap();
    while store.collect_step(100).unwrap() {}
    let next = commit(&mut store, 1_000);
    assert_eq!(store.log(9).unwrap(), [next, newest]);
}

/// A control file holds so many commits that are kept by name, and no call makes one that holds more.
#[test]
fn more_kept_commits_than_a_control_file_holds_are_refused() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    let put = |store: &mut Store, tree: &mut Tree, date: i64| {
        tree.add(&["data"], &vec![date as u8; 2 << 20]).unwrap();
        store.commit(tree, &CommitInfo::new(&[], date, "a", "b")).unwrap()
    };
    let commits: Vec<CommitHash> = (0..3).map(|date| put(&mut store, &mut tree, date)).collect();
    let pins: Vec<u64> = (1..=KEPT_MAX as u64).collect();
    let tip = store.tip().unwrap();
    tip.writer().unwrap().control.pins.clone_from(&pins);
    let before = tip.writer().unwrap().control.clone();
    store.set_branch(b"main", &commits[0]).unwrap();
    for refused in
        [store.pin(&commits[0]), store.pin_every(1).map(drop), store.collect(&commits[2])]
    {
        let error = refused.unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.detail().contains("remove some"), "{error}");
    }
    let after = tip.writer().unwrap().control.clone();
    assert_eq!((after.pins, after.cursor), (before.pins, before.cursor));
    // One less is as many as there may be.
    tip.writer().unwrap().control.pins.pop();
    store.pin(&commits[0]).unwrap();
    assert_eq!(Control::read(&*store.disk).unwrap().pins.len(), KEPT_MAX);
}

#[test]
fn a_collection_that_fits_nothing_is_damage_and_keeps_nobody_out() {
    let (disk, hashes) = collected(Index::Minimal, &[]);
    let with = |cursor| {
        let copy = disk.snapshot();
        let shared = Arc::clone(&copy) as Arc<dyn Disk>;
        let mut control = Control::read(&*shared).unwrap();
        control.cursor = Some(cursor);
        control.replace(&shared).unwrap();
        Store::open(shared, options(Index::Minimal))
    };
    let control = Control::read(&*disk).unwrap();
    for target in [0, control.horizon.commit + 1] {
        let error = with(Cursor { phase: 2, target, chunk: 1 }).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt, "{target}: {error}");
    }
    // In the last chunk, behind which none begins.
    let mut store = with(Cursor { phase: 1, target: control.last_commit, chunk: 1 }).unwrap();
    assert!(store.warnings().iter().any(|warning| warning.contains("cannot go on")));
    assert_eq!(store.collect_step(1).unwrap_err().kind(), Kind::Corrupt);
    assert!(store.collect_cancel().unwrap());
    assert!(!store.collect_step(1).unwrap());
    let next = commit(&mut store, 20);
    assert_eq!(store.log(2).unwrap(), [next, hashes[9]]);
}

#[test]
fn a_call_that_fails_while_a_collected_store_is_opened_is_no_damage() {
    let sim = SimDisk::new(1);
    let mut store =
        Store::create(Arc::clone(&sim) as Arc<dyn Disk>, options(Index::Minimal)).unwrap();
    let hashes: Vec<CommitHash> = (0..8).map(|number| commit(&mut store, number)).collect();
    store.collect(&hashes[5]).unwrap();
    while store.collect_step(100).unwrap() {}
    store.close().unwrap();
    let mut failed = 0;
    for n in 1.. {
        let image = sim.crash(Crash::Process);
        image.fail_at(n, Fault::Any);
        let opened =
            Store::open_read_only(Arc::clone(&image) as Arc<dyn Disk>, options(Index::Minimal));
        if image.calls().of(Fault::Any) < n {
            break;
        }
        if let Err(error) = opened {
            assert_eq!(error.kind(), Kind::Io, "call {n}: {error}");
            failed += 1;
        }
    }
    assert!(failed > 5, "{failed}");
}

/// Commits to a wide directory of values that are records of their own, with hashes in little memory and up to
/// `file_bytes` of them in a file; returns the commits' hashes and how many reads there were.
fn wide_story(
    file_bytes: u64,
    mut each: impl FnMut(&Store, u64, &SimDisk),
) -> (Vec<CommitHash>, u64) {
    let disk = SimDisk::new(3);
    let options = Options {
        hashes_bytes: 40_000,
        hashes_file_bytes: file_bytes,
        chunk_bytes: 1 << 20,
        objects_bytes: 1 << 20,
        ..options(Index::Minimal)
    };
    let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options).unwrap();
    let mut tree = store.empty_tree();
    let name = |number: u64| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for number in 0..3_000 {
        tree.add(&["index", &name(number)], &value(number, 0)).unwrap();
    }
    let commit = |store: &mut Store, tree: &mut Tree, number: u64| {
        store.commit(tree, &CommitInfo::new(&[], number as i64, "a", "b")).unwrap()
    };
    let mut hashes = vec![commit(&mut store, &mut tree, 0)];
    let before = disk.calls().reads;
    for number in 1..120_u64 {
        each(&store, number, &disk);
        let mut tree = store.checkout(hashes.last().unwrap()).unwrap();
        tree.add(&["index", &name(number * 977 % 3_000)], &value(number, 1)).unwrap();
        hashes.push(commit(&mut store, &mut tree, number));
    }
    let reads = disk.calls().reads - before;
    assert!(disk.list("").unwrap().iter().all(|name| !paths::is_evicted_hashes(name)));
    store.check().unwrap();
    (hashes, reads)
}

#[test]
fn hashes_that_memory_has_no_room_for_are_read_together_and_never_believed() {
    let mut kept = 0;
    let (expected, without) =
        wide_story(0, |store, _, _| assert_eq!(store.pack.evicted_hashes.count(), 0));
    let (hashes, with) =
        wide_story(1 << 20, |store, _, _| kept = kept.max(store.pack.evicted_hashes.count()));
    assert_eq!(hashes, expected);
    assert!(kept > 20 && with * 2 < without, "{kept} kept; {with} reads instead of {without}");
    let (hashes, damaged) = wide_story(1 << 20, |store, number, _| {
        let Some(file) = store.pack.evicted_hashes.file() else { return };
        // One bit of each vector, the whole file, or its second half.
        match number % 3 {
            0 => file.set_len(file.len().unwrap() / 2).unwrap(),
            1 => (0..file.len().unwrap().div_ceil(1024)).for_each(|slot| {
                let mut byte = [0];
                file.read_at(slot * 1024 + 40, &mut byte).unwrap();
                file.write_at(slot * 1024 + 40, &[byte[0] ^ 4]).unwrap();
            }),
            _ => file.write_at(0, &vec![0; file.len().unwrap() as usize]).unwrap(),
        }
    });
    assert_eq!(hashes, expected, "damage costs reads alone");
    assert!(damaged > with, "it was met: {damaged} reads instead of {with}");
}

#[test]
fn on_a_full_disk_the_file_of_hashes_makes_room_for_commits() {
    let (expected, _) = wide_story(0, |_, _, _| ());
    let mut file = None;
    let (hashes, _) = wide_story(1 << 20, |store, number, disk| match number {
        100 => {
            file = store.pack.evicted_hashes.file().map(|file| file.len().unwrap());
            // The commit's write is the next that needs space.
            disk.fail_at(1, Fault::Space);
        }
        101.. => assert!(store.pack.evicted_hashes.file().is_none(), "it takes no space any more"),
        _ => {}
    });
    assert_eq!(hashes, expected);
    assert!(file.is_some_and(|bytes| bytes > 0));
}

#[test]
fn an_opening_removes_what_a_crash_left_of_a_file_of_hashes() {
    let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
    drop(Store::create(Arc::clone(&disk), options(Index::Minimal)).unwrap());
    disk.open(&paths::evicted_hashes(0), Mode::Create, Access::Buffered).unwrap();
    drop(Store::open_read_only(Arc::clone(&disk), options(Index::Minimal)).unwrap());
    assert!(disk.exists(&paths::evicted_hashes(0)).unwrap(), "a reader changes nothing");
    drop(Store::open(Arc::clone(&disk), options(Index::Minimal)).unwrap());
    assert!(!disk.exists(&paths::evicted_hashes(0)).unwrap());
}

#[test]
fn a_chunk_that_comes_back_under_a_name_that_was_to_go_stays() {
    let (upper, lower) = (SimDisk::new(1), SimDisk::new(2));
    let made = Options {
        chunk_bytes: 1,
        lower: Some(Arc::clone(&lower) as Arc<dyn Disk>),
        ..options(Index::Minimal)
    };
    let mut store = Store::create(Arc::clone(&upper) as Arc<dyn Disk>, made.clone()).unwrap();
    let commits: Vec<_> = (0..4).map(|number| commit(&mut store, number)).collect();
    // As threads that read of them while they move.
    let held = store.pack.chunks();
    assert!(store.archive(&commits[3], u64::MAX).unwrap() > 1);
    drop(held);
    store.unarchive(u64::MAX).unwrap();
    store.close().unwrap();
    let store = Store::open(upper, made).unwrap();
    for number in 0..4 {
        let tree = store.checkout(&commits[number as usize]).unwrap();
        assert_eq!(tree.find(&["data", "3"]).unwrap(), Some(value(number, 3)));
    }
}

/// Else a large index would leave the pack no page; one number for all is a cache that the host gives.
#[test]
fn what_the_index_takes_is_not_taken_from_the_pages_of_the_pack() {
    for given in [None, Some(Cache::new(1 << 20))] {
        let options = Options {
            pages_bytes: 64 << 10,
            index_bytes: 1 << 20,
            cache: given.clone(),
            ..options(Index::Always)
        };
        let disk: Arc<dyn Disk> = MemoryDisk::seeded(1);
        let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
        for number in 0..40 {
            commit(&mut store, number);
        }
        let mut reader = Store::open_read_only(disk, options).unwrap();
        store.clear().unwrap();
        commit(&mut store, 41);
        // Everything is read afresh.
        reader.reload().unwrap();
        for store in [&store, &reader] {
            let index = lock(&store.index);
            // A reader has what it has read in no table.
            assert!(store.tip.is_none() || index.cache().stats().charged_bytes > 0);
            let of_pack = store.pack.cache().stats().charged_bytes;
            assert_eq!(of_pack > 0, given.is_some(), "{of_pack} bytes of the pack's");
            assert_eq!(index.cache().budget_bytes(), 1 << 20);
        }
    }
}

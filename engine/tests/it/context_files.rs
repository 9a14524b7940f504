//! The bodies of the context's fuzz targets: a small store around bytes whose checksums are repaired.
//!
//! A body may find errors but must not panic, hang, or take memory out of proportion; and what the check
//! of a store finds sound can be read.

use std::sync::{Arc, OnceLock};

use varvite::context::{
    ChildOrder, CommitFileOptions, CommitInfo, Configuration, Durability, Index, Limits, Options,
    Order, Store, Tree, hash, inspect, inspect_commit, verify_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::raw::file::append::{AppendFile, HEAD, Position, open_reader, scan};
use varvite::raw::format::checksum::{crc, crc_append, masked, page_crc, stored};
use varvite::raw::format::header::FileKind;
use varvite::{Error, Result};

use crate::context_machine::{run, step};
use crate::context_story::{Act, Tale, options};
use crate::setup::DiskKind;

/// What a fuzz target does with its bytes.
pub type Body = fn(&[u8]);

/// Every body with its name, operation lists apart.
pub const BODIES: [(&str, Body); 9] = [
    ("context_control", control),
    ("context_sparse", sparse),
    ("context_snapshot", snapshot),
    ("context_import", import),
    ("context_index", index),
    ("context_lower", lower),
    ("context_pack", pack),
    ("context_records", records),
    ("context_hash", text),
];

const PACK: &str = "0000-000000.pack";

/// Entries of a commit that are looked at; damage may make a graph whose paths nobody can count.
const LOOKS: usize = 60;

/// Pieces of directories are so large that changes of them are written as patches.
fn small() -> Options {
    let configuration = Configuration::new(16, 20, ChildOrder::SeededHash).expect("it is legal");
    let small = options(Index::Always, Durability::Synced);
    Options { configuration, chunk_bytes: 1 << 20, ..small }
}

/// A store of one chunk, closed, so that it has an index.
fn store() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    STORE.get_or_init(|| told(true)).snapshot()
}

/// The same, not closed.
fn open_store() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    STORE.get_or_init(|| told(false)).snapshot()
}

fn told(close: bool) -> Arc<MemoryDisk> {
    let disk = MemoryDisk::seeded(1);
    let mut tale = Tale::new(disk.clone(), &small());
    let acts = [
        Act::Begin,
        Act::Commit(1),
        Act::SetBranch("main"),
        Act::Commit(2),
        Act::Work(3),
        Act::CommitWork,
        Act::Commit(4),
        Act::SetBranch("side"),
        Act::Commit(5),
        Act::RemoveBranch("side"),
        Act::Commit(6),
    ];
    for act in acts.iter().chain(close.then_some(&Act::End)) {
        tale.act(*act).expect("memory does not fail");
        if matches!(act, Act::Commit(6)) {
            for number in 0..3 {
                widen(tale.store(), number).expect("memory does not fail");
            }
        }
    }
    disk
}

/// Commits a flat directory and a larger one, or a change of an entry of each.
fn widen(store: &mut Store, number: u8) -> Result<()> {
    let parents = store.log(1)?;
    let mut tree = store.checkout(&parents[0])?;
    for (name, width) in [("flat", 20), ("large", 90_u8)] {
        let range = if number == 0 { 0..width } else { 7..8 };
        for entry in range {
            tree.add(&[name, &format!("entry {entry}")], &[number; 9])?;
        }
    }
    store.commit(&mut tree, &CommitInfo::new(&parents, 100 + i64::from(number), "a", "b"))?;
    Ok(())
}

/// The batches of a pack that was not closed, and where each begins.
fn batches() -> &'static [(Position, Vec<u8>)] {
    static BATCHES: OnceLock<Vec<(Position, Vec<u8>)>> = OnceLock::new();
    BATCHES.get_or_init(|| {
        let mut batches = Vec::new();
        let disk = open_store();
        let (file, header) = open_reader(&*disk, PACK, FileKind::Pack).expect("it is there");
        scan(&*file, header.identity, Position::start(), |position, payload| {
            batches.push((position, payload.to_vec()));
            Ok(())
        })
        .expect("it is sound");
        batches
    })
}

/// A seed for each batch: its number, and its records.
pub fn record_seeds() -> Vec<Vec<u8>> {
    let seed = |(number, (_, payload)): (usize, &(Position, Vec<u8>))| {
        [&[number as u8][..], payload].concat()
    };
    batches().iter().enumerate().map(seed).collect()
}

/// Reads everything there is, as far as it goes, and goes on with it; errors are fine.
fn use_all(disk: &Arc<MemoryDisk>, goes_on: bool) {
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    if let Ok(reader) = Store::open_read_only(Arc::clone(&disk), small()) {
        let read = read(&reader);
        if goes_on && reader.check().is_ok_and(|checked| checked.index_faults.is_empty()) {
            assert!(read.is_ok(), "sound, but not read: {read:?}");
        }
    }
    // Checking everything and going on cost ten times as much, so every eighth does.
    if !goes_on {
        return;
    }
    let Ok(mut store) = Store::open(Arc::clone(&disk), small()) else { return };
    let Ok(log) = store.log(1) else { return };
    let tree = log.first().map_or_else(|| Ok(store.empty_tree()), |last| store.checkout(last));
    let Ok(mut tree) = tree else { return };
    for number in 0..4_u8 {
        let _ = tree.add(&[&b"data"[..], &[number]], &[number; 20]);
        let _ = tree.remove(&["data", "3"]);
    }
    if let Ok(hash) = store.commit(&mut tree, &CommitInfo::new(&log, 9, "a", "b")) {
        assert!(store.exists(&hash).is_ok_and(|found| found), "it was just committed");
    }
    let _ = store.set_branch(b"late", log.first().unwrap_or(&[1; 32].into()));
    if store.close().is_ok() {
        let _ = Store::open(disk, small()).and_then(|mut store| store.clear());
    }
}

fn read(store: &Store) -> Result<()> {
    assert!(store.warnings().len() < 10);
    for (_, commit) in store.branches() {
        store.exists(&commit)?;
    }
    store.log(usize::MAX)?;
    for commit in store.log(3)? {
        let info = store.commit_info(&commit)?;
        if store.stats().objects > 0 {
            drop(store.find_object(&info.tree)?);
        }
        let tree = store.checkout(&commit)?;
        drop(tree.list::<&[u8]>(&[], 1, 3)?);
        drop(tree.find(&["data", "3"])?);
        walk(&tree)?;
    }
    Ok(())
}

/// Every entry, as long as they are not too many.
fn walk(tree: &Tree) -> Result<()> {
    let (mut looks, mut failure) = (0, None);
    let folded = tree.fold::<&[u8]>(&[], None, Order::Undefined, |path, tree| {
        looks += 1;
        if looks > LOOKS {
            return Err(Error::invalid("enough"));
        }
        let look = || {
            drop(tree.to_value()?);
            tree.length::<&[u8]>(&[])?;
            drop(tree.list::<&[u8]>(&[], path.len() as u64, 2)?);
            tree.hash()
        };
        failure = look().err();
        failure.take().map_or(Ok(()), Err)
    });
    if looks > LOOKS { Ok(()) } else { folded }
}

/// `bytes` with a last word that is the checksum of the rest.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some((rest, checksum)) = bytes.split_last_chunk_mut::<4>() {
        *checksum = stored(rest).to_le_bytes();
    }
    bytes
}

pub fn control(bytes: &[u8]) {
    let repaired = repaired(bytes);
    if let Some(outline) = inspect::file("control", &repaired) {
        assert!(!outline.to_string().is_empty());
    }
    let disk = store();
    disk.replace("control", repaired).expect("memory takes it");
    use_all(&disk, crc(bytes).is_multiple_of(8));
}

/// The manifest of the index, whose payload says what it covers.
pub fn index(bytes: &[u8]) {
    let disk = store();
    let is_manifest = |name: &String| name.starts_with("index/snapshots/");
    let name = disk.files().into_iter().find(is_manifest).expect("a closed store has one");
    disk.replace(&name, repaired(bytes)).expect("memory takes it");
    use_all(&disk, crc(bytes).is_multiple_of(8));
}

pub fn pack(bytes: &[u8]) {
    if let Some(outline) = inspect::file(PACK, bytes) {
        assert!(!outline.to_string().is_empty());
    }
    let disk = store();
    disk.replace(PACK, bytes).expect("memory takes it");
    use_all(&disk, crc(bytes).is_multiple_of(8));
}

/// A store whose chunk was collected.
fn collected() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    STORE.get_or_init(|| collect(false)).snapshot()
}

/// The same, which has gone on.
fn gone_on() -> Arc<MemoryDisk> {
    static STORE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    STORE.get_or_init(|| collect(true)).snapshot()
}

fn collect(goes_on: bool) -> Arc<MemoryDisk> {
    let disk = told(true);
    let mut store = Store::open(disk.clone(), small()).expect("it was closed");
    let newest = store.log(3).expect("memory does not fail");
    store.collect(&newest[2]).expect("it is there");
    while store.collect_step(1_000).expect("memory does not fail") {}
    if goes_on {
        widen(&mut store, 4).expect("memory does not fail");
    }
    store.close().expect("memory does not fail");
    disk
}

const SPARSE: &str = "0000-000000-1.pack";

/// A sparse chunk whose checksums are right, as the control file says.
pub fn sparse(bytes: &[u8]) {
    const FOOTER: usize = 28;
    let disk = collected();
    let sum = |bytes: &[u8]| bytes.last_chunk::<4>().copied();
    let before = sum(&disk.bytes(SPARSE).expect("it is there")).expect("it is longer");
    let mut bytes = bytes.to_vec();
    let identity =
        bytes.get(12..20).map(|identity| u64::from_le_bytes(identity.try_into().expect("eight")));
    let place = |at: usize| {
        let field = bytes.len().checked_sub(FOOTER)?.checked_add(at)?;
        Some(u64::from_le_bytes(bytes.get(field..field + 8)?.try_into().ok()?) as usize)
    };
    if let (Some(identity), Some(mapping), Some(pages)) = (identity, place(8), place(16)) {
        let table = mapping.saturating_add(pages.saturating_mul(4096));
        for (row, number) in (0..pages.min(64)).map(|page| (page, page + mapping / 4096)) {
            let Some(page) = bytes.get_mut(number * 4096..).and_then(|page| page.get_mut(..4096))
            else {
                break;
            };
            let sum = page_crc(identity, number as u32, &page[4..]);
            page[..4].copy_from_slice(&sum.to_le_bytes());
            let row = table.saturating_add(12 * row + 8);
            if let Some(place) = bytes.get_mut(row..).and_then(|row| row.get_mut(..4)) {
                place.copy_from_slice(&sum.to_le_bytes());
            }
        }
        let end = bytes.len() - 4;
        if let Some(covered) = bytes.get(table..end) {
            let sum = masked(crc_append(crc(&identity.to_le_bytes()), covered));
            bytes[end..].copy_from_slice(&sum.to_le_bytes());
        }
    }
    if let Some(outline) = inspect::file(SPARSE, &bytes) {
        assert!(!outline.to_string().is_empty());
    }
    let mut control = disk.bytes("control").expect("it is there");
    let place = control.windows(4).position(|bytes| *bytes == before).expect("its row says it");
    control[place..place + 4].copy_from_slice(&sum(&bytes).unwrap_or(before));
    disk.replace("control", repaired(&control)).expect("memory takes it");
    disk.replace(SPARSE, bytes.clone()).expect("memory takes it");
    use_all(&disk, crc(&bytes).is_multiple_of(8));
}

/// A store whose first chunk is in a lower folder, with what recent commits need of it above; and that folder.
fn archived() -> &'static (Arc<MemoryDisk>, Arc<MemoryDisk>) {
    static STORE: OnceLock<(Arc<MemoryDisk>, Arc<MemoryDisk>)> = OnceLock::new();
    STORE.get_or_init(|| {
        let (disk, lower) = (told(true), MemoryDisk::seeded(2));
        let mut store = Store::open(disk.clone(), below(&lower)).expect("it was closed");
        store.begin_chunk().expect("memory does not fail");
        widen(&mut store, 3).expect("memory does not fail");
        let last = store.last_commit().expect("memory does not fail").expect("it has commits");
        assert_eq!(store.archive(&last, u64::MAX).expect("memory does not fail"), 1);
        store.close().expect("memory does not fail");
        (disk, lower)
    })
}

fn below(lower: &Arc<MemoryDisk>) -> Options {
    Options { lower: Some(Arc::clone(lower) as Arc<dyn Disk>), ..small() }
}

/// The batches of the chunk in the lower folder, without its end.
fn lower_batches() -> &'static [(Position, Vec<u8>)] {
    static BATCHES: OnceLock<Vec<(Position, Vec<u8>)>> = OnceLock::new();
    BATCHES.get_or_init(|| {
        let mut batches = Vec::new();
        let (file, header) =
            open_reader(&*archived().1, PACK, FileKind::Pack).expect("it is there");
        scan(&*file, header.identity, Position::start(), |position, payload| {
            batches.push((position, payload.to_vec()));
            Ok(())
        })
        .expect("it is sound");
        batches.pop();
        batches
    })
}

/// Seeds of [`lower`]: the file as it is, and each batch of it.
pub fn lower_seeds() -> Vec<Vec<u8>> {
    let whole = archived().1.bytes(PACK).expect("it is there");
    let batches = lower_batches().iter().enumerate();
    let mut seeds: Vec<_> =
        batches.map(|(number, (_, payload))| [&[1, number as u8], &payload[..]].concat()).collect();
    seeds.push([&[0, 0], &whole[..]].concat());
    seeds
}

/// The chunk whose batch `number` has `payload`, as long as it was, with every checksum made right to its end.
fn rewritten(number: usize, payload: &[u8]) -> Vec<u8> {
    const SEAL_CHAIN: usize = 2 + 32 + 16;
    let whole = archived().1.bytes(PACK).expect("it is there");
    let disk = MemoryDisk::seeded(3);
    disk.replace(PACK, &whole[..lower_batches()[0].0.offset as usize]).expect("memory takes it");
    let each = |_: Position, _: &[u8]| Ok(());
    let mut file = AppendFile::open(&*disk, PACK, FileKind::Pack, Position::start(), each)
        .expect("a header alone is sound");
    let batches = lower_batches();
    for (at, (position, before)) in batches.iter().enumerate() {
        let mut bytes = before.clone();
        if at == number % batches.len() {
            let count = bytes.len().min(payload.len());
            bytes[..count].copy_from_slice(&payload[..count]);
            repair_records(position.offset + HEAD as u64, &mut bytes);
        }
        file.push(&bytes).expect("a short batch");
        file.sync().expect("memory does not fail");
    }
    let (end, mut seal) = (file.end(), whole[file.end().offset as usize + HEAD..].to_vec());
    seal[SEAL_CHAIN..SEAL_CHAIN + 4].copy_from_slice(&end.chain.to_le_bytes());
    repair_records(end.offset + HEAD as u64, &mut seal);
    file.push(&seal).expect("a short batch");
    file.sync().expect("memory does not fail");
    disk.bytes(PACK).expect("it was just written")
}

/// The checksum of the last batch of a chunk, by which a control file knows it.
fn chain_of(chunk: &[u8]) -> Option<[u8; 4]> {
    let disk = MemoryDisk::seeded(3);
    disk.replace(PACK, chunk).expect("memory takes it");
    let (file, header) = open_reader(&*disk, PACK, FileKind::Pack).ok()?;
    let end = scan(&*file, header.identity, Position::start(), |_, _| Ok(())).ok()?.end;
    Some(end.chain.to_le_bytes())
}

/// A chunk in the lower folder: any bytes, or batches whose checksums are right and which the control file takes for its own.
pub fn lower(bytes: &[u8]) {
    let Some(([kind, number], rest)) = bytes.split_first_chunk() else { return };
    let (upper, lower) = (archived().0.snapshot(), archived().1.snapshot());
    let mut chunk = rest.to_vec();
    if kind % 2 == 1 {
        chunk = rewritten(usize::from(*number), rest);
        let before = chain_of(&lower.bytes(PACK).expect("it is there")).expect("it is sound");
        let mut control = upper.bytes("control").expect("it is there");
        let place = control.windows(4).position(|bytes| *bytes == before).expect("its row says it");
        let chain = chain_of(&chunk).expect("its checksums are right");
        control[place..place + 4].copy_from_slice(&chain);
        upper.replace("control", repaired(&control)).expect("memory takes it");
    }
    lower.replace(PACK, chunk).expect("memory takes it");
    let sound = |store: &Store| {
        let read = read(store);
        if store.check().is_ok_and(|checked| checked.index_faults.is_empty()) {
            assert!(read.is_ok(), "sound, but not read: {read:?}");
        }
        let _ = store.check_chunks(&mut |_| Ok(()));
    };
    if let Ok(alone) = Store::open_lower_folder(lower.clone(), small()) {
        sound(&alone);
    }
    if let Ok(reader) = Store::open_read_only(upper.clone(), below(&lower)) {
        sound(&reader);
    }
    if !crc(bytes).is_multiple_of(4) {
        return;
    }
    // Another copy, which has collected, takes it or leaves it, and so does the store itself.
    if let Ok(mut store) = Store::open(gone_on(), below(&lower)) {
        let _ = store.attach();
        sound(&store);
    }
    let target = MemoryDisk::seeded(4) as Arc<dyn Disk>;
    let (from, under) = (upper.clone() as Arc<dyn Disk>, lower.clone() as Arc<dyn Disk>);
    let _ = Store::repair(&from, Some(&under), &target, &mut |_, _| Ok(()));
    let Ok(mut store) = Store::open(upper, below(&lower)) else { return };
    store.begin_chunk().expect("memory does not fail");
    if let Ok(Some(last)) = store.last_commit() {
        let _ = store.archive(&last, u64::MAX);
    }
    let _ = store.unarchive(u64::MAX);
    sound(&store);
}

const SNAPSHOT: &str = "commit.snapshot";

/// The same for a range, and the range compressed.
const RANGE: &str = "range.snapshot";
const PACKED: &str = "packed.snapshot";

/// The snapshots of the last commit of the store and of a range.
fn exported() -> Arc<MemoryDisk> {
    static FILE: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    let make = || {
        let disk = MemoryDisk::seeded(1);
        let target = Arc::clone(&disk) as Arc<dyn Disk>;
        let store = Store::open_read_only(store(), small()).expect("it is a store");
        let commit = store.last_commit().expect("memory does not fail").expect("it has commits");
        store.export_commit(&commit, &target, SNAPSHOT).expect("memory does not fail");
        let first = store.commit_info(&commit).expect("it is there").parents[0];
        let range = store.commits_between(&first, &commit, Limits::default()).expect("a range");
        for (name, zstd_level) in [(RANGE, None), (PACKED, Some(1))] {
            let options = CommitFileOptions { zstd_level };
            store.export_commits(&range, options, &target, name).expect("memory does not fail");
        }
        disk
    };
    FILE.get_or_init(make).snapshot()
}

/// The snapshot of a commit, with every checksum and running hash made right.
pub fn snapshot(bytes: &[u8]) {
    const BEGIN: usize = 81;
    const OPENING: usize = 32;
    const HEAD: usize = 54;
    let mut bytes = bytes.to_vec();
    let sum =
        |identity: &[u8], bytes: &[u8]| masked(crc_append(crc(identity), bytes)).to_le_bytes();
    if bytes.len() >= BEGIN {
        let identity = bytes[12..20].to_vec();
        let opening = sum(&identity, &bytes[OPENING..BEGIN - 4]);
        bytes[BEGIN - 4..BEGIN].copy_from_slice(&opening);
        let mut running = hash::hash(&bytes[..BEGIN]);
        let mut at = BEGIN;
        while let Some(head) = bytes.get(at..at + HEAD) {
            let stored = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
            let Some(payload) = bytes.get(at + HEAD..(at + HEAD).saturating_add(stored)) else {
                break;
            };
            let payload = payload.to_vec();
            // What does not expand is refused before.
            let length = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
            let expanded = match head[16] {
                1 => zstd::bulk::decompress(&payload, length.min(1 << 20) as usize),
                _ => Ok(payload.clone()),
            };
            running = hash::hash(&[&running[..], &expanded.unwrap_or_default()].concat());
            bytes[at + 18..at + 50].copy_from_slice(&running);
            let checksum = sum(&identity, &[&bytes[at..at + 50], &payload].concat());
            bytes[at + 50..at + HEAD].copy_from_slice(&checksum);
            at += HEAD + stored;
        }
    }
    let disk = MemoryDisk::seeded(1);
    disk.replace(SNAPSHOT, bytes).expect("memory takes it");
    let _ = inspect_commit(&*disk, SNAPSHOT);
    let verified = verify_commit(&*disk, SNAPSHOT);
    let target = MemoryDisk::seeded(2);
    let options = Options { tree_bytes: 2_000, ..small() };
    let mut store = Store::create(target, options).expect("memory does not fail");
    match (store.import_commit(&*disk, SNAPSHOT), verified) {
        (Ok(imported), Ok(verified)) => assert_eq!(imported, verified),
        (Err(_), _) => assert!(store.log(1).expect("it is whole").is_empty()),
        (Ok(_), Err(error)) => panic!("what was imported does not verify: {error}"),
    }
}

/// A store whose import was cut off after a frame, what says how far it was, and the file.
fn cut_off() -> &'static (Arc<MemoryDisk>, Arc<MemoryDisk>) {
    static STORE: OnceLock<(Arc<MemoryDisk>, Arc<MemoryDisk>)> = OnceLock::new();
    STORE.get_or_init(|| {
        let options = Options { tree_bytes: 2_000, ..small() };
        let (from, file) = (MemoryDisk::seeded(1), MemoryDisk::seeded(1));
        let mut store = Store::create(from, options.clone()).expect("memory does not fail");
        let mut tree = store.empty_tree();
        for number in 0..60_u8 {
            let name = format!("{number}");
            tree.add(&["a", &name, "value"], &[number; 40]).expect("it fits");
            tree.add(&["a", "twin", &name], &[number % 3; 50]).expect("it fits");
        }
        for name in ["b", "c"] {
            tree.add(&[name, "long"], &vec![name.as_bytes()[0]; 1 << 18]).expect("it fits");
        }
        let commit = store.commit(&mut tree, &CommitInfo::default()).expect("memory");
        let target = Arc::clone(&file) as Arc<dyn Disk>;
        store.export_commit(&commit, &target, SNAPSHOT).expect("memory does not fail");
        let cut = MemoryDisk::seeded(2);
        let disk = Arc::clone(&cut) as Arc<dyn Disk>;
        let mut store = Store::create(disk, options).expect("memory does not fail");
        let mut frames = 0;
        let outcome = store.import_commit_watched(&*file, SNAPSHOT, &mut |_| {
            frames += 1;
            if frames == 2 { Err(Error::invalid("cut off")) } else { Ok(()) }
        });
        assert!(outcome.is_err() && cut.exists(IMPORT).expect("memory does not fail"));
        (cut, file)
    })
}

const IMPORT: &str = "import";

/// The state of an import, with its checksum made right: whatever it says, the import comes to its end.
pub fn import(bytes: &[u8]) {
    let (cut, file) = cut_off();
    let (disk, mut bytes) = (cut.snapshot(), bytes.to_vec());
    if let Some(body) = bytes.len().checked_sub(4).filter(|body| *body >= 32) {
        let sum = masked(crc_append(crc(&bytes[12..20]), &bytes[32..body]));
        bytes[body..].copy_from_slice(&sum.to_le_bytes());
    }
    disk.replace(IMPORT, bytes).expect("memory takes it");
    let options = Options { tree_bytes: 2_000, ..small() };
    let mut store = Store::open(disk, options).expect("it is whole without");
    let imported = store.import_commit(&**file, SNAPSHOT).expect("a state costs work at most");
    let tree = store.checkout(&imported.commit).expect("it is there");
    let each = |_: &[Vec<u8>], tree: &Tree| tree.to_value().map(drop);
    tree.fold::<&[u8]>(&[], None, Order::Sorted, each).expect("all of it is there");
}

/// The records of a batch, after the batches that the first byte says.
pub fn records(bytes: &[u8]) {
    let Some((number, payload)) = bytes.split_first() else { return };
    let batches = batches();
    let (position, _) = &batches[usize::from(*number) % batches.len()];
    let disk = open_store();
    let mut pack = disk.bytes(PACK).expect("it is there");
    pack.truncate(position.offset as usize);
    disk.replace(PACK, pack).expect("memory takes it");
    let mut payload = payload.to_vec();
    repair_records(position.offset + HEAD as u64, &mut payload);
    let each = |_: Position, _: &[u8]| Ok(());
    let mut file = AppendFile::open(&*disk, PACK, FileKind::Pack, Position::start(), each)
        .expect("a cut between batches is sound");
    file.push(&payload).expect("a short batch");
    file.sync().expect("memory does not fail");
    drop(file);
    use_all(&disk, crc(bytes).is_multiple_of(8));
}

/// The length of the record that `bytes` begin with, if they hold all of it: a tag, the length of the body,
/// a hash, the body, a checksum.
pub fn record_length(bytes: &[u8]) -> Option<usize> {
    const REST: usize = 36;
    let mut body = 0;
    for at in 1..5 {
        let byte = *bytes.get(at)?;
        body |= usize::from(byte & 127) << (7 * (at - 1));
        if byte & 128 == 0 {
            let length = at + 1 + REST + body;
            return (length <= bytes.len()).then_some(length);
        }
    }
    None
}

/// Makes the checksum of each record right, as long as lengths make sense.
fn repair_records(mut offset: u64, mut bytes: &mut [u8]) {
    while let Some(length) = record_length(bytes) {
        let (record, rest) = bytes.split_at_mut(length);
        let (record, checksum) = record.split_last_chunk_mut::<4>().expect("it is longer");
        // The identity of the store is its seed.
        let store = small().seed.expect("it is given");
        let place = [store.to_le_bytes(), offset.to_le_bytes()].concat();
        *checksum = masked(crc_append(crc(&place), record)).to_le_bytes();
        (bytes, offset) = (rest, offset + length as u64);
    }
}

/// A commit's hash as people write it.
pub fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(found) = hash::from_text(text) {
        let again = [hash::to_text(&found), hash::to_hex(&found)];
        assert!(again.iter().any(|form| form.eq_ignore_ascii_case(text)), "{text}: {again:?}");
    }
}

/// Two bytes choose the setup; then each step takes four.
pub fn operations(bytes: &[u8]) {
    let Some((head, rest)) = bytes.split_first_chunk::<2>() else { return };
    let disk = if head[0] & 1 == 0 { DiskKind::Memory } else { DiskKind::Sim };
    let setup = step::Setup::draw(disk, u64::from(u16::from_le_bytes(*head)));
    let step = |[kind, at, low, high]: [u8; 4]| {
        step::step(kind, at, u64::from(u16::from_le_bytes([low, high])))
    };
    let steps: Vec<_> = rest.as_chunks::<4>().0.iter().take(100).copied().map(step).collect();
    if let Err(what) = run(&setup, &steps) {
        panic!("{what}\nwith {setup:?}\nand {steps:#?}");
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::damage::mutations;
    use crate::random::Random;

    pub fn seeds(name: &str) -> Vec<Vec<u8>> {
        let bytes = |name: &str| store().bytes(name).unwrap();
        match name {
            "context_control" => vec![bytes("control")],
            "context_index" => {
                let files = store().files();
                let manifests = files.iter().filter(|name| name.starts_with("index/snapshots/"));
                manifests.map(|name| bytes(name)).collect()
            }
            "context_pack" => vec![bytes(PACK)],
            "context_lower" => lower_seeds(),
            "context_sparse" => vec![collected().bytes(SPARSE).unwrap()],
            "context_snapshot" => {
                [SNAPSHOT, RANGE, PACKED].map(|name| exported().bytes(name).unwrap()).to_vec()
            }
            "context_import" => vec![cut_off().0.bytes(IMPORT).unwrap()],
            "context_records" => record_seeds(),
            _ => {
                let hash = hash::hash(b"a commit");
                vec![hash::to_text(&hash).into_bytes(), hash::to_hex(&hash).into_bytes()]
            }
        }
    }

    fn mutate(name: &str, rounds: u64) {
        let (_, body) = BODIES.iter().find(|(known, _)| *known == name).unwrap();
        let seeds = seeds(name);
        for seed in &seeds {
            mutations(*body, seed, rounds / seeds.len() as u64);
        }
    }

    fn tags(payload: &[u8]) -> Vec<u8> {
        let (mut tags, mut at) = (Vec::new(), 0);
        while at < payload.len() {
            tags.push(payload[at]);
            at += record_length(&payload[at..]).unwrap();
        }
        tags
    }

    #[test]
    fn the_seeds_are_sound() {
        let disk = store();
        let store = Store::open(disk, small()).unwrap();
        read(&store).unwrap();
        assert_eq!(store.check().unwrap().commits, 9);
        // Every kind of record is among them: the tag is a record's first byte.
        let records = batches().iter().flat_map(|(_, payload)| tags(payload)).collect::<Vec<_>>();
        assert!((1..=9).all(|tag| records.contains(&tag)), "{records:?}");
    }

    #[test]
    fn no_mutation_of_a_control_file_makes_a_context_panic() {
        mutate("context_control", 20_000);
    }

    #[test]
    fn no_mutation_of_a_sparse_chunk_makes_a_context_panic() {
        mutate("context_sparse", 1_500); // each opens a store
    }

    #[test]
    fn no_mutation_of_a_chunk_in_the_lower_folder_makes_a_context_panic() {
        let seeds = lower_seeds();
        for (number, seed) in seeds[..seeds.len() - 1].iter().enumerate() {
            let same = rewritten(number, &seed[2..]);
            let whole = archived().1.bytes(PACK).unwrap();
            // Heads of batches say also how far the file was synced.
            assert_eq!((same.len(), chain_of(&same)), (whole.len(), chain_of(&whole)), "{number}");
        }
        let (upper, under) = (archived().0.snapshot(), archived().1.snapshot());
        let store = Store::open(upper, below(&under)).unwrap();
        assert_eq!(store.check().unwrap().commits, 10);
        let alone = Store::open_lower_folder(under.clone(), small()).unwrap();
        assert_eq!(alone.check().unwrap().commits, 9);
        assert_eq!(Store::open(gone_on(), below(&under)).unwrap().attach().unwrap(), 1);
        mutate("context_lower", 1_200); // each opens three stores
    }

    #[test]
    fn no_mutation_of_a_snapshot_makes_a_context_panic() {
        assert!(verify_commit(&*exported(), SNAPSHOT).is_ok());
        mutate("context_snapshot", 6_000); // each makes a store
    }

    #[test]
    fn no_mutation_of_the_state_of_an_import_ends_it() {
        mutate("context_import", 300); // each imports half a megabyte
    }

    #[test]
    fn no_mutation_of_an_index_makes_a_context_panic() {
        mutate("context_index", 4_000); // each opens a store
    }

    #[test]
    fn no_mutation_of_a_pack_makes_a_context_panic() {
        mutate("context_pack", 6_000); // each opens a store
    }

    #[test]
    fn no_mutation_of_records_makes_a_context_panic() {
        mutate("context_records", 8_000); // each opens a store
    }

    #[test]
    fn no_mutation_of_a_hash_in_letters_is_taken_for_another() {
        mutate("context_hash", 20_000);
    }

    #[test]
    fn operation_lists_from_bytes_agree_with_nested_maps() {
        let mut random = Random::new(5);
        for _ in 0..60 {
            let length = random.index(400);
            operations(&random.bytes(length));
        }
    }
}

//! The store of Irmin in `golden/`: read, damaged everywhere, growing while it is open. The bodies of the
//! fuzz targets `irmin_*`.

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

#[cfg(test)]
use varvite::context::{CommitInfo, Options, Tree};
use varvite::context::{Order, Store};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::irmin_pack::{self as irmin, Schema, Verify};
use varvite::{Error, Kind, Result};

/// The files of the golden store.
const FILES: [&str; 5] =
    ["store.control", "store.dict", "store.branches", "store.0.suffix", "index/log"];

/// Where its commits begin and end.
const COMMITS: [(u64, u64); 3] = [(228, 314), (459, 554), (741, 836)];

fn golden() -> &'static MemoryDisk {
    static GOLDEN: OnceLock<Arc<MemoryDisk>> = OnceLock::new();
    GOLDEN.get_or_init(|| {
        let disk = MemoryDisk::seeded(1);
        disk.create_directory("index").expect("memory does not fail");
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/irmin-pack");
        for file in FILES {
            let bytes = std::fs::read(folder.join(file)).expect("the file is in golden/");
            disk.replace(file, bytes).expect("memory does not fail");
        }
        disk
    })
}

fn open(disk: &Arc<MemoryDisk>, verify: Verify) -> Result<Store> {
    // It is opened so often that making larger caches would take most of the time.
    let (objects_bytes, pages_bytes) = (64 << 10, 64 << 10);
    let options = irmin::Options { verify, objects_bytes, pages_bytes, ..Default::default() };
    irmin::open(Arc::clone(disk) as Arc<dyn Disk>, &options)
}

/// All that a store says, in one text.
fn told(store: &Store) -> Result<String> {
    let mut text = String::new();
    for hash in store.log(usize::MAX)? {
        let commit = store.commit_info(&hash)?;
        writeln!(text, "{commit:?}").expect("a string takes all");
        store.checkout(&hash)?.fold::<&[u8]>(&[], None, Order::Sorted, |path, tree| {
            let (value, hash) = (tree.to_value()?, tree.hash()?);
            writeln!(text, "{path:?} {value:?} {hash:?}").expect("a string takes all");
            Ok(())
        })?;
    }
    Ok(text)
}

/// That a damaged store gives what the sound one gives, or an error that names the damage.
#[track_caller]
fn is_told(sound: &str, found: Result<String>, what: &str) {
    match found {
        Ok(text) => assert!(text == sound, "{what}: another answer"),
        Err(error) => names(&error, what),
    }
}

#[track_caller]
fn names(error: &Error, what: &str) {
    assert!(matches!(error.kind(), Kind::Corrupt | Kind::Version), "{what}: {error}");
    let text = error.to_string();
    assert!(text.contains("store.") || text.contains("index"), "{what}: {text}");
}

#[test]
fn the_golden_store_is_read() {
    let store = open(&golden().snapshot(), Verify::Hashes).unwrap();
    let head = store.branch(b"main").unwrap();
    assert_eq!(store.last_commit().unwrap(), Some(head));
    let commit = store.commit_info(&head).unwrap();
    assert_eq!((commit.date, &commit.author[..]), (1_600_000_060, &b"Tezos"[..]));
    assert_eq!((commit.parents.len(), commit.sequence), (1, COMMITS[2].0));
    let tree = store.checkout(&head).unwrap();
    assert_eq!(tree.find(&["a", "b"]).unwrap().unwrap(), b"hello2");
    assert_eq!(tree.find(&["a", "c"]).unwrap().unwrap(), b"");
    assert!(tree.find(&["a", "x"]).unwrap().is_none());
    let checked = store.check().unwrap();
    assert_eq!((checked.commits, checked.nodes, checked.values), (3, 7, 5));
}

/// Its files are what Irmin wrote, and what the export writes of the same commits.
#[test]
fn the_golden_store_is_exported_as_it_was() {
    let mut store = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let mut tree = store.empty_tree();
    let mut parents = Vec::new();
    let mut commit = |tree: &mut Tree, date, message: &str| {
        let info = CommitInfo::new(&parents, date, "Tezos", message);
        parents = vec![store.commit(tree, &info).unwrap()];
        store.set_branch(b"main", &parents[0]).unwrap();
    };
    tree.add(&["a", "b"], b"hello").unwrap();
    tree.add(&["a", "c"], b"").unwrap();
    tree.add(&["d"], b"world").unwrap();
    commit(&mut tree, 1_600_000_000, "lvl 0, fit:0, prio:0, 0 ops");
    tree.add(&["a", "b"], b"hello2").unwrap();
    tree.remove(&["d"]).unwrap();
    commit(&mut tree, 1_600_000_030, "lvl 1, fit:1, prio:0, 3 ops");
    tree.add(&["e", "f", "g"], b"x").unwrap();
    commit(&mut tree, 1_600_000_060, "lvl 2, fit:2, prio:0, 6 ops");
    let disk = MemoryDisk::seeded(1);
    let target = Arc::clone(&disk) as Arc<dyn Disk>;
    let scratch: Arc<dyn Disk> = MemoryDisk::seeded(1);
    irmin::export(&store, &target, &scratch, &mut |_| Ok(())).unwrap();
    for file in FILES {
        crate::golden::golden(&format!("irmin-pack/{file}"), &disk.bytes(file).unwrap());
    }
}

/// A tree of it is an ordinary one: it can be changed, and put into a store of ours.
#[test]
fn a_tree_of_irmin_goes_on_in_a_store_of_ours() {
    let theirs = open(&golden().snapshot(), Verify::Trust).unwrap();
    let hash = theirs.last_commit().unwrap().unwrap();
    let commit = theirs.commit_info(&hash).unwrap();
    let mut tree = theirs.checkout(&hash).unwrap();
    let options = Options::default();
    let mut ours = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let info = CommitInfo::new(&commit.parents, commit.date, &commit.author, &commit.message);
    assert_eq!(ours.commit(&mut tree, &info).unwrap(), hash);
    tree.add(&["a", "new"], b"value").unwrap();
    let next = CommitInfo::new(&[hash], 1, "me", "on");
    let hash = ours.commit(&mut tree, &next).unwrap();
    assert_eq!(ours.checkout(&hash).unwrap().length(&["a"]).unwrap(), 3);
    let mut theirs = theirs;
    let refused = theirs.commit(&mut tree, &next).unwrap_err();
    assert_eq!(refused.kind(), Kind::Invalid);
}

/// What the target has collected is not copied again, as its newest commits.
#[test]
fn a_migration_that_is_repeated_leaves_what_was_collected() {
    let mut ours = Store::create(MemoryDisk::seeded(1), Options::default()).unwrap();
    let migrate = |ours: &mut Store| {
        let source = golden().snapshot() as Arc<dyn Disk>;
        let options = irmin::Options::default();
        irmin::migrate(source, &options, ours, &irmin::Choice::default(), &mut |_| Ok(())).unwrap()
    };
    let first = migrate(&mut ours);
    let log = ours.log(usize::MAX).unwrap();
    assert!(log.len() > 1 && first.commits == log.len() as u64, "{first:?}");
    for (name, _) in ours.branches() {
        ours.remove_branch(&name).unwrap();
    }
    ours.collect(&log[0]).unwrap();
    while ours.collect_step(100).unwrap() {}
    assert_eq!(ours.log(usize::MAX).unwrap(), log[..1]);
    let again = migrate(&mut ours);
    assert_eq!((again.commits, again.present), (0, first.commits));
    assert_eq!(ours.log(usize::MAX).unwrap(), log[..1]);
}

#[test]
fn every_flipped_bit_and_every_cut_is_told_or_harmless() {
    let sound = told(&open(&golden().snapshot(), Verify::Hashes).unwrap()).unwrap();
    for file in FILES {
        let bytes = golden().bytes(file).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let disk = golden().snapshot();
            disk.replace(file, damaged).unwrap();
            let found = open(&disk, Verify::Hashes).and_then(|store| told(&store));
            is_told(&sound, found, &format!("{file}, bit {bit}"));
        }
        for length in 0..bytes.len() {
            let disk = golden().snapshot();
            disk.replace(file, &bytes[..length]).unwrap();
            let found = open(&disk, Verify::Hashes).and_then(|store| told(&store));
            is_told(&sound, found, &format!("{file}, {length} bytes"));
        }
    }
}

/// The golden store as version 3 kept one whose first commit was collected: what the second one needs is in
/// a prefix, and no checksum guards the control file.
fn collected() -> Arc<MemoryDisk> {
    let disk = golden().snapshot();
    let pack = golden().bytes("store.0.suffix").unwrap();
    let (gone, start) = (COMMITS[0], COMMITS[1].0);
    let kept = [(0, gone.0), (gone.1, start - gone.1)];
    let (mut prefix, mut mapping) = (Vec::new(), Vec::new());
    for (offset, length) in kept {
        for number in [offset, prefix.len() as u64, length] {
            mapping.extend(number.to_le_bytes());
        }
        prefix.extend(&pack[offset as usize..][..length as usize]);
    }
    let mut control = b"00000003".to_vec();
    control.extend_from_slice(&golden().bytes("store.control").unwrap()[8..16]);
    control.extend((pack.len() as u64 - start).to_be_bytes());
    control.push(3);
    control.extend(start.to_be_bytes());
    control.push(1);
    disk.remove("store.0.suffix").unwrap();
    disk.replace("store.1.suffix", &pack[start as usize..]).unwrap();
    disk.replace("store.1.prefix", prefix).unwrap();
    disk.replace("store.1.mapping", mapping).unwrap();
    disk.replace("store.control", control).unwrap();
    disk
}

#[test]
fn a_flipped_bit_of_a_control_file_without_a_checksum_collects_nothing() {
    let sound = collected();
    let store = open(&sound, Verify::Hashes).unwrap();
    assert_eq!(store.log(9).unwrap().len(), 2);
    store.check().unwrap();
    let sound_text = told(&store).unwrap();
    let bytes = sound.bytes("store.control").unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let disk = sound.snapshot();
        disk.replace("store.control", damaged).unwrap();
        let found = open(&disk, Verify::Hashes).and_then(|store| told(&store));
        if (25..33).contains(&(bit / 8)) {
            // Where the suffix begins: moved, every commit would look collected.
            let error = found.as_ref().expect_err("another start");
            assert_eq!(error.kind(), Kind::Corrupt, "bit {bit}: {error}");
        }
        is_told(&sound_text, found, &format!("bit {bit}"));
    }
}

#[test]
fn a_commit_whose_hash_the_index_lost_is_found_and_the_damage_told() {
    let sound = open(&golden().snapshot(), Verify::Hashes).unwrap();
    let mut commits = sound.log(9).unwrap();
    commits.reverse();
    let index = golden().bytes("index/log").unwrap();
    for (number, commit) in commits.iter().enumerate() {
        // An entry is 45 bytes behind a header of 32, its hash first.
        let place = 32 + 45 * number;
        assert_eq!(&index[place..place + 32], commit.as_bytes());
        for bit in 0..32 * 8 {
            let mut damaged = index.clone();
            damaged[place + bit / 8] ^= 1 << (bit % 8);
            let wrong: [u8; 32] = damaged[place..place + 32].try_into().unwrap();
            let disk = golden().snapshot();
            disk.replace("index/log", damaged).unwrap();
            let store = open(&disk, Verify::Hashes).unwrap();
            let what = format!("commit {number}, bit {bit}");
            assert!(store.exists(commit).unwrap(), "{what}");
            assert_eq!(store.commit_info(commit).unwrap().hash, *commit, "{what}");
            for error in [store.exists(&wrong.into()).unwrap_err(), store.log(9).unwrap_err()] {
                assert_eq!(error.kind(), Kind::Corrupt, "{what}: {error}");
                names(&error, &what);
            }
        }
    }
}

fn adler(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    high << 16 | low
}

/// A control file with this many bytes in its last chunk.
fn control(chunk_end: u64) -> Vec<u8> {
    let mut bytes = golden().bytes("store.control").expect("it is there");
    bytes[16..24].copy_from_slice(&chunk_end.to_be_bytes());
    bytes[25..33].fill(0);
    let sum = u64::from(adler(&bytes[8..]));
    bytes[25..33].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The store as it was after its first commits.
fn young(disk: &MemoryDisk, commits: usize) {
    let end = commits.checked_sub(1).map_or(0, |last| COMMITS[last].1);
    disk.replace("store.control", control(end)).unwrap();
    let mut log = golden().bytes("index/log").unwrap();
    log.truncate(32 + commits * 45);
    log[..8].copy_from_slice(&(commits as u64 * 45).to_be_bytes());
    disk.replace("index/log", log).unwrap();
}

#[test]
fn reload_sees_what_another_process_committed() {
    let disk = golden().snapshot();
    young(&disk, 0);
    let mut store = open(&disk, Verify::Hashes).unwrap();
    assert_eq!(store.last_commit().unwrap(), None);
    let mut trees = Vec::new();
    for commits in 1..=3 {
        young(&disk, commits);
        assert_eq!(store.log(9).unwrap().len(), commits - 1);
        store.reload().unwrap();
        let log = store.log(9).unwrap();
        assert_eq!(log.len(), commits);
        trees.push((commits, store.checkout(&log[0]).unwrap()));
        store.reload().unwrap();
    }
    // Trees of before go on.
    for (commits, tree) in trees {
        let value = if commits == 1 { &b"hello"[..] } else { b"hello2" };
        assert_eq!(tree.find(&["a", "b"]).unwrap().unwrap(), value);
    }
    // The index is behind the control file for a moment.
    young(&disk, 2);
    disk.replace("store.control", control(COMMITS[2].1)).unwrap();
    assert_eq!(open(&disk, Verify::Hashes).unwrap().log(9).unwrap().len(), 3);
}

#[test]
fn what_is_no_store_is_refused() {
    let error = open(&MemoryDisk::seeded(1), Verify::Hashes).unwrap_err();
    assert_eq!(error.kind(), Kind::Missing);
    let disk = golden().snapshot();
    let mut newer = golden().bytes("store.control").unwrap();
    newer[7] = b'6';
    disk.replace("store.control", newer).unwrap();
    let error = open(&disk, Verify::Hashes).unwrap_err();
    assert_eq!(error.kind(), Kind::Version);
    // A file that the control file names.
    let disk = golden().snapshot();
    disk.remove("store.0.suffix").unwrap();
    let error = open(&disk, Verify::Hashes).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt);
    for part in ["store.control", "store.0.suffix does not exist"] {
        assert!(error.detail().contains(part), "{error}");
    }
}

/// A trace with a row of each of four kinds, the last one cut.
const TRACE: &[u8] = b"IrmRepBT\0\0\0\0\0\x0e\x04\x01\x01a\0\x01\0\0\0\0\0\0\0\0\
    \x18\x01\x01\x01a\x01v\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
    \x18\x07\x01\x01h\0\0\0\0\0\0\0\x07\x01m\0\0\0\0\0\0\0\0\0\x01\x40\0\x01\x34";

#[test]
fn a_trace_is_described_row_by_row() {
    let outline = irmin::trace::describe("trace", TRACE, 10).unwrap();
    let text = outline.to_string();
    for part in [
        "rows=3 add=1 find=1 commit=1",
        "find [13..28] path=a found=false from=0",
        "add [28..53] path=a value=v from=0 (last use) to=1",
        "commit=h date=7 message=m from=1 (last use)",
        "cut row",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(outline.damage_count(), 0);
    let refused = irmin::trace::describe("trace", b"IrmRepBT\0\0\0\x01\0", 10).unwrap_err();
    assert_eq!(refused.kind(), Kind::Version);
    let statistics = b"IrmStaBT\0\0\0\x01\x02..\x05\x02\x3f\0\0\0\x07\x07\x3f\x80\0\0ab";
    let text = irmin::trace::describe("trace", statistics, 10).unwrap().to_string();
    assert!(text.contains("find [15..21] seconds=0.5"), "{text}");
    assert!(text.contains("commit [21..29] seconds=1 counters=2 bytes"), "{text}");
}

/// A name in Irmin's folder for each format.
pub const KINDS: [(&str, &str); 8] = [
    ("irmin_control", "store.control"),
    ("irmin_dict", "store.dict"),
    ("irmin_branches", "store.branches"),
    ("irmin_index", "index/log"),
    ("irmin_pack", "store.0.suffix"),
    ("irmin_mapping", "store.1.mapping"),
    ("irmin_volume", "volume.0/volume.control"),
    ("irmin_trace", "trace"),
];

/// What the fuzz target of that name does: the file is described, and the golden store read with it.
pub fn body(name: &str, bytes: &[u8]) {
    if name == "irmin_trace" {
        let _ = irmin::trace::describe("trace", bytes, 10);
        if let Ok(rows) = irmin::trace::Rows::new("trace", bytes) {
            assert!(rows.count() <= bytes.len());
        }
        return;
    }
    let (_, file) = KINDS.iter().find(|(known, _)| *known == name).expect("a target's name");
    for schema in [None, Some(Schema::Tezos), Some(Schema::Sha1)] {
        let outline = irmin::inspect::file(file, bytes, schema).expect("the name is known");
        assert!(outline.children.len() <= bytes.len() + 1);
    }
    if !FILES.contains(file) {
        return;
    }
    let disk = golden().snapshot();
    disk.replace(file, bytes).expect("memory does not fail");
    for verify in [Verify::Hashes, Verify::Trust] {
        if let Ok(store) = open(&disk, verify) {
            let _ = told(&store);
            let _ = store.check();
        }
    }
    if *file == "store.control" && bytes.len() >= 33 && bytes[24] == 0 {
        // Repaired, so that mutations get further than the checksum.
        let mut repaired = bytes.to_vec();
        repaired[25..33].fill(0);
        let sum = u64::from(adler(&repaired[8..]));
        repaired[25..33].copy_from_slice(&sum.to_be_bytes());
        disk.replace(file, repaired).expect("memory does not fail");
        if let Ok(store) = open(&disk, Verify::Trust) {
            let _ = told(&store);
        }
    }
}

/// Where mutations of a file begin; a store that collected nothing has no mapping and no volume.
pub fn seed(name: &str, file: &str) -> Vec<u8> {
    match golden().bytes(file) {
        Ok(bytes) => bytes,
        Err(_) if name == "irmin_trace" => TRACE.to_vec(),
        Err(_) => (0..96).map(|at| u8::from(at % 8 == 0) * at).collect(),
    }
}

#[test]
fn the_bodies_survive_mutations() {
    let mut random = crate::random::Random::new(5);
    for (name, file) in KINDS {
        let good = seed(name, file);
        for _ in 0..300 * crate::damage::effort() {
            let mut bytes = good.clone();
            for _ in 0..=random.index(4) {
                if bytes.is_empty() {
                    bytes = random.bytes(40);
                }
                let at = random.index(bytes.len());
                match random.below(4) {
                    0 => bytes[at] ^= 1 << random.below(8),
                    1 => bytes[at] = random.choose(&[0, 1, 0x7f, 0x80, 0xff]),
                    2 => bytes.truncate(at),
                    _ => drop(bytes.splice(at..at, random.bytes(3))),
                }
            }
            body(name, &bytes);
        }
    }
}

#[test]
fn memory_that_no_machine_has_is_refused() {
    let most = u64::MAX;
    for (objects_bytes, pages_bytes) in [(most, 64 << 10), (64 << 10, most)] {
        let options = irmin::Options { objects_bytes, pages_bytes, ..Default::default() };
        let error =
            irmin::open(golden().snapshot() as Arc<dyn Disk>, &options).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(error.to_string().contains("choose less"), "{error}");
    }
}

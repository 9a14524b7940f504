//! Commits as files: any store of a commit writes the same bytes, and what reads them takes nothing else.

use std::sync::Arc;

use varvite::context::{
    ChildOrder, CommitFile, CommitHash, CommitInfo, Configuration, Index, Options, Store, Tree,
    inspect_commit, verify_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Kind, Result};

use crate::context_collect::content;
use crate::golden::golden;
use crate::random::Random;

pub const FILE: &str = "commit.snapshot";

pub fn options(index: Index) -> Options {
    Options {
        configuration: Configuration::new(4, 8, ChildOrder::SeededHash).unwrap(),
        index,
        seed: Some(9),
        chunk_bytes: 20_000,
        tree_bytes: 8_000,
        objects_bytes: 20_000,
        ..Options::default()
    }
}

pub fn memory() -> (Arc<MemoryDisk>, Arc<dyn Disk>) {
    let disk = MemoryDisk::seeded(1);
    (Arc::clone(&disk), disk)
}

/// Binds what a block of the chain of the tests changes: values of every size, directories of every
/// width, and the same ones in many places.
pub fn change(tree: &mut Tree, block: u64) -> Result<()> {
    let mut random = Random::new(block);
    for number in 0..if block == 0 { 260 } else { 15 } {
        let number = if block == 0 { number } else { random.below(300) };
        let name = format!("{number:04x}");
        let length = random.index(60);
        tree.add(&["wide", &name, "value"], &random.bytes(length))?;
        tree.add(&["wide", &name, "code"], &[number as u8 % 5; 200])?;
        tree.add(&["wide", &name, "inner", "a"], &[7; 16])?;
        tree.add(&["wide", &name, "inner", "b", "c"], &[7; 3])?;
        tree.add(&["narrow", &name[..2], &name[2..], "x"], &[block as u8; 40])?;
        // The same subtree, above and below the flat limit.
        for twin in 0..number % 12 {
            tree.add(&["twins", &name, "one", &format!("{twin}")], &[1; 20])?;
        }
    }
    for byte in 0..30_u8 {
        tree.add(&["bytes", &format!("{byte}")], &vec![byte; usize::from(byte)])?;
    }
    Ok(())
}

pub const BLOCKS: u64 = 5;

/// A store of the chain of the tests, each block a commit; the last is returned.
pub fn chain(disk: Arc<dyn Disk>, options: Options) -> Result<(Store, CommitHash)> {
    let mut store = Store::create(disk, options)?;
    let mut parents = Vec::new();
    for block in 0..BLOCKS {
        let mut tree = match parents.last() {
            Some(last) => store.checkout(last)?,
            None => store.empty_tree(),
        };
        change(&mut tree, block)?;
        let info = CommitInfo::new(&parents, block as i64, "me", format!("block {block}"));
        parents = vec![store.commit(&mut tree, &info)?];
    }
    Ok((store, parents[0]))
}

/// The file that a store makes of a commit.
pub fn export(store: &Store, commit: &CommitHash) -> (Vec<u8>, CommitFile) {
    let (disk, target) = memory();
    let file = store.export_commit(commit, &target, FILE).unwrap();
    assert_eq!(disk.files(), [FILE]);
    let bytes = disk.bytes(FILE).unwrap();
    assert_eq!(bytes.len() as u64, file.bytes);
    (bytes, file)
}

pub fn exported(bytes: &[u8]) -> Arc<MemoryDisk> {
    let (disk, _) = memory();
    disk.replace(FILE, bytes.to_vec()).unwrap();
    disk
}

fn of_chain() -> (Vec<u8>, CommitFile) {
    let (store, commit) = chain(memory().1, options(Index::Minimal)).unwrap();
    export(&store, &commit)
}

#[test]
fn stores_with_different_histories_write_the_same_bytes() {
    let (bytes, file) = of_chain();
    assert!(file.repeats > 100 && file.leaves > 50 && file.branches > 20, "{file:?}");
    let always = Options { chunk_bytes: 3_000, ..options(Index::Always) };
    let (mut store, commit) = chain(memory().1, always).unwrap();
    assert_eq!(export(&store, &commit).0, bytes, "with an index of all objects");
    store.collect(&commit).unwrap();
    while store.collect_step(1 << 20).unwrap() {}
    assert_eq!(store.stats().generation, 1);
    assert_eq!(export(&store, &commit).0, bytes, "collected");
    // The same tree at once, after others that were removed again.
    let mut once = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let mut tree = once.empty_tree();
    for block in 0..BLOCKS {
        tree.add(&["wide", "gone", &format!("{block}")], &[1; 100]).unwrap();
        once.commit(&mut tree, &CommitInfo::new(&[], 1, "x", "y")).unwrap();
        change(&mut tree, block).unwrap();
    }
    tree.remove(&["wide", "gone"]).unwrap();
    let from = store.commit_info(&commit).unwrap();
    let info = CommitInfo::new(&from.parents, from.date, &from.author, &from.message);
    assert_eq!(once.commit(&mut tree, &info).unwrap(), commit);
    let (again, summary) = export(&once, &commit);
    assert_eq!((again, summary), (bytes, file), "of another history");
}

#[test]
fn a_commit_comes_back_from_its_file() {
    let (bytes, file) = of_chain();
    let (from, commit) = chain(memory().1, options(Index::Minimal)).unwrap();
    let source = exported(&bytes);
    assert_eq!(verify_commit(&*source, FILE).unwrap(), file);
    let head = inspect_commit(&*source, FILE).unwrap();
    assert_eq!(
        (head.commit, head.bytes, head.stream_bytes, head.hash),
        (commit, file.bytes, file.stream_bytes, file.hash)
    );
    for index in [Index::Minimal, Index::Always] {
        let (_, target) = memory();
        let made = Store::create_from_commit(Arc::clone(&target), options(index), &*source, FILE);
        let (store, imported) = made.unwrap();
        assert_eq!(imported, file);
        drop(store);
        let store = Store::open(target, Options::default()).unwrap();
        assert_eq!(store.log(9).unwrap(), [commit]);
        assert_eq!(
            content(&store.checkout(&commit).unwrap()).unwrap(),
            content(&from.checkout(&commit).unwrap()).unwrap()
        );
        let (mine, theirs) =
            (store.commit_info(&commit).unwrap(), from.commit_info(&commit).unwrap());
        assert_eq!(mine.parents, theirs.parents);
        assert_eq!(
            (mine.date, mine.author, mine.message),
            (theirs.date, theirs.author, theirs.message)
        );
        assert!(!store.exists(&mine.parents[0]).unwrap());
        assert_eq!(store.commit_info(&mine.parents[0]).unwrap_err().kind(), Kind::Missing);
        assert!(store.check().unwrap().index_faults.is_empty());
        assert_eq!(export(&store, &commit).0, bytes);
    }
}

#[test]
fn a_living_store_takes_a_commit_of_which_it_has_a_part() {
    let (bytes, file) = of_chain();
    let source = exported(&bytes);
    for index in [Index::Minimal, Index::Always] {
        let (_, disk) = memory();
        let mut store = Store::create(Arc::clone(&disk), options(index)).unwrap();
        let mut tree = store.empty_tree();
        change(&mut tree, 0).unwrap();
        let own = store.commit(&mut tree, &CommitInfo::new(&[], 3, "me", "mine")).unwrap();
        let before = store.stats().pack_bytes;
        assert_eq!(store.import_commit(&*source, FILE).unwrap(), file);
        let grown = store.stats().pack_bytes - before;
        assert!(index == Index::Minimal || grown < before / 2, "{grown} beside {before}");
        assert_eq!(store.log(9).unwrap(), [file.commit, own]);
        // Again: nothing is written.
        let before = store.stats().written_bytes;
        assert_eq!(store.import_commit(&*source, FILE).unwrap(), file);
        assert_eq!(store.stats().written_bytes, before);
        // It goes on from there, and the own commit is what it was.
        let mut tree = store.checkout(&file.commit).unwrap();
        tree.add(&["wide", "0001", "value"], b"another").unwrap();
        let next = CommitInfo::new(&[file.commit], 9, "me", "next");
        let next = store.commit(&mut tree, &next).unwrap();
        store.close().unwrap();
        let store = Store::open(disk, options(index)).unwrap();
        assert_eq!(store.log(9).unwrap(), [next, file.commit, own]);
        assert_eq!(export(&store, &file.commit).0, bytes);
        assert_eq!(store.check().unwrap().commits, 3);
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let (bytes, file) = of_chain();
    let source = exported(&bytes);
    let mut other = Store::create(memory().1, Options::default()).unwrap();
    let error = other.import_commit(&*source, FILE).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    let (store, commit) = chain(memory().1, options(Index::Minimal)).unwrap();
    let target: Arc<dyn Disk> = source;
    let error = store.export_commit(&commit, &target, FILE).unwrap_err();
    assert_eq!(error.kind(), Kind::Exists, "{error}");
    let error = store.export_commit(&[7; 32].into(), &target, "other").unwrap_err();
    assert_eq!(error.kind(), Kind::Missing, "{error}");
    assert!(!target.exists("other").unwrap());
    assert_eq!(verify_commit(&*target, FILE).unwrap(), file);
    assert_eq!(verify_commit(&*target, "none").unwrap_err().kind(), Kind::Missing);
}

#[test]
fn no_byte_can_be_changed_and_no_file_cut() {
    let (disk, target) = memory();
    let mut store = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..20 {
        tree.add(&["wide", &format!("{number}"), "x"], &[number; 20]).unwrap();
    }
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    store.export_commit(&commit, &target, FILE).unwrap();
    let bytes = disk.bytes(FILE).unwrap();
    let refused = |bytes: Vec<u8>, what: &str| {
        let source = exported(&bytes);
        let error = verify_commit(&*source, FILE).expect_err(what);
        assert!([Kind::Corrupt, Kind::Invalid, Kind::Version].contains(&error.kind()), "{error}");
        assert!(error.to_string().contains(FILE), "{error}");
    };
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        refused(damaged, &format!("byte {place}"));
        refused(bytes[..place].to_vec(), &format!("cut at {place}"));
    }
    refused([&bytes[..], &[0]].concat(), "a byte more");
}

/// The hash of a commit of small directories is the same however larger ones would be cut, so it does not vouch for what
/// the file says of that: a store of it would compute other hashes than the chain.
#[test]
fn a_store_is_made_only_with_the_configuration_that_is_asked_for() {
    let of = |configuration| {
        let options = Options { configuration, ..Options::default() };
        let mut store = Store::create(memory().1, options).unwrap();
        let mut tree = store.empty_tree();
        tree.add(&["data", "a"], &[1; 40]).unwrap();
        let commit = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
        (commit, export(&store, &commit).0)
    };
    let other = Configuration::new(2, 300, ChildOrder::HashBits).unwrap();
    let ((commit, right), (altered, bytes)) = (of(Configuration::TEZOS), of(other));
    assert!(commit == altered && right != bytes, "nothing but the opening is another");
    let source = exported(&bytes);
    assert_eq!(verify_commit(&*source, FILE).unwrap().configuration, other);
    let (disk, target) = memory();
    let made = Store::create_from_commit(Arc::clone(&target), Options::default(), &*source, FILE);
    let error = made.map(|(_, file)| file).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    for says in ["2 entries, flat up to 300, by hash bits", "32 entries, flat up to 256"] {
        assert!(error.to_string().contains(says), "{error}");
    }
    assert_eq!(disk.list("").unwrap(), Vec::<String>::new(), "nothing was made");
    let asked = Options { configuration: other, ..Options::default() };
    assert_eq!(Store::create_from_commit(target, asked, &*source, FILE).unwrap().1.commit, commit);
    let mut store = Store::create(memory().1, Options::default()).unwrap();
    let error = store.import_commit(&*source, FILE).unwrap_err();
    assert!(error.to_string().contains("flat up to 300"), "{error}");
}

#[test]
fn large_values_go_on_from_frame_to_frame() {
    let (_, target) = memory();
    let mut store = Store::create(memory().1, Options::default()).unwrap();
    let mut tree = store.empty_tree();
    // Each reaches into the frame after the next, or ends just where one does.
    for (name, length) in
        [("a", 1 << 18), ("b", 1_200_000), ("c", 1_300_000), ("d", (1 << 20) - 4), ("e", 700_000)]
    {
        tree.add(&[name], &Random::new(length as u64).bytes(length)).unwrap();
    }
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    let file = store.export_commit(&commit, &target, FILE).unwrap();
    assert_eq!(verify_commit(&*target, FILE).unwrap(), file);
    let (_, disk) = memory();
    let made = Store::create_from_commit(disk, Options::default(), &*target, FILE);
    let (again, _) = made.unwrap();
    assert_eq!(
        content(&again.checkout(&commit).unwrap()).unwrap(),
        content(&store.checkout(&commit).unwrap()).unwrap()
    );
}

/// A store with one commit of its own.
fn beside(disk: Arc<dyn Disk>, index: Index) -> Result<(Store, CommitHash)> {
    let mut store = Store::create(disk, options(index))?;
    let mut tree = store.empty_tree();
    tree.add(&["own"], &[1; 50])?;
    let own = store.commit(&mut tree, &CommitInfo::new(&[], 1, "me", "own"))?;
    store.checkpoint()?;
    Ok((store, own))
}

fn expect_one_of(
    disk: Arc<dyn Disk>,
    index: Index,
    own: CommitHash,
    file: &CommitFile,
    what: &str,
) -> bool {
    let mut store =
        Store::open(disk, options(index)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let log = store.log(9).unwrap();
    let is_there = log == [file.commit, own];
    assert!(is_there || log == [own], "{what}: {} commits", log.len());
    let checked = store.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(checked.index_faults.is_empty(), "{what}: {checked:?}");
    let mut tree = store.checkout(&own).unwrap();
    tree.add(&["own"], &[2; 50]).unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[own], 2, "me", "next")).unwrap();
    is_there
}

#[test]
fn a_crash_at_every_call_of_an_import_leaves_the_store_as_it_was() {
    let (bytes, file) = of_chain();
    let source = exported(&bytes);
    for index in [Index::Minimal, Index::Always] {
        let (mut n, mut before, mut after) = (0, 0, 0);
        loop {
            n += 1;
            let sim = SimDisk::new(n);
            let (mut store, own) = beside(Arc::clone(&sim) as Arc<dyn Disk>, index).unwrap();
            sim.kill_at(n);
            let outcome = store.import_commit(&*source, FILE);
            if !sim.is_dead() {
                outcome.unwrap();
                break;
            }
            for crash in [Crash::Process, Crash::Subset(0), Crash::Seed(n), Crash::Seed(n + 1)] {
                let disk = sim.crash(crash);
                let there = expect_one_of(disk, index, own, &file, &format!("call {n}, {crash:?}"));
                assert!(there || outcome.is_err(), "call {n}: it was acknowledged");
                if there { after += 1 } else { before += 1 }
            }
        }
        assert!(n > 20 && before > 50 && after > 0, "{n} calls, {before} before, {after} after");
    }
}

#[test]
fn an_import_or_export_whose_nth_call_fails_can_be_done_again() {
    let (bytes, file) = of_chain();
    let source = exported(&bytes);
    for fault in [Fault::Write, Fault::Sync, Fault::Rename, Fault::Read, Fault::Open] {
        let mut failed = 0;
        for n in 1.. {
            let sim = SimDisk::new(n);
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let (mut store, own) = beside(Arc::clone(&disk), Index::Minimal).unwrap();
            sim.fail_at(n, fault);
            let outcome = store.import_commit(&*source, FILE);
            sim.disarm();
            if outcome.is_ok() {
                break;
            }
            failed += 1;
            drop(store);
            expect_one_of(Arc::clone(&disk), Index::Minimal, own, &file, &format!("{fault:?} {n}"));
            let mut store = Store::open(disk, options(Index::Minimal)).unwrap();
            assert_eq!(store.import_commit(&*source, FILE).unwrap(), file);
            assert_eq!(export(&store, &file.commit).0, bytes);
        }
        let rare = matches!(fault, Fault::Rename | Fault::Read | Fault::Open);
        assert!(failed > 0 || rare, "{fault:?} never came");
    }
    // A failed export leaves no file of that name, nor where it had it and the folder's sync did not say that it keeps it.
    let (store, commit) = chain(memory().1, options(Index::Minimal)).unwrap();
    let exporting = |n: Option<u64>| {
        let sim = SimDisk::new(n.unwrap_or(1));
        let target = Arc::clone(&sim) as Arc<dyn Disk>;
        if let Some(n) = n {
            sim.fail_at(n, Fault::Any);
        }
        let outcome = store.export_commit(&commit, &target, FILE);
        sim.disarm();
        (sim, target, outcome)
    };
    let (sim, _, outcome) = exporting(None);
    outcome.unwrap();
    let (mut failed, mut renamed_back) = (0, 0);
    for n in 1..=sim.calls().of(Fault::Any) {
        let (sim, target, outcome) = exporting(Some(n));
        if outcome.is_ok() {
            continue;
        }
        failed += 1;
        assert!(!target.exists(FILE).unwrap(), "call {n}");
        let working = format!("{FILE}.export.tmp");
        renamed_back += u64::from(sim.bytes(&working).is_ok_and(|left| left == bytes));
        store.export_commit(&commit, &target, FILE).unwrap();
        assert_eq!(sim.bytes(FILE).unwrap(), bytes, "call {n}");
    }
    assert!(failed > 8 && renamed_back > 0, "{failed}, {renamed_back}");
}

#[test]
fn the_small_snapshot_is_written_as_it_was_and_read() {
    let (disk, target) = memory();
    let mut store = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let mut tree = store.empty_tree();
    for name in ["ab", "cafe", "long name"] {
        tree.add(&["data", name], &[b'x'; 16]).unwrap();
        tree.add(&["more", name], &[b'y'; 32]).unwrap();
    }
    for number in 0..9 {
        tree.add(&["wide", &format!("{number}")], &[number]).unwrap();
    }
    let commit =
        store.commit(&mut tree, &CommitInfo::new(&[[3; 32].into()], 7, "me", "hi")).unwrap();
    store.export_commit(&commit, &target, FILE).unwrap();
    let bytes = golden("context-snapshot/small.bin", &disk.bytes(FILE).unwrap());
    let source = exported(&bytes);
    let (_, disk) = memory();
    let made = Store::create_from_commit(disk, options(Index::Minimal), &*source, FILE);
    let (again, file) = made.unwrap();
    assert_eq!((file.values, file.repeats), (4, 2));
    assert_eq!(again.checkout(&commit).unwrap().hash().unwrap(), tree.hash().unwrap());
}

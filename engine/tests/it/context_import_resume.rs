//! Imports that were cut off: the next one goes on where a frame of the file ends, whatever happened between.

use std::sync::Arc;

use varvite::context::{
    CommitFile, CommitFileOptions, CommitHash, CommitInfo, Index, Options, Store, verify_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::sim::{Crash, Fault, SimDisk};
use varvite::{Error, Kind, Result};

use crate::context_snapshots::{FILE, change, export, exported, memory, options};
use crate::golden::golden;
use crate::random::{Random, setting};

/// The file of the state in a store's folder.
const STATE: &str = "import";

/// What one more value puts into the pack, and what the store writes again after the last state at most.
const LARGE: usize = 263_000;

/// Two commits of small things between values that fill a frame each, and the file of both, plain and compressed.
fn files() -> ([CommitHash; 2], CommitFile, [Vec<u8>; 2]) {
    let mut store = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let mut tree = store.empty_tree();
    change(&mut tree, 0).unwrap();
    for name in ["aa", "zz"] {
        tree.add(&[name, "value"], &Random::new(u64::from(name.as_bytes()[0])).bytes(LARGE))
            .unwrap();
        tree.add(&[name, "small"], name.as_bytes()).unwrap();
        tree.add(&[name, "values"], &vec![name.as_bytes()[0]; LARGE]).unwrap();
    }
    let first = store.commit(&mut tree, &CommitInfo::new(&[], 1, "me", "one")).unwrap();
    change(&mut tree, 1).unwrap();
    tree.add(&["nb", "value"], &Random::new(9).bytes(LARGE)).unwrap();
    let last = store.commit(&mut tree, &CommitInfo::new(&[first], 2, "me", "two")).unwrap();
    let mut file = None;
    let both = [None, Some(1)].map(|zstd_level| {
        let (disk, target) = memory();
        let options = CommitFileOptions { zstd_level };
        let said = store.export_commits(&[first, last], options, &target, FILE).unwrap();
        file.get_or_insert(said);
        disk.bytes(FILE).unwrap()
    });
    ([first, last], file.unwrap(), both)
}

/// A store with a commit of its own.
fn beside(disk: Arc<dyn Disk>, index: Index) -> (Store, CommitHash) {
    let mut store = Store::create(disk, options(index)).unwrap();
    let own = block(&mut store, None, 40);
    (store, own)
}

/// One of so many calls, or with more effort each.
fn every(count: usize) -> usize {
    if setting("VARVITE_EFFORT", 1) > 1 { 1 } else { count }
}

fn block(store: &mut Store, parent: Option<CommitHash>, number: u64) -> CommitHash {
    let mut tree = parent.map_or_else(|| store.empty_tree(), |it| store.checkout(&it).unwrap());
    change(&mut tree, number).unwrap();
    let parents: Vec<CommitHash> = parent.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, number as i64, "me", "own")).unwrap()
}

/// Imports, and says where it went on.
fn import(store: &mut Store, source: &MemoryDisk) -> Result<(CommitFile, u64)> {
    let mut resumed = None;
    let file = store.import_commit_watched(source, FILE, &mut |done| {
        resumed.get_or_insert(done.resumed);
        assert_eq!(resumed, Some(done.resumed), "one import");
        Ok(())
    })?;
    Ok((file, resumed.expect("it was told of the last frame")))
}

/// An import that ends after so many frames.
fn cut_off(store: &mut Store, source: &MemoryDisk, mut frames: u64) {
    let outcome = store.import_commit_watched(source, FILE, &mut |_| {
        frames -= 1;
        if frames == 0 { Err(Error::invalid("cut off")) } else { Ok(()) }
    });
    assert!(outcome.unwrap_err().to_string().contains("cut off"));
}

/// The store has what the file has, and writes the same file.
fn expect_whole(store: &Store, commits: &[CommitHash; 2], bytes: &[u8], what: &str) {
    let (disk, target) = memory();
    store.export_commits(commits, CommitFileOptions::default(), &target, FILE).expect(what);
    assert!(disk.bytes(FILE).unwrap() == bytes, "{what}: another file");
    let checked = store.check().expect(what);
    assert!(checked.index_faults.is_empty(), "{what}: {checked:?}");
}

#[test]
fn an_import_killed_at_every_call_goes_on_and_writes_nothing_twice() {
    let (commits, file, [bytes, _]) = files();
    let source = exported(&bytes);
    for index in [Index::Minimal, Index::Always] {
        let (mut whole, _) = beside(memory().1, index);
        import(&mut whole, &source).unwrap();
        let whole = whole.stats().pack_bytes;
        let (mut resumed_times, mut furthest) = (0, 0);
        for n in (1..).step_by(every(if index == Index::Always { 8 } else { 3 })) {
            let sim = SimDisk::new(n);
            let (mut store, _) = beside(Arc::clone(&sim) as Arc<dyn Disk>, index);
            sim.kill_at(n);
            let outcome = store.import_commit(&*source, FILE);
            if !sim.is_dead() {
                outcome.unwrap();
                assert!(!sim.exists(STATE).unwrap(), "the state goes with the end");
                break;
            }
            let powers = [Crash::Subset(0), Crash::Seed(n)];
            for crash in [Crash::Process, powers[n as usize % 2]] {
                let what = format!("{index:?}, call {n}, {crash:?}");
                let disk = sim.crash(crash);
                let mut store = Store::open(Arc::clone(&disk) as _, options(index)).expect(&what);
                let (imported, resumed) = import(&mut store, &source).expect(&what);
                assert_eq!(imported, file, "{what}");
                resumed_times += u64::from(resumed > 0);
                furthest = furthest.max(resumed);
                // Two frames, of which one was read when the state was due and one was being read.
                let most = whole + 3 * LARGE as u64;
                let now = store.stats().pack_bytes;
                assert!(now <= most, "{what}: {now} bytes, {whole} in one go, {resumed}");
                assert!(!disk.exists(STATE).unwrap(), "{what}");
                if n % 7 == 0 {
                    expect_whole(&store, &commits, &bytes, &what);
                }
            }
        }
        assert!(
            resumed_times > if index == Index::Always { 2 } else { 8 },
            "{index:?}: {resumed_times}"
        );
        assert!(furthest > bytes.len() as u64 / 2, "{index:?}: {furthest} of {}", bytes.len());
    }
}

#[test]
fn an_import_killed_again_and_again_comes_to_its_end() {
    let (commits, file, [bytes, packed]) = files();
    let (plain, packed) = (exported(&bytes), exported(&packed));
    let sim = SimDisk::new(3);
    let mut disk = Arc::clone(&sim) as Arc<dyn Disk>;
    let mut dying = sim;
    drop(beside(Arc::clone(&disk), Index::Minimal));
    let (mut before, mut kills) = (0, 0);
    for round in 0.. {
        let mut store = Store::open(Arc::clone(&disk), options(Index::Minimal)).unwrap();
        // Going on costs reads before it comes any further.
        dying.kill_at(20 + 3 * kills);
        // Frames are the same, compressed or not.
        let source = if round % 2 == 0 { &plain } else { &packed };
        let mut resumed = 0;
        let outcome = store.import_commit_watched(&**source, FILE, &mut |done| {
            resumed = done.resumed;
            Ok(())
        });
        if outcome.is_ok() {
            expect_whole(&store, &commits, &bytes, "at the end");
            break;
        }
        if round % 2 == 0 {
            assert!(resumed >= before, "{resumed} after {before}");
            before = resumed;
        }
        kills += 1;
        assert!(kills < 60, "it does not come further than {before}");
        drop(store);
        dying = dying.crash(if round % 3 == 0 { Crash::Process } else { Crash::Subset(0) });
        disk = Arc::clone(&dying) as Arc<dyn Disk>;
    }
    assert!(kills > 2 && before > 0, "{kills} kills");
    assert_eq!(verify_commit(&*plain, FILE).unwrap(), file);
}

#[test]
fn what_happens_between_costs_work_at_most() {
    let (commits, file, [bytes, packed]) = files();
    let (plain, packed) = (exported(&bytes), exported(&packed));
    for index in [Index::Minimal, Index::Always] {
        // What is done to the store, and whether the import goes on.
        type Between = fn(&mut Store, CommitHash);
        let collect: Between = |store, own| {
            let mut last = own;
            for number in 41..43 {
                last = block(store, Some(last), number);
            }
            store.collect(&last).unwrap();
            while store.collect_step(1 << 20).unwrap() {}
        };
        let cases: [(&str, Between, bool); 6] = [
            ("nothing", |_, _| {}, true),
            ("commits", |store, own| assert_ne!(block(store, Some(own), 41), own), true),
            ("chunks", |store, _| store.begin_chunk().unwrap(), true),
            ("a collection to a commit after it", collect, false),
            (
                "a collection that marks",
                |store, own| {
                    let next = block(store, Some(own), 41);
                    store.collect(&next).unwrap();
                    store.collect_step(1).unwrap();
                },
                true,
            ),
            ("a clearing", |store, _| store.clear().unwrap(), false),
        ];
        for (what, between, goes_on) in cases {
            for reopened in [false, true] {
                let what = format!("{what}, {index:?}, reopened: {reopened}");
                let (state, disk) = memory();
                let (mut store, own) = beside(Arc::clone(&disk), index);
                cut_off(&mut store, &plain, 4);
                assert!(state.exists(STATE).unwrap(), "{what}");
                between(&mut store, own);
                if reopened {
                    drop(store);
                    store = Store::open(disk, options(index)).unwrap();
                }
                let (imported, resumed) = import(&mut store, &packed).expect(&what);
                assert_eq!((imported.hash, imported.commits), (file.hash, 2), "{what}");
                assert_eq!(resumed > 0, goes_on, "{what}: {resumed}");
                while store.collect_step(1 << 20).unwrap() {}
                expect_whole(&store, &commits, &bytes, &what);
                assert!(!state.exists(STATE).unwrap(), "{what}");
            }
        }
    }
}

/// What the state names has moved to the lower folder since, which is not given.
#[test]
fn an_import_whose_objects_are_below_begins_anew_without_the_lower_folder() {
    let (commits, file, [bytes, _]) = files();
    let source = exported(&bytes);
    for index in [Index::Minimal, Index::Always] {
        let (state, disk) = memory();
        let (mut store, own) = beside(Arc::clone(&disk), index);
        cut_off(&mut store, &source, 4);
        assert!(state.exists(STATE).unwrap());
        let last = block(&mut store, Some(own), 41);
        store.begin_chunk().unwrap();
        let last = block(&mut store, Some(last), 42);
        store.close().unwrap();
        let (_, lower) = memory();
        let with = Options { lower: Some(Arc::clone(&lower)), ..options(index) };
        let mut store = Store::open(Arc::clone(&disk), with.clone()).unwrap();
        assert!(store.archive(&last, u64::MAX).unwrap() > 0);
        store.close().unwrap();
        let mut store = Store::open(Arc::clone(&disk), options(index)).unwrap();
        let (imported, resumed) = import(&mut store, &source).unwrap();
        assert_eq!((imported.hash, imported.commits, resumed), (file.hash, 2, 0), "{index:?}");
        assert!(!state.exists(STATE).unwrap());
        drop(store);
        let store = Store::open(disk, with).unwrap();
        expect_whole(&store, &commits, &bytes, "beside chunks below");
    }
}

#[test]
fn the_state_of_another_import_or_store_is_of_no_use() {
    let (commits, _, [bytes, _]) = files();
    let source = exported(&bytes);
    let mut one = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let last = block(&mut one, None, 3);
    let (other_bytes, _) = export(&one, &last);
    let other = exported(&other_bytes);
    let (state, disk) = memory();
    let (mut store, _) = beside(disk, Index::Minimal);
    cut_off(&mut store, &source, 4);
    let before = state.bytes(STATE).unwrap();
    // A short file needs none of its own, and leaves that of the other.
    assert_eq!(import(&mut store, &other).unwrap().1, 0);
    assert_eq!(export(&store, &last).0, other_bytes);
    assert_eq!(state.bytes(STATE).unwrap(), before);
    let copy = state.snapshot();
    drop(store);
    let mut store = Store::open(Arc::clone(&copy) as _, options(Index::Minimal)).unwrap();
    assert!(import(&mut store, &source).unwrap().1 > 0, "its own state is there still");
    // A file of the last commit alone is another, and has states of its own.
    let (alone, _) = export(&store, &commits[1]);
    drop(store);
    let mut store = Store::open(Arc::clone(&state) as _, options(Index::Minimal)).unwrap();
    assert_eq!(import(&mut store, &exported(&alone)).unwrap().1, 0);
    assert!(!state.exists(STATE).unwrap());
    assert_eq!(import(&mut store, &source).unwrap().1, 0);
    expect_whole(&store, &commits, &bytes, "one file after the other");

    // In a store of the same options and seed that has gone another way, each is in the other's place.
    let (twin_files, twin) = memory();
    let mut twin_store = Store::create(twin, options(Index::Minimal)).unwrap();
    let (third_files, third) = memory();
    let mut third_store = Store::create(third, options(Index::Minimal)).unwrap();
    block(&mut third_store, None, 77);
    cut_off(&mut twin_store, &source, 4);
    third_files.replace(STATE, twin_files.bytes(STATE).unwrap()).unwrap();
    assert_eq!(import(&mut third_store, &source).unwrap().1, 0);
    expect_whole(&third_store, &commits, &bytes, "with a twin's state");
}

#[test]
fn a_damaged_state_costs_work_only() {
    let (commits, file, [bytes, _]) = files();
    let source = exported(&bytes);
    let (state, disk) = memory();
    let (mut store, _) = beside(disk, Index::Minimal);
    cut_off(&mut store, &source, 3);
    drop(store);
    let good = state.bytes(STATE).unwrap();
    let mut random = Random::new(4);
    for round in 0..40 {
        let copy = state.snapshot();
        let mut damaged = good.clone();
        match round {
            0 => damaged.clear(),
            1..8 => damaged.truncate(random.index(good.len())),
            _ => {
                let place = if round < 30 { random.index(300) } else { random.index(good.len()) };
                damaged[place] ^= 1 << random.index(8);
            }
        }
        copy.replace(STATE, damaged).unwrap();
        let mut store = Store::open(copy, options(Index::Minimal)).unwrap();
        let (imported, resumed) = import(&mut store, &source).unwrap();
        assert_eq!((imported, resumed), (file, 0), "round {round}");
        if round % 10 == 0 {
            expect_whole(&store, &commits, &bytes, "with a damaged state");
        }
    }
}

/// A short file has no state of its own that would take the place of a damaged one.
#[test]
fn a_damaged_state_goes_with_the_next_import_of_any_file() {
    let (_, _, [bytes, _]) = files();
    let mut one = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let last = block(&mut one, None, 3);
    let short = exported(&export(&one, &last).0);
    let (state, disk) = memory();
    let (mut store, _) = beside(disk, Index::Minimal);
    cut_off(&mut store, &exported(&bytes), 3);
    drop(store);
    let good = state.bytes(STATE).unwrap();
    let longer_than_any = (64 << 20) + 9;
    for place in [3, 14, 30, 90, good.len() - 2, longer_than_any] {
        let copy = state.snapshot();
        let mut damaged = good.clone();
        damaged.resize(good.len().max(place + 1), 0);
        damaged[place] ^= 1;
        copy.replace(STATE, damaged).unwrap();
        let mut store = Store::open(Arc::clone(&copy) as _, options(Index::Minimal)).unwrap();
        import(&mut store, &short).unwrap();
        assert!(!copy.exists(STATE).unwrap(), "{place}");
    }
    // What a newer release has written is not ours to judge.
    let copy = state.snapshot();
    let mut newer = good;
    newer[8] = 9;
    let sum = varvite::raw::format::checksum::stored(&newer[..28]);
    newer[28..32].copy_from_slice(&sum.to_le_bytes());
    copy.replace(STATE, newer.clone()).unwrap();
    let mut store = Store::open(Arc::clone(&copy) as _, options(Index::Minimal)).unwrap();
    import(&mut store, &short).unwrap();
    assert_eq!(copy.bytes(STATE).unwrap(), newer);
}

#[test]
fn an_import_that_goes_on_may_fail_at_any_call() {
    let (commits, file, [bytes, _]) = files();
    let source = exported(&bytes);
    for fault in [Fault::Write, Fault::Sync, Fault::Rename, Fault::Read, Fault::Open] {
        let mut failed = 0;
        let next = |n: &u64| Some(n + 1 + if every(2) > 1 { n / 3 } else { 0 });
        for n in std::iter::successors(Some(1), next) {
            let sim = SimDisk::new(n);
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let (mut store, _) = beside(Arc::clone(&disk), Index::Minimal);
            cut_off(&mut store, &source, 4);
            sim.fail_at(n, fault);
            let outcome = import(&mut store, &source);
            sim.disarm();
            if let Ok((imported, resumed)) = outcome {
                assert_eq!((imported, resumed > 0), (file, true));
                break;
            }
            failed += 1;
            drop(store);
            let mut store = Store::open(disk, options(Index::Minimal)).unwrap();
            assert_eq!(import(&mut store, &source).unwrap().0, file);
            expect_whole(&store, &commits, &bytes, &format!("{fault:?} {n}"));
        }
        assert!(failed > 1, "{fault:?} never came");
    }
}

/// A file that is damaged behind where an import goes on is refused, and nothing of it is taken.
#[test]
fn damage_behind_the_state_is_found() {
    let (_, _, [bytes, _]) = files();
    let source = exported(&bytes);
    let (_, disk) = memory();
    let (mut store, own) = beside(disk, Index::Minimal);
    cut_off(&mut store, &source, 4);
    let mut damaged = bytes.clone();
    let place = damaged.len() - 1000;
    damaged[place] ^= 1;
    let error = store.import_commit(&*exported(&damaged), FILE).unwrap_err();
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert_eq!(store.log(9).unwrap(), [own]);
    store.import_commit(&*source, FILE).unwrap();
}

#[test]
fn the_small_state_is_written_as_it_was_and_read() {
    let options = Options { seed: Some(42), tree_bytes: 1_000, ..Options::default() };
    let mut store = Store::create(memory().1, options.clone()).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a", "code"], &[b'x'; 40]).unwrap();
    tree.add(&["a", "large"], &vec![b'y'; 1 << 18]).unwrap();
    tree.add(&["b"], &vec![b'z'; 1 << 18]).unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], 7, "me", "hi")).unwrap();
    let source = exported(&export(&store, &commit).0);
    let (files, target) = memory();
    let mut store = Store::create(target, options).unwrap();
    cut_off(&mut store, &source, 2);
    let bytes = golden("import-state/small.bin", &files.bytes(STATE).unwrap());
    files.replace(STATE, bytes).unwrap();
    assert!(import(&mut store, &source).unwrap().1 > 1 << 18);
}

//! Ranges of commits in one file, compressed files, and files that are not in their one form.

use std::sync::Arc;

use varvite::context::{
    CommitFile, CommitFileOptions, CommitFileProgress, CommitHash, CommitInfo, Index, Limits,
    Options, Store, verify_commit, verify_commit_watched,
};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::{Error, Kind, Result};

use crate::context_collect::content;
use crate::context_snapshots::{FILE, chain, change, exported, memory, options};
use crate::golden::golden;
use crate::random::{Random, setting};

const PLAIN: CommitFileOptions = CommitFileOptions { zstd_level: None };
const PACKED: CommitFileOptions = CommitFileOptions { zstd_level: Some(3) };

fn file_of(
    store: &Store,
    commits: &[CommitHash],
    options: CommitFileOptions,
) -> (Vec<u8>, CommitFile) {
    let (disk, target) = memory();
    let file = store.export_commits(commits, options, &target, FILE).unwrap();
    (disk.bytes(FILE).unwrap(), file)
}

/// A commit of `block` above `parents`.
fn above(store: &mut Store, parents: &[CommitHash], block: u64) -> CommitHash {
    let mut tree = match parents.first() {
        Some(parent) => store.checkout(parent).unwrap(),
        None => store.empty_tree(),
    };
    change(&mut tree, block).unwrap();
    let info = CommitInfo::new(parents, block as i64, "me", format!("block {block}"));
    store.commit(&mut tree, &info).unwrap()
}

/// A store of commits that part and meet again: the first, two above it, one above each, and the last
/// above both; then one aside.
fn diamond(options: Options) -> (Store, [CommitHash; 6]) {
    let mut store = Store::create(memory().1, options).unwrap();
    let first = above(&mut store, &[], 0);
    let left = above(&mut store, &[first], 1);
    let right = above(&mut store, &[first], 2);
    let far_left = above(&mut store, &[left], 3);
    let far_right = above(&mut store, &[right], 4);
    let last = above(&mut store, &[far_left, far_right], 5);
    above(&mut store, &[first], 9);
    (store, [first, left, right, far_left, far_right, last])
}

fn sorted(mut commits: Vec<CommitHash>) -> Vec<CommitHash> {
    commits.sort_unstable();
    commits
}

/// The same file of other bytes.
fn with_bytes(mut file: CommitFile, bytes: &[u8]) -> CommitFile {
    file.bytes = bytes.len() as u64;
    file
}

#[test]
fn a_range_is_what_lies_between_two_commits() {
    let (store, all) = diamond(options(Index::Minimal));
    let [first, left, right, far_left, far_right, last] = all;
    let between = |first: &CommitHash, last: &CommitHash| {
        store.commits_between(first, last, Limits::default())
    };
    assert_eq!(sorted(between(&first, &last).unwrap()), sorted(all.to_vec()));
    assert_eq!(sorted(between(&left, &last).unwrap()), sorted(vec![left, far_left, last]));
    assert_eq!(between(&last, &last).unwrap(), [last]);
    assert_eq!(between(&right, &far_left).unwrap_err().kind(), Kind::Invalid);
    assert_eq!(between(&CommitHash::new([9; 32]), &last).unwrap_err().kind(), Kind::Missing);
    let few = Limits { commits: 3, ..Limits::default() };
    assert_eq!(store.commits_between(&first, &last, few).unwrap_err().kind(), Kind::Invalid);
    let (_, target) = memory();
    for wrong in [&[][..], &[left, right], &[last, last], &[first, far_right]] {
        let error = store.export_commits(wrong, PLAIN, &target, FILE).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
        assert!(!target.exists(FILE).unwrap());
    }
}

#[test]
fn stores_of_other_histories_write_a_range_alike_and_take_it_over() {
    let (store, all) = diamond(options(Index::Minimal));
    let (bytes, file) = file_of(&store, &all, PLAIN);
    assert_eq!((file.commits, file.commit), (6, all[5]));
    let mut turned = all;
    turned.reverse();
    assert_eq!(file_of(&store, &turned, PLAIN).0, bytes, "in another order");
    let always = Options { chunk_bytes: 3_000, ..options(Index::Always) };
    let (mut other, _) = diamond(always);
    assert_eq!(file_of(&other, &all, PLAIN).0, bytes, "with an index of all objects");
    other.collect(&all[0]).unwrap();
    while other.collect_step(1 << 20).unwrap() {}
    assert_eq!(file_of(&other, &all, PLAIN).0, bytes, "collected");
    let source = exported(&bytes);
    assert_eq!(verify_commit(&*source, FILE).unwrap(), file);
    for index in [Index::Minimal, Index::Always] {
        let (_, target) = memory();
        let made = Store::create_from_commit(target, options(index), &*source, FILE);
        let (mut again, imported) = made.unwrap();
        assert_eq!(imported, file);
        for commit in &all {
            assert_eq!(
                content(&again.checkout(commit).unwrap()).unwrap(),
                content(&store.checkout(commit).unwrap()).unwrap()
            );
        }
        assert_eq!(again.log(9).unwrap().len(), 6);
        assert_eq!(file_of(&again, &all, PLAIN).0, bytes);
        assert!(again.check().unwrap().index_faults.is_empty());
        assert_eq!(again.import_commit(&*source, FILE).unwrap(), file, "all are there");
        assert_eq!(again.log(9).unwrap().len(), 6);
        let between = again.commits_between(&all[2], &all[5], Limits::default()).unwrap();
        assert_eq!(sorted(between), sorted(vec![all[2], all[4], all[5]]));
    }
}

#[test]
fn what_a_range_shares_is_written_once() {
    let (store, all) = diamond(options(Index::Minimal));
    let one: u64 = all.iter().map(|commit| file_of(&store, &[*commit], PLAIN).1.stream_bytes).sum();
    let together = file_of(&store, &all, PLAIN).1.stream_bytes;
    assert!(together < one / 2, "{together} bytes for six, {one} for each alone");
}

#[test]
fn a_living_store_takes_parents_after_children_and_what_it_collected() {
    let (store, all) = diamond(options(Index::Minimal));
    for index in [Index::Minimal, Index::Always] {
        let (_, disk) = memory();
        let mut living = Store::create(Arc::clone(&disk), options(index)).unwrap();
        let mut own = above(&mut living, &[], 7);
        let take = |living: &mut Store, commits: &[CommitHash]| {
            let source = exported(&file_of(&store, commits, PLAIN).0);
            living.import_commit(&*source, FILE).unwrap()
        };
        // The parents of the last are missing, then they are there.
        take(&mut living, &[all[5]]);
        assert_eq!(living.commit_info(&all[3]).unwrap_err().kind(), Kind::Missing);
        take(&mut living, &[all[1], all[3]]);
        let limits = Limits::default();
        let common = living.lowest_common_ancestors(&all[5], &all[3], limits).unwrap();
        assert_eq!(common, [all[3]]);
        // Below the horizon: what was collected comes back, and is collected again.
        for block in 8..10 {
            own = above(&mut living, &[own], block);
            living.collect(&own).unwrap();
            while living.collect_step(1 << 20).unwrap() {}
            assert_eq!(living.commit_info(&all[3]).unwrap_err().kind(), Kind::Collected);
            take(&mut living, &all);
            for commit in &all {
                assert_eq!(
                    content(&living.checkout(commit).unwrap()).unwrap(),
                    content(&store.checkout(commit).unwrap()).unwrap()
                );
            }
            assert!(living.check().unwrap().index_faults.is_empty());
        }
        living.close().unwrap();
        let living = Store::open(disk, options(index)).unwrap();
        assert_eq!(file_of(&living, &all, PLAIN), file_of(&store, &all, PLAIN));
    }
}

#[test]
fn compressed_files_have_the_same_content_and_hash() {
    let (store, all) = diamond(options(Index::Minimal));
    let (plain, file) = file_of(&store, &all, PLAIN);
    let (packed, said) = file_of(&store, &all, PACKED);
    assert!(packed.len() < plain.len() / 2, "{} of {}", packed.len(), plain.len());
    assert_eq!(said, with_bytes(file, &packed));
    let source = exported(&packed);
    assert_eq!(verify_commit(&*source, FILE).unwrap(), said);
    let made = Store::create_from_commit(memory().1, options(Index::Minimal), &*source, FILE);
    let (again, _) = made.unwrap();
    assert_eq!(file_of(&again, &all, PLAIN).0, plain);
    for level in [0, -1, 20, i32::MAX] {
        let options = CommitFileOptions { zstd_level: Some(level) };
        let error = store.export_commits(&all, options, &memory().1, FILE).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
    for place in (0..packed.len()).step_by(7) {
        let mut damaged = packed.clone();
        damaged[place] ^= 1 << (place % 8);
        for damaged in [damaged, packed[..place].to_vec()] {
            let error = verify_commit(&*exported(&damaged), FILE).unwrap_err();
            let kinds = [Kind::Corrupt, Kind::Invalid, Kind::Version];
            assert!(kinds.contains(&error.kind()), "{place}: {error}");
        }
    }
}

#[test]
fn a_crash_at_every_call_of_a_range_leaves_whole_commits_in_order() {
    let (store, all) = diamond(options(Index::Minimal));
    let (bytes, file) = file_of(&store, &all, PLAIN);
    let source = exported(&bytes);
    // In the order of the file.
    let mut order = Vec::new();
    {
        let made = Store::create_from_commit(memory().1, options(Index::Minimal), &*source, FILE);
        order.extend(made.unwrap().0.log(9).unwrap().into_iter().rev());
    }
    let stride = if setting("VARVITE_EFFORT", 1) > 1 { 1 } else { 3 };
    for index in [Index::Minimal, Index::Always] {
        let mut seen = [0; 7];
        for n in (1..).step_by(stride) {
            let sim = SimDisk::new(n);
            let disk = Arc::clone(&sim) as Arc<dyn Disk>;
            let mut store = Store::create(disk, options(index)).unwrap();
            sim.kill_at(n);
            let outcome = store.import_commit(&*source, FILE);
            if !sim.is_dead() {
                outcome.unwrap();
                break;
            }
            for crash in [Crash::Process, Crash::Subset(0), Crash::Seed(n)] {
                let mut store = Store::open(sim.crash(crash), options(index)).unwrap();
                let mut log = store.log(9).unwrap();
                log.reverse();
                assert_eq!(log, order[..log.len()], "call {n}, {crash:?}");
                seen[log.len()] += 1;
                store.check().unwrap();
                assert_eq!(store.import_commit(&*source, FILE).unwrap(), file);
                assert_eq!(file_of(&store, &all, PLAIN).0, bytes);
            }
        }
        assert!(seen.iter().filter(|count| **count > 0).count() > 3, "{seen:?}");
    }
}

/// The file of a range, small and compressed, for the golden file.
#[test]
fn the_small_range_is_written_as_it_was_and_read() {
    let mut store = Store::create(memory().1, options(Index::Minimal)).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["data", "name"], &[b'x'; 300]).unwrap();
    let first = store.commit(&mut tree, &CommitInfo::new(&[], 7, "me", "one")).unwrap();
    tree.add(&["data", "more"], &[b'y'; 20]).unwrap();
    let last = store.commit(&mut tree, &CommitInfo::new(&[first], 8, "me", "two")).unwrap();
    let (plain, file) = file_of(&store, &[first, last], PLAIN);
    let plain = golden("context-snapshot/range.bin", &plain);
    assert_eq!((file.commits, file.repeats), (2, 1));
    assert_eq!(verify_commit(&*exported(&plain), FILE).unwrap(), file);
    // Another release of zstd may write other bytes: this one is read and not compared.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/context-snapshot/compressed.bin");
    let (packed, _) = file_of(&store, &[first, last], PACKED);
    if std::env::var_os("VARVITE_WRITE_GOLDEN").is_some() && !std::path::Path::new(path).exists() {
        std::fs::write(path, &packed).unwrap();
    }
    let packed = std::fs::read(path).unwrap();
    let read = verify_commit(&*exported(&packed), FILE).unwrap();
    assert_eq!(read, with_bytes(file, &packed));
}

#[test]
fn a_chain_and_its_last_commit_are_files_of_their_own() {
    let (store, commit) = chain(memory().1, options(Index::Minimal)).unwrap();
    let mut commits = store.log(9).unwrap();
    let (_, of_chain) = file_of(&store, &commits, PLAIN);
    commits.truncate(2);
    let (_, of_two) = file_of(&store, &commits, PLAIN);
    let (_, of_one) = file_of(&store, &[commit], PLAIN);
    assert!(of_chain.commit == commit && of_two.commit == commit && of_one.commit == commit);
    assert!(of_chain.hash != of_two.hash && of_two.hash != of_one.hash);
}

#[test]
fn who_watches_is_told_of_each_frame_and_may_end_the_work() {
    let (_, target) = memory();
    let mut store = Store::create(memory().1, Options::default()).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..6_u8 {
        tree.add(&[[number]], &vec![number; 1 << 18]).unwrap();
    }
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], 1, "a", "b")).unwrap();
    let mut seen = Vec::new();
    let mut watch = |done: &CommitFileProgress| {
        seen.push(*done);
        Ok(())
    };
    let export =
        |store: &Store, name: &str, watch: &mut dyn FnMut(&CommitFileProgress) -> Result<()>| {
            store.export_commits_watched(&[commit], PLAIN, &target, name, watch)
        };
    let file = export(&store, FILE, &mut watch).unwrap();
    verify_commit_watched(&*target, FILE, &mut watch).unwrap();
    let mut other = Store::create(memory().1, Options::default()).unwrap();
    let mut stop = |_: &CommitFileProgress| Err(Error::invalid("enough"));
    assert!(export(&store, "stopped", &mut stop).unwrap_err().to_string().contains("enough"));
    assert!(!target.exists("stopped").unwrap());
    let error = other.import_commit_watched(&*target, FILE, &mut stop).unwrap_err();
    assert!(error.to_string().contains("enough"), "{error}");
    assert!(other.log(1).unwrap().is_empty());
    other.import_commit_watched(&*target, FILE, &mut watch).unwrap();
    let (written, read) = seen.split_at(6);
    assert!(written.iter().all(|done| done.total.is_none()));
    assert!(written.is_sorted_by(|a, b| a.bytes < b.bytes && a.share < b.share));
    assert!(written[2].share > 300_000 && written[2].share < 700_000, "{written:?}");
    assert_eq!(read.len(), 2 * 7, "six frames, and the last one");
    let CommitFileProgress { bytes, total, resumed, share, .. } = read[6];
    assert_eq!((bytes, total, resumed, share), (file.bytes, Some(file.bytes), 0, 1_000_000));
    assert_eq!(read[..7], read[7..]);
}

/// Who reads the file keeps what commits say, so nobody writes one that has too much of it.
#[test]
fn commits_that_say_too_much_together_are_refused() {
    let mut store = Store::create(memory().1, Options::default()).unwrap();
    let text = Random::new(1).bytes(1 << 20);
    let mut commits = Vec::new();
    for block in 0..9_u8 {
        let mut tree = store.empty_tree();
        tree.add(&["block"], &[block]).unwrap();
        let parents: Vec<CommitHash> = commits.last().copied().into_iter().collect();
        let info = CommitInfo::new(&parents, 1, &text[..], &text[..]);
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    let (disk, target) = memory();
    let error = store.export_commits(&commits, PLAIN, &target, FILE).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("texts and parents"), "{error}");
    assert_eq!(disk.list("").unwrap(), Vec::<String>::new(), "no file is there");
    let said = store.export_commits(&commits[2..], PLAIN, &target, FILE).unwrap();
    assert_eq!(verify_commit(&*target, FILE).unwrap(), said);
}

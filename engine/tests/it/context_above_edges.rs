//! Parts above of chunks in the lower folder, at the edges: threads that see the new places first, what is found again by
//! its hash, disks that fail, chunks that are lost, and what a call costs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use varvite::context::{ChunkState, CommitHash, CommitInfo, Index, Options, Store, Tree};
use varvite::disk::sim::{Crash, SimDisk};
use varvite::disk::{Access, Disk, Mode};
use varvite::{Kind, Result};

use crate::context_above::{INDEXES, archived, holds_from, lacks, parts};
use crate::context_archive::{commit, holds, made, open, options, packs, value};
use crate::hooked_disk::{Call, HookedDisk};

/// Nothing is kept open or in memory.
fn bare(index: Index, lower: Option<&Arc<SimDisk>>) -> Options {
    let lower = options(index, lower);
    Options { max_open_files: Some(1), objects_bytes: 0, pages_bytes: 0, ..lower }
}

fn below(store: &Store) -> usize {
    store.chunks().iter().filter(|chunk| chunk.state == ChunkState::Lower).count()
}

/// Between the rename of a control file and the moment at which the writer tells its threads of the new place, one that
/// misses the old file reads the control file, and knows of the new place before the writer does.
#[test]
fn a_thread_that_misses_a_file_while_chunks_move_harms_nothing() {
    for index in INDEXES {
        let (upper, commits) = made(index, 9);
        let lower = SimDisk::new(2);
        let trees: Arc<Mutex<Vec<Tree>>> = Arc::default();
        let (renamed, missed) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
        let (of_hook, counted) = (Arc::clone(&trees), Arc::clone(&missed));
        let (files, volumes) = (Arc::clone(&upper), Arc::clone(&lower));
        let disk: Arc<dyn Disk> =
            HookedDisk::new(Arc::<SimDisk>::clone(&upper), move |call, path| {
                if call == Call::Rename && path.contains("control") {
                    renamed.store(true, Relaxed);
                }
                if call != Call::SyncDirectory || !renamed.swap(false, Relaxed) {
                    return;
                }
                let trees = of_hook.lock().unwrap();
                if trees.is_empty() {
                    return;
                }
                // Of the chunk that moves both files are there: the old one is the part where it comes back.
                let (above, below) = (packs(&files), packs(&volumes));
                for name in above.iter().filter(|name| below.contains(name)) {
                    let part = name.replace(".pack", "-1.pack");
                    let is_back = counted.load(Relaxed) >= 4;
                    let old = if is_back { &part } else { name };
                    if files.exists(old).unwrap() {
                        files.remove(old).unwrap();
                        counted.fetch_add(1, Relaxed);
                    }
                }
                for (block, tree) in (0..).zip(&*trees) {
                    assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(block)));
                    assert_eq!(tree.find(&["lasting", "0"]).unwrap(), Some(value(0)));
                }
            });
        let mut store = Store::open(Arc::clone(&disk), bare(index, Some(&lower))).unwrap();
        let all = |store: &Store| -> Vec<Tree> {
            commits.iter().map(|hash| store.checkout(hash).unwrap()).collect()
        };
        *trees.lock().unwrap() = all(&store);
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4);
        assert_eq!(missed.load(Relaxed), 4);
        holds(&store, &commits, &index);
        *trees.lock().unwrap() = all(&store);
        assert_eq!(store.unarchive(u64::MAX).unwrap(), 4);
        assert!(missed.load(Relaxed) > 4, "{missed:?}");
        trees.lock().unwrap().clear();
        holds(&store, &commits, &index);
        // What was taken out of use is removed, and nothing else.
        commit(&mut store, commits.last(), 6).unwrap();
        store.begin_chunk().unwrap();
        store.close().unwrap();
        let store = open(&upper, options(index, None)).unwrap();
        holds_from(&store, &commits, 0, &index);
        let whole = packs(&upper).iter().filter(|name| name.matches('-').count() == 1).count();
        assert!(whole >= 7 && packs(&upper).len() == whole, "{:?}", packs(&upper));
    }
}

/// A file with the tree of the commit of `made` with this number, as the commit of another store.
fn same_tree(block: u8, date: i64) -> Arc<SimDisk> {
    let mut store = Store::create(SimDisk::new(50), options(Index::Minimal, None)).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["passing"], &value(block)).unwrap();
    for block in 0..=block {
        tree.add(&["lasting", &block.to_string()], &value(block)).unwrap();
    }
    let commit = store.commit(&mut tree, &CommitInfo::new(&[], date, "a", "b")).unwrap();
    let file = SimDisk::new(51);
    let target = Arc::clone(&file) as Arc<dyn Disk>;
    store.export_commit(&commit, &target, "one").unwrap();
    file
}

/// By how many bytes an import of a tree that is there makes the store longer, and the commit.
fn imported(store: &mut Store, block: u8, date: i64) -> (u64, CommitHash) {
    let bytes = |store: &Store| store.chunks().iter().map(|it| it.written_bytes).sum::<u64>();
    let before = bytes(store);
    let file = store.import_commit(&*same_tree(block, date), "one").unwrap();
    (bytes(store) - before, file.commit)
}

/// What a commit takes that has no object of its own, with the chunk that it may begin.
const FEW: u64 = 500;

#[test]
fn what_is_above_is_found_by_its_hash_after_a_crash_and_a_commit_of_an_old_tree() {
    let (upper, lower, commits, mut store) = archived(Index::Always, 4);
    let (few, _) = imported(&mut store, 5, 70);
    assert!(few < FEW, "after an opening: {few}");
    // Dropped, so the next opening finds batches behind the checkpoint.
    drop(store);
    let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    let (grown, second) = imported(&mut store, 5, 71);
    assert!(grown < FEW, "after the process ended: {grown}");
    let mut tree = store.checkout(&commits[1]).unwrap();
    tree.add(&["fork"], &value(77)).unwrap();
    store.commit(&mut tree, &CommitInfo::new(&[commits[1]], 77, "a", "fork")).unwrap();
    let (grown, third) = imported(&mut store, 5, 72);
    assert!(grown < FEW, "after a commit of an old tree: {grown}");
    // What that commit refers to is below, and what comes with it is in question.
    let (grown, fourth) = imported(&mut store, 1, 73);
    assert!(grown > few + 40, "an old tree: {grown}, {few}");
    store.close().unwrap();
    let store = open(&upper, options(Index::Always, None)).unwrap();
    for commit in [second, third] {
        let tree = store.checkout(&commit).unwrap();
        assert_eq!(tree.find(&["lasting", "0"]).unwrap(), Some(value(0)));
        assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(5)));
    }
    let tree = store.checkout(&fourth).unwrap();
    assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(1)));
}

#[test]
fn what_a_round_will_have_above_is_found_by_its_hash_meanwhile() {
    let (upper, commits) = made(Index::Always, 9);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    assert_eq!(store.archive(&commits[5], 3).unwrap(), 3);
    let (grown, during) = imported(&mut store, 5, 70);
    assert!(grown < FEW, "{grown}");
    while store.archive(&commits[5], 1).unwrap() > 0 {}
    // The second round makes each part anew.
    store.pin(&commits[1]).unwrap();
    assert_eq!(store.archive(&commits[5], 1).unwrap(), 1);
    let (grown, again) = imported(&mut store, 5, 71);
    assert!(grown < FEW, "{grown}");
    // Cut off there, what is newer than all parts is still known.
    drop(store);
    let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    let (_, after) = imported(&mut store, 5, 72);
    let without = open(&upper.crash(Crash::Process), options(Index::Always, None)).unwrap();
    for commit in [during, again, after] {
        let tree = without.checkout(&commit).unwrap();
        for block in 0..6_u8 {
            let found = tree.find(&["lasting", &block.to_string()]).unwrap();
            assert_eq!(found, Some(value(block)));
        }
    }
    while store.archive(&commits[5], 1).unwrap() > 0 {}
    let found = store.check().unwrap();
    assert_eq!((found.index_faults, found.part_faults), (Vec::new(), Vec::new()));
}

#[test]
fn after_an_attachment_everything_is_found_by_its_hash() {
    let (upper, mut commits) = made(Index::Always, 9);
    let lower = SimDisk::new(2);
    for name in packs(&upper).iter().take(5) {
        let file = lower.open(name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &upper.bytes(name).unwrap()).unwrap();
    }
    let mut store = open(&upper, options(Index::Always, Some(&lower))).unwrap();
    store.collect(&commits[4]).unwrap();
    while store.collect_step(100).unwrap() {}
    commits.push(commit(&mut store, commits.last(), 6).unwrap());
    assert!(store.attach().unwrap() > 0);
    let (grown, imported) = imported(&mut store, 5, 70);
    assert!(grown < FEW, "{grown}");
    while store.archive(&imported, 1).unwrap() > 0 {}
    store.close().unwrap();
    let without = open(&upper, options(Index::Always, None)).unwrap();
    let tree = without.checkout(&imported).unwrap();
    for block in 0..6_u8 {
        assert!(tree.find(&["lasting", &block.to_string()]).unwrap().is_some(), "{block}");
    }
}

/// The same handle that has found it out by a check.
#[test]
fn what_a_check_finds_damaged_above_the_next_call_makes_anew() {
    for index in INDEXES {
        let (upper, _lower, commits, mut store) = archived(index, 4);
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 0);
        let name = "0000-000001-1.pack";
        let mut bytes = upper.bytes(name).unwrap();
        // In the first value.
        let place = bytes.windows(100).position(|window| window == value(1)).unwrap();
        bytes[place + 50] ^= 1;
        upper.damage(name, bytes).unwrap();
        let found = store.check().unwrap().part_faults;
        assert!(found.len() == 1 && found[0].contains(name), "{found:?}");
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 1);
        assert_eq!(store.check().unwrap().part_faults, Vec::<String>::new());
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 4, &index);
    }
}

#[test]
fn a_disk_above_that_fails_is_made_up_for_from_below() {
    for index in INDEXES {
        let (upper, lower, commits, store) = archived(index, 4);
        drop(store);
        let fails = Arc::new(AtomicBool::new(false));
        let of_disk = Arc::clone(&fails);
        let disk = HookedDisk::failing_reads(Arc::<SimDisk>::clone(&upper), move |path| {
            path.ends_with("-1.pack") && of_disk.load(Relaxed)
        });
        let opened = |lower: Option<&Arc<SimDisk>>| {
            Store::open(Arc::clone(&disk) as Arc<dyn Disk>, bare(index, lower))
        };
        let without = opened(None).unwrap();
        fails.store(true, Relaxed);
        let read = without.checkout(&commits[5]).and_then(|tree| tree.find(&["lasting", "1"]));
        let error = read.unwrap_err();
        assert_eq!(error.kind(), Kind::Io, "{error}");
        assert!(error.to_string().contains("0000-000001-1.pack"), "{error}");
        fails.store(false, Relaxed);
        holds_from(&without, &commits, 4, &index);
        drop(without);
        let mut store = opened(Some(&lower)).unwrap();
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 0);
        fails.store(true, Relaxed);
        holds_from(&store, &commits, 0, &index);
        assert_eq!(store.check().unwrap().part_faults.len(), 4);
        fails.store(false, Relaxed);
        assert_eq!(store.archive(&commits[4], u64::MAX).unwrap(), 4, "made anew elsewhere");
        store.close().unwrap();
        holds_from(&opened(None).unwrap(), &commits, 4, &index);
    }
}

#[test]
fn a_read_below_that_fails_once_says_nothing_of_what_is_above() {
    for index in INDEXES {
        let (upper, lower, commits, store) = archived(index, 4);
        drop(store);
        let (name, away) = ("0000-000001.pack", "elsewhere");
        let opened = Arc::new(AtomicU64::new(0));
        let (counted, files) = (Arc::clone(&opened), Arc::clone(&lower));
        let flapping = HookedDisk::new(Arc::<SimDisk>::clone(&lower), move |call, path| {
            if call == Call::Open(Mode::Read) && path == name {
                match counted.fetch_add(1, Relaxed) {
                    0 => files.rename(name, away).unwrap(),
                    1 => files.rename(away, name).unwrap(),
                    _ => {}
                }
            }
        });
        let with = Options { lower: Some(flapping), ..bare(index, None) };
        let store = open(&upper, with).unwrap();
        let read = || store.checkout(&commits[1]).and_then(|tree| tree.find(&["passing"]));
        let first: Result<_> = read();
        assert!(first.is_ok() || first.unwrap_err().kind() == Kind::Missing);
        assert_eq!(read().unwrap(), Some(value(1)));
        let calls = lower.calls();
        holds_from(&store, &commits, 4, &index);
        assert_eq!(lower.calls(), calls, "{index:?}");
    }
}

#[test]
fn a_chunk_that_is_lost_below_stops_no_other() {
    for index in INDEXES {
        let (upper, lower, mut commits, mut store) = archived(index, 3);
        // What comes above by it is lost with the chunk.
        store.pin(&commits[1]).unwrap();
        store.close().unwrap();
        let name = "0000-000001.pack";
        let bytes = lower.bytes(name).unwrap();
        lower.remove(name).unwrap();
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        for block in 6..9 {
            commits.push(commit(&mut store, commits.last(), block).unwrap());
            let target = commits[commits.len() - 2];
            let before = below(&store);
            let error = store.archive(&target, u64::MAX).unwrap_err();
            assert_eq!(error.kind(), Kind::Missing, "{error}");
            assert!(error.to_string().contains(name), "{error}");
            assert!(below(&store) > before, "{index:?}, {block}: others move");
            assert_eq!(store.archive(&target, u64::MAX).unwrap_err().kind(), Kind::Missing);
        }
        holds_from(&store, &commits, 7, &index);
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 7, &index);
        lacks(&without, &commits, 2);
        drop(without);
        let file = lower.open(name, Mode::Create, Access::Buffered).unwrap();
        file.write_at(0, &bytes).unwrap();
        let mut store = open(&upper, options(index, Some(&lower))).unwrap();
        while store.archive(&commits[7], 1).unwrap() > 0 {}
        holds(&store, &commits, &index);
        store.close().unwrap();
        let without = open(&upper, options(index, None)).unwrap();
        holds_from(&without, &commits, 7, &index);
        holds_from(&without, &commits[..2], 1, &index);
    }
}

#[test]
fn a_folder_that_is_not_the_stores_is_refused_before_anything_is_read() {
    let (upper, commits) = long(200);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.archive(&commits[100], u64::MAX).unwrap();
    store.close().unwrap();
    let other = SimDisk::new(5);
    let mut store = open(&upper, options(Index::Minimal, Some(&other))).unwrap();
    let reads = upper.calls().reads;
    let error = store.archive(&commits[150], u64::MAX).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert!(error.to_string().contains("another folder"), "{error}");
    let read = upper.calls().reads - reads;
    assert!(read < 20, "{read} reads");
}

/// Commits that each replace the value of the one before, in chunks of their own, and a last one that has nothing of them.
fn long(count: u32) -> (Arc<SimDisk>, Vec<CommitHash>) {
    let upper = SimDisk::new(9);
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let mut store = Store::create(disk, options(Index::Minimal, None)).unwrap();
    let mut commits = Vec::new();
    let mut tree = store.empty_tree();
    for block in 0..count {
        let before: Vec<_> = commits.last().into_iter().copied().collect();
        tree.add(&["passing"], &value(block as u8)).unwrap();
        tree.add(&["lasting", &block.to_string()], &value(block as u8)).unwrap();
        let info = CommitInfo::new(&before, block.into(), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
    }
    let mut tree = store.empty_tree();
    tree.add(&["passing"], b"alone, and longer than 15 bytes").unwrap();
    commits.push(store.commit(&mut tree, &CommitInfo::new(&[], 500, "a", "b")).unwrap());
    store.begin_chunk().unwrap();
    store.close().unwrap();
    (upper, commits)
}

#[test]
fn parts_that_are_made_anew_share_a_control_file() {
    for at_once in [1, u64::MAX] {
        let (upper, commits) = long(200);
        let lower = SimDisk::new(2);
        let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
        assert_eq!(store.archive(&commits[199], u64::MAX).unwrap(), 199);
        assert!(parts(&store).iter().all(|part| part.1), "each has something");
        store.close().unwrap();
        let written = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&written);
        let disk = HookedDisk::new(Arc::<SimDisk>::clone(&upper), move |call, path| {
            if call == Call::Rename && path.contains("control") {
                counted.fetch_add(1, Relaxed);
            }
        });
        let mut store =
            Store::open(disk as Arc<dyn Disk>, options(Index::Minimal, Some(&lower))).unwrap();
        let before = written.load(Relaxed);
        let (mut done, mut calls) = (0, 0);
        while let worked @ 1.. = store.archive(&commits[200], at_once).unwrap() {
            (done, calls) = (done + worked, calls + 1);
        }
        // One chunk moves, and of all others nothing is recent any more.
        assert_eq!((done, calls), if at_once == 1 { (200, 200) } else { (200, 1) });
        assert!(parts(&store).iter().all(|part| !part.1), "{:?}", parts(&store));
        let files = written.load(Relaxed) - before;
        assert!(files < 8, "{files} control files");
        assert_eq!(packs(&upper).iter().filter(|name| name.matches('-').count() == 2).count(), 0);
        let checked = store.check().unwrap();
        assert_eq!((checked.commits, checked.index_faults), (201, Vec::new()));
    }
}

/// Parts that were written, and that the control file does not name yet, go with a round that is given up, and with the next
/// opening.
#[test]
fn parts_that_nothing_names_go_with_the_round() {
    let (upper, commits) = long(900);
    let lower = SimDisk::new(2);
    let mut store = open(&upper, options(Index::Minimal, Some(&lower))).unwrap();
    store.archive(&commits[899], u64::MAX).unwrap();
    store.pin(&commits[3]).unwrap();
    assert_eq!(store.archive(&commits[899], 1).unwrap(), 1, "one part is made anew");
    let name = "0000-000003-2.pack";
    assert!(upper.exists(name).unwrap() && upper.exists("0000-000003-1.pack").unwrap());
    let [upper_image, lower_image] = [&upper, &lower].map(|disk| disk.crash(Crash::Process));
    assert_eq!(store.unarchive(1).unwrap(), 1);
    assert!(!upper.exists(name).unwrap());
    drop(store);
    // Killed instead.
    let mut store = open(&upper_image, options(Index::Minimal, Some(&lower_image))).unwrap();
    assert!(!upper_image.exists(name).unwrap());
    while store.archive(&commits[899], 1).unwrap() > 0 {}
    assert!(!upper_image.exists("0000-000003-1.pack").unwrap(), "named at the end");
    store.close().unwrap();
    let without = open(&upper_image, options(Index::Minimal, None)).unwrap();
    let tree = without.checkout(&commits[3]).unwrap();
    assert_eq!(tree.find(&["passing"]).unwrap(), Some(value(3)));
    assert_eq!(tree.find(&["lasting", "1"]).unwrap(), Some(value(1)));
}

#[test]
fn a_call_does_no_more_than_it_is_told() {
    let upper = SimDisk::new(9);
    let lower = SimDisk::new(2);
    let large = || Options { chunk_bytes: 1 << 30, ..options(Index::Minimal, Some(&lower)) };
    let disk = Arc::clone(&upper) as Arc<dyn Disk>;
    let mut store = Store::create(disk, large()).unwrap();
    let mut tree = store.empty_tree();
    let entries = 50_000_u32;
    for entry in 0..entries {
        let (part, name) = ((entry % 256).to_string(), entry.to_string());
        tree.add(&["many", &part, &name], format!("the value of entry {name}").as_bytes()).unwrap();
    }
    let mut commits = vec![store.commit(&mut tree, &CommitInfo::default()).unwrap()];
    store.begin_chunk().unwrap();
    let mut worked = 0;
    for block in 0.. {
        let mut tree = store.checkout(commits.last().unwrap()).unwrap();
        tree.add(&["block"], &value(block)).unwrap();
        let info = CommitInfo::new(&[*commits.last().unwrap()], block.into(), "a", "b");
        commits.push(store.commit(&mut tree, &info).unwrap());
        let done = store.archive(&commits[1], 1).unwrap();
        if done == 0 {
            break;
        }
        assert_eq!(done, 1);
        worked += 1;
        if block == 0 {
            assert_eq!(below(&store), 0, "the first call reads");
        }
    }
    assert!(worked >= 2, "{worked}");
    assert_eq!(below(&store), 1);
    store.close().unwrap();
    let without = open(&upper, Options { lower: None, ..large() }).unwrap();
    for commit in &commits[1..] {
        let tree = without.checkout(commit).unwrap();
        for entry in (0..entries).step_by(997) {
            let (part, name) = ((entry % 256).to_string(), entry.to_string());
            assert!(tree.find(&["many", &part, &name]).unwrap().is_some(), "{entry}");
        }
    }
}

#[test]
fn a_part_has_what_recent_commits_have_and_nothing_else() {
    let (upper, lower, _, store) = archived(Index::Minimal, 4);
    drop(store);
    let count =
        |bytes: &[u8], block| bytes.windows(100).filter(|window| *window == value(block)).count();
    for block in 1..4_u8 {
        let whole = lower.bytes(&format!("0000-00000{block}.pack")).unwrap();
        let part = upper.bytes(&format!("0000-00000{block}-1.pack")).unwrap();
        // The value that lasts, and not that which was replaced.
        assert_eq!((count(&whole, block), count(&part, block)), (2, 1), "{block}");
    }
}

#[test]
fn a_repair_takes_parts_that_nothing_names_for_copies() {
    let (upper, lower, commits, mut store) = archived(Index::Minimal, 4);
    let name = "0000-000001-1.pack";
    let part = upper.bytes(name).unwrap();
    // Nothing of the old chunks is recent any more.
    let mut tree = store.empty_tree();
    tree.add(&["passing"], b"alone, and longer than 15 bytes").unwrap();
    let alone = store.commit(&mut tree, &CommitInfo::new(&[], 500, "a", "b")).unwrap();
    store.begin_chunk().unwrap();
    while store.archive(&alone, 1).unwrap() > 0 {}
    store.close().unwrap();
    assert!(!upper.exists(name).unwrap());
    let file = upper.open(name, Mode::Create, Access::Buffered).unwrap();
    file.write_at(0, &part).unwrap();
    for lower in [None, Some(&lower)] {
        let lower = lower.map(|disk| Arc::clone(disk) as Arc<dyn Disk>);
        let source = Arc::clone(&upper) as Arc<dyn Disk>;
        let target = SimDisk::new(8) as Arc<dyn Disk>;
        let found = Store::repair(&source, lower.as_ref(), &target, &mut |_, _| Ok(())).unwrap();
        assert!(!found.damage.iter().any(|damage| damage.contains("older")), "{found:?}");
        assert_eq!(found.commits, if lower.is_some() { 7 } else { 1 }, "{found:?}");
    }
    drop(commits);
}

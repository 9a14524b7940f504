//! Recorded walks, merges and collections, replayed on stores of other options: every answer is the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varvite::context::{
    CommitHash, CommitInfo, Depth, Index, Limits, Merge, Options, Order, Resolution, Store, Tree,
};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::{Access, Disk, Mode};
use varvite::irmin_pack::trace::TraceRow;
use varvite::trace::{Action, Argument, Recorder, Trace};
use varvite::{
    Batch, Error, Kind, Log, OpenSnapshot, OpenTable, Session, SessionOptions, SnapshotContent,
    Table, TableOptions, Tables,
};
use varvite_sight::trace::irmin::{FromRows, ToRows};
use varvite_sight::trace::{Outcome, Replay};

/// A recording, and numbers that follow from a seed.
struct Load {
    traces: Arc<MemoryDisk>,
    recorder: Arc<Recorder>,
    state: u64,
}

impl Load {
    fn new(seed: u64) -> Load {
        let traces = MemoryDisk::seeded(7);
        let disk = Arc::clone(&traces) as Arc<dyn Disk>;
        let readings = AtomicU64::new(0);
        let clock = move || readings.fetch_add(100, Ordering::Relaxed);
        Load { recorder: Recorder::create(&disk, "t", clock).unwrap(), traces, state: seed }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    /// Replays it; every call is run or skipped with a reason that the test knows.
    fn replay(&self, store: Option<Store>, session: Option<Session>) -> Outcome {
        let mut replay = Replay::new(store, session, TableOptions::default(), || 0);
        let mut trace = Trace::open(&*self.traces, "t").unwrap();
        while let Some(call) = trace.next_call().unwrap() {
            replay.call(&call).unwrap();
        }
        replay.outcome()
    }
}

fn enough() -> Error {
    Error::new(Kind::Closed, "enough")
}

/// A block: changes, folds, a diff with its parent, and a commit.
fn block(load: &mut Load, store: &mut Store, parent: Option<CommitHash>) -> CommitHash {
    let mut tree = parent.map_or_else(|| store.empty_tree(), |it| store.checkout(&it).unwrap());
    let before = tree.clone();
    for _ in 0..20 {
        let path = [format!("d{}", load.below(6)), format!("n{}", load.below(30))];
        if load.below(4) == 0 {
            tree.remove(&path).unwrap();
        } else {
            let value = load.below(1_000).to_le_bytes();
            tree.add(&path, &value).unwrap();
        }
    }
    let depth =
        [None, Some(Depth::Eq(1)), Some(Depth::Le(1)), Some(Depth::Gt(0))][load.below(4) as usize];
    let order = if load.below(2) == 0 { Order::Sorted } else { Order::Undefined };
    let most = if load.below(2) == 0 { 7 } else { u64::MAX };
    let (mut passed, mut found) = (0, 0);
    let walked = tree.fold::<&str>(&[], depth, order, |path, below| {
        found += u64::from(below.to_value()?.is_some() && before.mem(path)?);
        passed += 1;
        if passed == most { Err(enough()) } else { Ok(()) }
    });
    assert_eq!(walked.is_err(), passed == most);
    let mut changed = 0;
    let most = 1 + load.below(20);
    let walked = before.diff(&tree, |_, _| {
        changed += 1;
        if changed == most { Err(enough()) } else { Ok(()) }
    });
    assert_eq!(walked.is_err(), changed == most);
    let from = [format!("d{}", load.below(6)), format!("n{}", load.below(30))];
    before.diff_from(&tree, &from, |_, _| Ok(())).unwrap();
    if let Some(parent) = parent {
        assert!(store.log_before(&parent, 3).unwrap().len() <= 3);
    }
    let parents: Vec<_> = parent.into_iter().collect();
    store.commit(&mut tree, &CommitInfo::new(&parents, 1, "me", format!("{found}"))).unwrap()
}

fn resolve(load: &mut Load) -> Resolution {
    match load.below(3) {
        0 => Resolution::Conflict,
        1 => Resolution::Removed,
        _ => Resolution::Value(vec![load.below(9) as u8; 3]),
    }
}

#[test]
fn folds_diffs_merges_and_collections_are_replayed_on_any_store() {
    for seed in 0..6 {
        let mut load = Load::new(seed);
        let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
        let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
        let mut main = block(&mut load, &mut store, None);
        for round in 0..12 {
            let one = block(&mut load, &mut store, Some(main));
            let other = block(&mut load, &mut store, Some(main));
            let merged =
                store.merge_commits(&one, &other, Limits::default(), |_, _| Ok(resolve(&mut load)));
            let mut tree = match merged.unwrap() {
                Merge::Merged(tree) => tree,
                Merge::Conflicts(merged) => merged.tree,
                _ => store.checkout(&one).unwrap(),
            };
            let mut trees = [&main, &one, &other].map(|it| store.checkout(it).unwrap());
            let of_trees =
                trees[1].merge(&trees[0], &trees[2], |_, _| Ok(Resolution::Removed)).unwrap();
            tree.add_tree(&["merged"], &of_trees.tree).unwrap();
            // With itself on two sides.
            let again =
                trees[1].merge(&trees[1], &trees[2], |_, _| Ok(Resolution::Conflict)).unwrap();
            assert!(again.conflicts.is_empty());
            tree.add_tree(&["again"], &again.tree).unwrap();
            trees[1].diff(&trees[1], |_, _| Err(enough())).unwrap();
            trees[0].add(&["late"], b"1").unwrap();
            let info = CommitInfo::new(&[one, other], 2, "me", "merge");
            main = store.commit(&mut tree, &info).unwrap();
            drop((tree, trees));
            match round % 4 {
                1 => {
                    store.pin(&one).unwrap();
                    assert!(round < 8 || store.unpin(&one).unwrap());
                }
                2 => {
                    store.collect(&main).unwrap();
                    store.collect_pause().unwrap();
                    assert!(!store.collect_step(1_000).unwrap() && store.exists(&one).unwrap());
                    store.collect_resume().unwrap();
                }
                3 => while store.collect_step(1 + load.below(100)).unwrap() {},
                _ => assert!(store.pin_every(1_000).unwrap() <= 1),
            }
        }
        store.close().unwrap();
        load.recorder.finish().unwrap();
        for index in [Index::Minimal, Index::Always] {
            let options = Options { index, ..Options::default() };
            let fresh = Store::create(MemoryDisk::seeded(9), options).unwrap();
            let outcome = load.replay(Some(fresh), None);
            assert_eq!(outcome.mismatches, 0, "{seed} {index:?}: {:?}", outcome.first_mismatch);
            let run = |name: &str| {
                outcome.actions.iter().find(|it| it.action == name).map_or(0, |it| it.calls)
            };
            assert_eq!((run("merge_commits"), run("merge"), run("collect")), (12, 24, 3));
            assert_eq!((run("fold"), run("diff"), outcome.commits), (25, 37, 37));
            assert_eq!((run("diff_from"), run("log_before")), (25, 24));
        }
    }
}

#[test]
fn ranges_and_cursors_are_replayed_on_any_table() {
    for seed in 0..6 {
        let mut load = Load::new(seed);
        let recorder = Some(load.recorder.clone());
        let options = SessionOptions { recorder, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        let mut walks = 0;
        for _ in 0..40 {
            let mut batch = Batch::new();
            for _ in 0..60 {
                let key = (load.below(2_000) as u16).to_be_bytes();
                if load.below(3) == 0 {
                    batch.delete(&key);
                } else {
                    batch.insert(&key, &load.below(99).to_le_bytes());
                }
            }
            table.update(&batch).unwrap();
            let view = table.view();
            let from = (load.below(2_000) as u16).to_be_bytes();
            let count = load.below(30) as usize;
            assert!(view.range(from..).take(count).all(|entry| entry.is_ok()));
            assert!(view.prefix([from[0]]).keys().rev().all(|key| key.is_ok()));
            let mut both = view.range(..from);
            assert!(
                both.next().is_none_or(|it| it.is_ok())
                    && both.next_back().is_none_or(|it| it.is_ok())
            );
            drop(both);
            let mut cursor =
                view.cursor(std::ops::Bound::Excluded(&from), std::ops::Bound::Unbounded).unwrap();
            for _ in 0..20 {
                match load.below(5) {
                    0 => cursor.seek(&(load.below(2_000) as u16).to_be_bytes()),
                    1 | 2 => drop(cursor.next().unwrap().map(|it| it.0.len())),
                    3 => drop(cursor.previous_key().unwrap().map(<[u8]>::len)),
                    _ => {
                        if cursor.next_key().unwrap().is_some() {
                            cursor.value().unwrap();
                        }
                    }
                }
            }
            drop(cursor);
            // One of the table itself sees the table as it was, whatever becomes of it.
            let mut entries = table.iter();
            let first = entries.next().unwrap().unwrap().0;
            table.update(Batch::new().delete(&first)).unwrap();
            assert!(entries.next().is_none_or(|it| it.is_ok()));
            drop(entries);
            assert_eq!(view.find(&[from]).unwrap().len(), 1);
            walks += 1;
        }
        drop(table);
        session.close().unwrap();
        load.recorder.finish().unwrap();
        let fresh = Session::create(MemoryDisk::seeded(4), SessionOptions::default()).unwrap();
        let outcome = load.replay(None, Some(fresh));
        assert_eq!(outcome.mismatches, 0, "{seed}: {:?}", outcome.first_mismatch);
        let ranges = outcome.actions.iter().find(|it| it.action == "range").unwrap().calls;
        assert!(ranges >= 4 * walks, "{ranges}");
    }
}

/// A block in a transaction: it writes, reads what it wrote in every way, and mostly commits.
fn transaction(load: &mut Load, tables: &Tables, reads: &mut u64) {
    let mut block = tables.begin();
    for _ in 0..=load.below(5) {
        let name = ["one", "two"][load.below(2) as usize];
        let batch = block.batch(name).unwrap();
        for _ in 0..load.below(30) {
            let key = (load.below(500) as u16).to_be_bytes();
            match load.below(8) {
                0 => batch.delete_prefix(&key[..1]),
                1 | 2 => batch.delete(&key),
                _ => batch.insert(&key, &load.below(99).to_le_bytes()),
            };
        }
        let key = (load.below(500) as u16).to_be_bytes();
        *reads += 1;
        match load.below(4) {
            0 => drop(block.get(name, &key).unwrap()),
            1 => drop(block.lookup(name, &[key, [1, 2]]).unwrap()),
            2 => assert!(block.range(name, key..).unwrap().take(9).all(|entry| entry.is_ok())),
            _ => {
                let view = block.view(name).unwrap();
                block.batch(name).unwrap().insert(&key, b"later");
                assert_eq!(view.find(&[key]).unwrap().len(), 1);
                assert!(block.get(name, &key).unwrap().is_some());
                *reads += 1;
            }
        }
    }
    if load.below(4) > 0 {
        block.commit().unwrap();
    } else {
        block.rollback();
    }
    drop(tables.get("one", &[0, 1]).unwrap());
}

#[test]
fn reads_of_a_transaction_are_replayed_with_what_it_wrote() {
    for seed in 0..6 {
        let mut load = Load::new(seed);
        let recorder = Some(load.recorder.clone());
        let options = SessionOptions { recorder, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let made = ["one", "two"].map(|it| session.create_table(it, TableOptions::default()));
        let tables = session.share(made.into_iter().map(Result::unwrap).collect()).unwrap();
        let mut reads = 0;
        for _ in 0..60 {
            transaction(&mut load, &tables, &mut reads);
        }
        drop(tables);
        session.close().unwrap();
        load.recorder.finish().unwrap();
        for log in [Log::None, Log::Written] {
            let options = SessionOptions { log, ..SessionOptions::default() };
            let fresh = Session::create(MemoryDisk::seeded(4), options).unwrap();
            let outcome = load.replay(None, Some(fresh));
            assert_eq!(outcome.mismatches, 0, "{seed}: {:?}", outcome.first_mismatch);
            let run = |name: &str| {
                outcome.actions.iter().find(|it| it.action == name).map_or(0, |it| it.calls)
            };
            assert!(run("draft") > 30 && run("write") > 60, "{outcome:?}");
            // Every read that was recorded is run, those of drafts and of tables alike.
            let (all, mut told) = (["get", "lookup", "range", "find_values"], 0);
            let mut trace = Trace::open(&*load.traces, "t").unwrap();
            while let Some(call) = trace.next_call().unwrap() {
                told += u64::from(all.contains(&call.action.name()));
            }
            assert!(told >= reads + 60, "{told} of {reads}");
            assert_eq!(all.map(run).iter().sum::<u64>(), told);
        }
    }
}

/// A commit of a tree, as Irmin's replay names its author.
fn commit(store: &mut Store, tree: &mut Tree, parents: &[CommitHash], date: i64) -> CommitHash {
    store.commit(tree, &CommitInfo::new(parents, date, "Tezos", "")).unwrap()
}

#[test]
fn rows_leave_out_merges_with_what_follows_and_the_rest_is_replayed() {
    let load = Load::new(1);
    let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"1").unwrap();
    let base = commit(&mut store, &mut tree, &[], 0);
    let sides = ["b", "c"].map(|name| {
        let mut tree = store.checkout(&base).unwrap();
        tree.add(&[name, "x"], b"2").unwrap();
        commit(&mut store, &mut tree, &[base], 1)
    });
    let merge = store
        .merge_commits(&sides[0], &sides[1], Limits::default(), |_, _| Ok(Resolution::Conflict));
    let Merge::Merged(mut merged) = merge.unwrap() else { panic!("both added something") };
    // Six calls follow: a find, an add, a commit, a checkout of it, a find there, and one in a copy of it.
    assert!(merged.find(&["b", "x"]).unwrap().is_some());
    merged.add(&["d"], b"3").unwrap();
    let late = commit(&mut store, &mut merged, &sides, 2);
    let after = store.checkout(&late).unwrap();
    assert!(after.find(&["d"]).unwrap().is_some());
    assert!(after.clone().mem(&["d"]).unwrap());
    // A tree that takes a part of the merged one is another than its rows would make.
    let mut other = store.checkout(&sides[0]).unwrap();
    let part = after.find_tree(&["c"]).unwrap().unwrap();
    other.add_tree(&["taken"], &part).unwrap();
    commit(&mut store, &mut other, &[sides[0]], 3);
    // And this goes on without it.
    let mut rest = store.checkout(&sides[1]).unwrap();
    assert!(rest.find(&["c", "x"]).unwrap().is_some());
    rest.add(&["e"], b"4").unwrap();
    commit(&mut store, &mut rest, &[sides[1]], 4);
    drop((tree, merged, after, other, part, rest));
    load.recorder.finish().unwrap();

    let (mut to, mut rows) = (ToRows::default(), Vec::new());
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        rows.extend(to.rows(&call));
    }
    rows.extend(to.end());
    let by_action: Vec<_> =
        to.left_out.by_action.iter().map(|(name, calls)| (*name, *calls)).collect();
    let expected = [
        ("add", 1),
        ("add_tree", 1),
        ("checkout", 1),
        ("commit", 2),
        ("find", 2),
        ("mem", 1),
        ("merge_commits", 1),
    ];
    assert_eq!(by_action, expected);
    // All but the merge itself and the tree that was added.
    assert_eq!((to.left_out.calls(), to.left_out.following), (9, 7));
    let mut replay = Replay::new(
        Some(Store::create(MemoryDisk::seeded(2), Options::default()).unwrap()),
        None,
        TableOptions::default(),
        || 0,
    );
    let mut from = FromRows::default();
    for row in &rows {
        for call in from.calls(row).unwrap() {
            replay.call_of_rows(&call).unwrap();
        }
    }
    let outcome = replay.outcome();
    assert_eq!((outcome.mismatches, outcome.commits), (0, 4), "{:?}", outcome.first_mismatch);
}

/// Irmin's replay makes the empty context once: no row may have it forget that.
#[test]
fn rows_never_forget_the_empty_context() {
    let load = Load::new(1);
    let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    for value in [b"1", b"2"] {
        let mut tree = store.empty_tree();
        tree.add(&["a"], value).unwrap();
        store.commit(&mut tree, &CommitInfo::new(&[], 1, "Tezos", "m")).unwrap();
    }
    load.recorder.finish().unwrap();
    let (mut to, mut trace) = (ToRows::default(), Trace::open(&*load.traces, "t").unwrap());
    let mut rows = Vec::new();
    while let Some(call) = trace.next_call().unwrap() {
        rows.extend(to.rows(&call));
    }
    rows.extend(to.end());
    let mut begun = 0;
    for row in rows {
        if let TraceRow::Add(_, _, from, _) = row {
            assert_eq!((from.name, from.kept), (0, true));
            begun += 1;
        }
    }
    assert_eq!(begun, 2);
}

/// A tree that was let go of is kept by no row, however it was used last: a replay would have every block's.
#[test]
fn rows_forget_the_contexts_that_the_host_let_go_of() {
    let load = Load::new(1);
    let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let info = |parent: &[CommitHash]| CommitInfo::new(parent, 1, "Tezos", "m");
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"0").unwrap();
    let mut last = store.commit(&mut tree, &info(&[])).unwrap();
    drop(tree);
    for number in 0..2_000_u32 {
        // One that is checked out alone, one that is read, one that is looked for, one with a copy, and one that is committed.
        drop(store.checkout(&last).unwrap());
        assert!(store.checkout(&last).unwrap().find(&["a"]).unwrap().is_some());
        assert!(store.checkout(&last).unwrap().mem(&["a"]).unwrap());
        let mut tree = store.checkout(&last).unwrap();
        let copy = tree.clone();
        tree.add(&["a"], &number.to_le_bytes()).unwrap();
        assert!(copy.find(&["a"]).unwrap().is_some());
        last = store.commit(&mut tree, &info(&[last])).unwrap();
        drop(tree);
        drop(copy);
        let mut tree = store.checkout(&last).unwrap();
        tree.remove(&["a"]).unwrap();
    }
    load.recorder.finish().unwrap();
    let (mut to, mut trace) = (ToRows::default(), Trace::open(&*load.traces, "t").unwrap());
    let mut rows = Vec::new();
    while let Some(call) = trace.next_call().unwrap() {
        rows.extend(to.rows(&call));
    }
    rows.extend(to.end());
    let own = Store::create(MemoryDisk::seeded(2), Options::default()).unwrap();
    let mut replay = Replay::new(Some(own), None, TableOptions::default(), || 0);
    let (mut from, mut trees, mut most) = (FromRows::default(), 0_i64, 0);
    for row in &rows {
        for call in from.calls(row).unwrap() {
            match call.action {
                Action::Release => trees -= 1,
                Action::EmptyTree | Action::Checkout | Action::Clone | Action::FindTree => {
                    trees += 1;
                }
                _ => {}
            }
            most = most.max(trees);
            replay.call_of_rows(&call).unwrap();
        }
    }
    let outcome = replay.outcome();
    assert_eq!((outcome.mismatches, outcome.skipped), (0, 0), "{outcome:?}");
    assert!(
        outcome.commits == 2_001 && most < 10 && trees <= 1,
        "{most} trees, {trees} at the end"
    );
}

/// A program that asks for each commit before it makes it, as to go on where it was, replayed where they all are.
#[test]
fn commits_that_the_trace_makes_later_may_be_there_before() {
    let load = Load::new(1);
    let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    let mut own = Store::create(MemoryDisk::seeded(2), Options::default()).unwrap();
    let mut same = own.empty_tree();
    for value in 0..5_u8 {
        for tree in [&mut tree, &mut same] {
            tree.add(&["a"], &[value]).unwrap();
        }
        let commit = own.commit(&mut same, &CommitInfo::default()).unwrap();
        assert!(!store.exists(&commit).unwrap());
        assert_eq!(store.commit(&mut tree, &CommitInfo::default()).unwrap(), commit);
        assert!(store.exists(&commit).unwrap());
    }
    // Of these the store has all five already, in another place of its log.
    assert_eq!(store.log(3).unwrap().len(), 3);
    let last = store.last_commit().unwrap().unwrap();
    assert_eq!(store.log_before(&last, 9).unwrap().len(), 4);
    tree.add(&["a"], b"last").unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    same.add(&["a"], b"last").unwrap();
    own.commit(&mut same, &CommitInfo::default()).unwrap();
    drop((tree, same));
    load.recorder.finish().unwrap();
    for had_commits in [true, false] {
        let mut replay = Replay::new(Some(own), None, TableOptions::default(), || 0);
        if had_commits {
            replay = replay.had_commits();
        }
        let mut trace = Trace::open(&*load.traces, "t").unwrap();
        while let Some(call) = trace.next_call().unwrap() {
            replay.call(&call).unwrap();
        }
        let found = replay.outcome();
        assert_eq!(found.mismatches == 0, had_commits, "{found:?}");
        if had_commits {
            assert!(found.skipped > 5, "{found:?}");
            // What is left out is in no figure.
            let calls =
                |name| found.actions.iter().find(|it| it.action == name).map_or(0, |it| it.calls);
            assert_eq!((calls("exists"), calls("log")), (5, 0), "{found:?}");
        }
        own = replay.end().0.unwrap();
    }
}

/// On a store that is only read, and lacks a commit, what is asked of that is left out, and not another answer.
#[test]
fn commits_that_a_store_that_is_only_read_lacks_are_left_out() {
    let load = Load::new(1);
    let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"1").unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    assert!(store.exists(&commit).unwrap());
    store.commit_info(&commit).unwrap();
    load.recorder.finish().unwrap();
    let other = Store::create(MemoryDisk::seeded(2), Options::default()).unwrap();
    let mut replay = Replay::new(Some(other), None, TableOptions::default(), || 0).reads_only();
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        replay.call(&call).unwrap();
    }
    let found = replay.outcome();
    assert_eq!((found.mismatches, found.skipped), (0, 2), "{found:?}");
}

/// A file of the store that is damaged is no other answer: the replay ends with it.
#[test]
fn damage_of_the_store_ends_a_replay() {
    let load = Load::new(1);
    let disk = MemoryDisk::seeded(1);
    let chunk = "0000-000000.pack";
    let commit = {
        let mut store = Store::create(disk.clone(), Options::default()).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..200_u8 {
            tree.add(&["dir", &format!("needle{number:03}")], &[number; 60]).unwrap();
        }
        let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        store.close().unwrap();
        commit
    };
    {
        let recorder = Some(load.recorder.clone());
        let options = Options { recorder, ..Options::default() };
        let store = Store::open_read_only(disk.clone(), options).unwrap();
        let tree = store.checkout(&commit).unwrap();
        for number in 0..200_u8 {
            tree.find(&["dir", &format!("needle{number:03}")]).unwrap();
        }
    }
    load.recorder.finish().unwrap();
    let file = disk.open(chunk, Mode::Write, Access::Buffered).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(0, &mut bytes).unwrap();
    let at = bytes.windows(9).position(|window| window == b"needle100").unwrap();
    bytes[at] ^= 1;
    file.write_at(0, &bytes).unwrap();
    let store = Store::open_read_only(disk, Options::default()).unwrap();
    let mut replay = Replay::new(Some(store), None, TableOptions::default(), || 0);
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    let mut calls = std::iter::from_fn(|| trace.next_call().unwrap());
    let error = calls.find_map(|call| replay.call(&call).err()).expect("it is read");
    assert_eq!(error.kind(), Kind::Corrupt, "{error}");
    assert_eq!(replay.outcome().mismatches, 0);
}

/// A store that somebody has keeps its branches where they are, as it keeps its commits.
#[test]
fn branches_of_a_store_that_is_kept_stay() {
    let load = Load::new(1);
    let options = Options { recorder: Some(load.recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["a"], b"1").unwrap();
    let commit = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    store.set_branch(b"main", &commit).unwrap();
    store.remove_branch(b"old").unwrap();
    drop(tree);
    load.recorder.finish().unwrap();
    let mut own = Store::create(MemoryDisk::seeded(2), Options::default()).unwrap();
    let mut tree = own.empty_tree();
    tree.add(&["mine"], b"1").unwrap();
    let mine = own.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(tree);
    own.set_branch(b"main", &mine).unwrap();
    own.set_branch(b"old", &mine).unwrap();
    let mut replay = Replay::new(Some(own), None, TableOptions::default(), || 0).keeps_all();
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        replay.call(&call).unwrap();
    }
    assert_eq!((replay.outcome().mismatches, replay.outcome().skipped), (0, 2));
    let own = replay.end().0.unwrap();
    for name in [&b"main"[..], b"old"] {
        assert_eq!(own.branch(name).unwrap(), mine);
    }
}

/// A program that lets go of a live table, opens it again, deletes it and makes another of its name.
#[test]
fn live_tables_are_opened_again_and_deleted_as_they_were() {
    let load = Load::new(1);
    let with =
        |recorder| SessionOptions { log: Log::Written, recorder, ..SessionOptions::default() };
    let options = with(Some(load.recorder.clone()));
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut table = session.create_table("t", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"k", b"1")).unwrap();
    drop(table);
    let table = session.open_table("t", &OpenTable::default()).unwrap();
    assert!(table.get(b"k").unwrap().is_some());
    drop(table);
    session.delete_table("t").unwrap();
    let table = session.create_table("t", TableOptions::default()).unwrap();
    assert!(table.get(b"k").unwrap().is_none());
    drop(table);
    drop(session);
    load.recorder.finish().unwrap();
    for (log, skipped) in [(Log::Written, 0), (Log::None, 1)] {
        let options = SessionOptions { log, ..with(None) };
        let own = Session::create(MemoryDisk::seeded(2), options).unwrap();
        let outcome = load.replay(None, Some(own));
        // Without a log no table is opened again: that answer is another.
        let mismatches = u64::from(log == Log::None);
        assert_eq!((outcome.mismatches, outcome.skipped), (mismatches, skipped), "{outcome:?}");
    }
    // A table that somebody has stays.
    let own = Session::create(MemoryDisk::seeded(2), with(None)).unwrap();
    drop(own.create_table("t", TableOptions::default()).unwrap());
    let mut replay = Replay::new(None, Some(own), TableOptions::default(), || 0).keeps_all();
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        replay.call(&call).unwrap();
    }
    assert_eq!(replay.outcome().skipped, 1);
    assert_eq!(replay.end().1.unwrap().live_tables().unwrap(), ["t"]);
}

/// A program that saves snapshots of its tables, fails at one, and deletes one.
#[test]
fn snapshots_of_tables_are_saved_and_deleted_as_they_were() {
    let load = Load::new(1);
    let with = |recorder| SessionOptions { recorder, ..SessionOptions::default() };
    let options = with(Some(load.recorder.clone()));
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut one = session.create_table("one", TableOptions::default()).unwrap();
    let two = session.create_table("two", TableOptions::default()).unwrap();
    let save = |name: &str, tables: &[&Table]| {
        session.save_snapshot(name, SnapshotContent { label: "", payload: b"", tables })
    };
    one.update(Batch::new().insert(b"k", b"1")).unwrap();
    save("first", &[&one]).unwrap();
    one.update(Batch::new().insert(b"k", b"2")).unwrap();
    save("both", &[&one, &two]).unwrap();
    assert!(save("first", &[&two]).is_err());
    save("second", &[&one]).unwrap();
    session.delete_snapshot("first").unwrap();
    drop((one, two));
    drop(session);
    load.recorder.finish().unwrap();
    let own = Session::create(MemoryDisk::seeded(2), with(None)).unwrap();
    let mut replay = Replay::new(None, Some(own), TableOptions::default(), || 0);
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        replay.call(&call).unwrap();
    }
    let outcome = replay.outcome();
    assert_eq!(outcome.mismatches, 0, "{outcome:?}");
    let own = replay.end().1.unwrap();
    let has = |name: &str| {
        let mut tables = own.open_snapshot(name, &OpenSnapshot::default()).unwrap().tables;
        tables.sort_by(|one, other| one.name().cmp(other.name()));
        tables.iter().map(|it| (it.name().to_owned(), it.get(b"k").unwrap())).collect::<Vec<_>>()
    };
    let names: Vec<_> = own.list_snapshots().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["both", "second"]);
    let one = ("one".to_owned(), Some(b"2".to_vec()));
    assert_eq!(has("both"), [one.clone(), ("two".to_owned(), None)]);
    assert_eq!(has("second"), [one]);
    // One of which a table is not there is not saved in part, nor is one in place of another of its name.
    let skipped = outcome.skipped;
    let own = Session::create(MemoryDisk::seeded(4), with(None)).unwrap();
    let mine = own.create_table("mine", TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&mine] };
    own.save_snapshot("second", content).unwrap();
    drop(mine);
    let mut replay = Replay::new(None, Some(own), TableOptions::default(), || 0);
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        if !matches!(&call.arguments[..], [Argument::Bytes(name)] if name == b"two") {
            replay.call(&call).unwrap();
        }
    }
    let outcome = replay.outcome();
    assert_eq!(outcome.mismatches, 0, "{outcome:?}");
    let timed: u64 = outcome.actions.iter().map(|it| it.calls).sum();
    assert!(outcome.skipped > skipped + 2 && timed <= outcome.calls, "{outcome:?}");
    let saved = outcome.actions.iter().find(|it| it.action == "save_snapshot").unwrap();
    assert_eq!(saved.calls, 1);
    let own = replay.end().1.unwrap();
    let names: Vec<_> = own.list_snapshots().unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!(names, ["second"], "and the trace's first was deleted");
    // In a store that somebody has, its own stay as they are, and no other is there then.
    let own = Session::create(MemoryDisk::seeded(3), with(None)).unwrap();
    let mine = own.create_table("mine", TableOptions::default()).unwrap();
    let content = SnapshotContent { label: "", payload: b"", tables: &[&mine] };
    own.save_snapshot("first", content).unwrap();
    drop(mine);
    let mut replay = Replay::new(None, Some(own), TableOptions::default(), || 0).keeps_all();
    let mut trace = Trace::open(&*load.traces, "t").unwrap();
    while let Some(call) = trace.next_call().unwrap() {
        replay.call(&call).unwrap();
    }
    assert_eq!(replay.outcome().mismatches, 0);
    let own = replay.end().1.unwrap();
    let first = own.open_snapshot("first", &OpenSnapshot::default()).unwrap();
    assert_eq!(first.tables[0].name(), "mine");
    assert_eq!(own.list_snapshots().unwrap().len(), 1);
}

//! Timings of both faces: what is told apart, what it adds up to, and what bounds it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use varvite::context::{
    self, CommitInfo, Cost, Observer as _, Operation, Resolution, Sides, Store,
};
use varvite::disk::memory::MemoryDisk;
use varvite::{Batch, Session, SessionOptions, TableOptions};
use varvite_sight::timings::Action;
use varvite_sight::{Clock, Limits, Report, Timings};

/// A clock that each reading moves on by a microsecond.
fn timings(limits: Limits) -> Arc<Timings<impl Fn() -> u64>> {
    let readings = AtomicU64::new(0);
    Timings::new(move || readings.fetch_add(1_000, Ordering::Relaxed), limits)
}

fn action<'a>(report: &'a Report, action: &str, prefix: &str) -> &'a Action {
    let mut found = report.actions.iter().filter(|it| it.action == action && it.prefix == prefix);
    found.next().unwrap_or_else(|| panic!("no {action} of {prefix:?} in {report:#?}"))
}

#[test]
fn a_context_is_told_apart_by_action_and_prefix_and_its_blocks_by_commit() {
    let timings = timings(Limits::default());
    let options = context::Options { observer: Some(timings.clone()), ..Default::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..10 {
        tree.add(&["data", "contracts", &format!("{number}")], &[7; 100]).unwrap();
    }
    tree.add(&["data", "votes"], b"yes").unwrap();
    let first = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let mut tree = store.checkout(&first).unwrap();
    assert!(tree.find(&["data", "contracts", "3"]).unwrap().is_some());
    tree.add(&["top"], b"1").unwrap();
    let second = store.commit(&mut tree, &CommitInfo::new(&[first], 1, "a", "b")).unwrap();
    // What is there already is written by no commit, so it ends no block.
    store.commit(&mut tree, &CommitInfo::new(&[first], 1, "a", "b")).unwrap();

    let report = timings.report();
    let contracts = action(&report, "add", "data/contracts");
    assert_eq!((contracts.calls, contracts.things, contracts.face), (10, 10, "context"));
    assert!((contracts.total_ms - 0.01).abs() < 1e-9, "{contracts:?}");
    assert!((contracts.latency.p50_us - 1.0).abs() < 0.02, "{contracts:?}");
    assert_eq!(action(&report, "add", "data/votes").calls, 1);
    assert_eq!(action(&report, "add", "top").calls, 1);
    assert_eq!(action(&report, "find", "data/contracts").calls, 1);
    let commits = action(&report, "commit", "");
    assert_eq!(commits.calls, 3);
    assert!(commits.bytes_written > 1_000 && commits.sync_ms > 0.0, "{commits:?}");
    let adds = report.totals.iter().find(|it| it.action == "add").unwrap();
    assert_eq!((adds.calls, adds.prefix.as_str()), (12, ""));
    assert_eq!(report.blocks, 2);
    let mut names: Vec<_> = report.worst_blocks.iter().map(|it| it.name.clone()).collect();
    names.sort();
    let mut expected = [first, second].map(|it| context::hash::to_text(&it));
    expected.sort();
    assert_eq!(names, expected);
    let block = report.worst_blocks.iter().find(|it| it.number == 0).unwrap();
    assert_eq!(block.actions.iter().find(|it| it.action == "add").unwrap().calls, 11);
}

/// What a callback does is in the time of its fold, and once in the time of its block.
#[test]
fn what_is_called_within_a_fold_counts_once_in_its_block() {
    let timings = timings(Limits::default());
    let options = context::Options { observer: Some(timings.clone()), ..Default::default() };
    let mut store = Store::create(MemoryDisk::seeded(1), options).unwrap();
    let mut tree = store.empty_tree();
    for number in 0..10 {
        tree.add(&["data", &format!("{number}")], &[7; 100]).unwrap();
    }
    let order = context::Order::Sorted;
    tree.fold(&["data"], None, order, |_, below| {
        below.find::<&str>(&[])?;
        // One within it, too.
        tree.fold(&["none"], None, order, |_, _| Ok(()))
    })
    .unwrap();
    assert!(tree.find(&["data", "3"]).unwrap().is_some());
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let report = timings.report();
    let block = &report.worst_blocks[0];
    let of = |name: &str| block.actions.iter().find(|it| it.action == name).unwrap();
    assert_eq!((of("find").calls, of("fold").calls), (12, 12));
    // A reading of the clock is a microsecond: two for each action, one of which is between them.
    let of_actions =
        of("fold").total_ms + of("find").total_ms + of("add").total_ms + of("commit").total_ms;
    let inner = 0.001 * (11.0 + 11.0);
    assert!((block.total_ms - (of_actions - inner)).abs() < 1e-9, "{block:?}");
}

#[test]
fn tables_are_told_apart_by_name_with_what_they_cost() {
    let timings = timings(Limits::default());
    let options = SessionOptions {
        log: varvite::Log::Synced,
        observer: Some(timings.clone()),
        ..SessionOptions::default()
    };
    let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
    let mut first = session.create_table("first", TableOptions::default()).unwrap();
    let second = session.create_table("second", TableOptions::default()).unwrap();
    first.update(Batch::new().insert(b"a", &[1; 100]).insert(b"b", b"2")).unwrap();
    assert!(first.get(b"a").unwrap().is_some());
    assert!(second.view().lookup(&[b"a", b"b"]).unwrap().get(0).is_none());
    assert_eq!(first.iter().count(), 2);
    timings.end_block("level 7");
    let tables = session.share(vec![first]).unwrap();
    let mut transaction = tables.begin();
    transaction.batch("first").unwrap().insert(b"c", b"3");
    transaction.commit().unwrap();
    timings.end_block("level 8");

    let report = timings.report();
    let update = action(&report, "update", "first");
    assert_eq!((update.face, update.calls, update.things), ("table", 2, 3));
    assert!(update.bytes_written >= 101 && update.sync_ms > 0.0, "{update:?}");
    assert_eq!(action(&report, "get", "first").calls, 1);
    assert_eq!(action(&report, "range", "first").things, 2);
    let transaction = action(&report, "transaction", "");
    assert_eq!((transaction.calls, transaction.things), (1, 1));
    // The time of its commit counts once.
    let block = report.worst_blocks.iter().find(|it| it.name == "level 8").unwrap();
    let of = |name: &str| block.actions.iter().find(|it| it.action == name).unwrap().total_ms;
    assert!(of("transaction") >= of("update"), "{block:?}");
    assert!((block.total_ms - of("update")).abs() < 1e-9, "{block:?}");
    assert_eq!(action(&report, "lookup", "second").things, 2);
    timings.reset();
    assert!(timings.report().actions.is_empty());
}

/// What a host does beside its blocks has a name, and the commits of an import count once.
#[test]
fn collections_snapshots_and_tables_that_come_and_go_have_names() {
    let timings = timings(Limits::default());
    let options = || context::Options {
        observer: Some(timings.clone()),
        lower: Some(MemoryDisk::seeded(2)),
        chunk_bytes: 1,
        ..Default::default()
    };
    let mut store = Store::create(MemoryDisk::seeded(1), options()).unwrap();
    let mut commits = Vec::new();
    for number in 0..3_u8 {
        let mut tree = store.empty_tree();
        tree.add(&["data"], &[number; 300]).unwrap();
        commits.push(store.commit(&mut tree, &CommitInfo::default()).unwrap());
    }
    store.archive(&commits[1], u64::MAX).unwrap();
    store.unarchive(u64::MAX).unwrap();
    store.attach().unwrap();
    store.pin(&commits[0]).unwrap();
    store.commit_info(&commits[0]).unwrap();
    let files: Arc<dyn varvite::disk::Disk> = MemoryDisk::seeded(3);
    let begin = timings.now_ns();
    timings.end_block("before the export");
    store.export_commit(&commits[2], &files, "commit").unwrap();
    let open = |_: &[Vec<u8>], _: Sides<'_>| Ok(Resolution::Conflict);
    store.merge_commits(&commits[0], &commits[1], context::Limits::default(), open).unwrap();
    store.history(&commits, 9).unwrap();
    timings.end_block("export, merge, history");
    let took_ms = (timings.now_ns() - begin) as f64 / 1e6;
    store.collect(&commits[2]).unwrap();
    while store.collect_step(1 << 20).unwrap() {}
    timings.end_block("kept up");
    let mut other = Store::create(MemoryDisk::seeded(4), options()).unwrap();
    other.import_commit(&*files, "commit").unwrap();
    timings.end_block("behind the import");
    let observer = Some(timings.clone() as Arc<dyn varvite::Observer>);
    let session = SessionOptions { log: varvite::Log::Written, observer, ..Default::default() };
    let session = Session::create(MemoryDisk::seeded(5), session).unwrap();
    let table = session.create_table("t", TableOptions::default()).unwrap();
    drop((table.duplicate("u").unwrap(), table));
    session.delete_table("t").unwrap();

    let report = timings.report();
    let names: BTreeSet<_> = report.totals.iter().map(|it| it.action.as_str()).collect();
    for name in [
        "commit_info",
        "collect",
        "collect_step",
        "pin",
        "archive",
        "unarchive",
        "attach",
        "export",
        "import",
        "open_table",
        "duplicate",
        "delete_table",
    ] {
        assert!(names.contains(name), "no {name} in {names:?}");
    }
    assert!(!names.contains("other"), "{names:?}");
    assert_eq!(action(&report, "open_table", "t").face, "table");
    // No time counts twice.
    let once = report.worst_blocks.iter().find(|it| it.name == "export, merge, history").unwrap();
    assert!(once.total_ms < took_ms, "{took_ms} {once:?}");
    let kept_up = report.worst_blocks.iter().find(|it| it.name == "kept up").unwrap();
    assert!(kept_up.actions.iter().any(|it| it.action == "collect_step"), "{kept_up:?}");
    // An import has the time of its commits in it, which are blocks by themselves.
    let behind = report.worst_blocks.iter().find(|it| it.name == "behind the import").unwrap();
    let import = behind.actions.iter().find(|it| it.action == "import").unwrap();
    assert!(import.total_ms > behind.total_ms, "{behind:?}");
}

fn add(timings: &impl context::Observer, prefix: &[&[u8]], duration_ns: u64) {
    timings.record(Operation::Add, prefix, duration_ns, &Cost::default());
}

#[test]
fn prefixes_and_blocks_are_bounded_and_nothing_is_lost() {
    let limits = Limits { depth: 3, prefixes: 4, worst_blocks: 2 };
    let timings = timings(limits);
    add(&*timings, &[b"top"], 1);
    for number in 0..100_u64 {
        add(&*timings, &[b"top", number.to_string().as_bytes(), b"x", b"y"], 1_000 * (number + 1));
        timings.end_block(&format!("{number}"));
    }
    let mut cost = Cost::default();
    (cost.node_hits, cost.page_hits, cost.page_misses) = (2, 1, 4);
    timings.record(Operation::Find, &[b"top"], 5, &cost);
    // Too long to be told apart, and not of text.
    add(&*timings, &[&[7; 300], b"x"], 1);
    add(&*timings, &[b"top", &[0xff; 2]], 1);
    let report = timings.report();
    assert_eq!(report.actions.iter().map(|it| it.calls).sum::<u64>(), 104);
    assert_eq!(report.actions.len(), 6, "{report:#?}");
    let find = action(&report, "find", "top");
    assert_eq!((find.cache_hits, find.reads), (3, 4));
    assert_eq!(action(&report, "add", "top").calls, 1 + 97 + 1);
    assert_eq!(action(&report, "add", "").calls, 1);
    assert_eq!(action(&report, "add", "top/2/x").calls, 1);
    let worst: Vec<_> = report.worst_blocks.iter().map(|it| it.name.as_str()).collect();
    assert_eq!((report.blocks, worst), (100, vec!["99", "98"]));
}

#[test]
fn prefixes_that_differ_look_different() {
    let timings = timings(Limits { prefixes: usize::MAX, ..Limits::default() });
    let all: [&[&[u8]]; 9] = [
        &[b"\xff"],
        &[b"ff"],
        &[b"\\xff"],
        &[b"a/b"],
        &[b"a", b"b"],
        &["ab\u{202e}".as_bytes()],
        &[b"ab"],
        &[b""],
        &[],
    ];
    for prefix in all {
        add(&*timings, prefix, 1);
    }
    let report = timings.report();
    let names: BTreeSet<_> = report.actions.iter().map(|it| it.prefix.as_str()).collect();
    assert_eq!(names.len(), all.len(), "{names:?}");
    assert!(names.contains("\\xff") && names.contains("a/b") && names.contains("a\\x2fb"));
    assert!(names.iter().all(|it| !it.contains('\u{202e}')), "{names:?}");
    // What is asked for beyond what there is.
    for prefix in 0..2 * Limits::PREFIXES_MAX {
        add(&*timings, &[prefix.to_string().as_bytes()], 1);
    }
    assert_eq!(timings.report().actions.len(), Limits::PREFIXES_MAX + 1);
}

#[test]
fn costs_and_times_without_measure_are_added_up() {
    let timings = timings(Limits::default());
    let mut cost = Cost::default();
    (cost.bytes_read, cost.sync_ns, cost.page_misses) = (u64::MAX, u64::MAX, u64::MAX);
    for prefix in ["a", "b"] {
        for _ in 0..2 {
            timings.record(Operation::Find, &[prefix.as_bytes()], u64::MAX, &cost);
        }
    }
    let report = timings.report();
    assert_eq!((report.totals[0].bytes_read, report.totals[0].calls), (u64::MAX, 4));
}

#[test]
fn durations_without_measure_are_counted() {
    let timings = timings(Limits { worst_blocks: 0, ..Limits::default() });
    for duration_ns in [0, 1, u64::MAX] {
        add(&*timings, &[], duration_ns / 4);
    }
    timings.end_block("none is kept");
    let report = timings.report();
    assert_eq!(report.totals[0].calls, 3);
    assert!(report.worst_blocks.is_empty());
}

/// It is another counter than the system's, so a wrong speed would be seen.
#[test]
#[allow(clippy::disallowed_methods)] // The system's clock is what it is compared with.
fn the_clock_runs_as_fast_as_the_systems() {
    let (clock, system) = (Clock::new(), std::time::Instant::now());
    // Both at once, unless the thread is kept waiting in between.
    let both = || loop {
        let (before, own, after) = (system.elapsed(), clock.now_ns(), system.elapsed());
        if after.saturating_sub(before) < Duration::from_micros(50) {
            break (own as f64, before.as_nanos() as f64);
        }
    };
    let (first, mut last) = (both(), 0);
    while system.elapsed() < Duration::from_millis(200) {
        let now = clock.clone().now_ns();
        assert!(now >= last, "{now} after {last}");
        last = now;
    }
    let end = both();
    let speed = (end.0 - first.0) / (end.1 - first.1);
    assert!((0.998..1.002).contains(&speed), "{speed} nanoseconds for each");
}

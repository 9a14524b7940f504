//! What summaries and comparisons say of traces: of clocks that jump, of long recordings, and of hostile ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use varvite::context::{CommitInfo, Options, Order, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::trace::{Recorder, Trace};
use varvite::{Batch, Session, SessionOptions, TableOptions};
use varvite_sight::trace::{
    BlockTime, Comparison, Summary, blocks_between, compare, comparison_page, summarise,
    summary_page,
};

/// A recording by a clock that says what it is told to.
struct Recording {
    disk: Arc<MemoryDisk>,
    recorder: Arc<Recorder>,
    now: Arc<AtomicU64>,
}

/// A recording whose clock gives `readings`, one after the other, and then what `now` is set to.
fn recording(readings: &'static [u64]) -> Recording {
    let disk = MemoryDisk::seeded(1);
    let now = Arc::new(AtomicU64::new(0));
    let (own, read) = (Arc::clone(&now), AtomicU64::new(0));
    let clock = move || {
        let number = read.fetch_add(1, Ordering::Relaxed) as usize;
        readings.get(number).copied().unwrap_or_else(|| own.load(Ordering::Relaxed))
    };
    let traces = Arc::clone(&disk) as Arc<dyn Disk>;
    Recording { recorder: Recorder::create(&traces, "t", clock).unwrap(), disk, now }
}

impl Recording {
    fn at(&self, ns: u64) -> &Recorder {
        self.now.store(ns, Ordering::Relaxed);
        &self.recorder
    }

    fn summary(&self, name: &str) -> Summary {
        self.recorder.finish().unwrap();
        let mut trace = Trace::open(&*self.disk, "t").unwrap();
        summarise(&mut trace, name).unwrap()
    }
}

/// A run in which each of `samples` was measured, a tenth of a second after the one before.
fn sampled(name: &str, samples: impl IntoIterator<Item = u64>) -> Summary {
    let recording = recording(&[]);
    for (number, sample) in (0..).zip(samples) {
        recording.at(number * 100_000_000).sample(name, sample);
    }
    recording.summary("run")
}

fn worse<'a>(comparison: &'a Comparison, of: &str) -> Option<&'a varvite_sight::trace::Change> {
    comparison.worse.iter().find(|change| change.of == of)
}

#[test]
fn a_clock_that_jumped_is_summed_up() {
    // The begin of the recording, a mark, and a view of a table from the first moment to the last.
    let recording = recording(&[0, 0, 0, 0, 0, 0, u64::MAX]);
    let options =
        SessionOptions { recorder: Some(recording.recorder.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
    recording.recorder.mark("a");
    let table = session.create_table("t", TableOptions::default()).unwrap();
    assert!(table.get(b"k").unwrap().is_none());
    drop(table);
    let summary = recording.summary("run");
    assert_eq!((summary.blocks, summary.timeline.len()), (1, 1));
    assert!(summary_page(&summary).contains("</html>"));
}

#[test]
fn what_is_called_on_a_view_is_of_its_table() {
    let recording = recording(&[]);
    let options =
        SessionOptions { recorder: Some(recording.recorder.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
    let mut table = session.create_table("one", TableOptions::default()).unwrap();
    table.update(Batch::new().insert(b"k", b"v")).unwrap();
    let view = table.view();
    assert_eq!(view.range(..).count(), 1);
    assert!(view.get(b"k").unwrap().is_some());
    let copy = table.duplicate("two").unwrap();
    assert!(copy.view().get(b"k").unwrap().is_some());
    drop((view, copy, table));
    let summary = recording.summary("run");
    let prefixes = |action: &str| {
        let rows = summary.prefixes.iter().filter(|row| row.action == action);
        let mut names: Vec<_> = rows.map(|row| (row.prefix.as_str(), row.calls)).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(prefixes("range"), [("one", 1)], "{:?}", summary.prefixes);
    assert_eq!(prefixes("view"), [("one", 1), ("two", 1)]);
    assert_eq!(prefixes("get"), [("one", 1), ("two", 1)]);
    assert_eq!(prefixes("duplicate"), [("one", 1)]);
}

#[test]
fn long_recordings_keep_their_last_samples() {
    let long = (0..100_100).map(|_| 1).chain([1_000_000_000]);
    let (first, this) = (sampled("rss_bytes", [1, 1]), sampled("rss_bytes", long));
    let points = &this.samples["rss_bytes"];
    assert!(points.len() <= 1_000, "{}", points.len());
    assert_eq!(points.last().map(|(_, value)| *value), Some(1_000_000_000));
    assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let compared = compare(vec![first, this]);
    assert_eq!(worse(&compared, "rss_bytes").map(|it| it.this), Some(1e9), "{compared:?}");
}

#[test]
fn a_peak_between_two_points_is_seen() {
    let flat = || (0..24_010).map(|_| 100_000_000);
    let peak = flat().enumerate().map(|(at, it)| if at == 6 { 10_000_000_000 } else { it });
    let (first, this) = (sampled("rss_bytes", flat()), sampled("rss_bytes", peak));
    assert!(this.samples["rss_bytes"].iter().any(|(_, value)| *value == 10_000_000_000));
    let compared = compare(vec![first, this]);
    assert_eq!(worse(&compared, "rss_bytes").map(|it| it.ratio), Some(100.0), "{compared:?}");
}

#[test]
fn what_only_the_second_run_used_got_worse() {
    let (first, this) =
        (sampled("read_bytes", [7, 7, 7]), sampled("read_bytes", [7, 90, 10_000_000_000]));
    let compared = compare(vec![first.clone(), this.clone()]);
    let change = worse(&compared, "read_bytes").unwrap();
    assert_eq!((change.first, change.this), (0.0, 9_999_999_993.0));
    assert!(change.ratio.is_infinite());
    let page = comparison_page(&compared);
    assert!(page.contains("read_bytes") && !page.contains(">inf<"), "{page}");
    let back = compare(vec![this, first]);
    assert_eq!(back.better.iter().find(|it| it.of == "read_bytes").map(|it| it.ratio), Some(0.0));
    // Of what only the second run measured nothing is known of the first.
    let compared = compare(vec![sampled("rss_bytes", [1]), sampled("major_faults", [1, 9])]);
    assert!(worse(&compared, "major_faults").is_none());
}

#[test]
fn calls_are_what_actions_have_and_what_is_loaded_is_no_block() {
    let recording = recording(&[]);
    let recorder = Some(recording.recorder.clone());
    let options = varvite::context::Options { recorder, ..varvite::context::Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    let info = CommitInfo::default();
    recording.recorder.mark("load");
    let mut tree = store.empty_tree();
    for number in 0..10_u8 {
        if number == 7 {
            // Not yet committed, and of the load all the same.
            tree.add(&["last"], b"loaded").unwrap();
            recording.recorder.mark("blocks");
        }
        tree.add(&["number"], &[number]).unwrap();
        store.commit(&mut tree, &info).unwrap();
        recording.recorder.sample("cpu_ns", 7);
    }
    drop(tree);
    let summary = recording.summary("run");
    assert_eq!(summary.calls, summary.actions.iter().map(|it| it.calls).sum::<u64>());
    assert_eq!(summary.calls, 1 + 10 + 1 + 10);
    assert_eq!(summary.blocks, 3);
    assert!(summary.worst_blocks.iter().all(|it| it.calls == 2), "{:?}", summary.worst_blocks);
    assert_eq!(summary.timeline.iter().map(|it| it.blocks).sum::<u64>(), 3);
}

/// However long the load took, blocks are as fast as they were behind it.
#[test]
fn blocks_a_second_are_of_the_time_behind_the_load() {
    const SECOND: u64 = 1_000_000_000;
    for (begin, load) in [(0, 2), (0, 200), (3, 5)] {
        let recording = recording(&[]);
        let recorder = Some(recording.recorder.clone());
        let options =
            varvite::context::Options { recorder, ..varvite::context::Options::default() };
        let mut store = Store::create(MemoryDisk::seeded(2), options).unwrap();
        let info = CommitInfo::default();
        let mut tree = store.empty_tree();
        recording.at(begin * SECOND).mark("load");
        tree.add(&["loaded"], b"1").unwrap();
        store.commit(&mut tree, &info).unwrap();
        let loaded = begin + load;
        recording.at(loaded * SECOND).mark("blocks");
        for number in 1..=20 {
            recording.at(loaded * SECOND + number * SECOND / 10);
            tree.add(&["number"], &number.to_le_bytes()).unwrap();
            store.commit(&mut tree, &info).unwrap();
        }
        // What a reader finds behind the last block is no time of blocks.
        recording.at((loaded + 7) * SECOND);
        tree.find(&["number"]).unwrap();
        let summary = recording.summary("run");
        assert_eq!(summary.blocks, 20);
        let expected = 20.0 / (begin as f64 + 2.0);
        assert!(
            (summary.blocks_per_second - expected).abs() < 1e-6,
            "{}",
            summary.blocks_per_second
        );
        assert!((summary.seconds - (loaded + 7) as f64).abs() < 1e-6, "{}", summary.seconds);
    }
}

/// A host that says how many transactions its blocks had has them a second; what it loaded before is no part of them.
#[test]
fn transactions_are_those_of_the_blocks() {
    const SECOND: u64 = 1_000_000_000;
    let blocks = |told: bool| {
        let recording = recording(&[]);
        let recorder = Some(recording.recorder.clone());
        let options = SessionOptions { recorder, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        let tell = |number| {
            if told {
                recording.recorder.sample("transactions", number);
            }
        };
        // A replay that goes on has had some before.
        tell(1_000);
        recording.at(0).mark("load");
        table.update(Batch::new().insert(b"a", b"0")).unwrap();
        tell(1_007);
        for number in 1..=10 {
            recording.at(SECOND + number * SECOND / 5).mark(&format!("slot {number}"));
            table.update(Batch::new().insert(b"a", &number.to_le_bytes())).unwrap();
            tell(1_007 + 30 * number);
        }
        recording.at(4 * SECOND);
        table.get(b"a").unwrap();
        recording.summary("run")
    };
    let summary = blocks(true);
    assert_eq!((summary.blocks, summary.transactions), (10, Some(300)));
    assert_eq!(summary.timeline.iter().map(|it| it.transactions).sum::<u64>(), 300);
    assert!(summary.block_times.iter().all(|it| it.transactions == 30));
    let rate = summary.transactions_per_second.unwrap();
    let ratio = rate / summary.blocks_per_second;
    assert!((ratio - 30.0).abs() < 1e-6, "{rate} of {}", summary.blocks_per_second);
    assert!(summary_page(&summary).contains("transactions a second"));
    let mut fast = summary.clone();
    fast.transactions_per_second = Some(rate * 2.0);
    let comparison = compare(vec![fast, summary.clone()]);
    let change = worse(&comparison, "transactions").unwrap();
    assert!((change.ratio - 2.0).abs() < 1e-6, "{change:?}");
    assert!(comparison_page(&comparison).contains("tx/s"));
    // One that says nothing of them has none, and is no slower for it.
    let silent = blocks(false);
    assert_eq!((silent.transactions, silent.transactions_per_second), (None, None));
    assert!(!summary_page(&silent).contains("transactions"));
    let comparison = compare(vec![summary, silent]);
    assert!(worse(&comparison, "transactions").is_none());
}

#[test]
fn a_block_is_a_point_until_there_are_too_many() {
    for blocks in [1_u64, 480, 481, 5_000] {
        let recording = recording(&[]);
        let recorder = Some(recording.recorder.clone());
        let options =
            varvite::context::Options { recorder, ..varvite::context::Options::default() };
        let mut store = Store::create(MemoryDisk::seeded(2), options).unwrap();
        let info = CommitInfo::default();
        let mut tree = store.empty_tree();
        recording.recorder.mark("load");
        tree.add(&["loaded"], b"1").unwrap();
        store.commit(&mut tree, &info).unwrap();
        recording.recorder.mark("blocks");
        let mut names = Vec::new();
        for number in 0..blocks {
            tree.add(&["number"], &number.to_le_bytes()).unwrap();
            let commit = store.commit(&mut tree, &info).unwrap();
            names.push(varvite::context::hash::to_text(&commit));
        }
        let summary = recording.summary("run");
        let points = &summary.block_times;
        assert!(points.len() as u64 == blocks.min(480) || (240..=480).contains(&points.len()));
        let mut next = 0;
        for point in points {
            assert_eq!(point.number, next);
            let own = next as usize..(next + point.blocks) as usize;
            assert!(names[own].contains(&point.name), "{point:?}");
            next += point.blocks;
        }
        assert_eq!(next, blocks);
        // Some of them are each by itself again.
        let mut trace = Trace::open(&*recording.disk, "t").unwrap();
        let (some, is_cut) = blocks_between(&mut trace, true, 100..300, || true).unwrap();
        let expected = blocks.saturating_sub(100).min(200);
        assert_eq!((some.len() as u64, is_cut), (expected, false));
        assert!(some.iter().all(|it| it.blocks == 1 && it.name == names[it.number as usize]));
        let mut trace = Trace::open(&*recording.disk, "t").unwrap();
        let (_, is_cut) = blocks_between(&mut trace, true, 0..u64::MAX, || false).unwrap();
        assert_eq!(is_cut, blocks * 2 > 4_096);
    }
}

/// Marks are read as far as they are asked for, and the one that a reading was cut in is no block.
#[test]
fn marks_are_read_as_far_as_they_are_asked_for() {
    let recording = recording(&[]);
    for number in 0..10_000_u64 {
        recording.at(number * 1_000).mark(&number.to_string());
    }
    let summary = recording.summary("run");
    assert_eq!((summary.blocks, summary.has_commits), (10_000, false));
    let read = |asked, goes_on: fn() -> bool| {
        let mut trace = Trace::open(&*recording.disk, "t").unwrap();
        blocks_between(&mut trace, false, asked, goes_on).unwrap()
    };
    let (some, is_cut) = read(100..200, || panic!("it reads on"));
    assert!(some.len() == 100 && some.iter().all(|it| it.name == it.number.to_string()));
    assert!(!is_cut);
    let sum = |blocks: &[BlockTime]| blocks.iter().map(|it| it.blocks).sum::<u64>();
    let (cut, is_cut) = read(0..u64::MAX, || false);
    assert_eq!((sum(&cut), is_cut), (4_095, true));
    let (all, is_cut) = read(0..u64::MAX, || true);
    assert_eq!((sum(&all), is_cut), (10_000, false));
}

/// What is said to be the longest took so long, and no percentile is above it.
#[test]
fn the_longest_is_what_the_longest_took() {
    // Each reading is 31,001 ns behind the last one, which is the begin of no class.
    const READINGS: [u64; 400] = {
        let (mut all, mut at) = ([0; 400], 0);
        while at < 400 {
            all[at] = at as u64 * 31_001;
            at += 1;
        }
        all
    };
    let recording = recording(&READINGS);
    let recorder = Some(recording.recorder.clone());
    let options = varvite::context::Options { recorder, ..varvite::context::Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["loaded"], b"1").unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    drop(tree);
    let summary = recording.summary("run");
    for row in &summary.actions {
        let latency = &row.latency;
        let percentiles = [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us];
        assert!(percentiles.iter().all(|it| *it <= latency.max_us), "{row:?}");
    }
    let longest = summary.ranges.iter().map(|it| it.max_us).fold(0.0, f64::max);
    let said = summary.actions.iter().map(|it| it.latency.max_us).fold(0.0, f64::max);
    assert!((longest - said).abs() < 1e-9, "{longest} and {said}");
    let block = summary.worst_blocks[0].total_ms * 1e3;
    assert!((summary.block_latency.max_us - block).abs() < 1e-9, "{block}");
}

/// Marks are blocks where nothing is committed at all, and not where all commits are of the load.
#[test]
fn a_mark_is_no_block_where_a_load_was_committed() {
    let recording = recording(&[]);
    let recorder = Some(recording.recorder.clone());
    let options = varvite::context::Options { recorder, ..varvite::context::Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    recording.at(1_000).mark("load");
    let mut tree = store.empty_tree();
    tree.add(&["loaded"], b"1").unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    recording.at(2_000).mark("blocks");
    drop(tree);
    let summary = recording.summary("run");
    assert_eq!(summary.blocks, 0);
    assert!(summary.worst_blocks.is_empty() && summary.timeline.is_empty(), "{summary:?}");
}

#[test]
fn prefixes_that_differ_are_told_apart() {
    let recording = recording(&[]);
    let recorder = Some(recording.recorder.clone());
    let options = varvite::context::Options { recorder, ..varvite::context::Options::default() };
    let store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    let mut tree = store.empty_tree();
    let (long, longer) = ([b'l'; 200], [b'l'; 201]);
    let other = [&long[..199], b"x"].concat();
    let paths: [&[&[u8]]; 15] = [
        &[b"\xff"],
        &[b"\\xff"],
        &[b"a/b"],
        &[b"a", b"b"],
        &["c\u{202e}".as_bytes()],
        &[b"c"],
        &["c\u{ad}".as_bytes()],
        &["c\u{61c}".as_bytes()],
        &["c\u{2028}".as_bytes()],
        &["c\u{fe0f}".as_bytes()],
        &["c\u{e0041}".as_bytes()],
        &["…".as_bytes()],
        &[&long],
        &[&longer],
        &[&other],
    ];
    for path in paths {
        tree.add(path, b"value").unwrap();
    }
    drop(tree);
    let summary = recording.summary("run");
    let adds = summary.prefixes.iter().filter(|it| it.action == "add");
    let names: std::collections::BTreeSet<_> = adds.map(|it| it.prefix.as_str()).collect();
    assert_eq!(names.len(), paths.len(), "{names:?}");
    // What stands for others is no name of a step.
    assert!(!names.contains("…"));
    let page = summary_page(&summary);
    assert!(!page.contains(['\u{202e}', '\u{ad}', '\u{61c}', '\u{2028}', '\u{e0041}']));
}

#[test]
fn failures_and_rates_are_compared() {
    let run = |blocks: u64, width: u64, is_failing: bool| {
        let recording = recording(&[]);
        let recorder = Some(recording.recorder.clone());
        let options = SessionOptions { recorder, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
        let mut table = session.create_table("t", TableOptions::default()).unwrap();
        for block in 0..blocks {
            recording.at(block * width).mark("block");
            let key = vec![0; if is_failing { 5_000 } else { 5 }];
            assert_eq!(table.update(Batch::new().insert(&key, b"v")).is_err(), is_failing);
        }
        drop(table);
        recording.summary("run")
    };
    let (first, this) = (run(50, 1_000_000, false), run(50, 3_000_000, true));
    let failed = this.failed;
    let compared = compare(vec![first, this]);
    let of = |figure: &str| compared.worse.iter().find(|it| it.figure == figure);
    assert_eq!(
        of("ms a block, by the clock").map(|it| it.ratio.round()),
        Some(3.0),
        "{compared:?}"
    );
    assert_eq!(of("failed").map(|it| it.this), Some(failed as f64), "{compared:?}");
}

#[test]
fn what_a_run_did_not_say_is_no_change_and_a_rare_call_that_takes_long_is_one() {
    let silent = recording(&[]).summary("run");
    for runs in [
        vec![sampled("rss_bytes", [1, 9]), silent.clone()],
        vec![silent, sampled("rss_bytes", [1, 9])],
    ] {
        let compared = compare(runs);
        let is_of = |it: &&varvite_sight::trace::Change| it.of == "rss_bytes";
        assert!(
            !compared.worse.iter().chain(&compared.better).any(|it| is_of(&it)),
            "{compared:?}"
        );
    }
    // Two opened tables, of which the second run takes a hundred times as long to say that they have no key.
    let run = |ns: u64| {
        let times: Vec<u64> = (0..40).map(|it| it * ns).collect();
        let recording = recording(times.leak());
        let options = SessionOptions {
            recorder: Some(recording.recorder.clone()),
            ..SessionOptions::default()
        };
        let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
        let table = session.create_table("t", TableOptions::default()).unwrap();
        assert!(table.get(b"k").unwrap().is_none());
        drop(table);
        recording.summary("run")
    };
    let compared = compare(vec![run(1_000_000), run(100_000_000)]);
    let total = compared.worse.iter().find(|it| it.of == "get" && it.figure == "total ms");
    assert!(total.is_some_and(|it| it.ratio > 50.0), "{compared:?}");
    let all = compared.worse.iter().find(|it| it.of == "calls" && it.figure == "in all, ms");
    assert!(all.is_some(), "{compared:?}");
}

/// Five calls beside five thousand, and five short ones beside six long ones.
#[test]
fn rare_actions_are_compared_by_their_share_where_they_were_called_more_often() {
    let run = |opened: u64, ns: u64, gets: u64| {
        let times: Vec<u64> = (0..40_000).map(|it| it * ns).collect();
        let recording = recording(times.leak());
        let recorder = Some(recording.recorder.clone());
        let options = SessionOptions { recorder, ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
        recording.recorder.mark("a block");
        let table = session.create_table("t", TableOptions::default()).unwrap();
        for number in 1..opened {
            drop(session.create_table(&format!("t{number}"), TableOptions::default()).unwrap());
        }
        for _ in 0..gets {
            assert!(table.get(b"k").unwrap().is_none());
        }
        drop((table, session));
        recording.summary("run")
    };
    let compared = compare(vec![run(5, 1_000_000, 5), run(6, 100_000_000, 5_000)]);
    let find = |of: &str, figure: &str| {
        let found = compared.worse.iter().find(|it| it.of == of && it.figure == figure);
        found.unwrap_or_else(|| panic!("no {figure} of {of}: {compared:?}")).ratio
    };
    assert!(find("open_table", "mean µs") > 50.0 && find("open_table", "ms a block") > 50.0);
    assert!(find("get", "ms a block") > 500.0);
}

/// A run whose clock goes on by `load_ns` a reading as it loads, and by `block_ns` behind that.
fn loaded(load_ns: u64, blocks: u64, block_ns: u64) -> Summary {
    let traces = MemoryDisk::seeded(1);
    let (now, step) = (AtomicU64::new(0), Arc::new(AtomicU64::new(load_ns)));
    let own = Arc::clone(&step);
    let clock = move || now.fetch_add(own.load(Ordering::Relaxed), Ordering::Relaxed);
    let recorder = Recorder::create(&(Arc::clone(&traces) as Arc<dyn Disk>), "t", clock).unwrap();
    let options = Options { recorder: Some(recorder.clone()), ..Options::default() };
    let mut store = Store::create(MemoryDisk::seeded(2), options).unwrap();
    let mut tree = store.empty_tree();
    recorder.mark("load");
    tree.add(&["loaded"], b"1").unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    recorder.mark("blocks");
    step.store(block_ns, Ordering::Relaxed);
    for number in 0..blocks {
        tree.add(&["number"], &number.to_le_bytes()).unwrap();
        store.commit(&mut tree, &CommitInfo::default()).unwrap();
    }
    drop((tree, store));
    recorder.finish().unwrap();
    summarise(&mut Trace::open(&*traces, "t").unwrap(), "run").unwrap()
}

/// The same load before ten blocks and before a hundred that take as long each.
#[test]
fn what_a_load_took_is_no_time_of_blocks() {
    const MS: u64 = 1_000_000;
    let (few, many) = (loaded(500 * MS, 10, 2 * MS), loaded(500 * MS, 100, 2 * MS));
    let slow = loaded(500 * MS, 100, 6 * MS);
    let of = |runs: Vec<Summary>| {
        let compared = compare(runs);
        let all = compared.worse.iter().chain(&compared.better);
        let ratios = all.filter(|it| it.of == "commit" && it.figure == "ms a block");
        ratios.map(|it| it.ratio.round()).collect::<Vec<_>>()
    };
    assert!(of(vec![few.clone(), many.clone()]).is_empty());
    assert!(of(vec![many, few.clone()]).is_empty());
    assert_eq!(of(vec![few, slow]), [3.0]);
}

/// What is called within a fold is time of that, and is no share by itself.
#[test]
fn what_is_called_within_others_is_no_share_of_all_calls() {
    let run = |entries: u64| {
        let times: Vec<u64> = (0..40_000).map(|it| it * 1_000_000).collect();
        let recording = recording(times.leak());
        let options = Options { recorder: Some(recording.recorder.clone()), ..Options::default() };
        let store = Store::create(MemoryDisk::seeded(3), options).unwrap();
        let mut tree = store.empty_tree();
        for number in 0..entries {
            tree.add(&[number.to_string()], b"1").unwrap();
        }
        let own = tree.clone();
        let visit = |_: &[Vec<u8>], _: &Tree| own.mem(&["0"]).map(|_| ());
        tree.fold::<&str>(&[], None, Order::Sorted, visit).unwrap();
        drop((tree, own, store));
        recording.summary("run")
    };
    let compared = compare(vec![run(30), run(300)]);
    let all: Vec<_> = compared.worse.iter().chain(&compared.better).collect();
    let shares = all.iter().filter(|it| it.figure == "% of calls");
    assert!(shares.clone().all(|it| it.first <= 100.0 && it.this <= 100.0), "{all:?}");
    assert!(shares.clone().all(|it| it.of != "mem"), "{all:?}");
}

/// A run that commits beside one that cannot has not become faster.
#[test]
fn what_only_one_run_called_is_neither_faster_nor_slower() {
    let run = |name: &str, commits: bool| {
        let recording = recording(&[]);
        let options = Options { recorder: Some(recording.recorder.clone()), ..Options::default() };
        let mut store = Store::create(MemoryDisk::seeded(3), options).unwrap();
        let mut tree = store.empty_tree();
        tree.add(&["a"], b"1").unwrap();
        if commits {
            store.commit(&mut tree, &CommitInfo::default()).unwrap();
        } else {
            tree.length::<&str>(&[]).unwrap();
        }
        drop((tree, store));
        recording.summary(name)
    };
    let compared = compare(vec![run("writes", true), run("reads", false)]);
    let only: Vec<_> = compared.only.iter().map(|it| (it.action, it.is_first, it.calls)).collect();
    assert_eq!(only, [("commit", true, 1), ("length", false, 1)]);
    let named = |it: &&varvite_sight::trace::Change| it.of == "commit" || it.of == "length";
    assert!(!compared.worse.iter().chain(&compared.better).any(|it| named(&it)), "{compared:?}");
    assert!(comparison_page(&compared).contains("Called in one of two runs"));
}

#[test]
fn strangers_names_take_a_bounded_part_of_a_summary() {
    let recording = recording(&[]);
    let options =
        SessionOptions { recorder: Some(recording.recorder.clone()), ..SessionOptions::default() };
    let session = Session::create(MemoryDisk::seeded(2), options).unwrap();
    for name in 0..5_000 {
        recording.at(name).sample(&format!("{name}"), name);
    }
    recording.recorder.sample(&"long".repeat(1_000), 1);
    drop(session);
    let store = varvite::context::Options {
        recorder: Some(recording.recorder.clone()),
        ..varvite::context::Options::default()
    };
    let store = Store::create(MemoryDisk::seeded(3), store).unwrap();
    let mut tree = store.empty_tree();
    tree.add(&["ü".repeat(4_000).as_bytes(), b"\xff\xfe", b"x"], b"value").unwrap();
    drop(tree);
    let summary = recording.summary("run");
    assert!(summary.samples.len() <= 64, "{}", summary.samples.len());
    assert!(summary.samples.keys().all(|name| name.len() <= 150));
    assert!(summary.prefixes.iter().all(|row| row.prefix.len() <= 300), "{:?}", summary.prefixes);
}

#[test]
fn rates_are_of_the_part_of_the_time_that_they_are_drawn_at() {
    let recording = recording(&[]);
    for block in 0..240 {
        recording.at(block * 4_000_000).mark("block");
    }
    recording.at(100_000_000_000).mark("late");
    let summary = recording.summary("run");
    let width = summary.timeline[0].seconds;
    assert!(
        summary.timeline.iter().all(|it| (it.seconds - width).abs() < 1e-9)
            && (0.3..0.5).contains(&width)
    );
    let times = [|it: &varvite_sight::trace::summary::Point| (it.p90_ms, it.p99_ms, it.max_ms)];
    assert!(summary.timeline.iter().map(times[0]).all(|(p90, p99, max)| p90 <= p99 && p99 <= max));
}

/// Neither blocks nor what was measured of a run are nothing where the other has them.
#[test]
fn what_one_run_alone_says_is_compared_with_nothing() {
    let of_blocks = loaded(500, 20, 1_000_000);
    let without = recording(&[]).summary("none");
    let (reads, both) = (used("reads", 7), used("cpu_ns", 9));
    for (one, other) in [(of_blocks.clone(), without), (reads, both)] {
        for runs in [vec![one.clone(), other.clone()], vec![other, one]] {
            let compared = compare(runs);
            let all = compared.worse.iter().chain(&compared.better);
            let said = all.filter(|it| it.of == "blocks" || it.figure == "used");
            assert_eq!(said.map(|it| &it.of).collect::<Vec<_>>(), Vec::<&String>::new());
        }
    }
    let compared = compare(vec![used("reads", 7), used("reads", 70)]);
    assert!(compared.worse.iter().any(|it| it.of == "reads" && it.ratio > 9.9), "{compared:?}");
}

/// A run that says that it has used so much of `what`.
fn used(what: &str, amount: u64) -> Summary {
    let recording = recording(&[]);
    recording.at(0).sample(what, 100);
    recording.at(1_000_000).sample(what, 100 + amount);
    recording.summary(what)
}

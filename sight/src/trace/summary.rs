//! What a trace says by itself: how much was done, how long it took, by action, by prefix, and over time.

//!
//! What it keeps is bounded, whatever the trace has: a stranger's may be made to take much.

mod blocks;
mod series;
mod sums;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use serde::Serialize;
use varvite::Result;
use varvite::trace::{Action, Argument, Call, Face, Trace, TraceEnd};

use self::blocks::{Blocks, Ended};
use self::series::Series;
use self::sums::{Grid, Sums};
use super::by_block::{BlockTime, ByBlock};
use crate::text;
use crate::timings::Latency;

/// Points of a line over time.
const POINTS: usize = 240;

/// Prefixes that are told apart; the others are one.
const PREFIXES_MAX: usize = 200;

/// What a trace says.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// What the trace is called.
    pub name: String,
    /// Calls, as `actions` have them: without what the host said of itself, and what it let go of.
    pub calls: u64,
    /// Of them, those that failed.
    pub failed: u64,
    /// Bytes of the file, without what was cut.
    pub bytes: u64,
    /// Bytes of a frame that the recording did not end.
    pub cut_bytes: u64,
    /// Whether the recording came to its end; calls may be missing where it did not.
    pub is_ended: bool,
    /// From the begin of the recording to the end of its last call.
    pub seconds: f64,
    /// Time in calls that the host made.
    pub busy_seconds: f64,
    /// Calls a second.
    pub calls_per_second: f64,
    /// Commits of contexts, or what the host marked where there are none; without those under a mark `load`.
    pub blocks: u64,
    /// Whether they are commits.
    #[serde(skip)]
    pub has_commits: bool,
    /// Blocks a second, of the time that is under no mark `load`.
    pub blocks_per_second: f64,
    /// Transactions of these blocks; none where the host did not tell of any.
    pub transactions: Option<u64>,
    /// Transactions a second, of the same time as blocks.
    pub transactions_per_second: Option<f64>,
    /// Time in calls of a block.
    pub block_latency: Latency,
    /// Each action, that with the most time first.
    pub actions: Vec<Row>,
    /// Each action of each prefix of two steps, or of each table.
    pub prefixes: Vec<Row>,
    /// The slowest blocks.
    pub worst_blocks: Vec<BlockRow>,
    /// Blocks over time.
    pub timeline: Vec<Point>,
    /// Time by action of each block, or of several as one.
    pub block_times: Vec<BlockTime>,
    /// Time in calls that the host made, by action and over time.
    pub activity: Vec<Activity>,
    /// Calls of each action by how long they took, in decades.
    pub ranges: Vec<Range>,
    /// What the host measured, over time: seconds and value.
    pub samples: BTreeMap<String, Vec<(f64, u64)>>,
    /// For each action the shares of calls that took no longer than so many microseconds.
    pub distributions: BTreeMap<&'static str, Vec<(f64, f64)>>,
}

/// An action, of all prefixes or of one.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `context`, `table` or `host`.
    pub face: &'static str,
    /// What was called.
    pub action: &'static str,
    /// First steps of the paths, or the table's name; empty for all together.
    pub prefix: String,
    /// How often.
    pub calls: u64,
    /// Bytes of values and keys that it was given.
    pub bytes_given: u64,
    /// Bytes, or things, that were found.
    pub found: u64,
    /// Time of all calls.
    pub total_ms: f64,
    /// Of a call.
    pub latency: Latency,
}

/// One block.
#[derive(Clone, Debug, Serialize)]
pub struct BlockRow {
    /// Its commit's hash, or what the host called it.
    pub name: String,
    /// How many came before it.
    pub number: u64,
    /// When it ended.
    pub second: f64,
    /// Calls that the host made in it.
    pub calls: u64,
    /// Time in them.
    pub total_ms: f64,
    /// Time in its commit.
    pub commit_ms: f64,
}

/// What happened in a part of the time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Point {
    /// When the part began.
    pub second: f64,
    /// How long it is, as each of them.
    pub seconds: f64,
    /// Blocks that ended in it.
    pub blocks: u64,
    /// Calls of these.
    pub calls: u64,
    /// Transactions of these.
    pub transactions: u64,
    /// Time in calls of a block: the median.
    pub p50_ms: f64,
    /// Of ten blocks, one took longer.
    pub p90_ms: f64,
    /// Of a hundred blocks, one took longer.
    pub p99_ms: f64,
    /// The slowest.
    pub max_ms: f64,
}

/// Time in calls in a part of the time.
#[derive(Clone, Debug, Serialize)]
pub struct Activity {
    /// When the part began.
    pub second: f64,
    /// Time in each action.
    pub total_ms: BTreeMap<&'static str, f64>,
}

/// Calls of an action that took from a power of ten microseconds to the next.
#[derive(Clone, Debug, Serialize)]
pub struct Range {
    /// What was called.
    pub action: &'static str,
    /// The least time; 0 for what took less than a microsecond.
    pub from_us: u64,
    /// How many there were.
    pub calls: u64,
    /// Of one.
    pub mean_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Of all.
    pub total_ms: f64,
}

/// Adds up the calls of a trace.
#[derive(Clone, Debug)]
struct Adding {
    calls: u64,
    failed: u64,
    end_ns: u64,
    busy_ns: u64,
    actions: BTreeMap<Action, Sums>,
    prefixes: BTreeMap<(Action, String), Sums>,
    /// Names of tables that are open, as many as [`TABLES_MAX`], and of those that views and drafts are of.
    tables: BTreeMap<u64, Arc<str>>,
    /// Whether there were more.
    has_more_tables: bool,
    /// Those of commits, or of marks.
    blocks: [Blocks; 2],
    under_way: [Ended; 2],
    /// Whether there were commits, be they of a load.
    has_commits: bool,
    mark: Option<String>,
    /// Where the mark stands, and the time under marks of a load before it.
    marked_ns: u64,
    load_ns: u64,
    /// Of that, what was before the last block, of commits or of marks.
    load_before_ns: [u64; 2],
    samples: BTreeMap<String, Series>,
    /// Transactions that the host had told of last.
    transactions: Option<u64>,
    /// Of commits, or of marks.
    by_block: [ByBlock; 2],
    grid: Grid,
}

/// Open tables, views and drafts whose names are kept: a trace need not let go of any. Calls on others are under one prefix.
const TABLES_MAX: usize = 1 << 14;

/// What stands for prefixes that are not told apart.
const OTHERS: &str = "…";

/// Names of samples that are kept: those of a hostile trace could be any number.
const SAMPLED_NAMES_MAX: usize = 64;

/// Bytes of a step of a prefix, and of the name of a sample.
const NAME_BYTES: usize = 128;

/// The sample of how many transactions its blocks had so far.
pub(super) const TRANSACTIONS: &str = "transactions";

/// What a host marks that makes what its blocks begin with.
const LOAD: &str = "load";

impl Adding {
    /// Adds up all, and the blocks of these numbers each by itself.
    fn of(asked: std::ops::Range<u64>) -> Adding {
        Adding {
            calls: 0,
            failed: 0,
            end_ns: 0,
            busy_ns: 0,
            actions: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            tables: BTreeMap::new(),
            has_more_tables: false,
            blocks: [Blocks::new(), Blocks::new()],
            under_way: [Ended::default(); 2],
            has_commits: false,
            mark: None,
            marked_ns: 0,
            load_ns: 0,
            load_before_ns: [0; 2],
            samples: BTreeMap::new(),
            transactions: None,
            by_block: [ByBlock::new(asked.clone()), ByBlock::new(asked)],
            grid: Grid::new(),
        }
    }

    fn add(&mut self, call: &Call) {
        let end_ns = call.start_ns.saturating_add(call.duration_ns);
        self.end_ns = self.end_ns.max(end_ns);
        match (call.action, &call.arguments[..]) {
            (Action::Mark, [Argument::Bytes(name)]) => {
                let name = clipped(name);
                if let Some(before) = self.mark.replace(name) {
                    self.end_mark(end_ns, before);
                }
                self.marked_ns = end_ns;
                self.under_way[1] = Ended::default();
                self.by_block[1].forget();
                return;
            }
            (Action::Sample, [Argument::Bytes(name), Argument::Number(number)]) => {
                let (name, point) = (clipped(name), (call.start_ns as f64 / 1e9, *number));
                if name == TRANSACTIONS {
                    self.tell_transactions(*number);
                }
                let room = self.samples.len() < SAMPLED_NAMES_MAX;
                if room || self.samples.contains_key(&name) {
                    self.samples.entry(name).or_insert_with(|| Series::new(point)).add(point);
                }
                return;
            }
            (Action::Release, [Argument::Handle(handle)]) => {
                self.tables.remove(handle);
                return;
            }
            (Action::Release, _) => return,
            _ => {}
        }
        self.calls += 1;
        self.failed += u64::from(call.answer == varvite::trace::Answer::Failed);
        self.time(call);
        if call.depth == 0 {
            self.busy_ns = self.busy_ns.saturating_add(call.duration_ns);
            self.grid.add(call);
            for block in &mut self.under_way {
                block.calls = block.calls.saturating_add(1);
                block.total_ns = block.total_ns.saturating_add(call.duration_ns);
            }
            for blocks in &mut self.by_block {
                blocks.add(call.action, call.duration_ns);
            }
            if let (Action::Commit, varvite::trace::Answer::Hash(hash)) = (call.action, call.answer)
            {
                self.under_way[0].commit_ns = call.duration_ns;
                self.end_block(0, end_ns, varvite::context::hash::to_text(&hash));
            }
        }
    }

    /// Adds the transactions since the host told of them last; what it said first is where it began.
    fn tell_transactions(&mut self, number: u64) {
        if let Some(before) = self.transactions.replace(number) {
            for block in &mut self.under_way {
                let since = number.saturating_sub(before);
                block.transactions = block.transactions.saturating_add(since);
            }
        }
    }

    /// Counts a call with its action and its prefix.
    fn time(&mut self, call: &Call) {
        let given = call.arguments.iter().map(bytes_given).sum();
        let found = match call.answer {
            varvite::trace::Answer::Digest(Some(digest)) => digest.length,
            _ => 0,
        };
        self.actions.entry(call.action).or_insert_with(Sums::new).add(call, given, found);
        if let varvite::trace::Answer::Handle(handle) = call.answer
            && let Some(name) = self.table_of(call)
        {
            if self.tables.len() < TABLES_MAX {
                self.tables.insert(handle, name);
            } else {
                self.has_more_tables = true;
            }
        }
        let Some(prefix) = self.prefix(call) else { return };
        let key = (call.action, prefix);
        let room = self.prefixes.len() < PREFIXES_MAX || self.prefixes.contains_key(&key);
        let key = if room { key } else { (call.action, OTHERS.to_owned()) };
        self.prefixes.entry(key).or_insert_with(Sums::new).add(call, given, found);
    }

    /// The name of the table that `call` gives, or of that which the view or the draft that it gives is of.
    fn table_of(&self, call: &Call) -> Option<Arc<str>> {
        match (call.action, &call.arguments[..]) {
            (Action::OpenTable | Action::Duplicate, [.., Argument::Bytes(name)]) => {
                Some(clipped(name).into())
            }
            (Action::View | Action::Draft, [Argument::Handle(of)]) => self.tables.get(of).cloned(),
            _ => None,
        }
    }

    fn prefix(&self, call: &Call) -> Option<String> {
        let path = call.arguments.iter().find_map(|argument| match argument {
            Argument::Path(path) => Some(path),
            _ => None,
        });
        if let Some(path) = path {
            let steps = path.iter().take(2).map(|it| clipped(it).replace('/', "\\x2f"));
            return Some(text::joined(steps));
        }
        match &call.arguments[..] {
            [Argument::Handle(handle), ..] if call.action.face() == Face::Table => {
                let name = self.tables.get(handle).map(|name| (**name).to_owned());
                // What has no name may be one that was not kept.
                name.or_else(|| self.has_more_tables.then(|| OTHERS.to_owned()))
            }
            _ => None,
        }
    }

    /// Ends what stood under a mark.
    fn end_mark(&mut self, end_ns: u64, name: String) {
        if name == LOAD {
            self.under_way[0] = Ended::default();
            self.by_block[0].forget();
            let took_ns = end_ns.saturating_sub(self.marked_ns);
            self.load_ns = self.load_ns.saturating_add(took_ns);
        }
        self.end_block(1, end_ns, name);
    }

    fn end_block(&mut self, kind: usize, end_ns: u64, name: String) {
        let ended = Ended { end_ns, ..std::mem::take(&mut self.under_way[kind]) };
        self.has_commits |= kind == 0;
        let is_load = if kind == 0 { self.mark.as_deref() == Some(LOAD) } else { name == LOAD };
        if is_load {
            self.by_block[kind].forget();
            return;
        }
        self.by_block[kind].end(&name, end_ns, ended.total_ns, ended.transactions);
        self.load_before_ns[kind] = self.load_ns;
        self.blocks[kind].add(ended, name);
    }

    fn summary(mut self, name: &str, end: TraceEnd) -> Summary {
        if let Some(mark) = self.mark.take() {
            self.end_mark(self.end_ns, mark);
        }
        let kind = usize::from(!self.has_commits);
        let blocks = &self.blocks[kind];
        let seconds = self.end_ns as f64 / 1e9;
        let per =
            |count: u64, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        // What is done behind the last block is no time of blocks.
        let loaded_ns = blocks.last_ns().saturating_sub(self.load_before_ns[kind]);
        let loaded_seconds = loaded_ns as f64 / 1e9;
        let transactions = self.transactions.map(|_| blocks.transactions());
        let rows = |mut rows: Vec<Row>| {
            rows.sort_by(|left, right| right.total_ms.total_cmp(&left.total_ms));
            rows
        };
        Summary {
            name: name.to_owned(),
            calls: self.calls,
            failed: self.failed,
            bytes: end.bytes,
            cut_bytes: end.cut_bytes,
            is_ended: end.is_ended,
            seconds,
            busy_seconds: self.busy_ns as f64 / 1e9,
            calls_per_second: per(self.calls, seconds),
            blocks: blocks.count(),
            has_commits: self.has_commits,
            blocks_per_second: per(blocks.count(), loaded_seconds),
            transactions,
            transactions_per_second: transactions.map(|it| per(it, loaded_seconds)),
            block_latency: blocks.latency(),
            actions: rows(self.actions.iter().map(|(action, it)| it.row(*action, "")).collect()),
            prefixes: rows(
                self.prefixes
                    .iter()
                    .map(|((action, prefix), it)| it.row(*action, prefix))
                    .collect(),
            ),
            worst_blocks: blocks.worst(),
            timeline: blocks.timeline(self.end_ns),
            block_times: self.by_block.into_iter().nth(kind).map_or(Vec::new(), ByBlock::points),
            activity: self.grid.activity(),
            ranges: self.actions.iter().flat_map(|(action, it)| it.ranges(*action)).collect(),
            samples: self.samples.into_iter().map(|(name, all)| (name, all.points())).collect(),
            distributions: self
                .actions
                .iter()
                .map(|(action, it)| (action.name(), it.distribution()))
                .collect(),
        }
    }
}

/// A name as it is shown: of a long one its begin, and of what is no text its bytes.
fn clipped(name: &[u8]) -> String {
    text::clipped(name, NAME_BYTES)
}

fn bytes_given(argument: &Argument) -> u64 {
    use varvite::trace::KeyUpdate;
    let bytes = match argument {
        Argument::Bytes(bytes) => bytes.len(),
        Argument::Keys(keys) => keys.iter().map(Vec::len).sum(),
        Argument::Range(lower, upper) => {
            let length = |bound: &Bound<Vec<u8>>| match bound {
                Bound::Included(key) | Bound::Excluded(key) => key.len(),
                Bound::Unbounded => 0,
            };
            length(lower) + length(upper)
        }
        Argument::Entries(entries) => entries.iter().map(|(_, value)| value.len()).sum(),
        Argument::Updates(updates) => updates
            .iter()
            .map(|update| match update {
                KeyUpdate::Insert(key, value) | KeyUpdate::Upsert(key, value) => {
                    key.len() + value.len()
                }
                KeyUpdate::Delete(key) | KeyUpdate::Large(key) => key.len(),
                KeyUpdate::DeleteRange(..) => 0,
            })
            .sum(),
        _ => 0,
    };
    bytes as u64
}

/// Reads a trace to its end and adds it up; `name` is what it is called.
pub fn summarise(trace: &mut Trace, name: &str) -> Result<Summary> {
    let mut summing = Summing::default();
    summing.read(trace)?;
    Ok(summing.0.summary(name, trace.end()))
}

/// The sum of a trace that may go on: what was read of it is not read again.
#[derive(Debug)]
pub struct Summing(Adding);

impl Default for Summing {
    fn default() -> Summing {
        Summing(Adding::of(0..u64::MAX))
    }
}

impl Summing {
    /// Adds what the trace has from where it was read last up to its end.
    pub fn read(&mut self, trace: &mut Trace) -> Result<()> {
        while let Some(call) = trace.next_call()? {
            self.0.add(&call);
        }
        Ok(())
    }

    /// The sum of what was read, up to `end`; `name` is what the trace is called.
    #[must_use]
    pub fn summary(&self, name: &str, end: TraceEnd) -> Summary {
        self.0.clone().summary(name, end)
    }
}

/// Reads a trace for the blocks from one number to before another, each by itself where they are few enough. `has_commits` is
/// the [summary](Summary::has_commits)'s. Ends early where `goes_on` says no, and says whether it did: without the block
/// that it came to.
pub fn blocks_between(
    trace: &mut Trace,
    has_commits: bool,
    asked: std::ops::Range<u64>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<(Vec<BlockTime>, bool)> {
    let (mut adding, kind) = (Adding::of(asked), usize::from(!has_commits));
    let (mut calls, mut is_cut): (u64, _) = (0, false);
    while let Some(call) = trace.next_call()? {
        adding.add(&call);
        calls += 1;
        is_cut = calls.is_multiple_of(4_096) && !goes_on();
        if is_cut || adding.by_block[kind].is_full() {
            break;
        }
    }
    // The last mark ends with the trace.
    if !is_cut && let Some(mark) = adding.mark.take() {
        adding.end_mark(adding.end_ns, mark);
    }
    let [commits, marks] = adding.by_block;
    Ok((if has_commits { commits } else { marks }.points(), is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(start_ns: u64, duration_ns: u64, action: Action) -> Call {
        let answer = varvite::trace::Answer::Nothing;
        Call { action, start_ns, duration_ns, thread: 0, depth: 0, arguments: Vec::new(), answer }
    }

    /// However many blocks and tables a trace has, no more of them are kept.
    #[test]
    fn what_a_hostile_trace_makes_it_keep_is_bounded() {
        let mut adding = Adding::of(0..u64::MAX);
        let (marks, mut end_ns) = (200_000, 0);
        for number in 0..marks {
            let mut mark = call(number * 1_000, 100, Action::Mark);
            mark.arguments = vec![Argument::Bytes(Vec::new())];
            end_ns = mark.start_ns + mark.duration_ns;
            adding.add(&mark);
            let mut open = call(number * 1_000 + 200, number % 100, Action::OpenTable);
            open.arguments = vec![Argument::Bytes(number.to_string().into_bytes())];
            open.answer = varvite::trace::Answer::Handle(number + 1);
            adding.add(&open);
        }
        let mut get = call(end_ns, 7, Action::Get);
        get.arguments = vec![Argument::Handle(marks), Argument::Bytes(Vec::new())];
        adding.add(&get);
        assert_eq!(adding.tables.len(), TABLES_MAX);
        let (few, parts) = adding.blocks[1].kept();
        assert!(few == 0 && parts <= POINTS, "{few} blocks and {parts} parts");
        let summary = adding.summary("it", TraceEnd::default());
        assert_eq!(summary.blocks, marks);
        assert!(summary.timeline.len() <= POINTS);
        assert_eq!(summary.timeline.iter().map(|it| it.blocks).sum::<u64>(), marks);
        assert_eq!(summary.timeline.iter().map(|it| it.calls).sum::<u64>(), summary.calls);
        assert!(summary.timeline.iter().all(|it| it.p50_ms <= it.p99_ms && it.max_ms <= 0.0002));
        assert_eq!(summary.actions.iter().map(|it| it.calls).sum::<u64>(), marks + 1);
        // One that is open and not known is among the others.
        assert!(summary.prefixes.iter().any(|it| it.action == "get" && it.prefix == OTHERS));
    }

    #[test]
    fn calls_are_told_apart_by_decade_and_over_time() {
        let mut adding = Adding::of(0..u64::MAX);
        // Ends far later than it began: the parts of the time have doubled often, and nothing was lost.
        let durations = [0, 999, 1_000, 9_999, 10_000, 2_000_000_000, 400_000_000_000];
        for (at, duration) in (0..).zip(durations) {
            adding.add(&call(at * 1_000_000_000, duration, Action::Find));
        }
        adding.add(&call(3_000_000, 5_000, Action::Mem));
        let end = TraceEnd::default();
        let summary = adding.summary("it", end);
        let finds = summary.ranges.iter().filter(|range| range.action == Action::Find.name());
        let finds: Vec<_> = finds.map(|it| (it.from_us, it.calls)).collect();
        assert_eq!(finds, [(0, 2), (1, 2), (10, 1), (1_000_000, 1), (100_000_000, 1)]);
        assert!(summary.activity.len() <= POINTS);
        let sum =
            |name| summary.activity.iter().filter_map(|it| it.total_ms.get(name)).sum::<f64>();
        let all: u64 = durations.iter().sum();
        assert!((sum(Action::Find.name()) - all as f64 / 1e6).abs() < 1e-3);
        assert!((sum(Action::Mem.name()) - 0.005).abs() < 1e-9);
    }
}

//! What a trace says by itself: how much was done, how long it took, by action, by prefix, and over time.

use std::collections::BTreeMap;
use std::ops::Bound;

use hdrhistogram::Histogram;
use serde::Serialize;
use varvite::Result;
use varvite::trace::{Action, Argument, Call, Face, Trace, TraceEnd};

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

/// Decades from less than a microsecond to a hundred seconds and more.
const DECADES: usize = 10;

/// Calls, their time, and the longest, by decade.
type Decades = [(u64, u64, u64); DECADES];

fn decade(duration_ns: u64) -> usize {
    let us = duration_ns / 1_000;
    us.checked_ilog10().map_or(0, |it| it as usize + 1).min(DECADES - 1)
}

/// Time in calls by action, in parts of the time that double when there would be too many.
#[derive(Clone, Debug)]
struct Grid {
    width_ns: u64,
    parts: Vec<BTreeMap<Action, u64>>,
}

impl Grid {
    fn add(&mut self, call: &Call) {
        while call.start_ns / self.width_ns >= POINTS as u64 {
            let parts = std::mem::take(&mut self.parts);
            for pair in parts.chunks(2) {
                let mut joined = BTreeMap::new();
                for (action, ns) in pair.iter().flatten() {
                    let sum: &mut u64 = joined.entry(*action).or_default();
                    *sum = sum.saturating_add(*ns);
                }
                self.parts.push(joined);
            }
            let Some(width_ns) = self.width_ns.checked_mul(2) else { return };
            self.width_ns = width_ns;
        }
        let part = (call.start_ns / self.width_ns) as usize;
        if self.parts.len() <= part {
            self.parts.resize_with(part + 1, BTreeMap::new);
        }
        let sum = self.parts[part].entry(call.action).or_default();
        *sum = sum.saturating_add(call.duration_ns);
    }

    fn activity(&self) -> Vec<Activity> {
        let parts = self.parts.iter().enumerate().map(|(part, actions)| Activity {
            second: (part as u64 * self.width_ns) as f64 / 1e9,
            total_ms: actions.iter().map(|(it, ns)| (it.name(), *ns as f64 / 1e6)).collect(),
        });
        parts.collect()
    }
}

#[derive(Clone, Debug)]
struct Sums {
    total_ns: u64,
    bytes_given: u64,
    found: u64,
    durations: Histogram<u32>,
    decades: Decades,
}

impl Sums {
    fn new() -> Sums {
        let durations = Histogram::new(2).expect("two digits are a precision that there is");
        Sums { total_ns: 0, bytes_given: 0, found: 0, durations, decades: Decades::default() }
    }

    fn add(&mut self, call: &Call, given: u64, found: u64) {
        self.total_ns = self.total_ns.saturating_add(call.duration_ns);
        self.bytes_given += given;
        self.found = self.found.saturating_add(found);
        record(&mut self.durations, call.duration_ns);
        let (calls, total_ns, max_ns) = &mut self.decades[decade(call.duration_ns)];
        *calls += 1;
        *total_ns = total_ns.saturating_add(call.duration_ns);
        *max_ns = call.duration_ns.max(*max_ns);
    }

    /// A class of the histogram holds no more than 32 bits.
    fn calls(&self) -> u64 {
        self.decades.iter().map(|(calls, ..)| calls).sum()
    }

    fn longest_ns(&self) -> u64 {
        self.decades.iter().map(|(.., max_ns)| *max_ns).max().unwrap_or(0)
    }

    fn ranges(&self, action: Action) -> impl Iterator<Item = Range> {
        let filled = self.decades.iter().enumerate().filter(|(_, (calls, ..))| *calls > 0);
        filled.map(move |(at, (calls, total_ns, max_ns))| Range {
            action: action.name(),
            from_us: if at == 0 { 0 } else { 10_u64.pow(at as u32 - 1) },
            calls: *calls,
            mean_us: *total_ns as f64 / 1e3 / *calls as f64,
            max_us: *max_ns as f64 / 1e3,
            total_ms: *total_ns as f64 / 1e6,
        })
    }

    fn row(&self, action: Action, prefix: &str) -> Row {
        Row {
            face: match action.face() {
                Face::Host => "host",
                Face::Context => "context",
                Face::Table => "table",
            },
            action: action.name(),
            prefix: prefix.to_owned(),
            calls: self.calls(),
            bytes_given: self.bytes_given,
            found: self.found,
            total_ms: self.total_ns as f64 / 1e6,
            latency: Latency::of(&self.durations, self.calls(), self.total_ns, self.longest_ns()),
        }
    }
}

/// Adds a duration, a day at most: what is longer is no duration.
fn record(durations: &mut Histogram<u32>, duration_ns: u64) {
    let _ = durations.record(duration_ns.min(86_400_000_000_000));
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    end_ns: u64,
    calls: u32,
    total_ns: u64,
    commit_ns: u64,
    transactions: u64,
}

const NOTHING: Ended = Ended { end_ns: 0, calls: 0, total_ns: 0, commit_ns: 0, transactions: 0 };

/// Adds up the calls of a trace.
#[derive(Clone, Debug)]
struct Adding {
    calls: u64,
    failed: u64,
    end_ns: u64,
    busy_ns: u64,
    actions: BTreeMap<Action, Sums>,
    prefixes: BTreeMap<(Action, String), Sums>,
    tables: BTreeMap<u64, String>,
    /// Those of commits, or of marks.
    commits: Vec<Ended>,
    marks: Vec<Ended>,
    names: [Vec<(u64, u64, String)>; 2],
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

/// Slowest blocks that are kept by name.
const WORST: usize = 16;

/// Names of samples that are kept: those of a hostile trace could be any number.
const SAMPLED_NAMES_MAX: usize = 64;

/// Bytes of a step of a prefix, and of the name of a sample.
const NAME_BYTES: usize = 128;

/// The sample of how many transactions its blocks had so far.
pub(super) const TRANSACTIONS: &str = "transactions";

/// What a host marks that makes what its blocks begin with.
const LOAD: &str = "load";

/// Samples of one name: each stands for as many, which double when there would be too many points. It is the largest of
/// them, so that no peak is lost; where a number only grows it is the last one.
#[derive(Clone, Debug)]
struct Series {
    first: (f64, u64),
    last: (f64, u64),
    seen: u64,
    width: u64,
    points: Vec<(f64, u64)>,
}

impl Series {
    fn new(first: (f64, u64)) -> Series {
        Series { first, last: first, seen: 0, width: 1, points: Vec::new() }
    }

    fn add(&mut self, point: (f64, u64)) {
        let larger =
            |one: (f64, u64), other: (f64, u64)| if other.1 >= one.1 { other } else { one };
        self.last = point;
        if self.seen.is_multiple_of(self.width) {
            if self.points.len() == 2 * POINTS {
                let pairs = self.points.chunks(2);
                self.points = pairs.map(|pair| larger(pair[0], pair[pair.len() - 1])).collect();
                self.width *= 2;
            }
            self.points.push(point);
        } else if let Some(end) = self.points.last_mut() {
            *end = larger(*end, point);
        }
        self.seen += 1;
    }

    /// The first, the largest of each part, and the last.
    fn points(self) -> Vec<(f64, u64)> {
        let mut points = vec![self.first];
        points.extend(self.points.into_iter().filter(|point| *point != self.first));
        if points[points.len() - 1] != self.last {
            points.push(self.last);
        }
        points
    }
}

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
            commits: Vec::new(),
            marks: Vec::new(),
            names: [Vec::new(), Vec::new()],
            under_way: [NOTHING; 2],
            has_commits: false,
            mark: None,
            marked_ns: 0,
            load_ns: 0,
            load_before_ns: [0; 2],
            samples: BTreeMap::new(),
            transactions: None,
            by_block: [ByBlock::new(asked.clone()), ByBlock::new(asked)],
            grid: Grid { width_ns: 1_000_000, parts: Vec::new() },
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
                self.under_way[1] = NOTHING;
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
                block.calls += 1;
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
        if let (Action::OpenTable, varvite::trace::Answer::Handle(handle)) =
            (call.action, call.answer)
            && let [Argument::Bytes(name)] = &call.arguments[..]
        {
            self.tables.insert(handle, clipped(name));
        }
        let Some(prefix) = self.prefix(call) else { return };
        let key = (call.action, prefix);
        let room = self.prefixes.len() < PREFIXES_MAX || self.prefixes.contains_key(&key);
        let key = if room { key } else { (call.action, "…".to_owned()) };
        self.prefixes.entry(key).or_insert_with(Sums::new).add(call, given, found);
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
                self.tables.get(handle).cloned()
            }
            _ => None,
        }
    }

    /// Ends what stood under a mark.
    fn end_mark(&mut self, end_ns: u64, name: String) {
        if name == LOAD {
            self.under_way[0] = NOTHING;
            self.by_block[0].forget();
            let took_ns = end_ns.saturating_sub(self.marked_ns);
            self.load_ns = self.load_ns.saturating_add(took_ns);
        }
        self.end_block(1, end_ns, name);
    }

    fn end_block(&mut self, kind: usize, end_ns: u64, name: String) {
        let ended = Ended { end_ns, ..std::mem::replace(&mut self.under_way[kind], NOTHING) };
        self.has_commits |= kind == 0;
        let is_load = if kind == 0 { self.mark.as_deref() == Some(LOAD) } else { name == LOAD };
        if is_load {
            self.by_block[kind].forget();
            return;
        }
        self.by_block[kind].end(&name, end_ns, ended.total_ns, ended.transactions);
        let blocks = if kind == 0 { &mut self.commits } else { &mut self.marks };
        self.load_before_ns[kind] = self.load_ns;
        let (number, names) = (blocks.len() as u64, &mut self.names[kind]);
        blocks.push(ended);
        let at = names.partition_point(|(total_ns, ..)| *total_ns >= ended.total_ns);
        if at < WORST {
            names.truncate(WORST - 1);
            names.insert(at, (ended.total_ns, number, name));
        }
    }

    fn summary(mut self, name: &str, end: TraceEnd) -> Summary {
        if let Some(mark) = self.mark.take() {
            self.end_mark(self.end_ns, mark);
        }
        let kind = usize::from(!self.has_commits);
        let blocks = if kind == 0 { &self.commits } else { &self.marks };
        let seconds = self.end_ns as f64 / 1e9;
        let per =
            |count: usize, seconds: f64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        // What is done behind the last block is no time of blocks.
        let last_ns = blocks.last().map_or(0, |block| block.end_ns);
        let loaded_seconds = last_ns.saturating_sub(self.load_before_ns[kind]) as f64 / 1e9;
        let transactions = self
            .transactions
            .map(|_| blocks.iter().fold(0, |sum: u64, it| sum.saturating_add(it.transactions)));
        let mut durations = Sums::new().durations;
        let mut total_ns: u64 = 0;
        for block in blocks {
            total_ns = total_ns.saturating_add(block.total_ns);
            record(&mut durations, block.total_ns);
        }
        let longest_ns = blocks.iter().map(|block| block.total_ns).max().unwrap_or(0);
        let rows = |mut rows: Vec<Row>| {
            rows.sort_by(|left, right| right.total_ms.total_cmp(&left.total_ms));
            rows
        };
        let worst = self.names[kind].iter().map(|(_, number, name)| {
            let block = blocks[*number as usize];
            BlockRow {
                name: name.clone(),
                number: *number,
                second: block.end_ns as f64 / 1e9,
                calls: block.calls.into(),
                total_ms: block.total_ns as f64 / 1e6,
                commit_ms: block.commit_ns as f64 / 1e6,
            }
        });
        Summary {
            name: name.to_owned(),
            calls: self.calls,
            failed: self.failed,
            bytes: end.bytes,
            cut_bytes: end.cut_bytes,
            is_ended: end.is_ended,
            seconds,
            busy_seconds: self.busy_ns as f64 / 1e9,
            calls_per_second: per(self.calls as usize, seconds),
            blocks: blocks.len() as u64,
            has_commits: self.has_commits,
            blocks_per_second: per(blocks.len(), loaded_seconds),
            transactions,
            transactions_per_second: transactions.map(|it| per(it as usize, loaded_seconds)),
            block_latency: Latency::of(&durations, blocks.len() as u64, total_ns, longest_ns),
            actions: rows(self.actions.iter().map(|(action, it)| it.row(*action, "")).collect()),
            prefixes: rows(
                self.prefixes
                    .iter()
                    .map(|((action, prefix), it)| it.row(*action, prefix))
                    .collect(),
            ),
            worst_blocks: worst.collect(),
            timeline: timeline(blocks, self.end_ns),
            block_times: self.by_block.into_iter().nth(kind).map_or(Vec::new(), ByBlock::points),
            activity: self.grid.activity(),
            ranges: self.actions.iter().flat_map(|(action, it)| it.ranges(*action)).collect(),
            samples: self.samples.into_iter().map(|(name, all)| (name, all.points())).collect(),
            distributions: self
                .actions
                .iter()
                .map(|(action, it)| (action.name(), distribution(&it.durations, it.longest_ns())))
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

fn timeline(blocks: &[Ended], end_ns: u64) -> Vec<Point> {
    let parts = POINTS.min(blocks.len());
    if parts == 0 {
        return Vec::new();
    }
    let width = (end_ns / parts as u64).saturating_add(1);
    let mut durations: Vec<Vec<u64>> = vec![Vec::new(); parts];
    let (mut calls, mut transactions) = (vec![0; parts], vec![0_u64; parts]);
    for block in blocks {
        let part = ((block.end_ns / width) as usize).min(parts - 1);
        durations[part].push(block.total_ns);
        calls[part] += u64::from(block.calls);
        transactions[part] = transactions[part].saturating_add(block.transactions);
    }
    let points = durations.into_iter().zip(calls.into_iter().zip(transactions)).enumerate();
    points
        .filter(|(_, (durations, _))| !durations.is_empty())
        .map(|(part, (mut durations, (calls, transactions)))| {
            durations.sort_unstable();
            let at = |share: f64| {
                let rank = (share * durations.len() as f64).ceil() as usize;
                durations[rank.clamp(1, durations.len()) - 1] as f64 / 1e6
            };
            Point {
                second: part as f64 * width as f64 / 1e9,
                seconds: width as f64 / 1e9,
                blocks: durations.len() as u64,
                calls,
                transactions,
                p50_ms: at(0.5),
                p90_ms: at(0.9),
                p99_ms: at(0.99),
                max_ms: at(1.0),
            }
        })
        .collect()
}

/// Steps of a distribution, none above the longest: its class ends behind that.
fn distribution(durations: &Histogram<u32>, longest_ns: u64) -> Vec<(f64, f64)> {
    let shares = [
        0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995,
        0.998, 0.999, 0.9999, 1.0,
    ];
    let at = |share: f64| {
        let bound_ns = durations.value_at_quantile(share).min(longest_ns);
        (bound_ns as f64 / 1e3, share)
    };
    shares.into_iter().map(at).collect()
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

//! What was told, as plain data: to print, to serialise, to lay beside another.

use hdrhistogram::{Counter, Histogram};
use serde::Serialize;

use super::Face;
use super::blocks::{Blocks, Timed};
use super::series::{ActionId, Series, Sums};

/// All that a [`super::Timings`] was told.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Each action of all prefixes together, that with the most time first; `prefix` is empty.
    pub totals: Vec<Action>,
    /// Each action of each prefix, that with the most time first.
    pub actions: Vec<Action>,
    /// Blocks that ended.
    pub blocks: u64,
    /// Those of them whose actions took longest together, the slowest first.
    pub worst_blocks: Vec<Block>,
}

/// One action, of one prefix or of all.
#[derive(Clone, Debug, Serialize)]
pub struct Action {
    /// `context` or `table`.
    pub face: &'static str,
    /// What was done, as `find_tree`.
    pub action: String,
    /// First steps of the paths, as [`crate::text::path`] shows them, or the name of a table.
    pub prefix: String,
    /// How often.
    pub calls: u64,
    /// Keys, operations or bytes that a table's action was on; of a context as many as calls.
    pub things: u64,
    /// Time of all calls.
    pub total_ms: f64,
    /// Of a call.
    pub latency: Latency,
    /// Bytes read from files. Where several threads use one store at once each operation counts what all of them did
    /// meanwhile, and one within another counts in both: these costs are then no sums.
    pub bytes_read: u64,
    /// Bytes handed to the disk.
    pub bytes_written: u64,
    /// Directory pieces and pages found in memory.
    pub cache_hits: u64,
    /// Pages that were read.
    pub reads: u64,
    /// Time in syncs.
    pub sync_ms: f64,
}

/// How long calls took, in microseconds; each figure within a hundredth.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: f64,
    /// Of ten calls, one took longer.
    pub p90_us: f64,
    /// Of a hundred.
    pub p99_us: f64,
    /// Of a thousand.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// One block.
#[derive(Clone, Debug, Serialize)]
pub struct Block {
    /// Its commit's hash, or what the host called it.
    pub name: String,
    /// How many blocks ended before it.
    pub number: u64,
    /// Time of its actions together, by which blocks are compared.
    pub total_ms: f64,
    /// What of it was what, the most time first.
    pub actions: Vec<BlockAction>,
}

/// One action of a block.
#[derive(Clone, Debug, Serialize)]
pub struct BlockAction {
    /// What was done.
    pub action: String,
    /// How often.
    pub calls: u64,
    /// Time of all calls.
    pub total_ms: f64,
}

fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

impl Latency {
    /// Of so many calls, which took `total_ns` together and `longest_ns` at most, by their `durations` in nanoseconds.
    #[must_use]
    pub fn of(
        durations: &Histogram<impl Counter>,
        calls: u64,
        total_ns: u64,
        longest_ns: u64,
    ) -> Latency {
        // A class has a length, and no call took longer than the longest.
        let at = |share| durations.value_at_quantile(share).min(longest_ns) as f64 / 1e3;
        Latency {
            mean_us: total_ns as f64 / 1e3 / calls.max(1) as f64,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: longest_ns as f64 / 1e3,
        }
    }
}

impl Report {
    pub(super) fn of(series: &Series, blocks: &Blocks) -> Report {
        let mut actions: Vec<Action> =
            series.all().iter().map(|sums| Action::of(&[sums], series.text(sums.prefix))).collect();
        let mut groups: std::collections::BTreeMap<ActionId, Vec<&Sums>> =
            std::collections::BTreeMap::new();
        for sums in series.all() {
            groups.entry(sums.action).or_default().push(sums);
        }
        let mut totals: Vec<Action> =
            groups.values().map(|sums| Action::of(sums, String::new())).collect();
        for list in [&mut actions, &mut totals] {
            list.sort_by(|left, right| right.total_ms.total_cmp(&left.total_ms));
        }
        let (ended, worst) = blocks.ended();
        Report {
            totals,
            actions,
            blocks: ended,
            worst_blocks: worst.iter().map(Block::of).collect(),
        }
    }
}

impl Action {
    fn of(all: &[&Sums], prefix: String) -> Action {
        let id = all[0].action;
        let mut durations = Histogram::new(2).expect("two digits are a precision that there is");
        for sums in all {
            sums.durations.add_to(&mut durations);
        }
        let sum =
            |of: fn(&Sums) -> u64| all.iter().map(|sums| of(sums)).fold(0, u64::saturating_add);
        let (calls, total_ns) = (sum(|sums| sums.durations.told()), sum(|sums| sums.total_ns));
        let longest_ns = all.iter().map(|sums| sums.durations.longest_ns()).max();
        Action {
            face: match id.face() {
                Face::Context => "context",
                Face::Table => "table",
            },
            action: id.name(),
            prefix,
            calls,
            things: sum(|sums| sums.things),
            total_ms: ms(total_ns),
            latency: Latency::of(&durations, calls, total_ns, longest_ns.unwrap_or(0)),
            bytes_read: sum(|sums| sums.cost.bytes_read),
            bytes_written: sum(|sums| sums.cost.bytes_written),
            cache_hits: sum(|sums| sums.cost.cache_hits),
            reads: sum(|sums| sums.cost.reads),
            sync_ms: ms(sum(|sums| sums.cost.sync_ns)),
        }
    }
}

impl Block {
    fn of(timed: &Timed) -> Block {
        let mut actions: Vec<BlockAction> = timed
            .actions
            .iter()
            .enumerate()
            .filter(|(_, (calls, _))| *calls > 0)
            .map(|(index, (calls, total_ns))| BlockAction {
                action: ActionId::at(index).name(),
                calls: *calls,
                total_ms: ms(*total_ns),
            })
            .collect();
        actions.sort_by(|left, right| right.total_ms.total_cmp(&left.total_ms));
        let (name, number) = (timed.name.clone(), timed.number);
        Block { name, number, total_ms: ms(timed.total_ns), actions }
    }
}

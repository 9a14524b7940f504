//! Timings: counts, costs and percentiles of every action by prefix, and the slowest blocks by name.
//!
//! One [`Timings`] observes any number of contexts and sessions. A prefix is the first steps of a path, or
//! the name of a table. What it holds is bounded by [`Limits`]: actions of a prefix that comes when there are
//! as many as may be count with the prefix of one step, or with none.

mod blocks;
mod durations;
mod report;
mod series;

use std::sync::{Mutex, MutexGuard, PoisonError};

use varvite::context::{self, CommitHash};

use blocks::Blocks;
pub use report::{Action, Block, Latency, Report};
use series::{Cost, Series};

/// What a [`Timings`] tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// First steps of a path that are told apart; at most [`context::PREFIX_STEPS`], which counts for more.
    pub depth: usize,
    /// Prefixes that are told apart; at most [`Limits::PREFIXES_MAX`], which counts for more. An action of a prefix takes 1
    /// to 21 KB.
    pub prefixes: usize,
    /// Slowest blocks that are kept.
    pub worst_blocks: usize,
}

impl Limits {
    /// Prefixes that are told apart at most.
    pub const PREFIXES_MAX: usize = 1_000;
}

impl Default for Limits {
    /// Two steps, 64 prefixes, 16 blocks.
    fn default() -> Limits {
        Limits { depth: 2, prefixes: 64, worst_blocks: 16 }
    }
}

/// Which face an action is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Face {
    /// `varvite::context`
    Context,
    /// `varvite::table`
    Table,
}

#[derive(Clone)]
struct State {
    series: Series,
    blocks: Blocks,
}

/// An observer of contexts and sessions that adds up what it is told, by a clock of the host's.
///
/// Telling it takes some tens of nanoseconds and a lock; [`Timings::report`] sorts all that is there.
///
/// ```
/// use std::sync::Arc;
/// use varvite::context::{CommitInfo, Options, Store};
/// use varvite::disk::memory::MemoryDisk;
/// use varvite_sight::{Clock, Limits, Timings};
///
/// let clock = Clock::new();
/// let timings = Timings::new(move || clock.now_ns(), Limits::default());
/// let options = Options { observer: Some(timings.clone()), ..Options::default() };
/// let mut store = Store::create(MemoryDisk::seeded(1), options)?;
/// let mut tree = store.empty_tree();
/// tree.add(&["data", "contracts", "alice"], b"5")?;
/// let block = store.commit(&mut tree, &CommitInfo::default())?;
///
/// let report = timings.report();
/// let add = &report.actions.iter().find(|it| it.action == "add").expect("there was one");
/// assert_eq!((add.prefix.as_str(), add.calls), ("data/contracts", 1));
/// assert_eq!(report.worst_blocks[0].name, varvite::context::hash::to_text(&block));
/// # Ok::<(), varvite::Error>(())
/// ```
pub struct Timings<C> {
    clock: C,
    depth: usize,
    state: Mutex<State>,
}

impl<C> std::fmt::Debug for Timings<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Timings({} steps)", self.depth)
    }
}

impl<C: Fn() -> u64 + Send + Sync> Timings<C> {
    /// An observer with `clock`, which gives nanoseconds from any fixed point, as [`crate::Clock`] does.
    pub fn new(clock: C, limits: Limits) -> std::sync::Arc<Timings<C>> {
        let state = State {
            series: Series::new(limits.prefixes),
            blocks: Blocks::new(limits.worst_blocks),
        };
        let depth = limits.depth.min(context::PREFIX_STEPS);
        std::sync::Arc::new(Timings { clock, depth, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic left is sums, some of them without the newest action.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a block called `name`: what was told since the block before. Commits of a context end
    /// blocks by themselves; a host of tables says where its blocks end.
    pub fn end_block(&self, name: &str) {
        self.state().blocks.end(name.to_owned());
    }

    /// Forgets what was told so far, for who measures from here on.
    pub fn reset(&self) {
        let mut state = self.state();
        state.series.reset();
        state.blocks.reset();
    }

    /// All that was told so far, the action with the most time first. Costs the actions and their prefixes; who tells
    /// waits for a copy of the sums alone.
    pub fn report(&self) -> Report {
        let state = self.state().clone();
        Report::of(&state.series, &state.blocks)
    }
}

impl<C: Fn() -> u64 + Send + Sync> context::Observer for Timings<C> {
    fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    fn prefix_steps(&self) -> usize {
        self.depth
    }

    fn record(
        &self,
        operation: context::Operation,
        prefix: &[&[u8]],
        duration_ns: u64,
        cost: &context::Cost,
    ) {
        let is_commit = operation == context::Operation::Commit;
        let action = series::context_action(operation);
        let prefix = &prefix[..prefix.len().min(self.depth)];
        let mut state = self.state();
        state.series.record(action, prefix, duration_ns, 1, &Cost::of_context(cost));
        state.blocks.record(action, duration_ns);
        if is_commit {
            state.blocks.end_commit();
        }
    }

    fn begun(&self, operation: context::Operation) {
        self.state().blocks.begin(series::context_action(operation));
    }

    fn committed(&self, commit: &CommitHash) {
        self.state().blocks.name(commit);
    }
}

impl<C: Fn() -> u64 + Send + Sync> varvite::Observer for Timings<C> {
    fn now_ns(&self) -> u64 {
        (self.clock)()
    }

    fn record(&self, operation: varvite::Operation, duration_ns: u64, count: u64) {
        let action = series::table_action(operation);
        let mut state = self.state();
        state.series.record(action, &[], duration_ns, count, &Cost::default());
        state.blocks.record(action, duration_ns);
    }

    fn observe(&self, observed: &varvite::Observed<'_>) {
        let action = series::table_action(observed.operation);
        let table = [observed.table.as_bytes()];
        let named = self.depth > 0 && !observed.table.is_empty();
        let prefix = if named { &table[..] } else { &[] };
        let cost = Cost::of_table(&observed.cost);
        let mut state = self.state();
        state.series.record(action, prefix, observed.duration_ns, observed.count, &cost);
        state.blocks.record(action, observed.duration_ns);
    }
}

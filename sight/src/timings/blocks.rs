//! The time of blocks by action, of which the slowest are kept.

use std::thread::{self, ThreadId};

use varvite::context::hash::{self, Hash};

use super::series::{ACTIONS, ActionId};

/// A block that ended.
#[derive(Clone, Debug)]
pub struct Timed {
    pub name: String,
    /// How many ended before it.
    pub number: u64,
    /// Of its actions together.
    pub total_ns: u64,
    pub actions: [(u64, u64); ACTIONS],
}

/// The block that is under way, and the slowest of those that ended.
#[derive(Clone, Debug)]
pub struct Blocks {
    worst_max: usize,
    ended: u64,
    /// Calls and nanoseconds.
    actions: [(u64, u64); ACTIONS],
    total_ns: u64,
    /// What each thread has committed, which it is told of next.
    names: Vec<(ThreadId, Hash)>,
    /// The slowest first.
    worst: Vec<Timed>,
}

impl Blocks {
    pub fn new(worst_max: usize) -> Blocks {
        let (actions, worst) = ([(0, 0); ACTIONS], Vec::new());
        Blocks { worst_max, ended: 0, actions, total_ns: 0, names: Vec::new(), worst }
    }

    pub fn reset(&mut self) {
        *self = Blocks::new(self.worst_max);
    }

    pub fn record(&mut self, action: ActionId, duration_ns: u64) {
        let (calls, total_ns) = &mut self.actions[action.index()];
        *calls += 1;
        *total_ns = total_ns.saturating_add(duration_ns);
        if !action.is_inner() {
            self.total_ns = self.total_ns.saturating_add(duration_ns);
        }
    }

    /// The block under way is that of `commit`.
    pub fn name(&mut self, commit: &Hash) {
        self.names.push((thread::current().id(), *commit));
    }

    /// A commit ended: its block too, unless it wrote nothing.
    pub fn end_commit(&mut self) {
        let thread = thread::current().id();
        if let Some(at) = self.names.iter().position(|(of, _)| *of == thread) {
            let (_, commit) = self.names.remove(at);
            self.end(hash::to_text(&commit));
        }
    }

    pub fn end(&mut self, name: String) {
        let actions = std::mem::replace(&mut self.actions, [(0, 0); ACTIONS]);
        let total_ns = std::mem::take(&mut self.total_ns);
        let number = self.ended;
        self.ended += 1;
        let at = self.worst.partition_point(|block| block.total_ns >= total_ns);
        if at < self.worst_max {
            self.worst.truncate(self.worst_max - 1);
            self.worst.insert(at, Timed { name, number, total_ns, actions });
        }
    }

    /// How many ended, and the slowest of them.
    pub fn ended(&self) -> (u64, &[Timed]) {
        (self.ended, &self.worst)
    }
}

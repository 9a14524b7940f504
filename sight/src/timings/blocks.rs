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

/// An action under way, and the time of those that ended within it.
#[derive(Clone, Copy, Debug)]
struct Outer {
    thread: ThreadId,
    action: ActionId,
    inner_ns: u64,
}

/// The block that is under way, and the slowest of those that ended.
#[derive(Clone, Debug)]
pub struct Blocks {
    worst_max: usize,
    ended: u64,
    /// Calls and nanoseconds.
    actions: [(u64, u64); ACTIONS],
    total_ns: u64,
    /// Actions under way in which the host may call others, the innermost of a thread last.
    under_way: Vec<Outer>,
    /// What each thread has committed, which it is told of next.
    names: Vec<(ThreadId, Hash)>,
    /// The slowest first.
    worst: Vec<Timed>,
}

impl Blocks {
    pub fn new(worst_max: usize) -> Blocks {
        let (actions, worst) = ([(0, 0); ACTIONS], Vec::new());
        let under_way = Vec::new();
        Blocks { worst_max, ended: 0, actions, total_ns: 0, under_way, names: Vec::new(), worst }
    }

    pub fn reset(&mut self) {
        let under_way = std::mem::take(&mut self.under_way);
        *self = Blocks { under_way, ..Blocks::new(self.worst_max) };
    }

    /// An action begins in which the host may call others.
    pub fn begin(&mut self, action: ActionId) {
        self.under_way.push(Outer { thread: thread::current().id(), action, inner_ns: 0 });
    }

    /// The part of `duration_ns` that is of no action within `action`, which ends.
    fn own_ns(&mut self, action: ActionId, duration_ns: u64) -> u64 {
        if self.under_way.is_empty() {
            return duration_ns;
        }
        let thread = thread::current().id();
        let mut own_ns = duration_ns;
        let innermost = |all: &[Outer]| all.iter().rposition(|it| it.thread == thread);
        if let Some(at) = innermost(&self.under_way)
            && self.under_way[at].action == action
        {
            own_ns = own_ns.saturating_sub(self.under_way.remove(at).inner_ns);
        }
        if let Some(at) = innermost(&self.under_way) {
            let inner_ns = &mut self.under_way[at].inner_ns;
            *inner_ns = inner_ns.saturating_add(duration_ns);
        }
        own_ns
    }

    pub fn record(&mut self, action: ActionId, duration_ns: u64) {
        let (calls, total_ns) = &mut self.actions[action.index()];
        *calls += 1;
        *total_ns = total_ns.saturating_add(duration_ns);
        if !action.is_inner() {
            let own_ns = self.own_ns(action, duration_ns);
            self.total_ns = self.total_ns.saturating_add(own_ns);
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

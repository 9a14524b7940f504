//! What the handles of a replay take in memory, so that a trace that lets go of none comes to an end.
//!
//! Trees are asked what they hold ([`Tree::held_bytes`]), which costs a look at all of that. So they are asked only once their
//! changes since may have made more of it than is theirs: how much that is they count themselves ([`Tree::made_bytes`]). What is
//! over an eighth more than may be held is found at once.

use std::collections::HashMap;

use varvite::context::Tree;
use varvite::trace::{Action, Answer, Argument, Call, Face, KeyUpdate};
use varvite::{Error, Result};

use super::super::shown;

/// A tree that has nothing of its own.
const HANDLE_BYTES: u64 = 512;

/// A table, as measured: its buffer, its levels, and where the session has it.
const TABLE_BYTES: u64 = 128 << 10;

/// A view has the buffers and the levels of its table, one by one.
const VIEW_BYTES: u64 = 2 << 10;

/// What an update of a draft takes beside its bytes.
const ENTRY_BYTES: u64 = 256;

/// What is held where a host says nothing else.
pub(super) const MOST: u64 = 4 << 30;

/// What a handle is of: a trace may give the same number to one of each.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Of {
    Tree,
    Table,
    View,
    Draft,
}

/// The handles that a replay has.
pub(super) struct Held {
    most: u64,
    /// What each handle has beside its tree, and all of them: a draft what was written to it.
    handles: HashMap<(Of, u64), u64>,
    own: u64,
    /// What the trees held when they were last asked, and what changes made since.
    of_trees: u64,
    since: u64,
    /// They are asked when there may be more.
    asked_at: u64,
    /// The clock by which that is measured, what it took, and how often it was done.
    clock: Box<dyn Fn() -> u64>,
    asking_ns: u64,
    asked: u64,
}

impl Default for Held {
    fn default() -> Held {
        Held {
            most: MOST,
            handles: HashMap::new(),
            own: 0,
            of_trees: 0,
            since: 0,
            asked_at: MOST,
            clock: Box::new(|| 0),
            asking_ns: 0,
            asked: 0,
        }
    }
}

impl Held {
    pub(super) fn set_most(&mut self, most: u64) {
        (self.most, self.asked_at) = (most, most);
    }

    /// Measures by `clock` what it takes to ask the trees.
    pub(super) fn set_clock(&mut self, clock: Box<dyn Fn() -> u64>) {
        self.clock = clock;
    }

    /// What it took to ask the trees, and how often that was done.
    pub(super) fn asked(&self) -> (u64, u64) {
        (self.asking_ns, self.asked)
    }

    /// Takes a new handle.
    fn take(&mut self, of: Of, handle: u64, bytes: u64) {
        let before = self.handles.insert((of, handle), bytes).unwrap_or(0);
        self.own = self.own - before + bytes;
    }

    /// Lets go of a handle, which need not be there.
    pub(super) fn release(&mut self, of: Of, handle: u64) {
        self.own -= self.handles.remove(&(of, handle)).unwrap_or(0);
    }

    /// Takes note of so many bytes that a change made.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.since = self.since.saturating_add(bytes);
    }

    /// Counts what a call that was run made or let go of. `Invalid` when more is held than may be, by `trees` too.
    pub(super) fn count(&mut self, call: &Call, trees: &HashMap<u64, Tree>) -> Result<()> {
        match (call.action, &call.arguments[..], call.answer) {
            (Action::Release, [Argument::Handle(handle)], _) => {
                for of in [Of::Tree, Of::Table, Of::View, Of::Draft] {
                    self.release(of, *handle);
                }
            }
            (Action::OpenTable | Action::Duplicate, _, Answer::Handle(handle)) if handle > 0 => {
                self.take(Of::Table, handle, TABLE_BYTES);
            }
            (Action::View, _, Answer::Handle(handle)) if handle > 0 => {
                self.take(Of::View, handle, VIEW_BYTES);
            }
            (Action::Draft, _, Answer::Handle(handle)) if handle > 0 => {
                // It has its table, whose number may be another's by then.
                self.take(Of::Draft, handle, TABLE_BYTES);
            }
            // One that was not found here is not held.
            (action, _, Answer::Handle(handle))
                if action.face() == Face::Context && trees.contains_key(&handle) =>
            {
                self.take(Of::Tree, handle, HANDLE_BYTES);
            }
            (Action::Given, [Argument::Handle(handle), ..], _) => {
                self.take(Of::Tree, *handle, HANDLE_BYTES);
            }
            // What they made is counted by now.
            (Action::Add | Action::AddTree | Action::Remove, ..) => {}
            (Action::Write, [Argument::Handle(handle), Argument::Updates(updates)], _) => {
                let written: u64 = updates.iter().map(update).sum();
                let before = self.handles.get(&(Of::Draft, *handle));
                let before = before.map_or(TABLE_BYTES, |it| *it);
                self.take(Of::Draft, *handle, before.saturating_add(written));
            }
            _ => return Ok(()),
        }
        self.check(call, trees)
    }

    fn check(&mut self, call: &Call, trees: &HashMap<u64, Tree>) -> Result<()> {
        let of_trees = self.of_trees.saturating_add(self.since);
        if self.own <= self.most && self.own.saturating_add(of_trees) <= self.asked_at {
            return Ok(());
        }
        let start = (self.clock)();
        (self.of_trees, self.since) = (Tree::held_bytes(trees.values()), 0);
        self.asking_ns += (self.clock)().saturating_sub(start);
        self.asked += 1;
        let held = self.own.saturating_add(self.of_trees);
        if held <= self.most {
            self.asked_at = self.most.max(held.saturating_add(self.most / 8));
            return Ok(());
        }
        let place = shown::place(call);
        Err(Error::invalid(format!(
            "at {}{}{place}, the trees, tables and views that the trace has not let go of take some {} MiB, and {} MiB are \
             theirs: give the replay more (--held-mib of the program), unless the trace is a stranger's",
            call.action.name(),
            if place.is_empty() { "" } else { " " },
            held >> 20,
            self.most >> 20
        )))
    }
}

fn update(update: &KeyUpdate) -> u64 {
    let bytes = match update {
        KeyUpdate::Insert(key, value) | KeyUpdate::Upsert(key, value) => key.len() + value.len(),
        KeyUpdate::Delete(key) | KeyUpdate::Large(key) => key.len(),
        KeyUpdate::DeleteRange(..) => 0,
    };
    bytes as u64 + ENTRY_BYTES
}

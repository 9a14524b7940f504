//! What the handles of a replay take in memory, so that a trace that lets go of none comes to an end.
//!
//! Trees are asked what they hold ([`Tree::held_bytes`]), which costs a look at all of that. So they are asked only once they
//! may have come to hold more than is theirs. A change copies, or makes live, no more than a leaf and the pieces above it of
//! each directory on its path; and a tree, however many changes it has, holds no more than what there is, each piece once,
//! unless a directory was placed in several trees or places. What is over an eighth more than may be held is found at once.

use std::collections::{HashMap, HashSet};

use varvite::context::{Configuration, Tree};
use varvite::trace::{Action, Answer, Argument, Call, Face, KeyUpdate};
use varvite::{Error, Result};

use super::super::shown;

/// A tree that has nothing of its own.
const HANDLE_BYTES: u64 = 512;

/// A table, as measured: its buffer, its levels, and where the session has it.
const TABLE_BYTES: u64 = 128 << 10;

/// A view has the buffers and the levels of its table, one by one.
const VIEW_BYTES: u64 = 2 << 10;

/// What a step and a value take beside their bytes in a tree that changed, at most.
const STEP_BYTES: u64 = 128;
const ENTRY_BYTES: u64 = 256;

/// What a piece of a directory takes beside its entries, and what each child of it does.
const PIECE_BYTES: u64 = 256;
const CHILD_BYTES: u64 = 64;

/// Bits by which the children of pieces are told apart, down to the leaf, in a directory of billions.
const HASH_BITS: u64 = 32;

/// Entries of a piece of a directory that are expected at most, where directories may be longer.
const PIECE_ENTRIES_MAX: u64 = 1 << 16;

/// What is held where a host says nothing else.
pub(super) const MOST: u64 = 4 << 30;

/// What a tree of a store takes from it before it spills, where a host says nothing else.
const TREE_BYTES: u64 = 128 << 20;

/// What a handle is of: a trace may give the same number to one of each.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Of {
    Tree,
    Table,
    View,
    Draft,
}

/// Lengths of the names of a trace, by powers of two.
#[derive(Debug, Default)]
struct Names([u64; 17]);

impl Names {
    fn add(&mut self, name: &[u8]) {
        let class = (name.len() as u64 + 1).ilog2().min(16);
        self.0[class as usize] += 1;
    }

    /// Bytes of the longest, as many as `entries`, at most.
    fn longest(&self, entries: u64) -> u64 {
        let (mut left, mut bytes) = (entries, 0_u64);
        for (class, count) in self.0.iter().enumerate().rev() {
            let taken = left.min(*count);
            (left, bytes) = (left - taken, bytes.saturating_add(taken << (class + 1)));
        }
        bytes
    }
}

/// What trees may have come to hold since they were asked last.
#[derive(Debug, Default)]
struct Since {
    /// Entries that were made.
    entries: u64,
    /// Pieces that were copied or taken from the store for these, at most.
    pieces: u64,
    /// Trees that were changed, and how many came to be.
    changed: HashSet<u64>,
    made: u64,
}

/// The handles that a replay has.
pub(super) struct Held {
    most: u64,
    /// Entries of a leaf at most, and bytes of the pieces above it.
    leaf_entries: u64,
    above_bytes: u64,
    names: Names,
    /// What a tree takes from its store at most; none where it does not spill.
    tree_bytes: Option<u64>,
    /// Whether a directory may be in several places of a tree, each of which has its own copy once it is changed.
    is_placed: bool,
    /// What each handle has beside its tree, and all of them: a draft what was written to it.
    handles: HashMap<(Of, u64), u64>,
    own: u64,
    /// What the trees held when they were last asked, and have come to hold since, at most.
    of_trees: u64,
    since: Since,
    /// They are asked when there may be more.
    asked_at: u64,
    /// The clock by which that is measured, what it took, and how often it was done.
    clock: Box<dyn Fn() -> u64>,
    asking_ns: u64,
    asked: u64,
}

impl Held {
    pub(super) fn new(configuration: Option<Configuration>) -> Held {
        let [leaf, children] = configuration
            .map_or([0, 2], |it| [it.stable_hash().max(it.entries()) as u64, it.entries() as u64]);
        let levels = HASH_BITS.div_ceil(u64::from(children.max(2).ilog2()));
        Held {
            most: MOST,
            leaf_entries: leaf.min(PIECE_ENTRIES_MAX),
            above_bytes: levels * (PIECE_BYTES + children.min(PIECE_ENTRIES_MAX) * CHILD_BYTES),
            names: Names::default(),
            tree_bytes: Some(TREE_BYTES),
            is_placed: false,
            handles: HashMap::new(),
            own: 0,
            of_trees: 0,
            since: Since::default(),
            asked_at: MOST,
            clock: Box::new(|| 0),
            asking_ns: 0,
            asked: 0,
        }
    }

    pub(super) fn set_most(&mut self, most: u64) {
        (self.most, self.asked_at) = (most, most);
    }

    /// What a tree takes from its store at most before it spills; none where it does not.
    pub(super) fn set_tree_bytes(&mut self, bytes: Option<u64>) {
        self.tree_bytes = bytes;
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

    /// Takes note of a change of `tree` at `path`.
    fn change(&mut self, tree: u64, path: &[Vec<u8>], value: usize) {
        for step in path {
            self.names.add(step);
        }
        let leaf = self.leaf_entries * STEP_BYTES / 2 + self.names.longest(self.leaf_entries);
        let pieces = (PIECE_BYTES + leaf + self.above_bytes).saturating_mul(path.len() as u64);
        // A new entry may part a leaf, down to where it differs.
        let entry = entry(path, value) + 4 * PIECE_BYTES;
        self.since.entries = self.since.entries.saturating_add(entry);
        self.since.pieces = self.since.pieces.saturating_add(pieces);
        self.since.changed.insert(tree);
    }

    /// What the trees hold by now, at most.
    fn of_trees(&self) -> u64 {
        let Since { entries, pieces, changed, made } = &self.since;
        let whole = self.of_trees.saturating_add(*entries);
        let copies = match self.tree_bytes {
            Some(bytes) if !self.is_placed => {
                (changed.len() as u64 + made).saturating_mul(whole.saturating_add(bytes))
            }
            _ => u64::MAX,
        };
        whole.saturating_add(copies.min(*pieces))
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
                self.since.made += 1;
                // It has what the sides changed, which nobody has counted.
                if matches!(action, Action::Merge | Action::MergeCommits) {
                    self.is_placed = true;
                    self.since.pieces = self.since.pieces.saturating_add(self.most / 16);
                }
            }
            (
                Action::Add,
                [Argument::Handle(tree), Argument::Path(path), Argument::Bytes(value)],
                _,
            ) => {
                self.change(*tree, path, value.len());
            }
            (
                Action::Remove | Action::AddTree,
                [Argument::Handle(tree), Argument::Path(path), ..],
                _,
            ) => {
                self.is_placed |= call.action == Action::AddTree;
                self.change(*tree, path, 0);
            }
            (Action::Given, [Argument::Handle(handle), Argument::Entries(entries)], _) => {
                self.take(Of::Tree, *handle, HANDLE_BYTES);
                for (path, value) in entries {
                    self.change(*handle, path, value.len());
                }
            }
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
        if self.own <= self.most && self.own.saturating_add(self.of_trees()) <= self.asked_at {
            return Ok(());
        }
        let start = (self.clock)();
        (self.of_trees, self.since) = (Tree::held_bytes(trees.values()), Since::default());
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

fn entry(path: &[Vec<u8>], value: usize) -> u64 {
    let steps: u64 = path.iter().map(|step| step.len() as u64 + STEP_BYTES).sum();
    steps + value as u64 + ENTRY_BYTES
}

fn update(update: &KeyUpdate) -> u64 {
    let bytes = match update {
        KeyUpdate::Insert(key, value) | KeyUpdate::Upsert(key, value) => key.len() + value.len(),
        KeyUpdate::Delete(key) | KeyUpdate::Large(key) => key.len(),
        KeyUpdate::DeleteRange(..) => 0,
    };
    bytes as u64 + ENTRY_BYTES
}

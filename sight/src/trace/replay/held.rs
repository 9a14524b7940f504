//! What the handles of a replay take in memory, so that a trace that lets go of none comes to an end.
//!
//! Trees are asked what they hold ([`Tree::held_bytes`]), which costs a look at all of that. So they are asked only once what
//! was changed since may have come to more than is theirs: a change copies, or makes live, no more than a piece of each
//! directory on its path. What is over an eighth more than may be held is found at once.

use std::collections::HashMap;

use varvite::context::{Configuration, Tree};
use varvite::trace::{Action, Answer, Argument, Call, KeyUpdate};
use varvite::{Error, Result};

use super::super::shown;

/// A tree or a view that has nothing of its own.
const HANDLE_BYTES: u64 = 512;

/// A table: its buffer, its levels, and where the session has it.
const TABLE_BYTES: u64 = 16 << 10;

/// What a step and a value take beside their bytes in a tree that changed, at most.
const STEP_BYTES: u64 = 128;
const ENTRY_BYTES: u64 = 256;

/// Entries of a piece of a directory that are expected at most, where directories may be longer.
const PIECE_ENTRIES_MAX: u64 = 1 << 16;

/// What is held where a host says nothing else.
pub(super) const MOST: u64 = 4 << 30;

/// The handles that a replay has.
#[derive(Debug)]
pub(super) struct Held {
    most: u64,
    /// Entries that a piece of a directory has at most, and bytes of the longest name of a change.
    piece_entries: u64,
    name_bytes: u64,
    /// What each handle has beside its tree, and all of them: a draft what was written to it.
    handles: HashMap<u64, u64>,
    own: u64,
    /// What the trees held when they were last asked, and have come to hold since, at most.
    of_trees: u64,
    since: u64,
    /// They are asked when there may be more.
    asked_at: u64,
}

impl Held {
    pub(super) fn new(configuration: Option<Configuration>) -> Held {
        let widest = |it: Configuration| it.stable_hash().max(it.entries()) as u64;
        Held {
            most: MOST,
            piece_entries: configuration.map_or(0, widest).min(PIECE_ENTRIES_MAX),
            name_bytes: 0,
            handles: HashMap::new(),
            own: 0,
            of_trees: 0,
            since: 0,
            asked_at: MOST,
        }
    }

    pub(super) fn set_most(&mut self, most: u64) {
        (self.most, self.asked_at) = (most, most);
    }

    /// Takes a new handle.
    fn take(&mut self, handle: u64, bytes: u64) {
        let before = self.handles.insert(handle, bytes).unwrap_or(0);
        self.own = self.own - before + bytes;
    }

    /// Lets go of a handle, which need not be there.
    pub(super) fn release(&mut self, handle: u64) {
        self.own -= self.handles.remove(&handle).unwrap_or(0);
    }

    /// Takes note of a change of a tree at `path`.
    fn change(&mut self, path: &[Vec<u8>], value: usize) {
        let longest = path.iter().map(|step| step.len() as u64).max().unwrap_or(0);
        self.name_bytes = self.name_bytes.max(longest);
        let piece = self.piece_entries * (STEP_BYTES / 2 + self.name_bytes);
        let bytes = entry(path, value).saturating_add(piece.saturating_mul(path.len() as u64));
        self.since = self.since.saturating_add(bytes);
    }

    /// Counts what a call that was run made or let go of. `Invalid` when more is held than may be, by `trees` too.
    pub(super) fn count(&mut self, call: &Call, trees: &HashMap<u64, Tree>) -> Result<()> {
        match (call.action, &call.arguments[..], call.answer) {
            (Action::Release, [Argument::Handle(handle)], _) => self.release(*handle),
            (Action::OpenTable | Action::Duplicate, _, Answer::Handle(handle)) if handle > 0 => {
                self.take(handle, TABLE_BYTES);
            }
            (_, _, Answer::Handle(handle)) if handle > 0 => {
                self.take(handle, HANDLE_BYTES);
                // It has what the sides changed, which nobody has counted.
                if matches!(call.action, Action::Merge | Action::MergeCommits) {
                    self.since = self.since.saturating_add(self.most / 16);
                }
            }
            (Action::Add, [_, Argument::Path(path), Argument::Bytes(value)], _) => {
                self.change(path, value.len());
            }
            (Action::Remove | Action::AddTree, [_, Argument::Path(path), ..], _) => {
                self.change(path, 0);
            }
            (Action::Given, [Argument::Handle(handle), Argument::Entries(entries)], _) => {
                self.take(*handle, HANDLE_BYTES);
                for (path, value) in entries {
                    self.change(path, value.len());
                }
            }
            (Action::Write, [Argument::Handle(handle), Argument::Updates(updates)], _) => {
                let written: u64 = updates.iter().map(update).sum();
                self.take(
                    *handle,
                    self.handles.get(handle).map_or(HANDLE_BYTES, |it| *it) + written,
                );
            }
            _ => return Ok(()),
        }
        self.check(call, trees)
    }

    fn check(&mut self, call: &Call, trees: &HashMap<u64, Tree>) -> Result<()> {
        let held = |it: &Held| it.own.saturating_add(it.of_trees);
        if self.own <= self.most && held(self).saturating_add(self.since) <= self.asked_at {
            return Ok(());
        }
        (self.of_trees, self.since) = (Tree::held_bytes(trees.values()), 0);
        let held = held(self);
        if held <= self.most {
            self.asked_at = self.most.max(held.saturating_add(self.most / 8));
            return Ok(());
        }
        Err(Error::invalid(format!(
            "at {} {}, the trees, tables and views that the trace has not let go of take some {} MiB, and {} MiB are theirs: \
             give the replay more (--held-mib of the program), unless the trace is a stranger's",
            call.action.name(),
            shown::place(call),
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

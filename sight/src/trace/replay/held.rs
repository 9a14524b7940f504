//! What the handles of a replay take in memory, about, so that a trace that lets go of none comes to an end.
//!
//! Copies of a tree and trees that were found in it share its content, which goes with the last of them.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use varvite::trace::{Action, Answer, Argument, Call, KeyUpdate};
use varvite::{Error, Result};

use super::super::shown;

/// A tree or a view that has nothing of its own.
const HANDLE_BYTES: u64 = 512;

/// A table: its buffer, its levels, and where the session has it.
const TABLE_BYTES: u64 = 16 << 10;

/// What a step and a value take beside their bytes in a tree that changed.
const STEP_BYTES: u64 = 128;
const ENTRY_BYTES: u64 = 256;

/// What is held where a host says nothing else: all. An honest trace may share much between trees, which is counted for each.
pub(super) const MOST: u64 = u64::MAX;

/// What was written to a tree, or to the draft of a table, and is nowhere else.
#[derive(Debug)]
struct Content {
    bytes: Cell<u64>,
    all: Rc<Cell<u64>>,
}

impl Content {
    fn grow(&self, bytes: u64) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.all.set(self.all.get().saturating_add(bytes));
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.all.set(self.all.get().saturating_sub(self.bytes.get()));
    }
}

/// The handles that a replay has.
#[derive(Debug)]
pub(super) struct Held {
    most: u64,
    all: Rc<Cell<u64>>,
    handles: HashMap<u64, (u64, Rc<Content>)>,
}

impl Held {
    pub(super) fn new() -> Held {
        Held { most: MOST, all: Rc::default(), handles: HashMap::new() }
    }

    pub(super) fn set_most(&mut self, most: u64) {
        self.most = most;
    }

    fn content(&self) -> Rc<Content> {
        Rc::new(Content { bytes: Cell::new(0), all: Rc::clone(&self.all) })
    }

    /// Takes a new handle, which shares what `of` has.
    fn take(&mut self, handle: u64, own_bytes: u64, of: Option<u64>) {
        let shared = of.and_then(|of| self.handles.get(&of)).map(|(_, it)| Rc::clone(it));
        let content = shared.unwrap_or_else(|| self.content());
        self.all.set(self.all.get().saturating_add(own_bytes));
        if let Some((before, _)) = self.handles.insert(handle, (own_bytes, content)) {
            self.all.set(self.all.get().saturating_sub(before));
        }
    }

    /// Lets go of a handle, which need not be there.
    pub(super) fn release(&mut self, handle: u64) {
        if let Some((own_bytes, _)) = self.handles.remove(&handle) {
            self.all.set(self.all.get().saturating_sub(own_bytes));
        }
    }

    fn grow(&mut self, handle: u64, bytes: u64) {
        if !self.handles.contains_key(&handle) {
            self.take(handle, HANDLE_BYTES, None);
        }
        self.handles[&handle].1.grow(bytes);
    }

    /// Counts what a call that was run made or let go of; `is_written` says of a commit that the store has it. `Invalid` when
    /// more is held than may be.
    pub(super) fn count(&mut self, call: &Call, is_written: bool) -> Result<()> {
        match (call.action, &call.arguments[..], call.answer) {
            (Action::Release, [Argument::Handle(handle)], _) => self.release(*handle),
            (Action::Clone | Action::FindTree | Action::View, [of, ..], Answer::Handle(handle))
                if handle > 0 =>
            {
                let of = if let Argument::Handle(of) = of { Some(*of) } else { None };
                self.take(handle, HANDLE_BYTES, of);
            }
            (Action::OpenTable | Action::Duplicate, _, Answer::Handle(handle)) if handle > 0 => {
                self.take(handle, TABLE_BYTES, None);
            }
            (_, _, Answer::Handle(handle)) if handle > 0 => self.take(handle, HANDLE_BYTES, None),
            (Action::Add, [Argument::Handle(handle), Argument::Path(path), rest], _) => {
                let value = if let Argument::Bytes(value) = rest { value.len() } else { 0 };
                self.grow(*handle, entry(path, value));
            }
            (Action::Remove, [Argument::Handle(handle), Argument::Path(path)], _) => {
                self.grow(*handle, entry(path, 0));
            }
            (
                Action::AddTree,
                [Argument::Handle(handle), Argument::Path(path), Argument::Handle(other)],
                _,
            ) => {
                // What the other has stays as long as either of the two.
                let of_other = self.handles.get(other).map_or(0, |(_, it)| it.bytes.get());
                self.grow(*handle, entry(path, 0).saturating_add(of_other));
            }
            (Action::Given, [Argument::Handle(handle), Argument::Entries(entries)], _) => {
                let bytes = entries.iter().map(|(path, value)| entry(path, value.len())).sum();
                self.grow(*handle, bytes);
            }
            (Action::Write, [Argument::Handle(handle), Argument::Updates(updates)], _) => {
                self.grow(*handle, updates.iter().map(update).sum());
            }
            (Action::Commit, [Argument::Handle(handle), ..], _) if is_written => {
                let content = self.content();
                if let Some((_, of_tree)) = self.handles.get_mut(handle) {
                    *of_tree = content;
                }
            }
            _ => {}
        }
        let held = self.all.get();
        if held <= self.most {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(action: Action, arguments: Vec<Argument>, answer: Answer) -> Call {
        Call { action, start_ns: 0, duration_ns: 0, thread: 0, depth: 0, arguments, answer }
    }

    #[test]
    fn what_copies_share_goes_with_the_last_of_them() {
        let mut held = Held::new();
        let mut run = |action, arguments, answer| {
            held.count(&call(action, arguments, answer), true).unwrap();
            held.all.get()
        };
        let of = Argument::Handle;
        assert_eq!(run(Action::EmptyTree, vec![], Answer::Handle(1)), HANDLE_BYTES);
        let path = Argument::Path(vec![b"a".to_vec()]);
        let add = vec![of(1), path, Argument::Bytes(vec![0; 1_000])];
        let with = HANDLE_BYTES + ENTRY_BYTES + STEP_BYTES + 1_001;
        assert_eq!(run(Action::Add, add, Answer::Nothing), with);
        assert_eq!(run(Action::Clone, vec![of(1)], Answer::Handle(2)), with + HANDLE_BYTES);
        assert_eq!(run(Action::Release, vec![of(1)], Answer::Nothing), with);
        // A copy of it has what was written before.
        assert_eq!(run(Action::Clone, vec![of(2)], Answer::Handle(3)), with + HANDLE_BYTES);
        assert_eq!(run(Action::Commit, vec![of(3)], Answer::Hash([0; 32])), with + HANDLE_BYTES);
        assert_eq!(run(Action::Release, vec![of(2)], Answer::Nothing), HANDLE_BYTES);
        assert_eq!(run(Action::Release, vec![of(3)], Answer::Nothing), 0);
    }
}

//! Irmin's traces of actions as calls, and calls as such a trace.
//!
//! Irmin's contexts are values: a change of one gives another. Here a context that is used for the last time
//! is changed in place, and one that is kept is cloned first.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use varvite::context::hash;
use varvite::irmin_pack::trace::{Scoped, TraceRow};
use varvite::trace::{Action, Answer, Argument, Call, Face};
use varvite::{Error, Result};

/// The context that no row makes: the empty one.
const EMPTY: i64 = 0;

/// The author that Irmin's replay commits with.
const AUTHOR: &[u8] = b"Tezos";

/// Makes calls of rows. Their answers are what the rows say: of a find only whether there is a value, which
/// [`super::Replay::call_of_rows`] compares.
#[derive(Debug, Default)]
pub struct FromRows {
    /// The handle of a context.
    handles: HashMap<i64, u64>,
    last: u64,
}

fn call(action: Action, arguments: Vec<Argument>, answer: Answer) -> Call {
    Call { action, depth: 0, thread: 0, start_ns: 0, duration_ns: 0, arguments, answer }
}

/// The hash of a commit's text.
fn commit_of(text: &[u8]) -> Result<[u8; 32]> {
    let text = std::str::from_utf8(text)
        .map_err(|_| Error::invalid("the trace names a commit by what is no text"))?;
    hash::from_text(text)
}

impl FromRows {
    fn new_handle(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The handle of a context; one that no row made is the empty one.
    fn handle(&mut self, context: i64, calls: &mut Vec<Call>) -> u64 {
        if let Some(handle) = self.handles.get(&context) {
            return *handle;
        }
        let handle = self.new_handle();
        calls.push(call(Action::EmptyTree, Vec::new(), Answer::Handle(handle)));
        self.handles.insert(context, handle);
        handle
    }

    /// The handle to change so that it is `to`.
    fn changed(&mut self, from: &Scoped<i64>, to: &Scoped<i64>, calls: &mut Vec<Call>) -> u64 {
        let mut handle = self.handle(from.name, calls);
        if from.kept {
            let copy = self.new_handle();
            let arguments = vec![Argument::Handle(handle)];
            calls.push(call(Action::Clone, arguments, Answer::Handle(copy)));
            handle = copy;
        } else {
            self.handles.remove(&from.name);
        }
        self.handles.insert(to.name, handle);
        handle
    }

    fn release(&mut self, context: &Scoped<i64>, calls: &mut Vec<Call>) {
        if !context.kept
            && let Some(handle) = self.handles.remove(&context.name)
        {
            calls.push(call(Action::Release, vec![Argument::Handle(handle)], Answer::Nothing));
        }
    }

    /// The calls that do what `row` says. `Invalid` for a commit that is named by no hash.
    pub fn calls(&mut self, row: &TraceRow) -> Result<Vec<Call>> {
        let mut calls = Vec::new();
        match row {
            TraceRow::Checkout(commit, to) => {
                let handle = self.new_handle();
                let arguments = vec![Argument::Hash(commit_of(&commit.name)?)];
                calls.push(call(Action::Checkout, arguments, Answer::Handle(handle)));
                self.handles.insert(to.name, handle);
                self.release(to, &mut calls);
            }
            TraceRow::Add(path, value, from, to) => {
                let handle = self.changed(from, to, &mut calls);
                let (path, value) = (Argument::Path(path.clone()), Argument::Bytes(value.clone()));
                let arguments = vec![Argument::Handle(handle), path, value];
                calls.push(call(Action::Add, arguments, Answer::Nothing));
                self.release(to, &mut calls);
            }
            TraceRow::Remove(path, from, to) => {
                let handle = self.changed(from, to, &mut calls);
                let arguments = vec![Argument::Handle(handle), Argument::Path(path.clone())];
                calls.push(call(Action::Remove, arguments, Answer::Nothing));
                self.release(to, &mut calls);
            }
            TraceRow::Copy(source, path, from, to) => {
                let handle = self.changed(from, to, &mut calls);
                let tree = self.new_handle();
                let arguments = vec![Argument::Handle(handle), Argument::Path(source.clone())];
                calls.push(call(Action::FindTree, arguments, Answer::Handle(tree)));
                let (path, other) = (Argument::Path(path.clone()), Argument::Handle(tree));
                let arguments = vec![Argument::Handle(handle), path, other];
                calls.push(call(Action::AddTree, arguments, Answer::Nothing));
                calls.push(call(Action::Release, vec![Argument::Handle(tree)], Answer::Nothing));
                self.release(to, &mut calls);
            }
            TraceRow::Find(path, found, from)
            | TraceRow::Mem(path, found, from)
            | TraceRow::MemTree(path, found, from) => {
                let handle = self.handle(from.name, &mut calls);
                let arguments = vec![Argument::Handle(handle), Argument::Path(path.clone())];
                let (action, answer) = match row {
                    TraceRow::Find(..) => {
                        (Action::Find, Answer::Digest(found.then(varvite::trace::Digest::default)))
                    }
                    TraceRow::Mem(..) => (Action::Mem, Answer::Flag(*found)),
                    _ => (Action::MemTree, Answer::Flag(*found)),
                };
                calls.push(call(action, arguments, answer));
                self.release(from, &mut calls);
            }
            TraceRow::Commit { commit, date, message, parents, from } => {
                let handle = self.handle(from.name, &mut calls);
                let parents = parents.iter().map(|parent| Ok(commit_of(&parent.name)?.to_vec()));
                let arguments = vec![
                    Argument::Handle(handle),
                    Argument::Keys(parents.collect::<Result<_>>()?),
                    Argument::Number(*date as u64),
                    Argument::Bytes(AUTHOR.to_vec()),
                    Argument::Bytes(message.clone()),
                ];
                let answer = Answer::Hash(commit_of(&commit.name)?);
                calls.push(call(Action::Commit, arguments, answer));
                self.release(from, &mut calls);
            }
        }
        Ok(calls)
    }
}

/// Rows that are held back, and bytes of them: the last one that names a context is known when its handle is released.
const HELD_ROWS: usize = 1 << 10;
const HELD_BYTES: usize = 4 << 20;

/// Rows that wait for whether they are the last of a context.
#[derive(Debug, Default)]
struct Held {
    rows: VecDeque<TraceRow>,
    bytes: usize,
}

/// About what a row takes.
fn bytes_of(row: &TraceRow) -> usize {
    let of = |path: &[Vec<u8>]| path.iter().map(|step| step.len() + size_of::<Vec<u8>>()).sum();
    let own: usize = match row {
        TraceRow::Add(path, value, ..) => of(path) + value.len(),
        TraceRow::Copy(source, path, ..) => of(source) + of(path),
        TraceRow::Remove(path, ..)
        | TraceRow::Find(path, ..)
        | TraceRow::Mem(path, ..)
        | TraceRow::MemTree(path, ..) => of(path),
        TraceRow::Commit { message, parents, .. } => message.len() + 100 * parents.len(),
        TraceRow::Checkout(..) => 100,
    };
    own + size_of::<TraceRow>()
}

/// Where `row` names `context`, if it does.
fn scope_of(row: &mut TraceRow, context: i64) -> Option<&mut Scoped<i64>> {
    let (one, other) = match row {
        TraceRow::Add(_, _, from, to)
        | TraceRow::Remove(_, from, to)
        | TraceRow::Copy(_, _, from, to) => (to, Some(from)),
        TraceRow::Checkout(_, one)
        | TraceRow::Find(_, _, one)
        | TraceRow::Mem(_, _, one)
        | TraceRow::MemTree(_, _, one)
        | TraceRow::Commit { from: one, .. } => (one, None),
    };
    [Some(one), other].into_iter().flatten().find(|it| it.name == context)
}

impl Held {
    fn push(&mut self, row: TraceRow) {
        self.bytes += bytes_of(&row);
        self.rows.push_back(row);
    }

    /// Gives the rows that need not wait any more, the first of all.
    fn surplus(&mut self) -> Vec<TraceRow> {
        let mut given = Vec::new();
        while self.rows.len() > HELD_ROWS || self.bytes > HELD_BYTES {
            let Some(row) = self.rows.pop_front() else { break };
            self.bytes -= bytes_of(&row);
            given.push(row);
        }
        given
    }

    /// Has the last row that names `context` forget it.
    fn forget(&mut self, context: i64) {
        if let Some(scope) = self.rows.iter_mut().rev().find_map(|row| scope_of(row, context)) {
            scope.kept = false;
        }
    }
}

/// What a tree takes in each of the lists that it may be in.
const TREE_BYTES: u64 = 200;

/// What a step of a path takes beside its bytes.
const STEP_BYTES: u64 = 32;

/// Handles of subtrees: of which context, at which path.
#[derive(Debug, Default)]
struct Subtrees {
    all: HashMap<u64, (i64, Vec<Vec<u8>>)>,
    /// What their paths take.
    bytes: u64,
}

impl Subtrees {
    fn get(&self, handle: u64) -> Option<&(i64, Vec<Vec<u8>>)> {
        self.all.get(&handle)
    }

    fn insert(&mut self, handle: u64, context: i64, path: Vec<Vec<u8>>) {
        self.bytes += bytes_of_path(&path);
        if let Some((_, before)) = self.all.insert(handle, (context, path)) {
            self.bytes -= bytes_of_path(&before);
        }
    }

    fn remove(&mut self, handle: u64) {
        if let Some((_, before)) = self.all.remove(&handle) {
            self.bytes -= bytes_of_path(&before);
        }
    }
}

fn bytes_of_path(path: &[Vec<u8>]) -> u64 {
    path.iter().map(|step| step.len() as u64 + STEP_BYTES).sum()
}

/// Makes rows of calls. What no row says is left out, and counted, with all that follows from it: a tree that no row
/// made as it is, and what was committed of it, would be others where the rows are replayed.
#[derive(Debug, Default)]
pub struct ToRows {
    /// The context of a handle, and where it came from: of which context it is the subtree at which path.
    contexts: HashMap<u64, i64>,
    subtrees: Subtrees,
    /// How many handles have a context.
    holders: HashMap<i64, u32>,
    last: i64,
    held: Held,
    /// Handles of trees that no row makes, and commits of them.
    lost: HashSet<u64>,
    lost_commits: HashSet<[u8; 32]>,
    /// Calls that no row says.
    pub left_out: LeftOut,
}

/// What rows do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Calls of each action.
    pub by_action: BTreeMap<&'static str, u64>,
    /// Those of them that a row could say, but for the tree or commit that they are on: that came of others of them.
    pub following: u64,
}

impl LeftOut {
    /// All calls.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.by_action.values().sum()
    }
}

impl ToRows {
    /// Bytes that are enough for any trace that lets go of its trees: 4 GiB.
    pub const KEPT_MAX: u64 = 4 << 30;

    /// `Invalid` where what is kept of trees that the calls so far have not let go of is more than `most` bytes: a stranger's trace
    /// need let go of none.
    pub fn check(&self, most: u64) -> Result<()> {
        let trees = self.contexts.len() + self.subtrees.all.len() + self.lost.len();
        let commits = self.lost_commits.len();
        let kept = (trees + commits) as u64 * TREE_BYTES + self.subtrees.bytes;
        if kept <= most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the trace does not let go of {trees} trees, which take some {} MiB here, and {} MiB are theirs: convert a shorter \
             recording",
            kept >> 20,
            most >> 20
        )))
    }

    fn hold(&mut self, handle: u64, context: i64) {
        self.drop_handle(handle);
        self.contexts.insert(handle, context);
        *self.holders.entry(context).or_default() += 1;
    }

    /// Gives the context that nobody has any more, if there is one.
    fn drop_handle(&mut self, handle: u64) -> Option<i64> {
        let before = self.contexts.remove(&handle)?;
        let holders = self.holders.get_mut(&before)?;
        *holders -= 1;
        if *holders > 0 {
            return None;
        }
        self.holders.remove(&before);
        Some(before)
    }

    /// The same of one of which no row will say more.
    fn release(&mut self, handle: u64) {
        if let Some(context) = self.drop_handle(handle)
            && context != EMPTY
        {
            self.held.forget(context);
        }
    }

    fn scoped(&self, context: i64, used_up: bool) -> Scoped<i64> {
        let alone = self.holders.get(&context).is_none_or(|holders| *holders <= 1);
        // Irmin's replay makes the empty context once, and has it no more when a row forgets it.
        Scoped { name: context, kept: context == EMPTY || !(used_up && alone) }
    }

    /// The contexts before and after a change of a handle, which has the second one then.
    fn change(&mut self, handle: u64) -> Option<(Scoped<i64>, Scoped<i64>)> {
        let before = *self.contexts.get(&handle)?;
        let from = self.scoped(before, true);
        self.last += 1;
        let after = self.last;
        self.hold(handle, after);
        Some((from, Scoped { name: after, kept: true }))
    }

    /// Takes a call, which is one row, none, or for content that is given one for each value. Gives rows that say what was
    /// called: some are held back, so that the last one of a context can say that it is, and [`ToRows::end`] gives these.
    pub fn rows(&mut self, call: &Call) -> Vec<TraceRow> {
        let (Action::Given, [Argument::Handle(handle), Argument::Entries(entries)]) =
            (call.action, &call.arguments[..])
        else {
            if let Some(row) = self.row(call) {
                self.held.push(row);
            }
            return self.held.surplus();
        };
        // What is told within another call is that one's.
        if call.depth > 0 {
            return self.held.surplus();
        }
        if !self.contexts.contains_key(handle) {
            self.hold(*handle, EMPTY);
        }
        for (path, value) in entries {
            if let Some((from, to)) = self.change(*handle) {
                self.held.push(TraceRow::Add(path.clone(), value.clone(), from, to));
            }
        }
        // It was not told whole: what is done with it is done with another tree.
        if call.answer == Answer::Failed {
            *self.left_out.by_action.entry(call.action.name()).or_default() += 1;
            self.release(*handle);
            self.lost.insert(*handle);
        }
        self.held.surplus()
    }

    /// The rows that were held back, at the end of the trace.
    pub fn end(&mut self) -> Vec<TraceRow> {
        std::mem::take(&mut self.held).rows.into()
    }

    /// The row that says what `call` does, if one does.
    fn row(&mut self, call: &Call) -> Option<TraceRow> {
        let row = self.said(call);
        let silent = matches!(
            call.action,
            Action::Mark
                | Action::Sample
                | Action::Release
                | Action::Clone
                | Action::EmptyTree
                | Action::FindTree
        );
        // What was called within another call is that one's.
        if row.is_none() && !silent && call.depth == 0 {
            *self.left_out.by_action.entry(call.action.name()).or_default() += 1;
            self.lose(call);
        }
        row
    }

    /// Notes what is not as it should be without `call`.
    fn lose(&mut self, call: &Call) {
        if call.answer == Answer::Failed || call.action.face() != Face::Context {
            return;
        }
        let on = match (call.action, call.arguments.first()) {
            (_, Some(Argument::Handle(handle))) => Some(*handle),
            (Action::Checkout, Some(Argument::Hash(commit))) => {
                self.left_out.following += u64::from(self.lost_commits.contains(commit));
                None
            }
            _ => None,
        };
        if let Some(handle) = on {
            self.left_out.following += u64::from(self.lost.contains(&handle));
            if matches!(call.action, Action::Add | Action::AddTree | Action::Remove) {
                self.release(handle);
                self.subtrees.remove(handle);
                self.lost.insert(handle);
            }
        }
        match call.answer {
            Answer::Handle(made) if made != 0 => {
                self.lost.insert(made);
            }
            Answer::Hash(commit) if call.action == Action::Commit => {
                self.lost_commits.insert(commit);
            }
            _ => {}
        }
    }

    fn said(&mut self, call: &Call) -> Option<TraceRow> {
        if call.depth > 0 || call.answer == Answer::Failed {
            return None;
        }
        match (call.action, &call.arguments[..], call.answer) {
            (Action::EmptyTree, [], Answer::Handle(handle)) => {
                self.hold(handle, EMPTY);
                None
            }
            (Action::Checkout, [Argument::Hash(commit)], Answer::Handle(handle))
                if !self.lost_commits.contains(commit) =>
            {
                self.last += 1;
                self.hold(handle, self.last);
                let commit = hash::to_text(commit).into_bytes();
                let commit = Scoped { name: commit, kept: true };
                Some(TraceRow::Checkout(commit, Scoped { name: self.last, kept: true }))
            }
            (Action::Clone, [Argument::Handle(of)], Answer::Handle(handle)) => {
                if self.lost.contains(of) {
                    self.lost.insert(handle);
                }
                if let Some((context, path)) = self.subtrees.get(*of).cloned() {
                    self.subtrees.insert(handle, context, path);
                }
                let context = *self.contexts.get(of)?;
                self.hold(handle, context);
                None
            }
            (Action::Release, [Argument::Handle(handle)], _) => {
                self.release(*handle);
                self.subtrees.remove(*handle);
                self.lost.remove(handle);
                None
            }
            (
                Action::FindTree,
                [Argument::Handle(of), Argument::Path(path)],
                Answer::Handle(handle),
            ) => {
                if self.lost.contains(of) {
                    self.lost.insert(handle);
                }
                let context = *self.contexts.get(of)?;
                self.subtrees.insert(handle, context, path.clone());
                None
            }
            (
                Action::Add,
                [Argument::Handle(handle), Argument::Path(path), Argument::Bytes(value)],
                _,
            ) => {
                self.subtrees.remove(*handle);
                let (from, to) = self.change(*handle)?;
                Some(TraceRow::Add(path.clone(), value.clone(), from, to))
            }
            (Action::Remove, [Argument::Handle(handle), Argument::Path(path)], _) => {
                self.subtrees.remove(*handle);
                let (from, to) = self.change(*handle)?;
                Some(TraceRow::Remove(path.clone(), from, to))
            }
            (
                Action::AddTree,
                [Argument::Handle(handle), Argument::Path(path), Argument::Handle(tree)],
                _,
            ) => {
                let (context, source) = self.subtrees.get(*tree)?.clone();
                if self.contexts.get(handle) != Some(&context) {
                    return None;
                }
                let (from, to) = self.change(*handle)?;
                Some(TraceRow::Copy(source, path.clone(), from, to))
            }
            (
                Action::Find | Action::Mem | Action::MemTree,
                [Argument::Handle(handle), Argument::Path(path)],
                answer,
            ) => {
                let from = self.scoped(*self.contexts.get(handle)?, false);
                let path = path.clone();
                Some(match (call.action, answer) {
                    (Action::Find, Answer::Digest(found)) => {
                        TraceRow::Find(path, found.is_some(), from)
                    }
                    (Action::Mem, Answer::Flag(found)) => TraceRow::Mem(path, found, from),
                    (_, Answer::Flag(found)) => TraceRow::MemTree(path, found, from),
                    _ => return None,
                })
            }
            (
                Action::Commit,
                [
                    Argument::Handle(handle),
                    Argument::Keys(parents),
                    Argument::Number(date),
                    Argument::Bytes(author),
                    Argument::Bytes(message),
                ],
                Answer::Hash(commit),
            ) if author == AUTHOR => {
                self.lost_commits.remove(&commit);
                let from = self.scoped(*self.contexts.get(handle)?, false);
                let parents = parents.iter().map(|parent| {
                    let hash = parent[..].try_into().ok()?;
                    Some(Scoped { name: hash::to_text(&hash).into_bytes(), kept: true })
                });
                Some(TraceRow::Commit {
                    commit: Scoped { name: hash::to_text(&commit).into_bytes(), kept: true },
                    date: *date as i64,
                    message: message.clone(),
                    parents: parents.collect::<Option<_>>()?,
                    from,
                })
            }
            _ => None,
        }
    }
}

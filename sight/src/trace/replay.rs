//! Runs the calls of a trace on a context's store, on a session, or on both, and compares every answer.
//!
//! Calls that failed when they were recorded, that were made within others, and those on a handle that the
//! replay does not have, are counted and not run.

mod commits;
mod held;
mod partial;
mod transactions;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hdrhistogram::Histogram;
use varvite::context::{CommitHash, CommitInfo, Limits, Merge, Order, Store, Tree};
use varvite::trace::{Action, Answer, Argument, Call, Digest};
use varvite::{
    Error, Kind, MergeOperator, OpenTable, Result, Session, SnapshotContent, Table, TableOptions,
    View,
};

use super::drafts::{Draft, batch};
use super::outcome::{ActionTime, Outcome};
use super::{shown, walks};
use crate::timings::Latency;
use held::Held;
use partial::Partial;

/// A replay under way.
pub struct Replay {
    store: Option<Store>,
    /// Whether commits are only hashed, because nothing is written to the store.
    reads_only: bool,
    /// Whether calls are left out that take commits or tables away, change which ones stay or what they are called, or save
    /// snapshots.
    keeps_all: bool,
    /// Whether the store may have commits that the trace makes later on.
    had_commits: bool,
    /// The commit that is waited for, before which nothing is run.
    begins_at: Option<CommitHash>,
    session: Option<Session>,
    /// Tables that are opened by name, where they would be new otherwise.
    opened: Vec<Table>,
    table_options: TableOptions,
    operators: Vec<(Option<String>, MergeOperator)>,
    clock: Box<dyn Fn() -> u64>,
    trees: HashMap<u64, Tree>,
    tables: HashMap<u64, Table>,
    views: HashMap<u64, View>,
    /// Tables with a transaction under way, by the number of the draft.
    drafts: HashMap<u64, Draft>,
    /// Tables of the snapshot that each thread saves next; none where it has one that the replay does not have.
    saving: HashMap<u64, Option<BTreeSet<u64>>>,
    held: Held,
    /// Time of all calls, of the longest, and of each.
    times: BTreeMap<Action, (u64, u64, Histogram<u32>)>,
    calls: u64,
    skipped: u64,
    commits: u64,
    mismatches: u64,
    first_mismatch: Option<String>,
    partial: Partial,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Replay({} calls, {} mismatches)", self.calls, self.mismatches)
    }
}

/// Threads that save a snapshot at once.
const SAVING_MAX: usize = 1 << 16;

/// What the arguments of an action are not, in a trace that no recorder wrote.
fn odd() -> Error {
    Error::invalid("the trace has a call with arguments of another: record it again")
}

impl Replay {
    /// On a store and a session, either of which may be missing, by a clock in nanoseconds. Tables are made
    /// with `table_options`.
    pub fn new(
        store: Option<Store>,
        session: Option<Session>,
        table_options: TableOptions,
        clock: impl Fn() -> u64 + 'static,
    ) -> Replay {
        Replay {
            store,
            reads_only: false,
            keeps_all: false,
            had_commits: false,
            begins_at: None,
            session,
            opened: Vec::new(),
            table_options,
            operators: Vec::new(),
            clock: Box::new(clock),
            trees: HashMap::new(),
            tables: HashMap::new(),
            views: HashMap::new(),
            drafts: HashMap::new(),
            saving: HashMap::new(),
            held: Held::default(),
            times: BTreeMap::new(),
            calls: 0,
            skipped: 0,
            commits: 0,
            mismatches: 0,
            first_mismatch: None,
            partial: Partial::default(),
        }
    }

    /// Holds no more than some `bytes` of memory by handles of the trace, or an eighth more; without this 4 GiB. Counted are what
    /// is changed in trees and not committed or spilled ([`Tree::held_bytes`]), what drafts of tables have, 128 KiB for each
    /// table and draft, and some bytes for each tree and view, but not what a view keeps of a table's buffers. A call that
    /// comes to more fails as `Invalid`; what was found before is in the [outcome](Replay::outcome). What a store has of its
    /// own is bounded by its options.
    #[must_use]
    pub fn holds(mut self, bytes: u64) -> Replay {
        self.held.set_most(bytes);
        self
    }

    /// Measures by `clock`, in nanoseconds, what it takes to count what is held, which is in no call:
    /// [`counting_ns`](Replay::counting_ns).
    #[must_use]
    pub fn counts_by(mut self, clock: impl Fn() -> u64 + 'static) -> Replay {
        self.held.set_clock(Box::new(clock));
        self
    }

    /// What it took to count what is held, by the clock that it [counts by](Replay::counts_by).
    #[must_use]
    pub fn counting_ns(&self) -> u64 {
        self.held.asked().0
    }

    /// How often trees were asked what they hold.
    #[must_use]
    pub fn countings(&self) -> u64 {
        self.held.asked().1
    }

    /// Joins values by these operators in the tables of the names that it makes, or by that without a name in all others: a
    /// trace does not say which operator a table has.
    #[must_use]
    pub fn joins(mut self, operators: Vec<(Option<String>, MergeOperator)>) -> Replay {
        self.operators = operators;
        self
    }

    /// Only reads the store: what is committed is hashed instead, and is there later if the store has it.
    #[must_use]
    pub fn reads_only(mut self) -> Replay {
        self.reads_only = true;
        self
    }

    /// Leaves out what takes commits or tables away, or changes which ones stay or what they are called: collections,
    /// pins, clearings, branches, deletes of tables, and snapshots of tables, which a host may take for the newest state.
    #[must_use]
    pub fn keeps_all(mut self) -> Replay {
        self.keeps_all = true;
        self
    }

    /// The store was there before, and may have commits that the trace makes only later on: that one of them exists, or is in a
    /// log, is no other answer, and is left out.
    #[must_use]
    pub fn had_commits(mut self) -> Replay {
        self.had_commits = true;
        self
    }

    /// Runs nothing before the trace has made `commit` or goes on from it, which the store must have.
    #[must_use]
    pub fn begins_at(mut self, commit: CommitHash) -> Replay {
        self.begins_at = Some(commit);
        self
    }

    /// Whether the commit that it [begins at](Replay::begins_at) is still to come.
    #[must_use]
    pub fn has_not_begun(&self) -> bool {
        self.begins_at.is_some()
    }

    /// Has `tables`, as of a snapshot, where the trace opens one of their names for the first time. Live tables of a session
    /// with a log are opened anyway; all others are new and empty.
    #[must_use]
    pub fn with_tables(mut self, tables: Vec<Table>) -> Replay {
        self.opened = tables;
        self
    }

    /// Whether `call` is where a replay begins. A tree that was committed is the commit's from then on.
    fn begins_with(&mut self, call: &Call, commit: CommitHash) -> Result<bool> {
        match (call.action, &call.arguments[..], call.answer) {
            (Action::Checkout, [Argument::Hash(hash)], _) if *hash == *commit => {
                self.begins_at = None;
                return Ok(true);
            }
            (Action::Commit, [Argument::Handle(handle), ..], Answer::Hash(hash))
                if hash == *commit && self.store.is_some() =>
            {
                self.begins_at = None;
                let store = self.store.as_ref().expect("it was looked for");
                self.trees.insert(*handle, store.checkout(&commit)?);
            }
            _ => {}
        }
        Ok(false)
    }

    /// Runs a call and compares its answer. An error of the disk, and `Corrupt` where a file of the store is damaged; every
    /// other is a mismatch.
    pub fn call(&mut self, call: &Call) -> Result<()> {
        self.compared(call, |one, other| match (one, other) {
            (Answer::Handle(one), Answer::Handle(other)) => (*one == 0) == (*other == 0),
            (one, other) => one == other,
        })
    }

    /// The same for one that [`super::irmin`] made of a row, whose finds say only whether there is a value.
    pub fn call_of_rows(&mut self, call: &Call) -> Result<()> {
        self.compared(call, |one, other| match (one, other) {
            (Answer::Digest(one), Answer::Digest(other)) => one.is_some() == other.is_some(),
            (Answer::Handle(one), Answer::Handle(other)) => (*one == 0) == (*other == 0),
            (one, other) => one == other,
        })
    }

    fn compared(&mut self, call: &Call, same: impl Fn(&Answer, &Answer) -> bool) -> Result<()> {
        if matches!(call.action, Action::Mark | Action::Sample) {
            return Ok(());
        }
        if let Some(commit) = self.begins_at
            && !self.begins_with(call, commit)?
        {
            self.skipped += 1;
            return Ok(());
        }
        // Of content that could not be read to its end, what was read is there.
        let is_in_part = call.action == Action::Given && call.answer == Answer::Failed;
        if call.depth > 0 || call.answer == Answer::Failed && !is_in_part {
            self.skipped += 1;
            if call.action == Action::SaveSnapshot {
                self.saving.remove(&call.thread);
            }
            return self.roll_back_failed(call);
        }
        match self.run(call) {
            Ok(None) => self.skipped += 1,
            Ok(Some(answer)) => {
                // One that was not told whole is no call.
                self.calls += u64::from(!is_in_part);
                self.skipped += u64::from(is_in_part);
                self.commits += u64::from(call.action == Action::Commit);
                self.partial.note(call);
                if !same(&answer, &call.answer) {
                    self.mismatch(
                        call,
                        &format!(
                            "{} instead of {}",
                            shown::answer(&answer),
                            shown::answer(&call.answer)
                        ),
                    );
                }
                self.held.count(call, &self.trees)?;
            }
            // Nothing can be said of the answers of a store that cannot be read.
            Err(error) if matches!(error.kind(), Kind::Io | Kind::Poisoned | Kind::Corrupt) => {
                return Err(error);
            }
            Err(error) => {
                self.calls += 1;
                self.mismatch(call, error.detail());
                // What came before the entry that could not be made is there.
                if call.action == Action::Given {
                    self.held.count(call, &self.trees)?;
                }
            }
        }
        Ok(())
    }

    /// What was found so far.
    pub fn outcome(&self) -> Outcome {
        let mut actions: Vec<ActionTime> = self
            .times
            .iter()
            .map(|(action, (total_ns, longest_ns, durations))| ActionTime {
                action: action.name(),
                calls: durations.len(),
                total_ms: *total_ns as f64 / 1e6,
                latency: Latency::of(durations, durations.len(), *total_ns, *longest_ns),
            })
            .collect();
        actions.sort_by(|left, right| right.total_ms.total_cmp(&left.total_ms));
        Outcome {
            calls: self.calls,
            skipped: self.skipped,
            mismatches: self.mismatches,
            first_mismatch: self.first_mismatch.clone(),
            commits: self.commits,
            seconds: actions.iter().map(|it| it.total_ms / 1e3).sum(),
            actions,
        }
    }

    /// Drops all handles and gives the store and the session back.
    pub fn end(self) -> (Option<Store>, Option<Session>) {
        drop((self.trees, self.views, self.drafts, self.tables, self.opened));
        (self.store, self.session)
    }

    fn mismatch(&mut self, call: &Call, what: &str) {
        self.mismatches += 1;
        let number = self.calls;
        let action = call.action.name();
        let why = if self.partial.concerns(call) {
            ", behind a tree that the trace does not have whole"
        } else {
            ""
        };
        self.first_mismatch.get_or_insert_with(|| {
            let place = shown::place(call);
            let gap = if place.is_empty() { "" } else { " " };
            format!("call {number}, {action}{gap}{place}: {what}{why}")
        });
    }

    /// Times `work`.
    fn timed<T>(&mut self, action: Action, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        Ok(self.timed_unless(action, |_| false, work)?.expect("none is left out"))
    }

    /// The same; none, and as if it had not been called, for an outcome that `is_left_out`.
    fn timed_unless<T>(
        &mut self,
        action: Action,
        is_left_out: impl FnOnce(&T) -> bool,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Option<T>> {
        let start = (self.clock)();
        let outcome = work(self);
        let took = (self.clock)().saturating_sub(start);
        if outcome.as_ref().is_ok_and(is_left_out) {
            return Ok(None);
        }
        let new = || (0, 0, Histogram::new(2).expect("two digits are a precision that there is"));
        let (total, longest, durations) = self.times.entry(action).or_insert_with(new);
        *total = total.saturating_add(took);
        *longest = took.max(*longest);
        // It grows by itself, and no call takes centuries.
        let _ = durations.record(took);
        outcome.map(Some)
    }

    /// The answer; none for what cannot be run here.
    fn run(&mut self, call: &Call) -> Result<Option<Answer>> {
        match call.action.face() {
            varvite::trace::Face::Host => {
                let [Argument::Handle(handle)] = &call.arguments[..] else { return Err(odd()) };
                let held = self.trees.remove(handle).is_some()
                    | self.views.remove(handle).is_some()
                    | self.roll_back(*handle)?
                    | self.tables.remove(handle).is_some();
                Ok(held.then_some(Answer::Nothing))
            }
            varvite::trace::Face::Context if self.store.is_some() => match &call.arguments[..] {
                [Argument::Handle(handle), rest @ ..] => self.tree(call, *handle, rest),
                rest => self.context(call, rest),
            },
            varvite::trace::Face::Table if self.session.is_some() => self.table(call),
            _ => Ok(None),
        }
    }

    fn new_tree(&mut self, call: &Call, tree: Option<Tree>) -> Answer {
        let Some(tree) = tree else { return Answer::Handle(0) };
        if let Answer::Handle(handle) = call.answer {
            self.trees.insert(handle, tree);
        }
        Answer::Handle(1)
    }

    /// Calls on the store itself.
    fn context(&mut self, call: &Call, arguments: &[Argument]) -> Result<Option<Answer>> {
        let mut store = self.store.take().expect("it was looked for");
        let outcome = self.on_store(&mut store, call, arguments);
        self.store = Some(store);
        outcome
    }

    fn merge_commits(
        &mut self,
        store: &Store,
        call: &Call,
        arguments: &[Argument],
    ) -> Result<Option<Answer>> {
        let [
            Argument::Hash(ours),
            Argument::Hash(theirs),
            Argument::Number(commits),
            Argument::Number(bases),
            Argument::Keys(resolved),
            Argument::Number(came_to),
        ] = arguments
        else {
            return Err(odd());
        };
        let (ours, theirs) = (CommitHash::new(*ours), CommitHash::new(*theirs));
        let limits = Limits { commits: *commits as usize, bases: *bases as usize };
        let merged = self.timed(call.action, |_| {
            store.merge_commits(&ours, &theirs, limits, walks::resolutions(resolved))
        })?;
        let (number, tree) = match merged {
            Merge::Unchanged => (0, None),
            Merge::FastForward => (1, None),
            Merge::Merged(tree) => (2, Some(tree)),
            Merge::Conflicts(merged) => (2 + merged.conflicts.len() as u64, Some(merged.tree)),
        };
        self.held.grow(tree.as_ref().map_or(0, Tree::made_bytes));
        let answer = self.new_tree(call, tree);
        Ok(Some(if number == *came_to { answer } else { Answer::Number(number) }))
    }

    /// Calls on a tree.
    fn tree(&mut self, call: &Call, handle: u64, rest: &[Argument]) -> Result<Option<Answer>> {
        if let (Action::Given, [Argument::Entries(entries)]) = (call.action, rest) {
            let store = self.store.as_ref().expect("it was looked for");
            let tree = self.trees.entry(handle).or_insert_with(|| store.unrecorded_tree());
            let before = tree.made_bytes();
            let told = entries.iter().try_for_each(|(path, value)| tree.add(path, value));
            // What came before one that could not be made is there.
            self.held.grow(tree.made_bytes().saturating_sub(before));
            told?;
            // One that was not told whole is no mismatch by itself.
            return Ok(Some(if call.answer == Answer::Failed {
                call.answer
            } else {
                Answer::Nothing
            }));
        }
        let Some(mut tree) = self.trees.remove(&handle) else { return Ok(None) };
        let before = tree.made_bytes();
        let outcome = self.on_tree(&mut tree, call, rest);
        self.held.grow(tree.made_bytes().saturating_sub(before));
        self.trees.insert(handle, tree);
        outcome
    }

    /// A tree that a call on `tree` has as another argument, which may be the same one.
    fn other(&self, call: &Call, tree: &Tree, handle: u64) -> Option<Tree> {
        let is_own = call.arguments.first() == Some(&Argument::Handle(handle));
        if is_own { Some(tree.clone()) } else { self.trees.get(&handle).cloned() }
    }

    fn on_tree(
        &mut self,
        tree: &mut Tree,
        call: &Call,
        rest: &[Argument],
    ) -> Result<Option<Answer>> {
        let action = call.action;
        let answer = match (action, rest) {
            (Action::Clone, []) => {
                let copy = self.timed(action, |_| Ok(tree.clone()))?;
                self.new_tree(call, Some(copy))
            }
            (Action::Find, [Argument::Path(path)]) => {
                let found = self.timed(action, |_| tree.find(path))?;
                Answer::Digest(found.as_deref().map(Digest::of))
            }
            (Action::Mem, [Argument::Path(path)]) => {
                Answer::Flag(self.timed(action, |_| tree.mem(path))?)
            }
            (Action::MemTree, [Argument::Path(path)]) => {
                Answer::Flag(self.timed(action, |_| tree.mem_tree(path))?)
            }
            (Action::FindTree, [Argument::Path(path)]) => {
                let found = self.timed(action, |_| tree.find_tree(path))?;
                self.new_tree(call, found)
            }
            (
                Action::List,
                [Argument::Path(path), Argument::Number(offset), Argument::Number(length)],
            ) => {
                let page = self.timed(action, |_| tree.list(path, *offset, *length))?;
                Answer::Digest(Some(Digest::of_all(page.iter().map(|(name, _)| Some(&name[..])))))
            }
            (Action::Length, [Argument::Path(path)]) => {
                Answer::Number(self.timed(action, |_| tree.length(path))?)
            }
            (Action::Add, [Argument::Path(path), Argument::Bytes(value)]) => {
                self.timed(action, |_| tree.add(path, value))?;
                Answer::Nothing
            }
            (Action::AddTree, [Argument::Path(path), Argument::Handle(other)]) => {
                let Some(other) = self.other(call, tree, *other) else { return Ok(None) };
                self.timed(action, |_| tree.add_tree(path, &other))?;
                Answer::Nothing
            }
            (Action::Remove, [Argument::Path(path)]) => {
                self.timed(action, |_| tree.remove(path))?;
                Answer::Nothing
            }
            (Action::Hash, []) => Answer::Hash(*self.timed(action, |_| tree.hash())?),
            (
                Action::Commit,
                [
                    Argument::Keys(parents),
                    Argument::Number(date),
                    Argument::Bytes(author),
                    Argument::Bytes(message),
                ],
            ) => {
                let parents = parents.iter().map(|hash| hash[..].try_into().map_err(|_| odd()));
                let parents = parents.collect::<Result<Vec<_>>>()?;
                let info = CommitInfo::new(&parents, *date as i64, author, message);
                let reads_only = self.reads_only;
                let hash = self.timed(action, |replay| {
                    let store = replay.store.as_mut().expect("it was looked for");
                    if reads_only { store.hash(tree, &info) } else { store.commit(tree, &info) }
                })?;
                Answer::Hash(*hash)
            }
            (
                Action::Fold,
                [Argument::Path(path), Argument::Number(kind), Argument::Number(bound), rest @ ..],
            ) => {
                let [Argument::Number(order), Argument::Number(ended_at)] = rest else {
                    return Err(odd());
                };
                let depth = walks::depth(*kind, *bound)?;
                let order = if *order == 0 { Order::Sorted } else { Order::Undefined };
                let digest =
                    self.timed(action, |_| walks::fold(tree, path, (depth, order), *ended_at))?;
                Answer::Digest(Some(digest))
            }
            (Action::Diff, [Argument::Handle(other), Argument::Number(ended_at)]) => {
                let Some(other) = self.other(call, tree, *other) else { return Ok(None) };
                let digest = self.timed(action, |_| walks::diff(tree, &other, None, *ended_at))?;
                Answer::Digest(Some(digest))
            }
            (
                Action::DiffFrom,
                [Argument::Handle(other), Argument::Path(from), Argument::Number(ended_at)],
            ) => {
                let Some(other) = self.other(call, tree, *other) else { return Ok(None) };
                let walk = |_: &mut Replay| walks::diff(tree, &other, Some(from), *ended_at);
                Answer::Digest(Some(self.timed(action, walk)?))
            }
            (
                Action::Merge,
                [
                    Argument::Handle(base),
                    Argument::Handle(theirs),
                    Argument::Keys(resolved),
                    Argument::Number(conflicts),
                ],
            ) => {
                let (base, theirs) =
                    (self.other(call, tree, *base), self.other(call, tree, *theirs));
                let (Some(base), Some(theirs)) = (base, theirs) else { return Ok(None) };
                let merged = self
                    .timed(action, |_| tree.merge(&base, &theirs, walks::resolutions(resolved)))?;
                let number = merged.conflicts.len() as u64;
                self.held.grow(merged.tree.made_bytes());
                let answer = self.new_tree(call, Some(merged.tree));
                if number == *conflicts { answer } else { Answer::Number(number) }
            }
            _ => return Err(odd()),
        };
        Ok(Some(answer))
    }

    /// Calls on a session, its tables and their views.
    fn table(&mut self, call: &Call) -> Result<Option<Answer>> {
        let action = call.action;
        let answer = match (action, &call.arguments[..]) {
            (Action::OpenTable, [Argument::Bytes(name)]) => {
                let name = text(name)?;
                let options = self.options_of(name);
                let own = options.operator.clone();
                let place = self.opened.iter().position(|table| table.name() == name);
                let opened = place.map(|place| self.opened.remove(place));
                let table = self.timed(action, |replay| {
                    let session = replay.session.as_ref().expect("it was looked for");
                    if let Some(table) = opened {
                        return Ok(table);
                    }
                    match session.create_table(name, options) {
                        Err(error) if error.kind() == Kind::Exists => {
                            let operators = own.into_iter().collect();
                            session
                                .open_table(name, &OpenTable { operators, ..OpenTable::default() })
                        }
                        made => made,
                    }
                })?;
                self.new_table(call, table)
            }
            (Action::Update, [Argument::Handle(handle), Argument::Updates(updates)]) => {
                if let Some(draft) = self.draft_of(*handle) {
                    return self.commit_draft(draft, updates);
                }
                let Some(batch) = batch(updates) else { return Ok(None) };
                let Some(mut table) = self.tables.remove(handle) else { return Ok(None) };
                let outcome = self.timed(action, |_| table.update(&batch));
                self.tables.insert(*handle, table);
                outcome?;
                Answer::Nothing
            }
            (Action::Lookup, [Argument::Handle(handle), Argument::Keys(keys)]) => {
                let Some(view) = self.viewed(*handle) else { return Ok(None) };
                let values = self.timed(action, |_| view.lookup(keys))?;
                Answer::Digest(Some(Digest::of_all(values.iter())))
            }
            (Action::FindValues, [Argument::Handle(handle), Argument::Keys(keys)]) => {
                let Some(view) = self.viewed(*handle) else { return Ok(None) };
                let found = self.timed(action, |_| view.find(keys))?;
                Answer::Digest(Some(walks::lengths(&found)))
            }
            (Action::Get, [Argument::Handle(handle), Argument::Bytes(key)]) => {
                let Some(view) = self.viewed(*handle) else { return Ok(None) };
                let found = self.timed(action, |_| view.get(key))?;
                Answer::Digest(found.as_deref().map(Digest::of))
            }
            (Action::View, [Argument::Handle(handle)]) => {
                let view = if let Some(mut draft) = self.drafts.remove(handle) {
                    let view = self.timed(action, |_| draft.view());
                    self.drafts.insert(*handle, draft);
                    view
                } else {
                    let Some(table) = self.tables.remove(handle) else { return Ok(None) };
                    let view = self.timed(action, |_| Ok(table.view()));
                    self.tables.insert(*handle, table);
                    view
                };
                if let Answer::Handle(number) = call.answer {
                    self.views.insert(number, view?);
                }
                Answer::Handle(1)
            }
            (Action::Duplicate, [Argument::Handle(handle), Argument::Bytes(name)]) => {
                let Some(table) = self.tables.remove(handle) else { return Ok(None) };
                let copy = self.timed(action, |_| table.duplicate(text(name)?));
                self.tables.insert(*handle, table);
                let copy = copy?;
                self.new_table(call, copy)
            }
            (
                Action::Range,
                [
                    Argument::Handle(handle),
                    Argument::Range(lower, upper),
                    Argument::Number(flags),
                    Argument::Number(count),
                ],
            ) => {
                let Some(view) = self.viewed(*handle) else { return Ok(None) };
                let bounds = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
                let digest = self.timed(action, |_| walks::range(&view, bounds, *flags, *count))?;
                Answer::Digest(Some(digest))
            }
            (Action::Draft, [Argument::Handle(handle)]) => return self.begin_draft(call, *handle),
            (Action::Write, [Argument::Handle(handle), Argument::Updates(updates)]) => {
                return self.write_draft(*handle, updates);
            }
            (Action::DeleteTable, [Argument::Bytes(name)]) => {
                let (name, session) = (text(name)?, self.session.as_ref());
                let session = session.expect("it was looked for");
                // Without a log there are none, and the next one of the name is new anyway.
                let is_live = session.live_tables().is_ok_and(|it| it.iter().any(|it| it == name));
                if self.keeps_all || !is_live {
                    return Ok(None);
                }
                self.timed(action, |replay| {
                    replay.session.as_ref().expect("it was looked for").delete_table(name)
                })?;
                Answer::Nothing
            }
            (Action::SaveTable, [Argument::Handle(handle)]) => {
                let is_there = self.tables.contains_key(handle);
                if self.saving.len() == SAVING_MAX && !self.saving.contains_key(&call.thread) {
                    return Ok(None);
                }
                let told = self.saving.entry(call.thread).or_insert_with(|| Some(BTreeSet::new()));
                *told = told.take().filter(|_| is_there);
                // A snapshot of a part would be another than what the trace goes on with.
                if !told.as_mut().is_some_and(|told| told.insert(*handle)) {
                    return Ok(None);
                }
                Answer::Nothing
            }
            (Action::SaveSnapshot, [Argument::Bytes(name)]) => {
                return self.save_snapshot(call.thread, text(name)?);
            }
            (Action::DeleteSnapshot, [Argument::Bytes(name)]) => {
                let name = text(name)?;
                if self.keeps_all || !self.has_snapshot(name)? {
                    return Ok(None);
                }
                self.timed(action, |replay| {
                    replay.session.as_ref().expect("it was looked for").delete_snapshot(name)
                })?;
                Answer::Nothing
            }
            _ => return Err(odd()),
        };
        Ok(Some(answer))
    }

    /// Saves the tables that the thread has told of, if all are there. A recorder of before told of none, and what the store
    /// has of the name stays.
    fn save_snapshot(&mut self, thread: u64, name: &str) -> Result<Option<Answer>> {
        let Some(Some(own)) = self.saving.remove(&thread) else { return Ok(None) };
        let is_there = own.iter().all(|handle| self.tables.contains_key(handle));
        if self.keeps_all || !is_there || self.has_snapshot(name)? {
            return Ok(None);
        }
        let tables = std::mem::take(&mut self.tables);
        let saved: Vec<&Table> = own.iter().filter_map(|handle| tables.get(handle)).collect();
        let content = SnapshotContent { label: "", payload: b"", tables: &saved };
        let outcome = self.timed(Action::SaveSnapshot, |replay| {
            replay.session.as_ref().expect("it was looked for").save_snapshot(name, content)
        });
        self.tables = tables;
        outcome.map(|()| Some(Answer::Nothing))
    }

    /// What the table `name` is made with.
    fn options_of(&self, name: &str) -> TableOptions {
        let of = |wanted: Option<&str>| {
            let found = self.operators.iter().rev().find(|(it, _)| it.as_deref() == wanted);
            found.map(|(_, operator)| operator.clone())
        };
        let mut options = self.table_options.clone();
        options.operator = of(Some(name)).or_else(|| of(None)).or(options.operator);
        options
    }

    fn has_snapshot(&self, name: &str) -> Result<bool> {
        let session = self.session.as_ref().expect("it was looked for");
        Ok(session.list_snapshots()?.iter().any(|it| it.name == name))
    }

    fn new_table(&mut self, call: &Call, table: Table) -> Answer {
        if let Answer::Handle(handle) = call.answer {
            self.tables.insert(handle, table);
        }
        Answer::Handle(1)
    }

    fn viewed(&mut self, handle: u64) -> Option<View> {
        if let Some(draft) = self.drafts.get_mut(&handle) {
            return draft.view().ok();
        }
        let view = self.views.get(&handle).cloned();
        view.or_else(|| self.tables.get(&handle).map(Table::view))
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| odd())
}

//! The schedule of merges as a model without disks, bytes or threads: which runs there are, which merge, who
//! pays how much. Entries are numbers with a cost; a merge is a list of costs to be paid in order.
//!
//! It follows `docs/design/table.md`, line by line, and nothing of the engine. Sources: Dayan & Idreos 2018
//! (lazy levelling); Bentley & Saxe 1980 (spreading rebuilding work).

use std::collections::{BTreeMap, VecDeque};

/// What a key is bound to, or that it is deleted, and what the entry costs: key + value + 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub is_delete: bool,
    pub cost: u64,
}

pub type Run = BTreeMap<u64, Entry>;

pub fn cost(run: &Run) -> u64 {
    run.values().map(|entry| entry.cost).sum()
}

/// What an entry of the result costs in the filter, and how many of them are put there in a step.
const FILTER_COST: u64 = 16;
const FILTER_STEP: u64 = 64;

/// A merge under way: the cost of each key that is left, and the result.
#[derive(Debug)]
struct Job {
    debt: u64,
    left: VecDeque<u64>,
    /// Entries of the result that are not in its filter.
    unfiltered: u64,
    is_done: bool,
    spent: u64,
    result: Run,
}

impl Job {
    /// Merges `inputs`, newest first; deletes end at the bottom.
    fn new(inputs: &[&Run], bottom: bool) -> Job {
        let mut steps: BTreeMap<u64, (u64, Entry)> = BTreeMap::new();
        for run in inputs {
            for (key, entry) in *run {
                steps.entry(*key).or_insert((0, *entry)).0 += entry.cost;
            }
        }
        let kept = steps.iter().filter(|(_, (_, entry))| !(bottom && entry.is_delete));
        let entries: usize = inputs.iter().map(|run| run.len()).sum();
        let debt = inputs.iter().map(|run| cost(run)).sum::<u64>() + entries as u64 * FILTER_COST;
        let left = steps.values().map(|(cost, _)| *cost).collect();
        Job::with(debt, left, kept.map(|(key, (_, entry))| (*key, *entry)).collect())
    }

    fn with(debt: u64, left: VecDeque<u64>, result: Run) -> Job {
        Job { debt, left, unfiltered: result.len() as u64, is_done: false, spent: 0, result }
    }

    /// Works until `target` is spent; returns the work.
    fn advance(&mut self, target: u64) -> u64 {
        let before = self.spent;
        let target = if target >= self.debt { u64::MAX } else { target };
        while self.spent < target {
            let Some(cost) = self.left.pop_front() else { break };
            self.spent += cost;
        }
        while self.left.is_empty() && !self.is_done {
            let built = self.unfiltered.min(FILTER_STEP);
            self.unfiltered -= built;
            self.spent += built * FILTER_COST;
            self.is_done = built < FILTER_STEP;
            if self.spent >= target {
                break;
            }
        }
        self.spent - before
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

#[derive(Debug)]
struct Merging {
    job: Job,
    start: u64,
    due: u64,
    to_last: bool,
}

impl Merging {
    /// What is to be spent at `clock`: linear from start to due.
    fn target(&self, clock: u64) -> u64 {
        if clock >= self.due {
            return u64::MAX;
        }
        let passed = u128::from(clock.saturating_sub(self.start));
        (u128::from(self.job.debt) * passed / u128::from(self.due - self.start)) as u64
    }
}

#[derive(Debug)]
struct Sealed {
    buffer: Run,
    seal: u64,
    writing: Option<Merging>,
}

#[derive(Debug, Default)]
struct Level {
    /// Newest first.
    runs: VecDeque<Run>,
    merging: Option<Merging>,
}

/// The shape of one table.
#[derive(Debug)]
pub struct Table {
    buffer_bytes: u64,
    ratio: usize,
    active: Run,
    sealed: VecDeque<Sealed>,
    levels: Vec<Level>,
    last: Option<Run>,
    /// What becomes the last run of a union.
    union: Option<Merging>,
    seals: u64,
}

impl Table {
    pub fn new(buffer_bytes: u64, ratio: usize) -> Table {
        Table {
            buffer_bytes,
            ratio,
            active: Run::new(),
            sealed: VecDeque::new(),
            levels: Vec::new(),
            last: None,
            union: None,
            seals: 0,
        }
    }

    /// The union of tables without merges to be done, paid for by updates of 1 / `ratio` of its debt.
    pub fn union(buffer_bytes: u64, ratio: usize, tables: &[Table]) -> Table {
        let mut steps: BTreeMap<u64, u64> = BTreeMap::new();
        let mut result = Run::new();
        let mut entries = 0;
        for table in tables {
            let mut own = Run::new();
            for run in table.runs() {
                entries += run.len() as u64;
                for (key, entry) in run {
                    *steps.entry(*key).or_insert(0) += entry.cost;
                    own.entry(*key).or_insert(*entry);
                }
            }
            for (key, entry) in own.into_iter().filter(|(_, entry)| !entry.is_delete) {
                result.entry(key).or_insert(entry);
            }
        }
        let debt = steps.values().sum::<u64>() + entries * FILTER_COST;
        let job = Job::with(debt, steps.into_values().collect(), result);
        let due = (debt / ratio as u64).max(buffer_bytes);
        let union = (debt > 0).then_some(Merging { job, start: 0, due, to_last: true });
        Table { union, ..Table::new(buffer_bytes, ratio) }
    }

    /// Everything, newest first. All merges are done.
    fn runs(&self) -> impl Iterator<Item = &Run> {
        fn result(merging: &Merging) -> &Run {
            assert!(merging.job.is_done(), "the model unites finished merges only");
            &merging.job.result
        }
        let sealed =
            self.sealed.iter().rev().map(|it| it.writing.as_ref().map_or(&it.buffer, result));
        let levels =
            self.levels.iter().flat_map(|it| it.runs.iter().chain(it.merging.iter().map(result)));
        let last = self.last.iter().chain(self.union.iter().map(result));
        std::iter::once(&self.active).chain(sealed).chain(levels).chain(last)
    }

    /// Whether a union is not complete.
    pub fn is_pending(&self) -> bool {
        self.union.as_ref().is_some_and(|union| !union.job.is_done())
    }

    /// Makes the result of a union that is complete the last run.
    fn adopt_union(&mut self) {
        if let Some(union) = self.union.take_if(|union| union.job.is_done()) {
            self.last = (!union.job.result.is_empty()).then_some(union.job.result);
        }
    }

    /// Pays for the union ahead; returns the work.
    pub fn supply(&mut self, credits: u64) -> u64 {
        let Some(union) = &mut self.union else { return 0 };
        let job = &mut union.job;
        let work = if credits > 0 { job.advance(job.spent.saturating_add(credits)) } else { 0 };
        self.adopt_union();
        work
    }

    /// Work is done in lumps of at least this.
    pub fn lump(&self) -> u64 {
        (16 << 10).min(self.buffer_bytes / 64)
    }

    pub fn depth(&self) -> u64 {
        self.levels.len() as u64
    }

    /// Complete runs by level, then those of the last.
    pub fn run_counts(&self) -> Vec<usize> {
        let levels = self.levels.iter().map(|level| level.runs.len());
        levels.chain(self.last.iter().map(|_| 1)).collect()
    }

    /// Pays for `changes` and applies them; returns the counted work.
    pub fn update(&mut self, changes: &[(u64, Entry)]) -> u64 {
        let added = changes.iter().map(|(_, entry)| entry.cost).sum();
        let work = self.pay(added);
        for (key, entry) in changes {
            self.active.insert(*key, *entry);
            if cost(&self.active) >= self.buffer_bytes {
                self.seal();
            }
        }
        work
    }

    fn pay(&mut self, added: u64) -> u64 {
        let mut work = 0;
        self.adopt_union();
        let filled = cost(&self.active) + added;
        let kept = usize::from(filled < self.buffer_bytes);
        let clock = self.seals * self.buffer_bytes + filled.min(self.buffer_bytes);
        loop {
            if self.sealed.front().is_some_and(|sealed| sealed.writing.is_none()) {
                self.start_writing();
            }
            if self.sealed.len() <= kept && !self.is_written_out(clock) {
                break;
            }
            work += self.settle();
        }
        let lump = self.lump();
        for merging in self.merges() {
            let target = merging.target(clock);
            let behind = target == u64::MAX || target >= merging.job.spent + lump;
            if !merging.job.is_done() && behind {
                work += merging.job.advance(target);
            }
        }
        work
    }

    /// Works ahead by up to `credits`, youngest first; returns the work.
    pub fn work(&mut self, credits: u64) -> u64 {
        let mut left = credits;
        let mut work = 0;
        loop {
            if left > 0 && self.sealed.front().is_some_and(|sealed| sealed.writing.is_none()) {
                self.start_writing();
            }
            for merging in self.merges() {
                if left > 0 && !merging.job.is_done() {
                    let done = merging.job.advance(merging.job.spent.saturating_add(left));
                    work += done;
                    left = left.saturating_sub(done);
                }
            }
            let is_done = self.merges().all(|merging| merging.job.is_done());
            if left == 0 || !is_done || self.sealed.len() <= 1 {
                return work;
            }
            work += self.settle();
        }
    }

    fn merges(&mut self) -> impl Iterator<Item = &mut Merging> {
        let writing = self.sealed.iter_mut().filter_map(|sealed| sealed.writing.as_mut());
        let merging = self.levels.iter_mut().filter_map(|level| level.merging.as_mut());
        writing.chain(merging).chain(&mut self.union)
    }

    /// Whether there is nothing from `level` down.
    fn is_bottom(&self, level: usize) -> bool {
        let is_empty = |level: &Level| level.runs.is_empty() && level.merging.is_none();
        let levels = self.levels.get(level..).unwrap_or_default();
        self.union.is_none() && self.last.is_none() && levels.iter().all(is_empty)
    }

    fn seal(&mut self) {
        self.seals += 1;
        let buffer = std::mem::take(&mut self.active);
        self.sealed.push_back(Sealed { buffer, seal: self.seals, writing: None });
        if self.sealed.len() == 1 {
            self.start_writing();
        }
    }

    /// Whether the time of the oldest sealed buffer is over.
    fn is_written_out(&self, clock: u64) -> bool {
        let writing = self.sealed.front().and_then(|sealed| sealed.writing.as_ref());
        writing.is_some_and(|writing| writing.due <= clock)
    }

    /// Begins to write out the oldest sealed buffer; it has until a quarter of one more buffer is full.
    fn start_writing(&mut self) {
        let bottom = self.is_bottom(0);
        let sealed = self.sealed.front_mut().expect("a buffer was sealed");
        let job = Job::new(&[&sealed.buffer], bottom);
        let start = sealed.seal * self.buffer_bytes;
        let due = start + self.buffer_bytes / 4;
        sealed.writing = Some(Merging { job, start, due, to_last: false });
    }

    /// Puts the oldest sealed buffer into level 0, and starts the merges that this fills.
    fn settle(&mut self) -> u64 {
        if self.sealed[0].writing.is_none() {
            self.start_writing();
        }
        let sealed = self.sealed.pop_front().expect("a buffer was sealed");
        let mut writing = sealed.writing.expect("just started");
        let mut work = writing.job.advance(u64::MAX);
        if self.levels.is_empty() {
            self.levels.push(Level::default());
        }
        // Results that make room are needed now; by the schedule they are there.
        for level in &mut self.levels {
            if level.runs.len() + 1 < self.ratio {
                break;
            }
            work += level.merging.as_mut().map_or(0, |merging| merging.job.advance(u64::MAX));
        }
        self.push(0, writing.job.result);
        for level in 0.. {
            if self.levels.get(level).is_none_or(|it| it.runs.len() < self.ratio) {
                break;
            }
            if let Some(merging) = self.levels[level].merging.take() {
                let result = merging.job.result;
                if merging.to_last {
                    self.last = (!result.is_empty()).then_some(result);
                } else {
                    self.push(level + 1, result);
                }
            }
            self.start_merge(level, writing.due);
        }
        work
    }

    fn push(&mut self, level: usize, run: Run) {
        if !run.is_empty() {
            self.levels[level].runs.push_front(run);
        }
    }

    /// Merges the runs of `level`; it has until the level is full again.
    fn start_merge(&mut self, level: usize, start: u64) {
        let period = self.buffer_bytes * (self.ratio as u64).pow(level as u32 + 1);
        let is_deepest = level + 1 == self.levels.len();
        let outgrown =
            self.union.is_some() || self.last.as_ref().map_or(0, cost) > period * self.ratio as u64;
        if is_deepest && outgrown {
            self.levels.push(Level::default());
        }
        let to_last = is_deepest && !outgrown;
        let mut inputs: Vec<Run> = std::mem::take(&mut self.levels[level].runs).into();
        if to_last {
            inputs.extend(self.last.take());
        }
        let nothing_below = self.is_bottom(level + 1);
        let inputs: Vec<_> = inputs.iter().collect();
        let job = Job::new(&inputs, to_last || nothing_below);
        let due = start + if to_last { period / 2 } else { period };
        self.levels[level].merging = Some(Merging { job, start, due, to_last });
    }
}

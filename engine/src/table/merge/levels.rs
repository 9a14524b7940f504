//! Which runs merge, when, and who pays: lazy levelling on a clock of updates.
//!
//! The clock counts bytes of entries (key + value + 16). Every `B` = `write_buffer_bytes` of them the
//! write buffer is sealed; that run is written out while the next buffer fills to a quarter, so that two
//! full ones are never in memory. Tiering level i gathers `T` runs of about `T^i · B`; then they are merged
//! into one run of level i + 1, and that merge has until level i has gathered `T` runs again, which is
//! `T^(i+1) · B` later. The runs of the deepest level merge with the single last run, in half that time,
//! because deletes and what they delete take space until then. When the last run outgrows `T` times their
//! size, a level is put between. At every update each merge is worked on in proportion to the clock, so it
//! is done exactly
//! when its result is due, no update has to finish what others owe, and the work of an update is
//! bounded: see `docs/design/table.md`.
//!
//! Source: Dayan & Idreos 2018 (lazy levelling); Bentley & Saxe 1980 (spreading rebuilding work).

use std::collections::VecDeque;
use std::sync::Arc;

use super::job::{Input, MergeJob, MergeState};
use super::output::BlobPlan;
use crate::error::{Error, Result};
use crate::table::buffer::WriteBuffer;
use crate::table::bytes::bits_within;
use crate::table::runs::Run;
use crate::table::shared::{Lookups, Purpose, SegmentStore, TableOptions};

/// A merge is worked on when at least this much of its debt is due (less with small buffers), so that
/// small batches do not pay for starting and stopping. In bytes of entries.
const LUMP: u64 = 16 << 10;

/// A merge with this table's part of the schedule.
#[derive(Clone, Debug)]
pub struct Merging {
    /// The merge itself, perhaps shared with duplicates.
    pub job: Arc<MergeJob>,
    /// The clock, and what was spent, when this table's payments began.
    pub start: u64,
    /// See `start`.
    pub spent_at_start: u64,
    /// The clock at which the result is due.
    pub due: u64,
    /// Whether the result is the last run rather than one of the next level.
    pub to_last: bool,
}

impl Merging {
    /// A merge to be paid between the clocks `start` and `due`.
    pub fn new(job: Arc<MergeJob>, start: u64, due: u64, to_last: bool) -> Self {
        let spent_at_start = job.state().spent;
        Merging { job, start, spent_at_start, due, to_last }
    }

    /// What must be spent when the clock stands at `clock`.
    fn target(&self, clock: u64) -> u64 {
        let debt = self.job.plan().debt;
        if clock >= self.due {
            return u64::MAX;
        }
        let left = u128::from(debt.saturating_sub(self.spent_at_start));
        let passed = u128::from(clock.saturating_sub(self.start));
        let period = u128::from((self.due - self.start).max(1));
        self.spent_at_start + (left * passed / period) as u64
    }
}

/// A write buffer that takes no more entries, on its way to disk.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Its entries.
    pub buffer: WriteBuffer,
    /// Older entries of the same buffer that a snapshot had put on disk.
    pub base: Option<Arc<Run>>,
    /// Which seal it was, from 1.
    pub seal: u64,
    /// The write-out; none while an earlier buffer is still being written.
    pub writing: Option<Merging>,
}

/// Runs of one size, newest first, and the merge of the `T` before them.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Complete runs, newest first.
    pub runs: VecDeque<Arc<Run>>,
    /// Older than all of `runs`.
    pub merging: Option<Merging>,
}

/// Everything of a table but its active buffer. Cloned (cheaply) when a view holds the old one.
#[derive(Clone, Debug, Default)]
pub struct Shape {
    /// Oldest first.
    pub sealed: VecDeque<Sealed>,
    /// What the entries of all of `sealed` cost.
    pub sealed_bytes: u64,
    /// Youngest first.
    pub levels: Vec<Level>,
    /// The oldest entries, unless they are in the deepest level's merge.
    pub last: Option<Arc<Run>>,
    /// What makes the last run out of other tables' runs. While it is pending, no merge may take
    /// the last run or drop deletes.
    pub union: Option<Merging>,
    /// How often a buffer was sealed.
    pub seals: u64,
}

/// The schedule of one table.
pub struct Schedule<'a> {
    /// Where segments come from.
    pub store: &'a Arc<SegmentStore>,
    /// `B`, `T` and the filters.
    pub options: &'a TableOptions,
    /// The work of this update so far, in bytes of entries.
    pub work: u64,
}

impl Schedule<'_> {
    fn buffer_bytes(&self) -> u64 {
        self.options.write_buffer_bytes
    }

    fn ratio(&self) -> usize {
        self.options.size_ratio as usize
    }

    /// The clock of `shape` with `active` bytes in its buffer.
    pub fn clock(&self, shape: &Shape, active: u64) -> u64 {
        shape.seals * self.buffer_bytes() + active.min(self.buffer_bytes())
    }

    /// Does the work that is due before `added` bytes join a buffer of `active` bytes. After an
    /// error nothing but merge progress has changed.
    pub fn pay(&mut self, shape: &mut Arc<Shape>, active: u64, added: u64) -> Result<()> {
        Shape::adopt_union(shape);
        let fills = active + added >= self.buffer_bytes();
        if let Some(most) = self.store.paused() {
            return shape.check_paused(if fills { active + added } else { 0 }, most);
        }
        let keep = usize::from(!fills);
        let clock = self.clock(shape, active + added);
        loop {
            // An update that filled several buffers has begun none but the first.
            self.start_oldest(shape);
            if shape.sealed.len() <= keep && !shape.is_written_out(clock) {
                break;
            }
            self.finish_write_out(shape)?;
        }
        for merging in shape.merges() {
            self.work += self.drive(merging, clock)?;
        }
        Ok(())
    }

    /// Seals a full buffer. Infallible: it only moves memory.
    pub fn seal(&self, shape: &mut Arc<Shape>, buffer: WriteBuffer, base: Option<Arc<Run>>) {
        let shape = Arc::make_mut(shape);
        shape.seals += 1;
        shape.sealed_bytes += buffer.cost_bytes();
        let mut sealed = Sealed { buffer, base, seal: shape.seals, writing: None };
        if shape.sealed.is_empty() {
            self.start_writing(shape, &mut sealed);
        }
        shape.sealed.push_back(sealed);
    }

    /// Starts the write-out of the oldest sealed buffer, unless there is none or it was started.
    fn start_oldest(&self, shape: &mut Arc<Shape>) {
        if let Some(mut oldest) = shape.sealed.front().cloned()
            && oldest.writing.is_none()
        {
            self.start_writing(shape, &mut oldest);
            Arc::make_mut(shape).sealed[0] = oldest;
        }
    }

    fn start_writing(&self, shape: &Shape, sealed: &mut Sealed) {
        let mut inputs = vec![Input::Buffer(sealed.buffer.clone())];
        inputs.extend(sealed.base.clone().map(Input::Run));
        let bottom = shape.is_bottom(0);
        let job = self.merge(inputs, Purpose::WriteOut, bottom, self.options.filter_bits);
        let start = sealed.seal * self.buffer_bytes();
        // The sooner it is done, the less of it is in memory beside the buffer that fills.
        let due = start + self.buffer_bytes() / 4;
        sealed.writing = Some(Merging::new(job, start, due, false));
    }

    fn merge(
        &self,
        inputs: Vec<Input>,
        purpose: Purpose,
        bottom: bool,
        filter_bits: u8,
    ) -> Arc<MergeJob> {
        let operator = self.options.operator.clone();
        let plan = (purpose, bottom, filter_bits, BlobPlan::of(self.options));
        MergeJob::new(Arc::clone(self.store), inputs, operator, plan)
    }

    /// Finishes the oldest write-out, makes it a run of the youngest level, and starts the merges
    /// that this fills. All that can fail comes first.
    pub fn finish_write_out(&mut self, shape: &mut Arc<Shape>) -> Result<()> {
        self.start_oldest(shape);
        let oldest = shape.sealed.front().expect("a sealed buffer waits").clone();
        let writing = oldest.writing.expect("the write-out was started");
        self.work += writing.job.finish()?;
        for level in &shape.levels {
            if level.runs.len() + 1 < self.ratio() {
                break;
            }
            if let Some(merging) = &level.merging {
                self.work += merging.job.finish()?;
            }
        }
        let shape = Arc::make_mut(shape);
        shape.sealed.pop_front();
        shape.sealed_bytes -= oldest.buffer.cost_bytes();
        if shape.levels.is_empty() {
            shape.levels.push(Level::default());
        }
        shape.levels[0].push(&writing.job.state());
        for level in 0.. {
            if shape.levels.get(level).is_none_or(|it| it.runs.len() < self.ratio()) {
                break;
            }
            if shape.levels[level].merging.is_some() {
                shape.take_result(level);
            }
            self.start_merge(shape, level, writing.due);
        }
        Ok(())
    }

    fn start_merge(&self, shape: &mut Shape, level: usize, clock: u64) {
        let period = self
            .buffer_bytes()
            .saturating_mul((self.ratio() as u64).saturating_pow(level as u32 + 1));
        let deepest = shape.levels.len() == level + 1;
        let last_cost = match &shape.union {
            Some(_) => u64::MAX,
            None => shape.last.as_ref().map_or(0, |run| run.cost()),
        };
        let outgrown = last_cost > period.saturating_mul(u64::from(self.options.size_ratio));
        let to_last = deepest && !outgrown;
        if deepest && outgrown {
            shape.levels.push(Level::default());
        }
        let runs = std::mem::take(&mut shape.levels[level].runs);
        let mut inputs: Vec<_> = runs.into_iter().map(Input::Run).collect();
        if to_last {
            inputs.extend(shape.last.take().map(Input::Run));
        }
        let bottom = to_last || shape.is_bottom(level + 1);
        let bits = self.filter_bits(shape, &inputs, to_last);
        let job = self.merge(inputs, Purpose::Merge, bottom, bits);
        // What is dead ends in the last run: the sooner that is done, the less of it there is.
        let time = if to_last { period / 2 } else { period };
        let merging = Merging::new(job, clock, clock.saturating_add(time), to_last);
        shape.levels[level].merging = Some(merging);
    }

    /// Filter bits for the result of merging `inputs`: as chosen, unless all filters together would
    /// take more than their share of memory.
    pub fn filter_bits(&self, shape: &Shape, inputs: &[Input], to_last: bool) -> u8 {
        let wanted = match (to_last, self.options.lookups) {
            (true, Lookups::MostlyHit) => 0,
            (true, Lookups::Mixed) => self.options.filter_bits.min(10),
            (false, _) => self.options.filter_bits,
        };
        let entries: u64 = inputs.iter().map(Input::entry_count).sum();
        let taken: u64 = shape.runs().map(|run| run.filter_bytes()).sum();
        let room = self.options.filter_bytes_max.saturating_sub(taken);
        bits_within(wanted, room, entries)
    }

    /// Works ahead: up to `credits` bytes of entries, youngest merges first. Returns what is left to do.
    pub fn work_ahead(&mut self, shape: &mut Arc<Shape>, credits: u64) -> Result<u64> {
        let mut left = credits;
        loop {
            if left > 0 {
                self.start_oldest(shape);
            }
            let owed = self.work_on(shape, &mut left)?;
            // All but the newest sealed buffer may be settled; nothing is left to force then.
            if owed > 0 || left == 0 || shape.sealed.len() <= 1 {
                let waiting = shape.sealed.iter().filter(|sealed| sealed.writing.is_none());
                return Ok(owed + waiting.map(|sealed| sealed.buffer.cost_bytes()).sum::<u64>());
            }
            self.finish_write_out(shape)?;
        }
    }

    /// Works on the merges under way by up to `left`; returns what is left of them.
    fn work_on(&mut self, shape: &Shape, left: &mut u64) -> Result<u64> {
        let mut owed = 0;
        for merging in shape.merges() {
            let job = &merging.job;
            if !job.is_done() {
                let spent = job.spent();
                let target = spent.saturating_add(*left);
                let done = if *left > 0 { job.advance_to(target)? } else { 0 };
                self.work += done;
                *left = left.saturating_sub(done);
            }
            owed += job.debt_left();
        }
        Ok(owed)
    }

    /// Pays `credits` bytes of entries to the pending union; returns what is left of them.
    pub fn pay_union(&mut self, shape: &mut Arc<Shape>, credits: u64) -> Result<u64> {
        let Some(union) = &shape.union else { return Ok(credits) };
        if credits == 0 {
            return Ok(0);
        }
        let job = Arc::clone(&union.job);
        let done = job.advance_to(job.spent().saturating_add(credits))?;
        self.work += done;
        Shape::adopt_union(shape);
        Ok(if job.is_done() { credits.saturating_sub(done) } else { 0 })
    }

    /// Works on one merge until it stands where `clock` wants it, or asks the executor to.
    fn drive(&self, merging: &Merging, clock: u64) -> Result<u64> {
        /// How far a helper may lag before the writer works too, in bytes of entries.
        const LAG: u64 = 1 << 20;
        let lump = LUMP.min(self.buffer_bytes() / 64);
        let target = merging.target(clock);
        let spent = merging.job.spent();
        let due = target == u64::MAX;
        if merging.job.is_done() || (!due && target < spent.saturating_add(lump)) {
            return Ok(0);
        }
        if self.store.executor().is_some() && !due {
            merging.job.request(target);
            if target < spent.saturating_add(LAG) {
                return Ok(0);
            }
        }
        merging.job.advance_to(target)
    }
}

impl Level {
    /// Whether it has neither runs nor a merge.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.merging.is_none()
    }

    fn push(&mut self, result: &MergeState) {
        assert!(result.done, "only a finished merge gives a run");
        if !result.outputs.is_empty() {
            self.runs.push_front(Arc::clone(&result.outputs));
        }
    }
}

impl Shape {
    /// Whether the oldest sealed buffer is to be a run when the clock stands at `clock`.
    fn is_written_out(&self, clock: u64) -> bool {
        let writing = self.sealed.front().and_then(|oldest| oldest.writing.as_ref());
        writing.is_some_and(|writing| writing.due <= clock)
    }

    /// While merges are paused: `Invalid` when another `filled` bytes would be too much to hold.
    fn check_paused(&self, filled: u64, most: u64) -> Result<()> {
        let held = self.sealed_bytes;
        if filled == 0 || held + filled <= most {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "merges are paused and the table would hold {} bytes in sealed write buffers, of {most} \
             allowed: resume merges, or work them off",
            held + filled
        )))
    }

    /// Moves the finished merge of `level` to where its result belongs.
    fn take_result(&mut self, level: usize) {
        let merging = self.levels[level].merging.take().expect("the level has a merge");
        let result = merging.job.state();
        if merging.to_last {
            assert!(result.done && self.last.is_none(), "a merge of the last run replaces it");
            self.last = (!result.outputs.is_empty()).then(|| Arc::clone(&result.outputs));
        } else {
            self.levels[level + 1].push(&result);
        }
    }

    /// Whether there is nothing in `level`, if that is there, nor below it.
    fn is_bottom(&self, level: usize) -> bool {
        let levels = self.levels.get(level..).unwrap_or_default();
        self.union.is_none() && self.last.is_none() && levels.iter().all(Level::is_empty)
    }

    /// Makes the result of a finished union the last run.
    pub fn adopt_union(this: &mut Arc<Self>) {
        if this.union.as_ref().is_some_and(|union| union.job.is_done()) {
            let this = Arc::make_mut(this);
            let union = this.union.take().expect("a finished union was found");
            assert!(this.last.is_none(), "a pending union stands for the last run");
            let outputs = Arc::clone(&union.job.state().outputs);
            this.last = (!outputs.is_empty()).then_some(outputs);
        }
    }

    /// Every merge and write-out, youngest first.
    pub fn merges(&self) -> impl Iterator<Item = &Merging> {
        let writing = self.sealed.iter().filter_map(|sealed| sealed.writing.as_ref());
        let merging = self.levels.iter().filter_map(|level| level.merging.as_ref());
        writing.chain(merging).chain(&self.union)
    }

    /// Every complete run.
    pub fn runs(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.levels.iter().flat_map(|level| &level.runs).chain(&self.last)
    }
}

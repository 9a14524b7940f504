//! Deletes a whole range of keys: segments that lie in it go at once, the rest key by key.
//!
//! What goes at once may uncover older entries of the same keys in segments at the edges of the range.
//! So what is still bound in the range is looked for afterwards, in the buffers and in those segments,
//! and gets ordinary deletes. Segments have no deletes of ranges, and lookups know nothing of them; the
//! log has the range, and doing it again on a table that has a part of it comes to the same.
//!
//! Invariant: views, duplicates and snapshots hold the old runs and merges, which stay as they were.

use std::ops::Bound;
use std::sync::Arc;

use super::table::Table;
use super::update::write_checkpoint_if_due;
use crate::error::Result;
use crate::table::buffer::Batch;
use crate::table::bytes::KeyRange;
use crate::table::durable::LogPoint;
use crate::table::merge::{Input, MergeJob, MergeState, Merging, Shape};
use crate::table::runs::{Run, Segment};
use crate::table::shared::{Operation, SegmentStore};

/// Takes what a range covers out of the parts of a table.
struct Cut<'a> {
    range: &'a KeyRange,
    store: &'a Arc<SegmentStore>,
    /// Where the table's clock stands.
    clock: u64,
    /// Whether something was taken out.
    changed: bool,
}

impl Cut<'_> {
    /// The run without the segments that it covers, if there are any; `keep` stays in any case.
    fn run(&self, run: &Run, keep: Option<&Arc<Segment>>) -> Option<Arc<Run>> {
        let stays = |segment: &&Arc<Segment>| {
            !self.range.covers(segment.first_key(), segment.last_key())
                || keep.is_some_and(|kept| Arc::ptr_eq(kept, segment))
        };
        let left: Vec<_> = run.segments().iter().filter(stays).cloned().collect();
        (left.len() < run.segments().len()).then(|| Arc::new(Run::new(left)))
    }

    /// The merge without the segments that it covers, as one of its own: others may share this one.
    fn merge(&self, merging: &Merging) -> Option<Merging> {
        let (state, plan) = (merging.job.state(), merging.job.plan());
        // The last output tells how far the merge is, so its keys go one by one.
        let outputs = self.run(&state.outputs, state.outputs.segments().last());
        let mut inputs = Vec::with_capacity(state.inputs.len());
        let mut is_cut = outputs.is_some();
        for input in &state.inputs {
            let Input::Run(run) = input else {
                inputs.push(input.clone());
                continue;
            };
            let left = self.run(run, None);
            is_cut |= left.is_some();
            let left = left.unwrap_or_else(|| Arc::clone(run));
            if !left.is_empty() {
                inputs.push(Input::Run(left));
            }
        }
        if !is_cut {
            return None;
        }
        let left: u64 = inputs.iter().map(Input::cost).sum();
        let mut plan = plan.clone();
        plan.debt = plan.debt.min(state.spent.saturating_add(left));
        let next = MergeState {
            outputs: outputs.unwrap_or_else(|| Arc::clone(&state.outputs)),
            boundary: state.boundary.clone(),
            inputs,
            spent: state.spent,
            done: state.done,
        };
        let operator = merging.job.operator().cloned();
        Some(Merging {
            job: MergeJob::resume(Arc::clone(self.store), plan, operator, next),
            start: self.clock.min(merging.due),
            spent_at_start: state.spent,
            due: merging.due,
            to_last: merging.to_last,
        })
    }

    /// The complete run, cut; none when nothing is left of it.
    fn complete(&mut self, run: &Arc<Run>) -> Option<Arc<Run>> {
        let cut = self.run(run, None);
        self.changed |= cut.is_some();
        Some(cut.unwrap_or_else(|| Arc::clone(run))).filter(|run| !run.is_empty())
    }

    /// The shape without all that it covers. The inputs of a pending union stay, for their entries
    /// hide each other in ways of their own.
    fn shape(&mut self, shape: &Shape) -> Shape {
        let mut shape = shape.clone();
        for level in &mut shape.levels {
            level.runs = level.runs.iter().filter_map(|run| self.complete(run)).collect();
            if let Some(merging) = &mut level.merging
                && let Some(cut) = self.merge(merging)
            {
                *merging = cut;
                self.changed = true;
            }
        }
        shape.last = shape.last.as_ref().and_then(|last| self.complete(last));
        shape
    }
}

/// A table that is cut; as it was before unless that is forgotten, also when the host's operator
/// panics. Merges that both share may stand further then, which changes nothing.
struct Attempt<'a> {
    table: &'a mut Table,
    before: Option<Arc<Shape>>,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.table.shape = before;
        }
    }
}

impl Table {
    /// Unbinds every key between the bounds, all or none of them, also through a crash.
    ///
    /// Segments (of at most 16 MiB) that lie wholly in the range go without being read, and their
    /// space with them, unless a view, a duplicate or a snapshot holds them. In the at most two others
    /// of each run, in write buffers and in a pending union, the keys that are still bound are read and
    /// deleted one by one. The log of a live table gets one short record. Bounds that cross are an empty
    /// range. After an error the table is as it was: `Io`, `Corrupt` and, while merges are paused,
    /// `Invalid`, as from [`Table::update`].
    ///
    /// ```
    /// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    /// use std::ops::Bound::{Excluded, Included, Unbounded};
    /// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// # let mut table = session.create_table("t", TableOptions::default())?;
    /// table.update(Batch::new().insert(b"a", b"1").insert(b"b", b"2").insert(b"c", b"3"))?;
    /// table.delete_range(Excluded(b"a"), Included(b"b"))?;
    /// assert_eq!(table.view().count()?, 2);
    /// table.delete_range(Unbounded, Unbounded)?;
    /// assert_eq!(table.view().count()?, 0);
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn delete_range(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<()> {
        self.store.check_writable()?;
        let range = KeyRange::new(lower, upper);
        if range.is_empty() {
            return Ok(());
        }
        let store = Arc::clone(&self.store);
        store.observe(Operation::Update, 1, || {
            store.remove_some();
            // Not after the cut, which no checkpoint may have before the log has it.
            write_checkpoint_if_due(&std::iter::once(&*self))?;
            self.cut(&range, |table, batch| {
                table.pay(batch)?;
                let at = table.log_delete_range(&range)?;
                table.apply(batch, None, at);
                Ok(())
            })
        })
    }

    /// Deletes a range that the log has at `at`; pays for it unless the session only reads.
    pub(in crate::table) fn replay_delete_range(
        &mut self,
        range: &KeyRange,
        at: LogPoint,
    ) -> Result<Vec<LogPoint>> {
        let mut begun = Vec::new();
        if !range.is_empty() {
            self.cut(range, |table, batch| {
                begun = table.replay(batch, at)?;
                Ok(())
            })?;
        }
        Ok(begun)
    }

    /// Takes out what `range` covers, then has `finish` apply the deletes of what is still bound in it,
    /// unless the range was empty already. After an error the table is as it was.
    fn cut(
        &mut self,
        range: &KeyRange,
        finish: impl FnOnce(&mut Table, &Batch) -> Result<()>,
    ) -> Result<()> {
        let mut cut = Cut { range, store: &self.store, clock: self.clock(), changed: false };
        let shape = cut.shape(&self.shape);
        let is_cut = cut.changed;
        let before = std::mem::replace(&mut self.shape, Arc::new(shape));
        let mut attempt = Attempt { table: self, before: Some(before) };
        let batch = attempt.table.bound_in(range)?;
        if is_cut || !batch.is_empty() {
            finish(attempt.table, &batch)?;
        }
        attempt.before = None;
        Ok(())
    }

    /// Deletes of all keys that are bound in `range`.
    fn bound_in(&self, range: &KeyRange) -> Result<Batch> {
        let (lower, upper) = range.bounds();
        let mut batch = Batch::new();
        let mut cursor = self.view().cursor(lower, upper)?;
        while let Some(key) = cursor.next_key()? {
            batch.delete(key);
        }
        Ok(batch)
    }
}

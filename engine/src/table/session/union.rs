//! Unions: one table that binds what several bind, made at once or bit by bit.
//!
//! A union takes the runs of its inputs as they are at that moment and has one merge make its last run
//! of them. Until that is done, reads join what the inputs say. A union of unions takes the runs of
//! all of them, so however they are nested, every entry is merged once. Design: `docs/design/table.md`.

use std::sync::Arc;

use super::lifecycle::Session;
use crate::error::{Error, Result};
use crate::table::bytes::operator::MergeOperator;
use crate::table::durable::snapshot::UNION_RUNS_MAX;
use crate::table::merge::{
    BlobPlan, Groups, Input, MergeJob, MergePlan, MergeState, Merging, Schedule, Shape, UnionPart,
    last_filter_cost,
};
use crate::table::runs::Run;
use crate::table::shared::{Purpose, paths};
use crate::table::write::Table;

impl Session {
    /// A table called `name` that binds every key that one of `tables` binds, merged before it returns.
    ///
    /// See [`Session::incremental_union`] for what it holds and when it is refused. Reads and writes
    /// every page of the tables.
    pub fn union(&self, name: &str, tables: &[&Table]) -> Result<Table> {
        let mut union = self.incremental_union(name, tables)?;
        union.supply_union_credits(u64::MAX)?;
        Ok(union)
    }

    /// A table called `name` that binds every key that one of `tables` binds, merged bit by bit.
    ///
    /// A key of several tables gets their values joined by the merge operator, those to the left as
    /// the newer ones; without an operator the leftmost table's value. What one table deleted does not
    /// hide what another holds. The tables stay as they are and independent; their options but the
    /// operator may differ, and the result has the last one's.
    ///
    /// Writes out the write buffers of the tables, so it costs O(write buffers). The rest is a debt,
    /// [`Table::remaining_union_debt`], that updates of the result pay in proportion (so that it is
    /// done after 1 / `size_ratio` of the debt in updates) and [`Table::supply_union_credits`] pays ahead.
    /// Until then a lookup costs what it would in every table together, and segments of the tables stay
    /// on disk until the union has passed them.
    ///
    /// `Invalid` for no tables, tables of another session, operators that differ, or tables of more than
    /// 4,096 runs together.
    ///
    /// ```
    /// # use varvite::{Batch, MergeOperator, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    /// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let options = TableOptions::default().with_operator(MergeOperator::append());
    /// let mut left = session.create_table("left", options.clone())?;
    /// let mut right = session.create_table("right", options)?;
    /// left.update(Batch::new().insert(b"both", b"new").delete(b"right"))?;
    /// right.update(Batch::new().insert(b"both", b"old,").insert(b"right", b"1"))?;
    ///
    /// let mut union = session.incremental_union("union", &[&left, &right])?;
    /// assert!(union.remaining_union_debt() > 0);
    /// assert_eq!(union.get(b"both")?.as_deref(), Some(&b"old,new"[..]));
    /// assert_eq!(union.get(b"right")?.as_deref(), Some(&b"1"[..]));
    /// union.supply_union_credits(u64::MAX)?;
    /// assert_eq!(union.remaining_union_debt(), 0);
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn incremental_union(&self, name: &str, tables: &[&Table]) -> Result<Table> {
        self.store.check_writable()?;
        paths::check_name("table", name)?;
        let mut opening = self.store.opening();
        let Some(options) = tables.last().map(|table| table.options()) else {
            return Err(Error::invalid("a union needs at least one table: give one"));
        };
        for table in tables {
            if !Arc::ptr_eq(&table.store, &self.store) {
                return Err(Error::invalid(format!(
                    "table {} belongs to another session: open it in the session of the union",
                    table.name()
                )));
            }
            let (own, last) = (table.options().operator.as_ref(), options.operator.as_ref());
            if own.map(MergeOperator::name) != last.map(MergeOperator::name) {
                return Err(Error::invalid(format!(
                    "a union needs tables of one merge operator, but that of {} is {} and that of \
                     {} is {}",
                    table.name(),
                    operator_name(own),
                    tables[tables.len() - 1].name(),
                    operator_name(last),
                )));
            }
        }
        let mut parts = Vec::new();
        for table in tables {
            let (shape, base) = table.written_out()?;
            add_parts(&shape, base.as_ref(), &mut parts);
        }
        if parts.len() > UNION_RUNS_MAX {
            return Err(Error::invalid(format!(
                "the tables of the union have {} runs, but it can take {UNION_RUNS_MAX}: join fewer \
                 at a time, or finish those that are unions themselves with supply_union_credits",
                parts.len()
            )));
        }
        let options = options.clone();
        let mut shape = Shape::default();
        if !parts.is_empty() {
            let inputs: Vec<_> =
                parts.iter().map(|part| Input::Run(Arc::clone(&part.run))).collect();
            let schedule = Schedule { store: &self.store, options: &options, work: 0 };
            let blobs = BlobPlan::of_union(&options);
            let moved = blobs.sparse(inputs.iter().flat_map(Input::segments));
            let filter_bits = schedule.filter_bits(&shape, &inputs, true);
            let plan = MergePlan {
                purpose: Purpose::Merge,
                debt: inputs
                    .iter()
                    .map(Input::cost)
                    .chain(moved.into_values())
                    .chain([last_filter_cost(&inputs, filter_bits, &self.store)])
                    .fold(0, u64::saturating_add),
                bottom: true,
                filter_bits,
                blobs,
                groups: Some(Arc::new(Groups {
                    ends: parts.iter().map(|part| part.end as u16).collect(),
                    after: parts.into_iter().map(|part| part.after).collect(),
                })),
            };
            // The last run of a table is merged at a rate of at most T, and so is this.
            let debt = plan.debt;
            let due = (debt / u64::from(options.size_ratio)).max(options.write_buffer_bytes);
            let state = MergeState {
                outputs: Arc::new(Run::default()),
                boundary: None,
                inputs,
                spent: 0,
                done: false,
            };
            let operator = options.operator.clone();
            let job = MergeJob::resume(Arc::clone(&self.store), plan, operator, state);
            shape.union = Some(Merging::new(job, 0, due, true));
        }
        let mut table = Table::new(Arc::clone(&self.store), name, options, shape, None);
        table.name_by(&mut opening);
        Ok(table)
    }
}

fn operator_name(operator: Option<&MergeOperator>) -> String {
    operator.map_or("none".to_owned(), |operator| format!("\"{}\"", operator.name()))
}

/// Adds what a table without sealed buffers consists of, as one more table of a union. Each merge is
/// taken as it stands: its finished segments, then what is left of its inputs.
fn add_parts(shape: &Shape, base: Option<&Arc<Run>>, parts: &mut Vec<UnionPart>) {
    /// Until it is known where the table ends.
    const OPEN: usize = usize::MAX;
    assert!(shape.sealed.is_empty(), "sealed buffers are written out before a union");
    let mut add = |run: &Arc<Run>, after: Option<&Arc<[u8]>>, end: usize| {
        if !run.is_empty() {
            parts.push(UnionPart { run: Arc::clone(run), after: after.cloned(), end });
        }
    };
    if let Some(base) = base {
        add(base, None, OPEN);
    }
    for level in &shape.levels {
        level.runs.iter().for_each(|run| add(run, None, OPEN));
        let Some(merging) = &level.merging else { continue };
        let state = merging.job.state();
        add(&state.outputs, None, OPEN);
        for input in &state.inputs {
            if let Input::Run(run) = input {
                add(run, state.boundary.as_ref(), OPEN);
            }
        }
    }
    shape.last.iter().for_each(|run| add(run, None, OPEN));
    let nested = shape.union.as_ref().map_or(Vec::new(), |union| union.job.parts());
    let first = parts.len();
    parts.extend(nested.into_iter().map(|part| UnionPart { end: first + part.end, ..part }));
    let end = parts.len();
    parts.iter_mut().filter(|part| part.end == OPEN).for_each(|part| part.end = end);
}

impl Table {
    /// At most how many bytes of entries (key + value + 16 each) are left to merge of the union that
    /// the table is: 0 when there is no union or it is complete, and only then. Duplicates share it,
    /// so it may fall because another one pays; it rises only by what is merged again after an error
    /// or a reopening, one segment of each input at most.
    #[must_use]
    pub fn remaining_union_debt(&self) -> u64 {
        self.shape.union.as_ref().map_or(0, |union| union.job.debt_left())
    }

    /// Merges at least `credits` bytes of entries of the union that the table is; returns how much is left to
    /// do, as [`Table::work`] does: 0 when the union is complete, or there is none. After an error the union
    /// stands where its last finished segment ends, and can go on.
    pub fn supply_union_credits(&mut self, credits: u64) -> Result<u64> {
        self.store.check_writable()?;
        self.with_schedule(|schedule, shape| schedule.pay_union(shape, credits))?;
        Ok(self.remaining_union_debt())
    }
}

//! Updates that are applied to a copy of their table first, so that they can be read before they stand.
//!
//! The copy shares runs, merges and the layers of the write buffer with the table. Once the log has the
//! operations as one record, the table takes on what the copy has: nothing is applied twice. Dropped, it
//! leaves nothing but the merge work that was paid.
//!
//! Invariant: nobody changes the table as long as something is prepared for it.

use std::sync::Arc;

use super::range_delete::Expanded;
use super::table::Table;
use super::update::{self, Draft, write_checkpoint_if_due};
use crate::error::Result;
use crate::table::buffer::Batch;
use crate::table::durable::{LogPoint, Pace};
use crate::table::shared::SegmentStore;
use crate::trace::{self, Action, Answer};

/// What something prepared leaves behind when it is dropped.
#[derive(Clone, Copy)]
pub struct Leftover {
    /// Keys in the filter of the write buffer.
    keys: u64,
}

impl Leftover {
    /// Cleans up in `table`.
    pub fn clear(self, table: &mut Table) {
        table.active.count_stale(self.keys);
        table.renew_filter();
    }
}

/// Operations on their way to a table, and a copy of the table that has them already.
pub struct Prepared {
    pub(super) batch: Batch,
    pub(super) draft: Draft,
}

impl Prepared {
    /// Nothing yet, for `table`.
    pub fn new(table: &Table) -> Prepared {
        let mut copy = table.copy_as(table.shared_name().drafted());
        copy.active = table.active.draft(table.store.charge());
        let draft = Draft { table: copy, begun: Vec::new(), cut: None, work: Some(0) };
        Prepared { batch: Batch::new(), draft }
    }

    /// Adds the operations of `batch` to what is prepared for `table`, all or none of them; pays for merges as
    /// [`Table::update`] does.
    pub fn apply(&mut self, table: &Table, batch: &Batch) -> Result<()> {
        let name = self.draft.table.shared_name();
        trace::call(
            name.traced(),
            Action::Write,
            |to| batch.tell(to),
            |&()| Answer::Nothing,
            || self.apply_now(table, batch),
        )
    }

    fn apply_now(&mut self, table: &Table, batch: &Batch) -> Result<()> {
        self.draft.table.check_batch(batch)?;
        let (begun, expanded) = if batch.ranges().is_empty() {
            (self.apply_points(table, batch)?, None)
        } else {
            let (begun, expanded) = self.apply_ranges(table, batch)?;
            (begun, Some(expanded))
        };
        // Until which record is known when it is logged.
        if let Some(cut) = expanded.and_then(|expanded| expanded.shape_cut(LogPoint::default())) {
            self.draft.cut = Some(cut.and(self.draft.cut.take()));
        }
        self.draft.table.count_in_budget(begun.len());
        let work = self.draft.work.get_or_insert(0);
        *work += self.draft.table.last_work;
        let done = self.batch.len() as u64;
        let begun = begun.into_iter().map(|at| LogPoint { skip: done + at.skip, ..at });
        self.draft.begun.extend(begun);
        self.batch.append(batch);
        Ok(())
    }

    fn apply_points(&mut self, real: &Table, batch: &Batch) -> Result<Vec<LogPoint>> {
        let table = &mut self.draft.table;
        pay(table, real, batch)?;
        // Where the host's operator is called, a failure or a panic of it changes nothing.
        match table.draft(batch)? {
            Some(draft) => Ok(table.install(draft, LogPoint::default())),
            None => table.put(batch, LogPoint::default()),
        }
    }

    /// On one more copy, since an error or a panic of the host's operator leaves a table half cut.
    fn apply_ranges(&mut self, real: &Table, batch: &Batch) -> Result<(Vec<LogPoint>, Expanded)> {
        self.draft.table.renew_filter();
        let mut table = self.draft.table.copy_as(self.draft.table.shared_name());
        let expanded = table.expand(batch, 0)?;
        pay(&mut table, real, &expanded.points)?;
        self.draft.table.active.count_stale(expanded.points.len() as u64);
        let mut begun = table.put(&expanded.points, LogPoint::default())?;
        expanded.place(&mut begun);
        self.draft.table = table;
        Ok((begun, expanded))
    }

    /// What it leaves in a table that does not take it on.
    pub fn leftover(&self, table: &Table) -> Leftover {
        let (draft, own) = (&self.draft, table.active.entry_count());
        // Once the buffer was sealed it had as many keys as it may have.
        let more = draft.table.active.entry_count().saturating_sub(own);
        // And those of steps that failed.
        let stale = draft.table.active.stale_keys().saturating_sub(table.active.stale_keys());
        // One that made its filter anew counts from there on, and what it left in the table's before is not known.
        let is_known = draft.begun.is_empty() && draft.table.active.shares_filter(&table.active);
        Leftover { keys: if is_known { more + stale } else { u64::MAX } }
    }

    /// The table as it will be.
    pub fn table(&self) -> &Table {
        &self.draft.table
    }
}

/// Does the merge work that `batch` owes on a copy of `real`. On a full disk the steps towards a checkpoint come
/// all at once, as in an update.
fn pay(table: &mut Table, real: &Table, batch: &Batch) -> Result<()> {
    match table.pay(batch) {
        Err(error) if error.is_no_space() => {
            write_checkpoint_if_due(&std::iter::once(real), Pace::AtOnce).map_err(|_| error)?;
            table.pay(batch)
        }
        paid => paid,
    }
}

/// Gives each table what was prepared for it, all of them or none; in the log they are one record. After an
/// error the tables are as they were.
pub fn install_all(store: &Arc<SegmentStore>, prepared: Vec<(&mut Table, Prepared)>) -> Result<()> {
    let (tables, prepared): (Vec<_>, Vec<_>) = prepared.into_iter().unzip();
    let (batches, drafts): (Vec<_>, Vec<_>) =
        prepared.into_iter().map(|it| (it.batch, it.draft)).unzip();
    let drafts = tables.into_iter().zip(&batches).zip(drafts);
    let drafts = drafts.map(|((table, batch), draft)| (table, batch, draft));
    update::install_all(store, drafts.collect())
}

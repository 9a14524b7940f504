//! Updates that are applied to a copy of their table first, so that they can be read before they stand.
//!
//! The copy shares runs, merges and the layers of the write buffer with the table. Once the log has the
//! operations as one record, the table takes on what the copy has: nothing is applied twice. Dropped, it
//! leaves nothing but the merge work that was paid.
//!
//! Invariant: nobody changes the table as long as something is prepared for it.

use std::sync::Arc;

use super::table::Table;
use super::update::{self, Draft};
use crate::error::Result;
use crate::table::buffer::Batch;
use crate::table::durable::LogPoint;
use crate::table::shared::SegmentStore;

/// Operations on their way to a table, and a copy of the table that has them already.
pub struct Prepared {
    pub(super) batch: Batch,
    pub(super) draft: Draft,
}

impl Prepared {
    /// Nothing yet, for `table`.
    pub fn new(table: &Table) -> Prepared {
        let table = table.copy_as(table.name().to_owned());
        Prepared { batch: Batch::new(), draft: Draft { table, begun: Vec::new() } }
    }

    /// Adds the operations of `batch`, all or none of them; pays for merges as [`Table::update`] does.
    pub fn apply(&mut self, batch: &Batch) -> Result<()> {
        let table = &mut self.draft.table;
        table.check_batch(batch)?;
        let before = Arc::clone(&table.shape);
        let expanded = match batch.ranges() {
            [] => Ok(None),
            _ => table.expand(batch, 0).map(Some),
        };
        let paid = expanded.and_then(|expanded| {
            table.pay(expanded.as_ref().map_or(batch, |expanded| &expanded.points))?;
            Ok(expanded)
        });
        let expanded = match paid {
            Ok(expanded) => expanded,
            Err(error) => {
                table.shape = before;
                return Err(error);
            }
        };
        let points = expanded.as_ref().map_or(batch, |expanded| &expanded.points);
        // Where the host's operator is called, a panic of it changes nothing.
        let mut begun = match table.draft(points) {
            Some(draft) => table.install(draft, LogPoint::default()),
            None => table.put(points, LogPoint::default()),
        };
        if let Some(expanded) = &expanded {
            expanded.place(&mut begun);
        }
        table.count_in_budget(begun.len());
        let done = self.batch.len() as u64;
        self.draft
            .begun
            .extend(begun.into_iter().map(|at| LogPoint { skip: done + at.skip, ..at }));
        self.batch.append(batch);
        Ok(())
    }

    /// The table as it will be.
    pub fn table(&self) -> &Table {
        &self.draft.table
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

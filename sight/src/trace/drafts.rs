//! Transactions of a trace that read what they wrote, run again: one of its own for each table, so that the reads cost
//! what they cost when they were recorded.
//!
//! The table is behind a shared handle as long as its transaction goes on, and comes back when that ends.

use varvite::trace::KeyUpdate;
use varvite::{Batch, Result, Session, Table, Tables, Transaction, View};

/// A table with a transaction under way.
pub struct Draft {
    /// The number that the trace gives the table.
    pub table: u64,
    name: String,
    /// In front of the tables that it has taken.
    transaction: Transaction,
    tables: Tables,
    /// How many operations it was given.
    written: usize,
}

impl Draft {
    /// Begins one on `table`, which is lost if that fails.
    pub fn begin(session: &Session, number: u64, table: Table) -> Result<Draft> {
        let name = table.name().to_owned();
        let tables = session.share(vec![table])?;
        Ok(Draft { table: number, name, transaction: tables.begin(), tables, written: 0 })
    }

    /// Writes, and looks at what was written, which is when it is paid for.
    pub fn write(&mut self, batch: &Batch, count: usize) -> Result<()> {
        self.transaction.batch(&self.name)?.append(batch);
        self.written += count;
        self.transaction.view(&self.name).map(drop)
    }

    /// The table as the transaction has it.
    pub fn view(&mut self) -> Result<View> {
        self.transaction.view(&self.name)
    }

    /// What is left to write of all that the transaction did.
    pub fn rest<'a>(&self, updates: &'a [KeyUpdate]) -> &'a [KeyUpdate] {
        &updates[self.written.min(updates.len())..]
    }

    /// Writes the rest and commits; gives the table back, and whether it was done.
    pub fn commit(self, rest: &Batch) -> (Result<()>, Result<Table>) {
        let Draft { name, mut transaction, tables, .. } = self;
        let written = transaction.batch(&name).map(|batch| {
            batch.append(rest);
        });
        let done = written.and_then(|()| transaction.commit());
        (done, tables.remove(&name))
    }

    /// Drops what was written and gives the table back.
    pub fn roll_back(self) -> Result<Table> {
        let Draft { name, transaction, tables, .. } = self;
        transaction.rollback();
        tables.remove(&name)
    }
}

/// The updates as a batch; none when the trace does not have a value that was written apart.
pub fn batch(updates: &[KeyUpdate]) -> Option<Batch> {
    let mut batch = Batch::new();
    for update in updates {
        match update {
            KeyUpdate::Insert(key, value) => batch.insert(key, value),
            KeyUpdate::Delete(key) => batch.delete(key),
            KeyUpdate::Upsert(key, value) => batch.upsert(key, value),
            KeyUpdate::DeleteRange(lower, upper) => {
                let bounds = (lower.as_ref(), upper.as_ref());
                batch.delete_range(bounds.0.map(Vec::as_slice), bounds.1.map(Vec::as_slice))
            }
            KeyUpdate::Large(_) => return None,
        };
    }
    Some(batch)
}

//! Updates of several tables that read what they wrote, and stand together or not at all.
//!
//! Operations gather in a batch for each table. The first read applies them to a copy of the table
//! (`write/prepared.rs`), and what comes later with each further read. So a transaction that only writes is an update, and one that reads
//! costs a copy of a few pointers.

use super::tables::{Seat, Tables, find};
use crate::error::Result;
use crate::table::buffer::Batch;
use crate::table::read::{KeyBounds, Range, Values, View};
use crate::table::shared::{Operation, OperationCost};
use crate::table::write::{Leftover, Prepared, Table, install_all, update_all};

/// An update in the making, by the only one who writes. See [`Tables::begin`].
///
/// Dropped without [`Transaction::commit`], it leaves the tables as they were.
pub struct Transaction {
    /// One for each table.
    parts: Vec<Change>,
    /// When it began, of which the observer is told in the end, and how many operations reads and the commit took out of the
    /// batches.
    begun: Option<(u64, OperationCost)>,
    taken: u64,
    seat: Seat,
}

/// What it does to one table.
#[derive(Default)]
struct Change {
    /// What a read has asked for.
    prepared: Option<Prepared>,
    /// What came since.
    batch: Batch,
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.seat.tables.iter().map(Table::name);
        let parts = names.zip(self.parts.iter().map(|part| part.batch.len()));
        f.debug_map().entries(parts).finish()
    }
}

impl Change {
    /// Brings the copy of the table up to date, which is made if need be.
    fn prepare(&mut self, table: &Table) -> Result<&mut Prepared> {
        let prepared = self.prepared.get_or_insert_with(|| Prepared::new(table));
        if !self.batch.is_untouched() {
            prepared.apply(table, &self.batch)?;
            self.batch.clear();
        }
        Ok(prepared)
    }
}

impl Tables {
    /// Begins a transaction, which reads what it wrote, as the only one who writes until it ends. Waits while others
    /// write: a thread that begins a second one, or commits a batch beside its own, waits for itself.
    ///
    /// ```
    /// use varvite::{Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    ///
    /// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
    /// let tables = session.share(vec![session.create_table("utxo", TableOptions::utxo())?])?;
    /// let mut block = tables.begin();
    /// block.batch("utxo")?.insert(b"tx1#0", b"5 ada").insert(b"tx1#1", b"2 ada");
    /// assert!(block.get("utxo", b"tx1#0")?.is_some()); // a later transaction of the block spends it
    /// block.batch("utxo")?.delete(b"tx1#0");
    /// assert_eq!(block.prefix("utxo", b"tx1#")?.count(), 1);
    /// assert_eq!(tables.get("utxo", b"tx1#1")?, None); // nobody else sees it yet
    /// block.commit()?;
    /// assert!(tables.get("utxo", b"tx1#1")?.is_some());
    /// # Ok::<(), varvite::Error>(())
    /// ```
    #[must_use]
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.take_seat())
    }

    /// The same if nobody writes just now.
    #[must_use]
    pub fn try_begin(&self) -> Option<Transaction> {
        self.try_take_seat().map(Transaction::new)
    }
}

impl Transaction {
    fn new(seat: Seat) -> Transaction {
        let parts = seat.tables.iter().map(|_| Change::default()).collect();
        Transaction { parts, begun: seat.store().begin(), taken: 0, seat }
    }

    /// Where operations on table `name` go: all that a [`Batch`] can do. The next read of that table, or the
    /// commit, looks at them; a read takes them out of the batch. `Missing` when there is no such table.
    pub fn batch(&mut self, name: &str) -> Result<&mut Batch> {
        let number = find(&self.seat.tables, name)?;
        Ok(&mut self.parts[number].batch)
    }

    /// Table `name` as this transaction has it so far.
    fn table(&mut self, name: &str) -> Result<&Table> {
        let number = find(&self.seat.tables, name)?;
        let (part, table) = (&mut self.parts[number], &self.seat.tables[number]);
        if part.prepared.is_none() && part.batch.is_untouched() {
            return Ok(table);
        }
        self.taken += part.batch.len() as u64;
        Ok(part.prepare(table)?.table())
    }

    /// What `key` is bound to in table `name`, with what the transaction wrote. See [`View::get`]; `Missing`,
    /// and the errors of [`Table::update`] for what it wrote, after which it is to be dropped.
    pub fn get(&mut self, name: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.table(name)?.get(key)
    }

    /// The same for many keys. See [`View::lookup`].
    pub fn lookup<K: AsRef<[u8]>>(&mut self, name: &str, keys: &[K]) -> Result<Values> {
        self.table(name)?.lookup(keys)
    }

    /// Table `name` at this moment, with what the transaction wrote; what it writes later is not in it.
    pub fn view(&mut self, name: &str) -> Result<View> {
        self.table(name).map(Table::view)
    }

    /// See [`View::range`] and [`Transaction::view`].
    pub fn range(&mut self, name: &str, range: impl KeyBounds) -> Result<Range> {
        Ok(self.table(name)?.range(range))
    }

    /// See [`View::prefix`] and [`Transaction::view`].
    pub fn prefix(&mut self, name: &str, prefix: impl AsRef<[u8]>) -> Result<Range> {
        Ok(self.table(name)?.prefix(prefix))
    }

    /// Makes everything it wrote stand, all of it or nothing, also through a crash: what it did to live
    /// tables is one record of the log. Errors are those of [`Table::update`]; after one the tables are as
    /// they were before the transaction.
    pub fn commit(mut self) -> Result<()> {
        let Transaction { parts, taken, seat, .. } = &mut self;
        *taken += gathered(parts);
        seat.is_changed = true;
        let store = std::sync::Arc::clone(seat.store());
        if parts.iter().all(|part| part.prepared.is_none()) {
            let tables = seat.tables.iter_mut().zip(&*parts);
            let updates = tables.filter(|(_, part)| !part.batch.is_untouched());
            let mut updates: Vec<_> = updates.map(|(table, part)| (table, &part.batch)).collect();
            return if updates.is_empty() { Ok(()) } else { update_all(&store, &mut updates) };
        }
        for (table, part) in seat.tables.iter().zip(&mut *parts) {
            if part.prepared.is_some() || !part.batch.is_untouched() {
                part.prepare(table)?;
            }
        }
        let left = leftovers(parts, &seat.tables);
        let prepared = seat.tables.iter_mut().zip(std::mem::take(parts));
        let prepared = prepared.filter_map(|(table, part)| Some((table, part.prepared?)));
        install_all(&store, prepared.collect()).inspect_err(|_| clear(left, &mut seat.tables))
    }

    /// Drops what it wrote. The same as dropping it.
    pub fn rollback(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let left = leftovers(&self.parts, &self.seat.tables);
        clear(left, &mut self.seat.tables);
        if let Some(begun) = &self.begun {
            let rest = if self.seat.is_changed { 0 } else { gathered(&self.parts) };
            self.seat.store().record((Operation::Transaction, ""), begun, self.taken + rest);
        }
    }
}

/// Operations in the batches of all parts.
fn gathered(parts: &[Change]) -> u64 {
    parts.iter().map(|part| part.batch.len() as u64).sum()
}

/// What the parts leave behind, each with the number of its table, should they be dropped.
fn leftovers(parts: &[Change], tables: &[Table]) -> Vec<(usize, Leftover)> {
    let left = parts.iter().zip(tables).enumerate();
    left.filter_map(|(number, (part, table))| {
        Some((number, part.prepared.as_ref()?.leftover(table)))
    })
    .collect()
}

fn clear(left: Vec<(usize, Leftover)>, tables: &mut [Table]) {
    for (number, left) in left {
        left.clear(&mut tables[number]);
    }
}

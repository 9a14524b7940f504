//! A table that is open: its write buffer, its levels, and the one who may change them.
//!
//! Everything that can fail in an update comes before anything changes: first the merges are paid, then
//! the operations go into the buffer, which only moves memory. Design: `docs/design/table.md`.

use std::ops::Bound;
use std::sync::Arc;

use super::batch::{Batch, Values};
use super::counters::Purpose;
use super::cursor::Cursor;
use super::levels::{Schedule, Shape};
use super::merge_job::{Input, MergeJob};
use super::operator;
use super::options::{Operation, TableOptions};
use super::paths;
use super::run::Run;
use super::stats::{self, TableStats};
use super::store::Store;
use super::view::View;
use super::write_buffer::WriteBuffer;
use crate::error::Result;
use crate::format::hash::hash;

/// A map from keys to values, with one writer.
///
/// ```
/// use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
///
/// let session = Session::create(MemoryDisk::new(), SessionOptions::default())?;
/// let mut table = session.create_table("utxo", TableOptions::utxo())?;
/// let mut batch = Batch::new();
/// batch.insert(b"tx1#0", b"5 ada").insert(b"tx1#1", b"2 ada").delete(b"tx0#7");
/// table.update(&batch)?;
/// assert_eq!(table.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
/// # Ok::<(), varvite::Error>(())
/// ```
pub struct Table {
    pub(super) store: Arc<Store>,
    name: String,
    pub(super) options: Arc<TableOptions>,
    active: WriteBuffer,
    /// Older entries of the active buffer, which a snapshot had put on disk.
    base: Option<Arc<Run>>,
    pub(super) shape: Arc<Shape>,
    last_work: u64,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}, {:?}, {} levels)", self.name, self.active, self.shape.levels.len())
    }
}

impl Table {
    pub(super) fn new(
        store: Arc<Store>,
        name: &str,
        options: TableOptions,
        shape: Shape,
        base: Option<Arc<Run>>,
    ) -> Self {
        Table {
            active: WriteBuffer::new(options.write_buffer_bytes).charged(store.charge()),
            store,
            name: name.to_owned(),
            options: Arc::new(options),
            base,
            shape: Arc::new(shape),
            last_work: 0,
        }
    }

    /// The name that it has in snapshots.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was made with.
    #[must_use]
    pub fn options(&self) -> &TableOptions {
        &self.options
    }

    fn active_cost(&self) -> u64 {
        self.active.cost_bytes() + self.base.as_ref().map_or(0, |base| base.cost())
    }

    /// Applies the operations of `batch` in order, all or none of them.
    ///
    /// Works on merges in proportion to the bytes added, before anything changes: after an error the
    /// table is as it was, and the same update may be tried again. `Invalid` for keys or values that
    /// are too long, and for upserts without a merge operator; `Io` and `Corrupt` from merges.
    /// Cost: amortised O(log(n) / page entries) page writes an operation; none waits for a whole merge.
    pub fn update(&mut self, batch: &Batch) -> Result<()> {
        self.store.check_writable()?;
        batch.check(self.options.operator.is_some())?;
        let store = Arc::clone(&self.store);
        store.observe(Operation::Update, batch.len() as u64, || {
            let active = self.active_cost();
            self.with_schedule(|schedule, shape| schedule.pay(shape, active, batch.cost()))?;
            self.apply(batch);
            Ok(())
        })
    }

    /// Runs `action` on the schedule and keeps count of its work.
    pub(super) fn with_schedule<T>(
        &mut self,
        action: impl FnOnce(&mut Schedule<'_>, &mut Arc<Shape>) -> Result<T>,
    ) -> Result<T> {
        let mut schedule = Schedule { store: &self.store, options: &self.options, work: 0 };
        let start_ns = self.store.now_ns();
        let outcome = action(&mut schedule, &mut self.shape);
        self.last_work = schedule.work;
        if self.last_work > 0 {
            self.store.record(Operation::Merge, start_ns, self.last_work);
        }
        outcome
    }

    /// Puts the operations into the buffer, sealing it whenever it is full. Cannot fail.
    fn apply(&mut self, batch: &Batch) {
        let options = Arc::clone(&self.options);
        let operator = options.operator.as_ref();
        let base_cost = self.base.as_ref().map_or(0, |base| base.cost());
        let mut limit = options.write_buffer_bytes.saturating_sub(base_cost);
        for entry in batch.entries() {
            let hash = hash(self.store.salt, entry.key);
            self.active
                .insert(entry, hash, &|older, newer| operator::combine(operator, older, newer));
            if self.active.cost_bytes() >= limit {
                let empty = WriteBuffer::new(options.write_buffer_bytes);
                let empty = empty.charged(self.store.charge());
                self.active.count_in_budget();
                let full = std::mem::replace(&mut self.active, empty);
                let schedule = Schedule { store: &self.store, options: &options, work: 0 };
                schedule.seal(&mut self.shape, full, self.base.take());
                limit = options.write_buffer_bytes;
            }
        }
        self.active.count_in_budget();
    }

    /// The work of the last update or [`Table::work`]: bytes of entries (key + value + 16 each) that
    /// write-outs and merges read in the call itself, without what an executor did beside it.
    #[must_use]
    pub fn last_work(&self) -> u64 {
        self.last_work
    }

    /// Works ahead on merges by up to `credits` bytes of entries; returns how much is left to do. Also
    /// while merges are paused.
    pub fn work(&mut self, credits: u64) -> Result<u64> {
        self.store.check_writable()?;
        self.with_schedule(|schedule, shape| schedule.work_ahead(shape, credits))
    }

    /// The content of this moment, for any number of readers on any thread. O(1).
    #[must_use]
    pub fn view(&self) -> View {
        View {
            store: Arc::clone(&self.store),
            active: self.active.clone(),
            base: self.base.clone(),
            shape: Arc::clone(&self.shape),
            operator: self.options.operator.clone(),
        }
    }

    /// A table called `name` with the same content, independent from now on. O(1): they share all
    /// runs and merges, and whichever pays for a shared merge pays for both.
    pub fn duplicate(&self, name: &str) -> Result<Table> {
        self.store.check_writable()?;
        paths::check_name("table", name)?;
        Ok(Table {
            store: Arc::clone(&self.store),
            name: name.to_owned(),
            options: Arc::clone(&self.options),
            active: self.active.clone(),
            base: self.base.clone(),
            shape: Arc::clone(&self.shape),
            last_work: 0,
        })
    }

    /// See [`View::lookup`].
    pub fn lookup<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Values> {
        self.view().lookup(keys)
    }

    /// See [`View::lookup_into`].
    pub fn lookup_into<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut Values) -> Result<()> {
        self.view().lookup_into(keys, values)
    }

    /// See [`View::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.view().get(key)
    }

    /// See [`View::range`].
    pub fn range(
        &self,
        lower: Bound<&[u8]>,
        upper: Bound<&[u8]>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.view().range(lower, upper)
    }

    /// See [`View::cursor`].
    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Cursor> {
        self.view().cursor(lower, upper)
    }

    /// Levels, merges, sizes and memory. O(segments), no disk.
    pub fn stats(&self) -> Result<TableStats> {
        self.store.check_open()?;
        Ok(stats::table(&self.view(), &self.name))
    }

    /// Drops the table; what no snapshot, duplicate or view holds is removed from disk.
    pub fn close(self) -> Result<()> {
        self.store.check_open()
    }

    /// The table's shape with every sealed buffer written out, and its active buffer as a run.
    /// The table itself stays as it is, but profits from the merge work.
    pub(super) fn written_out(&self) -> Result<(Arc<Shape>, Option<Arc<Run>>)> {
        let mut shape = Arc::clone(&self.shape);
        let mut schedule = Schedule { store: &self.store, options: &self.options, work: 0 };
        while !shape.sealed.is_empty() {
            schedule.settle(&mut shape)?;
        }
        if self.active.is_empty() {
            return Ok((shape, self.base.clone()));
        }
        let mut inputs = vec![Input::Buffer(self.active.clone())];
        inputs.extend(self.base.clone().map(Input::Run));
        let operator = self.options.operator.clone();
        let bits = self.options.filter_bits;
        let plan = (Purpose::Snapshot, false, bits);
        let job = MergeJob::new(Arc::clone(&self.store), inputs, operator, plan);
        job.finish()?;
        Ok((shape, Some(Arc::clone(&job.state().outputs))))
    }
}

//! A table that is open: its write buffer, its levels, and the one who may change them.
//!
//! Everything that can fail in an update comes before anything changes: first the merges are paid, then
//! the operations go into the buffer, which only moves memory. An operator of the host may panic there,
//! so it is called on a draft before the log has anything. Design: `docs/design/table.md`.

use std::ops::Bound;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::table::buffer::{Batch, PREFETCHED, WriteBuffer};
use crate::table::bytes::KeyRange;
use crate::table::bytes::operator::{self, MergeOperator};
use crate::table::durable::{LiveWriter, LogPoint, TableState};
use crate::table::merge::{Schedule, Shape};
use crate::table::read::stats::{self, TableStats};
use crate::table::read::{Cursor, Values, View};
use crate::table::runs::Run;
use crate::table::shared::{Operation, SegmentStore, TableOptions, paths};

/// A map from keys to values, with one writer.
///
/// ```
/// use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
///
/// let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
/// let mut table = session.create_table("utxo", TableOptions::utxo())?;
/// let mut batch = Batch::new();
/// batch.insert(b"tx1#0", b"5 ada").insert(b"tx1#1", b"2 ada").delete(b"tx0#7");
/// table.update(&batch)?;
/// assert_eq!(table.get(b"tx1#0")?.as_deref(), Some(&b"5 ada"[..]));
/// # Ok::<(), varvite::Error>(())
/// ```
pub struct Table {
    name: String,
    pub(in crate::table) options: Arc<TableOptions>,
    active: WriteBuffer,
    /// Older entries of the active buffer, which a snapshot had put on disk.
    base: Option<Arc<Run>>,
    pub(in crate::table) shape: Arc<Shape>,
    last_work: u64,
    /// Of a live table.
    live: Option<LiveWriter>,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    pub(in crate::table) store: Arc<SegmentStore>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({}, {:?}, {} levels)", self.name, self.active, self.shape.levels.len())
    }
}

impl Table {
    pub(in crate::table) fn new(
        store: Arc<SegmentStore>,
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
            live: None,
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
    /// are too long, and for upserts without a merge operator; `Io` and `Corrupt` from merges. Also when
    /// the host's merge operator panics the table, and its log, are as they were.
    /// Cost: amortised O(log(n) / page entries) page writes an operation; none waits for a whole merge.
    pub fn update(&mut self, batch: &Batch) -> Result<()> {
        self.store.check_writable()?;
        self.check_batch(batch)?;
        let store = Arc::clone(&self.store);
        store.observe(Operation::Update, batch.len() as u64, || {
            store.remove_some();
            self.sync_blobs(batch)?;
            self.pay(batch)?;
            let live = self.live.as_ref().filter(|_| !batch.is_empty());
            live.map_or(Ok(()), |live| self.write_checkpoint(live))?;
            let draft = self.draft(batch);
            let parts = |live: &LiveWriter| std::iter::once((live.id(), batch));
            let at = live.map(|live| logged(&store, live, batch.len() as u64, parts(live)));
            self.apply_at(batch, draft, at.transpose()?);
            Ok(())
        })
    }

    pub(in crate::table) fn check_batch(&self, batch: &Batch) -> Result<()> {
        let has_operator = self.options.operator.is_some();
        batch.check(has_operator)?;
        if batch.blobs().len() == 0 {
            return Ok(());
        }
        let why = if has_operator {
            "the table has a merge operator, which joins whole values"
        } else if !batch.blobs().all(|blob| blob.is_of(&self.store.closed)) {
            "the value is of another session"
        } else {
            return Ok(());
        };
        Err(Error::invalid(format!(
            "a value in a blob file cannot be inserted as it is into table {}: {why}; insert its bytes",
            self.name
        )))
    }

    /// Makes the blob files durable that the log's record is to name. Mostly their writers did; those
    /// that merges wrote wait for a snapshot or a checkpoint otherwise.
    fn sync_blobs(&self, batch: &Batch) -> Result<()> {
        if self.live.is_none() || batch.blobs().all(|blob| blob.is_durable()) {
            return Ok(());
        }
        self.store.write(|| self.store.sync_blobs(batch.blobs()))
    }

    /// The merge work that is due before `batch` is applied.
    pub(in crate::table) fn pay(&mut self, batch: &Batch) -> Result<()> {
        let active = self.active_cost();
        self.with_schedule(|schedule, shape| schedule.pay(shape, active, batch.cost()))
    }

    /// Where the table's clock stands.
    pub(in crate::table) fn clock(&self) -> u64 {
        let schedule = Schedule { store: &self.store, options: &self.options, work: 0 };
        schedule.clock(&self.shape, self.active_cost())
    }

    /// Runs `action` on the schedule and keeps count of its work.
    pub(in crate::table) fn with_schedule<T>(
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

    /// Puts the operations into the buffer, sealing it whenever it is full. Cannot fail. Gives where
    /// new buffers begin when the first operation is that at `at` of the log.
    fn apply(&mut self, batch: &Batch, at: LogPoint) -> Vec<LogPoint> {
        let begun = self.put(batch, at);
        self.count_in_budget(begun.len());
        begun
    }

    /// The same without counting it in the budget.
    fn put(&mut self, batch: &Batch, at: LogPoint) -> Vec<LogPoint> {
        let options = Arc::clone(&self.options);
        let operator = options.operator.as_ref();
        let base_cost = self.base.as_ref().map_or(0, |base| base.cost());
        let mut limit = options.write_buffer_bytes.saturating_sub(base_cost);
        let mut begun = Vec::new();
        self.active.hold(batch.blobs());
        let (salt, mut done) = (self.store.salt, at.skip);
        let rest = batch.entries().skip(at.skip as usize);
        let mut rest = rest.map(|entry| (entry, salt.hash(entry.key)));
        let mut group = Vec::with_capacity(PREFETCHED);
        loop {
            group.clear();
            group.extend(rest.by_ref().take(PREFETCHED));
            match group.len() {
                0 => break,
                1 => {}
                _ => self.active.prefetch(&group),
            }
            for &(entry, hash) in &group {
                done += 1;
                self.active
                    .insert(entry, hash, &|older, newer| operator::combine(operator, older, newer));
                if self.active.cost_bytes() >= limit {
                    self.active.release();
                    self.seal_active();
                    self.active.hold(batch.blobs());
                    limit = options.write_buffer_bytes;
                    begun.push(LogPoint { skip: done, ..at });
                }
            }
        }
        self.active.release();
        begun
    }

    /// Seals the full buffer and begins an empty one.
    fn seal_active(&mut self) {
        let empty = WriteBuffer::new(self.options.write_buffer_bytes);
        let full = std::mem::replace(&mut self.active, empty.charged(self.store.charge()));
        let schedule = Schedule { store: &self.store, options: &self.options, work: 0 };
        schedule.seal(&mut self.shape, full, self.base.take());
    }

    /// Counts what the buffer and the last `sealed_count` sealed ones hold by now.
    fn count_in_budget(&mut self, sealed_count: usize) {
        if sealed_count > 0 {
            let sealed = &mut Arc::make_mut(&mut self.shape).sealed;
            let newest = sealed.iter_mut().rev().take(sealed_count);
            newest.for_each(|sealed| sealed.buffer.count_in_budget());
        }
        self.active.count_in_budget();
    }

    /// The table after `batch`, and where its buffers begin, if the host's operator may be called:
    /// should it panic, nothing has happened yet. The table itself is then a draft that nobody sees.
    fn draft(&self, batch: &Batch) -> Option<(Table, Vec<LogPoint>)> {
        let is_hosts = self.options.operator.as_ref().is_some_and(MergeOperator::is_hosts);
        (is_hosts && batch.has_upserts()).then(|| {
            let mut draft = self.copy_as(String::new());
            let begun = draft.put(batch, LogPoint::default());
            (draft, begun)
        })
    }

    /// Takes on `draft`, whose update is at `at` of the log.
    fn install(&mut self, (draft, begun): (Table, Vec<LogPoint>), at: LogPoint) -> Vec<LogPoint> {
        (self.active, self.base, self.shape) = (draft.active, draft.base, draft.shape);
        self.count_in_budget(begun.len());
        begun.into_iter().map(|begun| LogPoint { skip: begun.skip, ..at }).collect()
    }

    /// The same for an update that is at `at` in the log, if it is in it.
    pub(super) fn apply_at(
        &mut self,
        batch: &Batch,
        draft: Option<(Table, Vec<LogPoint>)>,
        at: Option<LogPoint>,
    ) {
        if let (Some(live), Some(_)) = (&self.live, at) {
            live.clear_state();
        }
        let begins = at.unwrap_or_default();
        let begun = match draft {
            Some(draft) => self.install(draft, begins),
            None => self.apply(batch, begins),
        };
        if let (Some(live), Some(at)) = (&self.live, at) {
            live.set_state(self.table_state(), begun, Some(at.after()));
        }
    }

    /// What others need to write a checkpoint of it.
    fn table_state(&self) -> TableState {
        TableState { view: self.view(), options: Arc::clone(&self.options) }
    }

    /// Begins the next log file and writes a checkpoint, if that is due. After a checkpoint that could
    /// not write this table out, the log has to grow no further for it.
    fn write_checkpoint(&self, live: &LiveWriter) -> Result<()> {
        if live.is_stuck() {
            self.written_out()?;
            live.note_sound();
        }
        if !live.is_checkpoint_due() {
            return Ok(());
        }
        // What was paid since the last update shall be in it.
        live.set_state(self.table_state(), Vec::new(), None);
        live.write_checkpoint()
    }

    /// The same for the table's own log, if it is live.
    pub(super) fn write_due_checkpoint(&self) -> Result<()> {
        self.live.as_ref().map_or(Ok(()), |live| self.write_checkpoint(live))
    }

    /// Logs that `range` is deleted, if the table is live.
    pub(super) fn log_delete_range(&self, range: &KeyRange) -> Result<Option<LogPoint>> {
        let Some(live) = &self.live else { return Ok(None) };
        let logged = self.store.observe(Operation::Log, 1, || live.append_delete_range(range));
        logged.map(Some)
    }

    /// The table as `table_state` has it.
    pub(in crate::table) fn resumed(name: &str, table_state: TableState) -> Table {
        let View { store, active, base, shape, .. } = table_state.view;
        let (name, options) = (name.to_owned(), table_state.options);
        Table { store, name, options, active, base, shape, last_work: 0, live: None }
    }

    /// Applies an update that the log has at `at`; pays for it unless the session only reads.
    pub(in crate::table) fn replay(
        &mut self,
        batch: &Batch,
        at: LogPoint,
    ) -> Result<Vec<LogPoint>> {
        if !self.store.read_only {
            self.pay(batch)?;
        }
        Ok(self.apply(batch, at))
    }

    /// Makes the table live: it has all of the log up to `applied`, and its buffers begin at
    /// `begun`.
    pub(in crate::table) fn live_from(
        &mut self,
        writer: LiveWriter,
        begun: Vec<LogPoint>,
        applied: LogPoint,
    ) {
        writer.reset(begun, applied);
        self.live_again(writer);
    }

    /// The same for a table whose place in the log its writer knows.
    pub(in crate::table) fn live_again(&mut self, writer: LiveWriter) {
        writer.set_state(self.table_state(), Vec::new(), None);
        self.live = Some(writer);
    }

    /// Whether updates go to the session's log, so that the table is found again as it is now.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// See [`View::written_out`].
    pub(in crate::table) fn written_out(&self) -> Result<(Arc<Shape>, Option<Arc<Run>>)> {
        self.view().written_out(&self.options)
    }

    /// Takes on what was written out of its buffers.
    pub(in crate::table) fn adopt(&mut self, shape: Arc<Shape>, base: Option<Arc<Run>>) {
        self.active =
            WriteBuffer::new(self.options.write_buffer_bytes).charged(self.store.charge());
        (self.shape, self.base) = (shape, base);
    }

    /// The work of the last update or [`Table::work`]: bytes of entries (key + value + 16 each) that
    /// write-outs and merges read in the call itself, without what an executor did beside it.
    #[must_use]
    pub fn last_work(&self) -> u64 {
        self.last_work
    }

    /// Works ahead on merges by up to `credits` bytes of entries; returns how much is left to do. Also
    /// while merges are paused. Reads and writes about as many bytes. `Io`, `Corrupt`, after which the
    /// table is as it was and the work may be tried again.
    pub fn work(&mut self, credits: u64) -> Result<u64> {
        self.store.check_writable()?;
        let left = self.with_schedule(|schedule, shape| schedule.work_ahead(shape, credits));
        self.store.remove_all();
        left
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
        Ok(self.copy_as(name.to_owned()))
    }

    fn copy_as(&self, name: String) -> Table {
        Table {
            store: Arc::clone(&self.store),
            name,
            options: Arc::clone(&self.options),
            active: self.active.clone(),
            base: self.base.clone(),
            shape: Arc::clone(&self.shape),
            last_work: 0,
            live: None,
        }
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

    /// Drops the table. What no snapshot, duplicate or view holds is removed from disk, unless the
    /// table is live: then it can be opened again.
    pub fn close(self) -> Result<()> {
        let store = Arc::clone(&self.store);
        drop(self);
        store.remove_all();
        store.check_open()
    }
}

/// Appends one record with `parts` of `count` operations to the log.
fn logged<'a>(
    store: &Arc<SegmentStore>,
    live: &LiveWriter,
    count: u64,
    parts: impl Iterator<Item = (u64, &'a Batch)> + Clone,
) -> Result<LogPoint> {
    store.observe(Operation::Log, count, || live.append(parts))
}

/// Applies each batch to its table, all of them or none; in the log they are one record.
pub fn update_all(store: &Arc<SegmentStore>, updates: &mut [(&mut Table, &Batch)]) -> Result<()> {
    store.check_writable()?;
    for (table, batch) in updates.iter() {
        table.check_batch(batch)?;
    }
    let count = updates.iter().map(|(_, batch)| batch.len() as u64).sum();
    store.observe(Operation::Update, count, || {
        store.remove_some();
        for (table, batch) in updates.iter_mut() {
            table.sync_blobs(batch)?;
            table.pay(batch)?;
        }
        let parts = || {
            let changed = updates.iter().filter(|(_, batch)| !batch.is_empty());
            changed.filter_map(|(table, batch)| Some((&**table, table.live.as_ref()?, *batch)))
        };
        for (table, live, _) in parts() {
            table.write_checkpoint(live)?;
        }
        let drafts: Vec<_> = updates.iter().map(|(table, batch)| table.draft(batch)).collect();
        let mut logs: Vec<_> = parts().map(|(_, live, batch)| (live.id(), batch)).collect();
        logs.sort_unstable_by_key(|(id, _)| *id);
        let first = parts().next();
        let at = first.map(|(_, live, _)| logged(store, live, count, logs.into_iter()));
        let at = at.transpose()?;
        for ((table, batch), draft) in updates.iter_mut().zip(drafts) {
            let at = at.filter(|_| table.live.is_some() && !batch.is_empty());
            table.apply_at(batch, draft, at);
        }
        Ok(())
    })
}

//! A table that is open: its write buffer, its levels, and the one who may change them.
//!
//! How it is updated stands in `update.rs`, how it is read where its view is. Design: `docs/design/table.md`.

use std::ops::Bound;
use std::sync::Arc;

use crate::error::Result;
use crate::table::buffer::WriteBuffer;
use crate::table::durable::{LiveWriter, LogPoint, ShapeCut, TableState};
use crate::table::merge::{Schedule, Shape};
use crate::table::read::stats::{self, TableStats};
use crate::table::read::{Bytes, Cursor, KeyBounds, Moment, Range, Values, View};
use crate::table::runs::Run;
use crate::table::shared::{
    CreatedName, Named, Opening, Operation, SegmentStore, TableOptions, paths,
};

/// A map from keys to values, with one writer.
///
/// Errors of every call, beside those that it names: `Io` where the disk fails, `Corrupt` where what is read is damaged, `Closed`
/// after the session was closed; of calls that write, `Poisoned` after a sync that failed.
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
    name: Arc<Named>,
    pub(in crate::table) options: Arc<TableOptions>,
    pub(super) active: WriteBuffer,
    /// Older entries of the active buffer, which a snapshot had put on disk.
    pub(super) base: Option<Arc<Run>>,
    pub(in crate::table) shape: Arc<Shape>,
    pub(super) last_work: u64,
    /// Of a live table.
    pub(super) live: Option<LiveWriter>,
    /// Of one that was created without a log: while it is there no other is created of its name.
    pub(in crate::table) created: Option<CreatedName>,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    pub(in crate::table) store: Arc<SegmentStore>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Table({}, {:?}, {} levels)",
            self.name.text(),
            self.active,
            self.shape.levels.len()
        )
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
            name: Named::untraced(name),
            store,
            options: Arc::new(options),
            base,
            shape: Arc::new(shape),
            last_work: 0,
            live: None,
            created: None,
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

    pub(in crate::table) fn shared_name(&self) -> Arc<Named> {
        Arc::clone(&self.name)
    }

    pub(super) fn active_cost(&self) -> u64 {
        self.active.cost_bytes() + self.base.as_ref().map_or(0, |base| base.cost())
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
        let begun = self.store.begin();
        let outcome = action(&mut schedule, &mut self.shape);
        self.last_work = schedule.work;
        if let Some(begun) = begun.filter(|_| self.last_work > 0) {
            self.store.record((Operation::Merge, &self.name), &begun, self.last_work);
        }
        outcome
    }

    /// What others need to write a checkpoint of it.
    pub(super) fn state(&self) -> TableState {
        let mut view = self.moment();
        if view.name.traced().is_some() {
            // They keep it longer than the host, who lets go of the table when its handle is dropped.
            view.name = Named::untraced(&self.name);
        }
        TableState { view, options: Arc::clone(&self.options) }
    }

    /// The table as `table_state` has it.
    pub(in crate::table) fn resumed(name: &str, table_state: TableState) -> Table {
        let View { store, active, base, shape, .. } = table_state.view;
        let (name, options) = (Named::untraced(name), table_state.options);
        let (live, created) = (None, None);
        Table { store, name, options, active, base, shape, last_work: 0, live, created }
    }

    /// Makes the table live: it has all of the log up to `applied`, and its buffers begin at
    /// `begun`; `cut` is what ranges took out of its segments since the oldest of these.
    pub(in crate::table) fn live_from(
        &mut self,
        writer: LiveWriter,
        begun: Vec<LogPoint>,
        applied: LogPoint,
        cut: Option<ShapeCut>,
    ) {
        writer.reset(begun, applied, cut);
        self.live_again(writer);
    }

    /// The same for a table whose place in the log its writer knows.
    pub(in crate::table) fn live_again(&mut self, writer: LiveWriter) {
        writer.publish(self.state(), Vec::new(), None);
        self.live = Some(writer);
    }

    /// Whether updates go to the session's log, so that the table is found again as it is now.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// See [`View::written_out`].
    pub(in crate::table) fn written_out(&self) -> Result<(Arc<Shape>, Option<Arc<Run>>)> {
        self.moment().written_out(&self.options)
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
        View { name: self.name.viewed(), ..self.moment() }
    }

    /// The same for a call on the table.
    pub(in crate::table) fn moment(&self) -> View {
        View {
            name: Arc::clone(&self.name),
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
        let copied = || {
            self.store.observe((Operation::Duplicate, name), 1, || {
                self.store.check_writable()?;
                paths::check_name("table", name)?;
                Ok(self.copy_as(Named::untraced(name)))
            })
        };
        self.name.duplicated(name, |copy: &mut Table| &mut copy.name, copied)
    }

    /// Tells the recorder, if there is one, that the host is given the table by the call that `opening` is.
    pub(in crate::table) fn name_by(&mut self, opening: &mut Opening<'_>) {
        self.name = opening.named(&self.name);
    }

    /// Tells the recorder, if there is one, that the snapshot which is saved next has the table.
    pub(in crate::table) fn told_as_saved(&self) {
        self.name.saved();
    }

    pub(in crate::table) fn copy_as(&self, name: Arc<Named>) -> Table {
        Table {
            store: Arc::clone(&self.store),
            name,
            options: Arc::clone(&self.options),
            active: self.active.clone(),
            base: self.base.clone(),
            shape: Arc::clone(&self.shape),
            last_work: 0,
            live: None,
            created: None,
        }
    }

    /// See [`View::lookup`].
    pub fn lookup<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Values> {
        self.moment().lookup(keys)
    }

    /// See [`View::lookup_into`].
    pub fn lookup_into<K: AsRef<[u8]>>(&self, keys: &[K], values: &mut Values) -> Result<()> {
        self.moment().lookup_into(keys, values)
    }

    /// See [`View::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.shape.union.is_some() {
            return self.moment().get_of_union(key);
        }
        let Table { name, active, base, shape, options, store, .. } = self;
        let (base, operator) = (base.as_ref(), options.operator.as_ref());
        Moment { name, active, base, shape, operator, store }.get(key)
    }

    /// See [`View::range`].
    #[must_use]
    pub fn range(&self, range: impl KeyBounds) -> Range {
        self.view().range(range)
    }

    /// See [`View::prefix`].
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
        self.view().prefix(prefix)
    }

    /// See [`View::iter`].
    #[must_use]
    pub fn iter(&self) -> Range {
        self.view().iter()
    }

    /// See [`View::cursor`].
    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Cursor> {
        self.view().cursor(lower, upper)
    }

    /// Levels, merges, sizes and memory. O(segments), no disk.
    pub fn stats(&self) -> Result<TableStats> {
        self.store.check_open()?;
        Ok(stats::table(&self.moment(), &self.name))
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

impl IntoIterator for &Table {
    type Item = Result<(Bytes, Bytes)>;
    type IntoIter = Range;

    fn into_iter(self) -> Range {
        self.iter()
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;
    use crate::table::write::Prepared;
    use crate::{Batch, Error, MergeOperator, Session, SessionOptions, TableOptions};

    /// While merges are paused nobody adds up what the sealed buffers hold.
    #[test]
    fn what_sealed_buffers_hold_is_known_at_each_moment() {
        let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
        let options = TableOptions { write_buffer_bytes: 64, ..TableOptions::default() };
        let mut table = session.create_table("t", options).unwrap();
        let mut held = 0;
        for number in 0..600_u32 {
            match number {
                100 | 400 => session.pause_merges(10_000),
                300 => session.resume_merges(),
                _ => {}
            }
            let entry = [7; 40];
            let length = (number % 40) as usize;
            if table.update(Batch::new().insert(&number.to_be_bytes(), &entry[..length])).is_err() {
                table.work(500).unwrap();
            }
            let shape = &table.shape;
            let sum: u64 = shape.sealed.iter().map(|sealed| sealed.buffer.cost_bytes()).sum();
            assert_eq!(shape.sealed_bytes, sum, "after {number} updates");
            held = held.max(sum);
        }
        assert!((5_000..=10_100).contains(&held), "{held}");
    }

    /// A host may be sent keys without end, each with a value that its operator refuses.
    #[test]
    fn keys_of_updates_that_fail_leave_the_filter() {
        let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
        let operator = MergeOperator::fallible("never", |_, _| Err(Error::invalid("a shout")));
        let options = TableOptions::default().with_operator(operator);
        let mut table = session.create_table("t", options).unwrap();
        let bound: Vec<_> = (0..100_u64).map(u64::to_be_bytes).collect();
        for key in &bound {
            table.update(Batch::new().insert(key, b"")).unwrap();
        }
        let mut next = 100_u64;
        let mut refused = |with_range: bool| {
            let mut batch = Batch::new();
            for _ in 0..100 {
                batch.insert(&next.to_be_bytes(), b"");
                next += 1;
            }
            if with_range {
                batch.delete_range(Bound::Excluded(&[0xff; 9]), Bound::Unbounded);
            }
            batch.upsert(&bound[0], b"");
            batch
        };
        for round in 0..100 {
            table.update(&refused(round % 2 == 0)).unwrap_err();
        }
        let passed = |table: &Table| {
            let keys = (100..20_000_u64).map(u64::to_be_bytes);
            keys.filter(|key| table.active.passes(table.store.salt.hash(key))).count()
        };
        assert!(passed(&table) < 600, "{} keys that are not there pass", passed(&table));

        // In steps of a transaction that is dropped, or goes on where it failed.
        for round in 0..50 {
            let mut prepared = Prepared::new(&table);
            for step in 0..4 {
                prepared.apply(&table, &refused((round + step) % 2 == 0)).unwrap_err();
            }
            let left = prepared.leftover(&table);
            drop(prepared);
            left.clear(&mut table);
        }
        assert!(passed(&table) < 1_200, "{} keys that are not there pass", passed(&table));
        assert!(bound.iter().all(|key| table.get(key).unwrap().is_some()));
    }

    /// The count of a draft begins anew with its filter, and what it left before in the table's is there all the same.
    #[test]
    fn keys_of_a_draft_that_made_its_filter_anew_leave_the_filter() {
        let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default()).unwrap();
        let operator = MergeOperator::fallible("never", |_, _| Err(Error::invalid("a shout")));
        let options = TableOptions::default().with_operator(operator);
        let mut table = session.create_table("t", options).unwrap();
        table.update(Batch::new().insert(b"bound", b"")).unwrap();
        for round in 0..20_u64 {
            let mut prepared = Prepared::new(&table);
            let mut batch = Batch::new();
            for number in 0..300 {
                batch.insert(&(round * 300 + number).to_be_bytes(), b"");
            }
            prepared.apply(&table, batch.upsert(b"bound", b"")).unwrap_err();
            prepared.apply(&table, Batch::new().upsert(b"bound", b"")).unwrap_err();
            let left = prepared.leftover(&table);
            drop(prepared);
            left.clear(&mut table);
        }
        let keys = (0..6_000_u64).map(u64::to_be_bytes);
        let passed = keys.filter(|key| table.active.passes(table.store.salt.hash(key))).count();
        assert!(passed < 700, "{passed} keys that are not there pass");
    }

    /// A scratch that a burst of threads had to do with is not what the thread that is left looks things up with.
    #[test]
    fn a_thread_alone_reads_together_again_after_a_burst() {
        let options = SessionOptions { max_open_files: Some(4), ..SessionOptions::default() };
        let session = Session::create(MemoryDisk::seeded(1), options).unwrap();
        let table = session.create_table("t", TableOptions::default()).unwrap();
        let store = &table.store;
        for is_first_last in [false, true] {
            let [first, second] = [(); 2].map(|()| store.take_scratch().unwrap());
            assert!(first.reads_together() && !second.reads_together());
            let (one, other) = if is_first_last { (second, first) } else { (first, second) };
            store.put_scratch(one);
            store.put_scratch(other);
            for _ in 0..3 {
                let scratch = store.take_scratch().unwrap();
                assert!(scratch.reads_together(), "it reads page after page");
                store.put_scratch(scratch);
            }
        }
        // One that a failed lookup drops leaves its place to the next.
        let [first, second] = [(); 2].map(|()| store.take_scratch().unwrap());
        drop(first);
        store.put_scratch(second);
        assert!(store.take_scratch().unwrap().reads_together());
    }

    #[test]
    fn what_a_burst_of_threads_looked_things_up_with_takes_no_memory_afterwards() {
        let memory = 64 << 20;
        let session =
            Session::create(MemoryDisk::seeded(1), SessionOptions::default().within_memory(memory))
                .unwrap();
        let table = session.create_table("t", TableOptions::default()).unwrap();
        let store = &table.store;
        let used = || store.options.cache.as_ref().unwrap().stats().charged_bytes;
        let before = used();
        let scratches: Vec<_> = (0..200).map(|_| store.take_scratch().unwrap()).collect();
        let most = used() - before;
        for scratch in scratches {
            store.put_scratch(scratch);
        }
        let kept = used() - before;
        assert!(kept > 0 && kept < most / 8, "{kept} of {most}");
    }
}

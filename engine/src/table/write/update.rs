//! An update, phase by phase: of one table, or of several that change together.
//!
//! What can fail comes before what changes a table. First the blob files are made durable that the log
//! is to name, and the merges are paid, whose work stays when the update fails; then a checkpoint is
//! written if one is due; then one record for all tables goes to the log. From there on only memory
//! changes. Ranges that a batch deletes are taken out of the shape, which nobody else sees before the update
//! stands, and become deletes of single keys. An operator of the host may fail or panic where entries meet, so it is called on a draft before
//! the log has anything. Design: `docs/design/table.md`.

use std::sync::Arc;

use super::range_delete::Expanded;
use super::table::Table;
use crate::error::{Error, Kind, Result};
use crate::order;
use crate::table::buffer::{Batch, Combine, PREFETCHED, WriteBuffer};
use crate::table::bytes::EntryRef;
use crate::table::bytes::operator::{self, MergeOperator};
use crate::table::durable::{LiveWriter, LogPoint, Pace, ShapeCut};
use crate::table::merge::{Schedule, Shape};
use crate::table::shared::{Named, Operation, SegmentStore};
use crate::trace::{self, Action};

/// Why what changes a table that others see cannot fail.
const DRAFTED: &str = "what may fail is done on a draft";

/// One update on its way; a method is a phase.
struct Update<'a, 'p> {
    store: &'a Arc<SegmentStore>,
    parts: &'p mut [Part<'a>],
}

/// What it does to one table.
struct Part<'a> {
    table: &'a mut Table,
    batch: &'a Batch,
    /// The batch without ranges, if it has some.
    expanded: Option<Expanded>,
    /// The shape before ranges were taken out of it, which the table gets back unless that is forgotten, also
    /// when the host's operator fails or panics. Merges that both share may stand further then, which changes nothing.
    before: Option<Arc<Shape>>,
    draft: Option<Draft>,
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            self.table.shape = before;
        }
    }
}

/// A table after an update. Nobody sees it yet.
pub(super) struct Draft {
    pub(super) table: Table,
    /// Where its buffers begin.
    pub(super) begun: Vec<LogPoint>,
    /// What was taken out of its segments, if the batch does not say it.
    pub(super) cut: Option<ShapeCut>,
    /// The merge work that was paid for it, if the table does not know of that.
    pub(super) work: Option<u64>,
}

/// Applies each batch to its table, all of them or none; in the log they are one record.
pub fn update_all(store: &Arc<SegmentStore>, updates: &mut [(&mut Table, &Batch)]) -> Result<()> {
    let parts = updates.iter_mut().map(|(table, batch)| Part::new(table, batch));
    Update { store, parts: &mut parts.collect::<Vec<_>>() }.run()
}

/// Gives each table the draft of its batch, all of them or none; in the log they are one record. After an error
/// the tables are as they were.
pub(super) fn install_all(
    store: &Arc<SegmentStore>,
    drafts: Vec<(&mut Table, &Batch, Draft)>,
) -> Result<()> {
    let part = |(table, batch, draft)| {
        let mut part = Part::new(table, batch);
        part.draft = Some(draft);
        part
    };
    Update { store, parts: &mut drafts.into_iter().map(part).collect::<Vec<_>>() }.finish()
}

impl Update<'_, '_> {
    /// The phases that are left where the tables have drafts.
    fn finish(&mut self) -> Result<()> {
        self.recorded(Self::finish_now)
    }

    /// Runs `work` as an update of each table, which a recorder is told of if there is one.
    fn recorded(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let store = self.store;
        let Some(recorder) = &store.options.recorder else { return work(self) };
        let (mut begun, outcome) = trace::run(recorder, || work(self));
        for part in &*self.parts {
            let name = part.table.shared_name();
            let batch = part.batch;
            trace::end(name.traced(), Some(begun), Action::Update, |to| batch.tell(to), &outcome);
            begun = recorder.begin();
        }
        recorder.forget(begun);
        outcome
    }

    fn finish_now(&mut self) -> Result<()> {
        self.check()?;
        let (store, count, name) = (self.store, self.count(), self.name());
        store.observe(
            (Operation::Update, name.as_ref().map_or("", |name| name.text())),
            count,
            || {
                store.remove_some();
                self.make_blobs_durable()?;
                self.write_checkpoint_if_due(Pace::ByBytes)?;
                let at = self.log()?;
                self.apply(at);
                Ok(())
            },
        )
    }

    fn run(&mut self) -> Result<()> {
        self.recorded(Self::run_now)
    }

    fn run_now(&mut self) -> Result<()> {
        self.check()?;
        let (store, count, name) = (self.store, self.count(), self.name());
        store.observe(
            (Operation::Update, name.as_ref().map_or("", |name| name.text())),
            count,
            || {
                store.remove_some();
                self.make_blobs_durable()?;
                if self.parts.iter().any(|part| !part.batch.ranges().is_empty()) {
                    // Not after the cut, which no checkpoint may have before the log has it.
                    self.write_checkpoint_if_due(Pace::ByBytes)?;
                    self.expand()?;
                    self.pay()?;
                } else {
                    self.pay_and_write_checkpoint()?;
                }
                self.draft()?;
                let at = self.log()?;
                self.apply(at);
                Ok(())
            },
        )
    }

    /// The name of the only table; empty where there are several.
    fn name(&self) -> Option<Arc<Named>> {
        let [part] = &*self.parts else { return None };
        Some(part.table.shared_name())
    }

    fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.batch.len() as u64).sum()
    }

    fn check(&self) -> Result<()> {
        self.store.check_writable()?;
        self.parts.iter().try_for_each(|part| part.table.check_batch(part.batch))
    }

    /// Makes the blob files durable that the log's record is to name. Mostly their writers did; those
    /// that merges wrote wait for a snapshot or a checkpoint otherwise.
    fn make_blobs_durable(&self) -> Result<()> {
        let live = self.parts.iter().filter(|part| part.table.live.is_some());
        let blobs = live.flat_map(|part| part.batch.blobs());
        if blobs.clone().all(|blob| blob.is_durable()) {
            return Ok(());
        }
        self.store.write(|| self.store.sync_blobs(blobs.clone()))
    }

    /// Takes out what ranges cover, and finds the keys that they delete.
    fn expand(&mut self) -> Result<()> {
        for part in self.parts.iter_mut().filter(|part| !part.batch.ranges().is_empty()) {
            part.before = Some(Arc::clone(&part.table.shape));
            part.expanded = Some(part.table.expand(part.batch, 0)?);
        }
        Ok(())
    }

    /// Does the merge work that is due before the batches are applied.
    fn pay(&mut self) -> Result<()> {
        let pay = |part: &mut Part<'_>| match &part.expanded {
            Some(expanded) => part.table.pay(&expanded.points),
            None => part.table.pay(part.batch),
        };
        self.parts.iter_mut().try_for_each(pay)
    }

    /// Merges, then a step towards a checkpoint that is due. On a full disk all of its steps come at once: then a
    /// part of the log goes, and the merges have room.
    fn pay_and_write_checkpoint(&mut self) -> Result<()> {
        match self.pay() {
            Err(error) if error.is_no_space() => {
                self.write_checkpoint_if_due(Pace::AtOnce).map_err(|_| error)?;
                self.pay()
            }
            paid => paid.and_then(|()| self.write_checkpoint_if_due(Pace::ByBytes)),
        }
    }

    fn write_checkpoint_if_due(&self, pace: Pace) -> Result<()> {
        let logged = self.parts.iter().filter(|part| part.log().is_some());
        write_checkpoint_if_due(&logged.map(|part| &*part.table), pace)
    }

    /// Calls the host's operators, as long as a failure or a panic of theirs leaves everything as it was.
    fn draft(&mut self) -> Result<()> {
        for part in &mut *self.parts {
            let points = part.expanded.as_ref().map_or(part.batch, |expanded| &expanded.points);
            part.draft = part.table.draft(points)?;
        }
        Ok(())
    }

    /// Logs one record for all live tables that change, as durable as was promised; gives its place.
    fn log(&mut self) -> Result<Option<LogPoint>> {
        let id = |part: &Part<'_>| part.log().map(LiveWriter::id);
        order::sort_by(self.parts, |a, b| id(a).cmp(&id(b)));
        let parts = self.parts.iter().filter_map(|part| Some((part.log()?, part.batch)));
        let Some((live, _)) = parts.clone().next() else { return Ok(None) };
        let name = self.name();
        let told = (Operation::Log, name.as_ref().map_or("", |name| name.text()));
        let logged = self.store.observe(told, self.count(), || {
            live.tables().log(&parts.map(|(live, batch)| (live.id(), batch)))
        });
        logged.map(Some)
    }

    /// Changes the tables, as the log has it at `at`. Cannot fail.
    fn apply(&mut self, at: Option<LogPoint>) {
        for part in &mut *self.parts {
            let at = at.filter(|_| part.log().is_some());
            let (batch, expanded) = (part.batch, part.expanded.as_ref());
            part.table.apply(batch, expanded, part.draft.take(), at);
            part.before = None;
        }
    }
}

impl Part<'_> {
    /// What a batch is to do to a table.
    fn new<'a>(table: &'a mut Table, batch: &'a Batch) -> Part<'a> {
        Part { table, batch, expanded: None, before: None, draft: None }
    }

    /// The log's side of the table, if its batch goes to the log. One that does nothing does not.
    fn log(&self) -> Option<&LiveWriter> {
        let expanded = self.expanded.as_ref();
        let is_idle = expanded.is_some_and(|it| it.cut.is_none() && it.points.is_empty());
        self.table.live.as_ref().filter(|_| !self.batch.is_empty() && !is_idle)
    }
}

/// Begins the next log file or goes on towards a checkpoint, if that is due. After a checkpoint that could not
/// write one of these tables out, the log has to grow no further for it.
pub(super) fn write_checkpoint_if_due<'a>(
    tables: &(impl Iterator<Item = &'a Table> + Clone),
    pace: Pace,
) -> Result<()> {
    let live = tables.clone().filter_map(|table| Some((table, table.live.as_ref()?)));
    let Some((_, first)) = live.clone().next() else { return Ok(()) };
    for (table, live) in live.clone() {
        let Err(error) = live.check_written_out(table.name(), || table.state()) else { continue };
        let is_over = matches!(error.kind(), Kind::Closed | Kind::Poisoned);
        // Where each update has the table nobody else would go on, and what goes with the checkpoint may make room.
        if !is_over && first.tables().is_checkpoint_due() {
            let _ = first.tables().write_checkpoint(Pace::AtOnce);
        }
        return Err(error);
    }
    if !first.tables().is_checkpoint_due() {
        return Ok(());
    }
    // What was paid since the last update shall be in it.
    live.for_each(|(table, live)| live.publish(table.state(), Vec::new(), None));
    first.tables().write_checkpoint(pace)
}

impl Table {
    /// Applies the operations of `batch` in order, all or none of them.
    ///
    /// Works on merges in proportion to the bytes added, before anything changes: after an error the
    /// table is as it was, and the same update may be tried again. `Invalid` for keys or values that
    /// are too long, and for upserts without a merge operator; `Io` and `Corrupt` from merges. Also when
    /// the host's merge operator fails or panics the table, and its log, are as they were.
    /// Cost: amortised O(log(n) / page entries) page writes an operation; none waits for a whole merge.
    pub fn update(&mut self, batch: &Batch) -> Result<()> {
        let store = &Arc::clone(&self.store);
        Update { store, parts: &mut [Part::new(self, batch)] }.run()
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
            self.name()
        )))
    }

    /// The merge work that is due before `batch` is applied.
    pub(in crate::table) fn pay(&mut self, batch: &Batch) -> Result<()> {
        let active = self.active_cost();
        self.with_schedule(|schedule, shape| schedule.pay(shape, active, batch.cost()))
    }

    /// Lets keys of drafts that did not stand go from the filter of the buffer, once there are many.
    pub(super) fn renew_filter(&mut self) {
        let salt = self.store.salt;
        self.active.renew_filter(|key| salt.hash(key));
    }

    /// The table after `batch`, if the host's operator may be called: should it fail or panic, nothing has
    /// happened yet.
    pub(super) fn draft(&mut self, batch: &Batch) -> Result<Option<Draft>> {
        let is_hosts = self.options.operator.as_ref().is_some_and(MergeOperator::is_hosts);
        if !is_hosts || !batch.has_upserts() {
            return Ok(None);
        }
        self.renew_filter();
        let mut table = self.copy_as(Named::untraced(""));
        // Its keys go to the filter that both share. The draft does not count them, should it stand.
        self.active.count_stale(batch.len() as u64);
        let begun = table.put(batch, LogPoint::default())?;
        Ok(Some(Draft { table, begun, cut: None, work: None }))
    }

    /// Applies `batch`, which is at `at` in the log if it is in it, or takes on the draft of that; with ranges
    /// as they were expanded. What
    /// others see of a live table is gone meanwhile, so that nothing is copied.
    pub(super) fn apply(
        &mut self,
        batch: &Batch,
        expanded: Option<&Expanded>,
        draft: Option<Draft>,
        at: Option<LogPoint>,
    ) {
        if let (Some(live), Some(_)) = (&self.live, at) {
            live.clear_state();
        }
        let begins = at.unwrap_or_default();
        let cut = match &draft {
            Some(Draft { cut: Some(cut), .. }) => {
                Some(ShapeCut { until: begins.after(), ..cut.clone() })
            }
            _ => expanded.and_then(|it| it.shape_cut(begins)),
        };
        let mut begun = match (draft, expanded) {
            (Some(draft), _) => self.install(draft, begins),
            (None, Some(expanded)) => self.put(&expanded.points, begins).expect(DRAFTED),
            (None, None) => self.put(batch, begins).expect(DRAFTED),
        };
        if let Some(expanded) = expanded {
            expanded.place(&mut begun);
        }
        self.count_in_budget(begun.len());
        if let (Some(live), Some(at)) = (&self.live, at) {
            if let Some(cut) = cut {
                live.note_cut(cut);
            }
            live.publish(self.state(), begun, Some(at.after()));
        }
    }

    /// Puts the operations into the buffer, sealing it whenever it is full. Gives where new buffers begin
    /// when the first operation is that at `at` of the log. What the host's operator failed with: the table has some of the
    /// operations then.
    pub(super) fn put(&mut self, batch: &Batch, at: LogPoint) -> Result<Vec<LogPoint>> {
        let options = Arc::clone(&self.options);
        let operator = options.operator.as_ref();
        let join =
            |older: EntryRef<'_>, newer: EntryRef<'_>| operator::combine(operator, older, newer);
        self.put_joined(batch, at, &join, &mut |_, error| Err(error))
    }

    /// The same with entries of one key joined by `join`. Where that fails, `ends_before` is asked whether the buffer
    /// is to end before the entry.
    pub(super) fn put_joined(
        &mut self,
        batch: &Batch,
        at: LogPoint,
        join: Combine<'_>,
        ends_before: &mut dyn FnMut(&Table, Error) -> Result<()>,
    ) -> Result<Vec<LogPoint>> {
        let base_cost = self.base.as_ref().map_or(0, |base| base.cost());
        let mut limit = self.options.write_buffer_bytes.saturating_sub(base_cost);
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
                if let Err(error) = self.active.insert(entry, hash, join) {
                    ends_before(self, error)?;
                    limit = self.end_buffer(batch);
                    begun.push(LogPoint { skip: done, ..at });
                    self.active.insert(entry, hash, join)?;
                }
                done += 1;
                if self.active.cost_bytes() >= limit {
                    limit = self.end_buffer(batch);
                    begun.push(LogPoint { skip: done, ..at });
                }
            }
        }
        self.active.release();
        Ok(begun)
    }

    /// Seals the buffer amid `batch`; gives what the next one takes.
    fn end_buffer(&mut self, batch: &Batch) -> u64 {
        self.active.release();
        self.seal_active();
        self.active.hold(batch.blobs());
        self.options.write_buffer_bytes
    }

    /// Takes on `draft`, whose update is at `at` of the log.
    pub(super) fn install(
        &mut self,
        Draft { table, begun, work, .. }: Draft,
        at: LogPoint,
    ) -> Vec<LogPoint> {
        (self.active, self.base, self.shape) = (table.active, table.base, table.shape);
        // One that has no work of its own is a step of another draft, or of an update, and nothing stands by it yet.
        if let Some(work) = work {
            self.active.stand();
            self.last_work = work;
        }
        begun.into_iter().map(|begun| LogPoint { skip: begun.skip, ..at }).collect()
    }

    /// Seals the full buffer and begins an empty one.
    fn seal_active(&mut self) {
        let empty = WriteBuffer::new(self.options.write_buffer_bytes);
        let full = std::mem::replace(&mut self.active, empty.charged(self.store.charge()));
        let schedule = Schedule { store: &self.store, options: &self.options, work: 0 };
        schedule.seal(&mut self.shape, full, self.base.take());
    }

    /// Counts what the buffer and the last `sealed_count` sealed ones hold by now.
    pub(super) fn count_in_budget(&mut self, sealed_count: usize) {
        if sealed_count > 0 {
            let sealed = &mut Arc::make_mut(&mut self.shape).sealed;
            let newest = sealed.iter_mut().rev().take(sealed_count);
            newest.for_each(|sealed| sealed.buffer.count_in_budget());
        }
        self.active.count_in_budget();
    }
}

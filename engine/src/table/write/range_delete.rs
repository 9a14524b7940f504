//! Deletes whole ranges of keys: segments that lie in one go at once, the rest key by key.
//!
//! What goes at once may uncover older entries of the same keys in segments at the edges of the range.
//! So what is still bound in the range is looked for afterwards, in the buffers and in those segments,
//! and gets ordinary deletes. Segments have no deletes of ranges, and lookups know nothing of them; the
//! log has the range, and doing it again on a table that has a part of it comes to the same.
//!
//! Invariant: views, duplicates and snapshots hold the old runs and merges, which stay as they were.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::table::Table;
use crate::cache::Charge;
use crate::error::Result;
use crate::order;
use crate::table::buffer::Batch;
use crate::table::bytes::{EntryKind, KeyRange};
use crate::table::durable::{LogPoint, ShapeCut};
use crate::table::merge::{Input, MergeJob, MergeState, Merging, Shape, last_filter_cost};
use crate::table::read::View;
use crate::table::runs::{Run, Segment};
use crate::table::shared::{Named, SegmentStore};

/// Where a range begins and ends.
type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Ranges without those that others have in them, joined where they meet, in the order of their keys.
struct Joined(Vec<KeyRange>);

impl Joined {
    fn new<'a>(ranges: impl Iterator<Item = &'a KeyRange>) -> Joined {
        let mut sorted: Vec<_> = ranges.map(KeyRange::bounds).collect();
        order::sort_by(&mut sorted, |one, other| by_lower(one.0, other.0));
        let mut joined: Vec<Bounds<'_>> = Vec::new();
        for (lower, upper) in sorted {
            match joined.last_mut() {
                Some((_, before)) if meet(*before, lower) => {
                    if ends_before(*before, upper) {
                        *before = upper;
                    }
                }
                _ => joined.push((lower, upper)),
            }
        }
        Joined(joined.into_iter().map(|(lower, upper)| KeyRange::new(lower, upper)).collect())
    }

    /// Whether every key from `first` to `last` lies in one of them.
    fn cover(&self, first: &[u8], last: &[u8]) -> bool {
        let begins = |range: &KeyRange| by_lower(range.bounds().0, Bound::Included(first)).is_le();
        let begun = self.0.partition_point(begins);
        begun.checked_sub(1).is_some_and(|place| self.0[place].covers(first, last))
    }
}

/// The order in which ranges begin.
fn by_lower(one: Bound<&[u8]>, other: Bound<&[u8]>) -> Ordering {
    fn place(bound: Bound<&[u8]>) -> Option<(&[u8], bool)> {
        match bound {
            Bound::Unbounded => None,
            Bound::Included(key) => Some((key, false)),
            Bound::Excluded(key) => Some((key, true)),
        }
    }
    place(one).cmp(&place(other))
}

/// Whether a range that ends at `one` ends before one that ends at `other`.
fn ends_before(one: Bound<&[u8]>, other: Bound<&[u8]>) -> bool {
    match (one, other) {
        (Bound::Unbounded, _) => false,
        (_, Bound::Unbounded) => true,
        (Bound::Excluded(one), Bound::Included(other)) => one <= other,
        (
            Bound::Included(one) | Bound::Excluded(one),
            Bound::Included(other) | Bound::Excluded(other),
        ) => one < other,
    }
}

/// Whether no key lies between a range that ends at `upper` and one that begins at `lower`, not before it.
fn meet(upper: Bound<&[u8]>, lower: Bound<&[u8]>) -> bool {
    match (upper, lower) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Excluded(upper), Bound::Excluded(lower)) => lower < upper,
        (
            Bound::Included(upper) | Bound::Excluded(upper),
            Bound::Included(lower) | Bound::Excluded(lower),
        ) => lower <= upper,
    }
}

/// Takes what ranges cover out of the parts of a table.
struct Cut<'a> {
    ranges: &'a Joined,
    store: &'a Arc<SegmentStore>,
    /// Where the table's clock stands.
    clock: u64,
    /// Whether something was taken out.
    changed: bool,
    /// The least and the greatest key of what was.
    keys: Option<(Vec<u8>, Vec<u8>)>,
}

impl Cut<'_> {
    /// The run without the segments that it covers, if there are any; `keep` stays in any case.
    fn run(&mut self, run: &Run, keep: Option<&Arc<Segment>>) -> Option<Arc<Run>> {
        let goes = |segment: &Arc<Segment>| {
            self.ranges.cover(segment.first_key(), segment.last_key())
                && !keep.is_some_and(|kept| Arc::ptr_eq(kept, segment))
        };
        let (gone, left): (Vec<_>, Vec<_>) = run.segments().iter().cloned().partition(goes);
        // They are in the order of their keys.
        let (first, last) = (gone.first()?.first_key(), gone.last()?.last_key());
        let (least, greatest) = self.keys.get_or_insert_with(|| (first.to_vec(), last.to_vec()));
        if first < least.as_slice() {
            *least = first.to_vec();
        }
        if last > greatest.as_slice() {
            *greatest = last.to_vec();
        }
        Some(Arc::new(Run::new(left)))
    }

    /// The merge without the segments that it covers, as one of its own: others may share this one.
    fn merge(&mut self, merging: &Merging) -> Option<Merging> {
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
        let mut plan = plan.clone();
        let left = inputs.iter().map(Input::cost).sum::<u64>()
            + last_filter_cost(&inputs, plan.filter_bits, self.store);
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

/// A batch with deletes of single keys in the place of its ranges.
pub(super) struct Expanded {
    pub(super) points: Batch,
    /// The least and the greatest key of the segments that went at once; none where none did.
    pub(super) cut: Option<(Vec<u8>, Vec<u8>)>,
    /// Operations of the batch that are left out.
    skipped: u64,
    /// Of ranges with no operation between them: where among the points their deletes begin, how many these are,
    /// and how many ranges.
    spans: Vec<(usize, usize, usize)>,
    memory: Memory,
}

/// What an expanded batch takes of the session's memory, counted as it grows.
struct Memory {
    charge: Option<Charge>,
    bytes: usize,
}

impl Memory {
    fn count(&mut self, points: &Batch) {
        let bytes = points.memory_bytes();
        if let Some(charge) = &self.charge
            && bytes != self.bytes
        {
            charge.set(bytes as u64);
        }
        self.bytes = bytes;
    }
}

impl Expanded {
    /// How many operations of the batch are done once so many points are. A range that is half done is not.
    fn done(&self, points: u64) -> u64 {
        let points = points as usize;
        let (mut single, mut ranges) = (points, 0);
        for &(start, count, joined) in &self.spans {
            single -= points.saturating_sub(start).min(count);
            ranges += if start + count <= points { joined } else { 0 };
        }
        self.skipped + (single + ranges) as u64
    }

    /// What the update that the log has at `at` takes out of the segments.
    pub(super) fn shape_cut(&self, at: LogPoint) -> Option<ShapeCut> {
        let (first_key, last_key) = self.cut.clone()?;
        Some(ShapeCut { until: at.after(), first_key, last_key })
    }

    /// Says in operations of the batch where new buffers begin, which is known in points.
    pub(super) fn place(&self, begun: &mut [LogPoint]) {
        for point in begun.iter_mut() {
            point.skip = self.done(point.skip);
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
        let mut batch = Batch::new();
        if batch.delete_range(lower, upper).is_empty() {
            return Ok(());
        }
        self.update(&batch)
    }

    /// Takes out what the ranges of `batch` cover, but for those among its first `skip` operations, and finds
    /// what else they delete. What `batch` does is then what the points do. After an error the table is half
    /// cut, and is to be forgotten or given its shape again.
    pub(super) fn expand(&mut self, batch: &Batch, skip: u64) -> Result<Expanded> {
        let ranges_skipped = (batch.ranges().iter().enumerate())
            .take_while(|(number, it)| ((it.at + number) as u64) < skip)
            .count();
        let points_skipped = skip as usize - ranges_skipped;
        let deletes = &batch.ranges()[ranges_skipped..];
        let ranges = Joined::new(deletes.iter().map(|it| &it.range));
        let clock = self.clock();
        let mut cut =
            Cut { ranges: &ranges, store: &self.store, clock, changed: false, keys: None };
        let shape = cut.shape(&self.shape);
        let keys = cut.keys.take().filter(|_| cut.changed);
        self.shape = Arc::new(shape);

        // What an update looks up is no call of the host.
        let view = View { name: Named::inner(self.name()), ..self.moment() };
        let mut expanded = Expanded {
            points: batch.emptied(),
            cut: keys,
            skipped: skip,
            spans: Vec::with_capacity(deletes.len()),
            memory: Memory { charge: self.store.charge(), bytes: 0 },
        };
        let Expanded { points, memory, spans, .. } = &mut expanded;
        let mut rest = batch.entries().enumerate().skip(points_skipped).peekable();
        // What the operations before a range have bound.
        let mut bound = BTreeSet::new();
        for joined in deletes.chunk_by(|one, next| one.at == next.at) {
            while let Some((_, entry)) = rest.next_if(|(number, _)| *number < joined[0].at) {
                points.push_entry(entry);
                match entry.kind {
                    EntryKind::Delete => bound.remove(entry.key),
                    _ => bound.insert(entry.key),
                };
            }
            let start = points.point_count();
            for range in &Joined::new(joined.iter().map(|it| &it.range)).0 {
                let (lower, upper) = range.bounds();
                let here: Vec<&[u8]> = bound.range::<[u8], _>((lower, upper)).copied().collect();
                for key in &here {
                    bound.remove(key);
                    points.delete(key);
                }
                let mut cursor = view.cursor(lower, upper)?;
                while let Some(key) = cursor.next_key()? {
                    if here.binary_search(&key).is_err() {
                        points.delete(key);
                        memory.count(points);
                    }
                }
            }
            spans.push((start, points.point_count() - start, joined.len()));
        }
        rest.for_each(|(_, entry)| points.push_entry(entry));
        memory.count(points);
        Ok(expanded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ranges between keys of one byte, three at a time: joined they have the keys that any had, each once.
    #[test]
    fn joined_ranges_have_the_keys_of_all() {
        let keys: Vec<[u8; 1]> = (1..6).map(|key| [key]).collect();
        let mut bounds = vec![Bound::Unbounded];
        for key in [2_u8, 3, 4] {
            bounds.extend([Bound::Included(vec![key]), Bound::Excluded(vec![key])]);
        }
        let pairs = bounds.iter().flat_map(|lower| bounds.iter().map(move |upper| (lower, upper)));
        let ranges =
            pairs.map(|(lower, upper)| KeyRange { lower: lower.clone(), upper: upper.clone() });
        let ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
        for one in &ranges {
            for other in &ranges {
                for third in [one, &ranges[0], &ranges[ranges.len() / 2]] {
                    let joined = Joined::new([one, other, third].into_iter());
                    for key in &keys {
                        let expected = [one, other, third].iter().any(|it| it.covers(key, key));
                        assert_eq!(joined.cover(key, key), expected, "{one:?} {other:?} {key:?}");
                        let times = joined.0.iter().filter(|it| it.covers(key, key)).count();
                        assert_eq!(times, usize::from(expected), "{one:?} {other:?} {key:?}");
                    }
                }
            }
        }
        let many: Vec<_> = (0..1_000).map(|_| ranges[1].clone()).collect();
        assert_eq!(Joined::new(many.iter()).0.len(), 1);
    }
}

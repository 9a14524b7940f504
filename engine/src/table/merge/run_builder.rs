//! Writes one run from entries that come in the order of their keys: segment after segment.

use std::sync::Arc;

use super::output::{BlobPlan, Output};
use crate::cache::Charge;
use crate::error::Result;
use crate::table::bytes::{EntryRef, bits_within};
use crate::table::runs::{Run, Segment, SegmentBuilder};
use crate::table::shared::{Purpose, SegmentStore};

/// Entries that a segment is taken to have until one is finished.
const ENTRIES_ASSUMED: u64 = 200_000;

/// A run in the making. What it wrote goes when it is dropped unfinished.
pub struct RunBuilder {
    store: Arc<SegmentStore>,
    /// Filter bits an entry, while there is room.
    filter_bits: u8,
    /// Bytes that its filters may still take.
    filter_room: u64,
    /// What goes to blob files.
    blobs: BlobPlan,
    builder: Option<Output>,
    segments: Vec<Arc<Segment>>,
    /// For what `builder` holds.
    charge: Option<Charge>,
    /// Entries until that is looked at again.
    until_charged: u32,
}

impl RunBuilder {
    /// A run with `filter_bits` an entry, as far as `filter_bytes_max` goes: how many entries will
    /// come is not known, so the first segments have their filters whole.
    pub fn new(
        store: &Arc<SegmentStore>,
        filter_bits: u8,
        filter_bytes_max: u64,
        blobs: BlobPlan,
    ) -> Self {
        RunBuilder {
            store: Arc::clone(store),
            filter_bits,
            filter_room: filter_bytes_max,
            blobs,
            builder: None,
            segments: Vec::new(),
            charge: store.charge(),
            until_charged: 0,
        }
    }

    /// Counts what the segment in work holds in the budget.
    fn charge(&mut self) {
        /// Entries between two looks, of a few bytes each in the filter and the index.
        const ENTRIES: u32 = 1024;
        self.until_charged = ENTRIES;
        if let Some(charge) = &self.charge {
            charge.set(self.builder.as_ref().map_or(0, Output::memory_bytes));
        }
    }

    /// The key added last; `None` before the first.
    #[inline]
    pub fn last_key(&self) -> Option<&[u8]> {
        match &self.builder {
            Some(builder) => Some(builder.last_key()),
            None => self.segments.last().map(|segment| segment.last_key()),
        }
    }

    /// Appends an entry, whose key is above the last one. After an error the builder is of no use.
    #[inline]
    pub fn add(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let builder = match &mut self.builder {
            Some(builder) => builder,
            none => {
                let room = self.filter_room;
                let segment = begin(&self.store, self.filter_bits, room, &self.segments)?;
                none.insert(Output::new(segment, self.blobs, Purpose::Load))
            }
        };
        builder.add(&self.store, entry)?;
        if builder.is_full(self.store.segment_bytes()) {
            return self.finish_segment();
        }
        match self.until_charged.checked_sub(1) {
            Some(left) => self.until_charged = left,
            None => self.charge(),
        }
        Ok(())
    }

    fn finish_segment(&mut self) -> Result<()> {
        let Some(builder) = self.builder.take() else { return Ok(()) };
        let finished = builder.finish(&self.store);
        self.charge();
        self.until_charged = 0;
        let segment = finished?;
        let taken = u64::from(segment.meta().footer.bloom_bytes());
        self.filter_room = self.filter_room.saturating_sub(taken);
        self.segments.push(segment);
        self.store.spares.shed();
        Ok(())
    }

    /// The run; `None` when nothing was added. Not synced.
    pub fn finish(mut self) -> Result<Option<Arc<Run>>> {
        self.finish_segment()?;
        let segments = std::mem::take(&mut self.segments);
        Ok((!segments.is_empty()).then(|| Arc::new(Run::new(segments))))
    }
}

fn begin(
    store: &SegmentStore,
    wanted: u8,
    room_bytes: u64,
    before: &[Arc<Segment>],
) -> Result<SegmentBuilder> {
    let entries = before.last().map_or(ENTRIES_ASSUMED, |segment| segment.meta().entries());
    store.build_segment(bits_within(wanted, room_bytes, entries), store.segment_bytes())
}

//! What a lookup needs and keeps for the next one: a queue of reads and buffers for pages.

use std::sync::Arc;

use crate::cache::Charge;
use crate::disk::open_files::QueuePlace;
use crate::disk::{Buffer, Disk, Queue, SerialQueue};
use crate::error::Result;
use crate::file::shared::Counted;
use crate::sync::{Mutex, lock};
use crate::table::bytes::PAGE_BYTES;

/// About what each read takes that a queue may have under way: a page, and what is asked and answered.
const READ_BYTES: u64 = PAGE_BYTES as u64 + 128;

/// See the module.
pub struct Scratch {
    pub queue: Box<dyn Queue>,
    buffers: Vec<Buffer>,
    /// None where so many threads look something up that this one reads page after page.
    place: Option<QueuePlace>,
    /// For what all of that takes of the session's memory, a page for each read that may be under way.
    _charge: Option<Charge>,
    /// Counted while it is there.
    _alive: Arc<()>,
}

/// So many are kept, or as many as are in use.
const KEPT_MAX: usize = 16;

/// Scratches that lookups have left for the next ones.
#[derive(Default)]
pub struct Scratches {
    kept: Mutex<Vec<Scratch>>,
    alive: Arc<()>,
}

impl Scratches {
    /// One that was kept.
    pub fn take(&self) -> Option<Scratch> {
        lock(&self.kept).pop()
    }

    /// See [`Scratch::new`].
    pub fn make(
        &self,
        disk: &dyn Disk,
        counted: &Counted,
        depth: usize,
        charge: Option<Charge>,
    ) -> Result<Scratch> {
        Scratch::new(disk, counted, depth, charge, &self.alive)
    }

    /// Keeps one with nothing under way. One that reads page after page goes, since the next may have a place by then;
    /// and so does what a burst of threads has left, with its rings and its part of the memory.
    pub fn put(&self, scratch: Scratch) {
        assert!(scratch.queue.pending() == 0, "a scratch is kept only when its reads are done");
        let mut kept = lock(&self.kept);
        if scratch.reads_together() {
            kept.push(scratch);
        }
        // The list has one, and so has each that is there.
        let in_use = Arc::strong_count(&self.alive).saturating_sub(1 + kept.len());
        let most = in_use.max(KEPT_MAX).min(kept.len());
        let surplus = kept.split_off(most);
        drop(kept);
        // Rings are closed, which is work of the system.
        drop(surplus);
    }

    /// Lets all go.
    pub fn clear(&self) {
        let kept = std::mem::take(&mut *lock(&self.kept));
        drop(kept);
    }
}

impl Scratch {
    /// With up to `depth` reads under way of the files that `counted` has on `disk`.
    fn new(
        disk: &dyn Disk,
        counted: &Counted,
        depth: usize,
        charge: Option<Charge>,
        alive: &Arc<()>,
    ) -> Result<Scratch> {
        // Each read under way holds its file: keys that are in more files than that go in groups.
        let depth = depth.min(counted.files_max() / 4).max(1);
        let place = counted.queue_place();
        let queue: Box<dyn Queue> =
            if place.is_some() { disk.queue(depth)? } else { Box::new(SerialQueue::new(depth)) };
        if let Some(charge) = &charge {
            charge.set(depth as u64 * READ_BYTES);
        }
        let alive = Arc::clone(alive);
        Ok(Scratch { queue, buffers: Vec::new(), place, _charge: charge, _alive: alive })
    }

    /// Whether its reads are under way together.
    pub fn reads_together(&self) -> bool {
        self.place.is_some()
    }

    /// A buffer for one page.
    pub fn buffer(&mut self) -> Buffer {
        self.buffers.pop().unwrap_or_else(|| self.queue.buffer(PAGE_BYTES))
    }

    /// Keeps a buffer for the next read.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }
}

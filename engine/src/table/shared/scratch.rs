//! What a lookup needs and keeps for the next one: a queue of reads and buffers for pages.

use crate::cache::Charge;
use crate::disk::open_files::QueuePlace;
use crate::disk::{Buffer, Disk, Queue, SerialQueue};
use crate::error::Result;
use crate::file::shared::Counted;
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
}

impl Scratch {
    /// With up to `depth` reads under way of the files that `counted` has on `disk`.
    pub fn new(
        disk: &dyn Disk,
        counted: &Counted,
        depth: usize,
        charge: Option<Charge>,
    ) -> Result<Scratch> {
        // Each read under way holds its file: keys that are in more files than that go in groups.
        let depth = depth.min(counted.files_max() / 4).max(1);
        let place = counted.queue_place();
        let queue: Box<dyn Queue> =
            if place.is_some() { disk.queue(depth)? } else { Box::new(SerialQueue::new(depth)) };
        if let Some(charge) = &charge {
            charge.set(depth as u64 * READ_BYTES);
        }
        Ok(Scratch { queue, buffers: Vec::new(), place, _charge: charge })
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

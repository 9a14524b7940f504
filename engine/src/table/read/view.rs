//! A table at one moment, for readers: cheap to take, to clone and to send to another thread.
//!
//! Its reads stand where they are done: in `lookup.rs`, `cursor.rs` and `value.rs`.

use std::sync::Arc;

use crate::error::Result;
use crate::table::buffer::WriteBuffer;
use crate::table::bytes::operator::MergeOperator;
use crate::table::merge::{BlobPlan, Input, MergeJob, Schedule, Shape};
use crate::table::runs::Run;
use crate::table::shared::{Named, Purpose, SegmentStore, TableOptions};

/// A table's content at the moment it was taken. Readers never wait for the writer or its disk.
///
/// It costs O(1) to take and to clone. Merges that finish meanwhile change where entries are, never
/// what they say, and a view holds on to no more files than the table itself.
///
/// In a session that only reads, a process that writes beside it may remove a file that is not open here any
/// more: reads of it are `Missing` then, with the advice to reload. See `docs/guide/open-files.md`.
///
/// ```
/// # use varvite::{Batch, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
/// # let session = Session::create(MemoryDisk::seeded(1), SessionOptions::default())?;
/// # let mut table = session.create_table("t", TableOptions::default())?;
/// table.update(Batch::new().insert(b"key", b"old"))?;
/// let view = table.view();
/// let reader = std::thread::spawn(move || view.get(b"key"));
/// table.update(Batch::new().insert(b"key", b"new"))?;
/// let found = reader.join().expect("the reader does not panic")?;
/// assert_eq!(found.as_deref(), Some(&b"old"[..]));
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Clone)]
pub struct View {
    /// Of the table.
    pub(in crate::table) name: Arc<Named>,
    pub(in crate::table) active: WriteBuffer,
    pub(in crate::table) base: Option<Arc<Run>>,
    pub(in crate::table) shape: Arc<Shape>,
    pub(in crate::table) operator: Option<MergeOperator>,
    /// Last, because the folder's lock goes with it, and files are removed under the lock only.
    pub(in crate::table) store: Arc<SegmentStore>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({:?}, {} levels)", self.active, self.shape.levels.len())
    }
}

impl View {
    /// The shape with every sealed buffer written out, and the active buffer as a run. The view
    /// itself stays as it is, but its table profits from the merge work.
    pub(in crate::table) fn written_out(
        &self,
        options: &TableOptions,
    ) -> Result<(Arc<Shape>, Option<Arc<Run>>)> {
        let mut shape = Arc::clone(&self.shape);
        let mut schedule = Schedule { store: &self.store, options, work: 0 };
        while !shape.sealed.is_empty() {
            schedule.finish_write_out(&mut shape)?;
        }
        if self.active.is_empty() {
            return Ok((shape, self.base.clone()));
        }
        let mut inputs = vec![Input::Buffer(self.active.clone())];
        inputs.extend(self.base.clone().map(Input::Run));
        let plan = (Purpose::Snapshot, false, options.filter_bits, BlobPlan::of(options));
        let job = MergeJob::new(Arc::clone(&self.store), inputs, options.operator.clone(), plan);
        job.finish()?;
        Ok((shape, Some(Arc::clone(&job.state().outputs))))
    }

    /// The shape without its sealed buffers, and what a snapshot had put on disk of the oldest
    /// buffer: all but what the buffers hold in memory.
    pub(in crate::table) fn without_buffers(&self) -> (Shape, Option<Arc<Run>>) {
        let mut shape = (*self.shape).clone();
        let oldest = shape.sealed.front();
        let base = oldest.map_or_else(|| self.base.clone(), |sealed| sealed.base.clone());
        shape.seals -= shape.sealed.len() as u64;
        shape.sealed.clear();
        shape.sealed_bytes = 0;
        (shape, base)
    }
}

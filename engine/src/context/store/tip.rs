//! The growing end of a pack: what commits append to, and what working trees spill to.
//!
//! One lock orders the two; it is taken after that of the index. A spilled batch has no commit record: it is written, not synced, counts
//! for nothing at recovery, and becomes durable with the sync of the commit that refers to it.

use std::sync::Arc;

use crate::context::batch::{self, Batch};
use crate::context::digest;
use crate::context::hash_index::{HashIndex, is_damage};
use crate::context::node::{Load, Slot};
use crate::context::observer::{self, Meter, Operation, Span};
use crate::context::pack::{Chunk, Pack, Spill};
use crate::disk::Lock;
use crate::error::{Error, Kind, Result};
use crate::file::append::{AppendFile, HEAD, Position};
use crate::sync::{Mutex, MutexGuard, lock};

/// See the module.
#[derive(Debug)]
pub(super) struct Tip {
    writer: Mutex<Writer>,
    index: Arc<Mutex<HashIndex>>,
}

/// What is under the tip's lock.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) append: AppendFile,
    pub(super) lock: Box<dyn Lock>,
    /// The chunk that is appended to.
    pub(super) chunk: Arc<Chunk>,
    /// Where the last checkpoint is, in that chunk.
    pub(super) checkpoint: u64,
    /// A replacement of the control file failed: which files count is not known.
    pub(super) poisoned: bool,
    pub(super) written_bytes: u64,
    pub(super) syncs: u64,
}

impl Tip {
    pub(super) fn new(
        append: AppendFile,
        lock_held: Box<dyn Lock>,
        chunk: Arc<Chunk>,
        index: Arc<Mutex<HashIndex>>,
    ) -> Arc<Tip> {
        let checkpoint = append.end().offset;
        let writer = Writer {
            append,
            lock: lock_held,
            chunk,
            checkpoint,
            poisoned: false,
            written_bytes: 0,
            syncs: 0,
        };
        Arc::new(Tip { writer: Mutex::new(writer), index })
    }

    /// The writer, alone. `Poisoned` after a failure.
    pub(super) fn writer(&self) -> Result<MutexGuard<'_, Writer>> {
        let writer = lock(&self.writer);
        if writer.poisoned {
            return Err(Error::new(
                Kind::Poisoned,
                "the context store stopped writing after a failure: reopen it",
            ));
        }
        Ok(writer)
    }

    /// The end of the last chunk.
    pub(super) fn position(&self) -> Position {
        lock(&self.writer).append.end()
    }

    /// Bytes written to pack and control file, and syncs.
    pub(super) fn traffic(&self) -> (u64, u64) {
        let writer = lock(&self.writer);
        (writer.written_bytes, writer.syncs)
    }
}

impl Writer {
    /// Logical offset of the first record of the next batch.
    pub(super) fn next_offset(&self) -> u64 {
        self.chunk.base + self.append.end().offset + HEAD as u64
    }

    /// Appends one batch, durably if `synced`.
    pub(super) fn append(
        &mut self,
        payload: &[u8],
        synced: bool,
        meter: Option<&Arc<Meter>>,
    ) -> Result<()> {
        self.append.push(payload)?;
        self.append.write()?;
        let bytes = (payload.len() + HEAD) as u64;
        self.written_bytes += bytes;
        observer::count(meter, |meter| &meter.bytes_written, bytes);
        if synced {
            self.sync(meter)?;
        }
        self.chunk.extend(self.append.end().offset);
        Ok(())
    }

    /// Appends one batch without a commit, and returns where the next one's first record will be.
    pub(super) fn spill(&mut self, payload: &[u8], meter: Option<&Arc<Meter>>) -> Result<u64> {
        self.append(payload, false, meter)?;
        Ok(self.next_offset())
    }

    /// Makes everything appended durable; does nothing when it is.
    pub(super) fn sync(&mut self, meter: Option<&Arc<Meter>>) -> Result<()> {
        if self.append.synced() == self.append.end().offset {
            return Ok(());
        }
        let start_ns = meter.map_or(0, |meter| meter.now_ns());
        self.append.sync()?;
        self.syncs += 1;
        if let Some(meter) = meter {
            let duration_ns = meter.now_ns().saturating_sub(start_ns);
            observer::count(Some(meter), |meter| &meter.sync_ns, duration_ns);
        }
        Ok(())
    }

    /// Goes on with another chunk.
    pub(super) fn go_on(&mut self, append: AppendFile, chunk: Arc<Chunk>) {
        self.append = append;
        self.chunk = chunk;
        self.checkpoint = Position::start().offset;
    }
}

impl Spill for Tip {
    fn spill(&self, pack: &Pack, root: &mut Slot) -> Result<()> {
        let Slot::Node(node) = &*root else { return Ok(()) };
        if node.width() == 0 {
            return Ok(());
        }
        let _span = Span::begin::<&[u8]>(pack.meter(), Operation::Spill, &[]);
        digest::node(node, Some(pack))?;
        let mut index = lock(&self.index);
        let mut writer = self.writer()?;
        if index.is_behind() {
            // It cannot say what is stored already: the tree stays in memory.
            return Ok(());
        }
        // A tree of before the store was cleared: its offsets mean nothing in the files of now.
        if !pack.chunks().last().is_some_and(|chunk| Arc::ptr_eq(chunk, &writer.chunk)) {
            return Ok(());
        }
        let mut known = None;
        if index.keeps_objects() {
            match index.known_objects(&batch::live_objects(node)) {
                // The next commit makes the index again.
                Err(error) if is_damage(&error) => return Ok(()),
                objects => known = Some(objects?),
            }
        }
        let start = writer.next_offset();
        let mut sink = |bytes: &[u8]| writer.spill(bytes, pack.meter());
        let mut batch = Batch::new(pack, start, known.as_ref()).in_pieces(&mut sink);
        let offset = batch.put_tree(node)?;
        let mut written = batch.finish();
        let bytes = std::mem::take(&mut written.bytes);
        if !bytes.is_empty() {
            writer.append(&bytes, false, pack.meter())?;
        }
        written.fresh.iter().for_each(|(hash, offset)| index.put_object(hash, *offset));
        // What the index does not take now stays in memory until the next commit.
        let _ = index.settle();
        drop(index);
        drop(writer);
        *root = Slot::StoredNode(offset);
        written.settle(pack);
        Ok(())
    }
}

//! Reads beside a collection, of this process or of another: it puts other files into the place of chunks.

use std::sync::Arc;

use super::Pack;
use crate::context::files::chunk_files::{self, Chunk};
use crate::context::files::control::{Control, Row};
use crate::context::files::record::{self, Record};
use crate::context::files::sparse::State;
use crate::error::{Kind, Result};
use crate::sync::{Ordering, lock};

/// What is done with a record: with its file, the place of its body in it, and the record.
type Look<'a> = &'a mut dyn FnMut(&str, u64, &Record<'_>) -> Result<()>;

impl Pack {
    /// Reads and verifies the record at `offset`: one copy for all that is made of records.
    pub(super) fn look_at(&self, offset: u64, keep: bool, each: Look<'_>) -> Result<()> {
        let (mut chunk, mut position, mut bytes) = self.beside_swaps(|| {
            self.above_or_below(offset, |chunk, position| self.bytes(chunk, position, keep))
        })?;
        let record = loop {
            match record::take(&chunk.path, position, self.store, offset, bytes.slice()) {
                Err(error) if error.kind() == Kind::Corrupt => {
                    if self.has_moved(&chunk, offset) {
                        return self.look_at(offset, keep, each);
                    }
                    let Some(below) = self.below(&chunk, offset) else { return Err(error) };
                    let again = self.bytes(&below.0, below.1, keep).map_err(|_| error)?;
                    ((chunk, position), bytes) = (below, again);
                }
                found => break found?,
            }
        };
        let file = &*chunk.path;
        let body = position + (record.length - record::CRC - record.body.len()) as u64;
        each(file, body, &record)
    }

    /// Does `read`, again when a file is missing, or is another under the same name, because a writer beside this one has put
    /// another into its place.
    pub(crate) fn beside_swaps<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            let before = self.swaps.load(Ordering::Acquire);
            match read() {
                // The generations of a chunk begin again once it was whole again.
                Err(error) if matches!(error.kind(), Kind::Missing | Kind::Corrupt) => {
                    let is_damage = error.kind() == Kind::Corrupt;
                    match self.reread_places(before) {
                        Ok(true) => {}
                        Err(gone) if !is_damage => return Err(gone),
                        _ => return Err(chunk_files::or_lost(error)),
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether what this handle took for `chunk` is not the file that has the record at `offset` by now: then its bytes
    /// say nothing of damage. Reads the control file.
    pub(super) fn has_moved(&self, chunk: &Chunk, offset: u64) -> bool {
        // Where that cannot be told, the bytes count.
        let reread = self.reread_places(self.swaps.load(Ordering::Acquire));
        reread.err().is_none_or(|error| error.kind() == Kind::Io)
            && self.chunk(offset).is_none_or(|now| {
                let above = now.above.as_ref().map(|above| above.state);
                ![Some(now.state), above].contains(&Some(chunk.state))
            })
    }

    /// Whether chunks are other files than when `before` was the number of swaps: then another thread has
    /// seen to it, or this one reads the control file. `Missing` when the store was cleared since, `Io` when
    /// that file cannot be read.
    fn reread_places(&self, before: u64) -> Result<bool> {
        let _alone = lock(&self.rereading);
        if self.swaps.load(Ordering::Acquire) != before {
            return Ok(true);
        }
        let control = match Control::read(self.files.disk()) {
            // It may say that the file was replaced, so a file that is not there may not be lost.
            Err(error) if error.kind() == Kind::Io => return Err(error),
            Err(_) => return Ok(false),
            Ok(control) => control,
        };
        let chunks = self.chunks();
        let Some(first) = chunks.first().filter(|_| control.store == self.store) else {
            return Ok(false);
        };
        if control.epoch > first.epoch {
            return Err(self.files.cleared());
        }
        if control.epoch < first.epoch {
            return Ok(false);
        }
        let mut found = chunks[0].number < control.chunks[0].number;
        for chunk in &chunks {
            let row = control.row(chunk.number);
            let is_same = |row: &&Row| {
                row.state != chunk.state && (row.base == chunk.base || row.state == State::Gone)
            };
            if let Some(row) = row.filter(is_same) {
                // One that had the records of several may be several again.
                let end = (chunk.number + chunk.numbers).max(row.number + row.count);
                let rows = control.rows(row.number..end).iter();
                let fresh =
                    rows.map(|row| Chunk::collected(&self.cache, self.store, control.epoch, row));
                self.swap_chunks(row.number..end, fresh.map(Arc::new).collect());
                found = true;
            }
        }
        self.forget_chunks(&control.chunks);
        self.swaps.fetch_add(u64::from(found), Ordering::AcqRel);
        // The writer of this process may have seen to it meanwhile.
        Ok(found || self.swaps.load(Ordering::Acquire) != before)
    }
}

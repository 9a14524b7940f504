//! Reads of chunks in the lower folder of which a part is above: that first, and below what it does not have.
//!
//! A part is a copy of some of the records of a chunk, which is whole below. So nothing is missing for what is not in
//! it, and one that cannot be read costs reads below, and nothing else.

use std::sync::Arc;

use super::{FoundRecord, Pack, collected};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::control::Above;
use crate::context::files::record;
use crate::error::{Error, Kind, Result};
use crate::sync::Ordering;

/// Whether the error is one of a read of a part for which what is below makes up: it is damaged, not there, or on a disk
/// that fails.
pub(crate) fn is_made_up_for(error: &Error) -> bool {
    matches!(error.kind(), Kind::Missing | Kind::Corrupt | Kind::Invalid | Kind::Io)
}

impl Pack {
    /// Where the record of `offset` is: above, if it is there. `Collected` when it is there no more.
    pub(super) fn find(&self, offset: u64, keep: bool) -> Result<FoundRecord> {
        // An error is the part's, or of what is below: then it says nothing of the part.
        let mut failed = None;
        let found = self.beside_swaps(|| {
            failed = None;
            let chunk = self.chunk(offset).ok_or_else(|| collected(offset))?;
            if let Some(part) = chunk.part() {
                match self.find_above(part, offset, keep) {
                    Ok(None) => {}
                    Ok(Some(found)) => return Ok(found),
                    Err(error) => {
                        failed = Some(Arc::clone(part));
                        return Err(error);
                    }
                }
            }
            self.found(&chunk, self.place_in(&chunk, offset)?, keep)
        });
        match (found, failed) {
            (Err(error), Some(part)) if is_made_up_for(&error) => {
                self.find_below(offset, keep, &part, error)
            }
            (found, _) => found,
        }
    }

    fn found(&self, chunk: &Arc<Chunk>, position: u64, keep: bool) -> Result<FoundRecord> {
        let bytes = self.bytes(chunk, position, keep)?;
        Ok(FoundRecord { chunk: Arc::clone(chunk), position, bytes })
    }

    /// The record of `offset` in `part`, if that has it.
    fn find_above(
        &self,
        part: &Arc<Chunk>,
        offset: u64,
        keep: bool,
    ) -> Result<Option<FoundRecord>> {
        let Some(entry) = self.entry(part, offset)? else { return Ok(None) };
        self.found(part, entry.place, keep).map(Some)
    }

    /// The record of `offset` in the lower folder, where `part` could not be read because of `error`: if it is
    /// there, the part is asked no more.
    pub(super) fn find_below(
        &self,
        offset: u64,
        keep: bool,
        part: &Chunk,
        error: Error,
    ) -> Result<FoundRecord> {
        let below = self.beside_swaps(|| {
            let chunk = self.chunk(offset).ok_or_else(|| collected(offset))?;
            let found = self.found(&chunk, self.place_in(&chunk, offset)?, keep)?;
            let (path, bytes) = (&chunk.path, found.bytes.slice());
            record::take(path, found.position, self.store, offset, bytes)?;
            Ok(found)
        });
        match below {
            Ok(found) => {
                part.spoil();
                Ok(found)
            }
            // The part is not there, or has nothing of it.
            Err(below)
                if error.kind() == Kind::Missing
                    || !is_made_up_for(&below)
                    || below.detail() == error.detail() =>
            {
                Err(below)
            }
            Err(below) => Err(error.context(format_args!("{}; and above", below.detail()))),
        }
    }

    /// Whether `chunk` is the part above of the chunk that `offset` is in.
    pub(super) fn is_part(&self, chunk: &Arc<Chunk>, offset: u64) -> bool {
        let of = self.chunk(offset);
        of.is_some_and(|of| of.any_part().is_some_and(|part| Arc::ptr_eq(part, chunk)))
    }

    /// Whether it is not known that the object at `offset` is above with all that it reaches, as far as `above` says.
    pub(crate) fn is_in_question(&self, offset: u64, above: &Above) -> Result<bool> {
        // References point back: nothing before the first chunk below is in question.
        if offset < self.first_below.load(Ordering::Acquire) || above.has(offset) {
            return Ok(false);
        }
        let chunk = self.chunk(offset).filter(|chunk| chunk.is_lower() && above.has_parts());
        let Some(part) = chunk.as_ref().and_then(|chunk| chunk.part()) else { return Ok(true) };
        match self.entry(part, offset) {
            Err(error) if is_made_up_for(&error) => Ok(true),
            entry => Ok(!entry?.is_some_and(|entry| entry.is_object)),
        }
    }
}

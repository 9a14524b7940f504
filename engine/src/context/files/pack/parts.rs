//! Reads of chunks in the lower folder of which a part is above: that first, and below what it does not have.
//!
//! A part is a copy of some of the records of a chunk, which is whole below. So nothing is missing for what is not in
//! it, and one that is damaged or not there costs reads below, and nothing else.

use std::sync::Arc;

use super::{FoundRecord, Pack, collected};
use crate::context::files::chunk_files::Chunk;
use crate::context::files::record;
use crate::error::{Error, Kind, Result};
use crate::sync::Ordering;

/// Whether the error may be of a part that is damaged or not there.
pub(crate) fn spoils(error: &Error) -> bool {
    matches!(error.kind(), Kind::Missing | Kind::Corrupt | Kind::Invalid)
}

impl Pack {
    /// Where the record of `offset` is: above, if it is there. `Collected` when it is there no more.
    pub(super) fn find(&self, offset: u64, keep: bool) -> Result<FoundRecord> {
        let found = self.beside_swaps(|| {
            let chunk = self.chunk(offset).ok_or_else(|| collected(offset))?;
            if let Some(part) = chunk.part()
                && let Some(entry) = self.entry(part, offset)?
            {
                return self.found(part, entry.place, keep);
            }
            let position = self.place_in(&chunk, offset)?;
            self.found(&chunk, position, keep)
        });
        match found {
            Err(error) if spoils(&error) && self.has_part(offset) => {
                self.find_below(offset, keep, error)
            }
            found => found,
        }
    }

    fn found(&self, chunk: &Arc<Chunk>, position: u64, keep: bool) -> Result<FoundRecord> {
        let bytes = self.bytes(chunk, position, keep)?;
        Ok(FoundRecord { chunk: Arc::clone(chunk), position, bytes })
    }

    /// The record of `offset` in the lower folder, where the part above could not be read because of `error`: if it is
    /// there, the part is asked no more.
    pub(super) fn find_below(&self, offset: u64, keep: bool, error: Error) -> Result<FoundRecord> {
        let below = self.beside_swaps(|| {
            let chunk = self.chunk(offset).ok_or_else(|| collected(offset))?;
            let found = self.found(&chunk, self.place_in(&chunk, offset)?, keep)?;
            let (path, bytes) = (&chunk.path, found.bytes.slice());
            record::take(path, found.position, self.store, offset, bytes)?;
            Ok(found)
        });
        match below {
            Ok(found) => {
                if let Some(part) = self.chunk(offset).as_ref().and_then(|chunk| chunk.part()) {
                    part.spoil();
                }
                Ok(found)
            }
            // The part is not there, or has nothing of it.
            Err(below)
                if error.kind() == Kind::Missing
                    || !spoils(&below)
                    || below.detail() == error.detail() =>
            {
                Err(below)
            }
            Err(below) => Err(error.context(format_args!("{}; and above", below.detail()))),
        }
    }

    /// Whether a part of the chunk that `offset` is in is above, whatever became of it.
    fn has_part(&self, offset: u64) -> bool {
        self.chunk(offset).is_some_and(|chunk| chunk.any_part().is_some())
    }

    /// Whether `chunk` is the part above of the chunk that `offset` is in.
    pub(super) fn is_part(&self, chunk: &Arc<Chunk>, offset: u64) -> bool {
        let of = self.chunk(offset);
        of.is_some_and(|of| of.any_part().is_some_and(|part| Arc::ptr_eq(part, chunk)))
    }

    /// Whether the object at `offset` cannot be read above with all that it refers to, because something of it is in the
    /// lower folder. Where that is not known, it cannot.
    pub(crate) fn is_below_alone(&self, offset: u64) -> Result<bool> {
        let above = self.above.load(Ordering::Acquire);
        // References point back: nothing before the first chunk below is in question.
        if offset < self.first_below.load(Ordering::Acquire) || above != 0 && offset >= above {
            return Ok(false);
        }
        let chunk = self.chunk(offset).filter(|chunk| chunk.is_lower() && above != 0);
        let Some(part) = chunk.as_ref().and_then(|chunk| chunk.part()) else { return Ok(true) };
        match self.entry(part, offset) {
            Err(error) if spoils(&error) => Ok(true),
            entry => Ok(!entry?.is_some_and(|entry| entry.is_object)),
        }
    }

    /// From logical offset `above` on all is above with what it refers to, and so are objects in parts; 0 where that is not
    /// known.
    pub(crate) fn set_above(&self, above: u64) {
        self.above.store(above, Ordering::Release);
    }
}

//! Files that nothing names any more: they go once nobody reads them, in pieces.
//!
//! They go by their names, which files of another store have too, and those of a copy of this one, where somebody has put them
//! there. So each is looked at before: another's stays, and is told.

use std::sync::Arc;

use crate::context::files::chunk_files::Chunk;
use crate::context::files::paths::whose;
use crate::context::store::tip::{Tip, Writer};
use crate::disk::{Disk, quietly};
use crate::error::Result;
use crate::file::piecewise::PiecewiseRemoval;

/// Bytes that a credit pays for.
pub(super) const CREDIT: u64 = 1024;

/// What the removal of a piece of a file costs.
pub(super) const PIECE: u64 = 128 * CREDIT;

impl Tip {
    /// Removes files that nobody reads any more, in pieces, until that has cost about `credits` bytes;
    /// returns the cost, 0 when there is none.
    pub(in crate::context::store) fn remove_doomed(
        &self,
        writer: &mut Writer,
        credits: u64,
    ) -> Result<u64> {
        let mut spent = 0;
        while spent < credits {
            if writer.removal.is_none() {
                let free = |chunk: &Arc<Chunk>| Arc::strong_count(chunk) == 1;
                let Some(place) = writer.doomed.iter().position(free) else { break };
                let chunk = writer.doomed.swap_remove(place);
                if self.is_kept(writer, &chunk)? {
                    spent += PIECE;
                    continue;
                }
                writer.removal = Some(PiecewiseRemoval::new(&self.disk, chunk.path.clone()));
            }
            writer.check_lock()?;
            // A file that stays is removed when the store is next opened.
            if let Some(done) = writer.removal.take_if(PiecewiseRemoval::go_on)
                && let Some(error) = done.failure()
            {
                self.warnings.add(whose::told_left(done.path(), error));
            }
            spent += PIECE;
        }
        Ok(spent)
    }

    /// Whether what has the name of `chunk` is another's, or nobody can say. That of a copy gets another name.
    pub(in crate::context::store) fn is_kept(
        &self,
        writer: &mut Writer,
        chunk: &Chunk,
    ) -> Result<bool> {
        if cfg!(varvite_js) {
            return Ok(false);
        }
        if !self.may_remove(&*self.disk, chunk) {
            return Ok(true);
        }
        let mut is_of_copy = None;
        quietly(|| is_of_copy = Some(chunk.is_of_copy(&*self.disk, self.store)));
        match is_of_copy {
            Some(Ok(true)) => {}
            Some(Ok(false)) => return Ok(false),
            unknown => {
                self.tell_unknown(&chunk.path, unknown);
                return Ok(true);
            }
        }
        writer.check_lock()?;
        let mut aside = None;
        quietly(|| aside = whose::set_aside(&*self.disk, &chunk.path).ok());
        let Some(aside) = aside else {
            // The next opening tries again.
            self.warnings.add(whose::told(&*self.disk, &chunk.path));
            return Ok(true);
        };
        // A name that a failed sync may have lost is never synced again as if it could come back.
        writer.poisoned = true;
        self.disk.sync_directory("")?;
        writer.poisoned = false;
        writer.syncs += 1;
        self.warnings.add(whose::told_aside(&chunk.path, &aside));
        Ok(true)
    }

    /// Whether the file of `chunk` in the folder of `disk` is none of another store. Where that cannot be seen it stays, for
    /// the next opening.
    pub(in crate::context::store) fn may_remove(&self, disk: &dyn Disk, chunk: &Chunk) -> bool {
        let mut is_others = None;
        quietly(|| is_others = Some(whose::is_others(disk, self.store, &chunk.path)));
        match is_others {
            Some(Ok(true)) => self.warnings.add(whose::told(disk, &chunk.path)),
            Some(Ok(false)) => return true,
            unknown => self.tell_unknown(&chunk.path, unknown),
        }
        false
    }

    /// Tells why it is not known whose the file at `path` is: it stays.
    fn tell_unknown(&self, path: &str, looked: Option<Result<bool>>) {
        if let Some(Err(error)) = looked {
            self.warnings.add(whose::told_left(path, &error));
        }
    }
}

impl Writer {
    /// A file is made at `path`: what had the name before, and was to be removed once nobody reads it, is not removed
    /// by it any more. Returns whether there was one.
    pub(in crate::context::store) fn reuse(&mut self, path: &str) -> bool {
        let before = self.doomed.len();
        self.doomed.retain(|chunk| *chunk.path != *path);
        let removal = self.removal.take_if(|removal| removal.path() == path);
        removal.is_some() || self.doomed.len() < before
    }
}

//! The room on a full disk for what makes more of it: see [`Reserve`](crate::file::reserve::Reserve).

use super::LiveTables;
use crate::disk::{Access, Mode, quietly};
use crate::error::{Error, Result};
use crate::sync::Ordering;
use crate::table::shared::paths::CHECKPOINT;

impl LiveTables {
    /// Does `write`, once more with the room of the reserve where it finds none; whether it had that. Where it finds none
    /// either, the reserve is made again at once, before others take the room.
    pub(super) fn give<T>(&self, write: impl FnMut() -> Result<T>) -> Result<(T, bool)> {
        self.give_if(|| true, write)
    }

    pub(super) fn give_if<T>(
        &self,
        is_there: impl FnOnce() -> bool,
        write: impl FnMut() -> Result<T>,
    ) -> Result<(T, bool)> {
        // A sync that failed for want of room has ended the session's writing.
        let may = || self.store.is_sound() && self.store.check_lock().is_ok() && is_there();
        let outcome = self.reserve.give(may, write);
        if outcome.as_ref().is_err_and(Error::is_no_space) {
            self.keep_reserve();
        }
        outcome
    }

    /// Sees to it that the reserve is there, before an update takes room that would not come back. The error is that there
    /// is none. Only within [`Reserve::beside`].
    pub(super) fn ensure_reserve(&self) -> Result<()> {
        if self.reserve.is_whole() {
            return Ok(());
        }
        self.store.check_lock()?;
        let wanted = self.reserve_wanted();
        if wanted == 0 {
            return Ok(());
        }
        match self.store.spares.make_room(|| self.reserve.keep(wanted)) {
            Err(error) if error.is_no_space() => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether the reserve has the room of a log file beside that of the next checkpoint. Sessions that each begin a file in
    /// it, and let nothing go, would else leave none for dropping a table.
    pub(super) fn has_more_than_a_checkpoint(&self) -> bool {
        let wanted = self.reserve_wanted();
        wanted > 0 && self.reserve.bytes() >= wanted.next_multiple_of(4_096) - (4 << 10)
    }

    /// How long the reserve is to be; 0 without a checkpoint, or where its length cannot be asked for.
    fn reserve_wanted(&self) -> u64 {
        let known = self.reserve_bytes.load(Ordering::Acquire);
        if known > 0 {
            return known;
        }
        let length = self.store.disk.open(CHECKPOINT, Mode::Read, Access::Buffered);
        let Ok(length) = length.and_then(|file| file.len()) else { return 0 };
        let wanted = reserve_bytes(length);
        // Whoever has written another meanwhile knows better.
        let before =
            self.reserve_bytes.compare_exchange(0, wanted, Ordering::AcqRel, Ordering::Acquire);
        before.map_or_else(|known| known, |_| wanted)
    }

    /// Makes the reserve again, as far as there is room, where it was given away.
    pub(super) fn keep_reserve(&self) {
        let wanted = self.reserve_wanted();
        if wanted > 0 && self.store.is_sound() && self.store.check_lock().is_ok() {
            quietly(|| drop(self.reserve.beside(|| self.reserve.keep(wanted))));
        }
    }

    /// The same when the session ends, if it had to do with it.
    pub fn keep_reserve_at_end(&self) {
        if self.reserve_bytes.load(Ordering::Acquire) > 0 {
            self.keep_reserve();
        }
    }

    /// The same for those that write nothing else just then, so that they do not do it when the session has ended.
    pub fn keep_reserve_again(&self) {
        let _ = self.store.write(|| {
            self.keep_reserve();
            Ok(())
        });
    }
}

/// How long the reserve is beside a checkpoint of so many bytes: it has room for the next one and for a log file with a
/// short record, and something over, as where a folder grows.
pub(super) fn reserve_bytes(checkpoint: u64) -> u64 {
    checkpoint.next_multiple_of(4_096) + (8 << 10)
}

//! Taking back a session that was only just made.

use super::lifecycle::Session;
use crate::error::{Error, Result};
use crate::sync::lock;
use crate::table::durable::folder;

impl Session {
    /// Removes the session, which this handle, or the one that it is a clone of, has [made](Session::create), with all that
    /// was written to it since: for a host that made it for what came to nothing, as an import of a damaged file. The folder
    /// stays, with whatever else is in it. Four syncs of folders. Tables and views that are still held give `Closed`.
    ///
    /// The lock is held until all is gone, so nothing of another process is ever removed: `Poisoned` when the folder is
    /// another's by now, as after it was moved away, and `Closed` when the session was closed, since others may have opened it
    /// meanwhile. `Invalid` for a session that was there before. In all these cases it stays as it is. After another error, or
    /// where the process dies meanwhile, it is there whole, or what is left reads as a session that is not made yet.
    ///
    /// ```
    /// use varvite::{Session, SessionOptions};
    /// use varvite::disk::Disk;
    /// use varvite::disk::memory::MemoryDisk;
    ///
    /// let disk = MemoryDisk::seeded(1);
    /// let session = Session::create(disk.clone(), SessionOptions::default())?;
    /// session.discard()?;
    /// assert!(disk.list("")?.is_empty());
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn discard(self) -> Result<()> {
        let _changing = lock(&self.changing);
        self.store.check_open()?;
        if !self.is_new {
            return Err(Error::invalid(format!(
                "the session at {} was not made by this handle, so it is not removed by it",
                self.root()
            )));
        }
        self.store.check_lock()?;
        self.store.close();
        let removed = folder::remove(&*self.store.disk, &|| self.store.check_lock());
        self.store.unlock();
        removed
    }
}

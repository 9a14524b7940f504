//! Taking back a store that was only just made.

use std::sync::Arc;

use crate::context::files::paths::{self, whose};
use crate::context::store::Store;
use crate::disk::subfolder::Subfolder;
use crate::disk::{Access, Disk, Lock, Mode};
use crate::error::{Error, Kind, Result};
use crate::file::replace;
use crate::sync::lock;
use crate::table::Session;

impl Store {
    /// Removes the store, which this handle has [made](Store::create), with all that was written to it since: for a host
    /// that made it for what came to nothing, as an import of a damaged file. The folder stays, with whatever else is
    /// in it, and so do chunks in a lower folder. Four syncs of the folder, two of that of the index.
    ///
    /// `Invalid` for a store that was there before; it stays as it is. The lock is held until all is gone, so nothing of
    /// another process is removed: `Poisoned` when the folder is another's by now. After another error, or where the process dies
    /// meanwhile, what is left says that it is a part of a store. Trees and readers of it are of no use any more.
    ///
    /// ```
    /// use varvite::context::{Options, Store};
    /// use varvite::disk::Disk;
    /// use varvite::disk::memory::MemoryDisk;
    /// # fn main() -> varvite::Result<()> {
    /// let disk = MemoryDisk::seeded(1);
    /// let store = Store::create(disk.clone(), Options::default())?;
    /// store.discard()?;
    /// assert!(disk.list("")?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn discard(self) -> Result<()> {
        let tip = self.tip.as_ref().filter(|_| self.is_new).ok_or_else(|| {
            Error::invalid(format!(
                "the store at {} was not made by this handle, so it is not removed by it",
                self.disk.root()
            ))
        })?;
        tip.end()?;
        let disk = &*self.disk;
        let is_held = || tip.check_lock();
        let gone = |path: &str| {
            is_held()?;
            absent(disk.remove(path))
        };
        // Whoever looks, or comes after a power cut, finds a part of a store that says so, and never a damaged one.
        match disk.open(paths::HALF_MADE, Mode::Create, Access::Buffered) {
            Err(error) if error.kind() != Kind::Exists => return Err(error),
            _ => disk.sync_directory("")?,
        }
        gone(paths::CONTROL)?;
        disk.sync_directory("")?;
        lock(&self.index).close();
        for name in disk.list("")? {
            let is_own = paths::parse_chunk(&name).is_some()
                || paths::is_evicted_hashes(&name)
                || name == paths::IMPORT
                || replace::unfinished(&name).is_some_and(paths::is_replaced);
            // What cannot be read may be another's: it stays, as do others' files, and those of a copy.
            if is_own && matches!(self.is_anothers_file(&name), Ok(false)) {
                gone(&name)?;
            }
        }
        remove_index(&self.disk, &is_held)?;
        disk.sync_directory("")?;
        gone(paths::HALF_MADE)?;
        disk.sync_directory("")?;
        // While it is held, so that nobody's is removed.
        gone(paths::LOCK)
    }

    fn is_anothers_file(&self, name: &str) -> Result<bool> {
        let (disk, store) = (&*self.disk, self.control.store);
        let chunks = self.pack.chunks();
        match chunks.iter().find(|chunk| chunk.path == name) {
            Some(chunk) if chunk.is_of_copy(disk, store)? => Ok(true),
            _ => whose::is_others(disk, store, name),
        }
    }
}

/// The lock of a store that is being made, which its maker has besides, to take the store back under it.
pub(crate) struct MakersLock(pub(crate) Arc<dyn Lock>);

crate::disk::names_itself!(MakersLock);

impl Lock for MakersLock {
    fn check(&self) -> Result<()> {
        self.0.check()
    }
}

/// Has a store in the root folder of `disk` whose creation failed be none, under the lock that it was made with: one more
/// creation begins anew. Best effort, since what failed is what is told.
pub(crate) fn retract(disk: &Arc<dyn Disk>, made_under: &dyn Lock) {
    if !disk.exists(paths::CONTROL).unwrap_or(false) {
        return;
    }
    // First, since an index without a control file is somebody's, after a power cut, too.
    let is_held = || made_under.check();
    let synced = remove_index(disk, &is_held).and_then(|()| disk.sync_directory(""));
    if synced.and_then(|()| is_held()).is_err() {
        return;
    }
    let unmade = format!("{}{}", paths::CONTROL, replace::SUFFIX);
    if disk.rename(paths::CONTROL, &unmade).is_ok() {
        let _ = disk.sync_directory("");
    }
}

/// What is not there need not be removed.
fn absent(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() == Kind::Missing => Ok(()),
        removed => removed,
    }
}

/// Removes the session of the index, and its folder unless somebody has put anything else there.
fn remove_index(disk: &Arc<dyn Disk>, is_held: &dyn Fn() -> Result<()>) -> Result<()> {
    let index = Subfolder::new(Arc::clone(disk), paths::INDEX);
    absent(Session::remove_all(&*index, is_held).and_then(|()| {
        is_held()?;
        match disk.remove_directory(paths::INDEX) {
            // Else it has something of somebody's, or is a link to a folder.
            Err(error) if error.kind() != Kind::Invalid && disk.list(paths::INDEX)?.is_empty() => {
                Err(error)
            }
            _ => Ok(()),
        }
    }))
}

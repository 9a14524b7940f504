//! Files that are replaced whole: the new bytes are written beside the old, synced, and renamed.
//!
//! Order: write `name.tmp` · sync it · rename it to `name` · sync the folder. A crash before the
//! rename is durable leaves the old file whole (and perhaps a `.tmp`), one after it the new one.
//! `docs/design/durability.md` says what a crash at each step leaves.

use std::sync::Arc;

use crate::disk::{Access, Disk, File, Mode, path as paths, remove_quietly};
use crate::error::{Error, Kind, Result};

/// What the name of a file in work ends with.
pub const SUFFIX: &str = ".tmp";

/// The same where another file has that name which cannot be removed.
const SUFFIX_AGAIN: &str = ".again.tmp";

/// Both.
pub(crate) const SUFFIXES: [&str; 2] = [SUFFIX, SUFFIX_AGAIN];

/// How many bytes are copied at once.
const WINDOW: u64 = 256 << 10;

/// The name of the file that `name` would have become, if it is what a crash leaves of a replacement.
#[must_use]
pub fn unfinished(name: &str) -> Option<&str> {
    name.strip_suffix(SUFFIX_AGAIN).or_else(|| name.strip_suffix(SUFFIX))
}

/// Removes what a crash left in a folder of replacements of those files that `is_ours` knows by name,
/// and returns how many there were: hosts have files of their own that end alike. The removal is made
/// durable with the folder's next sync.
pub fn remove_leftovers(
    disk: &dyn Disk,
    directory: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<usize> {
    let found = leftovers(disk, directory, is_ours)?;
    found.iter().try_for_each(|path| disk.remove(path))?;
    Ok(found.len())
}

/// The paths of what [`remove_leftovers`] would remove.
pub fn leftovers(
    disk: &dyn Disk,
    directory: &str,
    is_ours: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let names = disk.list(directory)?.into_iter();
    let found = names.filter(|name| unfinished(name).is_some_and(&is_ours));
    let path = |name: String| {
        if directory.is_empty() {
            name
        } else {
            format!("{}/{name}", directory.trim_end_matches('/'))
        }
    };
    Ok(found.map(path).collect())
}

/// Gives the file at `path` the content `bytes`, durably and atomically, whether it was there or not.
///
/// One write, two syncs, one rename. After an error the old content stands, unless the last sync
/// failed: then either may be found after a crash, though the new one is found now.
pub fn replace(disk: &Arc<dyn Disk>, path: &str, bytes: &[u8]) -> Result<()> {
    let mut replacement = Replacement::begin(disk, path, Access::Buffered)?;
    replacement.write(bytes)?;
    replacement.finish()
}

/// Gives the file at `path`, whose bytes are durable, its name anew: a sync of the folder may have failed,
/// and the next one need not save what that should have. Durable with a sync of the folder, which the
/// caller does; until then, and after an error, the same bytes have the name. Nothing where no name is forgotten.
pub fn renew(disk: &Arc<dyn Disk>, path: &str) -> Result<()> {
    if !disk.forgets_names() {
        return Ok(());
    }
    let file = disk.open(path, Mode::Read, Access::Buffered)?;
    let mut replacement = Replacement::begin(disk, path, Access::Buffered)?;
    copy(&*file, &**replacement.file())?;
    // Some systems rename over no file that is open.
    drop(file);
    replacement.sync()?;
    replacement.rename().map_err(|refused| refused.error)
}

/// Copies all bytes of `from`, however many, through a small memory.
fn copy(from: &dyn File, to: &dyn File) -> Result<()> {
    let end = from.len()?;
    let mut bytes = vec![0; WINDOW.min(end) as usize];
    let mut place = 0;
    while place < end {
        let part = &mut bytes[..WINDOW.min(end - place) as usize];
        from.read_exact_at(place, part)?;
        to.write_at(place, part)?;
        place += part.len() as u64;
    }
    Ok(())
}

/// A file that is being written to take the place of another. Dropped unfinished, it is removed.
#[derive(Debug)]
pub struct Replacement {
    disk: Arc<dyn Disk>,
    path: String,
    working: String,
    file: Arc<dyn File>,
    finished: bool,
}

impl Replacement {
    /// Starts an empty file that will become `path`; a leftover of an earlier try is removed, and one that cannot be is in
    /// nobody's way.
    pub fn begin(disk: &Arc<dyn Disk>, path: &str, access: Access) -> Result<Replacement> {
        let begin = |suffix| Replacement::begin_as(disk, path, format!("{path}{suffix}"), access);
        if cfg!(varvite_js) {
            return begin(SUFFIX);
        }
        begin(SUFFIX).or_else(|error| match disk.exists(&format!("{path}{SUFFIX}")) {
            Ok(true) => begin(SUFFIX_AGAIN).map_err(|_| error),
            _ => Err(error),
        })
    }

    /// The same under the name `working` until it is whole, where users have files beside it that may end with [`SUFFIX`].
    pub fn begin_as(
        disk: &Arc<dyn Disk>,
        path: &str,
        working: String,
        access: Access,
    ) -> Result<Replacement> {
        match disk.remove(&working) {
            Err(error) if error.kind() != Kind::Missing => return Err(error),
            _ => {}
        }
        let file = disk.open(&working, Mode::Create, access)?;
        Ok(Replacement {
            disk: Arc::clone(disk),
            path: path.to_owned(),
            working,
            file,
            finished: false,
        })
    }

    /// Writes all that it is to have. A disk that panics is not asked to remove it: a second panic while unwinding would
    /// end the process.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.finished = true;
        let written = self.file.write_at(0, bytes);
        self.finished = false;
        written
    }

    /// The file to write to. It is not synced by the caller.
    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Makes it durable and gives it its name: sync, rename, sync of the folder.
    pub fn finish(mut self) -> Result<()> {
        let (disk, path) = (Arc::clone(&self.disk), self.path.clone());
        self.sync()?;
        self.rename().map_err(|refused| refused.error)?;
        disk.sync_directory(paths::split(&path).0)
    }

    /// Makes its bytes durable, before it has its name.
    pub fn sync(&mut self) -> Result<()> {
        self.finished = true;
        let synced = self.file.sync();
        self.finished = false;
        synced
    }

    /// Gives it its name, which a sync of the folder makes durable.
    pub fn rename(mut self) -> std::result::Result<(), NotRenamed> {
        self.finished = true;
        let Err(error) = self.disk.rename(&self.working, &self.path) else { return Ok(()) };
        let is_unchanged = self.disk.exists(&self.working).unwrap_or(false);
        self.finished = !is_unchanged;
        Err(NotRenamed { error, is_unchanged })
    }
}

/// Why a file did not get its name. Some file systems refuse the name of a file that somebody reads.
#[derive(Debug)]
pub struct NotRenamed {
    /// What the disk said.
    pub error: Error,
    /// Whether the old file certainly has the name still.
    pub is_unchanged: bool,
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.finished {
            // What stays is a leftover, which the next replacement or the next opening removes.
            remove_quietly(&*self.disk, &self.working);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::{Fault, SimDisk};

    #[test]
    fn a_file_is_renewed_whatever_its_length_in_writes_of_a_window() {
        for length in [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 7] {
            let sim = SimDisk::new(1);
            let disk: Arc<dyn Disk> = Arc::clone(&sim) as _;
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            replace(&disk, "file", &bytes).unwrap();
            let before = sim.calls().of(Fault::Write);
            renew(&disk, "file").unwrap();
            let file = disk.open("file", Mode::Read, Access::Buffered).unwrap();
            assert_eq!(file.len().unwrap(), length);
            let mut found = vec![0; bytes.len()];
            file.read_exact_at(0, &mut found).unwrap();
            assert!(found == bytes, "{length}");
            let writes = sim.calls().of(Fault::Write) - before;
            assert_eq!(writes, length.div_ceil(WINDOW), "{length}");
            assert_eq!(disk.list("").unwrap(), ["file"]);
        }
    }
}

//! The right to write to a folder, which one process has at a time.
//!
//! The lock of a file says who holds it, but goes with the file: where somebody removes that, the next
//! process makes another. So the folder is locked too, where the system can, and whoever has the lock
//! makes sure of it before a step that two writers must not both take.

use std::sync::Arc;

use crate::disk::{Access, Disk, Lock, Mode, remove_quietly};
use crate::error::{Error, Kind, Result};

/// Both locks.
struct Exclusive {
    file: Box<dyn Lock>,
    folder: Option<Box<dyn Lock>>,
}

crate::disk::names_itself!(Exclusive);

impl Lock for Exclusive {
    fn check(&self) -> Result<()> {
        self.file.check()?;
        self.folder.as_ref().map_or(Ok(()), |folder| folder.check())
    }
}

/// What a lock says of the process that has it. WebAssembly knows no processes: there the page or the program has it.
pub fn holder() -> String {
    if cfg!(target_family = "wasm") {
        return "another part of this program".to_owned();
    }
    format!("process {}", std::process::id())
}

/// Locks the root folder of `disk` for `holder`, by the file `path` in it. `Locked` when another has
/// it, also when its lock file was removed.
pub fn lock(disk: &dyn Disk, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
    let file = disk.lock(path, holder)?;
    let folder = disk.lock_directory("")?;
    Ok(Box::new(Exclusive { file, folder }))
}

/// A lock whose file goes with it.
struct Passing {
    disk: Arc<dyn Disk>,
    path: String,
    lock: Box<dyn Lock>,
}

crate::disk::names_itself!(Passing);

impl Lock for Passing {
    fn check(&self) -> Result<()> {
        self.lock.check()
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // While it is held, so that nobody's is removed.
        remove_quietly(&*self.disk, &self.path);
    }
}

/// Takes the lock of the file `path` for `holder`, in a folder that others have files in. The file goes with
/// the lock; one that a killed process or a power cut has left is taken over. `Locked` when another has it, `Exists` when
/// the file is none that such a lock makes: it is somebody's, and stays as it is.
pub fn lock_in_passing(disk: &Arc<dyn Disk>, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
    // What cannot be read is locked, or the lock says what it is.
    if let Ok(file) = disk.open(path, Mode::Read, Access::Buffered) {
        let mut bytes = vec![0; holder.len() + 1];
        let is_left = |found: &[u8]| {
            // A power cut leaves zeros.
            let is_blank = found.iter().all(|byte| *byte == 0) && found.len() <= holder.len();
            is_blank || holder.as_bytes().starts_with(found)
        };
        if let Ok(found) = file.read_at(0, &mut bytes)
            && !is_left(&bytes[..found])
        {
            return Err(Error::new(
                Kind::Exists,
                format!("{path} is there, and none that this program has made: move it away first"),
            ));
        }
    }
    let lock = disk.lock(path, holder)?;
    Ok(Box::new(Passing { disk: Arc::clone(disk), path: path.to_owned(), lock }))
}

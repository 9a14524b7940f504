//! The right to write to a folder, which one process has at a time.
//!
//! The lock of a file says who holds it, but goes with the file: where somebody removes that, the next
//! process makes another. So the folder is locked too, where the system can, and whoever has the lock
//! makes sure of it before a step that two writers must not both take.

use crate::disk::{Disk, Lock};
use crate::error::Result;

/// Both locks.
#[derive(Debug)]
struct Exclusive {
    file: Box<dyn Lock>,
    folder: Option<Box<dyn Lock>>,
}

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

//! Folders: what is in one, and one for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varvite::context::Store;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Result};

/// The folder as a disk; `Missing` without it.
pub fn disk(folder: &Path) -> Result<Arc<OsDisk>> {
    if !folder.is_dir() {
        let what = match (folder.exists(), folder.is_symlink()) {
            (true, _) => "is not a folder",
            (false, true) => "is a link that leads nowhere",
            (false, false) => "does not exist",
        };
        return Err(Error::missing(format!(
            "{} {what}: give the folder of a varvite store",
            folder.display()
        )));
    }
    OsDisk::new(folder)
}

/// The folder in which a store is to be made, itself made if need be.
pub struct Target {
    folder: PathBuf,
    /// The folders that were made for it, the outermost last.
    made: Vec<PathBuf>,
    /// Whether nothing was in it.
    was_empty: bool,
}

impl Target {
    /// The folder, and the disk in it.
    pub fn create(folder: &Path) -> Result<(Self, Arc<OsDisk>)> {
        let is_new = |it: &&Path| !it.as_os_str().is_empty() && !it.exists();
        let made = folder.ancestors().take_while(is_new).map(Path::to_owned).collect();
        let was_empty = match fs::read_dir(folder) {
            Ok(mut names) => names.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        let target = Target { folder: folder.to_owned(), made, was_empty };
        match OsDisk::create(folder) {
            Ok(disk) => Ok((target, disk)),
            Err(error) => {
                target.give_up();
                Err(error)
            }
        }
    }

    /// Leaves no folder behind that is new and has nothing in it.
    pub fn give_up(self) {
        for folder in self.made {
            let _ = fs::remove_dir(folder);
        }
    }

    /// The same, and nothing of a copy that did not come to its end, as on a full disk: somebody would take it for a
    /// damaged store. What has become a store stays, and so does all in a folder that had anything in it before.
    pub fn take_back(self) {
        let is_store = ["session", "control"].iter().any(|name| self.folder.join(name).exists());
        if self.was_empty && !is_store {
            remove_parts(&self.folder);
        }
        self.give_up();
    }
}

/// Removes what a store has that is only being made. What says so of the rest comes last, and so does what keeps others
/// from making one here. What went wrong before is what is told, so nothing is said of what cannot be removed.
fn remove_parts(folder: &Path) {
    let inside = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    for name in ["log", "segments", "snapshots"] {
        let below = folder.join(name);
        for file in inside(&below) {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_dir(below);
    }
    let _ = fs::remove_dir_all(folder.join("index"));
    let is_chunk = |file: &PathBuf| {
        file.extension().is_some_and(|it| ["pack", "hashes"].iter().any(|known| it == *known))
    };
    for file in inside(folder).into_iter().filter(is_chunk) {
        let _ = fs::remove_file(file);
    }
    for name in [
        "checkpoint",
        "checkpoint.tmp",
        "in-doubt.tmp",
        "control.tmp",
        "half-made.tmp",
        "half-copied.tmp",
        "session.tmp",
        "half-made",
        "reserve",
        "lock",
    ] {
        let _ = fs::remove_file(folder.join(name));
    }
}

/// Refuses to make a store in `target` when that is in the store `source`, which stays as it is.
pub fn apart(source: &Path, target: &Path) -> Result<()> {
    let Ok(own) = source.canonicalize() else { return Ok(()) };
    // What is not there yet is where the nearest folder above it is.
    let there = target.ancestors().find_map(|it| {
        let it = if it.as_os_str().is_empty() { Path::new(".") } else { it };
        it.canonicalize().ok()
    });
    if there.is_some_and(|there| there.starts_with(&own)) {
        return Err(Error::invalid(format!(
            "{} is in the store {} itself: choose a place elsewhere",
            target.display(),
            source.display()
        )));
    }
    Ok(())
}

/// Whether the folder holds a context, ours or one of Irmin, or old commits of one.
pub fn is_context(folder: &Path) -> bool {
    // A repair that was cut off has not given the control file its name; opening says so.
    let has = |name: &str| folder.join(name).is_file();
    let ours = (has("control") || has("half-made")) && !folder.join("session").exists();
    ours || disk(folder).is_ok_and(|disk| irmin::is_store(&*disk).is_ok_and(|found| found))
        || is_lower(folder)
}

/// Whether the folder has old commits that a context has moved there, and is no store.
pub fn is_lower(folder: &Path) -> bool {
    disk(folder).is_ok_and(|disk| Store::is_lower_folder(&*disk).is_ok_and(|found| found))
}

/// A folder that goes away with its handle.
pub fn temporary() -> Result<tempfile::TempDir> {
    let folder = std::env::temp_dir();
    if !folder.is_dir() {
        let detail = "for what is made for a while: set TMPDIR to one that can be written to";
        return Err(Error::missing(format!("there is no folder {} {detail}", folder.display())));
    }
    temporary_in(&folder)
}

/// The same in `folder`.
pub fn temporary_in(folder: &Path) -> Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("varvite-").tempdir_in(folder).map_err(|error| {
        // The error names the folder a second time.
        let error = std::io::Error::from(error.kind());
        Error::io("make a folder in", &folder.display().to_string(), error)
    })
}

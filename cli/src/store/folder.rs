//! Folders: what is in one, and one for a while.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varvite::context::Store;
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::format::header::{FileKind, Header, LENGTH};
use varvite::irmin_pack as irmin;
use varvite::{Error, Kind, Result};

use crate::system::volume;

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
    /// Whether a process has made a store in it before, or begun to.
    had_lock: bool,
}

impl Target {
    /// The folder, and the disk in it.
    pub fn create(folder: &Path) -> Result<(Self, Arc<OsDisk>)> {
        expect_no_dead_link(folder)?;
        let is_new = |it: &&Path| !it.as_os_str().is_empty() && !it.exists();
        let made = folder.ancestors().take_while(is_new).map(Path::to_owned).collect();
        let was_empty = match fs::read_dir(folder) {
            Ok(mut names) => names.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        let had_lock = folder.join(LOCK).exists();
        let target = Target { folder: folder.to_owned(), made, was_empty, had_lock };
        match OsDisk::create(folder) {
            Ok(disk) => Ok((target, disk)),
            Err(error) => {
                target.give_up();
                Err(error)
            }
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Leaves no folder behind that is new and has nothing in it.
    pub fn give_up(self) {
        for folder in self.made {
            let _ = fs::remove_dir(folder);
        }
    }

    /// The same, and nothing of a copy that did not come to its end, as on a full disk: somebody would take it for a
    /// damaged store. What has become a store stays, so does all in a folder that had anything in it before, and so does
    /// what another process makes here, because of which this one has failed or not.
    pub fn take_back(self, error: &Error) {
        self.remove_own(error, |folder| {
            ["session", "control"].iter().any(|name| folder.join(name).exists())
        });
        self.give_up();
    }

    /// The same of a store that this process has made here, whole or not, where it is the disk that failed.
    pub fn take_back_made(self, error: &Error) {
        if error.kind() == Kind::Io {
            self.remove_own(error, |_| false);
        }
        self.give_up();
    }

    fn remove_own(&self, error: &Error, stays: impl Fn(&Path) -> bool) {
        // Asked for while it is full.
        volume::look();
        if matches!(error.kind(), Kind::Locked | Kind::Exists) || !self.was_empty && self.had_lock {
            return;
        }
        // Whoever has it makes a store here.
        let disk = OsDisk::new(&self.folder);
        let holder = format!("process {}", std::process::id());
        let held = disk.and_then(|disk| disk.lock(LOCK, &holder));
        if held.as_ref().is_err_and(|error| error.kind() == Kind::Locked) || stays(&self.folder) {
            return;
        }
        if self.was_empty {
            // Whoever looks meanwhile finds a store that is only being made.
            for (name, mark) in [("control", "half-made"), ("session", "session.tmp")] {
                let _ = fs::rename(self.folder.join(name), self.folder.join(mark));
            }
            remove_parts(&self.folder);
        } else {
            let _ = fs::remove_file(self.folder.join(LOCK));
        }
    }
}

/// Held by who writes to a store, or makes one.
const LOCK: &str = "lock";

/// `Missing` when `folder`, in which something is to be made, is a link to what is not there.
pub fn expect_no_dead_link(folder: &Path) -> Result<()> {
    if folder.is_symlink() && !folder.exists() {
        let shown = folder.display();
        return Err(Error::missing(format!(
            "{shown} is a link that leads nowhere: make the folder that it leads to, or choose another place"
        )));
    }
    Ok(())
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
        LOCK,
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

/// Whether the folder has old commits that a context has moved there, and is no store. Chunks that are damaged, or of two
/// histories, are that too: whoever opens them says what is wrong.
pub fn is_lower(folder: &Path) -> bool {
    let is_wrong = |error: &Error| matches!(error.kind(), Kind::Corrupt | Kind::Invalid);
    disk(folder).is_ok_and(|disk| match Store::is_lower_folder(&*disk) {
        Ok(found) => found,
        Err(error) => is_wrong(&error),
    })
}

/// The store that the file `name` in a folder says it is of, if it can be read and is of this kind.
fn owner(folder: &Path, name: &str, kind: FileKind) -> Option<u64> {
    let mut bytes = Vec::new();
    File::open(folder.join(name)).ok()?.take(LENGTH as u64).read_to_end(&mut bytes).ok()?;
    Header::expect(name, &bytes, kind).ok().map(|header| header.store)
}

/// The stores that the first and the last chunk in a folder say they are of, as far as they can be read; `None` where
/// there is no chunk.
fn owners(folder: &Path) -> Result<Option<BTreeSet<u64>>> {
    let mut names = disk(folder)?.list("")?;
    names.retain(|name| Path::new(name).extension().is_some_and(|it| it == "pack"));
    names.sort_unstable();
    let ends = names.first().into_iter().chain(names.last());
    let stores = ends.filter_map(|name| owner(folder, name, FileKind::Pack));
    Ok((!names.is_empty()).then(|| stores.collect()))
}

/// `Invalid` where `lower` cannot be the lower folder of the context in `folder`, which has moved chunks there: it is a
/// store's own, or has those of another. That is no damage of the store.
pub fn expect_lower(folder: &Path, lower: &Path) -> Result<()> {
    let mut own = owners(folder)?.unwrap_or_default();
    // The chunks there may all be damaged, or another's.
    own.extend(owner(folder, "control", FileKind::Control));
    let why = match (owners(lower)?, own) {
        _ if is_context(lower) && !is_lower(lower) => "is the folder of a store",
        (Some(below), own) if !below.is_empty() && !own.is_empty() && below.is_disjoint(&own) => {
            "has chunks of another store"
        }
        _ => return Ok(()),
    };
    let (shown, own) = (lower.display(), folder.display());
    Err(Error::invalid(format!("{shown} {why}: give the folder that {own} has moved chunks to")))
}

/// The same, and `Missing` where nothing is in it.
pub fn expect_lower_with_chunks(folder: &Path, lower: &Path) -> Result<()> {
    expect_lower(folder, lower)?;
    if owners(lower)?.is_some() {
        return Ok(());
    }
    let (shown, own) = (lower.display(), folder.display());
    Err(Error::missing(format!(
        "{shown} has no chunks: give the folder that {own} has moved chunks to, or put them back from a copy"
    )))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What stays in a folder that was empty when a copy into it began, and in which another process has begun one since.
    fn left(error: &Error, is_held: bool) -> Vec<String> {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path().join("o");
        let (target, disk) = Target::create(&folder).expect("it is made");
        let other = OsDisk::new(&folder).expect("it is there");
        let held = is_held.then(|| other.lock(LOCK, "another").expect("nobody else has it"));
        for name in ["half-made", "0000-000000.pack"] {
            fs::write(folder.join(name), "of another").expect("it has room");
        }
        target.take_back(error);
        drop(held);
        let mut names = disk.list("").unwrap_or_default();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_another_process_makes_in_the_same_folder_is_not_taken_back() {
        let full = || Error::io("write", "it", std::io::ErrorKind::StorageFull.into());
        let all = ["0000-000000.pack", "half-made", "lock"];
        assert_eq!(left(&full(), true), all);
        let refused = |kind| Error::new(kind, "another makes one there");
        assert_eq!(left(&refused(Kind::Locked), true), all);
        // Between two of its steps, too.
        for kind in [Kind::Locked, Kind::Exists] {
            assert_eq!(left(&refused(kind), false), all[..2]);
        }
        assert_eq!(left(&full(), false), [""; 0]);
    }
}

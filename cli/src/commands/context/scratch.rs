//! What an export to a store of Irmin keeps beside its target, and what one that was killed left there.
//!
//! The folder `TO.scratch` holds a file that says what it is and is locked while the export runs, and a
//! folder for the table of places. The file is written while `TO` is still empty, so where it is found
//! later, unlocked, both are what a killed export left: they are removed, and nothing else is.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Kind, Result};

/// The file that says whose the folder is, and what is in it.
const MARK: &str = "export-irmin";
const MARK_TEXT: &[u8] = b"scratch of varvite context export-irmin, version 1\n";
/// The folder of the table.
const PLACES: &str = "places";

/// What an export writes into its target before the control file makes a store of it.
const WRITTEN: [&str; 5] =
    ["store.0.suffix", "store.dict", "store.branches", "store.control.tmp", "index/log"];

/// The scratch folder of an export that runs.
pub struct Scratch {
    folder: PathBuf,
    target: PathBuf,
    /// Locked as long as it is open.
    mark: File,
}

fn failed(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    move |error| Error::io(action, &path.display().to_string(), error)
}

/// Names in a folder; none when it is not there.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("list", folder))?,
    };
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        Ok(entry.map_err(failed("list", folder))?.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(failed("remove", path)(error))
        }
        _ => Ok(()),
    }
}

impl Scratch {
    /// Takes the folder beside `target`, and removes what a killed export left in the two. `Exists` when
    /// anything else is in one of them, `Locked` while another export runs.
    pub fn take(target: &Path) -> Result<Scratch> {
        let mut folder = target.to_path_buf().into_os_string();
        folder.push(".scratch");
        let folder = PathBuf::from(folder);
        let taken = |path: &Path, why: &str| {
            Error::new(Kind::Exists, format!("{} is there{why}", path.display()))
        };
        let found = names(&folder)?;
        let mark = folder.join(MARK);
        let text = match std::fs::read(&mark) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            text => Some(text.map_err(failed("read", &mark))?),
        };
        let is_ours = match &text {
            None => found.is_empty(),
            // Killed while it was written: then nothing else was.
            Some(text) if text != MARK_TEXT => MARK_TEXT.starts_with(text) && found.len() == 1,
            Some(_) => found.iter().all(|name| name == MARK || name == PLACES),
        };
        if !is_ours {
            let why = " and holds what no export put there: remove it, or choose another target";
            return Err(taken(&folder, why));
        }
        std::fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
        let options = File::options().create(true).truncate(false).write(true).open(&mark);
        let file = options.map_err(failed("open", &mark))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(
                    Kind::Locked,
                    format!("another export to {} is under way: wait for it", target.display()),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", &mark)(error)),
        }
        let mut scratch = Scratch { folder, target: target.to_path_buf(), mark: file };
        if text.as_deref() == Some(MARK_TEXT) {
            scratch.clear()?;
        }
        if !names(target)?.is_empty() {
            let why = " and is not empty: give an empty folder";
            let refused = taken(target, why);
            scratch.remove()?;
            return Err(refused);
        }
        let written = scratch.mark.set_len(0).and_then(|()| scratch.mark.write_all(MARK_TEXT));
        written.map_err(failed("write", &mark))?;
        Ok(scratch)
    }

    /// The folder for the table of places.
    pub fn places(&self) -> Result<Arc<dyn Disk>> {
        Ok(OsDisk::create(self.folder.join(PLACES))?)
    }

    /// Removes what an export that did not come to its end left, and the table.
    fn clear(&self) -> Result<()> {
        let places = self.folder.join(PLACES);
        match std::fs::remove_dir_all(&places) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("remove", &places)(error));
            }
            _ => {}
        }
        let target = &self.target;
        let found = [names(target)?, names(&target.join("index"))?].concat();
        let is_ours =
            |name: &String| name == "index" || name == "log" || WRITTEN.contains(&name.as_str());
        // With a control file it is a store: the export had come to its end.
        if !found.iter().all(is_ours) {
            return Ok(());
        }
        for name in WRITTEN {
            remove_file(&target.join(name))?;
        }
        let index = target.join("index");
        match std::fs::remove_dir(&index) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(failed("remove", &index)(error))
            }
            _ => Ok(()),
        }
    }

    /// Ends the export; of one that failed nothing is left.
    pub fn finish(self) -> Result<()> {
        self.clear()?;
        self.remove()
    }

    /// Removes the folder, the mark last.
    fn remove(self) -> Result<()> {
        remove_file(&self.folder.join(MARK))?;
        std::fs::remove_dir(&self.folder).map_err(failed("remove", &self.folder))
    }
}

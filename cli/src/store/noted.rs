//! A folder in which a command notes what it makes, so that it takes back that alone when it fails.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varvite::disk::os::OsDisk;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode, Queue};
use varvite::{Kind, Result};

use crate::system::files::Own;

/// Files that say of a folder that what is there is no store yet.
const MARKS: [&str; 5] =
    ["session.tmp", "half-copied.tmp", "half-made", "half-made.tmp", "control.tmp"];

/// The folder, and what was made in it through this.
#[derive(Debug)]
pub struct Noted {
    disk: Arc<OsDisk>,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    files: BTreeMap<String, Own>,
    /// Those above others first.
    folders: Vec<String>,
}

impl Noted {
    pub fn new(disk: Arc<OsDisk>) -> Noted {
        Noted { disk, made: Mutex::default() }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, path: &str) {
        if let Some(root) = self.disk.folder() {
            self.made().files.insert(path.to_owned(), Own::at(&root.join(path)));
        }
    }

    /// Whether everything in the folder was made through this, and nothing was since.
    pub fn is_all(&self) -> bool {
        let Some(root) = self.disk.folder() else { return false };
        let made = self.made();
        let is_own = |folder: &str| {
            let names = self.disk.list(folder)?;
            Ok::<_, varvite::Error>(names.iter().all(|name| {
                let path =
                    if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let is_file = made.files.get(&path).is_some_and(|it| it.is_at(&root.join(&path)));
                is_file || made.folders.contains(&path)
            }))
        };
        let mut folders = std::iter::once("").chain(made.folders.iter().map(String::as_str));
        folders.all(|folder| is_own(folder).unwrap_or(false))
    }

    /// Removes what was made in the folder, but for the file `last`, if that is there still, and then that one. What others
    /// have put there stays, also under a name that a file of this one had. What cannot be removed stays, too.
    pub fn take_back(&self, last: &str) {
        let Some(root) = self.disk.folder() else { return };
        let Made { mut files, folders } = std::mem::take(&mut *self.made());
        let last = files.remove(last);
        // Whoever is killed here leaves what says of itself that it is a part.
        let marks: Vec<_> = MARKS.iter().filter_map(|name| files.remove(*name)).collect();
        files.into_values().for_each(Own::remove);
        for folder in folders.iter().rev() {
            // Where it stays, with somebody's file, what was removed from it goes durably before the marks do.
            if std::fs::remove_dir(root.join(folder)).is_err() {
                let _ = self.disk.sync_directory(folder);
            }
        }
        let _ = self.disk.sync_directory("");
        marks.into_iter().for_each(Own::remove);
        last.into_iter().for_each(Own::remove);
    }
}

impl Disk for Noted {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let opened = self.disk.open(path, mode, access);
        if mode == Mode::Create && opened.is_ok() {
            self.note(path);
        }
        opened
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)?;
        let was_made = self.made().files.remove(from).is_some();
        if was_made {
            self.note(to);
        }
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path)?;
        self.made().files.remove(path);
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        let was_there = self.disk.exists(path)?;
        self.disk.create_directory(path)?;
        if !was_there {
            self.made().folders.push(path.to_owned());
        }
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        self.disk.remove_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.disk.sync_directory(path)
    }

    fn forgets_names(&self) -> bool {
        self.disk.forgets_names()
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        let was_there = self.disk.exists(path)?;
        let lock = self.disk.lock(path, holder);
        // Its text may have found no room.
        if !was_there && self.disk.exists(path)? {
            self.note(path);
        }
        lock
    }

    fn lock_directory(&self, path: &str) -> Result<Option<Box<dyn Lock>>> {
        self.disk.lock_directory(path)
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        let linked = self.disk.link_or_copy(from, to)?;
        self.note(to);
        Ok(linked)
    }

    fn link_or_copy_to(&self, from: &str, target: &dyn Disk, to: &str) -> Result<Linked> {
        self.disk.link_or_copy_to(from, target, to)
    }

    fn link_in(&self, from: &Path, to: &str) -> Result<Option<Linked>> {
        let linked = self.disk.link_in(from, to);
        match &linked {
            Ok(Some(_)) => self.note(to),
            // What it made and could not remove is there; another's is told as that.
            Err(error) if error.kind() == Kind::Io => self.note(to),
            _ => {}
        }
        linked
    }

    fn folder(&self) -> Option<&Path> {
        self.disk.folder()
    }

    fn open_files_max(&self) -> Option<u64> {
        self.disk.open_files_max()
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        self.disk.queue(depth)
    }

    fn entropy(&self) -> Result<u64> {
        self.disk.entropy()
    }

    fn root(&self) -> &str {
        self.disk.root()
    }
}

//! Folders of a simulated disk: the names now, the durable ones, and the changes between the two.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::path as paths;
use crate::error::Result;

/// The root's number.
pub(super) const ROOT: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    File(u64),
    Folder(u64),
}

/// A change of names that is not durable yet. A crash keeps it whole or not at all.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Add {
        name: String,
        entry: Entry,
    },
    Remove {
        name: String,
        entry: Entry,
    },
    /// Belongs to the folder it moves to, and is durable with that folder's sync: until then the file
    /// has its old name after a crash, even when the old folder was synced.
    Move {
        from_folder: u64,
        from: String,
        to: String,
        file: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) at: u64,
    folder: u64,
    change: NameChange,
}

#[derive(Clone, Debug, Default)]
struct Folder {
    live: BTreeMap<String, Entry>,
    durable: BTreeMap<String, Entry>,
}

#[derive(Clone, Copy)]
enum Side {
    Live,
    Durable,
}

impl Folder {
    fn side(&mut self, side: Side) -> &mut BTreeMap<String, Entry> {
        match side {
            Side::Live => &mut self.live,
            Side::Durable => &mut self.durable,
        }
    }
}

/// All folders, by number.
#[derive(Clone, Debug)]
pub(super) struct Names {
    folders: BTreeMap<u64, Folder>,
    pub(super) pending: Vec<Pending>,
}

impl Names {
    pub(super) fn new() -> Self {
        Names { folders: BTreeMap::from([(ROOT, Folder::default())]), pending: Vec::new() }
    }

    /// The folder called `path`.
    pub(super) fn folder(&self, path: &str) -> Result<u64> {
        let mut folder = ROOT;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            folder = match self.folders[&folder].live.get(name) {
                Some(Entry::Folder(number)) => *number,
                Some(Entry::File(_)) => {
                    return Err(paths::is_file(path));
                }
                None => return Err(paths::missing(path)),
            };
        }
        Ok(folder)
    }

    /// What `path` names, with its folder.
    pub(super) fn find(&self, path: &str) -> Result<(u64, Option<Entry>)> {
        let (folder, name) = paths::split(path);
        let folder = self.folder(folder)?;
        Ok((folder, self.folders[&folder].live.get(name).copied()))
    }

    /// The file called `path`, with its folder.
    pub(super) fn file(&self, path: &str) -> Result<(u64, u64)> {
        match self.find(path) {
            Ok((folder, Some(Entry::File(file)))) => Ok((folder, file)),
            Ok((_, Some(Entry::Folder(_)))) => Err(paths::is_folder(path)),
            Ok((_, None)) => Err(paths::missing(path)),
            Err(error) => Err(error),
        }
    }

    pub(super) fn list(&self, folder: u64) -> Vec<String> {
        self.folders[&folder].live.keys().cloned().collect()
    }

    /// Makes room for the folder that an `Add` of `Entry::Folder(number)` names.
    pub(super) fn make_folder(&mut self, number: u64) {
        self.folders.insert(number, Folder::default());
    }

    /// Changes the names of `folder` now; after a crash only perhaps.
    pub(super) fn change(&mut self, folder: u64, change: NameChange, clock: &mut u64) {
        self.apply(folder, &change, Side::Live);
        self.pending.push(Pending { at: *clock, folder, change });
        *clock += 1;
    }

    fn apply(&mut self, folder: u64, change: &NameChange, side: Side) {
        match change {
            NameChange::Add { name, entry } => {
                self.names(folder, side).insert(name.clone(), *entry);
            }
            NameChange::Remove { name, entry } => self.take(folder, name, *entry, side),
            NameChange::Move { from_folder, from, to, file } => {
                self.take(*from_folder, from, Entry::File(*file), side);
                self.names(folder, side).insert(to.clone(), Entry::File(*file));
            }
        }
    }

    /// Removes a name if it still is that entry's: changes before may not have persisted.
    fn take(&mut self, folder: u64, name: &str, entry: Entry, side: Side) {
        let names = self.names(folder, side);
        if names.get(name) == Some(&entry) {
            names.remove(name);
        }
    }

    fn names(&mut self, folder: u64, side: Side) -> &mut BTreeMap<String, Entry> {
        self.folders.get_mut(&folder).expect("folders are never removed").side(side)
    }

    /// Makes the names of `folder` durable.
    pub(super) fn sync(&mut self, folder: u64) {
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            if change.folder != folder {
                self.pending.push(change);
                continue;
            }
            if let NameChange::Move { from_folder, from, file, .. } = &change.change {
                self.commit_source(*from_folder, from, *file);
            }
            self.apply(folder, &change.change, Side::Durable);
        }
    }

    /// A failed sync of `folder`: its changes are forgotten, so that no later sync saves them, but those
    /// that `keep` says were saved all the same. Names are read as before until the crash.
    pub(super) fn fail_sync(&mut self, folder: u64, mut keep: impl FnMut() -> bool) {
        let (of_folder, others) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|pending| pending.folder == folder);
        self.pending = others;
        let of_folder: Vec<Pending> = of_folder;
        for pending in of_folder.iter().filter(|_| keep()) {
            self.apply(folder, &pending.change, Side::Durable);
        }
    }

    /// Makes durable what gave `file` the name that a durable move takes from it: otherwise that older
    /// change, persisting later, would bring the name back.
    fn commit_source(&mut self, folder: u64, name: &str, file: u64) {
        let gave = |pending: &Pending| {
            pending.folder == folder
                && match &pending.change {
                    NameChange::Add { name: added, entry } => {
                        added == name && *entry == Entry::File(file)
                    }
                    NameChange::Move { to, file: moved, .. } => to == name && *moved == file,
                    NameChange::Remove { .. } => false,
                }
        };
        let Some(index) = self.pending.iter().rposition(gave) else { return };
        let older = self.pending.remove(index);
        if let NameChange::Move { from_folder, from, file, .. } = &older.change {
            self.commit_source(*from_folder, from, *file);
        }
        self.apply(folder, &older.change, Side::Durable);
    }

    /// What a crash leaves, `keep` deciding for each pending change by its place among all changes.
    pub(super) fn after_crash(&self, mut keep: impl FnMut(u64) -> bool) -> Names {
        let mut image = Names { folders: self.folders.clone(), pending: Vec::new() };
        for change in self.pending.iter().filter(|change| keep(change.at)) {
            image.apply(change.folder, &change.change, Side::Durable);
        }
        for folder in image.folders.values_mut() {
            folder.live.clone_from(&folder.durable);
        }
        image
    }

    /// The files that have a name now.
    pub(super) fn named_now(&self) -> BTreeSet<u64> {
        self.folders.values().flat_map(|folder| folder.live.values()).filter_map(file_of).collect()
    }

    /// The files that may have a name after a crash.
    pub(super) fn named_after_crash(&self) -> BTreeSet<u64> {
        let durable = self.folders.values().flat_map(|folder| folder.durable.values());
        let pending = self.pending.iter().filter_map(|pending| match &pending.change {
            NameChange::Add { entry: Entry::File(file), .. } | NameChange::Move { file, .. } => {
                Some(*file)
            }
            NameChange::Add { .. } | NameChange::Remove { .. } => None,
        });
        durable.filter_map(file_of).chain(pending).collect()
    }
}

fn file_of(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::File(file) => Some(*file),
        Entry::Folder(_) => None,
    }
}

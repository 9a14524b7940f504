//! What a simulated disk knows: names, contents, what is not durable yet, and what is to fail.

use std::collections::{BTreeMap, HashMap};

use super::content::{Content, Keep};
use super::fault::{Call, Faults, full};
use super::names::{Entry, NameChange, Names};
use crate::disk::entropy::Random;
use crate::disk::path as paths;
use crate::error::Result;

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // each is a rule that a test sets by itself
pub struct State {
    pub names: Names,
    pub files: BTreeMap<u64, Content>,
    pub next_number: u64,
    /// Orders all changes of the disk.
    pub clock: u64,
    pub random: Random,
    /// What is drawn from the disk; apart, so that it does not depend on how else the disk is used.
    pub entropy: Random,
    pub held: HashMap<String, String>,
    pub faults: Faults,
    pub capacity: Option<u64>,
    pub lose_cache: bool,
    pub save_some: bool,
    pub forget_names: bool,
    pub keep_open_names: bool,
    /// Open files whose names go with their last handles, with folder and name.
    pub doomed: BTreeMap<u64, (u64, String)>,
}

impl State {
    /// The places of all changes that matter after a crash, oldest first.
    pub fn unsynced(&self) -> Vec<u64> {
        let named = self.names.named_after_crash();
        let files = named.iter().filter_map(|file| self.files.get(file));
        let bytes = files.flat_map(|content| content.changes.iter().map(|(at, _)| *at));
        let names = self.names.pending.iter().map(|pending| pending.at);
        let mut all: Vec<u64> = bytes.chain(names).collect();
        all.sort_unstable();
        all
    }

    /// Whether some change is of more than one sector.
    pub fn tearable(&self) -> bool {
        let mut changes = self.files.values().flat_map(|content| &content.changes);
        changes.any(|(_, change)| change.sectors() > 1)
    }

    /// The names and contents that a crash leaves, when `keep` says what of each change persists.
    pub fn image(
        &self,
        mut keep: impl FnMut(u64, usize) -> Keep,
    ) -> (Names, BTreeMap<u64, Content>) {
        let names = self.names.after_crash(|at| keep(at, 0) != Keep::Nothing);
        let named = names.named_now();
        let files = self.files.iter().filter(|(number, _)| named.contains(number));
        let files = files.map(|(number, content)| {
            (*number, content.after_crash(|at, change| keep(at, change.sectors())))
        });
        let files = files.collect();
        (names, files)
    }

    /// Bytes that files with a name or a handle take.
    pub fn space(&self) -> u64 {
        let named = self.names.named_now();
        let there =
            |(number, content): &(&u64, &Content)| content.handles > 0 || named.contains(number);
        self.files.iter().filter(there).map(|(_, content)| content.space() as u64).sum()
    }

    /// `Io` when the file cannot grow to `length`.
    pub fn check_room(&self, call: Call, path: &str, file: u64, length: usize) -> Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let content = &self.files[&file];
        let growth = content.space_with(length) - content.space();
        if growth == 0 || self.space() + growth as u64 <= capacity {
            return Ok(());
        }
        Err(full(call, path))
    }

    /// `Io` when nobody may use the name of `file` just now, as its rules are.
    pub fn check_name(&self, path: &str, file: u64) -> Result<()> {
        if self.doomed.contains_key(&file) { Err(paths::is_open(path)) } else { Ok(()) }
    }

    /// Whether the name of `file` cannot be taken from it just now.
    pub fn keeps_name(&self, file: u64) -> bool {
        self.keep_open_names && self.files.get(&file).is_some_and(|content| content.handles > 0)
    }

    /// Removes the name of `file`, which nobody has open any more, if somebody has asked for it.
    pub fn closed(&mut self, file: u64) {
        if let Some((folder, name)) = self.doomed.remove(&file) {
            let entry = Entry::File(file);
            self.names.change(folder, NameChange::Remove { name, entry }, &mut self.clock);
        }
    }

    /// Drops what no handle, name or crash image can reach.
    pub fn sweep(&mut self) {
        let (now, later) = (self.names.named_now(), self.names.named_after_crash());
        self.files.retain(|number, content| {
            content.handles > 0 || now.contains(number) || later.contains(number)
        });
    }

    /// A number for a new file.
    pub fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    /// Makes an empty file called `path`, whose folder and name are known to be right.
    pub fn add(&mut self, folder: u64, path: &str, entry: Entry) {
        let name = paths::split(path).1.to_owned();
        self.names.change(folder, NameChange::Add { name, entry }, &mut self.clock);
    }

    /// Makes an empty file; `Exists` when the name is taken.
    pub fn create(&mut self, path: &str) -> Result<u64> {
        let (folder, there) = self.names.find(path)?;
        if let Some(Entry::File(file)) = there {
            self.check_name(path, file)?;
        }
        if there.is_some() {
            return Err(paths::exists(path));
        }
        let file = self.number();
        self.files.insert(file, Content::default());
        self.add(folder, path, Entry::File(file));
        Ok(file)
    }
}

//! Opening a store of Irmin to read, and finding its commits.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::files::small;
use super::index::{self, Index};
use super::reader::{Reader, Verify};
use super::space::{self, From, Space};
use super::unindexed::{self, Unindexed};
use crate::cache::Cache;
use crate::cache::limit::check_memory;
use crate::context::configuration::Configuration;
use crate::context::pieces::node::{Load, Slot};
use crate::context::store::history::History;
use crate::context::{Checked, Commit, CommitHash, Stats, Store, TreeHash};
use crate::disk::{Access, Disk, Mode};
use crate::error::{Error, Kind, Result};
use crate::irmin_pack::format::branches;
use crate::irmin_pack::format::control::Control;
use crate::irmin_pack::format::entry::{Address, EntryKind, Head};
use crate::irmin_pack::format::schema::Schema;
use crate::order::{BTreeMap, BTreeSet};
use crate::trace::Recorder;

/// How a store of Irmin is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The shape of directories, which the folder does not say.
    pub configuration: Configuration,
    /// How objects are named; found out from the files when not given.
    pub schema: Option<Schema>,
    /// The folder of the lower layer; without it `lower` in the store's folder is taken.
    pub lower: Option<Arc<dyn Disk>>,
    /// Whether what is read is hashed again.
    pub verify: Verify,
    /// Memory for materialised nodes, in bytes.
    pub objects_bytes: u64,
    /// Memory for pages of the files, in bytes.
    pub pages_bytes: u64,
    /// What the calls of the store are written down with, as by that of [`crate::context::Options`].
    pub recorder: Option<Arc<Recorder>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            configuration: Configuration::TEZOS,
            schema: None,
            lower: None,
            verify: Verify::Hashes,
            objects_bytes: 64 << 20,
            pages_bytes: 16 << 20,
            recorder: None,
        }
    }
}

/// How often files are looked for that a control file names and a collection has just removed.
const ATTEMPTS: usize = 8;

/// How many of the newest commits are looked at for one that the index does not have.
const LOOK_BACK: usize = 4096;

/// The most bytes of a file of branches that are read.
const BRANCHES_MAX: u64 = 64 << 20;

/// Whether the folder holds a store of Irmin, of any version.
pub fn is_store(disk: &dyn Disk) -> Result<bool> {
    Ok(disk.exists("store.control")? || disk.exists("store.pack")?)
}

/// Opens a store of Irmin to read, as of now; [`Store::reload`] sees what another process wrote
/// since. Writes nothing and takes no lock. `Missing` when the folder has none, `Version` when it is
/// newer than version 5, `Corrupt` when its files contradict each other.
///
/// Reads the control file, the dictionary, the branches and the logs of the index. A hash of a store
/// with SHA-1 has zeros behind its 20 bytes; its trees can be read but not changed and hashed. A
/// commit's sequence is its offset. Commits that garbage collection took are `Missing`.
pub fn open(disk: Arc<dyn Disk>, options: &Options) -> Result<Store> {
    let opened = Opened::open(disk, options)?;
    let recorder = options.recorder.clone();
    let options = crate::context::Options { recorder, ..crate::context::Options::default() };
    Store::of_history(Box::new(opened), options)
}

/// What is looked at for a commit that the index does not have.
#[derive(Debug, Default)]
struct Near {
    /// The newest commits and their parents.
    places: HashMap<CommitHash, u64>,
    /// Whether one of them is missing in the index: then more may be.
    lacks: bool,
}

/// A store as it was opened last.
#[derive(Debug)]
pub(crate) struct Opened {
    disk: Arc<dyn Disk>,
    options: Options,
    cache: Arc<Cache>,
    pub(crate) reader: Arc<Reader>,
    branches: BTreeMap<Vec<u8>, CommitHash>,
    /// What is looked at for a commit that the index does not have, found out once: a migration asks for
    /// every commit that was collected.
    near: OnceLock<Near>,
    /// What the index lacks, found out once by who needs every commit.
    unindexed: OnceLock<Unindexed>,
}

/// Which schema the files are of: the index says, or else the first object.
fn schema_of(disk: &dyn Disk, options: &Options) -> Result<Schema> {
    if let Some(schema) = options.schema {
        return Ok(schema);
    }
    for name in ["index/log", "index/data", "index/log_async"] {
        let mut bytes = vec![0; 4096];
        let Ok(file) = disk.open(name, Mode::Read, Access::Buffered) else { continue };
        let found = file.read_at(0, &mut bytes)?;
        bytes.truncate(found);
        if name == "index/data" {
            // Entries come after the fan-out, which may be long.
            let fan = bytes
                .get(24..32)
                .map_or(0, |fan| u64::from_be_bytes(fan.try_into().expect("eight bytes")));
            bytes.resize(4096, 0);
            let start = fan.saturating_add(index::HEADER);
            let found = file.read_at(start, &mut bytes[index::HEADER as usize..])?;
            bytes.truncate(index::HEADER as usize + found);
        }
        for schema in [Schema::Tezos, Schema::Sha1] {
            if index::fits(schema, &bytes) {
                return Ok(schema);
            }
        }
    }
    Ok(Schema::Tezos)
}

/// A control file of version 3 has no checksum, and where it says that the suffix begins decides what counts
/// as collected. A commit is there, the one that was collected for: `Corrupt` when the index has it elsewhere.
fn check_start(reader: &Reader) -> Result<()> {
    let (control, start) = (&reader.space.control, reader.space.suffix_start());
    if control.checksum.is_some() || control.collected().is_none() {
        return Ok(());
    }
    // What is wrong with the entry is told by who reads it.
    let Ok((entry, _)) = reader.head(start, From::Anywhere) else { return Ok(()) };
    if !entry.head.kind.is_commit() {
        return Ok(());
    }
    match reader.index.find(&entry.head.hash)? {
        Some(row) if row.offset != start => Err(Error::corrupt(
            reader.space.control_name(),
            0,
            format_args!("a suffix from offset {}, as the index says", row.offset),
            start,
        )),
        _ => Ok(()),
    }
}

/// Whether `commit` is at `offset` and the index lacks it.
fn is_unindexed(reader: &Reader, commit: &CommitHash, offset: u64) -> Result<bool> {
    let is_there = || reader.commit(offset).is_ok_and(|found| found.hash == *commit);
    Ok(reader.index.find(commit)?.is_none() && is_there())
}

impl Opened {
    pub(crate) fn open(disk: Arc<dyn Disk>, options: &Options) -> Result<Opened> {
        if !is_store(&*disk)? {
            return Err(Error::missing(format!(
                "{} holds no store of Irmin: it has neither store.control nor store.pack",
                disk.root()
            )));
        }
        check_memory(&[
            ("objects_bytes", options.objects_bytes),
            ("pages_bytes", options.pages_bytes),
        ])?;
        let cache = Cache::new(options.pages_bytes);
        Self::new(disk, options.clone(), cache)
    }

    fn new(disk: Arc<dyn Disk>, options: Options, cache: Arc<Cache>) -> Result<Opened> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let before = space::control(&*disk)?;
            match Self::read(&disk, &options, &cache) {
                Ok((reader, branches)) => {
                    let reader = Arc::new(reader);
                    let (near, unindexed) = (OnceLock::new(), OnceLock::new());
                    return Ok(Opened { disk, options, cache, reader, branches, near, unindexed });
                }
                // The files were those of a control file that has been replaced since.
                Err(_) if attempt < ATTEMPTS && space::control(&*disk)? != before => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read_branches(disk: &dyn Disk, schema: Schema) -> Result<BTreeMap<Vec<u8>, CommitHash>> {
        let bytes = small(disk, "store.branches", BRANCHES_MAX)?.unwrap_or_default();
        let name = format!("{}/store.branches", disk.root());
        let mut branches = BTreeMap::new();
        for branch in branches::decode(&name, &bytes, schema)? {
            if *branch.hash == [0; 32] {
                branches.remove(&branch.name);
            } else {
                branches.insert(branch.name, branch.hash);
            }
        }
        Ok(branches)
    }

    /// In this order: a branch that is seen names a commit that the index has, and an index entry
    /// that is seen leads to bytes that the control file counts.
    fn read(
        disk: &Arc<dyn Disk>,
        options: &Options,
        cache: &Arc<Cache>,
    ) -> Result<(Reader, BTreeMap<Vec<u8>, CommitHash>)> {
        let schema = schema_of(&**disk, options)?;
        let branches = Self::read_branches(&**disk, schema)?;
        let index = Index::open(&**disk, schema, cache)?;
        let control = space::control(&**disk)?;
        let space = Space::open(disk, options.lower.as_ref(), control, cache)?;
        let reader = Reader::new(
            space,
            index,
            schema,
            options.configuration,
            options.verify,
            options.objects_bytes,
        );
        check_start(&reader)?;
        Ok((reader, branches))
    }

    /// Where a commit is. `Missing` when there is none, or it was collected; `Corrupt` when something
    /// still names it but it cannot be found.
    pub(crate) fn find(&self, commit: &CommitHash) -> Result<u64> {
        let reader = &self.reader;
        let row = reader.index.find(commit)?;
        let text = reader.schema.text(commit);
        if let Some(row) = &row {
            match reader.head(row.offset, From::Anywhere) {
                Ok((entry, _)) if entry.head.hash == **commit => match entry.head.kind {
                    EntryKind::CommitGone => match reader.head(row.offset, From::Lower) {
                        Ok(_) => return Ok(row.offset),
                        Err(error) => {
                            return Err(error.context(format_args!("commit {text} is absent")));
                        }
                    },
                    kind if kind.is_commit() => return Ok(row.offset),
                    other => return Err(entry.corrupt("a commit", other.name())),
                },
                Err(error) if error.kind() == Kind::Missing => {
                    // The entry may be wrong where nothing was collected.
                    return match self.look_for(commit) {
                        Ok(Some(offset)) => Ok(offset),
                        _ => Err(error.context(format_args!("commit {text} is absent"))),
                    };
                }
                Err(error) if error.kind() != Kind::Corrupt => return Err(error),
                _ => {}
            }
        }
        if let Some(offset) = self.look_for(commit)? {
            return Ok(offset);
        }
        let root = self.disk.root();
        if row.is_some() || self.branches.values().any(|hash| hash == commit) {
            return Err(Error::corrupt(
                &format!("{root}/index"),
                0,
                format_args!("an entry that leads to commit {text}"),
                "none",
            ));
        }
        Err(Error::missing(format!(
            "commit {text} is not in the store at {root}: `varvite context log` lists those that are"
        )))
    }

    /// A commit that the index lost: a parent of a newer one, or newer than all.
    fn look_for(&self, commit: &CommitHash) -> Result<Option<u64>> {
        let near = if let Some(near) = self.near.get() {
            near
        } else {
            let near = self.near()?;
            self.near.get_or_init(|| near)
        };
        let is_there = |at: &u64| self.reader.commit(*at).is_ok_and(|found| found.hash == *commit);
        if let Some(at) = near.places.get(commit).copied().filter(is_there) {
            return Ok(Some(at));
        }
        if !near.lacks && self.unindexed.get().is_none() {
            return Ok(None);
        }
        Ok(self.unindexed()?.by_hash.get(commit).copied())
    }

    /// The newest commits that can be read, and where those say that their parents are.
    fn near(&self) -> Result<Near> {
        let mut near = HashMap::new();
        for (offset, _) in self.newest(u64::MAX, LOOK_BACK)? {
            let Ok(found) = self.reader.commit(offset) else { continue };
            near.insert(found.hash, offset);
            for (hash, address) in found.parents.iter().zip(&found.entry.parents) {
                if let Address::Offset(at) = address {
                    near.entry(*hash).or_insert(*at);
                }
            }
        }
        let mut lacks = false;
        for (hash, at) in &near {
            lacks = lacks || is_unindexed(&self.reader, hash, *at)?;
        }
        Ok(Near { places: near, lacks })
    }

    /// Offset and hash of up to `limit` commits below offset `below`, newest first, collected ones included.
    fn newest(&self, below: u64, limit: usize) -> Result<Vec<(u64, CommitHash)>> {
        let mut kept = BTreeSet::new();
        self.each_commit(&mut |place| {
            if place.0 >= below {
                return;
            }
            kept.insert(place);
            if kept.len() > limit {
                kept.pop_first();
            }
        })?;
        Ok(kept.into_iter().rev().collect())
    }

    /// The commits that the index lacks. Reads the head of every entry of the suffix the first time.
    pub(crate) fn unindexed(&self) -> Result<&Unindexed> {
        if let Some(found) = self.unindexed.get() {
            return Ok(found);
        }
        let found = unindexed::find(&self.reader)?;
        Ok(self.unindexed.get_or_init(|| found))
    }

    /// Offset and hash of up to `limit` commits from `offset` on, oldest first, collected ones and those
    /// that the index lacks included.
    pub(crate) fn oldest(&self, offset: u64, limit: usize) -> Result<Vec<(u64, CommitHash)>> {
        let mut kept = BTreeSet::new();
        let unindexed = self.unindexed()?.commits.iter().copied();
        let each = |keep: &mut dyn FnMut((u64, CommitHash))| {
            unindexed.clone().for_each(&mut *keep);
            self.each_commit(keep)
        };
        each(&mut |place| {
            if place.0 >= offset {
                kept.insert(place);
            }
            if kept.len() > limit {
                kept.pop_last();
            }
        })?;
        Ok(kept.into_iter().collect())
    }

    /// Calls `keep` with offset and hash of every commit, in no order, perhaps more than once.
    fn each_commit(&self, keep: &mut dyn FnMut((u64, CommitHash))) -> Result<()> {
        let mut end = self.reader.space.suffix_start();
        self.reader.index.scan(&mut |file, place, row| {
            let kind = EntryKind::of(row.letter).ok_or_else(|| {
                Error::corrupt(file, place, "an entry with the letter of a kind", row.letter)
            })?;
            if kind.is_commit() {
                keep((row.offset, row.hash.into()));
                end = end.max(row.offset.saturating_add(u64::from(row.length)));
            }
            Ok(())
        })?;
        self.after(end, keep)
    }

    /// Commits behind `end`, where the index leads to none: usually there is nothing at all.
    fn after(&self, end: u64, keep: &mut dyn FnMut((u64, CommitHash))) -> Result<()> {
        let mut offset = end;
        while offset < self.reader.space.end() {
            let (entry, _) = self.reader.head(offset, From::Anywhere)?;
            let Head { hash, kind, length, .. } = entry.head;
            if kind == EntryKind::Commit {
                keep((offset, hash.into()));
            }
            // Those without a length are of version 1, in which everything is indexed.
            let Some(length) = length else { break };
            offset += length;
        }
        Ok(())
    }

    fn control(&self) -> &Control {
        &self.reader.space.control
    }
}

impl History for Opened {
    fn configuration(&self) -> Configuration {
        self.options.configuration
    }

    fn load(&self) -> Arc<dyn Load> {
        Arc::clone(&self.reader) as Arc<dyn Load>
    }

    fn exists(&self, commit: &CommitHash) -> Result<bool> {
        match self.find(commit) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == Kind::Missing => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn root(&self, commit: &CommitHash) -> Result<Slot> {
        Ok(self.reader.commit(self.find(commit)?)?.root)
    }

    fn commit_info(&self, commit: &CommitHash) -> Result<Commit> {
        let offset = self.find(commit)?;
        let found = self.reader.commit(offset)?;
        let mut parents = found.parents;
        parents.sort_unstable();
        Ok(Commit {
            hash: found.hash,
            tree: found.tree,
            parents,
            date: found.entry.date,
            author: found.entry.author,
            message: found.entry.message,
            sequence: offset,
            added_bytes: 0,
        })
    }

    fn log(&self, before: Option<&CommitHash>, limit: usize) -> Result<Vec<CommitHash>> {
        let mut hashes = Vec::new();
        // Where those that were listed say that their parents are.
        let mut named: HashMap<CommitHash, u64> = HashMap::new();
        let first = before.map(|commit| self.find(commit)).transpose()?;
        let newest = self.newest(first.unwrap_or(u64::MAX), limit)?;
        let mut waiting: BTreeSet<(u64, CommitHash)> = newest.into_iter().collect();
        // That one is looked at for parents that the index lacks, and is not among those before it.
        waiting.extend(first.zip(before.copied()));
        let limit = limit.saturating_add(usize::from(first.is_some()));
        while let Some((offset, hash)) = waiting.pop_last() {
            if hashes.len() >= limit {
                break;
            }
            let elsewhere = named.get(&hash).copied().filter(|at| *at != offset);
            let found = match (self.reader.commit(offset), elsewhere) {
                (Ok(commit), None) if commit.hash == hash => {
                    hashes.push(hash);
                    for (hash, address) in commit.parents.iter().zip(&commit.entry.parents) {
                        let Address::Offset(at) = address else { continue };
                        named.insert(*hash, *at);
                        // A parent that the index lacks follows from who names it.
                        if *at < offset && is_unindexed(&self.reader, hash, *at)? {
                            waiting.insert((*at, *hash));
                        }
                    }
                    continue;
                }
                (Ok(commit), _) if commit.hash == hash => continue,
                (Ok(commit), _) => self.reader.schema.text(&commit.hash),
                (Err(error), None) if error.kind() == Kind::Missing => continue,
                (Err(error), Some(at)) if error.kind() == Kind::Missing => {
                    if self.reader.commit(at).is_err() {
                        continue;
                    }
                    format!("it at offset {at}")
                }
                (Err(error), _) => return Err(error),
            };
            return Err(Error::corrupt(
                &format!("{}/index", self.disk.root()),
                0,
                format_args!("commit {} at offset {offset}", self.reader.schema.text(&hash)),
                found,
            ));
        }
        if first.is_some() && !hashes.is_empty() {
            hashes.remove(0);
        }
        Ok(hashes)
    }

    fn branches(&self) -> &BTreeMap<Vec<u8>, CommitHash> {
        &self.branches
    }

    fn object(&self, hash: &TreeHash) -> Result<Option<Slot>> {
        let Some(row) = self.reader.index.find(hash)? else { return Ok(None) };
        let (entry, _) = match self.reader.head(row.offset, From::Anywhere) {
            Err(error) if error.kind() == Kind::Missing => return Ok(None),
            outcome => outcome?,
        };
        if entry.head.hash != **hash {
            let text = |hash| self.reader.schema.text(hash);
            return Err(entry.corrupt(text(hash), text(&entry.head.hash)));
        }
        Ok(match entry.head.kind {
            EntryKind::Contents => Some(Slot::StoredValue(row.offset + 1)),
            EntryKind::Root | EntryKind::FlatOld => Some(Slot::StoredNode(row.offset + 1)),
            _ => None,
        })
    }

    fn stats(&self) -> Stats {
        let collected = self.control().collected();
        let mut commits = 0;
        // What cannot be read is told by whoever asks for it.
        let _ = self.reader.index.scan(&mut |_, _, row| {
            commits += u64::from(row.is_commit());
            Ok(())
        });
        let entries = self.reader.index.count();
        Stats {
            commits,
            objects: if entries > commits { entries } else { 0 },
            pack_bytes: self.reader.space.bytes(),
            index_bytes: self.reader.index.bytes(),
            objects_bytes: self.reader.objects.bytes(),
            chunks: self.reader.space.files(),
            epoch: 0,
            generation: collected.map_or(0, |collected| collected.generation),
            ..Stats::default()
        }
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (name, hash) in &self.branches {
            if let Err(error) = self.find(hash) {
                let name = String::from_utf8_lossy(name);
                warnings.push(format!("branch {name} leads nowhere: {error}"));
            }
        }
        warnings
    }

    fn check(&self, from: Option<&CommitHash>, most: u64) -> Result<(Checked, Option<CommitHash>)> {
        let all = self.newest(u64::MAX, usize::MAX)?;
        let first = match from {
            None => Some(0),
            Some(from) => all.iter().position(|(_, hash)| hash == from),
        };
        let first = first.ok_or_else(|| {
            Error::missing("the commit to begin with is not among those that are listed")
        })?;
        let mut left = all[first..].iter();
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let commits: Vec<u64> = left.by_ref().take(most).map(|(offset, _)| *offset).collect();
        let next = left.next().map(|(_, hash)| *hash);
        let reader = Self::read(
            &self.disk,
            &Options { verify: Verify::Hashes, ..self.options.clone() },
            &self.cache,
        )?
        .0;
        Ok((super::check::check(&reader, &commits, from.is_none())?, next))
    }

    fn reload(&mut self) -> Result<()> {
        let branches = Self::read_branches(&*self.disk, self.reader.schema)?;
        if self.reader.index.is_current(&*self.disk)?
            && space::control(&*self.disk)? == *self.control()
        {
            self.branches = branches;
            return Ok(());
        }
        let (disk, cache) = (Arc::clone(&self.disk), Arc::clone(&self.cache));
        *self = Opened::new(disk, self.options.clone(), cache)?;
        Ok(())
    }
}

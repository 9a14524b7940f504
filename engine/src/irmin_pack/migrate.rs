//! Copying commits of a store of Irmin into one of ours, the oldest first.
//!
//! A commit is made from one that is there already and what differs between the two, so that memory
//! and work go with the change; only the first is copied whole, and spills as it grows. Each hash is
//! compared before anything is committed.

use std::sync::Arc;

use super::format::entry::Address;
use super::format::schema::Schema;
use super::read::open::{Opened, Options};
use super::read::reader::ReadCommit;
use super::read::space::From;
use crate::context::hash::CommitHash;
use crate::context::pieces::node::Slot;
use crate::context::store::history::History;
use crate::context::{Change, CommitInfo, Order, Store, Tree};
use crate::disk::Disk;
use crate::error::{Error, Kind, Result};

/// Commits whose places are in memory at once.
const WINDOW: usize = 100_000;

/// Values between two calls of whoever watches.
const WATCH: u64 = 4096;

/// Which commits are copied: all, unless told otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Only these. `Missing` when one is not in the store.
    pub commits: Vec<CommitHash>,
    /// This one and those that the store took after it.
    pub since: Option<CommitHash>,
}

/// How far a migration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Migrated {
    /// Commits that were copied.
    pub commits: u64,
    /// Commits that were there before.
    pub present: u64,
    /// Commits that garbage collection took.
    pub collected: u64,
    /// Commits that were found in the pack, because the index lacks them.
    pub unindexed: u64,
    /// Values that were added, changed or removed.
    pub changes: u64,
    /// Branches that were set.
    pub branches: u64,
    /// Offset of the commit that is copied now.
    pub offset: u64,
    /// Offset behind the last object of the store.
    pub end: u64,
}

/// Copies commits of the store of Irmin on `source` into `target`, and sets its branches that name
/// one. What `target` has is left out, so an interrupted migration goes on where it was; the commit
/// that was in work is begun again. `watch` is told now and then, and its error ends the migration.
///
/// Memory: what `options` and the options of `target` allow, and 40 bytes for each of 100,000 commits.
/// `Invalid` for a store with SHA-1 or with another shape than the target's; `Corrupt` when a commit
/// does not give its hash again, of which then nothing is committed. Commits that the index lacks are found in
/// the pack by reading the head of every entry; `Corrupt` where they cannot be.
pub fn migrate(
    source: Arc<dyn Disk>,
    options: &Options,
    target: &mut Store,
    choice: &Choice,
    watch: &mut dyn FnMut(&Migrated) -> Result<()>,
) -> Result<Migrated> {
    let opened = Opened::open(source, options)?;
    if opened.reader.schema != Schema::Tezos {
        return Err(Error::invalid(
            "the store has SHA-1 hashes, which a store of ours cannot have: it can only be read",
        ));
    }
    if opened.configuration() != target.configuration() {
        return Err(Error::invalid(
            "the two stores have directories of different shapes: create the target with the other's",
        ));
    }
    let end = opened.reader.space.end();
    let done = Migrated { end, ..Migrated::default() };
    let mut migration = Migration { opened, target, watch, done, base: None };
    migration.choose(choice)?;
    migration.branches()?;
    Ok(migration.done)
}

/// A commit that both stores have.
struct Base {
    hash: CommitHash,
    /// Its tree there.
    root: Slot,
    /// Its tree here, if it was committed just now.
    tree: Option<Tree>,
}

struct Migration<'a> {
    opened: Opened,
    target: &'a mut Store,
    watch: &'a mut dyn FnMut(&Migrated) -> Result<()>,
    done: Migrated,
    base: Option<Base>,
}

impl Migration<'_> {
    fn choose(&mut self, choice: &Choice) -> Result<()> {
        let mut next = match &choice.since {
            Some(commit) => self.opened.find(commit)?,
            None => 0,
        };
        if !choice.commits.is_empty() {
            let mut places = Vec::new();
            for commit in &choice.commits {
                places.push((self.opened.find(commit)?, *commit));
            }
            places.sort_unstable();
            places.dedup();
            places.retain(|(offset, _)| *offset >= next);
            return places.iter().try_for_each(|(offset, hash)| self.one(*offset, hash));
        }
        self.complete()?;
        loop {
            let window = self.opened.oldest(next, WINDOW)?;
            let Some((last, _)) = window.last() else { return Ok(()) };
            next = last + 1;
            for (offset, hash) in &window {
                self.one(*offset, hash)?;
            }
        }
    }

    /// `Corrupt` when commits are missing in the index and cannot be found in the pack.
    fn complete(&mut self) -> Result<()> {
        let found = self.opened.unindexed()?;
        self.done.unindexed = found.commits.len() as u64;
        let text = |hash| self.opened.reader.schema.text(hash);
        match found.nowhere.first() {
            Some((commit, parent)) => Err(Error::corrupt(
                &self.opened.reader.index.folder,
                0,
                format_args!("commit {}, a parent of {}", text(parent), text(commit)),
                "none: let Irmin make the index again, or choose commits",
            )),
            None => match &found.stopped {
                // With an index that has all that was found, what is damaged is perhaps no commit's.
                Some(error) if !found.commits.is_empty() => Err(Error::corrupt(
                    &self.opened.reader.index.folder,
                    0,
                    "every commit",
                    format_args!(
                        "not all of them, and the rest cannot be found in the pack: {}; let Irmin make \
                         the index again, or choose commits",
                        error.detail()
                    ),
                )),
                _ => Ok(()),
            },
        }
    }

    fn one(&mut self, offset: u64, hash: &CommitHash) -> Result<()> {
        let reader = Arc::clone(&self.opened.reader);
        let read = match reader.commit(offset) {
            Err(error) if error.kind() == Kind::Missing => match self.opened.find(hash) {
                Err(error) if error.kind() == Kind::Missing => {
                    self.done.collected += 1;
                    return Ok(());
                }
                found => reader.commit(found?)?,
            },
            read => read?,
        };
        if read.hash != *hash {
            let (entry, _) = reader.head(offset, From::Anywhere)?;
            return Err(entry.corrupt(
                format_args!("commit {}, as the index says", reader.schema.text(hash)),
                reader.schema.text(&read.hash),
            ));
        }
        self.done.offset = offset;
        if self.target.has_taken(hash)? {
            self.done.present += 1;
            let is_there = self.target.exists(hash)?;
            self.base = is_there.then_some(Base { hash: *hash, root: read.root, tree: None });
            return Ok(());
        }
        let what = || format!("commit {}", reader.schema.text(hash));
        let tree = self.copy(offset, &read).map_err(|error| error.context(what()))?;
        self.done.commits += 1;
        self.base = Some(Base { hash: *hash, root: read.root, tree: Some(tree) });
        (self.watch)(&self.done)
    }

    /// A parent that both stores have, or else the commit before.
    fn base(&mut self, read: &ReadCommit) -> Result<Option<Base>> {
        let is_parent = |base: &Base| read.parents.contains(&base.hash);
        if self.base.as_ref().is_some_and(is_parent) {
            return Ok(self.base.take());
        }
        for (hash, address) in read.parents.iter().zip(&read.entry.parents) {
            if !self.target.exists(hash)? {
                continue;
            }
            let found = match address {
                Address::Offset(at) => self.opened.reader.commit(*at),
                Address::Hash(hash) => self
                    .opened
                    .find(&CommitHash::new(*hash))
                    .and_then(|at| self.opened.reader.commit(at)),
            };
            match found {
                Ok(parent) => {
                    return Ok(Some(Base { hash: *hash, root: parent.root, tree: None }));
                }
                Err(error) if error.kind() == Kind::Missing => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.base.take())
    }

    /// Commits what was read, and gives its tree here.
    fn copy(&mut self, offset: u64, read: &ReadCommit) -> Result<Tree> {
        let (configuration, load) = (self.opened.configuration(), self.opened.load());
        let theirs = |root: &Slot| Tree::stored(configuration, Arc::clone(&load), root.clone());
        let after = theirs(&read.root);
        let base = self.base(read)?;
        let (done, watch) = (&mut self.done, &mut self.watch);
        let mut changed = || {
            done.changes += 1;
            if done.changes.is_multiple_of(WATCH) { watch(done) } else { Ok(()) }
        };
        let mut tree;
        if let Some(base) = base {
            tree = match base.tree {
                Some(tree) => tree,
                None => self.target.checkout(&base.hash)?,
            };
            theirs(&base.root).diff(&after, |path, change| {
                changed()?;
                match change {
                    Change::Added(value) | Change::Updated(_, value) => tree.add(path, &value),
                    Change::Removed(_) => tree.remove(path),
                }
            })?;
        } else {
            tree = self.target.empty_tree();
            after.fold::<&[u8]>(&[], None, Order::Undefined, |path, child| {
                let Some(value) = child.to_value()? else { return Ok(()) };
                changed()?;
                tree.add(path, &value)
            })?;
        }
        let entry = &read.entry;
        let info = CommitInfo::new(&read.parents, entry.date, &entry.author, &entry.message);
        let found = self.target.hash(&tree, &info)?;
        if found != read.hash {
            let reader = &self.opened.reader;
            let (entry, _) = reader.head(offset, From::Anywhere)?;
            let text = |hash| reader.schema.text(hash);
            return Err(entry.corrupt(
                format_args!("what hashes to {}", text(&read.hash)),
                format_args!("{}: `varvite context check` finds where", text(&found)),
            ));
        }
        self.target.commit(&mut tree, &info)?;
        // Nobody waits here, so that no commit has to save the index.
        self.target.maintain()?;
        Ok(tree)
    }

    fn branches(&mut self) -> Result<()> {
        for (name, hash) in self.opened.branches() {
            if self.target.exists(hash)? && self.target.branch(name) != Some(*hash) {
                self.target.set_branch(name, hash)?;
                self.done.branches += 1;
            }
        }
        Ok(())
    }
}

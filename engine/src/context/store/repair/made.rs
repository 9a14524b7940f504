//! The store that a repair makes, and how it takes commits over.

use std::collections::HashMap;
use std::sync::Arc;

use super::RepairedContext;
use super::branches;
use super::salvage::Records;
use super::wreck::{Wreck, is_loss};
use crate::context::files::commit::CommitBody;
use crate::context::files::pack::Pack;
use crate::context::hash::{self, CommitHash, Hash};
use crate::context::pieces::node::{Load, Node, Slot};
use crate::context::store::{CommitInfo, Store};
use crate::context::tree::{Change, Tree};
use crate::error::{Error, Kind, Result};
use crate::sync::{AtomicBool, Ordering};

/// A commit that is in the new store.
struct TakenCommit {
    /// Where its tree was.
    root: u64,
    /// The commit with which it was compared.
    base: Option<CommitHash>,
}

/// The store that is made.
pub(super) struct NewStore {
    pub(super) store: Store,
    /// Commits that are in it.
    kept: HashMap<CommitHash, TakenCommit>,
    pub(super) last: Option<CommitHash>,
}

impl NewStore {
    pub(super) fn new(store: Store) -> NewStore {
        NewStore { store, kept: HashMap::new(), last: None }
    }

    pub(super) fn has(&self, commit: &CommitHash) -> bool {
        self.kept.contains_key(commit)
    }

    pub(super) fn commits(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Takes over what `body` says, which is of `commit`.
    pub(super) fn take(
        &mut self,
        wreck: &mut Wreck,
        commit: CommitHash,
        body: &CommitBody,
    ) -> Result<()> {
        if self.has(&commit) {
            return Ok(());
        }
        let parent = body.parents.iter().find(|parent| self.has(parent));
        let before = parent.copied().or(self.last);
        let base = self.commit_after(wreck, before, commit, body)?;
        self.kept.insert(commit, TakenCommit { root: body.root, base });
        self.last = Some(commit);
        self.store.maintain().map(drop)
    }

    /// Commits what `body` says, with what differs from `before` or from a commit before that one, which it returns.
    ///
    /// Where a directory is equal to that of the commit before, its records are not read, though they may be others. So a
    /// commit may be kept of whose own records some are damaged, and the next one cannot be compared with it. The one with
    /// which it was compared itself has the same in other records. The steps back become longer, so that a commit
    /// is compared a few dozen times at most.
    fn commit_after(
        &mut self,
        wreck: &mut Wreck,
        before: Option<CommitHash>,
        commit: CommitHash,
        body: &CommitBody,
    ) -> Result<Option<CommitHash>> {
        let (mut base, mut steps) = (before, 0);
        loop {
            let old = Arc::new(Before { pack: Arc::clone(&wreck.pack), failed: false.into() });
            let error = match self.commit_from(wreck, base, &old, commit, body) {
                Err(error) if is_loss(&error) => error,
                outcome => return outcome.map(|()| base),
            };
            let farther = base.filter(|_| old.failed.load(Ordering::Relaxed));
            let Some(farther) = farther.and_then(|base| self.base_of(base, 1 + steps / 4)) else {
                return Err(error);
            };
            wreck.note(&error);
            steps += 1 + steps / 4;
            base = Some(farther);
        }
    }

    /// The commit so many comparisons before `commit`, or the first one; none when that is `commit` itself.
    fn base_of(&self, commit: CommitHash, steps: u64) -> Option<CommitHash> {
        let next = |commit: &CommitHash| self.kept[commit].base;
        let mut farther = next(&commit)?;
        for _ in 1..steps {
            let Some(base) = next(&farther) else { break };
            farther = base;
        }
        Some(farther)
    }

    /// Commits what `body` says, with what differs from `base`, which is in both stores and read by `old`.
    fn commit_from(
        &mut self,
        wreck: &Wreck,
        base: Option<CommitHash>,
        old: &Arc<Before>,
        commit: CommitHash,
        body: &CommitBody,
    ) -> Result<()> {
        let stored = |load, root| Tree::stored(wreck.configuration, load, Slot::StoredNode(root));
        let (old, mut tree) = match base {
            Some(hash) => {
                let root = self.kept[&hash].root;
                (stored(Arc::clone(old) as Arc<dyn Load>, root), self.store.checkout(&hash)?)
            }
            None => (Tree::empty(wreck.configuration), self.store.empty_tree()),
        };
        let new = stored(Arc::clone(&wreck.pack) as Arc<dyn Load>, body.root);
        old.diff(&new, |path, change| match change {
            Change::Added(value) | Change::Updated(_, value) => tree.add(path, &value),
            Change::Removed(_) => tree.remove(path),
        })?;
        let info = CommitInfo::new(&body.parents, body.date, &body.author, &body.message);
        let found = self.store.hash(&tree, &info)?;
        if found != commit {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "what is left of commit {} hashes to {}",
                    hash::to_text(&commit),
                    hash::to_text(&found)
                ),
            ));
        }
        self.store.commit(&mut tree, &info).map(drop)
    }

    /// Sets branches and pins, as far as their commits are there.
    pub(super) fn name(
        &mut self,
        wreck: &mut Wreck,
        records: &Records,
        repaired: &mut RepairedContext,
    ) -> Result<()> {
        if wreck.is_store()? {
            let (known, may_be_older) = wreck.branches_from();
            repaired.branches_may_be_older = may_be_older;
            for (name, commit) in branches(wreck, records, known) {
                if self.has(&commit) {
                    self.store.set_branch(&name, &commit)?;
                    repaired.branches += 1;
                } else {
                    repaired.lost_branches.push((name, commit));
                }
            }
        } else {
            repaired.branches_unknown = true;
            wreck.tell(
                "chunks alone say nothing of the branches of the store that they are of".to_owned(),
            );
        }
        let pins = wreck.control.as_ref().map(|control| control.pins.clone()).unwrap_or_default();
        for pin in pins {
            let found = records.commits.get(&pin).map(|it| it.0);
            match found.filter(|commit| self.has(commit)) {
                Some(commit) => self.store.pin(&commit)?,
                None => wreck.tell(match found {
                    Some(commit) => {
                        format!("the pin of commit {} is lost with it", hash::to_text(&commit))
                    }
                    None => format!("a pin is lost, of a commit at logical offset {pin}"),
                }),
            }
        }
        Ok(())
    }
}

/// The damaged pack as it is read for the commit with which another is compared.
#[derive(Debug)]
struct Before {
    pack: Arc<Pack>,
    /// Something of that commit could not be read.
    failed: AtomicBool,
}

impl Before {
    fn noted<T>(&self, outcome: Result<T>) -> Result<T> {
        if outcome.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        outcome
    }
}

impl Load for Before {
    fn node(&self, offset: u64) -> Result<Arc<Node>> {
        self.noted(self.pack.node(offset))
    }

    fn value(&self, offset: u64) -> Result<Arc<[u8]>> {
        self.noted(self.pack.value(offset))
    }

    fn value_bytes(&self, offset: u64) -> Result<Vec<u8>> {
        self.noted(self.pack.value_bytes(offset))
    }

    fn hash(&self, offset: u64) -> Result<Hash> {
        self.noted(self.pack.hash(offset))
    }

    /// That of the pack: what is stored at one offset is the same on both sides, and not read.
    fn identity(&self) -> u64 {
        self.pack.identity()
    }
}

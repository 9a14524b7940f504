//! Where histories come from: ancestors of commits, and the lowest that two of them share.
//!
//! A commit has a higher sequence number than its parents, unless it was taken before them. So one
//! walk from the newest down meets every commit after all that descend from it, and ends where
//! nothing but shared ancestors is left. A history that is out of order is walked to its ends.

use std::collections::{BinaryHeap, HashMap, HashSet};

use crate::context::files::commit::Commit;
use crate::context::hash::CommitHash;
use crate::context::observer::Operation;
use crate::context::store::Store;
use crate::error::{Error, Kind, Result};

/// How far the past of commits is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Commits that are read at most, one read each.
    pub commits: usize,
    /// Lowest common ancestors at most. For a merge: of all that are merged into one base.
    pub bases: usize,
}

impl Default for Limits {
    /// A million commits, 1,000 common ancestors.
    fn default() -> Limits {
        Limits { commits: 1_000_000, bases: 1_000 }
    }
}

const OURS: u8 = 1;
const THEIRS: u8 = 2;
/// Below a commit that both have.
const STALE: u8 = 4;

/// What a commit says of its past.
#[derive(Clone, Debug)]
struct Ancestry {
    sequence: u64,
    parents: Vec<CommitHash>,
}

/// The commits read so far, and how many more may be.
pub(super) struct Past<'a> {
    store: &'a Store,
    known: HashMap<CommitHash, Option<Ancestry>>,
    limits: Limits,
}

impl<'a> Past<'a> {
    pub(super) fn new(store: &'a Store, limits: Limits) -> Past<'a> {
        Past { store, known: HashMap::new(), limits }
    }

    /// What a commit says of its past; none when it is not in the store, where histories end.
    fn ancestry(&mut self, commit: &CommitHash) -> Result<Option<Ancestry>> {
        if let Some(known) = self.known.get(commit) {
            return Ok(known.clone());
        }
        if self.known.len() >= self.limits.commits {
            return Err(Error::invalid(format!(
                "the histories are longer than the limit of {} commits: raise the limit",
                self.limits.commits
            )));
        }
        let ancestry = self.store.ancestry(commit)?;
        self.known.insert(*commit, ancestry.clone());
        Ok(ancestry)
    }

    /// Counts common ancestors against the limit.
    pub(super) fn take_bases(&mut self, count: usize) -> Result<()> {
        let Some(left) = self.limits.bases.checked_sub(count) else {
            return Err(Error::invalid(
                "the histories share more lowest common ancestors than the limit: raise the limit",
            ));
        };
        self.limits.bases = left;
        Ok(())
    }

    /// The common ancestors of both groups of commits that no other common ancestor descends from,
    /// the oldest first. A commit is an ancestor of itself.
    pub(super) fn lowest_common(
        &mut self,
        ours: &[CommitHash],
        theirs: &[CommitHash],
    ) -> Result<Vec<CommitHash>> {
        let _span = self.store.span(Operation::History);
        match self.by_sequence(ours, theirs)? {
            Some(lowest) => Ok(lowest),
            None => self.walk_to_the_ends(ours, theirs),
        }
    }

    /// Walks from the newest down; gives up when a commit is older than its parent.
    fn by_sequence(
        &mut self,
        ours: &[CommitHash],
        theirs: &[CommitHash],
    ) -> Result<Option<Vec<CommitHash>>> {
        let mut flags: HashMap<CommitHash, u8> = HashMap::new();
        let mut queue: BinaryHeap<(u64, CommitHash)> = BinaryHeap::new();
        // Those in the queue that could still lead to a lowest common ancestor.
        let mut open: HashSet<CommitHash> = HashSet::new();
        for (heads, flag) in [(ours, OURS), (theirs, THEIRS)] {
            for head in heads {
                if let Some(ancestry) = self.ancestry(head)? {
                    let mark = flags.entry(*head).or_insert(0);
                    if *mark == 0 {
                        queue.push((ancestry.sequence, *head));
                    }
                    *mark |= flag;
                    open.insert(*head);
                }
            }
        }
        let (mut lowest, mut ended) = (Vec::new(), 0);
        while !open.is_empty() {
            let (sequence, commit) = queue.pop().expect("what is open is in the queue");
            open.remove(&commit);
            let mut passed_on = flags[&commit];
            if passed_on == OURS | THEIRS {
                lowest.push((sequence, commit));
                passed_on |= STALE;
            }
            let Some(ancestry) = self.ancestry(&commit)? else { continue };
            for parent in &ancestry.parents {
                let Some(of_parent) = self.ancestry(parent)? else {
                    ended |= if passed_on & STALE == 0 { passed_on } else { 0 };
                    continue;
                };
                if of_parent.sequence >= sequence {
                    return Ok(None);
                }
                let mark = flags.entry(*parent).or_insert(0);
                if *mark == 0 {
                    queue.push((of_parent.sequence, *parent));
                }
                *mark |= passed_on;
                if *mark & STALE == 0 {
                    open.insert(*parent);
                } else {
                    open.remove(parent);
                }
            }
        }
        self.expect_all(ended)?;
        lowest.reverse();
        Ok(Some(lowest.into_iter().map(|(_, commit)| commit).collect()))
    }

    /// `Collected` when both histories ended where a collection may have taken the commits in which they join.
    /// An index that was made again does not know these, so any parent that is not there may be one.
    fn expect_all(&self, ended: u8) -> Result<()> {
        let horizon = &self.store.control.horizon;
        if ended != OURS | THEIRS || horizon.commit == 0 || self.store.history.is_some() {
            return Ok(());
        }
        Err(Error::new(
            Kind::Collected,
            format!(
                "the histories may join in commits that were collected from the store at {}: ask a store \
                 that keeps a longer history, or merge their trees with a base of your choice",
                self.store.disk.root()
            ),
        ))
    }

    /// Every ancestor of `heads` in the store, they included.
    fn ancestors(
        &mut self,
        heads: impl IntoIterator<Item = CommitHash>,
    ) -> Result<HashSet<CommitHash>> {
        let mut found = HashSet::new();
        let mut stack: Vec<CommitHash> = heads.into_iter().collect();
        while let Some(commit) = stack.pop() {
            if !found.contains(&commit)
                && let Some(ancestry) = self.ancestry(&commit)?
            {
                found.insert(commit);
                stack.extend(ancestry.parents);
            }
        }
        Ok(found)
    }

    /// The same without any order: all common ancestors but those below another.
    fn walk_to_the_ends(
        &mut self,
        ours: &[CommitHash],
        theirs: &[CommitHash],
    ) -> Result<Vec<CommitHash>> {
        let ours = self.ancestors(ours.iter().copied())?;
        let theirs = self.ancestors(theirs.iter().copied())?;
        let common: Vec<CommitHash> = ours.intersection(&theirs).copied().collect();
        let mut ended = 0;
        for (side, flag) in [(&ours, OURS), (&theirs, THEIRS)] {
            for commit in
                side.iter().filter(|commit| !(ours.contains(*commit) && theirs.contains(*commit)))
            {
                for parent in self.ancestry(commit)?.expect("it was found").parents {
                    ended |= if side.contains(&parent) { 0 } else { flag };
                }
            }
        }
        self.expect_all(ended)?;
        let mut parents = Vec::new();
        for commit in &common {
            parents.extend(self.ancestry(commit)?.expect("it was found").parents);
        }
        let below = self.ancestors(parents)?;
        let mut lowest = Vec::new();
        for commit in common {
            if !below.contains(&commit) {
                let sequence = self.ancestry(&commit)?.expect("it was found").sequence;
                lowest.push((sequence, commit));
            }
        }
        lowest.sort_unstable();
        Ok(lowest.into_iter().map(|(_, commit)| commit).collect())
    }
}

impl Store {
    /// What a commit says of its past; none when it is not here.
    fn ancestry(&self, commit: &CommitHash) -> Result<Option<Ancestry>> {
        if self.history.is_some() {
            let known = self.exists(commit)?.then(|| self.commit_info(commit)).transpose()?;
            return Ok(known.map(|Commit { sequence, parents, .. }| Ancestry { sequence, parents }));
        }
        let found = self.find_commit(commit)?.filter(|offset| !self.has_collected(*offset));
        let Some(offset) = found else { return Ok(None) };
        let (_, body) = self.commit_at(offset)?;
        Ok(Some(Ancestry { sequence: body.sequence, parents: body.parents }))
    }

    /// The common ancestors of two commits that no other common ancestor descends from, the oldest
    /// first: none for histories without a common past, several where branches were merged into each
    /// other. A commit is an ancestor of itself.
    ///
    /// Reads the commits that only one of them descends from, and about as many more; parents that
    /// are not in the store end a history. `Missing` when one of the two is not there, `Collected` when
    /// they may join in what was collected, `Invalid` when a limit is passed.
    pub fn lowest_common_ancestors(
        &self,
        ours: &CommitHash,
        theirs: &CommitHash,
        limits: Limits,
    ) -> Result<Vec<CommitHash>> {
        self.commit_info(ours)?;
        self.commit_info(theirs)?;
        let mut past = Past::new(self, limits);
        let lowest = past.lowest_common(&[*ours], &[*theirs])?;
        past.take_bases(lowest.len())?;
        Ok(lowest)
    }

    /// The commits that descend from `first` and that `last` descends from, both included: the range that
    /// [`Store::export_commits`] takes. Two reads for each ancestor of `last`, a few dozen bytes of memory.
    /// `Missing` when one of the two is not there, `Invalid` when `last` does not descend from `first`, or
    /// when there are more ancestors than the limit.
    pub fn commits_between(
        &self,
        first: &CommitHash,
        last: &CommitHash,
        limits: Limits,
    ) -> Result<Vec<CommitHash>> {
        self.commit_info(first)?;
        self.commit_info(last)?;
        let _span = self.span(Operation::History);
        let mut past = Past::new(self, limits);
        let mut children: HashMap<CommitHash, Vec<CommitHash>> = HashMap::new();
        let mut seen = HashSet::from([*last]);
        let mut stack = vec![*last];
        while let Some(commit) = stack.pop() {
            if commit == *first {
                continue;
            }
            let Some(ancestry) = past.ancestry(&commit)? else { continue };
            for parent in ancestry.parents {
                children.entry(parent).or_default().push(commit);
                if seen.insert(parent) {
                    stack.push(parent);
                }
            }
        }
        if !seen.contains(first) {
            return Err(Error::invalid(
                "the last commit does not descend from the first one through commits of the store",
            ));
        }
        let mut between = vec![*first];
        let mut found = HashSet::from([*first]);
        let mut next = 0;
        while let Some(commit) = between.get(next) {
            next += 1;
            for child in children.remove(commit).unwrap_or_default() {
                if found.insert(child) {
                    between.push(child);
                }
            }
        }
        Ok(between)
    }

    /// The commits that `heads` descend from, they included, at most `limit`: children before their
    /// parents, the newest first. Parents that are not in the store end it. Two reads each. `Missing`
    /// when a head is not there.
    pub fn history(&self, heads: &[CommitHash], limit: usize) -> Result<Vec<Commit>> {
        let _span = self.span(Operation::History);
        let mut queue = BinaryHeap::new();
        let mut seen = HashSet::new();
        for head in heads {
            if seen.insert(*head) {
                queue.push((self.info_of(head)?.sequence, *head));
            }
        }
        let mut commits = Vec::new();
        while commits.len() < limit
            && let Some((_, hash)) = queue.pop()
        {
            let commit = self.info_of(&hash)?;
            // What comes next is looked at only when it is asked for: it may be damaged, or below.
            let parents = if commits.len() + 1 < limit { &commit.parents[..] } else { &[] };
            for parent in parents {
                if seen.insert(*parent)
                    && let Some(ancestry) = self.ancestry(parent)?
                {
                    queue.push((ancestry.sequence, *parent));
                }
            }
            commits.push(commit);
        }
        Ok(commits)
    }
}

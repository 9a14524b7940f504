//! Merges of commits and branches.
//!
//! The base of a merge is the lowest common ancestor of both commits. Where there are several, they
//! are merged into one tree first, in memory, by the same rule: so that what both sides took from
//! either of them counts as known to both.

mod ancestors;

pub use ancestors::Limits;

use ancestors::Past;

use super::{CommitInfo, Store};
use crate::context::hash::CommitHash;
use crate::context::tree::{Merged, Resolution, Resolve, Sides, Tree, told};
use crate::error::Result;
use crate::trace::{Action, Answer, Walk};

/// What merging one commit into another came to.
#[derive(Clone, Debug)]
pub enum Merge<T> {
    /// Nothing is new: the other is an ancestor.
    Unchanged,
    /// This side has nothing of its own: it becomes the other commit.
    FastForward,
    /// Both have something of their own.
    Merged(T),
    /// Both changed the same in different ways. The tree has what our side has there.
    Conflicts(Merged),
}

impl Merge<Tree> {
    /// What a trace says that it came to.
    fn number(&self) -> u64 {
        match self {
            Merge::Unchanged => 0,
            Merge::FastForward => 1,
            Merge::Merged(_) => 2,
            Merge::Conflicts(merged) => 2 + merged.conflicts.len() as u64,
        }
    }
}

impl Store {
    /// Merges two commits into a tree: what `theirs` changed since the lowest common ancestor is
    /// brought into `ours`, as [`Tree::merge`] does. Changes nothing in the store.
    ///
    /// `resolve` is asked about each value that both changed. Where histories cross, it is asked for
    /// merges of their common ancestors too; what it leaves a conflict there is as before both.
    /// Costs the walk of [`Store::lowest_common_ancestors`] and the changes since. `Missing` when a
    /// commit is not there, `Collected` when the two may join in what was collected, `Invalid` when a limit
    /// is passed.
    pub fn merge_commits(
        &self,
        ours: &CommitHash,
        theirs: &CommitHash,
        limits: Limits,
        resolve: impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution>,
    ) -> Result<Merge<Tree>> {
        let Some(recorder) = &self.options.recorder else {
            return self.bring_together(ours, theirs, limits, resolve);
        };
        let mut walk = Walk::of_store(recorder);
        let mut resolved = Vec::new();
        let asked = told(&mut walk, &mut resolved, resolve);
        let outcome = self.bring_together(ours, theirs, limits, asked);
        let answer = match &outcome {
            Ok(Merge::Merged(tree) | Merge::Conflicts(Merged { tree, .. })) => {
                Answer::Handle(tree.handle())
            }
            Ok(Merge::Unchanged | Merge::FastForward) => Answer::Handle(0),
            Err(_) => Answer::Failed,
        };
        let came_to = outcome.as_ref().map_or(0, Merge::number);
        let (commits, bases) = (limits.commits as u64, limits.bases as u64);
        walk.end_with(
            Action::MergeCommits,
            |to| {
                to.hash(ours)
                    .hash(theirs)
                    .number(commits)
                    .number(bases)
                    .keys(&resolved)
                    .number(came_to)
            },
            answer,
        );
        outcome
    }

    fn bring_together(
        &self,
        ours: &CommitHash,
        theirs: &CommitHash,
        limits: Limits,
        mut resolve: impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution>,
    ) -> Result<Merge<Tree>> {
        let (our_tree, their_tree) = (self.checkout(ours)?, self.checkout(theirs)?);
        let mut past = Past::new(self, limits);
        let bases = past.lowest_common(&[*ours], &[*theirs])?;
        if bases == [*theirs] {
            return Ok(Merge::Unchanged);
        }
        if bases == [*ours] {
            return Ok(Merge::FastForward);
        }
        let base = self.one_base(&mut past, &bases, &mut resolve)?;
        let merged = our_tree.merge(&base, &their_tree, resolve)?;
        if merged.conflicts.is_empty() {
            Ok(Merge::Merged(merged.tree))
        } else {
            Ok(Merge::Conflicts(merged))
        }
    }

    /// The tree of all `bases` together. Recursion ends with the bases that the limit allows.
    fn one_base(
        &self,
        past: &mut Past<'_>,
        bases: &[CommitHash],
        resolve: Resolve<'_>,
    ) -> Result<Tree> {
        past.take_bases(bases.len())?;
        let Some((first, rest)) = bases.split_first() else {
            return Ok(Tree::empty(self.configuration()));
        };
        let mut tree = self.checkout(first)?;
        for (done, other) in rest.iter().enumerate() {
            let below = past.lowest_common(&bases[..=done], &[*other])?;
            let below = self.one_base(past, &below, resolve)?;
            let merged = tree.merge(&below, &self.checkout(other)?, &mut *resolve)?;
            tree = merged.tree;
            for conflict in merged.conflicts {
                match conflict.base {
                    Some(base) => tree.add_tree(&conflict.path, &base)?,
                    None => tree.remove(&conflict.path)?,
                }
            }
        }
        Ok(tree)
    }

    /// Merges the commit `theirs` into a branch, and commits what both have with both as parents; the
    /// parents in `info` are not used. A branch that is not there becomes `theirs`.
    ///
    /// Nothing is changed when there are conflicts. One commit and one change of the branch at most,
    /// each with one append and one sync; errors are those of [`Store::merge_commits`] and
    /// [`Store::commit`].
    ///
    /// ```
    /// use varvite::context::{CommitInfo, Limits, Merge, Options, Resolution, Store};
    /// use varvite::disk::memory::MemoryDisk;
    /// # fn main() -> varvite::Result<()> {
    /// let mut store = Store::create(MemoryDisk::seeded(1), Options::default())?;
    /// let mut tree = store.empty_tree();
    /// tree.add(&["alice"], b"5")?;
    /// let base = store.commit(&mut tree, &CommitInfo::default())?;
    /// let mut ours = tree.clone();
    /// ours.add(&["bob"], b"7")?;
    /// let ours = store.commit(&mut ours, &CommitInfo::new(&[base], 1, "us", "add bob"))?;
    /// tree.add(&["carol"], b"9")?;
    /// let theirs = store.commit(&mut tree, &CommitInfo::new(&[base], 2, "them", "add carol"))?;
    ///
    /// store.set_branch(b"main", &ours)?;
    /// let info = CommitInfo::new(&[], 3, "us", "merge");
    /// let ask = |_: &[Vec<u8>], _: varvite::context::Sides<'_>| Ok(Resolution::Conflict);
    /// let outcome = store.merge_branch(b"main", &theirs, &info, Limits::default(), ask)?;
    /// assert!(matches!(outcome, Merge::Merged(commit) if store.branch(b"main") == Some(commit)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_branch(
        &mut self,
        branch: &[u8],
        theirs: &CommitHash,
        info: &CommitInfo,
        limits: Limits,
        resolve: impl FnMut(&[Vec<u8>], Sides<'_>) -> Result<Resolution>,
    ) -> Result<Merge<CommitHash>> {
        let Some(ours) = self.branch(branch) else {
            self.set_branch(branch, theirs)?;
            return Ok(Merge::FastForward);
        };
        let mut tree = match self.merge_commits(&ours, theirs, limits, resolve)? {
            Merge::Merged(tree) => tree,
            Merge::Unchanged => return Ok(Merge::Unchanged),
            Merge::Conflicts(merged) => return Ok(Merge::Conflicts(merged)),
            Merge::FastForward => {
                self.set_branch(branch, theirs)?;
                return Ok(Merge::FastForward);
            }
        };
        let info = CommitInfo { parents: vec![ours, *theirs], ..info.clone() };
        let commit = self.commit(&mut tree, &info)?;
        self.set_branch(branch, &commit)?;
        Ok(Merge::Merged(commit))
    }
}

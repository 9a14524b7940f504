//! Merges of trees, commits and branches.

use std::ffi::{c_int, c_void};

use varvite::context::{Conflict, Merge, Merged, Resolution, Sides};

use super::store::{commit_info, limits, tell, varvite_commit_info, varvite_limits};
use super::tree::copy;
use super::walk::views;
use crate::arena::{Answer, answer, varvite_arena};
use crate::args::{NOTHING, Out, bytes, one, view};
use crate::handle::{Lent, get};
use crate::status::{Answers, Outcome, outer_callback, varvite_error};
use crate::table::operator::{varvite_output, with_output};
use crate::types::{varvite_bytes, varvite_hash, varvite_store, varvite_tree};

/// It remains a conflict.
pub const VARVITE_RESOLVE_CONFLICT: u32 = 0;
/// What was written to the output is the value.
pub const VARVITE_RESOLVE_VALUE: u32 = 1;
/// The value goes.
pub const VARVITE_RESOLVE_REMOVED: u32 = 2;

/// Nothing is new: the other is an ancestor.
pub const VARVITE_MERGE_UNCHANGED: u32 = 0;
/// This side has nothing of its own: it becomes the other commit.
pub const VARVITE_MERGE_FAST_FORWARD: u32 = 1;
/// Both have something of their own.
pub const VARVITE_MERGE_MERGED: u32 = 2;
/// Both changed the same in different ways.
pub const VARVITE_MERGE_CONFLICTS: u32 = 3;

/// A value that both sides changed, each in its own way; NULL for one that is not there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_sides {
    /// What both started from.
    pub base: varvite_bytes,
    /// What one made of it.
    pub ours: varvite_bytes,
    /// What the other made of it.
    pub theirs: varvite_bytes,
}

/// Says what is to be done about a value that both sides changed: sets `resolution` to one of VARVITE_RESOLVE_…,
/// and writes the value to `output` where there is one. Anything but 0 ends the merge, which then returns
/// VARVITE_CALLBACK.
pub type varvite_resolve = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        path: *const varvite_bytes,
        steps: usize,
        sides: *const varvite_sides,
        resolution: *mut u32,
        output: *mut varvite_output,
    ) -> c_int,
>;

/// Asks the program. Without a callback everything remains a conflict.
fn ask(
    (resolve, user): (varvite_resolve, *mut c_void),
    answers: &Answers,
    path: &[Vec<u8>],
    sides: Sides<'_>,
) -> varvite::Result<Resolution> {
    let Some(resolve) = resolve else { return Ok(Resolution::Conflict) };
    let path = views(path);
    let of = |side: Option<&[u8]>| side.map_or(NOTHING, view);
    let sides =
        varvite_sides { base: of(sides.base), ours: of(sides.ours), theirs: of(sides.theirs) };
    let mut resolution = VARVITE_RESOLVE_CONFLICT;
    let (code, value) = with_output(|output| {
        // SAFETY: the program gave this function to be called with this pointer; what the others lead to
        // stays until it returns.
        outer_callback(|| unsafe {
            resolve(user, path.as_ptr(), path.len(), &raw const sides, &raw mut resolution, output)
        })
    });
    answers.check(code)?;
    match resolution {
        VARVITE_RESOLVE_CONFLICT => Ok(Resolution::Conflict),
        VARVITE_RESOLVE_VALUE => Ok(Resolution::Value(value)),
        VARVITE_RESOLVE_REMOVED => Ok(Resolution::Removed),
        other => Err(varvite::Error::invalid(format!("a resolution is {other}: it can be 0 to 2"))),
    }
}

/// The paths of conflicts, each in one item: for every step its length in 4 bytes, little-endian, then its bytes.
fn tell_conflicts(found: &[Conflict], conflicts: Answer) -> Outcome {
    conflicts.fill(|arena| {
        for conflict in found {
            let mut path = Vec::new();
            for step in &conflict.path {
                path.extend((step.len() as u32).to_le_bytes());
                path.extend(step);
            }
            arena.give(path);
        }
        Ok(())
    })
}

/// Brings what `theirs` changed since `base` into a copy of `ours`. `resolve` may be NULL. `conflicts` gets the path
/// of each conflict as one item: for every step its length in 4 bytes, little-endian, then its bytes; the merged
/// tree has what our side has there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_merge(
    ours: *mut varvite_tree,
    base: *mut varvite_tree,
    theirs: *mut varvite_tree,
    resolve: varvite_resolve,
    user: *mut c_void,
    merged: *mut *mut varvite_tree,
    conflicts: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, conflicts, |conflicts| {
        let place = Out::new(merged, "merged tree")?;
        let (ours, base, theirs) = (copy(ours)?, copy(base)?, copy(theirs)?);
        let answers = Answers::default();
        let outcome =
            ours.merge(&base, &theirs, |path, sides| ask((resolve, user), &answers, path, sides));
        let merged = answers.outcome(outcome)?;
        let Merged { tree, conflicts: found } = merged;
        let tree = Lent::<varvite_tree>::new(tree)?;
        tell_conflicts(&found, conflicts)?;
        place.set(tree.keep());
        Ok(())
    })
}

/// Merges two commits into a tree, and changes nothing in the store. `merge` gets one of VARVITE_MERGE_…; `merged`
/// is the tree after VARVITE_MERGE_MERGED and VARVITE_MERGE_CONFLICTS, else NULL; `conflicts` as of
/// `varvite_tree_merge`. `limits` and `resolve` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_merge_commits(
    store: *mut varvite_store,
    ours: *const varvite_hash,
    theirs: *const varvite_hash,
    limits: *const varvite_limits,
    resolve: varvite_resolve,
    user: *mut c_void,
    merge: *mut u32,
    merged: *mut *mut varvite_tree,
    conflicts: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, conflicts, |conflicts| {
        let (kind, place) = (Out::new(merge, "answer")?, Out::new(merged, "merged tree")?);
        let (ours, theirs) = (one(ours, "our commit")?, one(theirs, "their commit")?);
        let limits = self::limits(limits)?;
        let held = get(store)?;
        let answers = Answers::default();
        let outcome = held.read()?.merge_commits(
            &ours.bytes.into(),
            &theirs.bytes.into(),
            limits,
            |path, sides| ask((resolve, user), &answers, path, sides),
        );
        let (code, found) = match answers.outcome(outcome)? {
            Merge::Unchanged => (VARVITE_MERGE_UNCHANGED, None),
            Merge::FastForward => (VARVITE_MERGE_FAST_FORWARD, None),
            Merge::Merged(tree) => {
                (VARVITE_MERGE_MERGED, Some(Merged { tree, conflicts: Vec::new() }))
            }
            Merge::Conflicts(merged) => (VARVITE_MERGE_CONFLICTS, Some(merged)),
        };
        if let Some(merged) = found {
            let tree = Lent::<varvite_tree>::new(merged.tree)?;
            tell_conflicts(&merged.conflicts, conflicts)?;
            place.set(tree.keep());
        } else {
            drop(conflicts);
            place.set(std::ptr::null_mut());
        }
        kind.set(code);
        Ok(())
    })
}

/// Merges the commit `theirs` into a branch, and commits what both have; the parents in `info` are not used. A branch
/// that is not there becomes `theirs`. `merge` gets one of VARVITE_MERGE_…; `commit` is the branch's new commit
/// after VARVITE_MERGE_MERGED. Nothing is changed when there are conflicts; `conflicts` as of `varvite_tree_merge`.
/// `limits` and `resolve` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_merge_branch(
    store: *mut varvite_store,
    branch: *const varvite_bytes,
    theirs: *const varvite_hash,
    info: *const varvite_commit_info,
    limits: *const varvite_limits,
    resolve: varvite_resolve,
    user: *mut c_void,
    merge: *mut u32,
    commit: *mut varvite_hash,
    conflicts: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, conflicts, |conflicts| {
        let (kind, place) = (Out::new(merge, "answer")?, Out::new(commit, "hash")?);
        let branch = bytes(*one(branch, "name of the branch")?, "name of the branch")?;
        let (theirs, info) = (one(theirs, "their commit")?, commit_info(info)?);
        let limits = self::limits(limits)?;
        let held = get(store)?;
        let answers = Answers::default();
        let outcome = held.write()?.merge_branch(
            branch,
            &theirs.bytes.into(),
            &info,
            limits,
            |path, sides| ask((resolve, user), &answers, path, sides),
        );
        // The branch may have moved: nothing that can fail comes from here on.
        let (code, hash, found) = match answers.outcome(outcome)? {
            Merge::Unchanged => (VARVITE_MERGE_UNCHANGED, [0; 32], None),
            Merge::FastForward => (VARVITE_MERGE_FAST_FORWARD, [0; 32], None),
            Merge::Merged(commit) => (VARVITE_MERGE_MERGED, commit.to_bytes(), None),
            Merge::Conflicts(merged) => (VARVITE_MERGE_CONFLICTS, [0; 32], Some(merged)),
        };
        match found {
            Some(merged) => tell_conflicts(&merged.conflicts, conflicts)?,
            None => drop(conflicts),
        }
        place.set(tell(hash));
        kind.set(code);
        Ok(())
    })
}

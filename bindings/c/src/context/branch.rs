//! Branches: names of commits.

use std::ffi::c_int;

use super::store::tell_optional;
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, bytes, one, optional};
use crate::handle::get;
use crate::status::{Outcome, call, varvite_error};
use crate::types::{varvite_bytes, varvite_hash, varvite_store};
use varvite::context::CommitHash;

pub(crate) fn branch_name<'a>(given: *const varvite_bytes) -> Outcome<&'a [u8]> {
    bytes(*one(given, "name of the branch")?, "name of the branch")
}

/// The commit that a branch names; `is_there` is 0 when there is no such branch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_branch(
    store: *mut varvite_store,
    name: *const varvite_bytes,
    commit: *mut varvite_hash,
    is_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let places = (&Out::new(commit, "hash")?, &Out::new(is_there, "answer")?);
        let held = get(store)?;
        tell_optional(held.read()?.branch(branch_name(name)?), places);
        Ok(())
    })
}

/// All branches, by name: two items each, the name and the 32 bytes of the hash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_branches(
    store: *mut varvite_store,
    branches: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, branches, |branches| {
        let held = get(store)?;
        let store = held.read()?;
        branches.fill(|arena| {
            for (name, hash) in store.branches() {
                arena.give(name);
                arena.give(hash.to_vec());
            }
            Ok(())
        })
    })
}

/// Makes `name` the name of a commit, which must be in the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_set_branch(
    store: *mut varvite_store,
    name: *const varvite_bytes,
    commit: *const varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let commit = one(commit, "commit")?;
        let held = get(store)?;
        Ok(held.write()?.set_branch(branch_name(name)?, &commit.bytes.into())?)
    })
}

/// Makes `name` the name of `new_commit` if it is now that of `expected`; NULL stands for no branch. `is_set` is 0
/// when it was not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_test_and_set_branch(
    store: *mut varvite_store,
    name: *const varvite_bytes,
    expected: *const varvite_hash,
    new_commit: *const varvite_hash,
    is_set: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_set, "answer")?;
        let expected: Option<CommitHash> =
            optional(expected, "expected commit")?.map(|it| it.bytes.into());
        let new: Option<CommitHash> = optional(new_commit, "new commit")?.map(|it| it.bytes.into());
        let held = get(store)?;
        let is_set = held.write()?.test_and_set_branch(
            branch_name(name)?,
            expected.as_ref(),
            new.as_ref(),
        )?;
        place.set(c_int::from(is_set));
        Ok(())
    })
}

/// Removes a branch; nothing happens when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_remove_branch(
    store: *mut varvite_store,
    name: *const varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.remove_branch(branch_name(name)?)?)
    })
}

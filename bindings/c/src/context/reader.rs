//! Readers of a store for other threads.

use std::ffi::c_int;

use super::branch::branch_name;
use super::store::tell_optional;
use crate::args::{Out, one};
use crate::handle::{get, put, take};
use crate::status::{call, varvite_error};
use crate::types::{varvite_bytes, varvite_hash, varvite_reader, varvite_store, varvite_tree};

/// A handle for threads that read while this store commits: it sees each commit when its call has returned, and waits for
/// none. It ends with the store. VARVITE_INVALID for a store of Irmin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_reader(
    store: *mut varvite_store,
    reader: *mut *mut varvite_reader,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(reader, "reader")?;
        let held = get(store)?;
        let reader = held.read()?.reader()?;
        place.set(put(reader)?);
        Ok(())
    })
}

/// The tree of a commit, loaded as it is looked at.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_reader_checkout(
    reader: *mut varvite_reader,
    commit: *const varvite_hash,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (commit, place) = (one(commit, "commit")?, Out::new(tree, "tree")?);
        let held = get(reader)?;
        let tree = held.read()?.checkout(&commit.bytes.into())?;
        place.set(put(tree)?);
        Ok(())
    })
}

/// Whether a commit with this hash is there: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_reader_exists(
    reader: *mut varvite_reader,
    commit: *const varvite_hash,
    exists: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (commit, place) = (one(commit, "commit")?, Out::new(exists, "answer")?);
        let held = get(reader)?;
        place.set(c_int::from(held.read()?.exists(&commit.bytes.into())?));
        Ok(())
    })
}

/// The commit that the store took last; `is_there` is 0 when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_reader_last_commit(
    reader: *mut varvite_reader,
    commit: *mut varvite_hash,
    is_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let places = (&Out::new(commit, "hash")?, &Out::new(is_there, "answer")?);
        let held = get(reader)?;
        tell_optional(held.read()?.last_commit()?, places);
        Ok(())
    })
}

/// The commit that a branch names; `is_there` is 0 when there is no such branch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_reader_branch(
    reader: *mut varvite_reader,
    name: *const varvite_bytes,
    commit: *mut varvite_hash,
    is_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let places = (&Out::new(commit, "hash")?, &Out::new(is_there, "answer")?);
        let held = get(reader)?;
        tell_optional(held.read()?.branch(branch_name(name)?)?, places);
        Ok(())
    })
}

/// Closes a reader. Trees that it gave stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_reader_close(
    reader: *mut varvite_reader,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(reader).map(drop))
}

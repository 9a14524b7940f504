//! Collection of old commits, and the pins that keep some.

use std::ffi::c_int;

use varvite::context::{CollectPhase, CommitHash, Keep};

use super::store::tell;
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, one};
use crate::handle::get;
use crate::status::{call, varvite_error};
use crate::types::{varvite_hash, varvite_store};

/// No collection is under way.
pub const VARVITE_COLLECT_NONE: u32 = 0;
/// The collection finds out what stays; nothing was taken away.
pub const VARVITE_COLLECT_MARKING: u32 = 1;
/// The collection takes away what does not stay; older commits are collected already.
pub const VARVITE_COLLECT_CLEANING: u32 = 2;

/// How far a collection is.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_collect_status {
    /// VARVITE_COLLECT_NONE, VARVITE_COLLECT_MARKING or VARVITE_COLLECT_CLEANING.
    pub phase: u32,
    /// 1 when its steps do nothing until it is resumed.
    pub is_paused: c_int,
    /// 1 when `target` is known.
    pub has_target: c_int,
    /// The commit from which on all stays.
    pub target: varvite_hash,
    /// Chunks that it has not passed, of those that it looks at now.
    pub chunks_left: u64,
    /// Bytes of files that it has still to look at.
    pub left_bytes: u64,
    /// Bytes of files that it has put others in the place of, less those of the others, since the store was opened.
    pub reclaimed_bytes: u64,
    /// How many have ended.
    pub collections: u64,
}

/// Begins a collection: commits that the store took before `target` go, but for those that branches name and those that
/// are pinned. `varvite_store_collect_step` does the work. VARVITE_INVALID while one is under way, VARVITE_MISSING for
/// an unknown commit, VARVITE_COLLECTED for one that is no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect(
    store: *mut varvite_store,
    target: *const varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let target = one(target, "target")?;
        let held = get(store)?;
        Ok(held.write()?.collect(&target.bytes.into())?)
    })
}

fn collect_keeping(
    (store, keep, began, error): (*mut varvite_store, Keep, *mut c_int, *mut varvite_error),
) -> c_int {
    call(error, || {
        let place = Out::new(began, "answer")?;
        let held = get(store)?;
        place.set(c_int::from(held.write()?.collect_keeping(&keep)?));
        Ok(())
    })
}

/// Begins a collection that keeps the newest `commits`, beside those that branches and pins name. `began` is 0 when one is
/// under way or paused, or nothing would go, so a program may call this after each commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_keeping_newest(
    store: *mut varvite_store,
    commits: u64,
    began: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    collect_keeping((store, Keep::Newest(commits), began, error))
}

/// The same, but keeps all from the oldest commit on that is not older than `date`, in seconds since 1970.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_keeping_since(
    store: *mut varvite_store,
    date: i64,
    began: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    collect_keeping((store, Keep::Since(date), began, error))
}

/// Does work of about `credits` KiB read or written for the collection that is under way; `is_left` tells whether some is
/// left: 0 or 1. 0 without one, and while it is paused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_step(
    store: *mut varvite_store,
    credits: u64,
    is_left: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_left, "answer")?;
        let held = get(store)?;
        place.set(c_int::from(held.write()?.collect_step(credits)?));
        Ok(())
    })
}

/// How far a collection is. That of a reader is as of its last reload.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_status(
    store: *mut varvite_store,
    status: *mut varvite_collect_status,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(status, "status")?;
        let held = get(store)?;
        let from = held.read()?.collect_status()?;
        place.set(varvite_collect_status {
            phase: match from.phase {
                CollectPhase::None => VARVITE_COLLECT_NONE,
                CollectPhase::Marking => VARVITE_COLLECT_MARKING,
                CollectPhase::Cleaning => VARVITE_COLLECT_CLEANING,
            },
            is_paused: c_int::from(from.is_paused),
            has_target: c_int::from(from.target.is_some()),
            target: tell(from.target.map_or([0; 32], CommitHash::to_bytes)),
            chunks_left: from.chunks_left,
            left_bytes: from.left_bytes,
            reclaimed_bytes: from.reclaimed_bytes,
            collections: from.collections,
        });
        Ok(())
    })
}

/// Lets steps do nothing until `varvite_store_collect_resume`, also of whoever opens the store later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_pause(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.collect_pause()?)
    })
}

/// Lets steps go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_resume(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.collect_resume()?)
    })
}

/// Ends the collection that is under way; `was_there` tells whether one was: 0 or 1. Commits that are collected already
/// stay so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_collect_cancel(
    store: *mut varvite_store,
    was_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(was_there, "answer")?;
        let held = get(store)?;
        place.set(c_int::from(held.write()?.collect_cancel()?));
        Ok(())
    })
}

/// Keeps a commit, and all of its tree, through every collection until it is unpinned. VARVITE_MISSING for an unknown
/// commit, VARVITE_COLLECTED for one that is no more or is about to go.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_pin(
    store: *mut varvite_store,
    commit: *const varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let commit = one(commit, "commit")?;
        let held = get(store)?;
        Ok(held.write()?.pin(&commit.bytes.into())?)
    })
}

/// Pins every `nth` commit, by the numbers of `varvite_commit`, that goes with no collection; `added` is how many were not
/// pinned before. VARVITE_INVALID for 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_pin_every(
    store: *mut varvite_store,
    nth: u64,
    added: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(added, "count")?;
        let held = get(store)?;
        place.set(held.write()?.pin_every(nth)?);
        Ok(())
    })
}

/// Lets the next collection take a commit that was pinned; `was_pinned` tells whether it was: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_unpin(
    store: *mut varvite_store,
    commit: *const varvite_hash,
    was_pinned: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(was_pinned, "answer")?;
        let commit = one(commit, "commit")?;
        let held = get(store)?;
        place.set(c_int::from(held.write()?.unpin(&commit.bytes.into())?));
        Ok(())
    })
}

/// The commits that are pinned, in the order in which the store took them: 32 bytes each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_pins(
    store: *mut varvite_store,
    commits: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, commits, |commits| {
        let held = get(store)?;
        let store = held.read()?;
        commits.fill(|arena| {
            store.pins()?.iter().for_each(|it| arena.give(it.to_vec()));
            Ok(())
        })
    })
}

type Move = (*mut varvite_store, u64, *mut u64, *mut varvite_error);

fn moved(
    (store, most, moved, error): Move,
    work: impl FnOnce(&mut varvite::context::Store, u64) -> varvite::Result<u64>,
) -> c_int {
    call(error, || {
        let place = Out::new(moved, "count")?;
        let held = get(store)?;
        place.set(work(&mut *held.write()?, most)?);
        Ok(())
    })
}

/// Moves whole chunks that have only commits before `target` to the lower folder of the store's options, the oldest first,
/// works on at most `most` chunks; `moved_chunks` is how many, 0 when nothing is left to do. Their commits are read there;
/// what later commits, branches and pins have of them stays above, too, and what is above of chunks that moved before is
/// brought up to date. VARVITE_INVALID without a lower folder and while a collection is under way; afterwards the store
/// collects nothing until they are back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_archive(
    store: *mut varvite_store,
    target: *const varvite_hash,
    most: u64,
    moved_chunks: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    let target = one(target, "target").map(|it| CommitHash::from(it.bytes));
    match target {
        Ok(target) => {
            moved((store, most, moved_chunks, error), |store, most| store.archive(&target, most))
        }
        Err(fault) => call(error, || Err(fault)),
    }
}

/// Moves chunks back from the lower folder, the newest first, at most `most` of them; `moved_chunks` is how many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_unarchive(
    store: *mut varvite_store,
    most: u64,
    moved_chunks: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    moved((store, most, moved_chunks, error), varvite::context::Store::unarchive)
}

/// Takes the chunks that collections took from this store, and that another copy of it has moved to the lower folder;
/// `attached_chunks` is how many. Every byte of them is verified. VARVITE_INVALID when they are of another store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_attach(
    store: *mut varvite_store,
    attached_chunks: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    moved((store, 0, attached_chunks, error), |store, _| store.attach())
}

/// Bytes of the chunks that are in the lower folder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_archived_bytes(
    store: *mut varvite_store,
    bytes: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(bytes, "answer")?;
        let held = get(store)?;
        place.set(held.read()?.archived_bytes());
        Ok(())
    })
}

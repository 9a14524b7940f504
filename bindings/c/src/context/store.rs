//! Context stores: opening, commits, checking.

use std::ffi::c_int;
use std::sync::Arc;

use varvite::context::{Commit, CommitHash, CommitInfo, Limits, Options, Store};
use varvite::disk::Disk;

use super::options::{
    configuration, given_observer, store_options, tell_configuration, varvite_configuration,
    varvite_store_options,
};
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, array, bytes, one, optional};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{disk, varvite_bytes, varvite_disk, varvite_hash, varvite_store, varvite_tree};

/// What a commit says beside its tree.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_commit_info {
    /// The parents' hashes; they need not be in the store.
    pub parents: *const varvite_hash,
    /// How many there are.
    pub parent_count: usize,
    /// Seconds since 1970.
    pub date: i64,
    /// Who commits.
    pub author: varvite_bytes,
    /// Why.
    pub message: varvite_bytes,
}

/// A commit that is in a store.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_commit {
    /// Its hash.
    pub hash: varvite_hash,
    /// The hash of its tree.
    pub tree: varvite_hash,
    /// Seconds since 1970.
    pub date: i64,
    /// How many commits the store took before it.
    pub sequence: u64,
    /// How many parents it has.
    pub parents: u64,
}

/// What a store did and holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_store_stats {
    /// Commits found by hash.
    pub commits: u64,
    /// Objects found by hash; 0 with the minimal index.
    pub objects: u64,
    /// Bytes of all chunks of the pack.
    pub pack_bytes: u64,
    /// Bytes of the index on disk.
    pub index_bytes: u64,
    /// Bytes handed to the disk since the store was opened.
    pub written_bytes: u64,
    /// Syncs asked for since the store was opened, those of checkpoints and of the index included.
    pub syncs: u64,
    /// Those of them that the index asked for.
    pub index_syncs: u64,
    /// Memory that nodes take.
    pub objects_bytes: u64,
    /// Chunks of the pack.
    pub chunks: u64,
    /// How often the store was cleared.
    pub epoch: u64,
    /// How often a collection ended.
    pub generation: u64,
}

/// What was checked, and found right.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_checked {
    /// Commits.
    pub commits: u64,
    /// Pieces of directories.
    pub nodes: u64,
    /// Values that are not inside their directory.
    pub values: u64,
    /// Commits that the index knows and garbage collection took; none in a store of varvite.
    pub collected: u64,
}

pub(crate) fn commit_info(given: *const varvite_commit_info) -> Outcome<CommitInfo> {
    let given = one(given, "commit information")?;
    let parents = array(given.parents, given.parent_count, "parents")?;
    let parents: Vec<CommitHash> = parents.iter().map(|it| it.bytes.into()).collect();
    let author = bytes(given.author, "author")?;
    Ok(CommitInfo::new(&parents, given.date, author, bytes(given.message, "message")?))
}

pub(crate) fn tell(hash: impl Into<[u8; 32]>) -> varvite_hash {
    varvite_hash { bytes: hash.into() }
}

/// Sets an optional hash: whether there is one, and which.
pub(crate) fn tell_optional(
    hash: Option<CommitHash>,
    (to, is_there): (&Out<varvite_hash>, &Out<c_int>),
) {
    to.set(tell(hash.map_or([0; 32], CommitHash::to_bytes)));
    is_there.set(c_int::from(hash.is_some()));
}

type Opening =
    (*mut varvite_disk, *const varvite_store_options, *mut *mut varvite_store, *mut varvite_error);

fn opened(
    (disk, options, store, error): Opening,
    open: impl FnOnce(Arc<dyn Disk>, Options) -> varvite::Result<Store>,
) -> c_int {
    let observer = given_observer(options);
    call(error, || {
        let place = Out::new(store, "store")?;
        let options = store_options(options, observer)?;
        place.set(put(open(self::disk(disk)?, options)?)?);
        Ok(())
    })
}

/// Makes a store in an empty folder and opens it for writing. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_create(
    disk: *mut varvite_disk,
    options: *const varvite_store_options,
    store: *mut *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    opened((disk, options, store, error), Store::create)
}

/// Opens a store for writing. VARVITE_LOCKED when somebody writes to it already. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_open(
    disk: *mut varvite_disk,
    options: *const varvite_store_options,
    store: *mut *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    opened((disk, options, store, error), Store::open)
}

/// Opens the store in the root folder of `disk` for writing, or makes it where there is none. VARVITE_LOCKED when
/// somebody writes to it already, VARVITE_INVALID when the folder holds something else. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_open_or_create(
    disk: *mut varvite_disk,
    options: *const varvite_store_options,
    store: *mut *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    opened((disk, options, store, error), Store::open_or_create_on)
}

/// Opens a store to read while another process may write to it: as of now, until `varvite_store_reload`. `options`
/// may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_open_read_only(
    disk: *mut varvite_disk,
    options: *const varvite_store_options,
    store: *mut *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    opened((disk, options, store, error), Store::open_read_only)
}

/// Takes a checkpoint and closes the store. Its trees stay readable. The handle is closed also after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_close(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || Ok(take(store)?.close()?))
}

/// Sees what another process committed since the store was opened or last reloaded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_reload(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.reload()?)
    })
}

/// The shape of the store's directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_configuration(
    store: *mut varvite_store,
    configuration: *mut varvite_configuration,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(configuration, "configuration")?;
        let held = get(store)?;
        place.set(tell_configuration(held.read()?.configuration()));
        Ok(())
    })
}

/// What was found wrong with the index, which was then made again: sentences.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_warnings(
    store: *mut varvite_store,
    warnings: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, warnings, |warnings| {
        let held = get(store)?;
        let store = held.read()?;
        warnings.fill(|arena| {
            store.warnings().into_iter().for_each(|it| arena.give(it));
            Ok(())
        })
    })
}

/// An empty working tree of this store, which spills to the store's pack what is too much for memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_empty_tree(
    store: *mut varvite_store,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(tree, "tree")?;
        let held = get(store)?;
        let tree = held.read()?.empty_tree();
        place.set(put(tree)?);
        Ok(())
    })
}

/// The tree of a commit, loaded as it is looked at. VARVITE_MISSING for an unknown commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_checkout(
    store: *mut varvite_store,
    commit: *const varvite_hash,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(tree, "tree")?;
        let commit = one(commit, "commit")?;
        let held = get(store)?;
        let tree = held.read()?.checkout(&commit.bytes.into())?;
        place.set(put(tree)?);
        Ok(())
    })
}

/// Commits `tree`, which is then the committed one, and gives the commit's hash. After an error nothing is
/// changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_commit(
    store: *mut varvite_store,
    tree: *mut varvite_tree,
    info: *const varvite_commit_info,
    commit: *mut varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(commit, "hash")?;
        let info = commit_info(info)?;
        let (store, tree) = (get(store)?, get(tree)?);
        let (mut store, mut tree) = (store.write()?, tree.write()?);
        place.set(tell(store.commit(&mut tree, &info)?));
        Ok(())
    })
}

/// The hash that `varvite_store_commit` would give, without committing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_hash(
    store: *mut varvite_store,
    tree: *mut varvite_tree,
    info: *const varvite_commit_info,
    commit: *mut varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(commit, "hash")?;
        let info = commit_info(info)?;
        let (store, tree) = (get(store)?, get(tree)?);
        let (store, tree) = (store.read()?, tree.read()?);
        place.set(tell(store.hash(&tree, &info)?));
        Ok(())
    })
}

/// Whether a commit with this hash is here: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_exists(
    store: *mut varvite_store,
    commit: *const varvite_hash,
    exists: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(exists, "answer")?;
        let commit = one(commit, "commit")?;
        let held = get(store)?;
        place.set(c_int::from(held.read()?.exists(&commit.bytes.into())?));
        Ok(())
    })
}

/// What a commit says. `texts` gets its author, its message, and the hashes of its parents, 32 bytes each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_commit_info(
    store: *mut varvite_store,
    commit: *const varvite_hash,
    found: *mut varvite_commit,
    texts: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, texts, |texts| {
        let place = Out::new(found, "commit")?;
        let commit = one(commit, "commit")?;
        let held = get(store)?;
        let Commit { hash, tree, parents, date, author, message, sequence, .. } =
            held.read()?.commit_info(&commit.bytes.into())?;
        texts.fill(|arena| {
            arena.give(author);
            arena.give(message);
            for parent in &parents {
                arena.give(parent.to_vec());
            }
            Ok(())
        })?;
        let parents = parents.len() as u64;
        place.set(varvite_commit { hash: tell(hash), tree: tell(tree), date, sequence, parents });
        Ok(())
    })
}

/// The commit that the store took last; `is_there` is 0 when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_last_commit(
    store: *mut varvite_store,
    commit: *mut varvite_hash,
    is_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let places = (&Out::new(commit, "hash")?, &Out::new(is_there, "answer")?);
        let held = get(store)?;
        tell_optional(held.read()?.last_commit()?, places);
        Ok(())
    })
}

/// The commits of the store, newest first, at most `limit`: 32 bytes each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_log(
    store: *mut varvite_store,
    limit: usize,
    commits: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, commits, |commits| {
        let held = get(store)?;
        let store = held.read()?;
        commits.fill(|arena| {
            store.log(limit)?.iter().for_each(|it| arena.give(it.to_vec()));
            Ok(())
        })
    })
}

/// The commits that `heads` descend from, they included, at most `limit`, children before their parents: 32
/// bytes each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_history(
    store: *mut varvite_store,
    heads: *const varvite_hash,
    count: usize,
    limit: usize,
    commits: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, commits, |commits| {
        let heads: Vec<CommitHash> =
            array(heads, count, "heads")?.iter().map(|it| it.bytes.into()).collect();
        let held = get(store)?;
        let store = held.read()?;
        commits.fill(|arena| {
            store.history(&heads, limit)?.iter().for_each(|it| arena.give(it.hash.to_vec()));
            Ok(())
        })
    })
}

/// How far the past of commits is looked into. NULL for the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_limits {
    /// Commits that are read at most.
    pub commits: usize,
    /// Lowest common ancestors at most.
    pub bases: usize,
}

pub(crate) fn limits(given: *const varvite_limits) -> Outcome<Limits> {
    let given = optional(given, "limits")?;
    Ok(given.map_or_else(Limits::default, |it| Limits { commits: it.commits, bases: it.bases }))
}

/// The common ancestors of two commits that no other common ancestor descends from, the oldest first: 32 bytes
/// each. `limits` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_lowest_common_ancestors(
    store: *mut varvite_store,
    ours: *const varvite_hash,
    theirs: *const varvite_hash,
    limits: *const varvite_limits,
    commits: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, commits, |commits| {
        let (ours, theirs) = (one(ours, "our commit")?, one(theirs, "their commit")?);
        let limits = self::limits(limits)?;
        let held = get(store)?;
        let store = held.read()?;
        commits.fill(|arena| {
            let found =
                store.lowest_common_ancestors(&ours.bytes.into(), &theirs.bytes.into(), limits)?;
            for commit in &found {
                arena.give(commit.to_vec());
            }
            Ok(())
        })
    })
}

/// The value or directory with this hash, in a store that finds every object; `tree` is NULL when there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_find_object(
    store: *mut varvite_store,
    hash: *const varvite_hash,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(tree, "tree")?;
        let hash = one(hash, "hash")?;
        let held = get(store)?;
        let found = held.read()?.find_object(&hash.bytes.into())?;
        place.set(found.map_or(Ok(std::ptr::null_mut()), put)?);
        Ok(())
    })
}

/// Syncs the pack, saves the index, and records how far both are known, so that opening scans less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_checkpoint(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.checkpoint()?)
    })
}

/// Takes a checkpoint if one is due, and tells whether: 0 or 1. A host that calls this between two commits, when nobody
/// waits, keeps the syncs of the index out of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_maintain(
    store: *mut varvite_store,
    taken: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(taken, "answer")?;
        let held = get(store)?;
        place.set(c_int::from(held.write()?.maintain()?));
        Ok(())
    })
}

/// Ends the last chunk of the pack and begins another.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_begin_chunk(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.begin_chunk()?)
    })
}

/// Makes the index from the pack again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_rebuild_index(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.rebuild_index()?)
    })
}

/// Removes everything and begins a new epoch. Trees checked out before stay readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_clear(
    store: *mut varvite_store,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(store)?;
        Ok(held.write()?.clear()?)
    })
}

/// Recomputes the hash of all that the store's commits reach. VARVITE_CORRUPT at the first that is wrong. `faults`
/// gets sentences on the index, which can be made again, and on what collected stores no longer have.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_check(
    store: *mut varvite_store,
    checked: *mut varvite_checked,
    faults: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, faults, |faults| {
        let place = Out::new(checked, "result")?;
        let held = get(store)?;
        let found = held.read()?.check()?;
        faults.fill(|arena| {
            let faults = found.index_faults.into_iter().chain(found.part_faults);
            let faults = faults.chain(found.missing);
            faults.for_each(|it| arena.give(it));
            Ok(())
        })?;
        place.set(varvite_checked {
            commits: found.commits,
            nodes: found.nodes,
            values: found.values,
            collected: found.collected,
        });
        Ok(())
    })
}

/// What the store did and holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_store_get_stats(
    store: *mut varvite_store,
    stats: *mut varvite_store_stats,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(stats, "statistics")?;
        let held = get(store)?;
        let from = held.read()?.stats();
        place.set(varvite_store_stats {
            commits: from.commits,
            objects: from.objects,
            pack_bytes: from.pack_bytes,
            index_bytes: from.index_bytes,
            written_bytes: from.written_bytes,
            syncs: from.syncs,
            index_syncs: from.index_syncs,
            objects_bytes: from.objects_bytes,
            chunks: from.chunks,
            epoch: from.epoch,
            generation: from.generation,
        });
        Ok(())
    })
}

/// An empty tree without a store. `configuration` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_empty(
    configuration: *const varvite_configuration,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(tree, "tree")?;
        place.set(put(varvite::context::Tree::empty(self::configuration(configuration)?))?);
        Ok(())
    })
}

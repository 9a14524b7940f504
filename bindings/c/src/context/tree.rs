//! Trees: one state of a context each.

use std::ffi::c_int;

use varvite::context::{Kind, Tree};

use super::options::{configuration, tell_configuration, varvite_configuration};
use super::store::tell;
use crate::arena::{answer, varvite_arena};
use crate::args::{Buffer, Out, Piece, array, bytes, one, path, room, steps};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{varvite_bytes, varvite_hash, varvite_path, varvite_tree};

/// The tree is bytes.
pub const VARVITE_VALUE: u32 = 0;
/// The tree is a directory.
pub const VARVITE_DIRECTORY: u32 = 1;

pub(crate) fn kind(kind: Kind) -> u32 {
    match kind {
        Kind::Value => VARVITE_VALUE,
        Kind::Directory => VARVITE_DIRECTORY,
    }
}

/// The state of a tree, in O(1): for what must not hold the handle, because it calls the program.
pub(crate) fn copy(tree: *const varvite_tree) -> Outcome<Tree> {
    let held = get(tree)?;
    let tree = held.read()?;
    Ok(tree.clone())
}

/// Asks a tree something about a path, with an answer of one number.
fn ask<T>(
    tree: *const varvite_tree,
    (path, steps): (*const varvite_bytes, usize),
    answer: *mut T,
    question: impl FnOnce(&Tree, &[Piece]) -> varvite::Result<T>,
) -> Outcome {
    let place = Out::new(answer, "answer")?;
    let path = self::path(path, steps)?;
    let held = get(tree)?;
    place.set(question(&*held.read()?, path)?);
    Ok(())
}

/// A tree that is one value. `configuration` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_of_value(
    configuration: *const varvite_configuration,
    value: *const varvite_bytes,
    tree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(tree, "tree")?;
        let value = bytes(*one(value, "value")?, "value")?;
        place.set(put(Tree::of_value(self::configuration(configuration)?, value))?);
        Ok(())
    })
}

/// Another handle to the same state, independent from now on. O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_duplicate(
    tree: *mut varvite_tree,
    duplicate: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(duplicate, "duplicate")?;
        place.set(put(copy(tree)?)?);
        Ok(())
    })
}

/// The value at a path: one item, NULL when nothing is there, or a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_find(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    value: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, value, |value| {
        let path = self::path(path, steps)?;
        let held = get(tree)?;
        let tree = held.read()?;
        value.fill(|arena| {
            arena.give_optional(tree.find(path)?);
            Ok(())
        })
    })
}

/// As `varvite_tree_find`, into memory of the program's: `length` is how many bytes the value has, SIZE_MAX when nothing
/// is there, or a directory. More than `capacity` of them are not written, and are to be had by `varvite_tree_find`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_find_into(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Buffer::new(buffer, capacity, length)?;
        let path = self::path(path, steps)?;
        let held = get(tree)?;
        place.set(held.read()?.find(path)?.as_deref());
        Ok(())
    })
}

/// The values at `count` paths: one item each, in their order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_find_many(
    tree: *mut varvite_tree,
    paths: *const varvite_path,
    count: usize,
    values: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, values, |values| {
        let paths = array(paths, count, "paths")?;
        let held = get(tree)?;
        let tree = held.read()?;
        values.fill(|arena| {
            arena.reserve(paths.len());
            for path in paths {
                arena.give_optional(tree.find(self::steps(path)?)?);
            }
            Ok(())
        })
    })
}

/// Whether a value is at a path: 0 or 1. Never reads the value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_mem(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    is_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || ask(tree, (path, steps), is_there, |tree, path| tree.mem(path).map(c_int::from)))
}

/// Whether anything is at a path, a value or a directory: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_mem_tree(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    is_there: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        ask(tree, (path, steps), is_there, |tree, path| tree.mem_tree(path).map(c_int::from))
    })
}

/// What is at a path, as a tree of its own; NULL when nothing is. The whole for the empty path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_find_tree(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    subtree: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(subtree, "subtree")?;
        let path = self::path(path, steps)?;
        let held = get(tree)?;
        let found = held.read()?.find_tree(path)?;
        place.set(found.map_or(Ok(std::ptr::null_mut()), put)?);
        Ok(())
    })
}

/// Whether the tree is a value or a directory: VARVITE_VALUE or VARVITE_DIRECTORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_kind(
    tree: *mut varvite_tree,
    kind: *mut u32,
    error: *mut varvite_error,
) -> c_int {
    call(error, || ask(tree, (std::ptr::null(), 0), kind, |tree, _| Ok(self::kind(tree.kind()))))
}

/// Whether the tree is a directory without entries: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_is_empty(
    tree: *mut varvite_tree,
    is_empty: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        ask(tree, (std::ptr::null(), 0), is_empty, |tree, _| tree.is_empty().map(c_int::from))
    })
}

/// How many children the directory at a path has; 0 for a value or nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_length(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    length: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || ask(tree, (path, steps), length, Tree::length))
}

/// Up to `length` children of the directory at a path after the first `offset`, in stored order: two items each,
/// the name, and one byte that is VARVITE_VALUE or VARVITE_DIRECTORY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_list(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    offset: u64,
    length: u64,
    children: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, children, |children| {
        let path = self::path(path, steps)?;
        let held = get(tree)?;
        let tree = held.read()?;
        children.fill(|arena| {
            for (name, child) in tree.list(path, offset, length)? {
                arena.give(name);
                arena.give(vec![kind(child.kind()) as u8]);
            }
            Ok(())
        })
    })
}

/// As `varvite_tree_list`, of at most `capacity` children, with what they are: `trees`, an array of `capacity`, gets a
/// handle for each child, as many as half the items of `children`. Each is to be closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_list_trees(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    offset: u64,
    capacity: usize,
    children: *mut varvite_arena,
    trees: *mut *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    answer(error, children, |children| {
        let path = self::path(path, steps)?;
        if capacity > 0 {
            room(trees, capacity, "trees")?;
        }
        let held = get(tree)?;
        let page = held.read()?.list(path, offset, capacity as u64)?;
        let mut handles = Handles(Vec::with_capacity(page.len()));
        children.fill(|arena| {
            for (name, child) in page {
                arena.give(name);
                arena.give(vec![kind(child.kind()) as u8]);
                handles.0.push(put::<varvite_tree>(child)?);
            }
            Ok(())
        })?;
        for (at, handle) in std::mem::take(&mut handles.0).into_iter().enumerate() {
            // SAFETY: there is room for `capacity` of them, and a page has no more.
            unsafe { trees.add(at).write(handle) };
        }
        Ok(())
    })
}

/// Handles that are closed again unless the call gets to its end.
struct Handles(Vec<*mut varvite_tree>);

impl Drop for Handles {
    fn drop(&mut self) {
        for handle in self.0.drain(..) {
            drop(take(handle));
        }
    }
}

/// Binds `value` at a path. A directory there is replaced, and so is a value on the way, by a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_add(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    value: *const varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let path = self::path(path, steps)?;
        let value = bytes(*one(value, "value")?, "value")?;
        let held = get(tree)?;
        Ok(held.write()?.add(path, value)?)
    })
}

/// Binds `subtree` at a path, sharing it. An empty one removes what is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_add_tree(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    subtree: *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let path = self::path(path, steps)?;
        // A copy, because it may be the same handle.
        let subtree = copy(subtree)?;
        let held = get(tree)?;
        Ok(held.write()?.add_tree(path, &subtree)?)
    })
}

/// Removes what is at a path, and the directories above that become empty with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_remove(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let path = self::path(path, steps)?;
        let held = get(tree)?;
        Ok(held.write()?.remove(path)?)
    })
}

/// The hash of the value, or of the directory as Tezos defines it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_hash(
    tree: *mut varvite_tree,
    hash: *mut varvite_hash,
    error: *mut varvite_error,
) -> c_int {
    call(error, || ask(tree, (std::ptr::null(), 0), hash, |tree, _| tree.hash().map(tell)))
}

/// Whether two trees have the same hash and kind: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_equal(
    tree: *mut varvite_tree,
    other: *mut varvite_tree,
    are_equal: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let other = copy(other)?;
        ask(tree, (std::ptr::null(), 0), are_equal, |tree, _| tree.equal(&other).map(c_int::from))
    })
}

/// The shape of the tree's directories.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_configuration(
    tree: *mut varvite_tree,
    configuration: *mut varvite_configuration,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        ask(tree, (std::ptr::null(), 0), configuration, |tree, _| {
            Ok(tell_configuration(tree.configuration()))
        })
    })
}

/// Gives back memory of what is deeper than `depth`: hashes of children that were kept to hash faster.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_clear(
    tree: *mut varvite_tree,
    depth: usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(tree)?;
        held.write()?.clear(depth);
        Ok(())
    })
}

/// Closes a tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_close(
    tree: *mut varvite_tree,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(tree).map(drop))
}

//! Walks over trees that call the program: folds and differences.

use std::cell::Cell;
use std::ffi::{c_int, c_void};

use varvite::context::{Change, Depth, Order};

use super::tree::copy;
use crate::args::{NOTHING, choose, path, view};
use crate::handle::Lent;
use crate::status::{Answers, Fault, call, outer_callback, varvite_error};
use crate::types::{varvite_bytes, varvite_tree};

/// Visits every depth.
pub const VARVITE_DEPTH_ALL: u32 = 0;
/// Visits exactly this depth; 0 is the start itself.
pub const VARVITE_DEPTH_EQ: u32 = 1;
/// Visits the depths above it.
pub const VARVITE_DEPTH_LT: u32 = 2;
/// Visits this one and those above it.
pub const VARVITE_DEPTH_LE: u32 = 3;
/// Visits those below it.
pub const VARVITE_DEPTH_GT: u32 = 4;
/// Visits this one and those below it.
pub const VARVITE_DEPTH_GE: u32 = 5;

/// Visits the children of a directory by name.
pub const VARVITE_SORTED: u32 = 0;
/// Visits them as they are stored, in bounded memory.
pub const VARVITE_UNDEFINED: u32 = 1;

/// Gets the path from the start of a fold and what is there. `subtree` is closed when this returns: duplicate it
/// to keep it. Anything but 0 ends the fold, which then returns VARVITE_CALLBACK. May call the library; a handle
/// that the call itself is using is refused there.
pub type varvite_visit = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        path: *const varvite_bytes,
        steps: usize,
        subtree: *mut varvite_tree,
    ) -> c_int,
>;

/// Gets a value that two trees do not have alike: `before` is NULL when only the second has it, `after` when only
/// the first has. Anything but 0 ends the walk, which then returns VARVITE_CALLBACK.
pub type varvite_change = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        path: *const varvite_bytes,
        steps: usize,
        before: varvite_bytes,
        after: varvite_bytes,
    ) -> c_int,
>;

/// What C sees of a path.
pub(crate) fn views(path: &[Vec<u8>]) -> Vec<varvite_bytes> {
    path.iter().map(|it| view(it)).collect()
}

/// What says that a callback is NULL.
pub(crate) fn no_callback() -> Fault {
    Fault::invalid("the callback is NULL: pass a function")
}

/// Calls `visit` with the path from `path` on and the subtree there, a directory before its children. `depth_kind`
/// is one of VARVITE_DEPTH_…, `order` is VARVITE_SORTED or VARVITE_UNDEFINED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_fold(
    tree: *mut varvite_tree,
    path: *const varvite_bytes,
    steps: usize,
    depth_kind: u32,
    depth: usize,
    order: u32,
    visit: varvite_visit,
    user: *mut c_void,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let path = self::path(path, steps)?;
        let visit = visit.ok_or_else(no_callback)?;
        let depths = [
            None,
            Some(Depth::Eq(depth)),
            Some(Depth::Lt(depth)),
            Some(Depth::Le(depth)),
            Some(Depth::Gt(depth)),
            Some(Depth::Ge(depth)),
        ];
        let depth = choose(depth_kind, &depths, "the kind of depth")?;
        let order = choose(order, &[Order::Sorted, Order::Undefined], "the order")?;
        let (answers, lost) = (Answers::default(), Cell::new(None));
        let outcome = copy(tree)?.fold(path, depth, order, |path, subtree| {
            let lent = match Lent::new(subtree.clone()) {
                Ok(lent) => lent,
                Err(fault) => {
                    lost.set(Some(fault));
                    return answers.check(1);
                }
            };
            let path = views(path);
            // SAFETY: the program gave this function to be called with this pointer; the rest stays until
            // it returns.
            answers
                .check(outer_callback(|| unsafe { visit(user, path.as_ptr(), path.len(), lent.0) }))
        });
        lost.take().map_or_else(|| answers.outcome(outcome), Err)
    })
}

/// Calls `each` with path and change of every value that differs from `tree` to `after`, by path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tree_diff(
    tree: *mut varvite_tree,
    after: *mut varvite_tree,
    each: varvite_change,
    user: *mut c_void,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let each = each.ok_or_else(no_callback)?;
        let answers = Answers::default();
        let outcome = copy(tree)?.diff(&copy(after)?, |path, change| {
            let path = views(path);
            let (before, after) = match &change {
                Change::Added(after) => (NOTHING, view(after)),
                Change::Removed(before) => (view(before), NOTHING),
                Change::Updated(before, after) => (view(before), view(after)),
            };
            // SAFETY: as above.
            answers.check(outer_callback(|| unsafe {
                each(user, path.as_ptr(), path.len(), before, after)
            }))
        });
        answers.outcome(outcome)
    })
}

//! Ranges as iterators: from both ends, with keys alone when asked.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use varvite::{Keys, Range, View};

use super::cursor::gather;
use crate::arena::{Memory, answer, varvite_arena};
use crate::args::{Out, bound, bytes, flag, one, varvite_bound};
use crate::handle::{get, put, take};
use crate::status::{Fault, Outcome, call, varvite_error};
use crate::types::{varvite_bytes, varvite_iterator, varvite_table, varvite_view};

enum Source {
    Entries(Range),
    Keys(Keys),
}

/// A range, and what ended it after it gave something, which the next call tells.
pub struct Ends {
    source: Source,
    failed: Option<Fault>,
}

impl Ends {
    fn new(range: Range, keys_only: c_int) -> Outcome<Mutex<Ends>> {
        let source = if flag(keys_only, "keys_only")? {
            Source::Keys(range.keys())
        } else {
            Source::Entries(range)
        };
        Ok(Mutex::new(Ends { source, failed: None }))
    }

    /// Gives up to `limit` entries, or keys, from one end.
    fn give(&mut self, limit: usize, is_back: bool, arena: &mut Memory) -> Outcome {
        if let Some(fault) = self.failed.take() {
            return Err(fault);
        }
        let source = &mut self.source;
        self.failed = gather(limit, || {
            match source {
                Source::Entries(range) => {
                    let item = if is_back { range.next_back() } else { range.next() };
                    let Some(entry) = item else { return Ok(false) };
                    let (key, value) = entry?;
                    arena.give(key);
                    arena.give(value);
                }
                Source::Keys(keys) => {
                    let item = if is_back { keys.next_back() } else { keys.next() };
                    let Some(key) = item else { return Ok(false) };
                    arena.give(key?);
                }
            }
            Ok(true)
        })?;
        Ok(())
    }
}

fn table_view(table: *const varvite_table) -> Outcome<View> {
    let held = get(table)?;
    let table = held.read()?;
    Ok(table.table.view())
}

fn range(view: &View, lower: *const varvite_bound, upper: *const varvite_bound) -> Outcome<Range> {
    Ok(view.range((bound(lower)?, bound(upper)?)))
}

fn prefixed(view: &View, prefix: *const varvite_bytes) -> Outcome<Range> {
    Ok(view.prefix(bytes(*one(prefix, "prefix")?, "prefix")?))
}

/// An iterator over what is between the bounds of a table as it is now, from both ends. NULL is no bound. With
/// `keys_only` 1 values are not read; else 0. Nothing is read before it is asked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_iterate(
    table: *mut varvite_table,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    keys_only: c_int,
    iterator: *mut *mut varvite_iterator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(iterator, "iterator")?;
        place.set(put(Ends::new(range(&table_view(table)?, lower, upper)?, keys_only)?)?);
        Ok(())
    })
}

/// As `varvite_table_iterate`, over the keys that begin with `prefix`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_iterate_prefix(
    table: *mut varvite_table,
    prefix: *const varvite_bytes,
    keys_only: c_int,
    iterator: *mut *mut varvite_iterator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(iterator, "iterator")?;
        place.set(put(Ends::new(prefixed(&table_view(table)?, prefix)?, keys_only)?)?);
        Ok(())
    })
}

/// As `varvite_table_iterate`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_iterate(
    view: *mut varvite_view,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    keys_only: c_int,
    iterator: *mut *mut varvite_iterator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(iterator, "iterator")?;
        let held = get(view)?;
        let range = range(&*held.read()?, lower, upper)?;
        place.set(put(Ends::new(range, keys_only)?)?);
        Ok(())
    })
}

/// As `varvite_table_iterate_prefix`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_iterate_prefix(
    view: *mut varvite_view,
    prefix: *const varvite_bytes,
    keys_only: c_int,
    iterator: *mut *mut varvite_iterator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(iterator, "iterator")?;
        let held = get(view)?;
        let range = prefixed(&*held.read()?, prefix)?;
        place.set(put(Ends::new(range, keys_only)?)?);
        Ok(())
    })
}

fn give(
    iterator: *const varvite_iterator,
    limit: usize,
    is_back: bool,
    items: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, items, |items| {
        items.fill(|arena| {
            let held = get(iterator)?;
            let mut ends = held.write()?;
            let ends = ends.get_mut().unwrap_or_else(PoisonError::into_inner);
            ends.give(limit, is_back, arena)
        })
    })
}

/// Up to `limit` bindings from the front, or keys: two items each, or one. None only where the two ends meet. What comes
/// before an error is given, and the next call tells the error, which is the last that the iterator gives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_iterator_next(
    iterator: *mut varvite_iterator,
    limit: usize,
    items: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    give(iterator, limit, false, items, error)
}

/// As `varvite_iterator_next`, from the back: the greatest key first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_iterator_next_back(
    iterator: *mut varvite_iterator,
    limit: usize,
    items: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    give(iterator, limit, true, items, error)
}

/// Closes an iterator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_iterator_close(
    iterator: *mut varvite_iterator,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(iterator).map(drop))
}

//! Cursors.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use varvite::Cursor;

use crate::arena::{answer, varvite_arena};
use crate::args::{NOTHING, Out, bound, bytes, varvite_bound, view};
use crate::handle::{get, put, take};
use crate::status::{Fault, Outcome, call, caught, varvite_error};
use crate::types::{varvite_bytes, varvite_cursor, varvite_table, varvite_view};

/// A cursor, and what kept its last call from giving more, which the next one tells.
pub struct Place {
    cursor: Cursor,
    failed: Option<Fault>,
}

impl Place {
    fn new(cursor: Cursor) -> Mutex<Place> {
        Mutex::new(Place { cursor, failed: None })
    }
}

fn with_place<T>(
    cursor: *const varvite_cursor,
    body: impl FnOnce(&mut Place) -> Outcome<T>,
) -> Outcome<T> {
    let held = get(cursor)?;
    let mut place = held.write()?;
    body(place.get_mut().unwrap_or_else(PoisonError::into_inner))
}

/// Does `body`, a step, with the cursor of a handle.
fn with<T>(
    cursor: *const varvite_cursor,
    body: impl FnOnce(&mut Cursor) -> varvite::Result<T>,
) -> Outcome<T> {
    with_place(cursor, |place| match place.failed.take() {
        Some(fault) => Err(fault),
        None => Ok(body(&mut place.cursor)?),
    })
}

/// Moves the cursor of a handle: what failed where it was is of no interest there.
fn seek(cursor: *const varvite_cursor, body: impl FnOnce(&mut Cursor)) -> Outcome {
    with_place(cursor, |place| {
        place.failed = None;
        body(&mut place.cursor);
        Ok(())
    })
}

/// Calls `next`, which says whether it gave anything, up to `limit` times. What fails after the first time is given back,
/// so that nothing that was given before is lost.
pub fn gather(
    limit: usize,
    mut next: impl FnMut() -> varvite::Result<bool>,
) -> Outcome<Option<Fault>> {
    for index in 0..limit {
        // A merge operator that fails unwinds from here.
        let fault = match catch_unwind(AssertUnwindSafe(&mut next)) {
            Ok(Ok(true)) => continue,
            Ok(Ok(false)) => break,
            Ok(Err(error)) => error.into(),
            Err(payload) => caught(payload),
        };
        return if index > 0 { Ok(Some(fault)) } else { Err(fault) };
    }
    Ok(None)
}

/// A cursor before the first key between the bounds of a table as it is now. NULL is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_cursor(
    table: *mut varvite_table,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    cursor: *mut *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(cursor, "cursor")?;
        let held = get(table)?;
        let cursor = held.read()?.table.cursor(bound(lower)?, bound(upper)?)?;
        place.set(put(Place::new(cursor))?);
        Ok(())
    })
}

/// As `varvite_table_cursor`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_cursor(
    view: *mut varvite_view,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    cursor: *mut *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(cursor, "cursor")?;
        let held = get(view)?;
        let cursor = held.read()?.cursor(bound(lower)?, bound(upper)?)?;
        place.set(put(Place::new(cursor))?);
        Ok(())
    })
}

type Entry<'a> = Option<(&'a [u8], &'a [u8])>;

fn step(
    cursor: *const varvite_cursor,
    key: *mut varvite_bytes,
    value: *mut varvite_bytes,
    step: impl FnOnce(&mut Cursor) -> varvite::Result<Entry<'_>>,
) -> Outcome {
    let (key, value) = (Out::new(key, "key")?, Out::new(value, "value")?);
    let (found_key, found_value) = with(cursor, |cursor| {
        Ok(step(cursor)?.map_or((NOTHING, NOTHING), |(key, value)| (view(key), view(value))))
    })?;
    key.set(found_key);
    value.set(found_value);
    Ok(())
}

fn step_key(
    cursor: *const varvite_cursor,
    key: *mut varvite_bytes,
    step: impl FnOnce(&mut Cursor) -> varvite::Result<Option<&[u8]>>,
) -> Outcome {
    let key = Out::new(key, "key")?;
    key.set(with(cursor, |cursor| Ok(step(cursor)?.map_or(NOTHING, view)))?);
    Ok(())
}

/// The next binding, which is passed; NULL at the upper bound. The bytes stay until the cursor's next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_next(
    cursor: *mut varvite_cursor,
    key: *mut varvite_bytes,
    value: *mut varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || step(cursor, key, value, Cursor::next))
}

/// The binding before, which is passed; NULL at the lower bound. The bytes stay until the cursor's next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_previous(
    cursor: *mut varvite_cursor,
    key: *mut varvite_bytes,
    value: *mut varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || step(cursor, key, value, Cursor::previous))
}

/// As `varvite_cursor_next`, without reading a value that is in a blob file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_next_key(
    cursor: *mut varvite_cursor,
    key: *mut varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || step_key(cursor, key, Cursor::next_key))
}

/// As `varvite_cursor_previous`, without reading a value that is in a blob file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_previous_key(
    cursor: *mut varvite_cursor,
    key: *mut varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || step_key(cursor, key, Cursor::previous_key))
}

/// The value of the key that the last step gave. The bytes stay until the cursor's next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_value(
    cursor: *mut varvite_cursor,
    value: *mut varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || step_key(cursor, value, |it| it.value().map(Some)))
}

/// Up to `limit` bindings from here on, which are passed: two items a key. None only at the upper bound. What was passed
/// before an error is given, and the next call tells the error: the cursor stands before the key that could not be read,
/// and a seek forgets it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_next_many(
    cursor: *mut varvite_cursor,
    limit: usize,
    entries: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, entries, |entries| {
        entries.fill(|arena| {
            with_place(cursor, |place| {
                if let Some(fault) = place.failed.take() {
                    return Err(fault);
                }
                let cursor = &mut place.cursor;
                place.failed = gather(limit, || {
                    let Some((key, value)) = cursor.next()? else { return Ok(false) };
                    arena.give(key);
                    arena.give(value);
                    Ok(true)
                })?;
                Ok(())
            })
        })
    })
}

/// Moves before the first key within the bounds that is `key` or greater.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_seek(
    cursor: *mut varvite_cursor,
    key: *const varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let key = bytes(*crate::args::one(key, "key")?, "key")?;
        seek(cursor, |it| it.seek(key))
    })
}

/// Moves before the first key within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_seek_first(
    cursor: *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || seek(cursor, Cursor::seek_first))
}

/// Moves after the last key within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_seek_last(
    cursor: *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || seek(cursor, Cursor::seek_last))
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_close(
    cursor: *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(cursor).map(drop))
}

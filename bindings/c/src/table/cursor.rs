//! Cursors.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

use varvite::Cursor;

use crate::arena::{answer, varvite_arena};
use crate::args::{NOTHING, Out, bound, bytes, varvite_bound, view};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, forget, varvite_error};
use crate::types::{varvite_bytes, varvite_cursor, varvite_table, varvite_view};

/// Does `body` with the cursor of a handle.
fn with<T>(
    cursor: *const varvite_cursor,
    body: impl FnOnce(&mut Cursor) -> varvite::Result<T>,
) -> Outcome<T> {
    let held = get(cursor)?;
    let mut cursor = held.write()?;
    Ok(body(cursor.get_mut().unwrap_or_else(PoisonError::into_inner))?)
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
        place.set(put(Mutex::new(cursor))?);
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
        place.set(put(Mutex::new(cursor))?);
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
/// before an error is given, and the next call meets the error: it stands before the key that cannot be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_next_many(
    cursor: *mut varvite_cursor,
    limit: usize,
    entries: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, entries, |entries| {
        entries.fill(|arena| {
            with(cursor, |cursor| {
                for index in 0..limit {
                    // A merge operator that fails unwinds from here, and the cursor stands before its key then.
                    let step = catch_unwind(AssertUnwindSafe(|| {
                        Ok(cursor.next()?.map(|(key, value)| {
                            arena.give(key);
                            arena.give(value);
                        }))
                    }));
                    match step {
                        Ok(Ok(Some(()))) => {}
                        Ok(Ok(None)) => break,
                        // What was passed must not be lost; the next call meets the error again.
                        Ok(Err(_)) if index > 0 => break,
                        Ok(Err(error)) => return Err(error),
                        Err(failed) if index > 0 => {
                            forget(failed);
                            break;
                        }
                        Err(failed) => resume_unwind(failed),
                    }
                }
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
        with(cursor, |cursor| {
            cursor.seek(key);
            Ok(())
        })
    })
}

/// Moves before the first key within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_seek_first(
    cursor: *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        with(cursor, |cursor| {
            cursor.seek_first();
            Ok(())
        })
    })
}

/// Moves after the last key within the bounds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_seek_last(
    cursor: *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        with(cursor, |cursor| {
            cursor.seek_last();
            Ok(())
        })
    })
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_cursor_close(
    cursor: *mut varvite_cursor,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(cursor).map(drop))
}

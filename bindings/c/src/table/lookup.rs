//! Reading tables and views: batches of keys, ranges, values found and not read.

use std::ffi::c_int;

use varvite::View;

use crate::arena::{Answer, Memory, answer, varvite_arena};
use crate::args::{Buffer, Out, Piece, array, bound, bytes, one, pieces, room, varvite_bound};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{varvite_bytes, varvite_session, varvite_table, varvite_value, varvite_view};

pub(crate) fn look_up(
    found: Answer,
    lookup: impl FnOnce(&mut varvite::Values) -> varvite::Result<()>,
) -> Outcome {
    found.fill(|arena| {
        lookup(&mut arena.values)?;
        arena.use_values();
        Ok(())
    })
}

/// The values of `keys`, in their order: one item a key, NULL for a key that is not bound. All page reads of
/// the batch are in flight together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_lookup(
    table: *mut varvite_table,
    keys: *const varvite_bytes,
    count: usize,
    found: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, found, |found| {
        let keys = pieces(keys, count, "keys")?;
        let held = get(table)?;
        let table = held.read()?;
        look_up(found, |values| table.table.lookup_into(keys, values))
    })
}

/// As `varvite_table_lookup`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_lookup(
    view: *mut varvite_view,
    keys: *const varvite_bytes,
    count: usize,
    found: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, found, |found| {
        let keys = pieces(keys, count, "keys")?;
        let held = get(view)?;
        let view = held.read()?;
        look_up(found, |values| view.lookup_into(keys, values))
    })
}

/// Every key between the bounds with its value, in key order: two items a key. NULL is no bound. All of them
/// are in memory at once; a cursor takes them piece by piece.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_range(
    table: *mut varvite_table,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    entries: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, entries, |entries| {
        let held = get(table)?;
        let view = held.read()?.table.view();
        entries.fill(|arena| range(&view, lower, upper, arena))
    })
}

/// As `varvite_table_range`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_range(
    view: *mut varvite_view,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    entries: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, entries, |entries| {
        let held = get(view)?;
        let view = held.read()?;
        entries.fill(|arena| range(&view, lower, upper, arena))
    })
}

fn range(
    view: &View,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    arena: &mut Memory,
) -> Outcome {
    for entry in view.range((bound(lower)?, bound(upper)?)) {
        let (key, value) = entry?;
        arena.give(key);
        arena.give(value);
    }
    Ok(())
}

/// As `varvite_table_lookup`, without reading values that are in blob files: `values` is an array of `count`
/// that gets a handle for each key, NULL for one that is not bound. Each is to be closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_find(
    table: *mut varvite_table,
    keys: *const varvite_bytes,
    count: usize,
    values: *mut *mut varvite_value,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(table)?;
        let view = held.read()?.table.view();
        find(&view, pieces(keys, count, "keys")?, values)
    })
}

/// As `varvite_table_find`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_find(
    view: *mut varvite_view,
    keys: *const varvite_bytes,
    count: usize,
    values: *mut *mut varvite_value,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let held = get(view)?;
        let view = held.read()?;
        find(&view, pieces(keys, count, "keys")?, values)
    })
}

fn find(view: &View, keys: &[Piece], values: *mut *mut varvite_value) -> Outcome {
    if keys.is_empty() {
        return Ok(());
    }
    room(values, keys.len(), "values")?;
    let mut handles = Vec::with_capacity(keys.len());
    for value in view.find(keys)? {
        match value.map(put::<varvite_value>).transpose() {
            Ok(handle) => handles.push(handle.unwrap_or(std::ptr::null_mut())),
            Err(fault) => {
                for handle in handles {
                    drop(take(handle));
                }
                return Err(fault);
            }
        }
    }
    // SAFETY: `room` saw that it is neither NULL nor unaligned, and the caller promises as many places as keys.
    unsafe { values.copy_from_nonoverlapping(handles.as_ptr(), handles.len()) };
    Ok(())
}

/// How many keys are bound, exactly. Reads every page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_count(
    view: *mut varvite_view,
    count: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(count, "count")?;
        let held = get(view)?;
        place.set(held.read()?.count()?);
        Ok(())
    })
}

/// Closes a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_close(
    view: *mut varvite_view,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(view).map(drop))
}

/// The length of a value in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_value_length(
    value: *mut varvite_value,
    length: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(length, "length")?;
        let held = get(value)?;
        place.set(held.read()?.len());
        Ok(())
    })
}

/// Fills `buffer`, of `capacity` bytes, with the value's bytes from `offset` on; `length` is how many there
/// were.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_value_read_at(
    value: *mut varvite_value,
    offset: u64,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(length, "length")?;
        let held = get(value)?;
        let value = held.read()?;
        room(buffer, capacity, "buffer")?;
        let there = usize::try_from(value.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let buffer = match capacity.min(there) {
            0 => &mut [][..],
            // SAFETY: `room` saw that it is not NULL, and the caller promises `capacity` bytes that nobody else uses
            // meanwhile. They need not have been written, so they are before there is a slice of them.
            length => unsafe {
                buffer.write_bytes(0, length);
                std::slice::from_raw_parts_mut(buffer, length)
            },
        };
        place.set(value.read_at(offset, buffer)?);
        Ok(())
    })
}

/// The bytes of several values of one session, in their order: one item each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_read_values(
    session: *mut varvite_session,
    values: *const *mut varvite_value,
    count: usize,
    found: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, found, |found| {
        let session = super::session::session(session)?;
        let values = array(values, count, "values")?;
        let mut wanted = Vec::with_capacity(values.len());
        for handle in values {
            let held = get(*handle)?;
            let value = held.read()?;
            wanted.push(value.clone());
        }
        found.fill(|arena| {
            arena.values = session.read_values(&wanted)?;
            arena.use_values();
            Ok(())
        })
    })
}

/// Closes a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_value_close(
    value: *mut varvite_value,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(value).map(drop))
}

/// The value of one key: one item, NULL when it is not bound. Several keys are cheaper together.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_get(
    table: *mut varvite_table,
    key: *const varvite_bytes,
    found: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, found, |found| {
        let key = bytes(*one(key, "key")?, "key")?;
        let held = get(table)?;
        let held = held.read()?;
        let table = &held.table;
        match table.get(key) {
            // A value that is too long for a get, too.
            Err(error) if error.kind() == varvite::Kind::Invalid => {
                look_up(found, |values| table.lookup_into(&[key], values))
            }
            value => found.fill(|arena| {
                arena.give_optional(value?);
                Ok(())
            }),
        }
    })
}

/// As `varvite_table_get`, into memory of the program's: `length` is how many bytes the value has, SIZE_MAX when the key is
/// not bound. More than `capacity` of them are not written, and are to be got by `varvite_table_get`. VARVITE_INVALID for a
/// value of more than 16 MiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_get_into(
    table: *mut varvite_table,
    key: *const varvite_bytes,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (place, key) =
            (Buffer::new(buffer, capacity, length)?, bytes(*one(key, "key")?, "key")?);
        let held = get(table)?;
        place.set(held.read()?.table.get(key)?.as_deref());
        Ok(())
    })
}

/// As `varvite_table_get_into`, of a view.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_view_get_into(
    view: *mut varvite_view,
    key: *const varvite_bytes,
    buffer: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (place, key) =
            (Buffer::new(buffer, capacity, length)?, bytes(*one(key, "key")?, "key")?);
        let held = get(view)?;
        place.set(held.read()?.get(key)?.as_deref());
        Ok(())
    })
}

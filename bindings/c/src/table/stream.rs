//! What comes piece by piece: tables that are loaded, and large values.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

use varvite::LoadOrder;

use super::options::{table_options, varvite_table_options};
use super::session::{put_table, session};
use crate::args::{Out, array, budget, bytes, one, text, wanted};
use crate::handle::{get, put, take};
use crate::status::{call, varvite_error};
use crate::types::{
    varvite_bytes, varvite_loader, varvite_session, varvite_table, varvite_value,
    varvite_value_writer,
};

/// Begins a table that is loaded whole from a stream. With `sort_bytes` 0 the keys come in order; else they come
/// in any, and are sorted with about so many bytes of memory. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_load_table(
    session: *mut varvite_session,
    name: *const c_char,
    options: *const varvite_table_options,
    sort_bytes: u64,
    loader: *mut *mut varvite_loader,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(loader, "loader")?);
        let order = match sort_bytes {
            0 => LoadOrder::Sorted,
            bytes => LoadOrder::Any { memory_bytes: budget(bytes, "sort_bytes")? },
        };
        let options = table_options(options)?;
        let loader = self::session(session)?.load_table(name, options, order)?;
        place.set(put(Mutex::new(loader))?);
        Ok(())
    })
}

/// Adds `count` keys with their values, two items each as a range gives them: the range's count is twice this one.
/// After an error those before the one that was refused are in; `pushed` says how many, also then. It may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_loader_push(
    loader: *mut varvite_loader,
    entries: *const varvite_bytes,
    count: usize,
    pushed: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = wanted(pushed, "count")?;
        let mut done = 0;
        let tell = |done| {
            if let Some(place) = &place {
                place.set(done);
            }
        };
        tell(done);
        let entries = array(entries.cast::<[varvite_bytes; 2]>(), count, "entries")?;
        let held = get(loader)?;
        let mut loader = held.write()?;
        let loader = loader.get_mut().unwrap_or_else(PoisonError::into_inner);
        let outcome = entries.iter().try_for_each(|[key, value]| {
            loader.push(bytes(*key, "key")?, bytes(*value, "value")?)?;
            done += 1;
            Ok(())
        });
        tell(done);
        outcome
    })
}

/// Makes the table of what was pushed, and closes the loader, also after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_loader_finish(
    loader: *mut varvite_loader,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let loader = take(loader)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        let place = Out::new(table, "table")?;
        place.set(put_table(loader.finish()?)?);
        Ok(())
    })
}

/// How many keys were pushed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_loader_count(
    loader: *mut varvite_loader,
    count: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(count, "count")?;
        let held = get(loader)?;
        let mut loader = held.write()?;
        place.set(loader.get_mut().unwrap_or_else(PoisonError::into_inner).count());
        Ok(())
    })
}

/// Closes a loader; what was pushed is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_loader_close(
    loader: *mut varvite_loader,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(loader).map(drop))
}

/// Begins a value that comes in pieces, up to 1 TiB.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_write_value(
    session: *mut varvite_session,
    writer: *mut *mut varvite_value_writer,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(writer, "writer")?;
        place.set(put(Mutex::new(self::session(session)?.write_value()?))?);
        Ok(())
    })
}

/// Appends a piece.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_value_writer_write(
    writer: *mut varvite_value_writer,
    piece: *const varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let piece = bytes(*one(piece, "piece")?, "piece")?;
        let held = get(writer)?;
        let mut writer = held.write()?;
        writer.get_mut().unwrap_or_else(PoisonError::into_inner).write(piece)?;
        Ok(())
    })
}

/// Makes the value, to be inserted with VARVITE_INSERT_VALUE, and closes the writer, also after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_value_writer_finish(
    writer: *mut varvite_value_writer,
    value: *mut *mut varvite_value,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let writer = take(writer)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        let place = Out::new(value, "value")?;
        place.set(put(writer.finish()?)?);
        Ok(())
    })
}

/// Closes a writer; what was written is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_value_writer_close(
    writer: *mut varvite_value_writer,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(writer).map(drop))
}

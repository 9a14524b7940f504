//! Live tables: those that the session's log makes durable.

use std::ffi::{c_char, c_int};

use super::options::{open_table, table_options, varvite_open_options, varvite_table_options};
use super::session::{put_table, session};
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, room, text};
use crate::handle::{get, take};
use crate::status::{Fault, call, varvite_error};
use crate::types::{varvite_session, varvite_table};

/// The names of the live tables, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_live_tables(
    session: *mut varvite_session,
    names: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, names, |names| {
        let session = self::session(session)?;
        names.fill(|arena| {
            session.live_tables()?.into_iter().for_each(|it| arena.give(it));
            Ok(())
        })
    })
}

/// Opens the live table `name` as it was last updated. VARVITE_LOCKED while another handle to it is open.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_table(
    session: *mut varvite_session,
    name: *const c_char,
    options: *const varvite_open_options,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let table = self::session(session)?.open_table(name, &open_table(options)?)?;
        place.set(put_table(table)?);
        Ok(())
    })
}

/// Opens the live table `name`, or makes it where there is none. One that is there keeps the options that it was made
/// with; the operator of `options` has to be its own. VARVITE_LOCKED while another handle to it is open,
/// VARVITE_INVALID in a session without a log. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_or_create_table(
    session: *mut varvite_session,
    name: *const c_char,
    options: *const varvite_table_options,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let table = self::session(session)?.open_or_create_table(name, table_options(options)?)?;
        place.set(put_table(table)?);
        Ok(())
    })
}

/// Makes durable every update of a live table whose call has returned, by one sync or none: for a program that logs with
/// VARVITE_LOG_WRITTEN and says itself when. Updates go on meanwhile. VARVITE_INVALID without a log; after VARVITE_IO
/// nobody knows what is durable, so all that write say VARVITE_POISONED until the session is opened again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_sync_log(
    session: *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    call(error, || Ok(self::session(session)?.sync_log()?))
}

/// Makes `table` live under its name: for duplicates, and for tables from snapshots.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_publish(
    session: *mut varvite_session,
    table: *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let session = self::session(session)?;
        let held = get(table)?;
        session.publish(&mut held.write()?.table)?;
        Ok(())
    })
}

/// Deletes the live table `name`. VARVITE_LOCKED while a handle to it is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_delete_table(
    session: *mut varvite_session,
    name: *const c_char,
    error: *mut varvite_error,
) -> c_int {
    call(error, || Ok(self::session(session)?.delete_table(text(name, "name")?)?))
}

/// Opens every live table, in the order of their names, in one pass over the log: `tables` is an array of `capacity`
/// that gets the handles, `count` is how many. When there are more than `capacity` it opens none, gives VARVITE_INVALID,
/// and `count` is set all the same, to how many there are. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_all(
    session: *mut varvite_session,
    options: *const varvite_open_options,
    tables: *mut *mut varvite_table,
    capacity: usize,
    count: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(count, "count")?;
        room(tables, capacity, "tables")?;
        let (session, options) = (self::session(session)?, open_table(options)?);
        let fits = |there: usize| {
            if there <= capacity {
                return Ok(());
            }
            place.set(there);
            Err(Fault::invalid(format!(
                "there are {there} live tables, but room for {capacity}: pass a longer array"
            )))
        };
        fits(session.live_tables()?.len())?;
        let opened = session.open_all(&options)?;
        // Another thread may have made some.
        fits(opened.len())?;
        let mut handles = Vec::with_capacity(opened.len());
        for table in opened {
            match put_table(table) {
                Ok(handle) => handles.push(handle),
                Err(fault) => {
                    for handle in handles {
                        drop(take(handle));
                    }
                    return Err(fault);
                }
            }
        }
        if !handles.is_empty() {
            // SAFETY: `room` saw that it is neither NULL nor unaligned, and the caller promises `capacity` places,
            // which is as many at least.
            unsafe { tables.copy_from_nonoverlapping(handles.as_ptr(), handles.len()) };
        }
        place.set(handles.len());
        Ok(())
    })
}

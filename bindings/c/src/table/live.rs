//! Live tables: those that the session's log makes durable.

use std::ffi::{c_char, c_int};

use super::options::{open_table, varvite_open_options};
use super::session::{put_table, session};
use crate::arena::{fill, varvite_arena};
use crate::args::{Out, array, text};
use crate::handle::get;
use crate::status::{Fault, call, varvite_error};
use crate::types::{varvite_session, varvite_table};

/// The names of the live tables, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_live_tables(
    session: *mut varvite_session,
    names: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let session = self::session(session)?;
        fill(names, |arena| {
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
/// that gets the handles, `count` is how many. VARVITE_INVALID when there are more than `capacity`. `options` may be
/// NULL.
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
        // Looks whether there is an array at all.
        array(tables.cast_const(), capacity, "tables")?;
        let opened = self::session(session)?.open_all(&open_table(options)?)?;
        if opened.len() > capacity {
            return Err(Fault::invalid(format!(
                "there are {} live tables, but room for {capacity}: pass a longer array",
                opened.len()
            )));
        }
        place.set(opened.len());
        for (index, table) in opened.into_iter().enumerate() {
            let handle = put_table(table)?;
            // SAFETY: `array` saw that it is neither NULL nor unaligned, and the caller promises `capacity` places,
            // which is more than `index`.
            unsafe { tables.add(index).write(handle) };
        }
        Ok(())
    })
}

//! Followers: the live tables of a session that another process writes.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

use varvite::Follower;

use super::options::{open_table, varvite_open_options};
use super::session::session;
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, text};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{varvite_follower, varvite_session, varvite_view};

fn with<T>(
    follower: *const varvite_follower,
    body: impl FnOnce(&mut Follower) -> Outcome<T>,
) -> Outcome<T> {
    let held = get(follower)?;
    let mut follower = held.write()?;
    body(follower.get_mut().unwrap_or_else(PoisonError::into_inner))
}

/// Follows the live tables of a session that was opened to read, beside the process that updates them: all tables are as
/// they were at one moment. `options` may be NULL. VARVITE_INVALID in a session that writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_follow(
    session: *mut varvite_session,
    options: *const varvite_open_options,
    follower: *mut *mut varvite_follower,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(follower, "follower")?;
        let follower = self::session(session)?.follow(&open_table(options)?)?;
        place.set(put(Mutex::new(follower))?);
        Ok(())
    })
}

/// Goes on to what the log has now; `is_other` says whether that is another moment than before, 0 or 1. Views that were
/// taken stay as they are. After an error the tables are as they were, and it may be tried again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_follower_reload(
    follower: *mut varvite_follower,
    is_other: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_other, "answer")?;
        place.set(c_int::from(with(follower, |it| Ok(it.reload()?))?));
        Ok(())
    })
}

/// The names of the live tables, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_follower_tables(
    follower: *mut varvite_follower,
    names: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, names, |names| {
        with(follower, |follower| {
            names.fill(|arena| {
                follower.tables().for_each(|it| arena.give(it.name()));
                Ok(())
            })
        })
    })
}

/// The content of the live table `name` at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_follower_view(
    follower: *mut varvite_follower,
    name: *const c_char,
    view: *mut *mut varvite_view,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(view, "view")?);
        let view = with(follower, |it| Ok(it.table(name)?.view()))?;
        place.set(put(view)?);
        Ok(())
    })
}

/// Closes a follower. Views that were taken stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_follower_close(
    follower: *mut varvite_follower,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(follower).map(drop))
}

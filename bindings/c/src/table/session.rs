//! Sessions: opening, closing, and what concerns all tables.

use std::ffi::{c_char, c_int};

use varvite::{Session, Table};

use super::options::{
    session_options, table_options, varvite_session_options, varvite_table_options,
};
use super::update::{WritableTable, read_tables};
use crate::arena::{fill, varvite_arena};
use crate::args::{Out, text};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{disk, varvite_disk, varvite_session, varvite_table};

/// What a session counted since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct varvite_session_stats {
    /// Keys looked up.
    pub keys_looked_up: u64,
    /// Pages of 4 KiB that lookups read from disk.
    pub pages_read: u64,
    /// Pages that lookups found in the cache instead.
    pub cache_hits: u64,
    /// Values that were read from blob files.
    pub blobs_read: u64,
    /// Bytes of these values.
    pub blob_read_bytes: u64,
    /// Bytes written to blob files.
    pub blob_written_bytes: u64,
    /// Bytes that merges read.
    pub merge_read_bytes: u64,
    /// All bytes written, the log apart.
    pub written_bytes: u64,
    /// Updates that the log took.
    pub log_records: u64,
    /// Bytes that the log wrote.
    pub log_written_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
}

/// The session that a handle stands for.
pub(crate) fn session(handle: *const varvite_session) -> Outcome<Session> {
    let held = get(handle)?;
    let session = held.read()?;
    Ok(session.clone())
}

/// A handle for a table.
pub(crate) fn put_table(table: Table) -> Outcome<*mut varvite_table> {
    put(WritableTable::new(table))
}

/// Makes a session in the root folder of `disk`, which must be empty, and opens it. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_create(
    disk: *mut varvite_disk,
    options: *const varvite_session_options,
    session: *mut *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(session, "session")?;
        place.set(put(Session::create(crate::types::disk(disk)?, session_options(options)?)?)?);
        Ok(())
    })
}

/// Opens a session for writing. VARVITE_MISSING when there is none, VARVITE_LOCKED when another process has it.
/// `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open(
    disk: *mut varvite_disk,
    options: *const varvite_session_options,
    session: *mut *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(session, "session")?;
        place.set(put(Session::open(crate::types::disk(disk)?, session_options(options)?)?)?);
        Ok(())
    })
}

/// Opens a session for reading snapshots, also while another process writes. Changes nothing. `options` may
/// be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_read_only(
    disk: *mut varvite_disk,
    options: *const varvite_session_options,
    session: *mut *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(session, "session")?;
        let disk = crate::types::disk(disk)?;
        place.set(put(Session::open_read_only(disk, session_options(options)?)?)?);
        Ok(())
    })
}

/// Ends a session. Live tables are durable then; of the others, what is in no snapshot is gone. Its tables and
/// views give VARVITE_CLOSED from now on, and are closed as always. The handle is closed also after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_close(
    session: *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    call(error, || Ok(take(session)?.close()?))
}

/// What was found wrong at opening, and which live tables the last checkpoint could not write: sentences.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_warnings(
    session: *mut varvite_session,
    warnings: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let session = self::session(session)?;
        fill(warnings, |arena| {
            session.warnings().into_iter().for_each(|it| arena.give(it));
            Ok(())
        })
    })
}

/// Whether a sync failed, so that updates give VARVITE_POISONED: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_is_poisoned(
    session: *mut varvite_session,
    is_poisoned: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_poisoned, "answer")?;
        place.set(c_int::from(self::session(session)?.is_poisoned()));
        Ok(())
    })
}

/// Has updates do no merging until `varvite_session_resume_merges`; one that would have a table hold more than so
/// many bytes in memory is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_pause_merges(
    session: *mut varvite_session,
    buffered_bytes_max: u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        self::session(session)?.pause_merges(buffered_bytes_max);
        Ok(())
    })
}

/// Has updates merge again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_resume_merges(
    session: *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        self::session(session)?.resume_merges();
        Ok(())
    })
}

/// What was counted since the session was opened.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_get_stats(
    session: *mut varvite_session,
    stats: *mut varvite_session_stats,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(stats, "statistics")?;
        let from = self::session(session)?.stats();
        place.set(varvite_session_stats {
            keys_looked_up: from.keys_looked_up,
            pages_read: from.pages_read,
            cache_hits: from.cache_hits,
            blobs_read: from.blobs_read,
            blob_read_bytes: from.blob_read_bytes,
            blob_written_bytes: from.blob_written_bytes,
            merge_read_bytes: from.merge_read_bytes,
            written_bytes: from.written_bytes(),
            log_records: from.log_records,
            log_written_bytes: from.log_written_bytes,
            log_syncs: from.log_syncs,
            checkpoints: from.checkpoints,
        });
        Ok(())
    })
}

/// A new, empty table. `options` may be NULL. In a session with a log it is live: durable, and found again by
/// `varvite_session_open_table`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_create_table(
    session: *mut varvite_session,
    name: *const c_char,
    options: *const varvite_table_options,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let table = self::session(session)?.create_table(name, table_options(options)?)?;
        place.set(put_table(table)?);
        Ok(())
    })
}

/// A table that binds every key that one of `tables` binds, merged before this returns. A key of several gets
/// their values joined by the merge operator, the leftmost as the newest; without one, the leftmost's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_union(
    session: *mut varvite_session,
    name: *const c_char,
    tables: *const *mut varvite_table,
    count: usize,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let session = self::session(session)?;
        let union = read_tables(tables, count, |tables| Ok(session.union(name, tables)?))?;
        place.set(put_table(union)?);
        Ok(())
    })
}

/// The same, merged bit by bit: updates of the result pay for it, or `varvite_table_supply_union_credits`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_incremental_union(
    session: *mut varvite_session,
    name: *const c_char,
    tables: *const *mut varvite_table,
    count: usize,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let session = self::session(session)?;
        let union = read_tables(tables, count, |it| Ok(session.incremental_union(name, it)?))?;
        place.set(put_table(union)?);
        Ok(())
    })
}

/// Checks every byte that snapshots and live tables of the session on `disk` need, also beside its writer.
/// `findings` gets two items for each thing that is wrong: the file, and the sentence; none when all is well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_check(
    disk: *mut varvite_disk,
    findings: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let disk = self::disk(disk)?;
        fill(findings, |arena| {
            let go_on = |_| std::ops::ControlFlow::Continue(());
            for finding in varvite::table::check::check(&disk, go_on)?.findings {
                arena.give(finding.file);
                arena.give(finding.detail);
            }
            Ok(())
        })
    })
}

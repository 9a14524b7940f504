//! Sessions: opening, closing, and what concerns all tables.

use std::ffi::{c_char, c_int};
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::{Session, SessionOptions, Table};

use super::options::{
    host, session_options, table_options, varvite_session_options, varvite_table_options,
};
use super::update::{WritableTable, read_tables};
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, room, text};
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
    /// All bytes written, the log apart: the next four together.
    pub written_bytes: u64,
    /// Bytes that write-outs of full buffers wrote.
    pub write_out_bytes: u64,
    /// Bytes that merges wrote.
    pub merge_written_bytes: u64,
    /// Bytes that snapshots and checkpoints wrote.
    pub snapshot_written_bytes: u64,
    /// Bytes that loading wrote, sorting included.
    pub load_written_bytes: u64,
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

type Opening = (
    *mut varvite_disk,
    *const varvite_session_options,
    *mut *mut varvite_session,
    *mut varvite_error,
);

fn opened(
    (disk, options, session, error): Opening,
    open: impl FnOnce(Arc<dyn Disk>, SessionOptions) -> varvite::Result<Session>,
) -> c_int {
    let host = host(options);
    call(error, || {
        let place = Out::new(session, "session")?;
        let options = session_options(options, host)?;
        place.set(put(open(crate::types::disk(disk)?, options)?)?);
        Ok(())
    })
}

/// Makes a session in the root folder of `disk`, which must be empty, and opens it. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_create(
    disk: *mut varvite_disk,
    options: *const varvite_session_options,
    session: *mut *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    opened((disk, options, session, error), Session::create)
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
    opened((disk, options, session, error), Session::open)
}

/// Opens the session in the root folder of `disk` for writing, or makes it where there is none. VARVITE_LOCKED when
/// another process has it, VARVITE_INVALID when the folder holds something else. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_or_create(
    disk: *mut varvite_disk,
    options: *const varvite_session_options,
    session: *mut *mut varvite_session,
    error: *mut varvite_error,
) -> c_int {
    opened((disk, options, session, error), Session::open_or_create_on)
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
    opened((disk, options, session, error), Session::open_read_only)
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
    answer(error, warnings, |warnings| {
        let session = self::session(session)?;
        warnings.fill(|arena| {
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

/// Whether merges are paused: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_merges_are_paused(
    session: *mut varvite_session,
    are_paused: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(are_paused, "answer")?;
        place.set(c_int::from(self::session(session)?.merges_are_paused()));
        Ok(())
    })
}

/// Where the session is: one item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_root(
    session: *mut varvite_session,
    root: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, root, |root| {
        let session = self::session(session)?;
        root.fill(|arena| {
            arena.give(session.root());
            Ok(())
        })
    })
}

/// How the filters of a level did.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_filter_stats {
    /// Keys asked for.
    pub probes: u64,
    /// Of these, those that it let pass.
    pub passes: u64,
    /// Pages of the level searched in vain, also where it has no filter.
    pub false_passes: u64,
}

/// How the filters did, of the youngest level first: `stats` is an array of `capacity` that gets those of as many levels
/// at most; `levels` is how many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_get_filter_stats(
    session: *mut varvite_session,
    stats: *mut varvite_filter_stats,
    capacity: usize,
    levels: *mut usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(levels, "count")?;
        room(stats, capacity, "statistics")?;
        let filters = self::session(session)?.stats().filters;
        for (index, from) in filters.iter().enumerate().take(capacity) {
            let told = varvite_filter_stats {
                probes: from.probes,
                passes: from.passes,
                false_passes: from.false_passes,
            };
            // SAFETY: `room` saw that it is neither NULL nor unaligned, and the caller promises `capacity` places.
            unsafe { stats.add(index).write(told) };
        }
        place.set(filters.len());
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
            write_out_bytes: from.write_out_bytes,
            merge_written_bytes: from.merge_written_bytes,
            snapshot_written_bytes: from.snapshot_written_bytes,
            load_written_bytes: from.load_written_bytes,
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
    answer(error, findings, |findings| {
        let disk = self::disk(disk)?;
        findings.fill(|arena| {
            let go_on = |_| std::ops::ControlFlow::Continue(());
            for finding in varvite::table::check::check(&disk, go_on)?.findings {
                arena.give(finding.file);
                arena.give(finding.detail);
            }
            Ok(())
        })
    })
}

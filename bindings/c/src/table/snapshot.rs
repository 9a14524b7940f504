//! Snapshots: saved, opened, listed, moved.

use std::ffi::{c_char, c_int};
use std::sync::{Mutex, PoisonError};

use varvite::{Snapshot, SnapshotContent, Transferred};

use super::options::{open_snapshot, varvite_open_options, verify};
use super::session::{put_table, session};
use super::update::read_tables;
use crate::arena::{Answer, Memory, answer, varvite_arena};
use crate::args::{Out, bytes, one, text, wanted};
use crate::handle::{get, put, take};
use crate::status::{Outcome, call, varvite_error};
use crate::types::{
    disk, varvite_bytes, varvite_disk, varvite_session, varvite_snapshot, varvite_table,
};

/// What a snapshot is to hold.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_snapshot_content {
    /// The program's mark, which opening can ask for; NULL is the same as "".
    pub label: *const c_char,
    /// Bytes of the program's own, at most 16 MiB: what must be in step with the tables.
    pub payload: varvite_bytes,
    /// Tables of the session, each with a name of its own.
    pub tables: *const *mut varvite_table,
    /// How many there are.
    pub table_count: usize,
}

/// What a listing says of a snapshot.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_snapshot_info {
    /// Which save of the session it is: of two, the later one has the greater number.
    pub sequence: u64,
    /// Bytes of the program's payload.
    pub payload_bytes: u64,
    /// Bytes of the manifest and of all files that it names, shared ones included.
    pub disk_bytes: u64,
    /// How many tables it has.
    pub tables: u64,
    /// 1 when its manifest cannot be read, and the rest is empty; else 0.
    pub is_damaged: c_int,
}

/// What an export or an import moved.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct varvite_transferred {
    /// Segment files and blob files.
    pub segments: u64,
    /// Their length together.
    pub bytes: u64,
    /// Bytes of those that had to be copied; the others share their blocks with the source.
    pub copied_bytes: u64,
}

fn with<T>(
    snapshot: *const varvite_snapshot,
    body: impl FnOnce(&mut Snapshot) -> Outcome<T>,
) -> Outcome<T> {
    let held = get(snapshot)?;
    let mut snapshot = held.write()?;
    body(snapshot.get_mut().unwrap_or_else(PoisonError::into_inner))
}

/// Saves tables as the snapshot `name`, whole or not at all. VARVITE_EXISTS when the name is taken.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_save_snapshot(
    session: *mut varvite_session,
    name: *const c_char,
    content: *const varvite_snapshot_content,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, content) = (text(name, "name")?, one(content, "content")?);
        let label = if content.label.is_null() { "" } else { text(content.label, "label")? };
        let payload = bytes(content.payload, "payload")?;
        let session = self::session(session)?;
        read_tables(content.tables, content.table_count, |tables| {
            Ok(session.save_snapshot(name, SnapshotContent { label, payload, tables })?)
        })
    })
}

/// Opens the snapshot `name`. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_snapshot(
    session: *mut varvite_session,
    name: *const c_char,
    options: *const varvite_open_options,
    snapshot: *mut *mut varvite_snapshot,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(snapshot, "snapshot")?);
        let snapshot = self::session(session)?.open_snapshot(name, &open_snapshot(options)?)?;
        place.set(put(Mutex::new(snapshot))?);
        Ok(())
    })
}

/// The names of all snapshots, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_snapshots(
    session: *mut varvite_session,
    names: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, names, |names| {
        let session = self::session(session)?;
        names.fill(|arena| {
            session.list_snapshots()?.into_iter().for_each(|it| arena.give(it.name));
            Ok(())
        })
    })
}

/// What is known of the snapshot `name` without opening it. `texts` gets its label, what is wrong with its
/// manifest (NULL when nothing is), then the names of its tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_snapshot_info(
    session: *mut varvite_session,
    name: *const c_char,
    info: *mut varvite_snapshot_info,
    texts: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, texts, |texts| {
        let (name, place) = (text(name, "name")?, Out::new(info, "information")?);
        let found = self::session(session)?.list_snapshots()?;
        let found = found.into_iter().find(|it| it.name == name).ok_or_else(|| {
            varvite::Error::missing(format!("there is no snapshot called {name}: list them"))
        })?;
        let info = varvite_snapshot_info {
            sequence: found.sequence,
            payload_bytes: found.payload_bytes,
            disk_bytes: found.disk_bytes,
            tables: found.tables.len() as u64,
            is_damaged: c_int::from(found.damage.is_some()),
        };
        texts.fill(|arena| {
            arena.give(found.label);
            arena.give_optional(found.damage.map(String::into_bytes));
            found.tables.into_iter().for_each(|it| arena.give(it.name));
            Ok(())
        })?;
        place.set(info);
        Ok(())
    })
}

/// Deletes the snapshot `name`. Tables opened from it stay usable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_delete_snapshot(
    session: *mut varvite_session,
    name: *const c_char,
    error: *mut varvite_error,
) -> c_int {
    call(error, || Ok(self::session(session)?.delete_snapshot(text(name, "name")?)?))
}

/// Exports the snapshot `name` to the root folder of `target`, which must be empty: it becomes a session with
/// that one snapshot. `verify` is one of VARVITE_VERIFY_…; `transferred` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_export_snapshot(
    session: *mut varvite_session,
    name: *const c_char,
    target: *mut varvite_disk,
    verify: u32,
    transferred: *mut varvite_transferred,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, target) = (text(name, "name")?, disk(target)?);
        let (verify, place) = (self::verify(verify)?, wanted(transferred, "transferred")?);
        tell(self::session(session)?.export_snapshot(name, &target, verify)?, place);
        Ok(())
    })
}

/// Imports the snapshot `name` of the session in the root folder of `source` as the snapshot `new_name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_import_snapshot(
    session: *mut varvite_session,
    source: *mut varvite_disk,
    name: *const c_char,
    new_name: *const c_char,
    verify: u32,
    transferred: *mut varvite_transferred,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, new_name) = (text(name, "name")?, text(new_name, "new name")?);
        let (source, verify) = (disk(source)?, self::verify(verify)?);
        let (session, place) = (self::session(session)?, wanted(transferred, "transferred")?);
        tell(session.import_snapshot(&source, name, new_name, verify)?, place);
        Ok(())
    })
}

fn tell(moved: Transferred, place: Option<Out<varvite_transferred>>) {
    if let Some(place) = place {
        place.set(varvite_transferred {
            segments: moved.segments,
            bytes: moved.bytes,
            copied_bytes: moved.copied_bytes,
        });
    }
}

/// Takes the table `name` out of an open snapshot. It can be updated; the snapshot stays as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_snapshot_take(
    snapshot: *mut varvite_snapshot,
    name: *const c_char,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let table = with(snapshot, |snapshot| Ok(snapshot.take(name)?))?;
        place.set(put_table(table)?);
        Ok(())
    })
}

fn tell_texts(
    snapshot: *const varvite_snapshot,
    texts: Answer,
    give: impl FnOnce(&Snapshot, &mut Memory),
) -> Outcome {
    with(snapshot, |snapshot| {
        texts.fill(|arena| {
            give(snapshot, arena);
            Ok(())
        })
    })
}

/// The label: one item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_snapshot_label(
    snapshot: *mut varvite_snapshot,
    label: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, label, |label| tell_texts(snapshot, label, |it, arena| arena.give(&*it.label)))
}

/// The payload: one item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_snapshot_payload(
    snapshot: *mut varvite_snapshot,
    payload: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, payload, |payload| {
        tell_texts(snapshot, payload, |it, arena| arena.give(&*it.payload))
    })
}

/// The names of the tables that were not taken yet, in the order in which they were saved.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_snapshot_tables(
    snapshot: *mut varvite_snapshot,
    names: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, names, |names| {
        tell_texts(snapshot, names, |it, arena| {
            it.tables.iter().for_each(|it| arena.give(it.name()));
        })
    })
}

/// Closes an open snapshot. Tables that were taken out stay open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_snapshot_close(
    snapshot: *mut varvite_snapshot,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(snapshot).map(drop))
}

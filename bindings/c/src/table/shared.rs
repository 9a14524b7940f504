//! Tables behind one handle that threads share, and transactions over them.

use std::convert::Infallible;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use varvite::{Batch, NotShared, Session, SnapshotContent, Tables, Transaction};
use varvite_turns::{Refusal, Turn, Turns};

use super::lookup::look_up;
use super::options::{open_table, varvite_open_options};
use super::session::{put_table, session};
use super::update::{WritableTable, gather, read_tables, varvite_operation};
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, array, bytes, one, pieces, room, text};
use crate::handle::{get, may_wait, put, take, take_all};
use crate::status::{Fault, Outcome, call, varvite_error};
use crate::types::{
    varvite_bytes, varvite_session, varvite_table, varvite_tables, varvite_transaction,
    varvite_view,
};

/// A batch for one of several shared tables.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_named_update {
    /// Which table; each only once.
    pub name: *const c_char,
    /// The operations, in order.
    pub operations: *const varvite_operation,
    /// How many there are.
    pub count: usize,
}

/// What a shared handle stands for.
#[derive(Clone)]
pub struct Shared {
    tables: Tables,
    session: Session,
    turns: Arc<Turns>,
}

/// The engine's transaction, and the turn that it has, which goes after it.
pub struct Owned {
    transaction: Transaction,
    turn: Turn,
}

fn put_shared(tables: Tables, session: Session) -> Outcome<*mut varvite_tables> {
    put(Shared { tables, session, turns: Arc::default() })
}

/// A copy, so that who waits for a writer keeps nobody from closing the handle.
fn shared(tables: *const varvite_tables) -> Outcome<Shared> {
    let held = get(tables)?;
    let shared = held.read()?;
    Ok(shared.clone())
}

fn refused(refusal: &Refusal<Infallible>) -> Fault {
    match refusal {
        Refusal::Busy if may_wait() => Fault::Unused,
        Refusal::Busy => Fault::Busy,
        Refusal::Closed => Fault::closed("the shared handle was closed: open it again"),
        Refusal::Stopped(never) => match *never {},
    }
}

/// The same for what waits for whoever writes, and the turn to write. Where this thread may not wait, it has the turn if
/// nobody else does.
fn to_write(tables: *const varvite_tables) -> Outcome<(Shared, Turn)> {
    let shared = self::shared(tables)?;
    let turn = if may_wait() { shared.turns.take(|| Ok(())) } else { shared.turns.try_take() };
    let turn = turn.map_err(|it| refused(&it))?;
    Ok((shared, turn))
}

/// Tables that the engine did not take, for the handles that they came from.
fn given_back(refused: NotShared) -> (Fault, Vec<WritableTable>) {
    let tables = refused.tables.into_iter().map(WritableTable::new).collect();
    (Fault::Engine(refused.error), tables)
}

fn with<T>(
    transaction: *const varvite_transaction,
    body: impl FnOnce(&mut Transaction) -> Outcome<T>,
) -> Outcome<T> {
    let held = get(transaction)?;
    let mut owned = held.write()?;
    let owned = owned.get_mut().unwrap_or_else(PoisonError::into_inner);
    let _using = owned.turn.using();
    body(&mut owned.transaction)
}

/// Puts tables behind one handle that any number of threads may use at once: everybody reads, one at a time writes, and
/// readers never wait. The tables' own handles are closed then; after an error they are open as before. VARVITE_INVALID
/// when a table is of another session, or two have one name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_share(
    session: *mut varvite_session,
    tables: *const *mut varvite_table,
    count: usize,
    shared: *mut *mut varvite_tables,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (place, session) = (Out::new(shared, "shared handle")?, self::session(session)?);
        read_tables(tables, count, |tables| {
            let mut names: Vec<&str> = tables.iter().map(|it| it.name()).collect();
            names.sort_unstable();
            let twice = names.windows(2).find(|it| it[0] == it[1]).map(|it| it[0]);
            twice.map_or(Ok(()), |name| {
                Err(Fault::invalid(format!("two tables are called \"{name}\"")))
            })
        })?;
        let shared = take_all(array(tables, count, "tables")?, |taken| {
            let taken = taken.into_iter().map(|it| it.table).collect();
            session.share(taken).map_err(given_back)
        })?;
        place.set(put_shared(shared, session)?);
        Ok(())
    })
}

/// Opens every live table, behind one handle. `options` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_open_shared(
    session: *mut varvite_session,
    options: *const varvite_open_options,
    shared: *mut *mut varvite_tables,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (place, session) = (Out::new(shared, "shared handle")?, self::session(session)?);
        place.set(put_shared(session.open_shared(&open_table(options)?)?, session)?);
        Ok(())
    })
}

/// The names of the tables, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_names(
    tables: *mut varvite_tables,
    names: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, names, |names| {
        let views = shared(tables)?.tables.views();
        names.fill(|arena| {
            views.iter().for_each(|it| arena.give(it.0));
            Ok(())
        })
    })
}

/// The content of the tables of these names at one moment, after the last update that stands: `views` is an array of
/// `count` that gets a handle for each. Waits for no writer. VARVITE_MISSING when there is no table of a name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_views(
    tables: *mut varvite_tables,
    names: *const *const c_char,
    count: usize,
    views: *mut *mut varvite_view,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        room(views, count, "views")?;
        let names = array(names, count, "names")?;
        let there = shared(tables)?.tables.views();
        let found = names
            .iter()
            .map(|it| Ok(there.get(text(*it, "name")?)?.clone()))
            .collect::<Outcome<Vec<_>>>()?;
        let mut handles = Vec::with_capacity(found.len());
        for view in found {
            match put::<varvite_view>(view) {
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
            // SAFETY: `room` saw that it is neither NULL nor unaligned, and the caller promises as many places as names.
            unsafe { views.copy_from_nonoverlapping(handles.as_ptr(), handles.len()) };
        }
        Ok(())
    })
}

/// As `varvite_table_lookup`, of table `name` after the last update that stands.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_lookup(
    tables: *mut varvite_tables,
    name: *const c_char,
    keys: *const varvite_bytes,
    count: usize,
    found: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, found, |found| {
        let (name, keys) = (text(name, "name")?, pieces(keys, count, "keys")?);
        let view = shared(tables)?.tables.view(name)?;
        look_up(found, |values| view.lookup_into(keys, values))
    })
}

/// Applies a batch to each of several tables, all of them or none, also through a crash. Waits while others write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_commit(
    tables: *mut varvite_tables,
    updates: *const varvite_named_update,
    count: usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let mut batches = Vec::with_capacity(count.min(1024));
        for update in array(updates, count, "updates")? {
            let mut batch = Batch::new();
            gather(&mut batch, array(update.operations, update.count, "operations")?)?;
            batches.push((text(update.name, "name")?, batch));
        }
        let batches: Vec<_> = batches.iter().map(|(name, batch)| (*name, batch)).collect();
        let (shared, _turn) = to_write(tables)?;
        Ok(shared.tables.commit(&batches)?)
    })
}

fn begin(
    (tables, transaction, error): (
        *mut varvite_tables,
        *mut *mut varvite_transaction,
        *mut varvite_error,
    ),
    waits: bool,
) -> c_int {
    call(error, || {
        let place = Out::new(transaction, "transaction")?;
        let (shared, turn) = if waits {
            to_write(tables)?
        } else {
            let shared = shared(tables)?;
            match shared.turns.try_take() {
                Ok(turn) => (shared, turn),
                Err(Refusal::Busy) => {
                    place.set(std::ptr::null_mut());
                    return Ok(());
                }
                Err(refusal) => return Err(refused(&refusal)),
            }
        };
        turn.begin();
        // Nobody else has them, so this waits for nobody.
        let owned = Owned { transaction: shared.tables.begin(), turn };
        place.set(put(Mutex::new(owned))?);
        Ok(())
    })
}

/// Begins a transaction, which reads what it wrote, as the only one who writes until `varvite_transaction_commit` or
/// `varvite_transaction_close`. Any thread may use it, one at a time. Waits while others write, as do the other calls on a
/// shared handle that say so. They wait for an open transaction too, whichever thread began it; when nothing was done
/// through that for as long as `varvite_tables_set_patience` says they are VARVITE_BUSY, because it may be the caller's
/// own, and have changed nothing. A callback whose call has a store in use does not wait: VARVITE_BUSY at once while others
/// write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_begin(
    tables: *mut varvite_tables,
    transaction: *mut *mut varvite_transaction,
    error: *mut varvite_error,
) -> c_int {
    begin((tables, transaction, error), true)
}

/// The same if nobody writes just now; else `transaction` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_try_begin(
    tables: *mut varvite_tables,
    transaction: *mut *mut varvite_transaction,
    error: *mut varvite_error,
) -> c_int {
    begin((tables, transaction, error), false)
}

/// How many milliseconds who waits for a transaction has patience while nothing is done through it: 10,000 unless it is
/// said otherwise, 0 for none at all, UINT64_MAX for as long as it takes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_set_patience(
    tables: *mut varvite_tables,
    milliseconds: u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        shared(tables)?.turns.set_patience(Duration::from_millis(milliseconds));
        Ok(())
    })
}

/// Works ahead on merges by up to `credits` bytes of entries; `left` is how much is left to do. Waits while others write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_work(
    tables: *mut varvite_tables,
    credits: u64,
    left: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(left, "answer")?;
        let (shared, _turn) = to_write(tables)?;
        place.set(shared.tables.work(credits)?);
        Ok(())
    })
}

/// Adds a table of the session, whose own handle is closed then; after an error it is open as before. VARVITE_INVALID when
/// there is one of its name, or it is of another session. Waits while others write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_add(
    tables: *mut varvite_tables,
    table: *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (shared, _turn) = to_write(tables)?;
        take_all(&[table], |mut taken| {
            let table = taken.pop().expect("one was given").table;
            shared.tables.add(table).map_err(given_back)
        })
    })
}

/// Takes table `name` out. Views that were taken keep what they have. Waits while others write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_remove(
    tables: *mut varvite_tables,
    name: *const c_char,
    table: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(table, "table")?);
        let (shared, _turn) = to_write(tables)?;
        place.set(put_table(shared.tables.remove(name)?)?);
        Ok(())
    })
}

/// Saves all of the tables, as they are between two updates, as the snapshot `name`. `label` may be NULL, `payload` too.
/// Waits while others write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_save_snapshot(
    tables: *mut varvite_tables,
    name: *const c_char,
    label: *const c_char,
    payload: *const varvite_bytes,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let name = text(name, "name")?;
        let label = if label.is_null() { "" } else { text(label, "label")? };
        let payload =
            if payload.is_null() { &[][..] } else { bytes(*one(payload, "payload")?, "payload")? };
        let (shared, _turn) = to_write(tables)?;
        shared.tables.with(|tables| {
            let tables: Vec<&varvite::Table> = tables.iter().collect();
            let content = SnapshotContent { label, payload, tables: &tables };
            Ok(shared.session.save_snapshot(name, content)?)
        })
    })
}

/// Closes a shared handle, and with its last transaction the tables. Live ones can be opened again. Calls that wait while
/// others write are VARVITE_CLOSED then; an open transaction goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_close(
    tables: *mut varvite_tables,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        take(tables)?.turns.close();
        Ok(())
    })
}

/// Adds operations to those of table `name`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_transaction_apply(
    transaction: *mut varvite_transaction,
    name: *const c_char,
    operations: *const varvite_operation,
    count: usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let name = text(name, "name")?;
        let mut batch = Batch::new();
        gather(&mut batch, array(operations, count, "operations")?)?;
        with(transaction, |it| {
            it.batch(name)?.append(&batch);
            Ok(())
        })
    })
}

/// As `varvite_table_lookup`, of table `name` with what the transaction wrote.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_transaction_lookup(
    transaction: *mut varvite_transaction,
    name: *const c_char,
    keys: *const varvite_bytes,
    count: usize,
    found: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, found, |found| {
        let (name, keys) = (text(name, "name")?, pieces(keys, count, "keys")?);
        with(transaction, |it| {
            found.fill(|arena| {
                arena.values = it.lookup(name, keys)?;
                arena.use_values();
                Ok(())
            })
        })
    })
}

/// Table `name` with what the transaction wrote so far; what it writes later is not in it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_transaction_view(
    transaction: *mut varvite_transaction,
    name: *const c_char,
    view: *mut *mut varvite_view,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(view, "view")?);
        place.set(put(with(transaction, |it| Ok(it.view(name)?))?)?);
        Ok(())
    })
}

/// Makes everything that the transaction wrote stand, all of it or nothing, also through a crash. The handle is closed then,
/// also after an error, which leaves the tables as they were before the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_transaction_commit(
    transaction: *mut varvite_transaction,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let owned = take(transaction)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        let Owned { transaction, turn } = owned;
        let _using = turn.using();
        Ok(transaction.commit()?)
    })
}

/// Drops what the transaction wrote, and closes its handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_transaction_close(
    transaction: *mut varvite_transaction,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(transaction).map(drop))
}

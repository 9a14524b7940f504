//! Tables behind one handle that threads share, and transactions over them.

use std::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use varvite::{Batch, Session, SnapshotContent, Tables, Transaction};

use super::lookup::look_up;
use super::options::{open_table, varvite_open_options};
use super::session::{put_table, session};
use super::update::{gather, read_tables, varvite_operation};
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, array, bytes, one, pieces, room, text};
use crate::handle::{get, may_wait, put, take};
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

/// Which thread began the transaction that is not over. To wait for itself would be for ever.
type Owner = Arc<Mutex<Option<ThreadId>>>;

fn set_owner(owner: &Owner, thread: Option<ThreadId>) {
    *owner.lock().unwrap_or_else(PoisonError::into_inner) = thread;
}

/// What a shared handle stands for.
#[derive(Clone)]
pub struct Shared {
    tables: Tables,
    session: Session,
    owner: Owner,
}

/// The engine's transaction, and whose it is.
pub struct Owned {
    /// There until it ends.
    transaction: Option<Transaction>,
    owner: Owner,
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Before the next one gets the tables, who sets it anew.
        set_owner(&self.owner, None);
    }
}

fn put_shared(tables: Tables, session: Session) -> Outcome<*mut varvite_tables> {
    put(Shared { tables, session, owner: Owner::default() })
}

/// A copy, so that who waits for a writer keeps nobody from closing the handle.
fn shared(tables: *const varvite_tables) -> Outcome<Shared> {
    let held = get(tables)?;
    let shared = held.read()?;
    Ok(shared.clone())
}

fn check_owner(shared: &Shared) -> Outcome {
    let owner = *shared.owner.lock().unwrap_or_else(PoisonError::into_inner);
    if owner == Some(std::thread::current().id()) {
        return Err(Fault::invalid(
            "this thread began a transaction on these tables, which would wait for itself: commit it or close it first",
        ));
    }
    Ok(())
}

/// The same for what waits for whoever writes.
fn to_write(tables: *const varvite_tables) -> Outcome<Shared> {
    let shared = self::shared(tables)?;
    if !may_wait() {
        return Err(Fault::Busy);
    }
    check_owner(&shared)?;
    Ok(shared)
}

fn with<T>(
    transaction: *const varvite_transaction,
    body: impl FnOnce(&mut Transaction) -> Outcome<T>,
) -> Outcome<T> {
    let held = get(transaction)?;
    let mut owned = held.write()?;
    let owned = owned.get_mut().unwrap_or_else(PoisonError::into_inner);
    let transaction = owned.transaction.as_mut();
    body(transaction.ok_or_else(|| Fault::closed("the transaction is over: begin another"))?)
}

/// Puts tables behind one handle that any number of threads may use at once: everybody reads, one at a time writes, and
/// readers never wait. The tables' own handles are closed then, also when one is of another session, which is
/// VARVITE_INVALID; two of one name are VARVITE_INVALID too, and stay open.
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
        let taken = array(tables, count, "tables")?.iter().map(|it| Ok(take(*it)?.table));
        let taken = taken.collect::<Outcome<Vec<_>>>()?;
        place.set(put_shared(session.share(taken)?, session)?);
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
        let shared = to_write(tables)?;
        let mut batches = Vec::with_capacity(count.min(1024));
        for update in array(updates, count, "updates")? {
            let mut batch = Batch::new();
            gather(&mut batch, array(update.operations, update.count, "operations")?)?;
            batches.push((text(update.name, "name")?, batch));
        }
        let batches: Vec<_> = batches.iter().map(|(name, batch)| (*name, batch)).collect();
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
        let shared = shared(tables)?;
        check_owner(&shared).or_else(|fault| if waits { Err(fault) } else { Ok(()) })?;
        let begun = if waits && may_wait() {
            Some(shared.tables.begin())
        } else {
            shared.tables.try_begin()
        };
        let Some(begun) = begun else {
            if waits {
                return Err(Fault::Busy);
            }
            place.set(std::ptr::null_mut());
            return Ok(());
        };
        set_owner(&shared.owner, Some(std::thread::current().id()));
        let owned = Owned { transaction: Some(begun), owner: shared.owner };
        place.set(put(Mutex::new(owned))?);
        Ok(())
    })
}

/// Begins a transaction, which reads what it wrote, as the only one who writes until `varvite_transaction_commit` or
/// `varvite_transaction_close`. Waits while others write; VARVITE_INVALID when the one who does is a transaction that this
/// thread began, VARVITE_BUSY in a callback whose call has a store in use.
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
        place.set(to_write(tables)?.tables.work(credits)?);
        Ok(())
    })
}

/// Adds a table of the session, whose own handle is closed then. VARVITE_INVALID when there is one of its name. Waits while
/// others write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_add(
    tables: *mut varvite_tables,
    table: *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let shared = to_write(tables)?;
        let held = get(table)?;
        let name = held.read()?.table.name().to_owned();
        // The engine drops a table that it refuses.
        if shared.tables.view(&name).is_ok() {
            return Err(Fault::invalid(format!("two tables are called \"{name}\"")));
        }
        Ok(shared.tables.add(take(table)?.table)?)
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
        place.set(put_table(to_write(tables)?.tables.remove(name)?)?);
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
        let shared = to_write(tables)?;
        shared.tables.with(|tables| {
            let tables: Vec<&varvite::Table> = tables.iter().collect();
            let content = SnapshotContent { label, payload, tables: &tables };
            Ok(shared.session.save_snapshot(name, content)?)
        })
    })
}

/// Closes a shared handle, and with its last transaction the tables. Live ones can be opened again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_tables_close(
    tables: *mut varvite_tables,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(tables).map(drop))
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
        let mut owned = take(transaction)?.into_inner().unwrap_or_else(PoisonError::into_inner);
        let transaction = owned.transaction.take();
        drop(owned);
        transaction.map_or(Ok(()), |it| Ok(it.commit()?))
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

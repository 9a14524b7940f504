//! Tables: what changes them, and what is asked of them beside lookups.

use std::ffi::{c_char, c_int};
use std::ops::Bound;

use varvite::{Batch, Table};

use super::session::{put_table, session};
use crate::arena::{answer, varvite_arena};
use crate::args::{Out, array, bound, bytes, text, varvite_bound};
use crate::handle::{Writing, get, put, take};
use crate::status::{Fault, Outcome, call, varvite_error};
use crate::types::{varvite_bytes, varvite_session, varvite_table, varvite_value, varvite_view};

/// Binds the key to the value, whatever was there.
pub const VARVITE_INSERT: u32 = 0;
/// Unbinds the key.
pub const VARVITE_DELETE: u32 = 1;
/// Joins the value to what the key is bound to, by the table's merge operator.
pub const VARVITE_UPSERT: u32 = 2;
/// Binds the key to the value `held`, without a copy of it.
pub const VARVITE_INSERT_VALUE: u32 = 3;

/// Unbinds every key from `key` on and before `value`; keys that later operations bind in it stay.
pub const VARVITE_DELETE_RANGE: u32 = 4;
/// Unbinds every key that begins with `key`, as VARVITE_DELETE_RANGE does.
pub const VARVITE_DELETE_PREFIX: u32 = 5;

/// One operation of a batch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_operation {
    /// VARVITE_INSERT, VARVITE_DELETE, VARVITE_UPSERT, VARVITE_INSERT_VALUE, VARVITE_DELETE_RANGE or
    /// VARVITE_DELETE_PREFIX.
    pub kind: u32,
    /// The key, the first one of a range, or the prefix.
    pub key: varvite_bytes,
    /// The value to insert or to upsert, or the key before which a range ends; else nothing is read here.
    pub value: varvite_bytes,
    /// The value of VARVITE_INSERT_VALUE; else nothing is read here.
    pub held: *mut varvite_value,
}

/// A batch for one of several tables.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_table_update {
    /// Which table; each only once.
    pub table: *mut varvite_table,
    /// The operations, in order.
    pub operations: *const varvite_operation,
    /// How many there are.
    pub count: usize,
}

/// Sizes and debts of a table at one moment.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct varvite_table_stats {
    /// Bound keys: an estimate.
    pub logical_entries: u64,
    /// Fewest keys that may be bound.
    pub logical_entries_min: u64,
    /// Most keys that may be bound.
    pub logical_entries_max: u64,
    /// Entries of every kind in buffers and runs: exact.
    pub physical_entries: u64,
    /// Bytes of all finished segment files.
    pub disk_bytes: u64,
    /// Blob files that its segments refer to.
    pub blob_files: u64,
    /// Bytes of these files.
    pub blob_disk_bytes: u64,
    /// Bytes of entries in write buffers.
    pub buffer_bytes: u64,
    /// Memory of the filters that are loaded.
    pub filter_memory_bytes: u64,
    /// Memory of the indexes that are loaded.
    pub index_memory_bytes: u64,
    /// Bytes of entries that merges have left to read.
    pub debt_bytes: u64,
    /// Of these, what is left of a pending union.
    pub union_debt_bytes: u64,
    /// Levels that have anything.
    pub levels: u64,
}

/// A table, and the batch that its updates use again.
pub struct WritableTable {
    /// The table.
    pub table: Table,
    batch: Batch,
}

/// A batch of more operations than this is given back after its update, so that no handle keeps much.
const OPERATIONS_KEPT: usize = 1 << 16;

impl WritableTable {
    /// With nothing in the batch.
    pub fn new(table: Table) -> WritableTable {
        WritableTable { table, batch: Batch::new() }
    }

    fn gather(&mut self, operations: &[varvite_operation]) -> Outcome {
        self.batch.clear();
        gather(&mut self.batch, operations)
    }

    /// Lets go of what the batch held.
    fn done(&mut self) {
        if self.batch.len() > OPERATIONS_KEPT {
            self.batch = Batch::new();
        } else {
            self.batch.clear();
        }
    }
}

/// Adds operations to a batch.
pub(crate) fn gather(batch: &mut Batch, operations: &[varvite_operation]) -> Outcome {
    for operation in operations {
        let key = bytes(operation.key, "key")?;
        match operation.kind {
            VARVITE_INSERT => batch.insert(key, bytes(operation.value, "value")?),
            VARVITE_DELETE => batch.delete(key),
            VARVITE_UPSERT => batch.upsert(key, bytes(operation.value, "value")?),
            VARVITE_INSERT_VALUE => {
                let held = get(operation.held)?;
                batch.insert_value(key, &*held.read()?)
            }
            VARVITE_DELETE_RANGE => {
                let before = bytes(operation.value, "value")?;
                batch.delete_range(Bound::Included(key), Bound::Excluded(before))
            }
            VARVITE_DELETE_PREFIX => batch.delete_prefix(key),
            other => {
                return Err(Fault::invalid(format!(
                    "the kind of an operation is {other}: it can be 0 to 5"
                )));
            }
        };
    }
    Ok(())
}

/// Applies the operations in order, all or none of them. After an error the table is as it was, and the same
/// update may be tried again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_apply(
    table: *mut varvite_table,
    operations: *const varvite_operation,
    count: usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let operations = array(operations, count, "operations")?;
        let held = get(table)?;
        let mut table = held.write()?;
        let table = &mut *table;
        let outcome = table.gather(operations);
        let outcome = outcome.and_then(|()| Ok(table.table.update(&table.batch)?));
        table.done();
        outcome
    })
}

/// Applies a batch to each of several tables, all of them or none, also through a crash.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_session_apply(
    session: *mut varvite_session,
    updates: *const varvite_table_update,
    count: usize,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let session = self::session(session)?;
        let given = array(updates, count, "updates")?;
        // Always in the order of the handles, so that two threads do not wait for each other.
        let mut order: Vec<usize> = (0..given.len()).collect();
        order.sort_by_key(|it| given[*it].table.addr());
        if order.windows(2).any(|it| given[it[0]].table == given[it[1]].table) {
            return Err(Fault::invalid("a table is given twice: join its operations in one batch"));
        }
        let held = order.iter().map(|it| get(given[*it].table)).collect::<Outcome<Vec<_>>>()?;
        let mut tables = held.iter().map(|it| it.write()).collect::<Outcome<Vec<Writing<_>>>>()?;
        let mut outcome = Ok(());
        for (table, index) in tables.iter_mut().zip(&order) {
            let update = &given[*index];
            outcome = outcome
                .and_then(|()| table.gather(array(update.operations, update.count, "operations")?));
        }
        let outcome = outcome.and_then(|()| {
            // The session applies them in the order given.
            let mut updates: Vec<_> = tables.iter_mut().map(|it| &mut **it).zip(&order).collect();
            updates.sort_by_key(|(_, index)| **index);
            let mut updates: Vec<(&mut Table, &Batch)> =
                updates.into_iter().map(|(it, _)| (&mut it.table, &it.batch)).collect();
            Ok(session.update(&mut updates)?)
        });
        for table in &mut tables {
            table.done();
        }
        outcome
    })
}

/// Reads several tables at once. One that is given twice is locked once, and all in the order of their handles.
pub(crate) fn read_tables<T>(
    tables: *const *mut varvite_table,
    count: usize,
    body: impl FnOnce(&[&Table]) -> Outcome<T>,
) -> Outcome<T> {
    let given = array(tables, count, "tables")?;
    let mut distinct = given.to_vec();
    distinct.sort_by_key(|it| it.addr());
    distinct.dedup();
    let held = distinct.iter().map(|it| get(*it)).collect::<Outcome<Vec<_>>>()?;
    let guards = held.iter().map(|it| it.read()).collect::<Outcome<Vec<_>>>()?;
    let tables: Vec<&Table> = given
        .iter()
        .map(|it| {
            let index = distinct.binary_search_by_key(&it.addr(), |it| it.addr());
            &guards[index.expect("each is among them")].table
        })
        .collect();
    body(&tables)
}

/// Unbinds every key between the bounds, all or none of them. NULL is no bound.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_delete_range(
    table: *mut varvite_table,
    lower: *const varvite_bound,
    upper: *const varvite_bound,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (lower, upper) = (bound(lower)?, bound(upper)?);
        let held = get(table)?;
        held.write()?.table.delete_range(lower, upper)?;
        Ok(())
    })
}

/// The table's content of this moment, for any number of readers. O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_view(
    table: *mut varvite_table,
    view: *mut *mut varvite_view,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(view, "view")?;
        let held = get(table)?;
        let view = held.read()?.table.view();
        place.set(put(view)?);
        Ok(())
    })
}

/// A table called `name` with the same content, independent from now on. O(1).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_duplicate(
    table: *mut varvite_table,
    name: *const c_char,
    duplicate: *mut *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let (name, place) = (text(name, "name")?, Out::new(duplicate, "duplicate")?);
        let held = get(table)?;
        let duplicate = held.read()?.table.duplicate(name)?;
        place.set(put_table(duplicate)?);
        Ok(())
    })
}

/// The table's name: one item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_name(
    table: *mut varvite_table,
    name: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, name, |name| {
        let held = get(table)?;
        let table = held.read()?;
        name.fill(|arena| {
            arena.give(table.table.name());
            Ok(())
        })
    })
}

/// The name of the table's merge operator: one item, NULL when it has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_operator_name(
    table: *mut varvite_table,
    name: *mut varvite_arena,
    error: *mut varvite_error,
) -> c_int {
    answer(error, name, |name| {
        let held = get(table)?;
        let table = held.read()?;
        name.fill(|arena| {
            let operator = table.table.options().operator.as_ref();
            arena.give_optional(operator.map(|it| it.name().as_bytes().to_vec()));
            Ok(())
        })
    })
}

/// Whether the table's updates go to the session's log: 0 or 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_is_live(
    table: *mut varvite_table,
    is_live: *mut c_int,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(is_live, "answer")?;
        let held = get(table)?;
        place.set(c_int::from(held.read()?.table.is_live()));
        Ok(())
    })
}

/// Works ahead on merges by up to `credits` bytes of entries; `left` is how much is left to do.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_work(
    table: *mut varvite_table,
    credits: u64,
    left: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(left, "answer")?;
        let held = get(table)?;
        place.set(held.write()?.table.work(credits)?);
        Ok(())
    })
}

/// The merging that the last update or `varvite_table_work` did, in bytes of entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_last_work(
    table: *mut varvite_table,
    work: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(work, "answer")?;
        let held = get(table)?;
        place.set(held.read()?.table.last_work());
        Ok(())
    })
}

/// At most how many bytes of entries are left to merge of the union that the table is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_remaining_union_debt(
    table: *mut varvite_table,
    debt: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(debt, "answer")?;
        let held = get(table)?;
        place.set(held.read()?.table.remaining_union_debt());
        Ok(())
    })
}

/// Merges at least `credits` bytes of entries of the union that the table is; `left` is how much is left to do, 0
/// when the union is complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_supply_union_credits(
    table: *mut varvite_table,
    credits: u64,
    left: *mut u64,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(left, "answer")?;
        let held = get(table)?;
        place.set(held.write()?.table.supply_union_credits(credits)?);
        Ok(())
    })
}

/// Sizes and debts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_get_stats(
    table: *mut varvite_table,
    stats: *mut varvite_table_stats,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let place = Out::new(stats, "statistics")?;
        let held = get(table)?;
        let from = held.read()?.table.stats()?;
        place.set(varvite_table_stats {
            logical_entries: from.logical_entries,
            logical_entries_min: from.logical_entries_min,
            logical_entries_max: from.logical_entries_max,
            physical_entries: from.physical_entries,
            disk_bytes: from.disk_bytes,
            blob_files: from.blob_files,
            blob_disk_bytes: from.blob_disk_bytes,
            buffer_bytes: from.buffer_bytes,
            filter_memory_bytes: from.filter_memory_bytes,
            index_memory_bytes: from.index_memory_bytes,
            debt_bytes: from.debt_bytes,
            union_debt_bytes: from.union_debt_bytes,
            levels: from.levels.len() as u64,
        });
        Ok(())
    })
}

/// Closes a table. A live one can be opened again; of another, what no snapshot or duplicate has is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_table_close(
    table: *mut varvite_table,
    error: *mut varvite_error,
) -> c_int {
    call(error, || match take(table)?.table.close() {
        // Nothing is left to be done for a table whose session ended before it.
        Err(error) if error.kind() == varvite::Kind::Closed => Ok(()),
        closed => Ok(closed?),
    })
}

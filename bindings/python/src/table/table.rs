//! Tables.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use varvite::Kind as ErrorKind;

use crate::answer::{LevelStats, MergeStats, TableStats};
use crate::callback::Callbacks;
use crate::fault::{Outcome, call};
use crate::held::{Held, Reading, ToRead, ToWrite, both};
use crate::input::{Flat, bytes, flat, range, slice};
use crate::lock::holding;
use crate::packed::{Entries, Packed, Values};
use crate::table::batch::{Batch, Kind, gather, pairs};
use crate::table::cursor::{Cursor, Items};
use crate::table::stream::Value;
use crate::table::view::{Between, View, cursor, entries, find, or_default, or_key_error};

/// A sorted map from bytes to bytes, with one writer at a time.
#[pyclass(frozen, mapping, module = "varvite")]
pub struct Table(pub Held<varvite::Table>, pub Py<Callbacks>);

impl Table {
    pub fn new(table: varvite::Table, callbacks: Py<Callbacks>) -> Table {
        Table(Held::new("table", table), callbacks)
    }

    fn get_bytes(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        let bytes = bytes(key, "key")?;
        call(key.py(), || Ok(self.0.read()?.get(&bytes)?))
    }

    fn new_view(&self) -> Outcome<varvite::View> {
        Ok(self.0.read()?.view())
    }

    fn new_cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<varvite::Cursor> {
        let range = range(start, stop)?;
        call(py, || cursor(&self.new_view()?, &range))
    }

    fn new_items(&self, py: Python<'_>, between: Between, keys_only: bool) -> PyResult<Items> {
        let source = call(py, || Ok(between.of(&self.new_view()?, keys_only)))?;
        Ok(Items::new(source, self.1.clone_ref(py)))
    }

    fn apply(&self, py: Python<'_>, kind: Kind, keys: Flat, values: Flat) -> PyResult<()> {
        call(py, || {
            let mut batch = varvite::Batch::new();
            gather(&mut batch, kind, &keys, &values);
            Ok(self.0.write()?.update(&batch)?)
        })
    }
}

/// Locks tables in the order of their addresses, so that two calls do not wait for each other; one that is given twice
/// is locked once.
pub fn read_tables<T>(
    given: &[&Table],
    body: impl FnOnce(&[&varvite::Table]) -> Outcome<T>,
) -> Outcome<T> {
    let mut distinct = given.to_vec();
    distinct.sort_by_key(|it| std::ptr::from_ref(*it).addr());
    distinct.dedup_by_key(|it| std::ptr::from_ref(*it).addr());
    // Whoever has read one already holds up who writes to it.
    let guards =
        holding(|| distinct.iter().map(|it| it.0.read()).collect::<Outcome<Vec<Reading<_>>>>())?;
    let tables: Vec<&varvite::Table> = given
        .iter()
        .map(|table| {
            let index = distinct.iter().position(|it| std::ptr::eq(*it, *table));
            &*guards[index.expect("each is among them")]
        })
        .collect();
    body(&tables)
}

#[pymethods]
impl Table {
    /// The value of `key`, or `default`. Several keys are cheaper together: `lookup`.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(or_default(py, self.get_bytes(key)?, default))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        or_key_error(key, self.get_bytes(key)?)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get_bytes(key)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.new_items(py, Between::default(), true)
    }

    /// The values of many keys, in their order; all page reads are in flight together.
    fn lookup(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Values> {
        let keys = flat(keys, "key")?;
        call(py, || {
            let table = self.0.read()?;
            let found = Packed::looked_up(|values| table.lookup_into(&keys.pieces(), values))?;
            Ok(Values::new(found))
        })
    }

    /// As `lookup`, without reading values that are in blob files.
    fn find(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Value>>> {
        let keys = flat(keys, "key")?;
        call(py, || find(&self.new_view()?, &keys))
    }

    /// All entries from `start` on and before `stop`, in memory at once.
    #[pyo3(signature = (start = None, stop = None))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Entries> {
        let range = range(start, stop)?;
        let (keys, values) = call(py, || entries(&self.new_view()?, &range))?;
        Entries::new(py, keys, values)
    }

    /// An iterator over the entries from `start` on and before `stop`, or over those whose keys begin with `prefix`, as
    /// they are now; `reversed` goes from the other end.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Items> {
        self.new_items(py, Between::given(py, start, stop, prefix)?, false)
    }

    /// The same of the keys alone; values are not read.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Items> {
        self.new_items(py, Between::given(py, start, stop, prefix)?, true)
    }

    /// A cursor before the first key from `start` on and before `stop`.
    #[pyo3(signature = (start = None, stop = None))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Cursor> {
        Ok(Cursor::new(self.new_cursor(py, start, stop)?, self.1.clone_ref(py)))
    }

    /// The content of this moment, for any number of readers. O(1).
    fn view(&self, py: Python<'_>) -> PyResult<View> {
        let view = call(py, || self.new_view())?;
        Ok(View(Held::new("view", view), self.1.clone_ref(py)))
    }

    /// A table called `name` with the same content, independent from now on. O(1).
    fn duplicate(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = call(py, || Ok(self.0.read()?.duplicate(name)?))?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// Applies a batch, all of it or nothing. After an error the table is as it was.
    fn update(&self, py: Python<'_>, batch: PyRef<'_, Batch>) -> PyResult<()> {
        let batch = &*batch;
        call(py, || {
            let (mut table, batch) = both(&ToWrite(&self.0), &ToRead(&batch.0))?;
            Ok(table.update(&batch)?)
        })
    }

    /// Binds each key to the value of the same place, in one batch.
    fn insert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = pairs(keys, values)?;
        self.apply(py, Kind::Insert, keys, values)
    }

    /// Unbinds each key, in one batch.
    fn delete(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        self.apply(py, Kind::Delete, flat(keys, "key")?, Flat::default())
    }

    /// Joins to each key the value of the same place by the table's merge operator, in one batch.
    fn upsert(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = pairs(keys, values)?;
        self.apply(py, Kind::Upsert, keys, values)
    }

    /// Unbinds every key from `start` on and before `stop`, all or none of them.
    #[pyo3(signature = (start = None, stop = None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (start, stop) = range(start, stop)?;
        call(py, || Ok(self.0.write()?.delete_range(slice(&start), slice(&stop))?))
    }

    /// Its name.
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        call(py, || Ok(self.0.read()?.name().to_owned()))
    }

    /// The name of its merge operator.
    #[getter]
    fn operator(&self, py: Python<'_>) -> PyResult<Option<String>> {
        call(py, || {
            let table = self.0.read()?;
            Ok(table.options().operator.as_ref().map(|it| it.name().to_owned()))
        })
    }

    /// Whether its updates go to the session's log.
    #[getter]
    fn is_live(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || Ok(self.0.read()?.is_live()))
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Works ahead on merges by up to `credits` bytes of entries; gives how much is left to do.
    fn work(&self, py: Python<'_>, credits: u64) -> PyResult<u64> {
        call(py, || Ok(self.0.write()?.work(credits)?))
    }

    /// The merging that the last update or `work` did, in bytes of entries.
    #[getter]
    fn last_work(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || Ok(self.0.read()?.last_work()))
    }

    /// At most how many bytes of entries are left to merge of the union that the table is.
    #[getter]
    fn remaining_union_debt(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || Ok(self.0.read()?.remaining_union_debt()))
    }

    /// Merges at least `credits` bytes of entries of the union that the table is; gives how much is left to do, 0 when
    /// the union is complete.
    fn supply_union_credits(&self, py: Python<'_>, credits: u64) -> PyResult<u64> {
        call(py, || Ok(self.0.write()?.supply_union_credits(credits)?))
    }

    /// Levels, merges, sizes and debts.
    fn stats(&self, py: Python<'_>) -> PyResult<TableStats> {
        call(py, || Ok(tell(self.0.read()?.stats()?)))
    }

    /// Closes it. A live one can be opened again; of another, what no snapshot or duplicate has is gone.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || match self.0.take()?.map(varvite::Table::close) {
            // Nothing is left to be done for a table whose session ended before it.
            Some(Err(error)) if error.kind() != ErrorKind::Closed => Err(error.into()),
            _ => Ok(()),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.1)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

fn tell(from: varvite::TableStats) -> TableStats {
    TableStats {
        name: from.name,
        levels: from
            .levels
            .into_iter()
            .map(|it| LevelStats {
                runs: it.runs,
                segments: it.segments,
                entries: it.entries,
                disk_bytes: it.disk_bytes,
                filter_bytes: it.filter_bytes,
                is_last: it.is_last,
            })
            .collect(),
        merges: from
            .merges
            .into_iter()
            .map(|it| MergeStats {
                level: it.level,
                is_union: it.is_union,
                spent_bytes: it.spent_bytes,
                debt_bytes: it.debt_bytes,
            })
            .collect(),
        debt_bytes: from.debt_bytes,
        union_debt_bytes: from.union_debt_bytes,
        physical_entries: from.physical_entries,
        disk_bytes: from.disk_bytes,
        blob_files: from.blob_files,
        blob_disk_bytes: from.blob_disk_bytes,
        blob_bytes: from.blob_bytes,
        logical_entries: from.logical_entries,
        logical_entries_min: from.logical_entries_min,
        logical_entries_max: from.logical_entries_max,
        buffer_bytes: from.buffer_bytes,
        filter_memory_bytes: from.filter_memory_bytes,
        index_memory_bytes: from.index_memory_bytes,
    }
}

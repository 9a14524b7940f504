//! Tables behind one handle that threads share, and transactions over them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use varvite::{Error, Kind as ErrorKind, SnapshotContent};

use crate::callback::Callbacks;
use crate::fault::{Fault, Outcome, call, may_not_wait};
use crate::held::Held;
use crate::input::{Flat, bytes, flat};
use crate::packed::{Packed, Values};
use crate::table::batch::{Batch, Kind, gather, pairs};
use crate::table::table::Table;
use crate::table::view::{View, or_default};

/// Which thread began the transaction that is not over. To wait for itself would be for ever.
type Owner = Arc<Mutex<Option<ThreadId>>>;

fn set_owner(owner: &Owner, thread: Option<ThreadId>) {
    *owner.lock().unwrap_or_else(PoisonError::into_inner) = thread;
}

struct Shared {
    tables: varvite::Tables,
    session: varvite::Session,
    owner: Owner,
}

/// Tables of a session behind one handle: any number of threads read, one at a time writes, and readers never wait.
#[pyclass(frozen, module = "varvite")]
pub struct Tables(Held<Shared>, Py<Callbacks>);

impl Tables {
    pub fn new(
        tables: varvite::Tables,
        session: varvite::Session,
        callbacks: Py<Callbacks>,
    ) -> Tables {
        let shared = Shared { tables, session, owner: Owner::default() };
        Tables(Held::new("shared handle", shared), callbacks)
    }

    /// The handle, for calls that wait for no writer.
    fn tables(&self) -> Outcome<varvite::Tables> {
        Ok(self.0.read()?.tables.clone())
    }

    /// The same for calls that do, and must not keep others from closing it meanwhile.
    fn to_write(&self) -> Outcome<varvite::Tables> {
        if may_not_wait() {
            return Err(busy());
        }
        self.check_owner()?;
        self.tables()
    }

    fn check_owner(&self) -> Outcome {
        let shared = self.0.read()?;
        let owner = *shared.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner == Some(std::thread::current().id()) {
            return Err(Fault::invalid(
                "this thread began a transaction on these tables, which would wait for itself: commit it or roll it back first",
            ));
        }
        Ok(())
    }

    fn begun(&self, transaction: varvite::Transaction) -> Outcome<Owned> {
        // It may have been closed while this waited.
        let owner = Arc::clone(&self.0.read()?.owner);
        set_owner(&owner, Some(std::thread::current().id()));
        Ok(Owned { transaction: Some(transaction), owner })
    }

    fn transaction(&self, py: Python<'_>, owned: Owned) -> Transaction {
        Transaction(Held::new("transaction", Mutex::new(owned)), self.1.clone_ref(py))
    }

    fn new_view(&self, py: Python<'_>, view: varvite::View) -> View {
        View(Held::new("view", view), self.1.clone_ref(py))
    }
}

#[cold]
fn busy() -> Fault {
    Fault::Engine(Error::new(
        ErrorKind::Locked,
        "a callback of a call that has a store in use would wait for whoever writes to these tables: return first",
    ))
}

#[pymethods]
impl Tables {
    /// The names of the tables, in order.
    #[getter]
    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || Ok(self.tables()?.views().iter().map(|it| it.0.to_owned()).collect()))
    }

    /// The content of every table, by name, all after the same update. O(1).
    fn views<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let views = call(py, || Ok(self.tables()?.views()))?;
        let told = PyDict::new(py);
        for (name, view) in views.iter() {
            told.set_item(name, Bound::new(py, self.new_view(py, view.clone()))?)?;
        }
        Ok(told)
    }

    /// The content of one table after the last update that stands. O(1).
    fn view(&self, py: Python<'_>, name: &str) -> PyResult<View> {
        let view = call(py, || Ok(self.tables()?.view(name)?))?;
        Ok(self.new_view(py, view))
    }

    /// The value of `key` in table `name`, or `default`.
    #[pyo3(signature = (name, key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = bytes(key, "key")?;
        let found = call(py, || Ok(self.tables()?.get(name, &key)?))?;
        Ok(or_default(py, found, default))
    }

    /// The values of many keys of table `name`, in their order.
    fn lookup(&self, py: Python<'_>, name: &str, keys: &Bound<'_, PyAny>) -> PyResult<Values> {
        let keys = flat(keys, "key")?;
        call(py, || {
            let view = self.tables()?.view(name)?;
            let found = Packed::looked_up(|values| view.lookup_into(&keys.pieces(), values))?;
            Ok(Values::new(found))
        })
    }

    /// Applies to each table the batch under its name, all of them or none, also through a crash. Waits while others write.
    fn commit(&self, py: Python<'_>, changes: HashMap<String, PyRef<'_, Batch>>) -> PyResult<()> {
        let changes: Vec<(&str, &Batch)> =
            changes.iter().map(|(name, batch)| (name.as_str(), &**batch)).collect();
        call(py, || {
            let tables = self.to_write()?;
            let batches = changes
                .iter()
                .map(|(name, batch)| Ok((*name, batch.0.read()?.clone())))
                .collect::<Outcome<Vec<_>>>()?;
            let batches: Vec<_> = batches.iter().map(|(name, batch)| (*name, batch)).collect();
            Ok(tables.commit(&batches)?)
        })
    }

    /// Begins a transaction, which reads what it wrote, as the only one who writes until it ends. Waits while others
    /// write. In a `with` statement it is committed at the end, and rolled back by an exception.
    fn begin(&self, py: Python<'_>) -> PyResult<Transaction> {
        let owned = call(py, || {
            self.check_owner()?;
            let tables = self.tables()?;
            let transaction =
                if may_not_wait() { tables.try_begin().ok_or_else(busy)? } else { tables.begin() };
            self.begun(transaction)
        })?;
        Ok(self.transaction(py, owned))
    }

    /// The same if nobody writes just now, or `None`.
    fn try_begin(&self, py: Python<'_>) -> PyResult<Option<Transaction>> {
        let owned = call(py, || {
            let transaction = self.tables()?.try_begin();
            transaction.map(|it| self.begun(it)).transpose()
        })?;
        Ok(owned.map(|it| self.transaction(py, it)))
    }

    /// Works ahead on merges by up to `credits` bytes of entries; how much is left to do. Waits while others write.
    fn work(&self, py: Python<'_>, credits: u64) -> PyResult<u64> {
        call(py, || Ok(self.to_write()?.work(credits)?))
    }

    /// Adds a table, whose own handle is closed then.
    fn add(&self, py: Python<'_>, table: PyRef<'_, Table>) -> PyResult<()> {
        let table = &*table;
        call(py, || {
            let tables = self.to_write()?;
            let name = table.0.read()?.name().to_owned();
            // The engine drops a table that it refuses.
            if tables.view(&name).is_ok() {
                return Err(Fault::invalid(format!("two tables are called \"{name}\"")));
            }
            let taken = table.0.take()?.ok_or_else(|| Fault::closed("table"))?;
            Ok(tables.add(taken)?)
        })
    }

    /// Takes table `name` out. Views that were taken keep what they have.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = call(py, || Ok(self.to_write()?.remove(name)?))?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// Saves the tables, as they are between two updates, as the snapshot `name`, whole or not at all.
    #[pyo3(signature = (name, *, label = "", payload = None))]
    fn save_snapshot(
        &self,
        py: Python<'_>,
        name: &str,
        label: &str,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let payload = payload.map(|it| bytes(it, "payload")).transpose()?.unwrap_or_default();
        call(py, || {
            let tables = self.to_write()?;
            let session = self.0.read()?.session.clone();
            tables.with(|tables| {
                let tables: Vec<&varvite::Table> = tables.iter().collect();
                let content = SnapshotContent { label, payload: &payload, tables: &tables };
                Ok(session.save_snapshot(name, content)?)
            })
        })
    }

    /// Whether it was closed.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Closes it, and with the last transaction its tables. Live ones can be opened again.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.take().map(drop))
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

/// The engine's transaction, and whose it is.
struct Owned {
    /// There until it ends.
    transaction: Option<varvite::Transaction>,
    owner: Owner,
}

impl Owned {
    fn transaction(&mut self) -> Outcome<&mut varvite::Transaction> {
        self.transaction.as_mut().ok_or_else(|| Fault::closed("transaction"))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // Before the next one gets the tables, who sets it anew.
        set_owner(&self.owner, None);
    }
}

/// An update in the making of tables behind a shared handle, by the only one who writes: it reads what it wrote, and
/// stands with `commit`, all of it or nothing. Closed or forgotten without, it leaves the tables as they were.
#[pyclass(frozen, module = "varvite")]
pub struct Transaction(Held<Mutex<Owned>>, Py<Callbacks>);

impl Transaction {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::Transaction) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        call(py, || {
            let mut held = self.0.write()?;
            body(held.get_mut().unwrap_or_else(PoisonError::into_inner).transaction()?)
        })
    }

    fn apply(
        &self,
        py: Python<'_>,
        name: &str,
        kind: Kind,
        keys: Flat,
        values: Flat,
    ) -> PyResult<()> {
        self.with(py, |it| {
            gather(it.batch(name)?, kind, &keys, &values);
            Ok(())
        })
    }
}

#[pymethods]
impl Transaction {
    /// Adds the operations of a batch to those of table `name`.
    fn update(&self, py: Python<'_>, name: &str, batch: PyRef<'_, Batch>) -> PyResult<()> {
        let batch = &*batch;
        self.with(py, |it| {
            let batch = batch.0.read()?.clone();
            it.batch(name)?.append(&batch);
            Ok(())
        })
    }

    /// Binds each key of table `name` to the value of the same place.
    fn insert(
        &self,
        py: Python<'_>,
        name: &str,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = pairs(keys, values)?;
        self.apply(py, name, Kind::Insert, keys, values)
    }

    /// Unbinds each key of table `name`.
    fn delete(&self, py: Python<'_>, name: &str, keys: &Bound<'_, PyAny>) -> PyResult<()> {
        self.apply(py, name, Kind::Delete, flat(keys, "key")?, Flat::default())
    }

    /// Joins to each key of table `name` the value of the same place, by the table's merge operator.
    fn upsert(
        &self,
        py: Python<'_>,
        name: &str,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = pairs(keys, values)?;
        self.apply(py, name, Kind::Upsert, keys, values)
    }

    /// The value of `key` in table `name`, with what the transaction wrote, or `default`.
    #[pyo3(signature = (name, key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = bytes(key, "key")?;
        let found = self.with(py, |it| Ok(it.get(name, &key)?))?;
        Ok(or_default(py, found, default))
    }

    /// The values of many keys of table `name`, with what the transaction wrote.
    fn lookup(&self, py: Python<'_>, name: &str, keys: &Bound<'_, PyAny>) -> PyResult<Values> {
        let keys = flat(keys, "key")?;
        self.with(py, |it| Ok(Values::new(Packed::of(&it.lookup(name, &keys.pieces())?))))
    }

    /// Table `name` with what the transaction wrote so far; what it writes later is not in it.
    fn view(&self, py: Python<'_>, name: &str) -> PyResult<View> {
        let view = self.with(py, |it| Ok(it.view(name)?))?;
        Ok(View(Held::new("view", view), self.1.clone_ref(py)))
    }

    /// Makes everything it wrote stand, all of it or nothing. It is over then, also after an error.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || {
            let owned = self.0.take()?.ok_or_else(|| Fault::closed("transaction"))?;
            let mut owned = owned.into_inner().unwrap_or_else(PoisonError::into_inner);
            let transaction = owned.transaction.take();
            drop(owned);
            transaction.map_or(Ok(()), |it| Ok(it.commit()?))
        })
    }

    /// Drops what it wrote; once more does nothing.
    fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.take().map(drop))
    }

    /// The same.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.rollback(py)
    }

    /// Whether it is over.
    #[getter]
    fn closed(&self) -> bool {
        self.0.is_closed()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.1)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Commits, unless an exception goes through it or it is over.
    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let raised = exception.get_item(0).is_ok_and(|it| !it.is_none());
        if raised || self.closed() { self.rollback(py) } else { self.commit(py) }
    }
}

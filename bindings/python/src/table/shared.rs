//! Tables behind one handle that threads share, and transactions over them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use varvite::{Error, Kind as ErrorKind, NotShared, SnapshotContent};
use varvite_turns::{Refusal, Turn, Turns};

use crate::callback::Callbacks;
use crate::fault::{Fault, Outcome, call, invalid, may_not_wait};
use crate::held::Held;
use crate::input::{Flat, bytes, flat};
use crate::lock::{holding, interrupted};
use crate::packed::{Packed, Values};
use crate::table::batch::{Batch, Kind, gather, pairs};
use crate::table::table::Table;
use crate::table::view::{View, or_default};

struct Shared {
    tables: varvite::Tables,
    session: varvite::Session,
    turns: Arc<Turns>,
}

/// Tables of a session behind one handle: any number of threads read, one at a time writes, and readers never wait.
#[pyclass(frozen, module = "varvite")]
pub struct Tables(Held<Shared>, Py<Callbacks>);

/// Tables that the engine did not take, to be given back.
pub fn given_back(refused: NotShared) -> (Fault, Vec<varvite::Table>) {
    (Fault::Engine(refused.error), refused.tables)
}

impl Tables {
    pub fn new(
        tables: varvite::Tables,
        session: varvite::Session,
        callbacks: Py<Callbacks>,
    ) -> Tables {
        let shared = Shared { tables, session, turns: Arc::default() };
        Tables(Held::new("shared handle", shared), callbacks)
    }

    /// The handle, for calls that wait for no writer.
    fn tables(&self) -> Outcome<varvite::Tables> {
        Ok(self.0.read()?.tables.clone())
    }

    fn turns(&self) -> Outcome<Arc<Turns>> {
        Ok(Arc::clone(&self.0.read()?.turns))
    }

    /// The handle for calls that wait for whoever writes, and must not keep others from closing it meanwhile; and the turn
    /// to write. Where this thread may not wait, it has the turn if nobody else does.
    fn to_write(&self) -> Outcome<(varvite::Tables, Turn)> {
        let (tables, turns) = (self.tables()?, self.turns()?);
        let turn = if may_not_wait() { turns.try_take() } else { turns.take(interrupted) };
        Ok((tables, turn.map_err(refused)?))
    }

    fn begun((tables, turn): (varvite::Tables, Turn)) -> Owned {
        turn.begin();
        // Nobody else has them, so this waits for nobody.
        Owned { transaction: tables.begin(), turn }
    }

    fn transaction(&self, py: Python<'_>, owned: Owned) -> Transaction {
        Transaction(Held::new("transaction", Mutex::new(owned)), self.1.clone_ref(py))
    }

    fn new_view(&self, py: Python<'_>, view: varvite::View) -> View {
        View(Held::new("view", view), self.1.clone_ref(py))
    }
}

#[cold]
fn refused(refusal: Refusal<Fault>) -> Fault {
    let why = match refusal {
        Refusal::Stopped(fault) => return fault,
        Refusal::Closed => return Fault::closed("shared handle"),
        Refusal::Busy if may_not_wait() => {
            "a callback of a call that has a store in use would wait for whoever writes to these tables: return first"
        }
        Refusal::Busy => {
            "a transaction is open on these tables, and nothing is done through it, so that waiting could be for ever: \
             commit it or roll it back, then try again"
        }
    };
    Fault::Engine(Error::new(ErrorKind::Locked, why))
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
            let batches = changes
                .iter()
                .map(|(name, batch)| Ok((*name, batch.0.read()?.clone())))
                .collect::<Outcome<Vec<_>>>()?;
            let (tables, _turn) = self.to_write()?;
            let batches: Vec<_> = batches.iter().map(|(name, batch)| (*name, batch)).collect();
            Ok(tables.commit(&batches)?)
        })
    }

    /// Begins a transaction, which reads what it wrote, as the only one who writes until it ends. Any thread may use it.
    /// Waits while others write. In a `with` statement it is committed at the end, and rolled back by an exception.
    fn begin(&self, py: Python<'_>) -> PyResult<Transaction> {
        let owned = call(py, || Ok(Tables::begun(self.to_write()?)))?;
        Ok(self.transaction(py, owned))
    }

    /// The same if nobody writes just now, or `None`.
    fn try_begin(&self, py: Python<'_>) -> PyResult<Option<Transaction>> {
        let owned = call(py, || match self.turns()?.try_take() {
            Ok(turn) => Ok(Some(Tables::begun((self.tables()?, turn)))),
            Err(Refusal::Busy) => Ok(None),
            Err(refusal) => Err(refused(refusal)),
        })?;
        Ok(owned.map(|it| self.transaction(py, it)))
    }

    /// How many seconds who waits for a transaction has patience while nothing is done through it, before that is a
    /// `LockedError`: 10 unless it is said otherwise, 0 for none at all, `None` for as long as it takes.
    #[getter]
    fn get_patience(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let patience = call(py, || Ok(self.turns()?.patience()))?;
        Ok((patience != Duration::MAX).then_some(patience.as_secs_f64()))
    }

    #[setter]
    fn set_patience(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<()> {
        let patience = match seconds {
            None => Duration::MAX,
            Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| {
                invalid(py, format!("patience is a number of seconds: {error}"))
            })?,
        };
        call(py, || {
            self.turns()?.set_patience(patience);
            Ok(())
        })
    }

    /// Works ahead on merges by up to `credits` bytes of entries; how much is left to do. Waits while others write.
    fn work(&self, py: Python<'_>, credits: u64) -> PyResult<u64> {
        call(py, || {
            let (tables, _turn) = self.to_write()?;
            Ok(tables.work(credits)?)
        })
    }

    /// Adds a table, whose own handle is closed then; after an error it is open as before.
    fn add(&self, py: Python<'_>, table: PyRef<'_, Table>) -> PyResult<()> {
        let table = &*table;
        call(py, || {
            let (tables, _turn) = self.to_write()?;
            // Others wait for the turn meanwhile.
            holding(|| {
                Held::take_all(&[&table.0], |mut taken| {
                    let table = taken.pop().expect("one was given");
                    tables.add(table).map_err(given_back)
                })
            })
        })
    }

    /// Takes table `name` out. Views that were taken keep what they have.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = call(py, || {
            let (tables, _turn) = self.to_write()?;
            Ok(tables.remove(name)?)
        })?;
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
            let session = self.0.read()?.session.clone();
            let (tables, _turn) = self.to_write()?;
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

    /// Closes it, and with the last transaction its tables. Live ones can be opened again. Calls that wait while others
    /// write raise `ClosedError` then; an open transaction goes on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || {
            if let Some(shared) = self.0.take()? {
                shared.turns.close();
            }
            Ok(())
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

/// The engine's transaction, and the turn that it has, which goes after it.
struct Owned {
    transaction: varvite::Transaction,
    turn: Turn,
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
            let owned = held.get_mut().unwrap_or_else(PoisonError::into_inner);
            let _using = owned.turn.using();
            body(&mut owned.transaction)
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
            // Others wait for the transaction meanwhile.
            let batch = holding(|| Ok::<_, Fault>(batch.0.read()?.clone()))?;
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
            let Owned { transaction, turn } =
                owned.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _using = turn.using();
            Ok(transaction.commit()?)
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

    /// Commits, unless an exception goes through it or it is over. Waits for calls through it that are not over, and no
    /// signal ends that: nobody would end the transaction then.
    #[pyo3(signature = (*exception))]
    fn __exit__(&self, py: Python<'_>, exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        let raised = exception.get_item(0).is_ok_and(|it| !it.is_none());
        holding(|| if raised || self.closed() { self.rollback(py) } else { self.commit(py) })
    }
}

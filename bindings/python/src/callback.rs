//! What Python does for the engine: merge operators, observers, executors. They are called from the engine's middle.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use varvite::context;

use crate::answer::Cost;
use crate::fault::{Fault, Outcome, call, inner_callback, invalid, raise, unwind, unwind_operator};
use crate::held::Held;
use crate::input::bytes;

/// A function of the program's that the engine calls. The engine has the slot; an object of Python has it too, alone,
/// and shows the function to Python's collector. What the collector empties, nothing but the engine could have called.
pub struct Slot(Mutex<Option<Py<PyAny>>>);

impl Slot {
    pub fn new(function: Py<PyAny>) -> Arc<Slot> {
        Arc::new(Slot(Mutex::new(Some(function))))
    }

    fn function(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let function = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        function.as_ref().map(|it| it.clone_ref(py))
    }

    pub fn visit(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        // It is locked with the interpreter only, for a moment: whoever has it now has no collector running.
        self.0.try_lock().map_or(Ok(()), |function| visit.call(&*function))
    }

    pub fn clear(&self) {
        // Dropped after the lock is given back: that may run Python.
        let function = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(function);
    }
}

/// The functions that a session calls, held by every object that has the session in use: only when no such object
/// can be reached any more may the collector take the functions for unreachable.
#[pyclass(frozen, module = "varvite")]
pub struct Callbacks {
    pub observer: Option<Arc<Slot>>,
    pub executor: Option<Arc<Slot>>,
    /// Those of its tables.
    operators: Mutex<Vec<Py<MergeOperator>>>,
}

impl Callbacks {
    pub fn new(observer: Option<Arc<Slot>>, executor: Option<Arc<Slot>>) -> Callbacks {
        Callbacks { observer, executor, operators: Mutex::default() }
    }

    /// Has the operators kept as long as the session's objects.
    pub fn keep<'a>(&self, operators: impl IntoIterator<Item = &'a Bound<'a, MergeOperator>>) {
        let mut kept = self.operators.lock().unwrap_or_else(PoisonError::into_inner);
        for operator in operators {
            if !kept.iter().any(|it| it.is(operator)) {
                kept.push(operator.clone().unbind());
            }
        }
    }
}

#[pymethods]
impl Callbacks {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        for slot in [&self.observer, &self.executor].into_iter().flatten() {
            slot.visit(&visit)?;
        }
        let Ok(operators) = self.operators.try_lock() else { return Ok(()) };
        operators.iter().try_for_each(|it| visit.call(it))
    }

    /// Not of the operators: another session may have them, and each has a slot of its own.
    fn __clear__(&self) {
        for slot in [&self.observer, &self.executor].into_iter().flatten() {
            slot.clear();
        }
    }
}

/// How upserts join older values: `join(older, newer)` gives the joined value. It must be associative and give the same
/// for the same values; it is called on any thread that calls varvite, and must not call varvite itself. When it raises,
/// the call that needed it raises the same and changes nothing.
#[pyclass(frozen, module = "varvite")]
pub struct MergeOperator {
    pub operator: varvite::MergeOperator,
    /// Its function, unless it is built in.
    slot: Option<Arc<Slot>>,
}

#[pymethods]
impl MergeOperator {
    #[new]
    fn new(name: &str, join: Py<PyAny>) -> MergeOperator {
        let slot = Slot::new(join);
        let shared = Arc::clone(&slot);
        let function = move |older: &[u8], newer: &[u8]| {
            // The exception is kept aside, and nothing unwinds through Python.
            let joined = inner_callback(|py| {
                let joined = shared
                    .function(py)
                    .ok_or_else(|| raise(py, Fault::closed("merge operator")))
                    .and_then(|it| it.call1(py, (PyBytes::new(py, older), PyBytes::new(py, newer))))
                    .and_then(|it| Ok(bytes(it.bind(py), "joined value")?.into_owned()));
                joined.map_err(|error| unwind_operator(py, error))
            });
            joined.unwrap_or_else(|text| unwind(text))
        };
        MergeOperator { operator: varvite::MergeOperator::new(name, function), slot: Some(slot) }
    }

    /// A built-in operator: "add-u64", "max" or "append".
    #[staticmethod]
    fn built_in(py: Python<'_>, name: &str) -> PyResult<MergeOperator> {
        let found = varvite::MergeOperator::built_in(name).ok_or_else(|| {
            let known = "there are add-u64, max and append";
            invalid(py, format!("no merge operator is called {name:?}: {known}"))
        })?;
        Ok(MergeOperator { operator: found, slot: None })
    }

    /// Its name in what is stored.
    #[getter]
    fn name(&self) -> &str {
        self.operator.name()
    }

    fn __repr__(&self) -> String {
        format!("MergeOperator({:?})", self.operator.name())
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.slot.iter().try_for_each(|it| it.visit(&visit))
    }

    fn __clear__(&self) {
        self.slot.iter().for_each(|it| it.clear());
    }
}

/// The operators that a table to be opened may have.
pub fn operators(given: &[Bound<'_, MergeOperator>]) -> Vec<varvite::MergeOperator> {
    given.iter().map(|it| it.get().operator.clone()).collect()
}

/// The host's clock of observers.
fn now_ns() -> u64 {
    // SAFETY: a time is numbers, for which zeros are values.
    let mut now: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: it is a place for a time. Where there is no such clock it stays zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Calls a function whose failure concerns nobody: Python tells it as it tells those of finalisers.
fn tell(slot: &Slot, arguments: impl FnOnce(Python<'_>) -> PyResult<Bound<'_, PyTuple>>) {
    inner_callback(|py| {
        let Some(function) = slot.function(py) else { return };
        let done = arguments(py).and_then(|it| function.call1(py, it));
        if let Err(error) = done {
            error.write_unraisable(py, Some(function.bind(py)));
        }
    });
}

/// Tells Python what operations of a session took.
pub struct TableObserver(pub Arc<Slot>);

impl varvite::Observer for TableObserver {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn record(&self, operation: varvite::Operation, duration_ns: u64, count: u64) {
        use varvite::Operation::{
            Checkpoint, Get, Log, Lookup, Merge, OpenSnapshot, Range, SaveSnapshot, Transaction,
            Update,
        };
        let name = match operation {
            Lookup => "lookup",
            Update => "update",
            Merge => "merge",
            SaveSnapshot => "save_snapshot",
            OpenSnapshot => "open_snapshot",
            Log => "log",
            Checkpoint => "checkpoint",
            Get => "get",
            Range => "range",
            Transaction => "transaction",
            _ => "other",
        };
        tell(&self.0, |py| (name, duration_ns, count).into_pyobject(py));
    }
}

/// Tells Python what operations of a context took and cost.
pub struct ContextObserver(pub Arc<Slot>);

impl context::Observer for ContextObserver {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn record(
        &self,
        operation: context::Operation,
        prefix: &[&[u8]],
        duration_ns: u64,
        from: &context::Cost,
    ) {
        let cost = Cost {
            bytes_read: from.bytes_read,
            bytes_written: from.bytes_written,
            node_hits: from.node_hits,
            node_misses: from.node_misses,
            page_hits: from.page_hits,
            page_misses: from.page_misses,
            sync_ns: from.sync_ns,
        };
        let name = snake(&format!("{operation:?}"));
        tell(&self.0, |py| {
            let prefix = PyTuple::new(py, prefix.iter().map(|it| PyBytes::new(py, it)))?;
            (name, prefix, duration_ns, cost).into_pyobject(py)
        });
    }
}

/// `FindTree` as `find_tree`.
fn snake(name: &str) -> String {
    let mut out = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Passes merging on: to `submit` of a pool of threads, for example.
pub struct HostExecutor(pub Arc<Slot>);

impl varvite::Executor for HostExecutor {
    fn execute(&self, work: Box<dyn FnOnce() + Send>) {
        // What is not called is dropped, which is safe: the writer does it.
        tell(&self.0, |py| (Work(Held::new("work", Mutex::new(work))),).into_pyobject(py));
    }
}

/// A piece of merging: call it once, on any thread but the one that is told of it. Dropped, the writer does it.
#[pyclass(frozen, module = "varvite")]
pub struct Work(Held<Mutex<Box<dyn FnOnce() + Send>>>);

#[pymethods]
impl Work {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || {
            // Called once more it does nothing, as a pool may that retries.
            if let Some(work) = self.0.take()? {
                work.into_inner().unwrap_or_else(PoisonError::into_inner)();
            }
            Outcome::Ok(())
        })
    }
}

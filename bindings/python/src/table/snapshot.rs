//! Open snapshots.

use std::sync::{Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::callback::Callbacks;
use crate::fault::{Outcome, call};
use crate::held::Held;
use crate::table::table::Table;

/// A snapshot that was opened, whose tables are to be taken out.
#[pyclass(frozen, module = "varvite")]
pub struct Snapshot(pub Held<Mutex<varvite::Snapshot>>, Py<Callbacks>);

impl Snapshot {
    pub fn new(snapshot: varvite::Snapshot, callbacks: Py<Callbacks>) -> Snapshot {
        Snapshot(Held::new("snapshot", Mutex::new(snapshot)), callbacks)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::Snapshot) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        call(py, || body(self.0.write()?.get_mut().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Snapshot {
    /// Takes the table `name` out. It can be updated; the snapshot stays as it is.
    fn take(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let table = self.with(py, |it| Ok(it.take(name)?))?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// The label.
    #[getter]
    fn label(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |it| Ok(it.label.clone()))
    }

    /// The program's own bytes.
    #[getter]
    fn payload(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.with(py, |it| Ok(it.payload.clone()))
    }

    /// The names of the tables that were not taken yet.
    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |it| Ok(it.tables.iter().map(|it| it.name().to_owned()).collect()))
    }

    /// Closes it; tables that were taken out stay open.
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

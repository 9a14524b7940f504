//! Followers: the live tables of a session that another process writes.

use std::sync::{Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::callback::Callbacks;
use crate::fault::{Outcome, call};
use crate::held::Held;
use crate::table::view::View;

/// The live tables of a session, as another process updates them: all as they were at one moment, until `reload`.
#[pyclass(frozen, module = "varvite")]
pub struct Follower(Held<Mutex<varvite::Follower>>, Py<Callbacks>);

impl Follower {
    pub fn new(follower: varvite::Follower, callbacks: Py<Callbacks>) -> Follower {
        Follower(Held::new("follower", Mutex::new(follower)), callbacks)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::Follower) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        call(py, || body(self.0.write()?.get_mut().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Follower {
    /// Goes on to what the log has now; whether that is another moment than before. Views that were taken stay as they
    /// are. After an error the tables are as they were, and it may be tried again.
    fn reload(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |it| Ok(it.reload()?))
    }

    /// The names of the live tables, in order.
    #[getter]
    fn tables(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |it| Ok(it.tables().map(|it| it.name().to_owned()).collect()))
    }

    /// The content of the live table `name` at this moment.
    fn view(&self, py: Python<'_>, name: &str) -> PyResult<View> {
        let view = self.with(py, |it| Ok(it.table(name)?.view()))?;
        Ok(View(Held::new("view", view), self.1.clone_ref(py)))
    }

    /// Closes it; views that were taken stay open.
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

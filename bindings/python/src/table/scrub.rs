//! Scrubs: everything that a session keeps, read beside whoever uses it.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::answer::Finding;
use crate::fault::{Outcome, call};
use crate::held::Held;
use crate::table::session::tell_finding;

/// A scrub under way: `work` reads on by a bounded part.
#[pyclass(frozen, module = "varvite")]
pub struct Scrub(Held<Mutex<varvite::table::scrub::Scrub>>);

impl Scrub {
    pub fn new(scrub: varvite::table::scrub::Scrub) -> Scrub {
        Scrub(Held::new("scrub", Mutex::new(scrub)))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::table::scrub::Scrub) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        call(py, || body(self.0.write()?.get_mut().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Scrub {
    /// Reads on, about `pages` pages of 4 KiB; how many are left, 0 at the end.
    fn work(&self, py: Python<'_>, pages: u64) -> PyResult<u64> {
        self.with(py, |it| Ok(it.work(pages)?))
    }

    /// What is damaged, of what was read so far.
    #[getter]
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<Finding>> {
        self.with(py, |it| Ok(it.findings().iter().cloned().map(tell_finding).collect()))
    }

    /// How far it is: bytes read, and bytes to read, as far as is known.
    #[getter]
    fn progress(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        self.with(py, |it| Ok((it.progress().done_bytes, it.progress().total_bytes)))
    }

    /// From where another scrub goes on, also of another process: `Session.scrub(place)`.
    #[getter]
    fn place(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |it| Ok(it.place()))
    }

    /// Closes it; once more does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.take().map(drop))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

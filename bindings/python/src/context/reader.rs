//! Readers of a store for other threads.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use varvite::context;

use crate::answer::Commit;
use crate::context::store::{Store, tell_commit, text, told};
use crate::context::tree::Tree;
use crate::fault::call;
use crate::held::Held;
use crate::input::hash;

type Object<'a, 'py> = &'a Bound<'py, PyAny>;

/// What a store has, for threads that read while it commits; closed with the store, which stays as long as somebody has
/// the reader.
#[pyclass(frozen, module = "varvite")]
pub struct Reader(Held<context::Reader>, Py<Store>);

impl Reader {
    pub fn new(reader: context::Reader, store: Py<Store>) -> Reader {
        Reader(Held::new("reader", reader), store)
    }
}

#[pymethods]
impl Reader {
    /// The tree of a commit, loaded as it is looked at.
    fn checkout(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<Tree> {
        let commit = hash(commit)?;
        call(py, || Ok(Tree::new(self.0.read()?.checkout(&commit)?)))
    }

    /// Whether a commit with this hash is here.
    fn exists(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<bool> {
        let commit = hash(commit)?;
        call(py, || Ok(self.0.read()?.exists(&commit)?))
    }

    /// What a commit says.
    fn commit_info(&self, py: Python<'_>, commit: Object<'_, '_>) -> PyResult<Commit> {
        let commit = hash(commit)?;
        call(py, || Ok(tell_commit(self.0.read()?.commit_info(&commit)?)))
    }

    /// The commit that the store took last.
    fn last_commit(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        call(py, || Ok(self.0.read()?.last_commit()?.map(|it| it.to_vec())))
    }

    /// The commits of the store, newest first.
    #[pyo3(signature = (limit = None))]
    fn log(&self, py: Python<'_>, limit: Option<usize>) -> PyResult<Vec<Vec<u8>>> {
        call(py, || Ok(told(self.0.read()?.log(limit.unwrap_or(usize::MAX))?)))
    }

    /// The commit that a branch names.
    fn branch(&self, py: Python<'_>, name: Object<'_, '_>) -> PyResult<Option<Vec<u8>>> {
        let name = text(name, "branch")?;
        call(py, || Ok(self.0.read()?.branch(&name)?.map(|it| it.to_vec())))
    }

    /// All branches, by name, each with its commit.
    fn branches(&self, py: Python<'_>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
        call(py, || {
            let found = self.0.read()?.branches()?;
            Ok(found.into_iter().map(|(name, hash)| (name, hash.to_vec())).collect())
        })
    }

    /// The value or directory with this hash, in a store that finds every object.
    fn find_object(&self, py: Python<'_>, hash: Object<'_, '_>) -> PyResult<Option<Tree>> {
        let hash = self::hash(hash)?;
        call(py, || Ok(self.0.read()?.find_object(&hash)?.map(Tree::new)))
    }

    /// Closes it; once more does nothing.
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

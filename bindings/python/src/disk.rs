//! Where files are, the memory for their pages, and hashes as text.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;

use crate::answer::CacheStats;
use crate::fault::{Outcome, call};
use crate::held::Held;
use crate::input::{budget, hash};

/// Where files are: a folder of the system, or memory.
#[pyclass(frozen, module = "varvite")]
pub struct Disk(Held<Arc<dyn varvite::disk::Disk>>);

#[pymethods]
impl Disk {
    /// A folder. With `create` it is made, and those above it.
    #[staticmethod]
    #[pyo3(signature = (path, *, create = false))]
    fn folder(py: Python<'_>, path: std::path::PathBuf, create: bool) -> PyResult<Disk> {
        call(py, || {
            let disk = if create { OsDisk::create(path) } else { OsDisk::new(path) }?;
            Ok(Disk(Held::new("disk", disk)))
        })
    }

    /// Memory, gone with its last user. What is drawn at random follows from `seed`, so the same operations give the
    /// same bytes.
    #[staticmethod]
    #[pyo3(signature = (seed = 1))]
    fn memory(seed: u64) -> Disk {
        Disk(Held::new("disk", MemoryDisk::seeded(seed)))
    }
}

/// A disk, or the folder that Python means by a path.
pub enum Place {
    Disk(Arc<dyn varvite::disk::Disk>),
    Folder(std::path::PathBuf),
}

impl Place {
    pub fn of(py: Python<'_>, given: &Bound<'_, PyAny>) -> PyResult<Place> {
        match given.cast::<Disk>() {
            Ok(disk) => {
                let disk = disk.get();
                Ok(Place::Disk(call(py, || Ok(Arc::clone(&*disk.0.read()?)))?))
            }
            Err(_) => Ok(Place::Folder(given.extract()?)),
        }
    }

    /// The disk; a folder is made if `create`, or must be there.
    pub fn disk(self, create: bool) -> Outcome<Arc<dyn varvite::disk::Disk>> {
        match self {
            Place::Disk(disk) => Ok(disk),
            Place::Folder(path) if create => Ok(OsDisk::create(path)?),
            Place::Folder(path) => Ok(OsDisk::new(path)?),
        }
    }
}

/// Memory for pages that sessions and stores share.
#[pyclass(frozen, module = "varvite")]
pub struct Cache(Held<Arc<varvite::cache::Cache>>);

impl Cache {
    pub fn shared(&self, py: Python<'_>) -> PyResult<Arc<varvite::cache::Cache>> {
        call(py, || Ok(Arc::clone(&*self.0.read()?)))
    }
}

#[pymethods]
impl Cache {
    /// Of at most so many bytes.
    #[new]
    fn new(py: Python<'_>, budget_bytes: u64) -> PyResult<Cache> {
        let bytes = budget(py, budget_bytes, "budget_bytes")?;
        call(py, || Ok(Cache(Held::new("cache", varvite::cache::Cache::new(bytes)))))
    }

    /// What it did and holds.
    fn stats(&self, py: Python<'_>) -> PyResult<CacheStats> {
        call(py, || {
            let from = self.0.read()?.stats();
            Ok(CacheStats {
                hits: from.hits,
                misses: from.misses,
                evictions: from.evictions,
                pages: from.pages,
                bytes: from.bytes,
                charged_bytes: from.charged_bytes,
            })
        })
    }
}

/// A hash as people see it, `Co…`.
#[pyfunction]
#[pyo3(name = "hash_text")]
pub fn hash_text(hash: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(varvite::context::hash::to_text(&self::hash::<[u8; 32]>(hash)?))
}

/// The 32 bytes of a hash from its text, `Co…`, or from 64 hex digits.
#[pyfunction]
pub fn parse_hash<'py>(py: Python<'py>, text: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &hash::<[u8; 32]>(text)?))
}

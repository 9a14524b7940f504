//! What is too large for memory: values in pieces, and tables loaded whole.

use std::sync::{Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::callback::Callbacks;
use crate::fault::{Fault, Outcome, call};
use crate::held::Held;
use crate::input::{bytes, no_memory};
use crate::table::batch::pairs;
use crate::table::table::Table;

/// A value that was found and not read yet.
#[pyclass(frozen, module = "varvite")]
pub struct Value(pub Held<varvite::Value>);

impl Value {
    pub fn new(value: varvite::Value) -> Value {
        Value(Held::new("value", value))
    }

    fn piece(&self, offset: u64, length: u64) -> Outcome<Vec<u8>> {
        let value = self.0.read()?;
        let there = value.len().saturating_sub(offset).min(length) as usize;
        let mut bytes = Vec::new();
        // A value may be larger than memory.
        bytes.try_reserve_exact(there).map_err(|_| no_memory(there))?;
        bytes.resize(there, 0);
        let read = value.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }
}

#[pymethods]
impl Value {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        call(py, || Ok(self.0.read()?.len() as usize))
    }

    /// All of its bytes.
    fn read(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        call(py, || self.piece(0, u64::MAX))
    }

    /// Up to `length` bytes from `offset` on.
    fn read_at(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Vec<u8>> {
        call(py, || self.piece(offset, length))
    }

    /// Lets go of the file that it is in.
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

/// A value that comes in pieces.
#[pyclass(frozen, module = "varvite")]
pub struct ValueWriter(pub Held<Mutex<varvite::ValueWriter>>);

#[pymethods]
impl ValueWriter {
    /// Appends a piece.
    fn write(&self, py: Python<'_>, piece: &Bound<'_, PyAny>) -> PyResult<()> {
        let piece = bytes(piece, "piece")?;
        call(py, || {
            let mut writer = self.0.write()?;
            Ok(writer.get_mut().unwrap_or_else(PoisonError::into_inner).write(&piece)?)
        })
    }

    /// Makes the value, to be inserted by `Batch.insert_value`, and closes the writer.
    fn finish(&self, py: Python<'_>) -> PyResult<Value> {
        call(py, || {
            let writer = self.0.take()?.ok_or_else(|| Fault::closed("value writer"))?;
            Ok(Value::new(writer.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?))
        })
    }

    /// Closes it; what was written and not finished is gone.
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

/// A table that is being loaded whole.
#[pyclass(frozen, module = "varvite")]
pub struct Loader(pub Held<Mutex<varvite::Loader>>, pub Py<Callbacks>);

#[pymethods]
impl Loader {
    /// Adds a key with its value.
    fn push(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (bytes(key, "key")?, bytes(value, "value")?);
        call(py, || {
            let mut loader = self.0.write()?;
            Ok(loader.get_mut().unwrap_or_else(PoisonError::into_inner).push(&key, &value)?)
        })
    }

    /// Adds keys with their values. After an error those before the one that was refused are in.
    fn push_many(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (keys, values) = pairs(keys, values)?;
        call(py, || {
            let mut loader = self.0.write()?;
            let loader = loader.get_mut().unwrap_or_else(PoisonError::into_inner);
            for (key, value) in keys.iter().zip(values.iter()) {
                loader.push(key, value)?;
            }
            Ok(())
        })
    }

    /// How many keys were pushed.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || {
            let loader = self.0.read()?;
            let loader = loader.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(loader.count())
        })
    }

    /// Makes the table of what was pushed, and closes the loader.
    fn finish(&self, py: Python<'_>) -> PyResult<Table> {
        let table = call(py, || {
            let loader = self.0.take()?.ok_or_else(|| Fault::closed("loader"))?;
            Ok(loader.into_inner().unwrap_or_else(PoisonError::into_inner).finish()?)
        })?;
        Ok(Table::new(table, self.1.clone_ref(py)))
    }

    /// Closes it; what was pushed and not finished is gone.
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

//! Batches: what an update does, gathered.

use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::fault::{call, invalid};
use crate::held::Held;
use crate::input::{Flat, bytes, flat, range, slice};
use crate::table::stream::Value;

/// Operations that a table applies in order, all or none. It may be used again, also for other tables.
#[pyclass(frozen, module = "varvite")]
pub struct Batch(pub Held<varvite::Batch>);

/// An operation.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Insert,
    Delete,
    Upsert,
}

/// Adds one operation a key to `batch`.
pub fn gather(batch: &mut varvite::Batch, kind: Kind, keys: &Flat, values: &Flat) {
    let mut values = values.iter();
    for key in keys.iter() {
        match kind {
            Kind::Insert => batch.insert(key, values.next().unwrap_or_default()),
            Kind::Upsert => batch.upsert(key, values.next().unwrap_or_default()),
            Kind::Delete => batch.delete(key),
        };
    }
}

/// Keys with as many values.
pub fn pairs(keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<(Flat, Flat)> {
    let py = keys.py();
    let (keys, values) = (flat(keys, "key")?, flat(values, "value")?);
    if keys.len() == values.len() {
        return Ok((keys, values));
    }
    let (keys, values) = (keys.len(), values.len());
    Err(invalid(py, format!("there are {keys} keys and {values} values: pass as many of each")))
}

impl Batch {
    fn one(
        slf: &Bound<'_, Self>,
        kind: Kind,
        key: &Bound<'_, PyAny>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let key = bytes(key, "key")?;
        let value = value.map(|it| bytes(it, "value")).transpose()?.unwrap_or_default();
        let batch = slf.get();
        call(slf.py(), || {
            let mut batch = batch.0.write()?;
            match kind {
                Kind::Insert => batch.insert(&key, &value),
                Kind::Upsert => batch.upsert(&key, &value),
                Kind::Delete => batch.delete(&key),
            };
            Ok(())
        })
    }

    fn many(&self, py: Python<'_>, kind: Kind, keys: Flat, values: Flat) -> PyResult<()> {
        call(py, || {
            gather(&mut *self.0.write()?, kind, &keys, &values);
            Ok(())
        })
    }
}

#[pymethods]
impl Batch {
    #[new]
    fn new() -> Batch {
        Batch(Held::new("batch", varvite::Batch::new()))
    }

    /// Binds `key` to `value`, whatever was there.
    fn insert<'py>(
        slf: Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        Batch::one(&slf, Kind::Insert, key, Some(value))?;
        Ok(slf)
    }

    /// Unbinds `key`.
    fn delete<'py>(slf: Bound<'py, Self>, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, Self>> {
        Batch::one(&slf, Kind::Delete, key, None)?;
        Ok(slf)
    }

    /// Joins `value` to what `key` is bound to, by the table's merge operator.
    fn upsert<'py>(
        slf: Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        Batch::one(&slf, Kind::Upsert, key, Some(value))?;
        Ok(slf)
    }

    /// Unbinds every key from `start` on and before `stop`; keys that later operations bind in it stay.
    #[pyo3(signature = (start = None, stop = None))]
    fn delete_range<'py>(
        slf: Bound<'py, Self>,
        start: Option<&Bound<'py, PyAny>>,
        stop: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, Self>> {
        let (start, stop) = range(start, stop)?;
        let batch = slf.get();
        call(slf.py(), || {
            batch.0.write()?.delete_range(slice(&start), slice(&stop));
            Ok(())
        })?;
        Ok(slf)
    }

    /// Unbinds every key that begins with `prefix`; keys that later operations bind stay.
    fn delete_prefix<'py>(
        slf: Bound<'py, Self>,
        prefix: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let prefix = bytes(prefix, "prefix")?;
        let batch = slf.get();
        call(slf.py(), || {
            batch.0.write()?.delete_prefix(&prefix);
            Ok(())
        })?;
        Ok(slf)
    }

    /// Binds `key` to a value that was found or written, without a copy of it.
    fn insert_value<'py>(
        slf: Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        value: PyRef<'py, Value>,
    ) -> PyResult<Bound<'py, Self>> {
        let key = bytes(key, "key")?;
        let (batch, value) = (slf.get(), &*value);
        call(slf.py(), || {
            let value = value.0.read()?.clone();
            batch.0.write()?.insert_value(&key, &value);
            Ok(())
        })?;
        Ok(slf)
    }

    /// Binds each key to the value of the same place.
    fn insert_many<'py>(
        slf: Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let (keys, values) = pairs(keys, values)?;
        slf.get().many(slf.py(), Kind::Insert, keys, values)?;
        Ok(slf)
    }

    /// Unbinds each key.
    fn delete_many<'py>(
        slf: Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        slf.get().many(slf.py(), Kind::Delete, flat(keys, "key")?, Flat::default())?;
        Ok(slf)
    }

    /// Joins to each key the value of the same place.
    fn upsert_many<'py>(
        slf: Bound<'py, Self>,
        keys: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, Self>> {
        let (keys, values) = pairs(keys, values)?;
        slf.get().many(slf.py(), Kind::Upsert, keys, values)?;
        Ok(slf)
    }

    /// Forgets all operations.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || {
            self.0.write()?.clear();
            Ok(())
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        call(py, || Ok(self.0.read()?.len()))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Batch({} operations)", self.__len__(py)?))
    }
}

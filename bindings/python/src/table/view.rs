//! Views, and what is read of them and of tables alike.

use std::ops::Bound as KeyBound;

use pyo3::exceptions::PyKeyError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::callback::Callbacks;
use crate::fault::{Outcome, call, invalid};
use crate::held::Held;
use crate::input::{Range, bytes, flat, range, slice};
use crate::packed::{Entries, Packed, Values};
use crate::table::cursor::{Cursor, Items, Source};
use crate::table::stream::Value;

/// A table's content at one moment, for readers that never wait for the writer.
#[pyclass(frozen, mapping, module = "varvite")]
pub struct View(pub Held<varvite::View>, pub Py<Callbacks>);

pub fn entries(view: &varvite::View, (start, stop): &Range) -> Outcome<(Packed, Packed)> {
    let (mut keys, mut values) = (Packed::with_room(0, 0), Packed::with_room(0, 0));
    for entry in view.range((slice(start), slice(stop))) {
        let (key, value) = entry?;
        keys.push(Some(&key));
        values.push(Some(&value));
    }
    Ok((keys, values))
}

/// What an iterator goes through: a range, or what begins with a prefix.
pub enum Between {
    Range(Range),
    Prefix(Vec<u8>),
}

impl Default for Between {
    fn default() -> Between {
        Between::Range((KeyBound::Unbounded, KeyBound::Unbounded))
    }
}

impl Between {
    pub fn given(
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Between> {
        match prefix {
            None => Ok(Between::Range(range(start, stop)?)),
            Some(prefix) if start.is_none() && stop.is_none() => {
                Ok(Between::Prefix(bytes(prefix, "prefix")?.into_owned()))
            }
            Some(_) => {
                Err(invalid(py, "a prefix is a range by itself: give it, or start and stop"))
            }
        }
    }

    pub fn of(self, view: &varvite::View, keys_only: bool) -> Source {
        let range = match self {
            Between::Range(bounds) => view.range(bounds),
            Between::Prefix(prefix) => view.prefix(prefix),
        };
        Source::new(range, keys_only)
    }
}

pub fn find(view: &varvite::View, keys: &crate::input::Flat) -> Outcome<Vec<Option<Value>>> {
    let found = view.find(&keys.pieces())?;
    Ok(found.into_iter().map(|it| it.map(Value::new)).collect())
}

pub fn cursor(view: &varvite::View, (start, stop): &Range) -> Outcome<varvite::Cursor> {
    Ok(view.cursor(slice(start), slice(stop))?)
}

pub fn or_default<'py>(
    py: Python<'py>,
    found: Option<Vec<u8>>,
    default: Option<Bound<'py, PyAny>>,
) -> Bound<'py, PyAny> {
    match found {
        Some(value) => PyBytes::new(py, &value).into_any(),
        None => default.unwrap_or_else(|| py.None().into_bound(py)),
    }
}

pub fn or_key_error<'py>(
    key: &Bound<'py, PyAny>,
    found: Option<Vec<u8>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let value = found.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))?;
    Ok(PyBytes::new(key.py(), &value))
}

impl View {
    fn get_bytes(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        let bytes = bytes(key, "key")?;
        call(key.py(), || Ok(self.0.read()?.get(&bytes)?))
    }

    fn new_cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<varvite::Cursor> {
        let range = range(start, stop)?;
        call(py, || cursor(&*self.0.read()?, &range))
    }

    fn new_items(&self, py: Python<'_>, between: Between, keys_only: bool) -> PyResult<Items> {
        let source = call(py, || Ok(between.of(&*self.0.read()?, keys_only)))?;
        Ok(Items::new(source, self.1.clone_ref(py)))
    }
}

#[pymethods]
impl View {
    /// The value of `key`, or `default`.
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(or_default(py, self.get_bytes(key)?, default))
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        or_key_error(key, self.get_bytes(key)?)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.get_bytes(key)?.is_some())
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Items> {
        self.new_items(py, Between::default(), true)
    }

    /// The values of many keys, in their order; all page reads are in flight together.
    fn lookup(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Values> {
        let keys = flat(keys, "key")?;
        call(py, || {
            let view = self.0.read()?;
            let found = Packed::looked_up(|values| view.lookup_into(&keys.pieces(), values))?;
            Ok(Values::new(found))
        })
    }

    /// As `lookup`, without reading values that are in blob files.
    fn find(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<Vec<Option<Value>>> {
        let keys = flat(keys, "key")?;
        call(py, || find(&*self.0.read()?, &keys))
    }

    /// All entries from `start` on and before `stop`, in memory at once.
    #[pyo3(signature = (start = None, stop = None))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Entries> {
        let range = range(start, stop)?;
        let (keys, values) = call(py, || entries(&*self.0.read()?, &range))?;
        Entries::new(py, keys, values)
    }

    /// An iterator over the entries from `start` on and before `stop`, or over those whose keys begin with `prefix`;
    /// `reversed` goes from the other end.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None))]
    fn items(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Items> {
        self.new_items(py, Between::given(py, start, stop, prefix)?, false)
    }

    /// The same of the keys alone; values are not read.
    #[pyo3(signature = (start = None, stop = None, *, prefix = None))]
    fn keys(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Items> {
        self.new_items(py, Between::given(py, start, stop, prefix)?, true)
    }

    /// A cursor before the first key from `start` on and before `stop`.
    #[pyo3(signature = (start = None, stop = None))]
    fn cursor(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Cursor> {
        Ok(Cursor::new(self.new_cursor(py, start, stop)?, self.1.clone_ref(py)))
    }

    /// How many keys are bound, exactly. Reads every page.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        call(py, || Ok(self.0.read()?.count()?))
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

//! Cursors, and the iterators over them.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::fault::{Fault, Outcome, call};
use crate::held::Held;
use crate::input::bytes;
use crate::packed::{Entries, Packed};

/// A place between the keys of a table as it was when the cursor was made.
#[pyclass(frozen, module = "varvite")]
pub struct Cursor(Held<Mutex<varvite::Cursor>>);

type Pair = Option<(Vec<u8>, Vec<u8>)>;

fn owned(found: Option<(&[u8], &[u8])>) -> Pair {
    found.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

impl Cursor {
    pub fn new(cursor: varvite::Cursor) -> Cursor {
        Cursor(Held::new("cursor", Mutex::new(cursor)))
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::Cursor) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        call(py, || body(self.0.write()?.get_mut().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl Cursor {
    /// The next key and value, which are passed; `None` at the upper bound.
    fn next(&self, py: Python<'_>) -> PyResult<Pair> {
        self.with(py, |it| Ok(owned(it.next()?)))
    }

    /// The key and value before, which are passed; `None` at the lower bound.
    fn previous(&self, py: Python<'_>) -> PyResult<Pair> {
        self.with(py, |it| Ok(owned(it.previous()?)))
    }

    /// As `next`, without reading the value.
    fn next_key(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        self.with(py, |it| Ok(it.next_key()?.map(<[u8]>::to_vec)))
    }

    /// As `previous`, without reading the value.
    fn previous_key(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        self.with(py, |it| Ok(it.previous_key()?.map(<[u8]>::to_vec)))
    }

    /// The value of the key that the last step gave.
    fn value(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.with(py, |it| Ok(it.value()?.to_vec()))
    }

    /// Up to `limit` entries from here on, which are passed; none at the upper bound only. What was passed before an
    /// error is given, and the next call meets the error.
    fn next_many(&self, py: Python<'_>, limit: usize) -> PyResult<Entries> {
        let (keys, values) = self.with(py, |cursor| {
            let (mut keys, mut values) = (Packed::with_room(0, 0), Packed::with_room(0, 0));
            step_many(cursor, limit, usize::MAX, |key, value| {
                keys.push(Some(key));
                values.push(Some(value));
            })?;
            Ok((keys, values))
        })?;
        Entries::new(py, keys, values)
    }

    /// Moves before the first key within the bounds that is `key` or greater.
    fn seek(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = bytes(key, "key")?;
        self.with(py, |it| {
            it.seek(&key);
            Ok(())
        })
    }

    /// Moves before the first key within the bounds.
    fn seek_first(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |it| {
            it.seek_first();
            Ok(())
        })
    }

    /// Moves after the last key within the bounds.
    fn seek_last(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |it| {
            it.seek_last();
            Ok(())
        })
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

/// Steps until there are `limit` entries, or so many bytes. An error after the first entry is left to the next call: the
/// cursor stands before the key that cannot be read.
fn step_many(
    cursor: &mut varvite::Cursor,
    limit: usize,
    bytes_max: usize,
    mut each: impl FnMut(&[u8], &[u8]),
) -> Outcome {
    let mut bytes = 0;
    for index in 0..limit {
        let step = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            Ok::<_, Fault>(cursor.next()?.map(|(key, value)| {
                each(key, value);
                key.len() + value.len()
            }))
        }));
        match step {
            Ok(Ok(Some(length))) => bytes += length,
            Ok(Ok(None)) => break,
            Ok(Err(_)) if index > 0 => break,
            Ok(Err(fault)) => return Err(fault),
            Err(failed) if index > 0 => {
                crate::fault::forget(failed);
                break;
            }
            Err(failed) => std::panic::resume_unwind(failed),
        }
        if bytes >= bytes_max {
            break;
        }
    }
    Ok(())
}

/// An iterator over the entries of a table, or over its keys, as it was when the iterator was made.
#[pyclass(frozen, module = "varvite")]
pub struct Items {
    state: Held<Mutex<State>>,
    keys_only: bool,
}

struct State {
    cursor: varvite::Cursor,
    /// What was read ahead, the next one last.
    ahead: Vec<(Vec<u8>, Vec<u8>)>,
    /// How many are read at once: few at first, for who stops early.
    step: usize,
    is_over: bool,
}

const STEP_MAX: usize = 256;
const STEP_BYTES: usize = 256 << 10;

impl Items {
    pub fn new(cursor: varvite::Cursor, keys_only: bool) -> Items {
        let state = State { cursor, ahead: Vec::new(), step: 4, is_over: false };
        Items { state: Held::new("iterator", Mutex::new(state)), keys_only }
    }
}

impl State {
    fn refill(&mut self, keys_only: bool) -> Outcome {
        let ahead = &mut self.ahead;
        if keys_only {
            while ahead.len() < self.step {
                match self.cursor.next_key() {
                    Ok(Some(key)) => ahead.push((key.to_vec(), Vec::new())),
                    Ok(None) => break,
                    Err(_) if !ahead.is_empty() => break,
                    Err(error) => return Err(error.into()),
                }
            }
        } else {
            step_many(&mut self.cursor, self.step, STEP_BYTES, |key, value| {
                ahead.push((key.to_vec(), value.to_vec()));
            })?;
        }
        self.step = (self.step * 2).min(STEP_MAX);
        self.is_over = ahead.is_empty();
        ahead.reverse();
        Ok(())
    }
}

#[pymethods]
impl Items {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = call(py, || {
            let mut state = self.state.write()?;
            let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if state.ahead.is_empty() && !state.is_over {
                state.refill(self.keys_only)?;
            }
            Ok(state.ahead.pop())
        })?;
        let Some((key, value)) = found else { return Ok(None) };
        let key = PyBytes::new(py, &key);
        if self.keys_only {
            return Ok(Some(key.into_any()));
        }
        Ok(Some((key, PyBytes::new(py, &value)).into_pyobject(py)?.into_any()))
    }

    /// Lets go of the table's files; the iterator ends with `ClosedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.state.take().map(drop))
    }
}

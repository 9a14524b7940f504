//! Cursors, and the iterators over them.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use varvite::Bytes;

use crate::callback::Callbacks;
use crate::fault::{Fault, Outcome, call, caught};
use crate::held::Held;
use crate::input::bytes;
use crate::packed::{Entries, Packed};

/// A place between the keys of a table as it was when the cursor was made.
#[pyclass(frozen, module = "varvite")]
pub struct Cursor(Held<Mutex<Place>>, Py<Callbacks>);

struct Place {
    cursor: varvite::Cursor,
    /// What kept the last call from giving more, to be raised by the next one.
    failed: Option<Fault>,
}

type Pair = Option<(Vec<u8>, Vec<u8>)>;

fn owned(found: Option<(&[u8], &[u8])>) -> Pair {
    found.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

impl Cursor {
    pub fn new(cursor: varvite::Cursor, callbacks: Py<Callbacks>) -> Cursor {
        Cursor(Held::new("cursor", Mutex::new(Place { cursor, failed: None })), callbacks)
    }

    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut Place) -> Outcome<T> + Send,
    ) -> PyResult<T> {
        call(py, || body(self.0.write()?.get_mut().unwrap_or_else(PoisonError::into_inner)))
    }

    fn step<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::Cursor) -> varvite::Result<T> + Send,
    ) -> PyResult<T> {
        self.with(py, |it| match it.failed.take() {
            Some(fault) => Err(fault),
            None => Ok(body(&mut it.cursor)?),
        })
    }

    fn seek_to(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut varvite::Cursor) + Send,
    ) -> PyResult<()> {
        self.with(py, |it| {
            it.failed = None;
            body(&mut it.cursor);
            Ok(())
        })
    }
}

#[pymethods]
impl Cursor {
    /// The next key and value, which are passed; `None` at the upper bound.
    fn next(&self, py: Python<'_>) -> PyResult<Pair> {
        self.step(py, |it| Ok(owned(it.next()?)))
    }

    /// The key and value before, which are passed; `None` at the lower bound.
    fn previous(&self, py: Python<'_>) -> PyResult<Pair> {
        self.step(py, |it| Ok(owned(it.previous()?)))
    }

    /// As `next`, without reading the value.
    fn next_key(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        self.step(py, |it| Ok(it.next_key()?.map(<[u8]>::to_vec)))
    }

    /// As `previous`, without reading the value.
    fn previous_key(&self, py: Python<'_>) -> PyResult<Option<Vec<u8>>> {
        self.step(py, |it| Ok(it.previous_key()?.map(<[u8]>::to_vec)))
    }

    /// The value of the key that the last step gave.
    fn value(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.step(py, |it| Ok(it.value()?.to_vec()))
    }

    /// Up to `limit` entries from here on, which are passed; none at the upper bound only. What was passed before an
    /// error is given, and the next call raises the error: the cursor stands before the key that could not be read.
    fn next_many(&self, py: Python<'_>, limit: usize) -> PyResult<Entries> {
        let (keys, values) = self.with(py, |it| {
            if let Some(fault) = it.failed.take() {
                return Err(fault);
            }
            let (mut keys, mut values) = (Packed::with_room(0, 0), Packed::with_room(0, 0));
            let cursor = &mut it.cursor;
            it.failed = gather(limit, usize::MAX, || {
                let Some((key, value)) = cursor.next()? else { return Ok(None) };
                keys.push(Some(key));
                values.push(Some(value));
                Ok(Some(key.len() + value.len()))
            })?;
            Ok((keys, values))
        })?;
        Entries::new(py, keys, values)
    }

    /// Moves before the first key within the bounds that is `key` or greater.
    fn seek(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = bytes(key, "key")?;
        self.seek_to(py, |it| it.seek(&key))
    }

    /// Moves before the first key within the bounds.
    fn seek_first(&self, py: Python<'_>) -> PyResult<()> {
        self.seek_to(py, varvite::Cursor::seek_first)
    }

    /// Moves after the last key within the bounds.
    fn seek_last(&self, py: Python<'_>) -> PyResult<()> {
        self.seek_to(py, varvite::Cursor::seek_last)
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

/// Calls `next`, which says how many bytes it gave, until there are `limit` entries, or so many bytes. What fails after
/// the first entry is given back, so that those before it are not lost.
fn gather(
    limit: usize,
    bytes_max: usize,
    mut next: impl FnMut() -> varvite::Result<Option<usize>>,
) -> Outcome<Option<Fault>> {
    let mut bytes = 0;
    for index in 0..limit {
        // A merge operator that raises unwinds from here.
        let step = catch_unwind(AssertUnwindSafe(&mut next));
        let fault = match step {
            Ok(Ok(Some(length))) => {
                bytes += length;
                if bytes >= bytes_max {
                    break;
                }
                continue;
            }
            Ok(Ok(None)) => break,
            Ok(Err(error)) => error.into(),
            Err(payload) => caught(payload),
        };
        return if index > 0 { Ok(Some(fault)) } else { Err(fault) };
    }
    Ok(None)
}

/// An iterator over the entries of a table, or over its keys, as it was when the iterator was made. It goes from both
/// ends, which meet; an error is the last that it gives.
#[pyclass(frozen, module = "varvite")]
pub struct Items {
    state: Arc<Held<Mutex<State>>>,
    end: End,
    callbacks: Py<Callbacks>,
}

#[derive(Clone, Copy)]
enum End {
    Front,
    Back,
}

/// What is stepped from both ends.
pub enum Source {
    Entries(varvite::Range),
    Keys(varvite::Keys),
}

impl Source {
    pub fn new(range: varvite::Range, keys_only: bool) -> Source {
        if keys_only { Source::Keys(range.keys()) } else { Source::Entries(range) }
    }

    /// The next key and its value from this end; of keys alone none.
    fn next(&mut self, end: End) -> Option<varvite::Result<Ahead>> {
        match (self, end) {
            (Source::Entries(it), End::Front) => it.next().map(with_value),
            (Source::Entries(it), End::Back) => it.next_back().map(with_value),
            (Source::Keys(it), End::Front) => it.next().map(without_value),
            (Source::Keys(it), End::Back) => it.next_back().map(without_value),
        }
    }
}

type Ahead = (Bytes, Option<Bytes>);

fn with_value(item: varvite::Result<(Bytes, Bytes)>) -> varvite::Result<Ahead> {
    item.map(|(key, value)| (key, Some(value)))
}

fn without_value(item: varvite::Result<Bytes>) -> varvite::Result<Ahead> {
    item.map(|key| (key, None))
}

struct State {
    source: Source,
    /// What was read ahead from each end, in the order in which that end gives it.
    ahead: [VecDeque<Ahead>; 2],
    /// How many are read at once from each end: few at first, for who stops early.
    steps: [usize; 2],
    progress: Progress,
}

/// How far the source is.
enum Progress {
    More,
    /// All of it was read, at one end or the other.
    Whole,
    /// It ended by this, which is still to be raised.
    Failed(Fault),
    /// It was raised: what lies between the two ends was not read.
    Broken,
}

const STEP_MAX: usize = 256;
const STEP_BYTES: usize = 256 << 10;

impl State {
    fn next(&mut self, end: End) -> Outcome<Option<Ahead>> {
        if self.ahead[end as usize].is_empty() && matches!(self.progress, Progress::More) {
            self.refill(end)?;
        }
        if let Some(found) = self.ahead[end as usize].pop_front() {
            return Ok(Some(found));
        }
        match std::mem::replace(&mut self.progress, Progress::Broken) {
            Progress::Failed(fault) => Err(fault),
            Progress::Broken => Ok(None),
            // What the other end read ahead and did not give is this end's too.
            progress => {
                self.progress = progress;
                Ok(self.ahead[1 - end as usize].pop_back())
            }
        }
    }

    fn refill(&mut self, end: End) -> Outcome {
        let (source, ahead) = (&mut self.source, &mut self.ahead[end as usize]);
        let step = &mut self.steps[end as usize];
        let mut is_over = false;
        self.progress = Progress::Broken;
        let failed = gather(*step, STEP_BYTES, || {
            let Some(item) = source.next(end) else {
                is_over = true;
                return Ok(None);
            };
            let (key, value) = item?;
            let length = key.len() + value.as_ref().map_or(0, |it| it.len());
            ahead.push_back((key, value));
            Ok(Some(length))
        })?;
        *step = (*step * 2).min(STEP_MAX);
        self.progress = match failed {
            Some(fault) => Progress::Failed(fault),
            None if is_over => Progress::Whole,
            None => Progress::More,
        };
        Ok(())
    }
}

impl Items {
    pub fn new(source: Source, callbacks: Py<Callbacks>) -> Items {
        let state = State {
            source,
            ahead: [VecDeque::new(), VecDeque::new()],
            steps: [4, 4],
            progress: Progress::More,
        };
        let state = Arc::new(Held::new("iterator", Mutex::new(state)));
        Items { state, end: End::Front, callbacks }
    }

    fn step<'py>(&self, py: Python<'py>, end: End) -> PyResult<Option<Bound<'py, PyAny>>> {
        // What was read ahead is there without waiting, so without letting the interpreter go.
        let ready = self.state.try_write().and_then(|mut state| {
            let state = state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.ahead[end as usize].pop_front()
        });
        let found = match ready {
            Some(found) => Some(found),
            None => call(py, || {
                let mut state = self.state.write()?;
                state.get_mut().unwrap_or_else(PoisonError::into_inner).next(end)
            })?,
        };
        let Some((key, value)) = found else { return Ok(None) };
        let key = PyBytes::new(py, &key);
        let Some(value) = value else { return Ok(Some(key.into_any())) };
        Ok(Some((key, PyBytes::new(py, &value)).into_pyobject(py)?.into_any()))
    }
}

#[pymethods]
impl Items {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.step(py, self.end)
    }

    /// An iterator over the same from the other end: what one gives, the other does not.
    fn __reversed__(&self, py: Python<'_>) -> Items {
        let end = match self.end {
            End::Front => End::Back,
            End::Back => End::Front,
        };
        Items { state: Arc::clone(&self.state), end, callbacks: self.callbacks.clone_ref(py) }
    }

    /// Lets go of the table's files; the iterator ends with `ClosedError`, and so does that from the other end.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.state.take().map(drop))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.callbacks)
    }
}

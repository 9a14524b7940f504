//! Answers of any number in the shape of Arrow: offsets, and one piece of bytes.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyMemoryView, PyTuple};

use crate::fault::Outcome;

/// A thread keeps no more than so much of its lookups' memory.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_ITEMS: usize = 1 << 14;

/// Byte strings, some of which are missing.
#[derive(Default)]
pub struct Packed {
    data: Vec<u8>,
    /// One more than there are items; a missing one has no bytes.
    offsets: Vec<i64>,
    /// 1 for each item that is there.
    found: Vec<u8>,
}

impl Packed {
    pub fn with_room(items: usize, bytes: usize) -> Packed {
        let mut offsets = Vec::with_capacity(items + 1);
        offsets.push(0);
        Packed { data: Vec::with_capacity(bytes), offsets, found: Vec::with_capacity(items) }
    }

    /// What a lookup finds, with the memory that this thread's last one had.
    pub fn looked_up(
        lookup: impl FnOnce(&mut varvite::Values) -> varvite::Result<()>,
    ) -> Outcome<Packed> {
        thread_local! {
            static FOUND: Cell<varvite::Values> = Cell::default();
        }
        let mut values = FOUND.take();
        lookup(&mut values)?;
        let packed = Packed::of(&values);
        if packed.data.len() <= KEPT_BYTES && packed.len() <= KEPT_ITEMS {
            FOUND.set(values);
        }
        Ok(packed)
    }

    pub fn push(&mut self, item: Option<&[u8]>) {
        if let Some(bytes) = item {
            self.data.extend_from_slice(bytes);
        }
        self.offsets.push(self.data.len() as i64);
        self.found.push(u8::from(item.is_some()));
    }

    pub fn of(values: &varvite::Values) -> Packed {
        let bytes = values.iter().flatten().map(<[u8]>::len).sum();
        let mut packed = Packed::with_room(values.len(), bytes);
        values.iter().for_each(|it| packed.push(it));
        packed
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }

    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let span = self.offsets[index] as usize..self.offsets[index + 1] as usize;
        (self.found[index] == 1).then(|| &self.data[span])
    }

    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|index| self.get(index))
    }
}

/// The values of the keys of a lookup, in their order: a sequence of `bytes` and `None`, in one piece of memory that
/// arrays can be laid over.
#[pyclass(frozen, sequence, module = "varvite")]
pub struct Values(Arc<Packed>);

impl Values {
    pub fn new(packed: Packed) -> Values {
        Values(Arc::new(packed))
    }

    pub fn packed(&self) -> &Packed {
        &self.0
    }

    fn view<'py>(&self, py: Python<'py>, part: Part) -> PyResult<Bound<'py, PyMemoryView>> {
        let buffer = Bound::new(py, Buffer::new(Arc::clone(&self.0), part))?;
        PyMemoryView::from(buffer.as_any())
    }
}

fn bytes_at<'py>(py: Python<'py>, packed: &Packed, index: usize) -> Option<Bound<'py, PyBytes>> {
    packed.get(index).map(|it| PyBytes::new(py, it))
}

fn place(index: isize, length: usize) -> PyResult<usize> {
    let from_end = index.checked_add_unsigned(length).unwrap_or(-1);
    let found = usize::try_from(if index < 0 { from_end } else { index });
    found.ok().filter(|it| *it < length).ok_or_else(|| {
        PyIndexError::new_err(format!("there are {length} items, and none at {index}"))
    })
}

#[pymethods]
impl Values {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(bytes_at(py, &self.0, place(index, self.0.len())?))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.to_list(py)?.try_iter()?.into_any())
    }

    fn __repr__(&self) -> String {
        let found = self.0.iter().flatten().count();
        format!("Values({} items, {found} found, {} bytes)", self.0.len(), self.0.data.len())
    }

    /// As a list.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, (0..self.0.len()).map(|it| bytes_at(py, &self.0, it)))
    }

    /// The bytes of all values, one after the other.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.view(py, Part::Data)
    }

    /// Where each value begins in `data`, and where the last one ends: numbers of 64 bits.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.view(py, Part::Offsets)
    }

    /// Whether each is there.
    #[getter]
    fn found<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        self.view(py, Part::Found)
    }

    /// Offsets, data and found as arrays of numpy, without a copy.
    fn to_numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        static FROM_BUFFER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let from_buffer = FROM_BUFFER.get_or_try_init(py, || {
            Ok::<_, PyErr>(py.import("numpy")?.getattr("frombuffer")?.unbind())
        })?;
        let arrays =
            [(Part::Offsets, "q"), (Part::Data, "B"), (Part::Found, "?")].map(|(part, format)| {
                let buffer = Buffer::new(Arc::clone(&self.0), part);
                // Of a buffer without bytes numpy makes nothing by itself.
                if buffer.shape[0] == 0 {
                    return py.import("numpy")?.call_method1("empty", (0, format));
                }
                from_buffer.bind(py).call1((Bound::new(py, buffer)?, format))
            });
        PyTuple::new(py, arrays.into_iter().collect::<PyResult<Vec<_>>>()?)
    }

    /// As a `pyarrow.LargeBinaryArray` over the same bytes; what is missing is null.
    fn to_arrow<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let arrow = py.import("pyarrow")?;
        let buffer = |part| arrow.call_method1("py_buffer", (self.view(py, part)?,));
        let mut valid = vec![0_u8; self.0.len().div_ceil(8)];
        for (index, found) in self.0.found.iter().enumerate() {
            valid[index / 8] |= found << (index % 8);
        }
        let valid = arrow.call_method1("py_buffer", (PyBytes::new(py, &valid),))?;
        let buffers = (valid, buffer(Part::Offsets)?, buffer(Part::Data)?);
        arrow.getattr("Array")?.call_method1(
            "from_buffers",
            (
                arrow.call_method0("large_binary")?,
                self.0.len(),
                PyList::new(py, [buffers.0, buffers.1, buffers.2])?,
            ),
        )
    }
}

/// Keys with their values, in the order of the keys.
#[pyclass(frozen, sequence, module = "varvite")]
pub struct Entries {
    keys: Py<Values>,
    values: Py<Values>,
}

impl Entries {
    pub fn new(py: Python<'_>, keys: Packed, values: Packed) -> PyResult<Entries> {
        Ok(Entries {
            keys: Py::new(py, Values::new(keys))?,
            values: Py::new(py, Values::new(values))?,
        })
    }

    fn at<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyTuple>> {
        let (keys, values) = (&self.keys.get().0, &self.values.get().0);
        (bytes_at(py, keys, index), bytes_at(py, values, index)).into_pyobject(py)
    }
}

#[pymethods]
impl Entries {
    fn __len__(&self) -> usize {
        self.keys.get().0.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyTuple>> {
        self.at(py, place(index, self.__len__())?)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let items = (0..self.__len__()).map(|it| self.at(py, it)).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, items)?.try_iter()?.into_any())
    }

    fn __repr__(&self) -> String {
        format!("Entries({} items)", self.__len__())
    }

    /// The keys.
    #[getter]
    fn keys(&self, py: Python<'_>) -> Py<Values> {
        self.keys.clone_ref(py)
    }

    /// The values.
    #[getter]
    fn values(&self, py: Python<'_>) -> Py<Values> {
        self.values.clone_ref(py)
    }
}

#[derive(Clone, Copy)]
enum Part {
    Data,
    Offsets,
    Found,
}

/// Memory of an answer, to be read as long as somebody holds it.
#[pyclass(frozen, module = "varvite")]
pub struct Buffer {
    packed: Arc<Packed>,
    part: Part,
    shape: [ffi::Py_ssize_t; 1],
    strides: [ffi::Py_ssize_t; 1],
}

impl Buffer {
    fn new(packed: Arc<Packed>, part: Part) -> Buffer {
        let (items, bytes) = match part {
            Part::Data => (packed.data.len(), 1),
            Part::Offsets => (packed.offsets.len(), 8),
            Part::Found => (packed.found.len(), 1),
        };
        Buffer { packed, part, shape: [items as ffi::Py_ssize_t], strides: [bytes] }
    }
}

#[pymethods]
impl Buffer {
    /// # Safety
    /// Python calls it with a place for a view.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() || flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("an answer can be read only: copy it to change it"));
        }
        let buffer = slf.get();
        let (start, format): (*const u8, &CStr) = match buffer.part {
            Part::Data => (buffer.packed.data.as_ptr(), c"B"),
            Part::Offsets => (buffer.packed.offsets.as_ptr().cast(), c"q"),
            Part::Found => (buffer.packed.found.as_ptr(), c"?"),
        };
        let asked = |flag| flags & flag == flag;
        // SAFETY: Python gives a place for a view. What it is told of is in an object that does not move and that the
        // view holds, never changed, and as long as is said.
        unsafe {
            (*view).buf = start.cast_mut().cast::<c_void>();
            (*view).len = buffer.shape[0] * buffer.strides[0];
            (*view).readonly = 1;
            (*view).itemsize = buffer.strides[0];
            (*view).format = if asked(ffi::PyBUF_FORMAT) {
                format.as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).ndim = 1;
            (*view).shape = if asked(ffi::PyBUF_ND) {
                buffer.shape.as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).strides = if asked(ffi::PyBUF_STRIDES) {
                buffer.strides.as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.clone().into_ptr();
        }
        Ok(())
    }
}

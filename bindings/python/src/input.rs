//! What Python passes: buffers, arrays of keys, paths, bounds. What is not `bytes` is copied before the interpreter is
//! let go, because another thread may change it then.

use std::borrow::Cow;
use std::ffi::CStr;
use std::ops::Bound as KeyBound;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use varvite::context::CommitHash;

use crate::packed::Values;

/// A buffer of Python, asked for and given back.
struct Raw(Box<ffi::Py_buffer>);

impl Raw {
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Raw> {
        let mut raw = Raw(Box::new(ffi::Py_buffer::new()));
        // SAFETY: the interpreter is attached, the object is alive, and the place is one for a view; what it says
        // stays until it is released.
        let failed = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *raw.0, ffi::PyBUF_FULL_RO)
        };
        if failed != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(raw)
    }

    /// Whether its items are addresses, of objects or of others, which say nothing to whoever reads them later.
    fn has_addresses(&self) -> bool {
        // A name between colons is no format.
        let mut format = self.format();
        while let Some((code, rest)) = format.split_first() {
            format = match code {
                b'O' | b'P' | b'&' | b'X' => return true,
                b':' => rest.iter().position(|it| *it == b':').map_or(&[], |end| &rest[end + 1..]),
                _ => rest,
            };
        }
        false
    }

    fn bytes(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        if self.has_addresses() {
            return Err(PyTypeError::new_err(
                "a buffer holds objects, whose bytes are their addresses: pass an array of numbers or bytes, as by .astype(\"S\")",
            ));
        }
        let mut copy: Vec<u8> = Vec::new();
        // An array may say that it has more than there is memory, by strides of 0.
        make_room(&mut copy, self.0.len as usize)?;
        // SAFETY: there is room for as many bytes as the view says it has, and all of them are written when it
        // succeeds.
        unsafe {
            let failed = ffi::PyBuffer_ToContiguous(
                copy.as_mut_ptr().cast(),
                &raw const *self.0,
                self.0.len,
                b'C' as std::ffi::c_char,
            );
            if failed != 0 {
                return Err(PyErr::fetch(py));
            }
            copy.set_len(self.0.len as usize);
        }
        Ok(copy)
    }

    fn shape(&self) -> &[ffi::Py_ssize_t] {
        if self.0.ndim == 0 || self.0.shape.is_null() {
            return &[];
        }
        // SAFETY: a view has as many lengths as dimensions.
        unsafe { std::slice::from_raw_parts(self.0.shape, self.0.ndim as usize) }
    }

    fn format(&self) -> &[u8] {
        if self.0.format.is_null() {
            return b"B";
        }
        // SAFETY: a format is a text of C.
        unsafe { CStr::from_ptr(self.0.format) }.to_bytes()
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: it was filled by `PyObject_GetBuffer`, or is empty, and the interpreter is attached: nothing passes
        // one on.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
    }
}

fn no_text(what: &str) -> PyErr {
    PyTypeError::new_err(format!("the {what} is a str: pass bytes, as by .encode()"))
}

/// The bytes of a `bytes` where they lie, and of any other buffer as a copy.
pub fn bytes<'a>(object: &'a Bound<'_, PyAny>, what: &str) -> PyResult<Cow<'a, [u8]>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Cow::Borrowed(bytes.as_bytes()));
    }
    if object.is_instance_of::<PyString>() {
        return Err(no_text(what));
    }
    let raw = Raw::of(object).map_err(|_| {
        PyTypeError::new_err(format!(
            "the {what} is no buffer: pass bytes, bytearray, memoryview or an array"
        ))
    })?;
    Ok(Cow::Owned(raw.bytes(object.py())?))
}

/// Room for more, or `MemoryError`: to ask for memory in vain would otherwise end the process.
fn make_room<T>(items: &mut Vec<T>, more: usize) -> PyResult<()> {
    items.try_reserve(more).map_err(|_| no_memory(more.saturating_mul(size_of::<T>())))
}

#[cold]
pub fn no_memory(bytes: usize) -> PyErr {
    PyMemoryError::new_err(format!("there is no memory for {bytes} bytes: pass less at once"))
}

/// Many byte strings in one piece.
#[derive(Clone, Default)]
pub struct Flat {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Flat {
    fn push(&mut self, piece: &[u8]) -> PyResult<()> {
        make_room(&mut self.bytes, piece.len())?;
        make_room(&mut self.ends, 1)?;
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| &self.bytes[std::mem::replace(&mut start, *end)..*end])
    }

    /// Where each lies.
    pub fn pieces(&self) -> Vec<&[u8]> {
        self.iter().collect()
    }
}

/// Many byte strings: a sequence of buffers, an array of two dimensions whose rows they are, what a lookup gave, or a
/// pair of offsets and bytes as in Arrow.
pub fn flat(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Flat> {
    let py = object.py();
    if let Ok(list) = object.cast::<PyList>() {
        let mut flat = Flat::default();
        make_room(&mut flat.ends, list.len())?;
        for item in list.iter() {
            flat.push(&bytes(&item, what)?)?;
        }
        return Ok(flat);
    }
    if let Ok(values) = object.cast::<Values>() {
        return whole(values.get(), what);
    }
    if let Ok(pair) = object.cast::<PyTuple>()
        && pair.len() == 2
        && is_array(&pair.get_item(0)?)
    {
        return from_offsets(&pair.get_item(0)?, &pair.get_item(1)?, what);
    }
    if object.is_instance_of::<PyString>() {
        return Err(no_text(what));
    }
    if !object.is_instance_of::<PyBytes>() {
        if let Ok(raw) = Raw::of(object) {
            return rows(py, &raw, what);
        }
        if let Ok(items) = object.try_iter() {
            let mut flat = Flat::default();
            for item in items {
                flat.push(&bytes(&item?, what)?)?;
            }
            return Ok(flat);
        }
    }
    Err(PyTypeError::new_err(format!(
        "the {what}s are one buffer, or none: pass a sequence of buffers, or an array of two dimensions"
    )))
}

/// Whether it is a buffer of whole numbers, and not the first of two keys.
fn is_array(object: &Bound<'_, PyAny>) -> bool {
    !object.is_instance_of::<PyBytes>() && Raw::of(object).is_ok_and(|it| it.0.itemsize >= 4)
}

/// Rows of bytes.
fn rows(py: Python<'_>, raw: &Raw, what: &str) -> PyResult<Flat> {
    let &[count, width] = raw.shape() else {
        return Err(PyTypeError::new_err(format!(
            "an array of {what}s has {} dimensions: make it two, as by .reshape(-1, width), or pass a sequence of buffers",
            raw.0.ndim
        )));
    };
    if !matches!(raw.format(), b"B" | b"b" | b"c" | b"|u1" | b"<B" | b"@B") {
        return Err(PyTypeError::new_err(format!(
            "an array of {what}s has items of {} bytes: make them single bytes, as by .view(numpy.uint8)",
            raw.0.itemsize
        )));
    }
    let (count, width) = (count as usize, width as usize);
    let mut flat = Flat { bytes: raw.bytes(py)?, ends: Vec::new() };
    // Rows of no bytes take memory here alone.
    make_room(&mut flat.ends, count)?;
    flat.ends.extend((1..=count).map(|it| it * width));
    Ok(flat)
}

fn whole(values: &Values, what: &str) -> PyResult<Flat> {
    let mut flat = Flat::default();
    for value in values.packed().iter() {
        let value = value.ok_or_else(|| {
            PyValueError::new_err(format!("a {what} among the values was not found: leave it out"))
        })?;
        flat.push(value)?;
    }
    Ok(flat)
}

fn from_offsets(offsets: &Bound<'_, PyAny>, data: &Bound<'_, PyAny>, what: &str) -> PyResult<Flat> {
    let raw = Raw::of(offsets)?;
    let bytes = raw.bytes(offsets.py())?;
    let mut numbers: Vec<i64> = Vec::new();
    make_room(&mut numbers, bytes.len() / raw.0.itemsize.max(1) as usize)?;
    match (raw.format().trim_ascii_start(), raw.0.itemsize) {
        (b"q" | b"l" | b"<q" | b"<l", 8) => {
            numbers.extend(bytes.as_chunks().0.iter().map(|it| i64::from_ne_bytes(*it)));
        }
        (b"i" | b"l" | b"<i" | b"<l", 4) => {
            numbers.extend(bytes.as_chunks().0.iter().map(|it| i64::from(i32::from_ne_bytes(*it))));
        }
        _ => {
            return Err(PyTypeError::new_err(format!(
                "the offsets of {what}s are no whole numbers of 4 or 8 bytes: pass int32 or int64"
            )));
        }
    }
    let data = self::bytes(data, what)?;
    let in_order = numbers.windows(2).all(|it| it[0] <= it[1]);
    let inside = |it: i64| usize::try_from(it).is_ok_and(|it| it <= data.len());
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return Err(PyValueError::new_err(
            "there are no offsets: pass one more than there are items",
        ));
    };
    if !in_order || !inside(first) || !inside(last) {
        return Err(PyValueError::new_err(format!(
            "the offsets of {what}s must grow, from 0 to {} at most",
            data.len()
        )));
    }
    let (first, last) = (first as usize, last as usize);
    let mut flat = Flat::default();
    make_room(&mut flat.bytes, last - first)?;
    flat.bytes.extend_from_slice(&data[first..last]);
    make_room(&mut flat.ends, numbers.len() - 1)?;
    flat.ends.extend(numbers[1..].iter().map(|it| *it as usize - first));
    Ok(flat)
}

/// A path: a `str` or `bytes` whose steps are parted by `/`, or a sequence of steps, each a `str` or a buffer. Between two
/// `/`, and at an end, there is no step; one without bytes stands in a sequence alone.
pub fn path(object: &Bound<'_, PyAny>) -> PyResult<Flat> {
    let mut flat = Flat::default();
    extend_path(&mut flat, object)?;
    Ok(flat)
}

/// Many paths. A `str` would be one for each of its letters.
pub fn paths(object: &Bound<'_, PyAny>) -> PyResult<Vec<Flat>> {
    if object.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(
            "the paths are a str, which is one path: pass a sequence of paths",
        ));
    }
    object.try_iter()?.map(|it| path(&it?)).collect()
}

fn extend_path(flat: &mut Flat, object: &Bound<'_, PyAny>) -> PyResult<()> {
    if let Ok(steps) = object.cast::<PyTuple>() {
        for step in steps.iter_borrowed() {
            push_step(flat, &step)?;
        }
        return Ok(());
    }
    if let Ok(text) = object.cast::<PyString>() {
        split(flat, text.to_str()?.as_bytes())?;
    } else if let Ok(text) = object.cast::<PyBytes>() {
        split(flat, text.as_bytes())?;
    } else {
        let steps = object.try_iter().map_err(|_| {
            PyTypeError::new_err(
                "a path is a str, bytes, or a sequence of steps that are str or buffers",
            )
        })?;
        for step in steps {
            push_step(flat, &step?)?;
        }
    }
    Ok(())
}

/// Most paths are no longer.
const NEAR: usize = 8;

/// The steps of a path: where they lie, in what Python never changes and the path keeps, or else copied.
pub enum Steps<'a> {
    Near([&'a [u8]; NEAR], usize),
    Copied(Flat),
}

impl<'a> Steps<'a> {
    pub fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Steps<'a>> {
        let (mut near, mut count) = ([&[][..]; NEAR], 0);
        let is_near = if let Ok(steps) = object.cast::<PyTuple>() {
            steps.len() <= NEAR
                && steps.iter_borrowed().try_fold(true, |is_near, step| {
                    let Some(bytes) = lent(step)? else { return Ok::<_, PyErr>(false) };
                    near[count] = bytes;
                    count += 1;
                    Ok(is_near)
                })?
        } else {
            let text = match object.cast::<PyString>() {
                Ok(text) => Some(text.to_str()?.as_bytes()),
                Err(_) => object.cast::<PyBytes>().ok().map(PyBytesMethods::as_bytes),
            };
            text.is_some_and(|text| {
                steps_of(text).all(|step| {
                    let has_room = count < NEAR;
                    if has_room {
                        near[count] = step;
                        count += 1;
                    }
                    has_room
                })
            })
        };
        if is_near { Ok(Steps::Near(near, count)) } else { Ok(Steps::Copied(path(object)?)) }
    }

    pub fn optional(object: Option<&'a Bound<'_, PyAny>>) -> PyResult<Steps<'a>> {
        object.map_or(Ok(Steps::Near([&[][..]; NEAR], 0)), Steps::of)
    }

    pub fn with<T>(&self, body: impl FnOnce(&[&[u8]]) -> T) -> T {
        match self {
            Steps::Near(steps, count) => body(&steps[..*count]),
            Steps::Copied(flat) => body(&flat.pieces()),
        }
    }
}

/// The bytes of a step that never change: of a `str` or `bytes`.
fn lent<'a>(step: Borrowed<'a, '_, PyAny>) -> PyResult<Option<&'a [u8]>> {
    let (bytes, text) = (step.cast::<PyBytes>(), step.cast::<PyString>());
    let bytes = match (&bytes, &text) {
        (Ok(bytes), _) => bytes.as_bytes(),
        (_, Ok(text)) => text.to_str()?.as_bytes(),
        _ => return Ok(None),
    };
    // SAFETY: the object is alive for as long as is said, and has its bytes unchanged as long as it lives.
    Ok(Some(unsafe { std::slice::from_raw_parts(bytes.as_ptr(), bytes.len()) }))
}

fn steps_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|it| *it == b'/').filter(|step| !step.is_empty())
}

fn split(flat: &mut Flat, text: &[u8]) -> PyResult<()> {
    steps_of(text).try_for_each(|step| flat.push(step))
}

fn push_step(flat: &mut Flat, step: &Bound<'_, PyAny>) -> PyResult<()> {
    match step.cast::<PyString>() {
        Ok(text) => flat.push(text.to_str()?.as_bytes()),
        Err(_) => flat.push(&bytes(step, "step of a path")?),
    }
}

/// A path that may be left out: the root.
pub fn optional_path(object: Option<&Bound<'_, PyAny>>) -> PyResult<Flat> {
    object.map_or_else(|| Ok(Flat::default()), path)
}

/// The keys from this one on; the first of a range that is given without it.
#[pyclass(frozen, module = "varvite")]
pub struct Included(Py<PyAny>);

/// The keys beyond this one, without it.
#[pyclass(frozen, module = "varvite")]
pub struct Excluded(Py<PyAny>);

macro_rules! bounds {
    ($($name:ident)*) => {$(
        #[pymethods]
        impl $name {
            #[new]
            fn new(key: Py<PyAny>) -> Self {
                $name(key)
            }

            #[getter]
            fn key(&self, py: Python<'_>) -> Py<PyAny> {
                self.0.clone_ref(py)
            }

            fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
                Ok(format!("{}({})", stringify!($name), self.0.bind(py).repr()?))
            }

            /// Nothing is cleared: what never changes is alone in no circle.
            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                visit.call(&self.0)
            }
        }
    )*};
}

bounds! { Included Excluded }

/// A bound of a range. A bare key is the first of the range, or the first beyond it.
pub fn bound(object: Option<&Bound<'_, PyAny>>, is_start: bool) -> PyResult<KeyBound<Vec<u8>>> {
    let Some(object) = object else { return Ok(KeyBound::Unbounded) };
    let py = object.py();
    if let Ok(included) = object.cast::<Included>() {
        return Ok(KeyBound::Included(bytes(included.get().0.bind(py), "bound")?.into_owned()));
    }
    if let Ok(excluded) = object.cast::<Excluded>() {
        return Ok(KeyBound::Excluded(bytes(excluded.get().0.bind(py), "bound")?.into_owned()));
    }
    let key = bytes(object, "bound")?.into_owned();
    Ok(if is_start { KeyBound::Included(key) } else { KeyBound::Excluded(key) })
}

/// Both bounds of a range.
pub type Range = (KeyBound<Vec<u8>>, KeyBound<Vec<u8>>);

pub fn range(start: Option<&Bound<'_, PyAny>>, stop: Option<&Bound<'_, PyAny>>) -> PyResult<Range> {
    Ok((bound(start, true)?, bound(stop, false)?))
}

/// As the engine takes it.
pub fn slice(bound: &KeyBound<Vec<u8>>) -> KeyBound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// A hash: 32 bytes, or its text, `Co…` or 64 hex digits.
pub fn hash<H: From<[u8; 32]>>(object: &Bound<'_, PyAny>) -> PyResult<H> {
    if let Ok(text) = object.cast::<PyString>() {
        return varvite::context::hash::from_text(text.to_str()?)
            .map(H::from)
            .map_err(|it| crate::fault::raise(object.py(), it.into()));
    }
    let found = bytes(object, "hash")?;
    <[u8; 32]>::try_from(found.as_ref()).map(H::from).map_err(|_| {
        crate::fault::invalid(
            object.py(),
            format!(
                "a hash has 32 bytes, and this one has {}: pass 32 bytes or a text",
                found.len()
            ),
        )
    })
}

/// Many hashes.
pub fn hashes(object: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<CommitHash>> {
    let Some(object) = object else { return Ok(Vec::new()) };
    object.try_iter()?.map(|it| hash(&it?)).collect()
}

/// One of several words.
pub fn choose<T: Copy>(
    py: Python<'_>,
    what: &str,
    given: &str,
    words: &[(&str, T)],
) -> PyResult<T> {
    if let Some((_, found)) = words.iter().find(|(word, _)| *word == given) {
        return Ok(*found);
    }
    let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    Err(crate::fault::invalid(
        py,
        format!("{what} is {given:?}: choose one of {}", known.join(", ")),
    ))
}

/// Memory that a program gives the library for something. Part of it is taken at once, so a number that cannot be is
/// refused before: the system would end the process.
pub fn budget(py: Python<'_>, bytes: u64, name: &str) -> PyResult<u64> {
    // SAFETY: both ask for a number.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let most = match (u64::try_from(pages), u64::try_from(size)) {
        (Ok(pages), Ok(size)) if pages > 0 => pages.saturating_mul(size),
        // A system that does not say has at least as much as a phone.
        _ => 4 << 30,
    };
    if bytes <= most {
        return Ok(bytes);
    }
    let detail =
        format!("{name} is {bytes}, and this machine has {most} bytes of memory: pass less");
    Err(crate::fault::invalid(py, detail))
}

/// Options by keyword, each asked for by its name.
pub struct Keywords<'a, 'py> {
    given: Option<&'a Bound<'py, PyDict>>,
}

impl<'a, 'py> Keywords<'a, 'py> {
    /// One that is not known is an error.
    pub fn new(given: Option<&'a Bound<'py, PyDict>>, known: &[&str]) -> PyResult<Self> {
        for key in given.iter().flat_map(|it| it.keys()) {
            let key: String = key.extract()?;
            if !known.contains(&&*key) {
                return Err(PyTypeError::new_err(format!(
                    "there is no option {key}: there are {}",
                    known.join(", ")
                )));
            }
        }
        Ok(Keywords { given })
    }

    /// What was given, if it is not `None`.
    pub fn object(&self, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(given) = self.given else { return Ok(None) };
        Ok(given.get_item(name)?.filter(|it| !it.is_none()))
    }

    pub fn get<T: FromPyObjectOwned<'py>>(&self, name: &str) -> PyResult<Option<T>> {
        let Some(found) = self.object(name)? else { return Ok(None) };
        let found = found.extract::<T>().map_err(|error| {
            let error: PyErr = error.into();
            PyTypeError::new_err(format!("{name}: {}", error.value(found.py())))
        })?;
        Ok(Some(found))
    }

    /// Sets `place` to what was given.
    pub fn set<T: FromPyObjectOwned<'py>>(&self, name: &str, place: &mut T) -> PyResult<()> {
        if let Some(found) = self.get(name)? {
            *place = found;
        }
        Ok(())
    }

    /// Memory in bytes, which the machine must have.
    pub fn budget(&self, py: Python<'_>, name: &str, place: &mut u64) -> PyResult<()> {
        self.set(name, place)?;
        budget(py, *place, name).map(drop)
    }

    /// One of several words.
    pub fn choose<T: Copy>(
        &self,
        py: Python<'_>,
        name: &str,
        words: &[(&str, T)],
        place: &mut T,
    ) -> PyResult<()> {
        if let Some(word) = self.get::<String>(name)? {
            *place = choose(py, name, &word, words)?;
        }
        Ok(())
    }
}

//! Why a call fails, and the one way in: no panic leaves [`call`].

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use varvite::{Error, Kind};

use crate::held;

/// Why a call fails.
pub enum Fault {
    Engine(Error),
    /// A callback raised it, or an argument is of the wrong type.
    Raised(PyErr),
    /// Something panicked and said this.
    Panic(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Engine(error)
    }
}

impl From<PyErr> for Fault {
    fn from(error: PyErr) -> Fault {
        Fault::Raised(error)
    }
}

/// The result of what a call does.
pub type Outcome<T = ()> = Result<T, Fault>;

impl Fault {
    pub fn invalid(detail: impl Into<String>) -> Fault {
        Fault::Engine(Error::invalid(detail))
    }

    pub fn closed(what: &str) -> Fault {
        Fault::Engine(Error::new(Kind::Closed, format!("the {what} was closed: open it again")))
    }
}

/// The exception for `fault`.
pub fn raise(py: Python<'_>, fault: Fault) -> PyErr {
    match fault {
        Fault::Engine(error) => exception(py, error.kind().name(), error.to_string()),
        Fault::Raised(error) => error,
        Fault::Panic(what) => exception(
            py,
            "panic",
            format!("varvite found a fault of its own: {what}; report it, and close what you used"),
        ),
    }
}

/// An exception that says that the call itself is wrong.
pub fn invalid(py: Python<'_>, detail: impl Into<String>) -> PyErr {
    exception(py, Kind::Invalid.name(), detail.into())
}

/// The classes are Python's: `varvite._errors` maps the names of kinds to them.
fn exception(py: Python<'_>, kind: &str, sentence: String) -> PyErr {
    static CLASSES: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let found = CLASSES
        .get_or_try_init(py, || Ok(py.import("varvite._errors")?.getattr("BY_KIND")?.unbind()))
        .and_then(|classes| classes.bind(py).get_item(kind))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match found {
        Ok(class) => PyErr::from_type(class, (sentence,)),
        Err(_) => PyRuntimeError::new_err(sentence),
    }
}

/// What unwinds through the engine when a merge operator raises, where the engine takes no error: a text, because the
/// engine catches what an operator does to a table that somebody else updates, and quotes it.
const OPERATOR_FAILED: &str = "a merge operator raised ";

thread_local! {
    /// How many callbacks this thread is in that may not call the library: the engine calls these from its middle.
    static INNER: Cell<u32> = const { Cell::new(0) };
    /// How many it is in whose calls have a store in use.
    static LOCKED: Cell<u32> = const { Cell::new(0) };
    /// What a merge operator raised, on its way to the call.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Counts a callback as long as it lives.
struct Entered(&'static std::thread::LocalKey<Cell<u32>>);

impl Entered {
    fn new(count: &'static std::thread::LocalKey<Cell<u32>>) -> Entered {
        count.with(|it| it.set(it.get() + 1));
        Entered(count)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.with(|it| it.set(it.get() - 1));
    }
}

/// Whether this thread is in the engine's middle, where nothing of the library may be called or dropped.
pub fn is_inner() -> bool {
    INNER.try_with(Cell::get).unwrap_or(0) > 0
}

/// Whether a call of this thread has a store in use and called Python: to wait could be to wait for ever.
pub fn may_not_wait() -> bool {
    LOCKED.try_with(Cell::get).unwrap_or(0) > 0
}

/// Calls Python from the engine's middle.
pub fn inner_callback<T>(callback: impl FnOnce(Python<'_>) -> T) -> T {
    let _entered = Entered::new(&INNER);
    callback_of(callback)
}

/// Calls Python where it may call the library.
pub fn outer_callback<T>(callback: impl FnOnce(Python<'_>) -> T) -> T {
    callback_of(callback)
}

/// The same while a store is in use.
pub fn locked_callback<T>(callback: impl FnOnce(Python<'_>) -> T) -> T {
    let _entered = Entered::new(&LOCKED);
    callback_of(callback)
}

fn callback_of<T>(callback: impl FnOnce(Python<'_>) -> T) -> T {
    let forks = held::forks();
    let answer = Python::attach(callback);
    if held::forks() != forks {
        returned_in_child();
    }
    answer
}

/// Ends a process that was forked in a callback and came back from it. It stands in the middle of its parent's call: to
/// go on, or to unwind, would write to the parent's files and remove them.
#[cold]
fn returned_in_child() -> ! {
    let said = b"varvite: a process that was forked in a callback returned from it, which would do the parent's \
        work twice; it ends here: call os._exit in the callback\n";
    // SAFETY: the bytes are there. That nobody may read them is no reason to go on.
    let _ = unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
    std::process::abort()
}

/// Leaves the engine because a merge operator raised `error`; [`call`] raises it again.
pub fn unwind_operator(py: Python<'_>, error: PyErr) -> String {
    let text = format!("{OPERATOR_FAILED}{}", error.value(py));
    RAISED.with(|it| *it.borrow_mut() = Some(error));
    text
}

/// See [`unwind_operator`].
pub fn unwind(text: String) -> ! {
    resume_unwind(Box::new(text))
}

/// The exception of a callback to which the engine gives errors on: it gets one to stop, and the exception is kept.
#[derive(Default)]
pub struct Answers(Option<PyErr>);

impl Answers {
    /// What a callback returned.
    pub fn check<T>(&mut self, outcome: PyResult<T>) -> varvite::Result<T> {
        outcome.map_err(|error| {
            self.0 = Some(error);
            Error::invalid("a callback of the program failed")
        })
    }

    /// The outcome of the call in which the callback was called.
    pub fn outcome<T>(self, outcome: varvite::Result<T>) -> Outcome<T> {
        match (outcome, self.0) {
            (Err(_), Some(error)) => Err(Fault::Raised(error)),
            (outcome, _) => Ok(outcome?),
        }
    }
}

/// Does `body` without the interpreter, so that other threads of Python run meanwhile.
pub fn call<T: Send>(py: Python<'_>, body: impl FnOnce() -> Outcome<T> + Send) -> PyResult<T> {
    if is_inner() {
        return Err(refused(py));
    }
    let outcome = py.detach(|| {
        RAISED.with(|it| *it.borrow_mut() = None);
        let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|it| Err(caught(it)));
        held::drop_deferred();
        outcome
    });
    outcome.map_err(|fault| raise(py, fault))
}

#[cold]
fn refused(py: Python<'_>) -> PyErr {
    invalid(
        py,
        "a merge operator, an observer or an executor called varvite, which called it: return first",
    )
}

/// What was unwound.
#[cold]
pub fn caught(payload: Box<dyn Any + Send>) -> Fault {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    let fault = if text.starts_with(OPERATOR_FAILED) {
        match RAISED.with(|it| it.borrow_mut().take()) {
            Some(error) => Fault::Raised(error),
            None => Fault::invalid(text),
        }
    } else {
        Fault::Panic(text.to_owned())
    };
    forget(payload);
    fault
}

/// Drops what was unwound, under a second catch, because that might panic again.
pub fn forget(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

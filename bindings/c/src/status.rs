//! What a call returns, and the one way in: no panic and no unwinding leaves `call`.

use std::any::Any;
use std::cell::Cell;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use varvite::{Error, Kind};

use crate::handle;

/// The call did what it says.
pub const VARVITE_OK: c_int = 0;
/// The disk refused or failed: free space, fix permissions or the device, then try again.
pub const VARVITE_IO: c_int = 1;
/// Bytes on disk are not what was written: restore from a snapshot or another copy.
pub const VARVITE_CORRUPT: c_int = 2;
/// The file was written by a newer release: use that release.
pub const VARVITE_VERSION: c_int = 3;
/// Another process, or another handle, has it: close that first.
pub const VARVITE_LOCKED: c_int = 4;
/// What was named does not exist.
pub const VARVITE_MISSING: c_int = 5;
/// What was to be created exists already.
pub const VARVITE_EXISTS: c_int = 6;
/// The call itself is wrong: fix its arguments.
pub const VARVITE_INVALID: c_int = 7;
/// The handle was closed, or belongs to the process that forked: open it again.
pub const VARVITE_CLOSED: c_int = 8;
/// A sync or a rollback failed earlier, so writing has stopped: reopen the store.
pub const VARVITE_POISONED: c_int = 9;
/// A proof does not show what was looked at: ask for one that does.
pub const VARVITE_HIDDEN: c_int = 10;
/// A collection took it, as it was told to: ask a store that keeps older commits.
pub const VARVITE_COLLECTED: c_int = 11;
/// A callback of yours returned other than 0, which the error's `callback` has.
pub const VARVITE_CALLBACK: c_int = 100;
/// The library ran into a fault of its own, and caught it: report it, and close the handle.
pub const VARVITE_PANIC: c_int = 101;
/// Somebody else has what the call needs, and to wait could be for ever. In a callback that was called with a store in use:
/// return, then try again. On a shared handle: a transaction is open through which nothing is done; end it, then try again.
pub const VARVITE_BUSY: c_int = 102;

/// Bytes of the sentence of an error, its final NUL included.
pub const VARVITE_SENTENCE_BYTES: usize = 1016;

/// What went wrong. It lies with the caller, and there is nothing to free. Every call sets it when
/// it is not NULL: to VARVITE_OK and an empty sentence when all is well.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_error {
    /// The status that the call returned.
    pub kind: i32,
    /// What the callback returned, after VARVITE_CALLBACK; else 0.
    pub callback: i32,
    /// A sentence in UTF-8 that names file and place, what was expected, and the next step. What is
    /// too long is left out of its middle.
    pub sentence: [c_char; VARVITE_SENTENCE_BYTES],
}

/// Why a call fails.
#[derive(Debug)]
pub enum Fault {
    Engine(Error),
    /// A callback returned this.
    Callback(c_int),
    /// Something panicked and said this.
    Panic(String),
    /// To wait here could be to wait for ever.
    Busy,
    /// The same for a transaction through which nothing is done.
    Unused,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Engine(error)
    }
}

impl Fault {
    pub fn invalid(detail: impl Into<String>) -> Fault {
        Fault::Engine(Error::invalid(detail))
    }

    pub fn closed(detail: impl Into<String>) -> Fault {
        Fault::Engine(Error::new(Kind::Closed, detail))
    }

    fn status(&self) -> c_int {
        match self {
            Fault::Engine(error) => c_int::from(error.kind().code()),
            Fault::Callback(_) => VARVITE_CALLBACK,
            Fault::Panic(_) => VARVITE_PANIC,
            Fault::Busy | Fault::Unused => VARVITE_BUSY,
        }
    }

    pub fn sentence(&self) -> String {
        match self {
            Fault::Engine(error) => error.to_string(),
            Fault::Callback(code) => format!("{CALLBACK_FAILED}{code}"),
            Fault::Panic(what) => {
                format!("varvite found a fault of its own: {what}; report it, and close the handle")
            }
            Fault::Busy => "a callback needs what another thread is using, and waiting for it while its own caller \
                            has a store could be for ever: return, then try again"
                .to_owned(),
            Fault::Unused => "a transaction is open on these tables, and nothing is done through it, so that waiting \
                              could be for ever: commit it or close it, then try again"
                .to_owned(),
        }
    }
}

/// The result of what a call does.
pub type Outcome<T = ()> = Result<T, Fault>;

/// What unwinds through the engine when a callback fails where the engine takes no error: this and the code. It is a
/// text, because the engine catches what a merge operator does to a table that somebody else updates, and quotes it.
const CALLBACK_FAILED: &str = "a callback of the program failed and returned ";

thread_local! {
    /// How many callbacks this thread is in that may call the library.
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
    /// How many it is in that may not: the engine calls these from its middle.
    static INNER: Cell<u32> = const { Cell::new(0) };
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

/// Whether this thread is in a callback, so that waiting for a handle could be waiting for itself.
pub fn in_callback() -> bool {
    CALLBACKS.with(Cell::get) > 0
}

/// Calls a callback that may call the library.
pub fn outer_callback<T>(callback: impl FnOnce() -> T) -> T {
    callback_of(&CALLBACKS, callback)
}

/// Calls a callback that may not: while it runs, every call of this thread is an error.
pub fn inner_callback<T>(callback: impl FnOnce() -> T) -> T {
    callback_of(&INNER, callback)
}

fn callback_of<T>(
    count: &'static std::thread::LocalKey<Cell<u32>>,
    callback: impl FnOnce() -> T,
) -> T {
    let _entered = Entered::new(count);
    let forks = handle::forks();
    let answer = callback();
    if handle::forks() != forks {
        returned_in_child();
    }
    answer
}

/// Ends a process that was forked in a callback and came back from it. It stands in the middle of its parent's call: to
/// go on, or to unwind, would write to the parent's files and remove them.
#[cold]
fn returned_in_child() -> ! {
    let said = b"varvite: a process that was forked in a callback returned from it, which would do the parent's \
        work twice; it ends here: call exec or _exit in the callback\n";
    // SAFETY: the bytes are there. That nobody may read them is no reason to go on.
    let _ = unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
    std::process::abort()
}

/// Leaves the engine because a callback failed where the engine takes no error; `call` makes it one.
pub fn unwind_callback(code: c_int) -> ! {
    resume_unwind(Box::new(format!("{CALLBACK_FAILED}{code}")))
}

/// The codes of a callback to which the engine gives errors on: it gets one to stop, and the code is
/// kept for the caller.
#[derive(Default)]
pub struct Answers(Cell<c_int>);

impl Answers {
    /// What a callback returned.
    pub fn check(&self, code: c_int) -> varvite::Result<()> {
        if code == 0 {
            return Ok(());
        }
        self.0.set(code);
        Err(Error::invalid("a callback of the program failed"))
    }

    /// The outcome of the call in which the callback was called.
    pub fn outcome<T>(&self, outcome: varvite::Result<T>) -> Outcome<T> {
        match outcome {
            Err(_) if self.0.get() != 0 => Err(Fault::Callback(self.0.get())),
            outcome => Ok(outcome?),
        }
    }
}

/// Does `body`, and says in `error` and by the status what came of it.
pub fn call(error: *mut varvite_error, body: impl FnOnce() -> Outcome) -> c_int {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        handle::watch_forks();
        if !error.is_aligned() {
            return Err(Fault::invalid("the address of the error is not aligned"));
        }
        if INNER.with(Cell::get) > 0 {
            return Err(Fault::invalid(
                "a merge operator, an observer, an executor or a release called varvite, which called it: \
                 return first",
            ));
        }
        body()
    }));
    let fault = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(payload) => Some(caught(payload)),
    };
    let status = fault.as_ref().map_or(VARVITE_OK, Fault::status);
    if error.is_null() || !error.is_aligned() {
        return status;
    }
    let told = catch_unwind(AssertUnwindSafe(|| tell(error, status, fault.as_ref())));
    if let Err(payload) = told {
        forget(payload);
        return VARVITE_PANIC;
    }
    status
}

/// Writes an error to its place, of which nothing is read: the program need not have set it.
fn tell(error: *mut varvite_error, status: c_int, fault: Option<&Fault>) {
    let callback = if let Some(Fault::Callback(code)) = fault { *code } else { 0 };
    let mut sentence = [0; VARVITE_SENTENCE_BYTES];
    if let Some(fault) = fault {
        write_sentence(&fault.sentence(), &mut sentence);
    }
    // SAFETY: neither NULL nor unaligned, and the caller gives a place that nobody else uses during the call.
    unsafe {
        (&raw mut (*error).kind).write(status);
        (&raw mut (*error).callback).write(callback);
        match fault {
            // What is behind the end of an empty sentence is of no use to anybody.
            None => (&raw mut (*error).sentence).cast::<c_char>().write(0),
            Some(_) => (&raw mut (*error).sentence).write(sentence),
        }
    }
}

/// What was unwound.
pub fn caught(payload: Box<dyn Any + Send>) -> Fault {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no text");
    let code = text.strip_prefix(CALLBACK_FAILED).and_then(|code| code.parse().ok());
    let fault = code.map_or_else(|| Fault::Panic(text.to_owned()), Fault::Callback);
    forget(payload);
    fault
}

/// Drops what was unwound, under a second catch, because that might panic again.
pub fn forget(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
}

/// Writes `text` as a C string. The next step is at a sentence's end, so a long one loses its middle.
fn write_sentence(text: &str, to: &mut [c_char; VARVITE_SENTENCE_BYTES]) {
    const GAP: &str = " … ";
    let room = to.len() - 1;
    let kept = if text.len() <= room {
        text.to_owned()
    } else {
        let half = (room - GAP.len()) / 2;
        let start = text.floor_char_boundary(half);
        let end = text.ceil_char_boundary(text.len() - half);
        format!("{}{GAP}{}", &text[..start], &text[end..])
    };
    let mut length = 0;
    for byte in kept.bytes().filter(|byte| *byte != 0) {
        to[length] = byte as c_char;
        length += 1;
    }
    to[length] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(sentence: &[c_char]) -> String {
        let bytes = sentence.iter().take_while(|it| **it != 0).map(|it| *it as u8);
        String::from_utf8(bytes.collect()).unwrap()
    }

    #[test]
    fn a_long_sentence_keeps_its_beginning_and_its_end() {
        let mut sentence = [0; VARVITE_SENTENCE_BYTES];
        let text = format!("the start {} the next step", "é".repeat(2_000));
        write_sentence(&text, &mut sentence);
        let found = read(&sentence);
        assert!(found.len() > VARVITE_SENTENCE_BYTES - 10 && found.len() < VARVITE_SENTENCE_BYTES);
        assert!(found.starts_with("the start é") && found.ends_with("é the next step"));
        write_sentence("short", &mut sentence);
        assert_eq!(read(&sentence), "short");
    }

    #[test]
    fn statuses_are_the_codes_of_the_kinds() {
        let statuses = [
            VARVITE_IO,
            VARVITE_CORRUPT,
            VARVITE_VERSION,
            VARVITE_LOCKED,
            VARVITE_MISSING,
            VARVITE_EXISTS,
            VARVITE_INVALID,
            VARVITE_CLOSED,
            VARVITE_POISONED,
            VARVITE_HIDDEN,
            VARVITE_COLLECTED,
        ];
        assert_eq!(Kind::ALL.map(|kind| c_int::from(kind.code())), statuses);
    }

    #[test]
    fn every_status_has_its_name() {
        let name = |status| {
            let name = crate::types::varvite_status_name(status);
            // SAFETY: names are static and end with NUL.
            unsafe { std::ffi::CStr::from_ptr(name) }.to_str().unwrap()
        };
        for kind in Kind::ALL {
            assert_eq!(name(c_int::from(kind.code())), kind.to_string());
        }
        let others = [VARVITE_OK, VARVITE_CALLBACK, VARVITE_PANIC, VARVITE_BUSY].map(name);
        assert_eq!(others, ["ok", "callback", "panic", "busy"]);
        for status in (-1..200).filter(|it| name(*it) == "unknown") {
            assert!(!(0..=c_int::from(VARVITE_COLLECTED)).contains(&status), "{status}");
        }
    }

    #[test]
    fn an_error_that_is_not_aligned_is_not_written() {
        let mut memory = [0xa5a5_a5a5_u32; size_of::<varvite_error>() / 2];
        let odd = memory.as_mut_ptr().cast::<varvite_error>().wrapping_byte_add(1);
        let mut done = false;
        let status = call(odd, || {
            done = true;
            Ok(())
        });
        assert_eq!((status, done), (VARVITE_INVALID, false));
        assert!(memory.iter().all(|it| *it == 0xa5a5_a5a5));
    }

    #[test]
    fn a_panic_becomes_a_status_and_a_sentence() {
        // SAFETY: an error is numbers, for which zeros are values.
        let mut error: varvite_error = unsafe { std::mem::zeroed() };
        let status = call(&raw mut error, || panic!("the number {} is odd", 3));
        assert_eq!((status, error.kind), (VARVITE_PANIC, VARVITE_PANIC));
        assert!(read(&error.sentence).contains("the number 3 is odd"));
        assert_eq!(call(&raw mut error, || unwind_callback(5)), VARVITE_CALLBACK);
        assert_eq!(error.callback, 5);
        assert_eq!(call(&raw mut error, || Ok(())), VARVITE_OK);
        assert_eq!((error.kind, error.sentence[0]), (VARVITE_OK, 0));
        let inner = || inner_callback(|| call(std::ptr::null_mut(), || Ok(())));
        assert_eq!(inner(), VARVITE_INVALID);
    }
}

//! Callbacks of a session: who is told what calls cost, and who helps merges.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use varvite::{Executor, Observer, Operation};

use crate::args::{Released, optional};
use crate::handle::{put, take};
use crate::status::{Outcome, call, inner_callback, varvite_error};
use crate::types::varvite_work;

/// A batch lookup; the count is its keys.
pub const VARVITE_OPERATION_LOOKUP: u32 = 0;
/// An update; the count is its operations.
pub const VARVITE_OPERATION_UPDATE: u32 = 1;
/// Merge and write-out work; the count is its counted work in bytes.
pub const VARVITE_OPERATION_MERGE: u32 = 2;
/// A snapshot saved; the count is its segments.
pub const VARVITE_OPERATION_SAVE_SNAPSHOT: u32 = 3;
/// A snapshot opened; the count is its segments.
pub const VARVITE_OPERATION_OPEN_SNAPSHOT: u32 = 4;
/// The wait for the log in an update; the count is the update's operations.
pub const VARVITE_OPERATION_LOG: u32 = 5;
/// A checkpoint written; the count is its live tables.
pub const VARVITE_OPERATION_CHECKPOINT: u32 = 6;
/// The value of one key; the count is 1.
pub const VARVITE_OPERATION_GET: u32 = 7;
/// Steps of a cursor in one direction, told when they end; the count is the keys that they gave.
pub const VARVITE_OPERATION_RANGE: u32 = 8;
/// A transaction from its begin to its end, with what the program did meanwhile; the count is the operations that it wrote.
pub const VARVITE_OPERATION_TRANSACTION: u32 = 9;
/// An operation that a later release added.
pub const VARVITE_OPERATION_OTHER: u32 = 1000;

/// Gets counts and timings by the program's own clock. Called on the thread that called the library, so
/// it should be quick; it must not call the library.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_observer {
    /// The program's clock, in nanoseconds from any fixed point.
    pub now_ns: Option<unsafe extern "C" fn(user: *mut c_void) -> u64>,
    /// One of VARVITE_OPERATION_… on `count` things took `duration_ns`.
    pub record: Option<
        unsafe extern "C" fn(user: *mut c_void, operation: u32, duration_ns: u64, count: u64),
    >,
    /// As a `varvite_release`, for each call that was given this; may be NULL.
    pub release: Option<unsafe extern "C" fn(user: *mut c_void)>,
    /// What the callbacks get. Several threads may use it at once.
    pub user: *mut c_void,
}

/// Runs work that the library could also do itself, usually on another thread.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct varvite_executor {
    /// Takes a piece of work, to pass it to `varvite_work_run` at some time, on any thread but in this
    /// call, or to `varvite_work_close`, after which the writer does it. Must not call the library.
    pub execute: Option<unsafe extern "C" fn(user: *mut c_void, work: *mut varvite_work)>,
    /// As a `varvite_release`, for each call that was given this; may be NULL.
    pub release: Option<unsafe extern "C" fn(user: *mut c_void)>,
    /// What the callbacks get. Several threads may use it at once.
    pub user: *mut c_void,
}

/// What a `varvite_work` stands for.
pub type Work = Mutex<Box<dyn FnOnce() + Send>>;

struct HostObserver {
    now_ns: unsafe extern "C" fn(*mut c_void) -> u64,
    record: unsafe extern "C" fn(*mut c_void, u32, u64, u64),
    released: Released,
}

impl Observer for HostObserver {
    fn now_ns(&self) -> u64 {
        let user = self.released.pointer();
        // SAFETY: the program gave this function to be called with this pointer, on any thread.
        inner_callback(|| unsafe { (self.now_ns)(user) })
    }

    fn record(&self, operation: Operation, duration_ns: u64, count: u64) {
        let operation = match operation {
            Operation::Lookup => VARVITE_OPERATION_LOOKUP,
            Operation::Update => VARVITE_OPERATION_UPDATE,
            Operation::Merge => VARVITE_OPERATION_MERGE,
            Operation::SaveSnapshot => VARVITE_OPERATION_SAVE_SNAPSHOT,
            Operation::OpenSnapshot => VARVITE_OPERATION_OPEN_SNAPSHOT,
            Operation::Log => VARVITE_OPERATION_LOG,
            Operation::Checkpoint => VARVITE_OPERATION_CHECKPOINT,
            Operation::Get => VARVITE_OPERATION_GET,
            Operation::Range => VARVITE_OPERATION_RANGE,
            Operation::Transaction => VARVITE_OPERATION_TRANSACTION,
            _ => VARVITE_OPERATION_OTHER,
        };
        let user = self.released.pointer();
        // SAFETY: as above.
        inner_callback(|| unsafe { (self.record)(user, operation, duration_ns, count) });
    }
}

struct HostExecutor {
    execute: unsafe extern "C" fn(*mut c_void, *mut varvite_work),
    released: Released,
}

impl Executor for HostExecutor {
    fn execute(&self, work: Box<dyn FnOnce() + Send>) {
        // Without a handle the work is dropped, which is safe: the writer does it.
        let Ok(work) = put::<varvite_work>(Mutex::new(work)) else { return };
        let user = self.released.pointer();
        // SAFETY: as above.
        inner_callback(|| unsafe { (self.execute)(user, work) });
    }
}

/// What a program gave with the options of a session, and what it gets back of it however the call ends.
#[derive(Default)]
pub struct Host {
    observer: Option<(varvite_observer, Released)>,
    executor: Option<(varvite_executor, Released)>,
}

impl Host {
    /// Takes what can be read, before anything can fail.
    pub fn new(observer: *const varvite_observer, executor: *const varvite_executor) -> Host {
        let observer = optional(observer, "observer").ok().flatten();
        let executor = optional(executor, "executor").ok().flatten();
        Host {
            observer: observer.map(|it| (*it, Released::new(it.user, it.release))),
            executor: executor.map(|it| (*it, Released::new(it.user, it.release))),
        }
    }

    /// The observer, if one was given.
    pub fn observer(&mut self) -> Outcome<Option<Arc<dyn Observer>>> {
        let Some((given, released)) = self.observer.take() else { return Ok(None) };
        let (Some(now_ns), Some(record)) = (given.now_ns, given.record) else {
            return Err(missing("an observer needs now_ns and record"));
        };
        Ok(Some(Arc::new(HostObserver { now_ns, record, released })))
    }

    /// The executor, if one was given.
    pub fn executor(&mut self) -> Outcome<Option<Arc<dyn Executor>>> {
        let Some((given, released)) = self.executor.take() else { return Ok(None) };
        let Some(execute) = given.execute else { return Err(missing("an executor needs execute")) };
        Ok(Some(Arc::new(HostExecutor { execute, released })))
    }
}

fn missing(what: &str) -> crate::status::Fault {
    crate::status::Fault::invalid(format!("{what}: they are NULL"))
}

/// Does a piece of work and closes it. VARVITE_CALLBACK when a merge operator failed in it: the writer does it then, and
/// its update fails likewise if the operator still does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_work_run(
    work: *mut varvite_work,
    error: *mut varvite_error,
) -> c_int {
    call(error, || {
        let work = take(work)?.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        work();
        Ok(())
    })
}

/// Gives a piece of work back undone: the writer does it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn varvite_work_close(
    work: *mut varvite_work,
    error: *mut varvite_error,
) -> c_int {
    call(error, || take(work).map(drop))
}

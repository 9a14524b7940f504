//! What an object of Python stands for: shared by readers, changed by one at a time, gone once it is closed.
//!
//! Locks are taken without the interpreter only, so who waits for one never keeps others from running Python; and no
//! Python runs while a lock is held, but in callbacks, which do not wait (`fault::may_not_wait`).

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::prelude::*;
use varvite::{Error, Kind};

use crate::fault::{Fault, Outcome, forget, is_inner, may_not_wait};
use crate::lock::{Gate, Pass, holding};

/// How often the process had forked when it began, counted from the first that loaded the module.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Sees to it that a child process knows that it is one.
pub fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler only changes an atomic, which is allowed in a child of several threads.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(failed, 0, "the system has no memory for a fork handler");
    });
}

/// How often the process had forked when it began.
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// What an object stands for; `None` once it is closed.
pub struct Held<T: Send + Sync + 'static> {
    /// Where calls wait for each other. Who is in does not wait for the lock.
    gate: Gate,
    lock: RwLock<Option<T>>,
    /// In which process it was made: locks and files of another are not this one's.
    forks: u32,
    name: &'static str,
}

/// Shared use. The lock is given back before the pass.
pub struct Reading<'a, T>(
    RwLockReadGuard<'a, Option<T>>,
    #[expect(dead_code, reason = "for its drop")] Pass<'a>,
);
/// Sole use.
pub struct Writing<'a, T>(
    RwLockWriteGuard<'a, Option<T>>,
    #[expect(dead_code, reason = "for its drop")] Pass<'a>,
);

const CHECKED: &str = "checked when it was locked";

impl<T> Deref for Reading<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect(CHECKED)
    }
}

impl<T> Deref for Writing<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect(CHECKED)
    }
}

impl<T> DerefMut for Writing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(CHECKED)
    }
}

impl<T: Send + Sync + 'static> Held<T> {
    pub fn new(name: &'static str, state: T) -> Held<T> {
        Held { gate: Gate::default(), lock: RwLock::new(Some(state)), forks: forks(), name }
    }

    fn check_process(&self) -> Outcome {
        if self.forks == forks() {
            return Ok(());
        }
        Err(Fault::Engine(Error::new(
            Kind::Closed,
            format!(
                "the {} belongs to the process that this one was forked from: open it here",
                self.name
            ),
        )))
    }

    fn enter(&self, writes: bool) -> Outcome<Pass<'_>> {
        self.check_process()?;
        if may_not_wait() {
            return self.gate.try_enter(writes).ok_or_else(|| self.busy());
        }
        self.gate.enter(writes)
    }

    /// Shared use of it. Waits for who changes it.
    pub fn read(&self) -> Outcome<Reading<'_, T>> {
        self.reading(self.enter(false)?)
    }

    fn reading<'a>(&'a self, pass: Pass<'a>) -> Outcome<Reading<'a, T>> {
        // What a panic left is what the engine promises after one, so poison says nothing.
        let guard = self.lock.read().unwrap_or_else(PoisonError::into_inner);
        if guard.is_some() { Ok(Reading(guard, pass)) } else { Err(Fault::closed(self.name)) }
    }

    /// Sole use of it; waits for all others.
    pub fn write(&self) -> Outcome<Writing<'_, T>> {
        self.writing(self.enter(true)?)
    }

    fn writing<'a>(&'a self, pass: Pass<'a>) -> Outcome<Writing<'a, T>> {
        let writing = self.lock(pass);
        if writing.0.is_some() { Ok(writing) } else { Err(Fault::closed(self.name)) }
    }

    /// Sole use of it if it can be had at once, for who has the interpreter and must not wait. `None` also where to ask
    /// is an error: the way that waits says which.
    pub fn try_write(&self) -> Option<Writing<'_, T>> {
        if is_inner() || self.forks != forks() {
            return None;
        }
        let pass = self.gate.try_enter(true)?;
        let guard = self.lock.try_write().or_else(|error| unpoisoned(error).ok_or(())).ok()?;
        guard.is_some().then_some(Writing(guard, pass))
    }

    fn lock<'a>(&'a self, pass: Pass<'a>) -> Writing<'a, T> {
        Writing(self.lock.write().unwrap_or_else(PoisonError::into_inner), pass)
    }

    #[cold]
    fn busy(&self) -> Fault {
        Fault::Engine(Error::new(
            Kind::Locked,
            format!(
                "a callback needs a {} that a call is using, perhaps its own caller's: use a copy, or return first",
                self.name
            ),
        ))
    }

    /// Closes it: what it stood for, after all calls that use it; `None` when it was closed before.
    pub fn take(&self) -> Outcome<Option<T>> {
        Ok(self.lock(self.enter(true)?).0.take())
    }

    /// Closes all of `held` and gives `body` what they stood for, in their order. What comes back with an error is put where
    /// it was, as if nothing had been closed. None may be given twice.
    pub fn take_all<R>(
        held: &[&Held<T>],
        body: impl FnOnce(Vec<T>) -> Result<R, (Fault, Vec<T>)>,
    ) -> Outcome<R> {
        // Who locks several does so in the order of their places.
        let mut order: Vec<usize> = (0..held.len()).collect();
        order.sort_by_key(|at| std::ptr::from_ref(held[*at]).addr());
        // Whoever has locked one already holds up everybody who needs it.
        let locks = || order.iter().map(|at| held[*at].write()).collect::<Outcome<Vec<_>>>();
        let mut locks = if held.len() > 1 { holding(locks) } else { locks() }?;
        let mut states: Vec<Option<T>> = held.iter().map(|_| None).collect();
        for (lock, at) in locks.iter_mut().zip(&order) {
            states[*at] = lock.0.take();
        }
        body(states.into_iter().flatten().collect()).map_err(|(fault, states)| {
            let mut states: Vec<_> = states.into_iter().map(Some).collect();
            for (lock, at) in locks.iter_mut().zip(&order) {
                *lock.0 = states.get_mut(*at).and_then(Option::take);
            }
            fault
        })
    }

    /// Whether it is closed. One that a call uses is not.
    pub fn is_closed(&self) -> bool {
        self.check_process().is_err()
            || self.lock.try_read().map_or_else(
                |error| unpoisoned(error).is_some_and(|it| it.is_none()),
                |it| it.is_none(),
            )
    }
}

/// A use of an object.
pub trait Use {
    type Given;
    /// After all who must be out before.
    fn wait(&self) -> Outcome<Self::Given>;
    /// `None` if that needs a wait.
    fn at_once(&self) -> Outcome<Option<Self::Given>>;
}

pub struct ToRead<'a, T: Send + Sync + 'static>(pub &'a Held<T>);
pub struct ToWrite<'a, T: Send + Sync + 'static>(pub &'a Held<T>);

impl<'a, T: Send + Sync + 'static> Use for ToRead<'a, T> {
    type Given = Reading<'a, T>;

    fn wait(&self) -> Outcome<Reading<'a, T>> {
        self.0.read()
    }

    fn at_once(&self) -> Outcome<Option<Reading<'a, T>>> {
        self.0.check_process()?;
        self.0.gate.try_enter(false).map(|pass| self.0.reading(pass)).transpose()
    }
}

impl<'a, T: Send + Sync + 'static> Use for ToWrite<'a, T> {
    type Given = Writing<'a, T>;

    fn wait(&self) -> Outcome<Writing<'a, T>> {
        self.0.write()
    }

    fn at_once(&self) -> Outcome<Option<Writing<'a, T>>> {
        self.0.check_process()?;
        self.0.gate.try_enter(true).map(|pass| self.0.writing(pass)).transpose()
    }
}

/// Two objects at once. Nobody waits for one who holds the other, so a handler of a signal that runs in the wait may use
/// both, and two calls do not wait for each other.
pub fn both<A: Use, B: Use>(one: &A, other: &B) -> Outcome<(A::Given, B::Given)> {
    loop {
        let first = one.wait()?;
        if let Some(second) = other.at_once()? {
            return Ok((first, second));
        }
        drop(first);
        let second = other.wait()?;
        if let Some(first) = one.at_once()? {
            return Ok((first, second));
        }
    }
}

fn unpoisoned<G>(error: std::sync::TryLockError<G>) -> Option<G> {
    match error {
        std::sync::TryLockError::Poisoned(poisoned) => Some(poisoned.into_inner()),
        std::sync::TryLockError::WouldBlock => None,
    }
}

impl<T: Send + Sync + 'static> Drop for Held<T> {
    fn drop(&mut self) {
        let state = self.lock.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(state) = state else { return };
        if self.forks != forks() {
            // To drop it would remove files and locks that are the parent's.
            std::mem::forget(state);
        } else if is_inner() {
            defer(Box::new(state));
        } else {
            // It may write, and wait for a thread that runs a merge operator: not with the interpreter.
            let mut state = Some(state);
            let attached = Python::try_attach(|py| {
                let state = state.take();
                py.detach(|| drop_quietly(state));
            });
            if attached.is_none() {
                drop_quietly(state);
            }
        }
    }
}

fn drop_quietly<T>(state: T) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(state))) {
        forget(payload);
    }
}

/// What the collector of Python let go in the engine's middle, where nothing can be closed.
static DEFERRED: Mutex<Vec<(u32, Box<dyn Any + Send>)>> = Mutex::new(Vec::new());
static ANY_DEFERRED: AtomicBool = AtomicBool::new(false);

fn defer(state: Box<dyn Any + Send>) {
    // Nobody keeps this lock for longer than this; one that a fork left locked is not waited for.
    let mut state = Some(state);
    for _ in 0..1_000 {
        if let Ok(mut deferred) = DEFERRED.try_lock() {
            deferred.extend(state.take().map(|it| (forks(), it)));
            ANY_DEFERRED.store(true, Ordering::Release);
            return;
        }
        std::thread::yield_now();
    }
    std::mem::forget(state);
}

/// Closes what [`Held`] could not close in the engine's middle.
pub fn drop_deferred() {
    if !ANY_DEFERRED.load(Ordering::Acquire) {
        return;
    }
    let Ok(mut deferred) = DEFERRED.try_lock() else { return };
    ANY_DEFERRED.store(false, Ordering::Release);
    let taken = std::mem::take(&mut *deferred);
    drop(deferred);
    for (of, state) in taken {
        if of == forks() {
            drop_quietly(state);
        } else {
            std::mem::forget(state);
        }
    }
}

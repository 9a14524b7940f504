//! Who may go to an object: readers side by side, or one who changes it. Waits are interrupted by signals.
//!
//! It guards nothing itself: what it lets in locks the object, and does not wait for that.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::fault::Outcome;

/// So often is Python asked whether a signal came.
const ASKED: Duration = Duration::from_millis(100);

#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Default)]
struct State {
    readers: usize,
    is_written: bool,
    /// Those who wait to change it, for whom new readers wait, so that they come to it.
    writers: usize,
}

impl State {
    fn lets_in(&self, writes: bool) -> bool {
        !self.is_written && if writes { self.readers == 0 } else { self.writers == 0 }
    }

    fn enter(&mut self, writes: bool) {
        if writes {
            self.is_written = true;
        } else {
            self.readers += 1;
        }
    }
}

thread_local! {
    /// What this thread holds that a handler of a signal might wait for.
    static HOLDS: Cell<usize> = const { Cell::new(0) };
}

/// Runs `body`, within which no handler of a signal runs: it might wait for what this thread holds.
pub fn holding<T>(body: impl FnOnce() -> T) -> T {
    struct Held;
    impl Drop for Held {
        fn drop(&mut self) {
            HOLDS.set(HOLDS.get() - 1);
        }
    }
    HOLDS.set(HOLDS.get() + 1);
    let _held = Held;
    body()
}

/// Asks Python whether a signal came whose handler raises, as Ctrl-C has. Where its thread is not the main one none comes,
/// and none where this thread holds what others may wait for.
pub fn interrupted() -> Outcome {
    if HOLDS.get() > 0 {
        return Ok(());
    }
    Python::try_attach(|py| Ok(py.check_signals()?)).unwrap_or(Ok(()))
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        // No panic leaves it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In, if that needs no wait.
    pub fn try_enter(&self, writes: bool) -> Option<Pass<'_>> {
        let mut state = self.state();
        if !state.lets_in(writes) {
            return None;
        }
        state.enter(writes);
        Some(Pass { gate: self, writes })
    }

    /// In, after all who must be out before; or what a signal raised.
    pub fn enter(&self, writes: bool) -> Outcome<Pass<'_>> {
        if let Some(pass) = self.try_enter(writes) {
            return Ok(pass);
        }
        let mut state = self.state();
        state.writers += usize::from(writes);
        let mut asked = Instant::now();
        while !state.lets_in(writes) {
            let waited = self.moved.wait_timeout(state, ASKED);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if asked.elapsed() < ASKED {
                continue;
            }
            // Nothing is locked while Python runs, nor does anybody wait for this thread's turn.
            state.writers -= usize::from(writes);
            drop(state);
            self.moved.notify_all();
            interrupted()?;
            (state, asked) = (self.state(), Instant::now());
            state.writers += usize::from(writes);
        }
        state.writers -= usize::from(writes);
        state.enter(writes);
        Ok(Pass { gate: self, writes })
    }
}

/// Who is in, until it is dropped.
pub struct Pass<'a> {
    gate: &'a Gate,
    writes: bool,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if self.writes {
            state.is_written = false;
        } else {
            state.readers -= 1;
        }
        if state.readers == 0 {
            drop(state);
            self.gate.moved.notify_all();
        }
    }
}

//! A disk that stops the writer at each of its calls until the test lets it go on.
//!
//! Which thread is the writer's is a mark of the thread. All other threads pass, unless they write.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex};

use varvite::disk::Disk;

use crate::hooked_disk::{Call, HookedDisk};

thread_local! {
    static IS_WRITER: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // each is a condition that somebody waits for
struct State {
    /// Nobody stops any more.
    open: bool,
    stopped: bool,
    /// Set to let the one who is stopped go on.
    pass: bool,
    ended: bool,
}

/// Where the writer stops.
#[derive(Debug, Default)]
pub struct Stops {
    state: Mutex<State>,
    changed: Condvar,
}

impl Stops {
    /// A writer is about to begin.
    pub fn begin(&self) {
        self.state.lock().unwrap().ended = false;
    }

    /// Runs `action` as the writer does.
    pub fn as_writer<T>(&self, action: impl FnOnce() -> T) -> T {
        IS_WRITER.set(true);
        let result = action();
        IS_WRITER.set(false);
        self.state.lock().unwrap().ended = true;
        self.changed.notify_all();
        result
    }

    /// Waits until the writer is at a stop (true) or has ended.
    pub fn wait(&self) -> bool {
        let state = self.state.lock().unwrap();
        let state = self.changed.wait_while(state, |state| !state.stopped && !state.ended).unwrap();
        state.stopped
    }

    /// Lets the writer go on to its next stop.
    pub fn go_on(&self) {
        let mut state = self.state.lock().unwrap();
        (state.pass, state.stopped) = (true, false);
        self.changed.notify_all();
    }

    /// Lets everybody pass from now on.
    pub fn open(&self) {
        self.state.lock().unwrap().open = true;
        self.changed.notify_all();
    }

    /// The disk of `inner`, at whose calls the writer stops.
    pub fn disk(self: &Arc<Self>, inner: Arc<dyn Disk>) -> Arc<dyn Disk> {
        let stops = Arc::clone(self);
        HookedDisk::new(inner, move |call, _| stops.call(call))
    }

    fn call(&self, call: Call) {
        // A reader who lets go last removes the file itself, so that is no waiting for the writer.
        let by_anybody = call.changes() && call != Call::Remove && call != Call::Lock;
        if !by_anybody && !IS_WRITER.get() {
            return;
        }
        let mut state = self.state.lock().unwrap();
        if state.open {
            return;
        }
        state.stopped = true;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| !state.pass && !state.open).unwrap();
        state.pass = false;
    }
}

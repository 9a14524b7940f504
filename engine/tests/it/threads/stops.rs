//! A disk that stops the writer at each of its calls until the test lets it go on.
//!
//! Which thread is the writer's is a mark of the thread. All other threads pass, unless they write.

use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex};

use varvite::Result;
use varvite::disk::{Access, Disk, File, Linked, Lock, Mode};

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

    fn call(&self, writes: bool) {
        if !writes && !IS_WRITER.get() {
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

#[derive(Debug)]
pub struct StoppingDisk {
    pub inner: Arc<dyn Disk>,
    pub stops: Arc<Stops>,
}

#[derive(Debug)]
struct StoppingFile {
    inner: Arc<dyn File>,
    stops: Arc<Stops>,
}

impl Disk for StoppingDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        self.stops.call(mode != Mode::Read);
        let inner = self.inner.open(path, mode, access)?;
        Ok(Arc::new(StoppingFile { inner, stops: Arc::clone(&self.stops) }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.stops.call(true);
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> Result<()> {
        // A reader who lets go last removes the file itself, so that is no waiting for the writer.
        self.stops.call(false);
        self.inner.remove(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.stops.call(false);
        self.inner.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.stops.call(true);
        self.inner.create_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.stops.call(false);
        self.inner.exists(path)
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.stops.call(true);
        self.inner.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.inner.lock(path, holder)
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.stops.call(true);
        self.inner.link_or_copy(from, to)
    }

    fn root(&self) -> &str {
        self.inner.root()
    }
}

impl File for StoppingFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.stops.call(false);
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.stops.call(true);
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        self.stops.call(true);
        self.inner.sync()
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.stops.call(true);
        self.inner.set_len(length_bytes)
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.stops.call(true);
        self.inner.preallocate(length_bytes)
    }

    fn len(&self) -> Result<u64> {
        self.stops.call(false);
        self.inner.len()
    }

    fn path(&self) -> &str {
        self.inner.path()
    }
}

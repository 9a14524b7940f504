//! A reader beside the blocks of `varvite bench context`, as another process would be.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use varvite::context::{Options, Store};
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// Looks at the newest commit for each one at an old one.
const NEWEST: u64 = 16;

/// Accounts of a look.
const ACCOUNTS: u64 = 20;

const INDEX: [&str; 3] = ["data", "contracts", "index"];

/// A thread with a handle of its own on a store.
#[derive(Debug)]
pub(super) struct Reader {
    is_over: Arc<AtomicBool>,
    finds: Arc<AtomicU64>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Reader {
    /// Begins to look at the store in `folder`, in which `keep` commits stay.
    pub(super) fn begin(folder: &Path, keep: u64) -> Result<Reader> {
        let options =
            Options { objects_bytes: 8 << 20, hashes_bytes: 4 << 20, ..Options::default() };
        let store = Store::open_read_only(OsDisk::new(folder)?, options)?;
        let (is_over, finds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&finds));
        let thread = std::thread::spawn(move || look(store, keep, &over, &count));
        Ok(Reader { is_over, finds, thread: Some(thread) })
    }

    /// Ends it; the error that it met, if any.
    pub(super) fn end(&mut self) -> Result<()> {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(Error::invalid("the reader's thread has panicked")))
    }

    /// Values that it has found.
    pub(super) fn finds(&self) -> u64 {
        self.finds.load(Ordering::Relaxed)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Reads until it `is_over`.
fn look(mut store: Store, keep: u64, is_over: &AtomicBool, finds: &AtomicU64) -> Result<()> {
    for round in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        store.reload()?;
        let back = if round % NEWEST == NEWEST - 1 { keep as usize / 2 } else { 1 };
        if let Some(commit) = store.log(back.max(1))?.last() {
            let tree = store.checkout(commit)?;
            let places = tree.length(&INDEX)?.max(1);
            let first = round.wrapping_mul(7919) % places;
            for (name, _) in tree.list(&INDEX, first, ACCOUNTS)? {
                let path: [&[u8]; 5] = [b"data", b"contracts", b"index", &name, b"balance"];
                let found = tree.find(&path)?;
                finds.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
            }
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

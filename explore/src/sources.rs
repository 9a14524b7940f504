//! The stores that are shown: how each is opened, and read again when its writer has gone on.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use varvite::context::Store;
use varvite::{Result, Session, Table};

use crate::answer::Fault;

/// The tables of a session as they are now.
pub struct OpenTables {
    /// What they live in.
    pub session: Session,
    /// The tables.
    pub tables: Vec<Table>,
    /// Where they are: live, or in a snapshot, as people read it.
    pub place: String,
}

type Opening<T> = Box<dyn Fn() -> Result<T> + Send + Sync>;

/// How a store is opened, to read only and beside its writer.
pub enum Opens {
    /// A context, ours or one of Irmin.
    Context(Opening<Store>),
    /// Tables.
    Tables(Opening<OpenTables>),
}

/// A store that is shown.
pub struct Source {
    /// What it is called.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What it is, as "context", "irmin" or "tables".
    pub kind: &'static str,
    /// How it is opened.
    pub opens: Opens,
}

impl fmt::Debug for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Source")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// A store is opened anew at most as often as this, and less often when that takes long.
const FRESH: Duration = Duration::from_millis(1_500);
const SHARE: u32 = 20;

/// A store that nobody asks for is closed after this time: it holds files that its writer may have removed.
pub const REST: Duration = Duration::from_secs(30);

/// How long an opening is waited for before who asked is told to ask again: others wait for the thread that waits.
const WAIT: Duration = Duration::from_millis(500);

/// What was opened, what the folder looked like, and when that is looked at again.
struct Held<T> {
    value: Arc<T>,
    look: u64,
    stale: Instant,
}

/// What is open of a store, if anything is.
struct Slot<T> {
    held: Option<Held<T>>,
    /// Why the last opening failed, and until when who did not wait for it is told that too.
    failed: Option<(Fault, Instant)>,
    /// Whether a thread opens it.
    is_opening: bool,
    /// When it was last asked for.
    asked: Instant,
}

/// A store of one kind, opened by a thread of its own: nobody who asks for another one waits for that.
struct Shelf<T> {
    slot: Mutex<Slot<T>>,
    opened: Condvar,
}

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        let slot = Slot { held: None, failed: None, is_opening: false, asked: Instant::now() };
        Shelf { slot: Mutex::new(slot), opened: Condvar::new() }
    }
}

impl<T> Shelf<T> {
    /// Closes what nobody has asked for since `before`, unless it is being opened.
    fn close_unasked(&self, before: Instant) {
        let Some(mut slot) = try_lock(&self.slot) else { return };
        if !slot.is_opening && slot.asked < before {
            slot.held = None;
        }
    }

    fn look(&self) -> Option<u64> {
        lock(&self.slot).held.as_ref().map(|held| held.look)
    }

    /// What is open of `folder`, as long as no file of it has changed since; what is opened keeps what it has cached.
    fn open(&self, folder: &Path, open: &Opening<T>) {
        let start = Instant::now();
        // Before it is opened: what changes meanwhile is seen the next time.
        let look = look(folder);
        let is_same = self.look() == Some(look);
        let opened = (!is_same).then(|| std::panic::catch_unwind(AssertUnwindSafe(open)));
        let took = start.elapsed();
        let mut slot = lock(&self.slot);
        slot.is_opening = false;
        slot.failed = None;
        let stale = Instant::now() + FRESH.max(took * SHARE);
        match opened {
            None => {
                if let Some(held) = &mut slot.held {
                    held.stale = Instant::now() + FRESH;
                }
            }
            Some(Ok(Ok(value))) => {
                slot.held = Some(Held { value: Arc::new(value), look, stale });
            }
            // Who asks at once sees whether it is mended, where that takes no time.
            Some(failed) => {
                let fault = match failed {
                    Ok(error) => error.err().map(Fault::from),
                    Err(_) => None,
                };
                let fault = fault.unwrap_or_else(|| {
                    let why = "the store could not be opened; that is a fault of this program";
                    Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "Panicked", why)
                });
                let told = if took < WAIT / 2 { start } else { stale };
                slot.failed = Some((fault, told));
            }
        }
        drop(slot);
        self.opened.notify_all();
    }
}

/// A store with what is open of it.
pub struct Shown {
    pub source: Source,
    context: Shelf<Store>,
    tables: Shelf<OpenTables>,
    /// Held by whoever reads counters of the open tables before and after what it does: one at a time.
    pub counting: Mutex<()>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same, if nobody has it.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        // What a panic left is as whole as what an error leaves.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Where a store of one kind is kept, and how it is opened; none of another kind.
type ShelfOf<T> = fn(&Shown) -> Option<(&Shelf<T>, &Opening<T>)>;

/// A store as it is open, or why it is not.
type Opened<T> = std::result::Result<Arc<T>, Fault>;

/// What is open of a store, as of a moment ago. Where that takes long it is what was open before, and where there is none, or
/// it cannot be opened, the reason.
fn fresh<T: Send + Sync + 'static>(shown: &Arc<Shown>, of: ShelfOf<T>) -> Option<Opened<T>> {
    let (shelf, _) = of(shown)?;
    let end = Instant::now() + WAIT;
    let (mut slot, mut has_waited) = (lock(&shelf.slot), false);
    loop {
        let now = Instant::now();
        slot.asked = now;
        if !slot.is_opening
            && let Some((fault, until)) = &slot.failed
            && (has_waited || now < *until)
        {
            return Some(Err(fault.clone()));
        }
        let left = end.saturating_duration_since(now);
        if let Some(held) = &slot.held
            && (now < held.stale || has_waited && !slot.is_opening || left.is_zero())
        {
            return Some(Ok(Arc::clone(&held.value)));
        }
        if left.is_zero() {
            return Some(Err(Fault::busy("the store is being opened: ask again in a moment")));
        }
        if !slot.is_opening {
            let opening = Arc::clone(shown);
            let open = move || {
                if let Some((shelf, open)) = of(&opening) {
                    shelf.open(&opening.source.folder, open);
                }
            };
            if std::thread::Builder::new().spawn(open).is_err() {
                return Some(Err(Fault::busy("no thread is free to open the store")));
            }
            slot.is_opening = true;
        }
        has_waited = true;
        let waited = shelf.opened.wait_timeout(slot, left);
        slot = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// A number that changes when a file below `folder` does.
fn look(folder: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let mut entries: Vec<_> = fs::read_dir(&next).into_iter().flatten().flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            (entry.file_name(), metadata.len(), metadata.modified().ok()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

impl Shown {
    pub fn new(source: Source) -> Shown {
        let (context, tables) = (Shelf::default(), Shelf::default());
        Shown { source, context, tables, counting: Mutex::default() }
    }

    /// A number that is another when a file of the store has changed since it was opened last; none when it is not
    /// open.
    pub fn revision(&self) -> Option<u64> {
        self.context.look().or_else(|| self.tables.look())
    }

    /// Closes the store if nobody has asked for it for a while.
    pub fn rest(&self) {
        let Some(before) = Instant::now().checked_sub(REST) else { return };
        self.context.close_unasked(before);
        self.tables.close_unasked(before);
    }

    /// The context as of a moment ago, or `None` of tables.
    pub fn context(self: &Arc<Shown>) -> Option<Opened<Store>> {
        fresh(self, |shown| match &shown.source.opens {
            Opens::Context(open) => Some((&shown.context, open)),
            Opens::Tables(_) => None,
        })
    }

    /// The tables as of a moment ago, or `None` of a context.
    pub fn tables(self: &Arc<Shown>) -> Option<Opened<OpenTables>> {
        fresh(self, |shown| match &shown.source.opens {
            Opens::Tables(open) => Some((&shown.tables, open)),
            Opens::Context(_) => None,
        })
    }
}

/// A file of a store.
pub struct StoreFile {
    pub name: String,
    pub bytes: u64,
}

/// Files that are told apart.
const FILES_MAX: usize = 100_000;

/// Whether somebody recorded a trace at `path`, beside the files of a store.
fn is_trace(path: &Path) -> bool {
    // Those that a store has by the thousand, and nobody names a trace so.
    let of_stores = ["segment", "blob", "snapshot", "sparse", "hashes"];
    let is_of_store = |extension: &OsStr| of_stores.iter().any(|known| extension == *known);
    if path.extension().is_some_and(is_of_store) {
        return false;
    }
    let mut begin = [0; 8];
    fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok()
        && begin == *b"varviteT"
}

/// The files of the store at `folder`, and whether time ran out before all were found; those of stores in folders of it are
/// theirs, and traces are nobody's.
pub fn files(
    folder: &Path,
    others: &[&Path],
    is_over: impl Fn() -> bool,
) -> (Vec<StoreFile>, bool) {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    let (mut seen, mut is_cut) = (0_u64, false);
    while let Some(next) = folders.pop() {
        // What goes away while we look does not count.
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            seen += 1;
            is_cut |= seen.is_multiple_of(1_024) && is_over();
            if is_cut {
                break;
            }
            let path = entry.path();
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                if !others.contains(&&*path) {
                    folders.push(path);
                }
            } else if metadata.is_file() && found.len() < FILES_MAX && !is_trace(&path) {
                let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                found.push(StoreFile { name, bytes: metadata.len() });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    (found, is_cut)
}

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

/// What figures are asked of stays open as many times longer: they are asked for each minute, or less often.
const FIGURES: u32 = 10;

/// How long an opening is waited for before who asked is told to ask again; one that takes longer than the last time is not
/// waited for at all.
const WAIT: Duration = Duration::from_millis(500);

/// A store that could not be opened is tried again after this time at most, though no file of it has changed.
const FAILED: Duration = Duration::from_mins(1);

/// What was opened, what the folder looked like, and when that is looked at again.
struct Held<T> {
    value: Arc<T>,
    look: u64,
    stale: Instant,
}

/// Why an opening failed, and what the folder looked like.
struct Failed {
    fault: Fault,
    look: u64,
    /// When the folder is looked at again, and until when it is not opened as long as it looks the same.
    stale: Instant,
    until: Instant,
    /// When the first of those failed that failed in a row, and whether this one was tried a while later.
    first: Instant,
    is_lasting: bool,
}

/// What is open of a store, if anything is.
struct Slot<T> {
    held: Option<Held<T>>,
    failed: Option<Failed>,
    /// Since when a thread looks at it, and whether that opens it, as it does what has changed.
    opening: Option<Instant>,
    opens: bool,
    /// How long the last opening took.
    took: Duration,
    /// How long it is kept behind an opening, and until when.
    keep: Duration,
    kept: Instant,
}

impl<T> Slot<T> {
    /// Keeps what is open, or is opened, for so long.
    fn keep(&mut self, now: Instant, keep: Duration) {
        if now + keep > self.kept {
            (self.keep, self.kept) = (keep, now + keep);
        }
    }

    /// What is told of it as it is by now. An opening beside its writer may fail by chance, so one that failed is not told of
    /// while there is what was open before; one that failed again a while later is.
    fn told(&self) -> Opened<T> {
        match (&self.held, &self.failed) {
            (Some(_), Some(failed)) if failed.is_lasting => Err(failed.fault.clone()),
            (Some(held), _) => Ok(Arc::clone(&held.value)),
            (None, Some(failed)) if !self.opens => Err(failed.fault.clone()),
            _ => Err(Fault::busy("the store is being opened: ask again in a moment")),
        }
    }
}

/// A store of one kind, opened by a thread of its own: nobody who asks for another one waits for that.
struct Shelf<T> {
    slot: Mutex<Slot<T>>,
    opened: Condvar,
}

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        let slot = Slot {
            held: None,
            failed: None,
            opening: None,
            opens: false,
            took: Duration::ZERO,
            keep: Duration::ZERO,
            kept: Instant::now(),
        };
        Shelf { slot: Mutex::new(slot), opened: Condvar::new() }
    }
}

impl<T: Send + Sync + 'static> Shelf<T> {
    /// Closes what nobody has asked for, unless it is being opened. By a thread of its own, since it may take a while.
    fn close_unasked(&self) {
        let Some(mut slot) = try_lock(&self.slot) else { return };
        if slot.opening.is_none() && slot.kept < Instant::now() {
            let unasked = slot.held.take();
            drop(slot);
            if unasked.is_some() {
                // Where there is no thread it is closed here.
                let _ = std::thread::Builder::new().spawn(move || drop(unasked));
            }
        }
    }

    fn look(&self) -> Option<u64> {
        lock(&self.slot).held.as_ref().map(|held| held.look)
    }

    /// What is open of `folder`, or why it cannot be, as long as no file of it has changed since; what is opened keeps what it
    /// has cached.
    fn open(&self, folder: &Path, open: &Opening<T>) {
        let start = Instant::now();
        // Before it is opened: what changes meanwhile is seen the next time.
        let look = look(folder);
        let (is_same, fails_again) = {
            let slot = lock(&self.slot);
            let fails = slot.failed.as_ref().is_some_and(|it| it.look == look && start < it.until);
            (slot.held.as_ref().is_some_and(|held| held.look == look), fails)
        };
        let is_known = is_same || fails_again;
        lock(&self.slot).opens = !is_known;
        let opened = (!is_known).then(|| std::panic::catch_unwind(AssertUnwindSafe(open)));
        let (now, took) = (Instant::now(), start.elapsed());
        let mut slot = lock(&self.slot);
        (slot.opening, slot.opens) = (None, false);
        let mut old = None;
        match opened {
            None if is_same => {
                slot.failed = None;
                if let Some(held) = &mut slot.held {
                    held.stale = now + FRESH;
                }
            }
            None => {
                if let Some(failed) = &mut slot.failed {
                    failed.stale = now + FRESH;
                }
            }
            Some(Ok(Ok(value))) => {
                (slot.took, slot.failed) = (took, None);
                let stale = now + FRESH.max(took * SHARE);
                old = slot.held.replace(Held { value: Arc::new(value), look, stale });
            }
            Some(failed) => {
                slot.took = took;
                let mut failed = Failed::of(failed.ok().and_then(Result::err), look, start);
                if let Some(before) = &slot.failed {
                    failed.first = before.first;
                    failed.is_lasting = start > before.first + FRESH;
                }
                slot.failed = Some(failed);
            }
        }
        let keep = slot.keep;
        slot.keep(now, keep);
        drop(slot);
        self.opened.notify_all();
        drop(old);
    }
}

impl Failed {
    /// An opening that began at `start` and ended with `error`, or a panic.
    fn of(error: Option<varvite::Error>, look: u64, start: Instant) -> Failed {
        let why = "the store could not be opened; that is a fault of this program";
        let panicked = || Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "Panicked", why);
        let fault = error.map_or_else(panicked, Fault::from);
        let (now, took) = (Instant::now(), start.elapsed());
        let failed =
            Failed { fault, look, stale: start, until: start, first: now, is_lasting: false };
        // Who asks at once sees whether it is mended, where that takes no time.
        if took < WAIT / 2 {
            return failed;
        }
        Failed { stale: now + FRESH, until: now + FAILED.min(took * SHARE), ..failed }
    }
}

/// A store with what is open of it.
pub struct Shown {
    pub source: Source,
    context: Shelf<Store>,
    tables: Shelf<OpenTables>,
    rest: Duration,
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
/// it cannot be opened, the reason. Waits for an opening as long as that may be a short one: who asks for another store waits
/// for who waits here.
fn fresh<T: Send + Sync + 'static>(
    shown: &Arc<Shown>,
    of: ShelfOf<T>,
    (keep, waits): (Duration, bool),
) -> Option<Opened<T>> {
    let (shelf, _) = of(shown)?;
    let (mut slot, mut has_waited) = (lock(&shelf.slot), false);
    loop {
        let now = Instant::now();
        slot.keep(now, keep);
        if slot.opening.is_none()
            && let Some(failed) = &slot.failed
            && (has_waited || now < failed.stale)
        {
            return Some(slot.told());
        }
        if let Some(held) = &slot.held
            && (now < held.stale || has_waited && slot.opening.is_none())
        {
            return Some(Ok(Arc::clone(&held.value)));
        }
        let since = slot.opening.unwrap_or(now);
        if slot.opening.is_none() {
            let opening = Arc::clone(shown);
            let open = move || {
                if let Some((shelf, open)) = of(&opening) {
                    shelf.open(&opening.source.folder, open);
                }
            };
            if std::thread::Builder::new().spawn(open).is_err() {
                let busy = || Err(Fault::busy("no thread is free to open the store"));
                return Some(slot.held.as_ref().map_or_else(busy, |_| slot.told()));
            }
            slot.opening = Some(now);
        }
        let left = (since + WAIT).saturating_duration_since(now);
        if !waits || left.is_zero() || slot.took > WAIT {
            return Some(slot.told());
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
    /// The store, which is closed when nobody has asked for it for `rest`.
    pub fn new(source: Source, rest: Duration) -> Shown {
        let (context, tables) = (Shelf::default(), Shelf::default());
        Shown { source, context, tables, rest, counting: Mutex::default() }
    }

    /// Begins to open the store if it is to be, and waits for nothing: so are several opened at once.
    pub fn begin(self: &Arc<Shown>) {
        let _ = (self.context_as((self.rest, false)), self.tables_as((self.rest, false)));
    }

    /// The same for who asks for figures now and then, for whom it stays open longer.
    pub fn begin_figures(self: &Arc<Shown>) {
        let keep = self.rest * FIGURES;
        let _ = (self.context_as((keep, false)), self.tables_as((keep, false)));
    }

    /// A number that is another when a file of the store has changed since it was opened last; none when it is not
    /// open.
    pub fn revision(&self) -> Option<u64> {
        self.context.look().or_else(|| self.tables.look())
    }

    /// Closes the store if nobody has asked for it for a while.
    pub fn rest(&self) {
        self.context.close_unasked();
        self.tables.close_unasked();
    }

    /// The context as of a moment ago, or `None` of tables.
    pub fn context(self: &Arc<Shown>) -> Option<Opened<Store>> {
        self.context_as((self.rest, true))
    }

    fn context_as(self: &Arc<Shown>, how: (Duration, bool)) -> Option<Opened<Store>> {
        let of: ShelfOf<Store> = |shown| match &shown.source.opens {
            Opens::Context(open) => Some((&shown.context, open)),
            Opens::Tables(_) => None,
        };
        fresh(self, of, how)
    }

    /// The tables as of a moment ago, or `None` of a context.
    pub fn tables(self: &Arc<Shown>) -> Option<Opened<OpenTables>> {
        self.tables_as((self.rest, true))
    }

    fn tables_as(self: &Arc<Shown>, how: (Duration, bool)) -> Option<Opened<OpenTables>> {
        let of: ShelfOf<OpenTables> = |shown| match &shown.source.opens {
            Opens::Tables(open) => Some((&shown.tables, open)),
            Opens::Context(_) => None,
        };
        fresh(self, of, how)
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

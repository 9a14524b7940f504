//! The stores that are shown: how each is opened, and read again when its writer has gone on.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use varvite::context::Store;
use varvite::{Result, Session, Table};

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

/// What was opened, what the folder looked like, when that is looked at again, and when it was last asked for.
struct Held<T> {
    value: Arc<T>,
    look: u64,
    stale: Instant,
    asked: Instant,
}

/// A store with what is open of it.
pub struct Shown {
    pub source: Source,
    context: Mutex<Option<Held<Store>>>,
    tables: Mutex<Option<Held<OpenTables>>>,
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

/// What is open, as long as no file of the folder has changed since; what is opened keeps what it has cached.
fn fresh<T>(held: &Mutex<Option<Held<T>>>, folder: &Path, open: &Opening<T>) -> Result<Arc<T>> {
    let mut held = lock(held);
    let start = Instant::now();
    if let Some(held) = held.as_mut() {
        held.asked = start;
        if start < held.stale {
            return Ok(Arc::clone(&held.value));
        }
    }
    // Before it is opened: what changes meanwhile is seen the next time.
    let look = look(folder);
    if let Some(held) = held.as_mut().filter(|held| held.look == look) {
        held.stale = Instant::now() + FRESH;
        return Ok(Arc::clone(&held.value));
    }
    let value = Arc::new(open()?);
    let stale = Instant::now() + FRESH.max(start.elapsed() * SHARE);
    *held = Some(Held { value: Arc::clone(&value), look, stale, asked: Instant::now() });
    Ok(value)
}

/// Closes what nobody has asked for since `before`, unless it is being opened.
fn close_unasked<T>(held: &Mutex<Option<Held<T>>>, before: Instant) {
    let Some(mut held) = try_lock(held) else { return };
    if held.as_ref().is_some_and(|held| held.asked < before) {
        *held = None;
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
        let (context, tables) = (Mutex::default(), Mutex::default());
        Shown { source, context, tables, counting: Mutex::default() }
    }

    /// A number that is another when a file of the store has changed since it was opened last; none when it is not
    /// open.
    pub fn revision(&self) -> Option<u64> {
        let look = lock(&self.context).as_ref().map(|held| held.look);
        look.or_else(|| lock(&self.tables).as_ref().map(|held| held.look))
    }

    /// Closes the store if nobody has asked for it for a while.
    pub fn rest(&self) {
        let Some(before) = Instant::now().checked_sub(REST) else { return };
        close_unasked(&self.context, before);
        close_unasked(&self.tables, before);
    }

    /// The context as of a moment ago, or `None` of tables.
    pub fn context(&self) -> Option<Result<Arc<Store>>> {
        match &self.source.opens {
            Opens::Context(open) => Some(fresh(&self.context, &self.source.folder, open)),
            Opens::Tables(_) => None,
        }
    }

    /// The tables as of a moment ago, or `None` of a context.
    pub fn tables(&self) -> Option<Result<Arc<OpenTables>>> {
        match &self.source.opens {
            Opens::Tables(open) => Some(fresh(&self.tables, &self.source.folder, open)),
            Opens::Context(_) => None,
        }
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

/// The files of the store at `folder`; those of stores in folders of it are theirs, and traces are nobody's.
pub fn files(folder: &Path, others: &[&Path]) -> Vec<StoreFile> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        // What goes away while we look does not count.
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
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
    found
}

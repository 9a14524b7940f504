//! The operating system's disk: a folder below which all paths lie.
//!
//! Reads and writes are positional. Direct access is asked for after opening, so that a file system
//! that refuses it neither fails nor leaves a file behind. A sync is `fdatasync`, which makes bytes
//! and length durable; names are durable after `fsync` of their folder.
//! What each call promises: `docs/design/durability.md`.

mod descriptors;
mod file;

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Access, Disk, File, Linked, Lock, Mode, Queue, SerialQueue, path as paths};
use crate::error::{Error, Result};
use descriptors::with_descriptor;
use file::OsFile;

/// A folder of the operating system.
///
/// ```
/// use varvite::disk::{Access, Disk, File, Mode, os::OsDisk};
/// # let folder = tempfile::tempdir().expect("a folder for temporary files");
/// let disk = OsDisk::create(folder.path().join("store"))?;
/// let file = disk.open("greeting", Mode::Create, Access::Buffered)?;
/// file.write_at(0, b"hello")?;
/// file.sync()?;
/// disk.sync_directory("")?;
/// assert_eq!(disk.list("")?, ["greeting"]);
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Debug)]
pub struct OsDisk {
    root: PathBuf,
    /// The root as text, for messages.
    name: String,
    ring: bool,
}

impl OsDisk {
    /// The folder `root`, which must exist. `Missing`, or `Invalid` when it is no folder.
    pub fn new(root: impl Into<PathBuf>) -> Result<Arc<OsDisk>> {
        Self::open_root(root.into(), true)
    }

    /// The same, without `io_uring`: every read is a `pread`. For comparisons.
    pub fn without_ring(root: impl Into<PathBuf>) -> Result<Arc<OsDisk>> {
        Self::open_root(root.into(), false)
    }

    /// Makes the folder `root` and those above it where they are missing, then opens it. Their names are durable
    /// with it: the folder that each is in is synced, also where one was there, since whoever made it may have died
    /// before.
    pub fn create(root: impl Into<PathBuf>) -> Result<Arc<OsDisk>> {
        let root = root.into();
        match make_folders(&root) {
            // Opening it says of a file what it is.
            Err((_, error)) if error.kind() == io::ErrorKind::AlreadyExists => Self::new(root),
            Err((folder, error)) => {
                Err(Error::io("create the folder", &folder.to_string_lossy(), error))
            }
            Ok(_) => Self::new(root),
        }
    }

    fn open_root(root: PathBuf, ring: bool) -> Result<Arc<OsDisk>> {
        let name = root.to_string_lossy().into_owned();
        match fs::metadata(&root) {
            Ok(metadata) if metadata.is_dir() => Ok(Arc::new(OsDisk { root, name, ring })),
            Ok(_) => Err(Error::invalid(format!("{name} is a file, where a folder is needed"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::missing(format!(
                "the folder {name} does not exist: check the path, or create it first"
            ))
            .with_source(error)),
            Err(error) => Err(Error::io("open the folder", &name, error)),
        }
    }

    fn full(&self, path: &str) -> Result<PathBuf> {
        paths::check(path)?;
        Ok(self.root.join(path))
    }

    fn full_directory(&self, path: &str) -> Result<PathBuf> {
        paths::check_directory(path)?;
        Ok(if path.is_empty() { self.root.clone() } else { self.root.join(path) })
    }

    /// The path as messages show it.
    fn shown(&self, path: &str) -> String {
        Path::new(&self.name).join(path).to_string_lossy().into_owned()
    }

    /// Maps what the operating system said about `path`.
    fn error(&self, action: &str, path: &str, error: io::Error) -> Error {
        let shown = self.shown(path);
        match error.kind() {
            io::ErrorKind::NotFound => paths::missing(&shown).with_source(error),
            io::ErrorKind::AlreadyExists => paths::exists(&shown).with_source(error),
            io::ErrorKind::NotADirectory => paths::is_file(&shown).with_source(error),
            io::ErrorKind::IsADirectory => paths::is_folder(&shown).with_source(error),
            _ => Error::io(action, &shown, error),
        }
    }

    /// `Invalid` when `path` is a folder: files only are renamed, linked and removed.
    fn check_file(&self, action: &str, path: &str) -> Result<()> {
        let metadata = fs::symlink_metadata(self.full(path)?)
            .map_err(|error| self.error(action, path, error))?;
        if metadata.is_dir() { Err(paths::is_folder(&self.shown(path))) } else { Ok(()) }
    }

    /// Gives the content of `from` the further name `to` below the root of `other`.
    fn link_between(&self, from: &str, other: &OsDisk, to: &str) -> Result<Linked> {
        self.check_file("link", from)?;
        let (source, target) = (self.full(from)?, other.full(to)?);
        // A later step would meet the name that it may not replace, so it is looked for once.
        if fs::symlink_metadata(&target).is_ok() {
            return Err(paths::exists(&other.shown(to)));
        }
        match reflink(&source, &target) {
            Ok(true) => return Ok(Linked::Reflink),
            Ok(false) => {}
            // A link would meet it, and say that it was somebody's.
            Err(error) => return Err(other.error("remove", to, error)),
        }
        match fs::hard_link(&source, &target) {
            Ok(()) => return Ok(Linked::HardLink),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) =>
            {
                return Err(other.error("link", to, error));
            }
            Err(_) => {}
        }
        let mut reader = with_descriptor(|| fs::File::open(&source))
            .map_err(|error| self.error("copy", from, error))?;
        let mut writer = create_new(&target).map_err(|error| other.error("copy to", to, error))?;
        if let Err(error) = io::copy(&mut reader, &mut writer) {
            // Half a copy must not look like the whole; the error matters more than this removal's.
            let _ = fs::remove_file(&target);
            return Err(other.error("copy to", to, error));
        }
        Ok(Linked::Copy)
    }
}

/// Makes an empty file, which was not there.
fn create_new(path: &Path) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    with_descriptor(|| options.open(path))
}

/// Clones `from` into a new file `to`, or leaves no such file; the error is that of a file that could not be removed.
#[cfg(target_os = "linux")]
fn reflink(from: &Path, to: &Path) -> io::Result<bool> {
    let Ok(source) = with_descriptor(|| fs::File::open(from)) else { return Ok(false) };
    let Ok(target) = create_new(to) else { return Ok(false) };
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(true);
    }
    fs::remove_file(to).map(|()| false)
}

/// Makes the folder `root` and those above it that are missing, each durable before what is in it. Gives the folders
/// that were synced, or the one that failed.
fn make_folders(root: &Path) -> std::result::Result<Vec<&Path>, (&Path, io::Error)> {
    let mut missing: Vec<&Path> = root
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    let mut synced = Vec::new();
    let first = missing.last().map_or(Some(root), |highest| highest.parent());
    // Of a folder that is there already, nobody knows whether it is durable.
    if let Some(holder) = first.and_then(holder_of) {
        sync_name(holder).map_err(|error| (holder, error))?;
        synced.push(holder);
    }
    while let Some(folder) = missing.pop() {
        match fs::create_dir(folder) {
            // Another process has made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made.map_err(|error| (folder, error))?,
        }
        if let Some(holder) = holder_of(folder) {
            sync_name(holder).map_err(|error| (holder, error))?;
            synced.push(holder);
        }
    }
    Ok(synced)
}

/// The folder that has the name of `folder`.
fn holder_of(folder: &Path) -> Option<&Path> {
    let holder = folder.parent()?;
    Some(if holder.as_os_str().is_empty() { Path::new(".") } else { holder })
}

/// Whether nothing is called so, not even something that was removed and is open.
fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Syncs the names in `folder`, where this process may, and where there is anything to sync.
fn sync_name(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    if !cfg!(unix) {
        return Ok(());
    }
    match with_descriptor(|| fs::File::open(folder)).and_then(|opened| opened.sync_all()) {
        Err(error)
            if !matches!(
                error.kind(),
                InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported
            ) =>
        {
            Err(error)
        }
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)] // as the other
fn reflink(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

impl Disk for OsDisk {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        let full = self.full(path)?;
        let mut options = OpenOptions::new();
        options.read(true);
        match mode {
            Mode::Read => &mut options,
            Mode::Write => options.write(true),
            Mode::Create => options.write(true).create_new(true),
        };
        let action = if mode == Mode::Create { "create" } else { "open" };
        let file = with_descriptor(|| options.open(&full)).map_err(|error| {
            // Windows says of a folder that access is denied.
            if cfg!(windows) && mode != Mode::Create && full.is_dir() {
                return paths::is_folder(&self.shown(path)).with_source(error);
            }
            // A removed file keeps its name there until the last handle closes. Where there is no such name, access is denied
            // to the folder.
            if cfg!(windows)
                && mode == Mode::Create
                && error.kind() == io::ErrorKind::PermissionDenied
                && !is_absent(&full)
            {
                return paths::is_open(&self.shown(path)).with_source(error);
            }
            self.error(action, path, error)
        })?;
        if mode == Mode::Read {
            // Opening a folder to read succeeds, reading it does not.
            let metadata = file.metadata().map_err(|error| self.error(action, path, error))?;
            if metadata.is_dir() {
                return Err(paths::is_folder(&self.shown(path)));
            }
        }
        Ok(Arc::new(OsFile::new(file, path, access)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.check_file("rename", from)?;
        let target = self.full(to)?;
        fs::rename(self.full(from)?, &target).map_err(|error| {
            if cfg!(windows) && error.kind() == io::ErrorKind::PermissionDenied {
                if target.is_dir() {
                    return paths::is_folder(&self.shown(to));
                }
                let advice = paths::is_open(&self.shown(to));
                return advice.with_source(error);
            }
            self.error("rename to", to, error)
        })
    }

    fn remove(&self, path: &str) -> Result<()> {
        let full = self.full(path)?;
        fs::remove_file(&full).map_err(|error| match error.kind() {
            // What Windows and macOS say of a folder.
            io::ErrorKind::PermissionDenied if full.is_dir() => paths::is_folder(&self.shown(path)),
            _ => self.error("remove", path, error),
        })
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let full = self.full_directory(directory)?;
        let failed = |error| {
            // Windows calls the name of a file invalid there.
            let is_file = cfg!(windows) && full.is_file();
            let error = if is_file { io::ErrorKind::NotADirectory.into() } else { error };
            self.error("list the folder", directory, error)
        };
        for entry in with_descriptor(|| fs::read_dir(&full)).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // A name that is not UTF-8 cannot be ours, and no call of this interface could use it.
            names.extend(name.into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        let full = self.full(path)?;
        match fs::create_dir(&full) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && full.is_dir() => Ok(()),
            outcome => outcome.map_err(|error| self.error("create the folder", path, error)),
        }
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        fs::remove_dir(self.full(path)?)
            .map_err(|error| self.error("remove the folder", path, error))
    }

    fn exists(&self, path: &str) -> Result<bool> {
        fs::exists(self.full_directory(path)?).map_err(|error| self.error("look for", path, error))
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        let full = self.full_directory(path)?;
        let failed = |error| self.error("sync the folder", path, error);
        if cfg!(unix) {
            with_descriptor(|| fs::File::open(&full))
                .and_then(|folder| folder.sync_all())
                .map_err(failed)
        } else {
            // Elsewhere a folder cannot be opened as a file; names are durable with their files.
            fs::metadata(full).map(drop).map_err(failed)
        }
    }

    /// Elsewhere no folder is synced.
    fn forgets_names(&self) -> bool {
        cfg!(unix)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        let failed = |error| self.error("lock", path, error);
        let (full, mut options) = (self.full(path)?, OpenOptions::new());
        options.read(true).write(true).create(true).truncate(false);
        let mut file = with_descriptor(|| options.open(&full)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = Vec::new();
                // Bounded, because anybody may have written anything there.
                let read = file.take(256).read_to_end(&mut text);
                let text = if read.is_ok() { String::from_utf8_lossy(&text) } else { "".into() };
                return Err(paths::locked(&self.shown(path), &text));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // The lock is the operating system's; the text only tells others who has it, and is not worth failing for. It is
        // cut after it was written, since on a full disk a block that is given back may be gone.
        let written = file.write_all(holder.as_bytes());
        let _ = written.and_then(|()| file.set_len(holder.len() as u64));
        let lock = OsLock { file, path: self.full(path)?, name: self.shown(path) };
        // Between the two, somebody may have removed the file that was opened.
        if !lock.is_there() {
            return Err(paths::locked(&lock.name, "somebody who has just removed the file"));
        }
        Ok(Box::new(lock))
    }

    #[cfg(unix)]
    fn lock_directory(&self, path: &str) -> Result<Option<Box<dyn Lock>>> {
        let full = self.full_directory(path)?;
        let failed = |error| self.error("lock the folder", path, error);
        let file = with_descriptor(|| fs::File::open(&full)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(OsLock { file, path: full, name: self.shown(path) }))),
            Err(TryLockError::WouldBlock) => {
                Err(paths::locked(&self.shown(path), "a process whose lock file is gone"))
            }
            // Some file systems lock only what is open to write, and a folder never is.
            Err(TryLockError::Error(_)) => Ok(None),
        }
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.link_between(from, self, to)
    }

    fn link_or_copy_to(&self, from: &str, target: &dyn Disk, to: &str) -> Result<Linked> {
        match target.link_in(&self.full(from)?, to)? {
            Some(linked) => Ok(linked),
            None => super::copy_to(&self.open(from, Mode::Read, Access::Buffered)?, target, to),
        }
    }

    fn link_in(&self, from: &Path, to: &str) -> Result<Option<Linked>> {
        let (root, file) = (from.parent(), from.file_name().and_then(|name| name.to_str()));
        let (Some(root), Some(file)) = (root, file) else { return Ok(None) };
        let name = root.to_string_lossy().into_owned();
        let source = OsDisk { root: root.to_owned(), name, ring: false };
        source.link_between(file, self, to).map(Some)
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.root)
    }

    #[cfg(unix)]
    fn open_files_max(&self) -> Option<u64> {
        rustix::process::getrlimit(rustix::process::Resource::Nofile).current
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
        if self.ring
            && let Some(queue) = super::uring::RingQueue::new(depth)
        {
            return Ok(Box::new(queue));
        }
        let _ = self.ring;
        Ok(Box::new(SerialQueue::new(depth)))
    }

    fn entropy(&self) -> Result<u64> {
        drawn().map_err(|error| self.error("draw entropy for", "", error))
    }

    fn root(&self) -> &str {
        &self.name
    }
}

/// Eight bytes of the system's entropy.
#[cfg(target_os = "linux")]
fn drawn() -> io::Result<u64> {
    let mut bytes = [0; 8];
    loop {
        match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
            Ok(8) => return Ok(u64::from_le_bytes(bytes)),
            // So few bytes are given whole or, at a signal before there is any entropy, not at all.
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A number from the keys that the standard library draws from the system for its maps.
#[cfg(not(target_os = "linux"))]
fn drawn() -> io::Result<u64> {
    use std::hash::{BuildHasher as _, Hasher as _};
    let mut hasher = std::collections::hash_map::RandomState::new().build_hasher();
    // The keys are drawn once a thread and count up; the process and the place tell the rest apart.
    hasher.write_u32(std::process::id());
    Ok(hasher.finish())
}

/// The open, locked file or folder; closing it releases the lock, and what was locked stays.
#[derive(Debug)]
struct OsLock {
    file: fs::File,
    path: PathBuf,
    /// The path for messages.
    name: String,
}

impl OsLock {
    /// Whether the name is still that of what is locked. When nobody can say, it is.
    #[cfg(unix)]
    fn is_there(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.file.metadata().map(place), fs::metadata(&self.path).map(place)) {
            (Ok(locked), Ok(named)) => locked == named,
            (_, Err(error)) => error.kind() != io::ErrorKind::NotFound,
            (Err(_), _) => true,
        }
    }

    #[cfg(not(unix))]
    fn is_there(&self) -> bool {
        fs::exists(&self.path).unwrap_or(true) || self.file.metadata().is_err()
    }
}

impl Drop for OsLock {
    /// Gives the lock back at once: closing alone would leave it with a child that another thread is just starting,
    /// which has a copy of the descriptor until it runs its program.
    fn drop(&mut self) {
        self.file.unlock().unwrap_or_default();
    }
}

impl Lock for OsLock {
    fn check(&self) -> Result<()> {
        if self.is_there() {
            return Ok(());
        }
        Err(Error::new(
            crate::Kind::Poisoned,
            format!(
                "{} was removed or replaced while it was locked, so another process may write there: \
                 see that one process has the folder, then open it again",
                self.name
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_was_given_back_is_free_while_a_child_starts() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = OsDisk::new(temporary.path()).unwrap();
        let path = temporary.path().join("lock");
        let file = fs::File::create(&path).unwrap();
        // As a child has it between its start and its program.
        let copy = file.try_clone().unwrap();
        file.try_lock().unwrap();
        let lock = OsLock { file, path, name: "lock".to_owned() };
        assert_eq!(disk.lock("lock", "b").map(drop).unwrap_err().kind(), crate::Kind::Locked);
        drop(lock);
        drop(disk.lock("lock", "b").unwrap());
        drop(copy);
    }

    /// A full disk takes no text of whoever has the lock, as this device never does.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_lock_whose_text_finds_no_room_is_held_all_the_same() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = OsDisk::new(temporary.path()).unwrap();
        std::os::unix::fs::symlink("/dev/full", temporary.path().join("lock")).unwrap();
        let held = match disk.lock("lock", "a") {
            // Another run of the tests has it: it is one for the whole machine.
            Err(error) if error.kind() == crate::Kind::Locked => return,
            held => held.unwrap(),
        };
        assert_eq!(disk.lock("lock", "b").map(drop).unwrap_err().kind(), crate::Kind::Locked);
        drop(held);
    }

    #[test]
    fn the_text_of_a_lock_is_that_of_the_last_holder() {
        let temporary = tempfile::tempdir().unwrap();
        let disk = OsDisk::new(temporary.path()).unwrap();
        for holder in ["one with a long name", "another", ""] {
            let held = disk.lock("lock", holder).unwrap();
            assert_eq!(fs::read_to_string(temporary.path().join("lock")).unwrap(), holder);
            drop(held);
        }
    }

    #[test]
    fn a_folder_that_is_made_is_durable_before_what_is_in_it() {
        let temporary = tempfile::tempdir().unwrap();
        let there = temporary.path().join("there");
        fs::create_dir(&there).unwrap();
        let root = there.join("a").join("b");
        let above = |count| root.ancestors().nth(count).unwrap();
        // Of `there` nobody knows: whoever made it may have died just then.
        assert_eq!(make_folders(&root).unwrap(), [above(3), above(2), above(1)]);
        assert!(root.is_dir());
        assert_eq!(make_folders(&root).unwrap(), [above(1)]);
        assert_eq!(make_folders(Path::new("/")).unwrap(), <[&Path; 0]>::default());
        fs::write(root.join("file"), b"").unwrap();
        let below = root.join("file").join("c");
        assert_eq!(make_folders(&below).unwrap_err().0, below);
        assert_eq!(OsDisk::create(root.join("file")).unwrap_err().kind(), crate::Kind::Invalid);
    }
}

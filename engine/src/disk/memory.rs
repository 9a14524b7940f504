//! A disk in memory: for tests, for the browser, and for state that need not outlive the process.
//!
//! It keeps its promises trivially: everything is durable at once, for as long as the disk lives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::entropy::{self, Random};
use super::{Access, Disk, File, Linked, Lock, Mode, path as paths};
use crate::error::{Error, Result};
use crate::order::BTreeMap;

/// Files in memory. Removed files stay readable through their handles.
///
/// ```
/// use varvite::disk::{Access, Disk, File, Mode, memory::MemoryDisk};
/// let disk = MemoryDisk::new();
/// disk.open("a", Mode::Create, Access::Buffered)?.write_at(0, b"12")?;
/// assert_eq!(disk.bytes("a")?, b"12");
/// # Ok::<(), varvite::Error>(())
/// ```
#[derive(Default)]
pub struct MemoryDisk {
    names: RwLock<BTreeMap<String, Node>>,
    /// Lock files that are held, with their holders.
    held: Arc<Mutex<HashMap<String, String>>>,
    entropy: Mutex<Option<Entropy>>,
}

super::names_itself!(MemoryDisk);

/// What a seeded disk draws from.
struct Entropy {
    drawn: Random,
    /// The seeds of its copies, which must draw other numbers than the disk itself.
    copies: Random,
}

impl Entropy {
    fn new(seed: u64) -> Entropy {
        let mut seeds = Random::new(seed);
        Entropy { drawn: Random::new(seeds.next()), copies: Random::new(!seeds.next()) }
    }
}

#[derive(Clone)]
enum Node {
    Folder,
    File(Arc<SharedBytes>),
}

/// What all handles and names of a file share.
#[derive(Default)]
struct SharedBytes(RwLock<Vec<u8>>);

impl SharedBytes {
    fn read(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        // No code that can panic leaves bytes half changed, so a poisoned lock changes nothing.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryDisk {
    /// An empty disk without [`Disk::entropy`]: a store in it is made and opened with a seed of its own.
    #[must_use]
    pub fn new() -> Arc<MemoryDisk> {
        Arc::default()
    }

    /// An empty disk whose [`Disk::entropy`] follows from `seed`: the same operations give the same
    /// bytes. Where that is not wanted, draw the seed at random.
    #[must_use]
    pub fn seeded(seed: u64) -> Arc<MemoryDisk> {
        let disk = MemoryDisk { entropy: Mutex::new(Some(Entropy::new(seed))), ..Self::default() };
        Arc::new(disk)
    }

    /// All bytes of the file at `path`. `Missing`.
    pub fn bytes(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.content(path)?.read().clone())
    }

    /// Gives the file at `path` these bytes, or makes it; open handles see them.
    pub fn replace(&self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<()> {
        let content = match self.content(path) {
            Err(error) if error.kind() == crate::Kind::Missing => self.create(path)?,
            content => content?,
        };
        *content.write() = bytes.into();
        Ok(())
    }

    /// The length of all files that have a name, in bytes; hard links count once a name.
    pub fn total_bytes(&self) -> u64 {
        let names = self.names();
        names.values().filter_map(Node::file).map(|content| content.read().len() as u64).sum()
    }

    /// The paths of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        let names = self.names();
        names
            .iter()
            .filter(|(_, node)| node.file().is_some())
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// A copy of the whole disk that shares nothing with it; locks are not held in the copy, and it
    /// draws other numbers.
    #[must_use]
    pub fn snapshot(&self) -> Arc<MemoryDisk> {
        let entropy = lock(&self.entropy).as_mut().map(|own| Entropy::new(own.copies.next()));
        let copy = MemoryDisk { entropy: Mutex::new(entropy), ..MemoryDisk::default() };
        let mut copied: HashMap<*const SharedBytes, Arc<SharedBytes>> = HashMap::new();
        for (path, node) in self.names().iter() {
            let node = match node {
                Node::Folder => Node::Folder,
                // Names that share a file share its copy.
                Node::File(content) => {
                    Node::File(Arc::clone(copied.entry(Arc::as_ptr(content)).or_insert_with(
                        || Arc::new(SharedBytes(RwLock::new(content.read().clone()))),
                    )))
                }
            };
            copy.names_mut().insert(path.clone(), node);
        }
        Arc::new(copy)
    }

    fn names(&self) -> RwLockReadGuard<'_, BTreeMap<String, Node>> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn names_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Node>> {
        self.names.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn content(&self, path: &str) -> Result<Arc<SharedBytes>> {
        paths::check(path)?;
        file_in(&self.names(), path).cloned()
    }

    fn create(&self, path: &str) -> Result<Arc<SharedBytes>> {
        let content = Arc::default();
        self.insert(path, Node::File(Arc::clone(&content)))?;
        Ok(content)
    }

    /// Adds a name. `Exists`, or `Missing` without its folder.
    fn insert(&self, path: &str, node: Node) -> Result<()> {
        paths::check(path)?;
        let mut names = self.names_mut();
        check_folder(&names, paths::split(path).0)?;
        if names.contains_key(path) {
            return Err(paths::exists(path));
        }
        names.insert(path.to_owned(), node);
        Ok(())
    }
}

impl Node {
    fn file(&self) -> Option<&Arc<SharedBytes>> {
        match self {
            Node::File(content) => Some(content),
            Node::Folder => None,
        }
    }
}

fn file_in<'a>(names: &'a BTreeMap<String, Node>, path: &str) -> Result<&'a Arc<SharedBytes>> {
    let node = names.get(path).ok_or_else(|| paths::missing(path))?;
    node.file().ok_or_else(|| paths::is_folder(path))
}

fn check_folder(names: &BTreeMap<String, Node>, path: &str) -> Result<()> {
    match names.get(path) {
        _ if path.is_empty() => Ok(()),
        Some(Node::Folder) => Ok(()),
        Some(Node::File(_)) => Err(paths::is_file(path)),
        None => Err(paths::missing(path)),
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &str, mode: Mode, _: Access) -> Result<Arc<dyn File>> {
        let content = match mode {
            Mode::Create => self.create(path)?,
            Mode::Read | Mode::Write => self.content(path)?,
        };
        Ok(Arc::new(MemoryFile { path: path.to_owned(), content, writable: mode != Mode::Read }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        paths::check(from)?;
        paths::check(to)?;
        let mut names = self.names_mut();
        let content = Arc::clone(file_in(&names, from)?);
        check_folder(&names, paths::split(to).0)?;
        if let Some(Node::Folder) = names.get(to) {
            return Err(paths::is_folder(to));
        }
        names.remove(from);
        names.insert(to.to_owned(), Node::File(content));
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let mut names = self.names_mut();
        file_in(&names, path)?;
        names.remove(path);
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        paths::check_directory(directory)?;
        let names = self.names();
        check_folder(&names, directory)?;
        let inside = names.keys().map(|path| paths::split(path));
        Ok(inside.filter(|(folder, _)| *folder == directory).map(|(_, name)| name.into()).collect())
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        if let Some(Node::Folder) = self.names().get(path) {
            return Ok(());
        }
        self.insert(path, Node::Folder)
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let mut names = self.names_mut();
        check_folder(&names, path)?;
        if names.keys().any(|other| paths::split(other).0 == path) {
            return Err(paths::is_not_empty(path));
        }
        names.remove(path);
        Ok(())
    }

    fn exists(&self, path: &str) -> Result<bool> {
        paths::check_directory(path)?;
        Ok(path.is_empty() || self.names().contains_key(path))
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        paths::check_directory(path)?;
        check_folder(&self.names(), path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        let mut held = lock(&self.held);
        if let Some(other) = held.get(path) {
            return Err(paths::locked(path, other));
        }
        self.replace(path, holder)?;
        held.insert(path.to_owned(), holder.to_owned());
        Ok(Box::new(MemoryLock { path: path.to_owned(), held: Arc::clone(&self.held) }))
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        let content = self.content(from)?;
        self.insert(to, Node::File(content))?;
        Ok(Linked::HardLink)
    }

    fn entropy(&self) -> Result<u64> {
        match &mut *lock(&self.entropy) {
            Some(entropy) => Ok(entropy.drawn.next()),
            None => Err(entropy::none(self.root())),
        }
    }

    fn root(&self) -> &'static str {
        "memory"
    }
}

/// Takes `mutex`. As for files: nothing that can panic leaves it half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct MemoryLock {
    path: String,
    held: Arc<Mutex<HashMap<String, String>>>,
}

super::names_itself!(MemoryLock);

impl Lock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        lock(&self.held).remove(&self.path);
    }
}

struct MemoryFile {
    path: String,
    content: Arc<SharedBytes>,
    writable: bool,
}

super::names_itself!(MemoryFile);

impl MemoryFile {
    fn check_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(Error::new(crate::Kind::Io, format!("{} was opened only to read", self.path)))
    }
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let content = self.content.read();
        let start = content.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
        let length = buffer.len().min(content.len() - start);
        buffer[..length].copy_from_slice(&content[start..start + length]);
        Ok(length)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        let start = checked_length(&self.path, offset)?;
        let end = checked_length(&self.path, offset.saturating_add(bytes.len() as u64))?;
        let mut content = self.content.write();
        if !bytes.is_empty() && content.len() < end {
            content.resize(end, 0);
        }
        if !bytes.is_empty() {
            content[start..end].copy_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.check_writable()?;
        let length = checked_length(&self.path, length_bytes)?;
        self.content.write().resize(length, 0);
        Ok(())
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.check_writable()?;
        checked_length(&self.path, length_bytes).map(drop)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.content.read().len() as u64)
    }

    fn path(&self) -> &str {
        &self.path
    }
}

/// A length that memory can have, or `Io`.
pub(super) fn checked_length(path: &str, length_bytes: u64) -> Result<usize> {
    // Far above any use, and far below what makes an allocation abort the process.
    const LENGTH_MAX: u64 = 1 << 40;
    if length_bytes <= LENGTH_MAX
        && let Ok(length) = usize::try_from(length_bytes)
    {
        return Ok(length);
    }
    Err(Error::io(
        "grow",
        path,
        std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            "larger than a file in memory may be",
        ),
    ))
}

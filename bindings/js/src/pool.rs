//! A disk over a pool of files that the host opened: a browser opens its private files only in a promise, while the
//! engine opens, renames and removes files within a call.
//!
//! The pool's files have numbers. Files 0 and 1 hold the directory, which says what number each path has, one copy written
//! and flushed after the other, and never the only whole one first; every other holds the bytes of one file. A number is
//! given away again only after a directory without it is durable. So a crash leaves an older directory whose files are
//! untouched. The bytes: `docs/design/js.md`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use varvite::disk::{Access, Disk, File, Linked, Lock, Mode};
use varvite::{Error, Kind, Result};
use wasm_bindgen::prelude::*;

use self::directory::{Directory, Place};
use self::nodes::{Node, Nodes};

mod directory;
mod nodes;

/// `Debug` by the name of the type alone, as disks of the engine have it: whatever prints more would be kept.
macro_rules! names_itself {
    ($type:ident) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($type))
            }
        }
    };
}

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** Files that are open, by their numbers from 0 on. Each call does its work before it returns; `flush` makes a file durable. */
export interface Pool {
  count(): number;
  read(file: number, offset: number, bytes: Uint8Array): number;
  write(file: number, offset: number, bytes: Uint8Array): void;
  size(file: number): number;
  truncate(file: number, size: number): void;
  flush(file: number): void;
}
"#;

#[wasm_bindgen]
extern "C" {
    /// The pool, as the host gives it.
    pub type Files;

    #[wasm_bindgen(method, catch)]
    fn count(this: &Files) -> std::result::Result<u32, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn read(
        this: &Files,
        file: u32,
        offset: f64,
        bytes: &mut [u8],
    ) -> std::result::Result<u32, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn write(
        this: &Files,
        file: u32,
        offset: f64,
        bytes: &[u8],
    ) -> std::result::Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn size(this: &Files, file: u32) -> std::result::Result<f64, JsValue>;
    #[wasm_bindgen(method, catch)]
    fn truncate(this: &Files, file: u32, size: f64) -> std::result::Result<(), JsValue>;
    #[wasm_bindgen(method, catch)]
    fn flush(this: &Files, file: u32) -> std::result::Result<(), JsValue>;

    #[wasm_bindgen(js_namespace = crypto, js_name = getRandomValues, catch)]
    fn get_random_values(bytes: &mut [u8]) -> std::result::Result<JsValue, JsValue>;
}

/// A number that nobody else draws.
pub fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    get_random_values(&mut bytes).map_err(|thrown| failed("draw a number", "crypto", &thrown))?;
    Ok(u64::from_le_bytes(bytes))
}

thread_local! {
    /// The pools of this thread, by their numbers. A disk may be sent to another thread, and objects of JavaScript may
    /// not, so the disk has the number alone.
    static POOLS: RefCell<Vec<Option<Rc<Files>>>> = const { RefCell::new(Vec::new()) };
}

/// A pool by its number.
#[derive(Clone, Copy)]
struct Pool(usize);

impl Pool {
    fn add(files: Files) -> Pool {
        POOLS.with_borrow_mut(|pools| {
            pools.push(Some(Rc::new(files)));
            Pool(pools.len() - 1)
        })
    }

    fn forget(self) {
        POOLS.with_borrow_mut(|pools| {
            if let Some(place) = pools.get_mut(self.0) {
                *place = None;
            }
        });
    }

    /// Does `work` with the pool, for a message that `action` of `path` failed.
    fn with<T>(
        self,
        action: &str,
        path: &str,
        work: impl FnOnce(&Files) -> std::result::Result<T, JsValue>,
    ) -> Result<T> {
        let files = POOLS.with_borrow(|pools| pools.get(self.0).cloned().flatten());
        let files = files.ok_or_else(|| {
            Error::new(
                Kind::Closed,
                format!("{path}: the pool of files was released: open it again"),
            )
        })?;
        work(&files).map_err(|thrown| failed(action, path, &thrown))
    }
}

/// `Io` for what a call of the host threw.
fn failed(action: &str, path: &str, thrown: &JsValue) -> Error {
    let object = thrown.dyn_ref::<js_sys::Error>();
    let name = object.map(|it| String::from(it.name())).unwrap_or_default();
    let text = object.map(|it| String::from(it.message()));
    let kind = match &*name {
        "QuotaExceededError" => std::io::ErrorKind::StorageFull,
        _ => std::io::ErrorKind::Other,
    };
    let text = text.unwrap_or_else(|| format!("{thrown:?}"));
    Error::io(action, path, std::io::Error::new(kind, text))
}

/// A file of the pool that has a name, or that is still open. Its number is given back with the last of both.
struct Slot {
    number: u32,
    names: Weak<Mutex<Names>>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(names) = self.names.upgrade() {
            lock(&names).leaving.push(self.number);
        }
    }
}

/// What the disk knows in memory.
struct Names {
    nodes: Nodes,
    /// Numbers that may be given away.
    free: Vec<u32>,
    /// Numbers that a durable directory may still name.
    leaving: Vec<u32>,
    /// How many files of the pool are known.
    count: u32,
    generation: u64,
    /// The copy of the directory that is whole and durable, whatever became of the other.
    whole: usize,
    held: HashMap<String, String>,
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A disk over a pool. One handle of a pool at a time: the browser sees to that.
pub struct PoolDisk {
    pool: Pool,
    names: Arc<Mutex<Names>>,
    root: String,
}

names_itself!(PoolDisk);

/// Files 0 and 1 are the directory's.
const FIRST: u32 = 2;
const COPIES: [u32; 2] = [0, 1];

impl PoolDisk {
    /// Reads the directory of a pool; one whose files are all empty has none yet. What no directory names is free.
    pub fn open(files: Files, root: &str) -> Result<PoolDisk> {
        let pool = Pool::add(files);
        let found = Self::load(pool, root);
        if found.is_err() {
            pool.forget();
        }
        found
    }

    fn load(pool: Pool, root: &str) -> Result<PoolDisk> {
        let count = pool.with("count the files of", root, Files::count)?;
        if count <= FIRST {
            return Err(Error::invalid(format!(
                "the pool {root} has {count} files: open it with more"
            )));
        }
        let copies = [Self::directory(pool, root, 0)?, Self::directory(pool, root, 1)?];
        let (directory, whole) = Directory::newest(&copies, root)?;
        let bytes = copies[whole].get(..directory.length).unwrap_or_default();
        pool.with("write the directory of", root, |files| {
            // What was read may not be durable, and is what is left if the other copy is torn.
            files.flush(COPIES[whole])?;
            if copies[1 - whole].get(..bytes.len()) != Some(bytes) {
                files.write(COPIES[1 - whole], 0.0, bytes)?;
                files.flush(COPIES[1 - whole])?;
            }
            Ok(())
        })?;
        let names = Arc::new(Mutex::new(Names {
            nodes: Nodes::default(),
            free: Vec::new(),
            leaving: Vec::new(),
            count,
            generation: directory.generation,
            whole,
            held: HashMap::new(),
        }));
        let mut slots: Vec<Option<Arc<Slot>>> = vec![None; count as usize];
        let mut nodes = Nodes::default();
        for (path, place) in directory.places {
            let node = match place {
                Place::Folder => Node::Folder,
                Place::File(number) if number < count => {
                    let new = || Arc::new(Slot { number, names: Arc::downgrade(&names) });
                    Node::File(Arc::clone(slots[number as usize].get_or_insert_with(new)))
                }
                Place::File(number) => {
                    return Err(Error::missing(format!(
                        "{path} is file {number} of the pool {root}, which has {count}: \
                         open it with all of its files"
                    )));
                }
            };
            nodes.insert(path, node);
        }
        let free: Vec<u32> =
            (FIRST..count).rev().filter(|it| slots[*it as usize].is_none()).collect();
        let disk = PoolDisk { pool, names, root: root.to_owned() };
        lock(&disk.names).nodes = nodes;
        for &number in &free {
            // What a crash left in it is nobody's.
            pool.with("empty a file of", root, |files| files.truncate(number, 0.0))?;
        }
        lock(&disk.names).free = free;
        Ok(disk)
    }

    fn directory(pool: Pool, root: &str, number: u32) -> Result<Vec<u8>> {
        pool.with("read the directory of", root, |files| {
            let length = files.size(number)?.min(f64::from(Directory::BYTES_MAX)) as usize;
            let mut bytes = vec![0; length];
            let found = files.read(number, 0.0, &mut bytes)? as usize;
            bytes.truncate(found);
            Ok(bytes)
        })
    }

    /// Makes all names durable as they are now, and gives the numbers free that they do not have.
    fn write_directory(&self) -> Result<()> {
        let mut names = lock(&self.names);
        let generation = names.generation + 1;
        let places = names.nodes.iter().map(|(path, node)| {
            let place = match node {
                Node::Folder => Place::Folder,
                Node::File(slot) => Place::File(slot.number),
            };
            (&**path, place)
        });
        let bytes = Directory::encode(generation, places, &self.root)?;
        // Also where this fails: one copy may have the number already.
        names.generation = generation;
        // The copy that is whole stays so until the other is: a crash, or a call that fails, may leave that one torn.
        for copy in [1 - names.whole, names.whole] {
            self.pool.with("write the directory of", &self.root, |files| {
                files.write(COPIES[copy], 0.0, &bytes)?;
                files.flush(COPIES[copy])
            })?;
            names.whole = copy;
        }
        let leaving = std::mem::take(&mut names.leaving);
        for number in leaving {
            self.pool.with("empty a file of", &self.root, |files| files.truncate(number, 0.0))?;
            names.free.push(number);
        }
        Ok(())
    }

    /// How many numbers may be given away, those that the host has opened since included.
    pub fn free_files(&self) -> Result<usize> {
        let count = self.pool.with("count the files of", &self.root, Files::count)?;
        let mut names = lock(&self.names);
        for number in names.count..count {
            names.free.insert(0, number);
        }
        names.count = names.count.max(count);
        Ok(names.free.len() + names.leaving.len())
    }

    /// Forgets the pool: what is still open fails from now on.
    pub fn release(&self) {
        self.pool.forget();
    }

    fn take_number(&self, path: &str) -> Result<u32> {
        if let Some(number) = lock(&self.names).free.pop() {
            return Ok(number);
        }
        if self.free_files()? > 0 {
            self.write_directory()?;
        }
        lock(&self.names).free.pop().ok_or_else(|| {
            let full = std::io::Error::new(
                std::io::ErrorKind::StorageFull,
                "no file of the pool is free: reserve more before the next call",
            );
            Error::io("make", path, full)
        })
    }

    fn slot(&self, path: &str) -> Result<Arc<Slot>> {
        paths::check(path)?;
        match lock(&self.names).nodes.get(path) {
            Some(Node::File(slot)) => Ok(Arc::clone(slot)),
            Some(Node::Folder) => Err(paths::is_folder(path)),
            None => Err(paths::missing(path)),
        }
    }

    /// Looks whether a new name may be made.
    fn check_new(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let names = lock(&self.names);
        check_folder(&names.nodes, paths::folder(path))?;
        if names.nodes.contains_key(path) { Err(paths::exists(path)) } else { Ok(()) }
    }

    fn create(&self, path: &str) -> Result<Arc<Slot>> {
        self.check_new(path)?;
        let number = self.take_number(path)?;
        let slot = Arc::new(Slot { number, names: Arc::downgrade(&self.names) });
        lock(&self.names).nodes.insert(path.to_owned(), Node::File(Arc::clone(&slot)));
        Ok(slot)
    }

    fn file(&self, slot: Arc<Slot>, path: &str, writable: bool) -> Arc<dyn File> {
        Arc::new(PoolFile { pool: self.pool, slot, path: path.to_owned(), writable })
    }
}

fn check_folder(nodes: &Nodes, path: &str) -> Result<()> {
    match nodes.get(path) {
        _ if path.is_empty() => Ok(()),
        Some(Node::Folder) => Ok(()),
        Some(Node::File(_)) => Err(paths::is_file(path)),
        None => Err(paths::missing(path)),
    }
}

impl Disk for PoolDisk {
    fn open(&self, path: &str, mode: Mode, _: Access) -> Result<Arc<dyn File>> {
        let slot = match mode {
            Mode::Create => self.create(path)?,
            Mode::Read | Mode::Write => self.slot(path)?,
        };
        Ok(self.file(slot, path, mode != Mode::Read))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        paths::check(to)?;
        let slot = self.slot(from)?;
        let mut names = lock(&self.names);
        check_folder(&names.nodes, paths::folder(to))?;
        if let Some(Node::Folder) = names.nodes.get(to) {
            return Err(paths::is_folder(to));
        }
        let old = names.nodes.remove(from);
        let replaced = names.nodes.insert(to.to_owned(), Node::File(slot));
        // Whose last name goes takes the lock.
        drop(names);
        drop((old, replaced));
        Ok(())
    }

    fn remove(&self, path: &str) -> Result<()> {
        let slot = self.slot(path)?;
        let removed = lock(&self.names).nodes.remove(path);
        drop((slot, removed));
        Ok(())
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        paths::check_directory(directory)?;
        let names = lock(&self.names);
        check_folder(&names.nodes, directory)?;
        let inside = names.nodes.keys().filter(|path| paths::folder(path) == directory);
        Ok(inside.map(|path| paths::name(path).to_owned()).collect())
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        if let Some(Node::Folder) = lock(&self.names).nodes.get(path) {
            return Ok(());
        }
        self.check_new(path)?;
        lock(&self.names).nodes.insert(path.to_owned(), Node::Folder);
        Ok(())
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        paths::check(path)?;
        let mut names = lock(&self.names);
        check_folder(&names.nodes, path)?;
        if names.nodes.keys().any(|other| paths::folder(other) == path) {
            let why = std::io::ErrorKind::DirectoryNotEmpty;
            return Err(Error::io("remove the folder", path, why.into()));
        }
        names.nodes.remove(path);
        Ok(())
    }

    fn exists(&self, path: &str) -> Result<bool> {
        paths::check_directory(path)?;
        Ok(path.is_empty() || lock(&self.names).nodes.contains_key(path))
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        paths::check_directory(path)?;
        check_folder(&lock(&self.names).nodes, path)?;
        self.write_directory()
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        if let Some(other) = lock(&self.names).held.get(path) {
            let detail = format!("{path} is locked by {other}: close it there first");
            return Err(Error::new(Kind::Locked, detail));
        }
        let slot = match self.slot(path) {
            Err(error) if error.kind() == Kind::Missing => self.create(path)?,
            slot => slot?,
        };
        let file = self.file(slot, path, true);
        file.set_len(0)?;
        file.write_at(0, holder.as_bytes())?;
        lock(&self.names).held.insert(path.to_owned(), holder.to_owned());
        Ok(Box::new(PoolLock { path: path.to_owned(), names: Arc::clone(&self.names) }))
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        let slot = self.slot(from)?;
        self.check_new(to)?;
        lock(&self.names).nodes.insert(to.to_owned(), Node::File(slot));
        Ok(Linked::HardLink)
    }

    fn entropy(&self) -> Result<u64> {
        random()
    }

    fn root(&self) -> &str {
        &self.root
    }
}

struct PoolLock {
    path: String,
    names: Arc<Mutex<Names>>,
}

names_itself!(PoolLock);

impl Lock for PoolLock {}

impl Drop for PoolLock {
    fn drop(&mut self) {
        lock(&self.names).held.remove(&self.path);
    }
}

struct PoolFile {
    pool: Pool,
    slot: Arc<Slot>,
    path: String,
    writable: bool,
}

names_itself!(PoolFile);

impl PoolFile {
    /// An offset or length that JavaScript's numbers have exactly.
    fn exact(&self, bytes: u64) -> Result<f64> {
        const EXACT_MAX: u64 = 1 << 53;
        if bytes <= EXACT_MAX {
            return Ok(bytes as f64);
        }
        let large = std::io::ErrorKind::FileTooLarge;
        Err(Error::io("grow", &self.path, large.into()))
    }

    fn check_writable(&self) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        Err(Error::new(Kind::Io, format!("{} was opened only to read", self.path)))
    }
}

impl File for PoolFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let place = self.exact(offset)?;
        let mut found = 0;
        while found < buffer.len() {
            let rest = &mut buffer[found..];
            let number = self.slot.number;
            let next = self
                .pool
                .with("read", &self.path, |files| files.read(number, place + found as f64, rest))?;
            if next == 0 {
                break;
            }
            found += next as usize;
        }
        Ok(found)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_writable()?;
        let place = self.exact(offset)?;
        self.exact(offset.saturating_add(bytes.len() as u64))?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.pool.with("write", &self.path, |files| files.write(self.slot.number, place, bytes))
    }

    fn sync(&self) -> Result<()> {
        self.pool.with("sync", &self.path, |files| files.flush(self.slot.number))
    }

    fn set_len(&self, length_bytes: u64) -> Result<()> {
        self.check_writable()?;
        let length = self.exact(length_bytes)?;
        self.pool
            .with("set the length of", &self.path, |files| files.truncate(self.slot.number, length))
    }

    fn preallocate(&self, length_bytes: u64) -> Result<()> {
        self.check_writable()?;
        self.exact(length_bytes).map(drop)
    }

    fn len(&self) -> Result<u64> {
        let size = self.pool.with("look at", &self.path, |files| files.size(self.slot.number))?;
        Ok(size as u64)
    }

    fn path(&self) -> &str {
        &self.path
    }
}

/// Paths as every disk takes them.
mod paths {
    use varvite::{Error, Kind, Result};

    pub fn check(path: &str) -> Result<()> {
        let is_sound = path
            .split('/')
            .all(|part| !part.is_empty() && part != "." && part != ".." && !part.contains('\0'));
        if is_sound {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{path:?} is not a path within a disk: use names separated by single slashes"
        )))
    }

    pub fn check_directory(path: &str) -> Result<()> {
        if path.is_empty() { Ok(()) } else { check(path) }
    }

    pub fn folder(path: &str) -> &str {
        path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    pub fn name(path: &str) -> &str {
        path.rsplit_once('/').map_or(path, |(_, name)| name)
    }

    pub fn missing(path: &str) -> Error {
        Error::missing(format!("{path} does not exist: check the name"))
    }

    pub fn exists(path: &str) -> Error {
        Error::new(Kind::Exists, format!("{path} exists already: remove it or use another name"))
    }

    pub fn is_folder(path: &str) -> Error {
        Error::invalid(format!("{path} is a folder, where a file is needed"))
    }

    pub fn is_file(path: &str) -> Error {
        Error::invalid(format!("{path} is a file, not a folder"))
    }
}

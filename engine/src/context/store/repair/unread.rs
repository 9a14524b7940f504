//! A folder that a repair reads as far as the disk does: what that does not read counts as damaged, and is told.

use std::sync::Arc;

use crate::disk::{Access, Disk, File, Linked, Lock, Mode};
use crate::error::{Error, Kind, Result};
use crate::order::BTreeMap;
use crate::sync::{Mutex, lock};

/// Bytes that are read at once where more cannot be.
const PART: u64 = 4096;

/// What stands for a byte that was not read. Zeros would be none that anybody has written.
const NOT_READ: u8 = 0xdb;

/// For each file the first byte that was not read, the last, and why; none of these of one that was not opened, and no name of
/// what was not listed.
type Unread = Mutex<BTreeMap<String, (Option<(u64, u64)>, String)>>;

/// See the module.
#[derive(Debug)]
pub(super) struct AsDamaged {
    inner: Arc<dyn Disk>,
    unread: Arc<Unread>,
}

impl AsDamaged {
    pub(super) fn over(inner: &Arc<dyn Disk>) -> Arc<AsDamaged> {
        Arc::new(AsDamaged { inner: Arc::clone(inner), unread: Arc::default() })
    }

    /// A sentence for each file of which something was not read.
    pub(super) fn told(&self) -> Vec<String> {
        let root = self.inner.root();
        let unread = lock(&self.unread);
        let told = unread.iter().map(|(name, (bytes, why))| match bytes {
            Some((first, last)) => format!(
                "{name} in {root} cannot be read everywhere, from byte {first} to {last}, which counts as damaged: {why}"
            ),
            None if name.is_empty() => {
                format!("what is in {root} cannot be listed, so nothing of it is found: {why}")
            }
            None => format!("{name} in {root} cannot be opened, which counts as damaged: {why}"),
        });
        told.collect()
    }

    /// What was found, or `otherwise` where the disk does not say.
    fn or<T>(&self, path: &str, found: Result<T>, otherwise: T) -> Result<T> {
        match found {
            Err(error) if error.kind() == Kind::Io => {
                note(&self.unread, path, None, &error);
                Ok(otherwise)
            }
            found => found,
        }
    }
}

fn note(unread: &Unread, name: &str, bytes: Option<(u64, u64)>, error: &Error) {
    let mut unread = lock(unread);
    let why = || (bytes, error.detail().to_owned());
    let known = &mut unread.entry(name.to_owned()).or_insert_with(why).0;
    if let (Some(known), Some((first, last))) = (known, bytes) {
        *known = (known.0.min(first), known.1.max(last));
    }
}

fn only_read() -> Error {
    Error::invalid("a damaged store is only read")
}

impl Disk for AsDamaged {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        if mode != Mode::Read {
            return Err(only_read());
        }
        let opened = self.inner.open(path, mode, access).map(Some);
        let (inner, name) = (self.or(path, opened, None)?, path.to_owned());
        Ok(Arc::new(Readable { inner, name, unread: Arc::clone(&self.unread) }))
    }

    fn rename(&self, _: &str, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn remove(&self, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn list(&self, path: &str) -> Result<Vec<String>> {
        self.or(path, self.inner.list(path), Vec::new())
    }

    fn create_directory(&self, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.or(path, self.inner.exists(path), false)
    }

    fn sync_directory(&self, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn lock(&self, _: &str, _: &str) -> Result<Box<dyn Lock>> {
        Err(only_read())
    }

    fn link_or_copy(&self, _: &str, _: &str) -> Result<Linked> {
        Err(only_read())
    }

    fn open_files_max(&self) -> Option<u64> {
        self.inner.open_files_max()
    }

    fn root(&self) -> &str {
        self.inner.root()
    }
}

/// A file of it; without bytes where it was not opened.
#[derive(Debug)]
struct Readable {
    inner: Option<Arc<dyn File>>,
    name: String,
    unread: Arc<Unread>,
}

impl Readable {
    /// The same in small parts, since the whole could not be read.
    fn read_parts(&self, file: &dyn File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let end = self.len()?.min(offset.saturating_add(buffer.len() as u64));
        let mut at = offset;
        while at < end {
            let next = end.min((at / PART + 1) * PART);
            let part = &mut buffer[(at - offset) as usize..(next - offset) as usize];
            match file.read_exact_at(at, part) {
                Err(error) if error.kind() == Kind::Io => {
                    part.fill(NOT_READ);
                    note(&self.unread, &self.name, Some((at, next - 1)), &error);
                }
                read => read?,
            }
            at = next;
        }
        Ok((at - offset) as usize)
    }
}

impl File for Readable {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let Some(file) = &self.inner else { return Ok(0) };
        match file.read_at(offset, buffer) {
            Err(error) if error.kind() == Kind::Io => self.read_parts(&**file, offset, buffer),
            read => read,
        }
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(only_read())
    }

    fn sync(&self) -> Result<()> {
        Err(only_read())
    }

    fn set_len(&self, _: u64) -> Result<()> {
        Err(only_read())
    }

    fn preallocate(&self, _: u64) -> Result<()> {
        Err(only_read())
    }

    fn len(&self) -> Result<u64> {
        match self.inner.as_ref().map_or(Ok(0), |file| file.len()) {
            Err(error) if error.kind() == Kind::Io => {
                note(&self.unread, &self.name, None, &error);
                Ok(0)
            }
            length => length,
        }
    }

    fn path(&self) -> &str {
        &self.name
    }
}

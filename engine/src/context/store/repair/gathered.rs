//! The files that a repair reads, wherever each of them is, as one folder that nobody can write to.

use std::collections::HashMap;
use std::sync::Arc;

use crate::disk::{Access, Disk, File, Linked, Lock, Mode};
use crate::error::{Error, Result};
use crate::format::header;

/// Where a file is.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) disk: Arc<dyn Disk>,
    /// The header that it should have, where its own is damaged.
    pub(super) header: Option<[u8; header::LENGTH]>,
    /// What of it is whole in another file.
    pub(super) mended: Option<Arc<Mended>>,
}

/// Parts of a damaged file that another file of `disk` has. No byte of them is kept in memory.
#[derive(Debug)]
pub(super) struct Mended {
    disk: Arc<dyn Disk>,
    path: String,
    /// In order of their places in the damaged file.
    parts: Vec<Part>,
    /// The bytes that the damaged file had, or more.
    length: u64,
}

/// Bytes from `place` on, which are from `from` on in the other file.
#[derive(Debug)]
struct Part {
    place: u64,
    from: u64,
    length: u64,
}

impl Mended {
    /// Nothing is taken yet of the file `path` of `disk` for one of `length` bytes.
    pub(super) fn of(disk: &Arc<dyn Disk>, path: &str, length: u64) -> Mended {
        Mended { disk: Arc::clone(disk), path: path.to_owned(), parts: Vec::new(), length }
    }

    /// Takes `length` bytes at `from` of the other file for those at `place`, if that is behind all that was taken.
    pub(super) fn take(&mut self, place: u64, from: u64, length: u64) {
        let last = self.parts.last_mut();
        match last.map(|last| (last.place + last.length, last)) {
            Some((end, last)) if (end, last.from + last.length) == (place, from) => {
                last.length += length;
            }
            Some((end, _)) if place < end => return,
            _ => self.parts.push(Part { place, from, length }),
        }
        self.length = self.length.max(place + length);
    }
}

/// Files by name.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) files: HashMap<String, Source>,
    /// Why a file that is not here is not.
    pub(super) missing: HashMap<String, String>,
}

impl Gathered {
    /// One file alone.
    pub(super) fn of_one(path: String, source: Source) -> Gathered {
        Gathered { files: HashMap::from([(path, source)]), missing: HashMap::new() }
    }
}

fn only_read() -> Error {
    Error::invalid("a damaged store is only read")
}

impl Disk for Gathered {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        if mode != Mode::Read {
            return Err(only_read());
        }
        let Some(source) = self.files.get(path) else {
            let why = self.missing.get(path).cloned();
            return Err(Error::missing(why.unwrap_or_else(|| format!("{path} is not there"))));
        };
        let mut file = source.disk.open(path, Mode::Read, access)?;
        if let Some(mended) = &source.mended {
            let other = mended.disk.open(&mended.path, Mode::Read, access)?;
            file = Arc::new(WithParts { file, other, mended: Arc::clone(mended) });
        }
        Ok(match source.header {
            Some(header) => Arc::new(Headed { file, header }),
            None => file,
        })
    }

    fn rename(&self, _: &str, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn remove(&self, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn list(&self, _: &str) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.files.keys().cloned().collect();
        names.sort_unstable();
        Ok(names)
    }

    fn create_directory(&self, _: &str) -> Result<()> {
        Err(only_read())
    }

    fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.files.contains_key(path))
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
        self.files.values().find_map(|source| source.disk.open_files_max())
    }

    fn root(&self) -> &'static str {
        "the damaged store"
    }
}

/// A file of which some parts are read in another.
#[derive(Debug)]
struct WithParts {
    file: Arc<dyn File>,
    other: Arc<dyn File>,
    mended: Arc<Mended>,
}

impl File for WithParts {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.mended.length.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..count];
        let found = self.file.read_at(offset, buffer)?;
        // Behind its end there are parts, and zeros between them.
        buffer[found..].fill(0);
        let end = offset + count as u64;
        let parts = &self.mended.parts;
        let first = parts.partition_point(|part| part.place + part.length <= offset);
        for part in parts[first..].iter().take_while(|part| part.place < end) {
            let begin = part.place.max(offset);
            let stop = (part.place + part.length).min(end);
            let place = &mut buffer[(begin - offset) as usize..(stop - offset) as usize];
            self.other.read_exact_at(part.from + (begin - part.place), place)?;
        }
        Ok(count)
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
        Ok(self.mended.length)
    }

    fn path(&self) -> &str {
        self.file.path()
    }
}

/// A file whose first bytes are others.
#[derive(Debug)]
struct Headed {
    file: Arc<dyn File>,
    header: [u8; header::LENGTH],
}

impl File for Headed {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let count = self.file.read_at(offset, buffer)?;
        for (place, byte) in (offset..).zip(&mut buffer[..count]).take(header::LENGTH) {
            if let Some(right) = self.header.get(place as usize) {
                *byte = *right;
            }
        }
        Ok(count)
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
        self.file.len()
    }

    fn path(&self) -> &str {
        self.file.path()
    }
}

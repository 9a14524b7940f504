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
}

/// Files by name.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) files: HashMap<String, Source>,
    /// Why a file that is not here is not.
    pub(super) missing: HashMap<String, String>,
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
        let file = source.disk.open(path, Mode::Read, access)?;
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

//! A disk in which one file goes by another name.
//!
//! With it a store is made whose control file has another name until all is there: nobody opens it before, and one rename
//! makes it a store.

use std::sync::Arc;

use super::{Access, Disk, File, Linked, Lock, Mode, Queue};
use crate::error::Result;

/// The disk in which the file `name` is that which the real one has as `real`; what follows the name, as `.tmp`, stays.
#[derive(Debug)]
pub(crate) struct StandIn {
    disk: Arc<dyn Disk>,
    name: &'static str,
    real: &'static str,
}

impl StandIn {
    pub(crate) fn new(disk: Arc<dyn Disk>, name: &'static str, real: &'static str) -> Arc<StandIn> {
        Arc::new(StandIn { disk, name, real })
    }

    fn real(&self, path: &str) -> String {
        match path.strip_prefix(self.name) {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => {
                format!("{}{rest}", self.real)
            }
            _ => path.to_owned(),
        }
    }

    fn shown(&self, name: String) -> String {
        match name.strip_prefix(self.real) {
            Some(rest) if rest.is_empty() || rest.starts_with('.') => {
                format!("{}{rest}", self.name)
            }
            _ => name,
        }
    }
}

impl Disk for StandIn {
    fn open(&self, path: &str, mode: Mode, access: Access) -> Result<Arc<dyn File>> {
        self.disk.open(&self.real(path), mode, access)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(&self.real(from), &self.real(to))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(&self.real(path))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let names = self.disk.list(directory)?;
        if !directory.is_empty() {
            return Ok(names);
        }
        let mut names: Vec<String> = names.into_iter().map(|name| self.shown(name)).collect();
        names.sort_unstable();
        Ok(names)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.disk.create_directory(path)
    }

    fn remove_directory(&self, path: &str) -> Result<()> {
        self.disk.remove_directory(path)
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(&self.real(path))
    }

    fn sync_directory(&self, path: &str) -> Result<()> {
        self.disk.sync_directory(path)
    }

    fn lock(&self, path: &str, holder: &str) -> Result<Box<dyn Lock>> {
        self.disk.lock(path, holder)
    }

    fn lock_directory(&self, path: &str) -> Result<Option<Box<dyn Lock>>> {
        self.disk.lock_directory(path)
    }

    fn link_or_copy(&self, from: &str, to: &str) -> Result<Linked> {
        self.disk.link_or_copy(&self.real(from), &self.real(to))
    }

    fn open_files_max(&self) -> Option<u64> {
        self.disk.open_files_max()
    }

    fn queue(&self, depth: usize) -> Result<Box<dyn Queue>> {
        self.disk.queue(depth)
    }

    fn entropy(&self) -> Result<u64> {
        self.disk.entropy()
    }

    fn root(&self) -> &str {
        self.disk.root()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::MemoryDisk;

    #[test]
    fn one_file_has_another_name_and_all_others_their_own() {
        let real = MemoryDisk::new();
        let disk = StandIn::new(Arc::clone(&real) as Arc<dyn Disk>, "control", "half");
        for name in ["control.tmp", "controls", "half-way"] {
            disk.open(name, Mode::Create, Access::Buffered).unwrap();
        }
        disk.rename("control.tmp", "control").unwrap();
        assert_eq!(disk.list("").unwrap(), ["control", "controls", "half-way"]);
        assert_eq!(real.list("").unwrap(), ["controls", "half", "half-way"]);
        assert!(disk.exists("control").unwrap() && !real.exists("control").unwrap());
        disk.remove("control").unwrap();
        assert_eq!(real.list("").unwrap(), ["controls", "half-way"]);
    }
}

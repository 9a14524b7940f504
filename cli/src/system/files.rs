//! Files that commands make beside stores.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use varvite::{Error, Kind, Result};

/// Writes a file that must not be there: what somebody named by mistake stays what it is, and no half of one is left.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// Such a file, written in parts. Unless it is finished, it goes when it is dropped.
pub struct NewFile {
    path: PathBuf,
    file: BufWriter<File>,
    is_whole: bool,
}

impl NewFile {
    /// Makes it.
    pub fn create(path: &Path) -> Result<NewFile> {
        let name = path.display().to_string();
        match OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => {
                let (path, file) = (path.to_owned(), BufWriter::new(file));
                Ok(NewFile { path, file, is_whole: false })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let detail = format!("{name} is there already: name another file, or remove it");
                Err(Error::new(Kind::Exists, detail))
            }
            Err(error) => Err(Error::io("make", &name, error)),
        }
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("write", &self.path.display().to_string(), error)
    }

    /// Writes what comes next.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| self.failed(error))
    }

    /// Ends it.
    pub fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|error| self.failed(error))?;
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_whole {
            // What failed is told; half of a file is of no use.
            let _ = fs::remove_file(&self.path);
        }
    }
}

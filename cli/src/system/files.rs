//! Files that commands make beside stores.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use varvite::{Error, Kind, Result};

/// Writes a file that must not be there: what somebody named by mistake stays what it is, and no half of one is left. It
/// gets its name once it is whole.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(is_there(path));
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".varvite-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any file that is made.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let Ok(mut file) = builder.tempfile_in(folder.unwrap_or(Path::new("."))) else {
        // By its own name at once, which says best why none can be made there.
        let mut file = NewFile::create(path)?;
        file.write(bytes)?;
        return file.finish();
    };
    let written = file.as_file_mut().write_all(bytes);
    let named = written.and_then(|()| file.persist_noclobber(path).map_err(|it| it.error));
    named.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(path),
        _ => Error::io("write", &path.display().to_string(), error),
    })
}

fn is_there(path: &Path) -> Error {
    let name = path.display();
    let detail = format!("{name} is there already: name another file, or remove it");
    Error::new(Kind::Exists, detail)
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
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(is_there(path)),
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

//! Files that commands make beside stores.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::{PathPersistError, TempDir, TempPath};
use varvite::{Error, Kind, Result};

/// Writes a file that must not be there: what somebody named by mistake stays what it is, and no half of one is left. It
/// gets its name once it is whole.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// `Exists` where something has the name `path`; `Invalid` where it can be that of a folder alone.
fn expect_free(path: &Path) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(is_there(path));
    }
    let (whole, name) = (path.as_os_str().as_encoded_bytes(), path.file_name());
    if name.is_none_or(|name| !whole.ends_with(name.as_encoded_bytes())) {
        let name = path.display();
        return Err(Error::invalid(format!("{name} is the name of a folder: name a file in it")));
    }
    Ok(())
}

fn is_there(path: &Path) -> Error {
    let name = path.display();
    let detail = format!("{name} is there already: name another file, or remove it");
    Error::new(Kind::Exists, detail)
}

/// Such a file, written in parts. Until it is finished it has another name, `.varvite-` with some letters, by which a kill
/// leaves it; otherwise it goes when it is dropped.
pub struct NewFile {
    path: PathBuf,
    file: BufWriter<File>,
    /// None where it has its own name at once.
    work: Option<TempPath>,
    is_whole: bool,
}

impl NewFile {
    /// Begins it.
    pub fn create(path: &Path) -> Result<NewFile> {
        expect_free(path)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".varvite-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any file that is made.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        let (file, work) = match builder.tempfile_in(folder_of(path)) {
            Ok(file) => {
                let (file, work) = file.into_parts();
                (file, Some(work))
            }
            // By its own name at once, which says best why none can be made there.
            Err(_) => (by_its_name(path)?, None),
        };
        let (path, file) = (path.to_owned(), BufWriter::new(file));
        Ok(NewFile { path, file, work, is_whole: false })
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
        if let Some(work) = self.work.take() {
            give_name(work, &self.path)?;
        }
        self.is_whole = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_whole && self.work.is_none() {
            // What failed is told; half of a file is of no use.
            remove_own(&self.path, self.file.get_ref());
        }
    }
}

/// A name beside `path`, in a folder that goes with what is left in it, for what is written by somebody else and gets its
/// own name once it is whole.
pub struct Work {
    folder: TempDir,
    path: PathBuf,
}

impl Work {
    /// Begins it.
    pub fn beside(path: &Path) -> Result<Work> {
        expect_free(path)?;
        let made = tempfile::Builder::new().prefix(".varvite-").tempdir_in(folder_of(path));
        let failed = |error: io::Error| {
            let error = io::Error::from(error.kind());
            Error::io("make", &path.display().to_string(), error)
        };
        Ok(Work { folder: made.map_err(failed)?, path: path.to_owned() })
    }

    /// Where it is written.
    pub fn place(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Gives it its name.
    pub fn finish(self) -> Result<()> {
        let work = TempPath::try_from_path(self.place());
        let failed = |error| Error::io("write", &self.path.display().to_string(), error);
        give_name(work.map_err(failed)?, &self.path)
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Gives what is at `work` the name `path`, which nothing may have.
fn give_name(work: TempPath, path: &Path) -> Result<()> {
    work.persist_noclobber(path).or_else(|refused| give_otherwise(&refused, path))
}

/// The same where the system has refused it.
fn give_otherwise(refused: &PathPersistError, path: &Path) -> Result<()> {
    if refused.error.kind() == io::ErrorKind::AlreadyExists {
        return Err(is_there(path));
    }
    // Some systems neither rename so that nothing is replaced, nor give a file a second name.
    copy_to(&refused.path, path)
}

/// Copies what is at `work` to a new file at `path`.
fn copy_to(work: &Path, path: &Path) -> Result<()> {
    let failed = |error| Error::io("write", &path.display().to_string(), error);
    let mut from = File::open(work).map_err(failed)?;
    let mut file = by_its_name(path)?;
    io::copy(&mut from, &mut file).map(drop).map_err(|error| {
        remove_own(path, &file);
        failed(error)
    })
}

/// A new file at `path`.
fn by_its_name(path: &Path) -> Result<File> {
    let made = OpenOptions::new().write(true).create_new(true).open(path);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(path),
        _ => Error::io("make", &path.display().to_string(), error),
    })
}

/// Which file it is, where the system tells. The number of one that was removed goes to the next one, so when it was made
/// counts, too.
type Identity = (u64, u64, Option<SystemTime>);

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.created().ok())
}

#[cfg(not(unix))]
fn identity(metadata: &fs::Metadata) -> Identity {
    (0, 0, metadata.created().ok())
}

/// A file that this process has made, to be removed if it still has its name: somebody may have put another there.
#[derive(Debug)]
pub struct Own {
    path: PathBuf,
    identity: Option<Identity>,
}

impl Own {
    /// The one that was just made at `path`.
    pub fn at(path: &Path) -> Own {
        let identity = fs::symlink_metadata(path).ok().as_ref().map(identity);
        Own { path: path.to_owned(), identity }
    }

    /// Whether it is what is at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        let found = fs::symlink_metadata(path).ok();
        found.is_some_and(|found| Some(identity(&found)) == self.identity)
    }

    /// How long what has its name is.
    pub fn length(&self) -> u64 {
        fs::symlink_metadata(&self.path).map_or(0, |found| found.len())
    }

    /// Removes it.
    pub fn remove(self) {
        if self.is_at(&self.path) {
            // What went wrong before is what is told.
            let _ = fs::remove_file(self.path);
        }
    }
}

fn remove_own(path: &Path, file: &File) {
    let identity = file.metadata().ok().as_ref().map(identity);
    Own { path: path.to_owned(), identity }.remove();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_once_it_is_whole_and_goes_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let names = || fs::read_dir(folder.path()).unwrap().count();
        let mut file = NewFile::create(&path).unwrap();
        file.write(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(names(), 0);
        let mut file = NewFile::create(&path).unwrap();
        file.write(b"whole").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(NewFile::create(&path).err().map(|it| it.kind()), Some(Kind::Exists));
        let work = Work::beside(&folder.path().join("other")).unwrap();
        fs::write(work.place(), "x").unwrap();
        fs::write(folder.path().join("other"), "of another").unwrap();
        assert_eq!(work.finish().unwrap_err().kind(), Kind::Exists);
        assert_eq!(fs::read(folder.path().join("other")).unwrap(), b"of another");
        assert_eq!(names(), 2);
    }

    /// Where the system neither renames without replacing nor links.
    #[test]
    fn a_file_is_copied_where_it_cannot_be_given_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let [work, path] = ["work", "out"].map(|name| folder.path().join(name));
        fs::write(&work, "all of it").unwrap();
        copy_to(&work, &path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"all of it");
        assert_eq!(copy_to(&work, &path).unwrap_err().kind(), Kind::Exists);
    }

    #[test]
    fn a_file_that_the_system_gives_no_name_is_copied_unless_another_has_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let [work, path] = ["work", "out"].map(|name| folder.path().join(name));
        let refused = |kind: io::ErrorKind| {
            fs::write(&work, "all of it").unwrap();
            let (error, path) = (kind.into(), TempPath::try_from_path(&work).unwrap());
            PathPersistError { error, path }
        };
        let error = give_otherwise(&refused(io::ErrorKind::AlreadyExists), &path).unwrap_err();
        assert!(error.kind() == Kind::Exists && !path.exists(), "{error}");
        for kind in [io::ErrorKind::PermissionDenied, io::ErrorKind::Unsupported] {
            give_otherwise(&refused(kind), &path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"all of it");
            assert!(!work.exists());
            fs::remove_file(&path).unwrap();
        }
    }

    /// Else all the work would be done for a name that cannot be given.
    #[test]
    fn what_can_only_be_a_folder_is_no_name_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["out/", "out//", "out/.", "none/.."] {
            let path = folder.path().join(name);
            for kind in [NewFile::create(&path).err(), Work::beside(&path).err()] {
                assert_eq!(kind.map(|it| it.kind()), Some(Kind::Invalid), "{name}");
            }
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn what_took_the_place_of_an_own_file_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "own").unwrap();
        let own = Own::at(&path);
        fs::write(folder.path().join("other"), "other").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        own.remove();
        assert_eq!(fs::read(&path).unwrap(), b"other");
        Own::at(&path).remove();
        assert!(!path.exists());
    }
}

//! A folder with live tables: opened or made, with tables that come and go.

use std::path::Path;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{
    Error, Kind, OpenTable, Result, Session, SessionOptions, TableOptions, Tables, Verify,
};

use crate::log_disk::LogDisk;

/// What is done where no store is, or one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `Missing` where none is.
    Open,
    /// Made where none is.
    OpenOrCreate,
    /// `Exists` where one is.
    Create,
    /// As the log has the tables just now, beside whoever writes; nothing is changed.
    ReadOnly,
}

/// A session with all of its live tables.
#[derive(Debug)]
pub struct Store {
    // The order in which they are dropped: the folder's lock goes with the last of them.
    tables: Tables,
    session: Session,
    disk: Arc<LogDisk>,
}

impl Store {
    /// Opens the store in the folder `path`. Its log is that of `options`.
    pub fn open(path: &Path, way: Way, options: SessionOptions) -> Result<Store> {
        let makes = matches!(way, Way::OpenOrCreate | Way::Create);
        let folder = if makes { OsDisk::create(path)? } else { OsDisk::new(path)? };
        let disk = LogDisk::new(folder);
        let shared: Arc<dyn Disk> = Arc::<LogDisk>::clone(&disk);
        let session = match way {
            Way::Open => Session::open(shared, options)?,
            Way::ReadOnly => Session::open_read_only(shared, options)?,
            Way::Create => Session::create(shared, options)?,
            Way::OpenOrCreate => match Session::open(Arc::clone(&shared), options.clone()) {
                Err(error) if error.kind() == Kind::Missing => Session::create(shared, options)?,
                other => other?,
            },
        };
        let tables = session.open_shared(&OpenTable::default())?;
        Ok(Store { tables, session, disk })
    }

    /// Whether a store is in the folder `path`, one that can be read.
    #[must_use]
    pub fn is_there(path: &Path) -> bool {
        Store::open(path, Way::ReadOnly, SessionOptions::default()).is_ok()
    }

    /// The tables.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Makes a live table, which is durable then.
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<()> {
        self.tables.add(self.session.create_table(name, options)?)
    }

    /// Deletes a live table. Views of it keep what they have.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.tables.remove(name)?.close()?;
        let deleted = self.session.delete_table(name);
        if deleted.is_err()
            && let Ok(table) = self.session.open_table(name, &OpenTable::default())
        {
            self.tables.add(table)?;
        }
        deleted
    }

    /// Makes every update durable whose call returned. After an error write no more.
    pub fn sync_log(&self) -> Result<()> {
        self.disk.sync_log()
    }

    /// Copies the tables of this moment to the folder `path`, which is not there: a store of its own.
    pub fn backup(&self, path: &Path) -> Result<()> {
        if path.try_exists().unwrap_or(true) {
            return Err(Error::new(
                Kind::Exists,
                format!("{} is there already: choose a new folder for the copy", path.display()),
            ));
        }
        let target: Arc<dyn Disk> = OsDisk::create(path)?;
        self.session.backup(&target, Verify::Quick).map(|_| ())
    }

    /// Bytes of the files of table `name`; `Missing`.
    pub fn disk_bytes(&self, name: &str) -> Result<u64> {
        self.stats(name).map(|stats| stats.disk_bytes + stats.blob_disk_bytes)
    }

    /// What table `name` consists of; `Missing`.
    pub fn stats(&self, name: &str) -> Result<varvite::TableStats> {
        let missing = || Error::new(Kind::Missing, format!("there is no table \"{name}\""));
        self.tables.with(|tables| {
            tables.iter().find(|table| table.name() == name).ok_or_else(missing)?.stats()
        })
    }
}

/// What the operating system said, where an error of varvite came from it.
#[must_use]
pub fn io_kind(error: &Error) -> std::io::ErrorKind {
    let mut source = std::error::Error::source(error);
    while let Some(below) = source {
        if let Some(error) = below.downcast_ref::<std::io::Error>() {
            return error.kind();
        }
        source = below.source();
    }
    std::io::ErrorKind::Other
}

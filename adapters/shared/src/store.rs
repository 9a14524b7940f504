//! A folder with live tables: opened or made, with tables that come and go.

use std::path::Path;
use std::sync::Arc;

use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{
    Error, Kind, OpenTable, Result, Session, SessionOptions, TableOptions, Tables, Verify,
};

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
}

impl Store {
    /// Opens the store in the folder `path`. Its log is that of `options`.
    pub fn open(path: &Path, way: Way, options: SessionOptions) -> Result<Store> {
        let makes = matches!(way, Way::OpenOrCreate | Way::Create);
        let folder = if makes { OsDisk::create(path)? } else { OsDisk::new(path)? };
        Store::over(folder, way, options)
    }

    /// The same on any disk.
    pub fn over(disk: Arc<dyn Disk>, way: Way, options: SessionOptions) -> Result<Store> {
        let session = match way {
            Way::Open => Session::open(disk, options)?,
            Way::ReadOnly => Session::open_read_only(disk, options)?,
            Way::Create => Session::create(disk, options)?,
            Way::OpenOrCreate => match Session::open(Arc::clone(&disk), options.clone()) {
                Err(error) if error.kind() == Kind::Missing => Session::create(disk, options)?,
                other => other?,
            },
        };
        let tables = session.open_shared(&OpenTable::default())?;
        Ok(Store { tables, session })
    }

    /// Whether a store is in the folder `path`, one that can be read.
    #[must_use]
    pub fn is_there(path: &Path) -> bool {
        Store::open(path, Way::ReadOnly, SessionOptions::default()).is_ok()
    }

    /// Whether the store in the folder `path` has a log, whatever is in it.
    #[must_use]
    pub fn has_log(path: &Path) -> bool {
        !Store::log_files(path).is_empty()
    }

    /// How many bytes each file of the log in the folder `path` has.
    #[must_use]
    pub fn log_files(path: &Path) -> Vec<u64> {
        let entries = std::fs::read_dir(path.join("log")).into_iter().flatten().flatten();
        let files = entries.filter(|it| it.path().extension().is_some_and(|it| it == "log"));
        files.map(|file| file.metadata().map_or(0, |it| it.len())).collect()
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
        Ok(self.tables.add(self.session.create_table(name, options)?)?)
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

    /// Makes every update durable whose call returned. After an error nothing is written any more.
    pub fn sync_log(&self) -> Result<()> {
        self.session.sync_log()
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
        self.session.backup(&target, Verify::Quick).map(drop).inspect_err(|_| {
            // The folder was made here, and the next try is to find none. The first error is the one to tell.
            let _ = std::fs::remove_dir_all(path);
        })
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

#[cfg(test)]
mod tests {
    use varvite::disk::sim::{Crash, Fault, SimDisk};
    use varvite::{Batch, Log};

    use super::*;

    fn options() -> SessionOptions {
        SessionOptions { log: Log::Written, log_file_bytes: 4096, ..SessionOptions::default() }
    }

    fn written(sim: &Arc<SimDisk>) -> Result<Store> {
        let disk: Arc<dyn Disk> = Arc::<SimDisk>::clone(sim);
        let store = Store::over(disk, Way::OpenOrCreate, options())?;
        store.create_table("t", TableOptions::default())?;
        // The log comes to its second file, and further.
        for number in 0..100_u32 {
            let key = number.to_be_bytes();
            store.tables().commit(&[("t", Batch::new().insert(&key, &[7; 100]))])?;
        }
        Ok(store)
    }

    /// In how many of the images that power cuts leave each of two keys is missing.
    fn losses(syncs: bool) -> Result<[usize; 2]> {
        let sim = SimDisk::new(1);
        let store = written(&sim)?;
        let put = |key: &[u8]| store.tables().commit(&[("t", Batch::new().insert(key, b"1"))]);
        put(b"before")?;
        if syncs {
            store.sync_log()?;
        }
        put(b"after")?;
        let mut losses = [0; 2];
        for (_, image) in sim.crash_images(8, 64) {
            let store = Store::over(image, Way::Open, options())?;
            let view = store.tables().view("t")?;
            for (number, key) in [&b"before"[..], b"after"].into_iter().enumerate() {
                losses[number] += usize::from(view.get(key)?.is_none());
            }
        }
        Ok(losses)
    }

    #[test]
    fn what_was_written_before_a_sync_outlives_a_power_cut() -> Result<()> {
        let [before, after] = losses(true)?;
        assert_eq!(before, 0);
        assert!(after > 0, "what came after it was never synced");
        assert!(losses(false)?[0] > 0, "without the sync it may be lost");
        Ok(())
    }

    #[test]
    fn after_a_failed_sync_nothing_is_acknowledged_or_built_upon() -> Result<()> {
        let sim = SimDisk::new(2);
        let store = written(&sim)?;
        sim.fail_at(1, Fault::Sync);
        assert_eq!(store.sync_log().expect_err("the sync fails").kind(), Kind::Io);
        let refused = |outcome: Result<()>| {
            assert_eq!(outcome.expect_err("nobody knows what stands").kind(), Kind::Poisoned);
        };
        refused(store.sync_log());
        refused(store.create_table("u", TableOptions::default()));
        refused(store.tables().commit(&[("t", Batch::new().insert(b"k", b"1"))]));
        refused(store.drop_table("t"));
        drop(store);
        // Nothing durable names what the sync has lost.
        let disk: Arc<dyn Disk> = sim.crash(Crash::Subset(0));
        Store::over(disk, Way::Open, options())?.tables().view("t")?;
        Ok(())
    }
}

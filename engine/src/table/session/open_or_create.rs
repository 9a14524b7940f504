//! A session and its tables, whether they are there already or not.

use std::borrow::Borrow;
use std::path::Path;
use std::sync::Arc;

use super::lifecycle::Session;
use super::live::OpenTable;
use super::tables::Tables;
use crate::disk::Disk;
use crate::disk::os::OsDisk;
use crate::error::{Error, Kind, Result};
use crate::table::shared::{Log, SessionOptions, TableOptions};
use crate::table::write::Table;

impl Session {
    /// Opens the session in `folder` for writing, or makes it, with the folder and those above it, where there
    /// is none. What [`Session::open`] and [`Session::create`] cost and refuse: a folder that holds something
    /// else is `Invalid`, a session that lost its file `session` is `Corrupt`, and nothing is removed.
    ///
    /// ```
    /// use varvite::{Batch, Log, Session, SessionOptions, TableOptions};
    /// # let temporary = tempfile::tempdir().expect("a folder for temporary files");
    /// # let folder = temporary.path().join("ledger");
    /// # for run in 0..2 {
    ///
    /// let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    /// let session = Session::open_or_create(&folder, options)?;
    /// let mut utxo = session.open_or_create_table("utxo", TableOptions::utxo())?;
    /// # assert_eq!(utxo.get(b"tx1#0")?.is_some(), run == 1);
    /// utxo.update(Batch::new().insert(b"tx1#0", b"5 ada"))?; // there at the next run
    /// # }
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn open_or_create(folder: impl AsRef<Path>, options: SessionOptions) -> Result<Session> {
        Self::open_or_create_on(OsDisk::create(folder.as_ref())?, options)
    }

    /// The same in the root folder of `disk`.
    pub fn open_or_create_on(disk: Arc<dyn Disk>, options: SessionOptions) -> Result<Session> {
        match Self::open(Arc::clone(&disk), options.clone()) {
            Err(error) if error.kind() == Kind::Missing => {}
            opened => return opened,
        }
        match Self::create(Arc::clone(&disk), options.clone()) {
            // Another process has made it meanwhile.
            Err(error) if error.kind() == Kind::Exists => Self::open(disk, options),
            created => created,
        }
    }

    /// Opens the live table `name`, or makes it where there is none. One that is there keeps the options that it
    /// was made with; the operator of `options` has to be its own. `Invalid` in a session without a log, where no table
    /// is found again but in snapshots. Costs what [`Session::open_table`] or [`Session::create_table`] does.
    pub fn open_or_create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        self.check_log(name)?;
        if self.live_tables()?.iter().any(|there| there == name) {
            check_operator(self.open_table(name, &with_operators([&options]))?, &options)
        } else {
            self.create_table(name, options)
        }
    }

    /// Opens every live table and makes those of `tables` that are not there, behind one handle that threads share.
    /// See [`Session::open_or_create_table`] and [`Session::share`]. One pass over the log, and a checkpoint for each
    /// table that is made.
    ///
    /// ```
    /// use varvite::{Batch, Log, Session, SessionOptions, TableOptions, disk::memory::MemoryDisk};
    ///
    /// let options = SessionOptions { log: Log::Synced, ..SessionOptions::default() };
    /// let session = Session::open_or_create_on(MemoryDisk::seeded(1), options)?;
    /// let tables = session.open_or_create_tables([
    ///     ("utxo", TableOptions::utxo()),
    ///     ("stake", TableOptions::default()),
    /// ])?;
    /// tables.commit(&[("utxo", Batch::new().insert(b"tx1#0", b"5 ada"))])?;
    /// assert!(tables.get("utxo", b"tx1#0")?.is_some());
    /// # Ok::<(), varvite::Error>(())
    /// ```
    pub fn open_or_create_tables<'a>(
        &self,
        tables: impl IntoIterator<Item = (&'a str, TableOptions)>,
    ) -> Result<Tables> {
        let wanted: Vec<_> = tables.into_iter().collect();
        wanted.iter().try_for_each(|(name, _)| self.check_log(name))?;
        let mut opened =
            self.open_all(&with_operators(wanted.iter().map(|(_, options)| options)))?;
        for (name, options) in wanted {
            if let Some(table) = opened.iter().find(|table| table.name() == name) {
                check_operator(table, &options)?;
            } else {
                opened.push(self.create_table(name, options)?);
            }
        }
        Ok(self.share(opened)?)
    }

    /// `Invalid` where the next opening would not find a table again.
    fn check_log(&self, name: &str) -> Result<()> {
        if self.store.options.log != Log::None {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "table {name} cannot be opened or made: without a log no table is found again; set `log` in the options \
             of the session, or use `create_table` and snapshots"
        )))
    }
}

/// `Invalid` when `options` would join upserts otherwise than `table` does.
fn check_operator<T: Borrow<Table>>(table: T, options: &TableOptions) -> Result<T> {
    let called = |options: &TableOptions| {
        options
            .operator
            .as_ref()
            .map_or_else(|| "none".to_owned(), |operator| operator.name().to_owned())
    };
    let (there, asked) = (called(table.borrow().options()), called(options));
    if there == asked {
        return Ok(table);
    }
    Err(Error::invalid(format!(
        "table {} was made with the merge operator {there}, and {asked} is asked for: give the one that it has",
        table.borrow().name()
    )))
}

/// How tables are opened that may have the operators of `options`.
fn with_operators<'a>(options: impl IntoIterator<Item = &'a TableOptions>) -> OpenTable {
    let operators = options.into_iter().filter_map(|options| options.operator.clone()).collect();
    OpenTable { operators, ..OpenTable::default() }
}

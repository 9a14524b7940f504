//! Where commands read: a live table, or a snapshot of a store.

use std::path::{Path, PathBuf};

use clap::Args;
use varvite::{Error, Kind, Result, Session, SessionOptions, Snapshot, Table, Verify};

use crate::advice;
use crate::store::tables;

/// Tables with the session that they live in, and those that cannot be opened.
pub type Opened = (Session, Vec<Table>, Vec<(String, Error)>);

/// Where to read.
#[derive(Debug, Args)]
pub struct From {
    /// Folder of the store
    pub store: PathBuf,
    /// Name of the table
    pub table: String,
    #[command(flatten)]
    pub moment: Moment,
}

/// Which state of it to read.
#[derive(Debug, Args)]
pub struct Moment {
    /// Read this snapshot [default: the live table, or without any the newest head or only snapshot]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Read the live table, as the log has it now; without --snapshot this is so where there are any
    #[arg(long, conflicts_with = "snapshot")]
    pub live: bool,
}

impl Moment {
    fn is_live(&self, session: &Session) -> Result<bool> {
        Ok(self.live || self.snapshot.is_none() && tables::is_live(session)?)
    }

    fn snapshot(&self, session: &Session) -> Result<Snapshot> {
        tables::read(session, self.snapshot.as_deref(), Verify::Quick)
    }

    /// The table called `name` of the store, and the session that it lives in.
    pub fn open(&self, store: &Path, name: &str) -> Result<(Session, Table)> {
        let session = tables::open_read_only(store, SessionOptions::default())?;
        if self.is_live(&session)? {
            let besides = "; --snapshot reads it there";
            let table = tables::live_table_to_look(&session, name, besides)?;
            return Ok((session, table));
        }
        let mut snapshot = self.snapshot(&session)?;
        Ok((session, snapshot.take(name)?))
    }

    /// All tables of the store, in the order of their names. Where it `skips` what is damaged, live tables that cannot be
    /// opened are told apart, with the reason.
    pub fn open_all(&self, store: &Path, skips: bool) -> Result<Opened> {
        let session = tables::open_read_only(store, SessionOptions::default())?;
        let mut closed = Vec::new();
        let mut all = if !self.is_live(&session)? {
            self.snapshot(&session).map_err(|error| or_repair(error, store))?.tables
        } else if skips {
            let mut all = Vec::new();
            for name in session.live_tables()? {
                match tables::live_table_to_look(&session, &name, "") {
                    Ok(table) => all.push(table),
                    Err(error) if error.kind() == Kind::Corrupt => closed.push((name, error)),
                    Err(error) => return Err(error),
                }
            }
            all
        } else {
            tables::live_tables_to_look(&session).map_err(|error| or_repair(error, store))?
        };
        all.sort_unstable_by(|one, other| one.name().cmp(other.name()));
        Ok((session, all, closed))
    }
}

/// Damage that keeps all tables from being opened together: a repair keeps those that are whole.
fn or_repair(error: Error, store: &Path) -> Error {
    if error.kind() == Kind::Corrupt { error.with_advice(&advice::repair(store)) } else { error }
}

impl From {
    /// The table, and the session that it lives in.
    pub fn open(&self) -> Result<(Session, Table)> {
        self.moment.open(&self.store, &self.table)
    }
}

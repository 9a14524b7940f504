//! Where commands read: a snapshot of a store, or a live table.

use std::path::PathBuf;

use clap::Args;
use varvite::{OpenTable, Result, Session, SessionOptions, Table, Verify};

use crate::store::tables;

/// Where to read.
#[derive(Debug, Args)]
pub struct From {
    /// Folder of the store
    pub store: PathBuf,
    /// Name of the table
    pub table: String,
    /// Read this snapshot [default: the newest head, or the only snapshot]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Read the live table, as the log has it now
    #[arg(long, conflicts_with = "snapshot")]
    pub live: bool,
}

impl From {
    /// The table, and the session that it lives in.
    pub fn open(&self) -> Result<(Session, Table)> {
        let session = tables::open_read_only(&self.store, SessionOptions::default())?;
        if self.live {
            let options = OpenTable { operators: tables::operators(), ..OpenTable::default() };
            let table = session.open_table(&self.table, &options)?;
            return Ok((session, table));
        }
        let mut snapshot = tables::read(&session, self.snapshot.as_deref(), Verify::Quick)?;
        Ok((session, snapshot.take(&self.table)?))
    }
}

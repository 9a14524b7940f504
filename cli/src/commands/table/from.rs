//! Where commands read: a live table, or a snapshot of a store.

use std::path::PathBuf;

use clap::Args;
use varvite::{Result, Session, SessionOptions, Table, Verify};

use crate::store::tables;

/// Where to read.
#[derive(Debug, Args)]
pub struct From {
    /// Folder of the store
    pub store: PathBuf,
    /// Name of the table
    pub table: String,
    /// Read this snapshot [default: the live table, or without any the newest head or only snapshot]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Read the live table, as the log has it now; without --snapshot this is so where there are any
    #[arg(long, conflicts_with = "snapshot")]
    pub live: bool,
}

impl From {
    /// The table, and the session that it lives in.
    pub fn open(&self) -> Result<(Session, Table)> {
        let session = tables::open_read_only(&self.store, SessionOptions::default())?;
        if self.live || self.snapshot.is_none() && tables::is_live(&session)? {
            let besides = "; --snapshot reads it there";
            let table = tables::live_table_to_look(&session, &self.table, besides)?;
            return Ok((session, table));
        }
        let mut snapshot = tables::read(&session, self.snapshot.as_deref(), Verify::Quick)?;
        Ok((session, snapshot.take(&self.table)?))
    }
}

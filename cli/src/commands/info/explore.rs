//! `varvite explore`: stores in a browser, on this machine only.

#[cfg(not(feature = "explorer"))]
mod absent;
#[cfg(feature = "explorer")]
mod pages;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use varvite::{Result, Session, SessionOptions, Table, Verify};

use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format, records};
use crate::store::context::Foreign;
use crate::store::tables;

#[cfg(not(feature = "explorer"))]
pub use absent::Pages;
#[cfg(feature = "explorer")]
pub use pages::Pages;

/// Show a store in a browser: commits, trees and what differs, levels, space, traces; read only, beside its writer
///
/// Serves pages on this machine until it is stopped: they ask nobody else for anything, and other machines cannot reach
/// them. /metrics has figures for Prometheus. The guide is docs/guide/explorer.md.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store; stores in folders of it are shown too
    store: PathBuf,
    /// Where to listen: an address of this machine alone; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: String,
    /// Show this trace too; may be repeated, up to eight times
    #[arg(long, value_name = "FILE")]
    trace: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// How stores are opened whose folders do not say all.
#[derive(Debug, Default, Args)]
#[cfg_attr(not(feature = "explorer"), allow(dead_code))] // taken all the same, and then refused
pub struct How {
    /// Show the tables as they are in this snapshot; otherwise live ones, or the current snapshot
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    #[command(flatten)]
    foreign: Foreign,
}

/// Runs the command.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let pages = Pages::at(&arguments.listen)?;
    let pages = pages.bind(&arguments.store, &arguments.trace, &arguments.how)?;
    let url = pages.url();
    match format {
        Format::Json => {
            // Who waits for it has it now and not when all has ended.
            records::record(json!({ "url": url }))?;
            records::flush()?;
        }
        Format::Table => print::line(&shown(&url))?,
    }
    pages.serve()?;
    Ok(Verdict::Yes)
}

/// What is said of pages that can be looked at.
pub fn shown(url: &str) -> String {
    format!("{url} shows the store, read only; Ctrl-C ends it")
}

/// Tables of a store that is open to be looked at.
pub struct Opened {
    #[cfg_attr(not(feature = "explorer"), allow(dead_code))] // kept open
    pub session: Session,
    pub tables: Vec<Table>,
    /// Which state they are of.
    pub place: String,
}

/// The tables as commands that read find them.
pub fn open_tables(path: &Path, snapshot: Option<&str>) -> Result<Opened> {
    let session = tables::open_read_only(path, SessionOptions::default())?;
    if snapshot.is_none() && tables::is_live(&session)? {
        let tables = tables::live_tables_to_look(&session)?;
        return Ok(Opened { session, tables, place: "live".to_owned() });
    }
    if snapshot.is_none() && tables::current(&session)?.is_none() {
        return Ok(Opened { session, tables: Vec::new(), place: "no snapshot yet".to_owned() });
    }
    // A head that a writer replaces meanwhile is looked for again.
    let (name, mut snapshot) = tables::read_named(&session, snapshot, Verify::Quick)?;
    let names: Vec<_> = snapshot.tables.iter().map(|table| table.name().to_owned()).collect();
    let tables = names.iter().map(|name| snapshot.take(name)).collect::<Result<_>>()?;
    Ok(Opened { session, tables, place: format!("snapshot {name}") })
}

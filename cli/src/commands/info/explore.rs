//! `varvite explore`: stores in a browser, on this machine only.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde_json::json;
use varvite::context::Options;
use varvite::{Error, Result, SessionOptions, Verify};
use varvite_explore::{Explorer, Limits, OpenTables, Opens, Source, check_address};

use super::What;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format, records};
use crate::store::context::{Folder, Foreign};
use crate::store::{folder, tables};

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
pub struct How {
    /// Show the tables as they are in this snapshot; otherwise live ones, or the current snapshot
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    #[command(flatten)]
    foreign: Foreign,
}

/// Traces that are shown at most.
const TRACES_MAX: usize = 8;

/// Stores in folders of the one that is given.
const BELOW_MAX: usize = 32;

/// Memory for what a context's pages and nodes need while they are shown.
const CACHE_BYTES: u64 = 32 << 20;

/// Runs the command.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let address = check_address(&arguments.listen)?;
    let explorer = bind(&arguments.store, address, &arguments.trace, &arguments.how)?;
    let url = explorer.url();
    match format {
        Format::Json => {
            // Who waits for it has it now and not when all has ended.
            records::record(json!({ "url": url }))?;
            records::flush()?;
        }
        Format::Table => print::line(&shown(&url))?,
    }
    serve(explorer)?;
    Ok(Verdict::Yes)
}

/// What is said of pages that can be looked at.
pub fn shown(url: &str) -> String {
    format!("{url} shows the store, read only; Ctrl-C ends it")
}

/// Listens, to show the stores in `folder`.
pub fn bind(folder: &Path, address: SocketAddr, traces: &[PathBuf], how: &How) -> Result<Explorer> {
    if traces.len() > TRACES_MAX {
        return Err(Error::invalid(format!("{TRACES_MAX} traces are shown at most")));
    }
    if let Some(missing) = traces.iter().find(|file| !file.is_file()) {
        return Err(Error::missing(format!("there is no trace {}", missing.display())));
    }
    Explorer::bind(address, stores(folder, how)?, traces.to_vec(), Limits::default())
}

/// Serves until somebody ends the program.
pub fn serve(explorer: Explorer) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Error::io("watch for", "the end of the program", error))?;
    }
    explorer.serve(|| stop.load(Ordering::Relaxed))
}

/// The store in the folder and those right below it.
fn stores(path: &Path, how: &How) -> Result<Vec<Source>> {
    folder::disk(path)?;
    if how.foreign.lower().is_some() && !matches!(What::of(path), Some(What::Context | What::Irmin))
    {
        let detail = "is no context, so --lower is of none: give the folder of the context itself";
        return Err(Error::invalid(format!("{} {detail}", path.display())));
    }
    if let Some(lower) = how.foreign.lower() {
        folder::disk(lower)?;
    }
    let mut found: Vec<(PathBuf, What)> = Vec::new();
    found.extend(What::of(path).map(|what| (path.to_owned(), what)));
    let mut below: Vec<PathBuf> =
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    below.sort();
    // The lower layer of an archive is read through its upper one, and a context's index is its own.
    let of_store =
        |path: &PathBuf| !found.is_empty() && (path.ends_with("lower") || path.ends_with("index"));
    let below: Vec<_> = below.into_iter().filter(|it| it.is_dir() && !of_store(it)).collect();
    let below = below.into_iter().filter_map(|it| What::of(&it).map(|what| (it, what)));
    found.extend(below.filter(|(_, what)| *what != What::Lower));
    if found.is_empty() {
        return Err(Error::missing(format!("{} is no store, and none is in it", path.display())));
    }
    if how.snapshot.is_some() && !found.iter().any(|(_, what)| matches!(what, What::Tables)) {
        let detail = "has no tables, so --snapshot is of none: leave it out";
        return Err(Error::invalid(format!("{} {detail}", path.display())));
    }
    if !found.iter().any(|(_, what)| *what == What::Irmin) {
        how.foreign.expect_no_shape(path)?;
    }
    found.truncate(BELOW_MAX + 1);
    let own = path;
    let of = |(path, what): (PathBuf, What)| {
        // A lower folder is that of one store.
        let foreign = if path == own { how.foreign.clone() } else { how.foreign.without_lower() };
        let foreign = if what == What::Irmin { foreign } else { foreign.without_shape() };
        source(path, what, foreign, how.snapshot.clone())
    };
    Ok(found.into_iter().map(of).collect())
}

fn source(path: PathBuf, what: What, foreign: Foreign, snapshot: Option<String>) -> Source {
    let full = path.canonicalize().unwrap_or_else(|_| path.clone());
    let name = full.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let folder = path.clone();
    let opens = match what {
        What::Tables => Opens::Tables(Box::new(move || open_tables(&path, snapshot.as_deref()))),
        _ => Opens::Context(Box::new(move || {
            let options = Options {
                objects_bytes: CACHE_BYTES,
                pages_bytes: CACHE_BYTES,
                ..Options::default()
            };
            let folder = Folder { store: path.clone(), foreign: foreign.clone() };
            folder.open_with(options)
        })),
    };
    // The pages of old commits are those of a context.
    let kind = if what == What::Lower { What::Context } else { what }.names().1;
    Source { name, folder, kind, opens }
}

/// The tables as commands that read find them.
pub fn open_tables(path: &Path, snapshot: Option<&str>) -> Result<OpenTables> {
    let session = tables::open_read_only(path, SessionOptions::default())?;
    if snapshot.is_none() && tables::is_live(&session)? {
        let tables = tables::live_tables_to_look(&session)?;
        return Ok(OpenTables { session, tables, place: "live".to_owned() });
    }
    if snapshot.is_none() && tables::current(&session)?.is_none() {
        return Ok(OpenTables { session, tables: Vec::new(), place: "no snapshot yet".to_owned() });
    }
    // A head that a writer replaces meanwhile is looked for again.
    let (name, mut snapshot) = tables::read_named(&session, snapshot, Verify::Quick)?;
    let names: Vec<_> = snapshot.tables.iter().map(|table| table.name().to_owned()).collect();
    let tables = names.iter().map(|name| snapshot.take(name)).collect::<Result<_>>()?;
    Ok(OpenTables { session, tables, place: format!("snapshot {name}") })
}

//! The pages, by the crate that has them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use varvite::context::Options;
use varvite::{Error, Result};
use varvite_explore::{Explorer, Limits, OpenTables, Opens, Source, check_address};

use super::super::What;
use super::{How, Opened, open_tables};
use crate::progress;
use crate::store::context::{Folder, Foreign};
use crate::store::folder;

/// Traces that are shown at most.
const TRACES_MAX: usize = 8;

/// Stores in folders of the one that is given, by name: of more, these are shown.
const BELOW_MAX: usize = 32;

/// Memory for what a context's pages and nodes need while they are shown.
const CACHE_BYTES: u64 = 32 << 20;

/// Where pages are to be shown.
pub struct Pages(SocketAddr);

impl Pages {
    /// An address of this machine alone.
    pub fn at(listen: &str) -> Result<Pages> {
        check_address(listen).map(Pages)
    }

    /// Listens, to show the stores in `folder`.
    pub fn bind(self, folder: &Path, traces: &[PathBuf], how: &How) -> Result<Bound> {
        if traces.len() > TRACES_MAX {
            return Err(Error::invalid(format!("{TRACES_MAX} traces are shown at most")));
        }
        if let Some(missing) = traces.iter().find(|file| !file.is_file()) {
            return Err(Error::missing(format!("there is no trace {}", missing.display())));
        }
        let stores = stores(folder, how)?;
        Explorer::bind(self.0, stores, traces.to_vec(), Limits::default()).map(Bound)
    }
}

/// Pages that can be asked for.
pub struct Bound(Explorer);

impl Bound {
    /// What a browser is given.
    pub fn url(&self) -> String {
        self.0.url()
    }

    /// Serves until somebody ends the program.
    pub fn serve(self) -> Result<()> {
        let stop = Arc::new(AtomicBool::new(false));
        #[cfg(unix)]
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|error| Error::io("watch for", "the end of the program", error))?;
        }
        self.0.serve(|| stop.load(Ordering::Relaxed))
    }
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
    let (all, most) = (found.len(), BELOW_MAX + usize::from(found[0].0 == path));
    if all > most {
        // Each that is looked at takes memory.
        progress::warn(&format!(
            "{} has {all} stores, of which {most} are shown: give the folder of another one to see it",
            path.display()
        ));
        found.truncate(most);
    }
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
        What::Tables => Opens::Tables(Box::new(move || {
            let Opened { session, tables, place } = open_tables(&path, snapshot.as_deref())?;
            Ok(OpenTables { session, tables, place })
        })),
        _ => Opens::Context(Box::new(move || {
            let options = Options {
                objects_bytes: CACHE_BYTES,
                pages_bytes: CACHE_BYTES,
                hashes_bytes: CACHE_BYTES,
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

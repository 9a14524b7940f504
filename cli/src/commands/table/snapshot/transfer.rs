//! `varvite table snapshot export` and `import`: snapshots that travel between stores.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use varvite::disk::Disk;
use varvite::{Error, SessionOptions, Transferred, Verify};

use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::folder::{self, Target};
use crate::store::tables;
use crate::wheel;

/// Export a snapshot to a folder of its own, which is a store with that one snapshot
#[derive(Debug, Args)]
pub struct Export {
    /// Folder of the store
    store: PathBuf,
    /// Name of the snapshot
    name: String,
    /// Folder to export to; missing or empty, on any volume
    folder: PathBuf,
    /// Read every byte that arrived
    #[arg(long)]
    full: bool,
}

/// Import a snapshot from an export, or from any store that nobody writes to
#[derive(Debug, Args)]
pub struct Import {
    /// Folder of the store
    store: PathBuf,
    /// Folder of the export
    folder: PathBuf,
    /// Name of the snapshot in it [default: the only one]
    name: Option<String>,
    /// Its name in the store [default: the same]
    #[arg(long = "as", value_name = "NAME")]
    new_name: Option<String>,
    /// Make the store when the folder is missing or empty
    #[arg(long)]
    create: bool,
    /// Read every byte before the snapshot appears
    #[arg(long)]
    full: bool,
}

fn verify(full: bool) -> Verify {
    if full { Verify::Full } else { Verify::Quick }
}

/// Runs `export`.
pub fn export(arguments: &Export, format: Format) -> Outcome {
    // It takes no lock, so a store that is being written to can be exported from.
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    // Before a folder is made for nothing.
    tables::info(&session, &arguments.name)?;
    if arguments.folder != arguments.store {
        // The store itself is told as one that is there already.
        folder::apart(&arguments.store, &arguments.folder)?;
    }
    let (made, disk) = Target::create(&arguments.folder)?;
    let target: Arc<dyn Disk> = disk;
    let moved = wheel::during("exporting", || {
        session.export_snapshot(&arguments.name, &target, verify(arguments.full))
    });
    match moved {
        Ok(moved) => done(&arguments.name, "exported", moved, format),
        Err(error) => {
            made.take_back(&error);
            Err(tables::holds_already(&arguments.folder, error).into())
        }
    }
}

/// Runs `import`.
pub fn import(arguments: &Import, format: Format) -> Outcome {
    let source: Arc<dyn Disk> = tables::disk(&arguments.folder)?;
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None => only_snapshot(arguments)?,
    };
    let new_name = arguments.new_name.as_deref().unwrap_or(&name);
    let (session, made) = if arguments.create {
        tables::open_or_make(&arguments.store, SessionOptions::default())?
    } else {
        let options = SessionOptions::default();
        (tables::open(&arguments.store, options).map_err(tables::or_create)?, None)
    };
    let checked = tables::check_user_name(new_name);
    let checked = checked.map_err(|error| Error::invalid(format!("{error} with --as")));
    let moved = checked.and_then(|()| {
        wheel::during("importing", || {
            session.import_snapshot(&source, &name, new_name, verify(arguments.full))
        })
    });
    let moved = match (moved, made) {
        (Err(error), Some(target)) => {
            tables::remove_new(session, target);
            return Err(error.into());
        }
        (moved, _) => {
            session.close()?;
            moved?
        }
    };
    done(new_name, "imported", moved, format)
}

fn only_snapshot(arguments: &Import) -> varvite::Result<String> {
    let listed =
        tables::open_read_only(&arguments.folder, SessionOptions::default())?.list_snapshots()?;
    if let [info] = &listed[..] {
        return Ok(info.name.clone());
    }
    let names: Vec<_> = listed.iter().map(|info| info.name.as_str()).collect();
    Err(Error::invalid(format!(
        "{} has {} snapshots, so name one: {}",
        arguments.folder.display(),
        names.len(),
        names.join(", ")
    )))
}

fn done(name: &str, what: &str, moved: Transferred, format: Format) -> Outcome {
    match format {
        Format::Json => print::json(&serde_json::json!({
            "snapshot": name,
            "outcome": what,
            "segments": moved.segments,
            "bytes": moved.bytes,
            "copied_bytes": moved.copied_bytes,
        }))?,
        Format::Table => print::line(&format!(
            "snapshot {name}: {what}, {}, of which {} had to be copied",
            print::bytes(moved.bytes),
            print::bytes(moved.copied_bytes)
        ))?,
    }
    Ok(Verdict::Yes)
}

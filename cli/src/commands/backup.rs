//! `varvite backup`: the live tables of a store, as they are at one moment, in a folder of their own.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use varvite::disk::Disk;
use varvite::{BackedUp, Error, Result, Session, SessionOptions, Verify};

use crate::advice::{EXPORT, typed, word};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::folder::{self, Target};
use crate::store::tables;

/// Back up the live tables of a store to another folder, all at one moment
///
/// Works while another process writes, and changes nothing in the store. The folder is missing, empty, or
/// has an earlier backup of the same store, which becomes the new one: files that are there already are
/// not copied again. The result is a store of its own. Snapshots travel by `varvite table snapshot export`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    dir: PathBuf,
    /// Folder of the backup
    out: PathBuf,
    /// Read every byte of the backup
    #[arg(long)]
    full: bool,
}

/// Makes the backup and prints what came.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    if folder::is_context(&arguments.dir) {
        return Err(Error::invalid(format!(
            "{} holds a context, which is not backed up by this command: copy its folder while nobody \
             writes to it",
            arguments.dir.display()
        ))
        .into());
    }
    let session = tables::open_read_only(&arguments.dir, SessionOptions::default())?;
    // Before a folder is made for nothing.
    if session.live_tables()?.is_empty() {
        return Err(no_live_tables(&session, arguments)?.into());
    }
    folder::apart(&arguments.dir, &arguments.out)?;
    let (made, disk) = Target::create(&arguments.out)?;
    let target: Arc<dyn Disk> = disk;
    let verify = if arguments.full { Verify::Full } else { Verify::Quick };
    match session.backup(&target, verify) {
        Ok(backed_up) => done(&backed_up, format),
        Err(error) => {
            // An earlier backup stays.
            made.take_back(&error);
            Err(error.into())
        }
    }
}

/// What to do where there is nothing but snapshots.
fn no_live_tables(session: &Session, arguments: &Arguments) -> Result<Error> {
    let snapshots = session.list_snapshots()?;
    let newest = tables::heads(session)?.pop().map(|(_, name)| name);
    let names: Vec<&str> = snapshots.iter().map(|snapshot| snapshot.name.as_str()).collect();
    let name = match (newest.as_deref(), &names[..]) {
        (Some(newest), _) => newest,
        (None, [only]) => only,
        _ => "NAME",
    };
    let how = match names.len() {
        0 => "nor a snapshot".to_owned(),
        _ => format!(
            "only snapshots: {} {} {} {}` exports one",
            EXPORT.trim_end_matches('`'),
            typed(&arguments.dir),
            word(name),
            typed(&arguments.out)
        ),
    };
    let dir = arguments.dir.display();
    Ok(Error::missing(format!("{dir} has no live tables to back up, {how}")))
}

fn done(backed_up: &BackedUp, format: Format) -> Outcome {
    let BackedUp { tables, moved, kept, log_records, log_bytes, .. } = *backed_up;
    match format {
        Format::Json => print::json(&serde_json::json!({
            "live_tables": tables,
            "segments": moved.segments,
            "bytes": moved.bytes,
            "copied_bytes": moved.copied_bytes,
            "kept_segments": kept.segments,
            "kept_bytes": kept.bytes,
            "log_records": log_records,
            "log_bytes": log_bytes,
        }))?,
        Format::Table => print::line(&format!(
            "{} backed up: {} new, of which {} had to be copied, {} there already, {} in the log",
            print::counted(tables, "live table", "live tables"),
            print::bytes(moved.bytes),
            print::bytes(moved.copied_bytes),
            print::bytes(kept.bytes),
            print::counted(log_records, "update", "updates"),
        ))?,
    }
    Ok(Verdict::Yes)
}

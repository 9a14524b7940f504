//! `varvite context archive`, `unarchive` and `attach`: old commits on another disk, and back.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use varvite::context::{CommitHash, Keep, Store};
use varvite::disk::os::OsDisk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::context::{close, commit, open_over};
use crate::store::folder::{self, Target, disk};
use crate::system::measure::disk_bytes;
use crate::text::date;

/// Move old chunks of a store, whole, to a folder on another disk
///
/// Every commit stays readable: commands find the old ones with `--lower DIR`. A store with chunks below is not
/// collected. Nobody else may write meanwhile; readers may read. Interrupted, it goes on when it is called again.
#[derive(Debug, Args)]
pub struct Archive {
    /// Folder of the store
    store: PathBuf,
    /// Folder for the chunks, of this store alone; made when it is not there
    #[arg(long, value_name = "DIR")]
    lower: PathBuf,
    /// Leave so many of the newest commits above [default: 1]
    #[arg(long, value_name = "COMMITS", group = "target", value_parser = clap::value_parser!(u64).range(1..))]
    keep: Option<u64>,
    /// Leave commits from this date on above: 2026-01-31, 2026-01-31T12:00:00Z, or seconds since 1970
    #[arg(long, value_name = "DATE", group = "target", allow_hyphen_values = true)]
    since: Option<String>,
    /// Leave all from this commit on above: a hash or its beginning, a branch, `main~3`
    #[arg(long, value_name = "COMMIT", group = "target")]
    to: Option<String>,
    /// End the chunk that is written, so that what it has can move once a newer commit is there
    #[arg(long)]
    end_chunk: bool,
}

/// Move chunks back from the lower folder, so that the store collects again
#[derive(Debug, Args)]
pub struct Unarchive {
    /// Folder of the store
    store: PathBuf,
    /// Folder that has the chunks
    #[arg(long, value_name = "DIR")]
    lower: PathBuf,
}

/// Make a store that has collected an archive again, with the lower folder of a copy of it
///
/// Every byte of the chunks is verified before the store counts on them; from then on the folder is its lower layer. The
/// folder of a store that is no copy, or has gone another way, is refused: a snapshot takes commits over from any store.
#[derive(Debug, Args)]
pub struct Attach {
    /// Folder of the store
    store: PathBuf,
    /// Folder that has the chunks
    lower: PathBuf,
}

/// Runs `context archive`.
pub fn archive(arguments: &Archive, format: Format) -> Outcome {
    // A store that is not there is no reason to make a folder.
    disk(&arguments.store)?;
    if arguments.lower != arguments.store {
        // The store itself is told as the folder of a store.
        folder::apart(&arguments.store, &arguments.lower)?;
    }
    if arguments.lower.is_dir() && irmin::is_store(&*disk(&arguments.lower)?)? {
        return Err(Error::invalid(format!(
            "{} is the folder of a store of Irmin, which is only read: give a folder of its own",
            arguments.lower.display()
        ))
        .into());
    }
    let (made, lower) = Target::create(&arguments.lower)?;
    let outcome =
        open_over(&arguments.store, Some(lower)).and_then(|store| archive_in(arguments, store));
    let (store, moved) = outcome.inspect_err(|_| made.give_up())?;
    show(store, (&arguments.store, &arguments.lower), moved, "to", format)
}

/// Archives what the arguments say, and gives the store back with how many chunks went.
fn archive_in(arguments: &Archive, mut store: Store) -> Result<(Store, u64)> {
    let moved = match target(arguments, &store)? {
        Some(target) => moving(&mut store, |store| store.archive(&target, 1))?,
        None => 0,
    };
    if arguments.end_chunk {
        store.begin_chunk()?;
    }
    Ok((store, moved))
}

/// Runs `context unarchive`.
pub fn unarchive(arguments: &Unarchive, format: Format) -> Outcome {
    let lower = disk(&arguments.lower)?;
    let mut store = open_over(&arguments.store, Some(lower))?;
    let moved = moving(&mut store, |store| store.unarchive(1))?;
    show(store, (&arguments.store, &arguments.lower), moved, "back from", format)
}

/// Runs `context attach`.
pub fn attach(arguments: &Attach, format: Format) -> Outcome {
    // One that is not there is not made; the name of one that is, somebody may have made just now.
    disk(&arguments.lower)?;
    let lower = OsDisk::create(&arguments.lower)?;
    let mut store = open_over(&arguments.store, Some(lower))?;
    let mut bar = Progress::new("writing chunks anew", 0, Unit::Bytes);
    let attached = store.attach_watched(&mut |done, all| {
        bar.set_total(all);
        bar.set(done);
        Ok(())
    })?;
    bar.finish();
    // To list them would read all of what is below.
    let (commits, archived) = (store.stats().commits, store.archived_bytes());
    close(store)?;
    match format {
        Format::Json => print::json(&json!({
            "attached_chunks": attached, "archived_bytes": archived, "commits": commits,
        }))?,
        Format::Table => print::line(&format!(
            "{} attached; {} in chunks in {}, {} in the store",
            print::counted(attached, "chunk", "chunks"),
            print::bytes(archived),
            arguments.lower.display(),
            print::counted(commits, "commit", "commits")
        ))?,
    }
    Ok(Verdict::Yes)
}

/// The oldest commit that stays above; none in an empty store.
fn target(arguments: &Archive, store: &Store) -> Result<Option<CommitHash>> {
    if let Some(named) = &arguments.to {
        return commit(store, named).map(Some);
    }
    store.archive_target(&match &arguments.since {
        Some(since) => Keep::Since(date::parse(since)?),
        None => Keep::Newest(arguments.keep.unwrap_or(1)),
    })
}

/// Moves a chunk at a time until none is left to move; returns how many.
fn moving(store: &mut Store, one: impl Fn(&mut Store) -> Result<u64>) -> Result<u64> {
    let mut bar = Progress::endless("moving chunks", Unit::Items);
    let mut moved = 0;
    loop {
        match one(store)? {
            0 => break,
            count => moved += count,
        }
        bar.set(moved);
    }
    bar.finish();
    Ok(moved)
}

fn show(
    store: Store,
    (above, below): (&Path, &Path),
    moved: u64,
    whither: &str,
    format: Format,
) -> Outcome {
    let archived = store.archived_bytes();
    close(store)?;
    let left = disk_bytes(above);
    match format {
        Format::Json => print::json(&json!({
            "moved_chunks": moved, "archived_bytes": archived, "disk_bytes": left,
        }))?,
        Format::Table => print::line(&format!(
            "{} moved {whither} {}; {} in chunks there, {} in {}",
            print::counted(moved, "chunk", "chunks"),
            below.display(),
            print::bytes(archived),
            print::bytes(left),
            above.display()
        ))?,
    }
    Ok(Verdict::Yes)
}

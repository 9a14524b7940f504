//! `varvite context migrate` and `export-irmin`: contexts between Irmin and us.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::json;
use varvite::context::{Durability, Options, Store};
use varvite::disk::Disk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Kind, Result};

use super::scratch::Scratch;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{self, Progress, Unit};
use crate::store::context::{Folder, Foreign, commit, remove_new};
use crate::store::folder::{Target, apart, disk, expect_no_dead_link};
use crate::system::measure::peak_rss_bytes;
use crate::system::volume;

/// Copy commits of a store of Irmin into one of ours
#[derive(Debug, Args)]
pub struct Migrate {
    /// Folder of the store of Irmin, which is only read
    from: PathBuf,
    /// Folder of our store, made if need be; an interrupted migration goes on there
    to: PathBuf,
    /// Only this commit: hash, branch, or "last"; may be repeated
    #[arg(long = "commit", value_name = "COMMIT")]
    commits: Vec<String>,
    /// Only this commit and what came after it
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    #[command(flatten)]
    foreign: Foreign,
}

/// Write a context as a store of Irmin, version 5
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    from: Folder,
    /// Folder for the store of Irmin, empty or not there; TO.scratch beside it is there meanwhile
    to: PathBuf,
}

/// Memory for each of the caches and buffers of both stores, in bytes.
const SHARE: u64 = 16 << 20;

fn small() -> Options {
    Options {
        // What a power cut takes is copied again.
        durability: Durability::Written,
        objects_bytes: SHARE,
        hashes_bytes: SHARE,
        pages_bytes: SHARE / 2,
        index_bytes: SHARE / 2,
        tree_bytes: SHARE,
        ..Options::default()
    }
}

/// Our store in `folder`, and where it was made, if it was.
fn target(
    folder: &Path,
    configuration: varvite::context::Configuration,
) -> Result<(Store, Option<Target>)> {
    let options = Options { configuration, ..small() };
    let (target, disk) = Target::create(folder)?;
    let opened = match disk.exists("control") {
        Ok(true) => return Ok((Store::open(disk, options)?, None)),
        Ok(false) => Store::create(disk, options),
        Err(error) => Err(error),
    };
    match opened {
        Ok(store) => Ok((store, Some(target))),
        Err(error) => {
            target.take_back(&error);
            Err(error)
        }
    }
}

/// What is said of a target that was made with another shape.
fn other_shape(arguments: &Migrate) -> Error {
    Error::invalid(format!(
        "{} has directories of another shape than {} is said to have: give --shape and --hash-bits as when it was made, or \
         another folder",
        arguments.to.display(),
        arguments.from.display()
    ))
}

pub fn migrate(arguments: &Migrate, format: Format) -> Outcome {
    let source: Arc<dyn Disk> = disk(&arguments.from)?;
    apart(&arguments.from, &arguments.to)?;
    let options = irmin::Options {
        objects_bytes: SHARE,
        pages_bytes: SHARE / 2,
        ..arguments.foreign.options(&arguments.from)?
    };
    let mut choice = irmin::Choice::default();
    // Before a folder is made for nothing.
    let store = irmin::open(Arc::clone(&source), &options)?;
    for text in &arguments.commits {
        choice.commits.push(commit(&store, text)?);
    }
    choice.since = arguments.since.as_ref().map(|text| commit(&store, text)).transpose()?;
    drop(store);
    let (mut store, made) = target(&arguments.to, options.configuration)?;
    if store.configuration() != options.configuration {
        store.close()?;
        return Err(other_shape(arguments).into());
    }
    let mut bar = Progress::new("bytes passed", 1, Unit::Bytes);
    let done = irmin::migrate(source, &options, &mut store, &choice, &mut |done| {
        bar.set_total(done.end);
        bar.set(done.offset);
        Ok(())
    });
    bar.finish();
    let is_doubtful =
        |error: &Error| error.kind() == Kind::Corrupt && arguments.foreign.has_shape();
    let commits = store.stats().commits;
    let done = done.map_err(|error| match commits {
        _ if !is_doubtful(&error) => error,
        0 => error.with_advice(irmin::SHAPE_ADVICE),
        // The first commits may have the same hash with either.
        _ => error.with_advice(&format!(
            "{}; {commits} commits are in {}: remove it where that shape was wrong, else the same command goes on with it",
            irmin::SHAPE_ADVICE,
            arguments.to.display()
        )),
    });
    let done = match (done, made) {
        // Commits that are there are gone on with.
        (Err(error), Some(target)) if commits == 0 => {
            remove_new(store, target);
            return Err(error.into());
        }
        (done, _) => {
            store.close()?;
            done?
        }
    };
    match format {
        Format::Json => print::json(&json!({
            "commits": done.commits, "present": done.present, "collected": done.collected,
            "unindexed": done.unindexed, "changes": done.changes, "branches": done.branches,
            "peak_rss_bytes": peak_rss_bytes(),
        }))?,
        Format::Table => print::line(
            &print::record(&[
                ("commits copied, each with its hash", print::count(done.commits)),
                ("commits that were there", print::count(done.present)),
                ("commits that were collected", print::count(done.collected)),
                ("commits that the index lacks, found in the pack", print::count(done.unindexed)),
                ("values changed", print::count(done.changes)),
                ("branches set", print::count(done.branches)),
                ("peak memory", print::bytes(peak_rss_bytes())),
            ])
            .to_string(),
        )?,
    }
    Ok(Verdict::Yes)
}

pub fn export(arguments: &Export, format: Format) -> Outcome {
    let store = arguments.from.open_with(small())?;
    let total = store.stats().commits;
    apart(&arguments.from.store, &arguments.to)?;
    expect_no_dead_link(&arguments.to)?;
    if arguments.to.is_file() {
        let shown = arguments.to.display();
        return Err(Error::invalid(format!("{shown} is a file, where a folder is needed")).into());
    }
    // First, since it knows which folders above it are new.
    let (made, disk) = Target::create(&arguments.to)?;
    let scratch = match Scratch::take(&arguments.to) {
        Ok(scratch) => scratch,
        Err(error) => {
            made.give_up();
            return Err(error.into());
        }
    };
    let target: Arc<dyn Disk> = disk;
    let mut bar = Progress::new("commits", total, Unit::Items);
    let done = scratch.places().and_then(|places| {
        irmin::export(&store, &target, &places, &mut |done| {
            bar.set(done.commits);
            Ok(())
        })
    });
    bar.finish();
    if done.as_ref().is_err_and(|error| error.kind() == Kind::Io) {
        volume::look();
    }
    let removed = scratch.finish();
    // What it wrote is gone with the scratch folder.
    let done = done.inspect_err(|_| made.give_up())?;
    if let Err(error) = removed {
        // The store is whole.
        progress::warn(&format!("{error}; the export is done, so it is of no use any more"));
    }
    match format {
        Format::Json => print::json(&json!({
            "commits": done.commits, "objects": done.objects, "bytes": done.bytes,
            "branches": done.branches, "peak_rss_bytes": peak_rss_bytes(),
        }))?,
        Format::Table => print::line(
            &print::record(&[
                ("commits", print::count(done.commits)),
                ("objects", print::count(done.objects)),
                ("pack", print::bytes(done.bytes)),
                ("branches", print::count(done.branches)),
                ("peak memory", print::bytes(peak_rss_bytes())),
            ])
            .to_string(),
        )?,
    }
    Ok(Verdict::Yes)
}

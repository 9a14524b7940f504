//! `varvite context snapshot`: one commit as a file, to another machine and back into a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use varvite::context::CommitHash;
use varvite::context::hash::{self, Hash};
use varvite::context::{CommitFile, Options, Store, inspect_commit, verify_commit};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::measure::{cpu_ns, peak_rss_bytes};
use crate::print::{self, Format};
use crate::progress;
use crate::store::context::{Folder, commit};
use crate::store::folder;

/// Memory for each of the caches and buffers of a store, in bytes: what is moved is read once.
const SHARE: u64 = 8 << 20;

/// Move one commit as a file: export, import, verify, describe
#[derive(Debug, Subcommand)]
pub enum Command {
    Export(Export),
    Import(Import),
    /// Verify a file without a store: every checksum and every hash
    Verify(File),
    /// Say what a file holds, from the heads of its parts; `verify` reads all of it
    Info(File),
}

/// Write one commit with all of its tree to a new file
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    from: Folder,
    /// Hash of a commit or its beginning, a branch, or "last"
    commit: String,
    /// The file, which must not be there
    file: PathBuf,
}

/// Take the commit of a file over, every hash verified; makes the store when it is not there
#[derive(Debug, Args)]
pub struct Import {
    /// The file
    file: PathBuf,
    /// Folder of the store
    store: PathBuf,
}

/// A file that an export wrote
#[derive(Debug, Args)]
pub struct File {
    /// The file
    file: PathBuf,
}

/// What a command says of a file.
struct Said {
    what: &'static str,
    commit: CommitHash,
    hash: Hash,
    bytes: u64,
    objects: Option<u64>,
}

impl Said {
    fn of(what: &'static str, file: &CommitFile) -> Said {
        let CommitFile { commit, hash, bytes, .. } = *file;
        Said { what, commit, hash, bytes, objects: Some(file.objects()) }
    }

    fn show(&self, format: Format) -> Outcome {
        let (commit, hash) = (hash::to_text(&self.commit), hex::encode(&self.hash));
        match format {
            Format::Json => print::json(&json!({
                "outcome": self.what, "commit": commit, "objects": self.objects, "bytes": self.bytes,
                "hash": hash, "cpu_seconds": cpu_ns() as f64 / 1e9, "peak_rss_bytes": peak_rss_bytes(),
            }))?,
            Format::Table => {
                let mut rows = vec![("commit", commit)];
                rows.extend(self.objects.map(|objects| ("objects", print::count(objects))));
                rows.push(("bytes", print::count(self.bytes)));
                rows.push(("hash of the content", hash));
                rows.push(("outcome", self.what.to_owned()));
                print::line(&print::record(&rows).to_string())?;
            }
        }
        Ok(Verdict::Yes)
    }
}

/// Runs what `command` names.
pub fn run(command: &Command, format: Format) -> Outcome {
    match command {
        Command::Export(arguments) => export(arguments, format),
        Command::Import(arguments) => import(arguments, format),
        Command::Verify(arguments) => {
            let (disk, name) = source(&arguments.file)?;
            let file = progress::during("verifying every hash", || verify_commit(&*disk, &name));
            let file = file.map_err(|error| beside(&arguments.file, error))?;
            Said::of("sound", &file).show(format)
        }
        Command::Info(arguments) => {
            let (disk, name) = source(&arguments.file)?;
            let head = inspect_commit(&*disk, &name);
            let head = head.map_err(|error| beside(&arguments.file, error))?;
            let (commit, hash, bytes) = (head.commit, head.hash, head.bytes);
            Said { what: "described", commit, hash, bytes, objects: None }.show(format)
        }
    }
}

fn small() -> Options {
    Options {
        objects_bytes: SHARE,
        hashes_bytes: SHARE,
        pages_bytes: SHARE,
        index_bytes: SHARE,
        tree_bytes: SHARE,
        ..Options::default()
    }
}

fn export(arguments: &Export, format: Format) -> Outcome {
    let store = arguments.from.open_with(small())?;
    let commit = commit(&store, &arguments.commit)?;
    let (disk, name) = place(&arguments.file)?;
    let disk: Arc<dyn Disk> = disk;
    let file = progress::during("exporting", || store.export_commit(&commit, &disk, &name))?;
    Said::of("exported", &file).show(format)
}

fn import(arguments: &Import, format: Format) -> Outcome {
    let (from, name) = source(&arguments.file)?;
    // Before a folder is made for nothing.
    let head = inspect_commit(&*from, &name);
    let head = head.map_err(|error| beside(&arguments.file, error))?;
    let target: Arc<dyn Disk> = OsDisk::create(&arguments.store)?;
    let (store, file) = if target.exists("control")? {
        let mut store = Store::open(target, small())?;
        let is_here = store.exists(&head.commit)?;
        let file = progress::during("importing", || store.import_commit(&*from, &name));
        let file = file.map_err(|error| beside(&arguments.file, error))?;
        (store, Said::of(if is_here { "present" } else { "imported" }, &file))
    } else {
        let made = progress::during("importing", || {
            Store::create_from_commit(target, small(), &*from, &name)
        });
        let (store, file) = made.map_err(|error| beside(&arguments.file, error))?;
        (store, Said::of("imported", &file))
    };
    store.close()?;
    file.show(format)
}

/// The folder of a file and its name there.
fn place(file: &Path) -> Result<(Arc<OsDisk>, String)> {
    let name = file.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Error::invalid(format!("{} is no name of a file: give one", file.display()))
    })?;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    Ok((folder::disk(parent)?, name.to_owned()))
}

/// The same of a file that is read.
fn source(file: &Path) -> Result<(Arc<OsDisk>, String)> {
    if !file.is_file() {
        let what = if file.exists() { "is not a file" } else { "does not exist" };
        return Err(Error::missing(format!(
            "{} {what}: give the file of a snapshot",
            file.display()
        )));
    }
    place(file)
}

/// Errors of a file that is read name it as the user did.
fn beside(file: &Path, error: Error) -> Error {
    error.context(file.display())
}

//! `varvite context snapshot`: commits as a file, to another machine and back into a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use varvite::context::CommitHash;
use varvite::context::hash::{self, Hash};
use varvite::context::{
    ChildOrder, CommitFile, CommitFileOptions, CommitFileProgress, Configuration, Durability,
    Limits, Options, Store, inspect_commit, verify_commit_watched,
};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Kind, Result};

use super::look::differences;
use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::input;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit, is_quiet};
use crate::store::context::{Folder, commit, remove_new};
use crate::store::folder::{self, Target, temporary, temporary_in};
use crate::system::measure::{cpu_ns, peak_rss_bytes};
use crate::system::volume;
use crate::text::Notations;

/// Memory for each of the caches and buffers of a store, in bytes: what is moved is read once.
const SHARE: u64 = 8 << 20;

/// Move commits as a file: export, import, verify, describe
#[derive(Debug, Subcommand)]
pub enum Command {
    Export(Export),
    Import(Import),
    Diff(Difference),
    /// Verify a file without a store: every checksum and every hash
    Verify(File),
    /// Say what a file holds, from the heads of its parts; `verify` reads all of it
    Info(File),
}

/// Write one commit with all of its tree, or several, to a new file
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    from: Folder,
    /// Hash of a commit or its beginning, a branch, or "last"
    commit: String,
    /// The file, which must not be there
    file: PathBuf,
    /// Write all commits from this one on that lead to COMMIT
    #[arg(long, value_name = "FIRST")]
    since: Option<String>,
    /// Compress by zstd at this level, 1 to 19; the file is then not canonical
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    compress: Option<i32>,
}

/// Take the commits of a file over, every hash verified; makes the store when it is not there
#[derive(Debug, Args)]
pub struct Import {
    /// The file
    file: PathBuf,
    /// Folder of the store
    store: PathBuf,
    /// Folder of the lower layer, if the store is an archive
    #[arg(long, value_name = "DIR")]
    lower: Option<PathBuf>,
    /// Hash configuration of a store that is made, which the file has to have since nothing in it vouches for it: tezos,
    /// tezos-binary, ENTRIES,FLAT or the same with ,bits behind it, or any for what the file says
    #[arg(long, value_name = "NAME", value_parser = wanted, default_value = "tezos")]
    configuration: Wanted,
}

/// The hash configuration that a file has to have.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Any,
    Only(Configuration),
}

fn wanted(text: &str) -> std::result::Result<Wanted, String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let (entries, flat, order) = match parts[..] {
        ["any"] => return Ok(Wanted::Any),
        ["tezos"] => return Ok(Wanted::Only(Configuration::TEZOS)),
        ["tezos-binary"] => return Ok(Wanted::Only(Configuration::TEZOS_BINARY)),
        [entries, flat] => (entries, flat, ChildOrder::SeededHash),
        [entries, flat, "bits"] => (entries, flat, ChildOrder::HashBits),
        _ => ("", "", ChildOrder::SeededHash),
    };
    match (entries.parse(), flat.parse()) {
        (Ok(entries), Ok(flat)) => Configuration::new(entries, flat, order)
            .map(Wanted::Only)
            .map_err(|error| error.detail().to_string()),
        _ => {
            Err("give tezos, tezos-binary, any, or two numbers, as in 32,256 or 32,256,bits"
                .to_owned())
        }
    }
}

impl Wanted {
    /// That of the store that is made of a file with `found`; `Invalid` when another is asked for.
    fn expect(self, found: Configuration) -> Result<Configuration> {
        match self {
            Wanted::Only(wanted) if wanted != found => Err(Error::invalid(format!(
                "its hash configuration is {found}, and {wanted} is asked for: nothing in the file vouches for it, so \
                 give --configuration only if the chain has it"
            ))),
            _ => Ok(found),
        }
    }
}

/// What changed from the last commit of one file to that of another, every hash verified
///
/// Both are imported into a folder for a while, which takes about as much room as the two files (as they are when
/// they are not compressed); memory is that of an import and of `context diff`.
#[derive(Debug, Args)]
pub struct Difference {
    /// The file before
    before: PathBuf,
    /// The file after
    after: PathBuf,
    /// Where the folder is made [default: where temporary files go]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    notations: Notations,
    /// Print long values whole to a terminal too
    #[arg(long)]
    full: bool,
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
    commits: u64,
    /// Of the file; nothing in it vouches for it.
    configuration: Configuration,
    hash: Hash,
    bytes: u64,
    objects: Option<u64>,
    /// Of an import, the bytes of the file that one took over which was cut off.
    resumed: Option<u64>,
}

impl Said {
    fn of(what: &'static str, file: &CommitFile) -> Said {
        let CommitFile { commit, commits, configuration, hash, bytes, .. } = *file;
        let objects = Some(file.objects());
        Said { what, commit, commits, configuration, hash, bytes, objects, resumed: None }
    }

    fn show(&self, format: Format) -> Outcome {
        let (commit, hash) = (hash::to_text(&self.commit), hex::encode(&self.hash));
        let configuration = self.configuration;
        match format {
            Format::Json => {
                let mut said = json!({
                    "outcome": self.what, "commit": commit, "commits": self.commits,
                    "objects": self.objects, "bytes": self.bytes, "hash": hash,
                    "entries": configuration.entries(), "stable_hash": configuration.stable_hash(),
                    "child_order": match configuration.child_order() {
                        ChildOrder::SeededHash => "seeded hash",
                        ChildOrder::HashBits => "hash bits",
                    },
                    "cpu_seconds": cpu_ns() as f64 / 1e9, "peak_rss_bytes": peak_rss_bytes(),
                });
                if let Some(resumed) = self.resumed {
                    said["resumed_bytes"] = resumed.into();
                }
                print::json(&said)?;
            }
            Format::Table => {
                let mut rows = vec![("commit", commit)];
                if self.commits > 1 {
                    rows.push(("commits, this the last", print::count(self.commits)));
                }
                rows.extend(self.objects.map(|objects| ("objects", print::count(objects))));
                rows.push(("bytes", print::count(self.bytes)));
                rows.push(("hash of the content", hash));
                rows.push(("hash configuration", configuration.to_string()));
                if let Some(resumed) = self.resumed.filter(|resumed| *resumed > 0) {
                    rows.push(("went on at byte", print::count(resumed)));
                }
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
        Command::Diff(arguments) => diff(arguments, format),
        Command::Verify(arguments) => {
            let (disk, name) = source(&arguments.file)?;
            let file = watched("verifying every hash", |watch| {
                verify_commit_watched(&*disk, &name, watch)
            });
            let file = file.map_err(|error| beside(&arguments.file, error))?;
            Said::of("sound", &file).show(format)
        }
        Command::Info(arguments) => {
            let (disk, name) = source(&arguments.file)?;
            let head = inspect_commit(&*disk, &name);
            let head = head.map_err(|error| beside(&arguments.file, error))?;
            let said = Said {
                what: "described",
                commit: head.commit,
                commits: head.commits,
                configuration: head.configuration,
                hash: head.hash,
                bytes: head.bytes,
                objects: None,
                resumed: None,
            };
            said.show(format)
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
    let last = commit(&store, &arguments.commit)?;
    let commits = match &arguments.since {
        None => vec![last],
        Some(since) => store.commits_between(&commit(&store, since)?, &last, Limits::default())?,
    };
    folder::apart(&arguments.from.store, &arguments.file)?;
    let options = CommitFileOptions { zstd_level: arguments.compress };
    let (disk, name) = place(&arguments.file)?;
    let disk: Arc<dyn Disk> = disk;
    let file = watched("exporting", |watch| {
        store.export_commits_watched(&commits, options, &disk, &name, watch)
    });
    let file = file.inspect_err(|error| {
        if error.kind() == Kind::Io {
            volume::look();
        }
    })?;
    Said::of("exported", &file).show(format)
}

fn import(arguments: &Import, format: Format) -> Outcome {
    let (from, name) = source(&arguments.file)?;
    // Before a folder is made for nothing.
    let head = inspect_commit(&*from, &name);
    let head = head.map_err(|error| beside(&arguments.file, error))?;
    let lower = match &arguments.lower {
        Some(lower) => Some(folder::disk(lower)? as Arc<dyn Disk>),
        None => None,
    };
    let (target, disk) = Target::create(&arguments.store)?;
    let opened = if disk.exists("control")? {
        Store::open(disk, Options { lower, ..small() }).map(|store| (store, None))
    } else {
        let configuration = arguments.configuration.expect(head.configuration);
        configuration
            .map_err(|error| beside(&arguments.file, error))
            .and_then(|configuration| Store::create(disk, Options { configuration, ..small() }))
            .map(|store| (store, Some(())))
    };
    let (mut store, made) = match opened {
        Ok((store, made)) => (store, made.map(|()| target)),
        Err(error) => {
            target.take_back(&error);
            return Err(error.into());
        }
    };
    if made.is_none() && head.configuration != store.configuration() {
        return Err(Error::invalid(format!(
            "{} has another hash configuration ({}) than the store ({}): if the chain has it, import the file into a \
             new store of it",
            arguments.file.display(),
            head.configuration,
            store.configuration()
        ))
        .into());
    }
    let before = store.stats().commits;
    let mut resumed = 0;
    let file = watched("importing", |watch| {
        store.import_commit_watched(&*from, &name, &mut |done| {
            if done.resumed > 0 && resumed == 0 && !is_quiet() {
                let total = print::bytes(done.total.unwrap_or(done.bytes));
                let at = print::bytes(done.resumed);
                complain!("goes on at {at} of {total}, where an import was cut off");
            }
            resumed = done.resumed;
            watch(done)
        })
    });
    let file = match (file, made) {
        (Ok(file), _) => file,
        // What a full disk or a closed connection leaves is gone on with; of a damaged file nothing is.
        (Err(error), Some(target)) if error.kind() != Kind::Io => {
            remove_new(store, target);
            return Err(beside(&arguments.file, error).into());
        }
        (Err(error), _) => return Err(beside(&arguments.file, error).into()),
    };
    let added = store.stats().commits > before;
    let mut file = Said::of(if added { "imported" } else { "present" }, &file);
    file.resumed = Some(resumed);
    store.close()?;
    file.show(format)
}

fn diff(arguments: &Difference, format: Format) -> Outcome {
    let files = [&arguments.before, &arguments.after];
    let [before, after] = files.map(|file| source(file));
    let sources = [before?, after?];
    let mut heads = Vec::new();
    for (file, (disk, name)) in files.into_iter().zip(&sources) {
        heads.push(inspect_commit(&**disk, name).map_err(|error| beside(file, error))?);
    }
    let configuration = heads[0].configuration;
    if heads[1].configuration != configuration {
        return Err(Error::invalid(
            "the two files have other hash configurations: their directories cannot be compared",
        )
        .into());
    }
    let folder = match &arguments.scratch {
        Some(folder) => temporary_in(folder)?,
        None => temporary()?,
    };
    let durability = Durability::Written;
    let options = Options { configuration, durability, ..small() };
    let mut store = Store::create(OsDisk::new(folder.path())?, options)?;
    for (file, (disk, name)) in files.into_iter().zip(&sources) {
        let taken = watched("importing", |watch| store.import_commit_watched(&**disk, name, watch));
        taken.map_err(|error| beside(file, error))?;
    }
    let trees = [store.checkout(&heads[0].commit)?, store.checkout(&heads[1].commit)?];
    differences(&trees, arguments.notations, arguments.full, format)
}

/// Runs `action` with a bar, where it takes longer.
fn watched<T>(
    what: &str,
    action: impl FnOnce(&mut dyn FnMut(&CommitFileProgress) -> Result<()>) -> T,
) -> T {
    let mut bar: Option<Progress> = None;
    let outcome = action(&mut |done| {
        // Of what is written it is an estimate, which gets better.
        let estimate = done.bytes.saturating_mul(1_000_000) / u64::from(done.share.max(1));
        let total = done.total.unwrap_or(estimate);
        let bar = bar.get_or_insert_with(|| Progress::from(what, done.resumed, total, Unit::Bytes));
        bar.set_total(total);
        bar.set(done.bytes);
        Ok(())
    });
    if let Some(bar) = bar {
        bar.finish();
    }
    outcome
}

/// The folder of a file and its name there.
fn place(file: &Path) -> Result<(Arc<OsDisk>, String)> {
    let name = file.file_name().ok_or_else(|| {
        Error::invalid(format!("{} is no name of a file: give one", file.display()))
    })?;
    let name = name.to_str().ok_or_else(|| {
        Error::invalid(format!(
            "the name of {} is not UTF-8, as names of snapshots have to be: give the file another",
            file.display()
        ))
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

/// Errors of a file that is read name it as the user did; those of a store that it is read into are as they are.
fn beside(file: &Path, error: Error) -> Error {
    let is_of_bytes = matches!(error.kind(), Kind::Corrupt | Kind::Invalid);
    if error.file().is_none() && is_of_bytes {
        return error.context(file.display());
    }
    input::apart(file, error, "export it again, or take another copy")
}

//! `varvite bench snapshot`: what it costs to write a state to a file and to make a store of it again.
//!
//! Export and import run as processes of their own, as anybody would run them, so that memory and processor
//! time are theirs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use serde::{Deserialize, Serialize};
use varvite::context::{CommitInfo, Options, Store, Tree, hash};
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::{Error, Kind, Result};

use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::folder::temporary;
use crate::system::measure::disk_bytes;
use crate::wheel::during;
use crate::workload::context_bench::{Mix, Workload};

/// Measure a snapshot of generated accounts: its export, and its import into a new store
#[derive(Debug, Args)]
pub struct Arguments {
    /// Accounts
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    accounts: u64,
    /// Blocks of about 900 changes after the accounts
    #[arg(long, default_value_t = 10)]
    blocks: u64,
    /// Seed of the workload
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Compress by zstd at this level, 1 to 19
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=19))]
    compress: Option<i32>,
    /// Folder for the stores and the file, missing or empty [default: a temporary folder]
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// What one process said.
#[derive(Debug, Serialize, Deserialize)]
struct Side {
    objects: u64,
    bytes: u64,
    /// Of the whole process, its start included.
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    /// Of the file's content.
    hash: String,
    /// By the clock.
    #[serde(default)]
    seconds: f64,
    #[serde(skip_serializing)]
    commit: String,
}

#[derive(Debug, Serialize)]
struct Report {
    last_hash: String,
    export: Side,
    import: Side,
    /// Of the store that was made.
    disk_bytes: u64,
}

/// A store in `folder`, and the hash of its last commit.
fn load(arguments: &Arguments, folder: &Path) -> Result<String> {
    let mut store = Store::create(OsDisk::create(folder)?, Options::default())?;
    let mut workload = Workload::new(arguments.seed);
    let mut tree = Tree::empty(store.configuration());
    let (mut last, mut level) = (None, 0);
    let mut commit = |store: &mut Store, tree: &mut Tree, last: Option<_>| {
        level += 1;
        let parents: Vec<_> = last.into_iter().collect();
        let info = CommitInfo::new(&parents, level, "Tezos", format!("lvl {level}"));
        store.commit(tree, &info)
    };
    while workload.accounts() < arguments.accounts {
        workload.load(&mut tree, arguments.accounts)?;
        last = Some(commit(&mut store, &mut tree, last)?);
    }
    let mix = Mix { reads: 0, updates: 800, inserts: 60, deletes: 20 };
    let mut last = last.expect("there is an account to load at least");
    for _ in 0..arguments.blocks {
        let mut tree = store.checkout(&last)?;
        workload.write(&mut tree, mix)?;
        last = commit(&mut store, &mut tree, Some(last))?;
    }
    store.close()?;
    Ok(hash::to_text(&last))
}

/// Runs this program with `arguments`.
fn measured(arguments: &[&OsStr]) -> Result<Side> {
    let failed = |error| Error::io("run", "varvite context snapshot", error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["context", "snapshot", "--format", "json"]).args(arguments);
    let start = Instant::now();
    let output = command.stderr(Stdio::inherit()).output().map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    let side = serde_json::from_slice::<Side>(&output.stdout);
    match side {
        Ok(side) if output.status.success() => Ok(Side { seconds, ..side }),
        _ => Err(Error::new(
            Kind::Corrupt,
            format!(
                "the process that is measured ended with {}: this is a bug, report it",
                output.status
            ),
        )),
    }
}

/// Makes a store, exports its last commit and imports it.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let temporary = if arguments.dir.is_none() { Some(temporary()?) } else { None };
    let folder = arguments.dir.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let folder = folder.expect("one of them is there");
    if let Some(dir) = &arguments.dir {
        let disk = OsDisk::create(dir)?;
        if let Some(name) = disk.list("")?.first() {
            return Err(Error::invalid(format!(
                "{} is not empty (it has {name}): choose an empty folder",
                dir.display()
            ))
            .into());
        }
    }
    let [from, file, to] = ["from", "state.snapshot", "to"].map(|name| folder.join(name));
    let last_hash = during("making accounts", || load(arguments, &from))?;
    let level = arguments.compress.map(|level| level.to_string());
    let (from, file, to) = (from.as_os_str(), file.as_os_str(), to.as_os_str());
    let mut words = vec![OsStr::new("export"), from, OsStr::new("last"), file];
    if let Some(level) = &level {
        words.extend([OsStr::new("--compress"), OsStr::new(level)]);
    }
    let export = measured(&words)?;
    let import = measured(&[OsStr::new("import"), file, to])?;
    if [&export.commit, &import.commit] != [&last_hash; 2] || export.hash != import.hash {
        return Err(Error::new(
            Kind::Corrupt,
            "what was imported is not what was exported: this is a bug, report it",
        )
        .into());
    }
    let report = Report { last_hash, export, import, disk_bytes: disk_bytes(Path::new(to)) };
    show(&report, format)?;
    Ok(Verdict::Yes)
}

/// Prints what came out.
fn show(report: &Report, format: Format) -> std::io::Result<()> {
    if format == Format::Json {
        return print::json(report);
    }
    let side = |side: &Side| {
        let Side { cpu_seconds, seconds, peak_rss_bytes, .. } = side;
        let memory = print::bytes(*peak_rss_bytes);
        format!("{cpu_seconds:.2} CPU-s, {seconds:.2} s, {memory} of memory at most")
    };
    let table = print::record(&[
        ("last hash", report.last_hash.clone()),
        ("objects", print::count(report.export.objects)),
        ("bytes", print::count(report.export.bytes)),
        ("export", side(&report.export)),
        ("import", side(&report.import)),
        ("disk of the store made", print::bytes(report.disk_bytes)),
    ]);
    print::line(&table.to_string())
}

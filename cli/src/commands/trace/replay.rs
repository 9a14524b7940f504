//! `varvite trace replay`: the calls of a trace on one store, or on two beside each other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use varvite::context::{Index, Options, Store, inspect_commit};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack::{self as irmin, trace as rows};
use varvite::trace::{Action, Argument, Call, Face};
use varvite::{Error, Result, Session, SessionOptions, TableOptions, Verify};
use varvite_sight::trace::irmin::FromRows;
use varvite_sight::trace::{Outcome as Found, Replay};

use super::settings::{Parts, Setting, Settled};
use super::{End, Rows, in_row, open, rows_of, told};
use crate::commands::replay::blocks::IndexKind;
use crate::exit::{Outcome, Verdict};
use crate::flags::LogKind;
use crate::input;
use crate::print::{self, Format};
use crate::sight::{self, monotonic_ns};
use crate::store::context::Folder;
use crate::store::{folder, tables};
use crate::system::measure::{cpu_ns, disk_bytes, peak_rss_bytes};

/// Run a trace's calls on a store, and compare every answer
///
/// Exit code 1 when an answer is another. Calls that failed when they were recorded, calls within calls,
/// and calls on what the store does not have are skipped and counted.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The trace, of varvite or of actions of Irmin's benchmarks
    file: PathBuf,
    /// Folder of the store: a new one, or one that has the commits that the trace begins with [default: in
    /// memory]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Run what takes commits or tables away or moves branches, as collections and clearings, also on a store that was there
    /// before
    #[arg(long)]
    collect: bool,
    /// Make the context of this snapshot of a commit first
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Begin where the trace has made this commit, or goes on from it: a hash or its beginning, a branch, or "last"
    /// of the store, which must have it
    #[arg(long, value_name = "COMMIT")]
    at: Option<String>,
    /// Open the tables of this snapshot of the store, which stays as it is; others are new and empty
    #[arg(long, value_name = "NAME", requires = "store", conflicts_with = "log")]
    tables: Option<String>,
    /// What a batch must outlive when it is done. With any but none tables are live: those that the store has are opened,
    /// and changed
    #[arg(long, value_enum, default_value_t)]
    log: LogKind,
    /// Which objects a new context finds by hash
    #[arg(long, value_enum, default_value_t)]
    index: IndexKind,
    /// Memory for nodes of a context, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 84, value_parser = clap::value_parser!(u64).range(0..1 << 20))]
    objects_mib: u64,
    /// Folder of the lower layer of the context, if that is an archive
    #[arg(long, value_name = "DIR", requires = "store")]
    lower: Option<PathBuf>,
    /// Give an option of the library a number, as `pages_bytes=16777216`, under its name there; may be repeated. Those of tables
    /// count for tables that are made
    #[arg(long = "set", value_name = "OPTION=NUMBER")]
    settings: Vec<Setting>,
    /// Run every call on this store too: a new one, or one of varvite or of Irmin that has the commits; one of Irmin
    /// is only read
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,
    /// Which objects a new context beside it finds by hash
    #[arg(long, value_enum, default_value_t)]
    beside_index: IndexKind,
    /// The same as --set for the store beside it, which has none of those
    #[arg(long = "beside-set", value_name = "OPTION=NUMBER", requires = "beside")]
    beside_settings: Vec<Setting>,
    /// Write down the replay too
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What came out.
#[derive(Debug, Serialize)]
struct Report {
    calls: u64,
    skipped: u64,
    mismatches: u64,
    first_mismatch: Option<String>,
    commits: u64,
    cpu_seconds: f64,
    /// Time in the calls.
    seconds: f64,
    peak_rss_bytes: u64,
    disk_bytes: u64,
    cut_bytes: u64,
    /// Whether the recording came to its end, if the trace says that.
    is_ended: Option<bool>,
    actions: Vec<varvite_sight::trace::ActionTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<Beside>,
}

/// The same of the store beside it.
#[derive(Debug, Serialize)]
struct Beside {
    cpu_seconds: f64,
    disk_bytes: u64,
    #[serde(flatten)]
    found: Found,
}

/// Where calls come from.
enum Source {
    Ours(PathBuf, Box<varvite::trace::Trace>),
    Irmin(PathBuf, Box<Rows>),
}

impl Source {
    fn open(file: &Path) -> Result<Source> {
        if rows::is_trace(&input::start(file)?) {
            let rows = rows_of(file).map_err(|error| told(file, error))?;
            return Ok(Source::Irmin(file.to_owned(), Box::new(rows)));
        }
        open(file).map(|trace| Source::Ours(file.to_owned(), Box::new(trace)))
    }

    /// Gives each call, with whether its answer is exact.
    fn each(&mut self, mut each: impl FnMut(&Call, bool) -> Result<()>) -> Result<End> {
        match self {
            Source::Ours(file, trace) => {
                while let Some(call) = trace.next_call().map_err(|error| told(file, error))? {
                    each(&call, true)?;
                }
                Ok(End::of(trace))
            }
            Source::Irmin(file, rows) => {
                let mut from = FromRows::default();
                for (row, number) in rows.by_ref().zip(1..) {
                    let row = row.map_err(|error| told(file, error))?;
                    let calls = from.calls(&row).map_err(|error| in_row(file, number, &error))?;
                    for call in calls {
                        each(&call, false)?;
                    }
                }
                Ok(End::of_rows(rows))
            }
        }
    }

    /// Which faces it has calls of.
    fn faces(file: &Path) -> Result<(bool, bool)> {
        let (mut context, mut table) = (false, false);
        Source::open(file)?.each(|call, _| {
            context |= call.action.face() == Face::Context;
            table |= call.action.face() == Face::Table;
            Ok(())
        })?;
        Ok((context, table))
    }
}

/// Where the part `name` of a store is: of a trace of both faces each has a folder.
fn within(place: &Path, faces: (bool, bool), name: &str) -> PathBuf {
    if faces.0 && faces.1 { place.join(name) } else { place.to_owned() }
}

/// The replay on the store in `place`, or in memory.
fn target(
    place: Option<&Path>,
    faces: (bool, bool),
    settled: &Settled,
    arguments: &Arguments,
) -> Result<Replay> {
    let options = &settled.context;
    let snapshot = arguments.snapshot.as_deref();
    let within = |name: &str| place.map(|place| within(place, faces, name));
    let (mut context, mut session, mut reads_only, mut was_there) = (None, None, false, false);
    if faces.0 {
        let place = within("context");
        if let Some(place) = place.as_deref().filter(|it| it.is_dir())
            && irmin::is_store(&*folder::disk(place)?)?
        {
            context = Some(Folder::of(place).open_with(options.clone())?);
            reads_only = true;
        } else {
            was_there = place.as_deref().is_some_and(|it| it.join("control").exists());
            context = Some(made(place.as_deref(), options, snapshot)?);
        }
    }
    if faces.1 {
        let own = settled.session.clone();
        session = Some(match within("tables") {
            Some(place) => {
                was_there |= place.join("session").exists();
                tables::open_or_create(&place, own)?
            }
            None => Session::create(MemoryDisk::seeded(1), own)?,
        });
    }
    let found = match &arguments.at {
        Some(at) => {
            let refused = || Error::invalid("--at is of a context, and the trace has none");
            Some(crate::store::context::commit(context.as_ref().ok_or_else(refused)?, at)?)
        }
        None => None,
    };
    let opened = match (&session, &arguments.tables) {
        (Some(session), Some(name)) => {
            session.open_snapshot(name, &tables::options(Verify::default()))?.tables
        }
        _ => Vec::new(),
    };
    let mut replay = Replay::new(context, session, settled.table.clone(), monotonic_ns);
    replay = replay.with_tables(opened);
    if let Some(commit) = found {
        replay = replay.begins_at(commit);
    }
    if was_there || reads_only {
        replay = replay.had_commits();
    }
    // A trace is a stranger's, and what it takes away from a store that somebody has is gone.
    let replay = if was_there && !arguments.collect { replay.keeps_all() } else { replay };
    Ok(if reads_only { replay.reads_only() } else { replay })
}

/// The context in `place`, which is made where there is none.
fn made(place: Option<&Path>, options: &Options, snapshot: Option<&Path>) -> Result<Store> {
    let disk: Arc<dyn Disk> = match place {
        Some(folder) => OsDisk::create(folder)?,
        None => MemoryDisk::seeded(1),
    };
    if disk.exists("control")? {
        if snapshot.is_some() {
            let place = place.unwrap_or(Path::new("")).display();
            return Err(Error::invalid(format!(
                "{place} has a context already, and a snapshot makes a new one: give another --store"
            )));
        }
        return Store::open(disk, options.clone());
    }
    let Some(snapshot) = snapshot else { return Store::create(disk, options.clone()) };
    let (folder, name) = sight::place(snapshot)?;
    let from = OsDisk::new(folder)?;
    // Another hash configuration than the chain's shows as soon as answers differ.
    let configuration = inspect_commit(&*from, name)?.configuration;
    let options = Options { configuration, ..options.clone() };
    Ok(Store::create_from_commit(disk, options, &*from, name)?.0)
}

fn index(kind: IndexKind) -> Index {
    match kind {
        IndexKind::Minimal => Index::Minimal,
        IndexKind::Always => Index::Always,
    }
}

/// What the store is opened with, and the one beside it.
fn settled(arguments: &Arguments) -> Result<(Settled, Settled)> {
    let lower = match &arguments.lower {
        Some(lower) => Some(folder::disk(lower)? as Arc<dyn Disk>),
        None => None,
    };
    let context = Options {
        index: index(arguments.index),
        objects_bytes: arguments.objects_mib << 20,
        ..Options::default()
    };
    let session = SessionOptions { log: arguments.log.into(), ..SessionOptions::default() };
    let own = Settled { context, session, table: TableOptions::utxo() };
    let mut beside = own.clone();
    beside.context.index = index(arguments.beside_index);
    let mut own = own.with(&arguments.settings)?;
    own.context.lower = lower;
    Ok((own, beside.with(&arguments.beside_settings)?))
}

/// `Invalid` for what is given and would do nothing.
fn check_parts(arguments: &Arguments, faces: (bool, bool)) -> Result<()> {
    let parts = |place: Option<&Path>| -> Result<Parts> {
        let context = place.map(|place| within(place, faces, "context"));
        let is_irmin = match context.filter(|it| it.is_dir()) {
            Some(context) => faces.0 && irmin::is_store(&*folder::disk(&context)?)?,
            None => false,
        };
        Ok(Parts { context: faces.0, tables: faces.1, is_irmin })
    };
    let own = parts(arguments.store.as_deref())?;
    if arguments.lower.is_some() && (!own.context || own.is_irmin) {
        let what =
            if own.is_irmin { "a store of Irmin knows its own" } else { "the trace has none" };
        return Err(Error::invalid(format!("--lower is of a context, and {what}: leave it out")));
    }
    own.check(&arguments.settings)?;
    parts(arguments.beside.as_deref())?.check(&arguments.beside_settings)
}

/// Replays the trace and prints what came out.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let faces = Source::faces(&arguments.file)?;
    if arguments.snapshot.is_some() && !faces.0 {
        let why = "--snapshot makes a context, and the trace has none: of tables, --tables names a snapshot of the store";
        return Err(Error::invalid(why).into());
    }
    if arguments.tables.is_some() && !faces.1 {
        let why = "--tables is of a store of tables, and the trace has none";
        return Err(Error::invalid(why).into());
    }
    let place = arguments.store.as_deref();
    check_parts(arguments, faces)?;
    let (settled, beside_settled) = settled(arguments)?;
    // The last, since what is refused leaves none behind.
    let mut tracing = sight::Tracing::to(arguments.trace.as_deref(), place)?;
    let settled = settled.recorded(tracing.recorder());
    let mut replay = target(place, faces, &settled, arguments)?;
    let mut beside = match &arguments.beside {
        None => None,
        Some(place) => Some(target(Some(place), faces, &beside_settled, arguments)?),
    };
    // The first reading measures the counter for a part of a second, which is no store's time.
    monotonic_ns();
    let (cpu, sampled) = (cpu_ns(), tracing.sampling_ns());
    let mut beside_cpu = 0;
    let end = Source::open(&arguments.file)?.each(|call, is_exact| {
        let run = |replay: &mut Replay| {
            if is_exact { replay.call(call) } else { replay.call_of_rows(call) }
        };
        // The recording of the replay has its blocks where the other has them.
        if let (Action::Mark, [Argument::Bytes(name)]) = (call.action, &call.arguments[..]) {
            tracing.mark(&String::from_utf8_lossy(name));
        }
        run(&mut replay)?;
        tracing.tick();
        if let Some(beside) = &mut beside {
            let start = cpu_ns();
            run(beside)?;
            beside_cpu += cpu_ns() - start;
        }
        Ok(())
    })?;
    let cpu_seconds =
        (cpu_ns() - cpu - beside_cpu - (tracing.sampling_ns() - sampled)) as f64 / 1e9;
    if replay.has_not_begun() {
        let at = arguments.at.as_deref().unwrap_or_default();
        let why = format!("the trace neither makes {at} nor goes on from it: give another to --at");
        return Err(Error::missing(why).into());
    }
    let (found, other) = (replay.outcome(), beside.as_ref().map(Replay::outcome));
    for replay in [Some(replay), beside].into_iter().flatten() {
        let (store, session) = replay.end();
        // One that is only read has nothing to close.
        drop(store.map(Store::close));
        session.map_or(Ok(()), Session::close)?;
    }
    tracing.finish()?;
    let report = Report {
        calls: found.calls,
        skipped: found.skipped,
        mismatches: found.mismatches,
        first_mismatch: found.first_mismatch,
        commits: found.commits,
        cpu_seconds,
        seconds: found.seconds,
        peak_rss_bytes: peak_rss_bytes(),
        disk_bytes: place.map_or(0, disk_bytes),
        cut_bytes: end.cut_bytes,
        is_ended: end.is_ended,
        actions: found.actions,
        beside: other.map(|found| Beside {
            cpu_seconds: beside_cpu as f64 / 1e9,
            disk_bytes: arguments.beside.as_deref().map_or(0, disk_bytes),
            found,
        }),
    };
    let others = report.beside.as_ref().map_or(0, |other| other.found.mismatches);
    let verdict = Verdict::found(report.mismatches + others == 0);
    end.warn(&arguments.file);
    show(&report, end, format)?;
    Ok(verdict)
}

fn show(report: &Report, end: End, format: Format) -> std::io::Result<()> {
    if format == Format::Json {
        return print::json(report);
    }
    let first = report.first_mismatch.clone().unwrap_or_else(|| "none".to_owned());
    let mut rows = vec![
        ("calls", print::count(report.calls)),
        ("skipped", print::count(report.skipped)),
        ("commits", print::count(report.commits)),
        ("mismatches", print::count(report.mismatches)),
        ("first mismatch", first),
        ("CPU", print::seconds(report.cpu_seconds)),
        ("in calls", print::seconds(report.seconds)),
        ("peak memory", print::bytes(report.peak_rss_bytes)),
        ("disk", print::bytes(report.disk_bytes)),
    ];
    rows.extend(end.rows());
    if let Some(Beside { cpu_seconds, disk_bytes, found: other }) = &report.beside {
        let first = other.first_mismatch.clone().unwrap_or_else(|| "none".to_owned());
        rows.extend([
            ("beside: calls", print::count(other.calls)),
            ("beside: skipped", print::count(other.skipped)),
            ("beside: mismatches", print::count(other.mismatches)),
            ("beside: first mismatch", first),
            ("beside: CPU", print::seconds(*cpu_seconds)),
            ("beside: in calls", print::seconds(other.seconds)),
            ("beside: disk", print::bytes(*disk_bytes)),
        ]);
    }
    print::line(&print::record(&rows).to_string())?;
    let titles = ["action", ">calls", ">total ms", ">mean µs", ">p50", ">p99", ">max µs"];
    let mut table = print::table(&titles);
    let beside = report
        .beside
        .iter()
        .flat_map(|other| other.found.actions.iter().map(|it| ("beside: ", it)));
    for (what, it) in report.actions.iter().map(|it| ("", it)).chain(beside) {
        let latency = &it.latency;
        let mut row = vec![format!("{what}{}", it.action), print::count(it.calls)];
        row.push(format!("{:.1}", it.total_ms));
        let figures = [latency.mean_us, latency.p50_us, latency.p99_us, latency.max_us];
        row.extend(figures.map(|figure| format!("{figure:.1}")));
        table.add_row(row);
    }
    print::line(&table.to_string())
}

//! `varvite trace replay`: the calls of a trace on one store, or on two beside each other.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::Serialize;
use varvite::context::{
    ChildOrder, CommitHash, Configuration, Index, Options, Store, inspect_commit,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack as irmin;
use varvite::{Error, Result, Session, SessionOptions, Table, TableOptions, Verify};
use varvite_sight::trace::{Outcome as Found, Replay};

use super::End;
use super::recordings::Recordings;
use super::settings::{Joined, Parts, Setting, Settled};
use super::source::{Contents, Source};
use crate::commands::replay::blocks::IndexKind;
use crate::exit::{self, Outcome, Verdict};
use crate::flags::LogKind;
use crate::print::{self, Format};
use crate::sight::{self, monotonic_ns};
use crate::store::context::{self, Folder};
use crate::store::folder::{self, Target};
use crate::store::tables;
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
    /// and changed [default: none]
    #[arg(long, value_enum)]
    log: Option<LogKind>,
    /// Which objects a new context finds by hash [default: minimal]
    #[arg(long, value_enum)]
    index: Option<IndexKind>,
    /// Memory for nodes of a context, in MiB [default: 84]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..1 << 20))]
    objects_mib: Option<u64>,
    /// Folder of the lower layer of the context, if that is an archive
    #[arg(long, value_name = "DIR", requires = "store")]
    lower: Option<PathBuf>,
    /// Give an option of the library a number, as `pages_bytes=16777216`, under its name there; may be repeated. Those of tables
    /// count for tables that are made
    #[arg(long = "set", value_name = "OPTION=NUMBER")]
    settings: Vec<Setting>,
    /// Join upserts of a table that is made by this operator, as `balances=add-u64`, or `add-u64` for all others: a trace does
    /// not say which one a table has; may be repeated
    #[arg(long = "upsert", value_name = "[TABLE=]OPERATOR")]
    upserts: Vec<Joined>,
    /// What handles of the trace may take in memory on each store, in MiB: trees with what is neither committed nor spilled of
    /// them, tables and views. The replay ends where it comes to more
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    held_mib: u64,
    /// Run every call on this store too: a new one, or one of varvite or of Irmin that has the commits; one of Irmin
    /// is only read
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,
    /// Which objects a new context beside it finds by hash [default: minimal]
    #[arg(long, value_enum, requires = "beside")]
    beside_index: Option<IndexKind>,
    /// The same as --set for the store beside it, which has none of those
    #[arg(long = "beside-set", value_name = "OPTION=NUMBER", requires = "beside")]
    beside_settings: Vec<Setting>,
    /// Folder of the lower layer of the context beside it, if that is an archive
    #[arg(long, value_name = "DIR", requires = "beside")]
    beside_lower: Option<PathBuf>,
    /// The same as --log for the tables beside it [default: none]
    #[arg(long, value_enum, requires = "beside")]
    beside_log: Option<LogKind>,
    /// Hash configuration of a context that is made, where the trace is not of Tezos: branching of directories, and the most
    /// entries of one that is hashed flat
    #[arg(long, value_name = "ENTRIES,FLAT", value_parser = context::shape, conflicts_with = "snapshot")]
    shape: Option<(u32, u32)>,
    /// The same: children are ordered by bits of the hash of their name
    #[arg(long, conflicts_with = "snapshot")]
    hash_bits: bool,
    /// Write down the replay too
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write down what the store beside it does, to lay it beside the other
    #[arg(long, value_name = "FILE", requires = "beside")]
    beside_trace: Option<PathBuf>,
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
    /// What is left on disk: nothing of a store that was made and removed.
    disk_bytes: u64,
    /// Bytes that are no whole frame; none where the trace was not read to its end.
    cut_bytes: Option<u64>,
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

/// Where the part `name` of a store is: of a trace of both faces each has a folder.
fn within(place: &Path, faces: (bool, bool), name: &str) -> PathBuf {
    if faces.0 && faces.1 { place.join(name) } else { place.to_owned() }
}

/// Where stores were made for a replay.
#[derive(Default)]
struct Made {
    context: Option<Target>,
    tables: Option<Target>,
}

impl Made {
    /// Leaves nothing of what was made.
    fn give_up(self, (store, session): (Option<Store>, Option<Session>)) {
        if let (Some(store), Some(target)) = (store, self.context) {
            context::remove_new(store, target);
        }
        if let (Some(session), Some(target)) = (session, self.tables) {
            tables::remove_new(session, target);
        }
    }
}

/// A replay, and what was made for it.
struct Side {
    replay: Replay,
    reads_only: bool,
    made: Made,
}

impl Side {
    /// The replay on the store in `place`, or in memory. Where it cannot be, nothing is left of what was made for it.
    fn begin(
        place: Option<&Path>,
        faces: (bool, bool),
        settled: &Settled,
        arguments: &Arguments,
    ) -> Result<Side> {
        let mut opened = Opened::default();
        match opened.open(place, faces, settled, arguments) {
            Ok((at, of_snapshot)) => Ok(opened.replay(at, of_snapshot, settled, arguments)),
            Err(error) => {
                opened.made.give_up((opened.context, opened.session));
                Err(error)
            }
        }
    }

    /// The same after a replay that did not come to its end: what was there before stays as it is by now.
    fn give_up(self) {
        self.made.give_up(self.replay.end());
    }

    /// Closes both stores, though one of them fails, and gives the first error.
    fn close(self) -> Result<()> {
        let (store, session) = self.replay.end();
        let closed = store.map_or(Ok(()), Store::close);
        let others = session.map_or(Ok(()), Session::close);
        closed.and(others)
    }
}

/// The stores of a replay that begins.
#[derive(Default)]
struct Opened {
    context: Option<Store>,
    session: Option<Session>,
    made: Made,
    reads_only: bool,
    was_there: bool,
}

impl Opened {
    /// Opens or makes them, and finds where the replay begins, and the tables of a snapshot.
    fn open(
        &mut self,
        place: Option<&Path>,
        faces: (bool, bool),
        settled: &Settled,
        arguments: &Arguments,
    ) -> Result<(Option<CommitHash>, Vec<Table>)> {
        let options = &settled.context;
        let within = |name: &str| place.map(|place| within(place, faces, name));
        if faces.0 {
            let place = within("context");
            if let Some(place) = place.as_deref().filter(|it| it.is_dir())
                && irmin::is_store(&*folder::disk(place)?)?
            {
                self.context = Some(Folder::of(place).open_with(options.clone())?);
                self.reads_only = true;
            } else {
                self.was_there = place.as_deref().is_some_and(|it| it.join("control").exists());
                let (store, target) =
                    made(place.as_deref(), options, arguments.snapshot.as_deref())?;
                (self.context, self.made.context) = (Some(store), target);
            }
        }
        if faces.1 {
            let own = settled.session.clone();
            if let Some(place) = within("tables") {
                let (session, target) = tables::open_or_make(&place, own)?;
                self.was_there |= target.is_none();
                (self.session, self.made.tables) = (Some(session), target);
            } else {
                self.session = Some(Session::create(MemoryDisk::seeded(1), own)?);
            }
        }
        let refused = || Error::invalid("--at is of a context, and the trace has none");
        let at = arguments
            .at
            .as_ref()
            .map(|at| context::commit(self.context.as_ref().ok_or_else(refused)?, at));
        let of_snapshot = match (&self.session, &arguments.tables) {
            (Some(session), Some(name)) => {
                session.open_snapshot(name, &tables::options(Verify::default()))?.tables
            }
            _ => Vec::new(),
        };
        Ok((at.transpose()?, of_snapshot))
    }

    fn replay(
        self,
        at: Option<CommitHash>,
        of_snapshot: Vec<Table>,
        settled: &Settled,
        arguments: &Arguments,
    ) -> Side {
        let Opened { context, session, made, reads_only, was_there } = self;
        let mut replay = Replay::new(context, session, settled.table.clone(), monotonic_ns);
        replay = replay.with_tables(of_snapshot);
        replay = replay.holds(arguments.held_mib << 20).counts_by(cpu_ns);
        replay = replay.joins(arguments.upserts.iter().map(Joined::pair).collect());
        if let Some(commit) = at {
            replay = replay.begins_at(commit);
        }
        // A snapshot has a commit that the trace may make.
        if was_there || reads_only || arguments.snapshot.is_some() {
            replay = replay.had_commits();
        }
        // A trace is a stranger's, and what it takes away from a store that somebody has is gone.
        let replay = if was_there && !arguments.collect { replay.keeps_all() } else { replay };
        Side { replay: if reads_only { replay.reads_only() } else { replay }, reads_only, made }
    }
}

/// The context in `place`, which is made where there is none, and then where.
fn made(
    place: Option<&Path>,
    options: &Options,
    snapshot: Option<&Path>,
) -> Result<(Store, Option<Target>)> {
    if let Some(place) = place.filter(|place| place.join("control").exists()) {
        if snapshot.is_some() {
            return Err(Error::invalid(format!(
                "{} has a context already, and a snapshot makes a new one: give another folder",
                place.display()
            )));
        }
        return Ok((Store::open(folder::disk(place)?, options.clone())?, None));
    }
    // Before a folder is made for nothing.
    let mut options = options.clone();
    let from = snapshot.map(sight::place).transpose()?;
    let from = from.map(|(folder, name)| Ok::<_, Error>((OsDisk::new(folder)?, name)));
    let from = from.transpose()?;
    if let Some((from, name)) = &from {
        // Another hash configuration than the chain's shows as soon as answers differ.
        options.configuration = inspect_commit(&**from, name)?.configuration;
    }
    let (target, disk): (_, Arc<dyn Disk>) = match place {
        Some(folder) => {
            let (target, disk) = Target::create(folder)?;
            (Some(target), disk)
        }
        None => (None, MemoryDisk::seeded(1)),
    };
    let mut store = match Store::create(disk, options) {
        Ok(store) => store,
        Err(error) => {
            if let Some(target) = target {
                target.take_back(&error);
            }
            return Err(error);
        }
    };
    if let Some((from, name)) = from
        && let Err(error) = store.import_commit(&*from, name)
    {
        Made { context: target, tables: None }.give_up((Some(store), None));
        return Err(error);
    }
    Ok((store, target))
}

/// Memory for nodes that is not given otherwise.
const OBJECTS_MIB: u64 = 84;

fn index(kind: Option<IndexKind>) -> Index {
    kind.unwrap_or_default().into()
}

/// What the store is opened with, and the one beside it.
fn settled(arguments: &Arguments) -> Result<(Settled, Settled)> {
    let lower = |given: &Option<PathBuf>| {
        given
            .as_ref()
            .map(|lower| Ok::<_, Error>(folder::disk(lower)? as Arc<dyn Disk>))
            .transpose()
    };
    let (own_lower, beside_lower) = (lower(&arguments.lower)?, lower(&arguments.beside_lower)?);
    let (usual, (entries, flat)) = (Options::default(), arguments.shape.unwrap_or((32, 256)));
    let order = if arguments.hash_bits { ChildOrder::HashBits } else { ChildOrder::SeededHash };
    let is_other = arguments.shape.is_some() || arguments.hash_bits;
    let configuration =
        if is_other { Configuration::new(entries, flat, order)? } else { usual.configuration };
    let context = Options {
        configuration,
        index: index(arguments.index),
        objects_bytes: arguments.objects_mib.unwrap_or(OBJECTS_MIB) << 20,
        ..usual
    };
    let log = arguments.log.unwrap_or_default().into();
    let session = SessionOptions { log, ..SessionOptions::default() };
    let own = Settled { context, session, table: TableOptions::utxo() };
    let mut beside = own.clone();
    beside.context.index = index(arguments.beside_index);
    beside.session.log = arguments.beside_log.unwrap_or_default().into();
    let mut own = own.with(&arguments.settings)?;
    let mut beside = beside.with(&arguments.beside_settings)?;
    (own.context.lower, beside.context.lower) = (own_lower, beside_lower);
    Ok((own, beside))
}

/// `Invalid` for what is given and would do nothing.
fn check_parts(arguments: &Arguments, faces: (bool, bool), refused: Option<Error>) -> Result<()> {
    let parts = |place: Option<&Path>| -> Result<Parts> {
        let context = place.map(|place| within(place, faces, "context"));
        let is_irmin = match context.filter(|it| it.is_dir()) {
            Some(context) => faces.0 && irmin::is_store(&*folder::disk(&context)?)?,
            None => false,
        };
        Ok(Parts { context: faces.0, tables: faces.1, is_irmin })
    };
    let own = parts(arguments.store.as_deref())?;
    let beside = parts(arguments.beside.as_deref())?;
    for (flag, is_given, part) in [
        ("--lower", arguments.lower.is_some(), &own),
        ("--beside-lower", arguments.beside_lower.is_some(), &beside),
    ] {
        if is_given && (!part.context || part.is_irmin) {
            let what =
                if part.is_irmin { "a store of Irmin knows its own" } else { "the trace has none" };
            return Err(Error::invalid(format!(
                "{flag} is of a context, and {what}: leave it out"
            )));
        }
    }
    if arguments.snapshot.is_some() && own.is_irmin {
        let detail = "--snapshot makes a new store, and the one at --store is Irmin's, which is only read: leave it out";
        return Err(Error::invalid(detail.to_owned()));
    }
    own.check(&arguments.settings)?;
    beside.check(&arguments.beside_settings)?;
    let of_none = [
        ("--index", arguments.index.is_some(), faces.0, "a context"),
        ("--objects-mib", arguments.objects_mib.is_some(), faces.0, "a context"),
        ("--beside-index", arguments.beside_index.is_some(), faces.0, "a context"),
        ("--log", arguments.log.is_some(), faces.1, "tables"),
        ("--upsert", !arguments.upserts.is_empty(), faces.1, "tables"),
        ("--beside-log", arguments.beside_log.is_some(), faces.1, "tables"),
        ("--shape", arguments.shape.is_some(), faces.0, "a context"),
        ("--hash-bits", arguments.hash_bits, faces.0, "a context"),
    ];
    if let Some((flag, .., what)) = of_none.iter().find(|(_, given, has, _)| *given && !has) {
        return Err(Error::invalid(format!(
            "{flag} is of {what}, and the trace has none: leave it out"
        )));
    }
    check_what_is_there(arguments, faces, refused)
}

/// `Invalid` for an operator of a table that the trace never opens.
fn check_upserts(upserts: &[Joined], contents: &Contents) -> Result<()> {
    let tables = &contents.tables;
    let unknown = |it: &&str| !contents.has_more_tables && !tables.contains(*it);
    let Some(name) = upserts.iter().filter_map(Joined::table).find(unknown) else { return Ok(()) };
    let first: Vec<_> = tables.iter().take(8).map(String::as_str).collect();
    Err(Error::invalid(format!(
        "--upsert {name}=… is of a table that the trace never opens: it opens {}{}",
        first.join(", "),
        if tables.len() > first.len() { " and others" } else { "" }
    )))
}

/// The same of what is for a store that is made, or for one that was there.
fn check_what_is_there(
    arguments: &Arguments,
    faces: (bool, bool),
    refused: Option<Error>,
) -> Result<()> {
    let [own, beside] = [&arguments.store, &arguments.beside].map(|it| it.as_deref());
    let has = |place: Option<&Path>, part: &str, names: &[&str]| {
        let place = place.map(|place| within(place, faces, part));
        place.is_some_and(|place| names.iter().any(|name| place.join(name).exists()))
    };
    let has_context = |place: Option<&Path>| {
        faces.0 && has(place, "context", &["control", "store.control", "store.pack"])
    };
    let has_tables = |place| faces.1 && has(place, "tables", &["session"]);
    let is_made = |place: Option<&Path>| place.is_some_and(|place| !has_context(Some(place)));
    let makes_none = arguments.store.is_some() && !is_made(own) && !is_made(beside);
    for (flag, is_given) in
        [("--shape", arguments.shape.is_some()), ("--hash-bits", arguments.hash_bits)]
    {
        if is_given && makes_none {
            return Err(Error::invalid(format!(
                "{flag} is of a context that is made, and there is one: leave it out"
            )));
        }
    }
    for (flag, is_given, place) in [
        ("--index", arguments.index.is_some(), own),
        ("--beside-index", arguments.beside_index.is_some(), beside),
    ] {
        if let Some(place) = place.filter(|_| is_given && has_context(place)) {
            return Err(Error::invalid(format!(
                "{flag} is of a context that is made, and {} has one: leave it out",
                place.display()
            )));
        }
    }
    // Tables that a log makes live are the state from then on.
    for (flag, is_given, place) in [
        ("--log", arguments.log.is_some_and(|log| log != LogKind::None), own),
        ("--beside-log", arguments.beside_log.is_some_and(|log| log != LogKind::None), beside),
    ] {
        if let Some(place) = place.filter(|_| is_given && !arguments.collect)
            && has_tables(Some(place))
            && !has(Some(place), "tables", &["checkpoint"])
        {
            return Err(Error::invalid(format!(
                "{flag} would make the tables of the trace the state of {}, which has tables that are not live: replay into a \
                 new store, or say --collect where it may be changed",
                place.display()
            )));
        }
    }
    let has_own = |place| faces.0 && has(place, "context", &["control"]);
    if arguments.collect && ![own, beside].into_iter().any(|it| has_own(it) || has_tables(it)) {
        if let Some(irmin) = [own, beside].into_iter().flatten().find(|it| has_context(Some(it))) {
            return Err(Error::invalid(format!(
                "--collect is of a store that may be changed, and {} is one of Irmin, which is only read: leave it out",
                irmin.display()
            )));
        }
        return Err(Error::invalid(
            "--collect is of a store that was there before, and a new one does all that the trace does: leave it out",
        ));
    }
    // Commands take what has such a name for the newest state, and remove what was before it.
    if let Some(error) =
        refused.filter(|_| arguments.collect && (has_tables(own) || has_tables(beside)))
    {
        return Err(Error::invalid(format!(
            "--collect would save and delete the snapshots of the trace in a store that was there before, and {}: leave \
             --collect out, or give a new folder",
            error.detail()
        )));
    }
    Ok(())
}

/// What the calls took, and how the trace ended.
struct Ran {
    cpu_seconds: f64,
    beside_cpu: u64,
    /// What it ended with, if not with its last call.
    end: Result<End>,
}

/// Runs all calls of the trace.
fn replayed(
    arguments: &Arguments,
    replay: &mut Replay,
    mut beside: Option<&mut Replay>,
    recordings: &mut Recordings,
) -> Result<Ran> {
    // The first reading measures the counter for a part of a second, which is no store's time.
    monotonic_ns();
    let (cpu, sampled) = (cpu_ns(), recordings.sampling_ns());
    let mut beside_cpu = 0_u64;
    if !replay.has_not_begun() {
        recordings.run_from_here();
    }
    let end = Source::open(&arguments.file)?.each(|call, is_exact| {
        let run = |replay: &mut Replay| {
            if is_exact { replay.call(call) } else { replay.call_of_rows(call) }
        };
        // The recording of the replay has its blocks where the other has them.
        recordings.before(call);
        run(replay)?;
        recordings.after_own();
        if let Some(beside) = &mut beside {
            let start = cpu_ns();
            run(beside)?;
            beside_cpu += cpu_ns() - start;
            recordings.after_beside(call);
        }
        if !replay.has_not_begun() {
            recordings.run_from_here();
        }
        Ok(())
    });
    let cpu = cpu_ns() - cpu - beside_cpu;
    // Of a replay and of no store.
    beside_cpu = beside_cpu.saturating_sub(beside.map_or(0, |it| it.counting_ns()));
    let own_ns = recordings.sampling_ns() - sampled + replay.counting_ns();
    let cpu_seconds = cpu.saturating_sub(own_ns) as f64 / 1e9;
    if replay.has_not_begun() {
        end?;
        let at = arguments.at.as_deref().unwrap_or_default();
        let why = format!("the trace neither makes {at} nor goes on from it: give another to --at");
        return Err(Error::missing(why));
    }
    Ok(Ran { cpu_seconds, beside_cpu, end })
}

/// Replays the trace and prints what came out.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let mut contents = Source::contents(&arguments.file)?;
    let (faces, commits, refused) = (contents.faces, contents.commits, contents.refused.take());
    if arguments.snapshot.is_some() && !faces.0 {
        let why = "--snapshot makes a context, and the trace has none: of tables, --tables names a snapshot of the store";
        return Err(Error::invalid(why).into());
    }
    if arguments.tables.is_some() && !faces.1 {
        let why = "--tables is of a store of tables, and the trace has none";
        return Err(Error::invalid(why).into());
    }
    let place = arguments.store.as_deref();
    folder::expect_two(["--store", "--beside"], [place, arguments.beside.as_deref()])?;
    folder::expect_two(
        ["--trace", "--beside-trace"],
        [arguments.trace.as_deref(), arguments.beside_trace.as_deref()],
    )?;
    check_parts(arguments, faces, refused)?;
    check_upserts(&arguments.upserts, &contents)?;
    let (settled, beside_settled) = settled(arguments)?;
    // The last, since what is refused leaves none behind.
    let mut recordings = Recordings::begin(
        (arguments.trace.as_deref(), place),
        (arguments.beside_trace.as_deref(), arguments.beside.as_deref()),
    )?;
    let [own_recorder, beside_recorder] = recordings.recorders();
    let settled = settled.recorded(own_recorder);
    let beside_settled = beside_settled.recorded(beside_recorder);
    let mut own = Side::begin(place, faces, &settled, arguments)?;
    let beside = arguments
        .beside
        .as_deref()
        .map(|place| Side::begin(Some(place), faces, &beside_settled, arguments));
    let mut beside = match beside.transpose() {
        Ok(beside) => beside,
        Err(error) => {
            own.give_up();
            return Err(error.into());
        }
    };
    if commits > 0 && beside.as_ref().is_some_and(|it| it.reads_only) {
        recordings.mark_blocks(commits);
    }
    let ran = replayed(
        arguments,
        &mut own.replay,
        beside.as_mut().map(|it| &mut it.replay),
        &mut recordings,
    );
    // Of answers that there were is told in any case.
    let has_answers = own.replay.outcome().calls > 0;
    let ran = ran.and_then(|ran| match ran {
        Ran { end: Err(error), .. } if !has_answers => Err(error),
        ran => Ok(ran),
    });
    let ran = match ran {
        Ok(ran) => ran,
        Err(error) => {
            own.give_up();
            if let Some(beside) = beside {
                beside.give_up();
            }
            return Err(error.into());
        }
    };
    finish(arguments, ran, (own, beside), recordings, format)
}

/// Closes the stores, or leaves nothing of those that were made where the replay did not come to its end, and says what came
/// out.
fn finish(
    arguments: &Arguments,
    ran: Ran,
    (own, beside): (Side, Option<Side>),
    recordings: Recordings,
    format: Format,
) -> Outcome {
    let Ran { cpu_seconds, beside_cpu, end } = ran;
    let place = arguments.store.as_deref();
    let (found, other) = (own.replay.outcome(), beside.as_ref().map(|it| it.replay.outcome()));
    let used = |place: Option<&Path>| place.map_or(0, disk_bytes);
    let (end, mut errors) = match end {
        Ok(end) => (Some(end), Vec::new()),
        Err(error) => (None, vec![error]),
    };
    for side in [Some(own), beside].into_iter().flatten() {
        if end.is_none() {
            side.give_up();
        } else {
            // What was found is told, though what was written may not be there.
            errors.extend(side.close().err());
        }
    }
    let disk = [used(place), used(arguments.beside.as_deref())];
    errors.extend(recordings.finish().err());
    let report = Report {
        calls: found.calls,
        skipped: found.skipped,
        mismatches: found.mismatches,
        first_mismatch: found.first_mismatch,
        commits: found.commits,
        cpu_seconds,
        seconds: found.seconds,
        peak_rss_bytes: peak_rss_bytes(),
        disk_bytes: disk[0],
        cut_bytes: end.map(|end| end.cut_bytes),
        is_ended: end.and_then(|end| end.is_ended),
        actions: found.actions,
        beside: other.map(|found| Beside {
            cpu_seconds: beside_cpu as f64 / 1e9,
            disk_bytes: disk[1],
            found,
        }),
    };
    let others = report.beside.as_ref().map_or(0, |other| other.found.mismatches);
    let verdict = Verdict::found(report.mismatches + others == 0);
    if let Some(end) = end {
        end.warn(&arguments.file);
    }
    // Before the report, which may find nobody to read it.
    let verdict = exit::beside(errors, verdict);
    show(&report, end, format)?;
    Ok(verdict)
}

fn show(report: &Report, end: Option<End>, format: Format) -> std::io::Result<()> {
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
    rows.extend(end.into_iter().flat_map(End::rows));
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

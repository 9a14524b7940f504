//! `varvite bench utxo`: `IntersectMBO`'s `UTxO` load, set up once and run as often as wanted.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use varvite::{
    Batch, Error, LoadOrder, Result, Session, SessionStats, SnapshotContent, Table, TableOptions,
    Verify,
};

use crate::exit::{Outcome, Verdict};
use crate::flags::{CompressionKind, LogKind, Tuning};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::tables;
use crate::system::measure::{cpu_ns, disk_bytes, peak_rss_bytes};
use crate::workload::utxo::{
    KEY_BYTES, Measured, Mode, NUMBERS_MAX, Plan, VALUE, VALUE_BYTES, key, run as run_plan,
};

/// The snapshot that setup makes and runs begin from.
const SNAPSHOT: &str = "utxo";
/// The table in it.
const TABLE: &str = "utxo";
/// The live table of a run with a log.
const LIVE: &str = "run";
/// What it is labelled with.
const LABEL: &str = "varvite bench utxo";
/// Entries a batch of the setup.
const SETUP_BATCH: u64 = 256;
/// Memory in which loading sorts.
const LOAD_MEMORY_BYTES: u64 = 256 << 20;
/// An operation deletes a key and inserts a key with its value.
const UPDATED_BYTES: u64 = (2 * KEY_BYTES + VALUE_BYTES) as u64;

/// The `UTxO` load: keys of 34 bytes, values of 60; lookups, deletes and inserts in batches
#[derive(Debug, Subcommand)]
pub enum Command {
    Setup(Setup),
    Run(Run),
}

/// Insert entries into a new store and save it
#[derive(Debug, Args)]
pub struct Setup {
    /// How many entries
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..NUMBERS_MAX / 2))]
    entries: u64,
    /// Folder for the store; missing or empty
    #[arg(long)]
    dir: PathBuf,
    /// Load the entries instead of inserting them: faster, but the table has one full last run and
    /// nothing above it, so a run of less than a whole turnover is cheaper than it would be
    #[arg(long)]
    loaded: bool,
    /// Store pages compressed where that saves an eighth: for values that are alike
    #[arg(long, value_enum, default_value_t)]
    compression: CompressionKind,
}

/// Run batches on what setup made, which stays as it is
#[derive(Debug, Args)]
pub struct Run {
    /// Folder of the store
    #[arg(long)]
    dir: PathBuf,
    /// How many batches
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    batches: u64,
    /// Operations in a batch
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch_size: u64,
    /// Which parts of a batch are done, and how
    #[arg(long, value_enum, default_value_t = Mode::Serial)]
    mode: Mode,
    /// Compare every batch with a model
    #[arg(long)]
    check: bool,
    /// Batches of lookups before the clock starts, to fill the cache
    #[arg(long, value_name = "BATCHES", default_value_t = 0)]
    warm_up: u64,
    /// Batches of deletes and inserts before the clock starts: with a turnover of them, the run begins with
    /// levels as full as they are in a table that was in use for long
    #[arg(long, value_name = "BATCHES", default_value_t = 0)]
    settle: u64,
    /// Delete the snapshot that setup made once it is open, so that nothing but the table is on disk; the
    /// store cannot be run again
    #[arg(long)]
    consume: bool,
    /// Where the draw of keys begins
    #[arg(long, default_value_t = 1337)]
    seed: u64,
    /// What a batch must outlive when it is done: the process when written, the power when synced
    #[arg(long, value_enum, default_value_t)]
    log: LogKind,
    #[command(flatten)]
    tuning: Tuning,
}

/// Bytes of the keys and values of so many entries.
fn live_bytes(entries: u64) -> u64 {
    entries * (KEY_BYTES + VALUE_BYTES) as u64
}

/// What a setup leaves in its snapshot's payload.
#[derive(Debug, Serialize, Deserialize)]
struct Payload {
    entries: u64,
}

/// What a setup says.
#[derive(Debug, Serialize)]
struct SetupReport {
    entries: u64,
    seconds: f64,
    cpu_us_per_entry: f64,
    peak_rss_bytes: u64,
    written_bytes: u64,
    disk_bytes: u64,
}

/// What a run says, by the names that programs rely on.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// Operations a second, on the wall.
    pub ops_per_second: f64,
    /// User and system time of the whole process, an operation.
    pub cpu_us_per_op: f64,
    /// Most memory of the process.
    pub peak_rss_bytes: u64,
    /// Time of a batch.
    pub batch_us: BatchTimes,
    /// Counted work of a batch.
    pub work_per_batch: Work,
    /// Opening session and snapshot.
    pub open_seconds: f64,
    /// Bytes that lookups and merges read.
    pub read_bytes: u64,
    /// Bytes written to segments and manifests.
    pub written_bytes: u64,
    /// Bytes written to the log.
    pub log_written_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Checkpoints, each of which frees a part of the log.
    pub checkpoints: u64,
    /// Bytes written to segments and manifests, per byte of deleted keys, inserted keys and their values.
    pub write_amplification: f64,
    /// Pages that a lookup read.
    pub reads_per_lookup: f64,
    /// All files, at the end.
    pub disk_bytes: u64,
    /// The same in the course of the run; none of a pipelined one.
    pub disk: Option<DiskReport>,
    /// Answers that were wrong.
    pub wrong: u64,
}

/// What was on disk, on average over looks at even distances.
#[derive(Debug, Serialize)]
pub struct DiskReport {
    /// All files.
    mean_bytes: u64,
    /// The most that all files took.
    most_bytes: u64,
    /// Segments of the table.
    table_bytes: u64,
    /// Files kept to be written over.
    spare_bytes: u64,
    /// All files, for each byte of keys and values that are bound.
    per_live_byte: f64,
}

/// Percentiles in microseconds.
#[derive(Debug, Serialize)]
pub struct BatchTimes {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Counted work.
#[derive(Debug, Serialize)]
pub struct Work {
    mean: f64,
    max: u64,
}

/// Runs setup or run.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Setup(arguments) => setup(&arguments, format),
        Command::Run(arguments) => run_batches(&arguments, format),
    }
}

/// Inserts the first `entries` numbers into a new table of `session`.
pub fn fill(session: &Session, options: TableOptions, entries: u64, what: &str) -> Result<Table> {
    let mut table = session.create_table(TABLE, options)?;
    let mut batch = Batch::new();
    let mut bar = Progress::new(what, entries, Unit::Items);
    for first in (0..entries).step_by(SETUP_BATCH as usize) {
        batch.clear();
        let end = entries.min(first + SETUP_BATCH);
        for number in first..end {
            batch.insert(&key(number), &VALUE);
        }
        table.update(&batch)?;
        bar.set(end);
    }
    bar.finish();
    Ok(table)
}

/// Loads the first `entries` numbers into a new table of `session`.
fn load(session: &Session, options: TableOptions, entries: u64) -> Result<Table> {
    let order = LoadOrder::Any { memory_bytes: LOAD_MEMORY_BYTES };
    let mut loader = session.load_table(TABLE, options, order)?;
    let mut bar = Progress::new("loading", entries, Unit::Items);
    for number in 0..entries {
        loader.push(&key(number), &VALUE)?;
        if number.is_multiple_of(1 << 16) {
            bar.set(number);
        }
    }
    bar.finish();
    loader.finish()
}

/// Saves what [`fill`] made, so that runs can begin from it.
pub fn save(session: &Session, entries: u64, table: &Table) -> Result<()> {
    let payload = serde_json::to_vec(&Payload { entries }).expect("the payload is plain data");
    let content = SnapshotContent { label: LABEL, payload: &payload, tables: &[table] };
    session.save_snapshot(SNAPSHOT, content)
}

/// Opens what setup saved: the table and how many entries it has.
pub fn open(session: &Session) -> Result<(Table, u64)> {
    let mut options = tables::options(Verify::Quick);
    options.label = Some(LABEL.to_owned());
    let mut snapshot = session.open_snapshot(SNAPSHOT, &options)?;
    let payload: Payload = serde_json::from_slice(&snapshot.payload).map_err(|error| {
        Error::invalid(format!("the snapshot's payload is not this benchmark's ({error})"))
    })?;
    Ok((snapshot.take(TABLE)?, payload.entries))
}

fn setup(arguments: &Setup, format: Format) -> Outcome {
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    // A setup that failed or was stopped has left no snapshot: nothing keeps this one from its place.
    let options = Tuning::default().options(&arguments.dir)?;
    let session = tables::create_or_take(&arguments.dir, options)?;
    let options = TableOptions::utxo().with_compression(arguments.compression.into());
    let table = if arguments.loaded {
        load(&session, options, arguments.entries)?
    } else {
        fill(&session, options, arguments.entries, "inserting")?
    };
    save(&session, arguments.entries, &table)?;
    let stats = session.stats();
    drop(table);
    session.close()?;
    let report = SetupReport {
        entries: arguments.entries,
        seconds: start.elapsed().as_secs_f64(),
        cpu_us_per_entry: (cpu_ns() - cpu_before) as f64 / 1e3 / arguments.entries as f64,
        peak_rss_bytes: peak_rss_bytes(),
        written_bytes: stats.written_bytes(),
        disk_bytes: disk_bytes(&arguments.dir),
    };
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => print::line(
            &print::record(&[
                ("entries", print::count(report.entries)),
                ("time", print::seconds(report.seconds)),
                ("CPU per entry", format!("{:.2} µs", report.cpu_us_per_entry)),
                ("peak memory", print::bytes(report.peak_rss_bytes)),
                ("written", print::bytes(report.written_bytes)),
                ("on disk", print::bytes(report.disk_bytes)),
            ])
            .to_string(),
        )?,
    }
    Ok(Verdict::Yes)
}

fn run_batches(arguments: &Run, format: Format) -> Outcome {
    let mut options = arguments.tuning.options(&arguments.dir)?;
    options.log = arguments.log.into();
    let start = Instant::now();
    let session = tables::open(&arguments.dir, options)?;
    let (mut table, entries) = open(&session)?;
    if arguments.log != LogKind::None {
        table = publish(&session, &table)?;
    }
    if arguments.consume {
        session.delete_snapshot(SNAPSHOT)?;
    }
    let open_seconds = start.elapsed().as_secs_f64();
    let plan = Plan {
        entries,
        batches: arguments.batches,
        batch_size: arguments.batch_size,
        mode: arguments.mode,
        seed: arguments.seed,
        check: arguments.check,
        warm_up: arguments.warm_up,
        settle: arguments.settle,
    };
    check_plan(&plan)?;
    let mut bar = Progress::new("running", plan.batches, Unit::Items);
    let (table, mut measured) = run_plan(&session, table, &plan, &mut bar)?;
    bar.finish();
    let report = report(&plan, &mut measured, &arguments.dir, open_seconds);
    let verdict = Verdict::found(report.wrong == 0);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => print::line(&show(&plan, &report, &measured).to_string())?,
    }
    table.close()?;
    if arguments.log != LogKind::None {
        session.delete_table(LIVE)?;
    }
    session.close()?;
    Ok(verdict)
}

/// A live copy of `table`, in place of one that a run left that was stopped.
fn publish(session: &Session, table: &Table) -> Result<Table> {
    if session.live_tables()?.iter().any(|name| name == LIVE) {
        session.delete_table(LIVE)?;
    }
    let mut copy = table.duplicate(LIVE)?;
    session.publish(&mut copy)?;
    Ok(copy)
}

/// `Invalid` when the store or the generator is too small for the plan.
fn check_plan(plan: &Plan) -> Result<()> {
    if plan.batch_size > plan.entries {
        return Err(Error::invalid(format!(
            "a batch of {} is more than the {} entries of the store: choose a smaller --batch-size",
            plan.batch_size, plan.entries
        )));
    }
    if plan.settle > 0 && matches!(plan.mode, Mode::Pipelined | Mode::Lookup) {
        return Err(Error::invalid(
            "--settle updates the table on one thread: choose --mode serial or update",
        ));
    }
    let batches = plan.batches.saturating_add(plan.settle).max(plan.warm_up);
    let numbers = batches.checked_mul(plan.batch_size).map(|fresh| fresh + plan.entries);
    if numbers.is_none_or(|numbers| numbers >= NUMBERS_MAX) {
        return Err(Error::invalid(format!(
            "the run would use more than {} different keys: choose fewer --batches",
            print::count(NUMBERS_MAX)
        )));
    }
    Ok(())
}

/// The figures of a run on the store in `folder`.
pub fn report(plan: &Plan, measured: &mut Measured, folder: &Path, open_seconds: f64) -> RunReport {
    let operations = plan.operations() as f64;
    let (before, after) = (&measured.stats_before, &measured.stats);
    let pages_read = after.pages_read - before.pages_read;
    let looked_up = after.keys_looked_up - before.keys_looked_up;
    let merges_read = after.merge_read_bytes - before.merge_read_bytes;
    let written = |stats: &SessionStats| stats.written_bytes();
    let written = written(after) - written(before);
    let updated = if plan.mode == Mode::Lookup { 0 } else { plan.operations() * UPDATED_BYTES };
    let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    RunReport {
        ops_per_second: operations / measured.seconds,
        cpu_us_per_op: measured.cpu_ns as f64 / 1e3 / operations,
        peak_rss_bytes: peak_rss_bytes(),
        batch_us: BatchTimes {
            p50: measured.batches.microseconds(0.5),
            p99: measured.batches.microseconds(0.99),
            p999: measured.batches.microseconds(0.999),
            max: measured.batches.microseconds(1.0),
        },
        work_per_batch: Work {
            mean: measured.work as f64 / plan.batches as f64,
            max: measured.work_max,
        },
        open_seconds,
        read_bytes: pages_read * 4096 + merges_read,
        written_bytes: written,
        log_written_bytes: after.log_written_bytes - before.log_written_bytes,
        log_syncs: after.log_syncs - before.log_syncs,
        checkpoints: after.checkpoints - before.checkpoints,
        write_amplification: ratio(written as f64, updated as f64),
        reads_per_lookup: ratio(pages_read as f64, looked_up as f64),
        disk_bytes: disk_bytes(folder),
        disk: measured.disk.means().map(|[mean_bytes, table_bytes, spare_bytes]| DiskReport {
            mean_bytes,
            most_bytes: measured.disk.most,
            table_bytes,
            spare_bytes,
            per_live_byte: mean_bytes as f64 / live_bytes(plan.entries) as f64,
        }),
        wrong: measured.wrong,
    }
}

fn show(plan: &Plan, report: &RunReport, measured: &Measured) -> print::Grid {
    let count = print::count;
    let times = &report.batch_us;
    let mut rows = vec![
        ("entries", count(plan.entries)),
        ("operations", count(plan.operations())),
        ("operations per second", count(report.ops_per_second as u64)),
        ("CPU per operation", format!("{:.2} µs", report.cpu_us_per_op)),
        ("peak memory", print::bytes(report.peak_rss_bytes)),
        (
            "batch time p50 / p99 / p99.9 / max",
            format!(
                "{:.0} / {:.0} / {:.0} / {:.0} µs",
                times.p50, times.p99, times.p999, times.max
            ),
        ),
        (
            "counted work a batch, mean / max",
            format!(
                "{} / {}",
                count(report.work_per_batch.mean as u64),
                count(report.work_per_batch.max)
            ),
        ),
        ("opening", print::seconds(report.open_seconds)),
        ("pages read per lookup", format!("{:.3}", report.reads_per_lookup)),
        ("read", print::bytes(report.read_bytes)),
        ("written", print::bytes(report.written_bytes)),
        ("bytes written per byte updated", format!("{:.2}", report.write_amplification)),
        ("on disk at the end", print::bytes(report.disk_bytes)),
        ("lookups", count(measured.lookups)),
    ];
    if let Some(disk) = &report.disk {
        rows.push((
            "on disk, mean / most",
            format!("{} / {}", print::bytes(disk.mean_bytes), print::bytes(disk.most_bytes)),
        ));
        rows.push((
            "on disk per byte of live keys and values",
            format!("{:.2}", disk.per_live_byte),
        ));
        rows.push(("of it kept to be written over", print::bytes(disk.spare_bytes)));
    }
    if report.log_written_bytes > 0 {
        rows.push(("written to the log", print::bytes(report.log_written_bytes)));
        rows.push(("syncs of the log", count(report.log_syncs)));
        rows.push(("checkpoints", count(report.checkpoints)));
    }
    if plan.mode == Mode::Pipelined {
        rows.push(("of these, answered by the batch on its way", count(measured.patched)));
    }
    if plan.check {
        rows.push(("answers compared with the model", count(measured.checked)));
    }
    rows.push(("wrong answers", count(report.wrong)));
    print::record(&rows)
}

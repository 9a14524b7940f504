//! `varvite demo`: a `UTxO` set of a million entries, used hard, checked against a model, summed up; then
//! a context of blocks, whose hash other engines computed too.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use varvite::context::{Options, Store};
use varvite::{Result, SessionStats, Table, TableOptions, TableStats};

use super::bench::context as bench_context;
use super::bench::utxo::{self as bench_utxo, RunReport};
use super::info::explore;
use super::table::stat::{Level, draw_levels, levels};
use crate::advice;
use crate::exit::{Outcome, Verdict};
use crate::flags::Tuning;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::folder::{self, temporary};
use crate::store::tables;
use crate::system::measure::cpu_ns;
use crate::workload::utxo::{Measured, Mode, Plan, run as run_plan};

/// Fill a store, use it, check every answer against a model, and show what it looks like
///
/// Needs no input. A million entries of 94 bytes; then half a million operations, each a lookup, a
/// delete and an insert; then everything is compared once more from end to end. Then the other face: 50
/// blocks on a context of 20,000 accounts, whose last hash two other engines computed too.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Keep the store in this folder, missing or empty [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// How many entries
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=1_000_000_000))]
    entries: u64,
    /// Show what came of it in a browser, until it is stopped, with traces of the blocks: as they ran on disk, and once more in
    /// memory
    #[arg(long)]
    explore: bool,
    /// With --explore: where to listen, an address of this machine alone
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878", requires = "explore")]
    listen: String,
}

/// What the demo did and found.
#[derive(Debug, Serialize)]
struct Report {
    entries: u64,
    operations: u64,
    fill_seconds: f64,
    fill_cpu_us_per_entry: f64,
    lookups_verified: u64,
    answers_compared_with_model: u64,
    entries_walked: u64,
    walked_per_second: f64,
    snapshot_seconds: f64,
    run: RunReport,
    levels: Vec<Level>,
    memory_bytes: MemoryBytes,
    context: bench_context::Report,
    context_checked: ContextChecked,
}

/// What was recomputed of the context's hashes.
#[derive(Debug, Serialize)]
struct ContextChecked {
    hash_is_known: bool,
    commits: u64,
    pieces: u64,
    values: u64,
}

/// Bytes in memory by what they are.
#[derive(Debug, Serialize)]
struct MemoryBytes {
    write_buffers: u64,
    filters: u64,
    indexes: u64,
}

/// Runs the demo and prints its summary.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let temporary = match arguments.store {
        Some(_) => None,
        None => Some(temporary()?),
    };
    let folder = arguments.store.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let folder = folder.expect("either kept or temporary");
    // An address that is refused is refused before the work.
    let pages = arguments.explore.then(|| explore::Pages::at(&arguments.listen)).transpose()?;
    let traces = if arguments.explore { traces(folder) } else { Vec::new() };
    let (report, stats, table_stats) = work(folder, arguments.entries, traces.first())?;
    let verdict = Verdict::found(report.run.wrong == 0 && report.context_checked.hash_is_known);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => show(&report, &stats, &table_stats, arguments.store.as_deref())?,
    }
    if let (Some(pages), Some(beside)) = (pages, traces.last()) {
        // So that there is something to lay beside the first.
        bench_context::small(None, Some(beside.clone()))?;
        let pages = pages.bind(folder, &traces, &explore::How::default())?;
        complain!("{}", explore::shown(&pages.url()));
        pages.serve()?;
    }
    Ok(verdict)
}

/// The recordings of the blocks that are shown.
fn traces(folder: &Path) -> Vec<PathBuf> {
    ["blocks.trace", "blocks-in-memory.trace"].map(|name| folder.join(name)).to_vec()
}

fn work(
    folder: &Path,
    entries: u64,
    trace: Option<&PathBuf>,
) -> Result<(Report, SessionStats, TableStats)> {
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    let session = tables::create(folder, Tuning::default().options(folder)?)?;
    let table = bench_utxo::fill(&session, TableOptions::utxo(), entries, "filling")?;
    let (fill_seconds, fill_cpu) = (start.elapsed().as_secs_f64(), cpu_ns() - cpu_before);
    let start = Instant::now();
    bench_utxo::save(&session, entries, &table)?;
    let snapshot_seconds = start.elapsed().as_secs_f64();
    drop(table);
    session.close()?;

    let start = Instant::now();
    let session = tables::open(folder, Tuning::default().options(folder)?)?;
    let (table, entries) = bench_utxo::open(&session)?;
    let open_seconds = start.elapsed().as_secs_f64();
    let plan = Plan {
        entries,
        batches: entries.div_ceil(512),
        batch_size: 256,
        mode: Mode::Serial,
        seed: 1337,
        check: true,
        warm_up: 0,
        settle: 0,
    };
    let mut bar = Progress::new("checking", plan.batches, Unit::Items);
    let (table, mut measured) = run_plan(&session, table, &plan, &mut bar)?;
    bar.finish();
    let start = Instant::now();
    let walked = walk_back(&table)?;
    let walk_seconds = start.elapsed().as_secs_f64();
    let table_stats = table.stats()?;
    let run = bench_utxo::report(&plan, &mut measured, folder, open_seconds);
    let stats = measured.stats.clone();
    drop(table);
    session.close()?;
    let (context, context_checked) = blocks(&folder.join("context"), trace.cloned())?;
    let report = Report {
        entries,
        operations: plan.operations(),
        fill_seconds,
        fill_cpu_us_per_entry: fill_cpu as f64 / 1e3 / entries as f64,
        lookups_verified: measured.lookups,
        answers_compared_with_model: measured.checked,
        entries_walked: walked,
        walked_per_second: walked as f64 / walk_seconds,
        snapshot_seconds,
        run: wrong_if_miscounted(run, &measured, walked, entries),
        levels: levels(&table_stats),
        memory_bytes: MemoryBytes {
            write_buffers: table_stats.buffer_bytes,
            filters: table_stats.filter_memory_bytes,
            indexes: table_stats.index_memory_bytes,
        },
        context,
        context_checked,
    };
    Ok((report, stats, table_stats))
}

/// Runs the blocks, and recomputes every hash of what they left.
fn blocks(
    folder: &Path,
    trace: Option<PathBuf>,
) -> Result<(bench_context::Report, ContextChecked)> {
    let report = bench_context::small(Some(folder), trace)?;
    let checked = Store::open_read_only(folder::disk(folder)?, Options::default())?.check()?;
    let hash_is_known = report.last_hash == bench_context::SMALL_HASH && report.missing == 0;
    let checked = ContextChecked {
        hash_is_known,
        commits: checked.commits,
        pieces: checked.nodes,
        values: checked.values,
    };
    Ok((report, checked))
}

/// The load deletes as many entries as it inserts: another count is a wrong answer more.
fn wrong_if_miscounted(
    mut run: RunReport,
    measured: &Measured,
    walked: u64,
    entries: u64,
) -> RunReport {
    run.wrong = measured.wrong + u64::from(walked != entries);
    run
}

/// Counts all entries from the last to the first.
fn walk_back(table: &Table) -> Result<u64> {
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded)?;
    cursor.seek_last();
    let mut count = 0;
    while cursor.previous()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn show(
    report: &Report,
    stats: &SessionStats,
    table_stats: &TableStats,
    kept: Option<&Path>,
) -> std::io::Result<()> {
    let count = print::count;
    print::line(&format!(
        "A UTxO set of {} entries, then {} operations (a lookup, a delete and an insert each)\n",
        count(report.entries),
        count(report.operations)
    ))?;
    print::line(&draw_levels(table_stats).to_string())?;
    let run = &report.run;
    let verdict = if run.wrong == 0 { "every one right ✓" } else { "SOME WRONG ✗" };
    let rows = [
        (
            "filling",
            format!(
                "{} ({:.2} CPU-µs an entry)",
                print::seconds(report.fill_seconds),
                report.fill_cpu_us_per_entry
            ),
        ),
        (
            "saving / opening the snapshot",
            format!(
                "{} / {}",
                print::seconds(report.snapshot_seconds),
                print::seconds(run.open_seconds)
            ),
        ),
        ("operations per second", count(run.ops_per_second as u64)),
        ("CPU per operation", format!("{:.2} µs", run.cpu_us_per_op)),
        ("pages read per lookup", format!("{:.3}", run.reads_per_lookup)),
        ("entries walked per second, backwards", count(report.walked_per_second as u64)),
        ("bytes written per byte updated", format!("{:.2}", run.write_amplification)),
        ("peak memory of the process", print::bytes(run.peak_rss_bytes)),
        ("  write buffers", print::bytes(report.memory_bytes.write_buffers)),
        ("  filters", print::bytes(report.memory_bytes.filters)),
        ("  indexes", print::bytes(report.memory_bytes.indexes)),
        (
            "on disk",
            format!(
                "{} for {} of keys and values",
                print::bytes(run.disk_bytes),
                print::bytes(report.entries * 94)
            ),
        ),
        (
            "merged so far",
            format!(
                "{} read, {} written",
                print::bytes(stats.merge_read_bytes),
                print::bytes(stats.written_bytes())
            ),
        ),
        ("lookups", count(report.lookups_verified)),
        (
            "answers compared with the model",
            format!("{}: {verdict}", count(report.answers_compared_with_model)),
        ),
    ];
    print::line(&print::record(&rows).to_string())?;
    show_blocks(report)?;
    match kept {
        Some(folder) => print::line(&format!(
            "The store is in {0}. Look around: varvite table stat {0} utxo, varvite context log {1}",
            advice::typed(folder),
            advice::typed(&folder.join("context"))
        )),
        None => print::line(
            "Keep the store with --store DIR; next: varvite replay cardano DIR, varvite replay blocks FILE, \
             varvite bench utxo",
        ),
    }
}

fn show_blocks(report: &Report) -> std::io::Result<()> {
    let (blocks, checked) = (&report.context, &report.context_checked);
    print::line(
        "\nA context: 50 blocks on 20,000 accounts, each 1,000 finds and 350 writes, and one commit\n",
    )?;
    let verdict =
        if checked.hash_is_known { "as two other engines have it ✓" } else { "WRONG ✗" };
    let rows = [
        ("last commit", blocks.last_hash.clone()),
        ("its hash", verdict.to_owned()),
        ("CPU per block", format!("{:.2} ms", blocks.cpu_ms_per_block)),
        ("block p50 / max", format!("{:.1} / {:.1} ms", blocks.block_ms.p50, blocks.block_ms.max)),
        ("syncs per commit", format!("{:.2}", blocks.syncs_per_commit)),
        ("opening", print::seconds(blocks.open_seconds)),
        ("finds per second of a reader", print::count(blocks.reader_finds_per_second as u64)),
        ("on disk", print::bytes(blocks.disk_bytes)),
        (
            "hashes recomputed from disk",
            format!(
                "{}: all equal ✓",
                print::count(checked.commits + checked.pieces + checked.values)
            ),
        ),
    ];
    print::line(&print::record(&rows).to_string())
}

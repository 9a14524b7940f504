//! `varvite trace info`, `summary` and `compare`: what traces say, as JSON, for people, and as a page.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use varvite::Result;
use varvite_sight::trace::summary::Row;
use varvite_sight::trace::{self, Change, Comparison};

use super::{End, open, told};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::system::files;

#[derive(Debug, Args)]
pub struct Info {
    /// The trace
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Summary {
    /// The trace
    file: PathBuf,
    /// Write a page too, a new file, which needs neither a network nor scripts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Compare {
    /// The traces, the first of which the others are compared with
    #[arg(num_args = 2..=8, required = true)]
    files: Vec<PathBuf>,
    /// Write a page too, a new file, which needs neither a network nor scripts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Contents {
    calls: u64,
    frames: u64,
    bytes: u64,
    cut_bytes: u64,
    is_ended: bool,
    seconds: f64,
    threads: u64,
    actions: BTreeMap<&'static str, u64>,
}

/// Reads the trace once and prints what it has.
pub fn info(arguments: &Info, format: Format) -> Outcome {
    let mut trace = open(&arguments.file)?;
    let mut actions = BTreeMap::new();
    let mut threads = std::collections::BTreeSet::new();
    let mut end_ns = 0;
    while let Some(call) = trace.next_call().map_err(|error| told(&arguments.file, error))? {
        *actions.entry(call.action.name()).or_default() += 1;
        threads.insert(call.thread);
        end_ns = end_ns.max(call.start_ns.saturating_add(call.duration_ns));
    }
    let end = trace.end();
    let how = End::of(&trace);
    how.warn(&arguments.file);
    let contents = Contents {
        calls: end.calls,
        frames: end.frames,
        bytes: end.bytes,
        cut_bytes: end.cut_bytes,
        is_ended: end.is_ended,
        seconds: end_ns as f64 / 1e9,
        threads: threads.len() as u64,
        actions,
    };
    if format == Format::Json {
        print::json(&contents)?;
        return Ok(Verdict::Yes);
    }
    let mut rows = vec![
        ("calls", print::count(contents.calls)),
        ("frames", print::count(contents.frames)),
        ("bytes", print::bytes(contents.bytes)),
        ("recorded", print::seconds(contents.seconds)),
        ("threads", print::count(contents.threads)),
    ];
    rows.extend(how.rows());
    rows.extend(contents.actions.iter().map(|(name, count)| (*name, print::count(*count))));
    print::line(&print::record(&rows).to_string())?;
    Ok(Verdict::Yes)
}

/// What a trace in `file` says, under the name of the file.
fn summed_up(file: &Path) -> Result<trace::Summary> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut trace = open(file)?;
    let summary = trace::summarise(&mut trace, &name).map_err(|error| told(file, error))?;
    End::of(&trace).warn(file);
    Ok(summary)
}

/// How the trace of a summary ended.
fn end_of(summary: &trace::Summary) -> End {
    End { cut_bytes: summary.cut_bytes, is_ended: Some(summary.is_ended) }
}

fn write_page(file: Option<&PathBuf>, page: impl FnOnce() -> String) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    files::write_new(file, page().as_bytes())
}

/// Sums the trace up.
pub fn summary(arguments: &Summary, format: Format) -> Outcome {
    let summary = summed_up(&arguments.file)?;
    write_page(arguments.html.as_ref(), || trace::summary_page(&summary))?;
    if format == Format::Json {
        print::json(&summary)?;
        return Ok(Verdict::Yes);
    }
    let blocks = &summary.block_latency;
    let mut rows = vec![
        ("calls", print::count(summary.calls)),
        ("calls that failed", print::count(summary.failed)),
        ("recorded", print::seconds(summary.seconds)),
        ("in calls", print::seconds(summary.busy_seconds)),
        ("calls a second", format!("{:.0}", summary.calls_per_second)),
        ("blocks", print::count(summary.blocks)),
        ("blocks a second", format!("{:.1}", summary.blocks_per_second)),
        (
            "block p50 / p99 / max",
            format!(
                "{:.2} / {:.2} / {:.2} ms",
                blocks.p50_us / 1e3,
                blocks.p99_us / 1e3,
                blocks.max_us / 1e3
            ),
        ),
    ];
    if let (Some(count), Some(rate)) = (summary.transactions, summary.transactions_per_second) {
        rows.push(("transactions", print::count(count)));
        rows.push(("transactions a second", format!("{rate:.1}")));
    }
    rows.extend(end_of(&summary).rows());
    print::line(&print::record(&rows).to_string())?;
    let titles = ["action", "prefix", ">calls", ">total ms", ">mean µs", ">p50", ">p99", ">max µs"];
    let mut table = print::table(&titles);
    for row in summary.actions.iter().chain(summary.prefixes.iter().take(20)) {
        table.add_row(cells(row));
    }
    print::line(&table.to_string())?;
    Ok(Verdict::Yes)
}

fn cells(row: &Row) -> Vec<String> {
    let latency = &row.latency;
    let mut cells = vec![row.action.to_owned(), row.prefix.clone(), print::count(row.calls)];
    cells.push(format!("{:.1}", row.total_ms));
    let figures = [latency.mean_us, latency.p50_us, latency.p99_us, latency.max_us];
    cells.extend(figures.map(|figure| format!("{figure:.1}")));
    cells
}

/// Lays the traces beside each other.
pub fn compare(arguments: &Compare, format: Format) -> Outcome {
    let runs = arguments.files.iter().map(|file| summed_up(file));
    let mut runs = runs.collect::<Result<Vec<_>>>()?;
    for (number, run) in runs.iter_mut().enumerate() {
        run.name = format!("{} {}", number + 1, run.name);
    }
    let comparison = trace::compare(runs);
    write_page(arguments.html.as_ref(), || trace::comparison_page(&comparison))?;
    if format == Format::Json {
        print::json(&comparison)?;
        return Ok(Verdict::Yes);
    }
    show(&comparison)?;
    Ok(Verdict::Yes)
}

fn show(comparison: &Comparison) -> std::io::Result<()> {
    let titles = [
        "run",
        ">calls",
        ">seconds",
        ">in calls s",
        ">blocks/s",
        ">tx/s",
        ">block p50 ms",
        ">p99 ms",
        ">cut off",
        "ended",
    ];
    let mut table = print::table(&titles);
    for run in &comparison.runs {
        let [(_, cut_off), (_, ended)] = end_of(run).rows();
        table.add_row(vec![
            run.name.clone(),
            print::count(run.calls),
            format!("{:.2}", run.seconds),
            format!("{:.2}", run.busy_seconds),
            format!("{:.1}", run.blocks_per_second),
            run.transactions_per_second.map_or("–".to_owned(), |it| format!("{it:.1}")),
            format!("{:.2}", run.block_latency.p50_us / 1e3),
            format!("{:.2}", run.block_latency.p99_us / 1e3),
            cut_off,
            ended,
        ]);
    }
    print::line(&table.to_string())?;
    let mut table = print::table(&["", "run", "of", "figure", ">first", ">this", ">ratio"]);
    let row = |what: &str, change: &Change| {
        let figures = [change.first, change.this].map(|figure| format!("{figure:.1}"));
        let mut row = vec![what.to_owned(), change.run.clone(), change.of.clone()];
        row.push(change.figure.to_owned());
        row.extend(figures);
        row.push(format!("{:.2}", change.ratio));
        row
    };
    let lists = [("worse", &comparison.worse, 20), ("better", &comparison.better, 10)];
    for (what, changes, most) in lists {
        changes.iter().take(most).for_each(|change| table.add_row(row(what, change)));
    }
    print::line(&table.to_string())?;
    for (what, changes, most) in lists {
        if changes.len() > most {
            let more = changes.len() - most;
            print::line(&format!("and {more} more that are {what}, with --format json"))?;
        }
    }
    if comparison.only.is_empty() {
        return Ok(());
    }
    let mut table = print::table(&["run", "action", "called by", ">calls", ">total ms"]);
    for it in &comparison.only {
        let by = if it.is_first { "the first only" } else { "this one only" };
        let figures = [it.calls.to_string(), format!("{:.1}", it.total_ms)];
        let cells = [it.run.clone(), it.action.to_owned(), by.to_owned()];
        table.add_row(cells.into_iter().chain(figures).collect::<Vec<_>>());
    }
    print::line(&table.to_string())
}

//! `varvite trace convert`: Irmin's traces of actions as varvite's, and the other way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use varvite::Error;
use varvite::context::{Options, Store};
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::irmin_pack::trace as rows;
use varvite_sight::trace::Replay;
use varvite_sight::trace::irmin::{FromRows, ToRows};

use super::{End, Rows, in_row, is_pipe, open_any, rows_of, rows_of_pipe, told};
use crate::exit::{Outcome, Verdict};
use crate::input;
use crate::print::{self, Format};
use crate::sight::{Tracing, monotonic_ns, place};
use crate::system::files::{NewFile, Work};

/// Turn a trace of Irmin's benchmarks into one of varvite, or one of varvite into Irmin's
///
/// A trace of Irmin does not say what was found, so its calls are run on a context in memory, which is recorded.
/// Irmin's rows know only values by path, copies and commits: other calls are left out, as merges are, with what is done on the trees and
/// commits that came of them. It is said how many they are, and which.
#[derive(Debug, Args)]
pub struct Convert {
    /// The trace
    file: PathBuf,
    /// The file to write, which may not be there yet
    out: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    calls: u64,
    rows: u64,
    left_out: u64,
    /// Of these, calls on trees and commits that came of others of them.
    left_out_following: u64,
    left_out_by_action: BTreeMap<&'static str, u64>,
    mismatches: u64,
    first_mismatch: Option<String>,
    cut_bytes: u64,
    /// Whether the recording came to its end, if the trace says that.
    is_ended: Option<bool>,
}

/// Writes the other trace and prints what it has.
pub fn run(arguments: &Convert, format: Format) -> Outcome {
    let start = input::start(&arguments.file)?;
    let report = if is_pipe(&arguments.file) {
        from_irmin(arguments, rows_of_pipe).map_err(|error| told(&arguments.file, error))?
    } else if rows::is_trace(&start) {
        from_irmin(arguments, rows_of).map_err(|error| told(&arguments.file, error))?
    } else {
        to_irmin(arguments)?
    };
    let verdict = Verdict::found(report.mismatches == 0);
    if format == Format::Json {
        print::json(&report)?;
    } else {
        let first = report.first_mismatch.clone().unwrap_or_else(|| "none".to_owned());
        let table = print::record(&[
            ("calls", print::count(report.calls)),
            ("rows", print::count(report.rows)),
            ("left out", left_out(&report)),
            ("mismatches", print::count(report.mismatches)),
            ("first mismatch", first),
        ]);
        print::line(&table.to_string())?;
    }
    Ok(verdict)
}

/// How much was left out, and what.
fn left_out(report: &Report) -> String {
    let mut text = print::count(report.left_out);
    let actions = report.left_out_by_action.iter();
    let actions: Vec<_> =
        actions.map(|(name, calls)| format!("{} {name}", print::count(*calls))).collect();
    if !actions.is_empty() {
        text = format!("{text}: {}", actions.join(", "));
    }
    if report.left_out_following > 0 {
        let following = print::count(report.left_out_following);
        text = format!("{text}; {following} of them are on what came of the others");
    }
    text
}

fn from_irmin(
    arguments: &Convert,
    open: fn(&Path) -> varvite::Result<Rows>,
) -> varvite::Result<Report> {
    let rows = open(&arguments.file)?;
    let (folder, _) = place(&arguments.out)?;
    OsDisk::new(folder)?;
    // The trace of a part would keep the same command from running again.
    let work = Work::beside(&arguments.out)?;
    // Nobody knows the name that it has until it is whole.
    let named = |error: Error| error.with_file(&arguments.out.display().to_string());
    let tracing = Tracing::to(Some(&work.place()), None).map_err(named)?;
    let report = replayed(&tracing, &arguments.file, rows)?;
    tracing.finish().map_err(named)?;
    work.finish()?;
    Ok(report)
}

fn replayed(tracing: &Tracing, file: &Path, mut rows: Rows) -> varvite::Result<Report> {
    let options = Options { recorder: tracing.recorder(), ..Options::default() };
    let store = Store::create(MemoryDisk::seeded(1), options)?;
    let mut replay = Replay::new(Some(store), None, varvite::TableOptions::default(), monotonic_ns);
    let (mut from, mut count) = (FromRows::default(), 0);
    for row in rows.by_ref() {
        count += 1;
        let calls = from.calls(&row?).map_err(|error| in_row(file, count, &error))?;
        for call in calls {
            replay.call_of_rows(&call)?;
        }
    }
    let end = End::of_rows(&rows);
    end.warn(file);
    let found = replay.outcome();
    drop(replay.end());
    Ok(Report {
        calls: found.calls,
        rows: count,
        left_out: found.skipped,
        left_out_following: 0,
        left_out_by_action: BTreeMap::new(),
        mismatches: found.mismatches,
        first_mismatch: found.first_mismatch,
        cut_bytes: end.cut_bytes,
        is_ended: end.is_ended,
    })
}

fn to_irmin(arguments: &Convert) -> varvite::Result<Report> {
    let mut trace = open_any(&arguments.file)?;
    let mut out = NewFile::create(&arguments.out)?;
    out.write(&rows::begin())?;
    let (mut to, mut count, mut bytes) = (ToRows::default(), 0, Vec::new());
    while let Some(call) = trace.next_call().map_err(|error| told(&arguments.file, error))? {
        bytes.clear();
        to.check(ToRows::KEPT_MAX)?;
        for row in to.rows(&call) {
            rows::append(&row, &mut bytes);
            count += 1;
        }
        out.write(&bytes)?;
    }
    bytes.clear();
    for row in to.end() {
        rows::append(&row, &mut bytes);
        count += 1;
    }
    out.write(&bytes)?;
    out.finish()?;
    let end = End::of(&trace);
    end.warn(&arguments.file);
    Ok(Report {
        calls: trace.end().calls,
        rows: count,
        left_out: to.left_out.calls(),
        left_out_following: to.left_out.following,
        left_out_by_action: to.left_out.by_action,
        mismatches: 0,
        first_mismatch: None,
        cut_bytes: end.cut_bytes,
        is_ended: end.is_ended,
    })
}

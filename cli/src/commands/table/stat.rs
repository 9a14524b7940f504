//! `varvite table stat`: what a table consists of.

use std::ops::Bound;

use clap::Args;
use serde::Serialize;
use varvite::table::MergeStats;
use varvite::{Compression, Result, Table, TableStats};

use super::from::From;
use super::reader::count_keys;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::system::measure::disk_bytes;

/// Characters of the longest bar.
const BAR: usize = 16;

/// Show levels, sizes, merges and memory of a table
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    from: From,
    /// Count the keys exactly by reading the whole table
    #[arg(long)]
    exact: bool,
}

#[derive(Serialize)]
struct Report {
    table: String,
    entries_exact: Option<u64>,
    entries_estimate: u64,
    entries_min: u64,
    entries_max: u64,
    physical_entries: u64,
    disk_bytes: u64,
    unpacked_disk_bytes: u64,
    compression: &'static str,
    blob_files: u64,
    blob_disk_bytes: u64,
    blob_bytes: u64,
    debt_bytes: u64,
    union_debt_bytes: u64,
    buffer_bytes: u64,
    filter_bytes: u64,
    index_bytes: u64,
    log_bytes: u64,
    levels: Vec<Level>,
    merges: Vec<Merge>,
}

/// A level of a table, from 1 on.
#[derive(Debug, Serialize)]
pub struct Level {
    number: usize,
    last: bool,
    runs: u64,
    segments: u64,
    entries: u64,
    disk_bytes: u64,
    filter_bytes: u64,
}

#[derive(Serialize)]
struct Merge {
    level: Option<u64>,
    union: bool,
    spent_bytes: u64,
    debt_bytes: u64,
}

/// Prints the statistics.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let (_session, table) = arguments.from.open()?;
    let stats = table.stats()?;
    let log_bytes = disk_bytes(&arguments.from.store.join("log"));
    let exact = if arguments.exact { Some(count(&table, stats.physical_entries)?) } else { None };
    match format {
        Format::Json => print::json(&report(&table, &stats, exact, log_bytes))?,
        Format::Table => show(&table, &stats, exact, log_bytes)?,
    }
    Ok(Verdict::Yes)
}

fn count(table: &Table, physical: u64) -> Result<u64> {
    let mut bar = Progress::new("counting", physical, Unit::Items);
    let all = Bound::Unbounded;
    let count = count_keys(table, &all, &all, |count| bar.set(count))?;
    bar.finish();
    Ok(count)
}

/// The levels of a table, youngest first.
pub fn levels(stats: &TableStats) -> Vec<Level> {
    let rows = stats.levels.iter().enumerate().map(|(index, level)| Level {
        number: index + 1,
        last: level.is_last,
        runs: level.runs,
        segments: level.segments,
        entries: level.entries,
        disk_bytes: level.disk_bytes,
        filter_bytes: level.filter_bytes,
    });
    rows.collect()
}

/// How the table's pages are stored, as `--compression` has it.
fn compression(table: &Table) -> &'static str {
    match table.options().compression {
        Compression::None => "none",
        Compression::Fast => "lz4",
    }
}

fn report(table: &Table, stats: &TableStats, exact: Option<u64>, log_bytes: u64) -> Report {
    let merges = stats.merges.iter().map(|merge| Merge {
        level: merge.level,
        union: merge.is_union,
        spent_bytes: merge.spent_bytes,
        debt_bytes: merge.debt_bytes,
    });
    Report {
        table: stats.name.clone(),
        entries_exact: exact,
        entries_estimate: stats.logical_entries,
        entries_min: stats.logical_entries_min,
        entries_max: stats.logical_entries_max,
        physical_entries: stats.physical_entries,
        disk_bytes: stats.disk_bytes,
        unpacked_disk_bytes: stats.unpacked_disk_bytes,
        compression: compression(table),
        blob_files: stats.blob_files,
        blob_disk_bytes: stats.blob_disk_bytes,
        blob_bytes: stats.blob_bytes,
        debt_bytes: stats.debt_bytes,
        union_debt_bytes: stats.union_debt_bytes,
        buffer_bytes: stats.buffer_bytes,
        filter_bytes: stats.filter_memory_bytes,
        index_bytes: stats.index_memory_bytes,
        log_bytes,
        levels: levels(stats),
        merges: merges.collect(),
    }
}

fn show(
    table: &Table,
    stats: &TableStats,
    exact: Option<u64>,
    log_bytes: u64,
) -> std::io::Result<()> {
    let number = print::count;
    if !stats.levels.is_empty() {
        print::line(&draw_levels(stats).to_string())?;
    }
    // Deletes may have hit keys that were not there, so nothing between the bounds is likelier.
    let (least, most) = (stats.logical_entries_min, stats.logical_entries_max);
    let estimate = if least == most {
        number(most)
    } else {
        format!("{} to {}; --exact counts them", number(least), number(most))
    };
    let blobs = format!(
        "{} of values in {} file{}, {} on disk",
        print::bytes(stats.blob_bytes),
        number(stats.blob_files),
        if stats.blob_files == 1 { "" } else { "s" },
        print::bytes(stats.blob_disk_bytes)
    );
    let packed = match table.options().compression {
        Compression::None => String::new(),
        Compression::Fast => format!("; {} without it", print::bytes(stats.unpacked_disk_bytes)),
    };
    let rows = [
        ("table", stats.name.clone()),
        ("keys", exact.map_or(estimate, |exact| format!("{} exactly", number(exact)))),
        ("entries of every kind", number(stats.physical_entries)),
        ("on disk", print::bytes(stats.disk_bytes)),
        ("compression", format!("{}{packed}", compression(table))),
        ("in blob files", blobs),
        ("merges under way", stats.merges.len().to_string()),
        ("left to merge", print::bytes(stats.debt_bytes)),
        ("of it in the union", print::bytes(stats.union_debt_bytes)),
        ("write buffers", print::bytes(stats.buffer_bytes)),
        ("filters in memory", print::bytes(stats.filter_memory_bytes)),
        ("indexes in memory", print::bytes(stats.index_memory_bytes)),
        ("log of the session", print::bytes(log_bytes)),
    ];
    print::line(&print::record(&rows).to_string())
}

/// A row a level, its entries as a bar.
pub fn draw_levels(stats: &TableStats) -> print::Grid {
    let mut table =
        print::table(&["level", ">runs", ">segments", ">entries", ">on disk", ">filter", ""]);
    let largest = stats.levels.iter().map(|level| level.entries).max().unwrap_or(0);
    for (index, level) in stats.levels.iter().enumerate() {
        let number = index as u64;
        let is_its = |merge: &&MergeStats| {
            if merge.is_union { level.is_last } else { merge.level == Some(number) }
        };
        let merge = stats.merges.iter().find(is_its);
        let merging = merge.map_or(String::new(), |merge| {
            let share = merge.spent_bytes as f64 / merge.debt_bytes.max(1) as f64;
            format!(" merging {:.0} %", share.min(1.0) * 100.0)
        });
        let name = if level.is_last { "last".to_owned() } else { format!("{}", index + 1) };
        let (name, bar) = if print::is_seen() {
            (name, print::bar(level.entries as f64, largest as f64, BAR))
        } else {
            // Other records follow these.
            (format!("level {name}"), String::new())
        };
        let bits = level.filter_bytes as f64 * 8.0 / level.entries.max(1) as f64;
        table.add_row(vec![
            name,
            level.runs.to_string(),
            level.segments.to_string(),
            print::count(level.entries),
            print::bytes(level.disk_bytes),
            if level.filter_bytes == 0 { "none".to_owned() } else { format!("{bits:.1} bits") },
            format!("{bar}{merging}").trim_start().to_owned(),
        ]);
    }
    table
}

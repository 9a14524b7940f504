//! `varvite bench load`: how fast a table is made from a stream.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use varvite::{Result, Session, SnapshotContent, Table, TableOptions};

use crate::exit::{Outcome, Verdict};
use crate::flags::{Sorting, Tuning};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::tables;
use crate::system::measure::{cpu_ns, disk_bytes, peak_rss_bytes};
use crate::workload::utxo::{Key, NUMBERS_MAX, VALUE, key};

/// Entries between two looks at the clock.
const STEP: u64 = 1 << 16;
/// Keys that are looked up when the clock has stopped, and as many that are not there.
const SAMPLES: u64 = 1_000;

/// Load keys of 34 bytes and values of 60 into a new store and save it
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many entries
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..NUMBERS_MAX / 2))]
    entries: u64,
    /// Folder for the store; missing or empty
    #[arg(long)]
    dir: PathBuf,
    #[command(flatten)]
    sorting: Sorting,
}

#[derive(Debug, Serialize)]
struct Report {
    entries: u64,
    seconds: f64,
    cpu_seconds: f64,
    peak_rss_bytes: u64,
    written_bytes: u64,
    disk_bytes: u64,
    wrong: u64,
}

/// The key of place `number` among `entries`: its first eight bytes ascend in even steps with a
/// draw within each, so that keys look as if they had been drawn and sorted.
fn sorted_key(number: u64, entries: u64) -> Key {
    let mut key = key(number);
    let step = u64::MAX / entries;
    let drawn = u64::from_le_bytes(*key.first_chunk().expect("a key is longer")) % step;
    key[..8].copy_from_slice(&(number * step + drawn).to_be_bytes());
    key
}

impl Arguments {
    fn key(&self, number: u64) -> Key {
        if self.sorting.sort { key(number) } else { sorted_key(number, self.entries) }
    }
}

/// Runs the benchmark.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let options = Tuning::default().options(&arguments.dir)?;
    let session = tables::create(&arguments.dir, options)?;
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    let table = load(&session, arguments)?;
    let content = SnapshotContent { label: "varvite bench load", payload: b"", tables: &[&table] };
    session.save_snapshot("load", content)?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_ns() - cpu_before);
    let peak_rss_bytes = peak_rss_bytes();
    let wrong = wrong(&table, arguments)?;
    let written_bytes = session.stats().written_bytes();
    drop(table);
    session.close()?; // removes what sorting leaves to be written over
    let report = Report {
        entries: arguments.entries,
        seconds,
        cpu_seconds: cpu as f64 / 1e9,
        peak_rss_bytes,
        written_bytes,
        disk_bytes: disk_bytes(&arguments.dir),
        wrong,
    };
    let verdict = Verdict::found(report.wrong == 0);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => print::line(
            &print::record(&[
                ("entries", print::count(report.entries)),
                ("time", print::seconds(report.seconds)),
                ("CPU", print::seconds(report.cpu_seconds)),
                ("peak memory", print::bytes(report.peak_rss_bytes)),
                ("written", print::bytes(report.written_bytes)),
                ("on disk", print::bytes(report.disk_bytes)),
                ("wrong answers in a sample", print::count(report.wrong)),
            ])
            .to_string(),
        )?,
    }
    Ok(verdict)
}

fn load(session: &Session, arguments: &Arguments) -> Result<Table> {
    let entries = arguments.entries;
    let mut loader = session.load_table("load", TableOptions::utxo(), arguments.sorting.order())?;
    let mut bar = Progress::new("loading", entries, Unit::Items);
    for first in (0..entries).step_by(STEP as usize) {
        let end = entries.min(first + STEP);
        for number in first..end {
            loader.push(&arguments.key(number), &VALUE)?;
        }
        bar.set(end);
    }
    bar.finish();
    loader.finish()
}

/// How many answers of a sample are wrong: keys that were loaded and keys that were not.
fn wrong(table: &Table, arguments: &Arguments) -> Result<u64> {
    let entries = arguments.entries;
    let samples = SAMPLES.min(entries);
    let there: Vec<_> = (0..samples).map(|i| arguments.key(i * entries / samples)).collect();
    let absent: Vec<_> = (0..samples).map(|i| key(NUMBERS_MAX + i)).collect();
    let values = table.lookup(&there)?;
    let missed = values.iter().filter(|value| *value != Some(&VALUE[..])).count();
    let made_up = table.lookup(&absent)?.iter().flatten().count();
    let lost = table.stats()?.physical_entries != entries;
    Ok(missed as u64 + made_up as u64 + u64::from(lost))
}

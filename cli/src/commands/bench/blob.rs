//! `varvite bench blob`: large values, replaced again and again, beside the runs or in them.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use varvite::{Batch, Result, Table, TableOptions, Values};

use crate::exit::{Outcome, Verdict};
use crate::flags::Tuning;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::tables;
use crate::system::measure::{cpu_ns, disk_bytes, peak_rss_bytes};
use crate::workload::utxo::key;

/// Keys of a batch.
const BATCH: u64 = 64;
/// Batches between two looks at the size of the folder.
const LOOK: u64 = 16;
/// Shorter values have no room for what tells them apart.
const VALUE_BYTES_MIN: i64 = 32;

/// Fill a table with large values, replace all of them several times, and look each up before
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many keys
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 16_384,
          value_parser = clap::value_parser!(u32).range(VALUE_BYTES_MIN..=1 << 20))]
    value_bytes: u32,
    /// How often all of them are replaced
    #[arg(long, default_value_t = 3)]
    rounds: u64,
    /// Values of at least so many bytes go to blob files; 65537 keeps shorter ones in the runs
    #[arg(long, value_name = "BYTES", default_value_t = 4_096)]
    blob_min: u32,
    /// Folder for the store; missing or empty
    #[arg(long)]
    dir: PathBuf,
}

#[derive(Debug, Serialize)]
struct Report {
    replaced: u64,
    seconds: f64,
    cpu_us_per_op: f64,
    peak_rss_bytes: u64,
    value_bytes: u64,
    written_bytes: u64,
    blob_written_bytes: u64,
    merge_read_bytes: u64,
    blobs_read: u64,
    peak_disk_bytes: u64,
    live_bytes: u64,
    wrong: u64,
}

/// Runs the benchmark.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let session = tables::create(&arguments.dir, Tuning::default().options(&arguments.dir)?)?;
    let options = TableOptions { blob_min_bytes: Some(arguments.blob_min), ..TableOptions::utxo() };
    let mut bench = Bench {
        arguments,
        table: session.create_table("blob", options)?,
        value: vec![0x5a; arguments.value_bytes as usize],
        peak_disk_bytes: 0,
        wrong: 0,
    };
    bench.round(0)?;
    let before = session.stats();
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    for round in 1..=arguments.rounds {
        bench.round(round)?;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_ns() - cpu_before);
    let stats = session.stats();
    let replaced = arguments.entries * arguments.rounds;
    let report = Report {
        replaced,
        seconds,
        cpu_us_per_op: cpu as f64 / 1e3 / replaced.max(1) as f64,
        peak_rss_bytes: peak_rss_bytes(),
        value_bytes: replaced * u64::from(arguments.value_bytes),
        written_bytes: stats.written_bytes() - before.written_bytes(),
        blob_written_bytes: stats.blob_written_bytes - before.blob_written_bytes,
        merge_read_bytes: stats.merge_read_bytes - before.merge_read_bytes,
        blobs_read: stats.blobs_read - before.blobs_read,
        peak_disk_bytes: bench.peak_disk_bytes,
        live_bytes: arguments.entries * (34 + u64::from(arguments.value_bytes)),
        wrong: bench.wrong,
    };
    drop(bench);
    session.close()?;
    let verdict = Verdict::found(report.wrong == 0);
    show(&report, format)?;
    Ok(verdict)
}

struct Bench<'a> {
    arguments: &'a Arguments,
    table: Table,
    value: Vec<u8>,
    peak_disk_bytes: u64,
    wrong: u64,
}

impl Bench<'_> {
    /// Replaces every value, in an order of the round's own; what is there must be the round before's.
    fn round(&mut self, round: u64) -> Result<()> {
        let Arguments { entries, dir, .. } = self.arguments;
        let mut bar = Progress::new("replacing", *entries, Unit::Items);
        let (mut batch, mut keys, mut values) = (Batch::new(), Vec::new(), Values::new());
        for (start, count) in (0..*entries).step_by(BATCH as usize).zip(1..) {
            // A stride that shares no factor with the count visits every key once.
            let numbers = (start..(start + BATCH).min(*entries)).map(|it| self.place(it, round));
            let numbers: Vec<_> = numbers.collect();
            keys.clear();
            keys.extend(numbers.iter().map(|number| key(*number)));
            if round > 0 {
                self.table.view().lookup_into(&keys, &mut values)?;
                for (number, found) in numbers.iter().zip(values.iter()) {
                    self.mark(*number, round - 1);
                    self.wrong += u64::from(found != Some(&self.value[..]));
                }
            }
            batch.clear();
            for (number, key) in numbers.iter().zip(&keys) {
                self.mark(*number, round);
                batch.insert(key, &self.value);
            }
            self.table.update(&batch)?;
            bar.set(start);
            let is_last = start + BATCH >= *entries;
            if (count % LOOK == 0 || is_last) && round > 0 {
                self.peak_disk_bytes = self.peak_disk_bytes.max(disk_bytes(dir));
            }
        }
        bar.finish();
        Ok(())
    }

    fn place(&self, at: u64, round: u64) -> u64 {
        let entries = self.arguments.entries;
        let strides = [7_919, 104_729, 1_299_709, 15_485_863];
        let stride = strides.into_iter().cycle().skip(round as usize % 4);
        let stride = stride.take(4).find(|stride| !entries.is_multiple_of(*stride)).unwrap_or(1);
        (u128::from(at) * u128::from(stride) % u128::from(entries)) as u64
    }

    /// Makes the value that of a key in a round.
    fn mark(&mut self, number: u64, round: u64) {
        self.value[..8].copy_from_slice(&number.to_le_bytes());
        self.value[8..16].copy_from_slice(&round.to_le_bytes());
        let end = self.value.len() - 16;
        self.value.copy_within(..16, end);
    }
}

fn show(report: &Report, format: Format) -> std::io::Result<()> {
    if format == Format::Json {
        return print::json(report);
    }
    let share = |bytes: u64, of: u64| format!("{:.2}", bytes as f64 / of.max(1) as f64);
    print::line(
        &print::record(&[
            ("values replaced", print::count(report.replaced)),
            ("time", print::seconds(report.seconds)),
            ("CPU per value", format!("{:.2} µs", report.cpu_us_per_op)),
            ("bytes of values", print::bytes(report.value_bytes)),
            ("written, all", print::bytes(report.written_bytes)),
            ("  of it to blob files", print::bytes(report.blob_written_bytes)),
            ("written per byte of values", share(report.written_bytes, report.value_bytes)),
            ("read by merges", print::bytes(report.merge_read_bytes)),
            ("values read from blob files", print::count(report.blobs_read)),
            ("most on disk", print::bytes(report.peak_disk_bytes)),
            ("most on disk per live byte", share(report.peak_disk_bytes, report.live_bytes)),
            ("peak memory", print::bytes(report.peak_rss_bytes)),
            ("wrong answers", print::count(report.wrong)),
        ])
        .to_string(),
    )
}

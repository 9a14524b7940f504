//! `varvite bench range`: seeks, prefixes and scans over outputs of transactions.
//!
//! A key is the 32 bytes of a transaction, which look random, and the number of an output in two; a value
//! has 60 bytes. Every answer is compared with what must come.

use std::ops::Bound;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use varvite::{
    Batch, Cursor, Error, Range, Result, Session, SnapshotContent, Table, TableOptions, Verify,
    View,
};

use crate::exit::{Outcome, Verdict};
use crate::flags::Tuning;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::tables;
use crate::system::measure::{cpu_ns, disk_bytes, peak_rss_bytes};
use crate::workload::utxo::{KEY_BYTES, Key, NUMBERS_MAX, VALUE, VALUE_BYTES, key};

/// The snapshot that setup makes, and the table in it.
const NAME: &str = "range";
/// What it is labelled with.
const LABEL: &str = "varvite bench range";
/// Entries a batch of the setup.
const SETUP_BATCH: u64 = 256;
/// Bytes of a key that name the transaction.
const TRANSACTION_BYTES: usize = KEY_BYTES - 2;

/// Ranges: seeks, prefixes of transactions, whole scans both ways; keys of 34 bytes, values of 60
#[derive(Debug, Subcommand)]
pub enum Command {
    Setup(Setup),
    Run(Run),
}

/// Insert the outputs of transactions into a new store and save it
#[derive(Debug, Args)]
pub struct Setup {
    /// How many entries
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..NUMBERS_MAX / 2))]
    entries: u64,
    /// Outputs of a transaction
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    outputs: u64,
    /// Folder for the store; missing or empty
    #[arg(long)]
    dir: PathBuf,
}

/// Read ranges of what setup made
#[derive(Debug, Args)]
pub struct Run {
    /// Folder of the store
    #[arg(long)]
    dir: PathBuf,
    /// Of each kind of short range, how many
    #[arg(long, default_value_t = 100_000)]
    seeks: u64,
    /// Entries that are read after a seek
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    length: u64,
    /// What reads them
    #[arg(long, value_enum, default_value_t)]
    form: Form,
    /// Only short ranges
    #[arg(long)]
    no_scan: bool,
    /// Where the draw of keys begins
    #[arg(long, default_value_t = 1337)]
    seed: u64,
    #[command(flatten)]
    tuning: Tuning,
}

/// What reads ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Form {
    /// Iterators, which give keys and values of their own
    #[default]
    Iterator,
    /// Iterators of keys alone
    Keys,
    /// A cursor, which lends its memory
    Cursor,
}

/// What a setup leaves in its snapshot's payload.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Payload {
    entries: u64,
    outputs: u64,
}

/// The figures of one kind of range, by the names that programs rely on.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Figures {
    ranges: u64,
    entries: u64,
    seconds: f64,
    cpu_us_per_range: f64,
    cpu_ns_per_entry: f64,
}

/// What a run says.
#[derive(Debug, Serialize)]
struct Report {
    entries: u64,
    form: Form,
    open_seconds: f64,
    /// A seek and the entry there.
    seek: Figures,
    /// A seek and the entries from there on.
    seek_and_read: Figures,
    /// The outputs of a transaction.
    prefix: Figures,
    /// Everything, from the first key to the last.
    forward: Figures,
    /// Everything, from the last key to the first.
    backward: Figures,
    peak_rss_bytes: u64,
    /// Ranges in which something was missing, out of order or too much.
    wrong: u64,
}

/// Runs setup or run.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Setup(arguments) => setup(&arguments, format),
        Command::Run(arguments) => run_ranges(&arguments, format),
    }
}

impl Payload {
    fn key(self, number: u64) -> Key {
        let mut key = key(number / self.outputs);
        key[TRANSACTION_BYTES..].copy_from_slice(&((number % self.outputs) as u16).to_be_bytes());
        key
    }

    /// How many outputs the transaction of `number` has.
    fn outputs_of(self, number: u64) -> u64 {
        let first = number / self.outputs * self.outputs;
        self.outputs.min(self.entries - first)
    }
}

fn setup(arguments: &Setup, format: Format) -> Outcome {
    let (start, cpu_before) = (Instant::now(), cpu_ns());
    let options = Tuning::default().options(&arguments.dir)?;
    let session = tables::create_or_take(&arguments.dir, options)?;
    let plan = Payload { entries: arguments.entries, outputs: arguments.outputs };
    let table = fill(&session, plan)?;
    let payload = serde_json::to_vec(&plan).expect("the payload is plain data");
    let content = SnapshotContent { label: LABEL, payload: &payload, tables: &[&table] };
    session.save_snapshot(NAME, content)?;
    drop(table);
    session.close()?;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_ns() - cpu_before);
    let disk = disk_bytes(&arguments.dir);
    match format {
        Format::Json => print::json(&serde_json::json!({
            "entries": plan.entries,
            "seconds": seconds,
            "cpu_us_per_entry": cpu as f64 / 1e3 / plan.entries as f64,
            "disk_bytes": disk,
        }))?,
        Format::Table => print::line(
            &print::record(&[
                ("entries", print::count(plan.entries)),
                ("time", print::seconds(seconds)),
                ("on disk", print::bytes(disk)),
            ])
            .to_string(),
        )?,
    }
    Ok(Verdict::Yes)
}

fn fill(session: &Session, plan: Payload) -> Result<Table> {
    let mut table = session.create_table(NAME, TableOptions::utxo())?;
    let mut batch = Batch::new();
    let mut bar = Progress::new("inserting", plan.entries, Unit::Items);
    for first in (0..plan.entries).step_by(SETUP_BATCH as usize) {
        batch.clear();
        let end = plan.entries.min(first + SETUP_BATCH);
        for number in first..end {
            batch.insert(&plan.key(number), &VALUE);
        }
        table.update(&batch)?;
        bar.set(end);
    }
    bar.finish();
    Ok(table)
}

fn run_ranges(arguments: &Run, format: Format) -> Outcome {
    let options = arguments.tuning.options(&arguments.dir)?;
    let start = Instant::now();
    let session = tables::open(&arguments.dir, options)?;
    let mut options = tables::options(Verify::Quick);
    options.label = Some(LABEL.to_owned());
    let mut snapshot = session.open_snapshot(NAME, &options)?;
    let plan: Payload = serde_json::from_slice(&snapshot.payload).map_err(|error| {
        Error::invalid(format!("the snapshot's payload is not this benchmark's ({error})"))
    })?;
    let table = snapshot.take(NAME)?;
    let open_seconds = start.elapsed().as_secs_f64();
    let mut load = Load { view: table.view(), plan, form: arguments.form, wrong: 0 };
    // Indexes are read at their first use, and a cache fills: outside of the figures.
    load.seeks(arguments.seed.wrapping_add(1), (arguments.seeks / 10).max(100), arguments.length)?;
    let seek = load.seeks(arguments.seed, arguments.seeks, 1)?;
    let seek_and_read = load.seeks(arguments.seed, arguments.seeks, arguments.length)?;
    let prefix = load.prefixes(arguments.seed, arguments.seeks)?;
    let (mut forward, mut backward) = (Figures::default(), Figures::default());
    if !arguments.no_scan {
        forward = load.scan(false)?;
        backward = load.scan(true)?;
    }
    let report = Report {
        entries: plan.entries,
        form: arguments.form,
        open_seconds,
        seek,
        seek_and_read,
        prefix,
        forward,
        backward,
        peak_rss_bytes: peak_rss_bytes(),
        wrong: load.wrong,
    };
    let verdict = Verdict::found(report.wrong == 0);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => print::line(&show(&report).to_string())?,
    }
    drop((load, table));
    session.close()?;
    Ok(verdict)
}

fn show(report: &Report) -> print::Grid {
    let short = |it: &Figures| format!("{:.2} µs", it.cpu_us_per_range);
    let long = |it: &Figures| format!("{:.1} ns", it.cpu_ns_per_entry);
    print::record(&[
        ("entries", print::count(report.entries)),
        ("CPU of a seek and one entry", short(&report.seek)),
        ("CPU of a seek and its entries", short(&report.seek_and_read)),
        ("CPU of a transaction's outputs", short(&report.prefix)),
        ("CPU of an entry, scan forward", long(&report.forward)),
        ("CPU of an entry, scan backward", long(&report.backward)),
        ("peak memory", print::bytes(report.peak_rss_bytes)),
        ("wrong ranges", print::count(report.wrong)),
    ])
}

/// Reads ranges of one view.
struct Load {
    view: View,
    plan: Payload,
    form: Form,
    wrong: u64,
}

/// Measures what is done between its making and its end.
struct Clock(Instant, u64);

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now(), cpu_ns())
    }

    fn stop(&self, ranges: u64, entries: u64) -> Figures {
        let cpu = (cpu_ns() - self.1) as f64;
        Figures {
            ranges,
            entries,
            seconds: self.0.elapsed().as_secs_f64(),
            cpu_us_per_range: cpu / 1e3 / ranges.max(1) as f64,
            cpu_ns_per_entry: cpu / entries.max(1) as f64,
        }
    }
}

/// What a range gave: how much, and whether in order.
struct Found {
    entries: u64,
    bytes: u64,
    last: Key,
    ordered: bool,
}

impl Found {
    fn new() -> Found {
        Found { entries: 0, bytes: 0, last: [0; KEY_BYTES], ordered: true }
    }

    fn take(&mut self, key: &[u8], value_bytes: usize, reverse: bool) {
        let later = if reverse { key < &self.last[..] } else { key > &self.last[..] };
        self.ordered &= later || self.entries == 0;
        self.last.copy_from_slice(key);
        self.entries += 1;
        self.bytes += value_bytes as u64;
    }
}

impl Load {
    /// Ranges of up to `length` entries from keys that are there.
    fn seeks(&mut self, seed: u64, count: u64, length: u64) -> Result<Figures> {
        let (clock, mut entries) = (Clock::start(), 0);
        for number in 0..count {
            let key = self.plan.key(draw(seed, number) % self.plan.entries);
            let found = self.read(&key, length)?;
            // Of the last keys there are fewer behind.
            let is_whole = found.entries == length || self.ends_with(&key, found.entries)?;
            self.note(&found, found.entries > 0 && is_whole);
            entries += found.entries;
        }
        Ok(clock.stop(count, entries))
    }

    /// Whether so many entries from `key` on are all that there are: told by the other end.
    fn ends_with(&self, key: &Key, entries: u64) -> Result<bool> {
        let mut cursor = self.view.cursor(Bound::Included(&key[..]), Bound::Unbounded)?;
        cursor.seek_last();
        let mut count = 0;
        while count <= entries && cursor.previous()?.is_some() {
            count += 1;
        }
        Ok(count == entries)
    }

    fn prefixes(&mut self, seed: u64, count: u64) -> Result<Figures> {
        let (clock, mut entries) = (Clock::start(), 0);
        for number in 0..count {
            let output = draw(seed, number) % self.plan.entries;
            let key = self.plan.key(output);
            let found = self.read_prefix(&key[..TRANSACTION_BYTES])?;
            self.note(&found, found.entries == self.plan.outputs_of(output));
            entries += found.entries;
        }
        Ok(clock.stop(count, entries))
    }

    fn note(&mut self, found: &Found, right: bool) {
        let whole = found.bytes == found.entries * VALUE_BYTES as u64;
        self.wrong += u64::from(!right || !whole || !found.ordered);
    }
}

/// A number from a seed and a place.
fn draw(seed: u64, number: u64) -> u64 {
    let drawn = key(seed.wrapping_mul(1 << 40).wrapping_add(number));
    u64::from_le_bytes(*drawn.first_chunk().expect("a key is longer"))
}

impl Load {
    fn read(&self, from: &[u8], length: u64) -> Result<Found> {
        if self.form == Form::Cursor {
            let mut cursor = self.view.cursor(Bound::Included(from), Bound::Unbounded)?;
            return taken(&mut cursor, length, false);
        }
        self.found(self.view.range(from..), length, false)
    }

    fn read_prefix(&self, prefix: &[u8]) -> Result<Found> {
        if self.form == Form::Cursor {
            let last = [prefix, &[u8::MAX; KEY_BYTES - TRANSACTION_BYTES]].concat();
            let mut cursor = self.view.cursor(Bound::Included(prefix), Bound::Included(&last))?;
            return taken(&mut cursor, u64::MAX, false);
        }
        self.found(self.view.prefix(prefix), u64::MAX, false)
    }

    fn scan(&mut self, reverse: bool) -> Result<Figures> {
        let clock = Clock::start();
        let found = if self.form == Form::Cursor {
            let mut cursor = self.view.cursor(Bound::Unbounded, Bound::Unbounded)?;
            if reverse {
                cursor.seek_last();
            }
            taken(&mut cursor, u64::MAX, reverse)?
        } else {
            self.found(self.view.iter(), u64::MAX, reverse)?
        };
        self.note(&found, found.entries == self.plan.entries);
        Ok(clock.stop(1, found.entries))
    }

    fn found(&self, range: Range, length: u64, reverse: bool) -> Result<Found> {
        let mut found = Found::new();
        if self.form == Form::Keys {
            let mut keys = range.keys();
            while found.entries < length
                && let Some(key) = if reverse { keys.next_back() } else { keys.next() }
            {
                found.take(&key?, VALUE_BYTES, reverse);
            }
            return Ok(found);
        }
        let mut range = range;
        while found.entries < length
            && let Some(entry) = if reverse { range.next_back() } else { range.next() }
        {
            let (key, value) = entry?;
            found.take(&key, value.len(), reverse);
        }
        Ok(found)
    }
}

/// What a cursor gives from where it stands.
fn taken(cursor: &mut Cursor, length: u64, reverse: bool) -> Result<Found> {
    let mut found = Found::new();
    while found.entries < length
        && let Some((key, value)) = if reverse { cursor.previous()? } else { cursor.next()? }
    {
        found.take(key, value.len(), reverse);
    }
    Ok(found)
}

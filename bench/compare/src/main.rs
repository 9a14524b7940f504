//! `compare`: the `UTxO` load on varvite and on the engines that people would pick instead, by turns.

mod check;
mod child;
#[path = "../../../cli/src/workload/utxo/draw.rs"]
#[allow(dead_code)] // the command line's, as it is
mod draw;
mod engine;
mod engines;
mod limit;
mod outputs;
mod plot;
mod process;
mod ranges;
mod record;
mod report;
mod rounds;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use engine::{Result, Spec, Terms};
use record::Setting;

#[derive(Parser)]
#[command(name = "compare", about = "The UTxO load on varvite and its peers, by turns")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the stores that rounds begin from, where they are missing
    Fill(Rounds),
    /// Do the load with every engine, by turns; runs that the results hold are not done again
    Rounds(Rounds),
    /// Read ranges of every engine, by turns; runs that the results hold are not done again
    Ranges(Ranges),
    /// Compare every engine's answers with a model's
    Check(Check),
    /// Make tables and plots of raw results
    Report {
        /// Raw results
        #[arg(long, default_value = "docs/benchmarks/results.jsonl")]
        results: PathBuf,
        /// Raw results of ranges
        #[arg(long, default_value = "docs/benchmarks/ranges.jsonl")]
        ranges: PathBuf,
        /// The page whose marked parts are replaced
        #[arg(long, default_value = "docs/benchmarks.md")]
        page: PathBuf,
        /// Folder for plots
        #[arg(long, default_value = "docs/benchmarks")]
        plots: PathBuf,
    },
    #[command(hide = true)]
    ChildFill(ChildFill),
    #[command(hide = true)]
    ChildFillRanges(ChildFill),
    #[command(hide = true)]
    ChildRun(ChildRun),
    #[command(hide = true)]
    ChildRanges(ChildRanges),
}

#[derive(Args)]
struct Rounds {
    /// Entries in the store
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Conditions
    #[arg(long, value_enum, default_value_t = Setting::Page)]
    setting: Setting,
    /// Engine and options as name:option=number,…; may be repeated [default: all, as they are best]
    #[arg(long)]
    spec: Vec<Spec>,
    /// How many times
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Batches of a run [default: a whole turnover]
    #[arg(long)]
    batches: Option<u64>,
    /// Operations in a batch
    #[arg(long, default_value_t = 256)]
    batch_size: u64,
    /// Seconds of a turn
    #[arg(long, default_value_t = 10)]
    slice: u64,
    /// Seconds that an engine may run in a round
    #[arg(long, default_value_t = 3600)]
    each: u64,
    /// Folder for stores, which stay, and copies, which go
    #[arg(long)]
    folder: PathBuf,
    /// Raw results, to which runs are added
    #[arg(long, default_value = "docs/benchmarks/results.jsonl")]
    results: PathBuf,
}

#[derive(Args)]
struct Ranges {
    /// Entries in the store
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Conditions
    #[arg(long, value_enum, default_value_t = Setting::Page)]
    setting: Setting,
    /// Engine and options as name:option=number,…; may be repeated [default: all, as they are best]
    #[arg(long)]
    spec: Vec<Spec>,
    /// How many times
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Seconds of each kind of short range
    #[arg(long, default_value_t = 5)]
    each: u64,
    /// Folder for stores, which stay, and copies, which go
    #[arg(long)]
    folder: PathBuf,
    /// Raw results, to which runs are added
    #[arg(long, default_value = "docs/benchmarks/ranges.jsonl")]
    results: PathBuf,
}

#[derive(Args)]
struct Check {
    /// Entries at first
    #[arg(long, default_value_t = 20_000)]
    entries: u64,
    /// Batches
    #[arg(long, default_value_t = 400)]
    batches: u64,
    /// Operations in a batch
    #[arg(long, default_value_t = 256)]
    batch_size: u64,
    /// Sync every batch
    #[arg(long)]
    synced: bool,
    /// Engine and options; may be repeated [default: all, as they are best]
    #[arg(long)]
    spec: Vec<Spec>,
    /// Folder for stores, which go
    #[arg(long)]
    folder: PathBuf,
}

#[derive(Args)]
struct ChildFill {
    #[arg(long)]
    spec: Spec,
    #[arg(long)]
    entries: u64,
    #[arg(long)]
    folder: PathBuf,
}

#[derive(Args)]
struct ChildRun {
    #[arg(long)]
    spec: Spec,
    #[arg(long)]
    setting: Setting,
    #[arg(long)]
    entries: u64,
    #[arg(long)]
    batches: u64,
    #[arg(long)]
    batch_size: u64,
    #[arg(long)]
    folder: PathBuf,
}

#[derive(Args)]
struct ChildRanges {
    #[arg(long)]
    spec: Spec,
    #[arg(long)]
    setting: Setting,
    #[arg(long)]
    entries: u64,
    #[arg(long)]
    folder: PathBuf,
}

impl Ranges {
    fn plan(self) -> ranges::Plan {
        ranges::Plan {
            entries: self.entries,
            setting: self.setting,
            specs: if self.spec.is_empty() { Spec::all() } else { self.spec },
            each: Duration::from_secs(self.each),
            folder: self.folder,
            results: self.results,
        }
    }
}

impl Rounds {
    fn plan(self) -> rounds::Plan {
        rounds::Plan {
            entries: self.entries,
            setting: self.setting,
            specs: if self.spec.is_empty() { Spec::all() } else { self.spec },
            batches: self.batches.unwrap_or(self.entries.div_ceil(self.batch_size)),
            batch_size: self.batch_size,
            slice: Duration::from_secs(self.slice),
            each: Duration::from_secs(self.each),
            folder: self.folder,
            results: self.results,
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether the answer is yes.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Fill(arguments) => rounds::fill(&arguments.plan())?,
        Command::Rounds(arguments) => {
            let count = arguments.rounds;
            let plan = arguments.plan();
            rounds::fill(&plan)?;
            for number in 0..count {
                rounds::round(&plan, number)?;
            }
        }
        Command::Ranges(arguments) => {
            let count = arguments.rounds;
            let plan = arguments.plan();
            (0..count).try_for_each(|number| ranges::round(&plan, number))?;
        }
        Command::Check(arguments) => return check_all(arguments),
        Command::Report { results, ranges, page, plots } => {
            report::write(&results, &page, &plots)?;
            report::write_ranges(&ranges, &page)?;
        }
        Command::ChildFill(it) => child::fill(&it.folder, &it.spec, it.entries)?,
        Command::ChildFillRanges(it) => ranges::fill(&it.folder, &it.spec, it.entries)?,
        Command::ChildRanges(it) => {
            ranges::obey(&it.folder, &it.spec, &ranges::terms(it.entries, it.setting))?;
        }
        Command::ChildRun(it) => {
            let terms = Terms {
                entries: it.entries,
                synced: it.setting == Setting::Synced,
                ranges: false,
                limit_bytes: (it.setting == Setting::Limit).then_some(worker::LIMIT_BYTES),
            };
            child::obey(&it.folder, &it.spec, &terms, it.batches, it.batch_size)?;
        }
    }
    Ok(true)
}

fn check_all(arguments: Check) -> Result<bool> {
    let Check { entries, batches, batch_size, synced, spec, folder } = arguments;
    let plan = check::Plan { entries, batches, batch_size, synced };
    let expected = check::expected(&plan)?;
    println!("{:<12} answers {:016x} content {:016x}", "model", expected.answers, expected.content);
    let mut same = true;
    for spec in if spec.is_empty() { Spec::all() } else { spec } {
        let asked = check::asked(&folder.join(&spec.engine), &spec, &plan)?;
        let verdict = if asked == expected { "the same" } else { "DIFFERENT" };
        same &= asked == expected;
        let content = format!("content {:016x} reopened {:016x}", asked.content, asked.reopened);
        println!("{spec:<12} answers {:016x} {content} {verdict}", asked.answers);
    }
    Ok(same)
}

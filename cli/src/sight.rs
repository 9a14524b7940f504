//! What a command that runs a load shows of it: timings of every action.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Args;
use varvite::disk::Disk;
use varvite::disk::os::OsDisk;
use varvite::raw::format::header::LENGTH;
use varvite::trace::Recorder;
use varvite::{Error, Result};
use varvite_sight::timings::{Action, Block};
use varvite_sight::{Clock, Limits, Process, Report, Timings};

use crate::print;
use crate::system::files::Own;
use crate::system::measure::{cpu_ns, disk_bytes, rss_bytes};

/// Which timings a load prints
#[derive(Clone, Debug, Default, Args)]
pub struct Flags {
    /// Time every action, and print its costs by prefix and the slowest blocks
    #[arg(long)]
    pub timings: bool,
    /// First steps of paths that timings tell apart, 6 at most
    #[arg(long, value_name = "STEPS", default_value_t = 2, requires = "timings")]
    pub timings_depth: usize,
    /// Prefixes that timings tell apart; the others count with a shorter one
    #[arg(long, value_name = "COUNT", default_value_t = 64, requires = "timings", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub timings_prefixes: u64,
    /// Write every call down in this file, which may not be there yet: see `varvite trace`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// The observer of a command, by the process' clock.
pub type Observed = Timings<fn() -> u64>;

fn clock() -> &'static Clock {
    static CLOCK: OnceLock<Clock> = OnceLock::new();
    CLOCK.get_or_init(Clock::new)
}

/// Nanoseconds since this was first asked.
pub fn monotonic_ns() -> u64 {
    clock().now_ns()
}

impl Flags {
    /// The observer that they ask for.
    pub fn timings(&self) -> Option<Arc<Observed>> {
        let limits = Limits {
            depth: self.timings_depth,
            prefixes: self.timings_prefixes as usize,
            ..Limits::default()
        };
        self.timings.then(|| Timings::new(monotonic_ns as fn() -> u64, limits))
    }
}

/// The folder and the name of a file that a disk opens. `Invalid` for a name that is no text: disks have none such.
pub fn place(file: &Path) -> Result<(&Path, &str)> {
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().ok_or_else(|| {
        Error::invalid(format!("{} is no name of a file: give one", file.display()))
    })?;
    let name = name.to_str().ok_or_else(|| {
        let shown = file.display();
        Error::invalid(format!(
            "the name of the file {shown} is no UTF-8: rename it, or give another"
        ))
    })?;
    Ok((folder, name))
}

/// How often what the process uses is written into a trace, and what its store takes on disk, for which its files are
/// listed.
const SAMPLED: Duration = Duration::from_millis(100);
const LISTED: Duration = Duration::from_secs(1);

/// The recording of a command, if it was asked for.
pub struct Tracing(Option<Recording>);

struct Recording {
    recorder: Arc<Recorder>,
    file: Own,
    sampled: Instant,
    /// Calls of the recording that are no store's: samples and marks.
    own: AtomicU64,
    /// Whether what the process uses is the store's.
    is_alone: bool,
    /// Where the store is, and when its files were listed.
    store: Option<(PathBuf, Option<Instant>)>,
    /// Processor time of all samples so far.
    sampling_ns: u64,
}

impl Tracing {
    /// Begins one in `file`, if there is a name for it, of a store in a folder, if it is in one.
    pub fn to(file: Option<&Path>, store: Option<&Path>) -> Result<Tracing> {
        Tracing::begin(file, store, true)
    }

    /// The same of a store beside another, which has a part of what the process uses.
    pub fn beside(file: Option<&Path>, store: Option<&Path>) -> Result<Tracing> {
        Tracing::begin(file, store, false)
    }

    fn begin(file: Option<&Path>, store: Option<&Path>, is_alone: bool) -> Result<Tracing> {
        let Some(file) = file else { return Ok(Tracing(None)) };
        let (folder, name) = place(file)?;
        let folder: Arc<dyn Disk> = OsDisk::new(folder)?;
        let recorder = Recorder::create(&folder, name, Process::by(clock().clone()))?;
        let store = store.map(|folder| (folder.to_owned(), None));
        let (file, sampled) = (Own::at(file), Instant::now());
        let own = AtomicU64::new(0);
        let recording = Recording { recorder, file, sampled, own, is_alone, store, sampling_ns: 0 };
        let mut tracing = Tracing(Some(recording));
        tracing.sample();
        Ok(tracing)
    }

    /// The recorder, for options.
    pub fn recorder(&self) -> Option<Arc<Recorder>> {
        self.0.as_ref().map(|it| Arc::clone(&it.recorder))
    }

    /// Names the block that begins.
    pub fn mark(&self, name: &str) {
        if let Some(recording) = &self.0 {
            recording.recorder.mark(name);
            recording.own.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes down a number that the load itself counts.
    pub fn count(&self, name: &str, number: u64) {
        if let Some(recording) = &self.0 {
            recording.recorder.sample(name, number);
            recording.own.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Processor time that samples took so far, which is no store's.
    pub fn sampling_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, |it| it.sampling_ns)
    }

    /// Writes what the process uses, if that is a while ago.
    pub fn tick(&mut self) {
        if self.0.as_ref().is_some_and(|it| it.sampled.elapsed() >= SAMPLED) {
            self.sample();
        }
    }

    fn sample(&mut self) {
        let Some(Recording { recorder, sampled, own, is_alone, store, sampling_ns, .. }) =
            &mut self.0
        else {
            return;
        };
        let start = cpu_ns();
        let mut sample = |name: &str, number| {
            recorder.sample(name, number);
            *own.get_mut() += 1;
        };
        *sampled = Instant::now();
        if let Some((folder, listed)) = store
            && listed.is_none_or(|listed| listed.elapsed() >= LISTED)
        {
            sample("disk_bytes", disk_bytes(folder));
            *listed = Some(Instant::now());
        }
        if !*is_alone {
            *sampling_ns += cpu_ns() - start;
            return;
        }
        sample("cpu_ns", cpu_ns());
        sample("rss_bytes", rss_bytes());
        // Where the system does not say, there is no sample.
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        for (key, name) in [("read_bytes: ", "read_bytes"), ("write_bytes: ", "written_bytes")] {
            let found = io.lines().find_map(|line| line.strip_prefix(key)?.parse().ok());
            if let Some(bytes) = found {
                sample(name, bytes);
            }
        }
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name in front may have blanks.
        let after = stat.rsplit_once(") ").map_or("", |(_, after)| after);
        let faults = after.split(' ').nth(9).and_then(|field| field.parse().ok());
        if let Some(faults) = faults {
            sample("major_faults", faults);
        }
        *sampling_ns += cpu_ns() - start;
    }

    /// Ends it.
    pub fn finish(mut self) -> Result<()> {
        // What is on disk in the end is said in any case.
        if let Some(Recording { store: Some((_, listed)), .. }) = &mut self.0 {
            *listed = None;
        }
        self.sample();
        self.0.take().map_or(Ok(()), |it| it.recorder.finish().map(drop))
    }
}

impl Drop for Tracing {
    /// Of a command that failed what its store was called for stays, to look into; without any such call its trace
    /// would only keep the same command from running again.
    fn drop(&mut self) {
        let Some(Recording { recorder, file, own, .. }) = self.0.take() else { return };
        let is_empty = match recorder.finish() {
            Ok(calls) => calls <= own.into_inner(),
            // On a full disk there may be no more of it than its header.
            Err(_) => file.length() <= LENGTH as u64,
        };
        if is_empty {
            drop(recorder);
            file.remove();
        }
    }
}

/// Rows of the table of actions for people; JSON has all.
const ROWS: usize = 24;

/// Prints timings for people.
pub fn show(report: &Report) -> std::io::Result<()> {
    let titles = [
        "action", "prefix", "calls", "total ms", "mean µs", "p50", "p99", "p99.9", "max µs",
        "read", "written", "hits", "reads", "sync ms",
    ];
    let mut table = print::table(&titles);
    let totals = report.totals.iter().map(|action| row(action, "all"));
    let actions = report.actions.iter().map(|action| row(action, &action.prefix));
    for row in totals.chain(actions).take(ROWS + report.totals.len()) {
        table.add_row(row);
    }
    print::line(&table.to_string())?;
    if report.worst_blocks.is_empty() {
        return Ok(());
    }
    let mut blocks = print::table(&["slowest block", "number", "total ms", "actions"]);
    for block in &report.worst_blocks {
        blocks.add_row(block_row(block));
    }
    print::line(&blocks.to_string())
}

fn row(action: &Action, prefix: &str) -> Vec<String> {
    let latency = &action.latency;
    let us = |value: f64| format!("{value:.1}");
    vec![
        format!("{} {}", action.face, action.action),
        prefix.to_owned(),
        print::count(action.calls),
        format!("{:.1}", action.total_ms),
        us(latency.mean_us),
        us(latency.p50_us),
        us(latency.p99_us),
        us(latency.p999_us),
        us(latency.max_us),
        print::bytes(action.bytes_read),
        print::bytes(action.bytes_written),
        print::count(action.cache_hits),
        print::count(action.reads),
        format!("{:.1}", action.sync_ms),
    ]
}

fn block_row(block: &Block) -> Vec<String> {
    let parts = block.actions.iter().take(4);
    let parts = parts.map(|it| format!("{} {:.1} ms", it.action, it.total_ms));
    vec![
        block.name.clone(),
        print::count(block.number),
        format!("{:.1}", block.total_ms),
        parts.collect::<Vec<_>>().join(", "),
    ]
}

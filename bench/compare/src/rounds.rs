//! Rounds: every engine does the load once a round, each in a process of its own, in slices by turns.
//!
//! A process whose turn it is not is stopped by signal, so that its threads in the background take
//! nothing from the others. Runs that the results hold already are not done again.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use crate::engine::{Result, Spec};
use crate::limit::Limit;
use crate::process::{Resident, disk_bytes};
use crate::record::{Own, Run, Setting, Slice, append, read};

/// The limit of [`Setting::Limit`].
pub const LIMIT_BYTES: u64 = 512_000_000;
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// What to run.
pub struct Plan {
    /// Entries in the store.
    pub entries: u64,
    /// Conditions.
    pub setting: Setting,
    /// Who takes part.
    pub specs: Vec<Spec>,
    /// Batches of each run.
    pub batches: u64,
    /// Operations in a batch.
    pub batch_size: u64,
    /// How long a turn is.
    pub slice: Duration,
    /// How long an engine may run in a round.
    pub each: Duration,
    /// Stores and copies of them.
    pub folder: PathBuf,
    /// Raw output.
    pub results: PathBuf,
}

/// Makes the stores that `plan` needs and that are not there yet.
pub fn fill(plan: &Plan) -> Result<()> {
    for spec in &plan.specs {
        let store = store(plan, spec);
        if store.exists() {
            continue;
        }
        let begun = store.with_extension("begun");
        let _ = fs::remove_dir_all(&begun); // of a command that was stopped
        fs::create_dir_all(&begun)?;
        let start = Instant::now();
        let status = Command::new(std::env::current_exe()?)
            .args(["child-fill", "--spec", &spec.filled().to_string()])
            .args(["--entries", &plan.entries.to_string(), "--folder"])
            .arg(&begun)
            .status()?;
        if !status.success() {
            return Err(format!("{spec} could not fill its store").into());
        }
        fs::rename(&begun, &store)?;
        let (seconds, megabytes) = (start.elapsed().as_secs_f64(), disk_bytes(&store) / 1_000_000);
        eprintln!("{}: filled in {seconds:.0} s, {megabytes} MB", spec.filled());
    }
    Ok(())
}

fn store(plan: &Plan, spec: &Spec) -> PathBuf {
    let name = spec.filled().to_string().replace([':', '=', ','], "-");
    plan.folder.join(format!("{}-{name}", plan.entries))
}

/// Does one round of `plan`: whoever has no result in it yet.
pub fn round(plan: &Plan, round: u32) -> Result<()> {
    let done = read(&plan.results)?;
    let missing = |spec: &&Spec| {
        let spec = spec.to_string();
        !done.iter().any(|run| run.same_as(plan.entries, plan.setting, &spec, round))
    };
    let mut specs: Vec<&Spec> = plan.specs.iter().filter(missing).collect();
    if specs.is_empty() {
        return Ok(());
    }
    // Nobody is always the first.
    let first = round as usize % specs.len();
    specs.rotate_left(first);
    let mut workers = specs
        .into_iter()
        .map(|spec| Worker::start(plan, spec, round))
        .collect::<Result<Vec<_>>>()?;
    while !workers.is_empty() {
        for mut worker in std::mem::take(&mut workers) {
            if worker.turn(plan)? {
                workers.push(worker);
            } else {
                let run = worker.end()?;
                eprintln!(
                    "{}: {:.0} operations/s, {:.2} CPU µs, p99 {:.0} µs",
                    run.spec,
                    run.rate(),
                    run.cpu_us(),
                    run.own.batch_us.p99
                );
                append(&plan.results, &run)?;
            }
        }
    }
    Ok(())
}

/// The process of one engine.
struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    limit: Option<Limit>,
    folder: PathBuf,
    run: Run,
    looked_at_disk: Instant,
}

impl Worker {
    /// Copies the store, starts the process, opens the copy, and stops the process.
    fn start(plan: &Plan, spec: &Spec, round: u32) -> Result<Worker> {
        let folder = plan
            .folder
            .join(format!("run-{}", std::process::id()))
            .join(&spec.to_string().replace([':', '=', ','], "-"));
        copy(&store(plan, spec), &folder, plan.setting == Setting::Limit)?;
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["child-run", "--spec", &spec.to_string()])
            .args(["--setting", plan.setting.name()])
            .args(["--entries", &plan.entries.to_string()])
            .args(["--batches", &plan.batches.to_string()])
            .args(["--batch-size", &plan.batch_size.to_string(), "--folder"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let limit = match plan.setting {
            Setting::Limit => Some(Limit::new(child.id(), LIMIT_BYTES)?),
            Setting::Page | Setting::Synced => None,
        };
        let input = child.stdin.take().expect("it is piped");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // Ends with the process, or when nobody listens any more.
            output.lines().map_while(std::result::Result::ok).all(|line| sender.send(line).is_ok())
        });
        let run = Run {
            entries: plan.entries,
            setting: plan.setting,
            spec: spec.to_string(),
            version: spec.version().to_owned(),
            round,
            planned: plan.batches * plan.batch_size,
            batch_size: plan.batch_size,
            slices: Vec::new(),
            own: Own::default(),
            peak_rss_bytes: 0,
            peak_anonymous_bytes: 0,
            peak_group_bytes: 0,
            disk_bytes: 0,
            peak_disk_bytes: 0,
            machine: machine(),
        };
        let looked_at_disk = Instant::now();
        let mut worker = Worker { child, input, lines, limit, folder, run, looked_at_disk };
        worker.ask::<Own>("open")?;
        worker.signal(Signal::STOP)?;
        Ok(worker)
    }

    /// One slice; whether there are more.
    fn turn(&mut self, plan: &Plan) -> Result<bool> {
        let left = plan.each.saturating_sub(Duration::from_secs_f64(self.run.seconds()));
        let slice = plan.slice.min(left);
        self.signal(Signal::CONT)?;
        let slice: Slice = self.ask(&format!("go {}", slice.as_millis()))?;
        self.signal(Signal::STOP)?;
        // What it has left for the system to write must not be in the way of the next one.
        rustix::fs::sync();
        self.run.slices.push(slice);
        let time_is_left = self.run.seconds() + 0.01 < plan.each.as_secs_f64();
        Ok(time_is_left && self.run.operations() < self.run.planned)
    }

    /// The run's figures; the process ends and its copy goes.
    fn end(mut self) -> Result<Run> {
        self.look();
        self.signal(Signal::CONT)?;
        self.run.own = self.ask("end")?;
        self.child.wait()?;
        self.run.disk_bytes = disk_bytes(&self.folder);
        self.run.peak_disk_bytes = self.run.peak_disk_bytes.max(self.run.disk_bytes);
        if let Some(limit) = &self.limit {
            self.run.peak_group_bytes = limit.peak_bytes();
        }
        Ok(self.run.clone())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).expect("no process has number 0");
        Ok(kill_process(pid, signal)?)
    }

    /// Sends a line and waits for the answer, looking at the process meanwhile.
    fn ask<T: DeserializeOwned>(&mut self, line: &str) -> Result<T> {
        writeln!(self.input, "{line}")?;
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return Ok(serde_json::from_str(&line)?),
                Err(RecvTimeoutError::Timeout) => self.look(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("{} ended at `{line}`", self.run.spec).into());
                }
            }
        }
    }

    fn look(&mut self) {
        let resident = Resident::of(self.child.id());
        self.run.peak_rss_bytes = self.run.peak_rss_bytes.max(resident.peak);
        self.run.peak_anonymous_bytes = self.run.peak_anonymous_bytes.max(resident.anonymous);
        if self.looked_at_disk.elapsed() > Duration::from_secs(1) {
            self.run.peak_disk_bytes = self.run.peak_disk_bytes.max(disk_bytes(&self.folder));
            self.looked_at_disk = Instant::now();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill(); // after an error; otherwise it has ended
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
        // The last one takes the run's folder along.
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}

/// Copies a store with its holes, and waits until the copy is on the device. Its pages stay in the
/// page cache, unless `cold`.
fn copy(from: &Path, to: &Path, cold: bool) -> Result<()> {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to.parent().expect("it is in the run's folder"))?;
    let copied = Command::new("cp").args(["-r", "--sparse=auto"]).args([from, to]).status()?;
    if !copied.success() {
        return Err(format!("{} could not be copied", from.display()).into());
    }
    forget(from, false)?;
    forget(to, !cold)
}

/// Syncs the files below `folder`, and takes them out of the page cache unless they are to be kept.
fn forget(folder: &Path, keep: bool) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path, keep)?;
            continue;
        }
        let file = File::open(path)?;
        file.sync_all()?;
        if !keep {
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

fn machine() -> String {
    let line = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.rsplit(':').next().unwrap_or_default().trim().to_owned()
    };
    let memory = line("/proc/meminfo", "MemTotal");
    let kibibytes: u64 = memory.trim_end_matches(" kB").parse().unwrap_or(0);
    let system = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{}, {} processors, {} GiB, Linux {}",
        line("/proc/cpuinfo", "model name"),
        std::thread::available_parallelism().map_or(0, usize::from),
        kibibytes.div_ceil(1 << 20),
        system.split('.').take(2).collect::<Vec<_>>().join(".").trim()
    )
}

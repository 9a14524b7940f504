//! Rounds: every engine does the load once a round, each in a process of its own, in slices by turns.
//!
//! Runs that the results hold already are not done again.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::engine::{Result, Spec};
use crate::record::{Own, Run, Setting, Slice, append, read};
use crate::worker::{self, Task, Worker};

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
    plan.specs.iter().try_for_each(|spec| store(plan, spec).map(drop))
}

fn store(plan: &Plan, spec: &Spec) -> Result<PathBuf> {
    worker::fill(&plan.folder, "", "child-fill", spec, plan.entries)
}

/// Does one round of `plan`: whoever has no result in it yet.
pub fn round(plan: &Plan, round: u32) -> Result<()> {
    let done: Vec<Run> = read(&plan.results)?;
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
        .map(|spec| Running::start(plan, spec, round))
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

/// A run that goes on.
struct Running {
    worker: Worker,
    run: Run,
}

impl Running {
    fn start(plan: &Plan, spec: &Spec, round: u32) -> Result<Running> {
        let (batches, batch_size) = (plan.batches.to_string(), plan.batch_size.to_string());
        let worker = Worker::start(&Task {
            command: &["child-run", "--batches", &batches, "--batch-size", &batch_size],
            spec,
            setting: plan.setting,
            entries: plan.entries,
            store: &store(plan, spec)?,
            folder: &plan.folder,
        })?;
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
        Ok(Running { worker, run })
    }

    /// One slice; whether there are more.
    fn turn(&mut self, plan: &Plan) -> Result<bool> {
        let left = plan.each.saturating_sub(Duration::from_secs_f64(self.run.seconds()));
        let slice: Slice = self.worker.turn(&format!("go {}", plan.slice.min(left).as_millis()))?;
        self.run.slices.push(slice);
        let time_is_left = self.run.seconds() + 0.01 < plan.each.as_secs_f64();
        Ok(time_is_left && self.run.operations() < self.run.planned)
    }

    /// The run's figures; the process ends and its copy goes.
    fn end(mut self) -> Result<Run> {
        self.run.own = self.worker.end()?;
        self.run.peak_rss_bytes = self.worker.resident().peak;
        self.run.peak_anonymous_bytes = self.worker.resident().anonymous;
        self.run.peak_group_bytes = self.worker.group_bytes();
        self.run.disk_bytes = self.worker.disk_bytes();
        self.run.peak_disk_bytes = self.worker.most_disk_bytes();
        Ok(self.run)
    }
}

/// Processor, memory and system, as results name them.
pub fn machine() -> String {
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

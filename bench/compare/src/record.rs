//! Raw output: one line of JSON for each run of one engine, appended to one file.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::Result;

/// Conditions that every engine of a row shares.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Setting {
    /// All memory of the machine for the page cache; nothing is durable before the end.
    Page,
    /// 512 MB of memory, page cache included.
    Limit,
    /// As `Page`, but every batch is durable when it returns.
    Synced,
}

impl Setting {
    /// Its name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Setting::Page => "page",
            Setting::Limit => "limit",
            Setting::Synced => "synced",
        }
    }
}

/// Times of batches in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct BatchTimes {
    /// Median.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl BatchTimes {
    /// The smallest samples that a share of all do not exceed.
    pub fn of(nanoseconds: &mut [u64]) -> BatchTimes {
        nanoseconds.sort_unstable();
        let at = |share: f64| {
            let rank = (share * nanoseconds.len() as f64).ceil() as usize;
            nanoseconds.get(rank.saturating_sub(1)).map_or(0.0, |time| *time as f64 / 1e3)
        };
        BatchTimes { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

/// A piece of a run, in which this engine had the machine to itself.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// Operations done in it.
    pub operations: u64,
    /// Time on the wall.
    pub seconds: f64,
    /// User and system time of the whole process.
    pub cpu_seconds: f64,
}

/// What a process says about itself at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Own {
    /// Opening the store.
    pub open_seconds: f64,
    /// Times of batches.
    pub batch_us: BatchTimes,
    /// Read from the device.
    pub read_bytes: u64,
    /// Written to the device, or to be: pages made dirty.
    pub written_bytes: u64,
    /// Lookups that did not find the value.
    pub wrong: u64,
}

/// A run of one engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Entries in the store.
    pub entries: u64,
    /// Conditions.
    pub setting: Setting,
    /// Engine and options.
    pub spec: String,
    /// Version of the engine.
    pub version: String,
    /// Which repetition.
    pub round: u32,
    /// Operations asked for; fewer were done when time was up.
    pub planned: u64,
    /// Operations in a batch.
    pub batch_size: u64,
    /// Pieces, in order.
    pub slices: Vec<Slice>,
    /// What the process said.
    #[serde(flatten)]
    pub own: Own,
    /// Most resident memory, pages of mapped files included.
    pub peak_rss_bytes: u64,
    /// Most resident memory of the process' own.
    pub peak_anonymous_bytes: u64,
    /// Most memory of the control group, page cache included; 0 without a limit.
    pub peak_group_bytes: u64,
    /// All files at the end.
    pub disk_bytes: u64,
    /// All files when they were most.
    pub peak_disk_bytes: u64,
    /// Processor, memory, system.
    pub machine: String,
}

impl Run {
    /// Operations done.
    pub fn operations(&self) -> u64 {
        self.slices.iter().map(|slice| slice.operations).sum()
    }

    /// Time on the wall.
    pub fn seconds(&self) -> f64 {
        self.slices.iter().map(|slice| slice.seconds).sum()
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations() as f64 / self.seconds()
    }

    /// Microseconds of processor an operation.
    pub fn cpu_us(&self) -> f64 {
        let seconds: f64 = self.slices.iter().map(|slice| slice.cpu_seconds).sum();
        seconds * 1e6 / self.operations() as f64
    }

    /// Bytes written an operation.
    pub fn written_per_operation(&self) -> f64 {
        self.own.written_bytes as f64 / self.operations() as f64
    }

    /// Whether `other` is this run done again.
    pub fn same_as(&self, entries: u64, setting: Setting, spec: &str, round: u32) -> bool {
        (self.entries, self.setting, &*self.spec, self.round) == (entries, setting, spec, round)
    }
}

/// Adds a run to the file.
pub fn append(path: &Path, run: &impl Serialize) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(run)?)?;
    Ok(())
}

/// All runs of the file; none when it is not there.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path)?;
    Ok(text.lines().map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
}

/// Runs that differ in the round only, in order of the first of each.
pub fn repeated(runs: &[Run]) -> Vec<Vec<&Run>> {
    let mut places = BTreeMap::new();
    let mut groups: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let key = (run.entries, run.setting, &run.spec);
        let place = *places.entry(key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(run);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples: Vec<u64> = (1..=1000).rev().map(|value| value * 1000).collect();
        let times = BatchTimes::of(&mut samples);
        assert!((times.p50 - 500.0).abs() < 1e-9 && (times.p999 - 999.0).abs() < 1e-9);
        assert!((times.max - 1000.0).abs() < 1e-9);
    }
}

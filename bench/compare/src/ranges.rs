//! Ranges: every engine reads the same seeks, prefixes and whole scans of outputs of transactions, by turns.

use std::collections::BTreeMap;
use std::io::{BufRead, stdin};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::child::{SEED, fill_with, say};
use crate::draw::{KEY_BYTES, Key, VALUE_BYTES, mix};
use crate::engine::{Engine, Result, Spec, Terms};
use crate::outputs::{OUTPUTS, output, prefix};
use crate::process::cpu_ns;
use crate::record::{Own, Setting, append, read};
use crate::rounds::machine;
use crate::worker::{self, LIMIT_BYTES, Task, Worker};

/// Entries that are read after a seek.
pub const LENGTH: usize = 100;
/// How long a process reads before what it reads counts: indexes are read at their first use, and caches fill.
const WARM: Duration = Duration::from_millis(700);

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum Reading {
    /// A place among the keys, and the entry there.
    Seek,
    /// A place, and the 100 entries from there on.
    Hundred,
    /// The outputs of a transaction.
    Prefix,
    /// Everything, from the first key to the last.
    Forward,
    /// Everything, from the last key to the first.
    Backward,
}

impl Reading {
    /// All of them, in the order of the tables.
    pub const ALL: [Reading; 5] =
        [Reading::Seek, Reading::Hundred, Reading::Prefix, Reading::Forward, Reading::Backward];

    fn name(self) -> String {
        self.to_possible_value().expect("none is hidden").get_name().to_owned()
    }
}

/// What to run.
pub struct Plan {
    /// Entries in the store.
    pub entries: u64,
    /// Conditions; none syncs, since nothing is written.
    pub setting: Setting,
    /// Who takes part.
    pub specs: Vec<Spec>,
    /// How long short ranges are read, of each kind.
    pub each: Duration,
    /// Stores and copies of them.
    pub folder: PathBuf,
    /// Raw output.
    pub results: PathBuf,
}

/// What reading gave.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Ranges.
    pub ranges: u64,
    /// Entries in them.
    pub entries: u64,
    /// Time on the wall.
    pub seconds: f64,
    /// User and system time of the whole process.
    pub cpu_seconds: f64,
    /// Ranges in which something was missing, out of order or too much.
    pub wrong: u64,
}

impl Figures {
    /// Microseconds of processor a range.
    pub fn cpu_us(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.ranges.max(1) as f64
    }

    /// Nanoseconds of processor an entry.
    pub fn cpu_ns(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.entries.max(1) as f64
    }
}

/// A run of one engine: one line of the results.
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
    /// What each kind of reading gave.
    pub figures: BTreeMap<Reading, Figures>,
    /// Most resident memory, pages of mapped files included.
    pub peak_rss_bytes: u64,
    /// Most resident memory of the process' own.
    pub peak_anonymous_bytes: u64,
    /// All files.
    pub disk_bytes: u64,
    /// Processor, memory, system.
    pub machine: String,
}

/// Does one round of `plan`: whoever has no result in it yet.
pub fn round(plan: &Plan, round: u32) -> Result<()> {
    let done: Vec<Run> = read(&plan.results)?;
    let mut specs: Vec<&Spec> = plan.specs.iter().collect();
    specs.retain(|spec| {
        let wanted = (plan.entries, plan.setting, spec.to_string(), round);
        !done.iter().any(|run| (run.entries, run.setting, run.spec.clone(), run.round) == wanted)
    });
    if specs.is_empty() {
        return Ok(());
    }
    // Nobody is always the first.
    let first = round as usize % specs.len();
    specs.rotate_left(first);
    let mut runs = Vec::new();
    for spec in specs {
        let store = worker::fill(&plan.folder, "ranges-", "child-fill-ranges", spec, plan.entries)?;
        let worker = Worker::start(&Task {
            command: &["child-ranges"],
            spec,
            setting: plan.setting,
            entries: plan.entries,
            store: &store,
            folder: &plan.folder,
        })?;
        runs.push((spec, worker, BTreeMap::new()));
    }
    for reading in Reading::ALL {
        for (spec, worker, figures) in &mut runs {
            let line = format!("read {} {}", reading.name(), plan.each.as_millis());
            let read: Figures = worker.turn(&line)?;
            let (us, ns, wrong) = (read.cpu_us(), read.cpu_ns(), read.wrong);
            let name = reading.name();
            eprintln!("{spec}: {name}: {us:.2} CPU µs a range, {ns:.0} ns an entry, {wrong} wrong");
            figures.insert(reading, read);
        }
    }
    for (spec, mut worker, figures) in runs {
        worker.end::<Own>()?;
        append(
            &plan.results,
            &Run {
                entries: plan.entries,
                setting: plan.setting,
                spec: spec.to_string(),
                version: spec.version().to_owned(),
                round,
                figures,
                peak_rss_bytes: worker.resident().peak,
                peak_anonymous_bytes: worker.resident().anonymous,
                disk_bytes: worker.disk_bytes(),
                machine: machine(),
            },
        )?;
    }
    Ok(())
}

/// What every engine is asked for when ranges are read.
pub fn terms(entries: u64, setting: Setting) -> Terms {
    let limit_bytes = (setting == Setting::Limit).then_some(LIMIT_BYTES);
    Terms { entries, synced: false, ranges: true, limit_bytes }
}

/// Makes the store in the empty folder `path` and leaves it at rest.
pub fn fill(path: &Path, spec: &Spec, entries: u64) -> Result<()> {
    fill_with(path, spec, &terms(entries, Setting::Page), output)
}

/// Reads what standard input says, from the store in `path`: `open`, then `read KIND MILLISECONDS` as
/// often as wanted, then `end`. Each is answered by one line of JSON.
pub fn obey(path: &Path, spec: &Spec, terms: &Terms) -> Result<()> {
    // Nobody would wake a stopped process whose driver is gone.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut load: Option<Load> = None;
    for line in stdin().lock().lines() {
        let line = line?;
        let words: Vec<_> = line.split(' ').collect();
        match (&words[..], load.as_mut()) {
            (["open"], None) => {
                load = Some(Load { engine: spec.open(path, terms)?, entries: terms.entries });
                say(&Own::default())?;
            }
            (["read", kind, milliseconds], Some(load)) => {
                let reading = Reading::from_str(kind, false)?;
                say(&load.read(reading, Duration::from_millis(milliseconds.parse()?))?)?;
            }
            (["end"], Some(_)) => {
                say(&Own::default())?;
                std::process::exit(0); // the folder is thrown away: nothing is to be closed in order
            }
            _ => return Err(format!("`{line}` makes no sense here").into()),
        }
    }
    Ok(())
}

struct Load {
    engine: Box<dyn Engine>,
    entries: u64,
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

    fn take(&mut self, key: &[u8], value: &[u8], backward: bool) {
        let later = if backward { key < &self.last[..] } else { key > &self.last[..] };
        self.ordered &= later || self.entries == 0;
        self.last.copy_from_slice(key);
        self.entries += 1;
        self.bytes += value.len() as u64;
    }

    fn is_right(&self, entries: u64) -> bool {
        let whole = self.bytes == self.entries * VALUE_BYTES as u64;
        self.ordered && whole && self.entries == entries
    }
}

impl Load {
    fn read(&mut self, reading: Reading, time: Duration) -> Result<Figures> {
        if matches!(reading, Reading::Forward | Reading::Backward) {
            self.scan(reading)?;
            return self.scan(reading);
        }
        self.ranges(reading, SEED + 1, WARM)?;
        self.ranges(reading, SEED, time)
    }

    fn scan(&mut self, reading: Reading) -> Result<Figures> {
        let backward = reading == Reading::Backward;
        let (cpu, start) = (cpu_ns(), Instant::now());
        let mut found = Found::new();
        self.engine.scan(backward, &mut |key, value| found.take(key, value, backward))?;
        Ok(Figures {
            ranges: 1,
            entries: found.entries,
            seconds: start.elapsed().as_secs_f64(),
            cpu_seconds: (cpu_ns() - cpu) as f64 / 1e9,
            wrong: u64::from(!found.is_right(self.entries)),
        })
    }

    fn ranges(&mut self, reading: Reading, seed: u64, time: Duration) -> Result<Figures> {
        let (cpu, start) = (cpu_ns(), Instant::now());
        let mut figures = Figures::default();
        while start.elapsed() < time {
            let number = mix(mix(seed) ^ figures.ranges) % self.entries;
            let (right, entries) = self.one(reading, number)?;
            figures.wrong += u64::from(!right);
            figures.entries += entries;
            figures.ranges += 1;
        }
        figures.seconds = start.elapsed().as_secs_f64();
        figures.cpu_seconds = (cpu_ns() - cpu) as f64 / 1e9;
        Ok(figures)
    }

    /// The range of output `number`: whether it was right, and its entries.
    fn one(&mut self, reading: Reading, number: u64) -> Result<(bool, u64)> {
        let from = output(number);
        let mut found = Found::new();
        if reading == Reading::Prefix {
            let each = &mut |key: &[u8], value: &[u8]| found.take(key, value, false);
            self.engine.prefix(&prefix(&from), each)?;
            let first = number / OUTPUTS * OUTPUTS;
            let expected = OUTPUTS.min(self.entries - first);
            return Ok((found.is_right(expected), found.entries));
        }
        let length = if reading == Reading::Seek { 1 } else { LENGTH };
        let mut begins_there = false;
        self.engine.range(&from, length, &mut |key, value| {
            begins_there |= found.entries == 0 && key == from;
            found.take(key, value, false);
        })?;
        // Of the last keys there are fewer behind.
        let expected = if from[0] == u8::MAX { found.entries } else { length as u64 };
        Ok((begins_there && found.is_right(expected), found.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::key;

    #[test]
    fn a_wrong_range_is_seen() {
        let mut found = Found::new();
        found.take(&key(1), &[0; VALUE_BYTES], false);
        assert!(found.is_right(1) && !found.is_right(2));
        found.take(&key(1), &[0; VALUE_BYTES], false);
        assert!(!found.is_right(2), "the key came twice");
        let mut short = Found::new();
        short.take(&key(1), &[0; VALUE_BYTES - 1], false);
        assert!(!short.is_right(1), "a byte of the value is missing");
    }
}

//! The process of one engine: it fills a store, or does what it is told line by line.
//!
//! On standard input: `open`, then `go MILLISECONDS` as often as wanted, then `end`. Each is answered
//! by one line of JSON, so that a run can be cut into slices and stopped between them.

use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;

use crate::draw::{Draw, Key, Numbers, VALUE, key};
use crate::engine::{Engine, Result, Spec, Terms};
use crate::process::{cpu_ns, device_bytes};
use crate::record::{BatchTimes, Own, Slice};

/// Where the draw of keys begins, as in `varvite bench utxo run`.
pub const SEED: u64 = 1337;
/// Entries a batch when a store is filled.
const FILL_BATCH: u64 = 4096;

/// Makes the store in the empty folder `path` and leaves it at rest.
pub fn fill(path: &Path, spec: &Spec, entries: u64) -> Result<()> {
    let terms = Terms { entries, synced: false, ranges: false, limit_bytes: None };
    fill_with(path, spec, &terms, key)
}

/// Makes the store whose keys are what `key` gives for each number.
pub fn fill_with(path: &Path, spec: &Spec, terms: &Terms, key: fn(u64) -> Key) -> Result<()> {
    let entries = terms.entries;
    let mut engine = spec.open(path, terms)?;
    for first in (0..entries).step_by(FILL_BATCH as usize) {
        let fresh: Vec<Key> = (first..entries.min(first + FILL_BATCH)).map(key).collect();
        engine.batch(&[], &fresh, &mut |_| {})?;
    }
    engine.settle()
}

/// A run that goes on and stops as told.
struct Load {
    engine: Box<dyn Engine>,
    draw: Draw,
    numbers: Numbers,
    batches_left: u64,
    spent: Vec<Key>,
    fresh: Vec<Key>,
    times: Vec<u64>,
    own: Own,
}

/// Runs batches on the store in `path` as standard input says.
pub fn obey(path: &Path, spec: &Spec, terms: &Terms, batches: u64, batch_size: u64) -> Result<()> {
    // Nobody would wake a stopped process whose driver is gone.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut load: Option<Load> = None;
    for line in stdin().lock().lines() {
        let line = line?;
        let mut words = line.split(' ');
        match (words.next(), load.as_mut()) {
            (Some("open"), None) => {
                let opened = open(path, spec, terms, batches, batch_size)?;
                say(&opened.own)?;
                load = Some(opened);
            }
            (Some("go"), Some(load)) => {
                let milliseconds = words.next().ok_or("go how long?")?.parse()?;
                say(&load.go(Duration::from_millis(milliseconds))?)?;
            }
            (Some("end"), Some(load)) => {
                load.own.batch_us = BatchTimes::of(&mut load.times);
                say(&load.own)?;
                std::process::exit(0); // the folder is thrown away: nothing is to be closed in order
            }
            _ => return Err(format!("`{line}` makes no sense here").into()),
        }
    }
    Ok(())
}

fn open(path: &Path, spec: &Spec, terms: &Terms, batches: u64, batch_size: u64) -> Result<Load> {
    let draw = Draw::new(terms.entries, batches, batch_size, true, SEED);
    let start = Instant::now();
    let engine = spec.open(path, terms)?;
    let own = Own { open_seconds: start.elapsed().as_secs_f64(), ..Own::default() };
    Ok(Load {
        engine,
        draw,
        numbers: Numbers::default(),
        batches_left: batches,
        spent: Vec::new(),
        fresh: Vec::new(),
        times: Vec::with_capacity(batches as usize),
        own,
    })
}

impl Load {
    /// Batches until `time` is over or none is left.
    fn go(&mut self, time: Duration) -> Result<Slice> {
        let (read, written) = device_bytes();
        let (cpu, start) = (cpu_ns(), Instant::now());
        let mut operations = 0;
        while self.batches_left > 0 && start.elapsed() < time {
            let start = Instant::now();
            self.draw.next(&mut self.numbers);
            self.spent.clear();
            self.spent.extend(self.numbers.spent.iter().map(|number| key(*number)));
            let count = self.spent.len() as u64;
            let fresh = self.numbers.fresh..self.numbers.fresh + count;
            self.fresh.clear();
            self.fresh.extend(fresh.map(key));
            let mut right = 0;
            self.engine.batch(&self.spent, &self.fresh, &mut |value| {
                right += u64::from(value == Some(&VALUE[..]));
            })?;
            self.own.wrong += count - right;
            self.times.push(start.elapsed().as_nanos() as u64);
            operations += count;
            self.batches_left -= 1;
        }
        let slice = Slice {
            operations,
            seconds: start.elapsed().as_secs_f64(),
            cpu_seconds: (cpu_ns() - cpu) as f64 / 1e9,
        };
        let (read_now, written_now) = device_bytes();
        self.own.read_bytes += read_now - read;
        self.own.written_bytes += written_now - written;
        Ok(slice)
    }
}

/// Answers the driver.
pub fn say(value: &impl Serialize) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(value)?)?;
    out.flush()?;
    Ok(())
}

//! A chain replayed again and again into one table, so that it grows beyond the chain.
//!
//! Each round after the first has keys of its own: the transaction hash is combined with a number that
//! belongs to the round. Sizes of batches and values and the ages at which outputs are spent stay the
//! chain's.

use std::time::Instant;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::print;
use crate::system::measure::{self, Samples};
use crate::workload::cardano::{Key, Progress};

/// What a round does to keys; the first does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Salt([u8; 32]);

impl Salt {
    /// Of a round after the first.
    pub fn of(round: u64) -> Salt {
        Salt(Sha256::digest(round.to_be_bytes()).into())
    }

    /// The key in this round.
    pub fn key(&self, key: &Key) -> Key {
        let mut salted = *key;
        for (byte, salt) in salted.iter_mut().zip(&self.0) {
            *byte ^= salt;
        }
        salted
    }

    /// The keys in this round.
    pub fn keys(&self, keys: &[Key]) -> Vec<Key> {
        keys.iter().map(|key| self.key(key)).collect()
    }
}

/// Adds what another round counted.
pub fn add(total: &mut Progress, round: &Progress) {
    total.blocks += round.blocks;
    total.batches += round.batches;
    total.transactions += round.transactions;
    total.created += round.created;
    total.spent += round.spent;
    total.fees += round.fees;
    total.reference_inputs += round.reference_inputs;
    total.missing_inputs += round.missing_inputs;
    total.chain_breaks += round.chain_breaks;
    total.body_hash_mismatches += round.body_hash_mismatches;
    total.ada_balanced += round.ada_balanced;
    total.assets_balanced += round.assets_balanced;
    total.cpu_ns += round.cpu_ns;
}

/// Times what the table does, batch by batch.
#[derive(Debug, Default)]
pub struct Clock {
    started: Option<(Instant, u64)>,
    /// Of the batch in work.
    wall_ns: u64,
    cpu_ns: u64,
    batches: Samples,
    fit: Fit,
}

impl Clock {
    /// The table begins to work.
    pub fn start(&mut self) {
        self.started = Some((Instant::now(), measure::cpu_ns()));
    }

    /// It has done a part of a batch, or with `operations` the rest of it.
    pub fn stop(&mut self, operations: u64) {
        let Some((start, cpu_start)) = self.started.take() else { return };
        self.cpu_ns += measure::cpu_ns() - cpu_start;
        self.wall_ns += start.elapsed().as_nanos() as u64;
        if operations > 0 {
            self.batches.push(self.wall_ns);
            self.fit.add(operations as f64, self.cpu_ns as f64 / 1e3);
            (self.wall_ns, self.cpu_ns) = (0, 0);
        }
    }

    /// What was measured in all `rounds`.
    pub fn figures(&mut self, rounds: u64) -> Figures {
        let batches = &mut self.batches;
        let (fixed, _) = self.fit.line();
        Figures {
            rounds,
            operations: self.fit.x as u64,
            cpu_us_per_op: self.fit.y / self.fit.x.max(1.0),
            cpu_us_fixed_per_batch: fixed,
            batch_us: BatchTimes {
                p50: batches.microseconds(0.5),
                p99: batches.microseconds(0.99),
                p999: batches.microseconds(0.999),
                max: batches.microseconds(1.0),
            },
        }
    }
}

/// A straight line through points, by least squares.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    count: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

impl Fit {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
    }

    /// What it is at zero, and how much it rises by one.
    fn line(&self) -> (f64, f64) {
        let spread = self.count * self.xx - self.x * self.x;
        if spread <= 0.0 {
            return (0.0, self.y / self.x.max(1.0));
        }
        let slope = (self.count * self.xy - self.x * self.y) / spread;
        ((self.y - slope * self.x) / self.count, slope)
    }
}

/// What the rounds cost, by the names that programs rely on.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// How often the chain was replayed.
    rounds: u64,
    /// Outputs inserted and deleted, those of genesis included.
    operations: u64,
    /// Processor time of the table's lookups and updates, by operation.
    cpu_us_per_op: f64,
    /// What a batch costs beside its operations: the line through all batches, at no operation.
    cpu_us_fixed_per_batch: f64,
    /// Time of a batch in the table.
    batch_us: BatchTimes,
}

/// Percentiles in microseconds.
#[derive(Debug, Serialize)]
struct BatchTimes {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Figures {
    /// Rows for people.
    pub fn rows(&self) -> [(&'static str, String); 5] {
        let BatchTimes { p50, p99, p999, max } = &self.batch_us;
        [
            ("rounds", print::count(self.rounds)),
            ("operations (inserts and deletes)", print::count(self.operations)),
            ("processor time of the table, an operation", format!("{:.2} µs", self.cpu_us_per_op)),
            (
                "what a batch costs beside its operations",
                format!("{:.2} µs", self.cpu_us_fixed_per_batch),
            ),
            (
                "batch p50 / p99 / p99.9 / max",
                format!("{p50:.1} / {p99:.0} / {p999:.0} / {max:.0} µs"),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_salts_differ() {
        let mut fit = Fit::default();
        for x in 1..50 {
            fit.add(f64::from(x), 3.0 + 2.0 * f64::from(x));
        }
        let (fixed, slope) = fit.line();
        assert!((fixed - 3.0).abs() < 1e-6 && (slope - 2.0).abs() < 1e-6);
        let key = [7; 34];
        assert_eq!(Salt::default().key(&key), key);
        assert_ne!(Salt::of(1).key(&key), Salt::of(2).key(&key));
        assert_eq!(Salt::of(1).key(&Salt::of(1).key(&key)), key);
    }
}

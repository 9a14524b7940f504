//! The blocks of a trace: the first ones each by itself, and more than these in parts of the time that double, so that no
//! number of them takes more memory.

use hdrhistogram::Histogram;

use super::sums::{Sums, record};
use super::{BlockRow, POINTS, Point};
use crate::timings::Latency;

/// Blocks that are kept each by itself.
const FEW: usize = 1 << 16;

/// Slowest blocks that are kept by name.
const WORST: usize = 16;

/// A block that ended, or one under way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ended {
    pub end_ns: u64,
    pub calls: u64,
    pub total_ns: u64,
    pub commit_ns: u64,
    pub transactions: u64,
}

/// Blocks of a part of the time.
#[derive(Clone, Debug)]
struct Part {
    blocks: u64,
    calls: u64,
    transactions: u64,
    longest_ns: u64,
    durations: Histogram<u32>,
}

impl Part {
    fn new() -> Part {
        let durations = Sums::new().durations;
        Part { blocks: 0, calls: 0, transactions: 0, longest_ns: 0, durations }
    }

    fn add(&mut self, block: &Ended) {
        self.blocks += 1;
        self.calls = self.calls.saturating_add(block.calls);
        self.transactions = self.transactions.saturating_add(block.transactions);
        self.longest_ns = self.longest_ns.max(block.total_ns);
        record(&mut self.durations, block.total_ns);
    }

    fn join(&mut self, other: &Part) {
        self.blocks += other.blocks;
        self.calls = self.calls.saturating_add(other.calls);
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        // It grows by itself.
        let _ = self.durations.add(&other.durations);
    }

    fn point(&self, part: usize, width_ns: u64) -> Point {
        let at = |share: f64| {
            let bound_ns = self.durations.value_at_quantile(share).min(self.longest_ns);
            bound_ns as f64 / 1e6
        };
        Point {
            second: part as f64 * width_ns as f64 / 1e9,
            seconds: width_ns as f64 / 1e9,
            blocks: self.blocks,
            calls: self.calls,
            transactions: self.transactions,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: self.longest_ns as f64 / 1e6,
        }
    }
}

/// Blocks of which there are too many for each to be kept.
#[derive(Clone, Debug)]
struct Parts {
    width_ns: u64,
    parts: Vec<Part>,
}

impl Parts {
    fn add(&mut self, block: &Ended) {
        while block.end_ns / self.width_ns >= POINTS as u64 {
            let mut parts = std::mem::take(&mut self.parts).into_iter();
            while let Some(mut first) = parts.next() {
                if let Some(second) = parts.next() {
                    first.join(&second);
                }
                self.parts.push(first);
            }
            self.width_ns = self.width_ns.saturating_mul(2);
        }
        let part = (block.end_ns / self.width_ns) as usize;
        while self.parts.len() <= part {
            self.parts.push(Part::new());
        }
        self.parts[part].add(block);
    }

    fn timeline(&self) -> Vec<Point> {
        let filled = self.parts.iter().enumerate().filter(|(_, it)| it.blocks > 0);
        filled.map(|(part, it)| it.point(part, self.width_ns)).collect()
    }
}

/// Blocks that ended.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// None is here any more once there are `parts`.
    few: Vec<Ended>,
    parts: Option<Parts>,
    count: u64,
    last_ns: u64,
    total_ns: u64,
    longest_ns: u64,
    transactions: u64,
    durations: Histogram<u32>,
    worst: Vec<(Ended, u64, String)>,
}

impl Blocks {
    pub fn new() -> Blocks {
        Blocks {
            few: Vec::new(),
            parts: None,
            count: 0,
            last_ns: 0,
            total_ns: 0,
            longest_ns: 0,
            transactions: 0,
            durations: Sums::new().durations,
            worst: Vec::new(),
        }
    }

    pub fn add(&mut self, block: Ended, name: String) {
        self.last_ns = block.end_ns;
        self.total_ns = self.total_ns.saturating_add(block.total_ns);
        self.longest_ns = self.longest_ns.max(block.total_ns);
        self.transactions = self.transactions.saturating_add(block.transactions);
        record(&mut self.durations, block.total_ns);
        let at = self.worst.partition_point(|(it, ..)| it.total_ns >= block.total_ns);
        if at < WORST {
            self.worst.truncate(WORST - 1);
            self.worst.insert(at, (block, self.count, name));
        }
        self.count += 1;
        if let Some(parts) = &mut self.parts {
            return parts.add(&block);
        }
        self.few.push(block);
        if self.few.len() == FEW {
            let mut parts = Parts { width_ns: 1_000_000, parts: Vec::new() };
            for block in std::mem::take(&mut self.few) {
                parts.add(&block);
            }
            self.parts = Some(parts);
        }
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    /// When the last one ended.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    pub fn latency(&self) -> Latency {
        Latency::of(&self.durations, self.count, self.total_ns, self.longest_ns)
    }

    /// The slowest, that first.
    pub fn worst(&self) -> Vec<BlockRow> {
        let row = |(block, number, name): &(Ended, u64, String)| BlockRow {
            name: name.clone(),
            number: *number,
            second: block.end_ns as f64 / 1e9,
            calls: block.calls,
            total_ms: block.total_ns as f64 / 1e6,
            commit_ms: block.commit_ns as f64 / 1e6,
        };
        self.worst.iter().map(row).collect()
    }

    /// The blocks over the time up to `end_ns`.
    pub fn timeline(&self, end_ns: u64) -> Vec<Point> {
        match &self.parts {
            Some(parts) => parts.timeline(),
            None => timeline(&self.few, end_ns),
        }
    }

    #[cfg(test)]
    pub fn kept(&self) -> (usize, usize) {
        (self.few.capacity(), self.parts.as_ref().map_or(0, |it| it.parts.len()))
    }
}

fn timeline(blocks: &[Ended], end_ns: u64) -> Vec<Point> {
    let parts = POINTS.min(blocks.len());
    if parts == 0 {
        return Vec::new();
    }
    let width = (end_ns / parts as u64).saturating_add(1);
    let mut durations: Vec<Vec<u64>> = vec![Vec::new(); parts];
    let (mut calls, mut transactions) = (vec![0_u64; parts], vec![0_u64; parts]);
    for block in blocks {
        let part = ((block.end_ns / width) as usize).min(parts - 1);
        durations[part].push(block.total_ns);
        calls[part] = calls[part].saturating_add(block.calls);
        transactions[part] = transactions[part].saturating_add(block.transactions);
    }
    let points = durations.into_iter().zip(calls.into_iter().zip(transactions)).enumerate();
    points
        .filter(|(_, (durations, _))| !durations.is_empty())
        .map(|(part, (mut durations, (calls, transactions)))| {
            durations.sort_unstable();
            let at = |share: f64| {
                let rank = (share * durations.len() as f64).ceil() as usize;
                durations[rank.clamp(1, durations.len()) - 1] as f64 / 1e6
            };
            Point {
                second: part as f64 * width as f64 / 1e9,
                seconds: width as f64 / 1e9,
                blocks: durations.len() as u64,
                calls,
                transactions,
                p50_ms: at(0.5),
                p90_ms: at(0.9),
                p99_ms: at(0.99),
                max_ms: at(1.0),
            }
        })
        .collect()
}

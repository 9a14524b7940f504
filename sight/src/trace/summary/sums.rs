//! Calls added up: by action, in decades, and over time in parts that double.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use varvite::trace::{Action, Call, Face};

use super::{Activity, POINTS, Range, Row};
use crate::timings::Latency;

/// Decades from less than a microsecond to a hundred seconds and more.
const DECADES: usize = 10;

/// Calls, their time, and the longest, by decade.
type Decades = [(u64, u64, u64); DECADES];

fn decade(duration_ns: u64) -> usize {
    let us = duration_ns / 1_000;
    us.checked_ilog10().map_or(0, |it| it as usize + 1).min(DECADES - 1)
}

/// Time in calls by action, in parts of the time that double when there would be too many.
#[derive(Clone, Debug)]
pub struct Grid {
    width_ns: u64,
    parts: Vec<BTreeMap<Action, u64>>,
}

impl Grid {
    pub fn new() -> Grid {
        Grid { width_ns: 1_000_000, parts: Vec::new() }
    }

    pub fn add(&mut self, call: &Call) {
        while call.start_ns / self.width_ns >= POINTS as u64 {
            let parts = std::mem::take(&mut self.parts);
            for pair in parts.chunks(2) {
                let mut joined = BTreeMap::new();
                for (action, ns) in pair.iter().flatten() {
                    let sum: &mut u64 = joined.entry(*action).or_default();
                    *sum = sum.saturating_add(*ns);
                }
                self.parts.push(joined);
            }
            let Some(width_ns) = self.width_ns.checked_mul(2) else { return };
            self.width_ns = width_ns;
        }
        let part = (call.start_ns / self.width_ns) as usize;
        if self.parts.len() <= part {
            self.parts.resize_with(part + 1, BTreeMap::new);
        }
        let sum = self.parts[part].entry(call.action).or_default();
        *sum = sum.saturating_add(call.duration_ns);
    }

    pub fn activity(&self) -> Vec<Activity> {
        let parts = self.parts.iter().enumerate().map(|(part, actions)| Activity {
            second: (part as u64 * self.width_ns) as f64 / 1e9,
            total_ms: actions.iter().map(|(it, ns)| (it.name(), *ns as f64 / 1e6)).collect(),
        });
        parts.collect()
    }
}

#[derive(Clone, Debug)]
pub struct Sums {
    total_ns: u64,
    bytes_given: u64,
    found: u64,
    pub durations: Histogram<u32>,
    decades: Decades,
}

impl Sums {
    pub fn new() -> Sums {
        let durations = Histogram::new(2).expect("two digits are a precision that there is");
        Sums { total_ns: 0, bytes_given: 0, found: 0, durations, decades: Decades::default() }
    }

    pub fn add(&mut self, call: &Call, given: u64, found: u64) {
        self.total_ns = self.total_ns.saturating_add(call.duration_ns);
        self.bytes_given += given;
        self.found = self.found.saturating_add(found);
        record(&mut self.durations, call.duration_ns);
        let (calls, total_ns, max_ns) = &mut self.decades[decade(call.duration_ns)];
        *calls += 1;
        *total_ns = total_ns.saturating_add(call.duration_ns);
        *max_ns = call.duration_ns.max(*max_ns);
    }

    /// A class of the histogram holds no more than 32 bits.
    fn calls(&self) -> u64 {
        self.decades.iter().map(|(calls, ..)| calls).sum()
    }

    fn longest_ns(&self) -> u64 {
        self.decades.iter().map(|(.., max_ns)| *max_ns).max().unwrap_or(0)
    }

    pub fn ranges(&self, action: Action) -> impl Iterator<Item = Range> {
        let filled = self.decades.iter().enumerate().filter(|(_, (calls, ..))| *calls > 0);
        filled.map(move |(at, (calls, total_ns, max_ns))| Range {
            action: action.name(),
            from_us: if at == 0 { 0 } else { 10_u64.pow(at as u32 - 1) },
            calls: *calls,
            mean_us: *total_ns as f64 / 1e3 / *calls as f64,
            max_us: *max_ns as f64 / 1e3,
            total_ms: *total_ns as f64 / 1e6,
        })
    }

    /// Shares of calls that took no longer than so many microseconds.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        distribution(&self.durations, self.longest_ns())
    }

    pub fn row(&self, action: Action, prefix: &str) -> Row {
        Row {
            face: match action.face() {
                Face::Host => "host",
                Face::Context => "context",
                Face::Table => "table",
            },
            action: action.name(),
            prefix: prefix.to_owned(),
            calls: self.calls(),
            bytes_given: self.bytes_given,
            found: self.found,
            total_ms: self.total_ns as f64 / 1e6,
            latency: Latency::of(&self.durations, self.calls(), self.total_ns, self.longest_ns()),
        }
    }
}

/// Adds a duration, a day at most: what is longer is no duration.
pub fn record(durations: &mut Histogram<u32>, duration_ns: u64) {
    let _ = durations.record(duration_ns.min(86_400_000_000_000));
}

/// Steps of a distribution, none above the longest: its class ends behind that.
fn distribution(durations: &Histogram<u32>, longest_ns: u64) -> Vec<(f64, f64)> {
    let shares = [
        0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995,
        0.998, 0.999, 0.9999, 1.0,
    ];
    let at = |share: f64| {
        let bound_ns = durations.value_at_quantile(share).min(longest_ns);
        (bound_ns as f64 / 1e3, share)
    };
    shares.into_iter().map(at).collect()
}

//! Runs beside each other: what got worse, against the first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::summary::{Row, Summary};

/// Runs beside each other.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Each run, the first being what the others are compared with.
    pub runs: Vec<Summary>,
    /// What is slower than in the first run, the worst first.
    pub worse: Vec<Change>,
    /// What is faster.
    pub better: Vec<Change>,
    /// Actions that the first run or the other one did not call: they are neither faster nor slower.
    pub only: Vec<Only>,
}

/// A figure of a run beside that of the first.
#[derive(Clone, Debug, Serialize)]
pub struct Change {
    /// Which run.
    pub run: String,
    /// What it is of: an action, with its prefix if it has one, or blocks.
    pub of: String,
    /// Which figure.
    pub figure: &'static str,
    /// In the first run.
    pub first: f64,
    /// In this one.
    pub this: f64,
    /// This one over the first: infinite, in JSON nothing, where that had none.
    pub ratio: f64,
}

/// An action that one of two runs called and the other did not, as an engine that only reads makes no commit.
#[derive(Clone, Debug, Serialize)]
pub struct Only {
    /// The run that is beside the first.
    pub run: String,
    /// Whether it is the first that called it.
    pub is_first: bool,
    /// Which action.
    pub action: &'static str,
    /// How often.
    pub calls: u64,
    /// Time in all of them.
    pub total_ms: f64,
}

/// A change that is told of: a twentieth.
const LEAST: f64 = 1.05;

/// Calls that a figure needs to count.
const CALLS_MIN: u64 = 20;

/// What an action with fewer calls, or another number of them, takes in all, to be told of: a collection does, an opening does not.
const RARE_MS: f64 = 10.0;

/// Compares runs with the first.
#[must_use]
pub fn compare(runs: Vec<Summary>) -> Comparison {
    let (mut changes, mut only) = (Vec::new(), Vec::new());
    if let Some((first, others)) = runs.split_first() {
        for other in others {
            add_changes(first, other, &mut changes);
            add_only(first, other, &mut only);
        }
    }
    let (mut worse, mut better): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|change: &Change| change.ratio > 1.0);
    worse.retain(|change| change.ratio >= LEAST);
    better.retain(|change| change.ratio <= 1.0 / LEAST);
    worse.sort_by(|left, right| right.ratio.total_cmp(&left.ratio));
    better.sort_by(|left, right| left.ratio.total_cmp(&right.ratio));
    Comparison { runs, worse, better, only }
}

fn add_changes(first: &Summary, this: &Summary, changes: &mut Vec<Change>) {
    let mut add = |of: &str, figure, one: f64, other: f64| {
        if one > 0.0 || other > 0.0 {
            let (run, of, ratio) = (this.name.clone(), of.to_owned(), other / one);
            changes.push(Change { run, of, figure, first: one, this: other, ratio });
        }
    };
    // A run without blocks has no such time.
    let blocks = [&first.block_latency, &this.block_latency];
    if blocks.iter().all(|blocks| blocks.max_us > 0.0) {
        add("blocks", "mean µs", blocks[0].mean_us, blocks[1].mean_us);
        add("blocks", "p50 µs", blocks[0].p50_us, blocks[1].p50_us);
        add("blocks", "p99 µs", blocks[0].p99_us, blocks[1].p99_us);
        add("blocks", "p99.9 µs", blocks[0].p999_us, blocks[1].p999_us);
        add("blocks", "max µs", blocks[0].max_us, blocks[1].max_us);
    }
    let rates = [first.blocks_per_second, this.blocks_per_second];
    if rates[0] > 0.0 && rates[1] > 0.0 {
        add("blocks", "ms a block, by the clock", 1e3 / rates[0], 1e3 / rates[1]);
    }
    let rates = [first.transactions_per_second, this.transactions_per_second];
    if let [Some(one), Some(other)] = rates.map(|it| it.filter(|it| *it > 0.0)) {
        add("transactions", "ms a transaction, by the clock", 1e3 / one, 1e3 / other);
    }
    // Of other calls the whole says nothing.
    if first.calls == this.calls {
        add("calls", "in all, ms", first.busy_seconds * 1e3, this.busy_seconds * 1e3);
    }
    add("calls", "failed", first.failed as f64, this.failed as f64);
    let rows = [(&first.actions, &this.actions), (&first.prefixes, &this.prefixes)];
    for (firsts, these) in rows {
        for row in firsts {
            let same = |it: &&Row| it.action == row.action && it.prefix == row.prefix;
            // Prefixes are the most frequent ones of each run: one that is not there may be among the others.
            let is_action = row.prefix.is_empty();
            let Some(other) = these.iter().find(same) else { continue };
            let is_rare = row.calls.min(other.calls) < CALLS_MIN;
            if is_action && row.total_ms.max(other.total_ms) >= RARE_MS {
                let of = row.action;
                if row.calls != other.calls {
                    // Of other work the whole says nothing: what it is of a block does, or else of all calls.
                    if let Some((figure, [one, this])) = share(of, [first, this]) {
                        add(of, figure, one, this);
                    }
                } else if is_rare {
                    add(of, "total ms", row.total_ms, other.total_ms);
                }
                if is_rare && row.calls != other.calls {
                    add(of, "mean µs", row.latency.mean_us, other.latency.mean_us);
                }
            }
            if is_rare {
                continue;
            }
            let of = format!("{} {}", row.action, row.prefix);
            let (one, other) = (&row.latency, &other.latency);
            add(of.trim_end(), "mean µs", one.mean_us, other.mean_us);
            add(of.trim_end(), "p99 µs", one.p99_us, other.p99_us);
            if is_action {
                add(of.trim_end(), "p99.9 µs", one.p999_us, other.p999_us);
                add(of.trim_end(), "max µs", one.max_us, other.max_us);
            }
        }
    }
    // Nothing is known of what a run used that did not say it, as of the one beside a replay, or of a system that does not
    // count it. More transactions are no cost.
    for (name, points) in first.samples.iter().filter(|it| it.0 != super::summary::TRANSACTIONS) {
        let Some(others) = this.samples.get(name) else { continue };
        let grown = |points: &[(f64, u64)]| match points {
            [(_, start), .., (_, end)] if name != "rss_bytes" => end.saturating_sub(*start),
            points => points.iter().map(|(_, value)| *value).max().unwrap_or(0),
        };
        add(name, "used", grown(points) as f64, grown(others) as f64);
    }
}

/// What an action takes of each block of its run, or, where a run has none, of the time of all calls: of what the host called
/// itself. None where both is less than [`RARE_MS`], as of what was called before the first block.
fn share(action: &str, runs: [&Summary; 2]) -> Option<(&'static str, [f64; 2])> {
    let has_blocks = runs.iter().all(|run| run.blocks > 0);
    let totals = runs.map(|run| {
        if has_blocks {
            sum(run.block_times.iter().map(|it| &it.total_ms), action)
        } else {
            sum(run.activity.iter().map(|it| &it.total_ms), action)
        }
    });
    if totals.iter().all(|total| *total < RARE_MS) {
        return None;
    }
    let [first, this] =
        runs.map(|run| if has_blocks { run.blocks as f64 } else { run.busy_seconds * 1e3 / 100.0 });
    let of = |total: f64, all: f64| if all > 0.0 { total / all } else { 0.0 };
    let figure = if has_blocks { "ms a block" } else { "% of calls" };
    Some((figure, [of(totals[0], first), of(totals[1], this)]))
}

/// The time of one action.
fn sum<'a>(times: impl Iterator<Item = &'a BTreeMap<&'static str, f64>>, action: &str) -> f64 {
    times.filter_map(|it| it.get(action)).sum()
}

fn add_only(first: &Summary, this: &Summary, only: &mut Vec<Only>) {
    for (is_first, one, other) in [(true, first, this), (false, this, first)] {
        let is_missing = |row: &&Row| other.actions.iter().all(|it| it.action != row.action);
        only.extend(one.actions.iter().filter(is_missing).map(|row| Only {
            run: this.name.clone(),
            is_first,
            action: row.action,
            calls: row.calls,
            total_ms: row.total_ms,
        }));
    }
}

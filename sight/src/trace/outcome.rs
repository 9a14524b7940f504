//! What a replay found, and how long its actions took.

use serde::Serialize;

use crate::timings::Latency;

/// What a replay found.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Calls that were run.
    pub calls: u64,
    /// Calls that were not: they had failed, or were made within others, or on what is not there.
    pub skipped: u64,
    /// Answers that were others.
    pub mismatches: u64,
    /// The first of them.
    pub first_mismatch: Option<String>,
    /// Commits among the calls.
    pub commits: u64,
    /// Time in calls.
    pub seconds: f64,
    /// Latency of each action, that with the most time first.
    pub actions: Vec<ActionTime>,
}

/// How long an action took.
#[derive(Clone, Debug, Serialize)]
pub struct ActionTime {
    /// What was called.
    pub action: &'static str,
    /// How often.
    pub calls: u64,
    /// Time of all calls.
    pub total_ms: f64,
    /// Of a call.
    pub latency: Latency,
}

//! Calls that pass many things: a fold, a diff or a merge, in which the host is asked about each, and the steps of a
//! cursor.

use std::ops::Bound;
use std::sync::Arc;

use super::action::Action;
use super::frame::{Answer, DigestOfMany};
use super::recorder::{Arguments, Begun, Recorder, Traced};
use crate::error::Result;

/// A call that asks the host about what it passes. The calls that the host makes then are its own, and neither their
/// time nor the host's is the walk's.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    /// The recorder, the handle that the call is on, and when it began.
    begun: Option<(&'a Recorder, Option<u64>, Begun)>,
    passed: DigestOfMany,
    count: u64,
    is_ended: bool,
}

impl<'a> Walk<'a> {
    /// Begins a call on `traced`, if anything is recorded.
    pub fn begin(traced: Option<&'a Traced>) -> Walk<'a> {
        let begun = traced.map(|it| (&**it.recorder(), Some(it.handle()), it.recorder().begin()));
        Walk { begun, passed: DigestOfMany::default(), count: 0, is_ended: false }
    }

    /// Begins a call on a store.
    pub fn of_store(recorder: &'a Recorder) -> Walk<'a> {
        let begun = Some((recorder, None, recorder.begin()));
        Walk { begun, passed: DigestOfMany::default(), count: 0, is_ended: false }
    }

    /// Asks the host about one thing, of which `digest` is told.
    pub fn ask<T>(
        &mut self,
        digest: impl FnOnce(&mut DigestOfMany),
        host: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some((recorder, _, begun)) = &mut self.begun else { return host() };
        self.count += 1;
        // What is only recorded is no part of the walk's time, either.
        let passed = &mut self.passed;
        let outcome = recorder.aside(begun, || {
            digest(passed);
            host()
        });
        self.is_ended |= outcome.is_err();
        outcome
    }

    /// How many things were passed where the host ended the walk with the last of them; 0 where it did not.
    pub fn ended_at(&self) -> u64 {
        if self.is_ended { self.count } else { 0 }
    }

    /// Ends the call, whose answer is the digest of what was passed.
    pub fn end<T>(
        self,
        action: Action,
        arguments: impl for<'x, 'y> FnOnce(&'x mut Arguments<'y>) -> &'x mut Arguments<'y>,
        outcome: &Result<T>,
    ) {
        let done = outcome.is_ok() || self.is_ended;
        let answer = Answer::Digest(Some(self.passed.finish()));
        self.end_with(action, arguments, if done { answer } else { Answer::Failed });
    }

    /// Ends the call with another answer.
    pub fn end_with(
        mut self,
        action: Action,
        arguments: impl for<'x, 'y> FnOnce(&'x mut Arguments<'y>) -> &'x mut Arguments<'y>,
        answer: Answer,
    ) {
        let Some((recorder, handle, begun)) = self.begun.take() else { return };
        recorder.end(
            begun,
            action,
            |to| arguments(handle.into_iter().fold(to, |to, handle| to.handle(handle))),
            answer,
        );
    }
}

/// One that panics, as in a host's observer, is no call.
impl Drop for Walk<'_> {
    fn drop(&mut self) {
        if let Some((recorder, _, begun)) = self.begun.take() {
            recorder.forget(begun);
        }
    }
}

/// Of the steps of a cursor the first are timed, and later ones now and then: a reading of the clock costs a good part
/// of a step.
const TIMED_FIRST: u64 = 8;
const TIMED_NTH: u64 = 16;

/// The time of steps, not all of which are timed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepTimes {
    /// Of the first steps, and of those of the later ones that were timed, and how many these are.
    first_ns: u64,
    later_ns: u64,
    later: u64,
}

impl StepTimes {
    /// Whether the step behind so many is timed.
    pub fn is_timed(steps: u64) -> bool {
        steps < TIMED_FIRST || steps.is_multiple_of(TIMED_NTH)
    }

    /// Adds what the step behind so many took, which is timed.
    pub fn add(&mut self, steps: u64, took_ns: u64) {
        if steps < TIMED_FIRST {
            self.first_ns = self.first_ns.saturating_add(took_ns);
        } else {
            self.later_ns = self.later_ns.saturating_add(took_ns);
            self.later += 1;
        }
    }

    /// The time of so many steps in all: the later ones took what those of them took that were timed, or as the first ones.
    pub fn spent_ns(&self, steps: u64) -> u64 {
        let others = u128::from(steps.saturating_sub(TIMED_FIRST));
        let (ns, timed) = match self.later {
            0 => (self.first_ns, TIMED_FIRST),
            timed => (self.later_ns, timed),
        };
        let later_ns = u128::from(ns) * others / u128::from(timed);
        self.first_ns.saturating_add(u64::try_from(later_ns).unwrap_or(u64::MAX))
    }
}

/// Where a range begins and ends.
pub(crate) type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// How steps came to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The host took no more.
    Left,
    /// Nothing more was there.
    Over,
    Failed,
}

/// Steps of a cursor in one direction, which are one call: a range from where the cursor stood.
#[derive(Debug)]
pub(crate) struct Steps {
    recorder: Arc<Recorder>,
    handle: u64,
    bounds: Bounds,
    is_backward: bool,
    start_ns: u64,
    times: StepTimes,
    keys: DigestOfMany,
    values: DigestOfMany,
    /// How many keys were given, of how many the value was read, and whether that of the last one was.
    counts: (u64, u64),
    has_value: bool,
    outcome: Outcome,
}

impl Steps {
    /// Begins steps between `bounds`.
    pub fn begin(traced: &Traced, bounds: Bounds, is_backward: bool) -> Steps {
        let recorder = Arc::clone(traced.recorder());
        Steps {
            start_ns: recorder.now_ns(),
            recorder,
            handle: traced.handle(),
            bounds,
            is_backward,
            times: StepTimes::default(),
            keys: DigestOfMany::default(),
            values: DigestOfMany::default(),
            counts: (0, 0),
            has_value: false,
            outcome: Outcome::Left,
        }
    }

    /// When the next step begins, if its time counts.
    pub fn clock(&self) -> Option<u64> {
        StepTimes::is_timed(self.counts.0).then(|| self.recorder.now_ns())
    }

    /// Notes a step that began at `clock` and came to `key`, or to the end.
    pub fn step(&mut self, clock: Option<u64>, outcome: &Result<bool>, key: &[u8]) {
        if let Some(start_ns) = clock {
            let took_ns = self.recorder.now_ns().saturating_sub(start_ns);
            self.times.add(self.counts.0, took_ns);
        }
        match outcome {
            Ok(true) => {
                self.keys.add(Some(key));
                self.counts.0 += 1;
                self.has_value = false;
            }
            Ok(false) => self.outcome = Outcome::Over,
            Err(_) => self.outcome = Outcome::Failed,
        }
    }

    /// Notes that what the last step came to could not be read, and was not given.
    pub fn fail(&mut self) {
        self.outcome = Outcome::Failed;
    }

    /// Notes the value of the last key.
    pub fn value(&mut self, value: &[u8]) {
        if !std::mem::replace(&mut self.has_value, true) {
            self.values.add(Some(value));
            self.counts.1 += 1;
        }
    }
}

impl Drop for Steps {
    /// Tells of them.
    fn drop(&mut self) {
        let (count, read) = self.counts;
        let has_values = count > 0 && read == count;
        let digest = self.keys.finish();
        let digest = if has_values { digest.with(self.values.finish()) } else { digest };
        let flags = u64::from(self.is_backward)
            | u64::from(has_values) << 1
            | u64::from(self.outcome == Outcome::Over) << 2;
        let answer = if self.outcome == Outcome::Failed {
            Answer::Failed
        } else {
            Answer::Digest(Some(digest))
        };
        let (lower, upper) = &self.bounds;
        let bounds = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
        let handle = self.handle;
        let steps = count + u64::from(self.outcome != Outcome::Left);
        self.recorder.end_spent(
            (self.start_ns, self.times.spent_ns(steps)),
            Action::Range,
            |to| to.handle(handle).bounds(bounds).number(flags).number(count),
            answer,
        );
    }
}

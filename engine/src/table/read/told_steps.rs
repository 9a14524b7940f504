//! Steps of a cursor in one direction, of which the session's recorder and its observer are told as one.

use std::sync::Arc;

use super::view::View;
use crate::error::Result;
use crate::table::shared::{Named, Operation, SegmentStore};
use crate::trace::{Bounds, StepTimes, Steps};

/// Steps that go on until the cursor turns, is moved, comes to an end or is dropped.
pub struct ToldSteps {
    is_backward: bool,
    traced: Option<Steps>,
    observed: Option<ObservedSteps>,
}

/// When a step began, by the clock of the recorder and by that of the observer.
pub struct StepBegun(Option<u64>, Option<u64>);

impl ToldSteps {
    /// Whether anybody is told of what a cursor of `view` gives.
    pub fn are_wanted(view: &View) -> bool {
        view.name.traced().is_some() || is_observed(view)
    }

    /// Begins steps of a cursor of `view` between `bounds`.
    pub fn begin(view: &View, bounds: Bounds, is_backward: bool) -> ToldSteps {
        let traced = view.name.traced().map(|it| Steps::begin(it, bounds, is_backward));
        let observed = is_observed(view).then(|| ObservedSteps {
            name: Arc::clone(&view.name),
            store: Arc::clone(&view.store),
            times: StepTimes::default(),
            steps: 0,
            keys: 0,
        });
        ToldSteps { is_backward, traced, observed }
    }

    /// In which direction.
    pub fn is_backward(&self) -> bool {
        self.is_backward
    }

    /// When the next step begins, where its time counts.
    pub fn clock(&self) -> StepBegun {
        let traced = self.traced.as_ref().and_then(Steps::clock);
        StepBegun(traced, self.observed.as_ref().and_then(ObservedSteps::clock))
    }

    /// Notes a step that came to `key`, or to the end; whether more may follow.
    pub fn step(&mut self, begun: &StepBegun, outcome: &Result<bool>, key: &[u8]) -> bool {
        if let Some(observed) = &mut self.observed {
            observed.step(begun.1, outcome);
        }
        if let Some(traced) = &mut self.traced {
            traced.step(begun.0, outcome, key);
        }
        matches!(outcome, Ok(true))
    }

    /// Notes that what the last step came to could not be read, and was not given.
    pub fn fail(&mut self) {
        if let Some(traced) = &mut self.traced {
            traced.fail();
        }
    }

    /// Notes the value of the last key.
    pub fn value(&mut self, value: &[u8]) {
        if let Some(traced) = &mut self.traced {
            traced.value(value);
        }
    }
}

fn is_observed(view: &View) -> bool {
    view.name.is_hosts() && view.store.observer().is_some()
}

/// What the observer is told of them.
struct ObservedSteps {
    name: Arc<Named>,
    times: StepTimes,
    steps: u64,
    keys: u64,
    /// Last, as in a view.
    store: Arc<SegmentStore>,
}

impl ObservedSteps {
    fn now_ns(&self) -> Option<u64> {
        Some(self.store.observer()?.now_ns())
    }

    fn clock(&self) -> Option<u64> {
        if StepTimes::is_timed(self.steps) { self.now_ns() } else { None }
    }

    fn step(&mut self, begun: Option<u64>, outcome: &Result<bool>) {
        if let Some(begun) = begun
            && let Some(now) = self.now_ns()
        {
            self.times.add(self.steps, now.saturating_sub(begun));
        }
        self.steps += 1;
        self.keys += u64::from(matches!(outcome, Ok(true)));
    }
}

impl Drop for ObservedSteps {
    /// Tells of them.
    fn drop(&mut self) {
        let told = (Operation::Range, self.name.text());
        self.store.tell(told, self.times.spent_ns(self.steps), self.keys);
    }
}

//! How a session tells its observer of what it does, and what that cost.

use std::sync::Arc;

use super::options::{Observed, Operation, OperationCost};
use super::segment_store::SegmentStore;
use crate::error::Result;
use crate::trace::{Action, Answer, Traced};

/// What a table is called, and what a recorder knows it by. Views of it share both.
#[derive(Debug)]
pub struct Named {
    name: String,
    traced: Option<Traced>,
}

impl Named {
    /// A name that no recorder is told of.
    pub fn untraced(name: &str) -> Arc<Named> {
        Arc::new(Named { name: name.to_owned(), traced: None })
    }

    /// The name of a table that is made or opened.
    pub fn opened(store: &SegmentStore, name: &str) -> Arc<Named> {
        let Some(recorder) = &store.options.recorder else { return Named::untraced(name) };
        let begun = recorder.begin();
        let traced = Traced::new(recorder);
        let (action, answer) = (Action::OpenTable, Answer::Handle(traced.handle()));
        recorder.end(begun, action, |to| to.bytes(name.as_bytes()), answer);
        Arc::new(Named { name: name.to_owned(), traced: Some(traced) })
    }

    /// The name of a table that is made of this one.
    pub fn duplicated(&self, name: &str) -> Arc<Named> {
        let Some(traced) = &self.traced else { return Named::untraced(name) };
        let (recorder, handle) = (traced.recorder(), traced.handle());
        let begun = recorder.begin();
        let copy = Traced::new(recorder);
        let (action, answer) = (Action::Duplicate, Answer::Handle(copy.handle()));
        recorder.end(begun, action, |to| to.handle(handle).bytes(name.as_bytes()), answer);
        Arc::new(Named { name: name.to_owned(), traced: Some(copy) })
    }

    /// The same of a view that a host takes.
    pub fn viewed(self: &Arc<Named>) -> Arc<Named> {
        self.of_same_name(Action::View)
    }

    /// The same of the table as a transaction has it, from its first read of what it wrote.
    pub fn drafted(self: &Arc<Named>) -> Arc<Named> {
        self.of_same_name(Action::Draft)
    }

    fn of_same_name(self: &Arc<Named>, action: Action) -> Arc<Named> {
        let Some(traced) = &self.traced else { return Arc::clone(self) };
        let (recorder, handle) = (traced.recorder(), traced.handle());
        let begun = recorder.begin();
        let own = Traced::new(recorder);
        let answer = Answer::Handle(own.handle());
        recorder.end(begun, action, |to| to.handle(handle), answer);
        Arc::new(Named { name: self.name.clone(), traced: Some(own) })
    }

    /// What it is called.
    pub fn text(&self) -> &str {
        &self.name
    }

    /// What a recorder knows it by.
    pub fn traced(&self) -> Option<&Traced> {
        self.traced.as_ref()
    }
}

impl std::ops::Deref for Named {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

impl SegmentStore {
    /// Runs `action` on `table`, or on no single one, and tells the observer, if there is one, how long it
    /// took and what it cost.
    pub fn observe<T>(
        &self,
        (operation, table): (Operation, &str),
        count: u64,
        action: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(begun) = self.begin() else { return action() };
        let outcome = action();
        self.record((operation, table), &begun, count);
        outcome
    }

    /// When something begins of which the observer is told, if there is one, and what was counted before.
    pub fn begin(&self) -> Option<(u64, OperationCost)> {
        let observer = self.options.observer.as_ref()?;
        let cost = self.counters.cost();
        Some((observer.now_ns(), cost))
    }

    /// Tells the observer, if there is one, of something that began with `begun`.
    pub fn record(
        &self,
        (operation, table): (Operation, &str),
        (start_ns, before): &(u64, OperationCost),
        count: u64,
    ) {
        let Some(observer) = &self.options.observer else { return };
        let duration_ns = observer.now_ns().saturating_sub(*start_ns);
        let cost = self.counters.cost().since(before);
        observer.observe(&Observed { operation, table, duration_ns, count, cost });
    }

    /// Runs `sync`, whose time is counted where there is an observer.
    pub fn time_sync<T>(&self, sync: impl FnOnce() -> T) -> T {
        let Some(observer) = &self.options.observer else { return sync() };
        let start_ns = observer.now_ns();
        let outcome = sync();
        self.counters.add_sync(observer.now_ns().saturating_sub(start_ns));
        outcome
    }
}

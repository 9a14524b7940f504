//! How a session tells its observer of what it does, and what that cost.

use std::sync::Arc;

use super::options::{Observed, Observer, Operation, OperationCost};
use super::segment_store::SegmentStore;
use crate::error::Result;
use crate::trace::{Action, Answer, Begun, Recorder, Traced};

/// What a table is called, and what a recorder knows it by. Views of it share both.
#[derive(Debug)]
pub struct Named {
    name: String,
    traced: Option<Traced>,
    /// Whether reads are calls of the host, of which an observer is told.
    is_hosts: bool,
}

impl Named {
    /// A name that no recorder is told of.
    pub fn untraced(name: &str) -> Arc<Named> {
        Arc::new(Named { name: name.to_owned(), traced: None, is_hosts: true })
    }

    /// The same of a view that the engine takes for itself.
    pub fn inner(name: &str) -> Arc<Named> {
        Arc::new(Named { name: name.to_owned(), traced: None, is_hosts: false })
    }

    /// A name by which a recorder knows the table as `traced`.
    fn of_traced(name: &str, traced: Traced) -> Arc<Named> {
        Arc::new(Named { name: name.to_owned(), traced: Some(traced), is_hosts: true })
    }

    /// Runs what makes a table of this one, called `name`, as a call. `named` is the name that the copy has.
    pub fn duplicated<T>(
        &self,
        name: &str,
        named: impl FnOnce(&mut T) -> &mut Arc<Named>,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let Some(traced) = &self.traced else { return work() };
        let (recorder, handle) = (traced.recorder(), traced.handle());
        let begun = recorder.begin_inner();
        let mut outcome = work();
        let answer = outcome.as_mut().map_or(Answer::Failed, |copy| {
            let own = Traced::new(recorder);
            let answer = Answer::Handle(own.handle());
            *named(copy) = Named::of_traced(name, own);
            answer
        });
        let action = Action::Duplicate;
        recorder.end(begun, action, |to| to.handle(handle).bytes(name.as_bytes()), answer);
        outcome
    }

    /// The same of a view that a host takes.
    pub fn viewed(self: &Arc<Named>) -> Arc<Named> {
        self.of_same_name(Action::View)
    }

    /// The same of the table as a transaction has it, from its first read of what it wrote.
    pub fn drafted(self: &Arc<Named>) -> Arc<Named> {
        self.of_same_name(Action::Draft)
    }

    /// Tells that the snapshot which is saved next has the table.
    pub fn saved(&self) {
        if let Some(traced) = &self.traced {
            let (recorder, handle) = (traced.recorder(), traced.handle());
            let begun = recorder.begin();
            recorder.end(begun, Action::SaveTable, |to| to.handle(handle), Answer::Nothing);
        }
    }

    fn of_same_name(self: &Arc<Named>, action: Action) -> Arc<Named> {
        let Some(traced) = &self.traced else { return Arc::clone(self) };
        let (recorder, handle) = (traced.recorder(), traced.handle());
        let begun = recorder.begin();
        let own = Traced::new(recorder);
        let answer = Answer::Handle(own.handle());
        recorder.end(begun, action, |to| to.handle(handle), answer);
        Named::of_traced(&self.name, own)
    }

    /// What it is called.
    pub fn text(&self) -> &str {
        &self.name
    }

    /// Whether an observer is told of what is read under it.
    pub fn is_hosts(&self) -> bool {
        self.is_hosts
    }

    /// What a recorder knows it by.
    pub(in crate::table) fn traced(&self) -> Option<&Traced> {
        self.traced.as_ref()
    }
}

impl std::ops::Deref for Named {
    type Target = str;

    fn deref(&self) -> &str {
        &self.name
    }
}

/// A call under way that gives the host tables, of which a recorder is told when it ends: of each table, the first with
/// the time.
pub struct Opening<'a>(Option<(&'a Arc<Recorder>, Option<Begun>)>);

impl Opening<'_> {
    /// The same name, that the recorder knows from now on.
    pub fn named(&mut self, name: &Named) -> Arc<Named> {
        let text = name.text();
        let Some((recorder, begun)) = &mut self.0 else { return Named::untraced(text) };
        let begun = begun.take().unwrap_or_else(|| recorder.begin_inner());
        let traced = Traced::new(recorder);
        let (action, answer) = (Action::OpenTable, Answer::Handle(traced.handle()));
        recorder.end(begun, action, |to| to.bytes(text.as_bytes()), answer);
        Named::of_traced(text, traced)
    }

    /// Tells that there is no table `name`, since the call failed.
    pub fn failed(self, name: &str) {
        if let Some((recorder, Some(begun))) = self.0 {
            let action = Action::OpenTable;
            recorder.end(begun, action, |to| to.bytes(name.as_bytes()), Answer::Failed);
        }
    }
}

impl SegmentStore {
    /// Begins a call that gives the host tables. In it they have names that no recorder is told of.
    pub fn opening(&self) -> Opening<'_> {
        Opening(self.options.recorder.as_ref().map(|it| (it, Some(it.begin_inner()))))
    }

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

    /// Who is told of what is done. The package for JavaScript has no observers.
    pub fn observer(&self) -> Option<&dyn Observer> {
        if cfg!(varvite_js) { None } else { self.options.observer.as_deref() }
    }

    /// When something begins of which the observer is told, if there is one, and what was counted before.
    pub fn begin(&self) -> Option<(u64, OperationCost)> {
        let observer = self.observer()?;
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
        let Some(observer) = self.observer() else { return };
        let duration_ns = observer.now_ns().saturating_sub(*start_ns);
        let cost = self.counters.cost().since(before);
        observer.observe(&Observed { operation, table, duration_ns, count, cost });
    }

    /// Tells the observer, if there is one, of what took so long in parts, between which there was other work: what the
    /// parts cost is not known.
    pub fn tell(&self, (operation, table): (Operation, &str), duration_ns: u64, count: u64) {
        let Some(observer) = self.observer() else { return };
        let cost = OperationCost::default();
        observer.observe(&Observed { operation, table, duration_ns, count, cost });
    }

    /// Runs `sync`, whose time is counted where there is an observer.
    pub fn time_sync<T>(&self, sync: impl FnOnce() -> T) -> T {
        let Some(observer) = self.observer() else { return sync() };
        let start_ns = observer.now_ns();
        let outcome = sync();
        self.counters.add_sync(observer.now_ns().saturating_sub(start_ns));
        outcome
    }
}

//! What a recorder is told of trees: by which number it knows them, and what is in those that it does not.

use std::sync::Arc;

use super::{Order, Tree};
use crate::error::Result;
use crate::trace::{self, Action, Answer, Digest, Recorder, Traced};

/// Bytes of content after which a call ends that tells of a tree that was made elsewhere.
const GIVEN_BYTES: usize = 1 << 20;

/// What an entry takes beside its value and the bytes of its steps, and each step.
const ENTRY_BYTES: usize = 64;
const STEP_BYTES: usize = 32;

/// The answer of a list.
pub(super) fn listed(page: &[(Vec<u8>, Tree)]) -> Answer {
    Answer::Digest(Some(Digest::of_all(page.iter().map(|(name, _)| Some(&**name)))))
}

/// Runs `find`, whose tree is a new handle.
pub(super) fn found_tree<S: AsRef<[u8]>>(
    traced: Option<&Traced>,
    path: &[S],
    find: impl FnOnce() -> Result<Option<Tree>>,
) -> Result<Option<Tree>> {
    let Some(traced) = traced else { return find() };
    let (recorder, handle) = (traced.recorder(), traced.handle());
    let begun = recorder.begin_inner();
    let mut outcome = find();
    if let Ok(Some(tree)) = &mut outcome {
        tree.traced = Some(Traced::new(recorder));
    }
    let answer = match &outcome {
        Ok(found) => Answer::Handle(found.as_ref().map_or(0, Tree::handle)),
        Err(_) => Answer::Failed,
    };
    recorder.end(begun, Action::FindTree, |to| to.handle(handle).path(path), answer);
    outcome
}

impl Tree {
    /// The number that its recorder knows it by; 0 for none.
    pub(crate) fn handle(&self) -> u64 {
        self.traced.as_ref().map_or(0, Traced::handle)
    }

    /// Gives it a number that `recorder` knows from now on, and returns that.
    pub(crate) fn make_known(&mut self, recorder: &Arc<Recorder>) -> u64 {
        self.traced = Some(Traced::new(recorder));
        self.handle()
    }

    /// A number for it as an argument of a call on `traced`, unless it has one; what is in it is told then.
    pub(super) fn beside(&self, traced: &Traced) -> Option<Traced> {
        (!traced.knows(self.traced.as_ref())).then(|| self.told_to(traced.recorder()))
    }

    /// Runs `work` as the call that gives this tree.
    pub(crate) fn recorded_as_new(
        recorder: Option<&Arc<Recorder>>,
        action: Action,
        hash: Option<&[u8; 32]>,
        work: impl FnOnce() -> Result<Tree>,
    ) -> Result<Tree> {
        let Some(recorder) = recorder else { return work() };
        let (begun, mut outcome) = trace::run(recorder, work);
        if let Ok(tree) = &mut outcome {
            tree.traced = Some(Traced::new(recorder));
        }
        let answer = outcome.as_ref().map_or(Answer::Failed, |tree| Answer::Handle(tree.handle()));
        recorder.end(
            begun,
            action,
            |to| hash.into_iter().fold(to, |to, hash| to.hash(hash)),
            answer,
        );
        outcome
    }

    /// Takes the handle for a call that `recorder` is told of as a whole; what is in a tree that it does not know
    /// is told first.
    pub(crate) fn take_traced(&mut self, recorder: &Arc<Recorder>) -> Traced {
        let traced = self.traced.take().filter(|traced| Arc::ptr_eq(traced.recorder(), recorder));
        traced.unwrap_or_else(|| self.told_to(recorder))
    }

    /// Gives back what [`Tree::take_traced`] took.
    pub(crate) fn give_traced(&mut self, traced: Traced) {
        self.traced = Some(traced);
    }

    /// Tells what is in the tree. What cannot be read is left out, since the call itself may not need it: the last
    /// call that tells has failed then.
    fn told_to(&self, recorder: &Arc<Recorder>) -> Traced {
        let traced = Traced::new(recorder);
        let mut entries = Vec::new();
        let mut bytes = 0;
        let tell = |entries: &mut Vec<(Vec<Vec<u8>>, Vec<u8>)>, answer| {
            let begun = recorder.begin_inner();
            let handle = traced.handle();
            recorder.end(begun, Action::Given, |to| to.handle(handle).entries(entries), answer);
            entries.clear();
        };
        let value = self.to_value().map(|value| entries.extend(value.map(|it| (Vec::new(), it))));
        // One that another recorder knows is not asked, but a handle of its own.
        let content = self.at(self.root.clone());
        let told = content.fold::<&[u8]>(&[], None, Order::Undefined, |path, tree| {
            if let Some(value) = tree.to_value()? {
                let steps: usize = path.iter().map(|step| step.len() + STEP_BYTES).sum();
                bytes += value.len() + steps + ENTRY_BYTES;
                entries.push((path.to_vec(), value));
            }
            if bytes >= GIVEN_BYTES {
                tell(&mut entries, Answer::Nothing);
                bytes = 0;
            }
            Ok(())
        });
        tell(&mut entries, value.and(told).map_or(Answer::Failed, |()| Answer::Nothing));
        traced
    }
}

//! Which trees a trace does not have whole, and what came of these: their answers may be others for that.

use std::collections::HashSet;

use varvite::trace::{Action, Answer, Argument, Call};

/// Trees and commits that are not whole.
#[derive(Debug, Default)]
pub(super) struct Partial {
    trees: HashSet<u64>,
    commits: HashSet<[u8; 32]>,
}

impl Partial {
    /// Whether the call is on one of them.
    pub(super) fn concerns(&self, call: &Call) -> bool {
        call.arguments.iter().any(|argument| match argument {
            Argument::Handle(handle) => self.trees.contains(handle),
            Argument::Hash(hash) => self.commits.contains(hash),
            _ => false,
        })
    }

    /// Takes note of a call that was run.
    pub(super) fn note(&mut self, call: &Call) {
        match (call.action, call.arguments.first(), call.answer) {
            (Action::Release, Some(Argument::Handle(handle)), _) => {
                self.trees.remove(handle);
            }
            (Action::Given, Some(Argument::Handle(handle)), Answer::Failed) => {
                self.trees.insert(*handle);
            }
            (_, _, Answer::Handle(handle)) if !self.concerns(call) => {
                self.trees.remove(&handle);
            }
            _ if !self.concerns(call) => {}
            (_, _, Answer::Handle(handle)) if handle > 0 => {
                self.trees.insert(handle);
            }
            (Action::AddTree, Some(Argument::Handle(handle)), _) => {
                self.trees.insert(*handle);
            }
            (Action::Commit, _, Answer::Hash(hash)) => {
                self.commits.insert(hash);
            }
            _ => {}
        }
    }
}

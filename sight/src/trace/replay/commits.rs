//! Calls on a context's store itself: its commits, which ones stay, and what they are called.

use varvite::Result;
use varvite::context::{CommitHash, Store};
use varvite::trace::{Action, Answer, Argument, Call, Digest};

use super::{Replay, odd};

impl Replay {
    pub(super) fn on_store(
        &mut self,
        store: &mut Store,
        call: &Call,
        arguments: &[Argument],
    ) -> Result<Option<Answer>> {
        let action = call.action;
        let answer = match (action, arguments) {
            (Action::EmptyTree, []) => {
                let tree = self.timed(action, |_| Ok(store.empty_tree()))?;
                self.new_tree(call, Some(tree))
            }
            (Action::Checkout, [Argument::Hash(commit)]) => {
                if self.reads_only && !store.exists(&CommitHash::new(*commit))? {
                    return Ok(None);
                }
                let tree = self.timed(action, |_| store.checkout(&CommitHash::new(*commit)))?;
                self.new_tree(call, Some(tree))
            }
            (Action::Exists, [Argument::Hash(commit)]) => {
                // The store may have it already, or, where nothing is committed, not have it.
                let (had_commits, reads_only) = (self.had_commits, self.reads_only);
                let is_other = |exists: &bool| match call.answer {
                    Answer::Flag(before) if before != *exists => {
                        if *exists {
                            had_commits
                        } else {
                            reads_only
                        }
                    }
                    _ => false,
                };
                let exists = self
                    .timed_unless(action, is_other, |_| store.exists(&CommitHash::new(*commit)))?;
                let Some(exists) = exists else { return Ok(None) };
                Answer::Flag(exists)
            }
            (Action::CommitInfo, [Argument::Hash(commit)]) => {
                if self.reads_only && !store.exists(&CommitHash::new(*commit))? {
                    return Ok(None);
                }
                let info = self.timed(action, |_| store.commit_info(&CommitHash::new(*commit)))?;
                Answer::Digest(Some(Digest::of(info.tree.as_ref())))
            }
            _ if self.reads_only => return Ok(None),
            (Action::Log, [Argument::Number(limit)]) => {
                return self.log(call, |_| store.log(*limit as usize));
            }
            (Action::LogBefore, [Argument::Hash(commit), Argument::Number(limit)]) => {
                let before = CommitHash::new(*commit);
                return self.log(call, |_| store.log_before(&before, *limit as usize));
            }
            (Action::Checkpoint, []) => {
                self.timed(action, |_| store.checkpoint())?;
                Answer::Nothing
            }
            (Action::MergeCommits, _) => return self.merge_commits(store, call, arguments),
            _ => return self.life(store, call, arguments),
        };
        Ok(Some(answer))
    }

    /// A log, which has other commits where the store had some before.
    fn log(
        &mut self,
        call: &Call,
        work: impl FnOnce(&mut Self) -> Result<Vec<CommitHash>>,
    ) -> Result<Option<Answer>> {
        let had_commits = self.had_commits;
        let answer = |all: &Vec<CommitHash>| {
            Answer::Digest(Some(Digest::of_all(all.iter().map(|hash| Some(&hash[..])))))
        };
        let is_other = |all: &Vec<CommitHash>| had_commits && answer(all) != call.answer;
        Ok(self.timed_unless(call.action, is_other, work)?.as_ref().map(answer))
    }

    /// Calls that take commits away, or see that they stay, or give them another name.
    fn life(
        &mut self,
        store: &mut Store,
        call: &Call,
        arguments: &[Argument],
    ) -> Result<Option<Answer>> {
        let action = call.action;
        if self.keeps_all {
            return Ok(None);
        }
        match (action, arguments) {
            (Action::SetBranch, [Argument::Bytes(name), Argument::Hash(commit)]) => {
                self.timed(action, |_| store.set_branch(name, &CommitHash::new(*commit)))?;
            }
            (Action::RemoveBranch, [Argument::Bytes(name)]) => {
                self.timed(action, |_| store.remove_branch(name))?;
            }
            (Action::Collect, [Argument::Hash(commit)]) => {
                self.timed(action, |_| store.collect(&CommitHash::new(*commit)))?;
            }
            (Action::CollectStep, [Argument::Number(credits)]) => {
                // How far a step comes depends on the files: it ended where the recorded one did.
                let is_over = call.answer == Answer::Flag(false);
                while self.timed(action, |_| store.collect_step((*credits).max(1)))? && is_over {}
                return Ok(Some(call.answer));
            }
            (Action::CollectPause, []) => self.timed(action, |_| store.collect_pause())?,
            (Action::CollectResume, []) => self.timed(action, |_| store.collect_resume())?,
            (Action::CollectCancel, []) => {
                self.timed(action, |_| store.collect_cancel())?;
            }
            (Action::Pin, [Argument::Hash(commit)]) => {
                self.timed(action, |_| store.pin(&CommitHash::new(*commit)))?;
            }
            (Action::PinEvery, [Argument::Number(nth)]) => {
                let pinned = self.timed(action, |_| store.pin_every(*nth))?;
                return Ok(Some(Answer::Number(pinned)));
            }
            (Action::Unpin, [Argument::Hash(commit)]) => {
                let was = self.timed(action, |_| store.unpin(&CommitHash::new(*commit)))?;
                return Ok(Some(Answer::Flag(was)));
            }
            (Action::Clear, []) => self.timed(action, |_| store.clear())?,
            _ => return Err(odd()),
        }
        Ok(Some(Answer::Nothing))
    }
}

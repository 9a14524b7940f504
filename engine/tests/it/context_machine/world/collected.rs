//! Steps of collections: the model knows which commits stay.

use std::collections::BTreeSet;

use varvite::context::{CollectPhase, CommitHash, Keep};
use varvite::error::Kind as ErrorKind;

use super::World;
use crate::context_machine::pair::Pair;
use crate::random::Random;

/// What a collection that marks will keep.
#[derive(Debug)]
pub(super) struct Keeping {
    /// Commits from this number on.
    first: usize,
    /// And those.
    named: BTreeSet<CommitHash>,
}

impl World {
    fn phase(&mut self) -> CollectPhase {
        self.store().collect_status().unwrap().phase
    }

    /// Begins a collection, goes on with one, or does something to it.
    pub(super) fn collect(&mut self, random: &mut Random) {
        if random.one_in(5) {
            self.pin(random);
        } else if self.phase() == CollectPhase::None {
            self.begin_collection(random);
        } else {
            match random.index(8) {
                0 => {
                    self.is_unfinished |= self.phase() == CollectPhase::Cleaning;
                    assert!(self.store().collect_cancel().unwrap());
                    self.keeping = None;
                    self.count("a collection was cancelled");
                }
                1 => {
                    self.store().collect_pause().unwrap();
                    assert!(!self.store().collect_step(1 << 20).unwrap());
                    assert!(self.store().collect_status().unwrap().is_paused);
                    self.store().collect_resume().unwrap();
                }
                _ => {
                    let credits = 1 << random.index(15);
                    if !self.store().collect_step(credits).unwrap() {
                        self.is_unfinished = false;
                        self.count("a collection ended");
                    }
                }
            }
        }
        self.note_horizon();
    }

    fn begin_collection(&mut self, random: &mut Random) {
        let (count, old) = (self.held.commits.len(), self.kept_before);
        if count == old {
            return;
        }
        let first = old + random.index(count - old);
        if !self.below.is_empty() {
            return self.refuse_collection(first);
        }
        if random.one_in(2) {
            let target = self.held.commits[first].0;
            self.store().collect(&target).unwrap();
        } else {
            let newest = Keep::Newest((count - first) as u64);
            let begun = self.store().collect_keeping(&newest).unwrap();
            let goes = first > old || self.is_left_behind();
            assert_eq!(begun, goes, "{count} commits, {old} of them are kept, to {first}");
            if !begun {
                return;
            }
        }
        assert!(!self.store().collect_keeping(&Keep::Newest(1)).unwrap());
        self.copy_chunks();
        self.keep_from(first);
    }

    /// Whether something is there of before the last collection's target that need not be.
    fn is_left_behind(&mut self) -> bool {
        let named: BTreeSet<_> = self.held.branches.values().chain(&self.pins).copied().collect();
        let mut kept = self.held.commits[..self.kept_before].iter();
        let is_left = self.is_unfinished || kept.any(|(commit, _)| !named.contains(commit));
        if is_left {
            self.count("something was left behind");
        }
        is_left
    }

    /// What stays is chosen by what branches and pins name now.
    fn keep_from(&mut self, first: usize) {
        let named = self.held.branches.values().chain(&self.pins).copied().collect();
        self.keeping = Some(Keeping { first, named });
    }

    /// An opening goes on with a collection that marks, and chooses anew.
    pub(super) fn choose_again(&mut self) {
        if let Some(Keeping { first, .. }) = self.keeping {
            self.keep_from(first);
            self.count("an opening beside a collection that marks");
        }
        self.note_horizon();
        let pins: BTreeSet<_> = self.store().pins().unwrap().into_iter().collect();
        assert_eq!(pins, self.pins);
    }

    /// Whether the commit with this number will go.
    pub(super) fn goes(&self, number: usize) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| {
            number < keeping.first && !keeping.named.contains(&self.held.commits[number].0)
        })
    }

    /// Whether what becomes of the commit with this number is not decided yet.
    pub(super) fn is_before_target(&self, number: usize) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| number < keeping.first)
    }

    fn pin(&mut self, random: &mut Random) {
        let count = self.held.commits.len();
        if count == 0 {
            return;
        }
        let number = random.index(count);
        let hash = self.held.commits[number].0;
        if self.pins.remove(&hash) {
            assert!(self.store().unpin(&hash).unwrap());
        } else if self.goes(number) {
            let error = self.store().pin(&hash).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Collected, "{error}");
            self.count("what goes was not pinned");
        } else {
            self.store().pin(&hash).unwrap();
            self.pins.insert(hash);
            self.count("a pin");
        }
    }

    /// Once a collection takes away, what does not stay is gone: for the store, and for readers from their
    /// next reload on. Trees of before may hold what is gone.
    pub(super) fn note_horizon(&mut self) {
        if self.keeping.is_none() || self.phase() == CollectPhase::Marking {
            return;
        }
        let gone: Vec<CommitHash> = (0..self.held.commits.len())
            .filter(|number| self.goes(*number))
            .map(|number| self.held.commits[number].0)
            .collect();
        let Some(keeping) = self.keeping.take() else { return };
        self.kept_before = keeping.first - gone.len();
        self.held.commits.retain(|(hash, _)| !gone.contains(hash));
        for hash in &gone {
            let error = self.store().checkout(hash).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Collected, "{error}");
            self.count("a commit went");
        }
        self.handles.clear();
        self.other_tree = Pair::empty(self.other.empty_tree());
        // The change of the horizon is durable, with all before it.
        self.history.clear();
        self.changed();
        for at in 0..self.readers.len() {
            self.reload(at as u8);
        }
    }
}

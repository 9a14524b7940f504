//! Commits that stay through every collection.

use std::collections::HashSet;

use super::Store;
use crate::context::files::control::KEPT_MAX;
use crate::context::files::hash_index::is_damage;
use crate::context::hash::{self, CommitHash};
use crate::context::observer::Operation;
use crate::error::{Error, Kind, Result};
use crate::order;
use crate::trace::{Action, Answer};

impl Store {
    /// Keeps a commit, and all of its tree, through every collection until it is unpinned. `Missing` for an
    /// unknown commit, `Collected` for one that is no more or is about to go. Takes a checkpoint.
    pub fn pin(&mut self, commit: &CommitHash) -> Result<()> {
        self.told(Action::Pin, |to| to.hash(commit), |store| store.add_pin(commit))
    }

    fn add_pin(&mut self, commit: &CommitHash) -> Result<()> {
        let _span = self.span(Operation::Pin);
        let offset = self.commit_offset(commit)?;
        self.expect_to_stay(commit, offset)?;
        let tip = self.tip()?;
        let mut pins = tip.writer()?.control.pins.clone();
        let Err(place) = pins.binary_search(&offset) else { return Ok(()) };
        if pins.len() == KEPT_MAX {
            return Err(too_many("pins"));
        }
        pins.insert(place, offset);
        self.change_control(|control| control.pins = pins)
    }

    /// Pins every `nth` commit, by the numbers of [`commit_info`](Store::commit_info), that is not collected and goes with no collection that is
    /// under way; returns how many were not pinned before. A host that calls it before each
    /// [`collect_keeping`](Store::collect_keeping) keeps a thinned history behind its window. Reads one record for each commit down to the
    /// horizon; takes at most one checkpoint. `Invalid` for 0.
    pub fn pin_every(&mut self, nth: u64) -> Result<u64> {
        let (action, answer) = (Action::PinEvery, |pinned: &u64| Answer::Number(*pinned));
        self.told_with(action, |to| to.number(nth), answer, |store| store.add_pins(nth))
    }

    fn add_pins(&mut self, nth: u64) -> Result<u64> {
        let _span = self.span(Operation::Pin);
        if nth == 0 {
            return Err(Error::invalid("every 0th commit: give a number from 1 on"));
        }
        let tip = self.tip()?;
        let mut pins = tip.writer()?.control.pins.clone();
        let (before, horizon) = (pins.len(), self.control.horizon.commit);
        let mut offset = self.newest_commit();
        while offset >= horizon.max(1) {
            let (_, body) = self.commit_at(offset)?;
            if body.sequence.is_multiple_of(nth) && tip.writer()?.stays(offset) {
                pins.push(offset);
            }
            offset = self.commit_before(&body);
        }
        order::sort_by(&mut pins, Ord::cmp);
        pins.dedup();
        let added = pins.len() - before;
        if pins.len() > KEPT_MAX {
            return Err(too_many("pins"));
        }
        if added > 0 {
            self.change_control(|control| control.pins = pins)?;
        }
        Ok(added as u64)
    }

    /// Lets the next collection take a commit that was pinned; returns whether it was, `false` also of one that was collected
    /// since. Reads one record for each pin;
    /// takes a checkpoint.
    pub fn unpin(&mut self, commit: &CommitHash) -> Result<bool> {
        let (action, answer) = (Action::Unpin, |was: &bool| Answer::Flag(*was));
        self.told_with(action, |to| to.hash(commit), answer, |store| store.remove_pin(commit))
    }

    fn remove_pin(&mut self, commit: &CommitHash) -> Result<bool> {
        let _span = self.span(Operation::Pin);
        // One that was collected is pinned no more: who does the last step again after a crash hears so.
        let known = match self.commit_offset(commit) {
            Err(error) if error.kind() == Kind::Collected => None,
            known => Some(known?),
        };
        let (mut pins, all) = (Vec::new(), self.pinned()?);
        for offset in &all {
            // One that was written again may be pinned at both places. What is damaged is another: it stays.
            let is_it = Some(*offset) == known
                || match self.commit_at(*offset) {
                    Err(error) if !is_damage(&error) => return Err(error),
                    found => found.is_ok_and(|(hash, _)| hash == *commit),
                };
            if !is_it {
                pins.push(*offset);
            }
        }
        if pins.len() == all.len() {
            return Ok(false);
        }
        self.change_control(|control| control.pins = pins)?;
        Ok(true)
    }

    /// The commits that are pinned, the oldest first. One read each.
    pub fn pins(&self) -> Result<Vec<CommitHash>> {
        let mut seen = HashSet::new();
        let hashes = self.pinned()?.into_iter().map(|offset| Ok(self.commit_at(offset)?.0));
        let new = hashes.filter(|hash| hash.as_ref().map_or(true, |hash| seen.insert(*hash)));
        new.collect()
    }

    /// Where they are.
    fn pinned(&self) -> Result<Vec<u64>> {
        Ok(match &self.tip {
            Some(tip) => tip.writer()?.control.pins.clone(),
            None => self.control.pins.clone(),
        })
    }

    /// `Collected` when the commit at `offset` will go with the collection that is under way.
    pub(super) fn expect_to_stay(&self, commit: &CommitHash, offset: u64) -> Result<()> {
        if self.tip()?.writer()?.stays(offset) {
            return Ok(());
        }
        Err(Error::new(
            Kind::Collected,
            format!(
                "commit {} goes with the collection that is under way: cancel that first",
                hash::to_text(commit)
            ),
        ))
    }

    /// The commits before `target` that branches name, and those that are pinned. Of one that is pinned and was written
    /// again both records stay: the index leads to the newer.
    pub(super) fn kept_below(&self, target: u64) -> Result<Vec<u64>> {
        let pins = self.pinned()?;
        let mut kept = pins.clone();
        for (_, commit) in self.branches() {
            kept.extend(self.newest_record(&commit)?);
        }
        let fits = |kept: &mut Vec<u64>| {
            kept.retain(|offset| *offset < target);
            order::sort_by(kept, Ord::cmp);
            kept.dedup();
            if kept.len() > KEPT_MAX { Err(too_many("branches and pins")) } else { Ok(()) }
        };
        fits(&mut kept)?;
        for pin in pins {
            kept.extend(self.newest_record(&self.commit_at(pin)?.0)?);
        }
        fits(&mut kept)?;
        Ok(kept)
    }

    /// Where the index finds a commit that is there.
    fn newest_record(&self, commit: &CommitHash) -> Result<Option<u64>> {
        Ok(self.find_commit(commit)?.filter(|offset| !self.has_collected(*offset)))
    }
}

fn too_many(what: &str) -> Error {
    Error::invalid(format!("a store keeps at most {KEPT_MAX} old commits for {what}: remove some"))
}

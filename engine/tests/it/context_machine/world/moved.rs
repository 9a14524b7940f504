//! Steps of the lower layer: chunks move there and back, and what collections took comes back from there. Of
//! the commits the model knows that none changes by a move; of the folder, which chunks it holds, and which commits they have.

use std::collections::BTreeSet;
use std::sync::Arc;

use varvite::context::{ChunkState, CollectPhase, CommitHash, Keep, Store};
use varvite::disk::{Access, Mode};
use varvite::error::Kind as ErrorKind;

use super::harmed::reads;
use super::{World, options};
use crate::random::Random;

impl World {
    pub(super) fn move_chunks(&mut self, random: &mut Random) {
        let count = self.held.commits.len();
        if count == 0 {
            return;
        }
        let number = if random.one_in(3) { random.index(count) } else { count - 1 };
        let target = self.held.commits[number].0;
        let most = random.choose(&[1, 2, u64::MAX]);
        if self.store().collect_status().unwrap().phase != CollectPhase::None {
            let store = self.store();
            let outcomes = [store.archive(&target, most), store.unarchive(most), store.attach()];
            for outcome in outcomes {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Invalid);
            }
            if random.one_in(2) {
                return;
            }
            while self.store().collect_step(1 << 20).unwrap() {}
            self.is_unfinished = false;
            self.count("a collection ended");
            return self.note_horizon();
        }
        if !self.below.is_empty() && random.one_in(2) {
            let came = self.store().unarchive(most).unwrap();
            assert_eq!(came, most.min(self.below.len() as u64), "so many are below");
            // The newest first.
            (0..came).for_each(|_| assert!(self.below.pop_last().is_some()));
            self.count("a chunk came back");
        } else if random.one_in(2) {
            self.attach();
        } else {
            let whole = self.numbers_of(ChunkState::Whole);
            let moved = match self.store().archive(&target, most) {
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    self.remove_older_history();
                    self.store().archive(&target, most).unwrap()
                }
                outcome => outcome.unwrap(),
            };
            let (from, to) = self.places[&target];
            if from == to {
                let older = whole.iter().filter(|number| **number < to).count() as u64;
                assert_eq!(moved, most.min(older), "chunks before that of the commit");
            }
            // The oldest first.
            self.below.extend(whole.into_iter().take(moved as usize));
            if moved > 0 {
                self.count("a chunk moved below");
                if self.store().chunks().iter().any(|chunk| chunk.above_bytes > 0) {
                    self.count("what recent commits need of a chunk stayed above");
                }
            }
            if random.one_in(2) {
                // Which the next one may move.
                self.store().begin_chunk().unwrap();
            }
            if most == u64::MAX {
                assert_eq!(self.store().archive(&target, 1).unwrap(), 0);
            }
        }
        self.compare_places();
        // By a stream of its own, so that what comes next is drawn as it was before.
        self.harm_chunks(&mut random.clone());
        self.moment += 1;
    }

    /// Of before the store was cleared: the lower folder has that alone, and takes nothing of another history.
    fn remove_older_history(&mut self) {
        let epoch = format!("{:04}-", self.store().stats().epoch);
        let names = self.lower.list("").unwrap();
        let packs: Vec<_> = names.iter().filter(|name| name.contains(".pack")).collect();
        assert!(
            !packs.is_empty() && packs.iter().all(|name| !name.starts_with(&epoch)),
            "{packs:?}"
        );
        for name in packs {
            self.lower.remove(name).unwrap();
        }
        self.count("an older history was in the way");
    }

    /// All that collections took is in the lower folder, by [`World::copy_chunks`] or because it was moved there.
    fn attach(&mut self) {
        if self.is_twice {
            return;
        }
        let there = [ChunkState::Whole, ChunkState::Lower].map(|state| self.numbers_of(state));
        let there = there.concat();
        let missing = (0..self.last_chunk()).filter(|number| !there.contains(number));
        let missing: Vec<u64> = missing.collect();
        let attached = match self.store().attach() {
            // A collection to the last commit has just ended its chunk.
            Err(error) if error.to_string().contains("commit once more") => {
                assert_eq!(error.kind(), ErrorKind::Invalid);
                self.count("an attachment was refused that would have taken the last commit below");
                return;
            }
            attached => attached.unwrap(),
        };
        assert_eq!(attached, missing.len() as u64, "the store has no more of so many");
        self.below.extend(missing);
        (self.kept_before, self.is_unfinished) = (0, false);
        if self.held.commits.len() < self.held.ever.len() {
            self.held.commits.clone_from(&self.held.ever);
            // As a collection's horizon: durable, with all before it.
            self.history.clear();
            self.changed();
            self.count("what collections took came back");
        }
        assert_eq!(self.store().attach().unwrap(), 0);
    }

    /// The numbers of the store's chunks that are in this state.
    fn numbers_of(&mut self, state: ChunkState) -> Vec<u64> {
        let chunks = self.store().chunks();
        chunks.iter().filter(|chunk| chunk.state == state).map(|chunk| chunk.number).collect()
    }

    /// Where the store says that chunks are, and the folder has the files of them.
    fn compare_places(&mut self) {
        let epoch = self.store().stats().epoch;
        assert_eq!(self.store().archived_bytes() > 0, !self.below.is_empty());
        assert!(self.numbers_of(ChunkState::Lower).iter().eq(&self.below), "{:?}", self.below);
        let there = self.lower.list("").unwrap();
        for number in &self.below {
            let name = format!("{epoch:04}-{number:06}.pack");
            assert!(there.contains(&name), "{name} is below");
        }
        self.read_volumes(&there, &format!("{epoch:04}-"));
    }

    /// The lower folder by itself, whose files are called `names`, has the commits that were made in its chunks, and no
    /// others, each whole; where it is no history, it says so.
    fn read_volumes(&mut self, names: &[String], epoch: &str) {
        let packs: Vec<&String> = names.iter().filter(|name| name.contains(".pack")).collect();
        let numbers: BTreeSet<u64> = packs
            .iter()
            .filter_map(|name| name.strip_prefix(epoch)?.strip_suffix(".pack")?.parse().ok())
            .collect();
        if numbers.is_empty() {
            // Nothing, or a history of before the store was cleared.
            return;
        }
        let last = packs.len() as u64 - 1;
        let is_history = numbers.len() == packs.len() && numbers.last() == Some(&last);
        let options = options(&self.setup, None);
        let alone = match Store::open_lower_folder(Arc::clone(&self.lower), options) {
            Err(error) if !is_history => {
                let kinds = [ErrorKind::Missing, ErrorKind::Invalid];
                assert!(kinds.contains(&error.kind()), "{error}");
                return self.count("a lower folder was no history by itself");
            }
            alone => alone.unwrap(),
        };
        let mut log = alone.log(usize::MAX).unwrap();
        log.reverse();
        let ever = &self.held.ever;
        let within = |hash: &CommitHash, may_be: bool| {
            let (from, to) = self.places[hash];
            (if may_be { from } else { to }) <= last
        };
        // One that is there twice was in an older chunk before.
        if !self.is_twice {
            let found = |hash: &CommitHash| log.contains(hash);
            let held = ever.iter().map(|commit| commit.0).filter(found);
            assert!(held.eq(log.iter().copied()), "in their order, and no others");
            for (hash, _) in ever {
                assert!(found(hash) || !within(hash, false), "{hash:?} is in chunk {last} at most");
                assert!(!found(hash) || within(hash, true), "{hash:?} is in none up to {last}");
            }
        }
        for commit in ever.iter().filter(|commit| log.contains(&commit.0)) {
            reads(&alone, commit).unwrap();
        }
        self.count("a lower folder was read by itself");
    }

    /// Whatever was moved, taken or brought back: each commit that is kept is read with all that it has.
    pub(super) fn read_kept(&mut self) {
        for commit in &self.held.commits {
            reads(self.store.as_ref().expect("it is open"), commit).unwrap();
        }
    }

    /// A store that keeps all of its chunks does not collect.
    pub(super) fn refuse_collection(&mut self, first: usize) {
        let target = self.held.commits[first].0;
        let store = self.store();
        assert_eq!(store.collect(&target).unwrap_err().kind(), ErrorKind::Invalid);
        let newest = store.collect_keeping(&Keep::Newest(1));
        assert_eq!(newest.unwrap_err().kind(), ErrorKind::Invalid);
        self.count("a collection was refused beside chunks below");
    }

    /// What the collection that has just begun may take goes to the lower folder, as a copy of the store would have moved
    /// it there: all chunks but the last are whole, or were copied before.
    pub(super) fn copy_chunks(&mut self) {
        let epoch = format!("{:04}-", self.store().stats().epoch);
        let names = self.disk.list("").unwrap();
        let whole = |name: &&String| {
            name.starts_with(&epoch) && name.contains(".pack") && name.matches('-').count() == 1
        };
        let mut names: Vec<_> = names.iter().filter(whole).collect();
        names.sort_unstable_by_key(|name| (name.len(), (*name).clone()));
        names.pop();
        for name in names {
            if self.lower.exists(name).unwrap() {
                continue;
            }
            let from = self.disk.open(name, Mode::Read, Access::Buffered).unwrap();
            let mut bytes = vec![0; from.len().unwrap() as usize];
            from.read_exact_at(0, &mut bytes).unwrap();
            let to = self.lower.open(name, Mode::Create, Access::Buffered).unwrap();
            to.write_at(0, &bytes).unwrap();
        }
    }
}

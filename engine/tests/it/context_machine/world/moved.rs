//! Steps of the lower layer: chunks move there and back, and what collections took comes back from there. Of
//! the commits the model knows that none changes by a move; of the folder, what it holds.

use varvite::context::{CollectPhase, Keep};
use varvite::disk::{Access, Mode};
use varvite::error::Kind as ErrorKind;

use super::World;
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
            self.count("a collection ended");
            return self.note_horizon();
        }
        if self.below > 0 && random.one_in(2) {
            let came = self.store().unarchive(most).unwrap();
            assert_eq!(came, most.min(self.below), "so many are below");
            self.below -= came;
            self.count("a chunk came back");
        } else if random.one_in(2) {
            self.attach();
        } else {
            let moved = match self.store().archive(&target, most) {
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    self.remove_older_history();
                    self.store().archive(&target, most).unwrap()
                }
                outcome => outcome.unwrap(),
            };
            self.below += moved;
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
        let attached = match self.store().attach() {
            // A collection to the last commit has just ended its chunk.
            Err(error) if error.to_string().contains("commit once more") => {
                assert_eq!(error.kind(), ErrorKind::Invalid);
                self.count("an attachment was refused that would have taken the last commit below");
                return;
            }
            attached => attached.unwrap(),
        };
        self.below += attached;
        self.kept_before = 0;
        if self.held.commits.len() < self.held.ever.len() {
            self.held.commits.clone_from(&self.held.ever);
            // As a collection's horizon: durable, with all before it.
            self.history.clear();
            self.changed();
            self.count("what collections took came back");
        }
        assert_eq!(self.store().attach().unwrap(), 0);
    }

    /// Where the store says that bytes are, and the folder has as many files of them.
    fn compare_places(&mut self) {
        let epoch = self.store().stats().epoch;
        assert_eq!(self.store().archived_bytes() > 0, self.below > 0);
        let there = self.lower.list("").unwrap();
        let there = there.iter().filter(|name| name.starts_with(&format!("{epoch:04}-")));
        assert!(there.count() as u64 >= self.below, "what the store has there");
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

//! Steps that act on the whole store, and on its readers.

use std::sync::Arc;

use varvite::context::{Durability, Index, Order, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::sim::{Crash, SimDisk};
use varvite::error::Kind as ErrorKind;

use super::{ALIVE, Held, Reader, World, options};
use crate::context_machine::pair::Pair;
use crate::model::context::Node;
use crate::random::Random;

/// Files of chunks that an opening opens at once.
const FILES_AT_ONCE: u64 = 64;

/// The store has exactly these commits and branches.
fn has(store: &Store, held: &Held, what: &str) {
    let mut log = store.log(usize::MAX).unwrap();
    log.reverse();
    assert!(log.iter().eq(held.commits.iter().map(|(hash, _)| hash)), "{what}: other commits");
    let branches = store.branches();
    assert!(branches.iter().map(|(name, hash)| (name, hash)).eq(&held.branches), "{what}");
    assert_eq!(store.last_commit().unwrap(), log.last().copied(), "{what}");
}

/// A random commit of it is whole.
fn look_into(store: &Store, held: &Held, random: &mut Random, what: &str) {
    if held.commits.is_empty() {
        return;
    }
    let (hash, model) = &held.commits[random.index(held.commits.len())];
    assert!(store.exists(hash).unwrap(), "{what}");
    let tree = store.checkout(hash).unwrap();
    let pair = Pair { tree, model: Node::clone(model) };
    pair.check(random, what);
    let info = store.commit_info(hash).unwrap();
    assert_eq!((info.hash, info.tree), (*hash, pair.tree.hash().unwrap()), "{what}");
}

impl World {
    pub(super) fn branch(&mut self, random: &mut Random) {
        let name = random.choose(&[&b"main"[..], b"side", b"\x00\xff"]);
        let count = self.held.commits.len();
        if count == 0 || random.one_in(4) {
            self.store().remove_branch(name).unwrap();
            self.held.branches.remove(name);
            return self.changed();
        }
        let number = random.index(count);
        let (hash, _) = self.held.commits[number];
        if self.goes(number) {
            let refused = self.store().set_branch(name, &hash).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Collected);
            return;
        }
        if random.one_in(2) {
            self.store().set_branch(name, &hash).unwrap();
        } else {
            let old = self.held.branches.get(name).copied();
            let store = self.store();
            let wrong = [9; 32].into();
            assert!(!store.test_and_set_branch(name, Some(&wrong), Some(&hash)).unwrap());
            assert!(store.test_and_set_branch(name, old.as_ref(), Some(&hash)).unwrap());
        }
        let missing = self.store().set_branch(name, &[9; 32].into()).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Missing);
        self.held.branches.insert(name.to_vec(), hash);
        self.changed();
    }

    pub(super) fn open_reader(&mut self) {
        let store =
            Store::open_read_only(Arc::clone(&self.disk), options(&self.setup, Some(&self.lower)))
                .unwrap();
        has(&store, &self.held, "a reader that was just opened");
        self.readers.push(Reader { store, held: self.held.clone(), moment: self.moment });
        self.readers.drain(..self.readers.len().saturating_sub(ALIVE));
    }

    pub(super) fn reload(&mut self, at: u8) {
        if self.readers.is_empty() {
            return;
        }
        let at = usize::from(at) % self.readers.len();
        let reader = &mut self.readers[at];
        reader.store.reload().unwrap();
        let news = reader.moment != self.moment;
        let cleared = reader.held.commits.first().map(|it| it.0)
            != self.held.commits.first().map(|it| it.0)
            && !reader.held.commits.is_empty();
        (reader.held, reader.moment) = (self.held.clone(), self.moment);
        has(&reader.store, &reader.held, "a reader after its reload");
        if news {
            self.count("a reload brought news");
        }
        if cleared {
            self.count("a reader noticed a clearing");
        }
    }

    /// A reader holds what it held at its last reload, whatever happened since.
    pub(super) fn look(&mut self, at: u8, random: &mut Random) {
        if self.readers.is_empty() {
            return;
        }
        let at = usize::from(at) % self.readers.len();
        let reader = &self.readers[at];
        has(&reader.store, &reader.held, "a reader before its reload");
        look_into(&reader.store, &reader.held, random, "in a reader");
        if reader.moment != self.moment {
            self.count("a reader read what was older");
        }
    }

    pub(super) fn clear(&mut self) {
        self.cleared_many |= self.store().stats().chunks > FILES_AT_ONCE;
        self.store().clear().unwrap();
        self.life += 1;
        self.held = Held::default();
        self.history.clear();
        (self.keeping, self.kept_before, self.is_unfinished) = (None, 0, false);
        self.below.clear();
        self.places.clear();
        self.pins.clear();
        self.is_twice = false;
        self.changed();
        self.count("a clearing");
    }

    pub(super) fn check_store(&mut self) {
        let (held, index) = (self.held.clone(), self.setup.index);
        let store = self.store();
        has(store, &held, "the store");
        let checked = store.check().unwrap();
        let commits = held.commits.len() as u64;
        assert_eq!((checked.commits, checked.index_faults), (commits, Vec::new()));
        assert_eq!(store.stats().commits, commits);
        if let Some((hash, model)) = held.commits.last() {
            let tree = store.checkout(hash).unwrap();
            if index == Index::Always {
                let found = store.find_object(&tree.hash().unwrap()).unwrap();
                assert!(found.is_some_and(|found| found.equal(&tree).unwrap()), "the last root");
            }
            let mut values = 0;
            let count = |_: &[Vec<u8>], tree: &varvite::context::Tree| {
                values += usize::from(tree.to_value()?.is_some());
                Ok(())
            };
            tree.fold::<&[u8]>(&[], None, Order::Undefined, count).unwrap();
            assert_eq!(values, model.values().len());
        }
    }

    /// Trees of before stay readable, and can be committed.
    pub(super) fn reopen(&mut self, closed: bool) {
        let store = self.store.take().expect("it is open");
        if closed {
            store.close().unwrap();
        } else {
            drop(store);
        }
        self.open_again();
        self.count("an opening");
    }

    fn open_again(&mut self) {
        let store =
            Store::open(Arc::clone(&self.disk), options(&self.setup, Some(&self.lower))).unwrap();
        assert!(store.warnings().is_empty(), "{:?}", store.warnings());
        has(&store, &self.held, "after an opening");
        let mut random = Random::new(self.moment);
        look_into(&store, &self.held, &mut random, "after an opening");
        self.store = Some(store);
        self.life += 1;
        self.choose_again();
        if std::mem::take(&mut self.cleared_many) {
            self.let_go_of_cleared();
        }
    }

    /// What is of before a clearing is right as far as its files were open, and says of the rest that the
    /// store was cleared.
    fn let_go_of_cleared(&mut self) {
        for handle in std::mem::take(&mut self.handles) {
            let names: &[&str] = &[];
            let each = |_: &[Vec<u8>], tree: &Tree| tree.to_value().map(drop);
            match handle.pair.tree.fold(names, None, Order::Undefined, each) {
                Ok(()) => handle.pair.check(&mut Random::new(self.moment), "of before a clearing"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Missing, "{error}");
                    assert!(error.detail().contains("was cleared"), "{error}");
                    self.count("what a clearing took was missing");
                }
            }
        }
        self.other_tree = Pair::empty(self.other.empty_tree());
        for at in 0..self.readers.len() {
            self.reload(at as u8);
        }
    }

    /// Every process dies, and perhaps the power goes; the disk keeps what was durable, and some of the
    /// rest.
    pub(super) fn crash(&mut self, seed: u64) {
        let Some(sim) = self.sim.take() else { return };
        let power = seed.is_multiple_of(2);
        let image = sim.crash(if power { Crash::Seed(seed) } else { Crash::Process });
        (self.store, self.readers, self.handles) = (None, Vec::new(), Vec::new());
        // Nothing of the other half is held by these processes.
        self.disk = Arc::clone(&image) as Arc<dyn Disk>;
        self.sim = Some::<Arc<SimDisk>>(image);
        if power && self.setup.durability == Durability::Written {
            let store = Store::open_read_only(
                Arc::clone(&self.disk),
                options(&self.setup, Some(&self.lower)),
            )
            .unwrap();
            let log = store.log(usize::MAX).unwrap();
            let branches = store.branches().into_iter().collect();
            let found = self.history.iter().rposition(|held| {
                held.commits.iter().rev().map(|(hash, _)| hash).eq(&log)
                    && held.branches == branches
            });
            let found = found.expect("it held that once");
            if found + 1 < self.history.len() {
                self.count("a power cut cost what was not synced");
            }
            self.history.truncate(found + 1);
            self.held = self.history[found].clone();
        }
        self.moment += 1;
        self.open_again();
        self.count("a crash");
    }
}

//! Collections: what is kept stays as it was, what is not is said to be collected, whatever happens
//! in between: commits of trees of any age, spills, branches, readers, cancelled collections, openings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use varvite::context::{
    CollectPhase, CommitHash, CommitInfo, Index, Keep, Options, Order, Store, Tree,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::{Error, Kind, Result};

use crate::random::{Random, setting};

type Content = BTreeMap<Vec<Vec<u8>>, Vec<u8>>;

/// Everything in `tree`.
fn content(tree: &Tree) -> Result<Content> {
    let mut found = Content::new();
    tree.fold::<&[u8]>(&[], None, Order::Sorted, |path, tree| {
        if let Some(value) = tree.to_value()? {
            found.insert(path.to_vec(), value);
        }
        Ok(())
    })?;
    Ok(found)
}

fn options(index: Index, chunk_bytes: u64, tree_bytes: u64) -> Options {
    Options {
        index,
        chunk_bytes,
        tree_bytes,
        seed: Some(5),
        objects_bytes: 20_000,
        hashes_bytes: 5_000,
        pages_bytes: 20_000,
        ..Options::default()
    }
}

/// A tree that a host holds, and what is in it.
#[derive(Clone)]
struct Held {
    tree: Tree,
    content: Content,
    /// How often commits were collected before it, or the oldest part of it, was read.
    raised: u64,
}

/// A store and what it should say.
struct World {
    disk: Arc<MemoryDisk>,
    options: Options,
    store: Store,
    random: Random,
    /// In the order in which the store took them, the last time.
    commits: Vec<(CommitHash, i64, Content)>,
    branches: BTreeMap<Vec<u8>, CommitHash>,
    pins: BTreeSet<CommitHash>,
    held: Vec<Held>,
    /// The commits that the collection under way, or the last one, keeps.
    count: i64,
    collected: u64,
    refused: u64,
    /// How often older commits became collected ones.
    raised: u64,
    again: u64,
}

impl World {
    fn new(seed: u64, index: Index) -> World {
        let mut random = Random::new(seed);
        let disk = MemoryDisk::seeded(seed);
        let tree_bytes = if random.below(2) == 0 { 1_500 } else { 1 << 20 };
        let options = options(index, 600 + random.below(6_000), tree_bytes);
        let store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        World {
            disk,
            options,
            store,
            random,
            commits: Vec::new(),
            branches: BTreeMap::new(),
            pins: BTreeSet::new(),
            held: Vec::new(),
            count: 0,
            collected: 0,
            refused: 0,
            raised: 0,
            again: 0,
        }
    }

    fn change(&mut self, held: &mut Held) -> Result<()> {
        for _ in 0..=self.random.below(12) {
            let key = self.random.below(400);
            let path = vec![
                format!("d{}", key % 3).into_bytes(),
                format!("{:040x}", key / 3).into_bytes(),
                format!("k{}", self.random.below(3)).into_bytes(),
            ];
            if self.random.below(5) == 0 {
                let depth = 2 + self.random.below(2) as usize;
                held.tree.remove(&path[..depth])?;
                held.content.retain(|there, _| !there.starts_with(&path[..depth]));
            } else {
                let length = [1, 8, 16, 40, 200][self.random.below(5) as usize];
                let value = vec![self.random.below(250) as u8; length];
                held.tree.add(&path, &value)?;
                held.content.insert(path, value);
            }
        }
        Ok(())
    }

    /// A tree to begin with: the newest, one that is held, or an empty one.
    fn begin(&mut self) -> Held {
        match (self.random.below(4), self.commits.last()) {
            (0, _) if !self.held.is_empty() => {
                let at = self.random.below(self.held.len() as u64) as usize;
                self.held[at].clone()
            }
            (1..=3, Some((hash, _, content))) if self.store.exists(hash).unwrap() => {
                let (tree, content) = (self.store.checkout(hash).unwrap(), content.clone());
                Held { tree, content, raised: self.raised }
            }
            _ => {
                let (tree, content) = (self.store.empty_tree(), Content::new());
                Held { tree, content, raised: self.raised }
            }
        }
    }

    fn stands(&self, hash: &CommitHash) -> bool {
        self.store.exists(hash).unwrap()
    }

    fn commit(&mut self) {
        let mut held = self.begin();
        if let Err(error) = self.change(&mut held) {
            return self.refuse(&held, &error);
        }
        if self.random.below(6) == 0 && !self.held.is_empty() {
            let at = self.random.below(self.held.len() as u64) as usize;
            held.raised = held.raised.min(self.held[at].raised);
            if let Err(error) = self.graft(&mut held, at) {
                return self.refuse(&held, &error);
            }
        }
        if held.content.is_empty() {
            return;
        }
        self.count += i64::from(self.random.below(20) > 0);
        let info = CommitInfo::new(&[], self.count, "a", "b");
        match self.store.commit(&mut held.tree, &info) {
            Ok(hash) => {
                self.commits.retain(|(there, ..)| *there != hash);
                self.commits.push((hash, self.count, held.content.clone()));
                self.expect(&hash);
                held.raised = self.raised;
            }
            Err(error) => return self.refuse(&held, &error),
        }
        if self.random.below(3) == 0 {
            self.held.push(held);
            if self.held.len() > 4 {
                self.held.remove(0);
            }
        }
    }

    /// Only what holds parts of before a collection that has taken commits away is refused, and as collected.
    fn refuse(&mut self, held: &Held, error: &Error) {
        assert_eq!(error.kind(), Kind::Collected, "{error}");
        assert!(held.raised < self.raised, "nothing was taken since it was read: {error}");
        self.refused += 1;
    }

    /// Commits what was committed before once more, from an empty tree; it may be there, or may have been collected.
    fn commit_again(&mut self) {
        if self.commits.is_empty() {
            return;
        }
        let at = self.random.below(self.commits.len() as u64) as usize;
        let (hash, date, content) = self.commits.remove(at);
        let mut tree = self.store.empty_tree();
        for (path, value) in &content {
            tree.add(path, value).unwrap();
        }
        self.again += u64::from(!self.stands(&hash));
        let found = self.store.commit(&mut tree, &CommitInfo::new(&[], date, "a", "b")).unwrap();
        assert_eq!(found, hash);
        self.commits.push((hash, date, content));
        self.expect(&hash);
    }

    /// Puts a directory of a tree that is held into another.
    fn graft(&mut self, held: &mut Held, at: usize) -> Result<()> {
        let (from, to) =
            ([format!("d{}", self.random.below(3))], [format!("d{}", self.random.below(3))]);
        let other = self.held[at].clone();
        let Some(part) = other.tree.find_tree(&from)? else { return Ok(()) };
        held.tree.add_tree(&to, &part)?;
        let (from, to) = (from[0].as_bytes(), to[0].as_bytes());
        held.content.retain(|path, _| path[0] != to);
        for (path, value) in other.content.iter().filter(|(path, _)| path[0] == from) {
            let mut path = path.clone();
            path[0] = to.to_vec();
            held.content.insert(path, value.clone());
        }
        Ok(())
    }

    fn expect(&self, hash: &CommitHash) {
        let (.., expected) = self.commits.iter().find(|(there, ..)| there == hash).unwrap();
        let found = content(&self.store.checkout(hash).unwrap()).unwrap();
        assert!(found == *expected, "commit {hash:02x?} has changed");
    }

    /// Every commit is there as it was, or is said to be collected; and those that must be are there.
    fn expect_all(&mut self) {
        let checked = self.store.check().unwrap();
        assert!(checked.index_faults.is_empty(), "{:?}", checked.index_faults);
        for (hash, ..) in &self.commits {
            if self.stands(hash) {
                self.expect(hash);
            } else {
                let error = self.store.checkout(hash).unwrap_err();
                assert!(matches!(error.kind(), Kind::Collected | Kind::Missing), "{error}");
            }
        }
        assert_eq!(self.store.last_commit().unwrap().is_none(), self.commits.is_empty());
        for hash in self.branches.values().chain(&self.pins) {
            self.expect(hash);
        }
        assert!(self.store.pins().unwrap().iter().copied().collect::<BTreeSet<_>>() == self.pins);
        let log = self.store.log(usize::MAX).unwrap();
        assert_eq!(log.len() as u64, checked.commits);
        assert!(log.iter().all(|hash| self.stands(hash)));
    }

    fn collect(&mut self) {
        if self.store.collect_status().unwrap().phase != CollectPhase::None {
            let most = if self.random.one_in(2) { 16 } else { 4_000 };
            let credits = 1 + self.random.below(most);
            let marks = self.store.collect_status().unwrap().phase == CollectPhase::Marking;
            if !self.store.collect_step(credits).unwrap() {
                self.collected += 1;
            }
            let marks_still = self.store.collect_status().unwrap().phase == CollectPhase::Marking;
            self.raised += u64::from(marks && !marks_still);
            self.pin();
            return;
        }
        if self.random.below(2) == 0 {
            let newest = 1 + self.random.below(10);
            let keep = if self.random.below(3) == 0 {
                Keep::Since(self.count - newest as i64)
            } else {
                Keep::Newest(newest)
            };
            self.store.collect_keeping(&keep).unwrap();
            return;
        }
        let log = self.store.log(usize::MAX).unwrap();
        if log.is_empty() {
            return;
        }
        let target = log[self.random.below(log.len().min(12) as u64) as usize];
        match self.store.collect(&target) {
            // It was kept by an earlier one, and is older than what history begins with.
            Err(error) if error.kind() == Kind::Collected => {}
            outcome => outcome.unwrap(),
        }
    }

    fn pin(&mut self) {
        let log = self.store.log(usize::MAX).unwrap();
        if log.is_empty() || self.random.below(6) > 0 {
            return;
        }
        let commit = log[self.random.below(log.len() as u64) as usize];
        if self.pins.remove(&commit) {
            assert!(self.store.unpin(&commit).unwrap());
        } else if self.pins.len() < 4 {
            match self.store.pin(&commit) {
                Err(error) if error.kind() == Kind::Collected => {}
                outcome => {
                    outcome.unwrap();
                    self.pins.insert(commit);
                }
            }
        }
    }

    fn act(&mut self) {
        match self.random.below(100) {
            0..=51 => self.commit(),
            52..=54 => self.commit_again(),
            55..=84 => self.collect(),
            85..=87 => {
                let name = format!("b{}", self.random.below(3)).into_bytes();
                let log = self.store.log(usize::MAX).unwrap();
                if self.random.below(3) == 0 {
                    self.store.remove_branch(&name).unwrap();
                    self.branches.remove(&name);
                } else if !log.is_empty() {
                    let commit = log[self.random.below(log.len() as u64) as usize];
                    match self.store.set_branch(&name, &commit) {
                        // It goes with the collection that is under way.
                        Err(error) if error.kind() == Kind::Collected => {}
                        outcome => {
                            outcome.unwrap();
                            self.branches.insert(name, commit);
                        }
                    }
                }
            }
            88 => drop(self.store.collect_cancel().unwrap()),
            89 => self.store.begin_chunk().unwrap(),
            90..=91 => drop(self.store.maintain().unwrap()),
            92..=94 => self.reopen(),
            95..=96 => self.read(),
            _ => self.expect_all(),
        }
    }

    fn reopen(&mut self) {
        if self.random.below(2) == 0 {
            for name in self.disk.files() {
                if name.starts_with("index/") {
                    self.disk.remove(&name).unwrap();
                }
            }
        }
        self.held.clear();
        let disk = self.disk.snapshot();
        self.disk = Arc::clone(&disk);
        self.store = Store::open(disk, self.options.clone()).unwrap();
        self.expect_all();
    }

    /// A reader that looks at a commit again and again while a collection goes on.
    fn read(&mut self) {
        let disk = Arc::clone(&self.disk) as Arc<dyn Disk>;
        let options = Options { max_open_files: Some(2), ..self.options.clone() };
        let mut reader = Store::open_read_only(disk, options).unwrap();
        let Some(hash) = self.store.last_commit().unwrap() else { return };
        let (.., expected) =
            self.commits.iter().find(|(there, ..)| *there == hash).unwrap().clone();
        for _ in 0..4 {
            self.collect();
            assert!(content(&reader.checkout(&hash).unwrap()).unwrap() == expected);
        }
        self.store.check().unwrap();
        // What it knows may be gone by now; that is no damage.
        if let Err(error) = reader.check() {
            assert_eq!(error.kind(), Kind::Collected, "{error}");
        }
        reader.reload().unwrap();
        assert!(content(&reader.checkout(&hash).unwrap()).unwrap() == expected);
        reader.check().unwrap();
    }
}

#[test]
fn whatever_happens_what_is_kept_stays_and_the_rest_is_collected() {
    let (mut collected, mut refused, mut again) = (0, 0, 0);
    let first = setting("VARVITE_COLLECT_SEED", 0);
    for seed in first..first + setting("VARVITE_COLLECT_CASES", 20) {
        for index in [Index::Minimal, Index::Always] {
            println!("seed {seed}, {index:?}");
            let mut world = World::new(seed, index);
            for _ in 0..250 {
                world.act();
            }
            while world.store.collect_step(100).unwrap() {}
            world.expect_all();
            world.reopen();
            collected += world.collected;
            refused += world.refused;
            again += world.again;
        }
    }
    assert!(collected > 60 && refused > 5, "{collected} collections, {refused} trees refused");
    assert!(again > 10, "{again} collected commits were committed again");
}

//! A context store, its trees and its readers beside their models, and what each step does to both.

mod collected;
mod exported;
mod harmed;
mod moved;
mod stored;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use varvite::context::{CollectPhase, CommitHash, CommitInfo, Options, Store, Tree};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::SimDisk;
use varvite::error::Kind as ErrorKind;

use super::pair::Pair;
use super::step::{Setup, Step};
use crate::model::context::Node;
use crate::random::Random;
use crate::setup::DiskKind;

/// Most handles and readers alive at once.
const ALIVE: usize = 5;

/// Commits and branches.
#[derive(Clone, Debug, Default, PartialEq)]
struct Held {
    commits: Vec<(CommitHash, Arc<Node>)>,
    /// The same with those that collections took: all that the chunks ever had.
    ever: Vec<(CommitHash, Arc<Node>)>,
    branches: BTreeMap<Vec<u8>, CommitHash>,
}

/// A tree, and when it came to be.
struct Handle {
    pair: Pair,
    /// Commits that the store had.
    commits: usize,
    /// How often the store had been opened or cleared.
    life: u64,
}

struct Reader {
    store: Store,
    /// What it held at its last reload.
    held: Held,
    /// How much the world had changed then.
    moment: u64,
}

/// How often what happened.
pub type Counts = BTreeMap<&'static str, u64>;

pub struct World {
    setup: Setup,
    disk: Arc<dyn Disk>,
    sim: Option<Arc<SimDisk>>,
    _folder: Option<tempfile::TempDir>,
    /// The lower folder: what was moved there, and copies of what a collection was about to take.
    lower: Arc<dyn Disk>,
    /// The chunks that the store has there.
    below: BTreeSet<u64>,
    /// In which chunk each commit is, or from which to which it may be.
    places: BTreeMap<CommitHash, (u64, u64)>,
    store: Option<Store>,
    held: Held,
    /// All that the store held since it was cleared, the oldest first.
    history: Vec<Held>,
    handles: Vec<Handle>,
    readers: Vec<Reader>,
    /// Another store, whose trees are copied here and which takes trees from here.
    other: Store,
    other_tree: Pair,
    life: u64,
    moment: u64,
    /// What the collection keeps that is under way, as long as nothing was taken away.
    keeping: Option<collected::Keeping>,
    /// Commits that stay whatever is collected.
    pins: BTreeSet<CommitHash>,
    /// How many of the commits are older than where history begins.
    kept_before: usize,
    /// A collection was cancelled as it took away, and none has ended since.
    is_unfinished: bool,
    /// A clearing has left more files than an opening opens: the next one removes those that trees and readers
    /// of before have not open.
    cleared_many: bool,
    /// Snapshots of commits, the newest last.
    files: Vec<exported::Exported>,
    /// A commit may be in the chunks twice, below and above.
    is_twice: bool,
    pub counts: Counts,
}

fn options(setup: &Setup, lower: Option<&Arc<dyn Disk>>) -> Options {
    Options {
        lower: lower.cloned(),
        configuration: setup.configuration,
        index: setup.index,
        durability: setup.durability,
        objects_bytes: setup.objects_bytes,
        hashes_bytes: setup.objects_bytes / 2,
        pages_bytes: setup.pages_bytes,
        index_bytes: setup.index_bytes,
        tree_bytes: setup.tree_bytes,
        chunk_bytes: setup.chunk_bytes,
        seed: Some(setup.seed),
        ..Options::default()
    }
}

impl World {
    fn new(setup: Setup) -> World {
        let (mut folder, mut sim) = (None, None);
        let disk: Arc<dyn Disk> = match setup.disk {
            DiskKind::Memory => MemoryDisk::seeded(1),
            DiskKind::Sim => Arc::clone(sim.insert(SimDisk::new(setup.seed))) as _,
            DiskKind::Os => {
                let place = folder.insert(tempfile::tempdir().unwrap()).path().to_owned();
                OsDisk::new(place.to_str().unwrap()).unwrap()
            }
        };
        let lower: Arc<dyn Disk> = MemoryDisk::seeded(2);
        let store = Store::create(Arc::clone(&disk), options(&setup, Some(&lower))).unwrap();
        let other = Store::create(MemoryDisk::seeded(1), options(&setup, None)).unwrap();
        let other_tree = Pair::empty(other.empty_tree());
        let mut world = World {
            setup,
            disk,
            sim,
            _folder: folder,
            lower,
            below: BTreeSet::new(),
            places: BTreeMap::new(),
            store: Some(store),
            held: Held::default(),
            history: vec![Held::default()],
            handles: Vec::new(),
            readers: Vec::new(),
            other,
            other_tree,
            life: 0,
            moment: 0,
            keeping: None,
            pins: BTreeSet::new(),
            kept_before: 0,
            is_unfinished: false,
            cleared_many: false,
            files: Vec::new(),
            is_twice: false,
            counts: Counts::new(),
        };
        world.checkout(&mut Random::new(setup.seed));
        world.open_reader();
        world
    }

    fn store(&mut self) -> &mut Store {
        self.store.as_mut().expect("it is open")
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn at(&self, number: u8) -> usize {
        usize::from(number) % self.handles.len()
    }

    /// Holds on to a tree, and lets go of the oldest when there are many.
    fn hold(&mut self, pair: Pair) {
        self.handles.push(Handle { pair, commits: self.held.commits.len(), life: self.life });
        self.handles.drain(..self.handles.len().saturating_sub(ALIVE));
    }

    fn step(&mut self, step: Step) {
        if self.handles.is_empty() {
            self.checkout(&mut Random::new(0));
        }
        match step {
            Step::Change(at, seed) => self.change(at, |pair, others, counts| {
                let note = &mut |what| *counts.entry(what).or_default() += 1;
                pair.change(&mut Random::new(seed), others, note);
            }),
            Step::Narrow(at, seed) => self.change(at, |pair, _, counts| {
                let note = &mut |what| *counts.entry(what).or_default() += 1;
                pair.narrow(&mut Random::new(seed), note);
            }),
            Step::Turn(at, seed) => self.change(at, |pair, _, counts| {
                let note = &mut |what| *counts.entry(what).or_default() += 1;
                pair.turn(&mut Random::new(seed), note);
            }),
            Step::Graft(at, seed) => self.change(at, |pair, others, counts| {
                let mut random = Random::new(seed);
                let from = &others[random.index(others.len())];
                let grafted = pair.graft(from, &mut random);
                *counts.entry("a subtree was bound").or_default() += u64::from(grafted);
            }),
            Step::Import(at, seed) => self.import(at, &mut Random::new(seed)),
            Step::Export(at, seed) => self.export(at, &mut Random::new(seed)),
            Step::Fork(at) => {
                let pair = self.handles[self.at(at)].pair.clone();
                self.hold(pair);
                self.count("a fork");
            }
            Step::Drop(at) => drop(self.handles.remove(self.at(at))),
            Step::Release(at, seed) => {
                let at = self.at(at);
                self.handles[at].pair.tree.clear(seed as usize % 4);
                self.handles[at].pair.check(&mut Random::new(seed), "after giving memory back");
            }
            Step::Compare(at, seed) => self.compare(at, seed),
            Step::Diff(at, seed) => {
                let other = &self.handles[seed as usize % self.handles.len()].pair;
                self.handles[self.at(at)].pair.check_diff(other);
            }
            Step::Commit(at, seed) => self.commit(at, &mut Random::new(seed)),
            Step::Checkout(seed) => self.checkout(&mut Random::new(seed)),
            Step::Branch(seed) => self.branch(&mut Random::new(seed)),
            Step::OpenReader => self.open_reader(),
            Step::Reload(at) => self.reload(at),
            Step::Look(at, seed) => self.look(at, &mut Random::new(seed)),
            Step::Checkpoint => self.store().checkpoint().unwrap(),
            Step::Chunk => self.store().begin_chunk().unwrap(),
            Step::Rebuild => self.store().rebuild_index().unwrap(),
            Step::Collect(seed) => self.collect(&mut Random::new(seed)),
            Step::Move(seed) => self.move_chunks(&mut Random::new(seed)),
            Step::File(seed) => self.snapshot(&mut Random::new(seed)),
            Step::Clear => self.clear(),
            Step::Check => self.check_store(),
            Step::Reopen(closed) => self.reopen(closed),
            Step::Crash(seed) => self.crash(seed),
        }
        let is_of_places = [Step::Move(0), Step::Collect(0), Step::Reopen(true), Step::Crash(0)]
            .iter()
            .any(|of| std::mem::discriminant(of) == std::mem::discriminant(&step));
        if is_of_places {
            self.read_kept();
        }
    }

    /// Changes a handle by `action`, which sees the others, and notes when the tree spilled.
    fn change(&mut self, at: u8, action: impl FnOnce(&mut Pair, &[Pair], &mut Counts)) {
        let at = self.at(at);
        let others: Vec<Pair> = self.handles.iter().map(|handle| handle.pair.clone()).collect();
        let before = self.store().stats().pack_bytes;
        // Taken out, so that pieces are not shared more than the test wants.
        let mut pair = std::mem::replace(
            &mut self.handles[at].pair,
            Pair::empty(Tree::empty(self.setup.configuration)),
        );
        let shared = self.handles.len() > 1;
        let others = if shared { &others[..] } else { &[pair.clone()] };
        action(&mut pair, others, &mut self.counts);
        self.handles[at].pair = pair;
        if self.store().stats().pack_bytes > before {
            self.count("a spill");
        }
    }

    fn compare(&mut self, at: u8, seed: u64) {
        let (at, mut random) = (self.at(at), Random::new(seed));
        let handle = &self.handles[at];
        handle.pair.check(&mut random, "a handle");
        if random.one_in(3) {
            handle.pair.check_folds(&mut random);
        }
        if handle.life != self.life {
            self.count("a handle from before an opening or a clearing was read");
        } else if handle.commits < self.held.commits.len() {
            self.count("a handle from before a commit was read");
        }
    }

    /// Commits a handle, or is refused.
    fn commit(&mut self, at: u8, random: &mut Random) {
        let at = self.at(at);
        let parents: Vec<CommitHash> =
            self.held.commits.last().map(|(hash, _)| *hash).into_iter().collect();
        let date = self.moment as i64;
        let info = CommitInfo::new(&parents, date, "Tezos", format!("moment {date}"));
        let store = self.store.as_mut().expect("it is open");
        let Handle { pair, commits, life } = &mut self.handles[at];
        if pair.model.is_empty() || matches!(pair.model, Node::Value(_)) {
            let error = store.commit(&mut pair.tree, &info).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            return;
        }
        let expected = store.hash(&pair.tree, &info).unwrap();
        let hash = store.commit(&mut pair.tree, &info).unwrap();
        assert_eq!(hash, expected, "the hash before equals that of the commit");
        if random.one_in(4) {
            assert_eq!(store.commit(&mut pair.tree, &info).unwrap(), hash, "the same again");
        }
        pair.check(random, "after the commit");
        if *life != self.life {
            *self.counts.entry("a tree of another life was committed").or_default() += 1;
        }
        (*commits, *life) = (self.held.commits.len() + 1, self.life);
        let model = Arc::new(pair.model.clone());
        self.held.commits.push((hash, Arc::clone(&model)));
        self.held.ever.push((hash, model));
        let chunk = self.last_chunk();
        self.places.insert(hash, (chunk, chunk));
        self.changed();
        self.count("a commit");
        if self.store().collect_status().unwrap().phase != CollectPhase::None {
            self.count("a commit beside a collection");
        }
    }

    /// The number of the chunk that is written.
    fn last_chunk(&mut self) -> u64 {
        self.store().chunks().last().expect("there is one").number
    }

    /// What the store holds has changed.
    fn changed(&mut self) {
        self.moment += 1;
        self.history.push(self.held.clone());
    }

    fn checkout(&mut self, random: &mut Random) {
        let pair = match self.held.commits.len() {
            0 => None,
            _ if random.one_in(6) => None,
            count => {
                let recent = count - 1 - random.index(count.min(4));
                let at = if random.one_in(3) { random.index(count) } else { recent };
                let (hash, model) = self.held.commits[at].clone();
                let tree = self.store().checkout(&hash).unwrap();
                Some(Pair { tree, model: Node::clone(&model) })
            }
        };
        let pair = pair.unwrap_or_else(|| {
            // One of the store spills, one of none does not.
            let of_store = random.one_in(2);
            let tree = if of_store {
                self.store().empty_tree()
            } else {
                Tree::empty(self.setup.configuration)
            };
            Pair::empty(tree)
        });
        self.hold(pair);
    }

    fn import(&mut self, at: u8, random: &mut Random) {
        for _ in 0..5 {
            let alone = [self.other_tree.clone()];
            self.other_tree.change(random, &alone, &mut |_| {});
        }
        if !self.other_tree.model.is_empty() && !matches!(self.other_tree.model, Node::Value(_)) {
            let stored = random.one_in(2);
            if stored {
                self.other.commit(&mut self.other_tree.tree, &CommitInfo::default()).unwrap();
            }
        }
        let other = self.other_tree.clone();
        self.change(at, |pair, _, counts| {
            let copied = pair.graft(&other, random);
            *counts.entry("a subtree came from another store").or_default() += u64::from(copied);
        });
        self.handles[self.at(at)].pair.check(random, "with a subtree of another store");
    }

    fn export(&mut self, at: u8, random: &mut Random) {
        let from = self.handles[self.at(at)].pair.clone();
        if self.other_tree.graft(&from, random) {
            self.count("a subtree went to another store");
        }
        self.other_tree.check(random, "the other store's tree");
        if random.one_in(3) {
            self.other_tree = Pair::empty(self.other.empty_tree());
        }
    }

    fn end(&mut self) {
        self.check_store();
        for at in 0..self.handles.len() {
            self.compare(at as u8, self.setup.seed + at as u64);
        }
        for at in 0..self.readers.len() {
            self.reload(at as u8);
        }
    }
}

/// Makes a store of `setup` and takes the steps; an error says what differs, else how often what
/// happened.
pub fn run(setup: &Setup, steps: &[Step]) -> Result<Counts, String> {
    let at = std::cell::Cell::new(0);
    let all = || {
        let mut world = World::new(*setup);
        for (index, step) in steps.iter().enumerate() {
            at.set(index);
            world.step(*step);
        }
        at.set(steps.len());
        world.end();
        world.counts
    };
    catch_unwind(AssertUnwindSafe(all)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("step {}: {}", at.get(), text.unwrap_or_default())
    })
}

//! Random operations on trees and a store, each beside nested maps and a reference hash.

use std::collections::BTreeMap;
use std::sync::Arc;

use varvite::context::{
    Change, ChildOrder, CommitInfo, Configuration, Depth, Durability, Hash, Index, Kind, Options,
    Order, Store, Tree,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;
use varvite::disk::os::OsDisk;
use varvite::disk::sim::SimDisk;
use varvite::error::Kind as ErrorKind;

use crate::model::context::{Node, Path};
use crate::random::{Random, setting};

/// The configurations of Tezos, and small ones that split and merge at every other step.
fn configurations() -> Vec<Configuration> {
    vec![
        Configuration::TEZOS,
        Configuration::TEZOS_BINARY,
        Configuration::new(3, 5, ChildOrder::SeededHash).unwrap(),
        Configuration::new(4, 9, ChildOrder::HashBits).unwrap(),
        Configuration::new(2, 0, ChildOrder::SeededHash).unwrap(),
        Configuration::new(8, 3, ChildOrder::HashBits).unwrap(),
    ]
}

/// Names from a small set, so that paths meet: short, hex of several lengths, odd bytes.
fn name(random: &mut Random) -> Vec<u8> {
    let number = random.below(24);
    match random.below(8) {
        0 => vec![number as u8 * 11],
        1 => format!("{number:02x}").into_bytes(),
        2 => format!("{:044x}", number * 0x0123_4567_89ab).into_bytes(),
        3 => vec![b'a'; 1 + number as usize * 12],
        _ => format!("n{number}").into_bytes(),
    }
}

fn path(random: &mut Random) -> Path {
    let length = 1 + random.below(4);
    (0..length).map(|_| name(random)).collect()
}

fn value(random: &mut Random) -> Vec<u8> {
    let length = random.choose(&[0, 1, 5, 15, 16, 17, 40, 300]);
    random.bytes(length)
}

/// Whether a depth is within a bound.
type Includes = fn(usize, usize) -> bool;

/// A tree and what it must be.
#[derive(Clone)]
struct Pair {
    tree: Tree,
    model: Node,
}

impl Pair {
    fn check(&self, random: &mut Random, what: &str) {
        let configuration = self.tree.configuration();
        assert_eq!(self.tree.hash().unwrap(), self.model.hash(configuration), "{what}: the hash");
        assert_eq!(self.tree.is_empty().unwrap(), self.model.is_empty(), "{what}");
        for _ in 0..4 {
            self.check_path(&path(random), random);
        }
    }

    fn check_path(&self, path: &Path, random: &mut Random) {
        let model = self.model.get(path);
        let value = match model {
            Some(Node::Value(value)) => Some(value),
            _ => None,
        };
        assert_eq!(self.tree.find(path).unwrap().as_ref(), value);
        assert_eq!(self.tree.mem(path).unwrap(), value.is_some());
        assert_eq!(self.tree.mem_tree(path).unwrap(), model.is_some());
        let subtree = self.tree.find_tree(path).unwrap();
        assert_eq!(subtree.is_some(), model.is_some());
        let children = match model {
            Some(Node::Directory(children)) => children.clone(),
            _ => BTreeMap::new(),
        };
        assert_eq!(self.tree.length(path).unwrap(), children.len() as u64);
        let all = self.tree.list(path, 0, u64::MAX).unwrap();
        let mut names: Vec<_> = all.iter().map(|(name, _)| name.clone()).collect();
        let (offset, length) = (random.below(8), random.below(8));
        let page = self.tree.list(path, offset, length).unwrap();
        let expected = names.iter().skip(offset as usize).take(length as usize);
        assert!(page.iter().map(|(name, _)| name).eq(expected), "a page is a piece of the whole");
        names.sort();
        assert!(names.iter().eq(children.keys()));
        if let (Some(subtree), Some(model)) = (subtree, model) {
            assert_eq!(subtree.hash().unwrap(), model.hash(self.tree.configuration()));
            assert_eq!(subtree.kind() == Kind::Value, matches!(model, Node::Value(_)));
        }
    }

    fn check_folds(&self, random: &mut Random) {
        for order in [Order::Sorted, Order::Undefined] {
            let mut values = Vec::new();
            self.tree
                .fold::<&[u8]>(&[], None, order, |path, tree| {
                    if let Some(value) = tree.to_value()? {
                        values.push((path.to_vec(), value));
                    }
                    Ok(())
                })
                .unwrap();
            if order == Order::Undefined {
                values.sort();
            }
            let mut expected = self.model.values();
            expected.retain(|(path, _)| !path.is_empty());
            assert_eq!(values, expected);
        }
        let bound = random.index(4);
        let depths: [(Depth, Includes); 5] = [
            (Depth::Eq(bound), |depth, bound| depth == bound),
            (Depth::Lt(bound), |depth, bound| depth < bound),
            (Depth::Le(bound), |depth, bound| depth <= bound),
            (Depth::Gt(bound), |depth, bound| depth > bound),
            (Depth::Ge(bound), |depth, bound| depth >= bound),
        ];
        for (depth, includes) in depths {
            let (mut all, mut some) = (Vec::new(), Vec::new());
            let fold = |depth, out: &mut Vec<Path>| {
                let each = |path: &[Vec<u8>], _: &Tree| {
                    out.push(path.to_vec());
                    Ok(())
                };
                self.tree.fold::<&[u8]>(&[], depth, Order::Sorted, each).unwrap();
            };
            fold(None, &mut all);
            fold(Some(depth), &mut some);
            all.retain(|path| includes(path.len(), bound));
            assert_eq!(all, some, "{depth:?}");
        }
    }

    fn check_diff(&self, after: &Pair) {
        let mut changes = Vec::new();
        self.tree
            .diff(&after.tree, |path, change| {
                changes.push((path.to_vec(), change));
                Ok(())
            })
            .unwrap();
        let (before, after) = (self.model.values(), after.model.values());
        let mut expected: BTreeMap<Path, Change> = BTreeMap::new();
        for (path, value) in &before {
            expected.insert(path.clone(), Change::Removed(value.clone()));
        }
        for (path, new) in after {
            match expected.remove(&path) {
                Some(Change::Removed(old)) if old != new => {
                    expected.insert(path, Change::Updated(old, new));
                }
                Some(_) => {}
                None => drop(expected.insert(path, Change::Added(new))),
            }
        }
        assert_eq!(changes, expected.into_iter().collect::<Vec<_>>());
    }

    /// One random change.
    fn change(&mut self, random: &mut Random, others: &[Pair]) {
        let path = path(random);
        match random.below(10) {
            0..5 => {
                let value = value(random);
                self.tree.add(&path, &value).unwrap();
                self.model.put(&path, Node::Value(value));
            }
            5..8 => {
                self.tree.remove(&path).unwrap();
                self.model.remove(&path);
            }
            8 => {
                // A wide directory, so that the flat limits are crossed.
                let mut path = path;
                path.truncate(2);
                let (first, count) = (random.below(300), random.below(40));
                for number in first..first + count {
                    path.push(format!("{number:04x}").into_bytes());
                    self.tree.add(&path, &[7]).unwrap();
                    self.model.put(&path, Node::Value(vec![7]));
                    path.pop();
                }
            }
            _ => {
                let from = &others[random.index(others.len())];
                let source = crate::context_machine::path(random);
                if let Some(tree) = from.tree.find_tree(&source).unwrap() {
                    self.tree.add_tree(&path, &tree).unwrap();
                    self.model.put(&path, from.model.get(&source).unwrap().clone());
                }
            }
        }
    }
}

#[test]
fn trees_mean_what_nested_maps_mean() {
    let rounds = setting("VARVITE_CONTEXT_ROUNDS", 6);
    for (number, configuration) in configurations().into_iter().enumerate() {
        for round in 0..rounds {
            let mut random = Random::new(round * 100 + number as u64);
            let empty = Pair { tree: Tree::empty(configuration), model: Node::empty() };
            let mut pairs = vec![empty];
            for step in 0..150 {
                let mut pair = pairs[random.index(pairs.len())].clone();
                pair.change(&mut random, &pairs);
                if random.one_in(3) {
                    pair.check(&mut random, &format!("{configuration:?} {round} {step}"));
                }
                if random.one_in(4) && pairs.len() < 6 {
                    pairs.push(pair);
                } else {
                    let place = random.index(pairs.len());
                    pairs[place] = pair;
                }
            }
            for pair in &pairs {
                pair.check(&mut random, "at the end");
                pair.check_folds(&mut random);
                pairs[0].check_diff(pair);
            }
        }
    }
}

fn store_story(disk: &Arc<dyn Disk>, configuration: Configuration, index: Index, seed: u64) {
    let mut random = Random::new(seed);
    let options = Options {
        configuration,
        index,
        durability: random.choose(&[Durability::Synced, Durability::Written]),
        // Small, so that evicted nodes are read again and patches are made of read ones.
        objects_bytes: random.choose(&[0, 20_000, 1 << 20]),
        pages_bytes: random.choose(&[0, 40_000, 1 << 20]),
        chunk_bytes: random.choose(&[4_000, 60_000, 1 << 20]),
        // So small that every change, or every few, spills what is live.
        tree_bytes: random.choose(&[0, 3_000, 128 << 20]),
        index_bytes: random.choose(&[0, 1 << 20]),
        seed,
        ..Options::default()
    };
    let mut store = Store::create(Arc::clone(disk), options.clone()).unwrap();
    let mut reader = Store::open_read_only(Arc::clone(disk), options.clone()).unwrap();
    let mut commits: Vec<(Hash, Node)> = Vec::new();
    let mut handles = vec![Pair { tree: store.empty_tree(), model: Node::empty() }];
    // Another store, from which subtrees are copied.
    let other = Pair { tree: Tree::empty(configuration), model: Node::empty() };
    let mut foreign = Store::create(MemoryDisk::new(), options.clone()).unwrap();
    let mut other = other;
    for _ in 0..20 {
        let alone = [other.clone()];
        other.change(&mut random, &alone);
    }
    other.tree.add(&["x"], b"foreign value of a store").unwrap();
    other.model.put(&[b"x".to_vec()], Node::Value(b"foreign value of a store".to_vec()));
    foreign.commit(&mut other.tree, &CommitInfo::default()).unwrap();
    for step in 0..60i64 {
        let mut pair = match commits.last() {
            Some((hash, model)) if random.one_in(2) => {
                Pair { tree: store.checkout(hash).unwrap(), model: model.clone() }
            }
            _ => handles[random.index(handles.len())].clone(),
        };
        let sources = [handles[0].clone(), other.clone()];
        for _ in 0..random.below(12) {
            pair.change(&mut random, &sources);
        }
        if random.one_in(2) {
            pair.check(&mut random, "before the commit");
        }
        if random.one_in(3) {
            pair.tree.clear(random.index(3));
            pair.check(&mut random, "after giving memory back");
        }
        let parents: Vec<Hash> = commits.last().map(|(hash, _)| *hash).into_iter().collect();
        let info = CommitInfo::new(&parents, step, "Tezos", format!("step {step}"));
        if pair.model.is_empty() || matches!(pair.model, Node::Value(_)) {
            let error = store.commit(&mut pair.tree, &info).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            continue;
        }
        let expected = store.hash(&pair.tree, &info).unwrap();
        let hash = store.commit(&mut pair.tree, &info).unwrap();
        assert_eq!(hash, expected, "hash before equals commit");
        pair.check(&mut random, "after the commit");
        commits.push((hash, pair.model.clone()));
        handles.truncate(5);
        handles.push(pair);
        if random.one_in(3) {
            let (hash, _) = commits[random.index(commits.len())];
            store.set_branch(b"main", &hash).unwrap();
            reader.reload().unwrap();
            assert_eq!(reader.branch(b"main"), Some(hash));
        }
        if random.one_in(4) {
            reader.reload().unwrap();
            let (hash, model) = &commits[random.index(commits.len())];
            let tree = reader.checkout(hash).unwrap();
            Pair { tree, model: model.clone() }.check(&mut random, "in the reader");
        }
        if random.one_in(8) {
            // Closed or dropped: the same is found again. Old handles stay readable.
            if random.one_in(2) {
                store.close().unwrap();
            } else {
                drop(store);
            }
            store = Store::open(Arc::clone(disk), options.clone()).unwrap();
            assert_eq!(store.last_commit().unwrap(), commits.last().map(|(hash, _)| *hash));
        }
    }
    for (hash, model) in &commits {
        let pair = Pair { tree: store.checkout(hash).unwrap(), model: model.clone() };
        pair.check(&mut random, "at the end");
        pair.check_folds(&mut random);
        assert_eq!(store.commit_info(hash).unwrap().hash, *hash);
    }
    for handle in &handles {
        handle.check(&mut random, "an old handle");
    }
    if index == Index::Always {
        assert!(store.stats().objects > 0);
    }
    store.clear().unwrap();
    assert_eq!(store.log(10).unwrap(), Vec::<Hash>::new());
    assert!(reader.exists(&commits[0].0).unwrap(), "a reader sees what its last reload saw");
    reader.reload().unwrap();
    assert!(!reader.exists(&commits[0].0).unwrap());
    let error = reader.checkout(&commits[0].0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    handles[0].check(&mut random, "a handle of the generation before");
}

#[test]
fn stores_on_every_disk_mean_what_nested_maps_mean() {
    for (number, configuration) in configurations().into_iter().enumerate() {
        let seed = number as u64;
        for index in [Index::Minimal, Index::Always] {
            store_story(&(MemoryDisk::new() as Arc<dyn Disk>), configuration, index, seed);
            store_story(&(SimDisk::new(seed) as Arc<dyn Disk>), configuration, index, seed + 50);
        }
        let folder = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = OsDisk::create(folder.path()).unwrap();
        store_story(&disk, configuration, Index::Minimal, seed + 100);
    }
}

#[test]
fn a_store_is_written_by_one_and_bad_calls_say_what_to_do() {
    let disk: Arc<dyn Disk> = MemoryDisk::new();
    let error = Store::open(Arc::clone(&disk), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    let mut store = Store::create(Arc::clone(&disk), Options::default()).unwrap();
    let error = Store::open(Arc::clone(&disk), Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    let error = store.checkout(&[1; 32]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Missing);
    assert_eq!(store.set_branch(b"main", &[1; 32]).unwrap_err().kind(), ErrorKind::Missing);
    let mut reader = Store::open_read_only(Arc::clone(&disk), Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["a"], b"1").unwrap();
    let error = reader.commit(&mut tree, &CommitInfo::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let mut binary = Tree::empty(Configuration::TEZOS_BINARY);
    binary.add(&["a"], b"1").unwrap();
    let error = store.commit(&mut binary, &CommitInfo::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(tree.add_tree(&["b"], &binary).unwrap_err().kind(), ErrorKind::Invalid);
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    assert_eq!(store.commit(&mut tree, &CommitInfo::default()).unwrap(), hash);
    assert!(store.test_and_set_branch(b"b", None, Some(&hash)).unwrap());
    assert!(!store.test_and_set_branch(b"b", None, Some(&hash)).unwrap());
    assert!(store.test_and_set_branch(b"b", Some(&hash), None).unwrap());
    drop(store);
    let error = Store::create(disk, Options::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exists);
}

#[test]
fn a_commit_of_any_size_spills_and_hashes_the_same() {
    let mut reference = Tree::empty(Configuration::TEZOS);
    for index in [Index::Minimal, Index::Always] {
        let sim = SimDisk::new(4);
        let options = Options { index, tree_bytes: 100_000, ..Options::default() };
        let disk = Arc::clone(&sim) as Arc<dyn Disk>;
        let mut store = Store::create(Arc::clone(&disk), options.clone()).unwrap();
        let mut tree = store.empty_tree();
        let before = (store.stats(), sim.calls());
        for number in 0..8000u32 {
            let path = [format!("{}", number % 70), format!("{number}")];
            tree.add(&path, &[number as u8; 60]).unwrap();
            if index == Index::Minimal {
                reference.add(&path, &[number as u8; 60]).unwrap();
            }
        }
        let after = (store.stats(), sim.calls());
        assert!(after.0.pack_bytes - before.0.pack_bytes > 500_000, "most of it is spilled");
        assert_eq!(after.0.syncs, before.0.syncs, "and not synced");
        assert_eq!(store.log(1).unwrap(), Vec::<Hash>::new());
        let save_point = tree.clone();
        tree.remove(&["7"]).unwrap();
        let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        assert!(store.stats().pack_bytes < 2_500_000, "what is spilled is not written again");
        assert!(save_point.mem_tree(&["7"]).unwrap());
        assert_eq!(save_point.hash().unwrap(), reference.hash().unwrap());
        assert_eq!(store.check().unwrap().commits, 1);
        // A tree that outlives its store is read on, and does not spill any more.
        store.close().unwrap();
        for number in 0..3000u32 {
            tree.add(&[format!("late {number}")], &[1; 60]).unwrap();
        }
        let store = Store::open(disk, options).unwrap();
        assert!(store.checkout(&hash).unwrap().mem(&["8", "8"]).unwrap());
        assert_eq!(store.stats().commits, 1);
    }
}

#[test]
fn a_tree_of_before_a_clearing_spills_nowhere() {
    let options = Options { tree_bytes: 1000, ..Options::default() };
    let mut store = Store::create(MemoryDisk::new(), options).unwrap();
    let mut old = store.empty_tree();
    old.add(&["a"], &[1; 40]).unwrap();
    store.clear().unwrap();
    let before = store.stats().pack_bytes;
    for number in 0..100 {
        old.add(&[format!("{number}")], &[1; 40]).unwrap();
    }
    assert_eq!(store.stats().pack_bytes, before);
    let hash = store.commit(&mut old, &CommitInfo::default()).unwrap();
    assert_eq!(store.checkout(&hash).unwrap().length::<&[u8]>(&[]).unwrap(), 101);
}

#[test]
fn one_commit_is_one_write_and_one_sync() {
    let sim = SimDisk::new(3);
    let mut store = Store::create(Arc::clone(&sim) as Arc<dyn Disk>, Options::default()).unwrap();
    let mut tree = Tree::empty(Configuration::TEZOS);
    for number in 0..50 {
        let name = format!("{number}");
        tree.add(&["data", &name, "value"], &[b'x'; 20]).unwrap();
        let before = sim.calls();
        store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
        let after = sim.calls();
        assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (1, 1));
    }
}

/// Inverse of OCaml's mixing of one word, up to where it meets the state.
fn word_that_mixes_to(mixed: u32) -> u32 {
    let inverse =
        |odd: u32| (0..5).fold(odd, |x, _| x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x))));
    mixed.wrapping_mul(inverse(0x1b87_3593)).rotate_right(15).wrapping_mul(inverse(0xcc9e_2d51))
}

/// Names that collide under every seed: in each pair of words, two bits flip and cancel out.
fn colliding_names(pairs: u32) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for number in 0..pairs {
        let (first, second) = (0x1234_5678 ^ number, 0x0bad_cafe ^ number);
        let flip = |bit: u32| [first ^ bit << 18, second ^ bit << 31].map(word_that_mixes_to);
        words.push([flip(0), flip(1)]);
    }
    (0..1usize << pairs)
        .map(|choice| {
            let chosen = words.iter().enumerate().flat_map(|(at, both)| both[choice >> at & 1]);
            chosen.flat_map(u32::to_le_bytes).collect()
        })
        .collect()
}

#[test]
fn names_that_collide_at_every_depth_are_kept_up_to_the_bound() {
    let names = colliding_names(6);
    for seed in 0..12 {
        let hashes = names.iter().map(|name| varvite::context::name_hash::seeded(seed, name));
        assert_eq!(hashes.collect::<std::collections::HashSet<_>>().len(), 1, "seed {seed}");
    }
    let mut pair = Pair { tree: Tree::empty(Configuration::TEZOS), model: Node::empty() };
    let add = |pair: &mut Pair, name: &[u8]| -> varvite::Result<()> {
        pair.tree.add(&[name], b"v")?;
        pair.model.put(&[name.to_vec()], Node::Value(b"v".to_vec()));
        Ok(())
    };
    for number in 0..300 {
        add(&mut pair, format!("{number}").as_bytes()).unwrap();
    }
    for name in &names[..32] {
        add(&mut pair, name).unwrap();
    }
    pair.check(&mut Random::new(1), "a full bucket");
    let error = add(&mut pair, &names[32]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    pair.check(&mut Random::new(2), "after the refusal");
    for name in &names[..32] {
        assert!(pair.tree.mem(&[name]).unwrap());
    }
    pair.tree.remove(&[&names[0]]).unwrap();
    pair.model.remove(&[names[0].clone()]);
    add(&mut pair, &names[32]).unwrap();
    pair.check(&mut Random::new(3), "another took the place");
    let mut store = Store::create(MemoryDisk::new(), Options::default()).unwrap();
    let hash = store.commit(&mut pair.tree, &CommitInfo::default()).unwrap();
    pair.tree = store.checkout(&hash).unwrap();
    pair.check(&mut Random::new(4), "committed");
}

#[test]
fn a_path_of_a_hundred_thousand_steps_overflows_nothing() {
    let path = vec![b"s".to_vec(); 100_000];
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&path, b"deep").unwrap();
    let before = tree.clone();
    tree.add(&path, b"deeper").unwrap();
    assert_ne!(before.hash().unwrap(), tree.hash().unwrap());
    let mut store = Store::create(MemoryDisk::new(), Options::default()).unwrap();
    let hash = store.commit(&mut tree, &CommitInfo::default()).unwrap();
    let mut again = store.checkout(&hash).unwrap();
    assert_eq!(again.find(&path).unwrap().as_deref(), Some(&b"deeper"[..]));
    let mut count = 0;
    again
        .fold::<&[u8]>(&[], None, Order::Sorted, |_, _| {
            count += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(count, path.len() + 1);
    let mut changes = 0;
    before
        .diff(&again, |_, _| {
            changes += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(changes, 1);
    again.remove(&path).unwrap();
    assert!(again.is_empty().unwrap());
}

#[test]
fn a_subtree_shared_many_times_is_hashed_and_written_once() {
    let mut tree = Tree::empty(Configuration::TEZOS);
    tree.add(&["a", "value"], b"something of more than fifteen bytes").unwrap();
    for _ in 0..40 {
        let below = tree.clone();
        let mut above = Tree::empty(Configuration::TEZOS);
        above.add_tree(&["left"], &below).unwrap();
        above.add_tree(&["right"], &below).unwrap();
        tree = above;
    }
    let mut store = Store::create(MemoryDisk::new(), Options::default()).unwrap();
    store.commit(&mut tree, &CommitInfo::default()).unwrap();
    assert!(store.stats().pack_bytes < 20_000, "{:?}", store.stats());
}

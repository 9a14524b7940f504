//! Small directories within the records of their parents: the same trees and hashes, fewer records.

use std::sync::Arc;

use varvite::context::{
    ChildOrder, CommitInfo, Configuration, Durability, Index, Options, Order, Store, Tree, inspect,
};
use varvite::disk::Disk;
use varvite::disk::memory::MemoryDisk;

use crate::context_story::options;
use crate::model::context::{Node, Path};
use crate::random::Random;

fn path(steps: &[&str]) -> Path {
    steps.iter().map(|step| step.as_bytes().to_vec()).collect()
}

/// A path of up to four short steps, so that directories of all sizes around the bound come and go.
fn draw_path(random: &mut Random) -> Path {
    let depth = 1 + random.index(4);
    let name = |random: &mut Random| match random.below(9) {
        0 | 1 => format!("{:02x}{:02x}", random.below(2), random.below(3)),
        2 | 3 => format!("a rather long name {}", random.below(2)),
        // Three of these are more than any directory in place may have.
        4 => format!("{:x>120}", random.below(3)),
        _ => format!("{}", random.below(4)),
    };
    (0..depth).map(|_| name(random).into_bytes()).collect()
}

fn values(tree: &Tree) -> Vec<(Path, Vec<u8>)> {
    let mut values = Vec::new();
    tree.fold::<&[u8]>(&[], None, Order::Sorted, |path, tree| {
        values.extend(tree.to_value()?.map(|value| (path.to_vec(), value)));
        Ok(())
    })
    .unwrap();
    values
}

#[test]
fn directories_that_grow_and_shrink_around_the_bound_are_those_of_nested_maps() {
    let configurations =
        [Configuration::TEZOS, Configuration::new(4, 6, ChildOrder::SeededHash).unwrap()];
    for (seed, configuration) in configurations.into_iter().cycle().take(8).enumerate() {
        let index = if seed % 4 < 2 { Index::Minimal } else { Index::Always };
        let options = Options {
            configuration,
            chunk_bytes: 6_000,
            tree_bytes: 3_000,
            ..options(index, Durability::Synced)
        };
        let disk = MemoryDisk::seeded(1);
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        let (mut tree, mut node) = (store.empty_tree(), Node::empty());
        let mut random = Random::new(seed as u64);
        let mut commits = Vec::new();
        for number in 0..60 {
            for _ in 0..6 {
                let path = draw_path(&mut random);
                match random.below(8) {
                    0 => {
                        tree.remove(&path).unwrap();
                        node.remove(&path);
                    }
                    // What is somewhere goes somewhere else, from an older commit or from here.
                    1 => {
                        let from = draw_path(&mut random);
                        let old = commits.len().checked_sub(3).map(|at| &commits[at]);
                        let (source, model): (Tree, Node) = match old {
                            Some((hash, node)) if random.below(2) == 0 => {
                                (store.checkout(hash).unwrap(), Node::clone(node))
                            }
                            _ => (tree.clone(), node.clone()),
                        };
                        if let Some(found) = source.find_tree(&from).unwrap() {
                            tree.add_tree(&path, &found).unwrap();
                            node.put(&path, model.get(&from).expect("both have it").clone());
                        }
                    }
                    _ => {
                        let length = random.choose(&[0, 1, 5, 15, 16, 40]);
                        let value = random.bytes(length);
                        tree.add(&path, &value).unwrap();
                        node.put(&path, Node::Value(value));
                    }
                }
            }
            if tree.is_empty().unwrap() {
                continue;
            }
            assert_eq!(tree.hash().unwrap(), node.hash(configuration), "{seed} {number}");
            let hash = store.commit(&mut tree, &CommitInfo::new(&[], number, "a", "b")).unwrap();
            commits.push((hash, node.clone()));
            match number % 5 {
                0 => tree = store.checkout(&hash).unwrap(),
                1 => {
                    store.close().unwrap();
                    let shared = Arc::clone(&disk) as Arc<dyn Disk>;
                    store = Store::open(shared, options.clone()).unwrap();
                    tree = store.checkout(&hash).unwrap();
                }
                _ => {}
            }
        }
        let checked = store.check().unwrap();
        assert_eq!((checked.commits, checked.index_faults), (commits.len() as u64, Vec::new()));
        for (hash, node) in &commits {
            let tree = store.checkout(hash).unwrap();
            assert_eq!(values(&tree), node.values());
            for (path, value) in node.values() {
                assert_eq!(tree.find(&path).unwrap(), Some(value));
                for depth in 1..path.len() {
                    let found = tree.find_tree(&path[..depth]).unwrap().expect("it is on the way");
                    let Some(Node::Directory(children)) = node.get(&path[..depth]) else {
                        panic!()
                    };
                    assert_eq!(found.length::<&[u8]>(&[]).unwrap(), children.len() as u64);
                    let model = node.get(&path[..depth]).expect("it is on the way");
                    assert_eq!(found.hash().unwrap(), model.hash(configuration));
                }
            }
        }
        // Every tree from every other, by what differs, and in another store.
        let other = MemoryDisk::seeded(2);
        let other_options = Options { seed: Some(77), ..options };
        let mut copies = Store::create(other, other_options).unwrap();
        for pair in commits.windows(2).step_by(7) {
            let [before, after] = [&pair[0], &pair[1]];
            let (older, newer) =
                (store.checkout(&before.0).unwrap(), store.checkout(&after.0).unwrap());
            let mut changes = 0;
            older
                .diff(&newer, |_, _| {
                    changes += 1;
                    Ok(())
                })
                .unwrap();
            let (a, b) = (before.1.values(), after.1.values());
            let one_sided = |x: &[(Path, Vec<u8>)], y: &[(Path, Vec<u8>)]| {
                x.iter().filter(|(path, _)| y.iter().all(|(other, _)| other != path)).count()
            };
            let updated = a
                .iter()
                .filter(|(path, value)| b.iter().any(|(other, new)| other == path && new != value));
            assert_eq!(changes, one_sided(&a, &b) + one_sided(&b, &a) + updated.count());
            let mut copy = copies.empty_tree();
            copy.add_tree(&["all"], &newer).unwrap();
            let hash = copies.commit(&mut copy, &CommitInfo::default()).unwrap();
            let copy = copies.checkout(&hash).unwrap().find_tree(&["all"]).unwrap().unwrap();
            assert_eq!(copy.hash().unwrap(), newer.hash().unwrap());
        }
        copies.check().unwrap();
    }
}

/// How often `what` is in the outline of the only chunk.
fn records(disk: &MemoryDisk, what: &str) -> u64 {
    let outline = inspect::pack("pack", &disk.bytes("0000-000000.pack").unwrap());
    let fields = outline.children.iter().flat_map(|batch| &batch.fields);
    fields.filter(|(name, _)| name == what).map(|(_, count)| count.parse::<u64>().unwrap()).sum()
}

fn account(tree: &mut Tree, number: usize, value: &[u8]) {
    let name = format!("{number:040}");
    tree.add(&["accounts", &name, "balance"], value).unwrap();
    tree.add(&["accounts", &name, "counter"], &[1, 2]).unwrap();
}

#[test]
fn an_account_has_no_record_of_its_own_and_a_large_directory_has() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let options = Options { index, ..Options::default() };
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        let mut tree = store.empty_tree();
        (0..20).for_each(|number| account(&mut tree, number, b"1234"));
        let first = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        assert_eq!(records(&disk, "directories"), 2, "the root, and that of the accounts");
        // One value that has a record makes a reference, and the directory is still within.
        account(&mut tree, 3, &[7; 40]);
        store.commit(&mut tree, &CommitInfo::default()).unwrap();
        assert_eq!(records(&disk, "values"), 1);
        assert_eq!(records(&disk, "directories") + records(&disk, "patched directories"), 4);
        // Too much for its parent: it gets a record, and loses it again.
        for number in 0..9 {
            let name = format!("{:040}", 5);
            tree.add(&["accounts", &name, &format!("more {number}")], b"x").unwrap();
        }
        store.commit(&mut tree, &CommitInfo::default()).unwrap();
        assert_eq!(records(&disk, "directories") + records(&disk, "patched directories"), 7);
        for number in 0..9 {
            let name = format!("{:040}", 5);
            tree.remove(&["accounts", &name, &format!("more {number}")]).unwrap();
        }
        account(&mut tree, 7, b"other");
        let last = store.commit(&mut tree, &CommitInfo::default()).unwrap();
        assert_eq!(records(&disk, "directories") + records(&disk, "patched directories"), 9);
        let checked = store.check().unwrap();
        assert_eq!((checked.commits, checked.values), (4, 1));
        if index == Index::Always {
            assert_eq!(store.stats().objects, 10, "nine directories and a value");
        }
        // The directory itself can be a commit, and then has a record.
        let path = path(&["accounts", &format!("{:040}", 3)]);
        let mut alone = store.checkout(&last).unwrap().find_tree(&path).unwrap().unwrap();
        let hash = alone.hash().unwrap();
        let commit = store.commit(&mut alone, &CommitInfo::default()).unwrap();
        assert_eq!(store.commit_info(&commit).unwrap().tree, hash);
        store.close().unwrap();
        let store = Store::open(disk, options).unwrap();
        let alone = store.checkout(&commit).unwrap();
        assert_eq!(alone.find(&["balance"]).unwrap().unwrap(), [7; 40]);
        let old = store.checkout(&first).unwrap();
        assert_eq!(
            old.find(&["accounts", &format!("{:040}", 3), "balance"]).unwrap().unwrap(),
            b"1234"
        );
    }
}

#[test]
fn one_that_refers_to_something_has_a_record_where_its_parent_is_wide() {
    for index in [Index::Minimal, Index::Always] {
        let disk = MemoryDisk::seeded(1);
        let options = Options { index, ..Options::default() };
        let mut store = Store::create(Arc::clone(&disk) as Arc<dyn Disk>, options.clone()).unwrap();
        let (mut tree, mut node) = (store.empty_tree(), Node::empty());
        let mut random = Random::new(5);
        let mut commits = Vec::new();
        // Directories on disk so far; up to 32 children they are within, and beyond what changes is not.
        let mut before = 0;
        for (number, width) in [20, 32, 33, 60, 45, 32, 8].into_iter().enumerate() {
            let had = node.get(&path(&["cells"])).map_or(0, |cells| match cells {
                Node::Directory(children) => children.len(),
                Node::Value(_) => 0,
            });
            for child in 0..width.max(had) {
                let path = path(&["cells", &format!("{child:02}"), "data"]);
                if child >= width {
                    tree.remove(&path).unwrap();
                    node.remove(&path);
                } else if child >= had || child % 3 == 0 {
                    let value = random.bytes(40);
                    tree.add(&path, &value).unwrap();
                    node.put(&path, Node::Value(value));
                }
            }
            let changed = (0..width).filter(|child| *child >= had || child % 3 == 0).count();
            assert_eq!(tree.hash().unwrap(), node.hash(options.configuration));
            let hash =
                store.commit(&mut tree, &CommitInfo::new(&[], number as i64, "a", "b")).unwrap();
            let all = records(&disk, "directories") + records(&disk, "patched directories");
            let own = if width > 32 { changed as u64 } else { 0 };
            assert_eq!(all - before, 1 + own + 1, "root, cells and its own: {number}");
            before = all;
            commits.push((hash, node.clone()));
            if number % 2 == 1 {
                store.close().unwrap();
                let shared = Arc::clone(&disk) as Arc<dyn Disk>;
                store = Store::open(shared, options.clone()).unwrap();
                tree = store.checkout(&hash).unwrap();
            }
        }
        let checked = store.check().unwrap();
        assert_eq!((checked.commits, checked.index_faults), (commits.len() as u64, Vec::new()));
        for (hash, node) in &commits {
            assert_eq!(values(&store.checkout(hash).unwrap()), node.values());
        }
    }
}

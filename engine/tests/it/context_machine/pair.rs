//! A tree beside nested maps: random names and values, and everything compared.

use std::collections::BTreeMap;

use varvite::context::{Change, Depth, Kind, Order, Tree};

use crate::model::context::{Node, Path};
use crate::random::Random;

/// Names from a small set, so that paths meet: short, hex of several lengths, odd bytes.
pub fn name(random: &mut Random) -> Vec<u8> {
    let number = random.below(24);
    match random.below(8) {
        0 => vec![number as u8 * 11],
        1 => format!("{number:02x}").into_bytes(),
        2 => format!("{:044x}", number * 0x0123_4567_89ab).into_bytes(),
        3 => vec![b'a'; 1 + number as usize * 12],
        _ => format!("n{number}").into_bytes(),
    }
}

pub fn path(random: &mut Random) -> Path {
    let length = 1 + random.below(4);
    (0..length).map(|_| name(random)).collect()
}

pub fn value(random: &mut Random) -> Vec<u8> {
    let length = random.choose(&[0, 1, 5, 15, 16, 17, 40, 300]);
    random.bytes(length)
}

/// Whether a depth is within a bound.
type Includes = fn(usize, usize) -> bool;

/// A tree and what it must be.
#[derive(Clone)]
pub struct Pair {
    pub tree: Tree,
    pub model: Node,
}

impl Pair {
    pub fn check(&self, random: &mut Random, what: &str) {
        let configuration = self.tree.configuration();
        assert_eq!(self.tree.hash().unwrap(), self.model.hash(configuration), "{what}: the hash");
        assert_eq!(self.tree.is_empty().unwrap(), self.model.is_empty(), "{what}");
        for _ in 0..4 {
            self.check_path(&path(random), random);
        }
    }

    pub fn check_path(&self, path: &Path, random: &mut Random) {
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

    pub fn check_folds(&self, random: &mut Random) {
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

    pub fn check_diff(&self, after: &Pair) {
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
}

/// What changes of a tree did to the kinds and sizes of its directories.
pub type Note<'a> = &'a mut dyn FnMut(&'static str);

/// Random changes of both halves alike.
impl Pair {
    pub fn empty(tree: Tree) -> Pair {
        Pair { tree, model: Node::empty() }
    }

    /// Adds a value, and notes what it replaces.
    pub fn add(&mut self, path: &Path, value: Vec<u8>, note: Note<'_>) {
        match self.model.get(path) {
            Some(Node::Directory(_)) => note("a directory became a value"),
            None if self.has_value_on_the_way(path) => note("a value became a directory"),
            _ => {}
        }
        self.tree.add(path, &value).unwrap();
        self.model.put(path, Node::Value(value));
    }

    fn has_value_on_the_way(&self, path: &Path) -> bool {
        (0..path.len()).any(|end| matches!(self.model.get(&path[..end]), Some(Node::Value(_))))
    }

    pub fn remove(&mut self, path: &Path, note: Note<'_>) {
        let parent = &path[..path.len() - 1];
        let before = self.width(parent);
        self.tree.remove(path).unwrap();
        self.model.remove(path);
        self.note_shrinking(before, self.width(parent), note);
    }

    fn width(&self, path: &[Vec<u8>]) -> usize {
        match self.model.get(path) {
            Some(Node::Directory(children)) => children.len(),
            _ => 0,
        }
    }

    fn note_shrinking(&self, before: usize, after: usize, note: Note<'_>) {
        let limit = self.tree.configuration().stable_hash();
        if before > limit && after <= limit {
            note("a directory shrank to the flat limit");
            if (before, after) == (257, 256) {
                note("a directory shrank from 257 to 256");
            }
        }
        if before == limit && after < limit {
            note("a directory shrank below the flat limit");
        }
    }

    /// Adds a run of names to a directory, so that flat limits are crossed.
    pub fn widen(&mut self, random: &mut Random, note: Note<'_>) {
        let mut path = path(random);
        path.truncate(2);
        let (first, count) = (random.below(300), random.below(40));
        for number in first..first + count {
            path.push(format!("{number:04x}").into_bytes());
            self.add(&path, vec![7], note);
            path.pop();
        }
    }

    /// Makes a directory a little larger than the flat limit, and takes names away until it is a
    /// little smaller, or nearly empty; its hash and length hold at every step.
    pub fn narrow(&mut self, random: &mut Random, note: Note<'_>) {
        let limit = self.tree.configuration().stable_hash();
        let mut path: Path = vec![name(random)];
        let mut number = random.below(1_000);
        while self.width(&path) < limit + 2 {
            number += 1;
            path.push(format!("w{number}").into_bytes());
            self.add(&path, value(random), note);
            path.pop();
        }
        let last = if random.one_in(4) { 1 } else { limit.saturating_sub(2) };
        while self.width(&path) > last {
            let Some(Node::Directory(children)) = self.model.get(&path) else { unreachable!() };
            let (width, one) = (children.len(), random.index(children.len()));
            let child = children.keys().nth(one).expect("below the width").clone();
            path.push(child);
            self.remove(&path, note);
            path.pop();
            let near = width.abs_diff(limit) < 4;
            if near || random.one_in(40) {
                self.check_path(&path, random);
            }
        }
    }

    /// A value's place becomes a directory, and then a value again.
    pub fn turn(&mut self, random: &mut Random, note: Note<'_>) {
        let mut path = path(random);
        self.add(&path, value(random), note);
        path.push(name(random));
        self.add(&path, value(random), note);
        self.check_path(&path, random);
        path.pop();
        self.check_path(&path, random);
        if random.one_in(2) {
            self.add(&path, value(random), note);
        } else {
            // What remains of the directory goes with its last entry.
            path.push(name(random));
            self.remove(&path, note);
            path.pop();
        }
        self.check_path(&path, random);
    }

    /// Binds what `from` has at a random path; whether it has anything there.
    pub fn graft(&mut self, from: &Pair, random: &mut Random) -> bool {
        let (source, target) = (path(random), path(random));
        let source = &source[..random.index(source.len() + 1)];
        let Some(tree) = from.tree.find_tree(source).unwrap() else { return false };
        let subtree = from.model.get(source).expect("both have it").clone();
        self.tree.add_tree(&target, &tree).unwrap();
        if subtree.is_empty() {
            self.model.remove(&target);
        } else {
            self.model.put(&target, subtree);
        }
        true
    }

    /// One random change of any kind.
    pub fn change(&mut self, random: &mut Random, others: &[Pair], note: Note<'_>) {
        let place = path(random);
        match random.below(10) {
            0..5 => self.add(&place, value(random), note),
            5..8 => self.remove(&place, note),
            8 => self.widen(random, note),
            _ => drop(self.graft(&others[random.index(others.len())], random)),
        }
    }
}

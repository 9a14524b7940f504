//! The context's meaning in the least code: nested maps, and hashes straight from the public
//! specification. Only the digest itself is shared with the engine.

use std::collections::BTreeMap;

use varvite::context::hash::hash;
use varvite::context::{ChildOrder, Configuration};

pub type Path = Vec<Vec<u8>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    Value(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Node>),
}

impl Node {
    pub fn empty() -> Node {
        Node::Directory(BTreeMap::new())
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Node::Directory(children) if children.is_empty())
    }

    pub fn get(&self, path: &[Vec<u8>]) -> Option<&Node> {
        let mut node = self;
        for step in path {
            let Node::Directory(children) = node else { return None };
            node = children.get(step)?;
        }
        Some(node)
    }

    pub fn put(&mut self, path: &[Vec<u8>], new: Node) {
        let Some((step, rest)) = path.split_first() else {
            *self = new;
            return;
        };
        if matches!(self, Node::Value(_)) {
            *self = Node::empty();
        }
        let Node::Directory(children) = self else { unreachable!() };
        children.entry(step.clone()).or_insert_with(Node::empty).put(rest, new);
    }

    pub fn remove(&mut self, path: &[Vec<u8>]) {
        let Some((step, rest)) = path.split_first() else {
            *self = Node::empty();
            return;
        };
        let Node::Directory(children) = self else { return };
        if rest.is_empty() {
            children.remove(step);
        } else if let Some(child) = children.get_mut(step) {
            let was_directory = matches!(child, Node::Directory(_));
            child.remove(rest);
            if was_directory && child.is_empty() {
                children.remove(step);
            }
        }
    }

    /// Every value with its path, by path.
    pub fn values(&self) -> Vec<(Path, Vec<u8>)> {
        fn visit(node: &Node, path: &mut Path, out: &mut Vec<(Path, Vec<u8>)>) {
            match node {
                Node::Value(value) => out.push((path.clone(), value.clone())),
                Node::Directory(children) => {
                    for (name, child) in children {
                        path.push(name.clone());
                        visit(child, path, out);
                        path.pop();
                    }
                }
            }
        }
        let mut out = Vec::new();
        visit(self, &mut Vec::new(), &mut out);
        out
    }

    pub fn hash(&self, configuration: Configuration) -> [u8; 32] {
        let children = match self {
            Node::Value(value) => {
                return hash(&[&(value.len() as u64).to_be_bytes()[..], value].concat());
            }
            Node::Directory(children) => children,
        };
        let entries: Vec<Entry> = children
            .iter()
            .map(|(name, child)| {
                (name.clone(), matches!(child, Node::Value(_)), child.hash(configuration))
            })
            .collect();
        if entries.len() > configuration.stable_hash() {
            return part(configuration, 0, &entries);
        }
        let mut out = (entries.len() as u64).to_be_bytes().to_vec();
        for (name, is_value, below) in &entries {
            out.extend([if *is_value { 255 } else { 0 }, 0, 0, 0, 0, 0, 0, 0]);
            varint(&mut out, name.len());
            out.extend(name);
            out.extend(32u64.to_be_bytes());
            out.extend(below);
        }
        hash(&out)
    }
}

type Entry = (Vec<u8>, bool, [u8; 32]);

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value > 127 {
        out.push(value as u8 & 127 | 128);
        value /= 128;
    }
    out.push(value as u8);
}

fn part(configuration: Configuration, depth: usize, entries: &[Entry]) -> [u8; 32] {
    let mut out = Vec::new();
    if entries.len() <= configuration.entries() {
        out.push(0);
        varint(&mut out, entries.len());
        for (name, is_value, below) in entries {
            varint(&mut out, name.len());
            out.extend(name);
            out.push(u8::from(*is_value));
            out.extend(below);
        }
        return hash(&out);
    }
    let mut buckets: BTreeMap<usize, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        buckets.entry(bucket(configuration, depth, &entry.0)).or_default().push(entry.clone());
    }
    out.push(1);
    varint(&mut out, depth);
    varint(&mut out, entries.len());
    varint(&mut out, buckets.len());
    for (number, entries) in &buckets {
        varint(&mut out, *number);
        out.extend(part(configuration, depth + 1, entries));
    }
    hash(&out)
}

fn bucket(configuration: Configuration, depth: usize, name: &[u8]) -> usize {
    let entries = configuration.entries();
    if configuration.child_order() == ChildOrder::SeededHash {
        return seeded(depth as u32, name) as usize % entries;
    }
    let (digest, width) = (hash(name), entries.trailing_zeros() as usize);
    (depth * width..(depth + 1) * width)
        .fold(0, |number, bit| number * 2 + usize::from(digest[bit / 8] >> (7 - bit % 8) & 1))
}

fn seeded(seed: u32, name: &[u8]) -> u32 {
    let mut state = u64::from(seed);
    let rotate = |x: u64, by: u32| u64::from((x as u32).rotate_left(by));
    let low = |x: u64| x & 0xffff_ffff;
    for group in name.chunks(4) {
        let word = group.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        let word = low(rotate(low(word * 0xcc9e_2d51), 15) * 0x1b87_3593);
        state = low(rotate(state ^ word, 13) * 5 + 0xe654_6b64);
    }
    state ^= name.len() as u64;
    state = low((state ^ state >> 16) * 0x85eb_ca6b);
    state = low((state ^ state >> 13) * 0xc2b2_ae35);
    ((state ^ state >> 16) & 0x3fff_ffff) as u32
}

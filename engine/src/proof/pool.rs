//! Pieces of a tree by their hashes, and the ordinary nodes that stand for those that are at hand.
//!
//! A node refers to its children by numbers of the pool, as a node of a store does by offsets, so the
//! operations of a tree work on both. How many entries are below one bucket is only known once the
//! piece there has been looked at: that is all that a proof shows.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::Configuration;
use crate::context::hash::{self, Hash};
use crate::context::pieces::node::{Body, Branch, Known, Leaf, Node, Pointer, Slot, Target};
use crate::context::preimage;
use crate::context::tree::Kind;

/// What a hash is the hash of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Value,
    Directory,
    /// A piece of a directory at this depth.
    Piece(u32),
}

impl Class {
    pub(super) fn of(kind: Kind) -> Class {
        match kind {
            Kind::Value => Class::Value,
            Kind::Directory => Class::Directory,
        }
    }

    /// That of a piece of this one.
    pub(super) fn below(self) -> Class {
        Class::Piece(self.depth() + 1)
    }

    pub(super) fn depth(self) -> u32 {
        if let Class::Piece(depth) = self { depth } else { 0 }
    }
}

/// One place in a tree, whatever leads there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) class: Class,
    pub(super) hash: Hash,
}

/// One piece, its children by their hashes.
#[derive(Debug)]
pub(super) enum Shape {
    Leaf(Vec<(Vec<u8>, Kind, Hash)>),
    Branch { length: u64, children: Vec<(u16, Hash)> },
}

impl Shape {
    /// The hash that it has as a `class`.
    pub(super) fn hash(&self, configuration: Configuration, class: Class) -> Hash {
        let mut out = Vec::new();
        match self {
            Shape::Leaf(entries) if is_flat(configuration, class, entries.len()) => {
                preimage::put_u64(&mut out, entries.len() as u64);
                for (name, kind, hash) in entries {
                    preimage::put_flat_entry(&mut out, name, *kind == Kind::Value, hash);
                }
            }
            Shape::Leaf(entries) => {
                preimage::put_values_head(&mut out, entries.len() as u64);
                for (name, kind, hash) in entries {
                    preimage::put_values_entry(&mut out, name, *kind == Kind::Value, hash);
                }
            }
            Shape::Branch { length, children } => {
                let depth = u64::from(class.depth());
                preimage::put_branch_head(&mut out, depth, *length, children.len() as u64);
                for (bucket, hash) in children {
                    preimage::put_branch_pointer(&mut out, u64::from(*bucket), hash);
                }
            }
        }
        hash::hash(&out)
    }

    /// The children's keys in order.
    pub(super) fn children(&self, class: Class) -> Vec<Key> {
        match self {
            Shape::Leaf(entries) => {
                let key = |(_, kind, hash): &(_, Kind, Hash)| Key {
                    class: Class::of(*kind),
                    hash: *hash,
                };
                entries.iter().map(key).collect()
            }
            Shape::Branch { children, .. } => {
                let class = class.below();
                children.iter().map(|(_, hash)| Key { class, hash: *hash }).collect()
            }
        }
    }
}

/// Whether a leaf of `count` entries is hashed as a whole directory.
fn is_flat(configuration: Configuration, class: Class, count: usize) -> bool {
    class == Class::Directory && (count <= configuration.stable_hash() || count == 0)
}

/// What is at hand of a place.
#[derive(Clone, Debug)]
pub(super) enum Content {
    Value(Arc<[u8]>),
    Node(Arc<Node>),
}

impl Content {
    /// Entries of a node.
    pub(super) fn count(&self) -> u64 {
        match self {
            Content::Value(_) => 0,
            Content::Node(node) => node.count(),
        }
    }
}

#[derive(Debug)]
struct Place {
    key: Key,
    content: Option<Content>,
}

/// Places by number and by key.
#[derive(Debug, Default)]
pub(super) struct Pool {
    numbers: HashMap<Key, u64>,
    places: Vec<Place>,
}

impl Pool {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn number(&self, key: Key) -> Option<u64> {
        self.numbers.get(&key).copied()
    }

    /// The number of a place, a new one if it was not known.
    pub(super) fn intern(&mut self, key: Key) -> u64 {
        let next = self.places.len() as u64;
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.places.push(Place { key, content: None });
        }
        number
    }

    pub(super) fn key(&self, number: u64) -> Key {
        self.places[number as usize].key
    }

    pub(super) fn content(&self, number: u64) -> Option<&Content> {
        self.places[number as usize].content.as_ref()
    }

    pub(super) fn show(&mut self, number: u64, content: Content) {
        self.places[number as usize].content = Some(content);
    }

    /// The node of a shape whose hash as a `class` is `own`.
    pub(super) fn node(
        &mut self,
        configuration: Configuration,
        class: Class,
        shape: &Shape,
        own: Hash,
    ) -> Arc<Node> {
        let keys = shape.children(class);
        let hashes = keys.iter().map(|key| key.hash).collect();
        let numbers: Vec<u64> = keys.into_iter().map(|key| self.intern(key)).collect();
        let node =
            match shape {
                Shape::Leaf(entries) => {
                    let names = entries.iter().map(|(name, ..)| name.len()).sum();
                    let mut leaf = Leaf::with_capacity(entries.len(), names);
                    for ((name, kind, _), number) in entries.iter().zip(numbers) {
                        leaf.push(
                            name,
                            match kind {
                                Kind::Value => Slot::StoredValue(number),
                                Kind::Directory => Slot::StoredNode(number),
                            },
                        );
                    }
                    leaf.hashes().put(Known::Own(hashes));
                    let flat = is_flat(configuration, class, entries.len());
                    Node::new(Body::Leaf { leaf, flat })
                }
                Shape::Branch { length, children } => {
                    let pointers = children.iter().zip(numbers).map(|((bucket, _), number)| {
                        Pointer { bucket: *bucket, count: 0, target: Target::Stored(number) }
                    });
                    let branch = Branch::partial(class.depth(), pointers.collect(), *length);
                    branch.hashes().put(Known::Own(hashes));
                    Node::new(Body::Branch(branch))
                }
            };
        let _ = node.hash.set(own);
        Arc::new(node)
    }

    /// What the node at `number` leads to: names and children, or buckets and children.
    pub(super) fn shape(&self, node: &Node) -> Shape {
        match &node.body {
            Body::Leaf { leaf, .. } => Shape::Leaf(
                (0..leaf.len())
                    .map(|index| {
                        let (kind, number) = match leaf.slot(index) {
                            Slot::StoredValue(number) => (Kind::Value, *number),
                            Slot::StoredNode(number) => (Kind::Directory, *number),
                            _ => unreachable!("nodes of a pool refer to places"),
                        };
                        (leaf.name(index).to_vec(), kind, self.key(number).hash)
                    })
                    .collect(),
            ),
            Body::Branch(branch) => Shape::Branch {
                length: branch.count(),
                children: branch
                    .pointers
                    .iter()
                    .map(|pointer| match pointer.target {
                        Target::Stored(number) => (pointer.bucket, self.key(number).hash),
                        Target::Live(_) => unreachable!("nodes of a pool refer to places"),
                    })
                    .collect(),
            },
        }
    }
}

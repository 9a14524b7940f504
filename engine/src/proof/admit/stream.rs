//! Elements of a stream: each finds the places that await its hash.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Admission, length_of};
use crate::context::Configuration;
use crate::context::hash::{self, Hash};
use crate::context::pieces::digest;
use crate::context::pieces::directory::Directories;
use crate::context::pieces::node::{Body, Leaf, Load, Node, Slot};
use crate::error::{Error, Result};
use crate::proof::pool::{Class, Content, Key, Pool, Shape};
use crate::proof::shape::{Element, Extender, wrong};

/// What elements of a stream show.
#[derive(Debug)]
pub(crate) struct Looked {
    /// The places, of a chain the uppermost one.
    places: Vec<u64>,
    /// How many elements show it: as many of its places have to be looked at.
    times: usize,
    /// The number of the first of them.
    pub(crate) index: usize,
}

impl Looked {
    /// Takes one more element that shows the same, and `more` places, unless it is one too many.
    fn takes(&mut self, more: &[u64]) -> bool {
        self.places.extend(more);
        let takes = self.times < self.places.len();
        self.times += usize::from(takes);
        takes
    }

    /// Whether as many places were looked at as there are elements.
    pub(crate) fn is_used(&self, used: &[bool]) -> bool {
        self.places.iter().filter(|place| used[**place as usize]).count() >= self.times
    }
}

/// Flat directories of a stream as Octez keeps them in memory.
#[derive(Default)]
struct Inner {
    /// Those that are not cut yet.
    waiting: Vec<u64>,
    /// Pieces of the others that the stream did not have yet.
    hashes: HashSet<Hash>,
}

/// Where an element of a stream belongs.
struct Found {
    places: Vec<u64>,
    /// Those that it may have.
    hashes: Vec<Hash>,
}

impl Admission {
    pub(super) fn stream(&mut self, stream: &[Element]) -> Result<Vec<Looked>> {
        let mut looked: Vec<Looked> = Vec::new();
        let mut leaves: HashMap<Hash, usize> = HashMap::new();
        let mut inner = Inner::default();
        for (index, element) in stream.iter().enumerate() {
            let found = match element {
                Element::Value(value) => {
                    let key = Key { class: Class::Value, hash: hash::value(value) };
                    let place = self.awaited(key);
                    if let Some(number) = place {
                        self.pool.show(number, Content::Value(value.as_slice().into()));
                    }
                    Found { places: place.into_iter().collect(), hashes: Vec::new() }
                }
                Element::Extender(extender) => self.stream_extender(extender),
                Element::Node(entries) => {
                    let list = entries
                        .iter()
                        .map(|(name, child)| (name.clone(), child.kind, child.hash.to_bytes()));
                    self.stream_leaf(&Shape::Leaf(list.collect()), &mut inner)?
                }
                Element::Inode(inode) => {
                    let length = length_of(inode.length)?;
                    let children = inode.children.clone();
                    self.stream_branch(&Shape::Branch { length, children })?
                }
            };
            // The hash of entries does not tell their depth: they are shown wherever they fit, and may
            // come as often.
            let leaf = matches!(element, Element::Node(_)).then(|| found.hashes.last()).flatten();
            let before = leaf.and_then(|hash| leaves.get(hash).copied());
            match before {
                Some(before) if looked[before].takes(&found.places) => {}
                _ if !found.places.is_empty() => {
                    leaves.extend(leaf.map(|hash| (*hash, looked.len())));
                    looked.push(Looked { places: found.places, times: 1, index });
                }
                _ if self.is_inner(&found.hashes, &mut inner)? => {}
                _ => {
                    return Err(wrong(format_args!(
                        "element {index} of the stream is nothing that those before it refer to"
                    )));
                }
            }
        }
        Ok(looked)
    }

    /// The number of a place that is referred to and not shown yet.
    fn awaited(&self, key: Key) -> Option<u64> {
        self.pool.number(key).filter(|number| self.pool.content(*number).is_none())
    }

    /// Every class that an element may have, the likeliest first: pieces of a flat directory are as deep
    /// as they like.
    fn classes(&self) -> impl Iterator<Item = Class> + use<> {
        let deepest = if self.flat { self.configuration.depth_limit() } else { self.deepest };
        let next = self.last.below();
        let others = (1..=deepest).map(Class::Piece).filter(move |class| *class != next);
        let next = (next.depth() <= deepest).then_some(next);
        next.into_iter().chain(std::iter::once(Class::Directory)).chain(others)
    }

    /// Shows entries at every place that awaits them.
    fn stream_leaf(&mut self, shape: &Shape, inner: &mut Inner) -> Result<Found> {
        let whole = self.key(Class::Directory, shape)?;
        let mut found = Found { places: Vec::new(), hashes: vec![whole.hash] };
        if self.awaited(whole).is_some() {
            let number = self.put(whole, shape);
            found.places.push(number);
            self.last = Class::Directory;
            if let Shape::Leaf(entries) = shape
                && entries.len() > self.configuration.entries()
            {
                inner.waiting.push(number);
            }
        }
        let Ok(piece) = self.key(Class::Piece(1), shape) else { return Ok(found) };
        found.hashes.push(piece.hash);
        let deepest = if self.flat { self.configuration.depth_limit() } else { self.deepest };
        for depth in 1..=deepest {
            let key = Key { class: Class::Piece(depth), hash: piece.hash };
            if self.awaited(key).is_some() {
                found.places.push(self.put(key, shape));
                self.last = key.class;
            }
        }
        Ok(found)
    }

    fn stream_branch(&mut self, shape: &Shape) -> Result<Found> {
        let mut found = Found { places: Vec::new(), hashes: Vec::new() };
        let mut refused = None;
        for class in self.classes() {
            let key = match self.key(class, shape) {
                Ok(key) => key,
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            };
            found.hashes.push(key.hash);
            if self.awaited(key).is_some() {
                found.places.push(self.put(key, shape));
                self.last = class;
                return Ok(found);
            }
        }
        refused.filter(|_| found.hashes.is_empty()).map_or(Ok(found), Err)
    }

    fn stream_extender(&mut self, extender: &Extender<Hash>) -> Found {
        for class in self.classes() {
            let Ok(chain) = self.chain(class, extender.length, &extender.segment, *extender.child)
            else {
                continue;
            };
            if self.awaited(chain[0].0).is_some() {
                for (key, shape) in chain.iter().rev() {
                    self.put(*key, shape);
                }
                self.last = chain[chain.len() - 1].0.class;
                let places = self.pool.number(chain[0].0).into_iter().collect();
                return Found { places, hashes: Vec::new() };
            }
        }
        Found { places: Vec::new(), hashes: Vec::new() }
    }

    /// Whether one of `hashes` is that of a piece into which a flat directory before it would be cut.
    /// Octez keeps such directories cut, and its streams have their pieces.
    fn is_inner(&self, hashes: &[Hash], inner: &mut Inner) -> Result<bool> {
        for number in std::mem::take(&mut inner.waiting) {
            if let Some(Content::Node(node)) = self.pool.content(number)
                && let Body::Leaf { leaf, .. } = &node.body
            {
                self.cut(leaf, &mut inner.hashes)?;
            }
        }
        Ok(hashes.iter().any(|hash| inner.hashes.remove(hash)))
    }

    /// The hashes of the pieces into which `leaf` would be cut.
    fn cut(&self, leaf: &Leaf, hashes: &mut HashSet<Hash>) -> Result<()> {
        let given = self.configuration;
        let configuration = Configuration::new(given.entries() as u32, 0, given.child_order())?;
        let numbers = Numbers(&self.pool);
        let directories = Directories { configuration, load: Some(&numbers), tally: None };
        let mut root = Arc::new(Node::leaf(Leaf::default(), false));
        for index in 0..leaf.len() {
            directories.insert(&mut root, leaf.name(index), leaf.slot(index).clone())?;
        }
        digest::node(&root, Some(&numbers))?;
        let mut stack = vec![&root];
        while let Some(node) = stack.pop() {
            hashes.extend(node.hash.get());
            if let Body::Branch(_) = node.body {
                stack.extend((0..node.width()).filter_map(|index| node.live(index)));
            }
        }
        Ok(())
    }
}

/// The hashes of the places of a pool, and nothing of their content.
#[derive(Debug)]
struct Numbers<'a>(&'a Pool);

impl Load for Numbers<'_> {
    fn node(&self, _: u64) -> Result<Arc<Node>> {
        Err(Error::invalid("only hashes are looked at here"))
    }

    fn value(&self, _: u64) -> Result<Arc<[u8]>> {
        Err(Error::invalid("only hashes are looked at here"))
    }

    fn hash(&self, number: u64) -> Result<Hash> {
        Ok(self.0.key(number).hash)
    }

    fn identity(&self) -> u64 {
        0
    }

    fn spill(&self, _: &mut Slot) -> Result<()> {
        Ok(())
    }
}

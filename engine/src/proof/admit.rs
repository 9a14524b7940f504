//! From a proof to a pool: every limit is checked before anything is hashed, every piece is hashed
//! before anything is read from it.
//!
//! A tree proof is hashed from its leaves up. An element of a stream must have a hash that an element
//! before it, or the root, refers to: that is also what tells whether it is a directory or a piece of
//! one, and at which depth.

use std::collections::HashSet;
use std::sync::Arc;

use super::pool::{Class, Content, Key, Pool, Shape};
use super::shape::{Element, Entries, Extender, NESTING, Part, Piece, Proof, State, wrong};
use crate::context::Configuration;
use crate::context::digest;
use crate::context::directory::Directories;
use crate::context::hash::{self, Hash};
use crate::context::node::{Body, Leaf, Load, Node, Slot};
use crate::context::tree::{Kind as TreeKind, NAME_MAX};
use crate::error::{Error, Result};

/// What a proof shows, by hash.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) pool: Pool,
    pub(super) root: u64,
    /// The places that elements of a stream show, each with its uppermost one.
    pub(super) elements: Vec<u64>,
}

struct Admission {
    configuration: Configuration,
    pool: Pool,
    /// The directory that may be empty.
    root: Key,
    /// The depth of the deepest piece that is referred to.
    deepest: u32,
    /// A flat directory was shown that is large enough to be cut.
    flat: bool,
}

/// Checks what `proof` says of the tree before, and that it is the tree with the hash `before`.
pub(super) fn admit(proof: &Proof, configuration: Configuration) -> Result<Admitted> {
    let version = Proof::version_of(configuration, proof.is_stream());
    if proof.version != version {
        return Err(wrong(format_args!(
            "its version is {}, where the configuration and its form make it {version}",
            proof.version
        )));
    }
    let root = Key { class: Class::of(proof.before.kind), hash: proof.before.hash };
    let mut admission =
        Admission { configuration, pool: Pool::default(), root, deepest: 0, flat: false };
    let number = admission.pool.intern(root);
    let mut elements = Vec::new();
    match &proof.state {
        State::Tree(part) => {
            let found = admission.part(part, 0)?;
            if found != root {
                return Err(wrong(format_args!(
                    "what it shows has the hash {}, not the one before, {}",
                    hash::to_text(&found.hash),
                    hash::to_text(&root.hash)
                )));
            }
        }
        State::Stream(stream) => elements = admission.stream(stream)?,
    }
    super::placement::check(&admission.pool, configuration)?;
    Ok(Admitted { pool: admission.pool, root: number, elements })
}

/// Whether a shape may stand where a `class` is expected.
fn check(
    configuration: Configuration,
    class: Class,
    shape: &Shape,
    may_be_empty: bool,
) -> Result<()> {
    let entries = configuration.entries();
    let whole = configuration.stable_hash().max(entries);
    let most = if class == Class::Directory { whole } else { entries };
    match shape {
        Shape::Leaf(list) => {
            if list.len() > most || (list.is_empty() && !may_be_empty) {
                return Err(wrong(format_args!(
                    "{} entries in one piece, where 1 to {most} are possible",
                    list.len()
                )));
            }
            if !list.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(wrong("names that are not in order, or there twice"));
            }
            if list.iter().any(|(name, ..)| name.len() > NAME_MAX) {
                return Err(wrong(format_args!("a name longer than {NAME_MAX} bytes")));
            }
        }
        Shape::Branch { length, children } => {
            let (least, count) = (most as u64 + 1, children.len() as u64);
            if *length < least || *length > u64::from(u32::MAX) || *length < count {
                return Err(wrong(format_args!(
                    "an inode of {count} buckets says that it has {length} entries"
                )));
            }
            let depth = if let Class::Piece(depth) = class { depth } else { 0 };
            if depth >= configuration.depth_limit() {
                return Err(wrong(format_args!("an inode at depth {depth}, which none has")));
            }
            let bounded = children.iter().all(|(bucket, _)| usize::from(*bucket) < entries);
            if count == 0 || !bounded || !children.is_sorted_by(|a, b| a.0 < b.0) {
                return Err(wrong(format_args!(
                    "an inode whose buckets are not some of {entries}, in order"
                )));
            }
        }
    }
    Ok(())
}

fn length_of(length: i64) -> Result<u64> {
    u64::try_from(length).map_err(|_| wrong(format_args!("a directory of {length} entries")))
}

impl Admission {
    /// Checks a shape, and returns the key that it has as a `class`.
    fn key(&self, class: Class, shape: &Shape) -> Result<Key> {
        let may_be_empty = class == Class::Directory && self.root.hash == hash::EMPTY;
        check(self.configuration, class, shape, may_be_empty)?;
        Ok(Key { class, hash: shape.hash(self.configuration, class) })
    }

    fn show(&mut self, class: Class, shape: &Shape) -> Result<Key> {
        let key = self.key(class, shape)?;
        self.put(key, shape);
        Ok(key)
    }

    fn put(&mut self, key: Key, shape: &Shape) -> u64 {
        match shape {
            Shape::Branch { .. } => self.deepest = self.deepest.max(key.class.depth() + 1),
            Shape::Leaf(entries) => self.flat |= entries.len() > self.configuration.entries(),
        }
        let node = self.pool.node(self.configuration, key.class, shape, key.hash);
        let number = self.pool.intern(key);
        self.pool.show(number, Content::Node(node));
        number
    }

    fn value(&mut self, value: &[u8]) -> Key {
        let key = Key { class: Class::Value, hash: hash::value(value) };
        let number = self.pool.intern(key);
        self.pool.show(number, Content::Value(value.into()));
        key
    }

    fn part(&mut self, part: &Part, level: usize) -> Result<Key> {
        if level >= NESTING {
            return Err(wrong(format_args!("more than {NESTING} levels")));
        }
        match part {
            Part::Value(value) => Ok(self.value(value)),
            Part::BlindedValue(hash) => Ok(Key { class: Class::Value, hash: *hash }),
            Part::Node(entries) => self.entries(Class::Directory, entries, level),
            Part::BlindedNode(hash) => Ok(Key { class: Class::Directory, hash: *hash }),
            Part::Inode(inode) => {
                self.inode(Class::Directory, inode.length, &inode.children, level)
            }
            Part::Extender(extender) => self.extender(Class::Directory, extender, level),
        }
    }

    fn piece(&mut self, piece: &Piece, depth: u32, level: usize) -> Result<Key> {
        if level >= NESTING {
            return Err(wrong(format_args!("more than {NESTING} levels")));
        }
        let class = Class::Piece(depth);
        match piece {
            Piece::Blinded(hash) => Ok(Key { class, hash: *hash }),
            Piece::Values(entries) => self.entries(class, entries, level),
            Piece::Inode(inode) => self.inode(class, inode.length, &inode.children, level),
            Piece::Extender(extender) => self.extender(class, extender, level),
        }
    }

    fn entries(&mut self, class: Class, entries: &Entries, level: usize) -> Result<Key> {
        // Before what is below is hashed.
        if entries.len() > self.configuration.stable_hash().max(self.configuration.entries()) {
            return Err(wrong(format_args!("{} entries in one piece", entries.len())));
        }
        let mut list = Vec::with_capacity(entries.len());
        for (name, part) in entries {
            let key = self.part(part, level + 1)?;
            let kind =
                if key.class == Class::Value { TreeKind::Value } else { TreeKind::Directory };
            list.push((name.clone(), kind, key.hash));
        }
        self.show(class, &Shape::Leaf(list))
    }

    fn inode(
        &mut self,
        class: Class,
        length: i64,
        pieces: &[(u16, Piece)],
        level: usize,
    ) -> Result<Key> {
        if let [(_, Piece::Inode(below))] = pieces
            && below.children.len() == 1
        {
            return Err(wrong("inodes of one bucket each that are no extender"));
        }
        if matches!(pieces, [(_, Piece::Extender(_))]) {
            return Err(wrong("an inode of one bucket above an extender"));
        }
        let depth = below(self.configuration, class, 1)?;
        let mut children = Vec::with_capacity(pieces.len());
        for (bucket, piece) in pieces {
            children.push((*bucket, self.piece(piece, depth, level + 1)?.hash));
        }
        self.show(class, &Shape::Branch { length: length_of(length)?, children })
    }

    fn extender(&mut self, class: Class, extender: &Extender<Piece>, level: usize) -> Result<Key> {
        let single = matches!(&*extender.child, Piece::Inode(inode) if inode.children.len() == 1);
        if single || matches!(&*extender.child, Piece::Extender(_)) {
            return Err(wrong("an extender that ends early"));
        }
        let depth = below(self.configuration, class, extender.segment.len())?;
        let child = self.piece(&extender.child, depth, level + 1)?.hash;
        let chain = self.chain(class, extender.length, &extender.segment, child)?;
        for (key, shape) in chain.iter().rev() {
            self.put(*key, shape);
        }
        Ok(chain[0].0)
    }

    /// The inodes of an extender, the uppermost first.
    fn chain(
        &self,
        class: Class,
        length: i64,
        segment: &[u16],
        child: Hash,
    ) -> Result<Vec<(Key, Shape)>> {
        if segment.len() < 2 {
            return Err(wrong("an extender of fewer than two inodes"));
        }
        below(self.configuration, class, segment.len())?;
        let mut chain = Vec::with_capacity(segment.len());
        let mut hash = child;
        for (above, bucket) in segment.iter().enumerate().rev() {
            let class = if above == 0 {
                class
            } else {
                Class::Piece(below(self.configuration, class, above)?)
            };
            let shape =
                Shape::Branch { length: length_of(length)?, children: vec![(*bucket, hash)] };
            let key = self.key(class, &shape)?;
            hash = key.hash;
            chain.push((key, shape));
        }
        chain.reverse();
        Ok(chain)
    }

    fn stream(&mut self, stream: &[Element]) -> Result<Vec<u64>> {
        let mut shown = Vec::with_capacity(stream.len());
        let mut inner = Inner::default();
        for (index, element) in stream.iter().enumerate() {
            let number = match element {
                Element::Value(value) => {
                    let key = Key { class: Class::Value, hash: hash::value(value) };
                    self.awaited(key).inspect(|number| {
                        self.pool.show(*number, Content::Value(value.as_slice().into()));
                    })
                }
                Element::Extender(extender) => self.stream_extender(extender),
                Element::Node(entries) => {
                    let list = entries
                        .iter()
                        .map(|(name, kinded)| (name.clone(), kinded.kind, kinded.hash));
                    self.stream_shape(&Shape::Leaf(list.collect()), &mut inner)?
                }
                Element::Inode(inode) => {
                    let length = length_of(inode.length)?;
                    let children = inode.children.clone();
                    self.stream_shape(&Shape::Branch { length, children }, &mut inner)?
                }
            };
            match number {
                Some(number) => shown.push(number),
                None if inner.passed => inner.passed = false,
                None => {
                    return Err(wrong(format_args!(
                        "element {index} of the stream is nothing that those before it refer to"
                    )));
                }
            }
        }
        Ok(shown)
    }

    /// The number of a place that is referred to and not shown yet.
    fn awaited(&self, key: Key) -> Option<u64> {
        self.pool.number(key).filter(|number| self.pool.content(*number).is_none())
    }

    /// Every class that an element may have: pieces of a flat directory are as deep as they like.
    fn classes(&self) -> impl Iterator<Item = Class> + use<> {
        let deepest = if self.flat { self.configuration.depth_limit() } else { self.deepest };
        std::iter::once(Class::Directory).chain((1..=deepest).map(Class::Piece))
    }

    fn stream_shape(&mut self, shape: &Shape, inner: &mut Inner) -> Result<Option<u64>> {
        let mut refused = None;
        let mut possible = false;
        for class in self.classes() {
            let key = match self.key(class, shape) {
                Ok(key) => key,
                Err(error) => {
                    refused.get_or_insert(error);
                    continue;
                }
            };
            possible = true;
            if self.awaited(key).is_some() {
                let number = self.put(key, shape);
                if let (Class::Directory, Shape::Leaf(entries)) = (class, shape)
                    && entries.len() > self.configuration.entries()
                {
                    inner.waiting.push(number);
                }
                return Ok(Some(number));
            }
            if class != Class::Directory && self.is_inner(key.hash, inner)? {
                inner.passed = true;
                return Ok(None);
            }
        }
        refused.filter(|_| !possible).map_or(Ok(None), Err)
    }

    fn stream_extender(&mut self, extender: &Extender<Hash>) -> Option<u64> {
        for class in self.classes() {
            let Ok(chain) = self.chain(class, extender.length, &extender.segment, *extender.child)
            else {
                continue;
            };
            if self.awaited(chain[0].0).is_some() {
                for (key, shape) in chain.iter().rev() {
                    self.put(*key, shape);
                }
                return self.pool.number(chain[0].0);
            }
        }
        None
    }

    /// Whether a hash is that of a piece into which a flat directory before it would be cut. Octez
    /// keeps such directories cut, and its streams have their pieces.
    fn is_inner(&self, hash: Hash, inner: &mut Inner) -> Result<bool> {
        for number in std::mem::take(&mut inner.waiting) {
            if let Some(Content::Node(node)) = self.pool.content(number)
                && let Body::Leaf { leaf, .. } = &node.body
            {
                self.cut(leaf, &mut inner.hashes)?;
            }
        }
        Ok(inner.hashes.remove(&hash))
    }

    /// The hashes of the pieces into which `leaf` would be cut.
    fn cut(&self, leaf: &Leaf, hashes: &mut HashSet<Hash>) -> Result<()> {
        let given = self.configuration;
        let configuration = Configuration::new(given.entries() as u32, 0, given.child_order())?;
        let numbers = Numbers(&self.pool);
        let directories = Directories { configuration, load: Some(&numbers) };
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

/// Flat directories of a stream as Octez keeps them in memory.
#[derive(Default)]
struct Inner {
    /// Those that are not cut yet.
    waiting: Vec<u64>,
    /// Pieces of the others that the stream did not have yet.
    hashes: HashSet<Hash>,
    /// The last element was one of them.
    passed: bool,
}

/// The depth `steps` pieces below a piece of this class.
fn below(configuration: Configuration, class: Class, steps: usize) -> Result<u32> {
    let depth = if let Class::Piece(depth) = class { depth } else { 0 };
    u32::try_from(steps)
        .ok()
        .and_then(|steps| depth.checked_add(steps))
        .filter(|depth| *depth <= configuration.depth_limit())
        .ok_or_else(|| wrong("inodes deeper than any directory has them"))
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

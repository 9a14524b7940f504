//! From a proof to a pool: every limit is checked before anything is hashed, every piece is hashed
//! before anything is read from it.
//!
//! A tree proof is hashed from its leaves up. An element of a stream must have a hash that an element
//! before it, or the root, refers to: that is also what tells whether it is a directory or a piece of
//! one, and at which depth.

mod stream;

pub(super) use stream::Looked;

use super::pool::{Class, Content, Key, Pool, Shape};
use super::shape::{Entries, Extender, NESTING, Part, Piece, Proof, State, wrong};
use crate::context::Configuration;
use crate::context::hash::{self, Hash};
use crate::context::tree::{Kind as TreeKind, NAME_MAX};
use crate::error::Result;

/// What a proof shows, by hash.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) pool: Pool,
    pub(super) root: u64,
    pub(super) looked: Vec<Looked>,
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
    /// The class of the last element that found its place: the next is often below it.
    last: Class,
}

/// Checks what `proof` says of the tree before, and that it is the tree with the hash `before`.
pub(super) fn admit(proof: &Proof, configuration: Configuration) -> Result<Admitted> {
    Proof::check_version(proof.version, configuration, proof.is_stream())?;
    let root = Key { class: Class::of(proof.before.kind), hash: proof.before.hash.to_bytes() };
    let mut admission = Admission {
        configuration,
        pool: Pool::default(),
        root,
        deepest: 0,
        flat: false,
        last: Class::Directory,
    };
    let number = admission.pool.intern(root);
    let mut looked = Vec::new();
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
        State::Stream(stream) => looked = admission.stream(stream)?,
    }
    super::placement::check(&admission.pool, configuration)?;
    Ok(Admitted { pool: admission.pool, root: number, looked })
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
            Part::BlindedValue(hash) => Ok(Key { class: Class::Value, hash: **hash }),
            Part::Node(entries) => self.entries(Class::Directory, entries, level),
            Part::BlindedNode(hash) => Ok(Key { class: Class::Directory, hash: **hash }),
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

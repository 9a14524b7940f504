//! Running a function on what a proof shows.

use std::sync::Arc;

use super::admit::{self, Looked};
use super::pool::{Class, Content, Pool};
use super::shape::{Kinded, Proof, wrong};
use crate::context::hash::{self, Hash};
use crate::context::pieces::node::{Body, Load, Node, Slot, Target};
use crate::context::tree::Tree;
use crate::context::{Configuration, Kind as TreeKind, TreeHash};
use crate::error::{Error, Kind, Result};
use crate::order;
use crate::sync::{Mutex, lock};

/// What a proof says of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// This value is there.
    Value(Vec<u8>),
    /// A directory is there.
    Directory,
    /// Nothing is there: that is proven.
    Absent,
    /// The proof does not show it.
    Hidden,
}

/// Reads `path` of a tree, usually one that [`Proof::open`] gives; what is hidden is no error.
pub fn read<S: AsRef<[u8]>>(tree: &Tree, path: &[S]) -> Result<Read> {
    let read = || -> Result<Read> {
        let Some(found) = tree.find_tree(path)? else { return Ok(Read::Absent) };
        Ok(match found.to_value()? {
            Some(value) => Read::Value(value),
            None => Read::Directory,
        })
    };
    match read() {
        Err(error) if error.kind() == Kind::Hidden => Ok(Read::Hidden),
        outcome => outcome,
    }
}

/// What [`Proof::shown`] finds at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A value.
    Value(Vec<u8>),
    /// A value's hash.
    HiddenValue(TreeHash),
    /// A directory of so many entries, of which so many are in buckets that are shown.
    Directory {
        /// All entries.
        entries: u64,
        /// Those whose names are shown.
        shown: u64,
    },
    /// A directory's hash.
    HiddenDirectory(TreeHash),
}

/// What a proof shows and hides, whatever is there several times counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Values.
    pub values: u64,
    /// Bytes of those values.
    pub value_bytes: u64,
    /// Values of which only the hash is there.
    pub hidden_values: u64,
    /// Directories, as far as at least one piece of each is there.
    pub directories: u64,
    /// Names in the pieces that are there.
    pub names: u64,
    /// Directories of which only the hash is there.
    pub hidden_directories: u64,
    /// Pieces of directories of which only the hash is there.
    pub hidden_pieces: u64,
}

/// A pool as the source of a tree.
#[derive(Debug)]
struct PoolSource {
    pool: Pool,
    /// What was looked at.
    used: Mutex<Vec<bool>>,
}

impl PoolSource {
    fn content(&self, number: u64) -> Result<&Content> {
        lock(&self.used)[number as usize] = true;
        self.pool.content(number).ok_or_else(|| {
            let key = self.pool.key(number);
            let what = if key.class == Class::Value { "value" } else { "part of a directory" };
            Error::new(
                Kind::Hidden,
                format!(
                    "the proof does not show the {what} with the hash {}: ask for one that does",
                    hash::to_text(&key.hash)
                ),
            )
        })
    }
}

impl Load for PoolSource {
    fn node(&self, number: u64) -> Result<Arc<Node>> {
        match self.content(number)? {
            Content::Node(node) => Ok(Arc::clone(node)),
            Content::Value(_) => Err(wrong("a value where a directory belongs")),
        }
    }

    fn value(&self, number: u64) -> Result<Arc<[u8]>> {
        match self.content(number)? {
            Content::Value(value) => Ok(Arc::clone(value)),
            Content::Node(_) => Err(wrong("a directory where a value belongs")),
        }
    }

    fn equals(&self, number: u64, value: &[u8]) -> Result<bool> {
        Ok(self.hash(number)? == hash::value(value))
    }

    fn hash(&self, number: u64) -> Result<Hash> {
        Ok(self.pool.key(number).hash)
    }

    fn identity(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    /// A proof need not show what nobody looks at in the end.
    fn settles_late(&self) -> bool {
        true
    }
}

fn slot(class: Class, number: u64) -> Slot {
    if class == Class::Value { Slot::StoredValue(number) } else { Slot::StoredNode(number) }
}

impl Proof {
    /// Checks what the proof says of the tree before, without running anything: its limits, its order,
    /// and that it has the hash `before`. `Corrupt` when it does not.
    pub fn check(&self, configuration: Configuration) -> Result<()> {
        admit::admit(self, configuration).map(drop)
    }

    /// Runs `f` on what the proof shows of the tree whose hash is `root`, and returns what it returns.
    ///
    /// `root` must be known to be right: it is all that is trusted. A read of `f` gives what the whole
    /// tree would give, or an error of kind [`Hidden`](Kind::Hidden) when the proof does not tell; see
    /// [`read`]. `Corrupt` when the proof is not of `root`, breaks a rule, when the tree that `f`
    /// leaves has not the hash `after`, and when a stream shows what `f` did not look at.
    /// Hashes everything in the proof once.
    pub fn verify<R>(
        &self,
        configuration: Configuration,
        root: Kinded,
        f: impl FnOnce(&mut Tree) -> Result<R>,
    ) -> Result<R> {
        let (source, looked, mut tree) = self.source(configuration, root)?;
        let answer = f(&mut tree)?;
        let after = Kinded { kind: tree.kind(), hash: tree.hash()? };
        if after != self.after {
            return Err(wrong(format_args!(
                "it says that the tree becomes {}, which becomes {}",
                hash::to_text(&self.after.hash),
                hash::to_text(&after.hash)
            )));
        }
        let used = lock(&source.used);
        if let Some(looked) = looked.iter().find(|looked| !looked.is_used(&used)) {
            let index = looked.index;
            return Err(wrong(format_args!(
                "element {index} of the stream is not looked at, so it is too long"
            )));
        }
        Ok(answer)
    }

    /// The tree before, as far as the proof shows it; reads of it are as those of [`Proof::verify`].
    ///
    /// What it reads is proven by `root` alone. The hash after, and that a stream shows nothing
    /// superfluous, are only checked by [`Proof::verify`]. `Corrupt` when the proof is not of `root`
    /// or breaks a rule. Hashes everything in the proof once.
    pub fn open(&self, configuration: Configuration, root: Kinded) -> Result<Tree> {
        self.source(configuration, root).map(|(_, _, tree)| tree)
    }

    /// What the proof shows, what the elements of a stream do, and the tree before.
    fn source(
        &self,
        configuration: Configuration,
        root: Kinded,
    ) -> Result<(Arc<PoolSource>, Vec<Looked>, Tree)> {
        if self.before != root {
            return Err(wrong(format_args!(
                "it is of the tree {}, not of {}",
                hash::to_text(&self.before.hash),
                hash::to_text(&root.hash)
            )));
        }
        let admitted = admit::admit(self, configuration)?;
        let class = Class::of(root.kind);
        let used = Mutex::new(vec![false; admitted.pool.len()]);
        let source = Arc::new(PoolSource { pool: admitted.pool, used });
        let load = Arc::clone(&source) as Arc<dyn Load>;
        let tree = Tree::stored(configuration, load, slot(class, admitted.root));
        Ok((source, admitted.looked, tree))
    }

    /// Counts what the proof shows and hides. `Corrupt` as with [`Proof::check`].
    pub fn summary(&self, configuration: Configuration) -> Result<Summary> {
        let pool = admit::admit(self, configuration)?.pool;
        let mut summary = Summary::default();
        for number in 0..pool.len() as u64 {
            let class = pool.key(number).class;
            match (class, pool.content(number)) {
                (_, Some(Content::Value(value))) => {
                    summary.values += 1;
                    summary.value_bytes += value.len() as u64;
                }
                (_, Some(Content::Node(node))) => {
                    summary.directories += u64::from(class == Class::Directory);
                    if let Body::Leaf { leaf, .. } = &node.body {
                        summary.names += leaf.len() as u64;
                    }
                }
                (Class::Value, None) => summary.hidden_values += 1,
                (Class::Directory, None) => summary.hidden_directories += 1,
                (Class::Piece(_), None) => summary.hidden_pieces += 1,
            }
        }
        Ok(summary)
    }

    /// What the proof shows, path by path, at most `limit` paths: a proof of a few bytes may show the
    /// same at any number of them. `Corrupt` as with [`Proof::check`].
    pub fn shown(
        &self,
        configuration: Configuration,
        limit: usize,
    ) -> Result<Vec<(Vec<Vec<u8>>, Shown)>> {
        let admitted = admit::admit(self, configuration)?;
        let pool = &admitted.pool;
        let mut paths = Vec::new();
        // Which of `paths` a name is below: paths themselves would take the depth times as much.
        let mut stack: Vec<(Option<usize>, Vec<u8>, u64)> = vec![(None, Vec::new(), admitted.root)];
        while let Some((above, name, number)) = stack.pop() {
            if paths.len() >= limit {
                break;
            }
            let path = above.map_or_else(Vec::new, |above| {
                let (path, _): &(Vec<Vec<u8>>, Shown) = &paths[above];
                [&path[..], &[name]].concat()
            });
            let key = pool.key(number);
            let shown = match pool.content(number) {
                Some(Content::Value(value)) => Shown::Value(value.to_vec()),
                None if key.class == Class::Value => Shown::HiddenValue(key.hash.into()),
                None => Shown::HiddenDirectory(key.hash.into()),
                Some(Content::Node(node)) => {
                    let mut children = Vec::new();
                    below(pool, node, &mut children);
                    let shown = children.len() as u64;
                    order::sort_by(&mut children, |a, b| b.0.cmp(&a.0));
                    let above = Some(paths.len());
                    stack.extend(children.into_iter().map(|(name, number)| (above, name, number)));
                    Shown::Directory { entries: node.count(), shown }
                }
            };
            paths.push((path, shown));
        }
        Ok(paths)
    }
}

/// The names that are shown in a directory. Recursion is bounded by the depth of inodes.
fn below(pool: &Pool, node: &Node, out: &mut Vec<(Vec<u8>, u64)>) {
    match &node.body {
        Body::Leaf { leaf, .. } => {
            for index in 0..leaf.len() {
                if let Slot::StoredValue(number) | Slot::StoredNode(number) = leaf.slot(index) {
                    out.push((leaf.name(index).to_vec(), *number));
                }
            }
        }
        Body::Branch(branch) => {
            for pointer in &branch.pointers {
                if let Target::Stored(number) = pointer.target
                    && let Some(Content::Node(node)) = pool.content(number)
                {
                    below(pool, node, out);
                }
            }
        }
    }
}

impl Kinded {
    /// The hash of a tree and its kind.
    pub fn of(tree: &Tree) -> Result<Kinded> {
        Ok(Kinded { kind: tree.kind(), hash: tree.hash()? })
    }

    /// Whether it is a directory's.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == TreeKind::Directory
    }
}

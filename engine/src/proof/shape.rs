//! What a proof is made of, as its encodings show it.
//!
//! These are plain data: anybody can build nonsense of them. Verification checks every limit before
//! it hashes anything.

use crate::context::hash::Hash;
use crate::context::tree::Kind;
use crate::context::{Configuration, TreeHash};
use crate::error::{Error, Kind as ErrorKind, Result};

/// How many directories and inodes may be nested in a proof, so that no proof exhausts a stack.
pub const NESTING: usize = 512;

/// `Corrupt`: the proof is none.
pub(super) fn wrong(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the proof is wrong: {what}"))
        .advised("ask for another one")
}

/// A hash and what it is the hash of: the empty value and the empty directory have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinded {
    /// What it is the hash of.
    pub kind: Kind,
    /// The hash.
    pub hash: TreeHash,
}

impl Kinded {
    /// The hash of a directory: that of every committed root.
    #[must_use]
    pub fn directory(hash: TreeHash) -> Kinded {
        Kinded { kind: Kind::Directory, hash }
    }
}

/// Children by name, in byte order.
pub type Entries = Vec<(Vec<u8>, Part)>;

/// Buckets of a large directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inode<C> {
    /// Entries below, hidden ones included.
    pub length: i64,
    /// The non-empty buckets in order.
    pub children: Vec<(u16, C)>,
}

/// Two or more inodes below each other, of one bucket each, so of the same length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender<C> {
    /// Entries below.
    pub length: i64,
    /// The buckets from the uppermost inode down.
    pub segment: Vec<u16>,
    /// What the last bucket leads to.
    pub child: Box<C>,
}

/// A value or a directory of a tree proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A value that is shown.
    Value(Vec<u8>),
    /// A value of which only the hash is shown.
    BlindedValue(TreeHash),
    /// A directory in one piece, all its names shown.
    Node(Entries),
    /// A directory of which only the hash is shown.
    BlindedNode(TreeHash),
    /// A directory in several pieces.
    Inode(Inode<Piece>),
    /// A directory whose uppermost pieces have one bucket each.
    Extender(Extender<Piece>),
}

/// A piece of a large directory in a tree proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A piece of which only the hash is shown.
    Blinded(Hash),
    /// Entries.
    Values(Entries),
    /// Buckets.
    Inode(Inode<Piece>),
    /// Buckets of one child each.
    Extender(Extender<Piece>),
}

/// One piece in a stream proof. Its place follows from the pieces before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A value.
    Value(Vec<u8>),
    /// A directory in one piece, or entries of a large one.
    Node(Vec<(Vec<u8>, Kinded)>),
    /// Buckets of a large directory.
    Inode(Inode<Hash>),
    /// Buckets of one child each.
    Extender(Extender<Hash>),
}

/// What a proof shows of the tree before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The tree with its parts in place.
    Tree(Part),
    /// The pieces in the order in which they were looked at.
    Stream(Vec<Element>),
}

/// Part of a tree, and the root hashes before and after a function that needs no more of it.
///
/// ```
/// use varvite::context::{Configuration, Tree};
/// use varvite::proof::{self, Encoding, Kinded, Proof};
/// # fn main() -> varvite::Result<()> {
/// let mut tree = Tree::empty(Configuration::TEZOS);
/// tree.add(&["alice"], b"100")?;
/// tree.add(&["bob"], b"7")?;
/// let root = tree.hash()?;
///
/// let (recording, paid) = proof::record(&tree, |tree| tree.find(&["bob"]))?;
/// let bytes = recording.tree_proof()?.encode(Encoding::V2)?;
///
/// // Elsewhere, without the tree:
/// let proof = Proof::decode(&bytes, Encoding::V2, Configuration::TEZOS)?;
/// let checked = proof.verify(Configuration::TEZOS, Kinded::directory(root), |tree| {
///     tree.find(&["bob"])
/// })?;
/// assert_eq!(checked, paid);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Bit 0: a stream; bit 1: two buckets an inode. It is refused where it says otherwise than the one who
    /// checks, and has no other meaning.
    pub version: i16,
    /// The tree before.
    pub before: Kinded,
    /// The tree after.
    pub after: Kinded,
    /// What is shown of the tree before.
    pub state: State,
}

impl Proof {
    /// The version of a proof of this configuration.
    #[must_use]
    pub fn version_of(configuration: Configuration, stream: bool) -> i16 {
        i16::from(stream) | (i16::from(configuration.entries() == 2) << 1)
    }

    /// Whether it is a stream proof.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.state, State::Stream(_))
    }

    /// `Corrupt` when the version is not that of a proof of this configuration and form. A piece of a
    /// directory has the same hash in both configurations, where its names belong into different buckets:
    /// so the one who checks says which it is, never the proof.
    pub(super) fn check_version(
        found: i16,
        configuration: Configuration,
        stream: bool,
    ) -> Result<()> {
        let version = Proof::version_of(configuration, stream);
        if found == version {
            return Ok(());
        }
        let form = if stream { "stream" } else { "tree" };
        let buckets = configuration.entries();
        Err(wrong(format_args!(
            "its version is {found}, and that of a {form} of {buckets} buckets, as it is checked, {version}"
        )))
    }
}

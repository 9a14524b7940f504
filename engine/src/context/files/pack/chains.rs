//! The records that a node is read from, each as it lies on the disk: none is taken from a cache, and each is read once.

use super::Pack;
use crate::context::files::record::{self, Read, Record, Tag};
use crate::context::hash::Hash;
use crate::context::pieces::node::Node;
use crate::error::{Error, Result};

/// A node that is read from more records than this, or from patches of more bytes, is damaged, or of a file that somebody made.
const PATCHES_READ: usize = 4096;
const PATCHED_BYTES: usize = 64 << 20;

/// See the module.
pub(crate) struct Chain {
    /// What is no patch.
    node: Node,
    /// The newest first.
    patches: Vec<Patch>,
}

/// A record that is one, and where it was found.
struct Patch {
    file: String,
    place: u64,
    at: u64,
    under: u64,
    tag: Tag,
    hash: Hash,
    body: Vec<u8>,
}

impl Patch {
    /// What it makes of `node`, which is its base.
    fn of(&self, node: Node) -> Result<Node> {
        let record = Record { tag: self.tag, hash: self.hash, body: &self.body, length: 0 };
        match record::read(&self.file, self.place, self.at, &record)? {
            Read::Patch(under, changes) => {
                Pack::patched_from(node, under, self.at, &record, changes)
            }
            Read::Full(_) => unreachable!("a patch is no full record"),
        }
    }
}

impl Chain {
    /// How many records it has.
    pub(crate) fn records(&self) -> usize {
        self.patches.len() + 1
    }

    /// What each of them is a patch of, the newest first.
    pub(crate) fn bases(&self) -> impl Iterator<Item = u64> + '_ {
        self.patches.iter().map(|patch| patch.under)
    }

    /// The node, and what it was at `base`, if that is one of the bases.
    pub(crate) fn nodes(self, base: Option<u64>) -> Result<(Node, Option<Node>)> {
        let (mut node, mut old) = (self.node, None);
        for patch in self.patches.iter().rev() {
            if base == Some(patch.under) {
                old = Some(node.clone());
            }
            node = patch.of(node)?;
        }
        Ok((node, old))
    }
}

/// What one of the records says.
enum Link {
    Full(Node),
    Patch(Patch),
}

impl Pack {
    /// The records of the node at `offset`. There may be more than a writer makes where a chunk took the place of one that a
    /// collection had rewritten without bases: an attached one, or the one that a reader still has.
    pub(crate) fn chain(&self, offset: u64) -> Result<Chain> {
        self.record(offset, |file, place, record| self.chain_from((file, place), offset, record))
    }

    /// The same of the node of `record`, which was found at `place`.
    pub(crate) fn chain_from(
        &self,
        place: (&str, u64),
        offset: u64,
        record: &Record<'_>,
    ) -> Result<Chain> {
        let (mut patches, mut bytes) = (Vec::new(), 0);
        let mut link = Self::link(place, offset, record)?;
        loop {
            let patch = match link {
                Link::Full(node) => return Ok(Chain { node, patches }),
                Link::Patch(patch) => patch,
            };
            bytes += patch.body.len();
            if patches.len() == PATCHES_READ || bytes > PATCHED_BYTES {
                let expected = format!("at most {PATCHES_READ} patches of one another");
                return Err(Error::corrupt(&patch.file, patch.place, expected, "more"));
            }
            let under = patch.under;
            patches.push(patch);
            link =
                self.record(under, |file, place, record| Self::link((file, place), under, record))?;
        }
    }

    fn link((file, place): (&str, u64), at: u64, record: &Record<'_>) -> Result<Link> {
        Ok(match record::read(file, place, at, record)? {
            Read::Full(node) => Link::Full(Pack::full(node, at, record)),
            Read::Patch(under, _) => {
                let (file, tag, hash) = (file.to_owned(), record.tag, record.hash);
                let body = record.body.to_vec();
                Link::Patch(Patch { file, place, at, under, tag, hash, body })
            }
        })
    }
}

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

impl Pack {
    /// The records of the node at `offset`. There may be more than a writer makes where a chunk took the place of one that a
    /// collection had rewritten without bases: an attached one, or the one that a reader still has.
    pub(crate) fn chain(&self, offset: u64) -> Result<Chain> {
        let (mut patches, mut at, mut bytes) = (Vec::new(), offset, 0);
        loop {
            let full = self.record(at, |file, place, record| {
                let Read::Patch(under, _) = record::read(file, place, at, record)? else {
                    return self.patched(file, place, at, record, 0).map(Some);
                };
                bytes += record.body.len();
                if patches.len() == PATCHES_READ || bytes > PATCHED_BYTES {
                    let expected = format!("at most {PATCHES_READ} patches of one another");
                    return Err(Error::corrupt(file, place, expected, "more"));
                }
                let (tag, hash, body) = (record.tag, record.hash, record.body.to_vec());
                patches.push(Patch { file: file.to_owned(), place, at, under, tag, hash, body });
                at = under;
                Ok(None)
            })?;
            if let Some(node) = full {
                return Ok(Chain { node, patches });
            }
        }
    }
}

//! Commits, and branches that name them.

use crate::context::hash::{CommitHash, TreeHash};
use crate::context::pieces::entry::take_reference;
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};

/// The most parents of a commit.
pub(crate) const PARENTS_MAX: usize = 1 << 16;

/// The longest author and the longest message in bytes.
pub(crate) const TEXT_MAX: usize = 1 << 20;

/// What a commit says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Commit {
    /// Its hash.
    pub hash: CommitHash,
    /// The hash of its tree.
    pub tree: TreeHash,
    /// The hashes of its parents, sorted.
    pub parents: Vec<CommitHash>,
    /// Seconds since 1970.
    pub date: i64,
    /// Who made it.
    pub author: Vec<u8>,
    /// Why.
    pub message: Vec<u8>,
    /// How many commits the store took before it.
    pub sequence: u64,
    /// Bytes that the pack grew by from the commit that the store took before up to this one: what is new in its tree.
    /// The rest of the tree it has of commits before. 0 in a store of Irmin and in a snapshot.
    pub added_bytes: u64,
}

/// The body of a commit's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitBody {
    pub(crate) sequence: u64,
    /// Logical offset of the commit that the store took before; 0 for the first.
    pub(crate) previous: u64,
    /// Logical offset of the root directory.
    pub(crate) root: u64,
    /// Bytes of the records that came with it, right before it.
    pub(crate) extent: u64,
    pub(crate) parents: Vec<CommitHash>,
    pub(crate) date: i64,
    pub(crate) author: Vec<u8>,
    pub(crate) message: Vec<u8>,
}

impl CommitBody {
    /// The bytes, for a record at `at`.
    pub(crate) fn encode(&self, at: u64) -> Vec<u8> {
        let mut out = Encoder::new();
        out.varint(self.sequence);
        out.varint(if self.previous == 0 { 0 } else { at - self.previous });
        out.varint(at - self.root);
        out.varint(self.extent);
        out.u64(self.date as u64);
        out.varint(self.parents.len() as u64);
        for parent in &self.parents {
            out.raw(parent.as_ref());
        }
        out.bytes_with_length(&self.author);
        out.bytes_with_length(&self.message);
        out.finish()
    }

    /// Reads the body of the record at `at`, whose body is at byte `place` of `file`.
    pub(crate) fn decode(file: &str, place: u64, at: u64, body: &[u8]) -> Result<CommitBody> {
        let mut decoder = Decoder::new(file, place, body);
        let sequence = decoder.varint()?;
        let mut first = decoder.clone();
        let previous = if first.varint()? == 0 {
            decoder = first;
            0
        } else {
            take_reference(&mut decoder, at)?
        };
        let root = take_reference(&mut decoder, at)?;
        let extent = decoder.varint()?;
        let date = decoder.u64()? as i64;
        let count = decoder.count(32)?;
        let parents = (0..count)
            .map(|_| Ok(decoder.raw(32)?.try_into().expect("32 bytes")))
            .collect::<Result<_>>()?;
        let author = decoder.bytes_with_length()?.to_vec();
        let message = decoder.bytes_with_length()?.to_vec();
        decoder.finish()?;
        Ok(CommitBody { sequence, previous, root, extent, parents, date, author, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_comes_back_and_no_prefix_of_it_does() {
        for previous in [0, 700] {
            let body = CommitBody {
                sequence: 3,
                previous,
                root: 900,
                extent: 120,
                parents: vec![[7; 32].into(), [9; 32].into()],
                date: -5,
                author: b"Tezos".to_vec(),
                message: b"lvl 1".to_vec(),
            };
            let bytes = body.encode(1000);
            assert_eq!(CommitBody::decode("f", 0, 1000, &bytes).unwrap(), body);
            for length in 0..bytes.len() {
                assert!(CommitBody::decode("f", 0, 1000, &bytes[..length]).is_err());
            }
        }
    }
}

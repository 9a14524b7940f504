//! What a chunk of the pack says of itself: in its first batch who it is and what it follows, in its
//! last one that it is whole.
//!
//! So a store finds its chunks without the control file, one after the other, and a chunk alone says
//! what store, hashes and history it is part of. Format document: `docs/format/pack.md`.

use crate::context::configuration::Configuration;
use crate::context::options::Index;
use crate::context::pieces::entry::OFFSET_MAX;
use crate::error::Result;
use crate::file::append::{HEAD, Position};
use crate::format::codec::{Decoder, Encoder};
use crate::format::header;

/// The most chunks that a store has at a time: a control file names each.
pub(crate) const CHUNKS_MAX: u64 = 1 << 20;

/// `base + length`, the end of a chunk; none beyond [`OFFSET_MAX`].
pub(crate) fn chunk_end(base: u64, length: u64) -> Option<u64> {
    base.checked_add(length).filter(|end| *end <= OFFSET_MAX)
}

/// A place between two batches of the pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The number of the chunk.
    pub(crate) chunk: u64,
    pub(crate) position: Position,
    /// Where the batch begins that ends there, so that one look at its head shows whether the place
    /// is one of this pack; 0 when there is none.
    pub(crate) before: u64,
}

impl Place {
    /// Before the first batch of a chunk.
    pub(crate) fn start(chunk: u64) -> Place {
        Place { chunk, position: Position::start(), before: 0 }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.u64(self.chunk);
        out.u64(self.position.offset);
        out.u64(self.position.sequence);
        out.u32(self.position.chain);
        out.u64(self.before);
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Place> {
        let chunk = from.u64()?;
        let position = Position { offset: from.u64()?, sequence: from.u64()?, chain: from.u32()? };
        Ok(Place { chunk, position, before: from.u64()? })
    }
}

/// The record that begins a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    /// How often the store was cleared before.
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    /// Logical offset of the first byte of the file.
    pub(crate) base: u64,
    /// Payload checksum of the last batch of the chunk before; 0 for the first.
    pub(crate) chain: u32,
    /// Logical offset of the last commit before the chunk; 0 for none.
    pub(crate) last_commit: u64,
    pub(crate) configuration: Configuration,
    pub(crate) index: Index,
}

impl Opening {
    /// Bytes of the body.
    const BODY: usize = 46;

    /// Bytes of the batch that begins a chunk.
    pub(crate) const BATCH: u64 = (HEAD + 2 + 32 + Opening::BODY + 4) as u64;

    /// Distance of the record from the beginning of its chunk.
    pub(crate) const PLACE: u64 = (header::LENGTH + HEAD) as u64;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u64(self.epoch);
        out.u64(self.number);
        out.u64(self.base);
        out.u32(self.chain);
        out.u64(self.last_commit);
        self.configuration.encode(&mut out);
        out.u8(self.index.code());
        debug_assert_eq!(out.bytes().len(), Opening::BODY);
        out.finish()
    }

    pub(crate) fn decode(file: &str, place: u64, body: &[u8]) -> Result<Opening> {
        let mut from = Decoder::new(file, place, body);
        let start = from.clone();
        let (epoch, number, base) = (from.u64()?, from.u64()?, from.u64()?);
        // Each chunk before it took some bytes.
        if number > base || chunk_end(base, Opening::BATCH).is_none() {
            let expected = "a chunk whose number is below its base, and that ends below 2^61";
            return Err(start.corrupt(expected, format_args!("chunk {number} at {base}")));
        }
        let (chain, last_commit) = (from.u32()?, from.u64()?);
        let configuration = Configuration::decode(&mut from)?;
        let index = Index::decode(&mut from)?;
        from.finish()?;
        Ok(Opening { epoch, number, base, chain, last_commit, configuration, index })
    }
}

/// The record that ends a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Bytes of the whole file.
    pub(crate) length: u64,
    /// Sequence number and payload checksum of the batch before.
    pub(crate) sequence: u64,
    pub(crate) chain: u32,
    /// Logical offsets of the first and the last commit in the chunk; 0 for none.
    pub(crate) first_commit: u64,
    pub(crate) last_commit: u64,
}

impl Seal {
    /// Bytes of the body.
    const BODY: usize = 36;

    /// Bytes of the batch that ends a chunk, so that it is found from the end of the file.
    pub(crate) const BATCH: u64 = (HEAD + 2 + 32 + Seal::BODY + 4) as u64;

    /// Bytes of the record, the last of its chunk.
    pub(crate) const RECORD: u64 = Seal::BATCH - HEAD as u64;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u64(self.length);
        out.u64(self.sequence);
        out.u32(self.chain);
        out.u64(self.first_commit);
        out.u64(self.last_commit);
        debug_assert_eq!(out.bytes().len(), Seal::BODY);
        out.finish()
    }

    pub(crate) fn decode(file: &str, place: u64, body: &[u8]) -> Result<Seal> {
        let mut from = Decoder::new(file, place, body);
        let (length, sequence, chain) = (from.u64()?, from.u64()?, from.u32()?);
        let (first_commit, last_commit) = (from.u64()?, from.u64()?);
        from.finish()?;
        Ok(Seal { length, sequence, chain, first_commit, last_commit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_come_back_and_no_prefix_of_them_does() {
        let opening = Opening {
            epoch: 1,
            number: 2,
            base: 3,
            chain: 4,
            last_commit: 5,
            configuration: Configuration::TEZOS_BINARY,
            index: Index::Always,
        };
        let seal = Seal { length: 1, sequence: 2, chain: 3, first_commit: 4, last_commit: 5 };
        let (first, last) = (opening.encode(), seal.encode());
        assert_eq!(Opening::decode("f", 0, &first).unwrap(), opening);
        assert_eq!(Seal::decode("f", 0, &last).unwrap(), seal);
        for length in 0..first.len() {
            assert!(Opening::decode("f", 0, &first[..length]).is_err());
        }
        for length in 0..last.len() {
            assert!(Seal::decode("f", 0, &last[..length]).is_err());
        }
    }

    #[test]
    fn what_no_pack_reaches_is_refused() {
        let opening = Opening {
            epoch: 0,
            number: OFFSET_MAX - Opening::BATCH,
            base: OFFSET_MAX - Opening::BATCH,
            chain: 0,
            last_commit: 0,
            configuration: Configuration::TEZOS,
            index: Index::Minimal,
        };
        assert_eq!(Opening::decode("f", 0, &opening.encode()).unwrap(), opening);
        for beyond in [
            Opening { base: opening.base + 1, ..opening },
            Opening { base: u64::MAX, ..opening },
            Opening { number: opening.base + 1, ..opening },
        ] {
            let error = Opening::decode("f", 0, &beyond.encode()).unwrap_err();
            assert_eq!(error.kind(), crate::error::Kind::Corrupt, "{error}");
        }
    }
}

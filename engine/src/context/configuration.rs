//! The hash configuration of a store: how directories split into inodes.
//!
//! It is part of what a hash means, so it is recorded in the store and never changes.

use std::fmt;

use super::hash::{self, Hash};
use super::name_hash;
use crate::error::{Error, Result};
use crate::format::codec::{Decoder, Encoder};

/// The most entries that a flat directory may have in any configuration.
const STABLE_HASH_MAX: u32 = 4096;

/// How a name chooses its bucket at a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildOrder {
    /// OCaml's seeded hash of the name, the depth as seed, modulo the number of entries.
    SeededHash,
    /// Consecutive bits of the name's `BLAKE2b` digest; the number of entries is a power of two.
    HashBits,
}

/// Branching, the largest directory that is hashed flat, and the order of children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    entries: u32,
    stable_hash: u32,
    child_order: ChildOrder,
}

impl Configuration {
    /// The chain's context of Tezos: 32 entries, flat up to 256, seeded hash.
    pub const TEZOS: Configuration =
        Configuration { entries: 32, stable_hash: 256, child_order: ChildOrder::SeededHash };

    /// The binary context of Tezos (proofs, rollups): 2 entries, flat up to 2, hash bits.
    pub const TEZOS_BINARY: Configuration =
        Configuration { entries: 2, stable_hash: 2, child_order: ChildOrder::HashBits };

    /// Any legal configuration: 2 to 1,024 entries (a power of two for hash bits), flat up to at
    /// most 4,096 entries, so that the names of a flat directory are at most 256 MiB and any piece fits
    /// in a record. `Invalid` otherwise.
    pub fn new(entries: u32, stable_hash: u32, child_order: ChildOrder) -> Result<Configuration> {
        if !(2..=1024).contains(&entries) {
            return Err(Error::invalid(format!(
                "a configuration of {entries} entries is not possible: choose 2 to 1024"
            )));
        }
        if child_order == ChildOrder::HashBits && !entries.is_power_of_two() {
            return Err(Error::invalid(format!(
                "hash bits need a power of two of entries, not {entries}"
            )));
        }
        if stable_hash > STABLE_HASH_MAX {
            return Err(Error::invalid(format!(
                "a flat directory may have up to {STABLE_HASH_MAX} entries, not {stable_hash}"
            )));
        }
        Ok(Configuration { entries, stable_hash, child_order })
    }

    /// The branching factor, and the most entries of an inode of values.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.entries as usize
    }

    /// The most entries of a directory that is hashed flat.
    #[must_use]
    pub fn stable_hash(&self) -> usize {
        self.stable_hash as usize
    }

    /// How a name chooses its bucket.
    #[must_use]
    pub fn child_order(&self) -> ChildOrder {
        self.child_order
    }

    /// The depth that no inode tree reaches: the largest power of `entries` up to 2^50.
    #[must_use]
    pub fn depth_limit(&self) -> u32 {
        let mut reach = 1u64;
        let mut depth = 0;
        while reach * u64::from(self.entries) <= 1 << 50 {
            reach *= u64::from(self.entries);
            depth += 1;
        }
        depth
    }

    /// The bytes recorded in a control file: entries (4), flat limit (4), order (1).
    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.u32(self.entries);
        out.u32(self.stable_hash);
        out.u8(match self.child_order {
            ChildOrder::SeededHash => 0,
            ChildOrder::HashBits => 1,
        });
    }

    /// Reads what [`Configuration::encode`] wrote. `Corrupt` when it is none that is legal.
    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Result<Configuration> {
        let start = decoder.clone();
        let (entries, stable_hash) = (decoder.u32()?, decoder.u32()?);
        let child_order = match decoder.u8()? {
            0 => ChildOrder::SeededHash,
            1 => ChildOrder::HashBits,
            other => return Err(start.corrupt("child order 0 or 1", other)),
        };
        Configuration::new(entries, stable_hash, child_order)
            .map_err(|error| start.corrupt("a legal configuration", error.detail()))
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.child_order {
            ChildOrder::SeededHash => "seeded hash",
            ChildOrder::HashBits => "hash bits",
        };
        write!(f, "{} entries, flat up to {}, by {order}", self.entries, self.stable_hash)
    }
}

/// A name and, once needed, its digest: asked for its bucket at several depths.
pub(crate) struct Bucket<'a> {
    configuration: Configuration,
    name: &'a [u8],
    digest: Option<Hash>,
}

impl<'a> Bucket<'a> {
    pub(crate) fn new(configuration: Configuration, name: &'a [u8]) -> Self {
        Bucket { configuration, name, digest: None }
    }

    /// The bucket at `depth`, which must be below the depth limit.
    #[inline]
    pub(crate) fn at(&mut self, depth: u32) -> u16 {
        let entries = self.configuration.entries;
        match self.configuration.child_order {
            ChildOrder::SeededHash => (name_hash::seeded(depth, self.name) % entries) as u16,
            ChildOrder::HashBits => {
                let digest = self.digest.get_or_insert_with(|| hash::hash(self.name));
                name_hash::bits(digest, depth, entries.trailing_zeros()) as u16
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_limits_are_those_of_irmin() {
        assert_eq!(Configuration::TEZOS.depth_limit(), 10);
        assert_eq!(Configuration::TEZOS_BINARY.depth_limit(), 50);
    }

    #[test]
    fn only_legal_configurations_are_made() {
        assert!(Configuration::new(1, 2, ChildOrder::SeededHash).is_err());
        assert!(Configuration::new(3, 2, ChildOrder::HashBits).is_err());
        assert!(Configuration::new(3, 2, ChildOrder::SeededHash).is_ok());
        assert!(Configuration::new(2, 4_096, ChildOrder::SeededHash).is_ok());
        assert!(Configuration::new(2, 4_097, ChildOrder::SeededHash).is_err());
    }

    #[test]
    fn configurations_come_back_from_bytes() {
        for configuration in [Configuration::TEZOS, Configuration::TEZOS_BINARY] {
            let mut out = Encoder::new();
            configuration.encode(&mut out);
            let mut decoder = Decoder::new("f", 0, out.bytes());
            assert_eq!(Configuration::decode(&mut decoder).unwrap(), configuration);
        }
    }
}

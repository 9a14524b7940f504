//! Which buckets all names of a piece share, from depth 0 on.

use crate::context::configuration::{Bucket, Configuration};
use crate::context::pieces::node::Leaf;

/// The buckets as digits of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct AgreedPath {
    number: u64,
    length: u32,
}

impl AgreedPath {
    /// What the names of a leaf agree on.
    pub(super) fn of(configuration: Configuration, leaf: &Leaf) -> AgreedPath {
        let mut buckets: Vec<_> =
            (0..leaf.len()).map(|index| Bucket::new(configuration, leaf.name(index))).collect();
        let mut path = AgreedPath::default();
        let Some((first, others)) = buckets.split_first_mut() else { return path };
        while path.length < configuration.depth_limit() {
            let bucket = first.at(path.length);
            if others.iter_mut().any(|other| other.at(path.length) != bucket) {
                break;
            }
            path.number = path.number * configuration.entries() as u64 + u64::from(bucket);
            path.length += 1;
        }
        path
    }

    /// One number for both; the digits take 50 bits at most.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.length) << 56 | self.number
    }

    /// The same back; none when no path is this number.
    pub(super) fn from_bits(configuration: Configuration, bits: u64) -> Option<AgreedPath> {
        let (length, number) = ((bits >> 56) as u32, bits & ((1 << 56) - 1));
        let fits = length <= configuration.depth_limit()
            && number < (configuration.entries() as u64).pow(length);
        fits.then_some(AgreedPath { number, length })
    }

    /// The first `length` buckets, if there are so many.
    pub(super) fn prefix(self, configuration: Configuration, length: u32) -> Option<AgreedPath> {
        let beyond = self.length.checked_sub(length)?;
        // No more than 2^50, as the depth limit has it.
        let number = self.number / (configuration.entries() as u64).pow(beyond);
        Some(AgreedPath { number, length })
    }

    /// The bucket at `depth`, if it is agreed on.
    pub(super) fn at(self, configuration: Configuration, depth: u32) -> Option<u16> {
        let path = self.prefix(configuration, depth.checked_add(1)?)?;
        Some((path.number % configuration.entries() as u64) as u16)
    }
}

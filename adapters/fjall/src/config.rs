//! Policies by level, of blocks and filters: varvite has its own, so these are taken and do nothing.

/// How blocks are compressed: nothing is, under this adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // names of algorithms
pub enum CompressionType {
    None,
    #[cfg(feature = "lz4")]
    Lz4,
}

/// How large a filter is. Varvite's follow from `TableOptions::filter_bits`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // names of the peer's ways
pub enum BloomConstructionPolicy {
    BitsPerKey(f32),
    FalsePositiveRate(f32),
}

impl Default for BloomConstructionPolicy {
    fn default() -> Self {
        BloomConstructionPolicy::BitsPerKey(10.0)
    }
}

/// Whether a level has filters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // names of the peer's ways
pub enum FilterPolicyEntry {
    None,
    Bloom(BloomConstructionPolicy),
}

/// What every policy has.
macro_rules! policy {
    ($kind:ty) => {
        /// One for all levels.
        #[must_use]
        pub fn all(one: $kind) -> Self {
            Self(vec![one])
        }

        /// One for each level; the last one is for those below too.
        ///
        /// # Panics
        ///
        /// If there is none.
        #[must_use]
        pub fn new(policy: impl Into<Vec<$kind>>) -> Self {
            let policy = policy.into();
            assert!(!policy.is_empty(), "a policy has at least one level");
            Self(policy)
        }
    };
}

/// Lets policies be read as slices, as the peer's can.
macro_rules! read_as_slices {
    ($($name:ident of $kind:ty;)*) => {
        $(impl std::ops::Deref for $name {
            type Target = [$kind];

            fn deref(&self) -> &[$kind] {
                &self.0
            }
        })*
    };
}

read_as_slices! {
    BlockSizePolicy of u32;
    CompressionPolicy of CompressionType;
    FilterPolicy of FilterPolicyEntry;
    HashRatioPolicy of f32;
    PinningPolicy of bool;
    RestartIntervalPolicy of u8;
}

/// How large blocks are: varvite's pages have 4 KiB.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSizePolicy(Vec<u32>);

impl BlockSizePolicy {
    policy!(u32);
}

/// How blocks are compressed: nothing is, under this adapter.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressionPolicy(Vec<CompressionType>);

impl CompressionPolicy {
    policy!(CompressionType);

    /// None.
    #[must_use]
    pub fn disabled() -> Self {
        CompressionPolicy::all(CompressionType::None)
    }
}

/// Which filters there are: varvite has its own.
#[derive(Clone, Debug, PartialEq)]
pub struct FilterPolicy(Vec<FilterPolicyEntry>);

impl FilterPolicy {
    policy!(FilterPolicyEntry);

    /// None.
    #[must_use]
    pub fn disabled() -> Self {
        FilterPolicy::all(FilterPolicyEntry::None)
    }
}

/// How much of a block is hashed: varvite has its own way.
#[derive(Clone, Debug, PartialEq)]
pub struct HashRatioPolicy(Vec<f32>);

impl HashRatioPolicy {
    policy!(f32);
}

/// What stays in memory: varvite's cache decides.
#[derive(Clone, Debug, PartialEq)]
pub struct PinningPolicy(Vec<bool>);

impl PinningPolicy {
    policy!(bool);

    /// Nothing stays.
    #[must_use]
    pub fn disabled() -> Self {
        PinningPolicy::all(false)
    }
}

/// How often a key is whole: varvite has its own format.
#[derive(Clone, Debug, PartialEq)]
pub struct RestartIntervalPolicy(Vec<u8>);

impl RestartIntervalPolicy {
    policy!(u8);
}

/// What is divided: varvite has its own way.
pub type PartitioningPolicy = PinningPolicy;

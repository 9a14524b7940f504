//! How a keyspace is made.

use std::sync::Arc;

use varvite::{Lookups, TableOptions};

use crate::compaction::CompactionStrategy;
use crate::config::{
    BlockSizePolicy, CompressionPolicy, CompressionType, FilterPolicy, HashRatioPolicy,
    PartitioningPolicy, PinningPolicy, RestartIntervalPolicy,
};

/// Methods that take a policy and do nothing, for a reason.
macro_rules! ignored {
    ($($reason:literal: $($name:ident($kind:ty))*;)*) => {
        $($(
            #[doc = concat!("Takes it and does nothing: ", $reason, ".")]
            #[must_use]
            #[allow(clippy::needless_pass_by_value)] // the peer's shape
            pub fn $name(self, _: $kind) -> Self {
                self
            }
        )*)*
    };
}

/// Which values lie beside the runs.
#[derive(Clone, Debug)]
pub struct KvSeparationOptions {
    threshold: u32,
}

impl Default for KvSeparationOptions {
    /// Values of 1 KiB and more.
    fn default() -> Self {
        KvSeparationOptions { threshold: 1024 }
    }
}

impl KvSeparationOptions {
    /// Values of at least so many bytes are stored once, and merges copy references only: 32 to 65,537,
    /// and the nearest of these for others.
    #[must_use]
    pub fn separation_threshold(mut self, bytes: u32) -> Self {
        self.threshold = bytes;
        self
    }

    /// Takes the number and does nothing: varvite chooses the length of its files.
    #[must_use]
    pub fn file_target_size(self, _bytes: u64) -> Self {
        self
    }

    /// Takes the number and does nothing: varvite has its own rule for files with dead values.
    #[must_use]
    pub fn staleness_threshold(self, _ratio: f32) -> Self {
        self
    }

    ignored! {
        "varvite has its own rule for files with dead values":
        age_cutoff(f32);

        "values are not compressed under this adapter":
        compression(CompressionType);
    }
}

/// How a keyspace is made; what is there already stays as it was made.
#[derive(Clone, Default)]
pub struct KeyspaceCreateOptions {
    memtable_bytes: Option<u64>,
    expects_hits: bool,
    separation: Option<KvSeparationOptions>,
    runs_of_a_level: Option<u8>,
}

impl KeyspaceCreateOptions {
    /// Bytes of entries gathered in memory before they are written out. Varvite holds up to two such
    /// buffers; its own number is 8 MiB.
    #[must_use]
    pub fn max_memtable_size(mut self, bytes: u64) -> Self {
        self.memtable_bytes = Some(bytes);
        self
    }

    /// Whether most reads find something: then the last level has no filter.
    #[must_use]
    pub fn expect_point_read_hits(mut self, hits: bool) -> Self {
        self.expects_hits = hits;
        self
    }

    /// Which values lie beside the runs; without this those above 64 KiB.
    #[must_use]
    pub fn with_kv_separation(mut self, options: Option<KvSeparationOptions>) -> Self {
        self.separation = options;
        self
    }

    /// When runs are merged.
    #[must_use]
    #[allow(clippy::needless_pass_by_value)] // the peer's shape
    pub fn compaction_strategy(
        mut self,
        strategy: Arc<dyn CompactionStrategy + Send + Sync>,
    ) -> Self {
        self.runs_of_a_level = strategy.runs_of_a_level();
        self
    }

    /// Takes the choice and does nothing: every write is handed to the system before its call returns.
    #[must_use]
    pub fn manual_journal_persist(self, _is_manual: bool) -> Self {
        self
    }

    ignored! {
        "tables of this adapter are not compressed":
        data_block_compression_policy(CompressionPolicy)
        index_block_compression_policy(CompressionPolicy);

        "varvite has its own format":
        data_block_size_policy(BlockSizePolicy)
        data_block_hash_ratio_policy(HashRatioPolicy)
        data_block_restart_interval_policy(RestartIntervalPolicy);

        "varvite has its own filters, and its cache decides what stays":
        filter_policy(FilterPolicy)
        filter_block_partitioning_policy(PartitioningPolicy)
        filter_block_pinning_policy(PinningPolicy)
        index_block_partitioning_policy(PartitioningPolicy)
        index_block_pinning_policy(PinningPolicy);
    }

    pub(crate) fn table(&self) -> TableOptions {
        let mut options = TableOptions::default();
        if self.expects_hits {
            options.lookups = Lookups::MostlyHit;
        }
        if let Some(bytes) = self.memtable_bytes {
            options.write_buffer_bytes = bytes.clamp(64, 1 << 40);
        }
        if let Some(runs) = self.runs_of_a_level {
            options.size_ratio = u32::from(runs).clamp(2, 16);
        }
        options.blob_min_bytes = self.separation.as_ref().map(|it| it.threshold.clamp(32, 65_537));
        options
    }
}

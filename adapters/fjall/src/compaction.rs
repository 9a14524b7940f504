//! When runs are merged.

/// How a keyspace merges. Varvite has one way, of which [`Leveled`] sets a number.
pub trait CompactionStrategy {
    /// Runs of a level that are merged into one of the next; varvite's own number without one.
    fn runs_of_a_level(&self) -> Option<u8> {
        None
    }
}

/// Merges by levels, as varvite always does.
#[derive(Clone, Debug, Default)]
pub struct Leveled {
    l0_threshold: Option<u8>,
}

/// The same.
pub type Levelled = Leveled;

impl Leveled {
    /// Merges a level when it has so many runs: 2 to 16, and the nearest of these for others.
    #[must_use]
    pub fn with_l0_threshold(mut self, threshold: u8) -> Leveled {
        self.l0_threshold = Some(threshold);
        self
    }

    /// Takes the number and does nothing: `varvite::SessionOptions::segment_bytes` is of a session.
    #[must_use]
    pub fn with_table_target_size(self, _bytes: u64) -> Leveled {
        self
    }
}

impl CompactionStrategy for Leveled {
    fn runs_of_a_level(&self) -> Option<u8> {
        self.l0_threshold
    }
}

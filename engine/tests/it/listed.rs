//! Ranges in vectors, as the model has them.

use std::ops::Bound;

use varvite::{Range, Result, Table, View};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What has ranges.
pub trait Listed {
    /// Every key between the bounds with its value, or the first error.
    fn listed(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Entries>;
}

impl Listed for View {
    fn listed(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Entries> {
        list(self.range((lower, upper)))
    }
}

impl Listed for Table {
    fn listed(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Result<Entries> {
        list(self.range((lower, upper)))
    }
}

fn list(range: Range) -> Result<Entries> {
    range.map(|entry| entry.map(|(key, value)| (key.into(), value.into()))).collect()
}

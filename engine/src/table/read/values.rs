//! What a lookup found: the values of its keys, in one piece of memory.

use crate::error::Result;
use crate::table::runs::blob;

/// The values found by a lookup, in the order of its keys.
#[derive(Clone, Debug, Default)]
pub struct Values {
    bytes: Vec<u8>,
    spans: Vec<Option<(usize, usize)>>,
}

impl Values {
    /// No values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys were looked up.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The value of the key at `index`; `None` when it is not bound, and behind the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.spans.get(index)?.map(|(start, end)| &self.bytes[start..end])
    }

    /// The values in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|index| self.get(index))
    }

    pub(in crate::table) fn reset(&mut self, count: usize) {
        self.bytes.clear();
        self.spans.clear();
        self.spans.resize(count, None);
    }

    /// Room for a value of `length` bytes that comes in pieces; `Invalid` where there is none.
    pub(in crate::table) fn make_room(&mut self, index: usize, length: u64) -> Result<()> {
        let start = self.bytes.len();
        let end = start + blob::make_room(&mut self.bytes, length)?;
        self.bytes.resize(end, 0);
        self.spans[index] = Some((start, end));
        Ok(())
    }

    /// Fills in a piece of a value that room was made for.
    pub(in crate::table) fn fill(&mut self, index: usize, at: usize, piece: &[u8]) {
        let (start, _) = self.spans[index].expect("room was made");
        self.bytes[start + at..start + at + piece.len()].copy_from_slice(piece);
    }

    pub(in crate::table) fn set(&mut self, index: usize, value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.spans[index] = Some((start, self.bytes.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_value_that_memory_has_no_room_for_is_refused() {
        let mut values = Values::new();
        values.reset(3);
        values.make_room(0, 5).unwrap();
        for length in [1 << 62, u64::MAX] {
            let error = values.make_room(1, length).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid, "{error}");
            assert!(error.detail().contains("Value::read_at"), "{error}");
        }
        values.make_room(2, 3).unwrap();
        values.fill(2, 0, b"abc");
        assert_eq!((values.get(0), values.get(1)), (Some(&[0; 5][..]), None));
        assert_eq!(values.get(2), Some(&b"abc"[..]));
    }
}

//! A range of keys between two bounds, as the log has it.
//!
//! Format document: `docs/format/log.md`.

use std::ops::Bound;

use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};

const UNBOUNDED: u8 = 0;
const INCLUDED: u8 = 1;
const EXCLUDED: u8 = 2;

/// The keys between two bounds, of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
}

impl KeyRange {
    /// The bytes of its bounds.
    pub fn bytes(&self) -> usize {
        let bytes = |bound: &Bound<Vec<u8>>| match bound {
            Bound::Included(key) | Bound::Excluded(key) => key.len(),
            Bound::Unbounded => 0,
        };
        bytes(&self.lower) + bytes(&self.upper)
    }

    /// The range between copies of these bounds.
    #[must_use]
    pub fn new(lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> KeyRange {
        KeyRange { lower: lower.map(<[u8]>::to_vec), upper: upper.map(<[u8]>::to_vec) }
    }

    /// The range of all keys that begin with `prefix`.
    #[must_use]
    pub fn of_prefix(prefix: &[u8]) -> KeyRange {
        let upper = match prefix.iter().rposition(|byte| *byte != 0xff) {
            Some(last) => {
                let mut above = prefix[..=last].to_vec();
                above[last] += 1;
                Bound::Excluded(above)
            }
            None => Bound::Unbounded,
        };
        KeyRange { lower: Bound::Included(prefix.to_vec()), upper }
    }

    /// Its bounds, borrowed.
    #[must_use]
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.lower.as_ref().map(Vec::as_slice), self.upper.as_ref().map(Vec::as_slice))
    }

    /// Whether its bounds meet or cross, so that no key can lie in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.bounds() {
            (Bound::Included(lower), Bound::Included(upper)) => lower > upper,
            (
                Bound::Included(lower) | Bound::Excluded(lower),
                Bound::Included(upper) | Bound::Excluded(upper),
            ) => lower >= upper,
            _ => false,
        }
    }

    /// Whether every key from `first` to `last` lies in it.
    pub(in crate::table) fn covers(&self, first: &[u8], last: &[u8]) -> bool {
        let (lower, upper) = self.bounds();
        let begins = match lower {
            Bound::Unbounded => true,
            Bound::Included(lower) => lower <= first,
            Bound::Excluded(lower) => lower < first,
        };
        let ends = match upper {
            Bound::Unbounded => true,
            Bound::Included(upper) => last <= upper,
            Bound::Excluded(upper) => last < upper,
        };
        begins && ends
    }

    pub(in crate::table) fn encode(&self, to: &mut Encoder) {
        for bound in [self.bounds().0, self.bounds().1] {
            match bound {
                Bound::Unbounded => to.u8(UNBOUNDED),
                Bound::Included(key) => {
                    to.u8(INCLUDED);
                    to.bytes_with_length(key);
                }
                Bound::Excluded(key) => {
                    to.u8(EXCLUDED);
                    to.bytes_with_length(key);
                }
            }
        }
    }

    pub(in crate::table) fn decode(from: &mut Decoder<'_>) -> Result<KeyRange> {
        Ok(KeyRange { lower: decode_bound(from)?, upper: decode_bound(from)? })
    }
}

fn decode_bound(from: &mut Decoder<'_>) -> Result<Bound<Vec<u8>>> {
    let start = from.clone();
    Ok(match from.u8()? {
        UNBOUNDED => Bound::Unbounded,
        INCLUDED => Bound::Included(from.bytes_with_length()?.to_vec()),
        EXCLUDED => Bound::Excluded(from.bytes_with_length()?.to_vec()),
        other => return Err(start.corrupt("a bound of kind 0 to 2", other)),
    })
}

//! Values that an operator would have to join which only the program of the store knows.
//!
//! A stand-in for the operator keeps the parts apart, behind a mark that no value has by chance, and whoever
//! shows or writes a value sees that it is not one.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Bytes of the mark, and of the length before each part.
const MARK_BYTES: usize = 32;
const LENGTH_BYTES: usize = 8;

/// Of this process, so that no store can hold it.
fn mark() -> &'static [u8; MARK_BYTES] {
    static MARK: OnceLock<[u8; MARK_BYTES]> = OnceLock::new();
    MARK.get_or_init(|| {
        let mut mark = [0; MARK_BYTES];
        for piece in mark.chunks_mut(8) {
            piece.copy_from_slice(&RandomState::new().hash_one("joined").to_le_bytes());
        }
        mark
    })
}

/// The two in a row, each of which may be several already.
pub fn join(older: &[u8], newer: &[u8]) -> Vec<u8> {
    let mut row = mark().to_vec();
    for value in [older, newer] {
        if let Some(parts) = value.strip_prefix(mark()) {
            row.extend_from_slice(parts);
        } else {
            row.extend_from_slice(&(value.len() as u64).to_le_bytes());
            row.extend_from_slice(value);
        }
    }
    row
}

/// Whether what begins with `bytes` is a row of parts.
pub fn is_row(bytes: &[u8]) -> bool {
    bytes.starts_with(mark())
}

/// What is in a row, oldest first; `None` for a value.
pub fn parts(value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = value.strip_prefix(mark())?;
    let mut parts = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<LENGTH_BYTES>() {
        let length = u64::from_le_bytes(*length) as usize;
        let part = behind.get(..length)?;
        rest = &behind[length..];
        parts.push(part);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_apart_in_whatever_order_they_are_joined() {
        let expected = Some(vec![&b"a"[..], b"", b"bc"]);
        assert_eq!(parts(&join(&join(b"a", b""), b"bc")), expected);
        assert_eq!(parts(&join(b"a", &join(b"", b"bc"))), expected);
        assert_eq!(parts(b"a value"), None);
        assert_eq!(parts(b""), None);
        assert_eq!(parts(&join(b"a", b"b")[..MARK_BYTES + 8]), None, "cut short");
    }
}

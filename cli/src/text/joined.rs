//! Values that an operator would have to join which only the program of the store knows.
//!
//! A stand-in for the operator keeps the parts apart, behind a mark that no value has by chance, and whoever
//! shows or writes a value sees that it is not one.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Bytes of the mark, of the number of parts that are left out, and of the length before each part.
const MARK_BYTES: usize = 32;
const LENGTH_BYTES: usize = 8;
const HEAD_BYTES: usize = MARK_BYTES + LENGTH_BYTES;

/// A row that is longer takes no more parts and counts them: each one copies it, and a counter of a chain has millions.
const ROW_BYTES_MAX: usize = 4 << 10;

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
    row.extend_from_slice(&[0; LENGTH_BYTES]);
    let mut left_out = 0;
    for value in [older, newer] {
        let is_row = is_row(value);
        let is_full = self::is_row(older) && row.len() > ROW_BYTES_MAX;
        // Those that are kept are the oldest: nothing is kept behind what is left out.
        if left_out > 0 || is_full {
            left_out += if is_row { parts(value).map_or(0, |it| it.len() as u64) } else { 1 };
        } else if is_row {
            row.extend_from_slice(&value[HEAD_BYTES..]);
        } else {
            row.extend_from_slice(&(value.len() as u64).to_le_bytes());
            row.extend_from_slice(value);
        }
        left_out += omitted(value);
    }
    row[MARK_BYTES..HEAD_BYTES].copy_from_slice(&left_out.to_le_bytes());
    row
}

/// How many parts are left out behind those of a row.
pub fn omitted(value: &[u8]) -> u64 {
    let count = value.strip_prefix(mark()).and_then(|rest| rest.first_chunk::<LENGTH_BYTES>());
    count.map_or(0, |count| u64::from_le_bytes(*count))
}

/// Whether what begins with `bytes` is a row of parts.
pub fn is_row(bytes: &[u8]) -> bool {
    bytes.starts_with(mark())
}

/// What is in a row, oldest first; `None` for a value.
pub fn parts(value: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = value.strip_prefix(mark())?.get(LENGTH_BYTES..)?;
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
    fn a_row_of_a_million_parts_is_short_and_says_how_many_it_left_out() {
        let mut row = join(b"0", b"1");
        for number in 2..1_000_000_u32 {
            row = join(&row, number.to_string().as_bytes());
        }
        let kept = parts(&row).unwrap();
        assert!(row.len() < 2 * ROW_BYTES_MAX && kept.len() > 100, "{}", kept.len());
        assert_eq!(kept.len() as u64 + omitted(&row), 1_000_000);
        assert_eq!((kept[2], kept[99]), (&b"2"[..], &b"99"[..]), "those are the oldest");
        // Of two that are joined each may have left some out.
        let both = join(&row, &row);
        assert_eq!(parts(&both).unwrap().len() as u64 + omitted(&both), 2_000_000);
    }

    #[test]
    fn parts_stay_apart_in_whatever_order_they_are_joined() {
        let expected = Some(vec![&b"a"[..], b"", b"bc"]);
        assert_eq!(parts(&join(&join(b"a", b""), b"bc")), expected);
        assert_eq!(parts(&join(b"a", &join(b"", b"bc"))), expected);
        assert_eq!(parts(b"a value"), None);
        assert_eq!(parts(b""), None);
        assert_eq!(parts(&join(b"a", b"b")[..HEAD_BYTES + 8]), None, "cut short");
    }
}

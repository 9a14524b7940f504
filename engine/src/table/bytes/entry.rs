//! What a table stores for a key: a value, a deletion, or an upsert to combine with what is older.
//!
//! Keys order as byte strings; the shorter of two that agree comes first. [`prefix`] turns the start
//! of a key into a number that orders the same way, so that most comparisons are of one word.

/// The longest key in bytes, so that every key fits a page with its frame.
pub const KEY_BYTES_MAX: usize = 4_000;

/// The longest value in bytes that a batch takes; longer ones are streamed.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// What an entry costs beside its key and value, in the counts that schedule work and memory.
pub const ENTRY_OVERHEAD: u64 = 16;

/// What an entry counts in write buffer bytes and merge work.
#[inline]
#[must_use]
pub fn cost(key: &[u8], value: &[u8]) -> u64 {
    (key.len() + value.len()) as u64 + ENTRY_OVERHEAD
}

/// What an entry does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum EntryKind {
    /// The key has this value, whatever was there before.
    Insert = 0,
    /// The key is absent, whatever was there before. The entry's value is empty.
    Delete = 1,
    /// The key's older value, if any, is to be combined with this one.
    Upsert = 2,
    /// As an insert, of a value in a blob file: the entry holds where it lies.
    Blob = 3,
}

impl EntryKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [EntryKind; 4] =
        [EntryKind::Insert, EntryKind::Delete, EntryKind::Upsert, EntryKind::Blob];

    /// The kind with this number on disk.
    #[inline]
    #[must_use]
    pub fn from_bits(bits: u16) -> Option<Self> {
        Self::ALL.get(usize::from(bits)).copied()
    }

    /// The kind's name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["insert", "delete", "upsert", "blob"][self as usize]
    }
}

/// An entry whose bytes are somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a> {
    /// What it does.
    pub kind: EntryKind,
    /// Up to [`KEY_BYTES_MAX`] bytes.
    pub key: &'a [u8],
    /// Up to [`VALUE_BYTES_MAX`] bytes; empty in a delete, a reference in a blob.
    pub value: &'a [u8],
}

/// The first eight bytes of `key` as a big-endian number, zeros after its end.
///
/// `a < b` implies `prefix(a) <= prefix(b)`, so unequal prefixes decide a comparison.
#[inline]
#[must_use]
pub fn prefix(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(padded)
}

/// How many bytes two keys share from their start.
#[inline]
#[must_use]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (mut words_a, mut words_b) = (a.chunks_exact(8), b.chunks_exact(8));
    let mut shared = 0;
    for (one, other) in words_a.by_ref().zip(words_b.by_ref()) {
        let (one, other) = (prefix(one), prefix(other));
        if one != other {
            return shared + (one ^ other).leading_zeros() as usize / 8;
        }
        shared += 8;
    }
    shared + a[shared..].iter().zip(&b[shared..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_order_as_keys_do() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefgh1", b"b"];
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1] && prefix(pair[0]) <= prefix(pair[1]));
        }
        assert_eq!(prefix(b"abcdefgh1"), u64::from_be_bytes(*b"abcdefgh"));
        assert_eq!(common_prefix(b"abc", b"abd"), 2);
        let long = [7; 40];
        for end in 0..40 {
            assert_eq!(common_prefix(&long, &long[..end]), end);
            let mut other = long;
            other[end] = 8;
            assert_eq!(
                (common_prefix(&long, &other), common_prefix(&other[..end], &long)),
                (end, end)
            );
        }
    }

    #[test]
    fn kinds_come_back_from_their_numbers() {
        for kind in EntryKind::ALL {
            assert_eq!(EntryKind::from_bits(kind as u16), Some(kind));
        }
        assert_eq!(EntryKind::from_bits(4), None);
    }
}

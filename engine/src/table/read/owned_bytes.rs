//! Bytes of their own for who takes keys and values out of a table: short ones without an allocation.
//!
//! Keys and values of ledgers are mostly shorter than a cache line: a hash with a number, an output. An
//! entry of a range then costs no call of the allocator, and a collected one no block of it.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// So many bytes need no allocation: what makes the type as large as a cache line.
const INLINE_BYTES: usize = 62;

/// A key or a value that a range gave: owned, immutable, read as a slice.
///
/// Up to 62 bytes lie in the value itself, more in one allocation of just that length. It compares and
/// hashes as its bytes do.
///
/// ```
/// use varvite::Bytes;
///
/// let key = Bytes::from(&b"key"[..]);
/// assert!(key.starts_with(b"k") && key == b"key");
/// let vector: Vec<u8> = key.into();
/// assert_eq!(vector, b"key");
/// ```
#[derive(Clone)]
pub struct Bytes(Place);

#[derive(Clone)]
enum Place {
    Inline(u8, [u8; INLINE_BYTES]),
    Heap(Box<[u8]>),
}

impl Bytes {
    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Place::Inline(length, bytes) => &bytes[..usize::from(*length)],
            Place::Heap(bytes) => bytes,
        }
    }
}

impl From<&[u8]> for Bytes {
    #[inline]
    fn from(bytes: &[u8]) -> Bytes {
        if bytes.len() > INLINE_BYTES {
            return Bytes(Place::Heap(bytes.into()));
        }
        let mut inline = [0; INLINE_BYTES];
        inline[..bytes.len()].copy_from_slice(bytes);
        Bytes(Place::Inline(bytes.len() as u8, inline))
    }
}

impl From<Vec<u8>> for Bytes {
    /// Takes the memory over unless the bytes are few.
    fn from(bytes: Vec<u8>) -> Bytes {
        if bytes.len() > INLINE_BYTES {
            Bytes(Place::Heap(bytes.into()))
        } else {
            (&bytes[..]).into()
        }
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Vec<u8> {
        match bytes.0 {
            Place::Heap(bytes) => bytes.into(),
            Place::Inline(length, bytes) => bytes[..usize::from(length)].to_vec(),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Bytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::from(&[][..])
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Bytes {
    fn eq(&self, other: &T) -> bool {
        self.as_slice() == other.as_ref()
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Bytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Bytes) -> Ordering {
        self.as_slice().cmp(other)
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn bytes_of_every_length_are_what_they_were_made_of() {
        assert_eq!(size_of::<Bytes>(), 64);
        for length in (0..200).chain([4_000, 100_000]) {
            let vector: Vec<u8> = (0..length).map(|place: u32| place as u8).collect();
            for bytes in [Bytes::from(&vector[..]), Bytes::from(vector.clone())] {
                assert_eq!(bytes, vector);
                assert_eq!((bytes.len(), bytes.clone()), (vector.len(), bytes.clone()));
                assert_eq!(Vec::from(bytes), vector);
            }
        }
    }

    #[test]
    fn bytes_are_found_where_slices_are() {
        let words: [&[u8]; 4] = [b"", b"a", b"ab", &[b'b'; 100]];
        let set: HashSet<Bytes> = words.map(Bytes::from).into();
        let map: BTreeMap<Bytes, usize> = words.map(Bytes::from).into_iter().zip(0..).collect();
        for (place, word) in words.into_iter().enumerate() {
            assert!(set.contains(word));
            assert_eq!(map.get(word), Some(&place));
        }
        assert!(map.keys().is_sorted());
        assert_eq!(format!("{:?}", Bytes::from(&b"a\0"[..])), "b\"a\\x00\"");
    }
}

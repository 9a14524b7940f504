//! The hashes of the context: `BLAKE2b`-256 over pre-images that Tezos fixed.
//!
//! A pre-image is written straight into a reused buffer, and many are hashed at once, because most
//! of them are short and SIMD lanes are free. The exact bytes are stated beside each function.
//! Source: the public specification of Tezos context hashes; BLAKE2 (Aumasson et al. 2013).

use std::fmt;
use std::ops::{Deref, Range};
use std::str::FromStr;

use blake2b_simd::Params;
use blake2b_simd::many::{HashManyJob, hash_many};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// A `BLAKE2b`-256 digest.
pub type Hash = [u8; 32];

/// The hash of the empty directory, which is also that of the empty value.
pub const EMPTY: Hash = [
    0x81, 0xe4, 0x7a, 0x19, 0xe6, 0xb2, 0x9b, 0x0a, 0x65, 0xb9, 0x59, 0x17, 0x62, 0xce, 0x51, 0x43,
    0xed, 0x30, 0xd0, 0x26, 0x1e, 0x5d, 0x24, 0xa3, 0x20, 0x17, 0x52, 0x50, 0x6b, 0x20, 0xf1, 0x5c,
];

/// How many jobs go to the SIMD hash at once; a few times its widest lane count.
const JOBS: usize = 16;

fn parameters() -> Params {
    let mut parameters = Params::new();
    parameters.hash_length(32);
    parameters
}

fn first_32(digest: &blake2b_simd::Hash) -> Hash {
    *digest.as_bytes().first_chunk().expect("the parameters ask for 32 bytes")
}

/// The hash of `bytes`.
#[must_use]
pub fn hash(bytes: &[u8]) -> Hash {
    first_32(&parameters().hash(bytes))
}

/// Hashes each of `spans` of `bytes`, several at a time, and calls `each` with its position.
pub fn hash_spans(bytes: &[u8], spans: &[Range<usize>], mut each: impl FnMut(usize, Hash)) {
    let parameters = parameters();
    for (group, spans) in spans.chunks(JOBS).enumerate() {
        // On the stack: a heap allocation of this size costs as much as several hashes. Places beyond
        // the last span hash nothing and are left out.
        let span = |index: usize| spans.get(index).map_or(0..0, Range::clone);
        let mut jobs: [HashManyJob<'_>; JOBS] =
            std::array::from_fn(|index| HashManyJob::new(&parameters, &bytes[span(index)]));
        hash_many(jobs[..spans.len()].iter_mut());
        for (index, job) in jobs[..spans.len()].iter().enumerate() {
            each(group * JOBS + index, first_32(&job.to_hash()));
        }
    }
}

/// Eight bytes, big-endian: how lengths are written outside inodes.
#[inline]
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_be_bytes());
}

/// Unsigned LEB128: how lengths are written inside inodes, and those of names everywhere.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Pre-image of a value: its length (8), its bytes.
pub fn put_value(out: &mut Vec<u8>, value: &[u8]) {
    put_u64(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// A value of more bytes is not copied behind its length to be hashed.
const COPIED: usize = 1 << 12;

/// The hash of a value.
#[must_use]
pub fn value(value: &[u8]) -> Hash {
    if value.len() > COPIED {
        let mut state = parameters().to_state();
        return first_32(
            &state.update(&(value.len() as u64).to_be_bytes()).update(value).finalize(),
        );
    }
    let mut bytes = Vec::with_capacity(8 + value.len());
    put_value(&mut bytes, value);
    hash(&bytes)
}

/// One entry of a flat directory: kind (8), length of the name (varint), name, 32 (8), hash.
#[inline]
pub fn put_flat_entry(out: &mut Vec<u8>, name: &[u8], is_value: bool, hash: &Hash) {
    // In few pieces of a fixed length: a wide directory has hundreds of entries.
    let mut head = [0; 9];
    head[0] = if is_value { 0xff } else { 0 };
    if name.len() < 0x80 {
        head[8] = name.len() as u8;
        out.extend_from_slice(&head);
    } else {
        out.extend_from_slice(&head[..8]);
        put_varint(out, name.len() as u64);
    }
    out.extend_from_slice(name);
    let mut tail = [0; 40];
    tail[7] = 32;
    tail[8..].copy_from_slice(hash);
    out.extend_from_slice(&tail);
}

/// The head of an inode of values: 0, the count of entries (varint).
#[inline]
pub fn put_values_head(out: &mut Vec<u8>, count: u64) {
    out.push(0);
    put_varint(out, count);
}

/// One entry of an inode of values: length of the name (varint), name, kind (1), hash.
#[inline]
pub fn put_values_entry(out: &mut Vec<u8>, name: &[u8], is_value: bool, hash: &Hash) {
    put_varint(out, name.len() as u64);
    out.extend_from_slice(name);
    out.push(u8::from(is_value));
    out.extend_from_slice(hash);
}

/// The head of an inode tree: 1, depth, entries below, pointers (varints each).
#[inline]
pub fn put_branch_head(out: &mut Vec<u8>, depth: u64, entries: u64, pointers: u64) {
    out.push(1);
    put_varint(out, depth);
    put_varint(out, entries);
    put_varint(out, pointers);
}

/// Room for `count` pointers of an inode tree, if all buckets are below 128: a byte each, and the hash below.
#[inline]
pub(crate) fn branch_pointers(out: &mut Vec<u8>, count: usize) -> &mut [[u8; 33]] {
    let start = out.len();
    out.resize(start + 33 * count, 0);
    out[start..].as_chunks_mut().0
}

/// One pointer of an inode tree: its bucket (varint), the hash below.
#[inline]
pub fn put_branch_pointer(out: &mut Vec<u8>, bucket: u64, hash: &Hash) {
    put_varint(out, bucket);
    out.extend_from_slice(hash);
}

/// The hash of a commit; `parents` must be sorted, as commits store them.
#[must_use]
pub fn commit(
    tree: &TreeHash,
    parents: &[CommitHash],
    date: i64,
    author: &[u8],
    message: &[u8],
) -> CommitHash {
    debug_assert!(parents.is_sorted());
    let mut out = Vec::with_capacity(80 + parents.len() * 40 + author.len() + message.len());
    put_u64(&mut out, 32);
    out.extend_from_slice(tree.as_ref());
    put_u64(&mut out, parents.len() as u64);
    for parent in parents {
        put_u64(&mut out, 32);
        out.extend_from_slice(parent.as_ref());
    }
    put_u64(&mut out, date as u64);
    put_value(&mut out, author);
    put_value(&mut out, message);
    CommitHash(hash(&out))
}

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const PREFIX: [u8; 2] = [0x4f, 0xc7];
/// Prefix, digest and checksum of the text form, in bytes.
const RAW: usize = 38;

fn checksum(payload: &[u8]) -> [u8; 4] {
    let twice = Sha256::digest(Sha256::digest(payload));
    [twice[0], twice[1], twice[2], twice[3]]
}

/// The text form, `Base58Check`: 52 characters that begin with `Co`.
#[must_use]
pub fn to_text(hash: &Hash) -> String {
    let mut raw = [0; RAW];
    raw[..2].copy_from_slice(&PREFIX);
    raw[2..34].copy_from_slice(hash);
    let sum = checksum(&raw[..34]);
    raw[34..].copy_from_slice(&sum);
    let mut digits = [0u8; 52];
    for byte in raw {
        let mut carry = u32::from(byte);
        for digit in digits.iter_mut().rev() {
            carry += u32::from(*digit) * 256;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        debug_assert_eq!(carry, 0, "the prefix makes 52 digits enough");
    }
    digits.iter().map(|&digit| char::from(ALPHABET[usize::from(digit)])).collect()
}

/// Reads the text form (`Co…`) or 64 hex digits. `Invalid` for anything else.
pub fn from_text(text: &str) -> Result<Hash> {
    let invalid = |why: &str| {
        Error::invalid(format!(
            "{text:?} is not a context hash: {why}; give 52 characters that begin with Co, or 64 hex digits"
        ))
    };
    let bytes = text.as_bytes();
    if bytes.len() == 64 {
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(bytes.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(|| invalid("not hex"));
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        return Ok(hash);
    }
    if bytes.len() != 52 {
        return Err(invalid("its length is wrong"));
    }
    let mut raw = [0u8; RAW];
    for &character in bytes {
        let digit = ALPHABET.iter().position(|&known| known == character);
        let mut carry = digit.ok_or_else(|| invalid("it has a character outside Base58"))? as u32;
        for byte in raw.iter_mut().rev() {
            carry += u32::from(*byte) * 58;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry != 0 {
            return Err(invalid("it is too large"));
        }
    }
    if raw[..2] != PREFIX {
        return Err(invalid("it has another prefix"));
    }
    if checksum(&raw[..34]) != raw[34..] {
        return Err(invalid("its checksum is wrong, so a character was mistyped"));
    }
    Ok(raw[2..34].try_into().expect("32 bytes"))
}

/// Lower-case hex of any bytes, as vectors and messages show them.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// A newtype of 32 bytes, of which all are read alike.
macro_rules! name_of {
    ($(#[$document:meta])* $name:ident) => {
        $(#[$document])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Hash);

        impl $name {
            /// From its bytes; any 32 are one.
            #[must_use]
            pub const fn new(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Its bytes, by value.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; 32] {
                self.0
            }
        }

        impl Deref for $name {
            type Target = [u8; 32];

            fn deref(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl AsRef<[u8]> for $name {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl PartialEq<[u8; 32]> for $name {
            fn eq(&self, other: &[u8; 32]) -> bool {
                self.0 == *other
            }
        }

        impl PartialEq<$name> for [u8; 32] {
            fn eq(&self, other: &$name) -> bool {
                *self == other.0
            }
        }

        impl From<[u8; 32]> for $name {
            fn from(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }
        }

        impl From<$name> for [u8; 32] {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl TryFrom<&[u8]> for $name {
            type Error = Error;

            /// `Invalid` when there are not 32 bytes.
            fn try_from(bytes: &[u8]) -> Result<Self> {
                bytes.try_into().map(Self).map_err(|_| {
                    Error::invalid(format!(
                        "a context hash has 32 bytes, not {}: give the whole hash",
                        bytes.len()
                    ))
                })
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// From `Co…` or 64 hex digits. `Invalid` for anything else.
            fn from_str(text: &str) -> Result<Self> {
                from_text(text).map(Self)
            }
        }

        /// As Tezos shows it: 52 characters that begin with `Co`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&to_text(&self.0))
            }
        }

        /// Its bytes in lower-case hex.
        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&to_hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

name_of! {
    /// The hash of a commit, which names it in every store and on every node.
    ///
    /// ```
    /// use varvite::context::CommitHash;
    /// # fn main() -> varvite::Result<()> {
    /// let hash: CommitHash = "CoVdWnWTqvYLikKj8koW6zpxCvK6FzZiD31YWEpD1UNAjWn7vhch".parse()?;
    /// assert_eq!(CommitHash::from(<[u8; 32]>::from(hash)), hash);
    /// assert!(format!("{hash:x}").starts_with("81e47a19"));
    /// assert!(hash.to_string().starts_with("CoVdWnWT"));
    /// # Ok(())
    /// # }
    /// ```
    CommitHash
}

name_of! {
    /// The hash of a tree: of a directory with all that is below it, or of a value.
    ///
    /// A commit's hash is made of it and never equal to it; the two are types of their own, so that one is not taken
    /// for the other.
    ///
    /// ```compile_fail
    /// # use varvite::context::{Store, TreeHash};
    /// fn wrong(store: &Store, tree: &TreeHash) {
    ///     let _ = store.checkout(tree); // a commit is asked for
    /// }
    /// ```
    TreeHash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_value_and_the_empty_directory_hash_alike() {
        assert_eq!(value(b""), EMPTY);
        assert_eq!(hash(&[0; 8]), EMPTY);
        assert_eq!(to_text(&EMPTY), "CoVdWnWTqvYLikKj8koW6zpxCvK6FzZiD31YWEpD1UNAjWn7vhch");
    }

    #[test]
    fn text_comes_back_and_a_wrong_character_is_noticed() {
        for seed in 0..if cfg!(miri) { 2 } else { 200u8 } {
            let digest = hash(&[seed]);
            let text = to_text(&digest);
            assert!(text.len() == 52 && text.starts_with("Co"));
            assert_eq!(from_text(&text).unwrap(), digest);
            assert_eq!(from_text(&to_hex(&digest)).unwrap(), digest);
            let mut damaged = text.into_bytes();
            let place = usize::from(seed) % 52;
            damaged[place] = if damaged[place] == b'x' { b'y' } else { b'x' };
            assert!(from_text(std::str::from_utf8(&damaged).unwrap()).is_err());
        }
    }

    #[test]
    fn hashing_many_at_once_equals_hashing_one_by_one() {
        let bytes: Vec<u8> = (0..5000u32).map(|number| number as u8).collect();
        // Miri takes a thousand times as long.
        let count = if cfg!(miri) { 9 } else { 100 };
        let spans: Vec<_> = (0..count).map(|index| index..index * 37 + 1).collect();
        let mut count = 0;
        hash_spans(&bytes, &spans, |index, digest| {
            assert_eq!(digest, hash(&bytes[spans[index].clone()]));
            count += 1;
        });
        assert_eq!(count, spans.len());
    }

    #[test]
    fn every_form_of_a_hash_leads_back_to_it() {
        let bytes: Hash = std::array::from_fn(|index| index as u8 * 7 + 1);
        let (commit, tree) = (CommitHash::from(bytes), TreeHash::new(bytes));
        assert_eq!(commit.to_string().parse::<CommitHash>().unwrap(), commit);
        assert_eq!(format!("{tree:x}").parse::<TreeHash>().unwrap(), tree);
        assert_eq!(CommitHash::try_from(&bytes[..]).unwrap(), commit);
        assert_eq!((<[u8; 32]>::from(commit), tree.to_bytes()), (bytes, *commit.as_bytes()));
        assert_eq!(AsRef::<[u8]>::as_ref(&tree), &bytes);
        assert_eq!(format!("{commit:?}"), format!("CommitHash({commit})"));
        assert_eq!(format!("[{commit:>54}]"), format!("[  {commit}]"));
        let text = commit.to_string();
        for wrong in ["", "Co", &text[1..], &format!("{text}1"), &"é".repeat(26), &"g".repeat(64)]
        {
            assert!(wrong.parse::<CommitHash>().is_err(), "{wrong}");
        }
        assert!(TreeHash::try_from(&bytes[1..]).is_err());
    }

    #[test]
    fn hashes_have_the_order_of_their_bytes() {
        let of = |first: u8, last: u8| {
            let mut bytes = [0; 32];
            (bytes[0], bytes[31]) = (first, last);
            CommitHash::new(bytes)
        };
        assert!(of(1, 0) > of(0, 255) && of(0, 2) > of(0, 1) && of(255, 0) > of(127, 9));
    }
}

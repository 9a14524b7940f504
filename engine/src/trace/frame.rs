//! Frames: calls as bytes. Names, times and handles are told within a frame, so each is read by itself.
//!
//! What is in one: a call, its arguments and its answer; how they are written and read is `frame_builder`'s and
//! `frame_reader`'s.

use std::ops::Bound;

use super::action::Action;
use crate::format::checksum::{crc, crc_append, masked};
use crate::format::hash::Salt;

/// Bytes of a frame before its calls.
pub const HEAD: usize = 12;

/// The most bytes of a frame's calls.
pub const FRAME_BYTES_MAX: usize = 1 << 30;

/// What stands for bytes in an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    /// How many bytes, or how many things.
    pub length: u64,
    /// The low half of their hash under salt 0.
    pub hash: u32,
}

const SALT: Salt = Salt::new(0);

impl Digest {
    /// Of one value.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Digest {
        Digest { length: bytes.len() as u64, hash: SALT.hash(bytes) as u32 }
    }

    /// Of several, each of which may be absent.
    pub fn of_all<'a>(all: impl IntoIterator<Item = Option<&'a [u8]>>) -> Digest {
        let mut digest = DigestOfMany::default();
        all.into_iter().for_each(|bytes| digest.add(bytes));
        digest.finish()
    }

    /// Of several, and of something else of each of them.
    #[must_use]
    pub fn with(self, other: Digest) -> Digest {
        Digest { length: self.length, hash: self.hash ^ other.hash.rotate_left(1) }
    }
}

/// The digest of several things, one after the other.
///
/// ```
/// use varvite::trace::{Digest, DigestOfMany};
///
/// let mut many = DigestOfMany::default();
/// many.add(Some(b"a"));
/// many.add(None);
/// assert_eq!(many.finish(), Digest::of_all([Some(&b"a"[..]), None]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DigestOfMany {
    length: u64,
    hash: u64,
}

impl DigestOfMany {
    /// Adds one, which may be absent.
    pub fn add(&mut self, bytes: Option<&[u8]>) {
        self.length += 1;
        let own = bytes.map_or(0, |bytes| SALT.hash(bytes) | 1);
        let mut pair = [0; 16];
        pair[..8].copy_from_slice(&self.hash.to_le_bytes());
        pair[8..].copy_from_slice(&own.to_le_bytes());
        self.hash = SALT.hash(&pair);
    }

    /// The digest of all that were added.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest { length: self.length, hash: self.hash as u32 }
    }
}

/// What becomes of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyUpdate {
    /// The key has this value.
    Insert(Vec<u8>, Vec<u8>),
    /// The key is absent.
    Delete(Vec<u8>),
    /// The key's value is combined with this one.
    Upsert(Vec<u8>, Vec<u8>),
    /// The key has a value that was written apart, which the trace does not have.
    Large(Vec<u8>),
    /// The keys between two bounds are absent.
    DeleteRange(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A tree, a table or a view.
    Handle(u64),
    /// Steps.
    Path(Vec<Vec<u8>>),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A number.
    Number(u64),
    /// The hash of a commit.
    Hash([u8; 32]),
    /// Several keys.
    Keys(Vec<Vec<u8>>),
    /// Paths with values.
    Entries(Vec<(Vec<Vec<u8>>, Vec<u8>)>),
    /// What becomes of keys, in this order.
    Updates(Vec<KeyUpdate>),
    /// Keys between two bounds.
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done.
    Nothing,
    /// Yes or no.
    Flag(bool),
    /// A number.
    Number(u64),
    /// What was found, if anything was.
    Digest(Option<Digest>),
    /// A hash.
    Hash([u8; 32]),
    /// A new handle; 0 for none.
    Handle(u64),
    /// It failed.
    Failed,
}

/// A call as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was called.
    pub action: Action,
    /// How many calls of the thread it was made in: 0 for those that the host made itself.
    pub depth: u8,
    /// The host's number of the thread.
    pub thread: u64,
    /// When it began, by the host's clock, from the beginning of the recording.
    pub start_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What it was given.
    pub arguments: Vec<Argument>,
    /// What it gave.
    pub answer: Answer,
}

/// The checksum of a frame's bytes behind it, in the file `identity` at `offset`.
pub fn frame_checksum(identity: u64, offset: u64, rest: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&identity.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    masked(crc_append(crc(&place), rest))
}

/// What a recording ends with: a frame of no bytes and no calls.
pub fn end_frame(identity: u64, offset: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    let checksum = frame_checksum(identity, offset, &head[4..]);
    head[..4].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// What every call begins with.
#[derive(Clone, Copy, Debug)]
pub struct CallHead {
    pub action: Action,
    pub depth: u8,
    pub thread: u64,
    pub start_ns: u64,
    pub duration_ns: u64,
}

/// Flags of a call: its depth, that it failed, and that a thread follows.
pub const DEPTH: u8 = 0x3f;
pub const FAILED: u8 = 0x40;
pub const THREAD: u8 = 0x80;

/// Names that are shorter have no number: a number is hardly shorter, and takes a look.
pub const NUMBERED: usize = 4;

/// Paths of more steps are told whole.
pub const STEPS: usize = 16;

/// Bytes that say which steps of a path of so many are others than before.
pub fn others_bytes(steps: usize) -> usize {
    1 + usize::from(steps > 8)
}

/// A difference as a number that is small when it is near 0 on either side.
#[inline]
pub fn zigzag(difference: u64) -> u64 {
    let difference = difference as i64;
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// The difference of such a number.
pub fn unzigzag(number: u64) -> u64 {
    (number >> 1) ^ (number & 1).wrapping_neg()
}

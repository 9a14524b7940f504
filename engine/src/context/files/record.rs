//! One object's bytes in the pack.
//!
//! A record is a tag, the length of its body (varint), its hash (32), its body, and a checksum over
//! the record's logical offset, the store and all of these, so that a record read from the wrong
//! place is as wrong as one with a flipped bit. References are distances back to older records, so
//! most take two or three bytes. A node is written in full, or as a patch of an older record of it.
//! Format document: `docs/format/pack.md`.

use crate::context::hash::Hash;
use crate::context::pieces::entry::{self, Places, take_reference};
use crate::context::pieces::kept::KeptLeaf;
use crate::context::pieces::node::{Body, Branch, Node, Pointer, Slot, Target};
use crate::error::Result;
use crate::format::checksum::{between, crc, crc_append, crc_before, masked, unmasked};
use crate::format::codec::{Decoder, Encoder};

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Value = 1,
    /// A whole directory up to the flat limit.
    Flat = 2,
    /// A piece of a larger one.
    Values = 3,
    Branch = 4,
    FlatPatch = 5,
    ValuesPatch = 6,
    BranchPatch = 7,
    Commit = 8,
    /// A branch set or removed; its hash is that of the commit, or zero.
    Reference = 9,
    /// The first record of a chunk.
    Opening = 10,
    /// The last record of a chunk.
    Seal = 11,
}

impl Tag {
    /// Whether it is a value or a piece of a directory: what has a hash of its own.
    pub(crate) fn is_object(self) -> bool {
        self as u8 <= Tag::BranchPatch as u8
    }

    pub(crate) fn of(byte: u8) -> Option<Tag> {
        Some(match byte {
            1 => Tag::Value,
            2 => Tag::Flat,
            3 => Tag::Values,
            4 => Tag::Branch,
            5 => Tag::FlatPatch,
            6 => Tag::ValuesPatch,
            7 => Tag::BranchPatch,
            8 => Tag::Commit,
            9 => Tag::Reference,
            10 => Tag::Opening,
            11 => Tag::Seal,
            _ => return None,
        })
    }
}

/// Bytes of a record beside tag, length and body.
pub(crate) const HASH: usize = 32;
pub(crate) const CRC: usize = 4;

/// The most bytes of tag and length: so many say how long a record is.
pub(crate) const HEAD_MAX: usize = 11;

/// Appends the record of `body`, which will be at `offset` of the store `identity`.
pub(crate) fn put(
    out: &mut Encoder,
    identity: u64,
    offset: u64,
    tag: Tag,
    hash: &Hash,
    body: &[u8],
) {
    let start = out.bytes().len();
    put_head(out, tag, hash, body);
    out.raw(body);
    let sum = checksum(identity, offset, &out.bytes()[start..]);
    out.u32(sum);
}

/// The same without `body`, which stays where it is; returns what comes behind it.
pub(crate) fn put_around(
    out: &mut Encoder,
    identity: u64,
    offset: u64,
    tag: Tag,
    hash: &Hash,
    body: &[u8],
) -> [u8; CRC] {
    let start = out.bytes().len();
    put_head(out, tag, hash, body);
    let head = crc_append(crc_of_place(identity, offset), &out.bytes()[start..]);
    masked(crc_append(head, body)).to_le_bytes()
}

fn put_head(out: &mut Encoder, tag: Tag, hash: &Hash, body: &[u8]) {
    out.u8(tag as u8);
    out.varint(body.len() as u64);
    out.raw(hash);
}

fn crc_of_place(identity: u64, offset: u64) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&identity.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc(&place)
}

fn checksum(identity: u64, offset: u64, bytes: &[u8]) -> u32 {
    masked(crc_append(crc_of_place(identity, offset), bytes))
}

/// A record, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) tag: Tag,
    pub(crate) hash: Hash,
    pub(crate) body: &'a [u8],
    /// Of the whole record.
    pub(crate) length: usize,
}

/// The length of the record whose first bytes are `bytes`; none when they are too few to say.
pub(crate) fn length(bytes: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new("", 0, bytes.get(1..)?);
    let body = decoder.varint().ok()?;
    let head = bytes.len() - decoder.remaining();
    Some((head + HASH + CRC) as u64).and_then(|rest| rest.checked_add(body))
}

/// Whether `bytes` begin as the record of an object with `hash`; they need be no record.
pub(crate) fn begins_as(bytes: &[u8], hash: &Hash) -> bool {
    let Some((tag, rest)) = bytes.split_first() else { return false };
    let mut decoder = Decoder::new("", 0, rest);
    let is_object = Tag::of(*tag).is_some_and(Tag::is_object);
    is_object && decoder.varint().is_ok() && decoder.raw(HASH).is_ok_and(|found| found == hash)
}

/// Takes apart the record that `bytes` begin with, found at byte `place` of `file`.
pub(crate) fn take<'a>(
    file: &'a str,
    place: u64,
    identity: u64,
    offset: u64,
    bytes: &'a [u8],
) -> Result<Record<'a>> {
    let mut decoder = Decoder::new(file, place, bytes);
    let start = decoder.clone();
    let tag = decoder.u8()?;
    let body_length = decoder.count(1)?;
    let hash: Hash = decoder.raw(HASH)?.try_into().expect("32 bytes");
    let body = decoder.raw(body_length)?;
    let length = bytes.len() - decoder.remaining() + CRC;
    let found = decoder.u32()?;
    let expected = checksum(identity, offset, &bytes[..length - CRC]);
    if found != expected {
        return Err(start.corrupt(
            format_args!("a record with checksum {expected:08x}"),
            format_args!("{found:08x}"),
        ));
    }
    let tag = Tag::of(tag).ok_or_else(|| start.corrupt("a known kind of record", tag))?;
    Ok(Record { tag, hash, body, length })
}

/// The logical offset for which the record was written in the store `identity` that `bytes` begin with, if it is one of
/// `within`, and its length: its checksum covers the offset, and so says it. One in 2^32 of other bytes seems to be such a record,
/// for each offset that is possible.
pub(crate) fn written_for(
    identity: u64,
    within: &std::ops::Range<u64>,
    bytes: &[u8],
) -> Option<(u64, usize)> {
    Tag::of(*bytes.first()?)?;
    let length = usize::try_from(length(bytes)?).ok()?;
    let record = bytes.get(..length)?;
    let (content, sum) = record.split_at(length - CRC);
    let sum = u32::from_le_bytes(sum.try_into().expect("4 bytes"));
    let place = crc_before(unmasked(sum), content);
    let store = crc(&identity.to_le_bytes());
    let last = within.end.checked_sub(1)?;
    (within.start >> 32..=last >> 32).find_map(|high| {
        let low = between(store, crc_before(place, &(high as u32).to_le_bytes()));
        let offset = high << 32 | u64::from(u32::from_le_bytes(low));
        within.contains(&offset).then_some((offset, length))
    })
}

/// Takes apart a record whose bytes were verified with the batch it came in.
pub(crate) fn split<'a>(file: &'a str, place: u64, bytes: &'a [u8]) -> Result<Record<'a>> {
    let mut decoder = Decoder::new(file, place, bytes);
    let start = decoder.clone();
    let tag = decoder.u8()?;
    let body_length = decoder.count(1)?;
    let hash: Hash = decoder.raw(HASH)?.try_into().expect("32 bytes");
    let body = decoder.raw(body_length)?;
    decoder.raw(CRC)?;
    let tag = Tag::of(tag).ok_or_else(|| start.corrupt("a known kind of record", tag))?;
    Ok(Record { tag, hash, body, length: bytes.len() - decoder.remaining() })
}

pub(super) fn put_pointer(out: &mut Encoder, at: u64, pointer: &Pointer, places: &dyn Places) {
    out.varint(u64::from(pointer.count));
    out.varint(at - target_offset(&pointer.target, places));
}

pub(super) fn target_offset(target: &Target, places: &dyn Places) -> u64 {
    match target {
        Target::Stored(offset) => *offset,
        Target::Live(node) => places.node(node),
    }
}

pub(super) fn take_pointer(decoder: &mut Decoder<'_>, at: u64, bucket: u16) -> Result<Pointer> {
    let start = decoder.clone();
    let count = u32::try_from(decoder.varint()?)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| start.corrupt("a count of entries", "none that is possible"))?;
    Ok(Pointer { bucket, count, target: Target::Stored(take_reference(decoder, at)?) })
}

/// The tag and body of a node in full, to be written at `at`.
pub(crate) fn put_full(out: &mut Encoder, at: u64, node: &Node, places: &dyn Places) -> Tag {
    match &node.body {
        Body::Leaf { leaf, flat } => {
            entry::put_leaf(out, at, leaf, places);
            if *flat { Tag::Flat } else { Tag::Values }
        }
        Body::Branch(branch) => {
            let pointers = &branch.pointers;
            let dense =
                pointers.iter().enumerate().all(|(place, one)| usize::from(one.bucket) == place);
            out.varint(u64::from(branch.depth) << 1 | u64::from(dense));
            for pointer in pointers {
                if !dense {
                    out.varint(u64::from(pointer.bucket));
                }
                put_pointer(out, at, pointer, places);
            }
            Tag::Branch
        }
    }
}

/// Bodies up to this many bytes are searched as they are, rather than made a node of: a leaf of small
/// directories, too, which has a few thousand.
const SCANNED: usize = 4096;

/// Bytes of memory in which a leaf is put together. Most are shorter, and from 1,024 bytes on glibc's allocator first
/// puts in order all that was freed.
pub(crate) const SCRATCH: usize = 960;

/// What [`entry::find`] says of the leaf in `record`; none when it is not one, or large. Arguments as
/// those of [`read`].
#[allow(clippy::option_option)] // found to be absent is not the same as not looked for
pub(crate) fn find(
    file: &str,
    place: u64,
    at: u64,
    record: &Record<'_>,
    path: &[&[u8]],
) -> Result<Option<Option<(usize, Slot)>>> {
    if !matches!(record.tag, Tag::Flat | Tag::Values) || record.body.len() > SCANNED {
        return Ok(None);
    }
    entry::find(Decoder::new(file, place, record.body), at, path).map(Some)
}

/// The leaf in `record`, to be kept in bytes; none of a record that is not one in full, or better kept as a node. Arguments
/// as those of [`read`].
pub(crate) fn kept_leaf(
    file: &str,
    place: u64,
    at: u64,
    record: &Record<'_>,
) -> Result<Option<KeptLeaf>> {
    if !matches!(record.tag, Tag::Flat | Tag::Values) {
        return Ok(None);
    }
    let entries = Decoder::new(file, place, record.body);
    let mut scratch = Vec::with_capacity(SCRATCH);
    KeptLeaf::read(entries, at, record.tag == Tag::Flat, &record.hash, &mut scratch)
}

/// What a node's record says: the node, or what to change in another.
pub(crate) enum Read<'a> {
    Full(Node),
    /// The offset of the base, and the decoder at the first change.
    Patch(u64, Decoder<'a>),
}

/// Reads the node in `record`, which is at logical offset `at`. The decoder of a patch begins at
/// byte `place` of `file`.
pub(crate) fn read<'a>(
    file: &'a str,
    place: u64,
    at: u64,
    record: &Record<'a>,
) -> Result<Read<'a>> {
    let mut decoder = Decoder::new(file, place, record.body);
    let body = match record.tag {
        Tag::Flat | Tag::Values => {
            Body::Leaf { leaf: entry::take_leaf(decoder, at)?, flat: record.tag == Tag::Flat }
        }
        Tag::Branch => {
            let start = decoder.clone();
            let head = decoder.varint()?;
            let depth = u32::try_from(head >> 1).ok().filter(|depth| *depth < 256);
            let depth = depth.ok_or_else(|| start.corrupt("a depth below 256", head >> 1))?;
            let mut pointers = Vec::with_capacity(decoder.remaining() / 4 + 1);
            while decoder.remaining() > 0 {
                let bucket =
                    if head & 1 == 1 { pointers.len() as u64 } else { decoder.varint()? };
                push_pointer(&mut pointers, bucket, &mut decoder, at)?;
            }
            if pointers.capacity() > pointers.len() * 2 {
                pointers.shrink_to_fit();
            }
            Body::Branch(Branch::new(depth, pointers))
        }
        Tag::FlatPatch | Tag::ValuesPatch | Tag::BranchPatch => {
            let base = take_reference(&mut decoder, at)?;
            return Ok(Read::Patch(base, decoder));
        }
        Tag::Value | Tag::Commit | Tag::Reference | Tag::Opening | Tag::Seal => {
            return Err(decoder.corrupt("a node", "another kind of record"));
        }
    };
    Ok(Read::Full(Node::new(body)))
}

fn push_pointer(
    pointers: &mut Vec<Pointer>,
    bucket: u64,
    decoder: &mut Decoder<'_>,
    at: u64,
) -> Result<()> {
    let above = pointers.last().is_none_or(|last| u64::from(last.bucket) < bucket);
    let bucket = u16::try_from(bucket)
        .ok()
        .filter(|_| above)
        .ok_or_else(|| decoder.corrupt("buckets in order", bucket))?;
    pointers.push(take_pointer(decoder, at, bucket)?);
    Ok(())
}

//! JSON: kinds as names, bytes as lower-case hexadecimal, in the shape in which Irmin's vectors show
//! proofs: `{"version": 0, "before": ["node", hash], "after": …, "state": {"node": [[step, {…}], …]}}`.
//! A stream's state is a list of elements. A length beyond 2^52 is text.
//!
//! It is read in one pass and written piece by piece, without a tree of JSON between text and proof: that
//! would take many times the text.

mod reader;
mod sizes;
mod writer;

use super::{kinded, writing_deeper};
use crate::context::hash::Hash;
use crate::context::tree::Kind;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use crate::proof::shape::{Element, Entries, Extender, Inode, Kinded, Part, Piece, Proof, State};
use reader::Reader;

pub(super) fn encode(proof: &Proof) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    writer::put(proof, &mut |bytes| {
        out.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(out)
}

/// How many bytes [`encode`] would give.
pub(super) fn length(proof: &Proof) -> Result<u64> {
    let mut length = 0;
    writer::put(proof, &mut |bytes| {
        length += bytes.len() as u64;
        Ok(())
    })?;
    Ok(length)
}

/// `Corrupt` unless `bytes`, of which `proof` was read, are what is written of it, apart from blanks. Text
/// of proofs holds no blanks, so that those in `bytes` are all between what it consists of.
pub(super) fn check_form(bytes: &[u8], proof: &Proof) -> Result<()> {
    let mut found = (0_u64..).zip(bytes).filter(|(_, byte)| !sizes::is_blank(**byte));
    let other = |at| {
        Decoder::new("proof", at, &[]).corrupt(
            "JSON as it is written: members in their order, digits in their shortest form",
            "another form of the same meaning",
        )
    };
    writer::put(proof, &mut |expected| {
        for byte in expected {
            match found.next() {
                Some((_, found)) if found == byte => {}
                different => {
                    return Err(other(different.map_or(bytes.len() as u64, |(at, _)| at)));
                }
            }
        }
        Ok(())
    })?;
    found.next().map_or(Ok(()), |(at, _)| Err(other(at)))
}

/// Takes at most four times as much memory as `bytes` do, whatever they are: every list is made as long as
/// it will be.
pub(super) fn decode(bytes: &[u8]) -> Result<Proof> {
    let mut reader = Reader::new(bytes);
    let (mut version, mut before, mut after, mut state) = (None, None, None, None);
    reader.members(|reader, name| {
        match name {
            b"version" if version.is_none() => version = Some(version_of(reader)?),
            b"before" if before.is_none() => before = Some(kinded_of(reader)?),
            b"after" if after.is_none() => after = Some(kinded_of(reader)?),
            b"state" if state.is_none() => state = Some(state_of(reader)?),
            _ => return Err(reader.corrupt("version, before, after and state, each once")),
        }
        Ok(())
    })?;
    reader.end()?;
    match (version, before, after, state) {
        (Some(version), Some(before), Some(after), Some(state)) => {
            Ok(Proof { version, before, after, state })
        }
        _ => Err(reader.corrupt("version, before, after and state before the end")),
    }
}

fn version_of(reader: &mut Reader<'_>) -> Result<i16> {
    i16::try_from(reader.number()?).map_err(|_| reader.corrupt("a version of 16 bits before this"))
}

fn state_of(reader: &mut Reader<'_>) -> Result<State> {
    if reader.is_list() {
        return Ok(State::Stream(reader.list(element_of)?));
    }
    part_of(reader, 0).map(State::Tree)
}

fn hash_of(reader: &mut Reader<'_>) -> Result<Hash> {
    let digits = reader.text()?;
    let mut hash = [0; 32];
    if digits.len() != 2 * hash.len() {
        return Err(reader.corrupt("a hash of 64 digits before this"));
    }
    reader.hexadecimal(digits, |at, byte| hash[at] = byte)?;
    Ok(hash)
}

fn bytes_of(reader: &mut Reader<'_>) -> Result<Vec<u8>> {
    let digits = reader.text()?;
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    reader.hexadecimal(digits, |_, byte| bytes.push(byte))?;
    Ok(bytes)
}

fn kinded_of(reader: &mut Reader<'_>) -> Result<Kinded> {
    reader.pass(b'[')?;
    let kind = match reader.text()? {
        b"contents" | b"value" => Kind::Value,
        b"node" => Kind::Directory,
        _ => return Err(reader.corrupt("a kind, contents or node, before this")),
    };
    reader.pass(b',')?;
    let hash = hash_of(reader)?;
    reader.pass(b']')?;
    Ok(kinded(kind, hash))
}

fn length_of(reader: &mut Reader<'_>) -> Result<i64> {
    if !reader.is_text() {
        return reader.number();
    }
    let text = reader.text()?;
    let length = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    length.ok_or_else(|| reader.corrupt("a length before this"))
}

fn bucket_of(reader: &mut Reader<'_>) -> Result<u16> {
    u16::try_from(reader.number()?).map_err(|_| reader.corrupt("a bucket before this"))
}

/// `[first, second]`.
fn pair<A, B>(
    reader: &mut Reader<'_>,
    first: impl Fn(&mut Reader<'_>) -> Result<A>,
    second: impl Fn(&mut Reader<'_>) -> Result<B>,
) -> Result<(A, B)> {
    reader.pass(b'[')?;
    let first = first(reader)?;
    reader.pass(b',')?;
    let second = second(reader)?;
    reader.pass(b']')?;
    Ok((first, second))
}

fn entries_of(reader: &mut Reader<'_>, level: usize) -> Result<Entries> {
    reader.list(|reader| pair(reader, bytes_of, |reader| part_of(reader, level)))
}

fn inode_of<C>(
    reader: &mut Reader<'_>,
    child: impl Fn(&mut Reader<'_>) -> Result<C>,
) -> Result<Inode<C>> {
    let (mut length, mut children) = (None, None);
    reader.members(|reader, name| {
        match name {
            b"length" if length.is_none() => length = Some(length_of(reader)?),
            b"proofs" if children.is_none() => {
                children = Some(reader.list(|reader| pair(reader, bucket_of, &child))?);
            }
            _ => return Err(reader.corrupt("length and proofs, each once")),
        }
        Ok(())
    })?;
    match (length, children) {
        (Some(length), Some(children)) => Ok(Inode { length, children }),
        _ => Err(reader.corrupt("length and proofs before this")),
    }
}

fn extender_of<C>(
    reader: &mut Reader<'_>,
    read_child: impl Fn(&mut Reader<'_>) -> Result<C>,
) -> Result<Extender<C>> {
    let (mut length, mut segment, mut child) = (None, None, None);
    reader.members(|reader, name| {
        match name {
            b"length" if length.is_none() => length = Some(length_of(reader)?),
            b"segments" if segment.is_none() => segment = Some(reader.list(bucket_of)?),
            b"proof" if child.is_none() => child = Some(Box::new(read_child(reader)?)),
            _ => return Err(reader.corrupt("length, segments and proof, each once")),
        }
        Ok(())
    })?;
    match (length, segment, child) {
        (Some(length), Some(segment), Some(child)) => Ok(Extender { length, segment, child }),
        _ => Err(reader.corrupt("length, segments and proof before this")),
    }
}

/// One level deeper; what is too deep for the other encodings is for this one.
fn deeper(reader: &Reader<'_>, level: usize) -> Result<usize> {
    writing_deeper(level).map_err(|_| reader.corrupt("fewer levels"))
}

fn part_of(reader: &mut Reader<'_>, level: usize) -> Result<Part> {
    let level = deeper(reader, level)?;
    let kind = reader.only()?;
    let part = match kind {
        b"contents" => Part::Value(bytes_of(reader)?),
        b"blinded_contents" => Part::BlindedValue(hash_of(reader)?.into()),
        b"node" => Part::Node(entries_of(reader, level)?),
        b"blinded_node" => Part::BlindedNode(hash_of(reader)?.into()),
        b"inode" => Part::Inode(inode_of(reader, |reader| piece_of(reader, level))?),
        b"extender" => Part::Extender(extender_of(reader, |reader| piece_of(reader, level))?),
        _ => return Err(reader.corrupt("the kind of a part before this")),
    };
    reader.pass(b'}')?;
    Ok(part)
}

fn piece_of(reader: &mut Reader<'_>, level: usize) -> Result<Piece> {
    let level = deeper(reader, level)?;
    let kind = reader.only()?;
    let piece = match kind {
        b"blinded_inode" => Piece::Blinded(hash_of(reader)?),
        b"inode_values" => Piece::Values(entries_of(reader, level)?),
        b"inode_tree" => Piece::Inode(inode_of(reader, |reader| piece_of(reader, level))?),
        b"inode_extender" => {
            Piece::Extender(extender_of(reader, |reader| piece_of(reader, level))?)
        }
        _ => return Err(reader.corrupt("the kind of a piece before this")),
    };
    reader.pass(b'}')?;
    Ok(piece)
}

fn element_of(reader: &mut Reader<'_>) -> Result<Element> {
    let kind = reader.only()?;
    let element = match kind {
        b"contents" => Element::Value(bytes_of(reader)?),
        b"node" => Element::Node(reader.list(|reader| pair(reader, bytes_of, kinded_of))?),
        b"inode" => Element::Inode(inode_of(reader, hash_of)?),
        b"inode_extender" => Element::Extender(extender_of(reader, hash_of)?),
        _ => return Err(reader.corrupt("the kind of an element before this")),
    };
    reader.pass(b'}')?;
    Ok(element)
}

fn cannot_decode(offset: u64, expected: &str, found: &str) -> Error {
    Decoder::new("proof", offset, &[]).corrupt(expected, found)
}

//! Irmin's own binary form of a tree proof: kinds, counts and lengths as LEB128, no version.

use super::{deeper, finished, hash_of, kind_byte, kind_of, kinded, tree_of, writing_deeper};
use crate::context::hash::Hash;
use crate::context::preimage::put_varint;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;
use crate::proof::shape::{Entries, Extender, Inode, Kinded, Part, Piece, Proof, State};

pub(super) fn encode(proof: &Proof) -> Result<Vec<u8>> {
    let part = tree_of(proof)
        .ok_or_else(|| Error::invalid("Irmin's encoding has no streams: choose V1, V2 or JSON"))?;
    let mut out = Vec::new();
    put_kinded(&mut out, &proof.before);
    put_kinded(&mut out, &proof.after);
    put_part(&mut out, part, 0)?;
    Ok(out)
}

fn put_kinded(out: &mut Vec<u8>, kinded: &Kinded) {
    put_hash(out, kind_byte(kinded.kind), &kinded.hash);
}

fn put_hash(out: &mut Vec<u8>, tag: u8, hash: &Hash) {
    out.push(tag);
    out.extend_from_slice(hash);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_length(out: &mut Vec<u8>, length: i64) -> Result<()> {
    let length = u64::try_from(length)
        .map_err(|_| Error::invalid(format!("a length of {length} cannot be encoded")))?;
    put_varint(out, length);
    Ok(())
}

fn put_entries(out: &mut Vec<u8>, entries: &Entries, level: usize) -> Result<()> {
    put_varint(out, entries.len() as u64);
    entries.iter().try_for_each(|(step, part)| {
        put_bytes(out, step);
        put_part(out, part, level)
    })
}

fn put_inode(out: &mut Vec<u8>, inode: &Inode<Piece>, level: usize) -> Result<()> {
    put_length(out, inode.length)?;
    put_varint(out, inode.children.len() as u64);
    inode.children.iter().try_for_each(|(index, piece)| {
        put_varint(out, u64::from(*index));
        put_piece(out, piece, level)
    })
}

fn put_extender(out: &mut Vec<u8>, extender: &Extender<Piece>, level: usize) -> Result<()> {
    put_length(out, extender.length)?;
    put_varint(out, extender.segment.len() as u64);
    for bucket in &extender.segment {
        put_varint(out, u64::from(*bucket));
    }
    put_piece(out, &extender.child, level)
}

fn put_part(out: &mut Vec<u8>, part: &Part, level: usize) -> Result<()> {
    let level = writing_deeper(level)?;
    match part {
        Part::Value(value) => {
            out.push(0);
            put_bytes(out, value);
            Ok(())
        }
        Part::BlindedValue(hash) => {
            put_hash(out, 1, hash);
            Ok(())
        }
        Part::Node(entries) => {
            out.push(2);
            put_entries(out, entries, level)
        }
        Part::BlindedNode(hash) => {
            put_hash(out, 3, hash);
            Ok(())
        }
        Part::Inode(inode) => {
            out.push(4);
            put_inode(out, inode, level)
        }
        Part::Extender(extender) => {
            out.push(5);
            put_extender(out, extender, level)
        }
    }
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece, level: usize) -> Result<()> {
    let level = writing_deeper(level)?;
    match piece {
        Piece::Blinded(hash) => {
            put_hash(out, 0, hash);
            Ok(())
        }
        Piece::Values(entries) => {
            out.push(1);
            put_entries(out, entries, level)
        }
        Piece::Inode(inode) => {
            out.push(2);
            put_inode(out, inode, level)
        }
        Piece::Extender(extender) => {
            out.push(3);
            put_extender(out, extender, level)
        }
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<Proof> {
    let reader = &mut Decoder::new("proof", 0, bytes);
    let (before, after) = (kinded_of(reader)?, kinded_of(reader)?);
    let part = part_of(reader, 0)?;
    finished(reader)?;
    // Varints are read in their shortest form only, so this is the one encoding of what was read.
    Ok(Proof { version: 0, before, after, state: State::Tree(part) })
}

fn kinded_of(reader: &mut Decoder<'_>) -> Result<Kinded> {
    let tag = reader.u8()?;
    let kind = kind_of(reader, tag)?;
    Ok(kinded(kind, hash_of(reader)?))
}

fn bytes_of(reader: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let length = reader.varint()?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    reader.raw(length).map(<[u8]>::to_vec)
}

fn length_of(reader: &mut Decoder<'_>) -> Result<i64> {
    let length = reader.varint()?;
    i64::try_from(length)
        .ok()
        .filter(|length| super::LENGTHS.contains(length))
        .ok_or_else(|| reader.corrupt("a length of at most 2^62 - 1", length))
}

fn bucket_of(reader: &mut Decoder<'_>) -> Result<u16> {
    let bucket = reader.varint()?;
    u16::try_from(bucket).map_err(|_| reader.corrupt("a bucket", bucket))
}

/// As many as are stated, and never more room than the bytes that are there can fill.
fn list_of<T>(
    reader: &mut Decoder<'_>,
    item: impl Fn(&mut Decoder<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = reader.varint()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(item(reader)?);
    }
    Ok(items)
}

fn entries_of(reader: &mut Decoder<'_>, level: usize) -> Result<Entries> {
    list_of(reader, |reader| Ok((bytes_of(reader)?, part_of(reader, level)?)))
}

fn inode_of(reader: &mut Decoder<'_>, level: usize) -> Result<Inode<Piece>> {
    let length = length_of(reader)?;
    let children = list_of(reader, |reader| Ok((bucket_of(reader)?, piece_of(reader, level)?)))?;
    Ok(Inode { length, children })
}

fn extender_of(reader: &mut Decoder<'_>, level: usize) -> Result<Extender<Piece>> {
    let length = length_of(reader)?;
    let segment = list_of(reader, bucket_of)?;
    Ok(Extender { length, segment, child: Box::new(piece_of(reader, level)?) })
}

fn part_of(reader: &mut Decoder<'_>, level: usize) -> Result<Part> {
    let level = deeper(reader, level)?;
    Ok(match reader.u8()? {
        0 => Part::Value(bytes_of(reader)?),
        1 => Part::BlindedValue(hash_of(reader)?.into()),
        2 => Part::Node(entries_of(reader, level)?),
        3 => Part::BlindedNode(hash_of(reader)?.into()),
        4 => Part::Inode(inode_of(reader, level)?),
        5 => Part::Extender(extender_of(reader, level)?),
        other => return Err(reader.corrupt("a part of kind 0 to 5", other)),
    })
}

fn piece_of(reader: &mut Decoder<'_>, level: usize) -> Result<Piece> {
    let level = deeper(reader, level)?;
    Ok(match reader.u8()? {
        0 => Piece::Blinded(hash_of(reader)?),
        1 => Piece::Values(entries_of(reader, level)?),
        2 => Piece::Inode(inode_of(reader, level)?),
        3 => Piece::Extender(extender_of(reader, level)?),
        other => return Err(reader.corrupt("a piece of kind 0 to 3", other)),
    })
}

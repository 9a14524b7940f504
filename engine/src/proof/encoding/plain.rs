//! V1: a kind byte before everything, every integer and list size at full width, big-endian.

use super::{
    DENSE, deeper, finished, hash_of, integer, kind_byte, kind_of, kinded, length_of, put_length,
    put_sized, put_step, segment, sized, state_of, step_of, writing_deeper,
};
use crate::context::hash::Hash;
use crate::error::Result;
use crate::format::codec::Decoder;
use crate::proof::shape::{Element, Entries, Extender, Inode, Kinded, Part, Piece, Proof, State};

pub(super) fn encode(proof: &Proof, binary: bool) -> Result<Vec<u8>> {
    let mut out = proof.version.to_be_bytes().to_vec();
    put_kinded(&mut out, &proof.before);
    put_kinded(&mut out, &proof.after);
    match &proof.state {
        State::Tree(part) => put_part(&mut out, part, binary, 0)?,
        State::Stream(elements) => put_sized(&mut out, |out| {
            elements.iter().try_for_each(|element| put_element(out, element, binary))
        })?,
    }
    Ok(out)
}

fn put_kinded(out: &mut Vec<u8>, kinded: &Kinded) {
    out.push(kind_byte(kinded.kind));
    out.extend_from_slice(kinded.hash.as_ref());
}

fn put_hash(out: &mut Vec<u8>, tag: u8, hash: &Hash) {
    out.push(tag);
    out.extend_from_slice(hash);
}

fn put_value(out: &mut Vec<u8>, value: &[u8]) -> Result<()> {
    out.push(0);
    put_sized(out, |out| {
        out.extend_from_slice(value);
        Ok(())
    })
}

fn put_entries(out: &mut Vec<u8>, entries: &Entries, binary: bool, level: usize) -> Result<()> {
    put_sized(out, |out| {
        entries.iter().try_for_each(|(step, part)| {
            put_step(out, step)?;
            put_part(out, part, binary, level)
        })
    })
}

fn put_part(out: &mut Vec<u8>, part: &Part, binary: bool, level: usize) -> Result<()> {
    let level = writing_deeper(level)?;
    match part {
        Part::Value(value) => put_value(out, value)?,
        Part::BlindedValue(hash) => put_hash(out, 1, hash),
        Part::Node(entries) => {
            out.push(2);
            put_entries(out, entries, binary, level)?;
        }
        Part::BlindedNode(hash) => put_hash(out, 3, hash),
        Part::Inode(inode) => {
            out.push(4);
            put_inode(out, inode, binary, 4, |out, piece| put_piece(out, piece, binary, level))?;
        }
        Part::Extender(extender) => {
            out.push(5);
            put_extender(out, extender, binary)?;
            put_piece(out, &extender.child, binary, level)?;
        }
    }
    Ok(())
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece, binary: bool, level: usize) -> Result<()> {
    let level = writing_deeper(level)?;
    match piece {
        Piece::Blinded(hash) => put_hash(out, 0, hash),
        Piece::Values(entries) => {
            out.push(1);
            put_entries(out, entries, binary, level)?;
        }
        Piece::Inode(inode) => {
            out.push(2);
            put_inode(out, inode, binary, 4, |out, piece| put_piece(out, piece, binary, level))?;
        }
        Piece::Extender(extender) => {
            out.push(3);
            put_extender(out, extender, binary)?;
            put_piece(out, &extender.child, binary, level)?;
        }
    }
    Ok(())
}

fn put_extender<C>(out: &mut Vec<u8>, extender: &Extender<C>, binary: bool) -> Result<()> {
    put_length(out, extender.length)?;
    segment::put(out, &extender.segment, binary)
}

/// `none` is what stands at the place of an empty bucket.
fn put_inode<C>(
    out: &mut Vec<u8>,
    inode: &Inode<C>,
    binary: bool,
    none: u8,
    put: impl Fn(&mut Vec<u8>, &C) -> Result<()>,
) -> Result<()> {
    put_length(out, inode.length)?;
    if !binary && inode.children.len() < DENSE {
        out.push(0);
        return put_sized(out, |out| super::put_sparse(out, &inode.children, put));
    }
    if binary {
        super::not_empty(&inode.children)?;
    } else {
        out.push(1);
    }
    super::put_dense(out, &inode.children, if binary { 2 } else { 32 }, none, put)
}

fn put_element(out: &mut Vec<u8>, element: &Element, binary: bool) -> Result<()> {
    match element {
        Element::Value(value) => put_value(out, value)?,
        Element::Node(entries) => {
            out.push(1);
            put_sized(out, |out| {
                entries.iter().try_for_each(|(step, kinded)| {
                    put_step(out, step)?;
                    put_kinded(out, kinded);
                    Ok(())
                })
            })?;
        }
        Element::Inode(inode) => {
            out.push(2);
            put_inode(out, inode, binary, 0, |out, hash| {
                put_hash(out, 1, hash);
                Ok(())
            })?;
        }
        Element::Extender(extender) => {
            out.push(3);
            put_extender(out, extender, binary)?;
            out.extend_from_slice(&*extender.child);
        }
    }
    Ok(())
}

pub(super) fn decode(bytes: &[u8], binary: bool, stream: bool) -> Result<Proof> {
    let reader = &mut Decoder::new("proof", 0, bytes);
    let version = integer(reader, 2)? as i16;
    let (before, after) = (kinded_of(reader)?, kinded_of(reader)?);
    let part = |reader: &mut Decoder<'_>| part_of(reader, binary, 0);
    let state = state_of(reader, stream, part, |reader| element_of(reader, binary))?;
    finished(reader)?;
    Ok(Proof { version, before, after, state })
}

fn kinded_of(reader: &mut Decoder<'_>) -> Result<Kinded> {
    let tag = reader.u8()?;
    let kind = kind_of(reader, tag)?;
    Ok(kinded(kind, hash_of(reader)?))
}

fn value_of(reader: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let mut value = sized(reader)?;
    value.raw(value.remaining()).map(<[u8]>::to_vec)
}

fn entries_of(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Entries> {
    let mut list = sized(reader)?;
    let mut entries = Vec::new();
    while list.remaining() > 0 {
        entries.push((step_of(&mut list)?, part_of(&mut list, binary, level)?));
    }
    Ok(entries)
}

fn part_of(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Part> {
    let level = deeper(reader, level)?;
    Ok(match reader.u8()? {
        0 => Part::Value(value_of(reader)?),
        1 => Part::BlindedValue(hash_of(reader)?.into()),
        2 => Part::Node(entries_of(reader, binary, level)?),
        3 => Part::BlindedNode(hash_of(reader)?.into()),
        4 => Part::Inode(pieces_of(reader, binary, level)?),
        5 => Part::Extender(extender_of(reader, binary, |reader| piece_of(reader, binary, level))?),
        other => return Err(reader.corrupt("a part of kind 0 to 5", other)),
    })
}

fn piece_of(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Piece> {
    optional_piece(reader, binary, level)?.ok_or_else(|| reader.corrupt("a piece", "none"))
}

fn optional_piece(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Option<Piece>> {
    let level = deeper(reader, level)?;
    Ok(Some(match reader.u8()? {
        0 => Piece::Blinded(hash_of(reader)?),
        1 => Piece::Values(entries_of(reader, binary, level)?),
        2 => Piece::Inode(pieces_of(reader, binary, level)?),
        3 => {
            Piece::Extender(extender_of(reader, binary, |reader| piece_of(reader, binary, level))?)
        }
        4 => return Ok(None),
        other => return Err(reader.corrupt("a piece of kind 0 to 4", other)),
    }))
}

fn pieces_of(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Inode<Piece>> {
    inode_of(reader, binary, |reader| optional_piece(reader, binary, level))
}

fn inode_of<C>(
    reader: &mut Decoder<'_>,
    binary: bool,
    child: impl Fn(&mut Decoder<'_>) -> Result<Option<C>>,
) -> Result<Inode<C>> {
    let length = length_of(reader)?;
    let mut children = Vec::new();
    let dense = binary
        || match reader.u8()? {
            0 => false,
            1 => true,
            other => return Err(reader.corrupt("buckets of form 0 or 1", other)),
        };
    if dense {
        for index in 0..if binary { 2 } else { 32 } {
            if let Some(child) = child(reader)? {
                children.push((index, child));
            }
        }
    } else {
        let mut list = sized(reader)?;
        while list.remaining() > 0 {
            let index = u16::from(list.u8()?);
            let child = child(&mut list)?.ok_or_else(|| list.corrupt("a child", "none"))?;
            children.push((index, child));
        }
    }
    Ok(Inode { length, children })
}

fn extender_of<C>(
    reader: &mut Decoder<'_>,
    binary: bool,
    child: impl FnOnce(&mut Decoder<'_>) -> Result<C>,
) -> Result<Extender<C>> {
    let length = length_of(reader)?;
    let segment = segment::read(reader, binary)?;
    Ok(Extender { length, segment, child: Box::new(child(reader)?) })
}

fn element_of(reader: &mut Decoder<'_>, binary: bool) -> Result<Element> {
    Ok(match reader.u8()? {
        0 => Element::Value(value_of(reader)?),
        1 => {
            let mut list = sized(reader)?;
            let mut entries = Vec::new();
            while list.remaining() > 0 {
                entries.push((step_of(&mut list)?, kinded_of(&mut list)?));
            }
            Element::Node(entries)
        }
        2 => Element::Inode(inode_of(reader, binary, optional_hash)?),
        3 => Element::Extender(extender_of(reader, binary, hash_of)?),
        other => return Err(reader.corrupt("an element of kind 0 to 3", other)),
    })
}

fn optional_hash(reader: &mut Decoder<'_>) -> Result<Option<Hash>> {
    match reader.u8()? {
        0 => Ok(None),
        1 => hash_of(reader).map(Some),
        other => Err(reader.corrupt("0 for no child or 1 for one", other)),
    }
}

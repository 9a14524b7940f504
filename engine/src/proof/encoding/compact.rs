//! V2: one byte tells kind, count and width of what follows; integers as short as they can be.

use super::{
    DENSE_COMPACT, deeper, finished, hash_of, integer, kind_byte, kind_of, kinded, length_of,
    placed, put_length, put_sized, put_step, segment, sized, state_of, step_of, writing_deeper,
};
use crate::context::hash::Hash;
use crate::error::Result;
use crate::format::codec::Decoder;
use crate::proof::shape::{Element, Entries, Extender, Inode, Part, Piece, Proof, State};

/// Count bits of an inode of 32 buckets: all places follow.
const ALL: u8 = 16;

pub(super) fn encode(proof: &Proof, binary: bool) -> Result<Vec<u8>> {
    let mut out = vec![kind_byte(proof.before.kind) | kind_byte(proof.after.kind) << 1];
    out.extend_from_slice(&proof.version.to_be_bytes());
    out.extend_from_slice(proof.before.hash.as_ref());
    out.extend_from_slice(proof.after.hash.as_ref());
    match &proof.state {
        State::Tree(part) => put_part(&mut out, part, binary, 0)?,
        State::Stream(elements) => put_sized(&mut out, |out| {
            elements.iter().try_for_each(|element| put_element(out, element, binary))
        })?,
    }
    Ok(out)
}

fn put_hash(out: &mut Vec<u8>, tag: u8, hash: &Hash) {
    out.push(tag);
    out.extend_from_slice(hash);
}

/// The two bits of a length, and its bytes.
fn short_length(length: i64) -> Result<(u8, Vec<u8>)> {
    let mut wide = Vec::new();
    put_length(&mut wide, length)?;
    Ok(match length {
        0..0x100 => (0, wide[7..].to_vec()),
        0x100..0x1_0000 => (1, wide[6..].to_vec()),
        0x1_0000..0x1_0000_0000 => (2, wide[4..].to_vec()),
        _ => (3, wide),
    })
}

fn put_value(out: &mut Vec<u8>, value: &[u8]) -> Result<()> {
    let length = value.len() as u32;
    match value.len() {
        0..0x100 => out.extend_from_slice(&[0xc0, length as u8]),
        0x100..0x1_0000 => {
            out.push(0xc1);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            out.push(0xc3);
            return put_sized(out, |out| {
                out.extend_from_slice(value);
                Ok(())
            });
        }
    }
    out.extend_from_slice(value);
    Ok(())
}

/// A count of up to 62, or of up to 2, in the byte itself; a longer list has its size instead.
fn put_list<T>(
    out: &mut Vec<u8>,
    list: &[T],
    binary: bool,
    put: impl Fn(&mut Vec<u8>, &T) -> Result<()>,
) -> Result<()> {
    let most = if binary { 3 } else { 63 };
    if list.len() < most {
        out.push(0x80 | list.len() as u8);
        return list.iter().try_for_each(|item| put(out, item));
    }
    out.push(0x80 | most as u8);
    put_sized(out, |out| list.iter().try_for_each(|item| put(out, item)))
}

fn put_entries(out: &mut Vec<u8>, entries: &Entries, binary: bool, level: usize) -> Result<()> {
    put_list(out, entries, binary, |out, (step, part)| {
        put_step(out, step)?;
        put_part(out, part, binary, level)
    })
}

fn put_part(out: &mut Vec<u8>, part: &Part, binary: bool, level: usize) -> Result<()> {
    let level = writing_deeper(level)?;
    match part {
        Part::Value(value) => put_value(out, value)?,
        Part::BlindedValue(hash) => put_hash(out, 0xc8, hash),
        Part::Node(entries) => put_entries(out, entries, binary, level)?,
        Part::BlindedNode(hash) => put_hash(out, 0xd0, hash),
        Part::Inode(inode) => put_pieces(out, inode, binary, level)?,
        Part::Extender(extender) => {
            put_extender(out, 0xd8, extender, binary)?;
            put_piece(out, &extender.child, binary, level)?;
        }
    }
    Ok(())
}

fn put_piece(out: &mut Vec<u8>, piece: &Piece, binary: bool, level: usize) -> Result<()> {
    let level = writing_deeper(level)?;
    match piece {
        Piece::Blinded(hash) => put_hash(out, 0xc0, hash),
        Piece::Values(entries) => put_entries(out, entries, binary, level)?,
        Piece::Inode(inode) => put_pieces(out, inode, binary, level)?,
        Piece::Extender(extender) => {
            put_extender(out, 0xd0, extender, binary)?;
            put_piece(out, &extender.child, binary, level)?;
        }
    }
    Ok(())
}

fn put_extender<C>(out: &mut Vec<u8>, tag: u8, extender: &Extender<C>, binary: bool) -> Result<()> {
    let (class, length) = short_length(extender.length)?;
    out.push(tag | class);
    out.extend_from_slice(&length);
    segment::put(out, &extender.segment, binary)
}

fn put_pieces(out: &mut Vec<u8>, inode: &Inode<Piece>, binary: bool, level: usize) -> Result<()> {
    let put = |out: &mut Vec<u8>, piece: &Piece| put_piece(out, piece, binary, level);
    if !binary {
        return put_wide_inode(out, inode, 0xe0, put);
    }
    let (class, length) = short_length(inode.length)?;
    super::not_empty(&inode.children)?;
    out.push(class);
    out.extend_from_slice(&length);
    super::put_dense(out, &inode.children, 2, 0xe0, put)
}

/// An inode of 32 buckets.
fn put_wide_inode<C>(
    out: &mut Vec<u8>,
    inode: &Inode<C>,
    none: u8,
    put: impl Fn(&mut Vec<u8>, &C) -> Result<()>,
) -> Result<()> {
    let (class, length) = short_length(inode.length)?;
    if inode.children.len() < DENSE_COMPACT {
        out.push((inode.children.len() as u8) << 2 | class);
        out.extend_from_slice(&length);
        return super::put_sparse(out, &inode.children, put);
    }
    out.push(ALL << 2 | class);
    out.extend_from_slice(&length);
    super::put_dense(out, &inode.children, 32, none, put)
}

fn put_element(out: &mut Vec<u8>, element: &Element, binary: bool) -> Result<()> {
    match element {
        Element::Value(value) => put_value(out, value)?,
        Element::Node(entries) => put_list(out, entries, binary, |out, (step, kinded)| {
            put_step(out, step)?;
            put_hash(out, kind_byte(kinded.kind), &kinded.hash);
            Ok(())
        })?,
        Element::Inode(inode) if binary => {
            let (class, length) = short_length(inode.length)?;
            super::not_empty(&inode.children)?;
            let places = placed(&inode.children, 2)?;
            let present = u8::from(places[0].is_some()) << 2 | u8::from(places[1].is_some()) << 3;
            out.push(present | class);
            out.extend_from_slice(&length);
            for hash in places.into_iter().flatten() {
                out.extend_from_slice(hash);
            }
        }
        Element::Inode(inode) => put_wide_inode(out, inode, 0, |out, hash| {
            put_hash(out, 1, hash);
            Ok(())
        })?,
        Element::Extender(extender) => {
            put_extender(out, 0xe0, extender, binary)?;
            out.extend_from_slice(&*extender.child);
        }
    }
    Ok(())
}

pub(super) fn decode(bytes: &[u8], binary: bool, stream: bool) -> Result<Proof> {
    let reader = &mut Decoder::new("proof", 0, bytes);
    let kinds = reader.u8()?;
    if kinds > 3 {
        return Err(reader.corrupt("two kinds in two bits", kinds));
    }
    let version = integer(reader, 2)? as i16;
    let before = kinded(kind_of(reader, kinds & 1)?, hash_of(reader)?);
    let after = kinded(kind_of(reader, kinds >> 1)?, hash_of(reader)?);
    let part = |reader: &mut Decoder<'_>| part_of(reader, binary, 0);
    let state = state_of(reader, stream, part, |reader| element_of(reader, binary))?;
    finished(reader)?;
    Ok(Proof { version, before, after, state })
}

fn short_length_of(reader: &mut Decoder<'_>, tag: u8) -> Result<i64> {
    Ok(match tag & 3 {
        0 => integer(reader, 1)? as i64,
        1 => integer(reader, 2)? as i64,
        2 => integer(reader, 4)? as i64,
        _ => length_of(reader)?,
    })
}

fn value_of(reader: &mut Decoder<'_>, tag: u8) -> Result<Vec<u8>> {
    let length = match tag & 3 {
        0 => integer(reader, 1)?,
        1 => integer(reader, 2)?,
        3 => integer(reader, 4)?,
        _ => return Err(reader.corrupt("a value's length of 1, 2 or 4 bytes", tag)),
    };
    reader.raw(length as usize).map(<[u8]>::to_vec)
}

fn list_of<T>(
    reader: &mut Decoder<'_>,
    tag: u8,
    binary: bool,
    item: impl Fn(&mut Decoder<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    let (count, most) = (tag & 0x3f, if binary { 3 } else { 63 });
    if count > most {
        return Err(reader.corrupt(format_args!("a count of up to {most}"), count));
    }
    let mut items = Vec::new();
    if count < most {
        for _ in 0..count {
            items.push(item(reader)?);
        }
    } else {
        let mut list = sized(reader)?;
        while list.remaining() > 0 {
            items.push(item(&mut list)?);
        }
    }
    Ok(items)
}

fn entries_of(reader: &mut Decoder<'_>, tag: u8, binary: bool, level: usize) -> Result<Entries> {
    list_of(reader, tag, binary, |reader| Ok((step_of(reader)?, part_of(reader, binary, level)?)))
}

fn part_of(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Part> {
    let level = deeper(reader, level)?;
    Ok(match reader.u8()? {
        tag @ 0..0x80 => Part::Inode(pieces_of(reader, tag, binary, level)?),
        tag @ 0x80..0xc0 => Part::Node(entries_of(reader, tag, binary, level)?),
        tag @ 0xc0..0xc4 => Part::Value(value_of(reader, tag)?),
        0xc8 => Part::BlindedValue(hash_of(reader)?.into()),
        0xd0 => Part::BlindedNode(hash_of(reader)?.into()),
        tag @ 0xd8..0xdc => Part::Extender(extender_of(reader, tag, binary, |reader| {
            piece_of(reader, binary, level)
        })?),
        other => return Err(reader.corrupt("the tag of a part", other)),
    })
}

fn piece_of(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Piece> {
    optional_piece(reader, binary, level)?.ok_or_else(|| reader.corrupt("a piece", "none"))
}

fn optional_piece(reader: &mut Decoder<'_>, binary: bool, level: usize) -> Result<Option<Piece>> {
    let level = deeper(reader, level)?;
    Ok(Some(match reader.u8()? {
        tag @ 0..0x80 => Piece::Inode(pieces_of(reader, tag, binary, level)?),
        tag @ 0x80..0xc0 => Piece::Values(entries_of(reader, tag, binary, level)?),
        0xc0 => Piece::Blinded(hash_of(reader)?),
        tag @ 0xd0..0xd4 => Piece::Extender(extender_of(reader, tag, binary, |reader| {
            piece_of(reader, binary, level)
        })?),
        0xe0 => return Ok(None),
        other => return Err(reader.corrupt("the tag of a piece", other)),
    }))
}

fn pieces_of(
    reader: &mut Decoder<'_>,
    tag: u8,
    binary: bool,
    level: usize,
) -> Result<Inode<Piece>> {
    let child = |reader: &mut Decoder<'_>| optional_piece(reader, binary, level);
    if !binary {
        return wide_inode_of(reader, tag, child);
    }
    if tag > 3 {
        return Err(reader.corrupt("the tag of an inode of two buckets", tag));
    }
    let length = short_length_of(reader, tag)?;
    let mut children = Vec::new();
    for index in 0..2 {
        if let Some(piece) = child(reader)? {
            children.push((index, piece));
        }
    }
    Ok(Inode { length, children })
}

fn wide_inode_of<C>(
    reader: &mut Decoder<'_>,
    tag: u8,
    child: impl Fn(&mut Decoder<'_>) -> Result<Option<C>>,
) -> Result<Inode<C>> {
    let length = short_length_of(reader, tag)?;
    let mut children = Vec::new();
    let count = tag >> 2;
    if count == ALL {
        for index in 0..32 {
            if let Some(child) = child(reader)? {
                children.push((index, child));
            }
        }
    } else if usize::from(count) < DENSE_COMPACT {
        for _ in 0..count {
            let index = u16::from(reader.u8()?);
            let child = child(reader)?.ok_or_else(|| reader.corrupt("a child", "none"))?;
            children.push((index, child));
        }
    } else {
        return Err(reader.corrupt("a count of up to 14 children, or 16 for all", count));
    }
    Ok(Inode { length, children })
}

fn extender_of<C>(
    reader: &mut Decoder<'_>,
    tag: u8,
    binary: bool,
    child: impl FnOnce(&mut Decoder<'_>) -> Result<C>,
) -> Result<Extender<C>> {
    let length = short_length_of(reader, tag)?;
    let segment = segment::read(reader, binary)?;
    Ok(Extender { length, segment, child: Box::new(child(reader)?) })
}

fn element_of(reader: &mut Decoder<'_>, binary: bool) -> Result<Element> {
    Ok(match reader.u8()? {
        tag @ 0..0x80 if binary => {
            if tag > 15 {
                return Err(reader.corrupt("the tag of an inode of two buckets", tag));
            }
            let length = short_length_of(reader, tag)?;
            let mut children = Vec::new();
            for index in (0..2).filter(|index| tag >> (2 + index) & 1 == 1) {
                children.push((index, hash_of(reader)?));
            }
            Element::Inode(Inode { length, children })
        }
        tag @ 0..0x80 => {
            Element::Inode(wide_inode_of(reader, tag, |reader| match reader.u8()? {
                0 => Ok(None),
                1 => hash_of(reader).map(Some),
                other => Err(reader.corrupt("0 for no child or 1 for one", other)),
            })?)
        }
        tag @ 0x80..0xc0 => Element::Node(list_of(reader, tag, binary, |reader| {
            let step = step_of(reader)?;
            let kind = reader.u8()?;
            Ok((step, kinded(kind_of(reader, kind)?, hash_of(reader)?)))
        })?),
        tag @ 0xc0..0xc4 => Element::Value(value_of(reader, tag)?),
        tag @ 0xe0..0xe4 => Element::Extender(extender_of(reader, tag, binary, hash_of)?),
        other => return Err(reader.corrupt("the tag of an element", other)),
    })
}

//! One object in a pack file of Irmin: hash, kind, body.
//!
//! Bytes in, structures out; where references lead and what names are is left to the caller.
//! Format document: `docs/format/irmin-pack.md`.

use super::bytes;
use super::schema::Schema;
use crate::context::hash::Hash;
use crate::context::preimage::{put_u64, put_varint};
use crate::error::Result;
use crate::format::codec::Decoder;

/// The most bytes that an entry whose length is not written is looked for in.
pub(crate) const UNSIZED_MAX: u64 = 16 << 20;

/// The most bytes that a length takes.
pub(crate) const LENGTH_MAX: usize = 9;

/// What an entry is, by its letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum EntryKind {
    Contents = b'B',
    /// A commit of version 1: hashes instead of offsets, no length.
    CommitOld = b'C',
    Commit = b'D',
    /// A commit of which only the hash is still wanted: a parent of the oldest that is left.
    CommitGone = b'P',
    /// A piece of a directory above the flat limit, of version 1.
    PieceOld = b'I',
    /// A directory up to the flat limit, of version 1.
    FlatOld = b'N',
    Root = b'R',
    Piece = b'O',
}

impl EntryKind {
    pub(crate) fn of(letter: u8) -> Option<EntryKind> {
        Some(match letter {
            b'B' => EntryKind::Contents,
            b'C' => EntryKind::CommitOld,
            b'D' => EntryKind::Commit,
            b'P' => EntryKind::CommitGone,
            b'I' => EntryKind::PieceOld,
            b'N' => EntryKind::FlatOld,
            b'R' => EntryKind::Root,
            b'O' => EntryKind::Piece,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            EntryKind::Contents => "contents",
            EntryKind::CommitOld => "commit (version 1)",
            EntryKind::Commit => "commit",
            EntryKind::CommitGone => "collected commit",
            EntryKind::PieceOld => "inode (version 1)",
            EntryKind::FlatOld => "flat inode (version 1)",
            EntryKind::Root => "root inode",
            EntryKind::Piece => "inode",
        }
    }

    /// Whether the length of the body is written before it.
    pub(crate) fn is_sized(self) -> bool {
        !matches!(self, EntryKind::CommitOld | EntryKind::PieceOld | EntryKind::FlatOld)
    }

    pub(crate) fn is_commit(self) -> bool {
        matches!(self, EntryKind::CommitOld | EntryKind::Commit)
    }

    pub(crate) fn is_directory(self) -> bool {
        use EntryKind::{FlatOld, Piece, PieceOld, Root};
        matches!(self, PieceOld | FlatOld | Root | Piece)
    }
}

/// What an entry begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) hash: Hash,
    pub(crate) kind: EntryKind,
    /// Where its body begins, from the entry's first byte.
    pub(crate) body: usize,
    /// Bytes of the whole entry, if they are written.
    pub(crate) length: Option<u64>,
}

impl Head {
    /// Bytes that hold every head.
    pub(crate) fn bytes_max(schema: Schema) -> usize {
        schema.hash_bytes() + 1 + LENGTH_MAX
    }

    /// Reads the head of the entry that `bytes` begin with, at byte `place` of `file`.
    pub(crate) fn decode(schema: Schema, file: &str, place: u64, bytes: &[u8]) -> Result<Head> {
        let mut decoder = Decoder::new(file, place, bytes);
        let hash = schema.hash(decoder.raw(schema.hash_bytes())?);
        let start = decoder.clone();
        let letter = decoder.u8()?;
        let kind = EntryKind::of(letter)
            .ok_or_else(|| start.corrupt("the letter of a kind of entry", letter))?;
        let mut length = None;
        if kind.is_sized() {
            let start = decoder.clone();
            let body = decoder.varint()?;
            let head = (bytes.len() - decoder.remaining()) as u64;
            let total = body.checked_add(head).filter(|total| total >> 62 == 0);
            length = Some(total.ok_or_else(|| start.corrupt("a length below 2^62", body))?);
        }
        Ok(Head { hash, kind, body: bytes.len() - decoder.remaining(), length })
    }
}

/// Where an object is: an offset, or a hash that the index knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Offset(u64),
    Hash(Hash),
}

/// The name of a child: in the dictionary, or here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Number(u64),
    Name(Vec<u8>),
}

/// One child of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) step: Step,
    pub(crate) is_value: bool,
    pub(crate) address: Address,
}

/// The body of a piece of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inode {
    Values(Vec<Child>),
    Tree { depth: u64, length: u64, pointers: Vec<(u64, Address)> },
}

/// The body of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitEntry {
    pub(crate) tree: Address,
    pub(crate) parents: Vec<Address>,
    pub(crate) date: i64,
    pub(crate) author: Vec<u8>,
    pub(crate) message: Vec<u8>,
}

fn take_hash(schema: Schema, decoder: &mut Decoder<'_>) -> Result<Address> {
    Ok(Address::Hash(schema.hash(decoder.raw(schema.hash_bytes())?)))
}

fn take_address(schema: Schema, decoder: &mut Decoder<'_>) -> Result<Address> {
    let start = decoder.clone();
    match decoder.varint()? {
        0 => Ok(Address::Offset(bytes::offset(decoder)?)),
        1 => take_hash(schema, decoder),
        other => Err(start.corrupt("an address, 0 or 1", other)),
    }
}

fn take_child(schema: Schema, decoder: &mut Decoder<'_>) -> Result<Child> {
    let start = decoder.clone();
    let tag = decoder.varint()?;
    if tag > 11 {
        return Err(start.corrupt("the tag of a child, 0 to 11", tag));
    }
    let step = if tag < 6 {
        Step::Number(decoder.varint()?)
    } else {
        Step::Name(decoder.bytes_with_length()?.to_vec())
    };
    let address = if tag % 6 < 3 {
        Address::Offset(bytes::offset(decoder)?)
    } else {
        take_hash(schema, decoder)?
    };
    if tag % 3 == 1 {
        return Err(start.corrupt("a child without metadata, as Tezos has them", tag));
    }
    Ok(Child { step, is_value: tag % 3 == 0, address })
}

impl Inode {
    /// Reads a body, which need not be all of what `decoder` holds.
    pub(crate) fn take(schema: Schema, decoder: &mut Decoder<'_>) -> Result<Inode> {
        let start = decoder.clone();
        match decoder.varint()? {
            0 => {
                // A tag, a name and an address are at least ten bytes.
                let count = decoder.count(10)?;
                let children = (0..count).map(|_| take_child(schema, decoder));
                Ok(Inode::Values(children.collect::<Result<_>>()?))
            }
            1 => {
                let (depth, length) = (decoder.varint()?, decoder.varint()?);
                let count = decoder.count(10)?;
                let pointers = (0..count)
                    .map(|_| Ok((decoder.varint()?, take_address(schema, decoder)?)))
                    .collect::<Result<_>>()?;
                Ok(Inode::Tree { depth, length, pointers })
            }
            other => Err(start.corrupt("an inode of values or a tree, 0 or 1", other)),
        }
    }

    /// Depth of a tree and entries below, which a body begins with.
    pub(crate) fn peek(decoder: &mut Decoder<'_>) -> Result<(Option<u64>, u64)> {
        let start = decoder.clone();
        match decoder.varint()? {
            0 => Ok((None, decoder.varint()?)),
            1 => Ok((Some(decoder.varint()?), decoder.varint()?)),
            other => Err(start.corrupt("an inode of values or a tree, 0 or 1", other)),
        }
    }

    /// Appends the body; every address must be an offset.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let put_offset = |out: &mut Vec<u8>, address: &Address| match address {
            Address::Offset(offset) => put_u64(out, *offset),
            Address::Hash(_) => unreachable!("only offsets are written"),
        };
        match self {
            Inode::Values(children) => {
                out.push(0);
                put_varint(out, children.len() as u64);
                for child in children {
                    let kind = if child.is_value { 0 } else { 2 };
                    match &child.step {
                        Step::Number(number) => {
                            out.push(kind);
                            put_varint(out, *number);
                        }
                        Step::Name(name) => {
                            out.push(6 + kind);
                            put_varint(out, name.len() as u64);
                            out.extend_from_slice(name);
                        }
                    }
                    put_offset(out, &child.address);
                }
            }
            Inode::Tree { depth, length, pointers } => {
                out.push(1);
                put_varint(out, *depth);
                put_varint(out, *length);
                put_varint(out, pointers.len() as u64);
                for (bucket, address) in pointers {
                    put_varint(out, *bucket);
                    out.push(0);
                    put_offset(out, address);
                }
            }
        }
    }
}

impl CommitEntry {
    /// Reads a body, which need not be all of what `decoder` holds.
    pub(crate) fn take(
        schema: Schema,
        kind: EntryKind,
        decoder: &mut Decoder<'_>,
    ) -> Result<CommitEntry> {
        let address = |decoder: &mut Decoder<'_>| match kind {
            EntryKind::CommitOld => take_hash(schema, decoder),
            _ => take_address(schema, decoder),
        };
        let tree = address(decoder)?;
        let count = decoder.count(9)?;
        let parents = (0..count).map(|_| address(decoder)).collect::<Result<_>>()?;
        let date = bytes::u64(decoder)? as i64;
        let author = decoder.bytes_with_length()?.to_vec();
        let message = decoder.bytes_with_length()?.to_vec();
        Ok(CommitEntry { tree, parents, date, author, message })
    }

    /// Appends the body, with Tezos' schema.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let put_address = |out: &mut Vec<u8>, address: &Address| match address {
            Address::Offset(offset) => {
                out.push(0);
                put_u64(out, *offset);
            }
            Address::Hash(hash) => {
                out.push(1);
                out.extend_from_slice(hash);
            }
        };
        put_address(out, &self.tree);
        put_varint(out, self.parents.len() as u64);
        for parent in &self.parents {
            put_address(out, parent);
        }
        put_u64(out, self.date as u64);
        for text in [&self.author, &self.message] {
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        }
    }
}

/// Appends an entry whose length is written, of the schema of Tezos.
pub(crate) fn put(out: &mut Vec<u8>, hash: &Hash, kind: EntryKind, body: &[u8]) {
    debug_assert!(kind.is_sized());
    out.extend_from_slice(hash);
    out.push(kind as u8);
    put_varint(out, body.len() as u64);
    out.extend_from_slice(body);
}

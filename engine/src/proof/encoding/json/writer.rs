//! Writes JSON without blanks, piece by piece.

use super::writing_deeper;
use crate::context::tree::Kind;
use crate::error::Result;
use crate::proof::shape::{Element, Entries, Extender, Inode, Kinded, Part, Piece, Proof, State};

/// Integers up to here survive readers that have only floating point.
const EXACT: i64 = 1 << 52;

/// Whoever takes the text.
type Out<'a> = dyn FnMut(&[u8]) -> Result<()> + 'a;

pub(super) fn put(proof: &Proof, out: &mut Out<'_>) -> Result<()> {
    out(b"{\"version\":")?;
    number(i64::from(proof.version), out)?;
    out(b",\"before\":")?;
    kinded(&proof.before, out)?;
    out(b",\"after\":")?;
    kinded(&proof.after, out)?;
    out(b",\"state\":")?;
    match &proof.state {
        State::Tree(tree) => part(tree, 0, out)?,
        State::Stream(elements) => list(elements, element, out)?,
    }
    out(b"}")
}

fn number(number: i64, out: &mut Out<'_>) -> Result<()> {
    out(number.to_string().as_bytes())
}

/// Bytes in hexadecimal, in quotes.
fn hexadecimal(bytes: &[u8], out: &mut Out<'_>) -> Result<()> {
    out(b"\"")?;
    for chunk in bytes.chunks(32) {
        let mut digits = [0; 64];
        for (place, byte) in digits.as_chunks_mut().0.iter_mut().zip(chunk) {
            *place = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
        }
        out(&digits[..2 * chunk.len()])?;
    }
    out(b"\"")
}

fn list<T>(
    items: &[T],
    put: impl Fn(&T, &mut Out<'_>) -> Result<()>,
    out: &mut Out<'_>,
) -> Result<()> {
    out(b"[")?;
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out(b",")?;
        }
        put(item, out)?;
    }
    out(b"]")
}

fn kinded(kinded: &Kinded, out: &mut Out<'_>) -> Result<()> {
    out(if kinded.kind == Kind::Value { b"[\"contents\"," } else { b"[\"node\"," })?;
    hexadecimal(kinded.hash.as_ref(), out)?;
    out(b"]")
}

fn length(length: i64, out: &mut Out<'_>) -> Result<()> {
    if (-EXACT..=EXACT).contains(&length) {
        return number(length, out);
    }
    out(b"\"")?;
    number(length, out)?;
    out(b"\"")
}

fn entries(all: &Entries, level: usize, out: &mut Out<'_>) -> Result<()> {
    let entry = |(step, child): &(Vec<u8>, Part), out: &mut Out<'_>| {
        out(b"[")?;
        hexadecimal(step, out)?;
        out(b",")?;
        part(child, level, out)?;
        out(b"]")
    };
    list(all, entry, out)
}

fn inode<C>(
    inode: &Inode<C>,
    child: impl Fn(&C, &mut Out<'_>) -> Result<()>,
    out: &mut Out<'_>,
) -> Result<()> {
    out(b"{\"length\":")?;
    length(inode.length, out)?;
    out(b",\"proofs\":")?;
    let pair = |(bucket, piece): &(u16, C), out: &mut Out<'_>| {
        out(b"[")?;
        number(i64::from(*bucket), out)?;
        out(b",")?;
        child(piece, out)?;
        out(b"]")
    };
    list(&inode.children, pair, out)?;
    out(b"}")
}

fn extender<C>(
    extender: &Extender<C>,
    child: impl Fn(&C, &mut Out<'_>) -> Result<()>,
    out: &mut Out<'_>,
) -> Result<()> {
    out(b"{\"length\":")?;
    length(extender.length, out)?;
    out(b",\"segments\":")?;
    list(&extender.segment, |bucket, out| number(i64::from(*bucket), out), out)?;
    out(b",\"proof\":")?;
    child(&extender.child, out)?;
    out(b"}")
}

/// An object of one member, whose value `put` writes.
fn one(name: &str, put: impl FnOnce(&mut Out<'_>) -> Result<()>, out: &mut Out<'_>) -> Result<()> {
    out(b"{\"")?;
    out(name.as_bytes())?;
    out(b"\":")?;
    put(out)?;
    out(b"}")
}

fn part(part: &Part, level: usize, out: &mut Out<'_>) -> Result<()> {
    let level = writing_deeper(level)?;
    let below = |child: &Piece, out: &mut Out<'_>| piece(child, level, out);
    match part {
        Part::Value(value) => one("contents", |out| hexadecimal(value, out), out),
        Part::BlindedValue(hash) => {
            one("blinded_contents", |out| hexadecimal(hash.as_ref(), out), out)
        }
        Part::Node(all) => one("node", |out| entries(all, level, out), out),
        Part::BlindedNode(hash) => one("blinded_node", |out| hexadecimal(hash.as_ref(), out), out),
        Part::Inode(buckets) => one("inode", |out| inode(buckets, below, out), out),
        Part::Extender(chain) => one("extender", |out| extender(chain, below, out), out),
    }
}

fn piece(piece: &Piece, level: usize, out: &mut Out<'_>) -> Result<()> {
    let level = writing_deeper(level)?;
    let below = |child: &Piece, out: &mut Out<'_>| self::piece(child, level, out);
    match piece {
        Piece::Blinded(hash) => one("blinded_inode", |out| hexadecimal(hash, out), out),
        Piece::Values(all) => one("inode_values", |out| entries(all, level, out), out),
        Piece::Inode(buckets) => one("inode_tree", |out| inode(buckets, below, out), out),
        Piece::Extender(chain) => one("inode_extender", |out| extender(chain, below, out), out),
    }
}

fn element(element: &Element, out: &mut Out<'_>) -> Result<()> {
    let hash = |hash: &crate::context::hash::Hash, out: &mut Out<'_>| hexadecimal(hash, out);
    match element {
        Element::Value(value) => one("contents", |out| hexadecimal(value, out), out),
        Element::Node(all) => {
            let entry = |(step, child): &(Vec<u8>, Kinded), out: &mut Out<'_>| {
                out(b"[")?;
                hexadecimal(step, out)?;
                out(b",")?;
                kinded(child, out)?;
                out(b"]")
            };
            one("node", |out| list(all, entry, out), out)
        }
        Element::Inode(buckets) => one("inode", |out| inode(buckets, hash, out), out),
        Element::Extender(chain) => one("inode_extender", |out| extender(chain, hash, out), out),
    }
}

//! Small directories within the record of their parent: what is in them, without a node where none is
//! needed.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::{
    EMBEDDED, EMBEDDED_HASHED, OFFSET_MAX, Places, STORED_NODE, STORED_VALUE, Wanted, find_among,
    leaf_for, name_bytes, put_entry, put_leaf, skip_slot, take_entry, take_name, take_reference,
};
use crate::context::hash::Hash;
use crate::context::pieces::node::{Body, Embedded, INLINE, Node, Slot};
use crate::error::{Error, Kind, Result};
use crate::format::codec::{Decoder, Encoder};

/// The most bytes of entries of a directory that is written within its parent, a reference counted as
/// [`REFERENCE`].
const EMBEDDED_BYTES: usize = 64;
const REFERENCE: usize = 4;

/// The most children of a directory within which one that carries its hash is written: all of them are
/// written again when a wide one is written in full, and those with a hash are several times as long as
/// a reference.
const HASHED_WIDTH: usize = 32;

/// The most that is read, each reference counted as [`REFERENCE_AFAR`]: more than can be written. What is
/// read is no larger in any record that it may be written into.
const EMBEDDED_MAX: usize = 255;

/// What a reference takes while it is in memory, and at most in a record.
const REFERENCE_AFAR: usize = 9;

/// Where the references of embedded directories are distances from while they are in memory: so far
/// that all distances are equally long.
const AFAR: u64 = 1 << 62;
const _: () =
    assert!(OFFSET_MAX <= AFAR / 2 && AFAR - OFFSET_MAX >= 1 << (7 * (REFERENCE_AFAR - 1)));

/// Where the entries of one with its hash begin.
const HASHED: usize = 1 + size_of::<Hash>();

/// The kind of entry that `node` is within a directory or leaf of `width` children; none when it is a
/// piece, empty or too large, and has a record. `places` has the live directories below.
pub(crate) fn embedded_kind(node: &Node, width: usize, places: &dyn Places) -> Option<u8> {
    let Body::Leaf { leaf, flat: true } = &node.body else { return None };
    // A name and a byte take two at least.
    if leaf.len() == 0 || leaf.len() > EMBEDDED_BYTES / 2 {
        return None;
    }
    let (mut size, mut refers) = (0, false);
    for index in 0..leaf.len() {
        let (bytes, refers_on) = slot_size(leaf.slot(index), places);
        size += name_bytes(leaf.name(index)) + bytes;
        refers |= refers_on;
        if size > EMBEDDED_BYTES || refers && width > HASHED_WIDTH {
            return None;
        }
    }
    Some(if refers { EMBEDDED_HASHED } else { EMBEDDED })
}

/// Bytes of what stands behind a name, and whether it refers to anything.
fn slot_size(slot: &Slot, places: &dyn Places) -> (usize, bool) {
    let within = match slot {
        Slot::Inline { length, .. } => return (usize::from(*length), false),
        Slot::Embedded(bytes) => Some(bytes),
        Slot::Node(child) => places.embedded(child),
        Slot::Value(_) | Slot::StoredValue(_) | Slot::StoredNode(_) => None,
    };
    match within.map(|bytes| (entries(bytes), bytes[0] == EMBEDDED_HASHED)) {
        Some((body, false)) => (1 + body.len(), false),
        Some((body, true)) => {
            let far = references(&mut Decoder::new("", 0, body)).unwrap_or(0);
            (1 + size_of::<Hash>() + body.len() - far * (REFERENCE_AFAR - REFERENCE), true)
        }
        None => (REFERENCE, true),
    }
}

/// How many references there are among entries in memory, those further within included.
fn references(entries: &mut Decoder<'_>) -> Result<usize> {
    let mut count = 0;
    while entries.remaining() > 0 {
        let first = entries.u8()?;
        take_name(entries, first)?;
        if first & 31 == EMBEDDED_HASHED {
            entries.raw(size_of::<Hash>())?;
            let inner = entries.bytes_with_length()?;
            count += references(&mut Decoder::new("", 0, inner))?;
        } else {
            count += usize::from(matches!(first & 31, STORED_VALUE | STORED_NODE));
            skip_slot(entries, first)?;
        }
    }
    Ok(count)
}

/// Whether a directory is written within its parent, whatever that and those below are.
pub(crate) fn is_surely_embedded(node: &Node) -> bool {
    embedded_kind(node, usize::MAX, &Nowhere).is_some() && node.next_live(0).is_none()
}

/// The bytes of the directory `node` with the hash `hash`, of which [`embedded_kind`] said `kind`. Uses
/// the memory of `scratch`.
pub(crate) fn embed(
    node: &Node,
    hash: &Hash,
    kind: u8,
    places: &dyn Places,
    scratch: &mut Vec<u8>,
) -> Embedded {
    let Body::Leaf { leaf, .. } = &node.body else { unreachable!("branches are not embedded") };
    let mut out = Encoder::over(std::mem::take(scratch));
    out.u8(kind);
    if kind == EMBEDDED_HASHED {
        out.raw(hash);
    }
    put_leaf(&mut out, AFAR, leaf, places);
    *scratch = out.finish();
    Embedded::new(scratch)
}

/// The hash of an embedded directory, if it is with it.
pub(crate) fn embedded_hash(bytes: &[u8]) -> Option<Hash> {
    let hash = bytes.get(1..)?.first_chunk::<{ size_of::<Hash>() }>();
    hash.copied().filter(|_| bytes[0] == EMBEDDED_HASHED)
}

/// About how many bytes the rest of an entry, which takes `length`, will take in memory after the directory
/// in place that it is, if it is one.
pub(super) fn expected_bytes(what: u8, length: usize) -> usize {
    match what {
        // A byte of its length goes, one of its kind comes.
        EMBEDDED => length,
        // References grow.
        EMBEDDED_HASHED => length + REFERENCE_AFAR,
        _ => 0,
    }
}

/// The entries of an embedded directory.
pub(crate) fn entries(bytes: &[u8]) -> &[u8] {
    let head = if bytes[0] == EMBEDDED_HASHED { HASHED } else { 1 };
    &bytes[head..]
}

/// No place to write children to: those of a clean node have theirs.
pub(crate) struct Nowhere;

impl Places for Nowhere {
    fn node(&self, _: &Arc<Node>) -> u64 {
        unreachable!("what is clean holds nothing live")
    }

    fn embedded(&self, _: &Arc<Node>) -> Option<&Embedded> {
        None
    }

    fn value(&self, _: &Arc<[u8]>) -> u64 {
        unreachable!("what is clean holds nothing live")
    }
}

/// What stands behind the name of an embedded directory in a record at `at`.
pub(super) fn put_embedded(out: &mut Encoder, at: u64, bytes: &[u8]) {
    let Some(hash) = embedded_hash(bytes) else {
        out.bytes_with_length(entries(bytes));
        return;
    };
    out.raw(&hash);
    let mut body = Encoder::over(Vec::with_capacity(bytes.len()));
    let outcome = put_moved(&mut body, Decoder::new("", 0, entries(bytes)), AFAR, at);
    // No reference is longer.
    outcome.expect("it was taken apart when it was read, or written before");
    out.bytes_with_length(body.bytes());
}

/// Appends entries whose references are distances from `from`, as distances from `to`; the rest is as it
/// was. Recursion is bounded by the length.
fn put_moved(out: &mut Encoder, mut decoder: Decoder<'_>, from: u64, to: u64) -> Result<()> {
    while decoder.remaining() > 0 {
        let (start, rest) = (decoder.clone(), decoder.remaining());
        let first = decoder.u8()?;
        take_name(&mut decoder, first)?;
        let what = first & 31;
        if matches!(what, STORED_VALUE | STORED_NODE | EMBEDDED_HASHED) {
            let head = rest - decoder.remaining();
            out.raw(start.clone().raw(head)?);
        }
        match what {
            STORED_VALUE | STORED_NODE => out.varint(to - take_reference(&mut decoder, from)?),
            EMBEDDED_HASHED => {
                out.raw(decoder.raw(size_of::<Hash>())?);
                let body = take_body(&mut decoder)?;
                let mut inner = Encoder::over(Vec::with_capacity(EMBEDDED_MAX));
                put_moved(&mut inner, Decoder::new("", 0, body), from, to)?;
                fits(inner.bytes().len(), &start)?;
                out.bytes_with_length(inner.bytes());
            }
            EMBEDDED => {
                take_body(&mut decoder)?;
                out.raw(start.clone().raw(rest - decoder.remaining())?);
            }
            inline if usize::from(inline) <= INLINE => {
                decoder.raw(usize::from(inline))?;
                out.raw(start.clone().raw(rest - decoder.remaining())?);
            }
            other => return Err(start.corrupt("a known kind of entry", other)),
        }
    }
    Ok(())
}

/// `Corrupt` at `start` for entries of a directory in place that none may have.
fn fits(length: usize, start: &Decoder<'_>) -> Result<()> {
    if (1..=EMBEDDED_MAX).contains(&length) {
        return Ok(());
    }
    Err(start.corrupt(format_args!("1 to {EMBEDDED_MAX} bytes of entries"), length))
}

/// The entries of a directory in place.
pub(super) fn take_body<'a>(decoder: &mut Decoder<'a>) -> Result<&'a [u8]> {
    let start = decoder.clone();
    let body = decoder.bytes_with_length()?;
    fits(body.len(), &start)?;
    Ok(body)
}

pub(super) fn take_embedded(
    decoder: &mut Decoder<'_>,
    at: u64,
    what: u8,
    inside: &mut Vec<u8>,
) -> Result<Slot> {
    let (start, place) = (decoder.clone(), inside.len());
    inside.push(what);
    if what == EMBEDDED {
        // Looked at when it is entered or hashed.
        inside.extend_from_slice(take_body(decoder)?);
    } else {
        inside.extend_from_slice(decoder.raw(size_of::<Hash>())?);
        let body = Decoder::new("", 0, take_body(decoder)?);
        let mut out = Encoder::after(std::mem::take(inside));
        put_moved(&mut out, body, at, AFAR)
            .map_err(|error| start.corrupt("entries of a directory", error.detail()))?;
        *inside = out.finish();
        fits(inside.len() - place - HASHED, &start)?;
    }
    Ok(Slot::Embedded(Embedded::among(inside, place)))
}

/// What is wrong with a directory in place that has references, but not the hash that it is known by.
pub(super) const UNHASHED: &str = "it refers to something and has no hash";

const DISORDER: &str = "its names are out of order";

fn damaged(what: &str) -> Error {
    let detail = format!("a directory within its parent's record is damaged: {what}");
    Error::new(Kind::Corrupt, detail).advised(Error::CHECK_ADVICE)
}

/// What [`find`] says of an embedded directory.
pub(crate) fn find_embedded(bytes: &[u8], path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
    let entries = Decoder::new("", 0, entries(bytes));
    find_among(entries, AFAR, path, bytes[0] == EMBEDDED).map_err(|error| damaged(error.detail()))
}

/// Calls `each` with what an embedded directory refers to.
pub(crate) fn each_embedded_reference(bytes: &[u8], each: &mut dyn FnMut(u64)) -> Result<()> {
    if embedded_hash(bytes).is_none() {
        return Ok(());
    }
    let mut decoder = Decoder::new("", 0, entries(bytes));
    while decoder.remaining() > 0 {
        let taken = super::take_references(&mut decoder, AFAR, true, each);
        taken.map_err(|error| damaged(error.detail()))?;
    }
    Ok(())
}

/// An embedded directory as a node, with its hash if that is known.
pub(crate) fn embedded_node(bytes: &[u8]) -> Result<Node> {
    let mut decoder = Decoder::new("", 0, entries(bytes));
    let (mut leaf, mut inside) = leaf_for(decoder.clone());
    while decoder.remaining() > 0 {
        let start = inside.len();
        let in_order = leaf
            .push_with(|names| take_entry(&mut decoder, AFAR, true, names, &mut inside))
            .map_err(|error| damaged(error.detail()))?;
        let refers = match leaf.slot(leaf.len() - 1) {
            Slot::StoredValue(_) | Slot::StoredNode(_) => true,
            Slot::Embedded(_) => inside[start] == EMBEDDED_HASHED,
            _ => false,
        };
        if refers && bytes[0] == EMBEDDED {
            return Err(damaged(UNHASHED));
        }
        if !in_order {
            return Err(damaged(DISORDER));
        }
    }
    leaf.share(inside);
    let mut node = Node::leaf(leaf, true);
    if let Some(hash) = embedded_hash(bytes) {
        node.hash = hash.into();
    }
    Ok(node)
}

/// A directory of one entry, the short value `slot` as `name`; none when it is too large to be in place.
pub(crate) fn single(name: &[u8], slot: &Slot) -> Option<Embedded> {
    edited(&[], 0..0, name, slot)
}

/// The directory `bytes` with the short value `slot` as `name`; none when it needs a node for that: it
/// refers to something, would be too large, or have more than `most` entries.
pub(crate) fn with_inline(
    bytes: &[u8],
    name: &[u8],
    slot: &Slot,
    most: usize,
) -> Result<Option<Embedded>> {
    if bytes[0] != EMBEDDED || !matches!(slot, Slot::Inline { .. }) {
        return Ok(None);
    }
    let (wanted, all) = (Wanted::new(name), entries(bytes));
    let mut place = None;
    let mut count = 0;
    let mut decoder = Decoder::new("", 0, all);
    while decoder.remaining() > 0 {
        let start = all.len() - decoder.remaining();
        let order = pass(&mut decoder, &wanted).map_err(|error| damaged(error.detail()))?;
        let end = all.len() - decoder.remaining();
        match order {
            Ordering::Equal => place = Some(start..end),
            Ordering::Greater if place.is_none() => place = Some(start..start),
            _ => {}
        }
        count += usize::from(order != Ordering::Equal);
    }
    if count >= most {
        return Ok(None);
    }
    Ok(edited(all, place.unwrap_or(all.len()..all.len()), name, slot))
}

/// Passes an entry, and returns how its name compares to `wanted`.
fn pass(decoder: &mut Decoder<'_>, wanted: &Wanted<'_>) -> Result<Ordering> {
    let first = decoder.u8()?;
    let order = wanted.compare(&take_name(decoder, first)?);
    skip_slot(decoder, first)?;
    Ok(order)
}

/// `all` with another entry in the place of those in `place`; none when that is too large.
fn edited(all: &[u8], place: Range<usize>, name: &[u8], slot: &Slot) -> Option<Embedded> {
    let Slot::Inline { length, .. } = slot else { return None };
    let size = all.len() - place.len() + name_bytes(name) + usize::from(*length);
    if size > EMBEDDED_BYTES {
        return None;
    }
    let mut out = Encoder::over(Vec::with_capacity(1 + size));
    out.u8(EMBEDDED);
    out.raw(&all[..place.start]);
    put_entry(&mut out, AFAR, Some(name), slot, &Nowhere);
    out.raw(&all[place.end..]);
    debug_assert_eq!(out.bytes().len(), 1 + size);
    Some(Embedded::new(out.bytes()))
}

/// What is behind a name of a directory that refers to nothing.
pub(crate) enum Within<'a> {
    Value(&'a [u8]),
    /// The entries of a directory like it.
    Directory(&'a [u8]),
}

/// Runs `each` on the entries `entries` of a directory that refers to nothing, in order. The name is in a
/// buffer that is used again.
pub(crate) fn each_within<'a>(
    entries: &'a [u8],
    names: &mut [Vec<u8>; 2],
    mut each: impl FnMut(&[u8], Within<'a>) -> Result<()>,
) -> Result<()> {
    let mut decoder = Decoder::new("", 0, entries);
    let [name, before] = names;
    let mut is_first = true;
    while decoder.remaining() > 0 {
        std::mem::swap(name, before);
        name.clear();
        let within = next_within(&mut decoder, name).map_err(|error| damaged(error.detail()))?;
        if !is_first && name <= before {
            return Err(damaged(DISORDER));
        }
        is_first = false;
        each(name, within)?;
    }
    Ok(())
}

fn next_within<'a>(decoder: &mut Decoder<'a>, name: &mut Vec<u8>) -> Result<Within<'a>> {
    let start = decoder.clone();
    let first = decoder.u8()?;
    take_name(decoder, first)?.append_to(name);
    match first & 31 {
        inline if usize::from(inline) <= INLINE => {
            decoder.raw(usize::from(inline)).map(Within::Value)
        }
        EMBEDDED => take_body(decoder).map(Within::Directory),
        STORED_VALUE | STORED_NODE | EMBEDDED_HASHED => {
            Err(start.corrupt("a directory without references", UNHASHED))
        }
        other => Err(start.corrupt("a known kind of entry", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::pieces::digest;
    use crate::context::pieces::node::Leaf;

    /// The bytes of an entry `name` that leads to a directory in place whose entries are `body`.
    fn entry_of(hashed: bool, body: &[u8]) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(if hashed { EMBEDDED_HASHED } else { EMBEDDED } | 1 << 5);
        out.raw(b"d");
        if hashed {
            out.raw(&[7; 32]);
        }
        out.bytes_with_length(body);
        out.finish()
    }

    /// Reads an entry at `at`; what can be read can be looked into, and written anywhere behind.
    fn read_and_write(bytes: &[u8], at: u64) -> Result<()> {
        let mut decoder = Decoder::new("f", 0, bytes);
        let (mut name, mut own) = (Vec::new(), Vec::new());
        let slot = take_entry(&mut decoder, at, true, &mut name, &mut own)?.share(&own);
        let Slot::Embedded(inside) = &slot else { return Ok(()) };
        let _ = (
            embedded_node(inside),
            find_embedded(inside, &[b"a"]),
            find_embedded(inside, &[b"zz", b"a"]),
        );
        for to in [at, at + 1, at + 300, at + (1 << 20), OFFSET_MAX] {
            let mut out = Encoder::new();
            put_entry(&mut out, to, Some(&name), &slot, &Nowhere);
            let written = out.finish();
            let mut decoder = Decoder::new("f", 0, &written);
            let (mut again, mut own) = (Vec::new(), Vec::new());
            let slot_again = take_entry(&mut decoder, to, true, &mut again, &mut own)?.share(&own);
            assert!(again == name && slot_again.same(&slot), "at {at} and at {to}");
        }
        Ok(())
    }

    #[test]
    fn directories_in_place_that_nobody_wrote_are_refused_or_written_as_they_are() {
        // As many references as there is room for, near ones: afar each takes nine bytes.
        let references = |count: u8| -> Vec<u8> {
            (0..count).flat_map(|name| [STORED_VALUE | 1 << 5, name, 1]).collect()
        };
        let (mut refused, mut taken) = (0, 0);
        for count in 1..=85 {
            let mut body = references(count);
            for _ in 0..4 {
                match read_and_write(&entry_of(true, &body), 5_000) {
                    Ok(()) => taken += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Corrupt);
                        refused += 1;
                    }
                }
                body = entry_of(true, &body);
            }
        }
        assert!(refused > 100 && taken > 50, "{refused} {taken}");
        // Anything at all within.
        let mut state = 1_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        let mut whole = 0;
        for round in 0..60_000 {
            let mut body = Vec::new();
            for depth in 0..draw(4) {
                for name in 0..draw(5) as u8 {
                    let kinds = [3, STORED_VALUE, STORED_NODE, EMBEDDED, 31];
                    let what = kinds[draw(if round % 2 == 0 { 3 } else { 5 }) as usize];
                    body.extend([what | 1 << 5, b'e' + name, 1 + draw(200) as u8]);
                    body.extend((what == 3).then_some([0; 2]).into_iter().flatten());
                }
                if depth > 0 || draw(2) == 0 {
                    let mut nested = entry_of(draw(3) > 0, &body);
                    nested[1] = b'a' + depth as u8;
                    body = nested;
                }
            }
            if round % 7 == 0 && !body.is_empty() {
                let place = draw(body.len() as u64) as usize;
                body[place] ^= 1 << draw(8);
            }
            let at = [1, 200, 5_000, 1 << 40][draw(4) as usize];
            whole += u64::from(read_and_write(&entry_of(draw(2) == 0, &body), at).is_ok());
        }
        assert!((10_000..55_000).contains(&whole), "{whole}");
    }

    /// What an entry of a directory in place is, by its node.
    fn listed(node: &Node) -> Vec<(Vec<u8>, Slot)> {
        let Body::Leaf { leaf, .. } = &node.body else { panic!("it is a leaf") };
        (0..leaf.len()).map(|index| (leaf.name(index).to_vec(), leaf.slot(index).clone())).collect()
    }

    #[test]
    fn a_directory_that_is_edited_in_place_is_what_its_node_would_be() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (state >> 33) % below
        };
        let names: [&[u8]; 9] =
            [b"", b"a", b"aa", b"balance", b"counter", b"0123", b"0123ab", b"0123456789ab", b"zz"];
        let (mut edits, mut refusals) = (0, 0);
        for round in 0..2_000 {
            let value = |draw: &mut dyn FnMut(u64) -> u64| {
                let length = draw(16) as usize;
                Slot::value(&vec![draw(256) as u8; length])
            };
            let first = names[draw(9) as usize];
            let slot = value(&mut draw);
            let mut bytes = single(first, &slot).expect("one entry has room");
            let mut model = std::collections::BTreeMap::from([(first.to_vec(), slot)]);
            let most = if round % 3 == 0 { 2 } else { 256 };
            for _ in 0..draw(12) {
                let name = names[draw(9) as usize];
                let slot = value(&mut draw);
                let mut changed = model.clone();
                changed.insert(name.to_vec(), slot.clone());
                let mut leaf = Leaf::with_capacity(changed.len(), 0);
                for (name, slot) in &changed {
                    leaf.push(name, slot.clone());
                }
                let node = Node::leaf(leaf, true);
                let kind = embedded_kind(&node, 1, &Nowhere);
                if let Some(edited) = with_inline(&bytes, name, &slot, most).unwrap() {
                    assert_eq!(kind, Some(EMBEDDED));
                    let own = embed(&node, &[0; 32], EMBEDDED, &Nowhere, &mut Vec::new());
                    assert_eq!(edited, own);
                    let (found, expected) = (listed(&embedded_node(&edited).unwrap()), changed);
                    assert!(found.iter().zip(&expected).all(|(a, b)| a.0 == *b.0 && a.1.same(b.1)));
                    let hash = digest::embedded(&edited).unwrap();
                    assert_eq!(hash, digest::node(&Arc::new(node), None).unwrap());
                    (bytes, model) = (edited, expected);
                    edits += 1;
                } else {
                    assert!(kind.is_none() || changed.len() > most);
                    refusals += 1;
                }
            }
        }
        assert!(edits > 3_000 && refusals > 500, "{edits} {refusals}");
    }

    #[test]
    fn only_short_values_of_directories_without_references_are_edited_in_place() {
        let long = Slot::Value(Arc::from([0; 16]));
        assert!(single(b"a", &long).is_none() && single(&[b'n'; 70], &Slot::value(b"")).is_none());
        let bytes = single(b"a", &Slot::value(b"1")).unwrap();
        assert!(with_inline(&bytes, b"b", &long, 256).unwrap().is_none());
        let hashed = [&[EMBEDDED_HASHED][..], &[7; 32], &[STORED_VALUE | 1 << 5, b'a', 1]].concat();
        assert!(with_inline(&hashed, b"b", &Slot::value(b"1"), 256).unwrap().is_none());
        // A damaged one is told, not taken for one without the name.
        let damaged = [EMBEDDED, 3 | 1 << 5, b'a', 1];
        let error = with_inline(&damaged, b"b", &Slot::value(b"1"), 256).unwrap_err();
        assert_eq!(error.kind(), Kind::Corrupt);
        for (entries, what) in [
            (&[1 | 1 << 5, b'b', 1, 1 | 1 << 5, b'a', 1][..], "order"),
            (&[1 | 1 << 5, b'b', 1, 1 | 1 << 5, b'b', 1], "order"),
            (&[STORED_VALUE | 1 << 5, b'b', 1], "no hash"),
            (&[EMBEDDED | 1 << 5, b'b', 0], "entries"),
            (&[31 | 1 << 5, b'b', 0], "known kind"),
        ] {
            let error = digest::embedded(&[&[EMBEDDED], entries].concat()).unwrap_err();
            assert!(error.kind() == Kind::Corrupt && error.to_string().contains(what), "{error}");
        }
    }
}

//! The entries of a leaf as bytes: a name, and the value, the reference or the small directory that it
//! leads to.
//!
//! A directory of a few short entries has no record of its own: its entries are in that of its parent,
//! or in a directory that is there itself. In memory it is bytes as well: a byte that says whether it
//! refers to something, then its hash, then its entries, in which references are distances from one
//! offset that no pack reaches. Format document: `docs/format/pack.md`.

use std::cmp::Ordering;
use std::sync::Arc;

use super::node::{Body, Embedded, INLINE, Leaf, Node, Slot};
use crate::context::hash::Hash;
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

/// The logical offset that no pack passes, so that sums and distances of offsets never overflow and
/// references take nine bytes at most.
pub(crate) const OFFSET_MAX: u64 = 1 << 61;

/// Where the references of embedded directories are distances from while they are in memory: so far
/// that all distances are equally long.
const AFAR: u64 = 1 << 62;
const _: () =
    assert!(OFFSET_MAX <= AFAR / 2 && AFAR - OFFSET_MAX >= 1 << (7 * (REFERENCE_AFAR - 1)));

/// Where children of a node that is being written are.
pub(crate) trait Places {
    fn node(&self, node: &Arc<Node>) -> u64;
    /// The bytes of a directory that has no record of its own; none of another.
    fn embedded(&self, node: &Arc<Node>) -> Option<&Embedded>;
    fn value(&self, value: &Arc<[u8]>) -> u64;
}

const STORED_VALUE: u8 = 16;
const STORED_NODE: u8 = 17;
/// A directory without a record: its entries, none of which refers to anything.
const EMBEDDED: u8 = 18;
/// The same with references, and the hash, so that it is known without reading what they lead to.
const EMBEDDED_HASHED: u8 = 19;
/// Where the entries of one with its hash begin.
const HASHED: usize = 1 + size_of::<Hash>();
/// Forms of a name, in the top three bits of an entry's first byte.
const NAME_LONG: u8 = 0;
const NAME_HEX: u8 = 7;

pub(crate) fn put_entry(
    out: &mut Encoder,
    at: u64,
    name: Option<&[u8]>,
    slot: &Slot,
    places: &dyn Places,
) {
    let within = match slot {
        Slot::Embedded(bytes) => Some(bytes),
        Slot::Node(node) => places.embedded(node),
        _ => None,
    };
    if let Some(bytes) = within {
        put_name(out, bytes[0], name);
        put_embedded(out, at, bytes);
        return;
    }
    let (what, reference) = match slot {
        Slot::Inline { length, .. } => (*length, None),
        Slot::StoredValue(offset) => (STORED_VALUE, Some(*offset)),
        Slot::Value(value) => (STORED_VALUE, Some(places.value(value))),
        Slot::StoredNode(offset) => (STORED_NODE, Some(*offset)),
        Slot::Node(node) => (STORED_NODE, Some(places.node(node))),
        Slot::Embedded(_) => unreachable!("it was put above"),
    };
    put_name(out, what, name);
    match (slot, reference) {
        (Slot::Inline { length, bytes }, _) => out.raw(&bytes[..usize::from(*length)]),
        (_, Some(offset)) => {
            debug_assert!(offset < at, "children come before parents");
            out.varint(at - offset);
        }
        _ => unreachable!("what is not inline has a place"),
    }
}

/// The first byte of an entry, and its name if it has one.
fn put_name(out: &mut Encoder, what: u8, name: Option<&[u8]>) {
    match name {
        None => out.u8(what),
        Some(name) if (1..=6).contains(&name.len()) && !(name.len() >= 4 && is_hex(name)) => {
            out.u8(what | (name.len() as u8) << 5);
            out.raw(name);
        }
        Some(name) if name.len() >= 4 && is_hex(name) => {
            out.u8(what | NAME_HEX << 5);
            out.varint(name.len() as u64 / 2);
            pack_hex(name, out.room(name.len() / 2));
        }
        Some(name) => {
            out.u8(what | NAME_LONG << 5);
            out.bytes_with_length(name);
        }
    }
}

/// Bytes that [`put_name`] takes.
fn name_bytes(name: &[u8]) -> usize {
    match name.len() {
        length if length >= 4 && is_hex(name) => 2 + length / 2,
        length @ 1..=6 => 1 + length,
        length => 2 + length,
    }
}

fn is_hex(name: &[u8]) -> bool {
    // Without an early end, so that the compiler compares many at once.
    name.len().is_multiple_of(2)
        && name.iter().fold(true, |all, byte| all & matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes the bytes that the hex digits `name` stand for, eight digits at a time.
fn pack_hex(name: &[u8], out: &mut [u8]) {
    let (words, rest) = name.as_chunks::<8>();
    let (whole, last) = out.split_at_mut(4 * words.len());
    for (digits, out) in words.iter().zip(whole.chunks_exact_mut(4)) {
        out.copy_from_slice(&pack_word(*digits));
    }
    if !rest.is_empty() {
        let mut digits = [b'0'; 8];
        digits[..rest.len()].copy_from_slice(rest);
        last.copy_from_slice(&pack_word(digits)[..rest.len() / 2]);
    }
}

fn pack_word(digits: [u8; 8]) -> [u8; 4] {
    let word = u64::from_le_bytes(digits);
    // Of a letter the low four bits are nine too few, and its bit 6 is set.
    let letters = (word >> 6) & 0x0101_0101_0101_0101;
    let nibbles = (word & 0x0f0f_0f0f_0f0f_0f0f) + 9 * letters;
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    ((fours | fours >> 16) as u32).to_le_bytes()
}

/// Appends the hex digits of `bytes`.
fn unpack_hex(bytes: &[u8], out: &mut Vec<u8>) {
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        out.extend_from_slice(&unpack_word(*word));
    }
    if !rest.is_empty() {
        let mut word = [0; 4];
        word[..rest.len()].copy_from_slice(rest);
        out.extend_from_slice(&unpack_word(word)[..2 * rest.len()]);
    }
}

fn unpack_word(bytes: [u8; 4]) -> [u8; 8] {
    let word = u64::from(u32::from_le_bytes(bytes));
    let fours = (word | word << 16) & 0x0000_ffff_0000_ffff;
    let pairs = (fours | fours << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = ((pairs >> 4) & 0x000f_000f_000f_000f) | (pairs & 0x000f_000f_000f_000f) << 8;
    // From ten on letters, which begin 39 characters after the last digit.
    let letters = ((nibbles + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (nibbles + 0x3030_3030_3030_3030 + 39 * letters).to_le_bytes()
}

/// An entry's slot; its name, unless it has none, is appended to `name`, and the bytes of a directory in
/// place to `inside`, which is for the slot to share.
pub(crate) fn take_entry(
    decoder: &mut Decoder<'_>,
    at: u64,
    named: bool,
    name: &mut Vec<u8>,
    inside: &mut Vec<u8>,
) -> Result<Slot> {
    let start = decoder.clone();
    let first = decoder.u8()?;
    if named {
        take_name(decoder, first)?.append_to(name);
    } else if first >> 5 != 0 {
        return Err(start.corrupt("an entry without a name", first));
    }
    take_slot(decoder, at, first, &start, inside)
}

/// A name as it is written.
enum Name<'a> {
    Plain(&'a [u8]),
    /// The bytes that its digits stand for.
    Hex(&'a [u8]),
}

impl Name<'_> {
    fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Name::Plain(name) => out.extend_from_slice(name),
            Name::Hex(bytes) => unpack_hex(bytes, out),
        }
    }
}

/// The name of an entry that begins with `first`.
#[inline]
fn take_name<'a>(decoder: &mut Decoder<'a>, first: u8) -> Result<Name<'a>> {
    Ok(match first >> 5 {
        NAME_LONG => Name::Plain(decoder.bytes_with_length()?),
        NAME_HEX => Name::Hex(decoder.bytes_with_length()?),
        short => Name::Plain(decoder.raw(usize::from(short))?),
    })
}

/// A name to be looked for among entries.
struct Wanted<'a> {
    name: &'a [u8],
    /// The bytes that it stands for, if it is of so many digits or fewer, and how many bytes they are.
    packed: [u8; 64],
    digits: Option<usize>,
}

impl Wanted<'_> {
    fn new(name: &[u8]) -> Wanted<'_> {
        let mut packed = [0; 64];
        let digits = (name.len() <= 2 * packed.len() && is_hex(name)).then_some(name.len() / 2);
        if let Some(length) = digits {
            pack_hex(name, &mut packed[..length]);
        }
        Wanted { name, packed, digits }
    }

    /// How an entry's name compares to it.
    fn compare(&self, found: &Name<'_>) -> Ordering {
        match (found, self.digits) {
            (Name::Plain(name), _) => (*name).cmp(self.name),
            // Digits are in the order of what they stand for.
            (Name::Hex(bytes), Some(length)) => (*bytes).cmp(&self.packed[..length]),
            (Name::Hex(bytes), None) => {
                let mut name = Vec::with_capacity(2 * bytes.len());
                unpack_hex(bytes, &mut name);
                (*name).cmp(self.name)
            }
        }
    }
}

/// What an entry that begins with `first` leads to.
fn take_slot(
    decoder: &mut Decoder<'_>,
    at: u64,
    first: u8,
    start: &Decoder<'_>,
    inside: &mut Vec<u8>,
) -> Result<Slot> {
    match first & 31 {
        length if usize::from(length) <= INLINE => {
            let mut bytes = [0; INLINE];
            bytes[..usize::from(length)].copy_from_slice(decoder.raw(usize::from(length))?);
            Ok(Slot::Inline { length, bytes })
        }
        STORED_VALUE => Ok(Slot::StoredValue(take_reference(decoder, at)?)),
        STORED_NODE => Ok(Slot::StoredNode(take_reference(decoder, at)?)),
        what @ (EMBEDDED | EMBEDDED_HASHED) => take_embedded(decoder, at, what, inside),
        other => Err(start.corrupt("a known kind of entry", other)),
    }
}

/// How many steps of `path` lead somewhere among the entries from `decoder` on, which are all up to its
/// end, and where to; none when not even the first does. Small directories are passed where they lie.
pub(crate) fn find(decoder: Decoder<'_>, at: u64, path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
    find_among(decoder, at, path, false)
}

/// The same, of a directory that is `bare` of a hash, so that nothing in it refers to anything.
fn find_among(
    mut decoder: Decoder<'_>,
    at: u64,
    path: &[&[u8]],
    bare: bool,
) -> Result<Option<(usize, Slot)>> {
    let Some((name, rest)) = path.split_first() else { return Ok(None) };
    let wanted = Wanted::new(name);
    while decoder.remaining() > 0 {
        let start = decoder.clone();
        let first = decoder.u8()?;
        match wanted.compare(&take_name(&mut decoder, first)?) {
            Ordering::Less => skip_slot(&mut decoder, first)?,
            Ordering::Equal => {
                let what = first & 31;
                if bare && matches!(what, STORED_VALUE | STORED_NODE | EMBEDDED_HASHED) {
                    return Err(start.corrupt("a directory without references", UNHASHED));
                }
                if !rest.is_empty() && matches!(what, EMBEDDED | EMBEDDED_HASHED) {
                    let mut ahead = decoder.clone();
                    if what == EMBEDDED_HASHED {
                        ahead.raw(size_of::<Hash>())?;
                    }
                    let inner = Decoder::new("", 0, take_body(&mut ahead)?);
                    let found = find_among(inner, at, rest, what == EMBEDDED);
                    let found = found
                        .map_err(|error| start.corrupt("entries of a directory", error.detail()))?;
                    if let Some((taken, slot)) = found {
                        return Ok(Some((1 + taken, slot)));
                    }
                }
                let mut inside = Vec::new();
                let slot = take_slot(&mut decoder, at, first, &start, &mut inside)?;
                return Ok(Some((1, slot.share(&inside))));
            }
            Ordering::Greater => break,
        }
    }
    Ok(None)
}

/// A leaf with room for all entries that follow, up to the first that is damaged: leaves are read so
/// often that growing their buffers would be seen.
pub(crate) fn leaf_for(mut decoder: Decoder<'_>) -> Leaf {
    let (mut entries, mut names) = (0, 0);
    while decoder.remaining() > 0 {
        let Ok(length) = skip(&mut decoder) else { break };
        entries += 1;
        names += length;
    }
    Leaf::with_capacity(entries, names)
}

/// Passes an entry, and returns the length of its name.
fn skip(decoder: &mut Decoder<'_>) -> Result<usize> {
    let first = decoder.u8()?;
    let length = match take_name(decoder, first)? {
        Name::Plain(name) => name.len(),
        Name::Hex(bytes) => 2 * bytes.len(),
    };
    skip_slot(decoder, first)?;
    Ok(length)
}

fn skip_slot(decoder: &mut Decoder<'_>, first: u8) -> Result<()> {
    match first & 31 {
        inline if usize::from(inline) <= INLINE => drop(decoder.raw(usize::from(inline))?),
        what @ (EMBEDDED | EMBEDDED_HASHED) => {
            if what == EMBEDDED_HASHED {
                decoder.raw(size_of::<Hash>())?;
            }
            decoder.bytes_with_length()?;
        }
        _ => drop(decoder.varint()?),
    }
    Ok(())
}

/// The logical offset that is a distance before `at`.
pub(crate) fn take_reference(decoder: &mut Decoder<'_>, at: u64) -> Result<u64> {
    let start = decoder.clone();
    let distance = decoder.varint()?;
    // Every reference points back, so that no damage makes a cycle.
    at.checked_sub(distance)
        .filter(|offset| *offset > 0 && distance > 0)
        .ok_or_else(|| start.corrupt(format_args!("a distance below {at}"), distance))
}

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
    for index in 0..leaf.len() {
        put_entry(&mut out, AFAR, Some(leaf.name(index)), leaf.slot(index), places);
    }
    *scratch = out.finish();
    Embedded::new(scratch)
}

/// The hash of an embedded directory, if it is with it.
pub(crate) fn embedded_hash(bytes: &[u8]) -> Option<Hash> {
    let hash = bytes.get(1..)?.first_chunk::<{ size_of::<Hash>() }>();
    hash.copied().filter(|_| bytes[0] == EMBEDDED_HASHED)
}

/// The entries of an embedded directory.
fn entries(bytes: &[u8]) -> &[u8] {
    let head = if bytes[0] == EMBEDDED_HASHED { HASHED } else { 1 };
    &bytes[head..]
}

/// No place to write children to: those of an embedded directory have theirs.
struct Nowhere;

impl Places for Nowhere {
    fn node(&self, _: &Arc<Node>) -> u64 {
        unreachable!("what was read holds nothing live")
    }

    fn embedded(&self, _: &Arc<Node>) -> Option<&Embedded> {
        None
    }

    fn value(&self, _: &Arc<[u8]>) -> u64 {
        unreachable!("what was read holds nothing live")
    }
}

/// What stands behind the name of an embedded directory in a record at `at`.
fn put_embedded(out: &mut Encoder, at: u64, bytes: &[u8]) {
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
fn take_body<'a>(decoder: &mut Decoder<'a>) -> Result<&'a [u8]> {
    let start = decoder.clone();
    let body = decoder.bytes_with_length()?;
    fits(body.len(), &start)?;
    Ok(body)
}

fn take_embedded(
    decoder: &mut Decoder<'_>,
    at: u64,
    what: u8,
    inside: &mut Vec<u8>,
) -> Result<Slot> {
    let (start, place) = (decoder.clone(), inside.len());
    if inside.capacity() == 0 {
        inside.reserve(128);
    }
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
const UNHASHED: &str = "it refers to something and has no hash";

fn damaged(what: &str) -> Error {
    Error::new(
        Kind::Corrupt,
        format!(
            "a directory within its parent's record is damaged: {what}; run `varvite check` and restore \
             the store from another copy"
        ),
    )
}

/// What [`find`] says of an embedded directory.
pub(crate) fn find_embedded(bytes: &[u8], path: &[&[u8]]) -> Result<Option<(usize, Slot)>> {
    let entries = Decoder::new("", 0, entries(bytes));
    find_among(entries, AFAR, path, bytes[0] == EMBEDDED).map_err(|error| damaged(error.detail()))
}

/// `Corrupt` when an embedded directory without a hash leads to `slot`, which refers to something.
fn expect_hashed(bytes: &[u8], slot: &Slot) -> Result<()> {
    let refers = match slot {
        Slot::StoredValue(_) | Slot::StoredNode(_) => true,
        Slot::Embedded(inner) => inner[0] == EMBEDDED_HASHED,
        _ => false,
    };
    if refers && bytes[0] == EMBEDDED {
        return Err(damaged(UNHASHED));
    }
    Ok(())
}

/// An embedded directory as a node, with its hash if that is known.
pub(crate) fn embedded_node(bytes: &[u8]) -> Result<Node> {
    let mut decoder = Decoder::new("", 0, entries(bytes));
    let mut leaf = leaf_for(decoder.clone());
    while decoder.remaining() > 0 {
        let mut inside = Vec::new();
        let in_order = leaf
            .push_with(|names| {
                let slot = take_entry(&mut decoder, AFAR, true, names, &mut inside)?;
                Ok(slot.share(&inside))
            })
            .map_err(|error| damaged(error.detail()))?;
        expect_hashed(bytes, leaf.slot(leaf.len() - 1))?;
        if !in_order {
            return Err(damaged("its names are out of order"));
        }
    }
    let mut node = Node::leaf(leaf, true);
    if let Some(hash) = embedded_hash(bytes) {
        node.hash = hash.into();
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::hash;

    #[test]
    fn digits_are_packed_and_come_back() {
        let every: Vec<u8> = (0..=255).collect();
        for length in 0..every.len() {
            for bytes in [&every[..length], &every[every.len() - length..]] {
                let digits = hash::to_hex(bytes).into_bytes();
                assert!(is_hex(&digits));
                let (mut packed, mut unpacked) = (vec![0; length], Vec::new());
                pack_hex(&digits, &mut packed);
                unpack_hex(&packed, &mut unpacked);
                assert_eq!((&packed[..], unpacked), (bytes, digits));
            }
        }
        for byte in 0..=255_u8 {
            let digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            assert_eq!(is_hex(&[b'7', byte]), digit, "{byte}");
        }
    }

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
}

//! The entries of a leaf as bytes: a name, and the value, the reference or the small directory that it
//! leads to.
//!
//! A directory of a few short entries has no record of its own: its entries are in that of its parent,
//! or in a directory that is there itself. In memory it is bytes as well: a byte that says whether it
//! refers to something, then its hash, then its entries, in which references are distances from one
//! offset that no pack reaches. Format document: `docs/format/pack.md`.

mod embedded;

use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) use embedded::{
    Nowhere, Within, each_embedded_reference, each_within, embed, embedded_hash, embedded_kind,
    embedded_node, entries, find_embedded, is_surely_embedded, single, with_inline,
};
use embedded::{UNHASHED, expected_bytes, put_embedded, take_body, take_embedded};

use super::node::{Embedded, INLINE, Leaf, Node, Slot};
use crate::context::hash::Hash;
use crate::error::Result;
use crate::format::codec::{Decoder, Encoder};

/// The logical offset that no pack passes, so that sums and distances of offsets never overflow and
/// references take nine bytes at most.
pub(crate) const OFFSET_MAX: u64 = 1 << 61;

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
pub(crate) fn put_name(out: &mut Encoder, what: u8, name: Option<&[u8]>) {
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

/// Takes an entry's first byte and its name, which is appended to `out`, and returns what is left of the
/// byte. `Corrupt` when [`put_name`] writes the name in another form.
pub(crate) fn take_only_name(decoder: &mut Decoder<'_>, out: &mut Vec<u8>) -> Result<u8> {
    let start = decoder.clone();
    let (first, before) = (decoder.u8()?, out.len());
    take_name(decoder, first)?.append_to(out);
    let name = &out[before..];
    let form = match name.len() {
        length if length >= 4 && is_hex(name) => NAME_HEX,
        length @ 1..=6 => length as u8,
        _ => NAME_LONG,
    };
    if first >> 5 != form {
        return Err(start.corrupt("a name in its shortest form", "another form"));
    }
    Ok(first & 31)
}

/// Bytes that [`put_name`] takes.
fn name_bytes(name: &[u8]) -> usize {
    match name.len() {
        length if length >= 4 && is_hex(name) => 2 + length / 2,
        length @ 1..=6 => 1 + length,
        length => 2 + length,
    }
}

pub(crate) fn is_hex(name: &[u8]) -> bool {
    // Without an early end, so that the compiler compares many at once.
    name.len().is_multiple_of(2)
        && name.iter().fold(true, |all, byte| all & matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Writes the bytes that the hex digits `name` stand for, eight digits at a time.
pub(crate) fn pack_hex(name: &[u8], out: &mut [u8]) {
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
pub(crate) fn unpack_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(2 * bytes.len());
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

/// Takes an entry of a record at `at`: its name as it is written, and what it is in a leaf that is kept in bytes, for
/// which the bytes of what it leads to are appended to `out`.
pub(crate) fn take_kept<'a>(
    decoder: &mut Decoder<'a>,
    at: u64,
    out: &mut Vec<u8>,
) -> Result<(Name<'a>, u8)> {
    let start = decoder.clone();
    let first = decoder.u8()?;
    let name = take_name(decoder, first)?;
    let what = match first & 31 {
        length if usize::from(length) <= INLINE => {
            out.extend_from_slice(decoder.raw(usize::from(length))?);
            length
        }
        what @ (STORED_VALUE | STORED_NODE) => {
            out.extend_from_slice(&take_reference(decoder, at)?.to_le_bytes());
            what
        }
        what @ (EMBEDDED | EMBEDDED_HASHED) => {
            take_embedded(decoder, at, what, out)?;
            EMBEDDED
        }
        other => return Err(start.corrupt("a known kind of entry", other)),
    };
    Ok((name, what))
}

/// How many entries there are from `decoder` on, up to the first that is damaged, and whether paths lead on through
/// any, and all names are pairs of hex digits.
pub(crate) fn outline(mut decoder: Decoder<'_>) -> (usize, bool, bool) {
    let (mut count, mut leads_on, mut digits) = (0, false, true);
    while decoder.remaining() > 0 {
        let Ok(first) = decoder.u8() else { break };
        let Ok(name) = take_name(&mut decoder, first) else { break };
        digits &= match name {
            Name::Plain(name) => is_hex(name),
            Name::Hex(_) => true,
        };
        leads_on |= first & 31 == STORED_NODE;
        count += 1;
        if skip_slot(&mut decoder, first).is_err() {
            break;
        }
    }
    (count, leads_on, digits)
}

/// A name as it is written.
pub(crate) enum Name<'a> {
    Plain(&'a [u8]),
    /// The bytes that its digits stand for.
    Hex(&'a [u8]),
}

impl Name<'_> {
    /// Appends the bytes that its digits stand for; it has no others.
    pub(crate) fn append_packed(&self, out: &mut Vec<u8>) {
        match self {
            Name::Plain(name) => {
                let start = out.len();
                out.resize(start + name.len() / 2, 0);
                pack_hex(name, &mut out[start..]);
            }
            Name::Hex(bytes) => out.extend_from_slice(bytes),
        }
    }

    pub(crate) fn append_to(&self, out: &mut Vec<u8>) {
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

/// Appends all entries of a leaf, for a record at `at`.
pub(crate) fn put_leaf(out: &mut Encoder, at: u64, leaf: &Leaf, places: &dyn Places) {
    for index in 0..leaf.len() {
        put_entry(out, at, Some(leaf.name(index)), leaf.slot(index), places);
    }
}

/// The leaf of the entries from `decoder` on, which are all up to its end.
pub(crate) fn take_leaf(mut decoder: Decoder<'_>, at: u64) -> Result<Leaf> {
    let (mut leaf, mut inside) = leaf_for(decoder.clone());
    while decoder.remaining() > 0 {
        let start = decoder.clone();
        if !leaf.push_with(|names| take_entry(&mut decoder, at, true, names, &mut inside))? {
            return Err(start.corrupt("names in order", "a name out of order"));
        }
    }
    leaf.share(inside);
    Ok(leaf)
}

/// A leaf with room for all entries that follow, up to the first that is damaged, and a buffer with room
/// for the directories in place: leaves are read so often that growing their buffers would be seen.
fn leaf_for(mut decoder: Decoder<'_>) -> (Leaf, Vec<u8>) {
    let (mut entries, mut names, mut within) = (0, 0, 0);
    while decoder.remaining() > 0 {
        let Ok((name, inside)) = skip(&mut decoder) else { break };
        entries += 1;
        names += name;
        within += inside;
    }
    (Leaf::with_capacity(entries, names), Vec::with_capacity(within))
}

/// Passes an entry, and returns the length of its name, and about what it will take among directories in
/// place.
fn skip(decoder: &mut Decoder<'_>) -> Result<(usize, usize)> {
    let first = decoder.u8()?;
    let length = match take_name(decoder, first)? {
        Name::Plain(name) => name.len(),
        Name::Hex(bytes) => 2 * bytes.len(),
    };
    let before = decoder.remaining();
    skip_slot(decoder, first)?;
    Ok((length, expected_bytes(first & 31, before - decoder.remaining())))
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

/// Takes an entry of a record at `at`, and calls `each` with what it refers to.
pub(crate) fn take_references(
    decoder: &mut Decoder<'_>,
    at: u64,
    named: bool,
    each: &mut dyn FnMut(u64),
) -> Result<()> {
    let first = decoder.u8()?;
    if named {
        take_name(decoder, first)?;
    }
    match first & 31 {
        STORED_VALUE | STORED_NODE => each(take_reference(decoder, at)?),
        EMBEDDED_HASHED => {
            decoder.raw(size_of::<Hash>())?;
            let mut inner = Decoder::new("", 0, take_body(decoder)?);
            // Recursion is bounded by the length.
            while inner.remaining() > 0 {
                take_references(&mut inner, at, true, each)?;
            }
        }
        what => skip_slot(decoder, what)?,
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
}

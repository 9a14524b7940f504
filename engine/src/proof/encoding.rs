//! Proofs to bytes and back. A decoder accepts exactly the bytes that the encoder makes.
//!
//! That is checked by encoding again what was read: whatever else a lenient reader lets through, long
//! forms, wrapped integers, dense arrays of few children, differs there. Only JSON may have blanks.

mod compact;
mod irmin;
mod json;
mod plain;
mod segment;

use super::shape::{Element, Kinded, NESTING, Part, Proof, State};
use crate::context::Configuration;
use crate::context::tree::Kind;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;

/// The largest length that Octez can represent, and the least.
const LENGTHS: std::ops::Range<i64> = -(1 << 62)..1 << 62;
/// The longest name that V1 and V2 can encode, in bytes.
const STEP_MAX: usize = 255;
/// Lists and values of V1 and V2 are shorter than this many bytes.
const SIZE_MAX: usize = 1 << 30;
/// From how many children on V1 writes a place for each of the 32.
const DENSE: usize = 16;
/// From how many children on V2 does.
const DENSE_COMPACT: usize = 15;

/// How a proof is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Octez' first encoding: every integer and list at full width.
    V1,
    /// Octez' second encoding: small integers, counts and kinds share a byte.
    V2,
    /// Irmin's own. It has no version: what it decodes to has that of the configuration asked for.
    Irmin,
    /// Text for people and other programs.
    Json,
}

impl Proof {
    /// The bytes. `Invalid` when the encoding cannot represent it: V1 and V2 take names of up to 255
    /// bytes and 2 or 32 buckets, Irmin's no streams, and all at most [`NESTING`](super::NESTING) levels.
    pub fn encode(&self, encoding: Encoding) -> Result<Vec<u8>> {
        match encoding {
            Encoding::V1 => plain::encode(self, self.version & 2 != 0),
            Encoding::V2 => compact::encode(self, self.version & 2 != 0),
            Encoding::Irmin => irmin::encode(self),
            Encoding::Json => json::encode(self),
        }
    }

    /// How many bytes [`Proof::encode`] would give. Text is counted and not made; the others take for a moment as much memory as they
    /// have bytes. `Invalid` as of that.
    pub fn encoded_length(&self, encoding: Encoding) -> Result<u64> {
        match encoding {
            Encoding::Json => json::length(self),
            _ => self.encode(encoding).map(|bytes| bytes.len() as u64),
        }
    }

    /// Reads what [`Proof::encode`] wrote; JSON may have blanks between what it consists of, as programs
    /// that show JSON to people add them. `configuration` is that of the tree whose root the reader knows.
    /// `Corrupt` for anything else, and when the version is that of another configuration or says
    /// otherwise than the rest. Takes memory in proportion to `bytes`, for JSON at most four times as
    /// much. Nothing is hashed: [`Proof::verify`] checks what the proof says.
    pub fn decode(bytes: &[u8], encoding: Encoding, configuration: Configuration) -> Result<Proof> {
        let proof = Proof::decoded(bytes, encoding, configuration).map_err(foreign)?;
        Proof::check_version(proof.version, configuration, proof.is_stream())?;
        Ok(proof)
    }

    fn decoded(bytes: &[u8], encoding: Encoding, configuration: Configuration) -> Result<Proof> {
        let version = match encoding {
            Encoding::V1 => bytes.get(..2),
            Encoding::V2 => bytes.get(1..3),
            Encoding::Irmin | Encoding::Json => None,
        };
        let proof = match (encoding, version) {
            (Encoding::Irmin, _) => {
                Proof { version: Proof::version_of(configuration, false), ..irmin::decode(bytes)? }
            }
            (Encoding::Json, _) => {
                let proof = json::decode(bytes)?;
                json::check_form(bytes, &proof)?;
                proof
            }
            (_, None) => {
                return Err(Decoder::new("proof", 0, bytes).corrupt("a version", "no more bytes"));
            }
            (_, Some(version)) => {
                let [high, low] = [version[0], version[1]];
                if high != 0 || low > 3 {
                    return Err(Decoder::new("proof", 0, bytes)
                        .corrupt("a version of 0 to 3", i16::from_be_bytes([high, low])));
                }
                Proof::check_version(i16::from(low), configuration, low & 1 != 0)?;
                Proof::decoded_as(bytes, encoding, low & 2 != 0, low & 1 != 0)?
            }
        };
        Ok(proof)
    }

    /// As [`Proof::decode`], whatever the version says: what V1 and V2 are read as is up to the caller.
    /// JSON may have its members in any order, and `value` for `contents`, as vectors have them.
    /// For those who compare codecs; a proof that is to be verified goes through `decode`.
    pub fn decode_as(
        bytes: &[u8],
        encoding: Encoding,
        binary: bool,
        stream: bool,
    ) -> Result<Proof> {
        Proof::decoded_as(bytes, encoding, binary, stream).map_err(foreign)
    }

    fn decoded_as(bytes: &[u8], encoding: Encoding, binary: bool, stream: bool) -> Result<Proof> {
        let proof = match encoding {
            Encoding::V1 => plain::decode(bytes, binary, stream)?,
            Encoding::V2 => compact::decode(bytes, binary, stream)?,
            Encoding::Irmin => return irmin::decode(bytes),
            Encoding::Json => return json::decode(bytes),
        };
        let again = proof
            .encode_as(encoding, binary)
            .map_err(|error| Error::corrupt("proof", 0, "a proof", error.detail()))?;
        if again != bytes {
            let same = again.iter().zip(bytes).take_while(|(a, b)| a == b).count();
            return Err(Decoder::new("proof", same as u64, bytes)
                .corrupt("the shortest form", "another one of the same meaning"));
        }
        Ok(proof)
    }

    /// As [`Proof::encode`], for a branching that the version need not name.
    pub fn encode_as(&self, encoding: Encoding, binary: bool) -> Result<Vec<u8>> {
        match encoding {
            Encoding::V1 => plain::encode(self, binary),
            Encoding::V2 => compact::encode(self, binary),
            Encoding::Irmin | Encoding::Json => self.encode(encoding),
        }
    }
}

/// What helps with a damaged store does not help who was sent a damaged proof.
fn foreign(error: Error) -> Error {
    error.advised("ask for another one")
}

/// In which encoding `bytes` are a proof, and the proof, as with [`Proof::decode`]: tries each that has a
/// version. `Corrupt` when it is one in none of them.
pub fn decode_any(bytes: &[u8], configuration: Configuration) -> Result<(Encoding, Proof)> {
    let decode =
        |encoding| Proof::decode(bytes, encoding, configuration).map(|proof| (encoding, proof));
    if bytes.first().is_some_and(|byte| b" \t\r\n{".contains(byte)) {
        return decode(Encoding::Json);
    }
    // The first byte of V1 is 0, and of V2 only where both trees are values.
    let order = if bytes.first() == Some(&0) {
        [Encoding::V1, Encoding::V2]
    } else {
        [Encoding::V2, Encoding::V1]
    };
    decode(order[0]).or_else(|first| decode(order[1]).map_err(|_| first))
}

fn kind_byte(kind: Kind) -> u8 {
    u8::from(kind == Kind::Directory)
}

fn kind_of(reader: &Decoder<'_>, byte: u8) -> Result<Kind> {
    match byte {
        0 => Ok(Kind::Value),
        1 => Ok(Kind::Directory),
        other => Err(reader.corrupt("kind 0 or 1", other)),
    }
}

fn hash_of(reader: &mut Decoder<'_>) -> Result<[u8; 32]> {
    Ok(reader.raw(32)?.try_into().expect("raw returns the length asked for"))
}

/// A big-endian integer of `width` bytes, at most 8.
fn integer(reader: &mut Decoder<'_>, width: usize) -> Result<u64> {
    Ok(reader.raw(width)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn length_of(reader: &mut Decoder<'_>) -> Result<i64> {
    let length = integer(reader, 8)? as i64;
    if !LENGTHS.contains(&length) {
        return Err(reader.corrupt("a length of at most 2^62 - 1", length));
    }
    Ok(length)
}

fn put_length(out: &mut Vec<u8>, length: i64) -> Result<()> {
    if !LENGTHS.contains(&length) {
        return Err(Error::invalid(format!("a length of {length} cannot be encoded")));
    }
    out.extend_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The step and what is in front of it: its length (1).
fn put_step(out: &mut Vec<u8>, step: &[u8]) -> Result<()> {
    if step.len() > STEP_MAX {
        return Err(Error::invalid(format!(
            "a name of {} bytes cannot be encoded, the limit is {STEP_MAX}: use JSON or Irmin's encoding",
            step.len()
        )));
    }
    out.push(step.len() as u8);
    out.extend_from_slice(step);
    Ok(())
}

fn step_of(reader: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let length = reader.u8()?;
    reader.raw(usize::from(length)).map(<[u8]>::to_vec)
}

/// Appends what `put` writes, after its size in 4 bytes.
fn put_sized(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put(out)?;
    let size = out.len() - start - 4;
    if size >= SIZE_MAX {
        return Err(Error::invalid(format!(
            "{size} bytes are more than a proof may have in one place"
        )));
    }
    out[start..start + 4].copy_from_slice(&(size as u32).to_be_bytes());
    Ok(())
}

/// A reader of the bytes that follow their size in 4 bytes.
fn sized<'a>(reader: &mut Decoder<'a>) -> Result<Decoder<'a>> {
    let size = integer(reader, 4)? as usize;
    if size >= SIZE_MAX {
        return Err(reader.corrupt("a size below 2^30", size));
    }
    let start = reader.offset();
    Ok(Decoder::new("proof", start, reader.raw(size)?))
}

/// One level deeper. `Corrupt` when that is too deep.
fn deeper(reader: &Decoder<'_>, level: usize) -> Result<usize> {
    if level >= NESTING {
        return Err(reader.corrupt(format_args!("at most {NESTING} levels"), "more"));
    }
    Ok(level + 1)
}

/// One level deeper. `Invalid` when that is too deep.
fn writing_deeper(level: usize) -> Result<usize> {
    if level >= NESTING {
        return Err(Error::invalid(format!(
            "the proof is nested more than {NESTING} levels deep, which no encoding takes"
        )));
    }
    Ok(level + 1)
}

/// Children at their places in an array of `places`. `Invalid` when they are not in order or too many.
fn placed<C>(children: &[(u16, C)], places: usize) -> Result<Vec<Option<&C>>> {
    let mut array = vec![None; places];
    if !children.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(Error::invalid("the buckets of an inode are not in order"));
    }
    for (index, child) in children {
        let place = array.get_mut(usize::from(*index)).ok_or_else(|| {
            Error::invalid(format!("bucket {index} of an inode of {places} cannot be encoded"))
        })?;
        *place = Some(child);
    }
    Ok(array)
}

/// Each child after the number of its bucket.
fn put_sparse<C>(
    out: &mut Vec<u8>,
    children: &[(u16, C)],
    put: impl Fn(&mut Vec<u8>, &C) -> Result<()>,
) -> Result<()> {
    children.iter().try_for_each(|(index, child)| {
        out.push(small_index(*index)?);
        put(out, child)
    })
}

/// A child or `none` for each of the `places` buckets.
fn put_dense<C>(
    out: &mut Vec<u8>,
    children: &[(u16, C)],
    places: usize,
    none: u8,
    put: impl Fn(&mut Vec<u8>, &C) -> Result<()>,
) -> Result<()> {
    for place in placed(children, places)? {
        match place {
            Some(child) => put(out, child)?,
            None => out.push(none),
        }
    }
    Ok(())
}

fn finished(reader: &Decoder<'_>) -> Result<()> {
    if reader.remaining() > 0 {
        return Err(reader.corrupt("the end", format_args!("{} more bytes", reader.remaining())));
    }
    Ok(())
}

fn tree_of(proof: &Proof) -> Option<&Part> {
    match &proof.state {
        State::Tree(part) => Some(part),
        State::Stream(_) => None,
    }
}

/// Either half of a proof's state behind one call of the codecs.
fn state_of(
    reader: &mut Decoder<'_>,
    stream: bool,
    part: impl FnOnce(&mut Decoder<'_>) -> Result<Part>,
    element: impl Fn(&mut Decoder<'_>) -> Result<Element>,
) -> Result<State> {
    if !stream {
        return part(reader).map(State::Tree);
    }
    let mut list = sized(reader)?;
    let mut elements = Vec::new();
    while list.remaining() > 0 {
        elements.push(element(&mut list)?);
    }
    Ok(State::Stream(elements))
}

fn kinded(kind: Kind, hash: [u8; 32]) -> Kinded {
    Kinded { kind, hash: hash.into() }
}

/// A bucket of a sparse inode in one byte.
fn small_index(index: u16) -> Result<u8> {
    u8::try_from(index)
        .map_err(|_| Error::invalid(format!("bucket {index} of an inode cannot be encoded")))
}

fn not_empty<C>(children: &[(u16, C)]) -> Result<()> {
    if children.is_empty() {
        return Err(Error::invalid("an inode of two buckets without any cannot be encoded"));
    }
    Ok(())
}

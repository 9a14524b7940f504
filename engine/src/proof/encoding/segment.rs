//! The buckets of an extender as bits: so many a bucket, a one, zeros to the end of the byte.

use super::integer;
use crate::error::{Error, Result};
use crate::format::codec::Decoder;

fn width(binary: bool) -> usize {
    if binary { 1 } else { 5 }
}

/// The length in bytes (1), the bits from the most significant on.
pub(super) fn put(out: &mut Vec<u8>, segment: &[u16], binary: bool) -> Result<()> {
    let width = width(binary);
    let bits = segment.len() * width;
    let length = (bits + 8) / 8;
    if length > 255 {
        return Err(Error::invalid(format!(
            "an extender of {} buckets is longer than can be encoded",
            segment.len()
        )));
    }
    let start = out.len() + 1;
    out.push(length as u8);
    out.resize(start + length, 0);
    let mut set = |at: usize| out[start + at / 8] |= 0x80 >> (at % 8);
    for (position, bucket) in segment.iter().enumerate() {
        if usize::from(*bucket) >> width != 0 {
            return Err(Error::invalid(format!(
                "bucket {bucket} of an extender cannot be encoded"
            )));
        }
        for bit in (0..width).filter(|bit| bucket >> (width - 1 - bit) & 1 == 1) {
            set(position * width + bit);
        }
    }
    set(bits);
    Ok(())
}

/// Reads what [`put`] wrote.
pub(super) fn read(reader: &mut Decoder<'_>, binary: bool) -> Result<Vec<u16>> {
    let width = width(binary);
    let length = integer(reader, 1)? as usize;
    let bytes = reader.raw(length)?;
    let last = bytes.last().copied().unwrap_or(0);
    if last == 0 {
        return Err(reader.corrupt("a segment that ends in a one", "none"));
    }
    let bits = length * 8 - 1 - last.trailing_zeros() as usize;
    if !bits.is_multiple_of(width) {
        return Err(reader.corrupt("whole buckets of 5 bits", format_args!("{bits} bits")));
    }
    let bit = |at: usize| u16::from(bytes[at / 8] >> (7 - at % 8) & 1);
    Ok((0..bits / width)
        .map(|position| (0..width).fold(0, |value, at| value << 1 | bit(position * width + at)))
        .collect())
}

//! Reading the integers of Irmin: big-endian where ours are little-endian.

use crate::error::Result;
use crate::format::codec::Decoder;

/// Eight bytes, big-endian.
pub(crate) fn u64(decoder: &mut Decoder<'_>) -> Result<u64> {
    Ok(u64::from_be_bytes(decoder.raw(8)?.try_into().expect("eight bytes")))
}

/// Four bytes, big-endian.
pub(crate) fn u32(decoder: &mut Decoder<'_>) -> Result<u32> {
    Ok(u32::from_be_bytes(decoder.raw(4)?.try_into().expect("four bytes")))
}

/// An offset or length: eight bytes, of which Irmin uses 62 bits.
pub(crate) fn offset(decoder: &mut Decoder<'_>) -> Result<u64> {
    let start = decoder.clone();
    let value = u64(decoder)?;
    if value >> 62 == 0 {
        return Ok(value);
    }
    Err(start.corrupt("an offset below 2^62", value))
}

/// A byte that says whether something follows.
pub(crate) fn present(decoder: &mut Decoder<'_>) -> Result<bool> {
    let start = decoder.clone();
    match decoder.u8()? {
        0 => Ok(false),
        0xff => Ok(true),
        other => Err(start.corrupt("0 or 255", other)),
    }
}

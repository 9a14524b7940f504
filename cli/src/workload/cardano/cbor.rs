//! Walking CBOR that the ledger allows in several shapes: arrays and maps of definite or indefinite
//! length, and sets that may carry tag 258.
//!
//! Lengths in the input are never trusted for an allocation: elements are visited one by one.

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error};

type Result<T> = std::result::Result<T, Error>;

/// The tag that newer eras put before a set.
const SET: u64 = 258;

/// Visits each element of an array or a set.
pub fn elements<'b>(
    decoder: &mut Decoder<'b>,
    mut each: impl FnMut(&mut Decoder<'b>) -> Result<()>,
) -> Result<()> {
    if decoder.datatype()? == Type::Tag {
        let tag = decoder.tag()?.as_u64();
        if tag != SET {
            return Err(Error::message("a tag other than 258 before an array"));
        }
    }
    let count = decoder.array()?;
    walk(decoder, count, &mut each)
}

/// Visits each entry of a map; `each` reads the key and the value.
pub fn entries<'b>(
    decoder: &mut Decoder<'b>,
    mut each: impl FnMut(&mut Decoder<'b>) -> Result<()>,
) -> Result<()> {
    let count = decoder.map()?;
    walk(decoder, count, &mut each)
}

fn walk<'b>(
    decoder: &mut Decoder<'b>,
    count: Option<u64>,
    each: &mut impl FnMut(&mut Decoder<'b>) -> Result<()>,
) -> Result<()> {
    if let Some(count) = count {
        for _ in 0..count {
            each(decoder)?;
        }
    } else {
        while decoder.datatype()? != Type::Break {
            each(decoder)?;
        }
        decoder.skip()?; // the break itself
    }
    Ok(())
}

/// The raw bytes of the next item, exactly as they are in the input.
pub fn raw<'b>(decoder: &mut Decoder<'b>) -> Result<&'b [u8]> {
    let start = decoder.position();
    decoder.skip()?;
    Ok(&decoder.input()[start..decoder.position()])
}

/// A byte string of exactly `N` bytes.
pub fn fixed<const N: usize>(decoder: &mut Decoder<'_>) -> Result<[u8; N]> {
    let position = decoder.position();
    decoder
        .bytes()?
        .try_into()
        .map_err(|_| Error::message("a byte string of another length").at(position))
}

/// How many elements an array announces, when it does; used only where a record's shape depends on it.
pub fn definite(decoder: &mut Decoder<'_>) -> Result<u64> {
    decoder.array()?.ok_or_else(|| Error::message("an array of indefinite length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> Result<u64> {
        let mut total = 0;
        elements(&mut Decoder::new(bytes), |decoder| {
            total += decoder.u64()?;
            Ok(())
        })?;
        Ok(total)
    }

    #[test]
    fn arrays_of_every_shape_are_walked() {
        assert_eq!(sum(&[0x83, 1, 2, 3]).unwrap(), 6);
        assert_eq!(sum(&[0x9f, 1, 2, 3, 0xff]).unwrap(), 6);
        assert_eq!(sum(&[0xd9, 0x01, 0x02, 0x82, 4, 5]).unwrap(), 9);
        assert!(sum(&[0xd9, 0x01, 0x03, 0x82, 4, 5]).is_err());
    }

    #[test]
    fn a_length_that_lies_ends_at_the_end_of_the_bytes() {
        assert!(sum(&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
        assert!(sum(&[0x9f, 1, 2]).is_err());
    }
}

//! The dictionary: names of children by number.

use super::bytes;
use crate::error::Result;
use crate::format::codec::Decoder;

/// Names by number, side by side in one buffer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dict {
    names: Vec<u8>,
    ends: Vec<u32>,
}

impl Dict {
    /// Reads `bytes`, which begin at byte `place` of `file`.
    pub(crate) fn decode(file: &str, place: u64, bytes: &[u8]) -> Result<Dict> {
        let mut dict = Dict::default();
        let mut decoder = Decoder::new(file, place, bytes);
        while decoder.remaining() > 0 {
            let name = take_name(&mut decoder)?;
            dict.names.extend_from_slice(name);
            dict.ends.push(dict.names.len() as u32);
        }
        Ok(dict)
    }

    /// The name with this number.
    pub(crate) fn name(&self, number: u64) -> Option<&[u8]> {
        let index = usize::try_from(number).ok()?;
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(&self.names[start..end])
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// One entry: the length of the name (4), its bytes.
pub(crate) fn take_name<'a>(decoder: &mut Decoder<'a>) -> Result<&'a [u8]> {
    let length = bytes::u32(decoder)? as usize;
    decoder.raw(length)
}

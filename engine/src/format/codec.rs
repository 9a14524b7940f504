//! Cursors over bytes. A [`Decoder`] fails with the file's name and the byte offset; it never
//! allocates more than the bytes that are there.

use crate::error::{Error, Result};

/// Appends values to a growing buffer.
#[derive(Debug, Default)]
pub struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// An empty encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An encoder that reuses the memory of `bytes`, whose content is dropped.
    #[must_use]
    pub fn over(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Encoder { bytes }
    }

    /// An encoder that goes on after `bytes`, in their memory.
    #[must_use]
    pub fn after(bytes: Vec<u8>) -> Self {
        Encoder { bytes }
    }

    /// What was encoded so far.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What was encoded.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }

    /// Room for `count` bytes more, zeros until they are written.
    pub fn room(&mut self, count: usize) -> &mut [u8] {
        let start = self.bytes.len();
        self.bytes.resize(start + count, 0);
        &mut self.bytes[start..]
    }

    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Unsigned LEB128: seven bits a byte, low bits first.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A varint length, then the bytes.
    pub fn bytes_with_length(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }
}

/// Reads values from bytes that start at `base` in the file called `file`.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    file: &'a str,
    base: u64,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder of `bytes`, which begin at byte `base` of `file`.
    #[must_use]
    pub fn new(file: &'a str, base: u64, bytes: &'a [u8]) -> Self {
        Decoder { file, base, bytes, position: 0 }
    }

    /// The place of the next byte in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// How many bytes are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// `Corrupt` at the current place.
    pub fn corrupt(
        &self,
        expected: impl std::fmt::Display,
        found: impl std::fmt::Display,
    ) -> Error {
        Error::corrupt(self.file, self.offset(), expected, found)
    }

    /// The next `length` bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.remaining() {
            return Err(self.corrupt(
                format_args!("{length} more bytes"),
                format_args!("{} bytes before the end", self.remaining()),
            ));
        }
        let bytes = &self.bytes[self.position..self.position + length];
        self.position += length;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.raw(N)?;
        Ok(bytes.try_into().expect("raw returns the length asked for"))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Unsigned LEB128 in its shortest form; anything else is `Corrupt`.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        let mut shift = 0;
        loop {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            let overflows = shift > 63 || (shift == 63 && bits > 1);
            let padded = byte == 0 && shift > 0;
            if overflows || padded {
                return Err(
                    self.corrupt("a shortest varint of 64 bits", format_args!("{byte:#04x}"))
                );
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// A varint that counts things of at least `unit` bytes each that follow, so that a damaged
    /// count cannot ask for more memory than the file is long.
    pub fn count(&mut self, unit: usize) -> Result<usize> {
        let count = self.varint()?;
        let room = self.remaining() / unit.max(1);
        if count > room as u64 {
            return Err(self.corrupt(format_args!("a count of at most {room}"), count));
        }
        Ok(count as usize)
    }

    /// A varint length, then that many bytes.
    pub fn bytes_with_length(&mut self) -> Result<&'a [u8]> {
        let length = self.count(1)?;
        self.raw(length)
    }

    /// A varint length, then that many bytes of UTF-8.
    pub fn text(&mut self) -> Result<&'a str> {
        let start = self.clone();
        let bytes = self.bytes_with_length()?;
        std::str::from_utf8(bytes).map_err(|_| start.corrupt("UTF-8 text", "other bytes"))
    }

    /// `Corrupt` unless all bytes were read.
    pub fn finish(self) -> Result<()> {
        if self.remaining() == 0 {
            return Ok(());
        }
        Err(self.corrupt("the end", format_args!("{} more bytes", self.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let mut encoder = Encoder::new();
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        for number in numbers {
            encoder.varint(number);
        }
        encoder.bytes_with_length(b"name");
        encoder.u16(7);
        let bytes = encoder.finish();
        let mut decoder = Decoder::new("f", 0, &bytes);
        for number in numbers {
            assert_eq!(decoder.varint().unwrap(), number);
        }
        assert_eq!(decoder.text().unwrap(), "name");
        assert_eq!(decoder.u16().unwrap(), 7);
        decoder.finish().unwrap();
    }

    #[test]
    fn errors_name_file_and_offset() {
        let error = Decoder::new("x.segment", 100, &[1, 2]).u64().unwrap_err();
        assert!(error.detail().starts_with("x.segment is damaged at byte 100"), "{error}");
    }

    #[test]
    fn varints_have_one_form() {
        for bytes in [
            &[0x80, 0x00][..],
            &[0xff; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert!(Decoder::new("f", 0, bytes).varint().is_err());
        }
    }

    #[test]
    fn a_damaged_count_allocates_nothing() {
        let mut encoder = Encoder::new();
        encoder.varint(1 << 60);
        assert!(Decoder::new("f", 0, encoder.bytes()).count(8).is_err());
    }
}

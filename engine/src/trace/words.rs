//! Bytes that grow, written by whole words. Behind their end there is always room for one, so a number is one store,
//! whatever its length.

use crate::prefetch;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// Bytes that grow.
#[derive(Debug, Default)]
pub struct Words {
    /// Longer than what was written.
    bytes: Vec<u8>,
    end: usize,
}

impl Words {
    /// Begins again in the same memory.
    pub fn clear(&mut self) {
        self.end = 0;
    }

    /// How many bytes were written.
    pub fn len(&self) -> usize {
        self.end
    }

    /// What was written.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.end]
    }

    /// The same to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.end]
    }

    /// Asks for the memory of the next `length` bytes.
    #[inline]
    pub fn expect(&self, length: usize) {
        prefetch::lines(&self.bytes, self.end, length);
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, end: usize) {
        self.bytes.resize((2 * self.bytes.len()).max(end + WORD), 0);
    }

    /// The first `length` bytes of `word`, little-endian.
    #[inline]
    pub fn word(&mut self, word: u64, length: usize) {
        debug_assert!(length <= WORD);
        let end = self.end;
        let Some(to) = self.bytes.get_mut(end..end + WORD) else {
            return self.grow_to(word, length);
        };
        to.copy_from_slice(&word.to_le_bytes());
        self.end = end + length;
    }

    #[cold]
    #[inline(never)]
    fn grow_to(&mut self, word: u64, length: usize) {
        self.grow(self.end);
        self.word(word, length);
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.word(value.into(), 1);
    }

    /// Unsigned LEB128, as all files have it.
    #[inline]
    pub fn varint(&mut self, value: u64) {
        if value < 0x80 { self.word(value, 1) } else { self.long_varint(value) }
    }

    /// The first two bytes of `word`, then two varints: mostly all are one store.
    #[inline]
    pub fn head(&mut self, word: u64, first: u64, second: u64) {
        if first | second >= 1 << 21 {
            return self.long_head(word, first, second);
        }
        let ((first, first_bytes), (second, second_bytes)) =
            (three_sevens(first), three_sevens(second));
        let place = 2 + first_bytes;
        self.word(word | first << 16 | second << (8 * place), place + second_bytes);
    }

    #[cold]
    #[inline(never)]
    fn long_head(&mut self, word: u64, first: u64, second: u64) {
        self.word(word, 2);
        self.long_varint(first);
        self.long_varint(second);
    }

    /// A varint that is likely to have several bytes.
    #[inline(never)]
    pub fn long_varint(&mut self, value: u64) {
        if value >= 1 << 56 {
            return self.longest_varint(value);
        }
        let (word, length) = varint(value);
        self.word(word, length);
    }

    #[cold]
    #[inline(never)]
    fn longest_varint(&mut self, value: u64) {
        self.word(sevens(value) | CONTINUED, WORD);
        self.varint(value >> 56);
    }

    /// Bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        if self.bytes.len() < end {
            self.grow(end);
        }
        copy(&mut self.bytes[self.end..end], bytes);
        self.end = end;
    }

    /// A varint length, then the bytes.
    #[inline]
    pub fn bytes_with_length(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }
}

/// Copies `from` to `to`, which is as long. Most names and values are short, and are copied without a call: the ends of what has
/// 8 to 64 bytes are copied whole, and overlap.
#[inline]
fn copy(to: &mut [u8], from: &[u8]) {
    const HALF: usize = 16;
    let length = from.len();
    if let (Some(first), Some(last)) = (from.first_chunk::<8>(), from.last_chunk::<8>())
        && length <= 4 * HALF
    {
        if length <= HALF {
            to[..8].copy_from_slice(first);
            to[length - 8..].copy_from_slice(last);
            return;
        }
        to[..HALF].copy_from_slice(&from[..HALF]);
        to[length - HALF..].copy_from_slice(&from[length - HALF..]);
        if length > 2 * HALF {
            to[HALF..2 * HALF].copy_from_slice(&from[HALF..2 * HALF]);
            let at = length - 2 * HALF;
            to[at..at + HALF].copy_from_slice(&from[at..at + HALF]);
        }
        return;
    }
    to.copy_from_slice(from);
}

/// In each byte that another follows.
const CONTINUED: u64 = 0x8080_8080_8080_8080;

/// The low 56 bits, seven in each byte.
#[inline]
fn sevens(value: u64) -> u64 {
    let halves = value & 0x0fff_ffff | (value & 0x00ff_ffff_f000_0000) << 4;
    let quarters = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    quarters & 0x007f_007f_007f_007f | (quarters & 0x3f80_3f80_3f80_3f80) << 1
}

/// The low 28 bits, seven in each byte: of times there are hardly others.
#[inline]
fn four_sevens(value: u64) -> u64 {
    let halves = value & 0x3fff | (value & 0x0fff_c000) << 2;
    halves & 0x007f_007f | (halves & 0x3f80_3f80) << 1
}

/// The varint of a number of at most 21 bits, and its length, without a branch.
#[inline]
fn three_sevens(value: u64) -> (u64, usize) {
    let (two, three) = (u64::from(value >= 1 << 7), u64::from(value >= 1 << 14));
    let groups = value & 0x7f | (value & 0x3f80) << 1 | (value & 0x1f_c000) << 2;
    (groups | two << 7 | three << 15, (1 + two + three) as usize)
}

/// The varint of a number of at most 56 bits, and its length. Its length is no branch: that of a time is any.
#[inline]
fn varint(value: u64) -> (u64, usize) {
    let highest = (value | 1).ilog2();
    // A seventh of what is less than 64.
    let others = (highest * 37) >> 8;
    let continued = CONTINUED & ((1 << (8 * others)) - 1);
    let groups = if value < 1 << 28 { four_sevens(value) } else { sevens(value) };
    (groups | continued, others as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::codec::Encoder;

    fn value_of(bits: u8) -> u64 {
        u64::MAX.checked_shr(64 - u32::from(bits)).unwrap_or(0)
    }

    #[test]
    fn it_writes_what_an_encoder_writes() {
        let (mut words, mut encoder) = (Words::default(), Encoder::new());
        for bits in 0..=64 {
            let first = if bits == 64 { u64::MAX } else { 1 << bits };
            for value in [first, first - 1, first / 3, first.wrapping_add(1)] {
                words.varint(value);
                encoder.varint(value);
                words.word(value, 4);
                encoder.u32(value as u32);
            }
            for (first, second) in [(value_of(bits), 3), (200, value_of(bits / 2)), (0, 1 << 20)] {
                words.head(0x1234, first, second);
                encoder.u8(0x34);
                encoder.u8(0x12);
                encoder.varint(first);
                encoder.varint(second);
            }
            // Of every length that is copied in another way.
            let bytes: Vec<u8> = (0..bits * 2).map(|byte| byte ^ bits).collect();
            words.bytes_with_length(&bytes);
            encoder.bytes_with_length(&bytes);
            words.u8(bits);
            encoder.u8(bits);
        }
        assert_eq!((words.bytes(), words.len()), (encoder.bytes(), encoder.bytes().len()));
        words.clear();
        assert!(words.bytes().is_empty());
    }
}

//! JSON as far as proofs need it, read from the left: objects, lists, text without escapes, integers.

use super::cannot_decode;
use super::sizes::{Sizes, is_blank};
use crate::error::{Error, Result};

/// Where a reader of a text is.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    sizes: Sizes,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0, sizes: Sizes::of(bytes) }
    }

    pub(super) fn corrupt(&self, expected: &str) -> Error {
        let found = self
            .bytes
            .get(self.at)
            .map_or_else(|| "the end".to_owned(), |byte| format!("{:?}", char::from(*byte)));
        cannot_decode(self.at as u64, expected, &found)
    }

    /// The next byte that is no blank.
    fn next(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(|byte| is_blank(*byte)) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    /// Whether the next byte that is no blank is `byte`, which is then passed.
    fn passes(&mut self, byte: u8) -> bool {
        let found = self.next() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// `Corrupt` unless the next byte that is no blank is `byte`.
    pub(super) fn pass(&mut self, byte: u8) -> Result<()> {
        if self.passes(byte) {
            return Ok(());
        }
        Err(self.corrupt(&format!("{:?}", char::from(byte))))
    }

    pub(super) fn is_list(&mut self) -> bool {
        self.next() == Some(b'[')
    }

    pub(super) fn is_text(&mut self) -> bool {
        self.next() == Some(b'"')
    }

    /// `Corrupt` unless nothing follows.
    pub(super) fn end(&mut self) -> Result<()> {
        self.next().map_or(Ok(()), |_| Err(self.corrupt("the end")))
    }

    /// What is in quotes.
    pub(super) fn text(&mut self) -> Result<&'a [u8]> {
        if !self.passes(b'"') {
            return Err(self.corrupt("text in quotes"));
        }
        let start = self.at;
        let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\".contains(byte);
        self.at += self.bytes[start..].iter().take_while(|byte| plain(byte)).count();
        let text = &self.bytes[start..self.at];
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.corrupt("plain text up to the next quote"));
        }
        self.at += 1;
        Ok(text)
    }

    /// Calls `put` with each byte of two of the digits that were just passed.
    pub(super) fn hexadecimal(&self, digits: &[u8], mut put: impl FnMut(usize, u8)) -> Result<()> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = digits.as_chunks::<2>();
        for (at, [high, low]) in pairs.iter().enumerate() {
            let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                return Err(self.corrupt("lower-case hexadecimal digits before this"));
            };
            put(at, high * 16 + low);
        }
        if rest.is_empty() {
            return Ok(());
        }
        Err(self.corrupt("an even number of digits before this"))
    }

    pub(super) fn number(&mut self) -> Result<i64> {
        self.next();
        let start = self.at;
        self.at += usize::from(self.bytes.get(self.at) == Some(&b'-'));
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        digits.parse().map_err(|_| self.corrupt("an integer"))
    }

    /// The name of the one member of an object, up to its value; the caller passes the end.
    pub(super) fn only(&mut self) -> Result<&'a [u8]> {
        self.pass(b'{')?;
        let name = self.text()?;
        self.pass(b':')?;
        Ok(name)
    }

    /// Calls `member` with the name of each member of an object, to read its value.
    pub(super) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8]) -> Result<()>,
    ) -> Result<()> {
        self.pass(b'{')?;
        loop {
            let name = self.text()?;
            self.pass(b':')?;
            member(self, name)?;
            if self.passes(b'}') {
                return Ok(());
            }
            if !self.passes(b',') {
                return Err(self.corrupt("a comma or the end of the object"));
            }
        }
    }

    /// A list of what `item` reads.
    pub(super) fn list<T>(&mut self, item: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.pass(b'[')?;
        if self.passes(b']') {
            return Ok(Vec::new());
        }
        let first = self.next();
        let mut items = Vec::with_capacity(self.sizes.next(first));
        loop {
            items.push(item(self)?);
            if self.passes(b']') {
                return Ok(items);
            }
            if !self.passes(b',') {
                return Err(self.corrupt("a comma or the end of the list"));
            }
        }
    }
}

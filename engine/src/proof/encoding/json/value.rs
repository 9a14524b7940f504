//! JSON as far as proofs need it: objects, lists, text without escapes, integers.

use std::fmt::Write;

use super::wrong;
use crate::error::Result;
use crate::format::codec::Decoder;
use crate::proof::shape::NESTING;

/// A level of a proof takes four of JSON: object, list, pair, object; the whole takes a few more.
const LEVELS: usize = 4 * NESTING + 8;

pub(super) fn is_blank(byte: u8) -> bool {
    b" \t\r\n".contains(&byte)
}

/// A value. Members keep their order.
#[derive(Debug)]
pub(super) enum Json {
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
    Text(String),
    Number(i64),
}

impl Json {
    /// Appends it without blanks.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Json::Object(members) => {
                out.push('{');
                for (index, (name, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    // No name and no text here holds anything that JSON would escape.
                    let _ = write!(out, "\"{name}\":");
                    value.write(out);
                }
                out.push('}');
            }
            Json::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Json::Text(text) => {
                let _ = write!(out, "\"{text}\"");
            }
            Json::Number(number) => {
                let _ = write!(out, "{number}");
            }
        }
    }

    /// The one value that `bytes` are. `Corrupt` for anything else.
    pub(super) fn read(bytes: &[u8]) -> Result<Json> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        reader.blanks();
        if reader.at < bytes.len() {
            return Err(reader.corrupt("the end"));
        }
        Ok(value)
    }

    /// The member called `name`.
    pub(super) fn field(&self, name: &str) -> Result<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(member, _)| member == name),
            _ => None,
        }
        .map(|(_, value)| value)
        .ok_or_else(|| wrong(format_args!("no {name:?} where one belongs")))
    }

    /// Name and value of the one member.
    pub(super) fn only(&self) -> Result<(&str, &Json)> {
        match self {
            Json::Object(members) if members.len() == 1 => Ok((&members[0].0, &members[0].1)),
            _ => Err(wrong("something else than an object of one member")),
        }
    }

    pub(super) fn list(&self) -> Result<&[Json]> {
        match self {
            Json::List(items) => Ok(items),
            _ => Err(wrong("something else than a list")),
        }
    }

    pub(super) fn text(&self) -> Result<&str> {
        match self {
            Json::Text(text) => Ok(text),
            _ => Err(wrong("something else than text")),
        }
    }

    pub(super) fn number(&self) -> Result<i64> {
        match self {
            Json::Number(number) => Ok(*number),
            _ => Err(wrong("something else than a number")),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn corrupt(&self, expected: &str) -> crate::error::Error {
        let found = self
            .bytes
            .get(self.at)
            .map_or_else(|| "the end".to_owned(), |byte| format!("{:?}", char::from(*byte)));
        Decoder::new("proof", self.at as u64, &[]).corrupt(expected, found)
    }

    fn blanks(&mut self) {
        while self.bytes.get(self.at).is_some_and(|byte| is_blank(*byte)) {
            self.at += 1;
        }
    }

    /// Whether the next byte that is no blank is `byte`, which is then passed.
    fn passes(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, level: usize) -> Result<Json> {
        if level > LEVELS {
            return Err(self.corrupt("fewer levels"));
        }
        if self.passes(b'{') {
            return self.members(level);
        }
        if self.passes(b'[') {
            let mut items = Vec::new();
            if self.passes(b']') {
                return Ok(Json::List(items));
            }
            loop {
                items.push(self.value(level + 1)?);
                if self.passes(b']') {
                    return Ok(Json::List(items));
                }
                if !self.passes(b',') {
                    return Err(self.corrupt("a comma or the end of the list"));
                }
            }
        }
        if self.bytes.get(self.at) == Some(&b'"') {
            return self.string().map(Json::Text);
        }
        let start = self.at;
        self.at += usize::from(self.bytes.get(self.at) == Some(&b'-'));
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.bytes[start..self.at]).unwrap_or_default();
        digits.parse().map(Json::Number).map_err(|_| self.corrupt("a value"))
    }

    fn members(&mut self, level: usize) -> Result<Json> {
        let mut members: Vec<(String, Json)> = Vec::new();
        if self.passes(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            let name = self.string()?;
            // No object of a proof has more than four members.
            if members.len() >= 16 || members.iter().any(|(member, _)| *member == name) {
                return Err(self.corrupt("a few members of different names"));
            }
            if !self.passes(b':') {
                return Err(self.corrupt("a colon"));
            }
            members.push((name, self.value(level + 1)?));
            if self.passes(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.passes(b',') {
                return Err(self.corrupt("a comma or the end of the object"));
            }
        }
    }

    fn string(&mut self) -> Result<String> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.corrupt("text in quotes"));
        }
        let start = self.at + 1;
        let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"\\".contains(byte);
        self.at = start + self.bytes[start..].iter().take_while(|byte| plain(byte)).count();
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.corrupt("plain text up to the next quote"));
        }
        self.at += 1;
        Ok(self.bytes[start..self.at - 1].iter().map(|byte| char::from(*byte)).collect())
    }
}

//! The forms in which a table is dumped and loaded: JSON lines, CSV, and lengths and bytes.
//!
//! Binary: the line `varvite dump 2`, then for each entry the length of the key plus one as a varint (seven
//! bits a byte, the least first), the key, the length of the value, the value; then a zero byte, the count of
//! entries as 8 bytes and the CRC-32C of everything before it as 4, both little-endian. A dump that was
//! cut short has no end, which JSON lines cannot tell. In `varvite dump 1`, which is read too, lengths of keys
//! are as they are: it has no empty key.

pub mod tables;

use std::io::{self, BufRead, Write};

use serde::Deserialize;
use varvite::raw::format::checksum::crc_append;
use varvite::table::KEY_BYTES_MAX;
use varvite::{Error, Kind, Result};

use super::csv;
pub use super::csv::Part;
use crate::input;
use crate::print;
use crate::text::Notation;

const MAGIC: &[u8] = b"varvite dump 2\n";
const MAGIC_1: &[u8] = b"varvite dump 1\n";
/// How a dump of all tables begins.
const TABLES: &[u8] = b"varvite tables 1\n";

/// Bytes of a value at most: what five digits of a length say, and memory can hold.
const LENGTH_MAX: usize =
    if usize::BITS > 35 { (1u64 << 35) as usize - 1 } else { isize::MAX as usize };
const LENGTH_DIGITS: usize = 5;

/// Whether a file is a binary dump, by its first bytes.
pub fn is_dump(bytes: &[u8]) -> bool {
    [MAGIC, MAGIC_1, TABLES].iter().any(|magic| bytes.starts_with(magic))
}

/// How a dump of one table is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Of keys and values in text.
    pub notation: Notation,
    /// What a CSV calls the columns of keys and values, if not `key` and `value`.
    pub columns: Option<(&'a str, &'a str)>,
}

/// Writes the binary form.
pub struct Writer<W> {
    to: W,
    count: u64,
    crc: u32,
    frame: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a dump.
    pub fn new(mut to: W) -> io::Result<Self> {
        to.write_all(MAGIC)?;
        Ok(Writer { to, count: 0, crc: crc_append(0, MAGIC), frame: Vec::new() })
    }

    /// Adds an entry.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.frame.clear();
        // A length of 0 is the end.
        put_framed(&mut self.frame, key, key.len() + 1);
        put_framed(&mut self.frame, value, value.len());
        self.crc = crc_append(self.crc, &self.frame);
        self.count += 1;
        self.to.write_all(&self.frame)
    }

    /// Ends the dump.
    pub fn finish(mut self) -> io::Result<()> {
        let end = [&[0][..], &self.count.to_le_bytes()].concat();
        self.to.write_all(&end)?;
        self.to.write_all(&crc_append(self.crc, &end).to_le_bytes())?;
        self.to.flush()
    }
}

/// Adds a number, seven bits a byte, and the bytes behind it.
fn put_framed(frame: &mut Vec<u8>, bytes: &[u8], mut number: usize) {
    while number >= 0x80 {
        frame.push(number as u8 | 0x80);
        number >>= 7;
    }
    frame.push(number as u8);
    frame.extend_from_slice(bytes);
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    key: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    value: std::borrow::Cow<'a, str>,
}

/// Gives every entry of a dump in any form to `each`; returns how many there were. `Corrupt` names
/// the line or the byte where the input is no dump.
pub fn read(
    name: &str,
    mut from: impl BufRead,
    reading: Reading<'_>,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let mut line = Vec::new();
    input::line(&mut from, (name, 1), &mut line)?;
    let notation = reading.notation;
    if tables::is_first(&line) {
        let detail = format!("{name} is a dump of all tables of a store: load it with --all");
        return Err(Error::invalid(detail));
    }
    if let Some((key, value)) = reading.columns {
        let columns = csv::Columns::called(&line, key, value).ok_or_else(|| {
            let has = csv::other_columns(&line).map_or(String::new(), |has| format!(", but {has}"));
            let what = format!("{name} has no columns {key} and {value} in its first line{has}");
            Error::invalid(what)
        })?;
        return csv::read(name, from, &columns, notation, each);
    }
    if [MAGIC, MAGIC_1].contains(&&line[..]) {
        let offset = line.len() as u64;
        let added = usize::from(line == MAGIC);
        let binary = Binary { name, from, offset, crc: crc_append(0, &line), added };
        return binary.read_alone(each);
    }
    if let Some(columns) = csv::Columns::of(&line) {
        return csv::read(name, from, &columns, notation, each);
    }
    if let Some(others) = csv::other_columns(&line) {
        return Err(Error::invalid(format!(
            "{name} is a CSV with the columns {others}: say with --key-column and --value-column which of them are keys and \
             values"
        )));
    }
    let (mut number, mut count) = (1, 0);
    while !line.is_empty() {
        if !line.trim_ascii().is_empty() {
            let entry: Line<'_> = serde_json::from_slice(&line).map_err(|error| {
                // The line that the error counts is always the first.
                let (what, column) = (error.to_string(), error.column());
                let what = what.split(" at line ").next().unwrap_or_default();
                let place = format!("line {number}, column {column}: {what}");
                let is_other = number == 1 && !line.trim_ascii().starts_with(b"{");
                let or = if is_other {
                    ", or, in a CSV, the first line should name the columns key and value"
                } else {
                    ""
                };
                Error::new(
                    Kind::Corrupt,
                    format!(
                        "{name}, {place}; each line should be {{\"key\": …, \"value\": …}}{or}"
                    ),
                )
            })?;
            let named = |error: Error| input::in_line((name, number), &error);
            let key = notation.parse("key", &entry.key).map_err(named)?;
            let value = notation.parse("value", &entry.value).map_err(named)?;
            each(&key, &value).map_err(|error| input::at_line((name, number), error))?;
            count += 1;
        }
        line.clear();
        number += 1;
        input::line(&mut from, (name, number), &mut line)?;
    }
    Ok(count)
}

struct Binary<'a, R> {
    name: &'a str,
    from: R,
    offset: u64,
    crc: u32,
    /// How much greater than a key's length its number is.
    added: usize,
}

impl<R: BufRead> Binary<'_, R> {
    fn corrupt(&self, expected: &str, found: impl std::fmt::Display) -> Error {
        Error::new(
            Kind::Corrupt,
            format!(
                "{} is damaged at byte {}: expected {expected}, found {found}; dump the table again",
                self.name, self.offset
            ),
        )
    }

    fn take(&mut self, into: &mut Vec<u8>, length: usize) -> Result<()> {
        // What is there decides how much memory is taken, not what the length says.
        into.clear();
        let start = self.offset;
        while into.len() < length {
            let bytes = self.from.fill_buf().map_err(|error| input::failed(self.name, &error))?;
            if bytes.is_empty() {
                return Err(self.corrupt("more of the dump", "its end"));
            }
            let now = bytes.len().min(length - into.len());
            if into.try_reserve(now).is_err() {
                let detail = format!(
                    "{}, byte {start}: there is no memory for the {} that begin there",
                    self.name,
                    print::bytes(length as u64)
                );
                return Err(Error::invalid(detail));
            }
            into.extend_from_slice(&bytes[..now]);
            self.from.consume(now);
            self.offset += now as u64;
        }
        self.crc = crc_append(self.crc, into);
        Ok(())
    }

    fn length(&mut self, scratch: &mut Vec<u8>, most: usize) -> Result<usize> {
        let mut length = 0u64;
        for shift in (0..).step_by(7).take(LENGTH_DIGITS) {
            self.take(scratch, 1)?;
            length |= u64::from(scratch[0] & 0x7f) << shift;
            if scratch[0] < 0x80 {
                break;
            }
        }
        if length > most as u64 || scratch[0] >= 0x80 {
            return Err(self.corrupt(&format!("a length of at most {most}"), length));
        }
        Ok(length as usize)
    }

    /// Reads one that nothing follows.
    fn read_alone(mut self, each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<u64> {
        let count = self.read(each)?;
        self.expect_end()?;
        Ok(count)
    }

    fn read(&mut self, mut each: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<u64> {
        let (mut key, mut value, mut count) = (Vec::new(), Vec::new(), 0u64);
        loop {
            let length = self.length(&mut key, KEY_BYTES_MAX + self.added)?;
            if length == 0 {
                break;
            }
            self.take(&mut key, length - self.added)?;
            let length = self.length(&mut value, LENGTH_MAX)?;
            self.take(&mut value, length)?;
            each(&key, &value).map_err(|error| match error.kind() {
                Kind::Invalid => {
                    error.context(format!("{}, the entry before byte {}", self.name, self.offset))
                }
                _ => error,
            })?;
            count += 1;
        }
        self.take(&mut key, 8)?;
        if key != count.to_le_bytes() {
            return Err(self.corrupt(&format!("a count of {count} entries"), "another"));
        }
        let crc = self.crc;
        self.take(&mut key, 4)?;
        if key != crc.to_le_bytes() {
            return Err(self.corrupt(&format!("checksum {crc:08x}"), "another"));
        }
        Ok(count)
    }

    /// `Corrupt` when there is more, which would be gone without a word.
    fn expect_end(&mut self) -> Result<()> {
        let rest = self.from.fill_buf().map_err(|error| input::failed(self.name, &error))?;
        if !rest.is_empty() {
            let detail = format!(
                "{} goes on at byte {}, behind the end of the dump: give the dump alone, and the rest to another command",
                self.name, self.offset
            );
            return Err(Error::new(Kind::Corrupt, detail));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut found = Vec::new();
        let reading = Reading { notation: Notation::Text, columns: None };
        let count = read("dump", bytes, reading, |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        assert_eq!(count, found.len() as u64);
        Ok(found)
    }

    fn written(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes).unwrap();
        for (key, value) in entries {
            writer.add(key, value).unwrap();
        }
        writer.finish().unwrap();
        bytes
    }

    #[test]
    fn the_bytes_are_as_the_guide_says() {
        let bytes = written(&[(b"k".to_vec(), b"v".to_vec())]);
        assert_eq!(bytes[..15], *b"varvite dump 2\n");
        assert_eq!(bytes[15..28], [2, b'k', 1, b'v', 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes.len(), 32);
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let list: Vec<_> = (0..=255u8)
            .map(|byte| (vec![byte; usize::from(byte)], vec![byte; usize::from(byte) * 200]))
            .collect();
        let bytes = written(&list);
        assert_eq!(entries(&bytes).unwrap(), list);
        let few = written(&list[..3]);
        for at in MAGIC.len()..few.len() {
            let cut = entries(&few[..at]).unwrap_err();
            assert_eq!(cut.kind(), Kind::Corrupt, "cut at {at}: {cut}");
            let mut flipped = few.clone();
            flipped[at] ^= 4;
            assert!(entries(&flipped).is_err(), "flipped at {at}");
        }
    }

    #[test]
    fn a_dump_of_before_is_read() {
        let mut bytes = [MAGIC_1, &[1, b'k', 1, b'v', 0, 1, 0, 0, 0, 0, 0, 0, 0]].concat();
        bytes.extend(crc_append(0, &bytes).to_le_bytes());
        assert_eq!(entries(&bytes).unwrap(), [(b"k".to_vec(), b"v".to_vec())]);
    }

    #[test]
    fn json_lines_say_which_line_is_none() {
        let good = b"{\"key\":\"a\\\\x00\",\"value\":\"\"}\n\n{\"value\":\"v\",\"key\":\"b\"}";
        let expected = vec![(b"a\0".to_vec(), vec![]), (b"b".to_vec(), b"v".to_vec())];
        assert_eq!(entries(good).unwrap(), expected);
        let error = entries(b"{\"key\":\"a\",\"value\":\"\"}\nno\n").unwrap_err();
        assert!(error.detail().contains("line 2"), "{error}");
        assert!(entries(b"").unwrap().is_empty());
    }
}

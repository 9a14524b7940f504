//! All tables of a store in one stream, in each form that a dump of one has.
//!
//! JSON lines: `{"table": …, "operator": …}` begins a table, and its entries follow. CSV: the same, told apart by the
//! column `what`. Binary: the line `varvite tables 1`; for each table the length of its name plus one as a varint, the name,
//! the length of its operator's name (0 for none), that name, the CRC-32C of these bytes as 4, little-endian, and a
//! whole binary dump; then a zero byte, the number of tables as 8 bytes and the CRC-32C of these nine as 4.

use std::io::{self, BufRead, Write};

use serde::Deserialize;
use varvite::raw::format::checksum::crc_append;
use varvite::{Error, Kind, Result};

use super::super::csv::{self, Part, TableColumns};
use super::{Binary, MAGIC, TABLES, put_framed};
use crate::input;
use crate::text::Notation;

/// Bytes of the name of a table or an operator at most.
const NAME_BYTES_MAX: usize = 1 << 16;

/// Begins a binary dump.
pub fn begin(to: &mut impl Write) -> io::Result<()> {
    to.write_all(TABLES)
}

/// Begins a table, whose own dump follows.
pub fn begin_table(to: &mut impl Write, name: &str, operator: Option<&str>) -> io::Result<()> {
    let mut frame = Vec::new();
    put_framed(&mut frame, name.as_bytes(), name.len() + 1);
    let operator = operator.unwrap_or_default();
    put_framed(&mut frame, operator.as_bytes(), operator.len());
    let crc = crc_append(0, &frame);
    frame.extend(crc.to_le_bytes());
    to.write_all(&frame)
}

/// Ends a dump of so many tables.
pub fn finish(to: &mut impl Write, count: u64) -> io::Result<()> {
    let end = [&[0][..], &count.to_le_bytes()].concat();
    to.write_all(&end)?;
    to.write_all(&crc_append(0, &end).to_le_bytes())?;
    to.flush()
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    table: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    operator: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    key: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<std::borrow::Cow<'a, str>>,
}

/// Whether a first line is one of a dump of all tables.
pub fn is_first(line: &[u8]) -> bool {
    let begins_table = || {
        let line: Option<Line<'_>> = serde_json::from_slice(line).ok();
        line.is_some_and(|line| line.table.is_some() && line.key.is_none())
    };
    line == TABLES || TableColumns::of(line).is_some() || begins_table()
}

/// Gives what a dump of all tables has to `each`, in any form. `Corrupt` names the line or the byte where the input is
/// none, `Invalid` is a dump of one table.
pub fn read(
    name: &str,
    mut from: impl BufRead,
    notation: Notation,
    mut each: impl FnMut(Part<'_>) -> Result<()>,
) -> Result<()> {
    let mut line = Vec::new();
    input::line(&mut from, (name, 1), &mut line)?;
    if line == TABLES {
        return read_binary(name, from, each);
    }
    if let Some(columns) = TableColumns::of(&line) {
        return csv::read_tables(name, from, &columns, each);
    }
    if line.is_empty() {
        return Ok(());
    }
    if !is_first(&line) {
        return Err(Error::invalid(format!(
            "{name} is no dump of all tables: leave --all out, and say which table it is of"
        )));
    }
    let mut number = 1;
    while !line.is_empty() {
        if !line.trim_ascii().is_empty() {
            let at = (name, number);
            let part: Option<Line<'_>> = serde_json::from_slice(&line).ok();
            let done = match part {
                Some(Line { table: Some(table), operator, key: None, value: None }) => {
                    each(Part::Table { name: &table, operator: operator.as_deref() })
                }
                Some(Line { table: None, operator: None, key: Some(key), value: Some(value) }) => {
                    let parse = |what, text| {
                        notation.parse(what, text).map_err(|error| input::in_line(at, &error))
                    };
                    let (key, value) = (parse("key", &key)?, parse("value", &value)?);
                    each(Part::Entry { key: &key, value: &value })
                }
                _ => {
                    let expected =
                        "each line should be {\"table\": …} or {\"key\": …, \"value\": …}";
                    return Err(Error::new(
                        Kind::Corrupt,
                        format!("{name}, line {number}: {expected}"),
                    ));
                }
            };
            done.map_err(|error| input::at_line(at, error))?;
        }
        line.clear();
        number += 1;
        input::line(&mut from, (name, number), &mut line)?;
    }
    Ok(())
}

fn read_binary(
    name: &str,
    from: impl BufRead,
    mut each: impl FnMut(Part<'_>) -> Result<()>,
) -> Result<()> {
    let offset = TABLES.len() as u64;
    let mut binary = Binary { name, from, offset, crc: 0, added: 1 };
    let (mut bytes, mut count) = (Vec::new(), 0_u64);
    loop {
        binary.crc = 0;
        let length = binary.length(&mut bytes, NAME_BYTES_MAX + 1)?;
        if length == 0 {
            break;
        }
        let table = text(&mut binary, length - 1)?;
        let length = binary.length(&mut bytes, NAME_BYTES_MAX)?;
        let operator = text(&mut binary, length)?;
        checksum(&mut binary)?;
        let operator = Some(&*operator).filter(|operator| !operator.is_empty());
        each(Part::Table { name: &table, operator })?;
        binary.crc = 0;
        binary.take(&mut bytes, MAGIC.len())?;
        if bytes != MAGIC {
            return Err(binary.corrupt("the dump of a table", "something else"));
        }
        binary.read(|key, value| each(Part::Entry { key, value }))?;
        count += 1;
    }
    binary.take(&mut bytes, 8)?;
    if bytes != count.to_le_bytes() {
        return Err(binary.corrupt(&format!("a count of {count} tables"), "another"));
    }
    checksum(&mut binary)?;
    binary.expect_end()
}

/// Reads a name.
fn text<R: BufRead>(binary: &mut Binary<'_, R>, length: usize) -> Result<String> {
    let mut bytes = Vec::new();
    binary.take(&mut bytes, length)?;
    String::from_utf8(bytes).map_err(|_| binary.corrupt("a name", "bytes that are no UTF-8"))
}

/// Reads the checksum of what was read since it was begun.
fn checksum<R: BufRead>(binary: &mut Binary<'_, R>) -> Result<()> {
    let (crc, mut bytes) = (binary.crc, Vec::new());
    binary.take(&mut bytes, 4)?;
    if bytes == crc.to_le_bytes() {
        return Ok(());
    }
    Err(binary.corrupt(&format!("checksum {crc:08x}"), "another"))
}

#[cfg(test)]
mod tests {
    use super::super::{Reading, Writer};
    use super::*;

    type Found = Vec<(String, Option<String>, Vec<(Vec<u8>, Vec<u8>)>)>;

    fn all(bytes: &[u8]) -> Result<Found> {
        let mut found: Found = Vec::new();
        read("dump", bytes, Notation::Text, |part| {
            match part {
                Part::Table { name, operator } => {
                    found.push((name.to_owned(), operator.map(str::to_owned), Vec::new()));
                }
                Part::Entry { key, value } => {
                    found.last_mut().unwrap().2.push((key.to_vec(), value.to_vec()));
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn written() -> Vec<u8> {
        let mut bytes = Vec::new();
        begin(&mut bytes).unwrap();
        begin_table(&mut bytes, "a", Some("add-u64")).unwrap();
        let mut writer = Writer::new(&mut bytes).unwrap();
        writer.add(b"", b"1").unwrap();
        writer.add(b"k", b"").unwrap();
        writer.finish().unwrap();
        begin_table(&mut bytes, "empty", None).unwrap();
        Writer::new(&mut bytes).unwrap().finish().unwrap();
        finish(&mut bytes, 2).unwrap();
        bytes
    }

    #[test]
    fn what_is_written_of_several_tables_is_read_and_nothing_else() {
        let bytes = written();
        let entries = vec![(Vec::new(), b"1".to_vec()), (b"k".to_vec(), Vec::new())];
        let expected = [
            ("a".to_owned(), Some("add-u64".to_owned()), entries),
            ("empty".to_owned(), None, Vec::new()),
        ];
        assert_eq!(all(&bytes).unwrap(), expected);
        for at in TABLES.len()..bytes.len() {
            let cut = all(&bytes[..at]).unwrap_err();
            assert_eq!(cut.kind(), Kind::Corrupt, "cut at {at}: {cut}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert!(all(&flipped).is_err(), "flipped at {at}");
        }
        assert!(all(&[&bytes[..], b"x"].concat()).is_err());
    }

    #[test]
    fn one_table_and_all_are_told_apart() {
        let json = b"{\"table\":\"a\",\"operator\":null}\n{\"key\":\"k\",\"value\":\"v\"}\n";
        let csv = b"table,what,operator,key,value\na,table,,,\na,entry,,k,v\n";
        let reading = Reading { notation: Notation::Text, columns: None };
        for bytes in [&written()[..], json, csv] {
            let error = super::super::read("dump", bytes, reading, |_, _| Ok(())).unwrap_err();
            assert!(error.kind() == Kind::Invalid && error.detail().contains("--all"), "{error}");
        }
        for bytes in [&b"{\"key\":\"k\",\"value\":\"v\"}\n"[..], b"key,value\nk,v\n", MAGIC] {
            let error = all(bytes).unwrap_err();
            assert!(error.kind() == Kind::Invalid && error.detail().contains("--all"), "{error}");
        }
        assert_eq!(all(json).unwrap()[0].2, [(b"k".to_vec(), b"v".to_vec())]);
        assert_eq!(all(json).unwrap(), all(csv).unwrap());
        for bad in [
            &b"{\"table\":\"a\"}\n{\"key\":\"k\"}\n"[..],
            b"{\"table\":\"a\"}\nno\n",
            b"table,what,operator,key,value\na,entry,,k,v\n",
            b"table,what,operator,key,value\na,table,,,\nb,entry,,k,v\n",
            b"table,what,operator,key,value\na,other,,,\n",
        ] {
            let error = all(bad).unwrap_err();
            assert!(error.kind() == Kind::Corrupt && error.detail().contains("line "), "{error}");
        }
    }
}

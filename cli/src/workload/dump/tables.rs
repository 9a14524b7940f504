//! All tables of a store in one stream, in each form that a dump of one has.
//!
//! JSON lines: `{"table": …, "operator": …}` begins a table, its entries follow, and the last line is `{"tables": 2}`, their
//! number. CSV: the same, told apart by the column `what`; the last record is `2,tables,,,`. Binary: the line `varvite tables 1`; for each table the length of its name plus one as a varint, the name,
//! the length of its operator's name (0 for none), that name, the CRC-32C of these bytes as 4, little-endian, and a
//! whole binary dump; then a zero byte, the number of tables as 8 bytes and the CRC-32C of these nine as 4.

use std::io::{self, BufRead, Write};

use serde::Deserialize;
use varvite::raw::format::checksum::crc_append;
use varvite::{Error, Kind, Result};

use super::super::csv::{self, Part, TableColumns, Tables};
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
#[serde(deny_unknown_fields)]
struct Line<'a> {
    /// The end: how many tables there are.
    tables: Option<u64>,
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
    #[derive(Deserialize)]
    struct Begun {
        #[serde(default)]
        table: serde_json::Value,
        #[serde(default)]
        tables: serde_json::Value,
        #[serde(default)]
        key: serde_json::Value,
    }
    let begins_table = || {
        let line: Option<Begun> = serde_json::from_slice(line).ok();
        line.is_some_and(|line| {
            line.key.is_null() && (line.table.is_string() || line.tables.is_u64())
        })
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
    let (mut line, mut number) = (Vec::new(), 1);
    input::line(&mut from, (name, number), &mut line)?;
    while !line.is_empty() && line.trim_ascii().is_empty() {
        line.clear();
        number += 1;
        input::line(&mut from, (name, number), &mut line)?;
    }
    if line == TABLES {
        return read_binary(name, from, each);
    }
    if let Some(columns) = TableColumns::of(&line) {
        return csv::read_tables((name, number), from, &columns, each);
    }
    if line.is_empty() {
        let detail = format!(
            "{name} is empty: a dump of all tables says at its end how many they are, even of none"
        );
        return Err(Error::new(Kind::Corrupt, detail));
    }
    if !is_first(&line) {
        return Err(Error::invalid(format!(
            "{name} is no dump of all tables: leave --all out, and say which table it is of"
        )));
    }
    let mut tables = Tables::new(name);
    while !line.is_empty() {
        if !line.trim_ascii().is_empty() {
            read_line((name, number), &line, notation, &mut tables, &mut each)?;
        }
        line.clear();
        number += 1;
        input::line(&mut from, (name, number), &mut line)?;
    }
    tables.expect_end(|count| format!("{{\"tables\":{count}}}"))
}

/// Gives what a line of JSON has to `each`.
fn read_line(
    at: (&str, u64),
    line: &[u8],
    notation: Notation,
    tables: &mut Tables<'_>,
    each: &mut impl FnMut(Part<'_>) -> Result<()>,
) -> Result<()> {
    let (name, number) = at;
    let part: Option<Line<'_>> = serde_json::from_slice(line).ok();
    let done = match part {
        Some(Line { tables: None, table: Some(table), operator, key: None, value: None }) => {
            tables.part(number, true)?;
            each(Part::Table { name: &table, operator: operator.as_deref() })
        }
        Some(Line {
            tables: None,
            table: None,
            operator: None,
            key: Some(key),
            value: Some(value),
        }) => {
            tables.part(number, false)?;
            let parse =
                |what, text| notation.parse(what, text).map_err(|error| input::in_line(at, &error));
            let (key, value) = (parse("key", &key)?, parse("value", &value)?);
            each(Part::Entry { key: &key, value: &value })
        }
        Some(Line { tables: Some(count), table: None, operator: None, key: None, value: None }) => {
            return tables.end(number, count);
        }
        _ => {
            let expected = "each line should be {\"table\": …}, {\"key\": …, \"value\": …} or, at the end, {\"tables\": …}";
            return Err(Error::new(Kind::Corrupt, format!("{name}, line {number}: {expected}")));
        }
    };
    done.map_err(|error| input::at_line(at, error))
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
        let json = b"{\"table\":\"a\",\"operator\":null}\n{\"key\":\"k\",\"value\":\"v\"}\n{\"tables\":1}\n";
        let csv = b"table,what,operator,key,value\na,table,,,\na,entry,,k,v\n1,tables,,,\n";
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
            b"table,what,operator,key,value\n1,tables,,,\n",
            b"table,what,operator,key,value\n0,tables,,,\na,table,,,\n",
            b"{\"tables\":1}\n",
            b"{\"tables\":0}\n{\"table\":\"a\"}\n",
            b"{\"table\":\"a\",\"operater\":\"max\"}\n{\"tables\":1}\n",
        ] {
            let error = all(bad).unwrap_err();
            assert!(error.kind() == Kind::Corrupt && error.detail().contains("line "), "{error}");
        }
    }

    #[test]
    fn a_dump_that_was_cut_has_no_end() {
        let json = "\n{\"table\":\"a\",\"operator\":null}\n{\"key\":\"k\",\"value\":\"v\"}\n{\"table\":\"b\"}\n{\"tables\":2}\n";
        let csv =
            "\ntable,what,operator,key,value\na,table,,,\na,entry,,k,v\nb,table,,,\n2,tables,,,\n";
        for whole in [json, csv] {
            assert_eq!(all(whole.as_bytes()).unwrap().len(), 2);
            let lines: Vec<&str> = whole.split_inclusive('\n').collect();
            for end in 0..lines.len() {
                let cut = all(lines[..end].concat().as_bytes()).unwrap_err();
                assert_eq!(cut.kind(), Kind::Corrupt, "{end} lines: {cut}");
            }
        }
        for none in ["{\"tables\":0}\n", "table,what,operator,key,value\n0,tables,,,\n"] {
            assert!(all(none.as_bytes()).unwrap().is_empty());
        }
    }
}

//! Entries of a table as CSV: a first line that names the columns, as `scan` and `dump` print them, or another
//! program does. Fields may stand in quotation marks, and hold line ends then.

use std::io::BufRead;

use varvite::{Error, Kind, Result};

use crate::input;
use crate::text::Notation;

/// What a dump of all tables has, in its order.
pub enum Part<'a> {
    /// A table begins, whose entries follow.
    Table {
        name: &'a str,
        operator: Option<&'a str>,
    },
    Entry {
        key: &'a [u8],
        value: &'a [u8],
    },
}

/// Counts tables, and sees that a dump ends with their number and has nothing behind it.
pub(super) struct Tables<'a> {
    name: &'a str,
    count: u64,
    has_ended: bool,
}

impl<'a> Tables<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        Tables { name, count: 0, has_ended: false }
    }

    /// Another part, in line `number`.
    pub(super) fn part(&mut self, number: u64, is_table: bool) -> Result<()> {
        if self.has_ended {
            return Err(
                self.corrupt(number, "there is more behind the number of tables, which is the end")
            );
        }
        self.count += u64::from(is_table);
        Ok(())
    }

    /// The end, in line `number`, which says how many tables there are.
    pub(super) fn end(&mut self, number: u64, count: u64) -> Result<()> {
        self.part(number, false)?;
        self.has_ended = true;
        if count == self.count {
            return Ok(());
        }
        let found = self.count;
        Err(self.corrupt(number, &format!("{count} tables are told, and there are {found}")))
    }

    fn corrupt(&self, number: u64, what: &str) -> Error {
        Error::new(Kind::Corrupt, format!("{}, line {number}: {what}", self.name))
    }

    /// `Corrupt` when there was no end; `as_text` is how it looks.
    pub(super) fn expect_end(&self, as_text: impl Fn(u64) -> String) -> Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let (name, end) = (self.name, as_text(self.count));
        let detail = format!(
            "{name} has no end: a dump of all tables ends with their number. Dump them again; where this is all, add the \
             line {end}"
        );
        Err(Error::new(Kind::Corrupt, detail))
    }
}

/// Bytes of a record at most: a quotation mark that is never closed takes no more memory than this.
const RECORD_BYTES_MAX: usize = 256 << 20;

/// Where a record has its key and its value.
pub struct Columns {
    key: usize,
    value: usize,
    count: usize,
    /// Whether they are hexadecimal whatever the user says.
    is_hex: bool,
}

impl Columns {
    /// Those that the first line names; none when it is no such line.
    pub fn of(line: &[u8]) -> Option<Columns> {
        let names = names(line)?;
        let place = |name: &[u8]| place(&names, name);
        let found = |key: &[u8], value: &[u8], is_hex| {
            let (key, value) = (place(key)?, place(value)?);
            Some(Columns { key, value, count: names.len(), is_hex })
        };
        found(b"key_hex", b"value_hex", true).or_else(|| found(b"key", b"value", false))
    }

    /// Those that are called `key` and `value`; none when the first line has not both.
    pub fn called(line: &[u8], key: &str, value: &str) -> Option<Columns> {
        let names = names(line)?;
        let (key, value) = (place(&names, key.as_bytes())?, place(&names, value.as_bytes())?);
        Some(Columns { key, value, count: names.len(), is_hex: false })
    }
}

/// Where a dump of all tables has what an entry has, and of which table it is.
pub struct TableColumns {
    entry: Columns,
    table: usize,
    /// Whether a record is an entry or begins a table.
    what: usize,
    operator: usize,
}

impl TableColumns {
    /// Those that the first line names; none when it is no such line.
    pub fn of(line: &[u8]) -> Option<TableColumns> {
        let names = names(line)?;
        let [table, what, operator] =
            [&b"table"[..], b"what", b"operator"].map(|name| place(&names, name));
        let entry = Columns::of(line)?;
        Some(TableColumns { entry, table: table?, what: what?, operator: operator? })
    }

    /// The record that ends a dump of so many tables.
    fn end(&self, count: u64) -> String {
        let mut fields = vec![String::new(); self.entry.count];
        (fields[self.table], fields[self.what]) = (count.to_string(), "tables".to_owned());
        fields.join(",")
    }
}

/// The names in a first line.
fn names(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    fields(line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)).ok()
}

fn place(names: &[Vec<u8>], name: &[u8]) -> Option<usize> {
    names.iter().position(|it| it.trim_ascii() == name)
}

/// The columns that a first line names which are no table's; none when it names none.
pub fn other_columns(line: &[u8]) -> Option<String> {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let names = String::from_utf8(fields(line).ok()?.join(&b","[..])).ok()?;
    let names: Vec<&str> = names.split(',').map(str::trim).collect();
    let is_part = |it: char| it.is_alphanumeric() || " _-.".contains(it);
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(is_part);
    (names.len() > 1 && names.iter().all(is_name)).then(|| names.join(", "))
}

/// The fields of a record; the reason when it is none.
fn fields(record: &[u8]) -> std::result::Result<Vec<Vec<u8>>, &'static str> {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    let mut rest = record.strip_suffix(b"\r").unwrap_or(record);
    let mut found = Vec::new();
    loop {
        let mut field = Vec::new();
        if let Some(mut quoted) = rest.strip_prefix(b"\"") {
            loop {
                let end = quoted.iter().position(|byte| *byte == b'"');
                let end = end.ok_or("a quotation mark that nothing closes")?;
                field.extend_from_slice(&quoted[..end]);
                quoted = &quoted[end + 1..];
                let Some(more) = quoted.strip_prefix(b"\"") else { break };
                field.push(b'"');
                quoted = more;
            }
            rest = quoted;
        } else {
            let end = rest.iter().position(|byte| *byte == b',').unwrap_or(rest.len());
            field.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        found.push(field);
        match rest {
            [] => return Ok(found),
            [b',', more @ ..] => rest = more,
            _ => return Err("something between a closing quotation mark and the next comma"),
        }
    }
}

/// Gives the entry of every record behind the first line to `each`; returns how many there were. `Corrupt` names
/// the line.
pub fn read(
    name: &str,
    from: impl BufRead,
    columns: &Columns,
    notation: Notation,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<u64> {
    let mut count = 0;
    records((name, 1), from, columns.count, |number, fields| {
        count += 1;
        let (key, value) = columns.entry((name, number), fields, notation)?;
        each(&key, &value).map_err(|error| input::at_line((name, number), error))
    })?;
    Ok(count)
}

/// The same of a dump of all tables, whose columns are named in line `first` of it.
pub fn read_tables(
    (name, first): (&str, u64),
    from: impl BufRead,
    columns: &TableColumns,
    mut each: impl FnMut(Part<'_>) -> Result<()>,
) -> Result<()> {
    let mut begun: Option<Vec<u8>> = None;
    let mut tables = Tables::new(name);
    records((name, first), from, columns.entry.count, |number, fields| {
        let at = (name, number);
        let (table, what) = (&fields[columns.table], &fields[columns.what]);
        let told = |done: Result<()>| done.map_err(|error| input::at_line(at, error));
        let number_of_tables =
            || std::str::from_utf8(table).ok().and_then(|text| text.parse().ok());
        if what == b"tables"
            && let Some(count) = number_of_tables()
        {
            return tables.end(number, count);
        }
        if what == b"table" {
            tables.part(number, true)?;
            let called = text(at, table)?;
            let operator = text(at, &fields[columns.operator])?;
            begun = Some(table.clone());
            let operator = Some(operator).filter(|operator| !operator.is_empty());
            return told(each(Part::Table { name: called, operator }));
        }
        tables.part(number, false)?;
        if what != b"entry" || begun.as_ref() != Some(table) {
            let expected = "expected a record whose \"what\" is \"entry\", of the table that began last, \"table\", or \
                            \"tables\" at the end";
            return Err(Error::new(Kind::Corrupt, format!("{name}, line {number}: {expected}")));
        }
        let (key, value) = columns.entry.entry(at, fields, Notation::Text)?;
        told(each(Part::Entry { key: &key, value: &value }))
    })?;
    tables.expect_end(|count| columns.end(count))
}

/// A field that is text.
fn text<'a>((name, number): (&str, u64), field: &'a [u8]) -> Result<&'a str> {
    let wrong = |_| Error::new(Kind::Corrupt, format!("{name}, line {number}: not UTF-8"));
    std::str::from_utf8(field).map_err(wrong)
}

impl Columns {
    /// The key and the value of a record.
    fn entry(
        &self,
        at: (&str, u64),
        fields: &[Vec<u8>],
        notation: Notation,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
        let notation = if self.is_hex { Notation::new(true) } else { notation };
        let parse = |what, place: usize| {
            let text = text(at, &fields[place])?;
            notation.parse(what, text).map_err(|error| input::in_line(at, &error))
        };
        Ok((parse("key", self.key)?, parse("value", self.value)?))
    }
}

/// Gives every record behind line `before` to `each`, of `count` fields, with the number of its first line.
fn records(
    (name, before): (&str, u64),
    mut from: impl BufRead,
    count: usize,
    mut each: impl FnMut(u64, &[Vec<u8>]) -> Result<()>,
) -> Result<()> {
    let (mut record, mut line) = (Vec::new(), before);
    loop {
        record.clear();
        let first = line + 1;
        let wrong = |what: &str| {
            let expected = format!("expected {count} fields a record");
            Error::new(Kind::Corrupt, format!("{name}, line {first}: {what}: {expected}"))
        };
        // A line may end within quotation marks; those of a whole record are even in number.
        let mut is_open = false;
        loop {
            let length = record.len();
            if input::line(&mut from, (name, line + 1), &mut record)? == 0 {
                break;
            }
            line += 1;
            is_open =
                record[length..].iter().fold(is_open, |is_open, byte| is_open != (*byte == b'"'));
            if !is_open {
                break;
            }
            if record.len() > RECORD_BYTES_MAX {
                return Err(wrong("a quotation mark that nothing closes"));
            }
        }
        if record.is_empty() {
            return Ok(());
        }
        if record.trim_ascii().is_empty() {
            continue;
        }
        let fields = fields(&record).map_err(wrong)?;
        if fields.len() != count {
            return Err(wrong(&format!("there are {}", fields.len())));
        }
        each(first, &fields)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(input: &str) -> Result<Vec<(String, String)>> {
        let (first, rest) = input.split_at(input.find('\n').map_or(input.len(), |end| end + 1));
        let columns = Columns::of(first.as_bytes()).expect("a first line of CSV");
        let (text, mut found) =
            (|bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned(), vec![]);
        let count = read("it", rest.as_bytes(), &columns, Notation::new(false), |key, value| {
            found.push((text(key), text(value)));
            Ok(())
        })?;
        assert_eq!(count, found.len() as u64);
        Ok(found)
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn records_are_read_with_marks_line_ends_and_other_columns() -> Result<()> {
        let input = "value,note,\"key\"\r\n1,,a\r\n\n\"x,\"\"y\"\"\nz\",\"\",b\n,n,c";
        let expected = [pair("a", "1"), pair("b", "x,\"y\"\nz"), pair("c", "")];
        assert_eq!(entries(input)?, expected);
        let exact = "key,key_hex,value,value_hex\nnot this,6162,nor this,00\n";
        assert_eq!(entries(exact)?, [pair("ab", "\0")]);
        assert!(entries("key,value")?.is_empty());
        Ok(())
    }

    #[test]
    fn what_is_no_record_is_told_by_its_line() {
        let line = |input: &str| {
            let error = entries(input).expect_err("it is damaged").to_string();
            error.split("line ").nth(1).and_then(|rest| rest.split(':').next()?.parse().ok())
        };
        assert_eq!(line("key,value\na,1\nb\n"), Some(3));
        assert_eq!(line("key,value\n\"a\nb\",1\nb,1,2\n"), Some(4));
        assert_eq!(line("key,value\n\"a,1\nb,2\n"), Some(2));
        assert_eq!(line("key,value\n\"a\"b,1\n"), Some(2));
        assert_eq!(line("key,value\n\\x0,1\n"), Some(2));
        assert_eq!(line("key_hex,value_hex\nzz,00\n"), Some(2));
    }

    #[test]
    fn columns_of_another_table_are_named() {
        let of = |line: &str| other_columns(line.as_bytes());
        for line in ["id,name\n", "\u{feff}id,\"name\"\r\n"] {
            assert_eq!(of(line).as_deref(), Some("id, name"), "{line}");
        }
        for line in
            ["", "id\n", "{\"key\": \"a\", \"value\": \"b\"}\n", "a,,b\n", "\0,\x01\n", "a(b),c\n"]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn other_first_lines_are_none_of_csv() {
        for line in
            ["{\"key\": \"a\", \"value\": \"b\"}\n", "a,b\n", "key\n", "", "\"key\",\"value"]
        {
            assert!(Columns::of(line.as_bytes()).is_none(), "{line}");
        }
    }
}

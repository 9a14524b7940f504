//! `varvite table get` and `scan`: print what a table holds.

use std::io::{self, Write};
use std::ops::Bound;

use clap::Args;
use serde_json::json;
use varvite::{Error, Kind, Value};

use super::follow::COLUMNS;
use super::from::From;
use super::range::{KeyRange, bounds};
use super::reader::{Reader, stopped};
use crate::exit::{Failure, Outcome, Verdict};
use crate::print::records;
use crate::print::{self, Format};
use crate::text::view::View;
use crate::text::{self, Notation, joined};

/// Bytes of a long value that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Print the value of a key; exit code 1 when there is none
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    from: From,
    /// The key, as text (`\xNN` for any byte)
    key: String,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Show values as what they mean
    #[arg(long = "as", value_enum, value_name = "VIEW")]
    view: Option<View>,
    /// Print the bytes of the value as they are, piece by piece, however many they are
    #[arg(long, conflicts_with_all = ["hex", "view"])]
    raw: bool,
}

/// Print keys and values in order
#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    range: KeyRange,
    /// Show values as what they mean
    #[arg(long = "as", value_enum, value_name = "VIEW")]
    view: Option<View>,
    /// At most so many
    #[arg(long)]
    limit: Option<u64>,
    /// From the last to the first
    #[arg(long)]
    reverse: bool,
    /// Go on after what is damaged, and say at the end which keys were left out; exit code 3 when any were
    #[arg(long, conflicts_with = "reverse")]
    skip_damaged: bool,
}

/// Runs `get`.
pub fn get(arguments: &Get, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let key = notation.parse("key", &arguments.key)?;
    let (_session, table) = arguments.from.open()?;
    let value = table.view().find(&[&key])?.remove(0);
    let absent = format!("there is no key {} in table {}", arguments.key, arguments.from.table);
    if arguments.raw {
        value.iter().try_for_each(raw)?;
    } else {
        let value = value.as_ref().map(Value::read).transpose()?;
        match (format, &value) {
            (Format::Json, _) => {
                let view = arguments.view.map(|_| "value_as");
                let [rest @ .., why, found] = COLUMNS;
                let columns = rest.into_iter().chain(view).chain([why, found]);
                records::columns_of_result(&columns.collect::<Vec<_>>())?;
                let mut said = json!({ "key": arguments.key, "value": null });
                text::put_both(&mut said, "key", &key);
                if let Some(value) = &value {
                    text::put(&mut said, "value", notation, value);
                    if let Some(view) = arguments.view {
                        said["value_as"] = view.value(value);
                    }
                } else {
                    said["why"] = absent.clone().into();
                }
                said["found"] = value.is_some().into();
                print::json(&said)?;
            }
            (Format::Table, Some(value)) => {
                writeln!(print::out(), "{}", shown(arguments.view, notation, value))?;
            }
            (Format::Table, None) => {}
        }
    }
    if value.is_none() && (arguments.raw || format == Format::Table) {
        complain!("{absent}");
    }
    Ok(Verdict::found(value.is_some()))
}

/// A value for people.
fn shown(view: Option<View>, notation: Notation, value: &[u8]) -> String {
    view.map_or_else(|| notation.show(value), |view| view.show(notation, value))
}

/// Prints a value of any length in little memory.
fn raw(value: &Value) -> std::result::Result<(), Failure> {
    let mut out = print::out();
    let mut piece = vec![0; PIECE_BYTES.min(value.len() as usize)];
    value.read_at(0, &mut piece)?;
    // Its beginning tells whether it is one.
    if joined::is_row(&piece) {
        let row = value.read()?;
        if joined::omitted(&row) > 0 {
            return Err(Error::invalid(
                "so many upserts wait for that value that only the program of this store can join them",
            )
            .into());
        }
        for part in joined::parts(&row).unwrap_or_default() {
            out.write_all(part)?;
        }
        return Ok(out.flush()?);
    }
    let mut at = 0;
    while at < value.len() {
        let read = value.read_at(at, &mut piece)?;
        out.write_all(&piece[..read])?;
        at += read as u64;
    }
    out.flush()?;
    Ok(())
}

/// Runs `scan`.
pub fn scan(arguments: &Scan, format: Format) -> Outcome {
    let notation = Notation::new(arguments.range.hex);
    let (lower, upper) = bounds(&arguments.range, notation)?;
    let (_session, table) = arguments.from.open()?;
    let mut out = Listing::new(format, notation, arguments.view);
    let view = arguments.view.map(|_| "value_as");
    records::columns(&ENTRY.into_iter().chain(view).collect::<Vec<_>>())?;
    let goes_on = |printed| arguments.limit.is_none_or(|limit| printed < limit);
    if arguments.reverse {
        let mut range = table.range((lower, upper));
        let mut last = None;
        let ended = loop {
            if !goes_on(out.printed) {
                break Ok(());
            }
            match range.next_back().transpose() {
                Ok(Some((key, value))) => {
                    out.add(&key, &value)?;
                    last = Some(key);
                }
                Ok(None) => break Ok(()),
                Err(error) if error.kind() == Kind::Corrupt => {
                    let error = stopped(&table, &error, out.printed, last.as_deref());
                    let how = "without --reverse, --skip-damaged goes on after it";
                    break Err(Error::new(Kind::Corrupt, format!("{error}; {how}")));
                }
                Err(error) => break Err(error),
            }
        };
        out.finish()?;
        ended?;
        return Ok(Verdict::Yes);
    }
    let is_all = lower == Bound::Unbounded && upper == Bound::Unbounded;
    let mut reader = Reader::new(&table, lower, upper, arguments.skip_damaged)?;
    let ended = loop {
        if !goes_on(out.printed) {
            break Ok(false);
        }
        match reader.advance() {
            Ok(true) => out.add(&reader.key, &reader.value)?,
            Ok(false) => break Ok(true),
            Err(error) => break Err(or_skip(error)),
        }
    };
    out.finish()?;
    let is_whole = ended? && is_all;
    Ok(Verdict::sound(reader.tell(notation, is_whole)?))
}

/// How what is behind a damage is read all the same.
pub fn or_skip(error: Error) -> Error {
    match error.kind() {
        Kind::Corrupt => {
            Error::new(Kind::Corrupt, format!("{error}; --skip-damaged goes on after it"))
        }
        _ => error,
    }
}

/// Entries as they are printed.
struct Listing {
    out: io::BufWriter<io::StdoutLock<'static>>,
    format: Format,
    notation: Notation,
    view: Option<View>,
    printed: u64,
}

impl Listing {
    fn new(format: Format, notation: Notation, view: Option<View>) -> Listing {
        let out = io::BufWriter::new(print::out());
        Listing { out, format, notation, view, printed: 0 }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.printed += 1;
        if self.format == Format::Json {
            let mut entry = entry(self.notation, key, value);
            if let Some(view) = self.view {
                entry["value_as"] = view.value(value);
            }
            return records::item(entry);
        }
        let value = shown(self.view, self.notation, value);
        writeln!(self.out, "{}\t{value}", self.notation.show(key))
    }

    fn finish(mut self) -> io::Result<()> {
        if self.format == Format::Json {
            records::no_items()?;
        }
        self.out.flush()
    }
}

/// The columns of an entry.
pub const ENTRY: [&str; 6] = ["key", "key_text", "key_hex", "value", "value_text", "value_hex"];

/// An entry as a record.
pub fn entry(notation: Notation, key: &[u8], value: &[u8]) -> serde_json::Value {
    let mut entry = json!({});
    text::put(&mut entry, "key", notation, key);
    text::put(&mut entry, "value", notation, value);
    entry
}

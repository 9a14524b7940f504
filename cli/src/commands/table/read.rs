//! `varvite table get`, `scan` and `dump`: print what a table holds.

use std::io::{self, IsTerminal, Write};
use std::ops::Bound;

use clap::Args;
use serde::Serialize;
use varvite::Value;

use super::from::From;
use super::range::{KeyRange, bounds};
use crate::exit::{Failure, Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::text::Notation;
use crate::workload::dump;

/// Entries of a dump between two looks at how far it is.
const LOOK: u64 = 1024;
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
    /// Print the bytes of the value as they are, piece by piece, however many they are
    #[arg(long, conflicts_with = "hex")]
    raw: bool,
}

/// Print keys and values in order
#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    range: KeyRange,
    /// At most so many
    #[arg(long)]
    limit: Option<u64>,
    /// From the last to the first
    #[arg(long)]
    reverse: bool,
}

/// Print the whole table as JSON lines: {"key": …, "value": …}; `load` reads them
#[derive(Debug, Args)]
pub struct Dump {
    #[command(flatten)]
    from: From,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Lengths and bytes instead of text: smaller, several times as fast, with a checksum
    #[arg(long, conflicts_with = "hex")]
    binary: bool,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    value: String,
}

/// Runs `get`.
pub fn get(arguments: &Get, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let key = notation.parse("key", &arguments.key)?;
    let (_session, table) = arguments.from.open()?;
    let value = table.view().find(&[key])?.remove(0);
    if arguments.raw {
        value.iter().try_for_each(raw)?;
    } else {
        let value = value.as_ref().map(Value::read).transpose()?;
        let value = value.map(|value| notation.show(&value));
        match (format, &value) {
            (Format::Json, _) => {
                print::json(&serde_json::json!({ "key": arguments.key, "value": value }))?;
            }
            (Format::Table, Some(value)) => print::line(value)?,
            (Format::Table, None) => {}
        }
    }
    if value.is_none() && (arguments.raw || format == Format::Table) {
        eprintln!("there is no key {} in table {}", arguments.key, arguments.from.table);
    }
    Ok(Verdict::of(value.is_some()))
}

/// Prints a value of any length in little memory.
fn raw(value: &Value) -> std::result::Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut piece = vec![0; PIECE_BYTES];
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
    let mut range = table.range((lower, upper));
    let mut next = || if arguments.reverse { range.next_back() } else { range.next() };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut printed = 0;
    while arguments.limit.is_none_or(|limit| printed < limit) {
        let Some((key, value)) = next().transpose()? else { break };
        let entry = Entry { key: notation.show(&key), value: notation.show(&value) };
        match format {
            Format::Table => writeln!(out, "{}\t{}", entry.key, entry.value)?,
            Format::Json => {
                out.write_all(if printed == 0 { b"[\n  " } else { b",\n  " })?;
                serde_json::to_writer(&mut out, &entry).map_err(io::Error::from)?;
            }
        }
        printed += 1;
    }
    if format == Format::Json {
        out.write_all(if printed == 0 { b"[]\n" } else { b"\n]\n" })?;
    }
    out.flush()?;
    Ok(Verdict::Yes)
}

/// Runs `dump`.
pub fn dump(arguments: &Dump) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let (_session, table) = arguments.from.open()?;
    let mut cursor = table.cursor(Bound::Unbounded, Bound::Unbounded)?;
    let mut out = io::BufWriter::with_capacity(256 << 10, io::stdout().lock());
    // On a terminal the dump itself shows how far it is.
    let shown = io::stdout().is_terminal();
    let mut bar = Progress::new("dumping", table.stats()?.logical_entries, Unit::Items);
    let mut count = 0_u64;
    let mut tell = || {
        count += 1;
        if !shown && count.is_multiple_of(LOOK) {
            bar.set(count);
        }
    };
    if arguments.binary {
        let mut writer = dump::Writer::new(out)?;
        while let Some((key, value)) = cursor.next()? {
            writer.add(key, value)?;
            tell();
        }
        writer.finish()?;
        return Ok(Verdict::Yes);
    }
    while let Some((key, value)) = cursor.next()? {
        let entry = Entry { key: notation.show(key), value: notation.show(value) };
        tell();
        serde_json::to_writer(&mut out, &entry).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush().map_err(Failure::from)?;
    Ok(Verdict::Yes)
}

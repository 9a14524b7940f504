//! `varvite table`: read and change a store's tables by hand.
//!
//! Reading takes no lock, so it works while another process writes. Which snapshot is read and what
//! a write does with it: see [`crate::store`].

use std::io::{self, IsTerminal, Write};
use std::ops::Bound;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;
use varvite::{Cursor, Error, OpenTable, Result, Session, SessionOptions, Table, Value, Verify};

use super::{snapshot, table_load, table_stat, table_union, table_write};
use crate::exit::{Failure, Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store;
use crate::text::Notation;
use crate::workload::dump;

/// Entries of a dump between two looks at how far it is.
const LOOK: u64 = 1024;
/// Bytes of a long value that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Read and change the tables of a store
///
/// A store's durable state is its snapshots. Commands read the newest `head-<n>`, or the only
/// snapshot, or the one that --snapshot names; those that change something save the result as the next
/// head and remove the head before.
#[derive(Debug, Subcommand)]
pub enum Command {
    Get(Get),
    Put(table_write::Put),
    Delete(table_write::Delete),
    DeleteRange(table_write::DeleteRange),
    Union(table_union::Arguments),
    Scan(Scan),
    Stat(table_stat::Arguments),
    Dump(Dump),
    Load(table_load::Arguments),
    #[command(subcommand)]
    Snapshot(snapshot::Command),
}

/// Where to read.
#[derive(Debug, Args)]
pub struct From {
    /// Folder of the store
    pub store: PathBuf,
    /// Name of the table
    pub table: String,
    /// Read this snapshot [default: the newest head, or the only snapshot]
    #[arg(long, value_name = "NAME")]
    pub snapshot: Option<String>,
    /// Read the live table, as the log has it now
    #[arg(long, conflicts_with = "snapshot")]
    pub live: bool,
}

impl From {
    /// The table, and the session that it lives in.
    pub fn open(&self) -> Result<(Session, Table)> {
        let session = store::open_read_only(&self.store, SessionOptions::default())?;
        if self.live {
            let options = OpenTable { operators: store::operators(), ..OpenTable::default() };
            let table = session.open_table(&self.table, &options)?;
            return Ok((session, table));
        }
        let mut snapshot = store::read(&session, self.snapshot.as_deref(), Verify::Quick)?;
        Ok((session, snapshot.take(&self.table)?))
    }
}

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

/// Which keys.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// Only keys that start with this
    #[arg(long, conflicts_with_all = ["first", "after", "last", "before"])]
    pub prefix: Option<String>,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY", conflicts_with = "after")]
    pub first: Option<String>,
    /// Only keys after this one
    #[arg(long, value_name = "KEY")]
    pub after: Option<String>,
    /// Only keys up to this one
    #[arg(long, value_name = "KEY", conflicts_with = "before")]
    pub last: Option<String>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    pub before: Option<String>,
    /// Keys and values are hexadecimal
    #[arg(long)]
    pub hex: bool,
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

/// Runs what `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Get(arguments) => get(&arguments, format),
        Command::Put(arguments) => table_write::put(&arguments, format),
        Command::Delete(arguments) => table_write::delete(&arguments, format),
        Command::DeleteRange(arguments) => table_write::delete_range(&arguments, format),
        Command::Union(arguments) => table_union::run(&arguments, format),
        Command::Scan(arguments) => scan(&arguments, format),
        Command::Stat(arguments) => table_stat::run(&arguments, format),
        Command::Dump(arguments) => dump(&arguments),
        Command::Load(arguments) => table_load::run(&arguments, format),
        Command::Snapshot(command) => snapshot::run(command, format),
    }
}

fn get(arguments: &Get, format: Format) -> Outcome {
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

fn scan(arguments: &Scan, format: Format) -> Outcome {
    let notation = Notation::new(arguments.range.hex);
    let (lower, upper) = bounds(&arguments.range, notation)?;
    let (_session, table) = arguments.from.open()?;
    let mut cursor = table.cursor(as_slice(&lower), as_slice(&upper))?;
    if arguments.reverse {
        cursor.seek_last();
    }
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut printed = 0;
    while arguments.limit.is_none_or(|limit| printed < limit) {
        let Some(entry) = step(&mut cursor, arguments.reverse, notation)? else { break };
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

fn step(cursor: &mut Cursor, reverse: bool, notation: Notation) -> Result<Option<Entry>> {
    let found = if reverse { cursor.previous()? } else { cursor.next()? };
    Ok(found.map(|(key, value)| Entry { key: notation.show(key), value: notation.show(value) }))
}

/// A bound of borrowed bytes.
pub fn as_slice(bound: &KeyBound) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// A bound that owns its key.
pub type KeyBound = Bound<Vec<u8>>;

/// The bounds that the arguments mean; crossing ones are refused.
pub fn bounds(arguments: &KeyRange, notation: Notation) -> Result<(KeyBound, KeyBound)> {
    let parse = |key: &Option<String>| -> Result<Option<Vec<u8>>> {
        key.as_ref().map(|key| notation.parse("key", key)).transpose()
    };
    if let Some(prefix) = parse(&arguments.prefix)? {
        let upper = after_prefix(&prefix).map_or(Bound::Unbounded, Bound::Excluded);
        return Ok((Bound::Included(prefix), upper));
    }
    let lower = match (parse(&arguments.first)?, parse(&arguments.after)?) {
        (Some(key), _) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    };
    let upper = match (parse(&arguments.last)?, parse(&arguments.before)?) {
        (Some(key), _) => Bound::Included(key),
        (None, Some(key)) => Bound::Excluded(key),
        (None, None) => Bound::Unbounded,
    };
    if let (
        Bound::Included(lower) | Bound::Excluded(lower),
        Bound::Included(upper) | Bound::Excluded(upper),
    ) = (&lower, &upper)
        && lower > upper
    {
        return Err(Error::invalid(
            "the first key is greater than the last: swap them (--reverse changes the order of \
             printing only)",
        ));
    }
    Ok((lower, upper))
}

/// The least key above all that start with `prefix`; `None` when there is no such key.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut after = prefix[..=last].to_vec();
    after[last] += 1;
    Some(after)
}

fn dump(arguments: &Dump) -> Outcome {
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
    while let Some(entry) = step(&mut cursor, false, notation)? {
        tell();
        serde_json::to_writer(&mut out, &entry).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    out.flush().map_err(Failure::from)?;
    Ok(Verdict::Yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[1, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xff, 0xff]), None);
        assert_eq!(after_prefix(b""), None);
    }
}

//! `varvite table dump`: a whole table, or all of a store, for `load`.

use std::io::{self, IsTerminal, StdoutLock, Write};
use std::ops::Bound;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use serde_json::json;
use varvite::{Error, MergeOperator, Result, Table};

use super::from::Moment;
use super::read::{ENTRY, entry, or_skip};
use super::reader::Reader;
use crate::advice::told;
use crate::exit::{self, Failure, Outcome, Verdict};
use crate::print::records;
use crate::print::{self, Output};
use crate::progress::{Progress, Unit};
use crate::text::{Notation, joined};
use crate::workload::dump;

/// Entries between two looks at how far it is.
const LOOK: u64 = 1024;

/// Print a whole table, or all of a store, as JSON lines: {"key": …, "value": …}; `load` reads them
///
/// Of all tables each begins with a line of its own, {"table": …, "operator": …}, and the last line is their number,
/// {"tables": …}; `load --all` makes them again.
#[derive(Debug, Args)]
pub struct Dump {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table [default: all, which `load --all` reads]
    table: Option<String>,
    #[command(flatten)]
    moment: Moment,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Lengths and bytes instead of text: smaller, several times as fast, with a checksum
    #[arg(long, conflicts_with = "hex")]
    binary: bool,
    /// Go on after what is damaged, and say at the end which keys were left out; exit code 3 when any were
    #[arg(long)]
    skip_damaged: bool,
}

#[derive(Serialize)]
struct Entry {
    key: String,
    value: String,
}

/// What begins a table among others.
#[derive(Serialize)]
struct Begun<'a> {
    table: &'a str,
    operator: Option<&'a str>,
}

/// What ends a dump of all tables.
#[derive(Serialize)]
struct End {
    tables: usize,
}

/// Where entries go.
type Out = io::BufWriter<StdoutLock<'static>>;

/// Runs `dump`.
pub fn dump(arguments: &Dump) -> Outcome {
    let Some(name) = &arguments.table else { return dump_all(arguments) };
    let (_session, table) = arguments.moment.open(&arguments.store, name)?;
    expect_room_for_bytes(arguments)?;
    records::columns(&ENTRY)?;
    let mut out = io::BufWriter::with_capacity(256 << 10, print::out());
    let is_whole = dump_one(arguments, &table, &mut out, None)?;
    Ok(Verdict::sound(is_whole))
}

/// `Invalid` where bytes are asked for in a format that has none.
fn expect_room_for_bytes(arguments: &Dump) -> Result<()> {
    if arguments.binary && records::output() != Output::Table {
        let detail = "with --binary a dump is bytes, which no other format has: leave --format out, or --binary";
        return Err(Error::invalid(detail));
    }
    Ok(())
}

fn dump_all(arguments: &Dump) -> Outcome {
    let (_session, tables, closed) =
        arguments.moment.open_all(&arguments.store, arguments.skip_damaged)?;
    expect_room_for_bytes(arguments)?;
    let before = ["table", "what", "operator"];
    records::columns(&before.into_iter().chain(ENTRY).collect::<Vec<_>>())?;
    let mut out = io::BufWriter::with_capacity(256 << 10, print::out());
    if arguments.binary {
        dump::tables::begin(&mut out)?;
    }
    let mut is_whole = closed.is_empty();
    for (name, error) in closed {
        exit::note_damage();
        let name = print::without_control(&name);
        complain!("left out: table {name}, which cannot be opened: {}", told(error.detail()));
    }
    for table in &tables {
        let operator = table.options().operator.as_ref().map(MergeOperator::name);
        let name = table.name();
        if arguments.binary {
            dump::tables::begin_table(&mut out, name, operator)?;
        } else if records::output() == Output::Csv {
            records::record(json!({ "table": name, "what": "table", "operator": operator }))?;
        } else {
            line(&mut out, &Begun { table: name, operator })?;
        }
        is_whole &= dump_one(arguments, table, &mut out, Some(name))?;
    }
    // What was cut off is told from what ends here.
    if arguments.binary {
        dump::tables::finish(&mut out, tables.len() as u64)?;
    } else if records::output() == Output::Csv {
        records::record(json!({ "table": tables.len(), "what": "tables" }))?;
    } else {
        line(&mut out, &End { tables: tables.len() })?;
        out.flush()?;
    }
    Ok(Verdict::sound(is_whole))
}

fn line(out: &mut Out, it: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, it).map_err(io::Error::from)?;
    out.write_all(b"\n")
}

/// Dumps one table, which is called `among` among others; whether nothing was left out.
fn dump_one(
    arguments: &Dump,
    table: &Table,
    out: &mut Out,
    among: Option<&str>,
) -> std::result::Result<bool, Failure> {
    let notation = Notation::new(arguments.hex);
    let skips = arguments.skip_damaged;
    let named = |error: Error| match among {
        Some(name) => or_skip(error).context(format!("table {name}")),
        None => or_skip(error),
    };
    let mut reader =
        Reader::new(table, Bound::Unbounded, Bound::Unbounded, skips).map_err(named)?;
    // On a terminal the dump itself shows how far it is.
    let shown = io::stdout().is_terminal();
    let mut bar = Progress::new("dumping", table.stats()?.logical_entries, Unit::Items);
    let mut tell = |count: u64| {
        if !shown && count.is_multiple_of(LOOK) {
            bar.set(count);
        }
    };
    if arguments.binary {
        let mut writer = dump::Writer::new(&mut *out)?;
        while reader.advance().map_err(named)? {
            if joined::parts(&reader.value).is_some() {
                let key = notation.show(&reader.key);
                return Err(Error::invalid(format!(
                    "the value of {key} waits for upserts that only the program of this store can join, and a binary \
                     dump has no form for that: leave --binary out, or let the program read the table"
                ))
                .into());
            }
            writer.add(&reader.key, &reader.value)?;
            tell(reader.count);
        }
        writer.finish()?;
    } else if records::output() == Output::Csv {
        while reader.advance().map_err(named)? {
            let mut entry = entry(notation, &reader.key, &reader.value);
            if let Some(name) = among {
                (entry["table"], entry["what"]) = (name.into(), "entry".into());
            }
            records::record(entry)?;
            tell(reader.count);
        }
    } else {
        while reader.advance().map_err(named)? {
            let entry =
                Entry { key: notation.show(&reader.key), value: notation.show(&reader.value) };
            tell(reader.count);
            line(out, &entry)?;
        }
        out.flush()?;
    }
    drop(bar);
    if let Some(name) = among.filter(|_| reader.has_lost()) {
        complain!("of table {}:", print::without_control(name));
    }
    Ok(reader.tell(notation, true)?)
}

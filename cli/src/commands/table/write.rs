//! `varvite table put` and `delete`: change a table.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use clap::Args;
use varvite::table::VALUE_BYTES_MAX;
use varvite::{Batch, Error, Kind, Result, Table};

use super::change::{Base, Change, Making};
use super::load::{Filling, check_number};
use super::range::{KeyBound, KeyRange, as_slice, bounds};
use crate::advice;
use crate::exit::{Outcome, Verdict};
use crate::input;
use crate::print::{self, Format, records};
use crate::progress::{Progress, Unit};
use crate::text::Notation;
use crate::wheel;

/// A file of so many bytes is not read into memory whole.
const STREAMED_BYTES: u64 = (64 << 10) + 1;

/// Bind keys to values; the table is made when it is not there
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools)] // each is a flag that a person types
pub struct Put {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    /// A key, its value, and so on
    #[arg(required_unless_present = "from", num_args = 2.., value_names = ["KEY", "VALUE"])]
    pairs: Vec<String>,
    /// Take keys and values from the lines of this file, each a key, a tab and a value, as `scan` prints them;
    /// `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pairs", "upsert", "files"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    making: Making,
    /// Join the values to what is there, by the table's merge operator
    #[arg(long)]
    upsert: bool,
    /// The table's merge operator: add-u64, max or append; must be the one that it was made with
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Each value names a file whose bytes are stored, however many they are; `-` is standard input
    #[arg(long, conflicts_with = "upsert")]
    files: bool,
    /// When the table is made: values of at least so many bytes go to blob files [default: 65537]
    #[arg(long, value_name = "BYTES")]
    blob_min: Option<u32>,
}

/// Unbind keys
#[derive(Debug, Args)]
pub struct Delete {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    /// The keys
    #[arg(required = true)]
    keys: Vec<String>,
    #[command(flatten)]
    base: Base,
    /// Keys are hexadecimal
    #[arg(long)]
    hex: bool,
}

/// Unbind every key of a range: whole segments at once, the rest key by key
#[derive(Debug, Args)]
pub struct DeleteRange {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    #[command(flatten)]
    range: KeyRange,
    #[command(flatten)]
    base: Base,
    /// Every key, when no bound is given
    #[arg(long)]
    all: bool,
}

/// Runs `put`.
pub fn put(arguments: &Put, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    if !arguments.pairs.len().is_multiple_of(2) {
        return Err(
            Error::invalid("the last key has no value: give keys and values in turn").into()
        );
    }
    if let Some(from) = &arguments.from {
        return put_lines(arguments, from, notation, format);
    }
    if arguments.files {
        return put_files(arguments, notation, format);
    }
    let mut batch = Batch::new();
    for pair in arguments.pairs.chunks_exact(2) {
        let (key, value) = (notation.parse("key", &pair[0])?, notation.parse("value", &pair[1])?);
        if arguments.upsert {
            batch.upsert(&key, &value)
        } else {
            batch.insert(&key, &value)
        };
    }
    let mut change = Change::making(&arguments.store, &arguments.making)?;
    let operator = arguments.operator.as_deref();
    let put = |change: &mut Change| {
        let table = change.table(&arguments.table, operator, arguments.blob_min)?;
        for value in arguments.pairs.iter().skip(1).step_by(2) {
            let bytes = notation.parse("value", value)?;
            check_number(table.options(), &arguments.table, &bytes, notation)?;
        }
        table.update(&batch)
    };
    if let Err(error) = put(&mut change) {
        change.give_up();
        return Err(error.into());
    }
    saved(change, batch.len(), "put", format)
}

/// Binds keys to values, a line each.
fn put_lines(arguments: &Put, from: &Path, notation: Notation, format: Format) -> Outcome {
    let mut change = Change::making(&arguments.store, &arguments.making)?;
    match put_each_line(&mut change, arguments, from, notation) {
        Ok(0) => {
            change.give_up();
            match format {
                Format::Json => {
                    print::json(&serde_json::json!({ "snapshot": null, "operations": 0 }))?;
                }
                Format::Table => print::line("0 keys put; nothing is saved")?,
            }
            Ok(Verdict::Yes)
        }
        Ok(count) => saved(change, count, "put", format),
        Err(error) => {
            change.give_up();
            Err(error.into())
        }
    }
}

fn put_each_line(
    change: &mut Change,
    arguments: &Put,
    from: &Path,
    notation: Notation,
) -> Result<usize> {
    let (name, mut input) = input::open(from)?;
    let session = change.session.clone();
    let operator = arguments.operator.as_deref();
    let stays = !change.is_of_new_store();
    let table = change.table(&arguments.table, operator, arguments.blob_min)?;
    let mut filling = Filling::new(&session, table, stays, notation);
    let (mut bar, mut line, mut count) = (Progress::endless("putting", Unit::Items), Vec::new(), 0);
    while let Some(text) = input::text_line(&mut input, (&name, count + 1), &mut line)
        .map_err(|error| filling.told(error))?
    {
        count += 1;
        let entry = entry(text, notation)
            .map_err(|error| filling.told(input::in_line((&name, count), &error)));
        let (key, value) = entry?;
        let pushed = filling.push(&key, &value);
        pushed.map_err(|error| filling.told(input::at_line((&name, count), error)))?;
        bar.set(count);
    }
    filling.finish()?;
    Ok(count as usize)
}

/// The key and the value of a line.
fn entry(line: &str, notation: Notation) -> Result<(Vec<u8>, Vec<u8>)> {
    let (key, value) = line
        .split_once('\t')
        .ok_or_else(|| Error::invalid("there is no tab between a key and a value"))?;
    Ok((notation.parse("key", key)?, notation.parse("value", value)?))
}

/// Binds keys to the content of files. Long ones go to the store in pieces.
fn put_files(arguments: &Put, notation: Notation, format: Format) -> Outcome {
    let mut change = Change::making(&arguments.store, &arguments.making)?;
    match put_each_file(&mut change, arguments, notation) {
        Ok(count) => saved(change, count, "put", format),
        Err(error) => {
            change.give_up();
            Err(error.into())
        }
    }
}

fn put_each_file(change: &mut Change, arguments: &Put, notation: Notation) -> Result<usize> {
    let session = change.session.clone();
    let table =
        change.table(&arguments.table, arguments.operator.as_deref(), arguments.blob_min)?;
    let joins = table.options().operator.is_some();
    let files = arguments.pairs.iter().skip(1).step_by(2);
    if files.filter(|file| *file == "-").count() > 1 {
        return Err(Error::invalid("standard input can be one value only: give `-` once"));
    }
    let mut batch = Batch::new();
    for pair in arguments.pairs.chunks_exact(2) {
        let key = notation.parse("key", &pair[0])?;
        let (name, mut input) = input::open(Path::new(&pair[1]))?;
        let failed = |error: &io::Error| Error::new(Kind::Io, format!("reading {name}: {error}"));
        // Values that upserts may join are inserted whole.
        let most = if joins { VALUE_BYTES_MAX as u64 + 1 } else { STREAMED_BYTES };
        let mut start = Vec::new();
        input.by_ref().take(most).read_to_end(&mut start).map_err(|error| failed(&error))?;
        check_number(table.options(), &arguments.table, &start, Notation::Text)?;
        if joins || (start.len() as u64) < most {
            batch.insert(&key, &start);
            continue;
        }
        let mut writer = session.write_value()?;
        writer.write(&start)?;
        loop {
            let piece = input.fill_buf().map_err(|error| failed(&error))?;
            if piece.is_empty() {
                break;
            }
            writer.write(piece)?;
            let read = piece.len();
            input.consume(read);
        }
        batch.insert_value(&key, &writer.finish()?);
    }
    table.update(&batch)?;
    Ok(batch.len())
}

/// Runs `delete`.
pub fn delete(arguments: &Delete, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let keys = arguments.keys.iter().map(|key| notation.parse("key", key));
    let keys = keys.collect::<Result<BTreeSet<_>>>()?;
    let keys: Vec<_> = keys.into_iter().collect();
    let mut change = Change::open(&arguments.store, &arguments.base)?;
    let table = change.existing(&arguments.table)?;
    let there = table.view().find(&keys)?;
    let mut batch = Batch::new();
    for (key, _) in keys.iter().zip(&there).filter(|(_, value)| value.is_some()) {
        batch.delete(key);
    }
    drop(there);
    let (count, missing) = (batch.len(), keys.len() - batch.len());
    let at = if count == 0 {
        // Nothing changes, so nothing is saved.
        change.give_up();
        None
    } else {
        table.update(&batch)?;
        Some(change.save()?)
    };
    let verdict = Verdict::found(count > 0);
    match format {
        Format::Json => {
            records::columns_of_result(&["snapshot", "operations", "missing", "found", "why"])?;
            let snapshot = at.as_ref().and_then(|at| at.head.clone());
            let mut said = serde_json::json!({
                "snapshot": snapshot, "operations": count, "missing": missing, "found": count > 0,
            });
            if count == 0 {
                let what = if missing == 1 { "the key is not" } else { "none of the keys is" };
                said["why"] = format!("{what} in table {}", arguments.table).into();
            }
            print::json(&said)?;
        }
        Format::Table => {
            let deleted = at.map(|at| format!("{} deleted; {}", keys_of(count), at.text()));
            let absent = match missing {
                0 => None,
                1 => Some("1 key was not there".to_owned()),
                _ => Some(format!("{missing} keys were not there")),
            };
            let said: Vec<_> = deleted.into_iter().chain(absent).collect();
            print::line(&said.join("; "))?;
        }
    }
    Ok(verdict)
}

/// The columns of `delete-range`.
const RANGE_DELETED: [&str; 3] = ["snapshot", "found", "why"];

/// Runs `delete-range`.
pub fn delete_range(arguments: &DeleteRange, format: Format) -> Outcome {
    let (lower, upper) = bounds(&arguments.range, Notation::new(arguments.range.hex))?;
    // One without bytes, as of a variable that a script forgot to set, is no bound either.
    let is_open = match &lower {
        Bound::Unbounded => true,
        Bound::Included(key) | Bound::Excluded(key) => key.is_empty(),
    };
    if !arguments.all && is_open && upper == Bound::Unbounded {
        let detail = "no bound is given: give --all to unbind every key of the table";
        return Err(Error::invalid(detail).into());
    }
    let mut change = Change::open(&arguments.store, &arguments.base)?;
    let table = change.existing(&arguments.table)?;
    if !has_keys(table, &lower, &upper)? {
        change.give_up();
        return nothing_in_range(&arguments.table, format);
    }
    let deleted =
        wheel::during("deleting", || table.delete_range(as_slice(&lower), as_slice(&upper)));
    deleted.map_err(|error| around_damage(error, arguments))?;
    let saved = change.save()?;
    match format {
        Format::Json => {
            records::columns_of_result(&RANGE_DELETED)?;
            print::json(&serde_json::json!({ "snapshot": saved.head, "found": true }))?;
        }
        Format::Table => print::line(&format!("range deleted; {}", saved.text()))?,
    }
    Ok(Verdict::Yes)
}

/// What to do where the edge of a range is damaged, whose keys have to be read; what lies in it as a whole is not.
fn around_damage(error: Error, arguments: &DeleteRange) -> Error {
    if error.kind() != Kind::Corrupt {
        return error;
    }
    let what = error.what();
    Error::new(
        Kind::Corrupt,
        format!(
            "{what}; nothing is deleted: a range that takes in all keys of that file deletes it unread, as --all does; {}",
            advice::repair(&arguments.store)
        ),
    )
}

/// Whether there is a key within the bounds, or damage, which may hide one and can be deleted.
fn has_keys(table: &Table, lower: &KeyBound, upper: &KeyBound) -> Result<bool> {
    let first = table
        .cursor(as_slice(lower), as_slice(upper))
        .and_then(|mut cursor| Ok(cursor.next_key()?.is_some()));
    match first {
        Err(error) if error.kind() == Kind::Corrupt => Ok(true),
        first => first,
    }
}

/// The answer when a range has no key, so that nothing changes.
fn nothing_in_range(table: &str, format: Format) -> Outcome {
    let why = format!("table {table} has no key in that range");
    match format {
        Format::Json => {
            records::columns_of_result(&RANGE_DELETED)?;
            print::json(&serde_json::json!({ "snapshot": null, "found": false, "why": why }))?;
        }
        Format::Table => print::line(&format!("{why}; nothing is saved"))?,
    }
    Ok(Verdict::No)
}

fn saved(change: Change, count: usize, done: &str, format: Format) -> Outcome {
    let saved = change.save()?;
    match format {
        Format::Json => {
            let said = serde_json::json!({ "snapshot": saved.head, "operations": count });
            print::json(&saved.with_left(said))?;
        }
        Format::Table => print::line(&format!("{} {done}; {}", keys_of(count), saved.text()))?,
    }
    Ok(Verdict::Yes)
}

fn keys_of(count: usize) -> String {
    print::counted(count as u64, "key", "keys")
}

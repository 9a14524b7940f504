//! `varvite table put` and `delete`: change a table and save the result as the next head.

use std::io::{self, BufRead, Read};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use clap::Args;
use varvite::table::VALUE_BYTES_MAX;
use varvite::{Batch, Error, Kind};

use super::change::Change;
use super::range::{KeyRange, as_slice, bounds};
use crate::exit::{Outcome, Verdict};
use crate::input;
use crate::print::{self, Format};
use crate::text::Notation;

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
    #[arg(required = true, num_args = 2.., value_names = ["KEY", "VALUE"])]
    pairs: Vec<String>,
    /// Make the store when the folder is missing or empty
    #[arg(long)]
    create: bool,
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
    let mut change = Change::open(&arguments.store, arguments.create, None)?;
    let operator = arguments.operator.as_deref();
    change.table(&arguments.table, operator, arguments.blob_min)?.update(&batch)?;
    saved(change, batch.len(), "put", format)
}

/// Binds keys to the content of files. Long ones go to the store in pieces.
fn put_files(arguments: &Put, notation: Notation, format: Format) -> Outcome {
    let mut change = Change::open(&arguments.store, arguments.create, None)?;
    let session = change.session.clone();
    let table =
        change.table(&arguments.table, arguments.operator.as_deref(), arguments.blob_min)?;
    let joins = table.options().operator.is_some();
    let mut batch = Batch::new();
    for pair in arguments.pairs.chunks_exact(2) {
        let key = notation.parse("key", &pair[0])?;
        let (name, mut input) = input::open(Path::new(&pair[1]))?;
        let failed = |error: &io::Error| Error::new(Kind::Io, format!("reading {name}: {error}"));
        // Values that upserts may join are inserted whole.
        let most = if joins { VALUE_BYTES_MAX as u64 + 1 } else { STREAMED_BYTES };
        let mut start = Vec::new();
        input.by_ref().take(most).read_to_end(&mut start).map_err(|error| failed(&error))?;
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
    let count = batch.len();
    drop((batch, session));
    saved(change, count, "put", format)
}

/// Runs `delete`.
pub fn delete(arguments: &Delete, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let mut batch = Batch::new();
    for key in &arguments.keys {
        batch.delete(&notation.parse("key", key)?);
    }
    let mut change = Change::open(&arguments.store, false, None)?;
    change.existing(&arguments.table)?.update(&batch)?;
    saved(change, batch.len(), "deleted", format)
}

/// Runs `delete-range`.
pub fn delete_range(arguments: &DeleteRange, format: Format) -> Outcome {
    let (lower, upper) = bounds(&arguments.range, Notation::new(arguments.range.hex))?;
    if !arguments.all && lower == Bound::Unbounded && upper == Bound::Unbounded {
        let detail = "no bound is given: give --all to unbind every key of the table";
        return Err(Error::invalid(detail).into());
    }
    let mut change = Change::open(&arguments.store, false, None)?;
    change.existing(&arguments.table)?.delete_range(as_slice(&lower), as_slice(&upper))?;
    let name = change.save()?;
    match format {
        Format::Json => print::json(&serde_json::json!({ "snapshot": name }))?,
        Format::Table => print::line(&format!("range deleted; saved as {name}"))?,
    }
    Ok(Verdict::Yes)
}

fn saved(change: Change, count: usize, done: &str, format: Format) -> Outcome {
    let name = change.save()?;
    match format {
        Format::Json => print::json(&serde_json::json!({ "snapshot": name, "operations": count }))?,
        Format::Table => {
            let plural = if count == 1 { "" } else { "s" };
            print::line(&format!("{count} key{plural} {done}; saved as {name}"))?;
        }
    }
    Ok(Verdict::Yes)
}

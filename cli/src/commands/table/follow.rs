//! `varvite table follow`: print values of a live table as another process updates it.

use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use varvite::{Error, Kind, OpenTable, SessionOptions};

use crate::exit::{Outcome, Verdict};
use crate::print::records;
use crate::print::{self, Format};
use crate::store::tables;
use crate::text::{self, Notation};

/// Print the values of keys of a live table, and again whenever one changes
///
/// Takes no lock, so another process may update the table meanwhile; that is what it is for. All lines that are
/// printed together are of one moment. Ends when it is stopped, or after --changes.
#[derive(Debug, Args)]
pub struct Follow {
    /// Folder of the store
    store: PathBuf,
    /// Name of the live table
    table: String,
    /// The keys, as text (`\xNN` for any byte)
    #[arg(required = true)]
    keys: Vec<String>,
    /// Keys and values are hexadecimal
    #[arg(long)]
    hex: bool,
    /// Milliseconds between two looks at the log
    #[arg(long, value_name = "MS", default_value_t = 200)]
    every_ms: u64,
    /// End after so many changes, the first values not counted
    #[arg(long, value_name = "N")]
    changes: Option<u64>,
}

/// The columns of a value that is there, or is not.
pub const COLUMNS: [&str; 8] =
    ["key", "value", "key_text", "key_hex", "value_text", "value_hex", "why", "found"];

/// Runs `follow`.
pub fn run(arguments: &Follow, format: Format) -> Outcome {
    let notation = Notation::new(arguments.hex);
    let keys = arguments.keys.iter().map(|key| notation.parse("key", key));
    let keys = keys.collect::<varvite::Result<Vec<_>>>()?;
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    let mut follower =
        tables::look(|operators| session.follow(&OpenTable { operators, ..OpenTable::default() }))?;
    records::columns(&COLUMNS)?;
    let mut before: Vec<Option<Option<Vec<u8>>>> = vec![None; keys.len()];
    let (mut changes, mut is_again) = (0, false);
    loop {
        let table = follower.table(&arguments.table);
        let table =
            table.map_err(|error| match tables::restorable(&session, &arguments.table) {
                Ok(Some(advice)) if error.kind() == Kind::Missing => {
                    Error::missing(format!("{error}; {advice}"))
                }
                _ => error,
            })?;
        let found = match table.lookup(&keys) {
            // Its writer has removed a file that was closed here meanwhile. There may be a later state, or a later
            // checkpoint of the same one.
            Err(error) if error.kind() == Kind::Missing && (follower.reload()? || !is_again) => {
                is_again = true;
                continue;
            }
            found => found?,
        };
        is_again = false;
        let mut out = print::out();
        let mut is_changed = false;
        for ((key, value), before) in arguments.keys.iter().zip(found.iter()).zip(&mut before) {
            let value = value.map(<[u8]>::to_vec);
            if before.as_ref() == Some(&value) {
                continue;
            }
            is_changed |= before.is_some();
            match (format, &value) {
                (Format::Json, _) => {
                    let mut record = json!({ "key": key, "value": null });
                    text::put_both(&mut record, "key", &notation.parse("key", key)?);
                    if let Some(value) = &value {
                        text::put(&mut record, "value", notation, value);
                    } else {
                        let why = format!("there is no key {key} in table {}", arguments.table);
                        record["why"] = why.into();
                    }
                    record["found"] = value.is_some().into();
                    records::record(record)?;
                }
                (Format::Table, Some(value)) => {
                    writeln!(out, "{key}\t{}", notation.show(value))?;
                }
                (Format::Table, None) if print::is_seen() => writeln!(out, "{key} is not there")?,
                // An empty value has a tab before it.
                (Format::Table, None) => writeln!(out, "{key}")?,
            }
            *before = Some(value);
        }
        out.flush()?;
        drop(out);
        records::flush()?;
        changes += u64::from(is_changed);
        if arguments.changes.is_some_and(|most| changes >= most) {
            return Ok(Verdict::Yes);
        }
        loop {
            thread::sleep(Duration::from_millis(arguments.every_ms));
            if follower.reload()? {
                break;
            }
        }
    }
}

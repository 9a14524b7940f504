//! `varvite table merge`: what merges are under way, and unions finished.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use varvite::{Error, Result, SessionOptions, Table, Verify};

use super::change::{Base, Change};
use crate::exit::{Outcome, Verdict};
use crate::print::records;
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::store::tables;

/// Bytes of entries that a union merges between two looks at how far it is.
const STEP_BYTES: u64 = 8 << 20;
/// The same where it rests with the end of a segment: what is merged behind that is merged again.
const SHORT_STEP_BYTES: u64 = 1 << 20;

/// Look at merges that are under way, and finish those of unions
///
/// Nothing merges between two commands, so there is nothing to pause: a union rests where `finish --most` ended, until
/// the next `finish`.
#[derive(Debug, Subcommand)]
pub enum Command {
    Status(Status),
    Finish(Finish),
}

/// List the merges that are under way, and how much is left of each
#[derive(Debug, Args)]
pub struct Status {
    /// Folder of the store
    store: PathBuf,
    /// Of this snapshot [default: the live tables, or without any the newest head or only snapshot]
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
}

/// Do what a table's union has left to merge, all of it or a part; merges of levels are done by updates
///
/// Nothing merges between two commands: a union rests where --most ended, and the next `finish` goes on with it. A
/// file of the result is written to its end, since half of one would be written again, so each `finish` gets on.
#[derive(Debug, Args)]
pub struct Finish {
    /// Folder of the store
    store: PathBuf,
    /// Name of the table
    table: String,
    /// Pause with the file of the result that brings it to so many mebibytes of entries; another `finish` goes on
    #[arg(long, value_name = "MIB")]
    most: Option<u64>,
    #[command(flatten)]
    base: Base,
}

/// Runs what `command` names.
pub fn run(command: &Command, format: Format) -> Outcome {
    match command {
        Command::Status(arguments) => status(arguments, format),
        Command::Finish(arguments) => finish(arguments, format),
    }
}

fn status(arguments: &Status, format: Format) -> Outcome {
    let session = tables::open_read_only(&arguments.store, SessionOptions::default())?;
    let opened = if arguments.snapshot.is_none() && tables::is_live(&session)? {
        tables::live_tables_to_look(&session)?
    } else {
        tables::read(&session, arguments.snapshot.as_deref(), Verify::Quick)?.tables
    };
    let rows = opened.iter().map(rows).collect::<Result<Vec<_>>>()?.concat();
    if format == Format::Json {
        let names = ["table", "level", "union", "spent_bytes", "debt_bytes", "left_bytes"];
        records::columns(&names)?;
        records::whole_with(&json!({ "merges": rows }), "merges")?;
        return Ok(Verdict::Yes);
    }
    if rows.is_empty() {
        print::aside("nothing is left to merge")?;
        return Ok(Verdict::Yes);
    }
    let mut grid = print::table(&["table", "level", ">done", ">left"]);
    for row in &rows {
        let bytes = |name: &str| print::bytes(row[name].as_u64().unwrap_or(0));
        let level =
            if row["union"] == true { "union".to_owned() } else { row["level"].to_string() };
        let table = row["table"].as_str().unwrap_or_default().to_owned();
        grid.add_row(vec![table, level, bytes("spent_bytes"), bytes("left_bytes")]);
    }
    print::line(&grid.to_string())?;
    Ok(Verdict::Yes)
}

/// A row a merge. Levels are counted from 1, as `stat` does.
fn rows(table: &Table) -> Result<Vec<Value>> {
    let merges = table.stats()?.merges;
    let row = |merge: &varvite::table::MergeStats| {
        json!({
            "table": table.name(), "level": merge.level.map(|level| level + 1), "union": merge.is_union,
            "spent_bytes": merge.spent_bytes, "debt_bytes": merge.debt_bytes,
            "left_bytes": merge.debt_bytes.saturating_sub(merge.spent_bytes),
        })
    };
    Ok(merges.iter().map(row).collect())
}

fn finish(arguments: &Finish, format: Format) -> Outcome {
    let mut change = Change::open(&arguments.store, &arguments.base)?;
    let table = change.existing(&arguments.table)?;
    let debt = left_when_saved(table)?;
    let most = arguments.most.map_or(u64::MAX, |mebibytes| mebibytes.saturating_mul(1 << 20));
    merge_union(table, most)?;
    let left = left_when_saved(table)?;
    let saved = if debt > 0 {
        change.save()?.head
    } else {
        change.give_up();
        None
    };
    match format {
        Format::Json => print::json(&json!({
            "table": arguments.table, "merged_bytes": debt - left, "union_debt_bytes": left, "snapshot": saved,
        }))?,
        Format::Table if debt == 0 => {
            print::line(&format!("{}: nothing of a union is left to merge", arguments.table))?;
        }
        Format::Table => {
            let rest = match left {
                0 => String::new(),
                left => format!("; {} are left, and another `finish` goes on", print::bytes(left)),
            };
            print::line(&format!(
                "{}: {} merged{rest}",
                arguments.table,
                print::bytes(debt - left)
            ))?;
        }
    }
    Ok(Verdict::Yes)
}

/// Merges what a union has left, all of it.
pub fn finish_union(table: &mut Table) -> Result<()> {
    merge_union(table, u64::MAX)
}

/// What a union has left to merge for whoever opens the table when it is saved as it is now.
pub fn left_when_saved(table: &Table) -> Result<u64> {
    let merges = table.stats()?.merges;
    let union = merges.iter().find(|merge| merge.is_union);
    Ok(union.map_or(0, |union| union.debt_bytes.saturating_sub(union.kept_bytes).max(1)))
}

/// Merges `most` bytes of what a union has left, and to the end of the segment that comes to so many: an unfinished one
/// is not saved.
fn merge_union(table: &mut Table, most: u64) -> Result<()> {
    let debt = left_when_saved(table)?;
    let total = debt.min(most.max(1));
    let mut bar = Progress::new("merging", total, Unit::Bytes);
    let mut left = table.remaining_union_debt();
    let (begun, mut kept) = (left, debt);
    let step = if most == u64::MAX { STEP_BYTES } else { SHORT_STEP_BYTES };
    while debt - kept < total {
        table.supply_union_credits(step)?;
        let after = table.remaining_union_debt();
        if after >= left {
            return Err(Error::invalid(format!(
                "table {} merges nothing: {left} bytes are left",
                table.name()
            )));
        }
        left = after;
        kept = left_when_saved(table)?;
        bar.set((begun - left).min(total));
    }
    bar.finish();
    Ok(())
}

//! `varvite table union`: one table of several, added to the rest.

use std::path::PathBuf;

use clap::Args;
use varvite::{Error, MergeOperator, Result, Snapshot, Table};

use super::change::{Change, Making};
use super::merge::{finish_union, left_when_saved};
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::store::tables;

/// Make a table that binds what several tables bind
///
/// Values of one key join by the tables' merge operator, those of the tables named first as the newer
/// ones; without an operator the first table that has the key wins. The tables stay as they are.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Folder of the store
    store: PathBuf,
    /// Name of the new table
    out: String,
    /// Names of the tables to unite
    #[arg(required = true)]
    tables: Vec<String>,
    /// Take the tables from this snapshot [default: live ones, or those of the newest head or only snapshot]
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Merge at most so many bytes of entries now; updates do the rest [default: all]
    #[arg(long, value_name = "BYTES")]
    credits: Option<u64>,
}

/// Runs the command.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let name = arguments.snapshot.as_deref();
    let mut change = Change::begin(&arguments.store, &Making::default(), name)?;
    change.is_new(&arguments.out)?;
    let named = name.map(|name| tables::snapshot_to_pass_on(&change.session, name)).transpose()?;
    if named.is_none() && change.is_live {
        for name in &arguments.tables {
            change.existing(name)?;
        }
    }
    let from = named.as_ref().unwrap_or(&change.snapshot);
    let tables = arguments.tables.iter().map(|name| find(from, name));
    let tables = tables.collect::<Result<Vec<_>>>()?;
    // Their values are joined, and those of the others are not.
    let operators = tables.iter().filter_map(|table| table.options().operator.as_ref());
    let mut foreign = operators.filter(|own| MergeOperator::built_in(own.name()).is_none());
    if let Some(own) = foreign.next() {
        return Err(tables::foreign(own.name()).into());
    }
    let mut union = change.session.incremental_union(&arguments.out, &tables)?;
    match arguments.credits {
        Some(credits) => {
            union.supply_union_credits(credits)?;
        }
        None => finish_union(&mut union)?,
    }
    let debt = left_when_saved(&union)?;
    drop(named);
    change.add(union)?;
    let saved = change.save()?;
    match format {
        Format::Json => {
            print::json(&serde_json::json!({
                "name": arguments.out, "outcome": "united", "snapshot": saved.head, "union_debt_bytes": debt,
            }))?;
        }
        Format::Table => {
            let left = if debt == 0 {
                String::new()
            } else {
                format!(", {} left to merge", print::bytes(debt))
            };
            let count = arguments.tables.len();
            print::line(&format!(
                "{} is a union of {count}{left}; {}",
                arguments.out,
                saved.text()
            ))?;
        }
    }
    Ok(Verdict::Yes)
}

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> Result<&'a Table> {
    snapshot.tables.iter().find(|table| table.name() == name).ok_or_else(|| {
        let names: Vec<_> = snapshot.tables.iter().map(Table::name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Error::missing(format!("there is no table {name} in the snapshot; it has: {names}"))
    })
}

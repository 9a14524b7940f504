//! `varvite table count`: how many keys there are.

use clap::Args;
use serde_json::json;

use super::from::From;
use super::range::{KeyRange, bounds};
use super::reader::count_keys;
use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::progress::{Progress, Unit};
use crate::text::Notation;

/// Count the keys of a table or of a range, exactly, by reading them
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    range: KeyRange,
}

/// Runs `count`.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let (lower, upper) = bounds(&arguments.range, Notation::new(arguments.range.hex))?;
    let (_session, table) = arguments.from.open()?;
    let mut bar = Progress::endless("counting", Unit::Items);
    let count = count_keys(&table, &lower, &upper, |count| bar.set(count))?;
    bar.finish();
    match format {
        Format::Json => print::json(&json!({ "table": arguments.from.table, "keys": count }))?,
        Format::Table => print::line(&count.to_string())?,
    }
    Ok(Verdict::Yes)
}

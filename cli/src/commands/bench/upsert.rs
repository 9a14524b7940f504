//! `varvite bench upsert`: what an upsert costs beside an insert, and beside looking up first.
//!
//! The sizes are `IntersectMBO`'s: 80,000 operations in batches of 250 on a buffer of about 1,000
//! entries, ten operations a key. Source: their micro-benchmark behind requirement 6.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use serde::Serialize;
use varvite::{Batch, MergeOperator, Result, Session, Table, TableOptions};

use crate::exit::{Outcome, Verdict};
use crate::flags::Tuning;
use crate::print::{self, Format};
use crate::store::folder::temporary;
use crate::store::tables;
use crate::workload::utxo::{Key, key};

/// Bytes that an entry counts for beside its key and value, in the write buffer.
const ENTRY_OVERHEAD: u64 = 16;

/// Compare upserts with inserts, and with a lookup before each insert
#[derive(Debug, Args)]
pub struct Arguments {
    /// Operations of each kind
    #[arg(long, default_value_t = 80_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    operations: u64,
    /// Operations in a batch, at most one for each key
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    batch_size: u64,
    /// Operations a key
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    per_key: u64,
    /// Entries in the write buffer
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    buffer_entries: u64,
    /// How often everything is done; the fastest counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Folder for the store, missing or empty [default: a temporary folder]
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct Report {
    operations: u64,
    insert_seconds: f64,
    upsert_seconds: f64,
    lookup_insert_seconds: f64,
    upsert_over_insert: f64,
    lookup_insert_over_upsert: f64,
    wrong: u64,
}

/// What is done with every key of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Insert,
    Upsert,
    LookupInsert,
}

/// Runs the three ways in turn, several times.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let temporary = match arguments.dir {
        Some(_) => None,
        None => Some(temporary()?),
    };
    let folder = arguments.dir.as_deref().or(temporary.as_ref().map(tempfile::TempDir::path));
    let folder = folder.expect("either given or temporary");
    let session = tables::create(folder, Tuning::default().options(folder)?)?;
    let (mut fastest, mut wrong) = ([f64::INFINITY; 3], 0);
    for _ in 0..arguments.rounds {
        for (way, fastest) in
            [Way::Insert, Way::Upsert, Way::LookupInsert].into_iter().zip(&mut fastest)
        {
            let (seconds, wrong_sums) = measure(arguments, &session, way)?;
            *fastest = fastest.min(seconds);
            wrong += wrong_sums;
        }
    }
    session.close()?;
    let [insert, upsert, lookup_insert] = fastest;
    let report = Report {
        operations: arguments.operations,
        insert_seconds: insert,
        upsert_seconds: upsert,
        lookup_insert_seconds: lookup_insert,
        upsert_over_insert: upsert / insert,
        lookup_insert_over_upsert: lookup_insert / upsert,
        wrong,
    };
    let verdict = Verdict::found(wrong == 0);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => print::line(
            &print::record(&[
                ("operations", print::count(report.operations)),
                ("inserts", print::seconds(insert)),
                ("upserts", print::seconds(upsert)),
                ("lookups, then inserts", print::seconds(lookup_insert)),
                ("upsert over insert", format!("{:.2} ×", report.upsert_over_insert)),
                (
                    "lookup and insert over upsert",
                    format!("{:.2} ×", report.lookup_insert_over_upsert),
                ),
                ("wrong sums", print::count(wrong)),
            ])
            .to_string(),
        )?,
    }
    Ok(verdict)
}

/// Keys come round in the same order `per_key` times, so that most of them are in runs by then.
fn measure(arguments: &Arguments, session: &Session, way: Way) -> Result<(f64, u64)> {
    let entry_bytes = (std::mem::size_of::<Key>() + 8) as u64 + ENTRY_OVERHEAD;
    let options = TableOptions {
        write_buffer_bytes: arguments.buffer_entries * entry_bytes,
        operator: Some(MergeOperator::add_u64()),
        ..TableOptions::default()
    };
    let mut table = session.create_table("balances", options)?;
    let keys: Vec<Key> = (0..arguments.operations.div_ceil(arguments.per_key)).map(key).collect();
    let mut order = keys.iter().cycle().take(arguments.operations as usize).copied();
    let mut batch = Batch::new();
    // No key comes twice in a batch: all of it is looked up before any of it is inserted.
    let batch_size = (arguments.batch_size as usize).min(keys.len());
    let mut now: Vec<Key> = Vec::with_capacity(batch_size);
    let start = Instant::now();
    loop {
        now.clear();
        now.extend(order.by_ref().take(batch_size));
        if now.is_empty() {
            break;
        }
        fill(&mut batch, &table, &now, way)?;
        table.update(&batch)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let wrong = if way == Way::Insert { 0 } else { wrong_sums(&table, &keys, arguments)? };
    table.close()?;
    Ok((seconds, wrong))
}

fn fill(batch: &mut Batch, table: &Table, keys: &[Key], way: Way) -> Result<()> {
    let one = 1u64.to_le_bytes();
    batch.clear();
    match way {
        Way::Insert => {
            for key in keys {
                batch.insert(key, &one);
            }
        }
        Way::Upsert => {
            for key in keys {
                batch.upsert(key, &one);
            }
        }
        Way::LookupInsert => {
            let values = table.lookup(keys)?;
            for (key, value) in keys.iter().zip(values.iter()) {
                let sum = value.map_or(0, number) + 1;
                batch.insert(key, &sum.to_le_bytes());
            }
        }
    }
    Ok(())
}

fn number(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(u64::MAX / 2, u64::from_le_bytes) // a wrong length gives a wrong sum
}

/// Keys whose sum is not the number of operations on them.
fn wrong_sums(table: &Table, keys: &[Key], arguments: &Arguments) -> Result<u64> {
    let values = table.lookup(keys)?;
    let rounds = arguments.operations / keys.len() as u64;
    let more = arguments.operations % keys.len() as u64;
    let expected = (0..).map(|index| rounds + u64::from(index < more));
    let wrong = values.iter().zip(expected).filter(|(value, sum)| value.map(number) != Some(*sum));
    Ok(wrong.count() as u64)
}

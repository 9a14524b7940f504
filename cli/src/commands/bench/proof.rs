//! `varvite bench proof`: how large proofs are, and what making and checking them costs.

use clap::Args;
use serde::Serialize;
use varvite::context::{Configuration, Tree};
use varvite::proof::{self, Encoding, Kinded, Proof};
use varvite::{Error, Result};

use crate::exit::{Outcome, Verdict};
use crate::print::{self, Format};
use crate::system::measure::cpu_ns;

/// Measure proofs of finds and of updates in one large directory
#[derive(Debug, Args)]
pub struct Arguments {
    /// Entries of the directory
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    entries: u64,
    /// How many operations a proof is of
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000",
          value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    operations: Vec<u64>,
    /// How often each is made and checked; the lower quartile counts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
}

/// What the proofs of one kind take.
#[derive(Debug, Serialize)]
struct Row {
    branching: u64,
    what: &'static str,
    form: &'static str,
    operations: u64,
    v1_bytes: u64,
    v2_bytes: u64,
    make_ms: f64,
    check_ms: f64,
}

/// Numbers that follow from a seed. Source: Steele et al. 2014 (`SplitMix64`).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn name(number: u64) -> String {
    format!("{:016x}", mix(number))
}

/// The function that is proven: finds, or finds followed by updates.
fn function(tree: &mut Tree, names: &[String], updates: bool) -> Result<u64> {
    let mut found = 0;
    for name in names {
        let path = ["accounts", name];
        found += u64::from(tree.find(&path)?.is_some());
        if updates {
            tree.add(&path, b"another balance")?;
        }
    }
    Ok(found)
}

/// The lower quartile of the processor times in milliseconds, and the last result.
fn timed<T>(rounds: u64, mut action: impl FnMut() -> Result<T>) -> Result<(f64, T)> {
    let mut samples = Vec::new();
    let mut last = None;
    for _ in 0..rounds {
        let start = cpu_ns();
        let result = action()?;
        samples.push(cpu_ns() - start);
        last = Some(result);
    }
    samples.sort_unstable();
    let result = last.ok_or_else(|| Error::invalid("no round was asked for"))?;
    Ok((samples[samples.len() / 4] as f64 / 1e6, result))
}

fn measure(tree: &Tree, names: &[String], updates: bool, stream: bool, rounds: u64) -> Result<Row> {
    let configuration = tree.configuration();
    let root = Kinded::of(tree)?;
    let (make, (bytes, v1_bytes)) = timed(rounds, || {
        let (recording, _) = proof::record(tree, |tree| function(tree, names, updates))?;
        let made = if stream { recording.stream_proof()? } else { recording.tree_proof()? };
        Ok((made.encode(Encoding::V2)?, made))
    })
    .and_then(|(ms, (bytes, made))| Ok((ms, (bytes, made.encode(Encoding::V1)?.len() as u64))))?;
    let (check, found) = timed(rounds, || {
        let proof = Proof::decode(&bytes, Encoding::V2, configuration)?;
        proof.verify(configuration, root, |tree| function(tree, names, updates))
    })?;
    if found != names.len() as u64 {
        return Err(Error::new(
            varvite::Kind::Corrupt,
            format!("{found} of {} names were found: this is a bug, report it", names.len()),
        ));
    }
    Ok(Row {
        branching: configuration.entries() as u64,
        what: if updates { "find and update" } else { "find" },
        form: if stream { "stream" } else { "tree" },
        operations: names.len() as u64,
        v1_bytes,
        v2_bytes: bytes.len() as u64,
        make_ms: make,
        check_ms: check,
    })
}

/// Makes both trees and measures.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let mut rows = Vec::new();
    for configuration in [Configuration::TEZOS, Configuration::TEZOS_BINARY] {
        let mut tree = Tree::empty(configuration);
        for number in 0..arguments.entries {
            tree.add(&["accounts", &name(number)], &mix(!number).to_le_bytes())?;
        }
        tree.hash()?;
        for operations in &arguments.operations {
            let pick = |index| name(mix(index ^ 0xacc0) % arguments.entries);
            let names: Vec<String> = (0..*operations).map(pick).collect();
            for (updates, stream) in [(false, false), (true, false), (false, true)] {
                rows.push(measure(&tree, &names, updates, stream, arguments.rounds)?);
            }
        }
    }
    if format == Format::Json {
        print::json(&rows)?;
        return Ok(Verdict::Yes);
    }
    let mut table = print::table(&[
        ">branching",
        "what",
        "form",
        ">operations",
        ">V1 bytes",
        ">V2 bytes",
        ">make, CPU ms",
        ">check, CPU ms",
    ]);
    for row in rows {
        table.add_row(vec![
            row.branching.to_string(),
            row.what.to_owned(),
            row.form.to_owned(),
            print::count(row.operations),
            print::count(row.v1_bytes),
            print::count(row.v2_bytes),
            format!("{:.2}", row.make_ms),
            format!("{:.2}", row.check_ms),
        ]);
    }
    print::line(&table.to_string())?;
    Ok(Verdict::Yes)
}

//! `varvite conformance`: vectors of other implementations, recomputed.
//!
//! What a file holds is told from its first vector, so that files can be renamed and mixed.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use varvite::{Error, Kind, Result};

use crate::exit::{Outcome, Verdict};
use crate::hex;
use crate::input::read_text;
use crate::print::{self, Format};
use crate::workload::vectors;

/// Recompute vectors of Tezos context hashing and of Merkle proofs, and compare
#[derive(Debug, Args)]
pub struct Arguments {
    /// Vector files, JSON or JSON lines, gzipped or not
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

#[derive(Debug, Serialize)]
struct FileReport {
    file: String,
    /// Its bytes, which may be no text.
    file_hex: String,
    kind: &'static str,
    passed: u64,
    failed: u64,
    first_failure: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    files: Vec<FileReport>,
    passed: u64,
    failed: u64,
}

/// Runs every file and prints passed and failed of each, and the total last.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let mut known = vectors::Known::default();
    for path in &arguments.files {
        known.learn(&vectors_of(&path.display().to_string(), &read_text(path)?)?);
    }
    let mut files = Vec::new();
    for path in &arguments.files {
        files.push(check(path, &known)?);
    }
    let passed = files.iter().map(|file| file.passed).sum();
    let failed = files.iter().map(|file| file.failed).sum();
    let report = Report { files, passed, failed };
    let verdict = Verdict::found(failed == 0);
    match format {
        Format::Json => print::json(&report)?,
        Format::Table => {
            let mut table =
                print::table(&["file", "vectors", ">passed", ">failed", "first failure"]);
            for file in &report.files {
                table.add_row(vec![
                    file.file.clone(),
                    file.kind.to_owned(),
                    print::count(file.passed),
                    print::count(file.failed),
                    file.first_failure.clone().unwrap_or_default(),
                ]);
            }
            table.add_row(vec![
                "total".to_owned(),
                String::new(),
                print::count(passed),
                print::count(failed),
                String::new(),
            ]);
            print::line(&table.to_string())?;
        }
    }
    Ok(verdict)
}

/// Levels of lists and objects in each other, at most: each takes its part of the stack.
const LEVELS_MAX: usize = 1_000;

/// How many lists and objects are open at once in the text.
fn levels(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let (mut is_string, mut is_escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => open += 1,
            b']' | b'}' if !is_string => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// One value, however deep: proofs are deeper than the reader's own limit.
fn value_of(text: &str) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_str(text);
    reader.disable_recursion_limit();
    let value = Value::deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// The vectors of a file: the lines, or the elements of one array, or one object.
fn vectors_of(name: &str, text: &str) -> Result<Vec<Value>> {
    if levels(text) > LEVELS_MAX {
        let detail =
            format!("{name} is nested deeper than {LEVELS_MAX} levels: give a vector file");
        return Err(Error::new(Kind::Corrupt, detail));
    }
    match value_of(text) {
        Ok(Value::Array(vectors)) => return Ok(vectors),
        Ok(vector) => return Ok(vec![vector]),
        Err(_) => {}
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            value_of(line).map_err(|error| {
                Error::new(
                    Kind::Corrupt,
                    format!(
                        "line {} of {name} is not JSON ({error}): give a vector file",
                        number + 1
                    ),
                )
            })
        })
        .collect()
}

fn check(path: &Path, known: &vectors::Known) -> Result<FileReport> {
    let name = path.display().to_string();
    let vectors = vectors_of(&name, &read_text(path)?)?;
    let first = vectors
        .first()
        .ok_or_else(|| Error::invalid(format!("{name} holds no vector: give another file")))?;
    let kind = vectors::Kind::of(first).ok_or_else(|| {
        Error::invalid(format!(
            "{name} is of a kind that is not known here: give trees, inodes, proofs, encoded proofs, \
             commits, contents, nodes, seeded hashes or commit scripts"
        ))
    })?;
    let mut report = FileReport {
        file: name,
        file_hex: hex::encode(path.as_os_str().as_encoded_bytes()),
        kind: kind.name(),
        passed: 0,
        failed: 0,
        first_failure: None,
    };
    let mut checker = vectors::Checker::new(kind, known);
    for (number, vector) in vectors.iter().enumerate() {
        let outcome = checker.check(vector);
        report.passed += outcome.passed;
        report.failed += outcome.failed.len() as u64;
        if let Some(failure) = outcome.failed.first()
            && report.first_failure.is_none()
        {
            report.first_failure = Some(format!("vector {}: {failure}", number + 1));
        }
    }
    Ok(report)
}

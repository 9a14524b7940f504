//! `varvite inspect`: what a file of a store holds, sound or damaged.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use varvite::context::inspect as context;
use varvite::irmin_pack as irmin;
use varvite::outline::Outline;
use varvite::table::inspect;
use varvite::{Error, Result};

use crate::advice::LOAD;
use crate::exit::{Outcome, Verdict};
use crate::input;
use crate::print::{self, Format};
use crate::workload::dump;

/// Decode any file of a store into an outline, also a damaged one
///
/// Each line is a piece of the file: what it is, its bytes, its fields, and what is wrong with it.
/// Exit code 3 when something is.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The file
    file: PathBuf,
}

/// A piece for programs.
#[derive(Serialize)]
struct Piece<'a> {
    label: &'a str,
    start: u64,
    end: u64,
    fields: serde_json::Map<String, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Piece<'a>>,
}

impl<'a> From<&'a Outline> for Piece<'a> {
    fn from(outline: &'a Outline) -> Self {
        let fields = outline.fields.iter();
        Piece {
            label: &outline.label,
            start: outline.span.start,
            end: outline.span.end,
            fields: fields.map(|(name, value)| (name.clone(), value.as_str().into())).collect(),
            damage: outline.damage.as_deref(),
            children: outline.children.iter().map(Piece::from).collect(),
        }
    }
}

/// How often a file in which something is damaged is read again while it changes.
const READINGS_MAX: u32 = 10;

/// Reads the file and prints its outline.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let name = arguments.file.display().to_string();
    let mut bytes = input::read(&arguments.file, &name)?;
    for _ in 1..READINGS_MAX {
        let outline = outline_of(&name, &bytes)?;
        // What came through a pipe is gone.
        if outline.damage_count() == 0 || !arguments.file.is_file() {
            return show(&outline, format);
        }
        // A writer that appends while the file is read leaves a copy that never was.
        let again = input::read(&arguments.file, &name)?;
        if again == bytes {
            return show(&outline, format);
        }
        bytes = again;
    }
    show(&outline_of(&name, &bytes)?, format)
}

fn outline_of(name: &str, bytes: &[u8]) -> Result<Outline> {
    if dump::is_dump(bytes) {
        let detail =
            format!("{name} is a dump of a table, not a file of a store: read it with {LOAD}");
        return Err(Error::invalid(detail));
    }
    let ours = context::file(name, bytes);
    Ok(match ours.or_else(|| irmin::inspect::file(name, bytes, None)) {
        Some(outline) => outline,
        None if irmin::trace::is_trace(bytes) => irmin::trace::describe(name, bytes, usize::MAX)?,
        None => inspect::file(name, bytes)?,
    })
}

/// Prints an outline. No when something in it is damaged.
pub fn show(outline: &Outline, format: Format) -> Outcome {
    let verdict = Verdict::sound(outline.damage_count() == 0);
    match format {
        Format::Json => print::json(&Piece::from(outline))?,
        Format::Table => print::line(&outline.to_string())?,
    }
    Ok(verdict)
}

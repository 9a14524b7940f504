//! `varvite trace`: what Irmin's benchmarks recorded.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use varvite::Error;
use varvite::irmin_pack::trace;

use super::inspect;
use crate::advice::CHECK;
use crate::exit::Outcome;
use crate::input;
use crate::print::Format;

/// Look into a trace that Irmin's benchmarks recorded
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List its rows, and count them by kind
    Show(Show),
}

#[derive(Debug, Args)]
pub struct Show {
    /// The trace: of actions or of statistics
    file: PathBuf,
    /// Rows to list at most; all are counted
    #[arg(long, default_value_t = 1000)]
    limit: usize,
}

pub fn run(command: &Command, format: Format) -> Outcome {
    let Command::Show(arguments) = command;
    let name = arguments.file.display().to_string();
    let bytes = input::read(&arguments.file, &name)?;
    let described = trace::describe(&name, &bytes, arguments.limit).map_err(|error| {
        // A trace is no file of a store.
        let advice = format!("run {CHECK} and restore it from a snapshot or another copy");
        let fitting = "give a trace that Irmin's benchmarks recorded, or record it again";
        Error::new(error.kind(), error.detail().replace(&advice, fitting))
    });
    inspect::show(&described?, format)
}

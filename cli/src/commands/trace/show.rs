//! `varvite trace show`: the rows of a trace that Irmin's benchmarks recorded.

use std::path::PathBuf;

use clap::Args;
use varvite::Error;
use varvite::irmin_pack::trace;

use crate::advice::{TRACE_INFO, TRACE_SUMMARY};
use crate::commands::inspect;
use crate::exit::Outcome;
use crate::input;
use crate::print::Format;

#[derive(Debug, Args)]
pub struct Show {
    /// The trace: of actions or of statistics
    file: PathBuf,
    /// Rows to list at most; all are counted
    #[arg(long, default_value_t = 1000)]
    limit: usize,
}

pub fn run(arguments: &Show, format: Format) -> Outcome {
    let name = arguments.file.display().to_string();
    let is_ours = |start: &[u8]| {
        let detail = format!(
            "{name} is a trace of varvite, not of Irmin's benchmarks: {TRACE_INFO} says what it has, {TRACE_SUMMARY} sums it up"
        );
        if start.starts_with(b"varviteT") {
            return Err(Error::invalid(detail));
        }
        match start.first_chunk::<8>() {
            Some(start) if !trace::is_trace(start) => Err(Error::invalid(format!(
                "{name} is no trace of Irmin's benchmarks: it begins with neither IrmRepBT nor IrmStaBT; give one that they \
                 recorded"
            ))),
            _ => Ok(()),
        }
    };
    is_ours(&input::start(&arguments.file)?)?;
    let bytes = input::read(&arguments.file, &name)?;
    // Of a pipe only now.
    is_ours(&bytes)?;
    // A trace is no file of a store.
    let advice = "give a trace that Irmin's benchmarks recorded, or record it again";
    let described = trace::describe(&name, &bytes, arguments.limit)
        .map_err(|error| input::apart(&arguments.file, error, advice));
    inspect::show(&described?, format)
}

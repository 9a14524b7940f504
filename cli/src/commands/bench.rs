//! `varvite bench`: generated loads, measured.

use clap::Subcommand;

use super::{bench_blob, bench_context, bench_load, bench_proof, bench_upsert, bench_utxo};
use crate::exit::Outcome;
use crate::print::Format;

/// Run a generated load and measure it
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Utxo(bench_utxo::Command),
    Load(bench_load::Arguments),
    Blob(bench_blob::Arguments),
    Upsert(bench_upsert::Arguments),
    Context(bench_context::Arguments),
    Proof(bench_proof::Arguments),
}

/// Runs the benchmark that `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Utxo(command) => bench_utxo::run(command, format),
        Command::Load(arguments) => bench_load::run(&arguments, format),
        Command::Blob(arguments) => bench_blob::run(&arguments, format),
        Command::Upsert(arguments) => bench_upsert::run(&arguments, format),
        Command::Context(arguments) => bench_context::run(&arguments, format),
        Command::Proof(arguments) => bench_proof::run(&arguments, format),
    }
}

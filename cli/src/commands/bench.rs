//! `varvite bench`: generated loads, measured.

mod blob;
pub mod context;
mod load;
mod proof;
mod range;
mod snapshot;
mod upsert;
pub mod utxo;

use clap::Subcommand;

use crate::exit::Outcome;
use crate::print::Format;

/// Run a generated load and measure it
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(subcommand)]
    Utxo(utxo::Command),
    #[command(subcommand)]
    Range(range::Command),
    Load(load::Arguments),
    Blob(blob::Arguments),
    Upsert(upsert::Arguments),
    Context(context::Arguments),
    Proof(proof::Arguments),
    Snapshot(snapshot::Arguments),
}

/// Runs the benchmark that `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Utxo(command) => utxo::run(command, format),
        Command::Range(command) => range::run(command, format),
        Command::Load(arguments) => load::run(&arguments, format),
        Command::Blob(arguments) => blob::run(&arguments, format),
        Command::Upsert(arguments) => upsert::run(&arguments, format),
        Command::Context(arguments) => context::run(&arguments, format),
        Command::Proof(arguments) => proof::run(&arguments, format),
        Command::Snapshot(arguments) => snapshot::run(&arguments, format),
    }
}

//! `varvite replay`: real histories, applied to a store and checked.

pub mod blocks;
mod cardano;
mod tezos_json;

use clap::Subcommand;

use crate::exit::Outcome;
use crate::print::Format;

/// Apply a real chain to a store and check that everything adds up
#[derive(Debug, Subcommand)]
pub enum Command {
    Cardano(cardano::Arguments),
    Blocks(blocks::Arguments),
    TezosJson(tezos_json::Arguments),
}

/// Runs the replay that `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Cardano(arguments) => cardano::run(&arguments, format),
        Command::Blocks(arguments) => blocks::run(&arguments, format),
        Command::TezosJson(arguments) => tezos_json::run(&arguments, format),
    }
}

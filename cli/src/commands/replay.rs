//! `varvite replay`: real histories, applied to a store and checked.

use clap::Subcommand;

use super::{replay_blocks, replay_cardano, replay_tezos_json};
use crate::exit::Outcome;
use crate::print::Format;

/// Apply a real chain to a store and check that everything adds up
#[derive(Debug, Subcommand)]
pub enum Command {
    Cardano(replay_cardano::Arguments),
    Blocks(replay_blocks::Arguments),
    TezosJson(replay_tezos_json::Arguments),
}

/// Runs the replay that `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Cardano(arguments) => replay_cardano::run(&arguments, format),
        Command::Blocks(arguments) => replay_blocks::run(&arguments, format),
        Command::TezosJson(arguments) => replay_tezos_json::run(&arguments, format),
    }
}

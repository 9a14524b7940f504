//! `varvite table`: read and change a store's tables by hand.
//!
//! Reading takes no lock, so it works while another process writes. Which snapshot is read and what
//! a write does with it: see [`crate::store::tables`].

mod change;
mod follow;
mod from;
mod load;
mod range;
mod read;
mod snapshot;
pub mod stat;
mod union;
mod write;

use clap::Subcommand;

use crate::exit::Outcome;
use crate::print::Format;

/// Read and change the tables of a store
///
/// A store's durable state is its snapshots. Commands read the newest `head-<n>`, or the only
/// snapshot, or the one that --snapshot names; those that change something save the result as the next
/// head and remove the head before.
#[derive(Debug, Subcommand)]
pub enum Command {
    Get(read::Get),
    Put(write::Put),
    Delete(write::Delete),
    DeleteRange(write::DeleteRange),
    Union(union::Arguments),
    Scan(read::Scan),
    Stat(stat::Arguments),
    Dump(read::Dump),
    Follow(follow::Follow),
    Load(load::Arguments),
    #[command(subcommand)]
    Snapshot(snapshot::Command),
}

/// Runs what `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Get(arguments) => read::get(&arguments, format),
        Command::Put(arguments) => write::put(&arguments, format),
        Command::Delete(arguments) => write::delete(&arguments, format),
        Command::DeleteRange(arguments) => write::delete_range(&arguments, format),
        Command::Union(arguments) => union::run(&arguments, format),
        Command::Scan(arguments) => read::scan(&arguments, format),
        Command::Stat(arguments) => stat::run(&arguments, format),
        Command::Dump(arguments) => read::dump(&arguments),
        Command::Follow(arguments) => follow::run(&arguments, format),
        Command::Load(arguments) => load::run(&arguments, format),
        Command::Snapshot(command) => snapshot::run(command, format),
    }
}

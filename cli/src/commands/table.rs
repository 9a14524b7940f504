//! `varvite table`: read and change a store's tables by hand.
//!
//! Reading takes no lock, so it works while another process writes. What is read and what a write
//! does with it: see [`crate::store::tables`].

mod change;
mod count;
mod diff;
mod dump;
mod follow;
mod from;
mod load;
mod merge;
mod range;
mod read;
mod reader;
mod snapshot;
pub mod stat;
pub mod state;
mod union;
mod write;

use clap::Subcommand;

use crate::exit::Outcome;
use crate::flags::Shell;
use crate::print::Format;

/// Read and change the tables of a store
///
/// The state of a store is its live tables, where there are any: commands read and change those, in the
/// log. Elsewhere it is the newest snapshot `head-<n>`, or the only snapshot: a change is saved as the
/// next head, and the head before is removed. --snapshot names another to read.
#[derive(Debug, Subcommand)]
pub enum Command {
    Get(read::Get),
    Count(count::Arguments),
    #[command(visible_aliases = ["set", "insert"])]
    Put(write::Put),
    #[command(visible_aliases = ["del", "rm"])]
    Delete(write::Delete),
    DeleteRange(write::DeleteRange),
    Union(union::Arguments),
    Scan(read::Scan),
    Stat(stat::Arguments),
    Dump(dump::Dump),
    Diff(diff::Arguments),
    #[command(visible_aliases = ["ls", "tables"])]
    List(state::List),
    Create(state::Create),
    Drop(state::Drop),
    Rename(state::Rename),
    Restore(state::Restore),
    Follow(follow::Follow),
    Load(load::Arguments),
    #[command(subcommand)]
    Merge(merge::Command),
    Shell(Shell),
    #[command(subcommand)]
    Snapshot(snapshot::Command),
}

/// Runs what `command` names.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Get(arguments) => read::get(&arguments, format),
        Command::Count(arguments) => count::run(&arguments, format),
        Command::Put(arguments) => write::put(&arguments, format),
        Command::Delete(arguments) => write::delete(&arguments, format),
        Command::DeleteRange(arguments) => write::delete_range(&arguments, format),
        Command::Union(arguments) => union::run(&arguments, format),
        Command::Scan(arguments) => read::scan(&arguments, format),
        Command::Stat(arguments) => stat::run(&arguments, format),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Diff(arguments) => diff::run(&arguments, format),
        Command::List(arguments) => state::list(&arguments, format),
        Command::Create(arguments) => state::create(&arguments, format),
        Command::Drop(arguments) => state::drop_table(&arguments, format),
        Command::Rename(arguments) => state::rename(&arguments, format),
        Command::Restore(arguments) => state::restore(&arguments, format),
        Command::Follow(arguments) => follow::run(&arguments, format),
        Command::Load(arguments) => load::run(&arguments, format),
        Command::Merge(command) => merge::run(&command, format),
        Command::Shell(_) => unreachable!("the shell is run where all commands are"),
        Command::Snapshot(command) => snapshot::run(command, format),
    }
}

//! `varvite context`: a context, ours or one of Irmin, looked into and changed by hand.

mod archive;
pub mod check;
mod collect;
mod dump;
mod look;
mod migrate;
mod scratch;
mod snapshot;
mod write;

use clap::Subcommand;

use crate::exit::Outcome;
use crate::print::Format;
use crate::store::context::Folder;

/// Take commands line by line, with history and completion: what stands behind the store's name
///
/// As in `get main accounts/ann`. `help` lists the commands, `exit` or Ctrl-D ends. What is piped into it is run
/// too; it ends with the greatest exit code then. The lower folder that is given here, and what is said of a store of
/// Irmin, hold for every line.
#[derive(Debug, clap::Args)]
pub struct Shell {
    #[command(flatten)]
    pub folder: Folder,
}

/// Look into a context store, change it by hand, merge
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List commits, newest first
    Log(look::Log),
    /// List the children of a directory
    Ls(look::Page),
    /// Print a value
    Get(look::Get),
    /// Draw a subtree
    Tree(look::Drawing),
    /// Figures of the store
    Stat(Folder),
    /// Count values and bytes below each child
    Du(look::Place),
    /// What changed from one commit to another
    Diff(look::Between),
    /// Print every path and value in order, one JSON object a line
    Dump(dump::Dump),
    /// Recompute every hash and look each up in the index
    Check(check::Arguments),
    Create(write::Create),
    Put(write::Put),
    Load(write::Load),
    Remove(write::Remove),
    #[command(subcommand)]
    Branch(write::Branch),
    Merge(write::MergeInto),
    #[command(subcommand)]
    Collect(collect::Collect),
    #[command(subcommand)]
    Pin(collect::Pin),
    Archive(archive::Archive),
    Unarchive(archive::Unarchive),
    Attach(archive::Attach),
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    Shell(Shell),
    /// Copy commits of a store of Irmin into one of ours, each checked by its hash
    Migrate(migrate::Migrate),
    /// Write the commits as a store of Irmin, version 5
    ExportIrmin(migrate::Export),
}

/// Runs the command that looks.
pub fn run(command: Command, format: Format) -> Outcome {
    match command {
        Command::Log(arguments) => look::log(&arguments, format),
        Command::Ls(arguments) => look::ls(&arguments, format),
        Command::Get(arguments) => look::get(&arguments, format),
        Command::Tree(arguments) => look::draw(&arguments, format),
        Command::Stat(arguments) => look::stat(&arguments, format),
        Command::Du(arguments) => look::du(&arguments, format),
        Command::Diff(arguments) => look::diff(&arguments, format),
        Command::Dump(arguments) => dump::dump(&arguments),
        Command::Check(arguments) => check::run(&arguments, format),
        Command::Create(arguments) => write::create(&arguments, format),
        Command::Put(arguments) => write::put(&arguments, format),
        Command::Load(arguments) => write::load(&arguments, format),
        Command::Remove(arguments) => write::remove(&arguments, format),
        Command::Branch(command) => write::branch(&command, format),
        Command::Merge(arguments) => write::merge(&arguments, format),
        Command::Collect(command) => collect::collect(&command, format),
        Command::Pin(command) => collect::pin(&command, format),
        Command::Archive(arguments) => archive::archive(&arguments, format),
        Command::Attach(arguments) => archive::attach(&arguments, format),
        Command::Unarchive(arguments) => archive::unarchive(&arguments, format),
        Command::Snapshot(command) => snapshot::run(&command, format),
        Command::Shell(_) => unreachable!("the shell is run where all commands are"),
        Command::Migrate(arguments) => migrate::migrate(&arguments, format),
        Command::ExportIrmin(arguments) => migrate::export(&arguments, format),
    }
}

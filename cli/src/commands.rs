//! The commands: one file each, or one folder a family. What several share lies below them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::{self, Outcome};
use crate::print::{Output, records};
use crate::store::context::Folder;
use crate::{print, progress, words};

mod backup;
mod bench;
mod check;
mod completions;
mod conformance;
mod context;
mod demo;
mod info;
mod inspect;
mod proof;
mod repair;
mod replay;
mod scrub;
mod shell;
mod table;
mod trace;

use shell::{Face, Program};

/// A storage engine for blockchain ledger state: run it, look at it, measure it
#[derive(Debug, Parser)]
#[command(name = "varvite", version, max_term_width = 100)]
pub struct Arguments {
    /// How to print results
    #[arg(long, global = true, value_enum, default_value_t, display_order = 1000)]
    pub format: Output,
    /// Say nothing but results and errors: no progress, no warnings
    #[arg(long, short, global = true, display_order = 1001)]
    pub quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Arguments),
    #[command(subcommand)]
    Replay(replay::Command),
    #[command(subcommand)]
    Bench(bench::Command),
    #[command(subcommand)]
    Table(table::Command),
    Conformance(conformance::Arguments),
    #[command(subcommand)]
    Context(context::Command),
    #[command(subcommand)]
    Proof(proof::Command),
    Info(info::Arguments),
    Inspect(inspect::Arguments),
    #[command(subcommand)]
    Trace(trace::Command),
    Check(check::Arguments),
    Doctor(info::doctor::Arguments),
    Explore(info::explore::Arguments),
    Scrub(scrub::Arguments),
    Backup(backup::Arguments),
    Repair(repair::Arguments),
    Completions(completions::Arguments),
    #[command(hide = true)]
    Man(completions::Man),
}

/// Runs the command that the arguments name.
pub fn run(arguments: Arguments, name: &str) -> Outcome {
    // They wait for whoever is at the terminal, or for another process.
    const WAIT: [&str; 4] = ["table shell", "context shell", "table follow", "explore"];
    if WAIT.contains(&name) {
        return run_now(arguments);
    }
    progress::turning(name, || run_now(arguments))
}

fn run_now(arguments: Arguments) -> Outcome {
    let (output, format) = (arguments.format, arguments.format.format());
    match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, format),
        Command::Replay(command) => replay::run(command, format),
        Command::Bench(command) => bench::run(command, format),
        Command::Table(table::Command::Shell(arguments)) => {
            shell::run(Face::Table, &Folder::of(&arguments.store), output, &program())
        }
        Command::Context(context::Command::Shell(arguments)) => {
            shell::run(Face::Context, &arguments.folder, output, &program())
        }
        Command::Table(command) => table::run(command, format),
        Command::Context(command) => context::run(command, format),
        Command::Conformance(arguments) => conformance::run(&arguments, format),
        Command::Proof(command) => proof::run(command, format),
        Command::Info(arguments) => info::run(&arguments, format),
        Command::Inspect(arguments) => inspect::run(&arguments, format),
        Command::Trace(trace::Command::Record(load)) => {
            let mut recorded = recorded(&load)?;
            recorded.quiet |= arguments.quiet;
            progress::set_quiet(recorded.quiet);
            if recorded.format == Output::default() {
                recorded.format = output;
            }
            records::begin(recorded.format, load.name());
            run_now(recorded)
        }
        Command::Trace(command) => trace::run(&command, format),
        Command::Check(arguments) => check::run(&arguments, format),
        Command::Doctor(arguments) => info::doctor::run(&arguments, format),
        Command::Explore(arguments) => info::explore::run(&arguments, format),
        Command::Scrub(arguments) => scrub::run(&arguments, format),
        Command::Backup(arguments) => backup::run(&arguments, format),
        Command::Repair(arguments) => repair::run(&arguments, format),
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => completions::man(&arguments, Arguments::command()),
    }
}

/// The store among what was typed, and then in the folder at hand, that has a table called `word`.
pub fn store_of(word: &str) -> Option<PathBuf> {
    let typed = std::env::args_os().skip(1).map(PathBuf::from);
    let mut folders = typed.chain([PathBuf::from(".")]).filter(|it| it.join("session").is_file());
    folders.find(|folder| table::state::names(folder).is_ok_and(|it| it.contains(&word.to_owned())))
}

/// The command that runs a load and records it.
fn recorded(load: &trace::record::Arguments) -> varvite::Result<Arguments> {
    Arguments::try_parse_from(load.words()?).map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        let why = first.strip_prefix("error: ").unwrap_or(first);
        varvite::Error::invalid(format!("{}: {why}", load.name()))
    })
}

/// The program as a shell runs it.
fn program() -> Program {
    Program { commands: Arguments::command(), run: run_words }
}

fn run_words(words: &[OsString], name: String, otherwise: Output) -> u8 {
    match Arguments::try_parse_from(words) {
        Ok(arguments) => {
            records::begin(arguments.format, name.clone());
            let was_quiet = progress::is_quiet();
            progress::set_quiet(was_quiet || arguments.quiet);
            let code = exit::ended(run(arguments, &name));
            progress::set_quiet(was_quiet);
            code
        }
        Err(error) if !error.use_stderr() => {
            let face = words.get(1).and_then(|face| face.to_str()).unwrap_or_default();
            let text = words::as_in_shell(&error.render().to_string(), face);
            // There is nobody to be told that the output is closed.
            let _ = print::line(text.trim_end());
            0
        }
        Err(error) => {
            let command = Arguments::command();
            let tip = words::tip_in_shell(&error, &command, words, &name);
            records::begin(otherwise, name);
            exit::refused(error, tip.as_deref(), words.get(1).and_then(|face| face.to_str()))
        }
    }
}

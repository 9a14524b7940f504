//! The commands: one file each, or one folder a family. What several share lies below them.

use clap::{CommandFactory, Parser, Subcommand};

use crate::exit::{self, Outcome};
use crate::print::{Output, records};
use crate::words;

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
    #[arg(long, global = true, value_enum, default_value_t)]
    pub format: Output,
    /// Say nothing but results and errors: no progress, no warnings
    #[arg(long, short, global = true)]
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
pub fn run(arguments: Arguments) -> Outcome {
    let (output, format) = (arguments.format, arguments.format.format());
    match arguments.command {
        Command::Demo(arguments) => demo::run(&arguments, format),
        Command::Replay(command) => replay::run(command, format),
        Command::Bench(command) => bench::run(command, format),
        Command::Table(table::Command::Shell(arguments)) => {
            shell::run(Face::Table, &arguments, output, &program())
        }
        Command::Context(context::Command::Shell(arguments)) => {
            shell::run(Face::Context, &arguments, output, &program())
        }
        Command::Table(command) => table::run(command, format),
        Command::Context(command) => context::run(command, format),
        Command::Conformance(arguments) => conformance::run(&arguments, format),
        Command::Proof(command) => proof::run(command, format),
        Command::Info(arguments) => info::run(&arguments, format),
        Command::Inspect(arguments) => inspect::run(&arguments, format),
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

/// The program as a shell runs it.
fn program() -> Program {
    Program { commands: Arguments::command(), run: run_words }
}

fn run_words(words: &[String], name: String, otherwise: Output) -> u8 {
    match Arguments::try_parse_from(words) {
        Ok(arguments) => {
            records::begin(arguments.format, name);
            exit::ended(run(arguments))
        }
        Err(error) if !error.use_stderr() => {
            // There is nobody to be told that the output is closed.
            let _ = error.print();
            0
        }
        Err(error) => {
            records::begin(otherwise, name);
            let tip = words::tip_in_shell(&error, &Arguments::command(), words);
            exit::refused(&error, tip.as_deref())
        }
    }
}

//! The command line of varvite: one binary for running, inspecting and measuring stores.

mod advice;
mod commands;
mod exit;
mod flags;
mod hex;
mod input;
mod measure;
mod print;
mod progress;
mod store;
mod text;
mod threads;
mod workload;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    measure::raise_open_files();
    exit::report(commands::run(arguments))
}

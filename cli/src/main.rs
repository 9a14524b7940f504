//! The command line of varvite: one binary for running, inspecting and measuring stores.

/// Says a line on standard error, which nobody may be reading.
macro_rules! complain {
    ($($words:tt)*) => {{
        $crate::wheel::erase();
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

mod advice;
mod commands;
mod exit;
mod flags;
mod hex;
mod input;
mod print;
mod progress;
mod sight;
mod store;
mod system;
mod text;
mod wheel;
mod words;
mod workload;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use commands::Arguments;
use print::{Output, records};
use system::{measure, volume};

fn main() -> ExitCode {
    let parsed = Arguments::command().try_get_matches().and_then(|mut matches| {
        let command = name(&matches);
        Arguments::from_arg_matches_mut(&mut matches).map(|arguments| (arguments, command))
    });
    let (arguments, command) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if !error.use_stderr() => error.exit(),
        Err(error) => {
            let name = typed();
            let tip = words::tip(&error, &Arguments::command(), &name, commands::store_of);
            records::begin(asked(), name);
            return ExitCode::from(exit::refused(error, tip.as_deref(), None));
        }
    };
    records::begin(arguments.format, command.clone());
    progress::set_quiet(arguments.quiet);
    measure::raise_open_files();
    volume::survive_limits();
    exit::report(commands::run(arguments, &command))
}

/// The command as it is typed, as "table get".
fn name(matches: &ArgMatches) -> String {
    let (mut matches, mut names) = (matches, Vec::new());
    while let Some((name, below)) = matches.subcommand() {
        names.push(name);
        matches = below;
    }
    names.join(" ")
}

/// The command that arguments name which are wrong elsewhere, as far as there is one.
fn typed() -> String {
    let (mut command, mut names) = (Arguments::command(), Vec::new());
    for word in std::env::args_os().skip(1) {
        let below = word.to_str().and_then(|word| command.find_subcommand(word)).cloned();
        if let Some(below) = below {
            names.push(below.get_name().to_owned());
            command = below;
        }
    }
    names.join(" ")
}

/// The format that arguments ask for which are wrong elsewhere.
fn asked() -> Output {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == "--format").map(|pair| &*pair[1]);
    let joined = words.iter().filter_map(|word| word.strip_prefix("--format="));
    match pairs.chain(joined).last() {
        Some("json") => Output::Json,
        Some("jsonl") => Output::Jsonl,
        _ => Output::Table,
    }
}

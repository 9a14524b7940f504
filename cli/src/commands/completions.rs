//! `varvite completions`: completions for a shell.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::{Outcome, Verdict};

/// Print completions for a shell
///
/// For bash: `varvite completions bash > ~/.local/share/bash-completion/completions/varvite`.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Which shell
    shell: Shell,
}

/// Writes the script for `program` to standard output.
pub fn run(arguments: &Arguments, mut program: Command) -> Outcome {
    // Generated in memory first, because the generator panics on a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "varvite", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(Verdict::Yes)
}

//! `varvite completions` and `varvite man`: what is packed with the program.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;
use varvite::Error;

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

/// Write a manual page of each command to a folder
#[derive(Debug, Args)]
pub struct Man {
    /// The folder, which is made if it is not there
    folder: PathBuf,
}

/// Writes the pages of `program`.
pub fn man(arguments: &Man, program: Command) -> Outcome {
    let folder = &arguments.folder;
    let failed = |error| Error::io("write", &folder.display().to_string(), error);
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(program, folder).map_err(failed)?;
    Ok(Verdict::Yes)
}

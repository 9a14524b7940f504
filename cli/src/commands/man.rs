//! `varvite man`: manual pages, for whoever packs the program.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use varvite::Error;

use crate::exit::{Outcome, Verdict};

/// Write a manual page of each command to a folder
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder, which is made if it is not there
    folder: PathBuf,
}

/// Writes the pages of `program`.
pub fn run(arguments: &Arguments, program: Command) -> Outcome {
    let folder = &arguments.folder;
    let failed = |error| Error::io("write", &folder.display().to_string(), error);
    fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(program, folder).map_err(failed)?;
    Ok(Verdict::Yes)
}

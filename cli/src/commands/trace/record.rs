//! `varvite trace record`: a load of the program, with `--trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use varvite::{Error, Result};

/// Loads that can be recorded.
const LOADS: [&str; 4] = ["bench context", "replay blocks", "replay cardano", "trace replay"];

/// What is recorded, and where.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The trace, which may not be there yet
    file: PathBuf,
    /// `bench context`, `replay blocks`, `replay cardano` or `trace replay`, with its arguments
    #[arg(required = true, num_args = 2.., trailing_var_arg = true, allow_hyphen_values = true, value_name = "LOAD")]
    load: Vec<OsString>,
}

impl Arguments {
    /// The load's name, as it is typed.
    pub fn name(&self) -> String {
        let words: Vec<_> = self.load.iter().take(2).map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// The words of the command that runs and records the load. `Invalid` for another command.
    pub fn words(&self) -> Result<Vec<OsString>> {
        let name = self.name();
        if !LOADS.contains(&&*name) {
            let loads = LOADS.join(", ");
            return Err(Error::invalid(format!(
                "{name} is no load that can be recorded: these are: {loads}"
            )));
        }
        // Behind the load's name: its own arguments may have an end of options.
        let (name, rest) = self.load.split_at(2);
        let trace = ["--trace".into(), self.file.clone().into_os_string()];
        let words = [OsString::from("varvite")].into_iter().chain(name.iter().cloned());
        Ok(words.chain(trace).chain(rest.iter().cloned()).collect())
    }
}

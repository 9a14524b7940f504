//! Runs the binary.

use std::path::Path;
use std::process::{Command, Stdio};

/// What one run said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// A command with `arguments`.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varvite"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs `command` to its end.
pub fn finish(mut command: Command) -> Ran {
    let output = command.output().expect("the binary runs");
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("errors are UTF-8"),
    }
}

/// Runs the binary with `arguments`.
pub fn varvite(arguments: &[&str]) -> Ran {
    finish(command(arguments))
}

impl Ran {
    /// The output of a run that ended with 0 and said nothing on standard error.
    #[track_caller]
    pub fn yes(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The JSON of a run that ended with 0.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.yes()).expect("the output is JSON")
    }

    /// The sentence of a run that ended with `code`, in which every one of `parts` must be.
    #[track_caller]
    pub fn error(self, code: i32, parts: &[&str]) -> String {
        assert_eq!(self.code, code, "{self:?}");
        let sentence = self.err.strip_prefix("error: ").unwrap_or_else(|| panic!("{self:?}"));
        assert_eq!(sentence.trim_end().lines().count(), 1, "one sentence: {sentence}");
        assert!(!sentence.contains("panicked"), "{sentence}");
        for part in parts {
            assert!(sentence.contains(part), "\"{part}\" is not in: {sentence}");
        }
        sentence.to_owned()
    }
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// The names in an object, sorted.
pub fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<_> =
        value.as_object().expect("an object").keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

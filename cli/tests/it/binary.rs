//! Runs the binary.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// After which a run is taken for one that never ends, as when a store is served that should be refused.
const PATIENCE: Duration = Duration::from_mins(10);

/// What one run said and how it ended.
#[derive(Debug)]
pub struct Ran {
    pub arguments: Vec<String>,
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

/// Runs `command` to its end; one that has none fails its test, and is left to itself.
pub fn finish(mut command: Command) -> Ran {
    let arguments: Vec<_> =
        command.get_args().map(|it| it.to_string_lossy().into_owned()).collect();
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(command.output()));
    let output = end.recv_timeout(PATIENCE);
    let output = output.unwrap_or_else(|_| panic!("no end after {PATIENCE:?}: {arguments:?}"));
    let output = output.expect("the binary runs");
    Ran {
        arguments,
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("output is UTF-8"),
        err: String::from_utf8(output.stderr).expect("errors are UTF-8"),
    }
}

/// Runs the binary with `arguments`.
pub fn varvite(arguments: &[&str]) -> Ran {
    finish(command(arguments))
}

/// Runs the words of `line` in `folder`.
pub fn run(folder: &Path, line: &str) -> Ran {
    finish(command_in(folder, line))
}

/// The command of the words of `line` in `folder`.
pub fn command_in(folder: &Path, line: &str) -> Command {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = command(&words);
    command.current_dir(folder);
    command
}

/// The same with `input` on standard input.
pub fn fed(folder: &Path, line: &str, input: &[u8]) -> Ran {
    let file = folder.join("standard-input");
    fs::write(&file, input).expect("the folder takes a file");
    let mut command = command_in(folder, line);
    command.stdin(fs::File::open(file).expect("it was just written"));
    finish(command)
}

impl Ran {
    /// The output of a run that ended with `code`, whatever was said besides.
    #[track_caller]
    pub fn ended(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self.out
    }

    /// The JSON of a run that ended with `code`, as it is.
    #[track_caller]
    pub fn value(self, code: i32) -> serde_json::Value {
        serde_json::from_str(&self.ended(code)).expect("the output is JSON")
    }

    /// All that a run says which ended with `code` and printed nothing: one sentence, word for word.
    #[track_caller]
    pub fn says(self, code: i32, sentence: &str) {
        assert_eq!(self.out, "", "{self:?}");
        let arguments = self.arguments.join(" ");
        let told = self.error(code, &[]);
        assert_eq!(told.trim_end(), sentence, "{arguments}");
    }

    /// The output of a run that ended with 0 and said nothing on standard error.
    #[track_caller]
    pub fn yes(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{}", self.out);
        self.out
    }

    /// The JSON of a run that ended with 0, without the envelope, which is looked at here.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let mut value: serde_json::Value =
            serde_json::from_str(&self.yes()).expect("the output is JSON");
        if let Some(envelope) = value.as_object_mut().and_then(|fields| fields.remove("varvite")) {
            assert_eq!((&envelope["status"], &envelope["exit_code"]), (&"yes".into(), &0.into()));
        }
        value
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
        self.has_the_flags_of(sentence);
        sentence.to_owned()
    }

    /// Whoever is told to give a flag can give it to this command; those of others stand with their names.
    #[track_caller]
    fn has_the_flags_of(&self, sentence: &str) {
        let outside = sentence.split('`').step_by(2);
        let words =
            outside.flat_map(|part| part.split([' ', '\n', ',', ':', ';', '(', ')', '.', '=']));
        let flags: Vec<_> = words.filter(|word| word.len() > 3 && word.starts_with("--")).collect();
        if flags.is_empty() {
            return;
        }
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let help = varvite(&[&words[..], &["--help"]].concat());
        for flag in flags {
            assert!(help.out.contains(flag), "{flag} is no flag of {words:?}: {sentence}");
        }
    }

    /// What clap says of a command that is none, in which `part` must be.
    #[track_caller]
    pub fn error_of_usage(self, part: &str) {
        assert!(self.code == 2 && self.err.contains(part), "{self:?}");
        assert!(self.err.contains("Usage:"), "{self:?}");
    }
}

/// What `script` says on a small volume at `$1`, of `size`, with the binary as `$2`; none where no such volume can be had.
pub fn on_small_volume(mount: &Path, size: &str, script: &str) -> Option<Ran> {
    let mounts = format!(
        "cd / && mount -t tmpfs -o size={size} tmpfs \"$1\" || exit 77; echo mounted >&2\n"
    );
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", &(mounts + script), "sh", text(mount)]);
    shell.arg(env!("CARGO_BIN_EXE_varvite")).stdin(Stdio::null());
    let mut probe = Command::new("unshare");
    let is_there = probe.arg("--version").stdout(Stdio::null()).status().is_ok();
    let ran = is_there.then(|| finish(shell));
    // Whatever the script ends with, it began: only what comes before that is no failure.
    let ran = ran.filter(|ran| ran.err.lines().any(|line| line == "mounted"));
    if ran.is_none() {
        eprintln!("skipped: no small file system can be mounted here");
    }
    ran
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

//! `tests/transcripts`: what is typed, and what comes back, word for word. `TRYCMD=overwrite` writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::exits::commands;

/// Commands whose output is times, another program's, or pages.
const WITHOUT: [&str; 5] = ["bench", "demo", "explore", "replay", "completions"];
/// The same of commands of families that have others too; they are run in `traces.rs`.
const OF_TRACES: [&str; 7] = [
    "doctor",
    "trace compare",
    "trace convert",
    "trace info",
    "trace record",
    "trace replay",
    "trace summary",
];

/// Those that end with 1 although the input is good, or when something ends them.
const ALWAYS_NO: [&str; 4] =
    ["context collect cancel", "context diff", "table follow", "trace show"];

#[test]
fn every_transcript_is_what_the_program_says() {
    // The program may be built with the explorer or without.
    let of_the_other = if cfg!(feature = "explorer") { "without-explorer" } else { "explore" };
    trycmd::TestCases::new()
        .env("TZ", "UTC")
        .case("tests/transcripts/*.trycmd")
        .skip(format!("tests/transcripts/{of_the_other}.trycmd"));
}

#[test]
fn every_command_is_in_a_transcript() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).unwrap());
    let typed: String = texts.collect();
    let runs: Vec<&str> = typed.split("\n$ varvite ").collect();
    let mut all = BTreeSet::new();
    commands(&[], &mut all);
    let first = |command: &str| command.split(' ').next().unwrap_or_default().to_owned();
    let known =
        |command: &String| WITHOUT.contains(&&*first(command)) || OF_TRACES.contains(&&**command);
    let is_run = |command: &str, is_refused: bool| {
        let of_it = runs.iter().filter(|run| run.starts_with(&format!("{command} ")));
        of_it.map(|run| run.contains("\n? ")).any(|it| it == is_refused)
    };
    for command in &all {
        assert!(is_run(command, true), "bad input of `{command}` is in no transcript");
        if !known(command) {
            let is_one = is_run(command, false) || ALWAYS_NO.contains(&&**command);
            assert!(is_one, "good input of `{command}` is in no transcript");
        }
    }
}

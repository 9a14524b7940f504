//! Files that commands write: new ones, whole or not at all.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::binary::{Ran, command, finish, text};

/// Runs the words of `line` in `folder`.
fn run(folder: &Path, line: &str) -> Ran {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = command(&words);
    command.current_dir(folder);
    finish(command)
}

/// Makes a context C and a trace T.
fn make(folder: &Path) {
    run(folder, "context create C").yes();
    run(folder, "context put C main a 1").yes();
    run(folder, "bench context --accounts 20 --blocks 2 --reads 5 --updates 5 --memory --trace T")
        .yes();
}

#[test]
fn nothing_that_is_there_is_written_over() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    make(folder);
    let before = ["C/control", "T"].map(|file| fs::read(folder.join(file)).unwrap());
    for line in [
        "proof make C main a -o C/control",
        "proof make C main a -o T --format json",
        "trace summary T --html T",
        "trace summary T --html C/control",
        "trace compare T T --html T",
        "trace convert T T",
        "doctor C --out T",
    ] {
        let file = line.rsplit(' ').find(|word| ["T", "C/control"].contains(word)).unwrap();
        run(folder, line).error(2, &[file, "already"]);
    }
    let after = ["C/control", "T"].map(|file| fs::read(folder.join(file)).unwrap());
    assert!(before == after);
    run(folder, "context get C main a").yes();
    run(folder, "trace info T").yes();
}

#[test]
fn what_a_command_that_fails_has_begun_is_gone() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    make(folder);
    let trace = fs::read(folder.join("T")).unwrap();
    // A frame in the middle, so that the header is one of a trace.
    let mut bad = trace.clone();
    bad[trace.len() / 2] ^= 1;
    fs::write(folder.join("BAD"), bad).unwrap();
    run(folder, "trace convert T ROWS").yes();
    let rows = fs::read(folder.join("ROWS")).unwrap();
    fs::write(folder.join("CUT"), [&rows[..rows.len() / 2], &[0xff; 64]].concat()).unwrap();
    for line in [
        "proof make C nosuch a --output OUT",
        "trace summary BAD --html OUT",
        "trace compare T BAD --html OUT",
        "trace convert BAD OUT",
        "trace convert CUT OUT",
    ] {
        let ran = run(folder, line);
        assert!(ran.code > 1 && !ran.err.contains("panicked"), "{line}: {ran:?}");
        assert!(!folder.join("OUT").exists(), "{line}");
    }
    run(folder, "trace convert T OUT").yes();
}

/// As in a container that has the program alone.
#[cfg(unix)]
#[test]
fn where_there_is_no_folder_for_a_while_is_told_how_to_give_one() {
    let folder = TempDir::new().unwrap();
    let none = folder.path().join("none");
    for words in [&["demo", "--entries", "1000"][..], &["bench", "context", "--accounts", "10"]] {
        let mut command = command(words);
        command.env("TMPDIR", &none);
        let said = finish(command).error(2, &["set TMPDIR"]);
        assert_eq!(said.matches(text(&none)).count(), 1, "{said}");
    }
    fs::create_dir(&none).unwrap();
    let mut command = command(&["bench", "context", "--accounts", "10", "--blocks", "1"]);
    command.env("TMPDIR", &none);
    finish(command).yes();
}

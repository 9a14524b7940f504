//! Files that commands write: new ones, whole or not at all.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::binary::{command, finish, run, text};

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
    // Behind the last row one of a kind that there is none of.
    fs::write(folder.join("ODD"), [&rows[..], &[2, 0xff, 0xff]].concat()).unwrap();
    for line in [
        "proof make C nosuch a --output OUT",
        "trace summary BAD --html OUT",
        "trace compare T BAD --html OUT",
        "trace convert BAD OUT",
        "trace convert ODD OUT",
    ] {
        let ran = run(folder, line);
        assert!(ran.code > 1 && !ran.err.contains("panicked"), "{line}: {ran:?}");
        assert!(!folder.join("OUT").exists(), "{line}");
    }
    run(folder, "trace convert T OUT").yes();
}

#[test]
fn a_load_that_cannot_begin_leaves_no_trace() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    make(folder);
    fs::write(folder.join("BLOCKS"), "[\n").unwrap();
    for (line, code) in [
        ("bench context --dir C --accounts 10 --blocks 1", 2),
        ("replay blocks BLOCKS", 3),
        ("trace replay T --store N --set size_ratio=99", 2),
        ("trace replay T --store N --at nosuch", 2),
    ] {
        // Twice, since the trace of the first would keep the second from running.
        for _ in 0..2 {
            let ran = run(folder, &format!("trace record OUT {line}"));
            assert!(!ran.err.contains("OUT"), "{line}: {ran:?}");
            ran.ended(code);
            assert!(!folder.join("OUT").exists(), "{line}");
            assert!(!folder.join("N").exists(), "{line}");
        }
    }
    // What was called before it failed can be looked into.
    fs::write(folder.join("BLOCKS"), "B 0 S\ni a 01\nC 0 Tezos one\n[\n").unwrap();
    run(folder, "trace record OUT replay blocks BLOCKS").ended(3);
    let info = run(folder, "trace info OUT --format json").json();
    assert!(info["actions"]["commit"].as_u64() > Some(0), "{info}");
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

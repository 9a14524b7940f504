//! What is made by nobody's wish, files that are no store's, and inputs that say more than they have.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::binary::{Ran, command_in, fed, run};
use crate::exits::flip;

#[test]
fn no_empty_twin_of_a_table_is_made_live() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    fs::write(folder.join("dump"), "{\"key\":\"k\",\"value\":\"v\"}\n").unwrap();
    run(folder, "table put T t a b --create").yes();
    for line in ["table create T t --live", "table load T t dump --live"] {
        let said =
            run(folder, line).error(2, &["head-0000000001", "`varvite table restore --live`"]);
        assert!(said.contains("no live table \"t\""), "{said}");
        assert_eq!(run(folder, "table get T t a").yes(), "b\n", "{line}");
    }
    // Beside it there may be others, and then a head is still what was before them.
    run(folder, "table create T u --live").yes();
    for line in ["table create T t", "table load T t dump"] {
        run(folder, line).error(2, &["head-0000000001", "`varvite table restore`"]);
    }
    assert_eq!(run(folder, "table list T --format csv").yes().lines().count(), 2);
    run(folder, "table restore T head-0000000001").yes();
    assert_eq!(run(folder, "table get T t a").yes(), "b\n");
    // What was dropped is made again, whatever snapshots people have put by.
    run(folder, "table snapshot create T mine").yes();
    run(folder, "table snapshot delete T head-0000000001").yes();
    run(folder, "table drop T t").yes();
    run(folder, "table create T t").yes();
}

/// A context C and files of it: one that is sound, one that is damaged in the middle.
fn snapshots(folder: &Path) {
    run(folder, "context create C").yes();
    run(folder, &format!("context put C main a/b {}", "v".repeat(3_000))).yes();
    run(folder, "context snapshot export C main good.snap").yes();
    fs::create_dir(folder.join("in")).unwrap();
    fs::copy(folder.join("good.snap"), folder.join("in/bad.snap")).unwrap();
    let length = fs::metadata(folder.join("good.snap")).unwrap().len() as usize;
    flip(&folder.join("in/bad.snap"), length - 40);
}

#[test]
fn a_failure_leaves_no_context_that_it_made() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    snapshots(folder);
    run(folder, "table put T t a b --create").yes();
    for (line, code) in [
        ("context snapshot import in/bad.snap above/NEW", 3),
        ("context migrate C above/NEW", 2),
        ("context migrate T above/NEW", 2),
        ("context migrate C above/NEW --commit last", 2),
    ] {
        run(folder, line).ended(code);
        assert!(!folder.join("above").exists(), "{line}");
    }
    // A folder that was there stays, and a store that was, with what it has.
    fs::create_dir(folder.join("empty")).unwrap();
    run(folder, "context snapshot import in/bad.snap empty").ended(3);
    assert_eq!(fs::read_dir(folder.join("empty")).unwrap().count(), 0);
    run(folder, "context create D").yes();
    run(folder, "context snapshot import in/bad.snap D").ended(3);
    run(folder, "context snapshot import good.snap D").yes();
    run(folder, "context snapshot import good.snap above/NEW").yes();
}

#[test]
fn damage_of_a_file_that_is_no_stores_is_told_by_what_can_be_done() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    snapshots(folder);
    run(folder, "bench context --accounts 20 --blocks 2 --reads 5 --updates 5 --memory --trace T")
        .yes();
    let trace = fs::read(folder.join("T")).unwrap();
    fs::write(folder.join("in/BAD"), &trace).unwrap();
    flip(&folder.join("in/BAD"), trace.len() / 2);
    for line in [
        "context snapshot verify in/bad.snap",
        "context snapshot import in/bad.snap NEW",
        "context snapshot import in/bad.snap C",
        "context snapshot diff good.snap in/bad.snap",
        "trace info in/BAD",
        "trace summary in/BAD",
        "trace replay in/BAD",
        "trace compare T in/BAD",
        "trace convert in/BAD OUT",
    ] {
        let file = line.split(' ').find(|word| word.starts_with("in/")).unwrap();
        let said = run(folder, line).error(3, &[&format!("{file} is damaged at byte")]);
        assert!(!said.contains("varvite check"), "{line}: {said}");
        // With its folder: a checksum may spell "bad", too.
        assert_eq!(said.matches(file).count(), 1, "named once: {said}");
        assert!(said.contains("another copy"), "{line}: {said}");
    }
    // Heads, too.
    let good = fs::read(folder.join("good.snap")).unwrap();
    fs::write(folder.join("in/bad.snap"), &good[..70]).unwrap();
    for verb in ["info", "verify"] {
        let said = run(folder, &format!("context snapshot {verb} in/bad.snap"))
            .error(3, &["in/bad.snap is damaged"]);
        assert!(!said.contains("varvite check"), "{verb}: {said}");
    }
}

#[test]
fn a_trace_is_read_by_the_command_that_is_for_it() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "bench context --accounts 20 --blocks 2 --reads 5 --updates 5 --memory --trace T")
        .yes();
    run(folder, "trace show T").error(2, &["`varvite trace info`", "T is a trace of varvite"]);
    run(folder, "trace info T").yes();
    run(folder, "trace convert T ROWS").yes();
    run(folder, "trace compare T ROWS").error(2, &["ROWS is a trace of Irmin's benchmarks"]);
    for verb in ["info", "summary"] {
        run(folder, &format!("trace {verb} ROWS"))
            .error(2, &["`varvite trace show`", "ROWS is a trace of Irmin's benchmarks"]);
    }
    run(folder, "trace show ROWS").yes();
}

#[test]
#[cfg(unix)]
fn a_device_is_no_trace() {
    let folder = TempDir::new().unwrap();
    for verb in ["info", "summary", "show", "replay"] {
        run(folder.path(), &format!("trace {verb} /dev/zero")).error(2, &["/dev/zero is a device"]);
    }
}

#[test]
fn what_follows_a_dump_is_not_passed_over() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put P t a b --create").yes();
    let dump = command_in(folder, "table dump P t --binary").output().unwrap().stdout;
    let lines = [b"load t3\n", &dump[..], b"put t a CHANGED\n"].concat();
    let ran = fed(folder, "table shell P", &lines);
    assert!(ran.code == 3 && ran.err.contains("behind the end of the dump"), "{ran:?}");
    assert_eq!(run(folder, "table list P --format csv").yes().lines().count(), 2, "no t3");
    let junk = [&dump[..], b"junk\n"].concat();
    let said = fed(folder, "table load P t5", &junk).error(3, &["standard input"]);
    assert!(said.contains(&format!("at byte {}", dump.len())), "{said}");
    fed(folder, "table shell P", &[b"load t3\n", &dump[..]].concat()).ended(0);
    run(folder, "table get P t3 a").yes();
}

/// More than there are addresses for.
#[cfg(target_os = "linux")]
const ZEROS: u64 = 2 << 30;

/// Runs the words in `folder` with 1 GB of addresses, and `input` and then `zeros` zero bytes on standard input.
#[cfg(target_os = "linux")]
fn in_little_room(folder: &Path, line: &str, input: &[u8], zeros: u64) -> Ran {
    let shell = format!("ulimit -v 1000000; exec {} {line}", env!("CARGO_BIN_EXE_varvite"));
    let mut child = Command::new("bash");
    child.args(["-c", &shell]).current_dir(folder).stdin(Stdio::piped());
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let feeding = std::thread::spawn(move || {
        let zero = vec![0; 1 << 20];
        let mut fed = stdin.write_all(&input);
        for _ in 0..zeros >> 20 {
            // Whoever reads no more of it has refused it.
            fed = fed.and_then(|()| stdin.write_all(&zero));
        }
    });
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    let arguments = line.split(' ').map(str::to_owned).collect();
    Ran { arguments, code: output.status.code().unwrap_or(-1), out, err }
}

#[test]
#[cfg(target_os = "linux")]
fn lengths_that_an_input_says_take_no_more_memory_than_there_is() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "table put S t a b --create").yes();
    in_little_room(folder, "table shell S", b"", ZEROS)
        .error(2, &["line 1 of standard input", "longer than 33.0 MiB"]);
    in_little_room(folder, "context shell C", b"", 0).error(2, &["C"]);
    // A value of 34 GB, as it says.
    let hostile = b"varvite dump 2\n\x02a\xff\xff\xff\xff\x7f";
    for line in ["table load NEW t --create", "table load S u", "table load S t --into"] {
        let said =
            in_little_room(folder, line, hostile, ZEROS).error(2, &["standard input", "memory"]);
        assert!(said.contains("byte 22"), "{line}: {said}");
        assert!(!folder.join("NEW").exists(), "{line}");
    }
    for line in ["table load NEW t --create", "table put S t --from -"] {
        in_little_room(folder, line, b"", ZEROS)
            .error(2, &["line 1 of standard input", "longer than"]);
    }
    run(folder, "context create C").yes();
    in_little_room(folder, "context load C main", b"", ZEROS)
        .error(2, &["line 1 of standard input", "longer than"]);
    assert_eq!(run(folder, "table list S --format csv").yes().lines().count(), 2);
}

#[test]
fn a_tip_fits_the_command_that_it_is_given_to() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    run(folder, "context create C").yes();
    for (line, tip, other) in [
        ("context list C", "`varvite context log`", "table"),
        ("context collect list C", "`varvite context collect status`", "table"),
        ("context list", "`varvite context log`", "table"),
        ("table log S", "`varvite context log`", "nothing of the kind"),
        ("bench context --store x", "`--dir`", "stands behind"),
        ("bench context --path x", "`--dir`", "stands behind"),
        ("table get --store x", "stands behind the command", "`--dir`"),
        ("explore --dir x", "stands behind the command", "`--dir`"),
        ("bench utxo run --store x", "`--dir`", "stands behind"),
        ("context branch ls C", "`varvite context branch list`", "context ls"),
        ("context pin ls C", "`varvite context pin list`", "context ls"),
        ("context snapshot list f", "`varvite context snapshot info`", "context log"),
        ("proof verify f", "`varvite proof check`", "`varvite check`"),
        ("trace stat f", "`varvite trace summary`", "table"),
        ("backup S x --force", "nothing that is there is written over", "--format"),
    ] {
        let ran = run(folder, line);
        let tips = ran.err.split("tip: ").nth(1).unwrap_or_else(|| panic!("{line}: {ran:?}"));
        assert!(ran.code == 2 && tips.contains(tip) && !tips.contains(other), "{line}: {ran:?}");
    }
}

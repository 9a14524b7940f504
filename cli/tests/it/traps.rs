//! Commands that fail leave everything as it was, end, and take nothing for something else.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binary::{Ran, command, finish, text, varvite};

/// A store in a folder of its own.
fn store(pairs: &[&str]) -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let store = text(&folder.path().join("s")).to_owned();
    varvite(&[&["table", "put", &store, "t", "--create"], pairs].concat()).yes();
    (folder, store)
}

/// Runs what takes `input` to its end, which it must come to soon.
fn fed(arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = command(arguments);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // Whoever reads no more of it has refused it.
    let _ = child.stdin.take().unwrap().write_all(input);
    let arguments = arguments.iter().map(|it| (*it).to_owned()).collect();
    wait(&mut child);
    let output = child.wait_with_output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    Ran { arguments, code: output.status.code().unwrap_or(-1), out, err }
}

fn wait(child: &mut Child) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("no end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Bytes of a value that has a page of its own.
const LONG: usize = 12_000;

/// Damages the value of `byte` alone in the file of `folder` that has it: it is longer than two pages.
fn damage(folder: &Path, byte: u8) {
    let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    for path in files {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(200).position(|it| it.iter().all(|it| *it == byte)) {
            bytes[at + LONG / 2] ^= 1;
            fs::write(path, bytes).unwrap();
            return;
        }
    }
    panic!("{byte} is nowhere");
}

#[test]
fn damaged_values_in_a_row_are_passed_over_one_by_one() {
    let values: Vec<String> = "abcdef".chars().map(|it| it.to_string().repeat(LONG)).collect();
    let mut pairs = vec!["--blob-min", "100"];
    for (key, value) in ["a", "b", "c", "d", "e", "f"].into_iter().zip(&values) {
        pairs.extend([key, value]);
    }
    let (_folder, store) = store(&pairs);
    for byte in *b"bcd" {
        damage(&Path::new(&store).join("segments"), byte);
    }
    for verb in ["scan", "dump"] {
        let ran = fed(&["table", verb, &store, "t", "--skip-damaged"], b"");
        assert_eq!((ran.code, ran.out.lines().count()), (3, 3), "{ran:?}");
        for key in ["b", "c", "d"] {
            let told = format!("left out: the value of {key}:");
            assert_eq!(ran.err.matches(&told).count(), 1, "{}", ran.err);
        }
    }
    // Who cannot pass over it is not told to.
    let (_other, other) = self::store(&["a", "1"]);
    varvite(&["table", "diff", &store, "--with", &other]).error(3, &["entries before it: 1"]);
    varvite(&["table", "scan", &store, "t"]).error(3, &["--skip-damaged"]);
}

#[test]
fn data_behind_a_line_of_a_shell_is_never_run() {
    let (_folder, store) = store(&["a", "1"]);
    let rest = "drop\tt\n".repeat(100_000);
    for first in ["put t --from -\nno-tab-here\n", "load u -\nnot a dump\n"] {
        let ran = fed(&["table", "shell", &store], format!("{first}{rest}").as_bytes());
        assert!(ran.code > 1, "{}", ran.code);
        assert_eq!(varvite(&["table", "get", &store, "t", "a"]).yes(), "1\n", "{first}");
    }
    let good = fed(&["table", "shell", &store], b"put t --from -\nb\t2\nget\tt\n");
    assert_eq!(good.code, 0, "{good:?}");
    assert_eq!(varvite(&["table", "get", &store, "t", "get"]).yes(), "t\n", "data, as it says");
}

#[test]
fn a_line_of_a_shell_is_taken_as_it_is_meant() {
    let (folder, store) = store(&["a", "1"]);
    let run = |lines: &str| fed(&["table", "shell", &store], lines.as_bytes());
    // Keys that look like flags, behind what ends those.
    assert_eq!(run("put t -- -h 2\nput t -- --format 3\n").code, 0);
    assert_eq!(run("get t -- -h\nget t -- --format\n").out, "2\n3\n");
    let json = fed(&["table", "shell", &store, "--format", "json"], b"put t k 'see --format'\n");
    assert!(json.out.starts_with('{'), "{json:?}");
    // Flags before the command are those of the program, and the store is the shell's.
    assert_eq!(run("--quiet get t a\n-q --format jsonl get t a\n").out.lines().count(), 2);
    let made = run("--quiet put a b c --create\n");
    assert!(made.code == 0 && !Path::new("a").exists(), "{made:?}");
    assert!(run("snapshot help\n").out.contains("verify"), "the help of a family");
    assert!(run("snapshot\n").err.contains("verify"), "which of them is not said");
    let open = run("get t 'a\nget t a\n");
    assert_eq!((open.code, &*open.out), (2, "1\n"), "{open:?}");
    assert!(open.err.contains("is not closed"), "{open:?}");
    let odd = folder.path().join("-odd");
    fs::rename(&store, &odd).unwrap();
    fs::write(folder.path().join("lines"), "get t a\n").unwrap();
    let mut shell = command(&["table", "shell", "--", "-odd"]);
    shell.current_dir(folder.path());
    shell.stdin(fs::File::open(folder.path().join("lines")).unwrap());
    assert_eq!(finish(shell).yes(), "1\n");
}

#[test]
#[cfg(unix)]
fn a_shell_works_on_a_store_whose_name_is_no_text() {
    use std::os::unix::ffi::OsStringExt;
    let (folder, store) = store(&["a", "1"]);
    let odd = folder.path().join(std::ffi::OsString::from_vec(b"x\xff".to_vec()));
    fs::rename(store, &odd).unwrap();
    fs::write(folder.path().join("lines"), "get t a\n").unwrap();
    let mut shell = command(&["table", "shell"]);
    shell.arg(odd).stdin(fs::File::open(folder.path().join("lines")).unwrap());
    assert_eq!(finish(shell).yes(), "1\n");
}

#[test]
fn a_bound_without_bytes_is_none() {
    let (_folder, store) = store(&["a", "1", "b", "2"]);
    for bound in ["--first", "--after", "--prefix"] {
        let ran = varvite(&["table", "delete-range", &store, "t", bound, ""]);
        ran.error(2, &["no bound is given", "--all"]);
    }
    varvite(&["table", "delete-range", &store, "t", "--after", "", "--all"]).yes();
}

#[test]
fn a_failure_leaves_no_store_and_no_folder() {
    let (folder, store) = store(&["a", "1"]);
    let new = folder.path().join("new/below");
    let dump = folder.path().join("dump");
    fs::write(&dump, "{\"key\":\"k\",\"value\":\"v\"}\n").unwrap();
    let of = |words: &str| {
        let words = words.split(' ').map(|word| match word {
            "NEW" => text(&new).to_owned(),
            "STORE" => store.clone(),
            "DUMP" => text(&dump).to_owned(),
            "CONTEXT" => text(&folder.path().join("c")).to_owned(),
            _ => word.to_owned(),
        });
        words.collect::<Vec<_>>()
    };
    varvite(&["context", "create", text(&folder.path().join("c"))]).yes();
    varvite(&["context", "put", text(&folder.path().join("c")), "main", "a", "1"]).yes();
    for line in [
        "table put NEW t k v --create --snapshot x",
        "table create NEW t --create --snapshot x",
        "table load NEW t DUMP --create --snapshot x",
        "context archive CONTEXT --lower NEW --to nosuch",
        "table snapshot export STORE nosuch NEW",
    ] {
        let words = of(line);
        let ran = varvite(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(ran.code, 2, "{ran:?}");
        assert!(!folder.path().join("new").exists(), "{line}");
    }
    let inside = text(&Path::new(&store).join("inside")).to_owned();
    varvite(&["table", "snapshot", "export", &store, "head-0000000001", &inside])
        .error(2, &["is in the store"]);
    let context = text(&folder.path().join("c")).to_owned();
    let inside = text(&folder.path().join("c/inside")).to_owned();
    varvite(&["context", "archive", &context, "--lower", &inside]).error(2, &["is in the store"]);
    assert!(!Path::new(&inside).exists());
}

#[test]
fn a_restore_from_the_only_snapshot_keeps_the_other_tables() {
    let (folder, with_a_head) = store(&["a", "1"]);
    varvite(&["table", "put", &with_a_head, "u", "b", "2"]).yes();
    varvite(&["table", "snapshot", "create", &with_a_head, "kept"]).yes();
    let store = text(&folder.path().join("parcel")).to_owned();
    varvite(&["table", "snapshot", "export", &with_a_head, "kept", &store]).yes();
    varvite(&["table", "restore", &store, "kept", "t"]).yes();
    assert_eq!(varvite(&["table", "get", &store, "u", "b"]).yes(), "2\n");
    assert_eq!(varvite(&["table", "get", &store, "t", "a"]).yes(), "1\n");
}

#[test]
fn numbers_that_are_none_are_refused_however_they_come() {
    let (folder, store) = store(&["a", "1"]);
    let (five, eight) = (folder.path().join("five"), folder.path().join("eight"));
    fs::write(&five, "12345").unwrap();
    fs::write(&eight, "12345678").unwrap();
    let says = "adds numbers of 8 bytes";
    let put = |file: &Path| {
        let put = ["table", "put", &store, "n", "--files", "k", text(file)];
        varvite(&[&put[..], &["--operator", "add-u64"]].concat())
    };
    put(&five).error(2, &[says]);
    put(&eight).yes();
    let load = |value: &str| {
        let line = format!("{{\"key\":\"k\",\"value\":\"{value}\"}}\n");
        fed(&["table", "load", &store, "m", "--operator", "add-u64"], line.as_bytes())
    };
    load("abc").error(2, &[says]);
    load("12345678").yes();
    let both = fed(&["table", "put", &store, "t", "--files", "a", "-", "b", "-"], b"x");
    both.error(2, &["one value only"]);
    assert_eq!(varvite(&["table", "get", &store, "t", "a"]).yes(), "1\n");
}

#[test]
fn a_failure_does_not_make_a_store_live() {
    let (folder, store) = store(&["a", "1"]);
    let bad = folder.path().join("bad");
    fs::write(&bad, "{\"key\":\"k\",\"value\":\"v\"}\n{").unwrap();
    let put = ["table", "put", &store, "n", "k", "5", "--live", "--operator", "add-u64"];
    varvite(&put).error(2, &["adds numbers"]);
    varvite(&["table", "load", &store, "n", text(&bad), "--live"]).error(3, &["line 2"]);
    fs::write(&bad, "k\tv\nno tab\n").unwrap();
    let lines = ["table", "put", &store, "n", "--from", text(&bad), "--live"];
    varvite(&lines).error(3, &["line 2"]);
    assert_eq!(varvite(&["table", "get", &store, "t", "a"]).yes(), "1\n");
    assert!(varvite(&["table", "put", &store, "t", "b", "2"]).yes().contains("head-0000000002"));
    // A change that succeeds does.
    varvite(&["table", "put", &store, "n", "k", "5", "--live"]).yes();
    assert_eq!(varvite(&["table", "get", &store, "n", "k"]).yes(), "5\n");
    varvite(&["check", &store]).yes();
}

#[test]
fn files_that_are_there_stay_what_they_are() {
    let folder = TempDir::new().unwrap();
    let context = text(&folder.path().join("c")).to_owned();
    varvite(&["context", "create", &context]).yes();
    varvite(&["context", "put", &context, "main", "a", "1"]).yes();
    let control = text(&folder.path().join("c/control")).to_owned();
    varvite(&["proof", "make", &context, "main", "a", "-o", &control])
        .error(2, &["is there already"]);
    varvite(&["context", "check", &context]).yes();
    let proof = text(&folder.path().join("proof")).to_owned();
    varvite(&["proof", "make", &context, "main", "a", "-o", &proof]).yes();
    assert!(fs::metadata(&proof).unwrap().len() > 10);
}

#[test]
fn pins_of_a_collection_that_is_refused_are_none() {
    let folder = TempDir::new().unwrap();
    let context = text(&folder.path().join("c")).to_owned();
    varvite(&["context", "create", &context]).yes();
    for value in ["1", "2", "3", "4"] {
        varvite(&["context", "put", &context, "main", "a", value]).yes();
    }
    let run = ["context", "collect", "run", &context, "--every", "2"];
    varvite(&[&run[..], &["--to", "nosuch"]].concat()).error(2, &["nosuch"]);
    varvite(&[&run[..], &["--since", "yesterday"]].concat()).error(2, &["yesterday"]);
    assert_eq!(varvite(&["context", "pin", "list", &context]).yes(), "", "no record is no line");
}

#[test]
fn a_number_that_no_file_has_is_no_all_clear() {
    let (_folder, store) = store(&["a", "1"]);
    for command in ["check", "scrub"] {
        varvite(&[command, &store, "--from", "999999999"]).error(2, &["nothing was read"]);
        varvite(&[command, &store, "--from", "1"]).yes();
    }
}

#[test]
fn short_ranges_at_the_end_are_right() {
    let folder = TempDir::new().unwrap();
    let dir = text(&folder.path().join("d")).to_owned();
    varvite(&["bench", "range", "setup", "--entries", "50", "--dir", &dir]).yes();
    for seed in ["1", "18446744073709551615"] {
        let run = ["bench", "range", "run", "--dir", &dir, "--seeks", "200", "--seed", seed];
        let report = varvite(&[&run[..], &["--format", "json"]].concat()).json();
        assert_eq!(report["wrong"], 0, "{report}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn devices_and_pipes_keep_nobody_waiting() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert_eq!(fed(&["info", text(&pipe)], b"").code, 2);
    let shown = fed(&["proof", "show", "/dev/zero", "--configuration", "tezos"], b"");
    assert!(shown.code == 2 && shown.err.contains("is a device"), "{shown:?}");
}

#[test]
#[cfg(unix)]
fn names_that_are_no_text_are_told_in_json() {
    use std::os::unix::ffi::OsStringExt;
    let folder = TempDir::new().unwrap();
    let name = std::ffi::OsString::from_vec(b"x\xff\n".to_vec());
    let odd = folder.path().join(name);
    let run = |words: &[&str]| {
        let mut program = command(words);
        program.arg(&odd).args(["--format", "json"]);
        finish(program).json()
    };
    assert!(run(&["context", "create"])["store"].as_str().unwrap().contains("x\u{fffd}"));
    assert_eq!(run(&["info"])["kind"], "context");
    let above = varvite(&["info", text(folder.path()), "--format", "json"]).json();
    assert!(above["stores"][0]["folder"].as_str().unwrap().contains("x\u{fffd}"), "{above}");
    let mut program = command(&["table", "get"]);
    program.arg(odd.join("\x1b[31m")).args(["t", "k"]);
    let said = finish(program).error(2, &["\\x1b[31m", "\\x0a"]);
    assert!(!said.trim_end().chars().any(char::is_control), "{said:?}");
    // What is to be typed next can be typed.
    let pack = odd.join("0000-000000.pack");
    let mut program = command(&["context", "put"]);
    program.arg(&odd).args(["main", "a", &"v".repeat(300)]);
    finish(program).yes();
    let mut bytes = fs::read(&pack).unwrap();
    let at = bytes.windows(200).position(|it| it.iter().all(|it| *it == b'v')).unwrap();
    bytes[at + 50] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let mut program = command(&["context", "check"]);
    program.arg(&odd);
    let ran = finish(program);
    let line = ran.out.lines().find(|line| line.starts_with("varvite repair ")).expect(&ran.out);
    let line =
        line.split(" makes ").next().unwrap().replace("OUT", text(&folder.path().join("out")));
    let line = line.replace("varvite ", &format!("{} ", env!("CARGO_BIN_EXE_varvite")));
    let mut shell = std::process::Command::new("bash");
    shell.args(["-c", &line]);
    let ran = finish(shell);
    assert_eq!(ran.code, 3, "what was damaged is lost: {ran:?}");
    assert!(folder.path().join("out/control").exists(), "{ran:?}");
}

#[test]
fn a_no_stays_one_when_nobody_reads_on() {
    use std::io::{BufRead, BufReader};
    let (folder, store) = store(&["a", "1"]);
    let lines: String = (0..3_000)
        .map(|n| format!("{{\"key\":\"k{n:05}\",\"value\":\"{}\"}}\n", "v".repeat(100)))
        .collect();
    fs::write(folder.path().join("dump"), lines).unwrap();
    varvite(&["table", "snapshot", "create", &store, "before"]).yes();
    let dump = text(&folder.path().join("dump")).to_owned();
    varvite(&["table", "load", &store, "t", &dump, "--into"]).yes();
    let context = text(&folder.path().join("c")).to_owned();
    varvite(&["context", "create", &context]).yes();
    varvite(&["context", "put", &context, "main", "z", "1"]).yes();
    let lines: String = (0..3_000)
        .map(|n| format!("{{\"path\":[\"{n:08x}\"],\"value\":\"{}\"}}\n", "01".repeat(100)))
        .collect();
    fs::write(folder.path().join("paths"), lines).unwrap();
    let paths = text(&folder.path().join("paths")).to_owned();
    varvite(&["context", "load", &context, "main", &paths]).yes();
    for (words, expected) in [
        (&["table", "diff", &*store, "before"][..], 1),
        (&["context", "diff", &context, "main~1", "main"], 1),
        (&["context", "dump", &context, "main"], 0),
        (&["table", "dump", &store, "t"], 0),
    ] {
        let mut child = command(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        wait(&mut child);
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{words:?}: {first}");
    }
}

#[test]
fn a_store_is_listed_while_its_heads_change() {
    let (_folder, store) = store(&["a", "1"]);
    let writer = {
        let store = store.clone();
        thread::spawn(move || {
            for number in 0..60 {
                varvite(&["table", "put", &store, "t", "a", &number.to_string()]).yes();
            }
        })
    };
    while !writer.is_finished() {
        assert!(varvite(&["table", "list", &store]).yes().starts_with("t\t"));
        varvite(&["info", &store]).yes();
    }
    writer.join().unwrap();
}

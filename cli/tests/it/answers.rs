//! One rule for how commands end: what is absent is 1, in one form; what is wrong in an input is 3, what is typed wrong 2.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ran, command, finish, text, varvite};
use crate::exits::{World, commands};

/// Runs a line in the folders of `world`.
fn run(world: &World, line: &str) -> Ran {
    let words = world.arguments(line);
    let mut command = command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    command.stdin(Stdio::null());
    finish(command)
}

/// What is asked for is not there, by each command that answers so.
const ABSENT: [&str; 16] = [
    "table get STORE t nope",
    "table get LIVE t nope",
    "table delete STORE t nope",
    "table delete LIVE t nope nor",
    "table delete-range STORE t --prefix nope",
    "table follow LIVE t nope --changes 0",
    "context get CONTEXT main x",
    "context ls CONTEXT main x",
    "context tree CONTEXT main x",
    "context du CONTEXT main x",
    "context remove CONTEXT main x",
    "context branch remove CONTEXT x",
    "proof check PROOF --root ROOT --configuration tezos a/c",
    "proof check PROOF --root ROOT --configuration tezos z/y",
    "info UNDER",
    "info UNDER --quiet",
];

/// Commands whose no is another answer: what is compared differs, or an answer is wrong.
const OTHER_NO: [&str; 18] = [
    "bench blob",
    "bench context",
    "bench load",
    "bench proof",
    "bench range run",
    "bench snapshot",
    "bench upsert",
    "bench utxo run",
    "conformance",
    "context diff",
    "context merge",
    "context snapshot diff",
    "demo",
    "replay blocks",
    "replay cardano",
    "replay tezos-json",
    "table diff",
    "trace replay",
];

/// Commands that end with 0, or could not run, or found damage: what they need is there, or nothing can be answered.
const NO_ABSENCE: [&str; 67] = [
    "backup",
    "bench range setup",
    "bench utxo setup",
    "check",
    "completions",
    "context archive",
    "context attach",
    "context branch list",
    "context branch set",
    "context check",
    "context collect cancel",
    "context collect pause",
    "context collect resume",
    "context collect run",
    "context collect status",
    "context create",
    "context dump",
    "context export-irmin",
    "context load",
    "context log",
    "context migrate",
    "context pin add",
    "context pin list",
    "context pin remove",
    "context put",
    "context shell",
    "context snapshot export",
    "context snapshot import",
    "context snapshot info",
    "context snapshot verify",
    "context stat",
    "context unarchive",
    "doctor",
    "explore",
    "inspect",
    "proof make",
    "proof show",
    "repair",
    "scrub",
    "table count",
    "table create",
    "table drop",
    "table dump",
    "table list",
    "table load",
    "table merge finish",
    "table merge status",
    "table put",
    "table rename",
    "table restore",
    "table scan",
    "table shell",
    "table snapshot create",
    "table snapshot delete",
    "table snapshot export",
    "table snapshot import",
    "table snapshot info",
    "table snapshot list",
    "table snapshot verify",
    "table stat",
    "table union",
    "trace compare",
    "trace convert",
    "trace info",
    "trace record",
    "trace show",
    "trace summary",
];

#[test]
fn what_is_absent_is_told_in_one_way_by_every_command() {
    let world = World::new();
    let log = varvite(&["context", "log", text(&world.path("CONTEXT")), "--format", "json"]).json();
    let root = log[0]["tree"].as_str().unwrap().to_owned();
    assert_eq!(run(&world, "proof make CONTEXT main a/b a/c --output PROOF").code, 0);
    let mut all = BTreeSet::new();
    commands(&[], &mut all);
    let is_of = |line: &str, command: &str| format!("{line} ").starts_with(&format!("{command} "));
    for command in &all {
        let places = [
            ABSENT.iter().any(|line| is_of(line, command)),
            OTHER_NO.contains(&&**command),
            NO_ABSENCE.contains(&&**command),
        ];
        let count = places.iter().filter(|it| **it).count();
        assert_eq!(count, 1, "`{command}` stands in {count} of the lists: which no has it?");
    }
    for line in ABSENT {
        let line = line.replace(" ROOT ", &format!(" {root} "));
        let ran = run(&world, &format!("{line} --format json"));
        let value: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{ran:?}"));
        let record = value.as_array().map_or(&value, |all| all.last().unwrap());
        assert_eq!(record["found"], false, "{line}: {value}");
        let why = record["why"].as_str().unwrap_or_else(|| panic!("{line}: {value}"));
        assert!(why.contains("no") || why.contains("not"), "{line}: {why}");
        // Whoever follows goes on, whatever is not there.
        let code = i32::from(!line.starts_with("table follow"));
        assert_eq!(ran.code, code, "{ran:?}");
    }
    let found = run(
        &world,
        &format!("proof check PROOF --root {root} --configuration tezos a/b --format json"),
    );
    assert!(found.code == 0 && found.out.contains("\"found\": true"), "{found:?}");
    let some = run(&world, "table delete STORE t k00001 nope --format json").json();
    assert!(some["found"] == true && some["missing"] == 1 && some["why"].is_null(), "{some}");
    // What is piped is records: a key alone, with no tab and so without a value.
    let followed = run(&world, "table follow LIVE t k00001 nope --changes 0");
    assert_eq!(followed.yes(), "k00001\t1\nnope\n");
}

/// What was to be looked into is not there, so that nothing is answered.
#[test]
fn a_place_that_is_not_there_could_not_be_asked() {
    let world = World::new();
    for line in [
        "context get CONTEXT nope a",
        "context ls CONTEXT nope a",
        "context remove CONTEXT nope a",
        "context dump CONTEXT nope",
        "context diff CONTEXT main nope",
        "context branch set CONTEXT b nope",
        "table get STORE nope k",
        "table delete STORE nope k",
        "table snapshot verify STORE nope",
        "proof make CONTEXT nope a",
    ] {
        run(&world, line).error(2, &["nope"]);
        let json = run(&world, &format!("{line} --format json"));
        assert!(json.out.contains("\"kind\": \"missing\""), "{json:?}");
    }
}

/// Inputs of which a line is none, with the command that reads it.
#[test]
fn a_line_that_is_none_is_damage_of_its_input() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = command(&words);
        command.current_dir(folder);
        finish(command)
    };
    run("context create C").yes();
    run("context put C main z 1").yes();
    run("table put S t a b --create").yes();
    let inputs: BTreeMap<&str, (&[u8], &[&str])> = BTreeMap::from([
        (
            "json",
            (
                &b"{\"key\":\"a\",\"value\":\"b\"}\nno\n"[..],
                &["table load S new FILE", "table load S t FILE --into"][..],
            ),
        ),
        (
            "escape",
            (
                b"{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"b\\\\q\",\"value\":\"\"}\n",
                &["table load S new FILE"],
            ),
        ),
        (
            "hex",
            (
                b"{\"key\":\"aa\",\"value\":\"bb\"}\n{\"key\":\"b\",\"value\":\"\"}\n",
                &["table load S new FILE --hex"],
            ),
        ),
        (
            "json-utf8",
            (
                b"{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"b\xff\",\"value\":\"\"}\n",
                &["table load S new FILE"],
            ),
        ),
        ("csv", (b"key,value\nb\\q,1\n", &["table load S new FILE"])),
        ("csv-hex", (b"key_hex,value_hex\nb,00\n", &["table load S new FILE"])),
        ("csv-utf8", (b"key,value\nb\xff,1\n", &["table load S new FILE"])),
        ("tab", (b"a\tb\nno tab\n", &["table put S t --from FILE"])),
        ("line-escape", (b"a\tb\nb\\q\t1\n", &["table put S t --from FILE"])),
        ("line-utf8", (b"a\tb\nb\xff\t1\n", &["table put S t --from FILE"])),
        (
            "paths",
            (
                b"{\"path\":[\"61\"],\"value\":\"00\"}\n{\"path\":[\"6\"],\"value\":\"00\"}\n",
                &["context load C main FILE"],
            ),
        ),
        (
            "paths-json",
            (b"{\"path\":[\"61\"],\"value\":\"00\"}\nno\n", &["context load C main FILE"]),
        ),
        (
            "paths-utf8",
            (b"{\"path\":[\"61\"],\"value\":\"00\"}\n\xff\n", &["context load C main FILE"]),
        ),
        ("blocks", (b"B 0 S\nq a\n", &["replay blocks FILE"])),
        ("vectors", (b"{\"value\":\"\",\"hash\":\"\"}\nnot json\n", &["conformance FILE"])),
    ]);
    for (name, (bytes, lines)) in inputs {
        fs::write(folder.join(name), bytes).unwrap();
        for line in lines {
            run(&line.replace("FILE", name)).error(3, &[name, "line 2"]);
        }
    }
    // The same typed is a wrong argument.
    for line in [
        "table get S t b\\q",
        "table put S t b\\q 1",
        "table delete S t b\\q",
        "table get S t b --hex",
        "table count S t --prefix b\\q",
        "context get C main b\\q",
        "context put C main a b\\q",
    ] {
        run(line).error(2, &["the "]);
    }
    assert_eq!(run("table scan S t").yes(), "a\tb\n", "nothing of it is put");
}

/// Folders and files whose names are no text are told by their bytes.
#[test]
#[cfg(target_os = "linux")]
fn names_that_are_no_text_can_be_opened_by_what_json_says() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let folder = TempDir::new().unwrap();
    let odd = folder.path().join(OsString::from_vec(b"x\xff".to_vec()));
    let run = |words: &[&str], more: &[&Path]| {
        let mut program = command(words);
        program.args(more).args(["--format", "json"]);
        finish(program).json()
    };
    let again = |value: &Value, name: &str| {
        let digits = value[format!("{name}_hex")].as_str().unwrap_or_else(|| panic!("{value}"));
        let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let bytes = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        std::path::PathBuf::from(OsString::from_vec(bytes))
    };
    assert_eq!(again(&run(&["context", "create"], &[&odd]), "store"), odd);
    let above = run(&["info"], &[folder.path()]);
    assert_eq!(again(&above["stores"][0], "folder"), odd);
    let report = folder.path().join(OsString::from_vec(b"r\xff".to_vec()));
    assert_eq!(again(&run(&["doctor", "--quick", "--out"], &[&report, &odd]), "written"), report);
    assert!(report.is_file());
    let vectors = folder.path().join(OsString::from_vec(b"v\xff".to_vec()));
    let empty = "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c";
    fs::write(&vectors, format!("{{\"value\":\"\",\"hash\":\"{empty}\"}}\n")).unwrap();
    let checked = run(&["conformance"], &[&vectors]);
    assert_eq!(again(&checked["files"][0], "file"), vectors);
}

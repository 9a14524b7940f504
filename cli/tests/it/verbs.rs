//! Loads into what is there, merges, views of values, tables with a host's merge operator.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use varvite::disk::os::OsDisk;
use varvite::{Batch, Log, MergeOperator, Session, SessionOptions, SnapshotContent, TableOptions};

use crate::binary::{command, text, varvite};

fn store() -> (TempDir, String) {
    let folder = TempDir::new().unwrap();
    let store = text(&folder.path().join("s")).to_owned();
    varvite(&["table", "put", &store, "t", "a", "old", "b", "2", "--create"]).yes();
    (folder, store)
}

#[test]
fn a_load_adds_to_a_table_that_is_there() {
    let (folder, store) = store();
    let dump = folder.path().join("dump");
    let line = |n: u32| format!("{{\"key\":\"n{n:04}\",\"value\":\"{n}\"}}\n");
    let lines: Vec<_> = (0..2000).rev().map(line).collect();
    fs::write(&dump, lines.concat() + "{\"key\":\"a\",\"value\":\"new\"}\n").unwrap();
    let dump = text(&dump);
    varvite(&["table", "load", &store, "t", dump]).error(2, &["there is a table t", "--into"]);
    let said = varvite(&["table", "load", &store, "t", dump, "--into"]).yes();
    assert!(said.starts_with("2,001 entries loaded"), "{said}");
    let scan = varvite(&["table", "scan", &store, "t", "--before", "n0001"]).yes();
    assert_eq!(scan, "a\tnew\nb\t2\nn0000\t0\n");
    varvite(&["table", "load", &store, "none", dump, "--into"]).error(2, &["none"]);
    fs::write(dump, "{\"key\":\"a\",\"value\":\"x\"}\nnot a line\n").unwrap();
    varvite(&["table", "load", &store, "t", dump, "--into"]).error(3, &["line 2"]);
    assert_eq!(varvite(&["table", "get", &store, "t", "a"]).yes(), "new\n", "all or nothing");
}

#[test]
fn what_is_dumped_or_scanned_as_csv_is_loaded() {
    let (folder, store) = store();
    varvite(&["table", "put", &store, "t", "c,\"d", "\\x00\\x0a", "e", ""]).yes();
    for (number, verb) in ["dump", "scan"].into_iter().enumerate() {
        let csv = varvite(&["table", verb, &store, "t", "--format", "csv"]).yes();
        let (file, name) = (folder.path().join("csv"), format!("u{number}"));
        fs::write(&file, csv).unwrap();
        varvite(&["table", "load", &store, &name, text(&file), "--format", "csv"]).yes();
        let scan = |table: &str| varvite(&["table", "scan", &store, table]).yes();
        assert_eq!(scan(&name), scan("t"));
    }
    let file = folder.path().join("csv");
    fs::write(&file, "key,value\nz,1\ny,2\n").unwrap();
    varvite(&["table", "load", &store, "v", text(&file)]).error(2, &["csv, line 3: ", "--sort"]);
    varvite(&["table", "load", &store, "v", text(&file), "--sort"]).yes();
    assert_eq!(varvite(&["table", "scan", &store, "v"]).yes(), "y\t2\nz\t1\n");
    fs::write(&file, "key,value\na,1,2\n").unwrap();
    varvite(&["table", "load", &store, "t", text(&file), "--into"]).error(3, &["line 2"]);
}

#[test]
fn what_is_scanned_can_be_put() {
    let (folder, store) = store();
    let lines = folder.path().join("lines");
    varvite(&["table", "put", &store, "t", "tab\\x09", "line\\x0a"]).yes();
    let scanned = varvite(&["table", "scan", &store, "t"]).yes();
    fs::write(&lines, &scanned).unwrap();
    let put = varvite(&["table", "put", &store, "u", "--from", text(&lines)]).yes();
    assert!(put.starts_with("3 keys put"), "{put}");
    assert_eq!(varvite(&["table", "scan", &store, "u"]).yes(), scanned);
    fs::write(&lines, "a\t1\nb 2\n").unwrap();
    varvite(&["table", "put", &store, "u", "--from", text(&lines)]).error(3, &["line 2", "no tab"]);
    assert_eq!(varvite(&["table", "scan", &store, "u"]).yes(), scanned, "nothing was put");
}

#[test]
fn what_puts_nothing_saves_nothing() {
    let (_folder, store) = store();
    let put = ["table", "put", &store, "t", "--from", "/dev/null"];
    assert_eq!(varvite(&put).yes(), "0 keys put; nothing is saved\n");
    let json = varvite(&[&put[..], &["--format", "json"]].concat()).json();
    assert_eq!((&json["operations"], &json["snapshot"]), (&json!(0), &json!(null)));
    assert!(varvite(&["table", "snapshot", "list", &store]).yes().starts_with("head-0000000001\t"));
}

#[test]
fn keys_are_counted_in_a_table_and_in_a_range() {
    let (_folder, store) = store();
    varvite(&["table", "put", &store, "t", "ab", "3", "c", "4"]).yes();
    varvite(&["table", "delete", &store, "t", "c"]).yes();
    let count = |range: &[&str]| varvite(&[&["table", "count", &store, "t"], range].concat()).yes();
    assert_eq!(count(&[]), "3\n");
    assert_eq!(count(&["--prefix", "a"]), "2\n");
    assert_eq!(count(&["--after", "a", "--last", "b"]), "2\n");
    assert_eq!(count(&["--prefix", "61", "--hex"]), "2\n");
    assert_eq!(count(&["--first", "x"]), "0\n");
    varvite(&["table", "count", &store, "none"]).error(2, &["none"]);
}

#[test]
fn words_of_other_programs_are_understood() {
    let (_folder, store) = store();
    varvite(&["table", "set", &store, "t", "x", "1"]).yes();
    varvite(&["table", "insert", &store, "t", "y", "2"]).yes();
    varvite(&["table", "del", &store, "t", "x"]).yes();
    varvite(&["table", "rm", &store, "t", "y"]).yes();
    let listed = varvite(&["table", "list", &store]).yes();
    for word in ["ls", "tables"] {
        assert_eq!(varvite(&["table", word, &store]).yes(), listed);
    }
    assert_eq!(varvite(&["table", "count", &store, "t"]).yes(), "2\n");
}

#[test]
fn a_binary_dump_is_not_asked_for_as_json() {
    let (_folder, store) = store();
    for format in ["json", "jsonl", "csv"] {
        let dump = varvite(&["table", "dump", &store, "t", "--binary", "--format", format]);
        dump.error(2, &["--binary", "leave --format out"]);
    }
}

#[test]
fn a_context_takes_what_another_dumped() {
    let folder = TempDir::new().unwrap();
    let [one, two] = ["one", "two"].map(|name| text(&folder.path().join(name)).to_owned());
    for (store, path) in [(&one, "a/b"), (&one, "c"), (&two, "d")] {
        if !Path::new(store).exists() {
            varvite(&["context", "create", store]).yes();
        }
        varvite(&["context", "put", store, "main", path, "v"]).yes();
    }
    let dump = folder.path().join("dump");
    fs::write(&dump, varvite(&["context", "dump", &one, "main"]).yes()).unwrap();
    varvite(&["context", "load", &two, "main", text(&dump)]).yes();
    varvite(&["context", "load", &two, "copy", text(&dump)]).yes();
    let all = varvite(&["context", "dump", &two, "main"]).yes();
    assert_eq!(all.lines().count(), 3);
    assert_eq!(
        varvite(&["context", "dump", &two, "copy"]).yes(),
        fs::read_to_string(&dump).unwrap()
    );
    fs::write(&dump, "{\"path\":[\"61\"],\"value\":\"01\"}\n{\"path\":[],\"value\":\"0\"}\n")
        .unwrap();
    let load = ["context", "load", &two, "main", text(&dump)];
    varvite(&[&load[..], &["--replace"]].concat()).error(3, &["line 2", "expected"]);
    varvite(&load).error(2, &["line 1", "\"a\" is a directory of 1", "--replace"]);
    let put = ["context", "put", &two, "main"];
    varvite(&[&put[..], &["a", "v"]].concat()).error(2, &["\"a\" is a directory of 1"]);
    varvite(&[&put[..], &["c/x/y", "v"]].concat()).error(2, &["\"c\" is a value"]);
    assert_eq!(varvite(&["context", "dump", &two, "main"]).yes(), all, "nothing was committed");
    varvite(&[&put[..], &["c/x/y", "v", "--replace"]].concat()).yes();
    assert_eq!(varvite(&["context", "get", &two, "main", "c/x/y"]).yes(), "v\n");
}

#[test]
fn what_is_listed_can_be_typed() {
    let folder = TempDir::new().unwrap();
    let store = text(folder.path());
    varvite(&["context", "create", store]).yes();
    varvite(&["context", "put", store, "main", "d/x\\x2fy", "one"]).yes();
    varvite(&["context", "put", store, "main", "d/x/y", "two"]).yes();
    let listed = varvite(&["context", "ls", store, "main", "d"]).yes();
    let names: Vec<_> = listed.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names, ["x", "x\\x2fy"]);
    assert_eq!(varvite(&["context", "get", store, "main", "d/x\\x2fy"]).yes(), "one\n");
    let json = varvite(&["context", "ls", store, "main", "d", "--format", "json"]).yes();
    assert!(json.contains("x\\\\x2fy"), "{json}");
}

#[test]
fn numbers_that_are_to_be_added_are_looked_at_on_every_way() {
    let (folder, store) = store();
    let lines = folder.path().join("lines");
    let one = "\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00";
    varvite(&["table", "put", &store, "c", "x", one, "--operator", "add-u64"]).yes();
    fs::write(&lines, "x\t5\n").unwrap();
    let put = ["table", "put", &store, "c", "--from", text(&lines)];
    varvite(&put).error(2, &["8 bytes"]);
    fs::write(&lines, "{\"key\":\"x\",\"value\":\"7\"}\n").unwrap();
    varvite(&["table", "load", &store, "c", text(&lines), "--into"]).error(2, &["8 bytes"]);
    assert_eq!(varvite(&["table", "get", &store, "c", "x"]).yes(), format!("{one}\n"));
}

#[test]
fn what_a_failed_put_leaves_in_live_tables_is_told() {
    let folder = TempDir::new().unwrap();
    let (store, lines) = (folder.path().join("live"), folder.path().join("lines"));
    let good: Vec<_> = (0..60_000).map(|n| format!("k{n}\tv{n:0>90}\n")).collect();
    fs::write(&lines, good.concat() + "no tab\n").unwrap();
    let put = ["table", "put", text(&store), "t", "--from", text(&lines), "--live", "--create"];
    varvite(&["table", "put", text(&store), "t", "a", "1", "--live", "--create"]).yes();
    varvite(&put).error(3, &["line 60001", "entries, which stay"]);
}

#[cfg(unix)]
#[test]
fn damage_is_told_also_to_who_reads_one_line() {
    let (folder, store) = store();
    let segment = fs::read_dir(folder.path().join("s/segments"));
    let segment = segment.unwrap().next().unwrap().unwrap().path();
    crate::exits::flip(&segment, 4100);
    let program = env!("CARGO_BIN_EXE_varvite");
    // Something longer than the reader waits for, so that the pipe is closed when it is written.
    let script =
        format!("{program} check {store} | (exec 0<&-; sleep 0.2); echo ${{PIPESTATUS[0]}}");
    let ran = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "3\n");
}

#[test]
fn merges_are_listed_and_a_union_is_finished() {
    let (_folder, store) = store();
    let put = |table: &str| {
        let pairs: Vec<String> =
            (0..2000).flat_map(|n| [format!("{table}{n}"), "v".repeat(50)]).collect();
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        varvite(&[&["table", "put", &store, table][..], &pairs].concat()).yes();
    };
    put("u");
    put("v");
    let status = |format: &str| varvite(&["table", "merge", "status", &store, "--format", format]);
    assert_eq!(status("table").yes(), "");
    varvite(&["table", "union", &store, "both", "u", "v", "--credits", "1"]).yes();
    let merges = status("json").json();
    assert_eq!(
        (&merges["merges"][0]["table"], &merges["merges"][0]["union"]),
        (&json!("both"), &json!(true))
    );
    assert!(merges["merges"][0]["left_bytes"].as_u64() > Some(0), "{merges}");
    assert!(status("table").yes().starts_with("both\tunion\t"));
    let done = varvite(&["table", "merge", "finish", &store, "both"]).yes();
    assert!(done.ends_with(" merged\n"), "{done}");
    assert_eq!(status("table").yes(), "");
    let done = varvite(&["table", "merge", "finish", &store, "both"]).yes();
    assert_eq!(done, "both: nothing of a union is left to merge\n");
    assert!(varvite(&["table", "stat", &store, "both", "--exact"]).yes().contains("4,000 exactly"));
}

#[test]
fn a_union_gets_on_however_little_is_merged_at_once() {
    let (_folder, store) = store();
    let session = Session::open(OsDisk::new(&store).unwrap(), SessionOptions::default()).unwrap();
    let mut tables = Vec::new();
    for name in ["u", "v"] {
        let mut table = session.create_table(name, TableOptions::default()).unwrap();
        for n in 0..500_u32 {
            let key = format!("{n:05}{name}");
            table.update(Batch::new().insert(key.as_bytes(), &vec![n as u8; 50_000])).unwrap();
        }
        tables.push(table);
    }
    let named: Vec<_> = tables.iter().collect();
    let content = SnapshotContent { label: "", payload: b"", tables: &named };
    session.save_snapshot("head-0000000009", content).unwrap();
    drop(tables);
    session.close().unwrap();
    // Segments are of 16 MiB, and half of one is saved by nobody.
    let made = ["table", "union", &store, "both", "u", "v", "--credits", "9000000"];
    let made = varvite(&[&made[..], &["--format", "json"]].concat()).json();
    let left = || {
        let status = ["table", "merge", "status", &store, "--format", "json"];
        let status = varvite(&status).json();
        status["merges"][0]["left_bytes"].as_u64().unwrap_or(0)
    };
    let mut before = left();
    assert_eq!(made["union_debt_bytes"], before, "what is left is what the next command finds");
    assert!(before > 40 << 20, "{before}");
    let finish = ["table", "merge", "finish", &store, "both", "--format", "json"];
    for most in ["0", "1", "1", "17", "1", "1"] {
        let ended = varvite(&[&finish[..], &["--most", most]].concat()).json();
        let after = left();
        assert_eq!((&ended["union_debt_bytes"], before > after), (&after.into(), true), "{most}");
        assert_eq!(ended["merged_bytes"], before - after);
        assert!(most != "17" || before - after >= 17 << 20 || after == 0, "{before} {after}");
        before = after;
        if after == 0 {
            break;
        }
    }
    assert_eq!(left(), 0);
    let count = varvite(&["table", "count", &store, "both"]).yes();
    assert_eq!(count.split_whitespace().next(), Some("1000"), "{count}");
}

#[test]
fn values_are_shown_as_what_they_mean() {
    let (_folder, store) = store();
    let number = "ffffffffffffffff";
    varvite(&["table", "put", &store, "n", "6b", number, "6c", "820102", "--hex"]).yes();
    let get =
        |key: &str, view: &str| varvite(&["table", "get", &store, "n", key, "--as", view]).yes();
    assert_eq!(get("k", "u64le"), "18446744073709551615\n");
    assert_eq!(get("l", "cbor"), "[1, 2]\n");
    assert_eq!(get("l", "u64be"), "\\x82\\x01\\x02 (not u64be)\n");
    let scan = varvite(&["table", "scan", &store, "n", "--as", "u64le", "--format", "json"]).json();
    assert_eq!(scan[0]["value_as"], u64::MAX);
    assert_eq!(scan[0]["value_as_text"], "18446744073709551615");
    assert_eq!(scan[1]["value_as"], serde_json::Value::Null);
}

/// Stores with a table whose operator the program does not know: live, and in a snapshot.
fn of_a_host(folder: &Path) -> [String; 2] {
    let longest = MergeOperator::new("longest", |one, two| {
        if one.len() > two.len() { one } else { two }.to_vec()
    });
    ["live", "snapshot"].map(|name| {
        let path = folder.join(name);
        let options = SessionOptions {
            log: if name == "live" { Log::Synced } else { Log::None },
            ..SessionOptions::default()
        };
        let session = Session::create(OsDisk::create(&path).unwrap(), options).unwrap();
        let operator = Some(longest.clone());
        let mut table = session
            .create_table("t", TableOptions { operator, ..TableOptions::default() })
            .unwrap();
        table.update(Batch::new().insert(b"k", b"abc").insert(b"plain", b"1")).unwrap();
        if name == "snapshot" {
            let content = SnapshotContent { label: "", payload: b"\x00raw", tables: &[&table] };
            session.save_snapshot("s", content).unwrap();
        }
        table.update(Batch::new().upsert(b"twice", b"1")).unwrap();
        table.update(Batch::new().upsert(b"twice", b"22")).unwrap();
        drop(table);
        session.close().unwrap();
        text(&path).to_owned()
    })
}

#[test]
fn a_table_with_a_hosts_operator_is_looked_at_without_it() {
    let folder = TempDir::new().unwrap();
    for store in of_a_host(folder.path()) {
        assert_eq!(varvite(&["table", "get", &store, "t", "k", "--quiet"]).yes(), "abc\n");
        let scan = varvite(&["table", "scan", &store, "t", "--last", "plain", "--quiet"]).yes();
        assert_eq!(scan, "k\tabc\nplain\t1\n");
        assert!(varvite(&["table", "stat", &store, "t", "--quiet"]).yes().contains("keys\t"));
        let list = varvite(&["table", "list", &store, "--format", "json", "--quiet"]).json();
        assert_eq!(list["tables"][0]["operator"], "longest");
        // It is changed by its own program only.
        varvite(&["table", "put", &store, "t", "k", "v"]).error(2, &["longest"]);
        // Saved it is as it is.
        varvite(&["table", "snapshot", "create", &store, "more"]).yes();
        varvite(&["table", "snapshot", "create", &store, "again", "--from", "more"]).yes();
        let read = ["table", "get", &store, "t", "k", "--snapshot", "again", "--quiet"];
        assert_eq!(varvite(&read).yes(), "abc\n");
        varvite(&["table", "snapshot", "delete", &store, "more"]).yes();
        varvite(&["table", "snapshot", "delete", &store, "again"]).yes();
    }
    // The log has two upserts that nobody here can join.
    let twice = varvite(&["table", "get", text(&folder.path().join("live")), "t", "twice"]);
    assert_eq!((twice.code, twice.out.as_str()), (0, "1 \\+ 22\n"));
    assert!(
        twice.err.starts_with("warning: only the program of this store knows"),
        "{}",
        twice.err
    );
    // What is shown so is told from every value, and cannot be loaded for one.
    let live = text(&folder.path().join("live")).to_owned();
    let get = |more: &[&str]| {
        varvite(&[&["table", "get", &live, "t", "twice", "--quiet"], more].concat())
    };
    assert_eq!(get(&["--raw"]).yes(), "122");
    assert_eq!(get(&["--format", "json"]).json()["value"], "1 \\+ 22");
    let dump = varvite(&["table", "dump", &live, "t", "--quiet"]).yes();
    assert!(dump.contains(r#"{"key":"twice","value":"1 \\+ 22"}"#), "{dump}");
    fs::write(folder.path().join("dump"), dump).unwrap();
    let (copy, dump) = (folder.path().join("copy"), folder.path().join("dump"));
    let load = ["table", "load", "--create", text(&copy), "t", text(&dump)];
    varvite(&load).error(3, &["begins no escape"]);
    varvite(&["table", "dump", &live, "t", "--quiet", "--binary"]).error(2, &["twice", "--binary"]);
    // Whatever calls no operator can be done: to other tables, and with the table as it is.
    for store in of_a_host(&folder.path().join("more")) {
        varvite(&["table", "put", &store, "other", "k", "v", "--quiet"]).yes();
        assert_eq!(varvite(&["table", "get", &store, "other", "k"]).yes(), "v\n");
        assert_eq!(varvite(&["table", "get", &store, "t", "plain", "--quiet"]).yes(), "1\n");
        varvite(&["table", "delete", &store, "t", "plain"]).error(2, &["longest", "the program"]);
        if store.ends_with("snapshot") {
            varvite(&["table", "rename", &store, "t", "u"]).yes();
            assert_eq!(varvite(&["table", "get", &store, "u", "plain", "--quiet"]).yes(), "1\n");
            varvite(&["table", "restore", &store, "s", "t"]).yes();
            varvite(&["table", "snapshot", "create", &store, "kept"]).yes();
            varvite(&["table", "union", &store, "both", "other", "--snapshot", "kept"]).yes();
            varvite(&["table", "union", &store, "more", "t", "other", "--snapshot", "kept"])
                .error(2, &["only the program of this store knows", "longest"]);
            varvite(&["table", "drop", &store, "both"]).yes();
            varvite(&["table", "snapshot", "delete", &store, "kept"]).yes();
        }
        varvite(&["table", "drop", &store, "t"]).yes();
        assert!(!varvite(&["table", "list", &store]).yes().contains("t\t2"));
    }
    let store = text(&folder.path().join("snapshot")).to_owned();
    let raw = varvite(&["table", "snapshot", "info", &store, "s", "--raw"]).yes();
    assert_eq!(raw, "\0raw");
}

/// What the shell of a face says to the lines.
fn shell(face: &str, store: &str, lines: &str) -> (i32, String, String) {
    let mut child = command(&[face, "shell", store]);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn a_shell_runs_the_lines_of_both_faces() {
    let (folder, store) = store();
    let (code, out, err) = shell("table", &store, "get t a\n\nput t 'a key' c\nget t \"a key\"\n");
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "old\n1 key put; saved as head-0000000002\nc\n");
    let (code, out, err) = shell("table", &store, "get t none\nget none a\nquit\nget t a\n");
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("there is no key none") && err.contains("error: "), "{err}");
    let (code, out, _) =
        shell("table", &store, "get t a --format jsonl\nsnapshot list --format csv\n");
    assert!(
        code == 0 && out.contains("\"command\":\"table get\"") && out.contains("\nname,"),
        "{out}"
    );
    let (code, _, err) = shell("table", &store, "got t a\n");
    assert!(code == 2 && err.contains("a similar subcommand exists: 'get'"), "{err}");
    // What follows is what the command reads.
    let (code, out, err) = shell("table", &store, "load loaded\n{\"key\":\"k\",\"value\":\"v\"}\n");
    assert_eq!(code, 0, "{out}{err}");
    let (_, out, _) = shell("table", &store, "get loaded k\n");
    assert_eq!(out, "v\n");
    // As somebody writes it who comes from SQL.
    let (code, out, err) =
        shell("table", &store, "put t k 'it''s';\nget t k;\n.read f.sql\n.quit;\nget t k\n");
    assert_eq!((code, out.lines().last()), (2, Some("it's")), "{err}");
    assert!(err.contains("`varvite table shell` runs the lines of a file"), "{err}");
    assert_eq!(shell("table", &store, "\\q\nget t k\n").1, "");
    let (code, out, _) = shell("table", &store, "help\n");
    assert!(code == 0 && out.contains("delete-range"), "{out}");

    let context = text(&folder.path().join("c")).to_owned();
    varvite(&["context", "create", &context]).yes();
    let lines = "put main a/b 5\nget main a/b\nbranch list\n";
    let (code, out, err) = shell("context", &context, lines);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("\n5\nmain\tCo"), "{out}");
    assert_eq!(shell("table", &context, "").0, 2);
}

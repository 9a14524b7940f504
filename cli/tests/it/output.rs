//! What is piped: a record a line, in every format.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::binary::{command, finish, run, text, varvite};
use crate::exits::{World, lines};

#[test]
fn nothing_that_is_piped_has_borders_or_is_broken() {
    let world = World::new();
    let long = "n".repeat(64);
    varvite(&["table", "put", text(&world.path("LIVE")), &long, "k", "v"]).yes();
    let mut listed = 0;
    for line in lines().filter(|line| !line.contains("--changes")) {
        let arguments = world.arguments(line);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out =
            String::from_utf8_lossy(&command(&arguments).output().unwrap().stdout).into_owned();
        assert!(!out.contains(['│', '┌', '┆', '╞', '└']), "{line}: {out}");
        assert!(
            out.lines().all(|line| line == line.trim_end_matches([' ', '\r'])),
            "{line}: {out}"
        );
        listed += usize::from(out.contains('\t'));
    }
    assert!(listed > 10, "few commands have printed records");
    let list = varvite(&["table", "list", text(&world.path("LIVE"))]).yes();
    let row = list.lines().find(|line| line.starts_with(&long)).unwrap();
    assert_eq!(row.split('\t').count(), 4, "{list}");
}

#[test]
fn a_list_is_lines_of_json_or_of_csv() {
    let folder = TempDir::new().unwrap();
    let store = text(&folder.path().join("s")).to_owned();
    varvite(&["table", "put", &store, "t", "a,b", "1", "c", "say \"no\"", "--create"]).yes();
    let scan = |format: &str| varvite(&["table", "scan", &store, "t", "--format", format]);
    let whole = scan("json").json();
    let lines = scan("jsonl").yes();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(whole, Value::from(lines));
    assert_eq!(whole[0]["key_hex"], "612c62");
    let csv = scan("csv").yes();
    let csv: Vec<_> = csv.lines().collect();
    assert_eq!(csv[0], "key,key_text,key_hex,value,value_text,value_hex");
    assert_eq!(csv[1], "\"a,b\",\"a,b\",612c62,1,1,31");
    assert!(csv[2].starts_with("c,c,63,\"say \"\"no\"\"\","), "{}", csv[2]);

    let tables = varvite(&["table", "list", &store, "--format", "csv"]).yes();
    assert!(tables.starts_with("name,physical_entries,disk_bytes,operator\nt,2,"), "{tables}");
    let line = varvite(&["table", "list", &store, "--format", "jsonl"]).yes();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["name"], "t");
    let none = varvite(&["table", "scan", &store, "t", "--first", "x", "--format", "json"]);
    assert_eq!(none.json(), json!([]));
}

#[test]
fn what_is_not_there_and_what_cannot_be_done_is_json_too() {
    let folder = TempDir::new().unwrap();
    let store = text(&folder.path().join("s")).to_owned();
    varvite(&["table", "put", &store, "t", "k", "v", "--create"]).yes();
    let of = |ran: crate::binary::Ran| -> Value { serde_json::from_str(&ran.out).unwrap() };
    let absent = of(varvite(&["table", "get", &store, "t", "x", "--format", "json"]));
    let envelope = json!({ "version": 1, "command": "table get", "status": "no", "exit_code": 1 });
    assert_eq!(absent["varvite"], envelope);
    assert_eq!((&absent["found"], &absent["value"]), (&json!(false), &Value::Null));
    assert_eq!(absent["why"], "there is no key x in table t");

    let ran = varvite(&["table", "get", &store, "none", "x", "--format", "jsonl"]);
    assert_eq!(ran.out.lines().count(), 1);
    let said = ran.err.strip_prefix("error: ").unwrap().trim_end().to_owned();
    let missing = of(ran);
    assert_eq!(missing["varvite"]["status"], "error");
    assert_eq!(missing["error"], json!({ "kind": "missing", "message": said }));

    for (arguments, command) in [
        (&["--format", "json", "table", "got"][..], "table"),
        (&["table", "--format=json"], "table"),
        (&["table", "get", "--format", "json", &store], "table get"),
    ] {
        let ran = varvite(arguments);
        assert_eq!(ran.code, 2);
        let said = of(ran);
        assert_eq!(said["error"]["kind"], "usage", "{arguments:?}");
        assert_eq!(said["varvite"]["command"], command, "{arguments:?}");
    }
    let said = of(varvite(&["table", "get", &store, "--format", "json"]));
    let message = "the following required arguments were not provided: <TABLE> <KEY>; `varvite table list` says which \
                   tables there are";
    assert_eq!(said["error"]["message"], message);
}

#[test]
fn names_and_words_of_a_context_have_their_bytes_beside_them() {
    let folder = TempDir::new().unwrap();
    let store = text(folder.path());
    varvite(&["context", "create", store]).yes();
    varvite(&["context", "put", store, "main", "\\xff/b", "5", "--author", "é"]).yes();
    let of = |words: &[&str]| varvite(&[words, &["--format", "json"]].concat()).json();
    let du = of(&["context", "du", store, "main"]);
    assert_eq!((&du[0]["name_text"], &du[0]["name_hex"]), (&json!("\\xff"), &json!("ff")));
    let log = of(&["context", "log", store]);
    assert_eq!((&log[0]["author"], &log[0]["author_hex"]), (&json!("é"), &json!("c3a9")));
    assert_eq!(log[0]["message_text"], "put \\\\xff/b");
}

#[test]
fn csv_has_columns_when_it_has_no_rows_and_the_same_with_them() {
    let folder = TempDir::new().unwrap();
    let [tables, context] = ["t", "c"].map(|name| text(&folder.path().join(name)).to_owned());
    varvite(&["table", "put", &tables, "t", "k", "v", "--create"]).yes();
    varvite(&["context", "create", &context]).yes();
    varvite(&["context", "put", &context, "main", "a/b", "5"]).yes();
    varvite(&["context", "put", &context, "main", "a/c", "5"]).yes();
    let header = |words: &[&str]| {
        let out = varvite(&[words, &["--format", "csv"]].concat()).out;
        let lines = out.lines().count();
        (out.lines().next().unwrap_or_default().to_owned(), lines)
    };
    for (some, none) in [
        (
            &["table", "scan", &tables, "t", "--as", "u64le"][..],
            &["table", "scan", &tables, "t", "--as", "u64le", "--first", "z"][..],
        ),
        (&["context", "log", &context], &["context", "log", &context, "--limit", "0"]),
        (
            &["context", "diff", &context, "main~1", "main"],
            &["context", "diff", &context, "main", "main"],
        ),
        (
            &["context", "tree", &context, "main"],
            &["context", "tree", &context, "main", "--depth", "0"],
        ),
        (
            &["context", "ls", &context, "main"],
            &["context", "ls", &context, "main", "--length", "0"],
        ),
    ] {
        let (some, none) = (header(some), header(none));
        assert!(some.1 > 1, "{some:?}");
        assert!(some.0.contains(','), "{some:?}");
        assert_eq!(none, (some.0, 1));
    }
    varvite(&["table", "delete", &tables, "t", "k"]).yes();
    let dump = header(&["table", "dump", &tables, "t"]);
    assert_eq!(dump, ("key,key_text,key_hex,value,value_text,value_hex".to_owned(), 1));
    let merges = header(&["table", "merge", "status", &tables]);
    assert_eq!(merges, ("table,level,union,spent_bytes,debt_bytes,left_bytes".to_owned(), 1));
    let failed = varvite(&["table", "scan", &tables, "none", "--format", "csv"]);
    assert_eq!((failed.code, &*failed.out), (2, ""));
    // What is there has the columns of what is not.
    varvite(&["table", "put", &tables, "t", "k", "v"]).yes();
    for (view, more) in [(&[][..], ""), (&["--as", "utf8"], "value_as,")] {
        let get = |words: &[&str]| header(&[words, view].concat());
        let table = format!("key,value,key_text,key_hex,value_text,value_hex,{more}why,found");
        for key in ["k", "none"] {
            assert_eq!(get(&["table", "get", &tables, "t", key]), (table.clone(), 2), "{key}");
        }
        let value = "found,path,path_text,path_hex,value,value_text,value_hex";
        for path in ["a/b", "a/none"] {
            let found = get(&["context", "get", &context, "main", path]);
            assert_eq!(found, (format!("{value},{more}hash,why"), 2), "{path}");
        }
    }
    for verb in ["ls", "tree", "du"] {
        let [some, none] =
            ["a", "none"].map(|path| header(&["context", verb, &context, "main", path]));
        assert!(some.1 > 1 && some.0.contains(','), "{verb}: {some:?}");
        assert_eq!(none, (some.0, 1), "{verb}");
    }
    let [some, none] = ["k", "k"].map(|key| header(&["table", "delete", &tables, "t", key]));
    assert_eq!((&*some.0, some.1), ("snapshot,operations,missing,found,why", 2));
    assert_eq!(none, some);
    varvite(&["context", "branch", "set", &context, "old", "main"]).yes();
    let [some, none] = [0, 1].map(|_| header(&["context", "branch", "remove", &context, "old"]));
    assert_eq!((&*some.0, some.1), ("branch,outcome,commit,commit_hash,found,why", 2));
    assert_eq!(none, some);
    let failed = varvite(&["context", "get", &context, "main", "a", "--format", "csv"]);
    assert_eq!((failed.code, &*failed.out), (2, ""));
}

#[test]
fn what_is_piped_has_no_sentences() {
    let world = World::new();
    let [store, live, context] = ["STORE", "LIVE", "CONTEXT"].map(|name| world.path(name));
    for words in [
        &["table", "list", text(&store)][..],
        &["table", "stat", text(&store), "t"],
        &["table", "snapshot", "list", text(&store)],
        &["table", "merge", "status", text(&live)],
        &["info", text(&store)],
        &["info", text(&live)],
        &["info", text(&context)],
        &["info", text(world.folder.path())],
        &["context", "log", text(&context), "--path", "nowhere"],
        &["context", "log", text(&context)],
        &["context", "branch", "list", text(&context)],
        &["context", "stat", text(&context)],
    ] {
        let out = varvite(words).yes();
        for line in out.lines() {
            assert!(line.contains('\t'), "{words:?}: {line}");
        }
    }
    let stat = varvite(&["table", "stat", text(&store), "t"]).yes();
    assert!(stat.starts_with("level ") && !stat.contains('█'), "{stat}");
}

#[test]
fn quiet_says_no_warnings() {
    let world = World::new();
    let bench = ["bench", "upsert", "--operations", "10", "--per-key", "10", "--rounds", "1", "-q"];
    assert_eq!(finish(command(&bench)).err, "");
    let store = world.path("STORE");
    varvite(&["table", "get", text(&store), "t", "k00001", "--quiet"]).yes();
}

/// Who reads rows finds them in the same columns, whether something was there or not.
#[test]
fn columns_of_a_csv_do_not_depend_on_what_was_there() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let header = |line: &str, code: i32| {
        let out = run(folder, &format!("{line} --format csv")).ended(code);
        out.lines().next().unwrap().to_owned()
    };
    run(folder, "context create C").yes();
    for path in ["a", "b"] {
        run(folder, &format!("context put C main {path} 1")).yes();
    }
    let log = run(folder, "context log C --format json").json();
    let root = log[0]["tree"].as_str().unwrap();
    run(folder, "proof make C main a nope --output P").yes();
    run(folder, "proof make C main --put q 1 --output Q").yes();
    let check = format!("--root {root} --configuration tezos");
    let of_proof =
        "path,path_text,path_hex,is,value,value_text,value_hex,found,why,root,changes,after";
    for (line, code) in [("P a", 0), ("P nope", 1), ("P a nope", 1), ("Q --put q 1", 0)] {
        assert_eq!(header(&format!("proof check {line} {check}"), code), of_proof, "{line}");
    }
    let removed = "branch,outcome,commit,commit_hash,found,why";
    run(folder, "context branch set C other main").yes();
    run(folder, "context pin add C main").yes();
    for (line, columns) in [
        ("context remove C main a", removed),
        ("context branch remove C other", removed),
        ("context pin remove C last~1", "commit_hash,done,found,why"),
    ] {
        let line = line.replace("last~1", log[0]["hash"].as_str().unwrap());
        for code in [0, 1] {
            assert_eq!(header(&line, code), columns, "{line}, {code}");
        }
    }
    assert!(header("context collect cancel C", 1).ends_with(",disk_bytes,found,why"));
}

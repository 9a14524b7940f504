//! The JSON of every command is what `docs/guide/json.schema.json` says, in success and in failure.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Map, Value, json};

use crate::binary::command;
use crate::exits::{DAMAGED, World, damage_pages, flip, lines};

const SCHEMA: &str = "../docs/guide/json.schema.json";

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(SCHEMA)
}

/// What is not there.
const ABSENT: [&str; 7] = [
    "table get STORE t nope",
    "table delete STORE t nope",
    "table follow LIVE t nope --changes 1",
    "context get CONTEXT main x",
    "context ls CONTEXT main x",
    "context remove CONTEXT main x",
    "context branch remove CONTEXT x",
];

/// Commands that are run on no store of tables, no context and no file of one that the others have, and those that need
/// more than these.
const MORE: [&str; 46] = [
    "table dump NUMBERS",
    "table get NUMBERS n a --as u64le",
    "table scan NUMBERS n --as u64be",
    "table list NUMBERS",
    "table snapshot list NUMBERS",
    "table snapshot info NUMBERS kept",
    "context get FORKED main a/b --as utf8",
    "context diff FORKED main other",
    "context snapshot diff MOVED FORK",
    "context merge FORKED main other",
    "context merge FORKED main last --dry-run",
    "context pin list FORKED",
    "info BARE",
    "proof check CHANGES --root ROOT --configuration tezos --put q/z 1",
    "demo --entries 1000",
    "doctor CONTEXT --quick",
    "doctor STORE --quick --out OUT",
    "conformance VECTORS",
    "context create NEW",
    "context migrate IRMIN NEW",
    "info UNDER",
    "proof make CONTEXT main a/b --output OUT",
    "proof check PROOF --root ROOT --configuration tezos a/b a/c z/y",
    "proof show PROOF --configuration tezos",
    "trace info CALLS",
    "trace show ROWS --limit 3",
    "trace record OUT bench context --accounts 20 --blocks 2 --reads 5 --updates 5 --memory",
    "trace replay CALLS",
    "trace replay CALLS --beside NEW",
    "trace summary CALLS",
    "trace compare CALLS CALLS",
    "trace convert CALLS OUT",
    "trace convert ROWS OUT",
    "bench context --accounts 20 --blocks 2 --reads 5 --updates 5 --memory --timings",
    "bench context --accounts 20 --blocks 6 --reads 5 --updates 5 --collect-every 2 --keep 1 --index always",
    "bench context --accounts 20 --blocks 3 --reads 5 --updates 5 --lower NEW",
    "bench utxo setup --entries 1000 --dir NEW",
    "bench utxo run --dir UTXO --batches 2",
    "bench range setup --entries 1000 --dir NEW",
    "bench range run --dir RANGES --seeks 10",
    "bench load --entries 1000 --dir NEW",
    "bench blob --entries 10 --dir NEW",
    "bench upsert --operations 100 --per-key 10",
    "bench proof --operations 10",
    "bench snapshot --accounts 20 --blocks 2",
    "replay blocks BLOCKS --timings",
];

/// Commands that print no result of their own as JSON: text for a shell, pages of a manual, lines of others, a page
/// until it is ended.
const WITHOUT_JSON: [&str; 4] = ["completions", "context shell", "explore", "table shell"];

/// Commands whose lines are others than their JSON, and what stands behind their names in the schema.
const OF_LINES: [&str; 3] = ["table list", "table merge status", "context branch list"];
const LINES: &str = " --format jsonl";

/// Commands whose data is not in the repository; where it is beside it, they are run.
const BESIDE: [(&str, &str); 2] =
    [("replay cardano", "cardano-preview/immutable"), ("replay tezos-json", "tezos-carthagenet")];

/// Files that only those lines need.
fn add_to(world: &World) {
    let run = |line: &str| {
        let words = world.arguments(line);
        crate::binary::varvite(&words.iter().map(String::as_str).collect::<Vec<_>>()).yes()
    };
    run("context export-irmin CONTEXT IRMIN");
    // What has an operator, branches that differ, and a commit that is pinned.
    run(
        "table put NUMBERS n a \\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff --operator add-u64 --create",
    );
    run("table snapshot create NUMBERS kept");
    run("context create BARE");
    run("context create FORKED");
    run("context put FORKED main a/b 1");
    run("context branch set FORKED other main");
    run("context put FORKED main a/b 2");
    run("context put FORKED other a/b 3");
    run("context put FORKED other c/d 4");
    run("context pin add FORKED main");
    run("context snapshot export FORKED other FORK");
    run("proof make CONTEXT main --put q/z 1 --output CHANGES");
    run("proof make CONTEXT main a/b a/c --output PROOF");
    run("bench context --accounts 20 --blocks 2 --reads 5 --updates 5 --memory --trace CALLS");
    run("trace convert CALLS ROWS");
    run("bench utxo setup --entries 1000 --dir UTXO");
    run("bench range setup --entries 1000 --dir RANGES");
    let empty = "81e47a19e6b29b0a65b9591762ce5143ed30d0261e5d24a3201752506b20f15c";
    let vector = format!("{{\"value\":\"\",\"hash\":\"{empty}\"}}\n");
    fs::write(world.path("VECTORS"), vector).unwrap();
}

/// What no validator takes in a schema, or what says nothing: types that are none of the seven, no type, null alone.
fn faults(schema: &Value, place: &str) -> Vec<String> {
    const WORDS: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];
    let mut found = Vec::new();
    let below: Vec<(String, &Value)> = match schema {
        Value::Object(fields) => fields.iter().map(|(name, it)| (name.clone(), it)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().map(|(at, it)| (at.to_string(), it)).collect()
        }
        _ => Vec::new(),
    };
    for (name, below) in below {
        let place = format!("{place}/{name}");
        // A property may be called so, too.
        if name == "type" && !below.is_object() {
            let types = below.as_array().cloned().unwrap_or_else(|| vec![below.clone()]);
            let is_word = |it: &Value| it.as_str().is_some_and(|it| WORDS.contains(&it));
            if types.is_empty() || !types.iter().all(is_word) || types == [json!("null")] {
                found.push(format!("{place} is {below}"));
            }
        }
        found.extend(faults(below, &place));
    }
    found
}

#[test]
fn the_schema_is_one_that_validators_take_and_describes_records() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    assert_eq!(faults(&root, ""), Vec::<String>::new());
    for (name, schema) in root["$defs"].as_object().unwrap() {
        assert_ne!(schema["type"], "array", "{name}: a list is described by its records");
    }
    for types in [json!([]), json!("text"), json!("null"), json!(["string", "date"])] {
        assert_eq!(faults(&json!({ "a": { "type": types } }), "").len(), 1, "{types}");
    }
}

/// Nobody has to remember that a new command belongs into the schema.
#[test]
fn the_schema_has_every_command_of_the_help() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let mut all = BTreeSet::new();
    crate::exits::commands(&[], &mut all);
    let defined: BTreeSet<String> = root["$defs"].as_object().unwrap().keys().cloned().collect();
    let mut expected: BTreeSet<String> =
        all.into_iter().filter(|name| !WITHOUT_JSON.contains(&&**name)).collect();
    expected.extend(OF_LINES.map(|name| format!("{name}{LINES}")));
    let lacking: Vec<_> = expected.difference(&defined).collect();
    assert!(lacking.is_empty(), "the schema has none of {lacking:?}");
    let others: Vec<_> = defined.difference(&expected).collect();
    assert_eq!(others, ["envelope", "error"], "these are no commands");
    for name in WITHOUT_JSON {
        let ran = command(&name.split(' ').chain(["--help"]).collect::<Vec<_>>()).output().unwrap();
        assert!(ran.status.success(), "{name}");
    }
}

/// The command that a line runs.
fn name(line: &str) -> String {
    let words = line
        .split(' ')
        .take_while(|word| !word.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'/'));
    words.take_while(|word| !word.starts_with("--")).collect::<Vec<_>>().join(" ")
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What is wrong with a value, by the part of JSON Schema that ours is written in.
fn wrong(schema: &Value, value: &Value, root: &Value, place: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema =
            root.pointer(name.strip_prefix('#').unwrap()).expect("the definition is there");
        return wrong(schema, value, root, place);
    }
    let found = json!(type_of(value));
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => vec![found.clone()],
        one => vec![one.clone()],
    };
    if !types.contains(&found) {
        return Some(format!("{place} is {value}, not of {types:?}"));
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        return Some(format!("{place} is {value}, not one of {allowed:?}"));
    }
    if let (Some(items), Value::Array(values)) = (schema.get("items"), value) {
        let mut all = values.iter().enumerate();
        return all.find_map(|(at, value)| wrong(items, value, root, &format!("{place}[{at}]")));
    }
    let fields = value.as_object()?;
    for name in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(name.as_str().unwrap()) {
            return Some(format!("{place} has no {name}"));
        }
    }
    fields.iter().find_map(|(name, value)| match schema["properties"].get(name) {
        Some(schema) => wrong(schema, value, root, &format!("{place}.{name}")),
        None if schema["additionalProperties"] == false => Some(format!("{place} has {name}, too")),
        None => wrong(&schema["additionalProperties"], value, root, &format!("{place}.{name}")),
    })
}

/// The values that a line prints, each with the envelope if it has one.
fn values(world: &World, line: &str) -> (i32, Vec<Value>) {
    values_in("json", world, line)
}

fn values_in(format: &str, world: &World, line: &str) -> (i32, Vec<Value>) {
    let line = line.replace("--changes 1", "--changes 0");
    let arguments = world.arguments(&line);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--format", format]);
    let ran = command(&arguments).stdin(Stdio::null()).output().unwrap();
    let (code, out) =
        (ran.status.code().unwrap(), String::from_utf8_lossy(&ran.stdout).into_owned());
    if code == 0
        && (name(&line) == "proof make" && !line.contains("--output") || line.contains("--binary"))
    {
        return (code, Vec::new()); // the proof, or the dump
    }
    let each = || out.lines().map(|record| serde_json::from_str(record).expect(&line)).collect();
    if format == "jsonl" {
        return (code, each());
    }
    let whole: Vec<Value> = match serde_json::from_str(&out) {
        Ok(Value::Array(records)) => records,
        Ok(value) => vec![value],
        Err(_) => each(),
    };
    (code, whole)
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap(), to.to_owned());
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// A copy of a world, for one line.
fn copied(world: &World) -> World {
    let folder = tempfile::TempDir::new().unwrap();
    copy(world.folder.path(), folder.path());
    World { folder }
}

#[test]
fn json_is_what_the_schema_says_in_every_command() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let world = World::new();
    add_to(&world);
    let log = world.arguments("context log CONTEXT --format json");
    let log = crate::binary::varvite(&log.iter().map(String::as_str).collect::<Vec<_>>()).json();
    let tree = log[0]["tree"].as_str().unwrap();
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let beside = BESIDE.map(|(name, data)| (name, shared.join(data)));
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut all: Vec<String> = lines().chain(ABSENT).chain(MORE).map(str::to_owned).collect();
    for (name, data) in beside {
        if data.exists() {
            all.push(format!("{name} {}", crate::binary::text(&data)));
        } else {
            seen.insert(name.to_owned());
        }
    }
    for line in &all {
        let line = &line.replace(" ROOT ", &format!(" {tree} "));
        let name = name(line);
        let (code, values) = values(&copied(&world), line);
        for value in &values {
            let schema = if code == 2 { "error" } else { &name };
            let schema = &root["$defs"][schema];
            assert!(schema.is_object(), "the schema says nothing of `{name}`: {value}");
            let fault = wrong(schema, value, &root, &name);
            assert_eq!(fault, None, "{line}: {value}");
            if let Some(envelope) = value.get("varvite") {
                assert_eq!(envelope["exit_code"], code, "{line}");
                // What records a load says what the load does.
                let said = if name == "trace record" { "bench context" } else { &name };
                assert_eq!(envelope["command"].as_str(), Some(said), "{line}");
            }
        }
        assert!(code != 2 || !MORE.contains(&&**line), "{line}: {values:?}");
        if code != 2 {
            seen.insert(name);
        }
    }
    let defined: Map<_, _> = root["$defs"].as_object().unwrap().clone();
    let unseen = defined.keys().filter(|name| !seen.contains(*name) && !name.ends_with(LINES));
    let unseen: Vec<_> = unseen.collect();
    assert_eq!(unseen, ["envelope", "error"], "these are printed by no command");
}

#[test]
fn lines_of_json_are_what_the_schema_says_in_every_command() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let world = World::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for line in lines().chain(ABSENT) {
        let name = name(line);
        let (code, values) = values_in("jsonl", &copied(&world), line);
        let own = OF_LINES.iter().find(|it| **it == name);
        let schema = match own {
            _ if code == 2 => "error".to_owned(),
            Some(name) => format!("{name}{LINES}"),
            None => name.clone(),
        };
        for value in &values {
            let fault = wrong(&root["$defs"][&schema], value, &root, &name);
            assert_eq!(fault, None, "{line}: {value}");
            seen.extend(own);
        }
    }
    // The stores have no merge.
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["context branch list", "table list"]);
}

/// Where neither folder nor file is there, and where a flag is wrong.
#[test]
fn what_cannot_run_is_json_in_every_command() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let world = World { folder: tempfile::TempDir::new().unwrap() };
    for line in lines().filter(|line| !line.contains("--create")) {
        for line in [line.to_owned(), format!("{line} --no-such-flag")] {
            let (code, values) = values(&world, &line);
            assert_eq!((code, values.len()), (2, 1), "{line}: {values:?}");
            assert_eq!(wrong(&root["$defs"]["error"], &values[0], &root, &line), None, "{line}");
            assert_eq!(values[0]["varvite"]["command"].as_str(), Some(&*name(&line)), "{line}");
        }
    }
    assert_eq!(fs::read_dir(world.folder.path()).unwrap().count(), 0, "nothing is made");
}

#[test]
fn damage_is_json_in_every_command() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let world = World::new();
    flip(&world.path("STORE/session"), 25);
    flip(&world.path("LIVE/session"), 25);
    flip(&world.path("CONTEXT/control"), 25);
    flip(&world.path("MOVED"), 25);
    for line in lines() {
        let (code, values) = values(&world, line);
        assert_eq!(code, 3, "{line}");
        let last = values.last().unwrap_or_else(|| panic!("{line} says nothing"));
        assert_eq!(last["varvite"]["status"], "damaged", "{line}: {last}");
        // What describes damage is a result.
        let schema = if last.get("error").is_some() { "error".to_owned() } else { name(line) };
        assert_eq!(wrong(&root["$defs"][&schema], last, &root, line), None, "{line}");
        if schema == "error" {
            assert_eq!(last["error"]["kind"], "corrupt", "{line}: {last}");
        }
    }
}

/// Commands that go on after damage print what they found, and others the error behind what came before it.
#[test]
fn what_is_found_damaged_is_json_in_every_command() {
    let root: Value = serde_json::from_str(&fs::read_to_string(path()).unwrap()).unwrap();
    let world = World::new();
    damage_pages(&world);
    let mut found = 0;
    // The binary form of a dump is refused as JSON.
    for line in DAMAGED.into_iter().filter(|line| !line.contains("--binary")) {
        let name = name(line);
        let (code, values) = values(&copied(&world), line);
        assert_eq!(code, 3, "{line}");
        assert!(!values.is_empty(), "{line} says nothing");
        for value in &values {
            let schema = if value.get("error").is_some() { "error" } else { &name };
            let fault = wrong(&root["$defs"][schema], value, &root, &name);
            assert_eq!(fault, None, "{line}: {value}");
            found += usize::from(value["findings"].as_array().is_some_and(|it| !it.is_empty()));
        }
    }
    assert!(found >= 5, "{found}");
}

#[test]
fn the_schema_of_the_tests_refuses_what_is_wrong() {
    let root = json!({ "$defs": { "n": { "type": ["number", "null"] } } });
    let schema = json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "$ref": "#/$defs/n" }, "b": { "type": "array", "items": { "enum": [1] } } },
    });
    assert_eq!(wrong(&schema, &json!({ "a": null, "b": [1] }), &root, "x"), None);
    for value in [
        json!([]),
        json!({}),
        json!({ "a": "1" }),
        json!({ "a": 1, "c": 1 }),
        json!({ "a": 1, "b": [2] }),
    ] {
        assert!(wrong(&schema, &value, &root, "x").is_some(), "{value}");
    }
}

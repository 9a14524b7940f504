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

/// The command that a line runs.
fn name(line: &str) -> String {
    let words =
        line.split(' ').take_while(|word| !word.bytes().any(|byte| byte.is_ascii_uppercase()));
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
    let line = line.replace("--changes 1", "--changes 0");
    let arguments = world.arguments(&line);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--format", "json"]);
    let ran = command(&arguments).stdin(Stdio::null()).output().unwrap();
    let (code, out) =
        (ran.status.code().unwrap(), String::from_utf8_lossy(&ran.stdout).into_owned());
    if code == 0 && (name(&line) == "proof make" || line.contains("--binary")) {
        return (code, Vec::new()); // the proof, or the dump
    }
    let whole: Vec<Value> = match serde_json::from_str(&out) {
        Ok(Value::Array(records)) => records,
        Ok(value) => vec![value],
        Err(_) => out.lines().map(|record| serde_json::from_str(record).expect(&line)).collect(),
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
    let mut seen = BTreeSet::new();
    for line in lines().chain(ABSENT) {
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
                assert_eq!(envelope["command"].as_str(), Some(&*name), "{line}");
            }
        }
        if code != 2 {
            seen.insert(name);
        }
    }
    let defined: Map<_, _> = root["$defs"].as_object().unwrap().clone();
    let unseen: Vec<_> = defined.keys().filter(|name| !seen.contains(*name)).collect();
    assert_eq!(unseen, ["envelope", "error"], "these are printed by no command");
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

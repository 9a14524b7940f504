//! The schema of all answers, `docs/guide/explorer.schema.json`: as it is sent, as rows, and as the columns of an answer's rows.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// As it is sent.
pub const TEXT: &str = include_str!("../../docs/guide/explorer.schema.json");

static SCHEMA: LazyLock<Value> =
    LazyLock::new(|| serde_json::from_str(TEXT).expect("a test reads the schema as JSON"));

/// What `described` refers to, or itself.
fn resolved(described: &Value) -> &Value {
    match described["$ref"].as_str() {
        Some(name) => &SCHEMA["$defs"][name.rsplit('/').next().unwrap_or(name)],
        None => described,
    }
}

/// A row for each field of each answer.
pub fn listed() -> Vec<Value> {
    let mut rows = Vec::new();
    for part in ["properties", "$defs"] {
        for (answer, described) in SCHEMA[part].as_object().into_iter().flatten() {
            fields(answer, described, "", &mut rows);
        }
    }
    rows
}

/// A row for each field of an answer: where it is, its types, and whether it is always there.
fn fields(answer: &str, described: &Value, place: &str, rows: &mut Vec<Value>) {
    let required = described["required"].as_array();
    for (name, field) in described["properties"].as_object().into_iter().flatten() {
        let mut place = format!("{place}{name}");
        let mut inner = field;
        while inner["type"] == "array" {
            place += "[]";
            inner = &inner["items"];
        }
        let types = match (&inner["type"], inner["$ref"].as_str()) {
            (_, Some(other)) => other.rsplit('/').next().unwrap_or(other).to_owned(),
            (Value::Array(types), _) => {
                types.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
            }
            (one, _) => one.as_str().unwrap_or("any").to_owned(),
        };
        let always = required.is_some_and(|all| all.iter().any(|it| it == name));
        rows.push(json!({ "answer": answer, "field": place, "type": types, "always": always }));
        fields(answer, inner, &format!("{place}."), rows);
    }
}

/// The columns of the list `rows` in the answer of `path`, which it has whether or not it has a row. Fields whose names are no
/// part of the schema, as those of actions, are not among them.
pub fn columns(path: &str, rows: &str) -> Vec<String> {
    let answer = resolved(&SCHEMA["properties"][path]);
    let mut columns = Vec::new();
    add_columns(&answer["properties"][rows]["items"], "", &mut columns);
    columns
}

fn add_columns(described: &Value, place: &str, columns: &mut Vec<String>) {
    for (name, field) in resolved(described)["properties"].as_object().into_iter().flatten() {
        let (place, field) = (format!("{place}{name}"), resolved(field));
        if field["properties"].is_object() {
            add_columns(field, &format!("{place}."), columns);
        } else if field["additionalProperties"].is_null() {
            columns.push(place);
        }
    }
}

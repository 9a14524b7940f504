//! What programs read: JSON, JSON lines or CSV, from the same values.
//!
//! One result is an object with the key `varvite`: which command it was, and how it ended. A list is its
//! records. An error is a record of its own, with `varvite` and `error`; it comes last, also in a list that
//! began well. `docs/guide/json.md` says it all.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value, json};
use varvite::Kind;

use crate::wheel;

/// Whom a command prints for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people: sentences, tables.
    Table,
    /// For programs: values, which stand here.
    Json,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people; piped, one record a line with tabs between its parts
    #[default]
    Table,
    /// One JSON value
    Json,
    /// A JSON value a line
    Jsonl,
    /// Lines of comma-separated values, the first with their names
    Csv,
}

impl Output {
    /// As it is asked for.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whom it is for.
    pub fn format(self) -> Format {
        if self == Output::Table { Format::Table } else { Format::Json }
    }
}

/// The version of the envelope.
const VERSION: u64 = 1;
/// The largest whole number that every reader of JSON keeps exactly.
const EXACT_MAX: u64 = 1 << 53;

/// What is known when the command starts: how to print, and its name.
static SETTING: Mutex<Option<(Output, String)>> = Mutex::new(None);
static STATE: Mutex<Option<State>> = Mutex::new(None);

/// How far the output is.
#[allow(clippy::struct_excessive_bools)] // each is known at another time
struct State {
    out: BufWriter<Stdout>,
    /// The result, which waits for the end of the command.
    whole: Option<Value>,
    /// Whether it says how the command ended.
    has_envelope: bool,
    /// Records of a list that are out.
    count: u64,
    /// Whether they stand in a JSON array.
    in_array: bool,
    /// The columns of a CSV.
    columns: Vec<String>,
    /// Whether they are those of the result, too, and not of a list alone.
    are_of_result: bool,
    /// Whether the line of their names is out.
    has_header: bool,
    /// An error that does not take the place of the result, with its kind: it is in its envelope.
    beside: Option<(String, String)>,
}

/// Says how the next command prints, and which it is.
pub fn begin(output: Output, command: String) {
    *setting() = Some((output, command));
    *STATE.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Says which columns a result has that is no list, whatever is found.
pub fn columns_of_result(names: &[&str]) -> io::Result<()> {
    columns(names)?;
    state(|state| {
        state.are_of_result = true;
        Ok(())
    })
}

fn setting() -> MutexGuard<'static, Option<(Output, String)>> {
    SETTING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the command prints.
pub fn output() -> Output {
    setting().as_ref().map_or(Output::Table, |(output, _)| *output)
}

fn state<T>(action: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
    wheel::give_way();
    let mut state: MutexGuard<'_, _> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    action(state.get_or_insert_with(|| State {
        out: BufWriter::with_capacity(64 << 10, io::stdout()),
        whole: None,
        has_envelope: true,
        count: 0,
        in_array: false,
        columns: Vec::new(),
        are_of_result: false,
        has_header: false,
        beside: None,
    }))
}

/// Takes the result of a command; it is printed when the command has ended.
pub fn whole(value: &impl Serialize) -> io::Result<()> {
    let value = serde_json::to_value(value).map_err(io::Error::from)?;
    state(|state| {
        state.whole = Some(value);
        Ok(())
    })
}

/// The same, of which lines and rows are what is under `list`.
pub fn whole_with(value: &impl Serialize, list: &str) -> io::Result<()> {
    let mut value = serde_json::to_value(value).map_err(io::Error::from)?;
    if output() != Output::Json && value[list].is_array() {
        value = value[list].take();
    }
    whole(&value)
}

/// Takes a result whose names are data, which have no envelope among them; lines and rows are `rows`.
pub fn whole_map(map: Map<String, Value>, rows: Vec<Value>) -> io::Result<()> {
    state(|state| {
        let is_map = output() == Output::Json;
        state.has_envelope = !is_map;
        state.whole = Some(if is_map { map.into() } else { rows.into() });
        Ok(())
    })
}

/// Says which columns the rows of a list have, so that a CSV has them whatever the first row is, and without any.
pub fn columns(names: &[&str]) -> io::Result<()> {
    state(|state| {
        state.columns = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(())
    })
}

/// Prints a record of a list: one a line, in JSON too.
pub fn record(mut value: Value) -> io::Result<()> {
    exact(&mut value);
    state(|state| {
        state.count += 1;
        match output() {
            Output::Csv => state.row(&value),
            _ => state.json_line(&value),
        }
    })
}

/// Prints an item of a list, which is one array in JSON.
pub fn item(mut value: Value) -> io::Result<()> {
    if output() != Output::Json {
        return record(value);
    }
    exact(&mut value);
    state(|state| {
        state.open_item()?;
        serde_json::to_writer(&mut state.out, &value).map_err(io::Error::from)
    })
}

/// Ends a list of items, so that it is there when it is empty.
pub fn no_items() -> io::Result<()> {
    state(|state| {
        if output() == Output::Json && state.count == 0 {
            state.whole = Some(Value::Array(Vec::new()));
        }
        Ok(())
    })
}

/// Shows what was printed so far.
pub fn flush() -> io::Result<()> {
    state(|state| state.out.flush())
}

/// Prints what waits, with how the command ended.
pub fn finish(exit_code: u8, error: Option<(&str, &str)>) -> io::Result<()> {
    state(|state| {
        let ended = state.finish(exit_code, error);
        ended.and_then(|()| state.out.flush())
    })
}

/// The word for an exit code.
fn status(exit_code: u8) -> &'static str {
    match exit_code {
        0 => "yes",
        1 => "no",
        3 => "damaged",
        _ => "error",
    }
}

fn envelope(exit_code: u8) -> Value {
    let command = setting().as_ref().map_or(String::new(), |(_, command)| command.clone());
    json!({ "version": VERSION, "command": command, "status": status(exit_code), "exit_code": exit_code })
}

/// Has the result of the command say an error too.
pub fn beside(kind: &str, message: &str) {
    // Nothing is written yet that could fail.
    let _ = state(|state| {
        state.beside = Some((kind.to_owned(), message.to_owned()));
        Ok(())
    });
}

/// The name of an error's kind.
pub fn kind(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

impl State {
    fn open_item(&mut self) -> io::Result<()> {
        self.out.write_all(if self.count == 0 { b"[\n  " } else { b",\n  " })?;
        self.in_array = true;
        self.count += 1;
        Ok(())
    }

    fn json_line(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value).map_err(io::Error::from)?;
        self.out.write_all(b"\n")
    }

    fn pretty(&mut self, value: &Value) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.out, value).map_err(io::Error::from)?;
        self.out.write_all(b"\n")
    }

    fn row(&mut self, value: &Value) -> io::Result<()> {
        let single = |value: &Value| Map::from_iter([("value".to_owned(), value.clone())]);
        let fields = value.as_object().cloned().unwrap_or_else(|| single(value));
        if self.columns.is_empty() {
            self.columns = fields.keys().cloned().collect();
        }
        self.header()?;
        let cells = self.columns.iter().map(|name| match fields.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => cell(text),
            Some(other) => cell(&other.to_string()),
        });
        let cells: Vec<_> = cells.collect();
        writeln!(self.out, "{}", cells.join(","))
    }

    /// The names of the columns, once.
    fn header(&mut self) -> io::Result<()> {
        if self.has_header || self.columns.is_empty() {
            return Ok(());
        }
        self.has_header = true;
        let header: Vec<_> = self.columns.iter().map(|name| cell(name)).collect();
        writeln!(self.out, "{}", header.join(","))
    }

    /// The rows of a CSV have the columns of all of them.
    fn rows(&mut self, rows: &[Value]) -> io::Result<()> {
        for key in rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
            if !self.columns.contains(key) {
                self.columns.push(key.clone());
            }
        }
        self.header()?;
        rows.iter().try_for_each(|row| self.row(row))
    }

    fn finish(&mut self, exit_code: u8, error: Option<(&str, &str)>) -> io::Result<()> {
        let error = error.map(|(kind, message)| json!({ "kind": kind, "message": message }));
        let output = output();
        let mut whole = self.whole.take();
        if let Some(whole) = &mut whole {
            exact(whole);
        }
        // An error comes after what was found before it, and takes the place of what would be the result.
        if let Some(error) = error {
            let record = json!({ "varvite": envelope(exit_code), "error": error });
            return match output {
                Output::Table | Output::Csv => Ok(()),
                Output::Json if self.in_array => {
                    self.open_item()?;
                    self.json_line(&record)?;
                    self.out.write_all(b"]\n")
                }
                Output::Json if self.count == 0 => self.pretty(&record),
                Output::Json | Output::Jsonl => self.json_line(&record),
            };
        }
        if self.in_array {
            self.out.write_all(b"\n]\n")?;
        }
        match (whole, output) {
            (None, Output::Csv) => self.header(),
            (None, _) | (_, Output::Table) => Ok(()),
            (Some(Value::Array(rows)), Output::Csv) => self.rows(&rows),
            (Some(Value::Array(rows)), Output::Jsonl) => {
                rows.iter().try_for_each(|row| self.json_line(row))
            }
            (Some(Value::Array(rows)), _) => self.pretty(&Value::Array(rows)),
            (Some(value), Output::Csv) => {
                if !self.are_of_result {
                    self.columns.clear(); // it is no row of the list
                }
                self.row(&value)
            }
            (Some(mut value), output) => {
                if let Some(fields) = value.as_object_mut().filter(|_| self.has_envelope) {
                    let mut envelope = envelope(exit_code);
                    if let Some((kind, message)) = self.beside.take() {
                        envelope["error"] = json!({ "kind": kind, "message": message });
                    }
                    fields.insert("varvite".to_owned(), envelope);
                }
                if output == Output::Json { self.pretty(&value) } else { self.json_line(&value) }
            }
        }
    }
}

/// A cell of a CSV, quoted where it must be.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

/// Puts the exact text beside every number that a reader of JSON may round.
fn exact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(exact),
        Value::Object(fields) => {
            let is_large = |value: &Value| {
                let number = value.as_number().and_then(serde_json::Number::as_i128);
                number.is_some_and(|number| number.unsigned_abs() > EXACT_MAX.into())
            };
            let large = fields.iter().filter(|(_, value)| is_large(value));
            let texts: Vec<_> =
                large.map(|(name, value)| (format!("{name}_text"), value.to_string())).collect();
            for (name, text) in texts {
                fields.entry(name).or_insert(text.into());
            }
            fields.values_mut().for_each(exact);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_their_text_beside_them() {
        let mut value = json!({ "a": EXACT_MAX, "list": [{ "b": EXACT_MAX + 1, "c": -5 }] });
        exact(&mut value);
        let list = json!([{ "b": EXACT_MAX + 1, "b_text": "9007199254740993", "c": -5 }]);
        assert_eq!(value, json!({ "a": EXACT_MAX, "list": list }));
    }

    #[test]
    fn numbers_beyond_64_bits_are_written_to_the_last_digit() {
        let sums = [std::collections::BTreeMap::from([("sum", 10_u128.pow(30) + 1)])];
        let mut value = serde_json::to_value(sums).unwrap();
        exact(&mut value);
        let digits = "1000000000000000000000000000001";
        assert_eq!(value.to_string(), format!("[{{\"sum\":{digits},\"sum_text\":\"{digits}\"}}]"));
    }

    #[test]
    fn what_was_said_beside_a_result_is_not_said_of_the_next() {
        begin(Output::Table, "one".to_owned());
        beside("io", "the disk is full");
        let said = |state: &mut State| Ok(state.beside.clone());
        let told = state(said).unwrap();
        assert_eq!(told, Some(("io".to_owned(), "the disk is full".to_owned())));
        finish(2, None).unwrap();
        begin(Output::Json, "two".to_owned());
        assert_eq!(state(said).unwrap(), None);
    }

    #[test]
    fn a_cell_is_quoted_where_it_must_be() {
        assert_eq!(cell("plain text"), "plain text");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"no\"\n"), "\"say \"\"no\"\"\n\"");
    }
}

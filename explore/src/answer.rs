//! Answers as they go out: headers, JSON, and the same as comma-separated values.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};
use varvite::{Error, Kind};

use crate::outgoing::Outgoing;
use crate::query::Refused;

/// Only what the server itself sends may run or be asked for; nothing may frame the pages.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What an endpoint says.
#[derive(Debug)]
pub enum Answer {
    /// A value, and the name of its rows, which are what a chart or table of it shows.
    Json(Value, &'static str),
    /// A file to keep.
    File { name: String, bytes: Vec<u8> },
    /// Text of a type.
    Text(&'static str, String),
    /// The same, and rows that say what it does.
    Listed(&'static str, String, Value),
}

impl Answer {
    /// The same with other rows of it as those that matter.
    pub fn with_rows(self, rows: &'static str) -> Answer {
        match self {
            Answer::Json(value, _) => Answer::Json(value, rows),
            other => other,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub struct Fault {
    pub status: StatusCode,
    pub kind: String,
    pub why: String,
}

impl Fault {
    pub fn new(status: StatusCode, kind: &str, why: impl Into<String>) -> Fault {
        Fault { status, kind: kind.to_owned(), why: why.into() }
    }

    pub fn busy(why: impl Into<String>) -> Fault {
        Fault::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", why)
    }

    /// Whether it is for now alone.
    pub fn is_busy(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    pub fn missing(why: impl Into<String>) -> Fault {
        Fault::new(StatusCode::NOT_FOUND, "Missing", why)
    }
}

impl From<Refused> for Fault {
    fn from(refused: Refused) -> Fault {
        Fault::new(StatusCode::BAD_REQUEST, "Refused", refused.0)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let status = match error.kind() {
            Kind::Missing => StatusCode::NOT_FOUND,
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::Collected => StatusCode::GONE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Fault::new(status, &format!("{:?}", error.kind()), error.to_string())
    }
}

/// Puts the headers that every answer has.
pub fn guard(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// A response of `kind`, with the headers that all have.
pub fn response(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    guard(response.headers_mut());
    response
}

/// The fault as JSON.
pub fn fault(fault: &Fault) -> Response<Body> {
    let said = json!({ "error": { "kind": fault.kind, "message": fault.why } });
    response(fault.status, "application/json", said.to_string())
}

/// Gives the columns of an answer's list of that name.
pub type Columns<'a> = &'a dyn Fn(&str) -> Vec<String>;

/// The answer as it goes out, if there is room for it: as comma-separated values where `columns` gives those of the rows that it
/// is asked for.
pub fn sent(
    answer: Answer,
    columns: Option<Columns<'_>>,
    outgoing: &Arc<Outgoing>,
) -> Response<Body> {
    let (kind, name, bytes) = match (answer, columns) {
        (Answer::Json(_, "") | Answer::Text(..), Some(_)) => {
            let why = "this answer has no rows: ask for JSON";
            return fault(&Fault::new(StatusCode::BAD_REQUEST, "Refused", why));
        }
        (Answer::Json(value, rows), Some(columns)) => values(&columns(rows), &value[rows], rows),
        (Answer::Listed(_, _, rows), Some(_)) => values(&[], &rows, "fields"),
        (Answer::Json(value, _), None) => {
            ("application/json", None, value.to_string().into_bytes())
        }
        (Answer::Text(kind, text) | Answer::Listed(kind, text, _), None) => {
            (kind, None, text.into_bytes())
        }
        (Answer::File { name, bytes }, _) => ("application/octet-stream", Some(name), bytes),
    };
    let length = bytes.len();
    let Some(body) = outgoing.body(bytes) else {
        let why = format!(
            "the answer has {length} bytes, and others as long wait for those who asked: ask again later"
        );
        return fault(&Fault::busy(why));
    };
    let mut response = response(StatusCode::OK, kind, body);
    if let Some(name) = name {
        attach(response.headers_mut(), &name);
    }
    response
}

/// Rows as a file of comma-separated values.
fn values(columns: &[String], rows: &Value, name: &str) -> (&'static str, Option<String>, Vec<u8>) {
    ("text/csv; charset=utf-8", Some(format!("{name}.csv")), csv(columns, rows).into_bytes())
}

fn attach(headers: &mut HeaderMap, name: &str) {
    let plain = |letter: &char| letter.is_ascii_alphanumeric() || "-_.".contains(*letter);
    let name: String = name.chars().filter(plain).collect();
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, value);
    }
}

/// The fields of a row: those of what is nested have its name in front, and lists are JSON in their cell.
fn fields(row: &Value) -> Vec<(String, &Value)> {
    let mut all = Vec::new();
    for (name, value) in row.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => {
                let below = fields(value).into_iter();
                all.extend(below.map(|(inner, value)| (format!("{name}.{inner}"), value)));
            }
            value => all.push((name.clone(), value)),
        }
    }
    all
}

/// Rows as comma-separated values. The first line has the names: `columns`, which are there without a row too, and behind them
/// what else rows have.
fn csv(columns: &[String], rows: &Value) -> String {
    let rows: Vec<_> = rows.as_array().into_iter().flatten().map(fields).collect();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut names: Vec<&str> = Vec::new();
    for name in columns.iter().chain(rows.iter().flatten().map(|(name, _)| name)) {
        places.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        });
    }
    let mut out = names.iter().map(|name| cell(name)).collect::<Vec<_>>().join(",") + "\r\n";
    for row in &rows {
        let mut cells = vec![String::new(); names.len()];
        for (name, value) in row {
            cells[places[name.as_str()]] = match value {
                Value::Null => String::new(),
                Value::String(text) => cell(text),
                other => cell(&other.to_string()),
            };
        }
        out += &(cells.join(",") + "\r\n");
    }
    out
}

/// What a spreadsheet takes for the begin of a formula, in letters of either width.
const FORMULAS: [char; 10] = ['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'];

/// A cell. One that a spreadsheet would take for a formula begins with an apostrophe, and one that it could take for several,
/// as where they are told apart by semicolons, is in quotes.
fn cell(text: &str) -> String {
    let is_number = text.parse::<f64>().is_ok();
    let formula = !is_number && text.starts_with(FORMULAS);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', ';', '\t', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_become_lines_and_formulas_stay_text() {
        let rows =
            json!([{"a": 1, "b": "x,\"y\""}, {"a": -2, "c": "=1+1", "b": null}, {"c": ["d"]}]);
        let expected = "a,b,c\r\n1,\"x,\"\"y\"\"\",\r\n-2,,'=1+1\r\n,,\"[\"\"d\"\"]\"\r\n";
        assert_eq!(csv(&[], &rows), expected);
    }

    #[test]
    fn columns_are_named_without_a_row_and_in_one_order() {
        let columns = ["b".to_owned(), "a".to_owned()];
        assert_eq!(csv(&columns, &json!([])), "b,a\r\n");
        assert_eq!(csv(&columns, &Value::Null), "b,a\r\n");
        assert_eq!(csv(&columns, &json!([{"a": 1, "c": 2}])), "b,a,c\r\n,1,2\r\n");
    }

    #[test]
    fn what_is_nested_has_columns_of_its_own() {
        let rows = json!([
            {"second": 0, "total_ms": {"add": 1.5}},
            {"second": 1, "total_ms": {"find": 2, "add": 3}},
            {"second": 2, "total_ms": {}},
        ]);
        let expected = "second,total_ms.add,total_ms.find\r\n0,1.5,\r\n1,3,2\r\n2,,\r\n";
        assert_eq!(csv(&[], &rows), expected);
    }

    #[test]
    fn no_name_becomes_a_formula_or_a_cell_of_its_own() {
        assert_eq!(cell("x;=HYPERLINK(0)"), "\"x;=HYPERLINK(0)\"");
        for formula in ["=1", "＝1", "＋1", "－1", "＠1", "@a", "-a"] {
            assert_eq!(cell(formula), format!("'{formula}"));
        }
        assert_eq!(cell("-1.5"), "-1.5");
    }

    #[test]
    fn what_has_no_rows_is_refused_as_values() {
        let outgoing = Outgoing::new(0);
        let columns: Columns<'_> = &|_| Vec::new();
        let status =
            |answer, as_csv: bool| sent(answer, as_csv.then_some(columns), &outgoing).status();
        let none = || Answer::Json(json!({ "seconds": 1 }), "");
        assert_eq!(status(none(), true), StatusCode::BAD_REQUEST);
        assert_eq!(status(none(), false), StatusCode::OK);
        let text = || Answer::Text("text/plain", "figures 1".to_owned());
        assert_eq!(status(text(), true), StatusCode::BAD_REQUEST);
        assert_eq!(status(text(), false), StatusCode::OK);
    }
}

//! What commands say: a table for people, JSON for programs, from the same figures.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table};
use serde::Serialize;

/// Columns of a table that does not go to a terminal.
const WIDTH: u16 = 110;

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one JSON value, or one a line where there are many.
    #[value(alias = "jsonl")]
    Json,
}

/// Writes `value` as one JSON document.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    line(&text)
}

/// Writes one line to standard output.
pub fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")
}

/// How many bytes of a value are printed: all, but to a terminal `most` unless `full`, because who looks
/// on sees nothing else otherwise.
pub fn value_bytes(most: usize, full: bool) -> usize {
    if full || !io::stdout().is_terminal() { usize::MAX } else { most }
}

/// A table as wide as the terminal at most; elsewhere, as wide as is pleasant.
fn empty() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if !table.is_tty() {
        table.set_width(WIDTH);
    }
    table
}

/// An empty table with `header`; columns whose title starts with `>` are aligned to the right, those
/// with `=` are never broken over lines, because what is in them is copied.
pub fn table(header: &[&str]) -> Table {
    let mut table = empty();
    table.set_header(header.iter().map(|title| Cell::new(title.trim_start_matches(['>', '=']))));
    for (index, title) in header.iter().enumerate() {
        let column = table.column_mut(index).expect("the header made every column");
        if title.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        } else if title.starts_with('=') {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// A table of a name and a value a row, without a header.
pub fn record(rows: &[(&str, String)]) -> Table {
    let mut table = empty();
    for (name, value) in rows {
        table.add_row(vec![Cell::new(name), Cell::new(value).set_alignment(CellAlignment::Right)]);
    }
    table
}

/// A count with commas: `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of things: `1 child`, `2 children`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// A size in the largest unit that keeps it above one: `3.2 MiB`.
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if number < 1024 {
        return format!("{number} B");
    }
    let mut size = number as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Seconds in a readable unit: `12.3 ms`.
pub fn seconds(duration: f64) -> String {
    if duration < 1e-3 {
        format!("{:.1} µs", duration * 1e6)
    } else if duration < 1.0 {
        format!("{:.1} ms", duration * 1e3)
    } else {
        format!("{duration:.2} s")
    }
}

/// A bar of `part` in `whole`, `width` characters wide, in eighths.
pub fn bar(part: f64, whole: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    if whole <= 0.0 || part <= 0.0 {
        return String::new();
    }
    let eighths = ((part / whole).min(1.0) * width as f64 * 8.0).round().max(1.0) as usize;
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "child", "children"), "1 child");
        assert_eq!(counted(2_000, "child", "children"), "2,000 children");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1 << 20), "1.0 MiB");
        assert_eq!(seconds(0.0005), "500.0 µs");
        assert_eq!(seconds(0.5), "500.0 ms");
        assert_eq!(bar(1.0, 2.0, 4), "██");
        assert_eq!(bar(0.0, 2.0, 4), "");
    }
}

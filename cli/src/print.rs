//! What commands say to people: sentences and tables. What programs read is in [`records`].

pub mod records;

use std::fmt::{self, Display, Formatter};
use std::io::{self, IsTerminal, Write};

use comfy_table::presets::{NOTHING, UTF8_FULL_CONDENSED};
use comfy_table::{Cell, CellAlignment, ContentArrangement};
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

pub use records::{Format, Output};

use crate::hex;
use crate::wheel;

/// Columns of a terminal that does not say how many it has.
const WIDTH: usize = 80;
/// Fewer columns than a terminal can have: it does not know.
const WIDTH_MIN: usize = 20;

/// Takes `value` as the result of the command.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    records::whole(value)
}

/// Standard output, for bytes that are no line.
pub fn out() -> io::StdoutLock<'static> {
    wheel::give_way();
    io::stdout().lock()
}

/// Writes a line, or the lines of a grid, to standard output. A name in it, as of a folder, does nothing to a terminal.
pub fn line(text: &str) -> io::Result<()> {
    let mut out = out();
    let is_layout = |it: char| it == '\n' || it == '\t';
    if text.chars().any(|it| it.is_control() && !is_layout(it)) {
        let shown = text.split_inclusive(is_layout).map(|part| {
            let inside = part.trim_end_matches(is_layout);
            without_control(inside) + &part[inside.len()..]
        });
        out.write_all(shown.collect::<String>().as_bytes())?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    // An empty grid is no line.
    if text.is_empty() { Ok(()) } else { out.write_all(b"\n") }
}

/// Whether a person reads the output, and no program.
pub fn is_seen() -> bool {
    io::stdout().is_terminal()
}

/// Writes one line around records, which is for people only.
pub fn aside(text: &str) -> io::Result<()> {
    if is_seen() { line(text) } else { Ok(()) }
}

/// How many bytes of a value are printed: all, but to a terminal `most` unless `full`, because who looks
/// on sees nothing else otherwise.
pub fn value_bytes(most: usize, full: bool) -> usize {
    if full || !is_seen() { usize::MAX } else { most }
}

/// Rows of cells. Shown with borders on a terminal, piped as one row a line with tabs between the cells.
/// Nothing is ever broken: what is wider than the terminal is shown row by row, a cell a line.
#[derive(Debug)]
pub struct Grid {
    titles: Vec<String>,
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

/// An empty grid with `header`; columns whose title starts with `>` are aligned to the right.
pub fn table(header: &[&str]) -> Grid {
    Grid {
        titles: header.iter().map(|title| title.trim_start_matches('>').to_owned()).collect(),
        right: header.iter().map(|title| title.starts_with('>')).collect(),
        rows: Vec::new(),
    }
}

/// A grid of a name and a value a row, without a header.
pub fn record(rows: &[(&str, String)]) -> Grid {
    let rows =
        rows.iter().map(|(name, value)| vec![(*name).to_owned(), without_control(value)]).collect();
    Grid { titles: Vec::new(), right: vec![false, true], rows }
}

impl Grid {
    /// Adds a row.
    pub fn add_row(&mut self, row: Vec<String>) {
        self.rows.push(row.into_iter().map(|cell| without_control(&cell)).collect());
    }

    /// One row a line.
    fn piped(&self) -> String {
        let line = |row: &Vec<String>| row.join("\t");
        self.rows.iter().map(line).collect::<Vec<_>>().join("\n")
    }

    /// With borders, without them where that is wider than `width`, or a cell a line where that is, too.
    fn drawn(&self, width: usize) -> String {
        for borders in [true, false] {
            let drawn = self.in_columns(borders);
            if drawn.lines().all(|line| line.width() <= width) {
                return drawn;
            }
        }
        self.expanded()
    }

    /// A row a line, its cells below each other.
    fn in_columns(&self, borders: bool) -> String {
        let mut table = comfy_table::Table::new();
        table.load_preset(if borders { UTF8_FULL_CONDENSED } else { NOTHING });
        table.set_content_arrangement(ContentArrangement::Disabled);
        if !self.titles.is_empty() {
            table.set_header(&self.titles);
        }
        for row in &self.rows {
            table.add_row(row.iter().zip(&self.right).map(|(cell, right)| {
                let side = if *right { CellAlignment::Right } else { CellAlignment::Left };
                Cell::new(cell).set_alignment(side)
            }));
        }
        for (column, right) in table.column_iter_mut().zip(&self.right) {
            if !borders {
                column.set_padding((0, 2));
            }
            if *right {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let drawn = table.to_string();
        drawn.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    /// A cell a line, an empty line between rows.
    fn expanded(&self) -> String {
        let titled =
            |row: &Vec<String>| {
                if self.titles.is_empty() {
                    return row.join(": ");
                }
                let named = self.titles.iter().zip(row).filter(|(_, cell)| !cell.is_empty());
                let lines = named.map(|(title, cell)| {
                    if title.is_empty() { cell.clone() } else { format!("{title}: {cell}") }
                });
                lines.collect::<Vec<_>>().join("\n")
            };
        let between = if self.titles.is_empty() { "\n" } else { "\n\n" };
        self.rows.iter().map(titled).collect::<Vec<_>>().join(between)
    }
}

impl Display for Grid {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !is_seen() {
            return f.write_str(&self.piped());
        }
        f.write_str(&self.drawn(width()))
    }
}

/// Columns of the terminal that standard output is.
fn width() -> usize {
    let width = terminal_size::terminal_size().map_or(0, |(width, _)| usize::from(width.0));
    if width < WIDTH_MIN { WIDTH } else { width }
}

/// `text` with its control characters as escapes, and nothing else.
pub fn without_control(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                shown.push_str("\\x");
                shown.push_str(&hex::encode(&[byte]));
            }
        } else {
            shown.push(character);
        }
    }
    shown
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
    let duration = duration + 0.0; // the sum of nothing is -0
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
    fn a_grid_breaks_nothing_at_any_width() {
        let mut grid = table(&["name", ">size"]);
        let long = "n".repeat(100);
        grid.add_row(vec![long.clone(), "1".to_owned()]);
        grid.add_row(vec!["a\tb".to_owned(), "2".to_owned()]);
        assert_eq!(grid.piped(), format!("{long}\t1\na\\x09b\t2"));
        assert!(grid.drawn(200).lines().any(|line| line.contains(&long) && line.contains('│')));
        assert_eq!(grid.drawn(80), format!("name: {long}\nsize: 1\n\nname: a\\x09b\nsize: 2"));
        let mut grid = table(&["name", ">size", "hash"]);
        grid.add_row(vec!["alice".to_owned(), "1".to_owned(), "CoV8".to_owned()]);
        assert_eq!(grid.drawn(19), "name   size  hash\nalice     1  CoV8");
        assert_eq!(grid.drawn(16), "name: alice\nsize: 1\nhash: CoV8");
        assert_eq!(record(&[("on disk", "5 B".to_owned())]).drawn(10), "on disk: 5 B");
    }

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
        assert_eq!(seconds(-0.0), "0.0 µs");
        assert_eq!(bar(1.0, 2.0, 4), "██");
        assert_eq!(bar(0.0, 2.0, 4), "");
    }
}

//! Summaries and comparisons as one page that needs nothing else: no script, no network.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::compare::{Change, Comparison, Only};
use super::plot::{Chart, Line, Scale, escaped, short};
use super::summary::{Row, Summary};

/// Rows of a table.
const ROWS: usize = 60;

/// Actions whose distributions are shown.
const DISTRIBUTIONS: usize = 8;

const STYLE: &str = include_str!("page.css");

fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{0}</title><style>{STYLE}</style></head><body><main><h1>{0}</h1>\n{body}</main></body></html>\n",
        escaped(title)
    )
}

/// A summary as a page.
#[must_use]
pub fn summary_page(summary: &Summary) -> String {
    let mut body = tiles(summary);
    body.push_str("<h2>Over time</h2><div class=\"charts\">");
    body.push_str(&timeline(summary));
    body.push_str(&rate(&[summary]));
    body.push_str(&samples(&[summary]));
    body.push_str("</div><h2>Latency</h2><div class=\"charts\">");
    let lines = summary.actions.iter().take(DISTRIBUTIONS).filter_map(|row| {
        let points = summary.distributions.get(row.action)?.clone();
        Some(Line { name: row.action, points })
    });
    body.push_str(&distribution("Calls that took no longer", lines.collect()));
    body.push_str("</div><h2>Actions</h2>");
    body.push_str(&actions(&summary.actions));
    body.push_str("<h2>Actions by prefix</h2>");
    body.push_str(&actions(&summary.prefixes));
    body.push_str("<h2>Slowest blocks</h2>");
    body.push_str(&worst(summary));
    page(&format!("Trace {}", summary.name), &body)
}

/// A comparison as a page.
#[must_use]
pub fn comparison_page(comparison: &Comparison) -> String {
    let runs: Vec<&Summary> = comparison.runs.iter().collect();
    let mut body = String::from(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"table\"><table><thead><tr><th>run</th><th>calls</th><th>seconds</th><th>in calls s</th>\
         <th>blocks</th><th>blocks/s</th><th>tx/s</th><th>block p50 ms</th><th>p99 ms</th><th>max ms</th><th>ended</th></tr></thead><tbody>",
    );
    for run in &runs {
        let latency = &run.block_latency;
        let ms = |us: f64| format!("{:.2}", us / 1e3);
        let cells = [
            short(run.calls as f64),
            format!("{:.2}", run.seconds),
            format!("{:.2}", run.busy_seconds),
            short(run.blocks as f64),
            format!("{:.1}", run.blocks_per_second),
            run.transactions_per_second.map_or("–".to_owned(), |it| format!("{it:.1}")),
            ms(latency.p50_us),
            ms(latency.p99_us),
            ms(latency.max_us),
            if run.is_ended { "yes" } else { "no" }.to_owned(),
        ];
        row(&mut body, &run.name, &cells);
    }
    body.push_str("</tbody></table></div>");
    body.push_str("<h2>What got worse</h2>");
    body.push_str(&changes(&comparison.worse));
    body.push_str("<h2>What got better</h2>");
    body.push_str(&changes(&comparison.better));
    body.push_str(&only(&comparison.only));
    body.push_str("<h2>Latency</h2><div class=\"charts\">");
    if let Some(first) = runs.first() {
        for action in first.actions.iter().take(DISTRIBUTIONS) {
            let lines = runs.iter().filter_map(|run| {
                let points = run.distributions.get(action.action)?.clone();
                Some(Line { name: &run.name, points })
            });
            body.push_str(&distribution(action.action, lines.collect()));
        }
    }
    body.push_str("</div><h2>Over time</h2><div class=\"charts\">");
    let lines = runs.iter().map(|run| {
        let points = run.timeline.iter().map(|point| (point.second, point.p50_ms)).collect();
        Line { name: &run.name, points }
    });
    let (x, y) = (("seconds", Scale::Linear), ("ms", Scale::Logarithmic));
    let chart = Chart { title: "Time in calls of a block, median", x, y, lines: lines.collect() };
    body.push_str(&chart.figure());
    body.push_str(&rate(&runs));
    body.push_str(&samples(&runs));
    body.push_str("</div>");
    page("Traces beside each other", &body)
}

fn tiles(summary: &Summary) -> String {
    let latency = &summary.block_latency;
    let mut tiles = vec![
        ("calls", short(summary.calls as f64)),
        ("calls a second", short(summary.calls_per_second)),
        ("blocks", short(summary.blocks as f64)),
        ("blocks a second", format!("{:.1}", summary.blocks_per_second)),
        (
            "block p50 / p99",
            format!("{:.1} / {:.1} ms", latency.p50_us / 1e3, latency.p99_us / 1e3),
        ),
        ("slowest block", format!("{:.1} ms", latency.max_us / 1e3)),
        ("recorded", format!("{:.1} s", summary.seconds)),
        ("in calls", format!("{:.1} s", summary.busy_seconds)),
        ("calls that failed", short(summary.failed as f64)),
        ("trace", format!("{}B", short(summary.bytes as f64))),
    ];
    if let (Some(count), Some(rate)) = (summary.transactions, summary.transactions_per_second) {
        tiles.push(("transactions", short(count as f64)));
        tiles.push(("transactions a second", format!("{rate:.1}")));
    }
    if !summary.is_ended {
        tiles.push(("the recording", "was not ended".to_owned()));
    }
    if summary.cut_bytes > 0 {
        tiles.push(("cut off", format!("{}B", short(summary.cut_bytes as f64))));
    }
    let mut text = String::from("<dl class=\"tiles\">");
    for (name, value) in tiles {
        let _ = write!(text, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&value));
    }
    text + "</dl>"
}

fn timeline(summary: &Summary) -> String {
    let line = |name, of: fn(&super::summary::Point) -> f64| Line {
        name,
        points: summary.timeline.iter().map(|point| (point.second, of(point))).collect(),
    };
    Chart {
        title: "Time in calls of a block",
        x: ("seconds", Scale::Linear),
        y: ("ms", Scale::Logarithmic),
        lines: vec![
            line("p50", |point| point.p50_ms),
            line("p90", |point| point.p90_ms),
            line("p99", |point| point.p99_ms),
            line("slowest", |point| point.max_ms),
        ],
    }
    .figure()
}

/// Calls a second, and transactions where a host told of them.
fn rate(runs: &[&Summary]) -> String {
    let chart = |title, runs: &[&Summary], of: fn(&super::summary::Point) -> u64| {
        let line = |run: &&Summary| {
            let points = run.timeline.iter();
            points.map(|point| (point.second, of(point) as f64 / point.seconds)).collect()
        };
        let lines = runs.iter().map(|run| Line { name: &run.name, points: line(run) }).collect();
        let (x, y) = (("seconds", Scale::Linear), ("a second", Scale::Linear));
        Chart { title, x, y, lines }.figure()
    };
    let mut text = chart("Calls a second, of the blocks that ended", runs, |point| point.calls);
    let told: Vec<_> = runs.iter().copied().filter(|run| run.transactions.is_some()).collect();
    if !told.is_empty() {
        text += &chart("Transactions a second", &told, |point| point.transactions);
    }
    text
}

/// What the host measured.
fn samples(runs: &[&Summary]) -> String {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.samples.keys()).collect();
    let mut text = String::new();
    for name in names {
        let lines = runs.iter().filter_map(|run| {
            let points = run.samples.get(name)?;
            let scale = if name.ends_with("_ns") { 1e9 } else { 1.0 };
            let points = points.iter().map(|(second, value)| (*second, *value as f64 / scale));
            Some(Line { name: &run.name, points: points.collect() })
        });
        let title = match name.as_str() {
            "cpu_ns" => "Processor time, seconds",
            "rss_bytes" => "Memory, bytes",
            "read_bytes" => "Read from the disk, bytes",
            "written_bytes" => "Written to the disk, bytes",
            "major_faults" => "Page faults that read",
            "disk_bytes" => "Store on disk, bytes",
            "transactions" => "Transactions so far",
            other => other,
        };
        let (x, y) = (("seconds", Scale::Linear), ("", Scale::Linear));
        text.push_str(&Chart { title, x, y, lines: lines.collect() }.figure());
    }
    text
}

fn distribution(title: &str, lines: Vec<Line<'_>>) -> String {
    let (x, y) = (("µs", Scale::Logarithmic), ("share of calls", Scale::Linear));
    Chart { title, x, y, lines }.figure()
}

fn row(to: &mut String, name: &str, cells: &[String]) {
    let _ = write!(to, "<tr><th>{}</th>", escaped(name));
    for cell in cells {
        let _ = write!(to, "<td>{}</td>", escaped(cell));
    }
    to.push_str("</tr>");
}

fn actions(rows: &[Row]) -> String {
    let mut text = String::from(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"table\"><table><thead><tr><th>action</th><th>calls</th><th>total ms</th><th>mean µs</th>\
         <th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>max µs</th><th>given</th><th>found</th><th>share of time</th></tr></thead><tbody>",
    );
    let all: f64 = rows.iter().map(|row| row.total_ms).sum::<f64>().max(f64::MIN_POSITIVE);
    for it in rows.iter().take(ROWS) {
        let latency = &it.latency;
        let cells = [
            short(it.calls as f64),
            format!("{:.1}", it.total_ms),
            short(latency.mean_us),
            short(latency.p50_us),
            short(latency.p90_us),
            short(latency.p99_us),
            short(latency.p999_us),
            short(latency.max_us),
            short(it.bytes_given as f64),
            short(it.found as f64),
        ];
        row(&mut text, format!("{} {}", it.action, it.prefix).trim_end(), &cells);
        let end = text.len() - "</tr>".len();
        text.truncate(end);
        let share = it.total_ms / all * 100.0;
        let _ = write!(
            text,
            "<td><svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">\
             <rect width=\"{share:.1}\" height=\"10\"/></svg></td></tr>"
        );
    }
    text + "</tbody></table></div>" + &more(rows.len())
}

fn worst(summary: &Summary) -> String {
    if summary.worst_blocks.is_empty() {
        return "<p>The trace has neither commits nor marks.</p>".to_owned();
    }
    let mut text = String::from(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"table\"><table><thead><tr><th>block</th><th>number</th><th>ended at s</th><th>calls</th>\
         <th>total ms</th><th>commit ms</th></tr></thead><tbody>",
    );
    for block in &summary.worst_blocks {
        let cells = [
            block.number.to_string(),
            format!("{:.2}", block.second),
            block.calls.to_string(),
            format!("{:.2}", block.total_ms),
            format!("{:.2}", block.commit_ms),
        ];
        row(&mut text, &block.name, &cells);
    }
    text + "</tbody></table></div>"
}

/// Nothing where every run called the same actions.
fn only(only: &[Only]) -> String {
    if only.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h2>Called in one of two runs</h2><div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"table\"><table><thead><tr><th>action</th>\
         <th>beside the first</th><th>called by</th><th>calls</th><th>total ms</th></tr></thead><tbody>",
    );
    for it in only.iter().take(ROWS) {
        let by = if it.is_first { "the first" } else { "this one" };
        let cells = [it.run.clone(), by.to_owned(), short(it.calls as f64), short(it.total_ms)];
        row(&mut text, it.action, &cells);
    }
    text + "</tbody></table></div>" + &more(only.len())
}

fn changes(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "<p>Nothing by a twentieth.</p>".to_owned();
    }
    let mut text = String::from(
        "<div class=\"wide\" role=\"group\" tabindex=\"0\" aria-label=\"table\"><table><thead><tr><th>of</th><th>run</th><th>figure</th><th>first</th><th>this</th>\
         <th>ratio</th></tr></thead><tbody>",
    );
    for change in changes.iter().take(ROWS) {
        let cells = [
            change.run.clone(),
            change.figure.to_owned(),
            short(change.first),
            short(change.this),
            if change.ratio.is_finite() {
                format!("{:.2}", change.ratio)
            } else {
                "from 0".to_owned()
            },
        ];
        row(&mut text, &change.of, &cells);
    }
    text + "</tbody></table></div>" + &more(changes.len())
}

/// What a table of so many rows does not have.
fn more(rows: usize) -> String {
    let more = rows.saturating_sub(ROWS);
    if more == 0 { String::new() } else { format!("<p>and {more} more, in the JSON</p>") }
}
